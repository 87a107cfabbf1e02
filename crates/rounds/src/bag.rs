//! Exact multisets of contributions.
//!
//! A contribution is what one rank had at the start in one place. For each place of origin (a key),
//! a bag holds the set of ranks as bits. Contributions that occur more than once are in a side
//! list, which is empty in correct algorithms.

/// A contribution that occurs more than once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Extra {
    pub key: u32,
    pub rank: u32,
    /// At least 2.
    pub count: u32,
    /// Number of the transfer that first duplicated it.
    pub event: u32,
}

/// A multiset of contributions (key, rank); never empty.
#[derive(Clone, Debug)]
pub struct Bag {
    keys: Vec<u32>,
    /// For each key, as many words as the number of ranks needs.
    words: Vec<u64>,
    /// Sorted by key, then rank.
    extra: Vec<Extra>,
}

/// Returns the number of 64-bit words for one bit per rank.
pub fn words_for(ranks: u32) -> usize {
    (ranks as usize).div_ceil(64).max(1)
}

impl Bag {
    /// Returns the contribution of `rank` alone. `width` is the number of words for one bit per
    /// rank.
    pub fn single(key: u32, rank: u32, width: usize) -> Bag {
        let mut words = vec![0; width];
        words[rank as usize / 64] |= 1 << (rank % 64);
        Bag { keys: vec![key], words, extra: vec![] }
    }

    /// Returns the sum of two bags. `event` is the transfer that causes duplicates.
    pub fn plus(&self, other: &Bag, event: u32) -> Bag {
        let width = self.words.len() / self.keys.len().max(1);
        if self.keys == other.keys && self.extra.is_empty() && other.extra.is_empty() {
            let words: Vec<u64> = self.words.iter().zip(&other.words).map(|(a, b)| a | b).collect();
            if self.words.iter().zip(&other.words).all(|(a, b)| a & b == 0) {
                return Bag { keys: self.keys.clone(), words, extra: vec![] };
            }
        }
        let mut out = Bag { keys: vec![], words: vec![], extra: vec![] };
        let (mut i, mut j) = (0, 0);
        while i < self.keys.len() || j < other.keys.len() {
            let (a, b) = (self.keys.get(i).copied(), other.keys.get(j).copied());
            let key = a.unwrap_or(u32::MAX).min(b.unwrap_or(u32::MAX));
            let left = (a == Some(key)).then(|| &self.words[i * width..(i + 1) * width]);
            let right = (b == Some(key)).then(|| &other.words[j * width..(j + 1) * width]);
            out.keys.push(key);
            for w in 0..width {
                let (x, y) = (left.map_or(0, |l| l[w]), right.map_or(0, |r| r[w]));
                out.words.push(x | y);
                let mut twice = x & y;
                while twice != 0 {
                    let rank = w as u32 * 64 + twice.trailing_zeros();
                    twice &= twice - 1;
                    let count = self.count(key, rank).saturating_add(other.count(key, rank));
                    let first = self.first(key, rank).into_iter().chain(other.first(key, rank)).min();
                    out.extra.push(Extra { key, rank, count, event: first.unwrap_or(event) });
                }
            }
            i += usize::from(left.is_some());
            j += usize::from(right.is_some());
        }
        // A duplicate that is on one side only keeps its entry.
        let kept = self.extra.iter().chain(&other.extra);
        let fresh: Vec<Extra> =
            kept.filter(|e| !out.extra.iter().any(|o| (o.key, o.rank) == (e.key, e.rank))).copied().collect();
        out.extra.extend(fresh);
        out.extra.sort_unstable();
        out
    }

    /// Returns how often a contribution occurs.
    pub fn count(&self, key: u32, rank: u32) -> u32 {
        let Ok(i) = self.keys.binary_search(&key) else { return 0 };
        let width = self.words.len() / self.keys.len();
        if self.words[i * width + rank as usize / 64] >> (rank % 64) & 1 == 0 {
            return 0;
        }
        self.extra.iter().find(|e| (e.key, e.rank) == (key, rank)).map_or(1, |e| e.count)
    }

    /// Returns the transfer that first duplicated a contribution.
    pub fn first(&self, key: u32, rank: u32) -> Option<u32> {
        self.extra.iter().find(|e| (e.key, e.rank) == (key, rank)).map(|e| e.event)
    }

    /// Checks whether the bag equals `pattern` with every key increased by `shift`.
    pub fn is(&self, pattern: &Bag, shift: u32) -> bool {
        self.words == pattern.words
            && self.extra.len() == pattern.extra.len()
            && self.keys.len() == pattern.keys.len()
            && self.keys.iter().zip(&pattern.keys).all(|(a, b)| *a == b + shift)
            && self
                .extra
                .iter()
                .zip(&pattern.extra)
                .all(|(a, b)| (a.key, a.rank, a.count) == (b.key + shift, b.rank, b.count))
    }

    /// Returns all contributions (key, rank), each once, in order.
    pub fn contributions(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let width = self.words.len() / self.keys.len().max(1);
        self.keys.iter().enumerate().flat_map(move |(i, &key)| {
            (0..width as u32 * 64).filter_map(move |rank| {
                let word = self.words[i * width + rank as usize / 64];
                (word >> (rank % 64) & 1 == 1).then_some((key, rank))
            })
        })
    }

    /// Returns the bag with every key increased by `shift`.
    pub fn shifted(&self, shift: u32) -> Bag {
        let mut out = self.clone();
        out.keys.iter_mut().for_each(|k| *k += shift);
        out.extra.iter_mut().for_each(|e| e.key += shift);
        out
    }
}
