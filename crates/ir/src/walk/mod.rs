//! Walk: the concrete operations of one stream of one rank, one after another.
//!
//! The checker, the interpreter, the adversarial executor and the event engine all read schedules
//! through this module, so they agree on the meaning of a role's body. The module evaluates
//! expressions, chunk addresses and peers, and returns a [`Fault`] for those that have no value. It
//! knows nothing of memory contents, visibility or time.

mod act;
mod brief_code;
mod compile;
mod compiled;
mod cursor;
mod outline;
mod place;
mod range;
mod resolving;
mod steady;
mod timed;
mod written;

pub use brief_code::Outline;
pub use compile::stream_names;
pub use compiled::{CLine, Program};
pub use cursor::{Cursor, Step, TakenGuards};
pub use steady::Turn;
pub use timed::{Brief, Timed, TimedOp, Walks};

/// Resolved form of bodies, for code that compiles them instead of walking them.
pub mod code {
    pub use super::compiled::{CLine, COp, CPart, CRef, CRegion, CRole, CStmt};
    pub use super::written::Written;
}

use crate::cut::Chunks;
use crate::name::Name;
use crate::op::{Op, Repr};
use crate::schedule::LocalOp;
use kbc_diag::{Diagnostic, Span};
use std::convert::Infallible;
use std::marker::PhantomData;

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

/// Representation of the concrete operations of one rank: evaluated addresses, peers, counters,
/// queues and values. Counters are numbered over all signal arrays, and queues over all queue
/// arrays.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Concrete<'p>(PhantomData<&'p LocalOp>);

impl<'p> Repr for Concrete<'p> {
    type Near = Access;
    type Far = Access;
    type Peer = u64;
    type Counter = u32;
    type Value = i64;
    type Queue = u32;
    type Event = u32;
    type Local = &'p LocalOp;
    type Mark = ();
    type Host = Infallible;
}

/// A concrete operation.
pub type Act<'p> = Op<Concrete<'p>>;

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
            "E354" => d.help("write loops with fewer iterations"),
            _ => d,
        }
    }
}
