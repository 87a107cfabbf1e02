//! Sweeps: grids of runs that a file describes (docs/sweep.md).
//!
//! [`spec`] owns the form of the file, [`grid`] its rows, [`row`] what a row finds, [`cache`] what is kept of it, [`run`] how rows
//! are executed side by side, [`table`] their forms as text, [`figures`] what is drawn of them, [`merge`] putting shards together. Files and the terminal are the
//! verb's, [`crate::commands::sweep`].

pub mod cache;
pub mod figures;
pub mod grid;
pub mod merge;
pub mod row;
pub mod run;
pub mod spec;
pub mod table;

pub use grid::{Grid, Point};
pub use row::{Facts, Status};
pub use spec::Spec;
