//! Sparse tables: entries for some of the numbers below a limit.
//!
//! There may be a slot for every message of every rank, so an entry costs four bytes in addition to
//! its own size, and a number without an entry costs four.

/// A table with entries for some of the numbers below a limit.
#[derive(Debug)]
pub struct Sparse<T> {
    /// By number: one more than the index of its entry, or 0.
    at: Vec<u32>,
    entries: Vec<T>,
    /// Indices of entries that are free.
    free: Vec<u32>,
}

impl<T> Sparse<T> {
    /// Creates an empty table for the numbers below `limit`.
    pub fn new(limit: usize) -> Sparse<T> {
        Sparse { at: vec![0; limit], entries: vec![], free: vec![] }
    }

    /// Returns the entry of a number, if there is one.
    pub fn get(&self, number: usize) -> Option<&T> {
        self.entries.get(self.at[number].checked_sub(1)? as usize)
    }

    /// Returns the entry of a number for changes, if there is one.
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.entries.get_mut(self.at[number].checked_sub(1)? as usize)
    }

    /// Returns the entry of a number, and creates it if there is none.
    pub fn entry(&mut self, number: usize, new: impl FnOnce() -> T) -> &mut T {
        let at = &mut self.at[number];
        if *at == 0 {
            let index = match self.free.pop() {
                Some(index) => {
                    self.entries[index as usize] = new();
                    index
                }
                None => {
                    self.entries.push(new());
                    self.entries.len() as u32 - 1
                }
            };
            *at = index + 1;
        }
        &mut self.entries[*at as usize - 1]
    }

    /// Removes the entry of a number, if there is one. Its memory is kept for another entry.
    pub fn remove(&mut self, number: usize) {
        if let Some(index) = std::mem::take(&mut self.at[number]).checked_sub(1) {
            self.free.push(index);
        }
    }
}
