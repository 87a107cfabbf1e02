//! Views of a run: the HTML page, traces, logs, and pictures of machines.
//!
//! Everything here is made from a program or a schedule that [`kbc_compiler`] built and timed.
//! Pages and pictures are texts and bytes; records are written during the run to sinks that the
//! caller opens ([`record::Sinks`]).
//!
//! # Examples
//!
//! A page shows a program: proven, executed and timed.
//!
//! ```
//! use kbc_compiler::{Source, Workspace, options::Data};
//! use kbc_views::page::make::{Subject, make};
//!
//! let mut workspace = Workspace::default();
//! workspace.give(
//!     "sum.kb",
//!     "
//!     topology sys = ring(4) { link: 50 GB/s, 500 ns }
//!     mesh m = sys[tp]
//!     program total(x: f32[1000] partial(sum@tp)) -> f32[1000] { x }
//!     ",
//! );
//! let subject =
//!     Subject { source: Source::of("sum.kb"), data: Some(Data::default()), ..Subject::default() };
//! let (page, report) = make(&mut workspace, &subject)?;
//! assert!(report.ok);
//! assert!(page.starts_with("<!doctype html>"));
//! # Ok::<(), kbc_compiler::Failure>(())
//! ```
//!
//! A log is written while a schedule is timed, here to memory.
//!
//! ```
//! # use kbc_compiler::{Options, Source, Workspace, compile};
//! # let mut workspace = Workspace::default();
//! # workspace.give(
//! #     "sum.kb",
//! #     "
//! #     topology sys = ring(4) { link: 50 GB/s, 500 ns }
//! #     mesh m = sys[tp]
//! #     program total(x: f32[1000] partial(sum@tp)) -> f32[1000] { x }
//! #     ",
//! # );
//! use kbc_compiler::report::Report;
//! use kbc_time::TimeOptions;
//! use kbc_views::record::{self, InMemory, Wanted};
//!
//! let built = compile(&mut workspace, &Source::of("sum.kb"), &Options::default())?;
//! let subject = built.subject(built.schedule()?);
//! let wanted = Wanted::new(vec![("log".into(), "sum.jsonl".into())], None)?;
//! let (sinks, mut report) = (InMemory::default(), Report::default());
//! let options = TimeOptions::default();
//! record::time(&workspace, &mut report, subject, &built.topology, &wanted, &sinks, &options)?;
//! assert!(!sinks.take()["sum.jsonl"].is_empty());
//! # Ok::<(), kbc_compiler::Failure>(())
//! ```

pub mod diagram;
pub mod machines;
pub mod page;
pub mod picture;
pub mod record;
