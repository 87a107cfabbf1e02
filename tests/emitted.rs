//! Emitted kernels against the simulator, bit for bit, under the memory model of the stand-in headers.

#[path = "common/emitted.rs"]
mod emitted;
#[path = "common/standin.rs"]
mod standin;

use emitted::Case;

/// A program of one collective on `p` ranks; `ty` is f32 and so on.
fn program(ty: &str, p: u64, signature: &str, body: &str) -> String {
    let signature = signature.replace("TY", ty);
    format!(
        "param tp = {p}\nparam n = 100\ntopology sys = full(tp) {{ link: 50 GB/s, 500 ns }}\nmesh m = sys[tp]\n\
         program case{signature} {{ {body} }}\n"
    )
}

/// Sizes of a sweep: nothing, one element, fewer elements than ranks, tails; several tiles once.
fn sizes(ranks: &[u64]) -> Vec<(u64, u64)> {
    let small = ranks.iter().flat_map(|p| [0, 1, p - 1, p + 1, 7 * p + 3].map(|n| (*p, n)));
    small.chain([(ranks[ranks.len() / 2], 4 * 4096 + 5)]).collect()
}

fn emitted(text: &str) -> Case {
    Case::new(text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Every algorithm of a collective, in f32, on these rank counts.
fn sweep(signature: &str, body: &str, algorithms: &[&str], ranks: &[u64]) {
    for name in algorithms {
        let text = program("f32", ranks[ranks.len() / 2], signature, &body.replace("ALG", name));
        emitted(&text).check(&sizes(ranks), 3);
    }
}

const REDUCED: &str = "(x: TY[n] partial(sum@tp)) -> TY[n]";
const ANY: [u64; 4] = [2, 3, 4, 8];
const POWERS: [u64; 3] = [2, 4, 8];

#[test]
fn all_reduce() {
    let body = "all_reduce(x, sum, over: tp, using: ALG)";
    sweep(REDUCED, body, &["one_phase", "two_phase", "ring", "bidirectional_ring"], &ANY);
    sweep(REDUCED, body, &["line", "up_down"], &[3, 4, 8]);
    sweep(REDUCED, body, &["halving_doubling"], &POWERS);
    // What is left over of a power of two, and two ranks, are kernels of their own.
    sweep(REDUCED, body, &["halving_doubling"], &[5]);
    sweep(REDUCED, body, &["up_down"], &[2]);
}

#[test]
fn reduce_scatter() {
    let body = "reduce_scatter(x, sum, dim: 0, over: tp, using: ALG)";
    let signature = "(x: TY[n] partial(sum@tp)) -> TY[n@tp]";
    sweep(signature, body, &["direct", "ring", "bidirectional_ring"], &ANY);
    sweep(signature, body, &["line"], &[3, 4, 8]);
    sweep(signature, body, &["halving"], &POWERS);
}

#[test]
fn all_gather() {
    let body = "all_gather(x, dim: 0, over: tp, using: ALG)";
    let signature = "(x: TY[n@tp]) -> TY[n]";
    sweep(signature, body, &["direct", "ring", "bidirectional_ring", "line"], &ANY);
    sweep(signature, body, &["doubling"], &POWERS);
}

#[test]
fn all_to_all() {
    let body = "all_to_all(x, from: 0, to: 1, over: tp, using: ALG)";
    sweep("(x: TY[20@tp, n]) -> TY[20, n@tp]", body, &["direct", "pairwise"], &ANY);
}

#[test]
fn broadcast() {
    let body = "broadcast(x, over: tp, using: ALG)";
    sweep("(x: TY[n] only(1@tp)) -> TY[n]", body, &["direct", "binary_tree", "binomial", "line"], &ANY);
}

#[test]
fn types_and_combiners() {
    for ty in ["f16", "bf16", "i32"] {
        for combine in ["sum", "max", "min"] {
            let signature = REDUCED.replace("sum@tp", &format!("{combine}@tp"));
            let body = format!("all_reduce(x, {combine}, over: tp, using: two_phase)");
            emitted(&program(ty, 3, &signature, &body)).check(&sizes(&[3, 4]), 3);
        }
    }
    for combine in ["max", "min"] {
        let signature = REDUCED.replace("sum@tp", &format!("{combine}@tp"));
        let body = format!("all_reduce(x, {combine}, over: tp, using: ring)");
        emitted(&program("f32", 3, &signature, &body)).check(&sizes(&[3, 4]), 3);
    }
    // Types that move and do not reduce.
    for ty in ["u8", "i64"] {
        let body = "all_gather(x, dim: 0, over: tp, using: ring)";
        emitted(&program(ty, 3, "(x: TY[n@tp]) -> TY[n]", body)).check(&sizes(&[3, 4]), 3);
    }
}
