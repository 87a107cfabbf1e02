//! Synchronization: replaces marks by signals, waits and fences, and adds no more of them than
//! needed.
//!
//! * `publish` becomes a release fence and a notify of the arrival counter; `accept` becomes a wait
//!   and an acquire fence. A message has one arrival, however many pieces it has. If every rank
//!   sends to one fixed neighbour, one counter per window counts the messages across calls.
//!   Otherwise each message has a counter of its own, which counts calls. Where regions share a
//!   window, turns are counted instead of calls.
//! * `reserve` becomes a wait for the credit of the previous call, and `free` a release fence and a
//!   notify that returns the credit. `expand` and `allocate` leave these marks only where a credit
//!   is needed. The sender has one counter for each receiver, so that every counter has one writer.
//!   `settle` becomes a wait for the credit of this call, later in the same call.
//!   If slots rotate (`slots: k`), the credits of the one neighbour are counted: message t waits
//!   for the credit of message t - k.
//!
//! The pass never places a barrier: it orders only data dependences and the reuse of slots. Every
//! edge leads forward in (call, round), so no cycle can cause a deadlock. The resulting schedule
//! claims to be safe for any number of calls. The checker, which knows nothing of this pass, must
//! prove that claim.
//!
//! ```kir,before
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
//!         reserve ((r + 1) % 4) : @all_reduce_w0[s - 1]
//!         put v[(r - s) % 4 of 4] -> ((r + 1) % 4) : @all_reduce_w0[call % 2 * 3 + s - 1]
//!         publish ((r + 1) % 4) : @all_reduce_w0[s - 1]
//!         accept ((r - 1) % 4) : @all_reduce_w0[s - 1]
//!         combine sum v[(r - s - 1) % 4 of 4], @all_reduce_w0[call % 2 * 3 + s - 1]
//!         free ((r - 1) % 4) : @all_reduce_w0[s - 1]
//!       for s_2 in 0..3
//!         reserve ((r + 1) % 4) : @all_reduce_w1[s_2]
//!         put v[(r - s_2) % 4 of 4] -> ((r + 1) % 4) : @all_reduce_w1[call % 2 * 3 + s_2]
//!         publish ((r + 1) % 4) : @all_reduce_w1[s_2]
//!         accept ((r - 1) % 4) : @all_reduce_w1[s_2]
//!         copy v[(r - s_2 - 1) % 4 of 4] = @all_reduce_w1[call % 2 * 3 + s_2]
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
//! props expanded allocated synchronized
//!
//! schedule calls any
//! buffer %x : f32[10] hbm input 0 : f32[10] partial(sum@tp)
//! buffer %y_v : f32[10] hbm temp
//! buffer %out : f32[10] hbm output 0 : f32[10]
//! window @all_reduce_w0 : f32[6 x 3] hbm at 0
//! window @all_reduce_w1 : f32[6 x 3] hbm at 128
//! signal @all_reduce_w0_arrived[1] arrival at 0
//! signal @all_reduce_w0_free[1] credit at 64
//! signal @all_reduce_w1_arrived[1] arrival at 128
//! signal @all_reduce_w1_free[1] credit at 192
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
//!         wait @all_reduce_w0_free[0] >= call * 3 + s - 6
//!         put v[(r - s) % 4 of 4] -> ((r + 1) % 4) : @all_reduce_w0[call % 2 * 3 + s - 1]
//!         fence.release
//!         notify ((r + 1) % 4) : @all_reduce_w0_arrived[0]
//!         wait @all_reduce_w0_arrived[0] >= call * 3 + s
//!         fence.acquire
//!         combine sum v[(r - s - 1) % 4 of 4], @all_reduce_w0[call % 2 * 3 + s - 1]
//!         fence.release
//!         notify ((r - 1) % 4) : @all_reduce_w0_free[0]
//!       for s_2 in 0..3
//!         wait @all_reduce_w1_free[0] >= call * 3 + s_2 - 5
//!         put v[(r - s_2) % 4 of 4] -> ((r + 1) % 4) : @all_reduce_w1[call % 2 * 3 + s_2]
//!         fence.release
//!         notify ((r + 1) % 4) : @all_reduce_w1_arrived[0]
//!         wait @all_reduce_w1_arrived[0] >= call * 3 + s_2 + 1
//!         fence.acquire
//!         copy v[(r - s_2 - 1) % 4 of 4] = @all_reduce_w1[call % 2 * 3 + s_2]
//!         fence.release
//!         notify ((r - 1) % 4) : @all_reduce_w1_free[0]
//!
//! region @local_2 local after @all_reduce
//!   role all
//!     stream main
//!       copy %out = %y_v
//! ```
//!
//! Not done here: finding the credits that other messages imply, which happens earlier ([ADR
//! 15](../adr/015-order-graph.md)), and barriers.

use crate::allocate::{reserved, signal_offsets};
use crate::pass::{Changed, Pass, PassCx, PassInfo, schedule_of};
use crate::turns::{Turns, alternating};
use kbc_diag::Diagnostics;
use kbc_ir::expr::Expr;
use kbc_ir::rewrite::replace_ops;
use kbc_ir::schedule::*;
use kbc_ir::{Module, Name, Props};
use std::collections::BTreeMap;

/// The record of `synchronize`.
pub static INFO: PassInfo = PassInfo {
    name: "synchronize",
    summary: "Inserts the notifies, waits, credits and fences that make every call of the schedule safe",
    requires: Props::EXPANDED.with(Props::ALLOCATED),
    gives: Props::SYNCHRONIZED,
    breaks: Props::NONE,
    options: &[],
};

/// The pass `synchronize`.
pub struct Synchronize;

/// The turn of a region that uses a window, and the next turn. The waits of a schedule share them.
struct WindowTurn {
    turn: Expr,
    next: Expr,
}

impl WindowTurn {
    fn new(turn: Expr) -> WindowTurn {
        let next = (turn.clone() + Expr::Int(1)).simplify();
        WindowTurn { turn: turn.simplify(), next }
    }
}

/// The signals of the messages of a window.
struct Plan {
    arrival: SignalId,
    /// Number of messages per call, if one counter counts them all.
    counted: Option<i64>,
    credit: Option<SignalId>,
    /// Number of message numbers per receiver in one call.
    messages: i64,
    /// Number of slots that the messages use in rotation, from call to call.
    rotation: Option<i64>,
}

impl Pass for Synchronize {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, _cx: &PassCx<'_>) -> Result<Changed, Diagnostics> {
        let s = schedule_of(module, &INFO)?;
        let turns = Turns::of(s);
        let (alternating, reserved) = (alternating(s), reserved(s));
        let mut plans: Vec<Option<Plan>> = (0..s.windows.len()).map(|_| None).collect();
        let mut regions = std::mem::take(&mut s.regions);
        for (i, r) in regions.iter_mut().enumerate() {
            let ranks = s.group_size(r) as i64;
            let mut here = BTreeMap::new();
            for (w, sites) in marked(r) {
                here.insert(w, WindowTurn::new(turns.turn(i, w)));
                if plans[w.0 as usize].is_none() {
                    let marks = (alternating[w.0 as usize], reserved[w.0 as usize]);
                    let (plan, signals) = plan(s, r, (w, &sites), ranks, marks);
                    plans[w.0 as usize] = Some(plan);
                    s.signals.extend(signals);
                }
            }
            let (coords, turns) = (r.coords.clone(), here);
            for role in &mut r.roles {
                for stream in &mut role.streams {
                    rewrite(&mut stream.body, &plans, &coords, &turns);
                }
            }
        }
        s.regions = regions;
        signal_offsets(s);
        // A schedule that came with its signals, and without marks, keeps what it claims.
        if s.calls == Calls::None {
            s.calls = Calls::Any;
        }
        Ok(Changed::Yes)
    }
}

/// A mark, with the loops around it and whether it is conditional.
struct MarkSite<'r> {
    mark: &'r Mark,
    loops: Vec<LoopVar<'r>>,
    cond: bool,
}

/// Returns the marks of a region by window. Windows are in the order of their first marks.
fn marked(r: &Region) -> Vec<(WindowId, Vec<MarkSite<'_>>)> {
    let mut out: Vec<(WindowId, Vec<MarkSite<'_>>)> = vec![];
    let mut places: BTreeMap<WindowId, usize> = BTreeMap::new();
    visit(r, &mut |op, loops, cond| {
        if let SOp::Mark(mark) = op {
            let place = *places.entry(mark.window).or_insert(out.len());
            if place == out.len() {
                out.push((mark.window, vec![]));
            }
            out[place].1.push(MarkSite { mark, loops: loops.to_vec(), cond });
        }
    });
    out
}

/// Variables with their values.
type Vars = Vec<(Name, i64)>;

/// A loop around an operation: its variable and its bounds.
type LoopVar<'r> = (&'r Name, &'r Expr, &'r Expr);

/// Calls `f` with every operation, the loops around it, and whether the operation is conditional.
fn visit<'r>(r: &'r Region, f: &mut dyn FnMut(&'r SOp, &[LoopVar<'r>], bool)) {
    fn walk<'r>(
        list: &'r [SStmt],
        loops: &mut Vec<LoopVar<'r>>,
        cond: bool,
        f: &mut dyn FnMut(&'r SOp, &[LoopVar<'r>], bool),
    ) {
        for s in list {
            match s {
                SStmt::For { var, lo, hi, body } => {
                    loops.push((var, lo, hi));
                    walk(body, loops, cond, f);
                    loops.pop();
                }
                SStmt::If { then, other, .. } => {
                    walk(then, loops, true, f);
                    walk(other, loops, true, f);
                }
                SStmt::Op(op, _) => f(op, loops, cond),
            }
        }
    }
    for role in &r.roles {
        for stream in &role.streams {
            walk(&stream.body, &mut vec![], role.ranks != RankSet::All, f);
        }
    }
}

/// Returns the signals for the messages of a window in a region, and the new signal arrays.
///
/// `moving` says whether its slots already alternate, `requested` whether it has marks `reserve`
/// and `free`.
fn plan(
    s: &Schedule,
    r: &Region,
    (w, sites): (WindowId, &[MarkSite<'_>]),
    ranks: i64,
    (moving, requested): (bool, bool),
) -> (Plan, Vec<Signal>) {
    let window = s.window(w).clone();
    let slots = (if moving { window.slots / 2 } else { window.slots }) as i64;
    let messages = messages(s, r, sites).unwrap_or(slots);
    let counted = counted(sites, messages);
    // Slots that rotate from call to call belong to one neighbour, whose messages one counter
    // counts.
    let rotation = counted.filter(|_| moving && requested).map(|_| window.slots as i64);
    let mut new = vec![];
    let mut signal = |suffix: &str, count: i64, usage| {
        new.push(Signal {
            form: Form::Epoch,
            name: format!("{}_{suffix}", window.name).into(),
            count: count as u64,
            usage,
            offset: None,
            span: window.span,
        });
        SignalId((s.signals.len() + new.len()) as u32 - 1)
    };
    let arrival = signal("arrived", if counted.is_some() { 1 } else { messages }, SignalUse::Arrival);
    let credits = if rotation.is_some() { 1 } else { messages * ranks };
    let credit = requested.then(|| signal("free", credits, SignalUse::Credit));
    (Plan { arrival, counted, credit, messages, rotation }, new)
}

/// Limit of evaluations for counting the messages of a window.
const MAX_COUNTED: u64 = 1 << 18;

/// Returns how many numbers the messages of a window have: one more than the largest number on any
/// rank in any step. Returns `None` if that takes too long to find; the caller then uses the number
/// of slots, which is at least as large.
fn messages(s: &Schedule, r: &Region, sites: &[MarkSite<'_>]) -> Option<i64> {
    let mut most = 0;
    let mut left = MAX_COUNTED;
    let ranks: u64 = r.coords.iter().map(|c| c.1).product();
    for MarkSite { mark: Mark { slot, .. }, loops, .. } in sites {
        let anywhere = r.coords.iter().all(|(n, _)| !slot.mentions(n));
        for rank in 0..if anywhere { 1 } else { ranks } {
            let mut env = vec![];
            let mut rest = rank;
            for (n, size) in r.coords.iter().rev() {
                env.push((n.clone(), (rest % size) as i64));
                rest /= size;
            }
            enumerate(loops, &mut env, &mut |env| {
                left = left.saturating_sub(1);
                match slot.eval(&Tables { env, tables: &s.tables }) {
                    Ok(v) => most = most.max(v + 1),
                    // This rank or step does not reach the operation.
                    Err(_) if left > 0 => {}
                    Err(_) => return false,
                }
                left > 0
            })?;
        }
    }
    (most > 0).then_some(most)
}

/// Values of variables, and the tables of a schedule.
struct Tables<'a> {
    env: &'a [(Name, i64)],
    tables: &'a [Table],
}

impl kbc_ir::expr::Env for Tables<'_> {
    fn var(&self, name: &Name) -> Option<i64> {
        self.env.iter().rev().find(|(m, _)| m == name).map(|e| e.1)
    }
    fn table(&self, name: &Name, index: i64) -> Option<i64> {
        let t = self.tables.iter().find(|t| t.name == *name)?;
        t.values.get(usize::try_from(index).ok()?).copied()
    }
}

/// Checks whether one counter can count all messages of a window: every rank publishes
/// unconditionally to one peer, in the order of the message numbers. If so, returns the number of
/// messages per call.
fn counted(sites: &[MarkSite<'_>], messages: i64) -> Option<i64> {
    let sites: Vec<&MarkSite<'_>> = sites.iter().filter(|s| s.mark.point == Point::Publish).collect();
    let to = &sites.first()?.mark.peer;
    let mut next = 0;
    for (i, MarkSite { mark: Mark { peer, slot, .. }, loops, cond }) in sites.iter().enumerate() {
        let inside = |(v, _, _): &LoopVar<'_>| peer.iter().any(|e| e.mentions(v));
        // Two publishing operations in one loop alternate, so their numbers are not consecutive.
        let shared = sites[..i]
            .iter()
            .any(|s| matches!((s.loops.first(), loops.first()), (Some(a), Some(b)) if a.0 == b.0));
        if *cond || peer != to || shared || loops.iter().any(inside) {
            return None;
        }
        enumerate(loops, &mut vec![], &mut |env| {
            let look = |n: &Name| env.iter().rev().find(|(m, _)| m == n).map(|e| e.1);
            let in_order = slot.eval(&look) == Ok(next) && next < messages;
            next += 1;
            in_order
        })?;
    }
    (next > 0).then_some(next)
}

fn enumerate(loops: &[LoopVar<'_>], env: &mut Vars, f: &mut dyn FnMut(&Vars) -> bool) -> Option<()> {
    let Some(((var, lo, hi), rest)) = loops.split_first() else { return f(env).then_some(()) };
    let (lo, hi) = {
        let look = |n: &Name| env.iter().rev().find(|(m, _)| m == n).map(|e| e.1);
        (lo.eval(&look).ok()?, hi.eval(&look).ok()?)
    };
    for v in lo..hi {
        env.push(((*var).clone(), v));
        let go = enumerate(rest, env, f);
        env.pop();
        go?;
    }
    Some(())
}

fn rewrite(
    list: &mut Vec<SStmt>,
    plans: &[Option<Plan>],
    coords: &[(Name, u64)],
    turns: &BTreeMap<WindowId, WindowTurn>,
) {
    replace_ops(list, &mut |op, out| match op {
        SOp::Mark(Mark { point, peer, window, slot }) => {
            if let (Some(plan), Some(turn)) = (&plans[window.0 as usize], turns.get(&window)) {
                out.extend(plan.ops(point, &peer, &slot, (coords, turn)));
            }
        }
        op => out.push(op),
    });
}

impl Plan {
    /// Returns the operations that replace a mark, in a region with these coordinates and in this
    /// turn.
    fn ops(
        &self,
        point: Point,
        peer: &Peer,
        slot: &Expr,
        (coords, WindowTurn { turn, next }): (&[(Name, u64)], &WindowTurn),
    ) -> Vec<SOp> {
        let (index, value) = match self.counted {
            Some(messages) => {
                let value = turn.clone() * Expr::Int(messages) + slot.clone() + Expr::Int(1);
                (Expr::Int(0), value.simplify())
            }
            None => (slot.clone(), next.clone()),
        };
        // The sender's counter for the credit of one receiver. No other rank adds to it.
        let credit = |receiver: &[Expr]| {
            let linear = coords
                .iter()
                .zip(receiver)
                .fold(Expr::Int(0), |n, ((_, size), e)| n * Expr::Int(*size as i64) + e.clone());
            (linear * Expr::Int(self.messages) + slot.clone()).simplify()
        };
        if let (Some(slots), Some(signal)) = (self.rotation, self.credit) {
            let index = Expr::Int(0);
            match point {
                Point::Reserve => {
                    let value = (value - Expr::Int(slots)).simplify();
                    return vec![SOp::Wait { counter: Counter { signal, index }, value }];
                }
                Point::Free => {
                    return vec![
                        SOp::FenceRelease,
                        SOp::Notify { peer: peer.clone(), counter: Counter { signal, index } },
                    ];
                }
                _ => {}
            }
        }
        match (point, self.credit) {
            (Point::Publish, _) => {
                vec![
                    SOp::FenceRelease,
                    SOp::Notify { peer: peer.clone(), counter: Counter { signal: self.arrival, index } },
                ]
            }
            (Point::Expect, _) => {
                vec![SOp::Wait { counter: Counter { signal: self.arrival, index }, value }, SOp::FenceAcquire]
            }
            (Point::Reserve, Some(signal)) => {
                vec![SOp::Wait { counter: Counter { signal, index: credit(peer) }, value: turn.clone() }]
            }
            (Point::Settle, Some(signal)) => {
                vec![SOp::Wait { counter: Counter { signal, index: credit(peer) }, value: next.clone() }]
            }
            (Point::Free, Some(signal)) => {
                let me: Vec<Expr> = coords.iter().map(|(n, _)| Expr::Var(n.clone())).collect();
                vec![
                    SOp::FenceRelease,
                    SOp::Notify { peer: peer.clone(), counter: Counter { signal, index: credit(&me) } },
                ]
            }
            (Point::Reserve | Point::Free | Point::Settle, None) => vec![],
        }
    }
}
