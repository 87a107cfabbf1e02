//! Second looks: a ranking that is completed to be explained, and trees that gain little.

use super::search::{self, PackedGain};
use super::{Chooser, SelectSite, order};
use crate::cost::Job;
use crate::findings::select::{Candidate, Ranking, SearchRecord, SelectTable, Selection, Verdict};
use crate::part_of::library_for;
use kbc_diag::Diagnostic;
use kbc_rounds::AlgId;

impl Chooser<'_> {
    /// Returns what `select` has found for the next collective of the same program, if a ranking.
    pub(super) fn earlier(&self, entry: &Selection, known: &SelectTable) -> Option<&Selection> {
        let earlier = self.cx.chosen?.entries.get(known.entries.len())?;
        let same = (&earlier.value, &earlier.kind, earlier.bytes) == (&entry.value, &entry.kind, entry.bytes);
        let ranked = earlier.candidates.iter().all(|c| c.verdict != Verdict::Unpriced);
        (same && ranked && self.options.flag("explain").unwrap_or(false)).then_some(earlier)
    }

    /// Returns an earlier ranking with the algorithms that it left out, or whose schedules it did
    /// not simulate.
    pub(super) fn completed(
        &self,
        site: &SelectSite<'_>,
        earlier: &Selection,
    ) -> Result<Ranking, Diagnostic> {
        let library = &*library_for(self.cx.library, site.coll.own.as_deref(), site.file);
        let job = self.job(site, library);
        let mut others = library.algorithms_of(site.file, site.id);
        others.retain(|&alg| !crate::packed::is_packed(library, alg));
        let mut out = self.priced(site, &job, &others, &mut SearchRecord::default());
        let mut found = earlier.candidates.clone();
        if self.options.word("by") == Some("model") {
            // Nothing is simulated here, and times would be compared with estimates.
            for c in &mut found {
                if let Verdict::Priced(price) = &mut c.verdict {
                    price.simulated = None;
                }
            }
        }
        for c in &found {
            match out.iter_mut().find(|o| o.call() == c.call()) {
                None => out.push(c.clone()),
                Some(own) => match (&mut own.verdict, &c.verdict) {
                    (Verdict::Priced(own), Verdict::Priced(known)) => own.simulated = known.simulated,
                    (own, Verdict::Rejected(why)) => *own = Verdict::Rejected(why.clone()),
                    _ => {}
                },
            }
        }
        out.sort_by(order);
        self.keep_fixed(site, &job, &mut out)?;
        out.sort_by(order);
        self.simulate(site, &mut out)?;
        out.sort_by(order);
        Ok(Ranking { candidates: out, search: earlier.search.clone() })
    }

    /// Looks at packed trees once more where no other algorithm is within 5 % of the bound, with
    /// options or without: trees that are then gain less than 5 %, and are taken all the same.
    /// `list` is sorted, and stays so.
    pub(super) fn look_again(
        &self,
        site: &SelectSite<'_>,
        (packed, job): (&[AlgId], &Job<'_>),
        bound: f64,
        list: &mut [Candidate],
    ) -> Result<(), Diagnostic> {
        let Some(Verdict::Priced(best)) = list.first().map(|c| &c.verdict) else { return Ok(()) };
        let (ns, compared) = (best.simulated.unwrap_or(best.ns), best.simulated.is_some());
        if bound <= 0.0 || bound > search::WORTH * ns {
            return Ok(());
        }
        let near = |t: f64| t < ns && t <= PackedGain::NearBound.most(ns, bound);
        for c in list.iter_mut().filter(|c| matches!(c.verdict, Verdict::Pruned(_))) {
            let named = |alg: &&AlgId| job.library.algorithm_name(**alg).node == c.algorithm.as_str();
            let Some(&alg) = packed.iter().find(named) else { continue };
            let mut found = self.packed_candidate(site, (alg, job), (ns, bound), PackedGain::NearBound);
            let using = found.using();
            let Verdict::Priced(price) = &mut found.verdict else { continue };
            if let Some(time) = self.cx.time.filter(|_| compared) {
                match self.simulated(site, using, time)? {
                    Ok(simulated) if near(simulated) => price.simulated = Some(simulated),
                    _ => continue,
                }
            } else if !near(price.ns) || self.refused(site, using)?.is_some() {
                continue;
            }
            *c = found;
        }
        list.sort_by(order);
        Ok(())
    }
}
