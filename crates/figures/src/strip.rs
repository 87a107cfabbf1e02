//! Strips: rows of labelled cells below an x axis, where each cell states what holds over a range
//! of x.

use crate::canvas::{Anchor, Rect, TextStyle, solid};
use crate::frame::{EDGE, Frame, LINE, SMALL};
use crate::lines::{bound_tag, name_tag};
use crate::text::{Weight, fit, width, wrap};
use crate::theme::Style;
use libm::sqrt;

/// The owner of a row.
#[derive(Clone, Copy)]
pub enum Tag<'a> {
    /// The chart as a whole.
    None,
    /// The description in these words.
    Words(&'a str),
    /// The series with this name and style.
    Series(&'a str, Style),
    /// The bound with this name and number.
    Bound(&'a str, usize),
}

/// A row of cells.
pub struct StripRow<'a> {
    /// The label beside the row.
    pub tag: Tag<'a>,
    /// Texts at some x, by ascending x. Each text holds up to the middle between its x and the
    /// neighbouring one.
    pub words: Vec<(f64, String)>,
    /// Whether dotted lines in the plot show the ends of the cells, too.
    pub guides: bool,
}

/// The height of a row.
const ROW: f64 = 20.0;

/// A text that holds from one position to another.
struct Cell {
    from: f64,
    to: f64,
    word: String,
}

impl Cell {
    fn fits(&self) -> bool {
        width(&self.word, SMALL, Weight::Regular) + 8.0 <= self.to - self.from
    }
}

/// Returns the cells of a row. Neighbouring cells with the same text are merged.
fn cells(frame: &Frame, words: &[(f64, String)]) -> Vec<Cell> {
    let mut out: Vec<Cell> = vec![];
    for (i, (x, word)) in words.iter().enumerate() {
        let middle =
            |a: f64, b: f64| frame.x.at(if frame.x.is_log() { sqrt(a) * sqrt(b) } else { (a + b) / 2.0 });
        let from = if i == 0 { frame.plot.x0 } else { middle(words[i - 1].0, *x) };
        let to = words.get(i + 1).map_or(frame.plot.x1, |n| middle(*x, n.0));
        match out.last_mut() {
            Some(last) if last.word == *word => last.to = to,
            _ => out.push(Cell { from, to, word: word.clone() }),
        }
    }
    out
}

/// Draws rows with a title above them. If a text does not fit into its cell, a letter replaces it
/// there, and a key below explains the letter.
pub fn draw(frame: &mut Frame, title: &str, rows: &[StripRow<'_>]) {
    let theme = frame.theme();
    let rows: Vec<(&StripRow<'_>, Vec<Cell>)> =
        rows.iter().filter(|r| !r.words.is_empty()).map(|r| (r, cells(frame, &r.words))).collect();
    if rows.is_empty() {
        return;
    }
    let mut kinds: Vec<&str> = vec![];
    let mut keyed: Vec<&str> = vec![];
    for cell in rows.iter().flat_map(|r| &r.1) {
        if !kinds.contains(&cell.word.as_str()) {
            kinds.push(&cell.word);
        }
        if !cell.fits() && !keyed.contains(&cell.word.as_str()) {
            keyed.push(&cell.word);
        }
    }
    let letter = |word: &str| {
        let i = keyed.iter().position(|k| *k == word).unwrap_or(0);
        char::from(b'A' + (i % 26) as u8).to_string()
    };
    let mut y = frame.bottom + 14.0;
    let faint = TextStyle { colour: theme.faint(), ..frame.canvas.words(SMALL) };
    frame.canvas.text(frame.plot.x0, y, title, faint);
    y += 6.0;
    for (row, cells) in &rows {
        for (i, cell) in cells.iter().enumerate() {
            let Cell { from, to, word } = cell;
            let kind = kinds.iter().position(|k| k == word).unwrap_or(0);
            let area = Rect { x0: *from, y0: y, x1: *to, y1: y + ROW };
            frame.canvas.rect(area, theme.tint(kind), Some(solid(theme.axis(), 0.8)));
            let text = if cell.fits() { word.clone() } else { letter(word) };
            let words = TextStyle { anchor: Anchor::Middle, ..frame.canvas.words(SMALL) };
            if width(&text, SMALL, Weight::Regular) <= to - from {
                frame.canvas.text((from + to) / 2.0, y + 14.0, &text, words);
            }
            if i > 0 && row.guides {
                let stroke = crate::canvas::Stroke { colour: theme.axis(), width: 1.0, dash: "1 4" };
                frame.canvas.line((*from, frame.plot.y0), (*from, frame.plot.y1), stroke);
            }
        }
        match row.tag {
            Tag::None => {}
            Tag::Words(text) => {
                let x = frame.plot.x1 + 8.0;
                let text = fit(text, SMALL, Weight::Regular, frame.canvas.size.0 - x - 6.0);
                frame.canvas.text(x, y + 14.0, &text, faint);
            }
            Tag::Series(name, style) => name_tag(frame, name, style, y + ROW / 2.0),
            Tag::Bound(name, i) => bound_tag(frame, name, i, y + ROW / 2.0),
        }
        y += ROW + 3.0;
    }
    for word in &keyed {
        let key = format!("{}: {word}", letter(word));
        for line in wrap(&key, SMALL, Weight::Regular, frame.canvas.size.0 - EDGE - frame.plot.x0) {
            frame.canvas.text(frame.plot.x0, y + 12.0, &line, faint);
            y += LINE;
        }
    }
    frame.bottom = y;
}
