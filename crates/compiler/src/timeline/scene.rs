//! Names in the records of a timed run: ranks, streams, regions, and operations with their text and
//! source position.
//!
//! The names are made once from schedule, machine and sources, the texts of operations when the
//! first one is asked for. This module knows nothing about times.

use kbc_diag::{SourceMap, Span};
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{RegionId, Schedule, each_op};
use kbc_ir::text;
use kbc_ir::walk::stream_names;
use kbc_machine::topology::{LinkId, Topology};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// Where an operation is.
#[derive(Clone, Debug, Default)]
pub struct OpPlace {
    /// Source position `file:line:column`, or empty.
    pub source: Arc<str>,
    /// Number of its region.
    pub region: usize,
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
    pub ops: Vec<OpPlace>,
    /// Texts of operations by number. Few reports need them, and they take as much memory as the
    /// schedule.
    texts: OnceLock<Vec<String>>,
}

impl<'a> Scene<'a> {
    /// Collects the names of a schedule on a machine.
    pub fn new(schedule: &'a Schedule, topology: &'a Topology, map: &SourceMap) -> Scene<'a> {
        let schedule = with_host_region(schedule);
        let mut ops = vec![];
        // Successive operations often come from one statement.
        let mut last: Option<(Span, Arc<str>)> = None;
        for (region, r) in schedule.regions.iter().enumerate() {
            for stream in r.roles.iter().flat_map(|r| &r.streams) {
                each_op(&stream.body, &mut |_, span| {
                    let known = last.as_ref().filter(|l| l.0 == span).map(|l| l.1.clone());
                    let source = known.unwrap_or_else(|| source(map, span).into());
                    last = Some((span, source.clone()));
                    ops.push(OpPlace { source, region });
                });
            }
        }
        let streams = stream_names(&schedule).iter().map(ToString::to_string).collect();
        Scene { schedule, topology, streams, ops, texts: OnceLock::new() }
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

    /// Returns an operation as in `.kir`.
    pub fn text(&self, op: u32) -> &str {
        let texts = self.texts.get_or_init(|| text::operations(&self.schedule));
        texts.get(op as usize).map_or("", String::as_str)
    }

    /// Returns an operation's first word, such as `put` or `fence.release`.
    pub fn op(&self, op: u32) -> &str {
        self.text(op).split(' ').next().unwrap_or("")
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
