//! Room: the memory that a simulation stream by stream may take for histories and inboxes.

use super::Unfit;

/// Bytes that are left.
#[derive(Debug)]
pub(super) struct Room(u64);

impl Room {
    pub(super) fn new(bytes: u64) -> Room {
        Room(bytes)
    }

    /// Takes some bytes.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Unfit> {
        self.0 = self.0.checked_sub(bytes as u64).ok_or(Unfit)?;
        Ok(())
    }

    /// Gives some bytes back.
    pub(super) fn give(&mut self, bytes: usize) {
        self.0 += bytes as u64;
    }
}
