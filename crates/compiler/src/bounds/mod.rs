//! Lower bounds of timed programs: the least time that a program needs on its machine, whatever its
//! schedule.
//!
//! This module combines the rows of a program by their maximum, never their sum
//! (`docs/adr/054-bounds-of-programs.md`), and reports a time below a bound as an internal error of
//! kbc (E990).
//!
//! The bound belongs to the program as written: its values and its collectives under their
//! placements. It uses only the facts of a schedule that all schedules of the program share:
//! problems, inputs, results and operations. It is therefore one number, whatever algorithms are
//! chosen and whatever operations overlap. The rows of one collective come from
//! [`kbc_machine::bounds`], the time from the event engine.

mod chain;
mod problem;
mod work;

use crate::proof::proof;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{BufferId, Region, RegionId, Schedule};
use kbc_ir::walk::Program;
use kbc_machine::bounds::{Bound, Problem, bound, together};
use kbc_machine::topology::{DeviceId, Topology};
pub use kbc_passes::packed::certified_ns;
use kbc_time::{
    Delivery, Observer, OpHeld, Pass, Sent, StepReached, TimeOptions, Timing, Woken, Work, simulate,
    simulate_observed,
};
use problem::{is_barrier, named, problem};
use std::collections::BTreeSet;

/// Bounds of a schedule on a machine.
pub struct Lower {
    /// The bound of the whole program, in ns.
    pub ns: f64,
    /// The row that gives this bound.
    pub bottleneck: String,
    /// The collectives that have a bound.
    pub collectives: Vec<Collective>,
    /// The times at which hosts read buffers in the timed run.
    pub host_reads: Vec<HostReadTime>,
}

/// A collective with its bound.
pub struct Collective {
    /// Index among the collectives of the schedule.
    pub place: usize,
    /// The problem that it solves, on the group with the largest bound.
    pub problem: Problem,
    /// Name of the collective. For a user-defined collective, it includes the standard collective
    /// that is a lower limit of it.
    pub name: String,
    /// S of the bandwidth conventions; `None` for collectives that have no convention.
    pub bytes: Option<u64>,
    /// Time from the first rank that enters to the last that leaves, in ns.
    pub took_ns: Option<f64>,
    /// The bound of that group.
    pub bound: Bound,
}

/// A host's read of a buffer: rank, buffer, time in ns.
pub type HostReadTime = (u64, BufferId, f64);

/// A schedule to time, with the program to which its bound belongs.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The schedule that is timed.
    pub schedule: &'a Schedule,
    /// The same program with its collectives whole and one after another. It is the schedule itself
    /// if nothing overlaps.
    pub plain: &'a Schedule,
}

impl<'a> From<&'a Schedule> for Subject<'a> {
    fn from(schedule: &'a Schedule) -> Self {
        Subject { schedule, plain: schedule }
    }
}

/// Records when hosts read, and forwards all events to another observer.
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

    fn turn(&mut self, turn: &StepReached) {
        self.watch.turn(turn);
    }

    fn holds(&mut self, held: &OpHeld) {
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

/// An observer that ignores all events.
pub struct NoObserver;

impl Observer for NoObserver {}

/// Simulates a schedule, with details for an observer that asks for them, and computes its bounds
/// on the same machine.
///
/// # Errors
/// Returns the errors of the engine, and E990 for a time below its bound.
pub fn timed<'a>(
    subject: impl Into<Subject<'a>>,
    topology: &Topology,
    options: &TimeOptions,
    watch: &mut dyn Observer,
) -> Result<(Timing, Lower), Diagnostics> {
    let subject = subject.into();
    let schedule = subject.schedule;
    let mut reads = Reads { reads: vec![], watch };
    // Observed runs report every rank, which takes longer on machines where one rank can stand for
    // many.
    let timing = if reads.detail() || schedule.host.is_some() {
        simulate_observed(schedule, topology, options, &mut reads)?
    } else {
        simulate(schedule, topology, options)?
    };
    let mut lower = against(subject, topology, &timing)?;
    lower.host_reads = reads.reads;
    Ok((timing, lower))
}

/// Returns the bounds of a schedule that was timed on that machine.
///
/// # Errors
/// Returns E990 if a time is below its bound by more than 1e-9 of the bound. If the schedule itself
/// is wrong, returns the checker's errors instead.
pub fn against<'a>(
    subject: impl Into<Subject<'a>>,
    topology: &Topology,
    timing: &Timing,
) -> Result<Lower, Diagnostics> {
    let Subject { schedule, plain } = subject.into();
    // Regions that a host does not launch take no time.
    let launched: BTreeSet<RegionId> = timing.regions.iter().map(|r| r.region).collect();
    let runs = |s: &Schedule, id: RegionId| s.host.is_none() || launched.contains(&id);
    let found = needs(schedule, topology, &|id| runs(schedule, id))?;
    for (region, took) in timing.regions.iter().map(|r| (r.region, r.end_ns - r.start_ns)) {
        let Some(own) = found.iter().find(|n| n.id == region).and_then(RegionProblem::largest) else {
            continue;
        };
        if own.bound.contradicts(took) {
            return Err(below(schedule, &schedule.regions[region.0 as usize].name, took, own.bound.ns));
        }
    }
    let (ns, mut bottleneck) = if std::ptr::eq(schedule, plain) {
        program_bound(schedule, topology, &found, &|id| runs(schedule, id), false)?
    } else {
        program_bound(plain, topology, &needs(plain, topology, &|_| true)?, &|_| true, true)?
    };
    if ns == 0.0 {
        let moved = timing.links.iter().any(|l| l.messages > 0);
        bottleneck = if moved { "no link limits the transfers" } else { "no data to move" }.to_owned();
    }
    if timing.ns < ns * (1.0 - 1e-9) {
        return Err(below(schedule, &schedule.name, timing.ns, ns));
    }
    let took = |id: RegionId| timing.regions.iter().find(|r| r.region == id).map(|r| r.end_ns - r.start_ns);
    let collectives = found.into_iter().filter_map(|need| {
        let RegionProblem { id, place, .. } = need;
        let Group { problem, bytes, bound } = need.into_largest()?;
        let name = named(&schedule.regions[id.0 as usize], &problem);
        Some(Collective { place, problem, name, bytes, took_ns: took(id), bound })
    });
    Ok(Lower { ns, bottleneck, collectives: collectives.collect(), host_reads: vec![] })
}

/// Returns the bound of a program and its origin: the largest of its rows. `pieces` states that the
/// timed schedule cuts its tensors into pieces, which the PEs of a device share in another way.
fn program_bound(
    schedule: &Schedule,
    topology: &Topology,
    needs: &[RegionProblem],
    runs: &dyn Fn(RegionId) -> bool,
    pieces: bool,
) -> Result<(f64, String), Diagnostics> {
    let spelled = with_host_region(schedule);
    let program = Program::compile(&spelled)?;
    let mut best = (0.0, "no data to move".to_owned());
    let mut offer = |ns: f64, what: &dyn Fn() -> String| {
        // Of rows that differ only in the last bits, the first is kept.
        if ns > best.0 * (1.0 + 1e-12) {
            best = (ns, what());
        }
    };
    let groups: Vec<&Group> = needs.iter().flat_map(|n| &n.groups).collect();
    for g in &groups {
        offer(g.bound.ns, &|| g.bound.bottleneck.clone());
    }
    let pairs: Vec<(&Problem, &Bound)> = groups.iter().map(|g| (&g.problem, &g.bound)).collect();
    let (ns, what) = together(topology, &pairs);
    offer(ns, &|| what.clone());
    offer(chain::longest(schedule, &program, topology, needs)?, &|| {
        "latency of the chain of collectives".to_owned()
    });
    for (ns, what) in work::rows(schedule, &program, topology, &groups, (runs, pieces))? {
        offer(ns, &|| what.to_owned());
    }
    Ok(best)
}

/// The problem that a collective region of a schedule solves.
struct RegionProblem {
    /// The region.
    id: RegionId,
    /// Index among the collectives.
    place: usize,
    /// Its groups, or the first of them.
    groups: Vec<Group>,
}

/// A group of a collective.
struct Group {
    problem: Problem,
    /// S of the bandwidth conventions.
    bytes: Option<u64>,
    bound: Bound,
}

impl RegionProblem {
    fn place_of_largest(&self) -> Option<usize> {
        let ns = |i: usize| self.groups[i].bound.ns;
        (0..self.groups.len()).reduce(|a, b| if ns(b) > ns(a) { b } else { a })
    }

    /// Returns the group with the largest bound.
    fn largest(&self) -> Option<&Group> {
        self.place_of_largest().map(|i| &self.groups[i])
    }

    fn into_largest(mut self) -> Option<Group> {
        self.place_of_largest().map(|i| self.groups.swap_remove(i))
    }
}

/// Number of groups of a collective whose bounds are computed, if they may differ.
const GROUPS: u64 = 64;

/// Returns the problems of all collectives with their bounds. A collective whose contract gives no
/// bound has no groups.
fn needs(
    schedule: &Schedule,
    topology: &Topology,
    runs: &dyn Fn(RegionId) -> bool,
) -> Result<Vec<RegionProblem>, Diagnostics> {
    let spelled = with_host_region(schedule);
    let program = Program::compile(&spelled)?;
    let collectives = schedule.regions.iter().enumerate().filter(|(_, r)| !r.over.is_empty());
    let mut out = vec![];
    for (place, (i, region)) in collectives.enumerate() {
        let id = RegionId(i as u32);
        if runs(id) {
            out.push(RegionProblem {
                id,
                place,
                groups: groups(schedule, &program, topology, (region, id))?,
            });
        }
    }
    Ok(out)
}

/// Returns the groups of a collective with their bounds. If all links and devices are alike, so are
/// the groups, and the first stands for all.
fn groups(
    schedule: &Schedule,
    program: &Program<'_>,
    topology: &Topology,
    (region, id): (&Region, RegionId),
) -> Result<Vec<Group>, Diagnostics> {
    let p = schedule.group_size(region);
    let barrier = is_barrier(region);
    let first = |rank: &u64| program.group_rank(id, *rank, 0) == *rank;
    let groups = if topology.is_uniform() { 1 } else { GROUPS };
    let mut out = vec![];
    for lead in (0..schedule.mesh.ranks()).filter(first).take(groups as usize) {
        let group = (0..p).map(|i| DeviceId(program.group_rank(id, lead, i) as u32)).collect();
        let Some((problem, bytes)) = problem(schedule, program, region, id, group)? else {
            return Ok(vec![]);
        };
        let mut bound = bound(topology, &problem).map_err(Diagnostics::from)?;
        if barrier {
            // The signals of a barrier have no bytes, so only the latency of the farthest rank is
            // left.
            (bound.ns, bound.bandwidth_ns, bound.slack_ns) = (bound.latency_ns, 0.0, 0.0);
        }
        out.push(Group { problem, bytes, bound });
    }
    Ok(out)
}

/// Returns the errors for a time below a bound: the checker's if the schedule is wrong and breaks
/// its contract, otherwise an internal error of kbc.
fn below(schedule: &Schedule, what: &str, time: f64, bound: f64) -> Diagnostics {
    if let Err(own) = proof(schedule) {
        return own;
    }
    Diagnostic::error("E990", format!("{what} takes {time} ns, which is below its bound of {bound} ns"))
        .note("one of the two is wrong; this is an error of kbc, not of the program")
        .help("please report it with the program")
        .into()
}
