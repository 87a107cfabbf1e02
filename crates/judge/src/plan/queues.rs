//! Messages through queues: how the events of one end precede those of the other. The module owns
//! the numbering of messages.

use super::{Action, Builder, NONE, StreamState, Unplanned};
use kbc_backend_sim::effect::Run;
use kbc_backend_sim::flow::queue_of;
use kbc_backend_sim::interp::queue_type;
use kbc_ir::walk::Act;
use std::collections::BTreeSet;

/// The messages of a queue, in the order of each end.
#[derive(Default)]
pub(super) struct Messages {
    /// The streams that send, and those that receive.
    ends: [BTreeSet<u32>; 2],
    /// For each message, the event that reads it and the event at which it arrives.
    sends: Vec<(u32, u32)>,
    /// For each message, the event that receives it and the event at which its credit arrives.
    recvs: Vec<(u32, u32)>,
    /// Events that wait for room, each with the number of the message.
    rooms: Vec<(u32, usize)>,
}

impl<'p> Builder<'p> {
    /// Adds an operation on a queue. Its predecessors at the other end are added when all streams
    /// are known.
    pub(super) fn queue(
        &mut self,
        at: &mut StreamState,
        id: (u64, u32, i64),
        act: &Act<'p>,
        span: kbc_diag::Span,
    ) -> Result<(), Unplanned> {
        let Some((queue, sends)) = queue_of(id.0, act) else { return Ok(()) };
        let mut after = at.base();
        let e = match act {
            Act::Send { src, queue: q, .. } => {
                let run = Run::of(src);
                queue_type(self.program, *q, run.mem, span)?;
                // A send reports everything that the stream has done.
                after = at.done();
                at.pending.retain(|f| !f.complete);
                at.locals.clear();
                let touch = self.touch(id.0, &run, false)?;
                let flight = self.flights;
                self.flights += 1;
                let e = self.push(at, id, Action::Send { flight }, after, vec![touch]);
                let before = self.queues.get(&queue).and_then(|m| m.sends.last()).map(|s| s.1);
                let arrives = self.push(
                    at,
                    id,
                    Action::Pass,
                    [Some(e), before].into_iter().flatten().collect(),
                    vec![],
                );
                self.queues.entry(queue).or_default().sends.push((e, arrives));
                e
            }
            Act::Recv { dst, queue: q, .. } => {
                let run = Run::of(dst);
                queue_type(self.program, *q, run.mem, span)?;
                after.extend(at.settle(id.0, &[], Some(&run)));
                after.extend(&at.awaited);
                let touch = self.touch(id.0, &run, true)?;
                let e = self.push(at, id, Action::Recv { flight: NONE }, after, vec![touch]);
                let before = self.queues.get(&queue).and_then(|m| m.recvs.last()).map(|s| s.1);
                let credit = self.push(
                    at,
                    id,
                    Action::Pass,
                    [Some(e), before].into_iter().flatten().collect(),
                    vec![],
                );
                self.queues.entry(queue).or_default().recvs.push((e, credit));
                e
            }
            Act::Room { .. } => {
                let e = self.push(at, id, Action::Pass, after, vec![]);
                let m = self.queues.entry(queue).or_default();
                m.rooms.push((e, m.sends.len()));
                e
            }
            Act::Copy { .. }
            | Act::Reduce { .. }
            | Act::Put { .. }
            | Act::Get { .. }
            | Act::GetCombine { .. }
            | Act::Notify { .. }
            | Act::Wait { .. }
            | Act::FenceRelease
            | Act::FenceAcquire
            | Act::FenceComplete
            | Act::Record(_)
            | Act::Await(_)
            | Act::Local(_)
            | Act::Mark(_)
            | Act::HostRead(_)
            | Act::Host(_) => return Ok(()),
        };
        self.queues.entry(queue).or_default().ends[usize::from(!sends)].insert(id.1);
        at.prev = Some(e);
        Ok(())
    }

    /// Adds the predecessors at the other end: message k arrives before it is received, and is sent
    /// after message k - depth has been received.
    pub(super) fn bind_queues(&mut self) -> Result<(), Unplanned> {
        for (queue, m) in std::mem::take(&mut self.queues) {
            if m.ends.iter().any(|e| e.len() > 1) {
                // The order of messages is not known before the run.
                return Err(Unplanned::TooLong);
            }
            let depth = self.program.depth(queue.2) as usize;
            let room = |k: usize, e: u32| -> Option<u32> {
                let before = k.checked_sub(depth)?;
                Some(m.recvs.get(before).map_or(e, |r| r.1))
            };
            for (k, (e, _)) in m.sends.iter().enumerate() {
                self.preds[*e as usize].extend(room(k, *e));
            }
            for (e, k) in &m.rooms {
                self.preds[*e as usize].extend(room(*k, *e));
            }
            for (k, (e, _)) in m.recvs.iter().enumerate() {
                let sent = m.sends.get(k);
                self.preds[*e as usize].push(sent.map_or(*e, |s| s.1));
                if let Some(Action::Send { flight }) = sent.map(|s| &self.events[s.0 as usize].what) {
                    self.events[*e as usize].what = Action::Recv { flight: *flight };
                }
            }
        }
        Ok(())
    }
}
