//! Estimates: extrapolation to many ranks.

use crate::common::library;
use kbc_diag::{FileId, Span};
use kbc_machine::topology::Topology;
use kbc_passes::cost::{self, Job};
use kbc_passes::testing::{growth, halved};
use kbc_rounds::{Call, group};

#[test]
fn growth_is_exact_for_the_terms_of_the_library() {
    let terms: [fn(f64) -> f64; 5] =
        [|p| 2.0 * (p - 1.0), |p| p.log2() + 2.0, |p| (p - 1.0) / p, |p| p * p / 8.0, |_| 7.0];
    for f in terms {
        let got = growth([f(16.0), f(32.0), f(64.0)], [16, 32, 64], 4096);
        assert!((got - f(4096.0)).abs() <= 1e-9 * f(4096.0).max(1.0), "{got} {}", f(4096.0));
    }
}

#[test]
fn sides_shrink_in_their_class() {
    assert_eq!((0..5).map(|h| halved(64, h)).collect::<Vec<_>>(), [64, 32, 16, 8, 4]);
    assert_eq!((0..6).map(|h| halved(100, h)).collect::<Vec<_>>(), [100, 48, 24, 12, 6, 3]);
    assert_eq!(halved(2, 4), 1);
}

/// Returns a machine of `n` devices in a ring as a list of links, or as a shape.
fn ring(n: u32, listed: bool) -> Topology {
    let text = if listed {
        let link = |i: u32| format!("link ({i})<->({}): 50 GB/s, 500 ns", (i + 1) % n);
        format!("graph({n}, 0) {{ {} }}", (0..n).map(link).collect::<Vec<_>>().join("; "))
    } else {
        format!("ring({n}) {{ link: 50 GB/s, 500 ns }}")
    };
    Topology::parse(&text, FileId(0)).expect("a machine")
}

/// Above the limit of exact prices, ranks of a list of links stand for all of them.
#[test]
fn a_list_of_links_costs_what_its_shape_costs() {
    let lib = library();
    let file = FileId(1000);
    let (mut priced, mut close) = (0, 0);
    for name in ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"] {
        let coll = lib.find_collective(file, name, Span::NONE).expect("a collective");
        for alg in lib.algorithms_of(file, coll) {
            for (p, n) in [(96u32, 96 * 64), (128, 1 << 22)] {
                let call = Call { alg, sizes: vec![p.into()], root: None, args: vec![] };
                if group::is_legal(lib, &call).ok() != Some(true) {
                    continue;
                }
                let price = |listed: bool| {
                    let topology = ring(p, listed);
                    let groups = vec![topology.devices().collect()];
                    let job =
                        Job { library: lib, topology: &topology, groups, elements: n, element_bytes: 4 };
                    cost::price(&job, &call).map(|p| p.ns)
                };
                let (Ok(list), Ok(shape)) = (price(true), price(false)) else { continue };
                let which = &lib.algorithm(alg).name.node;
                let ratio = list / shape;
                assert!((0.5..2.0).contains(&ratio), "{name}.{which} on {p} ranks: {list} and {shape}");
                priced += 1;
                close += u32::from((0.97..1.03).contains(&ratio));
            }
        }
    }
    assert!(priced > 50 && close * 10 > priced * 8, "{close} of {priced} are close");
}
