//! Bounds of deep programs: where the running analysis says next to nothing, how far disturbed executions come.
//!
//! Owns when bounds are taken for loose, and what they are replaced by. A running analysis lets the errors of all
//! operands meet as badly as they can. Each matrix product then adds some factor of the square root of its length that
//! no execution loses, and behind four of them and two norms nothing is left: the bound is larger than the result. Here
//! the program is evaluated [`PROBES`] more times, and after each operation each element is moved by the whole error
//! that this operation alone may make, up or down by the toss of a seeded coin (Monte Carlo arithmetic: Parker, Monte
//! Carlo Arithmetic, UCLA CSD-970002, 1997). What arrives at the results has gone through the program as errors do:
//! correlated where they share a source, cancelled where they cancel. An operation's own error is its bound with exact
//! operands, with two changes for matrix products: of the K roundings that a sum passes, `min(K, 3 sqrt(K))` are taken
//! to fall on one side (Higham, Mary: A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41,
//! 2019), and `sum |a| |b|` is taken as the product of the norms, which is not less (Cauchy, Schwarz).
//!
//! An element's bound becomes [`REACH`] times the largest of its own farthest probe and the roots of the mean squares
//! over all probes of its row and of its tensor, where that is less than before. (The means keep elements whose probes
//! happen to agree from being held to nothing.) Bounds of 0, of integers, and those that say something stay.

use super::RefTensor;
use super::precision::{Precision, pow2};
use kbc_diag::Diagnostic;
use kbc_numerics::rng::mix64;

/// Disturbed evaluations.
const PROBES: u64 = 2;

/// How often the distance that was seen an execution may be off. Real roundings are smaller than the largest ones by
/// some factor, so that this is far outside what any execution does, and far inside what a wrong term does.
const REACH: f64 = 8.0;

/// The coins of one evaluation: that of element `i` of operation `op`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coins(u64);

impl Coins {
    /// Moves every element by its bound, which is then used up.
    pub(super) fn disturb(self, op: u32, t: &mut RefTensor) {
        for (i, (v, e)) in t.value.iter_mut().zip(&mut t.bound).enumerate() {
            if *e != 0.0 {
                let coin = mix64(self.0 ^ mix64((u64::from(op) << 40) ^ i as u64)) & 1;
                // The coin is the sign: no branch that nobody can foresee.
                *v += f64::from_bits(e.to_bits() ^ (coin << 63));
                *e = 0.0;
            }
        }
    }
}

/// Whether some bound of the tensor is a sizeable part of its largest element, and not because of its type alone.
fn loose(t: &RefTensor) -> bool {
    let Some(p) = Precision::of(t.dtype) else { return false };
    let largest = t.value.iter().filter(|v| v.is_finite()).fold(0.0, |m, v| v.abs().max(m));
    let limit = largest * pow2(-10).max(64.0 * p.u);
    t.bound.iter().any(|b| *b > limit)
}

/// Replaces loose bounds of results.
pub(super) fn tighten(
    results: &mut [RefTensor],
    evaluate: impl Fn(Coins) -> Result<Vec<RefTensor>, Diagnostic> + Sync,
) -> Result<(), Diagnostic> {
    if !results.iter().any(loose) {
        return Ok(());
    }
    let run = |k: u64| evaluate(Coins(mix64(k + 1)));
    let run = &run;
    // A thread for each: what they share is only read.
    let probes: Vec<Vec<RefTensor>> = std::thread::scope(|s| {
        let spawn = |k| {
            // Of the caller's name: what it does is a part of what the caller does.
            let name = std::thread::current().name().unwrap_or("probe").to_owned();
            let one = std::thread::Builder::new().name(name).spawn_scoped(s, move || run(k));
            one.expect("the system has a thread to spare")
        };
        let threads: Vec<_> = (0..PROBES).map(spawn).collect();
        threads.into_iter().map(|t| t.join().expect("an evaluation does not panic")).collect::<Result<_, _>>()
    })?;
    for (at, t) in results.iter_mut().enumerate().filter(|(_, t)| loose(t)) {
        let seen: Vec<&[f64]> = probes.iter().filter_map(|p| Some(&p.get(at)?.value[..])).collect();
        let off = |i: usize, v: f64| seen.iter().map(move |p| p[i] - v);
        let row = t.shape.last().map_or(1, |n| (*n as usize).max(1));
        // Infinities and what is no number say nothing of others.
        let square = |range: std::ops::Range<usize>| -> f64 {
            let all = range.flat_map(|i| off(i, t.value[i])).filter(|d| d.is_finite());
            all.map(|d| d * d).sum()
        };
        let rows: Vec<f64> =
            (0..t.value.len()).step_by(row).map(|i| square(i..(i + row).min(t.value.len()))).collect();
        let root = |square: f64, n: usize| (square / (n as f64 * PROBES as f64)).sqrt();
        let mean = root(rows.iter().sum(), t.value.len());
        let found = t.value.iter().enumerate().map(|(i, v)| {
            let far = off(i, *v).map(f64::abs);
            // `max` forgets what is no number.
            let far = far.fold(0.0, |m: f64, d| if d.is_nan() { f64::INFINITY } else { d.max(m) });
            REACH * far.max(root(rows[i / row], row)).max(mean)
        });
        let found: Vec<f64> = found.collect();
        t.bound.iter_mut().zip(found).for_each(|(b, f)| *b = b.min(f));
    }
    Ok(())
}
