//! Unit tests: parts of the crate by themselves, a module for each module of the crate.

mod chains;
mod clock;
mod filled;
mod orbits;
mod ranks;
mod sparse;
mod typing;
mod waits;
