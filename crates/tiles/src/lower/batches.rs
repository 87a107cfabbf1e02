//! Batches: the operations of a collective in an order that needs fewer fences.
//!
//! A schedule sends message by message: `put`, `fence.release`, `notify`, and again. It receives in
//! the same way. In the kernel the messages of a round are one batch: all waits and one acquire,
//! then all transfers and additions, then one release and all notifies. Loops with two of these
//! parts become two loops. What is put is put behind the operation that computes it, so that the
//! loop over its tiles stores it there too.
//!
//! The order of waits among each other, of transfers and of notifies stays that of the schedule. A
//! notify moves behind transfers, never behind a wait. A wait moves in front of transfers, never in
//! front of a notify. So between two moved operations there is nothing that a peer could depend on:
//! a peer learns about this rank through notifies alone. A later notify publishes more, and an
//! earlier wait orders more, so no transfer loses an order that it had.
//!
//! The result is again a schedule, like that of `copy_elision`.

use super::lanes;
use super::places::{apart, same};
use super::turns::{self, flat};
use kbc_diag::Span;
use kbc_ir::schedule::{Ref, Region, SOp, SStmt, Schedule};

/// Returns the schedule with the operations of its collectives in batches.
pub(super) fn batched(schedule: &Schedule) -> Schedule {
    let mut out = schedule.clone();
    for region in out.regions.iter_mut().filter(|r| !lanes::local(r)) {
        let operands = region.clone();
        for stream in region.roles.iter_mut().flat_map(|r| &mut r.streams) {
            let list = turns::turned(std::mem::take(&mut stream.body));
            stream.body = batch(&operands, list);
        }
    }
    out
}

/// What a statement of a collective does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// It waits for peers.
    Wait,
    /// It moves or adds data.
    Move,
    /// It notifies peers.
    Tell,
    /// Any of these in an order that stays, or something else.
    Other,
}

fn part(op: &SOp) -> Part {
    match op {
        SOp::Wait { .. } | SOp::FenceAcquire => Part::Wait,
        SOp::Copy { .. }
        | SOp::Put { .. }
        | SOp::Get { .. }
        | SOp::GetCombine { .. }
        | SOp::Reduce { .. }
        | SOp::FenceComplete => Part::Move,
        SOp::FenceRelease | SOp::Notify { .. } => Part::Tell,
        SOp::Record(_)
        | SOp::Await(_)
        | SOp::Mark(_)
        | SOp::Send { .. }
        | SOp::Recv { .. }
        | SOp::Room { .. }
        | SOp::Host(_)
        | SOp::HostRead(_)
        | SOp::Local(_) => Part::Other,
    }
}

fn batch(region: &Region, list: Vec<SStmt>) -> Vec<SStmt> {
    let (mut out, mut round) = (vec![], Round::default());
    for stmt in flat(list) {
        for (part, stmt) in split(region, stmt) {
            match part {
                Part::Wait => {
                    // Moves that waited for nothing do not begin to wait.
                    if round.told() || round.waits.is_empty() && !round.rest.is_empty() {
                        round.end(region, &mut out);
                    }
                    match stmt {
                        SStmt::Op(SOp::FenceAcquire, span) => round.acquire = Some(span),
                        stmt => round.waits.push(stmt),
                    }
                }
                Part::Move => {
                    // A notify that publishes nothing does not wait for transfers.
                    if round.told() && round.release.is_none() {
                        round.end(region, &mut out);
                    }
                    round.rest.push((false, stmt));
                }
                Part::Tell => match stmt {
                    SStmt::Op(SOp::FenceRelease, span) => {
                        if round.told() && round.release.is_none() {
                            round.end(region, &mut out);
                        }
                        round.release = Some(span);
                    }
                    stmt => {
                        round.rest.push((true, stmt));
                        round.notifies = true;
                    }
                },
                Part::Other => {
                    round.end(region, &mut out);
                    out.push(stmt);
                }
            }
        }
    }
    round.end(region, &mut out);
    out
}

/// Returns the parts of a statement, in order. A loop of two parts is two loops.
fn split(region: &Region, stmt: SStmt) -> Vec<(Part, SStmt)> {
    match stmt {
        SStmt::Op(op, span) => vec![(part(&op), SStmt::Op(op, span))],
        SStmt::If { cond, then, other } => {
            let (then, other) = (batch(region, then), batch(region, other));
            let moves = |list: &[SStmt]| list.iter().all(|s| kind(s) == Part::Move);
            let part = if moves(&then) && moves(&other) { Part::Move } else { Part::Other };
            vec![(part, SStmt::If { cond, then, other })]
        }
        SStmt::For { var, lo, hi, body } => {
            let body = batch(region, body);
            let kinds: Vec<Part> = body.iter().map(kind).collect();
            let ordered = kinds.is_sorted_by_key(|k| *k as u8) && !kinds.contains(&Part::Other);
            if !ordered || kinds.contains(&Part::Wait) && kinds.contains(&Part::Tell) {
                return vec![(Part::Other, SStmt::For { var, lo, hi, body })];
            }
            let fence = |s: &SStmt| match s {
                SStmt::Op(op @ (SOp::FenceAcquire | SOp::FenceRelease), span) => Some((op.clone(), *span)),
                _ => None,
            };
            let mut out = vec![];
            for wanted in [Part::Wait, Part::Move, Part::Tell] {
                let of: Vec<SStmt> = body.iter().filter(|s| kind(s) == wanted).cloned().collect();
                let (fences, rest): (Vec<SStmt>, Vec<SStmt>) =
                    of.into_iter().partition(|s| fence(s).is_some());
                let fence = fences.first().and_then(&fence).map(|(op, span)| SStmt::Op(op, span));
                let each = (!rest.is_empty()).then(|| {
                    let (var, lo, hi) = (var.clone(), lo.clone(), hi.clone());
                    SStmt::For { var, lo, hi, body: rest }
                });
                let both = if wanted == Part::Wait { [each, fence] } else { [fence, each] };
                out.extend(both.into_iter().flatten().map(|s| (wanted, s)));
            }
            out
        }
    }
}

/// Returns the part that a statement in batches is.
fn kind(stmt: &SStmt) -> Part {
    let all = |lists: &[&Vec<SStmt>]| {
        let mut kinds = lists.iter().flat_map(|l| l.iter()).map(kind);
        let first = kinds.next().unwrap_or(Part::Move);
        if kinds.all(|k| k == first) { first } else { Part::Other }
    };
    match stmt {
        SStmt::Op(op, _) => part(op),
        SStmt::For { body, .. } => all(&[body]),
        SStmt::If { then, other, .. } => match all(&[then, other]) {
            Part::Move => Part::Move,
            Part::Wait | Part::Tell | Part::Other => Part::Other,
        },
    }
}

/// A batch that is being collected.
#[derive(Default)]
struct Round {
    waits: Vec<SStmt>,
    acquire: Option<Span>,
    /// Moves, and notifies (`true`), in the order of the schedule.
    rest: Vec<(bool, SStmt)>,
    /// Whether there are notifies.
    notifies: bool,
    release: Option<Span>,
}

impl Round {
    fn told(&self) -> bool {
        self.release.is_some() || self.notifies
    }

    /// Ends the batch: appends its statements and begins the next one.
    fn end(&mut self, region: &Region, out: &mut Vec<SStmt>) {
        let Round { waits, acquire, rest, release, .. } = std::mem::take(self);
        out.extend(waits);
        out.extend(acquire.map(|span| SStmt::Op(SOp::FenceAcquire, span)));
        // What follows the last notify is not published by it.
        let told = rest.iter().rposition(|(tell, _)| *tell).map_or(rest.len(), |last| last + 1);
        let (mut before, mut tells, mut after) = (vec![], vec![], vec![]);
        for (at, (tell, stmt)) in rest.into_iter().enumerate() {
            match tell {
                true => tells.push(stmt),
                false if at < told => before.push(stmt),
                false => after.push(stmt),
            }
        }
        out.extend(attached(region, before));
        out.extend(release.map(|span| SStmt::Op(SOp::FenceRelease, span)));
        out.extend(tells);
        out.extend(after);
    }
}

/// Number of moves among which the operation is looked for that computes what is put. With a limit,
/// the time for a round of many messages that are written out grows with their number.
const LOOKED_AT: usize = 64;

/// Returns the moves with each put, and each copy into a slot, behind the operation that computes
/// what it takes, if that is among them and nothing between the two touches it.
fn attached(region: &Region, list: Vec<SStmt>) -> Vec<SStmt> {
    let mut out: Vec<SStmt> = vec![];
    for stmt in list {
        let place = match &stmt {
            SStmt::Op(
                SOp::Put { src, dst: Ref::Slot { .. }, .. } | SOp::Copy { src, dst: Ref::Slot { .. } },
                _,
            ) => computed(region, &out, src),
            _ => None,
        };
        let Some((at, as_stored)) = place else {
            out.push(stmt);
            continue;
        };
        // Behind the completion of a fetch, and what was put there before.
        let next = out[at + 1..].iter().take_while(|s| {
            matches!(s, SStmt::Op(SOp::FenceComplete, _))
                || matches!(s, SStmt::Op(SOp::Put { src, .. } | SOp::Copy { src, dst: Ref::Slot { .. } }, _) if *src == as_stored)
        });
        let next = at + 1 + next.count();
        let stmt = match stmt {
            SStmt::Op(SOp::Put { peer, dst, .. }, span) => {
                SStmt::Op(SOp::Put { src: as_stored, peer, dst }, span)
            }
            SStmt::Op(SOp::Copy { dst, .. }, span) => SStmt::Op(SOp::Copy { dst, src: as_stored }, span),
            stmt => stmt,
        };
        out.insert(next, stmt);
    }
    out
}

/// Returns the position of the operation that computes all of a place, and its destination as it
/// names it.
fn computed(region: &Region, list: &[SStmt], place: &Ref) -> Option<(usize, Ref)> {
    for (at, stmt) in list.iter().enumerate().rev().take(LOOKED_AT) {
        match stmt {
            SStmt::Op(SOp::Copy { dst, .. } | SOp::Get { dst, .. } | SOp::Reduce { dst, .. }, _) => {
                if same(dst, place) {
                    return Some((at, dst.clone()));
                }
                if !apart(region, dst, place) {
                    return None;
                }
            }
            SStmt::Op(SOp::Put { .. } | SOp::FenceComplete, _) => {}
            _ => return None,
        }
    }
    None
}
