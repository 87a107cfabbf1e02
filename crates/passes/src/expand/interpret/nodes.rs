//! Nodes: the tree of rounds, loops and lanes that a symbolic execution makes, without signals.

use super::group::Group;
use super::region::{Gen, Region};
use kbc_diag::Span;
use kbc_ir::Name;
use kbc_ir::expr::Expr;
use kbc_rounds::interp::Checked;
use std::rc::Rc;

/// The condition of a checked selection: `index..index + len` lies in `0..count`, for all values of
/// the generators for which `cond` holds. The chunks themselves are addressed modulo `count`, so a
/// schedule does not depend on the condition.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::expand) struct Bound {
    pub(in crate::expand) gens: Vec<Gen>,
    pub(in crate::expand) cond: Option<Expr>,
    pub(in crate::expand) index: Expr,
    pub(in crate::expand) len: Expr,
    pub(in crate::expand) count: Expr,
    pub(in crate::expand) checked: Checked,
}

impl Bound {
    pub(in crate::expand) fn subst(&self, f: &impl Fn(&Name) -> Option<Expr>) -> Bound {
        Bound {
            gens: self.gens.iter().map(|g| g.subst(f)).collect(),
            cond: self.cond.as_ref().map(|c| c.subst(f)),
            index: self.index.subst(f),
            len: self.len.subst(f),
            count: self.count.subst(f),
            checked: self.checked.clone(),
        }
    }
}

/// A transfer statement with its context.
#[derive(Clone)]
pub(in crate::expand) struct Transfer {
    /// Generators of the `each` statements around it.
    pub(in crate::expand) each: Vec<Gen>,
    /// The condition that this rank takes part, besides the generators.
    pub(in crate::expand) guard: Expr,
    pub(in crate::expand) src: Region,
    pub(in crate::expand) dst: Region,
    pub(in crate::expand) group: Rc<Group>,
    /// The other rank, in the group's coordinates, not wrapped.
    pub(in crate::expand) peer: Vec<Expr>,
    pub(in crate::expand) get: bool,
    pub(in crate::expand) reduce: bool,
    pub(in crate::expand) span: Span,
    /// The checked selections of its places that are not evidently in range.
    pub(in crate::expand) bounds: Vec<Bound>,
    /// The number of the transfer among those of its loop, and how many those are, if they do not
    /// follow from the loop's steps.
    pub(in crate::expand) step: Option<(Expr, i64)>,
}

/// A tree of rounds.
#[derive(Clone)]
pub(in crate::expand) enum Node {
    Round(Vec<Transfer>),
    Loop(Gen, Vec<Node>),
    /// Sequences that share no chunks.
    Lanes(Vec<Vec<Node>>),
}
