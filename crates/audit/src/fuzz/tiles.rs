//! Random tile kernels: a matmul in tiles of any length, and a function of its result.

use super::rng::Rng;
use super::scalar::{Domain, expression};
use kbc_ir::types::DType;

/// Returns a kernel of that name for a matmul of `[M, K] x [K, N]`.
pub fn product(rng: &mut Rng, name: &str, dtype: DType) -> String {
    let tile = |rng: &mut Rng| rng.weighted(&[(2, 1), (2, 2), (2, 3), (3, 5), (3, 8), (3, 16), (2, 40)]);
    let (i, j, k) = (tile(rng), tile(rng), tile(rng));
    let sum = if dtype == DType::I32 { DType::I32 } else { DType::F32 };
    let before = if rng.chance(15) { "2 * " } else { "" };
    let depth = rng.below(3);
    let value = expression(rng, Domain::of(dtype), depth, true, &mut |_| "acc".to_owned());
    let value = if dtype == sum { value } else { format!("{dtype}({value})") };
    format!(
        "kernel {name}[M, K, N](a: {dtype}[M, K], b: {dtype}[K, N]) -> c: {dtype}[M, N] {{\n    \
         for i in tiles(M, {i}), j in tiles(N, {j}) {{\n        \
         let acc = zeros({sum}[i, j])\n        \
         for k in tiles(K, {k}) {{ acc += {before}dot(load a[i, k], load b[k, j]) }}\n        \
         store c[i, j] = {value}\n    }}\n}}"
    )
}
