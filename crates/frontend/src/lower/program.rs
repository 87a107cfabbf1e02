//! Programs: inputs, lets and results.
//!
//! This module owns the declarations of names inside a program and the structure of its graph.
//! [`super::state`] holds both, and [`super::tensor`] lowers expressions.

use super::Cx;
use super::bind::{ArgumentKind, has_number, kind};
use super::groups::Scope;
use super::locals::Local;
use super::state::{KnownValue, Lowering, Value};
use super::values::ParamValue;
use crate::ast::{self, Data, DataKind, Let, ProgramDecl, Tensor, TensorKind};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::Name;
use kbc_ir::graph::{DataSource, Expect, Graph, GraphOp, Input, OpId, OpKind};
use kbc_rounds::ast::{ExprKind, Ident};
use kbc_rounds::eval::Fault;

/// A lowered program.
pub(super) struct LoweredProgram {
    pub graph: Graph,
    pub warnings: Diagnostics,
    /// The sizes and numbers for which it was lowered and which are not parameters, sorted by name.
    pub bound: Vec<(String, ParamValue)>,
}

/// Lowers a program to a graph. `shapes` are the shapes of the data of its inputs, where they are
/// known.
///
/// # Errors
/// Returns all errors of the program, sorted by place.
pub(super) fn lower<'a>(
    cx: &Cx<'a>,
    program: &'a ProgramDecl,
    shapes: &[(String, Vec<u64>)],
) -> Result<LoweredProgram, Diagnostics> {
    lower_in(cx, program, shapes, None)
}

/// Lowers a program, or a part of a local program if `local` is given.
///
/// # Errors
/// Returns all errors of the program, sorted by place.
pub(super) fn lower_in<'a>(
    cx: &Cx<'a>,
    program: &'a ProgramDecl,
    shapes: &[(String, Vec<u64>)],
    local: Option<Scope<'a>>,
) -> Result<LoweredProgram, Diagnostics> {
    let mut l = Lowering { local, ..Lowering::begin(cx) };
    l.graph.name = Some(Name::from(&program.name.node));
    l.inputs(program, shapes);
    for item in &program.body.statements {
        l.statement(item);
    }
    let results = l.results(program);
    l.expect(program);
    if l.found.has_errors() {
        return Err(l.found.finish());
    }
    l.unused(program);
    let several = results.len() > 1;
    for (i, (value, span)) in results.into_iter().enumerate() {
        let name = if several { format!("out{i}") } else { "out".to_owned() };
        l.graph.push(
            GraphOp { kind: OpKind::Output(i), name: Name::from(&name), ty: None, want: None, span },
            &[value],
        );
    }
    let bound = l.cx.locals.numbers().map(|(n, v)| (n.to_owned(), v)).collect();
    Ok(LoweredProgram { graph: l.graph, warnings: l.found.finish(), bound })
}

impl Lowering<'_> {
    fn inputs(&mut self, program: &ProgramDecl, shapes: &[(String, Vec<u64>)]) {
        self.given(program);
        self.constants(program, program.name.span);
        let tensors = || program.args.iter().filter(|a| kind(a) == ArgumentKind::Tensor);
        for arg in tensors() {
            if let Some((_, sizes)) = shapes.iter().find(|s| s.0 == arg.name.node) {
                self.learn(&arg.ty, None, sizes);
            }
        }
        self.unbound(program);
        for arg in tensors() {
            if let (true, Some(Data { kind: DataKind::Value(e), .. })) = (has_number(arg), &arg.data) {
                let value = self.cx.number(e).map_err(|d| self.found.push(*d)).ok();
                self.declare(&arg.name, value.map(|n| Value::Number(n.as_f64())));
                continue;
            }
            let ty = self.cx.ty(&arg.ty, &mut self.found);
            let data = match arg.data.as_ref().map(|d| self.data(d)).transpose() {
                Ok(data) => data,
                Err(d) => {
                    self.found.push(*d);
                    None
                }
            };
            let value = ty.map(|ty| {
                let name = Name::from(&arg.name.node);
                let at = self.graph.inputs.len();
                let span = arg.name.span.to(arg.ty.span);
                self.graph.inputs.push(Input {
                    name: name.clone(),
                    ty,
                    data,
                    span: arg.name.span.to(arg.ty.span),
                });
                let op = GraphOp { kind: OpKind::Input(at), name, ty: None, want: None, span };
                Value::Tensor(self.add(op, &[]))
            });
            self.declare(&arg.name, value);
        }
    }

    /// Reports each size of the program that has no value. Uses of the size cause no further
    /// errors.
    fn unbound(&mut self, program: &ProgramDecl) {
        for arg in program.args.iter().filter(|a| kind(a) == ArgumentKind::Tensor) {
            for d in &arg.ty.dims {
                if let ExprKind::Name(n) = &d.size.kind
                    && self.cx.locals.get(n).is_none()
                    && let Some(fault) = self.cx.unbound(&d.size)
                {
                    self.found.push(fault.clone());
                    self.cx.locals.set(n, Local::Unbound(Box::new(fault)), d.size.span);
                }
            }
        }
    }

    /// Sets the sizes and arguments of the program that the command line gives.
    fn given(&mut self, program: &ProgramDecl) {
        for name in super::program_extras(&program.args) {
            let at =
                program.args.iter().find(|a| a.name.node == name).map_or(program.name.span, |a| a.name.span);
            if self.cx.params.find(program.name.span.file, &name).is_some() {
                continue;
            }
            match self.cx.params.extra(&name) {
                Ok(Some(v)) => self.cx.locals.set(&name, Local::Number(v), at),
                Ok(None) => {}
                Err(d) => self.found.push(*d),
            }
        }
    }

    fn data(&self, data: &Data) -> Result<DataSource, Fault> {
        Ok(match &data.kind {
            DataKind::File(path, key) => DataSource::File {
                path: path.node.clone(),
                key: key.as_ref().map(|k| k.node.clone()),
                span: data.span,
            },
            DataKind::Generator(name, args) => DataSource::Generator {
                name: Name::from(&name.node),
                args: args
                    .iter()
                    .map(|a| Ok(self.cx.number(a)?.as_f64()))
                    .collect::<Result<Vec<f64>, Fault>>()?,
                span: data.span,
            },
            DataKind::Value(e) => {
                return Err(Box::new(
                    Diagnostic::error("E226", "expected data, found a number")
                        .primary(e.span, "this is not a tensor")
                        .help("give a file or a generator, such as ones()"),
                ));
            }
        })
    }

    pub(super) fn declare(&mut self, name: &Ident, value: Option<Value>) {
        let first = self.names.get(&name.node).map(|n| n.1);
        let of_loop = || self.loops.iter().map(|l| &l.var).find(|v| v.node == name.node);
        if let Some(first) = first.or_else(|| Some(of_loop()?.span)) {
            self.found.push(
                Diagnostic::error("E004", format!("`{}` is declared twice", name.node))
                    .primary(name.span, "again here")
                    .secondary(first, "first here")
                    .help("choose another name"),
            );
            return;
        }
        self.names.insert(name.node.clone(), (value, name.span));
        self.declared.insert(name.span);
    }

    pub(super) fn bind(&mut self, item: &Let) {
        let before = self.graph.order().len();
        let value = self.expr(&item.value);
        match &item.names[..] {
            [name] => {
                let value = match (value, &item.ty) {
                    (Some(Value::Tuple(parts)), _) => {
                        let n = parts.len();
                        self.counts_differ(item.value.span, n, name.span, 1);
                        None
                    }
                    (value, None) => value,
                    (value, Some(ty)) => {
                        let value = value.and_then(|v| self.tensor(v, item.value.span));
                        value.and_then(|v| {
                            // The value gets the name, too, because a demand that is already met
                            // disappears.
                            self.hint(v, before, name);
                            let hint = Name::from(&name.node);
                            if self.calls.is_empty() {
                                return Some(Value::Tensor(self.demanded(ty, v, hint)?));
                            }
                            let (dtype, sizes) = self.shape_of(v, item.value.span)?;
                            self.learn(ty, Some(dtype), &sizes);
                            let what = format!("`{}`", name.node);
                            let want = self.fit(ty, (dtype, &sizes), &what, item.value.span)?;
                            Some(Value::Tensor(self.demand_placement(ty, want, v, hint)))
                        })
                    }
                };
                if let Some(Value::Tensor(v) | Value::Pending(v, _)) = value {
                    self.hint(v, before, name);
                }
                self.declare(name, value);
            }
            names => {
                if let Some(ty) = &item.ty {
                    self.found.push(
                        Diagnostic::error("E225", "a `let` with several names cannot have a type")
                            .primary(ty.span, "this type cannot belong to several values")
                            .help("write a `let` per value"),
                    );
                }
                let mut parts: Vec<Option<Value>> = match value {
                    Some(Value::Tuple(parts)) => parts.into_iter().map(Some).collect(),
                    Some(one) => vec![Some(one)],
                    None => vec![None; names.len()],
                };
                if parts.len() != names.len() {
                    let span = names.iter().fold(Span::NONE, |s, n| s.to(n.span));
                    self.counts_differ(item.value.span, parts.len(), span, names.len());
                    parts = vec![None; names.len()];
                }
                for (name, value) in names.iter().zip(parts) {
                    if let Some(Value::Tensor(v)) = value {
                        self.hint(v, before, name);
                    }
                    self.declare(name, value);
                }
            }
        }
    }

    /// Appends a demand of the compiled program that a value has this type. `infer` checks whether
    /// the value has it.
    fn demanded(&mut self, ty: &ast::Type, value: OpId, name: Name) -> Option<OpId> {
        if let Some(KnownValue::Type(dtype, sizes)) = self.known.get(&value).cloned() {
            self.learn(ty, Some(dtype), &sizes);
        }
        let want = self.cx.ty(ty, &mut self.found)?;
        let op = GraphOp { kind: OpKind::Demand, name, ty: None, want: Some(want), span: ty.span };
        Some(self.add(op, &[value]))
    }

    /// Gives a value that was created since `before` the name to which it is bound.
    pub(super) fn hint(&mut self, value: OpId, before: usize, name: &Ident) {
        // Nothing is removed during lowering, so the id of an operation is its position.
        if value.0 as usize >= before {
            self.graph.op_mut(value).name = Name::from(&name.node);
        }
    }

    fn counts_differ(&mut self, have: Span, n: usize, want: Span, wanted: usize) {
        let values = |n: usize| if n == 1 { "1 value".to_owned() } else { format!("{n} values") };
        self.found.push(
            Diagnostic::error("E225", format!("expected {}, found {n}", values(wanted)))
                .primary(have, values(n))
                .secondary(want, format!("{wanted} expected here")),
        );
    }

    /// Returns the values of the results with the places of their types.
    pub(super) fn results(&mut self, program: &ProgramDecl) -> Vec<(OpId, Span)> {
        let body = &program.body.result;
        let parts: Vec<&Tensor> = match &body.kind {
            TensorKind::Tuple(parts) => parts.iter().collect(),
            _ => vec![body],
        };
        let mut values: Vec<(Option<Value>, Span)> = vec![];
        for part in parts {
            match self.expr(part) {
                // A call of a program with several results provides all of them.
                Some(Value::Tuple(all)) if values.is_empty() && program.results.len() == all.len() => {
                    values.extend(all.into_iter().map(|v| (Some(v), part.span)));
                }
                value => values.push((value, part.span)),
            }
        }
        if values.len() != program.results.len() {
            let first = program.results.first().map_or(program.head, |t| t.span);
            let span = program.results.iter().fold(first, |s, t| s.to(t.span));
            self.counts_differ(body.span, values.len(), span, program.results.len());
        }
        let mut out = vec![];
        for (i, ((value, span), ty)) in values.into_iter().zip(&program.results).enumerate() {
            let value = value.and_then(|v| self.tensor(v, span));
            if self.calls.is_empty() {
                if let Some(KnownValue::Type(dtype, sizes)) = value.and_then(|v| self.known.get(&v)).cloned()
                {
                    self.learn(ty, Some(dtype), &sizes);
                }
                if let Some(ty) = self.cx.ty(ty, &mut self.found) {
                    self.graph.results.push(ty);
                }
                out.extend(value.map(|v| (v, ty.span)));
                continue;
            }
            let asked = value.and_then(|v| {
                let (dtype, sizes) = self.shape_of(v, span)?;
                self.learn(ty, Some(dtype), &sizes);
                let which = if program.results.len() > 1 { format!(" {i}") } else { String::new() };
                let what = format!("result{which} of `{}`", program.name.node);
                let want = self.fit(ty, (dtype, &sizes), &what, span)?;
                Some(self.demand_placement(ty, want, v, self.graph.op(v).name.clone()))
            });
            out.extend(asked.map(|v| (v, ty.span)));
        }
        out
    }

    /// Warns about lets that nothing reads. They are computed nevertheless.
    pub(super) fn unused(&mut self, program: &ProgramDecl) {
        for name in program.body.lets().into_iter().flat_map(|l| &l.names) {
            // A branch that is not taken and a loop without iterations declare nothing.
            let declared = self.declared.contains(&name.span);
            if declared && !self.used.contains(&name.node) && !name.node.starts_with('_') {
                self.found.push(
                    Diagnostic::warning("E229", format!("nothing uses `{}`", name.node))
                        .primary(name.span, "computed but not used")
                        .help(format!("remove it, or rename it to `_{}` to keep it", name.node)),
                );
            }
        }
    }

    fn expect(&mut self, program: &ProgramDecl) {
        if program.expect.is_empty() {
            return;
        }
        if program.expect.len() != program.results.len() {
            let have = program.expect.iter().fold(Span::NONE, |s, d| s.to(d.span));
            let want = program.results.iter().fold(Span::NONE, |s, t| s.to(t.span));
            self.counts_differ(have, program.expect.len(), want, program.results.len());
            return;
        }
        let data: Result<Vec<DataSource>, Fault> = program.expect.iter().map(|d| self.data(d)).collect();
        match data {
            Ok(data) => self.graph.expect = Some(Expect { data }),
            Err(d) => self.found.push(*d),
        }
    }
}
