//! Tests of `specs/all_reduce.kb` on machines of every shape: numbers, time against its bound, and
//! the choice of `select`.

use crate::cases::all_cases;
use crate::{common, driver};

use common::{Scratch, kbc};
use driver::{built, done, try_build};
use kbc_compiler::report::Report;
use kbc_passes::findings::select::{Selection, Verdict};
use serde_json::Value;
use std::path::{Path, PathBuf};

const SPEC: &str = "specs/all_reduce.kb";

/// The shapes of interest for this program, with their numbers of ranks.
const MACHINES: [(&str, u64); 5] =
    [("ring(4)", 4), ("ring(7)", 7), ("full(8)", 8), ("torus(2,3)", 6), ("mesh(2,3)", 6)];

/// Nothing, fewer elements than ranks, a number that the ranks do not divide, and enough for all.
const SIZES: [u64; 4] = [0, 1, 5, 1000];

/// Checks that an all_reduce of n elements is proven for any call, right on every rank, and never
/// faster than its bound.
fn all_is_well(
    what: &str,
    report: &Report,
    compare: &kbc_compiler::report::CompareReport,
    elements: u64,
    ranks: u64,
) {
    assert_eq!((compare.elements, compare.mismatches), (elements * ranks, 0), "{what}: {compare:?}");
    // Integers that stay exact: the bound is zero, and so is the error.
    assert_eq!(compare.max_err, Some(0.0), "{what}");
    let verified = report.verified.as_ref().expect("proven");
    assert!(verified.ok && verified.meaning == "exact" && verified.calls == "any", "{what}: {verified:?}");
    assert_eq!(report.collectives.len(), 1, "{what}");
    let c = &report.collectives[0];
    assert_eq!(
        (c.operation.as_str(), c.ranks, c.elements, c.bytes),
        ("all_reduce", ranks, elements, 4 * elements)
    );
    let (time, bound) = (report.time_ns.expect("timed"), report.bound_ns.expect("bounded"));
    assert!(time.is_finite() && time >= bound, "{what}: {time} ns, bound {bound} ns");
    assert!(c.time_ns.expect("timed") >= c.bound_ns.expect("bounded"), "{what}");
    if elements == 0 || ranks == 1 {
        assert_eq!((bound, report.percent, c.percent), (0.0, None, None), "{what}");
    } else {
        let percent = report.percent.expect("a bound that is not zero");
        assert!(percent > 0.0 && percent <= 100.0 + 1e-6, "{what}: {percent}");
        assert!((percent - 100.0 * bound / time).abs() < 1e-9, "{what}");
        assert!(c.algbw.expect("bytes in time") > 0.0 && c.busbw.expect("bytes in time") > 0.0, "{what}");
        assert!(!c.bottleneck.as_ref().expect("of a bound").is_empty(), "{what}");
        assert!(!report.critical_path.is_empty(), "{what}");
    }
    assert!(!report.bottleneck.as_ref().expect("always said").is_empty(), "{what}");
}

#[test]
fn all_reduce_on_every_machine_and_size() {
    for (machine, ranks) in MACHINES {
        for n in SIZES {
            let d = done(&[SPEC, "--topology", machine, "-D", &format!("n={n}")]);
            all_is_well(&format!("{machine}, n = {n}"), &d.report, &d.executed.compare, n, ranks);
        }
    }
}

#[test]
fn one_rank_has_nothing_to_do() {
    for machine in ["ring(1)", "full(1)", "torus(1,1)", "mesh(1,1)"] {
        for n in SIZES {
            let d = done(&[SPEC, "--topology", machine, "-D", &format!("n={n}")]);
            all_is_well(&format!("{machine}, n = {n}"), &d.report, &d.executed.compare, n, 1);
            assert_eq!(d.report.time_ns, Some(0.0), "{machine}: no link and no rate of a device");
            assert_eq!(d.report.messages, Some(0), "{machine}");
        }
    }
}

/// Returns the program with the algorithm named, and with a device if one is given.
fn with(algorithm: Option<&str>, device: Option<&str>, name: &str) -> PathBuf {
    let mut text = std::fs::read_to_string(SPEC).expect("the program is there");
    let mut replace = |from: &str, to: String| {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, &to);
    };
    if let Some(a) = algorithm {
        replace("{ x }", format!("{{ all_reduce(x, sum, over: tp, using: {a}) }}"));
    }
    if let Some(d) = device {
        replace("500 ns }", format!("500 ns; device: {d} }}"));
    }
    write(name, &text)
}

fn write(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the folder of the tests can be written");
    path
}

/// Returns what `select` considered for the one collective of the program.
fn considered(file: &str, machine: &str, n: u64) -> Selection {
    // With `explain`, prices of slow candidates are found as well.
    let passes = "infer,place,select{explain=true},expand,allocate,synchronize";
    let n = format!("n={n}");
    let mut job = built(&[file, "--topology", machine, "-D", &n, "--passes", passes]);
    assert_eq!(job.built.select.entries.len(), 1);
    let entry = job.built.select.entries.remove(0);
    assert_eq!(entry.kind.as_str(), "all_reduce");
    entry
}

fn verdict<'a>(entry: &'a Selection, algorithm: &str) -> &'a Verdict {
    &entry.candidates.iter().find(|c| c.algorithm.as_str() == algorithm).expect("in the library").verdict
}

#[test]
fn algorithms_of_two_axes_are_candidates_where_the_axis_has_two_parts() {
    for (machine, _) in MACHINES {
        let entry = considered(SPEC, machine, 1000);
        for algorithm in ["torus2", "mesh2"] {
            let v = verdict(&entry, algorithm);
            let fits = machine.contains(',');
            assert_eq!(matches!(v, Verdict::Priced(_)), fits, "{machine}, {algorithm}: {v:?}");
            assert_eq!(matches!(v, Verdict::Rejected(_)), !fits, "{machine}, {algorithm}: {v:?}");
        }
    }
}

#[test]
fn algorithms_of_two_axes_are_chosen_where_they_are_cheapest() {
    // Between the latency of the diameter alone (one_phase) and two rounds of small blocks
    // (two_phase), two axes are best without trees of the machine's own.
    let entry = considered(SPEC, "mesh(2,3)", 7000);
    let others = entry.candidates.iter().map(|c| c.algorithm.as_str()).filter(|a| *a != "packed");
    assert_eq!(others.take(1).collect::<Vec<_>>(), ["mesh2"]);
    let d = done(&[SPEC, "--topology", "mesh(2,3)", "-D", "n=7000"]);
    assert!(!d.report.collectives[0].asked);
    all_is_well("mesh(2,3), n = 7000", &d.report, &d.executed.compare, 7000, 6);
    // Large vectors without wrap-around links: every link of a row and a column carries its share,
    // and only packed trees are faster.
    let large = considered(SPEC, "mesh(4,4)", 1_000_000);
    let two: Vec<&str> = large.candidates.iter().take(2).map(|c| c.algorithm.as_str()).collect();
    assert_eq!(two, ["packed", "mesh2_all_links"]);
}

#[test]
fn algorithms_of_two_axes_are_right_when_asked_for() {
    for algorithm in ["torus2", "mesh2", "torus2(a: bidirectional_ring, b: two_phase)"] {
        let file = with(Some(algorithm), None, "two_axes.kb");
        for machine in ["torus(2,3)", "mesh(2,3)", "torus(3,2)", "mesh(1,6)"] {
            for n in SIZES {
                let d =
                    done(&[file.to_str().expect("UTF-8"), "--topology", machine, "-D", &format!("n={n}")]);
                let what = format!("{algorithm} on {machine}, n = {n}");
                all_is_well(&what, &d.report, &d.executed.compare, n, 6);
                assert!(d.report.collectives[0].asked, "{what}");
            }
        }
    }
    let file = with(Some("torus2"), None, "two_axes_on_one.kb");
    assert!(try_build(&[file.to_str().expect("UTF-8"), "--topology", "ring(6)"]).is_err());
}

#[test]
fn a_users_algorithm_gets_its_time() {
    // The file beside the specs: the user's own algorithm, and what `select` chooses for the other
    // sum.
    let d = done(&["specs/my_ring.kb"]);
    assert_eq!((d.executed.compare.elements, d.executed.compare.mismatches), (2 * 5 * 1000, 0));
    let [mine, other] = &d.report.collectives[..] else { panic!("two collectives") };
    assert_eq!((mine.algorithm.as_str(), mine.asked, other.asked), ("loop_ring", true, false));
    assert!(mine.time_ns.expect("timed") >= mine.bound_ns.expect("bounded") && mine.percent.is_some());

    // Alone on the machine, it takes the time of its rounds: 2 (p - 1) times a link's latency and a
    // block's bytes.
    let own = std::fs::read_to_string("specs/algorithms/loop_ring.kb").expect("the algorithm is there");
    let spec = std::fs::read_to_string(with(Some("loop_ring"), None, "own_base.kb")).expect("just written");
    let time = |name: &str, algorithm: &str, p: u64, n: u64| {
        let file = write(name, &format!("{spec}\n{algorithm}"));
        let d = done(&[
            file.to_str().expect("UTF-8"),
            "--topology",
            &format!("ring({p})"),
            "-D",
            &format!("n={n}"),
        ]);
        all_is_well(name, &d.report, &d.executed.compare, n, p);
        d.report.time_ns.expect("timed")
    };
    for (p, n) in [(2, 1000), (4, 1000), (5, 100_000), (8, 4096)] {
        let block = 4.0 * (n / p) as f64 / 50.0;
        let expected = 2.0 * (p - 1) as f64 * (500.0 + block);
        let got = time("own.kb", &own, p, n);
        assert!(
            (got - expected).abs() < 1e-6 * expected,
            "{p} ranks, {n} elements: {got} ns, by hand {expected} ns"
        );
    }
    // A change of the text changes the time: one round instead of the last p - 1, or vice versa.
    let short = own
        .replace("for s in 0..p-1 { put [r + 1 - s] -> r + 1 }", "each k in 1..p { put [r + 1] -> r + k }");
    assert_ne!(short, own);
    let wrong_way = own
        .replace("put [r - s] -> r + 1 reduce", "put [r + s] -> r - 1 reduce")
        .replace("put [r + 1 - s] -> r + 1 }", "put [r - 1 + s] -> r - 1 }");
    assert_ne!(wrong_way, own);
    let (a, b, c) =
        (time("own.kb", &own, 4, 1000), time("own.kb", &wrong_way, 4, 1000), time("own.kb", &short, 4, 1000));
    assert!((a - b).abs() < 1e-6 * a, "the other way round a ring is as far: {a} ns, {b} ns");
    assert!(c < a - 400.0, "three rounds replaced by one of two hops: {a} ns, {c} ns");
}

/// Returns the simulated times of all legal algorithms on a machine, with the number of streams of
/// each, and the one that `select` chooses; `own` names the files of the test.
fn times(machine: &str, n: u64, device: Option<&str>, own: &str) -> (Vec<(String, f64, usize)>, String) {
    let plain = with(None, device, &format!("{own}.kb"));
    let entry = considered(plain.to_str().expect("UTF-8"), machine, n);
    let priced = entry.candidates.iter().filter(|c| matches!(c.verdict, Verdict::Priced(_)));
    let mut out = vec![];
    for c in priced {
        let file = with(Some(&c.call()), device, &format!("{own}_one.kb"));
        let job = built(&[file.to_str().expect("UTF-8"), "--topology", machine, "-D", &format!("n={n}")]);
        let regions = job.schedule().regions.iter();
        let streams = regions.flat_map(|r| &r.roles).map(|r| r.streams.len()).max().unwrap_or(1);
        out.push((c.call(), job.time_ns(), streams));
    }
    (out, entry.call())
}

/// The choice of the cost model, which sees rounds, against the time of every finished schedule.
#[test]
fn select_is_within_5_percent_of_the_best() {
    let limited = Some("100 TFLOP/s, 1.6 TB/s");
    let mut chosen = std::collections::BTreeSet::new();
    let machines = MACHINES.into_iter().chain([("mesh(3,3)", 9), ("mesh(4,4)", 16)]);
    let sizes =
        [(1, None), (1000, None), (7000, None), (8192, limited), (30_000, limited), (1_000_000, None)];
    for (i, (machine, _)) in machines.enumerate() {
        for (j, (n, device)) in sizes.into_iter().enumerate() {
            if !all_cases() && (i + j) % 2 > 0 {
                continue;
            }
            let (all, took) = times(machine, n, device, "select");
            assert!(all.len() >= 7, "{machine}: {all:?}");
            let best = all.iter().map(|a| a.1).fold(f64::INFINITY, f64::min);
            let own = all.iter().find(|a| a.0 == took).expect("one of the candidates").1;
            assert!(own <= 1.05 * best, "{machine}, n = {n}, {device:?}: {took} takes {own} ns, of {all:?}");
            chosen.insert(took);
        }
    }
    // A grid on which one algorithm is always the best would show nothing.
    assert!(chosen.len() >= 5, "{chosen:?}");
}

/// Compositions, options and all-reduces of matched trees in two phases are taken where they gain 5
/// %, and are proven like everything else.
#[test]
fn the_search_finds_faster_schedules() {
    let slow = "full(8) { link: 50 GB/s, 500 ns; device: 100 TFLOP/s, 400 GB/s }";
    for (machine, n, taken) in [
        ("hierarchy(full(8), switch(4))", 1024, "a: one_phase"),
        ("torus(4, 4)", 1024, "one_phase"),
        (slow, 1 << 18, "trees: "),
        ("torus(2, 8)", 1 << 18, "greedy: "),
    ] {
        let n = format!("n={n}");
        let run = |more: &[&str]| {
            let words = ["specs/all_reduce.kb", "--topology", machine, "-D", &n];
            let done = done(&[&words[..], more].concat());
            let c = &done.report.collectives[0];
            assert!(done.report.verified.as_ref().expect("proven").ok, "{machine}");
            // Lanes also overlap with the copies around a collective.
            (c.algorithm.clone(), done.report.time_ns.expect("a time"))
        };
        let (searched, plain) = (run(&[]), run(&["--effort", "0"]));
        assert!(searched.0.contains(taken), "{machine}: {searched:?}");
        assert!(searched.1 < 0.95 * plain.1, "{machine}: {searched:?}, {plain:?}");
    }
}

/// On tori and meshes, the algorithms over all links are chosen for large data and reach the bounds
/// of all_gather and reduce_scatter.
#[test]
fn gathers_and_scatters_reach_their_bounds_on_grids() {
    for (machine, ranks, algorithm, least) in [
        ("torus(4, 4)", 16, "torus2_all_links", [99.0, 99.0]),
        // The shares of a mesh are those of a torus if all sides of the torus have two links.
        ("torus(3, 5)", 15, "2_weighted", [99.0, 92.0]),
        ("torus(4, 2)", 8, "torus2_weighted", [99.0, 94.0]),
        ("torus(3, 3, 3)", 27, "torus3_all_links", [99.0, 99.0]),
        ("mesh(4, 4)", 16, "mesh2_all_links", [99.0, 99.0]),
        ("mesh(2, 7)", 14, "mesh2_weighted", [99.0, 89.0]),
        ("mesh(3, 3, 3)", 27, "mesh3_all_links", [99.0, 99.0]),
    ] {
        let topology = format!("{machine} {{ link: 1 GB/s, 100 ns }}");
        // No number of parts divides this one.
        let n = 1_000_003;
        let files = [("specs/all_gather.kb", ranks), ("specs/reduce_scatter.kb", 1)];
        for ((file, copies), least) in files.into_iter().zip(least) {
            let d = done(&[file, "--topology", &topology, "-D", &format!("n={n}")]);
            let what = format!("{file} on {machine}");
            let c = &d.report.collectives[0];
            // Packed trees may be faster where sides are unequal.
            let packed = c.algorithm.starts_with("packed(") && algorithm.contains("weighted");
            assert!(packed || c.algorithm.contains(algorithm), "{what}: {}", c.algorithm);
            assert!(c.percent.expect("a bound that is not zero") > least, "{what}: {:?}", c.percent);
            assert!(d.report.verified.as_ref().expect("proven").ok, "{what}");
            let compare = &d.executed.compare;
            assert_eq!((compare.elements, compare.mismatches), (copies * n, 0), "{what}");
        }
    }
}

/// Boxes that are linked by slower links are found in a list of links, and large data crosses them
/// near the bound.
#[test]
fn boxes_of_a_list_of_links_are_found() {
    let (gather, reduce) = ("specs/all_gather.kb", "specs/all_reduce.kb");
    for (file, machine, n, algorithm, least) in [
        (gather, "a100_4x8", 1_000_003, "rails_flat(g: 8", 80.0),
        (reduce, "a100_2x8", 1_000_003, "rails_flat(g: 8", 80.0),
        (gather, "dragonfly_5x4x1", 300_007, "rails_flat", 90.0),
    ] {
        let topology = format!("specs/corpus/{machine}.yaml");
        let d = done(&[file, "--topology", &topology, "-D", &format!("n={n}")]);
        let c = &d.report.collectives[0];
        assert!(c.algorithm.starts_with(algorithm), "{file} on {machine}: {}", c.algorithm);
        assert!(c.percent.expect("a bound that is not zero") > least, "{file} on {machine}: {:?}", c.percent);
        assert!(d.report.verified.as_ref().expect("proven").ok, "{file} on {machine}");
        assert_eq!(d.executed.compare.mismatches, 0, "{file} on {machine}");
    }
}

/// On a machine that describes its cores, the model of rounds accounts for them: its estimate for
/// every algorithm is near the time of its schedule, and its choice is near the best.
#[test]
fn the_model_knows_cores() {
    let a2 = "specs/topologies/ascend_a2.yaml";
    for (machine, sizes) in [
        (a2, [100, 10_000, 1_000_000]),
        (
            "ring(4) { link: 28 GB/s, 100 ns; sdma: 21 GB/s, 2.5 us; engine: sdma; notify: 700 ns }",
            [100, 10_000, 1_000_000],
        ),
        (
            "mesh(2, 3) { link: 28 GB/s, 100 ns; core_get: 4 KiB, 730 ns; core_put: 4 KiB, 730 ns; core_memory: 5 GB/s }",
            [100, 10_000, 1_000_000],
        ),
    ] {
        for n in sizes {
            let (all, took) = times(machine, n, None, "cores");
            let best = all.iter().map(|a| a.1).fold(f64::INFINITY, f64::min);
            let own = all.iter().find(|a| a.0 == took).expect("one of the candidates").1;
            assert!(own <= 1.05 * best, "{machine}, n = {n}: {took} takes {own} ns, of {all:?}");
            let plain = with(None, None, "cores.kb");
            let entry = considered(plain.to_str().expect("UTF-8"), machine, n);
            for c in &entry.candidates {
                // The model knows no lanes; what the search finds is always simulated.
                let Verdict::Priced(p) = &c.verdict else { continue };
                if c.is_searched() {
                    continue;
                }
                let (_, ns, streams) = all.iter().find(|a| a.0 == c.call()).expect("timed");
                // The model assumes one core per rank: an algorithm on several streams may be
                // faster by that factor.
                // An estimate that is marked as a low one need not be near.
                let least = if p.low { 0.0 } else { 0.6 };
                let (off, most) = (p.ns / ns, 1.45 * *streams as f64);
                assert!(
                    (least..=most).contains(&off),
                    "{machine}, n = {n}: {} {} of {ns}",
                    c.algorithm,
                    p.ns
                );
            }
        }
    }
}

/// If cores read from peers at another rate than they write to them, push or pull is chosen
/// together with the algorithm.
#[test]
fn push_and_pull_are_chosen_with_the_algorithm() {
    for cores in [
        "core_put: 4 KiB, 730 ns",
        "core_get: 4 KiB, 730 ns",
        "core_get: 4 KiB, 300 ns; core_put: 4 KiB, 900 ns",
    ] {
        let machine = format!("mesh(2, 3) {{ link: 28 GB/s, 100 ns; {cores}; core_memory: 5 GB/s }}");
        for n in [100, 10_000, 1_000_000] {
            let (all, took) = times(&machine, n, None, "transfers");
            let best = all.iter().map(|a| a.1).fold(f64::INFINITY, f64::min);
            let own = all.iter().find(|a| a.0 == took).expect("one of the candidates").1;
            assert!(own <= 1.05 * best, "{machine}, n = {n}: {took} takes {own} ns, of {all:?}");
        }
    }
}

/// Every shipped machine file can be read, is a machine with at least two ranks, and runs an
/// all-reduce that is proven, right and not faster than its bound (TOPO-1, TOPO-2).
#[test]
fn every_shipped_machine_works() {
    let mut files: Vec<PathBuf> = std::fs::read_dir("specs/topologies")
        .expect("the folder")
        .map(|e| e.expect("an entry").path())
        .collect();
    files.sort();
    assert!(files.len() >= 12, "{files:?}");
    for file in files {
        let name = file.to_str().expect("UTF-8");
        let d = done(&[SPEC, "--topology", name, "-D", "n=1000"]);
        let ranks = d.report.collectives[0].ranks;
        assert!(ranks >= 4, "{name}: {ranks}");
        let text = std::fs::read_to_string(&file).expect("a text");
        let read = kbc_frontend::machine::read(&text, kbc_diag::FileId(0)).expect("it is right");
        assert_eq!(read.warnings.list, [], "{name}");
        assert_eq!((d.executed.compare.elements, d.executed.compare.mismatches), (1000 * ranks, 0), "{name}");
        assert!(d.report.verified.as_ref().expect("proven").ok, "{name}");
        let (time, bound) = (d.report.time_ns.expect("timed"), d.report.bound_ns.expect("bounded"));
        assert!(bound > 0.0 && time >= bound, "{name}: {time} ns, bound {bound} ns");
    }
}

/// A program takes a kernbench file with axes sip, cube and pe, and may state which PEs are ranks.
#[test]
fn a_program_names_sips_cubes_and_pes() {
    let topology = Path::new("specs/topologies/kernbench.yaml").canonicalize().expect("it is there");
    let path = topology.to_str().expect("UTF-8");
    for (settings, mesh, axes) in [
        ("ranks: cube", "sip, cube", vec![("sip", 6), ("cube", 16)]),
        ("ranks: sip", "sip", vec![("sip", 6)]),
        ("ranks: pe", "sip, cube, pe", vec![("sip", 6), ("cube", 16), ("pe", 8)]),
        (
            "ranks: cube",
            "sip_y, sip_x, cube_y, cube_x",
            vec![("sip_y", 2), ("sip_x", 3), ("cube_y", 4), ("cube_x", 4)],
        ),
        ("ranks: cube", "sy: 2, sx: 3, c: 16", vec![("sy", 2), ("sx", 3), ("c", 16)]),
        ("ranks: pe, 7", "pe", vec![("pe", 7)]),
    ] {
        let last = axes.last().expect("an axis").0;
        let text = format!(
            "topology sys = \"{path}\" {{ {settings} }}\nmesh m = sys[{mesh}]\n\
             program p(x: f32[8] partial(sum@{last})) -> f32[8] {{ x }}\n"
        );
        let job = built(&[write("packages.kb", &text).to_str().expect("UTF-8")]);
        let found: Vec<(String, u64)> =
            job.built.module.mesh.axes.iter().map(|a| (a.name.to_string(), a.size)).collect();
        let found: Vec<(&str, u64)> = found.iter().map(|(n, k)| (n.as_str(), *k)).collect();
        assert_eq!(found, axes, "{settings} {mesh}");
    }
}

/// Messages that choose between equal links use both spines of a tree whose routes pass one. Packed
/// trees name the relays that their messages pass, so they stay as planned.
#[test]
fn adaptive_routes_are_timed_and_chosen_for() {
    let s = Scratch::new();
    let file = |name: &str| common::root().join(name).to_str().expect("a path").to_owned();
    let text = std::fs::read_to_string(file("specs/topologies/routes.yaml")).expect("a text");
    let plain: Vec<&str> =
        text.lines().filter(|l| !l.starts_with("route:") && !l.starts_with("  - ")).collect();
    for routing in ["single", "adaptive"] {
        let text = format!("{}\nrouting: {routing}\n", plain.join("\n"));
        s.write(&format!("{routing}.yaml"), text.as_bytes());
    }
    let ran = |words: &[&str]| {
        let ran = kbc(s.path(), words, "");
        assert_eq!(ran.code, 0, "{words:?}: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    };
    let spec = file("specs/all_gather.kb");
    let run = |machine: &str, more: &[&str]| {
        let words = ["run", &spec, "--topology", machine, "--no-data", "--format", "json"];
        serde_json::from_str::<Value>(&ran(&[&words[..], more].concat())).expect("JSON")
    };
    let percent = |report: &Value| report["percent"].as_f64().expect("a bound");
    let direct = ["--using", "direct", "-D", "n=67108864"];
    let [single, adaptive] = ["single.yaml", "adaptive.yaml"].map(|m| run(m, &direct));
    assert_eq!(single["bound_ns"], adaptive["bound_ns"]);
    assert!(percent(&adaptive) > 1.5 * percent(&single), "{single} {adaptive}");
    assert_eq!(adaptive["verified"]["ok"], true);
    assert!(adaptive["machine"].as_str().expect("a machine").contains("routing: adaptive"));
    let chosen = run("adaptive.yaml", &["-D", "n=67108864"]);
    assert!(percent(&chosen) > 95.0, "{chosen}");
    let packed = run("adaptive.yaml", &["-D", "n=67108864", "--using", "packed"]);
    assert!(percent(&packed) > 95.0, "{packed}");
    // The table of links shows the path that messages took.
    let links = |machine: &str| {
        let using = ["explain", "links", &spec, "--using", "direct", "-D", "n=4000", "--topology"];
        ran(&[&using[..], &[machine]].concat())
    };
    assert!(links("adaptive.yaml").contains("#0->#3") && !links("single.yaml").contains("#0->#3"));
    let small = ran(&["run", &spec, "--topology", "adaptive.yaml", "-D", "n=4000"]);
    assert!(small.contains("out: all 16000 elements on all ranks agree"), "{small}");
}

/// Stated routes are timed, chosen for and shown, the text of a schedule keeps them, and a failure
/// drops those that pass what has failed.
#[test]
fn stated_routes_are_timed_chosen_and_kept() {
    let s = Scratch::new();
    let file = |name: &str| common::root().join(name).to_str().expect("a path").to_owned();
    let (spec, machine) = (file("specs/all_gather.kb"), file("specs/topologies/routes.yaml"));
    let text = std::fs::read_to_string(&machine).expect("a text");
    let plain = text.lines().filter(|l| !l.starts_with("route:") && !l.starts_with("  - "));
    s.write("plain.yaml", plain.collect::<Vec<_>>().join("\n").as_bytes());
    let ran = |words: &[&str]| {
        let ran = kbc(s.path(), words, "");
        assert_eq!(ran.code, 0, "{words:?}: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    };
    let json = |words: &[&str]| serde_json::from_str::<Value>(&ran(words)).expect("JSON");
    let run = |file: &str, machine: &str, n: &str| {
        json(&["run", file, "--topology", machine, "-D", n, "--no-data", "--format", "json"])
    };
    // Half of the pairs between the leaves pass the second spine.
    let sent = |machine: &str| {
        let words =
            ["run", &spec, "--topology", machine, "-D", "n=67108864", "--no-data", "--format", "json"];
        json(&[&words[..], &["--using", "direct"]].concat())
    };
    let [stated, unstated] = [&machine[..], "plain.yaml"].map(sent);
    assert_eq!(stated["bound_ns"], unstated["bound_ns"]);
    let percent = |report: &Value| report["percent"].as_f64().expect("a bound");
    assert!(percent(&stated) > 1.5 * percent(&unstated), "{stated} {unstated}");
    assert_eq!(stated["verified"]["ok"], true);
    // What is chosen uses both spines.
    let chosen = run(&spec, &machine, "n=67108864");
    assert!(percent(&chosen) > 95.0, "{chosen}");
    // The text of a schedule, and the machine of a report, keep the routes.
    let of_report = stated["machine"].as_str().expect("a machine");
    assert!(of_report.contains("; route: (1)->#0->#3->#1->(2); "), "{of_report}");
    ran(&["compile", &spec, "--topology", &machine, "-D", "n=4000", "--emit", "kir", "-o", "made.kir"]);
    let again = json(&["run", "made.kir", "--format", "json"]);
    let small = run(&spec, &machine, "n=4000");
    assert_eq!((&again["time_ns"], &again["machine"]), (&small["time_ns"], &small["machine"]));
    // Links, page and picture show the path that messages took.
    let links = |machine: &str| {
        let using = ["explain", "links", &spec, "--using", "direct", "-D", "n=4000", "--topology"];
        ran(&[&using[..], &[machine]].concat())
    };
    assert!(
        links(&machine).contains("#0->#3") && !links("plain.yaml").contains("#0->#3"),
        "{}",
        links(&machine)
    );
    ran(&["report", &spec, "--topology", &machine, "-D", "n=4000", "-o", "page.html"]);
    let page = std::fs::read_to_string(s.path().join("page.html")).expect("a text");
    assert!(page.contains("route: (1)-&gt;#0-&gt;#3") || page.contains("route: (1)->#0->#3"));
    // A failure drops the routes that pass it.
    let found =
        json(&["repair", &spec, "--topology", &machine, "-D", "n=4000", "--fail", "#3", "--format", "json"]);
    assert_eq!(found["routes_lost"].as_array().map(Vec::len), Some(4), "{found}");
    assert!(!found["machine"].as_str().expect("a machine").contains("route"), "{found}");
}

#[test]
fn switches_that_add_are_chosen_and_reach_their_bound() {
    let s = Scratch::new();
    let spec = common::root().join("specs/in_network.kb").to_str().expect("a path").to_owned();
    let text = std::fs::read_to_string(&spec).expect("a text");
    s.write("free.kb", text.replace(", using: two_phase with (transfer: switch)", "").as_bytes());
    let ran = |words: &[&str]| {
        let ran = kbc(s.path(), words, "");
        assert_eq!(ran.code, 0, "{words:?}: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    };
    let run = |file: &str, more: &[&str]| {
        let words = ["run", file, "-D", "n=8388608", "--no-data", "--format", "json"];
        serde_json::from_str::<Value>(&ran(&[&words[..], more].concat())).expect("JSON")
    };
    let number = |report: &Value, key: &str| report[key].as_f64().expect("a number");
    let forward = run("free.kb", &["--set", "switch: forward"]);
    let adds = run("free.kb", &[]);
    // The bound is n / B in place of 2 (p - 1) / p n / B.
    let bounds = number(&forward, "bound_ns") / number(&adds, "bound_ns");
    assert!((bounds - 1.75).abs() < 1e-9, "{bounds}");
    assert!(number(&adds, "time_ns") < 0.75 * number(&forward, "time_ns"), "{adds} {forward}");
    assert_eq!(adds["verified"]["ok"], true);
    let chosen = ran(&["explain", "select", "free.kb", "-D", "n=8388608"]);
    assert!(chosen.contains("two_phase with (pipeline: "), "{chosen}");
    assert!(chosen.contains("added by switches: push takes"), "{chosen}");
    // One small vector is faster without the round trip of requests.
    let small = ran(&["explain", "select", "free.kb", "-D", "n=64"]);
    assert!(small.contains("written by the senders: push takes"), "{small}");
    // A broadcast passes the links of the root once where switches copy.
    let text = "param n = 4\ntopology sys = switch(8) { link: 450 GB/s, 500 ns }\n\
                program copied(v: f32[n] only(0@tp)) -> f32[n] { broadcast(v) }\n";
    s.write("broadcast.kb", text.as_bytes());
    let broadcast = |switch: &str| {
        run("broadcast.kb", &["--set", &format!("switch: {switch}")])["collectives"][0]["algorithm"]
            .to_string()
    };
    assert!(broadcast("multicast").contains("direct") && !broadcast("forward").contains("direct"));
    // The order of additions is that of the switch: the own value comes last.
    let order = ran(&["explain", "order", &spec, "-D", "n=8"]);
    assert!(order.contains("r7 + r6 + .. + r0: elements 0..1"), "{order}");
    // The page and the trace are made, and kernels say why they cannot.
    ran(&["run", &spec, "-D", "n=64", "--emit", "trace=t.pftrace"]);
    ran(&["report", &spec, "-D", "n=64", "-o", "page.html"]);
    for target in ["a2a3", "host"] {
        let refused = kbc(s.path(), &["compile", &spec, "--target", target, "-o", "out"], "");
        assert_eq!(refused.code, 1, "{}", refused.stdout);
        assert!(refused.stderr.contains("E470") && refused.stderr.contains("combines"), "{}", refused.stderr);
    }
}
