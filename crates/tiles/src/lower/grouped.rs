//! Grouped matmuls (`grouped_matmul`): rows that are multiplied with one of several matrices each.
//! Every run of rows with the same matrix becomes one matmul.
//!
//! Which matrix a row is multiplied with is constant, and may differ between ranks: it is a table
//! of the kernel with three entries per run.

use super::errors::refuse;
use super::matmul::{Matrix, Sizes};
use super::state::Lower;
use crate::lower::address::{add, mul};
use crate::tile::{Gm, RANK, Stmt, Table};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::schedule::{BufferId, LocalOp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of entries of a table of runs.
const MAX_TABLE_ENTRIES: usize = 1 << 16;

impl Lower<'_, '_> {
    /// Lowers `dst[t] = x[t] w[the matrix of t]`.
    pub(super) fn grouped(&mut self, op: &LocalOp, span: Span) -> Result<(), Diagnostic> {
        let LocalOp::Grouped { dst, x, w, .. } = op else { return Ok(()) };
        let (dst, x, w) = (*dst, *x, *w);
        let dtype = self.operand_dtype([dst, x, w], span)?;
        let [_, d, f] = [0, 1, 2].map(|i| self.dims(w)[i].clone());
        let runs = self.runs(op, x, span)?;
        let most = runs.iter().map(Vec::len).max().unwrap_or(0);
        if most == 0 {
            return Ok(());
        }
        let differ = runs.iter().any(|r| r != &runs[0]);
        let ranks = if differ { runs.len() } else { 1 };
        if ranks * most * 3 > MAX_TABLE_ENTRIES {
            let help = "use fewer ranks or larger groups, or `--target sim`";
            return Err(refuse(span, format!("{most} groups of rows on each of {ranks} ranks"), help));
        }
        // Ranks with fewer runs get additional runs without rows.
        let padded = |r: &Vec<[i64; 3]>| {
            let mut all: Vec<i64> = r.iter().flatten().copied().collect();
            all.resize(most * 3, 0);
            all
        };
        let values: Vec<i64> = runs[..ranks].iter().flat_map(padded).collect();
        let table = self.table("runs", values);
        let part = self.own_part(dst, 0, &Expr::Int(most as i64));
        self.build.open();
        let run = self.build.fresh("run");
        let own = if differ { mul(&Expr::var(RANK), &Expr::Int(3 * most as i64)) } else { Expr::Int(0) };
        let at = add(&own, &mul(&Expr::var(run.clone()), &Expr::Int(3)));
        let mut entry = |name: &str, i: i64| {
            let e = Expr::Table(table.clone(), Arc::new(add(&at, &Expr::Int(i))));
            self.build.name_it(name, &e)
        };
        let (first, m, matrix) = (entry("first", 0), entry("rows", 1), entry("matrix", 2));
        let place = |this: &Self, b: BufferId, by: &Expr, pitch: &Expr| {
            let at = this.whole(b);
            Matrix { at: Gm { offset: add(&at.offset, by), ..at }, pitch: pitch.clone() }
        };
        let to = place(self, dst, &mul(&first, &f), &f);
        let left = place(self, x, &mul(&first, &d), &d);
        let right = place(self, w, &mul(&matrix, &mul(&d, &f)), &f);
        let sizes = Sizes { m, n: f, k: d };
        self.blocks(dtype, &to, [&left, &right], (&sizes, dst), span)?;
        let body = self.build.close();
        self.build.push(Stmt::For { var: run, lo: part.first, hi: part.end, body });
        Ok(())
    }

    /// Returns the runs of each rank: first row, number of rows, matrix.
    pub(super) fn runs(
        &self,
        op: &LocalOp,
        x: BufferId,
        span: Span,
    ) -> Result<Vec<Vec<[i64; 3]>>, Diagnostic> {
        let LocalOp::Grouped { runs, places, at, .. } = op else { return Ok(vec![]) };
        let unknown = || refuse(span, "a grouped matmul whose position is not known", "use `--target sim`");
        let number = |e: &Expr, rank: u64| self.expr_on(e, &Expr::Int(rank as i64)).as_int();
        let of = |rank: u64| {
            let place = number(at, rank).and_then(|at| places.get(usize::try_from(at).ok()?));
            let rows = number(&self.schedule.buffer(x).dims[0], rank).and_then(|n| u64::try_from(n).ok());
            let ((row, matrix), rows) = place.copied().zip(rows).ok_or_else(unknown)?;
            let mut out: Vec<[i64; 3]> = vec![];
            for (i, m) in (0..).zip(runs.matrices(row, rows)) {
                let m = m as i64 - matrix as i64;
                match out.last_mut() {
                    Some(last) if last[2] == m => last[1] += 1,
                    _ => out.push([i, 1, m]),
                }
            }
            Ok(out)
        };
        (0..self.program.ranks()).map(of).collect()
    }

    /// Returns the name of a table of the kernel with these entries.
    fn table(&mut self, hint: &str, values: Vec<i64>) -> Name {
        let ranks = self.program.ranks();
        let all = || self.schedule.tables.iter().map(|t| &t.name).chain(self.tables.iter().map(|t| &t.name));
        if let Some(same) = self.tables.iter().find(|t| t.values.get(&ranks) == Some(&values)) {
            return same.name.clone();
        }
        let names = std::iter::once(hint.to_owned()).chain((2..).map(|i| format!("{hint}_{i}")));
        let name: Name = names.map(Name::from).find(|n| !all().any(|m| m == n)).unwrap_or(hint.into());
        self.tables.push(Table { name: name.clone(), values: BTreeMap::from([(ranks, values)]) });
        name
    }
}
