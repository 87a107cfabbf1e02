//! Enumeration of ranks, steps and generators, within a budget.

use crate::expand::interpret::{Builder, Gen, Region, Res, Transfer, not_symbolic};
use kbc_diag::Span;
use kbc_ir::Name;
use kbc_ir::expr::Expr;

/// The values of variables.
pub(in crate::expand) type VarValues<'e> = dyn Fn(&Name) -> Option<i64> + 'e;

/// Limit of evaluations for numbering messages.
const MAX_ENUMERATED: i64 = 1 << 20;

/// Largest number of steps whose messages may have different numbers of slots.
pub(in crate::expand) const MAX_STEPS: usize = 4096;

impl Builder<'_> {
    /// Returns whether a condition can be true and whether it can be false, over all ranks, steps
    /// and generators.
    pub(in crate::expand) fn possible(&self, cond: &Expr, t: &Transfer, loops: &[Gen]) -> (bool, bool) {
        self.possible_where(&Expr::Int(1), cond, t, loops)
    }

    /// Returns the same where a guard holds.
    pub(in crate::expand) fn possible_where(
        &self,
        guard: &Expr,
        cond: &Expr,
        t: &Transfer,
        loops: &[Gen],
    ) -> (bool, bool) {
        if let Some(v) = cond.as_int() {
            return (v != 0, v == 0);
        }
        let mut gens: Vec<Gen> = loops.to_vec();
        gens.extend(t.each.iter().cloned());
        let over_ranks = !(self.cx.ranges.uniform(cond) && self.cx.ranges.uniform(guard));
        let (mut yes, mut no) = (false, false);
        let done = self.enumerate(&gens, over_ranks, &mut |env| {
            if guard.eval(&env) == Ok(0) {
                return true;
            }
            match cond.eval(&env) {
                Ok(0) => no = true,
                Ok(_) => yes = true,
                Err(_) => (yes, no) = (true, true),
            }
            !(yes && no)
        });
        if done { (yes, no) } else { (true, true) }
    }

    /// Calls `f` for every value of the generators (and every rank). Returns false if there are too
    /// many.
    pub(in crate::expand) fn enumerate(
        &self,
        gens: &[Gen],
        ranks: bool,
        f: &mut dyn FnMut(&VarValues<'_>) -> bool,
    ) -> bool {
        let mut budget = MAX_ENUMERATED;
        let total = if ranks { self.world.ranks() } else { 1 };
        for rank in 0..total {
            let at = self.world.split(rank);
            let mut env: Vec<(Name, i64)> =
                self.world.coords.iter().zip(at).map(|((n, _), v)| (n.clone(), v)).collect();
            if !ranks {
                env.clear();
            }
            match self.for_each_value(gens, &mut env, &mut budget, f) {
                Some(true) => {}
                Some(false) => return true,
                None => return false,
            }
        }
        true
    }

    /// Runs one generator after another. Returns `Some(false)` when `f` asks to stop, and `None`
    /// when the budget is used up.
    fn for_each_value(
        &self,
        gens: &[Gen],
        env: &mut Vec<(Name, i64)>,
        budget: &mut i64,
        f: &mut dyn FnMut(&VarValues<'_>) -> bool,
    ) -> Option<bool> {
        let Some((g, rest)) = gens.split_first() else {
            *budget -= 1;
            if *budget < 0 {
                return None;
            }
            let look = |n: &Name| env.iter().rev().find(|(m, _)| m == n).map(|e| e.1);
            return Some(f(&look));
        };
        let (lo, hi) = {
            let look = |n: &Name| env.iter().rev().find(|(m, _)| m == n).map(|e| e.1);
            (g.lo.eval(&look).ok()?, g.hi.eval(&look).ok()?)
        };
        for v in lo..hi {
            env.push((g.var.clone(), v));
            let go = self.for_each_value(rest, env, budget, f);
            env.pop();
            if go != Some(true) {
                return go;
            }
        }
        Some(true)
    }

    /// Returns the number of a step of these loops, and the number of steps.
    pub(in crate::expand) fn numbered(&self, loops: &[Gen], span: Span) -> Res<(Expr, i64)> {
        let mut all = (Expr::Int(0), 1);
        self.number(loops, &mut all, span)?;
        Ok(all)
    }

    /// Returns variables together with the existing tables.
    pub(in crate::expand) fn with_tables<'e>(
        &'e self,
        env: &'e VarValues<'e>,
    ) -> impl kbc_ir::expr::Env + 'e {
        WithTables { env, tables: &self.tables }
    }

    /// Appends generator values to a mixed-radix number: (expression, count).
    pub(in crate::expand) fn number(&self, gens: &[Gen], to: &mut (Expr, i64), span: Span) -> Res<()> {
        for g in gens {
            let (lo, hi) = (self.cx.ranges.interval(&g.lo), self.cx.ranges.interval(&g.hi));
            let (Some(lo), Some(hi)) = (lo, hi) else {
                return not_symbolic("a loop whose bounds have no known range", span);
            };
            let extent = (hi.1 - lo.0).max(1);
            to.0 = to.0.clone() * Expr::Int(extent) + (Expr::Var(g.var.clone()) - Expr::Int(lo.0));
            to.1 =
                to.1.checked_mul(extent)
                    .filter(|n| *n < 1 << 31)
                    .map_or_else(|| not_symbolic("too many slots", span), Ok)?;
        }
        Ok(())
    }

    /// Returns the largest chunks of a region's runs over all steps, as (chunks, of).
    pub(in crate::expand) fn largest(&self, r: &Region, loops: &[Gen], each: &[Gen]) -> Vec<(i64, i64)> {
        let den = r.path.iter().fold(Expr::Int(1), |d, p| d * p.of.clone());
        let len = r.path.last().map_or(Expr::Int(1), |p| p.len.clone());
        if let (Some(l), Some(d)) = (len.as_int(), den.as_int()) {
            return vec![(l, d)];
        }
        let mut gens = loops.to_vec();
        gens.extend(each.iter().cloned());
        let ranks = !(self.cx.ranges.uniform(&len) && self.cx.ranges.uniform(&den));
        let mut out: Vec<(i64, i64)> = vec![];
        let whole = self.enumerate(&gens, ranks, &mut |env| {
            if let (Ok(l), Ok(d)) = (len.eval(&env), den.eval(&env)) {
                let pair = (l, d);
                if !out.contains(&pair) {
                    out.push(pair);
                }
            }
            true
        });
        if whole && !out.is_empty() { out } else { vec![(1, 1)] }
    }
}

pub(in crate::expand) struct WithTables<'a> {
    pub(in crate::expand) env: &'a dyn Fn(&Name) -> Option<i64>,
    pub(in crate::expand) tables: &'a [kbc_ir::schedule::Table],
}

impl kbc_ir::expr::Env for WithTables<'_> {
    fn var(&self, name: &Name) -> Option<i64> {
        (self.env)(name)
    }
    fn table(&self, name: &Name, index: i64) -> Option<i64> {
        let t = self.tables.iter().find(|t| t.name == *name)?;
        t.values.get(usize::try_from(index).ok()?).copied()
    }
}
