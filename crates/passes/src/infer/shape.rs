//! Type rules of operations that move elements: which cuts carry over to the result, and what is
//! changed before if one does not.
//!
//! [`kbc_ir::shape`] states for each operation which dimension of the operand carries over to which
//! dimension of the result. This module decides what becomes of the cuts, and that partial values
//! and values of one coordinate pass through.

use super::Typing;
use super::rules::{Operand, Outcome};
use super::site::Site;
use crate::infer::check;
use crate::reshard;
use kbc_diag::Diagnostic;
use kbc_ir::graph::{GraphOp, OpId, OpKind};
use kbc_ir::shape::{Follows, ShapeOp};
use kbc_ir::types::{Cut, CutRule, Mesh, ReduceOp, TensorType};
use kbc_ir::{Name, Parts};

impl Typing<'_> {
    /// Types a transpose, reshape, slice, pad or concat.
    pub(super) fn shape(
        &mut self,
        id: OpId,
        op: &GraphOp,
        s: &ShapeOp,
        operands: &[Operand],
    ) -> Option<Outcome> {
        if operands.is_empty() || s.arity().is_some_and(|n| n != operands.len()) {
            self.malformed(op, s.arity().unwrap_or(1), operands.len());
            return None;
        }
        let dtype = self.one_dtype(op, operands)?;
        let given: Vec<Vec<u64>> = operands.iter().map(|o| o.1.sizes()).collect();
        let sizes = match s.sizes(&given) {
            Ok(sizes) => sizes,
            Err(why) => {
                let types: Vec<String> = operands.iter().map(|o| format!("`{}`", o.1)).collect();
                let what = format!("{} of {} is not possible: {why}", s.name(), types.join(", "));
                let mut d = Diagnostic::error("E201", what).primary(op.span, "this does not fit its operand");
                for (id, ty) in operands {
                    d = d.secondary(self.graph.op(*id).span, format!("this is `{ty}`"));
                }
                self.found.push(d);
                return None;
            }
        };
        if let Err(why) = s.has_number(dtype) {
            let d =
                Diagnostic::error("E570", format!("the element type cannot represent these elements: {why}"));
            self.found.push(d.primary(op.span, "here").help("cast the operand first"));
            return None;
        }
        let result = self.whole(op, dtype, &sizes)?;
        match operands {
            [x] => self.one(id, op, s, x, &result),
            _ => self.several(id, op, s, operands, result),
        }
    }

    /// Returns the lightest change of the operand to a placement that carries over.
    fn one(
        &mut self,
        id: OpId,
        op: &GraphOp,
        s: &ShapeOp,
        x: &Operand,
        result: &TensorType,
    ) -> Option<Outcome> {
        let ty = &x.1;
        if let (ShapeOp::Entry(_), Some(cut)) = (s, ty.dims.first().and_then(|d| d.cut.as_ref())) {
            self.split_entries(op, x, cut);
            return None;
        }
        let follows = s.follows(&ty.sizes(), &result.sizes());
        let requested = self.hints.get(&id).map(|hint| {
            let n = result.dims.len();
            let mut want = result.clone();
            for (from_right, size, cut) in hint {
                if let Some(d) = (n.checked_sub(from_right + 1)).and_then(|i| want.dims.get_mut(i))
                    && d.size == *size
                {
                    d.cut = Some(cut.clone());
                }
            }
            want
        });
        let mut best: Option<(u128, Outcome)> = None;
        // A number that would be added once per rank is added after the reduction.
        let mut start = ty.clone();
        start.partial = start.partial.filter(|p| s.commutes(p.0));
        // Without dimensions, every rank has an element, so the ranks that have none need it.
        start.only = start.only.filter(|_| !result.dims.is_empty() || ty.dims.is_empty());
        for target in ways(self.mesh, &start, result, &follows) {
            let Some(made) = through(self.mesh, &target, result, &follows) else { continue };
            let Some(before) = reshard::plan(self.mesh, ty, &target) else { continue };
            let after = requested.as_ref().and_then(|want| reshard::plan(self.mesh, &made, want));
            let cost = before.weight.saturating_add(after.map_or(0, |p| p.weight));
            if best.as_ref().is_none_or(|b| cost < b.0) {
                let target = check::canonical(self.mesh, &target);
                best = Some((
                    cost,
                    Outcome { targets: vec![target], result: check::canonical(self.mesh, &made) },
                ));
            }
        }
        if best.is_none() {
            self.found.push(
                Diagnostic::error("E209", format!("no placement of `{ty}` is possible with {}", s.name()))
                    .primary(op.span, "a dimension must not be split here")
                    .secondary(self.graph.op(x.0).span, format!("this is `{ty}`"))
                    .help(format!("give the operand a placement first: `let name: {} = ..`", ty.erased())),
            );
        }
        best.map(|b| b.1)
    }

    /// Reports an index of a dimension that is split. kbc does not gather it silently: an entry
    /// that one rank has would be sent to all others, and the rest of the tensor with it.
    fn split_entries(&mut self, op: &GraphOp, (id, ty): &Operand, cut: &Cut) {
        let mut whole = ty.clone();
        whole.dims[0].cut = None;
        let name = &self.graph.op(*id).name;
        let d = Diagnostic::error("E237", format!("`{name}` is split along the dimension that is indexed"))
            .primary(op.span, format!("dimension 0 of `{ty}` is split over {}", cut.axes.join(", ")))
            .secondary(self.graph.op(*id).span, format!("this is `{ty}`"));
        let help = match self.graph.op(*id).kind {
            OpKind::Input(_) => {
                format!("give `{name}` a type in which this dimension is not split: `{whole}`")
            }
            _ => format!("make the dimension whole first: `let all: {whole} = {name}`, then index `all`"),
        };
        self.found.push(d.help(help));
    }

    /// Types an operation on several operands, whose dimensions keep their sizes except for one
    /// that must be whole.
    fn several(
        &mut self,
        id: OpId,
        op: &GraphOp,
        s: &ShapeOp,
        operands: &[Operand],
        result: TensorType,
    ) -> Option<Outcome> {
        let rank = result.dims.len();
        let labels = |o: &Operand| -> Vec<Option<usize>> {
            s.follows(&o.1.sizes(), &result.sizes()).into_iter().map(|f| f.map(|f| f.dim)).collect()
        };
        let site = Site {
            sizes: result.sizes(),
            operands: operands.iter().map(labels).collect(),
            result: (0..rank).map(Some).collect(),
            whole: vec![],
            combine: ReduceOp::Sum,
        };
        // If only some operands were partial, the others would be counted once per rank.
        let alike = operands.iter().all(|o| reshard::same_partial(&o.1, &operands[0].1));
        let keep = alike && operands[0].1.partial.is_some();
        self.settle(id, op, site, operands, keep, result)
    }
}

/// Returns placements of the operand that may carry over. A cut that does not carry over is
/// gathered, or moved to a dimension that carries over. The dimensions before it are tried first,
/// the nearest one first.
fn ways(mesh: &Mesh, ty: &TensorType, result: &TensorType, follows: &[Option<Follows>]) -> Vec<TensorType> {
    let mut base = ty.clone();
    let mut freed: Vec<(usize, Vec<Name>)> = vec![];
    for (d, f) in follows.iter().enumerate() {
        let Some(cut) = &ty.dims[d].cut else { continue };
        let goes = |cut: &Cut| {
            f.and_then(|f| equivalent_cut(mesh, cut, ty.dims[d].size, f, result.dims[f.dim].size))
        };
        // As many of the outer axes as carry over.
        let most = (1..=cut.axes.len())
            .rev()
            .find(|n| goes(&Cut { axes: cut.axes[..*n].to_vec(), rule: cut.rule.clone() }).is_some());
        let (stay, go) = cut.axes.split_at(most.unwrap_or(0));
        base.dims[d].cut = most.map(|_| Cut { axes: stay.to_vec(), rule: cut.rule.clone() });
        if !go.is_empty() {
            freed.push((d, go.to_vec()));
        }
    }
    let mut out = vec![base.clone()];
    for (d, moving) in freed {
        let before: Vec<usize> = (0..d).rev().chain(d..follows.len()).collect();
        for e in before.into_iter().filter(|e| follows[*e].is_some()) {
            let mut moved = base.clone();
            let mut axes = moved.dims[e].cut.as_ref().map_or(vec![], |c| c.axes.clone());
            if moved.dims[e].cut.as_ref().is_some_and(|c| c.rule != CutRule::Even) {
                continue;
            }
            axes.extend(moving.iter().cloned());
            moved.dims[e].cut = Some(Cut { axes, rule: CutRule::Even });
            out.push(moved);
        }
    }
    out
}

/// Returns the type of the result for an operand in this placement, or `None` if one of its cuts
/// does not carry over.
fn through(
    mesh: &Mesh,
    ty: &TensorType,
    result: &TensorType,
    follows: &[Option<Follows>],
) -> Option<TensorType> {
    let mut out = TensorType { partial: ty.partial.clone(), only: ty.only.clone(), ..result.clone() };
    for (dim, f) in ty.dims.iter().zip(follows) {
        if let Some(cut) = &dim.cut {
            let f = (*f)?;
            let to = &mut out.dims[f.dim];
            to.cut = Some(equivalent_cut(mesh, cut, dim.size, f, to.size)?);
        }
    }
    Some(out)
}

/// Returns the cut of the result's dimension of m elements that gives every rank the same data as
/// this cut of the operand's dimension of n elements.
fn equivalent_cut(mesh: &Mesh, cut: &Cut, n: u64, f: Follows, m: u64) -> Option<Cut> {
    if f.step == f.result_step {
        return Some(cut.clone());
    }
    let sizes: Vec<u64> = cut.axes.iter().map(|a| mesh.axis(a).map_or(1, |a| a.size)).collect();
    let k: u64 = sizes.iter().product();
    let given = matches!(cut.rule, CutRule::Lengths(_));
    if !given && n.is_multiple_of(k.max(1)) && m.is_multiple_of(k.max(1)) {
        return Some(cut.clone());
    }
    // Lists of boundaries are made for a single axis only. With several axes, the parts must divide
    // evenly.
    let ([k], true) = (&sizes[..], k <= n.max(m).saturating_mul(2)) else { return None };
    let at = |i: u64| {
        let run = cut.rule.boundary(n, i, *k).checked_mul(f.step)?;
        run.is_multiple_of(f.result_step).then_some(run / f.result_step)
    };
    let bounds: Vec<u64> = (0..=*k).map(at).collect::<Option<_>>()?;
    let same = !given && (0..=*k).all(|i| cut.rule.boundary(m, i, *k) == bounds[i as usize]);
    let rule = match same {
        true => cut.rule.clone(),
        false => CutRule::Lengths(Parts::row(&bounds.windows(2).map(|w| w[1] - w[0]).collect::<Vec<_>>())?),
    };
    Some(Cut { axes: cut.axes.clone(), rule })
}
