//! Instances of generic programs: checks programs that are complete only when called, by calling
//! them with small sizes.
//!
//! This module determines which names of a program are variables, enumerates values for them, and
//! builds the graph of each such call. The driver runs the passes and the checker on each of them.

use super::bind::{ArgumentKind, kind, sizes};
use super::choice::{MachineChoice, machine_choice};
use super::locals::{Local, Locals};
use super::params::Params;
use super::state::{Lowering, Value};
use super::values::ParamValue;
use super::{Cx, LowerOptions, Lowered, kernel::Kernels, machine};
use crate::ast::{
    Arg, Call, Dim, Item, Named, OptionValue, ProgramDecl, Tensor, TensorKind, Type, TypePlaceKind,
};
use crate::loaded::Loaded;
use kbc_diag::{Diagnostics, FileId, Severity, Span};
use kbc_ir::graph::{Graph, GraphOp, Input, OpKind};
use kbc_ir::types::{Axis, DType, Mesh, TensorType};
use kbc_ir::{Body, Module, Name, Props};
use kbc_rounds::ast::{Expr, ExprKind, Ident};
use std::collections::{BTreeMap, BTreeSet};

/// The values of sizes and integers, in the order in which they are tried.
const SIZES: [i64; 6] = [4, 2, 8, 6, 3, 1];

/// The largest number of size combinations that are tried. If there are more, a sample of this many
/// is tried.
const MAX_COMBINATIONS: usize = 600;

/// The number of ranks of each axis if the file declares no mesh.
const RANKS: u64 = 2;

/// Codes of errors that cannot be repaired by other sizes.
const LASTING: [&str; 15] = [
    "E003", "E004", "E005", "E006", "E203", "E225", "E226", "E227", "E228", "E232", "E233", "E290", "E541",
    "E548", "E990",
];

/// The result of trying to call a program.
pub enum CallTrial {
    /// The program can be called with these values. There is one entry for each combination of its
    /// flags, with and without the optional arguments.
    Called(Vec<String>),
    /// None of the calls that were tried succeeded, but others may exist. The text states the
    /// reason.
    Not(String),
}

/// Returns the names of the non-local programs of a file, in source order.
pub fn programs(loaded: &Loaded, root: FileId) -> Vec<String> {
    let items = loaded.file(root).map_or(&[][..], |f| &f.tree().items);
    let name = |i: &Item| match i {
        Item::Program(p) => Some(p.name.node.clone()),
        _ => None,
    };
    items.iter().filter_map(name).collect()
}

/// Returns the sizes and integers of a program that `-D` may give.
pub fn variables(loaded: &Loaded, name: &str) -> Vec<String> {
    let root = loaded.root.unwrap_or_default();
    let of = |p| Variables::of(loaded, &LowerOptions::default(), p).sizes;
    declared(loaded, root, name).map(of).unwrap_or_default()
}

/// Returns whether a program has types that only a call makes complete.
pub fn is_generic(loaded: &Loaded, root: FileId, name: &str) -> bool {
    declared(loaded, root, name).is_some_and(generic)
}

/// Returns whether an argument of the program has `..` or a variable element type, or is an axis.
pub(super) fn generic(p: &ProgramDecl) -> bool {
    p.args.iter().any(|a| a.ty.any || variable_type(p, a).is_some() || kind(a) == ArgumentKind::Axis)
}

/// Returns the variable that stands for the element type of an argument.
fn variable_type<'a>(p: &ProgramDecl, a: &'a Arg) -> Option<&'a str> {
    let name = &a.ty.dtype.node;
    let declared = p.variables.iter().any(|v| v.dtype && v.name.node == *name);
    (kind(a) == ArgumentKind::Tensor && declared).then_some(name)
}

fn declared<'a>(loaded: &'a Loaded, root: FileId, name: &str) -> Option<&'a ProgramDecl> {
    loaded.file(root)?.tree().items.iter().find_map(|i| match i {
        Item::Program(p) if p.name.node == name => Some(p),
        _ => None,
    })
}

/// Calls a program of a file with small sizes until a call succeeds, for each combination of its
/// flags. `judge` returns the errors of the graph of a call.
///
/// # Errors
/// Returns the errors of a call if no call with small sizes succeeds, or if the errors occur for
/// all sizes.
pub fn instances(
    loaded: &Loaded,
    options: &LowerOptions,
    name: &str,
    judge: &mut dyn FnMut(Lowered) -> Result<(), Diagnostics>,
) -> Result<CallTrial, Diagnostics> {
    let root = loaded.root.unwrap_or_default();
    let Some(decl) = declared(loaded, root, name) else {
        return Ok(CallTrial::Not("it is not a program".into()));
    };
    let variables = Variables::of(loaded, options, decl);
    let mut out = vec![];
    for mode in variables.modes() {
        let (grid, whole) = variables.grid();
        let (mut first, mut done): (Option<Diagnostics>, bool) = (None, false);
        let tried = grid.len();
        for values in grid {
            let instance = Instance { variables: &variables, mode: &mode, values: &values };
            match instance.lower(loaded, options, decl).and_then(&mut *judge) {
                Ok(()) => {
                    out.push(instance.shown());
                    done = true;
                    break;
                }
                Err(d) => {
                    if lasting(&d) {
                        first = Some(d);
                        break;
                    }
                    first.get_or_insert(d);
                }
            }
        }
        let Some(mut d) = first.filter(|_| !done) else { continue };
        let (with, lasting) = (variables.words(&mode), lasting(&d));
        if !lasting && !whole {
            let title = d.list.first().map_or("", |d| d.title.as_str());
            return Ok(CallTrial::Not(format!(
                "none of {tried} combinations of small sizes fits{with}: {title}"
            )));
        }
        if !lasting && tried > 1 {
            for e in &mut d.list {
                e.notes.push(format!("kbc tried {tried} combinations of sizes from 1 to 8{with}; none fits"));
            }
        }
        return Err(d);
    }
    Ok(CallTrial::Called(out))
}

fn lasting(d: &Diagnostics) -> bool {
    d.list.iter().any(|d| d.severity == Severity::Error && LASTING.contains(&d.code))
}

/// The names of a program that get their meaning from a call.
struct Variables {
    /// The names of element types.
    types: Vec<String>,
    /// Whether some type begins with `..`.
    any: bool,
    /// The sizes, and the integers without a default.
    sizes: Vec<String>,
    /// Those names in `sizes` that are integers.
    integers: BTreeSet<String>,
    /// The numbers without a default.
    numbers: Vec<String>,
    /// The arguments that are true or false.
    flags: Vec<String>,
    /// The arguments that are axes, with their axes.
    axes: Vec<(String, String)>,
    /// Whether some tensor may be omitted.
    optional: bool,
    /// The axes of the mesh, if the file declares none.
    mesh: Option<Vec<String>>,
    /// The values that `-D` gives.
    given: BTreeMap<String, i64>,
}

/// The choices that are fixed during one search.
struct Mode {
    flags: Vec<bool>,
    /// Whether optional tensors are given.
    full: bool,
}

/// The values of the variables.
struct Values {
    types: Vec<DType>,
    any: Vec<u64>,
    sizes: Vec<i64>,
}

impl Variables {
    fn of(loaded: &Loaded, options: &LowerOptions, decl: &ProgramDecl) -> Variables {
        let root = loaded.root.unwrap_or_default();
        let of = |k: ArgumentKind| decl.args.iter().filter(move |a| kind(a) == k);
        let open = |a: &&Arg| a.data.is_none();
        let names = |list: Vec<&Arg>| list.iter().map(|a| a.name.node.clone()).collect::<Vec<_>>();
        let mut types: Vec<String> = vec![];
        for t in decl.args.iter().filter_map(|a| variable_type(decl, a)) {
            if types.iter().all(|o| o != t) {
                types.push(t.to_owned());
            }
        }
        let parameter = |n: &str| loaded.param(root, n).is_some();
        let integers: BTreeSet<String> =
            of(ArgumentKind::Int).filter(open).map(|a| a.name.node.clone()).collect();
        let mut all: Vec<String> =
            sizes(&decl.args).into_iter().filter(|n| !parameter(n)).map(str::to_owned).collect();
        all.extend(integers.iter().cloned());
        let given = options.defines.iter().filter(|d| all.contains(&d.0));
        let given = given.filter_map(|(n, v)| Some((n.clone(), v.parse().ok()?))).collect();
        let asked = names(of(ArgumentKind::Axis).collect());
        let (mesh, own) = axes_of(loaded, (root, options), decl, &asked);
        let axes = asked.iter().enumerate().map(|(i, n)| (n.clone(), own[i % own.len()].clone())).collect();
        Variables {
            types,
            any: decl.args.iter().any(|a| a.ty.any),
            sizes: all,
            integers,
            numbers: names(of(ArgumentKind::Number).filter(open).collect()),
            flags: names(of(ArgumentKind::Bool).collect()),
            axes,
            optional: of(ArgumentKind::Tensor).any(super::bind::has_number),
            mesh,
            given,
        }
    }

    /// Returns every combination of flags, each with and without the optional arguments. If there
    /// are more than three flags, at most one of them is set at a time.
    fn modes(&self) -> Vec<Mode> {
        let n = self.flags.len();
        let flags: Vec<Vec<bool>> = if n <= 3 {
            (0..1usize << n).map(|m| (0..n).map(|i| m >> i & 1 == 1).collect()).collect()
        } else {
            (0..=n).map(|on| (0..n).map(|i| i + 1 == on).collect()).collect()
        };
        let full: &[bool] = if self.optional { &[true, false] } else { &[true] };
        flags.iter().flat_map(|f| full.iter().map(|full| Mode { flags: f.clone(), full: *full })).collect()
    }

    /// Returns a phrase for the mode, for messages.
    fn words(&self, mode: &Mode) -> String {
        let mut list: Vec<String> =
            self.flags.iter().zip(&mode.flags).map(|(n, v)| format!("{n} = {v}")).collect();
        if self.optional && !mode.full {
            list.push("without the optional arguments".into());
        }
        if list.is_empty() { String::new() } else { format!(", with {}", list.join(", ")) }
    }

    /// Returns the values to try, and whether they include every combination of the small sizes.
    fn grid(&self) -> (Vec<Values>, bool) {
        let free: Vec<usize> =
            (0..self.sizes.len()).filter(|i| !self.given.contains_key(&self.sizes[*i])).collect();
        let n = free.len();
        let mut lists: Vec<Vec<i64>> = vec![];
        let mut add = |list: Vec<i64>| {
            if !lists.contains(&list) {
                lists.push(list);
            }
        };
        // Different sizes come first, because a program that accepts them does not do so by chance.
        // Integers get the smaller values, because they are often divisors.
        let different = |from: i64| {
            let mut next = (from..).step_by(2);
            let mut small = (2..).step_by(1);
            free.iter()
                .map(|i| {
                    let integer = self.integers.contains(&self.sizes[*i]);
                    if integer { small.next() } else { next.next() }.unwrap_or(4)
                })
                .collect::<Vec<i64>>()
        };
        add(different(4));
        add(different(8));
        add(vec![4; n]);
        add(vec![2; n]);
        let all = SIZES.len().checked_pow(n as u32).filter(|all| *all <= MAX_COMBINATIONS);
        let count = all.unwrap_or(MAX_COMBINATIONS);
        for number in 0..count {
            // All combinations in order, or a sample of them.
            let mut rest =
                if all.is_some() { number } else { number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7 };
            let list = (0..n)
                .map(|_| {
                    let v = SIZES[rest % SIZES.len()];
                    rest /= SIZES.len();
                    v
                })
                .collect();
            add(list);
        }
        let with_given = |list: &Vec<i64>| {
            let mut list = list.iter();
            let value = |n: &String| match self.given.get(n) {
                Some(v) => *v,
                None => list.next().copied().unwrap_or(4),
            };
            self.sizes.iter().map(value).collect::<Vec<i64>>()
        };
        let t = self.types.len();
        let mut types = vec![vec![DType::F32; t]];
        for i in 0..t {
            let mut one = vec![DType::F32; t];
            one[i] = DType::I32;
            types.push(one);
        }
        if t > 0 {
            types.push(vec![DType::F16; t]);
        }
        let any: &[&[u64]] = if self.any { &[&[3], &[], &[2, 3]] } else { &[&[]] };
        let mut out = vec![];
        for types in &types {
            for any in any {
                for list in &lists {
                    out.push(Values { types: types.clone(), any: any.to_vec(), sizes: with_given(list) });
                }
            }
        }
        let whole = all.is_some();
        (out, whole)
    }
}

/// Returns the axes of the mesh if the file declares none, and the axes that axis arguments take in
/// turn.
fn axes_of(
    loaded: &Loaded,
    (root, options): (FileId, &LowerOptions),
    decl: &ProgramDecl,
    asked: &[String],
) -> (Option<Vec<String>>, Vec<String>) {
    if let Ok(MachineChoice { mesh: Some(m), .. }) = machine_choice(loaded, root, options) {
        return (None, m.axes.iter().map(|a| a.name.node.clone()).collect());
    }
    let mut names: Vec<String> = vec![];
    let mut see = |n: &Ident| {
        if !asked.contains(&n.node) && !names.contains(&n.node) {
            names.push(n.node.clone());
        }
    };
    let args = decl.args.iter().map(|a| &a.ty).chain(&decl.results);
    for ty in args.chain(decl.body.lets().into_iter().filter_map(|l| l.ty.as_ref())) {
        named_axes(ty, &mut see);
    }
    each_call_of(&decl.body, &mut |call| {
        for n in call.named.iter().filter(|n| n.name.node == "over") {
            if let OptionValue::Expr(Expr { kind: ExprKind::Name(axis), span }) = &n.value {
                see(&Ident::new(axis.clone(), *span));
            }
        }
    });
    let written = names.len();
    match asked.len() {
        0 | 1 if written == 0 => names.push("tp".into()),
        _ => names.extend(asked.iter().cloned()),
    }
    let own = if asked.is_empty() { names.clone() } else { names[written.min(names.len() - 1)..].to_vec() };
    (Some(names), own)
}

fn named_axes(ty: &Type, see: &mut impl FnMut(&Ident)) {
    let cut = |d: &Dim| d.cut.as_ref().map_or(vec![], |c| c.axes.clone());
    ty.dims.iter().flat_map(cut).for_each(|n| see(&n));
    for place in &ty.places {
        match &place.kind {
            TypePlaceKind::Partial { axes, .. } => axes.iter().for_each(&mut *see),
            TypePlaceKind::Only { axis, .. } => see(axis),
        }
    }
}

/// Visits every call in an expression, the outer ones first.
fn each_call(t: &Tensor, see: &mut impl FnMut(&Call)) {
    if let TensorKind::Call(call) = &t.kind {
        see(call);
    }
    t.parts().into_iter().for_each(|t| each_call(t, see));
}

/// Visits every call in the body of a program.
pub(super) fn each_call_of(body: &crate::ast::Body, see: &mut impl FnMut(&Call)) {
    body.tensors().into_iter().for_each(|t| each_call(t, see));
}

/// Returns the tile kernels of a file that none of its programs calls.
pub fn uncalled_kernels(loaded: &Loaded, root: FileId) -> Vec<String> {
    let items = loaded.file(root).map_or(&[][..], |f| &f.tree().items);
    let mut called = BTreeSet::new();
    let mut see = |c: &Call| {
        called.insert(c.name.node.clone());
    };
    for item in items {
        match item {
            Item::Program(p) => each_call_of(&p.body, &mut see),
            Item::Local(l) => l.parts.iter().for_each(|p| each_call_of(&p.body, &mut see)),
            _ => {}
        }
    }
    let kernel = |i: &Item| match i {
        Item::TileKernel(k) => Some(k.name.node.clone()),
        _ => None,
    };
    items.iter().filter_map(kernel).filter(|k| !called.contains(k)).collect()
}

/// A call that is tried.
struct Instance<'a> {
    variables: &'a Variables,
    mode: &'a Mode,
    values: &'a Values,
}

impl Instance<'_> {
    /// Returns a description of the call: `T = f32, D = 4, .. = [3]`.
    fn shown(&self) -> String {
        let (v, values) = (self.variables, self.values);
        let mut out: Vec<String> =
            v.types.iter().zip(&values.types).map(|(n, t)| format!("{n} = {t}")).collect();
        if v.any {
            let dims: Vec<String> = values.any.iter().map(u64::to_string).collect();
            out.push(format!(".. = [{}]", dims.join(", ")));
        }
        out.extend(v.sizes.iter().zip(&values.sizes).map(|(n, s)| format!("{n} = {s}")));
        out.extend(v.numbers.iter().map(|n| format!("{n} = 0.5")));
        out.extend(v.flags.iter().zip(&self.mode.flags).map(|(n, f)| format!("{n} = {f}")));
        out.extend(v.axes.iter().map(|(n, a)| format!("{n} = {a}")));
        if v.optional && !self.mode.full {
            out.push("without the optional arguments".into());
        }
        out.join(", ")
    }

    fn lower(
        &self,
        loaded: &Loaded,
        options: &LowerOptions,
        decl: &ProgramDecl,
    ) -> Result<Lowered, Diagnostics> {
        let root = loaded.root.unwrap_or_default();
        let mut options = options.clone();
        // The other definitions are sizes of this program, or of another program of the file.
        options.defines.retain(|d| loaded.param(root, &d.0).is_some());
        let mut params = Params::new(loaded, root, &options.defines, vec![])?;
        if let (Some(axes), None, None) = (&self.variables.mesh, &options.topology, &options.machine)
            && loaded.nearest_topologies(root).is_empty()
        {
            let ranks = RANKS.saturating_pow(axes.len() as u32);
            options.topology = Some((format!("full({ranks})"), root));
        }
        let machine = machine::topology(loaded, root, &options, &mut params)?;
        let devices = machine.topology.device_count() as u64;
        let mesh = match &self.variables.mesh {
            Some(axes) if RANKS.saturating_pow(axes.len() as u32) == devices => {
                let axis = |n: &String| Axis { name: n.into(), size: RANKS, parts: vec![] };
                Mesh { axes: axes.iter().map(axis).collect() }
            }
            _ => machine.mesh(&params)?,
        };
        let library = params.library()?;
        let kernels = Kernels::new(loaded, &params);
        let cx = Cx::new(loaded, &library, &params, &kernels, &mesh);
        let graph = self.graph(&cx, loaded, decl)?;
        let machine::Machine { topology, placements, .. } = machine;
        let module = Module {
            name: Name::from(&decl.name.node),
            machine: Some(topology.to_string()),
            mesh: mesh.clone(),
            body: Body::Graph(graph),
            props: Props::NONE,
            attributes: Default::default(),
        };
        Ok(Lowered {
            module,
            library,
            topology,
            perturb: None,
            placements,
            chosen: vec![],
            params: vec![],
            warnings: Diagnostics::new(),
        })
    }

    /// Returns the meaning of the variables.
    fn locals(&self, decl: &ProgramDecl) -> Locals {
        let (v, values, at) = (self.variables, self.values, decl.name.span);
        let mut out = Locals::default();
        v.types.iter().zip(&values.types).for_each(|(n, t)| out.set(n, Local::Type(*t), at));
        v.sizes
            .iter()
            .zip(&values.sizes)
            .for_each(|(n, s)| out.set(n, Local::Number(ParamValue::Int(*s)), at));
        v.axes.iter().for_each(|(n, a)| out.set(n, Local::Axis(Name::from(a)), at));
        out
    }

    /// Returns the graph of a program that calls this one. Its inputs have the types of the
    /// arguments, and its results are replicated.
    fn graph<'a>(&self, cx: &Cx<'a>, loaded: &'a Loaded, decl: &ProgramDecl) -> Result<Graph, Diagnostics> {
        // The lookup returns the same declaration with the lifetime of the loaded files.
        let root = loaded.root.unwrap_or_default();
        let Some(decl) = declared(loaded, root, &decl.name.node) else { return Ok(Graph::default()) };
        let mut l = Lowering::begin(cx);
        l.graph.name = Some(Name::from(&decl.name.node));
        l.cx.locals = self.locals(decl);
        let mut args = vec![];
        for arg in decl.args.iter().filter(|a| kind(a) == ArgumentKind::Tensor) {
            if super::bind::has_number(arg) && !self.mode.full {
                break;
            }
            let any = if arg.ty.any { &self.values.any[..] } else { &[] };
            let Some(ty) = l.cx.ty_behind(&arg.ty, any, &mut l.found) else { continue };
            let (name, at, span) = (Name::from(&arg.name.node), l.graph.inputs.len(), arg.name.span);
            l.graph.inputs.push(Input { name: name.clone(), ty, data: None, span });
            let op = GraphOp { kind: OpKind::Input(at), name, ty: None, want: None, span };
            let value = l.add(op, &[]);
            l.names.insert(arg.name.node.clone(), (Some(Value::Tensor(value)), span));
            args.push(Tensor { kind: TensorKind::Name(arg.name.node.clone()), span });
        }
        if l.found.has_errors() {
            return Err(l.found.finish());
        }
        l.cx.locals = Locals::default();
        let call =
            Call { name: Ident::new(decl.name.node.clone(), Span::NONE), args, named: self.named(decl) };
        let values = match l.call_program(decl, &call) {
            Some(Value::Tuple(all)) => all,
            Some(one) => vec![one],
            None => vec![],
        };
        if l.found.has_errors() {
            return Err(l.found.finish());
        }
        for (i, value) in values.into_iter().enumerate() {
            let span = decl.results.get(i).map_or(decl.head, |t| t.span);
            let Some((id, (dtype, sizes))) =
                l.tensor(value, span).and_then(|v| Some((v, l.shape_of(v, span)?)))
            else {
                continue;
            };
            l.graph.results.push(TensorType::replicated(dtype, &sizes));
            let name = Name::from(format!("out{i}"));
            l.graph.push(GraphOp { kind: OpKind::Output(i), name, ty: None, want: None, span }, &[id]);
        }
        if l.found.has_errors() {
            return Err(l.found.finish());
        }
        Ok(l.graph)
    }

    /// Returns the named arguments of the call.
    fn named(&self, decl: &ProgramDecl) -> Vec<Named> {
        let (v, span) = (self.variables, decl.name.span);
        let mut out = vec![];
        let mut add = |n: &str, kind: ExprKind| {
            let value = OptionValue::Expr(Expr { kind, span });
            out.push(Named { name: Ident::new(n.to_owned(), span), value, span });
        };
        for (n, s) in v.sizes.iter().zip(&self.values.sizes).filter(|s| v.integers.contains(s.0)) {
            add(n, ExprKind::Int(*s));
        }
        v.numbers.iter().for_each(|n| add(n, ExprKind::Float(0.5)));
        v.flags.iter().zip(&self.mode.flags).for_each(|(n, f)| add(n, ExprKind::Bool(*f)));
        v.axes.iter().for_each(|(n, a)| add(n, ExprKind::Name(a.clone())));
        out
    }
}
