//! The page of a program: one HTML file with its text, its schedule, its timed run, and what was shown of it (docs/page.md).
//!
//! Owns what stands in it and that it is one file. How it looks is `assets/`: plain HTML, CSS and JavaScript, put together here. The
//! data are columns of numbers in a JSON element; nothing depends on the clock, on paths or on the machine kbc runs on.

pub mod chunks;
pub mod flow;
pub mod place;
pub mod tape;
pub mod texts;

use crate::record::ranks::Ranks;
use crate::record::scene::Scene;
use crate::report::Report;
use chunks::Flowing;
use flow::Flow;
use kbc_diag::{Diagnostic, Diagnostics, SourceMap};
use kbc_ir::host::spelled;
use kbc_ir::walk::Program;
use kbc_machine::topology::LinkId;
use kbc_time::{TimeOptions, Timing, simulate_observed};
use place::Places;
use serde::Serialize;
use std::path::Path;
use tape::{Events, Tape};
use texts::{FileText, OpText, ValueAt};

/// Version of the data in a page; it grows when something changes its meaning.
pub const SCHEMA: u32 = 1;

/// The scripts of a page, in order: each uses what stands before it.
const SCRIPTS: [&str; 15] = [
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
    include_str!("assets/evidence.js"),
    include_str!("assets/selftest.js"),
    include_str!("assets/main.js"),
];

/// A region in words.
#[derive(Serialize)]
struct RegionWords {
    name: String,
    /// The algorithm with its arguments; empty for local work.
    label: String,
    /// Number in the report's list of collectives; none for local work.
    collective: Option<usize>,
    /// `file:line:column`
    source: String,
}

/// What a rank did altogether.
#[derive(Serialize)]
struct RankRow {
    rank: String,
    finish_ns: f64,
    sent_bytes: u64,
    received_bytes: u64,
    work_ns: f64,
}

/// A step of the critical path by numbers: rank, stream, link (-1 for none), rank where the part's message arrives (-1).
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
    /// Ranks that the timeline shows, as asked for; none for all.
    shown: Option<String>,
    machine: Places,
    events: Events,
    /// Numbers of the places of the critical path.
    path: Vec<PathPlace>,
    /// Stretches of parts of the critical path that repeat: first part, parts of a turn, turns.
    folds: Vec<(usize, usize, usize)>,
    /// Of the report's links, their numbers.
    links: Vec<u32>,
    flows: Vec<Flowing>,
    rank_rows: Vec<RankRow>,
}

/// What a page is made of.
pub struct Made<'a> {
    /// The report, with all links and the whole path.
    pub report: &'a Report,
    /// The schedule's module.
    pub module: &'a kbc_ir::Module,
    /// Names.
    pub scene: &'a Scene<'a>,
    /// What was found in time.
    pub timing: &'a Timing,
    /// Values of the program; none for a schedule.
    pub values: Vec<ValueAt>,
    /// The file as given.
    pub file: &'a str,
    /// The command line.
    pub command: String,
    /// Ranks of the timeline.
    pub ranks: Option<&'a str>,
    /// Events that it may have: [`tape::MOST`].
    pub events: usize,
}

/// The page as text.
///
/// # Errors
/// E593: more events than a page may have. E413: ranks that are none. Those of the engine, and of promises that cannot be read.
pub fn page(made: Made<'_>, map: &SourceMap) -> Result<String, Diagnostics> {
    let scene = made.scene;
    let ranks = match made.ranks {
        Some(text) => Ranks::parse(text, scene.ranks())?,
        None => Ranks::ALL,
    };
    let schedule = spelled(&scene.schedule);
    let program = Program::compile(&schedule)?;
    // The run once more (it is the same run), with somebody who writes everything down.
    let mut tape = Tape::new(scene, &ranks, Flow::new(&program)?, made.events);
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
        folds: crate::report::path::folds(made.report).iter().map(|f| (f.first, f.length, f.turns)).collect(),
        links: links(made.timing),
        flows,
        rank_rows: rank_rows(scene, made.timing),
    };
    let json = serde_json::to_string(&data)
        .map_err(|e| Diagnostic::error("E991", format!("the page cannot be written: {e}")))?;
    Ok(assembled(&made.report.program, &without_folders(json, map)))
}

/// The critical path by numbers.
fn path(scene: &Scene<'_>, timing: &Timing) -> Vec<PathPlace> {
    use kbc_time::Cause;
    let mut out = vec![];
    for part in crate::record::path::parts(&timing.path, scene.topology) {
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

/// Numbers of links in the order of the report.
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

/// Files that were named by whole paths keep their names alone: a page does not depend on where its files lie.
fn without_folders(mut json: String, map: &SourceMap) -> String {
    let mut folders: Vec<String> = map
        .files()
        .map(|(_, f)| Path::new(&*f.name))
        .filter(|p| p.is_absolute())
        .filter_map(|p| p.parent().map(|d| format!("{}/", d.display())))
        .collect();
    // The longest first: one may begin with another.
    folders.sort_by_key(|f| std::cmp::Reverse(f.len()));
    folders.dedup();
    for folder in folders.iter().filter(|f| f.len() > 1) {
        let quoted = serde_json::to_string(folder).unwrap_or_default();
        json = json.replace(quoted.trim_matches('"'), "");
    }
    json
}

/// The page around its data.
fn assembled(program: &str, json: &str) -> String {
    // Inside a script element nothing may look like its end or like a comment's begin.
    let json = json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    let title = program.replace('&', "&amp;").replace('<', "&lt;");
    let script = format!("(() => {{\n\"use strict\";\n{}}})();\n", SCRIPTS.concat());
    let mut out = String::new();
    // Placeholders of the skeleton alone: what is put in is not looked at again.
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
