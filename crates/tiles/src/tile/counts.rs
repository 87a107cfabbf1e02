//! Counts of executed operations: how many transfers, flags, barriers and instructions a rank
//! executes in one launch of a kernel.
//!
//! The numbers come from the trace of the kernel, in which every loop runs and every condition is
//! decided. Nothing is estimated from the text or from a schedule.

use super::dialect::Dialect;
use super::kernel::Kernel;
use super::op::Op;
use super::roles::{Barrier, Pipe};
use super::trace::{Launch, TraceEvent, TraceProgram, TraceSink};
use kbc_diag::Diagnostic;
use kbc_ir::name::Name;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The number of the launch that is counted: a later one, which waits for credits of earlier ones.
pub(super) const CALL_COUNTED: i64 = 4;

/// Numbers of operations that one rank executes in a launch, over all of its cores. Bytes are those
/// between a core and device memory, of this rank or of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OpCounts {
    /// Transfers into cores. A row of a table counts whether or not the table has it.
    pub loads: u64,
    /// Transfers out of cores.
    pub stores: u64,
    /// Bytes of all loads.
    pub bytes_loaded: u64,
    /// Bytes of all stores.
    pub bytes_stored: u64,
    /// Flags that are set.
    pub flags_set: u64,
    /// Flags that are waited for.
    pub flags_waited: u64,
    /// Barriers of all pipes.
    pub barriers_all: u64,
    /// Barriers of one pipe, in the order of [`Pipe::ALL`].
    pub barriers: [u64; Pipe::ALL.len()],
    /// Memory barriers: fences between this rank's writes and its next notify.
    pub memory_barriers: u64,
    /// Additions to counters.
    pub notifies: u64,
    /// Waits for counters.
    pub waits: u64,
    /// Operations of the vector pipe on tiles.
    pub vector: u64,
    /// Those of `vector` that compare and select.
    pub selections: u64,
    /// Moves inside a matrix core.
    pub moves: u64,
    /// Block products of the matrix unit.
    pub products: u64,
}

impl OpCounts {
    fn numbers(&mut self) -> Vec<&mut u64> {
        let mut out = vec![
            &mut self.loads,
            &mut self.stores,
            &mut self.bytes_loaded,
            &mut self.bytes_stored,
            &mut self.flags_set,
            &mut self.flags_waited,
            &mut self.barriers_all,
            &mut self.memory_barriers,
            &mut self.notifies,
            &mut self.waits,
            &mut self.vector,
            &mut self.selections,
            &mut self.moves,
            &mut self.products,
        ];
        out.extend(&mut self.barriers);
        out
    }

    fn with(mut self, mut other: OpCounts, f: fn(u64, u64) -> u64) -> OpCounts {
        for (a, b) in self.numbers().into_iter().zip(other.numbers()) {
            *a = f(*a, *b);
        }
        self
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: OpCounts) -> OpCounts {
        self.with(other, u64::saturating_add)
    }

    /// Returns the larger one of each number.
    #[must_use]
    pub fn most(self, other: OpCounts) -> OpCounts {
        self.with(other, u64::max)
    }

    /// Returns the mean size of a transfer in bytes, rounded down; 0 without transfers.
    pub fn mean_bytes(&self) -> u64 {
        let bytes = self.bytes_loaded.saturating_add(self.bytes_stored);
        bytes.checked_div(self.loads + self.stores).unwrap_or(0)
    }

    /// Returns all numbers with their names. Barriers of one pipe are listed if there are any.
    pub fn named(&self, dialect: &Dialect) -> Vec<(String, u64)> {
        let mut out = vec![
            ("loads".to_owned(), self.loads),
            ("stores".to_owned(), self.stores),
            ("bytes_loaded".to_owned(), self.bytes_loaded),
            ("bytes_stored".to_owned(), self.bytes_stored),
            ("mean_bytes".to_owned(), self.mean_bytes()),
            ("flags_set".to_owned(), self.flags_set),
            ("flags_waited".to_owned(), self.flags_waited),
            ("barriers_all".to_owned(), self.barriers_all),
        ];
        for (pipe, n) in Pipe::ALL.iter().zip(self.barriers).filter(|(_, n)| *n > 0) {
            out.push((format!("barriers_{}", dialect.pipe(*pipe)), n));
        }
        let rest = [
            ("dsb", self.memory_barriers),
            ("notifies", self.notifies),
            ("waits", self.waits),
            ("vector", self.vector),
            ("selections", self.selections),
            ("moves", self.moves),
            ("products", self.products),
        ];
        out.extend(rest.map(|(name, n)| (name.to_owned(), n)));
        out
    }
}

/// Returns what the ranks execute in a launch of a kernel, the largest of each number over the
/// ranks. `scalars`: the values of the scalars of a launch other than the number of ranks and the
/// call. Loops over tiles that are alike are counted without unrolling.
///
/// # Errors
/// Returns the errors of a trace: E456 and E459 for a kernel that is not sound, and E431 if all
/// ranks together have more than about `limit` events to count.
pub fn executed(
    kernel: &Kernel,
    nranks: u64,
    scalars: &BTreeMap<Name, i64>,
    limit: usize,
) -> Result<OpCounts, Diagnostic> {
    let program = TraceProgram::new(kernel)?;
    let cores = i64::from(kernel.most_cores());
    let agents = usize::try_from(nranks.saturating_mul(cores as u64)).unwrap_or(usize::MAX);
    let each = limit.div_ceil(agents.max(1));
    let mut most = OpCounts::default();
    for rank in 0..nranks as i64 {
        let mut sum = OpCounts::default();
        for core in 0..cores {
            let scalars = scalars.clone();
            let launch = Launch { nranks: nranks as i64, rank, core, call: CALL_COUNTED, scalars };
            let mut counter = Counter { kernel, times: 1, counts: OpCounts::default() };
            program.count(&launch, each, &mut counter)?;
            sum = sum.plus(counter.counts);
        }
        most = most.most(sum);
    }
    Ok(most)
}

/// Counts the events of a trace.
struct Counter<'k> {
    kernel: &'k Kernel,
    /// How many events each event stands for.
    times: u64,
    counts: OpCounts,
}

impl<'k> TraceSink<'k> for Counter<'k> {
    fn take(&mut self, event: TraceEvent<'k>) -> ControlFlow<()> {
        let Counter { kernel, times, counts } = self;
        let times = *times;
        let bytes = |object, n: i64| {
            let n = u64::try_from(n).unwrap_or(0).saturating_mul(kernel.dtype(object).bytes());
            n.saturating_mul(times)
        };
        match event {
            TraceEvent::Load { len, from, .. }
            | TraceEvent::LoadRow { len, from, .. }
            | TraceEvent::LoadRows { len, from, .. } => {
                counts.loads += times;
                counts.bytes_loaded += bytes(from.object, len);
            }
            TraceEvent::LoadBlock { size: [rows, cols], from, .. } => {
                counts.loads += times;
                counts.bytes_loaded += bytes(from.object, rows.saturating_mul(cols));
            }
            TraceEvent::Store { len, to, .. } | TraceEvent::StoreRows { len, to, .. } => {
                counts.stores += times;
                counts.bytes_stored += bytes(to.object, len);
            }
            TraceEvent::StoreBlock { size: [rows, cols], to, .. } => {
                counts.stores += times;
                counts.bytes_stored += bytes(to.object, rows.saturating_mul(cols));
            }
            TraceEvent::Vector { .. }
            | TraceEvent::Convert { .. }
            | TraceEvent::Reduce { .. }
            | TraceEvent::Expand { .. }
            | TraceEvent::Spread { .. }
            | TraceEvent::Index { .. } => counts.vector += times,
            TraceEvent::Select { .. } => {
                counts.vector += times;
                counts.selections += times;
            }
            TraceEvent::Move { .. } => counts.moves += times,
            TraceEvent::Matmul { .. } => counts.products += times,
            TraceEvent::Notify { .. } => counts.notifies += times,
            TraceEvent::Wait { .. } => counts.waits += times,
            TraceEvent::Tiles { .. }
            | TraceEvent::Rows { .. }
            | TraceEvent::Turn { .. }
            | TraceEvent::Choose { .. } => {}
            TraceEvent::Order(op) => match op {
                Op::Barrier(Barrier::All) => counts.barriers_all += times,
                Op::Barrier(Barrier::Pipe(p)) => counts.barriers[*p as usize] += times,
                Op::MemoryBarrier => counts.memory_barriers += times,
                Op::SetFlag { .. } => counts.flags_set += times,
                Op::WaitFlag { .. } => counts.flags_waited += times,
                _ => {}
            },
        }
        ControlFlow::Continue(())
    }

    fn each_stands_for(&mut self, times: u64) {
        self.times = times;
    }
}
