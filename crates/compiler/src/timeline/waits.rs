//! Operations and their waits, assembled from the events of the engine: start, end and the reasons
//! for waiting.
//!
//! Memory grows with the number of streams, links and messages in flight. Traces and logs
//! use the operations.

use kbc_machine::topology::LinkId;
use kbc_time::*;
use std::collections::BTreeMap;

/// The reason of a wait.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Reason {
    /// A message that arrived: a put with its notify, a notify, or the data of a get.
    Message {
        /// Kind of the message.
        kind: MessageKind,
        /// The operation that sent it.
        op: u32,
        /// The rank that sent it.
        from: u64,
    },
    /// A `record` of another stream of the rank.
    Event {
        /// The stream.
        stream: u32,
        /// The operation.
        op: u32,
    },
    /// A unit of the device.
    Unit {
        /// The unit.
        unit: Unit,
        /// Stream and operation that used the unit before.
        holder: Option<(u32, u32)>,
    },
    /// A link.
    Link {
        /// The link.
        link: LinkId,
        /// Operation and rank of the message that was on the link before.
        holder: Option<(u32, u64)>,
    },
}

/// A wait.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wait {
    /// The reason.
    pub reason: Reason,
    /// Start in ns.
    pub start_ns: f64,
    /// End in ns.
    pub end_ns: f64,
}

/// An operation that its stream has finished.
#[derive(Clone, PartialEq, Debug)]
pub struct FinishedOp {
    /// The rank.
    pub rank: u64,
    /// Number of the stream.
    pub stream: u32,
    /// The call.
    pub call: u64,
    /// The operation.
    pub begun: Begun,
    /// Start in ns.
    pub start_ns: f64,
    /// When the stream could continue, in ns.
    pub end_ns: f64,
    /// Its waits, in order.
    pub waits: Vec<Wait>,
    /// The message it sent, if it sent one of its own.
    pub message: Option<MessageId>,
}

/// The last event that can wake a stream.
#[derive(Clone, Copy)]
enum Last {
    Nothing,
    Message(MessageKind, u32, u64),
    Op { rank: u64, stream: u32, op: u32, notify: bool },
}

/// Assembles operations from the events of the engine.
pub struct Waits {
    streams: usize,
    open: Vec<Option<FinishedOp>>,
    last: Last,
    units: Vec<[Option<(u32, u32)>; 3]>,
    links: BTreeMap<LinkId, (u32, u64)>,
}

impl Waits {
    /// Creates the state for `ranks` ranks with `streams` streams each.
    pub fn new(ranks: u64, streams: usize) -> Waits {
        Waits {
            streams: streams.max(1),
            open: vec![None; ranks as usize * streams.max(1)],
            last: Last::Nothing,
            units: vec![[None; 3]; ranks as usize],
            links: BTreeMap::new(),
        }
    }

    fn open(&mut self, rank: u64, stream: u32) -> Option<&mut FinishedOp> {
        self.open.get_mut(rank as usize * self.streams + stream as usize)?.as_mut()
    }

    /// Returns the operation that a stream is at.
    pub fn at(&self, rank: u64, stream: u32) -> Option<&FinishedOp> {
        self.open.get(rank as usize * self.streams + stream as usize)?.as_ref()
    }

    /// Records that a stream continues, and returns the operation it has finished.
    pub fn turn(&mut self, turn: &StepReached) -> Option<FinishedOp> {
        let place = self.open.get_mut(turn.rank as usize * self.streams + turn.stream as usize)?;
        let done = place.take().map(|d| FinishedOp { end_ns: turn.at_ns, ..d });
        if let Next::Op(begun) = turn.next {
            *place = Some(FinishedOp {
                rank: turn.rank,
                stream: turn.stream,
                call: turn.call,
                begun,
                start_ns: turn.at_ns,
                end_ns: turn.at_ns,
                waits: vec![],
                message: None,
            });
            let notify = begun.peer.is_some();
            self.last = Last::Op { rank: turn.rank, stream: turn.stream, op: begun.op, notify };
        }
        done
    }

    /// Records that a message is sent.
    pub fn sent(&mut self, m: &Sent) {
        if m.kind == MessageKind::Reply {
            return;
        }
        let stream = m.id.thread % self.streams as u32;
        if let Some(op) = self.open(m.from, stream) {
            op.message = Some(m.id);
        }
    }

    /// Records that a message occupies a link, and returns the wait before it if there was one.
    pub fn passes(&mut self, p: &Pass) -> Option<Wait> {
        let holder = self.links.insert(p.link, (p.op, p.from));
        let reason = Reason::Link { link: p.link, holder };
        (p.start_ns > p.asked_ns).then_some(Wait { reason, start_ns: p.asked_ns, end_ns: p.start_ns })
    }

    /// Records that a message has arrived.
    pub fn delivered(&mut self, m: &Delivery) {
        self.last = Last::Message(m.kind, m.op, m.from);
    }

    /// Records that a stream was woken.
    pub fn woken(&mut self, w: &Woken) {
        let reason = match self.last {
            Last::Message(kind, op, from) => Reason::Message { kind, op, from },
            Last::Op { rank, op, notify: true, .. } => {
                Reason::Message { kind: MessageKind::Notify, op, from: rank }
            }
            Last::Op { stream, op, .. } => Reason::Event { stream, op },
            Last::Nothing => return,
        };
        if let Some(op) = self.open(w.rank, w.stream) {
            let start_ns = op.start_ns;
            // A message that arrives at the same moment causes no wait.
            if w.at_ns > start_ns {
                op.waits.push(Wait { reason, start_ns, end_ns: w.at_ns });
            }
        }
    }

    /// Records that an operation has its units, and returns the wait before it if there was one.
    pub fn works(&mut self, w: &Work) -> Option<Wait> {
        let holders = self.units.get_mut(w.rank as usize)?;
        let wait = w.behind.map(|unit| {
            let place = Unit::ALL.iter().position(|u| *u == unit).unwrap_or(0);
            let reason = Reason::Unit { unit, holder: holders[place] };
            Wait { reason, start_ns: w.asked_ns, end_ns: w.start_ns }
        });
        for (holder, used) in holders.iter_mut().zip(w.uses) {
            if used {
                *holder = Some((w.stream, w.op));
            }
        }
        if let (Some(wait), Some(op)) = (wait, self.open(w.rank, w.stream)) {
            op.waits.push(wait);
        }
        wait
    }
}
