//! Counts of what a schedule does, obtained by walking it, without knowledge of how it was made.

use kbc_ir::Module;
use kbc_ir::schedule::*;
use kbc_ir::walk::{Act, Cursor, Program, Step};
use std::collections::BTreeMap;

/// Counts of one call, over all ranks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Notifies of arrivals, that is, messages.
    pub messages: u64,
    /// Notifies that return a slot.
    pub credits: u64,
    /// Waits for arrivals.
    pub arrival_waits: u64,
    /// Waits for credits.
    pub credit_waits: u64,
    /// Number of `fence.release`.
    pub releases: u64,
    /// Number of `fence.acquire`.
    pub acquires: u64,
    /// The longest chain of messages. Two messages follow each other if a rank takes part in both,
    /// in different rounds. A round of a rank ends where its text goes from receiving back to
    /// sending.
    pub rounds: u64,
    /// Largest number of elements sent by one rank.
    pub most_sent: u64,
    /// Elements of the largest message of each round, summed over rounds.
    pub pair: u64,
    /// Elements by sender and receiver.
    pub between: BTreeMap<(u64, u64), u64>,
    /// Elements of the windows of a rank.
    pub window_elements: u64,
}

const TICK: &str = "tick";

/// The role of a statement in a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Sends,
    Receives,
    Both,
    Neither,
}

/// Puts a tick at the end of every round: after receives that sends (or nothing) follow.
fn ticked(s: &Schedule) -> Schedule {
    fn holds(s: &SStmt, f: &dyn Fn(&SOp) -> bool) -> bool {
        match s {
            SStmt::For { body, .. } => body.iter().any(|s| holds(s, f)),
            SStmt::If { then, other, .. } => then.iter().chain(other).any(|s| holds(s, f)),
            SStmt::Op(op, _) => f(op),
        }
    }
    fn side(s: &SStmt, arrival: &dyn Fn(&SOp) -> bool) -> Side {
        match (holds(s, &|op| matches!(op, SOp::Put { .. })), holds(s, arrival)) {
            (true, true) => Side::Both,
            (true, false) => Side::Sends,
            (false, true) => Side::Receives,
            (false, false) => Side::Neither,
        }
    }
    fn list(l: &[SStmt], arrival: &dyn Fn(&SOp) -> bool) -> Vec<SStmt> {
        let mut out = vec![];
        for (i, s) in l.iter().enumerate() {
            let now = side(s, arrival);
            let tick = SStmt::Op(SOp::Record(TICK.into()), kbc_diag::Span::NONE);
            let next = l[i + 1..].iter().map(|s| side(s, arrival)).find(|s| *s != Side::Neither);
            out.push(match s {
                SStmt::For { var, lo, hi, body } if now == Side::Both => {
                    SStmt::For { var: var.clone(), lo: lo.clone(), hi: hi.clone(), body: list(body, arrival) }
                }
                SStmt::If { cond, then, other } if now == Side::Both => {
                    SStmt::If { cond: cond.clone(), then: list(then, arrival), other: list(other, arrival) }
                }
                op => op.clone(),
            });
            let ends = now == Side::Both || now == Side::Receives && next != Some(Side::Receives);
            out.extend(ends.then_some(tick));
        }
        out
    }
    let mut out = s.clone();
    let arrival = |op: &SOp| matches!(op, SOp::Wait { counter: Counter { signal, .. }, .. } if s.signal(*signal).usage == SignalUse::Arrival);
    for stream in out.regions.iter_mut().flat_map(|r| &mut r.roles).flat_map(|r| &mut r.streams) {
        stream.body = list(&stream.body, &arrival);
    }
    out
}

/// The state of one stream of one rank.
struct Thread<'p> {
    rank: u64,
    cursor: Cursor<'p>,
    held: Option<Act<'p>>,
    /// `floor`: the level after which the next message comes. `seen`: the level after which the
    /// next one comes after a tick.
    floor: u64,
    seen: u64,
    done: bool,
}

/// Walks the first call of a synchronised module.
pub fn count(m: &Module) -> Counts {
    let s = ticked(m.schedule().expect("a schedule"));
    let program = Program::compile(&s).expect("a schedule that compiles");
    let tick = program.events.iter().position(|e| *e == *TICK);
    let usage = |counter: u32| {
        let i = program.counter_base.iter().rposition(|b| *b <= counter).expect("bases start at 0");
        s.signals[i.min(s.signals.len() - 1)].usage
    };
    let mut c =
        Counts { window_elements: s.windows.iter().map(|w| w.slots * w.capacity).sum(), ..Counts::default() };
    let ranks = program.ranks();
    let mut sent = vec![0u64; ranks as usize];
    // Elements by round, sender and receiver.
    let mut messages: BTreeMap<(u64, u64, u64), u64> = BTreeMap::new();
    let mut threads: Vec<Thread<'_>> = (0..ranks)
        .flat_map(|r| (0..program.streams.len() as u32).map(move |t| (r, t)))
        .map(|(rank, t)| Thread {
            rank,
            cursor: Cursor::new(&program, rank, t, 0),
            held: None,
            floor: 0,
            seen: 0,
            done: false,
        })
        .collect();
    // Levels of the notifies of each counter, in order; credits have no level of their own.
    let mut notified: BTreeMap<(u64, u32), Vec<u64>> = BTreeMap::new();
    let mut events: BTreeMap<(u64, u32), u64> = BTreeMap::new();
    loop {
        let mut moved = false;
        for t in &mut threads {
            while !t.done {
                let act = match t.held.take() {
                    Some(a) => a,
                    None => match t.cursor.next_step().expect("a schedule that walks") {
                        None => {
                            t.done = true;
                            moved = true;
                            break;
                        }
                        Some(Step::Act(a, ..)) => a,
                        Some(_) => continue,
                    },
                };
                match &act {
                    Act::Wait { counter, value } => {
                        let came = notified.get(&(t.rank, *counter)).map_or(&[][..], |v| v);
                        let Some(levels) = came.get(..(*value).max(0) as usize) else {
                            t.held = Some(act);
                            break;
                        };
                        match usage(*counter) {
                            SignalUse::Credit => c.credit_waits += 1,
                            _ => {
                                c.arrival_waits += 1;
                                // The sent data depends on what arrived, whether or not the round
                                // is over.
                                let level = levels.iter().fold(t.floor + 1, |f, l| f.max(*l));
                                t.seen = t.seen.max(level);
                                c.rounds = c.rounds.max(level);
                            }
                        }
                    }
                    Act::Await(e) => match events.get(&(t.rank, *e)) {
                        Some(level) => t.floor = t.floor.max(*level),
                        None => {
                            t.held = Some(act);
                            break;
                        }
                    },
                    Act::Record(e) if Some(*e as usize) == tick => t.floor = t.floor.max(t.seen),
                    Act::Record(e) => {
                        events.insert((t.rank, *e), t.floor.max(t.seen));
                    }
                    Act::Put { src, peer, .. } => {
                        assert_ne!(*peer, t.rank, "a message to oneself");
                        sent[t.rank as usize] += src.len;
                        *messages.entry((t.floor + 1, t.rank, *peer)).or_default() += src.len;
                    }
                    Act::Notify { peer, counter } => {
                        let level = match usage(*counter) {
                            SignalUse::Credit => {
                                c.credits += 1;
                                0
                            }
                            _ => {
                                c.messages += 1;
                                t.seen = t.seen.max(t.floor + 1);
                                c.rounds = c.rounds.max(t.floor + 1);
                                t.floor + 1
                            }
                        };
                        notified.entry((*peer, *counter)).or_default().push(level);
                    }
                    Act::FenceRelease => c.releases += 1,
                    Act::FenceAcquire => c.acquires += 1,
                    _ => {}
                }
                moved = true;
            }
        }
        if threads.iter().all(|t| t.done) {
            break;
        }
        assert!(moved, "a deadlock");
    }
    c.most_sent = sent.into_iter().max().unwrap_or(0);
    let mut largest: BTreeMap<u64, u64> = BTreeMap::new();
    for ((round, src, dst), n) in messages {
        *c.between.entry((src, dst)).or_default() += n;
        let most = largest.entry(round).or_default();
        *most = (*most).max(n);
    }
    c.pair = largest.values().sum();
    c
}
