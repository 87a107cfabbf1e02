//! Emitter: the state of the emission of a region, with its windows, streams and marks.

use crate::expand::interpret::{Builder, Mover};
use crate::expand::messages::End;
use kbc_diag::Span;
use kbc_ir::Name;
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::rewrite::{map_exprs, subst_stmts};
use kbc_ir::schedule::SStmt;
use kbc_ir::types::ReduceOp;
use std::sync::Arc;

/// An operand and its largest chunks, as (chunks, of).
pub(in crate::expand) type Fits = (u32, Vec<(i64, i64)>);

/// A window under construction: its slots, and the chunks that have to fit into one slot.
pub(in crate::expand) struct WindowDraft {
    pub(in crate::expand) slots: i64,
    /// The operand and its largest chunks, as (chunks, of).
    pub(in crate::expand) fits: Fits,
    pub(in crate::expand) span: Span,
    /// With rotating slots: the neighbour, its messages so far, and the loops that contain them.
    pub(in crate::expand) round: Option<Rotation>,
}

/// Slots that the messages to one neighbour use in rotation.
pub(in crate::expand) struct Rotation {
    pub(in crate::expand) peer: Vec<Expr>,
    pub(in crate::expand) stream: usize,
    /// Number of messages per call once all are known, and the variable that stands for it until
    /// then.
    pub(in crate::expand) messages: i64,
    pub(in crate::expand) name: Name,
    pub(in crate::expand) loops: Vec<Name>,
}

impl Rotation {
    /// Returns the variable that stands for the only slot until the end.
    pub(in crate::expand) fn only(&self) -> Name {
        format!("{} slot", self.name).into()
    }

    /// Returns the expression for that variable: `call mod 1`, so that a rotation of one slot is
    /// recognisable as a rotation.
    pub(in crate::expand) fn slot(&self, name: &Name) -> Option<Expr> {
        let call = Arc::new(Expr::var(kbc_ir::schedule::CALL));
        (*name == self.only()).then(|| Expr::Bin(BinOp::Mod, call, Arc::new(Expr::Int(1))))
    }
}

/// Prefix of the names of the cores' streams.
pub(in crate::expand) const CORE: &str = "core";

/// A stream of a role: its name and its body.
pub(in crate::expand) type LaneStream = (Name, Vec<SStmt>);

pub(in crate::expand) struct Emitter<'b, 'a> {
    pub(in crate::expand) b: &'b mut Builder<'a>,
    pub(in crate::expand) red: ReduceOp,
    pub(in crate::expand) windows: Vec<WindowDraft>,
    /// Number in the schedule of the first window of this region.
    pub(in crate::expand) first_window: u32,
    /// Streams besides the main one.
    pub(in crate::expand) lanes: Vec<LaneStream>,
    /// Prefix of stream and event names.
    pub(in crate::expand) region: Name,
    /// The marks that messages get.
    pub(in crate::expand) marks: Marks,
    /// The lane that is being written; 0 for the main stream.
    pub(in crate::expand) stream: usize,
    /// Prefix of the names of streams besides the first.
    pub(in crate::expand) lane: &'static str,
    /// Operands, each with the scratch that holds data fetched for it.
    pub(in crate::expand) fetched: Vec<(u32, u32)>,
    /// Whether some data is fetched such that switches can add it.
    pub(in crate::expand) sums: bool,
    /// The core whose lane is being written, if lanes are cores.
    pub(in crate::expand) core: Option<i64>,
    /// The last operations of the stream that is being written: those that settle its sends.
    pub(in crate::expand) settles: Vec<SStmt>,
}

/// The points of a message that are marked. `publish` and `accept` are always marked.
#[derive(Clone, Copy)]
pub(in crate::expand) struct Marks {
    /// Whether it is marked that slots are free again, because other messages do not imply it: by
    /// `reserve` or `settle`, and `free`.
    pub(in crate::expand) reuse: bool,
    /// Number of slots for the messages to each neighbour, used in rotation. None: one slot for
    /// each message.
    pub(in crate::expand) slots: Option<i64>,
    /// Who moves the data. Slots of messages that are fetched belong to the sender.
    pub(in crate::expand) transfer: Mover,
}

/// The operations of a message at its two ends.
#[derive(Default)]
pub(in crate::expand) struct Ends {
    /// Sends that only tell receivers what they can fetch. They come first in a round, because
    /// nothing should delay them.
    pub(in crate::expand) publishes: Vec<SStmt>,
    pub(in crate::expand) sends: Vec<SStmt>,
    /// Waits and gets before the receives of the round, during which the data comes.
    pub(in crate::expand) asks: Vec<SStmt>,
    /// Waits, and the operations of the receiver after them.
    pub(in crate::expand) receives: Vec<SStmt>,
    /// Waits, and gets directly to the destination. One fence completes all of a round.
    pub(in crate::expand) fetches: Vec<SStmt>,
    /// Additions of what the asks brought, after that fence.
    pub(in crate::expand) sums: Vec<SStmt>,
    /// Operations after that fence.
    pub(in crate::expand) frees: Vec<SStmt>,
}

impl Ends {
    /// Adds the operations of another message of the same round.
    pub(in crate::expand) fn append(&mut self, other: Ends) {
        let Ends { publishes, sends, asks, receives, fetches, sums, frees } = other;
        self.publishes.extend(publishes);
        self.sends.extend(sends);
        self.asks.extend(asks);
        self.receives.extend(receives);
        self.fetches.extend(fetches);
        self.sums.extend(sums);
        self.frees.extend(frees);
    }
}

/// Wraps the operations of an end in its loops and conditions.
pub(in crate::expand) fn around(end: &End, inner: Vec<SStmt>) -> Vec<SStmt> {
    let mut out = guarded(&end.guard, inner);
    if let Some((var, to)) = &end.turn {
        out = subst_stmts(&out, &|n| (n == var).then(|| to.clone()));
        out = map_exprs(&out, &Expr::simplify);
    }
    for g in end.loops.iter().rev() {
        out = vec![SStmt::For { var: g.var.clone(), lo: g.lo.clone(), hi: g.hi.clone(), body: out }];
    }
    guarded(&end.outer, out)
}

/// Puts statements under a condition, unless the condition is always true.
pub(in crate::expand) fn guarded(cond: &Expr, inner: Vec<SStmt>) -> Vec<SStmt> {
    if cond.is_true() { inner } else { vec![SStmt::If { cond: cond.clone(), then: inner, other: vec![] }] }
}
