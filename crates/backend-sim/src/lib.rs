//! The simulator: real numbers on every rank, the reference they are compared with, and time.
//!
//! * [`tensor`], [`numbers`], [`scalar_eval`], [`gemm`], `tiles`, [`local`]: elements and arithmetic, one meaning for all.
//! * [`shard`], [`generate`], [`compare`]: feeding ranks, making inputs, comparing results.
//! * [`contract`]: what the contracts in a schedule's text say that it should compute.
//! * [`interp`]: the interpreter that defines what a schedule means; [`adversary`]: the same schedule under the
//!   weakest memory it may meet.
//! * [`time`]: how long a schedule takes on a machine, from events.
//! * [`provenance`]: whose contributions a wrong element holds.
//! * [`failure`]: what a run that did not come to its end says of each rank.
//!
//! It reads schedules through `kbc_ir::walk` alone and knows nothing of passes, syntax, files or clocks.

pub mod adversary;
pub mod classify;
pub mod compare;
pub mod contract;
mod effect;
pub mod failure;
mod flow;
pub mod formats;
pub mod gemm;
pub mod generate;
mod host;
pub mod inside;
pub mod interp;
pub mod jit;
pub mod local;
pub mod numbers;
pub mod oracle;
pub mod perturb;
pub mod provenance;
pub mod reference;
mod rng;
pub mod scalar_eval;
pub mod shard;
mod stall;
mod store;
pub mod tensor;
mod tiles;
pub mod time;
