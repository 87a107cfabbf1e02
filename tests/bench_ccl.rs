//! Tests of `kbc dev bench ccl`: the all-reduce of two kernbench files on every kind of machine and
//! world, the effect of each key of the files, and the messages for wrong numbers (TOPO-2, TOPO-7).

use crate::common;

use common::{Ran, Scratch, kbc, root};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Returns both nestings of a topology.yaml with its SIPs connected in three ways.
fn machines(scratch: &Scratch) -> Vec<String> {
    let mut out = vec![];
    for name in ["flat", "deep"] {
        let path = format!("crates/frontend/tests/kernbench/{name}.yaml");
        let text = std::fs::read_to_string(root().join(path)).expect("it is there");
        assert!(text.contains("torus_2d"));
        for joined in ["ring_1d", "torus_2d", "mesh_2d_no_wrap"] {
            let file = format!("{name}_{joined}.yaml");
            scratch.write(&file, text.replace("torus_2d", joined).as_bytes());
            out.push(file);
        }
    }
    out
}

fn bench(dir: &Path, topology: &str, ccl: &str, more: &[&str]) -> Ran {
    kbc(dir, &[&["bench", "ccl", "--topology", topology, "--ccl", ccl], more].concat(), "")
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}\n{}\n{}", ran.stdout, ran.stderr))
}

const CCL: &str = "defaults: {algorithm: ring}\nalgorithms: {ring: , torus: , mesh: , tree: , three_level: , hierarchical: }\n";

/// The line that users of that simulator know is printed on a line of its own. A vector as long as
/// the number of cubes of a SIP is not a special case.
#[test]
fn every_world_on_every_machine() {
    let scratch = Scratch::new();
    scratch.write("ccl.yaml", CCL.as_bytes());
    let (kinds, sending) = (["tcm", "sram", "hbm"], ["poll", "sleep"]);
    let mut turn = 0;
    let mut seen = BTreeSet::new();
    for machine in machines(&scratch) {
        for (name, worlds) in [
            ("ring", &[6, 7, 8, 16][..]),
            ("torus", &[6, 16]),
            ("mesh", &[6, 8]),
            ("tree", &[7, 16]),
            ("hierarchical", &[6]),
        ] {
            for ws in worlds {
                turn += 1;
                let (kind, sends) = (kinds[turn % 3], sending[turn % 2]);
                seen.insert((kind, sends));
                let values = [
                    format!("algorithm={name}"),
                    format!("world_size={ws}"),
                    format!("buffer_kind={kind}"),
                    format!("backpressure={sends}"),
                    "n_elem=16".to_owned(),
                ];
                let more: Vec<&str> = values.iter().flat_map(|v| ["-D", v]).collect();
                let ran = bench(scratch.path(), &machine, "ccl.yaml", &more);
                assert_eq!(ran.code, 0, "{machine} {values:?}\n{}{}", ran.stdout, ran.stderr);
                assert_eq!(ran.stdout.lines().next(), Some(&*format!("{name} (ws={ws}): {ws} OK")));
                let note = ran.stderr.contains("ranks are PEs of SIP 0");
                assert_eq!(note, *ws != 6, "{}", ran.stderr);
            }
        }
    }
    assert_eq!(seen.len(), 6);
}

/// The shipped files: every entry on the three shipped machines.
#[test]
fn shipped_files_are_right() {
    let ccl = "specs/kernbench/ccl.yaml";
    let text = std::fs::read_to_string(root().join(ccl)).expect("it is there");
    let entries: Vec<&str> = text
        .lines()
        .skip_while(|l| *l != "algorithms:")
        .filter_map(|l| l.strip_prefix("  ")?.split_once(':'))
        .map(|e| e.0)
        .collect();
    assert!(entries.len() >= 10, "{entries:?}");
    for machine in ["kernbench", "kernbench_ring", "kernbench_mesh"] {
        for entry in &entries {
            let chosen = format!("algorithm={entry}");
            let machine = format!("specs/topologies/{machine}.yaml");
            let ran = bench(root(), &machine, ccl, &["-D", &chosen, "-q", "--format", "json"]);
            assert_eq!(ran.code, 0, "{machine} {entry}\n{}", ran.stderr);
            let r = json(&ran);
            let number = |key: &str| r[key].as_f64().unwrap_or_else(|| panic!("{entry} {key}: {r}"));
            assert!(number("crit_ns") >= number("bound_ns") && number("bound_ns") > 0.0, "{entry}");
            assert_eq!((r["ok"].as_bool(), number("right")), (Some(true), number("world_size")), "{entry}");
            assert_eq!(r["report"]["verified"]["calls"], "any", "{entry}");
            assert_eq!(number("bytes_per_pe"), 2.0 * number("n_elem"), "{entry}");
        }
    }
}

/// Every key of the file changes the output, or a warning states why it does not.
#[test]
fn every_key_has_an_effect_or_a_warning() {
    let scratch = Scratch::new();
    scratch.write("ccl.yaml", CCL.as_bytes());
    let machine = "package(torus(2, 3), mesh(4, 4), 2) { cube_link: 128 GB/s; port_node: 8 ns; sip_link: 64 GB/s; io_node: 10 ns; vector: 100 GB/s }";
    let run = |words: &str| {
        let more: Vec<&str> = words.split_whitespace().flat_map(|w| ["-D", w]).collect();
        let ran = bench(scratch.path(), machine, "ccl.yaml", &[&more[..], &["--format", "json"]].concat());
        assert_eq!(ran.code, 0, "{words}\n{}{}", ran.stdout, ran.stderr);
        (json(&ran)["crit_ns"].as_f64().expect("a time"), ran.stderr)
    };
    let full = "n_elem=2000 n_slots=1";
    for (base, other) in [
        ("", "n_elem=64"),
        ("", "buffer_kind=hbm"),
        ("", "algorithm=tree"),
        ("", "ranks=pe"),
        ("world_size=8", "world_size=16"),
        ("n_elem=2000", "n_slots=1"),
        (full, "ipcq_credit_size_bytes=4096"),
        (full, "backpressure=poll"),
        ("algorithm=hierarchical", "root_cube=0"),
        ("algorithm=hierarchical", "root_cube=1,3"),
        ("algorithm=hierarchical", "topology=mesh_2d_no_wrap"),
    ] {
        let (one, two) = (run(base), run(&format!("{base} {other}")));
        assert!(one.0 != two.0, "{base} against {other}: {} ns", one.0);
    }
    let (_, words) = run("n_elem=2000 slot_size=256");
    assert!(words.contains("[E377]"), "{words}");
    for (word, why) in [
        (
            "vc_chunk_size=256",
            "kbc models a message as one stream of bytes, and `forward` defines how it passes through links",
        ),
        ("topology=mesh_2d_no_wrap", "defines itself which rank sends to which"),
        ("root_cube=3", "has no root cube"),
    ] {
        let (_, words) = run(word);
        assert!(words.contains("[E466] warning") && words.contains(why), "{words}");
    }
    let (_, words) = run("algorithm=hierarchical topology=ring_1d");
    assert!(
        words.contains("SIPs exchange as `ring_1d`, and the machine connects them as `torus_2d`"),
        "{words}"
    );
    // The machine's own shape, given once more, and the value of an absent key.
    assert_eq!(run("topology=torus_2d").1, "");
    assert_eq!(run("topology=ring_1d").1, "");
    assert_eq!(
        run(
            "n_elem=32 buffer_kind=tcm backpressure=sleep n_slots=4 slot_size=4096 ipcq_credit_size_bytes=16"
        ),
        run("")
    );
    // The centre is (2, 2), by coordinates and by number.
    let centre = run("algorithm=hierarchical").0;
    assert_eq!(
        (run("algorithm=hierarchical root_cube=2,2").0, run("algorithm=hierarchical root_cube=10").0),
        (centre, centre)
    );
}

const WRONG: &str = "\
// One step short: every rank lacks the next one.
algorithm short: all_reduce over (r mod p) {
    scratch pass[1]
    put [..] -> pass[..]
    for s in 1..p-1 together {
        put pass[..] -> pass[..] at r + 1
        put pass[..] -> [..] at r + 1 reduce
    }
}
// Rank 3 gets the first quarter of rank 2's sum on top of its own.
algorithm again: all_reduce over (r mod p) {
    apply all_reduce over (r) using rotate on [..]
    if r == 2 { put [0 of 4] -> r + 1 reduce }
}
// SIPs keep their sums to themselves.
algorithm inside(cube_w = 1, cube_h = 1): all_reduce over (r of p) where p % (cube_w*cube_h) == 0 {
    apply all_reduce over (i of cube_w*cube_h, s of p / (cube_w*cube_h) -> s*cube_w*cube_h + i) using alone on [..]
}
algorithm alone: all_reduce over (i of n, s of k) { apply all_reduce over i using rotate on [..] }
// Its halves change places at the end.
algorithm swapped: all_reduce over (r mod p) {
    apply all_reduce over (r) using rotate on [..]
    scratch t[1]
    put [0 of 2] -> t[1 of 2]
    put [1 of 2] -> t[0 of 2]
    put t[0 of 2] -> [0 of 2]
    put t[1 of 2] -> [1 of 2]
}
";

/// For wrong algorithms, the message states element and rank, expected and got, and whose
/// contribution is missing or counted twice.
#[test]
fn wrong_numbers_are_named_with_their_provenance() {
    let scratch = Scratch::new();
    scratch.write("wrong.kb", WRONG.as_bytes());
    scratch.write("ccl.yaml", b"defaults: {algorithm: short}\nalgorithms: {short: , again: , inside: , swapped: , slow: {module: nhr}}\n");
    let machine = "package(torus(2, 3), mesh(2, 2), 1)";
    let run = |words: &str| {
        let more: Vec<&str> = words.split_whitespace().flat_map(|w| ["-D", w]).collect();
        bench(scratch.path(), machine, "ccl.yaml", &[&more[..], &["--using", "wrong.kb"]].concat())
    };
    for (words, lines, code) in [
        (
            "algorithm=short",
            &[
                "short (ws=6): 0 OK / 6 FAIL",
                "\n[FAIL] rank 0 (ws=6, algo=short): 32 of 32 elements are wrong\n",
                "\n  rank 0, element 0: expected 1182, got 951: the contribution of rank 1 is missing\n",
                "\n[FAIL] rank 5 (ws=6, algo=short): 32 of 32 elements are wrong\n",
            ][..],
            "E111",
        ),
        (
            "algorithm=again",
            &[
                "again (ws=6): 5 OK / 1 FAIL",
                "\n[FAIL] rank 3 (ws=6, algo=again): 8 of 32 elements are wrong\n",
                "  rank 3, element 0: expected 1182, got 2364: all contributions are counted twice",
            ],
            "E113",
        ),
        (
            "algorithm=swapped",
            &["swapped (ws=6): 0 OK / 6 FAIL", "every contribution is there once, but from another element"],
            "E112",
        ),
        (
            "algorithm=inside",
            &[
                "inside (ws=6): 0 OK / 6 FAIL",
                "\n[FAIL] rank 0 (ws=6, algo=inside): 128 of 128 elements are wrong on 4 of its 4 PEs\n",
                "  rank 0 cube 0, element 0: ",
                ": the contributions of ranks 1, 2, 3, 4 and 5 are missing",
            ],
            "E111",
        ),
        (
            "algorithm=slow n_slots=1",
            &["slow (ws=6): 0 OK / 6 FAIL", "\n[FAIL] rank 5 (ws=6, algo=slow): the run does not end\n"],
            "E340",
        ),
    ] {
        let ran = run(words);
        assert_eq!(ran.code, 1, "{words}\n{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stdout.lines().next(), Some(lines[0]));
        for line in lines {
            assert!(ran.stdout.contains(line), "{words}: no `{line}` in\n{}", ran.stdout);
        }
        assert!(
            ran.stdout.matches("\n[FAIL] rank ").count() == if words.contains("again") { 1 } else { 6 },
            "{}",
            ran.stdout
        );
        assert!(
            ran.stdout.matches(", element ").count() <= 8 && !ran.stdout.contains("crit_ns"),
            "{}",
            ran.stdout
        );
        assert!(ran.stderr.contains(&format!("[{code}] error")), "{words}\n{}", ran.stderr);
    }
    let ran = bench(
        scratch.path(),
        machine,
        "ccl.yaml",
        &["--using", "wrong.kb", "-D", "algorithm=again", "--format", "json"],
    );
    let r = json(&ran);
    assert_eq!((ran.code, r["ok"].as_bool(), r["right"].as_u64()), (1, Some(false), Some(5)));
    let first = &r["wrong"][0];
    assert_eq!((first["rank"].as_u64(), first["element"].as_u64()), (Some(3), Some(0)));
    assert_eq!(first["repeated"].as_array().map(Vec::len), Some(6));
    assert!(r["crit_ns"].is_null() && first["missing"].as_array().is_some_and(Vec::is_empty));
}

/// Unlisted names: their words identify the algorithm, and a note states that; words of two
/// algorithms are an error.
#[test]
fn names_are_read_by_their_words() {
    let scratch = Scratch::new();
    scratch.write("own.kb", b"algorithm RingAllReduceFast: all_reduce over (r of p) { apply all_reduce over (r) using ring on [..] }\n");
    let run = |entry: &str, more: &[&str]| {
        scratch.write(
            "ccl.yaml",
            format!("defaults: {{algorithm: it}}\nalgorithms: {{{entry}}}\n")
                .replace("algorithm: it", &format!("algorithm: {}", entry.split(':').next().unwrap_or("")))
                .as_bytes(),
        );
        let ran = bench(
            scratch.path(),
            "package(ring(3), mesh(2, 2), 1)",
            "ccl.yaml",
            &[more, &["--format", "json"]].concat(),
        );
        match ran.code {
            0 => (
                json(&ran)["using"].as_str().unwrap_or("").split('(').next().unwrap_or("").to_owned(),
                ran.stderr,
            ),
            _ => (String::new(), ran.stderr),
        }
    };
    for (entry, using, taken) in [
        ("ring_allreduce_tcm: {}", "around", "`ring_allreduce_tcm` is interpreted as `ring`"),
        ("RingAllReduce: {}", "around", "is interpreted as `ring`"),
        ("allreduce-mesh-2d: {}", "along_rows", "is interpreted as `mesh_2d`"),
        ("hierarchical_center_root_sram: {}", "of_cubes", "is interpreted as `center_root`"),
        ("intercube_allreduce: {}", "of_cubes", ""),
        ("fastest: {module: kernbench.ccl.intercube_allreduce}", "of_cubes", ""),
        ("intercube_allreduce_hbm: {}", "of_cubes", "is interpreted as `intercube_allreduce`"),
        ("fast: {module: sim.ccl.binary_tree_allreduce}", "heap", "is interpreted as `binary_tree`"),
        ("a1: {module: sim/ccl/three_level.py}", "of_pes", ""),
    ] {
        let (found, words) = run(entry, &[]);
        assert_eq!(found, using, "{entry}\n{words}");
        assert!(words.contains(taken) && (taken.is_empty() == words.is_empty()), "{entry}\n{words}");
    }
    let (found, words) = run("ring_tree: {}", &[]);
    assert!(
        found.is_empty() && words.contains("[E005] error: there is no all-reduce `ring_tree`"),
        "{words}"
    );
    assert_eq!(run("RingAllReduceFast: {}", &["--using", "own.kb"]).0, "RingAllReduceFast");
}

/// The published latencies of the hierarchical all-reduce (`specs/reference/kernbench.yaml`) follow
/// from the two files.
#[test]
fn published_latencies_come_out_of_the_files() {
    for (n, ns) in [("1024", 1957.04), ("8192", 4225.04), ("32768", 12001.04)] {
        let n = format!("n_elem={n}");
        let more = ["-D", "algorithm=hierarchical", "-D", &n, "--set", "forward: drain", "--format", "json"];
        let ran = bench(root(), "specs/topologies/kernbench.yaml", "specs/kernbench/ccl.yaml", &more);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let ours = json(&ran)["crit_ns"].as_f64().expect("a time");
        assert!((ours - ns).abs() < 0.01, "{n}: {ours} for {ns}");
    }
}

/// The time of every PE is in `crit_ns` in the JSON, and on a line of the log after the report.
#[test]
fn every_pe_says_how_long_it_executes() {
    let scratch = Scratch::new();
    scratch.write("ccl.yaml", CCL.as_bytes());
    let machine = "package(torus(2, 3), mesh(2, 2), 2) { cube_link: 128 GB/s; port_node: 8 ns; sip_link: 64 GB/s; io_node: 10 ns; vector: 100 GB/s }";
    for (name, pes) in [("ring", 6), ("hierarchical", 24), ("three_level", 48)] {
        let chosen = format!("algorithm={name}");
        let more = ["-D", &chosen, "--format", "json", "--log", "times.log"];
        let ran = bench(scratch.path(), machine, "ccl.yaml", &more);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let r = json(&ran);
        let times = r["pe_times"].as_array().expect("a list");
        assert_eq!((times.len(), r["pes"].as_u64()), (pes, Some(pes as u64)), "{name}");
        let ns: Vec<f64> = times.iter().map(|t| t["exec_ns"].as_f64().expect("a time")).collect();
        let longest = ns.iter().copied().fold(0.0, f64::max);
        assert_eq!(Some(longest), r["crit_ns"].as_f64(), "{name}");
        assert!(ns.iter().all(|t| *t > 0.0), "{name}: {ns:?}");
        let log = std::fs::read_to_string(scratch.path().join("times.log")).expect("it was written");
        assert!(log.starts_with(&format!("{name} (ws=6): 6 OK\n")) && log.contains("crit_ns"), "{log}");
        let lines: Vec<&str> = log.lines().filter(|l| l.starts_with("[PE] ")).collect();
        let said: Vec<String> = times
            .iter()
            .zip(&ns)
            .map(|(t, ns)| format!("[PE] {}: exec_ns {ns:.2}", t["who"].as_str().expect("a name")))
            .collect();
        assert_eq!(lines, said, "{name}");
    }
    // Wrong results have no times.
    scratch.write("wrong.kb", WRONG.as_bytes());
    scratch.write("wrong.yaml", b"defaults: {algorithm: short}\nalgorithms: {short: }\n");
    let ran = bench(scratch.path(), machine, "wrong.yaml", &["--using", "wrong.kb", "--format", "json"]);
    assert_eq!((ran.code, json(&ran)["pe_times"].as_array().map(Vec::len)), (1, Some(0)));
}

/// A file that cannot run gives one message with a suggestion.
#[test]
fn what_cannot_run_is_said_of_the_files() {
    let scratch = Scratch::new();
    scratch.write("ccl.yaml", CCL.as_bytes());
    scratch.write("odd.yaml", b"defaults: {algorithm: rng}\nalgorithms: {rng: {module: x.y.rign}, swing: , hier: {module: hierarchical, topology: torus2d}}\n");
    scratch.write("top.yaml", b"system: {sips: {count: 6}}\nsip: {cube_mesh: {w: 2, h: 2}}\n");
    for (words, code, title) in [
        ("--topology top.yaml --ccl odd.yaml", "E005", "there is no all-reduce `rng` or `rign`"),
        (
            "--topology top.yaml --ccl odd.yaml -D algorithm=hier",
            "E005",
            "unknown exchange between SIPs `torus2d`",
        ),
        (
            "--topology top.yaml --ccl odd.yaml -D algorithm=swing",
            "E467",
            "`swing` does not run on 6 ranks: its `where` is false for p = 6",
        ),
        (
            "--topology top.yaml --ccl ccl.yaml -D world_size=5",
            "E467",
            "a world of 5 ranks on the 4 PEs of a SIP",
        ),
        (
            "--topology top.yaml --ccl ccl.yaml -D algorithm=hierarchical -D world_size=3",
            "E467",
            "runs between SIPs, and the 3 ranks are PEs of SIP 0",
        ),
        (
            "--topology top.yaml --ccl ccl.yaml -D algorithm=hierarchical -D root_cube=2,0",
            "E462",
            "a SIP has 2 x 2 cubes",
        ),
        ("--topology top.yaml --ccl ccl.yaml -D n_elm=4", "E413", "unknown key `n_elm`"),
        ("--topology top.yaml --ccl ccl.yaml -D n_elem=0", "E462", "must be an integer of at least 1"),
        (
            "--topology top.yaml --ccl ccl.yaml --set ranks:pe",
            "E416",
            "--set ranks does not apply here: the files and their algorithm define the ranks",
        ),
        (
            "--topology package(ring(17),mesh(4,4),8) --ccl ccl.yaml -D algorithm=three_level",
            "E467",
            "2176 PEs take part",
        ),
        ("--topology ring(6) --ccl ccl.yaml", "E464", "needs a machine of SIPs"),
        ("--topology ccl.yaml --ccl ccl.yaml", "E464", "belongs to a file about collectives"),
        (
            "--topology top.yaml --ccl top.yaml",
            "E464",
            "expected a file about collectives (`ccl.yaml`), found a machine file",
        ),
        ("--topology top.yaml --ccl none.yaml", "E412", "no such file"),
    ] {
        let args: Vec<&str> = ["bench", "ccl"].into_iter().chain(words.split_whitespace()).collect();
        let ran = kbc(scratch.path(), &args, "");
        assert!([1, 2].contains(&ran.code) && ran.stdout.is_empty(), "{words}\n{}", ran.stdout);
        assert!(
            ran.stderr.contains(&format!("[{code}] error")) && ran.stderr.contains(title),
            "{words}\n{}",
            ran.stderr
        );
    }
}
