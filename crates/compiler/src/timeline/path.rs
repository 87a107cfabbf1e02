//! Parts of the critical path: groups its steps into messages (from sending to arrival), local
//! operations and fences, and folds the repeated iterations of loops.

use kbc_ir::types::MemKind;
use kbc_machine::topology::{Data, DeviceId, Topology};
use kbc_time::{Breakdown, Cause, Slot, Step, Timing};
use std::collections::BTreeMap;

/// A part of the path: steps that belong to one operation.
#[derive(Clone, PartialEq, Debug)]
pub struct PathPart {
    /// Its steps in [`Timing::path`].
    pub steps: std::ops::Range<usize>,
    /// The rank at which its message arrives; `None` for local work and fences.
    pub to: Option<u64>,
    /// What it had to wait for.
    pub after: After,
}

/// The predecessor of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// The start of the run.
    Start,
    /// An earlier operation of the same stream.
    Stream,
    /// An operation of another stream of the rank: an event, or data for it.
    OtherStream(u32),
    /// A message of this rank that arrived.
    Message(u64),
}

fn link_of(s: &Step) -> Option<kbc_machine::topology::LinkId> {
    match s.cause {
        Cause::Queue(l) | Cause::Latency(l) | Cause::Service(l) => Some(l),
        _ => None,
    }
}

/// Checks whether a node is a rank's device or one of its memories.
fn at_home(topology: &Topology, rank: u64, node: u64) -> bool {
    let device = DeviceId(rank as u32);
    rank == node || MemKind::ALL.iter().any(|k| u64::from(topology.data_port(device, *k).0) == node)
}

/// Splits a path into parts.
pub fn parts(path: &[Step], topology: &Topology) -> Vec<PathPart> {
    let mut out: Vec<PathPart> = vec![];
    for (i, s) in path.iter().enumerate() {
        let end = link_of(s).and_then(|l| topology.link(l)).map(|l| u64::from(l.to.0));
        if let (Some(part), Some(before)) = (out.last_mut(), i.checked_sub(1).and_then(|i| path.get(i))) {
            let same = (before.op, before.rank, before.stream) == (s.op, s.rank, s.stream);
            // Once the data of a get has arrived where it was requested, the next step belongs to
            // the next get.
            let bytes = matches!(
                s.cause,
                Cause::Service(_) | Cause::Memory(_) | Cause::Core | Cause::Drain | Cause::Slot(Slot::Write)
            );
            let back = part.to.is_some_and(|node| at_home(topology, s.rank, node)) && !bytes;
            let memory = matches!(before.cause, Cause::MemoryQueue(_) | Cause::Memory(_));
            let under_way = link_of(before).is_some()
                || memory
                || matches!(before.cause, Cause::Endpoint | Cause::CoreQueue);
            let goes_on = match s.cause {
                Cause::Queue(_) | Cause::Latency(_) => under_way && !back,
                Cause::MemoryQueue(_) | Cause::Service(_) | Cause::Memory(_) | Cause::Core => under_way,
                Cause::Preload => matches!(before.cause, Cause::UnitQueue(_) | Cause::Fetch),
                Cause::Work(_) => matches!(before.cause, Cause::UnitQueue(_) | Cause::Preload | Cause::Fetch),
                Cause::Fetch => matches!(before.cause, Cause::UnitQueue(_) | Cause::Work(_)),
                // The inlet of the receiver accepts a message of a queue.
                Cause::Inlet => under_way,
                Cause::Drain => under_way || before.cause == Cause::Inlet,
                Cause::Slot(Slot::Write) => under_way || matches!(before.cause, Cause::Inlet | Cause::Drain),
                Cause::Slot(Slot::Read)
                | Cause::UnitQueue(_)
                | Cause::Credit
                | Cause::Poll
                | Cause::CoreQueue
                | Cause::Notify
                | Cause::Fence
                | Cause::Late
                | Cause::Launch
                | Cause::Acknowledged
                | Cause::Endpoint => false,
            };
            if same && goes_on {
                part.steps.end = i + 1;
                // The bytes follow to where the head already is; this is true at a memory, too.
                if !bytes && !matches!(s.cause, Cause::MemoryQueue(_)) {
                    part.to = end;
                }
                continue;
            }
        }
        let after = match (out.last(), i.checked_sub(1).and_then(|i| path.get(i))) {
            (Some(part), Some(before)) => match part.to {
                _ if (before.rank, before.stream) == (s.rank, s.stream) => After::Stream,
                Some(_) => After::Message(before.rank),
                None if before.rank == s.rank => After::OtherStream(before.stream),
                // A notify between ranks that takes no time.
                None => After::Message(before.rank),
            },
            _ => After::Start,
        };
        out.push(PathPart { steps: i..i + 1, to: end, after });
    }
    arrive(&mut out, path, topology);
    out
}

/// Fills in the receivers of messages whose last link takes no time, leaves a node without a rank,
/// and is no step of the path. The receiver is the rank that continues the path. A slice of HBM
/// belongs to its rank.
fn arrive(parts: &mut [PathPart], path: &[Step], topology: &Topology) {
    let relay = |to: Option<u64>| to.filter(|to| *to >= topology.device_count() as u64);
    let mut owners = BTreeMap::new();
    if topology.settings().package.data() == Data::Named && parts.iter().any(|p| relay(p.to).is_some()) {
        let slice = |d| (u64::from(topology.data_port(d, MemKind::Hbm).0), u64::from(d.0));
        owners.extend(topology.devices().map(slice));
    }
    let mut next = None;
    for part in parts.iter_mut().rev() {
        if let Some(to) = relay(part.to) {
            part.to = owners.get(&to).copied().or(next);
        }
        next = path.get(part.steps.start).map(|s| s.rank);
    }
}

/// A sequence of parts that repeats, each time with other ranks and links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fold {
    /// Index of its first part.
    pub first: usize,
    /// Number of parts of one repetition.
    pub length: usize,
    /// Number of repetitions.
    pub turns: usize,
}

/// Largest number of parts of one repetition.
const LONGEST: usize = 64;

/// Folds repetitions in a list of keys of parts. Of the repetitions that begin at a part, it
/// chooses the one that covers most parts, and of several such the shortest.
pub fn fold<K: PartialEq>(keys: &[K]) -> Vec<Fold> {
    let mut out = vec![];
    let mut at = 0;
    while at < keys.len() {
        let mut best = Fold { first: at, length: 1, turns: 1 };
        for length in 1..=LONGEST.min((keys.len() - at) / 2) {
            let one = &keys[at..at + length];
            let turns = keys[at..].chunks_exact(length).take_while(|turn| *turn == one).count();
            if turns > 1 && turns * length > best.turns * best.length {
                best = Fold { first: at, length, turns };
            }
        }
        at += best.length * best.turns;
        out.push(best);
    }
    out
}

/// Returns the times of a path by category. The order is fixed; it does not depend on the times.
pub fn totals(timing: &Timing) -> Vec<(&'static str, f64)> {
    let Breakdown {
        late_ns,
        endpoint_ns,
        queue_ns,
        latency_ns,
        service_ns,
        memory_queue_ns,
        memory_ns,
        unit_queue_ns,
        work_ns,
        preload_ns,
        fetch_ns,
        fence_ns,
        launch_ns,
        acknowledged_ns,
        drain_ns,
        slot_ns,
        credit_ns,
        poll_ns,
        core_queue_ns,
        core_ns,
        notify_ns,
    } = timing.breakdown();
    let mut out = vec![
        ("latency", latency_ns),
        ("bytes", service_ns + memory_ns + core_ns),
        ("queueing", queue_ns + memory_queue_ns + unit_queue_ns + poll_ns + core_queue_ns),
        ("work", work_ns),
        ("fences", fence_ns),
        ("preload", preload_ns),
        ("endpoints", endpoint_ns),
        ("late starts", late_ns),
        ("launch", launch_ns),
        ("acknowledgements", acknowledged_ns),
        ("drain", drain_ns),
        ("slots", slot_ns),
        ("credits", credit_ns),
        ("notifies", notify_ns),
    ];
    // Only devices whose PEs share their work have fetches.
    out.extend((fetch_ns > 0.0).then_some(("fetches", fetch_ns)));
    out
}
