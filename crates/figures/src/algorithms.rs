//! Algorithm comparison: a chart of the times of many algorithms over size, relative to the fastest
//! of them or to a bound, with the algorithm that the selector chooses.

use crate::canvas::{Figure, solid};
use crate::crossover::at;
use crate::frame::{Axis, Frame};
use crate::lines::{self, End};
use crate::place::Placer;
use crate::scale::Scale;
use crate::series::{Fault, Heading, Series, range, sorted};
use crate::strip::{self, StripRow, Tag};
use crate::units::Quantity;

/// The time by which all times are divided.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Baseline {
    /// The time of the fastest series at each size.
    #[default]
    Best,
    /// A bound: x in bytes, y in ns. It must cover the sizes of all series.
    Bound(Vec<(f64, f64)>),
}

/// A chart of relative time over size, on two logarithmic axes. The rows below the axis show which
/// algorithm is fastest, which one is selected, and by how much the selected one is slower.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Algorithms {
    /// The title and subtitle.
    pub heading: Heading,
    /// The label of the size axis, such as `bytes per rank`.
    pub x_label: String,
    /// One series per algorithm: x in bytes, y in ns.
    pub series: Vec<Series>,
    /// The time by which all times are divided.
    pub against: Baseline,
    /// The name of the selected series at some sizes (in bytes). Empty if there is no selection.
    pub chosen: Vec<(f64, String)>,
}

/// Times that differ by less than this share count as equally fast.
const SAME: f64 = 1e-6;

impl Algorithms {
    /// Draws the chart.
    ///
    /// # Errors
    /// Fails as [`crate::latency::Latency::draw`] does for the series, if the bound misses a size
    /// of a series, if a chosen name is not a series, or if the chosen series has no time at that
    /// size.
    pub fn draw(&self) -> Result<Figure, Fault> {
        let series = sorted(&self.series, true)?;
        let bound = match &self.against {
            Baseline::Best => None,
            Baseline::Bound(points) => Some(Series::new("bound", points.clone()).sorted(true)?),
        };
        let best = |x: f64| -> Option<(usize, f64)> {
            let there = series.iter().enumerate().filter_map(|(i, s)| Some((i, at(&s.points, x)?)));
            there.min_by(|a, b| a.1.total_cmp(&b.1))
        };
        let base = |x: f64| match &bound {
            Some(b) => at(&b.points, x),
            None => best(x).map(|b| b.1),
        };
        let mut relative = vec![];
        for s in &series {
            let mut points = vec![];
            for (x, y) in &s.points {
                let base =
                    base(*x).ok_or_else(|| Fault::new(format!("the bound has no value at x = {x}")))?;
                points.push((*x, y / base));
            }
            relative.push(Series { points, ..s.clone() });
        }
        let all = || relative.iter().flat_map(|s| &s.points);
        let (Some(xs), Some(ys)) = (range(all().map(|p| p.0)), range(all().map(|p| p.1))) else {
            return Err(Fault::new("there is no point to draw"));
        };
        let chosen = self.chosen(&series)?;

        let label =
            if bound.is_some() { "time relative to the bound" } else { "time relative to the fastest" };
        let x = Axis::new(&self.x_label, Quantity::Bytes, Scale::log_around(xs.0, xs.1, 0.03));
        let top = ys.1.max(1.5);
        let y =
            Axis::new(label, Quantity::Ratio, Scale::log(1.0 / libm::pow(top, 0.05), libm::pow(top, 1.06)));
        let names = || series.iter().map(|s| s.name.as_str()).chain(bound.as_ref().map(|b| b.name.as_str()));
        let height = lines::column_height(names()).max(330.0);
        let mut frame = Frame::new(&self.heading, &x, &y, lines::column_width(names()), height);
        let theme = frame.theme();
        let one = frame.y.at(1.0);
        let stroke = lines::bound_stroke(theme, 0);
        frame.canvas.line((frame.plot.x0, one), (frame.plot.x1, one), stroke);

        self.rows(&mut frame, &series, &chosen, &best);
        let mut placer = Placer::new(frame.plot);
        for (i, s) in relative.iter().enumerate() {
            lines::line(&mut frame, s, theme.series(i), &mut placer);
        }
        for (x, i, y) in &chosen {
            if let Some(base) = base(*x) {
                let at = frame.at((*x, y / base));
                frame.canvas.circle(at, 7.0, "none", Some(solid(theme.ink(), 1.6)));
                debug_assert!(*i < series.len());
            }
        }
        let mut ends: Vec<End> = relative
            .iter()
            .enumerate()
            .filter_map(|(i, s)| {
                let at = frame.at(*s.points.last()?);
                Some(End { name: s.name.clone(), at, style: Some(theme.series(i)) })
            })
            .collect();
        if bound.is_some() {
            ends.push(End { name: "bound".into(), at: (frame.plot.x1 - 6.0, one), style: None });
        }
        lines::ends(&mut frame, &ends);
        Ok(frame.finish(&self.heading, label))
    }

    /// Returns the selections as tuples of the size, the index of the series and its time.
    fn chosen(&self, series: &[Series]) -> Result<Vec<(f64, usize, f64)>, Fault> {
        let mut out = vec![];
        for (x, name) in &self.chosen {
            let i = series.iter().position(|s| s.name == *name).ok_or_else(|| {
                Fault::new(format!("`{name}` is chosen at x = {x}, and there is no such series"))
            })?;
            let time = at(&series[i].points, *x)
                .ok_or_else(|| Fault::new(format!("`{name}` is chosen at x = {x}, and has no time there")))?;
            out.push((*x, i, time));
        }
        out.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(out)
    }

    fn rows(
        &self,
        frame: &mut Frame,
        series: &[Series],
        chosen: &[(f64, usize, f64)],
        best: &dyn Fn(f64) -> Option<(usize, f64)>,
    ) {
        let mut xs: Vec<f64> = match chosen {
            [] => series.iter().flat_map(|s| s.points.iter().map(|p| p.0)).collect(),
            some => some.iter().map(|c| c.0).collect(),
        };
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let mut fastest = vec![];
        let mut slower = vec![];
        for x in xs {
            let Some((i, least)) = best(x) else { continue };
            let taken = chosen.iter().find(|c| c.0 == x);
            let same = taken.filter(|c| c.2 <= least * (1.0 + SAME));
            fastest.push((x, series[same.map_or(i, |c| c.1)].name.clone()));
            if let Some(c) = taken {
                let percent = 100.0 * (c.2 / least - 1.0);
                let word = match same {
                    Some(_) => "0 %".to_owned(),
                    None => format!("+{}", Quantity::Percent.show(percent, 2)),
                };
                slower.push((x, word));
            }
        }
        let took = chosen.iter().map(|c| (c.0, series[c.1].name.clone())).collect();
        let row = |text, words| StripRow { tag: Tag::Words(text), words, guides: false };
        let rows = [row("fastest", fastest), row("selected (ringed)", took), row("slower by", slower)];
        strip::draw(frame, "at each size", &rows);
    }
}
