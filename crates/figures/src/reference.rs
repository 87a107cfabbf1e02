//! Model against reference: a chart with two bars per row, their deviation in percent, and an axis
//! with breaks.

use crate::canvas::{Anchor, Canvas, Figure, Rect, TextStyle, solid};
use crate::frame::{EDGE, LINE, SMALL, WIDTH, head};
use crate::memory::percent;
use crate::series::{Fault, Heading, positive};
use crate::text::{Weight, fit, width, wrap};
use crate::theme::Theme;
use crate::units::{Quantity, linear_ticks};

/// A value of the model with that of the reference.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReferenceRow {
    /// What was measured.
    pub name: String,
    /// The value of the model, in the unit of the chart's quantity.
    pub model: f64,
    /// The value of the reference, in the same unit.
    pub reference: f64,
}

/// A chart of bars from zero. If values lie far apart, the axis is broken, at most twice, and the
/// breaks are drawn through bars and axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Reference {
    /// The title and subtitle.
    pub heading: Heading,
    /// The quantity that is compared. Its unit is the unit of the values.
    pub quantity: Quantity,
    /// The label of the axis, such as `time of one call`.
    pub label: String,
    /// The names of model and reference, such as `kbc` and `published`.
    pub names: [String; 2],
    /// The rows, from top to bottom.
    pub rows: Vec<ReferenceRow>,
}

/// The ratio of neighbouring values above which the axis may be broken between them.
const GAP: f64 = 2.5;
/// The width of a break.
const BREAK: f64 = 16.0;
/// The height of a bar.
const BAR: f64 = 13.0;

/// A part of the axis: values `lo` to `hi` at positions `from` to `to`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Segment {
    lo: f64,
    hi: f64,
    from: f64,
    to: f64,
}

impl Reference {
    /// Draws the chart.
    ///
    /// # Errors
    /// Fails if there are no rows, or if a value is not finite and positive.
    pub fn draw(&self) -> Result<Figure, Fault> {
        for row in &self.rows {
            positive(&format!("`{}` of the model", row.name), row.model)?;
            positive(&format!("`{}` of the reference", row.name), row.reference)?;
        }
        if self.rows.is_empty() {
            return Err(Fault::new("there is no row to draw"));
        }
        let mut canvas = Canvas::new(WIDTH, 0.0, self.heading.theme);
        let theme = canvas.theme;
        let mut top = head(&mut canvas, &self.heading) + 12.0;
        top = self.legend(&mut canvas, top) + 24.0;

        const NAMES: f64 = 210.0;
        let named: Vec<Vec<String>> =
            self.rows.iter().map(|r| wrap(&r.name, SMALL, Weight::Regular, NAMES)).collect();
        let widest = named.iter().flatten().map(|l| width(l, SMALL, Weight::Regular)).fold(40.0, f64::max);
        let heights: Vec<f64> = named.iter().map(|n| (n.len() as f64 * LINE).max(2.0 * BAR) + 10.0).collect();
        let said: Vec<String> = self.rows.iter().map(|r| self.words(r)).collect();
        let room = said.iter().map(|s| width(s, SMALL, Weight::Bold)).fold(0.0, f64::max) + 16.0;
        let values: Vec<[String; 2]> =
            self.rows.iter().map(|r| [r.model, r.reference].map(|v| self.quantity.show(v, 4))).collect();
        let columns = [0, 1].map(|c| {
            let words = values.iter().map(|v| &v[c]).chain([&self.names[c]]);
            words.map(|w| width(w, SMALL, Weight::Regular)).fold(0.0, f64::max).min(120.0) + 14.0
        });
        let plot = Rect {
            x0: EDGE + widest + 10.0,
            y0: top,
            x1: WIDTH - EDGE - columns.iter().sum::<f64>(),
            y1: top + heights.iter().sum::<f64>(),
        };
        let segments = self.segments(plot, room);

        for s in &segments {
            for tick in linear_ticks(self.quantity, s.lo, s.hi, ((s.to - s.from) / 52.0).max(2.0) as usize) {
                let x = s.at(tick.value);
                canvas.line((x, plot.y0), (x, plot.y1), solid(theme.grid(), 1.0));
                let words =
                    TextStyle { anchor: Anchor::Middle, colour: theme.faint(), ..canvas.words(SMALL) };
                canvas.text(x, plot.y1 + 18.0, &tick.label, words);
            }
            canvas.line((s.from, plot.y1), (s.to, plot.y1), solid(theme.axis(), 1.2));
        }
        let mut y = plot.y0;
        let [ours, theirs] = [theme.series(0).colour, theme.series(1).colour];
        for ((row, lines), height) in self.rows.iter().zip(&named).zip(&heights) {
            let middle = y + height / 2.0;
            for (i, line) in lines.iter().enumerate() {
                let down = (i as f64 - (lines.len() as f64 - 1.0) / 2.0) * LINE;
                let words = TextStyle { anchor: Anchor::End, ..canvas.words(SMALL) };
                canvas.text(plot.x0 - 8.0, middle + 4.0 + down, line, words);
            }
            let (a, b) = (place(&segments, row.model), place(&segments, row.reference));
            canvas.rect(Rect { x0: plot.x0, y0: middle - BAR, x1: a, y1: middle }, ours, None);
            let below = Rect { x0: plot.x0, y0: middle, x1: b, y1: middle + BAR };
            canvas.rect(below, theme.card(), Some(solid(theirs, 1.4)));
            hatch(&mut canvas, below, theirs);
            y += height;
        }
        breaks(&mut canvas, &segments, plot);
        let mut y = plot.y0;
        for ((row, height), text) in self.rows.iter().zip(&heights).zip(&said) {
            let x = place(&segments, row.model.max(row.reference)) + 8.0;
            let words = TextStyle { weight: Weight::Bold, halo: true, ..canvas.words(SMALL) };
            canvas.text(x, y + height / 2.0 + 4.0, text, words);
            y += height;
        }
        let mut x = plot.x1;
        for (c, wide) in columns.iter().enumerate() {
            x += wide;
            let words = TextStyle { anchor: Anchor::End, colour: theme.faint(), ..canvas.words(SMALL) };
            let name = fit(&self.names[c], SMALL, Weight::Regular, wide - 8.0);
            canvas.text(x, plot.y0 - 6.0, &name, words);
            let mut y = plot.y0;
            for (value, height) in values.iter().zip(&heights) {
                canvas.text(x, y + height / 2.0 + 4.0, &value[c], words);
                y += height;
            }
        }
        canvas.line((plot.x0, plot.y0), (plot.x0, plot.y1), solid(theme.axis(), 1.2));
        let broken = if segments.len() > 1 { ", broken where the zigzag is" } else { "" };
        let words = TextStyle { anchor: Anchor::Middle, colour: theme.faint(), ..canvas.words(12.0) };
        let title = format!("{}{broken}", self.label);
        canvas.text((plot.x0 + plot.x1) / 2.0, plot.y1 + 38.0, &title, words);
        canvas.size.1 = (plot.y1 + 54.0).round();
        Ok(canvas.finish(&self.heading.title, &said.join("; ")))
    }

    fn words(&self, row: &ReferenceRow) -> String {
        percent(row.model, row.reference)
    }

    fn legend(&self, canvas: &mut Canvas, y: f64) -> f64 {
        let mut x = EDGE;
        for (i, name) in self.names.iter().enumerate() {
            let colour = canvas.theme.series(i).colour;
            let area = Rect { x0: x, y0: y, x1: x + 26.0, y1: y + BAR };
            if i == 0 {
                canvas.rect(area, colour, None);
            } else {
                let card = canvas.theme.card();
                canvas.rect(area, card, Some(solid(colour, 1.4)));
                hatch(canvas, area, colour);
            }
            let words = canvas.words(SMALL);
            canvas.text(x + 32.0, y + 11.0, name, words);
            x += 52.0 + width(name, SMALL, Weight::Regular);
        }
        let words = TextStyle { colour: canvas.theme.faint(), ..canvas.words(SMALL) };
        let text = format!("percent: by how much {} differs from {}", self.names[0], self.names[1]);
        let text = fit(&text, SMALL, Weight::Regular, WIDTH - EDGE - x);
        canvas.text(x, y + 11.0, &text, words);
        y + BAR
    }

    /// Returns the parts of the axis. The axis is broken at the widest gaps, at most twice. The
    /// width of a part depends on the number of values in it. Behind the longest bar of each part
    /// there is room for a label of width `label`.
    fn segments(&self, plot: Rect, label: f64) -> Vec<Segment> {
        let mut values: Vec<f64> = self.rows.iter().flat_map(|r| [r.model, r.reference]).collect();
        values.sort_by(f64::total_cmp);
        let mut gaps: Vec<(f64, usize)> = values
            .windows(2)
            .enumerate()
            .filter(|(_, w)| w[1] / w[0] > GAP)
            .map(|(i, w)| (w[1] / w[0], i + 1))
            .collect();
        gaps.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        gaps.truncate(2);
        let mut cuts: Vec<usize> = gaps.iter().map(|g| g.1).collect();
        cuts.sort_unstable();
        let mut begins = vec![0];
        begins.extend(&cuts);
        cuts.push(values.len());
        let parts: Vec<(&[f64], f64)> = begins
            .iter()
            .zip(&cuts)
            .map(|(a, b)| &values[*a..*b])
            .map(|v| (v, (v.len() as f64 / values.len() as f64).max(0.25)))
            .collect();
        let total: f64 = parts.iter().map(|p| p.1).sum();
        let room = plot.width() - BREAK * (parts.len() as f64 - 1.0);
        let mut from = plot.x0;
        let mut out = vec![];
        for (i, (v, share)) in parts.iter().enumerate() {
            let (least, most) = (v[0], v[v.len() - 1]);
            // Ends of bars keep a distance from the breaks.
            let before = if i == 0 { 0.0 } else { values[begins[i] - 1] };
            let to = from + room * share / total;
            let lo = match i {
                0 => 0.0,
                _ => (least - (most - least).max(0.3 * least) * 0.4).max(libm::sqrt(before * least)),
            };
            let hi = lo + (most - lo) * (to - from) / (to - from - label).max(20.0);
            out.push(Segment { lo, hi, from, to });
            from = to + BREAK;
        }
        out
    }
}

impl Segment {
    fn at(self, value: f64) -> f64 {
        self.from + (value - self.lo) / (self.hi - self.lo) * (self.to - self.from)
    }
}

/// Returns the position of a value, which lies in one of the parts.
fn place(segments: &[Segment], value: f64) -> f64 {
    let inside = segments.iter().find(|s| value <= s.hi).or(segments.last());
    inside.map_or(0.0, |s| s.at(value))
}

/// Draws slanted lines over a bar, so that it differs from a filled bar without its colour.
fn hatch(canvas: &mut Canvas, area: Rect, colour: &str) {
    let mut x = area.x0 + 5.0;
    while x < area.x1 {
        let end = (x + area.height() * 0.6).min(area.x1);
        let y = area.y1 - (end - x) / 0.6;
        canvas.line((x, area.y1), (end, y), solid(colour, 0.9));
        x += 6.0;
    }
}

/// Draws zigzags through everything between two parts of the axis.
fn breaks(canvas: &mut Canvas, segments: &[Segment], plot: Rect) {
    let theme: Theme = canvas.theme;
    for pair in segments.windows(2) {
        let edge = |x: f64| -> Vec<(f64, f64)> {
            let steps = ((plot.height() + 12.0) / 8.0) as usize;
            let wave = |i: usize| if i.is_multiple_of(2) { -3.0 } else { 3.0 };
            (0..=steps).map(|i| (x + wave(i), plot.y0 - 4.0 + i as f64 * 8.0)).collect()
        };
        let (a, b) = (edge(pair[0].to + 4.0), edge(pair[1].from - 4.0));
        let band: Vec<(f64, f64)> = a.iter().copied().chain(b.iter().rev().copied()).collect();
        canvas.polygon(&band, theme.card());
        canvas.polyline(&a, solid(theme.axis(), 1.2));
        canvas.polyline(&b, solid(theme.axis(), 1.2));
    }
}
