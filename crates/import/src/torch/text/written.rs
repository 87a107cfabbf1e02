//! Translation of parsed statements into a [`Written`] program: calls become operations, and
//! arguments get the names of the operation's parameters.
//!
//! This module owns the positions of arguments, lists and their `getitem`s, aliases of names, and
//! weights. It keeps an argument that does not fit its parameter; `resolve` rejects it.

use super::parse::{ParsedExpr, Stmt, Text};
use super::types;
use crate::torch::arg::{Arg, Int};
use crate::torch::dtype::DType;
use crate::torch::json::JsonFault;
use crate::torch::model::{Meta, Role, Written, WrittenNode};
use crate::torch::ops::{self, Returns, Ty};
use std::collections::BTreeMap;

/// Operations of Python-level calls.
const CALLS: [(&str, &str); 16] = [
    ("torch._C._nn.linear", "aten.linear.default"),
    ("torch.nn.functional.linear", "aten.linear.default"),
    ("torch._C._nn.gelu", "aten.gelu.default"),
    ("torch.nn.functional.gelu", "aten.gelu.default"),
    ("torch.nn.functional.relu", "aten.relu.default"),
    ("torch.nn.functional.silu", "aten.silu.default"),
    ("torch.relu", "aten.relu.default"),
    ("torch.sigmoid", "aten.sigmoid.default"),
    ("torch.tanh", "aten.tanh.default"),
    ("torch.exp", "aten.exp.default"),
    ("torch.rsqrt", "aten.rsqrt.default"),
    ("torch.matmul", "aten.matmul.default"),
    ("torch.softmax", "aten.softmax.int"),
    ("torch.nn.functional.softmax", "aten.softmax.int"),
    ("torch.nn.functional.layer_norm", "aten.layer_norm.default"),
    ("torch._C._nn.scaled_dot_product_attention", "aten.scaled_dot_product_attention.default"),
];

/// Operations of infix operators between tensors.
const INFIX: [(&str, &str); 6] = [
    ("+", "aten.add.Tensor"),
    ("-", "aten.sub.Tensor"),
    ("*", "aten.mul.Tensor"),
    ("/", "aten.div.Tensor"),
    ("@", "aten.matmul.default"),
    ("**", "aten.pow.Tensor_Scalar"),
];

/// Operations of infix operators between sizes.
const OF_SIZES: [(&str, &str); 4] =
    [("+", "_operator.add"), ("-", "_operator.sub"), ("*", "_operator.mul"), ("//", "_operator.floordiv")];

/// Reads the text of a printed program.
///
/// # Errors
/// Returns a fault if the text is not a printed program.
pub fn read(text: &str) -> Result<Written, JsonFault> {
    written(&super::parse::parse(text)?)
}

/// Returns the operation that a callee denotes.
pub fn target(callee: &str) -> String {
    let Some(name) = callee.strip_prefix("torch.ops.") else {
        let known = CALLS.iter().find(|c| c.0 == callee).map(|c| c.1);
        return known.unwrap_or(callee).to_owned();
    };
    // The overload may be missing.
    if name.split('.').count() == 2 { format!("{name}.default") } else { name.to_owned() }
}

struct Reader {
    out: Written,
    /// Names that are aliases, with the name that each stands for.
    alias: BTreeMap<String, String>,
    /// For each name of a list: the node that produces it, and the names of its parts.
    lists: BTreeMap<String, (usize, Vec<Option<String>>)>,
}

/// Translates parsed statements into a program.
///
/// # Errors
/// Returns a fault for a type that cannot be read or a list of unknown length.
pub fn written(text: &Text) -> Result<Written, JsonFault> {
    let mut r = Reader { out: Written::default(), alias: BTreeMap::new(), lists: BTreeMap::new() };
    for (name, ty) in &text.params {
        // A parameter without a type is not a tensor.
        let Some(ty) = ty else { continue };
        if let Some(size) = types::symbol(ty) {
            let size = size.map_err(|why| JsonFault::new(0, format!("the parameter `{name}`: {why}")))?;
            r.out.ints.insert(name.clone(), size);
            r.out.inputs.push((Arg::Int(Int::Of(name.clone())), Role::User));
            continue;
        }
        let ty =
            types::read(ty).map_err(|why| JsonFault::new(0, format!("the parameter `{name}`: {why}")))?;
        r.placed(name, &ty);
        r.input(name, ty.meta, text.weights.get(name).cloned());
    }
    for s in &text.stmts {
        r.statement(s)?;
    }
    for v in &text.result {
        let arg = match v {
            ParsedExpr::Name(n) => {
                let n = r.named(n);
                match r.lists.get(&n) {
                    _ if r.out.ints.contains_key(&n) => Arg::Int(Int::Of(n)),
                    _ if r.out.tensors.contains_key(&n) => Arg::Tensor(n),
                    Some((node, _)) => r.out.nodes[*node].outputs.first().cloned().unwrap_or(Arg::None),
                    // A parameter that is not a tensor.
                    None if text.params.iter().any(|p| p.0 == n) => Arg::None,
                    None => Arg::Tensor(n),
                }
            }
            ParsedExpr::Int(n) => Arg::Int(Int::Is(*n)),
            _ => Arg::None,
        };
        r.out.outputs.push(arg);
    }
    r.out.unvalued = r.out.is_symbolic();
    r.out.ranges = text.ranges.clone();
    Ok(r.out)
}

impl Reader {
    fn named(&self, name: &str) -> String {
        self.alias.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }

    fn input(&mut self, name: &str, meta: Meta, weight: Option<String>) {
        let role = weight.map_or(Role::User, Role::Weight);
        self.out.inputs.push((Arg::Tensor(name.to_owned()), role));
        self.out.tensors.insert(name.to_owned(), meta);
    }

    fn placed(&mut self, name: &str, ty: &types::Type) {
        if !ty.placements.is_empty() {
            self.out.placements.insert(name.to_owned(), ty.placements.clone());
        }
    }

    fn typed(&mut self, s: &Stmt) -> Result<Option<Meta>, JsonFault> {
        let Some(text) = &s.ty else { return Ok(None) };
        if let (Some(size), [name]) = (types::symbol(text), &s.names[..]) {
            self.out.ints.insert(name.clone(), size.map_err(|why| JsonFault::new(s.at, why))?);
            return Ok(None);
        }
        let ty = types::read(text).map_err(|why| JsonFault::new(s.at, why))?;
        s.names.iter().for_each(|n| self.placed(n, &ty));
        Ok(Some(ty.meta))
    }

    fn statement(&mut self, s: &Stmt) -> Result<(), JsonFault> {
        let [name] = &s.names[..] else {
            return Err(JsonFault::new(s.at, "only one name can be assigned at a time"));
        };
        let meta = self.typed(s)?;
        match &s.value {
            ParsedExpr::Name(other) => {
                if let Some(weight) = other.strip_prefix("self.") {
                    let meta = meta.ok_or_else(|| {
                        JsonFault::new(
                            s.at,
                            format!("`{other}` is a constant of the program, and the text does not contain its type"),
                        )
                    })?;
                    self.input(name, meta, Some(weight.to_owned()));
                } else {
                    let other = self.named(other);
                    self.alias.insert(name.clone(), other);
                }
                Ok(())
            }
            ParsedExpr::Item(of, i) => {
                let ParsedExpr::Name(list) = &**of else {
                    return Err(JsonFault::new(s.at, "expected an element of a list"));
                };
                let Some((node, names)) =
                    self.lists.get_mut(&self.alias.get(list).cloned().unwrap_or(list.clone()))
                else {
                    return Err(JsonFault::new(s.at, format!("`{list}` is not a list")));
                };
                let node = *node;
                let Some(slot) = usize::try_from(*i).ok().and_then(|i| names.get_mut(i)) else {
                    return Err(JsonFault::new(s.at, format!("`{list}` has no element {i}")));
                };
                match slot {
                    Some(first) => {
                        let first = first.clone();
                        self.alias.insert(name.clone(), first);
                    }
                    None => {
                        *slot = Some(name.clone());
                        let all = names.clone();
                        self.out.nodes[node].outputs = outputs(&self.out.nodes[node], list, &all);
                        self.out.tensors.extend(meta.map(|m| (name.clone(), m)));
                    }
                }
                Ok(())
            }
            // The type annotation determines the placements.
            ParsedExpr::Call(f, ..) if f.ends_with(".redistribute") => {
                let of = ParsedExpr::Name(f.trim_end_matches(".redistribute").to_owned());
                self.call(s, name, meta, "_dtensor.redistribute.default", &[of], &[])
            }
            ParsedExpr::Call(f, args, named) => match self.method(f, args, named) {
                Some((target, args)) => self.call(s, name, meta, target, &args, named),
                None => self.call(s, name, meta, &target(f), args, named),
            },
            ParsedExpr::Infix(op, a, b) => {
                let table = if self.out.ints.contains_key(name) { &OF_SIZES[..] } else { &INFIX[..] };
                let target = table.iter().find(|i| i.0 == op).map_or(op.as_str(), |i| i.1);
                self.call(s, name, meta, target, &[(**a).clone(), (**b).clone()], &[])
            }
            _ => Err(JsonFault::new(s.at, "expected an operation")),
        }
    }

    /// Resolves `x.transpose(0, 1)` and `torch.transpose(x, 0, 1)`: finds the operation with that
    /// name that accepts the arguments, and returns it with the arguments, the tensor first.
    fn method(
        &self,
        f: &str,
        args: &[ParsedExpr],
        named: &[(String, ParsedExpr)],
    ) -> Option<(&'static str, Vec<ParsedExpr>)> {
        let (of, name) = f.rsplit_once('.')?;
        let free = of == "torch" || of == "torch.nn.functional" || of == "torch._C._nn";
        if free && CALLS.iter().any(|c| c.0 == f) {
            return None;
        }
        let known =
            self.out.tensors.contains_key(&self.named(of)) || self.lists.contains_key(&self.named(of));
        let all = match (free, known) {
            (true, _) => args.to_vec(),
            (false, true) => [&[ParsedExpr::Name(of.to_owned())], args].concat(),
            (false, false) => return None,
        };
        let called =
            |n: &&'static str| n.strip_prefix("aten.").and_then(|n| n.split('.').next()) == Some(name);
        ops::names().filter(called).filter_map(ops::find).find_map(|op| {
            let mut all = all.clone();
            // Sizes and dimensions may be separate arguments.
            let numbers = |l: &[ParsedExpr]| !l.is_empty() && l.iter().all(|v| self.is(v, Ty::Int));
            if op.params.get(1).is_some_and(|p| p.ty == Ty::Ints) && numbers(&all[1.min(all.len())..]) {
                let list = all.split_off(1);
                all.push(ParsedExpr::List(list));
            }
            for (v, p) in all.iter_mut().zip(&op.params) {
                if p.ty == Ty::OptInts && self.is(v, Ty::Int) {
                    *v = ParsedExpr::List(vec![v.clone()]);
                }
            }
            let fits = all.len() <= op.params.len()
                && all.iter().zip(&op.params).all(|(v, p)| self.is(v, p.ty))
                && named.iter().all(|(n, v)| op.params.iter().any(|p| p.name == n && self.is(v, p.ty)));
            let said = |i: usize, name: &str| i < all.len() || named.iter().any(|n| n.0 == name);
            let full = op.params.iter().enumerate().all(|(i, p)| p.default.is_some() || said(i, p.name));
            (fits && full).then_some((op.name, all))
        })
    }

    /// Checks whether a value may be an argument of a type.
    fn is(&self, v: &ParsedExpr, ty: Ty) -> bool {
        let tensor = |v: &ParsedExpr| matches!(v, ParsedExpr::Name(n) if !n.starts_with("torch.") && !self.out.ints.contains_key(&self.named(n)));
        let int = |v: &ParsedExpr| match v {
            ParsedExpr::Int(_) => true,
            ParsedExpr::Name(n) => self.out.ints.contains_key(&self.named(n)),
            _ => false,
        };
        match ty {
            Ty::Tensor => tensor(v),
            Ty::OptTensor => tensor(v) || *v == ParsedExpr::None,
            Ty::Tensors => matches!(v, ParsedExpr::List(l) if l.iter().all(tensor)),
            Ty::OptTensors => {
                matches!(v, ParsedExpr::List(l) if l.iter().all(|v| tensor(v) || *v == ParsedExpr::None))
            }
            Ty::Int => int(v),
            Ty::OptInt => int(v) || *v == ParsedExpr::None,
            Ty::Ints => matches!(v, ParsedExpr::List(l) if l.iter().all(int)),
            Ty::OptInts => {
                int(v) || *v == ParsedExpr::None || matches!(v, ParsedExpr::List(l) if l.iter().all(int))
            }
            Ty::Float => int(v) || matches!(v, ParsedExpr::Float(_)),
            Ty::OptFloat => int(v) || matches!(v, ParsedExpr::Float(_) | ParsedExpr::None),
            Ty::Bool => matches!(v, ParsedExpr::Bool(_)),
            Ty::OptBool => matches!(v, ParsedExpr::Bool(_) | ParsedExpr::None),
            Ty::Scalar => int(v) || matches!(v, ParsedExpr::Float(_) | ParsedExpr::Bool(_)),
            Ty::OptScalar => {
                int(v) || matches!(v, ParsedExpr::Float(_) | ParsedExpr::Bool(_) | ParsedExpr::None)
            }
            Ty::Str => matches!(v, ParsedExpr::Text(_)),
            Ty::OptDType => {
                *v == ParsedExpr::None || matches!(v, ParsedExpr::Name(n) if DType::of_python(n).is_some())
            }
            Ty::Place => true,
        }
    }

    fn call(
        &mut self,
        s: &Stmt,
        name: &str,
        meta: Option<Meta>,
        target: &str,
        args: &[ParsedExpr],
        named: &[(String, ParsedExpr)],
    ) -> Result<(), JsonFault> {
        let op = ops::find(target);
        let mut list = vec![];
        for (i, v) in args.iter().enumerate() {
            let param = op.and_then(|o| o.params.get(i));
            let (name, ty) = param.map_or((format!("{i}"), Ty::Tensor), |p| (p.name.to_owned(), p.ty));
            list.push((name, self.arg(v, ty)));
        }
        for (n, v) in named {
            let ty = op.and_then(|o| o.params.iter().find(|p| p.name == n)).map_or(Ty::Tensor, |p| p.ty);
            list.push((n.clone(), self.arg(v, ty)));
        }
        let mut node = WrittenNode {
            target: target.to_owned(),
            args: list,
            outputs: vec![],
            source: s.source.clone(),
            at: s.at,
        };
        let count = match op.map(|o| o.returns) {
            Some(Returns::List) => Some(self.length(&node).map_err(|why| JsonFault::new(s.at, why))?),
            Some(Returns::Each(0)) => Some(0),
            Some(Returns::Each(1)) | None => None,
            Some(Returns::Each(n)) => Some(n),
        };
        match count {
            Some(n) => {
                let names = vec![None; n];
                node.outputs = outputs(&node, name, &names);
                self.lists.insert(name.to_owned(), (self.out.nodes.len(), names));
            }
            None if self.out.ints.contains_key(name) => {
                node.outputs = vec![Arg::Int(Int::Of(name.to_owned()))];
            }
            None => {
                node.outputs = vec![Arg::Tensor(name.to_owned())];
                self.out.tensors.extend(meta.map(|m| (name.to_owned(), m)));
            }
        }
        self.out.nodes.push(node);
        Ok(())
    }

    /// Converts a value into an argument of a type.
    fn arg(&self, v: &ParsedExpr, ty: Ty) -> Arg<String> {
        let numbers = matches!(ty, Ty::Int | Ty::OptInt | Ty::Ints | Ty::OptInts);
        match v {
            ParsedExpr::None => Arg::None,
            ParsedExpr::Bool(b) => Arg::Bool(*b),
            ParsedExpr::Int(n) => Arg::Int(Int::Is(*n)),
            ParsedExpr::Float(x) => Arg::Float(*x),
            ParsedExpr::Text(t) => Arg::Text(t.clone()),
            ParsedExpr::Name(n) if n.starts_with("torch.") => {
                DType::of_python(n).map_or(Arg::Place, Arg::DType)
            }
            ParsedExpr::Name(n) if numbers || self.out.ints.contains_key(&self.named(n)) => {
                Arg::Int(Int::Of(self.named(n)))
            }
            ParsedExpr::Name(n) => {
                let n = self.named(n);
                // A list that is passed as a whole.
                match self.lists.get(&n).map(|l| &self.out.nodes[l.0].outputs[..]) {
                    Some([list @ Arg::Tensors(_)]) => list.clone(),
                    _ => Arg::Tensor(n),
                }
            }
            ParsedExpr::List(l) if ty == Ty::OptTensors => Arg::Optionals(
                l.iter()
                    .map(|v| if let ParsedExpr::Name(n) = v { Some(self.named(n)) } else { None })
                    .collect(),
            ),
            // Output masks, and values of which kbc has only one kind.
            ParsedExpr::List(_) if ty == Ty::Place => Arg::Place,
            ParsedExpr::List(l) if l.iter().all(|v| matches!(v, ParsedExpr::Int(_))) && ty != Ty::Tensors => {
                Arg::Ints(
                    l.iter()
                        .map(|v| if let ParsedExpr::Int(n) = v { Int::Is(*n) } else { Int::Is(0) })
                        .collect(),
                )
            }
            ParsedExpr::List(l) if numbers => Arg::Ints(
                l.iter()
                    .map(|v| match v {
                        ParsedExpr::Int(n) => Int::Is(*n),
                        ParsedExpr::Name(n) => Int::Of(self.named(n)),
                        _ => Int::Of(String::new()),
                    })
                    .collect(),
            ),
            ParsedExpr::List(l) => Arg::Tensors(
                l.iter()
                    .map(|v| if let ParsedExpr::Name(n) = v { self.named(n) } else { String::new() })
                    .collect(),
            ),
            // `device(type='cpu')` and other values of which kbc has only one kind.
            _ => Arg::Place,
        }
    }

    /// Returns the number of tensors in the list that an operation returns.
    fn length(&self, node: &WrittenNode) -> Result<usize, String> {
        let arg = |name: &str| node.args.iter().find(|a| a.0 == name).map(|a| &a.1);
        let int = |name: &str| match arg(name) {
            Some(Arg::Int(Int::Is(n))) => Some(*n),
            _ => None,
        };
        if let Some(Arg::Ints(l)) = arg("split_sizes") {
            return Ok(l.len());
        }
        if let Some((_, Arg::Tensors(l))) = node.args.first() {
            return Ok(l.len());
        }
        let unknown = || format!("the number of results of {} is not known", node.target);
        let Some((_, Arg::Tensor(x))) = node.args.first() else { return Err(unknown()) };
        let meta = self.out.tensors.get(x).ok_or_else(unknown)?;
        let sizes = meta.shape();
        let dim = int("dim").unwrap_or(0);
        let dim = if dim < 0 { dim + sizes.len() as i64 } else { dim };
        let n = usize::try_from(dim).ok().and_then(|d| sizes.get(d)).copied().ok_or_else(unknown)?;
        if meta.sizes[dim as usize].expr.is_some() {
            return Err(format!(
                "{}: the dimension is a symbol, and the printed text does not contain its value",
                unknown()
            ));
        }
        let up = |a: i64, b: i64| a / b + i64::from(a % b != 0);
        let parts = match (int("split_size"), int("chunks")) {
            _ if n == 0 => 1,
            (Some(each), _) if each > 0 => up(n, each),
            (_, Some(k)) if k > 0 => up(n, up(n, k)),
            _ => return Err(unknown()),
        };
        usize::try_from(parts).ok().filter(|p| *p < 1 << 20).ok_or_else(unknown)
    }
}

/// Returns the results of a list operation, with the names of the parts that have one.
fn outputs(node: &WrittenNode, list: &str, names: &[Option<String>]) -> Vec<Arg<String>> {
    let all: Vec<String> =
        names.iter().enumerate().map(|(i, n)| n.clone().unwrap_or_else(|| format!("{list}.{i}"))).collect();
    match ops::find(&node.target).map(|o| o.returns) {
        Some(Returns::List) => vec![Arg::Tensors(all)],
        _ => all.into_iter().map(Arg::Tensor).collect(),
    }
}
