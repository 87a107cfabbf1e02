//! `kbc explain bound`: the rows of the lower bound of every collective, and the partition that
//! gives the bound.
//!
//! The module owns the words. The partition is evaluated again from the links when it is printed.

use crate::bounds::{Collective, NoObserver, timed};
use crate::build::Built;
use crate::failure::Outcome;
use crate::report::amounts::{bytes, count, time};
use kbc_machine::bounds::{CollKind, evaluate};
use kbc_machine::topology::{Dimension, Quantity, Topology};
use kbc_time::TimeOptions;
use serde_json::{Value, json};

/// Largest number of ranks for which every part is listed.
const LISTED: usize = 64;

/// Prints the bounds of the collectives of a program on its machine, and of the whole program.
///
/// # Errors
/// Returns the errors of the engine, and E990.
pub fn of(built: &Built) -> Outcome<String> {
    let Some(schedule) = built.module.schedule() else { return Ok("no schedule\n".into()) };
    let options = TimeOptions { path: false, ..TimeOptions::default() };
    let (timing, lower) = timed(built.subject(schedule), &built.topology, &options, &mut NoObserver)?;
    let mut out = String::new();
    for c in &lower.collectives {
        out += &collective(&built.topology, c);
    }
    out += &format!(
        "{}: bound {}, time {}; {}\n",
        schedule.name,
        time(lower.ns),
        time(timing.ns),
        lower.bottleneck
    );
    Ok(out)
}

/// Returns the same bounds as JSON.
///
/// # Errors
/// As [`of`].
pub fn json(built: &Built) -> Outcome<Value> {
    let Some(schedule) = built.module.schedule() else { return Ok(json!({ "collectives": [] })) };
    let options = TimeOptions { path: false, ..TimeOptions::default() };
    let (timing, lower) = timed(built.subject(schedule), &built.topology, &options, &mut NoObserver)?;
    // The bandwidth out of each part of the partition.
    let leaving = |c: &Collective| evaluate(&built.topology, &c.problem, &c.bound.partition).map(|l| l.0);
    let one = |c: &Collective| {
        let b = &c.bound;
        let part = |part: &Vec<_>| part.iter().map(|&d| built.topology.name(d)).collect::<Vec<_>>();
        json!({
            "name": c.name,
            "bytes": c.problem.bytes,
            "ranks": c.problem.group.len(),
            "bound_ns": b.ns,
            "bottleneck": b.bottleneck,
            "latency_ns": b.latency_ns,
            "hops": b.hops,
            "reduction_ns": b.reduction_ns,
            "bandwidth_ns": b.bandwidth_ns,
            "bandwidth_bottleneck": b.bandwidth_bottleneck,
            "bandwidth_method": b.method.words(),
            "slack_ns": b.slack_ns,
            "exact": b.exact,
            "partition": b.partition.iter().map(part).collect::<Vec<_>>(),
            "leaving_bytes_per_second": leaving(c),
        })
    };
    Ok(json!({
        "program": schedule.name.to_string(),
        "bound_ns": lower.ns,
        "time_ns": timing.ns,
        "bottleneck": lower.bottleneck,
        "collectives": lower.collectives.iter().map(one).collect::<Vec<_>>(),
    }))
}

/// Returns a rate in a readable form.
fn rate(per_second: f64) -> String {
    // Twelve digits, so that rounding errors of sums are not shown.
    let amount = format!("{per_second:.11e}").parse().unwrap_or(per_second);
    Quantity { amount, dimension: Dimension::BytesPerSecond }.to_string()
}

fn collective(topology: &Topology, c: &Collective) -> String {
    let (b, p) = (&c.bound, c.problem.group.len());
    let mut out = format!(
        "{} of {} on {}: bound {}; {}\n",
        c.name,
        bytes(c.problem.bytes),
        count(p as u64, "rank"),
        time(b.ns),
        b.bottleneck
    );
    let mut row =
        |name: &str, ns: f64, words: &str| out += &format!("  {name:<10} {:>12}  {words}\n", time(ns));
    if b.partition.is_empty() {
        row("nothing", 0.0, "there is no data to move");
        return out;
    }
    let endpoint = topology.settings().endpoint_ns();
    let start = if endpoint > 0.0 && b.hops > 0 { " and an endpoint" } else { "" };
    row("latency", b.latency_ns, &format!("{}{start}", count(u64::from(b.hops), "hop")));
    if b.reduction_ns > 0.0 {
        row("reduction", b.reduction_ns, "on every device");
    }
    if b.bandwidth_ns == 0.0 && b.slack_ns == 0.0 && c.problem.bytes > 0 {
        row("bandwidth", 0.0, "no link between the ranks limits it");
        return out;
    }
    row("bandwidth", b.bandwidth_ns, &format!("{}; {}", b.bandwidth_bottleneck, b.method.words()));
    if b.slack_ns > 0.0 {
        let less = format!("-{}", time(b.slack_ns));
        out += &format!("  {:<10} {less:>12}  of this: the part that rounding down may remove\n", "");
    }
    let k = b.partition.len();
    let Some((leaving, ns)) = evaluate(topology, &c.problem, &b.partition) else { return out };
    let formula = match (c.problem.kind, k) {
        (CollKind::AllReduce, 2) => {
            "the larger of n / the smallest and 2 (k - 1) n / the sum of the bandwidths out of the parts"
                .to_owned()
        }
        (CollKind::AllReduce, _) => {
            format!("2 (k - 1) n / the sum of the bandwidths out of the parts, k = {k}")
        }
        _ => "data that must leave the first part / bandwidth out of it".to_owned(),
    };
    out += &format!("  partition into {}: {} = {formula}\n", count(k as u64, "part"), time(ns));
    if p > LISTED {
        return out;
    }
    for (part, leaving) in b.partition.iter().zip(leaving) {
        let names: Vec<String> = part.iter().map(|&d| topology.name(d)).collect();
        out += &format!("    {:>12} leave {{{}}}\n", rate(leaving), names.join(", "));
    }
    out
}
