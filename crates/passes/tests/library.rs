//! Tests of every algorithm of the library through the whole stack: lowered, verified, checked,
//! executed with real numbers and run under the adversary.
//!
//! The shapes: lines of 1 to 9 ranks, with every root up to 5 ranks and with three roots above;
//! eight grids up to 3 x 3 and 2 x 4; boxes of 2 x 2 x 2 and 2 x 3 x 2; 0, 1, p - 1, p, p + 1 and 7
//! p + 3 elements; both cut rules; three calls in a row. All checks run for p and for 7 p + 3
//! elements, in a sample for one of them in turn. `kbc-rounds` verifies larger shapes (lines up to
//! 17 and boxes up to 36) as rounds.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::cases::all_cases;
use crate::stack;

use kbc_backend_sim::adversary::{AdversaryOptions, adversarial};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_checker::{CheckOptions, Method, Strategy, check};
use kbc_diag::FileId;
use kbc_ir::schedule::Calls;
use kbc_ir::text::{self, PrintOptions};
use kbc_ir::types::{CutRule, DType, ReduceOp};
use kbc_ir::{Module, Props};
use stack::{Case, Layout, World};
use std::collections::BTreeSet;

fn lines() -> Vec<Vec<u64>> {
    (1..=9).map(|p| vec![p]).collect()
}

fn grids() -> Vec<Vec<u64>> {
    let flat = [[1, 1], [1, 3], [3, 1], [2, 2], [2, 3], [3, 2], [3, 3], [2, 4]];
    flat.iter().map(|s| s.to_vec()).chain([vec![2, 2, 2], vec![2, 3, 2]]).collect()
}

fn roots(p: u64) -> Vec<u64> {
    if p <= 5 { (0..p).collect() } else { vec![0, p / 2, p - 1] }
}

/// Returns the numbers of elements to try.
fn counts(p: u64) -> BTreeSet<u64> {
    [0, 1, p - 1, p, p + 1, 7 * p + 3].into()
}

/// Returns a layout. If the ranks divide the elements, all blocks of every operand have the same
/// size; otherwise the sizes differ.
fn layout(n: u64, p: u64) -> Layout {
    let unit = if n.is_multiple_of(p) { p } else { 1 + n % 2 };
    let rule = if n % 3 == 1 { CutRule::Ceil } else { CutRule::Even };
    Layout { unit, rule, ..Layout::ints(n) }
}

/// Checks whether an algorithm may reject these sizes because blocks of different lengths go to
/// each other's places. Only two operands in blocks have such places, and only if a third is used
/// between them.
fn may_refuse(world: &World, case: &Case, l: &Layout) -> bool {
    let coll = world.lib.collective(world.lib.collective_of(case.alg).unwrap());
    let blocks = coll.buffers.len() == 2 && coll.buffers.iter().all(|b| b.sizes.len() == 2);
    blocks && !l.n.is_multiple_of(case.ranks())
}

/// Checks that a module survives a round trip through its text.
fn round_trip(m: &Module) {
    let printed = text::print(m, &PrintOptions::default());
    let again = text::parse(FileId(0), &printed).unwrap_or_else(|d| panic!("{d:?}\n{printed}"));
    assert_eq!(text::print(&again, &PrintOptions::default()), printed);
}

/// Runs the checks of one case with one number of elements, or, if `deep`, all of them; the error
/// describes what is wrong.
fn one(world: &World, case: &Case, l: &Layout, deep: bool) -> Result<bool, String> {
    let m = match stack::synchronized(world, case, l) {
        Ok(m) => m,
        Err(d) if may_refuse(world, case, l) && d.list.iter().all(|d| d.code == "E332") => return Ok(false),
        Err(d) => return Err(world.words(&d)),
    };
    let s = m.schedule().unwrap();
    let feeds: Vec<_> = (0..3).map(|call| stack::feed(world, case, l, call)).collect();
    let mut undisturbed = None;
    for seed in [None, Some(l.n + 1)].into_iter().take(1 + usize::from(deep)) {
        let options = RunOptions { calls: 3, seed, ..RunOptions::default() };
        let result = run(s, &feeds, &options).map_err(|d| world.words(&d))?;
        if let Some(e) = stack::wrong(world, case, l, &feeds, &result, stack::region(&m)) {
            return Err(e);
        }
        undisturbed.get_or_insert(result);
    }
    if deep {
        round_trip(&m);
        for strategy in [Strategy::Auto, Strategy::Symmetric, Strategy::Fingerprints] {
            let v = check(s, &CheckOptions { calls: Some(Calls::Any), strategy, ..CheckOptions::default() });
            let unlike = strategy == Strategy::Symmetric && v.errors.list.iter().all(|d| d.code == "E354");
            if !v.ok() && !unlike {
                return Err(format!("{strategy:?}: {}", world.words(&v.errors)));
            }
            assert_eq!(v.order, Calls::Any);
        }
        let attack = AdversaryOptions { calls: 3, seed: l.n, runs: 3, ..AdversaryOptions::default() };
        if let Some(f) =
            adversarial(s, &feeds, undisturbed.as_ref(), &attack).map_err(|d| world.words(&d))?.failure
        {
            return Err(world.words(&f.diagnostic.into()));
        }
    }
    Ok(true)
}

/// Runs all cases on these shapes; every algorithm must have run on some of them.
fn sweep(world: &World, shapes: &[Vec<u64>]) {
    let fit = |axes: usize| shapes.iter().filter(|s| s.len() == axes).cloned().collect::<Vec<_>>();
    let (mut wrong, mut ran, mut refused) = (vec![], BTreeSet::new(), 0);
    let all = all_cases();
    for (i, case) in world.cases(&fit, &roots).into_iter().enumerate() {
        let p = case.ranks();
        // Blocks of equal and of unequal lengths. A sample alternates, unless the case may refuse
        // the latter.
        let (equal, unequal) = (p, 7 * p + 3);
        let refuses = may_refuse(world, &case, &layout(unequal, p));
        for n in counts(p) {
            let turn = all || refuses || (i % 2 == 0) == (n == equal);
            let deep = turn && (n == equal || n == unequal);
            match one(world, &case, &layout(n, p), deep) {
                Ok(true) => _ = ran.insert(case.alg),
                Ok(false) => refused += 1,
                Err(e) => wrong.push(format!("{} with {n} elements: {e}", world.show(&case))),
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong[..wrong.len().min(10)].join("\n"));
    let here = world
        .lib
        .algorithms()
        .filter(|a| shapes.iter().any(|s| s.len() == world.lib.algorithm(*a).axes.len()));
    let missing: Vec<String> = here.filter(|a| !ran.contains(a)).map(|a| world.name(a)).collect();
    assert!(missing.is_empty(), "never ran: {missing:?}");
    // Rejections must remain the exception.
    assert!(refused < 60, "{refused} refusals");
}

#[test]
fn the_library_on_lines() {
    sweep(World::shipped(), &lines());
}

#[test]
fn the_library_on_grids_and_boxes() {
    sweep(World::shipped(), &grids());
}

/// Only these algorithms reject sizes, and only because blocks of different lengths would lie in
/// each other's places.
#[test]
fn who_refuses_sizes() {
    let world = World::shipped();
    let shapes =
        |axes| if axes == 1 { vec![vec![3], vec![5]] } else { vec![vec![2, 3]; usize::from(axes == 2)] };
    let mut refused = BTreeSet::new();
    for case in world.cases(&shapes, &|_| vec![1]) {
        for n in counts(case.ranks()) {
            if let Err(d) = stack::synchronized(world, &case, &layout(n, case.ranks())) {
                assert!(d.list.iter().all(|d| d.code == "E332"), "{}", world.words(&d));
                refused.insert(world.name(case.alg));
            }
        }
    }
    assert_eq!(Vec::from_iter(refused), ["all_to_all bruck", "all_to_all torus2"]);
}

/// Symmetry applies if the text is the same relative to each rank: one rank then stands for all,
/// and the verdict states that.
#[test]
fn one_rank_stands_for_all_where_the_text_moves_with_the_rank() {
    let world = World::shipped();
    let mut found = BTreeSet::new();
    let shapes = |axes| if axes == 1 { vec![vec![4]] } else { vec![vec![2, 2]; usize::from(axes == 2)] };
    for case in world.cases(&shapes, &|_| vec![0]) {
        let m = stack::synchronized(world, &case, &Layout { unit: 4, ..Layout::ints(16) }).unwrap();
        let options = CheckOptions { strategy: Strategy::Symmetric, ..CheckOptions::default() };
        let v = check(m.schedule().unwrap(), &options);
        if v.ok() {
            assert!(matches!(v.meaning, Method::Symmetric { .. }));
            found.insert(world.name(case.alg));
        }
    }
    let list: Vec<String> = found.into_iter().collect();
    insta::assert_snapshot!(list.join("\n"));
}

/// Combiners other than sums, and operands of every element type that can be reduced.
#[test]
fn other_combiners_and_types() {
    let world = World::shipped();
    for case in world.cases(&|axes| if axes == 1 { vec![vec![3], vec![4]] } else { vec![] }, &|_| vec![1]) {
        for red in [ReduceOp::Min, ReduceOp::Max] {
            let l = Layout { red, unit: case.ranks(), ..Layout::ints(case.ranks()) };
            if let Err(e) = one(world, &case, &l, true) {
                panic!("{} {red}: {e}", world.show(&case));
            }
        }
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let l = Layout { dtype, unit: case.ranks(), ..Layout::ints(case.ranks()) };
            let m = stack::synchronized(world, &case, &l).unwrap();
            assert!(m.props.contains(Props::SYNCHRONIZED));
            assert!(m.schedule().unwrap().windows.iter().all(|w| w.dtype == dtype));
        }
    }
}

/// Floating-point sums have the bits that the rounds give: own value first, then the sources by
/// their distance.
#[test]
fn sums_have_the_order_of_the_rounds() {
    let world = World::shipped();
    let shapes = |axes| match axes {
        1 => vec![vec![4], vec![5], vec![8], vec![9]],
        2 => vec![vec![2, 3], vec![4, 2]],
        _ => vec![vec![2, 3, 2]],
    };
    let mut compared = 0;
    for case in world.cases(&shapes, &|p| vec![0, p - 2]) {
        compared += stack::oracle::compare(world, &case);
    }
    assert!(compared > 15_000, "{compared}");
}
