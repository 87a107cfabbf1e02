//! Benchmark: interpreter, machine code and reference evaluator on the feed-forward layer with its
//! published weights.

#[path = "../tests/real/driver.rs"]
mod driver;

use divan::Bencher;
use kbc_backend_sim::interp::RunOptions;
use kbc_backend_sim::jit;
use kbc_reference::{EvalOptions, evaluate};

fn main() {
    divan::main();
}

/// Measures one call on all ranks in the interpreter.
#[divan::bench(args = [1, 4, 8])]
fn interpret(bencher: Bencher, tp: u32) {
    let job = driver::built(&["specs/ffn_tp.kb", "-D", &format!("tp={tp}")]);
    let inputs = job.inputs();
    bencher.bench(|| job.run(divan::black_box(&inputs)));
}

/// Measures the compilation to machine code.
#[divan::bench(args = [1, 4, 8])]
fn compile(bencher: Bencher, tp: u32) {
    let job = driver::built(&["specs/ffn_tp.kb", "-D", &format!("tp={tp}")]);
    bencher.bench(|| jit::compile(divan::black_box(job.schedule())).expect("it compiles").stats());
}

/// Measures one call on all ranks as machine code.
#[divan::bench(args = [1, 4, 8])]
fn execute(bencher: Bencher, tp: u32) {
    let job = driver::built(&["specs/ffn_tp.kb", "-D", &format!("tp={tp}")]);
    let inputs = job.inputs();
    let code = jit::compile(job.schedule()).expect("it compiles");
    bencher.bench_local(|| code.run(divan::black_box(&inputs.calls), &RunOptions::default()));
}

/// Measures the single-device result in f64 with its bounds.
#[divan::bench]
fn reference(bencher: Bencher) {
    let job = driver::built(&["specs/ffn_tp.kb"]);
    let inputs = job.inputs();
    bencher.bench(|| {
        let options = EvalOptions { max_parts: job.built.module.mesh.ranks(), ..EvalOptions::default() };
        evaluate(&job.built.typed, divan::black_box(&inputs.calls[0]), &options)
            .expect("the layer has a value")
    });
}
