//! Pass `fences`: replaces release, acquire and complete by the sequences of the target profile.
//!
//! A release in a loop that does nothing else than notify is moved in front of it. A wait without
//! an acquire of its own gets a barrier of all pipes, placed before the first operation that must
//! start after the wait. A barrier or `dsb` that establishes no further order is removed, for
//! instance that of the second of two releases with nothing between them. The pass takes the
//! existing order from [`kbc_tiles::tile::order`] and decides nothing else.

use crate::profile::{FenceStep, Profile};
use kbc_diag::Diagnostics;
use kbc_tiles::tile::order::{Fault, Finding, Trials, analyse};
use kbc_tiles::tile::{Barrier, Kernel, Op, Stmt, path, tasks};

/// Replaces the fences of a kernel.
pub fn run(kernel: &mut Kernel, profile: &Profile) -> Result<(), Diagnostics> {
    tasks::each(kernel, |k| one(k, profile))
}

fn one(kernel: &mut Kernel, profile: &Profile) -> Result<(), Diagnostics> {
    before_loops(&mut kernel.body);
    expand(&mut kernel.body, profile);
    let barrier = || Stmt::Op(Op::Barrier(Barrier::All));
    while let Some((at, waits)) = analyse(kernel).into_iter().find_map(|f| match f.fault {
        Fault::Unacquired { waits } => Some((f.at, waits)),
        _ => None,
    }) {
        // In front of the smallest loop that contains both a wait and the operation that it holds
        // back.
        let places = waits.iter().map(|w| path::outside(kernel, w, &at));
        let place = places.max_by_key(Vec::len).unwrap_or(at);
        path::insert(kernel, &place, [barrier()]);
    }
    let mut trials = Trials::new(kernel);
    let mut unneeded = vec![];
    for (at, op) in path::ops(kernel) {
        if matches!(op, Op::Barrier(Barrier::All) | Op::MemoryBarrier) && trials.leave_out(&[&at], |_| false)
        {
            unneeded.push(at);
        }
    }
    for at in unneeded {
        path::replace(kernel, &at, path::blank());
    }
    path::sweep(&mut kernel.body);
    debug_assert!(!analyse(kernel).iter().any(unfenced), "every wait and notify is fenced");
    Ok(())
}

/// Moves a release in front of a loop that has nothing but it and notifies: the iterations write
/// nothing, so what is in memory before the loop is in memory before each notify.
fn before_loops(list: &mut Vec<Stmt>) {
    for mut s in std::mem::take(list) {
        s.blocks_mut().for_each(before_loops);
        if let Stmt::For { body, .. } = &mut s
            && body.contains(&Stmt::Op(Op::Release))
            && body.iter().all(|s| match s {
                Stmt::Op(op) => matches!(op, Op::Release | Op::Notify { .. }),
                Stmt::Let { .. } | Stmt::Note { .. } => true,
                _ => false,
            })
        {
            body.retain(|s| *s != Stmt::Op(Op::Release));
            list.push(Stmt::Op(Op::Release));
        }
        list.push(s);
    }
}

fn unfenced(f: &Finding) -> bool {
    matches!(f.fault, Fault::Unacquired { .. } | Fault::Fence)
}

fn expand(list: &mut Vec<Stmt>, profile: &Profile) {
    for mut s in std::mem::take(list) {
        let steps: &[FenceStep] = match &mut s {
            Stmt::Op(Op::Release) => profile.release,
            Stmt::Op(Op::Acquire) => profile.acquire,
            Stmt::Op(Op::Complete) => profile.complete,
            other => {
                other.blocks_mut().for_each(|block| expand(block, profile));
                list.push(s);
                continue;
            }
        };
        list.extend(steps.iter().map(|s| Stmt::Op(s.op())));
    }
}
