//! Checks of algorithms: correct on many shapes, schedules proven on small ones, cost as
//! documented.
//!
//! The module owns the shapes of a check. It checks rounds before schedules, so that a message
//! about a mistake is in terms of the algorithm's text.

use super::grid::{self, Setting};
use crate::algorithm_request::{self, AlgorithmRequest};
use crate::arguments::defines;
use crate::failure::Outcome;
use crate::load::refuse;
use crate::options::{Selection, Source};
use crate::report::AlgorithmReport;
use crate::workspace::Workspace;
use kbc_checker::{CheckOptions, check as prove};
use kbc_diag::{Diagnostic, Diagnostics, FileId};
use kbc_frontend::loaded::Loaded;
use kbc_frontend::lower::named_algorithms;
use kbc_ir::types::{CutRule, DType, ReduceOp};
use kbc_passes::standalone::Standalone;
use kbc_rounds::claim::{Claim, claims, compare};
use kbc_rounds::rounds::coordinates;
use kbc_rounds::{AlgId, Call, Library, Limits, Verifier, cost};
use std::collections::BTreeSet;

/// Largest number of ranks on which schedules are built and proven.
const SCHEDULED: u64 = 8;

/// Largest number of ranks on which that is done with other arguments and sizes.
const SMALL: u64 = 4;

/// Errors of lowering that are limits of kbc and not mistakes of the algorithm.
const LIMITS: [&str; 3] = ["E033", "E040", "E332"];

/// The algorithms that `--algorithm` or `--using` names.
pub struct RequestedAlgorithms {
    /// All algorithms of that name; all algorithms of the file if none is named.
    pub ids: Vec<AlgId>,
    /// The text of the argument.
    pub asked: Option<AlgorithmRequest>,
    /// Whether they are checked in addition to a program.
    pub beside: bool,
}

/// Returns the algorithms in `all`, or of their collectives, that are requested.
///
/// # Errors
/// Returns E005 for an unknown name, and E413 or E416 for a wrong argument.
pub fn requested(
    workspace: &mut Workspace,
    library: &Library,
    root: Option<FileId>,
    all: Vec<AlgId>,
    source: &Source,
) -> Outcome<RequestedAlgorithms> {
    let Some(asked) = algorithm_request::algorithm(workspace, &source.of)? else {
        return Ok(RequestedAlgorithms { ids: all, asked: None, beside: false });
    };
    let ids = named_algorithms(library, root, &all, &asked.name).map_err(|d| *d)?;
    Ok(RequestedAlgorithms { ids, asked: Some(asked), beside: false })
}

/// Checks algorithms on the given numbers of ranks, or by default on the shapes of [`shapes`], with
/// the requested arguments or with a grid of them. Returns the reports, and the names of the
/// algorithms beside a program that are not defined for any of the shapes.
///
/// # Errors
/// Returns all errors of all algorithms; E005 and E006 for arguments.
pub fn check(
    workspace: &Workspace,
    library: &Library,
    named: &RequestedAlgorithms,
    ranks: Option<&[i64]>,
) -> Outcome<(Vec<AlgorithmReport>, Vec<String>)> {
    let mut unfit = vec![];
    let mut found = Diagnostics::new();
    let mut rows = vec![];
    let mut verifier = Verifier::new(library, Limits::default());
    for id in &named.ids {
        let decl = library.algorithm(*id);
        workspace.progress(&format!("checking {} {}", decl.coll.node, decl.name.node));
        let settings = match &named.asked {
            Some(asked) => grid::requested(library, *id, asked),
            None => grid::usual(library, decl),
        };
        match settings.and_then(|s| one(library, &mut verifier, (*id, &s), ranks)) {
            Ok(row) => rows.push(row),
            // A program uses the algorithm on a shape of its own.
            Err(d) if named.beside && d.list.iter().all(|d| d.code == "E024") => {
                unfit.push(decl.name.node.clone());
            }
            Err(d) => merge(&mut found, d, &decl.name.node),
        }
    }
    if found.has_errors() { Err(found.into()) } else { Ok((rows, unfit)) }
}

/// Returns the declarations that a file sees, with the values that `-D` gives to its parameters.
///
/// # Errors
/// Returns E421 for a value that a parameter cannot have, and the errors of the parameters.
pub fn declarations(source: &Source, loaded: &Loaded) -> Outcome<Library> {
    let mut defines = defines(&source.of.define)?;
    defines.retain(|(name, _)| is_parameter(loaded, name));
    Ok(kbc_frontend::lower::library(loaded, &defines)?)
}

/// Returns whether the file has a parameter with this name.
fn is_parameter(loaded: &Loaded, name: &str) -> bool {
    loaded.root.is_some_and(|root| loaded.params(root).any(|p| p.name.node == name))
}

/// Returns the numbers of ranks of `--ranks ..` or `-D p=..`; by default the shapes of [`shapes`].
/// If the file has a parameter `p`, `-D p=..` is its value.
///
/// # Errors
/// E413 for what is no number of ranks; E416 for what means nothing for algorithms.
pub fn ranks(source: &Source, loaded: Option<&Loaded>) -> Outcome<Option<Vec<i64>>> {
    let mut ranks = source.of.ranks.as_ref().map(|t| algorithm_request::ranks("--ranks ", t)).transpose()?;
    for (name, value) in defines(&source.of.define)? {
        match name.as_str() {
            name if loaded.is_some_and(|l| is_parameter(l, name)) => {}
            "p" if source.of.ranks.is_some() => {
                return Err(Diagnostic::error("E416", "--ranks and -D p= both define the number of ranks")
                    .help("remove one of them")
                    .into());
            }
            "p" => ranks = Some(algorithm_request::ranks("-D p=", &value)?),
            other => {
                return Err(Diagnostic::error(
                    "E413",
                    format!("unknown parameter `{other}`: the file does not declare it"),
                )
                .note("-D gives values to the parameters of a file, and p is the number of ranks")
                .help(format!(
                    "give an argument of an algorithm with its name: --algorithm 'NAME({other}: {value})'"
                ))
                .into());
            }
        }
    }
    if !source.of.set.is_empty() {
        return Err(
            Diagnostic::error("E416", "--set does not apply to algorithms, which have no machine").into()
        );
    }
    if let Some(shape) = &source.of.topology {
        return Err(Diagnostic::error(
            "E416",
            format!("--topology {shape} does not apply without a program"),
        )
        .help("use --ranks 8")
        .into());
    }
    // What remains is about programs. A named program that does not exist is an error of its own.
    let about_algorithms = Selection {
        define: vec![],
        program: None,
        algorithm: None,
        ranks: None,
        using: vec![],
        ..source.of.clone()
    };
    refuse(&about_algorithms.given(), "algorithms, which have no machine")?;
    Ok(ranks)
}

/// Returns the shapes on which an algorithm with that many axes is checked: lines up to 17, grids
/// with sides up to 5 and at most 20 ranks, boxes up to 4 x 4 x 3 with at most 36 ranks; or all
/// shapes with `ranks` ranks.
pub fn shapes(axes: usize, ranks: Option<i64>) -> Vec<Vec<i64>> {
    let mut all: Vec<Vec<i64>> = vec![vec![]];
    for axis in 0..axes {
        let most = match (ranks, axes, axis) {
            (Some(p), ..) => p,
            (None, 1, _) => 17,
            (None, 2, _) => 5,
            (None, _, 0 | 1) => 4,
            (None, ..) => 3,
        };
        all = all.into_iter().flat_map(|s| (1..=most).map(move |n| [s.clone(), vec![n]].concat())).collect();
        // Shapes that are already too large are not extended.
        if let Some(p) = ranks {
            all.retain(|s| p % s.iter().product::<i64>() == 0);
        }
    }
    let most = [17, 20, 36][axes.clamp(1, 3) - 1];
    all.retain(|s| {
        let p = s.iter().product::<i64>();
        ranks.map_or(p <= most, |r| p == r)
    });
    // The smallest shape that fails gives the shortest message.
    all.sort_by_key(|s| s.iter().product::<i64>());
    all
}

/// One or two ranks are the smallest that fail, but hardly anything is transferred there. The same
/// fault on three or four ranks is clearer, if it occurs there.
fn telling(library: &Library, call: &Call, least: Diagnostics, given: bool) -> Diagnostics {
    let &[p @ 1..=2] = call.sizes.as_slice() else { return at(least, &call.sizes) };
    let code = least.list.first().map(|d| d.code).filter(|c| !given && c.starts_with("E1"));
    for more in [3, 4] {
        let root = call.root.as_ref().map(|_| vec![0]);
        let call = Call { sizes: vec![more], root, ..call.clone() };
        let mut verifier = Verifier::new(library, Limits::default());
        if let (Some(code), Err(d)) = (code, verifier.verify(&call))
            && d.list.first().is_some_and(|d| d.code == code)
        {
            let mut d = at(verifier.advised(d), &call.sizes);
            for e in &mut d.list {
                e.notes.push(format!("the smallest number of ranks on which it is wrong is {p}"));
            }
            return d;
        }
    }
    at(least, &call.sizes)
}

/// Adds the errors of an algorithm. Errors of an algorithm that it uses are reported once.
fn merge(found: &mut Diagnostics, more: Diagnostics, name: &str) {
    for d in more.list {
        let same = |o: &&mut Diagnostic| o.code == d.code && o.span() == d.span();
        match found.list.iter_mut().find(same) {
            Some(first) => first.notes.push(format!("`{name}` is wrong because of this error")),
            None => found.list.push(d),
        }
    }
}

fn one(
    library: &Library,
    verifier: &mut Verifier<'_>,
    (id, settings): (AlgId, &[Setting]),
    ranks: Option<&[i64]>,
) -> Result<AlgorithmReport, Diagnostics> {
    let decl = library.algorithm(id);
    let claims: Vec<Claim> = claims(decl).map_err(|d| *d)?;
    let mut row = AlgorithmReport {
        collective: decl.coll.node.clone(),
        algorithm: decl.name.node.clone(),
        shapes: 0,
        largest: 0,
        variants: settings.iter().filter(|s| s.documented).count() as u64,
        schedules: 0,
        costs: claims.iter().map(|c| format!("{} {}", c.figure.word(), c.text)).collect(),
        tried: vec![],
        elements: vec![],
    };
    let mut sizes_of: BTreeSet<usize> = BTreeSet::new();
    let (mut illegal, mut legal) = (None, vec![false; settings.len()]);
    // Returns why a schedule could not be built, if that was tried.
    let mut refused = None;
    let all = match ranks {
        Some(list) => list.iter().flat_map(|p| shapes(decl.axes.len(), Some(*p))).collect(),
        None => shapes(decl.axes.len(), None),
    };
    for sizes in all {
        let p: i64 = sizes.iter().product();
        for c in 0..if decl.root.is_some() { p } else { 1 } {
            let root = decl.root.is_some().then(|| coordinates(&sizes, c));
            let mut right = false;
            for (number, setting) in settings.iter().enumerate() {
                let call =
                    Call { alg: id, sizes: sizes.clone(), root: root.clone(), args: setting.args.clone() };
                let rounds = match verifier.verify(&call) {
                    Ok(rounds) => rounds,
                    // A condition that is false makes the shape illegal, not the algorithm wrong.
                    Err(d) if d.list.iter().all(|d| d.code == "E024") => {
                        illegal = Some(d);
                        continue;
                    }
                    Err(d) => {
                        let d = telling(library, &call, verifier.advised(d), ranks.is_some());
                        return Err(setting.named(d));
                    }
                };
                compare(library, &call, &claims, &cost(&rounds))
                    .map_err(|d| setting.named(at((*d).into(), &sizes)))?;
                (right, legal[number]) = (true, true);
                // Roots at both ends represent the others, because algorithms count from the root
                // or from an end.
                if c != 0 && c != p - 1 {
                    continue;
                }
                for n in elements(p as u64, number == 0) {
                    match schedule(library, &call, setting, n).map_err(|d| setting.named(at(d, &sizes)))? {
                        Proof::Proven => {
                            row.schedules += 1;
                            sizes_of.insert(if n == 1 { 0 } else { 1 + usize::from(n != 2 * p as u64) });
                        }
                        Proof::Refused(why) => refused = refused.or(Some(setting.named(at(why, &sizes)))),
                        Proof::NotExpressible => {}
                    }
                }
            }
            if right {
                row.shapes += 1;
                row.largest = row.largest.max(p as u64);
            }
        }
    }
    row.elements = sizes_of.into_iter().map(|i| ["1", "2p", "2p + 1"][i].to_owned()).collect();
    row.tried = grid::tried(settings, &legal);
    match (illegal, refused) {
        (Some(d), _) if row.shapes == 0 => Err(d),
        // The rounds are correct, but no executable schedule was proven.
        (_, Some(d)) if row.schedules == 0 => Err(d),
        _ => Ok(row),
    }
}

/// Whether the schedule of a call was proven.
enum Proof {
    /// It was built and proven.
    Proven,
    /// A limit of kbc, with the reason.
    Refused(Diagnostics),
    /// A `using` cannot express the arguments.
    NotExpressible,
}

/// Returns the numbers of elements for which schedules are built and proven. With the default
/// arguments, these are two per rank on small shapes; on smaller shapes also fewer than ranks, and
/// numbers that are not divisible by any number of ranks.
fn elements(p: u64, first: bool) -> Vec<u64> {
    match p {
        p if p <= SMALL && first => vec![2 * p, 1, 2 * p + 1],
        p if p <= SCHEDULED && first || p <= SMALL => vec![2 * p],
        _ => vec![],
    }
}

/// Builds and proves the schedule of a call.
///
/// # Errors
/// Returns the errors of the passes and the checker, except limits of kbc.
fn schedule(library: &Library, call: &Call, setting: &Setting, n: u64) -> Result<Proof, Diagnostics> {
    let Some((args, options)) = setting.schedule_args() else { return Ok(Proof::NotExpressible) };
    let sizes: Vec<u64> = call.sizes.iter().map(|s| *s as u64).collect();
    let p: u64 = sizes.iter().product();
    let alone = Standalone {
        lib: library,
        alg: call.alg,
        args: &args,
        options: &options,
        sizes: &sizes,
        root: call.root.as_ref().map(|c| kbc_rounds::rounds::linear(&call.sizes, c) as u64),
        n,
        unit: p,
        rule: CutRule::Even,
        dtype: DType::I32,
        red: ReduceOp::Sum,
    };
    let module = match alone.synchronized() {
        Ok(m) => m,
        Err(d) if d.list.iter().all(|d| LIMITS.contains(&d.code)) => return Ok(Proof::Refused(d)),
        Err(d) => return Err(d),
    };
    let schedule =
        module.schedule().ok_or_else(|| Diagnostic::error("E991", "the pipeline made no schedule"))?;
    let verdict = prove(schedule, &CheckOptions::default());
    if verdict.ok() { Ok(Proof::Proven) } else { Err(verdict.errors) }
}

/// Adds the shape to messages.
pub(crate) fn at(mut d: Diagnostics, sizes: &[i64]) -> Diagnostics {
    let shape: Vec<String> = sizes.iter().map(i64::to_string).collect();
    for e in &mut d.list {
        let ranks = if shape == ["1"] { "rank" } else { "ranks" };
        e.notes.push(format!("on {} {ranks}", shape.join(" x ")));
    }
    d
}
