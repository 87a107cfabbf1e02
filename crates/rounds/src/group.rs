//! Uses of algorithms: the call itself and every `apply`.
//!
//! This module runs an algorithm on each group of a statement, binds parameters, roots and regions,
//! and detects endless recursion. `view` determines the groups, and `expand` executes the
//! statements inside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kbc_diag::{Diagnostic, FileId, Span};

use crate::ast::{AlgorithmDecl, Apply, CollectiveDecl, Expr, ExprKind, Ident};
use crate::checks::{algorithm_valued, axes_differ, unknown_parameter};
use crate::eval::{AlgRef, Fault, ListScope, Scope, Value};
use crate::expand::{Expander, Step, Stop, too_large};
use crate::frame::{Frame, Named};
use crate::library::{AlgId, CollId};
use crate::options::{OptionValue, option_kind, option_value};
use crate::promise::block_shape;
use crate::ratio::gcd;
use crate::region::{Cut, Region, fraction};
use crate::rounds::{Buffer, Call, Mark, Use, coordinates, linear};
use crate::view::{Says, ViewCache};

/// A use that is about to run.
struct Start<'a> {
    coll: CollId,
    alg: AlgId,
    decl: &'a AlgorithmDecl,
    shape: Vec<i64>,
    members: Arc<[u32]>,
    root: Option<u32>,
    args: Vec<(String, Value)>,
    options: Vec<(String, OptionValue)>,
    regions: Vec<Region>,
    parent: Option<u32>,
    span: Span,
}

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
            return Err(Diagnostic::error("E020", format!("{:?} is no shape of a group", call.sizes))
                .primary(head, "the sizes of the axes")
                .help("every size at least 1, the product at most 2^24")
                .into());
        };
        let promise = lib.collective(coll);
        let blocks = block_shape(promise);
        let unit = if blocks.iter().any(|&b| b) { u64::from(ranks) } else { 1 };
        let longest = unit.saturating_mul(self.finer);
        if longest > self.limits.atoms {
            return Err(too_large(head, format!("more than {} atoms", self.limits.atoms)));
        }
        // A block of a buffer with blocks is as long as a whole buffer without blocks.
        let block = if blocks.iter().any(|&b| b) { self.finer } else { longest };
        let mut regions = vec![];
        for (i, (b, has)) in promise.buffers.iter().zip(&blocks).enumerate() {
            let atoms = if *has { block * u64::from(ranks) } else { block } as u32;
            self.buffers.push(Buffer { name: b.name.node.clone(), atoms, scratch: None });
            regions.push(Region::whole(i as u32, atoms));
        }
        if let Some(c) = &call.root {
            let fits =
                c.len() == call.sizes.len() && c.iter().zip(&call.sizes).all(|(c, s)| (0..*s).contains(c));
            if !fits {
                return Err(Diagnostic::error("E021", format!("the root {c:?} is not in {:?}", call.sizes))
                    .primary(head, "the algorithm")
                    .help("a coordinate an axis, each below the size of its axis")
                    .into());
            }
        }
        root_fits(promise, call.root.is_some(), head)?;
        let root = call.root.as_ref().map(|c| linear(&call.sizes, c) as u32);
        self.use_of(
            Start {
                coll,
                alg: call.alg,
                decl,
                shape,
                members: (0..ranks).collect(),
                root,
                args: call.args.clone(),
                options: vec![],
                regions,
                parent: None,
                span: head,
            },
            0,
        )?;
        Ok(())
    }

    /// Runs an `apply`: all groups of the statement, side by side.
    pub(crate) fn apply(
        &mut self,
        f: &Frame<'a>,
        a: &'a Apply,
        span: Span,
        active: &[usize],
        t: u32,
    ) -> Step<u32> {
        let Some(&first) = active.first() else { return Ok(t) };
        let lib = self.lib;
        let coll = lib.find_collective(a.coll.span.file, &a.coll.node, a.coll.span)?;
        let named = match f.here(first).lookup(&a.alg.node) {
            Some(Value::Alg(r)) => r,
            _ => Arc::new(AlgRef { name: a.alg.node.clone(), file: a.alg.span.file }),
        };
        let alg = lib
            .find_algorithm(named.file, coll, &named.name, a.alg.span)
            .map_err(|d| self.located(f, first, t, d))?;
        let decl = lib.algorithm(alg);
        let promise = lib.collective(coll);
        let at = |x: &Self, m: usize, d: Diagnostic| x.located(f, m, t, Box::new(d));
        root_fits(promise, a.root.is_some(), span).map_err(|d| self.located(f, first, t, d))?;
        if promise.buffers.len() != 1 + usize::from(a.to.is_some()) {
            let d = Diagnostic::error(
                "E027",
                format!("`{}` works on {} buffers", a.coll.node, promise.buffers.len()),
            )
            .primary(a.on.span, "another number is given")
            .help("`on S` for one, `on S -> T` for two");
            return Err(at(self, first, d));
        }

        let mut cache = ViewCache::default();
        let mut says: BTreeMap<usize, Says> = BTreeMap::new();
        for &m in active {
            let said = self.says(f, m, a, decl, &mut cache, t)?;
            says.insert(m, said);
        }
        let mut done: BTreeSet<usize> = BTreeSet::new();
        let mut end = t;
        let (ordinal, mut most) = (self.ordinal, self.ordinal);
        for &m in active {
            if done.contains(&m) {
                continue;
            }
            let Some(mine) = says.get(&m) else { continue };
            self.agree(f, m, &says, a, t)?;
            done.extend(&mine.group.members);
            let shape =
                fit_axes(decl, &mine.group.shape, a.view.span).map_err(|d| self.located(f, m, t, d))?;
            let p = mine.group.members.len();
            self.regions_fit(promise, &mine.regions, p as u64, a).map_err(|s| match s {
                Stop::Fault(d) => self.located(f, m, t, d),
                finer @ Stop::Finer(_) => finer,
            })?;
            let root = match (&mine.root, &a.root) {
                (Some(v), Some(r)) => {
                    let c = root_of(decl, &mine.group.shape, &shape, v, r.rank.span);
                    Some(c.map_err(|d| self.located(f, m, t, d))?)
                }
                _ => None,
            };
            let start = Start {
                coll,
                alg,
                decl,
                shape,
                members: mine.group.members.iter().map(|&i| f.members[i]).collect(),
                root,
                args: mine.args.clone(),
                options: mine.options.clone(),
                regions: mine.regions.clone(),
                parent: Some(f.site),
                span,
            };
            // The same scratch statement in groups side by side is one buffer.
            self.ordinal = ordinal;
            end = end.max(self.use_of(start, t)?);
            most = most.max(self.ordinal);
        }
        self.ordinal = most;
        Ok(end)
    }

    /// Evaluates an `apply` from the view of one rank.
    fn says(
        &self,
        f: &Frame<'a>,
        m: usize,
        a: &'a Apply,
        callee: &AlgorithmDecl,
        cache: &mut ViewCache,
        t: u32,
    ) -> Step<Says> {
        let group = self.view(f, m, a, cache, t)?;
        let is_alg = algorithm_valued(callee);
        let (mut args, mut options) = (vec![], vec![]);
        for (name, value) in &a.args {
            if option_kind(&name.node).is_some() {
                let v = self.on(f, m, t, |x, h| option_value(name, value, x.evaluator, h))?;
                options.push((name.node.clone(), v));
                continue;
            }
            let Some(i) = callee.params.iter().position(|p| p.0.node == name.node) else {
                return Err(self.located(f, m, t, Box::new(unknown_parameter(callee, name))));
            };
            let v = self.on(f, m, t, |x, h| x.argument(value, is_alg[i], h))?;
            args.push((name.node.clone(), v));
        }
        let root = match &a.root {
            Some(r) => Some(self.on(f, m, t, |x, h| x.evaluator.eval(&r.rank, h))?),
            None => None,
        };
        let mut regions = vec![self.slice(f, m, &a.on, t)?];
        if let Some(to) = &a.to {
            regions.push(self.slice(f, m, to, t)?);
        }
        Ok(Says { group, root, args, options, regions })
    }

    /// Returns the value of an argument: an algorithm, if the parameter is algorithm-valued, and
    /// otherwise the value of the expression.
    fn argument(&self, e: &Expr, is_alg: bool, scope: &dyn Scope) -> Result<Value, Fault> {
        match &e.kind {
            ExprKind::Name(n) if is_alg => match scope.lookup(n) {
                Some(v) => Ok(v),
                None => Ok(Value::Alg(Arc::new(AlgRef { name: n.clone(), file: e.span.file }))),
            },
            _ => self.evaluator.eval(e, scope),
        }
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
                    .primary(a.to.as_ref().map_or(a.on.span, |s| s.span), format!("{x} and {y} of the whole"))
                    .help("select regions whose chunks are as long")
                    .into());
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Runs an algorithm on a group, starting with round `t`. Returns the round after its last one.
    fn use_of(&mut self, s: Start<'a>, t: u32) -> Step<u32> {
        let decl = s.decl;
        let mut uniform: Vec<(&'a str, Value)> =
            decl.axes.iter().zip(&s.shape).map(|(a, &n)| (a.size.node.as_str(), Value::Int(n))).collect();
        if let (Some((_, names)), Some(c)) = (&decl.root, s.root) {
            let c = coordinates(&s.shape, i64::from(c));
            match (names.as_slice(), c.as_slice()) {
                ([one], [c]) => uniform.push((&one.node, Value::Int(*c))),
                ([one], _) => uniform.push((&one.node, Value::Rank(c.into()))),
                (many, _) => many.iter().zip(&c).for_each(|(n, &c)| uniform.push((&n.node, Value::Int(c)))),
            }
        }
        let args = self.parameters(decl, &s.args, &mut uniform)?;
        let site = self.uses.len() as u32;
        self.recursion_ends(&s, &args)?;
        self.uses.push(Use {
            parent: s.parent.unwrap_or(site),
            span: s.span,
            coll: s.coll,
            alg: s.alg,
            args,
            options: s.options,
            shape: s.shape.clone(),
            members: s.members.clone(),
            root: s.root,
            regions: s.regions.clone(),
            first: t,
            end: t,
        });
        let heads = Uniform(&uniform);
        if let Some(e) = &decl.cond
            && !self.evaluator.bool(e, &heads)?
        {
            let sizes: Vec<String> = uniform.iter().map(|(n, v)| format!("{n} = {v}")).collect();
            let mut d = Diagnostic::error("E024", format!("`{}` is not made for this shape", decl.name.node))
                .primary(e.span, format!("false for {}", sizes.join(", ")))
                .help("use another algorithm here, or other sizes");
            if s.parent.is_some() {
                d = d.secondary(s.span, "in this apply");
            }
            return Err(d.into());
        }
        let coll = self.lib.collective(s.coll);
        let chunks = match &decl.chunks {
            Some(e) => {
                let k = self.evaluator.int(e, &heads)?;
                if k < 1 {
                    return Err(Diagnostic::error("E028", format!("a line cannot be cut in {k} parts"))
                        .primary(e.span, "`chunks` at least 1")
                        .into());
                }
                Some(k)
            }
            None => None,
        };
        let p = s.members.len();
        let blocks = block_shape(coll);
        let buffers = coll.buffers.iter().zip(&s.regions).zip(blocks).map(|((b, r), has)| Named {
            name: &b.name.node,
            region: r.clone(),
            chunks: chunks.unwrap_or(if has { p as i64 } else { 1 }),
        });
        let buffers: Vec<Named<'a>> = buffers.collect();
        let mut frame = Frame {
            decl,
            site,
            given: buffers.len(),
            buffers,
            uniform,
            names: decl.axes.iter().map(|a| a.coord.node.as_str()).collect(),
            values: (0..p)
                .map(|m| coordinates(&s.shape, m as i64).into_iter().map(Value::Int).collect())
                .collect(),
            shape: s.shape,
            members: s.members,
        };
        self.marks.push(Mark { round: t, site, ends: false });
        let active: Vec<usize> = (0..p).collect();
        let end = self.block(&mut frame, &decl.body, &active, t)?;
        self.marks.push(Mark { round: end, site, ends: true });
        self.uses[site as usize].end = end;
        Ok(end)
    }

    /// Returns all parameters with their values, and adds them to `uniform`.
    fn parameters(
        &self,
        decl: &'a AlgorithmDecl,
        given: &[(String, Value)],
        uniform: &mut Vec<(&'a str, Value)>,
    ) -> Step<Vec<(String, Value)>> {
        if let Some((name, _)) = given.iter().find(|g| !decl.params.iter().any(|p| p.0.node == g.0)) {
            let at = Ident::new(name.clone(), decl.head);
            return Err(unknown_parameter(decl, &at).into());
        }
        let is_alg = algorithm_valued(decl);
        let mut args = vec![];
        for ((name, default), is_alg) in decl.params.iter().zip(is_alg) {
            let v = match given.iter().find(|g| g.0 == name.node) {
                Some((_, v)) => {
                    if matches!(v, Value::Alg(_)) != is_alg {
                        let kind = if is_alg { "an algorithm" } else { "a number" };
                        return Err(Diagnostic::error(
                            "E006",
                            format!("parameter `{}` is {kind}", name.node),
                        )
                        .primary(name.span, format!("{v} is given"))
                        .into());
                    }
                    v.clone()
                }
                None => self.argument(default, is_alg, &Uniform(uniform))?,
            };
            uniform.push((&name.node, v.clone()));
            args.push((name.node.clone(), v));
        }
        Ok(args)
    }

    /// Rejects endless recursion (E023): the same algorithm on the same group and regions inside
    /// itself, or too deep a nesting.
    fn recursion_ends(&self, s: &Start<'a>, args: &[(String, Value)]) -> Step<()> {
        let (mut depth, mut at, mut again) = (0, s.parent, None);
        while let Some(i) = at {
            let Some(u) = self.uses.get(i as usize) else { break };
            depth += 1;
            if again.is_none()
                && u.alg == s.alg
                && u.members == s.members
                && u.args == args
                && u.root == s.root
            {
                again = Some(u);
            }
            at = (i != 0).then_some(u.parent);
        }
        let name = &s.decl.name.node;
        // A recursion on the same ranks with other regions may end by itself. Only the
        // depth limits it.
        let same = again.is_some_and(|u| u.regions == s.regions);
        if !same && depth < self.limits.depth {
            return Ok(());
        }
        let title = if same {
            format!("`{name}` applies itself to the same group for ever")
        } else {
            format!("algorithms apply one another more than {} deep", self.limits.depth)
        };
        let p = s.members.len();
        Err(Diagnostic::error("E023", title)
            .primary(s.span, format!("again on {p} rank{}", if p == 1 { "" } else { "s" }))
            .secondary(s.decl.head, "this algorithm")
            .help("a recursion must reach a smaller group, and an `if` must end it (`if p > 1 { .. }`)")
            .into())
    }
}

/// Scope of the names that have the same value on all ranks.
struct Uniform<'a>(&'a [(&'a str, Value)]);

impl Scope for Uniform<'_> {
    fn lookup(&self, name: &str) -> Option<Value> {
        self.0.iter().rev().find(|(n, _)| *n == name).map(|(_, v)| v.clone())
    }
    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(n, _)| (*n).to_owned()).collect()
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

/// Checks that a root is given if and only if the collective has one (E029).
fn root_fits(coll: &CollectiveDecl, given: bool, span: Span) -> Result<(), Fault> {
    let name = &coll.name.node;
    let d = match (&coll.root, given) {
        (Some((from, _)), false) => Diagnostic::error("E029", format!("`{name}` needs a root"))
            .primary(span, "none given")
            .help(format!("write `{name} {} RANK`", if *from { "from" } else { "to" })),
        (None, true) => Diagnostic::error("E029", format!("`{name}` has no root"))
            .primary(span, "one is given")
            .help("leave it out"),
        _ => return Ok(()),
    };
    Err(Box::new(d))
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
                    .help("give a rank of the view: its coordinates there, not those of the whole"),
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
    let evaluator = crate::eval::Evaluator::new(lib);
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
    for ((name, default), is_alg) in decl.params.iter().zip(algorithm_valued(decl)) {
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
        Some(e) => crate::eval::Evaluator::new(lib).bool(e, &ListScope(scope)),
        None => Ok(true),
    }
}
