//! Trees against numbers: every tree, evaluated on its own, gives the bits of the interpreter.
//!
//! The sample: every algorithm of the library on lines of 1 to 5 and of 8 ranks, four grids and a
//! box; up to three element counts, both cut rules, and all types that are added.

use crate::stack::{self, Case, Layout, World};
use half::{bf16, f16};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_ir::schedule::{BufferRole, Schedule};
use kbc_ir::types::{CutRule, DType, ReduceOp};
use kbc_numerics::generate::mix32;
use kbc_numerics::shard;
use kbc_numerics::tensor::{Data, Tensor};
use kbc_order::{AdditionOrders, LocatedNode, LocatedRun, OrderOptions, OrderReport, ValueUse};
use std::collections::BTreeSet;

/// Returns a number that depends on its place, of very different sizes, so that every order of
/// additions and every position shows.
fn number(k: u32, input: u32) -> f32 {
    let bits = mix32(k, input, 7);
    (bits as f32 / 4e9 - 0.3) * (1 << (bits % 13)) as f32
}

/// Rounds a number of f32 to a type.
fn rounded(dtype: DType, x: f32) -> f32 {
    match dtype {
        DType::F32 => x,
        DType::F16 => f16::from_f32(x).to_f32(),
        DType::BF16 => bf16::from_f32(x).to_f32(),
        other => panic!("{other} has no sums of floats"),
    }
}

/// Returns elements, exactly, as numbers of f32.
fn wide(data: &Data) -> Vec<f32> {
    match data {
        Data::F32(v) => v.clone(),
        Data::F16(v) => v.iter().map(|x| x.to_f32()).collect(),
        Data::BF16(v) => v.iter().map(|x| x.to_f32()).collect(),
        other => panic!("{:?}", other.dtype()),
    }
}

fn narrow(dtype: DType, v: &[f32]) -> Data {
    match dtype {
        DType::F32 => Data::F32(v.to_vec()),
        DType::F16 => Data::F16(v.iter().map(|x| f16::from_f32(*x)).collect()),
        DType::BF16 => Data::BF16(v.iter().map(|x| bf16::from_f32(*x)).collect()),
        other => panic!("{other}"),
    }
}

fn combine(op: ReduceOp, a: f32, b: f32) -> f32 {
    match op {
        ReduceOp::Sum => a + b,
        ReduceOp::Prod => a * b,
        ReduceOp::Max => a.max(b),
        ReduceOp::Min => a.min(b),
    }
}

/// Evaluates element `k` of a run.
fn element(run: &LocatedRun, k: u64, input: &dyn Fn(u32, u64, u64) -> f32) -> f32 {
    let mut values: Vec<f32> = vec![];
    for node in &run.nodes {
        values.push(match node {
            LocatedNode::Input { buffer, rank, element } => {
                input(buffer.0, *rank, (*element + k as i64) as u64)
            }
            LocatedNode::Computed { name, .. } => panic!("{name} in a collective"),
            LocatedNode::Number(n) => *n as f32,
            LocatedNode::Add { op, dtype, dst, src } => {
                rounded(*dtype, combine(*op, values[*dst], values[*src]))
            }
        });
    }
    *values.last().unwrap()
}

/// Returns the part of an input buffer that a rank has.
fn parts(s: &Schedule, feeds: &[Tensor]) -> Vec<Vec<Vec<f32>>> {
    let of = |b: &kbc_ir::schedule::Buffer| match (b.role, &b.global) {
        (BufferRole::Input(n), Some(ty)) => {
            let part = |r| shard::cut("x", ty, &s.mesh, &feeds[n as usize], r).unwrap().tensor;
            (0..s.mesh.ranks()).map(|r| wide(part(r).data())).collect()
        }
        _ => vec![],
    };
    s.buffers.iter().map(of).collect()
}

/// Returns data for every input of a schedule, in its type.
pub fn feeds(s: &Schedule) -> Vec<Tensor> {
    let mut out: Vec<(u32, Tensor)> = vec![];
    for b in &s.buffers {
        if let (BufferRole::Input(i), Some(ty)) = (b.role, &b.global) {
            let shape = shard::feed_shape(ty, &s.mesh);
            let values: Vec<f32> = (0..shape.iter().product::<u64>()).map(|k| number(k as u32, i)).collect();
            out.push((i, Tensor::new(shape, narrow(ty.dtype, &values)).unwrap()));
        }
    }
    out.sort_by_key(|(i, _)| *i);
    out.dedup_by_key(|(i, _)| *i);
    out.into_iter().map(|(_, t)| t).collect()
}

/// Results of a run and the report of the same schedule.
pub struct Compared {
    pub outputs: Vec<Vec<shard::Part>>,
    pub report: OrderReport,
    /// Number of elements compared.
    pub elements: usize,
}

/// Compares every element of every result on every rank, bit by bit. `None` if neither the
/// interpreter nor the analysis can run the schedule.
pub fn compare(s: &Schedule, what: &dyn Fn() -> String) -> Option<Compared> {
    let feeds = feeds(s);
    let parts = parts(s, &feeds);
    let got = run(s, &[feeds], &RunOptions::default());
    let orders = AdditionOrders::of(s, &OrderOptions::default());
    let (got, orders) = match (got, orders) {
        (Ok(got), Ok(orders)) => (got, orders),
        (Err(_), Err(_)) => return None,
        (got, orders) => panic!("{}: {:?}, but {:?}", what(), got.err(), orders.err()),
    };
    let report = orders.report().unwrap();
    let mut compared = 0;
    for (i, value) in report.values.iter().enumerate() {
        let ValueUse::Result(n) = value.read_by else { continue };
        for rank in 0..report.ranks {
            let want = wide(got.outputs[0][rank as usize][n as usize].tensor.data());
            let mut next = 0;
            for run in orders.located(i, rank) {
                assert_eq!(run.start, next, "{}", what());
                for k in 0..run.len {
                    let input = |b: u32, r: u64, e: u64| parts[b as usize][r as usize][e as usize];
                    let (mine, theirs) = (element(&run, k, &input), want[next as usize]);
                    let same = mine.to_bits() == theirs.to_bits() || mine.is_nan() && theirs.is_nan();
                    let place = format!("element {next} of result {n} on rank {rank}");
                    assert!(same, "{}: {place}: {mine}, not {theirs}", what());
                    next += 1;
                }
            }
            assert_eq!(next as usize, want.len(), "{}: result {n} on rank {rank}", what());
            compared += next as usize;
        }
    }
    Some(Compared { outputs: got.outputs[0].clone(), report, elements: compared })
}

/// Compares an algorithm on a layout. Returns the number of elements, or `None` if the algorithm
/// refuses the sizes.
fn compare_case(world: &World, case: &Case, l: &Layout) -> Option<usize> {
    let what = || format!("{} with {l:?}", world.show(case));
    let module = stack::synchronized(world, case, l).ok()?;
    let s = module.schedule().unwrap();
    let compared = compare(s, &what).unwrap_or_else(|| panic!("{} does not run", what()));
    // No interleaving has another order.
    let drawn = AdditionOrders::of(s, &OrderOptions { seed: Some(l.n + 5) }).unwrap().report().unwrap();
    assert_eq!(compared.report, drawn, "{}", what());
    Some(compared.elements)
}

fn sweep(world: &World, shapes: &[Vec<u64>], dtypes: &[(DType, ReduceOp)]) -> usize {
    let fit = |axes: usize| shapes.iter().filter(|s| s.len() == axes).cloned().collect::<Vec<_>>();
    let (mut compared, mut ran) = (0, BTreeSet::new());
    for case in world.cases(&fit, &|p| if p == 1 { vec![0] } else { vec![0, p - 1] }) {
        let p = case.ranks();
        for n in BTreeSet::from([1, p, 7 * p + 3]) {
            for (dtype, red) in dtypes.iter().copied() {
                let unit = if n.is_multiple_of(p) { p } else { 1 + n % 2 };
                let rule = if n % 3 == 1 { CutRule::Ceil } else { CutRule::Even };
                let l = Layout { n, unit, rule, dtype, red };
                if let Some(n) = compare_case(world, &case, &l) {
                    compared += n;
                    ran.insert(case.alg);
                }
            }
        }
    }
    let here = world.lib.algorithms().filter(|a| !fit(world.lib.algorithm(*a).axes.len()).is_empty());
    // Trees are packed for machines, and here is none.
    let packed = |name: &String| name.ends_with(" packed");
    let missing = here.filter(|a| !ran.contains(a)).map(|a| world.name(a)).filter(|n| !packed(n));
    let missing: Vec<String> = missing.collect();
    assert!(missing.is_empty(), "never ran: {missing:?}");
    compared
}

#[test]
fn sums_of_f32_on_lines() {
    let shapes: Vec<Vec<u64>> = [1, 2, 3, 4, 5, 8].map(|p| vec![p]).to_vec();
    let compared = sweep(World::shipped(), &shapes, &[(DType::F32, ReduceOp::Sum)]);
    assert!(compared > 100_000, "{compared}");
}

#[test]
fn sums_of_f32_on_grids_and_boxes() {
    let shapes = [vec![2, 2], vec![2, 3], vec![3, 2], vec![2, 4], vec![2, 2, 2]];
    let compared = sweep(World::shipped(), &shapes, &[(DType::F32, ReduceOp::Sum)]);
    assert!(compared > 20_000, "{compared}");
}

#[test]
fn other_types_and_combiners() {
    let all = [
        (DType::F16, ReduceOp::Sum),
        (DType::BF16, ReduceOp::Sum),
        (DType::F32, ReduceOp::Prod),
        (DType::F32, ReduceOp::Max),
    ];
    let shapes = [vec![2], vec![3], vec![4], vec![6], vec![2, 3]];
    let compared = sweep(World::shipped(), &shapes, &all);
    assert!(compared > 50_000, "{compared}");
}

/// Hand-written schedules: queues, barriers in all forms, several streams, host programs.
#[test]
fn hand_written_schedules() {
    let mut elements = 0;
    for (name, text) in crate::programs::hand_written() {
        let m = kbc_ir::text::parse(kbc_diag::FileId(0), &text).unwrap();
        let s = m.schedule().unwrap();
        let floats = s.buffers.iter().all(|b| b.dtype.is_float() || b.role == BufferRole::Temp);
        let orders = AdditionOrders::of(s, &OrderOptions::default()).unwrap();
        let values = orders.report().unwrap().values.len();
        let places = (0..s.mesh.ranks()).flat_map(|r| (0..values).map(move |v| (v, r)));
        let computed = |n: &LocatedNode| matches!(n, LocatedNode::Computed { .. });
        let computes =
            places.flat_map(|(v, r)| orders.located(v, r)).any(|run| run.nodes.iter().any(computed));
        if floats && !computes {
            elements +=
                compare(s, &|| name.clone()).unwrap_or_else(|| panic!("{name} does not run")).elements;
        }
    }
    assert!(elements > 50_000, "{elements}");
}
