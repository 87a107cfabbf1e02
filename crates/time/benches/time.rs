//! Benchmark: messages per second of the event engine on a ring all_reduce on a ring, with every
//! rank simulated, with and without the critical path. Figures of other simulators are in
//! `benches/time.rs` at the root.

#[path = "../tests/time_kit/mod.rs"]
mod time_kit;

use divan::Bencher;
use divan::counter::ItemsCount;
use kbc_time::{TimeOptions, simulate};

fn main() {
    divan::main();
}

#[divan::bench(args = [(64, true), (64, false), (1024, true), (1024, false), (4096, false)], sample_count = 3, sample_size = 1)]
fn ring_all_reduce(bencher: Bencher, (p, path): (u64, bool)) {
    let schedule = time_kit::parse(&time_kit::ring(p, 1 << 24));
    let topo = time_kit::machine(&format!("ring({p})"));
    let options = TimeOptions { path, every_rank: true, ..TimeOptions::default() };
    bencher
        .counter(ItemsCount::new(2 * p * (p - 1)))
        .bench_local(|| simulate(&schedule, &topo, &options).expect("a verified schedule").ns);
}
