//! Tests of the hierarchical all-reduce of the kernbench machine: consequences of its rules without
//! a fitted parameter (SIM-5).
//!
//! Published figures and their comparison are in `specs/reference`, which `reference.rs` runs.

use crate::common;

use common::{kbc, root};
use serde_json::Value;

/// Cubes of a SIP.
const CUBES: u64 = 16;

/// Returns the report of a run without data: time, critical path, accesses to slots.
fn run(file: &str, n: u64, more: &[&str]) -> Value {
    let file = format!("specs/kernbench/{file}.kb");
    let define = format!("n={n}");
    let mut words = vec!["run", &file, "--no-data", "--format", "json", "-D", &define];
    words.extend(more);
    let ran = kbc(root(), &words, "");
    assert_eq!(ran.code, 0, "{file}: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn number(place: &Value) -> u64 {
    place.as_str().and_then(|p| p.strip_prefix("cube=")).and_then(|p| p.parse().ok()).expect("a cube")
}

/// Returns the numbers of messages on the critical path inside a SIP, and between two.
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
            // Every message is written once and read once. Where the longer side of a row and of
            // the column has arrived, the shorter one, which was there before, is read after it.
            assert_eq!(centre["slot_accesses"], 2 * (8 + between) + 2, "{file} {n}");
            let corner = run(file, n, &CORNER);
            assert_eq!(hops(&corner), (12, between), "{file} {n}");
            // A corner has one side.
            assert_eq!(corner["slot_accesses"], 2 * (12 + between), "{file} {n}");
        }
    }
}

/// Returns the ns of one access to a slot, from the description of that machine and not from kbc.
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

/// The differences above do not depend on chosen settings: other choices give the same difference.
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
    for other in ["launch: 7 us", "endpoint: 1 us", "sip_link: 20 GB/s", "vector: 3 TB/s, 64 B"] {
        let ours = difference(&["--set", other]);
        assert!((ours - chosen).abs() < 1e-6, "{other}: {ours} for {chosen}");
    }
}

/// The 24 accesses of the torus follow from its published times alone: a whole number, equal in
/// every memory, model and size.
#[test]
fn published_differences_are_24_accesses() {
    let file = root().join("specs/reference/kernbench.yaml");
    let text = std::fs::read_to_string(file).expect("it is there");
    let all: serde_yaml::Value = serde_yaml::from_str(&text).expect("YAML");
    let published = |name: &str| {
        let figure = all["figures"].as_sequence().expect("a list").iter().find(|f| f["name"] == name);
        figure.unwrap_or_else(|| panic!("no `{name}`"))["published"].as_f64().expect("a number")
    };
    for bytes in [256, 2048, 16384, 65536] {
        for kind in ["sram", "hbm"] {
            for model in [1, 2] {
                let more = published(&format!("torus, {kind}, {bytes} B, model {model}"))
                    - published(&format!("torus, tcm, {bytes} B"));
                let (b, tcm) = (f64::from(bytes), access("tcm", model, f64::from(bytes)));
                let accesses = more / (access(kind, model, b) - tcm);
                assert!((accesses - 24.0).abs() < 1e-9, "{kind} {model} {bytes}: {accesses}");
            }
        }
    }
    assert_eq!(run("centre_root", 1024, &[])["slot_accesses"], 24);
}

/// Rows behind the tables of docs/explanation/kernbench.md, which `kbc dev repro --check` compares
/// with current results.
#[test]
fn chosen_algorithms_are_faster_than_the_centre_root() {
    let file = root().join("docs/evaluation/kernbench_choice.csv");
    let rows: Vec<std::collections::BTreeMap<String, String>> =
        csv::Reader::from_path(file).expect("rows").deserialize().map(|r| r.expect("a row")).collect();
    let mut compared = 0;
    for chosen in rows.iter().filter(|r| r["how"] == "chosen") {
        let same = |r: &&std::collections::BTreeMap<String, String>| {
            r["how"] == "centre root" && r["sips"] == chosen["sips"] && r["n_elem"] == chosen["n_elem"]
        };
        let centre = rows.iter().find(same).expect("the centre root at the same size");
        let ns =
            |r: &std::collections::BTreeMap<String, String>| r["time_ns"].parse::<f64>().expect("a time");
        assert!(ns(chosen) < ns(centre), "{}, {}", chosen["sips"], chosen["n_elem"]);
        compared += 1;
    }
    assert_eq!(compared, 9);
}
