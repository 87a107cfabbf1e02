//! Running compiled code: the functions of streams, and the choice of the next stream.
//!
//! The module owns the calls of compiled functions. A stream runs until it waits; [`super::world`]
//! puts it back in the queue when its wait is satisfied.

#![allow(unsafe_code, reason = "compiled functions are called here")]

use super::abi::{AWAITS, Ctx, DONE, EMPTY, FULL, RoleFn, WAITS, YIELDS};
use super::world::{BlockedOn, Stop, World};
use crate::interp::RunResult;
use kbc_ir::walk::Program;
use kbc_numerics::rng::Rng;

/// The function of a stream in a region, and the number of slots of its frame.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) function: RoleFn,
    pub(super) frame: usize,
}

/// The functions to run: for each region and role, the streams that have a body.
pub(super) type Entries = Vec<Vec<Vec<(u32, Entry)>>>;

/// Returns the number of slots that suffice for the frame of every stream.
pub(super) fn frame(program: &Program<'_>, entries: &Entries) -> usize {
    entries.iter().flatten().flatten().map(|(_, e)| e.frame).max().unwrap_or(0).max(program.env_len + 1)
}

/// Runs everything. Returns the results, unless a rank met a fault or waits forever.
pub(super) fn run(
    mut w: World<'_>,
    entries: &Entries,
    tables: &[*const i64],
    room: usize,
    seed: Option<u64>,
) -> Result<RunResult, Stop> {
    if w.calls > 0 {
        for rank in 0..w.program.ranks() {
            w.begin_call(rank, 0)?;
        }
    }
    let mut scratch = vec![0f32; room];
    let mut rng = seed.map(Rng::new);
    while !w.queue.is_empty() && w.calls > 0 {
        let at = rng.as_mut().map_or(0, |r| r.below(w.queue.len()));
        let Some(thread) = w.queue.swap_remove_front(at) else { break };
        w.threads[thread].queued = false;
        w.threads[thread].held = BlockedOn::No;
        let budget = rng.as_mut().map_or(-1, |r| 1 + r.below(6) as i64);
        go(&mut w, entries, thread, tables, scratch.as_mut_ptr(), budget)?;
    }
    if w.threads.iter().all(|t| t.call >= w.calls) { w.finish() } else { Err(Stop::Fault) }
}

/// Advances one stream until it waits, yields or ends.
fn go(
    w: &mut World<'_>,
    entries: &Entries,
    thread: usize,
    tables: &[*const i64],
    scratch: *mut f32,
    budget: i64,
) -> Result<(), Stop> {
    let (rank, stream) = (w.threads[thread].rank, w.threads[thread].stream);
    let mut env = std::mem::take(&mut w.threads[thread].env);
    let (counters, events) = (w.program.counters() as usize, w.program.events.len());
    let mut ctx = Ctx {
        world: std::ptr::null_mut(),
        counters: std::ptr::null_mut(),
        recorded: std::ptr::null(),
        tables: tables.as_ptr(),
        env: std::ptr::null_mut(),
        budget,
        state: 0,
        want: 0,
        value: 0,
        rank: rank as i64,
        dst: std::ptr::null_mut(),
        old: std::ptr::null(),
        src: std::ptr::null(),
        scratch,
    };
    let status = loop {
        let t = &mut w.threads[thread];
        if t.call >= w.calls {
            break DONE;
        }
        if t.region >= entries.len() {
            let call = t.call;
            (t.call, t.region) = (call + 1, 0);
            w.call_over(rank, stream, call)?;
            continue;
        }
        let (region, role) = (t.region, w.roles[t.region][rank as usize]);
        let entry = role.and_then(|r| entries[region][r].iter().find(|(s, _)| *s == stream));
        let Some((_, entry)) = entry.copied() else {
            w.threads[thread].region += 1;
            w.region_over(rank, stream, region)?;
            continue;
        };
        if t.state == 0 {
            enter(w.program, region, rank, t.call, &mut env);
        }
        ctx.state = t.state;
        ctx.env = env.as_mut_ptr();
        ctx.counters = w.counters[rank as usize * counters..].as_mut_ptr();
        ctx.recorded = w.recorded[rank as usize * events..].as_ptr();
        ctx.world = (&raw mut *w).cast();
        // SAFETY: the function was compiled for this program, and the context is what it expects:
        // tables and frame are as large as it was compiled for, and counters and events begin with
        // those of this rank. While it runs, this function touches neither the context nor the
        // world.
        let status = unsafe { (entry.function)(&raw mut ctx) };
        let t = &mut w.threads[thread];
        match status {
            DONE => {
                (t.region, t.state) = (t.region + 1, 0);
                w.region_over(rank, stream, region)?;
            }
            WAITS | AWAITS | FULL | EMPTY | YIELDS => {
                t.state = ctx.state;
                t.held = match status {
                    WAITS => BlockedOn::Counter(ctx.want as u32, ctx.value.max(0) as u64),
                    AWAITS => BlockedOn::Event(ctx.want as u32, ctx.value),
                    FULL => BlockedOn::Full((rank, ctx.value as u64, ctx.want as u32)),
                    EMPTY => BlockedOn::Empty((ctx.value as u64, rank, ctx.want as u32)),
                    _ => BlockedOn::No,
                };
                break status;
            }
            _ => return Err(w.stop()),
        }
    };
    w.threads[thread].env = env;
    if status == YIELDS {
        w.threads[thread].queued = true;
        w.queue.push_back(thread);
    }
    Ok(())
}

/// Sets the environment for a region: call, coordinates of the group, and the rank whose
/// coordinates are all 0.
fn enter(p: &Program<'_>, region: usize, rank: u64, call: i64, env: &mut [i64]) {
    let id = kbc_ir::schedule::RegionId(region as u32);
    env[0] = call;
    let mut index = p.group_index(id, rank);
    for (slot, size) in p.regions[region].coords.iter().rev() {
        env[*slot as usize] = (index % size) as i64;
        index /= size;
    }
    env[p.env_len] = p.group_rank(id, rank, 0) as i64;
}
