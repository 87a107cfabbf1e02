//! Tests of executing queues: undisturbed, as machine code, under the adversaries, and in time (row
//! IO-1).

use kbc_backend_sim::adversary::{AdversaryOptions, adversarial};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_backend_sim::jit;
use kbc_diag::{FileId, Span};
use kbc_ir::schedule::Schedule;
use kbc_machine::topology::Topology;
use kbc_numerics::generate::{exact, exact_range};
use kbc_numerics::tensor::Tensor;
use kbc_time::{TimeOptions, simulate};

const TEXT: &str = include_str!("../../ir/tests/kir/queues/all_reduce.kir");
const TWO: &str = include_str!("../../ir/tests/kir/queues/two_directions.kir");
const STREAMS: &str = include_str!("../../ir/tests/kir/queues/two_streams.kir");
const EMPTY: &str = include_str!("../../ir/tests/kir/check/e340_queue_empty.kir");
const ROOM: &str = include_str!("../../ir/tests/kir/check/e340_room.kir");
const SIZE: &str = include_str!("../../ir/tests/kir/check/e356_another_size.kir");
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
    assert!(d.list[0].notes.iter().any(|n| n.contains("waits for a free slot in @q[0]")), "{d:?}");
}

/// Seven messages one after another on a ring, and the credit for which the last `send` of the
/// first rank waits.
#[test]
fn messages_take_their_links() {
    let s = parse(TEXT);
    let machine = Topology::parse("ring(4) { link: 1 GB/s, 100 ns }", Span::NONE.file).expect("a machine");
    let t = simulate(&s, &machine, &TimeOptions::default()).expect("a time");
    // 2 elements of 4 bytes at 1 GB/s: 8 ns after each latency, and 6 messages in a chain.
    assert!((t.ns - 6.0 * 108.0).abs() < 1e-6, "{}", t.ns);
}

/// Runs schedules with queues as machine code in the fixed order and in twenty others, with more
/// calls than slots.
#[test]
fn machine_code_has_the_interpreters_bits() {
    for text in [TEXT, TWO, STREAMS] {
        let s = parse(text);
        let feeds = inputs(&s);
        let options = |seed| RunOptions { calls: 5, seed, ..RunOptions::default() };
        let base = run(&s, &feeds, &options(None)).expect("a run");
        let code = jit::compile(&s).expect("machine code");
        for seed in (0..20).map(Some).chain([None]) {
            let got = code.run_alone(&feeds, &options(seed)).expect("no refusal");
            assert_eq!(Some(&base), got.as_ref(), "{}, seed {seed:?}", s.name);
        }
    }
}

/// Errors of queues end machine code with the interpreter's messages: a full queue, an empty one,
/// an endless wait for room, a message of another size or type, a slot that is too small, a queue
/// that does not exist.
#[test]
fn machine_code_and_interpreter_explain_alike() {
    let another_type = TEXT.replace("queue @q[1] : f32", "queue @q[1] : f16");
    let too_small = TEXT.replace("queue @q[1] : f32[2 x 2]", "queue @q[1] : f32[2 x 1]");
    let no_such = TEXT.replace("@q[0]", "@q[1]");
    let cases = [(FULL, "E361"), (EMPTY, "E361"), (ROOM, "E361"), (SIZE, "E356")];
    let changed = [(&another_type, "E364"), (&too_small, "E304"), (&no_such, "E304")];
    for (text, want) in cases.into_iter().chain(changed.map(|(t, c)| (&t[..], c))) {
        let s = parse(text);
        let feeds = inputs(&s);
        let code = jit::compile(&s).expect("machine code");
        for seed in [None, Some(1), Some(2)] {
            let options = RunOptions { calls: 2, seed, ..RunOptions::default() };
            assert_eq!(code.run_alone(&feeds, &options).expect("no refusal"), None, "{want} {seed:?}");
            let (here, there) = (run(&s, &feeds, &options), code.run(&feeds, &options));
            assert_eq!(here.as_ref().expect_err("a fault").list[0].code, want, "{text}");
            assert_eq!(here, there, "{want} {seed:?}");
        }
    }
}
