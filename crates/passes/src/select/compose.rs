//! Search of compositions: which algorithms an algorithm of parts is made of.
//!
//! Parameters of an algorithm that are algorithms (`two_phase(first = direct, then = direct)`) are
//! tried with every algorithm of the collectives for which the text uses them. From the best
//! arguments that are known, one parameter after another gets the algorithm with the lowest price.
//! Parts that follow one another add their times, so this finds what all combinations would.

use super::bind::legal;
use super::search::{is_right, values};
use super::{Chooser, SelectSite};
use crate::cost::{self, Job, Price};
use crate::findings::select::{Candidate, SearchRecord, Verdict};
use crate::packed::is_packed;
use kbc_diag::Span;
use kbc_ir::Name;
use kbc_ir::graph::UsingArg;
use kbc_rounds::ast::{AlgorithmDecl, Apply, Block, ExprKind, StmtKind};
use kbc_rounds::head::algorithm_valued;
use kbc_rounds::{AlgId, CollId, Library};
use std::collections::BTreeSet;

/// Messages of the compositions that are priced for a collective, for each unit of effort.
const SEARCHED_MESSAGES: u64 = 1 << 18;

/// Largest number of compositions that become candidates, and are simulated, also with options.
pub(super) const COMPOSED: usize = 2;

/// A composition becomes a candidate if it needs at most this multiple of the best time known by
/// the cost model, which knows no lanes: in lanes it may be the fastest.
const CLOSE: f64 = 1.05;

/// A parameter that is an algorithm: its name, and the algorithms that it may be.
type PartChoice = (Name, Vec<Name>);

/// The state of a search.
struct Search<'a> {
    chooser: &'a Chooser<'a>,
    site: &'a SelectSite<'a>,
    job: &'a Job<'a>,
    /// Messages that may still be priced.
    left: u64,
    record: SearchRecord,
}

impl Chooser<'_> {
    /// Returns compositions that need at most [`CLOSE`] times as long as the best candidate known,
    /// by the cost model, and what was tried. `algs` are the algorithms of the collective.
    pub(super) fn compositions(
        &self,
        site: &SelectSite<'_>,
        job: &Job<'_>,
        (algs, known): (&[AlgId], &[Candidate]),
        record: SearchRecord,
    ) -> (Vec<Candidate>, SearchRecord) {
        let limit = known.iter().filter_map(Candidate::ns).fold(f64::INFINITY, f64::min) * CLOSE;
        let left = SEARCHED_MESSAGES.saturating_mul(self.effort());
        let mut search = Search { chooser: self, site, job, left, record };
        let mut found: Vec<(f64, AlgId, Candidate)> = vec![];
        for &alg in algs {
            let decl = job.library.algorithm(alg);
            let start = known
                .iter()
                .filter(|c| c.algorithm == *decl.name.node)
                .filter_map(|c| c.ns().map(|ns| (ns, c)))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((ns, start)) = start else { continue };
            let choices = choices(job.library, site, alg, decl);
            if choices.is_empty() {
                continue;
            }
            let found_one = search.improved(alg, decl, &choices, (start.arguments.clone(), ns));
            if let Some((arguments, price)) = found_one.filter(|f| f.1.ns <= limit) {
                let algorithm = Name::from(&decl.name.node);
                let verdict = Verdict::Priced(price.clone());
                found.push((price.ns, alg, Candidate { algorithm, arguments, options: vec![], verdict }));
            }
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.2.algorithm.cmp(&b.2.algorithm)));
        let right = |(_, alg, c): &(f64, AlgId, Candidate)| {
            let args = values(site.file, &c.arguments);
            legal(job.library, *alg, site.axis, site.coll.root, args)
                .is_ok_and(|call| is_right(job.library, &call))
        };
        let kept = found.into_iter().filter(right).take(COMPOSED).map(|f| f.2).collect();
        (kept, search.record)
    }
}

impl Search<'_> {
    /// Gives one parameter after another the algorithm with the lowest price, as often as the
    /// effort says. Returns the arguments if they are cheaper than those at the start.
    fn improved(
        &mut self,
        alg: AlgId,
        decl: &AlgorithmDecl,
        choices: &[PartChoice],
        (mut arguments, mut ns): (Vec<(Name, UsingArg)>, f64),
    ) -> Option<(Vec<(Name, UsingArg)>, Price)> {
        let mut best = None;
        for _ in 0..self.chooser.effort() {
            let before = ns;
            for (param, names) in choices {
                for name in names {
                    if now(decl, &arguments, param).as_ref() == Some(name) {
                        continue;
                    }
                    let list = with(decl, &arguments, param, name);
                    if let Some(price) = self.priced(alg, &list, ns) {
                        (arguments, ns) = (list, price.ns);
                        best = Some(price);
                    }
                }
            }
            if ns >= before {
                break;
            }
        }
        best.map(|price| (arguments, price))
    }

    /// Returns the price of a list of arguments, if it is below a limit and the effort allows it.
    fn priced(&mut self, alg: AlgId, arguments: &[(Name, UsingArg)], limit: f64) -> Option<Price> {
        if self.left == 0 {
            self.record.exhausted = true;
            return None;
        }
        let args = values(self.site.file, arguments);
        let call = legal(self.job.library, alg, self.site.axis, self.site.coll.root, args).ok()?;
        let (price, messages) = cost::price_below(self.job, &call, limit).ok()?;
        self.left = self.left.saturating_sub(messages.max(1));
        self.record.tried += 1;
        self.record.given_up += u64::from(price.is_none());
        price.filter(|p| p.ns < limit)
    }
}

/// Returns the parameters of an algorithm that are algorithms, with what they may be.
fn choices(library: &Library, site: &SelectSite<'_>, alg: AlgId, decl: &AlgorithmDecl) -> Vec<PartChoice> {
    let mut out = vec![];
    for ((param, _), is_alg) in decl.params.iter().zip(algorithm_valued(decl, library)) {
        if !is_alg {
            continue;
        }
        let mut names: Option<BTreeSet<&str>> = None;
        for coll in used_for(library, alg, &param.node) {
            let of = library.algorithms_of(site.file, coll).into_iter();
            // Trees are packed for a whole collective.
            let fits = |a: &AlgId| !is_packed(library, *a) && library.algorithm(*a).axes.len() == 1;
            let of: BTreeSet<&str> =
                of.filter(fits).map(|a| library.algorithm_name(a).node.as_str()).collect();
            names = Some(names.map_or(of.clone(), |known| &known & &of));
        }
        let other = |n: &&str| **n != *decl.name.node;
        let names: Vec<Name> = names.into_iter().flatten().filter(other).map(Name::from).collect();
        out.push((Name::from(&param.node), names));
    }
    out.retain(|c| !c.1.is_empty());
    out
}

/// Returns the collectives for which an algorithm uses a parameter, also where it hands the
/// parameter on. Each parameter of each algorithm is looked at once: a text may apply itself.
fn used_for(library: &Library, alg: AlgId, param: &str) -> BTreeSet<CollId> {
    let mut out = BTreeSet::new();
    let mut todo = vec![(alg, param.to_owned())];
    let mut seen = BTreeSet::from([todo[0].clone()]);
    while let Some((alg, param)) = todo.pop() {
        let decl = library.algorithm(alg);
        let file = library.algorithm_name(alg).span.file;
        let mut applies = vec![];
        collect(&decl.body, &mut applies);
        for a in applies {
            let Ok(coll) = library.find_collective(file, &a.coll.node, Span::NONE) else { continue };
            if a.alg.node == param {
                out.insert(coll);
                continue;
            }
            let handed = |e: &ExprKind| matches!(e, ExprKind::Name(n) if *n == param);
            for (inner, _) in a.args.iter().filter(|arg| handed(&arg.1.kind)) {
                if let Ok(callee) = library.find_algorithm(file, coll, &a.alg.node, Span::NONE)
                    && seen.insert((callee, inner.node.clone()))
                {
                    todo.push((callee, inner.node.clone()));
                }
            }
        }
    }
    out
}

/// Adds the uses of a block.
fn collect<'a>(block: &'a Block, out: &mut Vec<&'a Apply>) {
    for s in &block.stmts {
        match &s.kind {
            StmtKind::Apply(a) => out.push(a),
            StmtKind::For(_, _, b) | StmtKind::Each(_, b) | StmtKind::Block(b) => collect(b, out),
            StmtKind::If(_, yes, no) => {
                collect(yes, out);
                no.iter().for_each(|b| collect(b, out));
            }
            StmtKind::Let(..) | StmtKind::Scratch(..) | StmtKind::Move { .. } | StmtKind::Error => {}
        }
    }
}

/// Returns the algorithm that a parameter is with these arguments.
fn now(decl: &AlgorithmDecl, arguments: &[(Name, UsingArg)], param: &Name) -> Option<Name> {
    match arguments.iter().find(|a| a.0 == *param).map(|a| &a.1) {
        Some(UsingArg::Name(name)) => return Some(name.clone()),
        Some(UsingArg::Int(_)) => return None,
        None => {}
    }
    let default = decl.params.iter().find(|p| *param == *p.0.node).map(|p| &p.1.kind);
    match default {
        Some(ExprKind::Name(name)) => Some(Name::from(name)),
        _ => None,
    }
}

/// Returns the arguments with another algorithm for a parameter, in the order of the parameters.
/// Defaults are left out.
fn with(
    decl: &AlgorithmDecl,
    arguments: &[(Name, UsingArg)],
    param: &Name,
    name: &Name,
) -> Vec<(Name, UsingArg)> {
    let is_default = |p: &Name, n: &Name| now(decl, &[], p).as_ref() == Some(n);
    let one = |p: &str| {
        let p = Name::from(p);
        if p == *param {
            return (!is_default(&p, name)).then(|| (p.clone(), UsingArg::Name(name.clone())));
        }
        arguments.iter().find(|a| a.0 == p).cloned()
    };
    decl.params.iter().filter_map(|p| one(&p.0.node)).collect()
}
