//! Placements inside devices: the `placement` section of a machine file, which states how cubes and
//! PEs of a device share its tensors (TOPO-6).
//!
//! This module owns the keys. [`kbc_machine::placement`] defines policies, their splits and limits.

use super::Reader;
use super::tree::{Key, Node, NodeKind};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_machine::policy::{DevicePlacement, Placements, Policy};

/// The name of the entry for tensors that have no entry of their own.
const OTHERS: &str = "default";

const KEYS: [&str; 4] = ["cube", "pe", "num_cubes", "num_pes"];

/// Reads the section.
///
/// # Errors
/// Returns E461 and E462 for keys and values, and E469 for an axis that is not inside a device.
pub(super) fn section(reader: &Reader<'_>, node: &Node) -> Result<Placements, Diagnostics> {
    let mut found = Diagnostics::new();
    let mut out = Placements::default();
    let Some(entries) = reader.map(node, "`placement`", &mut found) else { return Err(found) };
    for (key, node) in entries {
        let Some(keys) = reader.map(node, &format!("`placement.{}`", key.name), &mut found) else { continue };
        match entry(reader, keys) {
            Ok(p) if key.name == OTHERS => out.others = Some(p),
            Ok(p) => out.named.push((key.name.clone(), p)),
            Err(d) => found.extend(d),
        }
    }
    if found.has_errors() { Err(found.finish()) } else { Ok(out) }
}

fn entry(reader: &Reader<'_>, keys: &[(Key, Node)]) -> Result<DevicePlacement, Diagnostics> {
    let mut found = Diagnostics::new();
    let mut out =
        DevicePlacement { cube: Policy::Replicate, pe: Policy::Replicate, num_cubes: None, num_pes: None };
    for (key, node) in keys {
        let text = if let NodeKind::Scalar(text) = &node.kind { text.as_str() } else { "" };
        let mut policy = || {
            let known = Policy::parse(text);
            if known.is_none() {
                let names = Policy::ALL.map(|p| p.0);
                let near = nearest(text, names).map_or(String::new(), |n| format!("did you mean `{n}`? "));
                found.push(
                    Diagnostic::error(
                        "E462",
                        format!("`{}` must be a policy, and this is `{text}`", key.name),
                    )
                    .primary(reader.0.span(node.number), "not a policy")
                    .help(format!("{near}The policies are {}", names[..5].join(", "))),
                );
            }
            known.unwrap_or(Policy::Replicate)
        };
        match key.name.as_str() {
            "cube" => out.cube = policy(),
            "pe" => out.pe = policy(),
            name @ ("num_cubes" | "num_pes") => match text.parse::<u64>().ok().filter(|n| *n >= 1) {
                Some(n) if name == "num_cubes" => out.num_cubes = Some(n),
                Some(n) => out.num_pes = Some(n),
                None => found.push(reader.kind(node, &format!("`{name}` must be an integer of at least 1"))),
            },
            name if name.starts_with("sip") || name.starts_with("num_sip") => {
                let policy = Policy::parse(text);
                let example = match policy {
                    Some(Policy::RowWise) => "`x: f32[n@sip, m]`",
                    Some(Policy::Replicate) => "`x: f32[n, m]` without `@sip`",
                    _ => "`x: f32[n, m@sip]`",
                };
                found.push(
                    Diagnostic::error("E469", "a placement inside a device cannot use the axis `sip`")
                        .primary(reader.0.span(key.number), "this key places data inside a device; SIPs are devices")
                        .help(format!("remove `{name}` here, and write the split between SIPs in a type of the program: {example}")),
                );
            }
            _ => found.push(reader.unknown(key, &KEYS)),
        }
    }
    if found.has_errors() { Err(found.finish()) } else { Ok(out) }
}
