//! Tests of `kbc-time`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

#[path = "../../backend-sim/tests/common/mod.rs"]
mod common;
#[path = "../../passes/tests/stack/mod.rs"]
mod stack;
mod time_kit;

mod adaptive;
mod bounds;
mod cores;
mod dataflow;
mod host;
mod inside;
mod memories;
mod model;
mod observe;
mod orbits;
mod queue_time;
mod queues;
mod relays;
mod rules;
mod simulators;
mod switches;
