//! The intermediate representation: types, expressions, programs as graphs, and schedules.
//!
//! Owns the data model, its text form, its verifier and the walk that every reader of schedules shares. It knows nothing of files, colours, the clock,
//! of `.kb` syntax or of any backend; it never prints.

pub mod dot;
pub mod expr;
pub mod fill;
pub mod form;
pub mod graph;
pub mod grouped;
pub mod host;
pub mod linear;
pub mod local;
mod local_op;
pub mod meet;
pub mod module;
pub mod name;
pub mod optable;
pub mod parts;
pub mod promise;
pub mod promise_sides;
pub mod promise_std;
pub mod promise_terms;
pub mod result;
mod rewrite;
pub mod scalar;
pub mod schedule;
pub mod shape;
pub mod text;
pub mod tiles;
pub mod types;
pub mod verify;
pub mod visit;
pub mod walk;
mod words;

pub use expr::Expr;
pub use module::{Body, Module, Props};
pub use name::Name;
pub use parts::Parts;
