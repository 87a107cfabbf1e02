//! Text of integer expressions and of the scalar expressions of elementwise functions: printing and
//! parsing.
//!
//! Parsing builds the tree as written, without folding, so that text and tree correspond one to
//! one.

use super::cursor::LineCursor;
use super::lex::{MAX_DEPTH, ParseResult, TokenKind};
use super::names::{replaced, unknown};
use super::words::quoted;
use crate::expr::{BinOp, Expr, UnOp};
use crate::name::Name;
use crate::scalar::{Compare, CompareOp, Scalar, ScalarBin, ScalarFn, ScalarUn, write_scalar};
use kbc_diag::{Diagnostic, Span};
use std::sync::Arc;

/// Most operations in one expression, because later passes recurse over expressions.
const MAX_SIZE: usize = 2000;

const INFIX: [BinOp; 18] = [
    BinOp::Add,
    BinOp::Sub,
    BinOp::Mul,
    BinOp::Div,
    BinOp::Mod,
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

const CALLS: [UnOp; 5] = [UnOp::Log2, UnOp::CeilLog2, UnOp::Popcount, UnOp::Abs, UnOp::Sign];

/// Binding strength of an operand that stands beside `*` without parentheses.
pub const ATOM: u8 = 10;

/// Prints an expression, in parentheses if it binds weaker than `outer`.
pub fn show(e: &Expr, outer: u8) -> String {
    let mut out = String::new();
    write(e, outer, &mut out);
    out
}

fn write(e: &Expr, outer: u8, out: &mut String) {
    let mut wrap = |inner: String, paren: bool| {
        if paren {
            out.push('(');
        }
        out.push_str(&inner);
        if paren {
            out.push(')');
        }
    };
    match e {
        Expr::Int(v) => wrap(v.to_string(), *v < 0 && outer > 0),
        Expr::Var(n) => wrap(variable(n), false),
        Expr::Un(op @ (UnOp::Neg | UnOp::Not), a) => {
            // A constant keeps its own parentheses, so that `-(3)` and `-3` differ.
            let inner = if matches!(**a, Expr::Int(_)) { format!("({})", show(a, 0)) } else { show(a, 11) };
            wrap(format!("{}{inner}", op.symbol()), outer > ATOM);
        }
        Expr::Un(op, a) => wrap(format!("{}({})", op.symbol(), show(a, 0)), false),
        Expr::Bin(op @ (BinOp::Min | BinOp::Max), a, b) => {
            wrap(format!("{}({}, {})", op.symbol(), show(a, 0), show(b, 0)), false);
        }
        Expr::Bin(op, a, b) => {
            let s = op.strength();
            wrap(format!("{} {} {}", show(a, s), op.symbol(), show(b, s + 1)), s < outer);
        }
        Expr::Select(c, a, b) => {
            let other = show(b, 0);
            let other = if matches!(**b, Expr::Select(..)) { other } else { format!("{{ {other} }}") };
            let text = format!("if {} {{ {} }} else {other}", show(c, 0), show(a, 0));
            wrap(text, outer > 0);
        }
        Expr::Table(n, i) => wrap(format!("@{}[{}]", quoted(n), show(i, 0)), false),
    }
}

/// Returns a variable as it stands in an expression, where `if` begins a choice.
fn variable(name: &str) -> String {
    if name == "if" { format!("`{name}`") } else { quoted(name) }
}

/// Reads an expression.
pub fn expr(c: &mut LineCursor) -> ParseResult<Expr> {
    c.size = 0;
    binary(c, 1)
}

/// Reads an expression that may stand beside `*`: an operand, a call, or an expression in
/// parentheses.
pub fn atom(c: &mut LineCursor) -> ParseResult<Expr> {
    c.size = 0;
    unary(c)
}

fn grow(c: &mut LineCursor) -> ParseResult<()> {
    c.size += 1;
    if c.size > MAX_SIZE {
        return Err(Diagnostic::error("E316", format!("an expression has more than {MAX_SIZE} operations"))
            .primary(c.here(), "here")
            .help("put constants into a table and read them with @name[index]"));
    }
    Ok(())
}

fn deeper<T>(c: &mut LineCursor, read: impl FnOnce(&mut LineCursor) -> ParseResult<T>) -> ParseResult<T> {
    c.depth += 1;
    if c.depth > MAX_DEPTH {
        return Err(Diagnostic::error(
            "E316",
            format!("an expression nests more than {MAX_DEPTH} levels deep"),
        )
        .primary(c.here(), "here"));
    }
    let out = read(c);
    c.depth -= 1;
    out
}

fn infix(c: &LineCursor) -> Option<BinOp> {
    match c.peek()? {
        TokenKind::Sym(s) => INFIX.into_iter().find(|o| o.symbol() == *s),
        _ => None,
    }
}

fn binary(c: &mut LineCursor, weakest: u8) -> ParseResult<Expr> {
    let mut left = unary(c)?;
    while let Some(op) = infix(c).filter(|o| o.strength() >= weakest) {
        c.skip();
        grow(c)?;
        let right = deeper(c, |c| binary(c, op.strength() + 1))?;
        left = Expr::Bin(op, Arc::new(left), Arc::new(right));
    }
    for (old, new) in [("mod", "%"), ("xor", "^")] {
        if c.is_word(old) {
            return Err(replaced(old, new, c.here()));
        }
    }
    if let Some(TokenKind::Percent(l)) = c.peek() {
        return Err(c.expected("an operator").help(format!("write a space after the operator: `% {l}`")));
    }
    Ok(left)
}

fn unary(c: &mut LineCursor) -> ParseResult<Expr> {
    if c.eat("-") {
        if let Some(TokenKind::Int(n)) = c.peek() {
            let n = *n;
            let v = if n == 1 << 63 { Some(i64::MIN) } else { i64::try_from(n).ok().map(|v| -v) };
            let out = v.map(Expr::Int).ok_or_else(|| too_large(c.here()));
            c.skip();
            return c.defer(out, || Expr::Int(0));
        }
        grow(c)?;
        return Ok(Expr::Un(UnOp::Neg, Arc::new(deeper(c, unary)?)));
    }
    if c.eat("!") {
        grow(c)?;
        return Ok(Expr::Un(UnOp::Not, Arc::new(deeper(c, unary)?)));
    }
    primary(c)
}

fn too_large(span: Span) -> Diagnostic {
    Diagnostic::error("E316", "the number does not fit in a signed 64-bit integer").primary(span, "here")
}

fn primary(c: &mut LineCursor) -> ParseResult<Expr> {
    let span = c.here();
    match c.peek() {
        Some(TokenKind::Int(n)) => {
            c.skip();
            c.defer(i64::try_from(*n).map_err(|_| too_large(span)), || 0).map(Expr::Int)
        }
        Some(TokenKind::Sym("(")) => {
            c.skip();
            let e = deeper(c, |c| binary(c, 1))?;
            c.expect(")")?;
            Ok(e)
        }
        Some(TokenKind::At(_)) => {
            let name = c.at_word("a table")?;
            grow(c)?;
            c.expect("[")?;
            let i = deeper(c, |c| binary(c, 1))?;
            c.expect("]")?;
            Ok(Expr::Table(name, Arc::new(i)))
        }
        Some(TokenKind::Word(l, false)) if l.hint == "if" && l.nth == 0 => {
            c.skip();
            grow(c)?;
            deeper(c, choice)
        }
        Some(TokenKind::Word(l, is_quoted)) => {
            if !is_quoted && l.nth == 0 && c.peek_at(1) == Some(&TokenKind::Sym("(")) {
                let f = l.hint.clone();
                c.skip();
                c.skip();
                grow(c)?;
                return call(c, &f, span);
            }
            Ok(Expr::Var(c.word("a variable")?))
        }
        _ => Err(c.expected("an expression")),
    }
}

/// Reads `COND { A } else { B }`, which follows `if`. The last part may be `else if` with another
/// choice.
fn choice(c: &mut LineCursor) -> ParseResult<Expr> {
    let cond = binary(c, 1)?;
    c.expect("{")?;
    let yes = binary(c, 1)?;
    c.expect("}")?;
    c.expect_word("else")?;
    if c.eat_word("if") {
        grow(c)?;
        let no = deeper(c, choice)?;
        return Ok(Expr::Select(Arc::new(cond), Arc::new(yes), Arc::new(no)));
    }
    c.expect("{")?;
    let no = binary(c, 1)?;
    c.expect("}")?;
    Ok(Expr::Select(Arc::new(cond), Arc::new(yes), Arc::new(no)))
}

fn call(c: &mut LineCursor, f: &str, span: Span) -> ParseResult<Expr> {
    if f == "select" {
        return Err(replaced("select(c, a, b)", "if c { a } else { b }", span));
    }
    let args = deeper(c, |c| c.list(")", |c| binary(c, 1)))?;
    let count = args.len();
    let mut args = args.into_iter().map(Arc::new);
    let un = CALLS.into_iter().find(|o| o.symbol() == f);
    let bin = [BinOp::Min, BinOp::Max].into_iter().find(|o| o.symbol() == f);
    let want = match (un, bin) {
        (Some(_), _) => 1,
        (_, Some(_)) => 2,
        _ => {
            let valid = CALLS.iter().map(|o| o.symbol()).chain(["min", "max"]);
            return Err(unknown("E315", "function", f, valid, span));
        }
    };
    match (args.next(), args.next(), args.next(), un, bin) {
        (Some(a), None, _, Some(op), _) => Ok(Expr::Un(op, a)),
        (Some(a), Some(b), None, _, Some(op)) => Ok(Expr::Bin(op, a, b)),
        _ => Err(arity(f, want, count, span)),
    }
}

fn arity(f: &str, want: usize, have: usize, span: Span) -> Diagnostic {
    Diagnostic::error("E311", format!("{f} takes {want} operands, and {have} are given"))
        .primary(span, "here")
}

/// Prints a function: `kernel @gelu(x) = ..`, with its label in this text.
pub(super) fn show_kernel(label: &str, f: &ScalarFn) -> String {
    let params: Vec<String> = f.params.iter().map(|p| scalar_name(p)).collect();
    // A parameter that shares its name with another one is written by position.
    let own = |i: usize| params.iter().filter(|p| **p == params[i]).count() == 1;
    let shown: Vec<Name> = (0..params.len())
        .map(|i| if own(i) { Name::from(&params[i]) } else { Name::from(format!("${i}")) })
        .collect();
    let mut body = String::new();
    // Writing to a string does not fail.
    let _ = write_scalar(&f.body, &shown, &mut body);
    format!("kernel @{label}({}) = {body}", params.join(", "))
}

fn scalar_name(p: &str) -> String {
    match p {
        "if" | "else" | "inf" | "NaN" => format!("`{p}`"),
        _ => quoted(p),
    }
}

/// Returns a placeholder for a function that is not known.
pub(super) fn no_function(name: Name) -> ScalarFn {
    ScalarFn { name, params: vec![], body: Scalar::Num(0.0) }
}

/// Reads `(x, y) = ..`, which follows `kernel @name`.
pub(super) fn kernel(c: &mut LineCursor, name: Name) -> ParseResult<ScalarFn> {
    c.expect("(")?;
    let params = c.list(")", |c| c.word("a parameter"))?;
    c.expect("=")?;
    c.size = 0;
    let body = scalar(c, &params)?;
    Ok(ScalarFn { name, params, body })
}

fn scalar(c: &mut LineCursor, params: &[Name]) -> ParseResult<Scalar> {
    grow(c)?;
    let span = c.here();
    match c.peek() {
        Some(TokenKind::Sym("(")) => {
            c.skip();
            deeper(c, |c| {
                let a = scalar(c, params)?;
                let op = match c.peek() {
                    Some(TokenKind::Sym("+")) => ScalarBin::Add,
                    Some(TokenKind::Sym("-")) => ScalarBin::Sub,
                    Some(TokenKind::Sym("*")) => ScalarBin::Mul,
                    Some(TokenKind::Sym("/")) => ScalarBin::Div,
                    Some(TokenKind::Sym(")")) => {
                        c.skip();
                        return Ok(a);
                    }
                    _ => return Err(c.expected("`+`, `-`, `*`, `/` or `)`")),
                };
                c.skip();
                let b = scalar(c, params)?;
                c.expect(")").map_err(|d| d.help("write parentheses around every operation except calls"))?;
                Ok(Scalar::bin(op, a, b))
            })
        }
        Some(TokenKind::Word(..)) if c.is_word("if") => {
            c.skip();
            deeper(c, |c| conditional(c, params))
        }
        Some(TokenKind::Word(l, false)) if l.nth == 0 && c.peek_at(1) == Some(&TokenKind::Sym("(")) => {
            let f = l.hint.clone();
            c.skip();
            c.skip();
            deeper(c, |c| scalar_call(c, &f, span, params))
        }
        Some(TokenKind::Word(l, q)) if *q || !matches!(&l.hint[..], "inf" | "NaN") => {
            let name = c.word("a parameter")?;
            let found = params.iter().position(|p| *p == name);
            let unknown = || unknown("E312", "parameter", &name, params.iter().map(Name::as_str), span);
            c.defer(found.ok_or_else(unknown), || 0).map(Scalar::Arg)
        }
        Some(TokenKind::Dollar(_)) => {
            let Some(TokenKind::Dollar(i)) = c.peek() else { return Err(c.expected("a parameter")) };
            c.skip();
            c.defer(usize::try_from(*i).map_err(|_| too_large(span)), || 0).map(Scalar::Arg)
        }
        _ => Ok(Scalar::Num(c.number("a number, a parameter, a function or `(`")?)),
    }
}

fn conditional(c: &mut LineCursor, params: &[Name]) -> ParseResult<Scalar> {
    let a = scalar(c, params)?;
    let ops = [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];
    let Some(op) = ops.into_iter().find(|o| c.is_sym(o.symbol())) else {
        return Err(c.expected("a comparison"));
    };
    c.skip();
    let b = scalar(c, params)?;
    c.expect("{")?;
    let yes = scalar(c, params)?;
    c.expect("}")?;
    c.expect_word("else")?;
    c.expect("{")?;
    let no = scalar(c, params)?;
    c.expect("}")?;
    Ok(Scalar::If(Box::new(Compare { op, a, b }), Box::new(yes), Box::new(no)))
}

fn scalar_call(c: &mut LineCursor, f: &str, span: Span, params: &[Name]) -> ParseResult<Scalar> {
    if f == "pow_int" {
        let a = scalar(c, params)?;
        c.expect(",")?;
        let n = c.small("an exponent")?;
        c.expect(")")?;
        return Ok(Scalar::Pow(Box::new(a), n));
    }
    let args = c.list(")", |c| scalar(c, params))?;
    let count = args.len();
    let mut args = args.into_iter();
    match (ScalarUn::parse(f), ScalarBin::parse(f), args.next(), args.next()) {
        (Some(op), _, Some(a), None) => Ok(Scalar::Un(op, Box::new(a))),
        (_, Some(op @ (ScalarBin::Min | ScalarBin::Max)), Some(a), Some(b)) if count == 2 => {
            Ok(Scalar::bin(op, a, b))
        }
        (Some(_), ..) => Err(arity(f, 1, count, span)),
        (_, Some(ScalarBin::Min | ScalarBin::Max), ..) => Err(arity(f, 2, count, span)),
        _ => {
            let valid = ScalarUn::ALL.iter().map(|f| f.name()).chain(["min", "max", "pow_int"]);
            Err(unknown("E315", "scalar function", f, valid, span))
        }
    }
}
