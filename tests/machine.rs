//! Tests of machines with rules of their own, through the command line: published figures to the
//! nanosecond, no time below a bound under any rules, and internal errors distinguished from errors
//! of the user.

use crate::common;
use crate::driver;

use common::{kbc, root};
use driver::built;
use kbc::session::Failure;
use kbc_compiler::{bounds, perturb};
use kbc_diag::FileId;
use kbc_frontend::machine::read_perturb;
use kbc_machine::topology::Topology;
use kbc_time::{TimeOptions, simulate};

fn report(words: &[&str]) -> serde_json::Value {
    let ran = kbc(root(), words, "");
    assert_eq!(ran.code, 0, "{words:?}: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// Ring all-reduce of 64 MiB on ASTRA-sim 2, analytical and congestion aware. 1024 and 4096 ranks
/// are in the benchmark `analytical`.
#[test]
fn figures_of_the_analytical_simulator() {
    for (p, ns) in [(8, 2_194_515.0), (64, 2_524_033.0), (256, 2_745_331.0)] {
        let p = format!("p={p}");
        let r = report(&[
            "run",
            "specs/bench/ring_all_reduce.kb",
            "-D",
            &p,
            "-D",
            "n=16777216",
            "--no-data",
            "--topology",
            "specs/topologies/analytical.yaml",
            "--format",
            "json",
        ]);
        assert_eq!(r["time_ns"].as_f64(), Some(ns), "{p}");
        assert!(r["percent"].as_f64().expect("a bound") < 100.0);
    }
}

const RULES: [&str; 9] = [
    "",
    "forward: store_and_forward",
    "round: 1 ns",
    "forward: store_and_forward; round: 7 ns",
    "forward: store_and_forward; round: 1 ns; endpoint: 1 ns",
    "endpoint: 30 ns",
    "core_put: 512 B, 70 ns; core_get: 4 KiB, 70 ns; notify: 100 ns; core_memory: 3 GB/s",
    "core_put: 1 B, 0.01 ns; notify: 0 ns; forward: store_and_forward; round: 1 ns",
    "sdma: 21 GB/s, 25 ns; engine: sdma; notify: 1 ns; forward: drain",
];

/// Machines on which latency, bandwidth or nothing is scarce, some with a slow direction. A
/// physical bound would be wrong for small messages on a machine that rounds down.
#[test]
fn no_time_is_below_its_bound_under_any_rules() {
    let mut rounded = 0;
    for (spec, sizes) in [
        ("specs/all_reduce.kb", ["n=7", "n=4000"]),
        ("specs/all_gather.kb", ["n=8", "n=4000"]),
        ("specs/all_to_all.kb", ["rows=4", "rows=300"]),
        ("specs/broadcast.kb", ["n=5", "n=4000"]),
    ] {
        for shape in ["ring(4)", "mesh(2, 2)", "full(4)", "torus(2, 2)"] {
            for n in sizes {
                let job = built(&[spec, "-D", n, "--topology", shape]);
                for rates in ["50 GB/s, 500 ns", "50 GB/s, 0 ns", "3.7 GB/s, 0.9 ns", "900 GB/s, 1.5 ns"] {
                    for rules in RULES {
                        for more in ["", "; link (1)->(0): 1 GB/s, 0.3 ns"] {
                            if shape != "ring(4)" && !more.is_empty() {
                                continue;
                            }
                            let text = format!("{shape} {{ link: {rates}{more}; {rules} }}");
                            let topo = Topology::parse(&text.replace("; }", " }"), FileId(0))
                                .unwrap_or_else(|d| panic!("{text}: {d:?}"));
                            let (timing, lower) = bounds::timed(
                                job.schedule(),
                                &topo,
                                &TimeOptions::default(),
                                &mut bounds::NoObserver,
                            )
                            .unwrap_or_else(|d| panic!("{spec} {n} {text}: {d:#?}"));
                            assert!(timing.ns >= lower.ns * (1.0 - 1e-9), "{spec} {n} {text}");
                            let end = timing.path.last().map_or(timing.ns, |s| s.end_ns);
                            assert_eq!(end, timing.ns, "{spec} {n} {text}");
                            rounded += usize::from(lower.collectives.iter().any(|c| {
                                c.bound.slack_ns > 0.0 && c.bound.bandwidth_ns + c.bound.slack_ns > timing.ns
                            }));
                        }
                    }
                }
            }
        }
    }
    assert!(rounded > 0, "some time is below the physical bound, or this tests little");
}

/// Lists of links (TOPO-1): machines with relays, one-directional links, and packages whose ranks
/// share routers and connections.
#[test]
fn no_time_is_below_its_bound_on_lists_of_links() {
    let graphs = [
        "graph(3, 1) { link (0)<->#0: 10 GB/s, 5 ns; link (1)<->#0: 20 GB/s, 50 ns; link #0->(2): 1 GB/s, 0 ns; \
         link (2)->#0: unlimited, 7 ns",
        "graph(4, 0) { link (0)->(1): 10 GB/s, 5 ns; link (1)->(2): 10 GB/s, 5 ns; link (2)->(3): 10 GB/s, 5 ns; \
         link (3)->(0): 10 GB/s, 5 ns",
        "package(ring(2), mesh(1, 2), 2) { cube_link: 128 GB/s, 4; port_node: 8 ns; io_node: 10 ns; sip_link: 64 GB/s; pe_link: 300 GB/s",
        "package(torus(2, 3), mesh(1, 1), 1) { io_node: 10 ns; sip_link: 64 GB/s; wrap2: 2",
        // Data that nothing limits takes no time, however many bytes there are.
        "package(ring(1), mesh(1, 1), 4) { pe_wire: 300",
        "package(ring(1), mesh(1, 2), 2) { pe_wire: 300; cube_link: 1 GB/s",
        "package(mesh(1), mesh(2, 2), 3) { port_node: 8 ns; cube_link: 3 GB/s, 2; pe_wire: 100, 700",
    ];
    for (spec, sizes) in [
        ("specs/all_reduce.kb", ["n=7", "n=4000"]),
        ("specs/all_gather.kb", ["n=24", "n=4800"]),
        ("specs/broadcast.kb", ["n=5", "n=4000"]),
    ] {
        for graph in graphs {
            for n in sizes {
                let plain = format!("{graph} }}");
                let job = built(&[spec, "-D", n, "--topology", &plain]);
                for rules in [
                    "fence: 1 ns",
                    "forward: store_and_forward; round: 1 ns",
                    "forward: drain; endpoint: 3 ns",
                ] {
                    let text = format!("{graph}; {rules} }}");
                    let topo = Topology::parse(&text, FileId(0)).unwrap_or_else(|d| panic!("{text}: {d:?}"));
                    let (timing, lower) = bounds::timed(
                        job.schedule(),
                        &topo,
                        &TimeOptions::default(),
                        &mut bounds::NoObserver,
                    )
                    .unwrap_or_else(|d| panic!("{spec} {n} {text}: {d:#?}"));
                    assert!(lower.ns > 0.0 && timing.ns >= lower.ns * (1.0 - 1e-9), "{spec} {n} {text}");
                }
            }
        }
    }
}

/// A bound for another machine than the simulated one is a contradiction, for links as for devices.
#[test]
fn a_time_below_a_bound_is_an_error_of_kbc() {
    let job = built(&["specs/all_reduce.kb", "-D", "n=100000", "--topology", "ring(4)"]);
    let machine = |text| Topology::parse(text, FileId(0)).expect("a machine");
    let fast = machine("ring(4) { link: 50 GB/s, 500 ns }");
    let timing = simulate(job.schedule(), &fast, &TimeOptions::default()).expect("it runs");
    assert!(bounds::against(job.schedule(), &fast, &timing).is_ok());
    for slow in ["ring(4) { link: 1 GB/s, 500 ns }", "ring(4) { link: 50 GB/s, 500 ns; vector: 1 GB/s }"] {
        let Err(d) = bounds::against(job.schedule(), &machine(slow), &timing) else { panic!("no error") };
        assert_eq!(d.list[0].code, "E990");
        assert_eq!(Failure::from(d).into_parts().1, 101);
    }
}

/// Local work of one algorithm is in no bound. (Staging copies and additions once gave one
/// all-reduce two bounds, one of them above the time of the other algorithm.)
#[test]
fn a_bound_does_not_depend_on_the_algorithm() {
    let machine = "ring(4) { link: 50 GB/s, 500 ns; device: 1 TFLOP/s, 200 GB/s }";
    let mut found = vec![];
    for using in ["one_phase", "bidirectional_ring", "ring", "recursive_doubling", "ring with (overlap: 1)"] {
        let words = ["specs/all_reduce.kb", "-D", "n=1000000", "--topology", machine, "--using", using];
        let job = built(&words);
        let subject = job.built.subject(job.schedule());
        let lower =
            bounds::timed(subject, &job.built.topology, &TimeOptions::default(), &mut bounds::NoObserver)
                .unwrap_or_else(|d| panic!("{using}: {d:#?}"));
        found.push((lower.1.ns, lower.0.ns));
    }
    let best = found.iter().map(|f| f.1).fold(f64::INFINITY, f64::min);
    assert!(found.iter().all(|f| f.0 == found[0].0 && f.0 <= best), "{found:?}");
}

/// Two all-reduces one after another where one direction is slow: the farthest pair of the first is
/// not that of the second, so their latencies do not add up.
#[test]
fn latencies_follow_each_other_by_rank() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("two.kb");
    let text = "topology sys = ring(2)\nmesh m = sys[tp]\n\
                program main(x: f32[1, 2] partial(sum@tp), w: f32[2@tp, 1]) -> f32[1, 1] { \
                let y = all_reduce(x, sum, over: tp); let z: f32[1, 2@tp] = y * y; matmul(z, w) }\n";
    std::fs::write(&path, text).expect("a file");
    let machine = "ring(2) { link: 50 GB/s, 1 ns; link (0)->(1): 50 GB/s, 1000 ns }";
    let job = built(&[&path.to_string_lossy(), "--topology", machine]);
    let (timing, lower) =
        bounds::timed(job.schedule(), &job.built.topology, &TimeOptions::default(), &mut bounds::NoObserver)
            .unwrap_or_else(|d| panic!("{d:#?}"));
    assert!(lower.ns >= 1001.0 && lower.ns <= timing.ns && timing.ns < 1100.0, "{} {}", lower.ns, timing.ns);
    assert_eq!(lower.bottleneck, "latency of the chain of collectives");
}

/// All commands that would time an all-reduce that does nothing report that it is wrong, not an
/// internal error of kbc.
#[test]
fn what_is_wrong_is_proven_before_it_is_timed() {
    let scratch = common::Scratch::new();
    let text = r#"kir 1
module @m
machine "ring(2) { link: 50 GB/s, 500 ns }"
mesh tp 2
schedule calls any
buffer %x : f32[12] hbm input 0 : f32[12] partial(sum@tp)
buffer %y : f32[12] hbm output 0 : f32[12]

region @c local
  role all
    stream main
      copy %y = %x

region @r over tp as (r of 2)
  on v = %y line 12
  promise all_reduce sum
  role all
    stream main
      copy v = v
"#;
    scratch.write("wrong.kir", text.as_bytes());
    for words in [
        &["explain", "path", "wrong.kir"][..],
        &["explain", "links", "wrong.kir"],
        &["plot", "links", "wrong.kir", "-o", "links.svg"],
        &["run", "--no-data", "wrong.kir"],
        &["report", "wrong.kir", "-o", "page.html"],
    ] {
        let ran = kbc(scratch.path(), words, "");
        assert_eq!(ran.code, 1, "{words:?}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("[E34") && !ran.stderr.contains("E990"), "{words:?}: {}", ran.stderr);
    }
}

const PRODUCT: &str = "
program main(y: DT[ROWS, 14336@tp], w: DT[14336@tp, 4096]) -> DT[ROWS@tp, 4096] { matmul(y, w) }
program whole(y: DT[ROWS, 14336@tp], w: DT[14336@tp, 4096]) -> DT[ROWS, 4096] { matmul(y, w) }
program column(x: DT[ROWS@tp, 4096], w: DT[4096, 14336@tp]) -> DT[ROWS, 14336@tp] { matmul(all_gather(x, dim: 0), w) }
";

/// Matmuls in pieces that overlap with their collective: the bound once added memory time and
/// arithmetic time, which streams spend at the same time.
#[test]
fn products_with_collectives_beside_them_are_above_their_bound() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut beside = 0;
    for (dtype, rows) in [("f32", "1024"), ("bf16", "8192")] {
        let path = dir.path().join(format!("{dtype}.kb"));
        std::fs::write(&path, PRODUCT.replace("DT", dtype).replace("ROWS", rows)).expect("a file");
        for p in [2, 4, 8] {
            let machine = format!("full({p}) {{ link: 50 GB/s, 500 ns; device: 100 TFLOP/s, 1.6 TB/s }}");
            for program in ["main", "whole", "column"] {
                let path = path.to_string_lossy();
                let job = built(&[&path, "--program", program, "--topology", &machine]);
                let subject = job.built.subject(job.schedule());
                let (timing, lower) = bounds::timed(
                    subject,
                    &job.built.topology,
                    &TimeOptions::default(),
                    &mut bounds::NoObserver,
                )
                .unwrap_or_else(|d| panic!("{program} of {dtype} on {p}: {d:#?}"));
                assert!(lower.ns > 0.0 && timing.ns >= lower.ns);
                beside += usize::from(job.built.plain.is_some());
            }
        }
    }
    assert!(beside > 4, "{beside} with something beside them");
}

/// The printed partition, evaluated again from the printed text and the machine's links alone.
#[test]
fn the_printed_partition_gives_the_printed_bound() {
    let machine = "mesh(3, 4) { link: 10 GB/s, 1 ns; link (0,1)->(0,2): 1 GB/s, 1 ns; link (0,2)->(0,1): 1 GB/s, 1 ns; \
                   link (1,1)->(1,2): 2 GB/s, 1 ns; link (1,2)->(1,1): 2 GB/s, 1 ns; link (2,0)->(2,1): 3 GB/s, 1 ns }";
    let topo = Topology::parse(machine, FileId(0)).expect("a machine");
    let words = ["explain", "bound", "specs/all_reduce.kb", "-D", "n=1000000", "--topology", machine];
    let ran = kbc(root(), &words, "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let parts: Vec<Vec<String>> = ran
        .stdout
        .lines()
        .filter_map(|l| l.split(" leave {").nth(1))
        .map(|l| l.trim_end_matches('}').split(", ").map(str::to_owned).collect())
        .collect();
    assert!(parts.len() > 1 && parts.iter().map(Vec::len).sum::<usize>() == 12, "{}", ran.stdout);
    let part = |name: &String| parts.iter().position(|p| p.contains(name));
    let between = topo.links().filter(|l| part(&topo.name(l.from)) != part(&topo.name(l.to)));
    let sum: f64 = between.map(|l| l.rate.bandwidth).sum();
    // n is 4 MB.
    let us = 2.0 * (parts.len() - 1) as f64 * 4e6 / sum * 1e6;
    let printed = format!("bandwidth  {:>12}", kbc_compiler::report::amounts::time(us * 1e3));
    assert!(ran.stdout.contains(&printed), "{us} us is not in\n{}", ran.stdout);
    assert!(ran.stdout.contains("exact, by maximum flows"), "{}", ran.stdout);
}

#[test]
fn statistics_and_blame_of_runs() {
    let job = built(&["specs/bench/ring_all_reduce.kb", "-D", "n=80000"]);
    let of = |text: &str| {
        let p = read_perturb(text, FileId(0)).unwrap_or_else(|d| panic!("{d:#?}"));
        perturb::runs(job.schedule(), &job.built.topology, &p).unwrap_or_else(|d| panic!("{d:#?}"))
    };
    let plain = job.time_ns();
    let r =
        of("{runs: 40, seed: 5, links: [{count: 1, slow: 'uniform(1, 9)', latency: 'exponential(1 us)'}]}");
    assert!(r.min_ns >= plain && r.min_ns <= r.median_ns && r.median_ns <= r.p95_ns && r.p95_ns <= r.max_ns);
    assert!(r.median_ns < r.p95_ns && (5..45).contains(&r.worst_seed));
    assert_eq!((r.ranks, r.links), (0, 1));
    assert!(r.blame.len() == 1 && r.blame[0].what.starts_with("link (") && r.blame[0].percent > 10.0);
    // One run with the worst seed is the worst run.
    let text = format!(
        "{{seed: {}, links: [{{count: 1, slow: 'uniform(1, 9)', latency: 'exponential(1 us)'}}]}}",
        r.worst_seed
    );
    let one = of(&text);
    assert_eq!((one.min_ns, one.max_ns), (r.max_ns, r.max_ns));
    // A late start is attributed to its rank, to the nanosecond.
    let late = of("{stragglers: [{ranks: 3, late: 1 ms}]}");
    assert_eq!((late.blame[0].what.as_str(), late.blame[0].ns), ("rank r=3", 1e6));
    assert!(late.max_ns > 1e6 && (late.ranks, late.links) == (1, 0));
    // A link against the direction of the ring carries nothing.
    let idle = of("{links: [{links: (1)->(0), slow: 9}]}");
    assert!(idle.max_ns == plain && idle.blame.is_empty() && idle.links == 1);
}
