//! Compiled schedules: bodies with numbers in place of names, and the names of each region.

use super::written::Written;
use crate::expr::Expr;
use crate::name::Name;
use crate::op::Repr;
use crate::ready::ReadyExpression;
use crate::resolved::{self, Resolved, Unknown, resolve};
use crate::schedule::*;
use kbc_diag::{Diagnostic, Span};
use std::convert::Infallible;
use std::sync::OnceLock;

/// Representation in a compiled schedule: resolved expressions, and numbers of events and of local
/// operations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Compiled {}

impl Repr for Compiled {
    type Near = CRef;
    type Far = CRef;
    type Peer = Vec<Resolved>;
    type Counter = Counter<Resolved>;
    type Value = Resolved;
    type Queue = Channel<Resolved>;
    type Event = u32;
    type Local = LocalNumber;
    type Mark = ();
    type Host = Infallible;
}

/// A reference with resolved expressions.
pub type CRef = Ref<Resolved>;

/// A level of a chunk's address with resolved expressions.
pub type CPart = Part<Resolved>;

/// A line with resolved expressions.
pub type CLine = Line<Resolved>;

/// An operation with resolved expressions.
pub type COp = Op<Compiled>;

/// Number of a local operation ([`Program::local`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalNumber(pub(super) u32);

/// A statement. An operation has its source location and its number in the schedule.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the forms of `SStmt`")]
pub enum CStmt<'s> {
    For {
        slot: u32,
        lo: Resolved,
        hi: Resolved,
        body: Vec<CStmt<'s>>,
    },
    If {
        cond: ReadyExpression,
        then: Vec<CStmt<'s>>,
        other: Vec<CStmt<'s>>,
    },
    Op(COp, Span, u32),
    /// Operations that are resolved when a stream comes to them.
    Written(Written<'s>),
}

/// A role.
#[derive(Clone, Debug)]
pub struct CRole<'s> {
    pub(super) ranks: CRanks,
    /// Number of each stream, with its body.
    pub streams: Vec<(u32, Vec<CStmt<'s>>)>,
}

impl CRole<'_> {
    /// Checks whether the ranks of the role, its guards and its loops are the same in every call.
    pub(super) fn control_repeats(&self) -> bool {
        let ranks = match &self.ranks {
            CRanks::All | CRanks::List(_) => true,
            CRanks::Where(e) => !by_call(e),
        };
        ranks && self.streams.iter().all(|(_, list)| repeats(list))
    }
}

/// Checks whether an expression depends on the call, whose slot is the first.
pub(super) fn by_call(e: &Resolved) -> bool {
    e.reads(&|slot| slot == 0)
}

/// Checks whether no guard and no bound of a loop depends on the call.
pub(super) fn repeats(list: &[CStmt<'_>]) -> bool {
    list.iter().all(|s| match s {
        CStmt::For { lo, hi, body, .. } => !by_call(lo) && !by_call(hi) && repeats(body),
        CStmt::If { cond, then, other } => !by_call(cond) && repeats(then) && repeats(other),
        CStmt::Op(..) | CStmt::Written(_) => true,
    })
}

#[derive(Clone, Debug)]
pub(super) enum CRanks {
    All,
    Where(Resolved),
    List(Vec<u64>),
}

/// A region.
#[derive(Clone, Debug)]
pub struct CRegion<'s> {
    /// Coordinates of a group, as slot of the environment and size.
    pub coords: Vec<(u32, u64)>,
    /// Axes, fastest first: size of the axis, its stride in the rank's linear index, and its stride
    /// in the group's linear index.
    pub axes: Vec<(u64, u64, u64)>,
    /// Buffer and line of each operand.
    pub operands: Vec<(u32, CLine)>,
    /// Roles. A rank has at most one ([`Program::role_of`]).
    pub roles: Vec<CRole<'s>>,
}

/// A schedule in resolved form, ready for a walk.
#[derive(Debug)]
pub struct Program<'s> {
    /// Schedule that was resolved.
    pub schedule: &'s Schedule,
    /// Resolved regions.
    pub regions: Vec<CRegion<'s>>,
    /// Names of all streams. Number 0 is always `main`.
    pub streams: Vec<Name>,
    /// Number of the stream that fills inputs before a call and reads results: `host` if the
    /// schedule has a host's program, otherwise `main`.
    pub host: u32,
    /// Names of all events.
    pub events: Vec<Name>,
    /// Number of slots of an environment.
    pub env_len: usize,
    pub(super) mesh_slots: usize,
    /// The names outside of loops in each region.
    pub(super) scopes: Vec<Scope<'s>>,
    pub(super) locals: Vec<&'s LocalOp>,
    pub(super) has_forms: bool,
    pub(super) control_repeats: bool,
    /// First counter of each signal array; the last entry is the number of counters.
    pub counter_base: Vec<u32>,
    /// First queue of each queue array; the last entry is the number of queues.
    pub queue_base: Vec<u32>,
    /// Number of operations; their numbers are below it.
    pub ops: u32,
    pub(super) dims: Vec<Vec<Resolved>>,
    /// Number of elements of each buffer.
    pub(super) lengths: Vec<Length>,
}

/// Number of elements of a buffer on the ranks.
#[derive(Debug)]
pub(super) enum Length {
    /// It is the same on every rank.
    Fixed(u64),
    /// It may differ. The list is filled in where it is first needed, because walks ask for these
    /// numbers at every operation; it is empty where a number has no value or the ranks are many.
    ByRank(OnceLock<Vec<u64>>),
}

#[derive(Clone, Debug)]
pub(super) struct Scope<'a> {
    pub(super) names: Vec<(Name, u32)>,
    pub(super) deepest: usize,
    pub(super) tables: &'a [Table],
    pub(super) region: Name,
}

impl resolved::Scope for Scope<'_> {
    fn slot(&self, name: &Name) -> Option<u32> {
        self.names.iter().rev().find(|(n, _)| n == name).map(|(_, slot)| *slot)
    }

    fn table(&self, name: &Name) -> Option<u32> {
        self.tables.iter().position(|t| t.name == *name).map(|i| i as u32)
    }
}

impl Scope<'_> {
    pub(super) fn expr(&self, e: &Expr, span: Span) -> Result<Resolved, Diagnostic> {
        resolve(e, self).map_err(|unknown| match unknown {
            Unknown::Var(n) => {
                let valid: Vec<&str> = self.names.iter().map(|(n, _)| n.as_str()).collect();
                Diagnostic::error("E301", format!("`{n}` has no value in region {}", self.region))
                    .primary(span, "used here")
                    .note(format!("names with a value here: {}", valid.join(", ")))
            }
            Unknown::Table(n) => {
                Diagnostic::error("E301", format!("table @{n} does not exist")).primary(span, "used here")
            }
        })
    }

    pub(super) fn bind(&mut self, name: &Name) -> u32 {
        let slot = self.names.len() as u32;
        self.names.push((name.clone(), slot));
        self.deepest = self.deepest.max(self.names.len());
        slot
    }
}

/// State shared by all statements of a schedule during compilation.
#[derive(Default)]
pub(super) struct Shared<'s> {
    pub(super) events: Vec<Name>,
    pub(super) streams: Vec<Name>,
    pub(super) locals: Vec<&'s LocalOp>,
    pub(super) ops: u32,
}

impl<'s> Shared<'s> {
    /// Returns the number of an event.
    pub(super) fn event(&mut self, event: &Name) -> u32 {
        intern(&mut self.events, event)
    }

    /// Returns the number of a new local operation.
    pub(super) fn local(&mut self, local: &'s LocalOp) -> LocalNumber {
        self.locals.push(local);
        LocalNumber(self.locals.len() as u32 - 1)
    }
}

pub(super) fn intern(list: &mut Vec<Name>, name: &Name) -> u32 {
    match list.iter().position(|n| n == name) {
        Some(i) => i as u32,
        None => {
            list.push(name.clone());
            list.len() as u32 - 1
        }
    }
}
