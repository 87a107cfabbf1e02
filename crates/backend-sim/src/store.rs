//! Memory of one rank: typed elements, some of which hold something and others nothing.
//!
//! The module owns the exact account of what was written. [`crate::interp`] and
//! [`crate::adversary`] decide which reads are allowed when.

use kbc_ir::types::DType;
use kbc_numerics::tensor::Data;

/// A set of elements as disjoint, sorted, non-touching half-open ranges.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds `start .. start + len`.
    pub fn add(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (mut lo, mut hi) = (start, start + len);
        let first = self.0.partition_point(|r| r.1 < lo);
        let last = self.0.partition_point(|r| r.0 <= hi);
        if first < last {
            lo = lo.min(self.0[first].0);
            hi = hi.max(self.0[last - 1].1);
        }
        self.0.splice(first..last, [(lo, hi)]);
    }

    /// Returns the first element of `start .. start + len` that is not in the set.
    pub fn first_gap(&self, start: u64, len: u64) -> Option<u64> {
        if len == 0 {
            return None;
        }
        match self.0.get(self.0.partition_point(|r| r.1 <= start)) {
            Some((lo, hi)) if *lo <= start => (*hi < start + len).then_some(*hi),
            _ => Some(start),
        }
    }

    /// Whether an element is in the set.
    pub fn contains(&self, i: u64) -> bool {
        self.first_gap(i, 1).is_none()
    }

    /// Returns the part of the set inside `start .. start + len`, moved by `-start`.
    pub fn window(&self, start: u64, len: u64) -> Ranges {
        let end = start + len;
        Ranges(
            self.0
                .iter()
                .filter(|r| r.0 < end && r.1 > start)
                .map(|r| (r.0.max(start) - start, r.1.min(end) - start))
                .collect(),
        )
    }
}

/// A memory: elements, and the set of those that hold something. Storage grows as it is written.
#[derive(Clone, Debug)]
pub struct Cells {
    data: Data,
    init: Ranges,
}

impl Cells {
    /// Creates a memory that holds nothing.
    pub fn new(dtype: DType) -> Cells {
        Cells { data: Data::zeros(dtype, 0), init: Ranges::default() }
    }

    /// Creates a memory that holds this many zeros, or nothing.
    pub fn blank(dtype: DType, zeros: Option<u64>) -> Cells {
        let mut cells = Cells::new(dtype);
        let n = zeros.unwrap_or(0);
        cells.data.grow(n as usize);
        cells.init.add(0, n);
        cells
    }

    /// Returns a copy of a range regardless of what it holds, and the set of its elements that hold
    /// something.
    pub fn peek(&self, start: u64, len: u64) -> (Data, Ranges) {
        let mut data = self.data.slice(start as usize, len as usize);
        data.grow(len as usize);
        (data, self.init.window(start, len))
    }

    /// Returns a copy of a range, or the first element of it that holds nothing.
    pub fn read(&self, start: u64, len: u64) -> Result<Data, u64> {
        match self.init.first_gap(start, len) {
            Some(i) => Err(i),
            None => Ok(self.data.slice(start as usize, len as usize)),
        }
    }

    /// Overwrites elements from `start` on. Returns false if the type differs.
    #[must_use]
    pub fn write(&mut self, start: u64, src: &Data) -> bool {
        let len = src.len();
        self.data.grow(start as usize + len);
        let done = self.data.copy_from(start as usize, src, 0, len);
        if done {
            self.init.add(start, len as u64);
        }
        done
    }

    /// Does the same as [`Cells::write`], and takes over the storage of elements that replace all.
    #[must_use]
    pub fn take(&mut self, start: u64, src: Data) -> bool {
        let all = start == 0 && src.len() >= self.data.len();
        if !all || src.dtype() != self.data.dtype() {
            return self.write(start, &src);
        }
        self.init.add(0, src.len() as u64);
        self.data = src;
        true
    }

    /// Forgets everything except these elements.
    pub fn keep_only(&mut self, kept: Ranges) {
        self.init = kept;
    }

    /// Returns the number of bytes of storage.
    pub fn bytes(&self) -> u64 {
        self.data.len() as u64 * self.data.dtype().bytes()
    }
}
