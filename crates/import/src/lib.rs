//! Import of foreign formats: schedules in the XML format of MSCCL, and local programs that PyTorch
//! exported or printed.
//!
//! This crate owns the readers of these formats and the meaning of what they contain. It takes text
//! and bytes and returns modules of the IR, facts about the file, and messages. The driver (`src`)
//! reads files, runs the checker, executes schedules and prints reports. Nothing that is imported
//! is trusted: the checker proves it like any other schedule.

pub mod msccl;
pub mod torch;
