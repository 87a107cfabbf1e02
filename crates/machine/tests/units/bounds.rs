//! Closed forms of bounds, and the searches behind them.

use kbc_diag::FileId;
use kbc_machine::bounds::{CollKind, Problem, bound, bounded};
use kbc_machine::testing::{evaluated_cut, searched_cut, strongest_partition};
use kbc_machine::topology::Topology;

/// On shapes whose best partition is proved to be all singletons, the search finds none better.
#[test]
fn closed_forms_equal_the_search() {
    let mut shapes: Vec<String> = (2..14).map(|n| format!("ring({n})")).collect();
    shapes.extend((2..10).map(|n| format!("full({n})")));
    shapes.extend((2..10).map(|n| format!("mesh({n})")));
    for a in 1..6 {
        for b in 2..6 {
            shapes.push(format!("mesh({a}, {b})"));
            shapes.push(format!("torus({a}, {b})"));
            shapes.push(format!("torus({a}, {b}) {{ wrap2: 2 }}"));
        }
    }
    shapes.extend(["torus(2, 2, 3)", "torus(3, 2, 4) { wrap2: 2 }", "torus(3, 3, 3)"].map(String::from));
    for text in shapes {
        let topo = Topology::parse(&text, FileId(0)).unwrap();
        let problem = Problem::new(CollKind::AllReduce, 1 << 20, topo.devices());
        let b = bound(&topo, &problem).unwrap();
        let searched = strongest_partition(&topo, &problem);
        assert!((b.bandwidth_ns / searched - 1.0).abs() < 1e-12, "{text}: {} {searched}", b.bandwidth_ns);
        assert!(b.exact);
    }
}

/// On uniform machines, a search over all cuts finds none better than the evaluated cuts that
/// are reported as exact.
#[test]
fn evaluated_cuts_equal_the_search() {
    for text in [
        "ring(2)",
        "ring(7)",
        "torus(3, 4)",
        "torus(2, 5) { wrap2: 2 }",
        "torus(2, 2, 3)",
        "mesh(6)",
        "mesh(2, 3)",
        "mesh(3, 4)",
        "mesh(2, 2, 3)",
        "full(6)",
    ] {
        let topo = Topology::parse(text, FileId(0)).unwrap();
        for kind in bounded() {
            let name = kind.name();
            let p = topo.device_count();
            for root in if kind.rooted() { (0..p).map(Some).collect() } else { vec![None] } {
                let problem = Problem { root, ..Problem::new(kind, 1 << 20, topo.devices()) };
                let quick = evaluated_cut(&topo, &problem).unwrap();
                let (all, of_all) = searched_cut(&topo, &problem);
                assert!(of_all, "{text} {name}");
                let all = all.unwrap();
                assert!((quick / all - 1.0).abs() < 1e-12, "{text} {name} {root:?}: {quick} {all}");
            }
        }
    }
}
