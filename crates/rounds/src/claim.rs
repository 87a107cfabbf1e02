//! Stated costs of algorithms, and their verification (`docs/reference/algorithms.md`, "Costs
//! that are checked").
//!
//! This module owns the three figures, formulas over exact fractions, and the comparison with the
//! cost of the rounds. A formula is an expression of the language with two differences: `/` is
//! exact, and `A(x)` is (x - 1)/x. Its names are those of `where`: sizes, the root and parameters.
//! The clauses `cost` and `check` of an algorithm's head state them.

use std::cmp::Ordering;
use std::sync::Arc;

use kbc_diag::Diagnostic;
use kbc_diag::nearest::nearest;

use crate::ast::{AlgorithmDecl, BinaryOp, Expr, ExprKind, FoldOp, Gens, Ident, UnaryOp};
use crate::cost::Cost;
use crate::eval::{AlgRef, ConcreteEvaluator, Fault, ListScope, Value, unknown};
use crate::group::names_of;
use crate::library::Library;
use crate::ratio::Ratio;
use crate::rounds::Call;
use crate::write;

/// A figure of a [`Cost`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Figure {
    /// Number of rounds with a message.
    Rounds,
    /// Most bytes sent by one rank, in units of the vector.
    Sent,
    /// Largest message of each round, summed over the rounds, in units of the vector.
    Pair,
}

impl Figure {
    /// All figures.
    pub const ALL: [Figure; 3] = [Figure::Rounds, Figure::Sent, Figure::Pair];

    /// Returns the word for the figure in a clause `cost`.
    pub fn word(self) -> &'static str {
        match self {
            Figure::Rounds => "rounds",
            Figure::Sent => "sent",
            Figure::Pair => "pair",
        }
    }

    /// Returns the figure of a cost.
    pub fn of(self, cost: &Cost) -> Ratio {
        match self {
            Figure::Rounds => Ratio::new(u64::from(cost.rounds), 1),
            Figure::Sent => cost.sent,
            Figure::Pair => cost.pair,
        }
    }
}

/// A stated figure.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The figure.
    pub figure: Figure,
    /// The formula as text.
    pub text: String,
    /// The formula.
    pub formula: Expr,
}

/// Returns the stated figures of an algorithm in source order.
///
/// # Errors
/// Returns E005 if a figure does not exist, and E004 if it is stated twice.
pub fn claims(decl: &AlgorithmDecl) -> Result<Vec<Claim>, Fault> {
    let mut out: Vec<Claim> = vec![];
    for c in &decl.costs {
        let word = &c.figure.node;
        let error =
            |code, title: String| Diagnostic::error(code, title).primary(c.figure.span, "stated here");
        let Some(figure) = Figure::ALL.into_iter().find(|f| f.word() == word) else {
            let words = Figure::ALL.map(Figure::word);
            let d = error("E005", format!("unknown cost figure `{word}`")).note(format!(
                "the figures are {}; example: `cost rounds p - 1, sent A(p), pair A(p)`",
                words.join(", ")
            ));
            return Err(Box::new(match nearest(word, words) {
                Some(near) => d.help(format!("did you mean `{near}`?")),
                None => d,
            }));
        };
        if out.iter().any(|c| c.figure == figure) {
            let title = format!("the cost figure `{word}` is stated twice");
            return Err(Box::new(error("E004", title)));
        }
        out.push(Claim { figure, text: write::expr(&c.formula), formula: c.formula.clone() });
    }
    Ok(out)
}

/// Compares claims with the cost of a call's rounds. Claims hold for the defaults of
/// algorithm-valued parameters; a call that sets one of these is not compared.
///
/// # Errors
/// Returns E119 for a figure that differs from its formula, or a formula that has no value here.
pub fn compare(lib: &Library, call: &Call, claims: &[Claim], cost: &Cost) -> Result<(), Fault> {
    let decl = lib.algorithm(call.alg);
    if claims.is_empty() || call.args.iter().any(|(_, v)| matches!(v, Value::Alg(_))) {
        return Ok(());
    }
    let scope = ListScope(names_of(lib, call)?);
    let formulas = Formulas { evaluator: &ConcreteEvaluator::new(lib), scope: &scope, lets: vec![] };
    for c in claims {
        let got = c.figure.of(cost);
        let want = formulas.value(&c.formula).map_err(|d| unreadable(decl, c, *d))?;
        if want != Fraction::from(got) {
            let numbers: Vec<String> = scope
                .0
                .iter()
                .filter(|(_, v)| matches!(v, Value::Int(_) | Value::Rank(_)))
                .map(|(n, v)| format!("{n} = {v}"))
                .collect();
            let figure = c.figure.word();
            return Err(Box::new(
                Diagnostic::error("E119", format!("the cost of `{}` is not what it states", decl.name.node))
                    .primary(c.formula.span, format!("{want} is stated, with {}", numbers.join(", ")))
                    .secondary(decl.name.span, format!("{figure} {got}"))
                    .note(format!("stated: {figure} {} = {want}; of the rounds: {figure} {got}", c.text))
                    .help("correct the formula or the algorithm"),
            ));
        }
    }
    Ok(())
}

/// Returns the arguments, besides the defaults, for which an algorithm is meant, as its clauses
/// `check` list them. Values are integers or names of algorithms.
///
/// # Errors
/// Returns E006 for a parameter that does not exist, and for a value of another kind.
pub fn variants(decl: &AlgorithmDecl) -> Result<Vec<Vec<(String, Value)>>, Fault> {
    let argument = |(name, value): &(Ident, Expr)| {
        if !decl.params.iter().any(|p| p.0.node == name.node) {
            let valid: Vec<String> = decl.params.iter().map(|p| p.0.node.clone()).collect();
            let what = format!("parameter of `{}`", decl.name.node);
            return Err(unknown("E006", &what, &name.node, name.span, &valid));
        }
        let value = match (&value.kind, integer(value)) {
            (_, Some(i)) => Value::Int(i),
            (ExprKind::Name(n), _) => Value::Alg(Arc::new(AlgRef { name: n.clone(), file: decl.span.file })),
            _ => {
                return Err(Box::new(
                    Diagnostic::error("E006", format!("`{}` cannot be checked with this value", name.node))
                        .primary(value.span, "expected an integer or the name of an algorithm"),
                ));
            }
        };
        Ok((name.node.clone(), value))
    };
    decl.checks.iter().map(|list| list.iter().map(argument).collect()).collect()
}

/// Returns the value of an integer with or without a sign.
fn integer(e: &Expr) -> Option<i64> {
    match &e.kind {
        ExprKind::Int(i) => Some(*i),
        ExprKind::Unary(UnaryOp::Neg, a) => integer(a)?.checked_neg(),
        _ => None,
    }
}

/// Makes E119 for a formula that has no value.
fn unreadable(decl: &AlgorithmDecl, claim: &Claim, why: Diagnostic) -> Fault {
    let what = format!("the formula of {} of `{}`", claim.figure.word(), decl.name.node);
    let place = if why.span().is_none() { claim.formula.span } else { why.span() };
    let d = Diagnostic::error("E119", format!("{what} cannot be evaluated: {}", why.title))
        .primary(place, "in this formula");
    Box::new(Diagnostic { help: why.help, ..d })
}

/// Greatest number of terms of a sum, minimum or maximum in a formula.
const MAX_BINDINGS: usize = 1 << 20;

/// A signed fraction in lowest terms with a positive denominator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fraction(i128, i128);

impl Fraction {
    fn new(n: i128, d: i128) -> Fraction {
        let mut g = (n.unsigned_abs(), d.unsigned_abs());
        while g.1 != 0 {
            g = (g.1, g.0 % g.1);
        }
        let g = (g.0.max(1) as i128) * d.signum();
        Fraction(n / g, d / g)
    }
}

impl From<Ratio> for Fraction {
    fn from(r: Ratio) -> Fraction {
        Fraction(r.num().into(), r.den().into())
    }
}

impl std::fmt::Display for Fraction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.1 == 1 { write!(f, "{}", self.0) } else { write!(f, "{}/{}", self.0, self.1) }
    }
}

struct Formulas<'a> {
    evaluator: &'a ConcreteEvaluator<'a>,
    scope: &'a ListScope,
    /// The fractions that `let`s in the formula name. Names of integers are in `scope`.
    lets: Vec<(String, Fraction)>,
}

impl Formulas<'_> {
    /// Evaluates something inside of `names`, which hide equal names around them.
    fn within<T>(
        &self,
        names: &[(&str, Fraction)],
        eval: impl FnOnce(&Formulas<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let (mut scope, mut lets) = (self.scope.clone(), self.lets.clone());
        for (name, value) in names {
            lets.retain(|l| l.0 != *name);
            scope.0.retain(|s| s.0 != *name);
            match value {
                Fraction(i, 1) if i64::try_from(*i).is_ok() => {
                    scope.0.push(((*name).to_owned(), Value::Int(*i as i64)));
                }
                _ => lets.push(((*name).to_owned(), *value)),
            }
        }
        eval(&Formulas { evaluator: self.evaluator, scope: &scope, lets })
    }

    /// Joins the values of a formula over ranges.
    fn fold(&self, op: FoldOp, e: &Expr, gens: &Gens) -> Result<Fraction, Fault> {
        let fault = |title: String| Box::new(Diagnostic::error("E119", title).primary(e.span, "here"));
        let mut all: Option<Fraction> = None;
        for values in self.evaluator.bindings(gens, self.scope, MAX_BINDINGS)? {
            let number = |v: &Value| match v {
                Value::Int(i) => Fraction((*i).into(), 1),
                _ => Fraction(0, 1),
            };
            let names: Vec<(&str, Fraction)> =
                gens.vars.iter().zip(&values).map(|(g, v)| (&g.0.node[..], number(v))).collect();
            let next = self.within(&names, |f| f.value(e))?;
            let Some(before) = all else {
                all = Some(next);
                continue;
            };
            let times =
                |x: i128, y: i128| x.checked_mul(y).ok_or_else(|| fault("a number is too large".into()));
            let (x, y) = (times(before.0, next.1)?, times(next.0, before.1)?);
            all = Some(match op {
                FoldOp::Sum => {
                    let sum = x.checked_add(y).ok_or_else(|| fault("a number is too large".into()))?;
                    Fraction::new(sum, times(before.1, next.1)?)
                }
                FoldOp::Min if x <= y => before,
                FoldOp::Max if x >= y => before,
                FoldOp::Min | FoldOp::Max => next,
            });
        }
        match (all, op) {
            (Some(all), _) => Ok(all),
            (None, FoldOp::Sum) => Ok(Fraction(0, 1)),
            (None, FoldOp::Min | FoldOp::Max) => Err(fault(format!("`{}` of nothing", op.word()))),
        }
    }

    fn value(&self, e: &Expr) -> Result<Fraction, Fault> {
        let fault = |title: &str| Box::new(Diagnostic::error("E119", title).primary(e.span, "here"));
        let large = || fault("a number is too large");
        match &e.kind {
            ExprKind::Name(n) => {
                if let Some((_, value)) = self.lets.iter().rev().find(|l| l.0 == *n) {
                    return Ok(*value);
                }
                Ok(Fraction(self.evaluator.int(e, self.scope)?.into(), 1))
            }
            ExprKind::Let(lets, e) => match lets.split_first() {
                None => self.value(e),
                Some(((name, value), rest)) => {
                    let value = self.value(value)?;
                    let rest = Expr { kind: ExprKind::Let(rest.to_vec(), e.clone()), span: e.span };
                    self.within(&[(&name.node, value)], |f| f.value(&rest))
                }
            },
            ExprKind::Fold(op, e, gens) => self.fold(*op, e, gens),
            ExprKind::Unary(UnaryOp::Neg, a) => self.value(a).map(|a| Fraction(-a.0, a.1)),
            ExprKind::If(c, a, b) => self.value(if self.truth(c)? { a } else { b }),
            ExprKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div), a, b) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                let times = |x: i128, y: i128| x.checked_mul(y).ok_or_else(large);
                let (n, d) = match op {
                    BinaryOp::Mul => (times(a.0, b.0)?, times(a.1, b.1)?),
                    BinaryOp::Div if b.0 == 0 => return Err(fault("division by zero")),
                    BinaryOp::Div => (times(a.0, b.1)?, times(a.1, b.0)?),
                    sum => {
                        let (x, y) = (times(a.0, b.1)?, times(b.0, a.1)?);
                        let n = if *sum == BinaryOp::Add { x.checked_add(y) } else { x.checked_sub(y) };
                        (n.ok_or_else(large)?, times(a.1, b.1)?)
                    }
                };
                Ok(Fraction::new(n, d))
            }
            ExprKind::Call(f, args) if f.node == "A" && args.len() == 1 => {
                let x = self.value(&args[0])?;
                if x.0 == 0 {
                    return Err(fault("A(0) is undefined"));
                }
                Ok(Fraction::new(x.0 - x.1, x.0))
            }
            // All other operations are on integers and use the language's own arithmetic.
            _ => Ok(Fraction(self.evaluator.int(&self.whole(e)?, self.scope)?.into(), 1)),
        }
    }

    /// Decides a condition. Its comparisons are of fractions.
    fn truth(&self, e: &Expr) -> Result<bool, Fault> {
        let compared = |a: &Expr, b: &Expr| -> Result<Ordering, Fault> {
            let (a, b) = (self.value(a)?, self.value(b)?);
            let times = |x: i128, y: i128| {
                let large = || Diagnostic::error("E119", "a number is too large").primary(e.span, "here");
                x.checked_mul(y).ok_or_else(|| Box::new(large()))
            };
            Ok(times(a.0, b.1)?.cmp(&times(b.0, a.1)?))
        };
        match &e.kind {
            ExprKind::Binary(BinaryOp::Lt, a, b) => Ok(compared(a, b)?.is_lt()),
            ExprKind::Binary(BinaryOp::Le, a, b) => Ok(compared(a, b)?.is_le()),
            ExprKind::Binary(BinaryOp::Gt, a, b) => Ok(compared(a, b)?.is_gt()),
            ExprKind::Binary(BinaryOp::Ge, a, b) => Ok(compared(a, b)?.is_ge()),
            ExprKind::Binary(BinaryOp::And, a, b) => Ok(self.truth(a)? && self.truth(b)?),
            ExprKind::Binary(BinaryOp::Or, a, b) => Ok(self.truth(a)? || self.truth(b)?),
            ExprKind::Unary(UnaryOp::Not, a) => Ok(!self.truth(a)?),
            _ => self.evaluator.bool(e, self.scope),
        }
    }

    /// Evaluates the operands of an operation or call as fractions and replaces them by integers.
    fn whole(&self, e: &Expr) -> Result<Expr, Fault> {
        let operand = |a: &Expr| -> Result<Expr, Fault> {
            match self.value(a)? {
                Fraction(i, 1) if i64::try_from(i).is_ok() => {
                    Ok(Expr { kind: ExprKind::Int(i as i64), span: a.span })
                }
                other => {
                    let title = format!("expected an integer, found {other}");
                    Err(Box::new(Diagnostic::error("E119", title).primary(a.span, "here")))
                }
            }
        };
        let kind = match &e.kind {
            ExprKind::Binary(op, a, b) => ExprKind::Binary(*op, Box::new(operand(a)?), Box::new(operand(b)?)),
            ExprKind::Call(f, args) => {
                ExprKind::Call(f.clone(), args.iter().map(operand).collect::<Result<_, _>>()?)
            }
            other => other.clone(),
        };
        Ok(Expr { kind, span: e.span })
    }
}
