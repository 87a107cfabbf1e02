//! Scaling charts: time, share of the bound, or bandwidth over the number of ranks.

use crate::canvas::Figure;
use crate::curves::Curves;
use crate::lines::BoundSide;
use crate::series::{Fault, Heading, Series, range};
use crate::units::Quantity;

/// The measure that is shown over ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Measure {
    /// The time of one call in ns, on a logarithmic axis.
    #[default]
    Time,
    /// The percentage of the bound, on a linear axis. 100 is the bound itself.
    Percent,
    /// The bus bandwidth in GB/s, on a linear axis.
    Bandwidth,
}

/// A chart of curves over the number of ranks.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Scaling {
    /// The title and subtitle.
    pub heading: Heading,
    /// The measure of y.
    pub measure: Measure,
    /// The curves: x in ranks, y in the unit of `measure`.
    pub series: Vec<Series>,
    /// Bounds in the same units. For [`Measure::Percent`] without bounds, a line at 100 is drawn.
    pub bounds: Vec<Series>,
}

impl Scaling {
    /// Draws the chart.
    ///
    /// # Errors
    /// Fails if there is no series, if a series has no points, if two series have the same name, if
    /// a series has two points with the same x, if a value is not finite, if a number of ranks or a
    /// time is not positive, or if another value is negative.
    pub fn draw(&self) -> Result<Figure, Fault> {
        let mut bounds = self.bounds.clone();
        if self.measure == Measure::Percent && bounds.is_empty() {
            let ranks = range(self.series.iter().flat_map(|s| &s.points).map(|p| p.0));
            if let Some((lo, hi)) = ranks.filter(|r| r.0 < r.1) {
                bounds.push(Series::new("bound", vec![(lo, 100.0), (hi, 100.0)]));
            }
        }
        let (label, quantity, never) = match self.measure {
            Measure::Time => ("time of one call", Quantity::Time, BoundSide::Below),
            Measure::Percent => ("share of the bound", Quantity::Percent, BoundSide::Above),
            Measure::Bandwidth => ("bus bandwidth", Quantity::Bandwidth, BoundSide::Above),
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
