//! Tests of collectives that overlap with matmuls: the numbers are those of whole matmuls on both
//! engines, and less communication is exposed.

use crate::common;

use common::{Scratch, kbc};
use serde_json::Value;

/// Returns the bits of the result of a program with an engine, and its report.
fn run(text: &str, engine: &str) -> (Vec<u8>, Value) {
    let scratch = Scratch::new();
    scratch.write("p.kb", text.as_bytes());
    let args = [
        "compile",
        "p.kb",
        "--target",
        "sim",
        "--engine",
        engine,
        "--format",
        "json",
        "--output",
        "out=r.npz",
    ];
    let ran = kbc(scratch.path(), &args, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{text}\n{}", ran.stdout);
    let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
    assert_eq!((&report["ok"], &report["compare"]["mismatches"]), (&true.into(), &0.into()), "{text}");
    (std::fs::read(scratch.path().join("r.npz")).expect("written"), report)
}

fn program(p: u64, args: &str, result: &str, body: &str) -> String {
    format!(
        "topology sys = ring({p}) {{ link: 50 GB/s, 500 ns; device: 1 TFLOP/s, 1.6 TB/s }}\nmesh m = sys[tp]\n\
         program p({args}) -> {result} {{ {body} }}\n"
    )
}

/// Every cut, on parts of one length and of several: bit for bit the result of the whole, on both
/// engines.
#[test]
fn pieces_give_the_bits_of_the_whole() {
    let cases = [
        (
            "x: f32[7, 9@tp], w: f32[9@tp, 11]",
            "f32[7, 11]",
            "all_reduce(matmul(x, w), sum, over: tp, using: ring$)",
        ),
        (
            "x: f32[7, 9@tp], w: f32[9@tp, 11]",
            "f32[7@tp, 11]",
            "reduce_scatter(matmul(x, w), sum, dim: 0, over: tp, using: ring$)",
        ),
        (
            "x: f32[3, 7, 9@tp], w: f32[9@tp, 5]",
            "f32[3, 7@tp, 5]",
            "reduce_scatter(matmul(x, w), sum, dim: 1, over: tp, using: direct$)",
        ),
        // Rows within each rank's part, for two matmuls and another use.
        (
            "x: f32[24@tp, 9], w: f32[9, 11@tp], v: f32[9, 24]",
            "f32[24, 11@tp]",
            "let g = all_gather(x, dim: 0, over: tp, using: ring$)\n let y = matmul(g, w) + matmul(matmul(g, v), matmul(g, w))\n y * sum(sum(g, dim: 0), dim: 0)",
        ),
        // Gathered weights: columns.
        (
            "x: f32[5, 9], w: f32[9@tp, 11]",
            "f32[5, 11]",
            "matmul(x, all_gather(w, dim: 0, over: tp, using: ring$))",
        ),
        // A leading dimension of both operands.
        (
            "x: f32[4, 6@tp, 3], w: f32[4, 3, 5]",
            "f32[4, 6, 5]",
            "matmul(all_gather(x, dim: 1, over: tp, using: ring$), w)",
        ),
    ];
    for (args, result, body) in cases {
        for p in [2, 3] {
            let with = |option: &str| program(p, args, result, &body.replace('$', option));
            let (whole, _) = run(&with(" with (overlap: 1)"), "jit");
            for k in [2, 3, 4] {
                let text = with(&format!(" with (overlap: {k})"));
                assert!(run(&text, "jit").0 == whole, "{text}");
                assert!(run(&text, "interp").0 == whole, "{text}");
            }
        }
    }
}

/// Without options, the compiler cuts where it pays, reports what is exposed, and is not slower
/// than sequential execution.
#[test]
fn what_is_chosen_is_faster() {
    let text = std::fs::read_to_string(common::root().join("specs/overlap.kb")).expect("a spec");
    let (free, report) = run(&text.replace(" with (overlap: 4)", ""), "jit");
    let whole = text.replace("(overlap: 4)", "(overlap: 1)").replace(
        "all_gather(x, dim: 0, over: tp)",
        "all_gather(x, dim: 0, over: tp, using: direct with (overlap: 1))",
    );
    let (serial, before) = run(&whole, "jit");
    assert!(free == serial);
    let time = |r: &Value| r["time_ns"].as_f64().expect("a time");
    assert!(time(&report) < 0.95 * time(&before), "{} against {}", time(&report), time(&before));
    let (all, exposed) = (report["communication_ns"].as_f64(), report["exposed_ns"].as_f64());
    assert!(exposed < all.map(|a| 0.5 * a), "{exposed:?} of {all:?}");
}

/// In a local program, a collective overlaps with what is written before its `wait`.
#[test]
fn local_programs_say_themselves_what_runs_beside_what() {
    let text = std::fs::read_to_string(common::root().join("specs/local/overlap.kb")).expect("a spec");
    let waiting = text
        .replace(
            "let b = all_reduce(matmul(y, w), sum, over: tp)",
            "let c = wait(a)\n let b = all_reduce(matmul(y, w), sum, over: tp)",
        )
        .replace("concat(wait(a),", "concat(c,");
    assert_ne!(text, waiting);
    let ((one, beside), (other, after)) = (run(&text, "jit"), run(&waiting, "jit"));
    assert!(one == other && one == run(&text, "interp").0);
    let time = |r: &Value| r["time_ns"].as_f64().expect("a time");
    assert!(time(&beside) < time(&after));
    assert!(beside["exposed_ns"].as_f64() < after["time_ns"].as_f64());
}

/// Runs a program of the repository, and returns its time and the number of its collectives. Every
/// element of its results was compared.
fn timed(file: &str, more: &[&str]) -> (f64, usize) {
    let mut args = vec!["compile", file, "--target", "sim", "--format", "json"];
    args.extend(more);
    let ran = kbc(common::root(), &args, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{more:?}\n{}", ran.stdout);
    let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
    assert_eq!((&report["ok"], &report["compare"]["mismatches"]), (&true.into(), &0.into()), "{more:?}");
    assert_eq!(report["verified"]["calls"], "any", "{more:?}");
    let collectives = report["collectives"].as_array().expect("a list").len();
    (report["time_ns"].as_f64().expect("a time"), collectives)
}

/// Collectives beside each other, and collectives that become one, have the right data on every
/// rank on both engines, are proven, and are faster than one after another.
#[test]
fn independent_collectives_are_right_and_faster() {
    let one = "infer,place,select,overlap{streams=1},expand,allocate,synchronize";
    let (serial, all) = timed("specs/independent.kb", &["--passes", one]);
    assert_eq!(all, 4);
    for engine in ["jit", "interp"] {
        let (beside, all) = timed("specs/independent.kb", &["--engine", engine]);
        assert!(all == 4 && beside < 0.6 * serial, "{beside} of {serial}");
        // The three sums become one, beside the gather.
        let (joined, all) = timed("specs/independent.kb", &["--engine", engine, "--fuse", "8192"]);
        assert!(all == 2 && joined < 0.6 * serial, "{joined} of {serial}");
        // The scale does not fit.
        assert_eq!(timed("specs/independent.kb", &["--engine", engine, "--fuse", "4000"]).1, 3);
        let fixed = ["--engine", engine, "--fuse", "8192", "--order", "fixed"];
        assert_eq!(timed("specs/independent.kb", &fixed).1, 2);
    }
}
