//! Positions in source text and messages about them.
//!
//! Owns spans, source files, diagnostics, the table of codes and the three renderings (human, short, json).
//! It is the only crate that knows ariadne. It never reads a file, never prints and never looks at a terminal:
//! the driver hands in text and writes out what comes back.

pub mod codes;
pub mod diagnostic;
pub mod nearest;
pub mod render;
pub mod settle;
pub mod span;
pub mod visible;

pub use diagnostic::{Diagnostic, Diagnostics, Label, Severity};
pub use span::{FileId, SourceFile, SourceMap, Span, Spanned, Text};
pub use visible::visible;
