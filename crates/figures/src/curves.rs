//! Curve charts: the common part of all charts of curves, with axes around the data, bounds, named
//! series, and marks where the best series changes.

use crate::canvas::{Anchor, Figure, TextStyle};
use crate::crossover::{Crossover, crossovers};
use crate::frame::{Axis, Frame, SMALL};
use crate::lines::{self, BoundSide, End};
use crate::place::Placer;
use crate::scale::Scale;
use crate::series::{Fault, Heading, Series, range, sorted};
use crate::strip::{self, StripRow, Tag};
use crate::units::Quantity;

/// A chart of curves over a logarithmic x axis.
pub struct Curves<'a> {
    /// The title and subtitle.
    pub heading: &'a Heading,
    /// The label and the quantity of the x axis.
    pub x: (&'a str, Quantity),
    /// The label and the quantity of the y axis.
    pub y: (&'a str, Quantity),
    /// Whether the y axis is logarithmic. A linear y axis begins at 0.
    pub y_log: bool,
    /// The curves.
    pub series: &'a [Series],
    /// The bounds, drawn grey and dashed.
    pub bounds: &'a [Series],
    /// The side of the bounds that no curve can reach.
    pub never: BoundSide,
    /// Whether the chart marks the points at which another series becomes the lowest.
    pub changes: bool,
}

impl Curves<'_> {
    /// Draws the chart.
    ///
    /// # Errors
    /// Fails as [`sorted`] does.
    pub fn draw(&self) -> Result<Figure, Fault> {
        let series = sorted(self.series, self.y_log)?;
        let bounds = if self.bounds.is_empty() { vec![] } else { sorted(self.bounds, self.y_log)? };
        let all = || series.iter().chain(&bounds);
        let points = || all().flat_map(|s| &s.points);
        let (Some(xs), Some(ys)) = (range(points().map(|p| p.0)), range(points().map(|p| p.1))) else {
            return Err(Fault::new("there is no point to draw"));
        };
        let x = Axis::new(self.x.0, self.x.1, Scale::log_around(xs.0, xs.1, 0.03));
        let scale = match (self.y_log, ys.1) {
            (true, _) => Scale::log_around(ys.0, ys.1, 0.07),
            (false, 0.0) => Scale::linear(0.0, 1.0),
            (false, top) => Scale::linear(0.0, top * 1.08),
        };
        let y = Axis::new(self.y.0, self.y.1, scale);
        let names = || all().map(|s| s.name.as_str());
        let height = lines::column_height(names()).max(330.0);
        let mut frame = Frame::new(self.heading, &x, &y, lines::column_width(names()), height);
        let theme = frame.theme();

        let mut placer = Placer::new(frame.plot.grown(-3.0));
        for (i, b) in bounds.iter().enumerate() {
            let shade = (bounds.len() == 1).then_some(self.never);
            lines::bound(&mut frame, b, i, shade, &mut placer);
        }
        if let [only] = &bounds[..] {
            self.never(&mut frame, only, &mut placer);
        }
        let mut rows: Vec<StripRow<'_>> = vec![];
        for (i, s) in series.iter().enumerate() {
            let tag = if all().count() > 1 { Tag::Series(&s.name, theme.series(i)) } else { Tag::None };
            rows.push(StripRow { tag, words: s.bottleneck.clone(), guides: false });
        }
        for (i, b) in bounds.iter().enumerate() {
            rows.push(StripRow { tag: Tag::Bound(&b.name, i), words: b.bottleneck.clone(), guides: false });
        }
        rows.retain(|r| !r.words.is_empty());
        if let [only] = &mut rows[..] {
            only.guides = true;
        }
        strip::draw(&mut frame, "limited by", &rows);
        for (i, s) in series.iter().enumerate() {
            lines::line(&mut frame, s, theme.series(i), &mut placer);
        }
        let found = if self.changes { self.marks(&mut frame, &series, &mut placer) } else { vec![] };
        let styles = (0..series.len()).map(|i| Some(theme.series(i))).chain(bounds.iter().map(|_| None));
        let ends: Vec<End> = all()
            .zip(styles)
            .filter_map(|(s, style)| {
                let at = frame.at(*s.points.last()?);
                Some(End { name: s.name.clone(), at, style })
            })
            .collect();
        lines::ends(&mut frame, &ends);
        Ok(frame.finish(self.heading, &found.join("; ")))
    }

    /// Labels the area that no curve can reach, if it has room for the text.
    fn never(&self, frame: &mut Frame, bound: &Series, placer: &mut Placer) {
        let plot = frame.plot;
        let words =
            TextStyle { anchor: Anchor::End, colour: frame.theme().faint(), ..frame.canvas.words(SMALL) };
        let from = plot.x1 - 150.0;
        let ys: Vec<f64> =
            bound.points.iter().map(|p| frame.at(*p)).filter(|p| p.0 > from - 30.0).map(|p| p.1).collect();
        let (text, y) = match self.never {
            BoundSide::Below => ("nothing can be faster", plot.y1 - 8.0),
            BoundSide::Above => ("nothing can be better", plot.y0 + 14.0),
        };
        let free = match self.never {
            BoundSide::Below => ys.iter().all(|at| *at < y - 20.0),
            BoundSide::Above => ys.iter().all(|at| *at > y + 10.0),
        };
        if free && bound.points.len() > 1 {
            let x = frame.at(bound.points[bound.points.len() - 1]).0 - 6.0;
            placer.block(crate::canvas::area(x, y, text, words).grown(2.0));
            frame.canvas.text(x, y, text, words);
        }
    }

    /// Marks the points at which another series becomes the lowest, and returns the texts of the
    /// marks.
    fn marks(&self, frame: &mut Frame, series: &[Series], placer: &mut Placer) -> Vec<String> {
        let points: Vec<&[(f64, f64)]> = series.iter().map(|s| &s.points[..]).collect();
        let found = crossovers(&points);
        let places: Vec<(f64, f64)> = found.iter().map(|c| frame.at((c.x, c.y))).collect();
        // Texts should also avoid the dotted lines from the marks down to the axis.
        for at in &places {
            placer.avoid(&[*at, (at.0, frame.plot.y1)]);
        }
        let words = |c: &Crossover| format!("{} wins from {}", series[c.to].name, self.x.1.show(c.x, 2));
        let mut said = vec![];
        for (c, at) in found.iter().zip(places) {
            lines::mark(frame, at, &words(c), true, placer);
            said.push(words(c));
        }
        said
    }
}
