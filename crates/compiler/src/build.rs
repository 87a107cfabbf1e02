//! Build: from a source to a proven schedule, for `compile`, `check`, `run` and `explain`.

use crate::asked;
use crate::bounds::Subject;
use crate::data;
use crate::failure::{Failure, Outcome};
use crate::load::load_parts;
use crate::options::{Selection, Source};
use crate::pipeline;
use crate::simulated::Simulated;
use crate::watch::Watch;
use crate::workspace::{Stage, Workspace};
use kbc_checker::{CheckOptions, EVERY_RANK, Verdict, check};
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_frontend::ast::TopologySource;
use kbc_frontend::load::Loaded;
use kbc_frontend::lower::{LowerOptions, Lowered, compiles_algorithm, lower, unsized_inputs};
use kbc_frontend::machine::{self, MachineFile};
use kbc_ir::graph::{Collective, Graph, Op, OpKind, Using};
use kbc_ir::local::Local;
use kbc_ir::schedule::{Calls, Schedule};
use kbc_ir::{Body, Module, Name, Props, text};
use kbc_machine::memory::{self, Placements};
use kbc_machine::topology::perturb::Perturb;
use kbc_machine::topology::{OwnLink, Settings, Shape, Topology};
use kbc_passes::expand::joined_axis;
use kbc_passes::instrument::Instrument;
use kbc_passes::overlap::OverlapTable;
use kbc_passes::part_of::library_for;
use kbc_passes::pipeline::{Pipeline, Step};
use kbc_passes::select::SelectTable;
use kbc_passes::{Changed, PassCx};
use kbc_rounds::eval::{AlgRef, Value};
use kbc_rounds::{Call, Limits, Verifier};
use std::borrow::Cow;
use std::sync::Arc;

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
    /// What it was made from, to make it again at other sizes.
    pub origin: Origin,
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
}

/// Keeps the graph after the passes of the graph level.
#[derive(Default)]
struct Keep {
    typed: Option<Graph>,
    placed: Option<Graph>,
    arranged: Option<Graph>,
    local: Option<Local>,
}

impl Instrument for Keep {
    fn after(&mut self, step: Step<'_>, module: &Module, _: Changed) -> Result<(), Diagnostics> {
        if let Body::Graph(g) = &module.body {
            match step.info.name {
                "infer" => self.typed = Some(g.clone()),
                "select" => self.placed = Some(g.clone()),
                "overlap" => self.arranged = Some(g.clone()),
                _ => {}
            }
        }
        if let (Body::Local(l), "infer" | "select") = (&module.body, step.info.name) {
            self.local = Some(l.clone());
        }
        Ok(())
    }
}

/// Loads, lowers and runs the pipeline.
///
/// # Errors
/// Of reading, of the program, of an algorithm of the program that does not keep its promise, or of a pass.
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
    let (topology, machine) = topology(workspace, &source.of)?;
    let set = settings(workspace, &source.of.set)?;
    let defines = defines(&source.of.define)?;
    let mut options = LowerOptions {
        set,
        defines,
        program: source.of.program.clone(),
        algorithm: None,
        topology,
        machine,
        shapes: vec![],
    };
    if source.of.algorithm.is_some() || compiles_algorithm(&loaded, &options) {
        options.algorithm = asked::algorithm(workspace, &source.of)?.map(|a| a.single()).transpose()?;
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
            found.extend(d);
            return Err(found.into());
        }
    };
    workspace.tell(&lowered.warnings);
    let lowered = Lowered { topology: workspace.machine(lowered.topology), ..lowered };
    let mut module = lowered.module;
    let time = Simulated { topology: &lowered.topology };
    // A collective by itself has been given its algorithm.
    let using = if alone { vec![] } else { using(workspace, &source.of.using)? };
    let names: Vec<(Name, Span)> = using.iter().map(|u| (u.alg.clone(), u.span)).collect();
    let cx = PassCx::new(&loaded.library, Some(&lowered.topology)).with_time(&time).with_using(using);
    let mut keep = Keep::default();
    workspace.progress("compiling");
    let passes = of_machine(passes, &lowered.topology);
    pipeline::run(workspace, &mut module, passes, &cx, watch, &mut keep)?;
    if let Some(schedule) = module.schedule() {
        memory::lay_out(schedule, &lowered.topology, &lowered.placements)?;
    }
    let (select, overlap) = {
        let found = cx.findings.borrow();
        (found.select.clone(), found.overlap.clone())
    };
    taken(&select, &names)?;
    let placed = keep.placed.unwrap_or_default();
    let plain = match overlap.changed() && module.schedule().is_some() {
        true => Some(plain(&module, &placed, keep.local.as_ref(), &cx)?),
        false => None,
    };
    let arranged = keep.arranged.unwrap_or_else(|| placed.clone());
    let typed = match &keep.local {
        Some(l) => l.outside(&module.mesh),
        None => keep.typed.unwrap_or_default(),
    };
    let builtin = |id: FileId| loaded.file(id).is_none_or(|f| f.layer == kbc_rounds::Layer::Library);
    let (verdict, wrong) = match right_algorithms(
        workspace,
        &loaded.library,
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
        origin: Origin { loaded, options, passes: passes.to_owned() },
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
    };
    Ok((built, wrong))
}

/// Removes the requested numbers of pieces of collectives.
pub fn whole_collectives(graph: &mut Graph) {
    for id in graph.order().to_vec() {
        if let OpKind::Collective(c) = &mut graph.op_mut(id).kind
            && let Some(using) = &mut c.using
        {
            using.args.retain(|(name, _)| *name != *"overlap");
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
            l.parts.iter_mut().for_each(|p| whole_collectives(&mut p.graph));
            Body::Local(l)
        }
        None => {
            let mut graph = placed.clone();
            whole_collectives(&mut graph);
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
pub fn of_machine<'p>(passes: &'p str, topology: &Topology) -> &'p str {
    if passes == "default" && topology.settings().queues().is_some() { "queues" } else { passes }
}

/// `--ranks`: how many ranks the machine of an algorithm has, of the kind that its file names.
fn on_ranks(
    workspace: &mut Workspace,
    of: &Selection,
    loaded: &Loaded,
    options: &mut LowerOptions,
) -> Outcome {
    let Some(n) = asked::rank_count(of)? else { return Ok(()) };
    let usage = |d: Diagnostic| Err(Failure::Usage(d.into()));
    if !compiles_algorithm(loaded, options) {
        let title =
            format!("--ranks {n} does not apply to a program: its machine defines the number of ranks");
        let help = format!(
            "give a shape, --topology 'ring({n})', or set the parameter that defines the size, -D tp={n}"
        );
        return usage(Diagnostic::error("E416", title).help(help));
    }
    if of.topology.is_some() {
        let d = Diagnostic::error("E416", "--ranks and --topology both define the number of ranks");
        return usage(d.help("remove one of them"));
    }
    let text = match loaded.topology(loaded.root.unwrap_or_default()).map(|t| &t.source) {
        None => Shape::Ring(u32::try_from(n).unwrap_or(u32::MAX)).to_string(),
        Some(TopologySource::Shape(shape, _)) if shape.parts.len() == 1 && shape.name.node != "hypercube" => {
            format!("{}({n})", shape.name.node)
        }
        Some(TopologySource::Shape(..) | TopologySource::File(..)) => {
            let title = format!("--ranks {n} does not define the shape of the machine in the file");
            return usage(Diagnostic::error("E416", title).help("give the shape, --topology 'torus(2, 4)'"));
        }
    };
    let file = workspace.add_text("<--ranks>", &text);
    options.topology = Some((text, file));
    Ok(())
}

/// What `--topology` says: a shape (its text, and the file that stands for it in messages), or a
/// machine file.
pub type Asked = (Option<(String, FileId)>, Option<MachineFile>);

/// What `--topology` says: a shape, or a machine file.
///
/// # Errors
/// Of reading the file.
pub fn topology(workspace: &mut Workspace, of: &Selection) -> Outcome<Asked> {
    let Some(t) = &of.topology else { return Ok((None, None)) };
    Ok(match argument(workspace, "<--topology>", t)? {
        Argument::Text(text, file) => (Some((text, file)), None),
        Argument::File(text, file) => {
            let machine = machine::read(&text, file)?;
            workspace.tell(&machine.warnings);
            (None, Some(machine))
        }
    })
}

/// `overlap` as targets have it.
const TASKS: &str = "overlap{tasks=true},";

/// A program at another size.
pub struct Resized {
    /// The typed program before placement.
    pub typed: Graph,
    /// The schedule.
    pub schedule: Schedule,
}

/// The same program at another size, with the algorithms already chosen. `line` is a topology of
/// one axis that takes the place of the program's; `defines` come after those of the command line.
///
/// # Errors
/// Of lowering or a pass: the program, or one of its algorithms, does not exist at that size.
pub fn again(
    built: &Built,
    line: Option<(String, FileId)>,
    defines: &[(String, String)],
) -> Result<Resized, Diagnostics> {
    let lowered = lower_again(built, line, defines)?;
    let mut module = lowered.module;
    let cx = PassCx::new(&built.origin.loaded.library, Some(&lowered.topology));
    let mut keep = Keep::default();
    Pipeline::parse("infer,place", Span::NONE.file)?.run(&mut module, &cx, &mut [&mut keep])?;
    if let Body::Graph(graph) = &mut module.body {
        let mut chosen = built.placed.order().iter().filter_map(|id| match &built.placed.op(*id).kind {
            OpKind::Collective(c) => Some((c.name().to_owned(), c.using.clone())),
            _ => None,
        });
        for id in graph.order().to_vec() {
            let OpKind::Collective(c) = &mut graph.op_mut(id).kind else { continue };
            if let Some((kind, using)) = chosen.next()
                && kind == c.name()
                && c.using.is_none()
            {
                c.using = using;
            }
        }
    }
    // Its own passes, from the choice of algorithms on.
    let whole = Pipeline::parse(&built.origin.passes, Span::NONE.file)?.text();
    let after = whole.split_once(",expand,").map_or("allocate,synchronize", |p| p.1);
    // Pieces for tasks are requested; streams are chosen for one size.
    let pieces = if whole.contains(TASKS) { TASKS } else { "" };
    let passes = format!("select,{pieces}expand,{after}");
    Pipeline::parse(&passes, Span::NONE.file)?.run(&mut module, &cx, &mut [])?;
    match module.body {
        Body::Schedule(schedule) => Ok(Resized { typed: keep.typed.unwrap_or_default(), schedule }),
        Body::Graph(_) | Body::Local(_) => {
            Err(Diagnostic::error("E991", "the pipeline made no schedule").into())
        }
    }
}

/// What `select` finds with these options for the same program.
///
/// # Errors
/// Of lowering or a pass.
pub fn select_again(built: &Built, options: &str) -> Result<SelectTable, Diagnostics> {
    let lowered = lower_again(built, None, &[])?;
    let mut module = lowered.module;
    let time = Simulated { topology: &lowered.topology };
    let cx = PassCx::new(&built.origin.loaded.library, Some(&lowered.topology)).with_time(&time);
    let passes = format!("infer,place,select{{{options}}}");
    Pipeline::parse(&passes, Span::NONE.file)?.run(&mut module, &cx, &mut [])?;
    Ok(cx.findings.into_inner().select)
}

/// The rank count of the same program with other parameters; passes are not run for it.
///
/// # Errors
/// Of lowering.
pub fn ranks_with(built: &Built, defines: &[(String, String)]) -> Result<u64, Diagnostics> {
    Ok(lower_again(built, None, defines)?.module.mesh.ranks())
}

fn lower_again(
    built: &Built,
    line: Option<(String, FileId)>,
    defines: &[(String, String)],
) -> Result<Lowered, Diagnostics> {
    let mut options = built.origin.options.clone();
    options.defines.extend(defines.iter().cloned());
    if line.is_some() {
        options.topology = line;
        options.machine = None;
    }
    lower(&built.origin.loaded, &options)
}

/// A value of the command line that is a text or names a file.
pub enum Argument {
    /// As it stands.
    Text(String, FileId),
    /// The contents of a `.yaml` file, or such contents in one line, `{shape: ring(4)}`.
    File(String, FileId),
}

/// Reads the file of an argument that ends like one.
///
/// # Errors
/// E412: it cannot be read.
pub fn argument(workspace: &mut Workspace, name: &str, text: &str) -> Outcome<Argument> {
    if [".yaml", ".yml"].iter().any(|end| text.ends_with(end)) {
        let (file, text) = workspace.read(text)?;
        return Ok(Argument::File(text.to_string(), file));
    }
    if text.trim_start().starts_with('{') {
        return Ok(Argument::File(text.to_owned(), workspace.add_text(name, text)));
    }
    Ok(Argument::Text(text.to_owned(), workspace.add_text(name, text)))
}

/// Parses `--set`.
///
/// # Errors
/// Returns E444 to E446.
pub fn settings(workspace: &mut Workspace, texts: &[String]) -> Outcome<(Settings, Vec<OwnLink>)> {
    let mut out = (Settings::default(), vec![]);
    for text in texts {
        let file = workspace.add_text("<--set>", text);
        let (settings, links) = Topology::parse_settings(text, file)?;
        out.0 = settings.over(&out.0);
        out.1.extend(links);
    }
    Ok(out)
}

/// Reads `--perturb`: a file, or the content of the section in one line.
///
/// # Errors
/// Returns the errors of [`machine::read_perturb`].
pub fn perturb(workspace: &mut Workspace, text: Option<&String>) -> Outcome<Option<Perturb>> {
    let Some(text) = text else { return Ok(None) };
    let (Argument::Text(text, file) | Argument::File(text, file)) = argument(workspace, "<--perturb>", text)?;
    Ok(Some(machine::read_perturb(&text, file)?))
}

/// Parses `--using`.
///
/// # Errors
/// Returns the errors of the form of an algorithm with its arguments.
fn using(workspace: &mut Workspace, texts: &[String]) -> Outcome<Vec<Using>> {
    let one = |text: &String| {
        let file = workspace.add_text("<--using>", text);
        Ok(text::parse_using(file, text)?)
    };
    texts.iter().map(one).collect()
}

/// Checks that every algorithm requested beside the program belongs to one of its collectives.
///
/// # Errors
/// Returns E587 otherwise.
fn taken(select: &SelectTable, asked: &[(Name, Span)]) -> Result<(), Diagnostic> {
    let Some((name, span)) = asked.iter().find(|a| select.entries.iter().all(|e| e.chosen != a.0)) else {
        return Ok(());
    };
    let all: Vec<String> =
        select.entries.iter().map(|e| format!("{} over {}: {}", e.kind, e.axis, e.chosen)).collect();
    let d = Diagnostic::error("E587", format!("no collective of the program has an algorithm `{name}`"))
        .primary(*span, "requested here")
        .help("`kbc list algorithms` lists the algorithms of each collective");
    Err(if all.is_empty() { d.note("the program has no collective") } else { d.note(all.join("; ")) })
}

/// `NAME=VALUE`
///
/// # Errors
/// E413: not of that form.
pub fn defines(list: &[String]) -> Result<Vec<(String, String)>, Diagnostics> {
    let mut out = vec![];
    let mut found = Diagnostics::new();
    for d in list {
        match d.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
                out.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            _ => found
                .push(Diagnostic::error("E413", format!("-D {d} is not NAME=VALUE")).help("write -D tp=8")),
        }
    }
    if found.has_errors() { Err(found) } else { Ok(out) }
}

/// Ranks up to which a user's algorithm is checked round by round, where a mistake is explained in
/// its own terms.
const ROUNDS_RANKS: u64 = 64;

/// Returns the collectives of a program in order; for a local program, those of every part.
fn uses<'g>(graph: &'g Graph, local: Option<&'g Local>) -> Vec<(&'g Op, &'g Collective)> {
    let graphs = std::iter::once(graph).chain(local.iter().flat_map(|l| l.parts.iter().map(|p| &p.graph)));
    let ops = graphs.flat_map(|g| g.order().iter().map(|id| g.op(*id)));
    ops.filter_map(|op| match &op.kind {
        OpKind::Collective(c) => Some((op, c)),
        _ => None,
    })
    .collect()
}

/// Checks the user's own algorithms against their promises before their schedules are: the error is
/// then in the innermost text that is wrong, with ranks, chunks and rounds. With more ranks than
/// [`EVERY_RANK`] the schedule is proven first, and the rounds are looked at where that fails, for
/// the words; the verdict then comes along.
fn right_algorithms(
    workspace: &Workspace,
    library: &kbc_rounds::Library,
    builtin: &dyn Fn(FileId) -> bool,
    uses: &[(&Op, &Collective)],
    module: &Module,
) -> Result<Option<Verdict>, Diagnostics> {
    let mut verdict = None;
    let mut verifier = Verifier::new(library, Limits::default());
    let mut found = Diagnostics::new();
    for (op, c) in uses {
        let axes: Option<Vec<_>> = c.axes().iter().map(|a| module.mesh.axis(a).cloned()).collect();
        let (Some(using), Some(axis)) = (&c.using, axes.map(|a| joined_axis(&a))) else { continue };
        let at = if using.span.is_none() { op.span } else { using.span };
        let Ok(coll) = library.find_collective(at.file, c.name(), at) else { continue };
        let Ok(alg) = library.find_algorithm(at.file, coll, &using.alg, at) else { continue };
        let decl = library.algorithm(alg);
        if builtin(decl.span.file) || axis.size > ROUNDS_RANKS {
            continue;
        }
        if axis.size > EVERY_RANK && proven(workspace, module, &mut verdict) {
            continue;
        }
        let sizes: Vec<i64> = if decl.axes.len() > 1 {
            axis.parts.iter().map(|p| p.1 as i64).collect()
        } else {
            vec![axis.size as i64]
        };
        let args = using
            .args
            .iter()
            .filter(|(n, _)| decl.params.iter().any(|(p, _)| p.node == **n))
            .map(|(n, v)| {
                let v = match v {
                    kbc_ir::graph::UsingArg::Int(i) => Value::Int(*i),
                    kbc_ir::graph::UsingArg::Name(w) => {
                        Value::Alg(Arc::new(AlgRef { name: w.to_string(), file: at.file }))
                    }
                };
                (n.to_string(), v)
            })
            .collect();
        let root = c.root.map(|r| kbc_rounds::rounds::coordinates(&sizes, r as i64));
        let call = Call { alg, sizes, root, args };
        let right = match library_for(library, c.own.as_deref(), at.file) {
            Cow::Borrowed(_) => verifier.verify(&call).map_err(|d| verifier.advised(d)),
            Cow::Owned(own) => {
                let mut verifier = Verifier::new(&own, Limits::default());
                verifier.verify(&call).map_err(|d| verifier.advised(d))
            }
        };
        if let Err(d) = right {
            found.extend(d);
        }
    }
    if found.has_errors() { Err(found) } else { Ok(verdict) }
}

/// Checks whether the schedule, if there is one, keeps all its contracts. The result is computed
/// once.
fn proven(workspace: &Workspace, module: &Module, verdict: &mut Option<Verdict>) -> bool {
    let Some(schedule) = module.schedule().filter(|s| s.calls != Calls::None) else { return false };
    workspace.stage(Stage::Check);
    let v = verdict.get_or_insert_with(|| check(schedule, &CheckOptions::default()));
    v.ok() && v.unpromised.is_empty()
}
