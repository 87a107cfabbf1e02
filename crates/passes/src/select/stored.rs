//! Stored rankings: the candidates of a collective that an earlier run found for the same question.
//!
//! Pricing and simulating candidates is most of the work of a short compilation, and its result
//! follows from few things. [`Chooser::question`] writes all of them as a text. The caller may keep
//! rankings by these texts ([`RankingStore`]), on disk for example; this crate knows no files. The
//! schedule of the chosen algorithm is made, proven and timed as always, whatever a store says.

use super::{Chooser, SelectSite};
use crate::findings::select::Ranking;
use crate::pass::{PassCx, RankingStore};
use kbc_diag::Diagnostic;
use kbc_ir::graph::Collective;
use std::cell::OnceCell;

impl Chooser<'_> {
    /// Returns the candidates of a collective, cheapest first, and what else was searched: from the
    /// store if it has them, else by [`Chooser::candidates`].
    pub(super) fn ranked(&self, site: &SelectSite<'_>) -> Result<Ranking, Diagnostic> {
        let Some(store) = self.cx.rankings.filter(|_| site.coll.using.is_none()) else {
            return self.candidates(site);
        };
        let question = self.question(site, store);
        if let Some(known) = store.find(&question) {
            return Ok(known);
        }
        let found = self.candidates(site)?;
        store.keep(&question, &found);
        Ok(found)
    }

    /// Returns everything that a ranking follows from, besides the code and the built-in library of
    /// kbc. All fields of the structures of this pass are listed, so that none is forgotten.
    fn question(&self, site: &SelectSite<'_>, store: &dyn RankingStore) -> String {
        let Chooser { cx, mesh, machine: _, topology: _, options, transfers: _, surroundings, finished: _ } =
            self;
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
            // It is completed without a store.
            chosen: _,
        } = cx;
        // The name of the program and of the value are texts of messages. The file decides which
        // declarations the collective sees.
        let SelectSite { graph: _, op, coll, operand, axis, id: _, file, elements } = site;
        let coll = Collective { using: None, ..(*coll).clone() };
        let around = surroundings.0.get_or_init(|| self.surroundings(store));
        let seen_from = if around.declares { format!("{file:?}") } else { String::new() };
        format!(
            "{coll:?}\n{operand:?}\n{:?}\n{elements}\n{axis:?}\n{mesh:?}\n{options}\neffort {effort:?} fixed \
             {fixed_order} time {} order {}\n{seen_from}\n{}",
            op.ty,
            time.is_some(),
            order.is_some(),
            around.digest,
        )
    }

    /// Returns what all collectives of a program have in common: the machine, and what the user's
    /// files declare.
    fn surroundings(&self, store: &dyn RankingStore) -> Surroundings {
        let declared = self.cx.library.user_declarations();
        let paces: Vec<_> = self.topology.paces().collect();
        let text = format!("{}\n{paces:?}\n{:?}\n{declared}", self.topology, self.topology.placements());
        Surroundings { digest: store.digest(&text), declares: !declared.is_empty() }
    }
}

/// What the questions of all collectives of a program have in common, once it is known.
#[derive(Default)]
pub(super) struct SurroundingsCache(OnceCell<Surroundings>);

/// The machine and the declarations of the user's files.
struct Surroundings {
    /// A digest of them.
    digest: String,
    /// Whether there are such declarations.
    declares: bool,
}
