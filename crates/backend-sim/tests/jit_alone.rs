//! Tests of the hand-written schedules as machine code in a process that may not enter the
//! interpreter's data path. On exact inputs, the results are those that the schedules are meant to
//! compute.

use crate::common;

use common::*;
use kbc_backend_sim::data_path;
use kbc_backend_sim::interp::{self, RunOptions};
use kbc_backend_sim::jit;

#[test]
#[ignore = "runs in a process of its own"]
fn good_schedules_are_right_without_the_interpreter() {
    data_path::forbid();
    for name in &names() {
        let s = load(name);
        let feeds = inputs(&s, 3);
        let s = kbc_ir::host::with_host_region(&s);
        let code = jit::compile(&s).unwrap_or_else(|d| panic!("{name}: {d:#?}"));
        for seed in (0..5).map(Some).chain([None]) {
            let options = RunOptions { calls: 4, seed, ..RunOptions::default() };
            let result = code.run(&feeds, &options).unwrap_or_else(|d| panic!("{name}: {d:#?}"));
            assert_right(name, &s, &feeds, &result);
        }
    }
    // The switch works: the interpreter itself can no longer run.
    let s = load(&names()[0]);
    let feeds = inputs(&s, 1);
    let entered = std::panic::catch_unwind(|| interp::run(&s, &feeds, &RunOptions::default()).is_ok());
    assert!(entered.is_err());
}

/// Runs the ignored tests of this module in a process of their own, because the switch cannot be
/// undone.
#[test]
fn in_a_process_of_its_own() {
    let exe = std::env::current_exe().expect("the path of this binary");
    let out = std::process::Command::new(exe)
        .args(["--ignored", "jit_alone::"])
        .output()
        .expect("it can be started once more");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("ok. 1 passed"), "{text}");
}
