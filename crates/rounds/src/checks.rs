//! Static checks of declarations, independent of the number of ranks: names, parameters,
//! options, roots, axes.
//!
//! This module owns the static errors E004 (inside a declaration), E005, E006, E022, E027, E028
//! and E029, and decides which names an expression may use. The expansion finds errors that
//! depend on sizes.

use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use std::collections::BTreeMap;

use crate::ast::{
    AlgorithmDecl, Apply, Block, CollectiveDecl, ExprKind, FnBody, FnDecl, RemoteSide, Selector,
    SelectorKind, Slice, Stmt, StmtKind, Via, ViewKind,
};
use crate::claim::{claims, variants};
use crate::contract::check_collective;
use crate::head::{algorithm_valued, axes_differ, unknown_parameter};
use crate::library::{AlgId, CollId, Library};
use crate::names::{NameCheck, duplicate};
use crate::options::{OPTIONS, OptionKind, among_arguments, option_kind};
use crate::scope::unknown;
use crate::write;

/// Returns all static errors of the declarations of one file.
pub fn check_file(lib: &Library, file: FileId) -> Diagnostics {
    let mut found = Diagnostics::new();
    for f in lib.functions_in(file) {
        found.extend(check_function(lib, f));
    }
    for c in lib.collectives_in(file) {
        found.extend(check_collective(lib, c));
    }
    for a in lib.algorithms_in(file) {
        found.extend(check_algorithm(lib, a));
    }
    found
}

/// Checks a function or a table: the parameters of a function are distinct, the rows of a table are
/// equally long, and the body uses only names that it sees.
pub fn check_function(lib: &Library, f: &FnDecl) -> Diagnostics {
    let mut names = NameCheck::new(lib, vec![]);
    if let FnBody::Expr(_) = f.body {
        f.params.iter().for_each(|p| names.declare(p));
    }
    f.body.parts().into_iter().for_each(|e| names.check(e));
    names.found
}

/// Checks an algorithm, for every shape.
pub fn check_algorithm(lib: &Library, id: AlgId) -> Diagnostics {
    let decl = lib.algorithm(id);
    let mut check = AlgorithmCheck { lib, decl, names: NameCheck::new(lib, vec![]), buffers: vec![] };
    check.head();
    check.names.found
}

struct AlgorithmCheck<'a> {
    lib: &'a Library,
    decl: &'a AlgorithmDecl,
    names: NameCheck<'a>,
    /// Names of buffers and scratch, innermost last, and whether a bare selector has no number of
    /// parts: whole vectors without `chunks`.
    buffers: Vec<(String, Span, bool)>,
}

impl<'a> AlgorithmCheck<'a> {
    fn head(&mut self) {
        let decl = self.decl;
        let file = decl.name.span.file;
        for axis in &decl.axes {
            self.names.declare(&axis.size);
        }
        for root in decl.root.iter().flat_map(|r| &r.1) {
            self.names.declare(root);
        }
        for ((name, default), is_alg) in decl.params.iter().zip(algorithm_valued(decl, self.lib)) {
            match &default.kind {
                ExprKind::Name(n) if is_alg => {
                    if !self.lib.is_algorithm_name(file, n) {
                        let names = self.names.all();
                        let what = "algorithm or name";
                        self.names.found.push(*self.lib.no_algorithm(what, file, (n, default.span), &names));
                    }
                }
                _ => self.names.check(default),
            }
            self.names.declare(name);
        }
        // `where` and `chunks` apply to the whole group, so no coordinate is visible yet.
        for e in decl.cond.iter().chain(&decl.chunks) {
            self.names.check(e);
        }
        self.names.found.list.extend(claims(decl).err().map(|d| *d));
        self.names.found.list.extend(variants(decl).err().map(|d| *d));
        for axis in &decl.axes {
            self.names.declare(&axis.coord);
        }
        match self.lib.find_collective(decl.coll.span.file, &decl.coll.node, decl.coll.span) {
            Err(d) => self.names.found.push(*d),
            Ok(id) => {
                let coll = self.lib.collective(id);
                self.buffers = coll
                    .buffers
                    .iter()
                    .map(|b| {
                        let whole = decl.chunks.is_none() && b.sizes.len() == 1;
                        (b.name.node.clone(), b.name.span, whole)
                    })
                    .collect();
                let root = decl.root.as_ref().map(|r| (r.0, r.1.first().map_or(decl.head, |n| n.span)));
                self.root(coll, root, decl.head);
                if let Some((_, roots)) = &decl.root
                    && roots.len() != 1
                    && roots.len() != decl.axes.len()
                {
                    self.names.found.push(
                        Diagnostic::error(
                            "E020",
                            "the number of coordinates of the root differs from the number of axes",
                        )
                        .primary(
                            roots.first().map_or(decl.head, |r| r.span),
                            format!("{} names", roots.len()),
                        )
                        .help(format!("write {} names, or one name for the whole rank", decl.axes.len())),
                    );
                }
                let buffers = self.buffers.len();
                self.block_in_scope(&decl.body);
                self.buffers.truncate(buffers);
            }
        }
    }

    fn root(&mut self, coll: &CollectiveDecl, given: Option<(bool, Span)>, whole: Span) {
        let word = |from: bool| if from { "from" } else { "to" };
        let name = &coll.name.node;
        let d = match (&coll.root, given) {
            (None, None) => return,
            (Some((wanted, _)), Some((got, _))) if *wanted == got => return,
            (Some((wanted, _)), Some((_, span))) => {
                Diagnostic::error("E029", format!("`{name}` takes its root after `{}`", word(*wanted)))
                    .primary(span, format!("this is `{}`", word(!*wanted)))
                    .help(format!("write `{name} {} ..`", word(*wanted)))
            }
            (Some((wanted, _)), None) => Diagnostic::error("E029", format!("`{name}` needs a root"))
                .primary(whole, "the root is missing here")
                .help(format!("write `{name} {} RANK`", word(*wanted))),
            (None, Some((got, span))) => Diagnostic::error("E029", format!("`{name}` takes no root"))
                .primary(span, "a root is given here")
                .help(format!("remove the `{}`", word(got))),
        };
        self.names.found.push(d.secondary(coll.name.span, "the collective"));
    }

    fn block(&mut self, b: &'a Block) {
        self.names.scopes.push(BTreeMap::new());
        self.block_in_scope(b);
        self.names.scopes.pop();
    }

    fn block_in_scope(&mut self, b: &'a Block) {
        let buffers = self.buffers.len();
        for s in &b.stmts {
            self.stmt(s, buffers);
        }
        self.buffers.truncate(buffers);
    }

    fn stmt(&mut self, s: &'a Stmt, scope_start: usize) {
        match &s.kind {
            StmtKind::Error => {}
            StmtKind::Let(name, e) => {
                self.names.check(e);
                self.names.declare(name);
            }
            StmtKind::Scratch(name, e) => {
                self.names.check(e);
                // The collective's own buffers belong to the scope of the outermost block.
                let top = if self.names.scopes.len() == 1 { 0 } else { scope_start };
                if let Some(first) = self.buffers[top..].iter().find(|b| b.0 == name.node) {
                    let d = duplicate(name, first.1);
                    self.names.found.push(d);
                }
                self.buffers.push((name.node.clone(), name.span, false));
            }
            StmtKind::Move { here, there, via, .. } => {
                self.slice(here);
                match there {
                    RemoteSide::Rank(e) => self.names.check(e),
                    RemoteSide::Slice(slice, rank) => {
                        self.slice(slice);
                        rank.iter().for_each(|e| self.names.check(e));
                    }
                }
                if let Some(via) = via {
                    self.via(via, matches!(there, RemoteSide::Slice(_, None)));
                }
            }
            StmtKind::For(name, range, b) => {
                self.names.check(&range.lo);
                self.names.check(&range.hi);
                self.names.scopes.push(BTreeMap::from([(name.node.clone(), name.span)]));
                self.block(b);
                self.names.scopes.pop();
            }
            StmtKind::Each(gens, b) => {
                self.names.scopes.push(BTreeMap::new());
                self.names.gens(gens);
                self.block(b);
                self.names.scopes.pop();
            }
            StmtKind::If(c, a, b) => {
                self.names.check(c);
                self.block(a);
                b.iter().for_each(|b| self.block(b));
            }
            StmtKind::Block(b) => self.block(b),
            StmtKind::Apply(a) => self.apply(a, s.span),
        }
    }

    /// Checks the relays of a transfer. `stays` says that its data stays on the rank.
    fn via(&mut self, via: &'a Via, stays: bool) {
        if stays {
            let d = Diagnostic::error("E598", "a copy on one rank passes no relays")
                .primary(via.span, "no message is sent")
                .help("remove `via`, or name the other rank: `-> [i] at r + 1 via [0]`");
            self.names.found.push(d);
        }
        self.names.scopes.push(BTreeMap::new());
        if let Some(gens) = &via.gens {
            self.names.gens(gens);
        }
        via.relays.iter().for_each(|e| self.names.check(e));
        self.names.scopes.pop();
    }

    fn slice(&mut self, s: &Slice) {
        match &s.buffer {
            Some(name) if !self.buffers.iter().any(|b| b.0 == name.node) => {
                let valid: Vec<String> = self.buffers.iter().map(|b| b.0.clone()).collect();
                let d = *unknown("E027", "buffer", &name.node, name.span, &valid);
                self.names.found.push(d);
            }
            Some(_) => {}
            None => self.unnamed(s.span),
        }
        let whole = match &s.buffer {
            Some(name) => self.buffers.iter().rev().find(|b| b.0 == name.node),
            None => self.buffers.first(),
        }
        .is_some_and(|b| b.2);
        for (i, selector) in s.selectors.iter().enumerate() {
            self.selector(selector, i > 0);
            if i == 0 && whole {
                self.of_how_many(selector);
            }
        }
    }

    /// Rejects a slice without a name, unless the collective has only one buffer.
    fn unnamed(&mut self, span: Span) {
        let coll = self.lib.find_collective(self.decl.coll.span.file, &self.decl.coll.node, span);
        if let Ok(id) = coll
            && self.lib.collective(id).buffers.len() > 1
        {
            let names: Vec<String> =
                self.lib.collective(id).buffers.iter().map(|b| format!("`{}[..]`", b.name.node)).collect();
            self.names.found.push(
                Diagnostic::error(
                    "E027",
                    format!("`{}` has several buffers, and this selection names none", self.decl.coll.node),
                )
                .primary(span, "write the buffer before the brackets")
                .help(format!("write {}", names.join(" or "))),
            );
        }
    }

    fn selector(&mut self, s: &Selector, inner: bool) {
        let needs_of = match &s.kind {
            SelectorKind::All => inner,
            SelectorKind::Part { index, len, gens, of } => {
                self.names.scopes.push(BTreeMap::new());
                if let Some(g) = gens {
                    self.names.gens(g);
                }
                self.names.check(index);
                len.iter().for_each(|e| self.names.check(e));
                self.names.scopes.pop();
                of.iter().for_each(|c| self.names.check(&c.n));
                inner && of.is_none()
            }
        };
        if needs_of {
            self.names.found.push(
                Diagnostic::error("E028", "the second and every later selector needs `of`")
                    .primary(s.span, "the number of parts is missing")
                    .help("write `[i of n]`: part i of n of each chunk that the selectors before it select"),
            );
        }
    }

    /// Rejects a selector that does not say into how many parts it cuts a vector.
    fn of_how_many(&mut self, s: &Selector) {
        let SelectorKind::Part { index, len, gens, of: None } = &s.kind else { return };
        let text = write::selector_text(index, len.as_ref(), gens.is_some());
        let sizes: Vec<&str> = self.decl.axes.iter().map(|a| a.size.node.as_str()).collect();
        let p = sizes.join("*");
        // As a bare selector follows the axes where `chunks` says how many.
        let word = if self.decl.axes.iter().all(|a| a.wraps) { "mod" } else { "of" };
        let d = Diagnostic::error("E028", format!("`[{text}]` of how many?"))
            .primary(s.span, "the number of parts is missing")
            .help(format!("write `chunks {p}` in the head of the algorithm, or `[{text} {word} {p}]`"));
        // Such a selector had one part, the whole vector, whatever its index.
        let old = len.is_none() && gens.is_none();
        self.names.found.push(if old { d.edit(s.span, "[..]") } else { d });
    }

    fn apply(&mut self, a: &'a Apply, whole: Span) {
        let axes = match &a.view.kind {
            ViewKind::Axes(list) => {
                for (i, name) in list.iter().enumerate() {
                    if !self.decl.axes.iter().any(|x| x.coord.node == name.node) {
                        let valid: Vec<String> =
                            self.decl.axes.iter().map(|x| x.coord.node.clone()).collect();
                        self.names.found.push(*unknown("E005", "axis", &name.node, name.span, &valid));
                    }
                    if let Some(first) = list[..i].iter().find(|o| o.node == name.node) {
                        self.names.found.push(duplicate(name, first.span));
                    }
                }
                list.len()
            }
            ViewKind::Map(list, rank) => {
                list.iter().for_each(|(_, size)| self.names.check(size));
                self.names.scopes.push(BTreeMap::new());
                list.iter().for_each(|(name, _)| self.names.declare(name));
                self.names.check(rank);
                self.names.scopes.pop();
                list.len()
            }
        };
        if let Some(r) = &a.root {
            self.names.check(&r.rank);
        }
        self.slice(&a.on);
        a.to.iter().for_each(|s| self.slice(s));
        match self.lib.find_collective(a.coll.span.file, &a.coll.node, a.coll.span) {
            Err(d) => {
                self.names.found.push(*d);
                self.values(a, None);
            }
            Ok(id) => {
                let coll = self.lib.collective(id);
                let root = a.root.as_ref().map(|r| (r.from, r.rank.span));
                self.root(coll, root, whole);
                self.regions(a, coll);
                self.callee(a, id, axes);
            }
        }
    }

    fn regions(&mut self, a: &Apply, coll: &CollectiveDecl) {
        let name = &coll.name.node;
        let d = match (coll.buffers.len(), &a.to) {
            (1, Some(to)) => {
                Diagnostic::error("E027", format!("`{name}` works on one buffer, and two are given"))
                    .primary(to.span, "the second buffer")
                    .help("remove `-> ..`")
            }
            (2.., None) => Diagnostic::error(
                "E027",
                format!("`{name}` reads one buffer and writes another, and only one is given"),
            )
            .primary(a.on.span, "the buffer to write is missing")
            .help("write `on S -> T`"),
            _ => return,
        };
        self.names.found.push(d.secondary(coll.name.span, "the collective"));
    }

    fn callee(&mut self, a: &'a Apply, coll: CollId, axes: usize) {
        // A known name is an algorithm-valued parameter. Which algorithm it stands for is known
        // only in a use.
        if self.names.knows(&a.alg.node) {
            self.values(a, None);
            return;
        }
        let id = match self.lib.find_algorithm(a.alg.span.file, coll, &a.alg.node, a.alg.span) {
            Err(d) => {
                self.names.found.push(*d);
                self.values(a, None);
                return;
            }
            Ok(id) => id,
        };
        let decl = self.lib.algorithm(id);
        if decl.axes.len() != 1 && decl.axes.len() != axes {
            self.names.found.push(axes_differ(decl, axes, a.view.span));
        }
        self.values(a, Some(decl));
    }

    fn values(&mut self, a: &'a Apply, callee: Option<&AlgorithmDecl>) {
        for list in [&a.args, &a.options] {
            for (i, (name, _)) in list.iter().enumerate() {
                if let Some(first) = list[..i].iter().find(|o| o.0.node == name.node) {
                    self.names.found.push(duplicate(name, first.0.span));
                }
            }
        }
        for (name, value) in &a.options {
            match option_kind(&name.node) {
                None => {
                    let valid: Vec<String> = OPTIONS.iter().map(|o| o.0.to_owned()).collect();
                    self.names.found.push(*unknown("E006", "option", &name.node, name.span, &valid));
                }
                Some(OptionKind::Word(words)) => {
                    if !matches!(&value.kind, ExprKind::Name(w) if words.contains(&w.as_str())) {
                        self.names.found.push(
                            Diagnostic::error("E006", format!("invalid value of option `{}`", name.node))
                                .primary(value.span, format!("expected {}", words.join(" | "))),
                        );
                    }
                }
                Some(OptionKind::Count | OptionKind::Flag) => self.names.check(value),
            }
        }
        let own = |n: &str| callee.is_some_and(|c| c.params.iter().any(|p| p.0.node == n));
        if let Some(d) = among_arguments(&a.alg, (&a.args, &a.options), a.use_span, own) {
            self.names.found.push(d);
            return;
        }
        for (name, value) in &a.args {
            let at = callee.and_then(|c| c.params.iter().position(|p| p.0.node == name.node).map(|i| (c, i)));
            if let (Some(c), None) = (callee, at) {
                self.names.found.push(unknown_parameter(c, name));
            }
            let may_be_algorithm =
                at.is_none_or(|(c, i)| algorithm_valued(c, self.lib).get(i) == Some(&true));
            match &value.kind {
                ExprKind::Name(n) if may_be_algorithm && !self.names.knows(n) => {
                    if !self.lib.is_algorithm_name(value.span.file, n) {
                        let (names, at) = (self.names.all(), (n.as_str(), value.span));
                        let what = "algorithm or name";
                        self.names.found.push(*self.lib.no_algorithm(what, value.span.file, at, &names));
                    }
                }
                _ => self.names.check(value),
            }
        }
    }
}
