//! Parts of given lengths: their first elements are a table of the kernel, with a line for each row
//! of lengths.
//!
//! While a schedule is lowered, such a table is named after its contents; [`tables`] gives the
//! tables that are read their final names.

use crate::tile::visit::each_in;
use crate::tile::{Stmt, Table};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::parts::Parts;
use kbc_ir::schedule::Schedule;
use kbc_ir::types::CutRule;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Returns boundary `i` of a row of lengths.
pub(super) fn boundary(parts: &Parts, row: &Expr, i: &Expr) -> Expr {
    let width = Expr::Int(parts.of() as i64 + 1);
    let at = ((row.clone() * width).simplify() + i.clone()).simplify();
    Expr::Table(by_content(parts), Arc::new(at))
}

/// Returns the temporary name of a table. No name of a schedule is written so.
fn by_content(parts: &Parts) -> Name {
    format!("lengths {parts}").into()
}

/// Returns the tables that statements read, and renames them so that no table of the schedule has
/// the same name.
pub(super) fn tables(schedule: &Schedule, taken: &[Table], body: &mut [Stmt]) -> Vec<Table> {
    let lines = schedule.regions.iter().flat_map(|r| &r.operands).map(|o| &o.line.rule);
    let all: Vec<&Parts> =
        lines.filter_map(|r| if let CutRule::Lengths(l) = r { Some(l) } else { None }).collect();
    if all.is_empty() {
        return vec![];
    }
    let mut read = BTreeSet::new();
    each_in(body, &mut |e| note(e, &mut read));
    let mut names: BTreeMap<Name, Name> = BTreeMap::new();
    let mut out = vec![];
    for parts in all {
        let old = by_content(parts);
        if names.contains_key(&old) || !read.contains(&old) {
            continue;
        }
        let mut hints = std::iter::once("lengths".to_owned()).chain((2..).map(|i| format!("lengths_{i}")));
        let free = |n: &String| !taken.iter().chain(&out).any(|t: &Table| t.name.as_str() == n);
        let name: Name = hints.find(free).unwrap_or_default().into();
        let values =
            (0..parts.rows()).flat_map(|r| (0..=parts.of()).map(move |i| parts.boundary(r, i) as i64));
        let values = BTreeMap::from([(schedule.mesh.ranks(), values.collect())]);
        out.push(Table { name: name.clone(), values });
        names.insert(old, name);
    }
    each_in(body, &mut |e| *e = renamed(e, &names));
    out
}

fn note(e: &Expr, out: &mut BTreeSet<Name>) {
    match e {
        Expr::Int(_) | Expr::Var(_) => {}
        Expr::Un(_, a) => note(a, out),
        Expr::Bin(_, a, b) => [a, b].into_iter().for_each(|x| note(x, out)),
        Expr::Select(c, a, b) => [c, a, b].into_iter().for_each(|x| note(x, out)),
        Expr::Table(n, i) => {
            out.insert(n.clone());
            note(i, out);
        }
    }
}

fn renamed(e: &Expr, names: &BTreeMap<Name, Name>) -> Expr {
    let go = |e: &Expr| renamed(e, names);
    match e {
        Expr::Int(_) | Expr::Var(_) => e.clone(),
        Expr::Un(op, a) => Expr::un(*op, go(a)),
        Expr::Bin(op, a, b) => Expr::bin(*op, go(a), go(b)),
        Expr::Select(c, a, b) => Expr::select(go(c), go(a), go(b)),
        Expr::Table(n, i) => Expr::Table(names.get(n).unwrap_or(n).clone(), Arc::new(go(i))),
    }
}
