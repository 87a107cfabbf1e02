//! The command line of kbc: arguments and subcommands, and what they need of the system.
//!
//! To use kbc from a program, start with [`kbc_compiler`]: it compiles a source, then checks,
//! executes, times, reports and emits it, with an example of each step. Three crates build on it:
//!
//! * [`kbc_views`] shows a run: page, trace, log, pictures of machines.
//! * [`kbc_evaluation`] compares many runs: sweeps, published figures.
//! * [`kbc_audit`] tests kbc itself: random programs, mutants of schedules, emitted code.
//!
//! What is below them, in the order of a program's path: [`kbc_frontend`] reads it, [`kbc_rounds`]
//! says what its algorithms mean, [`kbc_ir`] holds it, [`kbc_passes`] makes a schedule of it,
//! `kbc_checker` proves the schedule, [`kbc_backend_sim`] executes it, [`kbc_time`] times it, and
//! [`kbc_tiles`] lowers it to kernels.
//!
//! This crate has one module per subcommand ([`commands`]); it reads the flags ([`cli`]), calls one
//! of these crates, and prints. [`session`] is their environment: it reads files and writes to the
//! terminal.

pub mod cache;
pub mod checkout;
pub mod cli;
pub mod commands;
pub mod confine;
pub mod crash;
pub mod heap;
pub mod host_program;
pub mod memory_limit;
pub mod native;
pub mod outdir;
pub mod picture;
pub mod process_cost;
pub mod session;
pub mod standin;
pub mod watch;
