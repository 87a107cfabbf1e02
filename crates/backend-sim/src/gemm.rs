//! The one matrix product everybody calls: f32 through `matrixmultiply`, i32 by plain loops.
//!
//! Owns the only unsafe call of the simulator. Shapes, broadcasting and rounding are [`crate::local`].

/// `c = a b` for row-major `a` of m x k, `b` of k x n, `c` of m x n; the order of additions is the routine's. Zeros
/// for k = 0. None, and nothing is written, if a slice has another length.
#[must_use]
pub fn f32(m: usize, k: usize, n: usize, a: &[f32], b: &[f32], c: &mut [f32]) -> Option<()> {
    let lengths = (m.checked_mul(k)?, k.checked_mul(n)?, m.checked_mul(n)?);
    if lengths != (a.len(), b.len(), c.len()) {
        return None;
    }
    if m == 0 || n == 0 || k == 0 {
        c.fill(0.0);
        return Some(());
    }
    let (rows_a, rows_b) = (isize::try_from(k).ok()?, isize::try_from(n).ok()?);
    #[allow(unsafe_code, reason = "matrixmultiply has no safe entry; the lengths were compared just above")]
    // SAFETY: the pointers come from slices of exactly m * k, k * n and m * n elements, the strides are those of
    // row-major matrices of these sizes, and `c` is borrowed mutably, so it does not overlap the others.
    unsafe {
        matrixmultiply::sgemm(
            m,
            k,
            n,
            1.0,
            a.as_ptr(),
            rows_a,
            1,
            b.as_ptr(),
            rows_b,
            1,
            0.0,
            c.as_mut_ptr(),
            rows_b,
            1,
        );
    }
    Some(())
}

/// The same in i32, wrapping, by index.
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
