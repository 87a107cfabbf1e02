//! Walking a schedule: the concrete operations of one stream of one rank, one after another.
//!
//! Checker, interpreter, adversarial executor and event engine all read schedules through this module, so they agree
//! on what a role's body says. It owns the evaluation of expressions, chunk addresses and peers, and refuses what has
//! no value with a [`Fault`]. It knows nothing of memory contents, visibility or time.

mod compile;
mod cursor;
mod outline;
mod range;
mod timed;

pub use compile::{CLine, Program};
pub use cursor::{Cursor, Step};
pub use outline::Outline;
pub use timed::{Brief, Walks};

/// The resolved form of bodies, for those that compile them instead of walking them.
pub mod code {
    pub use super::compile::{C, CLine, COp, CRef, CRegion, CRole, CStmt};
}

use crate::name::Name;
use crate::schedule::{BufferId, LocalOp};
use crate::types::ReduceOp;
use kbc_diag::{Diagnostic, Span};

/// A piece of memory of one rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mem {
    /// A buffer, by index.
    Buffer(u32),
    /// A slot of a window, by index and number.
    Slot(u32, u64),
}

/// Elements `start .. start + len` of a memory, and which part of the line they are as the fraction
/// `num / den .. (num + cnt) / den` (for a slot: the fraction of the other side of the operation).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The memory.
    pub mem: Mem,
    /// First element.
    pub start: u64,
    /// Elements.
    pub len: u64,
    /// First chunk.
    pub num: i64,
    /// Chunks.
    pub cnt: i64,
    /// Chunks of the line.
    pub den: i64,
    /// Operand of the region, `u32::MAX` for a slot.
    pub operand: u32,
}

/// A concrete operation.
#[derive(Clone, PartialEq, Debug)]
pub enum Act<'p> {
    /// `dst = src`
    Copy {
        /// Written.
        dst: Access,
        /// Read.
        src: Access,
    },
    /// `dst = dst op src`
    Reduce {
        /// Combiner.
        op: ReduceOp,
        /// Read and written.
        dst: Access,
        /// Read.
        src: Access,
    },
    /// `src` here to `dst` there.
    Put {
        /// Read here.
        src: Access,
        /// The other rank.
        peer: u64,
        /// Written there.
        dst: Access,
    },
    /// `src` there to `dst` here.
    Get {
        /// Written here.
        dst: Access,
        /// The other rank.
        peer: u64,
        /// Read there.
        src: Access,
    },
    /// `src` into the queue to the peer, once it has a free slot. Queues are numbered over all arrays.
    Send {
        /// Read here.
        src: Access,
        /// The other rank.
        peer: u64,
        /// The queue.
        queue: u32,
    },
    /// The oldest message of the queue from the peer, once there is one, to `dst`.
    Recv {
        /// Written here.
        dst: Access,
        /// The other rank.
        peer: u64,
        /// The queue.
        queue: u32,
    },
    /// Waits until the queue to the peer has a free slot.
    Room {
        /// The other rank.
        peer: u64,
        /// The queue.
        queue: u32,
    },
    /// Adds 1 to a counter of the peer. Counters are numbered over all signal arrays.
    Notify {
        /// The other rank.
        peer: u64,
        /// The counter.
        counter: u32,
    },
    /// Waits until a counter of this rank has a value.
    Wait {
        /// The counter.
        counter: u32,
        /// The value.
        value: i64,
    },
    /// `fence.release`
    FenceRelease,
    /// `fence.acquire`
    FenceAcquire,
    /// `fence.complete`
    FenceComplete,
    /// `record`, by number of the event.
    Record(u32),
    /// `await`, by number of the event.
    Await(u32),
    /// A local operation.
    Local(&'p LocalOp),
    /// The host takes all elements of a buffer as they are now; on the stream of the host alone.
    HostRead(BufferId),
    /// A point of a message that is not synchronised yet; does nothing.
    Mark,
}

/// Why an operation has no meaning on a rank: an expression without a value, a peer off the group, a chunk or slot
/// outside its space, sizes that differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Code of the diagnostic.
    pub code: &'static str,
    /// The words.
    pub text: String,
    /// The operation.
    pub span: Span,
    /// The rank.
    pub rank: u64,
    /// The region.
    pub region: Name,
}

impl Fault {
    /// As a message; `show` names the rank.
    pub fn diagnostic(&self, show: impl Fn(u64) -> String) -> Diagnostic {
        let d = Diagnostic::error(self.code, self.text.clone())
            .primary(self.span, format!("on rank {}, in region {}", show(self.rank), self.region));
        match self.code {
            "E354" => d.help("write loops of fewer turns"),
            _ => d,
        }
    }
}
