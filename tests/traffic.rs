//! Tests of `kbc explain traffic`: counts against closed forms, and beside hand-written kernels
//! (ASC-10).

use crate::common;
use crate::emitting::Case;
use crate::standin::Run;

use common::{Scratch, kbc};
use kbc_ir::name::Name;
use kbc_tiles::tile::counts::{OpCounts, executed};
use kbc_tiles::tile::{COUNT, tasks};
use serde_json::Value;
use std::collections::BTreeMap;
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
            // A kernel reads what it puts from its origin, and sends what arrives from the core.
            // All additions to one place are one loop, and a round has one release and one acquire.
            let (read, written, fences) = match (staged, using) {
                (0, "ring") => ((3 * p - 2) * part, 2 * (p - 1) * part, 2 * rounds),
                (0, "two_phase") => ((3 * (p - 1) + 1) * part, p * part, 4),
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
    // The vector into the window, eight contributions of which seven are pulled, the sum twice,
    // seven blocks pulled.
    assert_eq!(own(&found["whole"]), (whole + part, 2 * whole + part), "{found}");
    let list = found["collectives"][0]["hand_written"].as_array().expect("a list");
    let by_hand = list.iter().find(|k| k["name"] == "twophase").expect("it is there");
    assert_eq!((number(&by_hand["read"]), number(&by_hand["written"])), (400_000, 680_000));
    let found = program(
        "f32[80000@tp]",
        "reduce_scatter(x, sum, dim: 0, over: tp, using: direct with (transfer: pull))",
    );
    let moved = (whole + part, whole + part);
    assert_eq!((own(&found["whole"]), &found["copies"]), (moved, &serde_json::json!([])), "{found}");
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
    // The vector into the window, the own block added to and into the window, four of the result;
    // with the functions `r` is read.
    assert_eq!(alone, (whole + part, whole + part + whole));
    assert_eq!(fused, (alone.0 + whole, alone.1));
    let both = moved(&format!("(f32[400], f32[400]) {{ let s = {reduced}; (s, relu(s) + r) }}"));
    // The two functions that follow are one loop, which reads the result and `r`.
    assert_eq!(both, (alone.0 + 2 * whole, alone.1 + whole));
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
        // So does what its kernel sends, however it reads and writes its own memory.
        if ["gather", "all_to_all", "broadcast", "encoder"].iter().any(|f| file.contains(f)) {
            let kernel = traffic(Path::new(ROOT), &[file, "--target", "a2a3"]);
            // It may have another algorithm, because kernels are searched with less effort.
            let mean = &kernel["whole"]["mean"];
            assert_eq!(mean["sent"], mean["received"], "{file}");
            assert!(mean["sent"].as_f64().expect("a number") > 0.0, "{file}");
        }
        for c in found["collectives"].as_array().expect("a list") {
            let link = number(&c["most"]["sent"]).max(number(&c["most"]["received"]));
            assert!(c["bound"].is_null() || number(&c["bound"]) <= link, "{file}: {c}");
        }
    }
}

/// Returns what the model counts for these operations, in the order of its numbers. Each task ends
/// with a barrier, and with a fence behind its status line. A selection is a comparison, a barrier
/// of the vector pipe and a choice.
fn as_executed(counts: &OpCounts, tasks: u64) -> Vec<u64> {
    let mut out = vec![
        counts.loads,
        counts.stores,
        counts.bytes_loaded,
        counts.bytes_stored,
        counts.flags_set,
        counts.flags_waited,
        counts.barriers_all + tasks,
        counts.memory_barriers + tasks,
        counts.notifies,
        counts.waits,
        counts.vector + counts.selections,
    ];
    out.extend(counts.barriers);
    out[12] += counts.selections;
    out
}

/// The counts of a kernel are the numbers of instructions that the model executes, on every kind of
/// core, with several cores, with rows, with loops over many tiles, and with tables.
#[test]
fn counts_are_what_is_executed() {
    let head = |p: u64| {
        format!("param tp = {p}\nparam n = 100\ntopology sys = full(tp)\nmesh m = sys[tp]\nprogram case")
    };
    let reduced = |using: &str| {
        let body = format!("all_reduce(x, sum, over: tp, using: {using})");
        head(4) + &format!("(x: f32[n] partial(sum@tp)) -> f32[n] {{ {body} }}\n")
    };
    let rows = "(x: f32[30, 25], g: f32[25]) -> (f32[30, 25], f32[25, 30]) \
                { (rms_norm(softmax(x, dim: 1), g), transpose(x, [1, 0])) }\n";
    let layer = "(x: f16[12, 16@tp], w: f16[16@tp, 40]) -> f16[12, 40] { relu(matmul(x, w)) }\n";
    let cases: [(String, &[(u64, u64)]); 7] = [
        (reduced("one_phase"), &[(4, 100), (2, 1), (3, 0)]),
        (reduced("two_phase with (transfer: pull)"), &[(4, 4 * 6 * 4096 + 77), (3, 1001)]),
        (reduced("ring with (cores: 2)"), &[(4, 1000), (2, 5 * 4096)]),
        (head(3) + rows, &[(3, 0)]),
        (head(2) + "(x: f32[n]) -> f32[n] { select(x < 3.0, x, x * 2.0) }\n", &[(2, 9 * 4096 + 1)]),
        (head(2) + layer, &[(2, 0)]),
        (head(4) + "(x: f32[n@tp]) -> f32[n] { all_gather(x, dim: 0, over: tp) }\n", &[(4, 4 * 900)]),
    ];
    for (text, sizes) in &cases {
        let mut case = Case::new(text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let Some(program) = case.program() else { return };
        let tasks = tasks::split(&case.kernel).iter().map(|t| u64::from(t.kernel.cores)).sum();
        for (ranks, count) in *sizes {
            // The launch that is counted is the fifth.
            let mut sized = case.at(*ranks, *count, 5);
            sized.job.count = true;
            let got = program.run_one(&sized.job).unwrap_or_else(|e| panic!("{e}\n{text}"));
            let of_rank = |rank: &Vec<Vec<u8>>| -> Vec<u64> {
                let bytes = rank.last().expect("the counts are behind the tensors");
                bytes
                    .chunks_exact(8)
                    .map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes")))
                    .collect()
            };
            let largest = |a: Vec<u64>, b: Vec<u64>| a.iter().zip(b).map(|(a, b)| b.max(*a)).collect();
            let ran = got[4].iter().map(of_rank).reduce(largest).expect("a rank");
            let scalars = BTreeMap::from([(Name::from(COUNT), *count as i64)]);
            let counts = executed(&case.kernel, *ranks, &scalars, 1_000_000).expect("it can be counted");
            assert_eq!(as_executed(&counts, tasks), ran, "{ranks} ranks, count {count}\n{text}");
            assert!(counts.loads > 0 || *count == 0, "{text}");
        }
    }
}

/// Tiles between the first and the last one are counted without being visited.
#[test]
fn many_tiles_are_counted_at_once() {
    let text = "param n = 100\ntopology sys = full(2)\nmesh m = sys[tp]\n\
                program f(x: f32[n] partial(sum@tp)) -> f32[n] { all_reduce(x, sum, over: tp, using: one_phase) }\n";
    let case = Case::new(text, &[]).expect("it is emitted");
    let of = |count: i64| {
        let scalars = BTreeMap::from([(Name::from(COUNT), count)]);
        executed(&case.kernel, 2, &scalars, 1000).expect("few events")
    };
    let tile = 4096;
    let (few, many) = (of(10 * tile), of(1_000_000 * tile));
    // Every tile has the same transfers; the notifies and waits are there once.
    assert_eq!(many.loads, 100_000 * few.loads);
    assert_eq!(many.bytes_stored, 100_000 * few.bytes_stored);
    assert_eq!((many.notifies, many.waits), (few.notifies, few.waits));
}

/// The manifest of a package has the counts of the kernel at its own size.
#[test]
fn manifests_have_the_counts() {
    let scratch = Scratch::new();
    let text = "param n = 400\ntopology sys = full(4)\nmesh m = sys[tp]\nprogram f(x: f32[n] partial(sum@tp)) -> f32[n] {\n    \
                all_reduce(x, sum, over: tp, using: two_phase)\n}\n";
    scratch.write("f.kb", text.as_bytes());
    let ran = kbc(scratch.path(), &["compile", "f.kb", "--target", "a2a3", "-o", "out"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let manifest = std::fs::read_to_string(scratch.path().join("out/manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    let found = traffic(scratch.path(), &["f.kb", "--target", "a2a3"]);
    assert_eq!(manifest["executed_at"], serde_json::json!({ "ranks": 4, "count": 400 }));
    let executes = &manifest["kernels"][0]["executes"];
    assert_eq!(executes, &found["kernel"]["most"], "{found}");
    let most = &found["whole"]["most"];
    // What the traffic says of bytes, notifies and waits is the same, counted from another kernel.
    let sum = |a: &str, b: &str| number(&most[a]) + number(&most[b]);
    let put = number(&most["sent"]);
    assert_eq!(number(&executes["bytes_loaded"]), number(&most["read"]));
    assert_eq!(number(&executes["bytes_stored"]), number(&most["written"]) + put);
    assert_eq!(number(&executes["notifies"]) + number(&executes["waits"]), sum("notifies", "waits"));
    // Six messages of a quarter, three sums of two, three copies, and copies in and out.
    let quarter = 400;
    let reads = (6 + 2 * 3 + 3 + 2 * 4) * quarter;
    let writes = (6 + 3 + 3 + 2 * 4) * quarter;
    let schedule = |side: &str| number(&found["kernel"][format!("schedule_{side}")]);
    assert_eq!((schedule("reads"), schedule("writes")), (reads, writes));
}

/// The table of docs/reference/ascend.md: kernels of kbc at the sizes of the reference's own
/// kernels, eight ranks.
#[test]
fn counts_beside_hand_written_kernels() {
    let scratch = Scratch::new();
    let counts = |signature: &str, body: &str| -> [u64; 11] {
        let text = format!("topology sys = full(8)\nmesh m = sys[tp]\nprogram f{signature} {{ {body} }}\n");
        scratch.write("f.kb", text.as_bytes());
        let found = traffic(scratch.path(), &["f.kb", "--target", "a2a3"]);
        let most = &found["kernel"]["most"];
        let names = [
            "loads",
            "stores",
            "bytes_loaded",
            "bytes_stored",
            "mean_bytes",
            "flags_set",
            "barriers_all",
            "dsb",
            "notifies",
            "waits",
            "vector",
        ];
        names.map(|n| number(&most[n]))
    };
    let reduced = |using: &str| {
        let body = format!("all_reduce(x, sum, over: tp, using: {using})");
        counts("(x: f32[256] partial(sum@tp)) -> f32[256]", &body)
    };
    let gathered = counts("(x: f32[512@tp]) -> f32[512]", "all_gather(x, dim: 0, over: tp, using: direct)");
    let scattered = |using: &str| {
        let body = format!("reduce_scatter(x, sum, dim: 0, over: tp, using: {using})");
        counts("(x: f32[512] partial(sum@tp)) -> f32[512@tp]", &body)
    };
    let pulled = counts(
        "(x: f32[512@tp]) -> f32[512]",
        "all_gather(x, dim: 0, over: tp, using: direct with (transfer: pull))",
    );
    let found = [
        ("`one_phase`", reduced("one_phase")),
        ("`one_phase`, pull", reduced("one_phase with (transfer: pull)")),
        ("`two_phase`", reduced("two_phase")),
        ("`two_phase`, pull", reduced("two_phase with (transfer: pull)")),
        ("`ring`", reduced("ring")),
        ("`all_gather`", gathered),
        ("`all_gather`, pull", pulled),
        ("`reduce_scatter`", scattered("direct")),
        ("`reduce_scatter`, pull", scattered("direct with (transfer: pull)")),
    ];
    let text = std::fs::read_to_string(Path::new(ROOT).join("docs/reference/ascend.md")).expect("the page");
    for (name, row) in found {
        let numbers: Vec<String> = row.iter().map(u64::to_string).collect();
        let line = format!("| kbc {name} | {} |\n", numbers.join(" | "));
        assert!(text.contains(&line), "the page has no row\n{line}");
    }
    // No count but the fences is above the hand-written kernel, and no mean transfer is smaller.
    let by_hand = [
        ("`one_phase`, pull", "`onephase`"),
        ("`two_phase`, pull", "`twophase`"),
        ("`ring`", "`ring`"),
        ("`all_gather`, pull", "`allgather`"),
        ("`reduce_scatter`, pull", "`reduce_scatter`"),
    ];
    for (own, theirs) in by_hand {
        let row = |start: String| -> Vec<u64> {
            let line = text.lines().find(|l| l.starts_with(&start)).expect("a row of the page");
            line.split('|').filter_map(|cell| cell.trim().parse().ok()).collect()
        };
        let (own, theirs) = (row(format!("| kbc {own} |")), row(format!("| hand-written {theirs} |")));
        assert_eq!((own.len(), theirs.len()), (11, 11), "{own:?} {theirs:?}");
        for (at, (own, theirs)) in own.iter().zip(&theirs).enumerate().filter(|(at, _)| *at != 7) {
            assert!(if at == 4 { own >= theirs } else { own <= theirs }, "column {at}: {own}, {theirs}");
        }
    }
}

/// Tasks that touch the same memory run one after another, and others beside each other. A launch
/// takes at least as long as the longest chain of them on one rank.
#[test]
fn tasks_of_a_launch_follow_each_other() {
    let scratch = Scratch::new();
    let program = |machine: &str, rest: &str| {
        let text = format!("topology sys = {machine}\nmesh m = sys[tp]\nprogram f{rest}\n");
        scratch.write("f.kb", text.as_bytes());
        let found = traffic(scratch.path(), &["f.kb", "--target", "a2a3"]);
        let roofline = found["kernel"]["roofline"].clone();
        let tasks = roofline["tasks"].as_array().expect("tasks");
        let times: Vec<f64> = tasks.iter().map(|t| t["at_least"].as_f64().expect("a time")).collect();
        let name = |t: &Value| t.as_str().expect("a name").to_owned();
        let chain: Vec<String> = roofline["chain"].as_array().expect("a chain").iter().map(name).collect();
        (times, chain, roofline["at_least"].as_f64().expect("a time"))
    };
    let fast = "full(2) { device: 24 TFLOP/s, 1 TB/s }";
    let near = |a: f64, b: f64| (a - b).abs() < 1e-6 * b;
    // A product, a function of it, and a product of that.
    let (times, chain, least) = program(
        fast,
        "(x: f32[64, 64], w: f32[64, 64]) -> f32[64, 64] { matmul(softmax(matmul(x, w), dim: 1), w) }",
    );
    assert_eq!(chain, ["t0", "t1", "t2"]);
    assert!(near(least, times.iter().sum()), "{least} {times:?}");
    // Products and a function of them, twice, which touch nothing of each other. The first two
    // tasks take longer.
    let (times, chain, least) = program(
        fast,
        "(x: f32[64, 64], y: f32[512, 64], w: f32[64, 64]) -> (f32[64, 64], f32[512, 64]) {
             let b = softmax(matmul(y, w), dim: 1);
             (softmax(matmul(x, matmul(w, w)), dim: 1), b)
         }",
    );
    assert_eq!((times.len(), chain), (4, vec!["t0".to_owned(), "t1".to_owned()]));
    assert!(near(least, times[0] + times[1]) && times[2] + times[3] < least, "{least} {times:?}");
    // Rank 0 gathers while rank 1 scatters: each of them has one of the two.
    let (times, chain, least) = program(
        "full(4) { device: 24 TFLOP/s, 1 TB/s; core_put: 1 KiB, 250 ns; core_get: 1 KiB, 250 ns }",
        "(x: f32[256@tp, 64], w: f32[64, 64], y: f32[256, 64] only(1@tp)) -> (f32[256, 64] only(0@tp), f32[256@tp, 64]) {
             let g = gather(x, dim: 0, to: 0, over: tp, using: direct with (transfer: pull));
             let u = matmul(w, w);
             (g, matmul(scatter(y, dim: 0, from: 1, over: tp, using: direct), u))
         }",
    );
    let both = times.iter().filter(|ns| **ns >= 12_000.0).count();
    assert_eq!(both, 2, "{times:?}");
    assert!((12_000.0..13_000.0).contains(&least), "{chain:?} {least} {times:?}");
}

/// Times of tasks are bytes, transfers, operations and notifies by the rates of the machine, of the
/// busiest core where a rate is that of a core. What takes longest bounds the task.
#[test]
fn rooflines_follow_from_rates() {
    let scratch = Scratch::new();
    let rates = "device: 24 TFLOP/s, 1 TB/s; core_memory: 10 GB/s; core_transfer: 50 ns; core_flag: 20 ns; core_get: 1 KiB, 700 ns; core_put: 1 KiB, 500 ns; notify: 1 us";
    let program = |machine: &str, rest: &str| {
        let text = format!("topology sys = full(4){machine}\nmesh m = sys[tp]\nprogram f{rest}\n");
        scratch.write("f.kb", text.as_bytes());
        traffic(scratch.path(), &["f.kb", "--target", "a2a3"])
    };
    let reduced =
        "(x: f32[4096] partial(sum@tp)) -> f32[4096] { all_reduce(x, sum, over: tp, using: two_phase) }";
    let found = program(&format!(" {{ {rates} }}"), reduced);
    let roofline = &found["kernel"]["roofline"];
    assert_eq!(roofline["not_stated"], serde_json::json!([]), "{roofline}");
    let task = &roofline["tasks"][0];
    let (executed, whole) = (&found["kernel"]["most"], number(&task["memory_bytes"]));
    // Each rank sends three blocks of 4 KiB twice.
    let peers = 6 * 4096;
    assert_eq!(number(&task["peer_bytes"]), peers);
    assert_eq!(whole + peers, number(&executed["bytes_loaded"]) + number(&executed["bytes_stored"]));
    assert_eq!((&task["core"], number(&task["cores"]), number(&task["notifies"])), (&"aiv".into(), 1, 6));
    // Six stores go to peers; the two pipes of transfers take their own at the same time.
    let (loads, stores) = (number(&executed["loads"]), number(&executed["stores"]) - 6);
    assert_eq!(
        (number(&task["transfers"]), task["flags"].clone()),
        (loads + stores, executed["flags_waited"].clone())
    );
    let flags = task["times"]["flags"].as_f64().expect("a time");
    let all = number(&task["flags"]) as f64 * 20.0;
    // Three pipes wait.
    assert!(all / 3.0 <= flags && flags < all && flags % 20.0 == 0.0, "{task}");
    let expected = [
        ("memory", whole as f64 / 1000.0),
        ("core memory", whole as f64 / 10.0),
        ("transfers", loads.max(stores) as f64 * 50.0),
        ("flags", flags),
        ("peers", 6.0 * 4.0 * 500.0),
        ("notifies", 6000.0),
    ];
    let times = task["times"].as_object().expect("times");
    assert_eq!(times.len(), expected.len(), "{task}");
    for (name, ns) in expected {
        assert!((times[name].as_f64().expect("a time") - ns).abs() < 1e-6, "{name}: {task}");
    }
    let longest = expected.iter().fold(0.0, |a: f64, e| a.max(e.1));
    assert_eq!((task["bound"].as_str(), task["at_least"].as_f64()), (Some("peers"), Some(longest)));
    assert_eq!((&roofline["chain"], &roofline["at_least"]), (&serde_json::json!(["f"]), &task["at_least"]));
    // A transpose moves elements one by one.
    let found =
        program(&format!(" {{ {rates} }}"), "(x: f32[160, 30]) -> f32[30, 160] { transpose(x, [1, 0]) }");
    let (task, counts) = (&found["kernel"]["roofline"]["tasks"][0], &found["kernel"]["most"]);
    let most = number(&counts["loads"]).max(number(&counts["stores"]));
    assert_eq!(task["times"]["transfers"].as_f64(), Some(most as f64 * 50.0), "{task}");
    // Four cube cores with equal parts, each with a 24th of the peak.
    let product = "(x: f32[256, 512], w: f32[512, 512]) -> f32[256, 512] { matmul(x, w) }";
    let found = program(&format!(" {{ {rates} }}"), product);
    let task = &found["kernel"]["roofline"]["tasks"][0];
    let flops = 2 * 256 * 512 * 512;
    assert_eq!((number(&task["flops"]), number(&task["cores"])), (flops, 4), "{task}");
    let ns = task["times"]["products"].as_f64().expect("a time");
    assert!((ns - flops as f64 / 4.0 * 24.0 / 24e12 * 1e9).abs() < 1e-3, "{task}");
    assert_eq!(task["bound"], "products");
    // What the machine does not state has no time.
    let found = program("", reduced);
    let roofline = &found["kernel"]["roofline"];
    assert_eq!(roofline["rates"], serde_json::json!([]));
    assert!(
        roofline["tasks"][0]["bound"].is_null() && roofline["tasks"][0]["times"] == serde_json::json!({})
    );
    let said = kbc(scratch.path(), &["explain", "traffic", "f.kb", "--target", "a2a3"], "").stdout;
    let words = "no roofline: the program's machine states no device, core_memory, core_transfer, core_flag, core_get, core_put, notify\n";
    assert!(said.contains(words), "{said}");
    // A schedule has no machine.
    assert_eq!(
        kbc(scratch.path(), &["compile", "f.kb", "--emit", "kir=f.kir", "--passes", "windows"], "").code,
        0
    );
    let found = traffic(scratch.path(), &["f.kir", "--target", "a2a3"]);
    assert!(found["kernel"]["roofline"].is_null(), "{found}");
}
