//! Timed walk: the same operations as those of [`super::Cursor`], reduced to what the computation
//! of time needs.
//!
//! It keeps the positions of many streams in flat arrays. [`Brief::of`] defines the brief form of
//! an operation, and [`super::outline`] computes in advance what can be computed. A cursor resolves
//! the operation if the outline keeps it whole, or if one of its expressions has no value; all
//! faults are therefore those of the cursor.

use super::compile::Program;
use super::cursor::{Cursor, MOST_IDLE};
use super::outline::{Fixed, Ins, Kind, Op, Outline, Size, Value, Who};
use super::{Access, Act, Fault, Mem};
use crate::resolved::Resolved;
use crate::schedule::{BufferId, LocalOp, RegionId, WindowId};
use crate::types::CutRule;
use kbc_diag::Span;

/// Next step of a stream, in brief form.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Brief<'p> {
    /// The stream enters a region.
    Enter(RegionId),
    /// The stream leaves the region.
    Leave(RegionId),
    /// The call is over.
    Over,
    /// A put to a rank.
    Put {
        /// Peer.
        peer: u64,
        /// Bytes sent.
        bytes: u64,
    },
    /// A get from a rank.
    Get {
        /// Peer.
        peer: u64,
        /// Bytes received.
        bytes: u64,
    },
    /// A send into the queue to a rank.
    Send {
        /// Peer.
        peer: u64,
        /// Queue.
        queue: u32,
        /// Bytes sent.
        bytes: u64,
    },
    /// A receive from the queue from a rank.
    Recv {
        /// Peer.
        peer: u64,
        /// Queue.
        queue: u32,
        /// Bytes received.
        bytes: u64,
    },
    /// A wait for a free slot of the queue to a rank.
    Room {
        /// Peer.
        peer: u64,
        /// Queue.
        queue: u32,
    },
    /// Adds 1 to a counter of the peer.
    Notify {
        /// Peer.
        peer: u64,
        /// Counter.
        counter: u32,
    },
    /// Waits until a counter of this rank meets the condition of its form for a value.
    Wait {
        /// Counter.
        counter: u32,
        /// Value.
        value: i64,
    },
    /// `fence.release`.
    FenceRelease,
    /// `fence.acquire`.
    FenceAcquire,
    /// `fence.complete`.
    FenceComplete,
    /// `record`, with the number of the event.
    Record(u32),
    /// `await`, with the number of the event.
    Await(u32),
    /// A copy.
    Copy {
        /// Bytes written.
        to: u64,
        /// Bytes read.
        from: u64,
    },
    /// A reduction.
    Reduce {
        /// Bytes of the destination, which are read and written.
        to: u64,
        /// Bytes of the source.
        from: u64,
    },
    /// A local operation.
    Local(&'p LocalOp),
    /// The host reads a buffer.
    HostRead(BufferId),
    /// A point of a message that is not synchronized yet.
    Mark,
}

impl<'p> Brief<'p> {
    /// Returns the brief form of an operation.
    pub fn of(program: &Program<'p>, act: &Act<'p>) -> Brief<'p> {
        let bytes = |a: &Access| {
            let dtype = match a.mem {
                Mem::Buffer(b) => program.schedule.buffer(BufferId(b)).dtype,
                Mem::Slot(w, _) => program.schedule.window(WindowId(w)).dtype,
            };
            a.len.saturating_mul(dtype.bytes())
        };
        match act {
            Act::Copy { dst, src } => Brief::Copy { to: bytes(dst), from: bytes(src) },
            Act::Reduce { dst, src, .. } => Brief::Reduce { to: bytes(dst), from: bytes(src) },
            Act::Put { src, peer, .. } => Brief::Put { peer: *peer, bytes: bytes(src) },
            Act::Get { dst, peer, .. } => Brief::Get { peer: *peer, bytes: bytes(dst) },
            Act::Send { src, peer, queue } => Brief::Send { peer: *peer, queue: *queue, bytes: bytes(src) },
            Act::Recv { dst, peer, queue } => Brief::Recv { peer: *peer, queue: *queue, bytes: bytes(dst) },
            Act::Room { peer, queue } => Brief::Room { peer: *peer, queue: *queue },
            Act::Notify { peer, counter } => Brief::Notify { peer: *peer, counter: *counter },
            Act::Wait { counter, value } => Brief::Wait { counter: *counter, value: *value },
            Act::FenceRelease => Brief::FenceRelease,
            Act::FenceAcquire => Brief::FenceAcquire,
            Act::FenceComplete => Brief::FenceComplete,
            Act::Record(e) => Brief::Record(*e),
            Act::Await(e) => Brief::Await(*e),
            Act::Local(l) => Brief::Local(l),
            Act::HostRead(b) => Brief::HostRead(*b),
            Act::Mark => Brief::Mark,
        }
    }
}

/// Value of [`At::next`] between two regions.
const OUTSIDE: u32 = u32::MAX;

/// Position of a stream.
#[derive(Clone, Copy, Debug)]
struct At {
    /// Next instruction, or [`OUTSIDE`].
    next: u32,
    region: u32,
    rank: u32,
    stream: u32,
}

/// Positions of many streams.
#[derive(Clone, Debug)]
pub struct Walks {
    at: Vec<At>,
    /// [`Outline::width`] registers per stream: slots of the environment, ends of loops, and values
    /// that are fixed within a body.
    registers: Vec<i64>,
    /// Source and destination of the last put or get that a cursor resolved.
    moved: Option<[Access; 2]>,
}

impl Outline<'_> {
    /// Returns the code with every put and get kept whole, so that [`Walks::moved`] reports what
    /// they move.
    #[must_use]
    pub fn with_moves(mut self) -> Self {
        for ins in &mut self.code {
            if let Ins::Op(op) = ins
                && matches!(op.kind, Kind::Put(..) | Kind::Get(..))
            {
                op.kind = Kind::Whole;
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
            at.push(At { next: OUTSIDE, region: 0, rank: rank as u32, stream });
            registers.extend_from_slice(&mesh.1);
        }
        Walks { at, registers, moved: None }
    }

    /// Returns what the last put or get reads and writes, in this order. The outline must be one
    /// made by [`Outline::with_moves`].
    pub fn moved(&self) -> Option<[Access; 2]> {
        self.moved
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
                    out.1 = op.number;
                    if !quick(outline, at, registers, op, &mut out.0) {
                        let act = cursor(outline, at, registers).resolve(op.whole, op.span)?;
                        if let Act::Put { src, dst, .. } | Act::Get { src, dst, .. } = &act {
                            self.moved = Some([*src, *dst]);
                        }
                        out.0 = Brief::of(program, &act);
                    }
                    return Ok(());
                }
                Ins::Next { slot, end, body } => {
                    let value = registers[*slot as usize] + 1;
                    if value < registers[*end as usize] {
                        registers[*slot as usize] = value;
                        at.next = *body;
                        turns += 1;
                        if turns > MOST_IDLE {
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
                    if value(outline, at, registers, cond)? == 0 {
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

/// Creates a cursor at the position of a stream, for operations that have no brief form.
fn cursor<'p>(outline: &Outline<'p>, at: &At, registers: &[i64]) -> Cursor<'p> {
    let env = registers[..outline.program.env_len].to_vec();
    Cursor::inside(outline.program, at.rank.into(), at.stream, env, at.region as usize)
}

fn value(outline: &Outline<'_>, at: &At, registers: &[i64], e: &Resolved) -> Result<i64, Box<Fault>> {
    match e {
        Resolved::Int(v) => Ok(*v),
        Resolved::Var(s) => Ok(registers[*s as usize]),
        _ => match outline.program.eval(e, registers) {
            Ok(v) => Ok(v),
            Err(_) => Ok(cursor(outline, at, registers).value(e, Span::NONE)?),
        },
    }
}

/// Enters the stream's body in the region that comes next. Returns false if the stream has none
/// there.
#[inline(never)]
fn enter(outline: &Outline<'_>, at: &mut At, registers: &mut [i64]) -> Result<bool, Box<Fault>> {
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
fn peer(outline: &Outline<'_>, at: &At, coords: impl Iterator<Item = Option<i64>>) -> Option<u64> {
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

fn who(outline: &Outline<'_>, at: &At, registers: &[i64], w: &Who) -> Option<u64> {
    match w {
        Who::Register(r) => u64::try_from(registers[*r as usize]).ok(),
        Who::Each(list) => peer(outline, at, list.iter().map(|v| v.get(outline.program, registers))),
    }
}

fn size(outline: &Outline<'_>, registers: &[i64], s: &Size) -> Option<u64> {
    match s {
        Size::Fixed(n) => Some(*n),
        Size::Cut { num, cnt, den, length, unit } => {
            let num = num.get(outline.program, registers)? as u64;
            let start = |i| CutRule::Even.boundary(*length, i, *den);
            Some((start(num + cnt) - start(num)).saturating_mul(*unit))
        }
    }
}

fn counter(outline: &Outline<'_>, registers: &[i64], index: &Value, count: u64, base: u32) -> Option<u32> {
    let i = u64::try_from(index.get(outline.program, registers)?).ok().filter(|i| *i < count)?;
    Some(base + i as u32)
}

/// Computes the brief form of an operation from registers. Returns false if a cursor must resolve
/// the operation.
#[inline]
fn quick<'p>(outline: &Outline<'p>, at: &At, registers: &[i64], op: &Op<'p>, out: &mut Brief<'p>) -> bool {
    let who = |w| who(outline, at, registers, w);
    let size = |s| size(outline, registers, s);
    match &op.kind {
        Kind::Put(to, n) => {
            let (Some(peer), Some(bytes)) = (who(to), size(n)) else { return false };
            *out = Brief::Put { peer, bytes };
        }
        Kind::Get(from, n) => {
            let (Some(peer), Some(bytes)) = (who(from), size(n)) else { return false };
            *out = Brief::Get { peer, bytes };
        }
        Kind::Notify(to, index, count, base) => {
            let counter = counter(outline, registers, index, *count, *base);
            let (Some(peer), Some(counter)) = (who(to), counter) else { return false };
            *out = Brief::Notify { peer, counter };
        }
        Kind::Wait(index, count, base, value) => {
            let counter = counter(outline, registers, index, *count, *base);
            let value = value.get(outline.program, registers);
            let (Some(counter), Some(value)) = (counter, value) else { return false };
            if !outline.program.form(counter).allows(value) {
                return false;
            }
            *out = Brief::Wait { counter, value };
        }
        Kind::Copy(to, from) => {
            let (Some(to), Some(from)) = (size(to), size(from)) else { return false };
            *out = Brief::Copy { to, from };
        }
        Kind::Reduce(to, from) => {
            let (Some(to), Some(from)) = (size(to), size(from)) else { return false };
            *out = Brief::Reduce { to, from };
        }
        Kind::Local(l) => *out = Brief::Local(l),
        Kind::Brief(b) => *out = *b,
        Kind::Whole => return false,
    }
    true
}
