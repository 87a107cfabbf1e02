//! Tests of rows of `kbc sweep` that processes measure: their form, their place beside computed
//! rows, and their failures. No test looks at a time.

use crate::common::Ran;
use crate::needs::{MPI_VARS, Need, found};
use crate::temporaries::Temporaries;
use serde_json::Value;
use std::collections::BTreeMap;

/// Programs that are not optimised are built sooner.
const FAST: (&str, &str) = ("CFLAGS", "-O0");

const TEXT: &str = "sweep: 1
title: t
engine: '{engine}'
measure: {rounds: 2, repeat: 3, calls: 2}
text: |
  topology sys = ring(2) { link: 50 GB/s, 500 ns }
  mesh m = sys[tp]
  param n = 8
  program p(x: {dtype}[n] partial(sum@tp)) -> {dtype}[n] { all_reduce(x, sum, over: tp, using: ring) }
define: {n: '{n}'}
axes:
  dtype: [f32, f16]
  n: [7, 64]
  engine: [sim, host]
";

fn scratch() -> Temporaries {
    let s = Temporaries::new("kbc-");
    s.dir.write("g.yaml", TEXT.as_bytes());
    s
}

type Rows = Vec<BTreeMap<String, String>>;

fn rows(s: &Temporaries, name: &str) -> Rows {
    let text = s.dir.files()[name].clone();
    csv::Reader::from_reader(text.as_slice()).deserialize().map(|r| r.expect("a row")).collect()
}

fn first_error(ran: &Ran) -> &str {
    ran.stderr.lines().find(|l| l.contains("error")).unwrap_or_default()
}

#[test]
fn measured_rows_stand_beside_computed_ones() {
    if found(Need::C).is_none() {
        return;
    }
    let s = scratch();
    let line = "kbc sweep g.yaml --cache known -o g.csv";
    let ran = s.run(line, &[FAST]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "8 rows: 8 correct, 4 of them measured\n"));
    let all = rows(&s, "g.csv");
    assert_eq!(all.len(), 8);
    for (i, row) in all.iter().enumerate() {
        let (of, n) = (|name: &str| row[name].parse::<f64>(), row["n"].parse::<f64>().expect("n"));
        let size = if row["dtype"] == "f16" { 2.0 } else { 4.0 };
        assert_eq!((&*row["row"], &*row["status"], &*row["mismatches"]), (&*i.to_string(), "right", "0"));
        assert_eq!((&*row["operation"], &*row["algorithm"], &*row["ranks"]), ("all_reduce", "ring", "2"));
        assert_eq!(of("bytes"), Ok(size * n), "{row:?}");
        if row["engine"] == "sim" {
            assert_eq!(of("checked"), Ok(2.0 * n), "{row:?}");
            assert!(of("bound_ns").is_ok(), "{row:?}");
            for column in ["transport", "element", "rounds", "repeat", "min_ns", "q1_ns", "q3_ns", "max_ns"] {
                assert_eq!(row[column], "", "{column}: {row:?}");
            }
            continue;
        }
        // Two rounds of two checked calls and the last measured one, on two ranks.
        assert_eq!(of("checked"), Ok(2.0 * 3.0 * 2.0 * n), "{row:?}");
        assert_eq!((&*row["transport"], &*row["element"]), ("memory", &*row["dtype"]));
        assert_eq!((&*row["rounds"], &*row["repeat"], &*row["bound_ns"]), ("2", "3", ""));
        let times = ["min_ns", "q1_ns", "time_ns", "q3_ns", "max_ns"].map(|c| of(c).expect("a time"));
        assert!(times[0] > 0.0 && times.is_sorted(), "{row:?}");
    }
    // What was computed is known, and what was measured is measured again.
    let again = s.run(line, &[FAST]);
    let said = "8 rows: 8 correct, 4 of them measured, 4 of them from the cache\n";
    assert_eq!((again.code, again.stderr.as_str()), (0, said));
    let list = s.run("kbc sweep g.yaml --list --only engine=host --only n=7 --only dtype=f16", &[]);
    assert_eq!(list.stdout, "row 5: f16, 7, host\n    a program of the file, -D n=7\n");
    // The file is one of measured rows.
    let machine = "'full(2) { link: 10 GB/s, 100 ns }'";
    let ran = s.run(&format!("kbc dev compare-reference g.csv --topology {machine} --format json"), &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let compared = found[0]["rows"].as_array().expect("a list");
    let types: Vec<&str> = compared.iter().filter_map(|r| r["element"].as_str()).collect();
    assert_eq!((types, &found[0]["others"]), (vec!["f32", "f32", "f16", "f16"], &4.into()), "{found}");
}

/// Rows that the target refuses, and those whose compiler or processes fail, are rows with the
/// reason.
#[cfg(unix)]
#[test]
fn rows_that_are_not_measured_say_why() {
    let Some(real) = found(Need::C) else { return };
    let s = scratch();
    let run = |vars: &[(&str, &str)], rest: &str| {
        let ran = s.run(
            &format!("kbc sweep g.yaml --no-cache -o g.csv --only dtype=f32 {rest}"),
            &[vars, &[FAST]].concat(),
        );
        assert_eq!(ran.code, 1, "{}", ran.stderr);
        assert!(ran.stderr.contains("[E585]"), "{}", ran.stderr);
        (ran, rows(&s, "g.csv"))
    };
    let (ran, all) = run(&[("CC", "none")], "");
    assert!(first_error(&ran).contains("[E564] error: the compiler `none` does not run"), "{}", ran.stderr);
    let states: Vec<&str> = all.iter().map(|r| r["status"].as_str()).collect();
    assert_eq!(states, ["right", "refused", "right", "refused"]);
    assert!(all[1]["why"].starts_with("E564") && all[1]["time_ns"].is_empty(), "{:?}", all[1]);

    let tool = |name: &str, script: &str| {
        let head = format!("REAL='{}'\n[ \"$1\" = --version ] && exit 0", real.display());
        s.script(name, &format!("{head}\n{script}"))
    };
    let out = "while [ $# -gt 1 ]; do [ \"$1\" = -o ] && out=$2; shift; done";
    let breaks =
        format!("{out}\nprintf '#!/bin/sh\\necho broken >&2\\nexit 3\\n' > \"$out\"; chmod +x \"$out\"");
    let (ran, all) = run(&[("CC", &tool("breaks", &breaks))], "--only engine=host");
    assert!(ran.stderr.contains("broken"), "{}", ran.stderr);
    assert!(all.iter().all(|r| r["status"] == "refused" && r["why"].starts_with("E567")), "{all:?}");

    let wrong = "sed -i.old 's/= v0 + v1/= v0 - v1/' p.c\nexec \"$REAL\" \"$@\"";
    let (ran, all) = run(&[("CC", &tool("wrong", wrong))], "--only engine=host --only n=64");
    assert!(ran.stderr.contains("p: rank 0, call 0: element "), "{}", ran.stderr);
    assert_eq!((&*all[0]["status"], &*all[0]["time_ns"]), ("wrong", ""), "{all:?}");
    assert!(all[0]["why"].starts_with("E430") && all[0]["mismatches"] != "0", "{all:?}");

    s.dir.write("g.yaml", TEXT.replace("using: ring)", "using: ring with (cores: 2))").as_bytes());
    let (_, all) = run(&[], "--only n=7");
    assert_eq!(all[1]["status"], "refused");
    assert!(all[1]["why"].starts_with("E45"), "{all:?}");
}

#[cfg(unix)]
#[test]
fn rows_over_mpi() {
    if found(Need::MpiLauncher).is_none() || found(Need::MpiCompiler).is_none() {
        return;
    }
    let s = scratch();
    s.dir.write("g.yaml", TEXT.replace("[sim, host]", "[sim, mpi]").as_bytes());
    let line = "kbc sweep g.yaml --no-cache -o g.csv --only dtype=f32 --only n=64";
    let ran = s.run(line, &[&MPI_VARS[..], &[FAST]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "2 rows: 2 correct, 1 of them measured\n"));
    let all = rows(&s, "g.csv");
    assert_eq!((&*all[1]["transport"], &*all[1]["rounds"]), ("mpi", "2"), "{all:?}");
    let ran = s.run(line, &[&MPI_VARS[..], &[FAST, ("MPIRUN", "none")]].concat());
    assert_eq!(ran.code, 1);
    let all = rows(&s, "g.csv");
    assert!(all[0]["status"] == "right" && all[1]["why"].starts_with("E564"), "{all:?}");
}

/// A list of figures of the documentation has no rows that differ from run to run.
#[test]
fn measured_rows_are_no_documentation() {
    let s = scratch();
    s.dir.write("list.yaml", b"repro: 1\nfolder: made\nsweeps: [g.yaml]\nreferences: []\npages: []\n");
    let ran = s.run("kbc dev repro list.yaml --no-cache", &[]);
    assert!(
        ran.code == 1 && ran.stderr.contains("[E589] error: g.yaml measures this computer"),
        "{}",
        ran.stderr
    );
}
