//! Crossovers: finds where the other side becomes faster, by simulating both sides between
//! neighbouring values of the table.
//!
//! At a crossover the other side is faster, and just below it is not. No value is interpolated.

use super::{Both, SAME, ratio};
use crate::session::Outcome;
use serde::Serialize;

/// A change of the faster side.
#[derive(Serialize)]
pub(super) struct Crossing {
    /// First value found at which it is faster: in bytes if all rows have them, otherwise the value
    /// of the parameter.
    pub(super) at: f64,
    pub(super) faster: char,
    /// The value of the parameter.
    pub(super) value: u64,
    /// Both sides at that value and at the simulated value below: bytes or value, ns of A, ns of B.
    #[serde(skip)]
    pub(super) around: Vec<(f64, f64, f64)>,
}

/// Both sides at a value.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) bytes: Option<u64>,
    pub(super) a: f64,
    pub(super) b: f64,
}

/// Number of values that are tried beside one that a side rejects.
const BESIDE: u64 = 8;

impl Sample {
    fn of(r: &Both) -> Option<Sample> {
        ratio(r)?;
        Some(Sample { bytes: r.bytes, a: r.a.time_ns?, b: r.b.time_ns? })
    }

    /// Returns the side that is faster.
    fn faster(&self) -> Option<char> {
        let x = self.a / self.b;
        match () {
            () if x > 1.0 + SAME => Some('B'),
            () if x < 1.0 - SAME => Some('A'),
            () => None,
        }
    }
}

/// Returns all crossovers between rows. `both` simulates at a value, and returns None if a side
/// rejects it.
///
/// # Errors
/// Returns the error of a side that fails for another reason.
pub(super) fn crossings(
    rows: &[Both],
    both: &mut dyn FnMut(u64) -> Outcome<Option<Sample>>,
) -> Outcome<Vec<Crossing>> {
    let in_bytes = rows.iter().all(|r| r.bytes.is_some());
    let mut known: Vec<(u64, Sample)> =
        rows.iter().filter_map(|r| Some((r.value?, Sample::of(r)?))).collect();
    known.sort_by_key(|k| k.0);
    let mut out = vec![];
    let mut leader: Option<char> = None;
    for (i, (value, sample)) in known.iter().enumerate() {
        let Some(faster) = sample.faster() else { continue };
        if leader.replace(faster).is_none_or(|before| before == faster) {
            continue;
        }
        let (mut low, mut high) = (known[i - 1], (*value, *sample));
        while high.0 - low.0 > 1 {
            let Some(between) = middle(low.0, high.0, both)? else { break };
            if between.1.faster() == Some(faster) {
                high = between;
            } else {
                low = between;
            }
        }
        let x = |(value, s): (u64, Sample)| match s.bytes.filter(|_| in_bytes) {
            Some(bytes) => bytes as f64,
            None => value as f64,
        };
        let around = [low, high].map(|k| (x(k), k.1.a, k.1.b)).to_vec();
        out.push(Crossing { at: x(high), faster, value: high.0, around });
    }
    Ok(out)
}

/// Simulates both sides in the middle, or near it if a side rejects that value.
fn middle(
    low: u64,
    high: u64,
    both: &mut dyn FnMut(u64) -> Outcome<Option<Sample>>,
) -> Outcome<Option<(u64, Sample)>> {
    let middle = low + (high - low) / 2;
    let near = (0..=BESIDE).flat_map(|d| [middle.checked_add(d), middle.checked_sub(d).filter(|_| d > 0)]);
    for value in near.flatten().filter(|v| (low + 1..high).contains(v)) {
        if let Some(sample) = both(value)? {
            return Ok(Some((value, sample)));
        }
    }
    Ok(None)
}
