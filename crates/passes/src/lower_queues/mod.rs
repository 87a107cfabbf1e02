//! Lowering of queues: replaces queues by windows with explicit credits, for targets that have no
//! queues.
//!
//! Message t between two ranks, counted across calls, goes into slot t mod depth. Its sender waits
//! until it has credits for all earlier messages except the last depth - 1, puts the message, and
//! notifies. Its receiver waits for t + 1 arrivals, copies the slot to the destination of the
//! message, and notifies that the slot is free. `room` becomes the wait for the credit alone. Every
//! queue between two ranks has one counter in each direction. The windows of different regions are
//! disjoint.
//!
//! If every rank of a region always sends to one neighbour and receives from one neighbour, the
//! number of a message is an expression in steps and call, and the program text keeps its form. In
//! other regions a role is written out for each rank, and loops around messages are unrolled (up to
//! 40,000 operations). Messages cannot be counted if a queue is not empty at the end of a region,
//! or if they are under a condition on the call; such a schedule is rejected (E376).
//!
//! The checker handles both forms. It must accept the result as it accepted the queues.
//!
//! ```kir,before
//! kir 1
//! module @sum
//! machine "ring(4) { link: 50 GB/s, 500 ns; queue: tcm, 1; slots: 2, 64 B }"
//! mesh tp 4
//! props expanded allocated synchronized
//!
//! schedule calls any
//! buffer %x : f32[8] hbm input 0 : f32[8] partial(sum@tp)
//! buffer %y : f32[8] hbm output 0 : f32[8]
//! queue @r_minus[1] : f32[2 x 16] tcm
//!
//! region @load local
//!   role all
//!     stream main
//!       copy %y = %x
//!
//! region @spread over tp as (r of 4) after @load
//!   on v = %y line 8
//!   role all
//!     stream main
//!       for s in 0..3
//!         send v[(r - s) % 4 of 4] -> ((r + 1) % 4) : @r_minus[0]
//!         recv v[(r - s - 1) % 4 of 4] <- ((r - 1) % 4) : @r_minus[0]
//! ```
//!
//! ```kir,after
//! kir 1
//! module @sum
//! machine "ring(4) { link: 50 GB/s, 500 ns; queue: tcm, 1; slots: 2, 64 B }"
//! mesh tp 4
//! props expanded allocated synchronized
//!
//! schedule calls any
//! buffer %x : f32[8] hbm input 0 : f32[8] partial(sum@tp)
//! buffer %y : f32[8] hbm output 0 : f32[8]
//! window @spread_r_minus : f32[2 x 16] hbm at 0
//! signal @spread_r_minus_arrived[1] arrival at 0
//! signal @spread_r_minus_free[1] credit at 64
//!
//! region @load local
//!   role all
//!     stream main
//!       copy %y = %x
//!
//! region @spread over tp as (r of 4) after @load
//!   on v = %y line 8
//!   role all
//!     stream main
//!       for s in 0..3
//!         wait @spread_r_minus_free[0] >= call * 3 + s - 1
//!         put v[(r - s) % 4 of 4] -> ((r + 1) % 4) : @spread_r_minus[(call * 3 + s) % 2]
//!         fence.release
//!         notify ((r + 1) % 4) : @spread_r_minus_arrived[0]
//!         wait @spread_r_minus_arrived[0] >= call * 3 + s + 1
//!         fence.acquire
//!         copy v[(r - s - 1) % 4 of 4] = @spread_r_minus[(call * 3 + s) % 2]
//!         fence.release
//!         notify ((r - 1) % 4) : @spread_r_minus_free[0]
//! ```
//!
//! Not done here: removing slots that are not needed (`allocate` does so for windows, if it runs
//! instead of `enqueue`), and reducing the number of credits.

mod counted;
mod written;

use crate::pass::{Changed, Pass, PassCx, PassInfo, schedule_of};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::expr::{Env, Expr};
use kbc_ir::schedule::*;
use kbc_ir::types::MemKind;
use kbc_ir::{Module, Name, Props};

/// The record of `lower-queues`.
pub static INFO: PassInfo = PassInfo {
    name: "lower-queues",
    summary: "Queues become windows with explicit credits, for targets without queues",
    requires: Props::EXPANDED.with(Props::ALLOCATED).with(Props::SYNCHRONIZED),
    gives: Props::ALLOCATED,
    breaks: Props::NONE,
    options: &[],
};

/// Alignment of a window and size of a counter, in bytes.
const LINE: u64 = 64;

/// The pass `lower-queues`.
pub struct LowerQueues;

impl Pass for LowerQueues {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, _cx: &PassCx<'_>) -> Result<Changed, Diagnostics> {
        let s = schedule_of(module, &INFO)?;
        if s.queues.is_empty() {
            return Ok(Changed::No);
        }
        let mut left = written::MAX_OPERATIONS;
        for r in 0..s.regions.len() {
            counted::region(s, r);
            written::region(s, r, &mut left)?;
        }
        s.queues.clear();
        offsets(s)?;
        Ok(Changed::Yes)
    }
}

/// Returns the error E376.
fn refused(span: Span, why: &str) -> Diagnostic {
    Diagnostic::error("E376", format!("the messages of this queue cannot be numbered: {why}"))
        .primary(span, "here")
        .help("run this schedule on a machine with queues, in the simulator")
}

/// The slots and counters of a lowered queue.
#[derive(Clone, Copy)]
struct LoweredQueue {
    window: WindowId,
    arrived: SignalId,
    free: SignalId,
    depth: i64,
}

/// Declares the slots and counters of a queue in a region. `rings` is the number of rings (one per
/// sender) at a receiver, and `credits` the number of credit counters at a sender.
fn place(s: &mut Schedule, queue: QueueId, region: usize, rings: u64, credits: u64) -> LoweredQueue {
    let q = s.queue(queue).clone();
    let hint = format!("{}_{}", s.regions[region].name, q.name);
    let taken = |n: &str| {
        s.windows.iter().any(|w| w.name.as_str() == n)
            || s.signals.iter().any(|g| g.name.as_str().starts_with(&format!("{n}_")))
    };
    let mut name = hint.clone();
    let mut k = 2;
    while taken(&name) {
        name = format!("{hint}_{k}");
        k += 1;
    }
    s.windows.push(Window {
        name: Name::from(name.clone()),
        dtype: q.dtype,
        slots: rings.saturating_mul(q.depth),
        capacity: q.capacity,
        // Peers write here, so it is the memory of the target's windows and not that of the queue's
        // slots.
        memory: MemKind::Hbm,
        zero: false,
        offset: None,
        span: q.span,
    });
    let mut signal = |suffix: &str, count, usage| {
        s.signals.push(Signal {
            form: Form::Epoch,
            name: format!("{name}_{suffix}").into(),
            count,
            usage,
            offset: None,
            span: q.span,
        });
        SignalId(s.signals.len() as u32 - 1)
    };
    let arrived = signal("arrived", rings, SignalUse::Arrival);
    let free = signal("free", credits, SignalUse::Credit);
    let window = WindowId(s.windows.len() as u32 - 1);
    LoweredQueue { window, arrived, free, depth: q.depth as i64 }
}

/// A message: its number across calls, its ring at the receiver, and its credit counter at the
/// sender.
struct Message {
    number: Expr,
    ring: i64,
    credit: i64,
}

/// Lowers an operation on a queue to operations on windows and counters.
fn lowered(op: &SOp, place: LoweredQueue, m: &Message) -> Vec<SOp> {
    let turn = match place.depth {
        1 => Expr::Int(0),
        d => m.number.clone().modulo(d),
    };
    let slot = (Expr::Int(m.ring.saturating_mul(place.depth)) + turn).simplify();
    let slot = Ref::Slot { window: place.window, slot };
    let (arrived, free) = (place.arrived, place.free);
    let wait_free = SOp::Wait {
        counter: Counter { signal: free, index: Expr::Int(m.credit) },
        value: (m.number.clone() + Expr::Int(1 - place.depth)).simplify(),
    };
    match op {
        SOp::Send { src, peer, .. } => vec![
            wait_free,
            SOp::Put { src: src.clone(), peer: peer.clone(), dst: slot },
            SOp::FenceRelease,
            SOp::Notify {
                peer: peer.clone(),
                counter: Counter { signal: arrived, index: Expr::Int(m.ring) },
            },
        ],
        SOp::Recv { dst, peer, .. } => vec![
            SOp::Wait {
                counter: Counter { signal: arrived, index: Expr::Int(m.ring) },
                value: (m.number.clone() + Expr::Int(1)).simplify(),
            },
            SOp::FenceAcquire,
            SOp::Copy { dst: dst.clone(), src: slot },
            SOp::FenceRelease,
            SOp::Notify { peer: peer.clone(), counter: Counter { signal: free, index: Expr::Int(m.credit) } },
        ],
        SOp::Room { .. } => vec![wait_free],
        op => vec![op.clone()],
    }
}

/// Returns the number across calls of message k, when each call has `each` messages.
fn over_calls(each: i64, k: Expr) -> Expr {
    (Expr::var(CALL) * Expr::Int(each) + k).simplify()
}

/// Returns the peer, queue and index of an operation on a queue.
fn about(op: &SOp) -> Option<(&Peer, QueueId, &Expr)> {
    match op {
        SOp::Send { peer, queue: Channel { queue, index }, .. }
        | SOp::Recv { peer, queue: Channel { queue, index }, .. }
        | SOp::Room { peer, queue: Channel { queue, index } } => Some((peer, *queue, index)),
        _ => None,
    }
}

/// Checks whether statements contain an operation on a queue.
fn queued(list: &[SStmt]) -> bool {
    list.iter().any(|st| match st {
        SStmt::For { body, .. } => queued(body),
        SStmt::If { then, other, .. } => queued(then) || queued(other),
        SStmt::Op(op, _) => about(op).is_some(),
    })
}

/// Values of variables, and the tables of a schedule.
struct Values<'a> {
    env: &'a [(Name, i64)],
    tables: &'a [Table],
}

impl Env for Values<'_> {
    fn var(&self, name: &Name) -> Option<i64> {
        self.env.iter().rev().find(|(m, _)| m == name).map(|e| e.1)
    }
    fn table(&self, name: &Name, index: i64) -> Option<i64> {
        let t = self.tables.iter().find(|t| t.name == *name)?;
        t.values.get(usize::try_from(index).ok()?).copied()
    }
}

/// Returns the linear number of a peer in its group, or `None` if it has no value or is out of
/// range.
fn linear(peer: &Peer, coords: &[(Name, u64)], values: &Values<'_>) -> Option<u64> {
    let mut out = 0;
    for (e, (_, size)) in peer.iter().zip(coords) {
        let c = u64::try_from(e.eval(values).ok()?).ok()?;
        out = out * size + Some(c).filter(|c| c < size)?;
    }
    Some(out)
}

/// Returns the coordinates of a rank of a group.
fn coordinates(mut rank: u64, coords: &[(Name, u64)]) -> Vec<(Name, i64)> {
    let mut out: Vec<(Name, i64)> = coords
        .iter()
        .rev()
        .map(|(n, size)| {
            let c = rank % size;
            rank /= size;
            (n.clone(), c as i64)
        })
        .collect();
    out.reverse();
    out
}

/// Gives offsets to windows and counters that have none, behind those before them.
///
/// # Errors
/// Returns E325 if a window is larger than memory can be.
pub(crate) fn offsets(s: &mut Schedule) -> Result<(), Diagnostic> {
    crate::allocate::offsets(s)?;
    let mut at = 0;
    for g in &mut s.signals {
        let offset = *g.offset.get_or_insert(at);
        at = at.max(offset + g.count * LINE);
    }
    Ok(())
}
