//! Who moves the messages of a collective: their senders, or their receivers.
//!
//! Asked only where the machine says that its cores read a peer at another rate than they write to one; what is compared is the finished schedule of the
//! collective alone, pushed and pulled. Layers repeat their collectives, so what was found is kept.

use super::{Candidate, Chooser, Selection, Site, Transfers, Verdict, named};
use crate::cost;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::graph::{Collective, Using, UsingArg};
use kbc_ir::types::TensorType;
use std::cell::RefCell;

/// What has been found: collectives with their operands' types, without their places.
pub(super) type Known = RefCell<Vec<((Collective, TensorType), Option<Transfers>)>>;

impl Chooser<'_> {
    /// Times of a use pushed and pulled; none where both cost alike, nothing simulates, the program has said which, or one of them has no schedule.
    pub(super) fn transfers(&self, site: &Site<'_>, using: &Using) -> Result<Option<Transfers>, Diagnostic> {
        let settings = self.topology.settings();
        let alike = settings.cores.getting() == settings.cores.putting();
        let small = site.axis.size <= cost::exact_ranks(self.topology);
        let said = using.args.iter().any(|a| a.0 == *"transfer");
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
        pulled.args.push(("transfer".into(), UsingArg::Name("pull".into())));
        let found = match (self.simulated(site, plain, time)?, self.simulated(site, pulled, time)?) {
            (Ok(push), Ok(pull)) => Some(Transfers { push, pull }),
            _ => None,
        };
        self.transfers.borrow_mut().push((key, found));
        Ok(found)
    }

    /// Of all algorithms that are priced the one that is fastest pushed or pulled, with its times; the cheapest where nobody asks. The model of rounds knows pushes
    /// alone, so what it finds far off may be the best when it is pulled.
    pub(super) fn fastest(
        &self,
        site: &Site<'_>,
        entry: &Selection,
    ) -> Result<(Name, Option<Transfers>), Diagnostic> {
        let mut best = (entry.chosen.clone(), self.transfers(site, &named(&entry.chosen))?);
        if best.1.is_none() {
            return Ok(best);
        }
        let priced = |c: &&Candidate| matches!(&c.verdict, Verdict::Priced(_));
        for c in entry.candidates.iter().filter(priced) {
            let found = self.transfers(site, &named(&c.algorithm))?;
            if let (Some(t), Some(b)) = (found, best.1)
                && t.fastest() < b.fastest()
            {
                best = (c.algorithm.clone(), found);
            }
        }
        Ok(best)
    }
}
