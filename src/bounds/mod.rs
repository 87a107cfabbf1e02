//! Time against its bound: what a program needs at least on the machine it ran on, whatever its schedule.
//!
//! Owns how the rows of a program combine (the maximum, never the sum: docs/adr/054-bounds-of-programs.md), and that no time is below one: that
//! is an error of kbc (E990). A bound is of what is asked for, a program's values and collectives under their placements, and
//! reads of a schedule what every schedule of it has: problems, inputs, results, operations of the program. So it is one
//! number whatever algorithm is chosen and whatever runs beside what. Rows of one collective are [`kbc_machine::bounds`]'s, the
//! time is the engine's.

mod chain;
mod problem;
mod work;

use crate::analyse;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::host::spelled;
use kbc_ir::schedule::{BufferId, Region, RegionId, Schedule};
use kbc_ir::walk::Program;
use kbc_machine::bounds::{Bound, Problem, bound, together};
use kbc_machine::topology::{DeviceId, Topology};
use kbc_time::{
    Delivery, Held, Observer, Pass, Sent, TimeOptions, Timing, Turn, Woken, Work, simulate, simulate_observed,
};
use problem::{is_barrier, named, problem};
use std::collections::BTreeSet;

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

/// What is timed, and what it is a schedule of.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// What is timed.
    pub schedule: &'a Schedule,
    /// The same program with its collectives whole and one after another: where nothing runs beside anything, the schedule
    /// itself.
    pub plain: &'a Schedule,
}

impl<'a> From<&'a Schedule> for Subject<'a> {
    fn from(schedule: &'a Schedule) -> Self {
        Subject { schedule, plain: schedule }
    }
}

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
pub fn timed<'a>(
    subject: impl Into<Subject<'a>>,
    topology: &Topology,
    options: &TimeOptions,
    watch: &mut dyn Observer,
) -> Result<(Timing, Lower), Diagnostics> {
    let subject = subject.into();
    let schedule = subject.schedule;
    let mut reads = Reads { reads: vec![], watch };
    // Who observes is told of every rank, which takes longer where one stands for many.
    let timing = if reads.detail() || schedule.host.is_some() {
        simulate_observed(schedule, topology, options, &mut reads)?
    } else {
        simulate(schedule, topology, options)?
    };
    let mut lower = against(subject, topology, &timing)?;
    lower.host_reads = reads.reads;
    Ok((timing, lower))
}

/// The bounds of a schedule that was timed on that machine.
///
/// # Errors
/// E990: a time is below its bound by more than 1e-9 of it, or what is wrong with the schedule, if it is.
pub fn against<'a>(
    subject: impl Into<Subject<'a>>,
    topology: &Topology,
    timing: &Timing,
) -> Result<Lower, Diagnostics> {
    let Subject { schedule, plain } = subject.into();
    // What a host does not launch takes no time.
    let launched: BTreeSet<RegionId> = timing.regions.iter().map(|r| r.region).collect();
    let runs = |s: &Schedule, id: RegionId| s.host.is_none() || launched.contains(&id);
    let found = needs(schedule, topology, &|id| runs(schedule, id))?;
    for (region, took) in timing.regions.iter().map(|r| (r.region, r.end_ns - r.start_ns)) {
        let Some(own) = found.iter().find(|n| n.id == region).and_then(Need::largest) else { continue };
        if own.bound.contradicts(took) {
            return Err(below(schedule, &schedule.regions[region.0 as usize].name, took, own.bound.ns));
        }
    }
    let (ns, mut bottleneck) = if std::ptr::eq(schedule, plain) {
        whole(schedule, topology, &found, &|id| runs(schedule, id), false)?
    } else {
        whole(plain, topology, &needs(plain, topology, &|_| true)?, &|_| true, true)?
    };
    if ns == 0.0 {
        let moved = timing.links.iter().any(|l| l.messages > 0);
        bottleneck = if moved { "nothing limits what moves" } else { "nothing to move" }.to_owned();
    }
    if timing.ns < ns * (1.0 - 1e-9) {
        return Err(below(schedule, &schedule.name, timing.ns, ns));
    }
    let took = |id: RegionId| timing.regions.iter().find(|r| r.region == id).map(|r| r.end_ns - r.start_ns);
    let collectives = found.into_iter().filter_map(|need| {
        let Need { id, place, .. } = need;
        let Group { problem, bytes, bound } = need.into_largest()?;
        let name = named(&schedule.regions[id.0 as usize], &problem);
        Some(Collective { place, problem, name, bytes, took_ns: took(id), bound })
    });
    Ok(Lower { ns, bottleneck, collectives: collectives.collect(), host_reads: vec![] })
}

/// The bound of a program, and what it comes from: the largest of its rows. `pieces`: what is timed has its tensors in pieces,
/// which the PEs of a device share in another way.
fn whole(
    schedule: &Schedule,
    topology: &Topology,
    needs: &[Need],
    runs: &dyn Fn(RegionId) -> bool,
    pieces: bool,
) -> Result<(f64, String), Diagnostics> {
    let spelled = spelled(schedule);
    let program = Program::compile(&spelled)?;
    let mut best = (0.0, "nothing to move".to_owned());
    let mut offer = |ns: f64, what: &dyn Fn() -> String| {
        // Equal rows that differ in the last bits stay with the first.
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
        "latency of one collective after another".to_owned()
    });
    for (ns, what) in work::rows(schedule, &program, topology, &groups, (runs, pieces))? {
        offer(ns, &|| what.to_owned());
    }
    Ok(best)
}

/// What a collective region of a schedule has to do.
struct Need {
    /// The region.
    id: RegionId,
    /// Its place among the collectives.
    place: usize,
    /// Its groups, or those that are looked at.
    groups: Vec<Group>,
}

/// A group of a collective.
struct Group {
    problem: Problem,
    /// S of the bandwidth conventions.
    bytes: Option<u64>,
    bound: Bound,
}

impl Need {
    fn place_of_largest(&self) -> Option<usize> {
        let ns = |i: usize| self.groups[i].bound.ns;
        (0..self.groups.len()).reduce(|a, b| if ns(b) > ns(a) { b } else { a })
    }

    /// The group with the largest bound.
    fn largest(&self) -> Option<&Group> {
        self.place_of_largest().map(|i| &self.groups[i])
    }

    fn into_largest(mut self) -> Option<Group> {
        self.place_of_largest().map(|i| self.groups.swap_remove(i))
    }
}

/// Groups of a collective whose bounds are computed where they may differ.
const GROUPS: u64 = 64;

/// What all collectives have to do, and their bounds; without those whose promise says too little.
fn needs(
    schedule: &Schedule,
    topology: &Topology,
    runs: &dyn Fn(RegionId) -> bool,
) -> Result<Vec<Need>, Diagnostics> {
    let spelled = spelled(schedule);
    let program = Program::compile(&spelled)?;
    let collectives = schedule.regions.iter().enumerate().filter(|(_, r)| !r.over.is_empty());
    let mut out = vec![];
    for (place, (i, region)) in collectives.enumerate() {
        let id = RegionId(i as u32);
        if runs(id) {
            out.push(Need { id, place, groups: groups(schedule, &program, topology, (region, id))? });
        }
    }
    Ok(out)
}

/// The groups of a collective with their bounds. Where all links and devices are alike the groups are, too, and the first
/// stands for all.
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
            // Its signals have no bytes: what is left is the way of the farthest.
            (bound.ns, bound.bandwidth_ns, bound.slack_ns) = (bound.latency_ns, 0.0, 0.0);
        }
        out.push(Group { problem, bytes, bound });
    }
    Ok(out)
}

/// What is said of a time below a bound: an error of kbc, unless the schedule is wrong and leaves out what it promises.
fn below(schedule: &Schedule, what: &str, time: f64, bound: f64) -> Diagnostics {
    if let Err(own) = analyse::verify(schedule) {
        return own;
    }
    Diagnostic::error("E990", format!("{what} takes {time} ns, below its bound of {bound} ns"))
        .note("one of the two is wrong: an error of kbc, not of the program")
        .help("please report it with the program")
        .into()
}
