//! Names in the records of a timed run: ranks, streams, regions, and operations with their text and
//! source position.
//!
//! The names are made once from schedule, machine and sources. This module knows nothing about
//! times.

use kbc_diag::{SourceMap, Span};
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{RegionId, Schedule, each_op};
use kbc_ir::text;
use kbc_ir::walk::Program;
use kbc_machine::topology::{LinkId, Topology};
use std::borrow::Cow;
use std::sync::Arc;

/// The text of an operation.
#[derive(Clone, Debug, Default)]
pub struct OpWords {
    /// The operation as in `.kir`.
    pub text: String,
    /// Source position `file:line:column`, or empty.
    pub source: Arc<str>,
    /// Number of its region.
    pub region: usize,
}

impl OpWords {
    /// Returns its first word, such as `put` or `fence.release`.
    pub fn name(&self) -> &str {
        self.text.split(' ').next().unwrap_or("")
    }
}

/// Everything that has a name in a record.
pub struct Scene<'a> {
    /// The schedule, with its host's program as a stream of each rank.
    pub schedule: Cow<'a, Schedule>,
    /// The machine.
    pub topology: &'a Topology,
    /// Names of streams by number.
    pub streams: Vec<String>,
    /// Operations by number.
    pub ops: Vec<OpWords>,
}

impl<'a> Scene<'a> {
    /// Collects the names of a schedule on a machine.
    pub fn new(schedule: &'a Schedule, topology: &'a Topology, map: &SourceMap) -> Scene<'a> {
        let schedule = with_host_region(schedule);
        let texts = text::operations(&schedule);
        let mut ops = Vec::with_capacity(texts.len());
        let mut texts = texts.into_iter();
        // Successive operations often come from one statement.
        let mut last: Option<(Span, Arc<str>)> = None;
        for (region, r) in schedule.regions.iter().enumerate() {
            for stream in r.roles.iter().flat_map(|r| &r.streams) {
                each_op(&stream.body, &mut |_, span| {
                    let known = last.as_ref().filter(|l| l.0 == span).map(|l| l.1.clone());
                    let source = known.unwrap_or_else(|| source(map, span).into());
                    last = Some((span, source.clone()));
                    ops.push(OpWords { text: texts.next().unwrap_or_default(), source, region });
                });
            }
        }
        // A schedule that cannot be walked was rejected before anything is timed.
        let program = Program::compile(&schedule);
        let streams = program.map_or_else(|_| vec![], |p| p.streams.iter().map(|n| n.to_string()).collect());
        Scene { schedule, topology, streams, ops }
    }

    /// Returns a rank by its coordinates.
    pub fn rank(&self, rank: u64) -> String {
        self.schedule.mesh.show(rank)
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> u64 {
        self.schedule.mesh.ranks()
    }

    /// Returns a stream's name.
    pub fn stream(&self, stream: u32) -> &str {
        self.streams.get(stream as usize).map_or("", String::as_str)
    }

    /// Returns an operation's first word.
    pub fn op(&self, op: u32) -> &str {
        self.ops.get(op as usize).map_or("", OpWords::name)
    }

    /// Returns a region's name.
    pub fn region(&self, region: RegionId) -> &str {
        self.schedule.regions.get(region.0 as usize).map_or("", |r| r.name.as_str())
    }

    /// Returns a link by its ends.
    pub fn link(&self, link: LinkId) -> String {
        self.topology.link_name(link)
    }

    /// Returns the ranks at the ends of a link.
    pub fn ends(&self, link: LinkId) -> Option<(u64, u64)> {
        // Rank i runs on device i.
        self.topology.link(link).map(|l| (u64::from(l.from.0), u64::from(l.to.0)))
    }
}

/// Returns `file:line:column` of a span, or an empty string.
pub fn source(map: &SourceMap, span: Span) -> String {
    match (map.get(span.file), map.line_col(span)) {
        (Some(file), Some((line, column))) => format!("{}:{line}:{column}", file.name),
        _ => String::new(),
    }
}
