//! Reports of library algorithms against expectations that were derived by hand from their texts.

use crate::stack::{self, Layout, World};
use kbc_ir::Module;
use kbc_ir::types::{DType, ReduceOp};
use kbc_order::{AdditionOrders, ClassPlace, ElementOrder, OrderOptions, OrderReport, TreeNode};

/// Returns a layout of `n` elements of f32.
pub fn floats(n: u64) -> Layout {
    Layout { dtype: DType::F32, ..Layout::ints(n) }
}

/// Returns the schedule of an algorithm.
pub fn module(text: &str, sizes: &[u64], root: Option<u64>, l: &Layout) -> Module {
    let world = World::shipped();
    let case = world.case(text, sizes, root);
    stack::synchronized(world, &case, l).unwrap_or_else(|d| panic!("{text}: {}", world.words(&d)))
}

/// Returns the report of a schedule.
pub fn of(m: &Module) -> OrderReport {
    let orders = AdditionOrders::of(m.schedule().unwrap(), &OrderOptions::default());
    orders.unwrap_or_else(|d| panic!("{:?}", d.list)).report().unwrap()
}

/// Returns the report of an algorithm with this number of elements of f32.
pub fn report(text: &str, sizes: &[u64], root: Option<u64>, n: u64) -> OrderReport {
    of(&module(text, sizes, root, &floats(n)))
}

/// Returns the texts of the trees of the last result, in the order of its classes.
pub fn texts(r: &OrderReport) -> Vec<String> {
    r.values.last().unwrap().classes.iter().map(|c| r.trees[c.tree].to_string()).collect()
}

/// Returns the only tree of a report.
#[track_caller]
fn only(r: &OrderReport) -> String {
    let texts = texts(r);
    assert!(r.is_position_independent() && texts.len() == 1, "{texts:?}");
    texts[0].clone()
}

#[test]
fn a_ring_rotates_the_order_from_block_to_block() {
    // Block b starts at rank b + 1, goes to the next rank in each round and ends at rank b.
    let r = report("all_reduce ring", &[4], None, 8);
    assert_eq!(
        texts(&r),
        ["r1 + r2 + r3 + r0", "r2 + r3 + r0 + r1", "r3 + r0 + r1 + r2", "r0 + r1 + r2 + r3"]
    );
    for (b, class) in r.values[0].classes.iter().enumerate() {
        let start = 2 * b as u64;
        assert_eq!(class.places, [ClassPlace { start, end: start + 2, ranks: vec![(0, 4)] }]);
        assert_eq!(class.elements, 8);
    }
    assert!(r.is_equal_on_ranks() && !r.is_position_independent());
    assert_eq!((r.depth(), r.distinct_trees()), (3, 4));
    // Rank 2 adds what it has, x2, and what arrives, x1.
    let [TreeNode::Rank { rank: 2, .. }, TreeNode::Rank { rank: 1, .. }, TreeNode::Add { dst, src, .. }] =
        r.trees[0].nodes[2..5]
    else {
        panic!("{:?}", r.trees[0].nodes)
    };
    assert_eq!((dst, src), (2, 3));
    assert_eq!(texts(&report("all_reduce ring(d: -1)", &[4], None, 8))[1], "r0 + r3 + r2 + r1");
    assert_eq!(texts(&report("all_reduce ring", &[8], None, 8))[3], "r4 + r5 + .. + r3");
}

#[test]
fn a_reduce_scatter_has_the_blocks_of_the_ring() {
    let r = report("reduce_scatter ring", &[4], None, 4);
    assert_eq!(
        texts(&r),
        ["r1 + r2 + r3 + r0", "r2 + r3 + r0 + r1", "r3 + r0 + r1 + r2", "r0 + r1 + r2 + r3"]
    );
    // The rest of a result is zeros, which are no contributions.
    assert_eq!(r.values[0].classes[2].places, [ClassPlace { start: 2, end: 3, ranks: vec![(2, 3)] }]);
}

#[test]
fn direct_algorithms_begin_with_the_rank_that_adds() {
    // Own value first, then the sources by their distance: another order on every rank.
    let r = report("all_reduce one_phase", &[4], None, 5);
    assert_eq!(
        texts(&r),
        ["r0 + r1 + r2 + r3", "r1 + r2 + r3 + r0", "r2 + r3 + r0 + r1", "r3 + r0 + r1 + r2"]
    );
    let unequal = r.values[0].unequal.as_ref().unwrap();
    assert_eq!(unequal.elements, 5);
    let at = |rank, tree| ElementOrder { rank, element: 0, tree };
    assert_eq!((unequal.one, unequal.other), (at(0, 0), at(1, 1)));
    assert!(!r.is_equal_on_ranks());
    // Three ranks: (r0 + r1) + r2, (r1 + r2) + r0 and (r2 + r0) + r1. With two, all are equal.
    assert!(!report("all_reduce one_phase", &[3], None, 5).is_equal_on_ranks());
    let two = report("all_reduce one_phase", &[2], None, 5);
    assert!(two.is_equal_on_ranks() && !two.order_matters());
    assert_eq!(only(&two), "r0 + r1");
    // In two phases one rank adds for all.
    let r = report("all_reduce two_phase", &[4], None, 8);
    assert!(r.is_equal_on_ranks() && !r.is_position_independent());
    assert_eq!(texts(&r)[1], "r1 + r2 + r3 + r0");
    assert_eq!(only(&report("reduce direct", &[4], Some(2), 8)), "r2 + r3 + r0 + r1");
}

#[test]
fn trees_and_doubling_have_one_order() {
    for (text, sizes, root, tree, depth) in [
        ("all_reduce recursive_doubling", 4, None, "(r0 + r1) + (r2 + r3)", 2),
        // Ranks 4 and 5 fold into ranks 0 and 1 first.
        ("all_reduce recursive_doubling", 6, None, "(r0 + r4) + (r1 + r5) + (r2 + r3)", 3),
        // Distances 4, 2, 1. Every block has the same tree, because additions commute.
        ("all_reduce halving_doubling", 8, None, "((r0 + r4) + (r2 + r6)) + ((r1 + r5) + (r3 + r7))", 3),
        // Distances 4, 2, 1 below the root.
        ("reduce binomial", 8, Some(0), "((r0 + r4) + (r2 + r6)) + ((r1 + r5) + (r3 + r7))", 3),
        // Rank 1 adds ranks 3 and 4, rank 2 adds 5 and 6, the root adds rank 1, then rank 2.
        ("reduce binary_tree", 7, Some(0), "r1 + r3 + r4 + r0 + (r5 + r2 + r6)", 4),
        ("all_reduce up_down(tree: chain)", 6, None, "r5 + r4 + .. + r0", 5),
    ] {
        let r = report(text, &[sizes], root, 2 * sizes);
        assert_eq!((only(&r).as_str(), r.depth()), (tree, depth), "{text} {sizes}");
        assert!(r.is_equal_on_ranks(), "{text} {sizes}");
    }
}

#[test]
fn large_trees_are_abbreviated() {
    assert_eq!(
        only(&report("all_reduce recursive_doubling", &[32], None, 32)),
        "((((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))) + (r8 .. r15)) + (r16 .. r31)"
    );
    // Inside groups of 3 by the direct algorithm, then a ring of 8.
    assert_eq!(
        texts(&report("all_reduce hierarchical", &[3, 8], None, 24))[0],
        "(r1 + r9 + r17) + (r2 + r10 + r18) + (r3 + r11 + r19) + (r4 + r12 + r20) + (r5 + r13 + r21) + .. \
         + (r0 + r8 + r16)"
    );
}

#[test]
fn moves_have_no_additions() {
    for (text, root) in [
        ("all_gather ring", None),
        ("broadcast binomial", Some(1)),
        ("all_to_all pairwise", None),
        ("shift ring", Some(3)),
    ] {
        let r = report(text, &[4], root, 8);
        assert_eq!((r.depth(), r.distinct_trees()), (0, 0), "{text}");
        assert!(r.is_equal_on_ranks() && r.is_position_independent() && !r.order_matters(), "{text}");
        assert_eq!(r.trees[0].to_string(), "no addition");
    }
}

#[test]
fn integers_and_maxima_have_no_order_that_matters() {
    for (dtype, red) in [(DType::I32, ReduceOp::Sum), (DType::F32, ReduceOp::Max)] {
        let l = Layout { dtype, red, ..Layout::ints(8) };
        let r = of(&module("all_reduce one_phase", &[4], None, &l));
        assert!(!r.order_matters() && r.is_equal_on_ranks() && r.distinct_trees() == 4, "{dtype} {red}");
    }
    let l = Layout { red: ReduceOp::Max, ..floats(8) };
    assert_eq!(texts(&of(&module("all_reduce ring", &[4], None, &l)))[3], "r0 max r1 max r2 max r3");
}

#[test]
fn the_cost_does_not_depend_on_the_number_of_elements() {
    let small = report("all_reduce ring", &[16], None, 16);
    let large = report("all_reduce ring", &[16], None, 1 << 40);
    assert_eq!(small.trees, large.trees);
    assert_eq!(large.values[0].classes[3].places[0].end, (1 << 40) / 4);
}
