//! The algorithm language: the definition and the meaning of algorithms, collectives and functions.
//!
//! This crate owns the syntax tree of that half of `.kb` (functions, collectives, algorithms), the
//! library of declarations, and the expansion of an algorithm on concrete ranks into synchronous
//! rounds. It also checks rounds against a collective's contract, with the errors E003 to E113. The
//! frontend owns parsing, and the passes own everything asynchronous (slots, signals, fences).

#[expect(clippy::large_enum_variant, reason = "a promise has a handful of clauses")]
pub mod ast;
mod bag;
mod cells;
mod chain;
pub mod checks;
pub mod claim;
pub mod contract;
pub mod cost;
mod derived;
pub mod edit;
mod end_faults;
pub mod eval;
pub mod evaluator;
pub mod expand;
mod few;
mod fold;
mod frame;
pub mod group;
pub mod head;
pub mod interp;
pub mod lazy;
pub mod library;
pub mod meaning;
mod names;
pub mod namespace;
pub mod options;
pub mod ratio;
pub mod region;
pub mod repair;
mod round_faults;
pub mod rounds;
pub mod scope;
mod slice;
mod synchronous;
mod template;
mod template_log;
#[doc(hidden)]
pub mod testing;
pub mod verify;
mod view;
pub mod write;

pub use cost::{Cost, cost};
pub use expand::expand;
pub use lazy::LazyDecl;
pub use library::{AlgId, CollId, Decls, Layer, LazyDecls, Library};
pub use ratio::Ratio;
pub use rounds::{Call, Limits, Rounds, Transfer};
pub use verify::Verifier;
