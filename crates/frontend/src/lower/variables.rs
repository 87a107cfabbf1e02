//! Names in types: every one must be an argument, a declared variable or a parameter, in every
//! program and kernel of a file, called or not.
//!
//! This module owns that check. [`super::bind`] gives the variables their values.

use super::bind::{ArgumentKind, kind};
use super::types::misspelt;
use crate::ast::{
    Arg, Body, CutHow, Item, Statement, TileExpr, TileExprKind, TileStmt, TileStmtKind, Type, TypePlaceKind,
    TypeVariable,
};
use crate::loaded::{Loaded, LoadedFile};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_ir::types::DType;
use kbc_rounds::ast::{Expr, ExprKind, Ident};

/// Reports names in the types of a file that mean nothing.
pub(super) fn check(loaded: &Loaded, file: &LoadedFile, found: &mut Diagnostics) {
    for item in &file.tree().items {
        let mut types = Types::default();
        let (word, name, variables) = match item {
            Item::Program(p) => {
                types.args(&p.args);
                p.results.iter().for_each(|t| types.ty(t));
                types.body(&p.body);
                ("program", &p.name, &p.variables)
            }
            Item::TileKernel(k) => {
                types.args(&k.args);
                types.ty(&k.result.1);
                types.tiles(&k.body);
                ("kernel", &k.name, &k.variables)
            }
            Item::Local(l) => {
                for p in &l.parts {
                    types.args(&p.args);
                    p.results.iter().for_each(|t| types.ty(t));
                    types.body(&p.body);
                }
                ("local program", &l.name, &l.variables)
            }
            _ => continue,
        };
        let head = Head { loaded, file: file.id, word, name, variables };
        head.declarations(&types, found);
        head.uses(&types, found);
    }
}

/// A name in a type.
struct Use<'a> {
    name: &'a str,
    span: Span,
    /// Whether it stands for an element type instead of a size.
    dtype: bool,
    /// Whether it is a whole dimension or an element type, so that a value can determine it.
    alone: bool,
}

/// The names in the types of an item.
#[derive(Default)]
struct Types<'a> {
    uses: Vec<Use<'a>>,
    /// The arguments and loop variables.
    own: Vec<&'a Ident>,
}

impl<'a> Types<'a> {
    fn args(&mut self, args: &'a [Arg]) {
        for a in args {
            self.own.push(&a.name);
            if kind(a) == ArgumentKind::Tensor {
                self.ty(&a.ty);
            }
        }
    }

    fn ty(&mut self, ty: &'a Type) {
        self.uses.push(Use { name: &ty.dtype.node, span: ty.dtype.span, dtype: true, alone: true });
        for d in &ty.dims {
            self.size(&d.size, true);
            if let Some(CutHow::Lengths(list)) = d.cut.as_ref().map(|c| &c.how) {
                list.iter().for_each(|e| self.size(e, false));
            }
        }
        for p in &ty.places {
            if let TypePlaceKind::Only { rank, .. } = &p.kind {
                self.size(rank, false);
            }
        }
    }

    fn size(&mut self, e: &'a Expr, alone: bool) {
        let alone = alone && matches!(e.kind, ExprKind::Name(_));
        e.free_names(&mut |name, span| self.uses.push(Use { name, span, dtype: false, alone }));
    }

    fn body(&mut self, body: &'a Body) {
        self.statements(&body.statements);
        body.lets().into_iter().filter_map(|l| l.ty.as_ref()).for_each(|t| self.ty(t));
    }

    /// Adds the variables of loops.
    fn statements(&mut self, list: &'a [Statement]) {
        for s in list {
            match s {
                Statement::Let(_) | Statement::Assign(_) | Statement::Host(_) => {}
                Statement::For(f) => {
                    self.own.push(&f.var);
                    self.statements(&f.body);
                }
            }
        }
    }

    fn tiles(&mut self, list: &'a [TileStmt]) {
        for s in list {
            match &s.kind {
                TileStmtKind::Preload(_) => {}
                TileStmtKind::For(loops, body) => {
                    self.own.extend(loops.iter().map(|l| &l.var));
                    self.tiles(body);
                }
                TileStmtKind::Let(_, e) | TileStmtKind::Add(_, e) | TileStmtKind::Store(_, _, e) => {
                    self.tile(e);
                }
            }
        }
    }

    fn tile(&mut self, e: &'a TileExpr) {
        match &e.kind {
            TileExprKind::Load(..)
            | TileExprKind::Name(_)
            | TileExprKind::Int(_)
            | TileExprKind::Float(_) => {}
            TileExprKind::Zeros(ty) => self.ty(ty),
            TileExprKind::Call(_, list) => list.iter().for_each(|e| self.tile(e)),
            TileExprKind::Neg(a) => self.tile(a),
            TileExprKind::Dot(a, b) | TileExprKind::Binary(_, a, b) => {
                self.tile(a);
                self.tile(b);
            }
            TileExprKind::If(a, b, c) => {
                self.tile(a);
                self.tile(b);
                self.tile(c);
            }
        }
    }
}

/// The head of an item with types.
struct Head<'a> {
    loaded: &'a Loaded,
    file: FileId,
    word: &'static str,
    name: &'a Ident,
    variables: &'a [TypeVariable],
}

impl Head<'_> {
    fn parameter(&self, name: &str) -> Option<&Ident> {
        self.loaded.param(self.file, name).map(|p| &p.name)
    }

    /// Checks the declared variables themselves.
    fn declarations(&self, types: &Types<'_>, found: &mut Diagnostics) {
        for (i, v) in self.variables.iter().enumerate() {
            let name = &v.name.node;
            let twice = self.variables[..i].iter().find(|o| o.name.node == *name).map(|o| o.name.span);
            let argument = types.own.iter().find(|o| o.node == *name).map(|o| o.span);
            let parameter = self.parameter(name).map(|p| p.span);
            if let Some(first) = twice.or(argument).or(parameter) {
                found.push(
                    Diagnostic::error("E004", format!("`{name}` is declared twice"))
                        .primary(v.name.span, "declared here as a variable")
                        .secondary(first, "also declared here")
                        .help("rename or remove one of them"),
                );
            } else if v.dtype && DType::parse(name).is_some() {
                found.push(
                    Diagnostic::error("E004", format!("`{name}` is an element type of the language"))
                        .primary(v.name.span, "declared again here")
                        .help("choose another name, such as `T`"),
                );
            } else if !types.uses.iter().any(|u| u.name == name && u.dtype == v.dtype && u.alone) {
                let (what, form) =
                    if v.dtype { ("element type", "`T[..]`") } else { ("whole dimension", "`f32[D]`") };
                found.push(
                    Diagnostic::error("E231", format!("nothing gives the variable `{name}` a value"))
                        .primary(v.name.span, format!("no type has it as its {what}"))
                        .help(format!("use it as in {form}, or remove it")),
                );
            }
        }
    }

    /// Checks the names that the types use. Each unknown name is reported once.
    fn uses(&self, types: &Types<'_>, found: &mut Diagnostics) {
        let mut told: Vec<(&str, bool)> = vec![];
        for u in &types.uses {
            let declared = self.variables.iter().any(|v| v.name.node == u.name && v.dtype == u.dtype);
            let own = !u.dtype && types.own.iter().any(|o| o.node == u.name);
            let known = declared || own || u.dtype && DType::parse(u.name).is_some();
            if known || self.parameter(u.name).is_some() || told.contains(&(u.name, u.dtype)) {
                continue;
            }
            told.push((u.name, u.dtype));
            found.push(self.unknown(types, u));
        }
    }

    fn unknown(&self, types: &Types<'_>, u: &Use<'_>) -> Diagnostic {
        let (name, what) = (u.name, if u.dtype { "element type" } else { "size" });
        let d = Diagnostic::error("E005", format!("unknown {what} `{name}`"))
            .primary(u.span, "neither an argument, nor a declared variable, nor a parameter");
        let mut near: Vec<&str> = self.loaded.params(self.file).map(|p| p.name.node.as_str()).collect();
        near.extend(self.variables.iter().filter(|v| v.dtype == u.dtype).map(|v| v.name.node.as_str()));
        if u.dtype {
            if let Some(near) = nearest(name, DType::ALL.map(DType::name)) {
                return d.help(format!("did you mean `{near}`?"));
            }
            if let Some(meant) = misspelt(name) {
                return d.help(format!("write `{meant}`"));
            }
        } else {
            near.extend(types.own.iter().map(|o| o.node.as_str()));
        }
        // An old text declares no variables. What could have been one is declared by the edit.
        let binds = types.uses.iter().any(|o| o.name == name && o.dtype == u.dtype && o.alone);
        let text = if u.dtype { format!("{name}: dtype") } else { name.to_owned() };
        let form = format!("{} {}[{text}](..)", self.word, self.name.node);
        let help = match nearest(name, near) {
            Some(near) if binds => format!("did you mean `{near}`? A variable is declared: `{form}`"),
            Some(near) => format!("did you mean `{near}`?"),
            None if binds => format!("declare the variable: `{form}`"),
            None => format!("declare `param {name} = ..`, or make it an argument: `{name}: int`"),
        };
        let d = d.help(help);
        if !binds {
            return d;
        }
        match self.variables.last() {
            Some(last) => {
                d.edit(Span { start: last.span.end, end: last.span.end, ..last.span }, format!(", {text}"))
            }
            None => {
                let at = self.name.span;
                d.edit(Span { start: at.end, end: at.end, ..at }, format!("[{text}]"))
            }
        }
    }
}
