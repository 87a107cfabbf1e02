//! The checker: proves properties of a schedule, whoever made it, or reports what is wrong with it.
//!
//! * **Meaning**: every place that a contract names holds exactly the required contributions (E341
//!   to E344).
//! * **Order**: every two conflicting accesses are ordered, and every release, completion and
//!   acquire is in place, also from call to call at any skew of the ranks (E345 to E350).
//! * **Progress**: nothing waits forever (E340); counters have one writer, stay in 32 bits and keep
//!   pace with the waits on them (E351 to E353).
//! * **Bounds**: every operation has a meaning on every rank (E302 to E305, from [`kbc_ir::walk`]),
//!   also where windows overlap in memory.
//!
//! The checker knows no pass and trusts none: it reads the schedule through [`kbc_ir::walk`], as
//! every consumer of schedules does. One abstract execution (`engine`) is run with a domain of
//! contents (`contents`) and a group of symmetries (`group`, proven by `symmetry`). The
//! memory model is that of `docs/reference/ir.md`.

#![deny(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]

mod calls;
mod chains;
mod clock;
mod contents;
mod counters;
mod deadlock;
mod digits;
mod engine;
mod expect;
mod filled;
mod grid;
mod group;
mod meaning;
mod moves;
pub mod mutate;
mod orbits;
mod order;
mod proof;
mod queues;
mod ranks;
mod report;
mod setup;
mod sparse;
mod symmetry;
#[doc(hidden)]
pub mod testing;
mod typing;
mod waits;

pub use expect::{PartRun, RankContract, RequiredParts, rank_contract};
pub use orbits::Orbits;

use contents::{Exact, Fingerprint};
use counters::{Limits, MAX_COUNT};
use engine::{Engine, Outcome, Stopped};
use grid::Unable;
use group::{Action, Group};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::contract::Clause;
use kbc_ir::form::Form;
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{Calls, Region, Schedule};
use kbc_ir::walk::{Cursor, Fault, Program};
use setup::Setup;

/// How ranks represent each other, and how contents are represented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// Up to [`EVERY_RANK`] ranks, every rank with exact multisets. Above, one rank of each orbit
    /// if symmetry can be proven and nothing is wrong; otherwise every rank, up to [`EXACT_RANKS`]
    /// ranks with exact multisets, above with fingerprints.
    Auto,
    /// Every rank, with exact multisets.
    Expanded,
    /// Every rank, with fingerprints (random sums).
    Fingerprints,
    /// One rank of each orbit, with exact multisets.
    Symmetric,
}

/// Up to this many ranks, all ranks are walked with exact multisets, whether the schedule is
/// symmetric or not.
pub const EVERY_RANK: u64 = 9;

/// Up to this many ranks, all ranks are walked with exact multisets if the schedule is not
/// symmetric, or if something is wrong, because messages are about every rank.
pub const EXACT_RANKS: u64 = 64;

/// Options of a check: its subject and its limits.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// The calls to prove the schedule for; if absent, those that the schedule states.
    pub calls: Option<Calls>,
    /// The representation of ranks and contents.
    pub strategy: Strategy,
    /// Number of calls between two allocations of the signals, over which counters must stay in 32
    /// bits.
    pub stated_calls: u64,
    /// Maximum number of walked operations; the checker refuses more.
    pub most_acts: u64,
    /// Number of different errors after which the checker stops.
    pub most_errors: usize,
    /// Whether wrong contents are reported even where accesses race. The contents are then those of
    /// one order out of many.
    pub all_kinds: bool,
    /// Number of ranks from which on the order of accesses is searched in chains of notifies, if
    /// every rank has one stream. Below, and if a search finds nothing, vector clocks decide. The
    /// verdict is the same either way.
    pub chains_from: u64,
}

impl Default for CheckOptions {
    fn default() -> Self {
        CheckOptions {
            calls: None,
            strategy: Strategy::Auto,
            stated_calls: 1 << 16,
            most_acts: 1 << 26,
            most_errors: 40,
            all_kinds: false,
            chains_from: 1 << 10,
        }
    }
}

/// The method by which meaning was shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Method {
    /// Exact multisets on every rank.
    Exact,
    /// Exact multisets on one rank of each orbit.
    Symmetric {
        /// Number of orbits, which is the number of ranks walked.
        orbits: u64,
    },
    /// Sums of two random 61-bit numbers per contribution, on every rank.
    Fingerprints,
    /// Meaning was not shown: nothing was executed.
    NotChecked,
}

/// The result of a check.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The errors found.
    pub errors: Diagnostics,
    /// The method by which meaning was shown.
    pub meaning: Method,
    /// Collective regions without a contract, whose meaning was not checked.
    pub without_contract: Vec<String>,
    /// The calls for which order and progress are shown.
    pub order: Calls,
    /// Number of calls walked.
    pub calls: u64,
    /// Number of calls after which the schedule's text repeats.
    pub period: u64,
    /// Number of ranks walked.
    pub ranks_walked: u64,
    /// Number of operations walked.
    pub acts: u64,
    /// Whether chains of notifies showed the order, and not vector clocks.
    pub by_chains: bool,
    /// Number of calls until a counter leaves 32 bits; None if no counter grows.
    pub range: Option<u64>,
    /// The reason why symmetry did not apply, if it was tried.
    pub asymmetric: Option<String>,
    /// All of this in words.
    pub text: String,
}

impl Verdict {
    /// Whether nothing is wrong.
    pub fn ok(&self) -> bool {
        !self.errors.has_errors()
    }
}

/// Checks a schedule.
pub fn check(schedule: &Schedule, options: &CheckOptions) -> Verdict {
    let spelled = with_host_region(schedule);
    let schedule = &*spelled;
    let wanted = options.calls.unwrap_or(schedule.calls);
    let blank = Verdict {
        errors: Diagnostics::new(),
        meaning: Method::NotChecked,
        without_contract: without_contract(schedule),
        order: wanted,
        calls: 0,
        period: 1,
        ranks_walked: 0,
        acts: 0,
        by_chains: false,
        range: None,
        asymmetric: None,
        text: String::new(),
    };
    let mut verdict = match Program::compile(schedule) {
        Err(d) => Verdict { errors: d.into(), ..blank },
        Ok(program) if wanted == Calls::None => bounds(&program, options, blank),
        Ok(program) => Check { program: &program, options, wanted }.run(blank),
    };
    verdict.text = words(schedule, &verdict);
    verdict
}

fn without_contract(s: &Schedule) -> Vec<String> {
    let says = |r: &Region| {
        let ends = |c: &Clause| matches!(c, Clause::End { cell: _, cond: _, from: _, at: _, sum: _ });
        r.contract.as_ref().is_some_and(|p| p.clauses.iter().any(ends))
    };
    let collective = s.regions.iter().filter(|r| !r.over.is_empty() && !says(r));
    collective.map(|r| r.name.to_string()).collect()
}

/// Checks bounds alone: every operation of every rank has a meaning.
fn bounds(program: &Program, options: &CheckOptions, blank: Verdict) -> Verdict {
    let mut v = blank;
    v.calls = 1;
    for rank in 0..program.ranks() {
        v.ranks_walked += 1;
        for stream in 0..program.streams.len() {
            let mut cursor = Cursor::new(program, rank, stream as u32, 0);
            loop {
                match cursor.next_step() {
                    Ok(Some(_)) => v.acts += 1,
                    Ok(None) => break,
                    Err(f) => {
                        v.errors.push(show(program.schedule, &f));
                        break;
                    }
                }
            }
            if v.errors.list.len() >= options.most_errors {
                v.errors = v.errors.finish();
                return v;
            }
            if v.acts > options.most_acts {
                v.errors.push(too_long(options, v.acts, program.ranks(), None));
                return v;
            }
        }
    }
    v.errors = v.errors.finish();
    v
}

fn show(s: &Schedule, f: &Fault) -> Diagnostic {
    f.diagnostic(|r| s.mesh.show(r))
}

fn too_long(options: &CheckOptions, acts: u64, ranks: u64, why: Option<&str>) -> Diagnostic {
    let d = Diagnostic::error(
        "E354",
        format!("the proof needs more than {} operations to be checked", options.most_acts),
    )
    .note(format!("{acts} operations were checked, on {ranks} ranks"))
    .help("make the schedule symmetric, so that one rank stands for all, or raise the limit");
    match why {
        Some(w) => d.note(format!("all ranks were checked because {w}")),
        None => d,
    }
}

/// Adds to a refusal the reason why all ranks are walked.
fn because(d: Diagnostic, why: Option<&str>) -> Diagnostic {
    match why {
        Some(why) if d.code == "E354" => d.note(format!("all ranks are checked because {why}")),
        _ => d,
    }
}

/// Maximum number of calls; the checker refuses more.
const MAX_CALLS: u64 = 1 << 10;

/// Maximum number of ranks; the checker refuses more.
const MAX_RANKS: u64 = 1 << 20;

struct Check<'a> {
    program: &'a Program<'a>,
    options: &'a CheckOptions,
    wanted: Calls,
}

/// Maximum number of entries of clocks and contents that are held at once.
const MAX_STATE: u64 = 1 << 28;

impl Check<'_> {
    fn run(&self, blank: Verdict) -> Verdict {
        let s = self.program.schedule;
        let horizon = calls::horizon(s);
        let mut v = blank;
        (v.calls, v.period) = match self.wanted {
            Calls::First => (1, 1),
            Calls::None | Calls::Any => (horizon.calls, horizon.period),
        };
        if let (Calls::Any, Some(d)) = (self.wanted, horizon.open) {
            v.errors.push(d);
        }
        let ranks = self.program.ranks();
        if v.calls > MAX_CALLS || ranks > MAX_RANKS {
            v.errors.push(
                Diagnostic::error(
                    "E354",
                    format!("the proof needs {} calls on {ranks} ranks to be checked", v.calls),
                )
                .note(format!("the limits are {MAX_CALLS} calls and {MAX_RANKS} ranks"))
                .help("use `call` only in `call % k` with a small k, and in comparisons with small numbers"),
            );
            return v;
        }
        let auto = self.options.strategy == Strategy::Auto;
        if self.options.strategy == Strategy::Symmetric || auto && ranks > EVERY_RANK {
            let mut one = v.clone();
            let reason = self.symmetric(&mut one);
            match reason {
                // If all ranks can be walked exactly, they are, so that messages are about every
                // rank.
                None if auto && ranks <= EXACT_RANKS && !one.ok() => {}
                None => return one,
                Some(reason) => v.asymmetric = Some(reason),
            }
            if !auto {
                let reason = v.asymmetric.clone().unwrap_or_default();
                v.errors.push(
                    Diagnostic::error("E354", "one rank cannot stand for the others")
                        .note(reason)
                        .help("check all ranks instead"),
                );
                return v;
            }
        }
        let exact = self.options.strategy == Strategy::Expanded || auto && ranks <= EXACT_RANKS;
        v.meaning = if exact { Method::Exact } else { Method::Fingerprints };
        let group = Group::new(self.program.ranks(), vec![]);
        let actions = vec![Action::default(); s.buffers.len()];
        match self.execute(group, actions, exact, &v) {
            Ok(walk) => accept(&mut v, walk),
            Err(Failure::Said(d)) => {
                let d = because(*d, v.asymmetric.as_deref());
                v.errors.push(d);
            }
            Err(Failure::Stopped(Stopped::Asymmetric(reason))) => v.asymmetric = Some(reason),
            Err(Failure::Stopped(Stopped::TooLong(acts))) => {
                let d = too_long(self.options, acts, self.program.ranks(), v.asymmetric.as_deref());
                v.errors.push(d);
            }
            Err(Failure::Stopped(Stopped::Undecided)) => unreachable!("clocks decide everything"),
        }
        v
    }

    /// Walks one rank of each orbit. Returns the reason if that is not possible.
    fn symmetric(&self, v: &mut Verdict) -> Option<String> {
        let (group, actions) = match symmetry::find(self.program, v.calls) {
            Ok(found) => found,
            Err(reason) => return Some(reason),
        };
        let orbits = group.reps.len() as u64;
        match self.execute(group, actions, true, v) {
            Ok(walk) => {
                v.meaning = Method::Symmetric { orbits };
                accept(v, walk);
            }
            Err(Failure::Said(d)) => v.errors.push(*d),
            Err(Failure::Stopped(Stopped::Asymmetric(reason))) => return Some(reason),
            Err(Failure::Stopped(Stopped::TooLong(acts))) => {
                v.errors.push(too_long(self.options, acts, orbits, None));
            }
            Err(Failure::Stopped(Stopped::Undecided)) => unreachable!("clocks decide everything"),
        }
        None
    }

    fn execute(&self, group: Group, actions: Vec<Action>, exact: bool, v: &Verdict) -> Result<Walk, Failure> {
        let limits = Limits {
            acts: self.options.most_acts,
            errors: self.options.most_errors,
            all_kinds: self.options.all_kinds,
            stated_calls: self.options.stated_calls,
            period: (self.wanted == Calls::Any).then_some(v.period),
        };
        let walked = group.reps.len() as u64;
        let setup = Setup::new(self.program, group, actions, v.calls)?;
        let state = setup.state(exact);
        if state > MAX_STATE {
            let d = Diagnostic::error(
                "E354",
                format!("the state of {walked} ranks is too large to check them together"),
            )
            .note(format!("{state} entries of clocks and contents (limit: {MAX_STATE})"))
            .help("make the schedule symmetric, so that one rank stands for all");
            return Err(Failure::Said(Box::new(d)));
        }
        let run = |chains: bool| {
            if exact {
                Engine::<Exact>::new(&setup, &limits, chains).run(&limits)
            } else {
                Engine::<Fingerprint>::new(&setup, &limits, chains).run(&limits)
            }
        };
        let ranks = self.program.ranks();
        let one_stream = setup.width == 1 && !setup.queues && !self.program.has_forms();
        let mut by_chains = one_stream && ranks >= self.options.chains_from;
        let mut outcome = run(by_chains);
        if matches!(outcome, Err(Stopped::Undecided)) {
            by_chains = false;
            outcome = run(by_chains);
        }
        Ok(Walk { outcome: outcome.map_err(Failure::Stopped)?, walked, by_chains })
    }
}

/// A finished run of the engine.
struct Walk {
    outcome: Outcome,
    /// Number of ranks walked.
    walked: u64,
    by_chains: bool,
}

fn accept(v: &mut Verdict, walk: Walk) {
    let Walk { outcome, walked, by_chains } = walk;
    v.ranks_walked = walked;
    v.acts = outcome.acts;
    v.by_chains = by_chains;
    v.range = (outcome.growth > 0).then(|| MAX_COUNT / outcome.growth);
    v.errors.extend(outcome.errors);
}

enum Failure {
    Said(Box<Diagnostic>),
    Stopped(Stopped),
}

impl From<SetupError<'_>> for Failure {
    fn from(e: SetupError) -> Self {
        Failure::Said(Box::new(match *e.1 {
            Unable::Said(d) => d,
            Unable::Fault(f) => show(e.0, &f),
        }))
    }
}

/// A failure of set-up, with the schedule that names its ranks.
struct SetupError<'s>(&'s Schedule, Box<Unable>);

/// Describes what is proven of counters that are not epochs, if there are any.
fn forms(s: &Schedule) -> Option<String> {
    let of = |is: fn(&Form) -> bool| s.signals.iter().filter(|g| is(&g.form)).map(|g| g.count).sum::<u64>();
    let senses = of(|f| matches!(f, Form::Sense { fresh: _ }));
    let clearing = of(|f| matches!(f, Form::Clearing { fresh: _ }));
    let part = |n: u64, what: &str| (n > 0).then(|| format!("{n} {what}"));
    let list: Vec<String> =
        [part(senses, "sense"), part(clearing, "clearing")].into_iter().flatten().collect();
    (!list.is_empty()).then(|| {
        format!(
            "counters that never overflow: {}; no wait misses its notify or takes that of another wait",
            list.join(", ")
        )
    })
}

fn words(s: &Schedule, v: &Verdict) -> String {
    let ranks = s.mesh.ranks();
    let mut out = vec![];
    out.push(match v.errors.list.len() {
        0 => "no errors".to_string(),
        1 => "1 error".to_string(),
        n => format!("{n} errors"),
    });
    out.push(match &v.meaning {
        Method::Exact => format!("meaning: exact multisets on all {ranks} ranks"),
        Method::Symmetric { orbits: 1 } => {
            format!("meaning: exact multisets on one rank that stands for {ranks}")
        }
        Method::Symmetric { orbits } => {
            format!("meaning: exact multisets on {orbits} ranks that stand for {ranks}")
        }
        Method::Fingerprints => format!("meaning: two random 61-bit sums on all {ranks} ranks"),
        Method::NotChecked => "meaning: not checked".to_string(),
    });
    if !v.without_contract.is_empty() {
        out.push(format!(
            "meaning not checked, because there is no contract: {}",
            v.without_contract.join(", ")
        ));
    }
    out.push(match v.order {
        Calls::None => "order and progress: not claimed; only the bounds of one call were checked".to_string(),
        Calls::First => "order and progress: the first call".to_string(),
        Calls::Any => format!(
            "order and progress: {} calls at any skew, which stand for all calls (the schedule repeats after {})",
            v.calls, v.period
        ),
    });
    if let Some(range) = v.range {
        out.push(format!("counters: in signed 32 bits for {range} calls"));
    }
    if let (Some(forms), true) = (forms(s), v.order != Calls::None && v.ok()) {
        out.push(forms);
    }
    if let Some(why) = &v.asymmetric {
        out.push(format!("one rank cannot stand for the others: {why}"));
    }
    out.push(format!("checked: {} operations", v.acts));
    out.join("\n")
}
