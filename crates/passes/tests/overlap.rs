//! Tests of `overlap`: every event is needed, on every stream; which operations overlap; which uses
//! are rejected.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::common;

use kbc_checker::{CheckOptions, check};
use kbc_ir::schedule::{SOp, SStmt};
use kbc_ir::{Body, Module};

const PASSES: &str = "infer,place,select,overlap,expand,allocate,synchronize";

fn module(kir: &str) -> Module {
    common::run(kir, PASSES).unwrap_or_else(|d| panic!("{}\n{kir}", common::words(&d, kir))).0
}

fn text(m: &Module) -> String {
    kbc_ir::text::print(m, &kbc_ir::text::PrintOptions::default())
}

fn sound(m: &Module) -> bool {
    check(m.schedule().unwrap(), &CheckOptions::default()).ok()
}

/// Returns a matmul whose partial result is combined, in pieces.
fn made(p: u64, sizes: [u64; 3], collective: &str, result: &str) -> String {
    let [m, k, n] = sizes;
    format!(
        "kir 1\nmodule @t\nmachine \"ring({p}) {{ link: 50 GB/s, 500 ns; device: 1 TFLOP/s, 1 TB/s }}\"\nmesh tp {p}\n\n\
         graph @t\ninput @x : f32[{m}, {k}@tp]\ninput @w : f32[{k}@tp, {n}]\nresult : {result}\n\n\
         %x = input @x\n%w = input @w\n%m = matmul %x, %w\n%y = {collective}\n%d = demand %y want {result}\n\
         %out = output 0 %d\n"
    )
}

#[test]
fn pieces_of_every_kind_are_proven() {
    for p in [2, 3, 4] {
        for k in [2, 3, 5] {
            let sizes = [7, 9, 11];
            let using = |alg: &str| format!("using {alg} with (overlap: {k})");
            let all = made(p, sizes, &format!("all_reduce sum %m over tp {}", using("ring")), "f32[7, 11]");
            let rows = made(
                p,
                sizes,
                &format!("reduce_scatter sum %m over tp dim 0 {}", using("ring")),
                "f32[7@tp, 11]",
            );
            let columns = made(
                p,
                sizes,
                &format!("reduce_scatter sum %m over tp dim 1 {}", using("direct")),
                "f32[7, 11@tp]",
            );
            for kir in [all, rows, columns] {
                let m = module(&kir);
                let regions = m.schedule().unwrap().regions.iter().filter(|r| !r.over.is_empty()).count();
                assert_eq!(regions as u64, k, "{kir}");
                assert!(sound(&m), "{p} ranks, {k} pieces\n{kir}");
            }
        }
    }
}

/// Removes the n-th `record` or `await` of a body; returns whether there was one. They are at its
/// ends, in no loop.
fn without_event(list: &mut Vec<SStmt>, left: &mut usize) -> bool {
    let event = |s: &SStmt| matches!(s, SStmt::Op(SOp::Record(_) | SOp::Await(_), _));
    let all: Vec<usize> = (0..list.len()).filter(|i| event(&list[*i])).collect();
    match all.get(*left) {
        Some(at) => {
            list.remove(*at);
            true
        }
        None => {
            *left -= all.len();
            false
        }
    }
}

/// No event is superfluous: without any one, the checker finds a race, a deadlock, or an event that
/// is never recorded.
#[test]
fn every_event_is_needed() {
    let gathered = "kir 1\nmodule @t\nmachine \"ring(3) { link: 50 GB/s, 500 ns; device: 1 TFLOP/s, 1 TB/s }\"\nmesh tp 3\n\n\
         graph @t\ninput @x : f32[12@tp, 5]\ninput @w : f32[5, 6@tp]\nresult : f32[12, 6@tp]\n\n%x = input @x\n\
         %w = input @w\n%g = all_gather %x over tp dim 0 using ring with (overlap: 2)\n%y = matmul %g, %w\n\
         %out = output 0 %y\n";
    let reduced = made(3, [4, 6, 5], "all_reduce sum %m over tp using ring with (overlap: 2)", "f32[4, 5]");
    for kir in [gathered, &reduced] {
        let m = module(kir);
        assert!(sound(&m), "{kir}");
        let mut events = 0;
        loop {
            let mut changed = m.clone();
            let Body::Schedule(s) = &mut changed.body else { unreachable!() };
            let mut left = events;
            let hit = s
                .regions
                .iter_mut()
                .flat_map(|r| &mut r.roles)
                .flat_map(|r| &mut r.streams)
                .any(|s| without_event(&mut s.body, &mut left));
            if !hit {
                break;
            }
            assert!(!sound(&changed), "without event {events}\n{kir}");
            events += 1;
        }
        assert!(events >= 6, "{events}\n{kir}");
    }
}

#[test]
fn groups_of_different_axes_have_streams_of_their_own() {
    let kir = "kir 1\nmodule @t\nmachine \"torus(2, 2) { link: 50 GB/s, 500 ns; device: 1 TFLOP/s, 1 TB/s }\"\nmesh dp 2, tp 2\n\n\
         graph @t\ninput @x : f32[4000] partial(sum@dp)\ninput @y : f32[4000] partial(sum@tp)\nresult : f32[4000]\nresult : f32[4000]\n\n\
         %x = input @x\n%y = input @y\n%a = all_reduce sum %x over dp using ring\n%b = all_reduce sum %y over tp using ring\n\
         %p = output 0 %a\n%q = output 1 %b\n";
    let m = module(kir);
    assert!(sound(&m));
    let mut streams: Vec<String> = vec![];
    for r in m.schedule().unwrap().regions.iter().filter(|r| !r.over.is_empty()) {
        streams.push(r.roles[0].streams[0].name.to_string());
    }
    streams.sort();
    assert_eq!(streams, ["comm_dp", "comm_tp"]);
}

#[test]
fn where_local_work_takes_no_time_nothing_changes() {
    let kir = made(4, [64, 64, 64], "all_reduce sum %m over tp using ring", "f32[64, 64]")
        .replace("; device: 1 TFLOP/s, 1 TB/s", "");
    let whole = common::run(&kir, &PASSES.replace("overlap,", "")).unwrap().0;
    assert_eq!(text(&module(&kir)), text(&whole));
    let kir = made(4, [64, 64, 64], "all_reduce sum %m over tp using ring with (overlap: 1)", "f32[64, 64]");
    let whole =
        common::run(&kir.replace(" with (overlap: 1)", ""), &PASSES.replace("overlap,", "")).unwrap().0;
    assert_eq!(text(&module(&kir)), text(&whole));
}

/// Pieces that are faster beside their matmul alone stay whole in a program in which that gains
/// nothing.
#[test]
fn what_is_not_worth_it_in_the_program_stays_whole() {
    let kir = |k: u64| {
        format!(
            "kir 1\nmodule @t\nmachine \"ring(4) {{ link: 50 GB/s, 500 ns; device: 1 TFLOP/s, 1.6 TB/s }}\"\nmesh tp 4\n\n\
             graph @t\ninput @u : f32[512, {k}]\ninput @v : f32[{k}, 1024@tp]\ninput @w : f32[1024@tp, 512]\nresult : f32[512, 512]\n\n\
             %u = input @u\n%v = input @v\n%w = input @w\n%x = matmul %u, %v\n%m = matmul %x, %w\n\
             %y = all_reduce sum %m over tp using ring selected\n%out = output 0 %y\n"
        )
    };
    let regions = |m: &Module| m.schedule().unwrap().regions.iter().filter(|r| !r.over.is_empty()).count();
    assert!(regions(&module(&kir(8))) > 1);
    let large = kir(400_000);
    let whole = common::run(&large, &PASSES.replace("overlap,", "")).unwrap().0;
    assert_eq!(text(&module(&large)), text(&whole));
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let refused = |kir: &str, why: &str| {
        let found = common::run(kir, PASSES).unwrap_err();
        let words = common::words(&found, kir);
        assert!(words.contains("E580") && words.contains(why), "{words}");
    };
    let sizes = [2, 6, 3];
    refused(
        &made(3, sizes, "all_reduce sum %m over tp using ring with (overlap: 4)", "f32[2, 3]"),
        "at most 2 pieces are possible",
    );
    let two = made(3, sizes, "all_reduce sum %m over tp using ring with (overlap: 2)", "f32[2, 3]");
    let between = two.replace("%m = matmul %x, %w", "%n = matmul %x, %w\n%m = map double(%n)");
    let between = between.replace("mesh tp 3\n", "mesh tp 3\nkernel @double(x) = (x * 2.0)\n");
    refused(&between, "its operand is not the result of a matmul");
    let alone = "kir 1\nmodule @t\nmachine ring(3)\nmesh tp 3\n\ngraph @t\ninput @x : f32[12@tp]\nresult : f32[12]\n\n\
         %x = input @x\n%g = all_gather %x over tp dim 0 using ring with (overlap: 2)\n%out = output 0 %g\n";
    refused(alone, "no matmul uses its value");
}
