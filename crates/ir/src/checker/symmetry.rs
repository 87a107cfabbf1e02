//! Under which coordinates ranks do the same, moved: the search for the group that lets one rank stand for its orbit.
//!
//! Candidates are the axes of the mesh and the coordinates of the regions, as digits of the rank's linear index. Each
//! digit is shown on its own ([`super::proof`]), with the others left open; those that pass move together. What does
//! not pass is walked rank by rank.

use super::group::{Action, Digit, FRACTION, Group, Move};
use super::proof::Prover;
use crate::expr::Expr;
use crate::schedule::{Region, RegionId, Schedule};
use crate::walk::Program;

/// Why a digit does not move.
pub(super) type Reason = String;

/// More representatives than this are not typed.
const MOST_WALKS: usize = 512;

/// The group under which a schedule is symmetric and how it moves each buffer, or why there is none.
pub(super) fn find(program: &Program, calls: u64) -> Result<(Group, Vec<Action>), Reason> {
    let s = program.schedule;
    if super::queues::used(s) {
        return Err("queues are followed on every rank".into());
    }
    if let Some(reason) = super::grid::one_line_each(s) {
        return Err(reason);
    }
    same_lines(program)?;
    let mut best: Option<(Group, Vec<Action>)> = None;
    let mut why: Option<Reason> = None;
    for system in systems(program) {
        match prove(program, calls, system) {
            Ok((group, actions)) => {
                if best.as_ref().is_none_or(|(b, _)| group.reps.len() < b.reps.len()) {
                    best = Some((group, actions));
                }
            }
            Err(reason) => {
                why.get_or_insert(reason);
            }
        }
    }
    best.ok_or_else(|| why.unwrap_or_else(|| "there is no coordinate to move".into()))
}

/// The largest group of digits that `carries` allows under which everybody sends as much, to and from whom it does,
/// moved, waits for the same and works as much; or why there is none.
pub(super) fn of_shape(
    program: &Program,
    calls: u64,
    carries: &dyn Fn(&Digit) -> bool,
) -> Result<Group, Reason> {
    if super::queues::used(program.schedule) {
        return Err("queues are followed on every rank".into());
    }
    same_lines(program)?;
    if let Some(b) = program.schedule.buffers.iter().find(|b| b.dims.iter().any(|d| d.as_int().is_none())) {
        return Err(format!("%{} is not equally large on all ranks", b.name));
    }
    let mut best: Option<Group> = None;
    let mut why: Option<Reason> = None;
    for system in systems(program) {
        let mut digits: Vec<Digit> = vec![];
        for (stride, size) in system {
            let digit = Digit { stride, size, xor: false };
            let xor = Digit { xor: true, ..digit.clone() };
            if carries(&digit) || (size.is_power_of_two() && carries(&xor)) {
                digits.push(digit);
            } else {
                why.get_or_insert_with(|| "the machine is not the same when the ranks move".into());
            }
        }
        match shapely(program, calls, carries, digits) {
            Ok(group) if best.as_ref().is_none_or(|b| group.reps.len() < b.reps.len()) => best = Some(group),
            Ok(_) => {}
            Err(reason) => {
                why.get_or_insert(reason);
            }
        }
    }
    best.ok_or_else(|| why.unwrap_or_else(|| "there is no coordinate to move".into()))
}

/// Those of the digits that move the shape; they leave one by one, as in [`prove`].
fn shapely(
    program: &Program,
    calls: u64,
    carries: &dyn Fn(&Digit) -> bool,
    mut digits: Vec<Digit>,
) -> Result<Group, Reason> {
    let mut why = None;
    while !digits.is_empty() {
        let mut failed = None;
        for k in 0..digits.len() {
            let mut found = false;
            for xor in [false, true] {
                digits[k].xor = xor;
                if !found && carries(&digits[k]) && (!xor || digits[k].size.is_power_of_two()) {
                    match typed(program, calls, &digits, k, true) {
                        Ok(_) => found = true,
                        Err(reason) => drop(why.get_or_insert(reason)),
                    }
                }
                if found {
                    break;
                }
            }
            if !found {
                failed = Some(k);
                break;
            }
        }
        match failed {
            Some(k) => {
                digits.remove(k);
                digits.iter_mut().for_each(|d| d.xor = false);
            }
            None => return Ok(Group::new(program.ranks(), digits)),
        }
    }
    Err(why.unwrap_or_else(|| "there is no coordinate to move".into()))
}

/// Lines of operands and sizes of their buffers must be the same on every rank.
fn same_lines(program: &Program) -> Result<(), Reason> {
    let s = program.schedule;
    let coords: Vec<Vec<i64>> = (0..s.mesh.ranks()).map(|r| s.mesh.coords(r)).collect();
    let same = |e: &Expr| {
        if e.as_int().is_some() {
            return true;
        }
        let value = |c: &Vec<i64>| {
            let get = |n: &crate::name::Name| s.mesh.axes.iter().position(|a| a.name == *n).map(|i| c[i]);
            e.eval(&get).ok()
        };
        let first = coords.first().map(value);
        coords.iter().all(|c| Some(value(c)) == first)
    };
    for o in s.regions.iter().flat_map(|r| &r.operands) {
        let b = s.buffer(o.buffer);
        if !same(&o.line.row) {
            return Err(format!("%{} has blocks of other lengths on other ranks", b.name));
        }
        if !same(&o.line.extent) || !same(&o.line.unit) || !b.dims.iter().all(same) {
            return Err(format!("%{} is not equally large on all ranks", b.name));
        }
    }
    Ok(())
}

/// A coordinate of a region as (stride, size) in the rank, if it is a digit of it.
pub(super) fn as_digit(program: &Program, region: RegionId, stride: u64, size: u64) -> Option<(u64, u64)> {
    let offset = |v: u64| program.group_rank(region, 0, v * stride);
    let unit = if size > 1 { offset(1) } else { return Some((1, 1)) };
    (0..size).all(|v| offset(v) == v * unit).then_some((unit, size))
}

/// (stride, size) of digits of these sizes, first slowest.
fn strides(sizes: impl DoubleEndedIterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut next = 1;
    let mut out = vec![];
    for size in sizes.rev() {
        out.push((next, size));
        next *= size;
    }
    out.reverse();
    out
}

/// Strides of a region's coordinates in its group.
pub(super) fn coord_strides(r: &Region) -> Vec<(u64, u64)> {
    strides(r.coords.iter().map(|c| c.1))
}

/// Strides and sizes of the axes of the mesh.
pub(super) fn axis_digits(s: &Schedule) -> Vec<(u64, u64)> {
    strides(s.mesh.axes.iter().map(|a| a.size))
}

/// Whether two digits share nothing.
pub(super) fn disjoint(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 * a.1 <= b.0 || b.0 * b.1 <= a.0
}

/// Sets of digits that might move together: the axes, and each region's coordinates with the axes beside them.
fn systems(program: &Program) -> Vec<Vec<(u64, u64)>> {
    let s = program.schedule;
    let axes: Vec<(u64, u64)> = axis_digits(s).into_iter().filter(|d| d.1 > 1).collect();
    let mut out = vec![axes.clone()];
    for (i, r) in s.regions.iter().enumerate().filter(|(_, r)| !r.over.is_empty()) {
        let own: Option<Vec<_>> = coord_strides(r)
            .into_iter()
            .map(|(st, n)| as_digit(program, RegionId(i as u32), st, n))
            .collect();
        let Some(mut own) = own else { continue };
        own.retain(|d| d.1 > 1);
        let rest = axes.iter().filter(|a| own.iter().all(|d| disjoint(*d, **a)));
        let mut all: Vec<_> = own.iter().chain(rest).copied().collect();
        all.sort_unstable_by_key(|d| std::cmp::Reverse(d.0));
        if !out.contains(&all) {
            out.push(all);
        }
    }
    out
}

fn prove(program: &Program, calls: u64, system: Vec<(u64, u64)>) -> Result<(Group, Vec<Action>), Reason> {
    let mut digits: Vec<Digit> =
        system.into_iter().map(|(stride, size)| Digit { stride, size, xor: false }).collect();
    let mut why = None;
    // Digits that fail leave, and the others are shown again without them.
    loop {
        if digits.is_empty() {
            return Err(why.unwrap_or_else(|| "there is no coordinate to move".into()));
        }
        let mut moves: Vec<(u32, Move)> = vec![];
        let mut failed = None;
        for k in 0..digits.len() {
            let mut tried = try_digit(program, calls, &digits, k);
            if tried.is_err() && digits[k].size.is_power_of_two() {
                digits[k].xor = true;
                tried = try_digit(program, calls, &digits, k).or(tried);
            }
            match tried {
                Ok(list) => moves.extend(list),
                Err(reason) => {
                    why.get_or_insert(reason);
                    failed = Some(k);
                    break;
                }
            }
        }
        if let Some(k) = failed {
            digits.remove(k);
            digits.iter_mut().for_each(|d| d.xor = false);
            continue;
        }
        let group = Group::new(program.ranks(), digits.clone());
        let mut actions = vec![Action::default(); program.schedule.buffers.len()];
        for (buffer, m) in moves {
            actions[buffer as usize].moves.push(m);
        }
        if let Some(b) = actions.iter().position(|a| !commute(a)) {
            let name = &program.schedule.buffers[b].name;
            return Err(format!("two coordinates move the same parts of %{name} in different ways"));
        }
        return Ok((group, actions));
    }
}

/// Moves of one line must act on different digits of it, or be of one kind.
fn commute(a: &Action) -> bool {
    let range = |m: &Move| match *m {
        // As fractions of the line, in units of 2^-FRACTION where exact: (finest, coarsest).
        Move::Shift { of, n, .. } => ((1u128 << 60) / of as u128, (1u128 << 60) * n as u128 / of as u128),
        Move::Xor { mask, .. } => {
            let scale = 60 - FRACTION;
            let (low, high) = (mask.trailing_zeros(), 63 - mask.leading_zeros());
            (1u128 << (low + scale), 1u128 << (high + 1 + scale))
        }
    };
    let kind = |m: &Move| matches!(m, Move::Xor { .. });
    a.moves.iter().enumerate().all(|(i, x)| {
        a.moves[i + 1..].iter().all(|y| {
            let (p, q) = (range(x), range(y));
            p.1 <= q.0 || q.1 <= p.0 || (kind(x) == kind(y) && p == q)
        })
    })
}

fn try_digit(program: &Program, calls: u64, digits: &[Digit], k: usize) -> Result<Vec<(u32, Move)>, Reason> {
    typed(program, calls, digits, k, false)?.conclude()
}

/// Digit number `k` typed on every representative, for everything or for the shape alone.
fn typed<'a>(
    program: &'a Program<'a>,
    calls: u64,
    digits: &[Digit],
    k: usize,
    shape: bool,
) -> Result<Prover<'a>, Reason> {
    let group = Group::new(program.ranks(), digits.to_vec());
    if group.reps.len() > MOST_WALKS {
        return Err(format!("more than {MOST_WALKS} ranks would have to be walked"));
    }
    // `Group::new` may have ordered the digits.
    let k = group.digits.iter().position(|d| *d == digits[k]).unwrap_or(k);
    let p = Prover::new(program, calls, group.digits.clone(), k);
    let mut p = if shape { p.shape() } else { p };
    for &rank in &group.reps {
        p.rank(rank)?;
    }
    Ok(p)
}
