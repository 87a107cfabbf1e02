//! Cursor: walks one stream of one rank through all regions of one call.

use super::act::At;
use super::compiled::{COp, CRegion, CStmt, Program};
use super::place::{Evaluated, RegionPlace};
use super::written::Written;
use super::{Act, Fault};
use crate::op::SOp;
use crate::ready::ReadyExpression;
use crate::schedule::{OperandId, RegionId};
use kbc_diag::Span;

/// Most turns of loops between two operations. A schedule with more is rejected.
pub(super) const MAX_IDLE: u32 = 1 << 22;

/// Next step of a stream.
#[derive(Clone, PartialEq, Debug)]
pub enum Step<'p> {
    /// The stream enters a region in which this rank has a body on this stream.
    Enter(RegionId),
    /// The stream leaves the region.
    Leave(RegionId),
    /// An operation, its source location, and its number in the schedule.
    Act(Act<'p>, Span, u32),
}

/// The guards of a stream in the order in which it comes to them, and whether each held. They are
/// the same in every call if control does not depend on the call ([`Program::control_repeats`]), so
/// later calls need not evaluate them.
#[derive(Clone, Debug, Default)]
pub struct TakenGuards {
    /// One bit for each guard.
    bits: Vec<u64>,
    /// Number of guards that are known.
    len: usize,
    /// Number of guards to which the stream has come in this call.
    at: usize,
}

impl TakenGuards {
    /// Returns whether the next guard holds, if it is known.
    fn next(&mut self) -> Option<bool> {
        let at = self.at;
        (at < self.len).then(|| {
            self.at += 1;
            self.bits[at / 64] >> (at % 64) & 1 == 1
        })
    }

    /// Records whether the next guard holds.
    fn note(&mut self, holds: bool) {
        if self.len.is_multiple_of(64) {
            self.bits.push(0);
        }
        self.bits[self.len / 64] |= u64::from(holds) << (self.len % 64);
        self.len += 1;
        self.at = self.len;
    }
}

#[derive(Clone)]
struct Frame<'p> {
    list: &'p [CStmt<'p>],
    next: usize,
    /// For a loop: slot, current value, end.
    turn: Option<(u32, i64, i64)>,
}

/// Position in one stream of one rank in one call.
#[derive(Clone)]
pub struct Cursor<'p> {
    place: RegionPlace<'p>,
    stream: u32,
    inside: bool,
    frames: Vec<Frame<'p>>,
    /// The operations that come before those of the frames.
    written: Written<'p>,
    /// The guards of earlier calls, if they are kept.
    guards: Option<TakenGuards>,
}

impl<'p> Cursor<'p> {
    /// Creates a cursor at the start of a stream of a rank, in call number `call` (from 0).
    pub fn new(program: &'p Program<'p>, rank: u64, stream: u32, call: i64) -> Self {
        let mut env = program.mesh_env(rank);
        env[0] = call;
        Cursor {
            place: RegionPlace { program, rank, region: 0, env },
            stream,
            inside: false,
            frames: vec![],
            written: Written::default(),
            guards: None,
        }
    }

    /// Creates a cursor like [`Cursor::new`] that keeps what guards decide. `guards` are those of
    /// an earlier call of the same stream ([`Cursor::into_guards`]), and empty before the first.
    pub fn again(program: &'p Program<'p>, rank: u64, stream: u32, call: i64, guards: TakenGuards) -> Self {
        let guards = program.control_repeats().then_some(TakenGuards { at: 0, ..guards });
        Cursor { guards, ..Cursor::new(program, rank, stream, call) }
    }

    /// Returns what guards decided, for the next call of the stream.
    pub fn into_guards(self) -> TakenGuards {
        self.guards.unwrap_or_default()
    }

    /// Creates a cursor inside a region with these values of slots, to resolve single operations.
    pub(super) fn inside(
        program: &'p Program<'p>,
        rank: u64,
        stream: u32,
        env: Vec<i64>,
        region: usize,
    ) -> Self {
        Cursor {
            place: RegionPlace { program, rank, region, env },
            stream,
            inside: true,
            frames: vec![],
            written: Written::default(),
            guards: None,
        }
    }

    /// Evaluates a condition where the cursor is.
    pub(super) fn holds(&self, cond: &ReadyExpression) -> Result<bool, Fault> {
        self.place.holds(cond)
    }

    /// Evaluates an expression where the cursor is.
    pub(super) fn value(&self, e: &impl Evaluated, span: Span) -> Result<i64, Fault> {
        self.place.value(e, span)
    }

    /// Sets the coordinates for a region and returns the rank's role.
    pub(super) fn role(&mut self, region: &CRegion<'_>) -> Result<Option<usize>, Fault> {
        self.place.role(region)
    }

    /// Returns the values of the slots.
    pub(super) fn env(&self) -> &[i64] {
        &self.place.env
    }

    /// Returns the rank.
    pub fn rank(&self) -> u64 {
        self.place.rank
    }

    /// Returns the region that the stream is in.
    pub fn region(&self) -> Option<RegionId> {
        self.inside.then_some(RegionId(self.place.region as u32))
    }

    /// Returns the next step, or `None` at the end of the call.
    pub fn next_step(&mut self) -> Result<Option<Step<'p>>, Fault> {
        let p = self.place.program;
        let mut turns = 0;
        loop {
            if let Some((op, span, number)) = self.written.next() {
                let act = self.resolve_written(op, span)?;
                return Ok(Some(Step::Act(act, span, number)));
            }
            if !self.inside {
                let Some(region) = p.regions.get(self.place.region) else { return Ok(None) };
                match self.enter(region)? {
                    Some(list) => {
                        self.frames.push(Frame { list, next: 0, turn: None });
                        self.inside = true;
                        return Ok(Some(Step::Enter(RegionId(self.place.region as u32))));
                    }
                    None => self.place.region += 1,
                }
                continue;
            }
            let Some(frame) = self.frames.last_mut() else {
                self.inside = false;
                self.place.region += 1;
                return Ok(Some(Step::Leave(RegionId(self.place.region as u32 - 1))));
            };
            let Some(stmt) = frame.list.get(frame.next) else {
                match &mut frame.turn {
                    Some((slot, at, end)) if *at + 1 < *end => {
                        *at += 1;
                        self.place.env[*slot as usize] = *at;
                        frame.next = 0;
                        turns += 1;
                        if turns > MAX_IDLE {
                            return Err(self.idle());
                        }
                    }
                    _ => {
                        self.frames.pop();
                    }
                }
                continue;
            };
            frame.next += 1;
            match stmt {
                CStmt::For { slot, lo, hi, body } => {
                    let (lo, hi) = (self.place.value(lo, Span::NONE)?, self.place.value(hi, Span::NONE)?);
                    if lo < hi {
                        self.place.env[*slot as usize] = lo;
                        self.frames.push(Frame { list: body, next: 0, turn: Some((*slot, lo, hi)) });
                    }
                }
                CStmt::If { cond, then, other } => {
                    let known = self.guards.as_mut().and_then(TakenGuards::next);
                    let holds = match known {
                        Some(holds) => holds,
                        None => self.place.holds(cond)?,
                    };
                    if let (None, Some(guards)) = (known, &mut self.guards) {
                        guards.note(holds);
                    }
                    let list = if holds { then } else { other };
                    self.frames.push(Frame { list, next: 0, turn: None });
                }
                CStmt::Written(list) => self.written = *list,
                CStmt::Op(op, span, number) => {
                    let act = self.resolve(op, *span)?;
                    return Ok(Some(Step::Act(act, *span, *number)));
                }
            }
        }
    }

    /// Returns the fault (E354) for loops with more than [`MAX_IDLE`] turns without an operation.
    pub(super) fn idle(&self) -> Fault {
        let text = format!("more than {MAX_IDLE} iterations of loops without an operation");
        self.place.fail("E354", text, self.place.program.schedule.regions[self.place.region].span)
    }

    /// Sets the coordinates for a region and returns this stream's body, if the rank has one.
    fn enter(&mut self, region: &'p CRegion<'p>) -> Result<Option<&'p [CStmt<'p>]>, Fault> {
        let role = self.place.role(region)?;
        let streams = role.map_or(&[][..], |i| &region.roles[i].streams);
        Ok(streams.iter().find(|(s, _)| *s == self.stream).map(|(_, b)| &b[..]))
    }

    /// Evaluates an operation of a [`Written`].
    pub(super) fn resolve_written(&self, op: &'p SOp, span: Span) -> Result<Act<'p>, Fault> {
        op.translate(&mut At { place: &self.place, span })
    }

    pub(super) fn resolve(&self, op: &COp, span: Span) -> Result<Act<'p>, Fault> {
        op.translate(&mut At { place: &self.place, span })
    }
}

impl Program<'_> {
    /// Returns the number of a rank's role in a region.
    pub fn role_of(&self, region: RegionId, rank: u64) -> Result<Option<usize>, Fault> {
        let mut cursor = Cursor::new(self, rank, 0, 0);
        cursor.place.region = region.0 as usize;
        cursor.place.role(&self.regions[cursor.place.region])
    }

    /// Returns the first element of chunk `num` of `den` of an operand on a rank.
    pub fn chunk_start(
        &self,
        region: RegionId,
        operand: OperandId,
        rank: u64,
        num: i64,
        den: i64,
    ) -> Result<u64, Fault> {
        let r = &self.schedule.regions[region.0 as usize];
        let line = &self.regions[region.0 as usize].operands[operand.0 as usize].1;
        self.boundary(line, rank, num, den).map_err(|t| self.fault("E302", t, r.span, rank, &r.name))
    }

    /// Returns the value on a rank of a local operation's expression in mesh coordinates.
    pub fn local_value(&self, e: &crate::expr::Expr, rank: u64) -> Result<i64, crate::expr::EvalError> {
        let coords = self.schedule.mesh.coords(rank);
        let axes = &self.schedule.mesh.axes;
        e.eval(&|n: &crate::name::Name| axes.iter().position(|a| a.name == *n).map(|i| coords[i]))
    }
}
