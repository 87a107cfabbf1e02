//! The stand-in headers themselves: a right kernel runs right at every size, and each damage is found, by the words
//! that name it.
//!
//! Kernels are files of `tests/ascend/model`. `cases.cpp` holds its expectations itself: a further case is a few lines.

#[path = "common/standin.rs"]
mod standin;

use standin::{Arg, Job, Program, compile, deletable, flag_pairs, guarded};
use std::path::Path;

fn model(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ascend/model").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn compiled(text: &str) -> Program {
    compile(text, None).unwrap_or_else(|e| panic!("{e}"))
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Small whole numbers: sums are exact in any order.
fn value(call: usize, rank: usize, i: usize) -> f32 {
    ((call * 7 + rank * 3 + i) % 17) as f32 - 8.0
}

/// A job of `all_reduce.cpp`.
fn all_reduce(ranks: usize, count: usize, calls: usize) -> Job {
    let of = |call, rank| bytes(&(0..count).map(|i| value(call, rank, i)).collect::<Vec<_>>());
    let x = (0..calls).map(|c| (0..ranks).map(|r| of(c, r)).collect()).collect();
    let slot = (count * 4).div_ceil(64) * 64;
    let scalar = |n: usize| Arg::Scalar(vec![n as i64]);
    Job {
        ranks,
        calls,
        window: (ranks - 1) * 64 + 2 * (ranks - 1) * slot,
        args: vec![
            Arg::In("f32", x),
            Arg::Out("f32", vec![count]),
            Arg::Window,
            Arg::Out("i32", vec![16]),
            scalar(ranks),
            scalar(count),
            Arg::Call(0),
            Arg::Context,
        ],
        ..Job::default()
    }
}

fn check_all_reduce(job: &Job, count: usize, got: Result<standin::Outputs, String>) {
    let what = format!("{} ranks, {count} elements, order {}", job.ranks, job.order);
    let got = got.unwrap_or_else(|e| panic!("{what}: {e}"));
    for (call, ranks) in got.iter().enumerate() {
        let sum = |i| (0..job.ranks).map(|r| value(call, r, i)).sum::<f32>();
        let expected = bytes(&(0..count).map(sum).collect::<Vec<_>>());
        for out in ranks {
            assert!(out[0] == expected, "{what}, call {call}: values");
            assert_eq!(out[1][..4], (call as i32 + 1).to_le_bytes(), "{what}, call {call}: status");
        }
    }
}

/// The kernel with its ordering lines under conditions; condition 1000 decides whether calls alternate slots.
fn switchable() -> (String, Program) {
    let text = model("all_reduce.cpp");
    assert_eq!(text.matches("call % 2").count(), 2);
    let program = compiled(&guarded(&text).replace("call % 2", "(standin::keep(1000) ? call % 2 : 0)"));
    (text, program)
}

#[test]
fn a_right_kernel_is_right_at_every_size_in_any_order() {
    let (_, program) = switchable();
    let mut jobs = vec![];
    for ranks in [2, 3, 4] {
        for count in [0, 1, 5, 4096, 8193] {
            jobs.extend([0, 1, 2, 3].map(|order| (count, Job { order, ..all_reduce(ranks, count, 3) })));
        }
    }
    jobs.push((8193, all_reduce(8, 8193, 3)));
    jobs.push((5, Job { join: true, ..all_reduce(3, 5, 3) }));
    let results = program.run(&jobs.iter().map(|(_, job)| job.clone()).collect::<Vec<_>>());
    for ((count, job), got) in jobs.iter().zip(results) {
        check_all_reduce(job, *count, got);
    }
}

/// Every line that orders something is needed: without it the run fails, and so without both lines of a flag.
#[test]
fn no_ordering_line_can_go() {
    let (text, program) = switchable();
    let lines = deletable(&text);
    assert!(lines.len() >= 20, "{lines:?}");
    let mut drops: Vec<Vec<usize>> = lines.iter().map(|l| vec![*l]).collect();
    drops.extend(flag_pairs(&text).iter().map(|p| p.to_vec()));
    let mut jobs = vec![];
    for drop in &drops {
        jobs.extend([0, 5].map(|order| Job { order, drop: drop.clone(), ..all_reduce(3, 8193, 3) }));
    }
    let mut redundant = vec![];
    for (job, got) in jobs.iter().zip(program.run(&jobs)) {
        match got {
            Ok(_) => redundant.push(format!("{:?} (order {})", job.drop, job.order)),
            Err(e) => assert!(e.contains("rank "), "{e}"),
        }
    }
    assert!(redundant.is_empty(), "the run is right without lines {redundant:?}");
}
