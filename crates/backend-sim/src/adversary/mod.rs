//! Adversarial execution: runs a schedule under the weakest memory that it may meet.
//!
//! The interpreter lets every operation take effect at once. Here every effect is delayed as far as
//! the memory model allows:
//!
//! * A `put` reads its source and lands at any two moments between its issue and its stream's next
//!   `fence.release`; without one, arbitrarily late. The same holds for a `get` until
//!   `fence.complete`.
//! * A `copy`, `combine`, local operation or completed `get` happens when something of its stream
//!   depends on it, at the latest at the next `fence.release` or `record` (or at the end of the
//!   call, where the host looks). A notify without a release therefore gives no information about
//!   reads either.
//! * A `notify` lands any time after its issue, and after what its stream released before it.
//! * A stream sees what peers wrote once it has waited for a notify of the *writer* that follows a
//!   release of the write, and has then issued `fence.acquire`. Until then every read gets old or
//!   new elements at random.
//!
//! Calls follow each other on the same windows, ranks run ahead into later calls, and the host
//! compares every element of every result on every rank after every call with the interpreter's.
//! The host's own accesses are complete when it makes them. The module owns the runs and the
//! report; `view` is the memory, `world` the machine, and [`Policy`] chooses which stream or
//! transfer advances next.

mod policy;
mod view;
mod world;

pub use policy::Policy;

use crate::flow::Flow;
use crate::host::{Host, too_large};
use crate::interp::{self, MAX_BYTES, RunOptions, RunResult};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{BufferId, Schedule};
use kbc_ir::walk::Program;
use kbc_numerics::element::Value;
use kbc_numerics::tensor::Tensor;
use world::World;

/// Number of runs within which a schedule that lacks one essential fence, wait, notify or credit
/// fails. The corpus test enforces this.
pub const SEEDS: u64 = 200;

/// Options of an attack.
#[derive(Clone, Debug)]
pub struct AdversaryOptions {
    /// Number of consecutive calls. A reuse race over k slots needs k + 1 of them to become
    /// visible.
    pub calls: u32,
    /// First seed.
    pub seed: u64,
    /// Number of seeds. Seed s uses policy s mod the number of policies.
    pub runs: u64,
    /// The policies of the adversaries.
    pub policies: Vec<Policy>,
}

impl Default for AdversaryOptions {
    fn default() -> Self {
        AdversaryOptions { calls: 3, seed: 0, runs: SEEDS, policies: Policy::ALL.to_vec() }
    }
}

/// An element that differs from the expected one.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// Its call.
    pub call: i64,
    /// Its rank.
    pub rank: u64,
    /// The buffer: a result, or one that the host read.
    pub buffer: BufferId,
    /// Its index in the global tensor, or in the local tensor of a buffer that is not a result.
    pub index: Vec<u64>,
    /// The interpreter's value.
    pub expected: Value,
    /// The value of this run.
    pub got: Value,
}

/// A run that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed, which reproduces it.
    pub seed: u64,
    /// Its policy.
    pub policy: Policy,
    /// The element, if a result was wrong. Otherwise the run met a fault (a deadlock, a read of
    /// unwritten memory).
    pub difference: Option<Difference>,
    /// The full diagnostic.
    pub diagnostic: Diagnostic,
}

/// The result of all runs.
#[derive(Clone, Debug)]
pub struct AdversaryReport {
    /// Number of runs made; fewer than requested if one failed.
    pub runs: u64,
    /// Number of elements compared over all runs.
    pub elements: u64,
    /// The first failure.
    pub failure: Option<Failure>,
}

/// The reason why one run ended.
enum Trouble {
    Fault(Box<Diagnostic>),
    Differs(Box<Difference>, Box<Diagnostic>),
}

impl From<Diagnostic> for Trouble {
    fn from(d: Diagnostic) -> Self {
        Trouble::Fault(Box::new(d))
    }
}

/// Runs a schedule under the adversaries and compares the results with `expected`, or with those of
/// the interpreter if there is none. `inputs` are as for [`interp::run`] and should differ from
/// call to call.
///
/// Errors are those of the interpreter (the schedule fails even in an undisturbed run), and inputs
/// that do not fit. A failure under an adversary is not an error of this function but its result: a
/// difference (E366), or any code of [`interp::run`].
pub fn adversarial(
    schedule: &Schedule,
    inputs: &[Vec<Tensor>],
    expected: Option<&RunResult>,
    options: &AdversaryOptions,
) -> Result<AdversaryReport, Diagnostics> {
    let spelled = with_host_region(schedule);
    let schedule = &*spelled;
    let own;
    let expected = match expected {
        Some(e) => e,
        None => {
            own =
                interp::run(schedule, inputs, &RunOptions { calls: options.calls, ..RunOptions::default() })?;
            &own
        }
    };
    let program = Program::compile(schedule)?;
    if Flow::bytes(&program) > MAX_BYTES {
        return Err(too_large(MAX_BYTES).into());
    }
    let host = Host::new(&program, inputs)?;
    let mut report = AdversaryReport { runs: 0, elements: 0, failure: None };
    let policies = if options.policies.is_empty() { &Policy::ALL[..] } else { &options.policies };
    for seed in options.seed..options.seed.saturating_add(options.runs) {
        let policy = policies[(seed % policies.len() as u64) as usize];
        let world = World::new(&program, &host, expected, i64::from(options.calls), policy, seed);
        report.runs += 1;
        let (difference, diagnostic) = match world.run() {
            Ok(elements) => {
                report.elements += elements;
                continue;
            }
            Err(Trouble::Fault(d)) => (None, *d),
            Err(Trouble::Differs(x, d)) => (Some(*x), *d),
        };
        let diagnostic = diagnostic.note(format!("adversary {}, seed {seed}", policy.name()));
        report.failure = Some(Failure { seed, policy, difference, diagnostic });
        break;
    }
    Ok(report)
}
