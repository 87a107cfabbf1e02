//! Ascend backend: emits proven schedules as AIV and AIC kernels, with orchestration code and a
//! test harness.
//!
//! The crate owns what is particular to these targets: their facts, the choice of instructions, the
//! passes that place flags and fences, the C++ text, and the files of a package.
//! [`kbc_tiles`] owns what all backends share, and the interface that [`ASCEND`] implements. The
//! crate knows neither the passes of the compiler nor the front end, and it accesses no files; the
//! driver reads and writes them.

mod backend;
pub mod cpp;
pub mod elementwise;
mod narrow;
pub mod package;
pub mod passes;
pub mod profile;

pub use backend::ASCEND;
