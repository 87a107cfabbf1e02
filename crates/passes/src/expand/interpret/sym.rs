//! Symbolic values: expressions of the algorithm language as IR expressions over rank coordinates
//! and steps.
//!
//! Everything that is known at compile time is folded. Expressions that depend on the rank or on a
//! loop step remain expressions. A construct without a symbolic form yields [`Stop::NotSymbolic`],
//! upon which `expand` tries the next form.

use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_ir::interval::{self, Fact, Interval};
use kbc_ir::schedule::Table;
use kbc_rounds::evaluator::{Binary, Called, Order, Site, Unary, Values};
use kbc_rounds::scope::AlgRef;
use std::cell::Cell;
use std::sync::Arc;

/// The value of an expression of an algorithm.
#[derive(Clone, Debug)]
pub(in crate::expand) enum Sym {
    /// An integer or a truth value.
    Int(Expr),
    /// A rank by its coordinates.
    Rank(Vec<Expr>),
    /// An algorithm.
    Alg(Arc<AlgRef>),
}

/// The reason why symbolic expansion stopped.
#[derive(Clone, Debug)]
pub(in crate::expand) enum Stop {
    /// This form cannot express the construct; another form may.
    NotSymbolic(String, Span),
    /// The input is wrong.
    Error(Box<Diagnostic>),
}

impl From<Box<Diagnostic>> for Stop {
    fn from(d: Box<Diagnostic>) -> Self {
        Stop::Error(d)
    }
}

pub(in crate::expand) type Res<T> = Result<T, Stop>;

pub(in crate::expand) fn not_symbolic<T>(why: impl Into<String>, span: Span) -> Res<T> {
    Err(Stop::NotSymbolic(why.into(), span))
}

/// Converts the result for statements that possibly no rank executes. Arithmetic without a value is
/// not an error there. The next form, which knows the ranks, decides whether it is one.
pub(in crate::expand) fn untaken<T>(found: Res<T>, span: Span) -> Res<T> {
    match found {
        Err(Stop::Error(d)) if d.code == "E010" => {
            not_symbolic(format!("a part that possibly no rank evaluates has no value: {}", d.title), span)
        }
        other => other,
    }
}

/// Names of the program text and their values. The last entry of a name wins.
pub(in crate::expand) type Bindings = Vec<(String, Sym)>;

/// What is known about the IR variables in scope, and which of the variables are rank coordinates.
#[derive(Clone, Debug, Default)]
pub(in crate::expand) struct Ranges {
    vars: Vec<(Name, Interval)>,
    coords: Vec<Name>,
}

impl Ranges {
    pub(in crate::expand) fn coord(&mut self, name: &Name, size: i64) {
        self.vars.push((name.clone(), Interval::of(0, size - 1)));
        self.coords.push(name.clone());
    }

    pub(in crate::expand) fn bind(&mut self, name: &Name, lo: &Expr, hi: &Expr) {
        let values = Interval::counted(self.fact(lo, &[]).within, self.fact(hi, &[]).within);
        self.vars.push((name.clone(), values));
    }

    pub(in crate::expand) fn coords(&self) -> &[Name] {
        &self.coords
    }

    /// Checks whether the expression is the same on every rank.
    pub(in crate::expand) fn uniform(&self, e: &Expr) -> bool {
        let mut same = true;
        e.vars(&mut |n| same &= !self.coords.contains(n));
        same
    }

    /// Returns what is known about an expression. Every variable has a value.
    pub(in crate::expand) fn fact(&self, e: &Expr, tables: &[Table]) -> Fact {
        let var = |n: &Name| self.vars.iter().rev().find(|v| v.0 == *n).map_or(Interval::ANY, |v| v.1).into();
        interval::of(e, &var, &|n| Some(&tables.iter().find(|t| t.name == *n)?.values[..]))
    }

    /// Returns the least and the greatest value that the expression can have, if both are known.
    pub(in crate::expand) fn interval(&self, e: &Expr) -> Option<(i64, i64)> {
        self.fact(e, &[]).within.closed()
    }

    /// Returns bounds around `lo..hi` that are the same on every rank, and the condition that
    /// restricts `var` to `lo..hi`.
    pub(in crate::expand) fn on_every_rank(
        &self,
        var: &Name,
        lo: &Expr,
        hi: &Expr,
    ) -> Option<(Expr, Expr, Expr)> {
        let at = || Expr::Var(var.clone());
        let (mut cond, mut bounds) = (Expr::Int(1), (lo.clone(), hi.clone()));
        if !self.uniform(lo) {
            bounds.0 = self.outer(lo, false)?;
            cond = cond.and(Expr::bin(BinOp::Ge, at(), lo.clone()));
        }
        if !self.uniform(hi) {
            bounds.1 = self.outer(hi, true)?;
            cond = cond.and(Expr::bin(BinOp::Lt, at(), hi.clone()));
        }
        Some((bounds.0, bounds.1, cond))
    }

    /// Returns an expression that is the same on every rank and at least `e` (`up`) or at most `e`.
    fn outer(&self, e: &Expr, up: bool) -> Option<Expr> {
        let one_side = |op: &BinOp| if up { *op == BinOp::Min } else { *op == BinOp::Max };
        match e {
            e if self.uniform(e) => Some(e.clone()),
            Expr::Bin(op, a, b) if one_side(op) && (self.uniform(a) || self.uniform(b)) => {
                Some(if self.uniform(a) { (**a).clone() } else { (**b).clone() })
            }
            e => self.interval(e).map(|(lo, hi)| Expr::Int(if up { hi } else { lo })),
        }
    }

    /// Returns `e mod n`, without the `mod` if the value is certainly in range.
    pub(in crate::expand) fn wrap(&self, e: &Expr, n: &Expr) -> Expr {
        if let (Some((lo, hi)), Some((k, _))) = (self.interval(e), self.interval(n))
            && lo >= 0
            && hi < k
        {
            return e.clone();
        }
        match n.as_int() {
            Some(k) => strip(e, k).modulo(k),
            None => e.clone().modulo(n.clone()),
        }
    }
}

/// Returns `e` without inner `mod k` in sums. The result equals `e` modulo k.
pub(in crate::expand) fn strip(e: &Expr, k: i64) -> Expr {
    match e {
        Expr::Bin(op @ (BinOp::Add | BinOp::Sub), a, b) => Expr::bin(*op, strip(a, k), strip(b, k)),
        Expr::Bin(BinOp::Mod, a, m) if m.as_int() == Some(k) => strip(a, k),
        Expr::Int(v) if *v >= k || *v <= -k => Expr::Int(v % k),
        Expr::Bin(BinOp::Mul, _, m) if m.as_int().is_some_and(|m| m % k == 0) => Expr::Int(0),
        _ => e.clone(),
    }
}

/// The domain of symbolic values.
#[derive(Default)]
pub(in crate::expand) struct Symbols {
    /// Nesting of the expression that is being evaluated in the text; 0 outside of expressions.
    level: Cell<u32>,
    /// Work for the current expression so far: parts of the text, and of the expressions made from
    /// them.
    work: Cell<usize>,
    /// Nesting of function calls around the current expression.
    depth: Cell<u32>,
    /// Whether a condition around the current expression is not decided, so that possibly no rank
    /// evaluates it. An expression without a value is not an error there.
    untaken: Cell<bool>,
}

/// An evaluator of symbolic values.
pub(in crate::expand) type Evaluator<'a> = kbc_rounds::evaluator::Evaluator<'a, Symbols>;

/// Largest nesting of function calls that are inlined.
const MAX_INLINE: u32 = 64;

/// Largest number of parts of a symbolic expression.
const MAX_SIZE: usize = 1 << 14;

/// Limit of work for one expression of the text. If conditions are not known, both branches are
/// inlined, so a function that calls itself twice has exponentially many.
const MAX_WORK: usize = 1 << 18;

/// Returns the number of parts of an expression. Counts at most `MAX_SIZE + 1`.
fn size(e: &Expr) -> usize {
    fn count(e: &Expr, left: &mut usize) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        match e {
            Expr::Int(_) | Expr::Var(_) => {}
            Expr::Un(_, a) | Expr::Table(_, a) => count(a, left),
            Expr::Bin(_, a, b) => {
                count(a, left);
                count(b, left);
            }
            Expr::Select(c, a, b) => {
                count(c, left);
                count(a, left);
                count(b, left);
            }
        }
    }
    let mut left = MAX_SIZE + 1;
    count(e, &mut left);
    MAX_SIZE + 1 - left
}

impl Symbols {
    /// Adds a new expression to the work, and checks the limits.
    fn made(&self, e: Expr, span: Span) -> Res<Sym> {
        let n = size(&e);
        self.work.set(self.work.get() + n);
        if n > MAX_SIZE || self.work.get() > MAX_WORK {
            return not_symbolic("recursive functions make the expression too large", span);
        }
        Ok(Sym::Int(e))
    }

    /// Makes an operation of two expressions. It is an error if both are constant, the operation
    /// has no value, and some rank certainly evaluates it.
    fn operation(&self, op: BinOp, a: Expr, b: Expr, span: Span) -> Res<Sym> {
        let folded = Expr::bin(op, a, b);
        if let Expr::Bin(op, x, y) = &folded
            && let (Some(x), Some(y)) = (x.as_int(), y.as_int())
            && !self.untaken.get()
        {
            let why = kbc_ir::expr::apply_bin(*op, x, y).err().map_or_else(String::new, |e| e.to_string());
            return Err(Diagnostic::error("E010", why).primary(span, "here").into_stop());
        }
        self.made(folded, span)
    }
}

impl Values for Symbols {
    type Value = Sym;
    type Number = Expr;
    type Truth = Expr;
    type Stop = Stop;

    fn integer(&self, i: i64) -> Expr {
        Expr::Int(i)
    }

    fn constant(&self, b: bool) -> Sym {
        Sym::Int(Expr::Int(b as i64))
    }

    fn of_number(&self, n: Expr) -> Sym {
        Sym::Int(n)
    }

    fn rank(&self, coordinates: Vec<Expr>) -> Sym {
        Sym::Rank(coordinates)
    }

    fn number(&self, v: Sym, span: Span) -> Res<Expr> {
        match v {
            Sym::Int(v) => Ok(v),
            Sym::Rank(_) | Sym::Alg(_) if self.level.get() == 0 => {
                Err(Diagnostic::error("E010", "expected an integer")
                    .primary(span, "this is a rank")
                    .into_stop())
            }
            Sym::Rank(_) | Sym::Alg(_) => not_symbolic("arithmetic on a rank", span),
        }
    }

    fn truth(&self, v: Sym, span: Span) -> Res<Expr> {
        self.number(v, span)
    }

    fn operand(&self, v: Sym, span: Span) -> Res<Sym> {
        self.number(v, span).map(Sym::Int)
    }

    fn algorithm(&self, a: Arc<AlgRef>) -> Sym {
        Sym::Alg(a)
    }

    fn as_algorithm(&self, v: &Sym) -> Option<Arc<AlgRef>> {
        match v {
            Sym::Alg(a) => Some(a.clone()),
            Sym::Int(_) | Sym::Rank(_) => None,
        }
    }

    fn flag(&self, _: &Sym) -> Option<bool> {
        None
    }

    fn show(&self, v: &Sym) -> String {
        match v {
            Sym::Int(e) => e.to_string(),
            Sym::Rank(c) => format!("({})", c.iter().map(Expr::to_string).collect::<Vec<_>>().join(", ")),
            Sym::Alg(a) => a.name.clone(),
        }
    }

    fn not(&self, a: Expr, span: Span) -> Res<Sym> {
        self.made(Expr::un(UnOp::Not, a), span)
    }

    fn unary(&self, op: Unary, a: &Expr, site: &Site<'_>) -> Res<Sym> {
        let op = match op {
            Unary::Neg => UnOp::Neg,
            Unary::Log2 => UnOp::Log2,
            Unary::CeilLog2 => UnOp::CeilLog2,
            Unary::Abs => UnOp::Abs,
            Unary::Sign => UnOp::Sign,
            Unary::Popcount => UnOp::Popcount,
            Unary::IsPow2 => {
                return self.made(Expr::un(UnOp::Popcount, a.clone()).equals(Expr::Int(1)), site.span);
            }
        };
        match Expr::un(op, a.clone()) {
            Expr::Un(UnOp::Log2 | UnOp::CeilLog2, a) if a.as_int().is_some() && !self.untaken.get() => {
                let why = format!("logarithm of {a}");
                Err(Diagnostic::error("E010", why).primary(site.span, "here").into_stop())
            }
            e => self.made(e, site.span),
        }
    }

    fn binary(&self, op: Binary, a: &Expr, b: &Expr, site: &Site<'_>) -> Res<Sym> {
        let op = match op {
            Binary::BitOr => BinOp::BitOr,
            Binary::BitXor => BinOp::Xor,
            Binary::BitAnd => BinOp::BitAnd,
            Binary::Shl => BinOp::Shl,
            Binary::Shr => BinOp::Shr,
            Binary::Add => BinOp::Add,
            Binary::Sub => BinOp::Sub,
            Binary::Mul => BinOp::Mul,
            Binary::Div => BinOp::Div,
            Binary::Rem => BinOp::Mod,
            Binary::Min => BinOp::Min,
            Binary::Max => BinOp::Max,
            Binary::Pow => return self.power(a, b, site),
        };
        self.operation(op, a.clone(), b.clone(), site.span)
    }

    fn compare(&self, op: Order, a: &Expr, b: &Expr, span: Span) -> Res<Sym> {
        let op = match op {
            Order::Lt => BinOp::Lt,
            Order::Le => BinOp::Le,
            Order::Gt => BinOp::Gt,
            Order::Ge => BinOp::Ge,
        };
        self.operation(op, a.clone(), b.clone(), span)
    }

    fn equal(&self, a: Sym, b: Sym, wanted: bool, span: Span) -> Res<Sym> {
        let op = if wanted { BinOp::Eq } else { BinOp::Ne };
        self.operation(op, self.number(a, span)?, self.number(b, span)?, span)
    }

    fn connect(&self, or: bool, a: Expr, b: Expr, span: Span) -> Res<Sym> {
        self.operation(if or { BinOp::Or } else { BinOp::And }, a, b, span)
    }

    fn decide(&self, c: &Expr) -> Option<bool> {
        c.as_int().map(|v| v != 0)
    }

    fn known(&self, n: &Expr) -> Option<i64> {
        n.as_int()
    }

    fn undecidable(&self, what: &str, span: Span) -> Stop {
        Stop::NotSymbolic(what.to_owned(), span)
    }

    fn select(&self, c: Expr, a: Sym, b: Sym, span: Span) -> Res<Sym> {
        match (a, b) {
            (Sym::Int(a), Sym::Int(b)) => self.made(Expr::select(c, a, b), span),
            (Sym::Rank(a), Sym::Rank(b)) if a.len() == b.len() => {
                Ok(Sym::Rank(a.into_iter().zip(b).map(|(a, b)| Expr::select(c.clone(), a, b)).collect()))
            }
            _ => not_symbolic("an `if` whose branches are of different kinds", span),
        }
    }

    fn undecided<T>(&self, span: Span, eval: impl FnOnce() -> Res<T>) -> Res<T> {
        let before = self.untaken.replace(true);
        let found = eval();
        self.untaken.set(before);
        untaken(found, span)
    }

    fn nested(&self, _: Span, eval: impl FnOnce() -> Res<Sym>) -> Res<Sym> {
        let level = self.level.get();
        self.work.set(if level == 0 { 1 } else { self.work.get() + 1 });
        self.level.set(level + 1);
        let value = eval();
        self.level.set(level);
        value
    }

    fn term(&self, span: Span) -> Res<()> {
        self.work.set(self.work.get() + 1);
        if self.work.get() > MAX_WORK {
            return not_symbolic("a sum, minimum or maximum with too many terms", span);
        }
        Ok(())
    }

    fn function(&self, call: Called<'_, Sym>, body: impl FnOnce(&[Sym]) -> Res<Sym>) -> Res<Sym> {
        let depth = self.depth.get();
        if depth >= MAX_INLINE {
            return not_symbolic(
                format!("`{}` recurses on a value that is not constant", call.name.node),
                call.span,
            );
        }
        self.depth.set(depth + 1);
        let value = body(&call.args);
        self.depth.set(depth);
        match value? {
            Sym::Int(e) => self.made(e, call.span),
            _ => not_symbolic("a function whose result is not an integer", call.span),
        }
    }
}

impl Symbols {
    /// Returns `a` to the power of `b`, which is constant unless `a` is 2.
    fn power(&self, a: &Expr, b: &Expr, site: &Site<'_>) -> Res<Sym> {
        match (a, b) {
            (Expr::Int(a), Expr::Int(b)) => match u32::try_from(*b).ok().and_then(|b| a.checked_pow(b)) {
                Some(v) => self.made(Expr::Int(v), site.span),
                None => Err(Diagnostic::error("E010", (site.text)())
                    .primary(site.span, "the value exceeds 64 bits")
                    .into_stop()),
            },
            (Expr::Int(2), b) => self.operation(BinOp::Shl, Expr::Int(1), b.clone(), site.span),
            _ => not_symbolic("a power with an exponent that is not constant", site.span),
        }
    }
}

/// Conversion of a diagnostic to the reason to stop.
pub(in crate::expand) trait IntoStop {
    fn into_stop(self) -> Stop;
}

impl IntoStop for Diagnostic {
    fn into_stop(self) -> Stop {
        Stop::Error(Box::new(self))
    }
}

/// Returns the value of a number over the rank, which has the name `rank` in the text and in the
/// result. Returns None if the number has no symbolic form.
pub(crate) fn symbolic_number(
    lib: &kbc_rounds::Library,
    number: &kbc_rounds::ast::Expr,
    rank: &Name,
) -> Result<Option<Expr>, Box<Diagnostic>> {
    let bindings = vec![(rank.to_string(), Sym::Int(Expr::Var(rank.clone())))];
    match Evaluator::new(lib).int(number, &bindings) {
        Ok(value) => Ok(Some(value)),
        Err(Stop::NotSymbolic(..)) => Ok(None),
        Err(Stop::Error(d)) => Err(d),
    }
}
