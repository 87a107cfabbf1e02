//! Changed schedules: whatever changes the order of additions changes the report.

use crate::differential::{Compared, compare};
use crate::library::{floats, module, texts};
use crate::programs::report_of;
use kbc_checker::mutate::{apply, mutations};
use kbc_order::TreeNode;

/// A reduction to rank 0 by hand: each other rank writes into a slot of its own, and rank 0 adds
/// the slots in the order of the ranks.
const DIRECT: &str = "kir 1
module @direct
mesh tp 4

schedule calls first
buffer %x : f32[6] hbm input 0 : f32[6] partial(sum@tp)
buffer %y : f32[6] hbm output 0 : f32[6]
window @w : f32[3 x 6] hbm
signal @in[3] arrival

region @c local
  role all
    stream main
      copy %y = %x

region @r over tp as (r of 4) after @c
  on v = %y line 6
  role root where r == 0
    stream main
      wait @in[0] >= 1
      wait @in[1] >= 1
      wait @in[2] >= 1
      fence.acquire
      combine sum v, @w[0]
      combine sum v, @w[1]
      combine sum v, @w[2]
  role leaf where r > 0
    stream main
      put v -> (0) : @w[r - 1]
      fence.release
      notify (0) : @in[r - 1]
";

/// Returns the tree of rank 0 after a change of the text.
#[track_caller]
fn changed(from: &str, to: &str) -> Vec<String> {
    assert!(from.is_empty() || DIRECT.contains(from), "{from}");
    let text = DIRECT.replacen(from, to, 1);
    let r = report_of(&text);
    let of_root = r.values[0].classes.iter().filter(|c| c.places.iter().any(|p| p.ranks[0].0 == 0));
    of_root.map(|c| r.trees[c.tree].to_string()).collect()
}

#[test]
fn two_additions_in_the_other_order() {
    assert_eq!(changed("", ""), ["r0 + r1 + r2 + r3"]);
    let (a, b) = (
        "combine sum v, @w[0]\n      combine sum v, @w[1]",
        "combine sum v, @w[1]\n      combine sum v, @w[0]",
    );
    assert_eq!(changed(a, b), ["r0 + r2 + r1 + r3"]);
    // Two senders that exchange their slots.
    assert_eq!(changed("put v -> (0) : @w[r - 1]", "put v -> (0) : @w[3 - r]"), ["r0 + r3 + r2 + r1"]);
    // Another tree of the same contributions.
    let (from, to) =
        ("combine sum v, @w[1]\n      combine sum v, @w[2]", "combine sum t, @w[2]\n      combine sum v, t");
    let text = with_copy().replacen(from, &format!("copy t = @w[1]\n      {to}"), 1);
    assert_eq!(report_of(&text).trees[0].to_string(), "(r0 + r1) + (r2 + r3)");
}

#[test]
fn an_addition_more_or_less_and_other_operations() {
    assert_eq!(changed("      combine sum v, @w[1]\n", ""), ["r1 + r0 + r3"]);
    assert_eq!(changed("v, @w[1]", "v, @w[0]"), ["r0 + r1 + r1 + r3"]);
    assert_eq!(changed("combine sum v, @w[1]", "copy v = @w[1]"), ["r2 + r3"]);
    assert_eq!(changed("combine sum v, @w[2]", "combine max v, @w[2]"), ["(r0 + r1 + r2) max r3"]);
    assert_eq!(changed("combine sum v, @w[0]", "combine sum v, v"), ["r0 + r0 + r2 + r3"]);
    // Half of the elements without the last rank.
    let half = changed("combine sum v, @w[2]", "combine sum v[1 of 2], @w[2]");
    assert_eq!(half, ["r0 + r1 + r2", "r0 + r1 + r2 + r3"]);
}

#[test]
fn the_operands_of_one_addition() {
    // Source and destination exchanged: the nodes differ, and the order does not.
    let to = "copy t = @w[0]\n      combine sum t, v\n      copy v = t";
    let flipped = with_copy().replacen("combine sum v, @w[0]", to, 1);
    let (a, b) = (report_of(DIRECT), report_of(&flipped));
    let (a, b) = (&a.trees[a.values[0].classes[0].tree], &b.trees[b.values[0].classes[0].tree]);
    assert_ne!(a, b);
    assert!(a.same_order(b));
    assert_eq!(a.to_string(), b.to_string());
    let first = |t: &kbc_order::AdditionTree| {
        t.nodes.iter().find_map(|n| match n {
            TreeNode::Add { dst, src, .. } => Some((t.nodes[*dst as usize], t.nodes[*src as usize])),
            TreeNode::Rank { .. } | TreeNode::Number(_) => None,
        })
    };
    let ((d, s), (d2, s2)) = (first(a).unwrap(), first(b).unwrap());
    assert_eq!((d, s), (s2, d2));
}

/// Returns the schedule with one more buffer.
fn with_copy() -> String {
    let text = DIRECT.replacen("window @w", "buffer %t : f32[6] hbm temp\nwindow @w", 1);
    text.replacen("on v = %y line 6\n", "on v = %y line 6\n  scratch t = %t line 6\n", 1)
}

/// Every mutation of schedules of the library: as long as the interpreter gives results, the trees
/// give the same bits, and results with other bits have another report.
#[test]
fn generated_mutants() {
    let (mut ran, mut differ) = (0, 0);
    for (text, p, root) in [
        ("all_reduce ring", 3, None),
        ("all_reduce one_phase", 3, None),
        ("all_reduce recursive_doubling", 4, None),
        ("reduce binary_tree", 4, Some(1)),
        ("reduce_scatter halving", 4, None),
        ("all_reduce double_tree", 4, None),
    ] {
        let m = module(text, &[p], root, &floats(2 * p + 1));
        let s = m.schedule().unwrap();
        let Compared { outputs, report, .. } = compare(s, &|| text.into()).unwrap();
        for mutant in mutations(s) {
            let changed = apply(s, &mutant);
            let what = || format!("{text}: {mutant:?}");
            let Some(c) = compare(&changed, &what) else { continue };
            ran += 1;
            if c.outputs != outputs {
                differ += 1;
                assert!(c.report != report, "{} changes bits and not the report", what());
            }
        }
    }
    assert!(ran > 200 && differ > 50, "{ran} ran, {differ} have other results");
}

#[test]
fn exchanged_rounds() {
    // A ring that goes on with the blocks in another order, and a doubling with distances 2, 1.
    let ring = texts(&crate::library::report("all_reduce ring", &[4], None, 4));
    let back = texts(&crate::library::report("all_reduce ring(d: -1)", &[4], None, 4));
    assert_ne!(ring, back);
    let doubling = include_str!("../../../specs/lib/doubling.kb");
    let far_first = doubling.replacen(
        "for k in 0..log2(p) { if r < m { put [..] -> r ^ (1 << k) reduce } }",
        "for k in 0..log2(p) { if r < m { put [..] -> r ^ (m >> (k + 1)) reduce } }",
        1,
    );
    assert_ne!(doubling, far_first);
    let world = crate::stack::World::instead("doubling.kb", &far_first);
    let case = world.case("all_reduce recursive_doubling", &[4], None);
    let m = crate::stack::synchronized(&world, &case, &floats(4)).unwrap();
    assert_eq!(texts(&crate::library::of(&m)), ["(r0 + r2) + (r1 + r3)"]);
}
