//! Memory comparison: a chart of times by kind of memory, with a group of bars per size, a bar per
//! kind, and a table of the times below.

use crate::canvas::{Anchor, Figure, Rect, TextStyle, solid};
use crate::crossover::at;
use crate::frame::{Axis, Frame, SMALL};
use crate::lines::{column_width, name_tag};
use crate::scale::Scale;
use crate::series::{Fault, Heading, Series, range, sorted};
use crate::text::{Weight, width};
use crate::units::{Quantity, Tick};

/// A chart with one group per size and one bar per kind of memory in each group. Bars begin at
/// zero. If times differ by more than a factor of [`BARS`], short bars would be invisible, and the
/// chart shows points on a logarithmic axis instead.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Memory {
    /// The title and subtitle.
    pub heading: Heading,
    /// The label of the size axis, such as `bytes per PE`.
    pub x_label: String,
    /// One series per kind (`tcm`, `sram`, `hbm`): x in bytes, y in ns. The others are compared
    /// with the first one.
    pub kinds: Vec<Series>,
}

/// The largest ratio of times that is shown with bars.
pub const BARS: f64 = 30.0;
/// The height of a row of the table.
const ROW: f64 = 19.0;

impl Memory {
    /// Draws the chart.
    ///
    /// # Errors
    /// Fails if there is no kind, if a kind has no points, if two kinds have the same name, if a
    /// kind has two points with the same x, if a value is not finite and positive, or if there are
    /// more than 24 sizes.
    pub fn draw(&self) -> Result<Figure, Fault> {
        let kinds = sorted(&self.kinds, true)?;
        let mut sizes: Vec<f64> = kinds.iter().flat_map(|s| s.points.iter().map(|p| p.0)).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        if sizes.len() > 24 {
            return Err(Fault::new(format!(
                "{} sizes cannot be distinguished (limit: 24 groups)",
                sizes.len()
            )));
        }
        let Some((lo, hi)) = range(kinds.iter().flat_map(|s| &s.points).map(|p| p.1)) else {
            return Err(Fault::new("there is no point to draw"));
        };
        let bars = hi / lo <= BARS;
        let scale = if bars { Scale::linear(0.0, hi * 1.08) } else { Scale::log_around(lo, hi, 0.08) };
        let y = Axis::new("time of one call", Quantity::Time, scale);
        let ticks = sizes
            .iter()
            .enumerate()
            .map(|(i, s)| Tick { value: i as f64 + 0.5, label: Quantity::Bytes.show(*s, 4) });
        let x = Axis {
            label: &self.x_label,
            quantity: Quantity::Count,
            scale: Scale::linear(0.0, sizes.len() as f64),
            ticks: Some(ticks.collect()),
        };
        let right = column_width(kinds.iter().map(|k| k.name.as_str()));
        let mut frame = Frame::groups(&self.heading, &x, &y, right, 300.0);
        let theme = frame.theme();
        let group = frame.plot.width() / sizes.len() as f64;
        let slot = (group * 0.78 / kinds.len() as f64).min(46.0);
        for (k, kind) in kinds.iter().enumerate() {
            let style = theme.series(k);
            for (g, size) in sizes.iter().enumerate() {
                let Some(value) = exact(kind, *size) else { continue };
                let middle =
                    frame.x.at(g as f64 + 0.5) + (k as f64 - (kinds.len() as f64 - 1.0) / 2.0) * slot;
                let top = frame.y.at(value);
                if bars {
                    let half = slot * 0.42;
                    let bar = Rect { x0: middle - half, y0: top, x1: middle + half, y1: frame.plot.y1 };
                    frame.canvas.rect(bar, style.colour, Some(solid(theme.axis(), 0.6)));
                } else {
                    frame.canvas.line((middle, top), (middle, frame.plot.y1), solid(style.colour, 1.6));
                }
                let above = if bars { top - 8.0 } else { top };
                frame.canvas.marker((middle, above), 3.8, style);
            }
        }
        self.table(&mut frame, &kinds, &sizes);
        Ok(frame.finish(&self.heading, "time of one call by kind of memory"))
    }

    /// Draws the table of the times of every kind, with their difference from the first kind.
    fn table(&self, frame: &mut Frame, kinds: &[Series], sizes: &[f64]) {
        let theme = frame.theme();
        let group = frame.plot.width() / sizes.len() as f64;
        let mut y = frame.bottom + 8.0;
        for (k, kind) in kinds.iter().enumerate() {
            frame.canvas.line((frame.plot.x0, y), (frame.plot.x1, y), solid(theme.grid(), 1.0));
            name_tag(frame, &kind.name, theme.series(k), y + ROW / 2.0);
            for (g, size) in sizes.iter().enumerate() {
                let Some(value) = exact(kind, *size) else { continue };
                let time = Quantity::Time.show(value, 3);
                let more = exact(&kinds[0], *size).filter(|_| k > 0).map(|first| percent(value, first));
                let choices = match more {
                    Some(more) => vec![format!("{time}  {more}"), more],
                    None => vec![time],
                };
                let fits = |t: &&String| width(t, SMALL, Weight::Regular) <= group - 4.0;
                if let Some(text) = choices.iter().find(fits) {
                    let words = TextStyle { anchor: Anchor::Middle, ..frame.canvas.words(SMALL) };
                    frame.canvas.text(frame.x.at(g as f64 + 0.5), y + 14.0, text, words);
                }
            }
            y += ROW;
        }
        frame.bottom = y;
    }
}

/// Returns the time at a size, if it was measured.
fn exact(kind: &Series, size: f64) -> Option<f64> {
    kind.points.iter().any(|p| p.0 == size).then(|| at(&kind.points, size)).flatten()
}

/// Returns the relative difference of a value from another one: `+12 %`, `-3 %`, `0 %`.
pub(crate) fn percent(value: f64, from: f64) -> String {
    let by = 100.0 * (value / from - 1.0);
    match Quantity::Percent.show(by.abs(), if by.abs() < 10.0 { 2 } else { 3 }) {
        _ if by.abs() < 0.05 => "0 %".into(),
        text if by < 0.0 => format!("-{text}"),
        text => format!("+{text}"),
    }
}
