//! Choice between push and pull: who moves the messages of a collective, their senders or their
//! receivers.
//!
//! The choice is made on a machine whose cores read from a peer at another rate than they write to
//! one, and on a machine whose switches combine messages, where receivers fetch what they add. It
//! compares the finished schedules of the collective alone, pushed and fetched. Results are kept,
//! because layers repeat their collectives.

use super::{Chooser, SelectSite};
use crate::cost;
use crate::findings::select::{Candidate, Fetching, Transfers, Verdict};
use crate::pass::TimeModel;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::graph::{Collective, Using, UsingArg};
use kbc_ir::types::TensorType;
use std::cell::RefCell;

/// Known results, by the collective without its source location and the type of its operand.
pub(super) type TransferCache = RefCell<Vec<((Collective, TensorType), Option<Transfers>)>>;

/// Values of `pipeline` and `instances` that are tried together.
const LANES: [(i64, i64); 4] = [(4, 4), (8, 16), (16, 8), (32, 16)];
/// Number of messages from every rank to every other one, in lanes, up to which they are tried.
const MOST_MESSAGES: u64 = 1 << 16;

/// Returns a use whose messages are fetched.
fn fetched(using: &Using, how: Fetching) -> Using {
    let mut using = Using { span: Span::NONE, ..using.clone() };
    using.options.push(("transfer".into(), UsingArg::Name(how.word().into())));
    using
}

impl Chooser<'_> {
    /// Returns the times of a use pushed and fetched. Returns none if both cost the same, if there
    /// is no time model, if the program states which to use, or if one of them has no schedule.
    pub(super) fn transfers(
        &self,
        site: &SelectSite<'_>,
        using: &Using,
    ) -> Result<Option<Transfers>, Diagnostic> {
        let Some((others, time)) = self.fetching(site) else { return Ok(None) };
        if using.options.iter().any(|a| a.0 == *"transfer") {
            return Ok(None);
        }
        let plain = Using { span: Span::NONE, ..using.clone() };
        let key = (Collective { using: Some(plain.clone()), ..site.coll.clone() }, site.operand.clone());
        if let Some((_, found)) = self.transfers.borrow().iter().find(|k| k.0 == key) {
            return Ok(*found);
        }
        let mut best: Option<(Fetching, f64)> = None;
        for &other in others {
            // Few algorithms have anything that switches can add.
            if let Ok(ns) = self.simulated(site, fetched(&plain, other), time)?
                && best.is_none_or(|b| ns < b.1)
            {
                best = Some((other, ns));
            }
        }
        let found = match best {
            Some((other, fetched)) => {
                let push = self.simulated(site, plain, time)?;
                push.ok().map(|push| Transfers { push, other, fetched })
            }
            None => None,
        };
        self.transfers.borrow_mut().push((key, found));
        Ok(found)
    }

    /// Returns how receivers may fetch messages on this machine, and the time model by which that
    /// is compared. None if nothing is compared.
    fn fetching(&self, site: &SelectSite<'_>) -> Option<(&'static [Fetching], &dyn TimeModel)> {
        let settings = self.topology.settings();
        let alike = settings.cores.get_limit() == settings.cores.put_limit();
        let small = site.axis.size <= cost::exact_ranks(self.topology);
        let by_model = self.options.word("by") == Some("model");
        if !small || by_model || settings.queues().is_some() {
            return None;
        }
        // Switches add in another order than ranks, so they do not where that order is fixed.
        let adds = settings.switching().reduce
            && site.coll.red.is_some()
            && self.options.flag("sums") != Some(false)
            && !self.fixes(site.coll);
        let others: &[Fetching] = match (alike, adds) {
            (true, true) => &[Fetching::Switch],
            (false, true) => &[Fetching::Switch, Fetching::Pull],
            (false, false) => &[Fetching::Pull],
            (true, false) => return None,
        };
        Some((others, self.cx.time?))
    }

    /// Returns the algorithm that is fastest pushed or fetched among all priced algorithms, with
    /// its times. If the two are not compared, returns the cheapest. The cost model covers only
    /// pushes, so an algorithm that it finds much slower may be the fastest when fetched.
    pub(super) fn fastest(
        &self,
        site: &SelectSite<'_>,
        cheapest: &Candidate,
        candidates: &[Candidate],
    ) -> Result<(Using, Option<Transfers>), Diagnostic> {
        let mut best = (cheapest.using(), self.transfers(site, &cheapest.using())?);
        let Some((others, time)) = self.fetching(site) else { return Ok(best) };
        let sums = others.contains(&Fetching::Switch);
        let mut shortest = match best.1 {
            Some(t) => t.fastest(),
            None if !sums => return Ok(best),
            // It leaves switches nothing to add.
            None => self.simulated(site, cheapest.using(), time)?.unwrap_or(f64::INFINITY),
        };
        let priced = |c: &&Candidate| matches!(&c.verdict, Verdict::Priced(_));
        for c in candidates.iter().filter(priced) {
            let found = self.transfers(site, &c.using())?;
            if let Some(t) = found.filter(|t| t.fastest() < shortest) {
                shortest = t.fastest();
                best = (c.using(), found);
            }
            // Lanes are tried only for what is not much slower without them.
            let laned = |t: &Transfers| {
                t.other == Fetching::Switch && c.options.is_empty() && t.fetched < 2.0 * shortest
            };
            if !found.is_some_and(|t| laned(&t)) {
                continue;
            }
            for (pipeline, instances) in self.lanes(site) {
                let mut using = c.using();
                for (name, k) in [("pipeline", pipeline), ("instances", instances)] {
                    using.options.push((name.into(), UsingArg::Int(k)));
                }
                let other = Fetching::Switch;
                if let Ok(ns) = self.simulated(site, fetched(&using, other), time)?
                    && ns < shortest
                {
                    shortest = ns;
                    let push = self.simulated(site, using.clone(), time)?.unwrap_or(f64::INFINITY);
                    best = (using, Some(Transfers { push, other, fetched: ns }));
                }
            }
        }
        Ok(best)
    }

    /// Returns the values of `pipeline` and `instances` that are tried where switches add. One
    /// phase of an all-reduce keeps the links out of the ranks busy, the other one the links into
    /// them, so phases of different lanes can overlap.
    fn lanes(&self, site: &SelectSite<'_>) -> impl Iterator<Item = (i64, i64)> {
        let pairs = site.axis.size.saturating_mul(site.axis.size);
        LANES.into_iter().filter(move |(a, b)| pairs.saturating_mul((a * b) as u64) <= MOST_MESSAGES)
    }
}
