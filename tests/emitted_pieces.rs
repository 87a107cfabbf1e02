//! Tests of emitted programs in pieces: matmuls beside the collectives of other pieces, pieces that
//! are used where they are, and kernels that several pieces share. They run under the memory model
//! of the stand-in headers, and every element is compared.

use crate::cases::all_cases;
use crate::common::{Scratch, free_sizes, root};
use crate::emitting::Case;
use crate::standin::Run;
use kbc_tiles::tile::tasks::{Task, split};
use kbc_tiles::tile::{Core, Object, Op, TensorUse};
use serde_json::Value;
use std::collections::BTreeSet;

fn head(p: u64) -> String {
    format!(
        "param tp = {p}\nparam n = 24\ntopology sys = full(tp) {{ link: 50 GB/s, 500 ns; device: 10 TFLOP/s, 1 TB/s }}\nmesh m = sys[tp]\n"
    )
}

fn emitted(text: &str) -> Case {
    Case::new(text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn is_matmul(task: &Task) -> bool {
    task.kernel.core == Core::Matrix
}

/// Returns, for each task, whether it is certain that the last matmul has ended when it begins: it
/// or an earlier task that it waits for touches what the matmul writes.
fn waits_for(tasks: &[Task], matmul: usize) -> Vec<bool> {
    let mut touched: BTreeSet<Object> = tasks[matmul].uses.writes.clone();
    let mut out = vec![false; tasks.len()];
    for (i, t) in tasks.iter().enumerate().skip(matmul + 1) {
        if t.uses.reads.union(&t.uses.writes).any(|o| touched.contains(o)) {
            out[i] = true;
            touched.extend(&t.uses.writes);
        }
    }
    out
}

/// An all-reduce of a product in four pieces: four matmuls and four collectives, each of which
/// waits for the matmul of its own piece alone. Nothing is copied, and one kernel serves all
/// matmuls and one all collectives.
#[test]
fn each_collective_waits_for_its_own_matmul() {
    for (using, cores) in [("two_phase", 1), ("two_phase with (cores: 3)", 3), ("ring", 1)] {
        let with = if using.contains("with") {
            using.replace(')', ", overlap: 4)")
        } else {
            format!("{using} with (overlap: 4)")
        };
        let text = head(4)
            + &format!(
                "program case(x: f16[n, 40@tp], w: f16[40@tp, 33]) -> f16[n, 33] {{
                    all_reduce(matmul(x, w), sum, over: tp, using: {with})
                }}\n"
            );
        let mut case = emitted(&text);
        let tasks = split(&case.kernel);
        assert_eq!(tasks.iter().filter(|t| is_matmul(t)).count(), 4, "{}", case.text);
        assert_eq!(tasks.iter().filter(|t| t.uses.shared).count(), 4, "{}", case.text);
        assert_eq!(tasks.len(), 8, "no task copies: {}", case.text);
        for (number, (matmul, _)) in tasks.iter().enumerate().filter(|(_, t)| is_matmul(t)).enumerate() {
            let waits = waits_for(&tasks, matmul);
            let collectives = tasks.iter().zip(&waits).filter(|(t, _)| t.uses.shared);
            let first = collectives.map(|(_, w)| *w).position(|w| w);
            assert_eq!(first, Some(number), "{using}: the first collective that waits for matmul {number}");
        }
        // A result is written where it is wanted.
        let result = |o: &Object| match o {
            Object::Tensor(t) => case.kernel.tensors[t.0 as usize].access == TensorUse::Out,
            Object::Area(_) => false,
        };
        assert!(tasks.iter().filter(|t| t.uses.shared).all(|t| t.uses.writes.iter().any(result)));
        assert_eq!(case.sources.len(), 2, "{:?}", case.sources.iter().map(|s| &s.tasks).collect::<Vec<_>>());
        assert!(case.sources.iter().all(|s| s.tasks.len() == 4 && !s.scalars.is_empty()));
        assert!(tasks.iter().filter(|t| !is_matmul(t)).all(|t| t.kernel.cores == cores));
        case.check(&[(4, 0), (4, 4), (4, 24), (4, 100)], 3);
    }
}

/// Pieces of other collectives and of matrices in batches; pieces that are not runs of elements,
/// and pieces of different sizes.
#[test]
fn other_pieces() {
    for (inputs, result, body) in [
        (
            "x: f32[n, 24@tp], w: f32[24@tp, 30]",
            "f32[n, 30@tp]",
            "reduce_scatter(matmul(x, w), sum, dim: 1, over: tp, using: direct with (overlap: 3))",
        ),
        (
            "x: f32[24@tp, n], w: f32[n, 30@tp]",
            "f32[24, 30@tp]",
            "matmul(all_gather(x, dim: 0, over: tp, using: direct with (overlap: 2)), w)",
        ),
        (
            "x: f32[24, n@tp], w: f32[n@tp, 30]",
            "f32[24@tp, 30]",
            "reduce_scatter(matmul(x, w), sum, dim: 0, over: tp, using: direct with (overlap: 3))",
        ),
        (
            "x: f32[3, 10, 24@tp], w: f32[3, 24@tp, 7]",
            "f32[3, 10, 7]",
            "all_reduce(matmul(x, w), sum, over: tp, using: ring with (overlap: 3))",
        ),
        (
            "x: f32[25, 24@tp], w: f32[24@tp, 30]",
            "f32[25, 30]",
            "relu(all_reduce(matmul(relu(x), w), sum, over: tp, using: two_phase with (overlap: 4)))",
        ),
        (
            "x: f32[24, 24@tp], w: f32[24@tp, 30], v: f32[30, 9]",
            "f32[24, 9]",
            "matmul(all_reduce(matmul(x, w), sum, over: tp, using: two_phase with (transfer: pull, overlap: 4)), v)",
        ),
    ] {
        let text = head(3) + &format!("program case({inputs}) -> {result} {{ {body} }}\n");
        emitted(&text).check_own(3);
    }
}

/// Slices and pieces in programs without `overlap`: slices of a slice, of a value that is written
/// again, and of what peers read; pieces that are read before all are there, of results, of several
/// sizes, and of rows.
#[test]
fn slices_and_pieces() {
    for (inputs, result, body) in [
        (
            "x: f32[n, 8]",
            "f32[9, 8]",
            "relu(slice(slice(x, dim: 0, from: 3, to: 20), dim: 0, from: 5, to: 14))",
        ),
        (
            "x: f32[n, 8]",
            "f32[n, 8]",
            "concat(slice(x, dim: 0, from: 7, to: 24), slice(x, dim: 0, from: 0, to: 7), dim: 0)",
        ),
        ("x: f32[n, 8]", "f32[2 * n, 8]", "let y = relu(x); concat(y, y, dim: 0)"),
        ("x: f32[n, 8]", "f32[2 * n, 8]", "concat(relu(x), x * 2.0, dim: 0)"),
        ("x: f32[n, 8]", "f32[n, 16]", "concat(relu(x), x * 2.0, dim: 1)"),
        (
            "x: f32[n, 8]",
            "(f32[2 * n, 8], f32[n, 8])",
            "let y = x * 3.0; (concat(relu(x), y, dim: 0), y + 1.0)",
        ),
        (
            "x: f32[n, 8] partial(sum@tp)",
            "f32[n, 8]",
            "let y = all_reduce(x, sum, over: tp, using: ring); concat(slice(y, dim: 0, from: 12, to: 24), slice(y, dim: 0, from: 0, to: 12) * 2.0, dim: 0)",
        ),
        (
            "x: f32[n, 8] partial(sum@tp)",
            "f32[5, 8]",
            "all_reduce(slice(x, dim: 0, from: 4, to: 9), sum, over: tp, using: two_phase)",
        ),
        (
            "x: f32[n, 8], w: f32[8, 8]",
            "f32[n, 8]",
            "let y = matmul(x, w); concat(matmul(slice(y, dim: 0, from: 10, to: 24), w), slice(y, dim: 0, from: 0, to: 10), dim: 0)",
        ),
        // Functions of a collective's result that are computed where it is stored: of pieces, with
        // slices.
        (
            "x: f32[n, 8] partial(sum@tp), b: f32[n, 8]",
            "f32[2 * n, 8]",
            "concat(b * 2.0, relu(all_reduce(x, sum, over: tp, using: one_phase)), dim: 0)",
        ),
        (
            "x: f32[n, 8] partial(sum@tp), r: f32[2 * n, 8]",
            "f32[n, 8]",
            "all_reduce(x, sum, over: tp, using: one_phase) + slice(r, dim: 0, from: 24, to: 48)",
        ),
        (
            "x: f32[n, 8] partial(sum@tp), y: f32[n, 8] partial(sum@tp), s: f32[n, 8]",
            "f32[2 * n, 8]",
            "let a = all_reduce(x, sum, over: tp, using: one_phase) + s; let b = all_reduce(y, sum, over: tp, using: one_phase) + s; concat(relu(b), relu(a), dim: 0)",
        ),
        // Several cores on pieces that are not divided as the whole is.
        (
            "x: f32[n, 40] partial(sum@tp), y: f32[n, 40] partial(sum@tp)",
            "f32[n, 40]",
            "let a = all_reduce(x, sum, over: tp, using: two_phase with (cores: 3)); let b = all_reduce(y, sum, over: tp, using: two_phase with (cores: 3)); let c = concat(a, b, dim: 0); slice(c, dim: 0, from: 11, to: 35) * 2.0",
        ),
    ] {
        let text = head(2) + &format!("program case({inputs}) -> {result} {{ {body} }}\n");
        emitted(&text).check_own(3);
    }
}

/// Numbers of tasks that are arguments keep apart from names of the program, and so do names of the
/// text.
#[test]
fn names_of_arguments_are_free() {
    for name in ["waits_from", "piece_x_0", "completion"] {
        let text = format!(
            "topology sys = full(4) {{ link: 50 GB/s, 500 ns }}
            mesh m = sys[dp: 2, {name}: 2]
            program case({name}: f16[24, 40@{name}], w: f16[40@{name}, 33]) -> f16[24, 33] {{
                all_reduce(matmul({name}, w), sum, over: {name}, using: two_phase with (overlap: 4))
            }}\n"
        );
        emitted(&text).check_own(3);
        deferring(&text).check_own(2);
    }
}

/// The limit of conditions holds at every number of ranks that a package serves.
#[test]
fn tasks_have_at_most_64_conditions() {
    for (p, using) in [(16, "one_phase with (instances: 8)"), (2, "two_phase with (cores: 16)")] {
        let call = format!("all_reduce(x, sum, over: tp, using: {using})");
        let text = head(p) + &format!("program case(x: f32[n] partial(sum@tp)) -> f32[n] {{ {call} }}\n");
        let mut case = deferring(&text);
        // The stand-in counts them.
        let ranks = case.ranks();
        assert!(ranks.contains(&p), "{ranks:?}");
        case.check(&ranks.into_iter().map(|r| (r, 24)).collect::<Vec<_>>(), 2);
    }
}

/// Returns a program whose tasks end where they would wait.
fn deferring(text: &str) -> Case {
    let target = kbc_compiler::backends::default_target().with_deferred_waits().expect("Ascend defers");
    Case::for_target(text, target).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Every program of `specs` that the target accepts, with deferred waits.
#[test]
fn specs_with_deferred_waits() {
    let mut files: Vec<_> = std::fs::read_dir(root().join("specs"))
        .expect("a folder")
        .map(|f| f.expect("a file").path())
        .filter(|f| f.extension().is_some_and(|e| e == "kb"))
        .collect();
    files.sort();
    let mut ran = 0;
    for file in files.iter().step_by(if all_cases() { 1 } else { 3 }) {
        let name = file.file_name().expect("a name").to_string_lossy();
        let text = std::fs::read_to_string(file).expect("a program");
        let path = format!("specs/{name}");
        let flags = [free_sizes(&path, &text), vec!["--target", "a2a3", "--deferred-waits"]].concat();
        match Case::of_file_as(file, &flags) {
            Ok(mut case) => case.check_own(2),
            Err(why) => {
                assert!(["host_loop.kb", "in_network.kb"].contains(&&*name), "{name}: {why}");
                continue;
            }
        }
        ran += 1;
    }
    assert!(ran >= if all_cases() { 21 } else { 7 }, "{ran}");
}

/// Algorithms that wait in rounds, in conditions and for several peers, with deferred waits.
#[test]
fn algorithms_with_deferred_waits() {
    for algorithm in [
        "ring",
        "recursive_doubling",
        "halving_doubling",
        "double_tree",
        "nhr",
        "swing",
        "bidirectional_ring",
        "ring with (pipeline: 2)",
        "double_tree with (cores: 2)",
    ] {
        let call = format!("all_reduce(x, sum, over: tp, using: {algorithm})");
        let text = head(4) + &format!("program case(x: f32[n] partial(sum@tp)) -> f32[n] {{ {call} }}\n");
        deferring(&text).check(&[(4, 24), (4, 1003)], 3);
    }
}

/// With deferred waits, a kernel becomes tasks that end where it would wait, on one core and on
/// several, alone and beside matmuls. The rounds of a ring stay in their kernel.
#[test]
fn tasks_end_where_they_would_wait() {
    let defers = |case: &Case| {
        let mut found = (0, 0);
        kbc_tiles::tile::visit::each_op(&case.kernel.body, &mut |op| match op {
            Op::Defer { .. } => found.0 += 1,
            Op::Wait { .. } => found.1 += 1,
            _ => {}
        });
        found
    };
    for (using, tasks, loops) in [
        ("direct", 2, false),
        ("two_phase", 3, false),
        ("one_phase", 2, false),
        ("two_phase with (transfer: pull)", 3, false),
        ("two_phase with (cores: 3)", 3, false),
        ("ring", 3, true),
    ] {
        let kind = if using == "direct" { "f32[n@tp]" } else { "f32[n] partial(sum@tp)" };
        let call = match using {
            "direct" => "all_gather(x, dim: 0, over: tp, using: direct)".to_owned(),
            _ => format!("all_reduce(x, sum, over: tp, using: {using})"),
        };
        let text = head(3) + &format!("program case(x: {kind}) -> f32[n] {{ {call} }}\n");
        let mut case = deferring(&text);
        assert_eq!(split(&case.kernel).len(), tasks, "{using}: {}", case.text);
        let (deferred, waited) = defers(&case);
        assert_eq!((deferred > 0, waited > 0), (tasks > 1, loops), "{using}: {}", case.text);
        let ranks: Vec<u64> = case.ranks().into_iter().filter(|r| *r <= 4).collect();
        assert!(ranks.contains(&3) && ranks.len() >= 2, "{using}: {ranks:?}");
        case.check(&[(3, 0), (3, 7), (3, 4000), (3, 24)], 3);
        case.check(&ranks.into_iter().map(|r| (r, 1009)).collect::<Vec<_>>(), 2);
    }
    // Roles of a tree wait inside of conditions; rows stay in the core between two collectives;
    // cores meet before and behind them.
    for (inputs, result, body) in [
        ("x: f32[n] only(1@tp)", "f32[n]", "broadcast(x, over: tp)"),
        (
            "x: f32[n, 16] partial(sum@tp), g: f32[16]",
            "f32[n, 16]",
            "all_gather(rms_norm(reduce_scatter(x, sum, dim: 0, over: tp, using: direct), g), dim: 0, over: tp, using: direct)",
        ),
        (
            "x: f32[n] partial(sum@tp)",
            "f32[n]",
            "relu(all_reduce(x * 2.0, sum, over: tp, using: two_phase with (cores: 3)) + 1.0)",
        ),
    ] {
        let text = head(3) + &format!("program case({inputs}) -> {result} {{ {body} }}\n");
        deferring(&text).check_own(3);
    }
    let text = head(4)
        + "program case(x: f16[n, 40@tp], w: f16[40@tp, 33]) -> f16[n, 33] {
            all_reduce(matmul(x, w), sum, over: tp, using: two_phase with (overlap: 4))
        }\n";
    let mut case = deferring(&text);
    let tasks = split(&case.kernel);
    // A collective is what precedes its first wait, what precedes its second one, and the rest.
    assert_eq!((tasks.len(), defers(&case).1), (16, 0), "{}", case.text);
    assert_eq!(case.sources.len(), 4, "{:?}", case.sources.iter().map(|s| &s.tasks).collect::<Vec<_>>());
    case.check(&[(4, 24), (4, 100)], 3);
}

/// A condition that is left out, and one that is too early, are noticed.
#[test]
fn every_condition_is_needed() {
    let text = head(3)
        + "program case(x: f32[n] partial(sum@tp)) -> f32[n] { all_reduce(x, sum, over: tp, using: two_phase) }\n";
    let mut case = deferring(&text);
    let sized = case.at(3, 24, 3);
    let Some(right) = case.program() else { return };
    right.run_one(&sized.job).unwrap_or_else(|e| panic!("{e}"));
    let mut changed = 0;
    for i in 0..case.sources.len() {
        for (from, to) in
            [("Defer(completion,", "(void)completion;  // (completion,"), (", call", ", -1 + call")]
        {
            let is_one = |l: &str| l.trim_start().starts_with("Defer(completion,");
            let text = case.sources[i].text.clone();
            let Some(line) = text.lines().find(|l| is_one(l)) else { continue };
            let other = text.replacen(line, &line.replacen(from, to, 1), 1);
            let mut source = case.source();
            source.kernels[i].text = &other;
            let broken = case.program_of(&source).expect("a compiler");
            assert!(broken.run_one(&sized.job).is_err(), "{line}");
            changed += 1;
        }
    }
    assert_eq!(changed, 4);
}

/// The time of a program of tasks is that of tasks that run beside each other, and so is what is
/// proven: the matmuls have a stream of their own where something can run beside them.
#[test]
fn time_is_that_of_tasks() {
    let ran = |overlap: &str| {
        let program = format!(
            "{}program case(x: f16[512, 2048@tp], w: f16[2048@tp, 256]) -> f16[512, 256] {{
                all_reduce(matmul(x, w), sum, over: tp, using: two_phase with (overlap: {overlap}))
            }}\n",
            head(4)
        );
        let scratch = Scratch::new();
        scratch.write("p.kb", program.as_bytes());
        let line = "kbc compile p.kb --passes tasks --format json --emit kir=p.kir";
        let ran = scratch.line(line);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
        assert_eq!(report["verified"]["ok"], true, "{}", report["verified"]);
        assert_eq!(report["compare"]["mismatches"], 0);
        let kir = std::fs::read_to_string(scratch.path().join("p.kir")).expect("written");
        (report["time_ns"].as_f64().expect("a time"), kir.contains("stream matrix"))
    };
    let (whole, pieces) = (ran("1"), ran("4"));
    assert_eq!((whole.1, pieces.1), (false, true));
    assert!(pieces.0 < 0.95 * whole.0, "{} ns in pieces, {} ns as a whole", pieces.0, whole.0);
}
