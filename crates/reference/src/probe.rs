//! Bounds of deep programs: where the running analysis gives no useful bound, disturbed evaluations
//! replace it.
//!
//! The module decides when bounds are loose, and computes their replacements. A running analysis
//! assumes that the errors of all operands combine in the worst way. Each matmul then adds some
//! factor of the square root of its length that no execution loses; after four matmuls and two
//! norms the bound is larger than the result. Here the program is evaluated [`PROBES`] more times,
//! and after each operation each element is moved by the whole error that this operation alone may
//! make, up or down by a seeded random bit (Monte Carlo arithmetic: Parker, Monte Carlo Arithmetic,
//! UCLA CSD-970002, 1997). The errors that arrive at the results have propagated through the
//! program as real errors do: correlated where they share a source, cancelled where they cancel. An
//! operation's own error is its bound with exact operands, with two changes for matmuls. Of the K
//! roundings that a sum passes, `min(K, 3 sqrt(K))` are assumed to have the same sign (Higham,
//! Mary: A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019),
//! and `sum |a| |b|` is replaced by the product of the norms, which is not less (Cauchy-Schwarz).
//!
//! An element's bound becomes [`REACH`] times the largest of its own farthest probe and the root
//! mean squares over all probes of its row and of its tensor, if that is less than before. (The
//! means prevent a bound of almost 0 for elements whose probes happen to agree.) Bounds of 0,
//! bounds of integers, and bounds that are not loose stay.

use super::precision::{Precision, pow2};
use super::{RefTensor, room};
use kbc_diag::Diagnostic;
use kbc_ir::types::DType;
use kbc_numerics::rng::mix64;
use kbc_numerics::tensor::in_vectors;

/// Number of disturbed evaluations.
const PROBES: u64 = 2;

/// Factor by which the error of an execution may exceed the observed distance. Real roundings are
/// smaller than the largest ones by some factor. The resulting bound is therefore far larger than
/// the error of any execution, and far smaller than the effect of a wrong term.
const REACH: f64 = 8.0;

/// The random bits of one evaluation: one for each element `i` of each operation `op`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RandomBits(u64);

impl RandomBits {
    /// Moves elements of an operation by their bounds; `first` is the number of the first of them.
    pub(super) fn disturb(self, op: u32, first: usize, values: &mut [f64], bounds: &[f64]) {
        in_vectors(
            #[inline(always)]
            || {
                for (i, (v, e)) in values.iter_mut().zip(bounds).enumerate() {
                    let coin = mix64(self.0 ^ mix64((u64::from(op) << 40) ^ (first + i) as u64)) & 1;
                    // The random bit is the sign: no processor could predict a branch.
                    let moved = *v + f64::from_bits(e.to_bits() ^ (coin << 63));
                    *v = if *e == 0.0 { *v } else { moved };
                }
            },
        );
    }
}

/// Returns the largest finite absolute value of a tensor, and its largest bound.
pub(super) fn largest(t: &RefTensor) -> (f64, f64) {
    let finite = |v: f64| if v.is_finite() { v.abs() } else { 0.0 };
    let value = t.value.iter().fold(0.0, |m: f64, v| m.max(finite(*v)));
    (value, t.bound.iter().fold(0.0, |m: f64, b| m.max(*b)))
}

/// Whether a bound is a considerable part of the largest element of its tensor, and not because of
/// its type alone.
pub(super) fn too_large(dtype: DType, largest: f64, bound: f64) -> bool {
    Precision::of(dtype).is_some_and(|p| bound > largest * pow2(-10).max(64.0 * p.u))
}

/// Whether some bound of the tensor is too large.
pub(super) fn loose(t: &RefTensor) -> bool {
    let (value, bound) = largest(t);
    too_large(t.dtype, value, bound)
}

/// Evaluates the disturbed programs. Returns the results of each.
pub(super) fn disturbed(
    evaluate: impl Fn(RandomBits) -> Result<Vec<RefTensor>, Diagnostic> + Sync,
) -> Result<Vec<Vec<RefTensor>>, Diagnostic> {
    // One thread per probe; the threads only read shared data. They use the memory that this thread
    // needs no more, and give it back.
    let mut kept: Vec<Vec<Vec<f64>>> = vec![vec![]; PROBES as usize];
    for (i, list) in room::take().into_iter().enumerate() {
        kept[i % PROBES as usize].push(list);
    }
    let evaluate = &evaluate;
    std::thread::scope(|s| {
        let spawn = |(k, kept): (u64, Vec<Vec<f64>>)| {
            // The threads have the caller's name, because their work is part of the caller's.
            let name = std::thread::current().name().unwrap_or("probe").to_owned();
            let run = move || {
                room::keep(kept);
                (evaluate(RandomBits(mix64(k + 1))), room::take())
            };
            let one = std::thread::Builder::new().name(name).spawn_scoped(s, run);
            one.expect("the system has a thread to spare")
        };
        let threads: Vec<_> = (0..PROBES).zip(kept).map(spawn).collect();
        let join = |t: std::thread::ScopedJoinHandle<'_, _>| {
            let (results, kept) = t.join().expect("an evaluation does not panic");
            room::keep(kept);
            results
        };
        threads.into_iter().map(join).collect()
    })
}

/// Returns the bounds of result `at` that follow from the disturbed results.
fn found(at: usize, t: &RefTensor, probes: &[Vec<RefTensor>]) -> Vec<f64> {
    let seen: Vec<&[f64]> = probes.iter().filter_map(|p| Some(&p.get(at)?.value[..])).collect();
    let off = |i: usize, v: f64| seen.iter().map(move |p| p[i] - v);
    let row = t.shape.last().map_or(1, |n| (*n as usize).max(1));
    // Infinities and NaN give no information about other elements.
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
        // `max` would ignore NaN.
        let far = far.fold(0.0, |m: f64, d| if d.is_nan() { f64::INFINITY } else { d.max(m) });
        REACH * far.max(root(rows[i / row], row)).max(mean)
    });
    found.collect()
}

/// Replaces loose bounds of results.
pub(super) fn tighten(results: &mut [RefTensor], probes: &[Vec<RefTensor>]) {
    for (at, t) in results.iter_mut().enumerate().filter(|(_, t)| loose(t)) {
        let found = found(at, t, probes);
        t.bound.iter_mut().zip(found).for_each(|(b, f)| *b = b.min(f));
    }
}

/// Replaces lower limits of loose bounds. Returns false if a bound may be less than what the
/// disturbed results give.
pub(super) fn replace(limits: &mut [RefTensor], probes: &[Vec<RefTensor>]) -> bool {
    limits.iter_mut().enumerate().all(|(at, t)| {
        let found = found(at, t, probes);
        let above = t.bound.iter().zip(&found).all(|(least, f)| least >= f);
        t.bound = found;
        above
    })
}
