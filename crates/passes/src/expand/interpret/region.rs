//! Symbolic regions: selections of chunks whose indices are expressions.
//!
//! A region is a run of chunks. For lists, it is one run for each value of some generators. Every
//! operation here keeps the order of the program text, so two regions pair chunk by chunk.

use super::sym::{Evaluator, Ranges, Res, not_symbolic};
use crate::fresh::FreshNames;
use kbc_diag::Span;
use kbc_ir::Name;
use kbc_ir::expr::{Expr, gcd};
use kbc_ir::schedule::Part;
use kbc_rounds::library::Library;

/// A generator `var in lo..hi`.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::expand) struct Gen {
    pub(in crate::expand) var: Name,
    pub(in crate::expand) lo: Expr,
    pub(in crate::expand) hi: Expr,
}

impl Gen {
    fn count(&self) -> Expr {
        self.hi.clone() - self.lo.clone()
    }

    pub(in crate::expand) fn subst(&self, f: &impl Fn(&Name) -> Option<Expr>) -> Gen {
        Gen { var: self.var.clone(), lo: self.lo.subst(f), hi: self.hi.subst(f) }
    }
}

/// A selection of chunks of one operand.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::expand) struct Region {
    pub(in crate::expand) operand: u32,
    pub(in crate::expand) gens: Vec<Gen>,
    pub(in crate::expand) path: Vec<Part>,
    /// Filter of the generators.
    pub(in crate::expand) guard: Option<Expr>,
}

impl Region {
    pub(in crate::expand) fn whole(operand: u32) -> Region {
        Region { operand, gens: vec![], path: vec![], guard: None }
    }

    pub(in crate::expand) fn subst(&self, f: &impl Fn(&Name) -> Option<Expr>) -> Region {
        Region {
            operand: self.operand,
            gens: self.gens.iter().map(|g| g.subst(f)).collect(),
            path: self
                .path
                .iter()
                .map(|p| Part { index: p.index.subst(f), len: p.len.subst(f), of: p.of.subst(f) })
                .collect(),
            guard: self.guard.as_ref().map(|g| g.subst(f)),
        }
    }

    /// Returns the number of runs.
    pub(in crate::expand) fn count(&self) -> Expr {
        self.gens.iter().fold(Expr::Int(1), |n, g| n * g.count())
    }

    /// Returns the run with that number. Works only without a filter.
    fn run(&self, index: Expr, span: Span) -> Res<Region> {
        if self.guard.is_some() {
            return not_symbolic("a part of a filtered list", span);
        }
        let mut values: Vec<(Name, Expr)> = vec![];
        let mut after = Expr::Int(1);
        for (i, g) in self.gens.iter().enumerate().rev() {
            let mut at = index.clone() / after.clone();
            if i > 0 {
                at = at.modulo(g.count());
            }
            values.push((g.var.clone(), g.lo.clone() + at));
            after = after * g.count();
        }
        let f = |n: &Name| values.iter().find(|(m, _)| m == n).map(|(_, e)| e.clone());
        let mut out = self.subst(&f);
        out.gens.clear();
        Ok(out)
    }

    /// Returns chunks `index; len of n` of the whole region. Uses a list of single chunks unless
    /// `ranges` shows that the run does not wrap.
    pub(in crate::expand) fn part(
        &self,
        index: Expr,
        len: Expr,
        n: Expr,
        cx: &mut Cx,
        span: Span,
    ) -> Res<Region> {
        let index = cx.ranges.wrap(&index, &n);
        if n.as_int() == Some(1) {
            return Ok(self.clone());
        }
        let one = len.as_int() == Some(1);
        if !one {
            if len == n && index.as_int() == Some(0) {
                return Ok(self.clone());
            }
            let end = index.clone() + len.clone();
            let inside =
                matches!((cx.ranges.interval(&end), n.as_int()), (Some((_, hi)), Some(n)) if hi <= n);
            if !(inside && self.gens.is_empty()) {
                // A list of single chunks, because it may wrap.
                let var = cx.fresh.name("j");
                let (generator, cond) = cx.generator(&var, &Expr::Int(0), &len, span)?;
                let mut out = self.part(index + Expr::Var(var), Expr::Int(1), n, cx, span)?;
                out.gens.insert(0, generator);
                out.guard = both(cond, out.guard);
                return Ok(out);
            }
        }
        if self.gens.is_empty() {
            let mut out = self.clone();
            match out.path.last_mut() {
                Some(last) if last.len.as_int() != Some(1) => {
                    // Part of a run of `last.len` chunks: replace the last digit by a finer one.
                    let run = last.len.clone();
                    last.index = last.index.clone() * n.clone() + index * run.clone();
                    last.len = run * len;
                    last.of = last.of.clone() * n;
                }
                _ => out.path.push(Part { index, len, of: n }),
            }
            return Ok(out);
        }
        let (Some(runs), Some(n)) = (self.count().as_int(), n.as_int()) else {
            return not_symbolic("a part of a list whose length is not constant", span);
        };
        // Refine to the least common grain: every run is cut into `per` pieces, and the part
        // consists of `take` of them.
        let grain = lcm(runs, n);
        let (per, take) = (grain / runs, grain / n);
        let first = index * Expr::Int(take);
        let piece = |cx: &mut Cx, at: Expr| -> Res<Region> {
            let run = self.run(at.clone() / Expr::Int(per), span)?;
            run.part(at.modulo(per), Expr::Int(1), Expr::Int(per), cx, span)
        };
        if take == 1 {
            return piece(cx, first);
        }
        let var = cx.fresh.name("j");
        let (lo, hi) = (Expr::Int(0), Expr::Int(take));
        cx.ranges.bind(&var, &lo, &hi);
        let mut out = piece(cx, first + Expr::Var(var.clone()))?;
        out.gens.insert(0, Gen { var, lo, hi });
        Ok(out)
    }

    /// Returns both regions with common generators, so that equal generator values pair equal
    /// chunks.
    pub(in crate::expand) fn pair(&self, other: &Region, cx: &mut Cx, span: Span) -> Res<(Region, Region)> {
        if self.gens == other.gens && self.guard == other.guard {
            return Ok((self.clone(), other.clone()));
        }
        if self.guard.is_some() || other.guard.is_some() {
            return not_symbolic("a filtered list against another list", span);
        }
        let (Some(a), Some(b)) = (self.count().as_int(), other.count().as_int()) else {
            let same = self.gens.len() == other.gens.len()
                && self.gens.iter().zip(&other.gens).all(|(x, y)| x.lo == y.lo && x.hi == y.hi);
            if !same {
                return not_symbolic("two lists whose lengths are not constant", span);
            }
            let f = |n: &Name| {
                other.gens.iter().position(|g| g.var == *n).map(|i| Expr::Var(self.gens[i].var.clone()))
            };
            let mut renamed = other.subst(&f);
            renamed.gens = self.gens.clone();
            return Ok((self.clone(), renamed));
        };
        let grain = lcm(a, b);
        if grain == a {
            // The number of the run in this region, then the piece of the other region.
            let mut flat = Expr::Int(0);
            for g in &self.gens {
                flat = flat * g.count() + (Expr::Var(g.var.clone()) - g.lo.clone());
            }
            let per = grain / b;
            let run = if other.gens.is_empty() {
                other.clone()
            } else {
                other.run(flat.clone() / Expr::Int(per), span)?
            };
            let mut piece = run.part(flat.modulo(per), Expr::Int(1), Expr::Int(per), cx, span)?;
            piece.gens = self.gens.clone();
            return Ok((self.clone(), piece));
        }
        let (b, a) = other.pair_onto(self, grain, cx, span)?;
        Ok((a, b))
    }

    /// Returns both regions as `grain` runs of one new generator.
    fn pair_onto(&self, other: &Region, grain: i64, cx: &mut Cx, span: Span) -> Res<(Region, Region)> {
        let var = cx.fresh.name("j");
        let (lo, hi) = (Expr::Int(0), Expr::Int(grain));
        cx.ranges.bind(&var, &lo, &hi);
        let one = |r: &Region, cx: &mut Cx| {
            let mut out = r.part(Expr::Var(var.clone()), Expr::Int(1), Expr::Int(grain), cx, span)?;
            if !out.gens.is_empty() {
                return not_symbolic("lists that divide each other", span);
            }
            out.gens = vec![Gen { var: var.clone(), lo: lo.clone(), hi: hi.clone() }];
            Ok(out)
        };
        Ok((one(self, cx)?, one(other, cx)?))
    }
}

/// The context for constructing regions.
pub(in crate::expand) struct Cx<'a> {
    pub(in crate::expand) lib: &'a Library,
    pub(in crate::expand) eval: Evaluator<'a>,
    pub(in crate::expand) ranges: Ranges,
    pub(in crate::expand) fresh: FreshNames,
}

impl Cx<'_> {
    /// Returns a generator whose bounds are the same on every rank, as loops require, and the
    /// condition that restores the bounds of the program text if they differ from rank to rank.
    /// Records the range of the name.
    pub(in crate::expand) fn generator(
        &mut self,
        var: &Name,
        lo: &Expr,
        hi: &Expr,
        span: Span,
    ) -> Res<(Gen, Option<Expr>)> {
        let Some((lo, hi, cond)) = self.ranges.on_every_rank(var, lo, hi) else {
            return not_symbolic("a list whose length differs from rank to rank without a known bound", span);
        };
        self.ranges.bind(var, &lo, &hi);
        Ok((Gen { var: var.clone(), lo, hi }, Some(cond).filter(|c| !c.is_true())))
    }
}

/// Returns the conjunction of the given conditions.
pub(in crate::expand) fn both(a: Option<Expr>, b: Option<Expr>) -> Option<Expr> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.and(b)),
        (a, b) => a.or(b),
    }
}

/// Returns the least common multiple of two positive numbers.
pub(in crate::expand) fn lcm(a: i64, b: i64) -> i64 {
    if a == 0 || b == 0 { 1 } else { a / gcd(a.unsigned_abs(), b.unsigned_abs()) as i64 * b }
}
