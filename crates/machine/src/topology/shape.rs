//! Shapes of machines: a generator with its sizes.
//!
//! This module owns the names, arguments and limits of the generators, and their text. The devices
//! and links of a shape are in [`super::Topology`].

use std::fmt;

use kbc_diag::{Diagnostic, Span, Spanned};

use super::graph::MAX_NODES;

/// Limit on the number of devices of a machine.
pub const MAX_DEVICES: u64 = 65_536;

/// Names of the generators, in the order in which messages list them.
pub const SHAPE_NAMES: [&str; 10] =
    ["ring", "torus", "mesh", "full", "switch", "hypercube", "tree", "hierarchy", "graph", "package"];

/// A generator and its sizes. [`Shape::from_call`] checks everything that can be checked in a
/// single call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// `ring(n)`: one axis. Each device is linked with the next one, and the last with the first.
    Ring(u32),
    /// `torus(a, b[, c])`: a ring along every axis.
    Torus(Vec<u32>),
    /// `mesh(a, b[, c])`: a line along every axis, without wrap.
    Mesh(Vec<u32>),
    /// `full(n)`: every device is linked with every other one.
    Full(u32),
    /// `switch(n)`: devices below one switch.
    Switch(u32),
    /// `hypercube(k)`: 2^k devices, with an axis of size two for each bit, the highest bit first.
    Hypercube(u32),
    /// `tree(arity, depth)`: arity^depth devices at the leaves, with switches above.
    Tree(u32, u32),
    /// `hierarchy(inner, outer)`: the product. Copies of the inner machine, in which devices at the
    /// same place are joined as in the outer machine.
    Hierarchy(Vec<Shape>),
    /// `graph(devices, relays)`: a list of links, which is written with the machine.
    Graph {
        /// Number of devices, which hold ranks and also forward messages.
        devices: u32,
        /// Number of nodes without a rank.
        relays: u32,
    },
    /// `package(sips, cubes, pes)`: SIPs of cubes of processing elements.
    Package {
        /// Arrangement of the SIPs: a ring, or a torus or mesh of one or two axes.
        sips: Box<Shape>,
        /// Rows and columns of cubes in a SIP.
        cubes: [u32; 2],
        /// PEs per cube.
        pes: u32,
    },
}

/// An argument of a generator.
#[derive(Clone, PartialEq, Debug)]
pub enum ShapeArgument {
    /// A size.
    Size(i64),
    /// A nested shape.
    Shape(Shape),
}

impl Shape {
    /// Builds the shape `name(parts)`.
    ///
    /// # Errors
    /// Returns E440 for an unknown name, E442 for a wrong number or kind of arguments, and E443 for
    /// a size out of range.
    pub fn from_call(name: &Spanned<String>, parts: &[Spanned<ShapeArgument>]) -> Result<Shape, Diagnostic> {
        let word = name.node.as_str();
        Ok(match word {
            "ring" => Shape::Ring(one(name, parts, MAX_DEVICES)?),
            "full" => Shape::Full(one(name, parts, MAX_DEVICES)?),
            "switch" => Shape::Switch(one(name, parts, MAX_DEVICES)?),
            "hypercube" => Shape::Hypercube(one(name, parts, 16)?),
            "torus" => Shape::Torus(sizes(name, parts, 1..=3, MAX_DEVICES)?),
            "mesh" => Shape::Mesh(sizes(name, parts, 1..=3, MAX_DEVICES)?),
            "tree" => match sizes(name, parts, 2..=2, MAX_DEVICES)?[..] {
                [arity, depth] => Shape::Tree(arity, depth),
                _ => return Err(form(name, parts.len())),
            },
            "hierarchy" => {
                let shapes: Option<Vec<Shape>> = parts
                    .iter()
                    .map(|p| match &p.node {
                        ShapeArgument::Shape(s) => Some(s.clone()),
                        ShapeArgument::Size(_) => None,
                    })
                    .collect();
                let product = |s: &Shape| !s.has_own_links();
                match shapes.filter(|s| s.iter().all(product)) {
                    Some(s) if s.len() >= 2 => Shape::Hierarchy(s),
                    _ => return Err(form(name, parts.len())),
                }
            }
            "graph" => {
                let [devices, relays] = parts else { return Err(form(name, parts.len())) };
                let of = |part: &Spanned<ShapeArgument>, least| {
                    size(name, part, least..=MAX_NODES.into(), parts.len())
                };
                Shape::Graph { devices: of(devices, 1)?, relays: of(relays, 0)? }
            }
            "package" => {
                let [sips, cubes, pes] = parts else { return Err(form(name, parts.len())) };
                let cubes = match &cubes.node {
                    ShapeArgument::Shape(Shape::Mesh(s)) if s.len() == 2 => [s[0], s[1]],
                    _ => return Err(form(name, parts.len())),
                };
                let sips = match &sips.node {
                    ShapeArgument::Shape(s @ Shape::Ring(_)) => s,
                    ShapeArgument::Shape(s @ (Shape::Torus(sides) | Shape::Mesh(sides)))
                        if sides.len() < 3 =>
                    {
                        s
                    }
                    _ => return Err(form(name, parts.len())),
                };
                Shape::Package {
                    sips: Box::new(sips.clone()),
                    cubes,
                    pes: size(name, pes, 1..=MAX_DEVICES, 3)?,
                }
            }
            other => {
                return Err(super::unknown("E440", "topology generator", other, &SHAPE_NAMES, name.span));
            }
        })
    }

    /// Returns the name of the generator.
    pub fn name(&self) -> &'static str {
        match self {
            Shape::Ring(_) => "ring",
            Shape::Torus(_) => "torus",
            Shape::Mesh(_) => "mesh",
            Shape::Full(_) => "full",
            Shape::Switch(_) => "switch",
            Shape::Hypercube(_) => "hypercube",
            Shape::Tree(..) => "tree",
            Shape::Hierarchy(_) => "hierarchy",
            Shape::Graph { .. } => "graph",
            Shape::Package { .. } => "package",
        }
    }

    /// Checks whether the links are a list with rates of their own, instead of a product of axes.
    pub fn has_own_links(&self) -> bool {
        matches!(self, Shape::Graph { .. } | Shape::Package { .. })
    }

    /// Checks whether the machine has switches, or relays in a list of links.
    pub fn has_switches(&self) -> bool {
        match self {
            Shape::Switch(_) | Shape::Tree(..) => true,
            Shape::Graph { relays, .. } => *relays > 0,
            Shape::Hierarchy(levels) => levels.iter().any(Shape::has_switches),
            Shape::Ring(_)
            | Shape::Torus(_)
            | Shape::Mesh(_)
            | Shape::Full(_)
            | Shape::Hypercube(_)
            | Shape::Package { .. } => false,
        }
    }

    /// Returns the number of devices. None if it does not fit into 64 bits. For a package this
    /// counts all PEs, although the setting `ranks` may make only some of them devices
    /// ([`super::device_count`]).
    pub fn devices(&self) -> Option<u64> {
        match self {
            Shape::Ring(n) | Shape::Full(n) | Shape::Switch(n) => Some(u64::from(*n)),
            Shape::Torus(s) | Shape::Mesh(s) => {
                s.iter().try_fold(1u64, |acc, &n| acc.checked_mul(u64::from(n)))
            }
            Shape::Hypercube(k) => 1u64.checked_shl(*k),
            Shape::Tree(arity, depth) => u64::from(*arity).checked_pow(*depth),
            Shape::Hierarchy(levels) => levels.iter().try_fold(1u64, |acc, s| acc.checked_mul(s.devices()?)),
            Shape::Graph { devices, .. } => Some(u64::from(*devices)),
            Shape::Package { sips, cubes, pes } => {
                let sizes = [cubes[0], cubes[1], *pes].map(u64::from);
                sizes.into_iter().try_fold(sips.devices()?, u64::checked_mul)
            }
        }
    }

    /// Returns the number of axes. For a package this is the largest number.
    pub fn axes(&self) -> usize {
        match self {
            Shape::Ring(_) | Shape::Full(_) | Shape::Switch(_) | Shape::Tree(..) => 1,
            Shape::Torus(s) | Shape::Mesh(s) => s.len(),
            Shape::Hypercube(k) => *k as usize,
            Shape::Hierarchy(levels) => levels.iter().map(Shape::axes).sum(),
            Shape::Graph { .. } => 1,
            Shape::Package { sips, .. } => sips.axes() + 3,
        }
    }

    /// Returns the written sizes, if they are sizes of axes. Empty for other generators.
    pub fn sizes(&self) -> &[u32] {
        match self {
            Shape::Ring(n) | Shape::Full(n) | Shape::Switch(n) => std::slice::from_ref(n),
            Shape::Torus(s) | Shape::Mesh(s) => s,
            _ => &[],
        }
    }
}

/// Returns the form of a call of a generator of [`SHAPE_NAMES`].
pub fn shape_form(name: &str) -> &'static str {
    match name {
        "torus" => "torus(a, b) or torus(a, b, c)",
        "mesh" => "mesh(a, b) or mesh(a, b, c)",
        "hypercube" => "hypercube(k)",
        "tree" => "tree(arity, depth)",
        "hierarchy" => "hierarchy(full(8), ring(4)), two or more shapes",
        "ring" => "ring(n)",
        "full" => "full(n)",
        "graph" => "graph(devices, relays), with its links: graph(2, 1) { link (0)->#0: 10 GB/s, 1 us; .. }",
        "package" => "package(torus(2, 3), mesh(4, 4), 8): SIPs (a ring, torus or mesh), cubes, PEs",
        _ => "switch(n)",
    }
}

/// Returns an example of a small machine for a generator of [`SHAPE_NAMES`].
pub fn shape_example(name: &str) -> &'static str {
    match name {
        "torus" => "torus(2, 2)",
        "mesh" => "mesh(2, 2)",
        "hypercube" => "hypercube(2)",
        "tree" => "tree(2, 2)",
        "hierarchy" => "hierarchy(full(2), ring(2))",
        "ring" => "ring(4)",
        "full" => "full(4)",
        "graph" => {
            "graph(2, 1) { link (0)->#0: 10 GB/s, 1 us; link #0->(0): 10 GB/s, 1 us; \
             link (1)->#0: 10 GB/s, 1 us; link #0->(1): 10 GB/s, 1 us }"
        }
        "package" => "package(ring(2), mesh(2, 2), 2)",
        _ => "switch(4)",
    }
}

fn form(name: &Spanned<String>, found: usize) -> Diagnostic {
    let form = shape_form(&name.node);
    let (plural, name_text) = (if found == 1 { "" } else { "s" }, &name.node);
    let title = format!("`{name_text}` does not take these arguments: found {found} argument{plural}");
    Diagnostic::error("E442", title)
        .primary(name.span, "this generator")
        .help(format!("write {form}, with integer sizes"))
}

fn one(name: &Spanned<String>, parts: &[Spanned<ShapeArgument>], max: u64) -> Result<u32, Diagnostic> {
    sizes(name, parts, 1..=1, max)?.first().copied().ok_or_else(|| form(name, parts.len()))
}

fn sizes(
    name: &Spanned<String>,
    parts: &[Spanned<ShapeArgument>],
    count: std::ops::RangeInclusive<usize>,
    max: u64,
) -> Result<Vec<u32>, Diagnostic> {
    if !count.contains(&parts.len()) {
        return Err(form(name, parts.len()));
    }
    parts.iter().map(|p| size(name, p, 1..=max, parts.len())).collect()
}

fn size(
    name: &Spanned<String>,
    part: &Spanned<ShapeArgument>,
    range: std::ops::RangeInclusive<u64>,
    found: usize,
) -> Result<u32, Diagnostic> {
    let ShapeArgument::Size(n) = part.node else { return Err(form(name, found)) };
    match u32::try_from(n) {
        Ok(size) if range.contains(&u64::from(size)) => Ok(size),
        _ => {
            let title =
                format!("size {n} of `{}` is out of range ({}..={})", name.node, range.start(), range.end());
            Err(out_of_range(title, part.span))
        }
    }
}

/// Returns E443 with that title.
pub(super) fn out_of_range(title: String, span: Span) -> Diagnostic {
    let d = Diagnostic::error("E443", title).help(format!("a machine can have 1 to {MAX_DEVICES} devices"));
    if span.is_none() { d } else { d.primary(span, "here") }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: Vec<String>| items.join(", ");
        let inside = match self {
            Shape::Ring(n) | Shape::Full(n) | Shape::Switch(n) | Shape::Hypercube(n) => n.to_string(),
            Shape::Torus(s) | Shape::Mesh(s) => list(s.iter().map(u32::to_string).collect()),
            Shape::Tree(arity, depth) => format!("{arity}, {depth}"),
            Shape::Hierarchy(s) => list(s.iter().map(Shape::to_string).collect()),
            Shape::Graph { devices, relays } => format!("{devices}, {relays}"),
            Shape::Package { sips, cubes: [h, w], pes } => format!("{sips}, mesh({h}, {w}), {pes}"),
        };
        write!(f, "{}({inside})", self.name())
    }
}
