//! Events that order others: notifies, waits, fences, events of a rank, and reads of the host.

use super::{Action, Builder, StreamState, Touch, Unplanned, Waits};
use kbc_backend_sim::effect::Run;
use kbc_diag::Diagnostic;
use kbc_ir::form::Form;
use kbc_ir::walk::{Act, Mem};

impl<'p> Builder<'p> {
    /// Adds an operation that moves no data between memories.
    pub(super) fn control(
        &mut self,
        at: &mut StreamState,
        id: (u64, u32, i64),
        act: &Act<'p>,
    ) -> Result<(), Unplanned> {
        let mut after = at.base();
        let base = id.0 as u32 * self.program.counters();
        let what = match act {
            Act::Notify { peer, counter } => {
                let counter = *peer as u32 * self.program.counters() + counter;
                after.extend(at.channels.get(&counter));
                let e = self.push(at, id, Action::Note { counter, release: at.releases }, after, vec![]);
                at.channels.insert(counter, e);
                return Ok(());
            }
            Act::Wait { counter, value } => {
                let form = self.program.form(*counter);
                if !form.fresh() {
                    let (signal, _) = self.program.counter_name(*counter);
                    let name = &self.program.schedule.signal(signal).name;
                    let text = format!("the value of @{name} is unknown when a rank waits for it");
                    return Err(Diagnostic::error("E362", text).into());
                }
                if form != Form::Epoch {
                    let counter = base + counter;
                    let waits =
                        self.waits.entry(counter).or_insert_with(|| Waits { by: id.1, ..Waits::default() });
                    waits.shared |= waits.by != id.1;
                    let last = waits.upto.last().copied().unwrap_or(0);
                    waits.upto.push(form.target(last, *value));
                }
                Action::Wait { counter: base + counter, value: *value }
            }
            Act::FenceAcquire => Action::Acquire,
            Act::FenceRelease => {
                after.extend(at.last_exec);
                after.extend(&at.awaited);
                after.extend(at.pending.iter().filter(|f| f.complete || !f.get).map(|f| f.land));
                at.pending.retain(|f| f.get && !f.complete);
                at.locals.clear();
                at.awaited.clear();
                Action::Release
            }
            Act::Record(event) => {
                // An awaiting stream may notify before that, because an event is no fence.
                let settled = self.push(at, id, Action::Pass, at.done(), vec![]);
                let key = (id.0 as u32, *event, id.2);
                self.records.entry(key).or_insert((self.events.len() as u32, settled));
                Action::Record
            }
            Act::Await(event) => {
                let e = self.push(at, id, Action::Await(*event), after, vec![]);
                at.prev = Some(e);
                let settled = self.push(at, id, Action::Pass, vec![e], vec![]);
                self.awaited.push((settled, (id.0 as u32, *event, id.2)));
                at.awaited.push(settled);
                return Ok(());
            }
            Act::HostRead(b) => {
                at.host_reads += 1;
                let (rank, nth) = (id.0, at.host_reads - 1);
                let n = self.program.elements(*b, rank).unwrap_or(0);
                let run = Run { mem: Mem::Buffer(b.0), start: 0, len: n };
                let touches: Vec<Touch> = self.touch(rank, &run, false).into_iter().collect();
                after.extend(&at.awaited);
                let e = self.push(at, id, Action::HostRead { nth }, after, touches);
                at.prev = Some(e);
                return Ok(());
            }
            // The caller adds all others.
            Act::Copy { .. }
            | Act::Reduce { .. }
            | Act::Put { .. }
            | Act::Get { .. }
            | Act::GetCombine { .. }
            | Act::Send { .. }
            | Act::Recv { .. }
            | Act::Room { .. }
            | Act::FenceComplete
            | Act::Local(_)
            | Act::Mark(_)
            | Act::Host(_) => return Ok(()),
        };
        let (release, acquire) = (matches!(what, Action::Release), matches!(what, Action::Acquire));
        let e = self.push(at, id, what, after, vec![]);
        at.prev = Some(e);
        at.releases += u32::from(release);
        if acquire {
            at.knows = Some(e);
        }
        Ok(())
    }
}
