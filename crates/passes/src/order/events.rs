//! Events of an algorithm: its rounds as messages and local moves, and several calls of them as a
//! graph.

use super::graph::{Edge, Graph};
use super::{MAX_EVENTS, NoSyncCounts, Policy, Within};
use kbc_rounds::Rounds;
use std::collections::{BTreeMap, BTreeSet};

/// A place on a rank: (buffer, atom).
type AtomOfRank = (u32, u32);

/// A message: what one rank sends another in one round from one selection of chunks.
pub(super) struct Message {
    round: u32,
    src: u32,
    dst: u32,
    /// Places read at the source.
    reads: Vec<AtomOfRank>,
    /// Places written at the destination.
    writes: Vec<AtomOfRank>,
    /// Whether any part of the message is added to data at the receiver.
    adds: bool,
    /// Distance that orders the additions at the receiver.
    distance: u32,
}

/// A move within a rank.
struct Local {
    round: u32,
    rank: u32,
    reads: Vec<AtomOfRank>,
    writes: Vec<AtomOfRank>,
}

/// The contents of a call.
pub(super) struct Calls {
    pub(super) messages: Vec<Message>,
    locals: Vec<Local>,
    ranks: u32,
    /// Number of atoms of each of the collective's own buffers.
    own: Vec<u32>,
}

/// The phases of a rank in a round, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Send,
    Local,
    /// With pull: the read at the source.
    Fetch,
    Receive,
}

/// A step of a rank in a call.
struct Step<'c> {
    round: u32,
    phase: Phase,
    /// Order within a phase.
    order: (u32, u32),
    /// Index of the message or of the local move.
    of: usize,
    reads: &'c [AtomOfRank],
    writes: &'c [AtomOfRank],
}

impl Calls {
    pub(super) fn of(r: &Rounds) -> Calls {
        let mut messages: Vec<Message> = vec![];
        let mut locals = vec![];
        let mut index = BTreeMap::new();
        for (round, x) in r.transfers() {
            let places =
                |g: &kbc_rounds::region::Region| g.places().map(|a| (g.buffer, a)).collect::<Vec<_>>();
            let (reads, mut writes) = (places(&x.from), places(&x.to));
            if !x.is_remote() {
                locals.push(Local { round, rank: x.src, reads, writes });
                continue;
            }
            let runs: Vec<(u32, u32)> = x.from.runs().iter().map(|r| (r.start, r.len)).collect();
            let at = *index.entry((round, x.src, x.dst, x.from.buffer, runs)).or_insert_with(|| {
                messages.push(Message {
                    round,
                    src: x.src,
                    dst: x.dst,
                    reads,
                    writes: vec![],
                    adds: false,
                    distance: x.distance,
                });
                messages.len() - 1
            });
            messages[at].writes.append(&mut writes);
            messages[at].adds |= x.reduce;
        }
        Calls {
            messages,
            locals,
            ranks: r.ranks(),
            own: r.buffers.iter().take_while(|b| b.scratch.is_none()).map(|b| b.atoms).collect(),
        }
    }

    pub(super) fn rounds_with_messages(&self) -> u64 {
        let mut seen: Vec<u32> = self.messages.iter().map(|m| m.round).collect();
        seen.sort_unstable();
        seen.dedup();
        seen.len() as u64
    }

    /// Returns the slots on the rank that has most.
    pub(super) fn slots(&self, policy: Policy) -> u64 {
        let direct = self.direct(policy);
        let mut at: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for (m, d) in self.messages.iter().zip(&direct) {
            // Rotating slots belong to a channel, and the staging of pulled data to a round.
            let key = match policy {
                Policy::Slots(_) => m.src,
                Policy::Pull => m.round,
                _ => 0,
            };
            *at.entry((m.dst, key)).or_default() += u64::from(!d);
        }
        let mut rank: BTreeMap<u32, u64> = BTreeMap::new();
        for ((dst, _), n) in at {
            let most = rank.entry(dst).or_default();
            *most = match policy {
                Policy::Slots(k) => *most + u64::from(k),
                Policy::Pull => n.max(*most),
                Policy::Alternate => *most + 2 * n,
                _ => *most + n,
            };
        }
        rank.into_values().max().unwrap_or(0)
    }

    /// Returns for each message whether it is placed directly at its destination.
    fn direct(&self, policy: Policy) -> Vec<bool> {
        if policy != Policy::Direct {
            return vec![false; self.messages.len()];
        }
        let mut read: BTreeSet<(u32, u32, AtomOfRank)> = BTreeSet::new();
        for m in &self.messages {
            read.extend(m.reads.iter().map(|x| (m.src, m.round, *x)));
        }
        for l in &self.locals {
            read.extend(l.reads.iter().map(|x| (l.rank, l.round, *x)));
        }
        self.messages
            .iter()
            .map(|m| !m.adds && !m.writes.iter().any(|x| read.contains(&(m.dst, m.round, *x))))
            .collect()
    }

    /// Returns the steps of every rank in a call, in order.
    fn steps(&self, pull: bool) -> Vec<Vec<Step<'_>>> {
        let mut out: Vec<Vec<Step<'_>>> = (0..self.ranks).map(|_| vec![]).collect();
        for (of, m) in self.messages.iter().enumerate() {
            let mut step = |rank: u32, phase, order, reads, writes| {
                out[rank as usize].push(Step { round: m.round, phase, order, of, reads, writes });
            };
            step(m.src, Phase::Send, (0, of as u32), &m.reads, &[]);
            if pull {
                step(m.dst, Phase::Fetch, (m.distance, of as u32), &[], &[]);
            }
            step(m.dst, Phase::Receive, (m.distance, of as u32), &[], &m.writes);
        }
        for (of, l) in self.locals.iter().enumerate() {
            out[l.rank as usize].push(Step {
                round: l.round,
                phase: Phase::Local,
                order: (0, of as u32),
                of,
                reads: &l.reads,
                writes: &l.writes,
            });
        }
        out.iter_mut().for_each(|l| l.sort_by_key(|s| (s.round, s.phase, s.order)));
        out
    }

    /// Returns the graph of as many calls as the policy needs until a slot is used again.
    pub(super) fn graph(&self, policy: Policy, within: Within) -> Result<Graph, NoSyncCounts> {
        let mut channels: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        for (i, m) in self.messages.iter().enumerate() {
            channels.entry((m.src, m.dst)).or_default().push(i);
        }
        channels.values_mut().for_each(|l| l.sort_by_key(|&i| (self.messages[i].round, i)));
        let fewest = channels.values().map(Vec::len).min().unwrap_or(1) as u64;
        let calls = match policy {
            Policy::Slots(k) => 2 + u64::from(k).div_ceil(fewest).max(1),
            Policy::Alternate => 3,
            // A path back to the previous call passes through these two calls alone.
            _ => 2,
        };
        let steps = self.steps(policy == Policy::Pull);
        let size = calls * (steps.iter().map(Vec::len).sum::<usize>() as u64 + 2 * u64::from(self.ranks));
        if size > MAX_EVENTS {
            return Err(NoSyncCounts::TooLarge(size));
        }
        let mut draw = Draw {
            calls: self,
            policy,
            within: if matches!(policy, Policy::Direct | Policy::Pull) { Within::Program } else { within },
            direct: self.direct(policy),
            graph: Graph::default(),
            sent: vec![],
            fetched: vec![],
            received: vec![],
            used: vec![None; self.ranks as usize],
            touched: BTreeMap::new(),
            open: BTreeMap::new(),
            answered: BTreeSet::new(),
        };
        for call in 0..calls as usize {
            draw.call(call, call as u64 + 1 == calls, &steps);
            draw.signals(call, &channels);
        }
        Ok(draw.graph)
    }
}

/// A graph under construction.
struct Draw<'c> {
    calls: &'c Calls,
    policy: Policy,
    within: Within,
    direct: Vec<bool>,
    graph: Graph,
    /// Events by call and message.
    sent: Vec<Vec<u32>>,
    fetched: Vec<Vec<u32>>,
    received: Vec<Vec<u32>>,
    /// The end of the last call on each rank.
    used: Vec<Option<u32>>,
    /// The last access to a place of a rank.
    touched: BTreeMap<(u32, AtomOfRank), u32>,
    /// With pull: messages (call, number) that read a place of a rank which nobody has written
    /// since.
    open: BTreeMap<(u32, AtomOfRank), Vec<(usize, usize)>>,
    /// With pull: messages whose reader has already returned the source.
    answered: BTreeSet<(usize, usize)>,
}

impl Draw<'_> {
    /// Adds the events of a call, and the order within each rank.
    fn call(&mut self, call: usize, counted: bool, steps: &[Vec<Step<'_>>]) {
        let n = self.calls.messages.len();
        for list in [&mut self.sent, &mut self.fetched, &mut self.received] {
            list.push(vec![0; n]);
        }
        let (mut dones, mut readies) = (vec![], vec![]);
        for (rank, list) in (0u32..).zip(steps) {
            let load = self.graph.event(rank, counted);
            if let Some(u) = self.used[rank as usize] {
                self.graph.edge(u, load, Edge::Fixed);
            }
            let own: Vec<AtomOfRank> =
                (0u32..).zip(&self.calls.own).flat_map(|(b, n)| (0..*n).map(move |a| (b, a))).collect();
            for x in &own {
                for m in self.open.remove(&(rank, *x)).unwrap_or_default() {
                    dones.push((load, m));
                }
            }
            let mut data = Data { load, ..Data::default() };
            let (mut before, mut all) = (load, vec![load]);
            for s in list {
                let e = self.graph.event(rank, counted);
                match self.within {
                    Within::Program => self.graph.edge(before, e, Edge::Fixed),
                    Within::Data => data.step(&mut self.graph, e, s),
                }
                before = e;
                all.push(e);
                match s.phase {
                    Phase::Send => self.sent[call][s.of] = e,
                    Phase::Fetch => self.fetched[call][s.of] = e,
                    Phase::Receive => self.received[call][s.of] = e,
                    Phase::Local => {}
                }
                if s.phase == Phase::Receive && self.direct[s.of] {
                    let last = s.writes.iter().filter_map(|x| self.touched.get(&(rank, *x)));
                    readies.extend(last.max().map(|last| (*last, s.of)));
                }
                // Only direct placement asks who touched a place last.
                let touches = self.policy == Policy::Direct;
                for x in s.reads.iter().chain(s.writes).filter(|_| touches) {
                    self.touched.insert((rank, *x), e);
                }
                for x in s.writes.iter().filter(|_| self.policy == Policy::Pull) {
                    for m in self.open.remove(&(rank, *x)).unwrap_or_default() {
                        dones.push((e, m));
                    }
                }
                if self.policy == Policy::Pull && s.phase == Phase::Send {
                    for x in &self.calls.messages[s.of].reads {
                        self.open.entry((rank, *x)).or_default().push((call, s.of));
                    }
                }
            }
            let used = self.graph.event(rank, counted);
            let last = if self.within == Within::Program { vec![before] } else { all };
            self.graph.new_edges(&last, used);
            if self.policy == Policy::Direct {
                self.touched.extend(own.iter().map(|x| ((rank, *x), used)));
            }
            self.used[rank as usize] = Some(used);
        }
        for (last, m) in readies {
            self.graph.edge(last, self.sent[call][m], Edge::Credit);
        }
        // A source is returned once, before the first write of any of its places.
        dones.sort_unstable();
        for (e, (c, m)) in dones {
            if self.answered.insert((c, m)) {
                self.graph.edge(self.fetched[c][m], e, Edge::Credit);
            }
        }
    }

    /// Adds the arrivals, and the credits of slots.
    fn signals(&mut self, call: usize, channels: &BTreeMap<(u32, u32), Vec<usize>>) {
        let (sent, received) = (&self.sent[call], &self.received[call]);
        for i in 0..self.calls.messages.len() {
            if self.policy == Policy::Pull {
                self.graph.edge(sent[i], self.fetched[call][i], Edge::Fixed);
                continue;
            }
            self.graph.edge(sent[i], received[i], Edge::Fixed);
            let back = match self.policy {
                Policy::Slots(_) | Policy::Pull => None,
                Policy::Alternate => call.checked_sub(2),
                Policy::PerMessage | Policy::Direct => call.checked_sub(1),
            };
            if let (Some(c), false) = (back, self.direct[i]) {
                self.graph.edge(self.received[c][i], sent[i], Edge::Credit);
            }
        }
        let Policy::Slots(k) = self.policy else { return };
        for list in channels.values() {
            for (at, &i) in list.iter().enumerate() {
                if let Some(b) = (call * list.len() + at).checked_sub(k as usize) {
                    let occupant = self.received[b / list.len()][list[b % list.len()]];
                    self.graph.edge(occupant, sent[i], Edge::Credit);
                }
            }
        }
    }
}

/// The order of a rank's steps if only shared chunks order them.
#[derive(Default)]
struct Data {
    load: u32,
    writer: BTreeMap<AtomOfRank, u32>,
    readers: BTreeMap<AtomOfRank, Vec<u32>>,
}

impl Data {
    fn step(&mut self, g: &mut Graph, e: u32, s: &Step<'_>) {
        g.edge(self.load, e, Edge::Fixed);
        for x in s.reads {
            if let Some(w) = self.writer.get(x) {
                g.edge(*w, e, Edge::Fixed);
            }
            self.readers.entry(*x).or_default().push(e);
        }
        for x in s.writes {
            for r in self.readers.remove(x).unwrap_or_default() {
                g.edge(r, e, Edge::Fixed);
            }
            if let Some(w) = self.writer.insert(*x, e) {
                g.edge(w, e, Edge::Fixed);
            }
        }
    }
}
