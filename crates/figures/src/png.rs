//! PNG output: draws the shapes of a figure's SVG with tiny-skia, and its words with the embedded
//! font.
//!
//! Only what the canvas writes is drawn: rect, circle, line, polyline, polygon, path (M and Q) and
//! text. Another element, or a number that cannot be read, is a fault and not a missing shape.

use crate::Fault;
use crate::text::{Weight, face};
use roxmltree::{Document, Node};
use std::fmt::Display;
use tiny_skia::{
    Color, FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, StrokeDash, Transform,
};
use ttf_parser::OutlineBuilder;

/// The largest width, in pixels.
const MAX_WIDTH: u32 = 16_384;

/// Renders an SVG of this size (in SVG units) as a PNG of this width in pixels.
pub fn render(svg: &str, size: (f64, f64), width: u32) -> Result<Vec<u8>, Fault> {
    if width == 0 || width > MAX_WIDTH {
        return Err(Fault::new(format!(
            "the width of a picture must be 1 to {MAX_WIDTH} pixels, and {width} is given"
        )));
    }
    let scale = f64::from(width) / size.0;
    let height = (size.1 * scale).round() as u32;
    let tree = Document::parse(svg).map_err(failed)?;
    let pixels = Pixmap::new(width, height.max(1)).ok_or_else(|| failed("it is too large"))?;
    // The height is a whole number of pixels, and the card must cover the last row completely.
    let (sx, sy) = (scale as f32, (f64::from(pixels.height()) / size.1) as f32);
    let mut page = Page { pixels, scale: Transform::from_scale(sx, sy) };
    for node in tree.root_element().children().filter(Node::is_element) {
        page.draw(node)?;
    }
    page.pixels.encode_png().map_err(failed)
}

fn failed(why: impl Display) -> Fault {
    Fault::new(format!("this figure cannot be drawn as a picture: {why}"))
}

/// The picture so far.
struct Page {
    pixels: Pixmap,
    scale: Transform,
}

impl Page {
    fn draw(&mut self, node: Node<'_, '_>) -> Result<(), Fault> {
        let at = |name| number(node, name, None);
        let path = match node.tag_name().name() {
            "title" | "desc" => return Ok(()),
            "text" => text(node)?,
            "rect" => {
                let (x, y) = (number(node, "x", Some(0.0))?, number(node, "y", Some(0.0))?);
                Rect::from_xywh(x, y, at("width")?, at("height")?).map(PathBuilder::from_rect)
            }
            "circle" => PathBuilder::from_circle(at("cx")?, at("cy")?, at("r")?),
            "line" => {
                let mut path = PathBuilder::new();
                path.move_to(at("x1")?, at("y1")?);
                path.line_to(at("x2")?, at("y2")?);
                path.finish()
            }
            shape @ ("polyline" | "polygon") => {
                let mut path = PathBuilder::new();
                for (i, p) in numbers(node.attribute("points").unwrap_or(""))?.chunks_exact(2).enumerate() {
                    if i == 0 { path.move_to(p[0], p[1]) } else { path.line_to(p[0], p[1]) }
                }
                if shape == "polygon" {
                    path.close();
                }
                path.finish()
            }
            "path" => curve(node.attribute("d").unwrap_or(""))?,
            other => return Err(failed(format!("it has the shape `{other}`"))),
        };
        // Shapes without extent, such as a bar of width 0, draw nothing.
        let Some(path) = path else { return Ok(()) };
        if node.attribute("paint-order").is_some() {
            self.stroke(node, &path)?;
            self.fill(node, &path)
        } else {
            self.fill(node, &path)?;
            self.stroke(node, &path)
        }
    }

    fn fill(&mut self, node: Node<'_, '_>, path: &Path) -> Result<(), Fault> {
        // A line has no inside.
        let line = node.tag_name().name() == "line";
        if let Some(paint) = paint(node, "fill")?.filter(|_| !line) {
            self.pixels.fill_path(path, &paint, FillRule::Winding, self.scale, None);
        }
        Ok(())
    }

    fn stroke(&mut self, node: Node<'_, '_>, path: &Path) -> Result<(), Fault> {
        let Some(paint) = paint(node, "stroke")? else { return Ok(()) };
        let mut stroke = Stroke { width: number(node, "stroke-width", Some(1.0))?, ..Stroke::default() };
        if node.attribute("stroke-linejoin") == Some("round") {
            stroke.line_join = LineJoin::Round;
        }
        let mut dash = numbers(node.attribute("stroke-dasharray").unwrap_or(""))?;
        // As in SVG, an odd number of lengths is used twice.
        if dash.len() % 2 == 1 {
            dash.extend_from_within(..);
        }
        if !dash.is_empty() {
            stroke.dash = StrokeDash::new(dash, 0.0);
        }
        self.pixels.stroke_path(path, &paint, &stroke, self.scale, None);
        Ok(())
    }
}

/// Reads an attribute that is a number.
fn number(node: Node<'_, '_>, name: &str, otherwise: Option<f32>) -> Result<f32, Fault> {
    match node.attribute(name) {
        Some(text) => text.parse().map_err(|_| failed(format!("`{text}` is not a valid {name}"))),
        None => otherwise.ok_or_else(|| failed(format!("a shape has no {name}"))),
    }
}

/// Reads numbers that blanks or commas separate.
fn numbers(text: &str) -> Result<Vec<f32>, Fault> {
    let words = text.split([' ', ',']).filter(|w| !w.is_empty());
    words.map(|w| w.parse().map_err(|_| failed(format!("`{w}` is not a number")))).collect()
}

/// Reads the colour of a fill or a stroke: `#rrggbb`, or none.
fn paint(node: Node<'_, '_>, name: &str) -> Result<Option<Paint<'static>>, Fault> {
    let Some(text) = node.attribute(name).filter(|c| *c != "none") else { return Ok(None) };
    let value = text.strip_prefix('#').filter(|h| h.len() == 6).and_then(|h| u32::from_str_radix(h, 16).ok());
    let [_, r, g, b] = value.ok_or_else(|| failed(format!("`{text}` is not a colour")))?.to_be_bytes();
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color(Color::from_rgba8(r, g, b, 255));
    Ok(Some(paint))
}

/// Reads path data of the commands M and Q.
fn curve(data: &str) -> Result<Option<Path>, Fault> {
    let mut path = PathBuilder::new();
    for (i, letter) in data.match_indices(|c: char| c.is_ascii_alphabetic()) {
        let rest = &data[i + letter.len()..];
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(rest.len());
        match (letter, &numbers(&rest[..end])?[..]) {
            ("M", &[x, y]) => path.move_to(x, y),
            ("Q", &[x1, y1, x, y]) => path.quad_to(x1, y1, x, y),
            _ => return Err(failed(format!("`{data}` is not a path"))),
        }
    }
    Ok(path.finish())
}

/// Returns the outline of a line of text.
fn text(node: Node<'_, '_>) -> Result<Option<Path>, Fault> {
    let weight = if node.attribute("font-weight") == Some("bold") { Weight::Bold } else { Weight::Regular };
    let face = face(weight).ok_or_else(|| failed("the font cannot be read"))?;
    let scale = number(node, "font-size", None)? / f32::from(face.units_per_em());
    let glyphs: Vec<_> = (node.text().unwrap_or("").chars())
        .map(|c| face.glyph_index(c).unwrap_or_default())
        .map(|g| (g, f32::from(face.glyph_hor_advance(g).unwrap_or(0)) * scale))
        .collect();
    let wide: f32 = glyphs.iter().map(|g| g.1).sum();
    let left = match node.attribute("text-anchor") {
        Some("middle") => wide / 2.0,
        Some("end") => wide,
        _ => 0.0,
    };
    let (x, y) = (number(node, "x", None)? - left, number(node, "y", None)?);
    let mut pen = Pen { path: PathBuilder::new(), at: (x, y), scale };
    for (glyph, advance) in glyphs {
        face.outline_glyph(glyph, &mut pen);
        pen.at.0 += advance;
    }
    Ok(pen.path.finish())
}

/// Places the outline of a glyph on the page.
struct Pen {
    path: PathBuilder,
    at: (f32, f32),
    scale: f32,
}

impl Pen {
    fn x(&self, x: f32) -> f32 {
        self.at.0 + x * self.scale
    }

    fn y(&self, y: f32) -> f32 {
        self.at.1 - y * self.scale
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.path.move_to(self.x(x), self.y(y));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.path.line_to(self.x(x), self.y(y));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.path.quad_to(self.x(x1), self.y(y1), self.x(x), self.y(y));
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.path.cubic_to(self.x(x1), self.y(y1), self.x(x2), self.y(y2), self.x(x), self.y(y));
    }

    fn close(&mut self) {
        self.path.close();
    }
}
