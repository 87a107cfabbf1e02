//! Symbolic execution: the domain of the interpreter of algorithms in which the rank and the steps
//! are variables. It makes a tree of rounds, loops and lanes, without signals.
//!
//! A statement is executed once, for all ranks: a condition that depends on the rank becomes a
//! guard, a loop stays a loop, and the variables of an `each` become generators.
//! [`crate::expand::emit`] turns rounds into operations.

use super::builder::{ActiveRanks, Builder, Frame, MAX_UNROLLED, Scratch};
use super::group::Group;
use super::nodes::{Bound, Node, Transfer};
use super::options::Options;
use super::region::{Gen, Region, both};
use super::sym::{Bindings, Evaluator, IntoStop, Res, Stop, Sym, Symbols, not_symbolic, untaken};
use super::together::{lockstep, side_by_side};
use super::view::{axes_view, map_view};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::expr::{Expr, UnOp};
use kbc_rounds::ast::{self, AlgorithmDecl, Apply, Gens, Ident, Range, ViewKind};
use kbc_rounds::interp::statements::{apply_side, ends, run};
use kbc_rounds::interp::{
    Applied, BufferOf, ChunkSelection, Domain, Ends, NamedBuffer, Split, Start, TransferStatement, Turns,
};
use kbc_rounds::library::Library;
use kbc_rounds::options::OptionValue;
use kbc_rounds::scope::{Fault, Scope};
use std::rc::Rc;

/// Places that are being selected: the chunks so far, and for each selector the generators and the
/// condition under which it selects.
pub(in crate::expand) struct Cut {
    region: Region,
    selectors: Vec<(Vec<Gen>, Option<Expr>)>,
}

/// The chunks `index; len` of a selector, for each value of some generators.
pub(in crate::expand) struct Chunks {
    index: Expr,
    len: Expr,
    gens: Vec<Gen>,
    cond: Option<Expr>,
}

impl<'a> Domain<'a> for Builder<'a> {
    type Values = Symbols;
    type Stop = Stop;
    type Frame = Frame<'a>;
    type Active = ActiveRanks;
    type Viewpoint = ();
    /// Numbers of names and of buffers.
    type Mark = (usize, usize);
    type Done = Vec<Node>;
    type Loop = Gen;
    type Bound = Vec<i64>;
    type Region = Region;
    type Cut = Cut;
    type Chunks = Chunks;
    /// Coordinates in the group, not wrapped.
    type Peer = Vec<Expr>;
    type View = Group;
    type Views = ();
    type Group = Rc<Group>;
    type Options = Options;

    fn library(&self) -> &'a Library {
        self.cx.lib
    }

    fn evaluator(&self) -> &Evaluator<'a> {
        &self.cx.eval
    }

    fn on<T>(
        &self,
        f: &Frame<'a>,
        (): (),
        eval: impl FnOnce(&Evaluator<'a>, &dyn Scope<Sym>) -> Res<T>,
    ) -> Res<T> {
        eval(&self.cx.eval, &f.env)
    }

    fn located(&self, _: &Frame<'a>, (): (), d: Fault) -> Stop {
        Stop::Error(d)
    }

    fn first(&self, _: &ActiveRanks) -> Option<()> {
        Some(())
    }

    fn ranks(&self, _: &ActiveRanks) -> u64 {
        1
    }

    fn step(&mut self, _: u64, _: Span) -> Res<()> {
        Ok(())
    }

    fn nothing(&self, _: &ActiveRanks) -> Vec<Node> {
        vec![]
    }

    fn after(&self, at: &ActiveRanks, _: &Vec<Node>) -> ActiveRanks {
        at.clone()
    }

    fn append(&self, done: &mut Vec<Node>, next: Vec<Node>) {
        done.extend(next);
    }

    fn side_by_side(&mut self, mut parts: Vec<Vec<Node>>, _: &ActiveRanks, span: Span) -> Res<Vec<Node>> {
        parts.retain(|p| !p.is_empty());
        side_by_side(parts, &self.cx.ranges, span)
    }

    fn branches(&mut self, mut parts: Vec<Vec<Node>>, _: &ActiveRanks, span: Span) -> Res<Vec<Node>> {
        parts.retain(|p| !p.is_empty());
        match lockstep(&parts) {
            Some(nodes) => Ok(nodes),
            None => not_symbolic("an `if` whose branches have rounds of different form", span),
        }
    }

    fn beside<T>(&mut self, _: Span, _: usize, part: impl FnOnce(&mut Self) -> T) -> T {
        part(self)
    }

    fn maybe(&self, outcome: Res<Vec<Node>>, span: Span) -> Res<Vec<Node>> {
        untaken(outcome, span)
    }

    fn mark(&self, f: &Frame<'a>) -> (usize, usize) {
        (f.env.len(), f.buffers.len())
    }

    fn release(&self, f: &mut Frame<'a>, (names, buffers): (usize, usize), _: &ActiveRanks) {
        f.env.truncate(names);
        f.buffers.truncate(buffers);
    }

    fn define(&mut self, f: &mut Frame<'a>, _: &ActiveRanks, name: &'a str, e: &ast::Expr) -> Res<()> {
        let v = self.cx.eval.eval(e, &f.env)?;
        f.env.push((name.to_owned(), v));
        Ok(())
    }

    fn bind(&mut self, f: &mut Frame<'a>, _: &ActiveRanks, name: &'a str, value: i64) {
        f.env.push((name.to_owned(), Sym::Int(Expr::Int(value))));
    }

    fn scratch(
        &mut self,
        f: &mut Frame<'a>,
        _: &ActiveRanks,
        name: &'a str,
        count: &ast::Expr,
        span: Span,
    ) -> Res<()> {
        let count = self.cx.eval.int(count, &f.env)?;
        let Some(first) = f.buffers.first() else { return Ok(()) };
        if count != first.chunks {
            return not_symbolic("scratch whose number of chunks differs from that of the buffer", span);
        }
        let mut region = first.region.clone();
        let like = self.like(region.operand);
        region.operand = self.operands + self.scratch.len() as u32;
        let hint = self.cx.fresh.name(name);
        self.scratch.push(Scratch { name: hint, like });
        f.buffers.push(NamedBuffer { name, region, chunks: count });
        Ok(())
    }

    fn transfer(&mut self, f: &Frame<'a>, at: &ActiveRanks, m: TransferStatement<'a>) -> Res<Vec<Node>> {
        self.transfers += 1;
        if self.unroll && self.transfers > MAX_UNROLLED {
            return not_symbolic(format!("more than {MAX_UNROLLED} unrolled transfers"), m.span);
        }
        let outer = self.bounds.len();
        let places = ends(self, f, (), m);
        let bounds = self.bounds.clone();
        self.bounds.truncate(outer);
        let Ends { near, far, peer, via } = places?;
        if !via.is_empty() {
            return not_symbolic("a message that names relays", m.span);
        }
        let (near, far) = near.pair(&far, &mut self.cx, m.span)?;
        let (src, dst) = if m.get { (far, near) } else { (near, far) };
        Ok(vec![Node::Round(vec![Transfer {
            each: at.each.clone(),
            guard: at.guard.clone(),
            src,
            dst,
            group: f.group.clone(),
            peer: peer.unwrap_or_else(|| f.group.own.clone()),
            get: m.get,
            reduce: m.reduce,
            span: m.span,
            bounds,
            step: None,
        }])])
    }

    fn turns(
        &mut self,
        f: &Frame<'a>,
        _: &ActiveRanks,
        name: &Ident,
        range: &Range,
        body: Span,
    ) -> Res<Turns<Gen>> {
        let (lo, hi) = (self.cx.eval.int(&range.lo, &f.env)?, self.cx.eval.int(&range.hi, &f.env)?);
        if !self.cx.ranges.uniform(&lo) || !self.cx.ranges.uniform(&hi) {
            return Err(Diagnostic::error("E025", "the bounds of `for` differ from rank to rank")
                .primary(range.lo.span.to(range.hi.span), "the bounds must be the same on every rank")
                .help("loop over a uniform range and put an `if` inside")
                .into_stop());
        }
        match (lo.as_int(), hi.as_int()) {
            (Some(lo), Some(hi)) if self.unroll || lo >= hi => return Ok(Turns::Values(lo..hi)),
            _ if self.unroll => return not_symbolic("a loop whose bounds are not constant", body),
            _ => {}
        }
        let var = self.cx.fresh.name(&name.node);
        self.cx.ranges.bind(&var, &lo, &hi);
        Ok(Turns::Loop(Gen { var, lo, hi }))
    }

    fn open(&mut self, f: &mut Frame<'a>, name: &Ident, l: &Gen) {
        f.env.push((name.node.clone(), Sym::Int(Expr::Var(l.var.clone()))));
        self.loops += 1;
    }

    fn close(&mut self, l: Gen, body: Vec<Node>) -> Vec<Node> {
        self.loops -= 1;
        if body.is_empty() { body } else { vec![Node::Loop(l, body)] }
    }

    fn generate(&mut self, f: &mut Frame<'a>, at: &ActiveRanks, gens: &'a Gens) -> Res<Option<ActiveRanks>> {
        let mut inner = at.clone();
        for (var, range) in &gens.vars {
            let (lo, hi) = (self.cx.eval.int(&range.lo, &f.env)?, self.cx.eval.int(&range.hi, &f.env)?);
            let name = self.cx.fresh.name(&var.node);
            let (generator, cond) = self.cx.generator(&name, &lo, &hi, range.lo.span.to(range.hi.span))?;
            f.env.push((var.node.clone(), Sym::Int(Expr::Var(name))));
            inner.each.push(generator);
            inner.guard = cond.into_iter().fold(inner.guard, Expr::and);
        }
        if let Some(c) = &gens.cond {
            inner.guard = inner.guard.and(self.cx.eval.int(c, &f.env)?);
        }
        Ok(Some(inner))
    }

    fn keeps(&self, body: &Vec<Node>) -> bool {
        matches!(&body[..], [] | [Node::Round(_)])
    }

    fn bindings(
        &mut self,
        f: &Frame<'a>,
        at: &ActiveRanks,
        gens: &'a Gens,
        body: Span,
    ) -> Res<Vec<(Vec<i64>, ActiveRanks)>> {
        let bound = |values: &[i64]| {
            let values = values.iter().map(|v| Sym::Int(Expr::Int(*v)));
            let names = gens.vars.iter().map(|v| v.0.node.clone());
            f.env.iter().cloned().chain(names.zip(values)).collect::<Bindings>()
        };
        let mut lists = vec![vec![]];
        for (_, range) in &gens.vars {
            let mut next = vec![];
            for list in lists {
                let env = bound(&list);
                let (lo, hi) = (self.cx.eval.int(&range.lo, &env)?, self.cx.eval.int(&range.hi, &env)?);
                let (Some(lo), Some(hi)) = (lo.as_int(), hi.as_int()) else {
                    return not_symbolic(
                        "an `each` of several rounds with bounds that are not constant",
                        body,
                    );
                };
                next.extend((lo..hi).map(|v| list.iter().copied().chain([v]).collect()));
            }
            lists = next;
        }
        let mut out = vec![];
        for list in lists {
            let mut at = at.clone();
            if let Some(c) = &gens.cond {
                at.guard = at.guard.and(self.cx.eval.int(c, &bound(&list))?);
            }
            out.push((list, at));
        }
        Ok(out)
    }

    fn bind_all(&mut self, f: &mut Frame<'a>, gens: &'a Gens, values: Vec<i64>) {
        let names = gens.vars.iter().map(|v| v.0.node.clone());
        f.env.extend(names.zip(values.into_iter().map(|v| Sym::Int(Expr::Int(v)))));
    }

    fn split(&mut self, f: &Frame<'a>, at: &ActiveRanks, cond: &ast::Expr) -> Res<Split<ActiveRanks>> {
        let with = |guard: Expr| ActiveRanks { guard: at.guard.clone().and(guard), each: at.each.clone() };
        Ok(match self.cx.eval.int(cond, &f.env)? {
            Expr::Int(0) => Split::Else,
            Expr::Int(_) => Split::Then,
            cond => Split::Both(with(cond.clone()), with(Expr::un(UnOp::Not, cond))),
        })
    }

    fn peer(&mut self, f: &Frame<'a>, (): (), e: &ast::Expr) -> Res<Vec<Expr>> {
        let v = self.cx.eval.eval(e, &f.env)?;
        coordinates(v, f.group.sizes.len(), e.span)
    }

    fn decl(&self, f: &Frame<'a>) -> &'a AlgorithmDecl {
        f.decl
    }

    fn buffers<'f>(&self, f: &'f Frame<'a>) -> &'f [BufferOf<'a, Self>] {
        &f.buffers
    }

    fn given(&self, f: &Frame<'a>) -> usize {
        f.given
    }

    fn whole(&self, region: &Region) -> Cut {
        Cut { region: region.clone(), selectors: vec![] }
    }

    fn all(&self, count: &Expr) -> Chunks {
        Chunks { index: Expr::Int(0), len: count.clone(), gens: vec![], cond: None }
    }

    fn chunks(
        &mut self,
        f: &Frame<'a>,
        (): (),
        chosen: ChunkSelection<'_>,
        count: &Expr,
        span: Span,
    ) -> Res<Chunks> {
        let (mut env, mut gens, mut cond) = (f.env.clone(), vec![], None);
        for (var, range) in chosen.gens.iter().flat_map(|g| &g.vars) {
            let (lo, hi) = (self.cx.eval.int(&range.lo, &env)?, self.cx.eval.int(&range.hi, &env)?);
            let name = self.cx.fresh.name(&var.node);
            let (generator, inside) = self.cx.generator(&name, &lo, &hi, span)?;
            env.push((var.node.clone(), Sym::Int(Expr::Var(name))));
            gens.push(generator);
            cond = both(cond, inside);
        }
        if let Some(c) = chosen.gens.and_then(|g| g.cond.as_ref()) {
            cond = both(cond, Some(self.cx.eval.int(c, &env)?).filter(|c| !c.is_true()));
        }
        let index = self.cx.eval.int(chosen.index, &env)?;
        let len = match chosen.len {
            Some(l) => self.cx.eval.int(l, &env)?,
            None => Expr::Int(1),
        };
        if let Some(checked) = chosen.checked {
            let checked = checked();
            let end = index.clone() + len.clone();
            let inside = match (self.cx.ranges.interval(&index), self.cx.ranges.interval(&end)) {
                (Some((lo, _)), Some((_, hi))) => {
                    lo >= 0 && self.cx.ranges.interval(count).is_some_and(|(n, _)| hi <= n)
                }
                _ => false,
            };
            if !inside {
                let (index, len, count) = (index.clone(), len.clone(), count.clone());
                let (gens, cond) = (gens.clone(), cond.clone());
                self.bounds.push(Bound { gens, cond, index, len, count, checked });
            }
        }
        Ok(Chunks { index, len, gens, cond })
    }

    fn cut(&mut self, cut: Cut, chunks: Chunks, count: Expr, last: bool, span: Span) -> Res<Cut> {
        let Cut { region, mut selectors } = cut;
        let Chunks { mut index, len, mut gens, mut cond } = chunks;
        let region = if last {
            region.part(index, len, count, &mut self.cx, span)?
        } else {
            // Chunk by chunk, because a further selector applies to each of them.
            if len.as_int() != Some(1) {
                let var = self.cx.fresh.name("c");
                let (generator, inside) = self.cx.generator(&var, &Expr::Int(0), &len, span)?;
                index = index + Expr::Var(var);
                gens.push(generator);
                cond = both(cond, inside);
            }
            region.part(index, Expr::Int(1), count, &mut self.cx, span)?
        };
        selectors.push((gens, cond));
        Ok(Cut { region, selectors })
    }

    fn selected(&self, cut: Cut) -> Region {
        let Cut { mut region, selectors } = cut;
        for (gens, cond) in selectors.into_iter().rev() {
            region.gens.splice(0..0, gens);
            region.guard = both(region.guard, cond);
        }
        region
    }

    fn set_option(options: &mut Options, name: &Ident, value: OptionValue) -> Res<()> {
        options.set(&name.node, &value, true, name.span).map_err(IntoStop::into_stop)
    }

    fn views(&self) {}

    fn view(
        &mut self,
        f: &Frame<'a>,
        (): (),
        a: &'a Apply,
        callee: &'a AlgorithmDecl,
        (): &mut (),
    ) -> Res<Group> {
        match &a.view.kind {
            ViewKind::Axes(names) => axes_view(names, callee, f, a.view.span),
            ViewKind::Map(vars, to) => map_view(vars, to, callee, f, self, a.view.span),
        }
    }

    fn groups(&mut self, f: &Frame<'a>, at: &ActiveRanks, applied: &Applied<'a>) -> Res<Vec<Node>> {
        // Every transfer of the applied algorithm carries the conditions of its regions.
        let outer = self.bounds.len();
        let done = self.applied(f, at, applied);
        self.bounds.truncate(outer);
        done
    }

    fn sizes(&self, group: &Rc<Group>) -> Vec<i64> {
        group.sizes.clone()
    }

    fn admit(&self, s: &Start<'a, Self>, _: &[(String, Sym)]) -> Res<()> {
        if self.depth > 64 {
            let name = &self.cx.lib.algorithm(s.alg).name.node;
            return Err(Diagnostic::error("E023", format!("`{name}` applies itself without end"))
                .primary(s.span, "here")
                .into_stop());
        }
        Ok(())
    }

    fn enter(
        &mut self,
        s: Start<'a, Self>,
        _: Vec<(String, Sym)>,
        names: Vec<(&'a str, Sym)>,
        buffers: Vec<BufferOf<'a, Self>>,
    ) -> Frame<'a> {
        let decl = self.cx.lib.algorithm(s.alg);
        let mut env: Bindings = names.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
        let own = s.group.own.iter().map(|e| Sym::Int(e.clone()));
        env.extend(decl.axes.iter().map(|a| a.coord.node.clone()).zip(own));
        self.depth += 1;
        Frame { env, group: s.group, decl, given: buffers.len(), buffers }
    }

    fn leave(&mut self, _: Frame<'a>, _: &Vec<Node>) {
        self.depth -= 1;
    }
}

/// Returns the coordinates of a rank in a group of `axes` axes.
fn coordinates(rank: Sym, axes: usize, span: Span) -> Res<Vec<Expr>> {
    let coords = match rank {
        Sym::Int(e) => vec![e],
        Sym::Rank(c) => c,
        Sym::Alg(a) => {
            return Err(Diagnostic::error("E005", format!("`{}` has no value here", a.name))
                .primary(span, "unknown name")
                .into_stop());
        }
    };
    if coords.len() != axes {
        let title = format!("a rank has {axes} coordinates here, and {} are given", coords.len());
        return Err(Diagnostic::error("E020", title).primary(span, "this rank").into_stop());
    }
    Ok(coords)
}

impl<'a> Builder<'a> {
    /// Returns the rounds of an `apply` on every group.
    fn applied(&mut self, f: &Frame<'a>, at: &ActiveRanks, applied: &Applied<'a>) -> Res<Vec<Node>> {
        let said = apply_side(self, f, (), applied, &mut ())?;
        let root = match (said.root, &applied.apply.root) {
            (Some(v), Some(r)) => Some(coordinates(v, said.view.sizes.len(), r.rank.span)?),
            _ => None,
        };
        let mut at = at.clone();
        if let Some(m) = &said.view.member {
            at.guard = at.guard.and(m.clone());
        }
        self.algorithm(Start {
            coll: applied.coll,
            alg: applied.alg,
            args: said.args,
            options: said.options,
            root,
            group: Rc::new(said.view),
            regions: said.regions,
            at,
            span: applied.span,
            applied: true,
        })
    }

    /// Returns the rounds of a use of an algorithm.
    pub(in crate::expand) fn algorithm(&mut self, s: Start<'a, Self>) -> Res<Vec<Node>> {
        if s.options.instances.max(s.options.cores) > 1 || s.options.pipeline > 1 {
            return self.in_lanes(s);
        }
        run(self, s)
    }
}
