//! Local work: the amounts of arithmetic, memory traffic and vector work of an operation, and the
//! units that perform it.
//!
//! This module owns the table of docs/explanation/time.md, "Local work". Shapes are checked by the
//! engines that compute data.

use super::clock::{Rate, Time};
use kbc_ir::schedule::{BufferId, LocalOp};
use kbc_ir::tiles;
use kbc_ir::walk::{Fault, Program, TimedOp};
use kbc_machine::topology::Topology;
use std::collections::BTreeMap;

/// A unit of a device. Each is a FIFO of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unit {
    /// Matmuls, in floating-point operations.
    Arithmetic,
    /// Memory traffic of local operations, in bytes read and written.
    Memory,
    /// Reductions, conversions and elementwise functions, in bytes.
    Vector,
}

impl Unit {
    /// All units.
    pub const ALL: [Unit; 3] = [Unit::Arithmetic, Unit::Memory, Unit::Vector];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Arithmetic => "arithmetic",
            Unit::Memory => "memory",
            Unit::Vector => "vector",
        }
    }
}

/// Amounts of work for each unit.
pub(super) type Amounts = [u64; 3];

/// The work of an operation. Zero for one that does not compute.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Job {
    pub(super) all: Amounts,
    /// For a tile kernel: the amounts of its parts.
    pub(super) tiles: Option<tiles::Work>,
}

impl Job {
    /// Returns the work of an operation on a rank.
    pub(super) fn of(program: &Program<'_>, act: &TimedOp<'_>, rank: u64) -> Result<Job, Fault> {
        let all = match act {
            TimedOp::Copy { dst: to, src: from } => [0, to.saturating_add(*from), 0],
            TimedOp::Reduce { op: _, dst: to, src: from } => {
                [0, to.saturating_mul(2).saturating_add(*from), *from]
            }
            TimedOp::Local(LocalOp::Tiles { kernel, args, .. }) => {
                let sizes = args.iter().map(|b| program.dims(*b, rank)).collect::<Result<Vec<_>, _>>()?;
                let views: Vec<&[u64]> = sizes.iter().map(|s| &s[..]).collect();
                // Sizes that do not fit are reported by the engines that compute data.
                let work = kernel.work(&views).unwrap_or_default();
                return Ok(Job { all: work.total(), tiles: Some(work) });
            }
            TimedOp::Local(op) => of_local(program, op, rank)?,
            TimedOp::Put { .. }
            | TimedOp::Get { .. }
            | TimedOp::GetCombine { .. }
            | TimedOp::Send { .. }
            | TimedOp::Recv { .. }
            | TimedOp::Room { .. }
            | TimedOp::Notify { .. }
            | TimedOp::Wait { .. }
            | TimedOp::FenceRelease
            | TimedOp::FenceAcquire
            | TimedOp::FenceComplete
            | TimedOp::Record(_)
            | TimedOp::Await(_)
            | TimedOp::Mark(_)
            | TimedOp::HostRead(_)
            | TimedOp::Host(_) => [0; 3],
        };
        Ok(Job { all, tiles: None })
    }
}

/// Returns the work of an operation on a rank: floating-point operations, bytes of memory traffic,
/// bytes of vector work.
///
/// # Errors
/// Returns E302 if sizes cannot be evaluated.
pub fn amounts(program: &Program<'_>, op: &LocalOp, rank: u64) -> Result<[u64; 3], Fault> {
    Ok(Job::of(program, &TimedOp::Local(op), rank)?.all)
}

/// The phases of a local operation beyond the times of its units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OpPhases {
    /// Time in which PEs of the device fetch the operands that they lack.
    pub(super) fetched: Time,
    /// Time in which operands are preloaded after that.
    pub(super) preloaded: Time,
    /// Least time of the rest.
    pub(super) least: Time,
    /// The unit that causes `least`.
    pub(super) unit: Unit,
    /// Time in which the result is sent to other PEs at the end.
    pub(super) sent: Time,
    /// Whether PEs share the work. The rest then takes exactly `least`, whatever the units need.
    pub(super) shared: bool,
}

impl OpPhases {
    /// The course of an operation that takes no longer than its units.
    pub(super) const NONE: OpPhases = OpPhases {
        fetched: Time::ZERO,
        preloaded: Time::ZERO,
        least: Time::ZERO,
        unit: Unit::Memory,
        sent: Time::ZERO,
        shared: false,
    };

    /// Checks whether no phase takes time.
    pub(super) fn is_none(&self) -> bool {
        [self.fetched, self.preloaded, self.least, self.sent] == [Time::ZERO; 4]
    }
}

/// Returns the bytes of the result of a local operation.
pub(super) fn made(program: &Program<'_>, op: &LocalOp, rank: u64) -> Result<u64, Fault> {
    let dims = program.dims(op.dst(), rank)?;
    let width = program.schedule.buffer(op.dst()).dtype.bytes();
    Ok(dims.iter().fold(width, |n, d| n.saturating_mul(*d)))
}

fn of_local(program: &Program<'_>, op: &LocalOp, rank: u64) -> Result<Amounts, Fault> {
    let product = |dims: &[u64]| dims.iter().fold(1u64, |n, d| n.saturating_mul(*d));
    let size = |b: BufferId| program.schedule.buffer(b).dtype.bytes();
    let results = product(&program.dims(op.dst(), rank)?);
    // An operand that occurs twice, as in `x * x`, is read once.
    let mut reads = BTreeMap::new();
    for b in op.srcs() {
        reads.insert(b, product(&program.dims(b, rank)?));
    }
    // The part is the smaller of the two sides.
    let moved = match op {
        LocalOp::Pack { src, at: Some(_), .. } | LocalOp::Unpack { src, at: Some(_), .. } => {
            results.min(reads.get(src).copied().unwrap_or(0))
        }
        LocalOp::Pack { at: None, .. } | LocalOp::Unpack { at: None, .. } => results,
        LocalOp::Compute { .. }
        | LocalOp::Matmul { .. }
        | LocalOp::ReduceDim { .. }
        | LocalOp::Cast { .. }
        | LocalOp::Copy { .. }
        | LocalOp::Transpose { .. }
        | LocalOp::Embedding { .. }
        | LocalOp::Grouped { .. }
        | LocalOp::Tiles { .. }
        | LocalOp::Fill { .. }
        | LocalOp::Slice { .. } => results,
    };
    Ok(of_elements(op, &size, (results, moved), &reads, depth(program, op, rank)?))
}

/// Returns the number of products that are added up in an element of a product of matrices, and 0
/// for any other operation.
pub(super) fn depth(program: &Program<'_>, op: &LocalOp, rank: u64) -> Result<u64, Fault> {
    match op {
        LocalOp::Matmul { a, .. } | LocalOp::Grouped { x: a, .. } => {
            Ok(program.dims(*a, rank)?.last().copied().unwrap_or(0))
        }
        LocalOp::Compute { .. }
        | LocalOp::ReduceDim { .. }
        | LocalOp::Cast { .. }
        | LocalOp::Copy { .. }
        | LocalOp::Pack { .. }
        | LocalOp::Unpack { .. }
        | LocalOp::Transpose { .. }
        | LocalOp::Embedding { .. }
        | LocalOp::Tiles { .. }
        | LocalOp::Fill { .. }
        | LocalOp::Slice { .. } => Ok(0),
    }
}

/// Returns the work of producing `results` elements from the given numbers of elements of each
/// operand. `moved` is the number of elements that a pack or unpack moves, and `depth` is the
/// length of the sums of a matmul.
pub(super) fn of_elements(
    op: &LocalOp,
    size: &dyn Fn(BufferId) -> u64,
    (results, moved): (u64, u64),
    reads: &BTreeMap<BufferId, u64>,
    depth: u64,
) -> Amounts {
    let bytes = |b: BufferId, n: u64| n.saturating_mul(size(b));
    let read = reads.iter().fold(0u64, |sum, (b, n)| sum.saturating_add(bytes(*b, *n)));
    let written = bytes(op.dst(), results);
    let all = read.saturating_add(written);
    match op {
        LocalOp::Compute { .. } => [0, all, written],
        LocalOp::ReduceDim { .. } => [0, all, read],
        LocalOp::Cast { .. } => [0, all, read.max(written)],
        LocalOp::Matmul { .. } | LocalOp::Grouped { .. } => {
            [results.saturating_mul(depth).saturating_mul(2), all, 0]
        }
        // Of the table, only the rows that are looked up are read.
        LocalOp::Embedding { ids, .. } => {
            let numbers = bytes(*ids, reads.get(ids).copied().unwrap_or(0));
            [0, written.saturating_mul(2).saturating_add(numbers), 0]
        }
        // The work of tile kernels is computed in [`Job::of`].
        LocalOp::Tiles { .. } => [0; 3],
        LocalOp::Fill { .. } => [0, written, written],
        // These read as many bytes as they write.
        LocalOp::Copy { .. } | LocalOp::Transpose { .. } | LocalOp::Slice { .. } => {
            [0, written.saturating_mul(2), 0]
        }
        LocalOp::Pack { dst, .. } | LocalOp::Unpack { dst, .. } => {
            [0, moved.saturating_mul(size(*dst)).saturating_mul(2), 0]
        }
    }
}

/// Rates of the units: those of the settings, and those of perturbed devices.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    units: [Rate; 3],
    /// Rates of perturbed devices, by rank.
    own: BTreeMap<u64, [Rate; 3]>,
    /// Whether each unit is assumed infinitely fast.
    pub(super) unlimited: [bool; 3],
    /// Bytes of a step of the vector unit.
    step: u64,
    /// Bytes of memory traffic per second of one core.
    core: f64,
    /// Factors by which the memory of a rank is slower, by rank, if they are not 1.
    slower: BTreeMap<u64, f64>,
}

impl Rates {
    pub(super) fn new(topo: &Topology) -> Rates {
        let settings = topo.settings();
        let all = [settings.flops(), settings.memory(), settings.vector()];
        let slower = |by: [f64; 3]| std::array::from_fn(|i| Rate::new(all[i] / by[i]));
        let own = topo.paces().filter(|(_, p)| p.slower != [1.0; 3]);
        let slow = topo.paces().map(|(d, p)| (u64::from(d.0), p.slower[1]));
        Rates {
            units: all.map(Rate::new),
            own: own.map(|(d, p)| (u64::from(d.0), slower(p.slower))).collect(),
            unlimited: all.map(|r| r == f64::INFINITY),
            step: settings.vector_step.map_or(1, |s| s as u64),
            core: settings.cores.memory(),
            slower: slow.filter(|s| s.1 != 1.0).collect(),
        }
    }

    /// Checks whether any local work takes time.
    pub(super) fn works(&self) -> bool {
        self.unlimited.contains(&false) || self.core < f64::INFINITY
    }

    /// Returns the time in which one core of a rank reads and writes a number of bytes.
    pub(super) fn of_core(&self, rank: u64, bytes: u64) -> Time {
        Time::of(bytes, self.core / self.slower.get(&rank).copied().unwrap_or(1.0))
    }

    /// Returns the course of a tile kernel: preloaded operands come first, then tiles pass through
    /// the units in a pipeline. The time for a unit is the sum of the work of the other units on
    /// the first tiles, all work of the unit, and the work of the other units on the last tiles.
    /// The longest of these times counts.
    pub(super) fn of_tiles(&mut self, rank: u64, work: &tiles::Work) -> OpPhases {
        let mut sum = |work: &Amounts| self.times(rank, work).into_iter().fold(Time::ZERO, |a, b| a + b);
        let preloaded = sum(&[0, work.preloaded, 0]);
        let mut course = OpPhases { preloaded, ..OpPhases::NONE };
        for (i, unit) in Unit::ALL.into_iter().enumerate() {
            let mut own = [0; 3];
            own[i] = work.all[i];
            let chain = sum(&work.before[i]) + sum(&own) + sum(&work.after[i]);
            if chain > course.least {
                course = OpPhases { least: chain, unit, ..course };
            }
        }
        course
    }

    /// Returns the time of each unit of a rank for these amounts.
    pub(super) fn times(&mut self, rank: u64, work: &Amounts) -> [Time; 3] {
        let units = match self.own.is_empty() {
            true => &mut self.units,
            false => self.own.get_mut(&rank).unwrap_or(&mut self.units),
        };
        let mut work = *work;
        let vector = &mut work[Unit::Vector as usize];
        *vector = vector.checked_next_multiple_of(self.step).unwrap_or(u64::MAX);
        std::array::from_fn(|i| units[i].time(work[i]))
    }
}

/// The units of one device, as the times from which each is free. Arithmetic and vector work may
/// share a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Units {
    free: [Time; 3],
    shared: bool,
    /// Time from which the links between the PEs of the device are free.
    network: Time,
}

impl Units {
    /// Returns units that are free.
    pub(super) fn new(shared: bool) -> Units {
        Units { free: [Time::ZERO; 3], shared, network: Time::ZERO }
    }

    /// Returns the time at which an operation that is requested at `at` may begin: if it moves
    /// elements between PEs, not before their links are free.
    pub(super) fn network(&self, at: Time, moves: bool) -> Time {
        if moves { at.max(self.network) } else { at }
    }

    /// Occupies the links between PEs until `end`.
    pub(super) fn moves_until(&mut self, end: Time) {
        self.network = self.network.max(end);
    }

    /// Checks whether the units are like `before`, but later by a shift. A unit that was free at
    /// `then` and has not been used since is like before.
    pub(super) fn shifted(&self, before: &Units, by: Time, then: Time) -> bool {
        let alike = |now: Time, before: Time| now == before + by || now == before && before <= then;
        let free = self.free.iter().zip(before.free).all(|(now, before)| alike(*now, before));
        free && alike(self.network, before.network)
    }

    /// Repeats what has happened to the units since they were `before` so many times.
    pub(super) fn repeat(&mut self, before: &Units, times: u64) {
        let more = |now: Time, then: Time| now + now.since(then).times(times);
        for (free, before) in self.free.iter_mut().zip(before.free) {
            *free = more(*free, before);
        }
        self.network = more(self.network, before.network);
    }

    /// Returns the time for which an operation holds each unit. A shared slot is held as long as
    /// either part needs it.
    fn holding_times(&self, times: &[Time; 3]) -> [Time; 3] {
        let [arithmetic, memory, vector] = *times;
        let slot = arithmetic.max(vector);
        if self.shared { [slot, memory, slot] } else { *times }
    }

    /// Returns the unit that an operation requested at `at` would have to wait for.
    pub(super) fn behind(&self, at: Time, times: &[Time; 3]) -> Option<Unit> {
        // For a shared slot, the unit that the operation uses.
        let late = self
            .free
            .iter()
            .zip(self.holding_times(times))
            .zip(times)
            .zip(Unit::ALL)
            .filter(|(((free, held), own), _)| *held > Time::ZERO && **own > Time::ZERO && **free > at);
        late.max_by_key(|(((free, _), _), _)| **free).map(|(_, unit)| unit)
    }

    /// Starts an operation requested at `at` when all units that it needs are free, and holds each
    /// for its time. Returns start, end, and the unit that takes longest.
    pub(super) fn work(&mut self, at: Time, times: &[Time; 3]) -> (Time, Time, Unit) {
        let held = self.holding_times(times);
        let busy = self.free.iter().zip(held).filter(|(_, t)| *t > Time::ZERO).map(|(free, _)| *free);
        let start = busy.fold(at, Time::max);
        for (free, time) in self.free.iter_mut().zip(held) {
            if time > Time::ZERO {
                *free = start + time;
            }
        }
        let mut longest = (Time::ZERO, Unit::Arithmetic);
        for (time, unit) in times.iter().zip(Unit::ALL) {
            if *time > longest.0 {
                longest = (*time, unit);
            }
        }
        (start, start + longest.0, longest.1)
    }
}
