//! Messages: transfers of the same chunks to the same peer in one round, which travel once.

use super::forms::{Form, conjuncts};
use crate::expand::interpret::{Region, Transfer};
use kbc_diag::Span;
use kbc_ir::expr::Expr;

/// A message: the transfer that it performs, and the places to which it goes.
pub(in crate::expand) struct Message {
    pub(in crate::expand) like: Transfer,
    pub(in crate::expand) forms: Vec<Form>,
    /// The places where the message lands at the receiver.
    pub(in crate::expand) dsts: Vec<Landing>,
}

/// A place at the receiver to which a message goes.
pub(in crate::expand) struct Landing {
    pub(in crate::expand) to: Region,
    pub(in crate::expand) adds: bool,
    /// The condition, besides the guard of the message.
    pub(in crate::expand) cond: Expr,
    pub(in crate::expand) span: Span,
}

impl Message {
    /// Merges a transfer of the same chunks to the same peer in the same round into the message, if
    /// the condition of one implies that of the other. Data that goes to several places travels
    /// once. Returns whether it was merged.
    pub(in crate::expand) fn join(&mut self, t: &Transfer) -> bool {
        let m = &self.like;
        let same = m.get == t.get
            && m.peer == t.peer
            && m.each == t.each
            && m.src == t.src
            && m.group.own == t.group.own;
        if !same {
            return false;
        }
        let landing = |cond| Landing { to: t.dst.clone(), adds: t.reduce, cond, span: t.span };
        if let Some(more) = beyond(&t.guard, &m.guard) {
            self.dsts.push(landing(more));
            return true;
        }
        let Some(more) = beyond(&m.guard, &t.guard) else { return false };
        for d in &mut self.dsts {
            d.cond = more.clone().and(d.cond.clone());
        }
        self.like.guard = t.guard.clone();
        self.dsts.push(landing(Expr::Int(1)));
        true
    }
}

/// Returns the conditions that `long` adds to `short`, or `None` unless `long` begins with all of
/// `short`.
fn beyond(long: &Expr, short: &Expr) -> Option<Expr> {
    let (mut long, short) = (conjuncts(long), conjuncts(short));
    if !long.starts_with(&short) {
        return None;
    }
    Some(long.split_off(short.len()).into_iter().fold(Expr::Int(1), Expr::and))
}
