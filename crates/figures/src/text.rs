//! Text widths: computed from the glyph advances of the embedded font.
//!
//! The font is DejaVu Sans. It is at least as wide as the fonts that browsers use instead (Verdana
//! has the same width, Arial and Helvetica are narrower), so text that fits with this font also
//! fits with those.

use std::sync::OnceLock;
use ttf_parser::Face;

/// The font families in the order in which a browser tries them. The first one is embedded for PNG.
pub const FAMILY: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";
/// The height of a capital letter above the baseline, as a share of the font size.
pub const ASCENT: f64 = 0.76;
/// The depth of letters below the baseline, as a share of the font size.
pub const DESCENT: f64 = 0.24;

/// The weight of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weight {
    /// For text.
    Regular,
    /// For titles.
    Bold,
}

/// The advances of printable ASCII characters, in em.
struct Widths([f64; 128]);

impl Widths {
    fn read(weight: Weight) -> Widths {
        let mut out = [0.6; 128];
        if let Some(face) = face(weight) {
            let em = f64::from(face.units_per_em());
            for code in 32..127u8 {
                let glyph = face.glyph_index(char::from(code));
                let advance = glyph.and_then(|g| face.glyph_hor_advance(g));
                out[usize::from(code)] = advance.map_or(0.6, |a| f64::from(a) / em);
            }
        }
        Widths(out)
    }
}

/// Returns the embedded font.
pub(crate) fn face(weight: Weight) -> Option<Face<'static>> {
    let bytes = match weight {
        Weight::Regular => dejavu::sans::regular(),
        Weight::Bold => dejavu::sans::bold(),
    };
    Face::parse(bytes, 0).ok()
}

fn widths(weight: Weight) -> &'static Widths {
    static REGULAR: OnceLock<Widths> = OnceLock::new();
    static BOLD: OnceLock<Widths> = OnceLock::new();
    match weight {
        Weight::Regular => REGULAR.get_or_init(|| Widths::read(weight)),
        Weight::Bold => BOLD.get_or_init(|| Widths::read(weight)),
    }
}

/// Returns the width of a line of text. A character outside ASCII counts as one em. No letter of
/// the font is wider than that; only some symbols are.
pub fn width(text: &str, size: f64, weight: Weight) -> f64 {
    let table = widths(weight);
    text.chars().map(|c| table.0.get(c as usize).copied().unwrap_or(1.0)).sum::<f64>() * size
}

/// Breaks a text at spaces into lines no wider than `room`. A word that is wider than `room` is cut
/// and ends with `..`.
pub fn wrap(text: &str, size: f64, weight: Weight, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size, weight) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(fit(word, size, weight, room)),
        }
    }
    lines
}

/// Returns the text, or as much of its beginning as fits into `room`, followed by `..`.
pub fn fit(text: &str, size: f64, weight: Weight, room: f64) -> String {
    if width(text, size, weight) <= room {
        return text.to_owned();
    }
    let mut out = text.to_owned();
    while out.pop().is_some() {
        let cut = format!("{}..", out.trim_end());
        if width(&cut, size, weight) <= room {
            return cut;
        }
    }
    String::new()
}
