//! Sums, minima and maxima over ranges, lists of relays, and lookups in tables, in any domain of
//! values.

use kbc_diag::{Diagnostic, Span};

use crate::ast::{Expr, FnBody, FnDecl, FoldOp, Gens, Ident, Via};
use crate::evaluator::{Binary, Evaluator, Inner, Site, Values};
use crate::scope::Scope;

/// A sum, minimum or maximum over ranges.
struct Fold<'a> {
    op: FoldOp,
    term: &'a Expr,
    gens: &'a Gens,
    span: Span,
}

/// A scope without names: that of the entries of a table.
struct NoNames;

impl<V> Scope<V> for NoNames {
    fn lookup(&self, _: &str) -> Option<V> {
        None
    }
    fn names(&self) -> Vec<String> {
        vec![]
    }
}

impl<V: Values> Evaluator<'_, V> {
    /// Returns a sum, minimum or maximum over ranges. The bounds of the ranges must be known.
    pub(crate) fn fold(
        &self,
        op: FoldOp,
        term: &Expr,
        gens: &Gens,
        span: Span,
        scope: &dyn Scope<V::Value>,
    ) -> Result<V::Value, V::Stop> {
        let d = &self.values;
        match (self.terms(&Fold { op, term, gens, span }, &mut vec![], scope, None)?, op) {
            (Some(n), _) => Ok(d.of_number(n)),
            (None, FoldOp::Sum) => Ok(d.of_number(d.integer(0))),
            (None, FoldOp::Min | FoldOp::Max) => {
                let title = format!("`{}` of nothing", op.word());
                let d = Diagnostic::error("E010", title).primary(span, "no values are in these ranges");
                Err(Box::new(d).into())
            }
        }
    }

    /// Joins the terms for all values of the variables that are not bound yet with `so_far`, in
    /// order. Returns None if there are no terms.
    fn terms(
        &self,
        fold: &Fold<'_>,
        bound: &mut Vec<i64>,
        outer: &dyn Scope<V::Value>,
        so_far: Option<V::Number>,
    ) -> Result<Option<V::Number>, V::Stop> {
        let d = &self.values;
        let names: Vec<(&str, V::Value)> = fold
            .gens
            .vars
            .iter()
            .zip(&*bound)
            .map(|(v, i)| (&v.0.node[..], d.of_number(d.integer(*i))))
            .collect();
        let scope = Inner { names: &names, outer };
        let Some((_, range)) = fold.gens.vars.get(bound.len()) else {
            d.term(fold.span)?;
            return self.joined(fold, &scope, so_far);
        };
        let known = |e: &Expr| -> Result<i64, V::Stop> {
            let n = self.int(e, &scope)?;
            let what = || format!("a `{}` over a range whose bounds are not constant", fold.op.word());
            d.known(&n).ok_or_else(|| d.undecidable(&what(), e.span))
        };
        let (lo, hi) = (known(&range.lo)?, known(&range.hi)?);
        let mut all = so_far;
        for i in lo..hi {
            // Ranges without terms are work, too.
            d.term(fold.span)?;
            bound.push(i);
            all = self.terms(fold, bound, outer, all)?;
            bound.pop();
        }
        Ok(all)
    }

    /// Joins one term with `so_far`, if the condition holds.
    fn joined(
        &self,
        fold: &Fold<'_>,
        scope: &dyn Scope<V::Value>,
        so_far: Option<V::Number>,
    ) -> Result<Option<V::Number>, V::Stop> {
        let d = &self.values;
        let cond = fold.gens.cond.as_ref().map(|c| self.bool(c, scope)).transpose()?;
        let decided = cond.as_ref().map_or(Some(true), |c| d.decide(c));
        if decided == Some(false) {
            return Ok(so_far);
        }
        let join = |term: V::Number| match &so_far {
            None => Ok(term),
            Some(all) => {
                let op = match fold.op {
                    FoldOp::Sum => Binary::Add,
                    FoldOp::Min => Binary::Min,
                    FoldOp::Max => Binary::Max,
                };
                let text = || format!("{all} and {term} in `{}`", fold.op.word());
                let site = Site { span: fold.span, text: &text };
                d.number(d.binary(op, all, &term, &site)?, fold.span)
            }
        };
        let Some(cond) = cond.filter(|_| decided.is_none()) else {
            return join(self.int(fold.term, scope)?).map(Some);
        };
        let with = d.undecided(fold.term.span, || join(self.int(fold.term, scope)?))?;
        let without = match (&so_far, fold.op) {
            (Some(all), _) => all.clone(),
            (None, FoldOp::Sum) => d.integer(0),
            (None, FoldOp::Min | FoldOp::Max) => {
                let what = format!("a `{}` whose first term has a condition", fold.op.word());
                return Err(d.undecidable(&what, fold.span));
            }
        };
        let chosen = d.select(cond, d.of_number(with), d.of_number(without), fold.span)?;
        d.number(chosen, fold.span).map(Some)
    }

    /// Returns the relays that a message passes. They must be known. Numbers below 0 stand for no
    /// relay.
    ///
    /// # Errors
    /// E010 for a number that is too large, the errors of the evaluation, or a stop if the domain
    /// does not know the relays.
    pub fn relays(&self, via: &Via, scope: &dyn Scope<V::Value>) -> Result<Vec<u32>, V::Stop> {
        let mut out = vec![];
        match &via.gens {
            Some(gens) => self.listed(via, gens, &mut vec![], scope, &mut out)?,
            None => via.relays.iter().try_for_each(|e| self.relay(e, scope, &mut out))?,
        }
        Ok(out)
    }

    /// Appends the relays for all values of the variables that are not bound yet, in order.
    fn listed(
        &self,
        via: &Via,
        gens: &Gens,
        bound: &mut Vec<i64>,
        outer: &dyn Scope<V::Value>,
        out: &mut Vec<u32>,
    ) -> Result<(), V::Stop> {
        let d = &self.values;
        let number = |i: &i64| d.of_number(d.integer(*i));
        let names: Vec<(&str, V::Value)> =
            gens.vars.iter().zip(&*bound).map(|(v, i)| (&v.0.node[..], number(i))).collect();
        let scope = Inner { names: &names, outer };
        let Some((_, range)) = gens.vars.get(bound.len()) else {
            d.term(via.span)?;
            let cond = gens.cond.as_ref().map(|c| self.bool(c, &scope)).transpose()?;
            return match cond.map_or(Some(true), |c| d.decide(&c)) {
                Some(true) => via.relays.iter().try_for_each(|e| self.relay(e, &scope, out)),
                Some(false) => Ok(()),
                None => Err(d.undecidable("a relay whose condition is not constant", via.span)),
            };
        };
        let (lo, hi) = (self.known(&range.lo, &scope)?, self.known(&range.hi, &scope)?);
        for i in lo..hi {
            d.term(via.span)?;
            bound.push(i);
            self.listed(via, gens, bound, outer, out)?;
            bound.pop();
        }
        Ok(())
    }

    /// Appends a relay, unless its number is below 0.
    fn relay(&self, e: &Expr, scope: &dyn Scope<V::Value>, out: &mut Vec<u32>) -> Result<(), V::Stop> {
        let number = self.known(e, scope)?;
        if number >= 0 {
            let large = |_| {
                let title = format!("there is no relay {number}");
                Box::new(Diagnostic::error("E010", title).primary(e.span, "numbers of relays are smaller"))
            };
            out.push(u32::try_from(number).map_err(large)?);
        }
        Ok(())
    }

    /// Returns a number that relays depend on, which must be known.
    fn known(&self, e: &Expr, scope: &dyn Scope<V::Value>) -> Result<i64, V::Stop> {
        let n = self.int(e, scope)?;
        let known = self.values.known(&n);
        known.ok_or_else(|| self.values.undecidable("a relay that is not constant", e.span))
    }

    /// Returns the entry of a table. The indices must be known.
    pub(crate) fn entry(
        &self,
        decl: &FnDecl,
        name: &Ident,
        index: Vec<V::Number>,
        span: Span,
    ) -> Result<V::Value, V::Stop> {
        let d = &self.values;
        let mut known = vec![];
        for n in &index {
            let what = || format!("a lookup in the table `{}` with an index that is not constant", name.node);
            known.push(d.known(n).ok_or_else(|| d.undecidable(&what(), span))?);
        }
        fn at<T>(list: &[T], i: i64) -> Option<&T> {
            usize::try_from(i).ok().and_then(|i| list.get(i))
        }
        let found = match (&decl.body, &known[..]) {
            (FnBody::List(list), [i]) => at(list, *i),
            (FnBody::Rows(rows), [i, j]) => at(rows, *i).and_then(|row| at(row, *j)),
            _ => None,
        };
        let Some(e) = found else {
            let size = match &decl.body {
                FnBody::Rows(rows) => format!("{} x {}", rows.len(), rows.first().map_or(0, Vec::len)),
                FnBody::List(list) => list.len().to_string(),
                FnBody::Expr(_) => "no".to_owned(),
            };
            let index: Vec<String> = known.iter().map(i64::to_string).collect();
            let title = format!("the table `{}` has no entry {}", name.node, index.join(", "));
            let d = Diagnostic::error("E010", title)
                .primary(span, "looked up here")
                .secondary(decl.name.span, format!("{size} entries"))
                .help("entries are counted from 0");
            return Err(Box::new(d).into());
        };
        self.eval(e, &NoNames)
    }
}
