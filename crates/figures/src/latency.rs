//! Time against size: who is fastest where, how far from the bound, and what limits.

use crate::canvas::Figure;
use crate::curves::{Curves, Side};
use crate::series::{Fault, Heading, Series};
use crate::units::Quantity;

/// Curves of time over size, both axes logarithmic.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Latency {
    /// Words above it.
    pub heading: Heading,
    /// What the sizes are: `bytes per rank`.
    pub x_label: String,
    /// One an algorithm, or one a topology: x in bytes, y in ns. Their bottlenecks are rows below the axis.
    pub series: Vec<Series>,
    /// Lower bounds in the same units, with the same rows; grey and dashed. None at all is fine.
    pub bounds: Vec<Series>,
}

impl Latency {
    /// Draws it. Marked is every x at which another series becomes the fastest ([`mod@crate::crossover`]).
    ///
    /// # Errors
    /// No series, one without points, two of one name or two points of one x, a value that is not finite and above zero.
    pub fn draw(&self) -> Result<Figure, Fault> {
        Curves {
            heading: &self.heading,
            x: (&self.x_label, Quantity::Bytes),
            y: ("time of one call", Quantity::Time),
            y_log: true,
            series: &self.series,
            bounds: &self.bounds,
            never: Side::Below,
            changes: true,
        }
        .draw()
    }
}
