//! One memory of one rank as different readers may see it.
//!
//! Elements that nothing has written hold a poison, which is visible wherever it goes. A write that
//! a reader is not entitled to see yet is a *veil*: the old elements are kept beside the new ones,
//! and [`RankMemory::variants`] returns all values that the reader may get.
//!
//! A read sees through the newest k veils for some k, over its whole length. This loses nothing:
//! copies and reductions work element by element, and for each element every possible value is
//! among the variants.

use kbc_ir::dtype::{DType, Format};
use kbc_numerics::numbers::{from_f64, from_i64};
use kbc_numerics::tensor::Data;

/// Returns elements that hold nothing: NaN, or a number that no input has.
pub(super) fn poison(dtype: DType, n: usize) -> Data {
    let number = match dtype.row().format {
        Format::Float(_) => return from_f64(dtype, &vec![f64::NAN; n]),
        Format::Int { bits: 8, signed: true } => -117,
        Format::Int { bits: 8, signed: false } => 251,
        Format::Int { bits: 16, .. } => -31337,
        Format::Int { .. } => 0x5bad_f00d_5bad_f00d,
    };
    from_i64(dtype, &vec![number; n])
}

/// The writer, and the number of the writer's release that covers the write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer {
    pub(super) rank: u32,
    pub(super) thread: u32,
    pub(super) release: u32,
}

/// A write that not every reader must see, and the old elements.
#[derive(Clone)]
struct UnseenWrite {
    start: u32,
    old: Data,
    writer: Writer,
}

impl UnseenWrite {
    fn end(&self) -> u32 {
        self.start + self.old.len() as u32
    }

    fn overlaps(&self, lo: u32, hi: u32) -> bool {
        self.start < hi && lo < self.end()
    }

    fn inside(&self, lo: u32, hi: u32) -> bool {
        lo <= self.start && self.end() <= hi
    }
}

/// Maximum number of writes that a place remembers. Older ones are treated as visible to every
/// reader.
const REMEMBERED: usize = 64;

/// A memory of a rank.
#[derive(Clone)]
pub(super) struct RankMemory {
    rank: u32,
    data: Data,
    veils: Vec<UnseenWrite>,
    /// Writes by peers for a call that its rank had not begun: start, length, call.
    early: Vec<(u32, u32, i64)>,
    /// Whether peers `get` from it. If so, the rank's own writes are also veiled for them.
    remote_readers: bool,
}

impl RankMemory {
    pub(super) fn new(rank: u32, data: Data, remote_readers: bool) -> RankMemory {
        RankMemory { rank, data, veils: vec![], early: vec![], remote_readers }
    }

    /// Whether a write of these elements changes nothing.
    pub(super) fn holds(&self, start: u32, data: &Data) -> bool {
        self.data.slice(start as usize, data.len()) == *data
    }

    /// Returns all values that a reader may see, the newest first. `fresh` states which writes it
    /// must see.
    pub(super) fn variants(&self, start: u32, len: u32, fresh: impl Fn(&Writer) -> bool) -> Vec<Data> {
        let end = start + len;
        let now = self.data.slice(start as usize, len as usize);
        if !self.veils.iter().any(|v| v.overlaps(start, end) && !fresh(&v.writer)) {
            return vec![now];
        }
        let mut out = vec![now.clone()];
        let mut view = now;
        let mut open = vec![true; len as usize];
        for v in self.veils.iter().rev().filter(|v| v.overlaps(start, end)) {
            let (lo, hi) = (v.start.max(start), v.end().min(end));
            if fresh(&v.writer) {
                open[(lo - start) as usize..(hi - start) as usize].fill(false);
                continue;
            }
            for i in lo..hi {
                if open[(i - start) as usize] {
                    let same = view.copy_from((i - start) as usize, &v.old, (i - v.start) as usize, 1);
                    debug_assert!(same, "a place has one type");
                }
            }
            if !out.contains(&view) {
                out.push(view.clone());
            }
        }
        out
    }

    /// Performs a write.
    pub(super) fn write(&mut self, start: u32, data: &Data, writer: Writer) {
        let (lo, hi) = (start, start + data.len() as u32);
        if lo == hi {
            return;
        }
        let own = writer.rank == self.rank && !self.remote_readers;
        if own {
            // The rank sees its own writes at once, so no reader sees the old elements.
            self.veils.retain(|v| !v.inside(lo, hi));
        }
        if !own || self.veils.iter().any(|v| v.overlaps(lo, hi)) {
            if self.veils.len() == REMEMBERED {
                self.veils.remove(0);
            }
            let old = self.data.slice(lo as usize, data.len());
            self.veils.push(UnseenWrite { start, old, writer });
        }
        let same = self.data.copy_from(lo as usize, data, 0, data.len());
        debug_assert!(same, "types were compared before");
    }

    /// Records a write by a peer, or by another stream of the rank, for a call that the rank's host
    /// has not begun.
    pub(super) fn write_for_later_call(&mut self, start: u32, len: u32, call: i64) {
        self.early.push((start, len, call));
    }

    /// Begins a call on the rank: everything except what was written for that call is forgotten.
    pub(super) fn begin_call(&mut self, call: i64) {
        self.early.retain(|e| e.2 >= call);
        let mut fresh = poison(self.data.dtype(), self.data.len());
        for (start, len, _) in &self.early {
            let same = fresh.copy_from(*start as usize, &self.data, *start as usize, *len as usize);
            debug_assert!(same, "a place has one type");
        }
        let kept = std::mem::take(&mut self.early);
        self.veils.retain_mut(|v| {
            v.old = poison(v.old.dtype(), v.old.len());
            kept.iter().any(|(start, len, _)| v.overlaps(*start, start + len))
        });
        self.data = fresh;
        self.early = kept.into_iter().filter(|e| e.2 > call).collect();
    }
}
