//! State: what is known while a program is lowered.
//!
//! This module owns the values of expressions, the known shapes of the values of the graph, and the
//! state that all statements and expressions of a program share.

use super::Cx;
use super::groups::Scope;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::Name;
use kbc_ir::graph::{Graph, GraphOp, OpId, OpKind};
use kbc_ir::result::result_of;
use kbc_ir::types::DType;
use kbc_rounds::ast::Ident;
use std::collections::{BTreeMap, BTreeSet};

/// The value of an expression.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    /// A value of the graph.
    Tensor(OpId),
    /// A number, which takes the element type of the tensor with which it is combined.
    Number(f64),
    /// Several values.
    Tuple(Vec<Value>),
    /// The result of a collective of a local program before its `wait`. For an average, the second
    /// field is the number of ranks that share the sum.
    Pending(OpId, Option<u64>),
}

/// The known facts about a value during lowering.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum KnownValue {
    Type(DType, Vec<u64>),
    /// The operation does not fit its operands, for this reason.
    Fault(String),
    /// Nothing is known: an operand does not fit its operation, or the graph does not determine the
    /// shape.
    Nothing,
}

/// The names of a program while it is lowered, with their values and places.
pub(super) type Names = BTreeMap<String, (Option<Value>, Span)>;

/// The programs whose unused lets have been checked.
pub(super) type CheckedLets = BTreeSet<Span>;

/// A loop that is being lowered.
#[derive(Clone, Debug)]
pub(super) struct LoopFrame {
    pub var: Ident,
    /// The whole loop. A name that is declared inside it belongs to one iteration.
    pub span: Span,
}

/// The state of lowering a program.
pub(super) struct Lowering<'a> {
    pub cx: Cx<'a>,
    /// The scope of a part of a local program.
    pub local: Option<Scope<'a>>,
    pub graph: Graph,
    /// The values of names and the places of their declarations. A name has no value if an error
    /// was reported instead.
    pub names: Names,
    /// The names that were read.
    pub used: BTreeSet<String>,
    /// The places of the names that have been declared.
    pub declared: BTreeSet<Span>,
    /// The shapes and element types of the values so far.
    pub known: BTreeMap<OpId, KnownValue>,
    /// The programs whose calls are being lowered, the outermost first, identified by the places of
    /// their names.
    pub calls: Vec<Span>,
    /// The called programs whose unused lets have been checked.
    pub looked_at: CheckedLets,
    /// The nesting depth of expressions, including those of callers.
    pub depth: usize,
    /// The loops of this program around the current statement, the outermost first.
    pub loops: Vec<LoopFrame>,
    /// The number of statements that loops have been unrolled to so far.
    pub unrolled: u64,
    pub found: Diagnostics,
}

impl<'a> Lowering<'a> {
    /// Returns the state before the first statement.
    pub(super) fn begin(cx: &Cx<'a>) -> Lowering<'a> {
        Lowering {
            cx: cx.clone(),
            local: None,
            graph: Graph::default(),
            names: BTreeMap::new(),
            used: BTreeSet::new(),
            declared: BTreeSet::new(),
            known: BTreeMap::new(),
            calls: vec![],
            looked_at: BTreeSet::new(),
            depth: 0,
            loops: vec![],
            unrolled: 0,
            found: Diagnostics::new(),
        }
    }
}

impl Lowering<'_> {
    /// Appends an operation and records the shape of its value.
    pub(super) fn add(&mut self, op: GraphOp, operands: &[OpId]) -> OpId {
        let known = match (&op.kind, &op.want) {
            (OpKind::Input(i), _) => match self.graph.inputs.get(*i) {
                Some(input) => KnownValue::Type(input.ty.dtype, input.ty.sizes()),
                None => KnownValue::Nothing,
            },
            (_, Some(want)) => KnownValue::Type(want.dtype, want.sizes()),
            (kind, None) => {
                let of = |o: &OpId| match self.known.get(o) {
                    Some(KnownValue::Type(dtype, sizes)) => Some((*dtype, sizes.clone())),
                    _ => None,
                };
                match operands.iter().map(of).collect::<Option<Vec<_>>>().map(|all| result_of(kind, &all)) {
                    Some(Ok(Some((dtype, sizes)))) => KnownValue::Type(dtype, sizes),
                    Some(Err(why)) => KnownValue::Fault(why),
                    Some(Ok(None)) | None => KnownValue::Nothing,
                }
            }
        };
        let id = self.graph.push(op, operands);
        self.known.insert(id, known);
        id
    }

    /// Appends an operation.
    pub(super) fn push(&mut self, kind: OpKind, name: Name, operands: &[OpId], span: Span) -> Value {
        Value::Tensor(self.add(GraphOp { kind, name, ty: None, want: None, span }, operands))
    }

    /// Returns the value as a tensor. If it is something else, reports an error and returns None.
    pub(super) fn tensor(&mut self, value: Value, span: Span) -> Option<OpId> {
        let d = match value {
            Value::Tensor(id) => return Some(id),
            Value::Number(x) => Diagnostic::error("E226", format!("expected a tensor, found the number {x}"))
                .primary(span, "a number alone has no shape and no element type")
                .help("combine the number with a tensor, which gives it both: `0 * x + 1`"),
            Value::Tuple(parts) => {
                Diagnostic::error("E226", format!("expected one tensor, found {} values", parts.len()))
                    .primary(span, "this has several values")
                    .help("give each value a name: `let (a, b) = ..`")
            }
            Value::Pending(id, _) => {
                let (name, at) = (self.graph.op(id).name.clone(), self.graph.op(id).span);
                self.found.push(
                    Diagnostic::error("E541", format!("`{name}` is used while its collective is pending"))
                        .primary(span, "used here")
                        .secondary(at, "pending from here on")
                        .help(format!("wait for it: wait({name})")),
                );
                return None;
            }
        };
        self.found.push(d);
        None
    }

    /// Returns the number of dimensions of a value, if it is known.
    pub(super) fn rank_of(&self, value: OpId) -> Option<usize> {
        match self.known.get(&value) {
            Some(KnownValue::Type(_, sizes)) => Some(sizes.len()),
            _ => None,
        }
    }

    /// Returns the element type of a value, if it is known.
    pub(super) fn dtype_of(&self, value: OpId) -> Option<DType> {
        match self.known.get(&value) {
            Some(KnownValue::Type(dtype, _)) => Some(*dtype),
            _ => None,
        }
    }

    /// Returns the element type and the sizes of a value. If they are unknown, reports the reason
    /// and returns None.
    pub(super) fn shape_of(&mut self, value: OpId, at: Span) -> Option<(DType, Vec<u64>)> {
        if let Some(KnownValue::Type(dtype, sizes)) = self.known.get(&value) {
            return Some((*dtype, sizes.clone()));
        }
        let (mut todo, mut told) = (vec![value], false);
        while let Some(id) = todo.pop() {
            if let Some(KnownValue::Fault(why)) = self.known.get(&id) {
                let d = Diagnostic::error("E201", format!("shapes do not match: {why}"))
                    .primary(self.graph.op(id).span, "computed here");
                let d = self.graph.with_call_sites(id, d);
                if !self.found.list.contains(&d) {
                    self.found.push(d);
                }
                told = true;
            } else if !matches!(self.known.get(&id), Some(KnownValue::Type(..))) {
                todo.extend(self.graph.operands(id));
            }
        }
        if !told {
            self.found.push(
                Diagnostic::error("E231", "the sizes of this value are not known yet: they depend on placements that kbc still has to choose")
                    .primary(at, "the collective may change its sizes")
                    .help("give the value a type: `let y: f32[25, 384] = ..`"),
            );
        }
        None
    }
}
