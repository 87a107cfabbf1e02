//! The event engine: a ring all-reduce of 1 Mi elements over 1024 ranks, about two million messages.

#[path = "../tests/real/driver.rs"]
mod driver;

use divan::Bencher;
use divan::counter::ItemsCount;
use kbc_backend_sim::time::{TimeOptions, simulate};

fn main() {
    divan::main();
}

/// Items are messages delivered.
#[divan::bench(args = [64, 256, 1024])]
fn time(bencher: Bencher, p: u64) {
    let job = driver::built(&["specs/bench/ring_all_reduce.kb", "-D", &format!("p={p}"), "-D", "n=1048576"]);
    bencher.counter(ItemsCount::new(2 * (p - 1) * p)).bench(|| {
        let (schedule, topology) = (divan::black_box(job.schedule()), &job.built.topology);
        simulate(schedule, topology, &TimeOptions::default()).expect("the ring is right")
    });
}
