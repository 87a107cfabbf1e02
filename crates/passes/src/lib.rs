//! Passes: from a program's graph to a schedule, one file a pass.
//!
//! Owns the pass manager (records, pipelines, observers, registry) and the passes. It leaves the forms they rewrite
//! to `kbc-ir`, algorithms and their meaning to `kbc-rounds`, files and the clock to the driver, and never asks which
//! backend comes after.

pub mod allocate;
pub mod alone;
pub mod cost;
pub mod enqueue;
pub mod expand;
mod fresh;
pub mod infer;
pub mod instrument;
pub mod lower_queues;
pub mod order;
pub mod overlap;
pub mod part_of;
pub mod pass;
pub mod pipeline;
pub mod place;
pub mod registry;
pub mod reshard;
pub mod select;
pub mod synchronize;
mod turns;

pub use pass::{Changed, Findings, Options, Pass, PassCx, PassInfo, PassOption, TimeModel};
pub use pipeline::Pipeline;
