//! Search beyond the default parameters of algorithms: arguments that the machine's shape suggests,
//! and trees that are packed into its links.

use super::bind::legal;
use super::{Chooser, SelectSite};
use crate::cost::{self, Job, Price};
use crate::findings::select::{Candidate, Verdict};
use crate::packed::{
    MessageLimit, PackedSite, PackedUse, TreeMethod, is_packed, names_trees, refused, without_pieces,
};
use kbc_diag::{Diagnostic, FileId};
use kbc_ir::Name;
use kbc_ir::graph::{CollKind, Using, UsingArg};
use kbc_ir::types::{Cut, CutRule, TensorType};
use kbc_machine::bounds::{Problem, Sizes, bound};
use kbc_machine::topology::{DeviceId, Shape, Topology};
use kbc_rounds::ast::{AlgorithmDecl, Expr, ExprKind, Ident};
use kbc_rounds::eval::{AlgRef, Value};
use kbc_rounds::{AlgId, Call, Library, Limits, Verifier};
use std::rc::Rc;
use std::sync::Arc;

/// Least bytes of a message for which the search cuts trees into more pieces. Many small messages
/// are much text for little time.
const LEAST_BYTES: u64 = 256;

/// Packed trees are taken only if they need at most this share of the time of the best other
/// algorithm: their schedules are written out for every rank, so they are larger. The same share
/// decides whether a composition or an option is worth a simulation.
pub(super) const WORTH: f64 = 0.95;

/// Trees whose plan takes longer than this multiple of the time of other algorithms are not looked
/// at any further: more pieces do not gain so much.
const HOPELESS: f64 = 1.25;

/// What packed trees must gain to be taken. Their schedules are written out for every rank, so they
/// are larger than others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PackedGain {
    /// At least 5 % against the best other algorithm.
    Large,
    /// That, or anything that brings the time within 5 % of the bound, where nothing else is.
    NearBound,
}

impl PackedGain {
    /// Returns the longest time with which trees are taken, where the best other algorithm takes
    /// `best` nanoseconds.
    pub(super) fn most(self, best: f64, bound: f64) -> f64 {
        match self {
            PackedGain::Large => WORTH * best,
            PackedGain::NearBound => best.min(bound / WORTH).max(WORTH * best),
        }
    }

    /// Returns the longest price with which trees are a candidate: an estimate, which is compared
    /// with the finished schedule before trees of little gain are taken.
    fn most_estimated(self, best: f64, bound: f64) -> f64 {
        match self {
            PackedGain::Large => self.most(best, bound),
            PackedGain::NearBound => best.min(ESTIMATED * self.most(best, bound)),
        }
    }

    /// Returns the longest plan with which trees are looked at any further.
    fn hopeful(self, best: f64) -> f64 {
        match self {
            PackedGain::Large => WORTH * best,
            PackedGain::NearBound => HOPELESS * best,
        }
    }
}

/// The estimate of a plan of trees holds if the cost model gives at most this share of it.
const ESTIMATED: f64 = 1.02;

/// A plan is far from its busiest link if it takes more than this multiple of the time for which
/// that link is busy.
const FAR_FROM_LINK: f64 = 1.05;

/// Numbers of trees per root that are priced where the estimates of plans do not hold: with fewer
/// trees, each is cut into more pieces.
const TREE_NUMBERS: [u64; 4] = [1, 2, 4, 8];

/// Numbers of matched trees of an all-reduce that are priced there.
const MATCHED_NUMBERS: [u64; 3] = [2, 8, 32];

/// Numbers of spanning trees of an all-reduce that are priced there.
const SPANNING_NUMBERS: [u64; 3] = [4, 8, 16];

/// On more than [`super::SEARCHED_RANKS`] ranks one packing is tried, if the best other algorithm
/// takes at least this multiple of the bound.
const FAR_FROM_BOUND: f64 = 2.0;

/// Trees that are tried in more pieces than usual.
#[derive(Clone, Copy)]
enum OtherTrees {
    /// Those that are best so far.
    Best,
    /// Those of the best rate.
    BestRate,
    /// Spanning trees at the highest rate that is found.
    Spanning,
}

/// Another number of trees is taken if it needs at most this share of the time.
const OTHER_NUMBER: f64 = 0.98;

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
        let messages = MessageLimit::of_effort(self.effort().max(1));
        let found = self.packed_site(site, messages).pack(&using.args, &self.cx.packed);
        found.map(Some).map_err(|why| refused(Some(self.topology), using, at, &why))
    }

    /// Returns the effort of the search.
    pub(super) fn effort(&self) -> u64 {
        self.cx.effort.or(self.options.count("effort")).unwrap_or(1)
    }

    /// Returns what every schedule of the collective needs on the machine, in nanoseconds with the
    /// reason, if bounds cover it. Other groups, which run at the same time, do not count.
    pub(super) fn least(&self, site: &SelectSite<'_>, group: &[DeviceId]) -> Option<(f64, String)> {
        let kind = site.coll.kind;
        kind.movement()?;
        let ragged = |ty: &TensorType| {
            ty.dims.iter().any(|d| matches!(&d.cut, Some(Cut { rule: CutRule::Lengths(_), .. })))
        };
        if ragged(&site.operand) || site.op.ty.as_ref().is_some_and(ragged) {
            return None;
        }
        let (p, width) = (site.axis.size, site.operand.dtype.bytes());
        // Blocks that differ by an element: those of an all-to-all count with what all have.
        let whole = if kind == CollKind::AllToAll { site.elements / p * p } else { site.elements };
        let mut problem = Problem::new(kind, whole.saturating_mul(width), group.to_vec()).element(width);
        if let Some(root) = site.coll.root {
            problem = problem.root(usize::try_from(root).ok()?);
        }
        if kind.blocked() && !whole.is_multiple_of(p) {
            problem = problem.sizes(Sizes::cut(whole, width, group.len()));
        }
        let bound = bound(self.topology, &problem).ok()?;
        Some((bound.ns, bound.bottleneck))
    }

    fn packed_site<'s>(&'s self, site: &'s SelectSite<'_>, messages: MessageLimit) -> PackedSite<'s> {
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
    /// nanoseconds, and `bound` what every schedule needs.
    pub(super) fn packed_candidate(
        &self,
        site: &SelectSite<'_>,
        (alg, job): (AlgId, &Job<'_>),
        (best, bound): (f64, f64),
        gain: PackedGain,
    ) -> Candidate {
        let most = gain.most_estimated(best, bound);
        let effort = self.effort();
        let mut out = Candidate {
            algorithm: Name::from(&job.library.algorithm_name(alg).node),
            arguments: vec![],
            options: vec![],
            verdict: Verdict::Unpriced,
        };
        let few = cost::exact_ranks(self.topology).min(super::SEARCHED_RANKS);
        let many = cost::exact_ranks(self.topology);
        let large = site.axis.size > few;
        let left = if effort == 0 {
            Some("with an effort of 0 no trees are packed".to_owned())
        } else if site.axis.size > many {
            Some(format!("not searched for more than {many} ranks: a program may name it"))
        } else if large && best < FAR_FROM_BOUND * bound {
            Some(format!(
                "not searched for more than {few} ranks where others need less than twice the bound"
            ))
        } else if self.topology.settings().queues().is_some() || self.topology.is_package() {
            Some("not searched on machines with queues or packages".to_owned())
        } else if bound > WORTH * best {
            Some(format!("every schedule takes {bound:.3} ns or more, and others need {best:.3} ns"))
        } else {
            None
        };
        if let Some(why) = left {
            out.verdict = Verdict::Pruned(why);
            return out;
        }
        let mut from = self.packed_site(site, MessageLimit::of_effort(effort));
        // An all-reduce moves the vector of every rank twice; other collectives move less.
        let moved = from.bytes.saturating_mul(2 * site.axis.size);
        let limit = from.messages.at_most((moved / LEAST_BYTES).max(1));
        // Where nothing else is tried, this is what a program would get that names packed trees.
        from.messages = if large { limit } else { limit.usual() };
        let search = from.search(&self.cx.packed);
        let packed = match search.pack(&[]) {
            Err(why) => {
                out.verdict = Verdict::Rejected(why);
                return out;
            }
            Ok(packed)
                if packed.ns > gain.hopeful(best)
                    || packed.least_ns > most
                    || limit.most <= limit.usual && packed.ns > most =>
            {
                let why = format!("{:.3} ns by its rounds, and others need {best:.3} ns", packed.ns);
                out.verdict = Verdict::Pruned(why);
                return out;
            }
            Ok(packed) => packed,
        };
        out.arguments = packed.arguments();
        let first = self.price_of_packed(site, (alg, job), &packed, f64::INFINITY);
        let mut price = first.and_then(|price| price.ok_or_else(|| "it takes infinitely long".into()));
        // Trees of another kind may be faster where the estimate of the fastest does not hold.
        // Plans know no cores that send, so there a difference says nothing about the kind.
        let cores = self.topology.settings().cores.put_limit().is_some();
        let improvable = !cores && !large && price.as_ref().is_ok_and(|p| p.ns > bound / WORTH);
        let misjudged = improvable && price.as_ref().is_ok_and(|p| p.ns > packed.ns * ESTIMATED);
        // Where messages name relays, many trees wait for each other, although the plan knows it:
        // fewer trees in more pieces may come nearer to the busiest link.
        let waits = improvable && packed.via && packed.ns > packed.least_ns * FAR_FROM_LINK;
        let mut improve = |other: &PackedUse, share: f64| {
            let known = price.as_ref().map_or(f64::INFINITY, |p| p.ns);
            let limit = share * known;
            if other.ns >= limit || other.arguments() == out.arguments {
                return known;
            }
            if let Ok(Some(faster)) = self.price_of_packed(site, (alg, job), other, limit)
                && faster.ns < limit
            {
                out.arguments = other.arguments();
                price = Ok(faster.clone());
                return faster.ns;
            }
            known
        };
        if misjudged || waits {
            let kinds = if misjudged { search.pack_kinds() } else { vec![packed.clone()] };
            let mut known = kinds.iter().map(|other| improve(other, 1.0)).last().unwrap_or(f64::INFINITY);
            for trees in TREE_NUMBERS {
                if known > bound / WORTH
                    && let Ok(other) = search.pack_number(TreeMethod::Trees, trees)
                {
                    known = improve(&other, OTHER_NUMBER);
                }
            }
            let reduces = misjudged && site.coll.kind == CollKind::AllReduce;
            let matched = MATCHED_NUMBERS.map(|trees| (TreeMethod::Greedy, trees));
            let spanning = SPANNING_NUMBERS.map(|trees| (TreeMethod::Spanning, trees));
            for (method, trees) in matched.into_iter().chain(spanning).filter(|_| reduces) {
                if known > bound / WORTH
                    && let Ok(other) = search.pack_number(method, trees)
                {
                    known = improve(&other, OTHER_NUMBER);
                }
            }
        }
        // More pieces than usual of the trees that are best so far; then of the trees of the best
        // rate where those are others, which need fewer pieces; then of spanning trees. A plan is
        // far from its price on some machines, so the price decides.
        let more = PackedSite { messages: limit, ..from }.search(&self.cx.packed);
        let reduces = site.coll.kind == CollKind::AllReduce;
        for other in [OtherTrees::Best, OtherTrees::BestRate, OtherTrees::Spanning] {
            let known = price.as_ref().map_or(f64::INFINITY, |p| p.ns);
            if large || limit.most <= limit.usual || known <= bound / WORTH {
                break;
            }
            let found = match other {
                OtherTrees::Best => more.pack(&without_pieces(&out.arguments)).ok(),
                OtherTrees::BestRate if names_trees(&out.arguments) => more.pack_trees().ok(),
                OtherTrees::Spanning if reduces => more.pack_spanning(),
                OtherTrees::BestRate | OtherTrees::Spanning => None,
            };
            // Any gain counts that brings the time near the bound.
            let gains = |ns: f64| ns < if ns <= bound / WORTH { known } else { OTHER_NUMBER * known };
            let faster = found.filter(|m| gains(m.ns) && m.arguments() != out.arguments);
            if let Some(faster) = faster
                && let Ok(Some(found)) = self.price_of_packed(site, (alg, job), &faster, known)
                && gains(found.ns)
            {
                out.arguments = faster.arguments();
                price = Ok(found);
            }
        }
        out.verdict = match price {
            Err(why) => Verdict::Rejected(why),
            Ok(price) if price.ns > most => {
                Verdict::Pruned(format!("{:.3} ns, and others need {best:.3} ns", price.ns))
            }
            Ok(price) => Verdict::Priced(price),
        };
        out
    }

    /// Returns the price of packed trees by the cost model, if it is at most `limit` nanoseconds,
    /// or why they cannot be used.
    fn price_of_packed(
        &self,
        site: &SelectSite<'_>,
        (alg, job): (AlgId, &Job<'_>),
        packed: &PackedUse,
        limit: f64,
    ) -> Result<Option<Price>, String> {
        let library = packed.library(job.library, alg);
        let args = values(site.file, &packed.arguments());
        let call = legal(&library, alg, site.axis, site.coll.root, args)?;
        let job = Job { library: &library, ..job.clone() };
        Ok(cost::price_below(&job, &call, limit)?.0)
    }

    /// Returns the argument lists with which an algorithm of one or two axes is tried besides its
    /// defaults: sizes that the machine's levels and boxes suggest, for its parameters that are
    /// numbers.
    pub(super) fn argument_lists(
        &self,
        site: &SelectSite<'_>,
        group: &[DeviceId],
        decl: &AlgorithmDecl,
    ) -> Vec<Vec<(Name, UsingArg)>> {
        if site.axis.size > super::SEARCHED_RANKS || decl.axes.len() > 2 {
            return vec![];
        }
        let sizes = level_sizes(self.topology, group);
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

/// An order of the axes is taken if its price is below this share of that of the first one.
pub(super) const FASTER_ORDER: f64 = 0.999;

/// Largest number of orders of axes that are tried for one algorithm.
const ORDERS: usize = 24;

/// Returns the argument lists with which an algorithm of three axes or more is tried besides its
/// defaults: those of its clauses `check` that are numbers alone. A text offers orders of its axes
/// there. None if the axes are alike, because all orders are equal then.
pub(super) fn orders_of_axes(
    topology: &Topology,
    site: &SelectSite<'_>,
    decl: &AlgorithmDecl,
) -> Vec<Vec<(Name, UsingArg)>> {
    let parts = &site.axis.parts;
    let alike = topology.is_uniform() && parts.windows(2).all(|two| two[0].1 == two[1].1);
    let flat = !matches!(topology.shape(), Shape::Hierarchy(_));
    let fits = decl.axes.len() >= 3 && decl.axes.len() == parts.len();
    if site.axis.size > super::SEARCHED_RANKS || !fits || alike && flat {
        return vec![];
    }
    let number = |(name, e): &(Ident, Expr)| match e.kind {
        ExprKind::Int(n) => Some((Name::from(&name.node), UsingArg::Int(n))),
        _ => None,
    };
    let lists = decl.checks.iter().filter_map(|list| list.iter().map(number).collect());
    lists.take(ORDERS).collect()
}

/// Returns arguments as values of an algorithm. Names are those that the file sees.
pub(super) fn values(file: FileId, args: &[(Name, UsingArg)]) -> Vec<(String, Value)> {
    let value = |arg: &UsingArg| match arg {
        UsingArg::Int(n) => Value::Int(*n),
        UsingArg::Name(name) => Value::Alg(Arc::new(AlgRef { name: name.to_string(), file })),
    };
    args.iter().map(|(name, arg)| (name.to_string(), value(arg))).collect()
}

/// Returns the numbers of ranks below a level of the machine, of one level, and in a box of a list
/// of links, that divide a group.
fn level_sizes(topology: &Topology, group: &[DeviceId]) -> Vec<u64> {
    let ranks = group.len() as u64;
    let levels: Vec<u64> = topology.sizes().map(u64::from).collect();
    let mut below = 1;
    let mut out: Vec<u64> = levels.clone();
    for n in levels.iter().rev() {
        below *= n;
        out.push(below);
    }
    out.extend(topology.box_sizes(group));
    out.retain(|&n| n > 1 && n < ranks && ranks.is_multiple_of(n));
    out.sort_unstable();
    out.dedup();
    out
}

/// Checks whether an algorithm keeps its contract, round by round.
pub(super) fn is_right(library: &Library, call: &Call) -> bool {
    Verifier::new(library, Limits::default()).verify(call).is_ok()
}
