//! Chart of times over size, with published times as points.

use crate::canvas::{Figure, Rect, solid};
use crate::frame::{Axis, Frame};
use crate::lines::{self, End};
use crate::place::Placer;
use crate::scale::Scale;
use crate::series::{Fault, Heading, Series, positive, range, sorted};
use crate::units::{Quantity, Tick, linear_ticks};

/// A published time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PublishedPoint {
    /// The name of its source.
    pub name: String,
    /// The size, in bytes.
    pub x: f64,
    /// The time, in ns.
    pub y: f64,
}

/// A chart of curves of time over size, with published points. The time axis begins at 0. If points
/// lie far above all curves, the axis is broken in between, and the break is drawn through the
/// chart.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Published {
    /// The title and subtitle.
    pub heading: Heading,
    /// The label of the size axis, such as `bytes per rank`.
    pub x_label: String,
    /// The curves: x in bytes, y in ns.
    pub series: Vec<Series>,
    /// The published points.
    pub points: Vec<PublishedPoint>,
}

/// The smallest ratio between the lowest value above a break and the highest value below it.
const FAR: f64 = 2.0;

impl Published {
    /// Draws the chart.
    ///
    /// # Errors
    /// Fails if there is no series, if a series has no points, if two series have the same name, if
    /// a series has two points with the same x, or if a value is not finite and positive.
    pub fn draw(&self) -> Result<Figure, Fault> {
        let series = sorted(&self.series, true)?;
        for p in &self.points {
            positive(&format!("the size of `{}`", p.name), p.x)?;
            positive(&format!("the time of `{}`", p.name), p.y)?;
        }
        let drawn = || series.iter().flat_map(|s| &s.points).copied();
        let all = || drawn().chain(self.points.iter().map(|p| (p.x, p.y)));
        let (Some(xs), Some((_, highest))) = (range(all().map(|p| p.0)), range(drawn().map(|p| p.1))) else {
            return Err(Fault::new("there is no point to draw"));
        };
        let (scale, ticks) = self.times(highest);
        let broken = if ticks.1 { ", broken where the zigzag is" } else { "" };
        let label = format!("time of one call{broken}");
        let x = Axis::new(&self.x_label, Quantity::Bytes, Scale::log_around(xs.0, xs.1, 0.03));
        let y = Axis { ticks: Some(ticks.0), ..Axis::new(&label, Quantity::Time, scale) };
        let names = || series.iter().map(|s| s.name.as_str());
        let height = lines::column_height(names()).max(330.0);
        let mut frame = Frame::new(&self.heading, &x, &y, lines::column_width(names()), height);
        let theme = frame.theme();
        let mut placer = Placer::new(frame.plot.grown(-3.0));
        if let Some((below, above)) = frame.y.gap() {
            zigzag(&mut frame, below, above, &mut placer);
        }
        for (i, s) in series.iter().enumerate() {
            lines::line(&mut frame, s, theme.series(i), &mut placer);
        }
        let mut said = vec![];
        for p in &self.points {
            let (x, y) = frame.at((p.x, p.y));
            placer.block(Rect { x0: x, y0: y, x1: x, y1: y }.grown(7.0));
        }
        for p in &self.points {
            let words = format!("{}: {}", p.name, Quantity::Time.show(p.y, 4));
            let at = frame.at((p.x, p.y));
            lines::mark(&mut frame, at, &words, false, &mut placer);
            said.push(words);
        }
        let ends: Vec<End> = (0..)
            .zip(&series)
            .filter_map(|(i, s)| {
                let at = frame.at(*s.points.last()?);
                Some(End { name: s.name.clone(), at, style: Some(theme.series(i)) })
            })
            .collect();
        lines::ends(&mut frame, &ends);
        Ok(frame.finish(&self.heading, &said.join("; ")))
    }

    /// Returns the time axis with its ticks, and whether it is broken.
    fn times(&self, highest: f64) -> (Scale, (Vec<Tick>, bool)) {
        let (near, far): (Vec<f64>, Vec<f64>) =
            self.points.iter().map(|p| p.y).partition(|y| *y < FAR * highest);
        let top = near.into_iter().fold(highest, f64::max);
        let Some((least, most)) = range(far).filter(|f| f.0 > FAR * top) else {
            let all = self.points.iter().map(|p| p.y).fold(highest, f64::max) * 1.08;
            return (Scale::linear(0.0, all), (linear_ticks(Quantity::Time, 0.0, all, 9), false));
        };
        let (below, above, hi) = (top * 1.12, least * 0.92, most * 1.08);
        let mut ticks = linear_ticks(Quantity::Time, 0.0, below, 7);
        // Tick labels keep a distance from the break.
        let clear = above + 0.15 * (hi - above);
        ticks.extend(linear_ticks(Quantity::Time, above, hi, 3).into_iter().filter(|t| t.value > clear));
        (Scale::broken(0.0, hi, (below, above)), (ticks, true))
    }
}

/// Draws a break through the chart between two values of y.
fn zigzag(frame: &mut Frame, below: f64, above: f64, placer: &mut Placer) {
    let (theme, plot) = (frame.theme(), frame.plot);
    let edge = |y: f64| -> Vec<(f64, f64)> {
        let steps = ((plot.width() + 8.0) / 8.0) as usize;
        let wave = |i: usize| if i.is_multiple_of(2) { -3.0 } else { 3.0 };
        (0..=steps).map(|i| (plot.x0 - 4.0 + i as f64 * 8.0, y + wave(i))).collect()
    };
    let (a, b) = (edge(frame.y.at(below)), edge(frame.y.at(above)));
    let band: Vec<(f64, f64)> = a.iter().copied().chain(b.iter().rev().copied()).collect();
    frame.canvas.polygon(&band, theme.card());
    frame.canvas.polyline(&a, solid(theme.axis(), 1.2));
    frame.canvas.polyline(&b, solid(theme.axis(), 1.2));
    placer.avoid(&a);
    placer.avoid(&b);
}
