//! Tests of tile kernels: machine code gives the interpreter's bits, every element agrees with one
//! device, the derived collectives are as expected, and tiles change times, never numbers.
//!
//! Lines `//= ARGUMENTS => COLLECTIVES` of a file of `tests/tiles` state how it is run, with `none`
//! for no collective. To add a case, copy a file.

use crate::common;

use common::{Scratch, kbc, root, split};
use serde_json::Value;

/// Returns the bits of the result, and the report.
fn run(text: &str, args: &[String], engine: &str) -> (Vec<u8>, Value) {
    let scratch = Scratch::new();
    scratch.write("p.kb", text.as_bytes());
    let mut all =
        vec!["compile", "p.kb", "--engine", engine, "--format", "json", "--output", "out=r.safetensors"];
    all.extend(args.iter().map(String::as_str));
    let ran = kbc(scratch.path(), &all, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}\n{text}\n{}", ran.stdout);
    let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
    assert_eq!(
        (&report["ok"], &report["compare"]["mismatches"]),
        (&true.into(), &0.into()),
        "{args:?} {text}"
    );
    (std::fs::read(scratch.path().join("r.safetensors")).expect("written"), report)
}

#[test]
fn files() {
    let mut files: Vec<_> = std::fs::read_dir(root().join("tests/tiles"))
        .expect("there")
        .map(|f| f.expect("read").path())
        .collect();
    files.sort();
    assert!(files.len() > 4, "the files are there");
    let mut runs = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        let lines: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("//= ")).collect();
        assert!(!lines.is_empty(), "{} is never run", file.display());
        for line in lines {
            let (args, want) = line.split_once("=>").expect("ARGUMENTS => COLLECTIVES");
            let args = split(args);
            let (by_code, report) = run(&text, &args, "jit");
            let (by_hand, _) = run(&text, &args, "interp");
            assert!(by_code == by_hand, "{} {line}: machine code gives other bits", file.display());
            let list = report["collectives"].as_array().expect("a list");
            let names: Vec<&str> = list.iter().map(|c| c["operation"].as_str().expect("a word")).collect();
            let have = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            assert_eq!(have, want.trim(), "{} {line}", file.display());
            runs += 1;
        }
    }
    assert!(runs > 25, "{runs} runs");
}

/// The terms of a matmul are added one after the other whatever the tiles are; smaller tiles read
/// more.
#[test]
fn tiles_change_times_and_not_numbers() {
    let text = "param t = 1\nparam d = 1\ntopology sys = ring(2) { link: 50 GB/s, 500 ns; device: 1 TFLOP/s, 10 GB/s }\n\
        mesh m = sys[tp]\n\
        kernel gemm[M, K, N](a: f32[M, K], b: f32[K, N]) -> c: f32[M, N] {\n\
            for i in tiles(M, t), j in tiles(N, t) {\n\
                let acc = zeros(f32[i, j])\n\
                for k in tiles(K, d) { acc += dot(load a[i, k], load b[k, j]) }\n\
                store c[i, j] = acc\n\
            }\n\
        }\n\
        program p(a: f32[21@tp, 17] = normal(3), b: f32[17, 19] = normal(4)) -> f32[21@tp, 19] { gemm(a, b) }\n";
    let sizes = [(1, 1), (3, 17), (8, 5), (32, 32)];
    let all =
        sizes.map(|(t, d)| run(text, &["-D".into(), format!("t={t}"), "-D".into(), format!("d={d}")], "jit"));
    let times = all.each_ref().map(|a| a.1["time_ns"].as_f64().expect("a time"));
    for (a, next) in all.iter().zip(&all[1..]) {
        assert!(a.0 == next.0, "tiles of another size, other bits");
    }
    assert!(times.windows(2).all(|t| t[0] > t[1]), "{times:?}");
}

/// The published layer with tile kernels in place of its matmuls, compared with its stored result:
/// within its bound, and within the outer limit of absolute terms.
#[test]
fn a_stored_result() {
    let data = root().join("specs/minilm/ffn.npz");
    let text = format!(
        "topology sys = ring(3) {{ link: 50 GB/s, 500 ns; device: 1 TFLOP/s, 10 GB/s }}\nmesh m = sys[tp]\n\
         kernel linear[M, K, N](a: f32[M, K], b: f32[K, N]) -> c: f32[M, N] {{\n\
             for i in tiles(M, 16), j in tiles(N, 64) {{\n\
                 let acc = zeros(f32[i, j])\n\
                 for k in tiles(K, 128) {{ acc += dot(load a[i, k], load b[k, j]) }}\n\
                 store c[i, j] = acc\n\
             }}\n\
         }}\n\
         program ffn(x: f32[25, 384] = \"{0}\":ffn_in, w1: f32[384, 1536@tp] = \"{0}\":w1, b1: f32[1536@tp] = \"{0}\":b1,\n\
                     w2: f32[1536@tp, 384] = \"{0}\":w2, b2: f32[384] = \"{0}\":b2) -> f32[25, 384] {{\n\
             linear(gelu(linear(x, w1) + b1), w2) + b2\n\
         }} expect \"{0}\":ffn_out\n",
        data.display()
    );
    let (_, report) = run(&text, &[], "jit");
    let all = &report["expect"][0];
    assert_eq!((&all["mismatches"], &all["beyond"]), (&0.into(), &0.into()), "{all}");
    let err = all["terms_err"].as_f64().expect("sums of absolute terms");
    assert!(err > 0.0 && err < 2e-6, "{err}");
}

/// Returns a matmul of f16 in tiles of 32 x 64 x 32 on one device with K terms; `preload` is a line
/// of the kernel or empty.
fn product(k: u64, preload: &str, device: &str) -> String {
    format!(
        "topology pe = ring(1) {{ {device} }}\nmesh m = pe[tp]\n\
        kernel gemm[M, K, N](a: f16[M, K], b: f16[K, N]) -> c: f16[M, N] {{\n\
            {preload}\n\
            for i in tiles(M, 32), j in tiles(N, 32) {{\n\
                let acc = zeros(f32[i, j])\n\
                for k in tiles(K, 64) {{ acc += dot(load a[i, k], load b[k, j]) }}\n\
                store c[i, j] = f16(acc)\n\
            }}\n\
        }}\n\
        program p(a: f16[32, {k}] = normal(3), b: f16[{k}, 32] = normal(4)) -> f16[32, 32] {{ gemm(a, b) }}\n"
    )
}

/// Returns a row of the critical path's totals, in ns.
fn total(report: &Value, cause: &str) -> f64 {
    let all = report["totals"].as_array().expect("totals");
    all.iter().find(|t| t["cause"] == cause).map_or(0.0, |t| t["ns"].as_f64().expect("ns"))
}

/// Preloading changes no bit. Preloaded operands come in first; then tiles pass through the units
/// as in a pipeline. The time is that of the slowest unit, plus the work of the others on the first
/// tiles before it and on the last ones after it (`docs/explanation/time.md`, tile kernels).
#[test]
fn preloaded_operands_come_in_first() {
    // Times in ns: 4096 B of a tile of an operand take 16, its matmul 32 (shown as 8), its
    // elementwise work 4.
    for (multiply, slow) in [(32.0, "4096 GFLOP/s"), (8.0, "16384 GFLOP/s")] {
        let device = format!("device: {slow}, 256 GB/s; vector: 512 GB/s");
        let tiles = 5.0;
        let mut bits = vec![];
        for (number, preload) in ["", "preload b", "preload a, b"].into_iter().enumerate() {
            let (streamed, preloaded) = (2.0 - number as f64, number as f64);
            let (result, report) = run(&product(320, preload, &device), &[], "jit");
            bits.push(result);
            let store = 8.0;
            let cast = 4.0;
            let first = 16.0 * streamed;
            let by_memory =
                first * tiles + store + if streamed > 0.0 { 0.0 } else { multiply * tiles + cast };
            let by_products = first + multiply * tiles + cast + store;
            let want = by_memory.max(by_products);
            assert_eq!(total(&report, "preload"), 16.0 * tiles * preloaded, "{preload} {slow}");
            assert!((total(&report, "work") - want).abs() < 1e-9, "{preload} {slow}: {report}");
        }
        assert!(bits.windows(2).all(|b| b[0] == b[1]), "preloading changes numbers");
    }
}

/// The whole operand is preloaded, even if one row of it is loaded.
#[test]
fn operands_are_preloaded_whole() {
    let text = "topology pe = ring(1) { device: 1 TFLOP/s, 256 GB/s }\nmesh m = pe[tp]\n\
        kernel first[M, N](x: f32[M, N]) -> z: f32[1, N] {\n\
            preload x\n\
            for j in tiles(N, 8) { store z[0, j] = load x[0, j] }\n\
        }\n\
        program p(x: f32[4, 64]) -> f32[1, 64] { first(x) }\n";
    let (_, report) = run(text, &[], "jit");
    assert_eq!((total(&report, "preload"), total(&report, "work")), (4.0, 1.0));
}

/// Preloaded operands are in the core's own memory, whose size is limited.
#[test]
fn what_is_preloaded_must_fit() {
    let text = product(320, "preload a, b", "device: 4 TFLOP/s, 256 GB/s; tcm_size: 40 KiB");
    let scratch = Scratch::new();
    scratch.write("p.kb", text.as_bytes());
    let ran = kbc(scratch.path(), &["compile", "p.kb"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let less = text.replace("40 KiB", "32 KiB");
    scratch.write("p.kb", less.as_bytes());
    let ran = kbc(scratch.path(), &["compile", "p.kb"], "");
    assert!(ran.code == 1 && ran.stderr.contains("E468") && ran.stderr.contains("gemm"), "{}", ran.stderr);
}

/// Cores of the target keep blocks, not operands.
#[test]
fn preloads_are_not_emitted() {
    let scratch = Scratch::new();
    scratch.write("p.kb", product(320, "preload a", "device: 4 TFLOP/s, 256 GB/s").as_bytes());
    let ran = kbc(scratch.path(), &["compile", "p.kb", "--target", "a2a3", "-o", "out"], "");
    assert!(
        ran.code == 1 && ran.stderr.contains("[E470] error: cannot emit an operand with `preload`"),
        "{}",
        ran.stderr
    );
    assert!(!scratch.path().join("out").exists(), "nothing is written");
}

/// The text of the schedule states what is preloaded.
#[test]
fn preloads_are_in_the_text() {
    let scratch = Scratch::new();
    scratch.write("p.kb", product(320, "preload b, a", "device: 4 TFLOP/s, 256 GB/s").as_bytes());
    let kir = kbc(scratch.path(), &["compile", "p.kb", "--emit", "kir"], "").stdout;
    assert!(kir.contains("preload b, a"), "{kir}");
    scratch.write("p.kir", kir.as_bytes());
    let ran = kbc(scratch.path(), &["run", "p.kir", "--format", "json"], "");
    let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
    assert_eq!(total(&report, "preload"), 160.0, "{}", ran.stderr);
}
