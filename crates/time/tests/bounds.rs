//! Tests that no schedule is faster than the bound of its collective on any machine, and that the
//! engine is not slower than necessary.

use crate::time_kit;

use kbc_machine::bounds::{CollKind, Problem, bound};
use kbc_machine::topology::{LinkId, LinkRate, Topology};
use time_kit::*;

/// Returns schedules with n f32 on p ranks, with the collectives that they perform.
fn collectives(p: u64, n: u64) -> Vec<(&'static str, CollKind, Option<usize>, String)> {
    use CollKind::*;
    let block = |k: &str| format!("[(r {k}) % {p} of {p}]");
    let mut out = vec![
        ("ring", AllReduce, None, ring(p, n)),
        ("one-shot", AllReduce, None, direct(p, n, "", "combine sum v, @w[k - 1]")),
        ("chain", Broadcast, Some(0), chain(p, n, 5)),
    ];
    if n.is_multiple_of(p) {
        let gathered = format!("copy v{} = @w[k - 1]", block("- k"));
        out.push(("half ring", ReduceScatter, None, half_ring(p, n, true)));
        out.push(("half ring", AllGather, None, half_ring(p, n, false)));
        out.push(("direct", AllGather, None, direct(p, n, &format!("[r of {p}]"), &gathered)));
        out.push(("direct", AllToAll, None, direct(p, n, &block("+ k"), &gathered)));
    }
    if p.is_power_of_two() {
        out.push(("recursive doubling", AllReduce, None, doubling(p, n)));
    }
    out
}

fn machines(p: u64) -> Vec<String> {
    let mut out: Vec<String> =
        ["ring", "mesh", "full", "switch"].iter().map(|s| format!("{s}({p})")).collect();
    for (a, b) in (2..p).filter(|a| p.is_multiple_of(*a)).map(|a| (a, p / a)) {
        out.extend(["torus", "mesh"].map(|s| format!("{s}({a}, {b})")));
        out.push(format!("torus({a}, {b}) {{ wrap2: 2 }}"));
    }
    if p == 8 {
        out.extend(
            ["torus(2, 2, 2)", "hypercube(3)", "tree(2, 3)", "hierarchy(full(4), switch(2))"]
                .map(String::from),
        );
    }
    if p == 2 {
        out.push("ring(2) { wrap2: 2 }".into());
    }
    let settings = [
        "",
        "link: 10 GB/s, 0 ns",
        "link: 3 GB/s, 2 us; vector: 1 GB/s; fence: 7 ns",
        "device: 1 TFLOP/s, 4 GB/s",
    ];
    let with = |m: &String, s: &str| match (m.strip_suffix(" }"), s) {
        (_, "") => m.clone(),
        (Some(open), s) => format!("{open}; {s} }}"),
        (None, s) => format!("{m} {{ {s} }}"),
    };
    out.iter().flat_map(|m| settings.iter().map(move |s| with(m, s))).collect()
}

/// Reproducible pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % n
    }
}

fn check(name: &str, text: &str, topo: &Topology, kind: CollKind, root: Option<usize>, n: u64) {
    let t = time(&parse(text), topo);
    let problem = Problem { root, ..Problem::new(kind, 4 * n, topo.devices()) };
    let b = bound(topo, &problem).expect("a problem of this machine");
    assert!(
        t.ns >= b.ns * (1.0 - 1e-12),
        "{name} {} of {n} f32 on {topo}: {} ns, below the bound of {} ns: {}",
        kind.name(),
        t.ns,
        b.ns,
        b.bottleneck
    );
}

#[test]
fn no_time_is_below_the_bound() {
    let mut dice = Dice(1);
    let mut cases = 0;
    for p in [2, 3, 4, 6, 8, 9] {
        for n in [0, 1, 1001, 720 * p] {
            let list = collectives(p, n);
            for machine_text in machines(p) {
                let even = machine(&machine_text);
                // The same machine with some links that are slower, faster, or of higher latency.
                let mut odd = even.clone();
                for _ in 0..1 + p / 2 {
                    let link = LinkId(dice.below(odd.link_count()) as u32);
                    let bandwidth = [1e9, 7e9, 33.3e9, 400e9][dice.below(4) as usize];
                    odd.set_rate(link, LinkRate { bandwidth, latency_ns: dice.below(3000) as f64 }).unwrap();
                }
                for (name, kind, root, text) in &list {
                    for topo in [&even, &odd] {
                        check(name, text, topo, *kind, *root, n);
                        cases += 1;
                    }
                }
            }
        }
    }
    assert!(cases > 4000, "{cases}");
}

/// A ring over the ranks in any order: many hops, contention everywhere.
#[test]
fn rings_in_any_order_keep_the_bound() {
    let mut dice = Dice(7);
    for (p, text) in
        [(6, "mesh(2, 3)"), (8, "torus(2, 4)"), (9, "torus(3, 3)"), (12, "mesh(12)"), (12, "ring(12)")]
    {
        let topo = machine(text);
        let mut slowest = 0.0f64;
        for _ in 0..12 {
            let mut order: Vec<u64> = (0..p).collect();
            (1..p).rev().for_each(|i| order.swap(i as usize, dice.below(i + 1) as usize));
            let mut place = vec![0; p as usize];
            order.iter().enumerate().for_each(|(i, r)| place[*r as usize] = i);
            let next = format!("(@ord[(@at[r] + 1) % {p}])");
            let n = 1000 * p;
            let text = ring(p, n)
                .replace(&format!("((r + 1) % {p})"), &next)
                .replace("v[(r ", "v[(@at[r] ")
                .replace("buffer %y", &format!("table @ord = {order:?}\ntable @at = {place:?}\nbuffer %y"));
            check("ring in some order", &text, &topo, CollKind::AllReduce, None, n);
            slowest = slowest.max(time(&parse(&text), &topo).ns);
        }
        assert!(slowest > time(&parse(&ring(p, 1000 * p)), &topo).ns, "contention costs");
    }
}

/// Without latency, an optimal schedule takes exactly the time of its bound.
#[test]
fn what_is_optimal_reaches_the_bound() {
    for (name, p, kind, text, topo) in [
        (
            "direct",
            8,
            CollKind::AllGather,
            direct(8, 8000, "[r of 8]", "copy v[(r - k) % 8 of 8] = @w[k - 1]"),
            "full(8)",
        ),
        (
            "direct",
            5,
            CollKind::AllToAll,
            direct(5, 5000, "[(r + k) % 5 of 5]", "copy v[(r - k) % 5 of 5] = @w[k - 1]"),
            "full(5)",
        ),
        ("one-shot", 2, CollKind::AllReduce, direct(2, 4000, "", "combine sum v, @w[k - 1]"), "ring(2)"),
        (
            "direct",
            3,
            CollKind::AllToAll,
            direct(3, 3000, "[(r + k) % 3 of 3]", "copy v[(r - k) % 3 of 3] = @w[k - 1]"),
            "ring(3)",
        ),
    ] {
        let topo = machine(&format!("{topo} {{ link: 10 GB/s, 0 ns }}"));
        let t = time(&parse(&text), &topo);
        let elements: u64 = t.ranks.len() as u64 * 1000;
        let n = if kind == CollKind::AllReduce { 4000 } else { elements };
        let b = bound(&topo, &Problem::new(kind, 4 * n, topo.devices())).unwrap();
        assert_eq!(t.ns, b.ns, "{name} {} on {p}", kind.name());
    }
}
