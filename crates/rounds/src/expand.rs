//! Expansion: turns the text of an algorithm into its rounds on concrete ranks.
//!
//! This module owns statements and slices. `group` runs a use of an algorithm (the call itself and
//! every `apply`), and `meaning` checks whether the rounds satisfy a contract.
//!
//! All sizes are whole numbers of atoms, the units into which buffers are cut. If a cut would fall
//! inside an atom, the expansion stops and starts again with finer atoms. At the end it divides all
//! boundaries by their greatest common divisor, so the result has as few atoms as possible.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kbc_diag::{Diagnostic, Diagnostics, Span};

use crate::ast::{Block, Expr, Gens, Place, Range, Slice, Stmt, StmtKind};
use crate::eval::{Evaluator, Fault, Value};
use crate::frame::{Frame, Here, Named, resolve};
use crate::library::Library;
use crate::ratio::gcd;
use crate::region::{Cut, Interval, Region, Run, cut, fraction};
use crate::rounds::{Axis, Buffer, Call, Lane, Limits, Mark, Rounds, Transfer, Use, coordinates, rank_text};

/// Returns the rounds of a call.
///
/// # Errors
/// Returns the first error in the order of the text: E005 to E031 for the algorithm, or E040 if the
/// expansion exceeds `limits`.
pub fn expand(lib: &Library, call: &Call, limits: &Limits) -> Result<Rounds, Diagnostics> {
    // One evaluator for all attempts, because the results of functions do not depend on the
    // size of atoms.
    let evaluator = Evaluator::new(lib);
    let mut finer = 1u64;
    loop {
        let mut x = Expander::new(lib, &evaluator, *limits, finer);
        match x.call(call) {
            Ok(()) => return Ok(x.finish(lib, call)),
            Err(Stop::Fault(d)) => return Err(Diagnostics::from(*d)),
            Err(Stop::Finer(factor)) => finer = finer.saturating_mul(factor.max(2)),
        }
    }
}

/// Reasons to stop an expansion.
pub(crate) enum Stop {
    Fault(Fault),
    /// Start again with atoms that are finer by this factor.
    Finer(u64),
}

impl From<Fault> for Stop {
    fn from(d: Fault) -> Self {
        Stop::Fault(d)
    }
}

impl From<Diagnostic> for Stop {
    fn from(d: Diagnostic) -> Self {
        Stop::Fault(Box::new(d))
    }
}

impl From<Cut> for Stop {
    fn from(c: Cut) -> Self {
        let Cut::Finer(f) = c;
        Stop::Finer(f)
    }
}

pub(crate) type Step<T> = Result<T, Stop>;

pub(crate) struct Expander<'a> {
    pub lib: &'a Library,
    pub evaluator: &'a Evaluator<'a>,
    pub limits: Limits,
    /// Number of atoms per block.
    pub finer: u64,
    pub buffers: Vec<Buffer>,
    pub uses: Vec<Use>,
    pub marks: Vec<Mark>,
    /// Counts scratch statements. It restarts for each of several groups side by side, so that
    /// these share scratch.
    pub ordinal: u32,
    rounds: Vec<Vec<Transfer>>,
    lanes: Vec<Lane>,
    lane_ids: BTreeMap<Lane, u32>,
    lane: u32,
    scratch: BTreeMap<(u32, Span, u32), u32>,
    transfers: usize,
    steps: u64,
}

impl<'a> Expander<'a> {
    fn new(lib: &'a Library, evaluator: &'a Evaluator<'a>, limits: Limits, finer: u64) -> Self {
        let root = Lane { parent: 0, span: Span::NONE, index: 0 };
        Expander {
            lib,
            evaluator,
            limits,
            finer,
            buffers: vec![],
            uses: vec![],
            marks: vec![],
            ordinal: 0,
            rounds: vec![],
            lanes: vec![root],
            lane_ids: BTreeMap::from([(root, 0)]),
            lane: 0,
            scratch: BTreeMap::new(),
            transfers: 0,
            steps: 0,
        }
    }

    fn finish(self, lib: &Library, call: &Call) -> Rounds {
        let decl = lib.algorithm(call.alg);
        let shape = self.uses.first().map(|u| u.shape.clone()).unwrap_or_default();
        let axes =
            decl.axes.iter().zip(shape).map(|(a, size)| Axis { name: a.coord.node.clone(), size }).collect();
        let mut marks = self.marks;
        marks.sort_by_key(|m| m.round);
        let mut out = Rounds {
            axes,
            atoms: self.buffers.first().map_or(1, |b| b.atoms),
            buffers: self.buffers,
            rounds: self.rounds,
            uses: self.uses,
            marks,
            lanes: self.lanes,
        };
        coarsen(&mut out, lib);
        out
    }

    /// Runs a block on these ranks, starting with round `t`. Returns the round after its last one.
    pub fn block(&mut self, f: &mut Frame<'a>, b: &'a Block, active: &[usize], t: u32) -> Step<u32> {
        let (mark, buffers) = (f.names.len(), f.buffers.len());
        let mut end = t;
        for (i, s) in b.stmts.iter().enumerate() {
            end = if b.together {
                let outer = self.enter_lane(b.span, i);
                let one = self.stmt(f, s, active, t)?;
                self.lane = outer;
                end.max(one)
            } else {
                self.stmt(f, s, active, end)?
            };
        }
        f.pop(mark, active);
        f.buffers.truncate(buffers);
        Ok(end)
    }

    fn enter_lane(&mut self, span: Span, index: usize) -> u32 {
        let lane = Lane { parent: self.lane, span, index: index as u32 };
        let next = self.lanes.len() as u32;
        let id = *self.lane_ids.entry(lane).or_insert(next);
        if id == next {
            self.lanes.push(lane);
        }
        std::mem::replace(&mut self.lane, id)
    }

    fn stmt(&mut self, f: &mut Frame<'a>, s: &'a Stmt, active: &[usize], t: u32) -> Step<u32> {
        self.steps += active.len().max(1) as u64;
        if self.steps > self.limits.steps {
            return Err(too_large(s.span, format!("more than {} steps", self.limits.steps)));
        }
        match &s.kind {
            StmtKind::Error => Ok(t),
            StmtKind::Let(name, e) => {
                for &m in active {
                    let v = self.on(f, m, t, |x, h| x.evaluator.eval(e, h))?;
                    f.values[m].push(v);
                }
                f.names.push(&name.node);
                Ok(t)
            }
            StmtKind::Scratch(name, e) => {
                self.scratch(f, &name.node, e, s.span, active, t)?;
                Ok(t)
            }
            StmtKind::Move { get, here, there, reduce } => {
                for &m in active {
                    self.transfer(f, m, (*get, *reduce), here, there, s.span, t)?;
                }
                // A round counts even if no rank takes part in it.
                self.rounds.resize(self.rounds.len().max(t as usize + 1), vec![]);
                Ok(t + 1)
            }
            StmtKind::For(name, range, b) => self.repeat(f, &name.node, range, b, active, t),
            StmtKind::Each(gens, b) => self.each(f, gens, b, s.span, active, t),
            StmtKind::If(c, a, b) => {
                let (mut yes, mut no) = (vec![], vec![]);
                for &m in active {
                    let holds = self.on(f, m, t, |x, h| x.evaluator.bool(c, h))?;
                    if holds { yes.push(m) } else { no.push(m) }
                }
                let one = self.block(f, a, &yes, t)?;
                let other = match b {
                    Some(b) => self.block(f, b, &no, t)?,
                    None => t,
                };
                Ok(one.max(other))
            }
            StmtKind::Block(b) => self.block(f, b, active, t),
            StmtKind::Apply(a) => self.apply(f, a, s.span, active, t),
        }
    }

    fn repeat(
        &mut self,
        f: &mut Frame<'a>,
        name: &'a str,
        range: &'a Range,
        b: &'a Block,
        active: &[usize],
        t: u32,
    ) -> Step<u32> {
        let Some(&first) = active.first() else { return Ok(t) };
        let mut bounds = (0, 0);
        for &m in active {
            let lo = self.on(f, m, t, |x, h| x.evaluator.int(&range.lo, h))?;
            let hi = self.on(f, m, t, |x, h| x.evaluator.int(&range.hi, h))?;
            if m == first {
                bounds = (lo, hi);
            } else if bounds != (lo, hi) {
                let d = Diagnostic::error("E025", "the bounds of `for` differ from rank to rank")
                    .primary(range.lo.span.to(range.hi.span), format!(
                        "{}..{} on {}, {lo}..{hi} on {}",
                        bounds.0, bounds.1, f.name_of(first), f.name_of(m)
                    ))
                    .help("rounds are common to all ranks: loop over the longest range and guard with `if`, or use `each`");
                return Err(self.located(f, m, t, Box::new(d)));
            }
        }
        // Checked before the loop runs, so that a bound that is far too large costs no time.
        let turns = i128::from(bounds.1) - i128::from(bounds.0);
        if turns.saturating_mul(active.len() as i128) > i128::from(self.limits.steps) {
            let what =
                format!("{turns} turns on {} ranks, more than {} steps", active.len(), self.limits.steps);
            return Err(too_large(range.hi.span, what));
        }
        let mark = f.names.len();
        let mut end = t;
        for i in bounds.0..bounds.1 {
            self.steps += 1;
            if self.steps > self.limits.steps {
                return Err(too_large(range.hi.span, format!("more than {} steps", self.limits.steps)));
            }
            f.names.push(name);
            active.iter().for_each(|&m| f.values[m].push(Value::Int(i)));
            end = self.block(f, b, active, end)?;
            f.pop(mark, active);
        }
        Ok(end)
    }

    fn each(
        &mut self,
        f: &mut Frame<'a>,
        gens: &'a Gens,
        b: &'a Block,
        span: Span,
        active: &[usize],
        t: u32,
    ) -> Step<u32> {
        let mut lists: Vec<(usize, Vec<Vec<Value>>)> = vec![];
        for &m in active {
            // The lists of all ranks are in memory at the same time.
            let limit = self.limits.transfers / active.len();
            lists.push((m, self.on(f, m, t, |x, h| x.evaluator.bindings(gens, h, limit))?));
        }
        let longest = lists.iter().map(|l| l.1.len()).max().unwrap_or_default();
        let mark = f.names.len();
        let mut end = t;
        for j in 0..longest {
            let there: Vec<usize> = lists.iter().filter(|l| l.1.len() > j).map(|l| l.0).collect();
            f.names.extend(gens.vars.iter().map(|v| v.0.node.as_str()));
            for (m, list) in &lists {
                if let Some(values) = list.get(j) {
                    f.values[*m].extend(values.iter().cloned());
                }
            }
            let outer = self.enter_lane(span, j);
            end = end.max(self.block(f, b, &there, t)?);
            self.lane = outer;
            f.pop(mark, &there);
        }
        Ok(end)
    }

    fn scratch(
        &mut self,
        f: &mut Frame<'a>,
        name: &'a str,
        e: &'a Expr,
        span: Span,
        active: &[usize],
        t: u32,
    ) -> Step<()> {
        let Some(&first) = active.first() else { return Ok(()) };
        let mut count = 0;
        for &m in active {
            let k = self.on(f, m, t, |x, h| x.evaluator.int(e, h))?;
            if m == first {
                count = k;
            }
            if k != count || k < 0 {
                let d =
                    Diagnostic::error("E026", "scratch must have the same number of chunks on every rank")
                        .primary(e.span, format!("{count} on {}, {k} on {}", f.name_of(first), f.name_of(m)))
                        .help("a peer writes into it: use the largest, and leave the rest unused");
                return Err(self.located(f, m, t, Box::new(d)));
            }
        }
        let Some(base) = f.buffers.first() else { return Ok(()) };
        let whole = Interval { start: 0, len: base.region.len };
        let chunk = cut(whole, 0, base.chunks as u64)?;
        let len = u64::from(chunk.len).saturating_mul(count as u64);
        if len > self.limits.atoms {
            return Err(too_large(span, format!("scratch of {len} atoms, more than {}", self.limits.atoms)));
        }
        let key = (self.ordinal, span, len as u32);
        self.ordinal += 1;
        let next = self.buffers.len() as u32;
        let id = *self.scratch.entry(key).or_insert(next);
        if id == next {
            self.buffers.push(Buffer { name: name.to_owned(), atoms: len as u32, scratch: Some(span) });
        }
        f.buffers.push(Named { name, region: Region::whole(id, len as u32), chunks: count });
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one statement on one rank")]
    fn transfer(
        &mut self,
        f: &Frame<'a>,
        m: usize,
        (get, reduce): (bool, bool),
        here: &Slice,
        there: &Place,
        span: Span,
        t: u32,
    ) -> Step<()> {
        let near = self.slice(f, m, here, t)?;
        let (far, peer) = match there {
            Place::Rank(e) => (near.clone(), Some(e)),
            Place::Slice(s, e) => (self.slice(f, m, s, t)?, e.as_ref()),
        };
        let (q, way) = match peer {
            Some(e) => self.peer(f, m, e, t)?,
            None => (m, 0),
        };
        if near.len != far.len {
            let total = f.buffers.first().map_or(1, |b| b.region.len);
            let (a, b) = (fraction(near.len, total), fraction(far.len, total));
            let d = Diagnostic::error("E026", "the two sides of a transfer differ in size")
                .primary(span, format!("{a} of the whole here, {b} there"))
                .help("select as much on both sides");
            return Err(self.located(f, m, t, Box::new(d)));
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
            way,
            distance: ((src + p - dst) % p) as u32,
            span,
            site: f.site,
            lane: self.lane,
        });
        Ok(())
    }

    /// Returns the member that a rank expression denotes, and the sign of the step as written.
    fn peer(&self, f: &Frame<'a>, m: usize, e: &Expr, t: u32) -> Step<(usize, i8)> {
        let v = self.on(f, m, t, |x, h| x.evaluator.eval(e, h))?;
        let (q, way) = resolve(f, &v, e.span, Some(m)).map_err(|d| self.located(f, m, t, d))?;
        Ok((q, way))
    }

    /// Evaluates something on one rank; an error names the rank.
    pub fn on<T>(
        &self,
        f: &Frame<'a>,
        m: usize,
        t: u32,
        eval: impl FnOnce(&Self, &Here<'_, 'a>) -> Result<T, Fault>,
    ) -> Step<T> {
        eval(self, &f.here(m)).map_err(|d| self.located(f, m, t, d))
    }

    /// Adds the rank, the round and the enclosing `apply` statements to a message.
    pub fn located(&self, f: &Frame<'a>, m: usize, t: u32, mut d: Fault) -> Stop {
        d.notes.push(format!("on {}, in round {}, of `{}`", f.name_of(m), t + 1, f.decl.name.node));
        let mut at = f.site;
        while at != 0 {
            let Some(u) = self.uses.get(at as usize) else { break };
            *d = d.clone().secondary(u.span, "in this apply");
            at = u.parent;
        }
        if f.site != 0
            && let Some(top) = self.uses.first()
        {
            let names: Vec<&str> =
                self.lib.algorithm(top.alg).axes.iter().map(|a| a.coord.node.as_str()).collect();
            let whole = rank_text(&names, &coordinates(&top.shape, i64::from(f.members[m])));
            d.notes.push(format!("that is rank {whole} of the whole call"));
        }
        Stop::Fault(d)
    }
}

/// Makes E040 for an expansion that would exceed a limit.
pub(crate) fn too_large(span: Span, what: String) -> Stop {
    Stop::from(
        Diagnostic::error("E040", format!("too large to expand: {what}"))
            .primary(span, "reached here")
            .note("an expansion writes out every rank and every round")
            .help("use fewer ranks or larger chunks"),
    )
}

/// Divides all boundaries by their greatest common divisor, which gives the least number of atoms
/// that every region allows.
fn coarsen(r: &mut Rounds, lib: &Library) {
    let mut g = r.buffers.iter().fold(0, |g, b| gcd(g, u64::from(b.atoms)));
    for (_, t) in r.transfers() {
        if g <= 1 {
            return;
        }
        g = t.to.grain(t.from.grain(g));
    }
    for u in &r.uses {
        let blocks = crate::promise::block_shape(lib.collective(u.coll));
        for (region, blocks) in u.regions.iter().zip(blocks) {
            g = region.grain(g);
            // Contracts refer to blocks, so block boundaries count too.
            if blocks {
                g = gcd(g, u64::from(region.len) / (u.members.len() as u64).max(1));
            }
        }
    }
    let factor = u32::try_from(g).unwrap_or(1);
    if factor <= 1 {
        return;
    }
    r.atoms /= factor;
    r.buffers.iter_mut().for_each(|b| b.atoms /= factor);
    // Transfers share regions, and must still share them afterwards.
    let mut seen: HashMap<(u32, Arc<[Run]>), Region> = HashMap::new();
    let mut shrink = |x: &mut Region| {
        let key = (x.buffer, Arc::from(x.runs()));
        *x = seen.entry(key).or_insert_with(|| x.coarser(factor)).clone();
    };
    for t in r.rounds.iter_mut().flatten() {
        shrink(&mut t.from);
        shrink(&mut t.to);
    }
    r.uses.iter_mut().flat_map(|u| &mut u.regions).for_each(shrink);
}
