//! Mutation testing of the checker: measures its error rate on mutants of schedules. Each mutant
//! gets the checker's verdict and an independent one, from running the mutant in every order that
//! matters.
//!
//! This module owns the choice of mutants and the counts. `kbc_checker::mutate` owns the mutations,
//! `kbc_checker` the verdict, and `kbc_judge` the classification by behaviour. The result depends
//! on the schedules and the seed alone, not on the number of threads.

pub mod reasons;
pub mod report;
pub mod subjects;

use crate::fuzz::rng::Rng;
use kbc_backend_sim::interp::{self, RunOptions, RunResult};
use kbc_checker::mutate::{Mutation, Operator, Target, apply, apply_on, meaning_preserving};
use kbc_checker::{CheckOptions, check};
use kbc_compiler::memory_budget::MemoryBudget;
use kbc_diag::{Diagnostic, Diagnostics, Severity};
use kbc_ir::schedule::{BufferRole, Schedule};
use kbc_ir::types::TensorType;
use kbc_ir::verify::verify;
use kbc_ir::{Body, Module};
use kbc_judge::{Behaviour, ClassifyOptions, Evidence, calls, classify, same};
use kbc_numerics::generate::{exact, exact_range};
use kbc_numerics::tensor::Tensor;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use subjects::Subject;

/// How much is measured.
#[derive(Clone, Debug)]
pub struct MutateSettings {
    /// Seed for the choice of mutants and of orders.
    pub seed: u64,
    /// Total number of mutants, spread evenly over the schedules; all mutants if absent.
    pub limit: Option<usize>,
    /// Number of threads.
    pub jobs: usize,
    /// Budget for exploring one mutant, in events.
    pub events: u64,
    /// Number of random runs if the exploration does not end within its budget.
    pub runs: u64,
    /// The memory that a run may take.
    pub memory_budget: MemoryBudget,
}

/// The outcome of a mutant.
#[derive(Clone, PartialEq, Debug)]
pub enum MutantOutcome {
    /// Every rank does what it did before, so this is not a mutant.
    Unchanged,
    /// The verifier or the checker rejects it.
    Rejected {
        /// Whether the verifier rejected it, before the checker ran.
        refused: bool,
        /// Evidence, if running it shows no misbehaviour.
        equivalent: Option<Evidence>,
        /// The error codes.
        codes: Vec<&'static str>,
    },
    /// Accepted, and it misbehaves; a description of how.
    Escaped(String),
    /// Accepted, and it never misbehaves.
    Equivalent(Evidence),
    /// Accepted, and too long or too large to run.
    Unclassified,
}

/// One mutant.
#[derive(Clone, PartialEq, Debug)]
pub struct MutantRow {
    /// Index of the schedule.
    pub subject: usize,
    /// Index among all mutations of the schedule.
    pub mutation: usize,
    /// The one rank of a group that has the mutation, by its index in the group; all ranks if
    /// absent.
    pub rank: Option<u64>,
    /// Description of the change.
    pub text: String,
    /// The operator and the target of the mutation.
    pub class: (Operator, Target),
    /// The outcome.
    pub outcome: MutantOutcome,
}

/// An unmodified schedule with its own verdicts.
pub struct BaseSchedule {
    /// Number of consecutive calls.
    pub calls: u32,
    feeds: Vec<Vec<Tensor>>,
    expected: RunResult,
    /// Codes with which the checker rejects it.
    pub alarm: Vec<&'static str>,
    /// How it misbehaves although the checker accepts it.
    pub wrong: Option<String>,
    /// Whether it has more events than can be run in other orders. Such a schedule gets no mutants.
    pub too_long: bool,
    /// Why it does not fit in memory. Such a schedule gets no mutants.
    pub no_room: Option<String>,
    /// Mutations of it.
    pub mutations: Vec<Mutation>,
}

/// All schedules and all mutants.
pub struct Findings {
    /// In the order of the schedules.
    pub bases: Vec<BaseSchedule>,
    /// In the order of the schedules, then of mutations and ranks.
    pub rows: Vec<MutantRow>,
}

/// Runs `f` for every number below `n` on `jobs` threads, and returns the results in order.
pub(crate) fn parallel<T: Send>(jobs: usize, n: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let out: Mutex<Vec<(usize, T)>> = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, n.max(1)) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= n {
                        break;
                    }
                    let done = f(i);
                    if let Ok(mut out) = out.lock() {
                        out.push((i, done));
                    }
                }
            });
        }
    });
    let mut out = out.into_inner().unwrap_or_else(|e| e.into_inner());
    out.sort_by_key(|x| x.0);
    out.into_iter().map(|x| x.1).collect()
}

/// Measures the checker on some schedules.
pub fn measure(subjects: &[Subject], settings: &MutateSettings) -> Findings {
    let bases = parallel(settings.jobs, subjects.len(), |i| base(&subjects[i], settings));
    let quota = settings.limit.map(|n| n.div_ceil(subjects.len().max(1)));
    let mut drawn: Vec<(usize, usize, Option<u64>)> = vec![];
    for (i, b) in bases.iter().enumerate().filter(|(_, b)| b.alarm.is_empty() && b.wrong.is_none()) {
        let Some(s) = subjects[i].module.schedule() else { continue };
        let list = draw(s, &b.mutations, quota, &mut Rng::new(&[settings.seed, i as u64]));
        drawn.extend(list.into_iter().map(|(m, rank)| (i, m, rank)));
    }
    drawn.truncate(settings.limit.unwrap_or(usize::MAX));
    let rows = parallel(settings.jobs, drawn.len(), |k| {
        let (subject, mutation, rank) = drawn[k];
        let b = &bases[subject];
        let m = &b.mutations[mutation];
        let text = match rank {
            Some(r) => format!("{}, only on rank {r} of a group", m.text),
            None => m.text.clone(),
        };
        let module = mutant(&subjects[subject].module, m, rank);
        let outcome = judge(&subjects[subject].module, &module, b, settings);
        MutantRow { subject, mutation, rank, text, class: m.class(), outcome }
    });
    Findings { bases, rows }
}

/// Returns a mutant as a module.
pub fn mutant(module: &Module, m: &Mutation, rank: Option<u64>) -> Module {
    let body = match &module.body {
        Body::Schedule(s) => Body::Schedule(match rank {
            Some(r) => apply_on(s, m, r),
            None => apply(s, m),
        }),
        other @ (Body::Graph(_) | Body::Local(_)) => other.clone(),
    };
    Module { body, ..module.clone() }
}

/// Index of a mutation, and the one rank that has it if there is one.
type Pick = (usize, Option<u64>);

/// Chooses the mutations. It takes from each class of change in turn, so that rare classes are
/// included.
fn draw(s: &Schedule, all: &[Mutation], quota: Option<usize>, rng: &mut Rng) -> Vec<(usize, Option<u64>)> {
    let mut classes: BTreeMap<(Operator, Target), Vec<Pick>> = BTreeMap::new();
    for (i, m) in all.iter().enumerate() {
        let list = classes.entry(m.class()).or_default();
        list.push((i, None));
        let ranks = s.group_size(&s.regions[m.site.region]);
        if ranks > 1 && m.kind.on_one_rank() {
            list.extend((0..ranks).map(|r| (i, Some(r))));
        }
    }
    let mut out = vec![];
    for list in classes.values_mut() {
        // A shuffle, so that taking elements from the end is a random choice.
        for i in (1..list.len()).rev() {
            list.swap(i, rng.below(i + 1));
        }
    }
    // If the quota reaches only some classes, each schedule begins with another class.
    let mut lists: Vec<_> = classes.into_values().collect();
    let first = rng.below(lists.len().max(1));
    let first = first.min(lists.len());
    lists.rotate_left(first);
    let quota = quota.unwrap_or(usize::MAX);
    while out.len() < quota && lists.iter().any(|l| !l.is_empty()) {
        for list in &mut lists {
            if out.len() < quota {
                out.extend(list.pop());
            }
        }
    }
    out.sort_unstable();
    out
}

/// Returns the types of the inputs, by number.
fn input_types(s: &Schedule) -> Vec<TensorType> {
    let mut out: Vec<(u32, TensorType)> = s
        .buffers
        .iter()
        .filter_map(|b| match b.role {
            BufferRole::Input(n) => Some((n, b.global.clone()?)),
            _ => None,
        })
        .collect();
    out.sort_by_key(|x| x.0);
    out.dedup_by_key(|x| x.0);
    out.into_iter().map(|x| x.1).collect()
}

fn codes(list: &[Diagnostic]) -> Vec<&'static str> {
    let mut out: Vec<_> = list.iter().filter(|d| d.severity == Severity::Error).map(|d| d.code).collect();
    out.sort_unstable();
    out.dedup();
    out
}

fn base(subject: &Subject, settings: &MutateSettings) -> BaseSchedule {
    let mut b = BaseSchedule {
        calls: 1,
        feeds: vec![],
        expected: RunResult::default(),
        alarm: vec![],
        wrong: None,
        too_long: false,
        no_room: None,
        mutations: vec![],
    };
    let Some(s) = subject.module.schedule() else { return b };
    b.alarm = codes(&check(s, &CheckOptions::default()).errors.list);
    b.calls = calls(s);
    b.mutations = meaning_preserving(s);
    // Whole numbers without a period, different in every call, so that misplaced data shows.
    let feeds = (0..b.calls).map(|call| {
        let tensor = |(i, ty): (usize, &TensorType)| {
            exact(ty, &s.mesh, exact_range(ty.dtype, s.mesh.ranks(), 1, false), i as u32, call)
        };
        input_types(s).iter().enumerate().map(tensor).collect::<Result<Vec<_>, _>>()
    });
    let fits = settings.memory_budget.calls_fit(s, b.calls, false);
    let feeds = fits.and_then(|()| feeds.collect::<Result<Vec<_>, _>>()).map_err(Diagnostics::from);
    let run = feeds.and_then(|feeds| {
        let o = RunOptions {
            calls: b.calls,
            max_bytes: settings.memory_budget.engine_bytes(),
            ..RunOptions::default()
        };
        Ok((interp::run(s, &feeds, &o)?, feeds))
    });
    match run {
        Ok((expected, feeds)) => (b.expected, b.feeds) = (expected, feeds),
        // A lack of memory is no finding about the schedule.
        Err(d) if lacks_memory(&d) => {
            b.no_room = Some(first(&d));
            b.mutations.clear();
            return b;
        }
        Err(d) => b.wrong = Some(first(&d)),
    }
    if b.wrong.is_none() && b.alarm.is_empty() {
        match behaviour(s, &b, settings) {
            Behaviour::Misbehaves(how) => b.wrong = Some(how),
            Behaviour::Stands(_) => {}
            Behaviour::TooLong => {
                b.too_long = true;
                b.mutations.clear();
            }
        }
    }
    b
}

/// Returns the title of the first diagnostic.
fn first(d: &Diagnostics) -> String {
    d.list.first().map_or(String::new(), |d| d.title.clone())
}

/// Checks whether a run ended because of a lack of memory.
fn lacks_memory(d: &Diagnostics) -> bool {
    d.list.iter().any(|d| matches!(d.code, "E368" | "E369"))
}

fn behaviour(s: &Schedule, b: &BaseSchedule, settings: &MutateSettings) -> Behaviour {
    let options = ClassifyOptions {
        calls: b.calls,
        events: settings.events,
        runs: settings.runs,
        seed: settings.seed,
        ..ClassifyOptions::default()
    };
    match classify(s, &b.feeds, &b.expected, &options) {
        Ok(found) => found,
        Err(d) if lacks_memory(&d) => Behaviour::TooLong,
        // The inputs fit the original, so a mutant that they do not fit misbehaves.
        Err(d) => Behaviour::Misbehaves(first(&d)),
    }
}

fn judge(original: &Module, module: &Module, b: &BaseSchedule, settings: &MutateSettings) -> MutantOutcome {
    let (Some(s), Some(before)) = (module.schedule(), original.schedule()) else {
        return MutantOutcome::Unchanged;
    };
    if same(before, s, b.calls) {
        return MutantOutcome::Unchanged;
    }
    let refusal = codes(&verify(module).list);
    let refused = !refusal.is_empty();
    let codes = if refused { refusal } else { codes(&check(s, &CheckOptions::default()).errors.list) };
    match (behaviour(s, b, settings), codes.is_empty()) {
        (Behaviour::Misbehaves(how), true) => MutantOutcome::Escaped(how),
        (Behaviour::Stands(e), true) => MutantOutcome::Equivalent(e),
        (Behaviour::TooLong, true) => MutantOutcome::Unclassified,
        (Behaviour::Stands(e), false) => MutantOutcome::Rejected { refused, equivalent: Some(e), codes },
        (_, false) => MutantOutcome::Rejected { refused, equivalent: None, codes },
    }
}
