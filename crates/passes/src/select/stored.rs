//! Stored rankings: the candidates of a collective that an earlier run found for the same question.
//!
//! Pricing and simulating candidates is most of the work of a short compilation, and its result
//! follows from few things. [`Chooser::question`] writes all of them as a text. The caller may keep
//! rankings by these texts ([`RankingStore`](crate::RankingStore)), on disk for example; this crate
//! knows no files. The schedule of the chosen algorithm is made, proven and timed as always,
//! whatever a store says.

use super::{Chooser, SelectSite};
use crate::findings::select::Ranking;
use crate::pass::PassCx;
use kbc_diag::Diagnostic;
use kbc_ir::graph::Collective;

impl Chooser<'_> {
    /// Returns the candidates of a collective, cheapest first, and what else was searched: from the
    /// store if it has them, else by [`Chooser::candidates`].
    pub(super) fn ranked(&self, site: &SelectSite<'_>) -> Result<Ranking, Diagnostic> {
        let Some(store) = self.cx.rankings.filter(|_| site.coll.using.is_none()) else {
            return self.candidates(site);
        };
        let question = self.question(site);
        if let Some(known) = store.find(&question) {
            return Ok(known);
        }
        let found = self.candidates(site)?;
        store.keep(&question, &found);
        Ok(found)
    }

    /// Returns everything that a ranking follows from, besides the code and the built-in library of
    /// kbc. All fields are listed, so that none is forgotten.
    fn question(&self, site: &SelectSite<'_>) -> String {
        let Chooser { cx, mesh, machine: _, topology: _, options, transfers: _ } = self;
        let PassCx {
            library: _,
            topology: _,
            time,
            order,
            fixed_order,
            effort,
            // Before this pass, and for collectives that name their algorithm.
            fuse: _,
            using: _,
            // What a run has found so far changes its time and not its results.
            findings: _,
            packed: _,
            slots: _,
            rankings: _,
        } = cx;
        // The name of the program and of the value are texts of messages. The file decides what
        // the collective can see, which is among the declarations; its number is not the same in
        // every run.
        let SelectSite { graph: _, op, coll, operand, axis, id: _, file, elements } = site;
        let coll = Collective { using: None, ..(*coll).clone() };
        let declared = cx.library.user_declarations();
        let seen_from = if declared.is_empty() { String::new() } else { format!("{file:?}") };
        format!(
            "{coll:?}\n{operand:?}\n{:?}\n{elements}\n{axis:?}\n{mesh:?}\n{}\n{options}\neffort {effort:?} fixed \
             {fixed_order} time {} order {}\n{seen_from}\n{declared}",
            op.ty,
            self.machine_text(),
            time.is_some(),
            order.is_some(),
        )
    }

    /// Returns the machine as a text that differs for different machines.
    fn machine_text(&self) -> String {
        let paces: Vec<_> = self.topology.paces().collect();
        format!("{}\n{paces:?}\n{:?}", self.topology, self.topology.placements())
    }
}
