//! The simulator: a schedule executed with real numbers on every rank.
//!
//! * [`interp`]: the interpreter, which defines what a schedule means.
//! * [`adversary`]: the same schedule under the weakest memory that it may meet.
//! * [`jit`]: the same schedule as machine code.
//! * [`contract`]: what the contracts in a schedule's text say that it should compute.
//! * [`inside`]: local work divided among the PEs of a device.
//! * [`failure`]: the report of a run that did not end, rank by rank.
//!
//! It reads schedules through `kbc_ir::walk` alone and knows nothing of passes, syntax, files or clocks. It does not
//! know the checker either, because those who judge the checker use it.

pub mod adversary;
pub mod contract;
pub mod effect;
pub mod failure;
pub mod flow;
pub mod host;
pub mod inside;
pub mod interp;
pub mod jit;
pub mod stall;
pub mod store;
