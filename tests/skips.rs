//! Tests that a test without a program of the system that it needs is skipped aloud, and fails
//! where nothing may be skipped.

use crate::common::Scratch;
use std::process::Command;

/// A test for each program that tests may need, and words of the line about it.
const SKIPPED: [(&str, &str); 6] = [
    ("host::wrong_arguments_are_refused", "no C compiler"),
    ("ascend::damage_is_named", "no C++ compiler"),
    ("mpi::what_is_wrong_ends_all_ranks", "no compiler of MPI"),
    ("launch::over_mpi", "no launcher of MPI"),
    ("page::a_browser_runs_its_own_checks", "no browser"),
    ("real_array::a_missing_runtime_is_no_success", "no Python"),
];

/// Runs the tests of [`SKIPPED`] in a process whose `PATH` is an empty folder.
fn without_programs(strict: &str) -> std::process::Output {
    let scratch = Scratch::new();
    let empty = scratch.path().join("empty");
    std::fs::create_dir(&empty).expect("can be written");
    Command::new(std::env::current_exe().expect("the test's own program"))
        .args(SKIPPED.map(|s| s.0))
        .arg("--exact")
        .env("PATH", &empty)
        .env("KBC_NO_SKIPS", strict)
        .env_remove("CC")
        .env_remove("CXX")
        .env_remove("MPICC")
        .env_remove("MPIRUN")
        .env_remove("KBC_CHROMIUM")
        .output()
        .expect("it runs")
}

#[test]
fn what_is_skipped_is_said() {
    let out = without_programs("");
    let (said, stdout) = (String::from_utf8_lossy(&out.stderr), String::from_utf8_lossy(&out.stdout));
    assert!(out.status.success() && stdout.contains("6 passed"), "{stdout}{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), SKIPPED.len(), "{said}");
    for (line, (test, words)) in lines.iter().zip(SKIPPED) {
        assert!(line.starts_with("SKIPPED") && line.contains(words) && line.ends_with(test), "{line}");
    }
}

#[test]
fn nothing_is_skipped_where_that_is_forbidden() {
    let out = without_programs("1");
    let stdout = String::from_utf8_lossy(&out.stdout);
    assert!(!out.status.success() && stdout.contains("6 failed"), "{stdout}");
    for (test, words) in SKIPPED {
        let line = format!("KBC_NO_SKIPS is set, so {test} cannot be skipped");
        assert!(stdout.contains(words) && stdout.contains(&line), "{test}: {stdout}");
    }
}

/// Returns what a test says that leaves cases out if the variable has this value.
fn sampled(all: &str) -> String {
    let out = Command::new(std::env::current_exe().expect("the test's own program"))
        .args(["real_array::every_size_is_claimed_by_its_package", "--exact"])
        .env("KBC_ALL_CASES", all)
        .output()
        .expect("it runs");
    assert!(out.status.success(), "{out:?}");
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn a_sample_is_said() {
    let line = "SAMPLED: real_array::every_size_is_claimed_by_its_package leaves cases out";
    assert!(sampled("").starts_with(line));
}
