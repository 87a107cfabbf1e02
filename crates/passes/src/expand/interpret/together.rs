//! Concurrent statements (`together`): in lockstep, or as lanes that run independently.
//!
//! Parts of the same form are joined round by round, as the language defines. Parts of different
//! form may run at their own pace only if they share no chunks. That must be evident from a digit
//! of every chunk that they touch whose ranges in the parts do not meet.

use super::nodes::{Node, Transfer};
use super::region::Region;
use super::sym::{Ranges, Res, Stop};
use kbc_diag::Span;
use kbc_ir::Name;
use kbc_ir::expr::Expr;
use std::rc::Rc;

/// Combines the parts of a `together`: in lockstep if they have the same form, otherwise as lanes
/// if they share no chunks.
pub(in crate::expand) fn side_by_side(parts: Vec<Vec<Node>>, ranges: &Ranges, span: Span) -> Res<Vec<Node>> {
    if let Some(nodes) = lockstep(&parts) {
        return Ok(nodes);
    }
    if lanes_disjoint(&parts, ranges) {
        return Ok(vec![Node::Lanes(parts)]);
    }
    Err(Stop::NotSymbolic("parts of different form that share chunks in one `together`".into(), span))
}

/// Joins the parts round by round, or returns `None` if their loops do not match.
pub(in crate::expand) fn lockstep(parts: &[Vec<Node>]) -> Option<Vec<Node>> {
    let mut it = parts.iter();
    let mut out = it.next().cloned().unwrap_or_default();
    for next in it {
        if out.len() != next.len() {
            return None;
        }
        let mut zipped = vec![];
        for (a, b) in out.into_iter().zip(next) {
            zipped.push(match (a, b) {
                (Node::Round(mut a), Node::Round(b)) => {
                    a.extend(b.iter().cloned());
                    Node::Round(a)
                }
                (Node::Loop(g, a), Node::Loop(h, b)) if g.lo == h.lo && g.hi == h.hi => {
                    let to = Expr::Var(g.var.clone());
                    let b: Vec<Node> = b.iter().map(|n| rename(n, &h.var, &to)).collect();
                    Node::Loop(g, lockstep(&[a, b])?)
                }
                _ => return None,
            });
        }
        out = zipped;
    }
    Some(out)
}

fn rename(node: &Node, var: &Name, to: &Expr) -> Node {
    let f = |n: &Name| (n == var).then(|| to.clone());
    match node {
        Node::Round(list) => Node::Round(
            list.iter()
                .map(|t| Transfer {
                    each: t.each.iter().map(|g| g.subst(&f)).collect(),
                    guard: t.guard.subst(&f),
                    src: t.src.subst(&f),
                    dst: t.dst.subst(&f),
                    group: Rc::new(t.group.renamed(var, to)),
                    peer: t.peer.iter().map(|e| e.subst(&f)).collect(),
                    bounds: t.bounds.iter().map(|b| b.subst(&f)).collect(),
                    step: t.step.as_ref().map(|(e, count)| (e.subst(&f), *count)),
                    ..t.clone()
                })
                .collect(),
        ),
        Node::Loop(g, body) => Node::Loop(g.subst(&f), body.iter().map(|n| rename(n, var, to)).collect()),
        Node::Lanes(l) => {
            Node::Lanes(l.iter().map(|b| b.iter().map(|n| rename(n, var, to)).collect()).collect())
        }
    }
}

fn regions<'n>(nodes: &'n [Node], out: &mut Vec<&'n Region>) {
    for n in nodes {
        match n {
            Node::Round(l) => out.extend(l.iter().flat_map(|t| [&t.src, &t.dst])),
            Node::Loop(_, b) => regions(b, out),
            Node::Lanes(l) => l.iter().for_each(|b| regions(b, out)),
        }
    }
}

/// Checks whether any two lanes have digits without a common value at the same position of every
/// chunk that they touch, buffer by buffer.
fn lanes_disjoint(parts: &[Vec<Node>], ranges: &Ranges) -> bool {
    let of: Vec<Vec<&Region>> = parts
        .iter()
        .map(|p| {
            let mut out = vec![];
            regions(p, &mut out);
            out
        })
        .collect();
    let apart = |a: &Region, b: &Region| {
        if a.operand != b.operand {
            return true;
        }
        let mut digits = a.path.iter().zip(&b.path);
        // Digits before the differing one must address spaces of the same sizes.
        loop {
            let Some((x, y)) = digits.next() else { return false };
            let (Some(k), Some(l)) = (x.len.as_int(), y.len.as_int()) else { return false };
            if x.of != y.of || x.of.as_int().is_none() {
                return false;
            }
            // `[0; 5 of 8]` and `[5; 3 of 8]`, or halves of these.
            if let (Some((a, b)), Some((c, d))) = (ranges.interval(&x.index), ranges.interval(&y.index))
                && (b + k <= c || d + l <= a)
            {
                return true;
            }
            if (k, l) != (1, 1) {
                return false;
            }
        }
    };
    (0..of.len()).all(|i| (i + 1..of.len()).all(|j| of[i].iter().all(|a| of[j].iter().all(|b| apart(a, b)))))
}
