//! Explicit lengths of parts: one row for a type, one row per rank for a line, or a matrix of
//! counts.

use std::fmt;
use std::sync::Arc;

/// Rows of part lengths, all with the same number of parts. They are stored as boundaries: `of + 1`
/// numbers per row, which start at 0 and never decrease.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Parts {
    of: usize,
    bounds: Arc<[u64]>,
}

impl Parts {
    /// Creates the parts from rows of lengths. Returns `None` if the rows differ in their number of
    /// parts or have none, or if a sum overflows.
    pub fn new(rows: &[Vec<u64>]) -> Option<Parts> {
        let of = rows.first()?.len();
        let mut bounds = vec![];
        for row in rows {
            let mut at = 0u64;
            bounds.push(at);
            for n in row {
                at = at.checked_add(*n)?;
                bounds.push(at);
            }
            if row.len() != of {
                return None;
            }
        }
        (of > 0).then(|| Parts { of, bounds: bounds.into() })
    }

    /// Creates a single row.
    pub fn row(lengths: &[u64]) -> Option<Parts> {
        Parts::new(&[lengths.to_vec()])
    }

    /// Returns the number of parts in a row.
    pub fn of(&self) -> u64 {
        self.of as u64
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        (self.bounds.len() / (self.of + 1)) as u64
    }

    /// Returns boundary `i` of a row: the last boundary for a larger `i`, and 0 if the row does not
    /// exist.
    pub fn boundary(&self, row: u64, i: u64) -> u64 {
        let i = usize::try_from(i).map_or(self.of, |i| i.min(self.of));
        let at = usize::try_from(row).ok().and_then(|r| r.checked_mul(self.of + 1)?.checked_add(i));
        at.and_then(|at| self.bounds.get(at)).copied().unwrap_or(0)
    }

    /// Returns the lengths of a row.
    pub fn lengths(&self, row: u64) -> Vec<u64> {
        (0..self.of()).map(|i| self.boundary(row, i + 1) - self.boundary(row, i)).collect()
    }

    /// Returns the sum of a row.
    pub fn total(&self, row: u64) -> u64 {
        self.boundary(row, self.of())
    }

    /// Returns the matrix with rows and columns exchanged, or `None` if a sum of the new rows
    /// overflows.
    pub fn transposed(&self) -> Option<Parts> {
        let rows: Vec<Vec<u64>> = (0..self.rows()).map(|r| self.lengths(r)).collect();
        let columns: Vec<Vec<u64>> = (0..self.of).map(|i| rows.iter().map(|r| r[i]).collect()).collect();
        Parts::new(&columns)
    }

    /// Returns the sums of all rows.
    pub fn totals(&self) -> Vec<u64> {
        (0..self.rows()).map(|r| self.total(r)).collect()
    }

    /// Returns the largest sum of `n` consecutive parts, over all rows.
    pub fn longest_run(&self, n: u64) -> u64 {
        let n = n.min(self.of());
        let starts = (0..self.rows()).flat_map(|r| (0..=self.of() - n).map(move |i| (r, i)));
        starts.map(|(r, i)| self.boundary(r, i + n) - self.boundary(r, i)).max().unwrap_or(0)
    }
}

/// Writes `3, 0, 5, 2`, or `[3, 0], [5, 2]` if there are several rows.
impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |r| self.lengths(r).iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        match self.rows() {
            1 => f.write_str(&row(0)),
            n => f.write_str(&(0..n).map(|r| format!("[{}]", row(r))).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// Writes the same text as `Display`, because it becomes part of the names of compiled code.
impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
