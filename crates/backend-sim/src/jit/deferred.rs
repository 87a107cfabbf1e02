//! Copies that are put off: ranges of memories whose elements are still those of other memories.
//!
//! Most of what a collective copies is read once, from a slot to which a peer has put it. A large
//! copy is therefore only recorded. Whoever reads the range reads the elements where they are;
//! before they are overwritten, the ranges that refer to them get them (docs/adr/080-execution.md).
//!
//! The module owns the record. [`super::memories`] moves the elements.

use std::collections::{BTreeMap, BTreeSet};

/// A range of a memory whose elements are elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    len: u64,
    /// Memory and first element of the source, or None if the source was overwritten after the
    /// range had been read.
    from: Option<(usize, u64)>,
    /// Whether the range has been read and will probably be read no more.
    taken: bool,
}

/// Consecutive elements of a memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The memory.
    pub place: usize,
    /// Its first element.
    pub start: u64,
    /// Number of elements.
    pub len: u64,
}

/// A range that refers to elements of another memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reader {
    /// The range.
    pub piece: Piece,
    /// Whether it has been read and will probably be read no more.
    pub taken: bool,
}

/// All ranges whose elements are elsewhere.
#[derive(Default, Debug)]
pub struct Deferred {
    /// By memory and first element. They do not overlap.
    parts: BTreeMap<(usize, u64), Part>,
    /// For each part the memory of its source, the memory that it is in, and its first element.
    readers: BTreeSet<(usize, usize, u64)>,
}

impl Deferred {
    /// Whether every element is where it belongs.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Records that elements are those of another memory (or of another range of it).
    pub fn refer(&mut self, piece: Piece, (from, at): (usize, u64)) {
        self.forget(piece);
        self.put(piece.place, piece.start, Part { len: piece.len, from: Some((from, at)), taken: false });
    }

    /// Records that the elements of a range are its own.
    pub fn forget(&mut self, piece: Piece) {
        let end = piece.start + piece.len;
        for (first, part) in self.overlapping(piece) {
            self.parts.remove(&(piece.place, first));
            if let Some((from, _)) = part.from {
                self.readers.remove(&(from, piece.place, first));
            }
            if first < piece.start {
                self.put(piece.place, first, Part { len: piece.start - first, ..part });
            }
            if first + part.len > end {
                let from = part.from.map(|(from, at)| (from, at + (end - first)));
                self.put(piece.place, end, Part { len: first + part.len - end, from, ..part });
            }
        }
    }

    /// Records that the elements of a range are lost.
    pub fn lose(&mut self, piece: Piece) {
        self.forget(piece);
        self.put(piece.place, piece.start, Part { len: piece.len, from: None, taken: true });
    }

    /// Records that what refers to other elements inside a range has been read and will probably be
    /// read no more.
    pub fn take(&mut self, piece: Piece) {
        for (first, _) in self.overlapping(piece) {
            if let Some(part) = self.parts.get_mut(&(piece.place, first)) {
                part.taken |= piece.start <= first && first + part.len <= piece.start + piece.len;
            }
        }
    }

    /// Whether some element of a range is elsewhere.
    pub fn concerns(&self, piece: Piece) -> bool {
        !self.is_empty() && self.found(piece).next().is_some()
    }

    /// Returns where the elements of a range are, in order, or None if some are lost.
    pub fn pieces(&self, piece: Piece) -> Option<Vec<Piece>> {
        let mut out = vec![];
        self.collect(piece, &mut out)?;
        Some(out)
    }

    fn collect(&self, piece: Piece, out: &mut Vec<Piece>) -> Option<()> {
        let (mut at, end) = (piece.start, piece.start + piece.len);
        for (first, part) in self.found(piece) {
            let (lo, hi) = (first.max(piece.start), (first + part.len).min(end));
            if at < lo {
                out.push(Piece { start: at, len: lo - at, ..piece });
            }
            let (place, start) = part.from?;
            self.collect(Piece { place, start: start + (lo - first), len: hi - lo }, out)?;
            at = hi;
        }
        if at < end {
            out.push(Piece { start: at, len: end - at, ..piece });
        }
        Some(())
    }

    /// Follows a range to another one with the same elements, as far as single parts cover it.
    pub fn followed(&self, piece: Piece) -> Piece {
        let mut at = piece;
        while let Some((first, Part { len, from: Some((place, start)), .. })) = self.found(at).next()
            && first <= at.start
            && first + len >= at.start + at.len
        {
            at = Piece { place, start: start + (at.start - first), len: at.len };
        }
        at
    }

    /// Returns the ranges that refer to elements of a range.
    pub fn readers(&self, piece: Piece) -> Vec<Reader> {
        let all = self.readers.range((piece.place, 0, 0)..(piece.place + 1, 0, 0));
        let clipped = all.filter_map(|(_, place, first)| {
            let part = self.parts.get(&(*place, *first))?;
            let (_, at) = part.from?;
            let (lo, hi) = (at.max(piece.start), (at + part.len).min(piece.start + piece.len));
            let piece = Piece { place: *place, start: first + lo.checked_sub(at)?, len: hi.checked_sub(lo)? };
            (piece.len > 0).then_some(Reader { piece, taken: part.taken })
        });
        clipped.collect()
    }

    fn put(&mut self, place: usize, first: u64, part: Part) {
        if let Some((from, _)) = part.from {
            self.readers.insert((from, place, first));
        }
        self.parts.insert((place, first), part);
    }

    fn overlapping(&self, piece: Piece) -> Vec<(u64, Part)> {
        self.found(piece).collect()
    }

    /// Returns the parts that have an element in common with a range, in order.
    fn found(&self, piece: Piece) -> impl Iterator<Item = (u64, Part)> {
        let Piece { place, start, len } = piece;
        let before = self.parts.range((place, 0)..=(place, start)).next_back();
        let first = before.filter(|(at, part)| at.1 + part.len > start).map_or(start, |(at, _)| at.1);
        let end = if len == 0 { first } else { start + len };
        self.parts.range((place, first)..(place, end)).map(|(at, part)| (at.1, *part))
    }
}
