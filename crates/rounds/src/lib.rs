//! The algorithm language: what an algorithm, a collective and a function are, and what they mean.
//!
//! Owns the syntax tree of that half of `.kb` (LANGUAGE: functions, collectives, algorithms), the library of
//! declarations, the evaluation of an algorithm on concrete ranks to synchronous rounds, and the check of rounds
//! against a collective's promise with the errors E003..E113. It leaves parsing to the frontend and everything
//! asynchronous (slots, signals, fences) to the passes.

#[expect(clippy::large_enum_variant, reason = "a promise has a handful of clauses")]
pub mod ast;
mod bag;
mod blame;
mod chain;
pub mod checks;
pub mod claim;
pub mod cost;
mod early;
pub mod edit;
pub mod eval;
pub mod expand;
mod frame;
pub mod group;
pub mod late;
pub mod library;
pub mod meaning;
pub mod options;
pub mod promise;
pub mod ratio;
pub mod region;
pub mod repair;
pub mod rounds;
mod slice;
pub mod verify;
mod view;
pub mod write;

pub use cost::{Cost, cost};
pub use expand::expand;
pub use late::Late;
pub use library::{AlgId, CollId, Decls, LateDecls, Layer, Library};
pub use ratio::Ratio;
pub use rounds::{Call, Limits, Rounds, Transfer};
pub use verify::Verifier;
