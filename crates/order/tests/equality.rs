//! Which elements of two ranks are the same element, and whether their bits are equal.

use crate::programs::report_of;
use kbc_order::{ClassPlace, ElementOrder, OrderReport};

/// Returns the report of a schedule on two ranks, both of which have the inputs a, b and c. The
/// body of each rank begins with a buffer t of 2 elements, which becomes the result y.
#[track_caller]
fn two_ranks(bodies: [&str; 2]) -> OrderReport {
    let body = |text: &str| text.split("; ").map(|l| format!("      {l}\n")).collect::<String>();
    report_of(&format!(
        "kir 1
module @two
mesh tp 2
{}
schedule calls first
buffer %a : f32[4] hbm input 0 : f32[4]
buffer %b : f32[4] hbm input 1 : f32[4]
buffer %c : f32[4] hbm input 2 : f32[4]
buffer %t : f32[2] hbm temp
buffer %m0 : f32[2] hbm temp
buffer %m1 : f32[2] hbm temp
buffer %n0 : f32[2] hbm temp
buffer %n1 : f32[2] hbm temp
buffer %y : f32[2] hbm output 0 : f32[2]

region @c over tp as (r of 2)
  on a = %a line 4
  on b = %b line 4
  on c = %c line 4
  on t = %t line 2
  on m0 = %m0 line 2
  on m1 = %m1 line 2
  on n0 = %n0 line 2
  on n1 = %n1 line 2
  on y = %y line 2
  role first where r == 0
    stream main
{}      copy y = t
  role second where r == 1
    stream main
{}      copy y = t
",
        // A module has no kernel that it does not use.
        if bodies[0].contains("half(") { "kernel @half(x) = (x * 0.5)\n" } else { "" },
        body(bodies[0]),
        body(bodies[1])
    ))
}

/// Returns the number of elements of y that differ between the ranks.
fn differ(r: &OrderReport) -> u64 {
    r.values.last().unwrap().unequal.as_ref().map_or(0, |u| u.elements)
}

const ABC: &str = "copy t = a[0 of 2]; combine sum t, b[1 of 2]; combine sum t, c[0 of 2]";

#[test]
fn inputs_that_all_ranks_have_are_one_contribution() {
    let r = two_ranks([ABC, ABC]);
    assert!(r.is_equal_on_ranks());
    // One addition with its operands swapped, which also begins at another position.
    let swapped = "copy t = b[1 of 2]; combine sum t, a[0 of 2]; combine sum t, c[0 of 2]";
    assert_eq!(differ(&two_ranks([ABC, swapped])), 0);
    // Another order, which begins with b.
    let other = "copy t = b[1 of 2]; combine sum t, c[0 of 2]; combine sum t, a[0 of 2]";
    let r = two_ranks([ABC, other]);
    let unequal = r.values[0].unequal.as_ref().unwrap();
    let at = |rank| ElementOrder { rank, element: 0, tree: rank as usize };
    assert_eq!((unequal.elements, unequal.one, unequal.other), (2, at(0), at(1)));
}

#[test]
fn the_same_element_has_the_same_positions() {
    // Other elements of b.
    let elsewhere = "copy t = b[0 of 2]; combine sum t, c[0 of 2]; combine sum t, a[0 of 2]";
    assert_eq!(differ(&two_ranks([ABC, elsewhere])), 0);
    // The other half of all three: no element in common.
    let moved = "copy t = b[1 of 2]; combine sum t, c[1 of 2]; combine sum t, a[1 of 2]";
    let one = "copy t = a[0 of 2]; combine sum t, b[0 of 2]; combine sum t, c[0 of 2]";
    assert_eq!(differ(&two_ranks([one, moved])), 0);
    // Half of t is the same element.
    let half = "copy t[0 of 2] = b[3 of 4]; combine sum t[0 of 2], c[1 of 4]; \
                combine sum t[0 of 2], a[1 of 4]; copy t[1 of 2] = a[3 of 4]";
    let r = two_ranks([ABC, half]);
    let unequal = r.values[0].unequal.as_ref().unwrap();
    assert_eq!((unequal.elements, unequal.one.element, unequal.other.element), (1, 1, 0));
}

#[test]
fn computations_are_known_by_what_they_compute() {
    let first = "copy m0 = a[0 of 2]; map %n0 = half(%m0); copy t = n0; combine sum t, b[0 of 2]; \
                 combine sum t, c[0 of 2]";
    let second = |from: &str| {
        format!(
            "copy m1 = {from}; map %n1 = half(%m1); copy t = b[0 of 2]; combine sum t, c[0 of 2]; \
             combine sum t, n1"
        )
    };
    // The same function of the same elements, in other buffers.
    assert_eq!(differ(&two_ranks([first, &second("a[0 of 2]")])), 2);
    assert_eq!(differ(&two_ranks([first, &second("a[1 of 2]")])), 0);
    // What a fill writes depends on the part of the rank.
    let filled = |from: &str, order: [&str; 2]| {
        let [x, y] = order;
        format!(
            "fill %n0 = index dim 0 from {from}; copy t = {x}; combine sum t, c[0 of 2]; combine sum t, {y}"
        )
    };
    let orders = [["n0", "b[0 of 2]"], ["b[0 of 2]", "n0"]];
    assert_eq!(differ(&two_ranks([&filled("3", orders[0]), &filled("3", orders[1])])), 2);
    assert_eq!(differ(&two_ranks([&filled("tp", orders[0]), &filled("tp", orders[1])])), 0);
}

#[test]
fn runs_of_a_class_end_where_numbers_are() {
    let r = report_of(
        "kir 1
module @gap
mesh tp 1

schedule calls first
buffer %a : f32[6] hbm input 0 : f32[6]
buffer %y : f32[6] hbm zero output 0 : f32[6]

region @c local
  on a = %a line 6
  on y = %y line 6
  role all
    stream main
      copy y[0 of 3] = a[0 of 3]
      copy y[2 of 3] = a[2 of 3]
",
    );
    let place = |start, end| ClassPlace { start, end, ranks: vec![(0, 1)] };
    assert_eq!(r.values[0].classes[0].places, [place(0, 2), place(4, 6)]);
    assert_eq!(r.values[0].classes[0].elements, 4);
}
