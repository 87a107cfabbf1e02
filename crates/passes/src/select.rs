//! Selection: chooses the algorithm of each collective.
//!
//! Candidates are all algorithms of the collective that the program's file can see: its own and
//! those of the library, with default arguments. A candidate is legal if its `where` holds and if
//! it works on one axis (it then sees the linear order of the mesh axis), or on as many axes as the
//! mesh axis was joined from.
//!
//! For groups of up to 64 ranks the search goes further:
//!
//! * Parameters that are numbers are also tried with the sizes of the machine's levels: on
//!   `hierarchy(full(8), switch(4))` also `hierarchical_flat(g: 8)`. A list of links has no levels;
//!   there, runs of ranks that are linked by faster links or shorter ways than others are boxes,
//!   and their sizes are tried ([adr/097](../adr/097-rails.md)). At most 16 lists of arguments are
//!   tried for an algorithm.
//! * Of an algorithm of three axes or more, the numbers of its clauses `check` are tried in place
//!   of these sizes, at most 24 lists: there a text offers orders of its axes, `torus3(order: 3)`.
//!   The fastest order becomes a candidate if its price is lower than that of the first one. On a
//!   cube of equal links all orders are equal, and none is tried
//!   ([adr/105](../adr/105-orders-and-time-of-select.md)).
//! * The lower bound of the collective says what every schedule needs. Trees, compositions and
//!   options are not looked at where the best candidate is so near the bound that nothing can gain
//!   5 %.
//! * Trees are packed into the links of the machine (`packed`,
//!   [adr/077](../adr/077-packed-uses.md)). They are taken if they need at most 95 % of the time of
//!   the best other algorithm, because their schedules are written out for every rank. If the
//!   estimate of their rounds is longer than that, they are not looked at any further. The option
//!   `effort` says how many messages they may have; on average a message has at least 256 bytes. As
//!   long as each doubling of the pieces gains 3 %, or 1 % where the plan is over 5 % longer than
//!   the busiest link is busy, they may have eight times as many
//!   ([adr/099](../adr/099-more-pieces.md),
//!   [adr/102](../adr/102-receipts-that-wait-for-nothing.md)). Where the estimate does not hold,
//!   trees of other kinds and 1, 2, 4 or 8 trees per root are priced as well
//!   ([adr/096](../adr/096-time-of-the-search.md)), and 2, 8 or 32 matched trees of an all-reduce.
//!   The numbers per root are also priced where messages name relays and the plan takes over 5 %
//!   longer than its busiest link is busy.
//! * Parameters that are algorithms are tried with the other algorithms of the same collective
//!   ([adr/088](../adr/088-search-of-compositions.md)): `two_phase(first: ring, then: bruck)`. The
//!   search starts from the best arguments that are known, and changes one parameter after another.
//!   The two best compositions that are estimated to need at most 105 % of the time of everything
//!   else are simulated, because the estimate knows no lanes. The option `effort` says how many
//!   messages the compositions may have.
//! * The three best algorithms without packed trees, and these compositions, are simulated with the
//!   options `pipeline` and `instances`, which are taken if they gain 2 %. Their prices and times
//!   may be up to 1.5 times the best time. An algorithm whose busiest link alone needs 95 % of that
//!   time is left out, because lanes carry the same data ([adr/120](../adr/120-trees-in-turn.md)).
//! * If nothing is within 5 % of the bound then, packed trees are looked at once more: also those
//!   that are taken with more pieces or for a smaller gain, if they are within 5 % of the bound
//!   ([adr/104](../adr/104-second-look-at-trees.md)).
//!
//! For groups of 65 to 128 ranks, trees are packed once if the best other algorithm takes at least
//! twice the bound, and nothing else is searched.
//!
//! For targets that emit kernels the effort is 0, and only numbers are searched: a kernel of
//! thousands of messages takes minutes to emit. The program can name what it wants there. With a
//! fixed order of additions no compositions and options are tried either, because what is best
//! depends on the size.
//!
//! A simulation by the cost model ends when it is known that the algorithm takes half as long again
//! as the cheapest so far whose estimate is not a low one.
//!
//! The cost model (`cost.rs`) prices the legal candidates on the machine. Without a machine, every
//! rank is assumed to be linked with every other. The option `by` states what decides:
//!
//! * `by=close`: for groups of up to 128 ranks (256 in a package), the candidates that cost at most
//!   a quarter more than the cheapest, and at most four of them, are lowered to finished schedules
//!   of the collective alone and simulated with the time model of the driver. The fastest is taken.
//!   So are others whose price is below the fastest of these times. For larger groups the prices
//!   decide.
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
//! names an algorithm without stating `transfer`, it does so for this algorithm. On a machine whose
//! switches add (`switch: reduce`), it compares push with `transfer: switch` in the same way for
//! collectives that reduce, and tries some values of `pipeline` and `instances` with it. On other
//! machines, above the limit of ranks, and with `by=model`, messages are pushed.
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

mod again;
mod bind;
mod compose;
mod fixed;
mod local;
mod options;
mod search;
mod simulated;
mod stored;
mod transfer;

pub(crate) use bind::bound;
pub use bind::{bind, sizes_on};

use crate::cost::{self, Job, Price};
use crate::findings::select::{Candidate, Ranking, SearchRecord, SelectTable, Selection, Verdict};
use crate::groups::device_groups;
use crate::part_of::library_for;
use crate::pass::{Changed, OptionKind, Options, Pass, PassCx, PassInfo, PassOption, graph_of};
use bind::legal;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_ir::contract_sides::{HeldPart, sides};
use kbc_ir::graph::{CollKind, Collective, Graph, GraphOp, Holding, OpId, OpKind, Using, UsingArg};
use kbc_ir::types::{Axis, Cut, CutRule, Mesh, TensorType};
use kbc_ir::{Body, Module, Name, Props};
use kbc_machine::topology::Topology;
use kbc_rounds::head::algorithm_valued;
use kbc_rounds::{AlgId, CollId, Library, Limits, Verifier};
use options::NEARLY_CLOSE;
use search::PackedGain;
use simulated::FinishedCache;
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
            summary: "the search: 0 packs no trees and composes nothing, k cuts trees up to about 16,384 k messages and composes algorithms of 262,144 k",
            kind: OptionKind::Count { least: 0, most: MOST_EFFORT },
            default: "1",
        },
        PassOption {
            name: "sums",
            summary: "whether the target lets switches add, so that `transfer: switch` is compared",
            kind: OptionKind::Flag,
            default: "true",
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
        let (known, finished) = (transfer::TransferCache::default(), FinishedCache::default());
        let chooser = Chooser {
            cx,
            mesh: &mesh,
            machine,
            topology,
            options: &self.options,
            transfers: &known,
            surroundings: &Default::default(),
            finished: &finished,
        };
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
    /// What the questions to a store of rankings have in common.
    surroundings: &'a stored::SurroundingsCache,
    /// Times of finished schedules of the collective that is looked at.
    finished: &'a FinishedCache,
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
        self.finished.forget();
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
            options: vec![],
            search: SearchRecord::default(),
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
                let (options, verdict) = (vec![], Verdict::Unpriced);
                entry.candidates.push(Candidate { algorithm, arguments, options, verdict });
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
        Ranking { candidates: entry.candidates, search: entry.search } = match twin {
            Some(t) => Ranking { candidates: t.candidates.clone(), search: t.search.clone() },
            None => match self.earlier(&entry, known) {
                Some(earlier) => self.completed(&site, earlier)?,
                None => self.ranked(&site)?,
            },
        };
        if c.using.is_none() {
            let Some(best) = entry.candidates.first().filter(|c| matches!(c.verdict, Verdict::Priced(_)))
            else {
                return Err(nothing_fits(&entry, op.span, self.fixes(c)));
            };
            let (fastest, transfers) = self.fastest(&site, best, &entry.candidates)?;
            (entry.chosen, entry.arguments, entry.options) = (fastest.alg, fastest.args, fastest.options);
            entry.transfers = transfers;
        }
        Ok(entry)
    }

    /// Returns the collective as a job for the cost model, on a library that knows it.
    fn job<'s>(&'s self, site: &SelectSite<'_>, library: &'s Library) -> Job<'s> {
        Job {
            library,
            topology: self.topology,
            groups: device_groups(self.mesh, std::slice::from_ref(&site.coll.axis)),
            elements: site.elements,
            element_bytes: site.operand.dtype.bytes(),
        }
    }

    /// Returns all algorithms of the collective with their prices, cheapest first, and what else
    /// was searched.
    fn candidates(&self, site: &SelectSite<'_>) -> Result<Ranking, Diagnostic> {
        let library = &*library_for(self.cx.library, site.coll.own.as_deref(), site.file);
        let job = self.job(site, library);
        let (packed, others): (Vec<AlgId>, Vec<AlgId>) = library
            .algorithms_of(site.file, site.id)
            .into_iter()
            .partition(|&alg| crate::packed::is_packed(library, alg));
        let mut record = SearchRecord { skipped: self.unsearched(site), ..SearchRecord::default() };
        let mut out = self.priced(site, &job, &others, &mut record);
        self.correct_lowest(site, &mut out);
        out.sort_by(order);
        if record.skipped.is_none() {
            record.bound = job.groups.first().and_then(|group| self.least(site, group));
        }
        let bound = record.bound.as_ref().map_or(0.0, |b| b.0);
        let best = |out: &[Candidate]| out.iter().filter_map(Candidate::ns).fold(f64::INFINITY, f64::min);
        let unpacked = best(&out);
        for &alg in &packed {
            out.push(self.packed_candidate(site, (alg, &job), (unpacked, bound), PackedGain::Large));
        }
        if record.skipped.is_none() && bound < search::WORTH * best(&out) {
            let (composed, found) = self.compositions(site, &job, (&others, &out), record);
            out.extend(composed);
            record = found;
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
        if record.skipped.is_none() {
            let more = self.optioned(site, &job, &mut out, &mut record)?;
            out.extend(more);
            // They are simulated, and the best so far may not be.
            self.settle(site, &mut out)?;
            out.sort_by(order);
            self.look_again(site, (&packed, &job), bound, &mut out)?;
        }
        Ok(Ranking { candidates: out, search: record })
    }

    /// Returns algorithms with their prices: with default arguments, and with numbers that the
    /// machine suggests. Of those that are far from the best so far the exact price is not found.
    fn priced(
        &self,
        site: &SelectSite<'_>,
        job: &Job<'_>,
        algs: &[AlgId],
        record: &mut SearchRecord,
    ) -> Vec<Candidate> {
        let library = job.library;
        let close = self.options.word("by").unwrap_or("close") == "close";
        let cores = self.topology.settings().cores;
        let explain = self.options.flag("explain").unwrap_or(false);
        // Where messages may be fetched, or another size decides, far ones are looked at as well.
        let prunes = close && !explain && !self.fixes(site.coll) && cores.get_limit() == cores.put_limit();
        let mut best = f64::INFINITY;
        let mut out = vec![];
        let mut verifier = Verifier::new(library, Limits::default());
        for &alg in algs {
            let decl = library.algorithm(alg);
            let algorithm = Name::from(&decl.name.node);
            // Compositions start from the price of an algorithm, however high.
            let composes = algorithm_valued(decl, library).contains(&true);
            let mut price = |arguments: Vec<(Name, UsingArg)>, most: f64| {
                let args = search::values(site.file, &arguments);
                let limit = if prunes && !composes { NEARLY_CLOSE * best } else { most };
                let verdict = match legal(library, alg, site.axis, site.coll.root, args) {
                    Err(why) => Verdict::Rejected(why),
                    Ok(call) => match cost::price_below(job, &call, limit) {
                        Err(why) => Verdict::Rejected(why),
                        // Nobody said that the algorithm is right with these arguments: a ring
                        // whose steps have a factor in common with its size leaves ranks out.
                        Ok((Some(_), _)) if !arguments.is_empty() && verifier.verify(&call).is_err() => {
                            Verdict::Rejected("it breaks its contract".into())
                        }
                        Ok((Some(price), _)) => Verdict::Priced(price),
                        Ok((None, _)) => Verdict::Pruned(format!(
                            "its rounds take more than {limit:.3} ns, and others need {best:.3} ns"
                        )),
                    },
                };
                // What is far from an estimate that is too low may be near the time.
                if let Verdict::Priced(price) = &verdict
                    && !price.low
                {
                    best = best.min(price.ns);
                }
                Candidate { algorithm: algorithm.clone(), arguments, options: vec![], verdict }
            };
            out.push(price(vec![], f64::INFINITY));
            // Another order of the axes is listed where it is faster than the first one.
            let orders = search::orders_of_axes(self.topology, site, decl);
            let first = out.last().and_then(Candidate::ns).unwrap_or(f64::INFINITY);
            record.orders += orders.len() as u64;
            let faster = orders.into_iter().map(|list| price(list, search::FASTER_ORDER * first));
            let faster = faster.filter(|c| c.ns().is_some_and(|ns| ns < search::FASTER_ORDER * first));
            out.extend(faster.min_by(order));
            // Other arguments are listed where they are legal and right.
            let group = job.groups.first().map_or(&[][..], |g| g);
            let more =
                self.argument_lists(site, group, decl).into_iter().map(|list| price(list, f64::INFINITY));
            out.extend(more.filter(|c| matches!(c.verdict, Verdict::Priced(_))));
        }
        out
    }

    /// Returns why neither compositions nor options are searched for a collective, if they are not.
    fn unsearched(&self, site: &SelectSite<'_>) -> Option<String> {
        if self.effort() == 0 {
            return Some("the effort is 0".into());
        }
        if site.axis.size > SEARCHED_RANKS {
            return Some(format!("there are more than {SEARCHED_RANKS} ranks"));
        }
        // What is found depends on the size, and a fixed order must not.
        self.fixes(site.coll).then(|| "the order of additions is fixed".into())
    }
}

fn first(found: Diagnostics) -> Diagnostic {
    let none = || Diagnostic::error("E901", "a pipeline failed without a message");
    found.list.into_iter().next().unwrap_or_else(none)
}

/// Largest number of ranks of a group for which arguments and packed trees are searched.
const SEARCHED_RANKS: u64 = 64;

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
/// then by fewer arguments, then by name; rejected ones last.
fn order(a: &Candidate, b: &Candidate) -> Ordering {
    let by_name = a
        .algorithm
        .cmp(&b.algorithm)
        .then_with(|| a.numbers().cmp(&b.numbers()))
        .then_with(|| a.call().cmp(&b.call()));
    match (&a.verdict, &b.verdict) {
        (Verdict::Priced(x), Verdict::Priced(y)) => {
            // Whole picoseconds, so that rounding errors of different sums do not decide.
            let whole = |p: &Price| (p.simulated.unwrap_or(p.ns) * 1e3).round();
            let apart = y.simulated.is_some().cmp(&x.simulated.is_some());
            let simple = a.arguments.len().cmp(&b.arguments.len());
            let rounds = x.rounds.cmp(&y.rounds);
            apart.then(whole(x).total_cmp(&whole(y))).then(rounds).then(simple).then(by_name)
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
