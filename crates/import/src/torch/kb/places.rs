//! Where the parts of a local program's values are, for one axis of the mesh: which placements of its inputs make every
//! collective a change of placement (docs/adr/036-lift.md).
//!
//! Owns the rule of each operation and the search. A value is whole, split along a dimension, or a part of a reduction over
//! the axis; sizes are those of a rank.

use super::graph::{Coll, Graph, Layer, NodeId, Op, Operand};
use std::ops::Range;

/// Where a value's parts are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Every rank has it.
    Whole,
    /// Each has a part of a dimension, all of the same length.
    Split(usize),
    /// What each has is combined.
    Partial(&'static str),
}

use Place::{Partial, Split, Whole};

/// Steps of a search.
const MOST: usize = 200_000;

/// What an input may be, the likeliest first.
pub type Candidates = Vec<Vec<Place>>;

/// A search that found nothing: how far it came, and why no further.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// The node.
    pub at: NodeId,
    /// Why it has no placement.
    pub why: String,
}

/// The places of an operand that broadcasts, as dimensions of the result.
struct Seen {
    place: Place,
    /// The first dimension of the result that it has.
    lead: usize,
    sizes: Vec<i64>,
}

struct Search<'a> {
    g: &'a Graph,
    axis: usize,
    /// Nodes in the order they are placed: an input just before its first use.
    order: Vec<NodeId>,
    candidates: &'a Candidates,
    places: Vec<Option<Place>>,
    steps: usize,
    stuck: Stuck,
    /// How many nodes were placed when that was found.
    depth: usize,
}

/// Places of all live nodes.
///
/// # Errors
/// There are none; of the ways tried, where the one that came furthest ended.
pub fn places(
    g: &Graph,
    live: &[bool],
    axis: usize,
    candidates: &Candidates,
) -> Result<Vec<Option<Place>>, Stuck> {
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
    let mut s = Search {
        g,
        axis,
        order,
        candidates,
        places: vec![None; g.nodes.len()],
        steps: 0,
        stuck: Stuck { at: 0, why: "nothing was tried".into() },
        depth: 0,
    };
    if s.run() { Ok(s.places) } else { Err(s.stuck) }
}

impl Search<'_> {
    /// Tries what each node may be, in order, and the next of an earlier one where it may be nothing.
    fn run(&mut self) -> bool {
        // what is left to try of each node so far
        let mut left: Vec<Vec<Place>> = vec![];
        loop {
            if left.len() == self.order.len() {
                return true;
            }
            let n = self.order[left.len()];
            self.steps += 1;
            let mut may = match self.may(n) {
                Ok(list) => list,
                Err(why) => {
                    if left.len() >= self.depth {
                        (self.depth, self.stuck) = (left.len(), Stuck { at: n, why });
                    }
                    vec![]
                }
            };
            may.reverse();
            left.push(may);
            // back to a node with something left
            loop {
                let Some(rest) = left.last_mut() else { return false };
                if let Some(p) = rest.pop() {
                    let n = self.order[left.len() - 1];
                    self.places[n] = Some(p);
                    break;
                }
                if self.steps > MOST {
                    return false;
                }
                left.pop();
            }
        }
    }

    fn place(&self, o: &Operand) -> Option<Place> {
        match o {
            Operand::Num(_) => None,
            Operand::Node(n) => self.places[*n],
        }
    }

    /// What a node may be where its operands are what they are.
    fn may(&self, n: NodeId) -> Result<Vec<Place>, String> {
        let node = &self.g.nodes[n];
        let one = |p: Place| Ok(vec![p]);
        let x = node.args.first().and_then(|o| self.place(o));
        let first = || -> &[i64] {
            match node.args.first() {
                Some(Operand::Node(n)) => &self.g.nodes[*n].sizes,
                _ => &[],
            }
        };
        match (&node.op, x) {
            (Op::Input(i), _) => Ok(self.candidates[*i].clone()),
            (Op::Constant(_) | Op::Iota(_), _) => one(Whole),
            // the same wherever it is cut
            (Op::Full(_), _) => Ok([Whole].into_iter().chain((0..node.sizes.len()).map(Split)).collect()),
            (Op::Wait | Op::Placed, Some(p)) => one(p),
            (Op::Infix(op @ ('+' | '-')), _) => {
                let parts: Vec<Option<Place>> = node.args.iter().map(|a| self.place(a)).collect();
                match parts.iter().flatten().find(|p| matches!(p, Partial(_))) {
                    Some(Partial("sum")) if parts.iter().all(|p| *p == Some(Partial("sum"))) => {
                        one(Partial("sum"))
                    }
                    Some(_) => Err(format!("a part of a reduction meets what is none at `{op}`")),
                    None => self.together(n),
                }
            }
            (Op::Infix(op), _) => {
                let (a, b) = (x, node.args.get(1).and_then(|o| self.place(o)));
                match (a, b, op) {
                    (Some(Partial("sum")), None | Some(Whole), _) => one(Partial("sum")),
                    (None | Some(Whole), Some(Partial("sum")), '*') => one(Partial("sum")),
                    (Some(Partial(_)), ..) | (_, Some(Partial(_)), _) => {
                        Err(format!("`{op}` of a part of a reduction"))
                    }
                    _ => self.together(n),
                }
            }
            (Op::Call("-"), Some(Partial("sum"))) => one(Partial("sum")),
            (Op::Call("embedding"), _) => self.embedding(n),
            (Op::Call(_) | Op::Select(_) | Op::Cast, _) => self.together(n),
            (Op::Matmul, Some(a)) => {
                let b = node.args.get(1).and_then(|o| self.place(o)).unwrap_or(Whole);
                self.matmul(n, a, b).map(|p| vec![p])
            }
            (Op::Layer(layer), Some(p)) => {
                let last = node.sizes.len() - 1;
                let along = match layer {
                    Layer::Softmax(d) | Layer::LogSoftmax(d) => *d,
                    Layer::Norm(_) => last,
                };
                let rest = node.args[1..].iter().all(|a| self.place(a).is_none_or(|p| p == Whole));
                match p {
                    Whole if rest => one(Whole),
                    Split(d) if d != along && rest => one(p),
                    _ => Err(format!("it works along dimension {along}, of what is {}", p.words())),
                }
            }
            (Op::Reduce(how, dim, keep), Some(p)) => one(match p {
                Whole => Whole,
                Split(d) if d == *dim => match *how {
                    "sum" | "mean" => Partial("sum"),
                    "max" => Partial("max"),
                    "min" => Partial("min"),
                    _ => return Err(format!("{how} along the dimension that is split")),
                },
                Split(d) if d > *dim && !keep => Split(d - 1),
                Split(d) => Split(d),
                Partial("sum") if matches!(*how, "sum" | "mean") => Partial("sum"),
                Partial(op) if op == *how => p,
                Partial(_) => return Err(format!("{how} of a part of another reduction")),
            }),
            (Op::Reshape, Some(Split(d))) => {
                let before = |s: &[i64], d: usize| s[..d].iter().product::<i64>();
                let (from, to) = (first(), &node.sizes);
                let list: Vec<Place> =
                    (0..to.len()).filter(|e| before(from, d) == before(to, *e)).map(Split).collect();
                match list.is_empty() {
                    true => Err(format!("{from:?} as {to:?}: the split dimension {d} is not outermost")),
                    false => Ok(list),
                }
            }
            (Op::Transpose(order), Some(Split(d))) => {
                one(Split(order.iter().position(|o| *o == d).unwrap_or(d)))
            }
            (Op::Slice(dim, ..), Some(Split(d))) if d == *dim => {
                Err(format!("a slice along the dimension {d}, which is split"))
            }
            (Op::Reshape | Op::Transpose(_) | Op::Slice(..), Some(p)) => one(p),
            (Op::Concat(dim), Some(p)) => match p {
                Split(d) if d == *dim => {
                    Err(format!("a concatenation along the dimension {d}, which is split"))
                }
                _ if node.args.iter().any(|a| self.place(a) != Some(p)) => {
                    Err("a concatenation of values with different placements".into())
                }
                _ => one(p),
            },
            (Op::Collective(c, over), Some(p)) => self.collective(c, over, p).map(|p| vec![p]),
            _ => Err("it has no operand".into()),
        }
    }

    /// Elementwise operations: who is split is so along one dimension of the result, which the others lack or have once.
    fn together(&self, n: NodeId) -> Result<Vec<Place>, String> {
        let node = &self.g.nodes[n];
        let rank = node.sizes.len();
        let seen: Vec<Seen> = node
            .args
            .iter()
            .filter_map(|a| match a {
                Operand::Node(m) => {
                    let sizes = self.g.nodes[*m].sizes.clone();
                    Some(Seen { place: self.places[*m]?, lead: rank - sizes.len(), sizes })
                }
                Operand::Num(_) => None,
            })
            .collect();
        let mut split = None;
        for s in &seen {
            match s.place {
                Whole => {}
                Split(d) if split.is_none_or(|e| e == d + s.lead) => split = Some(d + s.lead),
                Split(_) => return Err("operands are split along different dimensions".into()),
                Partial(_) => return Err("a function of a part of a reduction".into()),
            }
        }
        let Some(d) = split else { return Ok(vec![Whole]) };
        let fits = |s: &Seen| s.place != Whole || d < s.lead || s.sizes[d - s.lead] == 1;
        if seen.iter().all(fits) {
            Ok(vec![Split(d)])
        } else {
            Err(format!("an operand is split along dimension {d}, and another whole"))
        }
    }

    fn matmul(&self, n: NodeId, a: Place, b: Place) -> Result<Place, String> {
        let node = &self.g.nodes[n];
        let sizes = |i: usize| match node.args[i] {
            Operand::Node(m) => self.g.nodes[m].sizes.clone(),
            Operand::Num(_) => vec![],
        };
        let (x, y, rank) = (sizes(0), sizes(1), node.sizes.len());
        let (ra, rb) = (x.len(), y.len());
        // the batch dimension of the result, and whether the other operand has it only once
        let batch = |d: usize, own: usize| (d + 2 < own).then(|| d + rank - own);
        let lacks = |e: usize, s: &[i64]| e < rank - s.len() || s[e + s.len() - rank] == 1;
        match (a, b) {
            (Whole, Whole) => Ok(Whole),
            (Partial("sum"), Whole) | (Whole, Partial("sum")) => Ok(Partial("sum")),
            (Split(d), Split(e)) if d + 1 == ra && e + 2 == rb => Ok(Partial("sum")),
            (Split(d), Split(e)) if batch(d, ra).is_some() && batch(d, ra) == batch(e, rb) => {
                Ok(Split(d + rank - ra))
            }
            (Split(d), Whole) if d + 2 == ra => Ok(Split(rank - 2)),
            (Whole, Split(e)) if e + 1 == rb => Ok(Split(rank - 1)),
            (Split(d), Whole) if batch(d, ra).is_some_and(|e| lacks(e, &y)) => Ok(Split(d + rank - ra)),
            (Whole, Split(e)) if batch(e, rb).is_some_and(|d| lacks(d, &x)) => Ok(Split(e + rank - rb)),
            _ => Err(format!("a product of what is {} and what is {}", a.words(), b.words())),
        }
    }

    fn embedding(&self, n: NodeId) -> Result<Vec<Place>, String> {
        let node = &self.g.nodes[n];
        let at = |i: usize| node.args.get(i).and_then(|o| self.place(o)).unwrap_or(Whole);
        match (at(0), at(1)) {
            (Whole, p @ (Whole | Split(_))) => Ok(vec![p]),
            (Split(1), Whole) => Ok(vec![Split(node.sizes.len() - 1)]),
            (Split(0), _) => Err("rows of a table that each rank numbers from 0".into()),
            _ => Err("a table and numbers of rows that are both split".into()),
        }
    }

    fn collective(&self, c: &Coll, over: &Range<usize>, p: Place) -> Result<Place, String> {
        if !over.contains(&self.axis) {
            let dims: &[usize] = match c {
                Coll::AllGather(d) | Coll::ReduceScatter(_, d) => &[*d],
                Coll::Dims(a, b) => &[*a, *b],
                Coll::Rows(_) => &[0],
                _ => &[],
            };
            return match (p, c) {
                (Split(d), _) if dims.contains(&d) => {
                    Err("a collective along a dimension that another axis splits".into())
                }
                (Partial(a), Coll::AllReduce(b) | Coll::ReduceScatter(b, _)) if a != *b => {
                    Err("two different reductions of one value".into())
                }
                (_, Coll::Rows(_)) => Err(ROWS.into()),
                _ => Ok(p),
            };
        }
        let alone = over.len() == 1 || matches!(c, Coll::AllReduce(_));
        match (c, p) {
            _ if !alone => Err("a collective over several axes that moves parts".into()),
            (Coll::AllReduce(how), Partial(op)) if *how == op => Ok(Whole),
            (Coll::AllGather(d), Split(e)) if *d == e => Ok(Whole),
            (Coll::ReduceScatter(how, d), Partial(op)) if *how == op => Ok(Split(*d)),
            (Coll::Dims(from, to), Split(e)) if *from == e => Ok(Split(*to)),
            (Coll::Broadcast(_), Whole) => Ok(Whole),
            (Coll::Rows(_), _) => Err(ROWS.into()),
            (Coll::AllReduce("avg") | Coll::ReduceScatter("avg", _), _) => {
                Err("an average over ranks; a sum and a division are one".into())
            }
            (Coll::AllReduce(how), _) => Err(format!("an all_reduce {how} of what is {}", p.words())),
            (Coll::AllGather(d), _) => Err(format!("an all_gather along {d} of what is {}", p.words())),
            (Coll::ReduceScatter(how, _), _) => {
                Err(format!("a reduce_scatter {how} of what is {}", p.words()))
            }
            (Coll::Dims(from, _), _) => Err(format!("an all_to_all from {from} of what is {}", p.words())),
            (Coll::Broadcast(_), _) => Err(format!("a broadcast of what is {}", p.words())),
        }
    }
}

const ROWS: &str = "rows that ranks send each other are no change of placement";

impl Place {
    /// `split along 0`
    pub fn words(self) -> String {
        match self {
            Whole => "whole".into(),
            Split(d) => format!("split along {d}"),
            Partial(op) => format!("a part of a {op}"),
        }
    }
}

#[cfg(test)]
mod tests {
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
        let all = places(g, &vec![true; g.nodes.len()], 0, candidates)?;
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
        assert_eq!(e, Stuck { at: 6, why: "an all_reduce sum of what is whole".into() });
    }
}
