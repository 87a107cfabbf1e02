//! Long tests: whether they run all of their cases or a sample.
//!
//! [`all_cases`] is the only way to that decision. A test that runs a sample says so on standard
//! error. `.ci/run` asks for all cases.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// The environment variable that asks for all cases.
const VARIABLE: &str = "KBC_ALL_CASES";

/// Whether all cases are asked for.
pub fn asked() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|v| !v.is_empty())
}

/// Whether the running test runs all of its cases. If not, it runs a sample, which is said once.
pub fn all_cases() -> bool {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if asked() {
        return true;
    }
    let test = std::thread::current().name().unwrap_or("a thread of a test").to_owned();
    let line = format!("SAMPLED: {test} leaves cases out; {VARIABLE}=1 runs all\n");
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(test) {
        // Not through `eprint!`, whose text the harness keeps for itself.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    false
}
