//! Template log: what an expansion notes for the templates that are being made.

use kbc_diag::Span;

/// An executed `scratch` statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoggedScratch {
    pub ordinal: u32,
    pub span: Span,
    pub len: u32,
    pub buffer: u32,
}

/// What an expansion notes for the templates that are being made.
#[derive(Default)]
pub(crate) struct TemplateLog {
    /// Branches that were entered.
    pub lanes: Vec<u32>,
    /// For each branch, one more than its last index in `lanes`.
    pub logged: Vec<usize>,
    /// Length of `lanes` when the innermost use began.
    pub since: usize,
    pub scratch: Vec<LoggedScratch>,
}

impl TemplateLog {
    /// Notes that a branch was entered.
    pub fn lane(&mut self, id: u32) {
        let id = id as usize;
        if self.logged.len() <= id {
            self.logged.resize(id + 1, 0);
        }
        if self.logged[id] <= self.since {
            self.lanes.push(id as u32);
            self.logged[id] = self.lanes.len();
        }
    }

    /// Notes a `scratch` statement.
    pub fn scratch(&mut self, scratch: LoggedScratch) {
        self.scratch.push(scratch);
    }
}
