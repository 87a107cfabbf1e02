//! Emission for a target: from a proven schedule to the folder of a package.
//!
//! Owns the order of the steps and what is claimed about them. How a kernel is made, completed, verified and
//! printed is `kbc_backend_ascend`.

pub mod places;
pub mod sizes;

use crate::build::Built;
use crate::outdir;
use crate::report::{EmitReport, Report};
use crate::session::{Outcome, Session};
use kbc_backend_ascend::package::{Claim, CountClaim, Evidence, Package, Program, Sizes, files};
use kbc_backend_ascend::passes::{self, layout};
use kbc_backend_ascend::profile::{self, Profile};
use kbc_backend_ascend::tile::{COUNT, Kernel, NRANKS, text, verify};
use kbc_backend_ascend::{cpp, lower};
use kbc_backend_sim::reference::exact_modulus;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::name::Name;
use kbc_ir::schedule::Schedule;
use sizes::{Family, family};
use std::path::Path;

/// Bytes of a rank's window at most: what a domain of a simulator's shared memory can be expected to have.
const LARGEST_WINDOW: u64 = 1 << 30;
/// The largest element count of a kernel: indices of elements and their products with a rank count stay far within 63 bits.
const LARGEST_COUNT: u64 = 1 << 28;

/// What the command line asks of an emission.
pub struct Wanted<'a> {
    /// The target.
    pub target: &'a str,
    /// The folder.
    pub out: &'a str,
    /// Whether a folder that was edited is replaced.
    pub force: bool,
    /// Passes of the tile level after which the kernel is printed to standard error.
    pub print_after: &'a [String],
}

/// A kernel with all that is known about it.
pub struct Emitted {
    /// For which sizes, and made of which schedules.
    pub family: Family,
    /// The kernel, complete.
    pub kernel: Kernel,
    /// What it was completed for.
    pub profile: &'static Profile,
}

/// The complete, verified kernel of a program.
///
/// # Errors
/// Of lowering, of a pass, or of the tile level's verifier.
pub fn kernel(
    session: &mut Session,
    built: &Built,
    schedule: &Schedule,
    target: &str,
    print_after: &[String],
) -> Outcome<Emitted> {
    let Some(profile) = profile::find(target) else {
        return Err(Diagnostic::error("E417", format!("there is no target profile {target}")).into());
    };
    let family = family(session, built, schedule)?;
    let kernel = complete(session, &family.kernel, profile, print_after)?;
    Ok(Emitted { family, kernel, profile })
}

/// A lowered kernel with layout, addresses, fences and flags, verified.
///
/// # Errors
/// Of a pass or the verifier.
pub fn complete(
    session: &Session,
    lowered: &Kernel,
    profile: &Profile,
    print_after: &[String],
) -> Result<Kernel, Diagnostics> {
    let mut kernel = lowered.clone();
    lower::fit_tiles(&mut kernel, profile.ub);
    let show = |name: &str, kernel: &Kernel| {
        if print_after.iter().any(|w| w == name || w == "all") {
            session.words(&format!("; after {name}\n{}", text::print(kernel)));
        }
    };
    show("tile", &kernel);
    for pass in passes::PASSES {
        (pass.run)(&mut kernel, profile)?;
        show(pass.name, &kernel);
    }
    verify::verify(&kernel, profile)?;
    Ok(kernel)
}

/// Emits a program whose schedule was proven and, as `report` says, executed.
///
/// # Errors
/// Of [`kernel`], of the package, or of writing the folder; nothing is written then.
pub fn emit(
    session: &mut Session,
    built: &Built,
    schedule: &Schedule,
    wanted: &Wanted<'_>,
    report: &Report,
) -> Outcome<EmitReport> {
    let emitted = kernel(session, built, schedule, wanted.target, wanted.print_after)?;
    let Emitted { family, kernel, profile } = &emitted;
    let claim = claim(family, kernel, built)?;
    let evidence = evidence(&emitted, report, &claim);
    let source =
        Path::new(&report.file).file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let notes = evidence.iter().map(|e| format!("{}: {}", e.step, e.words)).collect();
    let text = cpp::kernel(kernel, &cpp::KernelText { source: source.clone(), notes })?;
    let instances: Vec<_> = family
        .samples
        .iter()
        .map(|m| (Sizes { nranks: m.instance.ranks, count: m.instance.count }, &m.typed, &m.schedule.mesh))
        .collect();
    let program = Program::of(&source, &instances)?;
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
    let package = Package { kernel, source: &text, program, claim, moduli, ulps: 0, evidence, profile };
    let files = files(&package)?;
    outdir::write(Path::new(wanted.out), &files, wanted.force)?;
    Ok(report_of(&emitted, &package, wanted, &files))
}

/// The sizes a kernel is for: the largest count is what a window of [`LARGEST_WINDOW`] holds at every rank count.
fn claim(family: &Family, kernel: &Kernel, built: &Built) -> Result<Claim, Diagnostics> {
    let bytes = layout::bytes(kernel);
    let window = |ranks: u64, count: u64| {
        bytes
            .eval(&|n: &Name| match n.as_str() {
                NRANKS => Some(ranks as i64),
                COUNT => Some(count as i64),
                _ => None,
            })
            .ok()
            .and_then(|b| u64::try_from(b).ok())
            .is_some_and(|b| b <= LARGEST_WINDOW)
    };
    let fits = |count: u64| family.ranks.iter().all(|r| window(*r, count));
    let own = family.samples.first().map_or(0, |m| m.instance.count);
    if !fits(own) {
        return Err(Diagnostic::error("E472", "the window is larger than the target's")
            .note(format!("a rank's window can have {LARGEST_WINDOW} bytes"))
            .help("use fewer elements, or an algorithm with fewer or smaller slots (kbc explain window)")
            .into());
    }
    let count = family.count.as_ref().map(|parameter| {
        let (mut good, mut bad) = (own, LARGEST_COUNT + 1);
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if fits(middle) { good = middle } else { bad = middle }
        }
        let default = built.number(parameter).unwrap_or(own);
        CountClaim { parameter: parameter.as_str().into(), largest: good, default }
    });
    Ok(Claim { ranks: family.ranks.clone(), count })
}

/// What was really done.
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
                "schedules of {} (ranks x {}), at which all chunk boundaries are distinct; other counts by monotone cuts",
                sizes.join(", "),
                c.parameter
            ),
        ),
        None if sizes.is_empty() => say("proven", format!("the schedule of {} ranks", own.join(" x "))),
        None => say("proven", format!("schedules of {} ranks", sizes.join(", "))),
    }
    say("traced", "at these sizes every rank's instructions are those of the proven schedule".into());
    say("verified", "tile level: memory, types, flags, fences, limits".into());
    if let Some(c) = &report.compare {
        let worst = c.max_err.map_or_else(|| "not finite".to_owned(), |e| e.to_string());
        say(
            "simulated",
            format!("{} ranks, {} elements compared, max_err {worst}", own.join(" x "), c.elements),
        );
    }
    out
}

fn report_of(
    emitted: &Emitted,
    package: &Package<'_>,
    wanted: &Wanted<'_>,
    files: &[(String, Vec<u8>)],
) -> EmitReport {
    let counts = passes::counts(&emitted.kernel);
    EmitReport {
        target: wanted.target.to_owned(),
        out: wanted.out.to_owned(),
        kernel: emitted.kernel.name.to_string(),
        files: files.iter().map(|f| f.0.clone()).collect(),
        ranks: package.claim.ranks.clone(),
        count: package.claim.count.as_ref().map(|c| c.parameter.to_string()),
        largest_count: package.claim.count.as_ref().map(|c| c.largest),
        barriers: counts.all as u64,
        barriers_in_tiles: counts.all_in_tiles as u64,
        flags: counts.flags as u64,
        dsb: counts.dsb as u64,
    }
}
