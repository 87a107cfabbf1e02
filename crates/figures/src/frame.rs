//! Frames: the common part of all charts with two axes, which is the card, the title and subtitle,
//! the axes with ticks and grid, and the area of the plot.

use crate::canvas::{Anchor, Canvas, Figure, Rect, TextStyle, solid};
use crate::scale::Scale;
use crate::series::Heading;
use crate::text::{Weight, width, wrap};
use crate::theme::Theme;
use crate::units::{Quantity, Tick, linear_ticks, log_ticks};

/// The width of every card, in SVG units.
pub const WIDTH: f64 = 800.0;
/// The margin at the left and right edge of a card.
pub const EDGE: f64 = 20.0;
/// The font size of the texts at ticks and at data.
pub const SMALL: f64 = 11.5;
/// The height of a line of such text.
pub const LINE: f64 = 15.0;

/// An axis that has no position on the card yet.
pub struct Axis<'a> {
    /// What the axis measures, in words.
    pub label: &'a str,
    /// The quantity, which determines the unit.
    pub quantity: Quantity,
    /// The scale of its values.
    pub scale: Scale,
    /// Given ticks. If there are none, ticks are at round values.
    pub ticks: Option<Vec<Tick>>,
}

impl<'a> Axis<'a> {
    /// Returns an axis with ticks at round values.
    pub fn new(label: &'a str, quantity: Quantity, scale: Scale) -> Axis<'a> {
        Axis { label, quantity, scale, ticks: None }
    }

    fn ticks(&self, most: usize) -> Vec<Tick> {
        if let Some(given) = &self.ticks {
            return given.clone();
        }
        let Scale { lo, hi, .. } = self.scale;
        let of = if self.scale.is_log() { log_ticks } else { linear_ticks };
        of(self.quantity, lo, hi, most)
    }

    fn title(&self) -> String {
        if self.scale.is_log() { format!("{} (log scale)", self.label) } else { self.label.to_owned() }
    }
}

/// Draws the title and subtitle on a card, and returns the y below them.
pub fn head(canvas: &mut Canvas, heading: &Heading) -> f64 {
    let room = canvas.size.0 - 2.0 * EDGE;
    let mut y = 14.0;
    let title = TextStyle { weight: Weight::Bold, ..canvas.words(17.0) };
    for line in wrap(&heading.title, 17.0, Weight::Bold, room) {
        y += 21.0;
        canvas.text(EDGE, y - 4.0, &line, title);
    }
    let words = TextStyle { colour: canvas.theme.faint(), ..canvas.words(12.0) };
    for line in wrap(&heading.subtitle, 12.0, Weight::Regular, room) {
        y += 16.0;
        canvas.text(EDGE, y, &line, words);
    }
    y + 8.0
}

/// A card with axes.
pub struct Frame {
    /// The canvas of the card.
    pub canvas: Canvas,
    /// The area of the data.
    pub plot: Rect,
    /// The scale from x values to positions on the card.
    pub x: Scale,
    /// The scale from y values to positions on the card. Larger values are further up.
    pub y: Scale,
    /// The y below the axis at which further content may begin.
    pub bottom: f64,
}

impl Frame {
    /// Draws a card with axes around a plot of height `height`, and leaves a column of width
    /// `right` to the right of the plot.
    pub fn new(heading: &Heading, x: &Axis<'_>, y: &Axis<'_>, right: f64, height: f64) -> Frame {
        Frame::with(heading, x, y, right, height, true)
    }

    fn with(heading: &Heading, x: &Axis<'_>, y: &Axis<'_>, right: f64, height: f64, grid: bool) -> Frame {
        let mut canvas = Canvas::new(WIDTH, 0.0, heading.theme);
        let top = head(&mut canvas, heading) + 32.0;
        let y_ticks = y.ticks((height / 34.0) as usize);
        let widest = y_ticks.iter().map(|t| width(&t.label, SMALL, Weight::Regular)).fold(0.0, f64::max);
        let plot = Rect { x0: EDGE + widest + 10.0, y0: top, x1: WIDTH - right.max(EDGE), y1: top + height };
        let (sx, sy) = (x.scale.between(plot.x0, plot.x1), y.scale.between(plot.y1, plot.y0));
        let mut frame = Frame { canvas, plot, x: sx, y: sy, bottom: plot.y1 };
        frame.y_axis(&y_ticks, &y.title());
        frame.x_axis(&x.ticks((plot.width() / 55.0) as usize), &x.title(), grid);
        frame
    }

    /// Draws the same frame without vertical grid lines, because the ticks of x stand at groups.
    pub fn groups(heading: &Heading, x: &Axis<'_>, y: &Axis<'_>, right: f64, height: f64) -> Frame {
        Frame::with(heading, x, y, right, height, false)
    }

    /// Returns the colours of the card.
    pub fn theme(&self) -> Theme {
        self.canvas.theme
    }

    fn y_axis(&mut self, ticks: &[Tick], title: &str) {
        let (theme, plot) = (self.theme(), self.plot);
        for tick in ticks {
            let at = self.y.at(tick.value);
            let width = if tick.label.is_empty() { 0.5 } else { 1.0 };
            self.canvas.line((plot.x0, at), (plot.x1, at), solid(theme.grid(), width));
            let words = TextStyle { anchor: Anchor::End, colour: theme.faint(), ..self.canvas.words(SMALL) };
            self.canvas.text(plot.x0 - 7.0, at + 4.0, &tick.label, words);
        }
        let words = TextStyle { colour: theme.faint(), ..self.canvas.words(12.0) };
        self.canvas.text(EDGE, plot.y0 - 13.0, title, words);
    }

    fn x_axis(&mut self, ticks: &[Tick], title: &str, grid: bool) {
        let (theme, plot) = (self.theme(), self.plot);
        let words = TextStyle { anchor: Anchor::Middle, colour: theme.faint(), ..self.canvas.words(SMALL) };
        for tick in ticks {
            let at = self.x.at(tick.value);
            if grid && !tick.label.is_empty() {
                self.canvas.line((at, plot.y0), (at, plot.y1), solid(theme.grid(), 1.0));
            }
            let down = if tick.label.is_empty() { 3.0 } else { 5.0 };
            self.canvas.line((at, plot.y1), (at, plot.y1 + down), solid(theme.axis(), 1.0));
            self.canvas.text(at, plot.y1 + 18.0, &tick.label, words);
        }
        self.canvas.line((plot.x0, plot.y1), (plot.x1, plot.y1), solid(theme.axis(), 1.2));
        let words = TextStyle { size: 12.0, ..words };
        self.canvas.text((plot.x0 + plot.x1) / 2.0, plot.y1 + 37.0, title, words);
        self.bottom = plot.y1 + 46.0;
    }

    /// Returns the position of a data point on the card.
    pub fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.at(x), self.y.at(y))
    }

    /// Returns the finished figure, cropped to the height of its contents.
    pub fn finish(mut self, heading: &Heading, about: &str) -> Figure {
        self.canvas.size.1 = (self.bottom + 14.0).round();
        self.canvas.finish(&heading.title, about)
    }
}
