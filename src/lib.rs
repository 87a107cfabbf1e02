//! The command line of kbc: subcommands and arguments, and what they need from the system.
//!
//! [`kbc_compiler`] compiles, proves, executes, times and emits. [`session`] is its environment; it
//! alone reads files, looks at the terminal and writes to it.

pub mod ccl;
pub mod checkout;
pub mod cli;
pub mod commands;
pub mod confine;
pub mod crash;
pub mod diagram;
pub mod fuzz;
pub mod heap;
pub mod memory_limit;
pub mod mutate;
pub mod outdir;
pub mod page;
pub mod picture;
pub mod record;
pub mod reference;
pub mod repro;
pub mod selection;
pub mod session;
pub mod standin;
pub mod sweep;
pub mod traffic;
pub mod watch;
pub mod yaml;

pub use kbc_compiler::{
    analyse, asked, backends, bounds, build, contract, data, emit, engine, host, measure, perturb, report,
    room, simulated,
};
