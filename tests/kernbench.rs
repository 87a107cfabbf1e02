//! The hierarchical all-reduce of the kernbench machine: what follows from its rules without a fitted parameter (SIM-5).
//!
//! Published figures beside ours are `specs/reference`'s, which `reference.rs` runs.

mod common;

use common::{kbc, root};
use serde_json::Value;

/// Cubes of a SIP.
const CUBES: u64 = 16;

/// The report of a run without data: time, critical path, accesses to slots.
fn run(file: &str, n: u64, more: &[&str]) -> Value {
    let file = format!("specs/kernbench/{file}.kb");
    let define = format!("n={n}");
    let mut words = vec!["run", &file, "--no-data", "--report", "json", "-D", &define];
    words.extend(more);
    let ran = kbc(root(), &words, "");
    assert_eq!(ran.code, 0, "{file}: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn number(place: &Value) -> u64 {
    place.as_str().and_then(|p| p.strip_prefix("cube=")).and_then(|p| p.parse().ok()).expect("a cube")
}

/// Messages on the critical path inside a SIP, and between two.
fn hops(report: &Value) -> (usize, usize) {
    let mut messages: Vec<(u64, u64, u64)> = report["critical_path"]
        .as_array()
        .expect("a path")
        .iter()
        .filter(|s| s["what"] == "send" && s["to"].is_string())
        .map(|s| (s["part"].as_u64().expect("a number"), number(&s["place"]), number(&s["to"])))
        .collect();
    messages.dedup();
    let inside = messages.iter().filter(|(_, from, to)| from / CUBES == to / CUBES).count();
    (inside, messages.len() - inside)
}

const CORNER: [&str; 4] = ["-D", "x=0", "-D", "y=0"];

#[test]
fn eight_hops_inside_a_sip_and_twelve_with_a_corner_root() {
    for n in [16, 1024, 49152] {
        for (file, between) in [("centre_root", 3), ("centre_root_ring", 5), ("centre_root_mesh", 6)] {
            let centre = run(file, n, &[]);
            assert_eq!(hops(&centre), (8, between), "{file} {n}");
            // Written once and read once wherever a message comes in.
            assert_eq!(centre["slot_accesses"], 2 * (8 + between), "{file} {n}");
            let corner = run(file, n, &CORNER);
            assert_eq!(hops(&corner), (12, between), "{file} {n}");
        }
    }
}

/// What one access to a slot takes in ns: written down from the description of that machine, not from kbc.
fn access(kind: &str, model: u32, bytes: f64) -> f64 {
    match (kind, model) {
        (_, 0) => 0.0,
        ("tcm", _) => bytes / 512.0,
        ("sram", 1) => 2.0 + bytes / 128.0,
        ("sram", _) => 2.0 + bytes / 512.0 + bytes / 128.0,
        ("hbm", 1) => 6.0 + bytes / 32.0,
        ("hbm", _) => 6.0 + bytes / 256.0 + bytes / 256.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn memories_differ_by_accesses_on_the_path_times_their_cost() {
    let time = |r: &Value| r["time_ns"].as_f64().expect("a time");
    for n in [128, 32768] {
        let bytes = 2.0 * n as f64;
        for file in ["centre_root", "centre_root_ring", "centre_root_mesh"] {
            for root in [&[][..], &CORNER] {
                let with = |setting: &str| run(file, n, &[&["--set", setting], root].concat());
                for model in [1, 2] {
                    let tcm = with(&format!("queue: tcm, {model}"));
                    for kind in ["sram", "hbm"] {
                        let other = with(&format!("queue: {kind}, {model}"));
                        assert_eq!(tcm["slot_accesses"], other["slot_accesses"]);
                        let accesses = tcm["slot_accesses"].as_f64().expect("a number");
                        let cost = access(kind, model, bytes) - access("tcm", model, bytes);
                        let off = time(&other) - time(&tcm) - accesses * cost;
                        assert!(off.abs() < 1e-6, "{file} {n} {kind} {model} {root:?}: {off} ns");
                    }
                }
            }
        }
    }
}

/// The differences above hold nothing that was chosen: other choices, the same difference.
#[test]
fn chosen_numbers_are_in_no_difference() {
    let difference = |more: &[&str]| {
        let time = |kind: &str| {
            let setting = format!("queue: {kind}, 1");
            run("centre_root", 8192, &[&["--set", &setting], more].concat())["time_ns"]
                .as_f64()
                .expect("a time")
        };
        time("hbm") - time("sram")
    };
    let chosen = difference(&[]);
    for other in ["launch: 7 us", "sip_link: 20 GB/s", "vector: 3 TB/s"] {
        let ours = difference(&["--set", other]);
        assert!((ours - chosen).abs() < 1e-6, "{other}: {ours} for {chosen}");
    }
}

/// Lines of the table of docs/kernbench.md: what kbc chooses beside the centre root, measured anew.
#[test]
fn chosen_algorithms_are_faster_as_documented() {
    let text = std::fs::read_to_string(root().join("docs/kernbench.md")).expect("the page");
    let mut lines = 0;
    for line in
        text.lines().filter(|l| ["| torus |", "| ring |", "| mesh |"].iter().any(|s| l.starts_with(s)))
    {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let n = cells[2].trim_end_matches(" B").parse::<u64>().expect("bytes") / 2;
        let suffix = if cells[1] == "torus" { String::new() } else { format!("_{}", cells[1]) };
        let centre = run(&format!("centre_root{suffix}"), n, &[]);
        let machine = format!("specs/topologies/kernbench{suffix}.yaml");
        let best = run("all_reduce", n, &["--topology", &machine]);
        let us = |of: &Value, what: &str| of[what].as_f64().expect("a time") / 1e3;
        let (slow, fast) = (us(&centre, "time_ns"), us(&best, "time_ns"));
        let chosen = best["collectives"][0]["algorithm"].as_str().expect("a name");
        let measured = format!(
            "| {} | {} | {slow:.3} us | `{chosen}` | {fast:.3} us | {:.2} | {:.3} us |",
            cells[1],
            cells[2],
            slow / fast,
            us(&best, "bound_ns")
        );
        assert_eq!(line, measured);
        assert!(fast < slow, "{line}");
        lines += 1;
    }
    assert!(lines > 12);
}
