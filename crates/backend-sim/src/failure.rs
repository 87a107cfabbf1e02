//! Report of a run that did not end: which ranks caused it, and which were only aborted because of
//! them.
//!
//! The module owns the account by rank and the messages. [`crate::stall`] determines which stream
//! waits for which.

use crate::flow::{Advance, Flow, queue_of};
use crate::stall;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::Schedule;
use kbc_ir::walk::{Act, Program};

/// The reason why there is no result.
#[derive(Clone, Debug)]
pub struct RunFailure {
    /// One message per cause.
    pub diagnostics: Diagnostics,
    /// Every rank that did not reach its end. Causes come first (faults, then those of a deadlock
    /// in the order of its cycle), then the ranks aborted because of them. Empty if the run did not
    /// begin.
    pub ranks: Vec<RankFailure>,
}

/// The outcome of a rank.
#[derive(Clone, PartialEq, Debug)]
pub struct RankFailure {
    /// The rank.
    pub rank: u64,
    /// Whether it is a cause; otherwise it was aborted because of others.
    pub root: bool,
    /// For a cause, the code of its message.
    pub code: Option<&'static str>,
    /// The fault that it met, or what it waits for and where.
    pub what: String,
    /// Who should have satisfied its wait.
    pub because: Option<String>,
    /// The source position of the operation.
    pub span: Span,
}

impl From<Diagnostics> for Box<RunFailure> {
    fn from(diagnostics: Diagnostics) -> Self {
        Box::new(RunFailure { diagnostics, ranks: vec![] })
    }
}

impl From<Diagnostic> for Box<RunFailure> {
    fn from(d: Diagnostic) -> Self {
        Diagnostics::from(d).into()
    }
}

/// Returns how a schedule comes to a standstill, whatever the data; None if it does not, or if it
/// is refused. Which stream waits for which depends neither on data nor on time, because counters
/// only grow, so the streams are walked without either.
pub fn standstill(schedule: &Schedule, calls: u32) -> Option<RunFailure> {
    let spelled = with_host_region(schedule);
    let program = Program::compile(&spelled).ok()?;
    walked(&program, i64::from(calls))
}

/// Does the same for a program.
pub fn walked(program: &Program<'_>, calls: i64) -> Option<RunFailure> {
    let mut flow = Flow::new(program, calls);
    let mut met = vec![];
    let mut moved = true;
    while moved {
        moved = false;
        for thread in 0..flow.threads.len() {
            loop {
                match flow.advance(thread) {
                    Ok(Advance::Act(act, span)) => match act {
                        Act::Wait { counter, value } => {
                            if let Err(d) = flow.spend(thread, counter, value, span) {
                                let rank = flow.threads[thread].rank;
                                met.push((rank, d));
                                flow.of_rank(rank).for_each(|t| {
                                    flow.threads[t].stopped = true;
                                    flow.threads[t].held = None;
                                });
                                break;
                            }
                        }
                        Act::Notify { peer, counter } => flow.add(peer, counter),
                        Act::Record(event) => flow.record(thread, event),
                        Act::Send { .. } | Act::Recv { .. } => {
                            let rank = flow.threads[thread].rank;
                            match queue_of(rank, &act) {
                                Some((queue, true)) => {
                                    flow.sent(queue);
                                    flow.arrived(queue);
                                }
                                Some((queue, false)) => {
                                    flow.received(queue);
                                    flow.credited(queue);
                                }
                                None => {}
                            }
                        }
                        Act::Copy { .. }
                        | Act::Reduce { .. }
                        | Act::Put { .. }
                        | Act::Get { .. }
                        | Act::GetCombine { .. }
                        | Act::Room { .. }
                        | Act::FenceRelease
                        | Act::FenceAcquire
                        | Act::FenceComplete
                        | Act::Await(_)
                        | Act::Local(_)
                        | Act::Mark(_)
                        | Act::HostRead(_)
                        | Act::Host(_) => {}
                    },
                    Ok(Advance::CallOver(_)) => {}
                    Ok(Advance::Blocked | Advance::Done) => break,
                    Err(fault) => {
                        let rank = flow.threads[thread].rank;
                        met.push((rank, fault.diagnostic(|r| program.schedule.mesh.show(r))));
                        flow.of_rank(rank).for_each(|t| {
                            flow.threads[t].stopped = true;
                            flow.threads[t].held = None;
                        });
                        break;
                    }
                }
                moved = true;
                if flow.threads[thread].stopped {
                    break;
                }
            }
        }
    }
    of(&mut flow, met)
}

/// Returns the failure of a run that cannot continue, from the faults that ranks met; None if all
/// reached their end. Uses up the threads.
pub fn of(flow: &mut Flow<'_>, met: Vec<(u64, Diagnostic)>) -> Option<RunFailure> {
    let stall = stall::explain(flow);
    let mut ranks: Vec<RankFailure> = met
        .iter()
        .map(|(rank, d)| RankFailure {
            rank: *rank,
            root: true,
            code: Some(d.code),
            what: d.title.clone(),
            because: None,
            span: d.span(),
        })
        .collect();
    ranks.sort_by_key(|r| r.rank);
    let mut faults = fold(flow, met);
    if let Some(d) = faults.list.last_mut()
        && !stall.waiting_behind.is_empty()
    {
        d.notes.push(format!(
            "stopped only because of these: {}",
            stall::list_ranks(flow, &stall.waiting_behind)
        ));
    }
    // If memory ran out, no rank is to blame for waiting.
    let memory = faults.list.iter().any(|d| d.code == "E368");
    for w in stall.waits {
        // A rank is named once, in its first capacity.
        if ranks.iter().any(|r| r.rank == w.rank) {
            continue;
        }
        let root = w.root && !memory;
        ranks.push(RankFailure {
            rank: w.rank,
            root,
            code: root.then_some("E361"),
            what: format!("{}: {}", w.place, w.what),
            because: Some(w.why),
            span: w.span,
        });
    }
    if !memory {
        faults.list.extend(stall.deadlock);
    }
    (!faults.is_empty()).then_some(RunFailure { diagnostics: faults, ranks })
}

/// Merges messages: one for each place and kind of fault. The other ranks that met it are named in
/// a note.
fn fold(flow: &Flow<'_>, met: Vec<(u64, Diagnostic)>) -> Diagnostics {
    let mut out: Vec<(Diagnostic, Vec<u64>)> = vec![];
    for (rank, d) in met {
        match out.iter_mut().find(|(o, _)| o.code == d.code && o.span() == d.span()) {
            Some((_, others)) => others.push(rank),
            None => out.push((d, vec![])),
        }
    }
    let list = out.into_iter().map(|(d, others)| match &others[..] {
        [] => d,
        others => d.note(format!("the same error on {}", stall::list_ranks(flow, others))),
    });
    Diagnostics { list: list.collect() }
}
