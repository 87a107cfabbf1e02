//! Scale: how the cost of kbc itself grows with size, case by case.
//!
//! * [`cases`] holds the table of cases, which is `specs/bench/scale.yaml`.
//! * [`inputs`] makes the command and the files of a case at a size.
//! * [`report`] summarises the processes that a caller has measured, and [`slope`] fits how fast
//!   their cost grows.
//!
//! The module starts no process and writes no file: its caller does.

pub mod cases;
pub mod inputs;
pub mod report;
pub mod slope;
