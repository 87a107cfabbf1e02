//! Tests of `kbc-synthesis`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

mod all_to_all;
mod attained;
mod brute;
mod checker;
mod figures;
mod flow_checker;
mod matching;
mod mutation;
mod reach;
mod refusals;
mod regular;
mod relayed;
mod rounds;
mod speed;
mod streams;
mod timed;
mod topologies;
mod varied;
