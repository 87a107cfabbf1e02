//! Tests of `kbc explain traffic`: counts against closed forms, and beside hand-written kernels
//! (ASC-10).

use crate::common;

use common::{Scratch, kbc};
use serde_json::Value;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn traffic(at: &Path, args: &[&str]) -> Value {
    let mut all = vec!["explain", "traffic"];
    all.extend(args);
    all.extend(["--format", "json"]);
    let ran = kbc(at, &all, "");
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn number(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("{v} is a number"))
}

/// What algorithms send, receive, reduce, copy and signal, from their definitions; n f32 on p
/// ranks, n a multiple of p.
#[test]
fn counts_are_those_of_the_algorithms() {
    let scratch = Scratch::new();
    for p in [2u64, 3, 4, 7, 8] {
        let n = 12 * p;
        let (whole, part) = (4 * n, 48);
        for (using, link, reduced, copied, rounds) in [
            ("ring", 2 * (p - 1) * part, (p - 1) * part, (p - 1) * part, 2 * (p - 1)),
            ("two_phase", 2 * (p - 1) * part, (p - 1) * part, (p - 1) * part, 2 * (p - 1)),
            ("one_phase", (p - 1) * whole, (p - 1) * whole, 0, p - 1),
        ] {
            let text = format!(
                "topology sys = full({p})\nmesh m = sys[tp]\nprogram f(x: f32[{n}] partial(sum@tp)) -> f32[{n}] {{\n    \
                 all_reduce(x, sum, over: tp, using: {using})\n}}\n"
            );
            scratch.write("f.kb", text.as_bytes());
            // A schedule copies in and out; its kernel does neither.
            let staged = if p % 2 == 0 { whole } else { 0 };
            let target = if staged == 0 { &["f.kb", "--target", "a2a3"][..] } else { &["f.kb"] };
            let found = traffic(scratch.path(), target);
            let row = &found["collectives"][0];
            let most = &row["most"];
            // A kernel reads what it puts, the first time from its origin, and all additions to one
            // place are one loop.
            let (read, written, fences) = match (staged, using) {
                (0, "ring") => (5 * (p - 1) * part, 2 * (p - 1) * part, 2 * rounds),
                (0, "two_phase") => ((3 * (p - 1) + 1) * part, p * part, 2 * p),
                (0, _) => ((p + 1) * whole, whole, 2),
                _ => (2 * reduced + copied, reduced + copied, 2 * rounds),
            };
            let want = serde_json::json!({
                "sent": link, "received": link, "read": read, "written": written, "copied": copied,
                "notifies": rounds, "waits": rounds, "fences": fences,
            });
            assert_eq!(most, &want, "{using} on {p}");
            // Algorithms that reduce blocks reach the bound.
            let bound = number(&row["bound"]);
            assert_eq!(bound, 2 * (p - 1) * part, "{row}");
            assert_eq!(row["percent"].as_f64(), Some(100.0 * bound as f64 / link as f64));
            // All ranks do the same.
            assert_eq!(
                (&row["mean"]["sent"], number(&row["stage_in"])),
                (&serde_json::json!(link as f64), staged)
            );
            assert_eq!(number(&row["stage_out"]), staged);
            assert_eq!(number(&found["whole"]["most"]["copied"]), copied + 2 * staged);
        }
    }
}

/// A kernel that pulls moves less of its own memory than the hand-written one, and a reduce_scatter
/// copies nothing at all.
#[test]
fn sums_stay_in_the_core() {
    let scratch = Scratch::new();
    let program = |signature: &str, body: &str| {
        let text = format!(
            "topology sys = full(8)\nmesh m = sys[tp]\nprogram f(x: f32[80000] partial(sum@tp)) -> {signature} {{ {body} }}\n"
        );
        scratch.write("f.kb", text.as_bytes());
        traffic(scratch.path(), &["f.kb", "--target", "a2a3"])
    };
    let (whole, part) = (320_000u64, 40_000u64);
    let own = |row: &Value| (number(&row["most"]["read"]), number(&row["most"]["written"]));
    let found = program("f32[80000]", "all_reduce(x, sum, over: tp, using: two_phase with (transfer: pull))");
    // Seven blocks into the window, eight contributions of which seven are pulled, the sum twice,
    // seven blocks pulled.
    assert_eq!(own(&found["whole"]), (whole, 2 * whole), "{found}");
    let list = found["collectives"][0]["hand_written"].as_array().expect("a list");
    let by_hand = list.iter().find(|k| k["name"] == "twophase").expect("it is there");
    assert_eq!((number(&by_hand["read"]), number(&by_hand["written"])), (400_000, 680_000));
    let found = program(
        "f32[80000@tp]",
        "reduce_scatter(x, sum, dim: 0, over: tp, using: direct with (transfer: pull))",
    );
    assert_eq!((own(&found["whole"]), &found["copies"]), ((whole, whole), &serde_json::json!([])), "{found}");
    let found = program("f32[80000@tp]", "reduce_scatter(x, sum, dim: 0, over: tp, using: direct)");
    assert_eq!((own(&found["whole"]), &found["copies"]), ((2 * whole - part, part), &serde_json::json!([])));
}

/// Functions of a result are computed in the loops of its collective: the result is in memory only
/// if another operation reads it.
#[test]
fn functions_of_a_result_move_nothing() {
    let scratch = Scratch::new();
    let moved = |body: &str| {
        let text = format!(
            "topology sys = full(4)\nmesh m = sys[tp]\nprogram f(x: f32[400] partial(sum@tp), r: f32[400]) -> {body}\n"
        );
        scratch.write("f.kb", text.as_bytes());
        let found = traffic(scratch.path(), &["f.kb", "--target", "a2a3"]);
        let most = &found["whole"]["most"];
        (number(&most["read"]), number(&most["written"]))
    };
    let reduced = "all_reduce(x, sum, over: tp, using: two_phase with (transfer: pull))";
    let (whole, part) = (1600, 400);
    let (alone, fused) =
        (moved(&format!("f32[400] {{ {reduced} }}")), moved(&format!("f32[400] {{ relu({reduced}) + r }}")));
    // Three blocks into the window, the own one added to and into the window, four of the result;
    // with the functions `r` is read.
    assert_eq!(alone, (4 * part, 3 * part + part + whole));
    assert_eq!(fused, (alone.0 + whole, alone.1));
    let both = moved(&format!("(f32[400], f32[400]) {{ let s = {reduced}; (s, relu(s) + r) }}"));
    assert!(both.0 > fused.0 && both.1 > fused.1 + whole, "{both:?}");
}

/// What hand-written kernels move, in numbers: eight ranks, 64 KiB.
#[test]
fn hand_written_kernels_are_beside_it() {
    let scratch = Scratch::new();
    let text = "topology sys = full(8)\nmesh m = sys[tp]\nprogram f(x: f32[16384] partial(sum@tp)) -> f32[16384] {\n    all_reduce(x, sum, over: \
                tp, using: ring)\n}\n";
    scratch.write("f.kb", text.as_bytes());
    let found = traffic(scratch.path(), &["f.kb", "--target", "a2a3sim"]);
    let list = found["collectives"][0]["hand_written"].as_array().expect("a list");
    let of = |link: u64| list.iter().filter(|k| number(&k["link"]) == link).count();
    // (P - 1) N twice, 2 (P - 1) N / P three times.
    assert_eq!((list.len(), of(7 * 65_536), of(14 * 8192)), (5, 2, 3), "{list:?}");
    let ring = list.iter().find(|k| k["stage_out"] == 65_536 && k["notifies"] == 14).expect("two copies");
    assert_eq!(
        (number(&ring["read"]), number(&ring["written"])),
        (2 * 65_536 + 57_344, 2 * 65_536 + 114_688)
    );
    assert!(found["source"].as_str().expect("where from").contains("6ebaf77"));
    // Without a target, and for one without data about hand-written kernels, there are none.
    for more in [&[][..], &["--target", "sim"]] {
        let found = traffic(scratch.path(), &[&["f.kb"], more].concat());
        assert_eq!(
            (&found["source"], &found["collectives"][0]["hand_written"]),
            (&Value::Null, &serde_json::json!([]))
        );
    }
}

/// Every cube core of a matmul counts: each of 3 x 3 loads its rows and its columns.
#[test]
fn every_cube_core_is_counted() {
    let scratch = Scratch::new();
    let text = "topology sys = full(2)\nmesh m = sys[tp]\n\
                program f(x: f16[270, 300], w: f16[300, 530]) -> f16[270, 530] { matmul(x, w) }\n";
    scratch.write("f.kb", text.as_bytes());
    let found = traffic(scratch.path(), &["f.kb", "--target", "a2a3"]);
    let most = &found["whole"]["most"];
    let want = (2 * 300 * 3 * (270 + 530), 2 * 270 * 530);
    assert_eq!((number(&most["read"]), number(&most["written"])), want, "{found}");
}

/// In every program, all bytes that are sent are received; schedules from text are counted as well.
#[test]
fn what_is_sent_is_received() {
    for file in [
        "specs/all_gather.kb",
        "specs/all_to_all.kb",
        "specs/broadcast.kb",
        "specs/overlap.kb",
        "specs/experts.kb",
        "specs/encoder.kb",
        "specs/local/mlp.kb",
        "specs/ascend/read_many_cores.kir",
    ] {
        let found = traffic(Path::new(ROOT), &[file]);
        let mean = &found["whole"]["mean"];
        assert_eq!(mean["sent"], mean["received"], "{file}");
        assert!(mean["sent"].as_f64().expect("a number") > 0.0, "{file}");
        let percent = &found["whole"]["percent"];
        assert!(percent.as_f64().is_none_or(|p| p <= 100.0 + 1e-9), "{file}: {percent}");
        assert_eq!(percent.is_null(), file.ends_with(".kir"), "{file}");
        // Its kernel sends the same, however it reads and writes its own memory.
        if ["gather", "all_to_all", "broadcast", "encoder"].iter().any(|f| file.contains(f)) {
            let kernel = traffic(Path::new(ROOT), &[file, "--target", "a2a3"]);
            let link =
                |v: &Value| (v["whole"]["most"]["sent"].clone(), v["whole"]["mean"]["received"].clone());
            assert_eq!(link(&kernel), link(&found), "{file}");
        }
        for c in found["collectives"].as_array().expect("a list") {
            let link = number(&c["most"]["sent"]).max(number(&c["most"]["received"]));
            assert!(c["bound"].is_null() || number(&c["bound"]) <= link, "{file}: {c}");
        }
    }
}
