//! Symbolic addresses: the places that the operations of a schedule read and write, as expressions
//! of cuts, chunks, slots and peers.
//!
//! The rules of cuts are those of [`kbc_ir::cut`]; here they give expressions. The module has no
//! state.

use kbc_ir::algebra::{Algebra, ExprAlgebra};
use kbc_ir::cut::{Chunks, Sized, inside};
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
    tables().div_up(a, b)
}

/// Returns the product of all expressions.
pub fn product<'e>(list: impl IntoIterator<Item = &'e Expr>) -> Expr {
    list.into_iter().fold(Expr::Int(1), |a, b| mul(&a, b))
}

/// Returns boundary `i` of `n` elements in `k` parts; given lengths become nested selections.
pub fn cut(rule: &CutRule, n: &Expr, i: &Expr, k: &Expr) -> Expr {
    if let Some((on, n)) = on_some_ranks(rule, n) {
        return Expr::select(on.clone(), cut(rule, n, i, k), Expr::Int(0)).simplify();
    }
    // The parts of a buffer have one row of lengths. The last boundary is the end.
    let mut selections = ExprAlgebra::simplified(|parts, _, n, i| {
        (1..=parts.of()).fold(Expr::Int(0), |at, j| {
            let below = bin(BinOp::Lt, i, &Expr::Int(j as i64));
            let end = if j < parts.of() { Expr::Int(parts.boundary(0, j) as i64) } else { n.clone() };
            Expr::select(below, at, end)
        })
    });
    rule.bound(&mut selections, &Expr::Int(0), n, i, k)
}

/// Returns the condition under which a rank has elements, and their number there, for lengths of a
/// tensor that only some ranks have. The lengths are those of all its elements, also where a rank
/// has none of them.
pub fn on_some_ranks<'e>(rule: &CutRule, n: &'e Expr) -> Option<(&'e Expr, &'e Expr)> {
    match (rule, n) {
        (CutRule::Lengths(_), Expr::Select(on, n, none)) if **none == Expr::Int(0) => Some((on, n)),
        _ => None,
    }
}

/// Returns the algebra of addresses in kernels, in which given lengths are tables.
fn tables() -> ExprAlgebra {
    ExprAlgebra::simplified(|parts, row, _, i| super::lengths::boundary(parts, row, i))
}

fn sized(line: &Line) -> Sized<'_, Expr> {
    let Line { parts, extent, unit, rule, row } = line;
    Sized { parts: *parts, rule, extent: extent.clone(), unit: unit.clone(), row: row.clone() }
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
        let (line, mut alg) = (sized(line), tables());
        let (mut start, mut end) =
            (line.block(&mut alg, &first.index), line.block(&mut alg, &add(&first.index, &first.len)));
        if matches!(line.rule, CutRule::Lines(_)) {
            (start, end) = (name("lane", &start), name("lane_end", &end));
        }
        if rest.is_empty() {
            return (start, end);
        }
        let chunks = chunks(&mut alg, rest);
        let after = chunks.end(&mut alg);
        let mut at = |i: &Expr| inside(&mut alg, (&start, &end), i, &chunks.den);
        return (at(&chunks.num), if after == chunks.den { end } else { at(&after) });
    }
    let (line, mut alg) = (sized(line), tables());
    let chunks = chunks(&mut alg, path);
    let after = chunks.end(&mut alg);
    (line.address(&mut alg, &chunks.num, &chunks.den), line.address(&mut alg, &after, &chunks.den))
}

/// Returns the chunks of a path.
fn chunks(alg: &mut ExprAlgebra, path: &[Part]) -> Chunks<Expr> {
    let whole = Chunks::whole(alg);
    path.iter().fold(whole, |at, p| at.part(alg, (&p.index, &p.len, &p.of)))
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
