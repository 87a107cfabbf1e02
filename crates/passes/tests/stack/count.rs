//! Counting what a schedule does: by walking it, with nothing of how it was made.

use kbc_ir::Module;
use kbc_ir::schedule::*;
use kbc_ir::walk::{Act, Cursor, Program, Step};
use std::collections::BTreeMap;

/// What one call does, over all ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Notifies of arrivals: messages.
    pub messages: u64,
    /// Notifies that give a slot back.
    pub credits: u64,
    /// Waits for arrivals.
    pub arrival_waits: u64,
    /// Waits for credits.
    pub credit_waits: u64,
    /// `fence.release`
    pub releases: u64,
    /// `fence.acquire`
    pub acquires: u64,
    /// The longest chain of messages: one depends on what its sender received before it, and on what it sent before it
    /// last received (or would have received, had anybody sent it anything).
    pub rounds: u64,
    /// Most elements sent by one rank.
    pub most_sent: u64,
    /// Elements of the windows of a rank.
    pub window_elements: u64,
}

const TICK: &str = "tick";

/// Puts a tick after everything that only receives: what is sent after it is sent in a later round.
fn ticked(s: &Schedule) -> Schedule {
    fn holds(s: &SStmt, f: &dyn Fn(&SOp) -> bool) -> bool {
        match s {
            SStmt::For { body, .. } => body.iter().any(|s| holds(s, f)),
            SStmt::If { then, other, .. } => then.iter().chain(other).any(|s| holds(s, f)),
            SStmt::Op(op, _) => f(op),
        }
    }
    fn list(l: &[SStmt], arrival: &dyn Fn(&SOp) -> bool) -> Vec<SStmt> {
        let mut out = vec![];
        for s in l {
            let last = holds(s, arrival) && !holds(s, &|op| matches!(op, SOp::Put { .. }));
            let tick = SStmt::Op(SOp::Record(TICK.into()), kbc_diag::Span::NONE);
            out.push(match s {
                SStmt::For { var, lo, hi, body } => SStmt::For {
                    var: var.clone(),
                    lo: lo.clone(),
                    hi: hi.clone(),
                    body: list(body, arrival),
                },
                SStmt::If { cond, then, other } => SStmt::If {
                    cond: cond.clone(),
                    then: list(then, arrival),
                    other: list(other, arrival),
                },
                op => op.clone(),
            });
            out.extend(last.then_some(tick));
        }
        out
    }
    let mut out = s.clone();
    let arrival =
        |op: &SOp| matches!(op, SOp::Wait { signal, .. } if s.signal(*signal).usage == SignalUse::Arrival);
    for stream in out.regions.iter_mut().flat_map(|r| &mut r.roles).flat_map(|r| &mut r.streams) {
        stream.body = list(&stream.body, &arrival);
    }
    out
}

/// One stream of one rank on its way.
struct Thread<'p> {
    rank: u64,
    cursor: Cursor<'p>,
    held: Option<Act<'p>>,
    /// What the next message comes after; what the next one after a tick comes after.
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
    let mut c = Counts {
        window_elements: s.windows.iter().map(|w| w.slots * w.capacity).sum(),
        ..Counts::default()
    };
    let ranks = program.ranks();
    let mut sent = vec![0u64; ranks as usize];
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
    // Levels of the notifies of each counter, in order; credits have none of their own.
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
                        let Some(levels) = came.get(..*value as usize) else {
                            t.held = Some(act);
                            break;
                        };
                        match usage(*counter) {
                            SignalUse::Credit => c.credit_waits += 1,
                            _ => {
                                c.arrival_waits += 1;
                                t.floor = levels.iter().fold(t.floor, |f, l| f.max(*l));
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
    c
}
