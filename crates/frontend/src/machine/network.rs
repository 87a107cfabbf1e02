//! Network files of ASTRA-sim's analytical backend: the keys `topology`, `npus_count`, `bandwidth`
//! and `latency`, each with one value per dimension, innermost first.
//!
//! This module owns those keys. Such a network becomes a hierarchy with a rate for each dimension
//! and ASTRA-sim's rules for links: store and forward, whole nanoseconds, and a gigabyte of 2^30
//! bytes (TOPO-1, IO-3).

use super::tree::{Key, Node, NodeKind};
use super::{MachineFile, Reader};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, Spanned};
use kbc_machine::topology::{AXIS_NAMES, MAX_DEVICES, Settings, Shape, Topology};

const KEYS: [&str; 4] = ["topology", "npus_count", "bandwidth", "latency"];
/// A constructor of a generator with one size.
type Make = fn(u32) -> Shape;
/// The names of topologies of a dimension, with their generators.
const SHAPES: [(&str, Make); 3] =
    [("Ring", Shape::Ring), ("FullyConnected", Shape::Full), ("Switch", Shape::Switch)];

/// Returns whether the keys of a file are those of a network. At least two of them must occur,
/// because a single one may be a mistake.
pub(super) fn is_one(keys: &[(Key, Node)]) -> bool {
    keys.iter().filter(|(k, _)| KEYS.contains(&k.name.as_str())).count() > 1
}

/// Reads a network.
///
/// # Errors
/// Returns E461 to E463 for keys and values, and E443 for a network that is too large.
pub(super) fn read(reader: &Reader<'_>, keys: &[(Key, Node)]) -> Result<MachineFile, Diagnostics> {
    let mut found = Diagnostics::new();
    keys.iter()
        .filter(|(k, _)| !KEYS.contains(&k.name.as_str()))
        .for_each(|(k, _)| found.push(reader.unknown(k, &KEYS)));
    let mut columns: Vec<Vec<Spanned<String>>> = vec![];
    for key in KEYS {
        match keys.iter().find(|(k, _)| k.name == key) {
            Some((_, node)) => columns.push(reader.column(key, node, &mut found)),
            None => found.push(reader.missing(&reader.0.root, key, "a network")),
        }
    }
    if found.has_errors() {
        return Err(found.finish());
    }
    let dimensions = columns[0].len();
    for (key, column) in KEYS.into_iter().zip(&columns).filter(|(_, c)| c.len() != dimensions) {
        let title = format!("`{key}` has {} values, and `topology` has {dimensions}", column.len());
        let at = keys.iter().find(|(k, _)| k.name == key).map(|(k, _)| reader.0.span(k.number));
        let d = Diagnostic::error("E462", title).help("give one value per dimension");
        found.push(at.into_iter().fold(d, |d, at| d.primary(at, "this key")));
    }
    let mut shapes = vec![];
    for (name, size) in columns[0].iter().zip(&columns[1]) {
        let known = SHAPES.iter().find(|s| s.0 == name.node);
        let count = size.node.parse::<u32>().ok().filter(|n| (1..=MAX_DEVICES).contains(&u64::from(*n)));
        if known.is_none() {
            found.push(unknown(name));
        }
        if count.is_none() {
            found.push(
                Diagnostic::error("E462", format!("{} is not a valid number of devices", size.node))
                    .primary(size.span, format!("1 to {MAX_DEVICES}")),
            );
        }
        shapes.extend(known.zip(count).map(|((_, shape), n)| shape(n)));
    }
    let mut rates = vec![];
    for (bandwidth, latency) in columns[2].iter().zip(&columns[3]) {
        let number = |v: &Spanned<String>, least: f64, unit: &str| {
            let n = v.node.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= least);
            n.ok_or_else(|| {
                let title = format!("{} is not a value in {unit}", v.node);
                Diagnostic::error("E462", title).primary(v.span, "expected a number")
            })
        };
        match (number(bandwidth, f64::MIN_POSITIVE, "GB/s"), number(latency, 0.0, "ns")) {
            (Ok(b), Ok(l)) => rates.push(format!("{b} GiB/s, {l} ns")),
            (b, l) => b.err().into_iter().chain(l.err()).for_each(|d| found.push(d)),
        }
    }
    if found.has_errors() {
        return Err(found.finish());
    }
    let shape = match &shapes[..] {
        [one] => one.clone(),
        _ => Shape::Hierarchy(shapes),
    };
    let Some(first) = rates.first() else {
        return Err(reader.kind(&reader.0.root, "a network needs at least one dimension").into());
    };
    let mut text = format!("{shape} {{ link: {first}; forward: store_and_forward; round: 1 ns");
    // The innermost dimension is the last axis.
    for (i, rate) in rates.iter().enumerate().filter(|(_, r)| *r != first) {
        let Some(axis) = AXIS_NAMES.get(dimensions - 1 - i) else { continue };
        text += &format!("; link {axis}: {rate}");
    }
    let written = Topology::parse_shape(&format!("{text} }}"), reader.0.file).map_err(|d| {
        // The span refers to the generated text, so it is replaced.
        Diagnostic { labels: vec![], ..d }.primary(reader.0.span(reader.0.root.number), "this network")
    })?;
    Ok(MachineFile {
        file: reader.0.file,
        shape: Some(Spanned::new(written.shape, reader.0.span(reader.0.root.number))),
        settings: written.settings,
        links: written.links,
        routes: written.routes,
        perturb: None,
        placements: Default::default(),
        chosen: Settings::default(),
        warnings: Diagnostics::new(),
    })
}

fn unknown(name: &Spanned<String>) -> Diagnostic {
    let names = SHAPES.map(|s| s.0);
    let help = match nearest(&name.node, names) {
        Some(near) => format!("did you mean `{near}`? The topologies are {}", names.join(", ")),
        None => format!("the topologies are {}", names.join(", ")),
    };
    Diagnostic::error("E462", format!("unknown topology `{}` of a dimension", name.node))
        .primary(name.span, "not known here")
        .help(help)
}

impl Reader<'_> {
    /// Returns the single values of a list, or a value that stands alone.
    fn column(&self, key: &str, node: &Node, found: &mut Diagnostics) -> Vec<Spanned<String>> {
        let one = |node: &Node| match &node.kind {
            NodeKind::Scalar(text) => Ok(Spanned::new(text.clone(), self.0.span(node.number))),
            _ => Err(self.kind(node, &format!("`{key}` needs a single value per dimension"))),
        };
        let list = match &node.kind {
            NodeKind::List(list) => list.iter().collect(),
            _ => vec![node],
        };
        let mut out = vec![];
        for value in list {
            match one(value) {
                Ok(v) => out.push(v),
                Err(d) => found.push(d),
            }
        }
        out
    }
}
