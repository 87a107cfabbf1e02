//! Where the engine tells its observer what happens. The engine's own modules only call these.

use super::clock::Time;
use super::engine::Engine;
use super::links::Passage;
use super::observe::{Begun, Held, MessageId, Next, Pass, Sent, Turn, Woken};
use super::state::Message;
use super::work::{self, Unit};
use super::{Delivery, MessageKind, Work};
use kbc_ir::topology::LinkId;
use kbc_ir::walk::{Act, Step};

/// The message's name for observers.
fn id(m: &Message<'_>) -> MessageId {
    MessageId { thread: m.thread, sequence: m.sequence, reply: m.kind == MessageKind::Reply }
}

impl Engine<'_, '_, '_> {
    /// A stream comes to a step, or to the end of its call.
    pub(super) fn tell_turn(&mut self, thread: u32, step: Option<&Step<'_>>) {
        let next = match step {
            Some(Step::Enter(r)) => Next::Enter(*r),
            Some(Step::Leave(r)) => Next::Leave(*r),
            Some(Step::Act(act, _, op)) => Next::Op(self.begun(thread, act, *op)),
            None => Next::End,
        };
        let Some(o) = &mut self.observer else { return };
        o.turn(&Turn {
            rank: self.setup.rank(thread),
            stream: thread % self.setup.streams as u32,
            call: self.state.threads[thread as usize].call as u64,
            at_ns: self.state.now.ns(),
            next,
        });
    }

    fn begun(&self, thread: u32, act: &Act<'_>, op: u32) -> Begun {
        let program = self.setup.program;
        let (peer, bytes) = match act {
            Act::Put { src, peer, .. } => (Some(*peer), work::moved(program, src)),
            Act::Get { dst, peer, .. } => (Some(*peer), work::moved(program, dst)),
            Act::Notify { peer, .. } => (Some(*peer), 0),
            Act::Copy { dst, .. } | Act::Reduce { dst, .. } => (None, work::moved(program, dst)),
            // A size that cannot be told is the error of the operation itself, which comes next.
            Act::Local(l) => (None, work::made(program, l, self.setup.rank(thread)).unwrap_or(0)),
            _ => (None, 0),
        };
        let info = &self.setup.ops[op as usize];
        Begun { op, name: info.name, region: info.region, span: info.span, peer, bytes }
    }

    /// The operation that a stream has come to takes time.
    pub(super) fn tell_held(&mut self, thread: u32) {
        let Some(o) = &mut self.observer else { return };
        o.holds(&Held {
            rank: self.setup.rank(thread),
            stream: thread % self.setup.streams as u32,
            at_ns: self.state.now.ns(),
        });
    }

    /// A blocked stream goes on; what woke it has just been told.
    pub(super) fn tell_woken(&mut self, thread: u32) {
        let Some(o) = &mut self.observer else { return };
        o.woken(&Woken {
            rank: self.setup.rank(thread),
            stream: thread % self.setup.streams as u32,
            at_ns: self.state.now.ns(),
        });
    }

    /// A message leaves.
    pub(super) fn tell_sent(&mut self, m: &Message<'_>) {
        let Some(o) = &mut self.observer else { return };
        let at_ns = self.state.now.ns();
        o.sent(&Sent { id: id(m), kind: m.kind, op: m.op, from: m.from, to: m.to, bytes: m.bytes, at_ns });
    }

    /// A message gets a link.
    pub(super) fn tell_pass(&mut self, place: u32, link: LinkId, passage: &Passage) {
        let Some(o) = &mut self.observer else { return };
        let m = &self.state.messages[place as usize];
        o.passes(&Pass {
            id: id(m),
            kind: m.kind,
            op: m.op,
            from: m.from,
            to: m.to,
            bytes: m.bytes,
            link,
            asked_ns: self.state.now.ns(),
            start_ns: passage.start.ns(),
            free_ns: passage.free.ns(),
        });
    }

    /// A message has arrived.
    pub(super) fn tell_delivered(&mut self, m: &Message<'_>) {
        let Some(o) = &mut self.observer else { return };
        let info = &self.setup.ops[m.op as usize];
        o.delivered(&Delivery {
            id: id(m),
            kind: m.kind,
            op: m.op,
            region: info.region,
            span: info.span,
            from: m.from,
            to: m.to,
            bytes: m.bytes,
            sent_ns: m.sent.ns(),
            delivered_ns: self.state.now.ns(),
        });
    }

    /// A local operation has its units. `behind` is the one that it had to wait for.
    pub(super) fn tell_work(
        &mut self,
        thread: u32,
        (start, end, unit): (Time, Time, Unit),
        behind: Option<Unit>,
    ) {
        let Some(o) = &mut self.observer else { return };
        let (op, times) = self.state.threads[thread as usize].asked;
        let info = &self.setup.ops[op as usize];
        o.works(&Work {
            op,
            region: info.region,
            span: info.span,
            rank: self.setup.rank(thread),
            stream: thread % self.setup.streams as u32,
            unit,
            uses: times.map(|t| t > Time::ZERO),
            behind,
            asked_ns: self.state.now.ns(),
            start_ns: start.ns(),
            end_ns: end.ns(),
        });
    }
}
