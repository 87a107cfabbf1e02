//! Type rules of operations: the types that operands must have, and the type of the result.

use super::site::{KeptPlacement, Site, Solution, resolve};
use super::{Typing, check};
use crate::reshard;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::dtype::Format;
use kbc_ir::fill::{Fill, FillContent};
use kbc_ir::graph::{GraphOp, OpId};
use kbc_ir::linear;
use kbc_ir::result::result_of;
use kbc_ir::scalar::{Scalar, ScalarFn};
use kbc_ir::types::{Cut, DType, Dim, Mesh, ReduceOp, TensorType};

/// The outcome of a rule.
pub struct Outcome {
    /// The type each operand must have.
    pub targets: Vec<TensorType>,
    /// The type of the result.
    pub result: TensorType,
}

/// An operand: its operation and its type.
pub type Operand = (OpId, TensorType);

impl Typing<'_> {
    /// Types an elementwise operation. Operands broadcast from the right.
    pub(super) fn map(
        &mut self,
        id: OpId,
        op: &GraphOp,
        f: &ScalarFn,
        operands: &[Operand],
    ) -> Option<Outcome> {
        if f.params.len() != operands.len() || operands.is_empty() {
            self.malformed(op, f.params.len().max(1), operands.len());
            return None;
        }
        let dtype = self.one_dtype(op, operands)?;
        if !self.computes(op, dtype, Some(&f.body)) {
            return None;
        }
        let rank = operands.iter().map(|o| o.1.dims.len()).max().unwrap_or(0);
        let mut sizes = vec![1; rank];
        for (_, ty) in operands {
            for (size, dim) in sizes[rank - ty.dims.len()..].iter_mut().zip(&ty.dims) {
                if dim.size != 1 && *size != 1 && dim.size != *size {
                    self.shapes_differ(op, operands, "sizes must be equal or 1, counted from the right");
                    return None;
                }
                *size = if dim.size == 1 { *size } else { dim.size };
            }
        }
        let labels = |ty: &TensorType| {
            let first = rank - ty.dims.len();
            let at = |(i, d): (usize, &Dim)| (d.size == sizes[first + i]).then_some(first + i);
            ty.dims.iter().enumerate().map(at).collect()
        };
        let result = self.whole(op, dtype, &sizes)?;
        let site = Site {
            operands: operands.iter().map(|o| labels(&o.1)).collect(),
            result: (0..rank).map(Some).collect(),
            sizes,
            whole: vec![],
            combine: ReduceOp::Sum,
        };
        let partial: Vec<bool> = operands.iter().map(|o| o.1.partial.is_some()).collect();
        // Delaying a reduction pays only if the value does not grow meanwhile.
        let smaller = |o: &Operand| o.1.partial.is_some() && o.1.elements() >= result.elements();
        let keep = operands.iter().any(smaller)
            && self.shared_partial(operands).is_some_and(|op| linear::commutes(&f.body, &partial, op, dtype));
        self.settle(id, op, site, operands, keep, result)
    }

    /// Types a matmul: `[.., M, K] x [.., K, N] -> [.., M, N]`.
    pub(super) fn matmul(
        &mut self,
        id: OpId,
        op: &GraphOp,
        widen: bool,
        operands: &[Operand],
    ) -> Option<Outcome> {
        let [a, b] = operands else {
            self.malformed(op, 2, operands.len());
            return None;
        };
        let dtype = self.one_dtype(op, operands)?;
        if !self.computes(op, dtype, None) {
            return None;
        }
        if widen && !dtype.is_float() {
            self.found.push(
                Diagnostic::error("E206", format!("`accumulate: f32` does not apply to a matmul of {dtype}"))
                    .primary(op.span, format!("a matmul of {dtype} accumulates in {dtype}"))
                    .help("remove the option, or cast the operands to f32"),
            );
            return None;
        }
        let (ra, rb) = (a.1.dims.len(), b.1.dims.len());
        if ra < 2 || rb < 2 {
            self.shapes_differ(op, operands, "matmul needs at least two dimensions: [.., M, K] x [.., K, N]");
            return None;
        }
        if a.1.dims[ra - 1].size != b.1.dims[rb - 2].size {
            let (k, l) = (a.1.dims[ra - 1].size, b.1.dims[rb - 2].size);
            self.shapes_differ(
                op,
                operands,
                &format!("in [.., M, K] x [.., K, N], K is {k} on the left and {l} on the right"),
            );
            return None;
        }
        let batch = ra.max(rb) - 2;
        let mut sizes = vec![1; batch];
        for (_, ty) in operands {
            let lead = ty.dims.len() - 2;
            for (size, dim) in sizes[batch - lead..].iter_mut().zip(&ty.dims[..lead]) {
                if dim.size != 1 && *size != 1 && dim.size != *size {
                    self.shapes_differ(
                        op,
                        operands,
                        "leading sizes must be equal or 1, counted from the right",
                    );
                    return None;
                }
                *size = if dim.size == 1 { *size } else { dim.size };
            }
        }
        let (m, n, k) = (batch, batch + 1, batch + 2);
        sizes.extend([a.1.dims[ra - 2].size, b.1.dims[rb - 1].size, a.1.dims[ra - 1].size]);
        self.one_rule_for_contraction(op, operands)?;
        let labels = |ty: &TensorType, last: [usize; 2]| -> Vec<Option<usize>> {
            let lead = ty.dims.len() - 2;
            let first = batch - lead;
            let at = |i: usize| (ty.dims[i].size == sizes[first + i]).then_some(first + i);
            (0..lead).map(at).chain(last.map(Some)).collect()
        };
        let result = self.whole(op, if widen { DType::F32 } else { dtype }, &sizes[..k])?;
        let site = Site {
            operands: vec![labels(&a.1, [m, k]), labels(&b.1, [k, n])],
            result: (0..k).map(Some).collect(),
            sizes,
            whole: vec![],
            combine: ReduceOp::Sum,
        };
        // A matmul is linear in each operand. Delaying the reduction pays only if the result is
        // smaller.
        let smaller = |o: &Operand| o.1.partial.is_some() && o.1.elements() > result.elements();
        let one = operands.iter().filter(|o| o.1.partial.is_some()).count() == 1;
        let keep =
            one && operands.iter().any(smaller) && self.shared_partial(operands) == Some(ReduceOp::Sum);
        self.settle(id, op, site, operands, keep, result)
    }

    /// Types an embedding: rows of a table by their numbers. For placements it is a contraction
    /// over the rows of the table, in which one row contributes.
    pub(super) fn embedding(&mut self, id: OpId, op: &GraphOp, operands: &[Operand]) -> Option<Outcome> {
        let [table, ids] = operands else {
            self.malformed(op, 2, operands.len());
            return None;
        };
        let known = [table, ids].map(|o| (o.1.dtype, o.1.sizes()));
        let (dtype, sizes) = match result_of(&op.kind, &known) {
            Ok(made) => made?,
            Err(why) => {
                self.shapes_differ(op, operands, &why);
                return None;
            }
        };
        if !self.computes(op, dtype, None) {
            return None;
        }
        let result = self.whole(op, dtype, &sizes)?;
        let (first, rows) = (ids.1.dims.len(), sizes.len());
        let row = (first..rows).map(Some);
        let site = Site {
            operands: vec![std::iter::once(Some(rows)).chain(row).collect(), (0..first).map(Some).collect()],
            result: (0..rows).map(Some).collect(),
            sizes: sizes.iter().copied().chain([table.1.dims[0].size]).collect(),
            whole: vec![],
            combine: ReduceOp::Sum,
        };
        self.settle(id, op, site, operands, false, result)
    }

    /// Types a fill, whose elements depend on their position alone.
    pub(super) fn fill(&mut self, op: &GraphOp, f: &Fill) -> Option<Outcome> {
        if let FillContent::Place(d) = f.with
            && d >= f.sizes.len()
        {
            self.found.push(no_dimension(op, d, &TensorType::replicated(f.dtype, &f.sizes)));
            return None;
        }
        if let Err(why) = f.fault() {
            let d =
                Diagnostic::error("E570", format!("the element type cannot represent these elements: {why}"));
            self.found.push(
                d.primary(op.span, "here").help("write `type:` with a wider type, and cast the result"),
            );
            return None;
        }
        let result = self.whole(op, f.dtype, &f.sizes)?;
        Some(Outcome { targets: vec![], result })
    }

    /// Types a reduction of one dimension.
    pub(super) fn reduce_dim(
        &mut self,
        id: OpId,
        op: &GraphOp,
        (red, dim, kept): (ReduceOp, usize, bool),
        operands: &[Operand],
    ) -> Option<Outcome> {
        let [x] = operands else {
            self.malformed(op, 1, operands.len());
            return None;
        };
        let ty = &x.1;
        if !self.computes(op, ty.dtype, None) {
            return None;
        }
        let Some(along) = ty.dims.get(dim) else {
            self.found.push(no_dimension(op, dim, ty));
            return None;
        };
        if along.size == 0 && matches!(red, ReduceOp::Min | ReduceOp::Max) {
            self.found.push(
                Diagnostic::error(
                    "E201",
                    format!("{red} of an empty dimension: `{ty}` has size 0 in dimension {dim}"),
                )
                .primary(op.span, "the result is undefined"),
            );
            return None;
        }
        let labels: Vec<Option<usize>> = (0..ty.dims.len()).map(Some).collect();
        let mut result = labels.clone();
        let mut sizes = ty.sizes();
        if kept {
            result[dim] = None;
            sizes[dim] = 1;
        } else {
            result.remove(dim);
            sizes.remove(dim);
        }
        // An empty part has no least or greatest element to contribute.
        let hollow = along.cut.as_ref().is_some_and(|c| has_empty_part(self.mesh, along.size, c));
        let site = Site {
            sizes: ty.sizes(),
            operands: vec![labels],
            result,
            whole: if hollow && red != ReduceOp::Sum { vec![dim] } else { vec![] },
            combine: red,
        };
        let keep = self.shared_partial(operands) == Some(red);
        self.settle(id, op, site, operands, keep, TensorType::replicated(ty.dtype, &sizes))
    }

    /// Types a cast. It converts the final value, so a partial value is reduced first (rounding
    /// does not commute with addition).
    pub(super) fn cast(
        &mut self,
        id: OpId,
        op: &GraphOp,
        to: DType,
        operands: &[Operand],
    ) -> Option<Outcome> {
        let [x] = operands else {
            self.malformed(op, 1, operands.len());
            return None;
        };
        let labels: Vec<Option<usize>> = (0..x.1.dims.len()).map(Some).collect();
        let site = Site {
            sizes: x.1.sizes(),
            operands: vec![labels.clone()],
            result: labels,
            whole: vec![],
            combine: ReduceOp::Sum,
        };
        self.settle(id, op, site, operands, false, TensorType::replicated(to, &x.1.sizes()))
    }

    /// Returns the type of a result before its placement.
    pub(super) fn whole(&mut self, op: &GraphOp, dtype: DType, sizes: &[u64]) -> Option<TensorType> {
        let ty = TensorType::replicated(dtype, sizes);
        let fault = check::too_large(&ty, op.span);
        let fits = fault.is_none();
        self.found.list.extend(fault);
        fits.then_some(ty)
    }

    /// Determines the placements of operands and result, once shapes are known.
    pub(super) fn settle(
        &mut self,
        id: OpId,
        op: &GraphOp,
        site: Site,
        operands: &[Operand],
        keep_partial: bool,
        mut result: TensorType,
    ) -> Option<Outcome> {
        let keep_only = operands.windows(2).all(|w| w[0].1.only == w[1].1.only);
        let keep = KeptPlacement { partial: keep_partial, only: keep_only };
        let have: Vec<(&TensorType, KeptPlacement)> = operands.iter().map(|o| (&o.1, keep)).collect();
        let hint = self.hint_for(id, &site, &result);
        let Some(Solution { targets, cuts, pending }) = resolve(self.mesh, &site, &have, &hint, &result)
        else {
            let types: Vec<String> = operands.iter().map(|o| format!("`{}`", o.1)).collect();
            self.found.push(
                Diagnostic::error("E209", format!("no common placement for {}", types.join(" and ")))
                    .primary(op.span, "no placement works for all operands")
                    .help("give one of them another placement with `let name: TYPE = ..`"),
            );
            return None;
        };
        for (dim, label) in result.dims.iter_mut().zip(&site.result) {
            dim.cut = label.and_then(|l| cuts[l].clone());
        }
        let kept = operands.iter().filter(|_| keep_partial).find_map(|o| o.1.partial.clone());
        let combine = kept.as_ref().map_or(site.combine, |p| p.0);
        let mut over = kept.map_or(vec![], |p| p.1);
        over.extend(pending);
        result.partial = (!over.is_empty()).then_some((combine, over));
        result.only = if keep_only { operands.first().and_then(|o| o.1.only.clone()) } else { None };
        let targets = targets.iter().map(|t| check::canonical(self.mesh, t)).collect();
        Some(Outcome { targets, result: check::canonical(self.mesh, &result) })
    }

    /// Returns the combiner that all partial operands share. They must be partial over the same
    /// axes, and no other operand may be cut by one of these axes or held by one coordinate of
    /// them.
    pub(super) fn shared_partial(&self, operands: &[Operand]) -> Option<ReduceOp> {
        let first = operands.iter().find(|o| o.1.partial.is_some())?;
        let (op, axes) = first.1.partial.as_ref()?;
        let fits = |o: &Operand| match &o.1.partial {
            Some(_) => reshard::same_partial(&o.1, &first.1),
            None => !axes
                .iter()
                .any(|a| o.1.dim_cut_by(a).is_some() || o.1.only.as_ref().is_some_and(|only| only.1 == *a)),
        };
        operands.iter().all(fits).then_some(*op)
    }

    pub(super) fn one_dtype(&mut self, op: &GraphOp, operands: &[Operand]) -> Option<DType> {
        let first = operands.first()?.1.dtype;
        let odd = operands.iter().find(|o| o.1.dtype != first);
        let Some(odd) = odd else { return Some(first) };
        let other = odd.1.dtype;
        let (wide, narrow) = if rank_of(first) >= rank_of(other) { (first, other) } else { (other, first) };
        let mut d = Diagnostic::error("E202", format!("element types differ: {first} and {other}"))
            .primary(op.span, "the operands of an operation must have the same element type");
        for (id, ty) in operands {
            d = d.secondary(self.graph.op(*id).span, format!("this is `{ty}`"));
        }
        self.found.push(d.help(format!("cast the {narrow} operand: `{wide}(..)`")));
        None
    }

    /// Checks whether arithmetic, and the functions in `body`, exist for an element type.
    pub(super) fn computes(&mut self, op: &GraphOp, dtype: DType, body: Option<&Scalar>) -> bool {
        let refuse = |what: String, help: &str| {
            Diagnostic::error("E206", what).primary(op.span, format!("of {dtype} values")).help(help)
        };
        if let Some(d) = check::no_arithmetic(dtype) {
            self.found.push(d.primary(op.span, format!("of {dtype} values")));
            return false;
        }
        if !dtype.reduces() {
            self.found.push(refuse(
                format!("kbc can move {dtype} values but not compute with them"),
                "cast to f32 or i32 first",
            ));
            return false;
        }
        if let Some(f) = body.filter(|_| !dtype.is_float()).and_then(linear::float_function) {
            self.found.push(refuse(
                format!("`{}` is not defined for {dtype} values", f.name()),
                "cast to f32 first: `f32(..)`",
            ));
            return false;
        }
        true
    }

    fn one_rule_for_contraction(&mut self, op: &GraphOp, operands: &[Operand]) -> Option<()> {
        let [a, b] = operands else { return None };
        let (x, y) = (a.1.dims.last()?, b.1.dims.get(b.1.dims.len() - 2)?);
        let (Some(cx), Some(cy)) = (&x.cut, &y.cut) else { return Some(()) };
        if cx.axes != cy.axes || reshard::cuts_agree(self.mesh, x.size, Some(cx), Some(cy)) {
            return Some(());
        }
        let bounds = |c: &Cut| {
            let k = c.axes.iter().filter_map(|a| self.mesh.axis(a)).map(|a| a.size).product();
            let all: Vec<String> =
                (0..=k).take(6).map(|i| c.rule.boundary(x.size, i, k).to_string()).collect();
            format!("split at {}{}", all.join(", "), if k > 5 { ", .." } else { "" })
        };
        self.found.push(
            Diagnostic::error(
                "E207",
                format!(
                    "the contracted dimension is split in two ways: `{}@{cx}` and `{}@{cy}`",
                    x.size, y.size
                ),
            )
            .primary(op.span, "on each rank, the number of columns would differ from the number of rows")
            .secondary(self.graph.op(a.0).span, format!("`{}`: {}", a.1, bounds(cx)))
            .secondary(self.graph.op(b.0).span, format!("`{}`: {}", b.1, bounds(cy)))
            .help(format!("write both with `@{cx}` or both with `@{cy}`")),
        );
        None
    }

    pub(super) fn shapes_differ(&mut self, op: &GraphOp, operands: &[Operand], why: &str) {
        let types: Vec<String> = operands.iter().map(|o| format!("`{}`", o.1)).collect();
        let mut d = Diagnostic::error("E201", format!("shapes do not match: {}", types.join(" and ")))
            .primary(op.span, why.to_owned());
        for (id, ty) in operands {
            d = d.secondary(self.graph.op(*id).span, format!("this is `{ty}`"));
        }
        self.found.push(d);
    }

    pub(super) fn malformed(&mut self, op: &GraphOp, wanted: usize, got: usize) {
        self.found.push(
            Diagnostic::error("E211", format!("%{} has {got} operands", op.name))
                .primary(op.span, format!("expected {wanted}")),
        );
    }
}

/// Returns the error for a dimension that a tensor does not have.
pub fn no_dimension(op: &GraphOp, dim: usize, ty: &TensorType) -> Diagnostic {
    let n = ty.dims.len();
    Diagnostic::error("E210", format!("`{ty}` has no dimension {dim}")).primary(
        op.span,
        if n == 0 {
            "it has no dimensions".into()
        } else {
            format!("the dimensions are 0..{n}, counted from the left")
        },
    )
}

/// Returns the error for an annotation whose shape or element type differs from the value's.
pub fn not_that_tensor(
    ty: &TensorType,
    value: Span,
    want: &TensorType,
    requested: Span,
) -> Option<Diagnostic> {
    let (code, what) = match () {
        () if ty.sizes() != want.sizes() => ("E201", "shapes do not match"),
        () if ty.dtype != want.dtype => ("E202", "element types differ"),
        () => return None,
    };
    let d = Diagnostic::error(code, format!("{what}: expected `{want}`, found `{ty}`"))
        .primary(requested, format!("expected `{want}`"))
        .secondary(value, format!("this is `{ty}`"));
    Some(if code == "E202" { d.help(format!("cast it: `{}(..)`", want.dtype)) } else { d })
}

/// Rank of an element type in an order by capacity, for the suggested cast: floats with arithmetic
/// by their largest number, then integers by their bits, then other floats.
fn rank_of(dtype: DType) -> (u8, f64) {
    match dtype.row().format {
        Format::Float(f) => (if dtype.reduces() { 2 } else { 0 }, f.max),
        Format::Int { bits, .. } => (1, f64::from(bits)),
    }
}

/// Checks whether some rank holds nothing of a dimension of n elements.
fn has_empty_part(mesh: &Mesh, n: u64, cut: &Cut) -> bool {
    let Some((first, rest)) = cut.axes.split_first() else { return n == 0 };
    let k = mesh.axis(first).map_or(1, |a| a.size);
    let mut parts: Vec<u64> =
        (0..k).map(|i| cut.rule.boundary(n, i + 1, k) - cut.rule.boundary(n, i, k)).collect();
    parts.sort_unstable();
    parts.dedup();
    parts.iter().any(|&part| has_empty_part(mesh, part, &Cut { axes: rest.to_vec(), rule: cut.rule.clone() }))
}
