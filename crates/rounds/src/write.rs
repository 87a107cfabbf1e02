//! Printing of expressions, with no more parentheses than necessary.

use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};

/// Prints an expression in the notation of the language.
pub fn expr(e: &Expr) -> String {
    let mut out = String::new();
    put(e, 0, &mut out);
    out
}

/// Returns the symbol of an operator and its precedence.
fn sign(op: BinaryOp) -> (&'static str, u8) {
    match op {
        BinaryOp::Or => ("||", 1),
        BinaryOp::And => ("&&", 2),
        BinaryOp::Eq => ("==", 3),
        BinaryOp::Ne => ("!=", 3),
        BinaryOp::Lt => ("<", 3),
        BinaryOp::Le => ("<=", 3),
        BinaryOp::Gt => (">", 3),
        BinaryOp::Ge => (">=", 3),
        BinaryOp::BitOr => ("|", 4),
        BinaryOp::BitXor => ("^", 5),
        BinaryOp::BitAnd => ("&", 6),
        BinaryOp::Shl => ("<<", 7),
        BinaryOp::Shr => (">>", 7),
        BinaryOp::Add => ("+", 8),
        BinaryOp::Sub => ("-", 8),
        BinaryOp::Mul => ("*", 9),
        BinaryOp::Div => ("/", 9),
        BinaryOp::Rem => ("%", 9),
    }
}

impl BinaryOp {
    /// Returns how tightly the operator binds its operands: operators of higher precedence first.
    /// All are left associative.
    pub fn precedence(self) -> u8 {
        sign(self).1
    }
}

/// Precedence of unary operators.
const UNARY: u8 = 10;

fn put(e: &Expr, outside: u8, out: &mut String) {
    match &e.kind {
        ExprKind::Int(i) => *out += &i.to_string(),
        ExprKind::Float(f) => *out += &f.to_string(),
        ExprKind::Bool(b) => *out += &b.to_string(),
        ExprKind::Name(n) => *out += n,
        ExprKind::Call(f, args) => {
            *out += &f.node;
            list(args, out);
        }
        ExprKind::Tuple(parts) => list(parts, out),
        ExprKind::Unary(op, a) => {
            *out += if *op == UnaryOp::Neg { "-" } else { "!" };
            put(a, UNARY, out);
        }
        ExprKind::Binary(op, a, b) => {
            let (text, binds) = sign(*op);
            if binds < outside {
                out.push('(');
            }
            // In `1 << (k + 1)` and `(r + d) ^ 1`, parentheses are kept for readability.
            let shifts = (5..=7).contains(&binds);
            let same = matches!(&a.kind, ExprKind::Binary(o, ..) if o == op);
            put(a, if shifts && !same { UNARY } else { binds }, out);
            *out += &format!(" {text} ");
            put(b, if shifts { UNARY } else { binds + 1 }, out);
            if binds < outside {
                out.push(')');
            }
        }
        ExprKind::If(c, a, b) => {
            *out += "if ";
            put(c, 0, out);
            *out += " ";
            block(a, out);
            *out += " else ";
            block(b, out);
        }
        ExprKind::Let(..) => block(e, out),
        ExprKind::Fold(op, e, gens) => {
            *out += op.word();
            out.push('(');
            put(e, 0, out);
            let mut word = " for ";
            for (name, range) in &gens.vars {
                *out += &format!("{word}{} in ", name.node);
                put(&range.lo, 0, out);
                *out += "..";
                put(&range.hi, 0, out);
                word = ", ";
            }
            if let Some(c) = &gens.cond {
                *out += " if ";
                put(c, 0, out);
            }
            out.push(')');
        }
        ExprKind::Error => *out += "?",
    }
}

/// Prints an expression in braces. The `let`s with which it begins need no further braces.
fn block(e: &Expr, out: &mut String) {
    *out += "{ ";
    let mut e = e;
    while let ExprKind::Let(lets, inner) = &e.kind {
        for (name, value) in lets {
            *out += &format!("let {} = ", name.node);
            put(value, 0, out);
            *out += "; ";
        }
        e = inner;
    }
    put(e, 0, out);
    *out += " }";
}

fn list(parts: &[Expr], out: &mut String) {
    out.push('(');
    for (i, p) in parts.iter().enumerate() {
        if i > 0 {
            *out += ", ";
        }
        put(p, 0, out);
    }
    out.push(')');
}

/// Returns how a message writes the selection `[index; len for ..]`, without its brackets.
pub(crate) fn selector_text(index: &Expr, len: Option<&Expr>, listed: bool) -> String {
    let len = len.map_or(String::new(), |l| format!("; {}", expr(l)));
    format!("{}{len}{}", expr(index), if listed { " for .." } else { "" })
}
