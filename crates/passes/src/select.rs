//! Selection: chooses the algorithm of each collective.
//!
//! Candidates are all algorithms of the collective that the program's file can see: its own and
//! those of the library, with default parameters. A candidate is legal if its `where` holds and if
//! it works on one axis (it then sees the linear order of the mesh axis), or on as many axes as the
//! mesh axis was joined from.
//!
//! For groups of up to 64 ranks the search goes further:
//!
//! * Parameters that are numbers are also tried with the sizes of the machine's levels: on
//!   `hierarchy(full(8), switch(4))` also `hierarchical_flat(g: 8)`. At most 16 lists of arguments
//!   are tried for an algorithm.
//! * Trees are packed into the links of the machine (`packed`,
//!   [adr/077](../adr/077-packed-uses.md)). They are taken if they need at most 95 % of the time of
//!   the best other algorithm, because their schedules are written out for every rank. If the
//!   estimate of their rounds is longer than that, they are not looked at any further. The option
//!   `effort` says how many messages they may have; on average a message has at least 4 KiB. For
//!   targets that emit kernels it is 0, and no
//!   trees are packed: a kernel of thousands of messages takes minutes to emit. The program can
//!   name `packed` there.
//!
//! The cost model (`cost.rs`) prices the legal candidates on the machine. Without a machine, every
//! rank is assumed to be linked with every other. The option `by` states what decides:
//!
//! * `by=close`: for groups of up to 64 ranks (256 in a package), the candidates that cost at most
//!   a quarter more than the cheapest, and at most four of them, are lowered to finished schedules
//!   of the collective alone and simulated with the time model of the driver. The fastest is taken.
//!   For larger groups the prices decide.
//! * `by=model`: nothing is simulated.
//! * `by=time`: all candidates are simulated.
//!
//! Among equally fast candidates, the one with fewer rounds is taken, then the first by name.
//!
//! An algorithm that the program names is kept. The pass only checks that it exists and fits the
//! axis, and that its parameters and options exist and have valid values. Nothing is then priced
//! unless `explain=true`. A use of `packed` gets the number of pieces that is fastest for its size,
//! unless the program states one.
//!
//! On a machine whose cores read from a peer at another rate than they write to one (`core_get`,
//! `core_put`), the pass also chooses between push and pull. It simulates the algorithms with
//! `transfer: push` and with `transfer: pull`, and uses pull if that is faster; if the program
//! names an algorithm without stating `transfer`, it does so for this algorithm. On other machines,
//! above the limit of ranks, and with `by=model`, messages are pushed.
//!
//! Slices need no algorithm. The pass records what it considered, and `kbc explain select` prints
//! it.
//!
//! ```kir,before
//! kir 1
//! module @sum
//! machine ring(8) { link: 50 GB/s, 500 ns }
//! mesh tp 8
//! props typed placed
//!
//! graph @sum
//! input @x : f32[100] partial(sum@tp)
//! result : f32[100]
//!
//! %x = input @x : f32[100] partial(sum@tp)
//! %y = all_reduce sum %x over tp inserted : f32[100]
//! %out = output 0 %y : f32[100]
//! ```
//!
//! ```kir,after
//! kir 1
//! module @sum
//! machine ring(8) { link: 50 GB/s, 500 ns }
//! mesh tp 8
//! props typed placed selected
//!
//! graph @sum
//! input @x : f32[100] partial(sum@tp)
//! result : f32[100]
//!
//! %x = input @x : f32[100] partial(sum@tp)
//! %y = all_reduce sum %x over tp inserted using one_phase selected : f32[100]
//! %out = output 0 %y : f32[100]
//! ```
//!
//! If the caller asks for a fixed order of additions ([`PassCx::order`]), only algorithms are taken
//! that add every element in one order, whatever its position and the size
//! ([adr/083](../adr/083-fixed-order.md)).
//!
//! A collective of a local program gets one algorithm for all ranks that take part in it, as if its
//! operands were parts of one tensor.
//!
//! Not done here: options of a use (`pipeline`, `instances`), which only the program sets.

mod bind;
mod fixed;
mod local;
mod search;
mod transfer;

pub(crate) use bind::bound;
pub use bind::{bind, sizes_on};

use crate::cost::{self, Job, Price};
use crate::findings::select::{Candidate, SelectTable, Selection, Verdict};
use crate::groups::device_groups;
use crate::part_of::library_for;
use crate::pass::{Changed, OptionKind, Options, Pass, PassCx, PassInfo, PassOption, TimeModel, graph_of};
use crate::pipeline::Pipeline;
use bind::legal;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_ir::contract_sides::{HeldPart, sides};
use kbc_ir::graph::{CollKind, Collective, Graph, GraphOp, Holding, Input, OpId, OpKind, Using, UsingArg};
use kbc_ir::types::{Axis, Cut, CutRule, Mesh, TensorType};
use kbc_ir::{Body, Module, Name, Props};
use kbc_machine::topology::Topology;
use kbc_rounds::{AlgId, CollId};
use std::cmp::{Ordering, Reverse};

/// The record of `select`.
pub static INFO: PassInfo = PassInfo {
    name: "select",
    summary: "every collective gets an algorithm: the requested one, or the cheapest one that fits this machine",
    requires: Props::TYPED.with(Props::PLACED),
    gives: Props::SELECTED,
    breaks: Props::ARRANGED,
    options: &[
        PassOption {
            name: "by",
            summary: "the criterion: the cost model of rounds, the simulated time of each candidate's schedule, or the simulated time of the candidates that the model finds close",
            kind: OptionKind::Word(&["close", "model", "time"]),
            default: "close",
        },
        PassOption {
            name: "explain",
            summary: "estimate all candidates even where the program names the algorithm",
            kind: OptionKind::Flag,
            default: "false",
        },
        PassOption {
            name: "effort",
            summary: "the search for packed trees: 0 packs none, k cuts them up to 16,384 k messages",
            kind: OptionKind::Count { least: 0, most: MOST_EFFORT },
            default: "1",
        },
    ],
};

/// The largest value of the option `effort`.
pub const MOST_EFFORT: u64 = 16;

/// The pass `select`.
pub struct Select {
    options: Options,
}

impl Select {
    /// Returns the pass with options of [`INFO`].
    pub fn new(options: &Options) -> Self {
        Select { options: options.clone() }
    }
}

impl Pass for Select {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn options(&self) -> Options {
        self.options.clone()
    }

    fn run(&self, module: &mut Module, cx: &PassCx<'_>) -> Result<Changed, Diagnostics> {
        let (mesh, machine) = (module.mesh.clone(), module.machine.clone());
        let complete;
        let topology = match cx.topology {
            Some(t) => t,
            None => {
                complete = cost::complete_machine(mesh.ranks())?;
                &complete
            }
        };
        if topology.device_count() as u64 != mesh.ranks() {
            return Err(Diagnostic::error(
                "E213",
                format!(
                    "the mesh has {} ranks, and the machine has {} devices",
                    mesh.ranks(),
                    topology.device_count()
                ),
            )
            .primary(Span::NONE, format!("{topology}"))
            .help("the mesh must contain every device of the machine")
            .into());
        }
        let known = transfer::TransferCache::default();
        let chooser =
            Chooser { cx, mesh: &mesh, machine, topology, options: &self.options, transfers: &known };
        if let Body::Local(l) = &mut module.body {
            let requested = l.parts.iter_mut().map(|p| ask(&mut p.graph, cx)).fold(false, |a, b| a | b);
            let chosen = local::run(l, &chooser)?;
            return Ok(if requested { true.into() } else { chosen });
        }
        let graph = graph_of(module, &INFO)?;
        let requested = ask(graph, cx);
        let mut found = Diagnostics::new();
        let mut table = SelectTable::default();
        let mut changed = requested;
        for id in graph.order().to_vec() {
            let op = graph.op(id);
            let OpKind::Collective(c) = &op.kind else { continue };
            if c.kind == CollKind::Slice {
                continue;
            }
            match chooser.choose(graph, id, op, c, &table).map_err(|d| graph.with_call_sites(id, d)) {
                Ok(entry) => {
                    if let Some(using) = entry.using(c.using.as_ref()) {
                        let done = Collective { using: Some(using), ..c.clone() };
                        graph.op_mut(id).kind = OpKind::Collective(done);
                        changed = true;
                    }
                    table.entries.push(entry);
                }
                Err(d) => found.push(d),
            }
        }
        cx.findings.borrow_mut().select = table;
        if found.has_errors() { Err(found) } else { Ok(changed.into()) }
    }
}

/// Gives each collective without an algorithm the first of the caller's algorithms
/// ([`PassCx::using`]) that exists for it.
fn ask(graph: &mut Graph, cx: &PassCx<'_>) -> bool {
    let mut changed = false;
    for id in graph.order().to_vec() {
        let op = graph.op(id);
        let OpKind::Collective(c) = &op.kind else { continue };
        if c.kind == CollKind::Slice || c.using.is_some() {
            continue;
        }
        let Ok(collective) = cx.library.find_collective(op.span.file, c.name(), op.span) else { continue };
        let fits = |u: &&Using| cx.library.find_algorithm(op.span.file, collective, &u.alg, u.span).is_ok();
        if let Some(using) = cx.using.iter().find(fits) {
            let done = Collective { using: Some(using.clone()), ..c.clone() };
            graph.op_mut(id).kind = OpKind::Collective(done);
            changed = true;
        }
    }
    changed
}

/// Everything that a choice depends on besides the operation.
struct Chooser<'a> {
    cx: &'a PassCx<'a>,
    mesh: &'a Mesh,
    machine: Option<String>,
    topology: &'a Topology,
    options: &'a Options,
    /// Results of earlier comparisons of push and pull.
    transfers: &'a transfer::TransferCache,
}

/// A collective with the data needed to look up and price its algorithms.
struct SelectSite<'a> {
    graph: &'a Graph,
    op: &'a GraphOp,
    coll: &'a Collective,
    operand: TensorType,
    axis: &'a Axis,
    id: CollId,
    file: FileId,
    elements: u64,
}

impl Chooser<'_> {
    fn choose(
        &self,
        graph: &Graph,
        id: OpId,
        op: &GraphOp,
        c: &Collective,
        known: &SelectTable,
    ) -> Result<Selection, Diagnostic> {
        let untyped = || {
            Diagnostic::error("E901", format!("%{} or its operand has no type", op.name))
                .primary(op.span, "needed here")
                .help("run `infer` first")
        };
        let operand = graph.operands(id).first().and_then(|o| graph.op(*o).ty.clone()).ok_or_else(untyped)?;
        let result = op.ty.as_ref().ok_or_else(untyped)?;
        let Some(axis) = self.mesh.axis(&c.axis) else {
            return Err(Diagnostic::error("E203", format!("the mesh has no axis `{}`", c.axis))
                .primary(op.span, "not an axis of the mesh"));
        };
        let file = op.span.file;
        let site = SelectSite {
            graph,
            op,
            coll: c,
            elements: line_elements(self.mesh, c, &operand, result),
            operand,
            axis,
            id: self.cx.library.find_collective(file, c.name(), op.span).map_err(|d| *d)?,
            file,
        };
        let bytes = site.elements.saturating_mul(site.operand.dtype.bytes());
        let mut entry = Selection {
            value: op.name.clone(),
            span: op.span,
            kind: c.name().into(),
            axis: c.axis.clone(),
            ranks: axis.size,
            bytes,
            candidates: vec![],
            chosen: Name::from(""),
            arguments: vec![],
            transfers: None,
            requested: c.using.as_ref().is_some_and(|u| !u.span.is_none()),
            fixed: c.red.filter(|_| self.fixes(c)).map(|red| (red, site.operand.dtype)),
        };
        if let Some(using) = &c.using {
            let mut using = using.clone();
            let at = if using.span.is_none() { op.span } else { using.span };
            let alg = self.cx.library.find_algorithm(file, site.id, &using.alg, at).map_err(|d| *d)?;
            if let Some(packed) = self.packed_use(&site, alg, &using)? {
                using.args = packed.completed(&using.args);
                let library = packed.library(self.cx.library, alg);
                bind(&library, file, site.id, &using, axis, c.root, op.span)?;
            } else {
                bind(self.cx.library, file, site.id, &using, axis, c.root, op.span)?;
            }
            self.require_fixed(&site, &using)?;
            (entry.chosen, entry.arguments) = (using.alg.clone(), using.args.clone());
            entry.transfers = self.transfers(&site, &using)?;
            if !self.options.flag("explain").unwrap_or(false) {
                let (algorithm, arguments) = (using.alg, entry.arguments.clone());
                entry.candidates.push(Candidate { algorithm, arguments, verdict: Verdict::Unpriced });
                return Ok(entry);
            }
        }
        // The same collective on the same line costs the same. The blocks of an all_to_all are
        // excluded, because the number of bytes does not determine them.
        let plain = c.own.as_ref().is_none_or(|o| o.part_of.is_empty()) && !c.kind.takes(Holding::SplitFrom);
        let twin = known.entries.iter().find(|e| {
            let same =
                (&e.kind, &e.axis, e.bytes, e.span.file) == (&entry.kind, &entry.axis, entry.bytes, file);
            let priced = e.candidates.iter().all(|c| c.verdict != Verdict::Unpriced);
            same && e.fixed == entry.fixed && priced && c.root.is_none() && site.file == file && plain
        });
        entry.candidates = match twin {
            Some(t) => t.candidates.clone(),
            None => self.candidates(&site)?,
        };
        if c.using.is_none() {
            let Some(best) = entry.candidates.first().filter(|c| matches!(c.verdict, Verdict::Priced(_)))
            else {
                return Err(nothing_fits(&entry, op.span, self.fixes(c)));
            };
            let (fastest, transfers) = self.fastest(&site, best, &entry.candidates)?;
            (entry.chosen, entry.arguments, entry.transfers) = (fastest.alg, fastest.args, transfers);
        }
        Ok(entry)
    }

    /// Returns all algorithms of the collective with their prices, cheapest first.
    fn candidates(&self, site: &SelectSite<'_>) -> Result<Vec<Candidate>, Diagnostic> {
        let library = &*library_for(self.cx.library, site.coll.own.as_deref(), site.file);
        let mut out = vec![];
        let job = Job {
            library,
            topology: self.topology,
            groups: device_groups(self.mesh, std::slice::from_ref(&site.coll.axis)),
            elements: site.elements,
            element_bytes: site.operand.dtype.bytes(),
        };
        let (packed, others): (Vec<AlgId>, Vec<AlgId>) = library
            .algorithms_of(site.file, site.id)
            .into_iter()
            .partition(|&alg| crate::packed::is_packed(library, alg));
        for alg in others {
            let decl = library.algorithm(alg);
            let algorithm = Name::from(&decl.name.node);
            let priced = |arguments: Vec<(Name, UsingArg)>| {
                let args = search::values(&arguments);
                let verdict = match legal(library, alg, site.axis, site.coll.root, args) {
                    Err(why) => Verdict::Rejected(why),
                    // Nobody said that the algorithm is right with these arguments: a ring whose
                    // steps have a factor in common with its size leaves ranks out.
                    Ok(call) if !arguments.is_empty() && !search::is_right(library, &call) => {
                        Verdict::Rejected("it breaks its contract".into())
                    }
                    Ok(call) => cost::price(&job, &call).map_or_else(Verdict::Rejected, Verdict::Priced),
                };
                Candidate { algorithm: algorithm.clone(), arguments, verdict }
            };
            out.push(priced(vec![]));
            // Other arguments are listed where they are legal and right.
            let more = self.argument_lists(site, decl).into_iter().map(priced);
            out.extend(more.filter(|c| matches!(c.verdict, Verdict::Priced(_))));
        }
        out.sort_by(order);
        for alg in packed {
            let best = out.first().and_then(Candidate::ns).unwrap_or(f64::INFINITY);
            out.push(self.packed_candidate(site, (alg, &job), best));
        }
        out.sort_by(order);
        self.keep_fixed(site, &job, &mut out)?;
        out.sort_by(order);
        self.simulate(site, &mut out)?;
        out.sort_by(order);
        // The first one must have a schedule for these sizes: not every algorithm has one for
        // blocks of different lengths.
        let unseen = |c: &&mut Candidate| matches!(&c.verdict, Verdict::Priced(p) if p.simulated.is_none());
        while let Some(best) = out.first_mut().filter(unseen) {
            match self.refused(site, best.using())? {
                None => break,
                Some(why) => best.verdict = Verdict::Rejected(why),
            }
            out.sort_by(order);
        }
        Ok(out)
    }

    /// Returns why an algorithm has no schedule for these sizes, if it has none.
    fn refused(&self, site: &SelectSite<'_>, using: Using) -> Result<Option<String>, Diagnostic> {
        let expand = Pipeline::parse("expand", FileId::default()).map_err(first)?;
        let mut module = self.module(site, using);
        let inner = self.cx.inner(Some(self.topology));
        let found = expand.run(&mut module, &inner, &mut []).err();
        Ok(found.and_then(|f| f.list.into_iter().next()).map(|d| format!("{}: {}", d.code, d.title)))
    }

    /// Returns the collective alone, with an algorithm.
    fn module(&self, site: &SelectSite<'_>, using: Using) -> Module {
        Module {
            name: Name::from("candidate"),
            machine: self.machine.clone(),
            mesh: self.mesh.clone(),
            body: Body::Graph(as_program(site, using)),
            props: Props::TYPED.with(Props::PLACED).with(Props::SELECTED),
            attributes: Default::default(),
        }
    }

    /// Simulates the candidates that may be the best, the cheapest by the model first, and sorts
    /// them.
    fn simulate(&self, site: &SelectSite<'_>, list: &mut [Candidate]) -> Result<(), Diagnostic> {
        let by = self.options.word("by").unwrap_or("close");
        let all = by == "time";
        let close = by == "close" && site.axis.size <= cost::exact_ranks(self.topology);
        let time = match self.cx.time {
            Some(time) if all || close => time,
            None if all => {
                return Err(Diagnostic::error(
                    "E904",
                    "`select{by=time}` needs a time model, which is not available here",
                )
                .primary(site.op.span, "for this collective")
                .help("use `select{by=model}`"));
            }
            _ => return Ok(()),
        };
        let price = Candidate::ns;
        let limit = list.first().and_then(price).map_or(0.0, |best| best * CLOSE);
        if !all && list.get(1).and_then(price).is_none_or(|second| second > limit) {
            return Ok(());
        }
        let mut done = 0;
        for c in list.iter_mut() {
            let using = c.using();
            let Verdict::Priced(price) = &mut c.verdict else { break };
            if !all && (done == SIMULATED || price.ns > limit) {
                break;
            }
            match self.simulated(site, using, time)? {
                Ok(ns) => {
                    price.simulated = Some(ns);
                    done += 1;
                }
                Err(why) => c.verdict = Verdict::Rejected(why),
            }
        }
        list.sort_by(order);
        Ok(())
    }

    /// Returns the nanoseconds of the finished schedule of this collective alone, or why it has no
    /// schedule.
    fn simulated(
        &self,
        site: &SelectSite<'_>,
        using: Using,
        time: &dyn TimeModel,
    ) -> Result<Result<f64, String>, Diagnostic> {
        let lower = match self.topology.settings().queues() {
            Some(_) => Pipeline::parse("expand,enqueue", Span::NONE.file).map_err(first)?,
            None => Pipeline::named("lower").map_err(first)?,
        };
        let mut module = self.module(site, using);
        let inner = self.cx.inner(Some(self.topology));
        let ns = lower.run(&mut module, &inner, &mut []).and_then(|()| time.nanoseconds(&module));
        Ok(ns.map_err(|found| {
            found.list.first().map_or(String::new(), |d| format!("{}: {}", d.code, d.title))
        }))
    }
}

/// Candidates are close if their price is at most this multiple of the lowest price.
const CLOSE: f64 = 1.25;

/// Largest number of candidates simulated with `by=close`.
const SIMULATED: usize = 4;

fn first(found: Diagnostics) -> Diagnostic {
    let none = || Diagnostic::error("E901", "a pipeline failed without a message");
    found.list.into_iter().next().unwrap_or_else(none)
}

/// Largest number of ranks of a group for which arguments and packed trees are searched.
const SEARCHED_RANKS: u64 = 64;

/// Returns the collective as a program of its own.
fn as_program(site: &SelectSite<'_>, using: Using) -> Graph {
    let mut graph = Graph::default();
    let op = |kind, ty: &Option<TensorType>, name: &str| GraphOp {
        kind,
        name: Name::from(name),
        ty: ty.clone(),
        want: None,
        span: site.op.span,
    };
    let operand = Some(site.operand.clone());
    graph.inputs.push(Input {
        name: Name::from("x"),
        ty: site.operand.clone(),
        data: None,
        span: site.op.span,
    });
    graph.results.extend(site.op.ty.clone());
    let x = graph.push(op(OpKind::Input(0), &operand, "x"), &[]);
    let coll = OpKind::Collective(Collective { using: Some(using), ..site.coll.clone() });
    let y = graph.push(op(coll, &site.op.ty, "y"), &[x]);
    graph.push(op(OpKind::Output(0), &site.op.ty, "out"), &[y]);
    graph.name = site.graph.name.clone();
    graph
}

/// Returns the number of elements of the line that the collective works on, on the rank that has
/// most. If the operand or the result is split over the axis, the line consists of the parts of all
/// ranks of the group.
pub(crate) fn line_elements(mesh: &Mesh, c: &Collective, operand: &TensorType, result: &TensorType) -> u64 {
    let mut ty = match c.kind {
        CollKind::Barrier => return 0,
        CollKind::ByContract => own_line(c, operand),
        kind if kind.takes(Holding::Split) => result.clone(),
        _ => operand.clone(),
    };
    if c.kind.takes(Holding::SplitFrom) || c.kind == CollKind::ByContract {
        // The operand's own part is the line, with one block for each rank.
        ty.only = None;
    } else if let Some(d) = ty.dim_cut_by(&c.axis) {
        ty.dims[d].cut.iter_mut().for_each(|cut| cut.axes.retain(|a| *a != c.axis));
    }
    ty.only = None;
    // The first rank has most, except with parts of given lengths.
    let mut at = vec![0; mesh.axes.len()];
    for dim in &ty.dims {
        if let Some(Cut { axes, rule: CutRule::Lengths(l) }) = &dim.cut
            && let Some(axis) = mesh.axes.iter().position(|a| axes.contains(&a.name))
        {
            let most = l.lengths(0).iter().zip(0..).map(|(n, i)| (*n, Reverse(i))).max();
            at[axis] = most.map_or(0, |(_, Reverse(i))| i);
        }
    }
    ty.local_box(mesh, &at).iter().fold(1, |n: u64, (lo, hi)| n.saturating_mul(hi - lo))
}

/// Returns the operand of a user-defined collective, with its split dimension as long as the line
/// of all blocks.
fn own_line(c: &Collective, operand: &TensorType) -> TensorType {
    let mut ty = operand.clone();
    if let (Some(own), Some(dim)) = (&c.own, c.dim)
        && let Some(Ok(both)) = own.contract.as_ref().map(sides)
        && let HeldPart::Block(_) = both.start.held
    {
        ty.dims[dim].size = ty.dims[dim].size.saturating_mul(own.ranks);
    }
    ty
}

/// Orders candidates: simulated ones by time, then the others by price; equal ones by fewer rounds,
/// then by name; rejected ones last.
fn order(a: &Candidate, b: &Candidate) -> Ordering {
    let by_name = a.algorithm.cmp(&b.algorithm).then_with(|| a.numbers().cmp(&b.numbers()));
    match (&a.verdict, &b.verdict) {
        (Verdict::Priced(x), Verdict::Priced(y)) => {
            // Whole picoseconds, so that rounding errors of different sums do not decide.
            let whole = |p: &Price| (p.simulated.unwrap_or(p.ns) * 1e3).round();
            let apart = y.simulated.is_some().cmp(&x.simulated.is_some());
            apart.then(whole(x).total_cmp(&whole(y))).then(x.rounds.cmp(&y.rounds)).then(by_name)
        }
        (Verdict::Priced(_), _) => Ordering::Less,
        (_, Verdict::Priced(_)) => Ordering::Greater,
        _ => by_name,
    }
}

fn nothing_fits(entry: &Selection, span: Span, fixed: bool) -> Diagnostic {
    let (code, and) = if fixed { ("E597", " with a fixed order of additions") } else { ("E214", "") };
    let title = format!("no algorithm of {}{and} fits axis `{}` of {}", entry.kind, entry.axis, entry.ranks);
    let mut d = Diagnostic::error(code, title).primary(span, "this collective");
    let mut unpriced = None;
    for c in &entry.candidates {
        if let Verdict::Rejected(why) | Verdict::Pruned(why) = &c.verdict {
            d = d.note(format!("{}: {why}", c.algorithm));
            unpriced = unpriced.or(why.starts_with("no estimate").then_some(&c.algorithm));
        }
    }
    match unpriced {
        Some(name) => d.help(format!("an algorithm without an estimate may fit: name it, `using: {name}`")),
        None => d.help("write an algorithm for this shape, or use another mesh"),
    }
}
