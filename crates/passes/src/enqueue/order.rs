//! Order of messages: checks that messages are received in the order in which they were sent, by
//! walking one call.
//!
//! A message is identified by the slot that it would have had in its window. The walk runs over
//! [`super::receive::shadow`], a schedule that reads every piece once, at the place where it will
//! be received.

use super::WindowQueue;
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::Schedule;
use kbc_ir::walk::{Act, Cursor, Mem, Program, Step};
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of operations that are walked.
const MAX_WALKED: u64 = 1 << 22;

/// A slot: (window, slot).
type Slot = (u32, u64);
/// A channel: (sender, receiver, queue).
type Channel = (u64, u64, WindowQueue);

/// Returns the queues whose messages are received in another order than they are sent. Returns none
/// if there are too many operations or if the walk has a fault; the checker reports either.
pub(super) fn misordered_queues(shadow: &Schedule, plan: &[Option<WindowQueue>]) -> BTreeSet<WindowQueue> {
    compared(shadow, plan).unwrap_or_default()
}

fn compared(shadow: &Schedule, plan: &[Option<WindowQueue>]) -> Option<BTreeSet<WindowQueue>> {
    let spelled = with_host_region(shadow);
    let program = Program::compile(&spelled).ok()?;
    let mut sent: BTreeMap<Channel, Vec<Slot>> = BTreeMap::new();
    let mut writers: BTreeMap<(u64, Slot), u64> = BTreeMap::new();
    let mut read: BTreeMap<(u64, WindowQueue), Vec<Slot>> = BTreeMap::new();
    let mut left = MAX_WALKED;
    let lane = |w: u32| plan.get(w as usize).copied().flatten();
    for rank in 0..program.ranks() {
        for stream in 0..program.streams.len() as u32 {
            let mut cursor = Cursor::new(&program, rank, stream, 0);
            while let Some(step) = cursor.next_step().ok()? {
                let Step::Act(act, ..) = step else { continue };
                left = left.checked_sub(1)?;
                match act {
                    Act::Put { peer, dst, .. } => {
                        let Mem::Slot(w, slot) = dst.mem else { continue };
                        let Some(lane) = lane(w) else { continue };
                        writers.insert((peer, (w, slot)), rank);
                        sent.entry((rank, peer, lane)).or_default().push((w, slot));
                    }
                    Act::Copy { src, .. } | Act::Reduce { src, .. } => {
                        let Mem::Slot(w, slot) = src.mem else { continue };
                        let Some(lane) = lane(w) else { continue };
                        read.entry((rank, lane)).or_default().push((w, slot));
                    }
                    _ => {}
                }
            }
        }
    }
    let mut received: BTreeMap<Channel, Vec<Slot>> = BTreeMap::new();
    let mut out = BTreeSet::new();
    for ((rank, lane), slots) in read {
        for slot in slots {
            match writers.get(&(rank, slot)) {
                Some(from) => received.entry((*from, rank, lane)).or_default().push(slot),
                None => _ = out.insert(lane),
            }
        }
    }
    out.extend(sent.iter().filter(|(w, list)| received.get(w) != Some(list)).map(|(w, _)| w.2));
    out.extend(received.keys().filter(|w| !sent.contains_key(w)).map(|w| w.2));
    Some(out)
}
