//! Canvas: the card that a chart is drawn on. It holds SVG shapes and a list of all texts with the
//! boxes that they fill.

use crate::text::{ASCENT, DESCENT, FAMILY, Weight, width};
use crate::theme::{Marker, Style, Theme};
use kbc_diag::escape_controls::escape_name;
use svg::Document;
use svg::node::Node;
use svg::node::Text;
use svg::node::element::Element;

/// A finished chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    about: String,
    svg: String,
    size: (f64, f64),
    labels: Vec<Label>,
}

impl Figure {
    /// Returns the SVG text. It has one element per line, no scripts and no links, and refers to
    /// fonts only by name.
    pub fn svg(&self) -> &str {
        &self.svg
    }

    /// Returns the width and height in SVG units, which a browser takes as pixels.
    pub fn size(&self) -> (f64, f64) {
        self.size
    }

    /// Returns a one-sentence description of the chart. It becomes the `desc` element for readers
    /// who cannot see the chart.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Returns every text of the chart with its position.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// Returns a PNG of this width in pixels, with the height that the figure needs and with the
    /// embedded font.
    ///
    /// # Errors
    /// Fails if the width is 0 or above 16,384.
    pub fn png(&self, width: u32) -> Result<Vec<u8>, crate::Fault> {
        crate::png::render(&self.svg, self.size, width)
    }
}

/// A line of text with the box that it fills, in SVG units.
#[derive(Clone, PartialEq, Debug)]
pub struct Label {
    /// The text.
    pub text: String,
    /// The box.
    pub area: Rect,
}

/// An axis-aligned box.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rect {
    /// The left edge.
    pub x0: f64,
    /// The upper edge.
    pub y0: f64,
    /// The right edge.
    pub x1: f64,
    /// The lower edge.
    pub y1: f64,
}

impl Rect {
    /// Returns the width.
    pub fn width(self) -> f64 {
        self.x1 - self.x0
    }

    /// Returns the height.
    pub fn height(self) -> f64 {
        self.y1 - self.y0
    }

    /// Returns whether the boxes share more than an edge.
    pub fn overlaps(self, other: Rect) -> bool {
        self.x0 < other.x1 && other.x0 < self.x1 && self.y0 < other.y1 && other.y0 < self.y1
    }

    /// Returns whether this box lies inside the other one.
    pub fn within(self, other: Rect) -> bool {
        self.x0 >= other.x0 && self.y0 >= other.y0 && self.x1 <= other.x1 && self.y1 <= other.y1
    }

    /// Returns whether a point lies in the box.
    pub fn holds(self, (x, y): (f64, f64)) -> bool {
        (self.x0..=self.x1).contains(&x) && (self.y0..=self.y1).contains(&y)
    }

    /// Returns the box enlarged by this length at every side.
    pub fn grown(self, by: f64) -> Rect {
        Rect { x0: self.x0 - by, y0: self.y0 - by, x1: self.x1 + by, y1: self.y1 + by }
    }
}

/// The point of a line of text that a position refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// The left end.
    Start,
    /// The middle.
    Middle,
    /// The right end.
    End,
}

/// The style of a text.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TextStyle {
    /// The font size.
    pub size: f64,
    /// The weight.
    pub weight: Weight,
    /// The colour.
    pub colour: &'static str,
    /// The point of the text that its position refers to.
    pub anchor: Anchor,
    /// Whether a border in the colour of the card separates the text from lines behind it.
    pub halo: bool,
}

/// The style of a line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stroke<'a> {
    /// The colour.
    pub colour: &'a str,
    /// The width.
    pub width: f64,
    /// The value of `stroke-dasharray`. Empty for a solid line.
    pub dash: &'a str,
}

/// Returns a stroke without dashes.
pub fn solid(colour: &str, width: f64) -> Stroke<'_> {
    Stroke { colour, width, dash: "" }
}

/// Returns the box that a text fills if its anchor is at (x, baseline y).
pub fn area(x: f64, y: f64, text: &str, words: TextStyle) -> Rect {
    let w = width(text, words.size, words.weight);
    let x0 = match words.anchor {
        Anchor::Start => x,
        Anchor::Middle => x - w / 2.0,
        Anchor::End => x - w,
    };
    Rect { x0, y0: y - ASCENT * words.size, x1: x0 + w, y1: y + DESCENT * words.size }
}

/// Formats a number with at most two decimals, without trailing zeros.
pub fn short(v: f64) -> String {
    let text = format!("{v:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.to_owned() }
}

/// A drawing in progress.
pub struct Canvas {
    nodes: Vec<Element>,
    /// All texts so far.
    pub labels: Vec<Label>,
    /// The width and height.
    pub size: (f64, f64),
    /// The colours.
    pub theme: Theme,
}

impl Canvas {
    /// Returns an empty card.
    pub fn new(width: f64, height: f64, theme: Theme) -> Canvas {
        Canvas { nodes: vec![], labels: vec![], size: (width, height), theme }
    }

    /// Returns the style of a regular text of this size in the theme's colour, anchored at its left
    /// end.
    pub fn words(&self, size: f64) -> TextStyle {
        let colour = self.theme.ink();
        TextStyle { size, weight: Weight::Regular, colour, anchor: Anchor::Start, halo: false }
    }

    /// Writes a text with its baseline at (x, y). An empty text draws nothing.
    pub fn text(&mut self, x: f64, y: f64, text: &str, words: TextStyle) {
        if text.is_empty() {
            return;
        }
        let anchor = match words.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let mut node = Element::new("text");
        node.assign("x", short(x));
        node.assign("y", short(y));
        node.assign("font-size", short(words.size));
        node.assign("fill", words.colour);
        if words.anchor != Anchor::Start {
            node.assign("text-anchor", anchor);
        }
        if words.weight == Weight::Bold {
            node.assign("font-weight", "bold");
        }
        if words.halo {
            // The stroke lies under the fill, so letters keep their weight.
            node.assign("paint-order", "stroke");
            node.assign("stroke", self.theme.card());
            node.assign("stroke-width", "4");
            node.assign("stroke-linejoin", "round");
        }
        node.append(Text::new(escape_name(text)));
        self.nodes.push(node);
        self.labels.push(Label { text: text.to_owned(), area: area(x, y, text, words) });
    }

    /// Draws a straight line.
    pub fn line(&mut self, a: (f64, f64), b: (f64, f64), stroke: Stroke<'_>) {
        let mut node = Element::new("line");
        for (name, v) in [("x1", a.0), ("y1", a.1), ("x2", b.0), ("y2", b.1)] {
            node.assign(name, short(v));
        }
        self.stroked(node, stroke);
    }

    /// Draws a line through several points.
    pub fn polyline(&mut self, points: &[(f64, f64)], stroke: Stroke<'_>) {
        let mut node = Element::new("polyline");
        node.assign("points", listed(points));
        node.assign("fill", "none");
        node.assign("stroke-linejoin", "round");
        self.stroked(node, stroke);
    }

    /// Draws an unfilled path, given as SVG path data (`M x y Q ..`).
    pub fn path(&mut self, d: &str, stroke: Stroke<'_>) {
        let mut node = Element::new("path");
        node.assign("d", d);
        node.assign("fill", "none");
        self.stroked(node, stroke);
    }

    /// Draws a filled polygon.
    pub fn polygon(&mut self, points: &[(f64, f64)], fill: &str) {
        let mut node = Element::new("polygon");
        node.assign("points", listed(points));
        node.assign("fill", fill);
        self.nodes.push(node);
    }

    /// Draws a filled box, with a border if one is given.
    pub fn rect(&mut self, at: Rect, fill: &str, border: Option<Stroke<'_>>) {
        let mut node = Element::new("rect");
        for (name, v) in [("x", at.x0), ("y", at.y0), ("width", at.width()), ("height", at.height())] {
            node.assign(name, short(v));
        }
        node.assign("fill", fill);
        match border {
            Some(stroke) => self.stroked(node, stroke),
            None => self.nodes.push(node),
        }
    }

    /// Draws a circle, with a border if one is given.
    pub fn circle(&mut self, at: (f64, f64), radius: f64, fill: &str, border: Option<Stroke<'_>>) {
        let mut node = Element::new("circle");
        for (name, v) in [("cx", at.0), ("cy", at.1), ("r", radius)] {
            node.assign(name, short(v));
        }
        node.assign("fill", fill);
        match border {
            Some(stroke) => self.stroked(node, stroke),
            None => self.nodes.push(node),
        }
    }

    fn stroked(&mut self, mut node: Element, stroke: Stroke<'_>) {
        node.assign("stroke", stroke.colour);
        node.assign("stroke-width", short(stroke.width));
        if !stroke.dash.is_empty() {
            node.assign("stroke-dasharray", stroke.dash);
        }
        self.nodes.push(node);
    }

    /// Draws the marker of a data point.
    pub fn marker(&mut self, (x, y): (f64, f64), r: f64, style: Style) {
        let card = solid(self.theme.card(), 0.8);
        let colour = style.colour;
        match style.marker {
            Marker::Circle => self.circle((x, y), r, colour, Some(card)),
            Marker::Square => {
                let r = r * 0.9;
                self.rect(Rect { x0: x - r, y0: y - r, x1: x + r, y1: y + r }, colour, Some(card));
            }
            Marker::Up => self
                .polygon(&[(x, y - 1.2 * r), (x + 1.1 * r, y + 0.8 * r), (x - 1.1 * r, y + 0.8 * r)], colour),
            Marker::Diamond => self
                .polygon(&[(x, y - 1.3 * r), (x + 1.3 * r, y), (x, y + 1.3 * r), (x - 1.3 * r, y)], colour),
            Marker::Down => self
                .polygon(&[(x, y + 1.2 * r), (x + 1.1 * r, y - 0.8 * r), (x - 1.1 * r, y - 0.8 * r)], colour),
            Marker::Ring => self.circle((x, y), r * 0.85, self.theme.card(), Some(solid(colour, 1.8))),
            Marker::Plus => {
                self.line((x - 1.2 * r, y), (x + 1.2 * r, y), solid(colour, 2.2));
                self.line((x, y - 1.2 * r), (x, y + 1.2 * r), solid(colour, 2.2));
            }
            Marker::Cross => {
                self.line((x - r, y - r), (x + r, y + r), solid(colour, 2.2));
                self.line((x - r, y + r), (x + r, y - r), solid(colour, 2.2));
            }
        }
    }

    /// Returns the finished figure. Screen readers read out `title` and `about`.
    pub fn finish(self, title: &str, about: &str) -> Figure {
        let (w, h) = self.size;
        let mut document = Document::new()
            .set("width", short(w))
            .set("height", short(h))
            .set("viewBox", format!("0 0 {} {}", short(w), short(h)))
            .set("role", "img")
            .set("font-family", FAMILY);
        for (name, words) in [("title", title), ("desc", about)] {
            let mut node = Element::new(name);
            node.append(Text::new(escape_name(words)));
            document.append(node);
        }
        let mut card = Element::new("rect");
        card.assign("width", short(w));
        card.assign("height", short(h));
        card.assign("fill", self.theme.card());
        document.append(card);
        for node in self.nodes {
            document.append(node);
        }
        Figure { about: about.to_owned(), svg: format!("{document}\n"), size: self.size, labels: self.labels }
    }
}

fn listed(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", short(*x), short(*y))).collect::<Vec<_>>().join(" ")
}
