//! Calls to the observer of a simulation. The other modules of the engine report events only
//! through these functions.

use super::Engine;
use crate::clock::Time;
use crate::links::Passage;
use crate::observe::{Begun, MessageId, Next, OpHeld, Pass, Sent, StepReached, Woken};
use crate::state::Message;
use crate::work::{self, Unit};
use crate::{Delivery, MessageKind, Work};
use kbc_ir::op::OpPart;
use kbc_ir::walk::{Brief, TimedOp};
use kbc_machine::topology::LinkId;

impl Engine<'_, '_, '_> {
    /// Returns the identity of a message for observers.
    fn id(&self, m: &Message) -> MessageId {
        MessageId { thread: m.thread, sequence: self.sequence(m), reply: m.kind == MessageKind::Reply }
    }

    /// Returns the sender and the receiver of a message. In an observed run every rank is
    /// simulated, so places are ranks.
    fn ends(&self, m: &Message) -> (u64, u64) {
        match m.kind {
            MessageKind::Reply => (m.counter.into(), m.to.into()),
            _ => (self.setup.rank(m.thread), m.to.into()),
        }
    }

    /// Reports that a stream has reached a step or the end of its call.
    pub(super) fn report_step(&mut self, thread: u32, (brief, op): &(Brief<'_>, u32)) {
        let next = match brief {
            Brief::Enter(r) => Next::Enter(*r),
            Brief::Leave(r) => Next::Leave(*r),
            Brief::Over => Next::End,
            Brief::Op(act) => Next::Op(self.begun(thread, act, *op)),
        };
        let Some(o) = &mut self.observer else { return };
        o.turn(&StepReached {
            rank: self.setup.rank(thread),
            stream: thread % self.setup.streams as u32,
            call: self.state.threads[thread as usize].call.into(),
            at_ns: self.state.now.ns(),
            next,
        });
    }

    fn begun(&self, thread: u32, act: &TimedOp<'_>, op: u32) -> Begun {
        let program = self.setup.program;
        // The bytes are those of the first side in the text; operations on queues report none.
        let (mut peer, mut bytes, mut queued) = (None, None, false);
        act.parts(&mut |part| match part {
            OpPart::Peer(p) => peer = Some(*p),
            OpPart::Near(_, n) => bytes = bytes.or(Some(*n)),
            OpPart::Queue(_) => queued = true,
            // If the size cannot be evaluated, the operation itself returns that error next.
            OpPart::Local(l) => bytes = work::made(program, l, self.setup.rank(thread)).ok(),
            OpPart::Combiner(_)
            | OpPart::Far(..)
            | OpPart::Counter(_)
            | OpPart::Value(_)
            | OpPart::Event(_)
            | OpPart::Mark(())
            | OpPart::Buffer(..) => {}
            OpPart::Host(host) => match *host {},
        });
        let (peer, bytes) = if queued { (None, 0) } else { (peer, bytes.unwrap_or(0)) };
        let info = &self.setup.ops[op as usize];
        Begun { op, name: info.name, region: info.region, span: info.span, peer, bytes }
    }

    /// Reports that the operation which a stream has reached takes time.
    pub(super) fn report_held(&mut self, thread: u32) {
        let Some(o) = &mut self.observer else { return };
        o.holds(&OpHeld {
            rank: self.setup.rank(thread),
            stream: thread % self.setup.streams as u32,
            at_ns: self.state.now.ns(),
        });
    }

    /// Reports that a blocked stream continues. Its cause has just been reported.
    pub(super) fn report_woken(&mut self, thread: u32) {
        let Some(o) = &mut self.observer else { return };
        o.woken(&Woken {
            rank: self.setup.rank(thread),
            stream: thread % self.setup.streams as u32,
            at_ns: self.state.now.ns(),
        });
    }

    /// Reports that a message is sent.
    pub(super) fn report_sent(&mut self, m: &Message) {
        let (id, (from, to)) = (self.id(m), self.ends(m));
        let Some(o) = &mut self.observer else { return };
        let at_ns = self.state.now.ns();
        o.sent(&Sent { id, kind: m.kind, op: m.op, from, to, bytes: m.bytes, at_ns });
    }

    /// Reports that a message gets a link.
    pub(super) fn report_pass(&mut self, place: u32, link: LinkId, passage: &Passage) {
        let m = self.state.messages[place as usize];
        let (id, (from, to)) = (self.id(&m), self.ends(&m));
        let Some(o) = &mut self.observer else { return };
        o.passes(&Pass {
            id,
            kind: m.kind,
            op: m.op,
            from,
            to,
            bytes: m.bytes,
            link,
            asked_ns: self.state.now.ns(),
            start_ns: passage.start.ns(),
            free_ns: passage.free.ns(),
        });
    }

    /// Reports that a message has arrived.
    pub(super) fn report_delivered(&mut self, m: &Message, place: u32) {
        let (id, (from, to), sent) = (self.id(m), self.ends(m), self.extra(place).sent);
        let Some(o) = &mut self.observer else { return };
        let info = &self.setup.ops[m.op as usize];
        o.delivered(&Delivery {
            id,
            kind: m.kind,
            op: m.op,
            region: info.region,
            span: info.span,
            from,
            to,
            bytes: m.bytes,
            sent_ns: sent.ns(),
            delivered_ns: self.state.now.ns(),
        });
    }

    /// Reports that a local operation has its units. `behind` is the unit that it had to wait for.
    pub(super) fn report_work(
        &mut self,
        thread: u32,
        (start, end, unit): (Time, Time, Unit),
        behind: Option<Unit>,
    ) {
        let Some(o) = &mut self.observer else { return };
        let (op, times, _) = self.state.asked[thread as usize];
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
