//! The engine's part of messages that switches combine or copy, and of gets that combine.

use super::Engine;
use super::messages::{OutgoingMessage, reversed};
use crate::MessageKind;
use crate::agenda::NONE;
use crate::network::links;
use crate::state::HeldOp;
use kbc_ir::types::ReduceOp;
use kbc_ir::walk::{Fault, TimedOp};

impl<'p> Engine<'_, 'p, '_> {
    /// Notes which operation a thread performs. Between copies of a message nothing may write
    /// memory of the rank, and between contributions to one nothing may complete them or use them.
    pub(super) fn begins(&mut self, thread: u32, act: &TimedOp<'_>) {
        let Some(network) = &mut self.state.network else { return };
        match act {
            TimedOp::Put { .. }
            | TimedOp::Notify { .. }
            | TimedOp::Wait { .. }
            | TimedOp::FenceRelease
            | TimedOp::FenceAcquire
            | TimedOp::Record(_)
            | TimedOp::Await(_)
            | TimedOp::Mark(()) => {}
            TimedOp::Get { .. } | TimedOp::GetCombine { .. } => network.writes(thread),
            TimedOp::FenceComplete => network.closes(thread),
            TimedOp::Copy { .. }
            | TimedOp::Reduce { .. }
            | TimedOp::Send { .. }
            | TimedOp::Recv { .. }
            | TimedOp::Room { .. }
            | TimedOp::Local(_)
            | TimedOp::HostRead(_) => {
                network.writes(thread);
                network.closes(thread);
            }
            TimedOp::Host(host) => match *host {},
        }
    }

    /// Adds a put that a thread has just issued to the copies of its message.
    pub(super) fn put_in_network(&mut self, thread: u32, op: u32, (message, peer): (u32, u64)) {
        let (setup, s) = (self.setup, &mut self.state);
        let (Some(network), Some([src, _])) = (&mut s.network, s.walks.moved()) else { return };
        let own = setup.rank(thread);
        let way = links(setup.topo, setup.device(own), setup.device(peer), setup.ops[op as usize].way);
        network.put(setup.topo, thread, (src, s.now), message, way);
    }

    /// Checks whether the combining get that a thread has reached contributes to the message of the
    /// gets before it. It need not wait for them then.
    pub(super) fn contributes(&self, thread: u32, combiner: ReduceOp) -> bool {
        let s = &self.state;
        let (Some(network), Some([_, dst])) = (&s.network, s.walks.moved()) else { return false };
        network.contributes(thread, (&dst, s.now), combiner, s.threads[thread as usize].gets)
    }

    /// Issues a get. Returns whether the thread can continue at once.
    pub(super) fn fetch(
        &mut self,
        thread: u32,
        op: u32,
        (peer, bytes): (u64, u64),
        combiner: Option<ReduceOp>,
    ) -> bool {
        let setup = self.setup;
        self.state.threads[thread as usize].gets += 1;
        let (kind, reply) = (MessageKind::Request, bytes);
        let (spots, asks) = (self.spots(thread, true, peer), setup.signal_bytes);
        let letter = OutgoingMessage { kind, peer, bytes: asks, reply, counter: NONE, spots };
        let (message, _) = self.post(thread, op, letter);
        let s = &mut self.state;
        if let (Some(network), Some([_, dst])) = (&mut s.network, s.walks.moved()) {
            let own = setup.rank(thread);
            let back = reversed(setup.ops[op as usize].way);
            let way = links(setup.topo, setup.device(peer), setup.device(own), back);
            network.get(thread, (dst, s.now), (message, combiner), way);
        }
        !self.holds_core(thread, op, peer, bytes)
    }

    /// Combines what the gets of a thread have brought into its destination. Returns whether that
    /// is done; if not, the thread comes back to the operation `act`, which needs it.
    pub(super) fn combined(&mut self, thread: u32, act: &TimedOp<'p>, op: u32) -> Result<bool, Fault> {
        let bytes = std::mem::take(&mut self.state.threads[thread as usize].combines);
        if bytes == 0 {
            return Ok(true);
        }
        let work = TimedOp::Reduce { op: ReduceOp::Sum, dst: bytes, src: bytes };
        let done = self.work(thread, &work, op)?;
        if !done {
            let moved = self.state.walks.moved();
            self.state.held.insert(thread, HeldOp { act: *act, op, since: None, moved });
        }
        Ok(done)
    }
}
