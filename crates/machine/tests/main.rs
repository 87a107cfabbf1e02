//! Tests of `kbc-machine`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

mod bounds;
mod boxes;
mod failed;
mod failed_nodes;
mod graph;
mod memory;
mod narrow_cuts;
mod routing;
mod stated_routes;
mod switches;
mod topology;
mod units;
