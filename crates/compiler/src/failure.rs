//! Failure: the reason why a step of the compiler ended early, and the kind of the mistake.

use kbc_diag::{Diagnostic, Diagnostics, Severity};

/// Why a step ended early.
#[derive(Debug)]
pub enum Failure {
    /// The input is wrong: exit code 1 of the command line.
    Program(Diagnostics),
    /// Wrong usage, or a file that cannot be read or written: exit code 2.
    Usage(Diagnostics),
    /// kbc contradicts itself: exit code 101, as for a panic.
    Bug(Diagnostics),
}

impl Failure {
    /// Its messages and the exit code of the process.
    pub fn into_parts(self) -> (Diagnostics, u8) {
        match self {
            Failure::Program(d) => (d, 1),
            Failure::Usage(d) => (d, 2),
            Failure::Bug(d) => (d, 101),
        }
    }
}

/// Whether messages are about kbc and not about the input.
pub fn is_bug(found: &Diagnostics) -> bool {
    const BUGS: [&str; 6] = ["E905", "E906", "E990", "E991", "E992", "E995"];
    found.list.iter().any(|d| d.severity == Severity::Error && BUGS.contains(&d.code))
}

impl From<Diagnostics> for Failure {
    fn from(d: Diagnostics) -> Self {
        // Files and folders (E41x), values on the command line (E42x), and `-p` (E902 to E904).
        let usage = |code: &str| {
            code.starts_with("E41") || code.starts_with("E42") || ("E902"..="E904").contains(&code)
        };
        if is_bug(&d) {
            return Failure::Bug(d);
        }
        let mut errors = d.list.iter().filter(|d| d.severity == Severity::Error).peekable();
        if errors.peek().is_some() && errors.all(|d| usage(d.code)) {
            Failure::Usage(d)
        } else {
            Failure::Program(d)
        }
    }
}

impl From<Diagnostic> for Failure {
    fn from(d: Diagnostic) -> Self {
        Diagnostics::from(d).into()
    }
}

/// What a step yields.
pub type Outcome<T = ()> = Result<T, Failure>;
