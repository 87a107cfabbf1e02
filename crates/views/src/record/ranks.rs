//! Rank selection of a record: `--trace-ranks 0..8,12`.

use kbc_diag::Diagnostic;

/// A set of ranks, or all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ranks {
    /// Half-open ranges; `None` for all ranks.
    ranges: Option<Vec<(u64, u64)>>,
}

impl Ranks {
    /// All ranks.
    pub const ALL: Ranks = Ranks { ranges: None };

    /// Parses `0..8`, `3`, or several of these separated by commas, for a mesh of `ranks` ranks.
    ///
    /// # Errors
    /// Returns E413 for text of another form or a rank beyond the mesh.
    pub fn parse(text: &str, ranks: u64) -> Result<Ranks, Diagnostic> {
        let wrong = |why: String| {
            Diagnostic::error("E413", format!("--trace-ranks {text}: {why}"))
                .help("write --trace-ranks 0..8,12")
        };
        let number = |s: &str| s.trim().parse::<u64>().map_err(|_| wrong(format!("`{s}` is not a rank")));
        let mut ranges = vec![];
        for part in text.split(',') {
            let (lo, hi) = match part.split_once("..") {
                Some((lo, hi)) => (number(lo)?, number(hi)?),
                None => {
                    let one = number(part)?;
                    (one, one.saturating_add(1))
                }
            };
            if lo >= hi {
                return Err(wrong(format!("{lo}..{hi} is an empty range")));
            }
            if hi > ranks {
                return Err(wrong(format!("the ranks are 0..{ranks}")));
            }
            ranges.push((lo, hi));
        }
        Ok(Ranks { ranges: Some(ranges) })
    }

    /// Checks whether a rank is selected.
    pub fn has(&self, rank: u64) -> bool {
        self.ranges.as_ref().is_none_or(|list| list.iter().any(|(lo, hi)| (*lo..*hi).contains(&rank)))
    }
}
