//! Where the parts of a local program's values are, for one axis of the mesh: which placements of its inputs make every
//! collective a change of placement (docs/adr/036-lift.md).
//!
//! Owns the search. What an operation makes of placements is [`super::effects`]'s. A value is whole, split along a
//! dimension, or a part of a reduction over the axis; sizes are those of a rank.

use super::graph::{Graph, NodeId, Op, Operand};
use super::own::Own;
use crate::torch::rules::Rule;
use std::collections::BTreeMap;

/// Where a value's parts are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Every rank has it.
    Whole,
    /// Each has a part of a dimension, all of the same length.
    Split(usize),
    /// Of a dimension that others were put together to, each has a part of every block: the dimension, and its blocks.
    Within(usize, i64),
    /// What each has is combined.
    Partial(&'static str),
    /// No rule tells: of a lenient search alone.
    Unknown,
}

use Place::{Partial, Split, Unknown, Whole, Within};

impl Place {
    /// `split along 0`
    pub fn words(self) -> String {
        match self {
            Whole => "whole".into(),
            Split(d) => format!("split along {d}"),
            Within(d, n) => format!("split along {d} in each of {n} blocks"),
            Partial(op) => format!("a part of a {op}"),
            Unknown => "not known".into(),
        }
    }

    /// The dimension of which each rank has a part, and in how many blocks.
    pub(super) fn cut(self) -> Option<(usize, i64)> {
        match self {
            Split(d) => Some((d, 1)),
            Within(d, n) => Some((d, n)),
            Whole | Partial(_) | Unknown => None,
        }
    }

    /// Parts of a dimension, in blocks.
    pub(super) fn parts((d, blocks): (usize, i64)) -> Place {
        if blocks == 1 { Split(d) } else { Within(d, blocks) }
    }
}

/// Steps of a search.
const MOST: usize = 200_000;

/// What an input may be, the likeliest first.
pub type Candidates = Vec<Vec<Place>>;

/// Why an operation has no placement where its operands are what they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// In words.
    pub why: String,
    /// Whether no program means that; otherwise kbc has no rule.
    pub wrong: bool,
}

/// What no program means.
pub(super) fn wrong<T>(why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { why: why.into(), wrong: true })
}

/// What kbc has no rule for.
pub(super) fn no_rule<T>(why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { why: why.into(), wrong: false })
}

/// A search that found nothing: how far it came, and why no further.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// The node.
    pub at: NodeId,
    /// Why it has no placement.
    pub why: String,
    /// Whether that is the place of a result.
    pub result: bool,
    /// Whether a rule was missing on some path, or the search was too long.
    pub lacks: bool,
}

/// What is searched.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The program of each rank.
    pub g: &'a Graph,
    /// Which nodes do something.
    pub live: &'a [bool],
    /// The axis of the mesh.
    pub axis: usize,
    /// Its ranks.
    pub size: u64,
    /// What inputs may be.
    pub candidates: &'a Candidates,
    /// What ranks of the axis have of their own.
    pub own: &'a Own,
    /// Results, which are no parts of a reduction, or what they are said to be.
    pub results: &'a [(NodeId, Option<Place>)],
    /// Whether an operation without a rule has a result that is not known, and the search goes on.
    pub lenient: bool,
    /// Whether the graph is as PyTorch wrote it: dimensions that were put together have placements, and what may be one
    /// rank's own has none. Which operations of PyTorch left out or put in a dimension of length 1.
    pub written: Option<&'a BTreeMap<NodeId, Rule>>,
}

pub(super) struct Search<'a> {
    pub(super) of: Asked<'a>,
    /// Nodes in the order they are placed: an input just before its first use.
    order: Vec<NodeId>,
    pub(super) places: Vec<Option<Place>>,
    steps: usize,
    stuck: Stuck,
    /// How many nodes were placed when that was found.
    depth: usize,
}

/// Places of all live nodes.
///
/// # Errors
/// There are none; of the paths tried, where the one that came furthest ended.
pub fn places(of: Asked<'_>) -> Result<Vec<Option<Place>>, Stuck> {
    let (g, live) = (of.g, of.live);
    let mut order = vec![];
    let mut seen = vec![false; g.nodes.len()];
    for n in (0..g.nodes.len()).filter(|n| live[*n]) {
        if matches!(g.nodes[n].op, Op::Input(_)) {
            continue;
        }
        for u in g.nodes[n].uses().chain([n]) {
            if !std::mem::replace(&mut seen[u], true) {
                order.push(u);
            }
        }
    }
    // results that are inputs
    order.extend((0..g.nodes.len()).filter(|n| live[*n] && !seen[*n]));
    let stuck = Stuck { at: 0, why: "nothing was tried".into(), result: false, lacks: false };
    let mut s = Search { of, order, places: vec![None; g.nodes.len()], steps: 0, stuck, depth: 0 };
    if s.run() { Ok(s.places) } else { Err(s.stuck) }
}

impl Search<'_> {
    /// Tries what each node may be, in order, and the next of an earlier one where it may be nothing.
    fn run(&mut self) -> bool {
        // what is left to try of each node so far
        let mut left: Vec<Vec<Place>> = vec![];
        loop {
            if left.len() == self.order.len() {
                let Some((n, why)) = self.unfinished() else { return true };
                self.end(left.len(), n, Fault { why, wrong: true }, true);
            } else {
                let n = self.order[left.len()];
                self.steps += 1;
                let mut may = match self.effect(n) {
                    // or what there is no rule for
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
            // back to a node with something left
            loop {
                let Some(rest) = left.last_mut() else { return false };
                if let Some(p) = rest.pop() {
                    let n = self.order[left.len() - 1];
                    self.places[n] = Some(p);
                    break;
                }
                if self.steps > MOST {
                    self.stuck.lacks = true;
                    return false;
                }
                left.pop();
            }
        }
    }

    /// A path ends here.
    fn end(&mut self, depth: usize, at: NodeId, fault: Fault, result: bool) {
        let lacks = self.stuck.lacks || !fault.wrong;
        if depth >= self.depth {
            self.depth = depth;
            self.stuck = Stuck { at, why: fault.why, result, lacks };
        }
        self.stuck.lacks = lacks;
    }

    /// A result that is still a part of a reduction, or is not what it is said to be.
    fn unfinished(&self) -> Option<(NodeId, String)> {
        self.of.results.iter().find_map(|(n, said)| match (self.places[*n], said) {
            (Some(p), Some(said)) if p != *said && p != Unknown => {
                Some((*n, format!("the result is {}, and declared to be {}", p.words(), said.words())))
            }
            (Some(p @ Within(..)), None) => {
                Some((*n, format!("the result is {}, which is no placement", p.words())))
            }
            (Some(p @ Partial(_)), None) => Some((
                *n,
                format!("the result is {} on each rank, and no collective combines them", p.words()),
            )),
            _ => None,
        })
    }

    pub(super) fn place(&self, o: &Operand) -> Option<Place> {
        match o {
            Operand::Num(_) => None,
            Operand::Node(n) => self.places[*n],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::Coll;
    use super::*;
    use crate::torch::dtype::DType;

    /// x[4, 6] by w1[6, 3], by w2[3, 6], all_reduce.
    fn layers(reduced: bool) -> Graph {
        let mut g = Graph::default();
        let sizes: [&[i64]; 3] = [&[4, 6], &[6, 3], &[3, 6]];
        let n = sizes.map(|s| g.push(Op::Input(0), vec![], DType::F32, s.to_vec()));
        for (i, n) in n.iter().enumerate() {
            g.nodes[*n].op = Op::Input(i);
        }
        let h = g.matmul(n[0], n[1]);
        let Operand::Node(h) = g.call("relu", &[Operand::Node(h)]) else { panic!("a node") };
        let y = g.matmul(h, n[2]);
        if reduced {
            let c = Op::Collective(Coll::AllReduce("sum"), 0..1);
            g.push(c, vec![Operand::Node(y)], DType::F32, vec![4, 6]);
        }
        g
    }

    fn found(g: &Graph, candidates: &Candidates) -> Result<Vec<Place>, Stuck> {
        let (live, own) = (vec![true; g.nodes.len()], Own::default());
        let (axis, size, lenient) = (0, 2, false);
        let all = places(Asked {
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
        // x is split, too, if nothing says that it is whole: then the first product is the one that is summed
        assert_eq!(list[..3], [Whole, Split(1), Split(0)]);
        assert_eq!(list[3..], [Split(1), Split(1), Partial("sum"), Whole]);
        let whole = found(&layers(false), &vec![vec![Whole]; 3]).expect("placements");
        assert_eq!(whole, [Whole; 6]);
    }

    #[test]
    fn what_no_placement_explains() {
        let e = found(&layers(true), &vec![vec![Whole]; 3]).expect_err("nothing to reduce");
        assert_eq!((e.at, e.lacks, e.result), (6, false, false));
        assert_eq!(e.why, "an all_reduce sum of what is whole on every rank: the result is 2 times it");
    }
}
