//! Traces: the concrete operations of one rank in one launch of a kernel, with all numbers
//! computed.
//!
//! The module owns the execution of control flow and the checks on the way: no operation may leave
//! its memory, its array of counters, its tile or the domain (E459). A trace contains neither data
//! nor what other ranks do. Traces are compared with each other: two kernels with the same traces
//! at the same sizes do the same at these sizes.

mod code;
mod event;
mod sink;

pub use event::{MemoryPlace, TraceEvent};

use super::text::print_op;
use super::*;
use code::{Resolver, Step};
use kbc_diag::Diagnostic;
use kbc_ir::expr::{EvalError, Expr};
use kbc_ir::name::Name;
use kbc_ir::resolved::Resolved;
pub(super) use sink::TraceSink;
use sink::{Beginning, Comparison, Dropped};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

type R<T> = Result<T, Diagnostic>;

/// Parameters of one launch on one core of a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Number of ranks of the domain.
    pub nranks: i64,
    /// Number of this rank.
    pub rank: i64,
    /// Number of this core of the rank.
    pub core: i64,
    /// Number of earlier launches on the domain.
    pub call: i64,
    /// Values of the other scalars: `count` and others.
    pub scalars: BTreeMap<Name, i64>,
}

/// How loops over tiles are traced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loops {
    /// Every tile is in the trace.
    Unrolled,
    /// The trace has [`TraceEvent::Tiles`], then the first two and the last two tiles, so that
    /// traces of large counts stay short. A loop is unrolled all the same if its numbers are not
    /// affine in position and length of the tile, or if its control flow depends on them in other
    /// ways than the first tile from the rest. Therefore equal traces mean equal loops, and what is
    /// in range at these tiles is in range at all tiles.
    Ends,
    /// For counting: the second tile stands for all tiles between the first and the last one, where
    /// these have the same operations with the same lengths. Other loops are unrolled.
    Alike,
}

/// Computes the trace of a rank in a launch.
///
/// # Errors
/// Returns E456 for a name without a value, E459 for an operation that is out of range, and E431
/// for more than `limit` events.
pub fn trace<'k>(kernel: &'k Kernel, launch: &Launch, loops: Loops, limit: usize) -> R<Vec<TraceEvent<'k>>> {
    TraceProgram::new(kernel)?.trace(launch, loops, limit)
}

/// A kernel with resolved names, from which the traces of many ranks are computed.
pub struct TraceProgram<'k> {
    kernel: &'k Kernel,
    slots: usize,
    body: Vec<Step<'k>>,
    tensors: Vec<Resolved>,
    areas: Vec<[Resolved; 2]>,
    signals: Vec<Resolved>,
}

impl<'k> TraceProgram<'k> {
    /// Resolves the names of a kernel.
    ///
    /// # Errors
    /// Returns E456 for a name without a value.
    pub fn new(kernel: &'k Kernel) -> R<TraceProgram<'k>> {
        let mut r = Resolver::new(kernel);
        for name in [NRANKS, RANK, CALL, CORE] {
            r.declare(&Name::from(name));
        }
        for s in &kernel.scalars {
            r.declare(s);
        }
        let all = |list: Vec<&Expr>| list.into_iter().map(|e| r.code(e)).collect::<R<Vec<Resolved>>>();
        let tensors = all(kernel.tensors.iter().map(|t| &t.len).collect())?;
        let signals = all(kernel.signals.iter().map(|s| &s.count).collect())?;
        let areas = kernel.areas.iter().map(|a| Ok([r.code(&a.slots)?, r.code(&a.capacity)?]));
        let areas = areas.collect::<R<Vec<_>>>()?;
        let body = r.body(&kernel.body)?;
        Ok(TraceProgram { kernel, slots: r.slots(), body, tensors, areas, signals })
    }

    /// Computes the trace of a rank in a launch.
    ///
    /// # Errors
    /// Returns E459 for an operation that is out of range, and E431 for more than `limit` events.
    pub fn trace(&self, launch: &Launch, loops: Loops, limit: usize) -> R<Vec<TraceEvent<'k>>> {
        let mut events = vec![];
        self.run(launch, loops, limit, &mut events).map(|_| events)
    }

    /// Checks every operation of a rank in a launch, without a list of the events.
    ///
    /// # Errors
    /// Same as [`TraceProgram::trace`].
    pub fn check(&self, launch: &Launch, loops: Loops, limit: usize) -> R<()> {
        self.run(launch, loops, limit, &mut Dropped).map(|_| ())
    }

    /// Gives the events of a rank in a launch to a counter, with [`Loops::Alike`].
    ///
    /// # Errors
    /// Same as [`TraceProgram::trace`].
    pub(super) fn count(&self, launch: &Launch, limit: usize, counter: &mut impl TraceSink<'k>) -> R<()> {
        self.run(launch, Loops::Alike, limit, counter).map(|_| ())
    }

    /// Writes the first events of the trace of a rank in a launch to `events`, whose memory is
    /// reused. Returns whether these are all events.
    ///
    /// # Errors
    /// Same as [`TraceProgram::trace`], for what lies before the end of these events.
    pub fn beginning(
        &self,
        launch: &Launch,
        loops: Loops,
        limit: usize,
        most: usize,
        events: &mut Vec<TraceEvent<'k>>,
    ) -> R<bool> {
        events.clear();
        Ok(self.run(launch, loops, limit, &mut Beginning { events, most })?.is_continue())
    }

    /// Checks whether the trace of a rank in a launch begins with these events, and ends with them
    /// if they are `all`. The trace is computed up to the first difference.
    ///
    /// # Errors
    /// Same as [`TraceProgram::trace`], for what lies before the first difference.
    pub fn begins_with(
        &self,
        launch: &Launch,
        loops: Loops,
        limit: usize,
        events: &[TraceEvent],
        all: bool,
    ) -> R<bool> {
        let mut comparison = Comparison { want: events.iter(), same: true };
        let end = self.run(launch, loops, limit, &mut comparison)?;
        // The trace was ended by an event that differs, or by one after all expected events.
        Ok(match end {
            ControlFlow::Continue(()) => comparison.want.as_slice().is_empty() && all,
            ControlFlow::Break(()) => comparison.same && !all,
        })
    }

    fn run(
        &self,
        launch: &Launch,
        loops: Loops,
        limit: usize,
        sink: &mut impl TraceSink<'k>,
    ) -> R<ControlFlow<()>> {
        if let Some(root) = self.kernel.root.filter(|r| i64::try_from(*r).is_ok_and(|r| r >= launch.nranks)) {
            return Err(fault(launch, "the kernel", &format!("has root {root} of {} ranks", launch.nranks)));
        }
        let mut values = vec![0; self.slots];
        // The rank is number `RANK_VALUE`.
        values[..4].copy_from_slice(&[launch.nranks, launch.rank, launch.call, launch.core]);
        for (i, s) in self.kernel.scalars.iter().enumerate() {
            values[4 + i] = match s.as_str() {
                NRANKS => launch.nranks,
                CALL => launch.call,
                // Everything is counted in places, so another root gives the same trace.
                ROOT if self.kernel.root.is_some() => self.kernel.root.unwrap_or_default() as i64,
                _ => {
                    let given = launch.scalars.get(s).copied();
                    given
                        .ok_or_else(|| fault(launch, "the launch", &format!("has no value for scalar {s}")))?
                }
            };
        }
        let tables = self.kernel.tables.iter().map(|t| {
            let of = u64::try_from(launch.nranks).ok().and_then(|n| t.values.get(&n));
            of.map_or(&[][..], Vec::as_slice)
        });
        let tables = tables.collect();
        let mut run = Run {
            p: self,
            launch,
            loops,
            limit,
            work: limit.saturating_mul(64).saturating_add(1_000_000),
            values,
            tables,
            sizes: Sizes::default(),
            sums: BTreeSet::new(),
            events: 0,
            times: 1,
            row: None,
            sink,
        };
        let size = |run: &Run<'_, 'k, _>, what: &str, code: &Resolved| {
            run.eval(code).map_err(|e| run.fault(what, &e.to_string()))
        };
        for (t, code) in self.kernel.tensors.iter().zip(&self.tensors) {
            let len = size(&run, &format!("the length of %{}", t.name), code)?;
            run.sizes.tensors.push(len);
            let ranks = if t.reach == Reach::Peers { launch.nranks } else { 0 };
            let own = run.values[RANK_VALUE];
            let all = (0..ranks).map(|rank| {
                run.values[RANK_VALUE] = rank;
                size(&run, &format!("the length of %{} on rank {rank}", t.name), code)
            });
            let all = all.collect::<R<Vec<i64>>>();
            run.values[RANK_VALUE] = own;
            run.sizes.reached.push(all?);
        }
        for (a, [slots, capacity]) in self.kernel.areas.iter().zip(&self.areas) {
            let what = format!("the size of @{}", a.name);
            let both = (size(&run, &what, slots)?, size(&run, &what, capacity)?);
            run.sizes.areas.push(both);
        }
        for (s, code) in self.kernel.signals.iter().zip(&self.signals) {
            let count = size(&run, &format!("the number of counters @{}", s.name), code)?;
            run.sizes.signals.push(count);
        }
        match run.steps(&self.body) {
            Ok(()) => Ok(ControlFlow::Continue(())),
            Err(Ended::Enough) => Ok(ControlFlow::Break(())),
            Err(Ended::Fault(d)) => Err(*d),
        }
    }
}

/// Returns the first four values: the numbers of a transfer.
fn first([a, b, c, d, ..]: [i64; 6]) -> [i64; 4] {
    [a, b, c, d]
}

fn fault(launch: &Launch, what: &str, why: &str) -> Diagnostic {
    let Launch { nranks, rank, call, .. } = launch;
    let mut at = format!("rank {rank} of {nranks}, call {call}");
    for (n, v) in launch.scalars.iter().filter(|(n, _)| *n != NRANKS && *n != CALL) {
        at += &format!(", {n} {v}");
    }
    Diagnostic::error("E459", format!("{what}: {why}")).note(at)
}

/// Why a trace ended before the kernel did.
enum Ended {
    /// The receiver of its events needs no more of them.
    Enough,
    Fault(Box<Diagnostic>),
}

impl From<Diagnostic> for Ended {
    fn from(fault: Diagnostic) -> Ended {
        Ended::Fault(Box::new(fault))
    }
}

/// Place of the rank among the values of a launch.
const RANK_VALUE: usize = 1;

#[derive(Default)]
struct Sizes {
    tensors: Vec<i64>,
    /// Of each tensor that peers reach, the length on every rank; of the others nothing.
    reached: Vec<Vec<i64>>,
    areas: Vec<(i64, i64)>,
    signals: Vec<i64>,
}

struct Run<'p, 'k, S> {
    p: &'p TraceProgram<'k>,
    launch: &'p Launch,
    loops: Loops,
    limit: usize,
    /// Number of steps that may still be executed, so that a loop without events ends too.
    work: usize,
    values: Vec<i64>,
    tables: Vec<&'p [i64]>,
    sizes: Sizes,
    /// Tiles that hold sums.
    sums: BTreeSet<TileId>,
    /// Number of events so far.
    events: usize,
    /// Number of events for which each event stands.
    times: u64,
    /// Elements of a row, in a loop whose tiles hold rows.
    row: Option<i64>,
    sink: &'p mut S,
}

impl<'k, S: TraceSink<'k>> Run<'_, 'k, S> {
    fn fault(&self, what: &str, why: &str) -> Diagnostic {
        fault(self.launch, what, why)
    }

    fn endless(&self) -> Diagnostic {
        let fault = self.fault("the trace", &format!("has more than {} events, or does not end", self.limit));
        Diagnostic { code: "E431", ..fault }
    }

    fn eval(&self, e: &Resolved) -> Result<i64, EvalError> {
        e.value(&self.values, &|t, i| {
            let entry = usize::try_from(i).ok().and_then(|i| self.tables[t as usize].get(i));
            let missing = || EvalError::Table(self.p.kernel.tables[t as usize].name.clone(), i);
            entry.copied().ok_or_else(missing)
        })
    }

    fn value(&self, what: &str, e: &Resolved) -> R<i64> {
        self.eval(e).map_err(|why| self.fault(what, &why.to_string()))
    }

    fn push(&mut self, event: TraceEvent<'k>) -> Result<(), Ended> {
        self.events += 1;
        match self.sink.take(event) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Ended::Enough),
        }
    }

    /// Sets the names of the rows in a tile, after checking that it has whole rows.
    fn rows(&mut self, pos: i64, len: i64, names: (usize, usize), elements: u32) -> R<()> {
        let elements = i64::from(elements);
        if elements == 0 || pos % elements != 0 || len % elements != 0 {
            let text = format!("{len} elements from {pos} on are no whole rows of {elements}");
            return Err(self.fault("a `tiles`", &text));
        }
        self.values[names.0] = pos / elements;
        self.values[names.1] = len / elements;
        Ok(())
    }

    fn each_stands_for(&mut self, times: u64) {
        self.times = times;
        self.sink.each_stands_for(times);
    }

    fn steps(&mut self, list: &[Step<'k>]) -> Result<(), Ended> {
        for s in list {
            if self.work == 0 || self.events > self.limit {
                return Err(self.endless().into());
            }
            self.work -= 1;
            match s {
                Step::Let(slot, code) => self.values[*slot] = self.value("a `let`", code)?,
                Step::For { var, lo, hi, body } => {
                    let (lo, hi) = (self.value("a `for`", lo)?, self.value("a `for`", hi)?);
                    for v in lo..hi {
                        self.values[*var] = v;
                        self.work = self.work.saturating_sub(1);
                        self.steps(body)?;
                        if self.work == 0 {
                            return Err(self.endless().into());
                        }
                    }
                }
                Step::If { cond, then, other } => {
                    let holds = self.value("an `if`", cond)? != 0;
                    self.steps(if holds { then } else { other })?;
                }
                Step::Tiles { pos, len, total, step, affine, even, rows, body } => {
                    let total = self.value("a `tiles`", total)?;
                    let step = i64::from(*step);
                    let count = if total > 0 { (total - 1) / step + 1 } else { 0 };
                    let short = self.loops == Loops::Ends && *affine;
                    if short && count > 0 {
                        self.push(TraceEvent::Tiles { total, step: step as u32 })?;
                    }
                    if let (Some((_, _, elements)), true) = (rows, count > 0) {
                        self.push(TraceEvent::Rows { elements: *elements })?;
                    }
                    let alike = self.loops == Loops::Alike && *even && count > 3;
                    let around = self.times;
                    let inner = rows.map(|r| i64::from(r.2)).or(self.row);
                    let around_rows = std::mem::replace(&mut self.row, inner);
                    let mut n = 0;
                    while n < count {
                        self.values[*pos] = n * step;
                        self.values[*len] = step.min(total - n * step);
                        if let Some((first, count, elements)) = rows {
                            self.rows(n * step, self.values[*len], (*first, *count), *elements)?;
                        }
                        self.work = self.work.saturating_sub(1);
                        let middle = alike && n == 1;
                        if middle {
                            self.each_stands_for(around.saturating_mul((count - 2) as u64));
                        }
                        self.steps(body)?;
                        if self.work == 0 {
                            return Err(self.endless().into());
                        }
                        n = match n {
                            1 if middle => {
                                self.each_stands_for(around);
                                count - 1
                            }
                            1 if short => 2.max(count - 2),
                            n => n + 1,
                        };
                    }
                    self.row = around_rows;
                }
                Step::Turn { by, body } => {
                    let second = self.value("a `turn`", by)?.rem_euclid(2) == 1;
                    self.push(TraceEvent::Turn { second })?;
                    self.steps(body)?;
                }
                Step::Task(cores, body) => {
                    if self.launch.core < *cores {
                        self.steps(body)?;
                    }
                }
                Step::Op { op, codes } => self.op(op, codes)?,
            }
        }
        Ok(())
    }

    fn op(&mut self, op: &'k Op, codes: &[Resolved]) -> Result<(), Ended> {
        let mut values = [0i64; 6];
        for (v, c) in values.iter_mut().zip(codes) {
            *v = self.eval(c).map_err(|e| self.at(op, &e.to_string()))?;
        }
        let event = match op {
            Op::Load { tile, from, .. } => {
                let (len, from) = self.transfer(op, *tile, from, first(values))?;
                TraceEvent::Load { tile: *tile, len, from }
            }
            Op::Store { tile, to, .. } => {
                let (len, to) = self.transfer(op, *tile, to, first(values))?;
                TraceEvent::Store { to, tile: *tile, len }
            }
            Op::Vector { op: which, dst, args, .. } => {
                let read = args.iter().filter_map(|a| if let VArg::Tile(t) = a { Some(*t) } else { None });
                self.fits(op, values[0], [*dst].into_iter().chain(read))?;
                TraceEvent::Vector { op: *which, dst: *dst, args, len: values[0] }
            }
            Op::Select { cmp, dst, a, b, x, y, mask, .. } => {
                self.fits(op, values[0], [*dst, *a, *b, *x, *y].into_iter())?;
                TraceEvent::Select { cmp: *cmp, tiles: [*dst, *a, *b, *x, *y, *mask], len: values[0] }
            }
            Op::Convert { dst, src, rounding } => {
                TraceEvent::Convert { dst: *dst, src: *src, rounding: *rounding }
            }
            Op::Reduce { op: which, dst, src, work, .. } => {
                self.fits(op, values[0], [*src].into_iter())?;
                TraceEvent::Reduce { op: *which, tiles: [*dst, *src, *work], len: values[0] }
            }
            Op::Expand { dst, src, .. } => {
                self.fits(op, values[0], [*dst].into_iter())?;
                TraceEvent::Expand { dst: *dst, src: *src, len: values[0] }
            }
            Op::LoadRows { tile, from, .. } => {
                let [len, pitch, slot, offset, peer, _] = values;
                let from = self.apart(op, from, [len, pitch], [slot, offset, peer])?;
                self.fits(op, len, [*tile].into_iter())?;
                TraceEvent::LoadRows { tile: *tile, len, from, pitch }
            }
            Op::StoreRows { to, tile, .. } => {
                let [len, pitch, slot, offset, peer, _] = values;
                let to = self.apart(op, to, [len, pitch], [slot, offset, peer])?;
                self.fits(op, len, [*tile].into_iter())?;
                TraceEvent::StoreRows { to, pitch, tile: *tile, len }
            }
            Op::Spread { dst, src, .. } => {
                self.fits(op, values[0], [*dst].into_iter())?;
                TraceEvent::Spread { dst: *dst, src: *src, len: values[0] }
            }
            Op::Index { dst, .. } => {
                let [value, len, ..] = values;
                self.fits(op, len, [*dst].into_iter())?;
                TraceEvent::Index { dst: *dst, value, len }
            }
            Op::Choose { ids, .. } => {
                let [index, first, ..] = values;
                let elements = self.p.kernel.tiles.get(ids.0 as usize).map_or(0, |t| i64::from(t.elements));
                if !(0..elements).contains(&index) {
                    return Err(self
                        .at(op, &format!("element {index} is outside a tile of {elements}"))
                        .into());
                }
                TraceEvent::Choose { ids: *ids, index, first }
            }
            Op::LoadRow { tile, from, .. } => {
                let [len, pitch, rows, slot, offset, peer] = values;
                self.fits(op, len, [*tile].into_iter())?;
                let from = match rows > 0 {
                    // In range for every row that may be chosen.
                    true => self.block(op, from, [rows, len, pitch], [slot, offset, peer])?,
                    // The table has no rows, so nothing is read.
                    false => MemoryPlace {
                        object: from.object,
                        slot,
                        offset,
                        peer: from.peer.as_ref().map(|_| peer),
                    },
                };
                TraceEvent::LoadRow { tile: *tile, len, from, table: [pitch, rows] }
            }
            Op::LoadBlock { tile, from, .. } => {
                let [rows, cols, pitch, slot, offset, peer] = values;
                self.fits_block(op, *tile, [rows, cols])?;
                let from = self.block(op, from, [rows, cols, pitch], [slot, offset, peer])?;
                TraceEvent::LoadBlock { tile: *tile, size: [rows, cols], from, pitch }
            }
            Op::Move { dst, src, .. } => {
                let [row, col, rows, cols, ..] = values;
                self.fits_block(op, *dst, [rows, cols])?;
                self.fits_block(op, *src, [row + rows, col + cols])?;
                self.fits_move(op, [*dst, *src], [row, col])?;
                TraceEvent::Move { dst: *dst, src: *src, from: [row, col], size: [rows, cols] }
            }
            Op::Matmul { dst, left, right, add, .. } => {
                let [m, n, k, ..] = values;
                self.fits_block(op, *dst, [m, n])?;
                self.fits_block(op, *left, [m, k])?;
                self.fits_block(op, *right, [k, n])?;
                if !self.sums.contains(dst) && *add {
                    return Err(self.at(op, "there is no accumulator").into());
                }
                self.sums.insert(*dst);
                TraceEvent::Matmul { tiles: [*dst, *left, *right], size: [m, n, k], add: *add }
            }
            Op::StoreBlock { to, tile, .. } => {
                let [rows, cols, pitch, slot, offset, peer] = values;
                self.fits_block(op, *tile, [rows, cols])?;
                // A matmul over an empty dimension would leave no sums.
                if !self.sums.remove(tile) {
                    return Err(self.at(op, "the accumulator is empty").into());
                }
                let to = self.block(op, to, [rows, cols, pitch], [slot, offset, peer])?;
                TraceEvent::StoreBlock { to, pitch, tile: *tile, size: [rows, cols] }
            }
            Op::Notify { signals, .. } => {
                let [peer, index, ..] = values;
                self.rank(op, peer)?;
                self.counter(op, *signals, index)?;
                TraceEvent::Notify { peer, signals: *signals, index }
            }
            Op::Wait { signals, .. } | Op::Defer { signals, .. } => {
                let [index, value, ..] = values;
                self.counter(op, *signals, index)?;
                if i32::try_from(value).is_err() {
                    return Err(self.at(op, &format!("the value {value} does not fit in 32 bits")).into());
                }
                let deferred = matches!(op, Op::Defer { .. });
                TraceEvent::Wait { signals: *signals, index, value, deferred }
            }
            order => TraceEvent::Order(order),
        };
        self.push(event)
    }

    fn at(&self, op: &Op, why: &str) -> Diagnostic {
        self.fault(&format!("`{}`", print_op(self.p.kernel, op)), why)
    }

    fn rank(&self, op: &Op, peer: i64) -> R<()> {
        if (0..self.launch.nranks).contains(&peer) {
            return Ok(());
        }
        Err(self.at(op, &format!("peer {peer} is not a rank")))
    }

    fn counter(&self, op: &Op, id: SignalsId, index: i64) -> R<()> {
        let count = self.sizes.signals.get(id.0 as usize).copied().unwrap_or(0);
        if (0..count).contains(&index) {
            return Ok(());
        }
        Err(self.at(op, &format!("counter {index} does not exist; there are {count}")))
    }

    fn fits(&self, op: &Op, len: i64, tiles: impl Iterator<Item = TileId>) -> R<()> {
        for t in tiles {
            let elements = self.p.kernel.tiles.get(t.0 as usize).map_or(0, |t| i64::from(t.elements));
            if !(0..=elements).contains(&len) {
                return Err(self.at(op, &format!("{len} elements exceed a tile of {elements}")));
            }
        }
        Ok(())
    }

    fn fits_block(&self, op: &Op, tile: TileId, [rows, cols]: [i64; 2]) -> R<()> {
        let none = (0, 0);
        let (r, c) = self
            .p
            .kernel
            .tiles
            .get(tile.0 as usize)
            .map_or(none, |t| (i64::from(t.rows), i64::from(t.elements)));
        if (1..=r).contains(&rows) && (1..=c).contains(&cols) {
            return Ok(());
        }
        Err(self.at(op, &format!("{rows} x {cols} elements exceed a tile of {r} x {c}")))
    }

    /// Checks that the place in its source from which a tile is moved lies in it: the instruction
    /// moves the whole tile, even if less of it is needed.
    fn fits_move(&self, op: &Op, [dst, src]: [TileId; 2], from: [i64; 2]) -> R<()> {
        let size = |t: TileId| self.p.kernel.tiles.get(t.0 as usize).map_or((0, 0), |t| (t.rows, t.elements));
        let (to, of) = (size(dst), size(src));
        for (at, len, whole) in [(from[0], to.0, of.0), (from[1], to.1, of.1)] {
            if at < 0 || at + i64::from(len) > i64::from(whole) {
                let text = format!("{len} rows or columns from {at} on exceed a tile of {whole}");
                return Err(self.at(op, &text));
            }
        }
        Ok(())
    }

    /// Returns the place of a block of a matrix, after checking that the block is in its memory.
    fn block(&self, op: &Op, g: &Gm, size: [i64; 3], place: [i64; 3]) -> R<MemoryPlace> {
        let [rows, cols, pitch] = size;
        let [slot, offset, peer] = place;
        if pitch < cols {
            return Err(self.at(op, &format!("rows of {cols} elements at a distance of {pitch} overlap")));
        }
        let len = rows.checked_sub(1).and_then(|r| r.checked_mul(pitch)).and_then(|n| n.checked_add(cols));
        let len = len.ok_or_else(|| self.at(op, "the block is too large"))?;
        self.place(op, g, len, [slot, offset, peer])
    }

    /// Returns the place of the rows of a tile, after checking that they are in their memory.
    fn apart(&self, op: &Op, g: &Gm, [len, pitch]: [i64; 2], place: [i64; 3]) -> R<MemoryPlace> {
        let Some(elements) = self.row.filter(|n| *n > 0 && len > 0 && len % *n == 0) else {
            return Err(self.at(op, "the tile does not hold whole rows"));
        };
        self.block(op, g, [len / elements, elements, pitch], place)
    }

    fn transfer(&self, op: &Op, tile: TileId, g: &Gm, values: [i64; 4]) -> R<(i64, MemoryPlace)> {
        let [len, slot, offset, peer] = values;
        self.fits(op, len, [tile].into_iter())?;
        Ok((len, self.place(op, g, len, [slot, offset, peer])?))
    }

    /// Returns the number of elements of a tensor of a peer, or of this rank.
    fn len_on(&self, t: TensorId, peer: Option<i64>) -> i64 {
        let own = self.sizes.tensors.get(t.0 as usize).copied();
        let of = |p: i64| self.sizes.reached.get(t.0 as usize)?.get(usize::try_from(p).ok()?).copied();
        peer.map_or(own, of).unwrap_or(0)
    }

    /// Returns the place of `len` elements, after checking that all of them are in their memory.
    fn place(&self, op: &Op, g: &Gm, len: i64, [slot, offset, peer]: [i64; 3]) -> R<MemoryPlace> {
        let peer = g.peer.as_ref().map(|_| peer);
        let (slots, capacity) = match g.object {
            Object::Tensor(t) => (1, self.len_on(t, peer)),
            Object::Area(a) => self.sizes.areas.get(a.0 as usize).copied().unwrap_or((0, 0)),
        };
        if let Some(p) = peer {
            self.rank(op, p)?;
            let reached = match g.object {
                Object::Tensor(t) => {
                    self.p.kernel.tensors.get(t.0 as usize).is_some_and(|t| t.reach == Reach::Peers)
                }
                Object::Area(a) => {
                    self.p.kernel.areas.get(a.0 as usize).is_some_and(|a| a.reach == Reach::Peers)
                }
            };
            if !reached {
                return Err(self.at(op, "peers cannot access this memory"));
            }
        }
        if !(0..slots).contains(&slot) {
            return Err(self.at(op, &format!("slot {slot} does not exist; there are {slots}")));
        }
        let end = offset.checked_add(len);
        if offset < 0 || end.is_none_or(|e| e > capacity) {
            return Err(
                self.at(op, &format!("{len} elements from {offset} on exceed the capacity of {capacity}"))
            );
        }
        Ok(MemoryPlace { object: g.object, slot, offset, peer })
    }
}
