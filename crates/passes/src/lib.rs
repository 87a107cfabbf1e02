//! Passes: the path from the graph of a program to a schedule, with one module per pass.
//!
//! This crate owns the passes and the pass manager (records, pipelines, observers, registry). The
//! data that passes rewrite belongs to `kbc-ir`, algorithms and their meaning to `kbc-rounds`, and
//! files and the clock to the driver. No pass knows which backend follows.

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
