//! MSCCL schedules (`.xml`) that other programs wrote: read, proven and executed as they stand.

use crate::about::about_schedule;
use crate::analyse;
use crate::arguments::defines;
use crate::engine::Engine;
use crate::failure::{Failure, Outcome};
use crate::load::{load_file, refuse};
use crate::options::{Selection, Source};
use crate::proof;
use crate::report::{CompareReport, ImportReport, InputReport, ParamReport, Report};
use crate::watch::Watch;
use crate::workspace::{Stage, Workspace};
use kbc_backend_sim::interp::RunOptions;
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_import::msccl::definition::{self, RequiredResults as Golden};
use kbc_import::msccl::fifo::SafeSizes;
use kbc_import::msccl::judge::{Finding, Hang, judge};
use kbc_import::msccl::{Algo, Built, Options, build as make, read};
use kbc_ir::contract::Contract;
use kbc_ir::schedule::Schedule;
use kbc_ir::types::{DType, ReduceOp, TensorType};
use kbc_numerics::compare::{Expected, ReferenceValues, compare};
use kbc_numerics::generate;
use kbc_numerics::shard::Part;
use kbc_numerics::tensor::Tensor;

/// Checks whether a file is one, by its extension or by the first character of standard input.
pub fn is_one(workspace: &mut Workspace, path: &str) -> bool {
    if path != "-" {
        return path.ends_with(".xml");
    }
    workspace.read(path).is_ok_and(|(_, text)| text.trim_start().starts_with('<'))
}

/// A schedule that was read and proven, or found wrong.
pub struct Imported {
    /// The schedule as the file states it.
    pub algo: Algo,
    /// Element type, sizes and contract.
    pub options: Options,
    /// The schedule as kbc's.
    pub built: Built,
    /// What the proof found.
    pub finding: Finding,
    /// The report of the proof.
    pub report: Report,
}

/// Parameters given with `-D`.
struct MscclOptions {
    options: Options,
    /// Bytes of the largest user buffer.
    bytes: Option<u64>,
    params: Vec<ParamReport>,
}

const NAMES: [&str; 4] = ["bytes", "dtype", "op", "root"];

fn read_options(source: &Source, algo: &Algo) -> Outcome<MscclOptions> {
    let about_programs = Selection { define: vec![], topology: None, set: vec![], ..source.of.clone() };
    refuse(&about_programs.given(), &source.file)?;
    let mut out = MscclOptions { options: Options::default(), bytes: None, params: vec![] };
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

/// Reads, builds and proves. A schedule that is wrong is no error: [`Imported::finding`] says what
/// is wrong.
///
/// # Errors
/// Of reading; E413 for values of `-D`; E387 for a contract that does not fit.
pub fn import(workspace: &mut Workspace, command: &'static str, source: &Source) -> Outcome<Imported> {
    workspace.progress("reading");
    let (file, text) = workspace.read(&source.file)?;
    workspace.stage(Stage::Read);
    let mut warnings = Diagnostics::new();
    let algo = read(file, &text, &mut warnings)?;
    workspace.report(&warnings);
    let mut said = read_options(source, &algo)?;
    if let Some(path) = &source.post {
        said.options.post = Some(post(workspace, path, &algo, &said.options)?);
    }
    workspace.stage(Stage::Check);
    workspace.progress("proving");
    let built = make(&algo, &said.options);
    let map = &workspace.map;
    let line = |span: Span| map.line_col(span).map(|at| at.0);
    let finding = judge(&algo, &built, &said.options, said.bytes.is_some(), &line);
    let mut report = match built.schedule() {
        Some(s) => about_schedule(command, &source.file, &built.module, s),
        None => Report::default(),
    };
    report.params = said.params;
    report.imported = Some(facts(&algo, &said.options, &finding));
    report.ok = finding.accepted();
    let mut verified = proof::verified(&finding.verdict);
    if built.contract.is_none() {
        verified.meaning = "not checked".into();
        verified.shown = proof::ORDERED.into();
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
            SafeSizes::Any => "any size".into(),
            SafeSizes::UpTo(n) => format!("up to {n} B"),
            SafeSizes::Never => "no size".into(),
        },
        hang_free_bytes: match f.safe {
            SafeSizes::UpTo(n) => Some(n),
            SafeSizes::Any | SafeSizes::Never => None,
        },
    }
}

/// Returns the contract of the one collective that a `.kb` file declares.
fn post(workspace: &mut Workspace, path: &str, algo: &Algo, options: &Options) -> Outcome<Contract> {
    let loaded = load_file(workspace, path)?;
    let root = loaded.root.unwrap_or_default();
    let found: Vec<_> = loaded.library.collectives_in(root).collect();
    let place = Span::new(root, 0, 0);
    let [one] = found[..] else {
        let text = format!("{path} declares {} collectives, and one is expected", found.len());
        return Err(Diagnostic::error("E387", text).primary(place, "in this file").into());
    };
    let decl = loaded.library.collective(one);
    let library = kbc_frontend::lower::library(&loaded, &[])?;
    let contract =
        kbc_passes::expand::contract_of(&library, decl, Some(options.root), options.op).map_err(|d| *d)?;
    let names: &[&str] = if algo.aliased { &["v"] } else { &["src", "dst"] };
    if let Some(b) = contract.buffers.iter().find(|b| !names.contains(&b.name.as_str())) {
        let text = format!("the buffers of this schedule are {}, not `{}`", names.join(" and "), b.name);
        let how = if algo.inplace {
            "in an in-place schedule, i and o are one buffer `v`"
        } else {
            "`src` must be i and `dst` must be o"
        };
        return Err(Diagnostic::error("E387", text).primary(decl.span, "declared here").note(how).into());
    }
    let blocks = contract.buffers.iter().any(|b| b.blocks);
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
    Ok(contract)
}

fn types(schedule: &Schedule) -> Outcome<[TensorType; 2]> {
    let of = |i: usize| schedule.buffers.get(i).and_then(|b| b.global.clone());
    match (of(0), of(1)) {
        (Some(x), Some(y)) => Ok([x, y]),
        _ => Err(Diagnostic::error("E991", "an imported schedule has no input or no result").into()),
    }
}

/// Returns each rank's own contribution: integers whose combination is exact, as far as possible.
///
/// # Errors
/// E991: the schedule has no input or no result.
pub fn inputs(it: &Imported, seed: u64) -> Outcome<Tensor> {
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

/// How the schedule is executed.
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    /// The engine.
    pub engine: Engine,
    /// Number of calls.
    pub calls: u32,
    /// Seed of the interleaving; 0 for none.
    pub seed: u64,
}

/// Executes the schedule and compares its results with the definition of its collective. Returns
/// the type of the result, and the results of the last call by rank.
///
/// # Errors
/// Of the run; E387 for a contract without numbers. Results that differ are in the report.
pub fn execute(
    workspace: &Workspace,
    it: &mut Imported,
    inputs: &Tensor,
    how: Execution,
    watch: &mut dyn Watch,
) -> Outcome<(TensorType, Vec<Vec<Part>>)> {
    let schedule = &it.built.execute;
    workspace.memory_budget().calls_fit(schedule, how.calls, true)?;
    let options = RunOptions {
        calls: how.calls,
        seed: (how.seed != 0).then_some(how.seed),
        max_bytes: workspace.memory_budget().engine_bytes(),
    };
    let result = how
        .engine
        .attempt(workspace, watch, schedule, &[vec![inputs.clone()]], &options)
        .map_err(|f| f.diagnostics)?;
    it.report.engine = Some(how.engine.name());
    let [x, y] = types(schedule)?;
    it.report.inputs = vec![InputReport {
        name: "x".into(),
        r#type: x.to_string(),
        from: "generated: exact integers, one part per rank".into(),
    }];
    let outputs = result.outputs.last().cloned().unwrap_or_default();
    let parts: Vec<_> = outputs.iter().filter_map(|r| r.first().cloned()).collect();
    if let Some(contract) = &it.built.contract {
        let golden = golden(contract, it.algo.aliased, inputs, &y, schedule.mesh.ranks())?;
        let want = reference(&golden, &parts);
        let integers: Vec<i64>;
        let values = if y.dtype.is_float() {
            ReferenceValues::Float(&want)
        } else {
            integers = want.iter().map(|v| *v as i64).collect();
            ReferenceValues::Int(&integers)
        };
        // The inputs are integers whose combination the type can represent, so each is exact.
        let expected = Expected { shape: &y.sizes(), values, bound: &[] };
        let found = compare(&y, &schedule.mesh, &parts, &expected, None);
        let against = format!("the definition of {}", contract.collective);
        let report = analyse::comparison(&schedule.mesh, "y", &against, &found);
        it.report.ok &= analyse::passes(&report);
        it.report.compare = Some(CompareReport { elements: promised(&golden), ..report });
    }
    Ok((y, outputs))
}

fn promised(golden: &Golden) -> u64 {
    golden.values.iter().flatten().filter(|v| v.is_some()).count() as u64
}

fn golden(
    contract: &Contract,
    inplace: bool,
    inputs: &Tensor,
    y: &TensorType,
    ranks: u64,
) -> Outcome<Golden> {
    let all = inputs.data().to_f64();
    let each = all.len() / ranks.max(1) as usize;
    let own: Vec<Vec<f64>> = all.chunks(each.max(1)).map(<[f64]>::to_vec).collect();
    let output = if inplace { "v" } else { "dst" };
    let elements = y.elements() / ranks.max(1);
    definition::required_results(contract, &own, output, elements).map_err(|why| {
        Diagnostic::error("E387", format!("the postcondition cannot be evaluated: {why}")).into()
    })
}

/// Returns the values of a result. If the contract names no value, a rank keeps what it has.
fn reference(golden: &Golden, parts: &[Part]) -> Vec<f64> {
    let own = parts.iter().flat_map(|p| p.tensor.data().to_f64());
    golden.values.iter().flatten().zip(own).map(|(v, own)| v.unwrap_or(own)).collect()
}
