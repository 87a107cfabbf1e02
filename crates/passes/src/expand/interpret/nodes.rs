//! Nodes: the tree of rounds, loops and lanes that a symbolic execution makes, without signals.

use super::group::Group;
use super::region::{Gen, Region};
use kbc_diag::Span;
use kbc_ir::expr::Expr;
use std::rc::Rc;

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
