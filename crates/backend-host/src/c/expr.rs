//! C printer for integer expressions.
//!
//! Every value is an `int64_t`. Quotients round down and remainders have the sign of the divisor,
//! as in the IR; functions of `kbc_host.h` compute them where C would not.

use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_ir::name::Name;

/// Strength of `+` and `-`.
pub const ADD: u8 = 1;
/// Strength of `*`.
pub const MUL: u8 = 2;
/// Strength of what needs no parentheses.
pub const ATOM: u8 = 3;

/// A name in an expression. Variables and tables may have the same names.
#[derive(Clone, Copy)]
pub enum Named<'e> {
    /// A variable.
    Variable(&'e Name),
    /// A table.
    Table(&'e Name),
}

/// Prints an expression, in parentheses if it binds weaker than `outer`.
pub fn print(e: &Expr, outer: u8, ident: &dyn Fn(Named<'_>) -> String) -> String {
    let sub = |e: &Expr, outer: u8| print(e, outer, ident);
    let wrap = |text: String, strength: u8| if strength < outer { format!("({text})") } else { text };
    match e {
        Expr::Int(v) if *v == i64::MIN => format!("(-{} - 1)", i64::MAX),
        Expr::Int(v) if *v < 0 => wrap(v.to_string(), 0),
        Expr::Int(v) => v.to_string(),
        Expr::Var(n) => ident(Named::Variable(n)),
        Expr::Table(n, i) => format!("{}[{}]", ident(Named::Table(n)), sub(i, 0)),
        Expr::Un(op, a) => match op {
            UnOp::Neg => wrap(format!("-{}", sub(a, ATOM)), 0),
            UnOp::Not => format!("(int64_t)({} == 0)", sub(a, ATOM)),
            UnOp::Log2 => format!("kbc_log2({})", sub(a, 0)),
            UnOp::CeilLog2 => format!("kbc_ceil_log2({})", sub(a, 0)),
            UnOp::Popcount => format!("kbc_popcount({})", sub(a, 0)),
            UnOp::Abs => format!("kbc_abs({})", sub(a, 0)),
            UnOp::Sign => format!("kbc_sign({})", sub(a, 0)),
        },
        Expr::Select(c, a, b) => {
            wrap(format!("{} != 0 ? {} : {}", sub(c, ATOM), sub(a, ATOM), sub(b, ATOM)), 0)
        }
        Expr::Bin(op, a, b) => {
            let call = |name: &str| format!("{name}({}, {})", sub(a, 0), sub(b, 0));
            let truth = |sign: &str| format!("(int64_t)({} {sign} {})", sub(a, ATOM), sub(b, ATOM));
            let bits = |sign: &str| wrap(format!("{} {sign} {}", sub(a, ATOM), sub(b, ATOM)), 0);
            match op {
                BinOp::Add => wrap(format!("{} + {}", sub(a, ADD), sub(b, MUL)), ADD),
                BinOp::Sub => wrap(format!("{} - {}", sub(a, ADD), sub(b, MUL)), ADD),
                BinOp::Mul => wrap(format!("{} * {}", sub(a, MUL), sub(b, ATOM)), MUL),
                BinOp::Div => call("kbc_div"),
                BinOp::Mod => call("kbc_mod"),
                BinOp::Min => call("kbc_min"),
                BinOp::Max => call("kbc_max"),
                BinOp::And => format!("(int64_t)({} != 0 && {} != 0)", sub(a, ATOM), sub(b, ATOM)),
                BinOp::Or => format!("(int64_t)({} != 0 || {} != 0)", sub(a, ATOM), sub(b, ATOM)),
                BinOp::BitAnd => bits("&"),
                BinOp::BitOr => bits("|"),
                BinOp::Xor => bits("^"),
                BinOp::Shl => wrap(format!("(int64_t)((uint64_t)({}) << {})", sub(a, 0), sub(b, ATOM)), 0),
                BinOp::Shr => bits(">>"),
                BinOp::Eq => truth("=="),
                BinOp::Ne => truth("!="),
                BinOp::Lt => truth("<"),
                BinOp::Le => truth("<="),
                BinOp::Gt => truth(">"),
                BinOp::Ge => truth(">="),
            }
        }
    }
}
