//! Records of a timed run: a trace for the Perfetto UI and a log of operations, both written during
//! the run.
//!
//! This module owns the choice of records and the observer that feeds them. [`trace`] and [`oplog`]
//! own the formats; the caller says with [`Sinks`] where records go.

pub mod oplog;
pub mod proto;
pub mod ranks;
pub mod sink;
pub mod trace;

use kbc_compiler::analyse;
use kbc_compiler::bounds::Subject;
use kbc_compiler::failure::Outcome;
use kbc_compiler::report::Report;
use kbc_compiler::timeline::scene::Scene;
use kbc_compiler::timeline::waits::Waits;
use kbc_compiler::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_machine::topology::Topology;
use kbc_time::*;
use oplog::Oplog;
use ranks::Ranks;
pub use sink::{InMemory, Sink, Sinks};
use std::io;
use trace::Trace;

/// Kinds of records, as `--emit` names them.
pub const KINDS: [&str; 2] = ["trace", "log"];

/// The requested records.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Kind and path of each record.
    pub list: Vec<(String, String)>,
    /// Value of `--trace-ranks`.
    pub ranks: Option<String>,
    /// Largest number of events in a trace.
    pub events: u64,
    /// Largest number of lines in a log.
    pub lines: u64,
}

impl Default for Wanted {
    fn default() -> Self {
        Wanted { list: vec![], ranks: None, events: trace::MAX_PACKETS, lines: oplog::MAX_LINES }
    }
}

impl Wanted {
    /// Creates the request from `--emit` and `--trace-ranks`.
    ///
    /// # Errors
    /// Returns E416 for a trace on standard output, two records of one kind, or ranks without a
    /// record.
    pub fn new(list: Vec<(String, String)>, ranks: Option<String>) -> Result<Wanted, Diagnostic> {
        if list.is_empty() && ranks.is_some() {
            return Err(Diagnostic::error("E416", "--trace-ranks applies only to a trace or a log")
                .help("write --emit trace=FILE"));
        }
        if list.iter().any(|(kind, path)| kind == "trace" && path == "-") {
            return Err(Diagnostic::error("E416", "a trace is binary and needs a file")
                .help("write --emit trace=FILE"));
        }
        for kind in KINDS {
            if list.iter().filter(|l| l.0 == kind).count() > 1 {
                return Err(Diagnostic::error("E416", format!("--emit {kind} can be given only once")));
            }
        }
        Ok(Wanted { list, ranks, ..Wanted::default() })
    }

    /// Checks whether a record replaces the report on standard output.
    pub fn takes_output(&self) -> bool {
        self.list.iter().any(|l| l.1 == "-")
    }
}

/// Observer that feeds the records of a run.
struct Recorder<'a> {
    waits: Waits,
    trace: Option<Trace<'a, Box<dyn Sink>>>,
    log: Option<Oplog<'a, Box<dyn Sink>>>,
    streams: u32,
}

impl Observer for Recorder<'_> {
    fn detail(&self) -> bool {
        self.trace.is_some() || self.log.is_some()
    }

    fn works(&mut self, work: &Work) {
        if self.detail() {
            let wait = self.waits.works(work);
            if let Some(t) = &mut self.trace {
                t.works(work, wait.as_ref());
            }
        }
    }

    fn turn(&mut self, turn: &StepReached) {
        let done = self.waits.turn(turn);
        if let Some(t) = &mut self.trace {
            t.turn(turn, done.as_ref());
        }
        if let (Some(l), Some(done)) = (&mut self.log, &done) {
            l.done(done);
        }
    }

    fn holds(&mut self, held: &OpHeld) {
        if let Some(t) = &mut self.trace {
            t.holds(held, self.waits.at(held.rank, held.stream));
        }
    }

    fn sent(&mut self, message: &Sent) {
        self.waits.sent(message);
        if let Some(t) = &mut self.trace {
            t.sent(message, message.id.thread % self.streams);
        }
    }

    fn passes(&mut self, pass: &Pass) {
        let wait = self.waits.passes(pass);
        if let Some(t) = &mut self.trace {
            t.passes(pass, wait.as_ref());
        }
        if let (Some(l), Some(wait)) = (&mut self.log, wait) {
            l.queued(pass.id, wait);
        }
    }

    fn delivered(&mut self, message: &Delivery) {
        if !self.detail() {
            return;
        }
        self.waits.delivered(message);
        if let Some(t) = &mut self.trace {
            t.delivered(message);
        }
        if let Some(l) = &mut self.log {
            l.delivered(message);
        }
    }

    fn woken(&mut self, woken: &Woken) {
        self.waits.woken(woken);
    }
}

/// Times a schedule, sets bounds against it and writes the requested records.
///
/// # Errors
/// Returns the errors of [`analyse::time`] and of [`simulate`].
pub fn time<'a>(
    workspace: &Workspace,
    report: &mut Report,
    subject: impl Into<Subject<'a>>,
    topology: &Topology,
    wanted: &Wanted,
    sinks: &dyn Sinks,
    options: &TimeOptions,
) -> Outcome<Timing> {
    analyse::time_observed(workspace, report, subject, topology, options, |scene, names, run| {
        simulate(scene, wanted, sinks, names, run)
    })
}

/// Calls `run` with an observer that writes the requested records.
///
/// # Errors
/// Returns the errors of the run and of the sinks, E413 for ranks that do not exist, and E431 for a
/// record that would be too large. No record is kept then.
pub fn simulate<T>(
    scene: &Scene<'_>,
    wanted: &Wanted,
    sinks: &dyn Sinks,
    names: (&str, &str),
    run: impl FnOnce(&mut dyn Observer) -> Result<T, Diagnostics>,
) -> Outcome<T> {
    let ranks = match &wanted.ranks {
        Some(text) => Ranks::parse(text, scene.ranks())?,
        None => Ranks::ALL,
    };
    let mut recorder = Recorder {
        waits: Waits::new(if wanted.list.is_empty() { 0 } else { scene.ranks() }, scene.streams.len()),
        trace: None,
        log: None,
        streams: scene.streams.len().max(1) as u32,
    };
    for (kind, path) in &wanted.list {
        let sink = sinks.open(path)?;
        if kind == "trace" {
            recorder.trace = Some(Trace::new(scene, &ranks, sink, wanted.events));
        } else {
            recorder.log = Some(Oplog::new(scene, &ranks, names, sink, wanted.lines));
        }
    }
    let found = run(&mut recorder)?;
    let Recorder { trace, log, .. } = recorder;
    let path = |kind: &str| wanted.list.iter().find(|l| l.0 == kind).map_or("", |l| l.1.as_str());
    if let Some(mut t) = trace {
        t.flush();
        if t.full() {
            return Err(too_large("trace", "events", wanted.events).into());
        }
        keep(t.finish(), sinks, path("trace"))?;
    }
    if let Some(l) = log {
        if l.full() {
            return Err(too_large("log", "lines", wanted.lines).into());
        }
        keep(l.finish(), sinks, path("log"))?;
    }
    Ok(found)
}

fn keep(sink: io::Result<Box<dyn Sink>>, sinks: &dyn Sinks, path: &str) -> Result<(), Diagnostic> {
    match sink {
        Ok(sink) => sink.keep(),
        Err(e) => Err(sinks.failure(path, &e)),
    }
}

fn too_large(what: &str, of: &str, most: u64) -> Diagnostic {
    Diagnostic::error("E431", format!("the {what} was not written: it would have more than {most} {of}"))
        .help("restrict it to some ranks: --trace-ranks 0..8")
}
