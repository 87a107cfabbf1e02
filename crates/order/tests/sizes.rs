//! Orders across sizes: which algorithms add every element in one order at every size.

use crate::library::{floats, module, of, report};
use crate::stack::{Layout, World};
use kbc_ir::types::DType;
use kbc_order::{OrderAcrossSizes, OrderReport, across_sizes, is_fixed};

const COUNTS: [u64; 6] = [1, 3, 4, 7, 64, 1000];

fn at_all_counts(text: &str, sizes: &[u64], root: Option<u64>) -> Vec<OrderReport> {
    COUNTS.iter().map(|n| report(text, sizes, root, *n)).collect()
}

fn compared(reports: &[OrderReport]) -> OrderAcrossSizes {
    across_sizes(&reports.iter().collect::<Vec<_>>())
}

#[test]
fn algorithms_with_one_tree_are_fixed() {
    for (text, root) in [
        ("all_reduce recursive_doubling", None),
        ("all_reduce halving_doubling", None),
        ("all_reduce up_down", None),
        ("reduce direct", Some(1)),
        ("all_reduce up_down(pipeline: 4)", None),
    ] {
        let reports = at_all_counts(text, &[6], root);
        assert_eq!(compared(&reports), OrderAcrossSizes::Fixed, "{text}");
        assert!(is_fixed(&reports.iter().collect::<Vec<_>>()), "{text}");
    }
}

#[test]
fn rings_are_fixed_in_proportion_only() {
    // Blocks of at least one element: the same chains in the same sequence.
    let reports: Vec<OrderReport> =
        [4, 7, 64, 1000].iter().map(|n| report("all_reduce ring", &[4], None, *n)).collect();
    let OrderAcrossSizes::SameSequence(why) = compared(&reports) else { panic!("{:?}", compared(&reports)) };
    assert_eq!(
        why.to_string(),
        "y0: some elements are added as r1 + r2 + r3 + r0, others as r2 + r3 + r0 + r1"
    );
    assert!(!is_fixed(&[&reports[0]]));
    // With three elements a block is empty.
    let mut reports = reports;
    reports.push(report("all_reduce ring", &[4], None, 3));
    assert!(matches!(compared(&reports), OrderAcrossSizes::Varies(_)));
    // One element has one order, and another one than the last element of four has.
    let (one, four) = (report("all_reduce ring", &[4], None, 1), report("all_reduce ring", &[4], None, 4));
    assert!(is_fixed(&[&one]) && !is_fixed(&[&one, &four]));
}

#[test]
fn pieces_do_not_change_the_order_of_a_tree() {
    let whole = report("all_reduce up_down(tree: chain)", &[5], None, 40);
    for k in [2, 3, 8] {
        let pieces = report(&format!("all_reduce up_down(tree: chain, pipeline: {k})"), &[5], None, 40);
        assert!(is_fixed(&[&whole, &pieces]), "{k}");
    }
    // Two trees on a half each.
    assert!(!is_fixed(&[&report("all_reduce double_tree", &[8], None, 16)]));
}

#[test]
fn another_algorithm_at_another_size_is_no_fixed_order() {
    let (a, b) = ("all_reduce recursive_doubling", "all_reduce up_down(tree: chain)");
    let (a, b) = (report(a, &[4], None, 8), report(b, &[4], None, 64));
    let OrderAcrossSizes::Varies(why) = across_sizes(&[&a, &b]) else { panic!() };
    assert_eq!(
        why.to_string(),
        "y0: elements are added as (r0 + r1) + (r2 + r3) in report 0, and as r3 + r2 + r1 + r0 in report 1"
    );
    // Another type rounds differently.
    let half =
        of(&module("all_reduce recursive_doubling", &[4], None, &Layout { dtype: DType::F16, ..floats(8) }));
    assert!(!is_fixed(&[&a, &half]));
}

#[test]
fn what_cannot_change_bits_is_fixed() {
    let gathered = at_all_counts("all_gather ring", &[4], None);
    assert_eq!(compared(&gathered), OrderAcrossSizes::Exact);
    let two = at_all_counts("all_reduce ring", &[2], None);
    assert_eq!(compared(&two), OrderAcrossSizes::Exact);
    assert!(is_fixed(&[]));
}

/// The algorithms of the library that a serving system can use, on 8 ranks. The list changes only
/// if the library does.
#[test]
fn the_fixed_algorithms_of_the_library() {
    let world = World::shipped();
    let mut fixed = vec![];
    for case in world.cases(&|axes| if axes == 1 { vec![vec![8]] } else { vec![] }, &|_| vec![0]) {
        let name = world.name(case.alg);
        if name.starts_with("all_reduce ") || name.starts_with("reduce_scatter ") {
            let reports: Vec<OrderReport> =
                [1, 7, 8, 24, 100].iter().map(|n| report(&name, &[8], None, *n)).collect();
            let all: Vec<&OrderReport> = reports.iter().collect();
            fixed.extend(is_fixed(&all).then_some(name));
        }
    }
    fixed.sort();
    // `blueconnect` is three rings of two. Binomial trees are the same from every root, and halving
    // is the same for every block, if the ranks are a power of two.
    let expected = [
        "all_reduce blueconnect",
        "all_reduce halving_doubling",
        "all_reduce multi_root",
        "all_reduce recursive_doubling",
        "all_reduce up_down",
        "reduce_scatter halving",
        "reduce_scatter halving_recursive",
    ];
    assert_eq!(fixed, expected);
}
