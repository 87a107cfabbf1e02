//! Cursor: walks one stream of one rank through all regions of one call.

use super::act::{At, Evaluated};
use super::compile::{CLine, COp, CRanks, CRegion, CStmt, Program};
use super::written::Written;
use super::{Access, Act, Fault, Mem};
use crate::cut::{Chunks, NoChunks, Sized};
use crate::op::SOp;
use crate::ready::ReadyExpression;
use crate::resolved::Resolved;
use crate::schedule::{BufferId, OperandId, Part, QueueId, Ref, RegionId, SignalId};
use crate::types::CutRule;
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
    program: &'p Program<'p>,
    rank: u64,
    stream: u32,
    env: Vec<i64>,
    region: usize,
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
            program,
            rank,
            stream,
            env,
            region: 0,
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
            program,
            rank,
            stream,
            env,
            region,
            inside: true,
            frames: vec![],
            written: Written::default(),
            guards: None,
        }
    }

    /// Returns the values of the slots.
    pub(super) fn env(&self) -> &[i64] {
        &self.env
    }

    /// Returns the program.
    pub(super) fn program(&self) -> &'p Program<'p> {
        self.program
    }

    /// Returns the rank.
    pub fn rank(&self) -> u64 {
        self.rank
    }

    /// Returns the region that the stream is in.
    pub fn region(&self) -> Option<RegionId> {
        self.inside.then_some(RegionId(self.region as u32))
    }

    /// Returns the next step, or `None` at the end of the call.
    pub fn next_step(&mut self) -> Result<Option<Step<'p>>, Fault> {
        let p = self.program;
        let mut turns = 0;
        loop {
            if let Some((op, span, number)) = self.written.next() {
                let act = self.resolve_written(op, span)?;
                return Ok(Some(Step::Act(act, span, number)));
            }
            if !self.inside {
                let Some(region) = p.regions.get(self.region) else { return Ok(None) };
                match self.enter(region)? {
                    Some(list) => {
                        self.frames.push(Frame { list, next: 0, turn: None });
                        self.inside = true;
                        return Ok(Some(Step::Enter(RegionId(self.region as u32))));
                    }
                    None => self.region += 1,
                }
                continue;
            }
            let Some(frame) = self.frames.last_mut() else {
                self.inside = false;
                self.region += 1;
                return Ok(Some(Step::Leave(RegionId(self.region as u32 - 1))));
            };
            let Some(stmt) = frame.list.get(frame.next) else {
                match &mut frame.turn {
                    Some((slot, at, end)) if *at + 1 < *end => {
                        *at += 1;
                        self.env[*slot as usize] = *at;
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
                    let (lo, hi) = (self.value(lo, Span::NONE)?, self.value(hi, Span::NONE)?);
                    if lo < hi {
                        self.env[*slot as usize] = lo;
                        self.frames.push(Frame { list: body, next: 0, turn: Some((*slot, lo, hi)) });
                    }
                }
                CStmt::If { cond, then, other } => {
                    let known = self.guards.as_mut().and_then(TakenGuards::next);
                    let holds = match known {
                        Some(holds) => holds,
                        None => self.holds(cond)?,
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
        self.fail("E354", text, self.program.schedule.regions[self.region].span)
    }

    /// Sets the coordinates for a region and returns this stream's body, if the rank has one.
    fn enter(&mut self, region: &'p CRegion<'p>) -> Result<Option<&'p [CStmt<'p>]>, Fault> {
        let role = self.role(region)?;
        let streams = role.map_or(&[][..], |i| &region.roles[i].streams);
        Ok(streams.iter().find(|(s, _)| *s == self.stream).map(|(_, b)| &b[..]))
    }

    /// Sets the coordinates for a region and returns the rank's role.
    pub(super) fn role(&mut self, region: &CRegion<'_>) -> Result<Option<usize>, Fault> {
        let mut index = self.program.group_index(RegionId(self.region as u32), self.rank);
        let linear = index;
        for (slot, size) in region.coords.iter().rev() {
            self.env[*slot as usize] = (index % size) as i64;
            index /= size;
        }
        for (i, role) in region.roles.iter().enumerate() {
            let mine = match &role.ranks {
                CRanks::All => true,
                CRanks::Where(c) => self.value(c, Span::NONE)? != 0,
                CRanks::List(l) => l.contains(&linear),
            };
            if mine {
                return Ok(Some(i));
            }
        }
        Ok(None)
    }

    fn fail(&self, code: &'static str, text: String, span: Span) -> Fault {
        let name = &self.program.schedule.regions[self.region].name;
        self.program.fault(code, text, span, self.rank, name)
    }

    /// Checks whether a condition holds.
    pub(super) fn holds(&self, cond: &ReadyExpression) -> Result<bool, Fault> {
        let value = self.program.eval_ready(cond, &self.env);
        value.map(|v| v != 0).map_err(|e| self.fail("E302", e.to_string(), Span::NONE))
    }

    pub(super) fn value(&self, e: &impl Evaluated, span: Span) -> Result<i64, Fault> {
        e.value(self.program, self.region, &self.env).map_err(|e| self.fail("E302", e.to_string(), span))
    }

    pub(super) fn peer(&self, coords: &[impl Evaluated], span: Span) -> Result<u64, Fault> {
        let region = &self.program.regions[self.region];
        let sizes = &self.program.schedule.regions[self.region].coords;
        if coords.len() != sizes.len() {
            return Err(self.fail(
                "E303",
                format!("a peer needs {} coordinates here, and {} are given", sizes.len(), coords.len()),
                span,
            ));
        }
        let mut index = 0;
        for (c, (name, size)) in coords.iter().zip(sizes) {
            let v = self.value(c, span)?;
            if v < 0 || v as u64 >= *size {
                return Err(self.fail("E303", format!("the peer's {name} is {v}, outside 0..{size}"), span));
            }
            index = index * size + v as u64;
        }
        debug_assert!(!region.axes.is_empty() || index == 0);
        Ok(self.program.group_rank(RegionId(self.region as u32), self.rank, index))
    }

    /// Returns a chunk of an operand on rank `on` (this rank or the peer).
    fn chunk<E: Evaluated>(
        &self,
        operand: OperandId,
        path: &[Part<E>],
        on: u64,
        span: Span,
    ) -> Result<Access, Fault> {
        let mut at = Chunks::WHOLE;
        for (i, Part { index, len, of }) in path.iter().enumerate() {
            let (index, len, of) = (self.value(index, span)?, self.value(len, span)?, self.value(of, span)?);
            let last = i + 1 == path.len();
            let part = if last || len == 1 { at.cut([index, len, of]) } else { Err(NoChunks::Outside) };
            at = part.map_err(|why| {
                let text = match why {
                    NoChunks::Outside => format!("chunks {index}; {len} of {of} do not exist"),
                    NoChunks::TooMany => "too many chunks".into(),
                };
                self.fail("E304", text, span)
            })?;
        }
        // Numbers of chunks fit in 63 bits.
        let Chunks { num, cnt, den } = at.map(|n| n as i64);
        let (buffer, line) = &self.program.regions[self.region].operands[operand.0 as usize];
        let lo = self.program.boundary(line, on, num, den).map_err(|t| self.fail("E302", t, span))?;
        let hi = self.program.boundary(line, on, num + cnt, den).map_err(|t| self.fail("E302", t, span))?;
        let have = self.program.elements(BufferId(*buffer), on)?;
        if hi > have {
            return Err(self.fail(
                "E304",
                format!("elements {lo}..{hi} are outside a buffer of {have}"),
                span,
            ));
        }
        Ok(Access { mem: Mem::Buffer(*buffer), start: lo, len: hi - lo, num, cnt, den, operand: operand.0 })
    }

    /// Returns the two sides of a transfer: `a` on rank `on_a`, and `b` on rank `on_b`. A slot
    /// takes its length from the other side.
    pub(super) fn pair<E: Evaluated>(
        &self,
        a: &Ref<E>,
        on_a: u64,
        b: &Ref<E>,
        on_b: u64,
        span: Span,
    ) -> Result<(Access, Access), Fault> {
        let side = |r: &Ref<E>, on| match r {
            Ref::Chunk { operand, path } => self.chunk(*operand, path, on, span).map(Some),
            Ref::Slot { .. } => Ok(None),
        };
        let (ca, cb) = (side(a, on_a)?, side(b, on_b)?);
        let Some(model) = ca.or(cb) else {
            return Err(self.fail(
                "E304",
                "one side of a transfer must be a chunk, which defines its size".into(),
                span,
            ));
        };
        let slot = |r: &Ref<E>| -> Result<Access, Fault> {
            let Ref::Slot { window, slot } = r else { return Ok(model) };
            let w = self.program.schedule.window(*window);
            let s = self.value(slot, span)?;
            if s < 0 || s as u64 >= w.slots {
                return Err(self.fail(
                    "E304",
                    format!("slot {s} of window {} does not exist; there are {}", w.name, w.slots),
                    span,
                ));
            }
            if model.len > w.capacity {
                return Err(self.fail(
                    "E304",
                    format!(
                        "{} elements do not fit in a slot of window {}, which holds {}",
                        model.len, w.name, w.capacity
                    ),
                    span,
                ));
            }
            Ok(Access { mem: Mem::Slot(window.0, s as u64), start: 0, operand: u32::MAX, ..model })
        };
        let a = match ca {
            Some(c) => c,
            None => slot(a)?,
        };
        let b = match cb {
            Some(c) => c,
            None => slot(b)?,
        };
        if a.len != b.len {
            return Err(self.fail(
                "E305",
                format!("the two sides have {} and {} elements", a.len, b.len),
                span,
            ));
        }
        Ok((a, b))
    }

    /// Checks that the two sides of a copy or reduction are the same elements or have none in
    /// common. Otherwise the result would depend on the order in which elements are moved (E338).
    pub(super) fn check_same_or_disjoint(&self, a: &Access, b: &Access, span: Span) -> Result<(), Fault> {
        let meet = a.mem == b.mem && a.start < b.start + b.len && b.start < a.start + a.len;
        if !meet || a.start == b.start {
            return Ok(());
        }
        let (a, b) = ((a.start, a.start + a.len), (b.start, b.start + b.len));
        let text = format!("elements {}..{} and {}..{} of one buffer overlap in part", a.0, a.1, b.0, b.1);
        Err(self.fail("E338", text, span))
    }

    pub(super) fn counter(&self, signal: SignalId, index: &impl Evaluated, span: Span) -> Result<u32, Fault> {
        let i = self.value(index, span)?;
        let s = self.program.schedule.signal(signal);
        if i < 0 || i as u64 >= s.count {
            return Err(self.fail(
                "E304",
                format!("counter {i} of signal {} does not exist; there are {}", s.name, s.count),
                span,
            ));
        }
        Ok(self.program.counter_base[signal.0 as usize] + i as u32)
    }

    /// Returns the value that a wait asks for, if the form of the counter allows it.
    pub(super) fn wanted(&self, signal: SignalId, value: i64, span: Span) -> Result<i64, Fault> {
        let s = self.program.schedule.signal(signal);
        if s.form.allows(value) {
            return Ok(value);
        }
        let text = format!(
            "`{} {value}` is not defined for {} counter of {}",
            s.form.asks(),
            s.form.article(),
            s.name
        );
        Err(self.fail("E302", text, span))
    }

    pub(super) fn queue(&self, queue: QueueId, index: &impl Evaluated, span: Span) -> Result<u32, Fault> {
        let i = self.value(index, span)?;
        let q = self.program.schedule.queue(queue);
        if i < 0 || i as u64 >= q.count {
            let text = format!("number {i} of queue {} does not exist; there are {}", q.name, q.count);
            return Err(self.fail("E304", text, span));
        }
        Ok(self.program.queue_base[queue.0 as usize] + i as u32)
    }

    /// Returns the memory side of a `send` or `recv`.
    pub(super) fn message<E: Evaluated>(
        &self,
        side: &Ref<E>,
        queue: QueueId,
        span: Span,
    ) -> Result<Access, Fault> {
        let Ref::Chunk { operand, path } = side else {
            return Err(self.fail(
                "E304",
                "a queue transfer must name a chunk, which defines its size".into(),
                span,
            ));
        };
        let a = self.chunk(*operand, path, self.rank, span)?;
        let q = self.program.schedule.queue(queue);
        if a.len > q.capacity {
            let text = format!(
                "{} elements do not fit in a slot of queue {}, which holds {}",
                a.len, q.name, q.capacity
            );
            return Err(self.fail("E304", text, span));
        }
        Ok(a)
    }

    /// Evaluates an operation of a [`Written`].
    pub(super) fn resolve_written(&self, op: &'p SOp, span: Span) -> Result<Act<'p>, Fault> {
        op.translate(&mut At { cursor: self, span })
    }

    pub(super) fn resolve(&self, op: &COp, span: Span) -> Result<Act<'p>, Fault> {
        op.translate(&mut At { cursor: self, span })
    }
}

impl Program<'_> {
    /// Returns the number of a rank's role in a region.
    pub fn role_of(&self, region: RegionId, rank: u64) -> Result<Option<usize>, Fault> {
        let mut cursor = Cursor::new(self, rank, 0, 0);
        cursor.region = region.0 as usize;
        cursor.role(&self.regions[cursor.region])
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

    /// Returns the first element of chunk `num` of `den` of a line on a rank;
    /// [`crate::schedule::Line`] describes the cuts.
    pub(super) fn boundary(&self, line: &CLine, rank: u64, num: i64, den: i64) -> Result<u64, String> {
        let (extent, unit, row) = match (&line.extent, &line.unit, &line.row) {
            (Resolved::Int(extent), Resolved::Int(unit), Resolved::Int(row)) => (*extent, *unit, *row),
            (extent, unit, row) => {
                let env = self.mesh_env(rank);
                let value = |e| self.eval(e, &env).map_err(|e| e.to_string());
                (value(extent)?, value(unit)?, value(row)?)
            }
        };
        let rows = if let CutRule::Lengths(parts) = &line.rule { parts.rows() } else { u64::MAX };
        let Some(row) = u64::try_from(row).ok().filter(|row| *row < rows) else {
            return Err(format!("row {row} of the lengths does not exist; there are {rows}"));
        };
        let (Ok(extent), Ok(unit)) = (u64::try_from(extent), u64::try_from(unit)) else {
            return Err(format!("a line of {extent} x {unit} elements exceeds 64 bits"));
        };
        let line = Sized { parts: line.parts, rule: &line.rule, extent, unit, row };
        line.start(num as u64, den as u64)
            .ok_or_else(|| format!("a line of {extent} x {unit} elements exceeds 64 bits"))
    }

    /// Returns the value on a rank of a local operation's expression in mesh coordinates.
    pub fn local_value(&self, e: &crate::expr::Expr, rank: u64) -> Result<i64, crate::expr::EvalError> {
        let coords = self.schedule.mesh.coords(rank);
        let axes = &self.schedule.mesh.axes;
        e.eval(&|n: &crate::name::Name| axes.iter().position(|a| a.name == *n).map(|i| coords[i]))
    }
}
