//! Tests of messages that name relays: in algorithms, in schedules and in packed trees.

use crate::common;

use common::{Ran, Scratch, kbc};
use serde_json::Value;

/// Four devices over two switches: the route of every pair leads over `#0`, and a third of the
/// rates is at `#1`.
const TWO_SWITCHES: &str = "devices: 4\nrelays: 2\nlinks:\n  (0)<->#0: 50 GB/s, 300 ns\n  (1)<->#0: 50 GB/s, 300 ns\n  \
     (2)<->#0: 50 GB/s, 300 ns\n  (3)<->#0: 50 GB/s, 300 ns\n  (0)<->#1: 25 GB/s, 500 ns\n  (1)<->#1: 25 GB/s, 500 ns\n  \
     (2)<->#1: 25 GB/s, 500 ns\n  (3)<->#1: 25 GB/s, 500 ns\n";

/// An all-gather by shifts, every second of them past `#1`.
const SHIFTS: &str = "topology sys = \"two.yaml\"\nmesh m = sys[tp: 4]\n\n\
     algorithm shifts: all_gather over (r mod p) where p == 4 {\n    for s in 1..4 { put [r] -> r + s via [s % 2 * 2 - 1] }\n}\n\n\
     program all(x: f32[4000@tp]) -> f32[4000] { all_gather(x, dim: 0, over: tp, using: shifts) }\n";

fn scratch() -> Scratch {
    let s = Scratch::new();
    std::fs::write(s.path().join("two.yaml"), TWO_SWITCHES).expect("a file");
    std::fs::write(s.path().join("shifts.kb"), SHIFTS).expect("a file");
    s
}

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// Percent of the bound on the two switches, and the report.
fn reached(s: &Scratch, collective: &str, more: &[&str]) -> (f64, Value) {
    let file = common::root().join(format!("specs/{collective}.kb"));
    let file = file.to_str().expect("a path");
    let words = ["run", file, "--topology", "two.yaml", "--format", "json"];
    let report = json(&kbc(s.path(), &[&words, more].concat(), ""));
    (report["percent"].as_f64().expect("a bound"), report)
}

#[test]
fn trees_use_all_switches_and_are_proven_and_right() {
    let s = scratch();
    for (collective, least) in
        [("all_gather", 97.0), ("reduce_scatter", 97.0), ("broadcast", 95.0), ("all_reduce", 95.0)]
    {
        let (percent, _) = reached(&s, collective, &["-D", "n=67108864", "--no-data", "--no-proof"]);
        assert!(percent >= least, "{collective}: {percent} % of the bound");
        let (_, report) = reached(&s, collective, &["-D", "n=100003", "--using", "packed(via: 1)"]);
        assert_eq!(report["verified"]["ok"], true, "{collective}: {report}");
        assert_eq!(report["compare"]["mismatches"], 0, "{collective}");
    }
}

/// `kbc synth` writes such messages, and leaves `via` out where all take the routes of the machine.
#[test]
fn synthesised_text_names_relays() {
    let s = scratch();
    let text = |machine: &str| {
        let words = ["synth", machine, "all_reduce", "--bytes", "268435456", "-o", "made.kb"];
        let ran = kbc(s.path(), &words, "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(kbc(s.path(), &["fmt", "--check", "made.kb"], "").code, 0);
        let report = json(&kbc(s.path(), &["run", "made.kb", "-D", "n=1009", "--format", "json"], ""));
        assert_eq!((&report["verified"]["ok"], &report["compare"]["mismatches"]), (&true.into(), &0.into()));
        std::fs::read_to_string(s.path().join("made.kb")).expect("the file")
    };
    assert!(text("two.yaml").contains("via [hop("));
    assert!(!text("switch(4)").contains("via"));
}

#[test]
fn an_algorithm_names_relays() {
    let s = scratch();
    let report = json(&kbc(s.path(), &["run", "shifts.kb", "--format", "json"], ""));
    assert_eq!((&report["verified"]["ok"], &report["compare"]["mismatches"]), (&true.into(), &0.into()));
    let links: Vec<&str> =
        report["links"].as_array().expect("links").iter().filter_map(|l| l["link"].as_str()).collect();
    assert!(links.contains(&"(0)->#1") && links.contains(&"(0)->#0"), "{links:?}");
    let compiled = kbc(s.path(), &["compile", "shifts.kb", "--emit", "kir", "-o", "shifts.kir"], "");
    assert_eq!(compiled.code, 0, "{}", compiled.stderr);
    let schedule = std::fs::read_to_string(s.path().join("shifts.kir")).expect("a schedule");
    assert!(schedule.contains("-> (1) via [1] : @"), "{schedule}");
    // The same schedule on another machine.
    let ran = kbc(s.path(), &["run", "shifts.kir", "--topology", "two.yaml"], "");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let other = kbc(s.path(), &["run", "shifts.kir", "--topology", "ring(4)"], "");
    assert!(
        other.code == 1 && other.stderr.contains("E598") && other.stderr.contains("shifts.kir:"),
        "{}",
        other.stderr
    );
}

#[test]
fn who_cannot_choose_routes_says_so() {
    let s = scratch();
    let fails = |words: &[&str], code: &str, says: &str| {
        let ran = kbc(s.path(), words, "");
        assert!(ran.code != 0 && ran.stderr.contains(code), "{words:?}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains(says), "{words:?}: {}", ran.stderr);
    };
    fails(&["run", "shifts.kb", "--topology", "torus(2, 2)"], "E598", "has no relays");
    fails(&["run", "shifts.kb", "--topology", "switch(4)"], "E598", "has no relays");
    fails(&["compile", "shifts.kb", "--target", "a2a3"], "E470", "names relays");
    let queues = ["--set", "queue: tcm, 1", "--set", "slots: 4, 4 KiB"];
    fails(&[&["run", "shifts.kb"][..], &queues].concat(), "E375", "names the relays");
    let local = SHIFTS.replace("-> r + s via", "-> [r + s] via");
    std::fs::write(s.path().join("local.kb"), local).expect("a file");
    fails(&["check", "local.kb"], "E598", "one rank passes no relays");
    let large = SHIFTS.replace("s % 2 * 2 - 1", "7");
    std::fs::write(s.path().join("large.kb"), large).expect("a file");
    fails(&["run", "large.kb"], "E598", "has no relay #7");
}
