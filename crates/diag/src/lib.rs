//! Source positions and diagnostics.
//!
//! This crate owns spans, source files, diagnostics, the table of codes and the three renderings
//! (human, short, json). It is the only crate that depends on ariadne. It never reads a file, never
//! prints and never looks at a terminal: the driver supplies the text and writes out the result.

pub mod codes;
pub mod diagnostic;
pub mod escape_controls;
pub mod kind;
pub mod memory;
pub mod nearest;
pub mod place_fallback;
pub mod render;
pub mod span;

pub use diagnostic::{Diagnostic, Diagnostics, Edit, Label, Severity};
pub use escape_controls::escape_controls;
pub use kind::FailureKind;
pub use span::{FileId, SourceFile, SourceMap, Span, Spanned, Text};
