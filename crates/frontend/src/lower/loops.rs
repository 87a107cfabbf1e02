//! Loops over numbers, the values that their iterations hand on, and indices of tensors.
//!
//! A loop is unrolled: its statements are lowered once for each number of its range. This module
//! owns the limit on that, assignments (`x = e`), and `w[l]`, the entry of a tensor with a number
//! that is known during lowering. [`super::host`] lowers the statements of the host.

use super::locals::{Constant, Local};
use super::state::{LoopFrame, Lowering, Value};
use super::values::ParamValue;
use crate::ast::{Assign, Loop};
use kbc_diag::{Diagnostic, Severity, Span};
use kbc_ir::Name;
use kbc_ir::graph::{OpId, OpKind};
use kbc_ir::shape::ShapeOp;
use kbc_ir::types::TensorType;
use kbc_rounds::ast::{Expr, Ident};
use kbc_rounds::eval::unknown;

/// The largest number of statements that the unrolled loops of a program may have.
const MAX_STATEMENTS: u64 = 10_000;

impl Lowering<'_> {
    /// Lowers the statements of a loop for each number of its range.
    pub(super) fn repeat(&mut self, f: &Loop) {
        let mut bound = |e| self.cx.int(e).map_err(|d| self.found.push(*d)).ok();
        let (Some(lo), Some(hi)) = (bound(&f.range.lo), bound(&f.range.hi)) else { return };
        let var = &f.var.node;
        let hidden = self.names.get(var).map(|n| n.1).or_else(|| self.cx.locals.place(var));
        if let Some(first) = hidden {
            self.found.push(
                Diagnostic::error("E004", format!("`{var}` is declared twice"))
                    .primary(f.var.span, "again here")
                    .secondary(first, "first here")
                    .help("choose another name"),
            );
            return;
        }
        if self.unrolled > MAX_STATEMENTS {
            // The error has already been reported.
            return;
        }
        let before: Vec<String> = self.names.keys().cloned().collect();
        self.loops.push(LoopFrame { var: f.var.clone(), span: f.span });
        for i in lo..hi {
            self.unrolled += f.body.len().max(1) as u64;
            if self.unrolled > MAX_STATEMENTS {
                let text =
                    format!("the loops of the program unroll to more than {MAX_STATEMENTS} statements");
                let d = Diagnostic::error("E233", text).primary(f.span, "the limit is exceeded here");
                self.found
                    .push(d.help("kbc compiles every iteration of a loop separately: use fewer iterations"));
                break;
            }
            let found = self.found.list.len();
            self.cx.locals.set(var, Local::Number(ParamValue::Int(i)), f.var.span);
            f.body.iter().for_each(|s| self.statement(s));
            // Names that an iteration declares are local to it.
            self.names.retain(|n, _| before.binary_search(n).is_ok());
            let new = &mut self.found.list[found..];
            if new.iter().any(|d| d.severity == Severity::Error) {
                // An error of a later iteration depends on the number. E237 states the number
                // itself.
                for d in new.iter_mut().filter(|d| i > lo && d.code != "E237") {
                    d.notes.push(format!("this is the iteration with {var} = {i}"));
                }
                // The next iteration would report the same errors.
                break;
            }
        }
        self.loops.pop();
        // Sizes that a type in the loop has bound keep their values, as after any other statement.
        self.cx.locals.remove(var);
    }

    /// Lowers `x = e`. From here on, in the next iteration and after the loop, `x` is the value of
    /// `e`.
    pub(super) fn assign(&mut self, a: &Assign) {
        let name = &a.name;
        let before = self.graph.order().len();
        let value = self.expr(&a.value);
        let Some((old, declared)) = self.assigned(name) else { return };
        let (Some(value), Some(old)) = (value.and_then(|v| self.tensor(v, a.value.span)), old) else {
            return;
        };
        let (to, from) = (self.shape_of(old, name.span), self.shape_of(value, a.value.span));
        let (Some(to), Some(from)) = (to, from) else { return };
        if to != from {
            let show = |(dtype, sizes): &(_, Vec<u64>)| TensorType::replicated(*dtype, sizes).to_string();
            let what = format!("`{}` cannot become a tensor of another type or size", name.node);
            self.found.push(
                Diagnostic::error("E236", what)
                    .primary(a.value.span, format!("this is `{}`", show(&from)))
                    .secondary(declared, format!("`{}` is `{}`", name.node, show(&to)))
                    .help("every iteration begins with the same element type and sizes; for another value, write a `let` with another name"),
            );
            return;
        }
        self.hint(value, before, name);
        self.names.insert(name.node.clone(), (Some(Value::Tensor(value)), declared));
    }

    /// Returns the value that an assignment replaces, and the place of the declaration of its name.
    /// The value is None if its error has already been reported. Reports an error and returns None
    /// if the name cannot be assigned.
    fn assigned(&mut self, name: &Ident) -> Option<(Option<OpId>, Span)> {
        let text = &name.node;
        let here = self.names.get(text).cloned();
        let Some(frame) = self.loops.last() else {
            let d = Diagnostic::error("E236", "an assignment stands outside of a loop");
            let d = d.primary(name.span, "only a loop can give a name another value");
            match here {
                Some((_, first)) => {
                    let d = d.secondary(first, "declared here");
                    self.found.push(d.help("write a `let` with another name"));
                }
                None => {
                    self.found.push(d.help(format!("to name a value, write `let {text} = ..`")));
                    // The name was meant to be declared, so its uses are no further errors.
                    self.names.insert(text.clone(), (None, name.span));
                }
            }
            return None;
        };
        let d = match here {
            Some((_, first))
                if frame.span.file == first.file
                    && (frame.span.start..frame.span.end).contains(&first.start) =>
            {
                Diagnostic::error("E236", format!("`{text}` belongs to one iteration and is assigned in it"))
                    .primary(name.span, "the next iteration does not see this")
                    .secondary(first, "declared here, inside the loop")
                    .help("declare it before the loop, or write a `let` with another name")
            }
            Some((Some(Value::Number(x)), first)) => {
                Diagnostic::error("E236", format!("`{text}` is a number and cannot be assigned"))
                    .primary(name.span, format!("this is the number {x}"))
                    .secondary(first, "declared here")
                    .help("an assignment replaces a tensor")
            }
            Some((value, first)) => {
                return Some((value.and_then(|v| self.tensor(v, name.span)), first));
            }
            None => {
                let place = self.cx.locals.place(text);
                let place = place.or_else(|| Some(self.cx.params.find(name.span.file, text)?.name.span));
                match place {
                    Some(first) => Diagnostic::error(
                        "E236",
                        format!("`{text}` is not a tensor and cannot be assigned"),
                    )
                    .primary(name.span, "only a tensor gets another value")
                    .secondary(first, "declared here")
                    .help("a number that changes with the iterations is an expression of the loop variable"),
                    None => {
                        let valid: Vec<String> = self.names.keys().cloned().collect();
                        let d = *unknown("E005", "value", text, name.span, &valid);
                        d.note("an assignment gives another value to a name that is declared before the loop")
                    }
                }
            }
        };
        self.found.push(d);
        None
    }

    /// Lowers `w[l, e]`: the entry of a tensor with these numbers along its first dimensions.
    pub(super) fn index(&mut self, name: &Ident, index: &[Expr], span: Span) -> Option<Value> {
        let value = self.named(&name.node, name.span)?;
        let given: Vec<Option<i64>> = index.iter().map(|e| self.number_of_entry(e)).collect();
        if let Value::Number(x) = value {
            let d = Diagnostic::error("E237", format!("`{}` is a number and cannot be indexed", name.node));
            self.found.push(
                d.primary(span, format!("`{}` is the number {x}", name.node))
                    .help("an index selects an entry of a tensor"),
            );
            return None;
        }
        let mut x = self.tensor(value, name.span)?;
        let (dtype, sizes) = self.shape_of(x, name.span)?;
        if let Some(more) = index.get(sizes.len()) {
            let s = |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
            let (have, dims) =
                (s(index.len(), "index", "indices"), s(sizes.len(), "dimension", "dimensions"));
            let ty = TensorType::replicated(dtype, &sizes);
            self.found.push(
                Diagnostic::error("E237", format!("`{}` has {dims} and {have}", name.node))
                    .primary(more.span, format!("there is no dimension {} in `{ty}`", sizes.len()))
                    .help("write at most one index for each dimension"),
            );
            return None;
        }
        let mut at = vec![];
        for (d, ((e, given), size)) in index.iter().zip(given).zip(&sizes).enumerate() {
            match given.map(u64::try_from) {
                Some(Ok(i)) if i < *size => at.push(i),
                Some(_) => self.outside(name, (d, *size), e),
                None => {}
            }
        }
        if at.len() < index.len() {
            return None;
        }
        let mut hint = name.node.clone();
        for i in at {
            hint += &format!("_{i}");
            let op = OpKind::Shape(ShapeOp::Entry(i));
            let Value::Tensor(id) = self.push(op, Name::from(&hint), &[x], span) else { return None };
            x = id;
        }
        Some(Value::Tensor(x))
    }

    /// Returns the value of an index. Reports an error and returns None if it is not an integer.
    fn number_of_entry(&mut self, e: &Expr) -> Option<i64> {
        let mut used = vec![];
        e.free_names(&mut |name, at| used.push((name, at)));
        let tensor = |n: &&(&str, Span)| matches!(self.names.get(n.0), Some((Some(Value::Tensor(_)), _)));
        if let Some((name, at)) = used.iter().find(tensor) {
            let d = Diagnostic::error("E237", format!("`{name}` is a tensor and cannot be an index"));
            let d = d.primary(*at, "an index is a number that is known at compile time");
            self.found.push(d.help("to select entries by computed numbers, write `embedding(w, ids)`"));
            return None;
        }
        self.cx.int(e).map_err(|d| self.found.push(*d)).ok()
    }

    /// Reports an index that is out of range, with the values of the names in it.
    fn outside(&mut self, name: &Ident, (dim, size): (usize, u64), e: &Expr) {
        let Ok(i) = self.cx.int(e) else { return };
        let mut with: Vec<String> = vec![];
        let mut used: Vec<&str> = vec![];
        e.free_names(&mut |n, _| used.push(n));
        for n in used {
            let value = self.cx.locals.get(n).and_then(Local::constant);
            let text = value.and_then(|v| match v {
                Constant::Number(v) => Some(format!("{n} = {v}")),
                Constant::Flag(_) => None,
            });
            with.extend(text.filter(|t| !with.contains(t)));
        }
        let with = if with.is_empty() { String::new() } else { format!(" with {}", with.join(", ")) };
        let what = format!("index {i} is outside dimension {dim} of `{}`", name.node);
        let d = Diagnostic::error("E237", what).primary(e.span, format!("this is {i}{with}"));
        self.found.push(d.help(match size {
            0 => "the dimension has size 0 and no entries".to_owned(),
            1 => "the dimension has size 1, so its only index is 0".to_owned(),
            _ => format!("the dimension has size {size}, so its indices are 0 to {}", size - 1),
        }));
    }
}
