//! Tests of `kbc synth`: what is written is canonical, proven and right, reaches the rate that it
//! states, and the proof of the rate holds.

use crate::cases::all_cases;
use crate::common;

use common::{Scratch, kbc};
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) const COLLECTIVES: [&str; 6] =
    ["all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce", "all_to_all"];

/// Sizes that pieces do not divide, and fewer elements than pieces. Blocks of an all-to-all must
/// have equal length.
fn sizes(collective: &str) -> [&'static str; 2] {
    if collective == "all_to_all" { ["1440", "720"] } else { ["1009", "3"] }
}

/// Synthesises, and returns the JSON of the command. The file is `made.kb`.
pub(crate) fn made(s: &Scratch, machine: &str, collective: &str, more: &[&str]) -> Value {
    let words = [&["synth", machine, collective, "-o", "made.kb", "--format", "json"], more].concat();
    let ran = kbc(s.path(), &words, "");
    assert_eq!(ran.code, 0, "{machine} {collective}: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// Runs `made.kb` and returns the report.
pub(crate) fn run(s: &Scratch, more: &[&str]) -> Value {
    let ran = kbc(s.path(), &[&["run", "made.kb", "--format", "json"], more].concat(), "");
    assert_eq!(ran.code, 0, "{more:?}: {}{}", ran.stdout, ran.stderr);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// Four devices with links of their own: unequal, and one way.
const OWN_LINKS: &str = "{devices: 4, links: {'(0)<->(1)': '75 GB/s, 500 ns', '(1)<->(2)': '50 GB/s, 500 ns', \
     '(2)<->(3)': '50 GB/s, 1 us', '(3)<->(0)': '33.3 GB/s, 500 ns', '(2)->(0)': '25 GB/s, 500 ns'}}";

#[test]
fn every_collective_is_proven_and_right_on_every_kind_of_machine() {
    let s = Scratch::new();
    let machines = [
        "ring(5)",
        "mesh(2, 3)",
        "torus(3, 3)",
        "hypercube(3)",
        "full(4)",
        "switch(4)",
        "tree(2, 2)",
        "hierarchy(full(2), switch(3))",
        OWN_LINKS,
    ];
    for (i, machine) in machines.into_iter().enumerate() {
        for (j, collective) in COLLECTIVES.into_iter().enumerate() {
            let more: &[&str] = match collective {
                "broadcast" => &["--root", "1"],
                "all_to_all" => &["--pieces", "2"],
                _ => &[],
            };
            made(&s, machine, collective, more);
            let fmt = kbc(s.path(), &["fmt", "--check", "made.kb"], "");
            assert_eq!(fmt.code, 0, "{machine} {collective}: {}", fmt.stdout);
            for (k, n) in sizes(collective).into_iter().enumerate() {
                if !all_cases() && (i + j + k) % 2 > 0 {
                    continue;
                }
                let report = run(&s, &["-D", &format!("n={n}")]);
                assert_eq!(report["verified"]["ok"], true, "{machine} {collective}: {report}");
                assert_eq!(report["verified"]["calls"], "any", "{machine} {collective}");
                assert_eq!(report["compare"]["mismatches"], 0, "{machine} {collective}");
                assert!(report["compare"]["elements"].as_u64().is_some_and(|e| e > 0));
            }
        }
    }
}

/// Percent of the bound at 256 MiB, rounded down. Before, `select` reached 25 to 75 on these
/// machines.
#[test]
fn rates_are_reached() {
    let s = Scratch::new();
    let least = [
        ("mesh(3, 3)", "all_gather", 99.0),
        ("mesh(4, 4)", "all_gather", 99.0),
        ("mesh(4, 4)", "reduce_scatter", 99.0),
        ("mesh(4, 4)", "all_reduce", 91.0),
        ("hypercube(4)", "all_reduce", 86.0),
        ("hierarchy(full(8), switch(4))", "all_gather", 87.0),
    ];
    for (machine, collective, percent) in least {
        made(&s, machine, collective, &["--bytes", "268435456"]);
        let report = run(&s, &["-D", "n=67108864", "--no-data", "--no-proof"]);
        let reached = report["percent"].as_f64().expect("a bound");
        assert!(reached >= percent, "{machine} {collective}: {reached}");
    }
}

/// A rank waits for what its next message needs, and for nothing else: the schedule takes the time
/// that was planned. If ranks take messages in another order than they need them, the first two
/// take 8 % longer.
#[test]
fn schedules_take_the_time_of_their_plans() {
    let s = Scratch::new();
    let cases = [
        ("mesh(3, 3)", "all_reduce", "4"),
        ("mesh(2, 4)", "all_reduce", "16"),
        ("mesh(2, 2, 3)", "all_reduce", "4"),
        ("torus(3, 3)", "reduce_scatter", "4"),
        ("mesh(3, 3)", "all_gather", "2"),
        ("hypercube(3)", "broadcast", "8"),
    ];
    for (machine, collective, pieces) in cases {
        let more = ["--method", "trees", "--pieces", pieces, "--bytes", "268435456"];
        let plan = made(&s, machine, collective, &more);
        let phases = plan["phases"].as_array().expect("phases");
        let planned: f64 = phases.iter().map(|p| p["planned_ns"].as_f64().expect("a time")).sum();
        let report = run(&s, &["-D", "n=67108864", "--no-data", "--no-proof"]);
        let took = report["time_ns"].as_f64().expect("a time");
        assert!((took / planned - 1.0).abs() < 0.001, "{machine} {collective}: {took}, planned {planned}");
    }
}

/// The proof of the rate, evaluated on the links of a mesh without kbc's model of machines.
#[test]
fn the_proof_of_a_rate_holds() {
    let s = Scratch::new();
    let (w, h) = (3, 4);
    let mut links: Vec<(usize, usize)> = vec![];
    for v in 0..w * h {
        let ahead = [(v % h + 1 < h).then_some(v + 1), (v + h < w * h).then_some(v + h)];
        links.extend(ahead.into_iter().flatten().flat_map(|u| [(v, u), (u, v)]));
    }
    let whole = |v: &Value| v.as_str().expect("a number").parse::<u128>().expect("a whole number");
    let nodes = |v: &Value| -> Vec<usize> {
        v.as_array().expect("a list").iter().map(|n| n.as_u64().expect("a node") as usize).collect()
    };

    let found = made(&s, "mesh(3, 4)", "all_gather", &[]);
    let phase = &found["phases"][0];
    let (rate, scale) = (&phase["rate"], &phase["scale"]);
    let cut = nodes(&phase["proof"]["cut"]);
    let leaving = links.iter().filter(|l| cut.contains(&l.0) && !cut.contains(&l.1)).count() as u128;
    assert!(cut.len() < w * h && leaving > 0);
    // The ranks inside send rate * |cut| over the links that leave: no rate is larger.
    assert_eq!(whole(&rate[0]) * cut.len() as u128, whole(&rate[1]) * leaving);
    // The trees send that much: trees per root and unit of time.
    let mut per_root: BTreeMap<usize, u128> = BTreeMap::new();
    let mut loads: BTreeMap<(usize, usize), u128> = BTreeMap::new();
    for tree in phase["trees"].as_array().expect("trees") {
        let (root, trees) = (tree["root"].as_u64().expect("a root") as usize, whole(&tree["trees"]));
        *per_root.entry(root).or_insert(0) += trees;
        let mut reached = vec![root];
        for edge in tree["edges"].as_array().expect("edges") {
            let [from, to] = ["from", "to"].map(|end| edge[end].as_u64().expect("a node") as usize);
            assert!(reached.contains(&from) && !reached.contains(&to), "a tree from the root outwards");
            reached.push(to);
            *loads.entry((from, to)).or_insert(0) += trees;
        }
        assert_eq!(reached.len(), w * h, "every tree spans all ranks");
    }
    assert!(per_root.len() == w * h && per_root.values().all(|k| k == &per_root[&0]));
    assert_eq!(per_root[&0] * whole(&scale[1]) * whole(&rate[1]), whole(&rate[0]) * whole(&scale[0]));
    for (link, load) in &loads {
        assert!(links.contains(link), "a link of the mesh");
        assert!(load * whole(&scale[1]) <= whole(&scale[0]), "no link carries more than it can");
    }

    let found = made(&s, "mesh(3, 4)", "all_reduce", &[]);
    let phase = &found["phases"][0];
    let parts: Vec<Vec<usize>> =
        phase["proof"]["parts"].as_array().expect("parts").iter().map(nodes).collect();
    let part = |v: usize| parts.iter().position(|p| p.contains(&v)).expect("every rank is in a part");
    let crossing = links.iter().filter(|l| l.0 < l.1 && part(l.0) != part(l.1)).count() as u128;
    // A spanning tree crosses between parts once less than there are parts.
    let rate = &phase["rate"];
    assert_eq!(whole(&rate[0]) * (parts.len() as u128 - 1), whole(&rate[1]) * crossing);
}

/// The bound and the rate of an all-to-all, evaluated on the links of a mesh without kbc's model of
/// machines.
#[test]
fn the_bound_of_an_all_to_all_holds() {
    let s = Scratch::new();
    let (w, h) = (3, 4);
    let ranks = w * h;
    let found = made(&s, "mesh(3, 4)", "all_to_all", &[]);
    let whole = |v: &Value| v.as_str().expect("a number").parse::<u128>().expect("a whole number");
    let node = |v: &Value| v.as_u64().expect("a node") as usize;
    let mut edges: BTreeMap<(usize, usize), (u128, u128)> = BTreeMap::new();
    for e in found["edges"].as_array().expect("edges") {
        let (from, to) = (node(&e[0]), node(&e[1]));
        assert!(
            from.abs_diff(to) == h || (from.abs_diff(to) == 1 && from / h == to / h),
            "a link of the mesh"
        );
        // All links are alike, so the unit is the rate of one.
        assert_eq!(whole(&e[2]), 1);
        edges.insert((from, to), (whole(&e[3]), whole(&e[4])));
    }
    assert_eq!(edges.len(), 2 * (w * (h - 1) + h * (w - 1)));
    // Distances in the lengths, by repeated relaxation.
    let far = u128::MAX / 4;
    let mut distances = 0;
    for start in 0..ranks {
        let mut at = vec![far; ranks];
        at[start] = 0;
        for _ in 0..ranks {
            for ((a, b), (_, length)) in &edges {
                at[*b] = at[*b].min(at[*a] + length);
            }
        }
        distances += at.iter().sum::<u128>();
    }
    assert_eq!(distances, whole(&found["demand_length"]));
    let capacity: u128 = edges.values().map(|e| e.1).sum();
    assert_eq!(capacity, whole(&found["capacity_length"]));
    let (rate, bound) = (&found["rate"], &found["bound"]);
    assert_eq!(whole(&bound[0]) * distances, whole(&bound[1]) * capacity);
    // The paths carry the rate, and it is near the bound.
    let shares = whole(&found["shares"]);
    let mut loads: BTreeMap<(usize, usize), u128> = BTreeMap::new();
    for pair in found["pairs"].as_array().expect("pairs") {
        let mut sent = 0;
        for path in pair["paths"].as_array().expect("paths") {
            let mut at = node(&pair["source"]);
            for hop in path["hops"].as_array().expect("hops") {
                let hop: Vec<usize> = hop.as_array().expect("nodes").iter().map(node).collect();
                assert!(hop.len() == 2 && hop[0] == at);
                at = hop[1];
                *loads.entry((hop[0], hop[1])).or_insert(0) += whole(&path["shares"]);
            }
            assert_eq!(at, node(&pair["destination"]));
            sent += whole(&path["shares"]);
        }
        assert_eq!(sent, shares);
    }
    assert!(loads.iter().all(|(edge, load)| *load == edges[edge].0));
    let most = loads.values().copied().max().expect("loads");
    assert_eq!(whole(&rate[0]) * most, whole(&rate[1]) * shares);
    assert!(whole(&rate[0]) * whole(&bound[1]) * 100 >= 99 * whole(&rate[1]) * whole(&bound[0]));
}

#[test]
fn pieces_follow_the_size() {
    let s = Scratch::new();
    let pieces = |bytes: &str| {
        let found = made(&s, "ring(8)", "broadcast", &["--method", "trees", "--bytes", bytes]);
        found["phases"][0]["pieces"].as_u64().expect("a number")
    };
    assert!(pieces("1000") <= 2 && pieces("1000") < pieces("1000000000"));
    let found = made(&s, "ring(8)", "broadcast", &["--pieces", "3", "--trees", "1"]);
    let phase = &found["phases"][0];
    assert_eq!((&phase["pieces"], &phase["messages"]), (&3.into(), &21.into()));
}

#[test]
fn the_same_machine_gives_the_same_text() {
    let texts: Vec<Vec<u8>> = (0..2)
        .map(|_| {
            let s = Scratch::new();
            made(&s, "torus(3, 4)", "all_reduce", &[]);
            s.files().remove("made.kb").expect("was written")
        })
        .collect();
    assert_eq!(texts[0], texts[1]);
}

/// The written file names the machine such that it is found from the folder of the file.
/// The schedule is that of the program in the `.kb` file, whatever the machine is called.
#[test]
fn a_schedule_can_be_written_in_place_of_a_program() {
    let s = Scratch::new();
    std::fs::write(s.path().join("own.yaml"), OWN_LINKS).expect("a scratch folder");
    for (machine, collective) in
        [("mesh(2, 3)", "all_reduce"), ("own.yaml", "all_gather"), (OWN_LINKS, "all_to_all")]
    {
        made(&s, machine, collective, &[]);
        let compiled =
            kbc(s.path(), &["compile", "made.kb", "--no-data", "-q", "--emit", "kir=want.kir"], "");
        assert_eq!(compiled.code, 0, "{machine}: {}", compiled.stderr);
        // Another folder has no machine file beside it.
        let alone = Scratch::new();
        let file = alone.path().join("made.kir").to_string_lossy().into_owned();
        let ran = kbc(s.path(), &["synth", machine, collective, "-o", &file, "--format", "json"], "");
        assert_eq!(ran.code, 0, "{machine}: {}", ran.stderr);
        let answer: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_eq!(answer["output"], *file);
        let read = |file: &std::path::Path| std::fs::read_to_string(file).expect("it was written");
        assert_eq!(read(file.as_ref()), read(&s.path().join("want.kir")), "{machine}");
        let written: Vec<String> = alone.files().into_keys().collect();
        assert_eq!(written, ["made.kir"], "only the schedule is written");
        let checked = kbc(s.path(), &["check", &file], "");
        assert_eq!(checked.code, 0, "{machine}: {}", checked.stderr);
    }
}

#[test]
fn machines_of_files_are_found_again() {
    let s = Scratch::new();
    let cases = [("specs/topologies/ring.yaml", "made.kb"), ("specs/topologies/ring.yaml", "specs/made.kb")];
    for (machine, path) in cases {
        let ran = kbc(s.path(), &["synth", machine, "all_gather", "-o", path], "");
        assert_eq!(ran.code, 0, "{machine} {path}: {}", ran.stderr);
        let ran = kbc(s.path(), &["run", path, "-D", "n=100"], "");
        assert_eq!(ran.code, 0, "{machine} {path}: {}", ran.stderr);
    }
}

/// A program with one collective over an axis of a mesh, without an algorithm.
pub(crate) fn program(machine: &str, mesh: &str, collective: &str) -> String {
    let (from, to, call) = match collective {
        "all_gather" => ("f32[n@tp]", "f32[n]", "dim: 0"),
        "reduce_scatter" => ("f32[n] partial(sum@tp)", "f32[n@tp]", "sum, dim: 0"),
        "all_reduce" => ("f32[n] partial(sum@tp)", "f32[n]", "sum"),
        "broadcast" => ("f32[n] only(1@tp)", "f32[n]", "from: 1"),
        "all_to_all" => ("f32[n@tp, n]", "f32[n, n@tp]", "from: 0, to: 1"),
        _ => ("f32[n] partial(sum@tp)", "f32[n] only(1@tp)", "sum, to: 1"),
    };
    format!(
        "param n = 12\ntopology sys = {machine}\nmesh m = sys[{mesh}]\n\
         program p(x: {from}) -> {to} {{ {collective}(x, {call}, over: tp, USING) }}\n"
    )
}

#[test]
fn packed_trees_of_groups_are_proven_and_right() {
    let s = Scratch::new();
    let cases = [
        ("mesh(2, 3)", "tp"),
        ("torus(4, 3)", "dp: 4, tp: 3"),
        ("torus(4, 3)", "tp: 4, dp: 3"),
        ("hierarchy(full(4), switch(2))", "dp: 2, tp: 4"),
        ("hierarchy(full(4), switch(2))", "tp: 2, dp: 4"),
        ("switch(6)", "tp: 3, dp: 2"),
    ];
    for (machine, mesh) in cases {
        for collective in COLLECTIVES {
            let text = program(machine, mesh, collective).replace("USING", "using: packed");
            s.write("made.kb", text.as_bytes());
            for n in sizes(collective) {
                let report = run(&s, &["-D", &format!("n={n}")]);
                assert_eq!(report["verified"]["ok"], true, "{machine} {mesh} {collective}: {report}");
                assert_eq!(report["verified"]["calls"], "any", "{machine} {mesh} {collective}");
                assert_eq!(report["compare"]["mismatches"], 0, "{machine} {mesh} {collective}");
            }
        }
    }
}

/// Trees by greedy matching, written by `kbc synth` and as a use of `packed`.
#[test]
fn greedy_trees_are_proven_and_right() {
    let s = Scratch::new();
    let machines =
        ["ring(5)", "mesh(3, 3)", "switch(4)", "tree(2, 2)", "hierarchy(full(2), switch(3))", OWN_LINKS];
    for machine in machines {
        for collective in COLLECTIVES.into_iter().filter(|c| *c != "all_to_all") {
            for more in [&[][..], &["--trees", "3", "--pieces", "2"]] {
                let made = made(&s, machine, collective, &[&["--method", "greedy"], more].concat());
                assert_eq!(made["phases"][0]["method"], "greedy", "{machine} {collective}");
                let report = run(&s, &["-D", "n=1009"]);
                assert_eq!(report["verified"]["ok"], true, "{machine} {collective}: {report}");
                assert_eq!(report["verified"]["calls"], "any", "{machine} {collective}");
                assert_eq!(report["compare"]["mismatches"], 0, "{machine} {collective}");
            }
        }
    }
    // In one phase, and an all-reduce also as a reduce-scatter and an all-gather.
    let uses = COLLECTIVES.into_iter().filter(|c| *c != "all_to_all").map(|c| (c, "packed(greedy: 2)"));
    for (collective, using) in uses.chain([("all_reduce", "packed(greedy: 2, gather: 3)")]) {
        let text = program("mesh(2, 3)", "tp", collective).replace("USING", &format!("using: {using}"));
        s.write("made.kb", text.as_bytes());
        let report = run(&s, &["-D", "n=1009"]);
        assert_eq!(report["verified"]["ok"], true, "{collective}: {report}");
        assert_eq!(report["compare"]["mismatches"], 0, "{collective}");
    }
}

/// Whichever is faster is taken, and the planned times are those of the simulation.
#[test]
fn small_sizes_take_greedy_trees() {
    let s = Scratch::new();
    let mut takes = 0;
    for collective in ["all_gather", "reduce_scatter", "all_reduce", "broadcast"] {
        let planned = |more: &[&str]| {
            let found = made(&s, "mesh(4, 4)", collective, &[&["--bytes", "65536"], more].concat());
            let phases = found["phases"].as_array().expect("phases");
            let ns = phases.iter().map(|p| p["planned_ns"].as_f64().expect("a time")).sum::<f64>();
            (ns, phases[0]["method"] == "greedy")
        };
        let (trees, _) = planned(&["--method", "trees"]);
        let (greedy, _) = planned(&["--method", "greedy"]);
        // Greedy trees are taken where they gain 2 %.
        let (best, taken) = planned(&[]);
        assert_eq!(taken, greedy < 0.98 * trees, "{collective}: {greedy} {trees}");
        assert!(best == if taken { greedy } else { trees }, "{collective}: {best}");
        takes += usize::from(taken);
        let report = run(&s, &["-D", "n=16384", "--no-data", "--no-proof"]);
        let ns = report["time_ns"].as_f64().expect("a time");
        assert!((ns - best).abs() < 0.02 * ns, "{collective}: {ns} ns, planned {best} ns");
    }
    assert!(takes > 0);
    let words = ["synth", "mesh(4, 4)", "all_gather", "--sizes", "--format", "json"];
    let ran = kbc(s.path(), &words, "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let rows = found["sizes"].as_array().expect("sizes");
    assert_eq!(rows.len(), 11);
    for row in rows {
        let [ns, trees, greedy] =
            ["planned_ns", "trees_ns", "greedy_ns"].map(|n| row[n].as_f64().expect("a time"));
        assert_eq!(ns, trees.min(greedy));
    }
    assert!(rows.iter().any(|row| row["method"] == "greedy"));
}

/// The text of the graph names pieces, and means the same trees to a pipeline that begins with it.
#[test]
fn the_graph_says_which_trees_are_packed() {
    let s = Scratch::new();
    let text = program("mesh(2, 3)", "tp", "all_reduce").replace("USING", "using: packed");
    s.write("made.kb", text.as_bytes());
    let emit = |kind: &str, file: &str| {
        let words = ["compile", "made.kb", "--emit", &format!("{kind}={file}"), "--no-data"];
        let ran = kbc(s.path(), &words, "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        String::from_utf8(s.files().remove(file).expect("was written")).expect("text")
    };
    let (graph, whole) = (emit("graph", "graph.kir"), emit("kir", "whole.kir"));
    assert!(graph.contains("using packed(pieces: "), "{graph}");
    let words = ["opt", "graph.kir", "-p", "expand,allocate,synchronize", "-o", "rest.kir"];
    let rest = kbc(s.path(), &words, "");
    assert_eq!(rest.code, 0, "{}", rest.stderr);
    let body = |text: &str| text.split_once("\nschedule").expect("a schedule").1.to_owned();
    let rest = String::from_utf8(s.files().remove("rest.kir").expect("was written")).expect("text");
    assert_eq!(body(&rest), body(&whole));
    let (before, after) = graph.split_once("(pieces: ").expect("pieces");
    let after = after.split_once(')').expect("an end").1;
    s.write("bare.kir", format!("{before}{after}").as_bytes());
    let bare = kbc(s.path(), &["opt", "bare.kir", "-p", "expand"], "");
    assert!(bare.code != 0 && bare.stderr.contains("run `select` first"), "{}", bare.stderr);
}

/// What `select` takes by itself, and what it takes without a search.
#[test]
fn select_takes_packed_trees_where_they_are_faster() {
    let s = Scratch::new();
    let taken = |machine: &str, n: &str, passes: &str| {
        s.write("made.kb", program(machine, "tp", "all_reduce").replace(", USING", "").as_bytes());
        let words =
            ["compile", "made.kb", "-D", n, "--passes", passes, "--emit", "graph=graph.kir", "--no-data"];
        let ran = kbc(s.path(), &words, "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let graph = String::from_utf8(s.files().remove("graph.kir").expect("was written")).expect("text");
        let at = graph.find("using ").expect("an algorithm");
        graph[at + 6..].split(" selected").next().expect("a name").to_owned()
    };
    let chosen = |machine: &str, n: &str| taken(machine, n, "default");
    assert!(chosen("mesh(3, 3)", "n=10000000").starts_with("packed(pieces: "));
    assert!(chosen("hypercube(4)", "n=10000000").starts_with("packed(pieces: "));
    // Here the library is at the bound, and for few bytes it has the least latency.
    assert_eq!(chosen("torus(3, 3)", "n=10000000"), "torus2_all_links");
    assert!(!chosen("mesh(3, 3)", "n=9").starts_with("packed"));
    // The size of a box is an argument.
    let boxes = "hierarchy(full(8), switch(2))";
    let of_boxes = taken(boxes, "n=1000000", "infer,place,select{effort=0},expand,allocate,synchronize");
    assert!(of_boxes.starts_with("rails_flat(g: 8"), "{of_boxes}");
    assert!(
        !taken("mesh(3, 3)", "n=10000000", "infer,place,select{effort=0},expand,allocate,synchronize")
            .starts_with("packed")
    );
}

#[test]
fn packed_trees_that_do_not_exist_are_refused_with_a_place() {
    let s = Scratch::new();
    let refused = |machine: &str, mesh: &str, using: &str| {
        s.write("made.kb", program(machine, mesh, "all_reduce").replace("USING", using).as_bytes());
        let ran = kbc(s.path(), &["run", "made.kb"], "");
        assert_ne!(ran.code, 0, "{machine} {mesh} {using}");
        ran.stderr
    };
    let apart = refused("ring(8)", "tp: 2, dp: 4", "using: packed");
    assert!(apart.contains("E595") && apart.contains("no path leads from (0) to (4)"), "{apart}");
    assert!(apart.contains("made.kb:4:"), "{apart}");
    let unlike = refused("mesh(2, 3)", "dp: 3, tp: 2", "using: packed");
    assert!(unlike.contains("E595"), "{unlike}");
    let negative = refused("ring(8)", "tp", "using: packed(pieces: -1)");
    assert!(negative.contains("must be a number of at least 0"), "{negative}");
    let both = refused("ring(8)", "tp", "using: packed(trees: 1, greedy: 1)");
    assert!(both.contains("E595") && both.contains("name one"), "{both}");
    let packed = refused("ring(8)", "tp", "using: packed(gather: 1)");
    assert!(packed.contains("E595") && packed.contains("name `greedy` as well"), "{packed}");
    let unknown = refused("ring(8)", "tp", "using: packed(leaves: 1)");
    assert!(unknown.contains("E006"), "{unknown}");
}

/// Lanes of packed trees are streams: each is forwarded as soon as it has arrived, so k lanes take
/// less time than one where a tree is deep, and about as long as k times as many pieces.
#[test]
fn instances_of_packed_trees_are_streams() {
    let s = Scratch::new();
    for (machine, collective) in
        [("mesh(1, 6)", "all_gather"), ("mesh(3, 3)", "all_reduce"), ("mesh(3, 3)", "all_to_all")]
    {
        let n = "n=3600";
        let timed = |using: &str| {
            let text = program(machine, "tp", collective).replace("USING", &format!("using: {using}"));
            s.write("made.kb", text.as_bytes());
            let report = run(&s, &["-D", n]);
            assert_eq!(report["verified"]["ok"], true, "{using}: {report}");
            assert_eq!(report["compare"]["mismatches"], 0, "{using}");
            report["time_ns"].as_f64().expect("a time")
        };
        let times: Vec<f64> =
            [1, 2, 4].map(|k| timed(&format!("packed(pieces: 1) with (instances: {k})"))).into();
        assert!(times.iter().all(|t| *t <= times[0] * 1.01), "{machine} {collective}: {times:?}");
        if machine == "mesh(1, 6)" {
            let pieces = timed("packed(pieces: 2)");
            assert!(times[1] < times[0] && (times[1] - pieces).abs() < 0.02 * pieces, "{times:?} {pieces}");
        }
    }
    let words = ["synth", "mesh(3, 3)", "all_gather", "--instances", "2", "-o", "lanes.kb"];
    assert_eq!(kbc(s.path(), &words, "").code, 0);
    let text = std::fs::read_to_string(s.path().join("lanes.kb")).expect("a file");
    assert!(text.contains("using: synthesised with (instances: 2)"), "{text}");
    let ran = kbc(s.path(), &["run", "lanes.kb", "-D", "n=3600"], "");
    assert!(ran.code == 0 && ran.stdout.contains("with (instances: 2)"), "{}{}", ran.stdout, ran.stderr);
    let ran = kbc(s.path(), &words[..5], "");
    assert!(ran.code != 0 && ran.stderr.contains("--instances"), "{}", ran.stderr);
    let text =
        program("mesh(3, 3)", "tp", "all_gather").replace("USING", "using: packed with (instances: 2)");
    s.write("made.kb", text.as_bytes());
    let ran = kbc(s.path(), &["run", "made.kb", "-D", "n=360", "--set", "queue: sram, 2"], "");
    assert!(ran.code != 0 && ran.stderr.contains("E375"), "queues deliver in order: {}", ran.stderr);
}

/// Routes of messages lead around a failed link, and packed trees reach more than the library.
#[test]
fn failed_links_are_machines_like_any_other() {
    let s = Scratch::new();
    let failed = ["--set", "link (0,1)->(0,2): 0 GB/s", "--set", "link (0,2)->(0,1): 0 GB/s"];
    for collective in COLLECTIVES {
        s.write("made.kb", program("mesh(3, 3)", "tp", collective).replace(", USING", "").as_bytes());
        let report = run(&s, &[&failed[..], &["-D", "n=360"]].concat());
        assert_eq!(report["verified"]["ok"], true, "{collective}: {report}");
        assert_eq!(report["compare"]["mismatches"], 0, "{collective}");
        assert!(report["percent"].as_f64().is_some_and(|p| p > 0.0 && p <= 100.0), "{collective}");
    }
    let ran = kbc(s.path(), &[&["synth", "mesh(3, 3)", "all_gather"], &failed[..]].concat(), "");
    assert!(ran.code == 0 && ran.stdout.contains("rate: 6.25 GB/s per rank"), "{}{}", ran.stdout, ran.stderr);
    let cut = ["--set", "link (0,0)->(0,1): 0 GB/s", "--set", "link (0,0)->(1,0): 0 GB/s"];
    let ran = kbc(s.path(), &[&["run", "made.kb"], &cut[..]].concat(), "");
    assert!(ran.code != 0 && ran.stderr.contains("E443"), "{}", ran.stderr);
}

/// The same schedule takes other routes after a failure; a new one is faster, and neither is below
/// the bound.
#[test]
fn a_repair_costs_less_than_other_routes() {
    let s = Scratch::new();
    s.write("made.kb", program("mesh(3, 3)", "tp", "all_gather").replace(", USING", "").as_bytes());
    let words = ["repair", "made.kb", "-D", "n=9000000", "--fail", "(0,1)<->(0,2)", "--format", "json"];
    let ran = kbc(s.path(), &words, "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(found["failed"], serde_json::json!(["(0,1)->(0,2)", "(0,2)->(0,1)"]));
    let time = |which: &str| found[which]["time_ns"].as_f64().expect("a time");
    let bound = |which: &str| found[which]["bound_ns"].as_f64().expect("a bound");
    assert!(time("before") < time("repaired") && time("repaired") < 0.9 * time("unchanged"), "{found}");
    assert!(bound("before") < bound("repaired") && bound("repaired") <= time("repaired"), "{found}");
    assert_eq!(found["verified"]["ok"], true);
    let ran = kbc(s.path(), &["repair", "made.kb", "--fail", "(0,0)->(2,2)"], "");
    assert!(ran.code != 0 && ran.stderr.contains("E447"), "{}", ran.stderr);
}

/// Every collective on machines with failed devices and switches: proven, right, and not faster
/// than the bound. The machine keeps its text.
#[test]
fn failed_devices_are_machines_like_any_other() {
    let s = Scratch::new();
    let machines = ["mesh(3, 3) { failed: (1,1) }", "torus(2, 4) { failed: (0,1), (1,3) }"];
    for (machine, collective) in machines.iter().flat_map(|m| COLLECTIVES.map(|c| (m, c))) {
        s.write("made.kb", program("ring(4)", "tp", collective).replace(", USING", "").as_bytes());
        let report = run(&s, &["--topology", machine, "-D", "n=360"]);
        assert_eq!(report["verified"]["ok"], true, "{machine} {collective}: {report}");
        assert_eq!(report["compare"]["mismatches"], 0, "{machine} {collective}");
        assert!(report["percent"].as_f64().is_some_and(|p| p > 0.0 && p <= 100.0), "{machine} {collective}");
        let text = report["machine"].as_str().expect("a machine");
        assert!(text.contains("failed: ") && !text.contains("0 B/s,"), "{text}");
    }
    let ran = kbc(s.path(), &["synth", "hypercube(3)", "all_reduce", "--set", "failed: (0,1,1)"], "");
    assert!(ran.code == 0 && ran.stdout.contains("7 ranks"), "{}{}", ran.stdout, ran.stderr);
    // The only size of the shape follows what is left, also where -D gives it.
    let sized = "param tp = 4\ntopology sys = ring(tp)\nmesh m = sys[tp]\nprogram p(x: f32[8, tp] partial(sum@tp)) -> f32[8, tp] { x }";
    s.write("made.kb", sized.as_bytes());
    let report = run(&s, &["--set", "failed: (3)", "-D", "tp=6"]);
    assert_eq!(report["verified"]["ranks_walked"], 5, "{report}");
    // The axes of the whole machine are gone, and so are sizes that need all devices.
    for (axes, title) in [("[x, y]", "do not match x, y"), ("[dp: 3, tp: 3]", "needs 9 devices")] {
        let text =
            format!("topology sys = mesh(3, 3)\nmesh m = sys{axes}\nprogram p(x: f32[8]) -> f32[8] {{ x }}");
        s.write("made.kb", text.as_bytes());
        let ran = kbc(s.path(), &["run", "made.kb", "--set", "failed: (1,1)"], "");
        assert!(ran.code != 0 && ran.stderr.contains("E223") && ran.stderr.contains(title), "{}", ran.stderr);
        assert!(ran.stderr.contains("the 8 devices that are left form one axis"), "{}", ran.stderr);
    }
    let equal = "topology sys = ring(4)\nmesh m = sys[tp]\nprogram p(x: f32[64@tp]) -> f32[64@tp] { shift(x, over: tp, by: 1) }";
    s.write("made.kb", equal.as_bytes());
    assert_eq!(kbc(s.path(), &["run", "made.kb"], "").code, 0);
    let ran = kbc(s.path(), &["repair", "made.kb", "--fail", "(1)"], "");
    assert!(ran.code != 0 && ran.stderr.contains("E208"), "{}", ran.stderr);
}

/// A schedule as text keeps its machine with the failed devices, and pictures and pages show them.
#[test]
fn failed_devices_are_kept_and_drawn() {
    let s = Scratch::new();
    s.write("made.kb", program("ring(4)", "tp", "all_gather").replace(", USING", "").as_bytes());
    let machine = "mesh(3, 3) { failed: (1,1) }";
    let words =
        ["compile", "made.kb", "--topology", machine, "-D", "n=360", "--emit", "kir", "-o", "made.kir"];
    let ran = kbc(s.path(), &words, "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = kbc(s.path(), &["run", "made.kir"], "");
    assert!(ran.code == 0 && ran.stdout.contains("failed: (1,1)"), "{}{}", ran.stdout, ran.stderr);
    let ran = kbc(s.path(), &["plot", "topology", machine, "-o", "machine.svg"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let svg = std::fs::read_to_string(s.path().join("machine.svg")).expect("text");
    assert!(svg.contains("dashed: failed") && svg.contains("9 nodes and 24 directed links"), "{svg}");
    let ran =
        kbc(s.path(), &["report", "made.kb", "--topology", machine, "-D", "n=360", "-o", "page.html"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let page = std::fs::read_to_string(s.path().join("page.html")).expect("text");
    assert!(page.contains(r#""failed":[{"name":"(1,1)","x":1.0,"y":1.0,"device":true}]"#));
}

/// After a device failed there is no unchanged schedule; after a switch failed there may be.
#[test]
fn devices_and_switches_are_repaired() {
    let s = Scratch::new();
    let repair = |fail: &str, topology: &str| {
        let words = [
            "repair",
            "made.kb",
            "--topology",
            topology,
            "-D",
            "n=900000",
            "--fail",
            fail,
            "--format",
            "json",
        ];
        let ran = kbc(s.path(), &words, "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        serde_json::from_str::<Value>(&ran.stdout).expect("JSON")
    };
    s.write("made.kb", program("ring(4)", "tp", "all_gather").replace(", USING", "").as_bytes());
    let found = repair("(1,1)", "mesh(3, 3)");
    assert_eq!((&found["failed"], &found["unchanged"]), (&serde_json::json!(["(1,1)"]), &Value::Null));
    assert_eq!(found["verified"]["ranks_walked"], 8, "{found}");
    assert!(found["repaired"]["time_ns"].as_f64() >= found["repaired"]["bound_ns"].as_f64(), "{found}");
    let both = (0..3).map(|d| format!("link ({d})<->#0: 50 GB/s, 500 ns; link ({d})<->#1: 50 GB/s, 900 ns"));
    let found = repair("#0", &format!("graph(3, 2) {{ {} }}", both.collect::<Vec<_>>().join("; ")));
    assert_eq!(found["failed"], serde_json::json!(["#0"]));
    let time = |which: &str| found[which]["time_ns"].as_f64().expect("a time");
    assert!(time("before") < time("repaired"), "{found}");
    // Messages of the old algorithm name relays of both switches, so it cannot go on.
    assert_eq!(found["unchanged"], Value::Null, "{found}");
}
