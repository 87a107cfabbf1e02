//! Reports of library algorithms against expectations that were derived by hand from their texts.

use crate::stack::{self, Layout, World};
use kbc_ir::types::DType;
use kbc_order::{AdditionOrders, ClassPlace, OrderOptions, OrderReport};

/// Returns the report of an algorithm with this number of elements of f32.
pub fn report(text: &str, sizes: &[u64], root: Option<u64>, n: u64) -> OrderReport {
    let world = World::shipped();
    let case = world.case(text, sizes, root);
    let l = Layout { dtype: DType::F32, ..Layout::ints(n) };
    let m = stack::synchronized(world, &case, &l).unwrap_or_else(|d| panic!("{text}: {}", world.words(&d)));
    let orders = AdditionOrders::of(m.schedule().unwrap(), &OrderOptions::default());
    orders.unwrap_or_else(|d| panic!("{text}: {}", world.words(&d))).report().unwrap()
}

/// Returns the texts of the trees of the last result, in the order of its classes.
pub fn texts(r: &OrderReport) -> Vec<String> {
    r.values.last().unwrap().classes.iter().map(|c| r.trees[c.tree].to_string()).collect()
}

#[test]
fn show() {
    for (a, s, root) in [
        ("all_reduce ring", vec![4], None),
        ("all_reduce ring", vec![8], None),
        ("all_reduce one_phase", vec![4], None),
        ("all_reduce two_phase", vec![4], None),
        ("all_reduce recursive_doubling", vec![4], None),
        ("all_reduce recursive_doubling", vec![6], None),
        ("all_reduce recursive_doubling", vec![64], None),
        ("all_reduce halving_doubling", vec![8], None),
        ("reduce binary_tree", vec![7], Some(0)),
        ("reduce binomial", vec![8], Some(3)),
        ("all_reduce double_tree", vec![8], None),
        ("all_reduce hierarchical", vec![4, 8], None),
        ("all_reduce torus2", vec![3, 4], None),
        ("all_gather ring", vec![4], None),
        ("reduce_scatter ring", vec![4], None),
        ("all_reduce up_down(tree: chain)", vec![6], None),
        ("all_reduce swing", vec![8], None),
    ] {
        let p: u64 = s.iter().product();
        let r = report(a, &s, root, 2 * p);
        println!(
            "== {a} {s:?} equal {} depth {} distinct {}",
            r.is_equal_on_ranks(),
            r.depth(),
            r.distinct_trees()
        );
        for v in &r.values {
            println!("{} {:?} {:?}", v.name, v.read_by, v.unequal);
            for c in v.classes.iter().take(6) {
                println!("  {} x {}: {:?}", r.trees[c.tree], c.elements, &c.places[..c.places.len().min(3)]);
            }
        }
    }
    let _: Option<ClassPlace> = None;
}
