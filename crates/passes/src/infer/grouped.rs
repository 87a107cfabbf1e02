//! Type rule of grouped matmuls, which have one matrix for each group of rows.
//!
//! Rows may be cut freely if every rank has all matrices. If the matrices are cut over an axis, a
//! rank needs the rows that meet its own matrices. Then both are cut over that axis, the rows into
//! parts whose lengths follow from the runs. Contracted columns and columns of the result are
//! treated as in a matmul.

use super::Typing;
use super::check;
use super::rules::{Operand, Outcome};
use super::site::{KeptPlacement, Site, resolve};
use crate::reshard;
use kbc_diag::Diagnostic;
use kbc_ir::graph::{GraphOp, OpId};
use kbc_ir::grouped::Runs;
use kbc_ir::result::result_of;
use kbc_ir::types::{Cut, CutRule, ReduceOp, TensorType};
use kbc_ir::{Name, Parts};

impl Typing<'_> {
    /// Types `[T, D] x [G, D, F] -> [T, F]`.
    pub(super) fn grouped(
        &mut self,
        id: OpId,
        op: &GraphOp,
        runs: &Runs,
        operands: &[Operand],
    ) -> Option<Outcome> {
        let [x, w] = operands else {
            self.malformed(op, 2, operands.len());
            return None;
        };
        let dtype = self.one_dtype(op, operands)?;
        if !self.computes(op, dtype, None) {
            return None;
        }
        let known = [x, w].map(|o| (o.1.dtype, o.1.sizes()));
        let sizes = match result_of(&op.kind, &known) {
            Ok(made) => made?.1,
            Err(why) => {
                let mut d = Diagnostic::error(
                    "E571",
                    format!("the operands of this grouped matmul do not match: {why}"),
                )
                .primary(op.span, "here");
                for (id, ty) in operands {
                    d = d.secondary(self.graph.op(*id).span, format!("this is `{ty}`"));
                }
                self.found
                    .push(d.help("it needs rows [T, D], matrices [G, D, F] and counts that add up to T"));
                return None;
            }
        };
        let result = self.whole(op, dtype, &sizes)?;
        let site = Site {
            sizes: vec![sizes[0], sizes[1], x.1.dims[1].size],
            operands: vec![vec![Some(0), Some(2)], vec![None, Some(2), Some(1)]],
            result: vec![Some(0), Some(1)],
            whole: vec![],
            combine: ReduceOp::Sum,
        };
        let smaller = |o: &Operand| o.1.partial.is_some() && o.1.elements() > result.elements();
        let one = operands.iter().filter(|o| o.1.partial.is_some()).count() == 1;
        let partial =
            one && operands.iter().any(smaller) && self.shared_partial(operands) == Some(ReduceOp::Sum);
        let keep = KeptPlacement { partial, only: x.1.only == w.1.only };
        let hint = self.hint_for(id, &site, &result);
        let mut best: Option<(u128, Outcome)> = None;
        for (rows, matrices, own) in self.pairs_of_runs(runs, &x.1, &w.1) {
            let Some(solution) =
                resolve(self.mesh, &site, &[(&rows, keep), (&matrices, keep)], &hint, &result)
            else {
                continue;
            };
            let mut targets = solution.targets;
            if let Some(cut) = own {
                // The axis may have moved to another dimension.
                if targets[0].dims[0].cut != rows.dims[0].cut {
                    continue;
                }
                targets[1].dims[0].cut = Some(cut);
            }
            let change = |have: &TensorType, want| reshard::plan(self.mesh, have, want).map(|p| p.weight);
            let (Some(a), Some(b)) = (change(&x.1, &targets[0]), change(&w.1, &targets[1])) else { continue };
            let cost = a.saturating_add(b);
            if best.as_ref().is_some_and(|b| b.0 <= cost) {
                continue;
            }
            let mut made = result.clone();
            for (dim, label) in made.dims.iter_mut().zip([0, 1]) {
                dim.cut = solution.cuts[label].clone();
            }
            let kept = operands.iter().filter(|_| partial).find_map(|o| o.1.partial.clone());
            let mut over = kept.map_or(vec![], |p| p.1);
            over.extend(solution.pending);
            made.partial = (!over.is_empty()).then_some((ReduceOp::Sum, over));
            made.only = x.1.only.clone().filter(|_| keep.only);
            let targets = targets.iter().map(|t| check::canonical(self.mesh, t)).collect();
            best = Some((cost, Outcome { targets, result: check::canonical(self.mesh, &made) }));
        }
        if best.is_none() {
            self.found.push(
                Diagnostic::error("E209", format!("no common placement for `{}` and `{}`", x.1, w.1))
                    .primary(op.span, "no placement works for both operands")
                    .help("give one of them another placement with `let name: TYPE = ..`"),
            );
        }
        best.map(|b| b.1)
    }

    /// Returns the placements in which rows and matrices can meet: rows cut together with the
    /// matrices, if the matrices are cut over an axis; and the given placements, where all matrices
    /// are on every rank. In the first case the cut of the matrices is returned separately, because
    /// it is not a label of the site.
    fn pairs_of_runs(
        &self,
        runs: &Runs,
        x: &TensorType,
        w: &TensorType,
    ) -> Vec<(TensorType, TensorType, Option<Cut>)> {
        let mut out = vec![];
        if let Some(cut) = &w.dims[0].cut
            && let [axis] = &cut.axes[..]
            && let Some(k) = self.mesh.axis(axis).map(|a| a.size)
        {
            let bounds: Vec<u64> = (0..=k).map(|i| cut.rule.boundary(w.dims[0].size, i, k)).collect();
            if let Some(lengths) = runs.lengths(&bounds).and_then(|l| Parts::row(&l)) {
                let mut rows = without(x, axis);
                let own = Cut { axes: vec![axis.clone()], rule: CutRule::Lengths(lengths) };
                rows.dims[0].cut = Some(own);
                let rows = check::canonical(self.mesh, &rows);
                let mut matrices = w.clone();
                matrices.dims[0].cut = None;
                out.push((rows, matrices, Some(cut.clone())));
            }
        }
        out.push((x.clone(), w.clone(), None));
        out
    }
}

/// Returns the type without any use of an axis.
fn without(ty: &TensorType, axis: &Name) -> TensorType {
    let mut ty = ty.clone();
    for dim in &mut ty.dims {
        dim.cut = dim.cut.take().filter(|c| !c.axes.contains(axis));
    }
    ty.partial = ty.partial.take().filter(|p| !p.1.contains(axis));
    ty.only = ty.only.take().filter(|o| o.1 != *axis);
    ty
}
