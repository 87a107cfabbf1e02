//! Analysis of a stalled run: what each stream waits for, which ranks caused the stall, and which
//! merely wait behind them.
//!
//! A stalled run is over, so the rest of every stream is walked (not executed) to find who would
//! have sent what is awaited. A wait that nothing would ever satisfy is a cause, and so is a stream
//! that met a fault. Otherwise the causes are the ranks on a cycle.

use crate::flow::{Advance, Flow, Queue, queue_of};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::form::Form;
use kbc_ir::walk::Act;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of operations walked to find the senders. Beyond it, a message gives less detail.
const WALK_LIMIT: usize = 2_000_000;
/// Maximum number of ranks that a message lists by name.
const SHOWN: usize = 8;

/// An awaited thing: a counter of a rank, or an event of a rank in a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Awaited {
    Counter(u64, u32),
    Event(u64, u32, i64),
    /// A free slot of a queue.
    Room(Queue),
    /// A message of a queue.
    Message(Queue),
}

struct Waiting {
    thread: usize,
    want: Awaited,
    words: String,
    missing: u64,
    span: Span,
}

/// The analysis of a stalled run.
pub struct Stall {
    /// The deadlock, if there is one that does not come from a fault of a rank.
    pub deadlock: Option<Diagnostic>,
    /// Ranks that only wait for others that met a fault.
    pub waiting_behind: Vec<u64>,
    /// Every wait: causes first, those of a cycle in its order.
    pub waits: Vec<Wait>,
}

/// A stream that waits forever.
pub struct Wait {
    /// The rank that waits.
    pub rank: u64,
    /// Whether it is a cause, and does not merely wait behind one.
    pub root: bool,
    /// Its position.
    pub place: String,
    /// What it waits for.
    pub what: String,
    /// Who should have satisfied it, or why nothing will.
    pub why: String,
    /// The source position of the operation.
    pub span: Span,
}

enum Fate {
    /// Nothing will ever send it.
    Never(u64),
    /// The thread for which it waits.
    Behind(usize),
    /// The streams were too long to search.
    Unknown,
}

/// Explains why threads of a run wait. Uses up the threads.
pub fn explain(flow: &mut Flow<'_>) -> Stall {
    let waiting: Vec<Waiting> = (0..flow.threads.len()).filter_map(|t| waiting(flow, t)).collect();
    if waiting.is_empty() {
        return Stall { deadlock: None, waiting_behind: vec![], waits: vec![] };
    }
    let wanted: BTreeSet<Awaited> = waiting.iter().map(|w| w.want).collect();
    let (to_come, complete) = senders(flow, &wanted);
    let fates: Vec<Fate> = waiting
        .iter()
        .map(|w| {
            let from = to_come.get(&w.want).map_or(&[][..], |v| &v[..]);
            let total: u64 = from.iter().map(|(_, n)| n).sum();
            match from.first() {
                Some((thread, _)) if total >= w.missing || !complete => Fate::Behind(*thread),
                _ if complete => Fate::Never(total),
                _ => Fate::Unknown,
            }
        })
        .collect();
    let causes = causes(flow, &waiting, &fates);
    let roots: Vec<usize> = causes.iter().flatten().copied().collect();
    let root_ranks: BTreeSet<u64> = roots.iter().map(|i| flow.threads[waiting[*i].thread].rank).collect();
    let all: BTreeSet<u64> = waiting.iter().map(|w| flow.threads[w.thread].rank).collect();
    let waiting_behind: Vec<u64> = all.difference(&root_ranks).copied().collect();
    let others = (0..waiting.len()).filter(|i| !roots.contains(i));
    let waits = roots
        .iter()
        .map(|i| (*i, true))
        .chain(others.map(|i| (i, false)))
        .map(|(i, root)| {
            let w = &waiting[i];
            Wait {
                rank: flow.threads[w.thread].rank,
                root,
                place: flow.place(w.thread),
                what: w.words.clone(),
                why: why(flow, &fates[i]),
                span: w.span,
            }
        })
        .collect();
    let mut stall = Stall { deadlock: None, waiting_behind, waits };
    if !roots.is_empty() {
        stall.deadlock = Some(deadlock(flow, &stall, &waiting, &causes, all.len()));
    }
    stall
}

fn why(flow: &Flow<'_>, fate: &Fate) -> String {
    match fate {
        Fate::Never(0) => "no operation ever sends it".to_string(),
        Fate::Never(n) => format!("only {n} more will ever be sent"),
        Fate::Behind(t) if flow.threads[*t].stopped => {
            format!("the next one should come from {}, which has stopped", flow.place(*t))
        }
        Fate::Behind(t) => {
            format!("the next one should come from {}, which is waiting itself", flow.place(*t))
        }
        Fate::Unknown => "the sender was not searched, because the streams are too long".to_string(),
    }
}

/// Returns the error E361.
fn deadlock(
    flow: &Flow<'_>,
    stall: &Stall,
    waiting: &[Waiting],
    causes: &[Vec<usize>],
    waiting_ranks: usize,
) -> Diagnostic {
    let mesh = &flow.program.schedule.mesh;
    let roots: Vec<&Wait> = stall.waits.iter().filter(|w| w.root).collect();
    let says = |w: &Wait| format!("{}: {}", w.place, w.what);
    let title = format!("deadlock: {waiting_ranks} of {} ranks wait, and no rank can proceed", mesh.ranks());
    let mut d = Diagnostic::error("E361", title).primary(roots[0].span, says(roots[0]));
    let mut spans = BTreeSet::from([roots[0].span]);
    for w in roots.iter().skip(1) {
        if spans.len() < SHOWN && spans.insert(w.span) {
            d = d.secondary(w.span, says(w));
        }
    }
    for w in roots.iter().take(SHOWN) {
        d = d.note(format!("{}; {}", says(w), w.why));
    }
    if roots.len() > SHOWN {
        d = d.note(format!("{} more streams wait in the same way", roots.len() - SHOWN));
    }
    for cycle in causes.iter().filter(|c| c.len() > 1).take(SHOWN) {
        let who: Vec<String> = cycle.iter().take(SHOWN).map(|i| who(flow, waiting[*i].thread)).collect();
        let more = if cycle.len() > SHOWN { " -> .." } else { "" };
        d = d.note(format!("cycle of waits: {}{more}", who.join(" -> ")));
    }
    if !stall.waiting_behind.is_empty() {
        d = d.note(format!("stopped only because of these: {}", list_ranks(flow, &stall.waiting_behind)));
    }
    let events = |i: &usize| matches!(waiting[*i].want, Awaited::Event(..));
    let queues = |i: &usize| matches!(waiting[*i].want, Awaited::Room(_) | Awaited::Message(_));
    d.help(if causes.iter().flatten().any(queues) {
        "every `recv` needs a `send` at the other end of its queue, and a `send` a free slot: let one of them receive first"
    } else if causes.iter().flatten().all(events) {
        "`record` the event before a stream awaits it, or remove the `await`"
    } else {
        "every `wait` needs as many earlier `notify`s of that counter; one of them is missing or comes too late"
    })
}

/// Returns a name such as `tp=1`, with the stream if a rank has several.
fn who(flow: &Flow<'_>, thread: usize) -> String {
    let t = &flow.threads[thread];
    let rank = flow.program.schedule.mesh.show(t.rank);
    match &flow.program.streams[..] {
        [_] => rank,
        all => format!("{rank} {}", all[t.stream as usize]),
    }
}

/// Returns a list such as `tp=2, tp=3 and 5 more`.
pub fn list_ranks(flow: &Flow<'_>, ranks: &[u64]) -> String {
    let mesh = &flow.program.schedule.mesh;
    let shown: Vec<String> = ranks.iter().take(SHOWN).map(|r| mesh.show(*r)).collect();
    match ranks.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn waiting(flow: &Flow<'_>, thread: usize) -> Option<Waiting> {
    let t = &flow.threads[thread];
    let (act, span) = t.held.as_ref()?;
    let (want, words, missing) = match act {
        Act::Wait { counter, value } => {
            let (landed, seen) = (flow.counter(t.rank, *counter), flow.seen(t.rank, *counter));
            let (signal, index) = flow.program.counter_name(*counter);
            let (name, form) = (&flow.program.schedule.signal(signal).name, flow.program.form(*counter));
            let words =
                format!("waits for @{name}[{index}] {} {value}, and its value is {seen}", form.asks());
            let missing = match form {
                // The next notify flips it.
                Form::Sense { .. } => 1,
                Form::Epoch | Form::Clearing { .. } => {
                    form.target(flow.spent(t.rank, *counter), *value).saturating_sub(landed)
                }
            };
            (Awaited::Counter(t.rank, *counter), words, missing)
        }
        Act::Await(event) => {
            let words = format!(
                "awaits {}, which has not been recorded in this call",
                flow.program.events[*event as usize]
            );
            (Awaited::Event(t.rank, *event, t.call), words, 1)
        }
        Act::Send { .. } | Act::Recv { .. } | Act::Room { .. } => {
            let (queue, sends) = queue_of(t.rank, act)?;
            let (name, mesh) = (flow.program.show_queue(queue.2), &flow.program.schedule.mesh);
            if sends {
                let words =
                    format!("waits for a free slot in {name} to {}, which is full", mesh.show(queue.1));
                (Awaited::Room(queue), words, 1)
            } else {
                let words =
                    format!("waits for a message of {name} from {}, which is empty", mesh.show(queue.0));
                (Awaited::Message(queue), words, 1)
            }
        }
        Act::Copy { .. }
        | Act::Reduce { .. }
        | Act::Put { .. }
        | Act::Get { .. }
        | Act::GetCombine { .. }
        | Act::Notify { .. }
        | Act::FenceRelease
        | Act::FenceAcquire
        | Act::FenceComplete
        | Act::Record(_)
        | Act::Local(_)
        | Act::Mark(_)
        | Act::HostRead(_)
        | Act::Host(_) => return None,
    };
    Some(Waiting { thread, want, words, missing, span: *span })
}

/// Returns what an operation on a queue provides to the other end.
fn answer(queue: Queue, sends: bool) -> Awaited {
    if sends { Awaited::Message(queue) } else { Awaited::Room(queue) }
}

/// Finds the streams that would still send what is wanted, by walking the rest of every stream.
/// Returns false if that took too long.
fn senders(flow: &mut Flow<'_>, wanted: &BTreeSet<Awaited>) -> (BTreeMap<Awaited, Vec<(usize, u64)>>, bool) {
    let mut out: BTreeMap<Awaited, Vec<(usize, u64)>> = BTreeMap::new();
    let mut steps = 0;
    for thread in 0..flow.threads.len() {
        let held = flow.threads[thread].held.take();
        let place = (flow.threads[thread].call, flow.threads[thread].region);
        loop {
            steps += 1;
            if steps > WALK_LIMIT {
                flow.threads[thread].held = held;
                (flow.threads[thread].call, flow.threads[thread].region) = place;
                return (out, false);
            }
            let want = match flow.advance(thread) {
                Ok(Advance::Act(Act::Notify { peer, counter }, _)) => Awaited::Counter(peer, counter),
                Ok(Advance::Act(Act::Record(event), _)) => {
                    Awaited::Event(flow.threads[thread].rank, event, flow.threads[thread].call)
                }
                Ok(Advance::Act(act, _)) => match queue_of(flow.threads[thread].rank, &act) {
                    Some((queue, sends)) if !matches!(act, Act::Room { .. }) => answer(queue, sends),
                    _ => continue,
                },
                Ok(Advance::CallOver(_)) => continue,
                // The walk does not wait.
                Ok(Advance::Blocked) => {
                    let held = flow.threads[thread].held.take();
                    match held.and_then(|(act, _)| match act {
                        Act::Room { .. } => None,
                        act => queue_of(flow.threads[thread].rank, &act),
                    }) {
                        Some((queue, sends)) => answer(queue, sends),
                        None => continue,
                    }
                }
                Ok(Advance::Done) | Err(_) => break,
            };
            if wanted.contains(&want) {
                let list = out.entry(want).or_default();
                match list.last_mut() {
                    Some((t, n)) if *t == thread => *n += 1,
                    _ => list.push((thread, 1)),
                }
            }
        }
        flow.threads[thread].held = held;
        (flow.threads[thread].call, flow.threads[thread].region) = place;
    }
    (out, true)
}

/// Returns the waits that are causes: each wait that would last forever by itself, and each cycle
/// from its first rank on, in its order. Empty if all wait behind a fault.
fn causes(flow: &Flow<'_>, waiting: &[Waiting], fates: &[Fate]) -> Vec<Vec<usize>> {
    let of_thread: BTreeMap<usize, usize> = waiting.iter().enumerate().map(|(i, w)| (w.thread, i)).collect();
    // 0: not visited; otherwise the number of the walk that visited it.
    let mut seen = vec![0usize; waiting.len()];
    let mut out = vec![];
    for start in 0..waiting.len() {
        let (mut at, mut walk) = (start, vec![]);
        loop {
            if seen[at] == start + 1 {
                let mut cycle = walk.split_off(walk.iter().position(|i| *i == at).unwrap_or(0));
                let first = (0..cycle.len()).min_by_key(|i| cycle[*i]).unwrap_or(0);
                cycle.rotate_left(first);
                out.push(cycle);
                break;
            }
            if seen[at] != 0 {
                break;
            }
            seen[at] = start + 1;
            walk.push(at);
            match &fates[at] {
                Fate::Never(_) | Fate::Unknown => {
                    out.push(vec![at]);
                    break;
                }
                Fate::Behind(t) => match of_thread.get(t) {
                    Some(next) => at = *next,
                    // Behind a stream that met a fault.
                    None => {
                        debug_assert!(
                            flow.threads[*t].stopped,
                            "a stream that neither waits nor stopped would move"
                        );
                        break;
                    }
                },
            }
        }
    }
    out.sort();
    out
}
