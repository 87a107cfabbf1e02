//! Unit tests: parts of the crate by themselves, a module for each module of the crate.

mod grid;
mod host_bench;
mod kernels;
mod prepare;
mod scale;
mod table;
mod tables;
