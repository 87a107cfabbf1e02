//! Tests of `kbc-machine`; one binary, a module per subject.

mod bounds;
mod failed;
mod graph;
mod memory;
mod routing;
mod topology;
mod units;
