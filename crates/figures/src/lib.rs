//! Charts as typed data: values in, SVG text and PNG bytes out.
//!
//! This crate owns the contents of a figure, the positions of its texts and its colours. A chart is
//! a struct of this crate with public fields, in the units that its documentation states. `draw`
//! makes a [`Figure`] of it, or returns a [`Fault`] with the reason why it cannot. The crate knows
//! nothing of schedules, machines, files and terminals, and reads no system font and no clock: a
//! figure depends on its chart alone.
//!
//! Conventions of all charts: no meaning is carried by colour alone (markers, dashes, words and
//! widths carry it, too); axes have units; no text covers another and none leaves the card; bounds
//! are grey and dashed.
//!
//! ```
//! use kbc_figures::{Heading, Series, latency::Latency};
//!
//! let chart = Latency {
//!     heading: Heading::new("All-reduce on a ring of 8", "50 GB/s and 500 ns a link"),
//!     x_label: "bytes per rank".into(),
//!     series: vec![
//!         Series::new("few rounds", vec![(256.0, 900.0), (65536.0, 9000.0)]),
//!         Series::new("few bytes", vec![(256.0, 2500.0), (65536.0, 4000.0)]),
//!     ],
//!     bounds: vec![Series::new("bound", vec![(256.0, 700.0), (65536.0, 2500.0)])],
//! };
//! let figure = chart.draw().expect("positive numbers");
//! assert!(figure.svg().contains("few bytes wins from"));
//! ```

pub mod algorithms;
mod canvas;
pub mod crossover;
mod curves;
mod frame;
pub mod latency;
mod lines;
pub mod matrix;
pub mod memory;
mod place;
mod png;
pub mod published;
pub mod reference;
pub mod roofline;
mod scale;
pub mod scaling;
mod series;
mod strip;
#[doc(hidden)]
pub mod testing;
mod text;
mod theme;
pub mod topology;
pub mod units;

pub use canvas::{Figure, Label, Rect};
pub use series::{Fault, Heading, Series};
pub use theme::Theme;
