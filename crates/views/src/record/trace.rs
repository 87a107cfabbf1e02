//! Perfetto trace of a timed run: ranks, their streams and links as tracks
//! (docs/reference/trace.md).
//!
//! Events are written in the order of time during the simulation. Events in the future wait in a
//! heap, which grows with the number of messages and operations in progress. [`super::proto`]
//! encodes them.

use super::proto::{Event, EventArg, EventKind, Packets, Track};
use super::ranks::Ranks;
use kbc_compiler::timeline::scene::Scene;
use kbc_compiler::timeline::waits::{FinishedOp, Reason, Wait};
use kbc_compiler::timeline::words;
use kbc_machine::topology::LinkId;
use kbc_time::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::io::{self, Write};

/// Largest number of packets of a trace: about 200 MB, which the Perfetto UI still opens easily.
pub const MAX_PACKETS: u64 = 4_000_000;

/// An entity that has a track.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Key {
    Ranks,
    Links,
    Rank(u64),
    Stream(u64, u32),
    /// Messages of a rank in flight, in as many lanes as there are messages at a time.
    Out(u64, u32),
    /// Messages that have arrived at a rank.
    In(u64),
    Link(LinkId),
    InFlight,
}

/// An event that has not been written.
struct Pending {
    at: u64,
    sequence: u64,
    key: Key,
    event: Event,
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl Eq for Pending {}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pending {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

/// A message in flight.
struct Flight {
    flow: u64,
    lane: Option<u32>,
    bytes: u64,
}

/// Writer of a trace during a run.
pub struct Trace<'a, W> {
    scene: &'a Scene<'a>,
    ranks: &'a Ranks,
    packets: Packets<W>,
    /// The first error; nothing is written after it.
    failure: Option<io::Error>,
    most: u64,
    tracks: BTreeMap<Key, u64>,
    pending: BinaryHeap<Reverse<Pending>>,
    sequence: u64,
    flights: BTreeMap<MessageId, Flight>,
    flows: u64,
    /// Free lanes and the number of lanes, for each rank.
    lanes: BTreeMap<u64, (BTreeSet<u32>, u32)>,
    /// Streams inside an operation that takes time.
    held: BTreeSet<(u64, u32)>,
    in_flight: u64,
    /// When `in_flight` changed, if that is not written yet.
    counted: Option<f64>,
}

fn moment(ns: f64) -> u64 {
    // Below 2^63, because the engine rejects later times.
    ns.round() as u64
}

/// Returns the name of a kind of message.
fn word(kind: MessageKind) -> &'static str {
    match kind {
        MessageKind::Put => "put",
        MessageKind::Notify => "notify",
        MessageKind::Request => "get request",
        MessageKind::Reply => "get data",
    }
}

impl<'a, W: Write> Trace<'a, W> {
    /// Creates a trace of some ranks with at most `most` packets.
    pub fn new(scene: &'a Scene<'a>, ranks: &'a Ranks, out: W, most: u64) -> Trace<'a, W> {
        Trace {
            scene,
            ranks,
            packets: Packets::new(out),
            failure: None,
            most,
            tracks: BTreeMap::new(),
            pending: BinaryHeap::new(),
            sequence: 0,
            flights: BTreeMap::new(),
            flows: 0,
            lanes: BTreeMap::new(),
            held: BTreeSet::new(),
            in_flight: 0,
            counted: None,
        }
    }

    /// Checks whether the trace has reached its limit.
    pub fn full(&self) -> bool {
        self.packets.count >= self.most
    }

    /// Returns the uuid of a key's track. The first use declares the track and its parents.
    fn track(&mut self, key: Key) -> io::Result<u64> {
        if let Some(uuid) = self.tracks.get(&key) {
            return Ok(*uuid);
        }
        let (parent, name, rank) = match key {
            Key::Ranks => (None, "ranks".to_owned(), 0),
            Key::Links => (None, "links".to_owned(), 1),
            Key::InFlight => (None, "bytes in flight".to_owned(), 2),
            Key::Rank(r) => (Some(Key::Ranks), self.scene.rank(r), r as u32),
            Key::Stream(r, s) => (Some(Key::Rank(r)), self.scene.stream(s).to_owned(), s),
            Key::Out(r, _) => (Some(Key::Rank(r)), "messages sent".to_owned(), 1 << 20),
            Key::In(r) => (Some(Key::Rank(r)), "messages received".to_owned(), (1 << 20) + 1),
            Key::Link(l) => (Some(Key::Links), self.scene.link(l), l.0),
        };
        let parent = parent.map(|p| self.track(p)).transpose()?;
        let uuid = self.tracks.len() as u64 + 1;
        self.tracks.insert(key, uuid);
        let (counter, lanes) = (key == Key::InFlight, matches!(key, Key::Out(..)));
        self.packets.track(&Track { uuid, parent, name, rank: rank.min(i32::MAX as u32), counter, lanes })?;
        Ok(uuid)
    }

    fn add(&mut self, at_ns: f64, key: Key, event: Event) {
        if self.failure.is_some() || self.full() {
            return;
        }
        self.sequence += 1;
        let pending = Pending { at: moment(at_ns), sequence: self.sequence, key, event };
        self.pending.push(Reverse(pending));
    }

    fn event(
        kind: EventKind,
        name: String,
        category: &'static str,
        args: Vec<(&'static str, EventArg)>,
    ) -> Event {
        Event { track: 0, kind, name, category, args, flow: None, last: false }
    }

    /// Writes all events before `now`: no later call adds an earlier event.
    fn advance(&mut self, now: u64) {
        if self.failure.is_some() {
            return;
        }
        if let Some(at_ns) = self.counted.filter(|at| moment(*at) < now) {
            self.counted = None;
            let event = Self::event(EventKind::Counter(self.in_flight), String::new(), "", vec![]);
            self.add(at_ns, Key::InFlight, event);
        }
        while self.pending.peek().is_some_and(|Reverse(p)| p.at < now) && !self.full() {
            let Some(Reverse(mut p)) = self.pending.pop() else { break };
            let done = self.track(p.key).and_then(|uuid| {
                p.event.track = uuid;
                self.packets.event(p.at, &p.event)
            });
            if let Err(e) = done {
                self.failure = Some(e);
                return;
            }
        }
    }

    /// Notes a change of the bytes in flight. Per moment only the last value is written, once time
    /// advances.
    fn count(&mut self, at_ns: f64) {
        self.counted = Some(at_ns);
    }

    /// Records that a stream reaches its next operation or an end of a region; `done` is the
    /// operation it has finished.
    pub fn turn(&mut self, turn: &StepReached, done: Option<&FinishedOp>) {
        self.advance(moment(turn.at_ns));
        if !self.ranks.has(turn.rank) {
            return;
        }
        let key = Key::Stream(turn.rank, turn.stream);
        if let Some(done) = done
            && self.held.remove(&(turn.rank, turn.stream))
        {
            let mut args = vec![("end_ns", EventArg::Float(done.end_ns))];
            if !done.waits.is_empty() {
                let all: Vec<String> = done.waits.iter().map(|w| self.words(w)).collect();
                args.push(("waited_for", EventArg::Text(all.join("; "))));
            }
            self.add(turn.at_ns, key, Self::event(EventKind::End, String::new(), "", args));
        }
        match turn.next {
            Next::Enter(r) => {
                let label = self.scene.schedule.regions.get(r.0 as usize).and_then(|r| r.label.clone());
                let mut args = vec![("call", EventArg::Uint(turn.call))];
                args.extend(label.map(|l| ("algorithm", EventArg::Text(l))));
                let name = self.scene.region(r).to_owned();
                self.add(turn.at_ns, key, Self::event(EventKind::Begin, name, "region", args));
            }
            Next::Leave(_) => {
                self.add(turn.at_ns, key, Self::event(EventKind::End, String::new(), "", vec![]));
            }
            Next::Op(_) | Next::End => {}
        }
    }

    fn about(&self, op: u32) -> Vec<(&'static str, EventArg)> {
        let mut args = vec![("op", EventArg::Uint(u64::from(op)))];
        if let Some(place) = self.scene.ops.get(op as usize) {
            args.push(("text", EventArg::Text(self.scene.text(op).to_owned())));
            if !place.source.is_empty() {
                args.push(("source", EventArg::Text(place.source.to_string())));
            }
        }
        args
    }

    /// Describes a wait.
    fn words(&self, w: &Wait) -> String {
        words(self.scene, &w.reason)
    }

    /// Records that the operation of a stream takes time.
    pub fn holds(&mut self, held: &OpHeld, at: Option<&FinishedOp>) {
        self.advance(moment(held.at_ns));
        let Some(done) = at.filter(|_| self.ranks.has(held.rank)) else { return };
        let category = match done.begun.name {
            "wait" | "await" => "wait",
            name if name.starts_with("fence") => "fence",
            _ => "work",
        };
        let mut args = self.about(done.begun.op);
        if done.begun.bytes > 0 {
            args.push(("bytes", EventArg::Uint(done.begun.bytes)));
        }
        args.push(("start_ns", EventArg::Float(held.at_ns)));
        self.held.insert((held.rank, held.stream));
        let name = done.begun.name.to_owned();
        let key = Key::Stream(held.rank, held.stream);
        self.add(held.at_ns, key, Self::event(EventKind::Begin, name, category, args));
    }

    /// Records that a message is sent.
    pub fn sent(&mut self, m: &Sent, stream: u32) {
        self.advance(moment(m.at_ns));
        if !self.ranks.has(m.from) && !self.ranks.has(m.to) {
            return;
        }
        self.flows += 1;
        let flow = self.flows;
        let name = format!("{} to {}", word(m.kind), self.scene.rank(m.to));
        let mut lane = None;
        if self.ranks.has(m.from) {
            if m.kind != MessageKind::Reply {
                let event = Self::event(EventKind::Instant, name.clone(), "message", self.about(m.op));
                self.add(m.at_ns, Key::Stream(m.from, stream), Event { flow: Some(flow), ..event });
            }
            let (free, all) = self.lanes.entry(m.from).or_default();
            let mine = free.pop_first().unwrap_or_else(|| {
                *all += 1;
                *all - 1
            });
            lane = Some(mine);
            let mut args = self.about(m.op);
            args.push(("bytes", EventArg::Uint(m.bytes)));
            args.push(("start_ns", EventArg::Float(m.at_ns)));
            let event = Self::event(EventKind::Begin, name, "message", args);
            self.add(m.at_ns, Key::Out(m.from, mine), Event { flow: Some(flow), ..event });
        }
        self.flights.insert(m.id, Flight { flow, lane, bytes: m.bytes });
        self.in_flight += m.bytes;
        self.count(m.at_ns);
    }

    /// Records that a message occupies a link.
    pub fn passes(&mut self, p: &Pass, wait: Option<&Wait>) {
        self.advance(moment(p.asked_ns));
        let ends = self.scene.ends(p.link);
        if !ends.is_some_and(|(a, b)| self.ranks.has(a) || self.ranks.has(b)) {
            return;
        }
        let name = format!("{} {} to {}", word(p.kind), self.scene.rank(p.from), self.scene.rank(p.to));
        let mut args = self.about(p.op);
        args.push(("bytes", EventArg::Uint(p.bytes)));
        args.push(("start_ns", EventArg::Float(p.start_ns)));
        args.push(("queued_ns", EventArg::Float(p.start_ns - p.asked_ns)));
        args.extend(wait.map(|w| ("waited_for", EventArg::Text(self.words(w)))));
        let flow = self.flights.get(&p.id).map(|f| f.flow);
        let event = Self::event(EventKind::Begin, name, "link", args);
        self.add(p.start_ns, Key::Link(p.link), Event { flow, ..event });
        let end =
            Self::event(EventKind::End, String::new(), "", vec![("end_ns", EventArg::Float(p.free_ns))]);
        self.add(p.free_ns, Key::Link(p.link), end);
    }

    /// Records that a message has arrived.
    pub fn delivered(&mut self, m: &Delivery) {
        self.advance(moment(m.delivered_ns));
        let Some(flight) = self.flights.remove(&m.id) else { return };
        if let Some(lane) = flight.lane {
            let args = vec![("end_ns", EventArg::Float(m.delivered_ns))];
            let event = Self::event(EventKind::End, String::new(), "", args);
            self.add(m.delivered_ns, Key::Out(m.from, lane), event);
            if let Some((free, _)) = self.lanes.get_mut(&m.from) {
                free.insert(lane);
            }
        }
        if self.ranks.has(m.to) {
            let name = format!("{} from {}", word(m.kind), self.scene.rank(m.from));
            let mut args = self.about(m.op);
            args.push(("bytes", EventArg::Uint(m.bytes)));
            args.push(("at_ns", EventArg::Float(m.delivered_ns)));
            let event = Self::event(EventKind::Instant, name, "message", args);
            // A flow arrow needs a start; without the sender and all links, there is none.
            let event = Event { flow: Some(flight.flow), last: true, ..event };
            self.add(m.delivered_ns, Key::In(m.to), event);
        }
        self.in_flight -= flight.bytes;
        self.count(m.delivered_ns);
    }

    /// Records that an operation waits for a unit of its device.
    pub fn works(&mut self, w: &Work, wait: Option<&Wait>) {
        self.advance(moment(w.asked_ns));
        let Some(wait) = wait.filter(|_| self.ranks.has(w.rank)) else { return };
        let Reason::Unit { unit, .. } = wait.reason else { return };
        let key = Key::Stream(w.rank, w.stream);
        let args = vec![("waits_for", EventArg::Text(self.words(wait)))];
        let begin = Self::event(EventKind::Begin, format!("waits for {}", unit.name()), "wait", args);
        self.add(wait.start_ns, key, begin);
        self.add(wait.end_ns, key, Self::event(EventKind::End, String::new(), "", vec![]));
    }

    /// Writes all pending events, after the run is over.
    pub fn flush(&mut self) {
        self.advance(u64::MAX);
    }

    /// Ends the trace, after [`Trace::flush`].
    ///
    /// # Errors
    /// Returns the first error of writing.
    pub fn finish(self) -> io::Result<W> {
        match self.failure {
            Some(e) => Err(e),
            None => self.packets.finish(),
        }
    }
}
