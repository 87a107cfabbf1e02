//! The two sides of a comparison at one size: their times, what limits them, and their ratio.

use crate::sweep::Facts;
use serde::Serialize;

/// Times that differ by less than this share count as equal.
pub(super) const SAME: f64 = 1e-9;

/// Both items at one size.
#[derive(Serialize)]
pub(super) struct Both {
    pub(super) value: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) a: ComparedSide,
    pub(super) b: ComparedSide,
}

/// One of the items.
#[derive(Serialize)]
pub(super) struct ComparedSide {
    pub(super) status: &'static str,
    pub(super) why: Option<String>,
    /// The failure, if the side is wrong or refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<serde_json::Value>,
    pub(super) algorithm: Option<String>,
    pub(super) time_ns: Option<f64>,
    pub(super) bound_ns: Option<f64>,
    pub(super) limited_by: Option<String>,
}

/// Returns the time of A divided by that of B.
pub(super) fn ratio(r: &Both) -> Option<f64> {
    let (a, b) = (r.a.time_ns?, r.b.time_ns?);
    (a > 0.0 && b > 0.0).then(|| a / b)
}

impl ComparedSide {
    /// The facts of a row.
    pub(super) fn of(f: &Facts) -> ComparedSide {
        ComparedSide {
            status: f.status.name(),
            why: f.why.clone(),
            failure: f.failure.clone(),
            algorithm: f.algorithm.clone(),
            time_ns: f.time_ns.filter(|_| f.status.holds()),
            bound_ns: f.bound_ns,
            limited_by: f.limited_by.clone(),
        }
    }
}
