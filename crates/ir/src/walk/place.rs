//! Place: where a walk is in a schedule, and the rules by which addresses, peers and counters are
//! evaluated there.

use super::compiled::{CLine, CRanks, CRegion, Program};
use super::{Access, Fault, Mem};
use crate::cut::{Chunks, NoChunks, Sized};
use crate::expr::{EvalError, Expr};
use crate::ready::ReadyExpression;
use crate::resolved::{Resolved, Scope};
use crate::schedule::{BufferId, OperandId, Part, QueueId, Ref, RegionId, SignalId};
use crate::types::CutRule;
use kbc_diag::Span;

/// An expression that is evaluated at a place.
pub(super) trait Evaluated {
    /// Returns the value in a region, for these values of slots.
    fn value(&self, program: &Program<'_>, region: usize, env: &[i64]) -> Result<i64, EvalError>;
}

impl Evaluated for Resolved {
    #[inline]
    fn value(&self, program: &Program<'_>, _: usize, env: &[i64]) -> Result<i64, EvalError> {
        program.eval(self, env)
    }
}

impl Evaluated for Expr {
    #[inline]
    fn value(&self, program: &Program<'_>, region: usize, env: &[i64]) -> Result<i64, EvalError> {
        if let Expr::Int(v) = self {
            return Ok(*v);
        }
        let scope = &program.scopes[region];
        self.evaluate(
            &|name| match scope.slot(name) {
                Some(slot) => Ok(env[slot as usize]),
                None => Err(EvalError::Unbound(name.clone())),
            },
            &|name, index| match scope.table(name) {
                Some(table) => program.entry(table, index),
                None => Err(EvalError::Table(name.clone(), index)),
            },
        )
    }
}

/// A region that a rank is in, with the values of the names there.
#[derive(Clone)]
pub(super) struct RegionPlace<'p> {
    pub(super) program: &'p Program<'p>,
    pub(super) rank: u64,
    /// The number of the region.
    pub(super) region: usize,
    /// The values of the slots.
    pub(super) env: Vec<i64>,
}

impl<'p> RegionPlace<'p> {
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

    pub(super) fn fail(&self, code: &'static str, text: String, span: Span) -> Fault {
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
}

impl Program<'_> {
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
}
