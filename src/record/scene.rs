//! The names in records of a timed run: ranks, streams, regions, operations with their text and place.
//!
//! Made once from schedule, machine and sources; knows nothing of times.

use kbc_diag::{SourceMap, Span};
use kbc_ir::host::spelled;
use kbc_ir::schedule::{RegionId, SStmt, Schedule};
use kbc_ir::text;
use kbc_ir::walk::Program;
use kbc_machine::topology::{LinkId, Topology};
use std::borrow::Cow;

/// An operation in words.
#[derive(Clone, Debug, Default)]
pub struct OpWords {
    /// Its first word: `put`, `fence.release`.
    pub name: String,
    /// As in `.kir`.
    pub text: String,
    /// `file:line:column`, or empty.
    pub source: String,
    /// Number of its region.
    pub region: usize,
}

/// Everything that has a name.
pub struct Scene<'a> {
    /// The schedule, with its host's program as a stream of each rank.
    pub schedule: Cow<'a, Schedule>,
    /// The machine.
    pub topology: &'a Topology,
    /// Streams by number.
    pub streams: Vec<String>,
    /// Operations by number.
    pub ops: Vec<OpWords>,
}

impl<'a> Scene<'a> {
    /// Names of a schedule on a machine.
    pub fn new(schedule: &'a Schedule, topology: &'a Topology, map: &SourceMap) -> Scene<'a> {
        let schedule = spelled(schedule);
        let texts = text::operations(&schedule);
        let mut ops = vec![];
        for (i, region) in schedule.regions.iter().enumerate() {
            for stream in region.roles.iter().flat_map(|r| &r.streams) {
                collect(&stream.body, i, &texts, map, &mut ops);
            }
        }
        // What cannot be walked has been refused before anything is timed.
        let program = Program::compile(&schedule);
        let streams = program.map_or_else(|_| vec![], |p| p.streams.iter().map(|n| n.to_string()).collect());
        Scene { schedule, topology, streams, ops }
    }

    /// A rank by its coordinates.
    pub fn rank(&self, rank: u64) -> String {
        self.schedule.mesh.show(rank)
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u64 {
        self.schedule.mesh.ranks()
    }

    /// A stream's name.
    pub fn stream(&self, stream: u32) -> &str {
        self.streams.get(stream as usize).map_or("", String::as_str)
    }

    /// An operation's first word.
    pub fn op(&self, op: u32) -> &str {
        self.ops.get(op as usize).map_or("", |o| &o.name)
    }

    /// A region's name.
    pub fn region(&self, region: RegionId) -> &str {
        self.schedule.regions.get(region.0 as usize).map_or("", |r| r.name.as_str())
    }

    /// A link by its ends.
    pub fn link(&self, link: LinkId) -> String {
        self.topology.link_name(link)
    }

    /// The ranks at the ends of a link.
    pub fn ends(&self, link: LinkId) -> Option<(u64, u64)> {
        // Rank i runs on device i.
        self.topology.link(link).map(|l| (u64::from(l.from.0), u64::from(l.to.0)))
    }
}

/// `file:line:column` of a span, or nothing.
pub fn source(map: &SourceMap, span: Span) -> String {
    match (map.get(span.file), map.line_col(span)) {
        (Some(file), Some((line, column))) => format!("{}:{line}:{column}", file.name),
        _ => String::new(),
    }
}

fn collect(list: &[SStmt], region: usize, texts: &[String], map: &SourceMap, out: &mut Vec<OpWords>) {
    for st in list {
        match st {
            SStmt::For { body, .. } => collect(body, region, texts, map, out),
            SStmt::If { then, other, .. } => {
                collect(then, region, texts, map, out);
                collect(other, region, texts, map, out);
            }
            SStmt::Op(_, span) => {
                let text = texts.get(out.len()).cloned().unwrap_or_default();
                let name = text.split(' ').next().unwrap_or("").to_owned();
                out.push(OpWords { name, text, source: source(map, *span), region });
            }
        }
    }
}
