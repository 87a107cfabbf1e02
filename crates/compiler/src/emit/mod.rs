//! Emission for a target: turns a proven schedule into the folder of a package, or into a text of
//! its kernel.
//!
//! This module owns the order of the steps and the claims that a package makes about its kernel.
//! A target ([`kbc_tiles::backend`]) lowers, completes and prints the kernel.

mod growth;
pub mod places;
pub mod sizes;
pub mod window;

use crate::backends;
use crate::build::Built;
use crate::failure::{Failure, Outcome};
use crate::report::{EmitReport, Report};
use crate::watch::{Unwatched, Watch};
use crate::workspace::{Stage, Workspace};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::expr::Expr;
use kbc_ir::graph::{DataSource, Graph};
use kbc_ir::name::Name;
use kbc_ir::schedule::Schedule;
use kbc_numerics::formats::write_npz;
use kbc_numerics::tensor::{Data, Tensor};
use kbc_reference::{Accuracy, EvalOptions, evaluate, exact_modulus};
use kbc_tiles::backend::Target;
use kbc_tiles::package::{
    Claim, CountClaim, Evidence, Executed, KernelText, Package, PackagedProgram, Sizes, Source,
};
use kbc_tiles::tile::visit::each_op;
use kbc_tiles::tile::{COUNT, Kernel, NRANKS, Op, ROOT, sync, text, verify};
use kbc_tiles::{layout, lower};
use sizes::{Family, family};
use std::path::Path;

/// Largest window of a rank, in bytes: the most that a domain of a simulator's shared memory can be
/// expected to provide.
const LARGEST_WINDOW: u64 = 1 << 30;
/// Largest element count of a kernel. Indices of elements, and their products with a number of
/// ranks, stay far within 63 bits.
const LARGEST_COUNT: u64 = 1 << 28;

/// Name of the target that executes a program instead of emitting it.
pub const SIM: &str = "sim";

/// Texts of the kernel that `--emit` can write.
pub const TEXTS: [&str; 2] = ["tile", "cpp"];

/// Name, for `--print-after`, of the kernel as it is lowered, before all passes.
pub const LOWERED: &str = "tile";

/// Returns the profile of a target, or `None` for the simulator.
///
/// # Errors
/// Returns E458 as wrong usage, with the reason, if there is no such target or kbc emits nothing
/// for it.
pub fn target(name: &str) -> Outcome<Option<&'static dyn Target>> {
    if name == SIM {
        return Ok(None);
    }
    let usage = |d: Diagnostic| {
        let d = d.note(format!("target {SIM} proves and executes schedules on this computer"));
        let d = match nearest(name, [SIM]) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None => d,
        };
        Failure::Usage(d.into())
    };
    backends::find(name).map(Some).map_err(usage)
}

/// Returns the passes for a target, or for the simulator: those that were requested, or the default
/// ones.
pub fn passes<'a>(target: Option<&'a dyn Target>, requested: &'a str) -> &'a str {
    match target {
        // No target has queues, whatever the machine on which it is timed.
        Some(target) if requested == "default" => target.pipeline(),
        _ => requested,
    }
}

/// Rejects a local program, which no target accepts.
///
/// # Errors
/// Returns E548.
pub fn refuse_local(built: &Built) -> Result<(), Diagnostic> {
    let Some(l) = &built.local else { return Ok(()) };
    let name = l.name.clone().unwrap_or_else(|| "it".into());
    Err(Diagnostic::error("E548", format!("a local program cannot be emitted: `{name}`"))
        .primary(
            l.parts.first().map_or(Span::NONE, |p| p.span),
            "these are sizes on one rank, and a kernel needs global sizes",
        )
        .help("write it as a `program` with global shapes, or use --target sim"))
}

/// A complete kernel, with what it was made from.
pub struct Emitted {
    /// The sizes that the kernel serves, and the schedules from which it was made.
    pub family: Family,
    /// The complete kernel.
    pub kernel: Kernel,
    /// The target for which the kernel was completed.
    pub profile: &'static dyn Target,
}

/// Returns the complete, verified kernel of a program.
///
/// # Errors
/// Returns the errors of the target, of lowering, of a pass, or of the tile level's verifier.
pub fn kernel(
    workspace: &mut Workspace,
    built: &Built,
    schedule: &Schedule,
    target: &str,
) -> Outcome<Emitted> {
    let Some(profile) = self::target(target)? else {
        return Err(Diagnostic::error("E416", format!("there is no emitted code for target {target}")).into());
    };
    for_profile(workspace, built, schedule, profile, &mut Unwatched)
}

/// Returns the same as [`kernel`], for a target whose profile is known.
///
/// # Errors
/// Returns E548 for a local program, and the errors of lowering, of a pass, or of the tile level's
/// verifier.
pub fn for_profile(
    workspace: &mut Workspace,
    built: &Built,
    schedule: &Schedule,
    profile: &'static dyn Target,
    watch: &mut dyn Watch,
) -> Outcome<Emitted> {
    refuse_local(built)?;
    workspace.stage(Stage::Emit);
    watch.begins();
    let mut family = family(workspace, built, schedule, profile)?;
    if let Some(root) = root(built, schedule).filter(|_| profile.takes_root()) {
        // Before the number of the launch, which is the last scalar.
        let at = family.kernel.scalars.len().saturating_sub(1);
        family.kernel.scalars.insert(at, ROOT.into());
        family.kernel.root = Some(root);
    }
    watch.ends("other sizes, built and proven");
    let kernel = complete(&family.kernel, profile, watch)?;
    Ok(Emitted { family, kernel, profile })
}

/// Returns the root of a program that is the same program for every root, with its ranks renamed:
/// no input or result is split, and some are on one rank alone, which is the same for all of these.
fn root(built: &Built, schedule: &Schedule) -> Option<u64> {
    if schedule.mesh.axes.len() != 1 {
        return None;
    }
    let inputs = built.typed.inputs.iter().map(|i| &i.ty);
    let mut root = None;
    for ty in inputs.chain(&built.typed.results) {
        if ty.dims.iter().any(|d| d.cut.is_some()) {
            return None;
        }
        if let Some((at, _)) = &ty.only {
            if root.is_some_and(|r| r != *at) {
                return None;
            }
            root = Some(*at);
        }
    }
    root
}

/// Completes a lowered kernel with layout, addresses, fences and flags, and verifies it.
///
/// # Errors
/// Returns the errors of a pass or of the verifier.
pub fn complete(
    lowered: &Kernel,
    profile: &dyn Target,
    watch: &mut dyn Watch,
) -> Result<Kernel, Diagnostics> {
    let mut kernel = lowered.clone();
    lower::fit_tiles(&mut kernel, profile);
    watch.kernel(LOWERED, None, &kernel);
    run_passes(&mut kernel, profile, watch, &|_| true)?;
    watch.begins();
    verify::verify(&kernel, profile)?;
    watch.ends("verifier");
    Ok(kernel)
}

/// Runs the passes of the tile level that `wanted` accepts, in their order.
///
/// # Errors
/// Returns the errors of a pass.
pub fn run_passes(
    kernel: &mut Kernel,
    profile: &dyn Target,
    watch: &mut dyn Watch,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<(), Diagnostics> {
    for pass in profile.backend().passes().iter().filter(|p| wanted(p.name)) {
        watch.begins();
        let before = watch.compares().then(|| kernel.clone());
        profile.run(pass.name, kernel)?;
        watch.ends(pass.name);
        watch.kernel(pass.name, before.as_ref(), kernel);
    }
    Ok(())
}

/// A kernel about which everything is known that can be known without executing it.
pub struct Prepared {
    /// The kernel.
    pub emitted: Emitted,
    /// The sizes for which the kernel is claimed to be correct.
    pub claim: Claim,
}

/// Does every step of an emission that can fail because of the program, before the program is
/// executed.
///
/// # Errors
/// Returns the errors of [`for_profile`], and E472 if the window does not fit at the program's own
/// size.
pub fn prepare(
    workspace: &mut Workspace,
    built: &Built,
    schedule: &Schedule,
    profile: &'static dyn Target,
    watch: &mut dyn Watch,
) -> Outcome<Prepared> {
    let emitted = for_profile(workspace, built, schedule, profile, watch)?;
    let claim = claim(&emitted.family, &emitted.kernel, profile, built)?;
    Ok(Prepared { emitted, claim })
}

/// A package in memory.
pub struct Contents {
    /// Path inside the folder and content of every file.
    pub files: Vec<(String, Vec<u8>)>,
    /// The package's part of the report; the name of the folder is still empty.
    pub report: EmitReport,
}

/// Returns the C++ texts of a kernel, one per task, with the evidence of `report` in their headers.
///
/// # Errors
/// Returns the errors of the printer.
pub fn sources(prepared: &Prepared, report: &Report) -> Result<Vec<Source>, Diagnostics> {
    let evidence = evidence(&prepared.emitted, report, &prepared.claim);
    let notes = evidence.iter().map(|e| format!("{}: {}", e.step, e.words)).collect();
    let text = KernelText { source: file_name(report), notes };
    Ok(prepared.emitted.profile.sources(&prepared.emitted.kernel, &text)?)
}

/// Returns the name of the source for readers of a kernel: that of its file, or else the program's.
fn file_name(report: &Report) -> String {
    Path::new(&report.file)
        .file_name()
        .map_or_else(|| report.program.clone(), |n| n.to_string_lossy().into_owned())
}

/// Returns the files of a package for a kernel whose schedule was proven and, if `report` says so,
/// executed. `own` is the data that the program has from files (see [`own_data`]).
///
/// # Errors
/// Returns the errors of the printer and of the package.
pub fn contents(prepared: &Prepared, report: &Report, own: OwnData) -> Result<Contents, Diagnostics> {
    let Prepared { emitted, claim } = prepared;
    let Emitted { family, kernel, profile } = emitted;
    let sources = sources(prepared, report)?;
    let instances: Vec<_> = family
        .samples
        .iter()
        .map(|m| (Sizes { nranks: m.instance.ranks, count: m.instance.count }, &m.typed, &m.schedule.mesh))
        .collect();
    let program = PackagedProgram::of(&file_name(report), &instances)?;
    let moduli = family
        .ranks
        .iter()
        .map(|r| {
            let at = family.samples.iter().find(|m| m.instance.ranks == *r);
            let modulus =
                at.and_then(|m| exact_modulus(&m.typed, &m.schedule.mesh, &vec![None; m.typed.inputs.len()]));
            (*r, modulus)
        })
        .collect();
    let exact_to = family.samples.iter().rev().map(|m| (m.instance.ranks, m.instance.count)).collect();
    let of: Vec<(u64, &Graph)> = family.samples.iter().map(|m| (m.instance.count, &m.typed)).collect();
    let growth = growth::growth(&of);
    let evidence = evidence(emitted, report, claim);
    // The program's own size is the first.
    let (ranks, count) = family.samples.first().map_or((0, 0), |m| (m.instance.ranks, m.instance.count));
    let count = claim.count.as_ref().map_or(count, |c| c.default);
    let executed = Executed::of(kernel, ranks, count)?;
    let claim = claim.clone();
    let package = Package {
        kernel,
        sources: &sources,
        program,
        claim,
        moduli,
        exact_to,
        growth,
        evidence,
        executed,
        own: own.npz,
        stored: own.stored,
    };
    let files = profile.files(&package)?;
    let report = report_of(prepared, &files);
    Ok(Contents { files, report })
}

/// A program's own data, in the forms that packages store.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OwnData {
    /// All inputs, and the error bounds of the results from the reference evaluator, as an `.npz`;
    /// `None` unless every input is in `stored`.
    pub npz: Option<Vec<u8>>,
    /// For each input its elements in C order, little-endian; `None` for one that does not come
    /// from a file, is partial, or has a type that `.npz` lacks.
    pub stored: Vec<Option<Vec<u8>>>,
}

/// Returns the data that a program has from files.
///
/// # Errors
/// Returns the errors of the evaluator.
pub fn own_data(typed: &Graph, ranks: u64, inputs: &[Tensor]) -> Result<OwnData, Diagnostics> {
    let given = |i: &kbc_ir::graph::Input| matches!(i.data, Some(DataSource::File { .. }));
    let known = |i: &kbc_ir::graph::Input| i.ty.partial.is_none() && i.ty.dtype.row().numpy.is_some();
    let held = typed.inputs.iter().zip(inputs);
    let stored: Vec<_> = held.map(|(i, t)| (given(i) && known(i)).then(|| t.data().to_bytes())).collect();
    if stored.is_empty() || stored.contains(&None) {
        return Ok(OwnData { npz: None, stored });
    }
    let options = EvalOptions { max_parts: ranks, accuracy: Accuracy::Others, terms: false };
    let mut list: Vec<(String, Tensor)> =
        inputs.iter().enumerate().map(|(i, t)| (format!("input_{i}"), t.clone())).collect();
    for (i, r) in evaluate(typed, inputs, &options)?.into_iter().enumerate() {
        // Rounded up, so that the value in f32 is still a bound.
        let bound = r.bound.iter().map(|b| if *b == 0.0 { 0.0 } else { (*b as f32).next_up() }).collect();
        list.extend(Tensor::new(r.shape, Data::F32(bound)).map(|t| (format!("bound_{i}"), t)));
    }
    Ok(OwnData { npz: Some(write_npz(&list)?), stored })
}

/// Returns a text of the kernel, one of [`TEXTS`].
///
/// # Errors
/// Returns the errors of the printer.
pub fn text(prepared: &Prepared, kind: &str, report: &Report) -> Result<String, Diagnostics> {
    Ok(match kind {
        // The texts of the tasks, one after another.
        "cpp" => {
            let texts: Vec<String> = sources(prepared, report)?.into_iter().map(|s| s.text).collect();
            texts.join("\n")
        }
        _ => text::print(&prepared.emitted.kernel),
    })
}

/// Returns the sizes that the kernel serves. The largest count is the largest for which, at every
/// number of ranks, the window is at most [`LARGEST_WINDOW`] bytes and all numbers fit into the
/// fields of their instructions.
fn claim(
    family: &Family,
    kernel: &Kernel,
    profile: &dyn Target,
    built: &Built,
) -> Result<Claim, Diagnostics> {
    let (shared, own) = (layout::shared_bytes(kernel), layout::own_bytes(kernel));
    let bytes = |of: &Expr, ranks: u64, count: u64| {
        of.eval(&|n: &Name| match n.as_str() {
            NRANKS => Some(ranks as i64),
            COUNT => Some(count as i64),
            _ => None,
        })
        .ok()
        .and_then(|b| u64::try_from(b).ok())
        .unwrap_or(u64::MAX)
    };
    // The window, and the memory of intermediate values.
    let too_large = |ranks: u64, count: u64| {
        let window = ("window", bytes(&shared, ranks, count));
        [window, ("memory", bytes(&own, ranks, count))].into_iter().find(|(_, b)| *b > LARGEST_WINDOW)
    };
    let fits = |count: u64| {
        let fit = |r: &u64| too_large(*r, count).is_none() && verify::fit(kernel, profile, *r, count).is_ok();
        family.ranks.iter().all(fit)
    };
    let own_count = family.samples.first().map_or(0, |m| m.instance.count);
    if let Some((r, (what, b))) = family.ranks.iter().find_map(|r| Some((r, too_large(*r, own_count)?))) {
        let needed = format!("on {r} ranks the {what} of a rank has {b} bytes");
        return Err(Diagnostic::error("E472", format!("{needed} (limit: {LARGEST_WINDOW})"))
            .help("use fewer elements, or an algorithm with fewer or smaller slots (see kbc explain window)")
            .into());
    }
    for r in &family.ranks {
        verify::fit(kernel, profile, *r, own_count)?;
        verify::one_writer(kernel, *r, own_count)?;
    }
    let count = family.count.as_ref().map(|parameter| {
        let (mut good, mut bad) = (own_count, LARGEST_COUNT + 1);
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if fits(middle) { good = middle } else { bad = middle }
        }
        let default = built.number(parameter).unwrap_or(own_count);
        CountClaim { parameter: parameter.as_str().into(), largest: good, default }
    });
    Ok(Claim { ranks: family.ranks.clone(), count, reasons: family.reasons.clone() })
}

/// Lists the checks that were made, for the headers of the texts and the manifest.
fn evidence(emitted: &Emitted, report: &Report, claim: &Claim) -> Vec<Evidence> {
    let family = &emitted.family;
    let mut out = vec![];
    let mut say = |step: &str, words: String| out.push(Evidence { step: step.to_owned(), words });
    let sizes: Vec<String> = family
        .proven
        .iter()
        .map(|m| match m.instance.count {
            0 => format!("{}", m.instance.ranks),
            n => format!("{} x {n}", m.instance.ranks),
        })
        .collect();
    let own: Vec<String> = report.mesh.iter().map(|a| a.size.to_string()).collect();
    match &claim.count {
        Some(c) => say(
            "proven",
            format!(
                "schedules of {} (ranks x {}), at which all chunk boundaries are distinct; other counts follow because boundaries grow with the count",
                sizes.join(", "),
                c.parameter
            ),
        ),
        None if sizes.is_empty() => say("proven", format!("the schedule of {} ranks", own.join(" x "))),
        None => say("proven", format!("schedules of {} ranks", sizes.join(", "))),
    }
    say("traced", "at these sizes the instructions of every rank equal those of the proven schedule".into());
    say("verified", "tile level: memory, types, flags, fences, limits".into());
    match &report.compare {
        None => {
            say("not simulated", "no results were compared: the package was emitted with --no-data".into())
        }
        Some(c) => {
            let worst = c.max_err.map_or_else(|| "not finite".to_owned(), |e| e.to_string());
            let (ranks, elements) = (own.join(" x "), c.elements);
            say("simulated", format!("{ranks} ranks, {elements} elements compared, max_err {worst}"));
        }
    }
    out
}

fn report_of(prepared: &Prepared, files: &[(String, Vec<u8>)]) -> EmitReport {
    let Prepared { emitted, claim } = prepared;
    let counts = sync::counts(&emitted.kernel);
    EmitReport {
        target: emitted.profile.name().to_owned(),
        out: String::new(),
        kernel: emitted.kernel.name.to_string(),
        files: files.iter().map(|f| f.0.clone()).collect(),
        ranks: claim.ranks.clone(),
        count: claim.count.as_ref().map(|c| c.parameter.to_string()),
        largest_count: claim.count.as_ref().map(|c| c.largest),
        one_rank_count_because: claim.reasons.ranks.clone(),
        fixed_sizes_because: claim.reasons.sizes.clone(),
        barriers: counts.all as u64,
        barriers_in_tiles: counts.all_in_tiles as u64,
        flags: counts.flags as u64,
        dsb: counts.dsb as u64,
        deferred_waits: emitted.profile.device().defers_waits().then(|| {
            let mut found = [0, 0];
            each_op(&emitted.kernel.body, &mut |op| match op {
                Op::Defer { .. } => found[0] += 1,
                Op::Wait { .. } => found[1] += 1,
                _ => {}
            });
            found
        }),
    }
}
