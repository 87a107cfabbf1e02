//! Build: from a file to a schedule, the part that `compile`, `check`, `run` and `explain` share.

use crate::ahead::{self, Ahead};
use crate::algorithm_request;
use crate::arguments::{effort, fixed_order, fuse, lower_options, on_ranks, using};
use crate::bounds::Subject;
use crate::data;
use crate::failure::Outcome;
use crate::keep::GraphRecorder;
use crate::load::load_parts;
use crate::options::Source;
use crate::ordered::{self, Ordered, all_fixed};
use crate::own_algorithms::{right_algorithms, uses};
use crate::pipeline;
use crate::rankings::Rankings;
use crate::report::OrderOfAdditions;
use crate::simulated::Simulated;
use crate::watch::Watch;
use crate::workspace::{Stage, Workspace};
use kbc_checker::Verdict;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_frontend::loaded::Loaded;
use kbc_frontend::lower::{LowerOptions, Lowered, compiles_algorithm, lower, unsized_inputs};
use kbc_ir::graph::{Graph, OpKind};
use kbc_ir::local::Local;
use kbc_ir::schedule::Schedule;
use kbc_ir::{Body, Module, Name, Props};
use kbc_machine::memory;
use kbc_machine::policy::Placements;
use kbc_machine::topology::Topology;
use kbc_machine::topology::perturb::Perturb;
use kbc_passes::findings::overlap::OverlapTable;
use kbc_passes::findings::select::SelectTable;
use kbc_passes::pipeline::Pipeline;
use kbc_passes::{PassCx, RankingStore};
use std::sync::Mutex;

/// A program in the pipeline.
pub struct Built {
    /// The module after the pipeline.
    pub module: Module,
    /// Verdict of the checker on its schedule, if it was requested.
    pub verdict: Option<Verdict>,
    /// The typed program before placement, which the reference evaluator runs.
    pub typed: Graph,
    /// The program with its changes of placement.
    pub placed: Graph,
    /// The same as it is lowered: in its issue order, with collectives in pieces.
    pub arranged: Graph,
    /// For a local program, the program itself with types and algorithms; `typed` then has its
    /// inputs and results.
    pub local: Option<Local>,
    /// Its schedule with collectives whole and one after another, where `overlap` made another of
    /// it: what its bound is of.
    pub plain: Option<Schedule>,
    /// The machine.
    pub topology: Topology,
    /// Its perturbations, from the machine file.
    pub perturb: Option<Perturb>,
    /// How the cubes and PEs of a device share its tensors, as its file says.
    pub placements: Placements,
    /// Settings of it that its file marks as chosen, each as `name: value`.
    pub chosen: Vec<String>,
    /// Parameters with their values.
    pub params: Vec<(String, String)>,
    /// What `select` considered.
    pub select: SelectTable,
    /// What `overlap` found.
    pub overlap: OverlapTable,
    /// The order of additions, if all collectives that combine had to have a fixed one.
    pub order: Option<OrderOfAdditions>,
    /// What it was made from, to make it again at other sizes.
    pub origin: Origin,
    /// Its expected results, if their evaluation has begun.
    pub(crate) ahead: Mutex<Option<Ahead>>,
}

impl Built {
    /// The parameters that are integers of at least 0, with their values.
    pub fn integers(&self) -> impl Iterator<Item = (&str, u64)> {
        self.params.iter().filter_map(|(n, v)| Some((n.as_str(), v.parse().ok()?)))
    }

    /// Its schedule, and the program from which it was made.
    pub fn subject<'a>(&'a self, schedule: &'a Schedule) -> Subject<'a> {
        Subject { schedule, plain: self.plain.as_ref().unwrap_or(schedule) }
    }

    /// The value of an integer parameter.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.integers().find(|(n, _)| *n == name).map(|(_, v)| v)
    }
}

/// The text of a program and the options of the command line.
pub struct Origin {
    /// The files.
    pub loaded: Loaded,
    /// Parameters, program and topology.
    pub options: LowerOptions,
    /// The passes that it went through.
    pub passes: String,
    /// Whether every element must be added in one order.
    pub fixed_order: bool,
    /// How long packed trees are searched.
    pub effort: Option<u64>,
    /// The largest sum of bytes per rank up to which collectives become one (`--fuse`).
    pub fuse: Option<u64>,
}

/// Loads, lowers and runs the pipeline.
///
/// # Errors
/// Of reading, of the program, of an algorithm of the program that does not keep its contract, or
/// of a pass.
pub fn build(
    workspace: &mut Workspace,
    source: &Source,
    passes: &str,
    watch: &mut dyn Watch,
) -> Outcome<Built> {
    let (built, wrong) = assemble(workspace, source, passes, watch)?;
    if wrong.has_errors() { Err(wrong.into()) } else { Ok(built) }
}

/// Builds like [`build`], and also returns the errors of algorithms that break their contract. Such
/// a program can be executed, to see whose numbers are wrong.
///
/// # Errors
/// Returns the errors of reading, of the program and of passes.
pub fn assemble(
    workspace: &mut Workspace,
    source: &Source,
    passes: &str,
    watch: &mut dyn Watch,
) -> Outcome<(Built, Diagnostics)> {
    if source.file.ends_with(".kir") {
        return Err(Diagnostic::error("E416", format!("{} is a .kir file, not a program", source.file))
            .help("use kbc check, kbc run or kbc opt for .kir files")
            .into());
    }
    if source.file.ends_with(".tile") {
        return Err(Diagnostic::error("E416", format!("{} is a .tile file, not a program", source.file))
            .help("use kbc check or kbc opt for .tile files")
            .into());
    }
    workspace.progress("reading");
    let (loaded, mut found) = load_parts(workspace, &source.file)?;
    let mut options = lower_options(workspace, &source.of)?;
    options.program.clone_from(&source.of.program);
    if source.of.algorithm.is_some() || compiles_algorithm(&loaded, &options) {
        options.algorithm =
            algorithm_request::algorithm(workspace, &source.of)?.map(|a| a.single()).transpose()?;
    }
    let alone = compiles_algorithm(&loaded, &options);
    on_ranks(workspace, &source.of, &loaded, &mut options)?;
    if !found.has_errors() {
        options.shapes = data::shapes(workspace, &unsized_inputs(&loaded, &options))?;
    }
    workspace.stage(Stage::Lower);
    let lowered = match lower(&loaded, &options) {
        Ok(lowered) if !found.has_errors() => lowered,
        Ok(_) => return Err(found.into()),
        Err(d) => {
            // What loading has reported is not reported again.
            let told =
                |d: &Diagnostic| found.list.iter().any(|f| f.span() == d.span() && !d.span().is_none());
            let more: Vec<Diagnostic> = d.list.into_iter().filter(|d| !told(d)).collect();
            found.list.extend(more);
            return Err(found.into());
        }
    };
    workspace.report(&lowered.warnings);
    let lowered = Lowered { topology: workspace.machine(lowered.topology), ..lowered };
    let mut module = lowered.module;
    let time = Simulated { topology: &lowered.topology };
    // A collective by itself has been given its algorithm.
    let using = if alone { vec![] } else { using(workspace, &source.of.using)? };
    let names: Vec<(Name, Span)> = using.iter().map(|u| (u.alg.clone(), u.span)).collect();
    let fixed_order = fixed_order(&source.of)?;
    let effort = effort(&source.of)?;
    let fuse = fuse(&source.of)?;
    let environment = workspace.environment.clone();
    let rankings = environment.cache().map(Rankings::new);
    let cx = PassCx::new(&lowered.library, Some(&lowered.topology))
        .with_time(&time)
        .with_order(&Ordered, fixed_order)
        .with_rankings(rankings.as_ref().map(|r| r as &dyn RankingStore))
        .with_effort(effort)
        .with_fuse(fuse)
        .with_using(using);
    let mut keep = GraphRecorder::default();
    workspace.progress("compiling");
    let passes = pipeline_of_machine(passes, &lowered.topology);
    let ahead = ahead::begin(workspace, &module, passes, &cx);
    pipeline::run(workspace, &mut module, passes, &cx, watch, Some(&mut keep))?;
    if let Some(damaged) = rankings.as_ref().and_then(Rankings::damaged) {
        workspace.report(&damaged.into());
    }
    if let Some(schedule) = module.schedule() {
        memory::lay_out(schedule, &lowered.topology, &lowered.placements)?;
    }
    let (select, overlap) = {
        let found = cx.findings.borrow();
        (found.select.clone(), found.overlap.clone())
    };
    check_all_used(&loaded, &select, &names)?;
    let placed = keep.placed.unwrap_or_default();
    let order = match module.schedule() {
        Some(schedule) if fixed_order || all_fixed(&placed, keep.local.as_ref()) => {
            Some(OrderOfAdditions::from(&ordered::require_fixed(schedule)?))
        }
        _ => None,
    };
    let plain = match overlap.changed() && module.schedule().is_some() {
        true => Some(plain(&module, &placed, keep.local.as_ref(), &cx)?),
        false => None,
    };
    let arranged = keep.arranged.unwrap_or_else(|| placed.clone());
    let typed = match &keep.local {
        Some(l) => l.interface(&module.mesh),
        None => keep.typed.unwrap_or_default(),
    };
    let builtin = |id: FileId| loaded.file(id).is_none_or(|f| f.layer == kbc_rounds::Layer::Library);
    let (verdict, wrong) = match right_algorithms(
        workspace,
        &lowered.library,
        &builtin,
        &uses(&placed, keep.local.as_ref()),
        &module,
    ) {
        Ok(verdict) => (verdict, Diagnostics::new()),
        Err(wrong) => (None, wrong),
    };
    let built = Built {
        module,
        verdict,
        origin: Origin { loaded, options, passes: passes.to_owned(), fixed_order, effort, fuse },
        typed,
        placed,
        arranged,
        local: keep.local,
        plain,
        topology: lowered.topology,
        perturb: lowered.perturb,
        placements: lowered.placements,
        chosen: lowered.chosen,
        params: lowered.params.iter().map(|(n, v)| (n.clone(), v.to_string())).collect(),
        select,
        overlap,
        order,
        ahead: Mutex::new(ahead),
    };
    Ok((built, wrong))
}

/// Removes the requested numbers of pieces of collectives.
pub fn without_pieces(graph: &mut Graph) {
    for id in graph.order().to_vec() {
        if let OpKind::Collective(c) = &mut graph.op_mut(id).kind
            && let Some(using) = &mut c.using
        {
            using.options.retain(|(name, _)| *name != *"overlap");
        }
    }
}

/// The schedule of a program as it was before `overlap`.
fn plain(
    module: &Module,
    placed: &Graph,
    local: Option<&Local>,
    cx: &PassCx<'_>,
) -> Result<Schedule, Diagnostics> {
    let body = match local {
        Some(l) => {
            let mut l = l.clone();
            l.parts.iter_mut().for_each(|p| without_pieces(&mut p.graph));
            Body::Local(l)
        }
        None => {
            let mut graph = placed.clone();
            without_pieces(&mut graph);
            Body::Graph(graph)
        }
    };
    let props = Props::TYPED.with(Props::PLACED).with(Props::SELECTED);
    let mut whole = Module {
        name: module.name.clone(),
        machine: module.machine.clone(),
        mesh: module.mesh.clone(),
        body,
        props,
        attributes: Default::default(),
    };
    Pipeline::parse("expand", Span::NONE.file)?.run(&mut whole, cx, &mut [])?;
    match whole.body {
        Body::Schedule(schedule) => Ok(schedule),
        Body::Graph(_) | Body::Local(_) => {
            Err(Diagnostic::error("E991", "the pipeline made no schedule").into())
        }
    }
}

/// Returns the default pipeline of a machine, which uses queues if the machine has them.
pub fn pipeline_of_machine<'p>(passes: &'p str, topology: &Topology) -> &'p str {
    if passes == "default" && topology.settings().queues().is_some() { "queues" } else { passes }
}

/// Checks that every algorithm requested beside the program belongs to one of its collectives.
///
/// # Errors
/// Returns E587 otherwise, and E005 for a name that is not in its namespace.
fn check_all_used(loaded: &Loaded, select: &SelectTable, asked: &[(Name, Span)]) -> Result<(), Diagnostic> {
    let Some((name, span)) = asked.iter().find(|a| select.entries.iter().all(|e| e.chosen != a.0)) else {
        return Ok(());
    };
    let root = loaded.root.unwrap_or(Span::NONE.file);
    if name.as_str().contains('.') && loaded.library.algorithms_named(root, name).is_empty() {
        return Err(*loaded.library.no_algorithm("algorithm", root, (name, *span), &[]));
    }
    let all: Vec<String> =
        select.entries.iter().map(|e| format!("{} over {}: {}", e.kind, e.axis, e.chosen)).collect();
    let d = Diagnostic::error("E587", format!("no collective of the program has an algorithm `{name}`"))
        .primary(*span, "requested here")
        .help("`kbc list algorithms` lists the algorithms of each collective");
    Err(if all.is_empty() { d.note("the program has no collective") } else { d.note(all.join("; ")) })
}
