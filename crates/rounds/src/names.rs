//! Static checks of names: which names an expression may use, and names that are declared twice.

use std::collections::BTreeMap;

use kbc_diag::{Diagnostic, Diagnostics, Span};

use crate::ast::{Expr, ExprKind, Gens, Ident};
use crate::evaluator::BUILTINS;
use crate::scope::{Functions, arguments, unknown};

/// Makes the error for a name that is declared twice in one scope.
pub(crate) fn duplicate(name: &Ident, first: Span) -> Diagnostic {
    Diagnostic::error("E004", format!("`{}` is declared twice", name.node))
        .primary(name.span, "again here")
        .secondary(first, "first here")
        .help("choose another name")
}

/// Scopes of names, and the check that expressions use only visible names.
pub(crate) struct NameCheck<'a> {
    lib: &'a dyn Functions,
    /// Scopes, innermost last; each maps names to the locations of their declarations.
    pub(crate) scopes: Vec<BTreeMap<String, Span>>,
    pub(crate) found: Diagnostics,
}

impl<'a> NameCheck<'a> {
    pub(crate) fn new(lib: &'a dyn Functions, names: Vec<(String, Span)>) -> Self {
        NameCheck { lib, scopes: vec![names.into_iter().collect()], found: Diagnostics::new() }
    }

    pub(crate) fn push(&mut self, name: &str, span: Span) {
        if let Some(scope) = self.scopes.last_mut() {
            // If a name is declared twice, messages show the first declaration.
            scope.entry(name.to_owned()).or_insert(span);
        }
    }

    /// Declares a name. Reports E004 if this scope already has it; inner scopes may
    /// hide outer names.
    pub(crate) fn declare(&mut self, name: &Ident) {
        let first = self.scopes.last().and_then(|s| s.get(&name.node)).copied();
        if let Some(first) = first {
            self.found.push(duplicate(name, first));
        }
        self.push(&name.node, name.span);
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        self.scopes.iter().any(|s| s.contains_key(name))
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.scopes.iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    pub(crate) fn gens(&mut self, gens: &Gens) {
        for (name, range) in &gens.vars {
            self.check(&range.lo);
            self.check(&range.hi);
            self.push(&name.node, name.span);
        }
        if let Some(c) = &gens.cond {
            self.check(c);
        }
    }

    pub(crate) fn check(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::Error => {}
            ExprKind::Float(x) => self.found.push(
                Diagnostic::error("E010", "algorithms compute with integers only")
                    .primary(e.span, format!("{x} is not an integer")),
            ),
            ExprKind::Name(n) => {
                if !self.knows(n) && self.lib.parameter(n, e.span).is_none() {
                    let mut valid = self.all();
                    valid.extend(self.lib.parameter_names(e.span.file));
                    self.found.push(*unknown("E005", "name", n, e.span, &valid));
                }
            }
            ExprKind::Call(name, args) => {
                self.call(name, args.len());
                args.iter().for_each(|a| self.check(a));
            }
            ExprKind::Tuple(parts) => parts.iter().for_each(|a| self.check(a)),
            ExprKind::Unary(_, a) => self.check(a),
            ExprKind::Binary(_, a, b) => {
                self.check(a);
                self.check(b);
            }
            ExprKind::If(a, b, c) => {
                self.check(a);
                self.check(b);
                self.check(c);
            }
            ExprKind::Let(lets, e) => {
                self.scopes.push(BTreeMap::new());
                for (name, value) in lets {
                    self.check(value);
                    self.declare(name);
                }
                self.check(e);
                self.scopes.pop();
            }
            ExprKind::Fold(_, e, gens) => {
                self.scopes.push(BTreeMap::new());
                self.gens(gens);
                self.check(e);
                self.scopes.pop();
            }
        }
    }

    fn call(&mut self, name: &Ident, got: usize) {
        let builtin = BUILTINS.iter().find(|b| b.0 == name.node);
        let (least, most, place) = match (builtin, self.lib.function(name)) {
            (Some(&(_, least, most)), _) => (least, most, Span::NONE),
            (None, Some(f)) => (f.params.len(), f.params.len(), f.name.span),
            (None, None) => {
                let built_in: Vec<String> = BUILTINS.iter().map(|b| b.0.to_owned()).collect();
                self.found.push(*self.lib.unknown_function(name, &built_in));
                return;
            }
        };
        if got < least || got > most {
            self.found.push(
                Diagnostic::error("E006", arguments(&name.node, least, got))
                    .primary(name.span, "called here")
                    .secondary(place, "declared here"),
            );
        }
    }
}
