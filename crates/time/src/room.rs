//! Memory of a simulation of every rank: an estimate, made before any of it is taken.

use kbc_checker::Orbits;
use kbc_diag::{Diagnostic, memory};
use kbc_ir::walk::{Act, Cursor, Program, Step};
use kbc_machine::topology::Topology;

/// Number of ranks up to which the estimate is not made.
const SMALL: u64 = 512;

/// Bytes of a message on its way, with all that waits for it; measured.
const MESSAGE: u128 = 3000;

/// Largest number of messages of a rank that are counted.
const COUNTED: u32 = 1 << 20;

/// Checks whether the messages that are on their way at once fit in memory while the time of every
/// rank is simulated. The estimate takes the messages that a rank sends before it waits for others.
/// A rank of a ring sends one, and a rank of an algorithm that sends directly sends all of them. A
/// run that exceeds the limit nevertheless ends with E369.
///
/// Where ranks can stand for each other, they send in step, and few messages are on their way. The
/// search for such ranks takes longer than the estimate, so it comes last.
///
/// # Errors
/// Returns E369 if they do not fit.
pub fn fits(limit: Option<u64>, program: &Program<'_>, topology: &Topology) -> Result<(), Diagnostic> {
    let ranks = program.schedule.mesh.ranks();
    if limit.is_none() || ranks <= SMALL {
        return Ok(());
    }
    let mut counts: Vec<u32> = (0..8).map(|i| messages(program, ranks / 8 * i)).collect();
    // A root may send far more than the others; the median is what most ranks send.
    counts.sort_unstable();
    let need = u128::from(ranks) * u128::from(counts[4]) * MESSAGE;
    let what = format!("the simulation of {} messages at once on each of {ranks} ranks", counts[4]);
    let carries = |stride, size, xor| topology.carries(stride, size, xor);
    match memory::fits(limit, need, &what) {
        Err(_) if Orbits::find(program, 1, carries).is_ok_and(|o| o.size() > 1) => Ok(()),
        other => other,
    }
}

/// Returns the largest number of messages that the streams of a rank send in a call without
/// waiting.
fn messages(program: &Program<'_>, rank: u64) -> u32 {
    let mut out = 0;
    for stream in 0..program.streams.len() as u32 {
        let mut at = Cursor::new(program, rank, stream, 0);
        let (mut steps, mut sent, mut most) = (0, 0u32, 0);
        while let (Ok(Some(step)), true) = (at.next_step(), steps < COUNTED) {
            steps += 1;
            match step {
                Step::Act(Act::Put { .. } | Act::Get { .. } | Act::Send { .. }, ..) => sent += 1,
                Step::Act(Act::Wait { .. } | Act::Recv { .. } | Act::FenceComplete, ..) => sent = 0,
                _ => {}
            }
            most = most.max(sent);
        }
        out += most;
    }
    out
}
