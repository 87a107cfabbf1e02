//! Written-out queues: lowers queues of any other form. Each rank gets a role of its own, in which
//! every message has a constant number.

use super::{
    LoweredQueue, Message, Values, about, coordinates, linear, lowered, over_calls, place, queued, refused,
};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::expr::Expr;
use kbc_ir::rewrite::map_exprs;
use kbc_ir::schedule::*;
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of operations that are written out.
pub(super) const MAX_OPERATIONS: u64 = 40_000;

/// A channel: (queue, its index, sender, receiver).
type Channel = (QueueId, u64, u64, u64);

/// Lowers the remaining queues of a region.
pub(super) fn region(s: &mut Schedule, r: usize, left: &mut u64) -> Result<(), Diagnostic> {
    if !s.regions[r].roles.iter().flat_map(|r| &r.streams).any(|st| queued(&st.body)) {
        return Ok(());
    }
    let mut roles = vec![];
    for rank in 0..s.group_size(&s.regions[r]) {
        let env = coordinates(rank, &s.regions[r].coords);
        let Some(role) = role(s, &s.regions[r], rank, &env)? else { continue };
        let mut streams = vec![];
        for stream in &role.streams {
            let mut writer = Writer { s, env: env.clone(), left };
            streams.push(Stream { name: stream.name.clone(), body: writer.list(&stream.body)? });
        }
        let name = format!("{}_{rank}", role.name).into();
        roles.push((rank, Role { name, ranks: RankSet::List(vec![rank]), streams }));
    }
    let flows = flows(s, r, &roles)?;
    let mut numbered = vec![];
    for (rank, role) in roles {
        let streams = role.streams.iter().map(|stream| {
            let mut at = BTreeMap::new();
            let body = replaced(s, r, rank, &stream.body, &flows, &mut at);
            Stream { name: stream.name.clone(), body }
        });
        numbered.push(Role { streams: streams.collect(), ..role.clone() });
    }
    s.regions[r].roles = numbered;
    Ok(())
}

/// Returns the role of a rank.
fn role<'s>(
    s: &Schedule,
    r: &'s Region,
    rank: u64,
    env: &[(Name, i64)],
) -> Result<Option<&'s Role>, Diagnostic> {
    for role in &r.roles {
        let has = match &role.ranks {
            RankSet::All => true,
            RankSet::List(list) => list.contains(&rank),
            RankSet::Where(e) => match e.eval(&Values { env, tables: &s.tables }) {
                Ok(v) => v != 0,
                Err(_) => {
                    return Err(refused(r.span, "the condition of a role depends on more than the rank"));
                }
            },
        };
        if has {
            return Ok(Some(role));
        }
    }
    Ok(None)
}

/// Writes out the statements of a rank.
struct Writer<'w> {
    s: &'w Schedule,
    env: Vec<(Name, i64)>,
    left: &'w mut u64,
}

impl Writer<'_> {
    fn known(&self, e: &Expr) -> Expr {
        let look = |n: &Name| self.env.iter().rev().find(|(m, _)| m == n).map(|(_, v)| Expr::Int(*v));
        e.subst(&look).simplify()
    }

    fn value(&self, e: &Expr) -> Option<i64> {
        e.eval(&Values { env: &self.env, tables: &self.s.tables }).ok()
    }

    /// Counts one more operation that is written out. An iteration without operations counts as
    /// one.
    fn count(&mut self, span: Span) -> Result<(), Diagnostic> {
        let Some(left) = self.left.checked_sub(1) else {
            let why = format!("separate code for every rank would exceed {MAX_OPERATIONS} operations");
            return Err(refused(span, &why));
        };
        *self.left = left;
        Ok(())
    }

    fn list(&mut self, list: &[SStmt]) -> Result<Vec<SStmt>, Diagnostic> {
        let mut out = vec![];
        for st in list {
            match st {
                SStmt::For { var, lo, hi, body } => {
                    let bounds = self.value(lo).zip(self.value(hi));
                    match bounds.filter(|_| queued(body)) {
                        Some((lo, hi)) => {
                            for v in lo..hi {
                                let before = *self.left;
                                self.env.push((var.clone(), v));
                                let turn = self.list(body);
                                self.env.pop();
                                out.extend(turn?);
                                if before == *self.left {
                                    self.count(span(body))?;
                                }
                            }
                        }
                        None if queued(body) => {
                            return Err(refused(
                                span(body),
                                "the number of iterations of a loop depends on the call",
                            ));
                        }
                        None => out.push(SStmt::For {
                            var: var.clone(),
                            lo: self.known(lo),
                            hi: self.known(hi),
                            body: map_exprs(body, &|e| self.known(e)),
                        }),
                    }
                }
                SStmt::If { cond, then, other } => match self.value(cond) {
                    Some(v) => out.extend(self.list(if v != 0 { then } else { other })?),
                    None if queued(then) || queued(other) => {
                        return Err(refused(span(then), "they depend on a condition on the call"));
                    }
                    None => out.push(SStmt::If {
                        cond: self.known(cond),
                        then: self.list(then)?,
                        other: self.list(other)?,
                    }),
                },
                SStmt::Op(op, span) => {
                    self.count(*span)?;
                    out.push(SStmt::Op(op.map_exprs(&|e| self.known(e)), *span));
                }
            }
        }
        Ok(out)
    }
}

/// Returns the source location of the first operation.
fn span(list: &[SStmt]) -> Span {
    let mut at = Span::NONE;
    crate::enqueue::each(list, &mut |_, span| {
        if at.is_none() {
            at = span;
        }
    });
    at
}

/// The queues between ranks of a region, lowered.
struct Flows {
    places: BTreeMap<QueueId, LoweredQueue>,
    /// For each channel: messages per call, ring at the receiver, credit counter at the sender.
    rings: BTreeMap<Channel, (i64, i64, i64)>,
}

/// Returns the channel of an operation on a queue, for a rank whose role is written out.
fn which(s: &Schedule, r: usize, rank: u64, op: &SOp) -> Option<Channel> {
    let (peer, queue, index) = about(op)?;
    let values = Values { env: &[], tables: &s.tables };
    let peer = linear(peer, &s.regions[r].coords, &values)?;
    let index = u64::try_from(index.eval(&values).ok()?).ok()?;
    Some(match op {
        SOp::Recv { .. } => (queue, index, peer, rank),
        _ => (queue, index, rank, peer),
    })
}

fn flows(s: &mut Schedule, r: usize, roles: &[(u64, Role)]) -> Result<Flows, Diagnostic> {
    // The numbers of messages sent and received, and the location of the first operation.
    let mut counts: BTreeMap<Channel, ([i64; 2], Span)> = BTreeMap::new();
    let mut unknown = None;
    for (rank, role) in roles {
        for stream in &role.streams {
            crate::enqueue::each(&stream.body, &mut |op, span| {
                if about(op).is_none() {
                    return;
                }
                let Some(which) = which(s, r, *rank, op) else {
                    unknown.get_or_insert(span);
                    return;
                };
                let counts = counts.entry(which).or_insert(([0; 2], span));
                match op {
                    SOp::Send { .. } => counts.0[0] += 1,
                    SOp::Recv { .. } => counts.0[1] += 1,
                    _ => {}
                }
            });
        }
    }
    if let Some(span) = unknown {
        return Err(refused(span, "the peer or the queue depends on the call"));
    }
    if let Some((_, (_, span))) = counts.iter().find(|(_, (n, _))| n[0] != n[1]) {
        return Err(refused(*span, "a queue is not empty at the end of the region"));
    }
    let mut rings: BTreeMap<Channel, (i64, i64, i64)> = BTreeMap::new();
    let (mut at, mut by) = (BTreeMap::<(QueueId, u64), i64>::new(), BTreeMap::<(QueueId, u64), i64>::new());
    for (which, (n, _)) in &counts {
        let (queue, _, from, to) = *which;
        let ring = at.entry((queue, to)).or_insert(0);
        let credit = by.entry((queue, from)).or_insert(0);
        rings.insert(*which, (n[0], *ring, *credit));
        *ring += 1;
        *credit += 1;
    }
    let most = |of: &BTreeMap<(QueueId, u64), i64>, q| {
        of.iter().filter(|((queue, _), _)| *queue == q).map(|e| *e.1).max().unwrap_or(0) as u64
    };
    let queues: BTreeSet<QueueId> = counts.keys().map(|w| w.0).collect();
    let places = queues.into_iter().map(|q| (q, place(s, q, r, most(&at, q), most(&by, q)))).collect();
    Ok(Flows { places, rings })
}

/// Replaces queues by windows in a body. `at` holds the number of earlier messages of each channel.
fn replaced(
    s: &Schedule,
    r: usize,
    rank: u64,
    list: &[SStmt],
    flows: &Flows,
    at: &mut BTreeMap<Channel, i64>,
) -> Vec<SStmt> {
    let mut out = vec![];
    for st in list {
        let SStmt::Op(op, span) = st else {
            // The remaining loops and conditions contain no messages.
            out.push(st.clone());
            continue;
        };
        let found =
            which(s, r, rank, op).and_then(|w| Some((w, *flows.rings.get(&w)?, *flows.places.get(&w.0)?)));
        let Some((which, (each, ring, credit), place)) = found else {
            out.push(st.clone());
            continue;
        };
        let k = at.entry(which).or_insert(0);
        let message = Message { number: over_calls(each, Expr::Int(*k)), ring, credit };
        if !matches!(op, SOp::Room { .. }) {
            *k += 1;
        }
        out.extend(lowered(op, place, &message).into_iter().map(|op| SStmt::Op(op, *span)));
    }
    out
}
