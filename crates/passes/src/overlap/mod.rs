//! Overlap of communication and computation: runs collectives concurrently with local work.
//! Collectives get streams of their own, operations get an issue order that makes use of them, and
//! matmuls are cut into pieces so that the collective of one piece runs during the matmul of the
//! next.
//!
//! **Pieces.** A collective is cut together with the matmul that makes its value (all_reduce,
//! reduce_scatter) or with the matmuls that use its value (all_gather). A use with `overlap: k` is
//! cut into k pieces, and `overlap: 1` forbids cutting. Other collectives are cut into 2, 4 or 8
//! pieces if the local work of the machine takes time, if an estimate leaves a chance, and if the
//! simulation of the collective and its matmuls alone is faster by at least one percent. The pieces
//! are cut along a dimension that is neither contracted nor moved nor split, so every element is
//! computed by the same sum as before. Where `select` chose the algorithm, each piece gets the
//! cheapest algorithm for its size.
//!
//! **Order and streams.** Operations get an order in which collectives start early and are waited
//! for late (list scheduling with the prices of the cost model), and collectives get one stream for
//! each group of axes. This is kept if it is faster than serial execution by estimate and, where
//! the driver can measure, by simulation. If a use has `overlap: k`, it is kept in any case.
//!
//! **Collectives beside each other.** Collectives of one group of axes that do not depend on each
//! other run beside each other where that is faster: the group has 2, 4 or 8 streams (`comm_tp`,
//! `comm_tp_2` and so on). Only the simulation of the whole program can tell, because the estimate
//! does not know which links are full. Each number is simulated if it could be faster by estimate,
//! until one is not faster by at least one percent than the one before it. Where the driver cannot
//! measure, with `streams=1`, and on a machine that describes its cores, where each stream takes
//! cores whose number is not known, a group has one stream. Windows and signals follow from the
//! order of regions: `allocate` shares them only between regions that run one after another.
//!
//! **Option `tasks`**, for targets on which matmuls and collectives are tasks that wait only for
//! their operands: nothing gets a stream here. Only collectives with `overlap: k` are cut, and
//! operations are reordered only if there are any. If the first dimension is free, it is cut:
//! kernels use such pieces where they are, without copies.
//!
//! **Local programs.** If all ranks have the same body, the order is that of the program: the
//! operations between a collective and its `wait` run concurrently with the collective. Other local
//! programs stay as they are.
//!
//! **Host statements.** If the host does something between operations, the operations stay as they
//! are, and `overlap: k` is rejected (E580).
//!
//! ```kir,before
//! kir 1
//! module @row
//! machine "ring(4) { link: 50 GB/s, 500 ns; device: 1 TFLOP/s, 1 TB/s }"
//! mesh tp 4
//! props typed placed selected
//!
//! graph @row
//! input @x : f32[512, 1024@tp]
//! input @w : f32[1024@tp, 512]
//! result : f32[512, 512]
//!
//! %x = input @x : f32[512, 1024@tp]
//! %w = input @w : f32[1024@tp, 512]
//! %m = matmul %x, %w : f32[512, 512] partial(sum@tp)
//! %y = all_reduce sum %m over tp using ring with (overlap: 2) : f32[512, 512]
//! %out = output 0 %y : f32[512, 512]
//! ```
//!
//! ```kir,after
//! kir 1
//! module @row
//! machine "ring(4) { link: 50 GB/s, 500 ns; device: 1 TFLOP/s, 1 TB/s }"
//! mesh tp 4
//! props typed placed selected arranged
//!
//! graph @row
//! input @x : f32[512, 1024@tp]
//! input @w : f32[1024@tp, 512]
//! result : f32[512, 512]
//!
//! %x = input @x : f32[512, 1024@tp]
//! %x_0 = slice %x dim 0 from 0 to 256 : f32[256, 1024@tp]
//! %x_1 = slice %x dim 0 from 256 to 512 : f32[256, 1024@tp]
//! %w = input @w : f32[1024@tp, 512]
//! %m_0 = matmul %x_0, %w : f32[256, 512] partial(sum@tp)
//! %m_1 = matmul %x_1, %w : f32[256, 512] partial(sum@tp)
//! %y_0 = all_reduce sum %m_0 over tp using ring stream comm_tp : f32[256, 512]
//! %y_1 = all_reduce sum %m_1 over tp using ring stream comm_tp : f32[256, 512]
//! %y = concat %y_0, %y_1 dim 0 : f32[512, 512]
//! %out = output 0 %y : f32[512, 512]
//! ```
//!
//! Not done here: deriving which operation waits for which (`expand`), proving that the result is
//! safe (the checker), and overlap within an algorithm (`pipeline`).

mod order;
mod pieces;

use crate::cost::{self, CallPrices, Job};
use crate::findings::overlap::{ExaminedCollective, OverlapTable, TriedPieces, TriedStreams};
use crate::groups::device_groups;
use crate::packed::{PackedSite, is_packed};
use crate::part_of::library_for;
use crate::pass::{Changed, OptionKind, Options, Pass, PassCx, PassInfo, PassOption, graph_of};
use crate::pipeline::Pipeline;
use crate::select::{bound, line_elements};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::graph::{CollKind, Collective, Graph, GraphOp, Input, OpId, OpKind, Using};
use kbc_ir::types::Mesh;
use kbc_ir::{Body, Module, Name, Props};
use kbc_machine::memory::lay_out;
use kbc_machine::policy::Placements;
use kbc_machine::topology::Topology;
use pieces::CutCandidate;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The record of `overlap`.
pub static INFO: PassInfo = PassInfo {
    name: "overlap",
    summary: "collectives run in parallel with local work: streams, issue order, matmuls split together with their collective",
    requires: Props::TYPED.with(Props::PLACED).with(Props::SELECTED),
    gives: Props::ARRANGED,
    breaks: Props::NONE,
    options: &[
        PassOption {
            name: "tasks",
            summary: "no streams: the requested pieces are ordered so that matmuls and collectives can run in parallel as separate tasks",
            kind: OptionKind::Flag,
            default: "false",
        },
        PassOption {
            name: "streams",
            summary: "the largest number of streams for the collectives of one group of axes",
            kind: OptionKind::Count { least: 1, most: WIDTHS[WIDTHS.len() - 1] },
            default: "8",
        },
    ],
};

/// The numbers of pieces that are tried.
const TRIED: [u64; 3] = [2, 4, 8];

/// The numbers of streams per group of axes that are tried.
const WIDTHS: [u64; 3] = [2, 4, 8];

/// The largest number of pieces that a use can ask for.
const MAX_PIECES: u64 = 64;

/// The pass `overlap`.
pub struct Overlap {
    options: Options,
}

impl Overlap {
    /// Returns the pass with options of [`INFO`].
    pub fn new(options: &Options) -> Self {
        Overlap { options: options.clone() }
    }
}

impl Pass for Overlap {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn options(&self) -> Options {
        self.options.clone()
    }

    fn run(&self, module: &mut Module, cx: &PassCx<'_>) -> Result<Changed, Diagnostics> {
        let tasks = self.options.flag("tasks").unwrap_or(false);
        let most_streams = self.options.count("streams").unwrap_or(WIDTHS[WIDTHS.len() - 1]);
        if let Body::Local(l) = &mut module.body {
            if tasks {
                return Ok(Changed::No);
            }
            let [part] = &mut l.parts[..] else { return Ok(Changed::No) };
            let streams = issued(&mut part.graph);
            cx.findings.borrow_mut().overlap = OverlapTable { streams, ..OverlapTable::default() };
            return Ok(streams.into());
        }
        let complete;
        let topology = match cx.topology {
            Some(t) => t,
            None => {
                complete = cost::complete_machine(module.mesh.ranks())?;
                &complete
            }
        };
        let (mesh, machine) = (module.mesh.clone(), module.machine.clone());
        let graph = graph_of(module, &INFO)?;
        let planner = Planner {
            cx,
            mesh: &mesh,
            machine,
            topology,
            tasks,
            most_streams,
            prices: RefCell::default(),
            calls: RefCell::default(),
        };
        let mut table = OverlapTable::default();
        let result = planner.run(graph, &mut table);
        cx.findings.borrow_mut().overlap = table;
        result.map(Changed::from)
    }
}

/// Gives streams to the collectives of a local program if any of them has work before its `wait`.
/// Returns whether it did.
fn issued(graph: &mut Graph) -> bool {
    let order = graph.order().to_vec();
    let works = |graph: &Graph, id: OpId| {
        !matches!(
            graph.op(id).kind,
            OpKind::Input(_) | OpKind::Wait | OpKind::Collective(_) | OpKind::Output(_)
        )
    };
    let beside = order.iter().enumerate().any(|(i, id)| {
        let OpKind::Collective(c) = &graph.op(*id).kind else { return false };
        if order::stream_of(c).is_none() {
            return false;
        }
        let wait = graph.users(*id).iter().map(|u| graph.position(u.0)).min().unwrap_or(order.len());
        order[i + 1..wait].iter().any(|id| works(graph, *id))
    });
    if beside {
        on_streams(graph, &BTreeMap::new());
    }
    beside
}

/// Removes the option `overlap` from every use. Only this pass implements the option: `expand`
/// rejects a number above 1.
fn plain(graph: &mut Graph) {
    for id in graph.order().to_vec() {
        if let OpKind::Collective(c) = &mut graph.op_mut(id).kind {
            c.using = c.using.take().map(pieces::without);
        }
    }
}

/// Puts every collective on a stream of its group of axes: on the first one, or on that of the
/// given number, counted from 0.
fn on_streams(graph: &mut Graph, numbers: &BTreeMap<OpId, usize>) {
    let order = graph.order().to_vec();
    let first = |graph: &Graph, id: OpId| match &graph.op(id).kind {
        OpKind::Collective(c) => order::stream_of(c),
        _ => None,
    };
    let firsts: BTreeSet<Name> = order.iter().filter_map(|id| first(graph, *id)).collect();
    for id in order {
        let number = numbers.get(&id).copied().unwrap_or(0);
        let stream = first(graph, id).map(|name| numbered(&name, number, &firsts));
        if let OpKind::Collective(c) = &mut graph.op_mut(id).kind {
            c.stream = stream;
        }
    }
}

/// Returns the name of a group's stream of that number: `comm_tp`, `comm_tp_2` and so on. Another
/// group may have an axis `tp_2`; its names are in `firsts` and are avoided.
fn numbered(first: &Name, number: usize, firsts: &BTreeSet<Name>) -> Name {
    if number == 0 {
        return first.clone();
    }
    let mut name = format!("{first}_{}", number + 1);
    while firsts.contains(&*name) {
        name.push('_');
    }
    name.into()
}

struct Planner<'a> {
    cx: &'a PassCx<'a>,
    mesh: &'a Mesh,
    machine: Option<String>,
    topology: &'a Topology,
    /// Whether nothing gets a stream of its own, and only collectives with `overlap` are cut.
    tasks: bool,
    /// The largest number of streams for the collectives of one group of axes.
    most_streams: u64,
    /// Prices of collectives, by everything that they depend on.
    prices: RefCell<BTreeMap<String, f64>>,
    /// Calls of algorithms, by everything but the size and the type of their elements; None if
    /// there is no such call.
    calls: RefCell<BTreeMap<String, Option<Rc<CallPrices>>>>,
}

impl Planner<'_> {
    fn run(&self, graph: &mut Graph, table: &mut OverlapTable) -> Result<bool, Diagnostics> {
        let mut whole = graph.clone();
        plain(&mut whole);
        // The price of a collective can take as long as its schedule, so it is asked for only where
        // it matters.
        let chain = order::is_chain(graph, &|id| self.takes_time(graph, id));
        let host = graph.order().iter().any(|id| matches!(graph.op(*id).kind, OpKind::Host(_)));
        let mut requested = false;
        let mut changed = false;
        let mut known: BTreeMap<String, (u64, Vec<TriedPieces>)> = BTreeMap::new();
        // Cutting adds and removes operations, but removes no collective that is still to come.
        let all = graph.order().iter().copied();
        let collectives: Vec<OpId> =
            all.filter(|id| matches!(graph.op(*id).kind, OpKind::Collective(_))).collect();
        for id in collectives {
            let op = graph.op(id).clone();
            let OpKind::Collective(c) = &op.kind else { continue };
            let Some(using) = c.using.as_ref().filter(|_| c.kind != CollKind::Slice) else { continue };
            let want = pieces::requested_pieces(using);
            let site = match host {
                true => Err("host statements between the operations fix their order"),
                false => CutCandidate::of(graph, self.mesh, id, self.tasks),
            };
            let mut looked = ExaminedCollective {
                value: op.name.clone(),
                kind: c.name().into(),
                pieces: 1,
                requested: want.is_some(),
                tried: vec![],
                why: site.as_ref().err().map(|w| (*w).to_owned()),
            };
            match (want, &site) {
                (Some(1), _) => {}
                (Some(k), Ok(site)) if k <= MAX_PIECES.min(site.most(graph, self.mesh)) => looked.pieces = k,
                (Some(k), site) => {
                    let most = |s: &CutCandidate| {
                        format!("at most {} pieces are possible", MAX_PIECES.min(s.most(graph, self.mesh)))
                    };
                    let why = site.as_ref().map_or_else(|w| (*w).to_owned(), most);
                    let d = Diagnostic::error(
                        "E580",
                        format!("this {} cannot be split into {k} pieces together with a matmul", c.name()),
                    )
                    .primary(if using.span.is_none() { op.span } else { using.span }, why)
                    .secondary(op.span, "this collective")
                    .help("remove `overlap`; it does not change the result of the program");
                    return Err(graph.with_call_sites(id, d).into());
                }
                (None, Ok(site)) if !self.tasks => {
                    let key = self.key(graph, site);
                    let (k, tried) = match known.get(&key) {
                        Some(found) => found.clone(),
                        None => {
                            let found = self.choose(graph, site);
                            known.insert(key, found.clone());
                            found
                        }
                    };
                    (looked.pieces, looked.tried) = (k, tried);
                }
                (None, _) => {}
            }
            if want.is_some()
                && let OpKind::Collective(c) = &mut graph.op_mut(id).kind
            {
                c.using = c.using.take().map(pieces::without);
                changed = true;
            }
            if let (Ok(site), k @ 2..) = (site, looked.pieces) {
                self.cut(graph, &site, k);
                requested |= want.is_some();
                changed = true;
            }
            table.looked.push(looked);
        }
        table.host = host;
        if host || (chain && !changed) {
            // With host statements the order stays: every operation is launched on the same side of
            // them as before. In a chain there is no other order.
            return Ok(changed);
        }
        let serial = order::plan(&whole, 1, &|id| self.price(&whole, id)).serial;
        let plan = order::plan(graph, 1, &|id| self.price(graph, id));
        table.estimated = Some((serial, plan.ns));
        if self.tasks {
            if requested {
                graph.reorder(plan.order);
            }
            return Ok(changed);
        }
        let mut sooner = plan.ns < serial * FASTER_BY;
        if requested || sooner {
            let beside = on_planned_streams(graph, plan);
            if let (Some(serial), Some(ns)) = (self.simulated(&whole), self.simulated(&beside)) {
                table.simulated = Some((serial, ns));
                sooner = ns < serial * FASTER_BY;
            }
            if requested || sooner {
                (table.streams, table.width) = (true, 1);
                *graph = self.side_by_side(graph, &beside, table).unwrap_or(beside);
                return Ok(true);
            }
        }
        // Pieces that are faster alone but not in this program are undone.
        table.looked.iter_mut().for_each(|l| l.pieces = 1);
        if let Some(wide) = self.side_by_side(&whole, &whole, table) {
            *graph = wide;
            return Ok(true);
        }
        *graph = whole;
        Ok(changed && table.looked.iter().any(|l| l.requested))
    }

    /// Gives each group of axes several streams, and returns the fastest graph if it is faster than
    /// the one decided on so far. `plain` has the operations of `decided` in program order.
    fn side_by_side(&self, plain: &Graph, decided: &Graph, table: &mut OverlapTable) -> Option<Graph> {
        self.cx.time?;
        let (one, beside) = table.estimated?;
        // Where a stream is a core, more streams are more cores, and nobody says how many there
        // are.
        if self.topology.settings().cores.put_limit().is_some() {
            return None;
        }
        let mut estimated = if table.streams { beside } else { one };
        let mut simulated = table.simulated.map(|(serial, ns)| if table.streams { ns } else { serial });
        let mut best = None;
        for streams in WIDTHS.into_iter().filter(|w| *w <= self.most_streams) {
            let plan = order::plan(plain, streams as usize, &|id| self.price(plain, id));
            if plan.ns >= estimated * FASTER_BY {
                break;
            }
            let before = match simulated {
                Some(ns) => ns,
                None => self.simulated(decided)?,
            };
            let (ns, wide) = (plan.ns, on_planned_streams(plain, plan));
            let after = self.simulated_if_it_fits(&wide);
            table.tried.push(TriedStreams { streams, estimated: ns, simulated: after });
            let serial = table.simulated.map_or(before, |(serial, _)| serial);
            let Some(after) = after.filter(|after| *after < before * FASTER_BY) else {
                // What was measured on streams is kept for the report.
                table.simulated = table.simulated.or_else(|| after.map(|after| (serial, after)));
                break;
            };
            (table.streams, table.width) = (true, streams);
            (table.estimated, table.simulated) = (Some((one, ns)), Some((serial, after)));
            (estimated, simulated, best) = (ns, Some(after), Some(wide));
        }
        best
    }

    /// Returns a text with everything that a choice depends on.
    fn key(&self, graph: &Graph, site: &CutCandidate) -> String {
        let ty = |id: OpId| graph.op(id).ty.as_ref().map(ToString::to_string).unwrap_or_default();
        let mut out = String::new();
        for id in std::iter::once(site.coll).chain(site.matmuls.iter().copied()) {
            let using = match &graph.op(id).kind {
                OpKind::Collective(c) => format!("{} {:?} {:?} {:?}", c.name(), c.axes(), c.dim, c.using),
                _ => "product".into(),
            };
            out += &format!("{using} {} <-", ty(id));
            graph.operands(id).into_iter().for_each(|o| out += &format!(" {}", ty(o)));
            out.push('\n');
        }
        out
    }

    /// Returns the fastest number of pieces for a collective and its matmuls alone, and the times
    /// of all numbers tried.
    fn choose(&self, graph: &Graph, site: &CutCandidate) -> (u64, Vec<TriedPieces>) {
        let rates = self.topology.settings();
        let timed = rates.flops().is_finite() || rates.memory().is_finite();
        if !timed || self.mesh.ranks() > cost::exact_ranks(self.topology) {
            return (1, vec![]);
        }
        let alone = as_program(graph, site);
        let Ok(again) = CutCandidate::of(&alone.0, self.mesh, alone.1, self.tasks) else {
            return (1, vec![]);
        };
        let whole = order::plan(&alone.0, 1, &|id| self.price(&alone.0, id)).serial;
        let mut tried = vec![];
        for pieces in TRIED.into_iter().filter(|k| *k <= again.most(&alone.0, self.mesh)) {
            let mut cut = alone.0.clone();
            self.cut(&mut cut, &again, pieces);
            let plan = order::plan(&cut, 1, &|id| self.price(&cut, id));
            let mut one = TriedPieces { pieces, estimated: plan.ns, simulated: None };
            if plan.ns < whole * FASTER_BY {
                one.simulated = self.simulated(&on_planned_streams(&cut, plan));
            }
            tried.push(one);
        }
        if tried.iter().all(|t| t.simulated.is_none()) {
            // No candidate could be faster, or there is no time model. Without a time model the
            // estimate decides.
            let best = tried.iter().filter(|t| t.estimated < whole * FASTER_BY && self.cx.time.is_none());
            let best = best.min_by(|a, b| a.estimated.total_cmp(&b.estimated)).map_or(1, |t| t.pieces);
            tried.insert(0, TriedPieces { pieces: 1, estimated: whole, simulated: None });
            return (best, tried);
        }
        let serial = self.simulated(&alone.0);
        let of = |t: &TriedPieces| t.simulated.unwrap_or(f64::INFINITY);
        let limit = serial.unwrap_or(f64::INFINITY) * FASTER_BY;
        let best = tried.iter().filter(|t| of(t) < limit).min_by(|a, b| of(a).total_cmp(&of(b)));
        let best = best.map_or(1, |t| t.pieces);
        tried.insert(0, TriedPieces { pieces: 1, estimated: whole, simulated: serial });
        (best, tried)
    }

    /// Cuts a collective with its matmuls. Pieces whose algorithm `select` chose get the cheapest
    /// algorithm for their size.
    fn cut(&self, graph: &mut Graph, site: &CutCandidate, k: u64) {
        let before: BTreeSet<OpId> = graph.order().iter().copied().collect();
        site.cut(graph, self.mesh, k);
        for id in graph.order().to_vec() {
            let op = graph.op(id);
            let OpKind::Collective(c) = &op.kind else { continue };
            let selected = c.using.as_ref().is_some_and(|u| u.span.is_none());
            if before.contains(&id) || !selected {
                continue;
            }
            if let Some(alg) = self.cheapest(graph, id, c)
                && let OpKind::Collective(c) = &mut graph.op_mut(id).kind
            {
                c.using = Some(alg);
            }
        }
    }

    /// Returns the algorithm with the lowest price, with default parameters, or `None` if none is
    /// cheaper than the current one.
    fn cheapest(&self, graph: &Graph, id: OpId, c: &Collective) -> Option<Using> {
        // Some cheap algorithms have no schedule for these sizes, so the result must be simulated.
        // On many ranks that takes too long.
        if self.cx.time.is_none() || self.mesh.ranks() > cost::exact_ranks(self.topology) {
            return None;
        }
        let op = graph.op(id);
        let coll = self.cx.library.find_collective(op.span.file, c.name(), op.span).ok()?;
        let mut best = (self.moved(graph, id, c)? * FASTER_BY, None);
        let library = self.cx.library;
        // Trees are packed for whole collectives only.
        let others =
            library.algorithms_of(op.span.file, coll).into_iter().filter(|a| !is_packed(library, *a));
        for alg in others {
            let name = Name::from(&library.algorithm(alg).name.node);
            let using = Using { alg: name, args: vec![], options: vec![], span: Span::NONE };
            let with = Collective { using: Some(using.clone()), ..c.clone() };
            if let Some(ns) = self.moved(graph, id, &with).filter(|ns| *ns < best.0) {
                best = (ns, Some(using));
            }
        }
        best.1
    }

    /// Returns the simulated nanoseconds of a graph, if there is a time model and the graph has a
    /// schedule.
    fn simulated(&self, graph: &Graph) -> Option<f64> {
        self.cx.time?.nanoseconds(&self.lowered(graph)?).ok()
    }

    /// Returns the same if the windows and buffers of the schedule fit into the memories of the
    /// machine. Regions on different streams share no windows, so a program that fits on one stream
    /// may not fit on several.
    fn simulated_if_it_fits(&self, graph: &Graph) -> Option<f64> {
        let module = self.lowered(graph)?;
        lay_out(module.schedule()?, self.topology, &Placements::default()).ok()?;
        self.cx.time?.nanoseconds(&module).ok()
    }

    /// Returns the schedule of a graph, if it has one.
    fn lowered(&self, graph: &Graph) -> Option<Module> {
        let mut module = Module {
            name: Name::from("overlapped"),
            machine: self.machine.clone(),
            mesh: self.mesh.clone(),
            body: Body::Graph(graph.clone()),
            props: Props::TYPED.with(Props::PLACED).with(Props::SELECTED),
            attributes: Default::default(),
        };
        let inner = self.cx.inner(Some(self.topology));
        Pipeline::named("lower").ok()?.run(&mut module, &inner, &mut []).ok()?;
        Some(module)
    }

    /// Whether an operation takes time, which is known without its price.
    fn takes_time(&self, graph: &Graph, id: OpId) -> bool {
        match &graph.op(id).kind {
            OpKind::Collective(c) if c.kind != CollKind::Slice => true,
            _ => order::local(graph, id, self.mesh, self.topology.settings()) > 0.0,
        }
    }

    /// Returns the estimated nanoseconds of an operation.
    fn price(&self, graph: &Graph, id: OpId) -> f64 {
        let rates = self.topology.settings();
        match &graph.op(id).kind {
            OpKind::Collective(c) if c.kind != CollKind::Slice => {
                order::copies(graph, id, self.mesh, rates) + self.moved(graph, id, c).unwrap_or(0.0)
            }
            _ => order::local(graph, id, self.mesh, rates),
        }
    }

    /// Returns the price of the transfers of a collective with its algorithm.
    fn moved(&self, graph: &Graph, id: OpId, c: &Collective) -> Option<f64> {
        let op = graph.op(id);
        let from = graph.operands(id).first().and_then(|o| graph.op(*o).ty.as_ref())?;
        let (using, _) = (c.using.as_ref()?, self.mesh.axis(&c.axis)?);
        let elements = line_elements(self.mesh, c, from, op.ty.as_ref()?);
        // Names mean what they mean in the file, and a part of a group is in the library.
        let parts = c.own.as_ref().map(|o| &o.part_of);
        let name = format!("{} {using:?} {} {:?} {:?} {parts:?}", c.name(), c.axis, c.root, op.span.file);
        let key = format!("{name} {elements} {}", from.dtype);
        if let Some(known) = self.prices.borrow().get(&key) {
            return Some(*known);
        }
        let file = op.span.file;
        let library = &*library_for(self.cx.library, c.own.as_deref(), file);
        let job = Job {
            library,
            topology: self.topology,
            groups: device_groups(self.mesh, std::slice::from_ref(&c.axis)),
            elements,
            element_bytes: from.dtype.bytes(),
        };
        let known = self.calls.borrow().get(&name).cloned();
        let prices = match known {
            Some(prices) => prices,
            None => {
                let prices = self.call_prices(&job, c, using, op.span).map(Rc::new);
                self.calls.borrow_mut().insert(name, prices.clone());
                prices
            }
        };
        let ns = prices?.of(&job).ok()?.ns;
        self.prices.borrow_mut().insert(key, ns);
        Some(ns)
    }

    /// Returns the prices of the call of a collective, if its algorithm fits.
    fn call_prices(&self, job: &Job<'_>, c: &Collective, using: &Using, at: Span) -> Option<CallPrices> {
        let (library, file, axis) = (job.library, at.file, self.mesh.axis(&c.axis)?);
        let coll = library.find_collective(file, c.name(), at).ok()?;
        let alg = library.find_algorithm(file, coll, &using.alg, at).ok()?;
        if is_packed(library, alg) {
            let site = PackedSite::complete(self.topology, self.mesh, c);
            let trees = site.pack(&using.args, &self.cx.packed).ok()?;
            let library = &trees.library(library, alg);
            let job = Job { library, ..job.clone() };
            let call = bound(library, file, coll, using, axis, c.root, at)?;
            return CallPrices::of_trees(&job, call, &trees).ok();
        }
        let call = bound(library, file, coll, using, axis, c.root, at)?;
        CallPrices::new(job, call).ok()
    }
}

/// Returns a graph in the order and on the streams of a plan.
fn on_planned_streams(graph: &Graph, plan: order::Plan) -> Graph {
    let mut out = graph.clone();
    out.reorder(plan.order);
    on_streams(&mut out, &plan.streams);
    out
}

/// A candidate must be at least one percent faster, to be worth its events and copies.
const FASTER_BY: f64 = 0.99;

/// Returns a collective with its matmuls as a program of its own, and the collective in it.
fn as_program(graph: &Graph, site: &CutCandidate) -> (Graph, OpId) {
    let mut out = Graph::default();
    out.name = graph.name.clone();
    let inside: Vec<OpId> =
        graph.order().iter().copied().filter(|id| *id == site.coll || site.matmuls.contains(id)).collect();
    let mut place: BTreeMap<OpId, OpId> = BTreeMap::new();
    for id in &inside {
        for o in graph.operands(*id) {
            if inside.contains(&o) || place.contains_key(&o) {
                continue;
            }
            let op = graph.op(o);
            let Some(ty) = op.ty.clone() else { continue };
            let kind = OpKind::Input(out.inputs.len());
            out.inputs.push(Input { name: op.name.clone(), ty, data: None, span: op.span });
            place.insert(o, out.push(GraphOp { kind, want: None, ..op.clone() }, &[]));
        }
    }
    for id in &inside {
        let operands: Vec<OpId> = graph.operands(*id).iter().filter_map(|o| place.get(o).copied()).collect();
        place.insert(*id, out.push(GraphOp { want: None, ..graph.op(*id).clone() }, &operands));
    }
    // Results are the values that nothing in this program uses.
    for id in &inside {
        let op = graph.op(*id);
        if inside.iter().any(|u| graph.operands(*u).contains(id)) {
            continue;
        }
        let kind = OpKind::Output(out.results.len());
        out.results.extend(op.ty.clone());
        let name = format!("{}_out", op.name).into();
        out.push(GraphOp { kind, name, ty: op.ty.clone(), want: None, span: op.span }, &[place[id]]);
    }
    (out, place[&site.coll])
}
