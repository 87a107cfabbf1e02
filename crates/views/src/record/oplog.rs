//! Operation log of a timed run: JSON lines, one per operation of a rank (docs/reference/oplog.md).
//!
//! A line is written when the operation is over and, if it sends a message, when the message has
//! arrived. Memory grows with the number of messages in flight.

use super::ranks::Ranks;
use kbc_compiler::timeline::scene::Scene;
use kbc_compiler::timeline::waits::{FinishedOp, Reason, Wait};
use kbc_time::{Delivery, MessageId, MessageKind};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Version of the schema. It increases when a field changes its meaning or is removed.
pub const VERSION: u32 = 1;

/// Largest number of lines of a log, about 1 GB.
pub const MAX_LINES: u64 = 2_000_000;

/// The first line.
#[derive(Serialize)]
struct Header<'a> {
    schema: &'static str,
    version: u32,
    file: &'a str,
    program: &'a str,
    machine: String,
    mesh: Vec<Axis<'a>>,
    ranks: u64,
}

#[derive(Serialize)]
struct Axis<'a> {
    name: &'a str,
    size: u64,
}

/// A line.
#[derive(Serialize)]
struct Line<'a> {
    rank: String,
    stream: &'a str,
    call: u64,
    region: &'a str,
    op: u32,
    name: &'a str,
    text: &'a str,
    source: Option<&'a str>,
    start_ns: f64,
    end_ns: f64,
    arrived_ns: Option<f64>,
    bytes: u64,
    peer: Option<String>,
    waits: Vec<WaitLine<'a>>,
}

/// A wait of a line.
#[derive(Serialize)]
struct WaitLine<'a> {
    r#for: &'static str,
    what: Option<String>,
    rank: Option<String>,
    op: Option<u32>,
    stream: Option<&'a str>,
    start_ns: f64,
    end_ns: f64,
}

/// Writer of a log during a run.
pub struct Oplog<'a, W> {
    scene: &'a Scene<'a>,
    ranks: &'a Ranks,
    out: W,
    lines: u64,
    most: u64,
    failure: Option<io::Error>,
    /// Operations whose message is in flight.
    waiting: BTreeMap<MessageId, FinishedOp>,
    /// Waits for links of messages that are in flight.
    queued: BTreeMap<MessageId, Vec<Wait>>,
}

/// Returns the request that a message belongs to.
fn request(id: MessageId) -> MessageId {
    MessageId { reply: false, ..id }
}

impl<'a, W: Write> Oplog<'a, W> {
    /// Creates a log of some ranks with at most `most` lines, and writes its header.
    pub fn new(
        scene: &'a Scene<'a>,
        ranks: &'a Ranks,
        (file, program): (&str, &str),
        out: W,
        most: u64,
    ) -> Oplog<'a, W> {
        let mesh = &scene.schedule.mesh;
        let header = Header {
            schema: "kbc-oplog",
            version: VERSION,
            file,
            program,
            machine: scene.topology.to_string(),
            mesh: mesh.axes.iter().map(|a| Axis { name: &a.name, size: a.size }).collect(),
            ranks: (0..scene.ranks()).filter(|r| ranks.has(*r)).count() as u64,
        };
        let mut log = Oplog {
            scene,
            ranks,
            out,
            lines: 0,
            most,
            failure: None,
            waiting: BTreeMap::new(),
            queued: BTreeMap::new(),
        };
        log.line(&header);
        log
    }

    /// Checks whether there are more lines than allowed.
    pub fn full(&self) -> bool {
        self.lines > self.most
    }

    fn line(&mut self, value: &impl Serialize) {
        self.lines += 1;
        if self.failure.is_some() || self.full() {
            return;
        }
        let done = serde_json::to_writer(&mut self.out, value).map_err(io::Error::from);
        self.failure = done.and_then(|()| self.out.write_all(b"\n")).err();
    }

    fn wait(&self, w: &Wait) -> WaitLine<'a> {
        let scene = self.scene;
        let base = WaitLine {
            r#for: "",
            what: None,
            rank: None,
            op: None,
            stream: None,
            start_ns: w.start_ns,
            end_ns: w.end_ns,
        };
        match w.reason {
            Reason::Message { kind, op, from } => WaitLine {
                r#for: match kind {
                    MessageKind::Reply | MessageKind::Request => "get",
                    MessageKind::Notify => "notify",
                    MessageKind::Put => "put",
                },
                rank: Some(scene.rank(from)),
                op: Some(op),
                ..base
            },
            Reason::Event { stream, op } => {
                WaitLine { r#for: "event", op: Some(op), stream: Some(scene.stream(stream)), ..base }
            }
            Reason::Unit { unit, holder } => WaitLine {
                r#for: "unit",
                what: Some(unit.name().to_owned()),
                op: holder.map(|h| h.1),
                stream: holder.map(|h| scene.stream(h.0)),
                ..base
            },
            Reason::Link { link, holder } => WaitLine {
                r#for: "link",
                what: Some(scene.link(link)),
                rank: holder.map(|h| scene.rank(h.1)),
                op: holder.map(|h| h.0),
                ..base
            },
        }
    }

    fn write(&mut self, done: &FinishedOp, arrived_ns: Option<f64>, queued: &[Wait]) {
        let scene = self.scene;
        let place = scene.ops.get(done.begun.op as usize);
        let line = Line {
            rank: scene.rank(done.rank),
            stream: scene.stream(done.stream),
            call: done.call,
            region: scene.region(done.begun.region),
            op: done.begun.op,
            name: done.begun.name,
            text: scene.text(done.begun.op),
            source: place.map(|p| &*p.source).filter(|s| !s.is_empty()),
            start_ns: done.start_ns,
            end_ns: done.end_ns,
            arrived_ns,
            bytes: done.begun.bytes,
            peer: done.begun.peer.map(|p| scene.rank(p)),
            waits: done.waits.iter().chain(queued).map(|w| self.wait(w)).collect(),
        };
        self.line(&line);
    }

    /// Records that a stream has finished an operation.
    pub fn done(&mut self, done: &FinishedOp) {
        if !self.ranks.has(done.rank) {
            return;
        }
        match done.message {
            Some(id) => {
                self.waiting.insert(id, done.clone());
            }
            None => self.write(done, None, &[]),
        }
    }

    /// Records that a message waited for a link.
    pub fn queued(&mut self, id: MessageId, wait: Wait) {
        self.queued.entry(request(id)).or_default().push(wait);
    }

    /// Records that a message has arrived.
    pub fn delivered(&mut self, m: &Delivery) {
        if m.kind == MessageKind::Request {
            return;
        }
        let id = request(m.id);
        let queued = self.queued.remove(&id).unwrap_or_default();
        if let Some(done) = self.waiting.remove(&id) {
            self.write(&done, Some(m.delivered_ns), &queued);
        }
    }

    /// Writes the remaining lines.
    ///
    /// # Errors
    /// Returns the first error of writing.
    pub fn finish(mut self) -> io::Result<W> {
        // A message that no rank waits for may arrive after the end of the run. Its operation is
        // logged without an arrival.
        for done in std::mem::take(&mut self.waiting).into_values() {
            self.write(&done, None, &[]);
        }
        match self.failure {
            Some(e) => Err(e),
            None => self.out.flush().map(|()| self.out),
        }
    }
}
