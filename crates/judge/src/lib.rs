//! Whether a schedule ever misbehaves, found out by running it: in every order that could make a difference where that
//! ends within a budget, else in many orders that seeds draw.
//!
//! The memory is that of [`kbc_backend_sim::adversary`], as weak as `docs/ir.md` allows: a put reads its source and lands at any
//! two moments before the next release of its stream, a get before its completion; copies and reductions happen late;
//! notifies arrive late; what peers wrote is seen for certain only after a notify of the writer, which a release of the
//! write precedes, and an acquire. Calls follow each other on the same windows, and ranks run ahead into later calls as far
//! as signals let them.
//!
//! Misbehaving is: an element of a result, on any rank after any call, that is not what was expected (also one that comes from
//! memory nobody wrote), a run that does not come to its end, an operation without a meaning (a peer, chunk, slot or
//! counter that does not exist, sizes that differ).
//!
//! This module is the judge of the checker (`kbc mutate`) and shares nothing with it but the walk: it knows neither
//! promises nor clocks of the checker (`tests/tidy.rs` holds it to that). See `docs/adr/014-mutation.md`.

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
use kbc_ir::host::spelled;
use kbc_ir::schedule::Schedule;
use kbc_ir::walk::Program;
use kbc_numerics::tensor::Tensor;
use plan::{Plan, Unplanned};

/// How far to go.
#[derive(Clone, Debug)]
pub struct ClassifyOptions {
    /// Calls in a row.
    pub calls: u32,
    /// Events that the exploration of all orders may take, of all its runs together.
    pub events: u64,
    /// Runs in orders that seeds draw, where exploring does not end.
    pub runs: u64,
    /// How many of them come before exploring, because they find most mistakes soon.
    pub first: u64,
    /// The first seed.
    pub seed: u64,
}

/// Events of a second, about, of one core and a release build.
pub const EVENTS: u64 = 400_000;

/// Events of one run at most; above, nothing is said.
const MOST_EVENTS: usize = 1 << 18;

/// Events of one run up to which all orders are explored: what comes before what is a square of bits.
const MOST_EXPLORED: usize = 1 << 14;

impl Default for ClassifyOptions {
    fn default() -> Self {
        ClassifyOptions { calls: 4, events: EVENTS, runs: 1000, first: 12, seed: 0 }
    }
}

/// How sure it is that something never misbehaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// So many runs stand for all.
    Every(u64),
    /// So many runs in random orders, and exploring did not end.
    Runs(u64),
}

/// How a schedule behaves.
#[derive(Clone, PartialEq, Debug)]
pub enum Behaviour {
    /// There is an order in which it does what it must not.
    Misbehaves(String),
    /// No order was found in which it does.
    Stands(Evidence),
    /// It is too long to tell.
    TooLong,
}

/// Finds out how a schedule behaves. `inputs` as for [`kbc_backend_sim::interp::run`]; `expected` is what it must give, of as many calls.
///
/// # Errors
/// Inputs that do not fit (E360).
pub fn classify(
    schedule: &Schedule,
    inputs: &[Vec<Tensor>],
    expected: &RunResult,
    options: &ClassifyOptions,
) -> Result<Behaviour, Diagnostics> {
    let spelled = spelled(schedule);
    let schedule = &*spelled;
    let program = match Program::compile(schedule) {
        Ok(p) => p,
        // What does not fit in memory says nothing of the schedule.
        Err(d) if d.code == "E368" => return Ok(Behaviour::TooLong),
        Err(d) => return Ok(Behaviour::Misbehaves(d.title)),
    };
    let host = Host::new(&program, inputs)?;
    let plan = match Plan::new(&program, &host, expected, i64::from(options.calls), MOST_EVENTS) {
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
    if plan.events.len() <= MOST_EXPLORED {
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
