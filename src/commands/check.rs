//! `kbc check`: proof without execution. A `.kir` file: its schedule as it stands. A file with a program: its schedule.
//! A file of algorithms: each of them on many shapes, round by round, so that a mistake is explained in the author's
//! own terms. A `.tile` file: [`super::tile`].

use super::compile::{begin, finish};
use super::tile;
use crate::analyse;
use crate::build::{build, defines};
use crate::cli::{Check, Source, Watch};
use crate::report::{AlgorithmReport, Report, SCHEMA};
use crate::session::{Outcome, Session};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_frontend::ast::Item;
use kbc_rounds::rounds::coordinates;
use kbc_rounds::{AlgId, Call, Library, Limits, Verifier};

/// Proves what the file says.
///
/// # Errors
/// What is wrong with it.
pub fn run(session: &mut Session, args: &Check) -> Outcome {
    if super::import::is_one(session, &args.source.file) {
        return super::import::check(session, args);
    }
    super::import::no_post(&args.source)?;
    if args.source.file.ends_with(".tile") {
        return tile::check(session, args);
    }
    tile::no_target(args.target.as_ref(), &args.source.file)?;
    if args.source.file.ends_with(".kir") {
        return schedule(session, args);
    }
    let loaded = super::load_file(session, &args.source.file)?;
    let root = loaded.root.unwrap_or_default();
    let has_program = loaded
        .file(root)
        .is_some_and(|f| f.tree.items.iter().any(|i| matches!(i, Item::Program(_) | Item::Local(_))));
    if has_program || args.source.program.is_some() {
        let built = build(session, &args.source, "default", &Watch::default())?;
        let Some(schedule) = built.module.schedule() else { return Ok(()) };
        let mut report = begin("check", &args.source.file, &built, schedule);
        report.verified = Some(analyse::verify(schedule)?);
        report.ok = true;
        return finish(session, &report, args.report, true);
    }
    let ids: Vec<AlgId> = loaded
        .library
        .algorithms_in(root)
        .into_iter()
        .filter(|id| {
            args.source.algorithm.as_ref().is_none_or(|n| loaded.library.algorithm(*id).name.node == *n)
        })
        .collect();
    // Kernels, functions and collectives alone have been read and resolved: there is nothing more to prove.
    let declares = loaded.file(root).is_some_and(|f| !f.tree.items.is_empty())
        || loaded.library.functions().iter().any(|f| f.span.file == root)
        || loaded.library.collectives().any(|c| loaded.library.collective(c).span.file == root);
    if ids.is_empty() && (!declares || args.source.algorithm.is_some()) {
        return Err(Diagnostic::error(
            "E416",
            format!("{} has no program and no algorithm to check", args.source.file),
        )
        .primary(Span::new(root, 0, 0), "nothing here")
        .into());
    }
    let mut report = Report {
        schema: SCHEMA,
        command: "check",
        file: args.source.file.clone(),
        ok: true,
        ..Report::default()
    };
    let ranks = ranks(&args.source)?;
    let mut found = Diagnostics::new();
    for id in ids {
        session.progress(&format!("checking {}", loaded.library.algorithm(id).name.node));
        match algorithm(&loaded.library, id, ranks) {
            Ok(row) => report.algorithms.push(row),
            Err(d) => found.extend(d),
        }
    }
    if found.has_errors() {
        return Err(found.into());
    }
    finish(session, &report, args.report, true)
}

/// A schedule as text: verified and proven as it stands.
fn schedule(session: &mut Session, args: &Check) -> Outcome {
    if args.source.topology.is_some() {
        return Err(Diagnostic::error("E416", "--topology means nothing for the proof of a .kir file")
            .help("`kbc run` times a schedule on another machine")
            .into());
    }
    if let Some(shape) = &args.source.topology {
        return Err(Diagnostic::error(
            "E416",
            format!("--topology {shape} means nothing for the proof of a schedule"),
        )
        .help("kbc run times a .kir on a machine")
        .into());
    }
    let module = super::read_schedule(session, &args.source)?;
    let Some(schedule) = module.schedule() else { return Ok(()) };
    let mut report = super::about_schedule("check", &args.source.file, &module, schedule);
    report.verified = Some(analyse::verify(schedule)?);
    report.ok = true;
    finish(session, &report, args.report, true)
}

/// `-D p=..`: the number of ranks to check on; shapes of LANGUAGE 5 if absent.
fn ranks(source: &Source) -> Result<Option<i64>, Diagnostics> {
    let mut ranks = None;
    for (name, value) in defines(&source.define)? {
        let number = value.parse::<i64>().ok().filter(|v| *v >= 1);
        match (name.as_str(), number) {
            ("p", Some(v)) => ranks = Some(v),
            ("p", None) => {
                return Err(
                    Diagnostic::error("E413", format!("-D p={value} is not a number of ranks")).into()
                );
            }
            (other, _) => {
                return Err(Diagnostic::error(
                    "E413",
                    format!("checking algorithms takes no parameter `{other}`"),
                )
                .note("what can be set: p, the number of ranks")
                .into());
            }
        }
    }
    if let Some(shape) = &source.topology {
        return Err(Diagnostic::error("E416", format!("--topology {shape} means nothing without a program"))
            .help("use -D p=8")
            .into());
    }
    Ok(ranks)
}

/// Shapes an algorithm with that many axes is checked on: those of LANGUAGE 5, or those with `ranks` ranks.
fn shapes(axes: usize, ranks: Option<i64>) -> Vec<Vec<i64>> {
    let legal = |s: &Vec<i64>| match ranks {
        Some(p) => s.iter().product::<i64>() == p,
        None => match s.len() {
            1 => true,
            2 => s.iter().product::<i64>() <= 20,
            _ => s.iter().product::<i64>() <= 36,
        },
    };
    let most = match (ranks, axes) {
        (Some(p), _) => p,
        (None, 1) => 17,
        (None, 2) => 5,
        (None, _) => 4,
    };
    let mut all: Vec<Vec<i64>> = vec![vec![]];
    for _ in 0..axes {
        all = all.into_iter().flat_map(|s| (1..=most).map(move |n| [s.clone(), vec![n]].concat())).collect();
        // Shapes that are too large already do not grow any more.
        if let Some(p) = ranks {
            all.retain(|s| p % s.iter().product::<i64>() == 0);
        }
    }
    all.retain(legal);
    all
}

fn algorithm(library: &Library, id: AlgId, ranks: Option<i64>) -> Result<AlgorithmReport, Diagnostics> {
    let decl = library.algorithm(id);
    let rooted = decl.root.is_some();
    let mut verifier = Verifier::new(library, Limits::default());
    let (mut count, mut largest, mut illegal) = (0, 0, None);
    for sizes in shapes(decl.axes.len(), ranks) {
        let p: i64 = sizes.iter().product();
        let roots: Vec<Option<Vec<i64>>> =
            if rooted { (0..p).map(|c| Some(coordinates(&sizes, c))).collect() } else { vec![None] };
        for root in roots {
            match verifier.verify(&Call { alg: id, sizes: sizes.clone(), root, args: vec![] }) {
                Ok(_) => {
                    count += 1;
                    largest = largest.max(p as u64);
                }
                // A condition that is false makes the shape illegal, not the algorithm wrong.
                Err(d) if d.list.iter().all(|d| d.code == "E024") => illegal = Some(d),
                Err(d) => return Err(at(d, &sizes)),
            }
        }
    }
    match illegal {
        Some(d) if count == 0 => Err(d),
        _ => Ok(AlgorithmReport {
            collective: decl.coll.node.clone(),
            algorithm: decl.name.node.clone(),
            shapes: count,
            largest,
        }),
    }
}

fn at(mut d: Diagnostics, sizes: &[i64]) -> Diagnostics {
    let shape: Vec<String> = sizes.iter().map(i64::to_string).collect();
    for e in &mut d.list {
        e.notes.push(format!("on {} ranks", shape.join(" x ")));
    }
    d
}
