//! Rules that need the values of expressions on ranks: V11 and V17. [`super`] lists all rules.

use super::point::{Point, on_rank};
use super::{EVALUATED_RANKS, Report, V11, V17, classes};
use crate::expr::{Env, EvalError, Expr};
use crate::name::Name;
use crate::schedule::{Buffer, Line, RankSet, Region, Role, Schedule};
use crate::types::CutRule;
use kbc_diag::{Diagnostic, Span};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the positions in the mesh of the axes that a region runs over. The axes exist (V2).
fn axes(s: &Schedule, r: &Region) -> Vec<usize> {
    if r.over.is_empty() {
        return (0..s.mesh.axes.len()).collect();
    }
    r.over.iter().filter_map(|n| s.mesh.axes.iter().position(|a| a.name == *n)).collect()
}

/// Returns the linear index of a rank in its group.
fn group_index(s: &Schedule, r: &Region, rank: u64) -> u64 {
    let coords = s.mesh.coords(rank);
    axes(s, r).into_iter().fold(0, |index, i| index * s.mesh.axes[i].size + coords[i] as u64)
}

/// Returns the rank with this linear index in the group of rank 0.
fn first_group(s: &Schedule, r: &Region, index: u64) -> u64 {
    let mut coords = vec![0; s.mesh.axes.len()];
    let mut rest = index;
    for i in axes(s, r).into_iter().rev() {
        coords[i] = rest % s.mesh.axes[i].size;
        rest /= s.mesh.axes[i].size;
    }
    s.mesh.axes.iter().zip(coords).fold(0, |rank, (a, c)| rank * a.size + c)
}

/// Returns the linear index of a rank in the group, and the environment with the coordinates of the
/// region on that rank.
fn in_region<'a>(s: &'a Schedule, r: &'a Region, rank: u64) -> (u64, Point<'a>) {
    let index = group_index(s, r, rank);
    let mut env = on_rank(s, rank);
    let mut rest = index;
    for (name, size) in r.coords.iter().rev() {
        env.names.push((name, (rest % size) as i64));
        rest /= size;
    }
    (index, env)
}

/// Checks V11: roles are disjoint. Ranks in lists have already been checked to exist.
pub(super) fn roles(s: &Schedule, r: &Region, out: &mut Report) {
    if matches!(&r.roles[..], [] | [Role { ranks: RankSet::All, name: _, streams: _ }]) {
        return;
    }
    let size = s.group_size(r);
    let names = |a: usize, b: usize| (&r.roles[a].name, &r.roles[b].name);
    if let Some(all) = r.roles.iter().position(|x| matches!(x.ranks, RankSet::All))
        && let Some(other) = (0..r.roles.len()).find(|i| *i != all)
    {
        let (a, b) = names(all.min(other), all.max(other));
        let text = format!("region {} has another role beside a role for all ranks: {a} and {b}", r.name);
        return out.fail(V11, text, r.span, "in this region");
    }
    // A condition on the region's coordinates alone is the same in every group.
    let only_own = |e: &Expr| {
        let mut own = true;
        e.vars(&mut |n| own &= r.coords.iter().any(|c| c.0 == *n));
        own
    };
    let predicates: Vec<&Expr> = r.roles.iter().filter_map(|x| x.ranks.predicate()).collect();
    let same = predicates.iter().all(|e| only_own(e));
    let points = if same { size } else { s.mesh.ranks() };
    let mut found = Roles::new(s, r, out);
    let each = |found: &mut Roles<'_>| {
        for point in 0..points {
            found.at(if same { first_group(s, r, point) } else { point });
        }
    };
    if points <= EVALUATED_RANKS {
        return each(&mut found);
    }
    if predicates.is_empty() {
        return listed(r, found.out);
    }
    let most = MAX_POINTS / r.roles.len().max(1) as u64;
    if let Some(ranks) = standing(s, r, &predicates, most) {
        return ranks.into_iter().for_each(|rank| found.at(rank));
    }
    if points <= most {
        return each(&mut found);
    }
    let text = format!(
        "cannot check whether roles of region {} overlap: this needs {points} ranks for {} roles (limit: {MAX_POINTS})",
        r.name,
        r.roles.len()
    );
    let d = Diagnostic::error(V11.1, text).primary(r.span, "in this region");
    out.push(V11, d.help("write conditions on one coordinate each, or use fewer roles or ranks"));
}

/// Most evaluations of conditions for one region, counted as ranks times roles, when more than
/// [`EVALUATED_RANKS`] ranks have to be covered.
const MAX_POINTS: u64 = 1 << 22;

/// Returns ranks of the mesh that represent all others with respect to the conditions. Returns
/// `None` if a role is given by a list, if a condition uses a variable that is neither a coordinate
/// of the region nor an axis outside it, or if there are more than `most` such ranks.
fn standing(s: &Schedule, r: &Region, predicates: &[&Expr], most: u64) -> Option<Vec<u64>> {
    if predicates.len() != r.roles.len() {
        return None;
    }
    // The region's coordinates give the position of a rank in its group, and the other axes give
    // the group.
    let over = axes(s, r);
    let own: Vec<(Name, u64)> = match r.coords.is_empty() {
        true => over.iter().map(|i| (s.mesh.axes[*i].name.clone(), s.mesh.axes[*i].size)).collect(),
        false => r.coords.clone(),
    };
    let hidden = |n: &Name| own.iter().any(|c| c.0 == *n);
    let others = (0..s.mesh.axes.len()).filter(|i| !over.contains(i) && !hidden(&s.mesh.axes[*i].name));
    let others: Vec<usize> = others.collect();
    let mut all = own.clone();
    all.extend(others.iter().map(|i| (s.mesh.axes[*i].name.clone(), s.mesh.axes[*i].size)));
    let mut known = true;
    predicates.iter().for_each(|e| e.vars(&mut |n| known &= all.iter().any(|c| c.0 == *n)));
    let of = if known { classes::representatives(predicates, &all, &s.tables)? } else { return None };
    let count = of.iter().try_fold(1u64, |n, l| n.checked_mul(l.len() as u64)).filter(|n| *n <= most)?;
    let rank = |mut number: u64| {
        let mut values: Vec<i64> = vec![0; of.len()];
        for (v, list) in values.iter_mut().zip(&of).rev() {
            let len = list.len() as u64;
            *v = list[(number % len) as usize];
            number /= len;
        }
        let mut index = own.iter().zip(&values).fold(0, |i, ((_, size), v)| i * size + *v as u64);
        let mut coords = vec![0; s.mesh.axes.len()];
        for i in over.iter().rev() {
            coords[*i] = index % s.mesh.axes[*i].size;
            index /= s.mesh.axes[*i].size;
        }
        for (i, v) in others.iter().zip(&values[own.len()..]) {
            coords[*i] = *v as u64;
        }
        s.mesh.axes.iter().zip(coords).fold(0, |rank, (a, c)| rank * a.size + c)
    };
    Some((0..count).map(rank).collect())
}

/// Check of a region's roles, which reports each role at most once.
struct Roles<'a> {
    s: &'a Schedule,
    r: &'a Region,
    out: &'a mut Report,
    /// Ranks of each role that is given by a list.
    lists: Vec<BTreeSet<u64>>,
    reported: Vec<bool>,
}

impl<'a> Roles<'a> {
    fn new(s: &'a Schedule, r: &'a Region, out: &'a mut Report) -> Roles<'a> {
        let list = |x: &Role| match &x.ranks {
            RankSet::List(l) => l.iter().copied().collect(),
            RankSet::All | RankSet::Where(_) => BTreeSet::new(),
        };
        Roles { s, r, out, lists: r.roles.iter().map(list).collect(), reported: vec![false; r.roles.len()] }
    }

    /// Checks the roles of one rank.
    fn at(&mut self, rank: u64) {
        let (s, r) = (self.s, self.r);
        let (index, env) = in_region(s, r, rank);
        let mut first: Option<usize> = None;
        for (i, role) in r.roles.iter().enumerate() {
            let mine = match &role.ranks {
                RankSet::All => Ok(true),
                RankSet::Where(e) => e.eval(&env).map(|v| v != 0),
                RankSet::List(_) => Ok(self.lists[i].contains(&index)),
            };
            let text = match (mine, first) {
                (Ok(false), _) => continue,
                (Ok(true), None) => {
                    first = Some(i);
                    continue;
                }
                (Err(e), _) => {
                    format!(
                        "the condition of role {} of region {} cannot be evaluated: {e}",
                        role.name, r.name
                    )
                }
                (Ok(true), Some(j)) => {
                    let (a, b) = (&r.roles[j].name, &role.name);
                    format!("a rank has two roles in region {}: {a} and {b}", r.name)
                }
            };
            if !std::mem::replace(&mut self.reported[i], true) {
                self.out.push(V11, at(text, r.span, s, rank));
            }
        }
    }
}

/// Checks V11 for roles that are all given by lists, for any number of ranks.
fn listed(r: &Region, out: &mut Report) {
    let mut role_of: BTreeMap<u64, usize> = BTreeMap::new();
    let mut reported = vec![false; r.roles.len()];
    for (i, role) in r.roles.iter().enumerate() {
        let RankSet::List(list) = &role.ranks else { continue };
        for rank in list {
            let j = *role_of.entry(*rank).or_insert(i);
            if j != i && !std::mem::replace(&mut reported[i], true) {
                let (a, b) = (&r.roles[j].name, &role.name);
                let text = format!("rank {rank} has two roles in region {}: {a} and {b}", r.name);
                out.fail(V11, text, r.span, "in this region");
            }
        }
    }
}

fn at(text: String, span: Span, s: &Schedule, rank: u64) -> Diagnostic {
    Diagnostic::error(V11.1, text).primary(span, format!("on rank {}", s.mesh.show(rank)))
}

/// Returns the local sizes of a buffer according to its expressions.
fn sizes(b: &Buffer, env: &Point) -> Result<Vec<u64>, String> {
    b.dims
        .iter()
        .map(|e| {
            let v = e.eval(env).map_err(|e: EvalError| e.to_string())?;
            u64::try_from(v).map_err(|_| format!("a dimension has {v} elements"))
        })
        .collect()
}

/// Checks V17: buffers have sizes, those of inputs and outputs have the sizes of the rank's part,
/// and lines fit. There is at most one diagnostic per buffer or line.
pub(super) fn buffers(s: &Schedule, out: &mut Report) {
    let ranks = s.mesh.ranks().min(EVALUATED_RANKS);
    let mut elements: Vec<Vec<Option<u64>>> = vec![];
    for b in &s.buffers {
        let flat = b.dims.iter().all(|d| d.as_int().is_some())
            && b.global.as_ref().is_none_or(|t| t.only.is_none() && t.dims.iter().all(|d| d.cut.is_none()));
        let mut counts = vec![];
        for rank in 0..if flat { 1 } else { ranks } {
            let found = part(s, b, rank);
            counts.push(found.as_ref().ok().copied());
            if let Err(why) = found {
                let text = format!("buffer {}: {why}", b.name);
                let place = format!("on rank {}", s.mesh.show(rank));
                out.push(V17, Diagnostic::error(V17.1, text).primary(b.span, place));
                break;
            }
        }
        elements.push(counts);
    }
    for r in &s.regions {
        for o in &r.operands {
            let Some(have) = elements.get(o.buffer.0 as usize) else { continue };
            let fixed = [&o.line.extent, &o.line.unit, &o.line.row].iter().all(|e| e.as_int().is_some());
            let flat = fixed && have.len() == 1;
            for rank in 0..if flat { 1 } else { ranks } {
                let env = on_rank(s, rank);
                let n = o.line.extent.eval(&env).and_then(|e| {
                    let u = o.line.unit.eval(&env)?;
                    crate::expr::apply_bin(crate::expr::BinOp::Mul, e, u)
                });
                let size = have.get(rank as usize).or(if have.len() == 1 { have.first() } else { None });
                let Some(Some(size)) = size else { break };
                if let Some(why) = ill_cut(&o.line, &env) {
                    let text = format!("the line of operand {} of region {}: {why}", o.name, r.name);
                    let place = format!("on rank {}", s.mesh.show(rank));
                    out.push(V17, Diagnostic::error(V17.1, text).primary(r.span, place));
                    break;
                }
                let why = match n.map(u64::try_from) {
                    Err(e) => e.to_string(),
                    Ok(Err(_)) => "its number of elements is negative".into(),
                    Ok(Ok(n)) if n > *size => format!("it has {n} elements, and the buffer has {size}"),
                    _ => continue,
                };
                let text = format!("the line of operand {} of region {}: {why}", o.name, r.name);
                let place = format!("on rank {}", s.mesh.show(rank));
                out.push(V17, Diagnostic::error(V17.1, text).primary(r.span, place));
                break;
            }
        }
    }
}

/// Returns what is wrong with the lengths of a line on a rank. A line without elements may have any
/// lengths: where only one coordinate of another axis holds the data, the other groups work on
/// empty lines.
fn ill_cut(line: &Line, env: &impl Env) -> Option<String> {
    let CutRule::Lengths(parts) = &line.rule else {
        return (line.row != Expr::Int(0)).then(|| "it has a row but no lengths".to_owned());
    };
    if parts.of() != line.parts {
        return Some(format!("it has {} blocks and lengths for {}", line.parts, parts.of()));
    }
    let (Ok(row), Ok(n)) = (line.row.eval(env), line.extent.eval(env)) else { return None };
    match u64::try_from(row).ok().filter(|row| *row < parts.rows()) {
        None => Some(format!("row {row} of the lengths does not exist; there are {}", parts.rows())),
        Some(row) if n > 0 && i128::from(n) != i128::from(parts.total(row)) => {
            Some(format!("its blocks have {} elements in total, and its extent is {n}", parts.total(row)))
        }
        Some(_) => None,
    }
}

/// Returns the number of elements of a buffer on a rank.
fn part(s: &Schedule, b: &Buffer, rank: u64) -> Result<u64, String> {
    let have = sizes(b, &on_rank(s, rank))?;
    let count = super::product(have.iter().copied()).filter(|n| *n <= i64::MAX as u64 / 8);
    let count = count.ok_or("its size exceeds 64 bits")?;
    if let Some(t) = &b.global {
        let want: Vec<u64> =
            t.local_box(&s.mesh, &s.mesh.coords(rank)).iter().map(|(lo, hi)| hi - lo).collect();
        if t.dtype != b.dtype {
            return Err(format!("it holds {}, and its tensor holds {}", b.dtype, t.dtype));
        }
        // A row of a stack has the dimensions of the stack without the first one.
        let row = want.first() == Some(&1) && want[1..] == have[..];
        if want != have && !row && !(count == 0 && want.contains(&0)) {
            return Err(format!("its sizes are {have:?}, and the rank's part of the tensor has {want:?}"));
        }
    }
    Ok(count)
}
