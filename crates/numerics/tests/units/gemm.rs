//! Bits of matrix products: the order of additions of `docs/reference/numbers.md`, element by
//! element, at every size of matrices.

use kbc_numerics::gemm;

/// Terms that are added one after the other, at most.
const TERMS: usize = 256;

/// Returns an irregular number between -0.5 and 0.5 for each position.
fn number(at: usize) -> f64 {
    ((at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1u64 << 53) as f64 - 0.5
}

/// Defines a test of one type: whole products, and pieces of them that cores compute.
macro_rules! ordered {
    ($name:ident, $ty:ident) => {
        #[test]
        fn $name() {
            let by_element = |(m, k, n): (usize, usize, usize), a: &[$ty], b: &[$ty], fused: bool| {
                let block = k.div_ceil(k.div_ceil(TERMS).max(1)).max(1);
                let term = |sum: $ty, x: $ty, y: $ty| if fused { x.mul_add(y, sum) } else { sum + x * y };
                let mut c: Vec<$ty> = vec![];
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let sum = |first: usize| {
                        let terms = first..(first + block).min(k);
                        terms.fold(0.0, |sum, t| term(sum, a[i * k + t], b[t * n + j]))
                    };
                    c.push((0..k).step_by(block).map(sum).reduce(|x, y| x + y).unwrap_or(0.0));
                }
                c
            };
            let bits = |c: &[$ty]| c.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            // All products are fused, or none is, as the processor can.
            let mut ways = [true; 2];
            for m in [1, 2, 3, 8, 17, 65, 257, 300] {
                for k in [0, 1, 2, 3, 7, 64, 255, 256, 257, 258, 1030] {
                    for n in [1, 2, 5, 16, 33, 66] {
                        let a: Vec<$ty> = (0..m * k).map(|at| number(at) as $ty).collect();
                        let b: Vec<$ty> = (0..k * n).map(|at| number(at + 7919) as $ty).collect();
                        let mut c = vec![$ty::NAN; m * n];
                        gemm::$ty(m, k, n, &a, &b, &mut c).expect("the lengths fit");
                        for (way, fused) in ways.iter_mut().zip([true, false]) {
                            // A way that is not the processor's is not computed again.
                            *way = *way && bits(&c) == bits(&by_element((m, k, n), &a, &b, fused));
                        }
                        assert!(ways.contains(&true), "{m} x {k} x {n}");
                    }
                }
            }
        }
    };
}

ordered!(sums_of_f32_are_in_order, f32);
ordered!(sums_of_f64_are_in_order, f64);

/// A product large enough for several threads has the bits of its rows one by one.
#[test]
fn threads_do_not_change_bits() {
    let (m, k, n) = (769, 520, 200);
    let a: Vec<f32> = (0..m * k).map(|at| number(at) as f32).collect();
    let b: Vec<f32> = (0..k * n).map(|at| number(at + 104_729) as f32).collect();
    let (mut whole, mut row) = (vec![0.0; m * n], vec![0.0; n]);
    gemm::f32(m, k, n, &a, &b, &mut whole).expect("the lengths fit");
    for i in 0..m {
        gemm::f32(1, k, n, &a[i * k..(i + 1) * k], &b, &mut row).expect("the lengths fit");
        assert!(row.iter().zip(&whole[i * n..]).all(|(x, y)| x.to_bits() == y.to_bits()), "row {i}");
    }
}

#[test]
fn other_lengths_are_refused() {
    let mut c = [7.0; 4];
    assert_eq!(gemm::f32(2, 2, 2, &[1.0; 4], &[1.0; 3], &mut c), None);
    assert_eq!(gemm::f32(usize::MAX, 2, 2, &[1.0; 4], &[1.0; 4], &mut c), None);
    assert_eq!(c, [7.0; 4], "nothing is written");
}
