//! The hand-written schedules as machine code in a process that may not enter the interpreter's data path; results are
//! what the schedules are for, on exact inputs.

mod common;

use common::*;
use kbc_backend_sim::interp::{self, RunOptions};
use kbc_backend_sim::jit;

#[test]
fn good_schedules_are_right_without_the_interpreter() {
    interp::forbid();
    for name in &names() {
        let s = load(name);
        let feeds = inputs(&s, 3);
        let s = kbc_ir::host::spelled(&s);
        let code = jit::compile(&s).unwrap_or_else(|d| panic!("{name}: {d:#?}"));
        for seed in (0..5).map(Some).chain([None]) {
            let options = RunOptions { calls: 4, seed, ..RunOptions::default() };
            let result = code.run(&feeds, &options).unwrap_or_else(|d| panic!("{name}: {d:#?}"));
            assert_right(name, &s, &feeds, &result);
        }
    }
    // The switch works: the interpreter itself cannot run any more.
    let s = load(&names()[0]);
    let feeds = inputs(&s, 1);
    let entered = std::panic::catch_unwind(|| interp::run(&s, &feeds, &RunOptions::default()).is_ok());
    assert!(entered.is_err());
}
