//! Uses of algorithms: the call itself and every `apply`.
//!
//! This module checks and runs an algorithm on each group of a statement, fits regions and roots to
//! it, and detects endless recursion. `view` determines the groups, and `interp` runs an algorithm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kbc_diag::{Diagnostic, FileId, Span};

use crate::ast::{AlgorithmDecl, Apply, CollectiveDecl};
use crate::contract::block_shape;
use crate::expand::{Expander, Step, Stop, too_large};
use crate::frame::{ActiveRanks, Frame, Members};
use crate::head::{algorithm_valued, axes_differ};
use crate::interp::statements::{apply_side, root_fits};
use crate::interp::{Applied, ApplySide, Start};
use crate::ratio::gcd;
use crate::region::{Cut, Region, fraction};
use crate::rounds::{Buffer, Call, coordinates, linear};
use crate::scope::{AlgRef, Fault, ListScope, Value};
use crate::view::ViewCache;

impl<'a> Expander<'a> {
    /// Runs the call itself.
    pub(crate) fn call(&mut self, call: &Call) -> Step<()> {
        let lib = self.lib;
        let decl = lib.algorithm(call.alg);
        let head = decl.head;
        let file = decl.coll.span.file;
        let coll = lib.find_collective(file, &decl.coll.node, decl.coll.span)?;
        let shape = fit_axes(decl, &call.sizes, head)?;
        let ranks = call.sizes.iter().try_fold(1i64, |n, &s| if s < 1 { None } else { n.checked_mul(s) });
        let ranks = ranks.and_then(|n| u32::try_from(n).ok()).filter(|&n| n <= 1 << 24);
        let Some(ranks) = ranks else {
            return Err(Diagnostic::error(
                "E020",
                format!("{:?} is not a valid shape of a group", call.sizes),
            )
            .primary(head, "the sizes of the axes")
            .help("every size must be at least 1, and their product at most 2^24")
            .into());
        };
        let contract = lib.collective(coll);
        let blocks = block_shape(contract);
        let unit = if blocks.iter().any(|&b| b) { u64::from(ranks) } else { 1 };
        let longest = unit.saturating_mul(self.finer);
        if longest > self.limits.atoms {
            return Err(too_large(head, format!("more than {} atoms", self.limits.atoms)));
        }
        // A block of a buffer with blocks is as long as a whole buffer without blocks.
        let block = if blocks.iter().any(|&b| b) { self.finer } else { longest };
        let mut regions = vec![];
        for (i, (b, has)) in contract.buffers.iter().zip(&blocks).enumerate() {
            let atoms = if *has { block * u64::from(ranks) } else { block } as u32;
            self.buffers.push(Buffer { name: b.name.node.clone(), atoms, scratch: None });
            regions.push(Region::whole(i as u32, atoms));
        }
        if let Some(c) = &call.root {
            let fits =
                c.len() == call.sizes.len() && c.iter().zip(&call.sizes).all(|(c, s)| (0..*s).contains(c));
            if !fits {
                return Err(Diagnostic::error(
                    "E021",
                    format!("the root {c:?} is outside the shape {:?}", call.sizes),
                )
                .primary(head, "the algorithm")
                .help("give one coordinate per axis, each below the size of its axis")
                .into());
            }
        }
        root_fits(contract, call.root.is_some(), head)?;
        let root = call.root.as_ref().map(|c| linear(&call.sizes, c) as u32);
        let members: Arc<[u32]> = (0..ranks).collect();
        let at = ActiveRanks::whole(&members, 0);
        let group = Members { shape: shape.clone(), ranks: members, parent: None };
        let root = root.map(|c| coordinates(&shape, i64::from(c)));
        let (alg, args) = (call.alg, call.args.clone());
        let start =
            Start { coll, alg, args, options: vec![], root, group, regions, at, span: head, applied: false };
        self.used(start)?;
        Ok(())
    }

    /// Runs an `apply`: all groups of the statement, side by side.
    pub(crate) fn apply(&mut self, f: &Frame<'a>, applied: &Applied<'a>, at: &ActiveRanks) -> Step<u32> {
        let &Applied { apply: a, coll, alg, span } = applied;
        let t = at.round;
        let decl = self.lib.algorithm(alg);
        let contract = self.lib.collective(coll);
        let mut cache = ViewCache::default();
        let mut says: BTreeMap<usize, ApplySide<'a, Self>> = BTreeMap::new();
        for &m in &*at.active {
            let said = self::apply_side(self, f, (m, t), applied, &mut cache)?;
            says.insert(m, said);
        }
        let mut done: BTreeSet<usize> = BTreeSet::new();
        let mut end = t;
        let (ordinal, mut most) = (self.ordinal, self.ordinal);
        for &m in &*at.active {
            if done.contains(&m) {
                continue;
            }
            let Some(mine) = says.get(&m) else { continue };
            self.agree(f, m, &says, a, t)?;
            done.extend(&mine.view.members);
            let shape = fit_axes(decl, &mine.view.shape, a.view.span).map_err(|d| self.at(f, m, t, d))?;
            let p = mine.view.members.len();
            self.regions_fit(contract, &mine.regions, p as u64, a).map_err(|s| match s {
                Stop::Fault(d) => self.at(f, m, t, d),
                finer @ Stop::Finer(_) => finer,
            })?;
            let root = match (&mine.root, &a.root) {
                (Some(v), Some(r)) => {
                    let c = root_of(decl, &mine.view.shape, &shape, v, r.rank.span);
                    Some(c.map_err(|d| self.at(f, m, t, d))?)
                }
                _ => None,
            };
            let ranks: Arc<[u32]> = mine.view.members.iter().map(|&i| f.members[i]).collect();
            let start = Start {
                coll,
                alg,
                args: mine.args.clone(),
                options: mine.options.clone(),
                root: root.map(|c| coordinates(&shape, i64::from(c))),
                at: ActiveRanks::whole(&ranks, t),
                group: Members { shape, ranks, parent: Some(f.site) },
                regions: mine.regions.clone(),
                span,
                applied: true,
            };
            // The same scratch statement in groups side by side is one buffer.
            self.ordinal = ordinal;
            end = end.max(self.used(start)?);
            most = most.max(self.ordinal);
        }
        self.ordinal = most;
        Ok(end)
    }

    /// Checks that blocks of the regions are whole numbers of atoms and have equal lengths.
    fn regions_fit(&self, coll: &CollectiveDecl, regions: &[Region], p: u64, a: &Apply) -> Step<()> {
        let blocks = block_shape(coll);
        let mut unit: Option<(u64, &Region)> = None;
        for (r, &has) in regions.iter().zip(&blocks) {
            let count = if has { p } else { 1 };
            let len = u64::from(r.len);
            if len % count != 0 {
                let Cut::Finer(f) = Cut::Finer(count / gcd(len, count));
                return Err(Stop::Finer(f));
            }
            match unit {
                None => unit = Some((len / count, r)),
                Some((u, first)) if u != len / count => {
                    let total = self.buffers.first().map_or(1, |b| b.atoms);
                    let (x, y) = (fraction(first.len, total), fraction(r.len, total));
                    return Err(Diagnostic::error(
                        "E026",
                        format!("the two buffers of `{}` differ in size", a.coll.node),
                    )
                    .primary(
                        a.to.as_ref().map_or(a.on.span, |s| s.span),
                        format!("{x} and {y} of the whole buffer"),
                    )
                    .help("select two regions of the same size")
                    .into());
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Rejects endless recursion (E023): the same algorithm on the same group and regions inside
    /// itself, or too deep a nesting.
    pub(crate) fn recursion_ends(&self, s: &Start<'a, Self>, args: &[(String, Value)]) -> Step<()> {
        let decl = self.lib.algorithm(s.alg);
        let root = s.root.as_ref().map(|c| linear(&s.group.shape, c) as u32);
        let (mut depth, mut at, mut again) = (0, s.group.parent, None);
        while let Some(i) = at {
            let Some(u) = self.uses.get(i as usize) else { break };
            depth += 1;
            if again.is_none()
                && u.alg == s.alg
                && u.members == s.group.ranks
                && u.args == args
                && u.root == root
            {
                again = Some(u);
            }
            at = (i != 0).then_some(u.parent);
        }
        let name = &decl.name.node;
        // A recursion on the same ranks with other regions may end by itself. Only the
        // depth limits it.
        let same = again.is_some_and(|u| u.regions == s.regions);
        if !same && depth < self.limits.depth {
            return Ok(());
        }
        let title = if same {
            format!("`{name}` applies itself to the same group without end")
        } else {
            format!("the nesting of `apply` exceeds {} levels", self.limits.depth)
        };
        let p = s.group.ranks.len();
        Err(Diagnostic::error("E023", title)
            .primary(s.span, format!("applied again on {p} rank{}", if p == 1 { "" } else { "s" }))
            .secondary(decl.head, "this algorithm")
            .help("a recursion must reach a smaller group, and an `if` must end it (`if p > 1 { .. }`)")
            .into())
    }
}

/// Returns the sizes of the axes of `decl` for a group of this shape: unchanged, or their product
/// for an algorithm with one axis. Returns E022 otherwise.
fn fit_axes(decl: &AlgorithmDecl, given: &[i64], span: Span) -> Result<Vec<i64>, Fault> {
    if decl.axes.len() == given.len() {
        Ok(given.to_vec())
    } else if decl.axes.len() == 1 && !given.is_empty() {
        Ok(vec![given.iter().fold(1i64, |n, &s| n.saturating_mul(s))])
    } else {
        Err(Box::new(axes_differ(decl, given.len(), span)))
    }
}

/// Returns the root's number in the group. It is given by coordinates along the algorithm's
/// axes or, if an algorithm with one axis runs on a view with several, along the view's axes in
/// their linear order.
fn root_of(decl: &AlgorithmDecl, view: &[i64], shape: &[i64], v: &Value, span: Span) -> Result<u32, Fault> {
    let one;
    let given: &[i64] = match v {
        Value::Int(i) => {
            one = [*i];
            &one
        }
        Value::Rank(c) => c,
        other => {
            let d = Diagnostic::error("E020", "the root must be a rank")
                .primary(span, format!("this is {other}"));
            return Err(Box::new(d));
        }
    };
    let (sizes, flat) = if given.len() == shape.len() { (shape, false) } else { (view, true) };
    if given.len() != sizes.len() {
        return Err(Box::new(
            Diagnostic::error(
                "E020",
                format!("the root has {} coordinates here, not {}", sizes.len(), given.len()),
            )
            .primary(span, format!("{v}"))
            .secondary(decl.head, "the algorithm"),
        ));
    }
    let mut at = 0;
    for (i, (&c, &size)) in given.iter().zip(sizes).enumerate() {
        let wraps = !flat && decl.axes[i].wraps;
        let c = if wraps { c.rem_euclid(size) } else { c };
        if c < 0 || c >= size {
            return Err(Box::new(
                Diagnostic::error("E021", format!("the root {v} is not in the group"))
                    .primary(span, format!("coordinate {c}, the axis has 0..{size}"))
                    .help(
                        "give the coordinates of the root in the view of this group, not in the whole call",
                    ),
            ));
        }
        at = at * size + c;
    }
    Ok(at as u32)
}

/// Returns the values of the names in a `where` for a call: sizes, the root, parameters.
///
/// # Errors
/// Returns E020 or E022 for a wrong shape, E006 for a wrong parameter, and E010 for an arithmetic
/// error in a default.
pub fn names_of(lib: &crate::library::Library, call: &Call) -> Result<Vec<(String, Value)>, Fault> {
    let decl = lib.algorithm(call.alg);
    let evaluator = crate::eval::ConcreteEvaluator::new(lib);
    let shape = fit_axes(decl, &call.sizes, decl.head)?;
    let mut scope: Vec<(String, Value)> =
        decl.axes.iter().zip(&shape).map(|(a, &n)| (a.size.node.clone(), Value::Int(n))).collect();
    if let (Some((_, names)), Some(c)) = (&decl.root, &call.root) {
        let c = coordinates(&shape, linear(&call.sizes, c));
        match names.as_slice() {
            [one] if c.len() > 1 => scope.push((one.node.clone(), Value::Rank(c.into()))),
            many => scope.extend(many.iter().zip(c).map(|(n, c)| (n.node.clone(), Value::Int(c)))),
        }
    }
    for ((name, default), is_alg) in decl.params.iter().zip(algorithm_valued(decl, lib)) {
        let given = call.args.iter().find(|g| g.0 == name.node);
        let v = match (given, is_alg) {
            (Some((_, v)), _) => v.clone(),
            (None, true) => Value::Alg(Arc::new(AlgRef { name: String::new(), file: FileId::default() })),
            (None, false) => evaluator.eval(default, &ListScope(scope.clone()))?,
        };
        scope.push((name.node.clone(), v));
    }
    Ok(scope)
}

/// Checks whether an algorithm's `where` holds on these sizes, that is, whether the algorithm is
/// made for the shape.
///
/// # Errors
/// Returns the errors of [`names_of`], and E010 for an arithmetic error in `where`.
pub fn is_legal(lib: &crate::library::Library, call: &Call) -> Result<bool, Fault> {
    let scope = names_of(lib, call)?;
    match &lib.algorithm(call.alg).cond {
        Some(e) => crate::eval::ConcreteEvaluator::new(lib).bool(e, &ListScope(scope)),
        None => Ok(true),
    }
}
