//! Schedules for mutation: every algorithm on every shape on which it is legal, programs, and texts
//! of the IR.
//!
//! This module owns the shapes and sizes. A chunk has one element if the number of ranks is even,
//! and one or two if it is odd.

use kbc_compiler::algorithm_request::AlgorithmRequest;
use kbc_compiler::analyse;
use kbc_compiler::build::build;
use kbc_compiler::failure::Outcome;
use kbc_compiler::load::{everything, load_file, load_kir};
use kbc_compiler::options::Source;
use kbc_compiler::ordered::Ordered;
use kbc_compiler::watch::Unwatched;
use kbc_compiler::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_frontend::ast::Item;
use kbc_frontend::loaded::Loaded;
use kbc_frontend::lower::{self, LowerOptions, RequestedAlgorithm, lower};
use kbc_ir::Module;
use kbc_ir::host::with_host_region;
use kbc_ir::walk::{Access, Act, Cursor, Mem, Program, Step};
use kbc_passes::PassCx;
use kbc_passes::pipeline::Pipeline;
use kbc_rounds::ast::{Expr, Ident};
use kbc_rounds::group::is_legal;
use kbc_rounds::rounds::coordinates;
use kbc_rounds::{AlgId, Call};

/// A schedule and its origin.
pub struct Subject {
    /// Name of the algorithm or the program.
    pub algorithm: String,
    /// The same name with the machine.
    pub name: String,
    /// The schedule.
    pub module: Module,
}

/// A shape on which an algorithm is legal but does not become a schedule.
#[derive(serde::Serialize, Clone, Debug)]
pub struct LeftOut {
    /// The algorithm and its machine.
    pub schedule: String,
    /// Error code of the compiler.
    pub code: &'static str,
    /// Message of the compiler.
    pub why: String,
}

/// Schedules, and shapes without a schedule.
#[derive(Default)]
pub struct Subjects {
    /// Schedules to mutate.
    pub subjects: Vec<Subject>,
    /// Shapes without a schedule.
    pub left_out: Vec<LeftOut>,
}

/// Returns the machines for an algorithm with `axes` axes: the generator's text and the sizes of
/// its axes.
fn shapes(axes: usize, ranks: &[u64]) -> Vec<(String, Vec<i64>)> {
    if axes == 1 {
        return ranks.iter().map(|p| (format!("ring({p})"), vec![*p as i64])).collect();
    }
    let most = ranks.iter().copied().max().unwrap_or(0) as i64;
    let mut sizes: Vec<Vec<i64>> = vec![vec![]];
    for _ in 0..axes {
        let longer = |s: Vec<i64>| (2..=most).map(move |n| [s.clone(), vec![n]].concat());
        sizes = sizes.into_iter().flat_map(longer).filter(|s| s.iter().product::<i64>() <= most).collect();
    }
    sizes.retain(|s| ranks.contains(&(s.iter().product::<i64>() as u64)));
    let mut out = vec![];
    for s in sizes {
        let list: Vec<String> = s.iter().map(i64::to_string).collect();
        for kind in ["torus", "mesh"] {
            out.push((format!("{kind}({})", list.join(",")), s.clone()));
        }
    }
    out
}

/// Returns the schedules of some algorithms.
fn algorithms(
    workspace: &mut Workspace,
    loaded: &Loaded,
    (ids, args): (&[AlgId], &[(Ident, Expr)]),
    ranks: &[u64],
) -> Outcome<Subjects> {
    let mut loaded = loaded.clone();
    // The algorithms see the parameters of their files, whichever file is the root.
    let library = lower::library(&loaded, &[])?;
    let mut out = Subjects::default();
    for id in ids {
        let decl = loaded.library.algorithm(*id).clone();
        let algorithm = format!("{}.{}", decl.coll.node, decl.name.node);
        for (shape, sizes) in shapes(decl.axes.len(), ranks) {
            let p: i64 = sizes.iter().product();
            let root = if p % 2 == 1 { p - 1 } else { 0 };
            let rooted = decl.root.is_some();
            let call = Call {
                alg: *id,
                sizes: sizes.clone(),
                root: rooted.then(|| coordinates(&sizes, root)),
                args: vec![],
            };
            if !is_legal(&library, &call).unwrap_or(false) {
                continue;
            }
            let requested =
                RequestedAlgorithm { args: args.to_vec(), ..RequestedAlgorithm::named(algorithm.clone()) };
            let file = workspace.add_text("<topology>", &shape);
            loaded.root = Some(decl.name.span.file);
            let mut options = LowerOptions {
                algorithm: Some(requested),
                topology: Some((shape.clone(), file)),
                ..LowerOptions::default()
            };
            if rooted {
                options.defines.push(("root".into(), root.to_string()));
            }
            let name = format!("{algorithm} on {shape}");
            match small(&loaded, &options, p as u64) {
                Ok(module) => out.subjects.push(Subject { algorithm: algorithm.clone(), name, module }),
                // A false condition makes the shape illegal, not the algorithm wrong.
                Err(d) if d.list.iter().all(|d| d.code == "E024") => {}
                Err(d) => {
                    let code = d.list.first().map_or("", |d| d.code);
                    let why = d.list.first().map_or(String::new(), |d| d.title.clone());
                    out.left_out.push(LeftOut { schedule: name, code, why });
                }
            }
        }
    }
    Ok(out)
}

/// Element counts that every number of chunks up to 10 divides, and for the second, the product of
/// any two of these numbers.
const MANY: [u64; 2] = [5040, 6_350_400];

/// Returns the schedule with the fewest elements for which no chunk is empty.
///
/// # Errors
/// Returns the compiler's errors if no schedule exists on the shape with any of the sizes tried.
fn small(loaded: &Loaded, options: &LowerOptions, p: u64) -> Result<Module, Diagnostics> {
    let first = MANY.iter().map(|n| (*n, module(loaded, options, *n)));
    let mut last = None;
    for (many, made) in first {
        let made = match made {
            Ok(m) => m,
            Err(d) => {
                last = Some(d);
                continue;
            }
        };
        let n = fewest(&made, many).min(many);
        // For an odd number of ranks, prefer chunks of two lengths.
        let uneven = (p % 2 == 1).then_some(n + n / 2);
        let smaller = uneven.into_iter().chain([n, 2 * n]).find_map(|n| module(loaded, options, n).ok());
        return Ok(smaller.unwrap_or(made));
    }
    Err(last.unwrap_or_default())
}

fn module(loaded: &Loaded, options: &LowerOptions, n: u64) -> Result<Module, Diagnostics> {
    let mut options = options.clone();
    options.defines.push(("n".into(), n.to_string()));
    let lowered = lower(loaded, &options)?;
    let mut module = lowered.module;
    let cx = PassCx::new(&lowered.library, Some(&lowered.topology)).with_order(&Ordered, false);
    Pipeline::named("default")?.run(&mut module, &cx, &mut [])?;
    Ok(module)
}

/// Returns the number of elements to which `many` may shrink until a chunk has one element.
fn fewest(module: &Module, many: u64) -> u64 {
    let Some(s) = module.schedule() else { return many };
    let spelled = with_host_region(s);
    let Ok(program) = Program::compile(&spelled) else { return many };
    let mut most = 1;
    let mut look = |a: &Access, rank: u64| {
        if let (Mem::Buffer(b), true) = (a.mem, a.operand != u32::MAX && a.len > 0) {
            let all = program.elements(kbc_ir::schedule::BufferId(b), rank).unwrap_or(0);
            if all > 0 {
                // The chunk is one of `den` chunks of a line of `all` elements.
                most = most.max((many * a.den as u64).div_ceil(all));
            }
        }
    };
    for rank in 0..program.ranks() {
        for stream in 0..program.streams.len() as u32 {
            let mut cursor = Cursor::new(&program, rank, stream, 0);
            while let Ok(Some(step)) = cursor.next_step() {
                match step {
                    Step::Act(Act::Copy { dst, src } | Act::Reduce { dst, src, .. }, ..) => {
                        look(&dst, rank);
                        look(&src, rank);
                    }
                    Step::Act(Act::Put { src, .. }, ..) => look(&src, rank),
                    Step::Act(Act::Get { dst, .. } | Act::GetCombine { dst, .. }, ..) => look(&dst, rank),
                    _ => {}
                }
            }
        }
    }
    most.max(1)
}

/// Returns the schedules of the library's algorithms; with an algorithm (`ring`,
/// `all_reduce.ring(d: -1)`), of
/// those of its name, with its arguments.
///
/// # Errors
/// Returns the errors of the front end, and E413 for an argument with several values.
pub fn of_library(
    workspace: &mut Workspace,
    asked: Option<&AlgorithmRequest>,
    ranks: &[u64],
) -> Outcome<Subjects> {
    let loaded = everything(workspace, &[])?;
    let ids = named(&loaded, loaded.library.algorithms().collect(), asked);
    algorithms(workspace, &loaded, (&ids, &args(asked)?), ranks)
}

/// Returns the algorithms of that name, all without a name.
fn named(loaded: &Loaded, ids: Vec<AlgId>, asked: Option<&AlgorithmRequest>) -> Vec<AlgId> {
    let has = |id: &AlgId| {
        let decl = loaded.library.algorithm(*id);
        let full = format!("{}.{}", decl.coll.node, decl.name.node);
        asked.is_none_or(|a| a.name.node == decl.name.node || a.name.node == full)
    };
    ids.into_iter().filter(has).collect()
}

/// Returns the arguments of an algorithm.
fn args(asked: Option<&AlgorithmRequest>) -> Outcome<Vec<(Ident, Expr)>> {
    Ok(asked.map(AlgorithmRequest::single).transpose()?.map_or(vec![], |one| one.args))
}

fn one(file: &str, module: Module) -> Subjects {
    let subject = Subject { algorithm: file.to_owned(), name: file.to_owned(), module };
    Subjects { subjects: vec![subject], left_out: vec![] }
}

/// Returns the schedule of a `.kir` file or of the program of a `.kb` file; of a file without a
/// program, those of its algorithms.
///
/// # Errors
/// Returns the errors of reading and compiling, and E416 for a graph.
pub fn of_file(
    workspace: &mut Workspace,
    file: &str,
    asked: Option<&AlgorithmRequest>,
    ranks: &[u64],
) -> Outcome<Subjects> {
    if file.ends_with(".kir") {
        let (_, module) = load_kir(workspace, file)?;
        let Some(schedule) = module.schedule() else {
            return Err(Diagnostic::error("E416", format!("expected a schedule, and {file} is a graph"))
                .help("lower it with `kbc opt` first")
                .into());
        };
        // A schedule that is wrong has no mutants that would show anything.
        analyse::verify(workspace, schedule)?;
        return Ok(one(file, module));
    }
    let loaded = load_file(workspace, file)?;
    let root = loaded.root.unwrap_or_default();
    let program = |i: &Item| matches!(i, Item::Program(_) | Item::Local(_));
    if loaded.file(root).is_some_and(|f| f.tree().items.iter().any(program)) {
        let module = build(workspace, &Source::of(file), "default", &mut Unwatched)?.module;
        return Ok(one(file, module));
    }
    let ids = named(&loaded, loaded.library.algorithms_in(root), asked);
    algorithms(workspace, &loaded, (&ids, &args(asked)?), ranks)
}
