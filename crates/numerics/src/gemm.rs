//! Matrix multiplication, one implementation for all callers: f32 and f64 through `matrixmultiply`,
//! i32 by plain loops.
//!
//! The module owns the only unsafe call of this crate. [`crate::local`] handles shapes,
//! broadcasting and rounding.

/// Defines a matmul of floating-point matrices by the routine of that name.
macro_rules! product {
    ($(#[$doc:meta])* $ty:ident, $routine:ident) => {
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
            let (rows_a, rows_b) = (isize::try_from(k).ok()?, isize::try_from(n).ok()?);
            let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
            #[allow(unsafe_code, reason = "matrixmultiply has no safe entry; the lengths were compared just above")]
            // SAFETY: the pointers come from slices of exactly m * k, k * n and m * n elements, the
            // strides are those of row-major matrices of these sizes, and `c` is borrowed mutably,
            // so it does not overlap the others.
            unsafe {
                matrixmultiply::$routine(m, k, n, 1.0, a, rows_a, 1, b, rows_b, 1, 0.0, c, rows_b, 1);
            }
            Some(())
        }
    };
}

product!(
    /// Computes `c = a b` for row-major `a` of m x k, `b` of k x n, `c` of m x n. The routine
    /// determines the order of additions. For k = 0 the result is zero. Returns None, and writes
    /// nothing, if a slice has another length.
    f32,
    sgemm
);

product!(
    /// Computes the same in f64, for the probes of the reference evaluator.
    f64,
    dgemm
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
