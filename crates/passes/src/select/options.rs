//! Search of options: whether the chosen algorithm is faster in lanes that follow one another
//! (`pipeline`) or that run side by side (`instances`).
//!
//! The cost model knows no lanes, so each number is simulated. Lanes only pay where bytes or local
//! work take time: what rounds without bytes need, lanes do not shorten.

use super::bind::legal;
use super::compose::COMPOSED;
use super::search::{WORTH, values};
use super::{Chooser, SelectSite};
use crate::cost::{self, Job};
use crate::findings::select::{Candidate, SearchRecord, Verdict};
use crate::packed::is_packed;
use kbc_diag::Diagnostic;
use kbc_ir::graph::UsingArg;
use kbc_rounds::AlgId;

/// The options that are tried, with their numbers of lanes. A larger number is tried if the one
/// before it gains.
const OPTIONS: [(&str, &[i64]); 2] = [("pipeline", &[2, 4, 8]), ("instances", &[2, 4])];

/// A number of lanes must take at most this share of the time of the one before it.
const GAIN: f64 = 0.98;

/// Largest number of algorithms for which options are tried, beside compositions.
const OPTIONED: usize = 3;

/// Options are tried for algorithms that take at most this multiple of the best time. Of those that
/// take longer by the cost model, the exact price is not found.
pub(super) const NEARLY_CLOSE: f64 = 1.5;

/// The same where packed trees are the best and near the bound. A library algorithm in lanes, whose
/// schedule is smaller, may then still be a little faster.
const CLOSE_TO_PACKED: f64 = 1.25;

impl Chooser<'_> {
    /// Returns candidates with options, simulated, where they then need at most [`GAIN`] of their
    /// time: the best ones that have no packed trees, which have pieces of their own, if they are
    /// close to the first one. Nothing is tried if the best one is within [`WORTH`] of the bound
    /// and has no packed trees, or for an algorithm whose busiest link alone needs so much of the
    /// time: its lanes carry the same data. `list` is sorted; sets the simulated times of the
    /// candidates themselves.
    pub(super) fn optioned(
        &self,
        site: &SelectSite<'_>,
        job: &Job<'_>,
        list: &mut [Candidate],
        record: &mut SearchRecord,
    ) -> Result<Vec<Candidate>, Diagnostic> {
        let settings = self.topology.settings();
        let fetched = settings.cores.get_limit() != settings.cores.put_limit();
        // Lanes over queues share their slots, and who fetches is chosen for one form of a
        // schedule.
        if self.options.word("by") == Some("model") || settings.queues().is_some() || fetched {
            return Ok(vec![]);
        }
        let known = |c: &Candidate| match &c.verdict {
            Verdict::Priced(price) => Some(price.simulated.unwrap_or(price.ns)),
            _ => None,
        };
        // Compositions neither end the search nor take the place of other algorithms, which may
        // gain more in lanes.
        let composed = |c: &Candidate| c.arguments.iter().any(|a| matches!(a.1, UsingArg::Name(_)));
        let packed = |c: &Candidate| {
            let found = job.library.find_algorithm(site.file, site.id, &c.algorithm, site.op.span);
            found.is_ok_and(|alg| is_packed(job.library, alg))
        };
        let first = list.iter().filter(|c| !composed(c)).find_map(|c| Some((known(c)?, packed(c))));
        let Some((best, trees)) = first else { return Ok(vec![]) };
        let bound = record.bound.as_ref().map_or(0.0, |b| b.0);
        let near = bound > WORTH * best;
        if near && !trees {
            return Ok(vec![]);
        }
        let close = if near { CLOSE_TO_PACKED } else { NEARLY_CLOSE };
        let worth = if trees { 1.0 } else { WORTH };
        let mut out: Vec<Candidate> = vec![];
        let mut tried: [Vec<String>; 2] = [vec![], vec![]];
        for c in list {
            let composed = composed(c);
            let name = if composed { c.call() } else { c.algorithm.to_string() };
            let (tried, most) =
                (&mut tried[usize::from(composed)], if composed { COMPOSED } else { OPTIONED });
            if tried.len() == most || tried.contains(&name) {
                continue;
            }
            let Verdict::Priced(price) = &c.verdict else { continue };
            if known(c).is_none_or(|ns| ns > close * best) || price.busiest_ns > worth * best {
                continue;
            }
            let found = job.library.find_algorithm(site.file, site.id, &c.algorithm, site.op.span);
            let plain = found.ok().filter(|alg| !is_packed(job.library, *alg));
            if let Some(alg) = plain {
                tried.push(name);
                out.extend(self.in_lanes(site, job, (alg, c), (close * best, &mut *record))?);
            }
        }
        Ok(out)
    }

    /// Returns a candidate with options where they gain, unless it takes longer than `limit`
    /// nanoseconds without them.
    fn in_lanes(
        &self,
        site: &SelectSite<'_>,
        job: &Job<'_>,
        (alg, c): (AlgId, &mut Candidate),
        (limit, record): (f64, &mut SearchRecord),
    ) -> Result<Vec<Candidate>, Diagnostic> {
        let using = c.using();
        let (Some(time), Verdict::Priced(price)) = (self.cx.time, &mut c.verdict) else { return Ok(vec![]) };
        let args = values(site.file, &using.args);
        let Ok(call) = legal(job.library, alg, site.axis, site.coll.root, args) else { return Ok(vec![]) };
        let least = cost::price(&Job { elements: 0, ..job.clone() }, &call).map_or(0.0, |p| p.ns);
        if least > WORTH * price.ns {
            return Ok(vec![]);
        }
        let own = match price.simulated {
            Some(ns) => ns,
            None => match self.simulated(site, using.clone(), time)? {
                Ok(ns) => ns,
                Err(_) => return Ok(vec![]),
            },
        };
        price.simulated = Some(own);
        if own > limit {
            return Ok(vec![]);
        }
        let mut out = vec![];
        for (option, numbers) in OPTIONS {
            let mut last = own;
            for &lanes in numbers {
                let mut with = using.clone();
                with.options.push((option.into(), UsingArg::Int(lanes)));
                record.tried += 1;
                let Ok(ns) = self.simulated(site, with.clone(), time)? else { break };
                if ns > GAIN * last {
                    break;
                }
                last = ns;
                let verdict = Verdict::Priced(cost::Price { simulated: Some(ns), ..price.clone() });
                let (algorithm, arguments) = (with.alg, with.args);
                out.push(Candidate { algorithm, arguments, options: with.options, verdict });
            }
        }
        Ok(out)
    }
}
