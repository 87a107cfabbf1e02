//! Trees with positions: which element of which rank each contribution is.

use crate::AdditionOrders;
use crate::shape::postorder;
use crate::trees::{Node, Source, TreeId};
use kbc_ir::schedule::BufferId;
use kbc_ir::types::{DType, ReduceOp};
use std::collections::HashMap;

/// A node of a tree with positions.
#[derive(Clone, PartialEq, Debug)]
pub enum LocatedNode {
    /// An element of an input.
    Input {
        /// Buffer of the input.
        buffer: BufferId,
        /// Rank that has it.
        rank: u64,
        /// Number of the element in the rank's part.
        element: i64,
    },
    /// An element that a computation made.
    Computed {
        /// The computation, by its operation and the first buffer that it wrote (`matmul %y`).
        name: String,
        /// Rank that computed it.
        rank: u64,
        /// Number of the element in the rank's result.
        element: i64,
    },
    /// A number.
    Number(f64),
    /// `dst OP src`, rounded once to the type.
    Add {
        /// Combiner.
        op: ReduceOp,
        /// Element type.
        dtype: DType,
        /// Number of the node of the destination, which is the first operand.
        dst: usize,
        /// Number of the node of the source.
        src: usize,
    },
}

/// A run of elements of a value on a rank. All of them have the same tree, whose positions all move
/// by one from element to element.
#[derive(Clone, PartialEq, Debug)]
pub struct LocatedRun {
    /// First element.
    pub start: u64,
    /// Number of elements.
    pub len: u64,
    /// Nodes for the first element, operands before their addition; the last one is the element.
    pub nodes: Vec<LocatedNode>,
}

impl AdditionOrders<'_> {
    /// Returns what a rank read of a value of the report, in order, with the position of every
    /// contribution. If it read several contents of a buffer, they follow each other. Nothing if
    /// the report has no such value.
    pub fn located(&self, value: usize, rank: u64) -> Vec<LocatedRun> {
        let reads = self.outcome.values.values().nth(value).into_iter().flatten();
        let pieces = reads.filter(|r| r.rank == rank).flat_map(|r| &r.pieces);
        pieces
            .map(|p| LocatedRun { start: p.start, len: p.len, nodes: self.placed(p.tree, p.base) })
            .collect()
    }

    /// Returns the nodes of a tree whose anchor is at `base`. A tree that is an operand at several
    /// positions is listed once for each.
    fn placed(&self, root: TreeId, base: i64) -> Vec<LocatedNode> {
        let forest = &self.outcome.forest;
        let mut wanted: HashMap<TreeId, Vec<i64>> = HashMap::from([(root, vec![base])]);
        let order = postorder(forest, root);
        let operands = |node: &Node, at: i64| match *node {
            Node::Add { dst, src, shift, .. } => Some([(dst, at), (src, at + shift)]),
            Node::Leaf { .. } => None,
        };
        for id in order.iter().rev() {
            let node = forest.node(*id);
            for at in wanted.get(id).cloned().unwrap_or_default() {
                for (part, at) in operands(&node, at).into_iter().flatten() {
                    let of = wanted.entry(part).or_default();
                    if !of.contains(&at) {
                        of.push(at);
                    }
                }
            }
        }
        let (mut out, mut places) = (vec![], HashMap::new());
        for id in &order {
            let node = forest.node(*id);
            for at in wanted.get(id).into_iter().flatten().copied() {
                places.insert((*id, at), out.len());
                out.push(match node {
                    Node::Leaf { source, rank } => {
                        let rank = u64::from(rank);
                        match forest.source_of(source) {
                            Source::Input(b) => {
                                LocatedNode::Input { buffer: BufferId(*b), rank, element: at }
                            }
                            Source::Number(bits) => LocatedNode::Number(f64::from_bits(*bits)),
                            Source::Computed { .. } => LocatedNode::Computed {
                                name: forest.name_of(source).to_owned(),
                                rank,
                                element: at,
                            },
                        }
                    }
                    Node::Add { op, dtype, dst, src, shift } => {
                        let (dst, src) = (places[&(dst, at)], places[&(src, at + shift)]);
                        LocatedNode::Add { op, dtype, dst, src }
                    }
                });
            }
        }
        out
    }
}
