//! Lifetimes of buffers: after which region of a call a stream needs a buffer no more.
//!
//! Ranks run one after the other, so the storage of a buffer that is no longer needed serves the
//! next rank, and a large layer needs the memory of one rank's intermediate values. The interpreter
//! and machine code both ask for them.

use kbc_ir::schedule::BufferRole;
use kbc_ir::walk::Program;
use kbc_ir::walk::code::{COp, CStmt};
use std::collections::{BTreeMap, BTreeSet};

/// The buffers that end with each region, with the stream that uses them.
pub struct Lifetimes(Vec<Vec<(u32, u32)>>);

impl Lifetimes {
    /// Finds the buffers that only local operations of one stream use.
    pub fn of(program: &Program<'_>) -> Lifetimes {
        let mut uses: BTreeMap<u32, (usize, BTreeSet<u32>)> = BTreeMap::new();
        // Peers reach these, or the host does.
        let mut exposed: BTreeSet<u32> = BTreeSet::new();
        for (i, b) in program.schedule.buffers.iter().enumerate() {
            if b.role != BufferRole::Temp || b.zero {
                exposed.insert(i as u32);
            }
        }
        for (i, region) in program.regions.iter().enumerate() {
            exposed.extend(region.operands.iter().map(|o| o.0));
            for (stream, list) in region.roles.iter().flat_map(|role| &role.streams) {
                used(program, list, &mut exposed, &mut |buffer| {
                    let (last, streams) = uses.entry(buffer).or_default();
                    *last = i;
                    streams.insert(*stream);
                });
            }
        }
        let mut ends = vec![vec![]; program.regions.len()];
        for (buffer, (last, streams)) in uses {
            if let (false, Some(stream), 1) = (exposed.contains(&buffer), streams.first(), streams.len()) {
                ends[last].push((*stream, buffer));
            }
        }
        Lifetimes(ends)
    }

    /// Returns the buffers that a stream needs no more after a region.
    pub fn ended(&self, region: usize, stream: u32) -> impl Iterator<Item = u32> {
        self.0[region].iter().filter(move |end| end.0 == stream).map(|end| end.1)
    }
}

/// Calls `f` with each buffer that local operations use.
fn used(program: &Program<'_>, list: &[CStmt<'_>], exposed: &mut BTreeSet<u32>, f: &mut dyn FnMut(u32)) {
    for s in list {
        match s {
            CStmt::For { body, .. } => used(program, body, exposed, f),
            CStmt::If { then, other, .. } => {
                used(program, then, exposed, f);
                used(program, other, exposed, f);
            }
            CStmt::Op(COp::Local(l), ..) => {
                let l = program.local(*l);
                l.srcs().into_iter().chain([l.dst()]).for_each(|b| f(b.0));
            }
            CStmt::Op(COp::HostRead(b), ..) => drop(exposed.insert(b.0)),
            CStmt::Op(..) | CStmt::Written(_) => {}
        }
    }
}
