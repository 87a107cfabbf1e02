//! Tests of bounds: known values, brute force over all cuts, and partitions evaluated again.

use kbc_diag::FileId;
use kbc_machine::bounds::{self, Bound, CollKind, Method, Problem, Sizes, algbw, bound, busbw};
use kbc_machine::topology::{DeviceId, LinkId, LinkRate, Topology};

/// Returns a machine with one byte per ns and no latency, so that times are in units of bytes.
pub(crate) fn machine(shape: &str) -> Topology {
    let text = match shape.split_once(" wrap2") {
        Some((shape, _)) => format!("{shape} {{ link: 1 GB/s, 0 ns; wrap2: 2 }}"),
        None => format!("{shape} {{ link: 1 GB/s, 0 ns }}"),
    };
    Topology::parse(&text, FileId(0)).expect("a machine of this test")
}

pub(crate) fn all(topo: &Topology, kind: CollKind, bytes: u64) -> Problem {
    Problem::new(kind, bytes, topo.devices())
}

pub(crate) fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Sets random rates on some links, equal in both directions if `symmetric`.
fn disturb(topo: &mut Topology, random: &mut Random, symmetric: bool) {
    for _ in 0..=random.below(6) {
        let link =
            topo.link(LinkId(random.below(topo.link_count()) as u32)).expect("below the number of links");
        let rate = LinkRate { bandwidth: (1 + random.below(30)) as f64 * 1e8, latency_ns: 0.0 };
        topo.set_link(link.from, link.to, rate).expect("a link");
        if symmetric {
            topo.set_link(link.to, link.from, rate).expect("links go both ways");
        }
    }
}

/// Returns the bytes per ns from a set of ranks to all other ranks, also through devices that are
/// not ranks. It searches augmenting paths on a matrix.
pub(crate) fn out(topo: &Topology, group: &[DeviceId], set: &[DeviceId]) -> f64 {
    let n = topo.node_count();
    let mut room = vec![vec![0.0f64; n + 2]; n + 2];
    for l in topo.links() {
        room[l.from.0 as usize][l.to.0 as usize] += l.rate.bandwidth / 1e9;
    }
    for d in group {
        let (a, b) = if set.contains(d) { (n, d.0 as usize) } else { (d.0 as usize, n + 1) };
        room[a][b] = 1e9;
    }
    let mut total = 0.0;
    loop {
        let mut from = vec![usize::MAX; n + 2];
        let mut queue = vec![n];
        from[n] = n;
        let mut head = 0;
        while head < queue.len() && from[n + 1] == usize::MAX {
            let u = queue[head];
            head += 1;
            for v in 0..n + 2 {
                if from[v] == usize::MAX && room[u][v] > 1e-9 {
                    from[v] = u;
                    queue.push(v);
                }
            }
        }
        if from[n + 1] == usize::MAX {
            return total;
        }
        let mut path = vec![(from[n + 1], n + 1)];
        while path[path.len() - 1].0 != n {
            let at = path[path.len() - 1].0;
            path.push((from[at], at));
        }
        let push = path.iter().map(|&(u, v)| room[u][v]).fold(f64::INFINITY, f64::min);
        for (u, v) in path {
            room[u][v] -= push;
            room[v][u] += push;
        }
        total += push;
    }
}

/// Returns the bytes that must leave a set of ranks, from the definition of each collective.
fn must_leave(problem: &Problem, set: &[DeviceId]) -> f64 {
    let p = problem.group.len();
    let block = |b: usize| match &problem.sizes {
        Sizes::Blocks(s) => s[b] as f64,
        _ => problem.bytes as f64 / p as f64,
    };
    let (inner, outer): (Vec<usize>, Vec<usize>) = (0..p).partition(|&r| set.contains(&problem.group[r]));
    if inner.is_empty() || outer.is_empty() {
        return 0.0;
    }
    let n = problem.bytes as f64;
    let root_inside = problem.root.is_some_and(|r| inner.contains(&r));
    match problem.kind {
        CollKind::Slice | CollKind::Barrier | CollKind::ByContract => 0.0,
        CollKind::AllReduce => n,
        CollKind::AllGather => inner.iter().map(|&b| block(b)).sum(),
        CollKind::ReduceScatter => outer.iter().map(|&b| block(b)).sum(),
        CollKind::AllToAll => inner
            .iter()
            .flat_map(|&s| outer.iter().map(move |&d| (s, d)))
            .map(|(s, d)| match &problem.sizes {
                Sizes::Pairs(m) => m[s * p + d] as f64,
                _ => block(d),
            })
            .sum(),
        CollKind::Broadcast => {
            if root_inside {
                n
            } else {
                0.0
            }
        }
        CollKind::Reduce => {
            if root_inside {
                0.0
            } else {
                n
            }
        }
        CollKind::Gather => {
            if root_inside {
                0.0
            } else {
                inner.iter().map(|&b| block(b)).sum()
            }
        }
        CollKind::Scatter => {
            if root_inside {
                outer.iter().map(|&b| block(b)).sum()
            } else {
                0.0
            }
        }
    }
}

/// Returns the bandwidth row of a partition.
pub(crate) fn evaluate(topo: &Topology, problem: &Problem, parts: &[Vec<DeviceId>]) -> f64 {
    let one_way = must_leave(problem, &parts[0]) / out(topo, &problem.group, &parts[0]);
    if problem.kind != CollKind::AllReduce {
        assert_eq!(parts.len(), 2);
        return one_way;
    }
    let sum: f64 = parts.iter().map(|s| out(topo, &problem.group, s)).sum();
    let both = 2.0 * (parts.len() - 1) as f64 * problem.bytes as f64 / sum;
    if parts.len() == 2 { both.max(one_way) } else { both }
}

/// Returns the largest row over all partitions (all-reduce) or cuts.
fn brute(topo: &Topology, problem: &Problem) -> f64 {
    let group = &problem.group;
    let mut best = 0f64;
    for mask in 1..(1u32 << group.len()) - 1 {
        let (a, b): (Vec<usize>, Vec<usize>) = (0..group.len()).partition(|r| mask >> r & 1 == 1);
        let named = |ranks: Vec<usize>| ranks.into_iter().map(|r| group[r]).collect::<Vec<_>>();
        best = best.max(evaluate(topo, problem, &[named(a), named(b)]));
    }
    if problem.kind != CollKind::AllReduce {
        return best;
    }
    // All partitions into more parts, as restricted growth strings.
    let mut part = vec![0usize; group.len()];
    loop {
        let count = part.iter().max().map_or(0, |m| m + 1);
        if count > 2 {
            let parts: Vec<Vec<DeviceId>> = (0..count)
                .map(|k| (0..group.len()).filter(|&r| part[r] == k).map(|r| group[r]).collect())
                .collect();
            best = best.max(evaluate(topo, problem, &parts));
        }
        let Some(i) = (1..part.len()).rev().find(|&i| part[..i].contains(&part[i])) else { return best };
        part[i] += 1;
        part[i + 1..].fill(0);
    }
}

/// Checks that the row equals that of its partition, and that every rank is in one part.
pub(crate) fn check_partition(topo: &Topology, problem: &Problem, b: &Bound) {
    let mut ranks: Vec<DeviceId> = b.partition.concat();
    let mut group = problem.group.clone();
    ranks.sort_unstable();
    group.sort_unstable();
    assert_eq!(ranks, group);
    let again = evaluate(topo, problem, &b.partition);
    assert!(
        near(again, b.bandwidth_ns),
        "{topo}: {problem:?}: {} but {again} from {:?}",
        b.bandwidth_ns,
        b.partition
    );
    // The values that reports print about it.
    let (out_of, row) = bounds::evaluate(topo, problem, &b.partition).expect("small");
    assert!(near(row, again) && out_of.len() == b.partition.len());
    assert!(near(out_of[0], out(topo, &problem.group, &b.partition[0]) * 1e9));
}

#[test]
fn all_reduce_optima_of_the_table() {
    for (shape, num, den) in [
        ("ring(6)", 5, 6),
        ("mesh(2, 3)", 5, 7),
        ("torus(2, 3)", 5, 9),
        ("torus(2, 3) wrap2", 5, 12),
        ("mesh(3, 3)", 2, 3),
        ("torus(3, 3)", 4, 9),
        ("full(8)", 1, 4),
        ("mesh(4, 4)", 15, 24),
        ("torus(4, 4)", 15, 32),
        ("ring(2)", 1, 1),
        ("ring(2) wrap2", 1, 2),
        ("mesh(5)", 1, 1),
    ] {
        let topo = machine(shape);
        let problem = all(&topo, CollKind::AllReduce, 1_000_000);
        let b = bound(&topo, &problem).unwrap();
        assert!(near(b.ns, 1e6 * f64::from(num) / f64::from(den)), "{shape}: {}", b.ns);
        assert!(b.exact, "{shape}");
        assert_eq!(b.bottleneck, "traffic of every single rank", "{shape}");
        check_partition(&topo, &problem, &b);
    }
}

/// Links of different rates, computed by hand.
#[test]
fn all_reduce_optima_of_unequal_links() {
    let of = |text: &str| {
        let topo = Topology::parse(text, FileId(0)).expect("a machine of this test");
        let problem = all(&topo, CollKind::AllReduce, 1_000_000);
        let b = bound(&topo, &problem).unwrap();
        check_partition(&topo, &problem, &b);
        (b.ns / 1e6, b.method, b.partition.len())
    };
    let same = |a: (f64, Method, usize), b: (f64, Method, usize)| near(a.0, b.0) && (a.1, a.2) == (b.1, b.2);
    // One direction at half the rate: 2 (p - 1) n over p (1 + 1/2).
    let ring = "ring(6) { link: 1 GB/s, 0 ns; link -x: 0.5 GB/s, 0 ns }";
    assert!(same(of(ring), (10.0 / 9.0, Method::Intervals, 6)), "{:?}", of(ring));
    // A weak bridge between two squares: the cut through it.
    let bridge = "mesh(2, 4) { link: 1 GB/s, 0 ns; link (0,1)->(0,2): 0.1 GB/s, 0 ns; link (0,2)->(0,1): 0.1 GB/s, 0 ns; \
         link (1,1)->(1,2): 0.1 GB/s, 0 ns; link (1,2)->(1,1): 0.1 GB/s, 0 ns }";
    assert!(same(of(bridge), (5.0, Method::Search, 2)), "{:?}", of(bridge));
    // One slow link of a path limits everything.
    let path = "mesh(4) { link: 1 GB/s, 0 ns; link (1)->(2): 0.25 GB/s, 0 ns }";
    assert!(same(of(path), (4.0, Method::Intervals, 2)), "{:?}", of(path));
    // A fast cluster {0, 1, 2} and a slow fourth device in a complete graph, by three links of 1.
    let full = "full(4) { link: 1 GB/s, 0 ns; link (0)->(1): 9 GB/s, 0 ns; link (1)->(0): 9 GB/s, 0 ns; \
         link (0)->(2): 9 GB/s, 0 ns; link (2)->(0): 9 GB/s, 0 ns; link (1)->(2): 9 GB/s, 0 ns; \
         link (2)->(1): 9 GB/s, 0 ns }";
    assert!(same(of(full), (1.0 / 3.0, Method::Search, 2)), "{:?}", of(full));
    // Both wraps of size two, and their unequal halves: 2 (k - 1) n over all that leaves.
    let two = "ring(2) { link: 1 GB/s, 0 ns; wrap2: 2; link -x: 0.5 GB/s, 0 ns }";
    assert!(near(of(two).0, 1.0 / 1.5), "{:?}", of(two));
}

/// 64 devices with random links: the bound is exact, and no other partition tried is better.
#[test]
fn sixty_four_devices_are_searched() {
    let mut random = Random(23);
    for (shape, method) in [
        ("torus(8, 8)", Method::Search),
        ("mesh(4, 4, 4)", Method::Search),
        ("full(64)", Method::Search),
        ("ring(64)", Method::Intervals),
    ] {
        let mut topo = machine(shape);
        (0..12).for_each(|_| disturb(&mut topo, &mut random, true));
        let problem = all(&topo, CollKind::AllReduce, 6_400_000);
        let b = bound(&topo, &problem).unwrap();
        assert_eq!((b.exact, b.method), (true, method), "{shape}");
        check_partition(&topo, &problem, &b);
        let mut tried = 0;
        for round in 0..300 {
            // Regions that grow along links, beside singletons: candidates for dense parts.
            let mut part: Vec<usize> = (0..64).collect();
            for _ in 0..=round % 40 {
                let link = topo.link(LinkId(random.below(topo.link_count()) as u32)).expect("it exists");
                let (a, c) = (part[link.from.0 as usize], part[link.to.0 as usize]);
                part.iter_mut().filter(|p| **p == c).for_each(|p| *p = a);
            }
            let parts: Vec<Vec<DeviceId>> = (0..64)
                .map(|k| (0..64).filter(|&d| part[d] == k).map(|d| DeviceId(d as u32)).collect::<Vec<_>>())
                .filter(|p| !p.is_empty())
                .collect();
            if parts.len() > 1 {
                let (_, row) = bounds::evaluate(&topo, &problem, &parts).expect("small");
                assert!(row <= b.bandwidth_ns * (1.0 + 1e-12), "{shape}: {row} {}", b.bandwidth_ns);
                tried += 1;
            }
        }
        assert!(tried > 200);
    }
    for (shape, method) in [
        ("torus(8, 8)", Method::Symmetry),
        ("mesh(8, 8)", Method::Symmetry),
        ("mesh(4, 4, 4)", Method::Search),
    ] {
        let topo = machine(shape);
        let b = bound(&topo, &all(&topo, CollKind::AllReduce, 640)).unwrap();
        assert_eq!((b.exact, b.method, b.partition.len()), (true, method, 64), "{shape}");
    }
}

#[test]
fn other_collectives_on_whole_machines() {
    use CollKind::*;
    // (shape, kind, root, value in n/B, words)
    for (shape, kind, root, value, words) in [
        ("ring(6)", AllGather, None, 5.0 / 12.0, "links into (0)"),
        ("ring(6)", ReduceScatter, None, 5.0 / 12.0, "links out of (0)"),
        ("ring(6)", AllToAll, None, 0.75, "cut {x 0..3}|{x 3..6}"),
        ("ring(5)", AllToAll, None, 0.6, "cut {x 0..2}|{x 2..5}"),
        ("ring(6)", Broadcast, Some(2), 0.5, "links out of (2)"),
        ("ring(6)", Reduce, Some(2), 0.5, "links into (2)"),
        ("mesh(3, 3)", Gather, Some(4), 8.0 / 9.0 / 4.0, "links into (1,1)"),
        ("mesh(3, 3)", Gather, Some(0), 8.0 / 9.0 / 2.0, "links into (0,0)"),
        ("mesh(3, 3)", Scatter, Some(0), 8.0 / 9.0 / 2.0, "links out of (0,0)"),
        ("mesh(3, 3)", Broadcast, Some(4), 0.5, "links into (0,0)"),
        ("mesh(3, 3)", AllGather, None, 8.0 / 9.0 / 2.0, "links into (0,0)"),
        ("mesh(4, 4)", AllToAll, None, 8.0 * 8.0 / 16.0 / 4.0, "cut {x 0..2}|{x 2..4}"),
        ("mesh(2, 4)", AllToAll, None, 4.0 * 4.0 / 8.0 / 2.0, "cut {y 0..2}|{y 2..4}"),
        ("mesh(4)", AllToAll, None, 1.0, "link (1)->(2)"),
        ("torus(4, 4)", AllToAll, None, 0.5, "cut {x 0..2}|{x 2..4}"),
        ("full(8)", AllToAll, None, 1.0 / 8.0, "links out of (0)"),
        ("mesh(3)", Gather, Some(0), 2.0 / 3.0, "link (1)->(0)"),
        ("mesh(3)", Broadcast, Some(0), 1.0, "link (0)->(1)"),
    ] {
        let topo = machine(shape);
        let problem = Problem { root, ..all(&topo, kind, 1_000_000) };
        let b = bound(&topo, &problem).unwrap();
        assert!(near(b.ns, 1e6 * value), "{shape} {kind:?}: {} for {}", b.ns, 1e6 * value);
        assert_eq!(b.bottleneck, words, "{shape} {kind:?}");
        assert!(b.exact, "{shape} {kind:?}");
        check_partition(&topo, &problem, &b);
    }
}

#[test]
fn all_reduce_finds_the_best_of_all_partitions() {
    let mut random = Random(3);
    let mut words: Vec<String> = vec![];
    for shape in
        ["ring(5)", "mesh(5)", "mesh(2, 3)", "torus(2, 3)", "torus(2, 3) wrap2", "full(5)", "torus(5)"]
    {
        for round in 0..12 {
            let mut topo = machine(shape);
            disturb(&mut topo, &mut random, round % 2 == 0);
            let problem = all(&topo, CollKind::AllReduce, 840);
            let b = bound(&topo, &problem).unwrap();
            let best = brute(&topo, &problem);
            assert!(near(b.bandwidth_ns, best), "{shape}: {} {best} {:?}", b.bandwidth_ns, b.partition);
            assert!(b.exact, "{shape}");
            check_partition(&topo, &problem, &b);
            words.push(b.bottleneck);
        }
    }
    for start in ["traffic of every single rank", "link ", "partition {", "links "] {
        assert!(words.iter().any(|w| w.starts_with(start)), "no bottleneck like `{start}`: {words:?}");
    }
}

#[test]
fn groups_among_relays_find_the_best_of_all_partitions() {
    let mut random = Random(5);
    for (shape, group) in [
        ("mesh(3, 3)", vec![0, 4, 8]),
        ("mesh(3, 3)", vec![3, 4, 5]),
        ("mesh(3, 3)", vec![8, 0, 2, 6]),
        ("torus(2, 4)", vec![0, 1, 2, 3]),
        ("ring(8)", vec![0, 2, 3, 6]),
        ("torus(2, 2, 2) wrap2", vec![0, 3, 5, 6]),
        // Switches are relays as well.
        ("switch(4)", vec![0, 1, 2, 3]),
        ("switch(5)", vec![0, 2, 4]),
        ("tree(2, 2)", vec![0, 1, 2, 3]),
        ("hierarchy(switch(2), full(2))", vec![0, 1, 2, 3]),
        ("hierarchy(mesh(2), switch(2))", vec![0, 1, 2, 3]),
    ] {
        for round in 0..6 {
            let mut topo = machine(shape);
            if round > 0 {
                disturb(&mut topo, &mut random, false);
            }
            for kind in bounds::bounded() {
                let root = kind.rooted().then(|| random.below(group.len() as u64) as usize);
                let problem = Problem { root, ..Problem::new(kind, 840, group.iter().map(|&d| DeviceId(d))) };
                let b = bound(&topo, &problem).unwrap();
                let best = brute(&topo, &problem);
                if b.exact {
                    assert!(near(b.bandwidth_ns, best), "{shape} {kind:?}: {} {best}", b.bandwidth_ns);
                } else {
                    assert_eq!(kind, CollKind::AllToAll, "{shape}: every other kind is searched");
                    assert!(b.bandwidth_ns <= best * (1.0 + 1e-12), "{shape} {kind:?}");
                }
                // A rank's own links, or those across an axis, may carry more than reaches ranks.
                let again = evaluate(&topo, &problem, &b.partition);
                assert!(b.bandwidth_ns <= again * (1.0 + 1e-12), "{shape} {kind:?}");
            }
        }
    }
}

#[test]
fn cuts_with_uneven_blocks_equal_brute_force() {
    let mut random = Random(11);
    for shape in ["ring(5)", "mesh(2, 3)", "torus(2, 3)", "full(4)", "mesh(6)"] {
        for round in 0..10 {
            let mut topo = machine(shape);
            if round % 2 == 1 {
                disturb(&mut topo, &mut random, false);
            }
            let p = topo.device_count();
            for kind in bounds::bounded().filter(|k| k.blocked()) {
                let blocks: Vec<u64> = (0..p).map(|_| random.below(4) * 100).collect();
                let total: u64 = blocks.iter().sum();
                let root = kind.rooted().then(|| random.below(p as u64) as usize);
                let problem = Problem { root, ..all(&topo, kind, total) }.sizes(Sizes::Blocks(blocks));
                let b = bound(&topo, &problem).unwrap();
                let best = brute(&topo, &problem);
                assert!(near(b.bandwidth_ns, best), "{shape} {problem:?}: {} {best}", b.bandwidth_ns);
                assert!(b.exact, "{shape} {problem:?}");
                if best > 0.0 {
                    check_partition(&topo, &problem, &b);
                }
            }
            let pairs: Vec<u64> = (0..p * p).map(|_| random.below(5) * 10).collect();
            let problem = all(&topo, CollKind::AllToAll, 1).sizes(Sizes::Pairs(pairs));
            let b = bound(&topo, &problem).unwrap();
            assert!(near(b.bandwidth_ns, brute(&topo, &problem)), "{shape} {problem:?}");
        }
    }
}

#[test]
fn blocks_are_cut_as_tensors_are() {
    assert_eq!(Sizes::cut(5, 4, 4), Sizes::Blocks(vec![8, 4, 4, 4]));
    assert_eq!(Sizes::cut(2, 2, 4), Sizes::Blocks(vec![2, 0, 2, 0]));
    assert_eq!(Sizes::cut(0, 4, 3), Sizes::Blocks(vec![0, 0, 0]));
    // Five elements on a path of four: the first device must send its own block, not a quarter.
    let topo = machine("mesh(4)");
    let problem = Problem::new(CollKind::AllGather, 20, topo.devices()).sizes(Sizes::cut(5, 4, 4));
    assert!(near(bound(&topo, &problem).unwrap().ns, 16.0));
}

#[test]
fn one_slow_link_is_named_where_it_matters() {
    let slow = LinkRate { bandwidth: 1e8, latency_ns: 0.0 };
    let mut topo = machine("mesh(4)");
    topo.set_link(DeviceId(1), DeviceId(2), slow).unwrap();
    for (kind, root, words) in [
        (CollKind::AllReduce, None, "link (1)->(2)"),
        (CollKind::Broadcast, Some(0), "link (1)->(2)"),
        (CollKind::Reduce, Some(3), "link (1)->(2)"),
        (CollKind::Broadcast, Some(3), "link (3)->(2)"),
    ] {
        let problem = Problem { root, ..all(&topo, kind, 1000) };
        let b = bound(&topo, &problem).unwrap();
        assert_eq!((b.bottleneck.as_str(), b.exact), (words, true), "{kind:?} {root:?}");
        check_partition(&topo, &problem, &b);
    }
    // Above the limit of the search the row is still valid, and states that it may not be the best.
    let mut large = machine("mesh(20, 20)");
    large.set_link(DeviceId(0), DeviceId(1), slow).unwrap();
    let b = bound(&large, &all(&large, CollKind::AllReduce, 1000)).unwrap();
    assert!(!b.exact && b.method == Method::Found);
    // One fast and one slow link of the corner give a larger row than singletons.
    assert_eq!(b.bottleneck, "links out of (0,0)");
    assert!(near(b.ns, 1000.0 / 1.1), "{}", b.ns);
}

#[test]
fn latency_is_a_distance() {
    let text = |s: &str| Topology::parse(s, FileId(0)).unwrap();
    for (shape, kind, root, hops) in [
        ("ring(7)", CollKind::AllReduce, None, 3),
        ("torus(4, 6)", CollKind::AllGather, None, 5),
        ("mesh(4, 4)", CollKind::AllReduce, None, 6),
        ("mesh(4, 4)", CollKind::Broadcast, Some(5), 4),
        ("mesh(4, 4)", CollKind::Reduce, Some(0), 6),
        ("full(9)", CollKind::AllToAll, None, 1),
        ("ring(65536)", CollKind::AllReduce, None, 32_768),
        ("mesh(256, 256)", CollKind::ReduceScatter, None, 510),
        ("torus(32, 32, 64)", CollKind::AllGather, None, 64),
        ("full(65536)", CollKind::AllReduce, None, 1),
    ] {
        let topo = text(&format!("{shape} {{ link: 1 GB/s, 100 ns }}"));
        let problem = Problem { root, ..all(&topo, kind, 65_536) };
        let b = bound(&topo, &problem).unwrap();
        assert_eq!((b.hops, b.latency_ns), (hops, f64::from(hops) * 100.0), "{shape} {kind:?}");
    }
    let topo = text("mesh(4, 4) { link: 50 GB/s, 500 ns }");
    let b = bound(&topo, &all(&topo, CollKind::AllReduce, 64)).unwrap();
    assert_eq!(b.bottleneck, "latency of 6 hops from (0,0) to (3,3)");
    assert_eq!(b.bandwidth_bottleneck, "traffic of every single rank");
    assert_eq!((b.ns, b.percent(6000.0)), (3000.0, Some(50.0)));
    assert!(b.contradicts(2999.9) && !b.contradicts(3000.0));

    // Only what is sent has to arrive: one element, so only its owner's distance counts.
    let topo = text("mesh(5) { link: 50 GB/s, 500 ns }");
    let problem = Problem::new(CollKind::AllGather, 4, topo.devices()).sizes(Sizes::cut(1, 4, 5));
    assert_eq!(bound(&topo, &problem).unwrap().hops, 4);
    let back: Vec<DeviceId> = [2, 0, 1, 3, 4].map(DeviceId).to_vec();
    let problem = Problem::new(CollKind::AllGather, 4, back).sizes(Sizes::cut(1, 4, 5));
    assert_eq!(bound(&topo, &problem).unwrap().hops, 2, "the first rank is in the middle");
    let mut pairs = vec![0; 25];
    pairs[5 + 3] = 4;
    let problem = all(&topo, CollKind::AllToAll, 4).sizes(Sizes::Pairs(pairs));
    assert_eq!(bound(&topo, &problem).unwrap().hops, 2);

    // A path around a slow link counts, even if the route does not take it.
    let mut topo = text("ring(4) { link: 50 GB/s, 100 ns }");
    topo.set_link(DeviceId(0), DeviceId(1), LinkRate { bandwidth: 5e10, latency_ns: 900.0 }).unwrap();
    let b = bound(&topo, &all(&topo, CollKind::Broadcast, 8).root(0)).unwrap();
    assert_eq!((b.latency_ns, b.hops), (300.0, 3));
}

#[test]
fn reduction_is_a_row() {
    let topo = Topology::parse("full(4) { link: 100 GB/s, 1 ns; vector: 10 GB/s }", FileId(0)).unwrap();
    let b = bound(&topo, &all(&topo, CollKind::AllReduce, 4000)).unwrap();
    assert!(near(b.reduction_ns, 300.0));
    assert_eq!((b.ns, b.bottleneck.as_str()), (b.reduction_ns, "reduction on every device"));
    assert_eq!(bound(&topo, &all(&topo, CollKind::AllGather, 4000)).unwrap().reduction_ns, 0.0);
}

#[test]
fn nothing_to_do_is_bound_zero() {
    let topo = machine("ring(4)");
    let one = Problem::new(CollKind::AllReduce, 100, [DeviceId(2)]);
    let own =
        Problem::new(CollKind::AllToAll, 100, topo.devices().take(2)).sizes(Sizes::Pairs(vec![9, 0, 0, 9]));
    for problem in [all(&topo, CollKind::AllReduce, 0), one, own, Problem::new(CollKind::AllReduce, 5, [])] {
        let b = bound(&topo, &problem).unwrap();
        assert_eq!((b.ns, b.bottleneck.as_str(), b.percent(10.0)), (0.0, "-", None));
    }
}

#[test]
fn conventions_of_nccl_tests() {
    assert_eq!(algbw(1000, 100.0), 10.0);
    for (kind, factor) in [
        (CollKind::AllReduce, 1.5),
        (CollKind::AllGather, 0.75),
        (CollKind::ReduceScatter, 0.75),
        (CollKind::AllToAll, 0.75),
        (CollKind::Broadcast, 1.0),
        (CollKind::Reduce, 1.0),
    ] {
        assert_eq!(busbw(kind, 4, 1000, 100.0), 10.0 * factor, "{kind:?}");
    }
    let covered: Vec<&str> = bounds::bounded().map(|k| k.name()).collect();
    let all = ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce"];
    assert_eq!(covered[..6], all);
    assert_eq!(covered[6..], ["gather", "scatter"]);
}

#[test]
fn problems_that_are_none_are_refused() {
    let topo = machine("ring(4)");
    let base = all(&topo, CollKind::AllReduce, 8);
    let gather = all(&topo, CollKind::AllGather, 8);
    for (problem, words) in [
        (Problem::new(CollKind::AllReduce, 8, [DeviceId(4)]), "ring(4) has no device 4"),
        (Problem::new(CollKind::AllReduce, 8, [DeviceId(1), DeviceId(1)]), "(1) occurs twice in the group"),
        (base.clone().root(0), "all_reduce takes no root"),
        (all(&topo, CollKind::Gather, 8), "gather needs a root"),
        (all(&topo, CollKind::Scatter, 8).root(4), "the root 4 is outside a group of 4 ranks"),
        (base.clone().sizes(Sizes::Blocks(vec![2; 4])), "works on one vector, not on blocks"),
        (gather.clone().sizes(Sizes::Blocks(vec![2; 3])), "3 blocks are given for 4 ranks"),
        (gather.clone().sizes(Sizes::Blocks(vec![u64::MAX; 4])), "and the vector has 8"),
        (gather.sizes(Sizes::Pairs(vec![0; 16])), "takes no byte counts for pairs of ranks"),
        (
            all(&topo, CollKind::AllToAll, 8).sizes(Sizes::Pairs(vec![1; 15])),
            "15 counts are given for 4 ranks",
        ),
    ] {
        let e = bound(&topo, &problem).unwrap_err();
        assert_eq!(e.code, "E448");
        assert!(e.title.contains(words), "{}", e.title);
    }
}

#[test]
fn large_machines_are_answered_too() {
    // None of these cases lists links or pairs.
    for (shape, value) in [("ring(65536)", 65_535.0 / 65_536.0), ("full(65536)", 2.0 / 65_536.0)] {
        let topo = machine(shape);
        let b = bound(&topo, &all(&topo, CollKind::AllReduce, 1 << 30)).unwrap();
        assert!(near(b.bandwidth_ns, value * f64::from(1 << 30)), "{shape}: {}", b.bandwidth_ns);
        assert!(b.exact);
    }
    let mut ring = machine("ring(4096)");
    for from in [7, 1000] {
        let rate = LinkRate { bandwidth: 1e8, latency_ns: 0.0 };
        ring.set_link(DeviceId(from), DeviceId(from + 1), rate).unwrap();
        ring.set_link(DeviceId(from + 1), DeviceId(from), rate).unwrap();
    }
    let problem = all(&ring, CollKind::AllReduce, 1000);
    let b = bound(&ring, &problem).unwrap();
    assert!(b.exact && near(b.ns, 1000.0 / 0.2), "{}", b.ns);
    assert_eq!(b.partition.iter().map(Vec::len).collect::<Vec<_>>(), [3103, 993]);
    let row = Problem::new(CollKind::AllReduce, 1000, (0..64).map(DeviceId));
    let b = bound(&machine("torus(64, 64)"), &row).unwrap();
    assert!(b.ns > 0.0 && !b.exact);
}

/// Results are cached with a machine and its copies, but not with a machine that was changed.
#[test]
fn what_is_remembered_is_of_this_machine() {
    let slow = LinkRate { bandwidth: 1e6, latency_ns: 9000.0 };
    let kinds = [CollKind::AllReduce, CollKind::AllGather, CollKind::Broadcast];
    for shape in ["mesh(3, 3)", "switch(5)", "torus(2, 4)", "hierarchy(ring(4), switch(2))"] {
        let mut differ = false;
        for kind in kinds {
            let problem = |topo: &Topology, bytes: u64| match kind.rooted() {
                true => all(topo, kind, bytes).root(0),
                false => all(topo, kind, bytes),
            };
            let fresh = |changed: bool, bytes: u64| {
                let mut topo = machine(shape);
                if changed {
                    topo.set_rate(LinkId(1), slow).expect("a link");
                }
                bound(&topo, &problem(&topo, bytes)).expect("a bound")
            };
            let topo = machine(shape);
            for bytes in [4096, 1 << 20] {
                let copy = topo.clone();
                assert_eq!(
                    bound(&copy, &problem(&copy, bytes)).expect("a bound"),
                    fresh(false, bytes),
                    "{shape}"
                );
            }
            let mut changed = topo.clone();
            changed.set_rate(LinkId(1), slow).expect("a link");
            for bytes in [4096, 1 << 20] {
                assert_eq!(
                    bound(&changed, &problem(&changed, bytes)).expect("a bound"),
                    fresh(true, bytes),
                    "{shape}"
                );
                assert_eq!(
                    bound(&topo, &problem(&topo, bytes)).expect("a bound"),
                    fresh(false, bytes),
                    "{shape}"
                );
            }
            differ |= fresh(true, 4096) != fresh(false, 4096);
        }
        assert!(differ, "{shape}: a slow link makes no difference");
    }
}

/// Collectives share bandwidth only over a common cut: over others they may run concurrently.
#[test]
fn several_collectives_share_links_only_over_one_cut() {
    let of = |topo: &Topology, problems: &[Problem]| {
        let found: Vec<Bound> = problems.iter().map(|p| bound(topo, p).expect("a bound")).collect();
        bounds::together(topo, &problems.iter().zip(&found).collect::<Vec<_>>()).0
    };
    let two = machine("ring(2)");
    let from = |root| all(&two, CollKind::Broadcast, 1000).root(root);
    assert!(near(of(&two, &[from(0), from(0)]), 2000.0));
    assert!(near(of(&two, &[from(0), from(1)]), 1000.0));
    // Blocks of which one rank has all: each collective gathers over another link.
    let blocks = |b: [u64; 2]| all(&two, CollKind::AllGather, 1000).sizes(Sizes::Blocks(b.to_vec()));
    assert!(near(of(&two, &[blocks([1000, 0]), blocks([0, 1000])]), 1000.0));
    assert!(near(of(&two, &[blocks([1000, 0]), blocks([1000, 0])]), 2000.0));
    // A reduce_scatter and an all_gather of n take as long as an all_reduce of n.
    let full = machine("full(4)");
    let halves = [all(&full, CollKind::ReduceScatter, 1200), all(&full, CollKind::AllGather, 1200)];
    let whole = bound(&full, &all(&full, CollKind::AllReduce, 1200)).expect("a bound").bandwidth_ns;
    assert!(near(of(&full, &halves), whole), "{} {whole}", of(&full, &halves));
}

/// If times are rounded down, bounds are lowered by what messages of one element may gain.
#[test]
fn rounding_gives_away_what_messages_of_one_element_gain() {
    let row = |rules: &str, element: u64| {
        let topo =
            Topology::parse(&format!("ring(4) {{ link: 1 GB/s, 0 ns{rules} }}"), FileId(0)).expect("one");
        let b = bound(&topo, &all(&topo, CollKind::AllReduce, 6000).element(element)).expect("a bound");
        assert!(near(b.bandwidth_ns + b.slack_ns, 4500.0));
        b.bandwidth_ns
    };
    assert!(near(row("", 4), 4500.0));
    assert!(near(row("; round: 4 ns", 4), 4500.0));
    assert!(near(row("; round: 3 ns", 4), 3375.0));
    assert_eq!(row("; round: 5 ns", 4), 0.0);
}
