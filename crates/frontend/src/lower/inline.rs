//! Inlining: replaces the call of a program by the operations of the called program.
//!
//! This module binds the arguments of a call, rejects invalid calls, and adds the place of the call
//! to messages about a body. [`super::bind`] binds and checks the types of a called program.

use super::arguments::{Arguments, cannot};
use super::bind::{ArgumentKind, has_number, kind};
use super::kernel::wrong_count;
use super::locals::{Local, Locals};
use super::state::{Lowering, Value};
use super::values::ParamValue;
use crate::ast::{Arg, Call, DataKind, Named, OptionValue, ProgramDecl};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_rounds::Layer;
use kbc_rounds::ast::{Expr, ExprKind, Ident};
use kbc_rounds::eval::Fault;

/// The largest number of operations of a program, including those of the programs that it calls.
const MAX_OPERATIONS: usize = 100_000;

/// The largest nesting depth of calls.
const MAX_CALLS: usize = 50;

impl<'a> Lowering<'a> {
    /// Lowers a call of a program. Returns None if errors were reported.
    pub(super) fn call_program(&mut self, decl: &'a ProgramDecl, call: &Call) -> Option<Value> {
        let tensors: Vec<&Arg> = decl.args.iter().filter(|a| kind(a) == ArgumentKind::Tensor).collect();
        let mut named = Arguments::new(call);
        let given: Vec<(&Arg, Option<&Named>)> = decl
            .args
            .iter()
            .filter(|a| kind(a) != ArgumentKind::Tensor)
            .map(|a| (a, named.take(&a.name.node)))
            .collect();
        let sound = named.finish(&mut self.found);
        let values: Vec<Option<Value>> = call.args.iter().map(|a| self.expr(a)).collect();
        let missing = tensors.get(values.len()..).unwrap_or_default().iter().find(|a| !has_number(a));
        if values.len() > tensors.len() {
            let d = wrong_count(&call.name, tensors.len(), values.len(), decl.name.span);
            self.found.push(d.help(form(decl)));
            return None;
        }
        if let Some(arg) = missing {
            self.found.push(
                Diagnostic::error("E006", format!("`{}` needs `{}`", call.name.node, arg.name.node))
                    .primary(call.name.span, "this argument is missing")
                    .secondary(arg.span, "declared here")
                    .help(form(decl)),
            );
            return None;
        }
        self.may_call(decl, call)?;
        let mut locals = Locals::default();
        let mut complete = true;
        for (arg, named) in &given {
            let Some(named) = named else { continue };
            match self.argument(arg, named) {
                Some(value) => locals.set(&arg.name.node, value, named.span),
                None => complete = false,
            }
        }
        let values = values.into_iter().collect::<Option<Vec<Value>>>()?;
        if !sound || !complete {
            return None;
        }
        let id = self.graph.call(Name::from(&decl.name.node), call.name.span);
        let outer = self.graph.enter(Some(id));
        let before = self.found.list.len();
        let names = std::mem::take(&mut self.names);
        let used = std::mem::take(&mut self.used);
        let loops = std::mem::take(&mut self.loops);
        let locals = std::mem::replace(&mut self.cx.locals, locals);
        self.calls.push(decl.name.span);
        let called = std::mem::replace(&mut self.cx.called, true);
        let places: Vec<Span> = call.args.iter().map(|a| a.span).collect();
        let out = self.inlined((decl, call.name.span), &tensors, values, &places);
        self.calls.pop();
        self.cx.called = called;
        (self.names, self.used, self.cx.locals, self.loops) = (names, used, locals, loops);
        self.graph.enter(outer);
        for mut d in self.found.list.split_off(before) {
            // A generated call has no place in the source to point to.
            if d.span() != call.name.span && !call.name.span.is_none() {
                d = d.secondary(call.name.span, format!("`{}` is called here", decl.name.node));
            }
            // An error that does not depend on the call is reported once.
            let same = |o: &Diagnostic| (o.code, &o.title, o.span()) == (d.code, &d.title, d.span());
            if !self.found.list.iter().any(same) {
                self.found.push(d);
            }
        }
        let mut out: Vec<Value> = out?.into_iter().map(|(id, _)| Value::Tensor(id)).collect();
        if out.len() == 1 { out.pop() } else { Some(Value::Tuple(out)) }
    }

    /// Lowers the body with the values of the arguments bound to their names. Returns the results.
    fn inlined(
        &mut self,
        (decl, at): (&'a ProgramDecl, Span),
        tensors: &[&'a Arg],
        values: Vec<Value>,
        places: &[Span],
    ) -> Option<Vec<(kbc_ir::graph::OpId, Span)>> {
        self.constants(decl, at)?;
        // All names are bound first, because an expression may need a name that a later argument
        // binds.
        let mut shapes = vec![];
        for (arg, (value, place)) in tensors.iter().zip(values.iter().zip(places)) {
            let shape = match value {
                Value::Tensor(id) => Some(self.shape_of(*id, *place)?),
                Value::Number(_) if has_number(arg) => None,
                other => {
                    self.tensor(other.clone(), *place);
                    return None;
                }
            };
            if let Some((dtype, sizes)) = &shape {
                self.learn(&arg.ty, Some(*dtype), sizes);
            }
            shapes.push(shape);
        }
        let mut sound = true;
        for (i, arg) in tensors.iter().enumerate() {
            let value = match (values.get(i), shapes.get(i)) {
                (Some(Value::Tensor(id)), Some(Some((dtype, sizes)))) => {
                    let what = format!("argument `{}` of `{}`", arg.name.node, decl.name.node);
                    match self.fit(&arg.ty, (*dtype, sizes), &what, places[i]) {
                        Some(want) => {
                            let name = Name::from(&arg.name.node);
                            Some(Value::Tensor(self.demand_placement(&arg.ty, want, *id, name)))
                        }
                        None => {
                            sound = false;
                            None
                        }
                    }
                }
                (Some(given), _) => Some(given.clone()),
                (None, _) => match &arg.data {
                    Some(crate::ast::Data { kind: DataKind::Value(e), .. }) => match self.cx.number(e) {
                        Ok(n) => Some(Value::Number(n.as_f64())),
                        Err(d) => {
                            self.found.push(*d);
                            None
                        }
                    },
                    _ => None,
                },
            };
            self.declare(&arg.name, value);
        }
        if !sound {
            return None;
        }
        for item in &decl.body.statements {
            self.statement(item);
        }
        let results = self.results(decl);
        let user = self.cx.loaded.file(decl.name.span.file).is_some_and(|f| f.layer == Layer::User);
        if user && self.looked_at.insert(decl.name.span) {
            self.unused(decl);
        }
        (results.len() == decl.results.len()).then_some(results)
    }

    /// Gives default values to the arguments of a program that are not tensors and that the caller
    /// did not give.
    pub(super) fn constants(&mut self, decl: &ProgramDecl, at: Span) -> Option<()> {
        let mut complete = Some(());
        for arg in decl.args.iter().filter(|a| kind(a) != ArgumentKind::Tensor) {
            if self.cx.locals.get(&arg.name.node).is_some() {
                continue;
            }
            let value = match (kind(arg), arg.data.as_ref().map(|d| &d.kind)) {
                (kind, Some(DataKind::Value(e))) => self.constant(kind, e),
                (ArgumentKind::Axis, None) => match &self.cx.mesh.axes[..] {
                    [only] => Ok(Local::Axis(only.name.clone())),
                    all => {
                        let all: Vec<&str> = all.iter().map(|a| a.name.as_str()).collect();
                        Err(self.not_given(decl, arg, at, &format!("one of the axes {}", all.join(", "))))
                    }
                },
                (kind, None) => Err(self.not_given(decl, arg, at, word(kind))),
                (_, Some(_)) => Err(Box::new(
                    Diagnostic::error(
                        "E006",
                        format!("the default of `{}` is not a constant", arg.name.node),
                    )
                    .primary(arg.span, "here")
                    .help("write a number, true or false, or the name of an axis"),
                )),
            };
            match value {
                Ok(v) => self.cx.locals.set(&arg.name.node, v, arg.name.span),
                Err(d) => {
                    self.cx.locals.set(&arg.name.node, Local::Unbound(d.clone()), arg.name.span);
                    self.found.push(*d);
                    complete = None;
                }
            }
        }
        complete
    }

    fn not_given(&self, decl: &ProgramDecl, arg: &Arg, at: Span, what: &str) -> Fault {
        let (name, program) = (&arg.name.node, &decl.name.node);
        if self.calls.is_empty() {
            return Box::new(
                Diagnostic::error("E231", format!("`{name}` of `{program}` has no value"))
                    .primary(arg.span, format!("expected {what}"))
                    .help(match kind(arg) {
                        ArgumentKind::Int | ArgumentKind::Number => {
                            format!("give it with -D {name}=.., or give it a default")
                        }
                        _ => "give it a default, or call the program from another".into(),
                    }),
            );
        }
        Box::new(
            Diagnostic::error("E006", format!("`{program}` needs `{name}:`"))
                .primary(at, format!("expected {what}"))
                .secondary(arg.span, "declared here")
                .help(form(decl)),
        )
    }

    /// Returns the value of an argument that the caller gives by name.
    fn argument(&mut self, arg: &Arg, named: &Named) -> Option<Local> {
        let value = match &named.value {
            OptionValue::Expr(e) => self.constant(kind(arg), e),
            _ => Err(Box::new(cannot(named, word(kind(arg))))),
        };
        value.map_err(|d| self.found.push(*d)).ok()
    }

    /// Evaluates a constant of a given kind, using the names of the program that is being lowered.
    fn constant(&self, kind: ArgumentKind, e: &Expr) -> Result<Local, Fault> {
        match kind {
            ArgumentKind::Int => self.cx.int(e).map(|i| Local::Number(ParamValue::Int(i))),
            ArgumentKind::Number | ArgumentKind::Tensor => self.cx.number(e).map(Local::Number),
            ArgumentKind::Bool => self.cx.truth(e).map(Local::Flag),
            ArgumentKind::Axis => match &e.kind {
                ExprKind::Name(n) => {
                    let mut found = kbc_diag::Diagnostics::new();
                    let axis = self.cx.axis(&Ident::new(n.clone(), e.span), &mut found);
                    axis.map(Local::Axis).ok_or_else(|| found.list.pop().map_or_else(none, Box::new))
                }
                _ => Err(Box::new(
                    Diagnostic::error("E006", "this is not an axis")
                        .primary(e.span, "expected the name of a mesh axis"),
                )),
            },
        }
    }

    /// Rejects calls that would never end or make the program too large.
    fn may_call(&mut self, decl: &ProgramDecl, call: &Call) -> Option<()> {
        let name = &decl.name.node;
        if self.calls.contains(&decl.name.span) {
            self.found.push(
                Diagnostic::error("E232", format!("`{name}` calls itself"))
                    .primary(call.name.span, "called here from within itself")
                    .secondary(decl.name.span, "declared here")
                    .help("calls are inlined, so a recursive call would never end"),
            );
            return None;
        }
        let large = self.graph.order().len() > MAX_OPERATIONS;
        if large || self.calls.len() >= MAX_CALLS {
            let what = match large {
                true => {
                    format!("the program has more than {MAX_OPERATIONS} operations after inlining its calls")
                }
                false => format!("calls of programs nest more than {MAX_CALLS} levels deep"),
            };
            let d = Diagnostic::error("E233", what).primary(call.name.span, "with this call");
            if !self.found.list.iter().any(|o| o.code == "E233") {
                self.found.push(d.help("every call inserts all operations of the called program"));
            }
            return None;
        }
        Some(())
    }
}

/// Returns the error for an unknown axis that has not been reported. This cannot happen, because
/// every name is reported.
fn none() -> Fault {
    Box::new(Diagnostic::error("E203", "no axis of the mesh"))
}

/// Returns the description of a kind.
fn word(kind: ArgumentKind) -> &'static str {
    match kind {
        ArgumentKind::Tensor => "a tensor",
        ArgumentKind::Int => "an integer",
        ArgumentKind::Number => "a number",
        ArgumentKind::Bool => "true or false",
        ArgumentKind::Axis => "an axis of the mesh",
    }
}

/// Returns advice on how to call a program.
fn form(decl: &ProgramDecl) -> String {
    format!("write {}", call_form(decl))
}

/// Returns the form of a call of a program: tensors by position, in brackets if they may be
/// omitted, and the other arguments by name.
pub fn call_form(decl: &ProgramDecl) -> String {
    let mut parts: Vec<String> = vec![];
    for a in decl.args.iter().filter(|a| kind(a) == ArgumentKind::Tensor) {
        parts.push(if has_number(a) { format!("[{}]", a.name.node) } else { a.name.node.clone() });
    }
    for a in decl.args.iter().filter(|a| kind(a) != ArgumentKind::Tensor) {
        let default = match a.data.as_ref().map(|d| &d.kind) {
            Some(DataKind::Value(e)) => constant_text(e).map(|d| format!(" = {d}")),
            _ => None,
        };
        parts.push(format!("{}: {}{}", a.name.node, a.ty.dtype.node, default.unwrap_or_default()));
    }
    format!("{}({})", decl.name.node, parts.join(", "))
}

/// Returns the source text of a default.
fn constant_text(e: &Expr) -> Option<String> {
    Some(match &e.kind {
        ExprKind::Int(n) => n.to_string(),
        ExprKind::Float(x) => format!("{x:?}"),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::Name(n) => n.clone(),
        ExprKind::Unary(_, a) => format!("-{}", constant_text(a)?),
        _ => return None,
    })
}
