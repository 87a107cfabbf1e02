//! Tests of `kbc-ir`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

mod attributes;
mod fmt;
mod grammar;
mod json;
mod text;
mod text_docs;
mod text_properties;
mod units;
mod validate;
mod verify;
