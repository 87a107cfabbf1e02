//! Tests of `kbc sweep`: rows, their cache, shards, and the shipped sweeps (EVAL-1, EVAL-2).

use crate::common;

use common::{Ran, Scratch, kbc, kbc_with, root};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

const RING: &str = "param n = 16\ntopology sys = ring(4) { link: 50 GB/s, 500 ns }\nmesh m = sys[tp]\nprogram p(x: f32[n] \
                    partial(sum@tp)) -> f32[n] { all_reduce(x, sum, over: tp) }\n";

const GRID: &str = "sweep: 1\ntitle: t\nfile: ring.kb\ntopology: '{shape}({p}) { link: 50 GB/s, 500 ns }'\ndefine: {n: '{n}'}\naxes:\n  shape: [ring, full]\n  \
                    p: [2, 3]\n  n: [1, 7, 64]\ncolumns: {twice: '2 * {n}', us: '{time_ns} / 1000'}\n";

fn scratch() -> Scratch {
    let s = Scratch::new();
    s.write("ring.kb", RING.as_bytes());
    s.write("g.yaml", GRID.as_bytes());
    s
}

/// Runs a sweep with a cache folder of its own.
fn sweep(s: &Scratch, args: &[&str]) -> Ran {
    kbc(s.path(), &[&["sweep"], args, &["--cache", "known"]].concat(), "")
}

type Rows = Vec<BTreeMap<String, String>>;

fn rows(text: &str) -> Rows {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|r| r.expect("a row")).collect()
}

fn read(s: &Scratch, name: &str) -> String {
    std::fs::read_to_string(s.path().join(name)).expect(name)
}

#[test]
fn every_row_is_a_run_and_says_what_it_found() {
    let s = scratch();
    let ran = sweep(&s, &["g.yaml", "-o", "g.csv"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "12 rows: 12 correct\n"));
    let all = rows(&read(&s, "g.csv"));
    assert_eq!(all.len(), 12);
    for (i, r) in all.iter().enumerate() {
        let (p, n): (u64, u64) = (r["p"].parse().expect("p"), r["n"].parse().expect("n"));
        assert_eq!(r["row"], i.to_string());
        assert_eq!((&*r["status"], &*r["mismatches"]), ("right", "0"));
        assert_eq!(r["checked"], (p * n).to_string());
        assert_eq!((&*r["ranks"], &*r["bytes"]), (&*p.to_string(), &*(4 * n).to_string()));
        assert_eq!(r["twice"], (2 * n).to_string());
        // The same as the run that `--list` names.
        let topology = format!("{}({p}) {{ link: 50 GB/s, 500 ns }}", r["shape"]);
        let n = format!("n={n}");
        let one =
            kbc(s.path(), &["run", "ring.kb", "-D", &n, "--topology", &topology, "--format", "json"], "");
        let one: serde_json::Value = serde_json::from_str(&one.stdout).expect("JSON");
        let number = |v: &str| v.parse::<f64>().expect("a number");
        assert!((number(&r["time_ns"]) - one["time_ns"].as_f64().expect("a time")).abs() < 1e-3);
        assert!((number(&r["us"]) * 1000.0 - number(&r["time_ns"])).abs() < 1e-2);
        assert!((number(&r["bound_ns"]) - one["bound_ns"].as_f64().expect("a bound")).abs() < 1e-3);
        assert_eq!(r["algorithm"], one["collectives"][0]["algorithm"]);
        assert_eq!((&*r["selected"], &*r["operation"]), ("true", "all_reduce"));
    }
}

#[test]
fn what_is_known_is_not_run_again_and_what_changed_is() {
    let s = scratch();
    let known = |expected: &str| {
        let ran = sweep(&s, &["g.yaml", "-o", "g.csv"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, format!("12 rows: 12 correct{expected}\n").as_str()));
        read(&s, "g.csv")
    };
    let first = known("");
    assert_eq!(first, known(", 12 of them from the cache"));
    // A comment is not in the schedule.
    s.write("ring.kb", format!("// a comment\n{RING}").as_bytes());
    assert_eq!(first, known(", 12 of them from the cache"));
    // An additional value only adds its rows.
    s.write("g.yaml", GRID.replace("64]", "64, 65]").as_bytes());
    let ran = sweep(&s, &["g.yaml", "-o", "h.csv"]);
    assert_eq!(ran.stderr, "16 rows: 16 correct, 12 of them from the cache\n");
    s.write("g.yaml", GRID.as_bytes());
    // Another algorithm is another schedule, except where it was selected before.
    s.write("ring.kb", RING.replace("over: tp)", "over: tp, using: ring)").as_bytes());
    assert_ne!(first, known(""));
    // A machine file that a row reads.
    s.write("m.yaml", b"shape: ring(2)\nlink: 50 GB/s, 500 ns\n");
    s.write(
        "f.yaml",
        b"sweep: 1\ntitle: t\nfile: ring.kb\ntopology: m.yaml\ndefine: {n: '{n}'}\naxes: {n: [5]}\n",
    );
    let time = |expected: &str| {
        let ran = sweep(&s, &["f.yaml", "-o", "f.csv"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, format!("1 row: 1 correct{expected}\n").as_str()));
        rows(&read(&s, "f.csv"))[0]["time_ns"].clone()
    };
    let slow = time("");
    s.write("m.yaml", b"shape: ring(2)\nlink: 50 GB/s, 250 ns\n");
    assert_ne!(slow, time(""));
    s.write("m.yaml", b"shape: ring(2)\nlink: 50 GB/s, 500 ns\n");
    assert_eq!(slow, time(", 1 of them from the cache"));
    // A truncated entry is not used, and a warning states that.
    for entry in walk(&s.path().join("known")) {
        std::fs::write(entry, "{").expect("it can be written");
    }
    let ran = sweep(&s, &["f.yaml", "-o", "f.csv"]);
    assert!(
        ran.stderr.starts_with("[E592] warning: 2 entries were damaged in the cache known"),
        "{}",
        ran.stderr
    );
    assert!(ran.code == 0 && ran.stderr.ends_with("\n1 row: 1 correct\n"), "{}", ran.stderr);
    assert_eq!(slow, rows(&read(&s, "f.csv"))[0]["time_ns"]);
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut out = vec![];
    for e in std::fs::read_dir(dir).expect("a folder") {
        let path = e.expect("an entry").path();
        if path.is_dir() { out.extend(walk(&path)) } else { out.push(path) }
    }
    out
}

#[test]
fn a_killed_sweep_goes_on_without_losing_a_row() {
    let s = scratch();
    let sizes: Vec<String> = (1..=60).map(|n| n.to_string()).collect();
    s.write("g.yaml", GRID.replace("[1, 7, 64]", &format!("[{}]", sizes.join(", "))).as_bytes());
    let mut child = Command::new(env!("CARGO_BIN_EXE_kbc"))
        .args(["sweep", "g.yaml", "-o", "g.csv", "--jobs", "1", "--cache", "known"])
        .current_dir(s.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary is built with the tests");
    // Two entries per row, beside the comparisons of algorithms.
    let entries = || {
        let of_a_row =
            |f: &std::path::PathBuf| std::fs::read(f).is_ok_and(|text| text.starts_with(b"kbc sweep"));
        let known = s.path().join("known");
        if known.is_dir() { walk(&known).iter().filter(|f| of_a_row(f)).count() } else { 0 }
    };
    while entries() < 20 {
        std::thread::yield_now();
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let kept = entries() / 2;
    assert!(!s.path().join("g.csv").exists() && kept >= 10);
    let ran = sweep(&s, &["g.yaml", "-o", "g.csv"]);
    let known: usize = ran
        .stderr
        .strip_prefix("240 rows: 240 correct, ")
        .and_then(|r| r.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{}", ran.stderr));
    // One row may have been interrupted between its two entries.
    assert!(known + 1 >= kept, "{known} of {kept}");
    let other = kbc(s.path(), &["sweep", "g.yaml", "-o", "h.csv", "--no-cache"], "");
    assert_eq!((other.code, other.stderr.as_str()), (0, "240 rows: 240 correct\n"));
    assert_eq!(read(&s, "g.csv"), read(&s, "h.csv"));
}

#[test]
fn shards_make_the_whole_and_nothing_else_does() {
    let s = scratch();
    assert_eq!(sweep(&s, &["g.yaml", "-o", "all.csv"]).code, 0);
    let parts = ["1.jsonl", "2.jsonl", "3.jsonl", "4.jsonl", "5.jsonl"];
    for (i, part) in parts.iter().enumerate() {
        assert_eq!(sweep(&s, &["g.yaml", "--shard", &format!("{}/5", i + 1), "-o", part]).code, 0);
    }
    let merge =
        |parts: &[&str]| kbc(s.path(), &[&["sweep", "g.yaml", "-o", "m.csv", "--merge"], parts].concat(), "");
    let mut twice = parts.to_vec();
    twice.reverse();
    twice.push("3.jsonl");
    assert_eq!(merge(&twice).code, 0);
    assert_eq!(read(&s, "m.csv"), read(&s, "all.csv"));
    std::fs::remove_file(s.path().join("m.csv")).expect("it is there");
    let fails = |parts: &[&str], words: &str| {
        let ran = merge(parts);
        assert_eq!(ran.code, 1, "{words}");
        assert!(ran.stderr.starts_with("[E584]") && ran.stderr.contains(words), "{words}: {}", ran.stderr);
        assert!(!s.path().join("m.csv").exists());
    };
    fails(&parts[..4], "2 of 12 rows are missing\n  note: rows 4, 9");
    s.write("odd.jsonl", read(&s, "1.jsonl").replacen("\"checked\":2", "\"checked\":3", 1).as_bytes());
    fails(&["1.jsonl", "odd.jsonl"], "row 0 has other values in odd.jsonl:1 than in 1.jsonl:1");
    s.write("none.jsonl", b"row\n");
    fails(&["none.jsonl"], "none.jsonl:1 is not a row");
    s.write("g.yaml", GRID.replace("title: t", "title: u").as_bytes());
    fails(&parts, "1.jsonl:1 is a row of another sweep");
}

#[test]
fn rows_that_fail_stand_in_the_table() {
    let s = scratch();
    s.write("g.yaml", GRID.replace("[ring, full]", "[ring, rong]").as_bytes());
    let ran = sweep(&s, &["g.yaml", "-o", "g.csv"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("row 6: rong, 2, 1 and 2 more\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("[E585] error: 0 of 12 rows are wrong, 6 are rejected"), "{}", ran.stderr);
    let all = rows(&read(&s, "g.csv"));
    assert!(all[..6].iter().all(|r| r["status"] == "right" && r["why"].is_empty()));
    assert!(all[6..].iter().all(|r| r["status"] == "refused"
        && r["why"].starts_with('E')
        && r["time_ns"].is_empty()
        && r["us"].is_empty()));
    // They are not cached: a corrected kbc would otherwise reuse them.
    assert!(sweep(&s, &["g.yaml", "-o", "g.csv"]).stderr.contains("6 of them from the cache"));
}

#[test]
fn a_text_over_several_lines_is_a_program() {
    let s = Scratch::new();
    s.write(
        "t.yaml",
        b"sweep: 1\ntitle: t\ntext: |\n  topology sys = ring(4)\n  mesh m = sys[tp]\n  program p(x: {dtype}[8] partial(sum@tp)) -> {dtype}[8] { \
          all_reduce(x, sum, over: tp{how.using}) }\naxes:\n  dtype: [f32, f16, bf16, i32]\n  how: {own: {using: ''}, ring: {using: ', using: ring'}}\n",
    );
    let ran = sweep(&s, &["t.yaml", "--format", "json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let all: Vec<serde_json::Value> =
        ran.stdout.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(all.len(), 8);
    assert!(all.iter().all(|r| r["status"] == "right"));
    assert_eq!(
        (&all[5]["dtype"], &all[5]["algorithm"], &all[5]["bytes"]),
        (&"bf16".into(), &"ring".into(), &16.into())
    );
    assert!(all.iter().all(|r| r["selected"] == (r["how"] == "own")));
}

/// A row that names the algorithm that kbc would select has the same schedule, but is
/// distinguished.
#[test]
fn who_chose_is_not_mixed_up() {
    let s = scratch();
    s.write(
        "g.yaml",
        b"sweep: 1\ntitle: t\nfile: ring.kb\nusing: ['{how.using}']\ndefine: {n: 64}\naxes: {how: {own: {using: ''}, asked: {using: one_phase}}}\n",
    );
    for only in [&["--only", "how=asked"][..], &["--only", "how=own"], &[]] {
        assert_eq!(sweep(&s, &[&["g.yaml", "-o", "g.csv"], only].concat()).code, 0);
    }
    let all = rows(&read(&s, "g.csv"));
    assert_eq!((&*all[0]["algorithm"], &*all[1]["algorithm"]), ("one_phase", "one_phase"));
    assert_eq!((&*all[0]["selected"], &*all[1]["selected"]), ("true", "false"));
    assert_eq!(all[0]["time_ns"], all[1]["time_ns"]);
}

#[test]
fn only_some_rows_and_no_rows_that_there_are_not() {
    let s = scratch();
    let list = sweep_list(&s, &["--only", "n=7", "--only", "p=3"]);
    assert_eq!(list.lines().step_by(2).collect::<Vec<_>>(), ["row 4: ring, 3, 7", "row 10: full, 3, 7"]);
    assert!(
        list.contains("    kbc run ring.kb -D n=7 --topology 'ring(3) { link: 50 GB/s, 500 ns }'\n"),
        "{list}"
    );
    for flag in ["--force", "--theme=dark"] {
        let ran = kbc(s.path(), &["sweep", "g.yaml", "-o", "g.csv", flag], "");
        assert!(ran.code == 2 && ran.stderr.contains("does not apply to g.csv"), "{}", ran.stderr);
    }
    for (only, words) in [("n", "is not AXIS=VALUE"), ("m=1", "no axis `m`"), ("n=8", "no value `8`")] {
        let ran = kbc(s.path(), &["sweep", "g.yaml", "--list", "--only", only], "");
        assert!(ran.code == 2 && ran.stderr.contains(words), "{}", ran.stderr);
    }
}

fn sweep_list(s: &Scratch, args: &[&str]) -> String {
    kbc(s.path(), &[&["sweep", "g.yaml", "--list"], args].concat(), "").stdout
}

#[test]
fn the_published_all_reduce_comes_out_row_by_row() {
    let s = Scratch::new();
    let args =
        ["sweep", "specs/sweeps/latency.yaml", "--only", "n_elem=128,1024,8192", "-o", "rows", "--no-cache"];
    let ran = kbc_with(s.path(), &args, "", &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "9 rows: 9 correct\n"));
    let all = rows(&read(&s, "rows/latency.csv"));
    let torus: Vec<&str> =
        all.iter().filter(|r| r["sip_topology"] == "torus_2d").map(|r| r["latency_ns"].as_str()).collect();
    // As published.
    assert_eq!(torus, ["1678.04", "1957.04", "4225.04"]);
    let r = &all[4];
    assert_eq!((&*r["n_sips"], &*r["bytes_per_pe"], &*r["bytes_per_sip"]), ("6", "2048", "32768"));
    assert!(s.path().join("rows/latency.jsonl").exists());
}

/// Runs the first and the last row of every shipped sweep.
#[test]
fn shipped_sweeps_run() {
    let folder = root().join("specs/sweeps");
    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .expect("a folder")
        .map(|e| e.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    assert!(names.len() >= 6);
    for name in names {
        let file = format!("specs/sweeps/{name}");
        let list = kbc(root(), &["sweep", &file, "--list"], "");
        assert_eq!(list.code, 0, "{name}: {}", list.stderr);
        let rows = list.stdout.lines().filter(|l| l.starts_with("row ")).count();
        for shard in [format!("1/{rows}"), format!("{rows}/{rows}")] {
            let ran = kbc(root(), &["sweep", &file, "--shard", &shard, "--format", "json", "--no-cache"], "");
            assert_eq!(ran.code, 0, "{name}: {}", ran.stderr);
            let row: serde_json::Value = serde_json::from_str(&ran.stdout).expect("one row");
            // The last row of `bound.yaml` has results that are too large to be executed.
            let proven = name == "bound.yaml" && row["size"] == "256 MiB";
            assert_eq!(row["status"], if proven { "proven" } else { "right" }, "{name}");
        }
    }
}

/// A sweep that starts from a ccl.yaml: a row equals the output of `kbc dev bench ccl`, the command
/// that it lists.
#[test]
fn rows_of_a_ccl_yaml_are_those_of_the_benchmark() {
    let s = Scratch::new();
    s.write(
        "ccl.yaml",
        b"defaults: {algorithm: ring}\nalgorithms: {ring: , intercube_allreduce: , odd: {module: no.such}}\n",
    );
    let machine = "package(torus(2, 3), mesh(2, 2), 1) { cube_link: 128 GB/s; sip_link: 64 GB/s }";
    let grid = |entries: &str| {
        format!(
            "sweep: 1\ntitle: t\nccl: ccl.yaml\ntopology: '{machine}'\nset: ['forward: drain']\ndefine: {{algorithm: '{{entry}}', n_elem: '{{n}}'}}\naxes:\n  \
             entry: [{entries}]\n  n: [16, 128]\ncolumns: {{latency_ns: '{{time_ns}}'}}\n"
        )
    };
    s.write("g.yaml", grid("ring, intercube_allreduce").as_bytes());
    let ran = sweep(&s, &["g.yaml", "-o", "g.csv", "-q"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let found = rows(&read(&s, "g.csv"));
    assert_eq!(found.len(), 4);
    let list = s.line("kbc sweep g.yaml --list");
    let commands: Vec<&str> = list.stdout.lines().filter_map(|l| l.trim().strip_prefix("kbc ")).collect();
    assert_eq!(commands.len(), 4, "{}", list.stdout);
    for (row, command) in found.iter().zip(commands) {
        assert!(command.starts_with("dev bench ccl --ccl ccl.yaml "), "{command}");
        let ran = s.line(&format!("kbc {command} --format json -q"));
        let one: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let ns: f64 = row["latency_ns"].parse().expect("a time");
        assert!((one["crit_ns"].as_f64().expect("a time") - ns).abs() < 1e-3, "{command}: {ns}");
        assert_eq!((&*row["status"], row["ranks"].parse().ok()), ("right", one["pes"].as_u64()));
    }
    // Cached rows are not run again; a changed ccl.yaml gives other rows.
    assert!(sweep(&s, &["g.yaml", "-o", "g.csv"]).stderr.contains("4 of them from the cache"));
    s.write("ccl.yaml", b"defaults: {algorithm: ring, n_slots: 2}\nalgorithms: {ring: , intercube_allreduce: , odd: {module: no.such}}\n");
    assert!(!sweep(&s, &["g.yaml", "-o", "g.csv"]).stderr.contains("known before"));
    // An entry that names nothing is a refused row.
    s.write("odd.yaml", grid("odd").as_bytes());
    let ran = sweep(&s, &["odd.yaml", "-o", "odd.csv"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(rows(&read(&s, "odd.csv")).iter().all(|r| r["status"] == "refused" && r["why"].contains("E005")));
    for (text, words) in [
        (grid("ring").replace("ccl: ccl.yaml\n", ""), "`file`, `text` or `ccl` is missing"),
        (
            grid("ring").replace("ccl: ccl.yaml\n", "ccl: ccl.yaml\nfile: a.kb\n"),
            "`file` and `ccl` exclude each other",
        ),
        (
            grid("ring").replace("ccl: ccl.yaml\n", "ccl: ccl.yaml\nprogram: p\n"),
            "`program` does not apply to a `ccl`: set keys of its file in `define`",
        ),
        (
            grid("ring").replace("topology: ", "title2: ").replace("title2", "about"),
            "the machine on which its entries run",
        ),
    ] {
        s.write("bad.yaml", text.as_bytes());
        let ran = sweep(&s, &["bad.yaml"]);
        assert!(
            ran.code == 1 && ran.stderr.contains("[E583]") && ran.stderr.contains(words),
            "{words}: {}",
            ran.stderr
        );
    }
}

/// Points of published figures are taken from their file.
#[test]
fn published_points_stand_beside_curves() {
    let s = scratch();
    s.write("r.yaml", b"reference: 1\nsource: s\nfigures:\n- {name: 'theirs, 64 KiB', published: 366, unit: us, note: quoted}\n- {name: part, published: 3, unit: '%', note: quoted}\n");
    let grid = |name: &str| {
        format!(
            "sweep: 1\ntitle: t\nfile: ring.kb\ndefine: {{n: '{{n}}'}}\naxes: {{n: [16, 16384]}}\nfigures:\n- figure: published\n  published: \
             {{reference: r.yaml, at: {{'{name}': 65536}}}}\n"
        )
    };
    s.write("p.yaml", grid("theirs, 64 KiB").as_bytes());
    let ran = sweep(&s, &["p.yaml", "-o", "p"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let svg = read(&s, "p/p-published.svg");
    assert!(svg.contains("theirs: 366 us") && svg.contains("broken where the zigzag is"), "{svg}");
    for (text, words) in [
        (grid("others"), "r.yaml has no published time `others`"),
        (grid("part"), "r.yaml has no published time `part`"),
        (
            grid("theirs, 64 KiB").replace("figure: published", "figure: latency"),
            "does not apply to this kind of figure",
        ),
        (
            grid("x").split("  published:").next().expect("a part").to_owned(),
            "a figure of published points needs the key `published",
        ),
    ] {
        s.write("bad.yaml", text.as_bytes());
        let ran = sweep(&s, &["bad.yaml", "-o", "bad"]);
        assert!(
            ran.code == 1 && ran.stderr.contains("[E583]") && ran.stderr.contains(words),
            "{words}: {}",
            ran.stderr
        );
    }
}
