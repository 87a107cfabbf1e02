//! Tile kernels: what every backend that emits code needs, and the interface of a backend.
//!
//! The crate owns everything between a proven schedule and the text that a target compiles, as far
//! as it is the same for all targets: lowering to the tile level, one kernel for many sizes and the
//! comparison of its traces, the tile level itself (data, text, verifier, order of accesses), and
//! the layout of the memory that ranks share. What a target can do reaches it as data
//! ([`device::Device`]). It knows no target, neither the passes of the compiler nor the front end,
//! and it accesses no files.

pub mod args;
pub mod backend;
pub mod device;
pub mod elementwise;
pub mod family;
pub mod layout;
pub mod lower;
pub mod package;
pub mod range;
pub mod tile;
