//! Brief code: the flat code of bodies for the timed walk ([`super::timed`]). The module
//! [`super::outline`] writes it.

use super::compiled::{COp, Program};
use crate::op::{Op, Repr, SOp};
use crate::ready::ReadyExpression;
use crate::resolved::Resolved;
use crate::schedule::LocalOp;
use kbc_diag::Span;
use std::convert::Infallible;
use std::marker::PhantomData;

/// A value that is computed from registers.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Int(i64),
    Register(u32),
    /// `base + times * slot + plus`.
    Sum(Box<Sum>),
    /// Such a sum modulo a positive number.
    Wrapped(Box<(Sum, i64)>),
    /// Any other expression; its slots are registers.
    Tree(Box<Resolved>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    pub(super) base: Option<u32>,
    pub(super) slot: u32,
    pub(super) times: i64,
    pub(super) plus: i64,
}

impl Sum {
    fn value(&self, registers: &[i64]) -> i64 {
        let base = self.base.map_or(0, |b| registers[b as usize]);
        let steps = self.times.wrapping_mul(registers[self.slot as usize]);
        // Intermediate overflow is harmless: the result is exact because the whole expression has a
        // range.
        base.wrapping_add(steps).wrapping_add(self.plus)
    }
}

impl Value {
    /// Returns the value, or `None` if an expression without a range has none.
    #[inline]
    pub(super) fn get(&self, program: &Program<'_>, registers: &[i64]) -> Option<i64> {
        Some(match self {
            Value::Int(v) => *v,
            Value::Register(r) => registers[*r as usize],
            Value::Sum(s) => s.value(registers),
            Value::Wrapped(wrapped) => {
                let (s, of) = &**wrapped;
                let v = s.value(registers);
                if (0..*of).contains(&v) {
                    v
                } else if (*of..2 * *of).contains(&v) {
                    v - of
                } else {
                    v.rem_euclid(*of)
                }
            }
            Value::Tree(c) => program.eval(c, registers).ok()?,
        })
    }
}

/// Peer of an operation.
#[derive(Clone, Debug)]
pub(super) enum OutlinePeer {
    /// Register that holds the rank; negative if there is no such rank.
    Register(u32),
    /// Coordinates.
    Each(Box<[Value]>),
}

/// Size in bytes.
#[derive(Clone, Debug)]
pub(super) enum Size {
    Fixed(u64),
    Cut(Box<CutSize>),
}

/// `cnt` of `den` chunks from `num` on, of a line of `length` elements of `unit` bytes.
#[derive(Clone, Debug)]
pub(super) struct CutSize {
    pub(super) num: Value,
    pub(super) cnt: u64,
    pub(super) den: u64,
    pub(super) length: u64,
    pub(super) unit: u64,
}

/// A counter: its index in the signal array, the number of counters of the array, and its first
/// counter.
#[derive(Clone, Debug)]
pub(super) struct Indexed {
    pub(super) index: Value,
    pub(super) count: u64,
    pub(super) base: u32,
}

/// Representation of what the brief form of an operation needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outlined<'p>(PhantomData<&'p LocalOp>);

impl<'p> Repr for Outlined<'p> {
    type Near = Size;
    type Far = ();
    type Peer = OutlinePeer;
    type Counter = Indexed;
    type Value = Value;
    /// Operations on queues are kept whole.
    type Queue = Infallible;
    type Event = u32;
    type Local = &'p LocalOp;
    type Mark = ();
    type Host = Infallible;
}

/// An operation as it stands in the program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whole<'p> {
    Resolved(&'p COp),
    /// One that is resolved when it is needed.
    Written(&'p SOp),
}

/// An operation. A schedule with a role for every rank has millions of them.
#[derive(Clone, Debug)]
pub(super) struct Outlines<'p> {
    /// What its brief form needs. Without it, a cursor resolves the operation each time.
    pub(super) quick: Option<Op<Outlined<'p>>>,
    pub(super) whole: Whole<'p>,
    pub(super) span: Span,
    pub(super) number: u32,
    /// Whether no put of the stream comes right before it, apart from fences and marks.
    pub(super) behind_no_put: bool,
}

/// An instruction. Jump targets are indices of instructions.
#[derive(Clone, Debug)]
pub(super) enum Ins<'p> {
    /// Begins a loop, or jumps to `past` if it has no turns.
    For {
        slot: u32,
        end: u32,
        lo: &'p Resolved,
        hi: &'p Resolved,
        past: u32,
    },
    /// Begins the next turn of a loop at `body`, or continues after the last one.
    Next {
        slot: u32,
        end: u32,
        body: u32,
        /// Number of turns after which the loop repeats itself, or 0 ([`super::steady`]).
        steady: u32,
    },
    /// Jumps to `past` if the condition does not hold.
    Unless {
        cond: &'p ReadyExpression,
        past: u32,
    },
    Go(u32),
    Op(Outlines<'p>),
    Leave,
}

/// A value that is computed when a stream enters a region.
#[derive(Clone, Debug)]
pub(super) enum Fixed {
    Value(Resolved),
    /// A rank by its coordinates; -1 if there is no such rank.
    Peer(Vec<Resolved>),
}

/// A body: its first instruction, and the registers to set before it.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) start: u32,
    pub(super) fixed: Vec<(u32, Fixed)>,
}

/// Flat code of a schedule, for a number of calls.
#[derive(Debug)]
pub struct Outline<'p> {
    pub(super) program: &'p Program<'p>,
    pub(super) code: Vec<Ins<'p>>,
    /// For each region and role, the bodies of its streams in the order of the schedule.
    pub(super) bodies: Vec<Vec<Vec<(u32, Body)>>>,
    /// Number of registers of a stream.
    pub(super) width: usize,
    /// For each region, whether the linear index in the group equals the rank.
    pub(super) plain: Vec<bool>,
}
