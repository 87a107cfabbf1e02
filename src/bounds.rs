//! Time against its bound: what a schedule's collectives and the whole of it need at least, on the machine it ran on.
//!
//! Owns which problem a region solves, how bounds of several collectives and of compute combine, and that no time is
//! below one: that is an error of kbc (E990). The rows are [`kbc_ir::bounds`]'s, the time is the engine's.

use kbc_backend_sim::time::{
    Delivery, Held, Observer, Pass, Sent, TimeOptions, Timing, Turn, Woken, Work, simulate, simulate_observed,
};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::Name;
use kbc_ir::bounds::{self, Bound, Problem, Sizes, bound};
use kbc_ir::host::spelled;
use kbc_ir::promise::Promise;
use kbc_ir::promise_terms::terms;
use kbc_ir::schedule::{BufferId, OperandId, Region, RegionId, SOp, SStmt, Schedule};
use kbc_ir::topology::{DeviceId, Topology};
use kbc_ir::types::CutRule;
use kbc_ir::walk::Program;
use std::collections::{BTreeMap, BTreeSet};

/// Bounds of a schedule on a machine.
pub struct Lower {
    /// Of the whole, in ns.
    pub ns: f64,
    /// What it comes from.
    pub bottleneck: String,
    /// Of its collectives that have one.
    pub collectives: Vec<Collective>,
    /// When hosts read what, in that run.
    pub host_reads: Vec<HostReadTime>,
}

/// A collective with its bound.
pub struct Collective {
    /// Its place among the collectives of the schedule.
    pub place: usize,
    /// What it has to do, on the group with the largest bound.
    pub problem: Problem,
    /// The collective, and what it is at least where it is not one of the standard ones.
    pub name: String,
    /// S of the bandwidth conventions; none for collectives that have no convention.
    pub bytes: Option<u64>,
    /// From the first rank that enters to the last that leaves, in ns.
    pub took_ns: Option<f64>,
    /// The bound of that group.
    pub bound: Bound,
}

/// When a host read a buffer: rank, buffer, ns.
pub type HostReadTime = (u64, BufferId, f64);

/// Notes when hosts read; somebody else watches, too.
struct Reads<'a> {
    reads: Vec<HostReadTime>,
    watch: &'a mut dyn Observer,
}

impl Observer for Reads<'_> {
    fn works(&mut self, work: &Work) {
        self.watch.works(work);
    }

    fn host_read(&mut self, rank: u64, buffer: BufferId, ns: f64) {
        self.reads.push((rank, buffer, ns));
        self.watch.host_read(rank, buffer, ns);
    }

    fn delivered(&mut self, message: &Delivery) {
        self.watch.delivered(message);
    }

    fn detail(&self) -> bool {
        self.watch.detail()
    }

    fn turn(&mut self, turn: &Turn) {
        self.watch.turn(turn);
    }

    fn holds(&mut self, held: &Held) {
        self.watch.holds(held);
    }

    fn sent(&mut self, message: &Sent) {
        self.watch.sent(message);
    }

    fn passes(&mut self, pass: &Pass) {
        self.watch.passes(pass);
    }

    fn woken(&mut self, woken: &Woken) {
        self.watch.woken(woken);
    }
}

/// Watches nothing.
pub struct Nobody;

impl Observer for Nobody {}

/// Simulates a schedule, telling an observer that wants details, and computes its bounds on the same machine.
///
/// # Errors
/// Of the engine; E990, a time below its bound.
pub fn timed(
    schedule: &Schedule,
    topology: &Topology,
    options: &TimeOptions,
    watch: &mut dyn Observer,
) -> Result<(Timing, Lower), Diagnostics> {
    let mut reads = Reads { reads: vec![], watch };
    // Who observes is told of every rank, which takes longer where one stands for many.
    let timing = if reads.detail() || schedule.host.is_some() {
        simulate_observed(schedule, topology, options, &mut reads)?
    } else {
        simulate(schedule, topology, options)?
    };
    let compute = timing.ranks.iter().map(|r| r.work_ns).fold(0.0, f64::max);
    let mut lower = against(schedule, topology, &timing, compute)?;
    lower.host_reads = reads.reads;
    Ok((timing, lower))
}

/// The bounds of a schedule that was timed on that machine; `compute` is the local work of the busiest rank in ns.
///
/// # Errors
/// E990: a time is below its bound by more than 1e-9 of it.
pub fn against(
    schedule: &Schedule,
    topology: &Topology,
    timing: &Timing,
    compute: f64,
) -> Result<Lower, Diagnostics> {
    let spelled = spelled(schedule);
    let program = Program::compile(&spelled)?;
    let crowd = timing.links.iter().map(|l| l.messages).max().unwrap_or(0);
    let mut bandwidth: Vec<(String, f64)> = vec![];
    let mut collectives = vec![];
    let mut best = (0.0, "nothing to move".to_owned());
    let mut chain = Chain::of(schedule);
    let mut place = 0;
    for (i, region) in schedule.regions.iter().enumerate() {
        let id = RegionId(i as u32);
        if region.over.is_empty() {
            chain.pass(region, 0.0, false);
            continue;
        }
        place += 1;
        let Some((problem, bytes, found)) = largest(schedule, &program, topology, (region, id), crowd)?
        else {
            chain.pass(region, 0.0, false);
            continue;
        };
        let span = timing.regions.iter().find(|r| r.region == id);
        let took_ns = span.map(|s| s.end_ns - s.start_ns);
        if let Some(took) = took_ns.filter(|t| found.contradicts(*t)) {
            return Err(below(&region.name, took, found.ns).into());
        }
        let name = named(region, &problem);
        // Bounds of one collective after another add up only where they are of all ranks and of the same links: not
        // for what some ranks are done with before others, nor for what takes other links every time.
        let barrier = bytes.is_none() && problem.kind == bounds::CollKind::AllGather;
        let adds = bytes.is_some() || barrier;
        chain.pass(region, if adds { found.latency_ns } else { 0.0 }, barrier);
        if adds {
            let key = format!("{name} over {}", region.over[0]);
            match bandwidth.iter_mut().find(|b| b.0 == key) {
                Some(b) => b.1 += found.bandwidth_ns,
                None => bandwidth.push((key, found.bandwidth_ns)),
            }
        }
        if found.ns > best.0 {
            best = (found.ns, found.bottleneck.clone());
        }
        collectives.push(Collective { place: place - 1, problem, name, bytes, took_ns, bound: found });
    }
    for (what, ns) in bandwidth {
        if ns > best.0 {
            best = (ns, format!("bandwidth of all {what}"));
        }
    }
    if chain.longest() > best.0 {
        best = (chain.longest(), "latency of one collective after another".into());
    }
    if compute > best.0 {
        best = (compute, "compute of the busiest rank".into());
    }
    if best.0 == 0.0 && crowd > 0 {
        best.1 = "nothing limits what moves".into();
    }
    if timing.ns < best.0 * (1.0 - 1e-9) {
        return Err(below(&schedule.name, timing.ns, best.0).into());
    }
    Ok(Lower { ns: best.0, bottleneck: best.1, collectives, host_reads: vec![] })
}

/// The longest chain of latencies in which one collective needs what another made, by buffers. What is only later in the
/// order of the schedule, and needs nothing of the one before, could run beside it.
struct Chain {
    /// When each buffer can hold what it holds, at the earliest.
    buffers: Vec<f64>,
    /// What a barrier on a stream holds up, by stream; and when the last of the stream's operations can be over.
    streams: BTreeMap<Name, (f64, f64)>,
}

impl Chain {
    fn of(schedule: &Schedule) -> Chain {
        Chain { buffers: vec![0.0; schedule.buffers.len()], streams: BTreeMap::new() }
    }

    /// A region that takes at least so long; nothing behind a barrier on its stream starts before it is over.
    fn pass(&mut self, region: &Region, ns: f64, barrier: bool) {
        let Some(stream) = region.roles.first().and_then(|r| r.streams.first()) else { return };
        let (mut held, mut last) = self.streams.get(&stream.name).copied().unwrap_or_default();
        if !region.operands.is_empty() {
            let all = region.operands.iter().map(|o| o.buffer.0 as usize);
            let from = all.clone().map(|b| self.buffers[b]).fold(held, f64::max);
            let from = if barrier { from.max(last) } else { from };
            all.for_each(|b| self.buffers[b] = from + ns);
            last = last.max(from + ns);
            if barrier {
                held = from + ns;
            }
        }
        for stream in region.roles.iter().flat_map(|r| &r.streams) {
            self.local(&stream.body, held, &mut last);
        }
        self.streams.insert(stream.name.clone(), (held, last));
    }

    fn local(&mut self, list: &[SStmt], held: f64, last: &mut f64) {
        for st in list {
            match st {
                SStmt::For { body, .. } => self.local(body, held, last),
                SStmt::If { then, other, .. } => {
                    self.local(then, held, last);
                    self.local(other, held, last);
                }
                SStmt::Op(SOp::Local(op), _) => {
                    let from = op.srcs().iter().map(|b| self.buffers[b.0 as usize]).fold(held, f64::max);
                    let dst = &mut self.buffers[op.dst().0 as usize];
                    // Several operations may write parts of it, or ranks one of them each.
                    *dst = dst.max(from);
                    *last = last.max(from);
                }
                SStmt::Op(..) => {}
            }
        }
    }

    fn longest(&self) -> f64 {
        self.streams.values().map(|s| s.1).fold(0.0, f64::max)
    }
}

fn below(what: &str, time: f64, bound: f64) -> Diagnostic {
    Diagnostic::error("E990", format!("{what} takes {time} ns, below its bound of {bound} ns"))
        .note("one of the two is wrong: an error of kbc, not of the program")
        .help("please report it with the program")
}

/// Groups of a collective whose bounds are computed where they may differ.
const GROUPS: u64 = 64;

/// The problem of the group with the largest bound, S of the bandwidth conventions, and the bound. Where all links and
/// devices are alike the groups are, too.
fn largest(
    schedule: &Schedule,
    program: &Program<'_>,
    topology: &Topology,
    (region, id): (&Region, RegionId),
    crowd: u64,
) -> Result<Option<(Problem, Option<u64>, Bound)>, Diagnostics> {
    let p = schedule.group_size(region);
    let mut best: Option<(Problem, Option<u64>, Bound)> = None;
    let first = |rank: &u64| program.group_rank(id, *rank, 0) == *rank;
    let groups = if topology.is_uniform() { 1 } else { GROUPS };
    for lead in (0..schedule.mesh.ranks()).filter(first).take(groups as usize) {
        let group = (0..p).map(|i| DeviceId(program.group_rank(id, lead, i) as u32)).collect();
        let Some((problem, bytes)) = problem(schedule, program, region, id, group)? else { return Ok(None) };
        let problem = problem.messages(crowd);
        let mut found = bound(topology, &problem).map_err(Diagnostics::from)?;
        if is_barrier(schedule, program, region)? {
            // Its signals have no bytes: what is left is the way of the farthest.
            (found.ns, found.bandwidth_ns, found.slack_ns) = (found.latency_ns, 0.0, 0.0);
        }
        if best.as_ref().is_none_or(|b| found.ns > b.2.ns) {
            best = Some((problem, bytes, found));
        }
    }
    Ok(best)
}

/// The problem a collective region solves on a group, and S of the bandwidth conventions.
fn problem(
    schedule: &Schedule,
    program: &Program<'_>,
    region: &Region,
    id: RegionId,
    group: Vec<DeviceId>,
) -> Result<Option<(Problem, Option<u64>)>, Diagnostics> {
    let Some(promise) = &region.promise else { return Ok(None) };
    let p = schedule.group_size(region);
    let Some(operand) = region.operands.first() else { return Ok(None) };
    let fault = |f: kbc_ir::walk::Fault| Diagnostics::from(f.diagnostic(|r| schedule.mesh.show(r)));
    let mut elements = program.elements(operand.buffer, 0).map_err(fault)?;
    if let CutRule::Lengths(_) = operand.line.rule {
        // The first rank need not have most.
        for r in 1..p {
            let rank = program.group_rank(id, 0, r);
            elements = elements.max(program.elements(operand.buffer, rank).map_err(fault)?);
        }
    }
    let width = schedule.buffer(operand.buffer).dtype.bytes();
    let bytes = elements * width;
    if is_barrier(schedule, program, region)? {
        // A byte of everybody for everybody has the same ways.
        return Ok(Some((Problem::new(bounds::CollKind::AllGather, p, group), None)));
    }
    // The lanes of cores are no blocks.
    let blocks = if matches!(operand.line.rule, CutRule::Lines(_)) { 1 } else { operand.line.parts.max(1) };
    let Some(kind) = bounds::CollKind::from_name(&promise.collective) else {
        return Ok(at_least(promise, bytes / blocks, group).map(|p| (p, None)));
    };
    let mut problem = Problem::new(kind, bytes, group);
    if let Some(root) = promise.root {
        problem = problem.root(root as usize);
    }
    if blocks > 1 && kind == bounds::CollKind::AllToAll {
        problem = problem.sizes(pairs(schedule, program, region, id, width).map_err(fault)?);
    } else if blocks > 1
        && let (Some(extent), Some(unit)) = (operand.line.extent.as_int(), operand.line.unit.as_int())
    {
        let blocks = (0..p)
            .map(|b| {
                let (lo, hi) = (
                    operand.line.rule.boundary(extent as u64, b, p),
                    operand.line.rule.boundary(extent as u64, b + 1, p),
                );
                (hi - lo) * unit as u64 * width
            })
            .collect();
        problem = problem.sizes(Sizes::Blocks(blocks));
    }
    Ok(Some((problem, Some(bytes))))
}

/// Whether a region is there for its signals alone: everybody hears from everybody, of nothing.
fn is_barrier(schedule: &Schedule, program: &Program<'_>, region: &Region) -> Result<bool, Diagnostics> {
    let (Some(promise), Some(operand)) = (&region.promise, region.operands.first()) else { return Ok(false) };
    if promise.collective != *"barrier" || !promise.is_total() {
        return Ok(false);
    }
    let fault = |f: kbc_ir::walk::Fault| Diagnostics::from(f.diagnostic(|r| schedule.mesh.show(r)));
    Ok(program.elements(operand.buffer, 0).map_err(fault)? == 0)
}

/// What a collective is called in what is said of its bound.
fn named(region: &Region, problem: &Problem) -> String {
    let name = region.promise.as_ref().map_or(region.name.as_str(), |p| p.collective.as_str());
    match problem.kind.name() {
        kind if kind == name => name.to_owned(),
        "all_to_all" => name.to_owned(),
        "all_gather" if name == "barrier" => name.to_owned(),
        kind => format!("{name} (a {kind} at least)"),
    }
}

/// Ranks up to which the promise of a collective that is not a standard one is looked at.
const PROMISED: u64 = 1024;

/// What a collective has to do at least, from its promise; `bytes` of a block. Where every block goes to one other rank
/// at most, exactly that; where some rank ends with something of everybody, a reduce to it; otherwise the broadcast of
/// the contribution that most others need.
fn at_least(promise: &Promise, bytes: u64, group: Vec<DeviceId>) -> Option<Problem> {
    let p = group.len();
    if p as u64 > PROMISED {
        return None;
    }
    let mut wanted = vec![0u64; p * p];
    let mut copies: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut once = true;
    // Who needs something of whom.
    let mut needs: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); p];
    for r in 0..p {
        for t in terms(promise, p as u64, r as u64).ok()? {
            once &= !t.reduces || t.from.len() == 1;
            for (q, b) in t.from.into_iter().filter(|(q, _)| *q as usize != r) {
                once &= copies.insert((q, b));
                wanted[q as usize * p + r] += bytes;
                needs[r].insert(q as usize);
            }
        }
    }
    if once {
        let whole = Problem::new(bounds::CollKind::AllToAll, bytes, group);
        return Some(whole.sizes(Sizes::Pairs(wanted)));
    }
    if let Some(r) = (0..p).find(|r| needs[*r].len() + 1 == p) {
        return Some(Problem::new(bounds::CollKind::Reduce, bytes, group).root(r));
    }
    let users = |q: usize| (0..p).filter(|r| needs[*r].contains(&q)).collect::<Vec<_>>();
    let best = (0..p).max_by_key(|q| (users(*q).len(), std::cmp::Reverse(*q)))?;
    let part = std::iter::once(best).chain(users(best)).map(|i| group[i]);
    Some(Problem::new(bounds::CollKind::Broadcast, bytes, part).root(0))
}

/// Bytes every rank has for every other, for an all_to_all.
fn pairs(
    schedule: &Schedule,
    program: &Program<'_>,
    region: &Region,
    id: RegionId,
    width: u64,
) -> Result<Sizes, kbc_ir::walk::Fault> {
    let p = schedule.group_size(region);
    let mut all = vec![];
    for src in 0..p {
        let rank = program.group_rank(id, 0, src);
        let at = |b: u64| program.chunk_start(id, OperandId(0), rank, b as i64, p as i64);
        for dst in 0..p {
            all.push((at(dst + 1)? - at(dst)?) * width);
        }
    }
    Ok(Sizes::Pairs(all))
}
