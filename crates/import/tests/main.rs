//! Tests of `kbc-import`; one binary, a module per subject.

mod torch;
mod verdicts;
