//! Tests of local work inside devices (TOPO-6). PEs that share an operation compute, from what they
//! hold and what is sent to them, the same bits as one device, for every operation and pair of
//! placements; the times are computed by hand.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::time_kit;

use kbc_backend_sim::inside::Shared;
use kbc_ir::Parts;
use kbc_ir::expr::Expr;
use kbc_ir::grouped::Runs;
use kbc_ir::scalar::{Scalar, ScalarBin, ScalarFn};
use kbc_ir::schedule::{BufferId, Filling, LocalOp, Schedule};
use kbc_ir::types::{CutRule, DType, ReduceOp};
use kbc_machine::policy::{DevicePlacement, Placements, Policy};
use kbc_machine::share::{PlacedBuffer, share};
use kbc_machine::topology::Topology;
use kbc_numerics::local::{apply, footprint};
use kbc_numerics::numbers::from_i64;
use kbc_numerics::tensor::Tensor;
use kbc_time::Cause;
use time_kit::*;

const D: BufferId = BufferId(0);
const A: BufferId = BufferId(1);
const B: BufferId = BufferId(2);

const COLUMNS: DevicePlacement = both(Policy::ColumnWise);

const fn both(policy: Policy) -> DevicePlacement {
    DevicePlacement { cube: policy, pe: policy, num_cubes: None, num_pes: None }
}

fn placements() -> Vec<DevicePlacement> {
    let p = |cube, pe, num_cubes, num_pes| DevicePlacement { cube, pe, num_cubes, num_pes };
    vec![
        DevicePlacement::default(),
        COLUMNS,
        both(Policy::RowWise),
        both(Policy::TiledColumnWise),
        both(Policy::Replicate),
        p(Policy::RowWise, Policy::ColumnWise, None, None),
        p(Policy::Replicate, Policy::ColumnWise, Some(2), Some(3)),
        p(Policy::TiledRowWise, Policy::Replicate, None, Some(2)),
    ]
}

/// Returns a machine of six PEs: two cubes of three.
fn six() -> Topology {
    machine("package(ring(1), mesh(1, 2), 3) { ranks: sip }")
}

fn numbered(dtype: DType, shape: &[u64], most: i64) -> Tensor {
    let n: u64 = shape.iter().product();
    let values: Vec<i64> = (0..n as i64).map(|i| (i * 7 + i * i % 5) % most).collect();
    Tensor::new(shape, from_i64(dtype, &values)).unwrap()
}

/// Compares the operation on whole tensors and PE by PE, for every pair of placements.
fn agree(op: &LocalOp, dst: (&[u64], DType), srcs: &[(BufferId, &Tensor)], part: Option<i64>) {
    let machine = six();
    let shapes: Vec<&[u64]> = srcs.iter().map(|s| s.1.shape()).collect();
    let read = footprint(op, dst.0, &shapes, part).unwrap().reads;
    let operands: Vec<Tensor> = srcs
        .iter()
        .zip(read)
        .map(|((_, t), (start, len))| {
            let data = t.data().slice(start as usize, len as usize);
            Tensor::new(t.shape(), data.clone()).unwrap_or_else(|| Tensor::line(data))
        })
        .collect();
    let operands: Vec<&Tensor> = operands.iter().collect();
    let want = apply(op, dst, &operands, part).unwrap_or_else(|r| panic!("{op:?}: {}", r.text));
    for own in placements() {
        for theirs in placements() {
            let placed =
                |buffer, sizes: &[u64], placement| PlacedBuffer { buffer, sizes: sizes.to_vec(), placement };
            let srcs = srcs.iter().map(|(b, t)| (placed(*b, t.shape(), theirs), (*t).clone())).collect();
            let shared = Shared { op, dst: (placed(D, dst.0, own), dst.1), srcs, part };
            let got =
                shared.apply(&machine).unwrap_or_else(|r| panic!("{op:?} {own} <- {theirs}: {}", r.text));
            assert_eq!(got, want, "{op:?} {own} <- {theirs}");
        }
    }
}

fn plus() -> ScalarFn {
    let arg = |i| Box::new(Scalar::Arg(i));
    let body = Scalar::Bin(ScalarBin::Add, arg(0), arg(1));
    ScalarFn { name: "plus".into(), params: vec!["a".into(), "b".into()], body }
}

#[test]
fn pes_together_compute_what_one_device_does() {
    let f = |shape: &[u64]| numbered(DType::F32, shape, 23);
    for (a, b) in
        [(vec![4, 6], vec![4, 6]), (vec![4, 7], vec![7]), (vec![2, 1, 5], vec![3, 1]), (vec![2, 2], vec![1])]
    {
        let rank = a.len().max(b.len());
        let at = |s: &[u64], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
        let dst: Vec<u64> = (0..rank).map(|i| at(&a, i).max(at(&b, i))).collect();
        let op = LocalOp::Compute { func: plus(), dst: D, args: vec![A, B] };
        agree(&op, (&dst, DType::F32), &[(A, &f(&a)), (B, &f(&b))], None);
    }
    let twice = LocalOp::Compute { func: plus(), dst: D, args: vec![A, A] };
    let x = f(&[5, 8]);
    agree(&twice, (&[5, 8], DType::F32), &[(A, &x), (A, &x)], None);
    for (a, b, dst) in [
        (vec![5, 4], vec![4, 7], vec![5, 7]),
        (vec![3, 2, 4], vec![4, 6], vec![3, 2, 6]),
        (vec![1, 2, 4], vec![3, 4, 2], vec![3, 2, 2]),
    ] {
        let op = LocalOp::Matmul { dst: D, a: A, b: B };
        agree(&op, (&dst, DType::F32), &[(A, &f(&a)), (B, &f(&b))], None);
    }
    let square = f(&[6, 6]);
    let op = LocalOp::Matmul { dst: D, a: A, b: A };
    agree(&op, (&[6, 6], DType::F32), &[(A, &square), (A, &square)], None);
    let cube = f(&[4, 3, 6]);
    for (dim, dst, kept) in [(0, [3, 6], [1, 3, 6]), (1, [4, 6], [4, 1, 6]), (2, [4, 3], [4, 3, 1])] {
        let op = LocalOp::ReduceDim { op: ReduceOp::Sum, mean: Some(2), dst: D, src: A, dim };
        agree(&op, (&dst, DType::F32), &[(A, &cube)], None);
        agree(&op, (&kept, DType::F32), &[(A, &cube)], None);
    }
    agree(&LocalOp::Cast { dst: D, src: A }, (&[4, 3, 6], DType::BF16), &[(A, &cube)], None);
    for dst in
        [vec![4, 3, 6], vec![12, 6], vec![4, 18], vec![72], vec![6, 12], vec![4, 3, 2, 3], vec![8, 9, 1]]
    {
        agree(&LocalOp::Copy { dst: D, src: A }, (&dst, DType::F32), &[(A, &cube)], None);
    }
    for perm in [vec![0, 1, 2], vec![2, 0, 1], vec![1, 2, 0], vec![2, 1, 0]] {
        let dst: Vec<u64> = perm.iter().map(|d: &u32| [4, 3, 6][*d as usize]).collect();
        agree(&LocalOp::Transpose { dst: D, src: A, perm }, (&dst, DType::F32), &[(A, &cube)], None);
    }
}

#[test]
fn lines_rows_and_fills_are_shared_too() {
    let cube = numbered(DType::I32, &[4, 3, 5], 1000);
    for dim in 0..3u32 {
        for rule in [
            CutRule::Even,
            CutRule::Ceil,
            CutRule::Lengths(Parts::row(&[1, 0, 2 + [1, 0, 2][dim as usize]]).unwrap()),
        ] {
            let parts = 3;
            let op = LocalOp::Pack { dst: D, src: A, dim, parts, rule: rule.clone(), at: None };
            agree(&op, (&[60], DType::I32), &[(A, &cube)], None);
            let line = numbered(DType::I32, &[60], 1000);
            let op = LocalOp::Unpack { dst: D, src: A, dim, parts, rule: rule.clone(), at: None };
            agree(&op, (&[4, 3, 5], DType::I32), &[(A, &line)], None);
            for i in 0..parts {
                let n = [4, 3, 5][dim as usize];
                let (lo, hi) = (rule.boundary(n, i, parts), rule.boundary(n, i + 1, parts));
                let mut own = vec![4, 3, 5];
                own[dim as usize] = hi - lo;
                let at = Some(Expr::Int(i as i64));
                let part = numbered(DType::I32, &own, 1000);
                let op = LocalOp::Pack { dst: D, src: A, dim, parts, rule: rule.clone(), at: at.clone() };
                agree(&op, (&[60], DType::I32), &[(A, &part)], Some(i as i64));
                let op = LocalOp::Unpack { dst: D, src: A, dim, parts, rule: rule.clone(), at };
                agree(&op, (&own, DType::I32), &[(A, &line)], Some(i as i64));
                let index = Expr::Int(i as i64);
                let op = LocalOp::Slice { dst: D, src: A, dim, index, of: parts, rule: rule.clone() };
                agree(&op, (&own, DType::I32), &[(A, &cube)], Some(i as i64));
            }
        }
    }
    let (table, ids) = (numbered(DType::F32, &[9, 4], 1000), numbered(DType::I32, &[2, 3], 12));
    let op = LocalOp::Embedding { dst: D, table: A, ids: B, first: Expr::Int(2) };
    agree(&op, (&[2, 3, 4], DType::F32), &[(A, &table), (B, &ids)], Some(2));
    let (x, w) = (numbered(DType::F32, &[7, 3], 11), numbered(DType::F32, &[3, 3, 4], 13));
    let runs = Runs::new(vec![(0, 2), (1, 0), (2, 5)]).unwrap();
    let op = LocalOp::Grouped { dst: D, x: A, w: B, runs, places: vec![(0, 0)], at: Expr::Int(0) };
    agree(&op, (&[7, 4], DType::F32), &[(A, &x), (B, &w)], Some(0));
    let with = Filling::Place { dim: 1, first: Expr::Int(5) };
    agree(&LocalOp::Fill { dst: D, with }, (&[4, 7], DType::I32), &[], Some(5));
}

#[test]
fn an_element_that_nobody_sends_is_missed() {
    // A check of the rule itself: the same operation with the operand placed elsewhere needs
    // fetches, which the plan lists.
    let machine = six();
    let placed = |buffer, placement| PlacedBuffer { buffer, sizes: vec![4, 6], placement };
    let op = LocalOp::Cast { dst: D, src: A };
    let same = share(&op, &placed(D, COLUMNS), &[placed(A, COLUMNS)], None, &machine).unwrap();
    assert_eq!((same.parts.len(), same.fetches.len()), (6, 0));
    let other = share(&op, &placed(D, COLUMNS), &[placed(A, both(Policy::RowWise))], None, &machine).unwrap();
    // Four of six PEs hold a row. Every PE needs one element of each row, and four of them hold one
    // themselves.
    assert_eq!(other.fetches.len(), 6 * 4 - 4);
    assert!(other.fetches.iter().all(|m| m.from != m.to));
}

/// Returns one rank on a device of 4 x 4 cubes of 8 PEs.
fn sip(more: &str, placements: &[(&str, DevicePlacement)], others: Option<DevicePlacement>) -> Topology {
    let named = placements.iter().map(|(n, p)| ((*n).to_owned(), *p)).collect();
    machine(&format!("package(ring(1), mesh(4, 4), 8) {{ ranks: sip{more} }}"))
        .with_placements(Placements { named, others })
}

fn kir(buffers: &str, ops: &str) -> Schedule {
    parse(&format!(
        "kir 1\nmodule @m\nmesh tp 1\nprops expanded allocated synchronized\n\nschedule calls first\n{buffers}\
         region @c local\n  role all\n    stream main\n{ops}"
    ))
}

/// 1000 GFLOP/s, 100 GB/s of memory, 50 GB/s of vector work.
const RATES: &str = "; device: 1 TFLOP/s, 100 GB/s; vector: 50 GB/s";

fn cast() -> Schedule {
    kir("buffer %x : f32[64, 4096] hbm temp\nbuffer %y : f32[64, 4096] hbm temp\n", "      cast %y = %x\n")
}

#[test]
fn an_elementwise_operation_takes_a_part_in_as_many_as_pes() {
    let bytes = 64.0 * 4096.0 * 4.0;
    let one = time(&cast(), &sip(RATES, &[], None));
    assert_eq!(one.ns, 2.0 * bytes / 100.0);
    let shared = time(&cast(), &sip(RATES, &[], Some(COLUMNS)));
    assert_eq!(shared.ns, one.ns / 128.0);
    assert_eq!(shared.breakdown().fetch_ns, 0.0);
    // Every PE does everything.
    assert_eq!(time(&cast(), &sip(RATES, &[], Some(both(Policy::Replicate)))).ns, one.ns);
    // Only the first PE works.
    assert_eq!(time(&cast(), &sip(RATES, &[], Some(DevicePlacement::default()))).ns, one.ns);
    // The eight PEs of the first cube work.
    let cube = DevicePlacement { num_cubes: Some(1), cube: Policy::Replicate, ..COLUMNS };
    assert_eq!(time(&cast(), &sip(RATES, &[], Some(cube))).ns, one.ns / 8.0);
    // A device that is one PE: with a placement and without.
    let single = machine(&format!("package(ring(1), mesh(1, 1), 1) {{ ranks: sip{RATES} }}"));
    let others = Some(DevicePlacement::default());
    let placed = single.clone().with_placements(Placements { named: vec![], others });
    assert_eq!(time(&cast(), &placed), time(&cast(), &single));
}

#[test]
fn a_product_by_columns_fetches_its_left_operand_alone() {
    let s = kir(
        "buffer %x : f32[64, 256] hbm temp\nbuffer %w : f32[256, 1024] hbm temp\nbuffer %y : f32[64, 1024] hbm temp\n",
        "      matmul %y = %x, %w\n",
    );
    let at_first = [("x", DevicePlacement::default())];
    // A PE has 8 columns: 2 * 64 * 256 * 8 operations at 1 TFLOP/s; x and its columns read, its
    // columns written at 100 GB/s.
    let (arithmetic, memory) = (262.144, (64 * 256 + 256 * 8 + 64 * 8) as f64 * 4.0 / 100.0);
    let work = f64::max(arithmetic, memory);
    // Every PE has x: nothing is fetched.
    let everywhere = [("x", both(Policy::Replicate))];
    let t = time(&s, &sip(RATES, &everywhere, Some(COLUMNS)));
    assert!((t.ns - work).abs() < 1e-9, "{} {work}", t.ns);
    // x is at the first PE, and 127 others get all of it through that PE's link: 64 KiB each at 128
    // GB/s, one after another.
    let link = "; pe_link: 128 GB/s; cube_link: 128 GB/s, 4";
    let t = time(&s, &sip(&format!("{RATES}{link}"), &at_first, Some(COLUMNS)));
    let x = (64 * 256 * 4) as f64;
    assert!((t.breakdown().fetch_ns - 127.0 * x / 128.0).abs() < 1e-6, "{:?}", t.breakdown());
    assert!((t.ns - (127.0 * x / 128.0 + work)).abs() < 1e-6, "{}", t.ns);
    assert_eq!(t.path.iter().map(|s| s.cause).filter(|c| *c == Cause::Fetch).count(), 1);
}

#[test]
fn a_mismatch_pays_the_move() {
    // Rows to columns inside one cube of two PEs: each sends half of its half, 32 x 2048 f32, at
    // the same time.
    let text =
        format!("package(ring(1), mesh(1, 1), 2) {{ ranks: sip; pe_link: 64 GB/s; pe_wire: 300{RATES} }}");
    let p = |pe| DevicePlacement { cube: Policy::Replicate, pe, num_cubes: None, num_pes: None };
    let placed = |x, y| {
        let named = vec![("x".to_owned(), p(x)), ("y".to_owned(), p(y))];
        machine(&text).with_placements(Placements { named, others: None })
    };
    let same = time(&cast(), &placed(Policy::ColumnWise, Policy::ColumnWise));
    assert_eq!(same.ns, 64.0 * 4096.0 * 4.0 / 100.0);
    let moved = time(&cast(), &placed(Policy::RowWise, Policy::ColumnWise));
    // Two links of 3 ns each: 300 mm at 0.01 ns/mm.
    let fetch = 6.0 + 32.0 * 2048.0 * 4.0 / 64.0;
    assert!((moved.ns - same.ns - fetch).abs() < 1e-6, "{} {} {fetch}", moved.ns, same.ns);
}
