//! Matched collectives: matches the collectives of all ranks, and reports where they do not match.
//!
//! A group's collectives meet in the order in which each of its ranks issues them
//! (`crate::match_collectives`). All ranks of a part issue the same collectives, so sequences are
//! compared once for each set of parts that share a group. Only the order between groups is
//! examined rank by rank.

use super::{Groups, Local, issued};
use crate::graph::{Collective, OpId, Using, UsingArg};
use crate::match_collectives::{CircularWait, SequenceDifference, first_difference, match_collectives};
use crate::name::Name;
use crate::types::Mesh;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use std::collections::{BTreeMap, BTreeSet};

/// A collective with all parts that take part in it, and its operation in each part. Groups of the
/// same kind that reach it at the same time form one meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatchedCollective {
    /// Parts, ascending, with the operation in each.
    pub members: Vec<(usize, OpId)>,
}

/// Most ranks for which the order is examined rank by rank.
const MAX_RANKS: u64 = 65536;

/// Returns the properties of a collective that must be equal on all members, as pairs of name and
/// value.
pub fn signature(local: &Local, part: usize, id: OpId) -> Vec<(&'static str, String)> {
    let g = &local.parts[part].graph;
    let crate::graph::OpKind::Collective(c) = &g.op(id).kind else { return vec![] };
    let operand = g.operands(id).first().and_then(|o| g.op(*o).ty.clone());
    let shown = match (operand, &c.counts) {
        (None, _) => String::new(),
        (Some(t), None) => t.to_string(),
        (Some(t), Some(_)) => format!("{} rows of {:?}", t.dtype, t.sizes().get(1..).unwrap_or_default()),
    };
    let number = |n: Option<u64>| n.map_or_else(|| "none".into(), |n| n.to_string());
    let dim = |n: Option<usize>| number(n.map(|n| n as u64));
    vec![
        ("operation", c.name().to_owned()),
        ("operand", shown),
        ("reduction", c.red.map_or("none", |r| r.name()).to_owned()),
        ("dimension", dim(c.dim)),
        ("first dimension", dim(c.from_dim)),
        ("root", number(c.root)),
        ("counts", c.counts.as_ref().map_or_else(|| "none".into(), |m| format!("[{m}]"))),
        ("algorithm", c.using.as_ref().map_or_else(|| "none".into(), spelled)),
    ]
}

fn spelled(u: &Using) -> String {
    let value = |v: &UsingArg| match v {
        UsingArg::Int(i) => i.to_string(),
        UsingArg::Name(n) => n.to_string(),
    };
    let list = |before: &str, list: &[(Name, UsingArg)]| {
        let list: Vec<String> = list.iter().map(|(n, v)| format!("{n}: {}", value(v))).collect();
        if list.is_empty() { String::new() } else { format!("{before}({})", list.join(", ")) }
    };
    format!("{}{}{}", u.alg, list("", &u.args), list(" with ", &u.options))
}

/// Returns the collectives of all parts in an order in which all ranks reach them.
///
/// # Errors
/// Returns E543 for a collective that some rank of its group does not issue, E544 if ranks of a
/// group issue different collectives, E545 if ranks wait for each other in a circle, E546 for a
/// collective over axes that the mesh does not have, and E549 if ranks of one part reach a
/// collective at different steps, or if there are too many ranks.
pub fn matched_collectives(local: &Local, mesh: &Mesh) -> Result<Vec<MatchedCollective>, Diagnostics> {
    if let [part] = &local.parts[..] {
        // Every group is whole, and its ranks do the same.
        return Ok(issued(&part.graph).map(|(id, _)| MatchedCollective { members: vec![(0, id)] }).collect());
    }
    Matching::new(local, mesh)?.check()
}

/// A communicator: a group over some axes, its ranks, and the parts that they belong to.
struct Communicator {
    axes: Vec<Name>,
    ranks: Vec<u64>,
    parts: Vec<usize>,
}

struct Matching<'a> {
    local: &'a Local,
    /// Collectives of each part, with the index of their axes in `axes`.
    issues: Vec<Vec<(OpId, usize)>>,
    axes: Vec<(Vec<Name>, Groups)>,
    /// Part of each rank.
    part_of: Vec<usize>,
}

impl<'a> Matching<'a> {
    fn new(local: &'a Local, mesh: &Mesh) -> Result<Matching<'a>, Diagnostics> {
        if mesh.ranks() > MAX_RANKS {
            let title = format!(
                "a local program with several parts is limited to {MAX_RANKS} ranks, and this one has {}",
                mesh.ranks()
            );
            return Err(Diagnostic::error("E549", title)
                .help("with a single `ranks` part for all ranks there is no such limit")
                .into());
        }
        let mut m = Matching { local, issues: vec![], axes: vec![], part_of: vec![] };
        for part in &local.parts {
            let mut list = vec![];
            for (id, c) in issued(&part.graph) {
                let axes = c.axes();
                let at = match m.axes.iter().position(|a| a.0 == axes) {
                    Some(at) => at,
                    None => {
                        let groups = Groups::over(mesh, &axes)
                            .ok_or_else(|| unknown(&axes, part.graph.op(id).span))?;
                        m.axes.push((axes, groups));
                        m.axes.len() - 1
                    }
                };
                list.push((id, at));
            }
            m.issues.push(list);
        }
        for r in 0..mesh.ranks() {
            // The verifier reports a rank that is in no part.
            m.part_of.push(local.part_of(r).unwrap_or(0));
        }
        Ok(m)
    }

    /// Returns the communicators of all groups over which some part issues a collective.
    fn communicators(&self) -> Vec<Communicator> {
        let mut out = vec![];
        for (at, (axes, groups)) in self.axes.iter().enumerate() {
            for ranks in &groups.list {
                let parts: BTreeSet<usize> = ranks.iter().map(|r| self.part_of[*r as usize]).collect();
                if parts.iter().any(|p| self.issues[*p].iter().any(|i| i.1 == at)) {
                    let parts = parts.into_iter().collect();
                    out.push(Communicator { axes: axes.clone(), ranks: ranks.clone(), parts });
                }
            }
        }
        out
    }

    fn check(&self) -> Result<Vec<MatchedCollective>, Diagnostics> {
        let communicators = self.communicators();
        let mut found = Diagnostics::new();
        let mut seen: BTreeSet<(&[Name], &[usize])> = BTreeSet::new();
        for c in &communicators {
            if seen.insert((&c.axes, &c.parts))
                && let Some(d) = self.differ(c)
            {
                found.push(d);
            }
        }
        if found.has_errors() {
            return Err(found);
        }
        self.check_no_circular_wait(&communicators)?;
        self.order().map_err(Diagnostics::from)
    }

    fn sequence(&self, part: usize, axes: &[Name]) -> Vec<OpId> {
        self.issues[part].iter().filter(|i| self.axes[i.1].0 == axes).map(|i| i.0).collect()
    }

    fn span(&self, part: usize, id: OpId) -> Span {
        self.local.parts[part].graph.op(id).span
    }

    /// Returns a diagnostic about the first difference between the members of a group.
    fn differ(&self, c: &Communicator) -> Option<Diagnostic> {
        let ids: Vec<Vec<OpId>> = c.parts.iter().map(|p| self.sequence(*p, &c.axes)).collect();
        let all: Vec<Vec<_>> = c
            .parts
            .iter()
            .zip(&ids)
            .map(|(p, list)| list.iter().map(|id| signature(self.local, *p, *id)).collect())
            .collect();
        let found = first_difference(&all, |_| None::<()>)?;
        let (SequenceDifference::Never { most, step, other }
        | SequenceDifference::Another { most, step, other }) = found
        else {
            return None;
        };
        let rank = |k: usize| {
            c.ranks.iter().find(|r| self.part_of[**r as usize] == c.parts[k]).copied().unwrap_or(0)
        };
        let here = self.span(c.parts[most], ids[most][step]);
        let issued = format!(
            "rank {} issues {} as collective {} over {} (ranks {})",
            rank(most),
            all[most][step][0].1,
            step + 1,
            shown(&c.axes),
            words(&c.ranks)
        );
        if let SequenceDifference::Never { .. } = found {
            let text = format!(
                "over {} rank {} issues {}, rank {} {}",
                shown(&c.axes),
                rank(most),
                all[most].len(),
                rank(other),
                all[other].len()
            );
            return Some(
                Diagnostic::error("E543", format!("{issued}, and rank {} never issues it", rank(other)))
                    .primary(here, format!("rank {} would wait here without end", rank(most)))
                    .secondary(self.local.parts[c.parts[other]].span, format!("rank {}", rank(other)))
                    .note(text)
                    .help("every rank of a group must issue all collectives of the group, in the same order"),
            );
        }
        let (what, mine, theirs) = all[most][step]
            .iter()
            .zip(&all[other][step])
            .find(|(a, b)| a != b)
            .map_or(("", "", ""), |(a, b)| (a.0, a.1.as_str(), b.1.as_str()));
        Some(
            Diagnostic::error(
                "E544",
                format!("{issued}, and rank {} with another {what}: {mine} and {theirs}", rank(other)),
            )
            .primary(here, format!("rank {}: {mine}", rank(most)))
            .secondary(
                self.span(c.parts[other], ids[other][step]),
                format!("rank {}: {theirs}", rank(other)),
            ),
        )
    }

    /// Checks that no ranks wait for each other in a circle, if each rank continues as soon as its
    /// whole group has reached the collective that it issues.
    fn check_no_circular_wait(&self, communicators: &[Communicator]) -> Result<(), Diagnostic> {
        let mut number: BTreeMap<(&[Name], u64), usize> = BTreeMap::new();
        for (g, c) in communicators.iter().enumerate() {
            for r in &c.ranks {
                number.insert((&c.axes, *r), g);
            }
        }
        let of = |r: usize| -> Vec<usize> {
            let list = &self.issues[self.part_of[r]];
            list.iter().filter_map(|i| number.get(&(&self.axes[i.1].0[..], r as u64)).copied()).collect()
        };
        let issues: Vec<Vec<usize>> = (0..self.part_of.len()).map(of).collect();
        let members: Vec<Vec<usize>> = communicators
            .iter()
            .map(|c| {
                let mut list: Vec<usize> = c.ranks.iter().map(|r| *r as usize).collect();
                list.sort_unstable();
                list
            })
            .collect();
        let Err(CircularWait { programs, next }) = match_collectives(&members, &issues) else {
            return Ok(());
        };
        let ranks: Vec<u64> = programs.iter().map(|r| *r as u64).collect();
        let title = format!(
            "deadlock: ranks {} wait for each other, because they issue the collectives of their groups in different orders",
            words(&ranks)
        );
        let mut d = Diagnostic::error("E545", title);
        for (k, r) in programs.iter().enumerate() {
            let (part, for_whom) = (self.part_of[*r], programs[(k + 1) % programs.len()]);
            let (id, axes) = self.issues[part][next[*r]];
            let text = format!("rank {r} waits over {} for rank {for_whom}", shown(&self.axes[axes].0));
            let span = self.span(part, id);
            d = if k == 0 { d.primary(span, text) } else { d.secondary(span, text) };
        }
        Err(d.help("issue the collectives of different groups in the same order on every rank"))
    }

    /// Returns the meetings, if all ranks of each part can continue together.
    fn order(&self) -> Result<Vec<MatchedCollective>, Diagnostic> {
        let parts = self.local.parts.len();
        let mut next = vec![0; parts];
        let mut out = vec![];
        while (0..parts).any(|p| next[p] < self.issues[p].len()) {
            let mut met: Vec<(usize, OpId)> = vec![];
            let mut told: Option<(&Collective, Vec<(&'static str, String)>)> = None;
            let mut waits = None;
            for p in 0..parts {
                let Some((id, axes)) = self.issues[p].get(next[p]).copied() else { continue };
                if met.iter().any(|m| m.0 == p) {
                    continue;
                }
                let together = self.together(p, axes);
                let absent = together
                    .iter()
                    .copied()
                    .find(|q| self.issues[*q].get(next[*q]).is_none_or(|i| i.1 != axes));
                if let Some(q) = absent {
                    waits = waits.or(Some((p, id, q)));
                    continue;
                }
                // Groups of the same kind join the meeting, each with its own ranks.
                let signs = signature(self.local, p, id);
                let crate::graph::OpKind::Collective(c) = &self.local.parts[p].graph.op(id).kind else {
                    continue;
                };
                if told.as_ref().is_some_and(|(first, list)| first.axes() != c.axes() || *list != signs) {
                    continue;
                }
                told = told.or(Some((c, signs)));
                met.extend(together.iter().map(|q| (*q, self.issues[*q][next[*q]].0)));
            }
            if met.is_empty() {
                let Some((p, id, q)) = waits else { break };
                return Err(self.parts_diverge(p, id, q));
            }
            met.sort_unstable();
            met.iter().for_each(|m| next[m.0] += 1);
            out.push(MatchedCollective { members: met });
        }
        Ok(out)
    }

    /// Returns the parts that share groups with a part, directly or through other parts.
    fn together(&self, part: usize, axes: usize) -> BTreeSet<usize> {
        let groups = &self.axes[axes].1;
        let mut out = BTreeSet::from([part]);
        let mut todo = vec![part];
        while let Some(p) = todo.pop() {
            for r in &self.local.parts[p].ranks {
                let Some((g, _)) = groups.of.get(*r as usize) else { continue };
                for q in groups.list[*g].iter().map(|r| self.part_of[*r as usize]) {
                    if out.insert(q) {
                        todo.push(q);
                    }
                }
            }
        }
        out
    }

    /// Creates E549 for parts whose ranks do not continue together.
    fn parts_diverge(&self, p: usize, id: OpId, q: usize) -> Diagnostic {
        let rank = |p: usize| self.local.parts[p].ranks.first().copied().unwrap_or(0);
        let mut d = Diagnostic::error(
            "E549",
            format!("ranks of one part reach this collective at different times: the ranks with rank {}, and the ranks with rank {}", rank(p), rank(q)),
        )
        .primary(self.span(p, id), "some ranks of this part can proceed here, others must wait");
        if let Some((other, _)) = self.issues[q].first() {
            d = d.secondary(self.span(q, *other), format!("rank {} must issue this first", rank(q)));
        }
        d.help("write a separate `ranks` part for the ranks that proceed at another time")
    }
}

fn unknown(axes: &[Name], span: Span) -> Diagnostic {
    Diagnostic::error("E546", format!("{} do not name a group of the mesh", shown(axes)))
        .primary(span, "write axes of the mesh, each at most once")
}

/// Returns the axes as printed: `tp`, or `(dp, tp)`.
fn shown(axes: &[Name]) -> String {
    let names: Vec<&str> = axes.iter().map(Name::as_str).collect();
    if let [one] = names[..] { one.to_owned() } else { format!("({})", names.join(", ")) }
}

/// Returns the first eight ranks as printed: `0, 2`.
fn words(ranks: &[u64]) -> String {
    let some: Vec<String> = ranks.iter().take(8).map(u64::to_string).collect();
    format!("{}{}", some.join(", "), if ranks.len() > 8 { ", .." } else { "" })
}
