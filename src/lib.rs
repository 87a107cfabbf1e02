//! The command line of kbc: subcommands and arguments, and what they need from the system.
//!
//! [`kbc_compiler`] compiles, proves, executes, times and emits; [`kbc_views`] shows a run,
//! [`kbc_evaluation`] compares many, and [`kbc_audit`] tests kbc itself. [`session`] is their
//! environment: it alone reads files, looks at the terminal and writes to it.

pub mod cache;
pub mod checkout;
pub mod cli;
pub mod commands;
pub mod confine;
pub mod crash;
pub mod heap;
pub mod memory_limit;
pub mod outdir;
pub mod picture;
pub mod session;
pub mod standin;
pub mod watch;
