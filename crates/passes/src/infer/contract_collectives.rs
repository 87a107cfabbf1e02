//! Type rules of `barrier` and of collectives defined by their contract.
//!
//! A rank's part of the operand, along the one dimension that the axis splits, is what the contract
//! calls the rank's vector or its blocks. The rank's part of the result is what the contract leaves
//! on it at the end. This module also derives the contract of a user-defined collective from its
//! declaration, and reports operands that the collective cannot have.

use super::Typing;
use super::check::unreduced;
use super::rules::{Operand, Outcome};
use crate::expand;
use crate::part_of::library_for;
use kbc_diag::Diagnostic;
use kbc_ir::contract::Contract;
use kbc_ir::contract_sides::sides;
use kbc_ir::graph::{Collective, ContractCollective, GraphOp, OpId, OpKind};
use kbc_ir::types::{CutRule, ReduceOp, TensorType};

impl Typing<'_> {
    /// Types a collective with a contract: the placements before and after. Stores the contract in
    /// the operation.
    pub(super) fn own(
        &mut self,
        id: OpId,
        op: &GraphOp,
        c: &Collective,
        operands: &[Operand],
    ) -> Option<Outcome> {
        let [x] = operands else {
            self.malformed(op, 1, operands.len());
            return None;
        };
        let known = c.own.as_ref().and_then(|o| o.contract.clone());
        let contract = match known {
            Some(p) => p,
            None => match self.declared(op, c) {
                Ok(p) => p,
                Err(d) => {
                    self.found.push(*d);
                    return None;
                }
            },
        };
        let found = self.fits(op, c, x, &contract);
        let (dim, size) = found.map_err(|d| self.found.push(*d)).ok()?;
        let mut operand = x.1.clone();
        (operand.partial, operand.only) = (None, None);
        let mut result = operand.clone();
        result.dims[dim].size = size;
        let ranks = self.mesh.axis(&c.axis).map_or(1, |a| a.size);
        let red = contract.red;
        let part_of = c.own.as_ref().map_or(vec![], |o| o.part_of.clone());
        let own = ContractCollective { name: c.name().into(), ranks, contract: Some(contract), part_of };
        let done = Collective { own: Some(Box::new(own)), red, dim: Some(dim), ..c.clone() };
        if done != *c {
            self.graph.op_mut(id).kind = OpKind::Collective(done);
            self.changed = true;
        }
        Some(Outcome { targets: vec![operand], result })
    }

    /// Returns the contract of a collective's declaration.
    fn declared(&self, op: &GraphOp, c: &Collective) -> Result<Contract, Box<Diagnostic>> {
        let coll = self.library.find_collective(op.span.file, c.name(), op.span)?;
        let decl = self.library.collective(coll);
        let rooted = match (&decl.root, c.root) {
            (Some((from, _)), None) => Some(format!("add `{}:`", if *from { "from" } else { "to" })),
            (None, Some(_)) => Some("remove the root".to_owned()),
            _ => None,
        };
        if let Some(help) = rooted {
            let what = if decl.root.is_some() { "needs" } else { "has no" };
            return Err(Box::new(
                Diagnostic::error("E029", format!("{} {what} root", c.name()))
                    .primary(op.span, "here")
                    .secondary(decl.name.span, "declared here")
                    .help(help),
            ));
        }
        let library = library_for(self.library, c.own.as_deref(), op.span.file);
        expand::contract_of(&library, decl, c.root, c.red.unwrap_or(ReduceOp::Sum))
    }

    /// Returns the dimension that the axis splits, and its size in the result.
    fn fits(
        &self,
        op: &GraphOp,
        c: &Collective,
        x: &Operand,
        contract: &Contract,
    ) -> Result<(usize, u64), Box<Diagnostic>> {
        let (name, axis, ty) = (c.name(), &c.axis, &x.1);
        let wrong = |reason: String, fix: String| {
            Box::new(
                Diagnostic::error(
                    "E208",
                    format!("{name} over `{axis}` of `{ty}` is not possible: {reason}"),
                )
                .primary(op.span, format!("{name} is not possible here"))
                .secondary(self.graph.op(x.0).span, format!("this is `{ty}`"))
                .help(fix),
            )
        };
        let ranks = self.mesh.axis(axis).map_or(1, |a| a.size);
        if c.root.is_some_and(|r| r >= ranks) {
            return Err(wrong(
                format!("rank {} does not exist", c.root.unwrap_or(0)),
                format!("valid ranks: 0..{ranks}"),
            ));
        }
        if contract.red.is_some() && !ty.dtype.reduces() {
            return Err(Box::new(unreduced(ty).primary(op.span, format!("{name} reduces"))));
        }
        let example = |d: usize| {
            let mut one = ty.erased();
            if let Some(dim) = one.dims.get_mut(d) {
                dim.cut = Some(kbc_ir::types::Cut { axes: vec![axis.clone()], rule: CutRule::Even });
            }
            format!("split it: `let y: {one} = ..`")
        };
        let Some(dim) = ty.dim_cut_by(axis) else {
            let fix = match ty.partial.as_ref().is_some_and(|p| p.1.contains(axis)) {
                true => "combine it first: all_reduce, or reduce_scatter".to_owned(),
                false if ty.dims.is_empty() => "a number has no dimension to split".to_owned(),
                false => example(c.dim.unwrap_or(0).min(ty.dims.len() - 1)),
            };
            return Err(wrong(
                "it works on the parts of a split dimension, and no dimension is split over this axis".into(),
                fix,
            ));
        };
        if let Some(requested) = c.dim.filter(|d| *d != dim) {
            return Err(wrong(
                format!("dimension {requested} is not split over `{axis}`"),
                format!("dimension {dim} is"),
            ));
        }
        if ty.dims[dim].cut.as_ref().is_some_and(|cut| cut.axes.len() > 1) {
            return Err(wrong(
                format!("dimension {dim} is split over several axes"),
                format!("gather over the other axes first, so that only `{axis}` splits it"),
            ));
        }
        if let Some(CutRule::Lengths(l)) = ty.dims[dim].cut.as_ref().map(|cut| &cut.rule) {
            return Err(wrong(
                format!("the parts of dimension {dim} have explicit lengths, {l}"),
                format!(
                    "parts that change places must have equal lengths: split the dimension evenly, `@{axis}`"
                ),
            ));
        }
        let both = sides(contract).map_err(|why| {
            let mut d = wrong(why, "in a program, a collective must have one input and one output".into());
            if let Ok(coll) = self.library.find_collective(op.span.file, name, op.span) {
                let at = self.library.collective(coll).name.span;
                *d = d.clone().secondary(at, "declared here");
            }
            d
        })?;
        let size = ty.dims[dim].size;
        match both.result_size(size, ranks) {
            Ok(n) => Ok((dim, n)),
            Err(why) => Err(wrong(
                why,
                format!(
                    "parts that change places must have equal lengths: use a size that is divisible by {ranks}"
                ),
            )),
        }
    }

    /// Types a barrier: it takes any value and returns it.
    pub(super) fn barrier(&mut self, op: &GraphOp, operands: &[Operand]) -> Option<Outcome> {
        let [x] = operands else {
            self.malformed(op, 1, operands.len());
            return None;
        };
        let ty: &TensorType = &x.1;
        Some(Outcome { targets: vec![ty.clone()], result: ty.clone() })
    }
}
