//! Ascend backend: emits proven schedules as AIV and AIC kernels, with orchestration code and a
//! test harness.
//!
//! The crate owns everything between a schedule and the files of a package: lowering to the tile
//! level, kernels for families of sizes, the passes and the verifier of the tile level, the C++
//! text, and the harness. It reads schedules and graphs. It knows neither the passes of the
//! compiler nor the front end, and it accesses no files; the driver reads and writes them.

pub mod args;
pub mod cpp;
pub mod family;
pub mod lower;
pub mod package;
pub mod passes;
pub mod profile;
pub mod range;
pub mod tile;
