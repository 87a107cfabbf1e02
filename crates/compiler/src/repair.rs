//! Repair: what failed links and devices cost a program, and its new schedule on what is left.
//!
//! If only links or switches failed, the schedule of the whole machine is timed on the machine that
//! is left, where messages take other routes. If a device failed, there is no such schedule,
//! because the program has fewer ranks, nor if its messages name a relay that failed. Then the
//! program is compiled again for the machine that is left, proven and timed.

use crate::about::begin;
use crate::analyse;
use crate::build::{Built, build};
use crate::failure::Outcome;
use crate::options::Source;
use crate::report::amounts::{bytes, count, percent, time};
use crate::report::{CollectiveReport, Report};
use crate::watch::Unwatched;
use crate::workspace::Workspace;
use kbc_diag::Diagnostic;
use kbc_ir::schedule::Schedule;
use kbc_ir::visit::{Field, each_field};
use kbc_machine::topology::{DeviceId, FAILED, LinkId, Topology, brief};
use kbc_time::TimeOptions;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A program on a machine before and after links failed.
pub struct RepairedProgram {
    /// Names of the failed devices.
    devices: Vec<String>,
    /// Names of the failed switches and relays.
    nodes: Vec<String>,
    /// Names of the failed links, without those of failed nodes.
    links: Vec<String>,
    /// The routes that the whole machine states and that pass what has failed.
    routes: Vec<String>,
    /// The machine without them, as text.
    machine: String,
    /// The program on the whole machine.
    before: Report,
    /// The same schedule on what is left. None if a device failed, or a relay that its messages
    /// name.
    unchanged: Option<Report>,
    /// The program compiled for what is left, proven.
    repaired: Report,
}

/// Returns the setting of a machine on which something has failed: links, such as `(0)->(1)`, or
/// nodes, such as `(0,1)` or `#0`.
pub fn failure(what: &str) -> String {
    if what.contains('>') { format!("link {what}: 0 GB/s") } else { format!("{FAILED}: {what}") }
}

/// Compiles a program for its machine, and for the machine on which the links and nodes `fail` have
/// failed.
///
/// # Errors
/// Of building and timing; E443 if the links that are left do not join all devices; E447 for a link
/// or node that the machine does not have; of the checker, if the new schedule is wrong.
pub fn repair(workspace: &mut Workspace, source: &Source, fail: &[String]) -> Outcome<RepairedProgram> {
    let whole = build(workspace, source, "default", &mut Unwatched)?;
    let mut of = source.of.clone();
    of.set.extend(fail.iter().map(|what| failure(what)));
    let left = build(workspace, &Source { of, ..source.clone() }, "default", &mut Unwatched)?;
    known_links(&whole.topology, &left.topology)?;
    let before = timed(workspace, source, &whole, &whole.topology)?;
    let same_ranks = whole.topology.device_count() == left.topology.device_count();
    let unchanged = match same_ranks && names_relays_of(whole.schedule()?, &left.topology) {
        true => Some(timed(workspace, source, &whole, &left.topology)?),
        false => None,
    };
    let mut repaired = timed(workspace, source, &left, &left.topology)?;
    repaired.verified = Some(analyse::prove(workspace, &left, left.schedule()?)?);
    let new = |names: fn(&Topology) -> Vec<String>| {
        let known = names(&whole.topology);
        names(&left.topology).into_iter().filter(|n| !known.contains(n)).collect()
    };
    Ok(RepairedProgram {
        devices: new(|t| failed(t, true)),
        nodes: new(|t| failed(t, false)),
        links: new(|t| failed_links(t).collect()),
        routes: lost_routes(&whole.topology, &left.topology),
        machine: left.topology.to_string(),
        before,
        unchanged,
        repaired,
    })
}

/// Checks that all links that have failed on what is left are links of the whole machine. A list of
/// links takes any two nodes: it may state links that have failed.
///
/// # Errors
/// Returns E447 for a link that the whole machine does not have.
fn known_links(whole: &Topology, left: &Topology) -> Result<(), Diagnostic> {
    let known: BTreeSet<String> = (0..whole.link_count())
        .map(|l| whole.link_name(LinkId(l as u32)))
        .chain(failed_links(whole))
        .collect();
    let Some(lost) = failed_links(left).find(|l| !known.contains(l)) else { return Ok(()) };
    let title = format!("{} has no link {lost}", brief(&whole.to_string()));
    Err(Diagnostic::error("E447", title).help("only a link that the machine has can fail"))
}

fn failed_links(topology: &Topology) -> impl Iterator<Item = String> + '_ {
    topology.failed_links().map(|l| topology.link_name(l))
}

/// Whether a machine has all relays that the messages of a schedule name.
fn names_relays_of(schedule: &Schedule, topology: &Topology) -> bool {
    let mut all = true;
    each_field(schedule, &mut |_, field| {
        if let Field::Via(via) = field {
            all &= topology.check_relays(via.relays()).is_ok();
        }
    });
    all
}

/// Returns the names of the failed devices of a machine, or of its other failed nodes.
fn failed(topology: &Topology, devices: bool) -> Vec<String> {
    let whole = topology.whole();
    let is_device = |n: &DeviceId| (n.0 as usize) < whole.device_count();
    topology.failed_nodes().filter(|n| is_device(n) == devices).map(|n| whole.name(n)).collect()
}

/// Returns the routes that a machine states and what is left of it does not.
fn lost_routes(whole: &Topology, left: &Topology) -> Vec<String> {
    let names = |t: &Topology| t.stated_routes().map(|(_, _, links)| t.route_name(links)).collect::<Vec<_>>();
    let kept = names(left);
    names(whole).into_iter().filter(|n| !kept.contains(n)).collect()
}

/// Times the schedule of a program on a machine.
fn timed(workspace: &Workspace, source: &Source, built: &Built, topology: &Topology) -> Outcome<Report> {
    let schedule = built.schedule()?;
    let mut report = begin("repair", &source.file, built, schedule);
    let options = TimeOptions { path: false, ..TimeOptions::default() };
    analyse::time(workspace, &mut report, built.subject(schedule), topology, &options)?;
    Ok(report)
}

impl RepairedProgram {
    /// Why there is no unchanged schedule.
    fn gone(&self) -> &'static str {
        match self.devices.is_empty() {
            true => "its messages name relays that failed",
            false => "the ranks of failed devices are gone",
        }
    }

    /// Returns the three times of every collective and of the whole in words.
    pub fn text(&self) -> String {
        let mut out =
            format!("{}: {} on {}\n", self.repaired.file, self.repaired.program, brief(&self.machine));
        for (names, what) in [(&self.devices, "device"), (&self.nodes, "node"), (&self.links, "link")] {
            if !names.is_empty() {
                out += &format!("{} failed: {}\n", count(names.len() as u64, what), names.join(", "));
            }
        }
        if !self.routes.is_empty() {
            let routes = count(self.routes.len() as u64, "stated route");
            out += &format!("{routes} lost: {}\n", self.routes.join(", "));
        }
        for (i, before) in self.before.collectives.iter().enumerate() {
            let size = bytes(before.bytes);
            let ranks = match self.repaired.collectives.get(i).map(|c| c.ranks) {
                Some(left) if left != before.ranks => {
                    format!("{}, now {left}", count(before.ranks, "rank"))
                }
                _ => count(before.ranks, "rank"),
            };
            out += &format!("{} of {size} over {} ({ranks})\n", before.operation, before.axis);
            let line = |what: &str, c: Option<&CollectiveReport>| {
                let Some(c) = c else { return String::new() };
                let ns = c.time_ns.map_or_else(|| "-".to_owned(), time);
                let named = if c.asked { ", named by the program" } else { "" };
                format!(
                    "  {what:<10} {ns:>12}, {} of the bound: {}{named}\n",
                    percent(c.percent),
                    c.algorithm
                )
            };
            out += &line("before", Some(before));
            out += &match &self.unchanged {
                Some(unchanged) => line("unchanged", unchanged.collectives.get(i)),
                None => format!("  {:<10} {:>12}, {}\n", "unchanged", "-", self.gone()),
            };
            out += &line("repaired", self.repaired.collectives.get(i));
        }
        let total = |r: &Report| r.time_ns.unwrap_or(0.0);
        let (before, repaired) = (total(&self.before), total(&self.repaired));
        let slower = |ns: f64| if before > 0.0 { 100.0 * (ns / before - 1.0) } else { 0.0 };
        let bound = |r: &Report| r.bound_ns.unwrap_or(0.0);
        let unchanged = match &self.unchanged {
            Some(r) => format!("{} unchanged ({:+.1} %), ", time(total(r)), slower(total(r))),
            None => String::new(),
        };
        out += &format!(
            "time: {} before, {unchanged}{} repaired ({:+.1} %)\n",
            time(before),
            time(repaired),
            slower(repaired)
        );
        out += &format!("bound: {} before, {} now\n", time(bound(&self.before)), time(bound(&self.repaired)));
        out + "the new schedule is race-free, deadlock-free and correct\n"
    }

    /// Returns the same as JSON.
    pub fn json(&self) -> Value {
        let one = |r: &Report| {
            let collective = |c: &CollectiveReport| {
                json!({
                    "operation": c.operation,
                    "axis": c.axis,
                    "algorithm": c.algorithm,
                    "asked": c.asked,
                    "time_ns": c.time_ns,
                    "bound_ns": c.bound_ns,
                })
            };
            json!({
                "time_ns": r.time_ns,
                "bound_ns": r.bound_ns,
                "percent": r.percent,
                "collectives": r.collectives.iter().map(collective).collect::<Value>(),
            })
        };
        let failed: Vec<&String> = self.devices.iter().chain(&self.nodes).chain(&self.links).collect();
        json!({
            "schema": 1,
            "command": "repair",
            "ok": true,
            "file": self.repaired.file,
            "failed": failed,
            "routes_lost": self.routes,
            "machine": self.machine,
            "before": one(&self.before),
            "unchanged": self.unchanged.as_ref().map(one),
            "repaired": one(&self.repaired),
            "verified": self.repaired.verified,
        })
    }
}
