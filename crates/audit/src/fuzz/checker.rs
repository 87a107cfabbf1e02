//! Fuzzer of the checker: runs random schedules and mutants to decide whether its verdicts are
//! right.
//!
//! This module owns the choice of schedules, the number of calls and the counts.
//! `kbc_judge::oracle` computes the expected results, and `kbc_judge` decides whether a schedule
//! always gives them; neither depends on the checker. Everything depends only on the seed and
//! on the number of a schedule.

use super::rng::Rng;
use super::{catalogue, generate, library, machine, make, rounds, written};
use crate::mutate::{parallel, reasons};
use kbc_backend_sim::interp::{self, RunOptions};
use kbc_checker::mutate::{MutationKind, all, apply, apply_on};
use kbc_checker::{CheckOptions, check};
use kbc_diag::{Diagnostics, FileId, Severity, Span};
use kbc_ir::expr::{BinOp, Expr, gcd};
use kbc_ir::schedule::{BufferRole, CALL, Calls, SOp, SStmt, Schedule};
use kbc_ir::text::{PrintOptions, parse, print};
use kbc_ir::types::{DType, ReduceOp, TensorType};
use kbc_ir::verify::verify;
use kbc_ir::visit::{Field, FieldMut, each_field, op_fields_mut};
use kbc_ir::walk::{Cursor, Program, Step};
use kbc_ir::{Body, Module, Props};
use kbc_judge::oracle::{Undetermined, required_results};
use kbc_judge::{Behaviour, ClassifyOptions, Evidence, classify, same};
use kbc_numerics::generate::{exact, exact_range, powers};
use kbc_numerics::tensor::Tensor;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What is tried, and how thoroughly.
#[derive(Clone, Debug)]
pub struct FuzzSettings {
    /// Seed of schedules, changes and orders.
    pub seed: u64,
    /// Number of threads.
    pub jobs: usize,
    /// Largest number of events for exploring all orders of a schedule that the checker accepts.
    pub events: u64,
}

/// The outcome for a schedule.
#[derive(Clone, PartialEq, Debug)]
pub enum TrialOutcome {
    /// It behaves like the correct schedule.
    Unchanged,
    /// Accepted, and no misbehaviour was found.
    Stands,
    /// Accepted, and it misbehaves as described: a defect of the checker.
    Escaped(String),
    /// Rejected, and it misbehaves.
    Refused,
    /// Rejected with these codes, but no misbehaviour was found.
    Quiet(Vec<&'static str>),
    /// The verifier rejects it with this code, so it is not run.
    Unformed(&'static str),
    /// Too long to run.
    TooLong,
}

/// A schedule that was drawn, with its outcome.
#[derive(Clone, Debug)]
pub struct ScheduleTrial {
    /// Its number.
    pub number: u64,
    /// Number of ranks.
    pub ranks: u64,
    /// Descriptions of the changes; empty for an unchanged schedule.
    pub changes: Vec<String>,
    /// The outcome.
    pub outcome: TrialOutcome,
    /// Whether all orders were explored.
    pub explored: bool,
    /// Whether passing every constant would take more calls than were run.
    pub short: bool,
    /// Its text, if it escaped, if it is rejected without having been changed, or if it is rejected
    /// for no known reason.
    pub text: String,
}

/// Counts and findings.
#[derive(Clone, Debug, Default)]
pub struct CheckerSummary {
    /// Schedules that do not behave like the correct one.
    pub tried: u64,
    /// Those of them that were changed.
    pub mutants: u64,
    /// Schedules that behave like the correct one.
    pub unchanged: u64,
    /// Accepted, and no misbehaviour was found.
    pub stands: u64,
    /// Accepted, and they misbehave.
    pub escaped: Vec<ScheduleTrial>,
    /// Rejected, and they misbehave.
    pub refused: u64,
    /// Rejected, but no misbehaviour was found, by the first code: count, and the first number.
    pub quiet: BTreeMap<&'static str, (u64, u64)>,
    /// Rejected by the verifier, by the first code: count, and the first number.
    pub unformed: BTreeMap<&'static str, (u64, u64)>,
    /// Rejected without having been changed, and no misbehaviour was found.
    pub alarms: Vec<ScheduleTrial>,
    /// Rejected with a code for which no reason is recorded, and no misbehaviour was found.
    pub unexplained: Vec<ScheduleTrial>,
    /// Too long to run.
    pub too_long: u64,
    /// Schedules all of whose orders were explored without misbehaviour.
    pub explored: u64,
    /// Schedules that need more calls than were run.
    pub short: u64,
    /// Counts by number of ranks: up to 6, up to 12, up to 79, more.
    pub sizes: [u64; 4],
}

impl CheckerSummary {
    fn add(&mut self, t: ScheduleTrial) {
        if t.outcome == TrialOutcome::Unchanged {
            self.unchanged += 1;
            return;
        }
        self.tried += 1;
        self.mutants += u64::from(!t.changes.is_empty());
        self.sizes[match t.ranks {
            0..=6 => 0,
            7..=12 => 1,
            13..=79 => 2,
            _ => 3,
        }] += 1;
        self.short += u64::from(t.short);
        self.explored += u64::from(t.explored);
        match &t.outcome {
            TrialOutcome::Unchanged => {}
            TrialOutcome::Stands => self.stands += 1,
            TrialOutcome::Escaped(_) => self.escaped.push(t),
            TrialOutcome::Refused => self.refused += 1,
            TrialOutcome::Quiet(codes) => {
                let code = codes.first().copied().unwrap_or("none");
                self.quiet.entry(code).or_insert((0, t.number)).0 += 1;
                if t.changes.is_empty() {
                    self.alarms.push(t);
                } else if reasons::reason(code).is_none() {
                    self.unexplained.push(t);
                }
            }
            TrialOutcome::Unformed(code) => {
                self.unformed.entry(code).or_insert((0, t.number)).0 += 1;
                if t.changes.is_empty() {
                    self.alarms.push(t);
                }
            }
            TrialOutcome::TooLong => self.too_long += 1,
        }
    }

    /// Checks whether the checker was always right.
    pub fn ok(&self) -> bool {
        self.escaped.is_empty() && self.alarms.is_empty() && self.unexplained.is_empty()
    }

    /// Formats the counts.
    pub fn text(&self) -> String {
        let quiet: u64 = self.quiet.values().map(|q| q.0).sum();
        let right = self.stands + quiet;
        let mut out = format!(
            "{} schedules, {} of them mutants; {} more drawn that were the same as the right one\n",
            self.tried, self.mutants, self.unchanged
        );
        let [a, b, c, d] = self.sizes;
        let _ = writeln!(out, "ranks: {a} up to 6, {b} up to 12, {c} up to 79, {d} more");
        let _ = writeln!(out, "accepted: {} stand, {} misbehave", self.stands, self.escaped.len());
        let unformed: u64 = self.unformed.values().map(|q| q.0).sum();
        let _ = writeln!(
            out,
            "refused: {unformed} by the verifier, which need not be run; {} misbehave, {quiet} were never seen to",
            self.refused
        );
        let _ = writeln!(
            out,
            "of {right} that were never seen to misbehave all orders of {} were explored, others run in random orders; {} need more calls than were run",
            self.explored, self.short
        );
        if self.too_long > 0 {
            let _ = writeln!(out, "{} are too long to be run", self.too_long);
        }
        for (code, (n, first)) in &self.quiet {
            let why = reasons::reason(code).unwrap_or("NOT EXPLAINED");
            let _ = writeln!(out, "  {code} {n} x, first number {first}: {why}");
        }
        out
    }
}

/// Returns a schedule as a module.
pub fn module(s: &Schedule) -> Module {
    Module {
        name: s.name.clone(),
        machine: None,
        mesh: s.mesh.clone(),
        body: Body::Schedule(s.clone()),
        props: Props::default(),
        attributes: Default::default(),
    }
}

/// Correct schedules from which changes start, beside the random ones.
pub struct Pool(Vec<Schedule>);

/// Largest number of ranks of a library collective in the pool.
const POOL_RANKS: u64 = 9;

impl Pool {
    /// Creates a pool of `programs` programs with collectives of the library, and the given
    /// schedules.
    pub fn new(given: &[Schedule], programs: usize, settings: &FuzzSettings) -> Pool {
        let loaded = library();
        let catalogue = catalogue::Catalogue::new(&loaded);
        let made = parallel(settings.jobs, programs, |i| {
            let rng = &mut Rng::new(&[settings.seed, i as u64, 5]);
            let machine = machine::RandomMachine::random(rng);
            let text = generate::collectives(&catalogue, rng, machine).text();
            make(&text).ok().map(|m| m.schedule).filter(|s| s.mesh.ranks() <= POOL_RANKS && length(s) < 600)
        });
        Pool(given.iter().cloned().chain(written::schedules()).chain(made.into_iter().flatten()).collect())
    }
}

/// Returns the number of operations of all ranks in one call.
fn length(s: &Schedule) -> u64 {
    let Ok(p) = Program::compile(s) else { return 0 };
    let mut n = 0;
    for rank in 0..p.ranks() {
        for stream in 0..p.streams.len() as u32 {
            let mut cursor = Cursor::new(&p, rank, stream, 0);
            while let Ok(Some(step)) = cursor.next_step() {
                n += u64::from(matches!(step, Step::Act(..)));
                if n > MAX_OPS {
                    return n;
                }
            }
        }
    }
    n
}

/// Number of operations of one call at which counting stops.
const MAX_OPS: u64 = 200_000;

/// How expressions use the call: the largest constant beside it, and the period after which all
/// values repeat.
#[derive(Default)]
struct Spans {
    most: u64,
    period: u64,
}

impl Spans {
    fn constant(&mut self, e: &Expr) {
        let n = e.as_int().map_or(0, i64::unsigned_abs);
        // A larger constant is not a number of calls.
        if n <= 64 {
            self.most = self.most.max(n);
        }
    }

    fn look(&mut self, e: &Expr, s: &Schedule) {
        if !e.mentions(CALL) {
            return;
        }
        match e {
            Expr::Int(_) | Expr::Var(_) => {}
            Expr::Un(_, a) => self.look(a, s),
            Expr::Table(name, a) => {
                let table = s.tables.iter().find(|t| t.name == *name);
                self.most = self.most.max(table.map_or(0, |t| t.values.len() as u64));
                self.look(a, s);
            }
            Expr::Select(a, b, c) => [a, b, c].into_iter().for_each(|x| self.look(x, s)),
            Expr::Bin(op, a, b) => {
                self.look(a, s);
                self.look(b, s);
                match op {
                    BinOp::Mod => {
                        let k = b.as_int().map_or(1, i64::unsigned_abs).clamp(1, 64);
                        let now = self.period.max(1);
                        self.period = (now / gcd(now, k) * k).min(64);
                    }
                    BinOp::Div | BinOp::Shr => {
                        self.constant(b);
                        self.most = (self.most * 2).min(64);
                    }
                    BinOp::Add
                    | BinOp::Sub
                    | BinOp::Min
                    | BinOp::Max
                    | BinOp::Eq
                    | BinOp::Ne
                    | BinOp::Lt
                    | BinOp::Le
                    | BinOp::Gt
                    | BinOp::Ge
                    | BinOp::Xor
                    | BinOp::BitAnd
                    | BinOp::BitOr => {
                        self.constant(a);
                        self.constant(b);
                    }
                    BinOp::Mul | BinOp::And | BinOp::Or | BinOp::Shl => {}
                }
            }
        }
    }
}

/// Returns a number of calls in which every constant beside the call is passed and every ring of
/// slots is used again, and whether fewer calls than that are run.
pub fn calls(s: &Schedule) -> (u32, bool) {
    if s.calls == Calls::First {
        return (1, false);
    }
    let mut spans = Spans::default();
    each_field(s, &mut |_, field| {
        if let Field::Expr(_, e) = field {
            spans.look(e, s);
        }
    });
    let wanted = (spans.period + 2).max(spans.most + 2 + spans.period.min(2)).max(3);
    let affordable = (12_000 / length(s).max(1)).clamp(2, 70);
    (wanted.min(affordable) as u32, wanted > affordable)
}

fn inputs(s: &Schedule, calls: u32) -> Result<Vec<Vec<Tensor>>, String> {
    let mut types: BTreeMap<u32, TensorType> = BTreeMap::new();
    for b in &s.buffers {
        if let (BufferRole::Input(n), Some(ty)) = (b.role, &b.global) {
            types.entry(n).or_insert_with(|| ty.clone());
        }
    }
    // An input of which no buffer is a part is never read.
    for n in 0..types.keys().next_back().map_or(0, |n| n.saturating_add(1)).min(16) {
        types.entry(n).or_insert_with(|| TensorType::replicated(DType::F32, &[1]));
    }
    let mut multiplies = false;
    each_field(s, &mut |_, field| {
        multiplies |=
            matches!(field, Field::Combiner(ReduceOp::Prod) | Field::Promised(Some(ReduceOp::Prod)));
    });
    let tensor = |call: u32, (i, ty): (&u32, &TensorType)| {
        if multiplies && ty.dtype.is_float() {
            // There are as many factors as ranks, and as many summands after them.
            let p = s.mesh.ranks().max(1);
            let factors = u32::try_from(p).unwrap_or(u32::MAX);
            let most = exact_range(ty.dtype, 2 * p, factors, false).modulus - 1;
            return powers(ty, &s.mesh, most, *i, call).map_err(|d| d.title);
        }
        // Several sums may follow each other, with a doubling in between; small numbers stay exact.
        let (p, wide) = (s.mesh.ranks().max(1), ty.dtype.bytes() > 2);
        let summands = if wide && p <= 20 { 8 * p.pow(3) } else { 2 * p };
        let mut range = exact_range(ty.dtype, summands, 1, true);
        range.modulus = range.modulus.min(2047);
        exact(ty, &s.mesh, range, *i, call).map_err(|d| d.title)
    };
    (0..calls).map(|call| types.iter().map(|t| tensor(call, t)).collect()).collect()
}

/// Returns the behaviour of a schedule, and whether it was run for too few calls.
pub fn judge(s: &Schedule, events: u64, runs: u64, seed: u64) -> (Behaviour, bool) {
    let (calls, short) = calls(s);
    let wrong = |why: String| (Behaviour::Misbehaves(why), short);
    let feeds = match inputs(s, calls) {
        Ok(feeds) => feeds,
        Err(why) => return wrong(why),
    };
    let title = |d: Diagnostics| d.list.into_iter().next().map_or(String::new(), |d| d.title);
    let want = match required_results(s, &feeds, calls) {
        Ok(want) => want,
        Err(Undetermined::Wrong(why)) => return wrong(why),
        Err(Undetermined::Open) => {
            let options = RunOptions { calls, ..RunOptions::default() };
            match interp::run(s, &feeds, &options) {
                Ok(want) => want,
                Err(d) => return wrong(title(d)),
            }
        }
    };
    let options = ClassifyOptions { calls, events, runs, first: 12.min(runs), seed };
    match classify(s, &feeds, &want, &options) {
        Ok(b) => (b, short),
        Err(d) => wrong(title(d)),
    }
}

fn codes(list: &Diagnostics) -> Vec<&'static str> {
    let mut out: Vec<_> =
        list.list.iter().filter(|d| d.severity == Severity::Error).map(|d| d.code).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Returns the codes of the verifier or the checker for a schedule, and whether they are the
/// verifier's.
fn verdict(s: &Schedule) -> (Vec<&'static str>, bool) {
    let found = codes(&verify(&module(s)));
    if !found.is_empty() {
        return (found, true);
    }
    if s.calls == Calls::None {
        return (vec!["E359"], false);
    }
    (codes(&check(s, &CheckOptions::default()).errors), false)
}

/// Returns the outcome of a schedule, whether all orders were explored, and whether it ran for too
/// few calls.
fn outcome(s: &Schedule, settings: &FuzzSettings, seed: u64) -> (TrialOutcome, bool, bool) {
    let Ok((refused, unformed)) = catch_unwind(AssertUnwindSafe(|| verdict(s))) else {
        return (TrialOutcome::Escaped("verifier or checker panic".into()), false, false);
    };
    if unformed {
        return (TrialOutcome::Unformed(refused.first().copied().unwrap_or("none")), false, false);
    }
    let run = AssertUnwindSafe(|| {
        let large = s.mesh.ranks() > 12;
        let (events, runs) = match (refused.is_empty(), large) {
            (true, false) => (settings.events, 200),
            (false, false) => (settings.events / 4, 60),
            (_, true) => (0, if s.mesh.ranks() > 100 { 2 } else { 8 }),
        };
        judge(s, events, runs, seed)
    });
    let (behaviour, short) = match catch_unwind(run) {
        Ok(found) => found,
        Err(_) => (Behaviour::Misbehaves("running it panics".into()), false),
    };
    let explored = matches!(behaviour, Behaviour::Stands(Evidence::Every(_)));
    let outcome = match (behaviour, refused.is_empty()) {
        (Behaviour::Misbehaves(how), true) => TrialOutcome::Escaped(how),
        (Behaviour::Misbehaves(_), false) => TrialOutcome::Refused,
        (Behaviour::Stands(_), true) => TrialOutcome::Stands,
        (Behaviour::Stands(_), false) => TrialOutcome::Quiet(refused),
        (Behaviour::TooLong, _) => TrialOutcome::TooLong,
    };
    (outcome, explored, short)
}

fn random(rng: &mut Rng) -> Option<Schedule> {
    let text = rounds::text(rng);
    match parse(FileId(0), &text) {
        Ok(m) => m.schedule().cloned(),
        Err(_) => None,
    }
}

/// Returns schedule `number` of a seed before and after the changes, with their descriptions.
fn drawn(pool: &Pool, seed: u64, number: u64) -> Option<(Schedule, Schedule, Vec<String>)> {
    let rng = &mut Rng::new(&[seed, number, 7]);
    let base = if pool.0.is_empty() || rng.chance(60) { random(rng)? } else { rng.pick(&pool.0).clone() };
    let mut s = base.clone();
    let mut changes = vec![];
    for _ in 0..rng.weighted(&[(12, 0), (70, 1), (18, 2)]) {
        if rng.chance(12) {
            changes.extend(insert(&mut s, rng));
            continue;
        }
        let list = all(&s);
        // Half of the draws choose among kinds of fields, so that rare kinds are drawn often
        // enough.
        let mut by: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (i, m) in list.iter().enumerate() {
            let class = match m.kind {
                MutationKind::Field(spot, _) => spot.name,
                _ => m.word,
            };
            by.entry(class).or_default().push(i);
        }
        let classes: Vec<&Vec<usize>> = by.values().collect();
        if classes.is_empty() {
            break;
        }
        let m = if rng.chance(50) {
            let class = rng.below(classes.len());
            &list[*rng.pick(classes[class])]
        } else {
            rng.pick(&list)
        };
        let region = s.regions.get(m.site.region);
        let group = region.map_or(1, |r| s.group_size(r)).max(1);
        if m.kind.on_one_rank() && rng.chance(30) {
            let rank = rng.below(group as usize) as u64;
            changes.push(format!("{}, only on rank {rank} of a group", m.text));
            s = apply_on(&s, m, rank);
        } else {
            changes.push(m.text.clone());
            s = apply(&s, m);
        }
    }
    Some((base, s, changes))
}

/// Repeats an operation of the schedule at another place: in another region, role or stream.
fn insert(s: &mut Schedule, rng: &mut Rng) -> Option<String> {
    let mut ops: Vec<(SOp, Span)> = vec![];
    fn collect(list: &[SStmt], out: &mut Vec<(SOp, Span)>) {
        for st in list {
            match st {
                SStmt::For { var: _, lo: _, hi: _, body } => collect(body, out),
                SStmt::If { cond: _, then, other } => {
                    collect(then, out);
                    collect(other, out);
                }
                SStmt::Op(op, span) => out.push((op.clone(), *span)),
            }
        }
    }
    let streams = s.regions.iter().flat_map(|r| &r.roles).flat_map(|role| &role.streams);
    streams.for_each(|st| collect(&st.body, &mut ops));
    let local = |x: &&(SOp, Span)| matches!(x.0, SOp::Local(_));
    let locals: Vec<_> = ops.iter().filter(local).cloned().collect();
    // Half of them are local operations, whose meaning contracts do not describe.
    let from = if !locals.is_empty() && rng.chance(50) { &locals } else { &ops };
    if from.is_empty() {
        return None;
    }
    let (mut op, span) = rng.pick(from).clone();
    let region = rng.below(s.regions.len());
    let region = &mut s.regions[region];
    let name = region.name.clone();
    // A local operation uses the operands of its new region.
    if matches!(op, SOp::Local(_)) && !region.operands.is_empty() && rng.chance(70) {
        op_fields_mut(&mut op, &mut |field| match field {
            FieldMut::Buffer(_, b) => *b = rng.pick(&region.operands).buffer,
            FieldMut::Buffers(list) => {
                if let Some(b) = list.first_mut() {
                    *b = rng.pick(&region.operands).buffer;
                }
            }
            _ => {}
        });
    }
    let count = region.roles.len();
    let role = region.roles.get_mut(rng.below(count))?;
    let count = role.streams.len();
    let body = &mut role.streams.get_mut(rng.below(count))?.body;
    let at = rng.below(body.len() + 1);
    let text = format!("{} in region {name}: put in as statement {at}", op.word());
    body.insert(at, SStmt::Op(op, span));
    Some(text)
}

fn shown(s: &Schedule) -> String {
    print(&module(s), &PrintOptions::default())
}

fn trial(pool: &Pool, settings: &FuzzSettings, number: u64) -> ScheduleTrial {
    let mut t = ScheduleTrial {
        number,
        ranks: 0,
        changes: vec![],
        outcome: TrialOutcome::Unchanged,
        explored: false,
        short: false,
        text: String::new(),
    };
    let made = catch_unwind(AssertUnwindSafe(|| drawn(pool, settings.seed, number)));
    let Ok(made) = made else {
        t.outcome = TrialOutcome::Escaped("a panic while it was made".into());
        return t;
    };
    let Some((base, s, changes)) = made else {
        t.outcome = TrialOutcome::Escaped("the generator wrote what cannot be read".into());
        t.text = rounds::text(&mut after_choice(settings.seed, number));
        return t;
    };
    t.ranks = s.mesh.ranks();
    let alike = AssertUnwindSafe(|| s == base || headers_alike(&base, &s) && same(&base, &s, calls(&s).0));
    if !changes.is_empty() && verify(&module(&s)).list.is_empty() && catch_unwind(alike).unwrap_or(false) {
        return t;
    }
    t.changes = changes;
    (t.outcome, t.explored, t.short) = outcome(&s, settings, number);
    match &t.outcome {
        TrialOutcome::Escaped(_) => t.text = shown(&smaller(s, settings, number)),
        TrialOutcome::Quiet(_) | TrialOutcome::Unformed(_) if t.changes.is_empty() => t.text = shown(&s),
        TrialOutcome::Quiet(codes) if codes.first().is_none_or(|c| reasons::reason(c).is_none()) => {
            t.text = shown(&s);
        }
        _ => {}
    }
    t
}

/// Returns the random numbers of a schedule after the choice of its kind.
fn after_choice(seed: u64, number: u64) -> Rng {
    let mut rng = Rng::new(&[seed, number, 7]);
    rng.chance(60);
    rng
}

/// Checks whether everything but the bodies is equal. Bodies are compared by walking them.
fn headers_alike(a: &Schedule, b: &Schedule) -> bool {
    let bare = |s: &Schedule| {
        let mut s = s.clone();
        for stream in s.regions.iter_mut().flat_map(|r| &mut r.roles).flat_map(|r| &mut r.streams) {
            stream.body.clear();
        }
        s
    };
    bare(a) == bare(b)
}

/// Largest number of changes tried to make an escape smaller.
const SMALLER: usize = 150;

/// Removes operations without which the schedule still escapes.
fn smaller(mut s: Schedule, settings: &FuzzSettings, seed: u64) -> Schedule {
    let escapes = |s: &Schedule| matches!(outcome(s, settings, seed).0, TrialOutcome::Escaped(_));
    let mut tried = 0;
    let mut at = 0;
    while tried < SMALLER {
        let drops: Vec<_> = all(&s).into_iter().filter(|m| m.kind == MutationKind::Drop).collect();
        let Some(m) = drops.get(at) else { break };
        let less = apply(&s, m);
        tried += 1;
        if escapes(&less) {
            s = less;
        } else {
            at += 1;
        }
    }
    s
}

/// Number of schedules between two reports of progress.
const STEP: u64 = 512;

/// Tries the schedules with these numbers of a seed.
pub fn checker(
    given: &[Schedule],
    numbers: Range<u64>,
    settings: &FuzzSettings,
    progress: &mut dyn FnMut(&CheckerSummary),
) -> CheckerSummary {
    let programs = ((numbers.end - numbers.start) / 40).clamp(8, 400) as usize;
    // A single schedule is drawn from the same pool as a schedule among many.
    let pool =
        Pool::new(given, programs.max(if numbers.end - numbers.start == 1 { 400 } else { 0 }), settings);
    let mut sum = CheckerSummary::default();
    let mut from = numbers.start;
    while from < numbers.end {
        let to = numbers.end.min(from + STEP);
        let trials =
            parallel(settings.jobs, (to - from) as usize, |i| trial(&pool, settings, from + i as u64));
        trials.into_iter().for_each(|t| sum.add(t));
        progress(&sum);
        from = to;
    }
    sum
}

/// Returns the text of an escape, with the changes and its misbehaviour.
pub fn reproducer(t: &ScheduleTrial, seed: u64) -> String {
    let mut out = format!("; kbc fuzz checker --seed {seed} --only {}\n", t.number);
    for c in &t.changes {
        let _ = writeln!(out, "; changed: {c}");
    }
    let how = match &t.outcome {
        TrialOutcome::Escaped(how) => format!("accepted, and it misbehaves: {how}"),
        TrialOutcome::Quiet(codes) => {
            let made = if t.changes.is_empty() { " as it was made" } else { "" };
            format!("refused{made}, and it never misbehaves: {}", codes.join(", "))
        }
        TrialOutcome::Unformed(code) => format!("the verifier refuses it as it was made: {code}"),
        TrialOutcome::Unchanged | TrialOutcome::Stands | TrialOutcome::Refused | TrialOutcome::TooLong => {
            String::new()
        }
    };
    let _ = writeln!(out, "; {}", how.replace('\n', " "));
    out + &t.text
}
