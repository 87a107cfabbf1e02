//! The page of `kbc report`: one HTML file with a program's text, its schedule, its timed run and
//! the evidence for its correctness (docs/reference/page.md).
//!
//! This module owns the content of the page and puts it into one file. `assets/` holds its
//! appearance: plain HTML, CSS and JavaScript. The data are columns of numbers in a JSON element.
//! They do not depend on the clock, on paths or on the machine on which kbc runs.

pub mod chunks;
pub mod flow;
pub mod make;
pub mod page_events;
pub mod place;
pub mod texts;

use crate::record::ranks::Ranks;
use chunks::CollectiveSteps;
use flow::Flow;
use kbc_compiler::report::Report;
use kbc_compiler::timeline::scene::Scene;
use kbc_diag::{Diagnostic, Diagnostics, SourceMap};
use kbc_ir::host::with_host_region;
use kbc_ir::walk::Program;
use kbc_machine::topology::LinkId;
use kbc_time::{TimeOptions, Timing, simulate_observed};
use page_events::{EventRecorder, Events};
use place::Places;
use serde::Serialize;
use std::path::Path;
use texts::{FileText, OpText, ValueAt};

/// Version of the data in a page. It increases when something changes its meaning.
pub const SCHEMA: u32 = 1;

/// The scripts of a page, in order. Each uses only those before it.
const SCRIPTS: [&str; 16] = [
    include_str!("assets/data.js"),
    include_str!("assets/look.js"),
    include_str!("assets/tables.js"),
    include_str!("assets/texts.js"),
    include_str!("assets/tracks.js"),
    include_str!("assets/timeline.js"),
    include_str!("assets/heat.js"),
    include_str!("assets/path.js"),
    include_str!("assets/steps.js"),
    include_str!("assets/moving.js"),
    include_str!("assets/holding.js"),
    include_str!("assets/player.js"),
    include_str!("assets/trees.js"),
    include_str!("assets/evidence.js"),
    include_str!("assets/selftest.js"),
    include_str!("assets/main.js"),
];

/// A region's name, label and source.
#[derive(Serialize)]
struct RegionWords {
    name: String,
    /// The algorithm with its arguments; empty for local work.
    label: String,
    /// Index in the report's list of collectives; `None` for local work.
    collective: Option<usize>,
    /// Source position `file:line:column`.
    source: String,
}

/// Totals of a rank.
#[derive(Serialize)]
struct RankRow {
    rank: String,
    finish_ns: f64,
    sent_bytes: u64,
    received_bytes: u64,
    work_ns: f64,
}

/// A step of the critical path: rank, stream, link (-1 for none), rank at which the part's message
/// arrives (-1 for none).
type PathPlace = (u64, u32, i64, i64);

/// Everything that a page shows.
#[derive(Serialize)]
struct Data<'r> {
    schema: u32,
    kbc: &'static str,
    /// The command that makes the page again.
    command: String,
    report: &'r Report,
    files: Vec<FileText>,
    values: Vec<ValueAt>,
    kir: String,
    ops: Vec<OpText>,
    regions: Vec<RegionWords>,
    ranks: Vec<String>,
    streams: Vec<String>,
    /// Ranks that the timeline shows, as the option was given; `None` for all.
    shown: Option<String>,
    machine: Places,
    events: Events,
    /// Rank, stream and link of each step of the critical path.
    path: Vec<PathPlace>,
    /// Repetitions in the critical path: first part, parts per repetition, repetitions.
    folds: Vec<(usize, usize, usize)>,
    /// Numbers of the report's links.
    links: Vec<u32>,
    flows: Vec<CollectiveSteps>,
    rank_rows: Vec<RankRow>,
    /// Packed trees with their certificates.
    trees: Vec<serde_json::Value>,
}

/// Inputs of a page.
pub struct PageInputs<'a> {
    /// The report, with all links and the whole path.
    pub report: &'a Report,
    /// The module of the schedule.
    pub module: &'a kbc_ir::Module,
    /// Names of ranks, streams and operations.
    pub scene: &'a Scene<'a>,
    /// The timed run.
    pub timing: &'a Timing,
    /// Values of the program; empty for a schedule.
    pub values: Vec<ValueAt>,
    /// The file as given.
    pub file: &'a str,
    /// The command line.
    pub command: String,
    /// Packed trees of the program, as `kbc_compiler::synthesis::packed_trees` returns them.
    pub trees: Vec<serde_json::Value>,
    /// Ranks of the timeline.
    pub ranks: Option<&'a str>,
    /// Largest number of events, normally [`page_events::MAX_EVENTS`].
    pub events: usize,
}

/// Returns the page as text.
///
/// # Errors
/// Returns E593 for more events than a page may have, E413 for ranks that do not exist, and the
/// errors of the engine and of contracts that cannot be read.
pub fn page(made: PageInputs<'_>, map: &SourceMap) -> Result<String, Diagnostics> {
    let scene = made.scene;
    let ranks = match made.ranks {
        Some(text) => Ranks::parse(text, scene.ranks())?,
        None => Ranks::ALL,
    };
    let schedule = with_host_region(&scene.schedule);
    let program = Program::compile(&schedule)?;
    // Simulates the same run once more, with an observer that records everything.
    let mut tape = EventRecorder::new(scene, &ranks, Flow::new(&program)?, made.events);
    let options = TimeOptions { path: false, ..TimeOptions::default() };
    simulate_observed(&scene.schedule, scene.topology, &options, &mut tape)?;
    tape.check()?;
    let flows = chunks::all(&tape.flow, &tape.carried)?;
    let (kir, ops) = texts::schedule(made.module, scene);
    let mut number = 0;
    let regions = scene.schedule.regions.iter().map(|r| {
        let collective = (!r.over.is_empty()).then(|| {
            number += 1;
            number - 1
        });
        RegionWords {
            name: r.name.to_string(),
            label: r.label.clone().unwrap_or_default(),
            collective,
            source: texts::origin(map, r.span),
        }
    });
    let data = Data {
        schema: SCHEMA,
        kbc: env!("CARGO_PKG_VERSION"),
        command: made.command,
        report: made.report,
        files: texts::files(map, made.file, scene, &made.values),
        values: made.values,
        kir,
        ops,
        regions: regions.collect(),
        ranks: (0..scene.ranks()).map(|r| scene.rank(r)).collect(),
        streams: scene.streams.clone(),
        shown: made.ranks.map(str::to_owned),
        machine: place::places(scene.topology),
        events: tape.events,
        path: path(scene, made.timing),
        folds: kbc_compiler::report::path::folds(made.report)
            .iter()
            .map(|f| (f.first, f.length, f.turns))
            .collect(),
        links: links(made.timing),
        flows,
        rank_rows: rank_rows(scene, made.timing),
        trees: made.trees,
    };
    let json = serde_json::to_string(&data)
        .map_err(|e| Diagnostic::error("E991", format!("the page cannot be written: {e}")))?;
    Ok(assembled(&made.report.program, &without_folders(json, map)))
}

/// Returns the critical path as numbers.
fn path(scene: &Scene<'_>, timing: &Timing) -> Vec<PathPlace> {
    use kbc_time::Cause;
    let mut out = vec![];
    for part in kbc_compiler::timeline::path::parts(&timing.path, scene.topology) {
        let to = part.to.map_or(-1, |r| r as i64);
        out.extend(timing.path[part.steps].iter().map(|s| {
            let link = match s.cause {
                Cause::Queue(l) | Cause::Latency(l) | Cause::Service(l) => i64::from(l.0),
                _ => -1,
            };
            (s.rank, s.stream, link, to)
        }));
    }
    out
}

/// Returns the numbers of the links in the order of the report.
fn links(timing: &Timing) -> Vec<u32> {
    let mut all: Vec<(f64, LinkId)> = timing.links.iter().map(|l| (l.busy_ns, l.link)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    all.into_iter().map(|l| l.1.0).collect()
}

fn rank_rows(scene: &Scene<'_>, timing: &Timing) -> Vec<RankRow> {
    let row = |(i, r): (usize, &kbc_time::RankUse)| RankRow {
        rank: scene.rank(i as u64),
        finish_ns: r.finish_ns,
        sent_bytes: r.sent_bytes,
        received_bytes: r.received_bytes,
        work_ns: r.work_ns,
    };
    timing.ranks.iter().enumerate().map(row).collect()
}

/// Shortens absolute paths to file names, so that a page does not depend on where its files lie.
fn without_folders(mut json: String, map: &SourceMap) -> String {
    let mut folders: Vec<String> = map
        .files()
        .map(|(_, f)| Path::new(&*f.name))
        .filter(|p| p.is_absolute())
        .filter_map(|p| p.parent().map(|d| format!("{}/", d.display())))
        .collect();
    // The longest comes first, because one may be a prefix of another.
    folders.sort_by_key(|f| std::cmp::Reverse(f.len()));
    folders.dedup();
    for folder in folders.iter().filter(|f| f.len() > 1) {
        let quoted = serde_json::to_string(folder).unwrap_or_default();
        json = json.replace(quoted.trim_matches('"'), "");
    }
    json
}

/// Puts the data into the page's skeleton.
fn assembled(program: &str, json: &str) -> String {
    // Inside a script element, nothing may look like its end or like the start of a comment.
    let json = json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    let title = program.replace('&', "&amp;").replace('<', "&lt;");
    let script = format!("(() => {{\n\"use strict\";\n{}}})();\n", SCRIPTS.concat());
    let mut out = String::new();
    // Only the skeleton is searched for placeholders, not the inserted text.
    for piece in include_str!("assets/page.html").split("{{") {
        let (name, rest) = piece.split_once("}}").unwrap_or(("", piece));
        out += match name {
            "title" => &title,
            "style" => include_str!("assets/page.css"),
            "data" => &json,
            "script" => &script,
            _ => "",
        };
        out += rest;
    }
    out
}
