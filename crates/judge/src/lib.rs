//! The judge: finds out whether a schedule ever misbehaves by running it. It runs the schedule in
//! every order that can make a difference if that ends within a budget, and otherwise in many
//! orders drawn from seeds.
//!
//! The memory is that of [`kbc_backend_sim::adversary`], as weak as `docs/reference/ir.md` allows.
//! A put reads its source and lands at any two moments before the next release of its stream, a get
//! before its completion. Copies and reductions happen late, and notifies arrive late. Data that a
//! peer wrote is certainly seen only after a notify of the writer that follows a release of the
//! write, and an acquire. Calls follow each other on the same windows, and ranks run ahead into
//! later calls as far as signals let them.
//!
//! A schedule misbehaves if an element of a result, on any rank after any call, differs from the
//! expected one (also if it comes from memory that nothing wrote), if a run does not end, or if an
//! operation has no meaning (a peer, chunk, slot or counter that does not exist, or sizes that
//! differ).
//!
//! This crate judges the checker (`kbc dev mutate`) and shares only the walk with it. It knows
//! neither the contracts nor the clocks of the checker, which `tests/tidy.rs` enforces. See
//! `docs/adr/014-mutation.md`.

mod calls;
mod explore;
mod machine;
mod memory;
pub mod oracle;
mod plan;
mod random;

pub use calls::{calls, same};

use explore::{Explored, explore};
use kbc_backend_sim::host::Host;
use kbc_backend_sim::interp::RunResult;
use kbc_diag::Diagnostics;
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::Schedule;
use kbc_ir::walk::Program;
use kbc_numerics::tensor::Tensor;
use plan::{Plan, Unplanned};

/// Limits of a classification.
#[derive(Clone, Debug)]
pub struct ClassifyOptions {
    /// Number of consecutive calls.
    pub calls: u32,
    /// Maximum number of events of the exploration of all orders, over all its runs.
    pub events: u64,
    /// Number of runs in orders drawn from seeds, if the exploration does not end.
    pub runs: u64,
    /// Number of those runs that are made before the exploration, because they find most mistakes
    /// soon.
    pub first: u64,
    /// The first seed.
    pub seed: u64,
}

/// Approximate number of events per second, on one core with a release build.
pub const EVENTS: u64 = 400_000;

/// Maximum number of events of one run. Longer runs are not judged.
const MAX_EVENTS: usize = 1 << 18;

/// Maximum number of events of one run for an exploration of all orders, because the order relation
/// needs a square of bits.
const MAX_EXPLORED: usize = 1 << 14;

impl Default for ClassifyOptions {
    fn default() -> Self {
        ClassifyOptions { calls: 4, events: EVENTS, runs: 1000, first: 12, seed: 0 }
    }
}

/// The evidence that a schedule never misbehaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// This many runs represent all.
    Every(u64),
    /// This many runs in random orders; the exploration did not end.
    Runs(u64),
}

/// The behaviour of a schedule.
#[derive(Clone, PartialEq, Debug)]
pub enum Behaviour {
    /// There is an order in which the schedule misbehaves.
    Misbehaves(String),
    /// No order was found in which it misbehaves.
    Stands(Evidence),
    /// The schedule is too long to be judged.
    TooLong,
}

/// Classifies the behaviour of a schedule. `inputs` are as for [`kbc_backend_sim::interp::run`];
/// `expected` are the required results of as many calls.
///
/// # Errors
/// Returns E360 for inputs that do not fit.
pub fn classify(
    schedule: &Schedule,
    inputs: &[Vec<Tensor>],
    expected: &RunResult,
    options: &ClassifyOptions,
) -> Result<Behaviour, Diagnostics> {
    let spelled = with_host_region(schedule);
    let schedule = &*spelled;
    let program = match Program::compile(schedule) {
        Ok(p) => p,
        // Running out of memory is no evidence about the schedule.
        Err(d) if d.code == "E368" => return Ok(Behaviour::TooLong),
        Err(d) => return Ok(Behaviour::Misbehaves(d.title)),
    };
    let host = Host::new(&program, inputs)?;
    let plan = match Plan::new(&program, &host, expected, i64::from(options.calls), MAX_EVENTS) {
        Ok(plan) => plan,
        Err(Unplanned::Wrong(d)) if d.code == "E368" => return Ok(Behaviour::TooLong),
        Err(Unplanned::Wrong(d)) => return Ok(Behaviour::Misbehaves(d.title)),
        Err(Unplanned::TooLong) => return Ok(Behaviour::TooLong),
    };
    let seeds = options.seed..options.seed.saturating_add(options.runs);
    let mut seeds = seeds.into_iter();
    for seed in seeds.by_ref().take(options.first as usize) {
        if let Err(wrong) = random::run(&plan, seed) {
            return Ok(Behaviour::Misbehaves(wrong.0));
        }
    }
    if plan.events.len() <= MAX_EXPLORED {
        match explore(&plan, options.events) {
            Explored::All(runs) => return Ok(Behaviour::Stands(Evidence::Every(runs))),
            Explored::Wrong(wrong) => return Ok(Behaviour::Misbehaves(wrong.0)),
            Explored::Unfinished => {}
        }
    }
    for seed in seeds {
        if let Err(wrong) = random::run(&plan, seed) {
            return Ok(Behaviour::Misbehaves(wrong.0));
        }
    }
    Ok(Behaviour::Stands(Evidence::Runs(options.runs)))
}
