//! Connections: the number of operations in flight, and the message size up to which a schedule
//! does not deadlock.
//!
//! A step of `cnt` chunks is issued as `ceil(cnt / m)` operations, where m is the number of chunks
//! that fit into one operation's part of the connection buffer. m falls as messages grow, so a
//! schedule may be free of deadlock for small messages only. Thread blocks are deterministic and
//! connections are first in, first out, so a single abstract run decides whether a schedule hangs
//! for a given m.
//!
//! Sources: `src/enqueue.cc` and `src/include/msccl.h` of microsoft/msccl, and the default buffer
//! sizes of NCCL.

use super::{Algo, Op, Proto, StepName, Tb};
use std::collections::BTreeMap;

/// Steps of a connection buffer (`NCCL_STEPS`).
const SLOTS: u64 = 8;
/// Greatest number of chunks that one operation moves (`MSCCL_MAX_COUNT` - 1).
pub const MAX_AT_ONCE: u64 = 71;

impl Proto {
    /// Returns the number of operations in flight on a connection. An operation takes 4 of the 8
    /// steps with `Simple`, and 1 step with `LL` and `LL128`.
    pub fn depth(self) -> u64 {
        match self {
            Proto::Simple => SLOTS / 4,
            Proto::Ll | Proto::Ll128 => SLOTS,
        }
    }

    /// Returns the greatest number of bytes that one operation moves, with the default buffers (4
    /// MiB, 512 KiB and 4800 KiB).
    pub fn chunk_bytes(self) -> u64 {
        match self {
            Proto::Simple => (4 << 20) / SLOTS * 4,
            Proto::Ll => (512 << 10) / SLOTS / 2,
            Proto::Ll128 => (4800 << 10) / SLOTS * 15 / 16,
        }
    }

    /// Returns the number of chunks that one operation moves, for messages of `bytes` bytes in
    /// `chunks` chunks.
    pub fn at_once(self, bytes: u64, chunks: u64) -> u64 {
        let one = bytes.div_ceil(chunks.max(1)).max(1);
        (self.chunk_bytes() / one).clamp(1, MAX_AT_ONCE)
    }
}

/// The message sizes at which a schedule does not hang.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SafeSizes {
    /// Every size.
    Any,
    /// Sizes up to this number of bytes of the largest user buffer.
    UpTo(u64),
    /// No size.
    Never,
}

/// Returns the message sizes at which a schedule does not hang, with the queue depth
/// of its protocol.
pub fn safe(algo: &Algo) -> SafeSizes {
    let most = algo.steps().map(|(_, s)| s.cnt).max().unwrap_or(1).clamp(1, MAX_AT_ONCE);
    let depth = algo.proto.depth();
    // Larger messages have a smaller m. The first m that hangs bounds the safe sizes.
    let mut least = None;
    for m in (1..=most).rev() {
        if !ends(algo, m, depth) {
            break;
        }
        least = Some(m);
    }
    match least {
        None => SafeSizes::Never,
        Some(1) => SafeSizes::Any,
        Some(m) => SafeSizes::UpTo((algo.proto.chunk_bytes() / m).saturating_mul(algo.chunks)),
    }
}

struct Process {
    step: usize,
    /// Completed operations of the current step.
    done: u64,
    /// Last step that has been published, or -1. Steps up to this one count as published.
    published: i64,
}

/// Checks whether every thread block finishes, with m chunks per operation and `depth`
/// operations in flight.
pub fn ends(algo: &Algo, m: u64, depth: u64) -> bool {
    stuck(algo, m, depth).is_empty()
}

/// Returns the steps at which thread blocks wait forever, with m chunks per operation and `depth`
/// operations in flight.
pub fn stuck(algo: &Algo, m: u64, depth: u64) -> Vec<StepName> {
    let mut fifos: BTreeMap<(u64, u64, u64), u64> = BTreeMap::new();
    let mut all: Vec<Vec<Process>> = algo
        .gpus
        .iter()
        .map(|g| g.tbs.iter().map(|_| Process { step: 0, done: 0, published: -1 }).collect())
        .collect();
    let mut moved = true;
    while moved {
        moved = false;
        for (rank, g) in algo.gpus.iter().enumerate() {
            for (tb, t) in g.tbs.iter().enumerate() {
                while let Some(s) = t.steps.get(all[rank][tb].step) {
                    let p = &all[rank][tb];
                    let met = |d: &super::Dep| {
                        let of = usize::try_from(d.tb).ok().and_then(|i| all[rank].get(i));
                        of.is_none_or(|of| of.published >= d.step)
                    };
                    if p.done == 0 && !s.waits.iter().all(met) {
                        break;
                    }
                    let rank = rank as u64;
                    let from = t.recv.filter(|_| s.op.receives()).map(|p| (p, rank, t.chan));
                    let to = t.send.filter(|_| s.op.sends()).map(|p| (rank, p, t.chan));
                    if p.done < s.cnt.div_ceil(m) && (from.is_some() || to.is_some()) {
                        let held = |f: &Option<_>| f.and_then(|f| fifos.get(&f).copied()).unwrap_or(0);
                        if (from.is_some() && held(&from) == 0) || (to.is_some() && held(&to) >= depth) {
                            break;
                        }
                        if let Some(n) = from.and_then(|f| fifos.get_mut(&f)) {
                            *n -= 1;
                        }
                        if let Some(f) = to {
                            *fifos.entry(f).or_insert(0) += 1;
                        }
                        all[rank as usize][tb].done += 1;
                        moved = true;
                        continue;
                    }
                    let p = &mut all[rank as usize][tb];
                    if s.hasdep && s.op != Op::Nop {
                        p.published = p.step as i64;
                    }
                    (p.step, p.done) = (p.step + 1, 0);
                    moved = true;
                }
            }
        }
    }
    let mut out = vec![];
    for (gpu, (ps, g)) in all.iter().zip(&algo.gpus).enumerate() {
        let waits = |(tb, (p, t)): (usize, (&Process, &Tb))| {
            (p.step < t.steps.len()).then_some(StepName { gpu, tb, step: p.step })
        };
        out.extend(ps.iter().zip(&g.tbs).enumerate().filter_map(waits));
    }
    out
}
