//! Ascend: emission of verified schedules as AIV and AIC kernels with orchestration and a harness.
//!
//! Owns everything between a schedule and the files of a package: lowering to the tile level, families of sizes, passes and
//! verifier of that level, C++ text, harness. It reads schedules and graphs; passes and frontend are out of its sight, files are
//! the driver's.

pub mod args;
pub mod cpp;
pub mod family;
pub mod lower;
pub mod package;
pub mod passes;
pub mod profile;
pub mod range;
pub mod tile;
