//! Unit tests: parts of the crate by themselves, a module for each module of the crate.

mod fault;
mod library;
mod library_parameters;
mod migrate;
mod nesting;
mod yaml;
