//! Matrix multiplication, one implementation for all callers: f32 and f64 through the crates
//! `gemm-f32` and `gemm-f64`, i32 by plain loops.
//!
//! The module owns the only unsafe call of this crate, and decides how a large product is divided
//! among threads. [`crate::local`] handles shapes, broadcasting and rounding.

use crate::threads::shared_out;
use gemm_common::Parallelism;

/// Rows of the result that one thread computes at a time, at most.
const ROWS: usize = 256;

/// Terms of a sum that one call of the routine adds. Up to 512, the routine adds the products of an
/// element one after the other; longer sums it would cut at places that depend on the sizes of the
/// matrices and of the caches. Shorter sums have smaller errors.
const TERMS: usize = 256;

/// Defines a matmul of floating-point matrices by the routine of that type.
macro_rules! product {
    ($(#[$doc:meta])* $ty:ident, $routine:path) => {
        $(#[$doc])*
        #[must_use]
        pub fn $ty(m: usize, k: usize, n: usize, a: &[$ty], b: &[$ty], c: &mut [$ty]) -> Option<()> {
            let lengths = (m.checked_mul(k)?, k.checked_mul(n)?, m.checked_mul(n)?);
            if lengths != (a.len(), b.len(), c.len()) {
                return None;
            }
            if m == 0 || n == 0 || k == 0 {
                c.fill(0.0);
                return Some(());
            }
            // For vectors, and for sums of one or two terms, the routine has other orders of
            // additions. Zeros make them matrices and sums of three terms.
            if k < 3 {
                let three = |row: &[$ty]| [0, 1, 2].map(|i| row.get(i).map_or(0.0, |x| *x));
                let a: Vec<$ty> = a.chunks(k).flat_map(three).collect();
                let mut b = b.to_vec();
                b.resize(3 * n, 0.0);
                return $ty(m, 3, n, &a, &b, c);
            }
            if m == 1 {
                let (mut a, mut both) = (a.to_vec(), vec![0.0; 2 * n]);
                a.resize(2 * k, 0.0);
                $ty(2, k, n, &a, b, &mut both)?;
                c.copy_from_slice(&both[..n]);
                return Some(());
            }
            if n == 1 {
                let b: Vec<$ty> = b.iter().flat_map(|x| [*x, 0.0]).collect();
                let mut both = vec![0.0; 2 * m];
                $ty(m, k, 2, a, &b, &mut both)?;
                c.iter_mut().zip(both.chunks_exact(2)).for_each(|(c, both)| *c = both[0]);
                return Some(());
            }
            let (rows_a, rows_b) = (isize::try_from(k).ok()?, isize::try_from(n).ok()?);
            // Blocks of nearly the same length: the routine has another order for one or two terms.
            let most = k.div_ceil(k.div_ceil(TERMS));
            let piece = |a: &[$ty], c: &mut [$ty]| {
                let rows = c.len() / n;
                for first in (0..k).step_by(most) {
                    let terms = most.min(k - first);
                    let (a, b, c) = (a[first..].as_ptr(), b[first * n..].as_ptr(), c.as_mut_ptr());
                    let add = first > 0;
                    #[allow(unsafe_code, reason = "the routine has no safe entry; the lengths were compared above")]
                    // SAFETY: `a`, `b` and `c` are `rows` x `terms`, `terms` x n and `rows` x n
                    // matrices, with rows k, n and n elements apart, within slices of `rows` * k,
                    // k * n and `rows` * n elements. `c` is borrowed mutably, so it does not
                    // overlap the others. The routine is chosen by what the processor reports that
                    // it can execute.
                    unsafe {
                        // The routine prefers columns, so it computes the transposed product.
                        $routine()(
                            n, rows, terms, c, rows_b, 1, add, b, rows_b, 1, a, rows_a, 1, 1.0, 1.0, false,
                            false, false, Parallelism::None,
                        );
                    }
                }
            };
            // No piece is a single row.
            let rows = (2..=ROWS).rev().find(|rows| m % rows != 1).unwrap_or(m);
            let pieces = a.chunks(rows * k).zip(c.chunks_mut(rows * n));
            shared_out(m.saturating_mul(k).saturating_mul(n), pieces, |(a, c)| piece(a, c));
            Some(())
        }
    };
}

product!(
    /// Computes `c = a b` for row-major `a` of m x k, `b` of k x n, `c` of m x n. For k = 0 the
    /// result is zero. Returns None, and writes nothing, if a slice has another length.
    ///
    /// The products of an element are added by ascending k, in blocks of equal length, at most 256
    /// terms each, and fused with the addition where the processor can; then the sums of the
    /// blocks are added. This does not depend on m, n or the number of cores, so a piece of a
    /// product has the bits of the whole.
    f32,
    gemm_f32::gemm::f32::get_gemm_fn
);

product!(
    /// Computes the same in f64, for the reference evaluator.
    f64,
    gemm_f64::gemm::f64::get_gemm_fn
);

/// Computes the same in i32, wrapping, in index order.
#[must_use]
pub fn i32(m: usize, k: usize, n: usize, a: &[i32], b: &[i32], c: &mut [i32]) -> Option<()> {
    let lengths = (m.checked_mul(k)?, k.checked_mul(n)?, m.checked_mul(n)?);
    if lengths != (a.len(), b.len(), c.len()) {
        return None;
    }
    c.fill(0);
    for i in 0..m {
        for j in 0..k {
            let x = a[i * k + j];
            let row = &b[j * n..(j + 1) * n];
            c[i * n..(i + 1) * n]
                .iter_mut()
                .zip(row)
                .for_each(|(c, y)| *c = c.wrapping_add(x.wrapping_mul(*y)));
        }
    }
    Some(())
}
