//! Unit tests: parts of the crate by themselves, a module for each module of the crate.

mod calls;
mod deferred;
mod store;
