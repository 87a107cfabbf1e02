//! Recording of a timed run as the columns of a page: slices of streams, messages, links, and the
//! chunks that messages carry.
//!
//! This module owns the observer. Waits are found as for traces and logs
//! ([`kbc_compiler::timeline::waits`]), and [`super::flow`] owns the contents.

use super::flow::{Flow, Piece, count_message};
use crate::record::ranks::Ranks;
use kbc_compiler::timeline::scene::Scene;
use kbc_compiler::timeline::waits::{Reason, Waits};
use kbc_compiler::timeline::words;
use kbc_diag::Diagnostic;
use kbc_ir::schedule::RegionId;
use kbc_ir::walk::{Access, Act, Cursor, Step};
use kbc_time::*;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Largest number of events of a page.
pub const MAX_EVENTS: usize = 600_000;

/// Returns a time in whole picoseconds.
pub fn ps(ns: f64) -> i64 {
    // Below 2^53, because the engine rejects later times.
    (ns * 1000.0).round() as i64
}

/// Operations that took time, in the order of their ends.
#[derive(Serialize, Default)]
pub struct Slices {
    /// Rank.
    pub rank: Vec<u64>,
    /// Number of the stream.
    pub stream: Vec<u32>,
    /// Number of the operation.
    pub op: Vec<u32>,
    /// Start in ps.
    pub start: Vec<i64>,
    /// End in ps.
    pub end: Vec<i64>,
    /// Bytes that it moves or produces.
    pub bytes: Vec<u64>,
    /// What it waited for: the number of a text, or -1.
    pub why: Vec<i64>,
}

/// Stays of streams in regions.
#[derive(Serialize, Default)]
pub struct Stays {
    /// Rank.
    pub rank: Vec<u64>,
    /// Number of the stream.
    pub stream: Vec<u32>,
    /// Number of the region.
    pub region: Vec<u32>,
    /// Start in ps.
    pub start: Vec<i64>,
    /// End in ps.
    pub end: Vec<i64>,
}

/// Messages, in the order in which they were sent.
#[derive(Serialize, Default)]
pub struct Messages {
    /// Number of the operation.
    pub op: Vec<u32>,
    /// Stream that sent it.
    pub stream: Vec<u32>,
    /// Sender.
    pub from: Vec<u64>,
    /// Receiver.
    pub to: Vec<u64>,
    /// 0 for a put, 1 for a notify, 2 for the request of a get, 3 for its data.
    pub kind: Vec<u8>,
    /// Number of bytes.
    pub bytes: Vec<u64>,
    /// Time of sending, in ps.
    pub sent: Vec<i64>,
    /// Arrival of the last byte, in ps.
    pub arrived: Vec<i64>,
}

/// Messages on links, in the order in which their heads reached the link.
#[derive(Serialize, Default)]
pub struct LinkPasses {
    /// Number of the message.
    pub message: Vec<usize>,
    /// Number of the link.
    pub link: Vec<u32>,
    /// When its head reached the link, in ps.
    pub asked: Vec<i64>,
    /// When it got the link, in ps.
    pub start: Vec<i64>,
    /// When the next message may have the link, in ps.
    pub end: Vec<i64>,
}

/// Waits for units inside operations.
#[derive(Serialize, Default)]
pub struct UnitWaits {
    /// Rank.
    pub rank: Vec<u64>,
    /// Number of the stream.
    pub stream: Vec<u32>,
    /// Start in ps.
    pub start: Vec<i64>,
    /// End in ps.
    pub end: Vec<i64>,
    /// Number of a text.
    pub why: Vec<i64>,
}

/// All events.
#[derive(Serialize, Default)]
pub struct Events {
    /// Operations.
    pub slices: Slices,
    /// Regions.
    pub stays: Stays,
    /// Messages.
    pub messages: Messages,
    /// Links.
    pub passes: LinkPasses,
    /// Waits for units.
    pub waits: UnitWaits,
    /// Texts that the events refer to.
    pub texts: Vec<String>,
}

/// A message that carries chunks.
#[derive(Clone, Debug)]
pub struct Carried {
    /// Its region.
    pub region: RegionId,
    /// Sender.
    pub from: u64,
    /// Receiver.
    pub to: u64,
    /// Number of the operation.
    pub op: u32,
    /// Number of bytes.
    pub bytes: u64,
    /// Time of sending, in ns.
    pub sent_ns: f64,
    /// Arrival of the last byte, in ns.
    pub arrived_ns: f64,
    /// The pieces that it carries; their depths count this message.
    pub pieces: Vec<Piece>,
}

/// The effect of a message when it arrives.
struct Cargo {
    region: RegionId,
    pieces: Vec<Piece>,
    /// Where it is written; `None` for queues.
    to: Option<(u64, Access)>,
}

/// An operation of a stream that takes effect when the stream continues.
enum Later {
    Copy { dst: Access, src: Access },
    Reduce { dst: Access, src: Access },
    Receive { dst: Access, from: u64, queue: u32 },
}

/// Recorder of a run.
pub struct EventRecorder<'a, 'p> {
    scene: &'a Scene<'a>,
    ranks: &'a Ranks,
    waits: Waits,
    streams: u32,
    /// All events of the ranks that are shown.
    pub events: Events,
    /// Messages with chunks, in order of arrival.
    pub carried: Vec<Carried>,
    /// Contents of the memories.
    pub flow: Flow<'p>,
    /// Largest number of events.
    most: usize,
    full: bool,
    texts: BTreeMap<String, i64>,
    held: BTreeMap<(u64, u32), ()>,
    entered: BTreeMap<(u64, u32), (RegionId, f64)>,
    flights: BTreeMap<MessageId, (Sent, u32, Option<usize>)>,
    cursors: Vec<Cursor<'p>>,
    later: BTreeMap<u32, (RegionId, Later)>,
    issued: BTreeMap<(u32, u32), VecDeque<Cargo>>,
    cargo: BTreeMap<(u32, u64), Cargo>,
}

impl<'a, 'p> EventRecorder<'a, 'p> {
    /// Creates a recorder for a run of one call, with at most `most` events.
    pub fn new(scene: &'a Scene<'a>, ranks: &'a Ranks, flow: Flow<'p>, most: usize) -> EventRecorder<'a, 'p> {
        let streams = scene.streams.len().max(1) as u32;
        let program = flow.program();
        let each = |rank| (0..streams).map(move |s| Cursor::new(program, rank, s, 0));
        EventRecorder {
            scene,
            ranks,
            waits: Waits::new(scene.ranks(), scene.streams.len()),
            streams,
            events: Events::default(),
            carried: vec![],
            flow,
            most,
            full: false,
            texts: BTreeMap::new(),
            held: BTreeMap::new(),
            entered: BTreeMap::new(),
            flights: BTreeMap::new(),
            cursors: (0..scene.ranks()).flat_map(each).collect(),
            later: BTreeMap::new(),
            issued: BTreeMap::new(),
            cargo: BTreeMap::new(),
        }
    }

    /// Checks that the page does not have too many events.
    ///
    /// # Errors
    /// Returns E593 if it has.
    pub fn check(&self) -> Result<(), Diagnostic> {
        if !self.full {
            return Ok(());
        }
        Err(Diagnostic::error(
            "E593",
            format!("the page was not written: it would have more than {} events", self.most),
        )
        .help("restrict the timeline to some ranks: --trace-ranks 0..8"))
    }

    fn text(&mut self, text: String) -> i64 {
        let next = self.texts.len() as i64;
        let n = *self.texts.entry(text.clone()).or_insert(next);
        if n == next {
            self.events.texts.push(text);
        }
        n
    }

    /// Checks whether one more event is allowed. No event is kept after the limit is reached.
    fn room(&mut self) -> bool {
        let e = &self.events;
        let all = [
            e.slices.op.len(),
            e.stays.rank.len(),
            e.messages.op.len(),
            e.passes.link.len(),
            e.waits.rank.len(),
        ];
        self.full |= all.iter().sum::<usize>() >= self.most;
        !self.full
    }

    /// Returns the number of a message in flight, which its first event assigns.
    fn message(&mut self, id: MessageId) -> Option<usize> {
        if let Some((_, _, Some(n))) = self.flights.get(&id) {
            return Some(*n);
        }
        if !self.room() {
            return None;
        }
        let (m, stream, number) = self.flights.get_mut(&id)?;
        let all = &mut self.events.messages;
        *number = Some(all.op.len());
        all.op.push(m.op);
        all.stream.push(*stream);
        all.from.push(m.from);
        all.to.push(m.to);
        all.kind.push(match m.kind {
            MessageKind::Put => 0,
            MessageKind::Notify => 1,
            MessageKind::Request => 2,
            MessageKind::Reply => 3,
        });
        all.bytes.push(m.bytes);
        all.sent.push(ps(m.at_ns));
        all.arrived.push(ps(m.at_ns));
        *number
    }

    /// Applies the last operation of a stream to the contents.
    fn settle(&mut self, thread: u32, rank: u64, at_ns: f64) {
        let Some((region, later)) = self.later.remove(&thread) else { return };
        match later {
            Later::Copy { dst, src } => {
                let pieces = self.flow.read(region, rank, &src);
                self.flow.write(region, at_ns, rank, &dst, &pieces);
            }
            Later::Reduce { dst, src } => self.flow.reduce(region, at_ns, rank, &dst, &src),
            Later::Receive { dst, from, queue } => {
                let pieces = self.flow.receive(from, rank, queue);
                self.flow.write(region, at_ns, rank, &dst, &pieces);
            }
        }
    }

    /// Notes what the next operation of a stream will do to the contents.
    fn comes(&mut self, turn: &StepReached, op: u32, thread: u32) {
        let Some(cursor) = self.cursors.get_mut(thread as usize) else { return };
        let act = loop {
            // A schedule that cannot be walked was rejected before anything is timed.
            match cursor.next_step() {
                Ok(Some(Step::Act(act, _, number))) if number == op => break act,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        };
        let Some(region) = cursor.region() else { return };
        let rank = turn.rank;
        let issue =
            |this: &mut Self, cargo: Cargo| this.issued.entry((thread, op)).or_default().push_back(cargo);
        match act {
            Act::Copy { dst, src } => {
                [&dst, &src].iter().for_each(|a| self.flow.cut(region, a));
                self.later.insert(thread, (region, Later::Copy { dst, src }));
            }
            Act::Reduce { dst, src, .. } => {
                [&dst, &src].iter().for_each(|a| self.flow.cut(region, a));
                self.later.insert(thread, (region, Later::Reduce { dst, src }));
            }
            Act::Put { src, peer, dst } => {
                [&dst, &src].iter().for_each(|a| self.flow.cut(region, a));
                let pieces = self.flow.read(region, rank, &src);
                if peer == rank {
                    self.flow.write(region, turn.at_ns, rank, &dst, &pieces);
                } else {
                    issue(self, Cargo { region, pieces: count_message(pieces), to: Some((peer, dst)) });
                }
            }
            Act::Get { dst, peer, src } | Act::GetCombine { op: _, dst, peer, src } => {
                [&dst, &src].iter().for_each(|a| self.flow.cut(region, a));
                let pieces = self.flow.read(region, peer, &src);
                if let Act::Get { .. } = act {
                    // Nothing may read the destination before the data is there.
                    self.flow.write(region, turn.at_ns, rank, &dst, &[]);
                }
                if peer == rank {
                    self.flow.add(region, turn.at_ns, rank, &dst, &pieces);
                } else {
                    issue(self, Cargo { region, pieces: count_message(pieces), to: Some((rank, dst)) });
                }
            }
            Act::Send { src, peer, queue } => {
                self.flow.cut(region, &src);
                let pieces = count_message(self.flow.read(region, rank, &src));
                self.flow.send(rank, peer, queue, pieces.clone());
                if peer != rank {
                    issue(self, Cargo { region, pieces, to: None });
                }
            }
            Act::Recv { dst, peer, queue } => {
                self.flow.cut(region, &dst);
                self.later.insert(thread, (region, Later::Receive { dst, from: peer, queue }));
            }
            _ => {}
        }
    }
}

impl Observer for EventRecorder<'_, '_> {
    fn detail(&self) -> bool {
        true
    }

    fn works(&mut self, work: &Work) {
        let Some(wait) = self.waits.works(work).filter(|_| self.ranks.has(work.rank)) else { return };
        if !matches!(wait.reason, Reason::Unit { .. }) || !self.room() {
            return;
        }
        let why = self.text(words(self.scene, &wait.reason));
        let all = &mut self.events.waits;
        all.rank.push(work.rank);
        all.stream.push(work.stream);
        all.start.push(ps(wait.start_ns));
        all.end.push(ps(wait.end_ns));
        all.why.push(why);
    }

    fn turn(&mut self, turn: &StepReached) {
        let thread = turn.rank as u32 * self.streams + turn.stream;
        self.settle(thread, turn.rank, turn.at_ns);
        let done = self.waits.turn(turn);
        if let Next::Op(begun) = turn.next {
            self.comes(turn, begun.op, thread);
        }
        if !self.ranks.has(turn.rank) {
            return;
        }
        let key = (turn.rank, turn.stream);
        if let Some(done) = done.filter(|_| self.held.remove(&key).is_some())
            && self.room()
        {
            let why: Vec<String> = done.waits.iter().map(|w| words(self.scene, &w.reason)).collect();
            let why = if why.is_empty() { -1 } else { self.text(why.join("; ")) };
            let all = &mut self.events.slices;
            all.rank.push(turn.rank);
            all.stream.push(turn.stream);
            all.op.push(done.begun.op);
            all.start.push(ps(done.start_ns));
            all.end.push(ps(turn.at_ns));
            all.bytes.push(done.begun.bytes);
            all.why.push(why);
        }
        match turn.next {
            Next::Enter(region) => {
                self.entered.insert(key, (region, turn.at_ns));
            }
            Next::Leave(_) => {
                if let Some((region, start)) = self.entered.remove(&key)
                    && self.room()
                {
                    let all = &mut self.events.stays;
                    all.rank.push(turn.rank);
                    all.stream.push(turn.stream);
                    all.region.push(region.0);
                    all.start.push(ps(start));
                    all.end.push(ps(turn.at_ns));
                }
            }
            Next::Op(_) | Next::End => {}
        }
    }

    fn holds(&mut self, held: &OpHeld) {
        self.held.insert((held.rank, held.stream), ());
    }

    fn sent(&mut self, m: &Sent) {
        self.waits.sent(m);
        let key = (m.id.thread, m.op);
        if m.kind == MessageKind::Put || m.kind == MessageKind::Request {
            let cargo = self.issued.get_mut(&key).and_then(VecDeque::pop_front);
            cargo.map(|c| self.cargo.insert((m.id.thread, m.id.sequence), c));
        }
        self.flights.insert(m.id, (*m, m.id.thread % self.streams, None));
        if self.ranks.has(m.from) || self.ranks.has(m.to) {
            self.message(m.id);
        }
    }

    fn passes(&mut self, p: &Pass) {
        self.waits.passes(p);
        let shown = self.scene.ends(p.link).is_some_and(|(a, b)| self.ranks.has(a) || self.ranks.has(b));
        if !shown || !self.room() {
            return;
        }
        let Some(message) = self.message(p.id) else { return };
        let all = &mut self.events.passes;
        all.message.push(message);
        all.link.push(p.link.0);
        all.asked.push(ps(p.asked_ns));
        all.start.push(ps(p.start_ns));
        all.end.push(ps(p.free_ns));
    }

    fn delivered(&mut self, m: &Delivery) {
        self.waits.delivered(m);
        if let Some((_, _, Some(n))) = self.flights.remove(&m.id) {
            self.events.messages.arrived[n] = ps(m.delivered_ns);
        }
        if m.kind != MessageKind::Put && m.kind != MessageKind::Reply {
            return;
        }
        let Some(cargo) = self.cargo.remove(&(m.id.thread, m.id.sequence)) else { return };
        if let Some((rank, dst)) = &cargo.to {
            match m.kind {
                MessageKind::Reply => {
                    self.flow.add(cargo.region, m.delivered_ns, *rank, dst, &cargo.pieces);
                }
                _ => self.flow.write(cargo.region, m.delivered_ns, *rank, dst, &cargo.pieces),
            }
        }
        if !cargo.pieces.is_empty() && self.flow.given_up.is_none() {
            self.carried.push(Carried {
                region: cargo.region,
                from: m.from,
                to: m.to,
                op: m.op,
                bytes: m.bytes,
                sent_ns: m.sent_ns,
                arrived_ns: m.delivered_ns,
                pieces: cargo.pieces,
            });
        }
    }

    fn woken(&mut self, woken: &Woken) {
        self.waits.woken(woken);
    }
}
