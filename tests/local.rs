//! Tests of local programs (TP-8, SYNC-6): data of each rank, the same numbers as a global program,
//! every collective on several machines, one role for ranks with one body, and other commands on
//! them. Wrong programs are in tests/bad.

use crate::common;

use common::{Scratch, kbc, root};
use kbc_numerics::formats::{read, write_npz};
use kbc_numerics::tensor::{Data, Tensor};
use serde_json::Value;

fn tensor(shape: &[u64], f: impl Fn(usize) -> f32) -> Tensor {
    let n = shape.iter().product::<u64>() as usize;
    Tensor::new(shape.to_vec(), Data::F32((0..n).map(f).collect())).expect("as many as the shape says")
}

fn floats(t: &Tensor) -> Vec<f64> {
    t.data().to_f64()
}

fn json(scratch: &Scratch, args: &[&str]) -> (i32, Value, String) {
    let ran = kbc(scratch.path(), args, "");
    (ran.code, serde_json::from_str(&ran.stdout).unwrap_or(Value::Null), ran.stderr)
}

const LAYER: &str = r#"
topology sys = ring(3) { link: 50 GB/s, 500 ns }
mesh m = sys[tp]
local program layer over (r of tp) {
    ranks 0..3 (x: f32[4, 6] = "ranks/*.npz":x, w: f32[6, 2] = "ranks/*.npz":w, v: f32[2, 6] = "ranks/*.npz":v) -> f32[4, 6] {
        let h = relu(matmul(x, w))
        let y = all_reduce(matmul(h, v), sum, over: tp)
        wait(y)
    }
    expect "ranks/*.npz":out
}
"#;

const GLOBAL: &str = r#"
topology sys = ring(3) { link: 50 GB/s, 500 ns }
mesh m = sys[tp]
program layer(x: f32[4, 6] = "all.npz":x, w: f32[6, 6@tp] = "all.npz":w, v: f32[6@tp, 6] = "all.npz":v) -> f32[4, 6] {
    matmul(relu(matmul(x, w)), v)
}
"#;

/// The parts of each rank computed by hand, the layer as a global program, and both compared.
#[test]
fn data_of_each_rank_and_the_numbers_of_a_global_program() {
    let scratch = Scratch::new();
    let x = tensor(&[4, 6], |i| (i as f32 * 0.37).sin());
    let w = tensor(&[6, 6], |i| (i as f32 * 0.11).cos());
    let v = tensor(&[6, 6], |i| (i as f32 * 0.23).sin());
    let all = [("x", &x), ("w", &w), ("v", &v)].map(|(n, t)| (n.to_owned(), t.clone()));
    scratch.write("all.npz", &write_npz(&all).expect("an archive"));
    scratch.write("global.kb", GLOBAL.as_bytes());
    let (code, _, stderr) =
        json(&scratch, &["compile", "global.kb", "--output", "out=out.npy", "--format", "json"]);
    assert_eq!(code, 0, "{stderr}");
    let whole = read("out.npy", &std::fs::read(scratch.path().join("out.npy")).expect("written"), None)
        .expect("an array");

    let rank = |r: u64, out: &Tensor| {
        let w = w.extract(&[(0, 6), (2 * r, 2 * r + 2)]).expect("columns");
        let v = v.extract(&[(2 * r, 2 * r + 2), (0, 6)]).expect("rows");
        let list = [("x", &x), ("w", &w), ("v", &v), ("out", out)].map(|(n, t)| (n.to_owned(), t.clone()));
        scratch.write(&format!("ranks/{r}.npz"), &write_npz(&list).expect("an archive"));
    };
    (0..3).for_each(|r| rank(r, &whole));
    scratch.write("layer.kb", LAYER.as_bytes());
    let (code, r, stderr) =
        json(&scratch, &["compile", "layer.kb", "--output", "out=stack.npy", "--format", "json"]);
    assert_eq!((code, &r["ok"]), (0, &true.into()), "{stderr}");
    assert_eq!(r["inputs"][1]["from"], "ranks/*.npz:w");
    assert_eq!(r["inputs"][1]["type"], "f32[3@tp, 6, 2]");
    assert_eq!(r["compare"]["elements"], 3 * 24);
    assert_eq!((&r["expect"][0]["elements"], &r["expect"][0]["mismatches"]), (&(3 * 24).into(), &0.into()));
    let stack = read("stack.npy", &std::fs::read(scratch.path().join("stack.npy")).expect("written"), None)
        .expect("an array");
    assert_eq!(stack.shape(), [3, 4, 6]);
    for (i, got) in floats(&stack).into_iter().enumerate() {
        let want = floats(&whole)[i % 24];
        assert!((got - want).abs() < 1e-5, "element {i}: {got}, {want}");
    }

    // One wrong number on one rank is found there; the stored result differs, not the schedule.
    let other = tensor(&[4, 6], |i| floats(&whole)[i] as f32 + if i == 7 { 0.25 } else { 0.0 });
    rank(1, &other);
    let (code, r, stderr) = json(&scratch, &["compile", "layer.kb", "--format", "json"]);
    assert_eq!((code, &r["ok"]), (1, &false.into()));
    assert!(stderr.contains("E430"), "{stderr}");
    assert_eq!((&r["compare"]["mismatches"], &r["expect"][0]["mismatches"]), (&0.into(), &1.into()));
    assert_eq!(
        (&r["expect"][0]["worst"]["rank"], &r["expect"][0]["worst"]["index"]),
        (&"tp=1".into(), &vec![1, 1, 1].into())
    );
}

/// Returns every collective in its local form, over one axis, another and both.
fn every_collective(p: u64, over: &str) -> String {
    let p = p as usize;
    let row: Vec<String> = (0..p).map(|_| format!("[{}]", vec!["2"; p].join(", "))).collect();
    format!(
        "        let a{n} = all_reduce(x, sum, over: {over}, using: {one})
        let b{n} = all_reduce(x, max, over: {over})
        let c{n} = all_reduce(x, avg, over: {over})
        let d{n} = all_gather(x, dim: 1, over: {over})
        let e{n} = wait(d{n})
        let f{n} = reduce_scatter(e{n}, sum, dim: 1, over: {over})
        let g{n} = all_to_all(e{n}, from: 0, to: 1, over: {over})
        let h{n} = all_to_all(wait(g{n}), from: 1, to: 0, over: {over})
        let i{n} = broadcast(x, root: {root}, over: {over})
        let j{n} = all_to_all(slice(x, dim: 0, from: 0, to: {rows}), counts: [{counts}], over: {over})
        let k{n} = barrier(x, over: {over})
        let l{n} = wait(a{n}) + wait(b{n}) + wait(c{n}) + wait(f{n}) + slice(wait(h{n}), dim: 1, from: 0, to: 3)
        let m{n} = l{n} + wait(i{n}) + wait(k{n}) + sum(sum(wait(j{n}), dim: 0, keep: true), dim: 1, keep: true)
",
        n = over.chars().filter(char::is_ascii_alphanumeric).collect::<String>(),
        one = "one_phase",
        root = p - 1,
        rows = 2 * p,
        counts = row.join(", "),
    )
}

#[test]
fn every_collective_over_one_axis_and_over_two() {
    let scratch = Scratch::new();
    for (machine, dp, tp) in [("torus(2, 3)", 2, 3), ("full(4)", 2, 2), ("ring(4)", 4, 1), ("full(6)", 3, 2)]
    {
        let body = [(tp, "tp"), (dp, "dp"), (dp * tp, "(dp, tp)")]
            .map(|(p, over)| every_collective(p, over))
            .concat();
        let text = format!(
            "topology sys = {machine} {{ link: 50 GB/s, 500 ns }}
mesh m = sys[dp: {dp}, tp: {tp}]
local program all over (d of dp, t of tp) {{
    ranks 0..{n} (x: f32[{rows}, 3]) -> f32[{rows}, 3] {{
{body}        mtp + mdp + mdptp
    }}
}}
",
            n = dp * tp,
            rows = 2 * dp * tp,
        );
        scratch.write("all.kb", text.as_bytes());
        let elements = dp * tp * 2 * dp * tp * 3;
        let run = ["run", "all.kb", "--adversarial", "--seeds", "3", "--format", "json"];
        let (code, r, stderr) = json(&scratch, &run);
        assert_eq!((code, &r["ok"]), (0, &true.into()), "{machine}: {stderr}\n{text}");
        assert_eq!(r["compare"]["elements"], 4 * elements, "{machine}");
        assert!(r["adversarial"]["elements"].as_u64() > Some(0), "{machine}");
        let (code, r, stderr) =
            json(&scratch, &["run", "all.kb", "--engine", "interp", "--no-time", "--format", "json"]);
        assert_eq!((code, &r["ok"]), (0, &true.into()), "{machine}: {stderr}");
        assert_eq!(r["compare"]["elements"], elements, "{machine}");
        let (code, r, stderr) = json(&scratch, &["check", "all.kb", "--format", "json"]);
        assert_eq!((code, &r["ok"]), (0, &true.into()), "{machine}: {stderr}");
    }
}

/// Ranks with one body are one role: the schedule of 64 ranks has as many lines as that of 8.
#[test]
fn ranks_with_one_body_are_not_expanded() {
    let lines = |tp: u32| {
        let define = format!("tp={tp}");
        let ring = "specs/local/mlp.kb";
        let ran = kbc(root(), &["compile", ring, "-D", &define, "--emit", "kir=-"], "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let roles = ran.stdout.lines().filter(|l| l.trim_start().starts_with("role ")).count();
        let regions = ran.stdout.lines().filter(|l| l.starts_with("region ")).count();
        assert_eq!(roles, regions, "a role a region");
        ran.stdout.lines().count()
    };
    assert_eq!(lines(16), lines(64));
}

/// Parts that share a group through a third one, a group that takes no part, and the reason where
/// parts diverge.
#[test]
fn parts_meet_through_their_groups() {
    let scratch = Scratch::new();
    let text = "topology sys = torus(2, 2) { link: 50 GB/s, 500 ns }
mesh m = sys[dp: 2, tp: 2]
local program p over (d of dp, t of tp) {
    ranks 0..2 (x: f32[4]) -> f32 {
        let y = all_reduce(x, sum, over: tp)
        let z = wait(y)
        let s = all_reduce(sum(z, dim: 0), max, over: dp)
        wait(s)
    }
    ranks 2..4 (x: f32[5], n: f32) -> f32[2] {
        let s = all_reduce(sum(x, dim: 0) + n, max, over: dp)
        let t = wait(s)
        let u = all_gather(reshape(t, [1]), dim: 0, over: tp)
        wait(u)
    }
}
";
    scratch.write("p.kb", text.as_bytes());
    let (code, r, stderr) = json(&scratch, &["run", "p.kb", "--adversarial", "--format", "json"]);
    assert_eq!((code, &r["ok"]), (0, &true.into()), "{stderr}");
    let names: Vec<&str> =
        r["collectives"].as_array().expect("a list").iter().filter_map(|c| c["operation"].as_str()).collect();
    assert_eq!(names, ["all_reduce", "all_reduce", "all_gather"]);
    // Four calls of two numbers and two pairs.
    assert_eq!(r["compare"]["elements"], 4 * 6);
}

#[test]
fn other_verbs() {
    let file = "specs/local/stages.kb";
    let ok = |args: &[&str], words: &[&str]| {
        let ran = kbc(root(), args, "");
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        for w in words {
            assert!(ran.stdout.contains(w), "{args:?}: {w}\n{}", ran.stdout);
        }
    };
    ok(
        &["explain", "placement", file],
        &["ranks 0, 1: types state the sizes on one rank", "f32[4, 8]", "wait("],
    );
    ok(&["explain", "select", file], &["all_reduce", "recursive_doubling"]);
    ok(&["explain", "bound", file], &["all_reduce"]);
    ok(&["explain", "path", file], &["stage=0"]);
    ok(&["compile", file, "--emit", "graph=-"], &["local @stages", "ranks 2..4", "using", "wait.result %y"]);
    ok(&["compile", file, "--emit", "dot-graph=-"], &["digraph \"stages_r2\"", "all_reduce"]);
    ok(&["run", file, "--emit", "log=-"], &["all_reduce"]);
    ok(&["mutate", file, "--format", "json"], &["\"mutants\""]);
    ok(&["fmt", "--check", file], &[]);
    let ran = kbc(root(), &["compile", file, "--target", "a2a3sim", "--emit", "cpp=-"], "");
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("[E548]") && ran.stderr.contains("--target sim"), "{}", ran.stderr);
    let ran = kbc(root(), &["compile", file, "--passes", "infer,place,select,expand", "--emit", "kir=-"], "");
    assert!(ran.stdout.contains("role ranks_2 where"), "{}", ran.stdout);
}

/// Programs are called on a rank's own sizes, sizes are set by `-D`, and the results of a call's
/// collectives are values at once.
#[test]
fn called_programs_and_sizes() {
    let scratch = Scratch::new();
    let text = "topology sys = ring(4) { link: 50 GB/s, 500 ns }
mesh m = sys[tp]
program twice[A, B](x: f32[A, B]) -> f32[B, A] { transpose(x + x, [1, 0]) }
program mean_of[A](x: f32[A], a: axis) -> f32[A] { 2 * all_reduce(x, avg, over: a) }
local program g[N] over (t of tp) {
    ranks 0..4 (x: f32[N, 6], v: f32[3]) -> (f32[6, N], f32[3]) {
        let y: f32[N, 6] = wait(all_reduce(x, sum, over: tp));
        (twice(y), mean_of(v, a: tp))
    }
}
";
    scratch.write("g.kb", text.as_bytes());
    let (code, r, stderr) = json(&scratch, &["compile", "g.kb", "-D", "N=5", "--format", "json"]);
    assert_eq!((code, &r["ok"]), (0, &true.into()), "{stderr}");
    assert_eq!(r["inputs"][0]["type"], "f32[4@tp, 5, 6]");
    assert_eq!(r["compare"]["elements"], 4 * (30 + 3));
    let (code, _, stderr) = json(&scratch, &["compile", "g.kb"]);
    assert!(code == 1 && stderr.contains("[E231]") && stderr.contains("-D N=25"), "{stderr}");
}

/// Any disagreement of ranks is an error with both places (SYNC-6): operation, count, type,
/// reduction, order, root, splits, algorithm, group, and a collective under a condition that only
/// some ranks have.
#[test]
fn every_mismatch_shows_both_places() {
    let scratch = Scratch::new();
    let first = "let y = all_reduce(x, sum, over: tp)\n let z = wait(y)";
    let other = [
        (
            "let y = all_gather(x, dim: 0, over: tp)\n let z = wait(y)",
            "E544",
            "operation: all_reduce and all_gather",
        ),
        (
            "let y = all_reduce(slice(x, dim: 0, from: 0, to: 2), sum, over: tp)\n let z = wait(y)",
            "E544",
            "operand: f32[4] and f32[2]",
        ),
        ("let y = all_reduce(f16(x), sum, over: tp)\n let z = wait(y)", "E544", "operand: f32[4] and f16[4]"),
        ("let y = all_reduce(x, min, over: tp)\n let z = wait(y)", "E544", "reduction: sum and min"),
        (
            "let y = all_reduce(x, sum, over: tp, using: one_phase)\n let z = wait(y)",
            "E544",
            "algorithm: none and one_phase",
        ),
        (
            "let y = all_reduce(x, sum, over: dp)\n let z = wait(y)",
            "E543",
            "rank 0 issues all_reduce as collective 1 over tp (ranks 0, 1), and rank 1 never issues it",
        ),
        ("let z = x", "E543", "never issues it"),
    ];
    let second = [
        (
            "let y = broadcast(x, root: 0, over: tp)\n let z = wait(y)",
            "let y = broadcast(x, root: 1, over: tp)\n let z = wait(y)",
            "E544",
            "root: 0 and 1",
        ),
        (
            "let y = all_to_all(x, counts: [[2, 2], [2, 2]], over: tp)\n let z = wait(y)",
            "let y = all_to_all(x, counts: [[2, 2], [3, 1]], over: tp)\n let z = wait(y)",
            "E544",
            "counts: [[2, 2], [2, 2]] and [[2, 2], [3, 1]]",
        ),
        (
            "let y = all_reduce(x, sum, over: tp)\n let v = all_gather(x, dim: 0, over: tp)\n let w = wait(v)\n let z = wait(y)",
            "let v = all_gather(x, dim: 0, over: tp)\n let y = all_reduce(x, sum, over: tp)\n let w = wait(v)\n let z = wait(y)",
            "E544",
            "operation: all_reduce and all_gather",
        ),
    ];
    let all = other.map(|(b, code, words)| (first, b, code, words)).into_iter().chain(second);
    for (a, b, code, words) in all {
        let text = format!(
            "topology sys = torus(2, 2) {{ link: 50 GB/s, 500 ns }}
mesh m = sys[dp: 2, tp: 2]
local program p over (d of dp, t of tp) {{
    ranks 0..1, 2..4 (x: f32[4]) -> f32[4] {{
 {a}
 let _z = z; x
    }}
    ranks 1..2 (x: f32[4]) -> f32[4] {{
 {b}
 let _z = z; x
    }}
}}
"
        );
        scratch.write("p.kb", text.as_bytes());
        for verb in ["check", "compile", "run"] {
            let ran = kbc(scratch.path(), &[verb, "p.kb"], "");
            assert_eq!(ran.code, 1, "{words}: {}", ran.stderr);
            assert!(
                ran.stderr.contains(&format!("[{code}]")) && ran.stderr.contains(words),
                "{words}\n{}",
                ran.stderr
            );
            // A line of each part.
            for place in [a, if code == "E543" { "ranks 1..2" } else { b }] {
                let line = place.lines().next().expect("a line").trim();
                assert!(ran.stderr.contains(line), "{words}: {line}\n{}", ran.stderr);
            }
        }
    }
}
