//! Counted queues: lowers queues through which every rank of a region sends to one neighbour and
//! receives from one neighbour. Message numbers are expressions, and the program text keeps its
//! form.

use super::{LoweredQueue, Message, Values, about, coordinates, linear, lowered, over_calls, place};
use kbc_ir::expr::Expr;
use kbc_ir::schedule::*;

/// A queue of this form in a region, with the number of its messages per call (`each`).
struct Flow {
    queue: QueueId,
    index: i64,
    each: i64,
}

/// Lowers the queues of a region that have this form.
pub(super) fn region(s: &mut Schedule, r: usize) {
    let mut done: Vec<(Flow, LoweredQueue)> = vec![];
    for (queue, index) in used(&s.regions[r]) {
        let Some(each) = flow(s, &s.regions[r], queue, index) else { continue };
        let place = place(s, queue, r, 1, 1);
        done.push((Flow { queue, index, each }, place));
    }
    let mut region = s.regions[r].clone();
    for stream in region.roles.iter_mut().flat_map(|r| &mut r.streams) {
        for (flow, place) in &done {
            let mut at = (Expr::Int(0), Expr::Int(0));
            stream.body = rewrite(&stream.body, flow, *place, &mut at);
        }
    }
    s.regions[r] = region;
}

/// Returns the queues that a region uses by a constant index, in order.
fn used(r: &Region) -> Vec<(QueueId, i64)> {
    let mut out = vec![];
    for stream in r.roles.iter().flat_map(|r| &r.streams) {
        crate::enqueue::each(&stream.body, &mut |op, _| {
            if let Some((_, queue, index)) = about(op)
                && let Some(index) = index.as_int()
                && !out.contains(&(queue, index))
            {
                out.push((queue, index));
            }
        });
    }
    out
}

/// Returns the number of messages per call, if every rank always sends as many messages to one
/// neighbour as it receives from one neighbour, and uses one stream for each.
fn flow(s: &Schedule, r: &Region, queue: QueueId, index: i64) -> Option<i64> {
    let [role] = &r.roles[..] else { return None };
    if role.ranks != RankSet::All {
        return None;
    }
    let is = |op: &SOp, sends: bool| {
        let kind = match op {
            SOp::Recv { .. } => !sends,
            SOp::Send { .. } | SOp::Room { .. } => sends,
            _ => false,
        };
        // An index that is not constant may be any index.
        kind && about(op).is_some_and(|a| a.1 == queue && a.2.as_int().is_none_or(|i| i == index))
    };
    let mut ends = vec![];
    for sends in [true, false] {
        let mut peers: Vec<&Peer> = vec![];
        let mut number = None;
        for stream in &role.streams {
            let mut here = false;
            crate::enqueue::each(&stream.body, &mut |op, _| {
                if is(op, sends)
                    && let Some((peer, _, index)) = about(op)
                {
                    here = true;
                    peers.push(peer);
                    // The queue does not have this form.
                    if index.as_int().is_none() {
                        number = Some(None);
                    }
                }
            });
            if here && number.replace(count(&stream.body, queue, index, sends)).is_some() {
                return None;
            }
        }
        let first = *peers.first()?;
        if peers.iter().any(|p| *p != first) {
            return None;
        }
        ends.push((first, number??));
    }
    let [(to, sent), (from, received)] = ends[..] else { return None };
    let ranks = s.group_size(r);
    let inverse = (0..ranks).all(|rank| {
        let at = |peer, rank| {
            let env = coordinates(rank, &r.coords);
            linear(peer, &r.coords, &Values { env: &env, tables: &s.tables })
        };
        at(to, rank).and_then(|peer| at(from, peer)) == Some(rank)
    });
    (sent == received && inverse).then_some(sent)
}

/// Returns how many messages of a queue the statements send or receive, or `None` if the number is
/// not constant.
fn count(list: &[SStmt], queue: QueueId, index: i64, sends: bool) -> Option<i64> {
    let mut n: i64 = 0;
    for st in list {
        n = n.checked_add(match st {
            SStmt::For { lo, hi, body, .. } => match count(body, queue, index, sends)? {
                0 => 0,
                inner => (hi.as_int()? - lo.as_int()?).max(0).checked_mul(inner)?,
            },
            SStmt::If { then, other, .. } => {
                let any = |list: &[SStmt]| {
                    let mut any = false;
                    crate::enqueue::each(list, &mut |op, _| {
                        any |= about(op).is_some_and(|a| a.1 == queue);
                    });
                    any
                };
                if any(then) || any(other) {
                    return None;
                }
                0
            }
            SStmt::Op(op, _) => match op {
                SOp::Send { .. } if !sends => 0,
                SOp::Recv { .. } if sends => 0,
                SOp::Send { queue: Channel { queue: q, index: i }, .. }
                | SOp::Recv { queue: Channel { queue: q, index: i }, .. } => {
                    i64::from(*q == queue && i.as_int() == Some(index))
                }
                _ => 0,
            },
        })?;
    }
    Some(n)
}

/// Replaces the operations on a queue. `at` holds the numbers of messages sent and received before.
fn rewrite(list: &[SStmt], flow: &Flow, place: LoweredQueue, at: &mut (Expr, Expr)) -> Vec<SStmt> {
    let mut out = vec![];
    for st in list {
        match st {
            SStmt::For { var, lo, hi, body } => {
                let n = |sends| count(body, flow.queue, flow.index, sends).unwrap_or(0);
                let (sent, received) = (n(true), n(false));
                let turn = |at: &Expr, n: i64| match n {
                    0 => at.clone(),
                    n => (at.clone() + (Expr::Var(var.clone()) - lo.clone()) * Expr::Int(n)).simplify(),
                };
                let mut inner = (turn(&at.0, sent), turn(&at.1, received));
                let body = rewrite(body, flow, place, &mut inner);
                if let (Some(l), Some(h)) = (lo.as_int(), hi.as_int()) {
                    let turns = (h - l).max(0);
                    at.0 = (at.0.clone() + Expr::Int(turns * sent)).simplify();
                    at.1 = (at.1.clone() + Expr::Int(turns * received)).simplify();
                }
                out.push(SStmt::For { var: var.clone(), lo: lo.clone(), hi: hi.clone(), body });
            }
            SStmt::Op(op, span)
                if about(op).is_some_and(|a| a.1 == flow.queue && a.2.as_int() == Some(flow.index)) =>
            {
                let k = if matches!(op, SOp::Recv { .. }) { &mut at.1 } else { &mut at.0 };
                let message = Message { number: over_calls(flow.each, k.clone()), ring: 0, credit: 0 };
                if !matches!(op, SOp::Room { .. }) {
                    *k = (k.clone() + Expr::Int(1)).simplify();
                }
                out.extend(lowered(op, place, &message).into_iter().map(|op| SStmt::Op(op, *span)));
            }
            st => out.push(st.clone()),
        }
    }
    out
}
