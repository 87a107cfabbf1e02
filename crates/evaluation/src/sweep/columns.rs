//! The columns that every sweep has, and the format of their values.

use super::row::{Facts, MeasuredFacts};
use serde_json::Value;

/// A function that returns a fact as a value.
pub type FactValue = fn(&Facts) -> Value;

/// The columns of every sweep. They follow the index of the row, its axes and its own columns.
pub const USUAL: [(&str, FactValue); 25] = [
    ("status", |f| f.status.name().into()),
    ("checked", |f| f.checked.into()),
    ("mismatches", |f| f.mismatches.into()),
    ("operation", |f| text(&f.operation)),
    ("algorithm", |f| text(&f.algorithm)),
    ("selected", |f| f.selected.into()),
    ("ranks", |f| if f.ranks == 0 { Value::Null } else { f.ranks.into() }),
    ("bytes", |f| f.bytes.map_or(Value::Null, Value::from)),
    ("time_ns", |f| number(f.time_ns, 3)),
    ("bound_ns", |f| number(f.bound_ns, 3)),
    ("percent", |f| number(f.percent, 2)),
    ("certified_percent", |f| number(f.certified_percent, 2)),
    ("algbw_gbs", |f| number(f.algbw_gbs, 4)),
    ("busbw_gbs", |f| number(f.busbw_gbs, 4)),
    ("bottleneck", |f| text(&f.bottleneck)),
    ("limited_by", |f| text(&f.limited_by)),
    ("limited_percent", |f| number(f.limited_percent, 1)),
    ("preload_ns", |f| number(f.preload_ns, 3)),
    ("messages", |f| f.messages.map_or(Value::Null, Value::from)),
    ("links_used", |f| f.links_used.map_or(Value::Null, Value::from)),
    ("perturbed_median_ns", |f| number(f.perturbed_median_ns, 3)),
    ("perturbed_p95_ns", |f| number(f.perturbed_p95_ns, 3)),
    ("machine", |f| text(&f.machine)),
    ("why", |f| text(&f.why)),
    ("row", |_| Value::Null),
];

/// The columns of rows that processes have measured. Sweeps with `engine` have them behind the
/// others.
pub const MEASURED: [(&str, FactValue); 8] = [
    ("transport", |f| measured(f, |m| m.transport.as_str().into())),
    ("element", |f| measured(f, |m| text(&m.element))),
    ("rounds", |f| measured(f, |m| m.rounds.into())),
    ("repeat", |f| measured(f, |m| m.repeat.into())),
    ("min_ns", |f| measured(f, |m| number(Some(m.min_ns), 3))),
    ("q1_ns", |f| measured(f, |m| number(Some(m.q1_ns), 3))),
    ("q3_ns", |f| measured(f, |m| number(Some(m.q3_ns), 3))),
    ("max_ns", |f| measured(f, |m| number(Some(m.max_ns), 3))),
];

/// Returns the standard columns of a sweep, with those of measured rows or without.
pub fn of(measures: bool) -> impl Iterator<Item = &'static (&'static str, FactValue)> {
    let more = if measures { &MEASURED[..] } else { &[] };
    USUAL.iter().chain(more)
}

fn measured(f: &Facts, of: fn(&MeasuredFacts) -> Value) -> Value {
    f.measured.as_ref().map_or(Value::Null, of)
}

/// The key of the failure of a row in JSON.
pub const FAILURE: &str = "failure";

fn text(of: &Option<String>) -> Value {
    of.as_ref().map_or(Value::Null, |t| t.as_str().into())
}

/// Rounds a number to `digits` decimals; whole numbers become integers.
pub(crate) fn number(of: Option<f64>, digits: i32) -> Value {
    let scale = 10f64.powi(digits);
    of.map_or(Value::Null, |x| {
        let r = (x * scale).round() / scale;
        if r.fract() == 0.0 && r.abs() < 9e15 { Value::from(r as i64) } else { Value::from(r) }
    })
}
