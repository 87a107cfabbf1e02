//! A schedule under the weakest memory it may meet.
//!
//! The interpreter lets every operation take effect at once. Here nothing does that need not:
//!
//! * a `put` reads its source and lands at any two moments between its issue and its stream's next `fence.release`;
//!   without one, arbitrarily late; a `get` likewise until `fence.complete`;
//! * a `copy`, `reduce`, local operation or completed `get` happens when something of its stream depends on it, at the
//!   latest at the next `fence.release` or `record` (or at the end of the call, where the host looks): a notify without
//!   a release says nothing of reads either;
//! * a `notify` lands any time after its issue, and after what its stream released before it;
//! * what peers wrote is seen by a stream when it has waited for a notify of the *writer* after a release that covers
//!   the write, and then said `fence.acquire`; until then every read gets old or new elements at random.
//!
//! Calls follow each other on the same windows, ranks run ahead into later calls, and the host compares every element
//! of every result on every rank after every call with what the interpreter got. The host's own accesses are complete
//! when it makes them. Owns the runs and the report; the
//! memory is `view`, the machine `world`, who moves next [`Policy`].

mod policy;
mod view;
mod world;

pub use policy::Policy;

use crate::flow::Flow;
use crate::host::Host;
use crate::interp::{self, MAX_BYTES, RunOptions, RunResult, too_large};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::host::spelled;
use kbc_ir::schedule::{BufferId, Schedule};
use kbc_ir::walk::Program;
use kbc_numerics::tensor::{Tensor, Value};
use world::World;

/// Runs within which a schedule that lacks one essential fence, wait, notify or credit fails; the corpus test holds
/// the executor to it.
pub const SEEDS: u64 = 200;

/// How to attack.
#[derive(Clone, Debug)]
pub struct AdversaryOptions {
    /// Calls in a row; a reuse race over k slots needs k + 1 of them to show.
    pub calls: u32,
    /// First seed.
    pub seed: u64,
    /// Number of seeds; seed s uses policy s mod the number of policies.
    pub runs: u64,
    /// The adversaries.
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
    /// In which call.
    pub call: i64,
    /// On which rank.
    pub rank: u64,
    /// The buffer: a result, or one that the host read.
    pub buffer: BufferId,
    /// Where in the global tensor, or in the local one of a buffer that is no result.
    pub index: Vec<u64>,
    /// What the interpreter got.
    pub expected: Value,
    /// What this run got.
    pub got: Value,
}

/// A run that went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed, which repeats it.
    pub seed: u64,
    /// Its adversary.
    pub policy: Policy,
    /// The element, if a result was wrong; otherwise the run met a fault (a deadlock, a read of nothing).
    pub difference: Option<Difference>,
    /// The whole story.
    pub diagnostic: Diagnostic,
}

/// What came out of all runs.
#[derive(Clone, Debug)]
pub struct AdversaryReport {
    /// Runs made; fewer than asked for if one failed.
    pub runs: u64,
    /// Elements compared over all runs.
    pub elements: u64,
    /// The first failure.
    pub failure: Option<Failure>,
}

/// Why one run ended.
enum Trouble {
    Fault(Box<Diagnostic>),
    Differs(Box<Difference>, Box<Diagnostic>),
}

impl From<Diagnostic> for Trouble {
    fn from(d: Diagnostic) -> Self {
        Trouble::Fault(Box::new(d))
    }
}

/// Runs a schedule under the adversaries and compares with `expected`, or with what the interpreter gets if there is
/// none. `inputs` as for [`interp::run`]; let them differ from call to call.
///
/// Errors: those of the interpreter (the schedule does not even run in peace), and inputs that do not fit. A failure
/// under an adversary is not an error of this function but its result: a difference (E366), or any code of
/// [`interp::run`].
pub fn adversarial(
    schedule: &Schedule,
    inputs: &[Vec<Tensor>],
    expected: Option<&RunResult>,
    options: &AdversaryOptions,
) -> Result<AdversaryReport, Diagnostics> {
    let spelled = spelled(schedule);
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
