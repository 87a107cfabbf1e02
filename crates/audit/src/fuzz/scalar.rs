//! Random scalar expressions, as text, over operands that are given as text.

use super::rng::Rng;
use kbc_ir::scalar::{CompareOp, ScalarUn};
use kbc_ir::types::DType;

/// What an expression may contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// Everything.
    Float,
    /// What i32 supports: no floating-point functions, and few fractions.
    Int,
    /// What a vector core supports for i32: no divisions, comparisons or fractions.
    Word,
}

impl Domain {
    /// Returns the domain of a type that supports arithmetic.
    pub fn of(dtype: DType) -> Domain {
        if dtype.is_float() { Domain::Float } else { Domain::Int }
    }
}

/// Numbers at boundaries: limits of types, numbers that are rounded, numbers that f16 or f32 cannot
/// represent.
const FLOATS: [&str; 24] = [
    "0.0",
    "1.0",
    "0.5",
    "2.0",
    "3.0",
    "10.0",
    "0.1",
    "1e-3",
    "1e-7",
    "6e-8",
    "1e-40",
    "1.5e-45",
    "65504.0",
    "65520.0",
    "70000.0",
    "16777217.0",
    "2147483648.0",
    "1e30",
    "3.4e38",
    "3.5e38",
    "1e300",
    "0.333",
    "7.0",
    "88.8",
];
const INTS: [&str; 12] =
    ["0", "1", "2", "3", "7", "10", "255", "65536", "46341", "2147483647", "2147483646", "1000000007"];

/// Returns a number, which may be negative.
pub fn number(rng: &mut Rng, domain: Domain) -> String {
    let text = match domain {
        Domain::Float => *rng.pick(&FLOATS),
        // A fraction is not an i32: both engines reject it where it is computed.
        Domain::Int if rng.below(200) == 0 => "0.5",
        Domain::Int | Domain::Word => *rng.pick(&INTS),
    };
    if rng.chance(30) { format!("(-{text})") } else { text.to_owned() }
}

/// Returns a divisor. For integers it is not zero.
fn divisor(rng: &mut Rng, domain: Domain) -> String {
    match domain {
        Domain::Float => number(rng, domain),
        Domain::Int | Domain::Word => {
            let text = *rng.pick(&INTS[1..]);
            if rng.chance(40) { format!("(-{text})") } else { text.to_owned() }
        }
    }
}

/// Returns a comparison of two expressions.
fn condition(
    rng: &mut Rng,
    domain: Domain,
    depth: usize,
    leaf: &mut dyn FnMut(&mut Rng) -> String,
) -> String {
    let ops = [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];
    let op = rng.pick(&ops).symbol();
    let a = leaf(rng);
    let b = operand(rng, domain, depth.saturating_sub(1), leaf);
    format!("{a} {op} {b}")
}

/// Returns an expression or a number.
fn operand(rng: &mut Rng, domain: Domain, depth: usize, leaf: &mut dyn FnMut(&mut Rng) -> String) -> String {
    if rng.chance(25) { number(rng, domain) } else { expression(rng, domain, depth, false, leaf) }
}

/// Returns an expression that contains at least one operand. `inside` states that it belongs to a
/// kernel, where `if` is allowed.
pub fn expression(
    rng: &mut Rng,
    domain: Domain,
    depth: usize,
    inside: bool,
    leaf: &mut dyn FnMut(&mut Rng) -> String,
) -> String {
    if depth == 0 {
        return leaf(rng);
    }
    match rng.below(20) {
        0..9 => {
            let (a, b) =
                (expression(rng, domain, depth - 1, inside, leaf), operand(rng, domain, depth - 1, leaf));
            let ops: &[&str] = if domain == Domain::Word { &["+", "-", "*"] } else { &["+", "-", "*", "/"] };
            let op = *rng.pick(ops);
            match (op, domain) {
                // A division by zero ends a run of i32. It should occur, but rarely.
                ("/", Domain::Int) if !rng.chance(8) => format!("({a} / {})", divisor(rng, domain)),
                _ if rng.chance(50) => format!("({a} {op} {b})"),
                ("/", Domain::Int) => format!("({a} / {b})"),
                _ => format!("({b} {op} {a})"),
            }
        }
        9..11 => {
            let name = *rng.pick(&["min", "max"]);
            let mut all = vec![expression(rng, domain, depth - 1, inside, leaf)];
            for _ in 0..1 + rng.below(2) {
                all.push(operand(rng, domain, depth - 1, leaf));
            }
            format!("{name}({})", all.join(", "))
        }
        11..15 => {
            let a = expression(rng, domain, depth - 1, inside, leaf);
            let f = match domain {
                Domain::Float => *rng.pick(ScalarUn::ALL),
                Domain::Int | Domain::Word => *rng.pick(&[ScalarUn::Neg, ScalarUn::Abs]),
            };
            if f == ScalarUn::Neg && rng.chance(50) {
                format!("(-{a})")
            } else {
                format!("{}({a})", f.name())
            }
        }
        15..17 => {
            let a = expression(rng, domain, depth - 1, inside, leaf);
            let n = rng.weighted(&[(1, 0), (1, 1), (3, 2), (3, 3), (1, 5), (1, 8), (1, 64)]);
            format!("pow_int({a}, {n})")
        }
        _ if domain == Domain::Word => {
            let n = number(rng, domain);
            format!("max({}, {n})", expression(rng, domain, depth - 1, inside, leaf))
        }
        _ => {
            let c = condition(rng, domain, depth, leaf);
            let a = expression(rng, domain, depth - 1, inside, leaf);
            let b = operand(rng, domain, depth - 1, leaf);
            if inside && rng.chance(60) {
                format!("(if {c} {{ {a} }} else {{ {b} }})")
            } else {
                format!("select({c}, {a}, {b})")
            }
        }
    }
}

/// A kernel of the user.
#[derive(Clone, Debug)]
pub struct UserKernel {
    /// Its name.
    pub name: String,
    /// Its number of operands.
    pub params: usize,
    /// The types that it supports.
    pub domain: Domain,
    /// Its declaration.
    pub text: String,
}

/// Returns a kernel, which may call earlier ones.
pub fn kernel(rng: &mut Rng, name: String, domain: Domain, before: &[UserKernel]) -> UserKernel {
    let params = 1 + rng.below(3);
    let names = ["x", "y", "z"];
    let callees: Vec<UserKernel> = before.iter().filter(|k| k.domain == domain).cloned().collect();
    let mut leaf = |rng: &mut Rng| {
        let one = |rng: &mut Rng| (*rng.pick(&names[..params])).to_owned();
        if !callees.is_empty() && rng.chance(12) {
            let callee = rng.pick(&callees).clone();
            let args: Vec<String> = (0..callee.params).map(|_| one(rng)).collect();
            return format!("{}({})", callee.name, args.join(", "));
        }
        one(rng)
    };
    let depth = 1 + rng.below(3);
    let body = expression(rng, domain, depth, true, &mut leaf);
    let text = format!("kernel {name}({}) = {body}", names[..params].join(", "));
    UserKernel { name, params, domain, text }
}
