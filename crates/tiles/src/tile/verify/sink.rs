//! Sink: the collector of the problems that the rules find.

use crate::device::Device;
use crate::tile::path::Path;
use crate::tile::text::print_op;
use crate::tile::{Kernel, Op};
use kbc_diag::Diagnostic;

/// A violation of a rule.
#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    /// Path of the statement; empty if a declaration or the end of the kernel is meant.
    pub at: Path,
    /// The message.
    pub diagnostic: Diagnostic,
}

/// Collector of the problems that the rules find.
pub(super) struct Sink<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) device: &'k dyn Device,
    pub(super) found: Vec<Problem>,
}

impl Sink<'_> {
    pub(super) fn at(&mut self, at: &[u32], diagnostic: Diagnostic) {
        self.found.push(Problem { at: at.to_vec(), diagnostic });
    }

    /// Adds a problem of an operation, with the operation as a note.
    pub(super) fn op(&mut self, at: &[u32], op: &Op, diagnostic: Diagnostic) {
        let text = format!("the operation: `{}`", print_op(self.kernel, op));
        self.at(at, diagnostic.note(text));
    }
}
