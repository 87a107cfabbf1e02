//! A sample of `kbc dev mutate` (SYNC-7): a few hundred mutants of several algorithms on lines,
//! tori and meshes. None escapes the checker, no correct schedule is rejected, and the counts add
//! up.

use crate::common;

use common::{kbc, root};
use serde_json::Value;

fn report(args: &[&str]) -> (Value, i32) {
    let out = kbc(root(), args, "");
    let json =
        serde_json::from_str(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", out.stdout, out.stderr));
    (json, out.code)
}

fn number(v: &Value, name: &str) -> u64 {
    v[name].as_u64().unwrap_or_else(|| panic!("{name} in {v}"))
}

/// Checks that `mutants = rejected + escaped + equivalent + unclassified`, and that parts are no
/// larger than wholes.
fn adds_up(v: &Value) {
    let n = |name| number(v, name);
    assert_eq!(n("mutants"), n("rejected") + n("escaped") + n("equivalent") + n("unclassified"), "{v}");
    assert!(n("refused") <= n("rejected") && n("rejected_but_equivalent") <= n("rejected"), "{v}");
}

#[test]
fn no_mutant_of_the_library_escapes() {
    let args =
        ["mutate", "--ranks", "2..4", "--limit", "440", "--seed", "7", "--events", "40000", "--runs", "60"];
    let (r, code) = report(&[&args[..], &["--format", "json"]].concat());
    let escaped = r["escaped_list"].as_array().expect("a list");
    assert!(escaped.is_empty(), "{escaped:#?}");
    let alarms = r["false_alarm_list"].as_array().expect("a list");
    assert!(alarms.is_empty(), "{alarms:#?}");
    assert_eq!((r["ok"].as_bool(), code), (Some(true), 0));
    adds_up(&r);
    assert!(number(&r, "mutants") >= 300 && number(&r, "algorithms") >= 10, "{}", number(&r, "mutants"));
    assert!(number(&r, "rejected") > number(&r, "mutants") / 2);
    assert_eq!(
        number(&r, "equivalent") + number(&r, "rejected_but_equivalent"),
        number(&r, "explored") + number(&r, "sampled")
    );
    // Lines, operators and targets count the same mutants.
    for list in ["operators", "targets", "classes"] {
        let lines = r[list].as_array().expect("a list");
        lines.iter().for_each(adds_up);
        for name in ["mutants", "rejected", "equivalent", "rejected_but_equivalent"] {
            assert_eq!(lines.iter().map(|l| number(l, name)).sum::<u64>(), number(&r, name), "{list} {name}");
        }
    }
    let reasons = r["reasons"].as_array().expect("a list");
    assert_eq!(
        reasons.iter().map(|x| number(x, "count")).sum::<u64>(),
        number(&r, "rejected_but_equivalent")
    );
    assert!(
        reasons.iter().all(|x| x["why"] != "rejected without being executed"),
        "a code without a reason: {reasons:#?}"
    );
}

/// The result does not depend on the number of threads.
#[test]
fn the_answer_does_not_depend_on_threads() {
    let args =
        ["mutate", "--algorithm", "all_gather.ring", "--ranks", "3", "--limit", "60", "--format", "json"];
    let one = kbc(root(), &[&args[..], &["--jobs", "1"]].concat(), "");
    let three = kbc(root(), &[&args[..], &["--jobs", "3"]].concat(), "");
    assert_eq!(one.stdout, three.stdout);
    assert!(!one.stdout.is_empty());
}

/// A sample of `kbc dev fuzz checker`: random schedules, collectives and hand-written texts,
/// unchanged and changed. What the checker accepts does not misbehave, unchanged schedules are
/// accepted, and every code has its reason.
#[test]
fn the_checker_is_right_about_random_schedules() {
    let dir = std::env::temp_dir().join(format!("kbc-fuzz-checker-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    let dir = dir.to_string_lossy().into_owned();
    let files = ["ring_all_reduce", "broadcast_credit", "shared_window", "mesh2x3", "central_clearing"];
    let files = files.map(|f| format!("crates/ir/tests/kir/good/{f}.kir"));
    let mut args: Vec<&str> =
        vec!["fuzz", "checker", "--schedules", "300", "--seed", "11", "--events", "15000"];
    args.extend(files.iter().map(String::as_str));
    args.extend(["-o", &dir]);
    let out = kbc(root(), &args, "");
    assert_eq!(out.code, 0, "{}{}", out.stdout, out.stderr);
    let count = |word: &str| -> u64 {
        let line =
            out.stdout.lines().find(|l| l.starts_with(word)).unwrap_or_else(|| panic!("{}", out.stdout));
        line.split([' ', ':']).find_map(|w| w.parse().ok()).expect("a number")
    };
    assert!(count("accepted") > 20 && count("refused") > 60, "{}", out.stdout);
}
