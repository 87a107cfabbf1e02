//! Local work of a program: the arithmetic, memory traffic and vector work that every schedule has
//! on its busiest rank. Each is a row of its own, because a device does all three at the same time.
//!
//! This module defines what counts:
//!
//! * Operations of the program count with their arithmetic and their vector work.
//! * Memory traffic consists of the inputs that operations read and the results that they write,
//!   each once. Values between two operations need not pass through memory.
//! * Copies do not count, because they belong to the schedule.
//! * The additions of a collective count over all its ranks together.
//!
//! If the PEs of a device share its work, the time of a rank is that of its busiest PE. A PE does
//! the part of an operation that it holds of the result. Its memory traffic is what it writes of
//! the results, or an even part of all traffic if that is more. In a program that is timed in
//! pieces, every PE has an even part of everything.

use super::Group;
use super::chain::{each, role};
use kbc_diag::Diagnostics;
use kbc_ir::expr::Expr;
use kbc_ir::schedule::{BufferId, BufferRole, LocalKind, LocalOp, RegionId, Schedule};
use kbc_ir::walk::{Fault, Program};
use kbc_machine::placement::Interior;
use kbc_machine::topology::{DeviceId, Topology};
use kbc_time::{Unit, amounts};
use std::collections::BTreeMap;

/// Limit on the number of operations times the number of ranks that are evaluated.
const LOOKED: u64 = 1 << 18;

/// An operation of the program that computes.
struct Computes<'s> {
    region: RegionId,
    role: usize,
    op: &'s LocalOp,
    /// The inputs that it reads, each with the buffer that holds its elements at that point.
    reads: Vec<(BufferId, BufferId)>,
    /// Whether its sizes are the same on every rank.
    fixed: bool,
}

/// The computations of a program, without its copies.
#[derive(Default)]
struct Computed<'s> {
    all: Vec<Computes<'s>>,
    /// Results that an operation computes.
    results: Vec<BufferId>,
}

impl<'s> Computed<'s> {
    fn of(schedule: &'s Schedule, runs: &dyn Fn(RegionId) -> bool) -> Computed<'s> {
        let mut out = Computed::default();
        // `raw`: the input whose elements alone a buffer holds. `made`: whether an operation
        // computed the content of the buffer.
        let input = |b: BufferId| matches!(schedule.buffer(b).role, BufferRole::Input(_)).then_some(b);
        let buffers = || (0..schedule.buffers.len() as u32).map(BufferId);
        let mut raw: Vec<Option<BufferId>> = buffers().map(input).collect();
        let mut made = vec![false; raw.len()];
        let fixed = |b: &BufferId| schedule.buffer(*b).dims.iter().all(|d| matches!(d, Expr::Int(_)));
        for (i, region) in schedule.regions.iter().enumerate() {
            let id = RegionId(i as u32);
            if !runs(id) {
                continue;
            }
            if !region.over.is_empty() {
                for o in &region.operands {
                    (raw[o.buffer.0 as usize], made[o.buffer.0 as usize]) = (None, false);
                }
                continue;
            }
            for (r, role) in region.roles.iter().enumerate() {
                for stream in &role.streams {
                    each(&stream.body, &mut |op, once| {
                        let (srcs, dst) = (op.srcs(), op.dst().0 as usize);
                        let part = matches!(op.line_block(), Some(b) if b.line == op.dst());
                        if op.kind() == LocalKind::Moves || !once {
                            let from = srcs.first().filter(|_| once && !part).map(|s| s.0 as usize);
                            (raw[dst], made[dst]) = from.map_or((None, false), |s| (raw[s], made[s]));
                            return;
                        }
                        let reads = srcs.iter().filter_map(|s| Some((raw[s.0 as usize]?, *s))).collect();
                        (raw[dst], made[dst]) = (None, true);
                        let fixed = srcs.iter().chain([&op.dst()]).all(fixed);
                        out.all.push(Computes { region: id, role: r, op, reads, fixed });
                    });
                }
            }
        }
        let result = |b: &BufferId| matches!(schedule.buffer(*b).role, BufferRole::Output(_));
        out.results = buffers().filter(|b| result(b) && made[b.0 as usize]).collect();
        out
    }
}

/// Returns the bytes of memory traffic of an operation on those of its operands that are inputs.
fn read(
    program: &Program<'_>,
    op: &Computes<'_>,
    work: [u64; 3],
    rank: u64,
) -> Result<Vec<(BufferId, u64)>, Fault> {
    let bytes = |b: BufferId| -> Result<u64, Fault> {
        Ok(program.elements(b, rank)?.saturating_mul(program.schedule.buffer(b).dtype.bytes()))
    };
    let mut out = vec![];
    // A kernel over tiles may skip a part of its operands.
    let mut most = match op.op {
        LocalOp::Tiles { dst, .. } => work[1].saturating_sub(bytes(*dst)?),
        _ => u64::MAX,
    };
    for (input, held) in &op.reads {
        // The lookups may all read the same row, so a table adds nothing to the bound.
        if matches!(op.op, LocalOp::Embedding { table, .. } if table == held) {
            continue;
        }
        let n = bytes(*held)?.min(most);
        most -= n;
        out.push((*input, n));
    }
    Ok(out)
}

/// Returns the rows of a program: time in ns and name.
pub(super) fn rows(
    schedule: &Schedule,
    program: &Program<'_>,
    topology: &Topology,
    groups: &[&Group],
    (runs, pieces): (&dyn Fn(RegionId) -> bool, bool),
) -> Result<Vec<(f64, &'static str)>, Diagnostics> {
    let settings = topology.settings();
    let rates = [settings.flops(), settings.memory(), settings.vector()];
    if rates.iter().all(|r| *r == f64::INFINITY) {
        return Ok(vec![]);
    }
    let fault = |f: Fault| Diagnostics::from(f.diagnostic(|r| schedule.mesh.show(r)));
    let computed = Computed::of(schedule, runs);
    let ranks = looked(schedule, topology, computed.all.len() as u64);
    let mut all: BTreeMap<u64, [f64; 3]> = BTreeMap::new();
    // Cache for operations that are the same on all ranks.
    let mut same: Vec<Option<([u64; 3], Parts)>> = vec![None; computed.all.len()];
    let parts = |buffer: BufferId, op: Option<&LocalOp>, rank: u64| -> Result<Parts, Diagnostics> {
        if pieces && topology.shares_work() {
            let n = Interior::of(topology).count();
            return Ok((0..n).map(|pe| (pe, 1.0 / f64::from(n))).collect());
        }
        let dims = program.dims(buffer, rank).map_err(fault)?;
        parts_of(topology, schedule.buffer(buffer).name.as_str(), &dims, op)
    };
    for &rank in &ranks {
        let mut sum: BTreeMap<u32, [f64; 3]> = BTreeMap::new();
        let mut written = 0u64;
        let mut inputs: BTreeMap<BufferId, u64> = BTreeMap::new();
        let mut own = (RegionId(u32::MAX), None);
        for (c, same) in computed.all.iter().zip(&mut same) {
            if own.0 != c.region {
                let region = &schedule.regions[c.region.0 as usize];
                own = (c.region, role(program, region, c.region, rank).map_err(fault)?);
            }
            if own.1 != Some(c.role) {
                continue;
            }
            let (work, shares) = match same.take() {
                Some(known) => known,
                None => {
                    let work = amounts(program, c.op, rank).map_err(fault)?;
                    (work, parts(c.op.dst(), Some(c.op), rank)?)
                }
            };
            for (pe, part) in &shares {
                let sum = sum.entry(*pe).or_default();
                sum[0] += work[0] as f64 * part;
                sum[2] += work[2] as f64 * part;
            }
            *same = c.fixed.then_some((work, shares));
            for (input, bytes) in read(program, c, work, rank).map_err(fault)? {
                let most = inputs.entry(input).or_default();
                *most = bytes.max(*most);
            }
        }
        for b in &computed.results {
            let bytes = program.elements(*b, rank).map_err(fault)? * schedule.buffer(*b).dtype.bytes();
            written = written.saturating_add(bytes);
            for (pe, part) in parts(*b, None, rank)? {
                sum.entry(pe).or_default()[1] += bytes as f64 * part;
            }
        }
        let traffic = inputs.values().fold(written, |a, b| a.saturating_add(*b)) as f64;
        let most = |i: usize| sum.values().map(|s| s[i]).fold(0.0, f64::max);
        let pes = if topology.shares_work() { Interior::of(topology).count() } else { 1 };
        let sum = [most(0), most(1).max(traffic / f64::from(pes)), most(2)];
        let slower = topology.pace(DeviceId(rank as u32)).slower;
        all.insert(rank, std::array::from_fn(|i| sum[i] * slower[i] / rates[i] * 1e9));
    }
    let busiest = |i: usize| all.values().map(|t| t[i]).fold(0.0, f64::max);
    let words = |u: Unit| match u {
        Unit::Arithmetic => "arithmetic of the busiest rank",
        Unit::Memory => "memory traffic of the busiest rank",
        Unit::Vector => "vector work of the busiest rank",
    };
    let mut out: Vec<(f64, &str)> =
        Unit::ALL.into_iter().enumerate().map(|(i, u)| (busiest(i), words(u))).collect();
    out.extend(
        together(topology, groups, &all).map(|ns| (ns, "vector work of all ranks of a group together")),
    );
    Ok(out)
}

/// The share of an operation that each PE has.
type Parts = Vec<(u32, f64)>;

/// Returns the share of a tensor of these sizes that each PE of a device holds. It is also the PE's
/// share of an operation with that result, except that one PE runs the whole of a kernel over
/// tiles.
fn parts_of(
    topology: &Topology,
    name: &str,
    dims: &[u64],
    op: Option<&LocalOp>,
) -> Result<Parts, Diagnostics> {
    if !topology.shares_work() {
        return Ok(vec![(0, 1.0)]);
    }
    let placement = topology.placements().of(name).unwrap_or_default();
    let elements = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(1.0, |n, d| n * d as f64);
    let all = elements(&mut dims.iter().copied());
    let mut out: Parts = vec![];
    for (pe, slice) in placement.slices(dims, topology)? {
        let own = elements(&mut slice.iter().map(|r| r.end - r.start));
        if own > 0.0 {
            out.push((pe, own / all));
        }
    }
    if let (Some(LocalOp::Tiles { .. }), Some(first)) = (op, out.first().map(|p| p.0)) {
        return Ok(vec![(first, 1.0)]);
    }
    Ok(out)
}

/// Returns the ranks that are evaluated: all of them, or the first and last ones and those of slow
/// devices.
fn looked(schedule: &Schedule, topology: &Topology, operations: u64) -> Vec<u64> {
    let ranks = schedule.mesh.ranks();
    let most = (LOOKED / operations.max(1)).max(16);
    if ranks <= most {
        return (0..ranks).collect();
    }
    let slow = topology.paces().map(|(d, _)| u64::from(d.0)).take(most as usize);
    let mut out: Vec<u64> = (0..most / 2).chain(ranks - most / 2..ranks).chain(slow).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Returns the least time in ns that the ranks of a group need for their vector work, if the
/// additions of their collectives are spread over them in proportion to their speeds. Returns the
/// largest time of all groups.
fn together(topology: &Topology, groups: &[&Group], own: &BTreeMap<u64, [f64; 3]>) -> Option<f64> {
    let vector = topology.settings().vector();
    if vector == f64::INFINITY {
        return None;
    }
    let mut sums: BTreeMap<Vec<DeviceId>, f64> = BTreeMap::new();
    for g in groups {
        let ranks_add = !topology.settings().switching().reduce;
        let added = match g.problem.kind.reduces() && ranks_add {
            true => (g.problem.group.len() as f64 - 1.0) * g.problem.bytes as f64,
            false => 0.0,
        };
        let mut devices = g.problem.group.clone();
        devices.sort_unstable();
        *sums.entry(devices).or_default() += added;
    }
    let time = |(devices, added): (Vec<DeviceId>, f64)| {
        let slower = |d: &DeviceId| topology.pace(*d).slower[2];
        // Converts the nanoseconds of work of a device at its own pace to bytes.
        let done: f64 = devices
            .iter()
            .filter_map(|d| Some(own.get(&u64::from(d.0))?[2] / slower(d) * vector / 1e9))
            .sum();
        let rate: f64 = devices.iter().map(|d| vector / slower(d)).sum();
        (added + done) / rate * 1e9
    };
    sums.into_iter().map(time).reduce(f64::max)
}
