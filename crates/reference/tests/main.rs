//! Tests of `kbc-reference`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

mod reference_util;

mod blocks;
mod bounds;
mod deep;
mod evaluate;
mod ffn;
mod terms;
