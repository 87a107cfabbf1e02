//! The compiler of kbc as a library: compile a source, then check, execute, time, report and emit.
//!
//! A [`Workspace`] holds the texts of a compilation. By default it reads no file, prints nothing
//! and has no clock; an [`Environment`] gives it files, hears its messages and limits its memory.
//! The command line is one client of this crate.
//!
//! # Compile
//!
//! A source is a program, or an algorithm on a machine. [`compile`] makes a schedule of it: which
//! rank puts which chunk where, and what each rank waits for.
//!
//! ```
//! use kbc_compiler::{Options, Source, Workspace, compile};
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
//! let built = compile(&mut workspace, &Source::of("sum.kb"), &Options::default())?;
//! assert_eq!(built.schedule()?.mesh.ranks(), 4);
//! # Ok::<(), kbc_compiler::Failure>(())
//! ```
//!
//! # Check
//!
//! [`Built::check`] proves the schedule: no race, no deadlock, and every collective keeps its
//! contract, in any number of calls.
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
//! # let built = compile(&mut workspace, &Source::of("sum.kb"), &Options::default())?;
//! let proof = built.check(&workspace)?;
//! assert!(proof.ok);
//! assert_eq!(proof.calls, "any");
//! # Ok::<(), kbc_compiler::Failure>(())
//! ```
//!
//! # Execute
//!
//! [`Built::execute`] runs the schedule with numbers on every rank, and compares every element with
//! what one device computes.
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
//! # let built = compile(&mut workspace, &Source::of("sum.kb"), &Options::default())?;
//! use kbc_compiler::options::Data;
//!
//! let run = built.execute(&workspace, &Data::default())?;
//! assert_eq!(run.compare.mismatches, 0);
//! assert_eq!(run.compare.elements, 4 * 1000);
//! # Ok::<(), kbc_compiler::Failure>(())
//! ```
//!
//! # Time
//!
//! [`Built::time`] simulates the time of a call on the machine, beside a bound that no schedule can
//! beat. Times are in ns.
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
//! # let built = compile(&mut workspace, &Source::of("sum.kb"), &Options::default())?;
//! let (report, timing) = built.time(&workspace)?;
//! assert!(report.bound_ns.is_some_and(|bound| timing.ns >= bound));
//! # Ok::<(), kbc_compiler::Failure>(())
//! ```
//!
//! # Report
//!
//! [`Built::report`] does all of this and collects the evidence. A report serialises to JSON;
//! [`report::human()`] formats it for people.
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
//! # let built = compile(&mut workspace, &Source::of("sum.kb"), &Options::default())?;
//! use kbc_compiler::options::Data;
//!
//! let report = built.report(&workspace, &Data::default())?;
//! assert!(report.ok);
//! print!("{}", kbc_compiler::report::human(&report));
//! # Ok::<(), kbc_compiler::Failure>(())
//! ```
//!
//! # Emit
//!
//! [`Built::emit`] makes a package of kernels for a target, as files in memory. Targets take
//! schedules of the passes `windows`. [`backends::platforms`] lists the targets.
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
//! use kbc_compiler::options::Data;
//!
//! let windows = Options { passes: "windows".into() };
//! let built = compile(&mut workspace, &Source::of("sum.kb"), &windows)?;
//! let report = built.report(&workspace, &Data::default())?;
//! let package = built.emit(&mut workspace, "a2a3", &report)?;
//! assert!(package.files.iter().any(|(name, _)| name.ends_with(".cpp")));
//! # Ok::<(), kbc_compiler::Failure>(())
//! ```
//!
//! # More about a source
//!
//! * [`check`](mod@check) proves algorithms on many numbers of ranks, and the programs of a file.
//! * [`explain`] says why an algorithm was chosen, where values and tensors are, what bounds the
//!   time, and where the time goes.
//! * [`costs`] and [`signals`] count what algorithms send, and how many signals they need.
//! * [`catalogue`] lists what a program can name.
//! * [`msccl`] and [`torch`] take schedules and programs of other tools as sources.
//!
//! ```
//! # use kbc_compiler::{Source, Workspace, check};
//! # let mut workspace = Workspace::default();
//! workspace.give(
//!     "mine.kb",
//!     "
//!     algorithm mine: all_gather over (r mod p) { for s in 0..p-1 { put [r - s] -> r + 1 } }
//!     ",
//! );
//! let report = check::file(&mut workspace, &Source::of("mine.kb"))?;
//! assert_eq!(report.algorithms[0].algorithm, "mine");
//! # Ok::<(), kbc_compiler::Failure>(())
//! ```
//!
//! # Errors
//!
//! Wrong input is a [`Failure`] with messages that have places in the texts.
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
//! workspace.give("sum.kb", "program total(x: f32[1000]) -> f32[1000] { y }");
//! let failure = compile(&mut workspace, &Source::of("sum.kb"), &Options::default()).err();
//! let (messages, code) = failure.expect("y is unknown").into_parts();
//! assert_eq!(code, 1);
//! for message in &messages.list {
//!     println!("{}", kbc_diag::render::short(message, &workspace.map));
//! }
//! # Ok::<(), kbc_compiler::Failure>(())
//! ```

pub mod about;
pub mod again;
mod ahead;
pub mod algorithm_request;
pub mod analyse;
pub mod arguments;
pub mod artefacts;
pub mod backends;
pub mod bounds;
pub mod build;
mod by_blocks;
pub mod catalogue;
pub mod check;
pub mod contract;
pub mod costs;
pub mod data;
pub mod emit;
pub mod engine;
pub mod entries;
pub mod explain;
pub mod failure;
pub mod format;
pub mod host;
mod keep;
pub mod kernel;
pub mod load;
pub mod machine;
pub mod measure;
pub mod memory_budget;
pub mod msccl;
pub mod options;
pub mod ordered;
mod own_algorithms;
pub mod perturb;
pub mod pipeline;
pub mod proof;
pub mod rankings;
pub mod repair;
pub mod report;
pub mod run;
pub mod signals;
pub mod simulated;
pub mod sized;
pub mod steps;
pub mod synthesis;
#[doc(hidden)]
pub mod testing;
pub mod timeline;
pub mod torch;
pub mod values;
pub mod watch;
pub mod workspace;

pub use build::Built;
pub use failure::{Failure, Outcome};
pub use options::{Options, Source};
pub use steps::compile;
pub use workspace::{Environment, Workspace};
