//! Tests of when a run is simulated stream by stream, and of how much is computed at once.
//! `tests/dataflow.rs` compares the results with those of the event engine.

use super::*;
use crate::TimeOptions;
use kbc_diag::FileId;
use kbc_ir::text;
use kbc_ir::walk::Program;
use kbc_machine::topology::Topology;

/// A region on `p` ranks with 2 slots and counters, and a body that is indented by eight.
fn region(p: u64, body: &str) -> String {
    format!(
        "kir 1\nmodule @m\nmesh tp {p}\nschedule calls any\nbuffer %y : f32[{n}] hbm temp\n\
         window @w : f32[2 x {n}] hbm at 0\nsignal @s[2] arrival at 0\nregion @c over tp as (r of {p})\n  \
         on v = %y line {n}\n  role all\n    stream main\n{body}",
        n = 100 * p
    )
}

/// A ring of `turns` turns.
fn ring(p: u64, turns: u64) -> String {
    region(
        p,
        &format!(
            "      for s in 0..{turns}\n        put v[(r - s) % {p} of {p}] -> ((r + 1) % {p}) : @w[s % 2]\n        \
             fence.release\n        notify ((r + 1) % {p}) : @s[0]\n        \
             wait @s[0] >= call * {turns} + s + 1\n        fence.acquire\n"
        ),
    )
}

/// Simulates a call, and returns the number of records and how many of them were computed one by
/// one. None if the run does not allow it.
fn computed(source: &str, machine: &str) -> Option<(u64, u64)> {
    let module = text::parse(FileId(0), source).unwrap();
    let topo = Topology::parse(machine, FileId(0)).unwrap();
    let program = Program::compile(module.schedule().unwrap()).unwrap();
    let setup = Setup::new(&program, &topo, &TimeOptions::default()).unwrap();
    let mut flow = Dataflow::new(&setup)?;
    flow.run().ok()?;
    assert_eq!(flow.state.live, 0);
    Some(flow.history.sizes())
}

#[test]
fn equal_turns_are_computed_at_once() {
    let (p, turns) = (64, 500);
    for rules in ["", "; fence: 11 ns; endpoint: 3 ns", "; link (5)->(6): 1 GB/s, 300 ns"] {
        let (records, own) =
            computed(&ring(p, turns), &format!("ring({p}) {{ link: 10 GB/s, 100 ns{rules} }}")).unwrap();
        assert!(records >= p * turns && own * 5 < records, "{rules}: {own} of {records}");
    }
}

#[test]
fn shared_resources_are_noticed() {
    let machine = "ring(8) { link: 10 GB/s, 100 ns }";
    assert!(computed(&ring(8, 3), machine).is_some());
    // Messages to the second neighbour meet those of the first neighbour on its link.
    let far = ring(8, 3).replace("(r + 1)", "(r + 2)");
    assert!(computed(&far, machine).is_none());
    assert!(computed(&far, "full(8)").is_some());
    // Two ranks notify one counter.
    let both = region(
        8,
        "      notify ((r + 1) % 8) : @s[0]\n      notify ((r - 1) % 8) : @s[0]\n      wait @s[0] >= call * 2 + 2\n",
    );
    assert!(computed(&both, machine).is_none());
    // A message to the rank itself takes no time.
    assert!(computed(&ring(8, 3).replace("(r + 1)", "(r + 8)"), machine).is_none());
    assert!(computed(&ring(8, 3), "ring(8) { dma: 1 }").is_none());
}
