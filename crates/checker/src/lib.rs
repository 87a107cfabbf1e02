//! The checker: reads a schedule, whoever made it, and says what is wrong with it or what was shown.
//!
//! * **Meaning**: every place a promise names holds exactly the contributions it must (E341 to E344).
//! * **Order**: every two conflicting accesses are ordered, and every release, completion and acquire is in place,
//!   also from call to call at any skew of the ranks (E345 to E350).
//! * **Progress**: nothing waits for ever (E340); counters have one writer, stay in 32 bits and keep pace with what is
//!   waited for (E351 to E353).
//! * **Bounds**: every operation has a meaning on every rank (E302 to E305, from [`kbc_ir::walk`]), also where windows
//!   overlap in memory.
//!
//! It knows nothing of passes and believes no pass: it reads the schedule through [`kbc_ir::walk`], as everybody who
//! executes it does. One abstract execution ([`engine`]) is run with a domain of contents ([`contents`]) and a group
//! of symmetries ([`group`], shown by [`symmetry`]). The memory model is that of `docs/ir.md`.

#![deny(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]

mod calls;
mod clock;
mod contents;
mod counters;
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
mod stuck;
mod symmetry;
mod typing;

pub use expect::{Due, Held, Promised, promised};
pub use orbits::Orbits;

use contents::{Exact, Finger};
use counters::{Limits, MOST_COUNT};
use engine::{Engine, Outcome, Stopped};
use grid::Unable;
use group::{Action, Group};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::form::Form;
use kbc_ir::host::spelled;
use kbc_ir::promise::Clause;
use kbc_ir::schedule::{Calls, Region, Schedule};
use kbc_ir::walk::{Cursor, Fault, Program};
use setup::Setup;

/// How ranks stand for each other and what contents are told with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Up to [`EVERY_RANK`] every rank with exact multisets. Above, one rank of each orbit where that can be shown and
    /// nothing is wrong; else every rank, up to [`EXACT_RANKS`] with exact multisets, above with fingerprints.
    Auto,
    /// Every rank, exact multisets.
    Expanded,
    /// Every rank, random sums.
    Fingerprints,
    /// One rank of each orbit, exact multisets.
    Symmetric,
}

/// Up to this many ranks, all are walked with exact multisets, whether one stands for the others or not.
pub const EVERY_RANK: u64 = 9;

/// Up to this many ranks, all are walked with exact multisets where one does not stand for the others, or where something
/// is wrong: messages are about every rank.
pub const EXACT_RANKS: u64 = 64;

/// What to check and how far to go.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// The calls to be safe for; those the schedule says if absent.
    pub calls: Option<Calls>,
    /// How.
    pub way: Way,
    /// Calls between two allocations of the signals, over which counters must stay in 32 bits.
    pub stated_calls: u64,
    /// Walked operations above which the checker refuses.
    pub most_acts: u64,
    /// Different messages after which it stops.
    pub most_errors: usize,
    /// Says what contents are wrong also where accesses race, which makes them contents of one order out of many.
    pub all_kinds: bool,
}

impl Default for CheckOptions {
    fn default() -> Self {
        CheckOptions {
            calls: None,
            way: Way::Auto,
            stated_calls: 1 << 16,
            most_acts: 1 << 25,
            most_errors: 40,
            all_kinds: false,
        }
    }
}

/// How meaning was shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Method {
    /// Exact multisets on every rank.
    Exact,
    /// Exact multisets on one rank of each orbit.
    Symmetric {
        /// Orbits, that is, ranks walked.
        orbits: u64,
    },
    /// Sums of two random 61-bit numbers a contribution, on every rank.
    Fingerprints,
    /// Not at all: nothing was executed.
    NotChecked,
}

/// What the checker has to say.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What is wrong.
    pub errors: Diagnostics,
    /// How meaning was shown, where it was.
    pub meaning: Method,
    /// Collective regions without a promise, whose meaning was not checked.
    pub unpromised: Vec<String>,
    /// Which calls order and progress are shown for.
    pub order: Calls,
    /// Calls walked.
    pub calls: u64,
    /// After this many calls the schedule's text repeats.
    pub period: u64,
    /// Ranks walked.
    pub ranks_walked: u64,
    /// Operations walked.
    pub acts: u64,
    /// Calls until a counter leaves 32 bits; none if no counter grows.
    pub range: Option<u64>,
    /// Why symmetry did not apply, where it was tried.
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
    let spelled = spelled(schedule);
    let schedule = &*spelled;
    let wanted = options.calls.unwrap_or(schedule.calls);
    let blank = Verdict {
        errors: Diagnostics::new(),
        meaning: Method::NotChecked,
        unpromised: unpromised(schedule),
        order: wanted,
        calls: 0,
        period: 1,
        ranks_walked: 0,
        acts: 0,
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

fn unpromised(s: &Schedule) -> Vec<String> {
    let says = |r: &Region| {
        let ends = |c: &Clause| matches!(c, Clause::End { cell: _, cond: _, from: _, at: _, sum: _ });
        r.promise.as_ref().is_some_and(|p| p.clauses.iter().any(ends))
    };
    let collective = s.regions.iter().filter(|r| !r.over.is_empty() && !says(r));
    collective.map(|r| r.name.to_string()).collect()
}

/// Bounds alone: every operation of every rank has a meaning.
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
    let d = Diagnostic::error("E354", format!("more than {} operations would have to be walked", options.most_acts))
        .note(format!("{acts} were walked, on {ranks} ranks"))
        .help("make the schedule the same on every rank, moved, so that one rank stands for all; or raise the limit");
    match why {
        Some(w) => d.note(format!("all ranks were walked because {w}")),
        None => d,
    }
}

/// A refusal, with the reason why all ranks are walked.
fn because(d: Diagnostic, why: Option<&str>) -> Diagnostic {
    match why {
        Some(why) if d.code == "E354" => d.note(format!("all ranks are walked because {why}")),
        _ => d,
    }
}

/// Calls above which the checker refuses.
const MOST_CALLS: u64 = 1 << 10;

/// Ranks above which the checker refuses.
const MOST_RANKS: u64 = 1 << 20;

struct Check<'a> {
    program: &'a Program<'a>,
    options: &'a CheckOptions,
    wanted: Calls,
}

/// Entries of clocks and contents that may be held at once.
const MOST_STATE: u64 = 1 << 28;

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
        if v.calls > MOST_CALLS || ranks > MOST_RANKS {
            v.errors.push(
                Diagnostic::error(
                    "E354",
                    format!("{} calls on {ranks} ranks would have to be walked", v.calls),
                )
                .note(format!("the limits are {MOST_CALLS} calls and {MOST_RANKS} ranks"))
                .help("use `call` in `call mod k` and comparisons with small numbers only"),
            );
            return v;
        }
        let auto = self.options.way == Way::Auto;
        if self.options.way == Way::Symmetric || auto && ranks > EVERY_RANK {
            let mut one = v.clone();
            let reason = self.symmetric(&mut one);
            match reason {
                // Messages are about every rank where all can be walked exactly.
                None if auto && ranks <= EXACT_RANKS && !one.ok() => {}
                None => return one,
                Some(reason) => v.asymmetric = Some(reason),
            }
            if !auto {
                let reason = v.asymmetric.clone().unwrap_or_default();
                v.errors.push(
                    Diagnostic::error("E354", "one rank does not stand for the others")
                        .note(reason)
                        .help("let all ranks be walked"),
                );
                return v;
            }
        }
        let exact = self.options.way == Way::Expanded || auto && ranks <= EXACT_RANKS;
        v.meaning = if exact { Method::Exact } else { Method::Fingerprints };
        let group = Group::new(self.program.ranks(), vec![]);
        let actions = vec![Action::default(); s.buffers.len()];
        match self.execute(group, actions, exact, &v) {
            Ok((outcome, walked)) => self.accept(&mut v, outcome, walked),
            Err(Failure::Said(d)) => {
                let d = because(*d, v.asymmetric.as_deref());
                v.errors.push(d);
            }
            Err(Failure::Stopped(Stopped::Asymmetric(reason))) => v.asymmetric = Some(reason),
            Err(Failure::Stopped(Stopped::TooLong(acts))) => {
                let d = too_long(self.options, acts, self.program.ranks(), v.asymmetric.as_deref());
                v.errors.push(d);
            }
        }
        v
    }

    /// One rank of each orbit; why not, if that is not possible.
    fn symmetric(&self, v: &mut Verdict) -> Option<String> {
        let (group, actions) = match symmetry::find(self.program, v.calls) {
            Ok(found) => found,
            Err(reason) => return Some(reason),
        };
        let orbits = group.reps.len() as u64;
        match self.execute(group, actions, true, v) {
            Ok((outcome, walked)) => {
                v.meaning = Method::Symmetric { orbits };
                self.accept(v, outcome, walked);
            }
            Err(Failure::Said(d)) => v.errors.push(*d),
            Err(Failure::Stopped(Stopped::Asymmetric(reason))) => return Some(reason),
            Err(Failure::Stopped(Stopped::TooLong(acts))) => {
                v.errors.push(too_long(self.options, acts, orbits, None));
            }
        }
        None
    }

    fn accept(&self, v: &mut Verdict, outcome: Outcome, walked: u64) {
        v.ranks_walked = walked;
        v.acts = outcome.acts;
        v.range = (outcome.growth > 0).then(|| MOST_COUNT / outcome.growth);
        v.errors.extend(outcome.errors);
    }

    fn execute(
        &self,
        group: Group,
        actions: Vec<Action>,
        exact: bool,
        v: &Verdict,
    ) -> Result<(Outcome, u64), Failure> {
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
        if state > MOST_STATE {
            let d = Diagnostic::error(
                "E354",
                format!("{walked} ranks have too much state to be walked together"),
            )
            .note(format!("{state} entries of clocks and contents, the limit is {MOST_STATE}"))
            .help("make the schedule the same on every rank, moved, so that one rank stands for all");
            return Err(Failure::Said(Box::new(d)));
        }
        let outcome = if exact {
            Engine::<Exact>::new(&setup, &limits).run(&limits)
        } else {
            Engine::<Finger>::new(&setup, &limits).run(&limits)
        };
        Ok((outcome.map_err(Failure::Stopped)?, walked))
    }
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

/// What is shown of counters that are no epochs, if there are any.
fn forms(s: &Schedule) -> Option<String> {
    let of = |is: fn(&Form) -> bool| s.signals.iter().filter(|g| is(&g.form)).map(|g| g.count).sum::<u64>();
    let senses = of(|f| matches!(f, Form::Sense { fresh: _ }));
    let clearing = of(|f| matches!(f, Form::Clearing { fresh: _ }));
    let part = |n: u64, what: &str| (n > 0).then(|| format!("{n} {what}"));
    let list: Vec<String> =
        [part(senses, "sense"), part(clearing, "clearing")].into_iter().flatten().collect();
    (!list.is_empty()).then(|| {
        format!("counters without an end: {}; no wait misses or takes what another is for", list.join(", "))
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
    if !v.unpromised.is_empty() {
        out.push(format!("no promise, so no meaning checked: {}", v.unpromised.join(", ")));
    }
    out.push(match v.order {
        Calls::None => "order and progress: nothing is claimed, bounds of one call only".to_string(),
        Calls::First => "order and progress: the first call".to_string(),
        Calls::Any => format!(
            "order and progress: {} calls at any skew, which stand for all (the text repeats after {})",
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
        out.push(format!("ranks do not stand for each other: {why}"));
    }
    out.push(format!("walked: {} operations", v.acts));
    out.join("\n")
}
