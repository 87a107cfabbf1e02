//! The card a chart is drawn on: shapes of SVG, and a list of all words with the boxes they fill.

use crate::text::{ASCENT, DESCENT, FAMILY, Weight, width};
use crate::theme::{Marker, Style, Theme};
use kbc_diag::visible::visible_name;
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
    /// The SVG text: one element a line, no scripts, no links, no fonts but by name.
    pub fn svg(&self) -> &str {
        &self.svg
    }

    /// Width and height in the units of the SVG, which a browser takes for pixels.
    pub fn size(&self) -> (f64, f64) {
        self.size
    }

    /// What it shows in a sentence, which is its `desc` for who cannot see it.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Every word of it and where it stands.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// A PNG of this many pixels in width, as high as the figure asks for, with the embedded font.
    ///
    /// # Errors
    /// A width of 0, or above 16,384.
    pub fn png(&self, width: u32) -> Result<Vec<u8>, crate::Fault> {
        crate::png::render(&self.svg, self.size, width)
    }
}

/// A line of words and the box it fills, in the units of the SVG.
#[derive(Clone, PartialEq, Debug)]
pub struct Label {
    /// The words.
    pub text: String,
    /// Where.
    pub area: Rect,
}

/// An upright box.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rect {
    /// Left end.
    pub x0: f64,
    /// Upper end.
    pub y0: f64,
    /// Right end.
    pub x1: f64,
    /// Lower end.
    pub y1: f64,
}

impl Rect {
    /// Width.
    pub fn width(self) -> f64 {
        self.x1 - self.x0
    }

    /// Height.
    pub fn height(self) -> f64 {
        self.y1 - self.y0
    }

    /// Whether they share more than an edge.
    pub fn overlaps(self, other: Rect) -> bool {
        self.x0 < other.x1 && other.x0 < self.x1 && self.y0 < other.y1 && other.y0 < self.y1
    }

    /// Whether it lies inside.
    pub fn within(self, other: Rect) -> bool {
        self.x0 >= other.x0 && self.y0 >= other.y0 && self.x1 <= other.x1 && self.y1 <= other.y1
    }

    /// Whether a point lies in it.
    pub fn holds(self, (x, y): (f64, f64)) -> bool {
        (self.x0..=self.x1).contains(&x) && (self.y0..=self.y1).contains(&y)
    }

    /// Larger by so much at every side.
    pub fn grown(self, by: f64) -> Rect {
        Rect { x0: self.x0 - by, y0: self.y0 - by, x1: self.x1 + by, y1: self.y1 + by }
    }
}

/// Which end of a line of words is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}

/// How words look.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Words {
    /// Size of the font.
    pub size: f64,
    /// Weight.
    pub weight: Weight,
    /// Colour.
    pub colour: &'static str,
    /// Which end is given.
    pub anchor: Anchor,
    /// Whether a border in the colour of the card keeps them apart from lines behind them.
    pub halo: bool,
}

/// A stroke.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stroke<'a> {
    /// Colour.
    pub colour: &'a str,
    /// Width.
    pub width: f64,
    /// `stroke-dasharray`, empty for none.
    pub dash: &'a str,
}

/// A stroke without dashes.
pub fn solid(colour: &str, width: f64) -> Stroke<'_> {
    Stroke { colour, width, dash: "" }
}

/// The box that words fill at (x, baseline).
pub fn area(x: f64, y: f64, text: &str, words: Words) -> Rect {
    let w = width(text, words.size, words.weight);
    let x0 = match words.anchor {
        Anchor::Start => x,
        Anchor::Middle => x - w / 2.0,
        Anchor::End => x - w,
    };
    Rect { x0, y0: y - ASCENT * words.size, x1: x0 + w, y1: y + DESCENT * words.size }
}

/// Two digits behind the point, none that are zero.
pub fn short(v: f64) -> String {
    let text = format!("{v:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.to_owned() }
}

/// What is being drawn.
pub struct Canvas {
    nodes: Vec<Element>,
    /// All words so far.
    pub labels: Vec<Label>,
    /// Width and height.
    pub size: (f64, f64),
    /// Colours.
    pub theme: Theme,
}

impl Canvas {
    /// An empty card.
    pub fn new(width: f64, height: f64, theme: Theme) -> Canvas {
        Canvas { nodes: vec![], labels: vec![], size: (width, height), theme }
    }

    /// Words of this size and colour, from their left end.
    pub fn words(&self, size: f64) -> Words {
        let colour = self.theme.ink();
        Words { size, weight: Weight::Regular, colour, anchor: Anchor::Start, halo: false }
    }

    /// Writes words with their baseline at (x, y); nothing for no words.
    pub fn text(&mut self, x: f64, y: f64, text: &str, words: Words) {
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
        node.append(Text::new(visible_name(text)));
        self.nodes.push(node);
        self.labels.push(Label { text: text.to_owned(), area: area(x, y, text, words) });
    }

    /// A straight line.
    pub fn line(&mut self, a: (f64, f64), b: (f64, f64), stroke: Stroke<'_>) {
        let mut node = Element::new("line");
        for (name, v) in [("x1", a.0), ("y1", a.1), ("x2", b.0), ("y2", b.1)] {
            node.assign(name, short(v));
        }
        self.stroked(node, stroke);
    }

    /// A line through points.
    pub fn polyline(&mut self, points: &[(f64, f64)], stroke: Stroke<'_>) {
        let mut node = Element::new("polyline");
        node.assign("points", listed(points));
        node.assign("fill", "none");
        node.assign("stroke-linejoin", "round");
        self.stroked(node, stroke);
    }

    /// A path that is not filled, `M x y Q ..`.
    pub fn path(&mut self, d: &str, stroke: Stroke<'_>) {
        let mut node = Element::new("path");
        node.assign("d", d);
        node.assign("fill", "none");
        self.stroked(node, stroke);
    }

    /// A filled area.
    pub fn polygon(&mut self, points: &[(f64, f64)], fill: &str) {
        let mut node = Element::new("polygon");
        node.assign("points", listed(points));
        node.assign("fill", fill);
        self.nodes.push(node);
    }

    /// A box, filled and with a border where one is given.
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

    /// A circle.
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

    /// The mark of a point.
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

    /// The figure. `title` and `about` are what a screen reader says.
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
            node.append(Text::new(visible_name(words)));
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
