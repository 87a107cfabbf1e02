//! Tests of `kbc-backend-ascend`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

#[path = "../../../tests/common/cases.rs"]
mod cases;

mod handmade;
mod kernels;
#[path = "../../../tests/common/needs.rs"]
mod needs;

mod chain;
mod cpp;
mod cpp_expr;
mod package;
mod text;
mod text_properties;
mod tile_passes;
mod tile_races;
mod tile_verify;
mod trace;
mod units;
