//! Analysis of a schedule: proof, execution, time and bounds, each as a part of the report.

use crate::bounds::{self, Lower, NoObserver, Subject};
use crate::build::Built;
use crate::by_blocks::by_blocks;
use crate::data::{self, Inputs};
use crate::engine::Engine;
use crate::failure::Outcome;
use crate::proof::{RIGHT, proof, verified};
use crate::report::{timed, *};
use crate::timeline::scene::Scene;
use crate::watch::Watch;
use crate::workspace::{NextRun, Stage, Workspace};
use kbc_backend_sim::adversary::{AdversaryOptions, adversarial};
use kbc_backend_sim::interp::{RunOptions, RunResult, run_inside};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::graph::{Graph, OpKind};
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::Schedule;
use kbc_ir::types::{Mesh, TensorType};
use kbc_ir::walk::Program;
use kbc_machine::bounds::{algbw, busbw};
use kbc_machine::placement::Interior;
use kbc_machine::topology::Topology;
use kbc_numerics::compare::{Comparison, Expected, FaultyContribution, compare};
use kbc_numerics::element::Value;
use kbc_numerics::shard::Part;
use kbc_numerics::tensor::Tensor;
use kbc_reference::{Accuracy, Blocks, EvalOptions, OUTER, RefTensor, evaluate, evaluate_local};
use kbc_time::{Observer, TimeOptions, Timing, Walked};
use std::sync::{Arc, PoisonError};

/// Proves a schedule.
///
/// # Errors
/// Returns the errors of the checker, and E359 for a schedule that claims to be safe for no call.
pub fn verify(workspace: &Workspace, schedule: &Schedule) -> Result<VerifiedReport, Diagnostics> {
    workspace.stage(Stage::Check);
    proof(schedule)
}

/// Proves the schedule of a program, if that was not done when it was built.
///
/// # Errors
/// Those of [`verify`].
pub fn prove(
    workspace: &Workspace,
    built: &Built,
    schedule: &Schedule,
) -> Result<VerifiedReport, Diagnostics> {
    match &built.verdict {
        Some(v) if v.ok() => Ok(verified(v)),
        Some(v) => Err(v.errors.clone()),
        None => Ok(VerifiedReport { shown: RIGHT.into(), ..verify(workspace, schedule)? }),
    }
}

/// Results of executing a program: what each rank held after each call, and the expected values.
pub struct Executed {
    /// Engine that executed the schedule.
    pub engine: Engine,
    /// Inputs used.
    pub inputs: Inputs,
    /// Outputs.
    pub result: RunResult,
    /// Comparison over all calls.
    pub compare: CompareReport,
    /// Comparison with stored results.
    pub expect: Vec<CompareReport>,
}

/// Executes a schedule again with the work of a device shared by its PEs, each with the data that
/// it holds or fetches. Returns how much of the schedule that was.
///
/// # Errors
/// Returns E990 if the results differ from `result`, and the errors of the interpreter.
pub fn inside(
    workspace: &Workspace,
    schedule: &Schedule,
    topology: &Topology,
    inputs: &[Vec<Tensor>],
    result: &RunResult,
    seed: Option<u64>,
) -> Outcome<Option<String>> {
    if !topology.shares_work() {
        return Ok(None);
    }
    let options = RunOptions {
        calls: result.outputs.len() as u32,
        seed,
        max_bytes: workspace.memory_budget().engine_bytes(),
    };
    let (own, [shared, large]) = run_inside(schedule, inputs, &options, topology)?;
    if own != *result {
        let title = "PEs that share local work compute other results than a single PE";
        return Err(Diagnostic::error("E990", title).help("please report it with the program").into());
    }
    let pes = Interior::of(topology).count();
    let mut words = format!(
        "{shared} local operations were computed PE by PE ({pes} PEs per device), each from the data that it holds or fetches, with equal bits"
    );
    if large > 0 {
        words += &format!("; {large} larger ones were computed on one PE");
    }
    Ok(Some(words))
}

/// Executes the program's schedule on all ranks and compares every element.
///
/// # Errors
/// Returns the errors of the data, of the run and of the evaluator. Elements that differ are not an
/// error of this function; the result contains them.
pub fn execute(
    workspace: &Workspace,
    built: &Built,
    schedule: &Schedule,
    data: &crate::options::Data,
    calls: u32,
    seed: Option<u64>,
    watch: &mut dyn Watch,
) -> Outcome<Executed> {
    let mesh = &built.module.mesh;
    let graph = &built.typed;
    let whole = EvalOptions { max_parts: mesh.ranks(), ..EvalOptions::default() };
    let in_blocks = built.local.is_none()
        && graph.expect.is_none()
        && output_types(built).iter().all(|t| t.partial.is_none())
        && Blocks::possible(graph, &whole).is_some();
    workspace.memory_budget().calls_fit(schedule, calls, !in_blocks)?;
    let run = NextRun { calls, seed: seed.unwrap_or(0) };
    let ahead = built.ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
    let ahead = ahead.filter(|_| data.input.is_empty()).and_then(|ahead| ahead.begun(run));
    let (inputs, expected, begun) = match ahead {
        Some(((inputs, expected), references)) => (inputs, expected, Some(references)),
        None => {
            let files = data::Files::default();
            let program = data::ProgramInterface { graph, mesh, local: built.local.as_ref(), files };
            let inputs = data::inputs(workspace, &program, data, calls, run.seed)?;
            (Arc::new(inputs), data::stored_results(workspace, &program)?, None)
        }
    };
    let options = RunOptions { calls, seed, max_bytes: workspace.memory_budget().engine_bytes() };
    let evaluated = |call: &[Tensor], accuracy: Accuracy, terms: bool| {
        let options = EvalOptions { max_parts: mesh.ranks(), accuracy, terms };
        match &built.local {
            Some(l) => evaluate_local(l, mesh, call, &options),
            None => Ok(evaluate(graph, call, &options)?),
        }
    };
    // Stored results are those of the first call.
    let stored = |c: usize| c == 0 && !expected.is_empty();
    let reference = || -> Result<Vec<Vec<RefTensor>>, Diagnostics> {
        let calls = inputs.calls.iter().enumerate();
        calls.map(|(c, call)| evaluated(call, Accuracy::Own, stored(c))).collect()
    };
    let engine = Engine::chosen(data.engine, schedule);
    let types = output_types(built);
    let (result, found, references) = if in_blocks {
        let result = engine.attempt(workspace, watch, schedule, &inputs.calls, &options);
        let result = result.map_err(|f| f.diagnostics)?;
        workspace.stage(Stage::Evaluate);
        let each = inputs.calls.iter().zip(&result.outputs);
        let found = each.map(|(call, outputs)| by_blocks(graph, mesh, (call, &whole), (&types, outputs)));
        let found = found.collect::<Result<Option<Vec<_>>, _>>()?;
        // Explanations of what is wrong need all values, if there is room for them.
        let right = found.iter().flatten().flatten().all(Comparison::ok);
        let fits = workspace.memory_budget().calls_fit(schedule, calls, true);
        match (found, fits) {
            (Some(found), _) if right => (result, Some(found), vec![]),
            (Some(found), Err(_)) => (result, Some(found), vec![]),
            (None, Err(d)) => return Err(d.into()),
            (_, Ok(())) => (result, None, reference()?),
        }
    } else if let Some(begun) = begun {
        let result = engine.attempt(workspace, watch, schedule, &inputs.calls, &options);
        let references = begun.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let result = result.map_err(|f| f.diagnostics)?;
        workspace.stage(Stage::Evaluate);
        (result, None, references?)
    } else {
        // The two share only the inputs, so they run in parallel if there are two cores.
        let (result, references) = std::thread::scope(|s| {
            let name = Stage::Evaluate.name().to_owned();
            let adopt = workspace.environment.thread();
            let reference = || {
                adopt();
                reference()
            };
            let beside = std::thread::Builder::new().name(name).spawn_scoped(s, reference);
            let beside = beside.expect("the system has a thread to spare");
            let result = engine.attempt(workspace, watch, schedule, &inputs.calls, &options);
            (result, beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let result = result.map_err(|f| f.diagnostics)?;
        workspace.stage(Stage::Evaluate);
        (result, None, references?)
    };
    let names = output_names(graph);
    let against = match &built.local {
        Some(_) => "the lock-step result of all ranks",
        None => "the single-device result",
    };
    let mut total: Option<CompareReport> = None;
    let mut expect = vec![];
    // Those of the first call, evaluated with the functions of another program if that may matter.
    let mut theirs: Vec<RefTensor> = vec![];
    for (c, outputs) in result.outputs.iter().enumerate() {
        for (i, ty) in types.iter().enumerate() {
            let parts: Vec<&Part> = outputs.iter().map(|rank| &rank[i]).collect();
            let want = references.get(c).map(|r| &r[i]);
            let found = match (&found, want) {
                (Some(found), _) => found[c][i].clone(),
                (None, None) => continue,
                (None, Some(want)) => {
                    let found = compare(ty, mesh, &parts, &want.into(), None);
                    let terms =
                        (found.mismatches > 0).then(|| contributions(graph, mesh, &inputs.calls[c], i));
                    match terms.flatten() {
                        Some(terms) => compare(ty, mesh, &parts, &want.into(), Some(&terms)),
                        None => found,
                    }
                }
            };
            let mut report = comparison(mesh, &names[i], against, &found);
            if c > 0 {
                report.hints.iter_mut().for_each(|h| *h = format!("call {c}: {h}"));
            }
            total = Some(match total {
                None => report,
                Some(t) => joined(t, report),
            });
            if let (0, Some((stored, from)), Some(want)) = (c, expected.get(i), want) {
                // The stored result was computed in the same types, so both may differ from the
                // exact value by the bound.
                let within = |theirs: &RefTensor| {
                    let want = stored_reference(stored, want, theirs);
                    compare(ty, mesh, &parts, &Expected::from(&want), None)
                };
                let (mut found, mut from) = (within(want), from.clone());
                if found.mismatches > 0 {
                    // Or its functions are less accurate than those of kbc; the report then states
                    // that this is why the comparison passes.
                    if theirs.is_empty() {
                        theirs = evaluated(&inputs.calls[c], Accuracy::Others, false)?;
                    }
                    let wider = within(&theirs[i]);
                    if wider.mismatches == 0 {
                        found = wider;
                        from += ", with the error of other implementations of exp and erf";
                    }
                }
                let mut report = comparison(mesh, &names[i], &from, &found);
                // Whatever the bound, the error must be a small part of the sum of absolute terms.
                if let Some(limited) = limited(stored, want) {
                    let found = compare(ty, mesh, &parts, &Expected::from(&limited), None);
                    report.terms_err = found.max_err.is_finite().then_some(found.max_err * OUTER);
                    report.beyond = found.mismatches;
                }
                expect.push(report);
            }
        }
    }
    let compare = total.unwrap_or_else(|| CompareReport {
        result: "no result".into(),
        against: against.into(),
        elements: 0,
        mismatches: 0,
        unbounded: 0,
        max_err: Some(0.0),
        worst: None,
        terms_err: None,
        beyond: 0,
        hints: vec![],
        unfit: None,
    });
    // Nothing else holds the inputs any more.
    let again = |shared: Arc<Inputs>| Inputs { calls: shared.calls.clone(), origin: shared.origin.clone() };
    let inputs = Arc::try_unwrap(inputs).unwrap_or_else(again);
    Ok(Executed { engine, inputs, result, compare, expect })
}

/// Checks whether a comparison passes.
pub fn passes(c: &CompareReport) -> bool {
    c.mismatches == 0 && c.beyond == 0 && c.unfit.is_none()
}

/// Returns a stored result with the outer limit as its bound, if sums of absolute terms are known.
fn limited(stored: &Tensor, want: &RefTensor) -> Option<RefTensor> {
    let bound = want.terms.as_ref()?.iter().map(|s| OUTER * s).collect();
    Some(RefTensor { value: stored.data().to_f64(), bound, ..want.clone() })
}

fn stored_reference(stored: &Tensor, want: &RefTensor, theirs: &RefTensor) -> RefTensor {
    RefTensor {
        value: stored.data().to_f64(),
        bound: want.bound.iter().zip(&theirs.bound).map(|(a, b)| a + b.max(*a)).collect(),
        exact: stored.data().to_i64().filter(|_| want.exact.is_some()),
        ..want.clone()
    }
}

/// Merges two comparisons of the same kind.
pub fn joined(mut a: CompareReport, b: CompareReport) -> CompareReport {
    let worse = match (a.max_err, b.max_err) {
        (Some(x), Some(y)) => y > x,
        (Some(_), None) => true,
        (None, _) => false,
    };
    a.elements += b.elements;
    a.mismatches += b.mismatches;
    a.unbounded += b.unbounded;
    if worse {
        (a.max_err, a.worst) = (b.max_err, b.worst);
    }
    if a.result != b.result {
        a.result = "results".into();
    }
    a.hints.extend(b.hints);
    a.unfit = a.unfit.or(b.unfit);
    a
}

fn value(v: Value) -> String {
    match v {
        Value::Float(x) => format!("{x}"),
        Value::Int(x) => format!("{x}"),
    }
}

/// Returns a comparison as a part of a report.
pub fn comparison(mesh: &Mesh, result: &str, against: &str, c: &Comparison) -> CompareReport {
    let shown = c.first.as_ref().filter(|_| c.mismatches > 0 && c.max_err.is_infinite()).or(c.worst.as_ref());
    CompareReport {
        result: result.into(),
        against: against.into(),
        elements: c.elements,
        mismatches: c.mismatches,
        unbounded: c.unbounded,
        max_err: c.max_err.is_finite().then_some(c.max_err),
        terms_err: None,
        beyond: 0,
        worst: shown.map(|w| WorstReport {
            rank: mesh.show(w.rank),
            index: w.index.clone(),
            expected: value(w.expected),
            got: value(w.got),
            bound: w.bound,
        }),
        hints: c
            .hints
            .iter()
            .map(|h| {
                let how = match h.blame {
                    FaultyContribution::Missing => "missing",
                    FaultyContribution::Doubled => "counted twice",
                };
                format!("the contribution of rank {} is {how} in {} elements", h.contributor, h.explains)
            })
            .collect(),
        unfit: c.unfit.clone(),
    }
}

/// Returns the inputs whose elementwise sum a result is, if the result is only a partial input in
/// another placement.
fn contributions(graph: &Graph, mesh: &Mesh, inputs: &[Tensor], result: usize) -> Option<Vec<Vec<f64>>> {
    let out = graph.order().iter().find(|o| graph.op(**o).kind == OpKind::Output(result))?;
    let mut at = *graph.operands(*out).first()?;
    loop {
        match &graph.op(at).kind {
            OpKind::Collective(c) if c.kind == kbc_ir::graph::CollKind::ByContract => return None,
            OpKind::Demand | OpKind::PartialDemand(_) | OpKind::Collective(_) => {
                at = *graph.operands(at).first()?
            }
            OpKind::Host(op) => at = *graph.operands(at).get(op.value())?,
            OpKind::Input(i) => {
                let (_, axes) = graph.inputs[*i].ty.partial.as_ref()?;
                let ranks: u64 = axes.iter().filter_map(|a| mesh.axis(a)).map(|a| a.size).product();
                let all = inputs.get(*i)?.data().to_f64();
                let each = all.len() / usize::try_from(ranks).ok()?.max(1);
                return Some(all.chunks(each.max(1)).map(<[f64]>::to_vec).collect());
            }
            _ => return None,
        }
    }
}

/// Returns the types of the results according to the schedule.
pub fn output_types(built: &Built) -> Vec<TensorType> {
    match built.module.schedule() {
        Some(s) => {
            let mut out: Vec<(u32, TensorType)> = s
                .buffers
                .iter()
                .filter_map(|b| match (b.role, &b.global) {
                    (kbc_ir::schedule::BufferRole::Output(i), Some(t)) => Some((i, t.clone())),
                    _ => None,
                })
                .collect();
            out.sort_by_key(|o| o.0);
            out.into_iter().map(|o| o.1).collect()
        }
        None => vec![],
    }
}

/// Returns the names of the results.
pub fn output_names(graph: &Graph) -> Vec<String> {
    let mut out: Vec<(usize, String)> = graph
        .order()
        .iter()
        .filter_map(|o| match graph.op(*o).kind {
            OpKind::Output(i) => Some((i, graph.op(*o).name.to_string())),
            _ => None,
        })
        .collect();
    out.sort();
    out.into_iter().map(|o| o.1).collect()
}

/// Runs the schedule under the adversaries, with several seeds and calls. Returns the message of a
/// failure, if there is one.
///
/// # Errors
/// Returns the errors of the data and of the undisturbed run.
pub fn adversary(
    workspace: &Workspace,
    schedule: &Schedule,
    inputs: &Inputs,
    seed: u64,
    seeds: u64,
    calls: u32,
) -> Outcome<(AdversarialReport, Option<Diagnostic>)> {
    let options = AdversaryOptions { seed, runs: seeds, calls, ..AdversaryOptions::default() };
    workspace.stage(Stage::Run);
    let found = adversarial(schedule, &inputs.calls, None, &options)?;
    let report = AdversarialReport {
        runs: found.runs,
        elements: found.elements,
        failure: found.failure.as_ref().map(|f| failure(schedule, f)),
    };
    Ok((report, found.failure.map(|f| f.diagnostic)))
}

/// Describes a failed run.
fn failure(schedule: &Schedule, f: &kbc_backend_sim::adversary::Failure) -> String {
    let how = format!("seed {} ({})", f.seed, f.policy.name());
    match &f.difference {
        Some(d) => {
            let index: Vec<String> = d.index.iter().map(u64::to_string).collect();
            format!(
                "{how}: call {}, rank {}, element [{}]: expected {}, got {}",
                d.call,
                schedule.mesh.show(d.rank),
                index.join(", "),
                value(d.expected),
                value(d.got)
            )
        }
        None => format!("{how}: {}", f.diagnostic.title),
    }
}

/// A run that can be observed: it calls the event engine with an observer.
pub type Run<'r> = &'r mut dyn FnMut(&mut dyn Observer) -> Result<(Timing, Lower), Diagnostics>;

/// Times a schedule and compares the time with bounds.
///
/// # Errors
/// Returns the errors of the engine, and E990 for a time below the bound, which is an error of kbc.
pub fn time<'a>(
    workspace: &Workspace,
    report: &mut Report,
    subject: impl Into<Subject<'a>>,
    topology: &Topology,
    options: &TimeOptions,
) -> Outcome<Timing> {
    workspace.stage(Stage::Time);
    let subject = subject.into();
    let options = TimeOptions { memory: workspace.memory_budget().limit, ..options.clone() };
    let (timing, lower) = bounds::timed(subject, topology, &options, &mut NoObserver)?;
    // The names of a large schedule take as much memory as the schedule, so they are made when the
    // simulation is over.
    let scene = Scene::new(subject.schedule, topology, &workspace.map);
    Ok(enter(report, &scene, subject.schedule, timing, lower))
}

/// Times a schedule like [`time`]. `observe` is called with the names of the run, the file, the
/// program, and the run, to which it gives an observer.
///
/// # Errors
/// Returns the errors of the engine and of `observe`, and E990 for a time below the bound, which is
/// an error of kbc.
pub fn time_observed<'a>(
    workspace: &Workspace,
    report: &mut Report,
    subject: impl Into<Subject<'a>>,
    topology: &Topology,
    options: &TimeOptions,
    observe: impl FnOnce(&Scene<'_>, (&str, &str), Run<'_>) -> Outcome<(Timing, Lower)>,
) -> Outcome<Timing> {
    workspace.stage(Stage::Time);
    let subject = subject.into();
    let schedule = subject.schedule;
    let options = TimeOptions { memory: workspace.memory_budget().limit, ..options.clone() };
    let scene = Scene::new(schedule, topology, &workspace.map);
    let (timing, lower) = observe(&scene, (&report.file, &report.program), &mut |watch| {
        bounds::timed(subject, topology, &options, watch)
    })?;
    Ok(enter(report, &scene, schedule, timing, lower))
}

/// Enters the time of a schedule and its bounds in the report.
fn enter(
    report: &mut Report,
    scene: &Scene<'_>,
    schedule: &Schedule,
    timing: Timing,
    lower: Lower,
) -> Timing {
    report.simulated = Some(match &timing.walked {
        Walked::Orbits(n) => {
            format!("{n} of {} ranks, which stand for all by symmetry", schedule.mesh.ranks())
        }
        Walked::Every(why) => format!("every rank: {why}"),
    });
    crate::host::times(schedule, &mut report.host_reads, &lower.host_reads);
    for found in &lower.collectives {
        let Some(c) = report.collectives.get_mut(found.place) else { continue };
        c.bytes = found.bytes.unwrap_or(c.bytes);
        c.problem = Some(found.problem.clone());
        c.bound_ns = Some(found.bound.ns);
        c.bound_exact = found.bound.exact;
        c.bound_method = Some(found.bound.method.words());
        c.bottleneck = (found.bound.ns > 0.0).then(|| found.bound.bottleneck.clone());
        if let Some(took) = found.took_ns {
            c.time_ns = Some(took);
            c.percent = (found.bound.ns > 0.0 && took > 0.0).then(|| 100.0 * found.bound.ns / took);
            if let Some(bytes) = found.bytes.filter(|_| took > 0.0) {
                c.algbw = Some(algbw(bytes, took));
                c.busbw = Some(busbw(found.problem.kind, found.problem.group.len(), bytes, took));
            }
        }
    }
    report.time_ns = Some(timing.ns);
    report.bound_ns = Some(lower.ns);
    report.percent = (lower.ns > 0.0 && timing.ns > 0.0).then(|| 100.0 * lower.ns / timing.ns);
    report.bottleneck = Some(lower.bottleneck);
    timed::fill(report, scene, &timing, &[], Some(LINKS));
    timing
}

/// Largest number of links in a report.
const LINKS: usize = 64;

/// Returns which collectives of a program name their algorithm, in the order of their regions.
pub fn names_algorithm(built: &Built) -> Vec<bool> {
    let of = |kind: &OpKind| match kind {
        OpKind::Collective(c) if c.kind != kbc_ir::graph::CollKind::Slice => {
            Some(c.using.as_ref().is_some_and(|u| !u.span.is_none()))
        }
        _ => None,
    };
    match &built.local {
        Some(l) => {
            let met = kbc_ir::local::matched_collectives(l, &built.module.mesh).unwrap_or_default();
            let first = met.iter().filter_map(|m| m.members.first());
            first.filter_map(|(part, id)| of(&l.parts[*part].graph.op(*id).kind)).collect()
        }
        None => built.arranged.order().iter().filter_map(|id| of(&built.arranged.op(*id).kind)).collect(),
    }
}

/// Returns the collectives of a schedule, in order, without times.
pub fn collectives(schedule: &Schedule, asked: &[bool]) -> Vec<CollectiveReport> {
    // If the schedule cannot be walked, the checker reports that more precisely.
    let spelled = with_host_region(schedule);
    let program = Program::compile(&spelled).ok();
    let regions = schedule.regions.iter().filter(|r| !r.over.is_empty());
    regions
        .enumerate()
        .map(|(i, r)| {
            let contract = r.contract.as_ref();
            // If the parts of ranks have different lengths, those of the first rank.
            let elements = r.operands.first().zip(program.as_ref());
            let elements = elements.and_then(|(o, p)| p.elements(o.buffer, 0).ok()).unwrap_or(0);
            let width = r.operands.first().map_or(0, |o| schedule.buffer(o.buffer).dtype.bytes());
            CollectiveReport {
                operation: contract.map_or_else(|| r.name.to_string(), |p| p.collective.to_string()),
                reduce: contract.and_then(|p| p.red).map(|r| r.name().to_owned()),
                algorithm: r.label.clone().unwrap_or_default(),
                asked: asked.get(i).copied().unwrap_or(true),
                axis: r.over.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(", "),
                ranks: schedule.group_size(r),
                elements,
                bytes: elements * width,
                time_ns: None,
                bound_ns: None,
                bound_exact: false,
                bound_method: None,
                problem: None,
                percent: None,
                bottleneck: None,
                algbw: None,
                busbw: None,
            }
        })
        .collect()
}
