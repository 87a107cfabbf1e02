//! Host statements: reads, writes and waits that the host performs between the operations of a
//! program.
//!
//! Each statement becomes an operation of the graph, in source order. `expand` lowers these
//! operations to schedules.

use super::state::{Lowering, Value};
use crate::ast::{HostAct, Statement};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::graph::{HostOp, OpId, OpKind};
use kbc_ir::types::{DType, TensorType};
use kbc_rounds::ast::Ident;

impl Lowering<'_> {
    pub(super) fn statement(&mut self, s: &Statement) {
        match s {
            Statement::Let(l) => self.bind(l),
            Statement::Assign(a) => self.assign(a),
            Statement::Host(act) if self.hosts(act.span) => self.host(act),
            Statement::Host(_) => {}
            Statement::For(f) => self.repeat(f),
        }
    }

    /// Returns whether the program may have host statements, which only the compiled program may.
    /// Reports an error otherwise.
    fn hosts(&mut self, at: Span) -> bool {
        let (what, help) = match (&self.local, self.calls.is_empty()) {
            (Some(_), _) => {
                ("a local program", "to wait for a collective in a local program, write `wait(x)`")
            }
            (None, false) => ("a called program", "write this statement in the program that calls this one"),
            (None, true) => return true,
        };
        let d = Diagnostic::error("E234", format!("a host statement is not allowed in {what}"));
        let d = d.primary(at, "host statements belong to the program that is compiled").help(help);
        if !self.found.list.contains(&d) {
            self.found.push(d);
        }
        false
    }

    fn host(&mut self, act: &HostAct) {
        let word = &act.word.node[..];
        let Some(op) = HostOp::ALL.into_iter().find(|op| op.word() == word) else {
            let words = HostOp::ALL.map(HostOp::word);
            let d = Diagnostic::error("E234", format!("unknown host statement `{word}`"));
            let d = d.primary(act.word.span, "not known here");
            let help = match nearest(word, words) {
                Some(w) => format!("did you mean `host {w}`?"),
                None => format!("host statements: {}", words.join(", ")),
            };
            self.found.push(d.help(help));
            return;
        };
        let (form, fits) = match op {
            HostOp::Read | HostOp::Wait => ("y", act.value.is_none() && !act.names.is_empty()),
            HostOp::Write => ("x = y", act.value.is_some()),
            HostOp::Drain => ("", act.value.is_none() && act.names.is_empty()),
        };
        if !fits {
            let d = Diagnostic::error("E234", format!("`host {word}` has the wrong arguments"));
            let form = format!("host {word} {form}");
            self.found.push(d.primary(act.span, "here").help(format!("write `{};`", form.trim_end())));
            return;
        }
        match (op, &act.value) {
            (HostOp::Write, Some(value)) => {
                let value = self.operand(value);
                if let (Some(name), Some(value)) = (act.names.first(), value) {
                    self.host_write(name, value, act);
                }
            }
            (HostOp::Drain, _) => {
                // A drain waits for everything before it; the last value represents all of them.
                if let Some(last) = self.graph.order().last().copied() {
                    self.host_op(op, &[last], act);
                }
            }
            (HostOp::Read | HostOp::Wait | HostOp::Write, _) => {
                for name in &act.names {
                    if let Some(value) = self.host_value(name) {
                        self.host_op(op, &[value], act);
                    }
                }
            }
        }
    }

    fn host_op(&mut self, op: HostOp, operands: &[OpId], act: &HostAct) -> Option<OpId> {
        let name = self.graph.op(operands[0]).name.clone();
        match self.push(OpKind::Host(op), name, operands, act.span) {
            Value::Tensor(id) => Some(id),
            Value::Number(_) | Value::Tuple(_) | Value::Pending(..) => None,
        }
    }

    fn host_value(&mut self, name: &Ident) -> Option<OpId> {
        let value = self.named(&name.node, name.span)?;
        self.tensor(value, name.span)
    }

    /// Lowers `host write`. From here on, the name stands for the written value.
    fn host_write(&mut self, name: &Ident, value: OpId, act: &HostAct) {
        let Some(old) = self.host_value(name) else { return };
        let (to, from) = (self.shape_of(old, name.span), self.shape_of(value, act.span));
        let (Some(to), Some(from)) = (to, from) else { return };
        if to != from {
            let show = |(dtype, sizes): &(DType, Vec<u64>)| TensorType::replicated(*dtype, sizes).to_string();
            self.found.push(
                Diagnostic::error(
                    "E234",
                    format!("`{}` is overwritten with a tensor of another type or size", name.node),
                )
                .primary(act.span, format!("{} into {}", show(&from), show(&to)))
                .help("the two tensors need the same element type and the same sizes"),
            );
            return;
        }
        if let Some(new) = self.host_op(HostOp::Write, &[old, value], act)
            && let Some((there, _)) = self.names.get_mut(&name.node)
        {
            self.graph.op_mut(new).name = Name::from(&name.node);
            *there = Some(Value::Tensor(new));
        }
    }
}
