//! Search for the symmetry group: the coordinates along which ranks behave alike up to a
//! translation, so that one rank represents its orbit.
//!
//! Candidates are the axes of the mesh and the coordinates of the regions, as digits of the rank's
//! linear index. Each digit is proven on its own ([`super::proof`]), with the others left open;
//! those that pass move together. Coordinates that do not pass are walked rank by rank.

use super::digits::{QUEUES, Reason, as_digit, axis_digits, coord_strides, disjoint};
use super::group::{Action, Digit, FRACTION, Group, Move};
use super::proof::{Failed, Prover};
use super::typing::MAX_DIGITS;
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::{RegionId, Schedule};
use kbc_ir::visit::{ExprUse, Field, each_field};
use kbc_ir::walk::Program;
use std::collections::BTreeSet;

/// Maximum number of representatives that are typed.
const MAX_WALKS: usize = 512;

/// Maximum number of representatives for which cutting a coordinate into digits is worthwhile.
const MAX_SPLIT: usize = 64;

/// Number of orbits that is as good as one.
const FEW_ORBITS: usize = 4;

/// Maximum number of constants of the text by which a coordinate is cut into digits.
const MAX_CUTS: usize = 8;

/// Finds the group under which a schedule is symmetric and how it moves each buffer, or the reason
/// why there is none.
pub(super) fn find(program: &Program, calls: u64) -> Result<(Group, Vec<Action>), Reason> {
    let s = program.schedule;
    if super::queues::used(s) {
        return Err(QUEUES.into());
    }
    if let Some(reason) = super::grid::one_line_each(s) {
        return Err(reason);
    }
    same_lines(program)?;
    search(program, |digits, most| {
        let (group, moves) = settle(program, calls, (digits, most), &|_| true, false, Prover::conclude)?;
        Ok((group, actions(program, moves)?))
    })
}

/// Finds the largest group of digits allowed by `carries` under which the shape of the schedule is
/// symmetric: every rank sends as much to and from the moved peers, waits for the same and works as
/// much. Returns the reason if there is none.
pub(super) fn of_shape(
    program: &Program,
    calls: u64,
    carries: &dyn Fn(&Digit) -> bool,
) -> Result<Group, Reason> {
    if super::queues::used(program.schedule) {
        return Err(QUEUES.into());
    }
    same_lines(program)?;
    if let Some(b) = program.schedule.buffers.iter().find(|b| b.dims.iter().any(|d| d.as_int().is_none())) {
        return Err(format!("%{} has different sizes on different ranks", b.name));
    }
    search(program, |digits, most| settle(program, calls, (digits, most), carries, true, |_| Ok(())))
        .map(|found| found.0)
}

/// Returns the group with the fewest orbits that `prove` finds in the candidate sets of digits. The
/// largest sets come first, and the search stops once one orbit is left, or only a few.
fn search<T>(
    program: &Program,
    mut prove: impl FnMut(Vec<Digit>, usize) -> Result<(Group, T), Reason>,
) -> Result<(Group, T), Reason> {
    let mut best: Option<(Group, T)> = None;
    let mut why: Option<Reason> = None;
    let mut whole = true;
    for (systems, enough, most) in [(systems(program), 1, MAX_WALKS), (split(program), FEW_ORBITS, MAX_SPLIT)]
    {
        for system in systems {
            let most = best.as_ref().map_or(most, |b| most.min(b.0.reps.len() - 1));
            let digits =
                system.into_iter().map(|(stride, size)| Digit { stride, size, xor: false }).collect();
            match prove(digits, most) {
                Ok(found) => best = Some(found),
                // The reason for the axes of the mesh is reported, not that for the region's own
                // coordinates.
                Err(reason) if whole => why = Some(reason),
                Err(_) => {}
            }
            if best.as_ref().is_some_and(|b| b.0.reps.len() <= enough) {
                break;
            }
        }
        if best.as_ref().is_some_and(|b| b.0.reps.len() <= FEW_ORBITS) {
            break;
        }
        whole = false;
    }
    best.ok_or_else(|| why.unwrap_or_else(|| "there is no coordinate along which ranks could shift".into()))
}

/// Returns those of the digits that move together, and the result of `finish` on the proof. A digit
/// that fails is tried with xor; if that fails too, it is removed, and the other digits are proven
/// again without it.
fn settle<'a, T>(
    program: &'a Program<'a>,
    calls: u64,
    (mut digits, most): (Vec<Digit>, usize),
    carries: &dyn Fn(&Digit) -> bool,
    shape: bool,
    finish: impl Fn(Prover<'a>) -> Result<T, Failed>,
) -> Result<(Group, T), Reason> {
    let mut why = None;
    // Keep the largest digits.
    digits.sort_by_key(|d| std::cmp::Reverse(d.size));
    digits.truncate(MAX_DIGITS);
    while !digits.is_empty() {
        // `Group::new` orders the digits.
        let group = Group::new(program.ranks(), digits);
        digits = group.digits.clone();
        if group.reps.len() > most {
            break;
        }
        let shown = match digits.iter().position(|d| !carries(d)) {
            Some(k) => Err((k, "the machine is not symmetric".into())),
            None => typed(program, calls, &group, shape).and_then(&finish),
        };
        let (k, reason) = match shown {
            Ok(found) => return Ok((group, found)),
            Err(failed) => failed,
        };
        why.get_or_insert(reason);
        if !digits[k].xor && digits[k].size.is_power_of_two() {
            digits[k].xor = true;
        } else {
            digits.remove(k);
            digits.iter_mut().for_each(|d| d.xor = false);
        }
    }
    Err(why.unwrap_or_else(|| "there is no coordinate along which ranks could shift".into()))
}

/// Checks that lines of operands and sizes of their buffers are the same on every rank.
fn same_lines(program: &Program) -> Result<(), Reason> {
    let s = program.schedule;
    let coords: Vec<Vec<i64>> = (0..s.mesh.ranks()).map(|r| s.mesh.coords(r)).collect();
    let same = |e: &Expr| {
        if e.as_int().is_some() {
            return true;
        }
        let value = |c: &Vec<i64>| {
            let get = |n: &kbc_ir::name::Name| s.mesh.axes.iter().position(|a| a.name == *n).map(|i| c[i]);
            e.eval(&get).ok()
        };
        let first = coords.first().map(value);
        coords.iter().all(|c| Some(value(c)) == first)
    };
    for o in s.regions.iter().flat_map(|r| &r.operands) {
        let b = s.buffer(o.buffer);
        if !same(&o.line.row) {
            return Err(format!("the blocks of %{} have different lengths on different ranks", b.name));
        }
        if !same(&o.line.extent) || !same(&o.line.unit) || !b.dims.iter().all(same) {
            return Err(format!("%{} has different sizes on different ranks", b.name));
        }
    }
    Ok(())
}

/// Returns sets of digits that might move together: the axes, and each region's coordinates with
/// the remaining axes.
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

/// Returns sets of digits with one coordinate cut where constants of the text cut it, as in
/// `r / 4`, `r mod 4`, `r & 3`. The other coordinates stay as they are.
fn split(program: &Program) -> Vec<Vec<(u64, u64)>> {
    let cuts = constants(program.schedule);
    let mut out = vec![];
    for system in systems(program) {
        for (i, &(stride, size)) in system.iter().enumerate() {
            let divides = |k: &u64| *k < size && size.is_multiple_of(*k);
            // A divisor is a stride in the rank. A modulus may be a stride or the size of a digit.
            let mut chains: Vec<Vec<u64>> =
                cuts.iter().map(|of| chain(of.iter().copied().filter(divides))).collect();
            chains.extend(cuts[1].iter().copied().filter(divides).take(MAX_CUTS).map(|k| vec![k]));
            for chain in chains.into_iter().filter(|c| !c.is_empty()) {
                let mut digits: Vec<(u64, u64)> =
                    system.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, d)| *d).collect();
                let mut below = 1;
                for k in chain.into_iter().chain([size]) {
                    digits.push((stride * below, k / below));
                    below = k;
                }
                digits.sort_unstable_by_key(|d| std::cmp::Reverse(d.0));
                if digits.len() <= MAX_DIGITS && !out.contains(&digits) {
                    out.push(digits);
                }
            }
        }
    }
    out
}

/// Returns the numbers of which each divides the next.
fn chain(numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut out: Vec<u64> = vec![];
    for k in numbers {
        if out.last().is_none_or(|last| k.is_multiple_of(*last)) {
            out.push(k);
        }
    }
    out
}

/// Divisors in peers, chunks and guards; and divisors together with moduli.
type Cuts = [BTreeSet<u64>; 2];

fn constants(s: &Schedule) -> Cuts {
    fn of(e: &Expr, out: &mut Cuts) {
        match e {
            Expr::Int(_) | Expr::Var(_) => {}
            Expr::Un(_, a) | Expr::Table(_, a) => of(a, out),
            Expr::Bin(op, a, b) => {
                let (from, by) = match (op, b.as_int()) {
                    (BinOp::Div, k) => (0, k),
                    (BinOp::Mod, k) => (1, k),
                    (BinOp::BitAnd, Some(k)) => (1, k.checked_add(1)),
                    (BinOp::Shr, Some(k)) => (0, u32::try_from(k).ok().and_then(|k| 1i64.checked_shl(k))),
                    _ => (1, None),
                };
                let by = by.filter(|k| *k > 1).map(|k| k as u64);
                out.iter_mut().skip(from).for_each(|cuts| cuts.extend(by));
                of(a, out);
                of(b, out);
            }
            Expr::Select(c, a, b) => [c, a, b].into_iter().for_each(|e| of(e, out)),
        }
    }
    let mut out = Cuts::default();
    each_field(s, &mut |at, field| {
        if let (
            Some(_),
            Field::Expr(ExprUse::Guard | ExprUse::Peer(_) | ExprUse::ChunkIndex | ExprUse::Part, e),
        ) = (at.region, field)
        {
            of(e, &mut out);
        }
    });
    out
}

/// Returns how each buffer moves when the digits do.
fn actions(program: &Program, moves: Vec<(u32, Move)>) -> Result<Vec<Action>, Reason> {
    let mut actions = vec![Action::default(); program.schedule.buffers.len()];
    for (buffer, m) in moves {
        actions[buffer as usize].moves.push(m);
    }
    if let Some(b) = actions.iter().position(|a| !commute(a)) {
        let name = &program.schedule.buffers[b].name;
        return Err(format!("two coordinates shift the same parts of %{name} in different ways"));
    }
    Ok(actions)
}

/// Checks that the moves of one piece of a line commute: they act on different digits of the line,
/// or are of one kind.
fn commute(a: &Action) -> bool {
    let range = |m: &Move| match *m {
        // As fractions of the line, in units of 2^-60: (finest, coarsest).
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
            if let (Move::Shift { piece: p, .. }, Move::Shift { piece: q, .. }) = (x, y)
                && p.beside(*q)
            {
                return true;
            }
            let (p, q) = (range(x), range(y));
            p.1 <= q.0 || q.1 <= p.0 || (kind(x) == kind(y) && p == q)
        })
    })
}

/// Types the digits of a group on every representative, for everything or for the shape alone.
fn typed<'a>(program: &'a Program<'a>, calls: u64, group: &Group, shape: bool) -> Result<Prover<'a>, Failed> {
    let mut p = Prover::new(program, calls, group.digits.clone(), shape);
    for &rank in &group.reps {
        p.rank(rank)?;
    }
    Ok(p)
}
