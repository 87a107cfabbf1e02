//! Evaluation: many runs side by side, and figures that others published.
//!
//! * [`sweep`] runs a program over machines, sizes, algorithms and memories.
//! * [`compare`] says which of two algorithms, machines or programs is faster where, and why.
//! * [`published`] compares published figures with those of kbc.
//! * [`repro`] makes the figures and tables of the documentation from these.
//! * [`ccl`] runs the all-reduce of two kernbench files.
//! * [`scale`] says how the cost of kbc itself grows with size.
//! * [`traffic`] counts what a schedule moves, beside what it must move and beside hand-written
//!   kernels.
//!
//! Every time is that of a program that was proven, and executed and compared unless that is too
//! much data ([`kbc_compiler::measure`]).
//!
//! # Example
//!
//! A sweep over two sizes.
//!
//! ```
//! use kbc_compiler::Workspace;
//! use kbc_evaluation::sweep::load::{chosen, load};
//! use kbc_evaluation::sweep::run::{Within, run};
//!
//! let mut workspace = Workspace::default();
//! workspace.give(
//!     "sum.kb",
//!     "
//!     param n = 64
//!     topology sys = ring(4) { link: 50 GB/s, 500 ns }
//!     mesh m = sys[tp]
//!     program total(x: f32[n] partial(sum@tp)) -> f32[n] { x }
//!     ",
//! );
//! workspace.give(
//!     "sizes.yaml",
//!     "
//!     sweep: 1
//!     title: all-reduce
//!     file: sum.kb
//!     axes:
//!       n: [64, 4096]
//!     define: { n: '{n}' }
//!     ",
//! );
//! let loaded = load(&mut workspace, "sizes.yaml")?;
//! let points = chosen(&loaded.grid, &[], None)?;
//! let within = Within { jobs: 1, cache: None };
//! let found = run(&workspace, "sizes.yaml", &points, &within, &mut |_| {})?;
//! let times: Vec<f64> = found.rows.iter().filter_map(|row| row.facts.time_ns).collect();
//! assert!(times[0] < times[1]);
//! # Ok::<(), kbc_compiler::Failure>(())
//! ```

pub mod calibration;
pub mod ccl;
pub mod compare;
pub mod host_bench;
pub mod published;
pub mod repro;
pub mod samples;
pub mod scale;
pub mod sweep;
#[doc(hidden)]
pub mod testing;
pub mod traffic;
mod yaml;
