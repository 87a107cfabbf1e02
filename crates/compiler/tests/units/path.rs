//! The critical path: its parts, and turns that are folded.

use kbc_compiler::timeline::path::{After, fold, parts};
use kbc_diag::Span;
use kbc_ir::schedule::RegionId;
use kbc_machine::topology::Topology;
use kbc_time::{Cause, Step};

fn step(op: u32, rank: u64) -> Step {
    Step {
        op,
        name: "copy",
        region: RegionId(0),
        span: Span::NONE,
        rank,
        stream: 0,
        start_ns: 0.0,
        end_ns: 1.0,
        cause: Cause::Work(kbc_time::Unit::Memory),
    }
}

#[test]
fn turns_are_folded() {
    let topology = Topology::parse("ring(4)", kbc_diag::FileId(0)).expect("a machine");
    let ops = [9, 1, 2, 1, 2, 1, 2, 3, 3, 3, 3, 4];
    let path: Vec<Step> = ops.iter().map(|op| step(*op, 0)).collect();
    let parts = parts(&path, &topology);
    assert_eq!(parts.len(), ops.len());
    assert_eq!(parts[0].after, After::Start);
    assert!(parts[1..].iter().all(|p| p.after == After::Stream && p.to.is_none()));
    let folds: Vec<(usize, usize, usize)> = fold(&ops).iter().map(|f| (f.first, f.length, f.turns)).collect();
    assert_eq!(folds, [(0, 1, 1), (1, 2, 3), (7, 1, 4), (11, 1, 1)]);
}
