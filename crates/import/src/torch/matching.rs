//! Matching of collectives across ranks: determines which collectives meet, and verifies that each
//! is the same on every member of its group.
//!
//! The collectives of a group meet in the order in which each member issues them. If they differ,
//! the message shows the first difference and the node from which the programs differ. The check
//! assumes that a rank continues only after all members have reached the collective that it issues.
//! A program that is correct only if ranks may continue earlier is not correct on every backend.

use super::arg::Arg;
use super::groups::{World, group_of, words};
use super::model::Program;
use super::rule::Rule;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::match_collectives::{CircularWait, SequenceDifference, first_difference};
use std::collections::BTreeMap;

/// A collective that all members of a group have reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatchedCollective {
    /// Members of the group.
    pub members: Vec<u64>,
    /// Name of the group on the first of them.
    pub group: String,
    /// Index of the first member's program, and the node in it.
    pub at: (usize, usize),
    /// The same for every member whose program is present, in the order of programs.
    pub all: Vec<(usize, usize)>,
}

/// A collective as a rank issues it.
#[derive(Clone, Debug)]
struct Issue {
    /// Index of the communicator.
    group: usize,
    node: usize,
}

/// Returns the properties that must be the same on every member, as names with values.
fn signature(p: &Program, node: usize) -> Vec<(&'static str, String)> {
    let n = &p.nodes[node];
    let text = |name: &str| match n.arg(name) {
        Arg::Text(s) => s.clone(),
        Arg::Int(i) => p.int(i).map_or_else(String::new, |n| n.to_string()),
        _ => String::new(),
    };
    let first: Vec<_> = n.args[0].values().filter_map(|v| p.meta(*v)).collect();
    let shapes = first.iter().map(|m| {
        let mut s = m.shape();
        if n.op.rule == Rule::AllToAll && !s.is_empty() {
            s.remove(0);
        }
        format!("{}{s:?}", m.dtype.name())
    });
    let what = if n.op.rule == Rule::AllToAll { "rows of" } else { "operand" };
    let mut out = vec![("operation", n.op.name.to_owned()), (what, shapes.collect::<Vec<_>>().join(", "))];
    for (word, name) in [
        ("reduction", "reduce_op"),
        ("source", "src"),
        ("gather_dim", "gather_dim"),
        ("shard_dim", "shard_dim"),
    ] {
        out.push((word, text(name)));
    }
    out
}

/// Communicators of all ranks: their members, and their name in each program.
struct Groups {
    list: Vec<(Vec<u64>, BTreeMap<usize, String>)>,
}

impl Groups {
    /// Builds the communicators. A name that all members use for the same ranks is one
    /// communicator. The remaining names of these ranks are matched in the order of the names.
    fn of(world: &World) -> Groups {
        let mut by: BTreeMap<&[u64], BTreeMap<usize, Vec<&str>>> = BTreeMap::new();
        for (i, groups) in world.groups.iter().enumerate() {
            for (name, members) in groups {
                by.entry(members).or_default().entry(i).or_default().push(name);
            }
        }
        let mut list = vec![];
        for (members, mut names) in by {
            let ranks: Vec<usize> =
                (0..world.programs.len()).filter(|i| members.contains(&world.programs[*i].rank)).collect();
            let shared: Vec<&str> = ranks.first().and_then(|r| names.get(r)).cloned().unwrap_or_default();
            for name in shared {
                if ranks.iter().all(|r| names.get(r).is_some_and(|l| l.contains(&name))) {
                    list.push((members.to_vec(), ranks.iter().map(|r| (*r, name.to_owned())).collect()));
                    names.values_mut().for_each(|l| l.retain(|n| *n != name));
                }
            }
            for l in names.values_mut() {
                l.sort_by_key(|n| (n.len(), *n));
            }
            let most = ranks.iter().filter_map(|r| names.get(r)).map(Vec::len).max().unwrap_or(0);
            for k in 0..most {
                let one = ranks
                    .iter()
                    .filter_map(|r| names.get(r).and_then(|l| l.get(k)).map(|n| (*r, (*n).to_owned())))
                    .collect();
                list.push((members.to_vec(), one));
            }
        }
        Groups { list }
    }

    fn find(&self, program: usize, name: &str) -> Option<usize> {
        self.list.iter().position(|(_, names)| names.get(&program).is_some_and(|n| n == name))
    }
}

/// Returns the collectives in the order in which they meet.
///
/// # Errors
/// Returns E530 to E534.
pub fn check(world: &World) -> Result<Vec<MatchedCollective>, Diagnostics> {
    let groups = Groups::of(world);
    let mut issues: Vec<Vec<Issue>> = vec![];
    let mut found = Diagnostics::new();
    for (i, p) in world.programs.iter().enumerate() {
        let mut list = vec![];
        for node in (0..p.nodes.len()).filter(|n| p.nodes[*n].op.rule.is_collective()) {
            if let Some(group) = groups.find(i, group_of(p, node)) {
                list.push(Issue { group, node });
            }
        }
        issues.push(list);
    }
    for (g, (members, names)) in groups.list.iter().enumerate() {
        let sequences: Vec<(usize, Vec<usize>)> = (0..world.programs.len())
            .filter(|i| members.contains(&world.programs[*i].rank))
            .map(|i| (i, issues[i].iter().filter(|x| x.group == g).map(|x| x.node).collect()))
            .collect();
        if sequences.iter().all(|s| s.1.is_empty()) {
            continue;
        }
        if names.len() < sequences.len() {
            found.push(one_sided(world, members, names, &sequences));
        } else if let Some(d) = differ(world, members, names, &sequences) {
            found.push(d);
        }
    }
    if found.has_errors() {
        return Err(found);
    }
    match_all(world, &groups, &issues).map_err(Diagnostics::from)
}

fn called(names: &BTreeMap<usize, String>, program: usize) -> &str {
    names.get(&program).map_or("", String::as_str)
}

/// Reports a member whose table lacks the group.
fn one_sided(
    world: &World,
    members: &[u64],
    names: &BTreeMap<usize, String>,
    sequences: &[(usize, Vec<usize>)],
) -> Diagnostic {
    let with = names.keys().next().copied().unwrap_or(0);
    let without = sequences.iter().find(|s| !names.contains_key(&s.0)).map_or(0, |s| s.0);
    let (a, b) = (&world.programs[with], &world.programs[without]);
    Diagnostic::error(
        "E530",
        format!(
            "group '{}' of rank {} has the ranks {}, and rank {} has no such group",
            called(names, with),
            a.rank,
            words(members),
            b.rank
        ),
    )
    .note(format!("the tables beside {} and {} must be equal, including the order", a.file, b.file))
}

/// Reports the first difference between members of a group.
fn differ(
    world: &World,
    members: &[u64],
    names: &BTreeMap<usize, String>,
    sequences: &[(usize, Vec<usize>)],
) -> Option<Diagnostic> {
    let all: Vec<Vec<_>> = sequences
        .iter()
        .map(|(i, nodes)| nodes.iter().map(|n| signature(&world.programs[*i], *n)).collect())
        .collect();
    let found = first_difference(&all, |step| splits(world, names, members, sequences, step))?;
    let (most, step, other) = match found {
        SequenceDifference::At(d) => return Some(d),
        SequenceDifference::Never { most, step, other }
        | SequenceDifference::Another { most, step, other } => (most, step, other),
    };
    let (p, q) = (&world.programs[sequences[most].0], &world.programs[sequences[other].0]);
    let node = sequences[most].1[step];
    let issued = format!(
        "rank {} issues {} `{}` as collective {} of group '{}' (ranks {})",
        p.rank,
        p.nodes[node].op.name,
        p.nodes[node].outputs.first().map_or("", |v| &p.values[*v].name),
        step + 1,
        called(names, sequences[most].0),
        words(members)
    );
    if let SequenceDifference::Never { .. } = found {
        let d = Diagnostic::error("E533", format!("{issued}, and rank {} never issues it", q.rank))
            .primary(p.span(node), format!("rank {} would wait here without end", p.rank))
            .note(p.place(node))
            .note(format!(
                "for this group rank {} issues {} and rank {} issues {}",
                p.rank,
                all[most].len(),
                q.rank,
                all[other].len()
            ));
        return Some(parting(d, p, q));
    }
    let there = sequences[other].1[step];
    let (what, mine, theirs) = all[most][step]
        .iter()
        .zip(&all[other][step])
        .find(|(a, b)| a != b)
        .map_or(("", "", ""), |(a, b)| (a.0, a.1.as_str(), b.1.as_str()));
    Some(
        Diagnostic::error(
            "E531",
            format!("{issued}, and rank {} with another {what}: {mine} and {theirs}", q.rank),
        )
        .primary(p.span(node), format!("rank {}", p.rank))
        .secondary(q.span(there), format!("rank {}", q.rank))
        .note(p.place(node))
        .note(q.place(there)),
    )
}

/// Adds the first node at which the operations of two programs differ.
fn parting(d: Diagnostic, p: &Program, q: &Program) -> Diagnostic {
    let same = p.nodes.iter().zip(&q.nodes).take_while(|(a, b)| a.op.name == b.op.name).count();
    let says = |p: &Program| match p.written.nodes.get(same) {
        Some(n) => n.target.clone(),
        None => "its result".into(),
    };
    let text = format!(
        "the programs are the same for {same} operations; then rank {} has {} and rank {} {}",
        p.rank,
        says(p),
        q.rank,
        says(q)
    );
    d.secondary(q.span(same), format!("rank {} continues here", q.rank)).note(text)
}

/// Compares, for an all_to_all, the rows that each rank sends to a peer with the rows that
/// the peer expects.
fn splits(
    world: &World,
    names: &BTreeMap<usize, String>,
    members: &[u64],
    sequences: &[(usize, Vec<usize>)],
    step: usize,
) -> Option<Diagnostic> {
    let of = |k: usize, name: &str| {
        let (i, nodes) = &sequences[k];
        let p = &world.programs[*i];
        let n = &p.nodes[nodes[step]];
        match (n.op.rule, n.arg(name)) {
            (Rule::AllToAll, Arg::Ints(l)) => l.iter().map(|x| p.int(x)).collect::<Option<Vec<_>>>(),
            _ => None,
        }
    };
    let at = |k: usize| members.iter().position(|m| *m == world.programs[sequences[k].0].rank);
    for a in 0..sequences.len() {
        let give = of(a, "input_split_sizes")?;
        for b in 0..sequences.len() {
            let take = of(b, "output_split_sizes")?;
            let (i, j) = (at(a)?, at(b)?);
            let (g, t) = (give.get(j)?, take.get(i)?);
            if g == t {
                continue;
            }
            let (p, q) = (&world.programs[sequences[a].0], &world.programs[sequences[b].0]);
            let (n, m) = (sequences[a].1[step], sequences[b].1[step]);
            return Some(
                Diagnostic::error(
                    "E532",
                    format!(
                        "rank {} sends rank {} {g} rows, which expects {t}: all_to_all number {} of group '{}'",
                        p.rank,
                        q.rank,
                        step + 1,
                        called(names, sequences[a].0)
                    ),
                )
                .primary(p.span(n), format!("rank {} sends {give:?}", p.rank))
                .secondary(q.span(m), format!("rank {} expects {take:?}", q.rank))
                .note(p.place(n))
                .note(q.place(m)),
            );
        }
    }
    None
}

/// Executes the collectives of all programs in step.
fn match_all(
    world: &World,
    groups: &Groups,
    issues: &[Vec<Issue>],
) -> Result<Vec<MatchedCollective>, Diagnostic> {
    let members: Vec<Vec<usize>> =
        groups.list.iter().map(|(_, names)| names.keys().copied().collect()).collect();
    let sequences: Vec<Vec<usize>> = issues.iter().map(|l| l.iter().map(|x| x.group).collect()).collect();
    let CircularWait { programs, next } =
        match kbc_ir::match_collectives::match_collectives(&members, &sequences) {
            Ok(order) => {
                let mut next = vec![0; issues.len()];
                return Ok(order.into_iter().map(|g| met(groups, issues, &mut next, g)).collect());
            }
            Err(circle) => circle,
        };
    let blocked = |i: usize| &issues[i][next[i]];
    let name = |i: usize| called(&groups.list[blocked(i).group].1, i).to_owned();
    let ranks: Vec<u64> = programs.iter().map(|i| world.programs[*i].rank).collect();
    let mut d = Diagnostic::error(
        "E534",
        format!(
            "deadlock: ranks {} wait for each other, because they issue the collectives of their groups in different orders",
            words(&ranks)
        ),
    );
    for (k, i) in programs.iter().enumerate() {
        let p = &world.programs[*i];
        let for_whom = world.programs[programs[(k + 1) % programs.len()]].rank;
        let text = format!("rank {} waits in group '{}' for rank {for_whom}", p.rank, name(*i));
        let node = blocked(*i).node;
        d = if k == 0 { d.primary(p.span(node), text) } else { d.secondary(p.span(node), text) };
        d = d.note(p.place(node));
    }
    Err(d.help("issue the collectives of different groups in the same order on every rank"))
}

/// Takes the next collective of a group and advances every member past it.
fn met(groups: &Groups, issues: &[Vec<Issue>], next: &mut [usize], group: usize) -> MatchedCollective {
    let (members, names) = &groups.list[group];
    let (first, name) = names.iter().next().expect("a group that met has members");
    let at = (*first, issues[*first][next[*first]].node);
    let all = names.keys().map(|i| (*i, issues[*i][next[*i]].node)).collect();
    names.keys().for_each(|i| next[*i] += 1);
    MatchedCollective { members: members.clone(), group: name.clone(), at, all }
}
