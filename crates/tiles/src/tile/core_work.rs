//! Work of cores: what every core of every rank moves and multiplies in one launch of a kernel,
//! from which times at given rates follow.
//!
//! Like [`super::counts`], the numbers come from the trace of the kernel.

use super::counts::CALL_COUNTED;
use super::kernel::Kernel;
use super::op::Op;
use super::roles::Pipe;
use super::trace::{Launch, MemoryPlace, TraceEvent, TraceProgram, TraceSink};
use kbc_diag::Diagnostic;
use kbc_ir::name::Name;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// What a core does in a launch.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CoreWork {
    /// Bytes of its loads from memory of its own rank.
    pub loaded: u64,
    /// Bytes of its stores to memory of its own rank.
    pub stored: u64,
    /// Number of its loads from memory of its own rank.
    pub loads: u64,
    /// Number of its stores to memory of its own rank.
    pub stores: u64,
    /// Number of its waits for flags, by the pipe that waits.
    pub flags: BTreeMap<Pipe, u64>,
    /// Its loads from windows of peers: how many there are of each size in bytes.
    pub from_peers: BTreeMap<u64, u64>,
    /// Its stores to windows of peers.
    pub to_peers: BTreeMap<u64, u64>,
    /// Multiplications and additions of its matrix unit, each one operation.
    pub flops: u64,
    /// Additions to counters.
    pub notifies: u64,
}

/// Returns the work of every core in a launch of a kernel: first by rank, then by core. `scalars`:
/// the values of the scalars of a launch other than the number of ranks and the call.
///
/// # Errors
/// Returns the errors of a trace: E456 and E459 for a kernel that is not sound, and E431 if all
/// ranks together have more than about `limit` events to count.
pub fn of_cores(
    kernel: &Kernel,
    nranks: u64,
    scalars: &BTreeMap<Name, i64>,
    limit: usize,
) -> Result<Vec<Vec<CoreWork>>, Diagnostic> {
    let program = TraceProgram::new(kernel)?;
    let cores = i64::from(kernel.most_cores());
    let agents = usize::try_from(nranks.saturating_mul(cores as u64)).unwrap_or(usize::MAX);
    let each = limit.div_ceil(agents.max(1));
    let of_core = |rank: i64, core: i64| {
        let scalars = scalars.clone();
        let launch = Launch { nranks: nranks as i64, rank, core, call: CALL_COUNTED, scalars };
        let mut sink = Sink { kernel, times: 1, work: CoreWork::default() };
        program.count(&launch, each, &mut sink).map(|()| sink.work)
    };
    (0..nranks as i64).map(|rank| (0..cores).map(|core| of_core(rank, core)).collect()).collect()
}

/// Adds up the events of a trace.
struct Sink<'k> {
    kernel: &'k Kernel,
    /// How many events each event stands for.
    times: u64,
    work: CoreWork,
}

impl Sink<'_> {
    fn transfer(&mut self, place: MemoryPlace, elements: i64, load: bool) {
        let elements = u64::try_from(elements).unwrap_or(0);
        let bytes = elements.saturating_mul(self.kernel.dtype(place.object).bytes());
        let work = &mut self.work;
        let (own, number, peers) = if load {
            (&mut work.loaded, &mut work.loads, &mut work.from_peers)
        } else {
            (&mut work.stored, &mut work.stores, &mut work.to_peers)
        };
        match place.peer {
            None => {
                *own = own.saturating_add(bytes.saturating_mul(self.times));
                *number += self.times;
            }
            Some(_) => *peers.entry(bytes).or_default() += self.times,
        }
    }
}

impl<'k> TraceSink<'k> for Sink<'k> {
    fn take(&mut self, event: TraceEvent<'k>) -> ControlFlow<()> {
        match event {
            TraceEvent::Load { len, from, .. }
            | TraceEvent::LoadRow { len, from, .. }
            | TraceEvent::LoadRows { len, from, .. } => self.transfer(from, len, true),
            TraceEvent::LoadBlock { size: [rows, cols], from, .. } => {
                self.transfer(from, rows.saturating_mul(cols), true);
            }
            TraceEvent::Store { len, to, .. } | TraceEvent::StoreRows { len, to, .. } => {
                self.transfer(to, len, false);
            }
            TraceEvent::StoreBlock { size: [rows, cols], to, .. } => {
                self.transfer(to, rows.saturating_mul(cols), false);
            }
            TraceEvent::Matmul { size, .. } => {
                let product = size.iter().fold(2u64, |n, s| n.saturating_mul(u64::try_from(*s).unwrap_or(0)));
                self.work.flops = self.work.flops.saturating_add(product.saturating_mul(self.times));
            }
            TraceEvent::Notify { .. } => self.work.notifies += self.times,
            TraceEvent::Order(Op::WaitFlag { to, .. }) => {
                *self.work.flags.entry(*to).or_default() += self.times;
            }
            // Neither in memory outside of the core, nor a product, a notify or a flag.
            TraceEvent::Tiles { .. }
            | TraceEvent::Rows { .. }
            | TraceEvent::Turn { .. }
            | TraceEvent::Vector { .. }
            | TraceEvent::Select { .. }
            | TraceEvent::Convert { .. }
            | TraceEvent::Reduce { .. }
            | TraceEvent::Expand { .. }
            | TraceEvent::Spread { .. }
            | TraceEvent::Index { .. }
            | TraceEvent::Choose { .. }
            | TraceEvent::Move { .. }
            | TraceEvent::Wait { .. }
            | TraceEvent::Order(_) => {}
        }
        ControlFlow::Continue(())
    }

    fn each_stands_for(&mut self, times: u64) {
        self.times = times;
    }
}
