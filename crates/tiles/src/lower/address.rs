//! Symbolic addresses: the places that the operations of a schedule read and write, as expressions
//! of cuts, chunks, slots and peers.
//!
//! The closed forms are those of [`kbc_ir::walk`], which checker and simulator use; here they stay
//! symbolic. The module has no state.

use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::{Line, Part};
use kbc_ir::types::CutRule;

/// Returns `a op b`, simplified.
pub fn bin(op: BinOp, a: &Expr, b: &Expr) -> Expr {
    Expr::bin(op, a.clone(), b.clone()).simplify()
}

/// Returns `a + b`, simplified.
pub fn add(a: &Expr, b: &Expr) -> Expr {
    bin(BinOp::Add, a, b)
}

/// Returns `a - b`, simplified.
pub fn sub(a: &Expr, b: &Expr) -> Expr {
    bin(BinOp::Sub, a, b)
}

/// Returns `a * b`, simplified.
pub fn mul(a: &Expr, b: &Expr) -> Expr {
    bin(BinOp::Mul, a, b)
}

/// Returns `a / b`, rounded up; neither may be negative.
pub fn div_up(a: &Expr, b: &Expr) -> Expr {
    let less = sub(b, &Expr::Int(1));
    bin(BinOp::Div, &add(a, &less), b)
}

/// Returns the product of all expressions.
pub fn product<'e>(list: impl IntoIterator<Item = &'e Expr>) -> Expr {
    list.into_iter().fold(Expr::Int(1), |a, b| mul(&a, b))
}

/// Returns boundary `i` of `n` elements in `k` parts, as [`CutRule::boundary`] does.
pub fn cut(rule: &CutRule, n: &Expr, i: &Expr, k: &Expr) -> Expr {
    match rule {
        _ if *i == Expr::Int(0) => Expr::Int(0),
        _ if i == k => n.clone(),
        CutRule::Even => div_up(&mul(n, i), k),
        CutRule::Ceil => bin(BinOp::Min, &mul(&div_up(n, k), i), n),
        CutRule::Lines(unit) => {
            let unit = Expr::Int((*unit).max(1) as i64);
            let lines = div_up(&mul(n, i), &mul(k, &unit));
            bin(BinOp::Min, &mul(&lines, &unit), n)
        }
        // The parts of a buffer have one row of lengths. The last boundary is the end.
        CutRule::Lengths(l) => (1..=l.of()).fold(Expr::Int(0), |at, j| {
            let below = bin(BinOp::Lt, i, &Expr::Int(j as i64));
            let end = if j < l.of() { Expr::Int(l.boundary(0, j) as i64) } else { n.clone() };
            Expr::select(below, at, end)
        }),
    }
}

/// Returns the first element and the end of chunks `index .. index + len` of a line. The
/// expressions of `line` are in names of the kernel. `name` gives a name to a value that is used
/// several times.
pub fn chunk(line: &Line, path: &[Part], name: &mut dyn FnMut(&str, &Expr) -> Expr) -> (Expr, Expr) {
    let whole = mul(&line.unit, &line.extent);
    let Some((first, rest)) = path.split_first() else { return (Expr::Int(0), whole) };
    let parts = Expr::Int(line.parts as i64);
    if line.parts > 1 && first.of == parts {
        // The first digit selects the block; the following ones cut the block evenly by elements.
        let edge = |i: &Expr| edge(line, i);
        let (mut start, mut end) = (edge(&first.index), edge(&add(&first.index, &first.len)));
        if matches!(line.rule, CutRule::Lines(_)) {
            (start, end) = (name("lane", &start), name("lane_end", &end));
        }
        let Some((num, cnt, den)) = digits(rest) else { return (start, end) };
        let size = sub(&end, &start);
        let inside = |i: &Expr| add(&start, &div_up(&mul(&size, i), &den));
        return (inside(&num), if add(&num, &cnt) == den { end } else { inside(&add(&num, &cnt)) });
    }
    let Some((num, cnt, den)) = digits(path) else { return (Expr::Int(0), whole) };
    let after = add(&num, &cnt);
    (boundary(line, &num, &den), boundary(line, &after, &den))
}

/// Returns the first element of block `i` of a line.
fn edge(line: &Line, i: &Expr) -> Expr {
    let parts = Expr::Int(line.parts as i64);
    let at = match &line.rule {
        CutRule::Lengths(_) if *i == Expr::Int(0) => Expr::Int(0),
        CutRule::Lengths(_) if *i == parts => line.extent.clone(),
        CutRule::Lengths(l) => super::lengths::boundary(l, &line.row, i),
        rule => cut(rule, &line.extent, i, &parts),
    };
    mul(&line.unit, &at)
}

/// Converts a path to chunks `num .. num + cnt` of `den`.
fn digits(path: &[Part]) -> Option<(Expr, Expr, Expr)> {
    let mut out = None;
    for p in path {
        out = Some(match out {
            None => (p.index.clone(), p.len.clone(), p.of.clone()),
            Some((num, _, den)) => (add(&mul(&num, &p.of), &p.index), p.len.clone(), mul(&den, &p.of)),
        });
    }
    out
}

/// Returns the first element of chunk `num` of `den`, as `Program::boundary` of the walk does.
fn boundary(line: &Line, num: &Expr, den: &Expr) -> Expr {
    let whole = mul(&line.unit, &line.extent);
    if num == den {
        return whole;
    }
    if line.parts == 1 {
        return cut(&CutRule::Even, &whole, num, den);
    }
    let parts = Expr::Int(line.parts as i64);
    let scaled = mul(num, &parts);
    let block = bin(BinOp::Div, &scaled, den);
    let rest = bin(BinOp::Mod, &scaled, den);
    let edge = |i: &Expr| edge(line, i);
    let start = edge(&bin(BinOp::Min, &block, &parts));
    let next = edge(&bin(BinOp::Min, &add(&block, &Expr::Int(1)), &parts));
    add(&start, &div_up(&mul(&sub(&next, &start), &rest), den))
}

/// Returns the rank in the domain of a peer that is given by its coordinates in a region's group.
/// `coords` are these coordinates with their sizes, `axes` the mesh axes of the region as (size,
/// stride in the rank, stride in the group), `rank` is this rank, and `ranks` the number of ranks.
pub fn peer(coords: &[(Expr, u64)], axes: &[(u64, u64, u64)], rank: &Expr, ranks: u64) -> Expr {
    let index =
        coords.iter().fold(Expr::Int(0), |sum, (c, size)| add(&mul(&sum, &Expr::Int(*size as i64)), c));
    if let [(size, 1, 1)] = axes
        && *size == ranks
    {
        return index;
    }
    let digit = |of: &Expr, stride: u64, size: u64| {
        bin(BinOp::Mod, &bin(BinOp::Div, of, &Expr::Int(stride as i64)), &Expr::Int(size as i64))
    };
    axes.iter().fold(rank.clone(), |at, (size, stride, group)| {
        // With a single axis, the index is already below its size.
        let there = if axes.len() == 1 { index.clone() } else { digit(&index, *group, *size) };
        let moved = sub(&there, &digit(rank, *stride, *size));
        add(&at, &mul(&moved, &Expr::Int(*stride as i64)))
    })
}
