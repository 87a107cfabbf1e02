//! Benchmark: models of many layers (attention and feed-forward, pre-norm) on four devices, from
//! the text to the report. Target: 80 layers in seconds, with a window whose size does not grow
//! with the layers.
//!
//! `-- --write FILE LAYERS` writes the program instead, for timing whole processes: `kbc compile
//! FILE --target sim`, `kbc run --no-data FILE`.
#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

#[path = "../tests/real/driver.rs"]
mod driver;

use driver::Job;
use kbc_compiler::watch::Unwatched;
use kbc_compiler::{analyse, proof};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Numbers of layers of the models.
const LAYERS: [usize; 3] = [10, 20, 80];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = words.iter().position(|w| w == "--write") {
        let (Some(file), Some(layers)) = (words.get(at + 1), words.get(at + 2).and_then(|w| w.parse().ok()))
        else {
            println!("--write FILE LAYERS");
            return;
        };
        std::fs::write(Path::new(file), model(layers)).expect("the file can be written");
        return;
    }
    for layers in LAYERS {
        let job = compiled(layers);
        let s = job.schedule();
        let bytes: u64 = s.windows.iter().map(|w| w.slots * w.capacity * w.dtype.bytes()).sum();
        println!("{layers} layers: {} regions, {} windows, {bytes} bytes", s.regions.len(), s.windows.len());
    }
    divan::main();
}

/// Weights of a layer: name and type.
const WEIGHTS: [(&str, &str); 8] = [
    ("n", "f32[32]"),
    ("q", "f32[32, 32@tp]"),
    ("k", "f32[32, 32@tp]"),
    ("v", "f32[32, 32@tp]"),
    ("o", "f32[32@tp, 32]"),
    ("m", "f32[32]"),
    ("u", "f32[32, 64@tp]"),
    ("d", "f32[64@tp, 32]"),
];

/// Returns the program with `layers` layers.
fn model(layers: usize) -> String {
    let mut out = String::from(
        "topology sys = ring(4) { link: 50 GB/s, 500 ns; device: 100 TFLOP/s, 1.6 TB/s }\nmesh m = sys[tp]\n\nprogram layer(x: f32[8, 32]",
    );
    WEIGHTS.iter().for_each(|(name, ty)| {
        let _ = write!(out, ", {name}: {ty}");
    });
    out.push_str(
        ") -> f32[8, 32] {
    let a = rms_norm(x, n)
    let y = attention(split_heads(matmul(a, q), heads: 4), split_heads(matmul(a, k), heads: 4), split_heads(matmul(a, v), heads: 4))
    let h = x + matmul(merge_heads(y), o)
    h + matmul(gelu(matmul(rms_norm(h, m), u)), d)
}

program model(x: f32[8, 32]",
    );
    for l in 0..layers {
        WEIGHTS.iter().for_each(|(name, ty)| {
            let _ = write!(out, ",\n    {name}{l}: {ty} = normal({l})");
        });
    }
    out.push_str(") -> f32[8, 32] {\n");
    let mut x = "x".to_owned();
    for l in 0..layers {
        let args: Vec<String> = WEIGHTS.iter().map(|(name, _)| format!("{name}{l}")).collect();
        let _ = writeln!(out, "    let x{l} = layer({x}, {})", args.join(", "));
        x = format!("x{l}");
    }
    let _ = writeln!(out, "    {x}\n}}");
    out
}

/// Writes the program to a file in the folder for benchmarks.
fn file(layers: usize) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("layers{layers}.kb"));
    std::fs::write(&path, model(layers)).expect("the file can be written");
    path
}

fn compiled(layers: usize) -> Job {
    let path = file(layers);
    driver::built(&[&path.to_string_lossy(), "--program", "model"])
}

/// Measures text to schedule.
#[divan::bench(args = LAYERS, sample_count = 5)]
fn compile(layers: usize) {
    divan::black_box(compiled(layers));
}

/// Measures the proof of the schedule.
#[divan::bench(args = LAYERS, sample_count = 5)]
fn prove(bencher: divan::Bencher, layers: usize) {
    let job = compiled(layers);
    bencher.bench_local(|| proof::proof(job.schedule()).expect("the layers are right"));
}

/// Measures execution on every rank, reference evaluation and comparison.
#[divan::bench(args = LAYERS, sample_count = 3)]
fn execute(bencher: divan::Bencher, layers: usize) {
    let job = compiled(layers);
    bencher.bench_local(|| {
        let done = analyse::execute(
            &job.session,
            &job.built,
            job.schedule(),
            &job.args.execution.data.plain(),
            1,
            None,
            &mut Unwatched,
        );
        assert!(analyse::passes(&done.expect("the layers run").compare));
    });
}

/// Measures timing and bounds.
#[divan::bench(args = LAYERS, sample_count = 5)]
fn time(bencher: divan::Bencher, layers: usize) {
    let job = compiled(layers);
    bencher.bench_local(|| job.time_ns());
}
