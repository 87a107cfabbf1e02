//! Published figures, as fractions.

use crate::checker::check;
use crate::topologies::{Sketch, a100, h100, mi250};
use kbc_synthesis::{ExactRatio, TreeCollective, best_rate, pack_some_trees, pack_trees};

fn ratio(a: u128, b: u128) -> ExactRatio {
    ExactRatio::new(a, b).expect("not 0")
}

/// Algorithm bandwidth in GB/s as a fraction, and trees per root.
#[test]
fn all_gather_of_published_machines() {
    let rows: [(&str, Sketch, (u128, u128), u128); 8] = [
        ("A100 1x8", a100(1), (2400, 7), 1),
        ("A100 2x8", a100(2), (1040, 3), 13),
        ("A100 4x8", a100(4), (800, 3), 1),
        ("MI250 1x16", mi250(1, 16), (2400, 7), 3),
        ("MI250 2x16", mi250(2, 16), (5312, 15), 83),
        ("MI250 8+8", mi250(2, 8), (208, 1), 13),
        ("H100 2x8", h100(2), (1600, 3), 2),
        ("H100 4x8", h100(4), (16000, 31), 10),
    ];
    for (name, sketch, (num, den), trees) in rows {
        let network = sketch.network();
        let members = network.members().len() as u128;
        for collective in [TreeCollective::AllGather, TreeCollective::ReduceScatter] {
            let packing = pack_trees(&network, collective).expect(name);
            let rate = packing.rate;
            assert_eq!(ratio(rate.numerator() * members, rate.denominator()), ratio(num, den), "{name}");
            assert_eq!(packing.roots[0].1, trees, "{name}");
            check(&network, collective, None, &packing).expect(name);
            assert_eq!(best_rate(&network, collective).expect(name).rate, rate);
        }
    }
}

#[test]
fn mi250_with_a_given_number_of_trees() {
    let network = mi250(2, 16).network();
    let rows =
        [(1, (320, 1)), (2, (1024, 3)), (3, (2400, 7)), (4, (1024, 3)), (5, (8000, 23)), (8, (12800, 37))];
    for (trees, (num, den)) in rows {
        let packing = pack_some_trees(&network, TreeCollective::AllGather, trees).expect("trees");
        let rate = packing.rate;
        assert_eq!(ratio(rate.numerator() * 32, rate.denominator()), ratio(num, den), "{trees} trees");
        check(&network, TreeCollective::AllGather, Some(trees), &packing).expect("sound");
    }
}
