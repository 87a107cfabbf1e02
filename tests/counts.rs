//! Tests of `all_to_all` with a matrix of counts (ALG-1, TP-7): dispatch and combine with blocks of
//! any length, including none, on two to nine ranks, with every algorithm that sends blocks
//! directly, on both engines. The expected result of a dispatch is computed here from the matrix
//! alone. The messages about matrices and lengths that do not fit are tested, too.

use crate::common;

use common::{Ran, Scratch, kbc};
use serde_json::Value;

/// Returns a matrix of counts, half of them 0. If there are three ranks, one has nothing and one
/// gets nothing.
fn matrix(p: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut m: Vec<Vec<usize>> =
        (0..p).map(|_| (0..p).map(|_| if next() % 2 == 0 { 0 } else { next() % 7 }).collect()).collect();
    if p > 2 {
        m[seed as usize % p].fill(0);
        m.iter_mut().for_each(|row| row[(seed as usize + 1) % p] = 0);
    }
    m[0][0] += 1;
    m
}

fn transposed(m: &[Vec<usize>]) -> Vec<Vec<usize>> {
    (0..m.len()).map(|d| m.iter().map(|row| row[d]).collect()).collect()
}

fn sums(m: &[Vec<usize>]) -> Vec<usize> {
    m.iter().map(|row| row.iter().sum()).collect()
}

/// Formats a list, such as `3, 0, 5`.
fn list(v: &[usize]) -> String {
    v.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn report(ran: &Ran, what: &str) -> Value {
    assert_eq!(ran.code, 0, "{what}\n{}", ran.stderr);
    let r: Value = serde_json::from_str(&ran.stdout).expect("one JSON object");
    assert_eq!((&r["verified"]["ok"], &r["verified"]["calls"]), (&true.into(), &"any".into()), "{what}");
    assert_eq!(r["compare"]["mismatches"], 0, "{what}");
    r
}

/// Returns a program that sends its rows out and gets them back.
fn round_trip(m: &[Vec<usize>], dtype: &str, algorithm: &str) -> String {
    let (p, back) = (m.len(), transposed(m));
    let (sent, got) = (list(&sums(m)), list(&sums(&back)));
    let n: usize = sums(m).iter().sum();
    format!(
        "topology sys = full({p})\nmesh m = sys[ep]\n\
         program trip(x: {dtype}[{n}@ep(lengths: [{sent}]), 3]) -> ({dtype}[{n}, 3], {dtype}[{n}, 3], {dtype}[{n}@ep(lengths: [{sent}]), 3]) {{\n\
         let there: {dtype}[{n}@ep(lengths: [{got}]), 3] = all_to_all(x, counts: {m:?}, using: {algorithm})\n\
         let home = all_to_all(there, counts: {back:?}, using: {algorithm});\n\
         (x, there, home)\n}}\n"
    )
}

/// Returns the integers of a file with `n` rows of three.
fn rows(dir: &Scratch, name: &str, n: usize) -> Vec<[i32; 3]> {
    let bytes = std::fs::read(dir.path().join(name)).expect("written");
    let words: Vec<i32> = bytes[bytes.len() - 12 * n..]
        .chunks(4)
        .map(|w| i32::from_le_bytes(w.try_into().expect("four bytes")))
        .collect();
    words.chunks(3).map(|w| [w[0], w[1], w[2]]).collect()
}

#[test]
fn a_dispatch_sends_block_after_block_and_a_combine_brings_them_back() {
    let dir = Scratch::new();
    for p in 2..=9 {
        let m = matrix(p, p as u64);
        let n: usize = sums(&m).iter().sum();
        for algorithm in ["direct", "pairwise"] {
            dir.write("p.kb", round_trip(&m, "i32", algorithm).as_bytes());
            for engine in ["jit", "interp"] {
                let outputs = ["out0=x.npy", "out1=y.npy", "out2=z.npy"];
                let mut args = vec!["run", "p.kb", "--no-time", "-q", "--engine", engine];
                outputs.iter().for_each(|o| args.extend(["--output", *o]));
                let ran = kbc(dir.path(), &args, "");
                assert_eq!(ran.code, 0, "{m:?} {algorithm} {engine}\n{}", ran.stderr);
                let (x, y, z) = (rows(&dir, "x.npy", n), rows(&dir, "y.npy", n), rows(&dir, "z.npy", n));
                // Each block as a run of x: the runs for one d after another, and for each d from
                // one s after another.
                let mut want = vec![];
                for d in 0..p {
                    let mut first = 0;
                    for row in &m {
                        let at = first + row[..d].iter().sum::<usize>();
                        want.extend_from_slice(&x[at..at + row[d]]);
                        first += row.iter().sum::<usize>();
                    }
                }
                assert_eq!(y, want, "{m:?} {algorithm} {engine}");
                assert_eq!(z, x, "{m:?} {algorithm} {engine}");
            }
        }
    }
}

/// Proof, comparison with one device, and timing.
#[test]
fn every_type_is_proven_compared_and_timed() {
    let dir = Scratch::new();
    for (i, dtype) in ["f32", "f16", "bf16", "i32", "i8", "u8", "i16", "i64"].iter().enumerate() {
        for algorithm in ["direct", "pairwise"] {
            let m = matrix(2 + i, 7 + i as u64);
            let text = round_trip(&m, dtype, algorithm);
            dir.write("p.kb", text.as_bytes());
            let ran = kbc(dir.path(), &["compile", "p.kb", "--target", "sim", "--format", "json"], "");
            let r = report(&ran, &text);
            let (time, bound) = (r["time_ns"].as_f64().expect("ns"), r["bound_ns"].as_f64().expect("ns"));
            assert!(bound > 0.0 && bound <= time * (1.0 + 1e-9), "{time} under {bound}\n{text}");
        }
    }
}

/// Other axes are used independently, other work is interleaved, and a value may be wanted in
/// another placement.
#[test]
fn lengths_are_a_placement_like_others() {
    let dir = Scratch::new();
    let text = "topology sys = torus(2, 3)\nmesh m = sys[dp: 2, ep: 3]\n\
        program mixed(x: f32[11@ep(lengths: [4, 0, 7]), 6@dp], b: f32[6@dp], h: f32[9@ep(lengths: [2, 3, 4])] partial(sum@dp), o: f32[4@ep(lengths: [1, 0, 3])] only(1@dp)) -> \
        (f32[11@ep(lengths: [4, 0, 7]), 6@dp], f32[11, 6], f32[11@ep, 6], f32[11@ep(lengths: [1, 1, 9]), 6], f32[6], f32[9@ep(lengths: [3, 3, 3])], f32[4]) {\n\
        let y = all_to_all(x, counts: [[1, 0, 3], [0, 0, 0], [0, 2, 5]], over: ep)\n\
        let z = gelu(y) + b\n\
        let home = all_to_all(z, counts: [[1, 0, 0], [0, 0, 2], [3, 0, 5]], over: ep)\n\
        let turned = all_to_all(h, counts: [[0, 2, 0], [1, 1, 1], [2, 0, 2]], over: ep)\n\
        let one = all_to_all(o, counts: [[0, 0, 1], [0, 0, 0], [1, 1, 1]], over: ep);\n\
        (home, z, z, z, sum(z, dim: 0), turned, one)\n}\n";
    dir.write("p.kb", text.as_bytes());
    let ran = kbc(dir.path(), &["compile", "p.kb", "--target", "sim", "--format", "json"], "");
    report(&ran, text);
}

#[test]
fn it_holds_call_after_call_in_any_order() {
    let dir = Scratch::new();
    for algorithm in ["direct", "pairwise"] {
        dir.write("p.kb", round_trip(&matrix(5, 3), "f32", algorithm).as_bytes());
        let ran = kbc(dir.path(), &["run", "p.kb", "--adversarial", "--seeds", "5", "--calls", "4"], "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
}

/// Algorithms that forward blocks through other ranks have no scratch of the right length for them.
#[test]
fn blocks_through_scratch_are_refused_and_not_selected() {
    let dir = Scratch::new();
    for (shape, algorithm) in [("full(4)", "bruck"), ("torus(2, 2)", "torus2")] {
        let text = round_trip(&matrix(4, 1), "f32", algorithm).replace("full(4)", shape);
        dir.write("p.kb", text.as_bytes());
        let ran = kbc(dir.path(), &["check", "p.kb"], "");
        assert!(ran.code == 1 && ran.stderr.contains("[E332]"), "{algorithm}\n{}{}", ran.stdout, ran.stderr);
        let free = text.replace(&format!(", using: {algorithm}"), "");
        dir.write("p.kb", free.as_bytes());
        let ran = kbc(dir.path(), &["check", "p.kb"], "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(!ran.stdout.contains(algorithm), "{}", ran.stdout);
    }
}

/// A schedule whose tables do not come from one matrix is not an all_to_all.
#[test]
fn a_wrong_table_is_rejected() {
    let dir = Scratch::new();
    let text = "topology sys = full(2)\nmesh m = sys[ep]\n\
        program p(x: f32[6@ep(lengths: [3, 3])]) -> f32[6@ep(lengths: [2, 4])] { all_to_all(x, counts: [[0, 3], [2, 1]], using: direct) }\n";
    dir.write("p.kb", text.as_bytes());
    let ran = kbc(dir.path(), &["compile", "p.kb", "--target", "sim", "--emit", "kir=p.kir", "-q"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let kir = std::fs::read_to_string(dir.path().join("p.kir")).expect("written");
    assert!(
        kir.contains("lengths [[0, 3], [2, 1]] row ep") && kir.contains("lengths [[0, 2], [3, 1]] row ep"),
        "{kir}"
    );
    let check = |text: &str| {
        dir.write("q.kir", text.as_bytes());
        kbc(dir.path(), &["check", "q.kir"], "")
    };
    assert_eq!(check(&kir).code, 0);
    for (wrong, code) in [
        ("lengths [[1, 1], [3, 1]] row ep", "E30"),
        ("lengths [[2, 0], [1, 3]] row ep", "E30"),
        ("lengths [[0, 2], [3, 2]] row ep", "E323"),
        ("lengths [[0, 2]] row ep", "E323"),
        ("lengths [[0, 2, 0], [3, 1, 0]] row ep", "E323"),
        ("row ep", "E323"),
    ] {
        let ran = check(&kir.replace("lengths [[0, 2], [3, 1]] row ep", wrong));
        assert!(ran.code == 1 && ran.stderr.contains(code), "{wrong}\n{}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn what_does_not_fit_is_said_where_it_is() {
    let dir = Scratch::new();
    let head = "fn less(s, d, p) = s - d\nfn three(r, p) = 3\nfn minus(r, p) = r - 1\ntopology sys = full(2)\nmesh m = sys[ep]\n";
    let operand = "x: f32[6@ep(lengths: [2, 4]), 2]";
    let counts = |c: &str| format!("program p({operand}) -> f32[6, 2] {{ all_to_all(x, counts: {c}) }}");
    let typed = |t: &str| format!("program p(x: f32[{t}, 2]) -> f32[6, 2] {{ x }}");
    for (program, code, words) in [
        (counts("[[1, 1]]"), "E217", "1 rows of counts for the 2 ranks of `ep`"),
        (counts("[[1, 1], [1, 2, 1]]"), "E217", "3 counts in a row for the 2 ranks"),
        (counts("[[1, 1], [5, -1]]"), "E217", "a count is negative"),
        (counts("less"), "E217", "less(0, 1, 2) is -1"),
        (counts("nothing"), "E005", "`nothing`"),
        (counts("3"), "E006", "a matrix"),
        (counts("[1, 2]"), "E006", "a matrix"),
        (counts("[[1, 1], [1, 2]]"), "E208", "rank 1 has 4 rows, and its counts 1, 2 add up to 3"),
        (counts("[[1, 1], [1, 3]], from: 0"), "E006", "`from:` and `counts:` exclude each other"),
        (counts("[[1, 9223372036854775807], [1, 3]]"), "E217", "more than any memory"),
        (
            counts("[[1, 1], [1, 3]]").replace("6@ep(lengths: [2, 4])", "6"),
            "E208",
            "dimension 0 is not split over `ep`",
        ),
        (
            counts("[[1, 1], [1, 3]]").replace("6@ep(lengths: [2, 4]), 2", "6, 2@ep"),
            "E208",
            "dimension 0 is not split over `ep`",
        ),
        (typed("6@ep(lengths: [2, 3])"), "E216", "the lengths add up to 5, and the dimension has 6"),
        (typed("6@ep(lengths: [6])"), "E216", "1 lengths for the 2 parts of `ep`"),
        (typed("6@ep(lengths: [7, -1])"), "E216", "a length is negative"),
        (typed("6@ep(by: minus)"), "E216", "minus(0, 2) is -1"),
        (typed("6@ep(by: floor)"), "E005", "`floor`"),
        (typed("5@ep(by: three)"), "E216", "the lengths add up to 6, and the dimension has 5"),
        (
            "program p(x: f32[6@ep(lengths: [2, 4]), 2]) -> f32[6, 2] { shift(x, by: 1) }".into(),
            "E208",
            "the parts of dimension 0 have explicit lengths, 2, 4",
        ),
    ] {
        dir.write("p.kb", format!("{head}{program}\n").as_bytes());
        let ran = kbc(dir.path(), &["check", "p.kb"], "");
        assert_eq!(ran.code, 1, "{program}\n{}", ran.stdout);
        assert!(
            ran.stderr.contains(&format!("[{code}]")) && ran.stderr.contains(words),
            "{program}\n{}",
            ran.stderr
        );
    }
}

/// A kernel has tables of the starts of parts. `tests/emitted.rs` (specs/ragged.kb) checks that its
/// numbers are right on every rank.
#[test]
fn it_is_emitted() {
    let dir = Scratch::new();
    dir.write("p.kb", round_trip(&matrix(3, 5), "f32", "direct").as_bytes());
    let ran = kbc(dir.path(), &["compile", "p.kb", "--target", "a2a3", "-o", "out"], "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    assert!(dir.path().join("out/main.py").exists());
}
