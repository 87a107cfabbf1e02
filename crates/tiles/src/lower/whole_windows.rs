//! Whole windows: windows that hold a vector, in place of a slot for each of its chunks.
//!
//! In a pulled exchange each rank copies the chunk for each peer into a slot of its window, in a
//! transfer for each, and every peer fetches its slot. The module finds windows whose slots are the
//! chunks of one vector, all of them or all but one, where every peer fetches what is at the same
//! place of a vector of its own. The kernel then has room for the whole vector in place of the
//! slots. It is copied there in one transfer, with the chunk that nobody reads, and peers fetch
//! their part of it. Chunks of unequal lengths are no obstacle: the owner alone writes, so parts
//! need not begin at lines.
//!
//! This is legal because a rank does not wait between its first copy and its last. The proof says
//! that nobody reads a slot any more when it is written again. Without a wait the rank learns
//! nothing new, so this holds for all slots when the first one is written. All collectives that use
//! a window must be of this kind, because a part is now somewhere else than its slot was.
//!
//! Collectives, or the calls of one, may take turns between two groups of slots. The window then
//! has room for a vector in each turn. The result is again a schedule, like that of `copy_elision`:
//! the slots of a window are vectors, and the place of a part in one is that of the chunk to which
//! a peer fetches it.

use super::accesses::touched;
use crate::tile::CALL;
use kbc_diag::Span;
use kbc_ir::cut::{Chunks, Sized};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::op::OpPart;
use kbc_ir::schedule::{
    BufferId, BufferRole, Line, LocalOp, OperandId, Part, RankSet, Ref, Region, RegionId, SOp, SStmt,
    Schedule, WindowId, each_op, each_op_mut,
};
use kbc_ir::walk::{Act, Cursor, Mem, Program, Step, stream_names};
use std::collections::BTreeMap;

/// The windows that hold whole vectors in place of slots.
#[derive(Default)]
pub(super) struct WholeWindows(BTreeMap<(WindowId, usize), usize>);

impl WholeWindows {
    /// Returns the number of leading parts of a path that select the vector which a window holds in
    /// a region; the next part selects a chunk of it. `None` for a window with slots.
    pub(super) fn depth(&self, window: WindowId, region: usize) -> Option<usize> {
        self.0.get(&(window, region)).copied()
    }
}

/// Copies of chunks into the slots of a window, in a loop of a region.
struct Slots {
    window: WindowId,
    region: usize,
    stream: usize,
    /// The loop, by its place in the body of the stream.
    at: usize,
    operand: OperandId,
    /// The path of the vector.
    vector: Vec<Part>,
    /// Number of chunks of the vector.
    of: u64,
    /// The number of the vector in the window, once it is known: an expression in the number of the
    /// call.
    turn: Expr,
    span: Span,
}

/// The windows that may hold whole vectors, each with the copies of every region that uses it.
type FoundWindows = BTreeMap<WindowId, Vec<Slots>>;

/// Largest number of vectors in a window, between which calls or collectives take turns.
const TURNS: u64 = 2;

/// Returns the schedule with whole vectors in windows; `None` if there are no such windows.
pub(super) fn whole_windows(schedule: &Schedule) -> Option<(Schedule, WholeWindows)> {
    let mut found = FoundWindows::new();
    for (region, r) in schedule.regions.iter().enumerate() {
        for slots in copied(schedule, region, r) {
            found.entry(slots.window).or_default().push(slots);
        }
    }
    found.retain(|window, all| only_fetched(schedule, *window, all));
    if found.is_empty() {
        return None;
    }
    let program = Program::compile(schedule).ok()?;
    let vectors = keep_same_places(schedule, &program, &mut found)?;
    if found.is_empty() {
        return None;
    }
    let mut out = schedule.clone();
    for (window, all) in &found {
        let lengths: Option<Vec<u64>> = all.iter().map(|slots| longest(schedule, slots)).collect();
        let declared = &mut out.windows[window.0 as usize];
        declared.slots = vectors[window];
        declared.capacity = lengths?.into_iter().max().unwrap_or(0);
        // It may be longer than it was, and lowering places it anew.
        declared.offset = None;
    }
    let mut last: Vec<&Slots> = found.values().flatten().collect();
    // From the end of a body, so that places in front of a change stay.
    last.sort_by_key(|slots| std::cmp::Reverse((slots.region, slots.stream, slots.at)));
    for slots in &last {
        let body = &mut out.regions[slots.region].roles[0].streams[slots.stream].body;
        let dst = Ref::Slot { window: slots.window, slot: slots.turn.clone() };
        let src = Ref::Chunk { operand: slots.operand, path: slots.vector.clone() };
        let around = body.iter_mut().skip(slots.at).find_map(|s| match s {
            SStmt::For { body, .. } => Some(body),
            SStmt::If { .. } | SStmt::Op(..) => None,
        });
        let written = |s: &SStmt| matches!(s, SStmt::Op(op, _) if slot_written(op) == Some(slots.window));
        around?.retain(|s| !written(s));
        body.insert(slots.at, SStmt::Op(SOp::Copy { dst, src }, slots.span));
        each_op_mut(body, &mut |op, _| match op {
            SOp::Get { src: Ref::Slot { window, slot }, .. } if *window == slots.window => {
                *slot = slots.turn.clone();
            }
            _ => {}
        });
    }
    let depths = last.iter().map(|slots| ((slots.window, slots.region), slots.vector.len()));
    Some((out, WholeWindows(depths.collect())))
}

/// Returns the window into whose slot an operation copies or puts.
fn slot_written(op: &SOp) -> Option<WindowId> {
    match op {
        SOp::Copy { dst: Ref::Slot { window, .. }, .. } | SOp::Put { dst: Ref::Slot { window, .. }, .. } => {
            Some(*window)
        }
        _ => None,
    }
}

/// Returns the windows of a region whose slots are copied in a loop, from chunks of a vector that
/// is complete before the region and that nothing changes there.
fn copied(s: &Schedule, region: usize, r: &Region) -> Vec<Slots> {
    let [role] = r.roles.as_slice() else { return vec![] };
    if !matches!(role.ranks, RankSet::All) {
        return vec![];
    }
    let mut out = vec![];
    for (stream, list) in role.streams.iter().enumerate() {
        for (at, stmt) in list.body.iter().enumerate() {
            let SStmt::For { body, .. } = stmt else { continue };
            // Nothing in the loop waits.
            let plain = |s: &SStmt| {
                matches!(s, SStmt::Op(SOp::Copy { .. } | SOp::FenceRelease | SOp::Notify { .. }, _))
            };
            if !body.iter().all(plain) {
                continue;
            }
            for stmt in body {
                let SStmt::Op(SOp::Copy { dst, src }, span) = stmt else { continue };
                let (Ref::Slot { window, .. }, Ref::Chunk { operand, path }) = (dst, src) else { continue };
                let o = &r.operands[operand.0 as usize];
                let Some((chunk, vector)) = path.split_last() else { continue };
                let of = chunk.of.as_int().and_then(|n| u64::try_from(n).ok()).filter(|of| *of > 1);
                let (Expr::Int(1), Some(of)) = (&chunk.len, of) else { continue };
                if fixed(vector) && everywhere(&o.line) && complete(s, region, o.buffer) {
                    let (vector, window, operand) = (vector.to_vec(), *window, *operand);
                    let turn = Expr::Int(0);
                    out.push(Slots { window, region, stream, at, operand, vector, of, turn, span: *span });
                }
            }
        }
    }
    out
}

/// Checks whether a path is the same on all ranks and in all steps.
fn fixed(path: &[Part]) -> bool {
    path.iter().all(|p| [&p.index, &p.len, &p.of].iter().all(|e| e.as_int().is_some()))
}

/// Checks whether a line is the same on all ranks.
fn everywhere(line: &Line) -> bool {
    [&line.extent, &line.unit, &line.row].iter().all(|e| e.as_int().is_some())
}

/// Checks whether all elements of a buffer have values before a region, and the region does not
/// change them.
fn complete(s: &Schedule, region: usize, buffer: BufferId) -> bool {
    let mut written = matches!(s.buffer(buffer).role, BufferRole::Input(_));
    for (number, r) in s.regions.iter().enumerate().take(region + 1) {
        let mut ok = true;
        for stream in r.roles.iter().flat_map(|r| &r.streams) {
            each_op(&stream.body, &mut |op, _| {
                let t = touched(r, op);
                if number == region {
                    ok &= !t.writes.contains(&buffer) && !t.remote.contains(&buffer);
                } else if let SOp::Local(l) = op {
                    written |= l.dst() == buffer && !matches!(l, LocalOp::Pack { at: Some(_), .. });
                }
            });
        }
        if !ok {
            return false;
        }
    }
    written
}

/// Checks whether a window is used in no other way: in every region that uses it, chunks are copied
/// to its slots in one place, and peers fetch the slots, in the same stream, to chunks of a vector
/// like the one from which they are copied. What holds for [`TURNS`] calls holds for all of them.
fn only_fetched(s: &Schedule, window: WindowId, all: &[Slots]) -> bool {
    let (mut fits, mut copies) = (true, 0);
    for (number, r) in s.regions.iter().enumerate() {
        for (stream, list) in r.roles.iter().flat_map(|r| &r.streams).enumerate() {
            let here = all.iter().find(|slots| (slots.region, slots.stream) == (number, stream));
            each_op(&list.body, &mut |op, _| {
                op.parts(&mut |part| {
                    let (OpPart::Near(_, r) | OpPart::Far(_, r)) = part else { return };
                    let Ref::Slot { window: of, slot } = r else { return };
                    if *of != window {
                        return;
                    }
                    fits &= here.is_some_and(|slots| match op {
                        SOp::Copy { dst, .. } if dst == r => {
                            copies += 1;
                            takes_turns(slot)
                        }
                        SOp::Get { dst, .. } => takes_turns(slot) && alike(s, slots, dst),
                        _ => false,
                    });
                });
            });
        }
    }
    fits && copies == all.len() && all.windows(2).all(|w| w[0].region < w[1].region)
}

/// Checks whether a place is a chunk of a vector like the one that is copied to slots.
fn alike(s: &Schedule, slots: &Slots, place: &Ref) -> bool {
    let operands = &s.regions[slots.region].operands;
    let Ref::Chunk { operand, path } = place else { return false };
    operands[operand.0 as usize].line == operands[slots.operand.0 as usize].line
        && path.split_last().is_some_and(|(_, vector)| vector == slots.vector)
}

/// Checks whether the number of a slot is the same in every [`TURNS`]-th call: the call is only in
/// remainders by this number, of sums, differences and products.
fn takes_turns(slot: &Expr) -> bool {
    fn plain(e: &Expr) -> bool {
        match e {
            Expr::Int(_) | Expr::Var(_) => true,
            Expr::Bin(BinOp::Add | BinOp::Sub | BinOp::Mul, a, b) => plain(a) && plain(b),
            _ => false,
        }
    }
    let all = |list: &[&Expr]| list.iter().all(|e| takes_turns(e));
    match slot {
        Expr::Int(_) => true,
        Expr::Var(name) => name != CALL,
        Expr::Bin(BinOp::Mod, a, by) if by.as_int() == Some(TURNS as i64) && plain(a) => true,
        Expr::Un(_, a) | Expr::Table(_, a) => all(&[a]),
        Expr::Bin(_, a, b) => all(&[a, b]),
        Expr::Select(c, a, b) => all(&[c, a, b]),
    }
}

/// For each slot, the elements of the vector that are copied to it: the first one, and how many.
type SlotContents = BTreeMap<u64, (u64, u64)>;

/// Keeps the windows of which every slot is fetched to the place in a vector that it came from, and
/// that hold all chunks of a vector but one at most. Sets the turns, and returns the number of
/// vectors in each window.
fn keep_same_places(
    s: &Schedule,
    program: &Program<'_>,
    found: &mut FoundWindows,
) -> Option<BTreeMap<WindowId, u64>> {
    // The elements that a rank copies in a call to the slots of a window in a region, and those
    // that are fetched.
    let mut slots: BTreeMap<(WindowId, RegionId, i64, u64), SlotContents> = BTreeMap::new();
    let mut fetched = vec![];
    let calls = TURNS as i64;
    let streams = stream_names(s).len();
    for (rank, call) in (0..program.ranks()).flat_map(|rank| (0..calls).map(move |call| (rank, call))) {
        for stream in 0..streams {
            let mut cursor = Cursor::new(program, rank, stream as u32, call);
            while let Some(step) = cursor.next_step().ok()? {
                let Some(region) = cursor.region() else { continue };
                match step {
                    Step::Act(Act::Copy { dst, src }, ..) => {
                        let Mem::Slot(window, slot) = dst.mem else { continue };
                        let window = WindowId(window);
                        let of = slots.entry((window, region, call, rank)).or_default();
                        if of.insert(slot, (src.start, src.len)).is_some() {
                            found.remove(&window);
                        }
                    }
                    Step::Act(Act::Get { dst, peer, src }, ..) => {
                        let Mem::Slot(window, slot) = src.mem else { continue };
                        fetched.push(((WindowId(window), region, call, peer), slot, (dst.start, dst.len)));
                    }
                    _ => {}
                }
            }
        }
    }
    for (copied, slot, place) in fetched {
        if slots.get(&copied).and_then(|of| of.get(&slot)) != Some(&place) {
            found.remove(&copied.0);
        }
    }
    let mut vectors = BTreeMap::new();
    found.retain(|window, all| {
        let key = |of: &Slots, call: i64, rank: u64| (*window, RegionId(of.region as u32), call, rank);
        let Some(each) = all.first().and_then(|of| slots.get(&key(of, 0, 0))).map(|of| of.len() as u64)
        else {
            return false;
        };
        let number = s.window(*window).slots / each;
        vectors.insert(*window, number);
        let whole = number * each == s.window(*window).slots && (1..=TURNS).contains(&number);
        whole
            && all.iter_mut().all(|of| {
                // A call uses all slots of its turn and no other.
                let turn = |call: i64| {
                    let first = *slots.get(&key(of, call, 0))?.keys().next()?;
                    let full = |rank: u64| {
                        let slots = slots.get(&key(of, call, rank));
                        slots.is_some_and(|slots| slots.keys().copied().eq(first..first + each))
                    };
                    (first % each == 0 && (0..program.ranks()).all(full)).then_some(first / each)
                };
                of.turn = match (turn(0), turn(1)) {
                    (Some(a), Some(b)) if a == b => Expr::Int(a as i64),
                    (Some(a), Some(_)) => {
                        (Expr::var(CALL) + Expr::Int(a as i64)).simplify().modulo(Expr::Int(TURNS as i64))
                    }
                    _ => return false,
                };
                each + 1 >= of.of
            })
    });
    Some(vectors)
}

/// Returns a number of elements that the vector does not exceed, by the rule for capacities of
/// windows.
fn longest(s: &Schedule, slots: &Slots) -> Option<u64> {
    let int = |e: &Expr| e.as_int();
    let number = |e: &Expr| u64::try_from(e.as_int()?).ok();
    let at = slots
        .vector
        .iter()
        .try_fold(Chunks::WHOLE, |at, p| at.cut([int(&p.index)?, int(&p.len)?, int(&p.of)?]).ok())?;
    let Line { parts, rule, extent, unit, row } =
        &s.regions[slots.region].operands[slots.operand.0 as usize].line;
    let (extent, unit, row) = (number(extent)?, number(unit)?, number(row)?);
    Some(Sized { parts: *parts, rule, extent, unit, row }.longest(at.cnt, at.den))
}
