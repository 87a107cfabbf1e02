//! Tests of collectives of a program that are defined by a contract (ALG-1): shift, permute,
//! send_recv, barrier, user-defined ones; and of averages. They use every element type and one to
//! nine ranks, and are proven, run and compared; the effect of a rotation is also checked in the
//! written results.

use crate::common;

use common::{Scratch, kbc};
use serde_json::Value;

const ALL: [&str; 8] = ["f32", "f16", "bf16", "i32", "i8", "u8", "i16", "i64"];

/// Returns the report of a program that must be proven and right.
fn right(dir: &Scratch, text: &str, define: &[&str]) -> Value {
    dir.write("p.kb", text.as_bytes());
    let mut args = vec!["compile", "p.kb", "--target", "sim", "--format", "json"];
    define.iter().for_each(|d| args.extend(["-D", d]));
    let ran = kbc(dir.path(), &args, "");
    assert_eq!(ran.code, 0, "{define:?}\n{text}\n{}", ran.stderr);
    let r: Value = serde_json::from_str(&ran.stdout).expect("one JSON object");
    assert_eq!((&r["verified"]["ok"], &r["verified"]["calls"]), (&true.into(), &"any".into()), "{text}");
    assert_eq!(r["compare"]["mismatches"], 0, "{define:?}\n{text}");
    assert!(r["compare"]["elements"].as_u64() > Some(0), "{text}");
    r
}

#[test]
fn parts_move_in_every_type_on_any_number_of_ranks() {
    let dir = Scratch::new();
    for p in 1..=9u64 {
        for (i, dtype) in ALL.iter().enumerate() {
            let by = (p + i as u64) as i64 - 4;
            let pairs = if p > 2 { "(0, 1), (1, 2), (2, 0)" } else { "" };
            let text = format!(
                "param p = 4\ntopology sys = ring(p)\nmesh m = sys[tp]\n\
                 program x(x: {dtype}[3 * p@tp, 2], y: {dtype}[2, p@tp]) -> ({dtype}[3 * p@tp, 2], {dtype}[2, p], {dtype}[2, p@tp]) {{\n\
                 let a = barrier(shift(x, by: {by}))\n\
                 let b = permute(y, dim: 1, pairs: [{pairs}])\n\
                 let c = send_recv(b, from: p - 1, to: 0, using: direct);\n(a, b, c)\n}}\n"
            );
            let r = right(&dir, &text, &[&format!("p={p}")]);
            assert_eq!(r["compare"]["elements"], 6 * p + 2 * p * p + 2 * p, "p = {p}, {dtype}");
        }
    }
}

#[test]
fn every_algorithm_of_a_move_gives_the_same() {
    let dir = Scratch::new();
    for p in 1..=9 {
        for (call, alg) in [
            ("shift(x, by: 2, ", "direct"),
            ("shift(x, by: 2, ", "ring"),
            ("shift(x, by: -1, ", "ring"),
            ("barrier(x, ", "direct"),
            ("barrier(x, ", "dissemination"),
            ("barrier(x, ", "ring"),
        ] {
            let text = format!(
                "param p = 4\ntopology sys = ring(p)\n\
                 program x(x: f16[6 * p@tp]) -> f16[6 * p@tp] {{ {call}over: tp, using: {alg}) }}\n"
            );
            right(&dir, &text, &[&format!("p={p}")]);
        }
    }
}

/// In the bytes that a program writes, what rank 0 has goes to rank 1.
#[test]
fn a_rotation_is_one() {
    let dir = Scratch::new();
    let text = "topology sys = ring(4)\nprogram x(x: i32[12@tp]) -> (i32[12], i32[12], i32[12]) {\n\
                let a = shift(x, by: 1)\nlet b = permute(x, pairs: [(3, 0)]);\n(x, a, b)\n}\n";
    dir.write("p.kb", text.as_bytes());
    let mut args = vec!["run", "p.kb", "--no-time", "-q"];
    for o in ["out0=a.npy", "out1=b.npy", "out2=c.npy"] {
        args.extend(["--output", o]);
    }
    let ran = kbc(dir.path(), &args, "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let values = |name: &str| -> Vec<i32> {
        let bytes = std::fs::read(dir.path().join(name)).expect("written");
        let words = bytes[bytes.len() - 48..].chunks(4);
        words.map(|w| i32::from_le_bytes(w.try_into().expect("four bytes"))).collect()
    };
    let (x, a, b) = (values("a.npy"), values("b.npy"), values("c.npy"));
    let mut turned = x.clone();
    turned.rotate_right(3);
    assert_ne!(x, turned, "the data must show it");
    assert_eq!(a, turned);
    assert_eq!((&b[..3], &b[3..]), (&x[9..], &x[3..]), "rank 0 has the part of rank 3, the others their own");
}

const SCAN: &str = "collective before over (r of p) on src[n], dst[n] { start src[i] end dst[i] if r > 0 = sum(src[i] at q for q in 0..r) }\n\
    algorithm direct: before over (r of p) { each q in r + 1..p { if q == r + 1 { put src[..] -> dst[..] at q } } \
    each q in r + 2..p { put src[..] -> dst[..] at q reduce } }\n";

#[test]
fn a_collective_of_ones_own_runs_in_every_type_that_adds() {
    let dir = Scratch::new();
    for p in 1..=9 {
        for dtype in &ALL[..4] {
            for op in ["sum", "prod", "min", "max"] {
                let text = format!(
                    "{SCAN}param p = 4\ntopology sys = ring(p)\n\
                     program x(x: {dtype}[3, 2 * p@tp]) -> {dtype}[3, 2 * p] {{ before(x, {op}) }}\n"
                );
                right(&dir, &text, &[&format!("p={p}")]);
            }
        }
    }
}

/// Blocks, a root, roots that are a condition, results that are one block, places outside the
/// contract: zeros.
#[test]
fn promises_of_all_forms_are_what_the_evaluator_says() {
    let dir = Scratch::new();
    let text = "param p = 4\n\
        collective spread over (r of p) on v[p][n] { start v[r][i] end v[b][i] = v[b][i] at b }\n\
        algorithm direct: spread over (r mod p) { each k in 1..p { put [r] -> r + k } }\n\
        collective turn over (r of p) on src[p][n], dst[p][n] { start src[b][i] end dst[b][i] = src[r][i] at b }\n\
        algorithm direct: turn over (r mod p) { each k in 0..p { put src[r + k] -> dst[r] at r + k } }\n\
        collective mine over (r of p) on v[p][n] { start v[b][i] end v[r][i] = sum(v[r][i] at q for q in 0..p) }\n\
        algorithm direct: mine over (r mod p) { each k in 1..p { put [r + k] -> r + k reduce } }\n\
        collective even from c over (r of p) on v[n] { start v[i] if r == c end v[i] if r % 2 == 0 = v[i] at c }\n\
        algorithm direct: even from c over (r of p) { if r == c { each q in 0..p if q % 2 == 0 && q != c { put [..] -> q } } }\n\
        topology sys = ring(p)\n\
        program x(x: f32[2 * p@tp, 3], y: i16[5, 2 * p * p@tp], z: f16[2, p * p@tp], w: i32[p@tp, 5]) -> \
        (f32[2 * p * p@tp, 3], i16[5, 2 * p * p@tp], f16[2, p@tp], i32[p@tp, 5]) {\n\
        let a = spread(x)\nlet b = turn(y, dim: 1)\nlet c = mine(z, sum)\nlet d = even(w, from: p - 1);\n(a, b, c, d)\n}\n";
    for p in 1..=9 {
        right(&dir, text, &[&format!("p={p}")]);
    }
}

/// A wrong algorithm is blamed in its own terms, in a program as alone.
#[test]
fn a_wrong_algorithm_of_ones_own_is_rejected() {
    let dir = Scratch::new();
    let wrong = SCAN.replace("q == r + 1 {", "q == r + 1 && r != 2 {");
    let text =
        format!("{wrong}topology sys = ring(4)\nprogram x(x: f32[8@tp]) -> f32[8@tp] {{ before(x) }}\n");
    for text in [text, wrong] {
        dir.write("p.kb", text.as_bytes());
        let ran = kbc(dir.path(), &["compile", "p.kb", "--target", "sim"], "");
        assert_eq!(ran.code, 1, "{}", ran.stdout);
        assert!(ran.stderr.contains("[E1"), "{}", ran.stderr);
    }
}

#[test]
fn averages_are_sums_divided_once() {
    let dir = Scratch::new();
    for p in 1..=9 {
        for dtype in &ALL[..4] {
            let text = format!(
                "param p = 4\ntopology sys = ring(p)\n\
                 program x(x: {dtype}[10] partial(sum@tp)) -> ({dtype}[10], {dtype}[10@tp], {dtype}[10] only(0@tp)) {{\n\
                 (all_reduce(x, avg), reduce_scatter(x, avg, dim: 0), reduce(x, avg, to: 0))\n}}\n"
            );
            right(&dir, &text, &[&format!("p={p}")]);
        }
    }
}
