//! kernbench `topology.yaml` files: SIPs, cubes and PEs as `package(..)` (TOPO-2, TOPO-3).
//!
//! This module owns the keys of such a file. Keys that give the number of components are at fixed
//! places. Blocks of links and components are nested differently in every version of the format. So
//! bandwidths, overheads, positions and lengths are recognised by the name of the key and the
//! component that contains it. An unknown key is ignored with a warning. [`kbc_machine::topology`]
//! defines the machine itself.

mod names;
mod walk;

use super::tree::{Key, Node, NodeKind};
use super::{MachineFile, Reader};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, Span, Spanned};
use kbc_machine::topology::{Compute, Dimension, Quantity, SettingValue, Shape};
use names::{Component, KeyQuantity, SECTIONS};
use walk::{ComponentKey, Walk, ill};

/// Returns whether the keys of a file are those of such a machine.
pub(super) fn is_one(keys: &[(Key, Node)]) -> bool {
    keys.iter().any(|(k, _)| SECTIONS.contains(&k.name.as_str()))
}

/// Reads the keys that are not kbc's own into a machine.
pub(super) fn read(
    reader: &Reader<'_>,
    keys: &[&(Key, Node)],
    out: &mut MachineFile,
    found: &mut Diagnostics,
) {
    let mut walk = Walk { reader, found, leaves: vec![], fixed: vec![], warnings: vec![] };
    for (key, node) in keys {
        walk.key(key, node, &mut vec![]);
    }
    let Walk { leaves, fixed, warnings, .. } = walk;
    warnings.into_iter().for_each(|w| out.warnings.push(w));
    let file = File { reader, fixed, root: reader.0.span(reader.0.root.number) };
    let shape = file.shape(&mut out.warnings, found);
    file.memory(&leaves, shape.as_ref(), out, found);
    file.settings(&leaves, out, found);
    // In the kernbench machine, the arithmetic and vector work of a PE share one slot, and its DMA
    // has one channel per direction (docs/reference/machine.md).
    out.settings.compute.get_or_insert(Compute::Shared);
    out.settings.dma.get_or_insert(1);
    out.shape = shape.map(|s| Spanned::new(s, file.at("system.sips.count")));
}

/// The size of a burst in bytes if the file does not give it (docs/reference/machine.md).
const BURST: f64 = 256.0;

/// The file, with its keys at fixed places.
struct File<'r, 't> {
    reader: &'r Reader<'t>,
    fixed: Vec<(&'static str, Node)>,
    root: Span,
}

impl File<'_, '_> {
    fn node(&self, path: &str) -> Option<&Node> {
        self.fixed.iter().find(|f| f.0 == path).map(|f| &f.1)
    }

    /// Returns the place of a key, or of the whole file if the key is absent.
    fn at(&self, path: &str) -> Span {
        self.node(path).map_or(self.root, |n| self.reader.0.span(n.number))
    }

    /// Returns the value of a key that is a whole number of at least 1.
    fn count(&self, path: &str, found: &mut Diagnostics) -> Option<u32> {
        let node = self.node(path)?;
        let value = match &node.kind {
            NodeKind::Scalar(text) => text.parse::<u32>().ok().filter(|n| *n >= 1),
            _ => None,
        };
        if value.is_none() {
            found.push(ill(&format!("`{path}` must be an integer of at least 1"), node, self.at(path)));
        }
        value
    }

    /// Returns the value of a key that is a non-negative number.
    fn number(&self, path: &str, found: &mut Diagnostics) -> Option<f64> {
        let node = self.node(path)?;
        let value = match &node.kind {
            NodeKind::Scalar(text) => text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0),
            _ => None,
        };
        if value.is_none() {
            found.push(ill(&format!("`{path}` must be a number of at least 0"), node, self.at(path)));
        }
        value
    }

    fn shape(&self, warnings: &mut Diagnostics, found: &mut Diagnostics) -> Option<Shape> {
        let before = found.list.len();
        let sips = self.sips(warnings, found);
        let [h, w] = ["sip.cube_mesh.h", "sip.cube_mesh.w"].map(|p| self.count(p, found).unwrap_or(1));
        let corners = match self.node("cube.pe_layout.corners").map(|n| &n.kind) {
            None => 1,
            Some(NodeKind::Map(named)) if !named.is_empty() => named.len() as u32,
            Some(NodeKind::List(named)) if !named.is_empty() => named.len() as u32,
            Some(_) => self.count("cube.pe_layout.corners", found).unwrap_or(1),
        };
        let each = self.count("cube.pe_layout.pe_per_corner", found).unwrap_or(1);
        if found.list.len() > before {
            return None;
        }
        Some(Shape::Package { sips: Box::new(sips?), cubes: [h, w], pes: corners.saturating_mul(each) })
    }

    fn sips(&self, warnings: &mut Diagnostics, found: &mut Diagnostics) -> Option<Shape> {
        let given = self.count("system.sips.count", found);
        let (w, h) = (self.count("system.sips.w", found), self.count("system.sips.h", found));
        let count = given.or(w.zip(h).and_then(|(w, h)| w.checked_mul(h))).unwrap_or(1);
        const NAMES: [&str; 3] = ["ring_1d", "torus_2d", "mesh_2d_no_wrap"];
        let name = match self.node("system.sips.topology") {
            None => NAMES[0],
            Some(node) => {
                let word = if let NodeKind::Scalar(text) = &node.kind { text.as_str() } else { "" };
                match NAMES.iter().find(|n| **n == word) {
                    Some(name) => name,
                    None => {
                        let near =
                            nearest(word, NAMES).map_or(String::new(), |n| format!("did you mean `{n}`? "));
                        let d = ill(
                            "`system.sips.topology` must be the name of a topology",
                            node,
                            self.at("system.sips.topology"),
                        );
                        found.push(d.help(format!("{near}The topologies are {}", NAMES.join(", "))));
                        return None;
                    }
                }
            }
        };
        let fault = |title: String, at: Span| {
            Diagnostic::error("E463", title).primary(at, "this topology has rows and columns").help(
                "give both sides with `sips.w` and `sips.h`: for six SIPs write `w: 3, h: 2` or `w: 2, h: 3`",
            )
        };
        let product = w.map_or(1, u64::from) * h.map_or(1, u64::from);
        let fits = if w.is_some() && h.is_some() {
            product == u64::from(count)
        } else {
            u64::from(count).is_multiple_of(product)
        };
        if name == NAMES[0] {
            if !fits {
                let at = self.at(if w.is_some() { "system.sips.w" } else { "system.sips.h" });
                let d = Diagnostic::warning(
                    "E466",
                    format!("kbc ignores `sips.w/h`: the {count} SIPs form a ring"),
                );
                warnings.push(
                    d.primary(at, "a ring has no sides")
                        .help("`sips.w/h` are the sides of torus_2d and mesh_2d_no_wrap"),
                );
            }
            return Some(Shape::Ring(count));
        }
        if !fits {
            let sides = [("w", w), ("h", h)]
                .iter()
                .filter_map(|(n, s)| Some(format!("{n} {}", (*s)?)))
                .collect::<Vec<_>>();
            let title = format!("{count} SIPs do not fit `sips.w/h`, which are {}", sides.join(" and "));
            let at = if w.is_some() { "system.sips.w" } else { "system.sips.h" };
            found.push(Diagnostic { code: "E462", ..fault(title, self.at(at)) });
            return None;
        }
        let root = count.isqrt();
        let (rows, columns) = match (h, w) {
            (Some(h), Some(w)) => (h, w),
            (Some(h), None) => (h, count / h),
            (None, Some(w)) => (count / w, w),
            (None, None) if root * root == count => (root, root),
            (None, None) => {
                let title =
                    format!("{count} SIPs as {name} need `sips.w/h`, because {count} is not a square");
                found.push(fault(title, self.at("system.sips.count")));
                return None;
            }
        };
        let sides = vec![rows, columns];
        Some(if name == NAMES[1] { Shape::Torus(sides) } else { Shape::Mesh(sides) })
    }

    /// Reads the number and the size of the HBM slices, which a machine with HBM must give.
    fn memory(
        &self,
        leaves: &[ComponentKey],
        shape: Option<&Shape>,
        out: &mut MachineFile,
        found: &mut Diagnostics,
    ) {
        let keys = ["cube.memory_map.hbm_total_gb_per_cube", "cube.memory_map.hbm_slices_per_cube"];
        let used = leaves.iter().find(|l| matches!(l.part, Component::Hbm | Component::Channel));
        let given = keys.map(|k| self.node(k).is_some());
        if used.is_none() && given == [false, false] {
            return;
        }
        for (key, given) in keys.into_iter().zip(given) {
            if !given {
                let other = keys.into_iter().find(|k| self.node(k).is_some());
                let at = other.map(|k| self.at(k)).or(used.map(|l| l.span)).unwrap_or(self.root);
                found.push(
                    Diagnostic::error("E463", format!("a cube with HBM needs `{key}`"))
                        .primary(at, "this is a value of HBM")
                        .help(format!(
                            "add `{}: ..` to `cube.memory_map`",
                            key.rsplit('.').next().unwrap_or(key)
                        )),
                );
            }
        }
        let (total, slices) = (self.number(keys[0], found), self.count(keys[1], found));
        let (Some(total), Some(slices)) = (total, slices) else { return };
        if let Some(Shape::Package { pes, .. }) = shape
            && slices < *pes
        {
            let title = format!("a cube has {pes} PEs and only {slices} slices of HBM");
            let d = Diagnostic::error("E462", title).primary(self.at(keys[1]), "fewer slices than PEs");
            found.push(d.help("every PE needs its own slice: give at least as many slices as PEs"));
            return;
        }
        let size =
            Quantity { amount: total * (1u64 << 30) as f64 / f64::from(slices), dimension: Dimension::Bytes };
        self.set(out, found, "hbm_size", &[SettingValue::Quantity(size)], self.at(keys[0]));
    }

    fn settings(&self, leaves: &[ComponentKey], out: &mut MachineFile, found: &mut Diagnostics) {
        if let Some(v) = self.number("system.ns_per_mm", found) {
            self.set(out, found, "ns_per_mm", &[SettingValue::Number(v)], self.at("system.ns_per_mm"));
        }
        // Each of these settings has one value. If it is given twice, both values must be equal.
        let one =
            |part: Component, quantity: KeyQuantity, found: &mut Diagnostics| -> Option<&ComponentKey> {
                let mut all = leaves.iter().filter(|l| l.part == part && l.quantity == quantity);
                let first = all.next()?;
                if let Some(other) = all.find(|l| l.value != first.value) {
                    let title = format!("contradictory values {} and {}", first.value, other.value);
                    found.push(
                        Diagnostic::error("E462", title)
                            .primary(other.span, "the second value")
                            .secondary(first.span, "the first value")
                            .help("kbc models all parts of one kind with the same values"),
                    );
                }
                Some(first)
            };
        let rate = |v: f64| {
            SettingValue::Quantity(Quantity { amount: v * 1e9, dimension: Dimension::BytesPerSecond })
        };
        let ns = |v: f64| SettingValue::Quantity(Quantity { amount: v, dimension: Dimension::Nanoseconds });
        let ways = [
            one(Component::Pe, KeyQuantity::Overhead, found),
            one(Component::Dma, KeyQuantity::Overhead, found),
        ];
        if let Some(last) = ways.iter().flatten().last() {
            let sum = ways.iter().flatten().map(|l| l.value).sum();
            self.set(out, found, "pe_node", &[ns(sum)], last.span);
        }
        for (part, name) in [
            (Component::Router, "router_node"),
            (Component::Hbm, "hbm_node"),
            (Component::Sram, "sram_node"),
            (Component::Port, "port_node"),
            (Component::Io, "io_node"),
        ] {
            if let Some(l) = one(part, KeyQuantity::Overhead, found) {
                self.set(out, found, name, &[ns(l.value)], l.span);
            }
        }
        let channels = one(Component::Hbm, KeyQuantity::Channels, found).zip(one(
            Component::Channel,
            KeyQuantity::Bandwidth,
            found,
        ));
        let burst = one(Component::Hbm, KeyQuantity::Burst, found);
        if let Some((n, each)) = channels.filter(|c| c.1.value > 0.0) {
            let bytes = Quantity { amount: burst.map_or(BURST, |b| b.value), dimension: Dimension::Bytes };
            let values = [SettingValue::Number(n.value), rate(each.value), SettingValue::Quantity(bytes)];
            self.set(out, found, "hbm_channels", &values, burst.unwrap_or(each).span);
        }
        if let Some(l) = one(Component::Hbm, KeyQuantity::Penalty, found).filter(|l| l.value > 0.0) {
            self.set(out, found, "hbm_switch", &[ns(l.value)], l.span);
        }
        for (part, name) in [
            (Component::Pe, "pe_link"),
            (Component::Dma, "pe_link"),
            (Component::Hbm, "hbm_link"),
            (Component::Sram, "sram_link"),
            (Component::Io, "io_link"),
            (Component::Sip, "sip_link"),
        ] {
            if let Some(l) = one(part, KeyQuantity::Bandwidth, found).filter(|l| l.value > 0.0) {
                self.set(out, found, name, &[rate(l.value)], l.span);
            }
        }
        if let Some(l) = one(Component::Port, KeyQuantity::Bandwidth, found).filter(|l| l.value > 0.0) {
            let count = one(Component::Port, KeyQuantity::Connections, found).map_or(1.0, |c| c.value);
            self.set(out, found, "cube_link", &[rate(l.value), SettingValue::Number(count)], l.span);
        }
        for (part, name) in [
            (Component::Hbm, "hbm_wire"),
            (Component::Sram, "sram_wire"),
            (Component::Port, "cube_wire"),
            (Component::Io, "io_wire"),
            (Component::Sip, "sip_wire"),
            (Component::Pe, "pe_wire"),
        ] {
            if let Some(l) = one(part, KeyQuantity::Length, found) {
                self.set(out, found, name, &[SettingValue::Number(l.value)], l.span);
            }
        }
        self.positions(leaves, out, found);
        for l in leaves {
            let why = match (l.part, l.quantity) {
                (Component::Inside, KeyQuantity::Overhead) if l.value > 0.0 => {
                    "no message goes through this part of a PE"
                }
                (Component::Inside, KeyQuantity::Bandwidth) if l.value > 0.0 => {
                    "no message goes through this part of a PE"
                }
                (Component::Router, KeyQuantity::Bandwidth) if l.value > 0.0 => {
                    "the bandwidth of a router's link is that of the other end of the link"
                }
                _ => continue,
            };
            let d = Diagnostic::warning("E466", "kbc ignores this value").primary(l.span, why);
            out.warnings.push(d.help("docs/reference/machine.md lists the keys that kbc uses"));
        }
    }

    /// Sets the lengths of wires to the distances between positions in a cube, where the lengths
    /// are not given.
    fn positions(&self, leaves: &[ComponentKey], out: &mut MachineFile, found: &mut Diagnostics) {
        let placed = |part: Component| leaves.iter().filter(move |l| l.part == part && l.place.is_some());
        let router = placed(Component::Router).find(|l| l.cube).and_then(|l| l.place);
        let said = |part: Component| {
            part != Component::Port
                && leaves.iter().any(|l| l.part == part && l.quantity == KeyQuantity::Length)
        };
        for (part, name) in [
            (Component::Pe, "pe_wire"),
            (Component::Hbm, "hbm_wire"),
            (Component::Sram, "sram_wire"),
            (Component::Port, "port_wire"),
        ] {
            let lengths: Vec<(f64, Span)> = placed(part)
                .filter(|l| l.cube)
                .filter_map(|l| Some(((l.place?[0] - router?[0]).hypot(l.place?[1] - router?[1]), l.span)))
                .collect();
            let Some(&(_, span)) = lengths.first().filter(|_| !said(part)) else { continue };
            if part == Component::Pe && lengths.len() <= 4 {
                let list: Vec<SettingValue> = lengths.iter().map(|l| SettingValue::Number(l.0)).collect();
                self.set(out, found, name, &list, span);
                continue;
            }
            let longest = lengths.iter().fold(0.0, |m: f64, l| m.max(l.0));
            self.set(out, found, name, &[SettingValue::Number(longest)], span);
            if let Some(other) = lengths.iter().find(|l| (l.0 - longest).abs() > 1e-9) {
                let d = Diagnostic::warning(
                    "E466",
                    format!(
                        "the wires of `{name}` have different lengths; kbc uses the longest for all of them"
                    ),
                )
                .primary(other.1, "this one is shorter");
                out.warnings.push(d.help("docs/reference/machine.md lists the keys that kbc uses"));
            }
        }
        let lost = leaves.iter().filter(|l| l.place.is_some()).find(|l| !l.cube || router.is_none());
        if let Some(l) = lost.filter(|l| !said(l.part)) {
            let d = Diagnostic::warning("E466", "kbc ignores this position")
                .primary(l.span, "the router of the cube has no position");
            out.warnings.push(d.help(
                "give the length of the wire with `distance_mm`, or give the cube's router a `pos_mm`",
            ));
        }
    }

    fn set(
        &self,
        out: &mut MachineFile,
        found: &mut Diagnostics,
        name: &str,
        values: &[SettingValue],
        at: Span,
    ) {
        let values: Vec<Spanned<SettingValue>> = values.iter().map(|v| Spanned::new(v.clone(), at)).collect();
        // kbc's own keys in the file take precedence, and have already been read.
        let mut own = kbc_machine::topology::Settings::default();
        match own.set(&Spanned::new(name.to_owned(), at), &values) {
            Ok(()) => out.settings = out.settings.over(&own),
            Err(d) => found.push(d),
        }
    }
}
