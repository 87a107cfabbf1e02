//! Audit of kbc itself: are its engines, its checker, its bounds, its choices and the code that it
//! emits right?
//!
//! * [`fuzz`] makes random programs, schedules and damaged files, and compares what several parts
//!   of kbc say about them.
//! * [`mutate`] measures the error rate of the checker with small changes of schedules.
//! * [`standin`] compares emitted kernels with the simulator, under a memory model that demands
//!   every fence.
//! * [`selection`] compares the selected algorithms with the fastest ones.
//!
//! Everything depends only on seeds and numbers, so that a finding can be made again.
//!
//! # Example
//!
//! Five random programs on the interpreter and as machine code: the bits must be the same.
//!
//! ```
//! let summary = kbc_audit::fuzz::programs(1, 0..5, &mut |_| {});
//! assert_eq!(summary.tried, 5);
//! assert!(summary.differences.is_empty());
//! ```

pub mod fuzz;
pub mod mutate;
pub mod selection;
pub mod standin;
#[doc(hidden)]
pub mod testing;
