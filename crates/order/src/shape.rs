//! Additions of one element as plain data, in terms of ranks.
//!
//! An [`AdditionTree`] forgets positions and which computation made a contribution; it keeps the
//! ranks and the order. [`TreeNumbers`] compares such trees, also trees of different schedules.

use crate::trees::{Forest, Node, Source, SourceId, TreeId, matters};
use kbc_ir::types::{DType, Mesh, ReduceOp};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A node of a tree of additions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TreeNode {
    /// A contribution of a rank.
    Rank {
        /// The rank, as its index over [`AdditionTree::axes`].
        rank: u64,
        /// Number of the contribution among those of one rank in this tree; 0 if a rank contributes
        /// elements of one tensor only.
        source: u32,
    },
    /// A number that every rank knows, such as the zero of a buffer that holds zeros at first.
    Number(f64),
    /// `dst OP src`, rounded once to the type. The first operand is the destination, which held its
    /// value already (docs/reference/ir.md, `combine`).
    Add {
        /// Combiner.
        op: ReduceOp,
        /// Element type.
        dtype: DType,
        /// Number of the node of the first operand.
        dst: u32,
        /// Number of the node of the second operand.
        src: u32,
    },
}

/// The additions that make one element.
#[derive(Clone, PartialEq, Debug)]
pub struct AdditionTree {
    /// Nodes, operands before their addition; the last one is the element. A node may be the
    /// operand of several additions.
    pub nodes: Vec<TreeNode>,
    /// Mesh axes on which the contributing ranks differ, slowest first. Ranks are numbered over
    /// these axes, so groups of ranks that add in the same way have the same tree.
    pub axes: Vec<String>,
    /// Number of ranks over these axes.
    pub ranks: u64,
    /// The largest number of additions that one contribution goes through. A sum has at most this
    /// many roundings per contribution, so its relative error is at most `depth` units of roundoff
    /// times the sum of magnitudes, to first order (Higham, Accuracy and Stability of Numerical
    /// Algorithms, 2002, section 4.2).
    pub depth: u64,
    /// Number of contributions and numbers, each as often as it is added.
    pub contributions: u64,
    /// Whether another order could give other bits: a floating-point sum or product of at least
    /// three values.
    pub order_matters: bool,
}

impl AdditionTree {
    /// Checks whether the element is a contribution or a number without any addition.
    pub fn is_plain(&self) -> bool {
        self.depth == 0
    }

    /// Checks whether two trees add the same ranks in the same order. The operands of one addition
    /// may be swapped, because that does not change its result.
    pub fn same_order(&self, other: &AdditionTree) -> bool {
        let mut numbers = TreeNumbers::default();
        numbers.number(self) == numbers.number(other)
    }

    /// Creates the tree of an element.
    pub(crate) fn of(forest: &Forest, root: TreeId, mesh: &Mesh) -> AdditionTree {
        let order = postorder(forest, root);
        let leaves = order.iter().filter_map(|id| match forest.node(*id) {
            Node::Leaf { source, rank } if forest.source_of(source).has_position() => Some((source, rank)),
            Node::Leaf { .. } | Node::Add { .. } => None,
        });
        let leaves: BTreeSet<_> = leaves.collect();
        let coords = |rank: u32| mesh.coords(u64::from(rank));
        let first = leaves.first().map(|l| coords(l.1));
        let differs = |i: usize| leaves.iter().any(|l| Some(coords(l.1)[i]) != first.as_ref().map(|c| c[i]));
        let axes: Vec<usize> = (0..mesh.axes.len()).filter(|i| differs(*i)).collect();
        let number = |rank: u32| {
            let at = coords(rank);
            axes.iter().fold(0, |n, i| n * mesh.axes[*i].size + at[*i] as u64)
        };
        // Sources of one rank are numbered by name, which does not depend on what ran first.
        let mut sources: BTreeMap<u32, Vec<SourceId>> = BTreeMap::new();
        leaves.iter().for_each(|(source, rank)| sources.entry(*rank).or_default().push(*source));
        sources.values_mut().for_each(|of| of.sort_by_key(|s| (forest.name_of(*s), *s)));
        let mut places: HashMap<TreeId, u32> = HashMap::new();
        let mut nodes: Vec<TreeNode> = Vec::with_capacity(order.len());
        for (i, id) in order.iter().enumerate() {
            places.insert(*id, i as u32);
            nodes.push(match forest.node(*id) {
                Node::Leaf { source, rank } => match forest.source_of(source) {
                    Source::Number(bits) => TreeNode::Number(f64::from_bits(*bits)),
                    Source::Input(_) | Source::Computed { .. } => {
                        let place = sources[&rank].iter().position(|s| *s == source).unwrap_or(0);
                        TreeNode::Rank { rank: number(rank), source: place as u32 }
                    }
                },
                Node::Add { op, dtype, dst, src, shift: _ } => {
                    TreeNode::Add { op, dtype, dst: places[&dst], src: places[&src] }
                }
            });
        }
        let (mut depth, mut count) = (vec![0u64; nodes.len()], vec![1u64; nodes.len()]);
        let mut exact = true;
        for (i, node) in nodes.iter().enumerate() {
            if let TreeNode::Add { op, dtype, dst, src } = node {
                let (a, b) = (*dst as usize, *src as usize);
                depth[i] = 1 + depth[a].max(depth[b]);
                count[i] = count[a].saturating_add(count[b]);
                exact &= !matters(*op, *dtype);
            }
        }
        AdditionTree {
            axes: axes.iter().map(|i| mesh.axes[*i].name.to_string()).collect(),
            ranks: axes.iter().map(|i| mesh.axes[*i].size).product(),
            depth: depth.last().copied().unwrap_or(0),
            contributions: count.last().copied().unwrap_or(0),
            order_matters: !exact && count.last().is_some_and(|n| *n > 2),
            nodes,
        }
    }
}

/// Returns the nodes of a tree, each once, operands before their addition and the first operand
/// before the second.
pub(crate) fn postorder(forest: &Forest, root: TreeId) -> Vec<TreeId> {
    let (mut out, mut seen, mut open) = (vec![], HashSet::new(), vec![(root, false)]);
    while let Some((id, done)) = open.pop() {
        if done {
            out.push(id);
        } else if seen.insert(id) {
            open.push((id, true));
            if let Node::Add { dst, src, .. } = forest.node(id) {
                open.push((src, false));
                open.push((dst, false));
            }
        }
    }
    out
}

/// A node without the order of its operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum OrderKey {
    Rank(u64, u32),
    Number(u64),
    Add(ReduceOp, DType, u32, u32),
}

/// Numbers of trees: two trees have the same number if they add the same ranks in the same order.
#[derive(Default)]
pub(crate) struct TreeNumbers {
    nodes: HashMap<OrderKey, u32>,
    /// Trees, by their last node and their number of ranks.
    trees: BTreeMap<(u32, u64), usize>,
}

impl TreeNumbers {
    /// Returns the number of a tree, counted from 0 in the order of first use.
    pub fn number(&mut self, tree: &AdditionTree) -> usize {
        let mut ids: Vec<u32> = Vec::with_capacity(tree.nodes.len());
        for node in &tree.nodes {
            let key = match *node {
                TreeNode::Rank { rank, source } => OrderKey::Rank(rank, source),
                TreeNode::Number(n) => OrderKey::Number(n.to_bits()),
                TreeNode::Add { op, dtype, dst, src } => {
                    let (a, b) = (ids[dst as usize], ids[src as usize]);
                    OrderKey::Add(op, dtype, a.min(b), a.max(b))
                }
            };
            let next = self.nodes.len() as u32;
            ids.push(*self.nodes.entry(key).or_insert(next));
        }
        let next = self.trees.len();
        *self.trees.entry((ids.last().copied().unwrap_or(u32::MAX), tree.ranks)).or_insert(next)
    }
}
