//! Scaling with ranks: time, share of the bound, or bandwidth as a machine grows.

use crate::canvas::Figure;
use crate::curves::{Curves, Side};
use crate::series::{Fault, Heading, Series, range};
use crate::units::Quantity;

/// What is shown over ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Measure {
    /// ns of one call, logarithmic.
    #[default]
    Time,
    /// Percent of the bound, 100 is the bound itself; linear.
    Percent,
    /// Bus bandwidth in GB/s; linear.
    Bandwidth,
}

/// Curves over the number of ranks.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Scaling {
    /// Words above it.
    pub heading: Heading,
    /// What is measured.
    pub measure: Measure,
    /// x in ranks, y as `measure` says.
    pub series: Vec<Series>,
    /// Bounds in the same units. Of [`Measure::Percent`] the line at 100 is drawn if there are none.
    pub bounds: Vec<Series>,
}

impl Scaling {
    /// Draws it.
    ///
    /// # Errors
    /// No series, one without points, two of one name or two points of one x, a value that is not finite, ranks that are
    /// not above zero, a time that is not, another value below zero.
    pub fn draw(&self) -> Result<Figure, Fault> {
        let mut bounds = self.bounds.clone();
        if self.measure == Measure::Percent && bounds.is_empty() {
            let ranks = range(self.series.iter().flat_map(|s| &s.points).map(|p| p.0));
            if let Some((lo, hi)) = ranks.filter(|r| r.0 < r.1) {
                bounds.push(Series::new("bound", vec![(lo, 100.0), (hi, 100.0)]));
            }
        }
        let (label, quantity, never) = match self.measure {
            Measure::Time => ("time of one call", Quantity::Time, Side::Below),
            Measure::Percent => ("share of the bound", Quantity::Percent, Side::Above),
            Measure::Bandwidth => ("bus bandwidth", Quantity::Bandwidth, Side::Above),
        };
        Curves {
            heading: &self.heading,
            x: ("ranks", Quantity::Count),
            y: (label, quantity),
            y_log: self.measure == Measure::Time,
            series: &self.series,
            bounds: &bounds,
            never,
            changes: false,
        }
        .draw()
    }
}
