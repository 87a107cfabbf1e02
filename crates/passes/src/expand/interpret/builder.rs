//! Builder: the state of a symbolic execution, and the frames of the algorithms in it.

use super::group::{Group, World};
use super::nodes::Bound;
use super::region::{Cx, Gen, Region};
use super::sym::Bindings;
use kbc_ir::Name;
use kbc_ir::expr::Expr;
use kbc_ir::schedule::Table;
use kbc_rounds::ast::AlgorithmDecl;
use kbc_rounds::interp::NamedBuffer;
use std::rc::Rc;
use std::sync::Arc;

/// A scratch buffer. `like` is the operand whose line it has.
pub(in crate::expand) struct Scratch {
    pub(in crate::expand) name: Name,
    pub(in crate::expand) like: u32,
}

/// The state of the walk over statements.
pub(in crate::expand) struct Builder<'a> {
    pub(in crate::expand) cx: Cx<'a>,
    /// Whether loops are unrolled, so that steps are constants.
    pub(in crate::expand) unroll: bool,
    pub(in crate::expand) scratch: Vec<Scratch>,
    /// Number of operands of the collective itself.
    pub(in crate::expand) operands: u32,
    /// Number of transfers so far, limited by [`MAX_UNROLLED`].
    pub(in crate::expand) transfers: usize,
    pub(in crate::expand) depth: u32,
    /// The checked selections that every transfer made now depends on.
    pub(in crate::expand) bounds: Vec<Bound>,
    /// Number of loops around the statement that remain loops.
    pub(in crate::expand) loops: u32,
    /// The coordinate system of the whole region, for tables.
    pub(in crate::expand) world: World,
    pub(in crate::expand) tables: Vec<Table>,
}

/// Largest number of transfers of an unrolled expansion.
pub(in crate::expand) const MAX_UNROLLED: usize = 4096;

/// The ranks and values that execute a statement.
#[derive(Clone)]
pub(in crate::expand) struct ActiveRanks {
    /// The condition that this rank takes part.
    pub(in crate::expand) guard: Expr,
    /// Generators of the `each` statements around it.
    pub(in crate::expand) each: Vec<Gen>,
}

/// The frame of one application of an algorithm: its names and its buffers.
pub(in crate::expand) struct Frame<'a> {
    pub(in crate::expand) env: Bindings,
    pub(in crate::expand) group: Rc<Group>,
    pub(in crate::expand) decl: &'a AlgorithmDecl,
    /// The collective's buffers first, then scratch.
    pub(in crate::expand) buffers: Vec<NamedBuffer<'a, Region, Expr>>,
    /// Number of buffers that belong to the collective.
    pub(in crate::expand) given: usize,
}

impl Frame<'_> {
    /// Returns the index of the axis with that coordinate name.
    pub(in crate::expand) fn axis(&self, name: &str) -> Option<usize> {
        self.decl.axes.iter().position(|a| a.coord.node == name)
    }
}

impl Builder<'_> {
    /// Returns the operand whose line an operand has.
    pub(in crate::expand) fn like(&self, operand: u32) -> u32 {
        // Scratch like another scratch has the line of that one's operand.
        if operand < self.operands { operand } else { self.scratch[(operand - self.operands) as usize].like }
    }

    /// Adds a scratch operand with the line of another operand, for local moves that would read
    /// what they write.
    pub(in crate::expand) fn stage(&mut self, operand: u32) -> u32 {
        let like = self.like(operand);
        let name = self.cx.fresh.name("stage");
        self.scratch.push(Scratch { name, like });
        self.operands + self.scratch.len() as u32 - 1
    }

    /// Returns the entry at this rank of a table over the ranks of the region.
    pub(in crate::expand) fn table(&mut self, hint: &str, values: Vec<i64>) -> Expr {
        let own = self.world.own();
        let index = self.world.linear(&own);
        self.table_at(hint, values, index)
    }

    /// Returns an entry of a new table, or of an existing table with the same values.
    pub(in crate::expand) fn table_at(&mut self, hint: &str, values: Vec<i64>, index: Expr) -> Expr {
        if let Some(first) = values.first()
            && values.iter().all(|v| v == first)
        {
            return Expr::Int(*first);
        }
        let name = match self.tables.iter().find(|t| t.values == values) {
            Some(t) => t.name.clone(),
            None => {
                let name = self.cx.fresh.name(hint);
                self.tables.push(Table { name: name.clone(), values });
                name
            }
        };
        Expr::Table(name, Arc::new(index))
    }
}
