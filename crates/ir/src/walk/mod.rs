//! Walk: the concrete operations of one stream of one rank, one after another.
//!
//! The checker, the interpreter, the adversarial executor and the event engine all read schedules
//! through this module, so they agree on the meaning of a role's body. The module evaluates
//! expressions, chunk addresses and peers, and returns a [`Fault`] for those that have no value. It
//! knows nothing of memory contents, visibility or time.

mod compile;
mod cursor;
mod outline;
mod range;
mod timed;

pub use compile::{CLine, Program};
pub use cursor::{Cursor, Step};
pub use outline::Outline;
pub use timed::{Brief, Walks};

/// Resolved form of bodies, for code that compiles them instead of walking them.
pub mod code {
    pub use super::compile::{CLine, COp, CRef, CRegion, CRole, CStmt};
}

use crate::cut::Chunks;
use crate::name::Name;
use crate::schedule::{BufferId, LocalOp};
use crate::types::ReduceOp;
use kbc_diag::{Diagnostic, Span};

/// A memory area of one rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mem {
    /// A buffer, by number.
    Buffer(u32),
    /// A slot of a window, by the numbers of both.
    Slot(u32, u64),
}

/// Elements `start .. start + len` of a memory area, which are the fraction
/// `num / den .. (num + cnt) / den` of the operand's line. For a slot, the fraction is that of the
/// other side of the operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// Memory area.
    pub mem: Mem,
    /// First element.
    pub start: u64,
    /// Number of elements.
    pub len: u64,
    /// First chunk.
    pub num: i64,
    /// Number of chunks.
    pub cnt: i64,
    /// Number of chunks in the line.
    pub den: i64,
    /// Operand of the region; `u32::MAX` for a slot.
    pub operand: u32,
}

impl Access {
    /// Returns the chunks of the line; of a slot, which has none, no chunks.
    pub fn chunks(&self) -> Chunks<u64> {
        let of = |n: i64| u64::try_from(n).unwrap_or(0);
        Chunks { num: self.num, cnt: self.cnt, den: self.den.max(1) }.map(of)
    }
}

/// A concrete operation.
#[derive(Clone, PartialEq, Debug)]
pub enum Act<'p> {
    /// `dst = src`.
    Copy {
        /// Destination.
        dst: Access,
        /// Source.
        src: Access,
    },
    /// `dst = dst op src`.
    Reduce {
        /// Combiner.
        op: ReduceOp,
        /// Destination, which is also read.
        dst: Access,
        /// Source.
        src: Access,
    },
    /// Writes `src` of this rank to `dst` of the peer.
    Put {
        /// Source, in this rank's memory.
        src: Access,
        /// Peer.
        peer: u64,
        /// Destination, in the peer's memory.
        dst: Access,
    },
    /// Reads `src` of the peer into `dst` of this rank.
    Get {
        /// Destination, in this rank's memory.
        dst: Access,
        /// Peer.
        peer: u64,
        /// Source, in the peer's memory.
        src: Access,
    },
    /// Sends `src` through the queue to the peer, once it has a free slot. Queues are numbered over
    /// all arrays.
    Send {
        /// Source, in this rank's memory.
        src: Access,
        /// Peer.
        peer: u64,
        /// Queue.
        queue: u32,
    },
    /// Receives the oldest message of the queue from the peer into `dst`, once there is one.
    Recv {
        /// Destination, in this rank's memory.
        dst: Access,
        /// Peer.
        peer: u64,
        /// Queue.
        queue: u32,
    },
    /// Waits until the queue to the peer has a free slot.
    Room {
        /// Peer.
        peer: u64,
        /// Queue.
        queue: u32,
    },
    /// Adds 1 to a counter of the peer. Counters are numbered over all signal arrays.
    Notify {
        /// Peer.
        peer: u64,
        /// Counter.
        counter: u32,
    },
    /// Waits until a counter of this rank meets the condition of its form for a value.
    Wait {
        /// Counter.
        counter: u32,
        /// Value.
        value: i64,
    },
    /// `fence.release`.
    FenceRelease,
    /// `fence.acquire`.
    FenceAcquire,
    /// `fence.complete`.
    FenceComplete,
    /// `record`, with the number of the event.
    Record(u32),
    /// `await`, with the number of the event.
    Await(u32),
    /// A local operation.
    Local(&'p LocalOp),
    /// The host takes all elements of a buffer as they are now. It occurs only on the host's
    /// stream.
    HostRead(BufferId),
    /// A point of a message that is not synchronized yet; it does nothing.
    Mark,
}

/// Reason why an operation has no meaning on a rank: an expression without a value, a peer outside
/// the group, a chunk or slot outside its space, or sizes that differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Error code of the diagnostic.
    pub code: &'static str,
    /// Message.
    pub text: String,
    /// Source location of the operation.
    pub span: Span,
    /// Rank.
    pub rank: u64,
    /// Name of the region.
    pub region: Name,
}

impl Fault {
    /// Returns the fault as a diagnostic; `show` names the rank.
    pub fn diagnostic(&self, show: impl Fn(u64) -> String) -> Diagnostic {
        let d = Diagnostic::error(self.code, self.text.clone())
            .primary(self.span, format!("on rank {}, in region {}", show(self.rank), self.region));
        match self.code {
            "E354" => d.help("write loops of fewer turns"),
            _ => d,
        }
    }
}
