//! Builder of statements: blocks, fresh names, and integers that are named once.

use crate::tile::Dialect;
use crate::tile::{CALL, CORE, COUNT, NRANKS, RANK, Stmt};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;

/// A kernel's body under construction. A block is opened, filled and closed; names that are defined
/// in it end with it.
pub(super) struct Build {
    blocks: Vec<Block>,
}

#[derive(Default)]
struct Block {
    stmts: Vec<Stmt>,
    /// Names that this block brings into scope, each with its value if it was defined by `let`.
    names: Vec<(Name, Option<Expr>)>,
}

impl Build {
    pub(super) fn new(dialect: &Dialect) -> Self {
        let taken = [RANK, CALL, CORE, NRANKS, COUNT];
        let names = taken.iter().chain(dialect.taken).map(|n| ((*n).into(), None)).collect();
        Build { blocks: vec![Block { stmts: vec![], names }] }
    }

    pub(super) fn open(&mut self) {
        self.blocks.push(Block::default());
    }

    pub(super) fn close(&mut self) -> Vec<Stmt> {
        let mut stmts = self.blocks.pop().map(|b| b.stmts).unwrap_or_default();
        // Remove a note that no statement follows: its operation needed no instruction.
        let note = |s: Option<&Stmt>| matches!(s, Some(Stmt::Note { .. }));
        for i in (0..stmts.len()).rev() {
            if note(stmts.get(i)) && (i + 1 == stmts.len() || note(stmts.get(i + 1))) {
                stmts.remove(i);
            }
        }
        stmts
    }

    pub(super) fn finish(mut self) -> Vec<Stmt> {
        self.close()
    }

    pub(super) fn push(&mut self, stmt: Stmt) {
        self.extend(vec![stmt]);
    }

    pub(super) fn extend(&mut self, stmts: Vec<Stmt>) {
        if let Some(b) = self.blocks.last_mut() {
            b.stmts.extend(stmts);
        }
    }

    /// Returns a name for a loop of this block that nothing in scope has.
    pub(super) fn fresh(&mut self, hint: &str) -> Name {
        self.give(hint, None)
    }

    fn give(&mut self, hint: &str, value: Option<Expr>) -> Name {
        let taken = |n: &str| self.blocks.iter().any(|b| b.names.iter().any(|(m, _)| m.as_str() == n));
        let mut name = hint.to_owned();
        let mut i = 2;
        while taken(&name) {
            name = format!("{hint}_{i}");
            i += 1;
        }
        let name: Name = name.into();
        if let Some(b) = self.blocks.last_mut() {
            b.names.push((name.clone(), value));
        }
        name
    }

    /// Returns a value by name: constants and names are returned as they are, and a value that
    /// already has a name in scope keeps this name.
    pub(super) fn name_it(&mut self, hint: &str, value: &Expr) -> Expr {
        let value = value.simplify();
        if matches!(value, Expr::Int(_) | Expr::Var(_)) {
            return value;
        }
        let known = self.blocks.iter().flat_map(|b| &b.names).find(|(_, v)| v.as_ref() == Some(&value));
        if let Some((name, _)) = known {
            return Expr::var(name.clone());
        }
        let name = self.give(hint, Some(value.clone()));
        self.push(Stmt::Let { name: name.clone(), value });
        Expr::var(name)
    }
}
