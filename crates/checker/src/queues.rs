//! Queues of a schedule: their keys, and whether there are any.

use kbc_ir::schedule::{SOp, Schedule, each_op};

/// A queue: sender, receiver, number of the queue.
pub(super) type QueueKey = (u64, u64, u32);

/// Whether a schedule has operations on queues.
pub(super) fn used(s: &Schedule) -> bool {
    let mut found = false;
    for st in s.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams) {
        each_op(&st.body, &mut |op, _| {
            found |= matches!(
                op,
                SOp::Send { src: _, peer: _, queue: _ }
                    | SOp::Recv { dst: _, peer: _, queue: _ }
                    | SOp::Room { peer: _, queue: _ }
            );
        });
    }
    found
}
