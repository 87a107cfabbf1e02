//! Imported schedules: `.xml` files of other programs, which are checked, executed and timed
//! unchanged.

use super::compile::write_results;
use super::compile::{artefacts, finish, show};
use crate::analyse;
use crate::build::{self, defines};
use crate::cli::{Check, Compile, Data, ReportFormat, Run, Selection, Source};
use crate::crash::{self, Stage};
use crate::data;
use crate::outdir;
use crate::perturb;
use crate::record::{self, Wanted};
use crate::report::{CompareReport, ImportReport, InputReport, ParamReport, Report};
use crate::session::{Failure, Outcome, Session};
use crate::watch::Watching;
use kbc_backend_sim::interp::RunOptions;
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_import::msccl::definition::{self, Wanted as Golden};
use kbc_import::msccl::fifo::Safe;
use kbc_import::msccl::judge::{Finding, Hang, judge};
use kbc_import::msccl::{Algo, Built, Options, build as make, read};
use kbc_ir::dot;
use kbc_ir::promise::Promise;
use kbc_ir::schedule::Schedule;
use kbc_ir::text::{self, PrintOptions};
use kbc_ir::types::{DType, ReduceOp, TensorType};
use kbc_machine::topology::Topology;
use kbc_numerics::compare::{Exact, Expected, compare};
use kbc_numerics::generate;
use kbc_numerics::shard::Part;
use kbc_numerics::tensor::Tensor;
use kbc_time::TimeOptions;
use std::path::Path;

/// Checks whether a file is one, by its extension or by the first character of standard input.
pub fn is_one(session: &mut Session, path: &str) -> bool {
    if path != "-" {
        return path.ends_with(".xml");
    }
    session.read(path).is_ok_and(|(_, text)| text.trim_start().starts_with('<'))
}

/// Rejects `--post` without an imported schedule.
///
/// # Errors
/// Returns E416 (wrong usage).
pub fn no_post(source: &Source) -> Outcome {
    match &source.post {
        Some(_) if source.file.is_empty() => {
            Err(Diagnostic::error("E416", "--post applies only to an imported schedule").into())
        }
        Some(_) => Err(Diagnostic::error("E416", format!("--post does not apply to {}", source.file))
            .help("a program defines its own result; --post is for .xml files")
            .into()),
        None => Ok(()),
    }
}

/// A file that was read and proven, or found wrong.
struct Imported {
    algo: Algo,
    options: Options,
    built: Built,
    finding: Finding,
    report: Report,
}

/// `kbc check`
///
/// # Errors
/// What is wrong with the schedule.
pub fn check(session: &mut Session, args: &Check) -> Outcome {
    let source = args.source();
    if args.target.is_some() || source.of.topology.is_some() || !source.of.set.is_empty() {
        return Err(Diagnostic::error(
            "E416",
            "--target, --topology and --set do not apply to the proof of a schedule",
        )
        .help("use kbc run to time a schedule on a machine")
        .into());
    }
    let mut it = import(session, "check", &source)?;
    reject(session, &mut it, args.report)?;
    finish(session, &it.report, args.report, true)
}

/// `kbc compile`
///
/// # Errors
/// Of any step; a comparison that fails is an error, too.
pub fn compile(session: &mut Session, args: &Compile) -> Outcome {
    if args.target != "sim" {
        return Err(Diagnostic::error(
            "E416",
            format!("an imported schedule cannot be compiled for {}", args.target),
        )
        .note("the target does not support its queues")
        .help("use --target sim to execute it on this computer")
        .into());
    }
    let idle = [
        ("--out", args.out.is_some()),
        ("--passes", args.passes != "default"),
        ("--print-after", !args.watch.print_after.is_empty()),
        ("--print-changed", args.watch.print_changed),
        ("--dump-dir", args.watch.dump_dir.is_some()),
    ];
    if let Some((flag, _)) = idle.iter().find(|f| f.1) {
        return Err(Diagnostic::error("E416", format!("{flag} does not apply to {}", args.source.file))
            .help("no pass runs on an imported schedule; write it with --emit kir=FILE")
            .into());
    }
    let kinds = ["kir", "dot", "trace", "log"];
    let (records, texts): (Vec<_>, Vec<_>) =
        artefacts(&args.emit, &kinds)?.into_iter().partition(|a| record::KINDS.contains(&a.0.as_str()));
    let wanted = Wanted::new(records, args.trace_ranks.clone())?;
    let mut it = import(session, "compile", &args.source)?;
    reject(session, &mut it, args.report)?;
    let Some(schedule) = it.built.schedule() else { return Ok(()) };
    for (kind, path) in &texts {
        let text = match kind.as_str() {
            "dot" => dot::schedule_dot(schedule),
            _ => text::print(&it.built.module, &PrintOptions::default()),
        };
        if path == "-" {
            session.artefact(&text);
        } else {
            outdir::write_file(Path::new(path), text.as_bytes())?;
        }
    }
    let alone = texts.iter().any(|a| a.1 == "-");
    if alone && args.data.output.is_empty() && wanted.list.is_empty() {
        return Ok(());
    }
    let run = Simulate {
        data: &args.data,
        seed: 0,
        calls: 1,
        timings: args.watch.timings,
        perturb: args.perturb.as_ref(),
        numbers: true,
        time: true,
        options: TimeOptions::default(),
    };
    simulate(session, &mut it, &args.source, &run, &wanted)?;
    finish(session, &it.report, args.report, !alone && !wanted.takes_output())
}

/// `kbc run`
///
/// # Errors
/// Of any step; results that differ are an error, too.
pub fn run(session: &mut Session, args: &Run) -> Outcome {
    let wanted = Wanted::new(artefacts(&args.emit, &record::KINDS)?, args.trace_ranks.clone())?;
    if args.calls.is_some_and(|n| n > 1) {
        return Err(Diagnostic::error("E416", "an imported schedule is proven for one call only")
            .note("the runtime ends the kernel after every call")
            .help("remove --calls")
            .into());
    }
    let mut it = import(session, "run", &args.source)?;
    reject(session, &mut it, args.report)?;
    let run = Simulate {
        data: &args.data,
        seed: args.seed,
        calls: 1,
        timings: args.timings,
        perturb: args.perturb.as_ref(),
        numbers: !args.no_data,
        time: !args.no_time,
        options: TimeOptions { every_rank: args.every_rank, ..TimeOptions::default() },
    };
    let inputs = simulate(session, &mut it, &args.source, &run, &wanted)?;
    if args.adversarial && !args.no_data {
        let inputs = data::Inputs { calls: vec![vec![inputs]], origin: vec![] };
        let (found, failure) =
            analyse::adversary(session, &it.built.execute, &inputs, args.seed, args.seeds, 1)?;
        it.report.ok &= failure.is_none();
        it.report.adversarial = Some(found);
        failure.into_iter().for_each(|d| session.tell(&d.into()));
    }
    finish(session, &it.report, args.report, !wanted.takes_output())
}

/// Parameters given with `-D`.
struct Said {
    options: Options,
    /// Bytes of the largest user buffer.
    bytes: Option<u64>,
    params: Vec<ParamReport>,
}

const NAMES: [&str; 4] = ["bytes", "dtype", "op", "root"];

fn said(source: &Source, algo: &Algo) -> Outcome<Said> {
    let flags = [
        ("--program", source.of.program.is_some()),
        ("--algorithm", source.of.algorithm.is_some()),
        ("--ranks", source.of.ranks.is_some()),
        ("--using", !source.of.using.is_empty()),
    ];
    kbc_compiler::load::refuse(&flags, &source.file)?;
    let mut out = Said { options: Options::default(), bytes: None, params: vec![] };
    let wrong = |name: &str, value: &str, valid: &str| -> Failure {
        Diagnostic::error("E413", format!("-D {name}={value}: {valid}")).into()
    };
    for (name, value) in defines(&source.of.define)? {
        match name.as_str() {
            "bytes" => {
                let n = bytes(&value).ok_or_else(|| {
                    wrong("bytes", &value, "expected a number of bytes, such as 8388608 or 8M")
                })?;
                out.bytes = Some(n);
            }
            "dtype" => {
                let found = DType::parse(&value).filter(|d| d.reduces() || !algo.coll.reduces());
                out.options.dtype = found
                    .filter(|d| d.is_float() || *d == DType::I32)
                    .ok_or_else(|| wrong("dtype", &value, "expected f32, f16, bf16 or i32"))?;
            }
            "op" => {
                out.options.op = ReduceOp::parse(&value)
                    .ok_or_else(|| wrong("op", &value, "expected sum, prod, min or max"))?;
            }
            "root" => {
                let root = value.parse().ok().filter(|r| *r < algo.ranks() && algo.coll.rooted());
                let valid = match algo.coll.rooted() {
                    true => format!("expected a rank below {}", algo.ranks()),
                    false => format!("{} has no root", algo.coll.name()),
                };
                out.options.root = root.ok_or_else(|| wrong("root", &value, &valid))?;
            }
            _ => {
                let mut d =
                    Diagnostic::error("E413", format!("an imported schedule has no parameter `{name}`"))
                        .note(format!("the parameters are {}", NAMES.join(", ")));
                if let Some(near) = nearest(&name, NAMES) {
                    d = d.help(format!("did you mean `{near}`?"));
                }
                return Err(d.into());
            }
        }
        out.params.push(ParamReport { name, value });
    }
    if let Some(n) = out.bytes {
        let one = out.options.dtype.bytes() * algo.chunks;
        if n == 0 || n % one != 0 {
            return Err(wrong(
                "bytes",
                &n.to_string(),
                &format!("expected a multiple of {one}, with at least one element per chunk"),
            ));
        }
        out.options.elements = n / one;
        out.options.at_once = algo.proto.at_once(n, algo.chunks);
    }
    Ok(out)
}

/// `8388608`, `8192K`, `8M`, `1G`
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().last()? {
        (i, 'K') => (&text[..i], 1 << 10),
        (i, 'M') => (&text[..i], 1 << 20),
        (i, 'G') => (&text[..i], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Reads, builds and proves.
fn import(session: &mut Session, command: &'static str, source: &Source) -> Outcome<Imported> {
    session.progress("reading");
    let (file, text) = session.read(&source.file)?;
    crash::stage(Stage::Read);
    let mut warnings = Diagnostics::new();
    let algo = read(file, &text, &mut warnings)?;
    session.tell(&warnings);
    let mut said = said(source, &algo)?;
    if let Some(path) = &source.post {
        said.options.post = Some(post(session, path, &algo, &said.options)?);
    }
    crash::stage(Stage::Check);
    session.progress("proving");
    let built = make(&algo, &said.options);
    let map = &session.map;
    let line = |span: Span| map.line_col(span).map(|at| at.0);
    let finding = judge(&algo, &built, &said.options, said.bytes.is_some(), &line);
    let mut report = match built.schedule() {
        Some(s) => kbc_compiler::about::about_schedule(command, &source.file, &built.module, s),
        None => Report::default(),
    };
    report.params = said.params;
    report.imported = Some(facts(&algo, &said.options, &finding));
    report.ok = finding.accepted();
    let mut verified = analyse::verified(&finding.verdict);
    if built.promise.is_none() {
        verified.meaning = "not checked".into();
        verified.shown = analyse::ORDERED.into();
    }
    report.verified = Some(verified);
    Ok(Imported { algo, options: said.options, built, finding, report })
}

fn facts(algo: &Algo, options: &Options, f: &Finding) -> ImportReport {
    ImportReport {
        format: "msccl",
        collective: algo.coll.name().into(),
        protocol: algo.proto.name(),
        inplace: algo.inplace,
        chunks: algo.chunks,
        channels: algo.channels,
        thread_blocks: algo.gpus.iter().map(|g| g.tbs.len() as u64).sum(),
        steps: algo.steps().count() as u64,
        depth: options.depth.unwrap_or(algo.proto.depth()),
        verdict: if f.accepted() { "accepted" } else { "rejected" },
        kinds: f.kinds.clone(),
        hang: match f.hang {
            Hang::None => "none",
            Hang::AtDepth => "at this depth",
            Hang::Always => "at any depth",
        },
        postcondition: match f.post {
            Some(true) => "holds",
            Some(false) => "wrong",
            None if f.hang != Hang::None => "not reached",
            None => "not checked",
        },
        uninitialised: f.uninitialised,
        races: f.races,
        hang_free: match f.safe {
            Safe::Any => "any size".into(),
            Safe::UpTo(n) => format!("up to {n} B"),
            Safe::Never => "no size".into(),
        },
        hang_free_bytes: match f.safe {
            Safe::UpTo(n) => Some(n),
            Safe::Any | Safe::Never => None,
        },
    }
}

/// Returns the contract of the one collective that a `.kb` file declares.
fn post(session: &mut Session, path: &str, algo: &Algo, options: &Options) -> Outcome<Promise> {
    let loaded = kbc_compiler::load::load_file(session, path)?;
    let root = loaded.root.unwrap_or_default();
    let found: Vec<_> = loaded.library.collectives_in(root).collect();
    let place = Span::new(root, 0, 0);
    let [one] = found[..] else {
        let text = format!("{path} declares {} collectives, and one is expected", found.len());
        return Err(Diagnostic::error("E387", text).primary(place, "in this file").into());
    };
    let decl = loaded.library.collective(one);
    let promise = kbc_passes::expand::promise_of(&loaded.library, decl, Some(options.root), options.op)
        .map_err(|d| *d)?;
    let names: &[&str] = if algo.aliased { &["v"] } else { &["src", "dst"] };
    if let Some(b) = promise.buffers.iter().find(|b| !names.contains(&b.name.as_str())) {
        let text = format!("the buffers of this schedule are {}, not `{}`", names.join(" and "), b.name);
        let how = if algo.inplace {
            "in an in-place schedule, i and o are one buffer `v`"
        } else {
            "`src` must be i and `dst` must be o"
        };
        return Err(Diagnostic::error("E387", text).primary(decl.span, "declared here").note(how).into());
    }
    let blocks = promise.buffers.iter().any(|b| b.blocks);
    if blocks && !algo.chunks.is_multiple_of(algo.ranks()) {
        let text = format!(
            "{} chunks cannot be divided into one block for each of {} ranks",
            algo.chunks,
            algo.ranks()
        );
        return Err(Diagnostic::error("E387", text)
            .primary(decl.span, "the blocks are declared here")
            .into());
    }
    Ok(promise)
}

/// Prints the report and the messages of a schedule that is wrong.
fn reject(session: &Session, it: &mut Imported, format: ReportFormat) -> Outcome {
    if it.finding.accepted() {
        let notes = std::mem::take(&mut it.finding.errors);
        session.tell(&notes);
        return Ok(());
    }
    it.report.verified = None;
    show(session, &it.report, format)?;
    Err(Failure::Program(std::mem::take(&mut it.finding.errors)))
}

/// How to simulate.
struct Simulate<'a> {
    data: &'a Data,
    seed: u64,
    calls: u32,
    timings: bool,
    perturb: Option<&'a String>,
    numbers: bool,
    time: bool,
    options: TimeOptions,
}

/// Executes with numbers, compares and times. Returns the inputs.
fn simulate(
    session: &mut Session,
    it: &mut Imported,
    source: &Source,
    how: &Simulate,
    wanted: &Wanted,
) -> Outcome<Tensor> {
    if !how.data.input.is_empty() {
        return Err(Diagnostic::error("E416", "--input does not apply to an imported schedule")
            .note("the contribution of every rank is generated")
            .into());
    }
    let names = ["y".to_owned()];
    data::check_outputs(&how.data.plain(), &names)?;
    let described = build::perturb(session, how.perturb)?;
    let full = format!("full({})", it.algo.ranks());
    let topology = source.of.topology.clone().unwrap_or(full);
    let of = Selection { topology: Some(topology), ..source.of.clone() };
    let machine = kbc_compiler::machine::machine(session, &of.plain(), None, None)?;
    let inputs = inputs(it, how.seed)?;
    if how.numbers {
        session.progress("executing");
        numbers(session, it, &inputs, how, &names)?;
    }
    if let Some((topology, own)) = machine.filter(|_| how.time) {
        session.progress("timing");
        time(session, it, &topology, wanted, &how.options)?;
        it.report.machine = Some(match &source.of.topology {
            Some(_) => topology.to_string(),
            None => format!("{topology} (assumed, because the file names no machine)"),
        });
        if let (Some(p), Some(s)) = (described.or(own), it.built.schedule()) {
            it.report.perturb = Some(perturb::runs(s, &topology, &p)?);
        }
    }
    Ok(inputs)
}

fn time(
    session: &Session,
    it: &mut Imported,
    topology: &Topology,
    wanted: &Wanted,
    options: &TimeOptions,
) -> Outcome {
    let Some(schedule) = it.built.schedule() else { return Ok(()) };
    record::time(session, &mut it.report, schedule, topology, wanted, options)?;
    Ok(())
}

fn types(schedule: &Schedule) -> Outcome<[TensorType; 2]> {
    let of = |i: usize| schedule.buffers.get(i).and_then(|b| b.global.clone());
    match (of(0), of(1)) {
        (Some(x), Some(y)) => Ok([x, y]),
        _ => Err(Diagnostic::error("E991", "an imported schedule has no input or no result").into()),
    }
}

/// Returns each rank's own contribution: integers whose combination is exact, as far as possible.
fn inputs(it: &Imported, seed: u64) -> Outcome<Tensor> {
    let [x, _] = types(&it.built.execute)?;
    let mesh = &it.built.execute.mesh;
    let mut range = generate::exact_range(x.dtype, mesh.ranks(), 1, false);
    if it.options.op == ReduceOp::Prod && it.algo.coll.reduces() {
        // A product of more than a few numbers above 1 exceeds every type; a product of -1, 0 and 1
        // does not.
        range = generate::ExactRange { modulus: 3, centred: true, exact: true };
    }
    Ok(generate::exact(&x, mesh, range, 0, seed as u32)?)
}

fn numbers(
    session: &Session,
    it: &mut Imported,
    inputs: &Tensor,
    how: &Simulate,
    names: &[String],
) -> Outcome {
    let schedule = &it.built.execute;
    let engine = how.data.engine.unwrap_or_default().plain();
    session.room().calls_fit(schedule, how.calls, true)?;
    let options = RunOptions {
        calls: how.calls,
        seed: (how.seed != 0).then_some(how.seed),
        max_bytes: session.room().engine_bytes(),
    };
    let result = engine
        .attempt(session, &mut Watching::times(how.timings), schedule, &[vec![inputs.clone()]], &options)
        .map_err(|f| f.diagnostics)?;
    it.report.engine = Some(engine.name());
    let [x, y] = types(schedule)?;
    it.report.inputs = vec![InputReport {
        name: "x".into(),
        r#type: x.to_string(),
        from: "generated: exact integers, one part per rank".into(),
    }];
    let Some(outputs) = result.outputs.last() else { return Ok(()) };
    let parts: Vec<_> = outputs.iter().filter_map(|r| r.first().cloned()).collect();
    if let Some(promise) = &it.built.promise {
        let golden = golden(promise, it.algo.aliased, inputs, &y, schedule.mesh.ranks())?;
        let (values, bound) = reference(&golden, &y, &parts);
        let expected = Expected { shape: y.sizes(), values, bound };
        let found = compare(&y, &schedule.mesh, &parts, &expected, None);
        let against = format!("the definition of {}", promise.collective);
        let report = analyse::comparison(&schedule.mesh, "y", &against, &found);
        it.report.ok &= analyse::passes(&report);
        it.report.compare = Some(CompareReport { elements: promised(&golden), ..report });
    }
    write_results(how.data, names, &[y], outputs)
}

fn promised(golden: &Golden) -> u64 {
    golden.values.iter().flatten().filter(|v| v.is_some()).count() as u64
}

fn golden(promise: &Promise, inplace: bool, inputs: &Tensor, y: &TensorType, ranks: u64) -> Outcome<Golden> {
    let all = inputs.data().to_f64();
    let each = all.len() / ranks.max(1) as usize;
    let own: Vec<Vec<f64>> = all.chunks(each.max(1)).map(<[f64]>::to_vec).collect();
    let output = if inplace { "v" } else { "dst" };
    let elements = y.elements() / ranks.max(1);
    definition::wanted(promise, &own, output, elements).map_err(|why| {
        Diagnostic::error("E387", format!("the postcondition cannot be evaluated: {why}")).into()
    })
}

/// Returns values, with the demand that each is exact: the inputs are integers whose combination
/// the type can represent. If the contract names no value, a rank keeps what it has.
fn reference(golden: &Golden, y: &TensorType, parts: &[Part]) -> (Exact, Vec<f64>) {
    let own = parts.iter().flat_map(|p| p.tensor.data().to_f64());
    let flat = golden.values.iter().flatten().zip(own).map(|(v, own)| v.unwrap_or(own));
    if y.dtype.is_float() {
        (Exact::Float(flat.collect()), vec![])
    } else {
        (Exact::Int(flat.map(|v| v as i64).collect()), vec![])
    }
}
