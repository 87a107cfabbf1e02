//! The critical path: the chain of steps that ends last, in which each step became possible with
//! the end of the one before it.
//!
//! Memory is bounded. The log keeps the newest records (`log::KEPT`), and copies of the state
//! (marks) are kept at distances that grow with the run. If the chain leaves the log, the
//! simulation is repeated from the last mark before that point. A run is deterministic, so it makes
//! the same records again.

use super::clock::Time;
use super::controllers::{Access, Controllers};
use super::engine::Engine;
use super::log::{
    ACK, CORE, CREDIT, DRAIN, FENCE, FETCH, HELD, LINKS, Last, Log, MORE, NOTIFY, POLL, PRELOAD, Record,
    SLOT_READ, SLOT_WRITE, TAIL, WORK, controlled,
};
use super::report::{Cause, Slot, Step};
use super::setup::Setup;
use super::state::State;
use super::work::Unit;
use kbc_ir::types::MemKind;
use kbc_ir::walk::Fault;
use kbc_machine::topology::{DeviceId, Forward, LinkId};

/// Limit on the marks of a run. When it is reached, every second mark is dropped.
const MARKS: usize = 32;

/// Runs the simulation to the end. Returns the marks in order, or none if the log has all records.
pub(super) fn run<'p>(engine: &mut Engine<'_, 'p, '_>) -> Result<Vec<State<'p>>, Fault> {
    run_marking(engine, engine.setup.kept, u64::MAX)
}

/// Runs to the end or until there are `until` records. Marks are at least `spacing` records apart.
fn run_marking<'p>(
    engine: &mut Engine<'_, 'p, '_>,
    mut spacing: u64,
    until: u64,
) -> Result<Vec<State<'p>>, Fault> {
    let mut marks: Vec<State<'p>> = vec![];
    let mut next = engine.state.records.saturating_add(spacing);
    while engine.state.records < until && !engine.state.tied() && engine.step()? {
        if engine.state.records < next {
            continue;
        }
        if marks.len() == MARKS {
            let mut odd = false;
            marks.retain(|_| {
                odd = !odd;
                !odd
            });
            spacing = spacing.saturating_mul(2);
        }
        marks.push(engine.state.clone());
        next = engine.state.records.saturating_add(spacing);
    }
    Ok(marks)
}

/// Returns the records that lead to the record `last`, first one first, each with the element by
/// which it is moved. None if a step is too far from the one before it.
pub(super) fn chain<'p>(
    setup: &Setup<'p>,
    mut marks: Vec<State<'p>>,
    mut log: Log,
    last: Last,
) -> Result<Option<Vec<(Record, u64)>>, Fault> {
    let mut found = vec![];
    let (mut at, mut turn) = (last.number(), last.turn());
    while at > 0 {
        let record = match log.get(at) {
            Some(r) => r,
            None => {
                // Frees the old log first, so that there are never two at a time.
                drop(log);
                log = again(setup, &mut marks, at)?;
                log.get(at).expect("the log of a run to this record ends with it")
            }
        };
        found.push((record, turn));
        turn = setup.turned(turn, record.turn);
        at = match record.back() {
            0 => 0,
            u32::MAX => return Ok(None),
            back => at - u64::from(back),
        };
    }
    let mut before = Time::ZERO;
    let mut out = Vec::with_capacity(found.len());
    for (record, turn) in found.into_iter().rev() {
        let record = record.after(before);
        before = record.end;
        out.push((record, turn));
    }
    Ok(Some(out))
}

/// Repeats the run up to a record, so that the log has this record and those before it.
fn again<'p>(setup: &Setup<'p>, marks: &mut Vec<State<'p>>, at: u64) -> Result<Log, Fault> {
    loop {
        while marks.last().is_some_and(|m| m.records >= at) {
            marks.pop();
        }
        let start = marks.last().cloned().unwrap_or_else(|| State::new(setup));
        let from = start.records;
        let mut engine = Engine::new(setup, start, None);
        if at - from <= setup.kept {
            while engine.state.records < at && engine.step()? {}
            return Ok(engine.log);
        }
        engine.log = Log::new(0, from, 0);
        let spacing = ((at - from) / MARKS as u64).max(setup.kept / 2).max(1);
        marks.extend(run_marking(&mut engine, spacing, at)?);
    }
}

/// A stage on the route of a message.
#[derive(Clone, Copy)]
enum Stage {
    Link(LinkId),
    /// A controller, and the nanoseconds by which it puts the tail behind the head if idle.
    Memory(DeviceId, f64),
    /// A core, and the nanoseconds by which it puts the tail behind the head.
    Core(f64),
}

/// A stage that a message has passed.
struct Hop {
    stage: Stage,
    /// Nanoseconds for which the head waited and the tail caught up.
    queued: f64,
}

/// Converts the chain into steps, up to `end`. A message has one step for each wait, one for each
/// latency, and one for its bytes.
pub(super) fn steps(setup: &Setup<'_>, chain: &[(Record, u64)], end: Time) -> Vec<Step> {
    let mut out: Vec<Step> = vec![];
    let mut at = Time::ZERO;
    let mut hops: Vec<Hop> = vec![];
    let forward = setup.topo.settings().forward();
    let burst = setup.topo.controller(MemKind::Hbm).map_or(Time::ZERO, |c| Controllers::burst(&c));
    for (i, (r, turn)) in chain.iter().enumerate() {
        let op = r.op & !MORE;
        let info = &setup.ops[op as usize];
        let mut push = |cause, start: Time, end: Time| {
            if end > start {
                out.push(Step {
                    op,
                    name: info.name,
                    region: info.region,
                    span: info.span,
                    rank: setup.turned(*turn, setup.rank(r.thread)),
                    stream: r.thread % setup.streams as u32,
                    start_ns: start.ns(),
                    end_ns: end.ns(),
                    cause,
                });
            }
        };
        if i == 0 {
            // Nothing comes before a rank's start.
            let start = setup.start(setup.turned(*turn, setup.rank(r.thread))).min(r.start);
            let launched = setup.launch.min(start);
            push(Cause::Launch, at, launched);
            push(Cause::Late, launched, start);
            at = start;
        }
        let at_home = hops.iter().all(|h| matches!(h.stage, Stage::Core(_)));
        if (r.what < LINKS || controlled(r.what).is_some()) && at_home {
            let ready = (at + setup.endpoint).min(r.start);
            push(Cause::Endpoint, at, ready);
            at = ready;
        }
        // The time at which the head of the message, or the thread, continues.
        let mut goes_on = r.end;
        match r.what {
            FENCE => push(Cause::Fence, r.start, r.end),
            ACK => push(Cause::Acknowledged, r.start, r.end),
            DRAIN | SLOT_WRITE => {
                push(Cause::Inlet, at, r.start);
                push(if r.what == DRAIN { Cause::Drain } else { Cause::Slot(Slot::Write) }, r.start, r.end);
            }
            SLOT_READ => push(Cause::Slot(Slot::Read), r.start, r.end),
            CREDIT => push(Cause::Credit, r.start, r.end),
            POLL => push(Cause::Poll, r.start, r.end),
            NOTIFY => push(Cause::Notify, r.start, r.end),
            HELD => push(Cause::Core, r.start, r.end),
            FETCH => {
                push(Cause::UnitQueue(Unit::Memory), at, r.start);
                push(Cause::Fetch, r.start, r.end);
            }
            PRELOAD => {
                push(Cause::UnitQueue(Unit::Memory), at, r.start);
                push(Cause::Preload, r.start, r.end);
            }
            CORE => {
                push(Cause::CoreQueue, at, r.start);
                hops.clear();
                hops.push(Hop { stage: Stage::Core(r.end.since(r.start).ns()), queued: 0.0 });
                goes_on = r.start;
                if forward == Forward::StoreAndForward {
                    push(Cause::Core, r.start, r.end);
                    goes_on = r.end;
                }
            }
            what if what > WORK - Unit::ALL.len() as u32 => {
                let unit = Unit::ALL[(WORK - what) as usize];
                push(Cause::UnitQueue(unit), at, r.start);
                push(Cause::Work(unit), r.start, r.end);
            }
            TAIL => {
                // The last burst is written when it has arrived, unless the channels were slower
                // all the time.
                let last = r.end.since(burst).max(r.start);
                let held = slowest(setup, &hops, last.since(r.start).ns());
                let node =
                    hops.last().and_then(|h| if let Stage::Memory(n, _) = h.stage { Some(n) } else { None });
                let written = node.map_or(held, Cause::Memory);
                let last = if held == written { r.end } else { last };
                push(held, r.start, last);
                push(written, last, r.end);
                hops.clear();
            }
            what if let Some((node, access)) = controlled(what) => {
                let queued = if forward == Forward::Drain { 0.0 } else { r.start.since(at).ns() };
                let one = r.end.min(r.start + burst);
                hops.push(Hop { stage: Stage::Memory(node, r.end.since(one).ns()), queued });
                push(Cause::MemoryQueue(node), at, r.start);
                goes_on = match (forward, access) {
                    (Forward::StoreAndForward, _) => r.end,
                    (_, Access::Read) => one,
                    (_, Access::Write) => r.start,
                };
                push(Cause::Memory(node), r.start, goes_on);
            }
            link => {
                let link = setup.link(*turn, LinkId(link));
                let queued = if forward == Forward::Drain { 0.0 } else { r.start.since(at).ns() };
                hops.push(Hop { stage: Stage::Link(link), queued });
                push(Cause::Queue(link), at, r.start);
                if forward == Forward::StoreAndForward {
                    let latency = Time::from_ns(setup.topo.rate(link).latency_ns);
                    let head = (r.start + latency).min(r.end);
                    push(Cause::Latency(link), r.start, head);
                    push(Cause::Service(link), head, r.end);
                    if r.op & MORE == 0 {
                        hops.clear();
                    }
                } else if r.op & MORE != 0 {
                    push(Cause::Latency(link), r.start, r.end);
                } else {
                    let head = (r.start + Time::from_ns(setup.topo.rate(link).latency_ns)).min(r.end);
                    push(Cause::Latency(link), r.start, head);
                    push(slowest(setup, &hops, r.end.since(head).ns()), head, r.end);
                    hops.clear();
                }
            }
        }
        at = goes_on;
    }
    if let (Some(last), true) = (out.last().copied(), end > at) {
        out.push(Step { start_ns: at.ns(), end_ns: end.ns(), cause: Cause::Endpoint, ..last });
    }
    out
}

/// Returns what delays the tail of a message, which is `lag` ns behind its head at the end.
///
/// With m bytes, waits q and bandwidths b, the lag is the largest `m / b_j - (q_(j+1) + .. + q_h)`.
/// So m is the least of `(lag + q_(j+1) + .. + q_h) * b_j`, and the link at which it is least is
/// the cause. An exception is a controller or core whose own delay, in place of `m / b_j`, gives
/// the lag.
fn slowest(setup: &Setup<'_>, hops: &[Hop], lag: f64) -> Cause {
    let mut after = 0.0;
    let mut best = (f64::INFINITY, LinkId(0));
    for hop in hops.iter().rev() {
        match hop.stage {
            Stage::Memory(node, alone) if alone - after >= lag * (1.0 - 1e-9) => return Cause::Memory(node),
            Stage::Core(alone) if alone - after >= lag * (1.0 - 1e-9) => return Cause::Core,
            Stage::Memory(..) | Stage::Core(_) => {}
            Stage::Link(link) => {
                let bytes = (lag + after) * setup.topo.rate(link).bandwidth;
                if bytes <= best.0 {
                    best = (bytes, link);
                }
            }
        }
        after += hop.queued;
    }
    Cause::Service(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TimeOptions;
    use kbc_diag::FileId;
    use kbc_ir::text;
    use kbc_ir::walk::Program;
    use kbc_machine::topology::Topology;

    /// Traffic between neighbours with contention, fences and work, so that the chain has steps of
    /// all kinds.
    const SOURCE: &str = "kir 1
module @m
mesh tp 6
schedule calls any
buffer %y : f32[600] hbm temp
window @w : f32[6 x 600] hbm at 0
signal @s[6] arrival at 0
region @c over tp as (r of 6)
  on v = %y line 600
  role all
    stream main
      for s in 0..7
        for k in 1..4
          put v[(r + s) % 6 of 6] -> ((r + k) % 6) : @w[k]
          fence.release
          notify ((r + k) % 6) : @s[k]
        for k in 1..4
          wait @s[k] >= call * 7 + s + 1
          fence.acquire
          combine sum v, @w[k]
";

    #[test]
    fn a_small_log_gives_the_same_path() {
        same_path("mesh(6) { link: 3 GB/s, 70 ns; fence: 11 ns; vector: 7 GB/s }", &[1, 2, 3, 10, 64, 1000]);
        same_path(
            "package(ring(1), mesh(1, 2), 3) { data: named; hbm_channels: 3, 2 GB/s, 64 B; hbm_switch: 5 ns; hbm_link: 4 GB/s; \
             hbm_wire: 900; cube_link: 3 GB/s, 2; port_node: 8 ns; vector: 7 GB/s; fence: 11 ns; dma: 2 }",
            &[500, 2000],
        );
    }

    fn same_path(machine: &str, kept: &[u64]) {
        let module = text::parse(FileId(0), SOURCE).unwrap();
        let topo = Topology::parse(machine, FileId(0)).unwrap();
        let program = Program::compile(module.schedule().unwrap()).unwrap();
        let steps_with = |kept| {
            let options = TimeOptions { calls: 3, ..TimeOptions::default() };
            let mut setup = Setup::new(&program, &topo, &options).unwrap();
            setup.kept = kept;
            let mut engine = Engine::new(&setup, State::new(&setup), None);
            let marks = run(&mut engine).unwrap();
            assert!(marks.len() <= MARKS);
            let (end, last) = engine.state.end();
            let records = engine.state.records;
            let found = chain(&setup, marks, engine.log, last).unwrap().unwrap();
            (steps(&setup, &found, end), records)
        };
        let (all, records) = steps_with(1 << 20);
        assert!(all.len() > 100 && records > 2000, "{} {records}", all.len());
        for &kept in kept {
            assert_eq!(steps_with(kept).0, all, "{kept}");
        }
    }
}
