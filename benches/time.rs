//! Benchmark: the event engine on a ring all-reduce of 64 MiB of f32 on rings, and on the library's
//! torus2 on a torus. Items are delivered messages.
//!
//! For comparison, ASTRA-sim 2 (analytical, congestion-unaware and congestion-aware) took the
//! following CPU seconds for the same rings on two shared x86-64 cores: 2.3 and 3.6 for 1,024 ranks
//! (0.9 and 0.6 million messages per second), 76 and 92 for 4,096 ranks.

#[path = "../tests/real/driver.rs"]
mod driver;

use divan::Bencher;
use divan::counter::ItemsCount;
use driver::Job;
use kbc_time::{TimeOptions, Walked, simulate};
use std::fmt;

fn main() {
    divan::main();
}

/// A simulated case.
#[derive(Clone, Copy)]
struct Case {
    ranks: u64,
    every: bool,
    path: bool,
    /// CPU seconds of ASTRA-sim 2, congestion-unaware and congestion-aware.
    peer: &'static str,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.every { "every rank" } else { "orbits" };
        let path = if self.path { ", path" } else { "" };
        write!(f, "{}, {how}{path}{}", self.ranks, self.peer)
    }
}

const fn case(ranks: u64, every: bool, path: bool, peer: &'static str) -> Case {
    Case { ranks, every, path, peer }
}

const RINGS: [Case; 7] = [
    case(1024, false, true, " (ASTRA-sim 2.3 to 3.6 s)"),
    case(1024, true, true, " (ASTRA-sim 2.3 to 3.6 s)"),
    case(1024, true, false, " (ASTRA-sim 2.3 to 3.6 s)"),
    case(4096, false, true, " (ASTRA-sim 76 to 92 s)"),
    case(4096, true, false, " (ASTRA-sim 76 to 92 s)"),
    case(16384, false, true, ""),
    case(65536, false, true, ""),
];

const TORUS: [Case; 3] =
    [case(4096, false, true, ""), case(4096, true, true, ""), case(4096, true, false, "")];

fn run(bencher: Bencher<'_, '_>, job: &Job, case: Case) {
    let options = TimeOptions { every_rank: case.every, path: case.path, ..TimeOptions::default() };
    let once = || {
        let (schedule, topology) = (divan::black_box(job.schedule()), &job.built.topology);
        simulate(schedule, topology, &options).expect("the schedule is right")
    };
    let first = once();
    assert_eq!(case.every, matches!(first.walked, Walked::Every(_)), "{:?}", first.walked);
    bencher.counter(ItemsCount::new(first.messages)).bench_local(|| once().ns);
}

#[divan::bench(args = RINGS, sample_count = 3, sample_size = 1)]
fn ring(bencher: Bencher<'_, '_>, case: Case) {
    let p = format!("p={}", case.ranks);
    let job = driver::built(&["specs/bench/ring_all_reduce.kb", "-D", &p, "-D", "n=16777216"]);
    run(bencher, &job, case);
}

#[divan::bench(args = TORUS, sample_count = 3, sample_size = 1)]
fn torus_64x64(bencher: Bencher<'_, '_>, case: Case) {
    let file = ["specs/lib/grids.kb", "--algorithm", "all_reduce.torus2", "--topology", "torus(64,64)"];
    let job = driver::built(&[&file[..], &["-D", "n=16777216"]].concat());
    run(bencher, &job, case);
}
