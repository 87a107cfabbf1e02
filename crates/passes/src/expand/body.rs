//! Statements of an algorithm as a tree of rounds, loops and lanes, without signals.
//!
//! This module evaluates `for`, `each`, `if`, `together` and `apply` symbolically: which rank
//! transfers what to which rank in which round, as expressions. [`super::emit`] turns rounds into
//! operations.

use super::options::Options;
use super::region::{Cx, Gen, Region};
use super::sym::{Bindings, IntoStop, Res, Sym, not_symbolic, untaken};
use super::together::{lockstep, side_by_side};
use super::view::{Group, axes_view, map_view};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::expr::{Expr, UnOp};
use kbc_rounds::ast::{Apply, Block, ExprKind, Place, Range, Slice, Stmt, StmtKind, ViewKind};
use kbc_rounds::eval::AlgRef;
use kbc_rounds::library::{AlgId, CollId};
use kbc_rounds::options::{OptionKind, OptionValue};
use std::rc::Rc;
use std::sync::Arc;

/// A transfer statement with its context.
#[derive(Clone)]
pub(super) struct Transfer {
    /// Generators of the `each` statements around it.
    pub(super) each: Vec<Gen>,
    /// The condition that this rank takes part, besides the generators.
    pub(super) guard: Expr,
    pub(super) src: Region,
    pub(super) dst: Region,
    pub(super) group: Rc<Group>,
    /// The other rank, in the group's coordinates, not wrapped.
    pub(super) peer: Vec<Expr>,
    pub(super) get: bool,
    pub(super) reduce: bool,
    pub(super) span: Span,
    /// The number of the transfer among those of its loop, and how many those are, if they do not
    /// follow from the loop's steps.
    pub(super) step: Option<(Expr, i64)>,
}

/// A tree of rounds.
#[derive(Clone)]
pub(super) enum Node {
    Round(Vec<Transfer>),
    Loop(Gen, Vec<Node>),
    /// Sequences that share no chunks.
    Lanes(Vec<Vec<Node>>),
}

/// A scratch buffer. `like` is the operand whose line it has.
pub(super) struct Scratch {
    pub(super) name: Name,
    pub(super) like: u32,
}

/// The state of the walk over statements.
pub(super) struct Builder<'a> {
    pub(super) cx: Cx<'a>,
    /// Whether loops are unrolled, so that steps are constants.
    pub(super) unroll: bool,
    pub(super) scratch: Vec<Scratch>,
    /// Number of operands of the collective itself.
    pub(super) operands: u32,
    /// Number of transfers so far, limited by [`MAX_UNROLLED`].
    pub(super) transfers: usize,
    pub(super) depth: u32,
    /// Number of loops around the statement that remain loops.
    pub(super) loops: u32,
    /// The coordinate system of the whole region, for tables.
    pub(super) world: super::view::World,
    pub(super) tables: Vec<kbc_ir::schedule::Table>,
}

/// Largest number of transfers of an unrolled expansion.
pub(super) const MAX_UNROLLED: usize = 4096;

/// An application of an algorithm.
pub(super) struct Use {
    pub(super) coll: CollId,
    pub(super) alg: AlgId,
    /// Parameters that differ from their defaults.
    pub(super) args: Vec<(String, Sym)>,
    /// Coordinates of the root.
    pub(super) root: Option<Vec<Expr>>,
    pub(super) group: Rc<Group>,
    /// One region for each buffer of the collective.
    pub(super) regions: Vec<Region>,
    /// The condition that this rank takes part.
    pub(super) guard: Expr,
    /// Generators of the `each` statements around it.
    pub(super) each: Vec<Gen>,
    /// The source location of the statement.
    pub(super) at: Span,
    /// Options of the use.
    pub(super) options: Options,
}

/// The frame of one application of an algorithm: its names and its spaces.
#[derive(Clone)]
pub(super) struct Frame {
    pub(super) env: Bindings,
    pub(super) group: Rc<Group>,
    /// Names of the group's coordinates.
    axes: Vec<String>,
    /// Number of chunks of the space.
    pub(super) chunks: Expr,
    /// The collective's buffers and scratch by name, with a buffer without a name first.
    pub(super) buffers: Vec<(String, Region)>,
    pub(super) one_buffer: bool,
    pub(super) guard: Expr,
    pub(super) each: Vec<Gen>,
}

impl Frame {
    /// Returns the index of the axis with that coordinate name.
    pub(super) fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|a| a == name)
    }
}

impl<'a> Builder<'a> {
    /// Returns the rounds of an algorithm on a group and regions.
    pub(super) fn algorithm(&mut self, u: Use) -> Res<Vec<Node>> {
        if u.options.instances.max(u.options.cores) > 1 || u.options.pipeline > 1 {
            return self.in_lanes(u);
        }
        let Use { coll, alg, args, root, group, regions, guard, each, at, options: _ } = u;
        let lib = self.cx.lib;
        let (decl, promise) = (lib.algorithm(alg), lib.collective(coll));
        if self.depth > 64 {
            return Err(Diagnostic::error(
                "E023",
                format!("`{}` applies itself without end", decl.name.node),
            )
            .primary(at, "here")
            .into_stop());
        }
        let mut env: Bindings = vec![];
        for (name, default) in &decl.params {
            let value = match args.iter().find(|(n, _)| *n == name.node) {
                Some((_, v)) => v.clone(),
                None => self.cx.eval.eval(default, &env)?,
            };
            env.push((name.node.clone(), value));
        }
        for (i, axis) in decl.axes.iter().enumerate() {
            env.push((axis.size.node.clone(), Sym::Int(Expr::Int(group.sizes[i]))));
        }
        if let Some(cond) = &decl.cond
            && !self.cx.eval.int(cond, &env)?.is_true()
        {
            let sizes: Vec<String> = group.sizes.iter().map(i64::to_string).collect();
            return Err(Diagnostic::error(
                "E024",
                format!("`{}` does not run on {} ranks", decl.name.node, sizes.join(" x ")),
            )
            .primary(at, "used here")
            .secondary(cond.span, "this is false")
            .into_stop());
        }
        for (i, axis) in decl.axes.iter().enumerate() {
            env.push((axis.coord.node.clone(), Sym::Int(group.own[i].clone())));
        }
        if let (Some((_, names)), Some(root)) = (&decl.root, root) {
            match &names[..] {
                [one] if root.len() == 1 => env.push((one.node.clone(), Sym::Int(root[0].clone()))),
                [one] => env.push((one.node.clone(), Sym::Rank(root))),
                many => env.extend(many.iter().zip(root).map(|(n, e)| (n.node.clone(), Sym::Int(e)))),
            }
        }
        let ranks: i64 = group.sizes.iter().product();
        let blocks = promise.buffers.first().is_some_and(|b| b.sizes.len() == 2);
        let chunks = match &decl.chunks {
            Some(e) => {
                let chunks = self.cx.eval.int(e, &env)?;
                if let Some(k) = chunks.as_int().filter(|k| *k < 1) {
                    return Err(Diagnostic::error("E028", format!("a line cannot be cut in {k} parts"))
                        .primary(e.span, "`chunks` at least 1")
                        .secondary(at, "used here")
                        .into_stop());
                }
                chunks
            }
            None => Expr::Int(if blocks { ranks } else { 1 }),
        };
        let names = promise.buffers.iter().map(|b| b.name.node.clone());
        let frame = Frame {
            env,
            group,
            axes: decl.axes.iter().map(|a| a.coord.node.clone()).collect(),
            chunks,
            buffers: names.zip(regions).collect(),
            one_buffer: promise.buffers.len() == 1,
            guard,
            each,
        };
        self.depth += 1;
        let nodes = self.block(&decl.body, &frame);
        self.depth -= 1;
        nodes
    }

    fn block(&mut self, block: &Block, frame: &Frame) -> Res<Vec<Node>> {
        let mut frame = frame.clone();
        let mut parts = vec![];
        for stmt in &block.stmts {
            let nodes = self.stmt(stmt, &mut frame)?;
            if !nodes.is_empty() {
                parts.push(nodes);
            }
        }
        if block.together {
            side_by_side(parts, block.span)
        } else {
            Ok(parts.into_iter().flatten().collect())
        }
    }

    fn stmt(&mut self, stmt: &Stmt, frame: &mut Frame) -> Res<Vec<Node>> {
        Ok(match &stmt.kind {
            StmtKind::Let(name, e) => {
                let v = self.cx.eval.eval(e, &frame.env)?;
                frame.env.push((name.node.clone(), v));
                vec![]
            }
            StmtKind::Scratch(name, count) => {
                let count = self.cx.eval.int(count, &frame.env)?;
                if count != frame.chunks {
                    return not_symbolic("scratch of another number of chunks than the space has", stmt.span);
                }
                let Some((_, first)) = frame.buffers.first() else { return Ok(vec![]) };
                let mut region = first.clone();
                region.operand = self.operands + self.scratch.len() as u32;
                let like = first.operand;
                // Scratch like another scratch has the line of that one's operand.
                let like = if like < self.operands {
                    like
                } else {
                    self.scratch[(like - self.operands) as usize].like
                };
                let hint = self.cx.fresh.name(&name.node);
                self.scratch.push(Scratch { name: hint, like });
                frame.buffers.push((name.node.clone(), region));
                vec![]
            }
            StmtKind::Move { get, here, there, reduce } => {
                self.transfers += 1;
                if self.unroll && self.transfers > MAX_UNROLLED {
                    return not_symbolic(format!("more than {MAX_UNROLLED} unrolled transfers"), stmt.span);
                }
                vec![Node::Round(vec![self.transfer(*get, here, there, *reduce, stmt.span, frame)?])]
            }
            StmtKind::For(var, range, body) => self.repeat(var, range, body, frame)?,
            StmtKind::Each(gens, body) => {
                let mut inner = frame.clone();
                for (var, range) in &gens.vars {
                    let (lo, hi) =
                        (self.cx.eval.int(&range.lo, &inner.env)?, self.cx.eval.int(&range.hi, &inner.env)?);
                    let name = self.cx.fresh.name(&var.node);
                    let (generator, cond) =
                        self.cx.generator(&name, &lo, &hi, range.lo.span.to(range.hi.span))?;
                    inner.env.push((var.node.clone(), Sym::Int(Expr::Var(name))));
                    inner.each.push(generator);
                    inner.guard = cond.into_iter().fold(inner.guard, Expr::and);
                }
                if let Some(c) = &gens.cond {
                    let c = self.cx.eval.int(c, &inner.env)?;
                    inner.guard = inner.guard.and(c);
                }
                let nodes = self.block(body, &inner)?;
                match &nodes[..] {
                    [] | [Node::Round(_)] => nodes,
                    _ => self.each_unrolled(gens, body, frame)?,
                }
            }
            StmtKind::If(c, then, other) => match self.cx.eval.int(c, &frame.env)? {
                Expr::Int(0) => match other {
                    Some(b) => self.block(b, frame)?,
                    None => vec![],
                },
                Expr::Int(_) => self.block(then, frame)?,
                cond => {
                    let mut yes = frame.clone();
                    yes.guard = yes.guard.and(cond.clone());
                    let mut parts = vec![untaken(self.block(then, &yes), then.span)?];
                    if let Some(b) = other {
                        let mut no = frame.clone();
                        no.guard = no.guard.and(Expr::un(UnOp::Not, cond));
                        parts.push(untaken(self.block(b, &no), b.span)?);
                    }
                    parts.retain(|p| !p.is_empty());
                    match lockstep(&parts) {
                        Some(nodes) => nodes,
                        None => {
                            return not_symbolic(
                                "an `if` with rounds of different form on both sides",
                                stmt.span,
                            );
                        }
                    }
                }
            },
            StmtKind::Apply(a) => self.apply(a, stmt.span, frame)?,
            StmtKind::Block(b) => self.block(b, frame)?,
            StmtKind::Error => vec![],
        })
    }

    fn repeat(
        &mut self,
        var: &kbc_rounds::ast::Ident,
        range: &Range,
        body: &Block,
        frame: &Frame,
    ) -> Res<Vec<Node>> {
        let (lo, hi) = (self.cx.eval.int(&range.lo, &frame.env)?, self.cx.eval.int(&range.hi, &frame.env)?);
        if !self.cx.ranges.uniform(&lo) || !self.cx.ranges.uniform(&hi) {
            return Err(Diagnostic::error("E025", "the bounds of `for` differ from rank to rank")
                .primary(range.lo.span.to(range.hi.span), "these must be the same on every rank")
                .help("loop over a uniform range and put an `if` inside")
                .into_stop());
        }
        if self.unroll {
            let (Some(lo), Some(hi)) = (lo.as_int(), hi.as_int()) else {
                return not_symbolic("a loop whose bounds are not constant", body.span);
            };
            let mut out = vec![];
            for v in lo..hi {
                let mut inner = frame.clone();
                inner.env.push((var.node.clone(), Sym::Int(Expr::Int(v))));
                out.extend(self.block(body, &inner)?);
            }
            return Ok(out);
        }
        if let (Some(a), Some(b)) = (lo.as_int(), hi.as_int())
            && a >= b
        {
            return Ok(vec![]);
        }
        let mut inner = frame.clone();
        let name = self.cx.fresh.name(&var.node);
        self.cx.ranges.bind(&name, &lo, &hi);
        inner.env.push((var.node.clone(), Sym::Int(Expr::Var(name.clone()))));
        self.loops += 1;
        let nodes = self.block(body, &inner);
        self.loops -= 1;
        let nodes = nodes?;
        Ok(if nodes.is_empty() { nodes } else { vec![Node::Loop(Gen { var: name, lo, hi }, nodes)] })
    }

    /// Handles an `each` over several rounds: its values run concurrently.
    fn each_unrolled(&mut self, gens: &kbc_rounds::ast::Gens, body: &Block, frame: &Frame) -> Res<Vec<Node>> {
        let mut frames = vec![frame.clone()];
        for (var, range) in &gens.vars {
            let mut next = vec![];
            for f in frames {
                let (lo, hi) = (self.cx.eval.int(&range.lo, &f.env)?, self.cx.eval.int(&range.hi, &f.env)?);
                let (Some(lo), Some(hi)) = (lo.as_int(), hi.as_int()) else {
                    return not_symbolic(
                        "an `each` of several rounds with bounds that are not constant",
                        body.span,
                    );
                };
                for v in lo..hi {
                    let mut g = f.clone();
                    g.env.push((var.node.clone(), Sym::Int(Expr::Int(v))));
                    next.push(g);
                }
            }
            frames = next;
        }
        let mut parts = vec![];
        for mut f in frames {
            if let Some(c) = &gens.cond {
                f.guard = f.guard.and(self.cx.eval.int(c, &f.env)?);
            }
            let nodes = self.block(body, &f)?;
            if !nodes.is_empty() {
                parts.push(nodes);
            }
        }
        side_by_side(parts, body.span)
    }

    fn slice(&mut self, slice: &Slice, frame: &Frame) -> Res<Region> {
        let base = match &slice.buffer {
            None if frame.one_buffer => frame.buffers.first().map(|b| b.1.clone()),
            None => None,
            Some(name) => frame.buffers.iter().rev().find(|b| b.0 == name.node).map(|b| b.1.clone()),
        };
        let Some(base) = base else {
            let names: Vec<&str> = frame.buffers.iter().map(|b| b.0.as_str()).collect();
            return Err(Diagnostic::error("E027", "which buffer is meant?")
                .primary(slice.span, "names no buffer of this algorithm")
                .note(format!("buffers here: {}", names.join(", ")))
                .into_stop());
        };
        base.select(&slice.selectors, &frame.chunks, &mut self.cx, &frame.env)
    }

    fn rank(&mut self, e: &kbc_rounds::ast::Expr, axes: usize, frame: &Frame) -> Res<Vec<Expr>> {
        let coords = match self.cx.eval.eval(e, &frame.env)? {
            Sym::Int(e) => vec![e],
            Sym::Rank(c) => c,
            Sym::Alg(a) => {
                return Err(Diagnostic::error("E005", format!("`{}` has no value here", a.name))
                    .primary(e.span, "unknown name")
                    .into_stop());
            }
        };
        if coords.len() != axes {
            return Err(Diagnostic::error(
                "E020",
                format!("a rank has {axes} coordinates here, {} were given", coords.len()),
            )
            .primary(e.span, "this rank")
            .into_stop());
        }
        Ok(coords)
    }

    fn transfer(
        &mut self,
        get: bool,
        here: &Slice,
        there: &Place,
        reduce: bool,
        span: Span,
        frame: &Frame,
    ) -> Res<Transfer> {
        let mine = self.slice(here, frame)?;
        let (other, peer) = match there {
            Place::Slice(s, None) => (self.slice(s, frame)?, frame.group.own.clone()),
            Place::Slice(s, Some(at)) => {
                (self.slice(s, frame)?, self.rank(at, frame.group.sizes.len(), frame)?)
            }
            Place::Rank(e) => (mine.clone(), self.rank(e, frame.group.sizes.len(), frame)?),
        };
        let (mine, other) = mine.pair(&other, &mut self.cx, span)?;
        let (src, dst) = if get { (other, mine) } else { (mine, other) };
        Ok(Transfer {
            each: frame.each.clone(),
            guard: frame.guard.clone(),
            src,
            dst,
            group: frame.group.clone(),
            peer,
            get,
            reduce,
            span,
            step: None,
        })
    }

    fn apply(&mut self, a: &Apply, span: Span, frame: &Frame) -> Res<Vec<Node>> {
        let lib = self.cx.lib;
        let coll = lib.find_collective(span.file, &a.coll.node, a.coll.span)?;
        let name = match frame.env.iter().rev().find(|(n, _)| *n == a.alg.node) {
            Some((_, Sym::Alg(r))) => r.clone(),
            _ => Arc::new(AlgRef { name: a.alg.node.clone(), file: span.file }),
        };
        let alg = lib.find_algorithm(name.file, coll, &name.name, a.alg.span)?;
        let decl = lib.algorithm(alg);
        let group = match &a.view.kind {
            ViewKind::Axes(names) => axes_view(names, decl, frame, a.view.span)?,
            ViewKind::Map(vars, to) => map_view(vars, to, decl, frame, self, a.view.span)?,
        };
        let (mut args, mut options) = (vec![], Options::default());
        for (n, e) in &a.args {
            match kbc_rounds::options::option_kind(&n.node) {
                Some(kind) => options
                    .set(&n.node, &self.option(kind, n, e, frame)?, true, n.span)
                    .map_err(IntoStop::into_stop)?,
                None => args.push((n.node.clone(), self.cx.eval.eval(e, &frame.env)?)),
            }
        }
        let root = match &a.root {
            Some(r) => Some(self.rank(&r.rank, group.sizes.len(), frame)?),
            None => None,
        };
        let mut regions = vec![self.slice(&a.on, frame)?];
        if let Some(to) = &a.to {
            regions.push(self.slice(to, frame)?);
        }
        let guard = match &group.member {
            Some(m) => frame.guard.clone().and(m.clone()),
            None => frame.guard.clone(),
        };
        let each = frame.each.clone();
        self.algorithm(Use {
            coll,
            alg,
            args,
            root,
            group: Rc::new(group),
            regions,
            guard,
            each,
            at: span,
            options,
        })
    }
}

impl Builder<'_> {
    /// Returns the value of an option of an `apply`.
    fn option(
        &self,
        kind: OptionKind,
        name: &kbc_rounds::ast::Ident,
        e: &kbc_rounds::ast::Expr,
        frame: &Frame,
    ) -> Res<OptionValue> {
        let bad = |wanted: String| {
            Diagnostic::error("E006", format!("option `{}` cannot have this value", name.node))
                .primary(e.span, format!("wanted: {wanted}"))
                .into_stop()
        };
        match kind {
            OptionKind::Count => match self.cx.eval.int(e, &frame.env)?.as_int() {
                Some(k) if k >= 1 => Ok(OptionValue::Count(k)),
                Some(_) => Err(bad("an integer of at least 1".into())),
                None => not_symbolic("an option whose value is not constant", e.span),
            },
            OptionKind::Word(words) => match &e.kind {
                ExprKind::Name(w) if words.contains(&w.as_str()) => Ok(OptionValue::Word(w.clone())),
                _ => Err(bad(words.join(" | "))),
            },
            OptionKind::Flag => match &e.kind {
                ExprKind::Bool(on) => Ok(OptionValue::Flag(*on)),
                _ => Err(bad("true | false".into())),
            },
        }
    }
}

impl Builder<'_> {
    /// Adds a scratch operand with the line of another operand, for local moves that would read
    /// what they write.
    pub(super) fn stage(&mut self, operand: u32) -> u32 {
        let like = if operand < self.operands {
            operand
        } else {
            self.scratch[(operand - self.operands) as usize].like
        };
        let name = self.cx.fresh.name("stage");
        self.scratch.push(Scratch { name, like });
        self.operands + self.scratch.len() as u32 - 1
    }
}
