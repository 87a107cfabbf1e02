//! Integer expressions over rank coordinates, loop steps and the call number.
//!
//! Peers, chunks, slots, signals, epochs and extents of a schedule are such expressions, so that a
//! schedule is as short for 10,000 ranks as for four. Truth values are 1 and 0. Division rounds
//! down and `%` has the sign of the divisor, as in the algorithm language.

use crate::name::Name;
use std::fmt;
use std::sync::Arc;

/// Returns the greatest common divisor; `gcd(0, n) = n`. The analyses of periods and alignments of
/// expressions use it.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// An integer expression whose variables and tables are named by values of type `V`: by names in
/// [`Expr`], by numbers in [`crate::resolved::Resolved`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tree<V> {
    /// A constant.
    Int(i64),
    /// A variable: a coordinate, a step, `call`, or a mesh axis.
    Var(V),
    /// An operation on one operand.
    Un(UnOp, Arc<Tree<V>>),
    /// An operation on two operands.
    Bin(BinOp, Arc<Tree<V>>, Arc<Tree<V>>),
    /// `if c { a } else { b }`: `a` if `c` is not 0, otherwise `b`. Only the chosen operand is
    /// evaluated.
    Select(Arc<Tree<V>>, Arc<Tree<V>>, Arc<Tree<V>>),
    /// `@name[index]`: an entry of a table of the schedule.
    Table(V, Arc<Tree<V>>),
}

/// An integer expression with names.
pub type Expr = Tree<Name>;

/// Operation on one operand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum UnOp {
    /// `-a`.
    Neg,
    /// `!a`: 1 if a is 0, otherwise 0.
    Not,
    /// `log2(a)`, rounded down; an error if a < 1.
    Log2,
    /// `ceil_log2(a)`: the logarithm rounded up; an error if a < 1.
    CeilLog2,
    /// `popcount(a)`: the number of one bits.
    Popcount,
    /// `abs(a)`.
    Abs,
    /// `sign(a)`: -1, 0 or 1.
    Sign,
}

/// Operation on two operands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the names are the operators")]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    /// Rounds down.
    Div,
    /// Has the sign of the divisor.
    Mod,
    Min,
    Max,
    And,
    Or,
    BitAnd,
    BitOr,
    Xor,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Reason why an expression has no value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EvalError {
    /// The variable is not bound.
    Unbound(Name),
    /// The table does not exist, or the index is outside it.
    Table(Name, i64),
    /// Division or `%` by zero, logarithm of a value less than one, shift by an amount outside
    /// 0..63, or overflow.
    Arithmetic(String),
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvalError::Unbound(n) => write!(f, "`{n}` has no value here"),
            EvalError::Table(n, i) => write!(f, "table @{n} has no entry {i}"),
            EvalError::Arithmetic(s) => f.write_str(s),
        }
    }
}

/// Values of the variables and tables of an expression.
pub trait Env {
    /// Returns the value of a variable.
    fn var(&self, name: &Name) -> Option<i64>;
    /// Returns an entry of a table.
    fn table(&self, _name: &Name, _index: i64) -> Option<i64> {
        None
    }
}

impl<F: Fn(&Name) -> Option<i64>> Env for F {
    fn var(&self, name: &Name) -> Option<i64> {
        self(name)
    }
}

/// Applies a unary operation.
pub fn apply_un(op: UnOp, a: i64) -> Result<i64, EvalError> {
    let overflow = || EvalError::Arithmetic(format!("overflow in {op:?} of {a}"));
    Ok(match op {
        UnOp::Neg => a.checked_neg().ok_or_else(overflow)?,
        UnOp::Not => (a == 0) as i64,
        UnOp::Log2 | UnOp::CeilLog2 if a < 1 => {
            return Err(EvalError::Arithmetic(format!("log2 of {a}, which is less than 1")));
        }
        UnOp::Log2 => a.ilog2() as i64,
        UnOp::CeilLog2 => (64 - (a - 1).leading_zeros()) as i64,
        UnOp::Popcount => a.count_ones() as i64,
        UnOp::Abs => a.checked_abs().ok_or_else(overflow)?,
        UnOp::Sign => a.signum(),
    })
}

/// Applies a binary operation.
pub fn apply_bin(op: BinOp, a: i64, b: i64) -> Result<i64, EvalError> {
    let overflow = || EvalError::Arithmetic(format!("overflow in {a} {} {b}", op.symbol()));
    Ok(match op {
        BinOp::Add => a.checked_add(b).ok_or_else(overflow)?,
        BinOp::Sub => a.checked_sub(b).ok_or_else(overflow)?,
        BinOp::Mul => a.checked_mul(b).ok_or_else(overflow)?,
        BinOp::Div | BinOp::Mod if b == 0 => {
            return Err(EvalError::Arithmetic(format!("{a} {} 0", op.symbol())));
        }
        BinOp::Div => {
            let q = a.checked_div(b).ok_or_else(overflow)?;
            if a % b != 0 && ((a < 0) != (b < 0)) { q - 1 } else { q }
        }
        BinOp::Mod => {
            let m = a.checked_rem(b).ok_or_else(overflow)?;
            if m != 0 && ((m < 0) != (b < 0)) { m + b } else { m }
        }
        BinOp::Min => a.min(b),
        BinOp::Max => a.max(b),
        BinOp::And => (a != 0 && b != 0) as i64,
        BinOp::Or => (a != 0 || b != 0) as i64,
        BinOp::BitAnd => a & b,
        BinOp::BitOr => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Shl | BinOp::Shr if !(0..63).contains(&b) => {
            return Err(EvalError::Arithmetic(format!("shift by {b}")));
        }
        BinOp::Shl => {
            let v = a << b;
            if v >> b != a {
                return Err(overflow());
            }
            v
        }
        BinOp::Shr => a >> b,
        BinOp::Eq => (a == b) as i64,
        BinOp::Ne => (a != b) as i64,
        BinOp::Lt => (a < b) as i64,
        BinOp::Le => (a <= b) as i64,
        BinOp::Gt => (a > b) as i64,
        BinOp::Ge => (a >= b) as i64,
    })
}

impl BinOp {
    /// All operations on two operands.
    pub const ALL: [BinOp; 20] = [
        BinOp::Add,
        BinOp::Sub,
        BinOp::Mul,
        BinOp::Div,
        BinOp::Mod,
        BinOp::Min,
        BinOp::Max,
        BinOp::And,
        BinOp::Or,
        BinOp::BitAnd,
        BinOp::BitOr,
        BinOp::Xor,
        BinOp::Shl,
        BinOp::Shr,
        BinOp::Eq,
        BinOp::Ne,
        BinOp::Lt,
        BinOp::Le,
        BinOp::Gt,
        BinOp::Ge,
    ];

    /// Returns the operator or function name in the text.
    pub fn symbol(self) -> &'static str {
        match self {
            BinOp::Add => "+",
            BinOp::Sub => "-",
            BinOp::Mul => "*",
            BinOp::Div => "/",
            BinOp::Mod => "%",
            BinOp::Min => "min",
            BinOp::Max => "max",
            BinOp::And => "&&",
            BinOp::Or => "||",
            BinOp::BitAnd => "&",
            BinOp::BitOr => "|",
            BinOp::Xor => "^",
            BinOp::Shl => "<<",
            BinOp::Shr => ">>",
            BinOp::Eq => "==",
            BinOp::Ne => "!=",
            BinOp::Lt => "<",
            BinOp::Le => "<=",
            BinOp::Gt => ">",
            BinOp::Ge => ">=",
        }
    }

    /// Returns the binding strength; a larger one binds tighter. `min` and `max` are written as
    /// calls.
    pub fn strength(self) -> u8 {
        match self {
            BinOp::Or => 1,
            BinOp::And => 2,
            BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => 3,
            BinOp::BitOr => 4,
            BinOp::Xor => 5,
            BinOp::BitAnd => 6,
            BinOp::Shl | BinOp::Shr => 7,
            BinOp::Add | BinOp::Sub => 8,
            BinOp::Mul | BinOp::Div | BinOp::Mod => 9,
            BinOp::Min | BinOp::Max => 11,
        }
    }
}

impl UnOp {
    /// All operations on one operand.
    pub const ALL: [UnOp; 7] =
        [UnOp::Neg, UnOp::Not, UnOp::Log2, UnOp::CeilLog2, UnOp::Popcount, UnOp::Abs, UnOp::Sign];

    /// Returns the operator or function name in the text: `-` and `!` are prefixes, the others are
    /// calls.
    pub fn symbol(self) -> &'static str {
        match self {
            UnOp::Neg => "-",
            UnOp::Not => "!",
            UnOp::Log2 => "log2",
            UnOp::CeilLog2 => "ceil_log2",
            UnOp::Popcount => "popcount",
            UnOp::Abs => "abs",
            UnOp::Sign => "sign",
        }
    }
}

impl<V> From<i64> for Tree<V> {
    fn from(v: i64) -> Self {
        Tree::Int(v)
    }
}

impl<V> Tree<V> {
    /// Evaluates the expression, given the values of variables and of entries of tables. Operands
    /// that do not matter are not evaluated: those of `&&` and `||` whose left side decides, and
    /// the other branch of a selection.
    pub fn evaluate(
        &self,
        var: &impl Fn(&V) -> Result<i64, EvalError>,
        table: &impl Fn(&V, i64) -> Result<i64, EvalError>,
    ) -> Result<i64, EvalError> {
        let value = |e: &Tree<V>| e.evaluate(var, table);
        Ok(match self {
            Tree::Int(v) => *v,
            Tree::Var(v) => var(v)?,
            Tree::Un(op, a) => apply_un(*op, value(a)?)?,
            Tree::Bin(BinOp::And, a, b) => (value(a)? != 0 && value(b)? != 0) as i64,
            Tree::Bin(BinOp::Or, a, b) => (value(a)? != 0 || value(b)? != 0) as i64,
            Tree::Bin(op, a, b) => apply_bin(*op, value(a)?, value(b)?)?,
            Tree::Select(c, a, b) => value(if value(c)? != 0 { a } else { b })?,
            Tree::Table(t, i) => table(t, value(i)?)?,
        })
    }
}

impl<V: Clone + PartialEq> Tree<V> {
    /// Creates `a op b`, folded if constants allow it.
    pub fn bin(op: BinOp, a: Tree<V>, b: Tree<V>) -> Tree<V> {
        fold_bin(op, a, b)
    }

    /// Creates `op a`, folded if `a` is a constant.
    pub fn un(op: UnOp, a: Tree<V>) -> Tree<V> {
        if let Tree::Int(v) = a
            && let Ok(v) = apply_un(op, v)
        {
            return Tree::Int(v);
        }
        Tree::Un(op, Arc::new(a))
    }

    /// Creates `if c { a } else { b }`, folded if the condition is a constant or both operands are
    /// equal.
    pub fn select(c: Tree<V>, a: Tree<V>, b: Tree<V>) -> Tree<V> {
        match c {
            Tree::Int(0) => b,
            Tree::Int(_) => a,
            _ if a == b => a,
            c => Tree::Select(Arc::new(c), Arc::new(a), Arc::new(b)),
        }
    }

    /// Creates `self mod k`.
    pub fn modulo(self, k: impl Into<Tree<V>>) -> Tree<V> {
        Tree::bin(BinOp::Mod, self, k.into())
    }

    /// Creates `ceil(self / k)` for k > 0.
    pub fn ceil_div(self, k: i64) -> Tree<V> {
        (self + Tree::Int(k - 1)) / Tree::Int(k)
    }

    /// Creates the conjunction `self && other`.
    pub fn and(self, other: Tree<V>) -> Tree<V> {
        Tree::bin(BinOp::And, self, other)
    }

    /// Creates the comparison `self == other`.
    pub fn equals(self, other: Tree<V>) -> Tree<V> {
        Tree::bin(BinOp::Eq, self, other)
    }

    /// Returns the value if the expression is a constant.
    pub fn as_int(&self) -> Option<i64> {
        if let Tree::Int(v) = self { Some(*v) } else { None }
    }

    /// Checks whether the expression is a constant other than 0.
    pub fn is_true(&self) -> bool {
        matches!(self, Tree::Int(v) if *v != 0)
    }

    /// Returns an equal expression in simpler form: like terms of sums are combined, the constant
    /// comes last, and repeated operands of conjunctions and disjunctions are removed.
    pub fn simplify(&self) -> Tree<V> {
        match self {
            Tree::Int(_) | Tree::Var(_) => self.clone(),
            Tree::Un(op, a) => Tree::un(*op, a.simplify()),
            Tree::Select(c, a, b) => Tree::select(c.simplify(), a.simplify(), b.simplify()),
            Tree::Table(n, i) => Tree::Table(n.clone(), Arc::new(i.simplify())),
            Tree::Bin(op, a, b) => join(*op, a.simplify(), b.simplify()),
        }
    }

    /// Checks whether the expression reads a table.
    pub fn has_table(&self) -> bool {
        match self {
            Tree::Int(_) | Tree::Var(_) => false,
            Tree::Un(_, a) => a.has_table(),
            Tree::Bin(_, a, b) => a.has_table() || b.has_table(),
            Tree::Select(c, a, b) => c.has_table() || a.has_table() || b.has_table(),
            Tree::Table(..) => true,
        }
    }
}

impl Expr {
    /// Creates a variable.
    pub fn var(name: impl Into<Name>) -> Expr {
        Expr::Var(name.into())
    }

    /// Evaluates the expression.
    pub fn eval(&self, env: &impl Env) -> Result<i64, EvalError> {
        self.evaluate(&|n| env.var(n).ok_or_else(|| EvalError::Unbound(n.clone())), &|n, i| {
            env.table(n, i).ok_or_else(|| EvalError::Table(n.clone(), i))
        })
    }

    /// Returns the expression with every variable replaced for which `f` returns an expression. The
    /// result is folded.
    pub fn subst(&self, f: &impl Fn(&Name) -> Option<Expr>) -> Expr {
        match self {
            Expr::Int(_) => self.clone(),
            Expr::Var(n) => f(n).unwrap_or_else(|| self.clone()),
            Expr::Un(op, a) => Expr::un(*op, a.subst(f)),
            Expr::Bin(op, a, b) => Expr::bin(*op, a.subst(f), b.subst(f)),
            Expr::Select(c, a, b) => Expr::select(c.subst(f), a.subst(f), b.subst(f)),
            Expr::Table(n, i) => Expr::Table(n.clone(), Arc::new(i.subst(f))),
        }
    }

    /// Calls `f` with each occurrence of a variable.
    pub fn vars(&self, f: &mut impl FnMut(&Name)) {
        match self {
            Expr::Int(_) => {}
            Expr::Var(n) => f(n),
            Expr::Un(_, a) | Expr::Table(_, a) => a.vars(f),
            Expr::Bin(_, a, b) => {
                a.vars(f);
                b.vars(f);
            }
            Expr::Select(c, a, b) => {
                c.vars(f);
                a.vars(f);
                b.vars(f);
            }
        }
    }

    /// Checks whether the variable occurs.
    pub fn mentions(&self, name: &str) -> bool {
        let mut hit = false;
        self.vars(&mut |n| hit |= n == name);
        hit
    }
}

fn fold_bin<V: Clone + PartialEq>(op: BinOp, a: Tree<V>, b: Tree<V>) -> Tree<V> {
    use BinOp::*;
    use Tree::Int;
    match (op, &a, &b) {
        (_, Int(x), Int(y)) => {
            if let Ok(v) = apply_bin(op, *x, *y) {
                return Int(v);
            }
        }
        (Add | Sub | BitOr | Xor | Shl | Shr, _, Int(0)) | (Mul | Div, _, Int(1)) => return a,
        (Add | BitOr | Xor, Int(0), _) | (Mul, Int(1), _) => return b,
        (Mul, _, Int(0)) | (Mul, Int(0), _) | (Mod, _, Int(1)) => return Int(0),
        (And, Int(0), _) | (And, _, Int(0)) => return Int(0),
        (Or, Int(v), _) if *v != 0 => return Int(1),
        (And, Int(_), _) if is_bool(&b) => return b,
        (And, _, Int(_)) if is_bool(&a) => return a,
        (Or, Int(0), _) if is_bool(&b) => return b,
        (Or, _, Int(0)) if is_bool(&a) => return a,
        (Eq | Le | Ge, x, y) if x == y => return Int(1),
        (Ne | Lt | Gt, x, y) if x == y => return Int(0),
        (Sub | Xor, x, y) if x == y => return Int(0),
        (Mul, Int(-1), _) => return Tree::un(UnOp::Neg, b),
        (Add, _, Int(v)) if *v < 0 && *v != i64::MIN => return fold_bin(Sub, a, Int(-v)),
        (Sub, _, Int(v)) if *v < 0 && *v != i64::MIN => return fold_bin(Add, a, Int(-v)),
        (Add, _, Tree::Un(UnOp::Neg, y)) => return fold_bin(Sub, a.clone(), (**y).clone()),
        (Sub, _, Tree::Un(UnOp::Neg, y)) => return fold_bin(Add, a.clone(), (**y).clone()),
        // (x + c) + d, (x - c) + d and so on: combine the constants.
        (Add | Sub, Tree::Bin(inner @ (Add | Sub), x, c), Int(d)) => {
            if let Int(c) = **c {
                let c = if *inner == Add { c } else { -c };
                let d = if op == Add { *d } else { -*d };
                if let Some(sum) = c.checked_add(d) {
                    return fold_bin(Add, (**x).clone(), Int(sum));
                }
            }
        }
        _ => {}
    }
    Tree::Bin(op, Arc::new(a), Arc::new(b))
}

/// Returns `a op b` in simplified form, for simplified operands.
pub fn join<V: Clone + PartialEq>(op: BinOp, a: Tree<V>, b: Tree<V>) -> Tree<V> {
    match (op, &a, &b) {
        (BinOp::Add | BinOp::Sub, _, _) => {
            let mut terms = vec![];
            let mut constant = 0i64;
            let whole = Tree::Bin(op, Arc::new(a.clone()), Arc::new(b.clone()));
            match add_terms(&whole, 1, &mut terms, &mut constant) {
                Some(()) => sum_of(&terms, constant),
                None => Tree::bin(op, a, b),
            }
        }
        (BinOp::And | BinOp::Or, x, y) if has_operand(op, x, y) => a,
        (BinOp::Xor, Tree::Bin(BinOp::Xor, x, m), n) if **m == *n => (**x).clone(),
        _ => Tree::bin(op, a, b),
    }
}

/// Checks whether `e` is the operand `part`, or a conjunction (disjunction) that has it among its
/// operands.
fn has_operand<V: PartialEq>(op: BinOp, e: &Tree<V>, part: &Tree<V>) -> bool {
    match e {
        Tree::Bin(o, x, y) if *o == op => has_operand(op, x, part) || has_operand(op, y, part),
        e => e == part,
    }
}

/// Collects the terms of a sum with their coefficients, in order of appearance. Returns `None` on
/// overflow.
fn add_terms<V: Clone + PartialEq>(
    e: &Tree<V>,
    sign: i64,
    terms: &mut Vec<(i64, Tree<V>)>,
    constant: &mut i64,
) -> Option<()> {
    match e {
        Tree::Int(v) => *constant = constant.checked_add(v.checked_mul(sign)?)?,
        Tree::Bin(BinOp::Add, a, b) => {
            add_terms(a, sign, terms, constant)?;
            add_terms(b, sign, terms, constant)?;
        }
        Tree::Bin(BinOp::Sub, a, b) => {
            add_terms(a, sign, terms, constant)?;
            add_terms(b, -sign, terms, constant)?;
        }
        Tree::Un(UnOp::Neg, a) => add_terms(a, -sign, terms, constant)?,
        e => match terms.iter_mut().find(|(_, t)| t == e) {
            Some((c, _)) => *c += sign,
            None => terms.push((sign, e.clone())),
        },
    }
    Some(())
}

fn sum_of<V: Clone + PartialEq>(terms: &[(i64, Tree<V>)], constant: i64) -> Tree<V> {
    let term = |c: i64, t: &Tree<V>| match c {
        1 => t.clone(),
        c => fold_bin(BinOp::Mul, t.clone(), Tree::Int(c)),
    };
    let mut rest: Vec<&(i64, Tree<V>)> = terms.iter().filter(|t| t.0 != 0).collect();
    // A positive term or the constant comes first, so that no sum begins with a minus sign.
    let mut constant = constant;
    let mut out = match rest.iter().position(|t| t.0 > 0) {
        Some(i) => {
            let (c, t) = rest.remove(i);
            term(*c, t)
        }
        None => Tree::Int(std::mem::take(&mut constant)),
    };
    for (c, t) in rest {
        let op = if *c > 0 { BinOp::Add } else { BinOp::Sub };
        out = fold_bin(op, out, term(c.abs(), t));
    }
    fold_bin(BinOp::Add, out, Tree::Int(constant))
}

fn is_bool<V>(e: &Tree<V>) -> bool {
    matches!(
        e,
        Tree::Bin(
            BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge | BinOp::And | BinOp::Or,
            ..
        ) | Tree::Un(UnOp::Not, _)
            | Tree::Int(0 | 1)
    )
}

macro_rules! operator {
    ($trait:ident, $fn:ident, $op:ident) => {
        impl<V: Clone + PartialEq> std::ops::$trait for Tree<V> {
            type Output = Tree<V>;
            fn $fn(self, other: Tree<V>) -> Tree<V> {
                Tree::bin(BinOp::$op, self, other)
            }
        }
    };
}
operator!(Add, add, Add);
operator!(Sub, sub, Sub);
operator!(Mul, mul, Mul);
operator!(Div, div, Div);

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_expr(self, 0, f)
    }
}

fn write_expr(e: &Expr, outer: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match e {
        Expr::Int(v) if *v < 0 && outer > 0 => write!(f, "({v})"),
        Expr::Int(v) => write!(f, "{v}"),
        Expr::Var(n) => write!(f, "{n}"),
        Expr::Un(op @ (UnOp::Neg | UnOp::Not), a) => {
            let paren = outer > 10;
            f.write_str(if paren { "(" } else { "" })?;
            f.write_str(op.symbol())?;
            // A constant operand keeps its own parentheses, so that `-(3)` and `-3` differ.
            if matches!(**a, Expr::Int(_)) {
                write!(f, "({a})")?
            } else {
                write_expr(a, 11, f)?
            }
            f.write_str(if paren { ")" } else { "" })
        }
        Expr::Un(op, a) => write!(f, "{}({a})", op.symbol()),
        Expr::Bin(op @ (BinOp::Min | BinOp::Max), a, b) => write!(f, "{}({a}, {b})", op.symbol()),
        Expr::Bin(op, a, b) => {
            let s = op.strength();
            let paren = s < outer;
            f.write_str(if paren { "(" } else { "" })?;
            write_expr(a, s, f)?;
            write!(f, " {} ", op.symbol())?;
            write_expr(b, s + 1, f)?;
            f.write_str(if paren { ")" } else { "" })
        }
        Expr::Select(c, a, b) => {
            let paren = outer > 0;
            f.write_str(if paren { "(" } else { "" })?;
            match **b {
                Expr::Select(..) => write!(f, "if {c} {{ {a} }} else {b}")?,
                _ => write!(f, "if {c} {{ {a} }} else {{ {b} }}")?,
            }
            f.write_str(if paren { ")" } else { "" })
        }
        Expr::Table(n, i) => write!(f, "@{n}[{i}]"),
    }
}
