//! Interpretation of an algorithm: its text as a tree of rounds, with the rank and the steps as
//! variables. This part knows nothing of slots, signals and operations.

mod body;
mod builder;
mod contract;
mod group;
mod lanes;
mod nodes;
mod options;
mod region;
mod sym;
mod together;
mod view;

pub(in crate::expand) use builder::{ActiveRanks, Builder, MAX_UNROLLED};
pub(in crate::expand) use contract::contract;
pub use contract::contract_of;
pub(in crate::expand) use group::{Group, World};
pub(in crate::expand) use nodes::{Bound, Node, Transfer};
pub(crate) use options::refused;
pub(in crate::expand) use options::{Mover, Options};
pub(in crate::expand) use region::{Cx, Gen, Region};
pub(crate) use sym::symbolic_number;
pub(in crate::expand) use sym::{Evaluator, IntoStop, Ranges, Res, Stop, Sym, not_symbolic, strip};
