//! Regular machines: rates that are known in closed form, and trees that are checked.

use crate::checker::{check, check_spanning};
use crate::topologies::{
    Dice, Sketch, boxes, fat_tree, full, grid, hypercube, random, random_regular, ring, star,
};
use kbc_synthesis::{ExactRatio, TreeCollective, pack_spanning_trees, pack_trees};

const FOUR: [TreeCollective; 4] = [
    TreeCollective::AllGather,
    TreeCollective::ReduceScatter,
    TreeCollective::Broadcast { root: 1 },
    TreeCollective::Reduce { root: 1 },
];

fn ratio(a: u128, b: u128) -> ExactRatio {
    ExactRatio::new(a, b).expect("not 0")
}

fn all_gather(sketch: &Sketch, what: &str) -> ExactRatio {
    let network = sketch.network();
    let rates: Vec<ExactRatio> = FOUR
        .iter()
        .map(|&c| {
            let packing = pack_trees(&network, c).unwrap_or_else(|e| panic!("{what}: {e}"));
            check(&network, c, None, &packing).unwrap_or_else(|e| panic!("{what}: {e}"));
            packing.rate
        })
        .collect();
    rates[0]
}

/// A member receives what all others send over its links.
#[test]
fn links_of_one_member_limit_symmetric_machines() {
    let rows: [(&str, Sketch, (u128, u128)); 9] = [
        ("ring of 2", ring(2), (1, 1)),
        ("ring of 6", ring(6), (2, 5)),
        ("torus 4x4", grid(&[4, 4], true), (4, 15)),
        ("torus 3x4x3", grid(&[3, 4, 3], true), (6, 35)),
        ("hypercube of 16", hypercube(4), (4, 15)),
        ("full of 9", full(9), (1, 1)),
        ("switch of 12", star(12, 5), (5, 11)),
        ("mesh 4x4", grid(&[4, 4], false), (2, 15)),
        ("fat tree", fat_tree(4, 4, 2, 1, 2), (1, 15)),
    ];
    for (name, sketch, (num, den)) in rows {
        assert_eq!(all_gather(&sketch, name), ratio(num, den), "{name}");
    }
}

/// What a leaf or a box receives limits the rate.
#[test]
fn oversubscribed_leaves() {
    assert_eq!(all_gather(&fat_tree(4, 4, 2, 4, 1), "fat tree"), ratio(2, 12));
    assert_eq!(all_gather(&boxes(4, 4, 40, 2), "boxes"), ratio(8, 12));
    // One of three spines has failed.
    let mut s = fat_tree(3, 4, 3, 4, 1);
    let spine = s.nodes - 1;
    s.edges.retain(|e| e.0 != spine && e.1 != spine);
    assert_eq!(all_gather(&s, "a spine has failed"), ratio(2, 8));
}

#[test]
fn removed_links_of_tori_and_meshes() {
    let mut s = grid(&[4, 4], true);
    s.unlink(0, 1);
    assert_eq!(all_gather(&s, "one link"), ratio(3, 15));
    s.unlink(0, 4);
    assert_eq!(all_gather(&s, "two links"), ratio(2, 15));
    let mut s = grid(&[3, 3], false);
    s.unlink(0, 1);
    assert_eq!(all_gather(&s, "corner with one link"), ratio(1, 8));
    let mut s = ring(5);
    s.unlink(2, 3);
    assert_eq!(all_gather(&s, "line"), ratio(1, 4));
}

/// A row of a torus: other devices forward, so it has more than its own two links.
#[test]
fn groups_of_a_torus() {
    let mut s = grid(&[4, 4], true);
    s.members.retain(|m| m / 4 == 0);
    assert_eq!(all_gather(&s, "row"), ratio(4, 3));
    let mut s = grid(&[4, 4], true);
    s.members.retain(|m| m % 4 < 2);
    assert_eq!(all_gather(&s, "half"), ratio(4, 7));
}

#[test]
fn larger_random_machines() {
    let mut dice = Dice(11);
    for i in 0..6 {
        let what = format!("random machine {i}");
        all_gather(&random_regular(&mut dice, 24, 4), &what);
        all_gather(&random(&mut dice, 16, 6, 1_000_000, 0), &what);
        all_gather(&random(&mut dice, 20, 0, 50, 10), &what);
    }
}

/// All-reduce in units of (n bytes) / (bandwidth of one direction of a link): 1 / rate.
#[test]
fn all_reduce_optima() {
    let mut two = Sketch::of_members(6);
    // The torus 2x3 has two links between the two nodes of each of its three short rings.
    for v in 0..3 {
        two.link(v, v + 3, 2);
        two.link(v, (v + 1) % 3, 1);
        two.link(v + 3, (v + 1) % 3 + 3, 1);
    }
    let rows: [(&str, Sketch, (u128, u128)); 11] = [
        ("ring of 6", ring(6), (5, 6)),
        ("mesh 2x3", grid(&[2, 3], false), (5, 7)),
        ("torus 2x3, one link", grid(&[2, 3], true), (5, 9)),
        ("torus 2x3, two links", two, (5, 12)),
        ("mesh 3x3", grid(&[3, 3], false), (2, 3)),
        ("torus 3x3", grid(&[3, 3], true), (4, 9)),
        ("full of 8", full(8), (1, 4)),
        ("mesh 4x4", grid(&[4, 4], false), (15, 24)),
        ("torus 4x4", grid(&[4, 4], true), (15, 32)),
        ("hypercube of 16", hypercube(4), (15, 32)),
        ("line of 5", grid(&[5], false), (1, 1)),
    ];
    for (name, sketch, (num, den)) in rows {
        let network = sketch.network();
        let packing = pack_spanning_trees(&network).expect(name);
        assert_eq!(packing.rate.inverse(), ExactRatio::new(num, den), "{name}");
        check_spanning(&network, &packing).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

/// A weak link between two dense parts: the partition has two parts.
#[test]
fn a_weak_link_is_the_partition() {
    let mut s = Sketch::of_members(8);
    for half in [0, 4] {
        (half..half + 4).for_each(|u| (u + 1..half + 4).for_each(|v| s.link(u, v, 10)));
    }
    s.link(1, 6, 3);
    let network = s.network();
    let packing = pack_spanning_trees(&network).expect("connected");
    let proof = packing.proof.as_ref().expect("a proof");
    assert_eq!(proof.parts, [vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
    assert_eq!((packing.rate, proof.crossing), (ratio(3, 1), 3));
    check_spanning(&network, &packing).expect("sound");
}

/// The same input gives the same trees.
#[test]
fn results_are_deterministic() {
    let network = boxes(3, 4, 9, 2).network();
    let once = pack_trees(&network, TreeCollective::AllGather).expect("trees");
    assert_eq!(once, pack_trees(&network, TreeCollective::AllGather).expect("trees"));
    let network = grid(&[4, 3], false).network();
    assert_eq!(pack_spanning_trees(&network), pack_spanning_trees(&network));
}

/// On a full graph every tree is a star.
#[test]
fn trees_are_shallow_where_they_can_be() {
    let depth = |s: &Sketch| {
        let packing = pack_trees(&s.network(), TreeCollective::AllGather).expect("trees");
        packing.classes.iter().map(|c| c.depth()).max()
    };
    assert_eq!(depth(&full(8)), Some(1));
    assert_eq!(depth(&star(8, 7)), Some(1));
    assert_eq!(depth(&grid(&[5], false)), Some(4));
}
