//! Diagram of a machine: its form, the names of its nodes and links, and the use of each link.
//!
//! The module decides which part of a [`Topology`] is shown. A package with many nodes is shown by
//! its cubes: one node per cube and one for the IO of a SIP. Of several links between two such
//! nodes, the busiest is shown.

use kbc_compiler::synthesis::TreeOnMachine;
use kbc_figures::topology::{self as figure, AxisDirection, AxisLayout, Form, MAX_NODES};
use kbc_figures::{Fault, Heading};
use kbc_machine::topology::{DeviceId, Direction, Link, Node, Shape, Topology};
use kbc_time::Timing;
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of nodes of a package that are shown individually.
const FEW: usize = 120;

/// Use of every link in percent, by its number; None if nothing was timed.
pub type Use = Option<Vec<f64>>;

/// Returns the share of a call in which each link is in use.
pub fn used(topology: &Topology, timing: &Timing) -> Vec<f64> {
    let mut out = vec![0.0; topology.link_count() as usize];
    for l in &timing.links {
        out[l.link.0 as usize] = 100.0 * timing.utilisation(l);
    }
    out
}

/// Checks whether a machine can be drawn, before work is done for each of its links.
///
/// # Errors
/// Returns an error if there are too many nodes to distinguish.
pub fn fits(topology: &Topology) -> Result<(), Fault> {
    match topology.whole().node_count() {
        n if n > MAX_NODES && !topology.is_package() => {
            Err(Fault::new(format!("{n} nodes cannot be distinguished (limit: {MAX_NODES})")))
        }
        _ => Ok(()),
    }
}

/// Returns the diagram of a machine.
///
/// # Errors
/// As [`fits`].
pub fn diagram(topology: &Topology, mut heading: Heading, used: &Use) -> Result<figure::Topology, Fault> {
    fits(topology)?;
    if let Shape::Package { sips, cubes, pes } = topology.shape()
        && topology.node_count() > FEW
    {
        heading.subtitle += &format!(
            ". A node is a cube of {pes} PEs, named by row and column, or the IO of a SIP; of several links between two nodes the busiest is shown"
        );
        return Ok(cubes_of(topology, heading, used, &sides(sips), *cubes));
    }
    // Failed nodes and their links are drawn where they were.
    let whole = topology.whole();
    let failed: BTreeSet<DeviceId> = topology.failed_nodes().collect();
    let mut percent: Vec<Option<f64>> = vec![None; whole.link_count() as usize];
    for (l, p) in topology.links().zip(used.iter().flatten()) {
        percent[topology.link_on_whole(l.id).0 as usize] = Some(*p);
    }
    let form = form(whole);
    let nodes = (0..whole.node_count() as u32).map(DeviceId);
    let nodes = nodes.map(|id| figure::Node { failed: failed.contains(&id), ..node(whole, id) }).collect();
    let rows = |axis: usize| match &form {
        Form::Product(axes) => axes.get(axis).is_some_and(|a| a.direction != AxisDirection::Circle),
        _ => false,
    };
    let link = |l: Link| {
        let failed = l.rate.is_failed() || failed.contains(&l.from) || failed.contains(&l.to);
        figure::Link {
            from: l.from.0 as usize,
            to: l.to.0 as usize,
            wrap: rows(l.axis) && around(whole, &l),
            percent: percent[l.id.0 as usize].filter(|_| !failed),
            step: None,
            failed,
        }
    };
    let links = whole.links().map(link).collect();
    Ok(figure::Topology { heading, form, nodes, links })
}

/// Marks the links and the root of a tree in a diagram of all nodes of a machine. Of several links
/// between two nodes, the first is marked.
pub fn mark_tree(diagram: &mut figure::Topology, topology: &Topology, tree: &TreeOnMachine) {
    let number = |d: DeviceId| topology.number_on_whole(d).0 as usize;
    if let Some(root) = diagram.nodes.get_mut(number(tree.root)) {
        root.root = true;
    }
    for edge in &tree.edges {
        for ends in edge.nodes.windows(2) {
            let (from, to) = (number(ends[0]), number(ends[1]));
            let joined = |l: &&mut figure::Link| l.from == from && l.to == to && !l.failed;
            if let Some(link) = diagram.links.iter_mut().find(joined) {
                link.step = Some(edge.step);
            }
        }
    }
}

/// Returns the layout of the nodes of a machine.
fn form(topology: &Topology) -> Form {
    let axes = |direction: fn(usize, usize) -> AxisDirection| -> Vec<AxisLayout> {
        let n = topology.sizes().len();
        topology
            .sizes()
            .enumerate()
            .map(|(i, size)| AxisLayout { size, direction: direction(i, n) })
            .collect()
    };
    // The first of three axes is drawn behind the plane of the others.
    let rows = |i: usize, n: usize| if n == 3 && i == 0 { AxisDirection::Behind } else { AxisDirection::Row };
    match topology.shape() {
        Shape::Ring(_) | Shape::Full(_) => Form::Product(axes(|_, _| AxisDirection::Circle)),
        Shape::Torus(_) | Shape::Mesh(_) | Shape::Hypercube(_) => Form::Product(axes(rows)),
        Shape::Switch(_) | Shape::Tree(..) => Form::Layers,
        Shape::Hierarchy(levels) if !topology.has_switches() => {
            // Outermost first, like the axes of the machine.
            let ways = levels.iter().rev().flat_map(|level| {
                let direction = match level {
                    Shape::Ring(_) | Shape::Full(_) => AxisDirection::Circle,
                    _ => AxisDirection::Row,
                };
                vec![direction; sides(level).len()]
            });
            let ways: Vec<AxisDirection> = ways.collect();
            let direction = |i: usize| ways.get(i).copied().unwrap_or_default();
            Form::Product(
                topology
                    .sizes()
                    .enumerate()
                    .map(|(i, size)| AxisLayout { size, direction: direction(i) })
                    .collect(),
            )
        }
        Shape::Hierarchy(_) | Shape::Graph { .. } | Shape::Package { .. } => Form::Free,
    }
}

/// Returns the sizes of the axes of a shape, if it has axes.
fn sides(shape: &Shape) -> Vec<u32> {
    match shape {
        Shape::Ring(n) | Shape::Full(n) | Shape::Switch(n) => vec![*n],
        Shape::Torus(s) | Shape::Mesh(s) => s.clone(),
        Shape::Hypercube(k) => vec![2; *k as usize],
        Shape::Tree(arity, depth) => vec![arity.saturating_pow(*depth)],
        Shape::Hierarchy(levels) => levels.iter().rev().flat_map(sides).collect(),
        Shape::Graph { .. } | Shape::Package { .. } => vec![],
    }
}

fn node(topology: &Topology, id: DeviceId) -> figure::Node {
    let (switch, level) = match topology.node(id) {
        Node::Device(_) => (false, 0),
        Node::Switch { level, .. } => (true, level),
        Node::Relay { .. } => (true, 1),
    };
    let at = if switch { vec![] } else { topology.coordinates(id) };
    figure::Node { name: topology.name(id), label: None, switch, at, level, failed: false, root: false }
}

/// Checks whether a link wraps around, from the last coordinate to the first or back.
fn around(topology: &Topology, link: &Link) -> bool {
    let [from, to] = [link.from, link.to].map(|d| topology.coordinate(d, link.axis));
    match link.direction {
        Direction::Plus => to < from,
        Direction::Minus => to > from,
    }
}

/// Returns a package by its cubes. The IO nodes are in a separate row below them.
fn cubes_of(
    topology: &Topology,
    heading: Heading,
    used: &Use,
    sips: &[u32],
    [rows, columns]: [u32; 2],
) -> figure::Topology {
    let place = |id: DeviceId| -> Vec<u32> {
        let (mut at, io) = match topology.node(id) {
            Node::Relay { part, at } => (at, part.starts_with("io")),
            Node::Device(at) => (at, false),
            Node::Switch { .. } => (vec![], false),
        };
        if io {
            at.extend([rows, columns / 2]);
        }
        // A device that stands for its SIP is in the first cube.
        at.resize(sips.len() + 2, 0);
        at
    };
    let mut numbers: BTreeMap<Vec<u32>, usize> = BTreeMap::new();
    let of: Vec<Vec<u32>> = (0..topology.node_count() as u32).map(|i| place(DeviceId(i))).collect();
    for at in &of {
        numbers.insert(at.clone(), 0);
    }
    let mut nodes = vec![];
    for (number, (at, slot)) in numbers.iter_mut().enumerate() {
        *slot = number;
        let (sip, cube) = at.split_at(sips.len());
        let words = |at: &[u32]| at.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let io = cube[0] == rows;
        let (name, label) = match io {
            true => (format!("io({})", words(sip)), "io".to_owned()),
            false => (format!("({})", words(at)), format!("({})", words(cube))),
        };
        let label = Some(label);
        nodes.push(figure::Node { name, label, switch: io, at: at.clone(), ..figure::Node::default() });
    }
    let mut joined: BTreeMap<(usize, usize), Option<f64>> = BTreeMap::new();
    for l in topology.links() {
        let ends = [l.from, l.to].map(|d| numbers.get(&of[d.0 as usize]).copied().unwrap_or(0));
        if ends[0] == ends[1] {
            continue;
        }
        let percent = used.as_ref().and_then(|u| u.get(l.id.0 as usize).copied());
        let most = joined.entry((ends[0], ends[1])).or_insert(percent);
        if percent > *most {
            *most = percent;
        }
    }
    let links = joined
        .into_iter()
        .map(|((from, to), percent)| {
            let far = nodes[from].at.iter().zip(&nodes[to].at).any(|(a, b)| a.abs_diff(*b) > 1);
            let wrap = far && nodes[from].switch && nodes[to].switch;
            figure::Link { from, to, wrap, percent, step: None, failed: false }
        })
        .collect();
    let sizes = sips.iter().copied().chain([rows + 1, columns]);
    let axes = sizes.map(|size| AxisLayout { size, direction: AxisDirection::Row }).collect();
    figure::Topology { heading, form: Form::Product(axes), nodes, links }
}
