//! Message bodies: replaces marks, puts and reads of slots by `send` and `recv`.
//!
//! After the `accept` of a message, the receiver reads its slots with copies and additions
//! (*landings*), in loops over pieces and under conditions. One of them becomes the `recv`. It is
//! called the *first landing*: one without a condition, and a copy if there is one. The other
//! landings, which read the same pieces, read the place where the first one put them. This module
//! also makes the registers that this needs.

use super::{WindowQueue, index, refused};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::expr::Expr;
use kbc_ir::schedule::*;
use kbc_ir::{Name, types::ReduceOp};

/// Returns an operation with its references replaced.
pub(super) fn with_refs(op: &SOp, f: &impl Fn(&Ref) -> Ref) -> SOp {
    match op {
        SOp::Copy { dst, src } => SOp::Copy { dst: f(dst), src: f(src) },
        SOp::Reduce { op, dst, src } => SOp::Reduce { op: *op, dst: f(dst), src: f(src) },
        SOp::Put { src, peer, dst } => SOp::Put { src: f(src), peer: peer.clone(), dst: f(dst) },
        SOp::Get { dst, peer, src } => SOp::Get { dst: f(dst), peer: peer.clone(), src: f(src) },
        SOp::GetCombine { op, dst, peer, src } => {
            SOp::GetCombine { op: *op, dst: f(dst), peer: peer.clone(), src: f(src) }
        }
        op => op.clone(),
    }
}

/// Returns the schedule in which every piece of a message is read once, at the place where it will
/// be received.
pub(super) fn shadow(s: &Schedule, plan: &[Option<WindowQueue>]) -> Result<Schedule, Diagnostic> {
    let mut out = s.clone();
    let keep = |landings: &[SStmt], _: WindowQueue, _: &Peer, first: usize| Ok(vec![landings[first].clone()]);
    for stream in out.regions.iter_mut().flat_map(|r| &mut r.roles).flat_map(|r| &mut r.streams) {
        stream.body = Body { plan, sends: false }.list(&stream.body, &mut &keep)?;
    }
    Ok(out)
}

/// Replaces windows by queues.
pub(super) fn rewrite(s: &mut Schedule, plan: &[Option<WindowQueue>]) -> Result<(), Diagnostic> {
    for r in 0..s.regions.len() {
        let mut registers = Registers { of: vec![], operands: s.regions[r].operands.len() as u32 };
        let mut roles = std::mem::take(&mut s.regions[r].roles);
        for stream in roles.iter_mut().flat_map(|r| &mut r.streams) {
            let mut land = |landings: &[SStmt], lane: WindowQueue, peer: &Peer, first: usize| {
                received(landings, lane, peer, first, &mut registers)
            };
            stream.body = Body { plan, sends: true }.list(&stream.body, &mut land)?;
        }
        s.regions[r].roles = roles;
        registers.declare(s, r);
    }
    Ok(())
}

/// Rewrites the landings of a message, given its queue, its sender and the index of the first
/// landing.
type Land<'l> = dyn FnMut(&[SStmt], WindowQueue, &Peer, usize) -> Result<Vec<SStmt>, Diagnostic> + 'l;

struct Body<'a> {
    plan: &'a [Option<WindowQueue>],
    /// Whether puts become sends.
    sends: bool,
}

impl Body<'_> {
    fn lane(&self, w: WindowId) -> Option<WindowQueue> {
        self.plan.get(w.0 as usize).copied().flatten()
    }

    fn list(&self, list: &[SStmt], land: &mut Land<'_>) -> Result<Vec<SStmt>, Diagnostic> {
        let mut out = vec![];
        let mut at = 0;
        while let Some(st) = list.get(at) {
            at += 1;
            match st {
                SStmt::For { var, lo, hi, body } => {
                    let (var, lo, hi) = (var.clone(), lo.clone(), hi.clone());
                    out.push(SStmt::For { var, lo, hi, body: self.list(body, land)? });
                }
                SStmt::If { cond, then, other } => {
                    let (then, other) = (self.list(then, land)?, self.list(other, land)?);
                    out.push(SStmt::If { cond: cond.clone(), then, other });
                }
                SStmt::Op(SOp::Mark(Mark { point, peer, window, .. }), span) => {
                    let (Point::Expect, Some(lane)) = (point, self.lane(*window)) else { continue };
                    let landings = list[at..].iter().take_while(|st| reads(st, *window)).count();
                    let landings = &list[at..at + landings];
                    at += landings.len();
                    let Some(first) = first(landings, *window) else {
                        let why = "its destination depends on a condition";
                        return Err(refused(*span, why, "give it a destination without a condition"));
                    };
                    out.extend(land(landings, lane, peer, first)?);
                }
                SStmt::Op(SOp::Put { src, peer, dst: Ref::Slot { window, .. } }, span) if self.sends => {
                    let Some(lane) = self.lane(*window) else {
                        out.push(st.clone());
                        continue;
                    };
                    let (src, peer, queue) = (src.clone(), peer.clone(), lane.queue);
                    out.push(SStmt::Op(
                        SOp::Send { src, peer, queue: Channel { queue, index: index(lane) } },
                        *span,
                    ));
                }
                SStmt::Op(op, span) => {
                    if self.sends && slots(op).into_iter().any(|w| self.lane(w).is_some()) {
                        let why = "its slot is read before the rank waits for it";
                        return Err(refused(*span, why, "read it after its `accept`"));
                    }
                    out.push(st.clone());
                }
            }
        }
        Ok(out)
    }
}

/// Returns the windows whose slots an operation reads on this rank or writes on another.
fn slots(op: &SOp) -> Vec<WindowId> {
    let refs = match op {
        SOp::Copy { dst, src } | SOp::Reduce { dst, src, .. } => vec![dst, src],
        SOp::Get { dst, src, .. } | SOp::GetCombine { dst, src, .. } | SOp::Put { dst, src, .. } => {
            vec![dst, src]
        }
        _ => vec![],
    };
    let window = |r: &Ref| match r {
        Ref::Slot { window, .. } => Some(*window),
        Ref::Chunk { .. } => None,
    };
    refs.into_iter().filter_map(window).collect()
}

/// Checks whether a statement reads slots of a window, and does nothing else.
fn reads(st: &SStmt, w: WindowId) -> bool {
    match st {
        SStmt::For { body, .. } => !body.is_empty() && body.iter().all(|s| reads(s, w)),
        SStmt::If { then, other, .. } => {
            other.is_empty() && !then.is_empty() && then.iter().all(|s| reads(s, w))
        }
        SStmt::Op(SOp::Copy { src, .. } | SOp::Reduce { src, .. }, _) => {
            matches!(src, Ref::Slot { window, .. } if *window == w)
        }
        SStmt::Op(..) => false,
    }
}

/// Returns the landing that becomes the `recv`: one that is not conditional as a whole, and a copy
/// if there is one.
fn first(landings: &[SStmt], w: WindowId) -> Option<usize> {
    let always: Vec<usize> =
        (0..landings.len()).filter(|&i| !matches!(landings[i], SStmt::If { .. })).collect();
    let copies =
        |&&i: &&usize| Nest::of(&landings[i]).is_some_and(|n| n.adds.is_none()) && reads(&landings[i], w);
    always.iter().find(copies).or(always.first()).copied()
}

/// A landing taken apart: loops and conditions, outermost first, around one operation.
struct Nest<'s> {
    around: Vec<Around<'s>>,
    adds: Option<ReduceOp>,
    dst: &'s Ref,
    slot: &'s Expr,
    span: Span,
}

#[derive(Clone, Copy)]
enum Around<'s> {
    Loop(&'s Name, &'s Expr, &'s Expr),
    Cond(&'s Expr),
}

impl<'s> Nest<'s> {
    fn of(st: &'s SStmt) -> Option<Nest<'s>> {
        let mut around = vec![];
        let mut st = st;
        loop {
            match st {
                SStmt::For { var, lo, hi, body } => {
                    around.push(Around::Loop(var, lo, hi));
                    let [inner] = &body[..] else { return None };
                    st = inner;
                }
                SStmt::If { cond, then, .. } => {
                    around.push(Around::Cond(cond));
                    let [inner] = &then[..] else { return None };
                    st = inner;
                }
                SStmt::Op(op, span) => {
                    let (adds, dst, src) = match op {
                        SOp::Copy { dst, src } => (None, dst, src),
                        SOp::Reduce { op, dst, src } => (Some(*op), dst, src),
                        _ => return None,
                    };
                    let Ref::Slot { slot, .. } = src else { return None };
                    return Some(Nest { around, adds, dst, slot, span: *span });
                }
            }
        }
    }

    /// Returns other statements inside the same loops and conditions.
    fn with(&self, inner: Vec<SStmt>) -> Vec<SStmt> {
        self.around.iter().rev().fold(inner, |inner, a| {
            vec![match *a {
                Around::Loop(var, lo, hi) => {
                    SStmt::For { var: var.clone(), lo: lo.clone(), hi: hi.clone(), body: inner }
                }
                Around::Cond(cond) => SStmt::If { cond: cond.clone(), then: inner, other: vec![] },
            }]
        })
    }

    /// Returns which loop variable of this landing corresponds to each of another landing's, if
    /// both go through the same pieces in the same order. This landing may have one additional
    /// condition around it.
    fn names(&self, of: &Nest<'_>) -> Option<Vec<(Name, Name)>> {
        let skip = self.around.len().checked_sub(of.around.len())?;
        if skip > 1 || self.around[..skip].iter().any(|a| matches!(a, Around::Loop(..))) {
            return None;
        }
        let mut names: Vec<(Name, Name)> = vec![];
        for (a, b) in self.around[skip..].iter().zip(&of.around) {
            match (*a, *b) {
                (Around::Loop(own, lo, hi), Around::Loop(theirs, l, h)) => {
                    if *lo != renamed(l, &names) || *hi != renamed(h, &names) {
                        return None;
                    }
                    names.push((theirs.clone(), own.clone()));
                }
                (Around::Cond(c), Around::Cond(d)) if *c == renamed(d, &names) => {}
                _ => return None,
            }
        }
        (*self.slot == renamed(of.slot, &names)).then_some(names)
    }
}

fn renamed(e: &Expr, names: &[(Name, Name)]) -> Expr {
    e.subst(&|n| names.iter().find(|(from, _)| from == n).map(|(_, to)| Expr::Var(to.clone())))
}

/// Receives a message. The landings after the first read the place where the first one put it.
fn received(
    landings: &[SStmt],
    lane: WindowQueue,
    peer: &Peer,
    first: usize,
    registers: &mut Registers,
) -> Result<Vec<SStmt>, Diagnostic> {
    let span = |st: &SStmt| {
        let mut at = Span::NONE;
        super::each(std::slice::from_ref(st), &mut |_, span| at = span);
        at
    };
    let split = |st: &SStmt| {
        let why = "its pieces arrive in different orders at different destinations";
        refused(span(st), why, "use one destination and copy from there in the next round")
    };
    let main = Nest::of(&landings[first]).ok_or_else(|| split(&landings[first]))?;
    let place = match main.adds {
        None => main.dst.clone(),
        Some(_) => registers.like(main.dst),
    };
    let recv = SOp::Recv {
        dst: place.clone(),
        peer: peer.clone(),
        queue: Channel { queue: lane.queue, index: index(lane) },
    };
    let mut ops = vec![SStmt::Op(recv, main.span)];
    if let Some(op) = main.adds {
        let (dst, src) = (main.dst.clone(), place.clone());
        ops.push(SStmt::Op(SOp::Reduce { op, dst, src }, main.span));
    }
    let mut out = main.with(ops);
    for (i, st) in landings.iter().enumerate().filter(|(i, _)| *i != first) {
        let nest = Nest::of(st).ok_or_else(|| split(&landings[i]))?;
        let names = nest.names(&main).ok_or_else(|| split(st))?;
        let (dst, src) = (nest.dst.clone(), place.map_exprs(&|e| renamed(e, &names)));
        let op = match nest.adds {
            None => SOp::Copy { dst, src },
            Some(op) => SOp::Reduce { op, dst, src },
        };
        out.extend(nest.with(vec![SStmt::Op(op, nest.span)]));
    }
    Ok(out)
}

/// Registers of a region: scratch operands into which messages are received that are then added.
/// There is one for each operand to which messages are added, with the same length, so that a
/// message has the same chunk in both.
struct Registers {
    /// Operands that have a register, in the order of their registers.
    of: Vec<OperandId>,
    operands: u32,
}

impl Registers {
    /// Returns the same chunk in the register of its operand.
    fn like(&mut self, r: &Ref) -> Ref {
        let Ref::Chunk { operand, path } = r else { return r.clone() };
        let at = self.of.iter().position(|o| o == operand).unwrap_or_else(|| {
            self.of.push(*operand);
            self.of.len() - 1
        });
        Ref::Chunk { operand: OperandId(self.operands + at as u32), path: path.clone() }
    }

    fn declare(self, s: &mut Schedule, region: usize) {
        for like in self.of {
            let of = s.regions[region].operands[like.0 as usize].clone();
            let buffer = s.buffer(of.buffer).clone();
            let free = |taken: &dyn Fn(&str) -> bool, hint: &str| {
                let mut name = format!("{hint}_in");
                let mut k = 2;
                while taken(&name) {
                    name = format!("{hint}_in_{k}");
                    k += 1;
                }
                Name::from(name)
            };
            let name = free(&|n| s.buffers.iter().any(|b| b.name.as_str() == n), buffer.name.as_str());
            s.buffers.push(Buffer { name, role: BufferRole::Temp, zero: false, global: None, ..buffer });
            let id = BufferId(s.buffers.len() as u32 - 1);
            let operands = &mut s.regions[region].operands;
            let name = free(&|n| operands.iter().any(|o| o.name.as_str() == n), of.name.as_str());
            operands.push(Operand { name, buffer: id, line: of.line, scratch: true });
        }
    }
}
