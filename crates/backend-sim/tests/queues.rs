//! Queues executed: in peace, under the adversaries, in time, and refused as machine code (row IO-1).

use kbc_backend_sim::adversary::{AdversaryOptions, adversarial};
use kbc_backend_sim::generate::{exact, exact_range};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_backend_sim::jit;
use kbc_backend_sim::tensor::Tensor;
use kbc_backend_sim::time::{TimeOptions, simulate};
use kbc_diag::{FileId, Span};
use kbc_ir::schedule::Schedule;
use kbc_ir::topology::Topology;

const TEXT: &str = include_str!("../../ir/tests/kir/queues/all_reduce.kir");
const FULL: &str = include_str!("../../ir/tests/kir/check/e340_queue_full.kir");

fn parse(text: &str) -> Schedule {
    let text: String = text.lines().map(|l| format!("{}\n", l.split(" ;~").next().unwrap_or(""))).collect();
    kbc_ir::text::parse(FileId(0), &text).expect("a schedule").schedule().expect("a schedule").clone()
}

fn inputs(s: &Schedule) -> Vec<Vec<Tensor>> {
    let ty = s.buffers[0].global.clone().expect("an input");
    let range = exact_range(ty.dtype, s.mesh.ranks(), 1, false);
    (0..3).map(|c| vec![exact(&ty, &s.mesh, range, 0, c).expect("data")]).collect()
}

#[test]
fn every_rank_has_the_sum_of_all() {
    let s = parse(TEXT);
    let data = inputs(&s);
    for seed in [None, Some(1), Some(2), Some(3)] {
        let got = run(&s, &data, &RunOptions { calls: 3, seed, ..RunOptions::default() }).expect("a run");
        for (call, ranks) in got.outputs.iter().enumerate() {
            let all = data[call][0].data().to_f64();
            let want: Vec<f64> = (0..8).map(|i| (0..4).map(|r| all[r * 8 + i]).sum()).collect();
            assert!(ranks.iter().all(|r| r[0].tensor.data().to_f64() == want), "call {call}, {seed:?}");
        }
    }
}

#[test]
fn adversaries_change_nothing() {
    let s = parse(TEXT);
    let options = AdversaryOptions { seed: 1, runs: 30, calls: 3, ..AdversaryOptions::default() };
    let found = adversarial(&s, &inputs(&s), None, &options).expect("runs");
    assert!(found.failure.is_none() && found.runs == 30, "{:?}", found.failure.map(|f| f.diagnostic));
}

#[test]
fn a_full_queue_is_a_deadlock_that_names_it() {
    let s = parse(FULL);
    let ty = s.buffers[0].global.clone().expect("an input");
    let range = exact_range(ty.dtype, 2, 1, false);
    let data = vec![vec![exact(&ty, &s.mesh, range, 0, 0).expect("data")]];
    let d = run(&s, &data, &RunOptions::default()).expect_err("both wait");
    assert_eq!(d.list[0].code, "E361");
    assert!(d.list[0].notes.iter().any(|n| n.contains("waits for room in @q[0]")), "{d:?}");
}

/// Seven messages one after another on a ring, and the credit that the last `send` of the first rank waits for.
#[test]
fn messages_take_their_links() {
    let s = parse(TEXT);
    let machine = Topology::parse("ring(4) { link: 1 GB/s, 100 ns }", Span::NONE.file).expect("a machine");
    let t = simulate(&s, &machine, &TimeOptions::default()).expect("a time");
    // 2 elements of 4 bytes at 1 GB/s: 8 ns behind each latency, and 6 messages in a chain.
    assert!((t.ns - 6.0 * 108.0).abs() < 1e-6, "{}", t.ns);
}

#[test]
fn machine_code_refuses_them() {
    let s = parse(TEXT);
    let d = jit::compile(&s).err().expect("no machine code");
    assert_eq!(d.list[0].code, "E374");
}
