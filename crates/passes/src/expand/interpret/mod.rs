//! Interpretation of an algorithm: its text as a tree of rounds, with the rank and the steps as
//! variables. This part knows nothing of slots, signals and operations.

#[cfg(test)]
mod agree;
mod body;
mod builder;
mod group;
mod lanes;
mod nodes;
mod options;
mod promise;
mod region;
mod sym;
mod together;
mod view;

pub(in crate::expand) use builder::{At, Builder, MAX_UNROLLED};
pub(in crate::expand) use group::{Group, World};
pub(in crate::expand) use nodes::{Node, Transfer};
pub(in crate::expand) use options::{Options, refused};
pub(in crate::expand) use promise::promise;
pub use promise::promise_of;
pub(in crate::expand) use region::{Cx, Fresh, Gen, Region};
pub(in crate::expand) use sym::{Evaluator, IntoStop, Ranges, Res, Stop, Sym, linear, not_symbolic, strip};
