//! Rules for declarations and regions of schedules: V1, V2, V10, V11, V12, V20. [`super::body`]
//! checks bodies.

use super::names::{depends, unknown};
use super::placement::well_formed;
use super::{Report, V1, V2, V5, V10, V11, V12, V13, V20, body, host, layout, ranks, twice};
use crate::contract::{Cell, Clause, Contract};
use crate::expr::Expr;
use crate::module::Props;
use crate::name::Name;
use crate::schedule::*;
use kbc_diag::{Diagnostic, Span};
use std::collections::BTreeSet;

pub(super) fn schedule(s: &Schedule, props: Props, out: &mut Report) {
    if let Some(n) = twice(s.tables.iter().map(|t| &t.name)) {
        out.fail(V1, format!("there are two tables {n}"), Span::NONE, "");
    }
    buffers(s, out);
    layout::layout(s, props, out);
    let before = out.diagnostics.list.len();
    for (i, r) in s.regions.iter().enumerate() {
        region(s, i, r, out);
    }
    body::order(s, out);
    body::claims(s, props, out);
    host::host(s, out);
    // Sizes and roles can be evaluated only if everything that they name exists.
    if out.diagnostics.list[before..].iter().all(|d| ![V2.1, V12.1].contains(&d.code)) {
        ranks::buffers(s, out);
    }
}

fn buffers(s: &Schedule, out: &mut Report) {
    let axes: Vec<&str> = s.mesh.axes.iter().map(|a| a.name.as_str()).collect();
    let (mut inputs, mut outputs) = (BTreeSet::new(), BTreeSet::new());
    for b in &s.buffers {
        for d in &b.dims {
            depends(s, d, &axes, &format!("the size of buffer {}", b.name), b.span, out);
        }
        if let Some(t) = &b.global {
            well_formed(t, &s.mesh, &format!("buffer {}", b.name), b.span, out);
        }
        if let (true, BufferRole::Input(n)) = (b.zero, b.role) {
            let text = format!("buffer {} is both input {n} and filled with zeros", b.name);
            out.fail(V5, text, b.span, "remove `zero`");
        }
        let fresh = match b.role {
            BufferRole::Input(n) => inputs.insert(n),
            BufferRole::Output(n) => outputs.insert(n),
            BufferRole::Temp => continue,
        };
        if !fresh {
            out.fail(V1, format!("another buffer has the role of {}", b.name), b.span, "again here");
        }
        if b.global.is_none() {
            let text = format!("buffer {} is an input or output, but it has no tensor type", b.name);
            out.fail(V5, text, b.span, "the type is missing");
        }
    }
}

fn region(s: &Schedule, index: usize, r: &Region, out: &mut Report) {
    let span = r.span;
    let mut ok = true;
    for n in &r.over {
        if s.mesh.axis(n).is_none() {
            let known: Vec<&str> = s.mesh.axes.iter().map(|a| a.name.as_str()).collect();
            unknown(V2, "axis", n, &known, span, out);
            ok = false;
        }
    }
    if let Some(n) = twice(&r.over) {
        out.fail(V1, format!("region {} runs over {n} twice", r.name), span, "here");
        ok = false;
    }
    if let Some(n) = twice(r.coords.iter().map(|c| &c.0)) {
        out.fail(V1, format!("region {} has two coordinates {n}", r.name), span, "here");
    }
    if let Some((n, _)) = r.coords.iter().find(|c| c.0 == CALL) {
        out.fail(
            V1,
            format!("a coordinate of region {} is called {n}, which is the name of the call number", r.name),
            span,
            "here",
        );
    }
    if let Some(n) = twice(r.operands.iter().map(|o| &o.name)) {
        out.fail(V1, format!("region {} has two operands {n}", r.name), span, "here");
    }
    if let Some(n) = twice(r.roles.iter().map(|x| &x.name)) {
        out.fail(V1, format!("region {} has two roles {n}", r.name), span, "here");
    }
    if ok {
        ok = coordinates(s, r, out);
    }
    let mut seen = BTreeSet::new();
    for a in &r.after {
        if a.0 as usize >= s.regions.len() {
            out.fail(
                V2,
                format!("region {} comes after region {}, which does not exist", r.name, a.0),
                span,
                "here",
            );
        } else if a.0 as usize >= index {
            let other = &s.regions[a.0 as usize];
            let d = Diagnostic::error(
                V10.1,
                format!("region {} comes after {}, which is not before it", r.name, other.name),
            )
            .primary(span, "here");
            out.push(V10, d.secondary(other.span, "this region is later, or the same one"));
        } else if !seen.insert(a.0) {
            let text = format!("region {} comes after {} twice", r.name, s.regions[a.0 as usize].name);
            out.fail(V10, text, span, "here");
        }
    }
    operands(s, r, out);
    if let Some(p) = &r.contract {
        contract(s, r, p, out);
    }
    let clean = out.diagnostics.list.len();
    roles(s, r, out);
    if ok && out.diagnostics.list.len() == clean {
        ranks::roles(s, r, out);
    }
    body::bodies(s, r, out);
}

/// Checks V10: the coordinates name exactly the ranks of the group.
fn coordinates(s: &Schedule, r: &Region, out: &mut Report) -> bool {
    let axes = s.mesh.axes.iter().filter(|a| r.over.is_empty() || r.over.contains(&a.name));
    let group: u64 = axes.map(|a| a.size).product();
    let named = super::product(r.coords.iter().map(|c| c.1));
    if named == Some(group) && r.coords.iter().all(|c| c.1 > 0) {
        return true;
    }
    let named = named.map_or_else(|| "too many".into(), |n| n.to_string());
    let text = format!("the coordinates of region {} name {named} ranks, and its group has {group}", r.name);
    out.fail(V10, text, r.span, "here");
    false
}

fn operands(s: &Schedule, r: &Region, out: &mut Report) {
    let axes: Vec<&str> = s.mesh.axes.iter().map(|a| a.name.as_str()).collect();
    for o in &r.operands {
        if o.buffer.0 as usize >= s.buffers.len() {
            let text = format!("operand {} of region {} is of a buffer that does not exist", o.name, r.name);
            out.fail(V2, text, r.span, "in this region");
        }
        for e in [&o.line.extent, &o.line.unit, &o.line.row] {
            depends(s, e, &axes, &format!("the line of operand {}", o.name), r.span, out);
        }
        if o.line.parts == 0 {
            out.fail(V13, format!("the line of operand {} has no block", o.name), r.span, "in this region");
        }
    }
}

/// Checks V1 for streams, V11 for ranks in lists, and V12 for conditions.
fn roles(s: &Schedule, r: &Region, out: &mut Report) {
    let size = super::product(r.coords.iter().map(|c| c.1)).unwrap_or(u64::MAX);
    let mut names: Vec<&str> = s.mesh.axes.iter().map(|a| a.name.as_str()).collect();
    names.extend(r.coords.iter().map(|c| c.0.as_str()));
    for role in &r.roles {
        if let Some(n) = twice(role.streams.iter().map(|x| &x.name)) {
            out.fail(
                V1,
                format!("role {} of region {} has two streams {n}", role.name, r.name),
                r.span,
                "here",
            );
        }
        match &role.ranks {
            RankSet::All => {}
            RankSet::Where(e) => {
                depends(s, e, &names, &format!("the condition of role {}", role.name), r.span, out);
            }
            RankSet::List(l) => {
                let mut seen = BTreeSet::new();
                for n in l {
                    let text = match (*n < size, seen.insert(n)) {
                        (false, _) => format!("role {} names rank {n}, and the group has {size}", role.name),
                        (_, false) => format!("role {} names rank {n} twice", role.name),
                        _ => continue,
                    };
                    out.fail(V11, text, r.span, "in this region");
                }
            }
        }
    }
}

/// Checks V20: a contract covers operands of its region.
fn contract(s: &Schedule, r: &Region, p: &Contract, out: &mut Report) {
    let mut fail = |text: String| out.fail(V20, text, r.span, "in this region");
    if let Some(n) = twice(p.buffers.iter().map(|b| &b.name)) {
        fail(format!("the contract names buffer {n} twice"));
    }
    for b in &p.buffers {
        match r.operands.iter().find(|o| o.name == b.name) {
            None => {
                fail(format!("the contract names {}, which is not an operand of region {}", b.name, r.name))
            }
            Some(o) if o.scratch => fail(format!("the contract names {}, which is scratch", b.name)),
            Some(_) => {}
        }
    }
    let sums = p.clauses.iter().any(|c| match c {
        Clause::Start { cell: _, cond: _ } => false,
        Clause::End { cell: _, cond: _, from: _, at: _, sum } => sum.is_some(),
    });
    match p.red {
        None if sums => fail("a clause combines contributions, but the contract has no combiner".into()),
        Some(op) if !sums => {
            fail(format!("the contract has the combiner {op}, but no clause combines contributions"))
        }
        None | Some(_) => {}
    }
    let size = super::product(r.coords.iter().map(|c| c.1)).unwrap_or(0);
    if p.root.is_some_and(|c| c >= size) {
        fail(format!("the root of the contract is {}, and the group has {size} ranks", p.root.unwrap_or(0)));
    }
    let mut cells: Vec<&Cell> = vec![];
    for c in &p.clauses {
        match c {
            Clause::Start { cell, cond: _ } => cells.push(cell),
            Clause::End { cell, from, cond: _, at: _, sum: _ } => cells.extend([cell, from]),
        }
    }
    for c in cells {
        match p.buffers.iter().find(|b| b.name == c.buffer) {
            None => fail(format!("a clause names {}, which is not a buffer of the contract", c.buffer)),
            Some(b) if c.index.len() != 1 + usize::from(b.blocks) => {
                let want = if b.blocks { "a block and a chunk" } else { "a chunk" };
                fail(format!("{} is indexed by {want}, not by {} numbers", c.buffer, c.index.len()));
            }
            Some(_) => {}
        }
    }
    let named: Vec<&Name> = clause_tables(p);
    if let Some(n) = named.iter().find(|n| !s.tables.iter().any(|t| t.name == ***n)) {
        fail(format!("a clause reads table {n}, which does not exist"));
    }
}

/// Returns the tables that the clauses read.
fn clause_tables(p: &Contract) -> Vec<&Name> {
    fn collect<'a>(e: &'a Expr, out: &mut Vec<&'a Name>) {
        match e {
            Expr::Int(_) | Expr::Var(_) => {}
            Expr::Un(_, a) => collect(a, out),
            Expr::Bin(_, a, b) => {
                collect(a, out);
                collect(b, out);
            }
            Expr::Select(c, a, b) => [c, a, b].into_iter().for_each(|e| collect(e, out)),
            Expr::Table(n, i) => {
                out.push(n);
                collect(i, out);
            }
        }
    }
    let mut out = vec![];
    for c in &p.clauses {
        let (cell, cond) = match c {
            Clause::Start { cell, cond } => (cell, cond),
            Clause::End { cell, cond, from, at, sum } => {
                from.index.iter().chain([at]).for_each(|e| collect(e, &mut out));
                if let Some(x) = sum {
                    [&x.lo, &x.hi].into_iter().chain(&x.cond).for_each(|e| collect(e, &mut out));
                }
                (cell, cond)
            }
        };
        cell.index.iter().chain(cond).for_each(|e| collect(e, &mut out));
    }
    out
}
