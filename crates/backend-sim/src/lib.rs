//! Simulator: executes a schedule with real numbers on every rank.
//!
//! * [`interp`]: the interpreter, which defines the meaning of a schedule.
//! * [`adversary`]: the same schedule under the weakest memory that it may meet.
//! * [`jit`]: the same schedule as machine code.
//! * [`contract`]: what a schedule should compute according to its contracts.
//! * [`data_path`]: the switch that forbids the interpreter, for tests of machine code.
//! * [`inside`]: local work divided among the PEs of a device.
//! * [`failure`]: the report of a run that did not end, rank by rank.
//!
//! The crate reads schedules through `kbc_ir::walk` alone and knows nothing of passes, syntax,
//! files or clocks. It does not know the checker either, because the judge of the checker uses it.

pub mod adversary;
pub mod contract;
pub mod data_path;
pub mod effect;
pub mod failure;
pub mod flow;
pub mod host;
pub mod inside;
pub mod interp;
pub mod jit;
mod lifetimes;
pub mod stall;
pub mod store;
#[doc(hidden)]
pub mod testing;
