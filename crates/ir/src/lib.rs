//! The intermediate representation (IR) of kbc: types, expressions, programs as graphs, and
//! schedules.
//!
//! The crate owns the data model, its text form (`.kir`), its verifier, and the walk through which
//! every reader of schedules learns what a rank does. It depends on no file, terminal or clock,
//! knows no `.kb` syntax and no backend, and never prints.

pub mod algebra;
pub mod attributes;
pub mod collective;
pub mod congruence;
pub mod contract;
pub mod contract_sides;
pub mod contract_std;
pub mod contract_terms;
pub mod cut;
pub mod dot;
pub mod dtype;
pub mod expr;
pub mod fill;
pub mod form;
pub mod graph;
pub mod grouped;
pub mod host;
pub mod interval;
pub mod linear;
mod linear_form;
pub mod local;
pub mod local_op;
pub mod match_collectives;
pub mod module;
pub mod name;
pub mod op;
pub mod optable;
pub mod parts;
pub mod ready;
pub mod refs;
pub mod resolved;
pub mod result;
pub mod rewrite;
pub mod scalar;
pub mod schedule;
pub mod shape;
#[doc(hidden)]
pub mod testing;
pub mod text;
pub mod tiles;
pub mod types;
pub mod uses;
pub mod verify;
pub mod visit;
pub mod walk;

pub use expr::Expr;
pub use module::{Body, Module, Props};
pub use name::Name;
pub use parts::Parts;
