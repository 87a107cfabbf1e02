//! Published figures: files that state them, and what kbc computes for the same programs.

pub mod file;
pub mod measured;

pub use file::{Reference, in_ns, read};
pub use measured::{MeasuredFile, Row, human, one};
