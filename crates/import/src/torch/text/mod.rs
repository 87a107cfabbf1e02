//! Printed PyTorch programs: `print(ep)` and `print_readable`.
//!
//! [`parse`] reads the statements. [`written`] turns them into the same model that the other
//! readers produce.

pub mod parse;
mod sizes;
mod token;
pub mod types;
pub mod written;
