//! Lines: draws series and bounds, with their names at the right ends of the lines.

use crate::canvas::{Rect, Stroke, TextStyle, solid};
use crate::frame::{EDGE, Frame, LINE, SMALL};
use crate::place::{Placer, column};
use crate::series::Series;
use crate::text::{Weight, width, wrap};
use crate::theme::{Style, Theme};

/// The largest width of the names beside a plot.
const NAMES: f64 = 170.0;
/// The distances from the plot to a marker, and to the name after it.
const MARK: f64 = 16.0;
const NAME: f64 = 30.0;
/// The radius of markers.
const RADIUS: f64 = 3.8;

/// The side of a bound that no curve can reach.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BoundSide {
    /// The side below, for times.
    Below,
    /// The side above, for rates and shares.
    Above,
}

/// The label at the right end of a line.
pub struct End {
    /// The text.
    pub name: String,
    /// The position of the end of the line.
    pub at: (f64, f64),
    /// The style of the line. None for a bound.
    pub style: Option<Style>,
}

/// Returns the stroke of bound number `i`.
pub fn bound_stroke(theme: Theme, i: usize) -> Stroke<'static> {
    const DASHES: [&str; 4] = ["6 4", "2 3", "10 3 2 3", "12 6"];
    Stroke { colour: theme.bound(), width: 1.8, dash: DASHES[i % 4] }
}

/// Returns the width that names need beside a plot.
pub fn column_width<'a>(names: impl IntoIterator<Item = &'a str>) -> f64 {
    let lines = names.into_iter().flat_map(|n| wrap(n, SMALL, Weight::Regular, NAMES));
    NAME + EDGE + lines.map(|l| width(&l, SMALL, Weight::Regular)).fold(0.0, f64::max)
}

/// Returns the height that names need beside a plot.
pub fn column_height<'a>(names: impl IntoIterator<Item = &'a str>) -> f64 {
    names.into_iter().map(|n| wrap(n, SMALL, Weight::Regular, NAMES).len() as f64 * LINE + 3.0).sum()
}

/// Writes the name of a series with its marker at height `y` in the column to the right of the
/// plot.
pub fn name_tag(frame: &mut Frame, name: &str, style: Style, y: f64) {
    let x = frame.plot.x1;
    frame.canvas.marker((x + MARK, y), RADIUS, style);
    write_name(frame, name, frame.canvas.words(SMALL), y);
}

/// Writes the name of bound number `i` with its dashes at height `y` in the column to the right of
/// the plot.
pub fn bound_tag(frame: &mut Frame, name: &str, i: usize, y: f64) {
    let stroke = bound_stroke(frame.theme(), i);
    let x = frame.plot.x1 + MARK;
    frame.canvas.line((x - 9.0, y), (x + 9.0, y), stroke);
    let words = TextStyle { colour: frame.theme().bound(), ..frame.canvas.words(SMALL) };
    write_name(frame, name, words, y);
}

/// Writes the lines of a name, centred around height `y`.
fn write_name(frame: &mut Frame, name: &str, words: TextStyle, y: f64) {
    let lines = wrap(name, SMALL, Weight::Regular, NAMES);
    for (i, line) in lines.iter().enumerate() {
        let down = (i as f64 - (lines.len() as f64 - 1.0) / 2.0) * LINE;
        frame.canvas.text(frame.plot.x1 + NAME, y + 4.0 + down, line, words);
    }
}

/// Draws a series and reports its position to the placer.
pub fn line(frame: &mut Frame, series: &Series, style: Style, placer: &mut Placer) {
    let points: Vec<(f64, f64)> = series.points.iter().map(|p| frame.at(*p)).collect();
    frame.canvas.polyline(&points, Stroke { colour: style.colour, width: 2.2, dash: style.dash });
    for at in &points {
        frame.canvas.marker(*at, RADIUS, style);
        placer.block(Rect { x0: at.0, y0: at.1, x1: at.0, y1: at.1 }.grown(RADIUS + 1.0));
    }
    placer.avoid(&points);
}

/// Draws bound number `i`, and shades the side `never`, if given, which no curve can reach.
pub fn bound(frame: &mut Frame, series: &Series, i: usize, never: Option<BoundSide>, placer: &mut Placer) {
    let points: Vec<(f64, f64)> = series.points.iter().map(|p| frame.at(*p)).collect();
    if let (Some(never), [first, .., last]) = (never, &points[..]) {
        let edge = if never == BoundSide::Below { frame.plot.y1 } else { frame.plot.y0 };
        let mut area = points.clone();
        area.extend([(last.0, edge), (first.0, edge)]);
        let fill = if frame.theme() == Theme::Light { "#f3f3f3" } else { "#1b2029" };
        frame.canvas.polygon(&area, fill);
    }
    let stroke = bound_stroke(frame.theme(), i);
    frame.canvas.polyline(&points, stroke);
    if let [at] = points[..] {
        frame.canvas.line((at.0 - 12.0, at.1), (at.0 + 12.0, at.1), stroke);
    }
    placer.avoid(&points);
}

/// Writes names beside the plot, with a thin line from each name to the end of its series. Each
/// name is as close to that end as the other names allow.
pub fn ends(frame: &mut Frame, ends: &[End]) {
    let plot = frame.plot;
    let wanted: Vec<(f64, f64)> = ends
        .iter()
        .map(|e| (e.at.1, wrap(&e.name, SMALL, Weight::Regular, NAMES).len() as f64 * LINE + 3.0))
        .collect();
    let mut bound = 0;
    for (end, y) in ends.iter().zip(column(&wanted, plot.y0 - 6.0, plot.y1 + 6.0)) {
        let colour = end.style.map_or(frame.theme().bound(), |s| s.colour);
        let from = (end.at.0 + RADIUS + 1.5, end.at.1);
        let to = (plot.x1 + MARK - if end.style.is_some() { 5.0 } else { 9.0 }, y);
        frame.canvas.polyline(&[from, ((plot.x1 + 2.0).max(from.0), end.at.1), to], solid(colour, 0.7));
        match end.style {
            Some(style) => name_tag(frame, &end.name, style, y),
            None => {
                bound_tag(frame, &end.name, bound, y);
                bound += 1;
            }
        }
    }
}

/// Marks a point with a ring and a text near it, which a thin line connects. If `drop` is set, a
/// dotted line leads from the point down to the axis.
pub fn mark(frame: &mut Frame, at: (f64, f64), text: &str, drop: bool, placer: &mut Placer) {
    let theme = frame.theme();
    if drop {
        let stroke = Stroke { colour: theme.ink(), width: 0.9, dash: "2 3" };
        frame.canvas.line(at, (at.0, frame.plot.y1), stroke);
    }
    let size = (width(text, SMALL, Weight::Bold) + 4.0, LINE);
    let place = placer.place(at, size);
    if let Some(place) = place {
        let near = (at.0.clamp(place.x0, place.x1), at.1.clamp(place.y0, place.y1));
        frame.canvas.line(at, near, solid(theme.ink(), 0.9));
        let words = TextStyle { weight: Weight::Bold, halo: true, ..frame.canvas.words(SMALL) };
        frame.canvas.text(place.x0 + 2.0, place.y1 - 4.0, text, words);
    }
    frame.canvas.circle(at, 5.2, "none", Some(solid(theme.card(), 4.0)));
    frame.canvas.circle(at, 5.2, "none", Some(solid(theme.ink(), 1.8)));
}
