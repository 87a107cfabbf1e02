//! Tests of the packed trees that `select` finds: more effort finds faster ones, and numbers of
//! trees are priced and kept.

use crate::common;
use crate::synth::{COLLECTIVES, program};

use common::{Scratch, kbc, root};
use serde_json::Value;

/// `--effort` is the option of the pass, and a key of sweeps.
#[test]
fn more_effort_finds_faster_trees() {
    let s = Scratch::new();
    s.write("made.kb", program("mesh(4, 4)", "tp", "all_reduce").replace(", USING", "").as_bytes());
    let report = |more: &[&str]| -> Value {
        let size = ["run", "made.kb", "-D", "n=67108864", "--no-data", "--no-proof", "--format", "json"];
        let ran = kbc(s.path(), &[&size[..], more].concat(), "");
        assert_eq!(ran.code, 0, "{more:?}: {}", ran.stderr);
        serde_json::from_str(&ran.stdout).expect("JSON")
    };
    let (none, some, more) = (report(&["--effort", "0"]), report(&[]), report(&["--effort", "4"]));
    let algorithm = |r: &Value| r["collectives"][0]["algorithm"].as_str().expect("a name").to_owned();
    assert!(!algorithm(&none).starts_with("packed"), "{}", algorithm(&none));
    let time = |r: &Value| r["time_ns"].as_f64().expect("a time");
    assert!(time(&more) < time(&some) && time(&some) < time(&none), "{more:#}");
    assert!(more["messages"].as_u64() > some["messages"].as_u64());
    let by_pass = ["--passes", "infer,place,select{effort=4},overlap,expand,allocate,synchronize"];
    assert_eq!((time(&report(&by_pass)), time(&report(&["--effort", "1"]))), (time(&more), time(&some)));

    s.write(
        "grid.yaml",
        b"sweep: 1\ntitle: Effort\nfile: made.kb\ndefine: {n: 1048576}\naxes: {effort: [0, 4]}\neffort: '{effort}'\n",
    );
    let swept = kbc(s.path(), &["sweep", "grid.yaml", "-o", "grid.csv"], "");
    assert_eq!(swept.code, 0, "{}", swept.stderr);
    let rows = String::from_utf8(s.files().remove("grid.csv").expect("a table")).expect("text");
    let taken: Vec<bool> = rows.lines().skip(1).map(|row| row.contains("packed(")).collect();
    assert_eq!(taken, [false, true], "{rows}");

    for wrong in ["17", "-1", "much"] {
        let ran = kbc(s.path(), &["run", "made.kb", &format!("--effort={wrong}")], "");
        assert!(ran.code == 2 && ran.stderr.contains("--effort <K>"), "{}", ran.stderr);
        let grid =
            format!("sweep: 1\ntitle: Effort\nfile: made.kb\naxes: {{k: ['{wrong}']}}\neffort: '{{k}}'\n");
        s.write("grid.yaml", grid.as_bytes());
        let ran = kbc(s.path(), &["sweep", "grid.yaml", "-o", "grid.csv"], "");
        assert!(ran.code != 0 && ran.stderr.contains("an integer from 0 to 16"), "{}", ran.stderr);
    }
}

/// A number of trees that the program names is one of the arguments that later passes see, for
/// every collective.
#[test]
fn a_number_of_trees_is_kept() {
    let s = Scratch::new();
    let made = |collective: &str, using: &str| {
        let text = program("mesh(2, 3)", "tp", collective).replace("USING", &format!("using: {using}"));
        s.write("made.kb", text.as_bytes());
        let ran = kbc(s.path(), &["compile", "made.kb", "--emit", "kir=made.kir", "--no-data"], "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        String::from_utf8(s.files().remove("made.kir").expect("was written")).expect("text")
    };
    for collective in COLLECTIVES.into_iter().filter(|c| *c != "all_to_all") {
        let kir = made(collective, "packed(trees: 3)");
        assert!(kir.contains("trees: 3"), "{collective}: {kir}");
        // Others would have other messages.
        assert_ne!(kir.matches("put ").count(), 0);
        assert_ne!(kir, made(collective, "packed(trees: 1)"), "{collective}");
    }
}

/// Where the estimates of plans do not hold, numbers of trees are priced as well: here few trees in
/// more pieces are faster than as many as the best rate needs.
#[test]
fn select_prices_numbers_of_trees() {
    let s = Scratch::new();
    let machine = root().join("specs/corpus/mi250_2x16.yaml").display().to_string();
    let timed = |using: &str| -> Value {
        s.write("made.kb", program("ring(4)", "tp", "all_gather").replace(", USING", using).as_bytes());
        let words = ["run", "made.kb", "-D", "n=4194304", "--topology", &machine, "--no-data", "--no-proof"];
        let ran = kbc(s.path(), &[&words[..], &["--format", "json"]].concat(), "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        serde_json::from_str(&ran.stdout).expect("JSON")
    };
    let (chosen, trees, greedy) =
        (timed(""), timed(", using: packed(pieces: 1, via: 1)"), timed(", using: packed(greedy: 8)"));
    let name = chosen["collectives"][0]["algorithm"].as_str().expect("a name");
    assert!(name.contains("trees: "), "{name}");
    let time = |r: &Value| r["time_ns"].as_f64().expect("a time");
    assert!(time(&chosen) < 0.9 * time(&trees).min(time(&greedy)), "{chosen:#}");
}
