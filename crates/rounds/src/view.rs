//! Views: the ranks that form a group of an `apply`, their order, and the check that they agree.
//!
//! This module owns E030, E031 and E032. `group` runs the algorithm on the group.

use std::collections::BTreeMap;
use std::rc::Rc;

use kbc_diag::{Diagnostic, Span};

use crate::ast::{Apply, Expr, Ident, ViewKind};

use crate::expand::{Expander, Step};
use crate::frame::{Frame, resolve};
use crate::interp::{ApplySide, Domain};
use crate::region::{Region, describe};
use crate::rounds::{coordinates, linear};
use crate::scope::{ListScope, Scope, Value, unknown};

/// The ranks of a view, as one rank sees them: sizes of the new axes, and members of the frame
/// in linear order.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Group {
    pub shape: Vec<i64>,
    pub members: Vec<usize>,
}

impl<'a> Expander<'a> {
    /// Returns the group of one rank.
    pub fn group(
        &self,
        f: &Frame<'a>,
        m: usize,
        a: &'a Apply,
        cache: &mut ViewCache,
        t: u32,
    ) -> Step<Rc<Group>> {
        match &a.view.kind {
            ViewKind::Axes(names) => {
                let mut picked = vec![];
                for n in names {
                    let Some(i) = f.decl.axes.iter().position(|x| x.coord.node == n.node) else {
                        let valid: Vec<String> = f.decl.axes.iter().map(|x| x.coord.node.clone()).collect();
                        return Err(self.at(f, m, t, unknown("E005", "axis", &n.node, n.span, &valid)));
                    };
                    picked.push(i);
                }
                let mut base = coordinates(&f.shape, m as i64);
                picked.iter().for_each(|&i| base[i] = 0);
                let key = vec![Value::Int(linear(&f.shape, &base))];
                if let Some(g) = cache.by_value.get(&key) {
                    return Ok(g.clone());
                }
                let shape: Vec<i64> = picked.iter().map(|&i| f.shape[i]).collect();
                let mut members = vec![];
                for k in 0..shape.iter().product::<i64>() {
                    let own = coordinates(&shape, k);
                    picked.iter().zip(&own).for_each(|(&i, &c)| base[i] = c);
                    members.push(linear(&f.shape, &base) as usize);
                }
                let group = Rc::new(Group { shape, members });
                cache.by_value.insert(key, group.clone());
                Ok(group)
            }
            ViewKind::Map(list, rank) => {
                let names = cache.free.get_or_insert_with(|| free_names(list, rank));
                let key: Vec<Value> = names.iter().filter_map(|n| f.here(m).lookup(n)).collect();
                if let Some(g) = cache.by_value.get(&key) {
                    return Ok(g.clone());
                }
                let group = Rc::new(self.map(f, m, list, rank, a.view.span, t)?);
                cache.by_value.insert(key, group.clone());
                Ok(group)
            }
        }
    }

    fn map(
        &self,
        f: &Frame<'a>,
        m: usize,
        list: &[(Ident, Expr)],
        rank: &Expr,
        span: Span,
        t: u32,
    ) -> Step<Group> {
        let mut shape = vec![];
        for (_, size) in list {
            shape.push(self.on(f, (m, t), |x, h| x.int(size, h))?);
        }
        let total = shape.iter().try_fold(1i64, |n, &s| if s < 1 { None } else { n.checked_mul(s) });
        let total = total.filter(|&n| n <= f.members.len() as i64);
        let Some(total) = total else {
            let d =
                Diagnostic::error("E030", format!("invalid size of a group: {} ranks", join(&shape, " x ")))
                    .primary(span, format!("{} ranks reach this statement", f.members.len()))
                    .help("every size must be at least 1, and their product at most the number of ranks");
            return Err(self.at(f, m, t, Box::new(d)));
        };
        let mut members = vec![];
        for k in 0..total {
            let own = coordinates(&shape, k);
            let scope = ViewScope {
                inner: ListScope(
                    list.iter().zip(&own).map(|(n, c)| (n.0.node.clone(), Value::Int(*c))).collect(),
                ),
                outer: &f.here(m),
            };
            let v = self.evaluator.eval(rank, &scope).map_err(|d| self.at(f, m, t, d))?;
            let q = resolve(f, &v, rank.span, None).map_err(|d| self.at(f, m, t, d))?.0;
            if let Some(old) = members.iter().position(|&o| o == q) {
                let d = Diagnostic::error("E030", format!("{} occurs twice in the group", f.name_of(q)))
                    .primary(
                        span,
                        format!("as {} and as {}", tuple(&coordinates(&shape, old as i64)), tuple(&own)),
                    )
                    .help("each coordinate of the view must name another rank");
                return Err(self.at(f, m, t, Box::new(d)));
            }
            members.push(q);
        }
        Ok(Group { shape, members })
    }

    /// Checks that the group of `m` contains `m` (E030), that all its members reach the `apply`
    /// (E031), and that these agree about it (E032).
    pub fn agree(
        &self,
        f: &Frame<'a>,
        m: usize,
        says: &BTreeMap<usize, ApplySide<'a, Expander<'a>>>,
        a: &Apply,
        t: u32,
    ) -> Step<()> {
        let Some(mine) = says.get(&m) else { return Ok(()) };
        let all = |g: &Group| {
            let names: Vec<String> = g.members.iter().take(8).map(|&q| f.coordinates_of(q)).collect();
            format!("{}{}", names.join(", "), if g.members.len() > 8 { ", .." } else { "" })
        };
        if !mine.view.members.contains(&m) {
            let d = Diagnostic::error(
                "E030",
                format!("{} is not a member of the group that it computes", f.name_of(m)),
            )
            .primary(a.view.span, format!("the group is {}", all(&mine.view)))
            .help("guard the `apply` with `if`, so that only members reach it");
            return Err(self.at(f, m, t, Box::new(d)));
        }
        for &q in &mine.view.members {
            let Some(theirs) = says.get(&q) else {
                let d = Diagnostic::error(
                    "E031",
                    format!("{} does not execute this apply, and the group contains it", f.name_of(q)),
                )
                .primary(a.view.span, format!("the group of {}: {}", f.name_of(m), all(&mine.view)))
                .help("the conditions around an `apply` must be true on all members of a group or on none");
                return Err(self.at(f, m, t, Box::new(d)));
            };
            let differ = if theirs.view != mine.view {
                let (x, y) = (all(&mine.view), all(&theirs.view));
                Some((
                    "the group",
                    a.view.span,
                    format!("{x} (in this order)"),
                    format!("{y} (in this order)"),
                ))
            } else if theirs.root != mine.root {
                let show = |v: &Option<Value>| v.as_ref().map_or(String::new(), Value::to_string);
                let span = a.root.as_ref().map_or(a.coll.span, |r| r.rank.span);
                Some(("the root", span, show(&mine.root), show(&theirs.root)))
            } else if theirs.args != mine.args || theirs.options != mine.options {
                let show = |s: &ApplySide<'a, Expander<'a>>| {
                    let parts: Vec<String> = s.args.iter().map(|(n, v)| format!("{n}: {v}")).collect();
                    parts.join(", ")
                };
                Some(("the arguments", a.alg.span, show(mine), show(theirs)))
            } else if theirs.regions != mine.regions {
                let show = |s: &ApplySide<'a, Expander<'a>>| {
                    let parts: Vec<String> = s.regions.iter().map(|r| self.region_text(r)).collect();
                    parts.join(" -> ")
                };
                Some(("the region", a.on.span, show(mine), show(theirs)))
            } else {
                None
            };
            if let Some((what, span, x, y)) = differ {
                let d = Diagnostic::error("E032", format!("the members of a group disagree about {what}"))
                    .primary(span, format!("{x} on {}; {y} on {}", f.name_of(m), f.name_of(q)))
                    .help("it may depend only on values that all members of the group have in common");
                return Err(self.at(f, m, t, Box::new(d)));
            }
        }
        Ok(())
    }

    fn region_text(&self, r: &Region) -> String {
        let Some(b) = self.buffers.get(r.buffer as usize) else { return String::new() };
        let parts: Vec<String> =
            r.runs().iter().take(4).map(|x| format!("[{}]", describe(x.start, x.len, b.atoms))).collect();
        format!("{}{}{}", b.name, parts.join(" "), if r.runs().len() > 4 { " .." } else { "" })
    }
}

/// Cache of groups, shared by all ranks that see the same values.
#[derive(Default)]
pub(crate) struct ViewCache {
    free: Option<Vec<String>>,
    by_value: BTreeMap<Vec<Value>, Rc<Group>>,
}

/// Names bound by a view, over the rank's own names.
struct ViewScope<'a> {
    inner: ListScope,
    outer: &'a dyn Scope,
}

impl Scope for ViewScope<'_> {
    fn lookup(&self, name: &str) -> Option<Value> {
        self.inner.lookup(name).or_else(|| self.outer.lookup(name))
    }
    fn names(&self) -> Vec<String> {
        let mut names = self.outer.names();
        names.extend(self.inner.names());
        names
    }
}

/// Returns the names on which a view's sizes and ranks depend.
fn free_names(list: &[(Ident, Expr)], rank: &Expr) -> Vec<String> {
    let mut out = vec![];
    list.iter().for_each(|(_, e)| names_in(e, &mut out));
    let outer = out.len();
    names_in(rank, &mut out);
    let mut inner = out.split_off(outer);
    inner.retain(|n| !list.iter().any(|l| &l.0.node == n));
    out.append(&mut inner);
    out.sort_unstable();
    out.dedup();
    out
}

fn names_in(e: &Expr, out: &mut Vec<String>) {
    e.free_names(&mut |n, _| out.push(n.to_owned()));
}

fn join(list: &[i64], by: &str) -> String {
    list.iter().map(i64::to_string).collect::<Vec<_>>().join(by)
}

fn tuple(list: &[i64]) -> String {
    if list.len() == 1 { join(list, "") } else { format!("({})", join(list, ", ")) }
}
