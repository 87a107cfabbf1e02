//! Benchmark: the network of an analytical simulator (specs/topologies/analytical.yaml), ring
//! all-reduce of 64 MiB f32. Every figure must equal that simulator's to the nanosecond.

#[path = "../tests/real/driver.rs"]
mod driver;

use divan::Bencher;
use divan::counter::ItemsCount;
use kbc_time::{TimeOptions, simulate};

fn main() {
    divan::main();
}

/// Number of ranks, and the time of ASTRA-sim 2 (congestion aware) in ns.
const FIGURES: [(u64, f64); 5] =
    [(8, 2_194_515.0), (64, 2_524_033.0), (256, 2_745_331.0), (1024, 3_521_167.0), (4096, 6_601_141.0)];

/// Items are delivered messages.
#[divan::bench(args = FIGURES.map(|f| f.0), sample_count = 3)]
fn time(bencher: Bencher, p: u64) {
    let machine = "specs/topologies/analytical.yaml";
    let ranks = format!("p={p}");
    let words = ["specs/bench/ring_all_reduce.kb", "-D", &ranks, "-D", "n=16777216", "--topology", machine];
    let job = driver::built(&words);
    let want = FIGURES.iter().find(|f| f.0 == p).map(|f| f.1);
    let options = TimeOptions { path: false, ..TimeOptions::default() };
    bencher.counter(ItemsCount::new(2 * (p - 1) * p)).bench(|| {
        let (schedule, topology) = (divan::black_box(job.schedule()), &job.built.topology);
        let timing = simulate(schedule, topology, &options).expect("the ring is right");
        assert_eq!(Some(timing.ns), want, "{p} ranks");
    });
}
