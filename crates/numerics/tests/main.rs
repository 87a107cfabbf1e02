//! Tests of `kbc-numerics`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

mod feed;
mod formats;
mod formats_minilm;
mod local;
mod numbers;
mod units;
