//! Unit tests: parts of the crate by themselves, a module for each module of the crate.

mod agree;
mod cost;
mod direction;
mod fresh;
mod late;
mod part_of;
