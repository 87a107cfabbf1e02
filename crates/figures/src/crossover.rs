//! Crossovers: the points at which one series becomes lower than all others.
//!
//! Between two neighbouring samples, a series is assumed to follow a power law, which is a straight
//! line in (ln x, ln y). The best series at an x is the lowest one there. A crossover is an x at
//! which another series becomes the best. Between the samples (x0, y0), (x1, y1) of one series and
//! (x0, z0), (x1, z1) of another, it lies at
//!
//! ```text
//! ln x = ln x0 + (ln x1 - ln x0) * d0 / (d0 - d1),   d0 = ln z0 - ln y0,   d1 = ln z1 - ln y1
//! ```
//!
//! Series may be sampled at different x. Each series is evaluated at the samples of all series. A
//! series does not take part to the left of its first and to the right of its last sample, for
//! example if an algorithm does not exist for small sizes.

use libm::{exp, log};

/// Logarithms that differ by at most this much count as equal. This is the relative difference of
/// the values.
const SAME: f64 = 1e-9;

/// A change of the best series.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Crossover {
    /// The x at which the best series changes.
    pub x: f64,
    /// The y of the new best series at that x.
    pub y: f64,
    /// The index of the previous best series.
    pub from: usize,
    /// The index of the new best series.
    pub to: usize,
}

/// Returns all crossovers by ascending x. The points of each series must be sorted by x, and their
/// coordinates must be positive.
pub fn crossovers(series: &[&[(f64, f64)]]) -> Vec<Crossover> {
    let mut xs: Vec<f64> = series.iter().flat_map(|s| s.iter().map(|p| p.0)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let mut out = vec![];
    let mut best: Option<usize> = None;
    for pair in xs.windows(2) {
        let (u0, u1) = (log(pair[0]), log(pair[1]));
        // For each series that exists in this interval: its index, its logarithmic height at u0,
        // and its slope.
        let there: Vec<(usize, f64, f64)> = series
            .iter()
            .enumerate()
            .filter_map(|(i, s)| {
                let v0 = log(at(s, pair[0])?);
                Some((i, v0, (log(at(s, pair[1])?) - v0) / (u1 - u0)))
            })
            .collect();
        let mut u = u0;
        loop {
            let height = |s: &(usize, f64, f64)| s.1 + s.2 * (u - u0);
            let lowest = there.iter().map(height).fold(f64::INFINITY, f64::min);
            // Of the series that are lowest here, choose the one that stays lowest. If several do,
            // keep the current best.
            let leader = there
                .iter()
                .filter(|s| height(s) - lowest <= SAME)
                .min_by(|a, b| {
                    let slope = if (a.2 - b.2).abs() <= SAME {
                        std::cmp::Ordering::Equal
                    } else {
                        a.2.total_cmp(&b.2)
                    };
                    slope.then((best != Some(a.0)).cmp(&(best != Some(b.0)))).then(a.0.cmp(&b.0))
                })
                .copied();
            let Some(leader) = leader else { break };
            if let Some(from) = best.replace(leader.0).filter(|from| *from != leader.0) {
                out.push(Crossover { x: exp(u), y: exp(height(&leader)), from, to: leader.0 });
            }
            let next = there
                .iter()
                .filter(|s| leader.2 - s.2 > SAME)
                .map(|s| u + (height(s) - height(&leader)) / (leader.2 - s.2))
                .fold(f64::INFINITY, f64::min);
            if next >= u1 - SAME || next <= u {
                break;
            }
            u = next;
        }
    }
    out
}

/// Returns the y of a series at an x between its first and last sample, and None outside.
pub fn at(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = points.iter().position(|p| p.0 >= x)?;
    let (x1, y1) = points[after];
    if x1 == x {
        return Some(y1);
    }
    let (x0, y0) = *points.get(after.checked_sub(1)?)?;
    let share = (log(x) - log(x0)) / (log(x1) - log(x0));
    Some(exp(log(y0) + share * (log(y1) - log(y0))))
}
