//! Enumeration of ranks, steps and generators, within a budget.

use crate::expand::interpret::{Builder, Gen, Region, Res, Transfer, not_symbolic};
use kbc_diag::Span;
use kbc_ir::Name;
use kbc_ir::expr::{Env, EvalError, Expr};
use kbc_ir::ready::ReadyExpression;
use kbc_ir::resolved::Scope;
use kbc_ir::schedule::Table;

/// Limit of evaluations for numbering messages.
const MAX_ENUMERATED: i64 = 1 << 20;

/// Largest number of steps whose messages may have different numbers of slots.
pub(in crate::expand) const MAX_STEPS: usize = 4096;

/// Variables that take all their values: the coordinates of a rank, if they matter, and generators.
/// Expressions are made ready once and evaluated for each choice of values.
pub(in crate::expand) struct Choices<'e> {
    names: ChoiceNames<'e>,
    /// Sizes of the coordinates, slowest first.
    sizes: Vec<i64>,
    /// First value of each generator, and one past the last.
    bounds: Vec<(ChoiceExpr, ChoiceExpr)>,
}

/// Names of variables in the order of their slots, and tables.
struct ChoiceNames<'e> {
    list: Vec<Name>,
    tables: &'e [Table],
}

impl Scope for ChoiceNames<'_> {
    fn slot(&self, name: &Name) -> Option<u32> {
        self.list.iter().rposition(|n| n == name).map(|i| i as u32)
    }

    fn table(&self, name: &Name) -> Option<u32> {
        self.tables.iter().position(|t| t.name == *name).map(|i| i as u32)
    }
}

/// Names with their values.
struct NamedChoice<'e>(&'e ChoiceNames<'e>, &'e [i64]);

impl Env for NamedChoice<'_> {
    fn var(&self, name: &Name) -> Option<i64> {
        self.1.get(self.0.slot(name)? as usize).copied()
    }

    fn table(&self, name: &Name, index: i64) -> Option<i64> {
        self.0.tables.get(self.0.table(name)? as usize)?.values.get(usize::try_from(index).ok()?).copied()
    }
}

/// An expression that is ready to be evaluated, unless some name in it has no value.
pub(in crate::expand) struct ChoiceExpr {
    expr: Expr,
    ready: Option<ReadyExpression>,
}

impl<'e> Choices<'e> {
    /// Returns all choices of generators, each of which may depend on those before it, and of ranks
    /// if the sizes of their coordinates are given.
    fn new(coords: &[(Name, i64)], gens: &[Gen], tables: &'e [Table]) -> Choices<'e> {
        let (list, sizes) = coords.iter().cloned().unzip();
        let mut choices = Choices { names: ChoiceNames { list, tables }, sizes, bounds: vec![] };
        for g in gens {
            let bounds = (choices.ready(&g.lo), choices.ready(&g.hi));
            choices.bounds.push(bounds);
            choices.names.list.push(g.var.clone());
        }
        choices
    }

    /// Makes an expression ready.
    pub(in crate::expand) fn ready(&self, e: &Expr) -> ChoiceExpr {
        ChoiceExpr { expr: e.clone(), ready: ReadyExpression::new(e, &self.names).ok() }
    }

    /// Returns the value of an expression for a choice.
    ///
    /// # Errors
    /// Those of [`Expr::eval`].
    pub(in crate::expand) fn value(&self, e: &ChoiceExpr, at: &[i64]) -> Result<i64, EvalError> {
        let entry = |t: u32, i: i64| {
            let table = &self.names.tables[t as usize];
            let entry = usize::try_from(i).ok().and_then(|i| table.values.get(i).copied());
            entry.ok_or_else(|| EvalError::Table(table.name.clone(), i))
        };
        match &e.ready {
            Some(ready) => ready.value(at, &entry),
            None => e.expr.eval(&NamedChoice(&self.names, at)),
        }
    }

    /// Checks whether a condition holds for a choice.
    pub(in crate::expand) fn holds(&self, e: &ChoiceExpr, at: &[i64]) -> bool {
        self.value(e, at).is_ok_and(|v| v != 0)
    }

    /// Calls `f` with the values of every choice until it returns false. Returns false if there are
    /// too many choices.
    pub(in crate::expand) fn each(&self, f: &mut dyn FnMut(&[i64]) -> bool) -> bool {
        let mut budget = MAX_ENUMERATED;
        let ranks: i64 = self.sizes.iter().product();
        let mut at = vec![0; self.names.list.len()];
        for rank in 0..ranks {
            let mut rest = rank;
            for (value, size) in at.iter_mut().zip(&self.sizes).rev() {
                (*value, rest) = (rest % size, rest / size);
            }
            match self.each_value(0, &mut at, &mut budget, f) {
                Some(true) => {}
                Some(false) => return true,
                None => return false,
            }
        }
        true
    }

    /// Runs one generator after another. Returns `Some(false)` when `f` asks to stop, and `None`
    /// when the budget is used up.
    fn each_value(
        &self,
        generator: usize,
        at: &mut [i64],
        budget: &mut i64,
        f: &mut dyn FnMut(&[i64]) -> bool,
    ) -> Option<bool> {
        let Some((lo, hi)) = self.bounds.get(generator) else {
            *budget -= 1;
            return (*budget >= 0).then(|| f(at));
        };
        let (lo, hi) = (self.value(lo, at).ok()?, self.value(hi, at).ok()?);
        for v in lo..hi {
            at[self.sizes.len() + generator] = v;
            let go = self.each_value(generator + 1, at, budget, f);
            if go != Some(true) {
                return go;
            }
        }
        Some(true)
    }
}

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
        let choices = self.choices(&gens, over_ranks, &[]);
        let (guard, cond) = (choices.ready(guard), choices.ready(cond));
        let done = choices.each(&mut |at| {
            if choices.value(&guard, at) == Ok(0) {
                return true;
            }
            match choices.value(&cond, at) {
                Ok(0) => no = true,
                Ok(_) => yes = true,
                Err(_) => (yes, no) = (true, true),
            }
            !(yes && no)
        });
        if done { (yes, no) } else { (true, true) }
    }

    /// Returns all choices of generators, and of ranks if they matter, with the values of these
    /// tables.
    pub(in crate::expand) fn choices<'e>(
        &self,
        gens: &[Gen],
        ranks: bool,
        tables: &'e [Table],
    ) -> Choices<'e> {
        let coords = if ranks { &self.world.coords[..] } else { &[] };
        Choices::new(coords, gens, tables)
    }

    /// Returns the number of a step of these loops, and the number of steps.
    pub(in crate::expand) fn numbered(&self, loops: &[Gen], span: Span) -> Res<(Expr, i64)> {
        let mut all = (Expr::Int(0), 1);
        self.number(loops, &mut all, span)?;
        Ok(all)
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
        let choices = self.choices(&gens, ranks, &[]);
        let (len, den) = (choices.ready(&len), choices.ready(&den));
        let whole = choices.each(&mut |at| {
            if let (Ok(l), Ok(d)) = (choices.value(&len, at), choices.value(&den, at)) {
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
