//! Tests that templates change no rounds and no errors: an expansion with them equals one that
//! interprets every use.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use crate::common;

use common::World;
use kbc_rounds::claim::variants;
use kbc_rounds::group::is_legal;
use kbc_rounds::rounds::coordinates;
use kbc_rounds::testing::interpreted;
use kbc_rounds::{Call, Limits, expand};

/// Returns calls of all algorithms of the library on some shapes, with all their arguments and some
/// roots.
fn calls(world: &World) -> Vec<Call> {
    let shapes: [&[&[i64]]; 3] = [
        &[&[1], &[2], &[3], &[6], &[8], &[12], &[16]],
        &[&[2, 3], &[4, 4], &[3, 5]],
        &[&[2, 2, 3], &[2, 3, 4], &[3, 3, 3]],
    ];
    let mut out = vec![];
    for alg in world.lib.algorithms() {
        let decl = world.lib.algorithm(alg);
        for args in std::iter::once(vec![]).chain(variants(decl).unwrap()) {
            for sizes in shapes[decl.axes.len() - 1] {
                let ranks: i64 = sizes.iter().product();
                let roots = if decl.root.is_some() { vec![0, ranks / 2] } else { vec![0] };
                for root in roots {
                    let root = decl.root.is_some().then(|| coordinates(sizes, root));
                    let call = Call { alg, sizes: sizes.to_vec(), root, args: args.clone() };
                    out.extend(is_legal(&world.lib, &call).unwrap().then_some(call));
                }
            }
        }
    }
    out
}

#[test]
fn rounds_are_those_without_templates() {
    let world = World::with_library();
    let limits = Limits::default();
    let calls = calls(&world);
    assert!(calls.len() > 700, "{}", calls.len());
    // The first time templates are made, the second time all are there.
    for time in 0..2 {
        for call in &calls {
            let name = &world.lib.algorithm(call.alg).name.node;
            let by_hand = interpreted(&world.lib, call, &limits);
            assert!(by_hand == expand(&world.lib, call, &limits), "{name} {:?}, time {time}", call.sizes);
        }
    }
}

/// A copy of a template never passes a limit that the interpreter would not pass.
#[test]
fn limits_are_those_without_templates() {
    let world = World::with_library();
    let whole = Limits::default();
    for (coll, name, sizes) in [
        ("all_reduce", "torus3_all_links", vec![2, 3, 4]),
        ("all_reduce", "hierarchical_flat", vec![16]),
        ("all_gather", "rails_flat", vec![16]),
        ("all_to_all", "bruck", vec![8]),
        ("reduce_scatter", "halving_recursive", vec![16]),
    ] {
        let call = world.call(coll, name, &sizes, None);
        let rounds = expand(&world.lib, &call, &whole).unwrap();
        let transfers = rounds.transfers().count();
        let deep = |depth| Limits { depth, ..whole };
        let mut refused = 0;
        let less = |by: usize| Limits { transfers: transfers - by, ..whole };
        let steps = |steps: u64| Limits { steps, ..whole };
        let limits = (0..3).map(deep).chain((0..3).map(less)).chain((0..12).map(|k| steps(1 << (2 * k))));
        for limits in limits {
            let (one, other) = (interpreted(&world.lib, &call, &limits), expand(&world.lib, &call, &limits));
            refused += usize::from(one.is_err());
            assert!(one == other, "{name} {limits:?}: {one:?} {other:?}");
        }
        assert!(refused > 3, "{name}: {refused}");
    }
}

/// A changed library has no templates of what it was.
#[test]
fn a_changed_algorithm_has_no_template() {
    let mut world = World::with_library();
    let limits = Limits::default();
    let call = world.call("all_reduce", "two_phase", &[6], None);
    let before = expand(&world.lib, &call, &limits).unwrap();
    // `two_phase` uses `direct`: what `ring` does takes its place.
    let [direct, ring] = ["direct", "ring"].map(|name| world.call("reduce_scatter", name, &[6], None).alg);
    let mut decl = world.lib.algorithm(ring).clone();
    decl.name = world.lib.algorithm(direct).name.clone();
    world.lib.replace_algorithm(direct, decl);
    let after = expand(&world.lib, &call, &limits).unwrap();
    assert!(before != after);
    assert!(interpreted(&world.lib, &call, &limits) == Ok(after));
}
