//! Tests of `allocate`: windows do not overlap, have alternating slots where that replaces credits,
//! and have room for every message.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::stack;

use kbc_ir::Module;
use kbc_ir::schedule::{CALL, Mark, SOp, Schedule};
use kbc_ir::text::{self, PrintOptions};
use kbc_ir::walk::{Act, Cursor, Mem, Program, Step};
use kbc_passes::allocate::Allocate;
use stack::{Case, Layout, World};
use std::collections::BTreeMap;

fn cases() -> Vec<Case> {
    let shapes = |axes| match axes {
        1 => vec![vec![1], vec![4], vec![5], vec![8]],
        2 => vec![vec![2, 3]],
        _ => vec![vec![2, 2, 2]],
    };
    World::shipped().cases(&shapes, &|p| vec![p - 1])
}

fn allocated(case: &Case, n: u64) -> Module {
    let world = World::shipped();
    let mut m = stack::expanded(world, case, &Layout { unit: case.ranks(), ..Layout::ints(n) }).unwrap();
    stack::pass(world, &mut m, &Allocate)
        .unwrap_or_else(|d| panic!("{}: {}", world.show(case), world.words(&d)));
    m
}

/// Returns the slots that a call writes on each rank: window, slot and largest number of elements.
fn landed(s: &Schedule, call: i64) -> BTreeMap<(u64, u32, u64), u64> {
    let program = Program::compile(s).unwrap();
    let mut out = BTreeMap::new();
    for rank in 0..program.ranks() {
        for stream in 0..program.streams.len() as u32 {
            let mut cursor = Cursor::new(&program, rank, stream, call);
            while let Some(step) = cursor.next_step().unwrap() {
                if let Step::Act(Act::Put { peer, dst, .. }, ..) = step
                    && let Mem::Slot(w, slot) = dst.mem
                {
                    let before = out.insert((peer, w, slot), dst.len);
                    assert!(before.is_none(), "a slot is written twice in a call");
                }
            }
        }
    }
    out
}

#[test]
fn windows_do_not_overlap() {
    for case in cases() {
        let m = allocated(&case, 3 * case.ranks());
        let mut end = 0;
        for w in &m.schedule().unwrap().windows {
            let at = w.offset.unwrap();
            assert!(at >= end && at % 64 == 0, "{}", World::shipped().show(&case));
            end = at + w.slots * w.capacity * w.dtype.bytes();
        }
    }
}

/// A slot holds one message per call. Windows without credits use other slots in every second call.
/// Every message fits, and no window is larger than its largest message needs.
#[test]
fn every_message_has_a_slot_of_its_own() {
    let world = World::shipped();
    for case in cases() {
        for n in [3 * case.ranks(), 0] {
            let m = allocated(&case, n);
            let s = m.schedule().unwrap();
            let calls = [landed(s, 0), landed(s, 1), landed(s, 2)];
            assert_eq!(calls[0], calls[2], "{}", world.show(&case));
            let coll = world.lib.collective(world.lib.collective_of(case.alg).unwrap());
            for (i, w) in s.windows.iter().enumerate() {
                let of = |c: usize| calls[c].keys().filter(move |k| k.1 == i as u32).map(|k| k.2);
                let (even, odd) = (of(0).max(), of(1).min());
                let apart = even.zip(odd).is_none_or(|(e, o)| e < o);
                let rooted = coll.root.is_some();
                assert!(!rooted || calls[0] == calls[1], "{}: rooted and alternating", world.show(&case));
                if !rooted && calls[0] != calls[1] {
                    assert!(apart, "{}: calls share slots", world.show(&case));
                }
                let most = calls.iter().flatten().filter(|(k, _)| k.1 == i as u32).map(|x| *x.1).max();
                assert!(most.is_none_or(|m| m <= w.capacity), "{}", world.show(&case));
            }
        }
    }
}

/// The pass is idempotent.
#[test]
fn twice_is_once() {
    for case in cases() {
        let mut m = allocated(&case, case.ranks());
        let before = text::print(&m, &PrintOptions::default());
        stack::pass(World::shipped(), &mut m, &Allocate).unwrap();
        assert_eq!(text::print(&m, &PrintOptions::default()), before, "{}", World::shipped().show(&case));
    }
}

/// Marks number messages within a call, so they do not depend on the slots.
#[test]
fn marks_stay() {
    for case in cases() {
        let m = allocated(&case, case.ranks());
        fn marks(list: &[kbc_ir::schedule::SStmt], f: &mut dyn FnMut(&SOp)) {
            for s in list {
                match s {
                    kbc_ir::schedule::SStmt::For { body, .. } => marks(body, f),
                    kbc_ir::schedule::SStmt::If { then, other, .. } => {
                        marks(then, f);
                        marks(other, f);
                    }
                    kbc_ir::schedule::SStmt::Op(op, _) => f(op),
                }
            }
        }
        for stream in stack::region(&m).roles.iter().flat_map(|r| &r.streams) {
            marks(&stream.body, &mut |op| {
                if let SOp::Mark(Mark { slot, .. }) = op {
                    assert!(!slot.mentions(CALL));
                }
            });
        }
    }
}
