//! Findings of the order analysis.

use super::super::Pipe;
use super::super::hazard::PipeEvent;
use super::super::path::Path;

/// A violation of the order on some path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// An access that conflicts with an earlier one and is not certain to start after it.
    Unordered {
        /// Path of the earlier operation.
        earlier: Path,
        /// Pipe of the earlier operation.
        from: Pipe,
        /// Pipe of the later operation.
        to: Pipe,
        /// Whether the earlier operation writes.
        wrote: bool,
        /// Whether the later operation writes.
        writes: bool,
        /// Index of the access among those of the later operation.
        access: usize,
    },
    /// A notify without a barrier of all pipes and a `dsb` between it and an earlier access.
    Unpublished {
        /// Whether the barrier is there and only the `dsb` is missing.
        drained: bool,
    },
    /// An operation on another pipe that may start before an earlier wait has completed.
    Unacquired {
        /// Paths of these waits.
        waits: Vec<Path>,
    },
    /// An event that is set twice without a wait between.
    SetTwice(PipeEvent),
    /// A wait for an event that is not set.
    NotSet(PipeEvent),
    /// An event that is set where its last wait may not have completed.
    SetEarly(PipeEvent),
    /// Events that are set on one path to this place and not on another.
    Differ(Vec<PipeEvent>),
    /// Events that are still set at the end of the kernel.
    Left(Vec<PipeEvent>),
    /// A fence of the schedule, which pass `fences` should have replaced.
    Fence,
}

/// A fault and its place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// Path of the operation; empty for the end of the kernel.
    pub at: Path,
    /// The fault.
    pub fault: Fault,
}
