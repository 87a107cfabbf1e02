//! A ring all-reduce over 64 ranks, compiled and proven. Target: 20 ms.

#[path = "../tests/real/driver.rs"]
mod driver;

use kbc::analyse;

fn main() {
    divan::main();
}

const WORDS: [&str; 5] = ["specs/bench/ring_all_reduce.kb", "-D", "p=64", "-D", "n=1048576"];

/// Text to proven schedule.
#[divan::bench]
fn compile_and_verify() {
    let job = driver::built(&WORDS);
    divan::black_box(analyse::verify(job.schedule())).expect("the ring is right");
}

/// The checker's part.
#[divan::bench]
fn verify(bencher: divan::Bencher) {
    let job = driver::built(&WORDS);
    bencher.bench(|| analyse::verify(divan::black_box(job.schedule())).expect("the ring is right"));
}
