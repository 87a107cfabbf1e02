//! Tests of `kbc compare` and `--using`: which program is faster where, and why (EVAL-1).

use crate::common;

use common::{Scratch, kbc, root};
use serde_json::Value;

const RING: &str = "ring(8) { link: 50 GB/s, 500 ns }";

fn json(args: &[&str]) -> Value {
    let s = Scratch::new();
    let ran = kbc(s.path(), &[&["compare", "--format", "json"], args].concat(), "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// A ring takes 14 (500 + m / 8 / 50) ns; one phase in both directions around 8 ranks takes 2000 ns
/// plus queueing.
#[test]
fn two_algorithms_over_size() {
    let found = json(&[
        "ring",
        "two_phase",
        "--of",
        "specs/all_reduce.kb",
        "--topology",
        RING,
        "--over",
        "n=64..262144",
    ]);
    assert_eq!((&found["kind"], &found["over"]), (&"algorithms".into(), &"n".into()));
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 13);
    let (mut before, mut crossing) = (None, None);
    for r in rows {
        let (n, bytes) = (r["value"].as_u64().expect("n"), r["bytes"].as_u64().expect("bytes"));
        assert_eq!(bytes, 4 * n);
        let [a, b] = ["a", "b"].map(|s| r[s]["time_ns"].as_f64().expect("a time"));
        assert!((a - 14.0 * (500.0 + n as f64 * 4.0 / 8.0 / 50.0)).abs() < 0.01, "{n}: {a}");
        assert_eq!((&r["a"]["algorithm"], &r["b"]["status"]), (&"ring".into(), &"right".into()));
        let now = a < b;
        // The crossover lies between the sizes at which the faster one changes.
        if let Some((last, at)) = before.replace((now, bytes as f64)).filter(|l: &(bool, f64)| l.0 != now) {
            let found = found["crossovers"].as_array().expect("a list");
            assert_eq!(found.len(), 1);
            assert!(!last && found[0]["faster"] == "A");
            assert!((at..=bytes as f64).contains(&found[0]["at"].as_f64().expect("bytes")));
            crossing = found[0]["value"].as_u64();
            assert_eq!(found[0]["at"].as_f64(), crossing.map(|n| 4.0 * n as f64));
        }
    }
    // The crossover is simulated: the ring is faster there, and with one element less it is not.
    let n = crossing.expect("a crossover");
    let over = format!("n={},{n}", n - 1);
    let around =
        json(&["ring", "two_phase", "--of", "specs/all_reduce.kb", "--topology", RING, "--over", &over]);
    let times = |i: usize| ["a", "b"].map(|s| around["rows"][i][s]["time_ns"].as_f64().expect("a time"));
    let ([a0, b0], [a1, b1]) = (times(0), times(1));
    assert!(a0 >= b0 && a1 < b1, "{n}: {a0} {b0}, {a1} {b1}");
    let why = found["why"].as_array().expect("a list");
    assert_eq!(why.iter().map(|w| w["faster"].as_str().expect("a side")).collect::<String>(), "AB");
    for w in why {
        let row = rows.iter().find(|r| r["value"] == w["value"]).expect("a row");
        for (i, side) in ["a", "b"].iter().enumerate() {
            let sum: f64 =
                w["causes"].as_array().expect("causes").iter().map(|c| c[i + 1].as_f64().expect("ns")).sum();
            assert!((sum - row[*side]["time_ns"].as_f64().expect("a time")).abs() < 0.01);
            assert!(!w["paths"][i].as_array().expect("a path").is_empty());
        }
    }
}

#[test]
fn two_topologies_and_two_programs() {
    let of = ["--of", "specs/all_reduce.kb", "--using", "ring", "--set", "link: 50 GB/s, 500 ns"];
    let found = json(&[&["ring(4)", "full(4)"], &of[..]].concat());
    // A ring needs no more links than the machine ring has.
    assert_eq!((&found["kind"], &found["why"]), (&"topologies".into(), &Value::Array(vec![])));
    assert!(found["rows"][0]["a"]["bound_ns"].as_f64() > found["rows"][0]["b"]["bound_ns"].as_f64());
    let found = json(&["specs/all_reduce.kb", "specs/all_gather.kb"]);
    assert_eq!(found["kind"], "programs");
    assert!(found["rows"][0]["value"].is_null());
}

#[test]
fn for_people_the_paths_stand_side_by_side() {
    let s = Scratch::new();
    let args =
        ["compare", "ring", "two_phase", "--of", "specs/all_reduce.kb", "--over", "n=64,4096", "-o", "c.svg"];
    let ran = kbc(s.path(), &args, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let place = ran.stdout.find("where B gains most at n = 64").expect("why");
    assert!(
        ran.stdout[place..].lines().any(|l| l.contains(" |") && l.matches("put").count() == 2),
        "{}",
        ran.stdout
    );
    let svg = std::fs::read_to_string(s.path().join("c.svg")).expect("a figure");
    assert!(svg.contains("A: ring") && svg.contains("B: two_phase") && svg.contains("bound"));
}

#[test]
fn an_algorithm_is_asked_for_beside_the_program() {
    let run = |args: &[&str]| kbc(root(), &[&["run", "--format", "json"], args].concat(), "");
    let asked = run(&["specs/all_reduce.kb", "--using", "ring with (pipeline: 2)"]);
    let report: Value = serde_json::from_str(&asked.stdout).expect("JSON");
    assert_eq!(report["collectives"][0]["algorithm"], "ring with (pipeline: 2)");
    assert_eq!((&report["collectives"][0]["asked"], &report["ok"]), (&true.into(), &true.into()));
    // If a program names its own algorithm, `--using` has no effect, and the error states that.
    for (args, code) in [
        (["specs/bench/ring_all_reduce.kb", "--using", "two_phase"], "E587"),
        (["specs/all_reduce.kb", "--using", "rong"], "E587"),
        (["specs/all_reduce.kb", "--using", "ring(("], "E311"),
        (["specs/all_reduce.kb", "--using", "ring(q: 2)"], "E006"),
    ] {
        let ran = run(&args);
        assert!(ran.code == 1 && ran.stderr.contains(code), "{args:?}: {}", ran.stderr);
    }
    // Two collectives, each with an algorithm.
    let s = Scratch::new();
    s.write(
        "two.kb",
        b"topology sys = ring(4)\nmesh m = sys[tp]\nprogram p(x: f32[16] partial(sum@tp)) -> f32[16] { let y = reduce_scatter(x, sum, dim: 0, over: tp)\n  all_gather(y, dim: 0, over: tp) }\n",
    );
    let ran =
        kbc(s.path(), &["run", "two.kb", "--using", "bruck", "--using", "halving", "--format", "json"], "");
    let taken: Vec<String> = match serde_json::from_str::<Value>(&ran.stdout) {
        Ok(r) => {
            r["collectives"].as_array().expect("a list").iter().map(|c| c["algorithm"].to_string()).collect()
        }
        Err(_) => panic!("{}", ran.stderr),
    };
    assert_eq!(taken, ["\"halving\"", "\"bruck\""]);
}

/// The same sweep on a machine with slower links, and with one row less to run.
#[test]
fn two_files_of_rows() {
    let s = Scratch::new();
    let sweep = |latency: &str, out: &str| {
        let text = format!(
            "sweep: 1\ntitle: t\nfile: specs/all_reduce.kb\ntopology: '{{shape}}(4) {{ link: 50 GB/s, {latency} }}'\ndefine: {{n: '{{n}}'}}\naxes: {{shape: [ring, full], n: [8, 262144]}}\n"
        );
        s.write("s.yaml", text.as_bytes());
        let ran = kbc(s.path(), &["sweep", "s.yaml", "-o", out, "--no-cache"], "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    };
    sweep("500 ns", "a.csv");
    sweep("5 us", "b.csv");
    let json = |a: &str, b: &str| -> Value {
        let ran = kbc(s.path(), &["compare", a, b, "--format", "json"], "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        serde_json::from_str(&ran.stdout).expect("JSON")
    };
    assert_eq!(json("a.csv", "a.csv")["same"], 4);
    let found = json("a.csv", "b.csv");
    assert_eq!((&found["rows"], &found["slower"], &found["faster"]), (&4.into(), &4.into(), &0.into()));
    let most = &found["different"][3];
    assert_eq!(most["at"]["n"], "8");
    assert!(most["ratio"].as_f64().expect("a ratio") > 9.0);
    let text = std::fs::read_to_string(s.path().join("a.csv")).expect("rows");
    s.write("less.csv", text.lines().take(4).collect::<Vec<_>>().join("\n").as_bytes());
    s.write("none.csv", b"a,b\n1,2\n");
    for (other, words) in [("less.csv", "a.csv has 4, and less.csv has 3"), ("none.csv", "no column `row`")] {
        let ran = kbc(s.path(), &["compare", "a.csv", other], "");
        assert!(ran.code == 2 && ran.stderr.contains("E588") && ran.stderr.contains(words), "{}", ran.stderr);
    }
}

#[test]
fn what_cannot_be_compared() {
    let s = Scratch::new();
    for (args, code, words) in [
        (
            &["ring", "full(4)", "--of", "specs/all_reduce.kb"][..],
            2,
            "cannot compare ring (algorithms) with full(4) (topologies)",
        ),
        (&["ring", "two_phase"], 2, "the program on which to compare them is missing"),
        (
            &["ring(4)", "full(4)", "--of", "specs/all_reduce.kb", "--topology", "ring(3)"],
            2,
            "--topology does not apply to a comparison of topologies",
        ),
        (&["ring", "two_phase", "--of", "specs/all_reduce.kb", "--over", "n=a"], 2, "is not NAME=VALUES"),
        (&["ring", "rong", "--of", "specs/all_reduce.kb"], 1, "no size at which both can be compared"),
        (
            &["ring", "two_phase", "--of", "specs/all_reduce.kb", "-o", "a.gif"],
            2,
            "which is not a picture format",
        ),
    ] {
        let ran = kbc(s.path(), &[&["compare"], args].concat(), "");
        assert!(ran.code == code && ran.stderr.contains(words), "{args:?}: {} {}", ran.code, ran.stderr);
        assert!(!s.path().join("a.gif").exists());
    }
}
