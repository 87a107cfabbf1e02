//! Integer expressions in Python, for formulas of the harness. `//` and `%` round there as in the IR.

use super::expr::constant;
use super::idents::plain;
use kbc_ir::expr::{BinOp, Expr, UnOp};

const SELECT: u8 = 1;
const OR: u8 = 2;
const AND: u8 = 3;
const NOT: u8 = 4;
const COMPARE: u8 = 5;
const BIT_OR: u8 = 6;
const XOR: u8 = 7;
const BIT_AND: u8 = 8;
const SHIFT: u8 = 9;
const ADD: u8 = 10;
const MUL: u8 = 11;
const UNARY: u8 = 12;
const ATOM: u8 = 13;

/// The expression as Python. Variables are called as in the IR, a table is a list of its name.
pub fn python_expr(e: &Expr) -> String {
    value(e, 0)
}

fn wrap(text: String, strength: u8, outer: u8) -> String {
    if strength < outer { format!("({text})") } else { text }
}

fn is_bool(e: &Expr) -> bool {
    use BinOp::*;
    matches!(e, Expr::Un(UnOp::Not, _) | Expr::Bin(And | Or | Eq | Ne | Lt | Le | Gt | Ge, ..))
}

fn value(e: &Expr, outer: u8) -> String {
    if let Some(v) = constant(e) {
        return wrap(v.to_string(), if v < 0 { UNARY } else { ATOM }, outer);
    }
    if is_bool(e) {
        return format!("int({})", truth(e, 0));
    }
    match e {
        Expr::Int(v) => v.to_string(),
        Expr::Var(n) => plain(n),
        Expr::Table(n, i) => format!("{}[{}]", plain(n), value(i, 0)),
        Expr::Select(c, a, b) => {
            let (c, a, b) = (truth(c, OR), value(a, OR), value(b, SELECT));
            wrap(format!("{a} if {c} else {b}"), SELECT, outer)
        }
        Expr::Un(UnOp::Neg, a) => wrap(format!("-{}", value(a, UNARY)), UNARY, outer),
        Expr::Un(UnOp::Log2, a) => wrap(format!("({}).bit_length() - 1", value(a, 0)), ADD, outer),
        Expr::Un(UnOp::CeilLog2, a) => format!("({} - 1).bit_length()", value(a, ADD)),
        Expr::Un(UnOp::Popcount, a) => {
            format!("bin({} & 0xFFFFFFFFFFFFFFFF).count(\"1\")", value(a, BIT_AND))
        }
        Expr::Un(UnOp::Abs, a) => format!("abs({})", value(a, 0)),
        Expr::Un(UnOp::Sign, a) => {
            let a = value(a, COMPARE + 1);
            wrap(format!("({a} > 0) - ({a} < 0)"), ADD, outer)
        }
        // Truth is above.
        Expr::Un(UnOp::Not, _) => truth(e, outer),
        Expr::Bin(op, a, b) => binary(*op, a, b, outer),
    }
}

fn binary(op: BinOp, a: &Expr, b: &Expr, outer: u8) -> String {
    let (sign, strength) = match op {
        BinOp::Add => ("+", ADD),
        BinOp::Sub => ("-", ADD),
        BinOp::Mul => ("*", MUL),
        BinOp::Div => ("//", MUL),
        BinOp::Mod => ("%", MUL),
        BinOp::BitAnd => ("&", BIT_AND),
        BinOp::BitOr => ("|", BIT_OR),
        BinOp::Xor => ("^", XOR),
        BinOp::Shl => ("<<", SHIFT),
        BinOp::Shr => (">>", SHIFT),
        BinOp::Min => return format!("min({}, {})", value(a, 0), value(b, 0)),
        BinOp::Max => return format!("max({}, {})", value(a, 0), value(b, 0)),
        BinOp::And | BinOp::Or | BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => {
            return compare(op, a, b, outer);
        }
    };
    wrap(format!("{} {sign} {}", value(a, strength), value(b, strength + 1)), strength, outer)
}

fn compare(op: BinOp, a: &Expr, b: &Expr, outer: u8) -> String {
    match op {
        BinOp::And => wrap(format!("{} and {}", truth(a, AND), truth(b, AND)), AND, outer),
        BinOp::Or => wrap(format!("{} or {}", truth(a, OR), truth(b, OR)), OR, outer),
        // Comparisons chain in Python: an operand that is one stands in `int(..)`.
        _ => {
            let text = format!("{} {} {}", value(a, COMPARE + 1), op.symbol(), value(b, COMPARE + 1));
            wrap(text, COMPARE, outer)
        }
    }
}

/// As a condition.
fn truth(e: &Expr, outer: u8) -> String {
    match e {
        Expr::Un(UnOp::Not, a) => wrap(format!("not {}", truth(a, NOT)), NOT, outer),
        Expr::Bin(op, a, b) if is_bool(e) => compare(*op, a, b, outer),
        _ => wrap(format!("{} != 0", value(e, COMPARE + 1)), COMPARE, outer),
    }
}
