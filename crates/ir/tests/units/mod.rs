//! Unit tests: parts of the crate by themselves, a module for each module of the crate.

mod classes;
mod congruence;
mod cut;
mod dtype;
mod expr;
mod fill;
mod form;
mod graph;
mod grouped;
mod interval;
mod linear_form;
mod match_collectives;
mod parts;
mod ready;
mod shape;
mod walk;
