//! Placement search: finds placements of the values of a local program over one axis of the mesh,
//! such that every collective is a change of placement (`docs/adr/036-lift.md`).
//!
//! A value is whole, split along a dimension, or a part of a reduction over the axis. Sizes
//! are those of a rank. This module owns the search. [`super::effects`] owns the rules of
//! the operations.
//!
//! The search is a depth-first search with backtracking: it assigns placements to nodes in order of
//! execution, tries the candidates of each node from most to least likely, and returns to an
//! earlier node if an operation has no placement left.

use super::graph::{Graph, NodeId, NodeOp, Operand};
use super::rank_differences::AxisDifferences;
use crate::torch::rule::Rule;
use std::collections::BTreeMap;

/// Placement of a value over one axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AxisPlacement {
    /// Every rank has the whole value.
    Whole,
    /// Each rank has a part of a dimension; all parts have the same length.
    Split(usize),
    /// A dimension into which other dimensions were merged, as dimension and number of blocks: each
    /// rank has a part of every block.
    Within(usize, i64),
    /// The values of the ranks have yet to be combined by this reduction.
    Partial(&'static str),
    /// No rule determines the placement; occurs only in a lenient search.
    Unknown,
}

use AxisPlacement::{Partial, Split, Unknown, Whole, Within};

impl AxisPlacement {
    /// Describes the placement, such as `split along 0`.
    pub fn words(self) -> String {
        match self {
            Whole => "whole".into(),
            Split(d) => format!("split along {d}"),
            Within(d, n) => format!("split along {d} in each of {n} blocks"),
            Partial(op) => format!("a part of a {op}"),
            Unknown => "not known".into(),
        }
    }

    /// Returns the split dimension and the number of blocks within which it is split.
    pub(super) fn cut(self) -> Option<(usize, i64)> {
        match self {
            Split(d) => Some((d, 1)),
            Within(d, n) => Some((d, n)),
            Whole | Partial(_) | Unknown => None,
        }
    }

    /// Makes the placement that splits a dimension within a number of blocks.
    pub(super) fn parts((d, blocks): (usize, i64)) -> AxisPlacement {
        if blocks == 1 { Split(d) } else { Within(d, blocks) }
    }
}

/// Greatest number of steps of a search.
const MAX_STEPS: usize = 200_000;

/// The placements that each input may have, most likely first.
pub type Candidates = Vec<Vec<AxisPlacement>>;

/// The reason why an operation has no placement, given those of its operands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoPlacement {
    /// A description.
    pub why: String,
    /// Whether no program can mean the operation; otherwise kbc has no rule for it.
    pub wrong: bool,
}

/// Fails because no program can mean the operation.
pub(super) fn wrong<T>(why: impl Into<String>) -> Result<T, NoPlacement> {
    Err(NoPlacement { why: why.into(), wrong: true })
}

/// Fails because kbc has no rule for the operation.
pub(super) fn no_rule<T>(why: impl Into<String>) -> Result<T, NoPlacement> {
    Err(NoPlacement { why: why.into(), wrong: false })
}

/// A failed search: the furthest node that it reached, and why it ended there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedSearch {
    /// The node.
    pub at: NodeId,
    /// Why the node has no placement.
    pub why: String,
    /// Whether the reason is the placement of a result.
    pub result: bool,
    /// Whether a rule was missing on some path, or the search took too many steps.
    pub lacks: bool,
}

/// The problem that a search solves.
#[derive(Clone, Copy)]
pub struct PlacementProblem<'a> {
    /// The program of each rank.
    pub g: &'a Graph,
    /// Which nodes are live.
    pub live: &'a [bool],
    /// Index of the mesh axis.
    pub axis: usize,
    /// Number of ranks of the axis.
    pub size: u64,
    /// The placements that inputs may have.
    pub candidates: &'a Candidates,
    /// Differences between the ranks of the axis.
    pub own: &'a AxisDifferences,
    /// Results with their declared placements. A result without one may be anything but a part
    /// of a reduction.
    pub results: &'a [(NodeId, Option<AxisPlacement>)],
    /// Whether the result of an operation without a rule is [`AxisPlacement::Unknown`], so that the
    /// search continues.
    pub lenient: bool,
    /// Present if the graph has reshapes as PyTorch wrote them: the operations of PyTorch that
    /// removed or inserted a dimension of length 1. Merged dimensions then have placements, and a
    /// value that may belong to one rank alone has none.
    pub written: Option<&'a BTreeMap<NodeId, Rule>>,
}

pub(super) struct Search<'a> {
    pub(super) of: PlacementProblem<'a>,
    /// Nodes in the order in which they are placed; an input comes just before its first use.
    order: Vec<NodeId>,
    pub(super) places: Vec<Option<AxisPlacement>>,
    steps: usize,
    stuck: FailedSearch,
    /// Number of placed nodes when `stuck` was recorded.
    depth: usize,
}

/// Finds placements of all live nodes.
///
/// # Errors
/// Returns the end of the path that reached furthest, if there are no such placements.
pub fn find_placements(of: PlacementProblem<'_>) -> Result<Vec<Option<AxisPlacement>>, FailedSearch> {
    let (g, live) = (of.g, of.live);
    let mut order = vec![];
    let mut seen = vec![false; g.nodes.len()];
    for n in (0..g.nodes.len()).filter(|n| live[*n]) {
        if matches!(g.nodes[n].op, NodeOp::Input(_)) {
            continue;
        }
        for u in g.nodes[n].uses().chain([n]) {
            if !std::mem::replace(&mut seen[u], true) {
                order.push(u);
            }
        }
    }
    // Results that are inputs.
    order.extend((0..g.nodes.len()).filter(|n| live[*n] && !seen[*n]));
    let stuck = FailedSearch { at: 0, why: "no placement was tried".into(), result: false, lacks: false };
    let mut s = Search { of, order, places: vec![None; g.nodes.len()], steps: 0, stuck, depth: 0 };
    if s.run() { Ok(s.places) } else { Err(s.stuck) }
}

impl Search<'_> {
    /// Tries the placements of each node in order, and backtracks to an earlier node if a
    /// node has none.
    fn run(&mut self) -> bool {
        // For each node placed so far, the placements left to try.
        let mut left: Vec<Vec<AxisPlacement>> = vec![];
        loop {
            if left.len() == self.order.len() {
                let Some((n, why)) = self.unfinished() else { return true };
                self.end(left.len(), n, NoPlacement { why, wrong: true }, true);
            } else {
                let n = self.order[left.len()];
                self.steps += 1;
                let mut may = match self.effect(n) {
                    // An unknown placement is a candidate only in a lenient search.
                    Ok(list) if !self.of.lenient && list.contains(&Unknown) => {
                        self.stuck.lacks = true;
                        list.into_iter().filter(|p| *p != Unknown).collect()
                    }
                    Ok(list) => list,
                    Err(fault) if self.of.lenient && !fault.wrong => vec![Unknown],
                    Err(fault) => {
                        self.end(left.len(), n, fault, false);
                        vec![]
                    }
                };
                may.reverse();
                left.push(may);
            }
            // Backtrack to a node with a placement left.
            loop {
                let Some(rest) = left.last_mut() else { return false };
                if let Some(p) = rest.pop() {
                    let n = self.order[left.len() - 1];
                    self.places[n] = Some(p);
                    break;
                }
                if self.steps > MAX_STEPS {
                    self.stuck.lacks = true;
                    return false;
                }
                left.pop();
            }
        }
    }

    /// Records the end of a path, if it reached further than earlier ones.
    fn end(&mut self, depth: usize, at: NodeId, fault: NoPlacement, result: bool) {
        let lacks = self.stuck.lacks || !fault.wrong;
        if depth >= self.depth {
            self.depth = depth;
            self.stuck = FailedSearch { at, why: fault.why, result, lacks };
        }
        self.stuck.lacks = lacks;
    }

    /// Returns a result that is still a part of a reduction, or does not have its
    /// declared placement.
    fn unfinished(&self) -> Option<(NodeId, String)> {
        self.of.results.iter().find_map(|(n, said)| match (self.places[*n], said) {
            (Some(p), Some(said)) if p != *said && p != Unknown => {
                Some((*n, format!("the result is {}, and it is declared as {}", p.words(), said.words())))
            }
            (Some(p @ Within(..)), None) => {
                Some((*n, format!("the result is {}, which is not a placement", p.words())))
            }
            (Some(p @ Partial(_)), None) => Some((
                *n,
                format!("the result is {} on each rank, and no collective combines them", p.words()),
            )),
            _ => None,
        })
    }

    pub(super) fn place(&self, o: &Operand) -> Option<AxisPlacement> {
        match o {
            Operand::Num(_) => None,
            Operand::Node(n) => self.places[*n],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::RankCollective;
    use super::*;
    use crate::torch::dtype::DType;

    /// The graph of `x[4, 6]` by `w1[6, 3]`, by `w2[3, 6]`, and an all_reduce.
    fn layers(reduced: bool) -> Graph {
        let mut g = Graph::default();
        let sizes: [&[i64]; 3] = [&[4, 6], &[6, 3], &[3, 6]];
        let n = sizes.map(|s| g.push(NodeOp::Input(0), vec![], DType::F32, s.to_vec()));
        for (i, n) in n.iter().enumerate() {
            g.nodes[*n].op = NodeOp::Input(i);
        }
        let h = g.matmul(n[0], n[1]);
        let Operand::Node(h) = g.call("relu", &[Operand::Node(h)]) else { panic!("a node") };
        let y = g.matmul(h, n[2]);
        if reduced {
            let c = NodeOp::Collective(RankCollective::AllReduce("sum"), 0..1);
            g.push(c, vec![Operand::Node(y)], DType::F32, vec![4, 6]);
        }
        g
    }

    fn found(g: &Graph, candidates: &Candidates) -> Result<Vec<AxisPlacement>, FailedSearch> {
        let (live, own) = (vec![true; g.nodes.len()], AxisDifferences::default());
        let (axis, size, lenient) = (0, 2, false);
        let all = find_placements(PlacementProblem {
            g,
            live: &live,
            axis,
            size,
            candidates,
            own: &own,
            results: &[],
            lenient,
            written: None,
        })?;
        Ok(all.into_iter().flatten().collect())
    }

    #[test]
    fn columns_then_rows() {
        let any = vec![Whole, Split(0), Split(1)];
        let list = found(&layers(true), &vec![any.clone(), any.clone(), any]).expect("placements");
        // Without data, `x` may be split too; then the first matmul is the one whose
        // parts are summed.
        assert_eq!(list[..3], [Whole, Split(1), Split(0)]);
        assert_eq!(list[3..], [Split(1), Split(1), Partial("sum"), Whole]);
        let whole = found(&layers(false), &vec![vec![Whole]; 3]).expect("placements");
        assert_eq!(whole, [Whole; 6]);
    }

    #[test]
    fn what_no_placement_explains() {
        let e = found(&layers(true), &vec![vec![Whole]; 3]).expect_err("nothing to reduce");
        assert_eq!((e.at, e.lacks, e.result), (6, false, false));
        assert_eq!(
            e.why,
            "an all_reduce sum of an operand that is whole on every rank: the result is 2 times the operand"
        );
    }
}
