//! Parallel execution of rows.
//!
//! This module owns threads, the order of results, and the diagnostics of rows: each message once,
//! with the rows to which it applies.

use super::cache::{Cache, digest};
use super::listening::Listening;
use super::request::RowRequest;
use super::row::{self, Facts};
use kbc_compiler::failure::{Failure, Outcome};
use kbc_compiler::measure::ready;
use kbc_compiler::workspace::Workspace;
use kbc_diag::{Diagnostic, Severity};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// A finished row.
#[derive(Clone, Debug)]
pub struct SweepRow {
    /// Index in the grid.
    pub row: usize,
    /// Its facts.
    pub facts: Facts,
    /// Whether the facts came from the cache.
    pub cached: bool,
}

/// The results of some rows.
pub struct SweepRows {
    /// Rows in the order of the grid.
    pub rows: Vec<SweepRow>,
    /// Messages with the rows to which they apply, in the order of the first such row.
    pub heard: Vec<(String, Vec<usize>)>,
}

impl SweepRows {
    /// Puts rows with what was heard of them into the order of the grid. A message that several
    /// rows have is there once.
    pub fn of(mut rows: Vec<SweepRow>, heard: BTreeMap<usize, Vec<String>>) -> SweepRows {
        rows.sort_by_key(|r| r.row);
        let mut words: Vec<(String, Vec<usize>)> = vec![];
        for (number, said) in heard {
            for text in said {
                match words.iter_mut().find(|w| w.0 == text) {
                    Some(w) => w.1.push(number),
                    None => words.push((text, vec![number])),
                }
            }
        }
        SweepRows { rows, heard: words }
    }

    /// Joins the rows of two parts of a grid.
    #[must_use]
    pub fn with(self, other: SweepRows) -> SweepRows {
        let mut heard: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (text, rows) in self.heard.into_iter().chain(other.heard) {
            rows.into_iter().for_each(|row| heard.entry(row).or_default().push(text.clone()));
        }
        SweepRows::of(self.rows.into_iter().chain(other.rows).collect(), heard)
    }
}

/// How rows are executed.
pub struct Within<'a> {
    /// Number of threads.
    pub jobs: usize,
    /// Where finished rows are kept and found again, if anywhere.
    pub cache: Option<&'a Cache>,
}

/// Executes rows whose times are computed, and calls `done` for each finished row.
///
/// # Errors
/// Files that cannot be read, other usage errors and internal errors end the sweep. Rows that were
/// stored in the cache by then remain there.
pub fn run(
    workspace: &Workspace,
    sweep: &str,
    points: &[&RowRequest],
    &Within { jobs, cache }: &Within<'_>,
    done: &mut dyn FnMut(&SweepRow),
) -> Outcome<SweepRows> {
    type Finished = (Outcome<SweepRow>, usize, Vec<String>);
    let (send, receive) = mpsc::channel::<Finished>();
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|s| {
        let work = |send: mpsc::Sender<Finished>| {
            while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let listening = Arc::new(Listening::new(workspace.environment.clone(), digest));
                let mut own = workspace.within(listening.clone());
                let row = one(&mut own, &listening, sweep, point, cache);
                if send.send((row, point.row, listening.heard())).is_err() {
                    return;
                }
            }
        };
        let threads: Vec<_> = (0..jobs.clamp(1, points.len().max(1)))
            .map(|_| {
                let send = send.clone();
                s.spawn(move || work(send))
            })
            .collect();
        drop(send);
        let mut rows = vec![];
        let mut heard: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let mut failed: Option<(usize, Failure)> = None;
        for (row, number, said) in receive {
            heard.insert(number, said);
            match row {
                Ok(row) => {
                    done(&row);
                    rows.push(row);
                }
                Err(e) => {
                    stop.store(true, Ordering::Relaxed);
                    // If several rows fail at the same time, the first one is reported.
                    if failed.as_ref().is_none_or(|f| number < f.0) {
                        failed = Some((number, e));
                    }
                }
            }
        }
        for t in threads {
            if let Err(panic) = t.join() {
                std::panic::resume_unwind(panic);
            }
        }
        if let Some(d) = cache.and_then(Cache::damaged) {
            workspace.report(&d.into());
        }
        if let Some((_, failure)) = failed {
            return Err(failure);
        }
        Ok(SweepRows::of(rows, heard))
    })
}

/// Computes one row: takes it from the cache, or compiles it and, unless its schedule is in the
/// cache, executes it.
fn one(
    workspace: &mut Workspace,
    listening: &Listening,
    sweep: &str,
    point: &RowRequest,
    cache: Option<&Cache>,
) -> Outcome<SweepRow> {
    if point.engine.measures() {
        let title = format!("row {} is measured and cannot be computed", point.row);
        return Err(Diagnostic::error("E991", title).into());
    }
    let question = cache.map(|c| (c, c.question(sweep, point)));
    let cached = |facts| Ok(SweepRow { row: point.row, facts, cached: true });
    if let Some(facts) = question.as_ref().and_then(|(c, q)| c.known(q)) {
        return cached(facts);
    }
    workspace.environment.begin_separate_record(&row::command(sweep, point));
    let found = (|| {
        let source = row::source(workspace, sweep, point)?;
        let ready = ready(workspace, &source)?;
        let answer = question.as_ref().map(|(c, _)| c.answer(&listening.touched(), &ready));
        let known = question
            .as_ref()
            .zip(answer.as_ref())
            .and_then(|((c, q), a)| c.answered(a).inspect(|_| c.link(&listening.touched(), q, a)));
        if let Some(facts) = known {
            return cached(facts);
        }
        let facts = row::facts(workspace, &source, &ready)?;
        if let (Some((c, q)), Some(a)) = (&question, &answer) {
            c.put(&listening.touched(), q, a, &facts);
        }
        Ok(SweepRow { row: point.row, facts, cached: false })
    })();
    match found {
        Err(failure) => refused(workspace, point.row, failure),
        Ok(row) => Ok(row),
    }
}

/// Returns the row of a failure, and reports its messages.
///
/// # Errors
/// Returns a failure that is not about the program.
pub fn refused(workspace: &Workspace, row: usize, failure: Failure) -> Outcome<SweepRow> {
    if !matches!(failure, Failure::Program(_)) {
        return Err(failure);
    }
    let d = failure.messages();
    workspace.report(d);
    let first = d.list.iter().find(|d| d.severity == Severity::Error);
    let why = first.map_or_else(String::new, |d| format!("{} {}", d.code, d.title));
    let facts = row::refused(why, Some(failure.json(&workspace.map)));
    Ok(SweepRow { row, facts, cached: false })
}
