//! Tests of `kbc-passes`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

#[path = "../../../tests/common/cases.rs"]
mod cases;

mod common;
mod stack;

mod allocate;
mod docs;
mod enqueue;
mod expand;
mod expand_graph;
mod files;
mod fuse;
mod late;
mod library;
mod library_counts;
mod link_loads;
mod lower_queues;
mod minimal;
mod options;
mod orbits;
mod order;
mod overlap;
mod packed_network;
mod pipeline;
mod pull;
mod reshard;
mod rounds;
mod shapes;
mod side_by_side;
mod synchronize;
mod turns;
mod units;
