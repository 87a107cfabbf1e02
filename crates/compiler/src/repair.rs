//! Repair: what failed links cost a program, and its new schedule on the links that are left.
//!
//! The schedule of the whole machine is timed on the machine with the failed links, where messages
//! take other routes. Then the program is compiled again for that machine, proven and timed.

use crate::about::begin;
use crate::analyse;
use crate::build::{Built, build};
use crate::failure::Outcome;
use crate::options::Source;
use crate::report::amounts::{bytes, count, percent, time};
use crate::report::{CollectiveReport, Report};
use crate::watch::Unwatched;
use crate::workspace::Workspace;
use kbc_machine::topology::{Topology, brief};
use kbc_time::TimeOptions;
use serde_json::{Value, json};

/// A program on a machine before and after links failed.
pub struct RepairedProgram {
    /// Names of the failed links.
    failed: Vec<String>,
    /// The machine without them, as text.
    machine: String,
    /// The program on the whole machine.
    before: Report,
    /// The same schedule on the links that are left.
    unchanged: Report,
    /// The program compiled for the links that are left, proven.
    repaired: Report,
}

/// Compiles a program for its machine, and for the machine on which the links `fail` have failed.
///
/// # Errors
/// Of building and timing; E443 if the links that are left do not join all devices; E447 for a link
/// that the machine does not have; of the checker, if the new schedule is wrong.
pub fn repair(workspace: &mut Workspace, source: &Source, fail: &[String]) -> Outcome<RepairedProgram> {
    let whole = build(workspace, source, "default", &mut Unwatched)?;
    let mut of = source.of.clone();
    of.set.extend(fail.iter().map(|link| format!("link {link}: 0 GB/s")));
    let left = build(workspace, &Source { of, ..source.clone() }, "default", &mut Unwatched)?;
    let before = timed(workspace, source, &whole, &whole.topology)?;
    let unchanged = timed(workspace, source, &whole, &left.topology)?;
    let mut repaired = timed(workspace, source, &left, &left.topology)?;
    repaired.verified = Some(analyse::prove(workspace, &left, left.schedule()?)?);
    let known: Vec<_> = whole.topology.failed_links().collect();
    let new = left.topology.failed_links().filter(|l| !known.contains(l));
    Ok(RepairedProgram {
        failed: new.map(|l| left.topology.link_name(l)).collect(),
        machine: left.topology.to_string(),
        before,
        unchanged,
        repaired,
    })
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
    /// Returns the three times of every collective and of the whole in words.
    pub fn text(&self) -> String {
        let mut out = format!(
            "{}: {} on {}\n{} failed: {}\n",
            self.repaired.file,
            self.repaired.program,
            brief(&self.machine),
            count(self.failed.len() as u64, "link"),
            self.failed.join(", ")
        );
        for (i, before) in self.before.collectives.iter().enumerate() {
            let size = bytes(before.bytes);
            out += &format!(
                "{} of {size} over {} ({})\n",
                before.operation,
                before.axis,
                count(before.ranks, "rank")
            );
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
            out += &line("unchanged", self.unchanged.collectives.get(i));
            out += &line("repaired", self.repaired.collectives.get(i));
        }
        let total = |r: &Report| r.time_ns.unwrap_or(0.0);
        let (before, unchanged, repaired) =
            (total(&self.before), total(&self.unchanged), total(&self.repaired));
        let slower = |ns: f64| if before > 0.0 { 100.0 * (ns / before - 1.0) } else { 0.0 };
        let bound = |r: &Report| r.bound_ns.unwrap_or(0.0);
        out += &format!(
            "time: {} before, {} unchanged ({:+.1} %), {} repaired ({:+.1} %)\n",
            time(before),
            time(unchanged),
            slower(unchanged),
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
        json!({
            "schema": 1,
            "command": "repair",
            "ok": true,
            "file": self.repaired.file,
            "failed": self.failed,
            "machine": self.machine,
            "before": one(&self.before),
            "unchanged": one(&self.unchanged),
            "repaired": one(&self.repaired),
            "verified": self.repaired.verified,
        })
    }
}
