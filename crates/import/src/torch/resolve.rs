//! Name resolution: turns the program of a file ([`Written`]) into a [`Program`].
//!
//! This module verifies that every operation is in the table and accepts its arguments, and that
//! every value is assigned once and before its use.

use super::arg::{Arg, Int};
use super::model::{Node, Program, Value, ValueId, ValueKind, Written, WrittenNode, place};
use super::ops::{self, OpSignature, Param, Returns, Ty};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use std::collections::HashMap;

/// Resolves the program of a file.
///
/// # Errors
/// Returns E522 to E524, one for every operation, argument or name that is wrong.
pub fn resolve(
    file: &str,
    rank: u64,
    listing: FileId,
    lines: Vec<(usize, usize)>,
    written: Written,
) -> Result<Program, Diagnostics> {
    if written.unvalued {
        let size = written.tensors.values().flat_map(|m| &m.sizes).chain(written.ints.values());
        let size = size.filter_map(|s| s.expr.as_ref()).next().map_or_else(String::new, ToString::to_string);
        return Err(Diagnostic::error("E554", format!("{file}: the printed text does not contain the value of the size {size}"))
            .help("put data of a run beside the file, give -D s77=16, or use the JSON of the program (model.json), which has the value")
            .into());
    }
    let mut r = Resolver {
        file,
        listing,
        lines: &lines,
        names: HashMap::with_capacity(written.tensors.len() + written.ints.len()),
        values: vec![],
        found: Diagnostics::new(),
    };
    for (arg, _) in &written.inputs {
        for name in arg.values() {
            r.define(&written, name, None);
        }
    }
    let mut nodes = vec![];
    for (i, n) in written.nodes.iter().enumerate() {
        let node = r.node(i, n);
        let outputs: Vec<ValueId> = n
            .outputs
            .iter()
            .flat_map(Arg::values)
            .filter_map(|name| r.define(&written, name, Some(i)))
            .collect();
        if let Some((op, args)) = node {
            nodes.push(Node { op, args, outputs });
        }
    }
    let mut outputs = vec![];
    for arg in &written.outputs {
        for name in arg.values() {
            outputs.extend(r.used(written.nodes.len(), name).ok());
        }
    }
    let (values, found) = (r.values, r.found);
    if found.has_errors() {
        return Err(found);
    }
    Ok(Program { file: file.to_owned(), listing, lines, written, rank, values, nodes, outputs })
}

struct Resolver<'a> {
    file: &'a str,
    listing: FileId,
    lines: &'a [(usize, usize)],
    names: HashMap<&'a str, ValueId>,
    values: Vec<Value>,
    found: Diagnostics,
}

impl<'a> Resolver<'a> {
    fn span(&self, node: usize) -> Span {
        self.lines.get(node).map_or(Span::NONE, |(a, b)| Span::new(self.listing, *a, *b))
    }

    fn define(&mut self, w: &Written, name: &'a str, node: Option<usize>) -> Option<ValueId> {
        let kind = match (w.tensors.get(name), w.ints.get(name)) {
            (Some(m), _) => ValueKind::Tensor(m.clone()),
            (_, Some(s)) => ValueKind::Int(s.clone()),
            _ if node.is_some_and(|n| w.nodes[n].outputs.iter().any(|o| matches!(o, Arg::BoolOf(_)))) => {
                ValueKind::Bool
            }
            _ => ValueKind::Unused,
        };
        let id = self.values.len();
        if *self.names.entry(name).or_insert(id) != id {
            let mut d = Diagnostic::error("E524", format!("`{name}` is assigned a second time"));
            if let Some(n) = node {
                d = d.primary(self.span(n), "here").note(place(self.file, &w.nodes[n]));
            }
            self.found.push(d.note(self.file.to_owned()));
            return None;
        }
        self.values.push(Value { name: name.to_owned(), kind });
        Some(id)
    }

    /// Returns the value with a name that a node uses.
    fn used(&mut self, node: usize, name: &str) -> Result<ValueId, ()> {
        match self.names.get(name) {
            Some(id) if self.values[*id].kind != ValueKind::Unused => Ok(*id),
            Some(_) => {
                let d = Diagnostic::error("E525", format!("`{name}` is used, and its type is not recorded"))
                    .primary(self.span(node), "used here")
                    .note(format!("{}: tensor_values has no entry of that name", self.file));
                self.found.push(d);
                Err(())
            }
            None => {
                let mut d = Diagnostic::error("E524", format!("`{name}` is used before it is assigned"))
                    .primary(self.span(node), "used here")
                    .note(self.file.to_owned());
                // Sorted, so that the first of several equally near names is the same in every run.
                let mut names: Vec<&str> = self.names.keys().copied().collect();
                names.sort_unstable();
                if let Some(near) = nearest(name, names) {
                    d = d.help(format!("did you mean `{near}`?"));
                }
                self.found.push(d);
                Err(())
            }
        }
    }

    fn node(&mut self, i: usize, n: &WrittenNode) -> Option<(&'static OpSignature, Vec<Arg<ValueId>>)> {
        let Some(op) = ops::find(&n.target) else {
            self.found.push(unknown(self.file, self.span(i), n));
            return None;
        };
        let wrong = |what: String| {
            Diagnostic::error("E523", format!("{}: {what}", op.name)).note(place(self.file, n))
        };
        let mut faults = vec![];
        for (name, _) in &n.args {
            if !op.params.iter().any(|p| p.name == name) {
                let names: Vec<&str> = op.params.iter().map(|p| p.name).collect();
                faults.push(wrong(format!("unknown argument `{name}`")).help(names.join(", ")));
            }
        }
        let mut chosen = vec![];
        for p in &op.params {
            match (n.args.iter().find(|a| a.0 == p.name), &p.default) {
                (Some((_, arg)), _) => match fits(p, arg) {
                    true => chosen.push(Ok(arg)),
                    false => faults.push(wrong(format!("the argument `{}` must be {}", p.name, kind(p.ty)))),
                },
                (None, Some(d)) => chosen.push(Err(d.clone())),
                (None, None) => faults.push(wrong(format!("the argument `{}` is missing", p.name))),
            }
        }
        let list = matches!(n.outputs[..], [Arg::Tensors(_)]);
        let arity = match op.returns {
            Returns::List => list,
            Returns::Each(k) => !list && n.outputs.len() == k,
        };
        if !arity {
            faults.push(wrong(format!(
                "{} assigned, and the operation has {}",
                count(&n.outputs),
                returned(op.returns)
            )));
        }
        let failed = !faults.is_empty();
        for d in faults {
            self.found.push(d.primary(self.span(i), "here"));
        }
        let mut args = vec![];
        let mut all = true;
        for c in chosen {
            match c {
                Ok(arg) => match arg.map(&mut |name: &String| self.used(i, name)) {
                    Ok(a) => args.push(a),
                    Err(()) => all = false,
                },
                Err(default) => args.push(default),
            }
        }
        (all && !failed).then_some((op, args))
    }
}

fn count(outputs: &[Arg<String>]) -> String {
    match outputs {
        [Arg::Tensors(l)] => format!("a list of {} is", l.len()),
        [_] => "one result is".into(),
        more => format!("{} results are", more.len()),
    }
}

fn returned(r: Returns) -> String {
    match r {
        Returns::List => "a list".into(),
        Returns::Each(0) => "none".into(),
        Returns::Each(1) => "one".into(),
        Returns::Each(n) => n.to_string(),
    }
}

fn kind(ty: Ty) -> &'static str {
    match ty {
        Ty::Tensor | Ty::OptTensor => "a tensor",
        Ty::Tensors | Ty::OptTensors => "a list of tensors",
        Ty::Int | Ty::OptInt => "an integer",
        Ty::Ints | Ty::OptInts => "a list of integers",
        Ty::Float | Ty::OptFloat | Ty::Scalar | Ty::OptScalar => "a number",
        Ty::Bool | Ty::OptBool => "a truth value",
        Ty::Str => "a string",
        Ty::OptDType => "an element type",
        Ty::Place => "a device, layout, memory format or mask",
    }
}

fn fits(p: &Param, arg: &Arg<String>) -> bool {
    let number = matches!(arg, Arg::Int(_) | Arg::Float(_) | Arg::Bool(_) | Arg::BoolOf(_));
    let none = matches!(arg, Arg::None);
    match p.ty {
        // A number may stand for a tensor without dimensions if the operation
        // broadcasts that operand.
        Ty::Tensor => {
            matches!(arg, Arg::Tensor(_)) || (number && matches!(p.name, "self" | "other" | "value"))
        }
        Ty::OptTensor => none || matches!(arg, Arg::Tensor(_)),
        Ty::Tensors => matches!(arg, Arg::Tensors(_)),
        Ty::OptTensors => matches!(arg, Arg::Tensors(_) | Arg::Optionals(_)),
        Ty::Int => matches!(arg, Arg::Int(_)),
        Ty::OptInt => none || matches!(arg, Arg::Int(_)),
        Ty::Ints => matches!(arg, Arg::Ints(_) | Arg::Int(Int::Is(_) | Int::Of(_))),
        Ty::OptInts => none || matches!(arg, Arg::Ints(_) | Arg::Int(_)),
        Ty::Float => matches!(arg, Arg::Float(_) | Arg::Int(_)),
        Ty::OptFloat => none || matches!(arg, Arg::Float(_) | Arg::Int(_)),
        Ty::Bool => matches!(arg, Arg::Bool(_)),
        Ty::OptBool => none || matches!(arg, Arg::Bool(_)),
        Ty::Scalar => number,
        Ty::OptScalar => none || number,
        Ty::Str => matches!(arg, Arg::Text(_)),
        Ty::OptDType => none || matches!(arg, Arg::DType(_)),
        Ty::Place => none || matches!(arg, Arg::Place),
    }
}

/// Families of operations that kbc does not support, with advice.
const FAMILIES: [(&str, &str); 5] = [
    (
        "c10d.",
        "its group is an object that is not in the file; trace with torch.export, which writes _c10d_functional.all_reduce",
    ),
    ("c10d_functional.", "this name space is older than PyTorch 2.3; export with a newer PyTorch"),
    ("_c10d_functional_autograd.", "export after run_decompositions(), which removes it"),
    (
        "_dtensor.mesh_get_process_group",
        "a graph for all ranks has no named groups; export one program per rank",
    ),
    ("higher_order.", "export after run_decompositions()"),
];

fn unknown(file: &str, span: Span, n: &WrittenNode) -> Diagnostic {
    let mut d = Diagnostic::error("E522", format!("kbc does not support the operation {}", n.target))
        .primary(span, "here")
        .note(place(file, n));
    if let Some((_, advice)) = FAMILIES.iter().find(|f| n.target.starts_with(f.0)) {
        d = d.help(*advice);
    } else if let Some(near) = nearest(&n.target, ops::names()) {
        d = d.help(format!("did you mean {near}?"));
    }
    d
}
