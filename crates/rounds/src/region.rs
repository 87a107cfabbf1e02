//! Regions: sequences of places of one buffer, arranged on a line.
//!
//! This module cuts a line into equal parts, selects parts of parts, and joins them. Places are
//! whole atoms. A cut that falls inside an atom is not an error but [`Cut::Finer`]: the caller
//! starts again with finer atoms. The expansion evaluates the expressions of selectors.

use std::sync::Arc;

use crate::ratio::{Ratio, gcd};

/// Neighbouring places of a buffer, and their position on the region's line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Run {
    /// Offset on the line, in atoms.
    pub line: u32,
    /// First place in the buffer, in atoms.
    pub start: u32,
    /// Number of atoms, at least 1.
    pub len: u32,
}

/// A sequence of places of one buffer. Neighbouring runs are always joined, so two regions are
/// equal if and only if they have the same places in the same order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Region {
    /// Index of the buffer among the buffers of the call.
    pub buffer: u32,
    /// Number of atoms.
    pub len: u32,
    runs: Arc<[Run]>,
}

/// The reason why a line could not be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// The cut falls inside an atom. It does not if atoms are finer by this factor.
    Finer(u64),
}

/// A part of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// First atom.
    pub start: u32,
    /// Number of atoms.
    pub len: u32,
}

impl Region {
    /// Returns the region of a whole buffer.
    pub fn whole(buffer: u32, len: u32) -> Region {
        let runs: Arc<[Run]> =
            if len == 0 { Arc::new([]) } else { Arc::new([Run { line: 0, start: 0, len }]) };
        Region { buffer, len, runs }
    }

    /// Returns the runs of places, in order.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Returns every place, in order.
    pub fn places(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|r| r.start..r.start + r.len)
    }

    /// Returns the places of these parts of the line, joined in this order.
    pub fn select(&self, parts: &[Interval]) -> Region {
        // Most selections are one part of one run.
        if let ([run], [part]) = (self.runs(), parts)
            && part.len > 0
            && part.start + part.len <= run.len
        {
            let runs = Arc::new([Run { line: 0, start: run.start + part.start, len: part.len }]);
            return Region { buffer: self.buffer, len: part.len, runs };
        }
        let mut runs: Vec<Run> = Vec::with_capacity(parts.len());
        let mut line = 0;
        for part in parts {
            let (mut at, mut left) = (part.start, part.len);
            let mut i = self.runs.partition_point(|r| r.line + r.len <= at);
            while left > 0 {
                let Some(run) = self.runs.get(i) else { break };
                let skip = at - run.line;
                let len = left.min(run.len - skip);
                match runs.last_mut() {
                    Some(last) if last.start + last.len == run.start + skip => last.len += len,
                    _ => runs.push(Run { line, start: run.start + skip, len }),
                }
                line += len;
                at += len;
                left -= len;
                i += 1;
            }
        }
        Region { buffer: self.buffer, len: line, runs: runs.into() }
    }

    /// Returns places of the line of `base`, as which this region is understood, whatever its
    /// buffer.
    pub(crate) fn on_line(&self, base: &Region) -> Region {
        match base.runs() {
            [whole] if whole.start == 0 => Region { runs: self.runs.clone(), ..self.in_buffer(base.buffer) },
            [whole] => {
                let moved = self.runs.iter().map(|r| Run { start: r.start + whole.start, ..*r });
                Region { buffer: base.buffer, len: self.len, runs: moved.collect() }
            }
            _ => {
                let parts = self.runs.iter().map(|r| Interval { start: r.start, len: r.len });
                base.select(&parts.collect::<Vec<_>>())
            }
        }
    }

    /// Returns the same places of another buffer.
    pub(crate) fn in_buffer(&self, buffer: u32) -> Region {
        Region { buffer, ..self.clone() }
    }

    /// Returns the `count` neighbouring atoms from `start` on the line.
    pub fn part(&self, start: u32, count: u32) -> Region {
        self.select(&[Interval { start, len: count }])
    }

    /// Returns the same region in atoms that are coarser by `factor`, which must divide
    /// every boundary.
    pub fn coarser(&self, factor: u32) -> Region {
        let runs = self.runs.iter().map(|r| Run {
            line: r.line / factor,
            start: r.start / factor,
            len: r.len / factor,
        });
        Region { buffer: self.buffer, len: self.len / factor, runs: runs.collect() }
    }

    /// Cuts every atom into `lanes` parts and returns part `lane` of each.
    pub fn lane(&self, lanes: u32, lane: u32) -> Region {
        let whole = self.places().map(|a| a * lanes + lane);
        let mut runs: Vec<Run> = vec![];
        for (line, start) in whole.enumerate() {
            match runs.last_mut() {
                Some(last) if last.start + last.len == start => last.len += 1,
                _ => runs.push(Run { line: line as u32, start, len: 1 }),
            }
        }
        Region { buffer: self.buffer, len: self.len, runs: runs.into() }
    }

    /// Returns the greatest common divisor of all boundaries and `so_far`.
    pub fn grain(&self, so_far: u64) -> u64 {
        self.runs.iter().fold(so_far, |g, r| gcd(gcd(g, u64::from(r.start)), u64::from(r.len)))
    }
}

/// The line of a region, looked up by places.
pub(crate) struct Line {
    /// The runs of the region by their first places.
    runs: Vec<Run>,
}

impl Line {
    /// Returns the line of a region, which has no place twice.
    pub fn of(r: &Region) -> Line {
        let mut runs = r.runs().to_vec();
        runs.sort_unstable_by_key(|r| r.start);
        Line { runs }
    }

    /// Returns where the places of a region lie on this line, as places of a buffer of this number.
    /// None if the line has not all of them.
    pub fn places_of(&self, r: &Region, buffer: u32) -> Option<Region> {
        if let [whole] = &self.runs[..]
            && whole.start == 0
        {
            return r.runs().iter().all(|x| x.start + x.len <= whole.len).then(|| r.in_buffer(buffer));
        }
        let mut runs: Vec<Run> = vec![];
        for x in r.runs() {
            let (mut at, mut line, end) = (x.start, x.line, x.start + x.len);
            while at < end {
                let i = self.runs.partition_point(|own| own.start <= at).checked_sub(1)?;
                let own = self.runs[i];
                let len = (own.start + own.len).checked_sub(at).filter(|n| *n > 0)?.min(end - at);
                let start = own.line + (at - own.start);
                match runs.last_mut() {
                    Some(last) if last.start + last.len == start => last.len += len,
                    _ => runs.push(Run { line, start, len }),
                }
                (at, line) = (at + len, line + len);
            }
        }
        Some(Region { buffer, len: r.len, runs: runs.into() })
    }
}

/// Returns part `index` of `count` equal parts of an interval.
///
/// # Errors
/// Returns [`Cut::Finer`] if the parts are not whole atoms.
pub fn cut(whole: Interval, index: u64, count: u64) -> Result<Interval, Cut> {
    let len = u64::from(whole.len);
    if count == 0 || len % count != 0 {
        return Err(Cut::Finer(count / gcd(len, count).max(1)));
    }
    let part = len / count;
    Ok(Interval { start: whole.start + (index * part) as u32, len: part as u32 })
}

/// Prints a run in the notation of the language, relative to a buffer of `total` atoms: `3 of 8`,
/// `2; 3 of 8`, `..`.
pub fn describe(start: u32, len: u32, total: u32) -> String {
    if len == total {
        return "..".to_owned();
    }
    let grain = gcd(gcd(u64::from(start), u64::from(len)), u64::from(total)).max(1);
    let (i, k, n) = (u64::from(start) / grain, u64::from(len) / grain, u64::from(total) / grain);
    if k == 1 {
        return format!("{i} of {n}");
    }
    // A single part of a coarser cut is easier to read than a run of a finer one.
    if len != 0 && start.is_multiple_of(len) && total.is_multiple_of(len) {
        return format!("{} of {}", start / len, total / len);
    }
    format!("{i}; {k} of {n}")
}

/// Returns `len` atoms of `total` as a fraction.
pub fn fraction(len: u32, total: u32) -> Ratio {
    Ratio::new(u64::from(len), u64::from(total))
}
