//! Contracts of collectives on a group of a given size.
//!
//! This module owns the rules for the text of a contract ([`check_collective`]) and its value on
//! `p` ranks ([`contract_value`]): which blocks hold something at the start, and of which blocks
//! the contents at the end are the sum. The unit is a block: a buffer `v[p][n]` has p blocks, and a
//! buffer `v[n]` has one. The index into `n` plays no role: `n` is any number of chunks, so a
//! contract must be the same for every chunk.

use kbc_diag::{Diagnostic, Diagnostics, Span};

use crate::ast::{Cell, Clause, ClauseValue, CollectiveDecl, Expr, ExprKind};
use crate::eval::{ConcreteEvaluator, Fault, Functions, ListScope, Value, with_bindings};
use crate::library::{CollId, Library};
use crate::names::{NameCheck, duplicate};

/// A block of a buffer of the collective.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BlockRef {
    /// Index of the buffer, in order of declaration.
    pub buffer: u32,
    /// Index of the block; 0 for a buffer without blocks.
    pub block: u32,
}

/// One source of the required contents of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Source {
    /// The member whose initial contribution it is.
    pub member: u32,
    /// The block that holds the contribution at the start.
    pub block: BlockRef,
}

/// The required contents of a block at the end: exactly these sources, counted with multiplicity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndTerm {
    /// The block.
    pub place: BlockRef,
    /// The sources of its contents.
    pub sources: Vec<Source>,
}

/// The value of a contract for a group of `p` ranks and a root. Members are numbered in the
/// group's linear order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContractValue {
    /// For each buffer, whether it has p blocks (otherwise one).
    pub blocks: Vec<bool>,
    /// For each member, the blocks that hold its own contribution at the start.
    pub start: Vec<Vec<BlockRef>>,
    /// For each member, the required contents at the end.
    pub end: Vec<Vec<EndTerm>>,
}

/// Greatest number of terms of a contract.
pub const MAX_TERMS: usize = 1 << 24;

/// Returns, for each buffer of a collective, whether it has p blocks.
pub fn block_shape(decl: &CollectiveDecl) -> Vec<bool> {
    decl.buffers.iter().map(|b| b.sizes.len() > 1).collect()
}

/// Returns the value of a contract on `p` ranks; `root` is a linear number.
///
/// # Errors
/// Returns the errors of [`check_collective`], E010 from expressions, E021 for an index or a rank
/// out of range, and E040 above [`MAX_TERMS`].
pub fn contract_value(
    decl: &CollectiveDecl,
    p: u32,
    root: Option<u32>,
    evaluator: &ConcreteEvaluator<'_>,
) -> Result<ContractValue, Fault> {
    let blocks = block_shape(decl);
    let mut out = ContractValue { blocks, start: vec![], end: vec![] };
    let mut terms = 0usize;
    for r in 0..p {
        let mut scope = ListScope(vec![
            (decl.axis.0.node.clone(), Value::Int(i64::from(r))),
            (decl.axis.1.node.clone(), Value::Int(i64::from(p))),
        ]);
        if let (Some((_, name)), Some(c)) = (&decl.root, root) {
            scope.0.push((name.node.clone(), Value::Int(i64::from(c))));
        }
        let mut at = Places { decl, p, evaluator, terms: &mut terms };
        let (mut start, mut end) = (vec![], vec![]);
        for clause in &decl.clauses {
            match clause {
                Clause::Start { cell, cond } => {
                    at.each(cell, cond.as_ref(), &mut scope, &mut |_, place, _| {
                        start.push(place);
                        Ok(())
                    })?
                }
                Clause::End { cell, cond, value } => {
                    at.each(cell, cond.as_ref(), &mut scope, &mut |at, place, scope| {
                        end.push(EndTerm { place, sources: at.sources(value, scope)? });
                        Ok(())
                    })?;
                }
            }
        }
        start.sort_unstable();
        start.dedup();
        out.start.push(start);
        out.end.push(end);
    }
    Ok(out)
}

struct Places<'a, 'e> {
    decl: &'a CollectiveDecl,
    p: u32,
    evaluator: &'a ConcreteEvaluator<'e>,
    terms: &'a mut usize,
}

type Each<'f> = &'f mut dyn FnMut(&mut Places<'_, '_>, BlockRef, &ListScope) -> Result<(), Fault>;

impl Places<'_, '_> {
    /// Calls `f` for every block that a cell names. If the block's variable is free, it is bound to
    /// each block in turn.
    fn each(
        &mut self,
        cell: &Cell,
        cond: Option<&Expr>,
        scope: &mut ListScope,
        f: Each<'_>,
    ) -> Result<(), Fault> {
        let (buffer, blocks) = self.buffer(cell)?;
        let free = if blocks { free_name(cell, scope) } else { None };
        let range = if free.is_some() { 0..self.p } else { 0..1 };
        for b in range {
            let bound = scope.0.len();
            if let Some(name) = &free {
                scope.0.push((name.clone(), Value::Int(i64::from(b))));
            }
            let holds = match cond {
                Some(c) => self.evaluator.bool(c, scope)?,
                None => true,
            };
            if holds {
                self.count(cell.buffer.span)?;
                let block = self.block(cell, blocks, scope)?;
                f(self, BlockRef { buffer, block }, scope)?;
            }
            scope.0.truncate(bound);
        }
        Ok(())
    }

    fn sources(&mut self, value: &ClauseValue, scope: &ListScope) -> Result<Vec<Source>, Fault> {
        match value {
            ClauseValue::At(cell, rank) => {
                let one = self.source(cell, rank, scope)?;
                Ok(vec![one])
            }
            ClauseValue::Sum(cell, rank, gens) => {
                let mut out = vec![];
                for values in self.evaluator.bindings(gens, scope, MAX_TERMS)? {
                    self.count(cell.buffer.span)?;
                    let inner = with_bindings(gens, &values, scope);
                    out.push(self.source(cell, rank, &inner)?);
                }
                Ok(out)
            }
        }
    }

    fn source(&mut self, cell: &Cell, rank: &Expr, scope: &dyn crate::eval::Scope) -> Result<Source, Fault> {
        let (buffer, blocks) = self.buffer(cell)?;
        let block = self.block(cell, blocks, scope)?;
        let member = self.in_range(rank, "rank", scope)?;
        Ok(Source { member, block: BlockRef { buffer, block } })
    }

    fn buffer(&self, cell: &Cell) -> Result<(u32, bool), Fault> {
        let at = self.decl.buffers.iter().position(|b| b.name.node == cell.buffer.node);
        let Some(at) = at else {
            let valid: Vec<String> = self.decl.buffers.iter().map(|b| b.name.node.clone()).collect();
            return Err(crate::eval::unknown("E005", "buffer", &cell.buffer.node, cell.buffer.span, &valid));
        };
        Ok((at as u32, self.decl.buffers[at].sizes.len() > 1))
    }

    fn block(&self, cell: &Cell, blocks: bool, scope: &dyn crate::eval::Scope) -> Result<u32, Fault> {
        match cell.index.first() {
            Some(e) if blocks => self.in_range(e, "block", scope),
            _ => Ok(0),
        }
    }

    fn in_range(&self, e: &Expr, what: &str, scope: &dyn crate::eval::Scope) -> Result<u32, Fault> {
        let v = self.evaluator.int(e, scope)?;
        u32::try_from(v).ok().filter(|&v| v < self.p).ok_or_else(|| {
            Box::new(
                Diagnostic::error("E021", format!("the contract names {what} {v}, and there are {}", self.p))
                    .primary(e.span, format!("this is {v}"))
                    .help("guard the clause with `if`"),
            )
        })
    }

    fn count(&mut self, span: Span) -> Result<(), Fault> {
        *self.terms += 1;
        if *self.terms > MAX_TERMS {
            return Err(Box::new(
                Diagnostic::error("E040", format!("the contract has more than {MAX_TERMS} terms"))
                    .primary(span, format!("on {} ranks", self.p))
                    .help("check it on fewer ranks"),
            ));
        }
        Ok(())
    }
}

fn free_name(cell: &Cell, scope: &ListScope) -> Option<String> {
    match cell.index.first().map(|e| &e.kind) {
        Some(ExprKind::Name(n)) if !scope.0.iter().any(|(m, _)| m == n) => Some(n.clone()),
        _ => None,
    }
}

/// Checks the rules that a collective's declaration must satisfy for every number of ranks.
///
/// Returns E003 for a shape or an index that a contract cannot have, E004 for a name declared
/// twice, and E005 for an unknown name.
pub fn check_collective(lib: &Library, id: CollId) -> Diagnostics {
    let decl = lib.collective(id);
    let mut found = Diagnostics::new();
    let (coord, size) = (&decl.axis.0, &decl.axis.1);
    let mut heads = vec![(coord.node.clone(), coord.span)];
    let root = decl.root.as_ref().map(|r| &r.1);
    for name in std::iter::once(size).chain(root) {
        match heads.iter().find(|h| h.0 == name.node) {
            Some(first) => found.push(duplicate(name, first.1)),
            None => heads.push((name.node.clone(), name.span)),
        }
    }
    for (i, b) in decl.buffers.iter().enumerate() {
        if let Some(first) = decl.buffers[..i].iter().find(|o| o.name.node == b.name.node) {
            found.push(duplicate(&b.name, first.name.span));
        }
        let shape_ok = match b.sizes.as_slice() {
            [n] => n.node != size.node,
            [p, n] => p.node == size.node && n.node != size.node,
            _ => false,
        };
        if !shape_ok {
            found.push(
                Diagnostic::error(
                    "E003",
                    format!("the shape of buffer `{}` is not allowed in a contract", b.name.node),
                )
                .primary(b.name.span, "declared here")
                .help(format!(
                    "write `{0}[n]` (one vector) or `{0}[{1}][n]` (one block per rank)",
                    b.name.node, size.node
                )),
            );
        }
    }
    for clause in &decl.clauses {
        check_clause(lib, decl, &heads, clause, &mut found);
    }
    if !decl.clauses.iter().any(|c| matches!(c, Clause::End { .. })) {
        found.push(
            Diagnostic::error("E003", format!("collective `{}` has no contract", decl.name.node))
                .primary(decl.name.span, "it has no `end` clause")
                .help("write what each place must hold at the end: `end v[i] = ..`"),
        );
    }
    found
}

fn check_clause(
    lib: &Library,
    decl: &CollectiveDecl,
    heads: &[(String, Span)],
    clause: &Clause,
    found: &mut Diagnostics,
) {
    let (cell, cond, value) = match clause {
        Clause::Start { cell, cond } => (cell, cond, None),
        Clause::End { cell, cond, value } => (cell, cond, Some(value)),
    };
    let mut names = NameCheck::new(lib as &dyn Functions, heads.to_vec());
    let Some(inner) = check_cell(decl, cell, found) else { return };
    if heads.iter().any(|h| h.0 == inner) {
        found.push(
            Diagnostic::error("E003", format!("the last index of `{}` must be a new name", cell.buffer.node))
                .primary(cell.buffer.span, format!("`{inner}` already has a value"))
                .help("a contract is the same for every chunk, so the last index is a name that stands for all of them, such as `v[i]`"),
        );
        return;
    }
    if let (2, Some(first)) = (cell.index.len(), cell.index.first()) {
        match &first.kind {
            ExprKind::Name(n) if !heads.iter().any(|h| &h.0 == n) => names.push(n, first.span),
            _ => names.check(first),
        }
    }
    if let Some(c) = cond {
        names.check(c);
    }
    if let Some(value) = value {
        let (from, rank, gens) = match value {
            ClauseValue::At(c, r) => (c, r, None),
            ClauseValue::Sum(c, r, g) => (c, r, Some(g)),
        };
        if let Some(g) = gens {
            names.gens(g);
        }
        if let Some(name) = check_cell(decl, from, found) {
            if name != inner {
                found.push(
                    Diagnostic::error("E003", "both sides of an `end` must use the same name for the chunk")
                        .primary(from.buffer.span, format!("`{name}` here"))
                        .secondary(cell.buffer.span, format!("`{inner}` here"))
                        .help(format!("write `{inner}` on both sides")),
                );
            }
            if let (2, Some(first)) = (from.index.len(), from.index.first()) {
                names.check(first);
            }
        }
        names.check(rank);
    }
    found.extend(names.found);
}

/// Returns the name of the last index, if the cell has the form that its buffer requires.
fn check_cell(decl: &CollectiveDecl, cell: &Cell, found: &mut Diagnostics) -> Option<String> {
    let Some(buffer) = decl.buffers.iter().find(|b| b.name.node == cell.buffer.node) else {
        let valid: Vec<String> = decl.buffers.iter().map(|b| b.name.node.clone()).collect();
        found.push(*crate::eval::unknown("E005", "buffer", &cell.buffer.node, cell.buffer.span, &valid));
        return None;
    };
    if buffer.sizes.len() != cell.index.len() {
        found.push(
            Diagnostic::error("E003", format!("`{}` takes {} indices", cell.buffer.node, buffer.sizes.len()))
                .primary(cell.buffer.span, format!("{} here", cell.index.len()))
                .secondary(buffer.name.span, "declared here"),
        );
        return None;
    }
    match cell.index.last().map(|e| &e.kind) {
        Some(ExprKind::Name(n)) => Some(n.clone()),
        _ => {
            found.push(
                Diagnostic::error("E003", format!("the last index of `{}` must be a name", cell.buffer.node))
                    .primary(cell.index.last().map_or(cell.buffer.span, |e| e.span), "an expression here")
                    .help("a contract is the same for every chunk, so the last index is a name that stands for all of them, such as `v[i]`"),
            );
            None
        }
    }
}
