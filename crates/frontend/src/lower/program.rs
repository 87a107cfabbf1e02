//! A program: inputs, lets and results.
//!
//! Owns the names inside a program and the frame of its graph. Expressions are [`super::tensor`]'s.

use super::Cx;
use super::tensor::Value;
use crate::ast::{Data, DataKind, Let, ProgramDecl, Tensor, TensorKind};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::Name;
use kbc_ir::graph::{DataSource, Expect, Graph, Input, Op, OpId, OpKind};
use kbc_rounds::ast::Ident;
use kbc_rounds::eval::Fault;
use std::collections::{BTreeMap, BTreeSet};

/// The graph of a program, and warnings.
///
/// # Errors
/// All messages about it, sorted by place.
pub(super) fn lower(cx: &Cx<'_>, program: &ProgramDecl) -> Result<(Graph, Diagnostics), Diagnostics> {
    let mut l = Lowering {
        cx,
        graph: Graph::default(),
        names: BTreeMap::new(),
        used: BTreeSet::new(),
        found: Diagnostics::new(),
    };
    l.graph.name = Some(Name::from(&program.name.node));
    l.inputs(program);
    for item in &program.body.lets {
        l.bind(item);
    }
    let results = l.results(program);
    l.expect(program);
    if !super::ok(&l.found) {
        return Err(l.found.finish());
    }
    l.unused(program);
    let several = results.len() > 1;
    for (i, (value, span)) in results.into_iter().enumerate() {
        let name = if several { format!("out{i}") } else { "out".to_owned() };
        l.graph.push(
            Op { kind: OpKind::Output(i), name: Name::from(&name), ty: None, want: None, span },
            &[value],
        );
    }
    Ok((l.graph, l.found.finish()))
}

/// A program in the making.
pub(super) struct Lowering<'c, 'a> {
    pub cx: &'c Cx<'a>,
    pub graph: Graph,
    /// What names stand for and where they are declared; no value where a message was given instead.
    pub names: BTreeMap<String, (Option<Value>, Span)>,
    /// Names that were read.
    pub used: BTreeSet<String>,
    pub found: Diagnostics,
}

impl Lowering<'_, '_> {
    fn inputs(&mut self, program: &ProgramDecl) {
        for arg in &program.args {
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
                let op = Op { kind: OpKind::Input(at), name, ty: None, want: None, span };
                Value::Tensor(self.graph.push(op, &[]))
            });
            self.declare(&arg.name, value);
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
                    .map(|a| Ok(self.cx.params.number(a)?.as_f64()))
                    .collect::<Result<Vec<f64>, Fault>>()?,
                span: data.span,
            },
        })
    }

    fn declare(&mut self, name: &Ident, value: Option<Value>) {
        if let Some((_, first)) = self.names.get(&name.node) {
            self.found.push(
                Diagnostic::error("E004", format!("`{}` is declared twice", name.node))
                    .primary(name.span, "again here")
                    .secondary(*first, "first here")
                    .help("choose another name"),
            );
            return;
        }
        self.names.insert(name.node.clone(), (value, name.span));
    }

    fn bind(&mut self, item: &Let) {
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
                        let want = self.cx.ty(ty, &mut self.found);
                        let value = value.and_then(|v| self.tensor(v, item.value.span));
                        value.zip(want).map(|(v, want)| {
                            // The value keeps the name too: a demand that is met vanishes.
                            self.hint(v, before, name);
                            let kind = OpKind::Demand;
                            let hint = Name::from(&name.node);
                            let op = Op { kind, name: hint, ty: None, want: Some(want), span: ty.span };
                            Value::Tensor(self.graph.push(op, &[v]))
                        })
                    }
                };
                if let Some(Value::Tensor(v)) = value {
                    self.hint(v, before, name);
                }
                self.declare(name, value);
            }
            names => {
                if let Some(ty) = &item.ty {
                    self.found.push(
                        Diagnostic::error("E225", "one type for several values")
                            .primary(ty.span, "which of them is it of?")
                            .help("give each value a `let` of its own"),
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

    /// Gives a value made since `before` the name it is bound to.
    fn hint(&mut self, value: OpId, before: usize, name: &Ident) {
        if self.graph.position(value) >= before {
            self.graph.op_mut(value).name = Name::from(&name.node);
        }
    }

    fn counts_differ(&mut self, have: Span, n: usize, want: Span, wanted: usize) {
        let values = |n: usize| if n == 1 { "1 value".to_owned() } else { format!("{n} values") };
        self.found.push(
            Diagnostic::error(
                "E225",
                format!("{} where {wanted} {} wanted", values(n), if wanted == 1 { "is" } else { "are" }),
            )
            .primary(have, values(n))
            .secondary(want, format!("{wanted} here")),
        );
    }

    /// Values of the results with the places of their types.
    fn results(&mut self, program: &ProgramDecl) -> Vec<(OpId, Span)> {
        for ty in &program.results {
            if let Some(ty) = self.cx.ty(ty, &mut self.found) {
                self.graph.results.push(ty);
            }
        }
        let body = &program.body.result;
        let parts: Vec<&Tensor> = match &body.kind {
            TensorKind::Tuple(parts) => parts.iter().collect(),
            _ => vec![body],
        };
        let mut values: Vec<(Option<Value>, Span)> = vec![];
        for part in parts {
            values.push((self.expr(part), part.span));
        }
        if values.len() != program.results.len() {
            let first = program.results.first().map_or(program.head, |t| t.span);
            let span = program.results.iter().fold(first, |s, t| s.to(t.span));
            self.counts_differ(body.span, values.len(), span, program.results.len());
        }
        let mut out = vec![];
        for ((value, span), ty) in values.into_iter().zip(&program.results) {
            if let Some(v) = value.and_then(|v| self.tensor(v, span)) {
                out.push((v, ty.span));
            }
        }
        out
    }

    /// Warns of lets that nothing reads: they are computed all the same.
    fn unused(&mut self, program: &ProgramDecl) {
        for name in program.body.lets.iter().flat_map(|l| &l.names) {
            if !self.used.contains(&name.node) && !name.node.starts_with('_') {
                self.found.push(
                    Diagnostic::warning("E229", format!("nothing uses `{}`", name.node))
                        .primary(name.span, "computed and not used")
                        .help(format!("remove it, or call it `_{}` to keep it", name.node)),
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
