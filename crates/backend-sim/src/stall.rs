//! When nothing can happen any more: who waits for what, who started it and who was only dragged along.
//!
//! A stalled run is over, so the rest of every stream is walked (not executed) to find who would have sent what is
//! waited for. A wait that nobody would ever satisfy is a cause; so is a stream that met a fault; otherwise the causes
//! are the ranks on a cycle.

use crate::flow::{Flow, Turn};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::walk::Act;
use std::collections::{BTreeMap, BTreeSet};

/// Operations walked at most to find the senders; above it a message says less about them.
const WALK_LIMIT: usize = 2_000_000;
/// Ranks that a message lists before it only counts.
const SHOWN: usize = 8;

/// Something that a stream waits for: a counter of a rank, or an event of a rank in a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Want {
    Counter(u64, u32),
    Event(u64, u32, i64),
}

struct Waiting {
    thread: usize,
    want: Want,
    words: String,
    missing: u64,
    span: Span,
}

/// What a stalled run has come to.
pub(crate) struct Stall {
    /// The deadlock, if there is one that does not come from a fault of a rank.
    pub(crate) deadlock: Option<Diagnostic>,
    /// Ranks that only wait for others that met a fault.
    pub(crate) dragged: Vec<u64>,
}

enum Fate {
    /// Nobody will ever send it.
    Never(u64),
    /// The thread it waits for.
    Behind(usize),
    /// The streams were too long to look.
    Unknown,
}

/// Explains why threads of a run wait. Uses up the threads.
pub(crate) fn explain(flow: &mut Flow<'_>) -> Stall {
    let waiting: Vec<Waiting> = (0..flow.threads.len()).filter_map(|t| waiting(flow, t)).collect();
    if waiting.is_empty() {
        return Stall { deadlock: None, dragged: vec![] };
    }
    let wanted: BTreeSet<Want> = waiting.iter().map(|w| w.want).collect();
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
    let ranks = |threads: &mut dyn Iterator<Item = usize>| -> BTreeSet<u64> {
        threads.map(|t| flow.threads[t].rank).collect()
    };
    let cause_ranks = ranks(&mut causes.iter().map(|i| waiting[*i].thread));
    let all = ranks(&mut waiting.iter().map(|w| w.thread));
    let dragged: Vec<u64> = all.difference(&cause_ranks).copied().collect();
    let Some(first) = causes.first() else {
        return Stall { deadlock: None, dragged };
    };
    let mesh = &flow.program.schedule.mesh;
    let mut d = Diagnostic::error(
        "E361",
        format!("deadlock: {} of {} ranks wait and nothing can happen any more", all.len(), mesh.ranks()),
    )
    .primary(
        waiting[*first].span,
        format!("{}: {}", flow.place(waiting[*first].thread), waiting[*first].words),
    );
    let mut spans = BTreeSet::from([waiting[*first].span]);
    for i in causes.iter().skip(1) {
        let w = &waiting[*i];
        if spans.len() < SHOWN && spans.insert(w.span) {
            d = d.secondary(w.span, format!("{}: {}", flow.place(w.thread), w.words));
        }
    }
    for i in causes.iter().take(SHOWN) {
        let w = &waiting[*i];
        let why = match &fates[*i] {
            Fate::Never(0) => "nobody ever sends it".to_string(),
            Fate::Never(n) => format!("only {n} more would ever be sent"),
            Fate::Behind(t) => format!("the next one is to come from {}, which waits itself", flow.place(*t)),
            Fate::Unknown => "who would send it was not searched: the streams are too long".to_string(),
        };
        d = d.note(format!("{}: {}; {why}", flow.place(w.thread), w.words));
    }
    if causes.len() > SHOWN {
        d = d.note(format!("{} more streams like these", causes.len() - SHOWN));
    }
    if !dragged.is_empty() {
        d = d.note(format!("only dragged along: {}", list_ranks(flow, &dragged)));
    }
    d = d.help("every `wait` needs as many earlier `notify`s of that counter; one of them is missing or comes too late");
    Stall { deadlock: Some(d), dragged }
}

/// `tp=2, tp=3 and 5 more`.
pub(crate) fn list_ranks(flow: &Flow<'_>, ranks: &[u64]) -> String {
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
            let seen = flow.counter(t.rank, *counter);
            let (signal, index) = flow.program.counter_name(*counter);
            let name = &flow.program.schedule.signal(signal).name;
            let words = format!("waits for @{name}[{index}] >= {value}, seen {seen}");
            (Want::Counter(t.rank, *counter), words, u64::try_from(*value).unwrap_or(0).saturating_sub(seen))
        }
        Act::Await(event) => {
            let words = format!(
                "awaits {}, which was not recorded in this call",
                flow.program.events[*event as usize]
            );
            (Want::Event(t.rank, *event, t.call), words, 1)
        }
        _ => return None,
    };
    Some(Waiting { thread, want, words, missing, span: *span })
}

/// Who would still send what is wanted, by walking the rest of every stream; false if that was too long.
fn senders(flow: &mut Flow<'_>, wanted: &BTreeSet<Want>) -> (BTreeMap<Want, Vec<(usize, u64)>>, bool) {
    let mut out: BTreeMap<Want, Vec<(usize, u64)>> = BTreeMap::new();
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
                Ok(Turn::Act(Act::Notify { peer, counter }, _)) => Want::Counter(peer, counter),
                Ok(Turn::Act(Act::Record(event), _)) => {
                    Want::Event(flow.threads[thread].rank, event, flow.threads[thread].call)
                }
                Ok(Turn::Act(..) | Turn::CallOver(_)) => continue,
                // Walking does not wait.
                Ok(Turn::Blocked) => {
                    flow.threads[thread].held = None;
                    continue;
                }
                Ok(Turn::Done) | Err(_) => break,
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

/// Indices of the waits that are causes: waits for ever, and cycles. Empty if all wait behind a fault.
fn causes(flow: &Flow<'_>, waiting: &[Waiting], fates: &[Fate]) -> Vec<usize> {
    let of_thread: BTreeMap<usize, usize> = waiting.iter().enumerate().map(|(i, w)| (w.thread, i)).collect();
    // 0: not seen, otherwise the number of the walk that saw it.
    let mut seen = vec![0usize; waiting.len()];
    let mut out = BTreeSet::new();
    for start in 0..waiting.len() {
        let mut at = start;
        loop {
            if seen[at] == start + 1 {
                // A new cycle: all its members.
                let mut member = at;
                loop {
                    out.insert(member);
                    match &fates[member] {
                        Fate::Behind(t) => match of_thread.get(t) {
                            Some(next) if *next != at => member = *next,
                            _ => break,
                        },
                        _ => break,
                    }
                }
                break;
            }
            if seen[at] != 0 {
                break;
            }
            seen[at] = start + 1;
            match &fates[at] {
                Fate::Never(_) | Fate::Unknown => {
                    out.insert(at);
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
    out.into_iter().collect()
}
