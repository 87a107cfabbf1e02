//! Latency charts: time over size, which show the fastest series at each size, the distance to the
//! bound, and what limits the time.

use crate::canvas::Figure;
use crate::curves::Curves;
use crate::lines::BoundSide;
use crate::series::{Fault, Heading, Series};
use crate::units::Quantity;

/// A chart of time over size, on two logarithmic axes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Latency {
    /// The title and subtitle.
    pub heading: Heading,
    /// The label of the size axis, such as `bytes per rank`.
    pub x_label: String,
    /// One series per algorithm or per topology: x in bytes, y in ns. Their bottlenecks are shown
    /// as rows below the axis.
    pub series: Vec<Series>,
    /// Lower bounds in the same units, drawn grey and dashed; their bottlenecks are shown as rows,
    /// too. The list may be empty.
    pub bounds: Vec<Series>,
}

impl Latency {
    /// Draws the chart. It marks every x at which another series becomes the fastest (see
    /// [`mod@crate::crossover`]).
    ///
    /// # Errors
    /// Fails if there is no series, if a series has no points, if two series have the same name, if
    /// a series has two points with the same x, or if a value is not finite and positive.
    pub fn draw(&self) -> Result<Figure, Fault> {
        Curves {
            heading: &self.heading,
            x: (&self.x_label, Quantity::Bytes),
            y: ("time of one call", Quantity::Time),
            y_log: true,
            series: &self.series,
            bounds: &self.bounds,
            never: BoundSide::Below,
            changes: true,
        }
        .draw()
    }
}
