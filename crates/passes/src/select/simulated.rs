//! Finished schedules of a collective alone, with an algorithm: whether there is one, and how long
//! it takes.

use super::{Chooser, SelectSite, first, order};
use crate::cost;
use crate::findings::select::{Candidate, Verdict, called};
use crate::packed::is_packed;
use crate::pass::TimeModel;
use crate::pipeline::Pipeline;
use kbc_diag::{Diagnostic, FileId, Span};
use kbc_ir::graph::{CollKind, Collective, Graph, GraphOp, Input, OpKind, Using};
use kbc_ir::types::TensorType;
use kbc_ir::{Body, Module, Name, Props};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Candidates are close if their price is at most this multiple of the lowest price.
pub(super) const CLOSE: f64 = 1.25;

/// Largest number of candidates simulated with `by=close`.
const SIMULATED: u32 = 4;

/// Largest number of candidates simulated at once because others turned out to be slower than they.
const SETTLED: usize = 8;

impl Chooser<'_> {
    /// Returns why an algorithm has no schedule for these sizes, if it has none. Messages of packed
    /// trees go to the places from which they come, at another rank, so those have one for all
    /// sizes.
    pub(super) fn refused(&self, site: &SelectSite<'_>, using: Using) -> Result<Option<String>, Diagnostic> {
        let alg = self.cx.library.find_algorithm(site.file, site.id, &using.alg, site.op.span);
        if site.coll.kind != CollKind::AllToAll && alg.is_ok_and(|alg| is_packed(self.cx.library, alg)) {
            return Ok(None);
        }
        let expand = Pipeline::parse("expand", FileId::default()).map_err(first)?;
        let mut module = self.module(site, using);
        let inner = self.cx.inner(Some(self.topology));
        let found = expand.run(&mut module, &inner, &mut []).err();
        Ok(found.and_then(|f| f.list.into_iter().next()).map(|d| format!("{}: {}", d.code, d.title)))
    }

    /// Returns the collective alone, with an algorithm.
    pub(super) fn module(&self, site: &SelectSite<'_>, using: Using) -> Module {
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
    pub(super) fn simulate(&self, site: &SelectSite<'_>, list: &mut [Candidate]) -> Result<(), Diagnostic> {
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
        // What the search found is compared with the others, and takes no turn of theirs: the
        // choice is never slower than without the search.
        let others = || list.iter().filter(|c| !c.is_searched()).map_while(Candidate::ns);
        let limit = others().next().map_or(0.0, |best| best * CLOSE);
        let searched = list.iter().any(|c| c.is_searched() && c.ns().is_some());
        // The model lets a sender go on during a fence. Prices of many small messages are then too
        // low, so the lowest price is compared with a time even if no other is near it.
        let trusted = self.topology.settings().fence_ns() == 0.0;
        if !all && !searched && trusted && others().nth(1).is_none_or(|second| second > limit) {
            return Ok(());
        }
        let mut done = 0;
        for c in list.iter_mut() {
            let searched = c.is_searched();
            let Verdict::Priced(price) = &c.verdict else { break };
            if price.simulated.is_some() || !all && !searched && (done == SIMULATED || price.ns > limit) {
                continue;
            }
            self.simulate_one(site, c, time)?;
            done += u32::from(!searched && c.ns().is_some());
        }
        self.settle(site, list)
    }

    /// Simulates a candidate, and rejects it if it has no schedule.
    fn simulate_one(
        &self,
        site: &SelectSite<'_>,
        c: &mut Candidate,
        time: &dyn TimeModel,
    ) -> Result<(), Diagnostic> {
        let using = c.using();
        if let Verdict::Priced(price) = &mut c.verdict {
            match self.simulated(site, using, time)? {
                Ok(ns) => price.simulated = Some(ns),
                Err(why) => c.verdict = Verdict::Rejected(why),
            }
        }
        Ok(())
    }

    /// Simulates candidates whose price is below the fastest simulated time, the cheapest first and
    /// at most [`SETTLED`], and sorts all. Simulated ones come first, so nothing that may be faster
    /// should stay behind them. Without a simulated one the prices decide.
    pub(super) fn settle(&self, site: &SelectSite<'_>, list: &mut [Candidate]) -> Result<(), Diagnostic> {
        let Some(time) = self.cx.time else { return Ok(()) };
        let price = |c: &Candidate| match &c.verdict {
            Verdict::Priced(price) => Some((price.ns, price.simulated)),
            _ => None,
        };
        for _ in 0..SETTLED {
            let fastest = list.iter().filter_map(|c| price(c)?.1).reduce(f64::min);
            let Some(fastest) = fastest else { break };
            let open =
                |c: &&mut Candidate| price(c).is_some_and(|(ns, known)| known.is_none() && ns < fastest);
            let next = list.iter_mut().filter(open);
            let ns = |c: &Candidate| c.ns().unwrap_or(f64::INFINITY);
            let Some(c) = next.min_by(|a, b| ns(a).total_cmp(&ns(b))) else { break };
            self.simulate_one(site, c, time)?;
        }
        list.sort_by(order);
        Ok(())
    }

    /// Replaces the lowest estimate by the time of the finished schedule, until the lowest is none
    /// that may be too low: what is compared with it then does not seem slow.
    pub(super) fn correct_lowest(&self, site: &SelectSite<'_>, list: &mut [Candidate]) {
        let exact = site.axis.size <= cost::exact_ranks(self.topology);
        let by_time = self.options.word("by") != Some("model");
        let Some(time) = self.cx.time.filter(|_| exact && by_time) else { return };
        let lowest = |c: &&mut Candidate| c.ns().map_or(u64::MAX, f64::to_bits);
        while let Some(c) = list.iter_mut().min_by_key(lowest) {
            let using = c.using();
            let Verdict::Priced(price) = &mut c.verdict else { return };
            if !price.low {
                return;
            }
            match self.simulated(site, using, time) {
                Ok(Ok(ns)) => (price.ns, price.low) = (ns, false),
                Ok(Err(why)) => c.verdict = Verdict::Rejected(why),
                Err(d) => c.verdict = Verdict::Rejected(format!("{}: {}", d.code, d.title)),
            }
        }
    }

    /// Returns the nanoseconds of the finished schedule of this collective alone, or why it has no
    /// schedule.
    pub(super) fn simulated(
        &self,
        site: &SelectSite<'_>,
        using: Using,
        time: &dyn TimeModel,
    ) -> Result<Result<f64, String>, Diagnostic> {
        let call = called(&using.alg, &using.args, &using.options);
        if let Some(known) = self.finished.0.borrow().get(&call) {
            return Ok(known.clone());
        }
        let lower = match self.topology.settings().queues() {
            Some(_) => Pipeline::parse("expand,enqueue", Span::NONE.file).map_err(first)?,
            None => Pipeline::named("lower").map_err(first)?,
        };
        let mut module = self.module(site, using);
        let inner = self.cx.inner(Some(self.topology));
        let ns = lower.run(&mut module, &inner, &mut []).and_then(|()| time.nanoseconds(&module));
        let ns = ns.map_err(|found| {
            found.list.first().map_or(String::new(), |d| format!("{}: {}", d.code, d.title))
        });
        self.finished.0.borrow_mut().insert(call, ns.clone());
        Ok(ns)
    }
}

/// Times of the finished schedules of one collective by the calls of its algorithms, or why there
/// is no schedule. Several steps of a choice ask for the same one.
#[derive(Default)]
pub(super) struct FinishedCache(RefCell<BTreeMap<String, Result<f64, String>>>);

impl FinishedCache {
    /// Forgets everything, because another collective is looked at.
    pub fn forget(&self) {
        self.0.borrow_mut().clear();
    }
}

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
