//! Tests of queues as windows (SIM-3): every algorithm of the library goes through `enqueue` and
//! `lower-queues`, is checked again, executed by the interpreter and as machine code, and fulfils
//! the contract of its collective.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::cases::all_cases;
use crate::stack;

use kbc_backend_sim::interp::{RunOptions, run};
use kbc_backend_sim::jit;
use kbc_checker::{CheckOptions, check};
use kbc_diag::{FileId, Span};
use kbc_ir::schedule::{Calls, RankSet};
use kbc_ir::text;
use kbc_passes::enqueue::{self, Enqueue};
use kbc_passes::lower_queues::LowerQueues;
use kbc_passes::{Options, Pass, PassCx};
use stack::{Case, Layout, World};
use std::collections::BTreeSet;

fn shapes(axes: usize) -> Vec<Vec<u64>> {
    match axes {
        1 => vec![vec![2], vec![3], vec![4], vec![6], vec![8]],
        2 => [[2, 2], [2, 3], [3, 3]].iter().map(|s| s.to_vec()).collect(),
        _ => vec![vec![2, 2, 2], vec![2, 3, 2]],
    }
}

/// Checks a case with queues of `depth` slots, and panics if the result is wrong. Returns its
/// number of roles, or `None` if it cannot use such queues.
fn one(world: &World, case: &Case, depth: u64) -> Option<usize> {
    let p = case.ranks();
    let l = Layout { unit: p, ..Layout::ints(4 * p) };
    let mut m = stack::expanded(world, case, &l).unwrap();
    let mut options = Options::none();
    options.set(&enqueue::INFO, ("depth", Span::NONE), (&depth.to_string(), Span::NONE)).unwrap();
    stack::pass(world, &mut m, &Enqueue::new(&options)).unwrap();
    let options = CheckOptions { calls: Some(Calls::Any), ..CheckOptions::default() };
    if !check(m.schedule().unwrap(), &options).ok() {
        return None;
    }
    let name = world.show(case);
    let queues = !m.schedule().unwrap().queues.is_empty();
    stack::pass(world, &mut m, &LowerQueues).unwrap_or_else(|d| panic!("{name}: {}", world.words(&d)));
    let s = m.schedule().unwrap();
    assert!(s.queues.is_empty() && s.windows.is_empty() != queues, "{name}");
    let v = check(s, &options);
    assert!(v.ok(), "{name}, {depth} slots: {}", world.words(&v.errors));
    let feeds: Vec<_> = (0..3).map(|call| stack::feed(world, case, &l, call)).collect();
    let options = RunOptions { calls: 3, ..RunOptions::default() };
    let code = jit::compile(s).and_then(|c| c.run(&feeds, &options));
    for result in [run(s, &feeds, &options), code] {
        let result = result.unwrap_or_else(|d| panic!("{name}: {}", world.words(&d)));
        if let Some(e) = stack::wrong(world, case, &l, &feeds, &result, stack::region(&m)) {
            panic!("{name}: {e}");
        }
    }
    Some(stack::region(&m).roles.len())
}

#[test]
fn the_library_through_lowered_queues() {
    let world = World::shipped();
    let (mut symbolic, mut written, mut ran) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let all = all_cases();
    for (i, case) in world.cases(&shapes, &|p| vec![p / 2]).into_iter().enumerate() {
        for (k, depth) in [1, 4].into_iter().enumerate() {
            // Some algorithms cannot use queues of one slot, so a sample leaves out that depth
            // alone.
            if !all && k == 0 && i % 2 > 0 {
                continue;
            }
            let Some(roles) = one(world, &case, depth) else { continue };
            ran.insert(world.name(case.alg));
            let set = if roles == 1 { &mut symbolic } else { &mut written };
            set.insert(world.name(case.alg));
        }
    }
    let all: BTreeSet<String> =
        world.cases(&shapes, &|_| vec![0]).iter().map(|c| world.name(c.alg)).collect();
    assert_eq!(ran, all);
    for name in ["all_reduce ring", "all_reduce torus2", "all_gather bidirectional_ring"] {
        assert!(symbolic.contains(name) && !written.contains(name), "{name}: {written:?}");
    }
    assert!(written.contains("broadcast binomial"), "{written:?}");
}

fn lowered(body: &str) -> Result<(), String> {
    let kir = format!(
        "kir 1
module @m
mesh tp 2
props expanded allocated synchronized
schedule calls any
buffer %x : f32[8] hbm zero temp
queue @q[2] : f32[2 x 8] hbm
region @c over tp as (r of 2)
  on v = %x line 8
  role all
    stream main
{body}"
    );
    let mut m = text::parse(FileId(0), &kir).unwrap_or_else(|d| panic!("{d:?}\n{kir}"));
    let world = World::shipped();
    let done = LowerQueues.run(&mut m, &PassCx::new(&world.lib, None));
    done.map_err(|d| format!("{} {}", d.list[0].code, d.list[0].title))?;
    let s = m.schedule().unwrap();
    assert!(s.queues.is_empty());
    let v = check(s, &CheckOptions::default());
    if !v.ok() {
        return Err(world.words(&v.errors));
    }
    let roles = &s.regions[0].roles;
    assert_eq!(roles.iter().any(|r| r.ranks != RankSet::All), body.contains("if"), "{body}");
    Ok(())
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let send = "send v -> (1 - r) : @q[0]\n";
    let recv = "recv v <- (1 - r) : @q[0]\n";
    let line = |depth: usize, text: &str| format!("{}{text}", " ".repeat(6 + 2 * depth));
    let pair = |depth| line(depth, send) + &line(depth, recv);
    assert_eq!(lowered(&pair(0)), Ok(()));
    assert_eq!(lowered(&(line(0, "for s in 0..5\n") + &pair(1) + &pair(0))), Ok(()));
    let alternate = line(0, "if call % 2 == 0\n") + &pair(1);
    let why = lowered(&alternate).unwrap_err();
    assert_eq!(
        why,
        "E376 the messages of this queue cannot be numbered: they depend on a condition on the call"
    );
    let why = lowered(&(pair(0) + &line(0, "if r == 0\n") + &line(1, send))).unwrap_err();
    assert_eq!(
        why,
        "E376 the messages of this queue cannot be numbered: a queue is not empty at the end of the region"
    );
    let many = line(0, "for s in 0..30000\n") + &line(1, "if r < 2\n") + &pair(2);
    let why = lowered(&many).unwrap_err();
    assert!(
        why.starts_with("E376 the messages of this queue cannot be numbered: separate code for every rank"),
        "{why}"
    );
    let never = line(0, "for s in 0..1000000000000\n") + &line(1, "if s < 0 && r == 0\n") + &pair(2);
    let why = lowered(&never).unwrap_err();
    assert!(
        why.starts_with("E376 the messages of this queue cannot be numbered: separate code for every rank"),
        "{why}"
    );
}

#[test]
fn slots_that_no_memory_has_are_refused() {
    let kir = "kir 1
module @m
mesh tp 2
props expanded allocated synchronized
schedule calls any
buffer %x : f32[8] hbm zero temp
queue @q[1] : f32[4000000000 x 4000000000] hbm
region @c over tp as (r of 2)
  on v = %x line 8
  role all
    stream main
      send v -> (1 - r) : @q[0]
      recv v <- (1 - r) : @q[0]
";
    let mut m = text::parse(FileId(0), kir).unwrap();
    let cx = PassCx::new(&World::shipped().lib, None);
    let d = LowerQueues.run(&mut m, &cx).unwrap_err();
    assert_eq!(
        (d.list[0].code, d.list[0].title.as_str()),
        ("E325", "the slots of c_q exceed 64-bit addresses")
    );
}

/// `room` becomes the wait for a credit that the next `send` needs.
#[test]
fn room_is_a_wait() {
    let body = "      if r == 0
        room (1) : @q[1]
        send v[0 of 2] -> (1) : @q[1]
        recv v[1 of 2] <- (1) : @q[0]
      else
        recv v[0 of 2] <- (0) : @q[1]
        room (0) : @q[0]
        send v[0 of 2] -> (0) : @q[0]
";
    assert_eq!(lowered(body), Ok(()));
}
