//! Traffic of a schedule in one call: bytes between ranks and inside them, signals and fences, by
//! region and rank.
//!
//! This module counts by walking every stream of every rank. [`kernel`] counts the traffic of a
//! kernel that was made from a schedule, [`executed`] the operations that the complete kernel
//! executes, and [`kernels`] reads the traffic of hand-written kernels from a file. [`table`] puts
//! all of them beside what must be moved at least.

pub mod executed;
pub mod kernel;
pub mod kernels;
pub mod roofline;
pub mod table;

use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::host::with_host_region;
use kbc_ir::op::OpPart;
use kbc_ir::schedule::{BufferId, LocalOp, RefUse, Schedule, WindowId};
use kbc_ir::walk::{Access, Act, Cursor, Fault, Mem, Program, Step};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The call that is counted. It has earlier calls, for whose credits it waits.
const LATER: i64 = 4;

/// Largest number of operations that are counted.
const MAX_OPERATIONS: u64 = 1 << 26;

/// Traffic of one rank in one region in one call: bytes, and numbers of operations.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Traffic {
    /// Bytes that leave the rank over links: those it puts or sends, and those that others get from
    /// it.
    pub sent: u64,
    /// Bytes that reach the rank over links.
    pub received: u64,
    /// Bytes that the rank's own operations read in its own memory: copies, reductions and all
    /// local operations.
    pub read: u64,
    /// Bytes that the same operations write in its own memory.
    pub written: u64,
    /// The part of `written` that copies write. Copies compute nothing.
    pub copied: u64,
    /// Number of notifies.
    pub notifies: u64,
    /// Number of waits.
    pub waits: u64,
    /// Number of fences of all kinds.
    pub fences: u64,
}

impl Traffic {
    /// Returns the counters, in the order of the fields.
    fn fields(&mut self) -> [&mut u64; 8] {
        [
            &mut self.sent,
            &mut self.received,
            &mut self.read,
            &mut self.written,
            &mut self.copied,
            &mut self.notifies,
            &mut self.waits,
            &mut self.fences,
        ]
    }

    /// Returns the sum of both.
    fn and(mut self, mut other: Traffic) -> Traffic {
        for (a, b) in self.fields().into_iter().zip(other.fields()) {
            *a = a.saturating_add(*b);
        }
        self
    }
}

/// The printed name of a memory: `%v`.
pub type MemoryName = String;

/// Traffic of the ranks of a schedule, or of a kernel made from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountedTraffic {
    /// Traffic by region, then rank.
    pub regions: Vec<Vec<Traffic>>,
    /// Traffic before the first region and after the last, by rank.
    pub around: Vec<Traffic>,
    /// Bytes of the windows that the operations of each region touch.
    pub windows: Vec<u64>,
    /// The operands of each region.
    pub operands: Vec<BTreeSet<MemoryName>>,
    /// Copies outside collectives, whole or between a tensor and its parts in a line. The key is
    /// the region (from 1; 0 stands for before the first), the destination and the source. The
    /// value is the number of bytes on the rank that has most.
    pub copies: BTreeMap<(usize, MemoryName, MemoryName), u64>,
}

/// Bytes that the operations of a schedule read and write on a rank, if each of them reads its
/// operands from memory and writes its result there. A message is read once and written once.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ScheduleBytes {
    /// Bytes that are read.
    pub read: u64,
    /// Bytes that are written.
    pub written: u64,
}

impl CountedTraffic {
    /// Returns the sum over some regions, by rank.
    pub fn of(&self, regions: impl IntoIterator<Item = usize>) -> Vec<Traffic> {
        let ranks = self.regions.first().map_or(0, Vec::len);
        let mut out = vec![Traffic::default(); ranks];
        for region in regions {
            for (sum, part) in out.iter_mut().zip(&self.regions[region]) {
                *sum = sum.and(*part);
            }
        }
        out
    }

    /// Returns the sum over everything, by rank.
    pub fn whole(&self) -> Vec<Traffic> {
        let regions = self.of(0..self.regions.len());
        regions.into_iter().zip(&self.around).map(|(a, b)| a.and(*b)).collect()
    }
}

/// Counts the traffic of a schedule in one call that follows others.
///
/// # Errors
/// Returns E30x for an operation without a meaning, and E354 if there are more operations than are
/// counted.
pub fn count(schedule: &Schedule) -> Result<CountedTraffic, Diagnostics> {
    Ok(count_with_bytes(schedule)?.0)
}

/// Counts the traffic of a schedule, and by rank the bytes of its operations.
///
/// # Errors
/// Same as [`count`].
pub fn count_with_bytes(schedule: &Schedule) -> Result<(CountedTraffic, Vec<ScheduleBytes>), Diagnostics> {
    let spelled = with_host_region(schedule);
    let (schedule, program) = (&*spelled, Program::compile(&spelled)?);
    let fault = |f: Fault| Diagnostics::from(f.diagnostic(|r| schedule.mesh.show(r)));
    let (ranks, regions) = (program.ranks(), schedule.regions.len());
    let mut regions = vec![vec![Traffic::default(); ranks as usize]; regions];
    // Bytes of messages by the rank that puts or gets them.
    let mut messages = vec![0u64; ranks as usize];
    let mut windows = vec![BTreeSet::new(); regions.len()];
    let mut copies: BTreeMap<(usize, BufferId, BufferId), BTreeMap<u64, u64>> = BTreeMap::new();
    let mut acts = 0u64;
    for (rank, stream) in (0..ranks).flat_map(|r| (0..program.streams.len() as u32).map(move |s| (r, s))) {
        let mut cursor = Cursor::new(&program, rank, stream, LATER);
        while let Some(step) = cursor.next_step().map_err(fault)? {
            let Step::Act(act, ..) = step else { continue };
            acts += 1;
            if acts > MAX_OPERATIONS {
                let text = format!("a call of {} has more than {MAX_OPERATIONS} operations", schedule.name);
                return Err(Diagnostic::error("E354", text).help("use a smaller schedule").into());
            }
            let Some(region) = cursor.region().map(|r| r.0 as usize) else { continue };
            let bytes = |a: &Access| a.len.saturating_mul(width(schedule, a.mem));
            let mut touch = |a: &Access| {
                if let Mem::Slot(window, _) = a.mem {
                    windows[region].insert(WindowId(window));
                }
            };
            let mut moved = |from: u64, to: u64, bytes: u64| {
                if from != to {
                    regions[region][from as usize].sent += bytes;
                    regions[region][to as usize].received += bytes;
                }
            };
            match &act {
                Act::Copy { src, dst } => {
                    touch(src);
                    let own = &mut regions[region][rank as usize];
                    own.read += bytes(src);
                    own.written += bytes(dst);
                    own.copied += bytes(dst);
                }
                Act::Reduce { src, dst, .. } => {
                    touch(src);
                    let own = &mut regions[region][rank as usize];
                    own.read += bytes(src) + bytes(dst);
                    own.written += bytes(dst);
                }
                Act::Notify { .. } => regions[region][rank as usize].notifies += 1,
                Act::Wait { .. } => regions[region][rank as usize].waits += 1,
                Act::FenceRelease | Act::FenceAcquire | Act::FenceComplete => {
                    regions[region][rank as usize].fences += 1;
                }
                Act::Local(op) => {
                    let (read, written) = local(&program, op, rank).map_err(fault)?;
                    let own = &mut regions[region][rank as usize];
                    own.read += read;
                    own.written += written;
                    let (LocalOp::Copy { dst, src }
                    | LocalOp::Pack { dst, src, .. }
                    | LocalOp::Unpack { dst, src, .. }) = op
                    else {
                        continue;
                    };
                    own.copied += written;
                    *copies.entry((region, *dst, *src)).or_default().entry(rank).or_default() += written;
                }
                other => {
                    let (mut there, mut queued, mut near) = (rank, false, None);
                    other.parts(&mut |part| match part {
                        OpPart::Near(side, a) => near = Some((side, bytes(a))),
                        OpPart::Far(_, a) => touch(a),
                        OpPart::Peer(peer) => there = *peer,
                        OpPart::Queue(_) => queued = true,
                        OpPart::Combiner(_)
                        | OpPart::Counter(_)
                        | OpPart::Value(_)
                        | OpPart::Event(_)
                        | OpPart::Local(_)
                        | OpPart::Mark(())
                        | OpPart::Buffer(..) => {}
                        OpPart::Host(host) => match *host {},
                    });
                    messages[rank as usize] += near.map_or(0, |(_, n)| n);
                    match near {
                        Some((RefUse::Read, n)) => moved(rank, there, n),
                        // The sender of a message has counted it.
                        Some((RefUse::Write | RefUse::Update, n)) if !queued => moved(there, rank, n),
                        _ => {}
                    }
                }
            }
        }
    }
    let most = |ranks: BTreeMap<u64, u64>| ranks.into_values().max().unwrap_or(0);
    let name = |b: BufferId| format!("%{}", schedule.buffer(b).name);
    let copies =
        copies.into_iter().map(|((r, to, from), ranks)| ((r + 1, name(to), name(from)), most(ranks)));
    let copies = copies.collect();
    let window = |w: &WindowId| {
        let w = &schedule.windows[w.0 as usize];
        w.slots * w.capacity * w.dtype.bytes()
    };
    let windows = windows.iter().map(|w| w.iter().map(window).sum()).collect();
    let operands =
        schedule.regions.iter().map(|r| r.operands.iter().map(|o| name(o.buffer)).collect()).collect();
    let around = vec![Traffic::default(); ranks as usize];
    let counted = CountedTraffic { regions, around, windows, operands, copies };
    let whole = counted.whole();
    let bytes = whole.iter().zip(messages).map(|(t, sent)| ScheduleBytes {
        read: t.read.saturating_add(sent),
        written: t.written.saturating_add(sent),
    });
    let bytes = bytes.collect();
    Ok((counted, bytes))
}

/// Returns the bytes that a local operation reads and writes on a rank.
fn local(program: &Program<'_>, op: &LocalOp, rank: u64) -> Result<(u64, u64), Fault> {
    let size = |b: BufferId| {
        let dims = program.dims(b, rank)?;
        Ok(dims.iter().fold(program.schedule.buffer(b).dtype.bytes(), |n, d| n.saturating_mul(*d)))
    };
    let written = size(op.dst())?;
    Ok(match op {
        // The part is the smaller side.
        LocalOp::Pack { src, at: Some(_), .. } | LocalOp::Unpack { src, at: Some(_), .. } => {
            let part = written.min(size(*src)?);
            (part, part)
        }
        // These operations read as many bytes as they write.
        LocalOp::Pack { .. } | LocalOp::Unpack { .. } | LocalOp::Slice { .. } => (written, written),
        LocalOp::Embedding { ids, .. } => (written.saturating_add(size(*ids)?), written),
        _ => {
            let mut read = 0u64;
            // An operand that occurs twice is read once.
            for b in op.srcs().into_iter().collect::<BTreeSet<_>>() {
                read = read.saturating_add(size(b)?);
            }
            (read, written)
        }
    })
}

/// Returns the bytes of an element of a memory.
fn width(schedule: &Schedule, mem: Mem) -> u64 {
    match mem {
        Mem::Buffer(b) => schedule.buffers[b as usize].dtype.bytes(),
        Mem::Slot(w, _) => schedule.windows[w as usize].dtype.bytes(),
    }
}
