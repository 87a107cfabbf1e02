//! Tests that every algorithm of the language reference is right on every small legal shape, and
//! has the costs of its row.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use crate::common;

use std::collections::BTreeMap;

use common::World;
use kbc_rounds::claim::{Figure, compare, variants};
use kbc_rounds::group::is_legal;
use kbc_rounds::rounds::coordinates;
use kbc_rounds::{Call, Limits, Ratio, Verifier, cost};

/// Returns the shapes of the reference: lines up to 17, grids up to 5 x 5 and 20 ranks, boxes up to
/// 4 x 4 x 3 and 36 ranks.
fn shapes(axes: usize) -> Vec<Vec<i64>> {
    let box_of = |w: i64, h: i64, d: i64, most: i64| {
        let all = (1..=w).flat_map(move |x| (1..=h).flat_map(move |y| (1..=d).map(move |z| vec![x, y, z])));
        all.filter(move |s| s.iter().product::<i64>() <= most)
    };
    match axes {
        1 => (1..=17).map(|p| vec![p]).collect(),
        2 => box_of(5, 5, 1, 20).map(|s| s[..2].to_vec()).collect(),
        _ => box_of(4, 4, 3, 36).collect(),
    }
}

/// Every algorithm is right on every legal shape with every root, and has its documented costs.
#[test]
fn every_algorithm_is_right_and_costs_what_it_says() {
    let world = World::with_library();
    let mut verifier = Verifier::new(&world.lib, Limits::default());
    let with_all = |alg| {
        let others = variants(world.lib.algorithm(alg)).unwrap();
        std::iter::once(vec![]).chain(others).map(move |args| Call { alg, sizes: vec![], root: None, args })
    };
    let calls: Vec<Call> = world.lib.algorithms().flat_map(with_all).collect();
    // 76 of the language reference, four exchanges of roots, 20 for tori and meshes, six for
    // packed trees, six for boxes on rails, and those of moves.kb.
    assert_eq!((world.lib.algorithms().count(), calls.len()), (118, 118 + 58));
    let (mut wrong, mut claimed) = (vec![], BTreeMap::<Figure, usize>::new());
    for call in calls {
        let decl = world.lib.algorithm(call.alg);
        let name = format!("{} {}", decl.coll.node, decl.name.node);
        let claims = kbc_rounds::claim::claims(decl).unwrap_or_else(|d| panic!("{}", world.show_one(&d)));
        claims
            .iter()
            .for_each(|c| *claimed.entry(c.figure).or_default() += usize::from(call.args.is_empty()));
        let mut runs = 0;
        for sizes in shapes(decl.axes.len()) {
            let ranks: i64 = sizes.iter().product();
            let mut call = Call { sizes: sizes.clone(), ..call.clone() };
            for root in 0..if decl.root.is_some() { ranks } else { 1 } {
                call.root = decl.root.is_some().then(|| coordinates(&sizes, root));
                if !is_legal(&world.lib, &call).unwrap() {
                    continue;
                }
                runs += 1;
                let r = match verifier.verify(&call) {
                    Ok(r) => r,
                    Err(d) => panic!("{name} on {sizes:?}, root {root}:\n{}", world.show(&d)),
                };
                if let Err(d) = compare(&world.lib, &call, &claims, &cost(&r)) {
                    wrong.push(format!("{name} on {sizes:?}, root {root}: {}", world.show_one(&d)));
                }
            }
        }
        assert!(runs > 0, "{name}: no legal shape");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The others have rounds, and bytes if there is a simple formula;
    // moves.kb has all three costs for its 6.
    assert_eq!(claimed, [(Figure::Rounds, 112), (Figure::Sent, 92), (Figure::Pair, 75)].into());
}

/// Costs that the reference gives for single shapes.
#[test]
fn single_figures() {
    let world = World::with_library();
    let limits = Limits::default();
    for (p, sent) in [(4, (3, 2)), (8, (5, 2)), (16, (7, 2))] {
        let call = world.call("all_reduce", "multi_root", &[p], None);
        let c = cost(&kbc_rounds::expand(&world.lib, &call, &limits).unwrap());
        assert_eq!(c.sent, Ratio::new(sent.0, sent.1), "multi_root {p}");
    }
    // The fewest atoms, however they are found.
    for (coll, name, sizes, atoms) in [
        ("all_reduce", "ring", vec![6], 6),
        ("all_reduce", "one_phase", vec![6], 1),
        ("all_reduce", "bidirectional_ring", vec![6], 12),
        ("all_reduce", "torus2", vec![2, 3], 6),
        ("all_reduce", "torus2_all_links", vec![2, 3], 24),
        ("all_reduce", "torus3_all_links", vec![2, 2, 3], 72),
        ("all_to_all", "bruck", vec![5], 5),
        ("all_gather", "ring", vec![5], 5),
    ] {
        let r = kbc_rounds::expand(&world.lib, &world.call(coll, name, &sizes, None), &limits).unwrap();
        assert_eq!(r.atoms, atoms, "{coll} {name}");
    }
}

#[test]
fn the_library_has_no_static_fault() {
    let world = World::with_library();
    for (file, _) in world.sources.files() {
        let found = kbc_rounds::checks::check_file(&world.lib, file);
        assert!(found.is_empty(), "{}", world.show(&found));
    }
}
