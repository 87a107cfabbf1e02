//! Failure: the reason why a step of the compiler ended early, and the kind of the mistake.

use kbc_diag::{Diagnostic, Diagnostics, FailureKind, Severity, SourceMap, render};

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
    /// Its kind, as JSON states it.
    pub fn kind(&self) -> FailureKind {
        match self {
            Failure::Program(d) => match FailureKind::of_all(d) {
                // A file that a program names cannot be read: the program is at fault.
                FailureKind::Usage => FailureKind::Invalid,
                kind => kind,
            },
            Failure::Usage(_) => FailureKind::Usage,
            Failure::Bug(_) => FailureKind::Bug,
        }
    }

    /// The failure as JSON: its kind, the exit code and the messages.
    pub fn json(&self, map: &SourceMap) -> serde_json::Value {
        let all = self.messages().clone().finish();
        let messages: Vec<_> = all.list.iter().map(|d| render::to_json(d, map)).collect();
        serde_json::json!({ "kind": self.kind().name(), "exit": self.exit_code(), "messages": messages })
    }

    /// Its messages.
    pub fn messages(&self) -> &Diagnostics {
        let (Failure::Program(d) | Failure::Usage(d) | Failure::Bug(d)) = self;
        d
    }

    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Program(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Bug(_) => 101,
        }
    }

    /// Its messages and the exit code of the process.
    pub fn into_parts(self) -> (Diagnostics, u8) {
        let code = self.exit_code();
        let (Failure::Program(d) | Failure::Usage(d) | Failure::Bug(d)) = self;
        (d, code)
    }
}

/// Whether messages are about kbc and not about the input.
pub fn is_bug(found: &Diagnostics) -> bool {
    found.list.iter().any(|d| d.severity == Severity::Error && FailureKind::of(d.code) == FailureKind::Bug)
}

impl From<Diagnostics> for Failure {
    fn from(d: Diagnostics) -> Self {
        if is_bug(&d) {
            return Failure::Bug(d);
        }
        let mut errors = d.list.iter().filter(|d| d.severity == Severity::Error).peekable();
        if errors.peek().is_some() && errors.all(|d| FailureKind::of(d.code) == FailureKind::Usage) {
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
