//! Perturbed runs: times a schedule on perturbed machines with many seeds, and finds the
//! perturbations that matter in the worst run.
//!
//! The module owns the runs and their statistics. Every run is compared with the bound of its own
//! machine. The simulator draws the perturbations.

use crate::bounds::{self, Subject};
use crate::report::{BlameReport, PerturbReport};
use kbc_diag::Diagnostics;
use kbc_ir::schedule::Schedule;
use kbc_machine::topology::perturb::Perturb;
use kbc_machine::topology::{DeviceId, LinkId, Topology};
use kbc_time::TimeOptions;
use kbc_time::perturb::perturbed;
use kbc_time::{Cause, Step, Timing, Unit};
use std::collections::BTreeMap;

/// Times the schedule under every seed.
///
/// # Errors
/// E465, E447 for ranks and links that the machine does not have; of the engine; E990, a time below
/// the bound of the machine of its run.
pub fn runs<'a>(
    subject: impl Into<Subject<'a>>,
    topology: &Topology,
    perturb: &Perturb,
) -> Result<PerturbReport, Diagnostics> {
    let subject = subject.into();
    let bare = TimeOptions { path: false, ..TimeOptions::default() };
    let mut times = vec![];
    for run in 0..perturb.runs {
        let seed = perturb.seed.wrapping_add(run);
        let (timing, _) =
            bounds::timed(subject, &perturbed(topology, perturb, seed)?, &bare, &mut bounds::NoObserver)?;
        times.push((timing.ns, seed));
    }
    // The worst is the first of equal ones.
    let worst = times.iter().copied().reduce(|a, b| if b.0 > a.0 { b } else { a });
    let seed = worst.map_or(perturb.seed, |w| w.1);
    let machine = perturbed(topology, perturb, seed)?;
    let (timing, lower) = bounds::timed(subject, &machine, &TimeOptions::default(), &mut bounds::NoObserver)?;
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(PerturbReport {
        seed: perturb.seed,
        runs: perturb.runs,
        min_ns: rank(&times, 0.0),
        median_ns: rank(&times, 0.5),
        p95_ns: rank(&times, 0.95),
        max_ns: rank(&times, 1.0),
        worst_seed: seed,
        worst_bound_ns: lower.ns,
        ranks: machine.paces().count() as u64,
        links: machine.own_rates().filter(|(id, rate)| topology.rate(*id) != *rate).count() as u64,
        blame: blame(subject.schedule, topology, &machine, &timing),
    })
}

/// The nearest rank: the least time that at least that part of the runs does not exceed.
fn rank(sorted: &[(f64, u64)], part: f64) -> f64 {
    let at = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(at.max(1) - 1).map_or(0.0, |t| t.0)
}

/// Ranks and links shown.
const SHOWN: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Culprit {
    Rank(u64),
    Link(LinkId),
}

/// Nanoseconds of the critical path that are there because of a perturbed rank or link, most first.
fn blame(schedule: &Schedule, topology: &Topology, machine: &Topology, timing: &Timing) -> Vec<BlameReport> {
    let mut all: BTreeMap<Culprit, f64> = BTreeMap::new();
    for step in &timing.path {
        let (culprit, part) = excess(topology, machine, step);
        if part > 0.0 {
            *all.entry(culprit).or_default() += part * (step.end_ns - step.start_ns);
        }
    }
    let mut list: Vec<(Culprit, f64)> = all.into_iter().collect();
    list.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    list.truncate(SHOWN);
    let words = |c| match c {
        Culprit::Rank(r) => format!("rank {}", schedule.mesh.show(r)),
        Culprit::Link(l) => format!("link {}", topology.link_name(l)),
    };
    list.into_iter()
        .map(|(c, ns)| BlameReport {
            what: words(c),
            ns,
            percent: if timing.ns > 0.0 { 100.0 * ns / timing.ns } else { 0.0 },
        })
        .collect()
}

/// Whose a step is, and the part of it that would not be there on the machine without perturbation.
fn excess(topology: &Topology, machine: &Topology, step: &Step) -> (Culprit, f64) {
    let unit = |u: Unit| {
        let slower = machine.pace(DeviceId(step.rank as u32)).slower;
        let place = Unit::ALL.iter().position(|x| *x == u).unwrap_or(0);
        (Culprit::Rank(step.rank), 1.0 - 1.0 / slower[place])
    };
    match step.cause {
        Cause::Late => (Culprit::Rank(step.rank), 1.0),
        Cause::Work(u) | Cause::UnitQueue(u) => unit(u),
        Cause::Preload => unit(Unit::Memory),
        // No perturbation is inside a device.
        Cause::Fetch => (Culprit::Rank(step.rank), 0.0),
        Cause::Latency(l) => {
            let (was, is) = (topology.rate(l).latency_ns, machine.rate(l).latency_ns);
            (Culprit::Link(l), if is > 0.0 { 1.0 - was / is } else { 0.0 })
        }
        Cause::Service(l) | Cause::Queue(l) => {
            (Culprit::Link(l), 1.0 - machine.rate(l).bandwidth / topology.rate(l).bandwidth)
        }
        Cause::MemoryQueue(_)
        | Cause::Memory(_)
        | Cause::Fence
        | Cause::Endpoint
        | Cause::Launch
        | Cause::Acknowledged
        | Cause::Inlet
        | Cause::Drain
        | Cause::Slot(_)
        | Cause::Credit
        | Cause::Poll
        | Cause::CoreQueue
        | Cause::Core
        | Cause::Notify => (Culprit::Rank(step.rank), 0.0),
    }
}
