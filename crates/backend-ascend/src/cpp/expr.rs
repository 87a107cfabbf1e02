//! C++ printer for integer expressions.
//!
//! The module owns precedence, and the decision which operations of the IR are operators of C++:
//! `/` and `%` are used only if neither side can be negative, otherwise a helper function is
//! called. Every value is an `int64_t`; a comparison that is used as a number is converted first.

use super::helpers::{Helper, Helpers};
pub use super::idents::{Plain, Vars};
use kbc_ir::expr::{BinOp, Expr, UnOp, apply_bin, apply_un};
use kbc_ir::name::Name;
use kbc_tiles::range::range;

/// Binding strengths of C++ operators, the weakest first.
const TERNARY: u8 = 1;
const OR: u8 = 2;
const AND: u8 = 3;
const BIT_OR: u8 = 4;
const XOR: u8 = 5;
const BIT_AND: u8 = 6;
const EQUAL: u8 = 7;
const ORDER: u8 = 8;
const SHIFT: u8 = 9;
pub(super) const ADD: u8 = 10;
pub(super) const MUL: u8 = 11;
const UNARY: u8 = 12;

/// Prints an expression as C++. Adds the helper functions that it needs to `used`.
pub fn print(e: &Expr, vars: &impl Vars, used: &mut Helpers) -> String {
    Printer { vars, used }.value(e, 0)
}

/// Prints an expression as a condition, which holds if the value is not 0.
pub(super) fn condition(e: &Expr, vars: &impl Vars, used: &mut Helpers) -> String {
    Printer { vars, used }.truth(e, 0)
}

/// Prints an expression, in parentheses if it binds weaker than `outer`.
pub(super) fn operand(e: &Expr, outer: u8, vars: &impl Vars, used: &mut Helpers) -> String {
    Printer { vars, used }.value(e, outer)
}

/// Returns the value of an expression without variables and tables.
pub(super) fn constant(e: &Expr) -> Option<i64> {
    match e {
        Expr::Int(v) => Some(*v),
        Expr::Var(_) | Expr::Table(..) => None,
        Expr::Un(op, a) => apply_un(*op, constant(a)?).ok(),
        Expr::Bin(op, a, b) => apply_bin(*op, constant(a)?, constant(b)?).ok(),
        Expr::Select(c, a, b) => constant(if constant(c)? != 0 { a } else { b }),
    }
}

/// Checks whether the expression has type `bool` in C++.
fn is_bool(e: &Expr) -> bool {
    matches!(
        e,
        Expr::Un(UnOp::Not, _)
            | Expr::Bin(
                BinOp::And
                    | BinOp::Or
                    | BinOp::Eq
                    | BinOp::Ne
                    | BinOp::Lt
                    | BinOp::Le
                    | BinOp::Gt
                    | BinOp::Ge,
                ..
            )
    )
}

fn literal(v: i64) -> String {
    // The smallest value has no literal: `-` would be applied to a number that does not fit.
    if v == i64::MIN { format!("(-{} - 1)", i64::MAX) } else { v.to_string() }
}

fn infix(op: BinOp) -> (&'static str, u8) {
    match op {
        BinOp::Add => ("+", ADD),
        BinOp::Sub => ("-", ADD),
        BinOp::Mul => ("*", MUL),
        BinOp::Div => ("/", MUL),
        BinOp::Mod => ("%", MUL),
        BinOp::And => ("&&", AND),
        BinOp::Or => ("||", OR),
        BinOp::BitAnd => ("&", BIT_AND),
        BinOp::BitOr => ("|", BIT_OR),
        BinOp::Xor => ("^", XOR),
        BinOp::Shl => ("<<", SHIFT),
        BinOp::Shr => (">>", SHIFT),
        BinOp::Eq => ("==", EQUAL),
        BinOp::Ne => ("!=", EQUAL),
        BinOp::Lt => ("<", ORDER),
        BinOp::Le => ("<=", ORDER),
        BinOp::Gt => (">", ORDER),
        BinOp::Ge => (">=", ORDER),
        // These are printed as calls and never reach this place.
        BinOp::Min | BinOp::Max => (",", 0),
    }
}

struct Printer<'a, V> {
    vars: &'a V,
    used: &'a mut Helpers,
}

impl<V: Vars> Printer<'_, V> {
    /// Prints an expression as a number, in parentheses if it binds weaker than `outer`.
    fn value(&mut self, e: &Expr, outer: u8) -> String {
        if let Some(v) = constant(e) {
            let text = literal(v);
            return if v < 0 && outer > ADD && v != i64::MIN { format!("({text})") } else { text };
        }
        if is_bool(e) && outer > 0 {
            return format!("int64_t{{{}}}", self.truth(e, 0));
        }
        match e {
            // Not reached: constants are handled above.
            Expr::Int(v) => literal(*v),
            Expr::Var(n) => self.vars.ident(n),
            Expr::Table(n, i) => {
                let at = self.value(i, 0);
                self.call(Helper::Entry, &[self.vars.table(n), at])
            }
            Expr::Un(UnOp::Not, _) => self.truth(e, outer),
            Expr::Un(UnOp::Neg, a) => wrap(format!("-{}", self.value(a, UNARY + 1)), UNARY, outer),
            Expr::Un(op, a) => {
                let a = self.value(a, 0);
                let helper = match op {
                    UnOp::Log2 => Helper::Log2,
                    UnOp::CeilLog2 => Helper::CeilLog2,
                    UnOp::Popcount => Helper::Popcount,
                    UnOp::Abs => Helper::Abs,
                    _ => Helper::Sign,
                };
                self.call(helper, &[a])
            }
            Expr::Select(c, a, b) => {
                let (c, a, b) =
                    (self.truth(c, TERNARY + 1), self.value(a, TERNARY + 1), self.value(b, TERNARY + 1));
                wrap(format!("{c} ? {a} : {b}"), TERNARY, outer)
            }
            Expr::Bin(BinOp::Min | BinOp::Max, ..) => self.extreme(e),
            Expr::Bin(op, a, b) => self.binary(*op, a, b, outer),
        }
    }

    fn call(&mut self, helper: Helper, args: &[String]) -> String {
        self.used.insert(helper);
        format!("{}({})", helper.name(), args.join(", "))
    }

    fn extreme(&mut self, e: &Expr) -> String {
        let Expr::Bin(op, a, b) = e else { return self.value(e, 0) };
        let (a, b) = (self.value(a, 0), self.value(b, 0));
        self.call(if *op == BinOp::Min { Helper::Min } else { Helper::Max }, &[a, b])
    }

    fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr, outer: u8) -> String {
        if is_bool(&Expr::Bin(op, Expr::Int(0).into(), Expr::Int(0).into())) {
            return self.comparison(op, a, b, outer);
        }
        if matches!(op, BinOp::Div | BinOp::Mod) {
            let of = |e: &Expr| range(e, &|n: &Name| self.vars.range(n));
            if !(of(a).nonnegative() && of(b).positive()) {
                let (a, b) = (self.value(a, 0), self.value(b, 0));
                return self.call(if op == BinOp::Div { Helper::DivFloor } else { Helper::Mod }, &[a, b]);
            }
        }
        let (sign, strength) = infix(op);
        // Parentheses around operands of less familiar operators, whose precedence readers would
        // look up.
        let plain = matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Mod);
        let (left, right) = match plain {
            true => (strength, strength + 1),
            false => (UNARY, UNARY),
        };
        let mut x = self.value(a, left);
        // A literal is an `int`; shifting it by 32 or more would be undefined.
        if op == BinOp::Shl && constant(a).is_some() {
            x = format!("int64_t{{{x}}}");
        }
        let y = self.value(b, right);
        wrap(format!("{x} {sign} {y}"), strength, outer)
    }

    fn comparison(&mut self, op: BinOp, a: &Expr, b: &Expr, outer: u8) -> String {
        let (sign, strength) = infix(op);
        let (x, y) = match op {
            BinOp::And => (self.truth(a, strength), self.truth(b, strength)),
            // Compilers ask for parentheses in `a && b || c`.
            BinOp::Or => {
                let mut side = |e: &Expr| match e {
                    Expr::Bin(BinOp::And, ..) => self.truth(e, UNARY),
                    e => self.truth(e, strength),
                };
                (side(a), side(b))
            }
            _ => (self.value(a, SHIFT), self.value(b, SHIFT)),
        };
        wrap(format!("{x} {sign} {y}"), strength, outer)
    }

    /// Prints an expression as a condition.
    fn truth(&mut self, e: &Expr, outer: u8) -> String {
        match (constant(e), e) {
            (Some(v), _) => if v != 0 { "true" } else { "false" }.into(),
            (_, Expr::Un(UnOp::Not, a)) => format!("!{}", self.truth(a, UNARY + 1)),
            (_, Expr::Bin(op, a, b)) if is_bool(e) => self.comparison(*op, a, b, outer),
            _ => wrap(format!("{} != 0", self.value(e, SHIFT)), EQUAL, outer),
        }
    }
}

fn wrap(text: String, strength: u8, outer: u8) -> String {
    if strength < outer { format!("({text})") } else { text }
}
