//! Binding: sizes and element types that get their value at their first use, and the check whether
//! a value fits a type.
//!
//! This module owns the kinds of arguments and the messages about values that do not fit.
//! [`super::inline`] lowers calls, and [`super::types`] lowers written types.

use super::locals::Local;
use super::state::Lowering;
use super::values::ParamValue;
use crate::ast::{self, Arg, DataKind};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::graph::{GraphOp, OpId, OpKind};
use kbc_ir::types::{DType, TensorType};
use kbc_rounds::ast::ExprKind;

/// The kind of an argument of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ArgumentKind {
    Tensor,
    Int,
    Number,
    Bool,
    Axis,
}

/// Returns the kind of an argument. It is given by a word in the position of the type, or is a
/// tensor type.
pub(super) fn kind(arg: &Arg) -> ArgumentKind {
    let ty = &arg.ty;
    if ty.any || !ty.dims.is_empty() || !ty.places.is_empty() {
        return ArgumentKind::Tensor;
    }
    match ty.dtype.node.as_str() {
        "int" => ArgumentKind::Int,
        "number" => ArgumentKind::Number,
        "bool" => ArgumentKind::Bool,
        "axis" => ArgumentKind::Axis,
        _ => ArgumentKind::Tensor,
    }
}

/// Returns whether a number replaces the tensor if the argument is not given.
pub(super) fn has_number(arg: &Arg) -> bool {
    arg.data.as_ref().is_some_and(|d| matches!(d.kind, DataKind::Value(_)))
}

/// Returns the names that the types of a program's arguments use as sizes and that are not
/// arguments, in the order of their first use.
pub(super) fn sizes(args: &[Arg]) -> Vec<&str> {
    let mut out: Vec<&str> = vec![];
    let dims = args.iter().filter(|a| kind(a) == ArgumentKind::Tensor).flat_map(|a| &a.ty.dims);
    for d in dims {
        if let ExprKind::Name(n) = &d.size.kind
            && !out.contains(&n.as_str())
            && args.iter().all(|a| a.name.node != *n)
        {
            out.push(n);
        }
    }
    out
}

impl Lowering<'_> {
    /// Binds the unbound names in a type to the element type and sizes of a value. If the type
    /// begins with `..`, its dimensions correspond to the last ones of the value. Nothing is bound
    /// if the numbers of dimensions differ.
    pub(super) fn learn(&mut self, ty: &ast::Type, dtype: Option<DType>, sizes: &[u64]) {
        let name = &ty.dtype.node;
        let known = self.cx.element_type(&ty.dtype).is_some() || self.cx.locals.get(name).is_some();
        if let (false, Some(dtype)) = (known, dtype) {
            self.cx.locals.set(name, Local::Type(dtype), ty.dtype.span);
        }
        let Some(first) = leading(ty, sizes.len()) else { return };
        for (dim, size) in ty.dims.iter().zip(&sizes[first..]) {
            let ExprKind::Name(n) = &dim.size.kind else { continue };
            if self.cx.locals.get(n).is_none()
                && self.cx.params.find(dim.size.span.file, n).is_none()
                && let Ok(size) = i64::try_from(*size)
            {
                self.cx.locals.set(n, Local::Number(ParamValue::Int(size)), dim.size.span);
            }
        }
    }

    /// Returns the type of a value, whose names are bound. Reports an error and returns None if the
    /// value does not fit the type.
    pub(super) fn fit(
        &mut self,
        ty: &ast::Type,
        (dtype, sizes): (DType, &[u64]),
        what: &str,
        at: Span,
    ) -> Option<TensorType> {
        let have = TensorType::replicated(dtype, sizes);
        let misfit = |why: String, place: Span| {
            Diagnostic::error("E230", format!("{what} is `{have}`, which differs from its declared type"))
                .primary(at, format!("this is `{have}`"))
                .secondary(place, why)
        };
        let Some(first) = leading(ty, sizes.len()) else {
            let least = if ty.any { "at least " } else { "" };
            let s = if ty.dims.len() == 1 { "" } else { "s" };
            self.found.push(misfit(format!("expected {least}{} dimension{s}", ty.dims.len()), ty.span));
            return None;
        };
        let want = self.cx.ty_behind(ty, &sizes[..first], &mut self.found)?;
        let mut sound = true;
        if want.dtype != dtype {
            let mut d = misfit(format!("{} wanted", want.dtype), ty.dtype.span);
            if let Some(place) = self.cx.locals.place(&ty.dtype.node).filter(|p| *p != ty.dtype.span) {
                d = d.secondary(place, format!("this sets `{}` to {}", ty.dtype.node, want.dtype));
            }
            self.found.push(d.help(format!("cast it: `{}(..)`", want.dtype)));
            sound = false;
        }
        for (i, (dim, size)) in ty.dims.iter().zip(&sizes[first..]).enumerate() {
            let wanted = want.dims.get(first + i).map_or(*size, |d| d.size);
            if wanted == *size {
                continue;
            }
            let mut d = misfit(format!("dimension {} is {size}, expected {wanted}", first + i), dim.span);
            if let ExprKind::Name(n) = &dim.size.kind
                && let Some(place) = self.cx.locals.place(n).filter(|p| *p != dim.size.span)
            {
                d = d.secondary(place, format!("this sets `{n}` to {wanted}"));
            }
            self.found.push(d);
            sound = false;
        }
        sound.then_some(want)
    }

    /// Appends the demand of a called program that the value has the placement of this type.
    /// Returns the value itself if the type asks for no placement.
    pub(super) fn demand_placement(
        &mut self,
        ty: &ast::Type,
        want: TensorType,
        value: OpId,
        name: Name,
    ) -> OpId {
        let cut = |d: &ast::Dim| d.cut.is_some();
        if !ty.dims.iter().any(cut) && ty.places.is_empty() {
            return value;
        }
        let first = want.dims.len() - ty.dims.len();
        let open = (0..want.dims.len()).filter(|i| *i < first || !cut(&ty.dims[i - first])).collect();
        let op =
            GraphOp { kind: OpKind::PartialDemand(open), name, ty: None, want: Some(want), span: ty.span };
        self.add(op, &[value])
    }
}

/// Returns the number of dimensions of a value before those that a type names, or None if the
/// numbers do not fit.
fn leading(ty: &ast::Type, rank: usize) -> Option<usize> {
    let first = rank.checked_sub(ty.dims.len())?;
    (first == 0 || ty.any).then_some(first)
}
