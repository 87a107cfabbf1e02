//! Symbolic values: expressions of the algorithm language as IR expressions over rank coordinates
//! and steps.
//!
//! Everything that is known at compile time is folded. Expressions that depend on the rank or on a
//! loop step remain expressions. A construct without a symbolic form yields [`Stop::NotSymbolic`],
//! upon which `expand` tries the next form.

use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_rounds::ast::{self, BinaryOp, ExprKind, UnaryOp};
use kbc_rounds::eval::{AlgRef, Functions};
use kbc_rounds::library::Library;
use std::cell::Cell;
use std::sync::Arc;

/// The value of an expression of an algorithm.
#[derive(Clone, Debug)]
pub(super) enum Sym {
    /// An integer or a truth value.
    Int(Expr),
    /// A rank by its coordinates.
    Rank(Vec<Expr>),
    /// An algorithm.
    Alg(Arc<AlgRef>),
}

/// The reason why symbolic expansion stopped.
#[derive(Clone, Debug)]
pub(super) enum Stop {
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

pub(super) type Res<T> = Result<T, Stop>;

pub(super) fn not_symbolic<T>(why: impl Into<String>, span: Span) -> Res<T> {
    Err(Stop::NotSymbolic(why.into(), span))
}

/// Converts the result for statements that possibly no rank executes. Arithmetic without a value is
/// not an error there. The next form, which knows the ranks, decides whether it is one.
pub(super) fn untaken<T>(found: Res<T>, span: Span) -> Res<T> {
    match found {
        Err(Stop::Error(d)) if d.code == "E010" => {
            not_symbolic(format!("a branch of an `if` has no value: {}", d.title), span)
        }
        other => other,
    }
}

/// Names of the program text and their values. The last entry of a name wins.
pub(super) type Bindings = Vec<(String, Sym)>;

/// Inclusive ranges of the IR variables in scope, and which of the variables are rank coordinates.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    vars: Vec<(Name, i64, i64)>,
    coords: Vec<Name>,
}

impl Ranges {
    pub(super) fn coord(&mut self, name: &Name, size: i64) {
        self.vars.push((name.clone(), 0, size - 1));
        self.coords.push(name.clone());
    }

    pub(super) fn bind(&mut self, name: &Name, lo: &Expr, hi: &Expr) {
        let lo = self.interval(lo).map_or(i64::MIN, |r| r.0);
        let hi = self.interval(hi).map_or(i64::MAX, |r| r.1);
        self.vars.push((name.clone(), lo, hi.saturating_sub(1)));
    }

    pub(super) fn coords(&self) -> &[Name] {
        &self.coords
    }

    /// Checks whether the expression is the same on every rank.
    pub(super) fn uniform(&self, e: &Expr) -> bool {
        let mut same = true;
        e.vars(&mut |n| same &= !self.coords.contains(n));
        same
    }

    /// Returns a range that certainly contains the value.
    pub(super) fn interval(&self, e: &Expr) -> Option<(i64, i64)> {
        Some(match e {
            Expr::Int(v) => (*v, *v),
            Expr::Var(n) => {
                let (_, lo, hi) = self.vars.iter().rev().find(|v| v.0 == *n)?;
                if *lo == i64::MIN || *hi == i64::MAX - 1 {
                    return None;
                }
                (*lo, *hi)
            }
            Expr::Un(op, a) => {
                let (lo, hi) = self.interval(a)?;
                // Monotonic functions: their extremes are at the ends of the range.
                let ends = |op| {
                    let at = |v| kbc_ir::expr::apply_un(op, v).ok();
                    Some((at(lo)?, at(hi)?))
                };
                match op {
                    UnOp::Neg => (hi.checked_neg()?, lo.checked_neg()?),
                    UnOp::Log2 | UnOp::CeilLog2 | UnOp::Sign => ends(*op)?,
                    UnOp::Abs if lo >= 0 => (lo, hi),
                    UnOp::Abs => (0, lo.checked_neg()?.max(hi)),
                    UnOp::Not => (0, 1),
                    UnOp::Popcount => return None,
                }
            }
            Expr::Bin(op, a, b) => {
                let (x, y) = (self.interval(a), self.interval(b));
                match op {
                    BinOp::Add => (x?.0.checked_add(y?.0)?, x?.1.checked_add(y?.1)?),
                    BinOp::Sub => (x?.0.checked_sub(y?.1)?, x?.1.checked_sub(y?.0)?),
                    BinOp::Mul => {
                        let (x, y) = (x?, y?);
                        let all = [
                            x.0.checked_mul(y.0)?,
                            x.0.checked_mul(y.1)?,
                            x.1.checked_mul(y.0)?,
                            x.1.checked_mul(y.1)?,
                        ];
                        (*all.iter().min()?, *all.iter().max()?)
                    }
                    BinOp::Mod => match y? {
                        (k, l) if k == l && k > 0 => match x {
                            Some((lo, hi)) if lo >= 0 && hi < k => (lo, hi),
                            _ => (0, k - 1),
                        },
                        _ => return None,
                    },
                    BinOp::Div => match (x?, y?) {
                        ((lo, hi), (k, l)) if k > 0 && lo >= 0 => (lo / l, hi / k),
                        ((lo, hi), (k, l)) if k > 0 && k == l => (lo.div_euclid(k), hi.div_euclid(k)),
                        _ => return None,
                    },
                    BinOp::Shl => match (x?, y?) {
                        ((lo, hi), (k, l)) if lo >= 0 && hi < 1 << 31 && 0 <= k && k <= l && l < 31 => {
                            (lo << k, hi << l)
                        }
                        _ => return None,
                    },
                    BinOp::Shr => match (x?, y?) {
                        ((lo, hi), (k, l)) if lo >= 0 && 0 <= k && k <= l && l < 63 => (lo >> l, hi >> k),
                        _ => return None,
                    },
                    BinOp::BitAnd | BinOp::BitOr | BinOp::Xor => match (x?, y?) {
                        ((0.., a), (0.., b)) if *op == BinOp::BitAnd => (0, a.min(b)),
                        ((0.., a), (0.., b)) => {
                            (0, (a.max(b) as u64 + 1).next_power_of_two().min(1 << 62) as i64 - 1)
                        }
                        _ => return None,
                    },
                    BinOp::Min => (x?.0.min(y?.0), x?.1.min(y?.1)),
                    BinOp::Max => (x?.0.max(y?.0), x?.1.max(y?.1)),
                    BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => (0, 1),
                    BinOp::And | BinOp::Or => (0, 1),
                }
            }
            Expr::Select(_, a, b) => {
                let (x, y) = (self.interval(a)?, self.interval(b)?);
                (x.0.min(y.0), x.1.max(y.1))
            }
            _ => return None,
        })
    }

    /// Returns bounds around `lo..hi` that are the same on every rank, and the condition that
    /// restricts `var` to `lo..hi`.
    pub(super) fn on_every_rank(&self, var: &Name, lo: &Expr, hi: &Expr) -> Option<(Expr, Expr, Expr)> {
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
    pub(super) fn wrap(&self, e: &Expr, n: &Expr) -> Expr {
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
pub(super) fn strip(e: &Expr, k: i64) -> Expr {
    match e {
        Expr::Bin(op @ (BinOp::Add | BinOp::Sub), a, b) => Expr::bin(*op, strip(a, k), strip(b, k)),
        Expr::Bin(BinOp::Mod, a, m) if m.as_int() == Some(k) => strip(a, k),
        Expr::Int(v) if *v >= k || *v <= -k => Expr::Int(v % k),
        Expr::Bin(BinOp::Mul, _, m) if m.as_int().is_some_and(|m| m % k == 0) => Expr::Int(0),
        _ => e.clone(),
    }
}

/// Returns `(coefficient, rest)` with `e == coefficient * var + rest`, if `e` has that form.
pub(super) fn linear(e: &Expr, var: &Name) -> Option<(i64, Expr)> {
    if !e.mentions(var) {
        return Some((0, e.clone()));
    }
    match e {
        Expr::Var(_) => Some((1, Expr::Int(0))),
        Expr::Bin(op @ (BinOp::Add | BinOp::Sub), a, b) => {
            let ((ca, ra), (cb, rb)) = (linear(a, var)?, linear(b, var)?);
            let c = if *op == BinOp::Add { ca.checked_add(cb)? } else { ca.checked_sub(cb)? };
            Some((c, Expr::bin(*op, ra, rb)))
        }
        Expr::Un(UnOp::Neg, a) => {
            let (c, r) = linear(a, var)?;
            Some((-c, Expr::un(UnOp::Neg, r)))
        }
        _ => None,
    }
}

/// Evaluates expressions of the program text symbolically.
pub(super) struct Evaluator<'a> {
    pub(super) lib: &'a Library,
    /// Work for the current expression so far: parts of the text, and of the expressions made from
    /// them.
    work: Cell<usize>,
}

/// Largest nesting of function calls that are inlined.
const MAX_INLINE: u32 = 64;

/// Largest number of parts of a symbolic expression.
const MAX_SIZE: usize = 1 << 14;

/// Limit of work for one expression of the text. If conditions are not known, both branches are
/// inlined, so a function that calls itself twice has exponentially many.
const MAX_WORK: usize = 1 << 18;

/// The context in which an expression is evaluated.
#[derive(Clone, Copy)]
struct At {
    /// Nesting of function calls around it.
    depth: u32,
    /// Whether some rank certainly evaluates it. In a branch with an unknown condition that is not
    /// certain, and an expression without a value is not an error there.
    taken: bool,
}

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

impl<'a> Evaluator<'a> {
    pub(super) fn new(lib: &'a Library) -> Evaluator<'a> {
        Evaluator { lib, work: Cell::new(0) }
    }

    /// Adds a new expression to the work, and checks the limits.
    fn made(&self, e: Expr, span: Span) -> Res<Expr> {
        let n = size(&e);
        self.work.set(self.work.get() + n);
        if n > MAX_SIZE || self.work.get() > MAX_WORK {
            return not_symbolic("functions that call themselves make too large an expression of it", span);
        }
        Ok(e)
    }

    pub(super) fn int(&self, e: &ast::Expr, env: &Bindings) -> Res<Expr> {
        match self.symbol(e, env)? {
            Sym::Int(e) => Ok(e),
            _ => Err(Diagnostic::error("E010", "an integer is needed here")
                .primary(e.span, "this is a rank")
                .into_stop()),
        }
    }

    /// Returns the value of an expression of the text.
    pub(super) fn symbol(&self, e: &ast::Expr, env: &Bindings) -> Res<Sym> {
        self.work.set(0);
        self.eval(e, env, At { depth: 0, taken: true })
    }

    fn eval(&self, e: &ast::Expr, env: &Bindings, at: At) -> Res<Sym> {
        self.work.set(self.work.get() + 1);
        let under = |x: &ast::Expr, at: At| match self.eval(x, env, at)? {
            Sym::Int(v) => Ok(v),
            Sym::Rank(_) | Sym::Alg(_) => not_symbolic("arithmetic on a rank", x.span),
        };
        let int = |x: &ast::Expr| under(x, at);
        Ok(match &e.kind {
            ExprKind::Int(v) => Sym::Int(Expr::Int(*v)),
            ExprKind::Bool(b) => Sym::Int(Expr::Int(*b as i64)),
            ExprKind::Float(_) | ExprKind::Error => {
                return Err(Diagnostic::error("E010", "an algorithm has integers only")
                    .primary(e.span, "here")
                    .into_stop());
            }
            ExprKind::Name(n) => match env.iter().rev().find(|(m, _)| m == n) {
                Some((_, s)) => s.clone(),
                None => Sym::Alg(Arc::new(AlgRef { name: n.clone(), file: e.span.file })),
            },
            ExprKind::Tuple(parts) => Sym::Rank(parts.iter().map(int).collect::<Res<_>>()?),
            ExprKind::Unary(UnaryOp::Neg, a) => Sym::Int(self.made(Expr::un(UnOp::Neg, int(a)?), e.span)?),
            ExprKind::Unary(UnaryOp::Not, a) => Sym::Int(self.made(Expr::un(UnOp::Not, int(a)?), e.span)?),
            ExprKind::Binary(op, a, b) => {
                let a = int(a)?;
                // Short-circuit evaluation also ends recursions.
                match (op, a.as_int()) {
                    (BinaryOp::And, Some(0)) => return Ok(Sym::Int(Expr::Int(0))),
                    (BinaryOp::Or, Some(v)) if v != 0 => return Ok(Sym::Int(Expr::Int(1))),
                    _ => {}
                }
                let decided = a.as_int().is_some() || !matches!(op, BinaryOp::And | BinaryOp::Or);
                let b = under(b, At { taken: at.taken && decided, ..at })?;
                let folded = self.made(Expr::bin(operator(*op), a, b), e.span)?;
                if let Expr::Bin(op, x, y) = &folded
                    && let (Some(x), Some(y)) = (x.as_int(), y.as_int())
                    && at.taken
                {
                    let why =
                        kbc_ir::expr::apply_bin(*op, x, y).err().map_or_else(String::new, |e| e.to_string());
                    return Err(Diagnostic::error("E010", why).primary(e.span, "here").into_stop());
                }
                Sym::Int(folded)
            }
            ExprKind::If(c, a, b) => match int(c)? {
                Expr::Int(0) => self.eval(b, env, at)?,
                Expr::Int(_) => self.eval(a, env, at)?,
                c => match (self.branch(a, env, at)?, self.branch(b, env, at)?) {
                    (Sym::Int(a), Sym::Int(b)) => Sym::Int(self.made(Expr::select(c, a, b), e.span)?),
                    (Sym::Rank(a), Sym::Rank(b)) if a.len() == b.len() => {
                        Sym::Rank(a.into_iter().zip(b).map(|(a, b)| Expr::select(c.clone(), a, b)).collect())
                    }
                    _ => return not_symbolic("an `if` between things of different kinds", e.span),
                },
            },
            ExprKind::Call(name, args) => {
                let values: Vec<Expr> = args.iter().map(int).collect::<Res<_>>()?;
                let value = self.call(name, &values, e.span, at)?;
                Sym::Int(self.made(value, e.span)?)
            }
        })
    }

    /// Evaluates a branch with an unknown condition. A fault in it is an error only if some rank
    /// takes the branch.
    fn branch(&self, e: &ast::Expr, env: &Bindings, at: At) -> Res<Sym> {
        untaken(self.eval(e, env, At { taken: false, ..at }), e.span)
    }

    fn call(&self, name: &ast::Ident, v: &[Expr], span: Span, at: At) -> Res<Expr> {
        let one = || v.first().cloned().unwrap_or(Expr::Int(0));
        let two = || (one(), v.get(1).cloned().unwrap_or(Expr::Int(0)));
        let unary = |op| match Expr::un(op, one()) {
            Expr::Un(UnOp::Log2 | UnOp::CeilLog2, a) if a.as_int().is_some() && at.taken => {
                Err(Diagnostic::error("E010", format!("logarithm of {a}")).primary(span, "here").into_stop())
            }
            e => Ok(e),
        };
        let all = |op| v.iter().skip(1).fold(one(), |a, b| Expr::bin(op, a, b.clone()));
        Ok(match name.node.as_str() {
            "log2" => unary(UnOp::Log2)?,
            "ceil_log2" => unary(UnOp::CeilLog2)?,
            "popcount" => unary(UnOp::Popcount)?,
            "abs" => unary(UnOp::Abs)?,
            "sign" => unary(UnOp::Sign)?,
            "is_pow2" => Expr::un(UnOp::Popcount, one()).equals(Expr::Int(1)),
            "min" => all(BinOp::Min),
            "max" => all(BinOp::Max),
            "ceil_div" => {
                let (a, b) = two();
                Expr::un(UnOp::Neg, Expr::un(UnOp::Neg, a) / b)
            }
            "pow" => match two() {
                (Expr::Int(b), Expr::Int(e)) => match u32::try_from(e).ok().and_then(|e| b.checked_pow(e)) {
                    Some(v) => Expr::Int(v),
                    None => {
                        return Err(Diagnostic::error("E010", format!("pow({b}, {e})"))
                            .primary(span, "has no value of 64 bits")
                            .into_stop());
                    }
                },
                (Expr::Int(2), e) => Expr::bin(BinOp::Shl, Expr::Int(1), e),
                _ => return not_symbolic("a power with an exponent that is not constant", span),
            },
            _ => {
                let Some(f) = self.lib.function(name) else {
                    return Err(kbc_rounds::eval::unknown(
                        "E005",
                        "function",
                        &name.node,
                        name.span,
                        &self.lib.function_names(name.span.file),
                    )
                    .into());
                };
                if at.depth >= MAX_INLINE {
                    return not_symbolic(
                        format!("`{}` recurses on something that is not constant", name.node),
                        span,
                    );
                }
                let env: Bindings =
                    f.params.iter().zip(v).map(|(p, v)| (p.node.clone(), Sym::Int(v.clone()))).collect();
                match self.eval(&f.body, &env, At { depth: at.depth + 1, ..at })? {
                    Sym::Int(e) => e,
                    _ => return not_symbolic("a function that yields no integer", span),
                }
            }
        })
    }
}

fn operator(op: BinaryOp) -> BinOp {
    match op {
        BinaryOp::Or => BinOp::Or,
        BinaryOp::And => BinOp::And,
        BinaryOp::Eq => BinOp::Eq,
        BinaryOp::Ne => BinOp::Ne,
        BinaryOp::Lt => BinOp::Lt,
        BinaryOp::Le => BinOp::Le,
        BinaryOp::Gt => BinOp::Gt,
        BinaryOp::Ge => BinOp::Ge,
        BinaryOp::BitOr => BinOp::BitOr,
        BinaryOp::BitXor => BinOp::Xor,
        BinaryOp::BitAnd => BinOp::BitAnd,
        BinaryOp::Shl => BinOp::Shl,
        BinaryOp::Shr => BinOp::Shr,
        BinaryOp::Add => BinOp::Add,
        BinaryOp::Sub => BinOp::Sub,
        BinaryOp::Mul => BinOp::Mul,
        BinaryOp::Div => BinOp::Div,
        BinaryOp::Rem => BinOp::Mod,
    }
}

/// Conversion of a diagnostic to the reason to stop.
pub(super) trait IntoStop {
    fn into_stop(self) -> Stop;
}

impl IntoStop for Diagnostic {
    fn into_stop(self) -> Stop {
        Stop::Error(Box::new(self))
    }
}
