//! Tests of `kbc-synthesis`; one binary, a module per subject.

mod brute;
mod checker;
mod figures;
mod mutation;
mod refusals;
mod regular;
mod rounds;
mod speed;
mod topologies;
mod varied;
