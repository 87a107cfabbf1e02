//! Types: lowers written types to types of the IR.
//!
//! This module owns element types, sizes, splits and places with their names. `infer` checks
//! whether a type is valid as a whole (for example, whether an axis is used twice, or a coordinate
//! is outside its axis).

use super::Cx;
use super::locals::Local;
use crate::ast::{self, CutHow, TypePlaceKind};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::Name;
use kbc_ir::types::{Cut, CutRule, DType, Dim, ReduceOp, TensorType};
use kbc_rounds::ast::{Expr, ExprKind, Ident};
use kbc_rounds::eval::{BUILTINS, unknown};

impl Cx<'_> {
    /// Lowers a type. Returns None if an error was reported.
    pub(super) fn ty(&self, ty: &ast::Type, found: &mut Diagnostics) -> Option<TensorType> {
        if ty.any {
            found.push(
                Diagnostic::error("E231", "the dimensions that `..` stands for are unknown")
                    .primary(ty.span, "`..` stands for any dimensions")
                    .help("only types of a called program can begin with `..`, because the caller's value then defines the dimensions"),
            );
            return None;
        }
        self.ty_behind(ty, &[], found)
    }

    /// Lowers a type with these dimensions in place of `..`. Returns None if an error was reported.
    pub(super) fn ty_behind(
        &self,
        ty: &ast::Type,
        first: &[u64],
        found: &mut Diagnostics,
    ) -> Option<TensorType> {
        let dtype = self.dtype(&ty.dtype, found);
        let first = first.iter().map(|&size| Some(Dim { size, cut: None }));
        let dims: Vec<Option<Dim>> = first.chain(ty.dims.iter().map(|d| self.dim(d, found))).collect();
        let (mut partial, mut only) = (None, None);
        let mut first: Option<(bool, Span)> = None;
        let mut sound = true;
        for place in &ty.places {
            let is_partial = matches!(place.kind, TypePlaceKind::Partial { .. });
            if let Some((_, at)) = first.filter(|f| f.0 == is_partial) {
                let word = if is_partial { "partial" } else { "only" };
                found.push(
                    Diagnostic::error("E221", format!("`{word}` is given twice"))
                        .primary(place.span, "again here")
                        .secondary(at, "first here")
                        .help("write several axes in one pair of parentheses: partial(sum@(dp, tp))"),
                );
                sound = false;
                continue;
            }
            first = first.or(Some((is_partial, place.span)));
            match &place.kind {
                TypePlaceKind::Partial { op, axes } => {
                    let red = reduction(op, found);
                    let axes = self.axes(axes, found);
                    sound &= red.is_some() && axes.is_some();
                    partial = red.zip(axes);
                }
                TypePlaceKind::Only { rank, axis } => {
                    let at = self.count(rank, "a coordinate", found);
                    let axis = self.axis(axis, found);
                    sound &= at.is_some() && axis.is_some();
                    only = at.zip(axis);
                }
            }
        }
        let dims: Option<Vec<Dim>> = dims.into_iter().collect();
        let ty = TensorType { dtype: dtype?, dims: dims?, partial, only };
        sound.then_some(ty)
    }

    /// Returns the element type with this name: that of a variable, one of the language, or that of
    /// a parameter.
    pub(super) fn element_type(&self, name: &Ident) -> Option<DType> {
        match self.locals.get(&name.node) {
            Some(Local::Type(dtype)) => Some(*dtype),
            _ => DType::parse(&name.node).or_else(|| self.params.dtype(name.span.file, &name.node)),
        }
    }

    fn dtype(&self, name: &Ident, found: &mut Diagnostics) -> Option<DType> {
        let dtype = self.element_type(name);
        if dtype.is_none() {
            let valid: Vec<String> = DType::ALL.iter().map(|d| d.name().to_owned()).collect();
            let mut d = *unknown("E005", "element type", &name.node, name.span, &valid);
            if let (None, Some(meant)) = (&d.help, misspelt(&name.node)) {
                d = d.help(format!("write `{meant}`"));
            }
            found.push(d);
        }
        dtype
    }

    fn dim(&self, dim: &ast::Dim, found: &mut Diagnostics) -> Option<Dim> {
        let size = self.size(&dim.size, found);
        let cut = match &dim.cut {
            None => Some(None),
            Some(c) => self.axes(&c.axes, found).and_then(|axes| {
                let rule = match (&c.how, axes.first()) {
                    (CutHow::Ceil, _) => CutRule::Ceil,
                    (CutHow::Lengths(list), Some(axis)) => {
                        let all: Vec<Option<u64>> = list.iter().map(|e| self.length(e, found)).collect();
                        let all = all.into_iter().collect::<Option<Vec<u64>>>()?;
                        self.lengths(all, (axis, c.span), size, found)?
                    }
                    (CutHow::By(f), Some(axis)) => {
                        let all = self.lengths_by(f, (axis, c.span), found)?;
                        self.lengths(all, (axis, c.span), size, found)?
                    }
                    _ => CutRule::Even,
                };
                Some(Some(Cut { axes, rule }))
            }),
        };
        Some(Dim { size: size?, cut: cut? })
    }

    /// Returns the size of a dimension.
    fn size(&self, e: &Expr, found: &mut Diagnostics) -> Option<u64> {
        if let Some(d) = self.unbound(e) {
            found.push(d);
            return None;
        }
        self.count(e, "a size", found)
    }

    /// Returns the message for a name without a value in a size.
    pub(super) fn unbound(&self, e: &Expr) -> Option<Diagnostic> {
        let (name, span) = self.free(e)?;
        if let Some(Local::Unbound(fault)) = self.locals.get(name) {
            return Some((**fault).clone());
        }
        let mut known: Vec<String> = self.locals.names();
        known.extend(self.loaded.params(span.file).map(|p| p.name.node.clone()));
        let d = Diagnostic::error("E231", format!("the size `{name}` has no value"))
            .primary(span, "neither a parameter nor a size known here");
        let alone = matches!(e.kind, ExprKind::Name(_));
        let help = match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if alone && !self.called => format!(
                "give the size with -D {name}=25, or read an input whose type contains it from a file, or declare `param {name} = 25`"
            ),
            None => format!("an argument defines a size where the size is a whole dimension: f32[{name}]"),
        };
        Some(d.help(help))
    }

    /// Returns a name without a value in a size.
    fn free<'e>(&self, e: &'e Expr) -> Option<(&'e str, Span)> {
        match &e.kind {
            ExprKind::Name(n) => {
                let known = self.locals.get(n).is_some_and(|l| l.constant().is_some())
                    || self.params.find(e.span.file, n).is_some();
                (!known).then_some((n.as_str(), e.span))
            }
            ExprKind::Call(f, list) if BUILTINS.iter().any(|b| b.0 == f.node) => {
                list.iter().find_map(|e| self.free(e))
            }
            ExprKind::Unary(_, a) => self.free(a),
            ExprKind::Binary(_, a, b) => self.free(a).or_else(|| self.free(b)),
            ExprKind::If(..) | ExprKind::Let(..) | ExprKind::Fold(..) => {
                let mut found = None;
                e.free_names(&mut |name, span| {
                    let known = self.locals.get(name).is_some_and(|l| l.constant().is_some())
                        || self.params.find(e.span.file, name).is_some();
                    if !known && found.is_none() {
                        found = Some((name, span));
                    }
                });
                found
            }
            ExprKind::Call(..)
            | ExprKind::Tuple(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Error => None,
        }
    }

    /// Evaluates a non-negative integer.
    pub(super) fn count(&self, e: &Expr, what: &str, found: &mut Diagnostics) -> Option<u64> {
        match self.int(e) {
            Err(d) => {
                found.push(*d);
                None
            }
            Ok(n) => {
                let count = u64::try_from(n).ok();
                if count.is_none() {
                    found.push(
                        Diagnostic::error("E221", format!("{what} is negative"))
                            .primary(e.span, format!("this is {n}")),
                    );
                }
                count
            }
        }
    }

    /// Returns axes of the mesh by name.
    pub(super) fn axes(&self, names: &[Ident], found: &mut Diagnostics) -> Option<Vec<Name>> {
        let all: Vec<Option<Name>> = names.iter().map(|n| self.axis(n, found)).collect();
        all.into_iter().collect()
    }

    /// Returns an axis of the mesh by name.
    pub(super) fn axis(&self, name: &Ident, found: &mut Diagnostics) -> Option<Name> {
        if let Some(Local::Axis(axis)) = self.locals.get(&name.node) {
            return Some(axis.clone());
        }
        let axis = self.mesh.axis(&name.node).map(|a| a.name.clone());
        if axis.is_none() {
            let mut valid: Vec<String> = self.locals.axes().map(|a| a.0.to_owned()).collect();
            valid.extend(self.mesh.axes.iter().map(|a| a.name.to_string()));
            found.push(*unknown("E203", "axis of the mesh", &name.node, name.span, &valid));
        }
        axis
    }
}

/// Returns a reduction by name.
pub(super) fn reduction(name: &Ident, found: &mut Diagnostics) -> Option<ReduceOp> {
    let op = ReduceOp::parse(&name.node);
    if op.is_none() {
        if matches!(name.node.as_str(), "avg" | "mean") {
            found.push(
                Diagnostic::error("E227", format!("a partial value cannot be pending for `{}`", name.node))
                    .primary(name.span, "an average is computed as a sum, and one division at the end")
                    .help("give the operand the type `partial(sum@..)`, and average in the reduction: all_reduce(x, avg, over: ..)"),
            );
        } else {
            let valid = ["sum", "prod", "min", "max"].map(str::to_owned);
            found.push(*unknown("E005", "reduction", &name.node, name.span, &valid));
        }
    }
    op
}

/// Returns the element type that was probably meant by an unknown name. Such a name resembles an
/// element type too closely to be accepted as a name for any type.
pub(super) fn misspelt(name: &str) -> Option<&'static str> {
    let plain = name.to_lowercase();
    let elsewhere = DType::foreign_name(&plain).map(DType::name);
    elsewhere.or_else(|| nearest(name, DType::ALL.map(DType::name)))
}
