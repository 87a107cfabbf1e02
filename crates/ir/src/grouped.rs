//! Grouped rows: runs of consecutive rows, each multiplied by one matrix.
//!
//! The module owns the list of runs. It computes which matrix a row is multiplied by, and which
//! rows a rank needs if it holds some of the matrices.

use std::fmt;
use std::sync::Arc;

/// Runs of rows, one after another: the number of the matrix, and the number of rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Runs(Arc<[(u64, u64)]>);

impl Runs {
    /// Creates the runs from pairs of a matrix and a number of rows. Returns `None` if the total
    /// number of rows overflows.
    pub fn new(list: Vec<(u64, u64)>) -> Option<Runs> {
        list.iter().try_fold(0u64, |n, run| n.checked_add(run.1))?;
        Some(Runs(list.into()))
    }

    /// Returns the pairs.
    pub fn list(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Returns the number of rows of all runs.
    pub fn rows(&self) -> u64 {
        self.0.iter().map(|run| run.1).sum()
    }

    /// Returns the matrix of each of `n` rows from `first` on. The list is shorter if the runs end
    /// before.
    pub fn matrices(&self, first: u64, n: u64) -> Vec<u64> {
        let mut out = vec![];
        let mut at = 0u64;
        for (matrix, rows) in self.0.iter() {
            let (from, to) = (at.max(first), (at + rows).min(first.saturating_add(n)));
            out.extend((from..to).map(|_| *matrix));
            at += rows;
        }
        out
    }

    /// Returns the number of rows of each part if the matrices are cut at these boundaries and
    /// every part has the rows of its own matrices. Returns `None` if the rows of a part are not
    /// contiguous, or not in the order of the parts.
    pub fn lengths(&self, boundaries: &[u64]) -> Option<Vec<u64>> {
        let mut out = vec![0; boundaries.len().checked_sub(1)?];
        let mut last = 0;
        for (matrix, rows) in self.0.iter().filter(|run| run.1 > 0) {
            let part = boundaries.windows(2).position(|b| (b[0]..b[1]).contains(matrix))?;
            if part < last {
                return None;
            }
            last = part;
            out[part] += rows;
        }
        Some(out)
    }

    /// Checks that the runs fit this number of rows and matrices.
    ///
    /// # Errors
    /// Returns a message if they do not.
    pub fn fit(&self, rows: u64, matrices: u64) -> Result<(), String> {
        if self.rows() != rows {
            return Err(format!("the counts add up to {}, and there are {rows} rows", self.rows()));
        }
        match self.0.iter().find(|run| run.0 >= matrices) {
            Some((m, _)) => Err(format!("matrix {m} does not exist; there are {matrices}")),
            None => Ok(()),
        }
    }
}

/// Writes the runs as in `.kir`: `[[0, 3], [1, 2]]`.
impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(m, n)| format!("[{m}, {n}]")).collect();
        write!(f, "[{}]", all.join(", "))
    }
}
