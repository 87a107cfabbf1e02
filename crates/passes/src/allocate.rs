//! Window allocation: gives each window the slots that it needs for successive calls, and its place
//! in the domain.
//!
//! The pass distinguishes four cases:
//!
//! * **No marks `reserve` and `free`.** `expand` has found that other messages imply that a slot
//!   may be written again. The window keeps its slots.
//! * **A collective in which every rank's result depends on every rank's input.** A rank that
//!   starts call n + 2 has finished call n + 1, and the result of that call depends on every rank
//!   having finished call n. So two slots per message, used by alternate calls, need neither
//!   credits nor a barrier, whatever the skew between ranks. The window gets twice its slots, the
//!   slot numbers get a term with `call % 2`, and the marks are removed. Whether a collective has
//!   this property follows from its contract, never from its name or its algorithm.
//! * **A window with marks `settle`** keeps one slot per message, because its slots are free again
//!   when a call ends, and `synchronize` adds the credits that show it.
//! * **Any other window** keeps one slot per message, or the rotating slots that `slots: k` asked
//!   for, and `synchronize` adds credits.
//!
//! Regions that do the same over the same ranks, each ordered after the previous one, share their
//! windows: each region takes the next turn, as the next call would (`turns.rs`), and turns
//! alternate instead of calls. All other windows are disjoint. Every window starts at a multiple of
//! 64 bytes.
//!
//! ```kir,before
//! kir 1
//! module @sum
//! machine ring(4) { link: 50 GB/s, 500 ns }
//! mesh tp 4
//! props expanded
//!
//! schedule calls none
//! buffer %x : f32[10] hbm input 0 : f32[10] partial(sum@tp)
//! buffer %y_v : f32[10] hbm temp
//! buffer %out : f32[10] hbm output 0 : f32[10]
//! window @all_reduce_w0 : f32[3 x 3] hbm
//! window @all_reduce_w1 : f32[3 x 3] hbm
//!
//! region @local local
//!   role all
//!     stream main
//!       copy %y_v = %x
//!
//! region @all_reduce over tp as (r of 4) after @local
//!   label "ring"
//!   on v = %y_v line 10
//!   promise all_reduce sum
//!   role all
//!     stream main
//!       for s in 1..4
//!         reserve ((r + 1) % 4) : @all_reduce_w0[s - 1]
//!         put v[(r - s) % 4 of 4] -> ((r + 1) % 4) : @all_reduce_w0[s - 1]
//!         publish ((r + 1) % 4) : @all_reduce_w0[s - 1]
//!         accept ((r - 1) % 4) : @all_reduce_w0[s - 1]
//!         combine sum v[(r - s - 1) % 4 of 4], @all_reduce_w0[s - 1]
//!         free ((r - 1) % 4) : @all_reduce_w0[s - 1]
//!       for s_2 in 0..3
//!         reserve ((r + 1) % 4) : @all_reduce_w1[s_2]
//!         put v[(r - s_2) % 4 of 4] -> ((r + 1) % 4) : @all_reduce_w1[s_2]
//!         publish ((r + 1) % 4) : @all_reduce_w1[s_2]
//!         accept ((r - 1) % 4) : @all_reduce_w1[s_2]
//!         copy v[(r - s_2 - 1) % 4 of 4] = @all_reduce_w1[s_2]
//!         free ((r - 1) % 4) : @all_reduce_w1[s_2]
//!
//! region @local_2 local after @all_reduce
//!   role all
//!     stream main
//!       copy %out = %y_v
//! ```
//!
//! ```kir,after
//! kir 1
//! module @sum
//! machine ring(4) { link: 50 GB/s, 500 ns }
//! mesh tp 4
//! props expanded allocated
//!
//! schedule calls none
//! buffer %x : f32[10] hbm input 0 : f32[10] partial(sum@tp)
//! buffer %y_v : f32[10] hbm temp
//! buffer %out : f32[10] hbm output 0 : f32[10]
//! window @all_reduce_w0 : f32[6 x 3] hbm at 0
//! window @all_reduce_w1 : f32[6 x 3] hbm at 128
//!
//! region @local local
//!   role all
//!     stream main
//!       copy %y_v = %x
//!
//! region @all_reduce over tp as (r of 4) after @local
//!   label "ring"
//!   on v = %y_v line 10
//!   promise all_reduce sum
//!   role all
//!     stream main
//!       for s in 1..4
//!         put v[(r - s) % 4 of 4] -> ((r + 1) % 4) : @all_reduce_w0[call % 2 * 3 + s - 1]
//!         publish ((r + 1) % 4) : @all_reduce_w0[s - 1]
//!         accept ((r - 1) % 4) : @all_reduce_w0[s - 1]
//!         combine sum v[(r - s - 1) % 4 of 4], @all_reduce_w0[call % 2 * 3 + s - 1]
//!       for s_2 in 0..3
//!         put v[(r - s_2) % 4 of 4] -> ((r + 1) % 4) : @all_reduce_w1[call % 2 * 3 + s_2]
//!         publish ((r + 1) % 4) : @all_reduce_w1[s_2]
//!         accept ((r - 1) % 4) : @all_reduce_w1[s_2]
//!         copy v[(r - s_2 - 1) % 4 of 4] = @all_reduce_w1[call % 2 * 3 + s_2]
//!
//! region @local_2 local after @all_reduce
//!   role all
//!     stream main
//!       copy %out = %y_v
//! ```
//!
//! Not done here: sharing memory between windows of regions that are ordered but differ.

use crate::pass::{Changed, Pass, PassCx, PassInfo, schedule_of};
use crate::turns::{self, Turns, alternating};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::expr::{BinOp, Expr, join};
use kbc_ir::rewrite::replace_ops;
use kbc_ir::schedule::{Mark, Point, Ref, SOp, SStmt, Schedule, WindowId, each_op};
use kbc_ir::{Module, Props};

/// The record of `allocate`.
pub static INFO: PassInfo = PassInfo {
    name: "allocate",
    summary: "Windows get slots for alternate calls where that replaces credits, and offsets",
    requires: Props::EXPANDED,
    gives: Props::ALLOCATED,
    breaks: Props::NONE,
    options: &[],
};

/// Alignment of a window in bytes: one cache line.
const ALIGN: u64 = 64;

/// The pass `allocate`.
pub struct Allocate;

impl Pass for Allocate {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, _cx: &PassCx<'_>) -> Result<Changed, Diagnostics> {
        let schedule = schedule_of(module, &INFO)?;
        turns::share(schedule);
        let turns = Turns::of(schedule);
        let mut doubled = reserved(schedule);
        let (alternating, settled) = (alternating(schedule), marked(schedule, &[Point::Settle]));
        for (w, doubled) in doubled.iter_mut().enumerate() {
            let id = WindowId(w as u32);
            *doubled &= !alternating[w] && !settled[w] && total(schedule, &turns, id);
            if *doubled {
                alternate(schedule, &turns, id);
            }
        }
        if doubled.contains(&true) {
            unmark(schedule, &doubled);
        }
        schedule.windows.iter_mut().for_each(|w| w.offset = None);
        offsets(schedule)?;
        // A schedule that was written with its signals has some already.
        signal_offsets(schedule);
        Ok(Changed::Yes)
    }
}

/// Gives an offset to each window that has none, behind the windows before it.
///
/// # Errors
/// Returns E325 if a window is larger than memory can be.
pub(crate) fn offsets(s: &mut Schedule) -> Result<(), Diagnostic> {
    let mut at = 0;
    for w in &mut s.windows {
        let offset = *w.offset.get_or_insert(at);
        let bytes = w.slots.checked_mul(w.capacity).and_then(|n| n.checked_mul(w.dtype.bytes()));
        let end = bytes.and_then(|n| n.checked_add(offset)?.checked_next_multiple_of(ALIGN));
        let Some(end) = end.filter(|end| i64::try_from(*end).is_ok()) else {
            let title = format!("the slots of {} exceed 64-bit addresses", w.name);
            return Err(Diagnostic::error("E325", title)
                .primary(w.span, "declared here")
                .help("use fewer or smaller slots"));
        };
        at = at.max(end);
    }
    Ok(())
}

/// Bytes per counter: each has a cache line of its own.
const LINE: u64 = 64;

/// Gives an offset to each array of signals, one behind the other.
pub(crate) fn signal_offsets(s: &mut Schedule) {
    let mut at = 0u64;
    for signal in &mut s.signals {
        signal.offset = Some(at);
        at = at.saturating_add(signal.count.saturating_mul(LINE));
    }
}

/// Checks whether in every region that uses the window each rank's result depends on every rank's
/// input.
fn total(s: &Schedule, turns: &Turns, w: WindowId) -> bool {
    let users = turns.users(w);
    let total = |r: &usize| s.regions[*r].contract.as_ref().is_some_and(|p| p.is_total());
    !users.is_empty() && users.iter().all(total)
}

fn bodies(r: &kbc_ir::schedule::Region) -> impl Iterator<Item = &[SStmt]> {
    r.roles.iter().flat_map(|r| r.streams.iter().map(|s| &s.body[..]))
}

/// Returns for each window whether any operation asks if a slot may be written again (marks
/// `reserve` and `free`). If none does, other messages imply it.
pub(crate) fn reserved(s: &Schedule) -> Vec<bool> {
    marked(s, &[Point::Reserve, Point::Free])
}

/// Returns for each window whether messages in it have a mark of one of these points.
fn marked(s: &Schedule, points: &[Point]) -> Vec<bool> {
    let mut out = vec![false; s.windows.len()];
    for body in s.regions.iter().flat_map(bodies) {
        each_op(body, &mut |op, _| {
            if let SOp::Mark(Mark { point, window, .. }) = op {
                out[window.0 as usize] |= points.contains(point);
            }
        });
    }
    out
}

/// Doubles the slots of the window and lets every other turn use the second half.
fn alternate(s: &mut Schedule, turns: &Turns, w: WindowId) {
    let window = &mut s.windows[w.0 as usize];
    let slots = Expr::Int(window.slots as i64);
    window.slots *= 2;
    for i in turns.users(w) {
        let first = (turns.parity(*i, w) * slots.clone()).simplify();
        for role in &mut s.regions[*i].roles {
            for stream in &mut role.streams {
                renumber(&mut stream.body, w, &first);
            }
        }
    }
}

/// Removes the marks `reserve` and `free` of some windows.
fn unmark(s: &mut Schedule, some: &[bool]) {
    let asks = |op: &SOp| matches!(op, SOp::Mark(Mark { point: Point::Reserve | Point::Free, window, .. }) if some[window.0 as usize]);
    for stream in s.regions.iter_mut().flat_map(|r| &mut r.roles).flat_map(|r| &mut r.streams) {
        replace_ops(&mut stream.body, &mut |op, out| out.extend((!asks(&op)).then_some(op)));
    }
}

/// Adds `first`, which is in simplified form, to the numbers of the slots of a window. There may be
/// millions of slots, and the sums share its parts.
fn renumber(list: &mut [SStmt], w: WindowId, first: &Expr) {
    let shift = |r: &mut Ref| {
        if let Ref::Slot { window, slot } = r
            && *window == w
        {
            *slot = join(BinOp::Add, first.clone(), slot.simplify());
        }
    };
    for s in list {
        match s {
            SStmt::For { body, .. } => renumber(body, w, first),
            SStmt::If { then, other, .. } => {
                renumber(then, w, first);
                renumber(other, w, first);
            }
            SStmt::Op(op, _) => match op {
                SOp::Copy { dst, src } | SOp::Reduce { dst, src, .. } => {
                    shift(dst);
                    shift(src);
                }
                SOp::Put { src, dst, .. } | SOp::Get { dst, src, .. } | SOp::GetCombine { dst, src, .. } => {
                    shift(dst);
                    shift(src);
                }
                _ => {}
            },
        }
    }
}
