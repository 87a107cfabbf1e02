//! Signals of a schedule: what they do in a call, by use and form.

use crate::failure::Outcome;
use crate::load::{read_schedule, refuse};
use crate::options::Source;
use crate::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{Schedule, SignalUse};
use kbc_ir::walk::{Act, Cursor, Program, Step};
use serde::Serialize;
use std::collections::BTreeSet;

/// The call that is counted. It has earlier calls.
const LATER: i64 = 4;

/// Largest number of operations that are counted.
const MAX_OPERATIONS: u64 = 1 << 26;

/// The counts; it serialises to the JSON of `kbc check --sync` for a schedule.
#[derive(Serialize)]
pub struct SignalsReport {
    schema: u32,
    command: &'static str,
    file: String,
    schedule: String,
    ranks: u64,
    signals: Vec<Row>,
    releases: u64,
    acquires: u64,
    completes: u64,
}

/// An array of signals, summed over all ranks.
#[derive(Serialize)]
struct Row {
    signal: String,
    r#use: &'static str,
    form: &'static str,
    /// Number of counters that are incremented in the call.
    counters: u64,
    /// Largest number of streams that increment the same counter.
    writers: u64,
    notifies: u64,
    waits: u64,
}

/// Counts the signals of a schedule.
///
/// # Errors
/// Returns the errors of reading and verifying, E30x for an operation without a meaning, and E354
/// for more operations than are counted.
pub fn count_signals(workspace: &mut Workspace, source: &Source) -> Outcome<SignalsReport> {
    refuse(&[("--algorithm", source.of.algorithm.is_some())], "the signals of one schedule")?;
    let module = read_schedule(workspace, source)?;
    let schedule = module.schedule().ok_or_else(|| Diagnostic::error("E991", "the text has no schedule"))?;
    Ok(count(&source.file, &with_host_region(schedule))?)
}

fn count(file: &str, schedule: &Schedule) -> Result<SignalsReport, Diagnostics> {
    let program = Program::compile(schedule)?;
    let row = |s: &kbc_ir::schedule::Signal| Row {
        signal: s.name.to_string(),
        r#use: match s.usage {
            SignalUse::Arrival => "arrival",
            SignalUse::Credit => "credit",
            SignalUse::Barrier => "barrier",
        },
        form: s.form.name(),
        counters: 0,
        writers: 0,
        notifies: 0,
        waits: 0,
    };
    let mut found = SignalsReport {
        schema: crate::report::SCHEMA,
        command: "check --sync",
        file: file.to_owned(),
        schedule: schedule.name.to_string(),
        ranks: program.ranks(),
        signals: schedule.signals.iter().map(row).collect(),
        releases: 0,
        acquires: 0,
        completes: 0,
    };
    // Counter, its rank, and the rank and stream that increment it.
    let mut pairs: BTreeSet<(u32, u64, u64, u32)> = BTreeSet::new();
    let mut acts = 0;
    for (rank, stream) in
        (0..program.ranks()).flat_map(|r| (0..program.streams.len() as u32).map(move |s| (r, s)))
    {
        let mut cursor = Cursor::new(&program, rank, stream, LATER);
        while let Some(step) = cursor.next_step().map_err(|f| f.diagnostic(|r| schedule.mesh.show(r)))? {
            let Step::Act(act, ..) = step else { continue };
            acts += 1;
            if acts > MAX_OPERATIONS {
                let text = format!("a call of {} has more than {MAX_OPERATIONS} operations", schedule.name);
                return Err(Diagnostic::error("E354", text).help("use a smaller schedule").into());
            }
            match act {
                Act::Notify { peer, counter } => {
                    found.signals[program.counter_name(counter).0.0 as usize].notifies += 1;
                    pairs.insert((counter, peer, rank, stream));
                }
                Act::Wait { counter, .. } => {
                    found.signals[program.counter_name(counter).0.0 as usize].waits += 1;
                }
                Act::FenceRelease => found.releases += 1,
                Act::FenceAcquire => found.acquires += 1,
                Act::FenceComplete => found.completes += 1,
                _ => {}
            }
        }
    }
    let mut last = None;
    let mut writers = 0;
    for (counter, on, ..) in pairs {
        let row = &mut found.signals[program.counter_name(counter).0.0 as usize];
        writers = if last == Some((counter, on)) { writers + 1 } else { 1 };
        row.counters += u64::from(last != Some((counter, on)));
        row.writers = row.writers.max(writers);
        last = Some((counter, on));
    }
    Ok(found)
}

/// Formats the counts for people.
pub fn human(found: &SignalsReport) -> String {
    let head = ["signal", "use", "form", "counters", "writers", "notifies", "waits"].map(str::to_owned);
    let mut table = vec![head];
    table.extend(found.signals.iter().map(|r| {
        [
            format!("@{}", r.signal),
            r.r#use.to_owned(),
            r.form.to_owned(),
            r.counters.to_string(),
            r.writers.to_string(),
            r.notifies.to_string(),
            r.waits.to_string(),
        ]
    }));
    let width: Vec<usize> =
        (0..7).map(|i| table.iter().map(|r| r[i].chars().count()).max().unwrap_or(0)).collect();
    let mut out = format!(
        "{}: signals of one call on {}, sum over all ranks\n",
        found.schedule,
        crate::report::amounts::count(found.ranks, "rank")
    );
    for r in &table {
        let cells = r.iter().zip(&width).enumerate();
        let cells: Vec<String> =
            cells.map(|(i, (c, w))| if i < 3 { format!("{c:<w$}") } else { format!("{c:>w$}") }).collect();
        out += &format!("{}\n", cells.join("  "));
    }
    out += &format!(
        "fences: {} release, {} acquire, {} complete\n",
        found.releases, found.acquires, found.completes
    );
    // Notifies of barriers, by form.
    let of = |form: &str| -> u64 {
        let barriers = found.signals.iter().filter(|r| r.r#use == "barrier" && r.form == form);
        barriers.map(|r| r.notifies).sum()
    };
    let forms: Vec<String> = ["epoch", "sense", "clearing"]
        .iter()
        .filter(|f| of(f) > 0)
        .map(|f| format!("{} notifies by {f}", of(f)))
        .collect();
    if !forms.is_empty() {
        out += &format!("barriers: {}\n", forms.join(", "));
    }
    out
}
