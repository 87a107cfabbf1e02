//! Lowering: from the syntax tree of a program to the graph level of the IR.
//!
//! This module defines the meaning of the names of the program half: parameters and `-D`,
//! topologies, `--topology` and meshes, types, kernels, operations, explicit collectives, and which
//! program is compiled. `infer` derives the consequences of shapes and placements, and `select`
//! chooses the algorithm of each collective.
//!
//! Besides the codes of names (E004 declared twice, E005 unknown, E006 arguments, E010 arithmetic,
//! E203 unknown axis, E44x machines), the codes are: E221 types, E222 and E227, E228 kernels, E223
//! meshes, E224 what to compile, E225 numbers of values, E226 a number instead of a tensor, E229 (a
//! warning) unused values, E230 to E233 called programs, E290 unsupported constructs, E420 to E422
//! `-D`.

mod arguments;
mod bind;
mod call;
mod choice;
mod collective;
mod constant;
mod contract_collectives;
mod counts;
mod fill;
mod grouped;
mod groups;
mod host;
mod inline;
mod instance;
mod kernel;
mod local;
mod locals;
mod loops;
mod machine;
mod params;
mod program;
mod shape;
mod standalone;
mod state;
mod tensor;
mod tiles;
mod types;
mod uses;
mod values;
mod variables;

pub use choice::{MachineChoice, machine_choice};
pub use inline::call_form;
pub use instance::{CallTrial, instances, is_generic, programs, uncalled_kernels, variables};
pub use values::ParamValue;

use crate::ast::{Arg, DataKind, Item, LocalDecl, ProgramDecl};
use crate::loaded::{Callable, Loaded};
use crate::machine::MachineFile;
use bind::ArgumentKind;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_ir::types::Mesh;
use kbc_ir::{Body, Module, Props};
use kbc_machine::policy::Placements;
use kbc_machine::topology::perturb::Perturb;
use kbc_machine::topology::{Described, Topology};
use kbc_rounds::ast::{Expr, ExprKind, Ident};
use kbc_rounds::eval::{Fault, unknown};
use kbc_rounds::{AlgId, CollId, Layer, Library};
use kernel::Kernels;
use locals::Locals;
use params::Params;
use std::collections::BTreeSet;

/// The options of the command line for a program.
#[derive(Clone, Debug, Default)]
pub struct LowerOptions {
    /// `-D NAME=VALUE`, in order. If a name occurs several times, the last one counts.
    pub defines: Vec<(String, String)>,
    /// `--program NAME`.
    pub program: Option<String>,
    /// `--algorithm NAME` (or `COLLECTIVE.NAME`) with arguments, which compiles the collective of
    /// this algorithm by itself.
    pub algorithm: Option<RequestedAlgorithm>,
    /// `--mesh NAME`.
    pub mesh: Option<String>,
    /// `--topology SHAPE`, or the name of a topology of the file, and the file into which its spans
    /// point.
    pub topology: Option<(String, FileId)>,
    /// `--topology FILE`.
    pub machine: Option<MachineFile>,
    /// `--set`: settings, rates of links and routes that override all others. It has no shape.
    pub set: Described,
    /// The shapes of the data of inputs, by name, for the inputs that [`unsized_inputs`] lists.
    pub shapes: Vec<(String, Vec<u64>)>,
}

/// An algorithm as the command line names it.
#[derive(Clone, Debug)]
pub struct RequestedAlgorithm {
    /// The name: `NAME` or `COLLECTIVE.NAME`.
    pub name: Ident,
    /// The arguments of the algorithm.
    pub args: Vec<(Ident, Expr)>,
    /// The options of the use.
    pub options: Vec<(Ident, Expr)>,
}

impl RequestedAlgorithm {
    /// Returns the algorithm with this name, without arguments and without a place in a text.
    pub fn named(name: impl Into<String>) -> RequestedAlgorithm {
        RequestedAlgorithm { name: Ident::new(name.into(), Span::NONE), args: vec![], options: vec![] }
    }
}

/// A program at graph level, and the machine on which it runs.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The graph, which has no types yet.
    pub module: Module,
    /// The functions, collectives and algorithms of all files, with the values of the parameters
    /// that they see.
    pub library: Library,
    /// The machine.
    pub topology: Topology,
    /// The perturbation of the machine, if its file has one.
    pub perturb: Option<Perturb>,
    /// The distribution of tensors over the cubes and PEs of a device, if the machine file has one.
    pub placements: Placements,
    /// Settings of the machine that its file marks as chosen, each as `name: value`.
    pub chosen: Vec<String>,
    /// The values of all parameters that the program sees, in the order of lookup.
    pub params: Vec<(String, ParamValue)>,
    /// The warnings and notes.
    pub warnings: Diagnostics,
}

/// The context of lowering.
#[derive(Clone)]
struct Cx<'a> {
    loaded: &'a Loaded,
    /// The declarations, with the values of the parameters.
    library: &'a Library,
    params: &'a Params<'a>,
    kernels: &'a Kernels<'a>,
    mesh: &'a Mesh,
    /// The meaning of names of the program that is being lowered, except its tensors.
    locals: Locals,
    /// Whether that program is called by another one.
    called: bool,
}

impl<'a> Cx<'a> {
    /// Returns the context of the program that is compiled.
    fn new(
        loaded: &'a Loaded,
        library: &'a Library,
        params: &'a Params<'a>,
        kernels: &'a Kernels<'a>,
        mesh: &'a Mesh,
    ) -> Self {
        Cx { loaded, library, params, kernels, mesh, locals: Locals::default(), called: false }
    }
}

impl Cx<'_> {
    /// Evaluates an expression of integers and numbers.
    fn number(&self, e: &Expr) -> Result<ParamValue, Fault> {
        self.params.number_in(e, &self.locals)
    }

    /// Evaluates an expression that must be an integer.
    fn int(&self, e: &Expr) -> Result<i64, Fault> {
        self.params.int_in(e, &self.locals)
    }

    /// Evaluates a condition.
    fn truth(&self, e: &Expr) -> Result<bool, Fault> {
        self.params.truth_in(e, &self.locals)
    }
}

/// Returns the names of a program that `-D` may give: its unbound sizes, and its integer and number
/// arguments.
fn program_extras(args: &[Arg]) -> Vec<String> {
    let numbers = args.iter().filter(|a| matches!(bind::kind(a), ArgumentKind::Int | ArgumentKind::Number));
    let sizes = bind::sizes(args).into_iter().map(str::to_owned);
    sizes.chain(numbers.map(|a| a.name.node.clone())).collect()
}

/// An input of the compiled program whose type has sizes without a value.
#[derive(Clone, PartialEq, Debug)]
pub struct Unsized {
    /// The name.
    pub name: String,
    /// The data in the source, if it is a file: the path, the key and the source range.
    pub file: Option<(String, Option<String>, Span)>,
}

/// Returns whether a file has programs and all of them have types that only a call makes complete.
/// Such a file has nothing to compile.
pub fn only_called(loaded: &Loaded, root: FileId) -> bool {
    let Some(file) = loaded.file(root) else { return false };
    let mut programs = file.tree().items.iter().filter_map(|i| match i {
        Item::Program(p) => Some(p),
        _ => None,
    });
    programs.next().is_some_and(instance::generic) && programs.all(instance::generic)
}

/// Returns the inputs whose data determines sizes of the program. [`LowerOptions::shapes`] takes
/// their shapes.
pub fn unsized_inputs(loaded: &Loaded, options: &LowerOptions) -> Vec<Unsized> {
    let Some(root) = loaded.root else { return vec![] };
    let Ok(Target::Program(program)) = target(loaded, root, options) else { return vec![] };
    let open = |n: &&str| options.defines.iter().all(|d| d.0 != **n) && loaded.param(root, n).is_none();
    let free: Vec<&str> = bind::sizes(&program.args).into_iter().filter(open).collect();
    let names = |a: &&Arg| {
        a.ty.dims.iter().any(|d| matches!(&d.size.kind, ExprKind::Name(n) if free.contains(&n.as_str())))
    };
    let file = |a: &Arg| match a.data.as_ref().map(|d| (&d.kind, d.span)) {
        Some((DataKind::File(path, key), span)) => {
            Some((path.node.clone(), key.as_ref().map(|k| k.node.clone()), span))
        }
        _ => None,
    };
    program.args.iter().filter(names).map(|a| Unsized { name: a.name.node.clone(), file: file(a) }).collect()
}

/// The declaration that is compiled.
enum Target<'a> {
    Program(&'a ProgramDecl),
    Local(&'a LocalDecl),
    Algorithm(AlgId),
}

/// What the options select, with the parameters and the machine that it has.
struct Selected<'a> {
    target: Target<'a>,
    params: Params<'a>,
    machine: machine::Machine<'a>,
    mesh: Mesh,
}

fn selected<'a>(loaded: &'a Loaded, options: &LowerOptions) -> Result<Selected<'a>, Diagnostics> {
    let root = loaded
        .root
        .ok_or_else(|| Diagnostic::error("E224", "there is no file to compile").help("name a `.kb` file"))?;
    let target = target(loaded, root, options)?;
    let extras = match target {
        Target::Program(p) => program_extras(&p.args).into_iter().map(|n| (n, None)).collect(),
        Target::Local(l) => {
            let names: BTreeSet<String> = l.parts.iter().flat_map(|p| program_extras(&p.args)).collect();
            names.into_iter().map(|n| (n, None)).collect()
        }
        Target::Algorithm(id) => standalone::extras(loaded, id),
    };
    let mut params = Params::new(loaded, root, &options.defines, extras)?;
    let machine = machine::topology(loaded, root, options, &mut params)?;
    let mesh = match target {
        Target::Program(_) | Target::Local(_) => machine.mesh(&params)?,
        Target::Algorithm(_) => machine.joined(&params)?,
    };
    Ok(Selected { target, params, machine, mesh })
}

/// Returns the number of ranks of the program that the options select. The program itself is not
/// lowered, which takes long for many ranks: lists of lengths have a number for each pair of them.
///
/// # Errors
/// Returns the errors of the parameters and of the machine.
pub fn ranks(loaded: &Loaded, options: &LowerOptions) -> Result<u64, Diagnostics> {
    Ok(selected(loaded, options)?.mesh.ranks())
}

/// Lowers the program that the options select to a graph.
///
/// # Errors
/// Returns all errors of the program, sorted by place.
pub fn lower(loaded: &Loaded, options: &LowerOptions) -> Result<Lowered, Diagnostics> {
    let Selected { target, params, machine, mesh } = selected(loaded, options)?;
    let library = params.library()?;
    let kernels = Kernels::new(loaded, &params);
    let cx = Cx::new(loaded, &library, &params, &kernels, &mesh);
    let (name, body, warnings, bound) = match target {
        Target::Program(p) => {
            let program::LoweredProgram { graph, warnings, bound } = program::lower(&cx, p, &options.shapes)?;
            (graph.name.clone(), Body::Graph(graph), warnings, bound)
        }
        Target::Local(l) => {
            let (local, warnings, bound) = local::lower(&cx, l)?;
            (local.name.clone(), Body::Local(local), warnings, bound)
        }
        Target::Algorithm(id) => {
            let graph = standalone::lower(&cx, id, options.algorithm.as_ref())?;
            (graph.name.clone(), Body::Graph(graph), Diagnostics::new(), vec![])
        }
    };
    let mut params = params.all()?;
    for (name, value) in bound {
        if params.iter().all(|p| p.0 != name) {
            params.push((name, value));
        }
    }
    let module = Module {
        name: name.unwrap_or_else(|| "program".into()),
        machine: Some(machine.topology.to_string()),
        mesh,
        body,
        props: Props::NONE,
        attributes: Default::default(),
    };
    let machine::Machine { topology, perturb, placements, chosen, .. } = machine;
    let chosen = chosen.holding(topology.settings());
    Ok(Lowered { module, library, topology, perturb, placements, chosen, params, warnings })
}

/// Returns the functions, collectives and algorithms of all files, with the values of the
/// parameters that they see. `defines` are those of `-D` for the parameters of the root file.
///
/// # Errors
/// Returns E420 and E421 for wrong values, and the errors of the parameters' expressions.
pub fn library(loaded: &Loaded, defines: &[(String, String)]) -> Result<Library, Diagnostics> {
    let Some(root) = loaded.root else {
        let Some((name, value)) = defines.first() else { return Ok(loaded.library.clone()) };
        let title = format!("-D {name}={value}: there is no file with a parameter `{name}`");
        return Err(Diagnostic::error("E420", title).help("name the file that declares it").into());
    };
    Ok(Params::new(loaded, root, defines, vec![])?.library()?)
}

/// Checks the parts of user files that need no compiled program: parameters and kernels.
pub(crate) fn check(loaded: &Loaded, found: &mut Diagnostics) {
    for file in loaded.files.iter().filter(|f| f.layer == Layer::User) {
        let params = match Params::new(loaded, file.id, &[], vec![]) {
            Ok(p) => p,
            Err(d) => {
                found.extend(d);
                continue;
            }
        };
        let kernels = Kernels::new(loaded, &params);
        variables::check(loaded, file, found);
        uses::check(loaded, file, found);
        for item in &file.tree().items {
            match item {
                Item::Param(p) => {
                    if let Err(d) = params.of(p) {
                        found.push(*d);
                    }
                }
                Item::Kernel(k) => {
                    kernels.get(k, found);
                }
                _ => {}
            }
        }
    }
}

/// Returns whether a name is an operation or a function of the language.
pub(crate) fn is_built_in(name: &str) -> bool {
    call::OPERATIONS.contains(&name)
        || kernel::is_function(name)
        || kbc_ir::types::DType::parse(name).is_some()
}

/// Returns what a program can call without declaring it: operations, collectives and scalar
/// functions, sorted. Casts are not included, because they are called by the names of element
/// types.
pub fn operations() -> Vec<&'static str> {
    let mut out: Vec<&str> = call::OPERATIONS.to_vec();
    out.extend(kbc_ir::scalar::ScalarUn::ALL.iter().map(|f| f.name()));
    out.extend(kernel::FUNCTIONS);
    out.sort_unstable();
    out.dedup();
    out
}

/// Returns an error for a construct that kbc does not support yet.
fn later(span: kbc_diag::Span, what: &str, help: &str) -> Diagnostic {
    Diagnostic::error("E290", format!("{what} not supported yet")).primary(span, "here").help(help)
}

/// Returns the program or algorithm to compile.
fn target<'a>(loaded: &'a Loaded, root: FileId, options: &LowerOptions) -> Result<Target<'a>, Diagnostics> {
    if options.program.is_some() && options.algorithm.is_some() {
        return Err(Diagnostic::error("E224", "both --program and --algorithm are given")
            .help("remove one of them")
            .into());
    }
    if let Some(name) = &options.algorithm {
        return algorithm(loaded, root, Some(name)).map(Target::Algorithm);
    }
    let own: Vec<&Item> = loaded.file(root).map_or(vec![], |f| f.tree().items.iter().collect());
    let item = match &options.program {
        Some(name) if name.contains('.') => {
            let asked = Ident::new(name.clone(), Span::new(root, 0, 0));
            return match loaded.callable(root, name) {
                Some(Callable::Program(p)) => Ok(Target::Program(p)),
                Some(Callable::Local(l)) => Ok(Target::Local(l)),
                Some(Callable::Kernel(_) | Callable::Tile(_)) => {
                    let d =
                        Diagnostic::error("E005", format!("`{name}` is a kernel, and a program is expected"));
                    Err(d.into())
                }
                None => {
                    let d = loaded.unknown_in_space("program", &asked);
                    let mut list: Vec<Diagnostic> = d.into_iter().collect();
                    list.iter_mut().for_each(|d| d.labels.clear());
                    Err(Diagnostics { list })
                }
            };
        }
        Some(name) => {
            let own = loaded.order(root).into_iter().filter(|f| f.layer == Layer::User);
            let all = own.flat_map(|f| &f.tree().items);
            let programs: Vec<&Item> =
                all.filter(|i| matches!(i, Item::Program(_) | Item::Local(_))).collect();
            let named = |i: &&&Item| i.name().is_some_and(|n| n.node == *name);
            let Some(item) = programs.iter().find(named) else {
                let valid: Vec<String> =
                    programs.iter().filter_map(|i| Some(i.name()?.node.clone())).collect();
                let mut d = *unknown("E005", "program", name, kbc_diag::Span::NONE, &valid);
                d.labels.clear();
                return Err(d.into());
            };
            Some(*item)
        }
        None => own.iter().rfind(|i| matches!(i, Item::Program(_) | Item::Local(_))).copied(),
    };
    match item {
        Some(Item::Program(p)) => Ok(Target::Program(p)),
        Some(Item::Local(l)) => Ok(Target::Local(l)),
        _ => algorithm(loaded, root, None).map(Target::Algorithm),
    }
}

/// Returns whether a collective is compiled by itself, because the file has no program or the user
/// asked for an algorithm.
pub fn compiles_algorithm(loaded: &Loaded, options: &LowerOptions) -> bool {
    let Some(root) = loaded.root else { return false };
    if options.program.is_some() {
        return false;
    }
    let program = |i: &Item| matches!(i, Item::Program(_) | Item::Local(_));
    options.algorithm.is_some() || !loaded.file(root).is_some_and(|f| f.tree().items.iter().any(program))
}

/// Returns the algorithms that `NAME` or `COLLECTIVE.NAME` stands for, each also with a namespace
/// before it: algorithms in `all`, or else algorithms that the file sees for one of the collectives
/// of those, or else, with a namespace, of any collective.
///
/// # Errors
/// Returns E005 for an unknown name.
pub fn named_algorithms(
    library: &Library,
    root: Option<FileId>,
    all: &[AlgId],
    name: &Ident,
) -> Result<Vec<AlgId>, Fault> {
    let short = |id: &AlgId| library.algorithm_name(*id).node.clone();
    let full = |id: &AlgId| {
        Some(format!(
            "{}.{}",
            library.collective_of(*id).map(|c| library.collective_name(c))?.node,
            short(id)
        ))
    };
    let named = |id: &&AlgId| short(id) == name.node || full(id).is_some_and(|f| f == name.node);
    let own: BTreeSet<CollId> = all.iter().filter_map(|id| library.collective_of(*id)).collect();
    let seen = own.iter().flat_map(|c| root.map_or(vec![], |root| library.algorithms_of(root, *c)));
    let others: Vec<AlgId> = seen.filter(|id| !all.contains(id)).collect();
    let mut hits: Vec<AlgId> = all.iter().filter(named).copied().collect();
    if hits.is_empty() {
        hits = others.iter().filter(named).copied().collect();
    }
    let from = root.unwrap_or(Span::NONE.file);
    if hits.is_empty() && name.node.contains('.') {
        hits = library.algorithms_named(from, &name.node);
        let of_own = |id: &AlgId| library.collective_of(*id).is_some_and(|c| own.contains(&c));
        if hits.iter().any(of_own) {
            hits.retain(of_own);
        }
    }
    if !hits.is_empty() {
        return Ok(hits);
    }
    let mut d = if name.node.contains('.') {
        library.no_algorithm("algorithm", from, (&name.node, name.span), &[])
    } else {
        let valid: Vec<String> = all.iter().chain(&others).map(short).collect();
        unknown("E005", "algorithm", &name.node, name.span, &valid)
    };
    if name.span.is_none() {
        d.labels.clear();
    }
    Err(d)
}

/// Finds the one algorithm that [`named_algorithms`] returns for the algorithms of a file.
///
/// # Errors
/// Returns E005 for an unknown name, and E224 for a name that several collectives have.
pub fn find_algorithm(loaded: &Loaded, root: FileId, name: &Ident) -> Result<AlgId, Diagnostics> {
    let library = &loaded.library;
    let hits = named_algorithms(library, Some(root), &library.algorithms_in(root), name)?;
    if let [one] = hits[..] {
        return Ok(one);
    }
    let space = name.node.rsplit_once('.').map(|n| n.0).filter(|s| library.space(root, s).is_some());
    let full = |a: &AlgId| {
        let a = library.algorithm(*a);
        let coll = a.coll.node.rsplit('.').next().unwrap_or_default();
        format!("{}{coll}.{}", space.map_or(String::new(), |s| format!("{s}.")), a.name.node)
    };
    let which: Vec<String> = hits.iter().map(full).collect();
    let d = Diagnostic::error("E224", format!("several collectives have an algorithm `{}`", name.node));
    let place = library.algorithm(hits[0]).name.span;
    let placed = match name.span.is_none() {
        true => d.primary(place, "one of them"),
        false => d.primary(name.span, "named here"),
    };
    Err(placed.help(format!("name one: --algorithm {}", which.join(" or "))).into())
}

/// Returns the algorithm of a file that has no program. If the file has several, the user must name
/// one.
fn algorithm(
    loaded: &Loaded,
    root: FileId,
    asked: Option<&RequestedAlgorithm>,
) -> Result<AlgId, Diagnostics> {
    if let Some(asked) = asked {
        return find_algorithm(loaded, root, &asked.name);
    }
    let library = &loaded.library;
    match library.algorithms_in(root)[..] {
        [one] => Ok(one),
        [] => Err(Diagnostic::error("E224", "the file has neither a program nor an algorithm")
            .primary(Span::new(root, 0, 0), "this file")
            .help("write `program NAME(x: f32[1000] partial(sum@tp)) -> f32[1000] { x }`")
            .into()),
        ref all => {
            let full = |id: &AlgId| {
                let a = library.algorithm(*id);
                format!("{}.{}", a.coll.node, a.name.node)
            };
            let names: Vec<String> = all.iter().map(full).collect();
            Err(Diagnostic::error("E224", "the file has no program and several algorithms")
                .primary(library.algorithm(all[0]).name.span, "the first of them")
                .note(format!("they are {}", names.join(", ")))
                .help("choose an algorithm with --algorithm NAME")
                .into())
        }
    }
}
