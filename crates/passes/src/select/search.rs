//! Search beyond the default parameters of algorithms: arguments that the machine's shape suggests,
//! and trees that are packed into its links.

use super::bind::legal;
use super::{Chooser, SelectSite};
use crate::cost::{self, Job};
use crate::findings::select::{Candidate, Verdict};
use crate::packed::{CUT_MESSAGES, PackedSite, PackedUse, is_packed, refused};
use kbc_diag::Diagnostic;
use kbc_ir::Name;
use kbc_ir::graph::{Using, UsingArg};
use kbc_machine::topology::Topology;
use kbc_rounds::ast::{AlgorithmDecl, ExprKind};
use kbc_rounds::eval::Value;
use kbc_rounds::{AlgId, Call, Library, Limits, Verifier};
use std::rc::Rc;

/// Least bytes of a message for which the search cuts trees into more pieces. Many small messages
/// are much text for little time.
const LEAST_BYTES: u64 = 4096;

/// Packed trees are taken only if they need at most this share of the time of the best other
/// algorithm: their schedules are written out for every rank, so they are larger.
const WORTH: f64 = 0.95;

/// Largest number of argument lists that are tried for one algorithm.
const ARGUMENT_LISTS: usize = 16;

impl Chooser<'_> {
    /// Returns what packed trees a use asks for, if it asks for packed trees.
    ///
    /// # Errors
    /// Returns E595 if there are no such trees.
    pub(super) fn packed_use(
        &self,
        site: &SelectSite<'_>,
        alg: AlgId,
        using: &Using,
    ) -> Result<Option<Rc<PackedUse>>, Diagnostic> {
        if !is_packed(self.cx.library, alg) {
            return Ok(None);
        }
        let at = if using.span.is_none() { site.op.span } else { using.span };
        // Whoever names packed trees has them, whatever the effort.
        let messages = CUT_MESSAGES.saturating_mul(self.effort().max(1));
        let found = self.packed_site(site, messages).pack(&using.args, &self.cx.packed);
        found.map(Some).map_err(|why| refused(Some(self.topology), using, at, &why))
    }

    /// Returns the effort of the search for packed trees.
    fn effort(&self) -> u64 {
        self.cx.effort.or(self.options.count("effort")).unwrap_or(1)
    }

    fn packed_site<'s>(&'s self, site: &'s SelectSite<'_>, messages: u64) -> PackedSite<'s> {
        PackedSite {
            topology: self.topology,
            mesh: self.mesh,
            collective: site.coll,
            elements: site.elements,
            bytes: site.elements.saturating_mul(site.operand.dtype.bytes()),
            messages,
            // A pipeline without effort is one for kernels, which cannot choose routes.
            via: self.options.count("effort") != Some(0),
        }
    }

    /// Returns packed trees as a candidate. `best` is the estimate for the best other algorithm, in
    /// nanoseconds.
    pub(super) fn packed_candidate(
        &self,
        site: &SelectSite<'_>,
        (alg, job): (AlgId, &Job<'_>),
        best: f64,
    ) -> Candidate {
        let effort = self.effort();
        let mut out = Candidate {
            algorithm: Name::from(&job.library.algorithm_name(alg).node),
            arguments: vec![],
            verdict: Verdict::Unpriced,
        };
        let few = cost::exact_ranks(self.topology).min(super::SEARCHED_RANKS);
        let left = if effort == 0 {
            Some("with an effort of 0 no trees are packed".to_owned())
        } else if site.axis.size > few {
            Some(format!("not searched for more than {few} ranks"))
        } else if self.topology.settings().queues().is_some() || self.topology.is_package() {
            Some("not searched on machines with queues or packages".to_owned())
        } else {
            None
        };
        if let Some(why) = left {
            out.verdict = Verdict::Pruned(why);
            return out;
        }
        let mut from = self.packed_site(site, CUT_MESSAGES.saturating_mul(effort));
        // An all-reduce moves the vector of every rank twice; other collectives move less.
        let moved = from.bytes.saturating_mul(2 * site.axis.size);
        from.messages = from.messages.min((moved / LEAST_BYTES).max(1));
        out.verdict = match from.pack(&[], &self.cx.packed) {
            Err(why) => Verdict::Rejected(why),
            Ok(packed) if packed.ns > WORTH * best => {
                Verdict::Pruned(format!("{:.3} ns by its rounds, and others need {best:.3} ns", packed.ns))
            }
            Ok(packed) => {
                out.arguments = packed.arguments();
                let library = packed.library(job.library, alg);
                let args = values(&out.arguments);
                match legal(&library, alg, site.axis, site.coll.root, args) {
                    Err(why) => Verdict::Rejected(why),
                    Ok(call) => match cost::price(&Job { library: &library, ..job.clone() }, &call) {
                        Err(why) => Verdict::Rejected(why),
                        Ok(price) if price.ns > WORTH * best => {
                            Verdict::Pruned(format!("{:.3} ns, and others need {best:.3} ns", price.ns))
                        }
                        Ok(price) => Verdict::Priced(price),
                    },
                }
            }
        };
        out
    }

    /// Returns the argument lists with which an algorithm is tried besides its defaults: sizes that
    /// the machine's levels suggest, for its parameters that are numbers.
    pub(super) fn argument_lists(
        &self,
        site: &SelectSite<'_>,
        decl: &AlgorithmDecl,
    ) -> Vec<Vec<(Name, UsingArg)>> {
        if site.axis.size > super::SEARCHED_RANKS {
            return vec![];
        }
        let sizes = level_sizes(self.topology, site.axis.size);
        let mut lists: Vec<Vec<(Name, UsingArg)>> = vec![vec![]];
        for (param, default) in &decl.params {
            let ExprKind::Int(default) = default.kind else { continue };
            let mut longer = lists.clone();
            for &size in sizes.iter().filter(|&&s| s as i64 != default) {
                longer.extend(lists.iter().map(|list| {
                    let mut list = list.clone();
                    list.push((Name::from(&param.node), UsingArg::Int(size as i64)));
                    list
                }));
            }
            if longer.len() > ARGUMENT_LISTS + 1 {
                break;
            }
            lists = longer;
        }
        lists.retain(|list| !list.is_empty());
        lists
    }
}

/// Returns arguments that are numbers as values of an algorithm.
pub(super) fn values(args: &[(Name, UsingArg)]) -> Vec<(String, Value)> {
    let number = |(name, value): &(Name, UsingArg)| match value {
        UsingArg::Int(n) => Some((name.to_string(), Value::Int(*n))),
        UsingArg::Name(_) => None,
    };
    args.iter().filter_map(number).collect()
}

/// Returns the numbers of ranks below a level of the machine, and of one level, that divide a
/// group.
fn level_sizes(topology: &Topology, ranks: u64) -> Vec<u64> {
    let levels: Vec<u64> = topology.sizes().map(u64::from).collect();
    let mut below = 1;
    let mut out: Vec<u64> = levels.clone();
    for n in levels.iter().rev() {
        below *= n;
        out.push(below);
    }
    out.retain(|&n| n > 1 && n < ranks && ranks.is_multiple_of(n));
    out.sort_unstable();
    out.dedup();
    out
}

/// Checks whether an algorithm keeps its contract, round by round.
pub(super) fn is_right(library: &Library, call: &Call) -> bool {
    Verifier::new(library, Limits::default()).verify(call).is_ok()
}
