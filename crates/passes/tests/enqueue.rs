//! Tests of every algorithm of the library through queues (SIM-3): each is checked and executed,
//! and fulfils the contract of its collective.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::cases::all_cases;
use crate::stack;

use kbc_backend_sim::interp::{RunOptions, run};
use kbc_checker::{CheckOptions, check};
use kbc_diag::{Diagnostics, FileId, Span};
use kbc_ir::Module;
use kbc_ir::schedule::Calls;
use kbc_ir::text::{self, PrintOptions};
use kbc_ir::types::{CutRule, MemKind};
use kbc_machine::topology::Topology;
use kbc_passes::enqueue::{Enqueue, INFO};
use kbc_passes::{Options, Pass, PassCx};
use kbc_time::{TimeOptions, simulate};
use stack::{Case, Layout, World};
use std::collections::BTreeSet;

fn shapes(axes: usize) -> Vec<Vec<u64>> {
    match axes {
        1 => (2..=9).map(|p| vec![p]).collect(),
        2 => [[2, 2], [2, 3], [3, 2], [3, 3], [2, 4]].iter().map(|s| s.to_vec()).collect(),
        _ => vec![vec![2, 2, 2], vec![2, 3, 2]],
    }
}

fn layout(n: u64, p: u64) -> Layout {
    let unit = if n.is_multiple_of(p) { p } else { 1 + n % 2 };
    let rule = if n % 3 == 1 { CutRule::Ceil } else { CutRule::Even };
    Layout { unit, rule, ..Layout::ints(n) }
}

fn codes(found: Diagnostics) -> Vec<String> {
    found.list.iter().map(|d| d.code.to_owned()).collect()
}

fn with_depth(depth: u64) -> Enqueue {
    let mut options = Options::none();
    options.set(&INFO, ("depth", Span::NONE), (&depth.to_string(), Span::NONE)).unwrap();
    let pass = Enqueue::new(&options);
    assert_eq!(pass.options(), options);
    pass
}

/// Checks a case with `depth` slots; the error is the reason of a rejection.
fn one(world: &World, case: &Case, l: &Layout, depth: u64) -> Result<(), Vec<String>> {
    let mut m = match stack::expanded(world, case, l) {
        Ok(m) => m,
        Err(d) => return Err(codes(d)),
    };
    let pass = with_depth(depth);
    stack::pass(world, &mut m, &pass).map_err(codes)?;
    let s = m.schedule().unwrap();
    assert!(s.windows.is_empty() && s.signals.is_empty(), "{}", world.show(case));
    let v = check(s, &CheckOptions { calls: Some(Calls::Any), ..CheckOptions::default() });
    if !v.ok() {
        return Err(codes(v.errors));
    }
    let feeds: Vec<_> = (0..2).map(|call| stack::feed(world, case, l, call)).collect();
    let result = run(s, &feeds, &RunOptions { calls: 2, ..RunOptions::default() });
    let result = result.unwrap_or_else(|d| panic!("{}: {}", world.show(case), world.words(&d)));
    if let Some(e) = stack::wrong(world, case, l, &feeds, &result, stack::region(&m)) {
        panic!("{}: {e}", world.show(case));
    }
    Ok(())
}

/// Algorithms that cannot use queues of this many slots, with the code. A rank that sends several
/// messages to one peer before it receives from it needs as many slots (E340); a rejection by
/// `expand` comes before that (E332).
const REFUSED: [(u64, &str, &str); 38] = [
    (1, "all_gather bruck", "E340"),
    (1, "all_gather mesh2_all_links", "E340"),
    (1, "all_gather mesh3_all_links", "E340"),
    (1, "all_gather nhr", "E340"),
    (1, "all_gather pat", "E340"),
    (1, "all_gather rails", "E340"),
    (1, "all_gather rails_flat", "E340"),
    (1, "all_gather recursive_doubling", "E340"),
    (1, "all_gather swing", "E340"),
    (1, "all_gather torus2_all_links", "E340"),
    (1, "all_gather torus2_columns_first", "E340"),
    (1, "all_gather torus3_all_links", "E340"),
    (1, "all_reduce interleaved_bidirectional", "E340"),
    (1, "all_reduce mesh3_all_links", "E340"),
    (1, "all_reduce multi_root", "E340"),
    (1, "all_reduce nhr", "E340"),
    (1, "all_reduce rails", "E340"),
    (1, "all_reduce rails_flat", "E340"),
    (1, "all_reduce swing", "E340"),
    (1, "all_to_all bruck", "E332"),
    (1, "all_to_all bruck", "E340"),
    (1, "all_to_all torus2", "E332"),
    (1, "all_to_all torus2", "E340"),
    (1, "barrier dissemination", "E340"),
    (1, "reduce_scatter mesh2_all_links", "E340"),
    (1, "reduce_scatter mesh3_all_links", "E340"),
    (1, "reduce_scatter nhr", "E340"),
    (1, "reduce_scatter pat", "E340"),
    (1, "reduce_scatter rails", "E340"),
    (1, "reduce_scatter swing", "E340"),
    (1, "reduce_scatter torus2_all_links", "E340"),
    (1, "reduce_scatter torus2_columns_first", "E340"),
    (1, "reduce_scatter torus3_all_links", "E340"),
    (4, "all_gather mesh3_all_links", "E340"),
    (4, "all_reduce mesh3_all_links", "E340"),
    (4, "all_to_all bruck", "E332"),
    (4, "all_to_all torus2", "E332"),
    (4, "reduce_scatter mesh3_all_links", "E340"),
];

#[test]
fn the_library_through_queues() {
    let world = World::shipped();
    let (mut refused, mut ran) = (BTreeSet::new(), BTreeSet::new());
    let every = all_cases();
    let roots = |p: u64| if p < 5 { vec![0, p - 1] } else { vec![p / 2] };
    for (i, case) in world.cases(&shapes, &roots).into_iter().enumerate() {
        let name = world.name(case.alg);
        for depth in [1, 4] {
            for (k, n) in [case.ranks(), 7 * case.ranks() + 3].into_iter().enumerate() {
                // Both numbers of elements, or one of them in turn.
                if !every && (i + k) % 2 > 0 {
                    continue;
                }
                match one(world, &case, &layout(n, case.ranks()), depth) {
                    Ok(()) => _ = ran.insert((depth, name.clone())),
                    Err(codes) => refused.extend(codes.into_iter().map(|c| (depth, name.clone(), c))),
                }
            }
        }
    }
    let refused: Vec<(u64, &str, &str)> = refused.iter().map(|(d, n, c)| (*d, &**n, &**c)).collect();
    assert_eq!(refused, REFUSED);
    // All algorithms run on some shape with the slots of a kernbench `ccl.yaml`.
    let all: BTreeSet<(u64, String)> =
        world.cases(&shapes, &|_| vec![0]).iter().map(|c| (4, world.name(c.alg))).collect();
    assert!(all.is_subset(&ran), "{:?}", all.difference(&ran).collect::<Vec<_>>());
}

/// Instances are streams with queues of their own, while a pipeline has one queue. In a ring of
/// two, both directions reach the same rank.
#[test]
fn queues_are_told_apart_by_the_window_of_the_receiver() {
    let world = World::shipped();
    let queues = |text: &str, sizes: &[u64]| {
        let mut m = stack::expanded(world, &world.case(text, sizes, None), &Layout::ints(24)).unwrap();
        stack::pass(world, &mut m, &Enqueue::new(&Options::none())).unwrap();
        let s = m.schedule().unwrap();
        let v = check(s, &CheckOptions { calls: Some(Calls::Any), ..CheckOptions::default() });
        assert!(v.ok(), "{text}: {}", world.words(&v.errors));
        s.queues.iter().map(|q| format!("{}[{}]", q.name, q.count)).collect::<Vec<_>>().join(" ")
    };
    let found: Vec<String> = [
        queues("all_reduce ring", &[4]),
        queues("all_reduce ring(d: -1)", &[4]),
        queues("all_reduce bidirectional_ring", &[2]),
        queues("all_reduce torus2", &[2, 3]),
        queues("all_reduce torus2_all_links", &[2, 2]),
        queues("all_reduce double_tree", &[6]),
    ]
    .into();
    assert_eq!(
        found,
        [
            "r_minus[1]",
            "r_plus[1]",
            "r_minus[1] r_plus[1]",
            "x_minus[1] y_minus[1]",
            "x_minus[1] x_plus[1] y_minus[1] y_plus[1]",
            "peer[1]"
        ]
    );
}

/// Tests shapes on which names of directions mislead: a ring of two in both directions, tori with
/// an axis of two, with one link or two per direction, and a tree, whose directions are not axes.
/// They complete with the fewest possible slots, in every memory; in debug builds, credits are
/// conserved at every event.
#[test]
fn rings_of_two_tori_and_trees_complete() {
    let world = World::shipped();
    let run = |text: &str, sizes: &[u64], machine: &str, depth: u64, calls: u32| {
        let p: u64 = sizes.iter().product();
        let case = world.case(text, sizes, if text.starts_with("all") { None } else { Some(0) });
        let l = Layout { unit: p, ..Layout::ints(12 * p) };
        one(world, &case, &l, depth).unwrap_or_else(|e| panic!("{text} with {depth}: {e:?}"));
        let mut m = stack::expanded(world, &case, &l).unwrap();
        stack::pass(world, &mut m, &with_depth(depth)).unwrap();
        let topo = Topology::parse(machine, FileId(0)).unwrap();
        let options = TimeOptions { calls, ..TimeOptions::default() };
        simulate(m.schedule().unwrap(), &topo, &options)
            .unwrap_or_else(|d| panic!("{text}: {}", world.words(&d)))
    };
    let cases: [(&str, &[u64], &str, u64); 11] = [
        ("all_reduce bidirectional_ring", &[2], "ring(2)", 1),
        ("all_reduce ring", &[2], "ring(2)", 1),
        ("all_reduce torus2", &[2, 2], "torus(2, 2)", 1),
        ("all_reduce torus2", &[2, 3], "torus(2, 3)", 1),
        ("all_reduce torus2", &[3, 2], "torus(3, 2)", 1),
        ("all_reduce torus2_all_links", &[2, 4], "torus(2, 4)", 4),
        ("all_reduce axes2", &[2, 3], "torus(2, 3)", 1),
        ("all_reduce up_down", &[7], "ring(7)", 1),
        ("all_reduce up_down", &[2], "ring(2)", 1),
        ("reduce binary_tree", &[9], "mesh(9)", 1),
        ("broadcast binary_tree", &[6], "ring(6)", 1),
    ];
    for (text, sizes, shape, depth) in cases {
        let mut times = vec![];
        for wrap2 in [1, 2] {
            for queue in ["queue: tcm", "queue: sram, 1; backpressure: poll, 3 ns", "queue: hbm, 2"] {
                for forward in ["cut_through", "drain"] {
                    let machine = format!(
                        "{shape} {{ link: 10 GB/s, 100 ns; wrap2: {wrap2}; forward: {forward}; {queue} }}"
                    );
                    times.push(run(text, sizes, &machine, depth, 3).ns);
                }
            }
        }
        assert!(times.iter().all(|t| *t > 100.0), "{text}: {times:?}");
        assert!(times[0] < times[2] && times[0] < times[4], "slots cost something: {text}: {times:?}");
    }
    // Two links per direction carry both directions of a ring of two at once: two rounds of 24
    // bytes. With one slot, the second message waits for the credit of the first, 16 bytes over a
    // route of its own.
    let both = |wrap2, depth| {
        let machine = format!("ring(2) {{ link: 1 GB/s, 1 ns; wrap2: {wrap2}; queue: tcm }}");
        run("all_reduce bidirectional_ring", &[2], &machine, depth, 1).ns
    };
    assert_eq!([both(2, 4), both(2, 1), both(1, 4)], [50.0, 67.0, 98.0]);
}

/// Returns a module of two ranks with this body of `main`, as `expand` leaves it.
fn half_way(body: &str) -> Result<Module, Diagnostics> {
    let kir = format!(
        "kir 1
module @m
mesh tp 2
props expanded
schedule calls none
buffer %x : f32[8] hbm zero temp
buffer %y : f32[8] hbm zero temp
window @w0 : f32[4 x 4] hbm
window @w1 : f32[4 x 4] hbm
region @c over tp as (r of 2)
  on v = %x line 8
  on u = %y line 8
  role all
    stream main
{body}"
    );
    let mut m = text::parse(FileId(0), &kir).unwrap_or_else(|d| panic!("{d:?}\n{kir}"));
    stack::pass(World::shipped(), &mut m, &with_depth(4))?;
    let v = check(m.schedule().unwrap(), &CheckOptions::default());
    if v.ok() { Ok(m) } else { Err(v.errors) }
}

const SENT: &str = "      put v[0 of 4] -> (1 - r) : @w0[0]
      publish (1 - r) : @w0[0]
      put v[1 of 4] -> (1 - r) : @w1[0]
      publish (1 - r) : @w1[0]
";

/// Returns a message of this many pieces, and operations that use it where it lands.
fn message(pieces: u32, landing: &str) -> Result<Module, Diagnostics> {
    half_way(&format!(
        "      for k in 0..{pieces}
        put v[k of 4] -> (1 - r) : @w0[k]
      publish (1 - r) : @w0[0]
      accept (1 - r) : @w0[0]
{landing}"
    ))
}

/// Messages that are received in another order than they are sent have queues of their own. Pieces
/// of one message share a queue.
#[test]
fn order_is_compared() {
    let take =
        |w: u32, k: u32| format!("      accept (1 - r) : @w{w}[0]\n      copy u[{k} of 4] = @w{w}[0]\n");
    let queues = |m: Module| {
        let s = m.schedule().unwrap();
        assert!(s.windows.iter().all(|w| w.offset.is_some()), "what no message uses stays");
        s.queues.iter().map(|q| q.count).collect::<Vec<_>>()
    };
    let straight = half_way(&format!("{SENT}{}{}", take(0, 0), take(1, 1)));
    assert_eq!(queues(straight.unwrap()), [1]);
    let crossed = half_way(&format!("{SENT}{}{}", take(1, 1), take(0, 0)));
    assert_eq!(queues(crossed.unwrap()), [2]);
    let pieces =
        |slot: &str| message(3, &format!("      for k in 0..3\n        copy u[{slot} of 4] = @w0[{slot}]\n"));
    assert_eq!(queues(pieces("k").unwrap()), [1]);
    let d = pieces("2 - k").unwrap_err();
    let why =
        "a queue cannot carry this message: its pieces are received in another order than they are sent";
    assert_eq!((d.list[0].code, d.list[0].title.as_str()), ("E375", why));
}

/// A message that lands at several places is received at one of them, where the others read it.
#[test]
fn several_landings() {
    let added = "      for k in 0..2\n        combine sum v[k + 2 of 4], @w0[k]\n";
    let land = |other: &str| message(2, &format!("{added}{other}"));
    let m = land("      if r == 0\n        for j in 0..2\n          copy u[j of 4] = @w0[j]\n").unwrap();
    let printed = text::print(&m, &PrintOptions::default());
    assert!(printed.contains("recv v_in[k + 2 of 4] <- (1 - r) : @peer[0]"), "{printed}");
    assert!(printed.contains("copy u[j of 4] = v_in[j + 2 of 4]"), "{printed}");
    let d =
        land("      if r == 0\n        for j in 0..2\n          copy u[j of 4] = @w0[1 - j]\n").unwrap_err();
    let why =
        "a queue cannot carry this message: its pieces arrive in different orders at different destinations";
    assert_eq!((d.list[0].code, d.list[0].title.as_str()), ("E375", why));
    // A copy beside the addition becomes the place of the receive, so no register is needed.
    let m = land("      for j in 0..2\n        copy u[j of 4] = @w0[j]\n").unwrap();
    assert_eq!(m.schedule().unwrap().buffers.len(), 2);
}

/// Number and size of slots are those of the machine. A larger message enlarges them, with a
/// warning.
#[test]
fn slots_are_those_of_the_machine() {
    let world = World::shipped();
    let case = world.case("all_reduce ring", &[4], None);
    let made = |machine: &str, n: u64| {
        let topo = Topology::parse(machine, FileId(0)).unwrap();
        let cx = PassCx::new(&world.lib, Some(&topo));
        let mut m = stack::expanded(world, &case, &Layout::ints(n)).unwrap();
        Enqueue::new(&Options::none()).run(&mut m, &cx).unwrap();
        let codes = codes(cx.take_messages());
        let q = &m.schedule().unwrap().queues[0];
        (q.depth, q.capacity, q.memory, codes)
    };
    let machine = "ring(4) { queue: sram, 1; slots: 3, 64 B }";
    assert_eq!(made(machine, 64), (3, 16, MemKind::Sram, vec![]));
    assert_eq!(made(machine, 12), (3, 16, MemKind::Sram, vec![]));
    assert_eq!(made(machine, 65), (3, 17, MemKind::Sram, vec!["E377".to_owned()]));
    assert_eq!(made("ring(4) { queue: tcm }", 64), (4, 1024, MemKind::Tcm, vec![]));
    assert_eq!(made("ring(4)", 64), (4, 16, MemKind::Hbm, vec![]));
}
