//! Unit tests: parts of the crate by themselves, a module for each module of the crate.

mod crossover;
mod place;
mod quantities;
mod text;
mod theme;
