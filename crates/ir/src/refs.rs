//! References: what an operation of a schedule names, such as buffers, chunks, slots, peers,
//! counters and queues.
//!
//! References are generic over their expressions, because the walk resolves the names in
//! expressions to numbers before it evaluates them.

use crate::expr::Expr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Index of a buffer of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BufferId(pub u32);
/// Index of a window of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WindowId(pub u32);
/// Index of a signal array of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SignalId(pub u32);
/// Index of a queue array of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId(pub u32);
/// Index of an operand of a region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OperandId(pub u32);
/// Index of a region of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegionId(pub u32);

/// One level of a chunk's address: chunks `index` up to `index + len` when the space is cut into
/// `of` chunks.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Part<E = Expr> {
    /// First chunk.
    pub index: E,
    /// Number of chunks; 1 except in the last level.
    pub len: E,
    /// Number of chunks into which the space is cut.
    pub of: E,
}

/// A contiguous run of elements that an operation reads or writes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Ref<E = Expr> {
    /// `v[i of n][j; k of m]`: part of an operand. Without parts it is the whole line.
    Chunk {
        /// The operand.
        operand: OperandId,
        /// Levels of the address, outermost first.
        path: Vec<Part<E>>,
    },
    /// `@w[slot]`: the first elements of a slot, as many as the other side of the operation has.
    Slot {
        /// The window.
        window: WindowId,
        /// Slot number.
        slot: E,
    },
}

impl<E> Ref<E> {
    /// Returns the reference with every expression translated by `f`.
    ///
    /// # Errors
    /// Returns the first error of `f`.
    pub fn try_map<T, X>(&self, mut f: impl FnMut(&E) -> Result<T, X>) -> Result<Ref<T>, X> {
        Ok(match self {
            Ref::Chunk { operand, path } => {
                // Collecting results would leave room for four levels in each of millions of paths.
                let mut out = Vec::with_capacity(path.len());
                for p in path {
                    out.push(Part { index: f(&p.index)?, len: f(&p.len)?, of: f(&p.of)? });
                }
                Ref::Chunk { operand: *operand, path: out }
            }
            Ref::Slot { window, slot } => Ref::Slot { window: *window, slot: f(slot)? },
        })
    }

    /// Calls `f` with every expression.
    pub fn each_expr_mut(&mut self, f: &mut dyn FnMut(&mut E)) {
        match self {
            Ref::Chunk { operand: _, path } => {
                for Part { index, len, of } in path {
                    [index, len, of].into_iter().for_each(&mut *f);
                }
            }
            Ref::Slot { window: _, slot } => f(slot),
        }
    }
}

impl Ref {
    /// Returns the reference with every expression replaced by its image under `f`.
    pub fn map_exprs(&self, f: &impl Fn(&Expr) -> Expr) -> Ref {
        let mut out = self.clone();
        out.each_expr_mut(&mut |e| *e = f(e));
        out
    }
}

/// A peer, given by its coordinates in the region's coordinate system. A coordinate out of range is
/// an error; wrapping is written with `%`. It is used as the list of its coordinates.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Peer {
    /// The coordinates.
    pub at: Vec<Expr>,
    /// The relays that the message passes on its way.
    pub via: Via,
}

impl From<Vec<Expr>> for Peer {
    fn from(at: Vec<Expr>) -> Self {
        Peer { at, via: Via::default() }
    }
}

impl FromIterator<Expr> for Peer {
    fn from_iter<I: IntoIterator<Item = Expr>>(list: I) -> Self {
        Vec::from_iter(list).into()
    }
}

impl Deref for Peer {
    type Target = Vec<Expr>;

    fn deref(&self) -> &Vec<Expr> {
        &self.at
    }
}

impl DerefMut for Peer {
    fn deref_mut(&mut self) -> &mut Vec<Expr> {
        &mut self.at
    }
}

/// Relays of the machine by number, in the order in which data passes them: 3 is the relay `#3` of
/// a machine file. Without relays a message takes the route of the machine.
///
/// Most messages name none, and many that do name the same, so the list is shared.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Via(Option<Arc<[u32]>>);

impl Via {
    /// Returns the relays.
    pub fn relays(&self) -> &[u32] {
        self.0.as_deref().unwrap_or(&[])
    }
}

impl From<Option<Arc<[u32]>>> for Via {
    fn from(relays: Option<Arc<[u32]>>) -> Self {
        Via(relays.filter(|r| !r.is_empty()))
    }
}

impl From<&[u32]> for Via {
    fn from(relays: &[u32]) -> Self {
        Via((!relays.is_empty()).then(|| relays.into()))
    }
}

/// `@signal[index]`: a counter of a signal array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counter<E = Expr> {
    /// Signal array.
    pub signal: SignalId,
    /// Index of the counter in the array.
    pub index: E,
}

/// `@queue[index]`: a queue of an array of queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Channel<E = Expr> {
    /// Queue array.
    pub queue: QueueId,
    /// Index of the queue in the array.
    pub index: E,
}

/// Way in which an operation uses elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RefUse {
    /// It only reads them.
    Read,
    /// It only writes them.
    Write,
    /// It reads and writes them, as the destination of a reduction.
    Update,
}

impl RefUse {
    /// Checks whether the operation writes the elements.
    pub fn writes(self) -> bool {
        matches!(self, RefUse::Write | RefUse::Update)
    }

    /// Checks whether the operation reads the elements.
    pub fn reads(self) -> bool {
        matches!(self, RefUse::Read | RefUse::Update)
    }
}
