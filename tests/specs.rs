//! Tests of every file under specs/: programs are proven, executed on every rank, compared and
//! timed; files of algorithms are proven. To add a case, add a file to specs/.

use crate::common;

use common::{Ran, Scratch, kbc, root};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Collects all `.kb` files below a folder, by their path from the root.
fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|e| e == "kb") {
            out.push(path.strip_prefix(root()).expect("below the root").to_owned());
        }
    }
    out.sort();
}

fn report(ran: &Ran, what: &str) -> Value {
    assert_eq!(ran.code, 0, "{what}\n{}", ran.stderr);
    assert_eq!(ran.stderr, "", "{what}");
    assert_eq!(ran.stdout.lines().count(), 1, "one object on one line");
    serde_json::from_str(&ran.stdout).expect("one JSON object")
}

/// Checks a program's report: proven, every element right, and no time below its bound, also for
/// each collective.
fn sound(r: &Value, what: &str) {
    assert_eq!((&r["schema"], &r["ok"]), (&1.into(), &true.into()), "{what}");
    assert_eq!((&r["verified"]["ok"], &r["verified"]["calls"]), (&true.into(), &"any".into()), "{what}");
    assert_eq!(r["compare"]["mismatches"], 0, "{what}");
    assert!(r["compare"]["elements"].as_u64() > Some(0), "{what}");
    let (time, bound) = (r["time_ns"].as_f64().expect("a time"), r["bound_ns"].as_f64().expect("a bound"));
    // Between two PEs of a cube, only memories limit the machine of that file, and there is no row
    // for them.
    let limited = !what.contains("transfers_pe_to_pe");
    assert!((bound > 0.0) == limited && time >= bound * (1.0 - 1e-9), "{what}: {time} ns, bound {bound} ns");
    let all = r["collectives"].as_array().expect("a list");
    let alone = r["mesh"].as_array().is_some_and(|axes| axes.iter().all(|a| a["size"] == 1));
    assert!(all.is_empty() == alone, "{what}");
    for c in all {
        let percent = c["percent"].as_f64().unwrap_or(0.0);
        assert!((percent > 0.0) == limited && percent <= 100.0 + 1e-6, "{what}: {percent} %");
        assert!(c["algorithm"].as_str().is_some_and(|a| !a.is_empty()), "{what}");
    }
    let ends: Vec<f64> =
        r["critical_path"].as_array().expect("a list").iter().filter_map(|s| s["end_ns"].as_f64()).collect();
    let last = ends.last().copied().expect("a step");
    assert!((last - time).abs() <= 1e-6 * time, "{what}: the path ends at {last}, the call at {time}");
}

#[test]
fn every_file_is_right() {
    let mut all = vec![];
    files(&root().join("specs"), &mut all);
    assert!(all.len() > 10);
    let (mut programs, mut libraries) = (0, 0);
    for path in all {
        let name = path.to_string_lossy();
        let text = std::fs::read_to_string(root().join(&path)).expect("found above");
        let library = path.starts_with("specs/lib");
        let program = text.lines().any(|l| l.starts_with("program ") || l.starts_with("local program "));
        let program = program && !library;
        if program || path.starts_with("specs/algorithms") {
            let mut args = vec!["compile", &name, "--target", "sim", "--format", "json"];
            args.extend(common::free_sizes(&name, &text));
            let r = report(&kbc(root(), &args, ""), &name);
            sound(&r, &name);
            programs += 1;
        }
        if library || !program {
            let r = report(&kbc(root(), &["check", &name, "--format", "json"], ""), &name);
            let declared = text.lines().filter(|l| l.starts_with("algorithm ")).count();
            assert_eq!(
                r["algorithms"].as_array().map(Vec::len),
                Some(declared),
                "{name}: every algorithm is checked"
            );
            for a in r["algorithms"].as_array().expect("a list") {
                // Few grids have side lengths that are powers of two or three; those for two ranks,
                // and packed trees without a machine,
                // have one shape.
                let least = if a["largest"].as_u64() <= Some(2) { 1 } else { 3 };
                assert!(a["shapes"].as_u64() >= Some(least), "{name}: {a}");
            }
            libraries += 1;
        }
    }
    assert!(programs >= 8 && libraries >= 5, "{programs} programs, {libraries} libraries");
}

/// Barriers in each form, as text (SYNC-2): proven for any call, right under the adversaries, and
/// their signals counted.
#[test]
fn barriers_in_each_form_are_right() {
    let files = std::fs::read_dir(root().join("specs/barriers")).expect("a folder");
    let mut names: Vec<String> =
        files.map(|f| f.expect("a file").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    assert_eq!(names.len(), 6);
    for name in names {
        let file = format!("specs/barriers/{name}");
        let r = report(&kbc(root(), &["check", &file, "--format", "json"], ""), &file);
        assert_eq!((&r["verified"]["ok"], &r["verified"]["calls"]), (&true.into(), &"any".into()), "{file}");
        let run = ["run", &file, "--adversarial", "--format", "json"];
        let r = report(&kbc(root(), &run, ""), &file);
        assert_eq!(r["ok"], true, "{file}");
        assert!(r["adversarial"]["elements"].as_u64() > Some(0), "{file}: {}", r["adversarial"]);
        let r = report(&kbc(root(), &["check", "--sync", &file, "--format", "json"], ""), &file);
        let (kind, form) = name.trim_end_matches(".kir").split_once('_').expect("two words");
        let barriers: Vec<&Value> =
            r["signals"].as_array().expect("a list").iter().filter(|s| s["use"] == "barrier").collect();
        assert!(barriers.iter().all(|s| s["form"] == form), "{file}");
        let notifies: u64 = barriers.iter().filter_map(|s| s["notifies"].as_u64()).sum();
        // Three barriers per call: 7 notifies to one rank and 7 back, or 8 in each of 3 rounds.
        assert_eq!(notifies, if kind == "central" { 3 * 14 } else { 3 * 24 }, "{file}");
        let several = barriers.iter().any(|s| s["writers"].as_u64() > Some(1));
        assert_eq!(several, name == "central_clearing.kir", "{file}");
    }
}

/// The layer with published weights, on any number of devices: the evaluator's bound and the stored
/// result both hold.
#[test]
fn the_layer_is_right_on_any_number_of_devices() {
    for tp in [1, 2, 3, 4, 5, 8] {
        let define = format!("tp={tp}");
        let ran = kbc(root(), &["compile", "specs/ffn_tp.kb", "-D", &define, "--format", "json"], "");
        let r = report(&ran, &define);
        assert_eq!((&r["ok"], &r["verified"]["ok"]), (&true.into(), &true.into()), "tp = {tp}");
        for c in [&r["compare"], &r["expect"][0]] {
            assert_eq!(
                (&c["elements"], &c["mismatches"]),
                (&(9600 * tp).into(), &0.into()),
                "tp = {tp}: {c}"
            );
            let worst = c["max_err"].as_f64().expect("finite");
            assert!(worst > 0.0 && worst <= 1.0, "tp = {tp}: {worst} of the bound");
        }
    }
}

/// Layers that `expect` rejects: each is another layer, with which its own evaluator agrees.
/// (tests/real_input.rs finds smaller faults with a tolerance of its own.)
#[test]
fn another_layer_is_rejected_by_the_stored_result() {
    let text = std::fs::read_to_string(root().join("specs/ffn_tp.kb")).expect("the spec");
    let faults = [
        ("the second bias missing", "matmul(h, w2) + b2", "matmul(h, w2) + 0 * b2"),
        ("the second bias doubled", "matmul(h, w2) + b2", "matmul(h, w2) + b2 + b2"),
        ("the first bias missing", "matmul(x, w1) + b1", "matmul(x, w1) + 0 * b1"),
    ];
    let scratch = Scratch::new();
    for (what, right, wrong) in faults {
        assert_eq!(text.matches(right).count(), 1, "{right}");
        scratch.write("specs/other.kb", text.replace(right, wrong).as_bytes());
        for tp in [1, 4, 5] {
            let define = format!("tp={tp}");
            let ran =
                kbc(scratch.path(), &["compile", "specs/other.kb", "-D", &define, "--format", "json"], "");
            let r: Value = serde_json::from_str(&ran.stdout).expect("a report is printed in spite of it");
            assert_eq!((ran.code, &r["ok"]), (1, &false.into()), "{what}, tp = {tp}");
            assert_eq!(r["compare"]["mismatches"], 0, "{what}, tp = {tp}: it means what it says");
            let wrong = r["expect"][0]["mismatches"].as_u64().expect("a number");
            assert!(wrong > 0, "{what}, tp = {tp}");
            assert!(ran.stderr.contains("[E430]"), "{}", ran.stderr);
        }
    }
}

/// An all-reduce on several machines; if the axis has two parts, it may use an algorithm for grids.
#[test]
fn an_all_reduce_on_every_machine() {
    for machine in
        ["ring(4)", "ring(7)", "full(8)", "torus(2,3)", "mesh(2,3)", "ring(1)", "mesh(5)", "torus(3,3)"]
    {
        for n in ["1000", "1", "0", "5"] {
            let n = format!("n={n}");
            let args =
                ["compile", "specs/all_reduce.kb", "--topology", machine, "-D", &n, "--format", "json"];
            let r = report(&kbc(root(), &args, ""), machine);
            assert_eq!((&r["ok"], &r["verified"]["ok"]), (&true.into(), &true.into()), "{machine}, {n}");
            assert_eq!(r["compare"]["mismatches"], 0, "{machine}, {n}");
            let nothing = machine == "ring(1)" || n == "n=0";
            assert_eq!(
                r["collectives"][0]["percent"].is_null(),
                nothing,
                "{machine}, {n}: {}",
                r["collectives"][0]
            );
        }
    }
}
