//! Matrix chart: the share of a bound as a number in a coloured cell, by name (rows) and by size
//! (columns), with blocks of columns beside each other.

use crate::canvas::{Anchor, Canvas, Figure, Rect, TextStyle, solid};
use crate::frame::{EDGE, SMALL, WIDTH, head};
use crate::series::{Fault, Heading};
use crate::text::{Weight, width};
use std::collections::BTreeMap;

/// A matrix of percentages of a bound. Every cell holds its number; the further it lies below 100,
/// the stronger is its colour.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Matrix {
    /// The title and subtitle.
    pub heading: Heading,
    /// The cells. Rows, blocks, and columns within the blocks stand in the order in which their
    /// names first occur.
    pub cells: Vec<MatrixCell>,
}

/// A cell of a [`Matrix`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MatrixCell {
    /// The name of the row.
    pub row: String,
    /// The name of the block of columns. If all are empty, blocks have no heading.
    pub block: String,
    /// The name of the column within the block.
    pub column: String,
    /// The value, in percent of the bound: 0 to 100.
    pub percent: f64,
}

/// The height of a row.
const ROW: f64 = 16.0;
/// The space between two blocks of columns.
const GAP: f64 = 8.0;
/// The most rows and the most columns of a chart.
const MOST: (usize, usize) = (400, 24);
/// The least width of a cell. `100` and `99.9` fit into it.
const NARROWEST: f64 = 28.0;

impl Matrix {
    /// Draws the chart.
    ///
    /// # Errors
    /// Fails if there is no cell, if two cells have the same place, if a value is not between 0 and
    /// 100, if there are more than 400 rows or 24 columns, or if the names leave no room for cells.
    pub fn draw(&self) -> Result<Figure, Fault> {
        let rows = names(self.cells.iter().map(|c| &c.row));
        let blocks = names(self.cells.iter().map(|c| &c.block));
        let columns = names(self.cells.iter().map(|c| &c.column));
        let across = blocks.len() * columns.len();
        if self.cells.is_empty() {
            return Err(Fault::new("there is no cell to draw"));
        }
        if rows.len() > MOST.0 || across > MOST.1 {
            return Err(Fault::new(format!(
                "{} rows and {across} columns are too many (limits: {} and {})",
                rows.len(),
                MOST.0,
                MOST.1
            )));
        }
        let mut values = BTreeMap::new();
        for c in &self.cells {
            if !(0.0..=100.0).contains(&c.percent) {
                return Err(Fault::new(format!("{} % of the bound for `{}`", c.percent, c.row)));
            }
            if values.insert((&c.row, &c.block, &c.column), c.percent).is_some() {
                return Err(Fault::new(format!("there are two cells `{} {} {}`", c.row, c.block, c.column)));
            }
        }

        let widest = rows.iter().map(|r| width(r, SMALL, Weight::Regular)).fold(0.0, f64::max);
        let left = EDGE + widest + 10.0;
        let gaps = GAP * (blocks.len() - 1) as f64;
        let cell = ((WIDTH - EDGE - left - gaps) / across as f64).min(90.0);
        if cell < NARROWEST {
            return Err(Fault::new("the names leave no room for the cells"));
        }
        let mut canvas = Canvas::new(WIDTH, 0.0, self.heading.theme);
        let mut y = head(&mut canvas, &self.heading) + 14.0;
        let x = |block: usize, column: usize| {
            left + (block * columns.len() + column) as f64 * cell + block as f64 * GAP
        };

        let middle = TextStyle { anchor: Anchor::Middle, ..canvas.words(SMALL) };
        let bold = TextStyle { weight: Weight::Bold, ..middle };
        if blocks.iter().any(|b| !b.is_empty()) {
            for (b, name) in blocks.iter().enumerate() {
                canvas.text((x(b, 0) + x(b, columns.len())) / 2.0, y, name, bold);
            }
            y += ROW;
        }
        // Column names too wide for a cell are broken at their blanks.
        let fits = |text: &str| width(text, SMALL, Weight::Regular) <= cell - 2.0;
        let broken = !columns.iter().all(|c| fits(c));
        let lines = |name: &str| -> Vec<String> {
            if broken { name.split(' ').map(str::to_owned).collect() } else { vec![name.to_owned()] }
        };
        if !columns.iter().all(|c| lines(c).iter().all(|l| fits(l))) {
            return Err(Fault::new("the names of columns are wider than cells"));
        }
        let most = columns.iter().map(|c| lines(c).len()).max().unwrap_or(1);
        let faint = TextStyle { colour: canvas.theme.faint(), ..middle };
        for b in 0..blocks.len() {
            for (c, name) in columns.iter().enumerate() {
                for (i, line) in lines(name).iter().enumerate() {
                    canvas.text(x(b, c) + cell / 2.0, y + i as f64 * 13.0, line, faint);
                }
            }
        }
        y += most as f64 * 13.0 - 6.0;

        let end = TextStyle { anchor: Anchor::End, ..canvas.words(SMALL) };
        for row in &rows {
            canvas.text(left - 8.0, y + ROW - 4.0, row, end);
            for (b, block) in blocks.iter().enumerate() {
                for (c, column) in columns.iter().enumerate() {
                    let area = Rect { x0: x(b, c), y0: y, x1: x(b, c) + cell, y1: y + ROW };
                    let Some(&percent) = values.get(&(*row, *block, *column)) else { continue };
                    let lacks = 1.0 - percent / 100.0;
                    let fill = canvas.theme.heat(lacks);
                    canvas.rect(area, &fill, Some(solid(canvas.theme.card(), 1.0)));
                    // On strong colours the text has the colour of the card.
                    let colour = if lacks > 0.6 { canvas.theme.card() } else { canvas.theme.ink() };
                    let style = TextStyle { colour, ..middle };
                    canvas.text(x(b, c) + cell / 2.0, y + ROW - 4.0, &shown(percent), style);
                }
            }
            y += ROW;
        }
        canvas.size.1 = (y + 14.0).round();
        Ok(canvas.finish(&self.heading.title, "percent of the bound by row and column"))
    }
}

/// Returns a percentage of at most four characters, rounded down, so that `100` is the bound.
fn shown(percent: f64) -> String {
    if percent >= 100.0 { "100".into() } else { format!("{:.1}", (percent * 10.0).floor() / 10.0) }
}

/// Returns each name once, in the order in which they first occur.
fn names<'a>(all: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut seen = std::collections::BTreeSet::new();
    all.filter(|n| seen.insert(*n)).collect()
}
