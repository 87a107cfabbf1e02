//! Programs of the system that some tests need and a Rust toolchain does not bring: compilers of C
//! and C++, MPI, Chromium, Python.
//!
//! [`found`] is the only way to one of them. If it is missing, the caller gets `None` and leaves
//! out what needs it; the test counts as skipped. When the test binary ends, it prints one line for
//! each program that was missing, with the tests that were skipped, after the summary of the
//! harness. If `KBC_NO_SKIPS` is set, a missing program fails the test.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Mutex, Once, PoisonError};

/// A program of the system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(dead_code, reason = "every test binary uses its part")]
pub enum Need {
    /// A compiler of C11: `CC`, or `cc`.
    C,
    /// A compiler of C++17: `CXX`, or `g++`.
    Cxx,
    /// A compiler of MPI: `MPICC`, or `mpicc`.
    MpiCompiler,
    /// A launcher of MPI: `MPIRUN`, or `mpirun`.
    MpiLauncher,
    /// A browser that runs the checks of report pages: `KBC_CHROMIUM`, or a Chromium on `PATH`.
    Chromium,
    /// Python 3.
    Python,
}

/// Variables with which Open MPI runs as any user, and with more ranks than processors. Other
/// launchers do not read them.
#[allow(dead_code, reason = "every test binary uses its part")]
pub const MPI_VARS: [(&str, &str); 4] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
];

impl Need {
    /// The environment variable that names the program, if there is one, and the names that are
    /// tried otherwise.
    fn names(self) -> (Option<&'static str>, &'static [&'static str]) {
        match self {
            Need::C => (Some("CC"), &["cc"]),
            Need::Cxx => (Some("CXX"), &["g++"]),
            Need::MpiCompiler => (Some("MPICC"), &["mpicc"]),
            Need::MpiLauncher => (Some("MPIRUN"), &["mpirun"]),
            Need::Chromium => (Some("KBC_CHROMIUM"), &["chromium", "chromium-browser", "google-chrome"]),
            Need::Python => (None, &["python3"]),
        }
    }

    /// What is missing, and what to do about it.
    fn words(self) -> &'static str {
        match self {
            Need::C => "no C compiler (install gcc, or set CC)",
            Need::Cxx => "no C++ compiler (install g++, or set CXX)",
            Need::MpiCompiler => "no compiler of MPI (install libmpich-dev or libopenmpi-dev, or set MPICC)",
            Need::MpiLauncher => "no launcher of MPI (install mpich or openmpi-bin, or set MPIRUN)",
            Need::Chromium => "no browser (install chromium, or set KBC_CHROMIUM)",
            Need::Python => "no Python (install python3)",
        }
    }
}

/// Tests that were skipped in this process, by what they lacked.
static SKIPPED: Mutex<BTreeMap<Need, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

/// Returns the name of a program that runs, or notes that the running test is skipped.
///
/// Panics if an environment variable names a program that does not run, and if `KBC_NO_SKIPS` is
/// set and there is no program.
pub fn found(need: Need) -> Option<OsString> {
    static TRIED: Mutex<BTreeMap<Need, Option<OsString>>> = Mutex::new(BTreeMap::new());
    let tried = TRIED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(need)
        .or_insert_with(|| find(need))
        .clone();
    if tried.is_none() {
        let test = std::thread::current().name().unwrap_or("a thread of a test").to_owned();
        let strict = std::env::var_os("KBC_NO_SKIPS").is_some_and(|v| !v.is_empty());
        assert!(!strict, "{}; KBC_NO_SKIPS is set, so {test} cannot be skipped", need.words());
        static AT_EXIT: Once = Once::new();
        AT_EXIT.call_once(at_exit);
        SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).entry(need).or_default().insert(test);
    }
    tried
}

fn find(need: Need) -> Option<OsString> {
    let (variable, names) = need.names();
    let named = variable.and_then(|v| Some((v, std::env::var_os(v).filter(|name| !name.is_empty())?)));
    if let Some((variable, name)) = named {
        assert!(runs(&name), "{variable} is {}, which does not run", name.display());
        return Some(name);
    }
    names.iter().map(OsString::from).find(runs)
}

/// Whether a program can be started and tells its version.
fn runs(name: &OsString) -> bool {
    let mut command = Command::new(name);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|s| s.success())
}

/// Has [`say`] called when the process ends, which is after the summary of the harness.
#[allow(unsafe_code, reason = "the harness ends the process itself; nothing else runs after it")]
fn at_exit() {
    // SAFETY: `say` takes no arguments, returns, and does not unwind: it ignores errors of writing
    // and locks that a panic left.
    unsafe { libc::atexit(say) };
}

extern "C" fn say() {
    let skipped = SKIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = String::new();
    for (need, tests) in &*skipped {
        let names = tests.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let (n, s) = (tests.len(), if tests.len() == 1 { "" } else { "s" });
        text += &format!("SKIPPED, or skipped in part, {n} test{s}: {}: {names}\n", need.words());
    }
    // Not through `eprint!`, whose text the harness keeps for itself.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
