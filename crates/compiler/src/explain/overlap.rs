//! `kbc explain overlap`: which operations run in parallel, which matmuls are split together with
//! their collective, and why.

use crate::build::Built;
use crate::report::amounts::{count, time};
use kbc_passes::findings::overlap::ExaminedCollective;
use serde_json::{Value, json};

/// Returns the table of a program.
pub fn text(built: &Built) -> String {
    let table = &built.overlap;
    if built.local.is_some() {
        return match table.streams {
            true => {
                "on streams: operations between a collective and its `wait` run in parallel with it\n".into()
            }
            false => {
                "one after another: there are no operations before a `wait`, or there are several parts\n"
                    .into()
            }
        };
    }
    if table.looked.is_empty() {
        return "no collective\n".into();
    }
    let mut out = String::new();
    for l in &table.looked {
        out += &one(l);
    }
    for t in &table.tried {
        out += &row(&format!("{} per group of axes", count(t.streams, "stream")), t.estimated, t.simulated);
    }
    let streams = match table.width {
        0 | 1 => "on streams".to_owned(),
        width => format!("on {width} streams per group of axes"),
    };
    // Simulated times are better than estimated ones.
    let of = |(serial, beside): (f64, f64), how| (time(serial), time(beside), how);
    let times = table.simulated.map(|t| of(t, "simulated"));
    out += &match (table.streams, times.or_else(|| table.estimated.map(|t| of(t, "estimated")))) {
        (true, Some((s, b, how))) => format!("{streams}: {b} {how} instead of {s}\n"),
        (true, None) => format!("{streams}\n"),
        (false, Some((s, b, how))) => {
            format!("one after another: {s} {how}; on streams it would be {b}\n")
        }
        (false, None) if table.host => "one after another: host statements fix the order\n".into(),
        (false, None) => "one after another: nothing can run in parallel with a collective\n".into(),
    };
    out
}

/// Returns the same as JSON.
pub fn json(built: &Built) -> Value {
    let table = &built.overlap;
    let one = |l: &ExaminedCollective| {
        let tried = l
            .tried
            .iter()
            .map(|t| json!({ "pieces": t.pieces, "estimated_ns": t.estimated, "simulated_ns": t.simulated }));
        json!({
            "operation": l.kind.as_str(),
            "value": l.value.as_str(),
            "pieces": l.pieces,
            "requested": l.requested,
            "why": l.why,
            "tried": tried.collect::<Vec<_>>(),
        })
    };
    let pair = |(serial, streams): (f64, f64)| json!({ "serial_ns": serial, "streams_ns": streams });
    json!({
        "local": built.local.is_some(),
        "streams": table.streams,
        "streams_per_group": table.width,
        "tried_streams": table.tried.iter().map(|t| json!({
            "streams": t.streams,
            "estimated_ns": t.estimated,
            "simulated_ns": t.simulated,
        })).collect::<Vec<_>>(),
        "collectives": table.looked.iter().map(one).collect::<Vec<_>>(),
        "estimated": table.estimated.map(pair),
        "simulated": table.simulated.map(pair),
    })
}

fn one(l: &ExaminedCollective) -> String {
    let how = match (l.requested, l.pieces) {
        (true, k) => format!("{} requested by the program", count(k, "piece")),
        (false, 1) => match &l.why {
            Some(why) => format!("not split: {why}"),
            None if l.tried.is_empty() => "not split: local work takes no time on this machine".into(),
            None => "not split: pieces are not faster".into(),
        },
        (false, k) => count(k, "piece"),
    };
    let mut out = format!("{} %{}: {how}\n", l.kind, l.value);
    for t in &l.tried {
        out += &row(&count(t.pieces, "piece"), t.estimated, t.simulated);
    }
    out
}

/// Returns a line with the times of a number that was tried.
fn row(what: &str, estimated: f64, simulated: Option<f64>) -> String {
    let simulated = simulated.map_or_else(|| "-".into(), time);
    format!("  {what:>8} {:>12} estimated {simulated:>12} simulated\n", time(estimated))
}
