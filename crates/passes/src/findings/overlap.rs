//! Findings of `overlap`: data for reports and for the table of `kbc explain overlap`.

use kbc_ir::Name;

/// A number of pieces that was tried for a collective and its matmuls alone.
#[derive(Clone, PartialEq, Debug)]
pub struct TriedPieces {
    /// Number of pieces.
    pub pieces: u64,
    /// Estimated nanoseconds.
    pub estimated: f64,
    /// Simulated nanoseconds. None if it was not simulated.
    pub simulated: Option<f64>,
}

/// A collective that was examined, for `kbc explain overlap`.
#[derive(Clone, PartialEq, Debug)]
pub struct ExaminedCollective {
    /// Name of its value.
    pub value: Name,
    /// Its kind: `all_reduce` and so on.
    pub kind: Name,
    /// Its number of pieces after the pass.
    pub pieces: u64,
    /// Whether the program states the number of pieces.
    pub requested: bool,
    /// The numbers of pieces that were tried.
    pub tried: Vec<TriedPieces>,
    /// The reason why it cannot be cut, if it cannot.
    pub why: Option<String>,
}

/// A number of streams for the collectives of one group of axes that was tried for a whole program.
#[derive(Clone, PartialEq, Debug)]
pub struct TriedStreams {
    /// Number of streams.
    pub streams: u64,
    /// Estimated nanoseconds, as if collectives on different streams shared no link.
    pub estimated: f64,
    /// Simulated nanoseconds. None if there is no schedule, or if its windows do not fit into the
    /// memories of the machine.
    pub simulated: Option<f64>,
}

/// Findings of `overlap`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OverlapTable {
    /// The collectives in order.
    pub looked: Vec<ExaminedCollective>,
    /// Whether collectives run on streams of their own.
    pub streams: bool,
    /// Whether host statements fix the order of the operations.
    pub host: bool,
    /// Estimated nanoseconds: of serial execution, and with streams. None where that was not
    /// estimated: of every two operations that take time one needs the other, host statements fix
    /// the order, or the program is a local one.
    pub estimated: Option<(f64, f64)>,
    /// The same two times simulated, if they were measured.
    pub simulated: Option<(f64, f64)>,
    /// Number of streams for the collectives of one group of axes. 0 stands for no streams.
    pub width: u64,
    /// The numbers of streams above one that were tried.
    pub tried: Vec<TriedStreams>,
}

impl OverlapTable {
    /// Checks whether any collective runs concurrently with other operations or is in pieces.
    pub fn changed(&self) -> bool {
        self.streams || self.looked.iter().any(|l| l.pieces > 1)
    }
}
