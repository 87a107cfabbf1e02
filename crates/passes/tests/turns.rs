//! Tests that equal collectives one after another share one window and one set of signals, as calls
//! do, and that the checker agrees.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::common;

use kbc_checker::{CheckOptions, check};
use kbc_ir::Module;
use std::fmt::Write;

const PASSES: &str = "infer,place,select,expand,allocate,synchronize";

/// Returns `layers` layers. In each, the partial value is combined by `collective` and goes through
/// two matmuls, the second of which makes it partial again.
fn layers(p: u64, layers: usize, collective: &str, after: &str) -> Module {
    let mut kir = format!(
        "kir 1\nmodule @t\nmachine ring({p})\nmesh tp {p}\n\ngraph @t\ninput @x : f32[6, 4] partial(sum@tp)\n\
         input @u : f32[4, 12@tp]\ninput @v : f32[12@tp, 4]\nresult : f32[6, 4]\n\n\
         %x = input @x\n%u = input @u\n%v = input @v\n"
    );
    let mut x = "x".to_owned();
    for i in 0..layers {
        writeln!(kir, "%a{i} = {}", collective.replace("$", &format!("%{x}"))).unwrap();
        if !after.is_empty() {
            writeln!(kir, "%b{i} = {}", after.replace("$", &format!("%a{i}"))).unwrap();
        } else {
            writeln!(kir, "%b{i} = demand %a{i} want f32[6, 4]").unwrap();
        }
        if i + 1 < layers {
            writeln!(kir, "%c{i} = matmul %b{i}, %u\n%d{i} = matmul %c{i}, %v").unwrap();
            x = format!("d{i}");
        } else {
            writeln!(kir, "%out = output 0 %b{i}").unwrap();
        }
    }
    common::run(&kir, PASSES).unwrap_or_else(|d| panic!("{}\n{kir}", common::words(&d, &kir))).0
}

fn sound(m: &Module, what: &str) {
    let report = check(m.schedule().unwrap(), &CheckOptions::default());
    assert!(report.ok(), "{what}: {:?}", report.errors);
}

#[test]
fn windows_and_signals_do_not_grow_with_the_layers() {
    let all = [
        "ring",
        "bidirectional_ring",
        "one_phase",
        "two_phase",
        "up_down",
        "swing_latency",
        "halving_doubling",
    ];
    for p in [2, 3, 4] {
        for alg in all {
            if matches!(alg, "halving_doubling" | "swing_latency") && p == 3 {
                continue;
            }
            let size = |n: usize| {
                let m = layers(p, n, &format!("all_reduce sum $ over tp using {alg}"), "");
                sound(&m, &format!("{alg}, {p} ranks, {n} layers"));
                let s = m.schedule().unwrap();
                let windows: u64 = s.windows.iter().map(|w| w.slots * w.capacity).sum();
                (windows, s.signals.iter().map(|s| s.count).sum::<u64>())
            };
            let one = size(1);
            for n in [2, 3, 5] {
                assert_eq!(size(n), one, "{alg}, {p} ranks, {n} layers");
            }
        }
    }
}

#[test]
fn credits_are_counted_by_turns() {
    // One direction only: no rank hears from every other, so slots are returned.
    for (alg, p) in [("chain", 3), ("chain", 4), ("direct", 3)] {
        let size = |n: usize| {
            let m = layers(
                p,
                n,
                &format!("reduce sum $ over tp root 1 using {alg}"),
                &format!("broadcast $ over tp using {alg}"),
            );
            sound(&m, &format!("{alg}, {p} ranks, {n} layers"));
            m.schedule().unwrap().windows.len()
        };
        assert_eq!(size(1), size(4), "{alg}, {p} ranks");
    }
}

#[test]
fn slots_in_rotation_stay_with_their_region() {
    for (p, slots) in [(3, 1), (4, 2), (4, 3)] {
        let m = layers(p, 3, &format!("all_reduce sum $ over tp using ring with (slots: {slots})"), "");
        sound(&m, &format!("{p} ranks, {slots} slots"));
        assert_eq!(m.schedule().unwrap().windows.len(), 3);
    }
}

#[test]
fn collectives_that_differ_have_windows_of_their_own() {
    let with = |size: u64, alg: &str| {
        let kir = format!(
            "kir 1\nmodule @t\nmachine ring(3)\nmesh tp 3\n\ngraph @t\ninput @x : f32[12] partial(sum@tp)\n\
             input @y : f32[{size}] partial(sum@tp)\nresult : f32[12]\nresult : f32[{size}]\n\n%x = input @x\n\
             %y = input @y\n%a = all_reduce sum %x over tp using ring\n%b = all_reduce sum %y over tp using {alg}\n\
             %o = output 0 %a\n%q = output 1 %b\n"
        );
        let (m, _) = common::run(&kir, PASSES).unwrap();
        sound(&m, &kir);
        m.schedule().unwrap().windows.len()
    };
    assert_eq!(with(12, "ring"), 2);
    assert_eq!(with(15, "ring"), 4);
    assert_eq!(with(12, "ring(d: -1)"), 4);
}
