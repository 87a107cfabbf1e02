//! Synchronous execution: the domain of the interpreter in which all ranks execute every statement
//! in step, on concrete values.
//!
//! Every rank has its own names. What a statement has made is the round after its last one: rounds
//! are common to all ranks, so statements side by side end with the longest of them.

use std::convert::Infallible;
use std::rc::Rc;

use kbc_diag::{Diagnostic, Span};

use crate::ast::{AlgorithmDecl, Apply, Expr, Gens, Ident, Range};
use crate::eval::ConcreteEvaluator;
use crate::expand::{Expander, Step, Stop, too_large};
use crate::few::Few;
use crate::frame::{ActiveRanks, Frame, Members, resolve};
use crate::interp::statements::ends;
use crate::interp::{
    Applied, BufferOf, ChunkSelection, Domain, Ends, NamedBuffer, Split, Start, TransferStatement, Turns,
};
use crate::library::Library;
use crate::options::OptionValue;
use crate::region::{Interval, Region, cut, fraction};
use crate::rounds::{Mark, Transfer, Use, coordinates, linear};
use crate::scope::{Fault, Scope, Value};
use crate::view::{Group, ViewCache};

impl<'a> Domain<'a> for Expander<'a> {
    type Values = crate::eval::Integers;
    type Stop = Stop;
    type Frame = Frame<'a>;
    type Active = ActiveRanks;
    /// A member of the frame, and the round.
    type Viewpoint = (usize, u32);
    /// Numbers of names and of buffers.
    type Mark = (usize, usize);
    /// The round after the last one.
    type Done = u32;
    type Loop = Infallible;
    /// For each member, its values.
    type Bound = Vec<(usize, Vec<Value>)>;
    type Region = Region;
    type Cut = (Region, Few<Interval>);
    type Chunks = Few<i64>;
    /// The member, and the sign of the step as written.
    type Peer = (usize, i8);
    type View = Rc<Group>;
    type Views = ViewCache;
    type Group = Members;
    type Options = Vec<(String, OptionValue)>;

    fn library(&self) -> &'a Library {
        self.lib
    }

    fn evaluator(&self) -> &ConcreteEvaluator<'a> {
        self.evaluator
    }

    fn on<T>(
        &self,
        f: &Frame<'a>,
        (m, t): (usize, u32),
        eval: impl FnOnce(&ConcreteEvaluator<'a>, &dyn Scope) -> Result<T, Fault>,
    ) -> Step<T> {
        eval(self.evaluator, &f.here(m)).map_err(|d| self.at(f, m, t, d))
    }

    fn located(&self, f: &Frame<'a>, (m, t): (usize, u32), d: Fault) -> Stop {
        self.at(f, m, t, d)
    }

    fn first(&self, at: &ActiveRanks) -> Option<(usize, u32)> {
        at.active.first().map(|m| (*m, at.round))
    }

    fn ranks(&self, at: &ActiveRanks) -> u64 {
        at.active.len() as u64
    }

    fn step(&mut self, count: u64, span: Span) -> Step<()> {
        self.steps += count;
        if self.steps > self.limits.steps {
            return Err(too_large(span, format!("more than {} steps", self.limits.steps)));
        }
        Ok(())
    }

    fn nothing(&self, at: &ActiveRanks) -> u32 {
        at.round
    }

    fn after(&self, at: &ActiveRanks, done: &u32) -> ActiveRanks {
        ActiveRanks { active: at.active.clone(), round: *done }
    }

    fn append(&self, done: &mut u32, next: u32) {
        *done = next;
    }

    fn side_by_side(&mut self, parts: Vec<u32>, at: &ActiveRanks, _: Span) -> Step<u32> {
        Ok(parts.into_iter().fold(at.round, u32::max))
    }

    fn branches(&mut self, parts: Vec<u32>, at: &ActiveRanks, span: Span) -> Step<u32> {
        self.side_by_side(parts, at, span)
    }

    fn beside<T>(&mut self, span: Span, index: usize, part: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.enter_lane(span, index);
        let done = part(self);
        self.lane = outer;
        done
    }

    fn maybe(&self, outcome: Step<u32>, _: Span) -> Step<u32> {
        outcome
    }

    fn mark(&self, f: &Frame<'a>) -> (usize, usize) {
        (f.names.len(), f.buffers.len())
    }

    fn release(&self, f: &mut Frame<'a>, (names, buffers): (usize, usize), at: &ActiveRanks) {
        f.pop(names, &at.active);
        f.buffers.truncate(buffers);
    }

    fn define(&mut self, f: &mut Frame<'a>, at: &ActiveRanks, name: &'a str, e: &Expr) -> Step<()> {
        for &m in &*at.active {
            let v = self.on(f, (m, at.round), |x, h| x.eval(e, h))?;
            f.values[m].push(v);
        }
        f.names.push(name);
        Ok(())
    }

    fn bind(&mut self, f: &mut Frame<'a>, at: &ActiveRanks, name: &'a str, value: i64) {
        f.names.push(name);
        at.active.iter().for_each(|&m| f.values[m].push(Value::Int(value)));
    }

    fn scratch(
        &mut self,
        f: &mut Frame<'a>,
        at: &ActiveRanks,
        name: &'a str,
        e: &Expr,
        span: Span,
    ) -> Step<()> {
        let Some(&first) = at.active.first() else { return Ok(()) };
        let mut count = 0;
        for &m in &*at.active {
            let k = self.on(f, (m, at.round), |x, h| x.int(e, h))?;
            if m == first {
                count = k;
            }
            if k != count || k < 0 {
                let d =
                    Diagnostic::error("E026", "scratch must have the same number of chunks on every rank")
                        .primary(e.span, format!("{count} on {}, {k} on {}", f.name_of(first), f.name_of(m)))
                        .help("other ranks write into scratch, so its size must be the same everywhere: declare the largest size, and leave the rest unused");
                return Err(self.at(f, m, at.round, Box::new(d)));
            }
        }
        let Some(base) = f.buffers.first() else { return Ok(()) };
        let whole = Interval { start: 0, len: base.region.len };
        let chunk = cut(whole, 0, base.chunks as u64)?;
        let len = u64::from(chunk.len).saturating_mul(count as u64);
        if len > self.limits.atoms {
            return Err(too_large(span, format!("scratch of {len} atoms, more than {}", self.limits.atoms)));
        }
        let id = self.scratch_buffer(name, self.ordinal, span, len as u32);
        self.ordinal += 1;
        f.buffers.push(NamedBuffer { name, region: Region::whole(id, len as u32), chunks: count });
        Ok(())
    }

    fn transfer(&mut self, f: &Frame<'a>, at: &ActiveRanks, m: TransferStatement<'a>) -> Step<u32> {
        for &me in &*at.active {
            self.transfer_of(f, me, m, at.round)?;
        }
        // A round counts even if no rank takes part in it.
        self.rounds.resize(self.rounds.len().max(at.round as usize + 1), vec![]);
        Ok(at.round + 1)
    }

    fn turns(
        &mut self,
        f: &Frame<'a>,
        at: &ActiveRanks,
        _: &Ident,
        range: &Range,
        _: Span,
    ) -> Step<Turns<Infallible>> {
        let Some(&first) = at.active.first() else { return Ok(Turns::Values(0..0)) };
        let mut bounds = (0, 0);
        for &m in &*at.active {
            let here = (m, at.round);
            let lo = self.on(f, here, |x, h| x.int(&range.lo, h))?;
            let hi = self.on(f, here, |x, h| x.int(&range.hi, h))?;
            if m == first {
                bounds = (lo, hi);
            } else if bounds != (lo, hi) {
                let d = Diagnostic::error("E025", "the bounds of `for` differ from rank to rank")
                    .primary(range.lo.span.to(range.hi.span), format!(
                        "{}..{} on {}, {lo}..{hi} on {}",
                        bounds.0, bounds.1, f.name_of(first), f.name_of(m)
                    ))
                    .help("all ranks take part in the same rounds: loop over the longest range and guard the body with `if`, or use `each`");
                return Err(self.at(f, m, at.round, Box::new(d)));
            }
        }
        // Checked before the loop runs, so that a bound that is far too large costs no time.
        let turns = i128::from(bounds.1) - i128::from(bounds.0);
        let ranks = at.active.len();
        if turns.saturating_mul(ranks as i128) > i128::from(self.limits.steps) {
            let what = format!(
                "{turns} iterations on {ranks} ranks, which is more than {} steps",
                self.limits.steps
            );
            return Err(too_large(range.hi.span, what));
        }
        Ok(Turns::Values(bounds.0..bounds.1))
    }

    fn open(&mut self, _: &mut Frame<'a>, _: &Ident, l: &Infallible) {
        match *l {}
    }

    fn close(&mut self, l: Infallible, _: u32) -> u32 {
        match l {}
    }

    fn generate(&mut self, _: &mut Frame<'a>, _: &ActiveRanks, _: &'a Gens) -> Step<Option<ActiveRanks>> {
        Ok(None)
    }

    fn keeps(&self, _: &u32) -> bool {
        false
    }

    fn bindings(
        &mut self,
        f: &Frame<'a>,
        at: &ActiveRanks,
        gens: &'a Gens,
        _: Span,
    ) -> Step<Vec<(Self::Bound, ActiveRanks)>> {
        let mut turns: Vec<Self::Bound> = vec![];
        for &m in &*at.active {
            // The lists of all ranks are in memory at the same time.
            let limit = self.limits.transfers / at.active.len();
            let list = self.on(f, (m, at.round), |x, h| x.bindings(gens, h, limit))?;
            for (j, values) in list.into_iter().enumerate() {
                if turns.len() == j {
                    turns.push(vec![]);
                }
                turns[j].push((m, values));
            }
        }
        let there = |bound: Self::Bound| {
            let active = bound.iter().map(|b| b.0).collect();
            (bound, ActiveRanks { active, round: at.round })
        };
        Ok(turns.into_iter().map(there).collect())
    }

    fn bind_all(&mut self, f: &mut Frame<'a>, gens: &'a Gens, values: Self::Bound) {
        f.names.extend(gens.vars.iter().map(|v| v.0.node.as_str()));
        for (m, values) in values {
            f.values[m].extend(values);
        }
    }

    fn split(&mut self, f: &Frame<'a>, at: &ActiveRanks, cond: &Expr) -> Step<Split<ActiveRanks>> {
        let (mut yes, mut no) = (vec![], vec![]);
        for &m in &*at.active {
            let holds = self.on(f, (m, at.round), |x, h| x.bool(cond, h))?;
            if holds { yes.push(m) } else { no.push(m) }
        }
        let of = |active: Vec<usize>| ActiveRanks { active: active.into(), round: at.round };
        Ok(Split::Both(of(yes), of(no)))
    }

    fn peer(&mut self, f: &Frame<'a>, here: (usize, u32), e: &Expr) -> Step<(usize, i8)> {
        let v = self.on(f, here, |x, h| x.eval(e, h))?;
        resolve(f, &v, e.span, Some(here.0)).map_err(|d| self.located(f, here, d))
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

    fn whole(&self, region: &Region) -> Self::Cut {
        (region.clone(), Few::One(Interval { start: 0, len: region.len }))
    }

    fn all(&self, count: &i64) -> Few<i64> {
        Few::Many((0..*count).collect())
    }

    fn chunks(
        &mut self,
        f: &Frame<'a>,
        here: (usize, u32),
        chosen: ChunkSelection<'_>,
        count: &i64,
        span: Span,
    ) -> Step<Few<i64>> {
        self.indices(f, here, &chosen, *count, span)
    }

    fn cut(
        &mut self,
        (region, places): Self::Cut,
        list: Few<i64>,
        count: i64,
        _: bool,
        span: Span,
    ) -> Step<Self::Cut> {
        if places.len().saturating_mul(list.len()) > self.limits.atoms as usize {
            return Err(too_large(span, format!("more than {} chunks", self.limits.atoms)));
        }
        if let ([place], [index]) = (&*places, &*list) {
            return Ok((region, Few::One(cut(*place, *index as u64, count as u64)?)));
        }
        let mut next = Vec::with_capacity(places.len() * list.len());
        for &place in &*places {
            for &index in &*list {
                next.push(cut(place, index as u64, count as u64)?);
            }
        }
        Ok((region, Few::Many(next)))
    }

    fn selected(&self, (region, places): Self::Cut) -> Region {
        region.select(&places)
    }

    fn set_option(options: &mut Self::Options, name: &Ident, value: OptionValue) -> Step<()> {
        options.push((name.node.clone(), value));
        Ok(())
    }

    fn views(&self) -> ViewCache {
        ViewCache::default()
    }

    fn view(
        &mut self,
        f: &Frame<'a>,
        (m, t): (usize, u32),
        a: &'a Apply,
        _: &'a AlgorithmDecl,
        views: &mut ViewCache,
    ) -> Step<Rc<Group>> {
        self.group(f, m, a, views, t)
    }

    fn groups(&mut self, f: &Frame<'a>, at: &ActiveRanks, applied: &Applied<'a>) -> Step<u32> {
        self.apply(f, applied, at)
    }

    fn sizes(&self, group: &Members) -> Vec<i64> {
        group.shape.clone()
    }

    fn admit(&self, s: &Start<'a, Self>, args: &[(String, Value)]) -> Step<()> {
        self.recursion_ends(s, args)
    }

    fn enter(
        &mut self,
        s: Start<'a, Self>,
        args: Vec<(String, Value)>,
        uniform: Vec<(&'a str, Value)>,
        buffers: Vec<BufferOf<'a, Self>>,
    ) -> Frame<'a> {
        let decl = self.lib.algorithm(s.alg);
        let site = self.uses.len() as u32;
        let Members { shape, ranks, parent } = s.group;
        let t = s.at.round;
        self.uses.push(Use {
            parent: parent.unwrap_or(site),
            span: s.span,
            coll: s.coll,
            alg: s.alg,
            args,
            options: s.options,
            root: s.root.map(|c| linear(&shape, &c) as u32),
            shape: shape.clone(),
            members: ranks.clone(),
            regions: buffers.iter().map(|b| b.region.clone()).collect(),
            first: t,
            end: t,
        });
        self.marks.push(Mark { round: t, site, ends: false });
        Frame {
            decl,
            site,
            given: buffers.len(),
            buffers,
            uniform,
            names: decl.axes.iter().map(|a| a.coord.node.as_str()).collect(),
            values: (0..ranks.len())
                .map(|m| coordinates(&shape, m as i64).into_iter().map(Value::Int).collect())
                .collect(),
            shape,
            members: ranks,
        }
    }

    fn leave(&mut self, f: Frame<'a>, done: &u32) {
        self.marks.push(Mark { round: *done, site: f.site, ends: true });
        self.uses[f.site as usize].end = *done;
    }
}

impl<'a> Expander<'a> {
    /// Executes a transfer statement on one rank.
    fn transfer_of(&mut self, f: &Frame<'a>, m: usize, x: TransferStatement<'a>, t: u32) -> Step<()> {
        let TransferStatement { get, reduce, span, .. } = x;
        let Ends { near, far, peer, via } = ends(self, f, (m, t), x)?;
        let (q, direction) = peer.unwrap_or((m, 0));
        if near.len != far.len {
            let total = f.buffers.first().map_or(1, |b| b.region.len);
            let (a, b) = (fraction(near.len, total), fraction(far.len, total));
            let d = Diagnostic::error("E026", "the two sides of a transfer differ in size")
                .primary(span, format!("{a} of the whole buffer here, {b} on the other side"))
                .help("select the same amount on both sides");
            return Err(self.at(f, m, t, Box::new(d)));
        }
        if near.len == 0 {
            return Ok(());
        }
        self.transfers += 1;
        if self.transfers > self.limits.transfers {
            return Err(too_large(span, format!("more than {} transfers", self.limits.transfers)));
        }
        let (src, dst, from, to) = if get { (q, m, far, near) } else { (m, q, near, far) };
        let p = f.members.len();
        let at = t as usize;
        if self.rounds.len() <= at {
            self.rounds.resize(at + 1, vec![]);
        }
        self.rounds[at].push(Transfer {
            src: f.members[src],
            dst: f.members[dst],
            from,
            to,
            reduce,
            get,
            direction,
            via: (!via.is_empty()).then(|| via.into()),
            distance: ((src + p - dst) % p) as u32,
            span,
            site: f.site,
            lane: self.lane,
        });
        Ok(())
    }
}
