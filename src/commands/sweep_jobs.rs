//! `kbc sweep --emit`: the jobs of a cluster that run the shards of a sweep and merge their rows.

use super::output::write_as;
use crate::cli::{JobKind, Sweep, ThemeChoice};
use crate::crash;
use crate::session::{Failure, Outcome, Session};
use kbc_compiler::report::amounts::count;
use kbc_diag::Diagnostic;
use kbc_evaluation::sweep::jobs::ShardJobs;
use kbc_evaluation::sweep::load::load;
use std::path::Path;

/// Writes the jobs; nothing runs.
///
/// # Errors
/// Returns E583 for the sweep file, E416 for more shards than rows and for words that a workflow
/// would not leave as they are, and E410 for a file that cannot be written.
pub(super) fn run(session: &mut Session, args: &Sweep, kind: JobKind) -> Outcome {
    let usage = |title: String, help: &str| {
        Err(Failure::Usage(Diagnostic::error("E416", title).help(help.to_owned()).into()))
    };
    let loaded = load(session, &args.file)?;
    let (shards, rows) = (args.shards.unwrap_or(1), loaded.grid.points.len());
    if shards > rows {
        let rows = count(rows as u64, "row");
        return usage(format!("--shards {shards}: the sweep has {rows}"), "a shard has at least one row");
    }
    if kind == JobKind::Github && shards > MATRIX {
        let title = format!("--shards {shards}: a workflow of GitHub has at most {MATRIX} jobs of one kind");
        return usage(title, "take fewer shards");
    }
    let option =
        |flag: &str, value: Option<String>| value.map_or_else(Vec::new, |value| vec![flag.to_owned(), value]);
    let switch = |flag: &str, on: bool| if on { vec![flag.to_owned()] } else { vec![] };
    let run = [option("--jobs", args.jobs.map(|n| n.to_string())), session.cache_options()];
    let merge = [option("--theme", args.theme.map(theme)), switch("--force", args.force)];
    let stem = Path::new(&args.file).file_stem().map_or("sweep".into(), |s| s.to_string_lossy());
    let jobs = ShardJobs {
        file: crash::line(std::slice::from_ref(&args.file)),
        name: stem.into_owned(),
        shards,
        run: crash::line(&run.concat()),
        merge: crash::line(&merge.concat()),
        setup: args.setup.clone(),
        measures: loaded.grid.points.iter().any(|p| p.engine.measures()),
    };
    if kind == JobKind::Github && [&jobs.file, &jobs.run].iter().any(|words| words.contains("${{")) {
        return usage("`${{` in a path begins an expression of the workflow".to_owned(), "rename the file");
    }
    let text = match kind {
        JobKind::Slurm => jobs.slurm(),
        JobKind::Github => jobs.github(),
    };
    write_as(session, "sweep", &args.file, args.output.as_deref().unwrap_or("-"), &text)
}

fn theme(choice: ThemeChoice) -> String {
    match choice {
        ThemeChoice::Light => "light".to_owned(),
        ThemeChoice::Dark => "dark".to_owned(),
    }
}

/// Most jobs that a matrix of a workflow makes.
const MATRIX: usize = 256;
