//! Text forms of PyTorch programs: `print(ep)` and `print_readable`.
//!
//! [`parse`] reads statements, [`written`] makes the model of them that every reader makes.

pub mod parse;
mod sizes;
mod token;
pub mod types;
pub mod written;
