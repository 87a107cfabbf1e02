//! Integer expressions in C++.
//!
//! Owns precedence, and where an operation of the IR is one of C++: `/` and `%` only where neither side can be
//! negative, a helper otherwise. Every value is `int64_t`; a comparison used as a number is converted first.

use super::helpers::{Helper, Helpers};
use crate::range::{Range, known, range};
use kbc_ir::expr::{BinOp, Expr, UnOp, apply_bin, apply_un};
use kbc_ir::name::Name;

/// Binding strengths of C++.
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

/// The variables of an expression: what each is called in the text, and what is known of it.
pub trait Vars {
    /// What the variable is called.
    fn ident(&self, name: &Name) -> String;
    /// Bounds of its value.
    fn range(&self, name: &Name) -> Range;
    /// What the table is called: a pointer to `int32_t`.
    fn table(&self, name: &Name) -> String;
}

/// Variables called as in the IR, known by name alone.
pub struct Plain;

impl Vars for Plain {
    fn ident(&self, name: &Name) -> String {
        super::idents::plain(name)
    }
    fn range(&self, name: &Name) -> Range {
        known(name)
    }
    fn table(&self, name: &Name) -> String {
        super::idents::plain(name)
    }
}

/// The expression as C++. Helper functions it needs are added to `used`.
pub fn print(e: &Expr, vars: &impl Vars, used: &mut Helpers) -> String {
    Printer { vars, used }.value(e, 0)
}

/// The expression as a condition: truth is not 0.
pub(super) fn condition(e: &Expr, vars: &impl Vars, used: &mut Helpers) -> String {
    Printer { vars, used }.truth(e, 0)
}

/// The expression in parentheses if it binds weaker than `outer`.
pub(super) fn operand(e: &Expr, outer: u8, vars: &impl Vars, used: &mut Helpers) -> String {
    Printer { vars, used }.value(e, outer)
}

/// Value of an expression without variables and tables.
pub(super) fn constant(e: &Expr) -> Option<i64> {
    match e {
        Expr::Int(v) => Some(*v),
        Expr::Var(_) | Expr::Table(..) => None,
        Expr::Un(op, a) => apply_un(*op, constant(a)?).ok(),
        Expr::Bin(op, a, b) => apply_bin(*op, constant(a)?, constant(b)?).ok(),
        Expr::Select(c, a, b) => constant(if constant(c)? != 0 { a } else { b }),
    }
}

/// Whether C++ sees a `bool`.
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
    // The least value has no literal of its own: it is a minus sign before a number that does not fit.
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
        // Calls, never asked for.
        BinOp::Min | BinOp::Max => (",", 0),
    }
}

struct Printer<'a, V> {
    vars: &'a V,
    used: &'a mut Helpers,
}

impl<V: Vars> Printer<'_, V> {
    /// As a number, for a place where something weaker than `outer` needs parentheses.
    fn value(&mut self, e: &Expr, outer: u8) -> String {
        if let Some(v) = constant(e) {
            let text = literal(v);
            return if v < 0 && outer > ADD && v != i64::MIN { format!("({text})") } else { text };
        }
        if is_bool(e) && outer > 0 {
            return format!("int64_t{{{}}}", self.truth(e, 0));
        }
        match e {
            // Constants are above.
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
        // Where people have to look up what binds tighter, parentheses say it.
        let plain = matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Mod);
        let (left, right) = match plain {
            true => (strength, strength + 1),
            false => (UNARY, UNARY),
        };
        let mut x = self.value(a, left);
        // A literal is an `int`, and shifted by 32 it would be gone.
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
            // `a && b || c` is asked for parentheses by compilers.
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

    /// As a condition.
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
