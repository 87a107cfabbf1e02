//! Legality of symbolic transfers: properties that every rank must satisfy and that the symbolic
//! form does not always show. Peers must exist, both places of a transfer must have the same number
//! of elements, and expressions must have a value.
//!
//! For most transfers this is evident (a peer on a wrapping axis, the same chunk of the same line
//! on both sides) or follows from equal chunks. Otherwise the expressions are evaluated on all
//! ranks and steps, up to [`MAX_EVALUATED`] evaluations. Beyond that, the checker finds violations
//! (E303, E305).

use crate::expand::interpret::{Bound, Gen, IntoStop, Node, Ranges, Region, Res, Transfer, World};
use crate::groups::groups;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::cut::{Chunks, Sized};
use kbc_ir::expr::{Env, Expr};
use kbc_ir::schedule::{Line, Table};
use kbc_ir::types::Mesh;

/// Limit of evaluations per collective.
const MAX_EVALUATED: u64 = 1 << 18;

/// Variables with their values.
pub(in crate::expand) type Vars = Vec<(Name, i64)>;

/// The checks of one collective.
pub(in crate::expand) struct Legal<'x> {
    /// Lines of all operands, including scratch.
    lines: Vec<&'x Line>,
    world: &'x World,
    mesh: &'x Mesh,
    over: &'x [Name],
    ranges: &'x Ranges,
    tables: &'x [Table],
    left: u64,
}

/// The variables of a rank: steps, coordinates in the region, coordinates in the mesh.
struct RankVars<'a> {
    steps: &'a [(Name, i64)],
    coords: &'a [(Name, i64)],
    mesh: &'a [(Name, i64)],
    tables: &'a [Table],
}

impl Env for RankVars<'_> {
    fn var(&self, name: &Name) -> Option<i64> {
        let mut all = self.steps.iter().rev().chain(self.coords).chain(self.mesh);
        all.find(|(n, _)| n == name).map(|x| x.1)
    }
    fn table(&self, name: &Name, index: i64) -> Option<i64> {
        let t = self.tables.iter().find(|t| t.name == *name)?;
        t.values.get(usize::try_from(index).ok()?).copied()
    }
}

/// Returns the first element of chunk `num` of `den` of a line of `extent` times `unit` elements.
fn boundary(line: &Line, (extent, unit, row): (u64, u64, u64), num: u64, den: u64) -> u64 {
    let line = Sized { parts: line.parts, rule: &line.rule, extent, unit, row };
    line.start(num, den).unwrap_or(u64::MAX)
}

/// Returns the error for a transfer between two places of different sizes.
pub(in crate::expand) fn unequal((have, room): (u64, u64), span: Span) -> Diagnostic {
    Diagnostic::error("E332", "chunks of unequal length that change places are not supported yet")
        .primary(span, "this moves a chunk to a place of another length")
        .note(format!("{have} elements would be written to a place of {room}"))
        .help("choose sizes that are divisible by the number of chunks, or an algorithm that keeps every chunk at its place (for all_to_all: `direct` or `pairwise`)")
}

/// Returns the variables of a mesh rank.
pub(in crate::expand) fn mesh_vars(mesh: &Mesh, rank: u64) -> Vars {
    mesh.axes.iter().map(|a| a.name.clone()).zip(mesh.coords(rank)).collect()
}

/// Returns the extent, the unit and the row of lengths of a line on a mesh rank.
pub(in crate::expand) fn extents(line: &Line, mesh: &[(Name, i64)]) -> (u64, u64, u64) {
    let value = |e: &Expr| {
        e.eval(&|n: &Name| mesh.iter().find(|(m, _)| m == n).map(|x| x.1)).unwrap_or(0).max(0) as u64
    };
    (value(&line.extent), value(&line.unit), value(&line.row))
}

/// Returns the extent and unit of a line if they and its row are the same on every rank.
fn constant(line: &Line) -> Option<(u64, u64)> {
    line.row.as_int()?;
    Some((u64::try_from(line.extent.as_int()?).ok()?, u64::try_from(line.unit.as_int()?).ok()?))
}

/// Returns the number of elements of one of `den` chunks, if all chunks are equal on every rank.
pub(in crate::expand) fn equal_chunks(line: &Line, den: i64) -> Option<u64> {
    let ((extent, unit), den) = (constant(line)?, u64::try_from(den).ok().filter(|d| *d > 0)?);
    let total = extent * unit;
    let blocks = line.parts <= 1 || line.rule.equal_parts(extent, line.parts);
    (blocks && total % den == 0).then_some(total / den)
}

/// Returns the number of chunks of a region's space, if it is constant, and the number of chunks of
/// one run.
fn fraction(r: &Region) -> Option<(i64, Expr)> {
    let den = r.path.iter().try_fold(1i64, |d, p| d.checked_mul(p.of.as_int()?))?;
    Some((den, r.path.last().map_or(Expr::Int(1), |p| p.len.clone())))
}

impl<'x> Legal<'x> {
    pub(in crate::expand) fn new(
        lines: Vec<&'x Line>,
        world: &'x World,
        (mesh, over): (&'x Mesh, &'x [Name]),
        ranges: &'x Ranges,
        tables: &'x [Table],
    ) -> Self {
        Legal { lines, world, mesh, over, ranges, tables, left: MAX_EVALUATED }
    }

    /// Checks all transfers.
    ///
    /// # Errors
    /// Returns E021 for a peer that does not exist, E010 for an expression without a value, E026
    /// for sides that select different numbers of parts, and E332 for places of different lengths.
    pub(in crate::expand) fn nodes(&mut self, nodes: &[Node], loops: &mut Vec<Gen>) -> Res<()> {
        for n in nodes {
            match n {
                Node::Round(list) => list.iter().try_for_each(|t| self.transfer(t, loops))?,
                Node::Loop(g, body) => {
                    loops.push(g.clone());
                    let done = self.nodes(body, loops);
                    loops.pop();
                    done?;
                }
                Node::Lanes(parts) => parts.iter().try_for_each(|p| self.nodes(p, loops))?,
            }
        }
        Ok(())
    }

    fn transfer(&mut self, t: &Transfer, loops: &[Gen]) -> Res<()> {
        if let (Some((p, Expr::Int(k))), Some((q, Expr::Int(l)))) = (fraction(&t.src), fraction(&t.dst))
            && i128::from(k) * i128::from(q) != i128::from(l) * i128::from(p)
        {
            return Err(Diagnostic::error("E026", "the two sides of a transfer have different sizes")
                .primary(t.span, format!("{k} of {p} parts on one side, {l} of {q} parts on the other"))
                .help("select the same amount on both sides")
                .into_stop());
        }
        let near = t.peer.iter().zip(t.group.sizes.iter().zip(&t.group.wraps)).all(|(e, (size, wraps))| {
            *wraps
                || self.ranges.interval(e).is_some_and(|(lo, hi)| lo >= 0 && hi < *size)
                || t.group.own.contains(e)
        });
        let fits = self.evidently_fits(t);
        let checked = t.bounds.is_empty();
        let fails = |e: &Expr| may_fail(e, self.ranges, self.tables);
        let sound = !fails(&t.guard) && !t.peer.iter().any(fails);
        if near && fits && sound && checked {
            return Ok(());
        }
        let mut gens: Vec<Gen> = loops.to_vec();
        gens.extend(t.each.iter().cloned());
        for group in groups(self.mesh, self.over) {
            let vars: Vec<Vars> = group.iter().map(|r| mesh_vars(self.mesh, *r)).collect();
            for me in 0..self.world.ranks().min(group.len() as i64) {
                self.on_rank(t, me, &gens, &vars, fits)?;
                if self.left == 0 {
                    return Ok(());
                }
            }
            if fits {
                // Peers are the same in every group.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Checks whether both places evidently have the same size on every rank.
    fn evidently_fits(&self, t: &Transfer) -> bool {
        let (a, b) = (self.lines[t.src.operand as usize], self.lines[t.dst.operand as usize]);
        if a == b && t.src.path == t.dst.path && (constant(a).is_some() || t.group.own == t.peer) {
            return true;
        }
        let (Some((p, k)), Some((q, l))) = (fraction(&t.src), fraction(&t.dst)) else { return false };
        match (equal_chunks(a, p), equal_chunks(b, q)) {
            (Some(x), Some(y)) if x == y && k == l => true,
            (Some(x), Some(y)) => match (k.as_int(), l.as_int()) {
                (Some(k), Some(l)) => x as i64 * k == y as i64 * l,
                _ => false,
            },
            _ => false,
        }
    }

    fn on_rank(&mut self, t: &Transfer, me: i64, gens: &[Gen], group: &[Vars], fits: bool) -> Res<()> {
        let coords = self.coords(me);
        let here = &group[me as usize];
        let peers = t.group.region_coords(&t.wrapped_peer(self.ranges))?;
        let peer = self.world.linear(&peers);
        let (tables, lines) = (self.tables, &self.lines);
        let mut left = self.left;
        let mut gens = gens.to_vec();
        if !fits {
            gens.extend(t.src.gens.iter().cloned());
        }
        let found = for_each_value(&gens, &mut vec![], &mut |steps| {
            if left == 0 {
                return Some(Ok(()));
            }
            left -= 1;
            let at = RankVars { steps, coords: &coords, mesh: here, tables };
            match t.guard.eval(&at) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(e) => return Some(Err(no_value(&e, &coords, t.span))),
            }
            for (e, (size, wraps)) in t.peer.iter().zip(t.group.sizes.iter().zip(&t.group.wraps)) {
                match e.eval(&at) {
                    Ok(c) if !wraps && !(0..*size).contains(&c) => {
                        return Some(Err(off_axis(c, *size, &coords, t.span)));
                    }
                    Ok(_) => {}
                    Err(e) => return Some(Err(no_value(&e, &coords, t.span))),
                }
            }
            for b in &t.bounds {
                if let Some(d) = outside(b, steps, &coords, here, tables) {
                    return Some(Err(d));
                }
            }
            if fits || t.src.guard.as_ref().is_some_and(|g| g.eval(&at) == Ok(0)) {
                return None;
            }
            let there = group.get(usize::try_from(peer.eval(&at).ok()?).ok()?)?;
            let (from, to) = if t.get { (there, here) } else { (here, there) };
            let have = elements(lines[t.src.operand as usize], &t.src, &at, from)?;
            let room = elements(lines[t.dst.operand as usize], &t.dst, &at, to)?;
            misfit(&have, &room).map(|sizes| Err(unequal(sizes, t.span)))
        });
        self.left = left;
        match found {
            Some(Err(d)) => Err(d.into_stop()),
            _ => Ok(()),
        }
    }

    fn coords(&self, rank: i64) -> Vars {
        self.world.coords.iter().map(|c| c.0.clone()).zip(self.world.split(rank)).collect()
    }
}

/// Checks whether the expression may have no value: a division by 0, a logarithm of a number below
/// 1, a shift by an amount that is out of range, an entry that a table lacks, or an overflow.
pub(in crate::expand) fn may_fail(e: &Expr, ranges: &Ranges, tables: &[Table]) -> bool {
    !ranges.fact(e, tables).total
}

fn who(coords: &[(Name, i64)]) -> String {
    let parts: Vec<String> = coords.iter().map(|(n, v)| format!("{n}={v}")).collect();
    parts.join(" ")
}

fn no_value(e: &kbc_ir::expr::EvalError, coords: &[(Name, i64)], span: Span) -> Diagnostic {
    Diagnostic::error("E010", e.to_string())
        .primary(span, format!("on rank {}", who(coords)))
        .help("guard the statement with an `if` that excludes these ranks")
}

/// Returns the error of a checked selection, if the variables have values for which a chunk does
/// not exist. A selection without a value is reported by other checks.
fn outside(b: &Bound, steps: &Vars, coords: &Vars, mesh: &Vars, tables: &[Table]) -> Option<Diagnostic> {
    for_each_value(&b.gens, &mut steps.clone(), &mut |steps| {
        let at = RankVars { steps, coords, mesh, tables };
        if b.cond.as_ref().is_some_and(|c| c.eval(&at) == Ok(0)) {
            return None;
        }
        let value = |e: &Expr| e.eval(&at).ok();
        let d = b.checked.fault(value(&b.index)?, value(&b.len)?, value(&b.count)?)?;
        Some(d.note(format!("on rank {}", who(coords))))
    })
}

fn off_axis(c: i64, size: i64, coords: &[(Name, i64)], span: Span) -> Diagnostic {
    Diagnostic::error("E021", format!("coordinate {c} is outside an axis of size {size} (0..{size})"))
        .primary(span, format!("on rank {}", who(coords)))
        .help("guard the statement with `if`, or declare the axis with `mod` if it should wrap around")
}

/// Returns the number of elements of each chunk of the run given by the variables, or `None` if an
/// expression has no value.
fn elements(line: &Line, r: &Region, at: &RankVars<'_>, mesh: &[(Name, i64)]) -> Option<Vec<u64>> {
    let mut chunks = Chunks::WHOLE;
    for p in &r.path {
        let value = |e: &Expr| e.eval(at).ok();
        chunks = chunks.cut([value(&p.index)?, value(&p.len)?, value(&p.of)?]).ok()?;
    }
    Some(sizes(line, extents(line, mesh), chunks))
}

/// Returns the number of elements of each of the chunks.
pub(in crate::expand) fn sizes(
    line: &Line,
    size: (u64, u64, u64),
    Chunks { num, cnt, den }: Chunks<u64>,
) -> Vec<u64> {
    let bounds: Vec<u64> = (num..=num + cnt).map(|i| boundary(line, size, i, den)).collect();
    bounds.windows(2).map(|w| w[1] - w[0]).collect()
}

/// Returns the sizes of two places of one transfer if they do not fit.
pub(in crate::expand) fn misfit(have: &[u64], room: &[u64]) -> Option<(u64, u64)> {
    let (a, b): (u64, u64) = (have.iter().sum(), room.iter().sum());
    if a != b {
        return Some((a, b));
    }
    // If both have the same number of chunks, each chunk must fit. Otherwise only the totals must
    // agree.
    let mut pairs = have.iter().zip(room).filter(|_| have.len() == room.len());
    pairs.find(|(x, y)| x != y).map(|(x, y)| (*x, *y))
}

/// Calls `f` for every value of the generators until it returns a result.
fn for_each_value<T>(gens: &[Gen], steps: &mut Vars, f: &mut dyn FnMut(&Vars) -> Option<T>) -> Option<T> {
    let Some((g, rest)) = gens.split_first() else { return f(steps) };
    let look = |n: &Name| steps.iter().rev().find(|(m, _)| m == n).map(|s| s.1);
    let (lo, hi) = (g.lo.eval(&look).ok()?, g.hi.eval(&look).ok()?);
    for v in lo..hi {
        steps.push((g.var.clone(), v));
        let found = for_each_value(rest, steps, f);
        steps.pop();
        if found.is_some() {
            return found;
        }
    }
    None
}
