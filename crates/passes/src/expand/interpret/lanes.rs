//! Lanes: options that cut every chunk of a use into parts. `instances: k` runs the lanes
//! concurrently, `cores: k` runs each on a core, and `pipeline: k` lets lane j run j rounds later.
//!
//! An algorithm treats all elements of its chunks alike. So it may run on the k parts of every
//! block (or of the whole vector, if the collective has no blocks) as if each part were all the
//! data. Instances share no chunk and become streams, so that each continues as soon as its own
//! messages have arrived. Inside a loop there are no streams, and instances run in lockstep. A
//! pipeline is one stream. Its rounds remain a loop if every round stands alone or in a loop of its
//! own, with lane j in its step `t - j`; otherwise they are written out.

use super::builder::Builder;
use super::nodes::{Node, Transfer};
use super::options::Options;
use super::region::{Cx, Gen, Region};
use super::sym::{Res, not_symbolic};
use super::together::lockstep;
use kbc_diag::Span;
use kbc_ir::Name;
use kbc_ir::expr::{BinOp, Expr};
use kbc_rounds::interp::Start;
use std::rc::Rc;

impl<'a> Builder<'a> {
    /// Expands a use with `instances`, `cores` or `pipeline`.
    pub(in crate::expand) fn in_lanes(&mut self, u: Start<'a, Self>) -> Res<Vec<Node>> {
        let Options { instances, pipeline, cores, .. } = u.options;
        // `instances` and `cores` are never both more than 1.
        let (lanes, inner) = match instances.max(cores) {
            1 => (pipeline, Options { pipeline: 1, ..u.options.clone() }),
            k => (k, Options { instances: 1, cores: 1, ..u.options.clone() }),
        };
        let ranks: i64 = u.group.sizes.iter().product();
        let lib = self.cx.lib;
        let blocks: Vec<bool> = lib.collective(u.coll).buffers.iter().map(|b| b.sizes.len() > 1).collect();
        let mut parts = vec![];
        for j in 0..lanes {
            let mut regions = vec![];
            for (r, blocks) in u.regions.iter().zip(&blocks) {
                regions.push(lane(r, if *blocks { ranks } else { 1 }, (j, lanes), &mut self.cx, u.span)?);
            }
            let part = Start {
                coll: u.coll,
                alg: u.alg,
                args: u.args.clone(),
                options: inner.clone(),
                root: u.root.clone(),
                group: u.group.clone(),
                regions,
                at: u.at.clone(),
                span: u.span,
                applied: u.applied,
            };
            parts.push(self.algorithm(part)?);
        }
        parts.retain(|p| !p.is_empty());
        if parts.is_empty() {
            return Ok(vec![]);
        }
        if instances.max(cores) == 1 {
            return self.delayed(&parts, u.span);
        }
        if self.loops == 0 {
            return Ok(vec![Node::Lanes(parts)]);
        }
        match lockstep(&parts) {
            Some(nodes) => Ok(nodes),
            None => not_symbolic("instances of streams inside a loop", u.span),
        }
    }

    /// Delays part j of `parts` by j rounds.
    fn delayed(&mut self, parts: &[Vec<Node>], span: Span) -> Res<Vec<Node>> {
        if parts.iter().flatten().all(|n| matches!(n, Node::Round(_))) {
            return Ok(shifted(parts));
        }
        if self.loops > 0 {
            return not_symbolic("a pipeline of loops inside a loop", span);
        }
        let name = self.cx.fresh.name("t");
        let mut all: Vec<Transfer> = vec![];
        let mut longest = 0;
        for (j, part) in (0i64..).zip(parts) {
            // Rounds so far, including the delay.
            let mut at = j;
            for n in part {
                let (count, list, steps) = match n {
                    Node::Round(list) => (1, list, None),
                    Node::Loop(g, body) => match (&body[..], g.lo.as_int(), g.hi.as_int()) {
                        ([Node::Round(list)], Some(lo), Some(hi)) => ((hi - lo).max(0), list, Some((g, lo))),
                        _ => return not_symbolic("a pipeline of loops with several rounds a step", span),
                    },
                    Node::Lanes(_) => return not_symbolic("a pipeline of streams", span),
                };
                for t in list {
                    all.push(at_step(t, &name, (at, count), steps, span)?);
                }
                at += count;
            }
            longest = longest.max(at);
        }
        let (lo, hi) = (Expr::Int(0), Expr::Int(longest));
        self.cx.ranges.bind(&name, &lo, &hi);
        Ok(vec![Node::Loop(Gen { var: name, lo, hi }, vec![Node::Round(all)])])
    }
}

/// Returns lane `j` of `k` of each of a region's blocks.
fn lane(r: &Region, blocks: i64, (j, k): (i64, i64), cx: &mut Cx<'_>, span: Span) -> Res<Region> {
    let part = |r: &Region, cx: &mut Cx<'_>| r.part(Expr::Int(j), Expr::Int(1), Expr::Int(k), cx, span);
    if blocks == 1 {
        return part(r, cx);
    }
    let n = Expr::Int(blocks);
    let var = cx.fresh.name("c");
    let (generator, _) = cx.generator(&var, &Expr::Int(0), &n, span)?;
    let block = r.part(Expr::Var(var), Expr::Int(1), n, cx, span)?;
    let mut out = part(&block, cx)?;
    out.gens.insert(0, generator);
    Ok(out)
}

/// Merges rounds that stand alone, with the delay of their part.
fn shifted(parts: &[Vec<Node>]) -> Vec<Node> {
    let longest = parts.iter().enumerate().map(|(j, p)| j + p.len()).max().unwrap_or(0);
    let mut out: Vec<Vec<Transfer>> = vec![vec![]; longest];
    for (j, part) in parts.iter().enumerate() {
        for (t, n) in part.iter().enumerate() {
            if let Node::Round(list) = n {
                out[t + j].extend(list.iter().cloned());
            }
        }
    }
    out.into_iter().map(Node::Round).collect()
}

/// Returns a transfer of a round, or of a loop's step, at the steps `at..at + count` of the loop
/// over `name`.
fn at_step(
    t: &Transfer,
    name: &Name,
    (at, count): (i64, i64),
    steps: Option<(&Gen, i64)>,
    span: Span,
) -> Res<Transfer> {
    let now = || Expr::Var(name.clone());
    let mut t = t.clone();
    let Some((g, lo)) = steps else {
        t.guard = now().equals(Expr::Int(at)).and(t.guard);
        t.step = Some((Expr::Int(0), 1));
        return Ok(t);
    };
    let uneven = |r: &Region| {
        let sizes = r.path.iter().any(|p| p.of.mentions(&g.var) || p.len.mentions(&g.var));
        sizes || r.gens.iter().any(|x| x.lo.mentions(&g.var) || x.hi.mentions(&g.var))
    };
    if uneven(&t.src)
        || uneven(&t.dst)
        || t.each.iter().any(|x| x.lo.mentions(&g.var) || x.hi.mentions(&g.var))
    {
        return not_symbolic("a pipeline of messages whose size changes from step to step", span);
    }
    let to = (now() - Expr::Int(at - lo)).simplify();
    let f = |n: &Name| (*n == g.var).then(|| to.clone());
    let begun = Expr::bin(BinOp::Ge, now(), Expr::Int(at));
    let left = Expr::bin(BinOp::Lt, now(), Expr::Int(at + count));
    Ok(Transfer {
        each: t.each.iter().map(|g| g.subst(&f)).collect(),
        guard: begun.and(left).and(t.guard.subst(&f)),
        src: t.src.subst(&f),
        dst: t.dst.subst(&f),
        group: Rc::new(t.group.renamed(&g.var, &to)),
        peer: t.peer.iter().map(|e| e.subst(&f)).collect(),
        bounds: t.bounds.iter().map(|b| b.subst(&f)).collect(),
        step: Some(((now() - Expr::Int(at)).simplify(), count)),
        ..t
    })
}
