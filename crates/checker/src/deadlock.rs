//! Description of deadlocks: which stream waits for which when none can continue.
//!
//! The rest of every stream is read without executing it, to find which stream would have notified.
//! The waits are then followed until they form a cycle or end.

use super::Setup;
use super::queues::QueueKey;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::walk::{Act, Cursor, Step};
use std::collections::BTreeMap;

/// The reason why a stream is blocked.
#[derive(Clone, Debug)]
pub(super) enum BlockedOn {
    /// A counter of its rank: the expected value, and the value that a wait of the counter's form
    /// sees.
    Counter { counter: u32, value: i64, seen: u64 },
    /// An event of its rank.
    Event(u32),
    /// A free slot of a queue, with the depth of the queue.
    Full(QueueKey, u64),
    /// A message of a queue.
    Empty(QueueKey),
}

/// A walked stream that cannot continue.
pub(super) struct Blocked<'p> {
    pub rank: u64,
    pub stream: u32,
    pub on: BlockedOn,
    pub span: Span,
    /// Its remaining operations.
    pub rest: Option<Cursor<'p>>,
}

/// Maximum number of operations that are read ahead, over all streams.
const AHEAD: usize = 4_000_000;

/// Returns the error for the cycle to which the first blocked stream leads.
pub(super) fn describe(setup: &Setup, mut blocked: Vec<Blocked>) -> Diagnostic {
    // (walked rank, counter or event) -> (rank that would notify or record, stream, position)
    let mut notifiers: BTreeMap<(usize, u32), (u64, u32, Span)> = BTreeMap::new();
    let mut recorders: BTreeMap<(usize, u32), (u64, u32, Span)> = BTreeMap::new();
    // The streams that would receive, and those that would send.
    let mut ends: [BTreeMap<QueueKey, (u64, u32, Span)>; 2] = [BTreeMap::new(), BTreeMap::new()];
    let ahead = (AHEAD / blocked.len().max(1)).max(100);
    for b in &mut blocked {
        let Some(cursor) = &mut b.rest else { continue };
        for _ in 0..ahead {
            match cursor.next_step() {
                Ok(Some(Step::Act(Act::Notify { peer, counter }, span, _))) => {
                    let (rep, h) = setup.group.split(peer);
                    let from = setup.group.act(setup.group.inverse(h), b.rank);
                    notifiers.entry((rep, counter)).or_insert((from, b.stream, span));
                }
                Ok(Some(Step::Act(Act::Recv { peer, queue, .. }, span, _))) => {
                    ends[0].entry((peer, b.rank, queue)).or_insert((b.rank, b.stream, span));
                }
                Ok(Some(Step::Act(Act::Send { peer, queue, .. }, span, _))) => {
                    ends[1].entry((b.rank, peer, queue)).or_insert((b.rank, b.stream, span));
                }
                Ok(Some(Step::Act(Act::Record(e), span, _))) => {
                    let (rep, _) = setup.group.split(b.rank);
                    recorders.entry((rep, e)).or_insert((b.rank, b.stream, span));
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
    }
    let find = |rep: usize, stream: u32| {
        let rank = setup.group.reps[rep];
        blocked.iter().position(|b| (b.rank, b.stream) == (rank, stream))
    };
    // Follow the waits; `moved` is the element that takes the walked stream to its image on the
    // path.
    let (mut at, mut moved) = (0, 0u64);
    let mut path: Vec<(usize, u64)> = vec![];
    let mut end: Option<String> = None;
    loop {
        if let Some(i) = path.iter().position(|(a, m)| (*a, *m) == (at, moved)) {
            path.drain(..i);
            break;
        }
        path.push((at, moved));
        let b = &blocked[at];
        let (rep, _) = setup.group.split(b.rank);
        let next = match &b.on {
            BlockedOn::Counter { counter, .. } => notifiers.get(&(rep, *counter)),
            BlockedOn::Event(e) => recorders.get(&(rep, *e)),
            BlockedOn::Full(which, _) => ends[0].get(which),
            BlockedOn::Empty(which) => ends[1].get(which),
        };
        let Some((rank, stream, _)) = next else {
            end = Some("no operation ever does so".into());
            break;
        };
        let (rep, h) = setup.group.split(setup.group.act(moved, *rank));
        match find(rep, *stream) {
            Some(i) => (at, moved) = (i, h),
            None => {
                end = Some("the stream that would do so has ended".into());
                break;
            }
        }
        if path.len() > 4096 {
            break;
        }
    }
    let first = path.first().copied().unwrap_or((0, 0));
    let show = |(i, moved): (usize, u64)| {
        let b = &blocked[i];
        let rank = setup.rank(setup.group.act(moved, b.rank));
        let stream = match setup.program.streams[b.stream as usize].as_str() {
            kbc_ir::schedule::MAIN => String::new(),
            name => format!(" on stream {name}"),
        };
        match &b.on {
            BlockedOn::Counter { counter, value, seen } => {
                let (s, index) = setup.program.counter_name(*counter);
                let name = &setup.schedule.signal(s).name;
                let asks = setup.program.form(*counter).asks();
                format!(
                    "rank {rank}{stream} waits for @{name}[{index}] {asks} {value}, and its value is {seen}"
                )
            }
            BlockedOn::Full(w, depth) => {
                let (queue, to) = (setup.program.show_queue(w.2), setup.rank(w.1));
                let slots = if *depth == 1 { "slot is".into() } else { format!("{depth} slots are") };
                format!(
                    "rank {rank}{stream} waits for a free slot in {queue} to rank {to}, whose {slots} full"
                )
            }
            BlockedOn::Empty(w) => {
                let (queue, from) = (setup.program.show_queue(w.2), setup.rank(w.0));
                format!("rank {rank}{stream} waits for a message of {queue} from rank {from}, which is empty")
            }
            BlockedOn::Event(e) => {
                format!(
                    "rank {rank}{stream} awaits {}, which is not recorded",
                    setup.program.events[*e as usize]
                )
            }
        }
    };
    let mut d = Diagnostic::error("E340", format!("deadlock: {}", show(first)))
        .primary(blocked[first.0].span, show(first));
    for step in path.iter().skip(1).take(6) {
        d = d.secondary(blocked[step.0].span, show(*step));
    }
    let ranks: Vec<String> =
        path.iter().take(16).map(|(i, m)| setup.rank(setup.group.act(*m, blocked[*i].rank))).collect();
    let more = if path.len() > 16 { ", .." } else { "" };
    d = match end {
        Some(why) => d.note(format!("chain of waits: {}{more}; {why}", ranks.join(" for "))),
        None => d.note(format!("cycle of waits: {}{more}", ranks.join(" -> "))),
    };
    let queues =
        path.iter().any(|(i, _)| matches!(blocked[*i].on, BlockedOn::Full(..) | BlockedOn::Empty(_)));
    d.note(format!("{} streams cannot proceed", blocked.len())).help(if queues {
        "let one of them receive before it sends, add the missing send, or use queues with more slots"
    } else {
        "let one of them notify before it waits, or lower the value of a wait"
    })
}
