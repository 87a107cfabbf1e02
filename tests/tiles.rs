//! Tile kernels: machine code gives the interpreter's bits, every element agrees with one device, collectives are those that
//! follow, and tiles change times, never numbers.
//!
//! Files of `tests/tiles` say in lines `//= ARGUMENTS => COLLECTIVES` how they are run, `none` for no collective. To add a
//! case, copy a file.

mod common;

use common::{Scratch, kbc, root, split};
use serde_json::Value;

/// The bits of the result, and the report.
fn run(text: &str, args: &[String], engine: &str) -> (Vec<u8>, Value) {
    let scratch = Scratch::new();
    scratch.write("p.kb", text.as_bytes());
    let mut all =
        vec!["compile", "p.kb", "--engine", engine, "--report", "json", "--output", "out=r.safetensors"];
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

/// The terms of a product are added one after the other whatever the tiles are; smaller tiles read more.
#[test]
fn tiles_change_times_and_not_numbers() {
    let text = "param t = 1\nparam d = 1\ntopology sys = ring(2) { link: 50 GB/s, 500 ns; device: 1 TFLOP/s, 10 GB/s }\n\
        mesh m = sys[tp]\n\
        kernel gemm(a: f32[M, K], b: f32[K, N]) -> c: f32[M, N] {\n\
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

/// The published layer with tile kernels in the place of its products, beside its stored result: within its bound, and within
/// the outer limit of absolute terms.
#[test]
fn a_stored_result() {
    let data = root().join("specs/minilm/ffn.npz");
    let text = format!(
        "topology sys = ring(3) {{ link: 50 GB/s, 500 ns; device: 1 TFLOP/s, 10 GB/s }}\nmesh m = sys[tp]\n\
         kernel linear(a: f32[M, K], b: f32[K, N]) -> c: f32[M, N] {{\n\
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
