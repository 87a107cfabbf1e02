//! The trees of a program that uses packed trees, with the certificates of their rates.

use super::certificate;
use crate::build::Built;
use kbc_ir::graph::{Collective, GraphOp, OpKind, Using};
use kbc_machine::topology::DeviceId;
use kbc_passes::findings::select::called;
use kbc_passes::packed::{PackedSite, PackedTrees, PhaseTrees, is_packed};
use kbc_synthesis::{MatchedEdge, SpanningEdge, TreeEdge};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The trees of a collective that uses packed trees.
struct TreesOfUse {
    /// The collective, its axes and its algorithm with arguments.
    name: String,
    trees: PackedTrees,
}

/// Returns the trees of every collective of a built program that uses packed trees, in order. Paths
/// of an all-to-all and parts of a local program are left out.
fn trees_of_uses(built: &Built) -> Vec<TreesOfUse> {
    let mut out = vec![];
    for id in built.arranged.order() {
        let op = built.arranged.op(*id);
        let OpKind::Collective(c) = &op.kind else { continue };
        let Some(using) = c.using.as_ref().filter(|u| packed(built, op, c, u)) else { continue };
        let of = PackedSite::complete(&built.topology, &built.module.mesh, c);
        // A use without trees was refused when the program was compiled.
        let Ok(Some(trees)) = of.trees(&using.args) else { continue };
        let axes: Vec<String> = c.axes().iter().map(ToString::to_string).collect();
        let name = format!("{} over {}: {}", c.name(), axes.join(", "), called(&using.alg, &using.args, &[]));
        out.push(TreesOfUse { name, trees });
    }
    out
}

/// Returns the trees of every collective of a built program that uses packed trees, in order and
/// each once: what `kbc synth` writes as JSON, with the name of the use and the number of the
/// device or relay that each node is.
pub fn packed_trees(built: &Built) -> Vec<Value> {
    let mut out: Vec<Value> = vec![];
    for TreesOfUse { name, trees: found } in trees_of_uses(built) {
        let Value::Object(mut one) = certificate(&found.network, &found.request, &found.phases) else {
            continue;
        };
        one.insert("name".to_owned(), json!(name));
        one.insert("nodes".to_owned(), json!(found.network.nodes.iter().map(|d| d.0).collect::<Vec<_>>()));
        let one = Value::Object(one);
        if !out.contains(&one) {
            out.push(one);
        }
    }
    out
}

/// A tree on a machine, or several that have the same edges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeOnMachine {
    /// The collective, its axes and its algorithm; then the phase, if it has several.
    pub name: String,
    /// The device that the tree leads from or to.
    pub root: DeviceId,
    /// Number of trees with these edges.
    pub alike: u128,
    /// The edges, nearest to the root first.
    pub edges: Vec<EdgeOnMachine>,
}

/// An edge of a tree on a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EdgeOnMachine {
    /// The devices and switches that a message passes, from sender to receiver. Edges of spanning
    /// trees lead away from the root; sums take them the other way first.
    pub nodes: Vec<DeviceId>,
    /// Number of edges from the root to its farther end.
    pub step: u32,
}

/// Returns the trees of all collectives of a built program that use packed trees, in the order of
/// [`packed_trees`]. Of an edge with several routes, the first counts.
pub fn trees_on_machine(built: &Built) -> Vec<TreeOnMachine> {
    let mut out: Vec<TreeOnMachine> = vec![];
    for TreesOfUse { name, trees: found } in trees_of_uses(built) {
        let node = |n: usize| found.network.nodes.get(n).copied().unwrap_or(DeviceId(n as u32));
        for phase in &found.phases {
            let name = match found.phases.len() {
                1 => name.clone(),
                _ => format!("{name}, {}", phase.collective.name()),
            };
            let mut add = |root: usize, alike: u128, paths: Vec<Vec<usize>>| {
                let mut steps = BTreeMap::from([(root, 0)]);
                let mut edges = vec![];
                for path in paths {
                    let (Some(&from), Some(&to)) = (path.first(), path.last()) else { continue };
                    // One of the ends has been seen: the one that is nearer to the root.
                    let (near, far) = if steps.contains_key(&from) { (from, to) } else { (to, from) };
                    let step = steps.get(&near).map_or(1, |s| s + 1);
                    steps.insert(far, step);
                    edges.push(EdgeOnMachine { nodes: path.into_iter().map(node).collect(), step });
                }
                let tree = TreeOnMachine { name: name.clone(), root: node(root), alike, edges };
                if !out.contains(&tree) {
                    out.push(tree);
                }
            };
            match &phase.trees {
                PhaseTrees::Rooted(packing) => {
                    for class in &packing.classes {
                        let first = |e: &TreeEdge| e.routes.first().map_or(vec![], |r| r.nodes.clone());
                        add(class.root, class.trees, class.edges.iter().map(first).collect());
                    }
                }
                PhaseTrees::Spanning(packing) => {
                    for class in &packing.classes {
                        add(class.centre, class.trees, class.edges.iter().map(SpanningEdge::nodes).collect());
                    }
                }
                PhaseTrees::Matched(matching) => {
                    for tree in matching.up.iter().chain(&matching.down) {
                        add(tree.root, 1, tree.edges.iter().map(MatchedEdge::nodes).collect());
                    }
                }
            }
        }
    }
    out
}

/// Whether an algorithm is one of packed trees.
fn packed(built: &Built, op: &GraphOp, c: &Collective, using: &Using) -> bool {
    let library = &built.origin.loaded.library;
    let own = !using.span.is_none() && library.knows(using.span.file);
    let at = if own { using.span } else { op.span };
    let Ok(coll) = library.find_collective(at.file, c.name(), at) else { return false };
    library.find_algorithm(at.file, coll, &using.alg, at).is_ok_and(|alg| is_packed(library, alg))
}
