//! Timed walk: the same operations as those of [`super::Cursor`], reduced to what the computation
//! of time needs.
//!
//! It keeps the positions of many streams in flat arrays. [`Timed`] is the brief form of an
//! operation, and [`super::outline`] computes in advance what can be computed. A cursor resolves
//! the operation if the outline keeps it whole, or if one of its expressions has no value; all
//! faults are therefore those of the cursor.

use super::brief_code::{CutSize, Fixed, Indexed, Ins, Outline, OutlinePeer, Outlined, Size, Value, Whole};
use super::compiled::Program;
use super::cursor::{Cursor, MAX_IDLE};
use super::{Access, Act, Concrete, Fault, Mem};
use crate::op::{Op, Repr, Translate};
use crate::ready::ReadyExpression;
use crate::resolved::Resolved;
use crate::schedule::{BufferId, LocalOp, RefUse, RegionId, WindowId};
use crate::types::CutRule;
use kbc_diag::Span;
use std::convert::Infallible;
use std::marker::PhantomData;

/// Representation of operations for time: bytes instead of addresses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timed<'p>(PhantomData<&'p LocalOp>);

impl<'p> Repr for Timed<'p> {
    /// Bytes.
    type Near = u64;
    /// The other side of a transfer has the same bytes.
    type Far = ();
    type Peer = u64;
    type Counter = u32;
    type Value = i64;
    type Queue = u32;
    type Event = u32;
    type Local = &'p LocalOp;
    type Mark = ();
    type Host = Infallible;
}

/// An operation in brief form.
pub type TimedOp<'p> = Op<Timed<'p>>;

/// Next step of a stream, in brief form.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Brief<'p> {
    /// The stream enters a region.
    Enter(RegionId),
    /// The stream leaves the region.
    Leave(RegionId),
    /// The call is over.
    Over,
    /// An operation.
    Op(TimedOp<'p>),
}

// The engine keeps one step per stream, so its size matters.
const _: () = assert!(size_of::<Brief<'_>>() == 24);

/// Translation of concrete operations into their brief form.
struct Briefly<'a, 's>(&'a Program<'s>);

impl Briefly<'_, '_> {
    fn bytes(&self, a: &Access) -> u64 {
        let dtype = match a.mem {
            Mem::Buffer(b) => self.0.schedule.buffer(BufferId(b)).dtype,
            Mem::Slot(w, _) => self.0.schedule.window(WindowId(w)).dtype,
        };
        a.len.saturating_mul(dtype.bytes())
    }
}

impl<'p> Translate<'_, Concrete<'p>, Timed<'p>> for Briefly<'_, '_> {
    type Error = Infallible;

    fn both(&mut self, dst: &Access, src: &Access) -> Result<(u64, u64), Infallible> {
        Ok((self.bytes(dst), self.bytes(src)))
    }

    fn transfer(
        &mut self,
        _: RefUse,
        near: &Access,
        peer: &u64,
        _: &Access,
    ) -> Result<(u64, u64, ()), Infallible> {
        Ok((self.bytes(near), *peer, ()))
    }

    fn message(
        &mut self,
        _: RefUse,
        near: &Access,
        peer: &u64,
        queue: &u32,
    ) -> Result<(u64, u64, u32), Infallible> {
        Ok((self.bytes(near), *peer, *queue))
    }

    fn room(&mut self, peer: &u64, queue: &u32) -> Result<(u64, u32), Infallible> {
        Ok((*peer, *queue))
    }

    fn notify(&mut self, peer: &u64, counter: &u32) -> Result<(u64, u32), Infallible> {
        Ok((*peer, *counter))
    }

    fn wait(&mut self, counter: &u32, value: &i64) -> Result<(u32, i64), Infallible> {
        Ok((*counter, *value))
    }

    fn event(&mut self, event: &u32) -> Result<u32, Infallible> {
        Ok(*event)
    }

    fn local(&mut self, local: &&'p LocalOp) -> Result<&'p LocalOp, Infallible> {
        Ok(local)
    }

    fn mark(&mut self, (): &()) -> Result<(), Infallible> {
        Ok(())
    }

    fn host(&mut self, host: &Infallible) -> Result<Infallible, Infallible> {
        Ok(*host)
    }
}

impl<'p> Brief<'p> {
    /// Returns the brief form of an operation.
    pub fn of(program: &Program<'_>, act: &Act<'p>) -> Brief<'p> {
        let Ok(op) = act.translate(&mut Briefly(program));
        Brief::Op(op)
    }
}

/// Value of [`StreamPosition::next`] between two regions.
const OUTSIDE: u32 = u32::MAX;

/// Position of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamPosition {
    /// Next instruction, or [`OUTSIDE`].
    pub(super) next: u32,
    region: u32,
    rank: u32,
    stream: u32,
}

/// Positions of many streams.
#[derive(Clone, Debug)]
pub struct Walks {
    pub(super) at: Vec<StreamPosition>,
    /// [`Outline::width`] registers per stream: slots of the environment, ends of loops, and values
    /// that are fixed within a body.
    pub(super) registers: Vec<i64>,
    /// Source and destination of the last put or get that a cursor resolved.
    moved: Option<[Access; 2]>,
    /// For each instruction, whether it is passed over.
    pub(super) passed_over: Vec<bool>,
}

impl Outline<'_> {
    /// Returns the code with every put and get kept whole, so that [`Walks::moved`] reports what
    /// they move.
    #[must_use]
    pub fn with_moves(mut self) -> Self {
        for ins in &mut self.code {
            if let Ins::Op(op) = ins
                && matches!(op.quick, Some(Op::Put { .. } | Op::Get { .. } | Op::GetCombine { .. }))
            {
                op.quick = None;
            }
        }
        self
    }
}

impl Walks {
    /// Creates positions at the start of call 0 for these ranks (below 2^32) and streams.
    pub fn new(outline: &Outline<'_>, who: impl Iterator<Item = (u64, u32)>) -> Walks {
        let (mut at, mut registers) = (vec![], vec![]);
        let mut mesh = (u64::MAX, vec![]);
        for (rank, stream) in who {
            if mesh.0 != rank {
                mesh = (rank, outline.program.mesh_env(rank));
                mesh.1.resize(outline.width, 0);
            }
            at.push(StreamPosition { next: OUTSIDE, region: 0, rank: rank as u32, stream });
            registers.extend_from_slice(&mesh.1);
        }
        Walks { at, registers, moved: None, passed_over: vec![false; outline.code.len()] }
    }

    /// Returns what the last put or get reads and writes, in this order. The outline must be one
    /// made by [`Outline::with_moves`].
    pub fn moved(&self) -> Option<[Access; 2]> {
        self.moved
    }

    /// Sets what [`Walks::moved`] returns, for an operation that waited before it is performed.
    pub fn set_moved(&mut self, moved: Option<[Access; 2]>) {
        self.moved = moved;
    }

    /// Passes over the local operation or fence that [`Walks::next`] has just returned for a
    /// stream, from now on and for every stream. Nothing happens for other operations, for a fence
    /// that waits for gets, and for a local operation that may come right behind a put: after it, a
    /// notify does not travel with that put.
    pub fn pass_over(&mut self, outline: &Outline<'_>, stream: usize) {
        let here = self.at[stream].next.wrapping_sub(1) as usize;
        if let Some(Ins::Op(op)) = outline.code.get(here) {
            self.passed_over[here] |= match op.whole {
                Whole::Resolved(whole) => may_pass(whole, op.behind_no_put),
                Whole::Written(whole) => may_pass(whole, op.behind_no_put),
            };
        }
    }

    /// Moves a stream to the start of a call.
    pub fn restart(&mut self, outline: &Outline<'_>, stream: usize, call: i64) {
        self.at[stream].next = OUTSIDE;
        self.at[stream].region = 0;
        self.registers[stream * outline.width] = call;
    }

    /// Stores the next step of a stream and the number of its operation in `out`. A returned result
    /// of that size would be copied, which costs as much as the walk itself.
    #[inline]
    pub fn next<'p>(
        &mut self,
        outline: &Outline<'p>,
        stream: usize,
        out: &mut (Brief<'p>, u32),
    ) -> Result<(), Box<Fault>> {
        let program = outline.program;
        let at = &mut self.at[stream];
        let registers = &mut self.registers[stream * outline.width..][..outline.width];
        let mut turns = 0;
        loop {
            if at.next == OUTSIDE {
                let region = at.region;
                if region as usize == program.regions.len() {
                    *out = (Brief::Over, 0);
                    return Ok(());
                }
                if enter(outline, at, registers)? {
                    *out = (Brief::Enter(RegionId(region)), 0);
                    return Ok(());
                }
                at.region += 1;
                continue;
            }
            let here = at.next;
            at.next += 1;
            match &outline.code[here as usize] {
                Ins::Op(op) => {
                    if self.passed_over[here as usize] {
                        turns = 0;
                        continue;
                    }
                    out.1 = op.number;
                    if let Some(quick) = &op.quick
                        && let Ok(op) = quick.translate(&mut Quick { outline, at, registers })
                    {
                        out.0 = Brief::Op(op);
                        return Ok(());
                    }
                    let cursor = cursor(outline, at, registers);
                    let act = match op.whole {
                        Whole::Resolved(whole) => cursor.resolve(whole, op.span)?,
                        Whole::Written(whole) => cursor.resolve_written(whole, op.span)?,
                    };
                    if let Act::Put { src, dst, .. }
                    | Act::Get { src, dst, .. }
                    | Act::GetCombine { src, dst, .. } = &act
                    {
                        self.moved = Some([*src, *dst]);
                    }
                    out.0 = Brief::of(program, &act);
                    return Ok(());
                }
                Ins::Next { slot, end, body, steady: _ } => {
                    let value = registers[*slot as usize] + 1;
                    if value < registers[*end as usize] {
                        registers[*slot as usize] = value;
                        at.next = *body;
                        turns += 1;
                        if turns > MAX_IDLE {
                            return Err(Box::new(cursor(outline, at, registers).idle()));
                        }
                    }
                }
                Ins::For { slot, end, lo, hi, past } => {
                    let lo = value(outline, at, registers, lo)?;
                    let hi = value(outline, at, registers, hi)?;
                    if lo < hi {
                        registers[*slot as usize] = lo;
                        registers[*end as usize] = hi;
                    } else {
                        at.next = *past;
                    }
                }
                Ins::Unless { cond, past } => {
                    if !holds(outline, at, registers, cond)? {
                        at.next = *past;
                    }
                }
                Ins::Go(to) => at.next = *to,
                Ins::Leave => {
                    at.next = OUTSIDE;
                    at.region += 1;
                    *out = (Brief::Leave(RegionId(at.region - 1)), 0);
                    return Ok(());
                }
            }
        }
    }
}

/// Checks whether an operation may be passed over, given whether no put comes right before it.
fn may_pass<R: Repr>(op: &Op<R>, behind_no_put: bool) -> bool {
    match op {
        Op::FenceRelease | Op::FenceAcquire => true,
        Op::Copy { .. } | Op::Reduce { .. } | Op::Local(_) => behind_no_put,
        // It waits for gets, even if it takes no time itself.
        Op::FenceComplete => false,
        Op::Put { .. }
        | Op::Get { .. }
        | Op::GetCombine { .. }
        | Op::Send { .. }
        | Op::Recv { .. }
        | Op::Room { .. }
        | Op::Notify { .. }
        | Op::Wait { .. }
        | Op::Record(_)
        | Op::Await(_)
        | Op::Mark(_)
        | Op::HostRead(_)
        | Op::Host(_) => false,
    }
}

/// Creates a cursor at the position of a stream, for operations that have no brief form.
fn cursor<'p>(outline: &Outline<'p>, at: &StreamPosition, registers: &[i64]) -> Cursor<'p> {
    let env = registers[..outline.program.env_len].to_vec();
    Cursor::inside(outline.program, at.rank.into(), at.stream, env, at.region as usize)
}

fn value(
    outline: &Outline<'_>,
    at: &StreamPosition,
    registers: &[i64],
    e: &Resolved,
) -> Result<i64, Box<Fault>> {
    match e {
        Resolved::Int(v) => Ok(*v),
        Resolved::Var(s) => Ok(registers[*s as usize]),
        _ => match outline.program.eval(e, registers) {
            Ok(v) => Ok(v),
            Err(_) => Ok(cursor(outline, at, registers).value(e, Span::NONE)?),
        },
    }
}

/// Checks whether a condition holds.
fn holds(
    outline: &Outline<'_>,
    at: &StreamPosition,
    registers: &[i64],
    cond: &ReadyExpression,
) -> Result<bool, Box<Fault>> {
    match outline.program.eval_ready(cond, registers) {
        Ok(v) => Ok(v != 0),
        Err(_) => Ok(cursor(outline, at, registers).holds(cond)?),
    }
}

/// Enters the stream's body in the region that comes next. Returns false if the stream has none
/// there.
#[inline(never)]
fn enter(outline: &Outline<'_>, at: &mut StreamPosition, registers: &mut [i64]) -> Result<bool, Box<Fault>> {
    let program = outline.program;
    let region = &program.regions[at.region as usize];
    let mut cursor = cursor(outline, at, registers);
    let role = cursor.role(region)?;
    for (slot, _) in &region.coords {
        registers[*slot as usize] = cursor.env()[*slot as usize];
    }
    let bodies = role.map_or(&[][..], |i| &outline.bodies[at.region as usize][i]);
    let Some((_, body)) = bodies.iter().find(|(s, _)| *s == at.stream) else { return Ok(false) };
    for (register, fixed) in &body.fixed {
        registers[*register as usize] = match fixed {
            // The expression has a range, so it has a value.
            Fixed::Value(c) => program.eval(c, registers).unwrap_or(0),
            Fixed::Peer(coords) => {
                let coords = coords.iter().map(|c| program.eval(c, registers).ok());
                peer(outline, at, coords).map_or(-1, |p| p as i64)
            }
        };
    }
    at.next = body.start;
    Ok(true)
}

/// Returns the rank with these coordinates in the group, if all of them have values within range.
fn peer(
    outline: &Outline<'_>,
    at: &StreamPosition,
    coords: impl Iterator<Item = Option<i64>>,
) -> Option<u64> {
    let mut index = 0;
    let sizes = &outline.program.regions[at.region as usize].coords;
    for (v, (_, size)) in coords.zip(sizes) {
        let v = u64::try_from(v?).ok().filter(|v| v < size)?;
        index = index * size + v;
    }
    if outline.plain[at.region as usize] {
        return Some(index);
    }
    Some(outline.program.group_rank(RegionId(at.region), at.rank.into(), index))
}

fn who(outline: &Outline<'_>, at: &StreamPosition, registers: &[i64], w: &OutlinePeer) -> Option<u64> {
    match w {
        OutlinePeer::Register(r) => u64::try_from(registers[*r as usize]).ok(),
        OutlinePeer::Each(list) => peer(outline, at, list.iter().map(|v| v.get(outline.program, registers))),
    }
}

fn size(outline: &Outline<'_>, registers: &[i64], s: &Size) -> Option<u64> {
    match s {
        Size::Fixed(n) => Some(*n),
        Size::Cut(cut) => {
            let CutSize { num, cnt, den, length, unit } = &**cut;
            let num = num.get(outline.program, registers)? as u64;
            let start = |i| CutRule::Even.boundary(*length, i, *den);
            Some((start(num + cnt) - start(num)).saturating_mul(*unit))
        }
    }
}

/// Translation of outlined operations into their brief form, from registers. It has no result if a
/// cursor must resolve the operation.
struct Quick<'a, 'p> {
    outline: &'a Outline<'p>,
    at: &'a StreamPosition,
    registers: &'a [i64],
}

/// A part that a cursor must resolve.
struct Unknown;

impl Quick<'_, '_> {
    #[inline]
    fn who(&self, w: &OutlinePeer) -> Result<u64, Unknown> {
        who(self.outline, self.at, self.registers, w).ok_or(Unknown)
    }

    #[inline]
    fn size(&self, s: &Size) -> Result<u64, Unknown> {
        size(self.outline, self.registers, s).ok_or(Unknown)
    }

    #[inline]
    fn value(&self, v: &Value) -> Result<i64, Unknown> {
        v.get(self.outline.program, self.registers).ok_or(Unknown)
    }

    #[inline]
    fn counter(&self, c: &Indexed) -> Result<u32, Unknown> {
        let i = u64::try_from(self.value(&c.index)?).ok().filter(|i| *i < c.count).ok_or(Unknown)?;
        Ok(c.base + i as u32)
    }
}

impl<'p> Translate<'_, Outlined<'p>, Timed<'p>> for Quick<'_, 'p> {
    type Error = Unknown;

    #[inline]
    fn both(&mut self, dst: &Size, src: &Size) -> Result<(u64, u64), Unknown> {
        Ok((self.size(dst)?, self.size(src)?))
    }

    #[inline]
    fn transfer(
        &mut self,
        _: RefUse,
        near: &Size,
        peer: &OutlinePeer,
        (): &(),
    ) -> Result<(u64, u64, ()), Unknown> {
        Ok((self.size(near)?, self.who(peer)?, ()))
    }

    #[inline]
    fn message(
        &mut self,
        _: RefUse,
        _: &Size,
        _: &OutlinePeer,
        queue: &Infallible,
    ) -> Result<(u64, u64, u32), Unknown> {
        match *queue {}
    }

    #[inline]
    fn room(&mut self, _: &OutlinePeer, queue: &Infallible) -> Result<(u64, u32), Unknown> {
        match *queue {}
    }

    #[inline]
    fn notify(&mut self, peer: &OutlinePeer, counter: &Indexed) -> Result<(u64, u32), Unknown> {
        Ok((self.who(peer)?, self.counter(counter)?))
    }

    #[inline]
    fn wait(&mut self, counter: &Indexed, value: &Value) -> Result<(u32, i64), Unknown> {
        let (counter, value) = (self.counter(counter)?, self.value(value)?);
        if !self.outline.program.form(counter).allows(value) {
            return Err(Unknown);
        }
        Ok((counter, value))
    }

    #[inline]
    fn event(&mut self, event: &u32) -> Result<u32, Unknown> {
        Ok(*event)
    }

    #[inline]
    fn local(&mut self, local: &&'p LocalOp) -> Result<&'p LocalOp, Unknown> {
        Ok(local)
    }

    #[inline]
    fn mark(&mut self, (): &()) -> Result<(), Unknown> {
        Ok(())
    }

    #[inline]
    fn host(&mut self, host: &Infallible) -> Result<Infallible, Unknown> {
        Ok(*host)
    }
}
