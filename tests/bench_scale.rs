//! Tests of `kbc dev bench scale`: the form of its answer, and failures of single processes. No
//! test looks at a time.

use crate::common;

use common::{Ran, Scratch, root};
use serde_json::Value;

fn bench(rest: &str) -> Ran {
    Scratch::new().line(&format!("kbc dev bench scale {rest}"))
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}\n{}\n{}", ran.stdout, ran.stderr))
}

#[cfg(unix)]
#[test]
fn every_size_has_its_figures() {
    let ran = bench("start check-ring --sizes 8,16 --repeat 1 --format json");
    assert_eq!((ran.code, &*ran.stderr), (0, ""), "{}", ran.stdout);
    let found = json(&ran);
    assert_eq!((&found["schema"], &found["ok"]), (&1.into(), &true.into()), "{found}");
    let [start, ring] = &found["cases"].as_array().expect("a list")[..] else { panic!("{found}") };
    assert_eq!((&start["case"], &ring["case"]), (&"start".into(), &"check-ring".into()));
    assert_eq!((&start["unit"], &ring["unit"]), (&Value::Null, &"ranks".into()));
    let sizes = |case: &Value| -> Vec<Value> {
        let rows = case["rows"].as_array().expect("a list");
        for row in rows {
            for seconds in ["cpu_seconds", "smallest_cpu_seconds", "largest_cpu_seconds", "wall_seconds"] {
                assert!(row[seconds].as_f64().is_some_and(|s| s > 0.0), "{seconds}: {row}");
            }
            assert!(row["peak_bytes"].as_u64().is_some_and(|n| n > 1_000_000), "{row}");
            assert!(row["runs"] == 1 && row.get("messages").is_none() && row.get("ratio").is_none(), "{row}");
        }
        rows.iter().map(|row| row["size"].clone()).collect()
    };
    assert_eq!((sizes(start), sizes(ring)), (vec![Value::Null], vec![8.into(), 16.into()]));
    assert!(start["slope"].is_null() && ring["slope"].is_number(), "{found}");
    assert_eq!(ring["slope"], ring["slope_of_last_two"]);
}

/// Every case runs at a small size, and its cost is that of a process that succeeds.
#[cfg(unix)]
#[test]
fn every_case_runs() {
    let found = json(&bench("--sizes 4 --repeat 1 --format json"));
    assert_eq!(found["ok"], true, "{found}");
    let page = std::fs::read_to_string(root().join("docs/reference/cli.md")).expect("a page");
    for case in found["cases"].as_array().expect("a list") {
        let name = case["case"].as_str().expect("a name");
        assert!(page.contains(&format!("| `{name}` |")), "docs/reference/cli.md does not have {name}");
        let counted = case["rows"][0]["messages"].is_u64();
        assert_eq!(counted, name == "every-rank", "{case}");
    }
    assert_eq!(found["cases"][0]["rows"][0]["messages"], 2 * 4 * 3, "a ring of 4");
}

#[cfg(unix)]
#[test]
fn another_program_runs_in_turn() {
    let own = env!("CARGO_BIN_EXE_kbc");
    let found = json(&bench(&format!("start --repeat 2 --against {own} --format json")));
    let row = &found["cases"][0]["rows"][0];
    assert_eq!((&row["runs"], &row["against"]["runs"]), (&2.into(), &2.into()), "{found}");
    for ratio in ["cpu_seconds", "wall_seconds", "peak_bytes"] {
        assert!(row["ratio"][ratio].as_f64().is_some_and(|r| r > 0.0), "{row}");
    }
    let ran = bench("start --against nothing");
    assert!(
        ran.code == 2 && ran.stderr.contains("[E412] error: cannot run nothing: no such file"),
        "{}",
        ran.stderr
    );
}

/// A process that fails leaves the other rows as they are.
#[cfg(unix)]
#[test]
fn a_process_that_fails_has_a_row() {
    let ran = bench("check-flat --sizes 9,16 --repeat 2 --format json");
    let found = json(&ran);
    assert_eq!((ran.code, &found["ok"], &found["failure"]["kind"]), (1, &false.into(), &"wrong".into()));
    assert!(ran.stderr.starts_with("[E998] error: "), "{}", ran.stderr);
    let [failed, measured] = &found["cases"][0]["rows"].as_array().expect("a list")[..] else {
        panic!("{found}")
    };
    assert!(failed["why"].as_str().is_some_and(|why| why.starts_with("[E024] error: ")), "{failed}");
    assert_eq!((&failed["failure"]["exit"], failed.get("cpu_seconds")), (&1.into(), None));
    assert!(measured["cpu_seconds"].is_number() && measured.get("failure").is_none(), "{measured}");
    let text = bench("check-flat --sizes 9 --repeat 1").stdout;
    assert!(text.contains(" 9 kbc     failed: [E024] error: "), "{text}");
}

#[test]
fn wrong_words_are_refused() {
    for (rest, code, help) in [
        ("check-rnig", "E416", "did you mean `check-ring`?"),
        ("check-ring --sizes 8,4", "E413", "ascending"),
        ("check-ring --sizes 0,4", "E413", "0 is not a size"),
        ("graph-mesh --sizes 8", "E413", "8 is not the number of nodes of a square"),
    ] {
        let ran = bench(rest);
        assert_eq!(ran.code, 2, "{rest}");
        assert!(ran.stderr.contains(&format!("[{code}]")) && ran.stderr.contains(help), "{}", ran.stderr);
    }
}
