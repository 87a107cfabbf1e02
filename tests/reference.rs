//! Tests of `kbc dev compare-reference`: every shipped file of published figures, and files with
//! errors (EVAL-5).

use crate::common;

use common::{Scratch, kbc};
use serde_json::Value;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Checks whether a figure is derived from others.
fn derived(f: &Value) -> bool {
    ["%", "x", "GB/s", "TFLOP/s"].iter().any(|u| f["unit"] == *u)
}

/// All figures of `specs/reference` are within the deviation that they allow.
#[test]
fn shipped_figures_are_within_what_they_allow() {
    let ran = kbc(Path::new(ROOT), &["compare-reference", "--format", "json"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let all: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let files = all.as_array().expect("a list");
    assert!(!files.is_empty());
    for f in files.iter().flat_map(|f| f["figures"].as_array().expect("figures")) {
        assert_eq!(f["ok"], true, "{f}");
        // A figure that is not measured states why.
        assert!(f["ours"].is_f64() || f["note"].is_string(), "{f}");
        assert!(f["evidence"].is_string() || f["ours"].is_null() || derived(f), "{f}");
        // A figure without an allowed deviation states why.
        assert!(f["within"].is_f64() || f["note"].is_string() || f["published"].is_null(), "{f}");
    }
    let exact: Vec<&Value> =
        files.iter().filter(|f| f["file"] == "specs/reference/analytical.yaml").collect();
    let figures = exact[0]["figures"].as_array().expect("figures");
    assert!(figures.len() > 4 && figures.iter().all(|f| f["ours"] == f["published"]));
}

const RING: &str = "topology sys = ring(4) { link: 50 GB/s, 500 ns }\nmesh m = sys[tp]\nprogram p(x: f32[400] \
                    partial(sum@tp)) -> f32[400] { all_reduce(x, sum, over: tp, using: ring) }\n";

/// 400 bytes per message, 8 ns each, six rounds.
const HEAD: &str = "reference: 1\nsource: by hand\nfigures:\n- name: slow\n  published: 3048\n  unit: ns\n  run: { program: ring.kb }\n  within: 1e-9\n";

#[test]
fn times_and_changes_are_compared() {
    let scratch = Scratch::new();
    scratch.write("ring.kb", RING.as_bytes());
    let fast = "- name: fast\n  published: 1.548\n  unit: us\n  run: { program: ring.kb, set: ['link: 50 GB/s, 250 ns'] }\n  within: 1e-9\n- \
                name: better\n  published: -50\n  unit: '%'\n  change: { from: slow, to: fast }\n  within: 1\n- name: others\n  \
                published: 9\n  unit: ms\n  note: quoted\n";
    scratch.write("f.yaml", format!("{HEAD}{fast}").as_bytes());
    let ran = kbc(scratch.path(), &["compare-reference", "f.yaml"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        ran.stdout,
        "f.yaml\n  by hand\nfigure       published            ours   deviation\n\
         slow           3048 ns      3048.00 ns     +0.00 %  executed  within 0.000000001 %\n\
         fast          1.548 us         1.55 us     +0.00 %  executed  within 0.000000001 %\n\
         better           -50 %        -49.21 %    +0.79 pp  within 1 pp\n\
         others            9 ms               -           -\n    quoted\n"
    );
    // A machine that is slower than before.
    let off = HEAD.replace("3048", "3000");
    scratch.write("g.yaml", off.as_bytes());
    let ran = kbc(scratch.path(), &["compare-reference", "f.yaml", "g.yaml"], "");
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("[E997]") && ran.stderr.contains("note: slow"), "{}", ran.stderr);
    assert!(ran.stdout.contains("+1.60 %  executed  NOT within 0.000000001 %"), "{}", ran.stdout);
}

/// Rates, ratios, bounds and counts.
#[test]
fn what_is_not_a_time_is_compared_as_what_it_is() {
    let scratch = Scratch::new();
    scratch.write("ring.kb", RING.as_bytes());
    let more = "- name: fast\n  unit: ns\n  run: { program: ring.kb, set: ['link: 50 GB/s, 250 ns'] }\n- name: often\n  published: 2\n  unit: x\n  \
                ratio: { of: slow, by: fast }\n  within: 2\n- name: speed\n  published: 0.5\n  unit: GB/s\n  rate: { amount: 1600, of: slow }\n  within: 5\n- \
                name: work\n  published: 0.5\n  unit: TFLOP/s\n  rate: { amount: 1600000, of: slow }\n  within: 5\n- name: least\n  published: 1.5\n  \
                unit: us\n  measure: bound\n  run: { program: ring.kb }\n  within: 50\n- name: signals\n  published: 24\n  unit: notifies\n  \
                measure: notifies\n  run: { program: ring.kb }\n  within: 0\n";
    scratch.write("f.yaml", format!("{HEAD}{more}").as_bytes());
    let ran = kbc(scratch.path(), &["compare-reference", "f.yaml"], "");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    // Six rounds of 508 and 258 ns; the latency of two hops; four ranks with a notify in each
    // round.
    for words in [
        "1.97 x -1.55 % within 2 %",
        "0.52 GB/s +4.99 %",
        "0.52 TFLOP/s +4.99 %",
        "1.00 us -33.33 % executed",
        "24.00 notifies +0.00 % executed within 0 %",
    ] {
        let line = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(line.contains(words), "{words}\n{}", ran.stdout);
    }
}

#[test]
fn files_that_are_wrong_are_one_clear_error() {
    let scratch = Scratch::new();
    scratch.write("ring.kb", RING.as_bytes());
    for (text, words) in [
        (HEAD.replace("within", "whithin"), "unknown key `whithin`"),
        (HEAD.replace("  unit: ns\n", ""), "the key `unit` is missing"),
        (HEAD.replace("  published: 3048\n", ""), "`slow` has no published value"),
        (HEAD.replace("unit: ns", "unit: GB/s"), "is a time, and its unit is GB/s"),
        (HEAD.replace("reference: 1", "reference: 2"), "unsupported version `reference: 2`"),
        (
            HEAD.replace("run: { program: ring.kb }", "from: table 3"),
            "needs a measurement, or a note that states why there is none",
        ),
        (
            format!("{HEAD}- name: slow\n  published: 1\n  unit: ns\n  note: again\n"),
            "two figures have the name `slow`",
        ),
        (
            format!("{HEAD}- name: c\n  published: 1\n  unit: '%'\n  change: {{ from: slow, to: fast }}\n"),
            "there is no earlier time with the name `fast`",
        ),
        (format!("{HEAD}  measure: notifies\n"), "is a count of notifies, and its unit is ns"),
        (
            format!("{HEAD}  rate: {{ amount: 1, of: slow }}\n"),
            "can be only one of a run, a change, a rate and a ratio",
        ),
        (
            format!("{HEAD}- name: c\n  published: 1\n  unit: x\n  rate: {{ amount: 1, of: slow }}\n"),
            "is a rate, and its unit is x",
        ),
        (
            format!("{HEAD}- name: c\n  published: 1\n  unit: x\n  ratio: {{ of: slow, by: fast }}\n"),
            "there is no earlier time with the name `fast`",
        ),
        (
            format!("{HEAD}- name: c\n  published: 1\n  unit: ns\n  measure: bound\n  note: x\n"),
            "states a part of a run, but has no run",
        ),
        ("[".to_owned(), ""),
    ] {
        scratch.write("f.yaml", text.as_bytes());
        let ran = kbc(scratch.path(), &["compare-reference", "f.yaml"], "");
        assert_eq!(ran.code, 1, "{text}");
        assert!(ran.stderr.contains("[E481]") && ran.stderr.contains(words), "{words}: {}", ran.stderr);
        assert!(ran.stdout.is_empty());
    }
    let program = HEAD.replace("ring.kb", "rang.kb");
    scratch.write("f.yaml", program.as_bytes());
    let ran = kbc(scratch.path(), &["compare-reference", "f.yaml"], "");
    assert!(ran.code == 2 && ran.stderr.contains("[E412]"), "{}", ran.stderr);
    let ran = kbc(scratch.path(), &["compare-reference", "nowhere"], "");
    assert!(ran.code == 2 && ran.stderr.contains("[E412]"), "{}", ran.stderr);
}
