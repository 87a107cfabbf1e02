//! Tests of `kbc dev bench host` and `kbc calibrate`: the form of what they measure, and refusals.
//! No test looks at a time.

use crate::common::Ran;
use crate::needs::{MPI_VARS, Need, found};
use crate::temporaries::Temporaries;
use serde_json::Value;

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", ran.stdout, ran.stderr))
}

fn rows(found: &Value) -> &[Value] {
    found["rows"].as_array().expect("a list")
}

/// Columns of the CSV, in the order of docs/reference/host.md.
const COLUMNS: &str = "collective,ranks,bytes,count,element,contestant,transport,algorithm,stage,best,rounds,repeat,\
                       time_ns,min_ns,q1_ns,q3_ns,max_ns,ratio,ratio_min,ratio_max,algbw_gbs,busbw_gbs,\
                       compared,wrong";

/// Two algorithms, of which one is kept, and a peer that is a command, in turn; the file is read
/// again and compared with simulated times.
#[cfg(unix)]
#[test]
fn contestants_have_rows() {
    if found(Need::C).is_none() {
        return;
    }
    let s = Temporaries::new("kbc-");
    let peer =
        s.script("peer", "echo 'a line'\necho \"{\\\"time_ns\\\":1000.0,\\\"bytes\\\":$2,\\\"wrong\\\":0}\"");
    let line = format!(
        "kbc dev bench host all_reduce all_to_all --sizes 4,8KiB --algorithm ring --algorithm one_phase \
         --algorithm pairwise --keep 1 --rounds 2 --repeat 2 --no-mpi --peer 'gloo={peer} {{collective}} {{bytes}}' \
         -o out --format json"
    );
    let ran = s.run(&line, &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    let found = json(&ran);
    let names: Vec<&str> =
        found["not_measured"].as_array().expect("a list").iter().filter_map(|p| p["peer"].as_str()).collect();
    assert_eq!(names, ["MPI", "oneCCL"], "{found}");
    let is = |row: &&Value, of: &str, contestant: &str, stage: &str| {
        row["collective"] == of && row["contestant"] == contestant && row["stage"] == stage
    };
    let count = |of: &str, contestant: &str, stage: &str| {
        rows(&found).iter().filter(|r| is(r, of, contestant, stage)).count()
    };
    // Two algorithms at two sizes; where there is one, nothing is screened.
    assert_eq!(count("all_reduce", "kbc", "screened"), 4);
    assert_eq!(count("all_reduce", "kbc", "measured"), 2);
    assert_eq!(count("all_to_all", "kbc", "screened"), 0);
    assert_eq!(count("all_to_all", "kbc", "measured"), 2);
    assert_eq!(count("all_reduce", "gloo", "measured") + count("all_to_all", "gloo", "measured"), 4);
    for row in rows(&found) {
        let of = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        // 4 bytes are rounded up to an element for each rank.
        assert!(row["bytes"] == 8 || row["bytes"] == 8192, "{row}");
        assert_eq!(of("bytes"), 4.0 * of("count"), "{row}");
        assert!(0.0 < of("min_ns") && of("min_ns") <= of("q1_ns") && of("q1_ns") <= of("time_ns"), "{row}");
        assert!(of("time_ns") <= of("q3_ns") && of("q3_ns") <= of("max_ns"), "{row}");
        assert_eq!(row["wrong"], 0, "{row}");
        let measured = row["stage"] == "measured";
        assert_eq!(
            (row["rounds"] == 2, row["best"] == true, row["ratio"].is_number()),
            (measured, measured, measured),
            "{row}"
        );
        if row["contestant"] == "gloo" {
            assert_eq!((&row["time_ns"], &row["transport"]), (&1000.0.into(), &"command".into()));
            assert!(row["algorithm"].is_null() && row["compared"].is_null(), "{row}");
        } else {
            // A checked call and the last measured one: all elements on both ranks.
            let elements = of("count");
            let runs = of("rounds");
            assert_eq!(of("compared"), runs * 2.0 * 2.0 * elements, "{row}");
        }
        if measured && row["contestant"] == "kbc" {
            assert_eq!(row["ratio"], 1.0, "{row}");
        }
    }
    let files = s.dir.files();
    for name in ["out/all_reduce_2.svg", "out/all_to_all_2.svg"] {
        assert!(files[name].starts_with(b"<svg") || files[name].starts_with(b"<?xml"), "{name}");
    }
    let csv = String::from_utf8(files["out/host.csv"].clone()).expect("text");
    assert_eq!(csv.lines().next(), Some(COLUMNS));
    assert_eq!(csv.lines().count(), 1 + rows(&found).len());
    let page = std::fs::read_to_string(crate::common::root().join("docs/reference/host.md")).expect("a page");
    for column in COLUMNS.split(',') {
        assert!(page.contains(&format!("`{column}`")), "docs/reference/host.md has no column {column}");
    }

    let machine = "'full(2) { link: 10 GB/s, 100 ns }'";
    let ran =
        s.run(&format!("kbc dev compare-reference out/host.csv --topology {machine} --format json"), &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let compared = &json(&ran)[0];
    assert_eq!((rows(compared).len(), &compared["others"]), (4, &8.into()), "{compared}");
    for row in rows(compared) {
        let [measured, predicted, error] =
            ["measured_ns", "predicted_ns", "error_percent"].map(|n| row[n].as_f64().expect("a number"));
        assert!((error - (predicted / measured - 1.0) * 100.0).abs() < 1e-6, "{row}");
    }
}

/// A peer that measures another size, whose elements differ, or that fails is an error.
#[cfg(unix)]
#[test]
fn a_peer_that_is_wrong_is_an_error() {
    if found(Need::C).is_none() {
        return;
    }
    let s = Temporaries::new("kbc-");
    let line = "kbc dev bench host broadcast --sizes 64 --algorithm chain --rounds 1 --repeat 1 --no-mpi";
    for (script, code, words) in [
        ("echo '{\"time_ns\":5,\"bytes\":32}'", "E567", "mine has not measured 64 bytes"),
        ("echo 'no library' >&2; exit 3", "E567", "no library"),
        ("echo '{\"time_ns\":5,\"bytes\":64,\"wrong\":7}'", "E430", "broadcast of mine"),
    ] {
        let peer = s.script("peer", script);
        let ran = s.run(&format!("{line} --peer 'mine={peer}'"), &[]);
        assert_eq!(ran.code, 1, "{script}: {}", ran.stdout);
        assert!(ran.stderr.contains(code) && ran.stderr.contains(words), "{script}: {}", ran.stderr);
    }
    // A peer that does not end is ended, with or against its will.
    for script in ["sleep 8; true", "trap '' TERM; sleep 8; true"] {
        let peer = s.script("peer", script);
        let ran = s.run(&format!("{line} --peer 'mine={peer}' --peer-limit 1"), &[]);
        assert_eq!(ran.code, 1, "{script}: {}", ran.stdout);
        let words = "broadcast of mine on 2 ranks, 64 bytes: it has not ended after 1 s";
        assert!(ran.stderr.contains("E567") && ran.stderr.contains(words), "{script}: {}", ran.stderr);
    }
    for (rest, words) in [
        ("--peer 'kbc=true'", "--peer kbc=true: write NAME=COMMAND"),
        ("--peer mine", "--peer mine: write NAME=COMMAND"),
        ("--algorithm nothing", "--algorithm nothing: none of these collectives has it"),
    ] {
        let ran = s.run(&format!("{line} {rest}"), &[]);
        assert!(ran.code == 2 && ran.stderr.contains(words), "{rest}: {} {}", ran.code, ran.stderr);
    }
    // A default that is missing is said, and one that is named has to be there.
    let ran = s.run(&line.replace("--no-mpi", ""), &[("MPICC", "none")]);
    assert!(
        ran.code == 0 && ran.stdout.contains("not measured: MPI: the compiler `none` does not run"),
        "{}",
        ran.stdout
    );
    let ran = s.run(&line.replace("--no-mpi", "--mpi mine=none,none"), &[]);
    assert!(ran.code == 1 && ran.stderr.contains("E564"), "{}", ran.stderr);
}

/// The collectives of MPI have the inputs and the comparison of the program: another operation of
/// MPI gives wrong elements.
#[cfg(unix)]
#[test]
fn collectives_of_mpi_are_compared() {
    let (Some(real), Some(launcher)) = (found(Need::MpiCompiler), found(Need::MpiLauncher)) else { return };
    if found(Need::C).is_none() {
        return;
    }
    let s = Temporaries::new("kbc-");
    let line = |mpicc: &str, what: &str, algorithms: &str| {
        format!(
            "kbc dev bench host {what} --sizes 256 {algorithms} --rounds 1 --repeat 2 --format json \
             --mpi 'some={mpicc},{}'",
            launcher.display()
        )
    };
    let real = real.to_string_lossy();
    let all = "--algorithm ring --algorithm chain --algorithm pairwise";
    let ran = s.run(&line(&real, "", all), &MPI_VARS);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let found = json(&ran);
    for of in ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"] {
        for contestant in ["kbc", "kbc/some", "some"] {
            let is_it = |r: &&Value| r["collective"] == of && r["contestant"] == contestant;
            let row = rows(&found).iter().find(is_it).unwrap_or_else(|| panic!("{of} {contestant}: {found}"));
            assert!(row["wrong"] == 0 && row["compared"].as_u64().is_some_and(|n| n > 0), "{row}");
        }
    }
    let wrong = s.script(
        "wrong",
        &format!("[ -f bench_peer.c ] && sed -i.old s/MPI_SUM/MPI_MAX/ bench_peer.c\nexec {real} \"$@\""),
    );
    let ran = s.run(&line(&wrong, "all_reduce", "--algorithm ring"), &MPI_VARS);
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    let found = json(&ran);
    let wrong = |name: &str| rows(&found).iter().any(|r| r["contestant"] == name && r["wrong"] != 0);
    assert!(wrong("some") && !wrong("kbc") && !wrong("kbc/some"), "{found}");
    assert_eq!(found["failure"]["messages"][0]["code"], "E430");
}

/// The machine file has every figure with its uncertainty, and a program runs on it.
#[test]
fn a_machine_is_calibrated() {
    if found(Need::C).is_none() {
        return;
    }
    let s = Temporaries::new("kbc-");
    let ran = s.run("kbc calibrate --sizes 1KiB,8KiB --at 4096 --repeat 2 -o here.yaml --format json", &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    let found = json(&ran);
    let sizes: Vec<&Value> = found["sizes"].as_array().expect("a list").iter().map(|s| &s["bytes"]).collect();
    assert_eq!(sizes, [1024, 4096, 8192]);
    for of in ["all", "one"] {
        for phase in ["put", "get", "copy", "combine", "f32", "f16", "bf16", "i32"] {
            let time = &found["sizes"][1][of][phase];
            let [ns, min, max] = ["ns", "min_ns", "max_ns"].map(|n| time[n].as_f64().expect("a number"));
            assert!(0.0 < min && min <= ns && ns <= max, "{of} {phase}: {time}");
        }
    }
    let text = String::from_utf8(s.dir.files()["here.yaml"].clone()).expect("text");
    for key in ["core_put: 64 B, ", "core_get: 64 B, ", "core_memory: ", "vector: ", "notify: "] {
        let line = text.lines().find(|l| l.starts_with(key)).unwrap_or_else(|| panic!("{key}: {text}"));
        assert!(line.contains("+- ") && line.ends_with(" %"), "{line}");
    }
    let ran = s.run("kbc run specs/all_reduce.kb -D tp=2 --no-data --topology here.yaml", &[]);
    assert!(ran.code == 0 && ran.stdout.contains("on full(2) {"), "{}{}", ran.stdout, ran.stderr);
    // Without a file, the machine file is the output.
    let ran = s.run("kbc calibrate -n 3 --sizes 4096 --at 4096 --repeat 1", &[]);
    assert!(ran.code == 0 && ran.stdout.contains("\nshape: full(3)\n"), "{}{}", ran.stdout, ran.stderr);
    let ran = s.run("kbc calibrate", &[("CC", "none")]);
    assert!(ran.code == 1 && ran.stderr.contains("E564"), "{}", ran.stderr);
}
