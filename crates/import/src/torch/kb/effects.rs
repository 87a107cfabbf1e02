//! Placement rules: the placements that each operation allows for its result over one axis.
//!
//! This module distinguishes operations that no program can mean ([`wrong`]) from those for which
//! kbc has no rule ([`no_rule`]).

use super::graph::{GraphNode, Layer, NodeId, NodeOp, Operand, RankCollective};
use super::placements::{AxisPlacement, NoPlacement, Search, no_rule, wrong};
use crate::torch::rule::Rule;
use std::ops::Range;

use AxisPlacement::{Partial, Split, Unknown, Whole, Within};

/// The placements that a node may have, most likely first.
type PossiblePlacements = Result<Vec<AxisPlacement>, NoPlacement>;

/// An operand that broadcasts, with its placement; dimensions are mapped to those of the result.
struct Seen {
    place: AxisPlacement,
    /// First dimension of the result that the operand has.
    lead: usize,
    sizes: Vec<i64>,
}

fn one(p: AxisPlacement) -> PossiblePlacements {
    Ok(vec![p])
}

impl Search<'_> {
    /// Returns the placements that a node may have, given those of its operands.
    pub(super) fn effect(&self, n: NodeId) -> PossiblePlacements {
        let node = &self.of.g.nodes[n];
        let x = node.args.first().and_then(|o| self.place(o));
        if node.args.iter().any(|a| self.place(a) == Some(Unknown))
            && !matches!(node.op, NodeOp::Collective(..) | NodeOp::Wait | NodeOp::Placed)
        {
            return one(Unknown);
        }
        if self.of.own.numbers.contains_key(&n) {
            return self.own_numbers(n, node);
        }
        match (&node.op, x) {
            (NodeOp::Input(i), _) => Ok(self.of.candidates[*i].clone()),
            (NodeOp::Constant(_), _) if self.of.own.constants.contains(&n) => {
                Ok((0..node.sizes.len()).map(Split).chain([Partial("sum")]).collect())
            }
            (NodeOp::Constant(k), _) if self.of.g.constants[*k].1.uniform().is_none() => one(Whole),
            (NodeOp::Iota(_), _) => one(Whole),
            (NodeOp::Numbered(d), _) => one(Split(*d)),
            // A repeated value is the same however it is split.
            (NodeOp::Full(_) | NodeOp::Constant(_), _) => {
                Ok([Whole].into_iter().chain((0..node.sizes.len()).map(Split)).collect())
            }
            (NodeOp::Wait | NodeOp::Placed, Some(p)) => one(p),
            (NodeOp::Infix(op), _) => self.infix(n, node, *op),
            (NodeOp::Call("-"), Some(Partial("sum"))) => one(Partial("sum")),
            (NodeOp::Call("embedding"), _) => self.embedding(node),
            (NodeOp::Owned, _) => self.owned(node),
            (NodeOp::Call(name @ ("argmax" | "cumsum")), Some(p)) => self.along_last(node, name, p),
            // Rounding the parts gives about the rounded sum.
            (NodeOp::Cast, Some(Partial("sum"))) if node.dtype.class() == 2 => one(Partial("sum")),
            (NodeOp::Select(_), _) if self.chosen_part(node) => one(Partial("sum")),
            (NodeOp::Call(_) | NodeOp::Select(_) | NodeOp::Cast, _) => self.together(n),
            (NodeOp::Matmul, Some(a)) => {
                let b = node.args.get(1).and_then(|o| self.place(o)).unwrap_or(Whole);
                self.matmul(n, a, b).map(|p| vec![p])
            }
            (NodeOp::Layer(layer), Some(p)) => {
                let last = node.sizes.len() - 1;
                let along = match layer {
                    Layer::Softmax(d) | Layer::LogSoftmax(d) => *d,
                    Layer::Norm(_) => last,
                };
                let rest = node.args[1..].iter().all(|a| self.place(a).is_none_or(|p| p == Whole));
                match p {
                    Whole if rest => one(Whole),
                    Split(d) | Within(d, _) if d != along && rest => one(p),
                    _ if !rest => wrong("its weights are not whole on every rank"),
                    _ => wrong(format!("it works along dimension {along}, and its operand is {}", p.words())),
                }
            }
            (NodeOp::Reduce(how, dim, keep), Some(p)) => reduced(how, *dim, *keep, p),
            (NodeOp::Reshape, Some(Split(d))) => self.reshaped(n, node, (d, 1)),
            (NodeOp::Reshape, Some(Within(d, blocks))) => self.reshaped(n, node, (d, blocks)),
            (NodeOp::Transpose(order), Some(p @ (Split(_) | Within(..)))) => {
                let to = |d: usize| order.iter().position(|o| *o == d).unwrap_or(d);
                one(p.cut().map_or(p, |(d, blocks)| AxisPlacement::parts((to(d), blocks))))
            }
            (NodeOp::Slice(dim, ..), Some(p)) => self.sliced(n, *dim, p),
            (NodeOp::Reshape | NodeOp::Transpose(_), Some(p)) => one(p),
            (NodeOp::Concat(dim), Some(p)) => match p {
                _ if node.args.iter().any(|a| self.place(a) != Some(p)) => {
                    wrong("a concatenation of values with different placements")
                }
                Split(d) | Within(d, _) if d == *dim => {
                    no_rule(format!("a concatenation along the dimension {d}, which is split"))
                }
                _ => one(p),
            },
            (NodeOp::Collective(c, over), Some(p)) => self.collective(n, c, over, p),
            (NodeOp::Opaque, _) => match node.args.is_empty() {
                true => no_rule("kbc does not support this operation"),
                false => no_rule("kbc does not know what it computes"),
            },
            (
                NodeOp::Wait
                | NodeOp::Placed
                | NodeOp::Matmul
                | NodeOp::Layer(_)
                | NodeOp::Reduce(..)
                | NodeOp::Reshape
                | NodeOp::Transpose(_)
                | NodeOp::Slice(..)
                | NodeOp::Concat(_)
                | NodeOp::Collective(..),
                None,
            ) => no_rule("it has no operand"),
        }
    }

    fn infix(&self, n: NodeId, node: &GraphNode, op: char) -> PossiblePlacements {
        let of = |i: usize| node.args.get(i).and_then(|o| self.place(o));
        match (op, of(0), of(1)) {
            ('+' | '-', Some(Partial(a)), Some(Partial(b))) if a == "sum" && b == "sum" => {
                one(Partial("sum"))
            }
            // If the same value is added to all parts of a maximum, the maximum moves
            // by that value.
            ('+' | '-', Some(p @ Partial("max" | "min")), None | Some(Whole)) => one(p),
            ('+', None | Some(Whole), Some(p @ Partial("max" | "min"))) => one(p),
            ('+' | '-', Some(Partial(how)), _) | ('+' | '-', _, Some(Partial(how))) => wrong(format!(
                "`{op}` combines a part of a {how} with a value that is not a part of it: {}",
                if how == "sum" {
                    format!("every rank of {} adds it before the parts are combined", self.of.size)
                } else {
                    "the parts are not combined yet".to_owned()
                }
            )),
            ('*' | '/', Some(Partial("sum")), None | Some(Whole)) => one(Partial("sum")),
            ('*', None | Some(Whole), Some(Partial("sum"))) => one(Partial("sum")),
            (_, Some(Partial(_)), _) | (_, _, Some(Partial(_))) => {
                wrong(format!("`{op}` works on a part of a reduction before the parts are combined"))
            }
            // A share of a whole value is a part of a sum.
            _ if self.share(node) => Ok(vec![Whole, Partial("sum")]),
            _ => self.together(n),
        }
    }

    /// Checks whether a node divides a whole value by the number of ranks.
    pub(super) fn share(&self, node: &GraphNode) -> bool {
        let whole = |o: &Operand| self.place(o) == Some(Whole);
        share_of(node, self.of.size).is_some_and(|x| whole(&Operand::Node(x)))
    }

    /// Checks whether a `select` on whole operands takes a part of a sum or 0.
    fn chosen_part(&self, node: &GraphNode) -> bool {
        let [a, b, x, y] = &node.args[..] else { return false };
        let known = |o: &Operand| matches!(self.place(o), None | Some(Whole));
        let part = |o: &Operand| self.place(o) == Some(Partial("sum"));
        let none = |o: &Operand| *o == Operand::Num(0.0);
        known(a) && known(b) && (part(x) || part(y)) && [x, y].iter().all(|o| part(o) || none(o))
    }

    /// Returns the placement of an operation with numbers that differ between ranks. If they are
    /// factors, the results are shares of a whole.
    fn own_numbers(&self, n: NodeId, node: &GraphNode) -> PossiblePlacements {
        let places: Vec<AxisPlacement> = node.args.iter().filter_map(|a| self.place(a)).collect();
        match (&node.op, &places[..]) {
            (NodeOp::Infix('*'), [Whole]) => one(Partial("sum")),
            _ => no_rule(format!(
                "the numbers differ between ranks: {}",
                self.of.own.numbers.get(&n).map_or("", String::as_str)
            )),
        }
    }

    fn along_last(&self, node: &GraphNode, name: &str, p: AxisPlacement) -> PossiblePlacements {
        let Some(Operand::Node(x)) = node.args.first() else { return no_rule("it has no operand") };
        let last = self.of.g.nodes[*x].sizes.len().saturating_sub(1);
        match p {
            Split(d) | Within(d, _) if d == last => {
                wrong(format!("{name} along dimension {d} of an operand that is {}", p.words()))
            }
            Partial("sum") if name == "cumsum" => one(p),
            Partial(_) => wrong(format!("{name} of {} before the parts are combined", p.words())),
            _ => one(p),
        }
    }

    fn reshaped(&self, n: NodeId, node: &GraphNode, (d, blocks): (usize, i64)) -> PossiblePlacements {
        let from = match node.args.first() {
            Some(Operand::Node(n)) => &self.of.g.nodes[*n].sizes,
            _ => &node.sizes,
        };
        let before = |s: &[i64], d: usize| s[..d].iter().product::<i64>();
        let to = &node.sizes;
        if let Some(rules) = self.of.written {
            return self.as_written(n, (from, to), (d, blocks), rules.get(&n).copied());
        }
        let list: Vec<AxisPlacement> =
            (0..to.len()).filter(|e| before(from, d) == before(to, *e)).map(Split).collect();
        match list.is_empty() {
            true => no_rule(format!(
                "a reshape from {from:?} to {to:?}: the split dimension {d} is not outermost"
            )),
            false => Ok(list),
        }
    }

    /// Returns the placements of a reshape that stays where PyTorch wrote it. An inserted
    /// dimension of length 1 is not the split one. There is no rule for removing a dimension of
    /// length 1 that may number the ranks' own parts. A reshape that undoes an earlier one
    /// restores its placement.
    fn as_written(
        &self,
        n: NodeId,
        (from, to): (&[i64], &[i64]),
        (d, blocks): (usize, i64),
        rule: Option<Rule>,
    ) -> PossiblePlacements {
        let mut list = regrouped(from, to, (d, blocks));
        let inserted = (0..to.len()).any(|k| without(to, k) == from);
        if rule == Some(Rule::Unsqueeze) && blocks == 1 && inserted {
            let moved =
                |e: usize| (0..to.len()).any(|k| without(to, k) == from && e == d + usize::from(k <= d));
            list.retain(|(e, _)| moved(*e));
        }
        if let Some(e) = self.before_merge(n, d) {
            list.retain(|at| *at == (e, 1));
        }
        let kept = list.iter().any(|(e, outer)| *outer == 1 && to[*e] == 1);
        let chosen = matches!(rule, Some(Rule::Select | Rule::Squeeze)) && from[d] == 1 && !kept;
        match chosen || list.is_empty() {
            true => no_rule(format!(
                "a reshape from {from:?} to {to:?}: each rank has only a part of dimension {d}"
            )),
            false => Ok(list.into_iter().map(AxisPlacement::parts).collect()),
        }
    }

    /// Returns the batch dimension that was split before an earlier reshape merged the batch, if
    /// this reshape undoes that one.
    fn before_merge(&self, n: NodeId, d: usize) -> Option<usize> {
        let nodes = &self.of.g.nodes;
        let of = |n: NodeId| match nodes[n].args.first() {
            Some(Operand::Node(x)) => Some(*x),
            _ => None,
        };
        let batch = |n: NodeId| &nodes[n].sizes[..nodes[n].sizes.len().saturating_sub(2)];
        let x = of(n)?;
        let mut y = x;
        while !matches!(nodes[y].op, NodeOp::Reshape) {
            if !matches!(
                nodes[y].op,
                NodeOp::Matmul | NodeOp::Infix(_) | NodeOp::Call(_) | NodeOp::Cast | NodeOp::Layer(_)
            ) {
                return None;
            }
            y = of(y)?;
        }
        let first = of(y)?;
        let undone = batch(first) == batch(n) && batch(y) == batch(x) && d < batch(x).len();
        match self.places[first] {
            Some(Split(e)) if undone && e < batch(n).len() => Some(e),
            _ => None,
        }
    }

    fn sliced(&self, n: NodeId, dim: usize, p: AxisPlacement) -> PossiblePlacements {
        match (self.of.own.slices.get(&n), p) {
            (None, Split(d) | Within(d, _)) if d == dim => {
                no_rule(format!("a slice along the dimension {d}, which is split"))
            }
            (None, _) => one(p),
            (Some(true), Whole) => one(Split(dim)),
            (Some(_), Partial(_)) => wrong(format!(
                "the slice differs between ranks, and its operand is {} that is not combined yet",
                p.words()
            )),
            (Some(_), _) => {
                no_rule("the slices differ between ranks, and they are not the parts of a dimension in order")
            }
        }
    }

    /// Rule of elementwise operations: all split operands are split along the same dimension of the
    /// result, which the other operands lack or have with length 1.
    fn together(&self, n: NodeId) -> PossiblePlacements {
        let node = &self.of.g.nodes[n];
        let rank = node.sizes.len();
        let mut seen = vec![];
        for a in &node.args {
            let (Operand::Node(m), Some(place)) = (a, self.place(a)) else { continue };
            let sizes = self.of.g.nodes[*m].sizes.clone();
            let Some(lead) = rank.checked_sub(sizes.len()) else {
                return no_rule("it has fewer dimensions than its operand");
            };
            seen.push(Seen { place, lead, sizes });
        }
        let mut split = None;
        for s in &seen {
            match s.place {
                Whole => {}
                Split(d) if split.is_none_or(|e| e == (d + s.lead, 1)) => split = Some((d + s.lead, 1)),
                Within(d, n) if split.is_none_or(|e| e == (d + s.lead, n)) => split = Some((d + s.lead, n)),
                Split(_) | Within(..) => return wrong("operands are split along different dimensions"),
                Partial(_) => {
                    return wrong(
                        "a function is applied to a part of a reduction before the parts are combined",
                    );
                }
                Unknown => return no_rule("an operand whose placement is not known"),
            }
        }
        let Some((d, blocks)) = split else { return one(Whole) };
        let fits = |s: &Seen| s.place != Whole || d < s.lead || s.sizes[d - s.lead] == 1;
        let single = |s: &Seen| s.place == Whole || s.sizes[d - s.lead] == 1;
        if seen.iter().all(fits) {
            one(AxisPlacement::parts((d, blocks)))
        } else if self.of.written.is_some() && node.sizes[d] > 1 && seen.iter().all(single) {
            // The operand may be a number that differs between ranks, for a dimension that every
            // rank has whole.
            no_rule(format!(
                "each rank has one element along dimension {d}, and the whole dimension of another operand"
            ))
        } else {
            wrong(format!("one operand is split along dimension {d}, and another one is whole"))
        }
    }

    fn matmul(&self, n: NodeId, a: AxisPlacement, b: AxisPlacement) -> Result<AxisPlacement, NoPlacement> {
        let node = &self.of.g.nodes[n];
        let sizes = |i: usize| match node.args[i] {
            Operand::Node(m) => self.of.g.nodes[m].sizes.clone(),
            Operand::Num(_) => vec![],
        };
        let (x, y, rank) = (sizes(0), sizes(1), node.sizes.len());
        let (ra, rb) = (x.len(), y.len());
        // The batch dimension of the result, and whether the other operand lacks it or has it
        // with length 1.
        let batch = |d: usize, own: usize| (d + 2 < own).then(|| d + rank - own);
        let lacks = |e: usize, s: &[i64]| e < rank - s.len() || s[e + s.len() - rank] == 1;
        match (a, b) {
            (Whole, Whole) => Ok(Whole),
            (Partial("sum"), Whole) | (Whole, Partial("sum")) => Ok(Partial("sum")),
            _ if a.cut().is_some() || b.cut().is_some() => match (a.cut(), b.cut()) {
                (Some((d, n)), Some((e, m))) if n == m && d + 1 == ra && e + 2 == rb => Ok(Partial("sum")),
                (Some((d, n)), Some((e, m)))
                    if n == m && batch(d, ra).is_some() && batch(d, ra) == batch(e, rb) =>
                {
                    Ok(AxisPlacement::parts((d + rank - ra, n)))
                }
                (Some((d, n)), None) if b == Whole && d + 2 == ra => Ok(AxisPlacement::parts((rank - 2, n))),
                (None, Some((e, n))) if a == Whole && e + 1 == rb => Ok(AxisPlacement::parts((rank - 1, n))),
                (Some((d, n)), None) if b == Whole && batch(d, ra).is_some_and(|e| lacks(e, &y)) => {
                    Ok(AxisPlacement::parts((d + rank - ra, n)))
                }
                (None, Some((e, n))) if a == Whole && batch(e, rb).is_some_and(|d| lacks(d, &x)) => {
                    Ok(AxisPlacement::parts((e + rank - rb, n)))
                }
                _ => wrong(format!(
                    "a matmul of an operand that is {} and one that is {}",
                    a.words(),
                    b.words()
                )),
            },
            _ => wrong(format!("a matmul of an operand that is {} and one that is {}", a.words(), b.words())),
        }
    }

    fn embedding(&self, node: &GraphNode) -> PossiblePlacements {
        let at = |i: usize| node.args.get(i).and_then(|o| self.place(o)).unwrap_or(Whole);
        match (at(0), at(1)) {
            (Whole, p @ (Whole | Split(_) | Within(..))) => one(p),
            (Split(1), Whole) => one(Split(node.sizes.len() - 1)),
            (p @ Partial(_), Whole) => one(p),
            (Split(0), _) => wrong("each rank numbers the rows of its part of the table from 0"),
            (Partial(_), _) | (_, Partial(_)) => {
                wrong("the row numbers or the table are parts of a reduction")
            }
            (Within(..), _) => no_rule("each rank has a part of every block of the table"),
            (Split(_) | Whole | Unknown, _) => wrong("the table and the row numbers are both split"),
        }
    }

    /// Rule of `NodeOp::Owned`: each rank has some rows of a table and yields zeros for the rows
    /// of other ranks.
    fn owned(&self, node: &GraphNode) -> PossiblePlacements {
        let at = |i: usize| node.args.get(i).and_then(|o| self.place(o)).unwrap_or(Whole);
        match (at(0), at(1)) {
            (Split(0), Whole) => one(Partial("sum")),
            (a, b) => wrong(format!(
                "each rank looks up its own rows, in a table that is {} with row numbers that are {}",
                a.words(),
                b.words()
            )),
        }
    }

    fn collective(
        &self,
        n: NodeId,
        c: &RankCollective,
        over: &Range<usize>,
        p: AxisPlacement,
    ) -> PossiblePlacements {
        if !over.contains(&self.of.axis) {
            return beside(c, p);
        }
        let alone = over.len() == 1 || !c.kind().blocked();
        let times = format!("the result is {} times the operand", self.of.size);
        let name = c.kind().name();
        match (c, p) {
            _ if !alone => no_rule("a collective over several axes that moves parts"),
            (
                RankCollective::AllReduce(_) | RankCollective::AllGather(_) | RankCollective::Broadcast(_),
                Unknown,
            ) => one(Whole),
            (RankCollective::ReduceScatter(_, d), Unknown) => one(Split(*d)),
            (RankCollective::Dims(..) | RankCollective::Rows(_), Unknown) => one(Unknown),
            (RankCollective::AllReduce(how), Partial(op)) if *how == op => one(Whole),
            // An average is a sum and a division.
            (RankCollective::AllReduce("avg"), Partial("sum")) => one(Whole),
            (RankCollective::AllReduce("avg" | "max" | "min") | RankCollective::Broadcast(_), Whole) => {
                one(Whole)
            }
            (RankCollective::AllReduce("sum"), Whole) if self.divided(n) => one(Whole),
            (RankCollective::AllGather(d), Split(e)) if *d == e => one(Whole),
            (RankCollective::ReduceScatter(how, d), Partial(op)) if *how == op => one(Split(*d)),
            (RankCollective::ReduceScatter("avg", d), Partial("sum")) => one(Split(*d)),
            (RankCollective::Dims(from, to), Split(e)) if *from == e => one(Split(*to)),
            (RankCollective::AllGather(d), Within(e, _)) if *d == e => {
                no_rule(format!("an {name} along {d} of an operand that is {}", p.words()))
            }
            (RankCollective::Dims(from, _), Within(e, _)) if *from == e => {
                no_rule(format!("an {name} from {from} of an operand that is {}", p.words()))
            }
            (RankCollective::Rows(_), _) => no_rule(ROWS),
            (RankCollective::Broadcast(_), Partial(_)) => {
                wrong(format!("a {name} of an operand that is {}", p.words()))
            }
            (RankCollective::Broadcast(_), Split(_) | Within(..)) => {
                no_rule(format!("a {name} of an operand that is {}", p.words()))
            }
            (RankCollective::AllReduce(how @ "sum"), Whole) => {
                wrong(format!("an {name} {how} of an operand that is whole on every rank: {times}"))
            }
            (RankCollective::ReduceScatter(how @ "sum", _), Whole) => {
                wrong(format!("a {name} {how} of an operand that is whole on every rank: {times}"))
            }
            (RankCollective::AllReduce(how), _) => {
                wrong(format!("an {name} {how} of an operand that is {}", p.words()))
            }
            (RankCollective::AllGather(d), _) => {
                wrong(format!("an {name} along {d} of an operand that is {}", p.words()))
            }
            (RankCollective::ReduceScatter(how, _), _) => {
                wrong(format!("a {name} {how} of an operand that is {}", p.words()))
            }
            (RankCollective::Dims(from, _), _) => {
                wrong(format!("an {name} from {from} of an operand that is {}", p.words()))
            }
        }
    }

    /// Checks whether every use of a collective's result divides it by the number of ranks.
    fn divided(&self, n: NodeId) -> bool {
        divided(self.of.g, self.of.live, n, self.of.size)
    }
}

/// Checks whether every use of a collective's result divides it by the number of ranks.
pub(super) fn divided(g: &super::graph::Graph, live: &[bool], n: NodeId, size: u64) -> bool {
    let mut some = false;
    let all = (0..g.nodes.len()).filter(|u| live[*u] && g.nodes[*u].uses().any(|x| x == n)).all(|u| {
        some = true;
        g.nodes[u].op == NodeOp::Wait && divided(g, live, u, size) || share_of(&g.nodes[u], size) == Some(n)
    });
    some && all
}

/// Returns the operand that a node divides by the number of ranks.
pub(super) fn share_of(node: &GraphNode, size: u64) -> Option<NodeId> {
    let (n, part) = (size as f64, 1.0 / size as f64);
    match (&node.op, &node.args[..]) {
        (NodeOp::Infix('/'), [Operand::Node(x), Operand::Num(y)]) if *y == n && size > 1 => Some(*x),
        (NodeOp::Infix('*'), [Operand::Node(x), Operand::Num(y)] | [Operand::Num(y), Operand::Node(x)])
            if *y == part && size > 1 =>
        {
            Some(*x)
        }
        _ => None,
    }
}

/// Returns where a reshape can put a dimension that is split within blocks, as pairs of dimension
/// and number of blocks. Elements before a rank's part stay before it. A part of length 1 may move
/// to either side.
fn regrouped(from: &[i64], to: &[i64], (d, blocks): (usize, i64)) -> Vec<(usize, i64)> {
    let before = |s: &[i64], d: usize| s[..d].iter().product::<i64>();
    let (first, length) = (before(from, d) * blocks, from[d] / blocks);
    if first == 0 || length == 0 {
        return vec![];
    }
    let there = |e: usize| {
        let b = before(to, e);
        let outer = first / b.max(1);
        let fits = b > 0 && first % b == 0 && (1..=to[e]).contains(&outer) && to[e] % outer == 0;
        // A position after all of a dimension is a position before the next one.
        let last = outer == to[e] && to[e] > 1;
        (fits && (!last || length == 1)).then_some((e, outer))
    };
    let mut list: Vec<(usize, i64)> = (0..to.len()).filter_map(there).collect();
    list.sort_by_key(|(e, outer)| (*outer != 1, *e));
    list
}

/// Returns the sizes without a dimension.
fn without(sizes: &[i64], d: usize) -> Vec<i64> {
    sizes.iter().enumerate().filter(|(e, _)| *e != d).map(|(_, n)| *n).collect()
}

/// Rule of a collective over other axes than the one searched.
fn beside(c: &RankCollective, p: AxisPlacement) -> PossiblePlacements {
    let dims: &[usize] = match c {
        RankCollective::AllGather(d) | RankCollective::ReduceScatter(_, d) => &[*d],
        RankCollective::Dims(a, b) => &[*a, *b],
        RankCollective::Rows(_) => &[0],
        RankCollective::AllReduce(_) | RankCollective::Broadcast(_) => &[],
    };
    match (p, c) {
        (Split(d) | Within(d, _), _) if dims.contains(&d) => {
            no_rule("a collective along a dimension that another axis splits")
        }
        (Partial(a), RankCollective::AllReduce(b) | RankCollective::ReduceScatter(b, _))
            if a != *b && *b != "avg" =>
        {
            wrong("two different reductions of one value")
        }
        (_, RankCollective::Rows(_)) => no_rule(ROWS),
        _ => one(p),
    }
}

fn reduced(how: &str, dim: usize, keep: bool, p: AxisPlacement) -> PossiblePlacements {
    one(match p {
        Whole => Whole,
        Split(d) | Within(d, _) if d == dim => match how {
            "sum" | "mean" => Partial("sum"),
            "max" => Partial("max"),
            "min" => Partial("min"),
            "prod" => Partial("prod"),
            _ => return no_rule(format!("{how} along the dimension that is split")),
        },
        Split(d) if d > dim && !keep => Split(d - 1),
        Within(d, n) if d > dim && !keep => Within(d - 1, n),
        Split(_) | Within(..) => p,
        Partial("sum") if matches!(how, "sum" | "mean") => Partial("sum"),
        Partial(op) if op == how => p,
        Partial(_) => return wrong(format!("{how} of {} before the parts are combined", p.words())),
        Unknown => Unknown,
    })
}

const ROWS: &str = "kbc has no placement for rows that ranks exchange";
