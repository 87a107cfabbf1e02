//! Benchmark of the checker: `cargo bench -p kbc-checker --bench checker`.

#[path = "../tests/common/mod.rs"]
mod common;

use kbc_checker::{CheckOptions, Strategy, check};

fn main() {
    divan::main();
}

fn measure(bencher: divan::Bencher<'_, '_>, text: String, strategy: Strategy) {
    let schedule = common::schedule("bench", &text);
    let options = CheckOptions { strategy, ..CheckOptions::default() };
    bencher.bench(|| check(&schedule, &options).ok());
}

#[divan::bench(args = [64, 1024, 4096], sample_count = 10)]
fn ring(bencher: divan::Bencher<'_, '_>, ranks: u64) {
    measure(bencher, common::ring(ranks), Strategy::Auto);
}

#[divan::bench(args = [64, 256], sample_count = 5)]
fn ring_fingerprints(bencher: divan::Bencher<'_, '_>, ranks: u64) {
    measure(bencher, common::ring(ranks), Strategy::Fingerprints);
}

#[divan::bench(args = [12], sample_count = 5)]
fn halving(bencher: divan::Bencher<'_, '_>, log_ranks: u64) {
    measure(bencher, common::halving(log_ranks), Strategy::Auto);
}

#[divan::bench(args = [32, 100], sample_count = 5)]
fn torus(bencher: divan::Bencher<'_, '_>, side: u64) {
    measure(bencher, common::torus(side, side), Strategy::Auto);
}

#[divan::bench(args = [1024], sample_count = 5)]
fn all_to_all(bencher: divan::Bencher<'_, '_>, ranks: u64) {
    measure(bencher, common::all_to_all(ranks), Strategy::Auto);
}
