//! Choice between push and pull: who moves the messages of a collective, their senders or their
//! receivers.
//!
//! The choice is made only on a machine whose cores read from a peer at another rate than they
//! write to one. It compares the finished schedules of the collective alone, pushed and pulled.
//! Results are kept, because layers repeat their collectives.

use super::{Chooser, SelectSite};
use crate::cost;
use crate::findings::select::{Candidate, Transfers, Verdict};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::graph::{Collective, Using, UsingArg};
use kbc_ir::types::TensorType;
use std::cell::RefCell;

/// Known results, by the collective without its source location and the type of its operand.
pub(super) type TransferCache = RefCell<Vec<((Collective, TensorType), Option<Transfers>)>>;

impl Chooser<'_> {
    /// Returns the times of a use pushed and pulled. Returns none if both cost the same, if there
    /// is no time model, if the program states which to use, or if one of them has no schedule.
    pub(super) fn transfers(
        &self,
        site: &SelectSite<'_>,
        using: &Using,
    ) -> Result<Option<Transfers>, Diagnostic> {
        let settings = self.topology.settings();
        let alike = settings.cores.get_limit() == settings.cores.put_limit();
        let small = site.axis.size <= cost::exact_ranks(self.topology);
        let said = using.options.iter().any(|a| a.0 == *"transfer");
        let by_model = self.options.word("by") == Some("model");
        let Some(time) = self.cx.time else { return Ok(None) };
        if alike || !small || said || by_model || settings.queues().is_some() {
            return Ok(None);
        }
        let plain = Using { span: Span::NONE, ..using.clone() };
        let key = (Collective { using: Some(plain.clone()), ..site.coll.clone() }, site.operand.clone());
        if let Some((_, found)) = self.transfers.borrow().iter().find(|k| k.0 == key) {
            return Ok(*found);
        }
        let mut pulled = plain.clone();
        pulled.options.push(("transfer".into(), UsingArg::Name("pull".into())));
        let found = match (self.simulated(site, plain, time)?, self.simulated(site, pulled, time)?) {
            (Ok(push), Ok(pull)) => Some(Transfers { push, pull }),
            _ => None,
        };
        self.transfers.borrow_mut().push((key, found));
        Ok(found)
    }

    /// Returns the algorithm that is fastest pushed or pulled among all priced algorithms, with its
    /// times. If the two are not compared, returns the cheapest. The cost model covers only pushes,
    /// so an algorithm that it finds much slower may be the fastest when pulled.
    pub(super) fn fastest(
        &self,
        site: &SelectSite<'_>,
        cheapest: &Candidate,
        candidates: &[Candidate],
    ) -> Result<(Using, Option<Transfers>), Diagnostic> {
        let mut best = (cheapest.using(), self.transfers(site, &cheapest.using())?);
        if best.1.is_none() {
            return Ok(best);
        }
        let priced = |c: &&Candidate| matches!(&c.verdict, Verdict::Priced(_));
        for c in candidates.iter().filter(priced) {
            let found = self.transfers(site, &c.using())?;
            if let (Some(t), Some(b)) = (found, best.1)
                && t.fastest() < b.fastest()
            {
                best = (c.using(), found);
            }
        }
        Ok(best)
    }
}
