//! Benchmark: compiling and proving a ring all-reduce. Targets: 20 ms at 64 ranks, 300 ms at 1024.

#[path = "../tests/real/driver.rs"]
mod driver;

use kbc_compiler::{analyse, proof};

fn main() {
    divan::main();
}

fn built(ranks: u32) -> driver::Job {
    driver::built(&["specs/bench/ring_all_reduce.kb", "-D", &format!("p={ranks}"), "-D", "n=1048576"])
}

/// Measures text to proven schedule.
#[divan::bench(args = [64, 1024])]
fn compile_and_verify(ranks: u32) {
    let job = built(ranks);
    divan::black_box(analyse::prove(&job.session, &job.built, job.schedule())).expect("the ring is right");
}

/// Measures the checker alone.
#[divan::bench(args = [64, 1024])]
fn verify(bencher: divan::Bencher, ranks: u32) {
    let job = built(ranks);
    bencher.bench(|| proof::proof(divan::black_box(job.schedule())).expect("the ring is right"));
}
