//! Sizes and offsets of a rank's parts, as expressions in the mesh coordinates.

use kbc_ir::Name;
use kbc_ir::algebra::ExprAlgebra;
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::Line;
use kbc_ir::types::{self, Axis, CutRule, Dim, Mesh, TensorType};

/// Joins axes into one, the last one fastest. A single axis is returned as it is.
pub fn joined_axis(axes: &[Axis]) -> Axis {
    if let [one] = axes {
        return one.clone();
    }
    let names: Vec<&str> = axes.iter().map(|a| a.name.as_str()).collect();
    let parts = |a: &Axis| if a.parts.is_empty() { vec![(a.name.clone(), a.size)] } else { a.parts.clone() };
    Axis {
        name: format!("({})", names.join(", ")).into(),
        size: axes.iter().map(|a| a.size).product(),
        parts: axes.iter().flat_map(parts).collect(),
    }
}

/// Returns a rank's position in its group over these axes.
pub(super) fn place(axes: &[Axis]) -> Expr {
    let add = |n: Expr, a: &Axis| n * Expr::Int(a.size as i64) + Expr::Var(a.name.clone());
    let mut rest = axes.iter();
    let first = rest.next().map_or(Expr::Int(0), |a| Expr::Var(a.name.clone()));
    rest.fold(first, add)
}

/// Returns the algebra of sizes: given lengths are nested selections, because sizes of buffers
/// cannot contain tables everywhere.
fn algebra() -> ExprAlgebra {
    ExprAlgebra::folded(
        |parts, _, _, i| {
            let starts: Vec<u64> = (0..parts.of()).map(|i| parts.boundary(0, i)).collect();
            by_value(i, 0, &starts)
        },
        |parts, _, _, i| by_value(i, 0, &parts.lengths(0)),
    )
}

/// Returns the first element and the number of elements of a dimension that a rank has.
fn part(d: &Dim, mesh: &Mesh) -> (Expr, Expr) {
    types::part(&mut algebra(), d, mesh, &|_, axis| Expr::Var(axis.clone()))
}

/// Returns the local sizes of a tensor, as expressions in the mesh coordinates.
pub(super) fn local_dims(ty: &TensorType, mesh: &Mesh) -> Vec<Expr> {
    ty.dims.iter().map(|d| only(ty, part(d, mesh).1)).collect()
}

/// Returns a size on the ranks that hold the tensor, and 0 on others.
fn only(ty: &TensorType, n: Expr) -> Expr {
    match &ty.only {
        Some((c, axis)) => {
            Expr::select(Expr::Var(axis.clone()).equals(Expr::Int(*c as i64)), n, Expr::Int(0))
        }
        None => n,
    }
}

/// Returns the index of the first element of a dimension that a rank has.
pub(super) fn part_start(d: &Dim, mesh: &Mesh) -> Expr {
    match &d.cut {
        Some(cut) if !matches!(cut.rule, CutRule::Lengths(_)) => part(d, mesh).0.simplify(),
        _ => part(d, mesh).0,
    }
}

/// Returns boundary i of n elements in k parts.
pub(crate) fn boundary(n: &Expr, i: &Expr, k: u64, rule: &CutRule) -> Expr {
    rule.bound(&mut algebra(), &Expr::Int(0), n, i, &Expr::Int(k as i64))
}

/// Returns the length of part i of n elements in k parts.
pub(crate) fn part_length(n: &Expr, i: &Expr, k: u64, rule: &CutRule) -> Expr {
    rule.length(&mut algebra(), &Expr::Int(0), n, i, k)
}

/// Returns `values[i - first]` as nested selections. Tables are not used, because sizes of buffers
/// cannot contain them everywhere.
fn by_value(i: &Expr, first: i64, values: &[u64]) -> Expr {
    match values {
        [] => Expr::Int(0),
        [v, rest @ ..] if rest.iter().all(|w| w == v) => Expr::Int(*v as i64),
        _ => {
            let (low, high) = values.split_at(values.len() / 2);
            let half = first + low.len() as i64;
            let below = Expr::bin(BinOp::Lt, i.clone(), Expr::Int(half));
            Expr::select(below, by_value(i, first, low), by_value(i, half, high))
        }
    }
}

/// Returns the largest extent and unit of a line over all ranks of a mesh.
pub(super) fn largest(l: &Line, mesh: &Mesh) -> (u64, u64) {
    let most = |e: &Expr| {
        if let Some(v) = e.as_int() {
            return v.max(0) as u64;
        }
        (0..mesh.ranks())
            .map(|r| {
                let at = mesh.coords(r);
                let env = |n: &Name| mesh.axes.iter().position(|a| a.name == *n).map(|i| at[i]);
                e.eval(&env).unwrap_or(0).max(0) as u64
            })
            .max()
            .unwrap_or(0)
    };
    (most(&l.extent), most(&l.unit))
}
