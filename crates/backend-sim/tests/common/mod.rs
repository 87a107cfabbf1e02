//! The hand-written schedules of `kbc-ir`, with inputs and the results they must give.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use kbc_backend_sim::interp::RunResult;
use kbc_diag::FileId;
use kbc_ir::schedule::{BufferRole, Schedule};
use kbc_ir::text;
use kbc_ir::types::{Mesh, ReduceOp, TensorType};
use kbc_numerics::generate::{exact, exact_range};
use kbc_numerics::numbers::from_f64;
use kbc_numerics::shard::feed_shape;
use kbc_numerics::tensor::Tensor;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../ir/tests/kir/good"))
}

/// Returns the names of all schedules: those of `kbc-ir` and those of this crate, which use
/// features that the others lack (gets, direct placement, an acquire on another stream than the
/// wait). A new file is a new case.
pub fn names() -> Vec<String> {
    let of = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|e| e.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
    };
    let mut names: Vec<String> = of(folder()).chain(of(own_folder())).collect();
    names.sort();
    assert!(names.len() >= 9, "{names:?}");
    names
}

pub fn parse(source: &str) -> Schedule {
    let module = text::parse(FileId(0), source).unwrap_or_else(|d| panic!("{d:#?}"));
    module.schedule().expect("a schedule").clone()
}

fn own_folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../backend-sim/tests/kir"))
}

pub fn source(name: &str) -> String {
    let file = format!("{name}.kir");
    std::fs::read_to_string(own_folder().join(&file))
        .or_else(|_| std::fs::read_to_string(folder().join(&file)))
        .unwrap()
}

/// Returns a good schedule. Long vectors are shortened, so that many runs stay fast.
pub fn load(name: &str) -> Schedule {
    parse(&short(name))
}

/// Returns the text of a schedule with shortened vectors.
pub fn short(name: &str) -> String {
    let mut text = source(name);
    for (long, short) in [
        ("25, 384", "25, 8"),
        ("25 * 384", "25 * 8"),
        ("6 x 2400", "6 x 56"),
        ("1001", "41"),
        ("1002", "42"),
        ("2 x 251", "2 x 11"),
    ] {
        text = text.replace(long, short);
    }
    text
}

/// Returns the types of the inputs, by number.
pub fn input_types(s: &Schedule) -> Vec<TensorType> {
    let mut out: Vec<(u32, TensorType)> = s
        .buffers
        .iter()
        .filter_map(|b| match b.role {
            BufferRole::Input(n) => Some((n, b.global.clone().unwrap())),
            _ => None,
        })
        .collect();
    out.sort_by_key(|x| x.0);
    out.into_iter().map(|x| x.1).collect()
}

/// Returns exact inputs that differ from call to call.
pub fn inputs(s: &Schedule, calls: u32) -> Vec<Vec<Tensor>> {
    let of = |call| {
        input_types(s)
            .iter()
            .enumerate()
            .map(|(i, ty)| {
                exact(ty, &s.mesh, exact_range(ty.dtype, s.mesh.ranks(), 1, true), i as u32, call).unwrap()
            })
            .collect()
    };
    (0..calls).map(of).collect()
}

/// Returns the value that a feed stands for: the combination of its slices, or the feed itself.
pub fn meaning(ty: &TensorType, mesh: &Mesh, feed: &Tensor) -> Vec<f64> {
    assert_eq!(feed.shape(), feed_shape(ty, mesh));
    let values = feed.data().to_f64();
    let Some((op, _)) = &ty.partial else { return values };
    let n = ty.elements() as usize;
    (0..n)
        .map(|i| {
            let all = values.iter().skip(i).step_by(n.max(1)).copied();
            match op {
                ReduceOp::Sum => all.sum(),
                ReduceOp::Max => all.fold(f64::NEG_INFINITY, f64::max),
                ReduceOp::Min => all.fold(f64::INFINITY, f64::min),
                ReduceOp::Prod => all.product(),
            }
        })
        .collect()
}

/// Returns what a schedule computes from its one input: the input's value, unless the schedule does
/// more.
pub fn golden(name: &str, s: &Schedule, feed: &Tensor) -> Vec<f64> {
    let values = meaning(&input_types(s)[0], &s.mesh, feed);
    match name {
        "shared_window" => values.into_iter().map(|x| x.max(0.0)).collect(),
        _ => values,
    }
}

/// Asserts that every rank holds its part of result 0 in every call, with exactly these elements.
pub fn assert_right(name: &str, s: &Schedule, feeds: &[Vec<Tensor>], result: &RunResult) {
    let ty = s.buffers.iter().find(|b| b.role == BufferRole::Output(0)).unwrap().global.clone().unwrap();
    let outputs = s.buffers.iter().filter(|b| matches!(b.role, BufferRole::Output(_))).count();
    for (call, ranks) in result.outputs.iter().enumerate() {
        let want = from_f64(ty.dtype, &golden(name, s, &feeds[call % feeds.len()][0]));
        let want = Tensor::new(ty.sizes(), want).unwrap();
        assert_eq!(ranks.len() as u64, s.mesh.ranks());
        for (rank, parts) in ranks.iter().enumerate() {
            assert_eq!(parts.len(), outputs);
            assert_eq!(parts[0].bounds, ty.local_box(&s.mesh, &s.mesh.coords(rank as u64)));
            let part = want.extract(&parts[0].bounds).unwrap();
            assert_eq!(parts[0].tensor.shape(), part.shape());
            let off = parts[0].tensor.data().first_difference(part.data());
            assert_eq!(off, None, "{name}, call {call}, rank {rank}");
        }
    }
}
