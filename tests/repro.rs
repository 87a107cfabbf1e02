//! Tests of `kbc dev repro`: figures and tables of the documentation agree with sweeps and
//! reference files (EVAL-3, EVAL-4).

use crate::cases::all_cases;
use crate::common;

use common::{Scratch, kbc, root};

/// If this fails, run `kbc dev repro` and inspect the difference. The command is long, so it runs
/// where all cases do.
#[test]
fn nothing_drifted() {
    if !all_cases() {
        return;
    }
    let ran = kbc(root(), &["repro", "--check"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

/// Pages show every generated figure, and only generated ones.
#[test]
fn every_figure_is_shown() {
    let docs = root().join("docs");
    let pages: String = ["explanation/evaluation.md", "explanation/kernbench.md", "reference/figures.md"]
        .iter()
        .map(|p| std::fs::read_to_string(docs.join(p)).expect("a page"))
        .collect();
    let mut names: Vec<String> = std::fs::read_dir(docs.join("evaluation"))
        .expect("a folder")
        .map(|e| e.expect("an entry").file_name().into_string().expect("a name"))
        .filter(|n| n.ends_with(".svg"))
        .collect();
    names.sort();
    assert!(names.len() > 10);
    for n in &names {
        let svg = std::fs::read_to_string(docs.join("evaluation").join(n)).expect("a figure");
        assert!(svg.contains("<svg") && svg.contains("<title>"), "{n}");
    }
    for shown in pages.split("](../evaluation/").skip(1).map(|s| s.split(')').next().unwrap_or("")) {
        assert!(names.iter().any(|n| n == shown), "{shown} is shown and not made");
    }
}

/// The sweep over machines names every file of `specs/corpus`, and its rows are those of the
/// documentation. If this fails, run `kbc dev repro docs/repro_bound.yaml` and inspect the
/// difference.
#[test]
fn percentages_of_the_bound_have_not_drifted() {
    let sweep = "specs/sweeps/bound.yaml";
    let text = std::fs::read_to_string(root().join(sweep)).expect("a sweep");
    for file in std::fs::read_dir(root().join("specs/corpus")).expect("a folder") {
        let name = file.expect("an entry").file_name().into_string().expect("a name");
        assert!(text.contains(&format!("topology: ../corpus/{name}}}")), "{name} is in no row");
    }
    let only = "network=mesh_3x3_failed,a100_1x8,dragonfly_3x2x2,random_rates_6_0";
    let (sizes, rows) = if all_cases() { ("size=64 KiB,256 MiB", 32) } else { ("size=64 KiB", 16) };
    let ran = kbc(root(), &["sweep", sweep, "--only", only, "--only", sizes, "--format", "json"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let table = std::fs::read_to_string(root().join("docs/bound/bound.csv")).expect("rows");
    let mut compared = 0;
    for line in ran.stdout.lines() {
        let now: serde_json::Value = serde_json::from_str(line).expect("a row");
        let begin = format!("{},", now["row"]);
        let written = table.lines().find(|l| l.starts_with(&begin)).expect("a row");
        let time = format!(",{},", now["time_ns"]);
        assert!(written.contains(&time), "row {begin} took {}: {written}", now["time_ns"]);
        compared += 1;
    }
    assert_eq!(compared, rows);
}

const LIST: &str = "repro: 1\nfolder: made\nsweeps: [s.yaml]\nreferences: [{name: r, file: f.yaml, title: t}]\npages: [p.md]\n";
const SWEEP: &str = "sweep: 1\ntitle: t\nfile: ring.kb\ndefine: {n: '{n}'}\naxes: {n: [16, 64]}\nfigures: [{figure: latency}]\n";
const RING: &str = "param n = 16\ntopology sys = ring(4) { link: 50 GB/s, 500 ns }\nmesh m = sys[tp]\nprogram p(x: f32[n] partial(sum@tp)) -> f32[n] { \
                    all_reduce(x, sum, over: tp, using: ring) }\n";
const FIGURES: &str = "reference: 1\nsource: by hand\nfigures:\n- {name: a, published: 3, unit: us, run: {program: ring.kb}, note: near}\n";
const PAGE: &str = "# Page\n\n<!-- rows: s: n, time_ns as time -->\n<!-- end -->\n";

fn scratch() -> Scratch {
    let s = Scratch::new();
    for (name, text) in
        [("l.yaml", LIST), ("s.yaml", SWEEP), ("ring.kb", RING), ("f.yaml", FIGURES), ("p.md", PAGE)]
    {
        s.write(name, text.as_bytes());
    }
    s
}

#[test]
fn what_is_made_is_as_it_is_made_until_something_changes() {
    let s = scratch();
    let check = |expected: &str| {
        let ran = kbc(s.path(), &["repro", "l.yaml", "--check"], "");
        assert_eq!(ran.code, i32::from(!expected.is_empty()), "{expected}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    };
    let make = || {
        let ran = kbc(s.path(), &["repro", "l.yaml"], "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    };
    check("4 of 4\n  note: made/s.csv, made/s-latency.svg, made/r.svg, p.md");
    make();
    check("");
    let page = std::fs::read_to_string(s.path().join("p.md")).expect("a page");
    // 2 (p - 1) rounds of 500 ns and 16 or 64 B over 50 GB/s.
    assert!(page.contains("| n | time |\n|---|---|\n| 16 | 3.002 us |\n| 64 | 3.008 us |\n"), "{page}");
    s.write("ring.kb", RING.replace("500 ns", "501 ns").as_bytes());
    check("4 of 4");
    make();
    check("");
    s.write("made/s.csv", b"row\n");
    check("1 of 4\n  note: made/s.csv");
    // Edited files are not overwritten.
    let ran = kbc(s.path(), &["repro", "l.yaml"], "");
    assert!(ran.code == 2 && ran.stderr.contains("E411"), "{}", ran.stderr);
    assert_eq!(kbc(s.path(), &["repro", "l.yaml", "--force"], "").code, 0);
    s.write("made/old.svg", b"<svg/>");
    check("made/old.svg (no sweep makes it)");
}

#[test]
fn lists_and_pages_that_are_wrong() {
    let s = scratch();
    for (name, text, words) in [
        ("l.yaml", "repro: 2\nfolder: made\nsweeps: []\n", "unsupported version `repro: 2`"),
        ("l.yaml", "repro: 1\nsweeps: []\n", "the key `folder` is missing"),
        ("p.md", "<!-- rows: other: n -->\n<!-- end -->\n", "no sweep `other`"),
        ("p.md", "<!-- rows: s: m -->\n<!-- end -->\n", "no column `m`"),
        ("p.md", "<!-- rows: s: n -->\n", "rows without <!-- end -->"),
    ] {
        let s2 = scratch();
        s2.write(name, text.as_bytes());
        let ran = kbc(s2.path(), &["repro", "l.yaml"], "");
        assert!(
            ran.code == 1 && ran.stderr.contains("E589") && ran.stderr.contains(words),
            "{words}: {}",
            ran.stderr
        );
        assert!(!s2.path().join("made").exists(), "nothing is written");
    }
    s.write("ring.kb", RING.replace("using: ring", "using: rong").as_bytes());
    let ran = kbc(s.path(), &["repro", "l.yaml"], "");
    assert!(ran.code == 1 && ran.stderr.contains("E585"), "{}", ran.stderr);
}
