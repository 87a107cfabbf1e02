//! What a mutation makes of a schedule.
//!
//! Owns the change of one statement and its place in the text; which changes there are is the module's above.

use super::{Kind, Mutation, Side};
use crate::expr::{BinOp, Expr, UnOp};
use crate::form::Form;
use crate::schedule::*;

/// The next of `count` things.
fn next(e: &Expr, count: impl Into<Expr>) -> Expr {
    (e.clone() + Expr::Int(1)).modulo(count)
}

fn turned(e: &Expr) -> Expr {
    Expr::un(UnOp::Not, e.clone())
}

fn coordinate(r: &Region, i: u32) -> Option<(Expr, i64)> {
    let (name, size) = r.coords.get(i as usize)?;
    (*size > 1).then(|| (Expr::var(name.as_str()), *size as i64))
}

/// An expression as the next rank of a coordinate has it.
fn moved(r: &Region, i: u32, e: &Expr) -> Option<Expr> {
    let (var, size) = coordinate(r, i)?;
    let name = r.coords.get(i as usize)?.0.clone();
    e.mentions(&name).then(|| e.subst(&|n| (*n == name).then(|| next(&var, size))))
}

/// In call 1 alone.
fn once() -> Expr {
    Expr::bin(BinOp::Eq, Expr::var(CALL), Expr::Int(1))
}

/// What a statement becomes; none if the kind does not apply.
pub(super) fn changed(s: &Schedule, r: &Region, st: &SStmt, kind: Kind) -> Option<Vec<SStmt>> {
    let mut new = st.clone();
    match (&mut new, kind) {
        (SStmt::If { cond, .. }, Kind::Guard) => *cond = turned(cond),
        (SStmt::If { cond, .. }, Kind::GuardAlways) => *cond = Expr::Int(1),
        (SStmt::If { cond, .. }, Kind::GuardMoved(i)) => *cond = moved(r, i, cond)?,
        (SStmt::If { cond, .. }, Kind::GuardWider(i)) => {
            let (var, _) = coordinate(r, i)?;
            *cond = Expr::bin(BinOp::Or, cond.clone(), var.equals(Expr::Int(0)));
        }
        (SStmt::If { .. }, Kind::GuardTwice) | (SStmt::For { .. }, Kind::LoopTwice) => {
            return Some(vec![new.clone(), new]);
        }
        (SStmt::For { hi, .. }, Kind::EndEarly) => *hi = hi.clone() - Expr::Int(1),
        (SStmt::For { hi, .. }, Kind::EndLate) => *hi = hi.clone() + Expr::Int(1),
        (SStmt::For { lo, .. }, Kind::BeginLate) => *lo = lo.clone() + Expr::Int(1),
        (SStmt::For { var, lo, hi, body }, Kind::LoopReversed) => {
            let other = lo.clone() + hi.clone() - Expr::Int(1) - Expr::var(var.as_str());
            *body = subst_stmts(body, &|n| (n == var).then(|| other.clone()));
        }
        (SStmt::Op(SOp::Mark { .. }, _), _) => return None,
        (SStmt::Op(..), Kind::Drop) => return Some(vec![]),
        (SStmt::Op(..), Kind::Duplicate) => return Some(vec![new.clone(), new]),
        (SStmt::Op(..), Kind::SkipCall) => {
            return Some(vec![SStmt::If { cond: turned(&once()), then: vec![new], other: vec![] }]);
        }
        (SStmt::Op(..), Kind::PeerBoth(i)) => {
            return Some([vec![st.clone()], changed(s, r, st, Kind::Peer(i))?].concat());
        }
        (SStmt::Op(op, _), _) => operation(s, r, op, kind)?,
        _ => return None,
    }
    Some(vec![new])
}

/// Another peer in coordinate `i`.
fn turn_peer(r: &Region, peer: &mut Peer, kind: Kind, i: u32) -> Option<()> {
    let (own, size) = coordinate(r, i)?;
    let e = peer.get_mut(i as usize)?;
    *e = match kind {
        Kind::PeerSelf(_) => own,
        Kind::PeerReversed(_) => Expr::Int(size - 1) - e.clone(),
        Kind::PeerOnce(_) => Expr::select(once(), next(e, size), e.clone()),
        _ => next(e, size),
    };
    Some(())
}

fn operation(s: &Schedule, r: &Region, op: &mut SOp, kind: Kind) -> Option<()> {
    match (op, kind) {
        (
            SOp::Put { peer, .. } | SOp::Get { peer, .. } | SOp::Notify { peer, .. },
            Kind::Peer(i) | Kind::PeerSelf(i) | Kind::PeerReversed(i) | Kind::PeerOnce(i),
        ) => {
            turn_peer(r, peer, kind, i)?;
        }
        (
            SOp::Send { peer, .. } | SOp::Recv { peer, .. },
            Kind::PeerSelf(i) | Kind::PeerReversed(i) | Kind::PeerOnce(i),
        ) => turn_peer(r, peer, kind, i)?,
        (
            SOp::Copy { dst, src }
            | SOp::Reduce { dst, src, .. }
            | SOp::Put { src, dst, .. }
            | SOp::Get { dst, src, .. },
            Kind::ExtentLess | Kind::ExtentMore | Kind::Cut,
        ) => {
            // Both sides alike, or sizes would differ and nothing else be wrong.
            let done = [dst, src].into_iter().filter_map(|x| extent(x, kind)).count();
            return (done > 0).then_some(());
        }
        (
            SOp::Copy { dst, src }
            | SOp::Reduce { dst, src, .. }
            | SOp::Put { src, dst, .. }
            | SOp::Get { dst, src, .. },
            kind,
        ) if side(kind).is_some() => {
            let x = if side(kind) == Some(Side::Source) { src } else { dst };
            reference(s, r, x, kind)?;
        }
        (SOp::Notify { signal, index, .. } | SOp::Wait { signal, index, .. }, Kind::Counter) => {
            let count = s.signal(*signal).count;
            if count < 2 {
                return None;
            }
            *index = next(index, count as i64);
        }
        (SOp::Notify { signal, .. } | SOp::Wait { signal, .. }, Kind::Signal) => {
            // One that has the counter.
            let count = s.signal(*signal).count;
            let n = s.signals.len() as u32;
            let others = (1..n).map(|k| SignalId((signal.0 + k) % n));
            *signal = others.into_iter().find(|o| s.signal(*o).count >= count)?;
        }
        (SOp::Wait { value, .. }, Kind::WaitLess) => *value = value.clone() - Expr::Int(1),
        (SOp::Wait { value, .. }, Kind::WaitMore) => *value = value.clone() + Expr::Int(1),
        (SOp::Wait { value, .. }, Kind::Epoch) => {
            if !value.mentions(CALL) {
                return None;
            }
            *value = value.subst(&|n| (n == CALL).then(|| Expr::var(CALL) - Expr::Int(1)));
        }
        (op @ SOp::Reduce { .. }, Kind::NoReduce) => {
            let SOp::Reduce { dst, src, .. } = op.clone() else { return None };
            *op = SOp::Copy { dst, src };
        }
        (op @ SOp::Copy { .. }, Kind::Reduce) => {
            let SOp::Copy { dst, src } = op.clone() else { return None };
            *op = SOp::Reduce { op: crate::types::ReduceOp::Sum, dst, src };
        }
        (op @ (SOp::FenceRelease | SOp::FenceAcquire | SOp::FenceComplete), Kind::Fence(k)) => {
            *op = match k {
                0 => SOp::FenceRelease,
                1 => SOp::FenceAcquire,
                _ => SOp::FenceComplete,
            };
        }
        _ => return None,
    }
    Some(())
}

/// The side that a kind is about.
fn side(kind: Kind) -> Option<Side> {
    match kind {
        Kind::Slot(x)
        | Kind::SlotOneRing(x)
        | Kind::SlotShared(x)
        | Kind::SlotReversed(x)
        | Kind::SlotFewer(x)
        | Kind::Window(x)
        | Kind::Operand(x)
        | Kind::Chunk(x, _)
        | Kind::ChunkZero(x, _)
        | Kind::ChunkShared(x, _)
        | Kind::ChunkReversed(x, _)
        | Kind::ChunkLess(x, _) => Some(x),
        _ => None,
    }
}

fn extent(x: &mut Ref, kind: Kind) -> Option<()> {
    let Ref::Chunk { path, .. } = x else { return None };
    let p = path.last_mut()?;
    match kind {
        Kind::Cut => p.of = p.of.clone() + Expr::Int(1),
        Kind::ExtentMore => p.len = p.len.clone() + Expr::Int(1),
        _ if p.len == Expr::Int(1) => return None,
        _ => p.len = p.len.clone() - Expr::Int(1),
    }
    Some(())
}

fn reference(s: &Schedule, r: &Region, x: &mut Ref, kind: Kind) -> Option<()> {
    match (x, kind) {
        (Ref::Slot { window, slot }, Kind::Window(_)) => {
            let (own, n) = (s.window(*window), s.windows.len() as u32);
            let others = (1..n).map(|k| WindowId((window.0 + k) % n));
            // One of the same type that has the slot.
            let fits = |o: &WindowId| {
                let w = s.window(*o);
                w.dtype == own.dtype && w.slots >= own.slots && w.capacity >= own.capacity
            };
            (*window, *slot) = (others.into_iter().find(fits)?, slot.clone());
        }
        (Ref::Slot { window, slot }, kind) => {
            let slots = s.window(*window).slots as i64;
            if slots < 2 {
                return None;
            }
            *slot = match kind {
                Kind::Slot(_) => next(slot, slots),
                Kind::SlotOneRing(_) if slot.mentions(CALL) => {
                    slot.subst(&|n| (n == CALL).then_some(Expr::Int(0)))
                }
                Kind::SlotShared(_) => {
                    Expr::bin(BinOp::Mul, Expr::bin(BinOp::Div, slot.clone(), Expr::Int(2)), Expr::Int(2))
                }
                Kind::SlotReversed(_) => Expr::Int(slots - 1) - slot.clone(),
                Kind::SlotFewer(_) => slot.clone().modulo(slots - 1),
                _ => return None,
            };
        }
        (Ref::Chunk { operand, .. }, Kind::Operand(_)) => {
            let n = r.operands.len() as u32;
            if n < 2 {
                return None;
            }
            operand.0 = (operand.0 + 1) % n;
        }
        (
            Ref::Chunk { path, .. },
            Kind::Chunk(_, d)
            | Kind::ChunkZero(_, d)
            | Kind::ChunkShared(_, d)
            | Kind::ChunkReversed(_, d)
            | Kind::ChunkLess(_, d),
        ) => {
            let p = path.get_mut(d as usize)?;
            if p.len != Expr::Int(1) || p.of == Expr::Int(1) {
                return None;
            }
            let i = p.index.clone();
            p.index = match kind {
                Kind::ChunkZero(..) => Expr::Int(0),
                Kind::ChunkShared(..) => {
                    Expr::bin(BinOp::Mul, Expr::bin(BinOp::Div, i, Expr::Int(2)), Expr::Int(2))
                }
                Kind::ChunkReversed(..) => p.of.clone() - Expr::Int(1) - i,
                Kind::ChunkLess(..) => (i - Expr::Int(1)).modulo(p.of.clone()),
                _ => next(&i, p.of.clone()),
            };
        }
        _ => return None,
    }
    Some(())
}

/// A change of all that a schedule does with a window or an array of signals.
fn throughout(s: &Schedule, kind: Kind) -> Schedule {
    let mut out = s.clone();
    if let Kind::Stale(x) | Kind::Bit(x) | Kind::Taken(x) = kind {
        let form = &mut out.signals[x as usize].form;
        *form = match (kind, *form) {
            (Kind::Stale(_), Form::Sense { .. }) => Form::Sense { fresh: false },
            (Kind::Stale(_), Form::Clearing { .. }) => Form::Clearing { fresh: false },
            (Kind::Bit(_), Form::Epoch) => Form::Sense { fresh: true },
            (Kind::Taken(_), Form::Epoch | Form::Sense { .. }) => Form::Clearing { fresh: true },
            (_, form) => form,
        };
    }
    for stream in out.regions.iter_mut().flat_map(|r| &mut r.roles).flat_map(|role| &mut role.streams) {
        stream.body = replace_ops(&stream.body, &|op| match (op, kind) {
            (SOp::Notify { signal, .. } | SOp::Wait { signal, .. }, Kind::Unsignalled(x))
                if signal.0 == x =>
            {
                vec![]
            }
            (SOp::Wait { signal, index, value }, Kind::Bit(x)) if signal.0 == x => {
                vec![SOp::Wait { signal: *signal, index: index.clone(), value: value.clone().modulo(2) }]
            }
            (SOp::Wait { signal, index, .. }, Kind::Taken(x)) if signal.0 == x => {
                vec![SOp::Wait { signal: *signal, index: index.clone(), value: Expr::Int(1) }]
            }
            (_, Kind::Ring(x)) => {
                let mut op = op.clone();
                if let SOp::Copy { dst, src }
                | SOp::Reduce { dst, src, .. }
                | SOp::Put { src, dst, .. }
                | SOp::Get { dst, src, .. } = &mut op
                {
                    for side in [dst, src] {
                        if let Ref::Slot { window, slot } = side
                            && window.0 == x
                        {
                            *slot = slot.subst(&|n| (n == CALL).then_some(Expr::Int(0)));
                        }
                    }
                }
                vec![op]
            }
            _ => vec![op.clone()],
        });
    }
    out
}

/// Those changes, with the number of the first region that has something of it.
pub(super) fn whole(s: &Schedule) -> Vec<(Kind, usize)> {
    let windows = (0..s.windows.len() as u32).map(Kind::Ring);
    let signals = || 0..s.signals.len() as u32;
    let forms = signals().flat_map(|x| [Kind::Stale(x), Kind::Bit(x), Kind::Taken(x)]);
    let kinds = windows.chain(signals().map(Kind::Unsignalled)).chain(forms);
    let first = |new: &Schedule| new.regions.iter().zip(&s.regions).position(|(a, b)| a != b);
    kinds
        .filter_map(|k| match k {
            Kind::Stale(x) | Kind::Bit(x) | Kind::Taken(x) => {
                let changed = throughout(s, k).signals[x as usize].form != s.signals[x as usize].form;
                let at = first(&throughout(s, Kind::Unsignalled(x)));
                at.filter(|_| changed).map(|at| (k, at))
            }
            k => Some((k, first(&throughout(s, k))?)),
        })
        .collect()
}

/// The schedule with a mutation; unchanged if the site is not one of its own.
pub fn apply(s: &Schedule, m: &Mutation) -> Schedule {
    change(s, m, None)
}

/// The schedule with a mutation on one rank of each group only, by index in the group: a guard around the statement.
pub fn apply_on(s: &Schedule, m: &Mutation, index: u64) -> Schedule {
    change(s, m, Some(index))
}

fn change(s: &Schedule, m: &Mutation, only: Option<u64>) -> Schedule {
    if m.kind.is_whole() {
        return throughout(s, m.kind);
    }
    let mut out = s.clone();
    let Some(region) = s.regions.get(m.site.region) else { return out };
    // The coordinates of the one rank.
    let guard = only.map(|index| {
        let mut rest = index;
        let mut cond: Option<Expr> = None;
        for (name, size) in region.coords.iter().rev() {
            let here = Expr::bin(BinOp::Eq, Expr::var(name.as_str()), Expr::Int((rest % size) as i64));
            rest /= size;
            cond = Some(match cond {
                Some(c) => here.and(c),
                None => here,
            });
        }
        cond.unwrap_or(Expr::Int(1))
    });
    let Some(role) = out.regions[m.site.region].roles.get_mut(m.site.role) else { return out };
    let Some((last, above)) = m.site.path.split_last() else {
        if let (RankSet::Where(e), Kind::Role | Kind::RoleMoved(_)) = (&mut role.ranks, m.kind) {
            let flipped = match m.kind {
                Kind::RoleMoved(i) => moved(region, i, e).unwrap_or_else(|| e.clone()),
                _ => turned(e),
            };
            *e = match guard {
                Some(g) => Expr::select(g, flipped, e.clone()),
                None => flipped,
            };
        }
        return out;
    };
    let Some(stream) = role.streams.get_mut(m.site.stream) else { return out };
    let mut body = &mut stream.body;
    for (i, branch) in above {
        body = match body.get_mut(*i) {
            Some(SStmt::For { body, .. }) => body,
            Some(SStmt::If { then, other, .. }) => {
                if *branch == 1 {
                    other
                } else {
                    then
                }
            }
            _ => return s.clone(),
        };
    }
    // The statements of the block that change.
    let at = last.0;
    let (i, end) = match m.kind {
        Kind::Swap => (at, at + 2),
        Kind::First => (0, at + 1),
        Kind::Last => (at, body.len()),
        _ => (at, at + 1),
    };
    if end > body.len() {
        return s.clone();
    }
    let old: Vec<SStmt> = body[i..end].to_vec();
    let mut new = old.clone();
    match m.kind {
        Kind::First => new.rotate_right(1),
        Kind::Swap | Kind::Last => new.rotate_left(1),
        _ => match changed(s, region, &old[0], m.kind) {
            Some(list) => new = list,
            None => return s.clone(),
        },
    }
    let put = match guard {
        Some(cond) => vec![SStmt::If { cond, then: new, other: old }],
        None => new,
    };
    body.splice(i..end, put);
    out
}
