//! Signals of algorithms, counted on their order graphs, against a barrier a round.

use crate::check::algorithms::{declarations, ranks, requested, shapes};
use crate::failure::Outcome;
use crate::options::Source;
use crate::workspace::Workspace;
use kbc_diag::{Diagnostic, FileId, Span};
use kbc_passes::expand::is_total;
use kbc_passes::order::{NoSyncCounts, Policy, SyncCounts, Within, choose, count};
use kbc_rounds::rounds::coordinates;
use kbc_rounds::{AlgId, Call, Library, Limits};
use serde::Serialize;

/// Numbers of ranks by default.
const RANKS: [i64; 2] = [4, 8];

/// The counts; it serialises to the JSON of `kbc check --sync`.
#[derive(Serialize)]
pub struct SyncReport {
    schema: u32,
    command: &'static str,
    file: String,
    algorithms: Vec<Row>,
    /// Whether also other places of messages were asked for: an algorithm was named.
    #[serde(skip)]
    all: bool,
}

/// An algorithm on a shape.
#[derive(Serialize)]
struct Row {
    collective: String,
    algorithm: String,
    /// Sizes of its axes.
    shape: Vec<i64>,
    ranks: i64,
    rounds: u64,
    messages: u64,
    /// Signals of its schedule.
    chosen: Counts,
    /// Signals with other policies for slots.
    others: Vec<Counts>,
    /// Policies with which it would deadlock: a round has more messages on a channel than slots, in
    /// both directions.
    impossible: Vec<String>,
    /// Notifies with one barrier per round: rounds * p * (p - 1).
    barrier_a_round: u64,
}

/// A policy to place messages.
#[derive(Serialize)]
struct Counts {
    policy: String,
    notifies: u64,
    waits: u64,
    /// Releases, one before each notify.
    releases: u64,
    /// Acquires, one after the wait for each arrival.
    acquires: u64,
    barriers: u64,
    /// On the rank that has the most.
    slots: u64,
    credits_wanted: u64,
    credits_needed: u64,
}

fn counts(policy: Policy, c: &SyncCounts) -> Counts {
    Counts {
        policy: policy.name(),
        notifies: c.notifies(),
        waits: c.waits(),
        releases: c.notifies(),
        acquires: c.messages,
        barriers: 0,
        slots: c.slots,
        credits_wanted: c.wanted,
        credits_needed: c.needed,
    }
}

/// Counts the signals of the algorithms of a file; of the library, if the name of the file is
/// empty.
///
/// # Errors
/// Returns the errors of reading, E416 if there is no algorithm, and the errors of an algorithm or
/// a schedule.
pub fn count_signals(workspace: &mut Workspace, source: &Source) -> Outcome<SyncReport> {
    let file = &source.file;
    let (library, root, sizes) = if file.is_empty() {
        (crate::load::library(workspace, &[], &[])?, None, ranks(source, None)?)
    } else {
        let loaded = crate::load::load_file(workspace, file)?;
        let sizes = ranks(source, Some(&loaded))?;
        (declarations(source, &loaded)?, Some(loaded.root.unwrap_or_default()), sizes)
    };
    let sizes = sizes.unwrap_or(RANKS.to_vec());
    let ids: Vec<AlgId> = match root {
        Some(root) => library.algorithms_in(root),
        None => library.algorithms().collect(),
    };
    let named = requested(workspace, &library, root, ids, source)?;
    let ids = named.ids;
    if let Some((arg, _)) = named.asked.as_ref().and_then(|a| a.args.iter().chain(&a.options).next()) {
        return Err(Diagnostic::error("E416", "--sync does not accept arguments of an algorithm")
            .primary(arg.span, "this argument")
            .into());
    }
    if ids.is_empty() {
        return Err(Diagnostic::error("E416", "there is no algorithm, so there are no signals to count")
            .primary(Span::new(root.unwrap_or(FileId::default()), 0, 0), "in this file")
            .help("give a file with algorithms, or no file for the library; choose one with --algorithm NAME")
            .into());
    }
    let mut found = SyncReport {
        schema: crate::report::SCHEMA,
        command: "check --sync",
        file: file.clone(),
        algorithms: vec![],
        all: named.asked.is_some(),
    };
    for id in ids {
        workspace.progress(&format!("counting {}", library.algorithm(id).name.node));
        for p in &sizes {
            for shape in wide(shapes(library.algorithm(id).axes.len(), Some(*p))) {
                found.algorithms.extend(row(&library, id, shape)?);
            }
        }
    }
    Ok(found)
}

/// Prefers shapes without axes of one rank.
fn wide(all: Vec<Vec<i64>>) -> Vec<Vec<i64>> {
    let wide: Vec<Vec<i64>> = all.iter().filter(|s| s.iter().all(|n| *n > 1)).cloned().collect();
    if wide.is_empty() { all.into_iter().take(1).collect() } else { wide }
}

/// Returns the counts of an algorithm on a shape; None if it is not defined for that shape.
fn row(library: &Library, id: AlgId, sizes: Vec<i64>) -> Outcome<Option<Row>> {
    let decl = library.algorithm(id);
    let p: i64 = sizes.iter().product();
    let at = decl.root.is_some().then(|| coordinates(&sizes, 0));
    let call = Call { alg: id, sizes: sizes.clone(), root: at, args: vec![] };
    let rounds = match kbc_rounds::expand(library, &call, &Limits::default()) {
        Err(d) if d.list.iter().all(|d| d.code == "E024") => return Ok(None),
        rounds => rounds?,
    };
    let root = decl.root.as_ref().map(|_| 0);
    let total = library.collective_of(id).is_some_and(|coll| is_total(library, coll, root));
    let policy = choose::policy(library, &call, total);
    let too_large = |n| {
        Diagnostic::error(
            "E331",
            format!("the order graph of `{}` on {p} ranks has {n} events", decl.name.node),
        )
        .primary(decl.name.span, "this algorithm")
        .note(format!("the limit of a drawing is {} events", kbc_passes::order::MAX_EVENTS))
        .help("use fewer ranks: --ranks 8")
    };
    let chosen = match count(&rounds, policy, Within::Program) {
        Ok(c) => c,
        Err(NoSyncCounts::TooLarge(n)) => return Err(too_large(n).into()),
        Err(NoSyncCounts::Cycle) => {
            return Err(Diagnostic::error(
                "E340",
                format!("the schedule of `{}` would deadlock: it would wait for itself", decl.name.node),
            )
            .primary(decl.name.span, "this algorithm")
            .into());
        }
    };
    let others = [
        Policy::PerMessage,
        Policy::Alternate,
        Policy::Slots(1),
        Policy::Slots(2),
        Policy::Direct,
        Policy::Pull,
    ];
    let (mut list, mut impossible) = (vec![], vec![]);
    for other in others.into_iter().filter(|o| *o != policy) {
        match count(&rounds, other, Within::Program) {
            Ok(c) => list.push(counts(other, &c)),
            Err(NoSyncCounts::Cycle) => impossible.push(other.name()),
            Err(NoSyncCounts::TooLarge(n)) => return Err(too_large(n).into()),
        }
    }
    Ok(Some(Row {
        collective: decl.coll.node.clone(),
        algorithm: decl.name.node.clone(),
        shape: sizes,
        ranks: p,
        rounds: chosen.rounds,
        messages: chosen.messages,
        chosen: counts(policy, &chosen),
        others: list,
        impossible,
        barrier_a_round: chosen.naive,
    }))
}

/// Formats the counts for people.
pub fn human(found: &SyncReport) -> String {
    let head = [
        "algorithm",
        "ranks",
        "rounds",
        "messages",
        "slots",
        "credits",
        "notifies",
        "waits",
        "fences",
        "barrier per round",
        "placed in",
    ]
    .map(str::to_owned);
    let mut table = vec![head.to_vec()];
    for r in &found.algorithms {
        let shape: Vec<String> = r.shape.iter().map(i64::to_string).collect();
        let mut line = |name: String, c: &Counts| {
            table.push(vec![
                name,
                shape.join("x"),
                r.rounds.to_string(),
                r.messages.to_string(),
                c.slots.to_string(),
                format!("{} of {}", c.credits_needed, c.credits_wanted),
                c.notifies.to_string(),
                c.waits.to_string(),
                (c.releases + c.acquires).to_string(),
                r.barrier_a_round.to_string(),
                c.policy.clone(),
            ]);
        };
        line(format!("{} {}", r.collective, r.algorithm), &r.chosen);
        if found.all {
            r.others.iter().for_each(|c| line("  otherwise".into(), c));
            for policy in &r.impossible {
                let mut cells = vec!["  waits for itself".to_owned(), shape.join("x")];
                cells.resize(head.len() - 1, "-".into());
                table.push([cells, vec![policy.clone()]].concat());
            }
        }
    }
    let width: Vec<usize> =
        (0..head.len()).map(|i| table.iter().map(|r| r[i].chars().count()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for r in &table {
        let cells: Vec<String> = r
            .iter()
            .zip(&width)
            .enumerate()
            .map(|(i, (c, w))| match i {
                0 | 10 => format!("{c:<w$}"),
                _ => format!("{c:>w$}"),
            })
            .collect();
        out += &format!("{}\n", cells.join("  ").trim_end());
    }
    let sum = |f: &dyn Fn(&Row) -> u64| found.algorithms.iter().map(f).sum::<u64>();
    out += &format!(
        "{} in total: {} notifies, {} waits, {} fences, 0 barriers; credits: {} of {} are necessary; with a barrier per round: {} notifies\n",
        crate::report::amounts::count(found.algorithms.len() as u64, "schedule"),
        sum(&|r| r.chosen.notifies),
        sum(&|r| r.chosen.waits),
        sum(&|r| r.chosen.releases + r.chosen.acquires),
        sum(&|r| r.chosen.credits_needed),
        sum(&|r| r.chosen.credits_wanted),
        sum(&|r| r.barrier_a_round)
    );
    out
}
