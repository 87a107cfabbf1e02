//! Queues: sends messages through queues instead of windows, signals and fences.
//!
//! The pass is for machines whose devices have queues to each other (docs/reference/machine.md,
//! `queue`). It starts from the marks that `expand` left and needs neither `allocate` nor
//! `synchronize`. A message is sent piece by piece (`put` becomes `send`) and received where it
//! lands. A message that is added is received into a register, which is a scratch operand as long
//! as the operand it is added to, and added from there. A message that lands at several places is
//! received at one of them and copied to the others. A queue has credits of its own, so the marks
//! that ask for credits are removed.
//!
//! A rank has one queue for each direction that messages come from, named like a window of the
//! receiver. A message sent up an axis (`(r + 1) % 4`) arrives at `@r_minus`, a message sent down
//! at `@r_plus`, and a message from any other rank (parents, children, partners) at `@peer`. In a
//! ring of two, both neighbours are the same rank, and only the direction distinguishes their
//! messages. Each stream has a queue of its own in each direction.
//!
//! A queue is first in, first out, so between two ranks messages must be received in the order in
//! which they were sent. The pass compares the two orders for one call of up to 4 million
//! operations; for longer calls, only the checker decides. If the orders differ in a queue, each
//! window whose messages use the queue gets a queue of its own. If that does not help, the schedule
//! is rejected (E375).
//!
//! The number and size of slots are those of the machine, or 4 slots as large as the largest
//! message. If a message is larger than a slot of the machine, the slot becomes larger, with a
//! warning (E377). The checker decides whether the number of slots is enough.
//!
//! ```kir,before
//! kir 1
//! module @sum
//! machine "ring(4) { link: 50 GB/s, 500 ns; queue: tcm, 1; slots: 4, 64 B }"
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
//!         put v[(r - s) % 4 of 4] -> ((r + 1) % 4) : @all_reduce_w0[s - 1]
//!         publish ((r + 1) % 4) : @all_reduce_w0[s - 1]
//!         accept ((r - 1) % 4) : @all_reduce_w0[s - 1]
//!         combine sum v[(r - s - 1) % 4 of 4], @all_reduce_w0[s - 1]
//!       for s_2 in 0..3
//!         put v[(r - s_2) % 4 of 4] -> ((r + 1) % 4) : @all_reduce_w1[s_2]
//!         publish ((r + 1) % 4) : @all_reduce_w1[s_2]
//!         accept ((r - 1) % 4) : @all_reduce_w1[s_2]
//!         copy v[(r - s_2 - 1) % 4 of 4] = @all_reduce_w1[s_2]
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
//! machine "ring(4) { link: 50 GB/s, 500 ns; queue: tcm, 1; slots: 4, 64 B }"
//! mesh tp 4
//! props expanded allocated synchronized
//!
//! schedule calls any
//! buffer %x : f32[10] hbm input 0 : f32[10] partial(sum@tp)
//! buffer %y_v : f32[10] hbm temp
//! buffer %out : f32[10] hbm output 0 : f32[10]
//! buffer %y_v_in : f32[10] hbm temp
//! queue @r_minus[1] : f32[4 x 16] tcm
//!
//! region @local local
//!   role all
//!     stream main
//!       copy %y_v = %x
//!
//! region @all_reduce over tp as (r of 4) after @local
//!   label "ring"
//!   on v = %y_v line 10
//!   scratch v_in = %y_v_in line 10
//!   promise all_reduce sum
//!   role all
//!     stream main
//!       for s in 1..4
//!         send v[(r - s) % 4 of 4] -> ((r + 1) % 4) : @r_minus[0]
//!         recv v_in[(r - s - 1) % 4 of 4] <- ((r - 1) % 4) : @r_minus[0]
//!         combine sum v[(r - s - 1) % 4 of 4], v_in[(r - s - 1) % 4 of 4]
//!       for s_2 in 0..3
//!         send v[(r - s_2) % 4 of 4] -> ((r + 1) % 4) : @r_minus[0]
//!         recv v[(r - s_2 - 1) % 4 of 4] <- ((r - 1) % 4) : @r_minus[0]
//!
//! region @local_2 local after @all_reduce
//!   role all
//!     stream main
//!       copy %out = %y_v
//! ```
//!
//! Not done here: windows for targets without queues (`lower-queues`), deadlocks of queues with too
//! few slots (the checker), and the time that slots take (the event engine).

pub(crate) mod direction;
mod order;
mod receive;

use crate::pass::{Changed, Options, Pass, PassCx, PassInfo, schedule_of};
use crate::pass::{OptionKind, PassOption};
use direction::Direction;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::expr::Expr;
use kbc_ir::rewrite::replace_ops;
use kbc_ir::schedule::*;
use kbc_ir::{Module, Name, Props};
use kbc_machine::topology::queue::Queues;
use std::collections::BTreeMap;

/// The record of `enqueue`.
pub static INFO: PassInfo = PassInfo {
    name: "enqueue",
    summary: "Messages go through queues, for machines that have them, instead of windows and signals",
    requires: Props::EXPANDED,
    gives: Props::ALLOCATED.with(Props::SYNCHRONIZED),
    breaks: Props::NONE,
    options: &[PassOption {
        name: "depth",
        summary: "number of slots of every queue",
        kind: OptionKind::Count { least: 1, most: 1 << 32 },
        default: "that of the machine, or 4",
    }],
};

/// Slots per queue if the machine does not state a number.
const DEPTH: u64 = 4;

/// The pass `enqueue`.
pub struct Enqueue {
    options: Options,
}

impl Enqueue {
    /// Returns the pass with options of [`INFO`].
    pub fn new(options: &Options) -> Enqueue {
        Enqueue { options: options.clone() }
    }
}

/// The queue that carries the messages of a window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct WindowQueue {
    queue: QueueId,
    index: u64,
}

/// The key of a queue array.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    direction: Direction,
    dtype: &'static str,
}

/// The messages of one window: where they arrive, and the stream that moves them.
struct WindowMessages {
    window: WindowId,
    direction: Direction,
    stream: Name,
}

impl Pass for Enqueue {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn options(&self) -> Options {
        self.options.clone()
    }

    fn run(&self, module: &mut Module, cx: &PassCx<'_>) -> Result<Changed, Diagnostics> {
        let s = schedule_of(module, &INFO)?;
        let depth = self.options.count("depth");
        let machine = cx.topology.and_then(|t| t.settings().queues());
        if let Some(span) = fetched(s) {
            let what = "a machine with queues cannot fetch a message: `transfer: pull` is not possible";
            return Err(Diagnostic::error("E596", what)
                .primary(span, "fetched here")
                .note("`transfer: pull` reads the sender's window, and this machine has queues instead of windows")
                .help("remove `transfer: pull`; it does not change the result of the algorithm")
                .into());
        }
        if let Some(span) = routed(s) {
            let why = "it names the relays that it passes, and messages of a queue have one route";
            return Err(refused(span, why, "remove `via`, or use a machine without queues").into());
        }
        let sites = sites(s)?;
        let mut split = vec![false; sites.len()];
        let (plan, queues) = loop {
            let (plan, queues) = plan(s, &sites, &split, machine, depth);
            let shadow = receive::shadow(s, &plan)?;
            let wrong = order::misordered_queues(&shadow, &plan);
            if wrong.is_empty() {
                break (plan, queues);
            }
            // Each window whose messages share the queue gets a queue of its own. A window whose
            // messages are out of order by themselves has one already.
            let mut changed = false;
            for (site, split) in sites.iter().zip(&mut split) {
                let lane = plan[site.window.0 as usize];
                changed |= lane.is_some_and(|l| wrong.contains(&l)) && !std::mem::replace(split, true);
            }
            if !changed {
                let out = |s: &&WindowMessages| plan[s.window.0 as usize].is_some_and(|l| wrong.contains(&l));
                let span = sites.iter().find(out).map_or(Span::NONE, |x| s.window(x.window).span);
                let why = "its pieces are received in another order than they are sent";
                return Err(refused(span, why, "use another algorithm or windows").into());
            }
        };
        s.queues.extend(queues);
        receive::rewrite(s, &plan)?;
        if let Some(m) = machine {
            grown(s, &plan, m, &mut cx.findings.borrow_mut().messages);
        }
        drop_windows(s, &plan);
        crate::lower_queues::offsets(s)?;
        s.calls = Calls::Any;
        Ok(Changed::Yes)
    }
}

/// Returns the error E375.
fn refused(span: Span, why: &str, help: &str) -> Diagnostic {
    Diagnostic::error("E375", format!("a queue cannot carry this message: {why}"))
        .primary(span, "this message")
        .help(help.to_owned())
}

/// Returns the location of a `get`, if there is one.
fn fetched(s: &Schedule) -> Option<Span> {
    first(s, &|op| matches!(op, SOp::Get { .. } | SOp::GetCombine { .. }))
}

/// Returns the location of a message that names relays, if there is one.
fn routed(s: &Schedule) -> Option<Span> {
    first(s, &SOp::is_routed)
}

/// Returns the location of the first operation that meets a condition.
fn first(s: &Schedule, meets: &impl Fn(&SOp) -> bool) -> Option<Span> {
    fn find(list: &[SStmt], meets: &impl Fn(&SOp) -> bool) -> Option<Span> {
        list.iter().find_map(|s| match s {
            SStmt::For { body, .. } => find(body, meets),
            SStmt::If { then, other, .. } => find(then, meets).or_else(|| find(other, meets)),
            SStmt::Op(op, span) => meets(op).then_some(*span),
        })
    }
    let streams = s.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams);
    streams.into_iter().find_map(|s| find(&s.body, meets))
}

/// Returns the windows with marked messages, in order of first use.
fn sites(s: &Schedule) -> Result<Vec<WindowMessages>, Diagnostic> {
    let mut out: Vec<WindowMessages> = vec![];
    for region in &s.regions {
        let mut found: BTreeMap<WindowId, (Option<Direction>, Vec<&Name>, Span)> = BTreeMap::new();
        let mut order = vec![];
        for stream in region.roles.iter().flat_map(|r| &r.streams) {
            each(&stream.body, &mut |op, span| {
                let SOp::Mark(Mark { point, peer, window, .. }) = op else { return };
                let site = found.entry(*window).or_insert_with(|| {
                    order.push(*window);
                    (None, vec![], span)
                });
                if !site.1.contains(&&stream.name) {
                    site.1.push(&stream.name);
                }
                if *point == Point::Publish {
                    let here = Direction::of(peer, &region.coords);
                    // One peer expression gives one direction. If several roles contain the
                    // message, their peers must agree; otherwise the direction is `Peer`.
                    site.0 =
                        Some(if site.0.as_ref().is_none_or(|w| *w == here) { here } else { Direction::Peer });
                }
            });
        }
        for window in order {
            let Some((direction, streams, span)) = found.remove(&window) else { continue };
            if out.iter().any(|x| x.window == window) {
                let why = "two regions use its window";
                return Err(refused(span, why, "give each collective its own windows"));
            }
            let [stream] = streams[..] else {
                let why = "it is sent by one stream and received by another";
                return Err(refused(span, why, "use one stream for both ends"));
            };
            out.push(WindowMessages {
                window,
                direction: direction.unwrap_or(Direction::Peer),
                stream: stream.clone(),
            });
        }
    }
    Ok(out)
}

/// Calls `f` with every operation and its source location.
pub(crate) fn each<'s>(list: &'s [SStmt], f: &mut dyn FnMut(&'s SOp, Span)) {
    for st in list {
        match st {
            SStmt::For { body, .. } => each(body, f),
            SStmt::If { then, other, .. } => {
                each(then, f);
                each(other, f);
            }
            SStmt::Op(op, span) => f(op, *span),
        }
    }
}

/// Returns for every window the queue of its messages, and all new queues.
fn plan(
    s: &Schedule,
    sites: &[WindowMessages],
    split: &[bool],
    machine: Option<Queues>,
    depth: Option<u64>,
) -> (Vec<Option<WindowQueue>>, Vec<Queue>) {
    let mut keys: Vec<Key> = vec![];
    // For each queue array, the user of each of its queues: a stream and, if windows have separate
    // queues, a window.
    let mut users: Vec<Vec<(Name, Option<WindowId>)>> = vec![];
    let mut queues: Vec<Queue> = vec![];
    let mut out = vec![None; s.windows.len()];
    for (site, split) in sites.iter().zip(split) {
        let w = s.window(site.window);
        let key = Key { direction: site.direction.clone(), dtype: w.dtype.name() };
        let at = keys.iter().position(|k| *k == key).unwrap_or_else(|| {
            let name = fresh(&site.direction.name(), s, &queues);
            keys.push(key);
            users.push(vec![]);
            queues.push(Queue {
                name,
                count: 0,
                dtype: w.dtype,
                depth: depth.or(machine.map(|m| m.slots)).unwrap_or(DEPTH),
                capacity: machine.map_or(0, |m| m.slot_bytes / w.dtype.bytes()),
                memory: machine.map_or(w.memory, |m| m.memory),
                span: w.span,
            });
            queues.len() - 1
        });
        let user = (site.stream.clone(), split.then_some(site.window));
        let index = users[at].iter().position(|u| *u == user).unwrap_or_else(|| {
            users[at].push(user);
            users[at].len() - 1
        });
        let q = &mut queues[at];
        q.count = users[at].len() as u64;
        q.capacity = q.capacity.max(w.capacity);
        let queue = QueueId((s.queues.len() + at) as u32);
        out[site.window.0 as usize] = Some(WindowQueue { queue, index: index as u64 });
    }
    (out, queues)
}

/// Returns a name that no queue has.
fn fresh(hint: &str, s: &Schedule, more: &[Queue]) -> Name {
    let taken = |n: &str| s.queues.iter().chain(more).any(|q| q.name.as_str() == n);
    let mut name = hint.to_owned();
    let mut k = 2;
    while taken(&name) {
        name = format!("{hint}_{k}");
        k += 1;
    }
    name.into()
}

/// Adds one warning E377 for all queues whose slots had to grow. It names the largest message.
fn grown(s: &Schedule, plan: &[Option<WindowQueue>], machine: Queues, found: &mut Diagnostics) {
    let bytes = |q: &Queue| q.capacity * q.dtype.bytes();
    let used = |i: usize| plan.iter().flatten().any(|l| l.queue.0 as usize == i);
    let small: Vec<&Queue> = (0..s.queues.len())
        .filter(|i| used(*i))
        .map(|i| &s.queues[i])
        .filter(|q| bytes(q) > machine.slot_bytes)
        .collect();
    let Some(largest) = small.iter().copied().reduce(|a, b| if bytes(b) > bytes(a) { b } else { a }) else {
        return;
    };
    let most = bytes(largest);
    let names: Vec<String> = small.iter().map(|q| format!("@{}", q.name)).collect();
    let title = format!(
        "a message of {most} bytes does not fit in a slot of the machine ({} bytes)",
        machine.slot_bytes
    );
    let label = format!("the largest message of queue {}", names.join(", "));
    found.push(Diagnostic::warning("E377", title).primary(largest.span, label).help(format!(
        "write `slots: {}, {most} B` in the machine, or split the message with `pipeline: k`",
        largest.depth
    )));
}

/// Removes the windows whose messages go through queues.
fn drop_windows(s: &mut Schedule, plan: &[Option<WindowQueue>]) {
    let mut to = vec![];
    let mut kept = 0;
    for lane in plan {
        to.push(WindowId(kept));
        kept += u32::from(lane.is_none());
    }
    if kept == 0 {
        s.windows.clear();
        return;
    }
    let mut at = 0;
    s.windows.retain(|_| {
        at += 1;
        plan[at - 1].is_none()
    });
    let window = |r: &Ref| match r {
        Ref::Slot { window, slot } => Ref::Slot { window: to[window.0 as usize], slot: slot.clone() },
        r => r.clone(),
    };
    for stream in s.regions.iter_mut().flat_map(|r| &mut r.roles).flat_map(|r| &mut r.streams) {
        replace_ops(&mut stream.body, &mut |op, out| out.push(receive::with_refs(&op, &window)));
    }
}

/// Returns the index of a queue as an expression.
fn index(lane: WindowQueue) -> Expr {
    Expr::Int(lane.index as i64)
}
