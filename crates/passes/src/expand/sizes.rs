//! Sizes and offsets of a rank's parts, as expressions in the mesh coordinates.

use kbc_ir::Name;
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::Line;
use kbc_ir::types::{Axis, Cut, CutRule, Dim, Mesh, TensorType};

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

/// Returns the local sizes of a tensor, as expressions in the mesh coordinates.
pub(super) fn local_dims(ty: &TensorType, mesh: &Mesh) -> Vec<Expr> {
    ty.dims
        .iter()
        .map(|d| {
            let mut n = Expr::Int(d.size as i64);
            if let Some(Cut { axes, rule: rule @ CutRule::Lengths(_) }) = &d.cut {
                let axes: Vec<Axis> = axes.iter().filter_map(|a| mesh.axis(a).cloned()).collect();
                let k = axes.iter().map(|a| a.size as i64).product();
                return only(ty, part_length(&n, &place(&axes), k, rule));
            }
            for axis in d.cut.iter().flat_map(|c| &c.axes) {
                let rule = d.cut.as_ref().map_or(&CutRule::Even, |c| &c.rule);
                let k = mesh.axis(axis).map_or(1, |a| a.size) as i64;
                n = part_length(&n, &Expr::Var(axis.clone()), k, rule);
            }
            only(ty, n)
        })
        .collect()
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
    let (mut start, mut n) = (Expr::Int(0), Expr::Int(d.size as i64));
    let Some(cut) = &d.cut else { return start };
    if let CutRule::Lengths(parts) = &cut.rule {
        let axes: Vec<Axis> = cut.axes.iter().filter_map(|a| mesh.axis(a).cloned()).collect();
        let starts: Vec<u64> = (0..parts.of()).map(|i| parts.boundary(0, i)).collect();
        return by_value(&place(&axes), 0, &starts);
    }
    for axis in &cut.axes {
        let (k, me) = (mesh.axis(axis).map_or(1, |a| a.size) as i64, Expr::Var(axis.clone()));
        start = (start + boundary(&n, me.clone(), k, &cut.rule)).simplify();
        n = part_length(&n, &me, k, &cut.rule);
    }
    start
}

/// Returns boundary i of n elements in k parts.
fn boundary(n: &Expr, i: Expr, k: i64, rule: &CutRule) -> Expr {
    match rule {
        CutRule::Even => (n.clone() * i).ceil_div(k),
        _ => Expr::bin(BinOp::Min, n.clone().ceil_div(k) * i, n.clone()),
    }
}

/// Returns the length of part i of n elements in k parts.
pub(crate) fn part_length(n: &Expr, i: &Expr, k: i64, rule: &CutRule) -> Expr {
    if let CutRule::Lengths(parts) = rule {
        return by_value(i, 0, &parts.lengths(0));
    }
    if let Some(v) = n.as_int()
        && v % k == 0
    {
        return Expr::Int(v / k);
    }
    boundary(n, i.clone() + Expr::Int(1), k, rule) - boundary(n, i.clone(), k, rule)
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
