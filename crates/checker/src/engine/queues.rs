//! Queues of a run: their messages, the streams that wait for them, and the messages left at the
//! end.
//!
//! A queue has one sending and one receiving stream, and receiving a message frees its slot.
//! Whether a stream gets stuck therefore does not depend on the order in which streams run, and one
//! run at the real depth decides. A message transfers to its receiver what its sender knew and had
//! done. A credit transfers nothing, because the number of slots is no guarantee of order. The
//! module owns the queues; [`crate::meaning`] owns the contents of messages.

use super::{Engine, State, Stopped};
use crate::contents::Contents;
use crate::meaning::{AccessSite, QueuedPiece};
use crate::order::{Accessor, Completion, NotifySnapshot};
use crate::queues::QueueKey;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::walk::Access;
use std::collections::{BTreeMap, VecDeque};

struct Message<C> {
    snap: NotifySnapshot,
    parcel: QueuedPiece<C>,
    elements: u64,
    op: u32,
}

/// The number of messages that one call sends and receives, and the last operation that does so.
#[derive(Clone, Copy, Default)]
struct CallTraffic {
    sent: u64,
    received: u64,
    send: u32,
    recv: u32,
}

/// An end of a queue: the stream that uses it and its first operation there.
type EndUser = Option<(u32, u32)>;

struct Fifo<C> {
    messages: VecDeque<Message<C>>,
    moved: BTreeMap<u64, CallTraffic>,
    ends: [EndUser; 2],
    /// The streams that wait for a free slot, and those that wait for a message.
    waiting: [Vec<usize>; 2],
}

impl<C> Default for Fifo<C> {
    fn default() -> Self {
        Fifo { messages: VecDeque::new(), moved: BTreeMap::new(), ends: [None; 2], waiting: [vec![], vec![]] }
    }
}

/// All queues that an operation has used.
pub(super) struct Queues<C>(BTreeMap<QueueKey, Fifo<C>>);

impl<C> Default for Queues<C> {
    fn default() -> Self {
        Queues(BTreeMap::new())
    }
}

/// The two ends of a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QueueEnd {
    Sender,
    Receiver,
}

impl<'p, C: Contents> Engine<'p, C> {
    /// Returns the name of a queue for messages.
    fn show(&self, (from, to, queue): QueueKey) -> String {
        let name = self.setup.program.show_queue(queue);
        format!("{name} from rank {} to rank {}", self.setup.rank(from), self.setup.rank(to))
    }

    /// Records the stream at an end of a queue. Two streams there would take each other's messages.
    fn end(&mut self, si: usize, which: QueueKey, side: QueueEnd, op: u32) {
        let own = self.own(si);
        let fifo = self.queues.0.entry(which).or_default();
        let (stream, first) = *fifo.ends[side as usize].get_or_insert((own, op));
        if stream == own {
            return;
        }
        let setup = self.setup;
        let (now, before) = (setup.span(op), setup.span(first));
        let (name, width) = (self.show(which), setup.width);
        let stream_of = |s: u32| setup.program.streams[s as usize % width].clone();
        self.report.push("E351", now, before, || {
            let (end, verb) = match side {
                QueueEnd::Sender => ("sending", "sends"),
                QueueEnd::Receiver => ("receiving", "receives"),
            };
            Diagnostic::error("E351", format!("{name} has two {end} streams"))
                .primary(now, format!("stream {} {verb} here", stream_of(own)))
                .secondary(before, format!("stream {} {verb} here", stream_of(stream)))
                .help("use a separate queue per stream: messages are identified only by their order")
        });
    }

    fn full(&mut self, si: usize, which: QueueKey) -> bool {
        let depth = self.setup.program.depth(which.2);
        let fifo = self.queues.0.entry(which).or_default();
        let full = fifo.messages.len() as u64 >= depth;
        if full {
            fifo.waiting[QueueEnd::Sender as usize].push(si);
            self.streams[si].state = State::Full(which);
        }
        full
    }

    fn wake(&mut self, which: QueueKey, side: QueueEnd) {
        if let Some(fifo) = self.queues.0.get_mut(&which) {
            self.ready.extend(fifo.waiting[side as usize].drain(..));
        }
    }

    /// Executes `room`. Returns false if it has to wait.
    pub(super) fn room(&mut self, si: usize, which: QueueKey, op: u32) -> bool {
        self.end(si, which, QueueEnd::Sender, op);
        if self.full(si, which) {
            return false;
        }
        self.order.tick(si);
        true
    }

    /// Executes `send`. Returns false if it has to wait.
    pub(super) fn send(&mut self, si: usize, which: QueueKey, src: &Access, span: Span, op: u32) -> bool {
        self.end(si, which, QueueEnd::Sender, op);
        if self.full(si, which) {
            return false;
        }
        let (me, at) = self.here(si);
        let snap = self.order.send(si, me.stream);
        self.access(me, at.rep, src, Completion::Local, false, op, span);
        let runs = self.runs(at.rep, at.region, src, 0);
        let has_contract = self.setup.regions[at.region as usize].has_contract;
        if has_contract
            && self.expect((at.region, at.call), at.rep, src.mem, &runs, span)
            && let Err(t) = self.meaning.load(at, src)
        {
            self.report.trouble(t, self.setup.group.reps[at.rep], at.call, span);
        }
        let parcel = self.meaning.parcel();
        let message = Message { snap, parcel, elements: src.len, op };
        let fifo = self.queues.0.entry(which).or_default();
        fifo.messages.push_back(message);
        let moved = fifo.moved.entry(at.call).or_default();
        (moved.sent, moved.send) = (moved.sent + 1, op);
        self.wake(which, QueueEnd::Receiver);
        true
    }

    /// Executes `recv`. Returns false if it has to wait.
    pub(super) fn recv(
        &mut self,
        si: usize,
        which: QueueKey,
        dst: &Access,
        span: Span,
        op: u32,
    ) -> Result<bool, Stopped> {
        self.end(si, which, QueueEnd::Receiver, op);
        let fifo = self.queues.0.entry(which).or_default();
        let Some(m) = fifo.messages.pop_front() else {
            fifo.waiting[QueueEnd::Receiver as usize].push(si);
            self.streams[si].state = State::Empty(which);
            return Ok(false);
        };
        let moved = fifo.moved.entry(self.streams[si].call).or_default();
        (moved.received, moved.recv) = (moved.received + 1, op);
        self.wake(which, QueueEnd::Sender);
        let (me, at) = self.here(si);
        self.order.recv(si, &m.snap);
        self.order.recycle(m.snap);
        self.access(me, at.rep, dst, Completion::Local, true, op, span);
        if m.elements != dst.len {
            let sent = self.setup.span(m.op);
            self.report.push("E356", span, sent, || {
                let text = format!("a message of {} elements is received as {}", m.elements, dst.len);
                Diagnostic::error("E356", text)
                    .primary(span, "received here")
                    .secondary(sent, "sent here")
                    .help("both ends of a queue must use the same sizes in the same order")
            });
            self.meaning.wipe(at, dst);
            let runs = self.runs(at.rep, at.region, dst, 0);
            self.fill((at.region, at.call), at.rep, dst.mem, &runs, span);
            return Ok(true);
        }
        if self.setup.regions[at.region as usize].has_contract {
            self.meaning.unpack(m.parcel);
            if let Err(t) = self.meaning.store(at, dst, 0, None)? {
                self.report.trouble(t, self.setup.group.reps[at.rep], at.call, span);
            }
        }
        let runs = self.runs(at.rep, at.region, dst, 0);
        self.fill((at.region, at.call), at.rep, dst.mem, &runs, span);
        Ok(true)
    }

    fn here(&self, si: usize) -> (Accessor, AccessSite) {
        let s = &self.streams[si];
        let region = s.cursor.as_ref().and_then(kbc_ir::walk::Cursor::region).map_or(0, |r| r.0);
        let who = Accessor { si, back: 0, stream: self.own(si) };
        (who, AccessSite { rep: s.rep, region, call: s.call })
    }

    /// Rejects a queue that a call does not leave empty, once every stream has ended.
    ///
    /// Any call may be the last one. Each call must therefore receive what it sends and send what
    /// it receives. If the text repeats, every later call then also keeps pace.
    pub(super) fn reject_leftovers(&mut self) {
        let setup = self.setup;
        let uneven: Vec<(QueueKey, u64, CallTraffic, u64)> = self
            .queues
            .0
            .iter()
            .filter_map(|(w, f)| uneven(&f.moved).map(|(c, m, n)| (*w, c, m, n)))
            .collect();
        for (which, call, moved, n) in uneven {
            let name = self.show(which);
            if moved.sent > moved.received {
                let span = setup.span(moved.send);
                self.report.push("E357", span, Span::NONE, || {
                    let messages = if n == 1 { "a message is".into() } else { format!("{n} messages are") };
                    Diagnostic::error("E357", format!("call {call} ends, and {messages} left in {name}"))
                        .primary(span, "sent here, and not received in this call")
                        .note("the next user of the queue would receive it instead of its own message")
                        .help("receive every message in the call that sends it")
                });
            } else {
                let span = setup.span(moved.recv);
                self.report.push("E340", span, Span::NONE, || {
                    let messages = if n == 1 { "a message".into() } else { format!("{n} messages") };
                    let text = format!("call {call} receives {messages} from {name} that only a later call sends");
                    Diagnostic::error("E340", text)
                        .primary(span, "received here, and not sent in this call")
                        .help("send every message in the call that receives it, because there may be no later call")
                });
            }
        }
    }
}

/// Returns the first call that does not receive as many messages as it sends, and the difference.
fn uneven(moved: &BTreeMap<u64, CallTraffic>) -> Option<(u64, CallTraffic, u64)> {
    let first = moved.iter().find(|(_, m)| m.sent != m.received)?;
    Some((*first.0, *first.1, first.1.sent.abs_diff(first.1.received)))
}
