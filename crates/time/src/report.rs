//! What a simulation of time reports.

use super::clock::Time;
use super::log::Record;
use super::path;
use super::setup::Setup;
use super::state::State;
use super::work::Unit;
use kbc_diag::Span;
use kbc_ir::schedule::RegionId;
use kbc_machine::topology::{DeviceId, LinkId};

/// Times of a run, all in ns from the common start of all ranks.
#[derive(Clone, PartialEq, Debug)]
pub struct Timing {
    /// When the last rank finished.
    pub ns: f64,
    /// When each call ended: its last stream. The last one is `ns` but for data that nobody waits for.
    pub call_ns: Vec<f64>,
    /// Regions that somebody entered, call by call.
    pub regions: Vec<RegionSpan>,
    /// The chain of steps that ends at `ns`: it begins at 0, and each step begins where the one before it ends. Empty
    /// if it was not asked for, and where the last rank to finish did nothing but start late.
    pub path: Vec<Step>,
    /// Links that something passed, by number.
    pub links: Vec<LinkUse>,
    /// Memories whose controller something passed, by node.
    pub memories: Vec<MemoryUse>,
    /// Ranks in order.
    pub ranks: Vec<RankUse>,
    /// Messages delivered: the events of throughput figures.
    pub messages: u64,
    /// How it was found.
    pub walked: Walked,
    /// What the schedule needs and the machine gives for nothing, because no rate was given: `arithmetic`, `memory`,
    /// `vector`, `fence`.
    pub unlimited: Vec<&'static str>,
}

/// Which ranks were simulated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Walked {
    /// All of them, and why.
    Every(String),
    /// The first one of each orbit under a symmetry that schedule and machine were shown to have.
    Orbits(u64),
}

/// When a region ran.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RegionSpan {
    /// The call.
    pub call: u32,
    /// The region.
    pub region: RegionId,
    /// When the first rank entered.
    pub start_ns: f64,
    /// When the last rank left.
    pub end_ns: f64,
}

/// What passed a directed link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkUse {
    /// The link.
    pub link: LinkId,
    /// Messages.
    pub messages: u64,
    /// Bytes.
    pub bytes: u64,
    /// How long it was occupied: bytes over bandwidth.
    pub busy_ns: f64,
    /// How long heads of messages waited for it while others were on it, all together.
    pub queue_ns: f64,
}

/// What passed the controller of a memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemoryUse {
    /// The memory's node.
    pub node: DeviceId,
    /// Messages that were read there.
    pub reads: u64,
    /// Messages that were written there.
    pub writes: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// How long its busiest channel was busy: bytes over bandwidth, and changes between reading and writing.
    pub busy_ns: f64,
    /// How much longer messages took than alone, all together.
    pub queue_ns: f64,
}

/// A rank's account.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RankUse {
    /// When its last stream ended, or the last data came that was put or fetched into its memory.
    pub finish_ns: f64,
    /// Bytes that it sent over links, passing messages of others on not counted.
    pub sent_bytes: u64,
    /// Bytes that came to it over links.
    pub received_bytes: u64,
    /// How long it was at its local operations, waiting for units not counted.
    pub work_ns: f64,
}

/// What a step of the critical path is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// The rank starts later than the others.
    Late,
    /// From the common start to the first operation.
    Launch,
    /// What a rank needs before it sends a message, and at its end.
    Endpoint,
    /// A message waits until earlier ones are on a link.
    Queue(LinkId),
    /// The head of a message is on a link.
    Latency(LinkId),
    /// The bytes of a message come in, as fast as this link lets them.
    Service(LinkId),
    /// A message waits until the controller of this memory has served earlier ones, as far as it takes longer than alone.
    MemoryQueue(DeviceId),
    /// The bytes of a message come in, as fast as the channels of this memory let them.
    Memory(DeviceId),
    /// An operation waits for a unit of its device that other streams use.
    UnitQueue(Unit),
    /// A local operation; the unit that takes longest.
    Work(Unit),
    /// Operands of a tile kernel are preloaded: brought in before its loops.
    Preload,
    /// PEs of a device send each other what they do not hold of an operation's operands, or of its result.
    Fetch,
    /// A fence.
    Fence,
    /// The acknowledgement of a transfer is on its way back, for whose channel another one waits.
    Acknowledged,
    /// A message of a queue is there, and its receiver takes others in first.
    Inlet,
    /// The bytes of a message drain into the receiver of a queue.
    Drain,
    /// A message of a queue is written to a slot, or read there.
    Slot(Slot),
    /// A credit is on its way back to the sender of a queue, which has no free slot.
    Credit,
    /// A sender that polls has not seen yet that there is a free slot.
    Poll,
    /// A transfer waits until the queue of its stream is through with earlier ones.
    CoreQueue,
    /// A core moves data, or the bytes of a message come in as fast as what moves them lets them.
    Core,
    /// A notify through memory.
    Notify,
}

/// An access to a slot of a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Slot {
    /// What has arrived is written to it.
    Write,
    /// What it holds is read.
    Read,
}

/// A step of the critical path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// Number of the operation in the schedule, as the walk numbers them.
    pub op: u32,
    /// What it is called in `.kir`.
    pub name: &'static str,
    /// Its region.
    pub region: RegionId,
    /// Where it is written.
    pub span: Span,
    /// The rank that issued it.
    pub rank: u64,
    /// Number of the stream that issued it.
    pub stream: u32,
    /// Begin.
    pub start_ns: f64,
    /// End.
    pub end_ns: f64,
    /// What took the time.
    pub cause: Cause,
}

/// The critical path summed up by causes, in ns.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Breakdown {
    /// Late starts.
    pub late_ns: f64,
    /// The launch.
    pub launch_ns: f64,
    /// Endpoints of messages.
    pub endpoint_ns: f64,
    /// Waiting for links, and for inlets of queues.
    pub queue_ns: f64,
    /// Latencies.
    pub latency_ns: f64,
    /// Bytes.
    pub service_ns: f64,
    /// Waiting for controllers of memories.
    pub memory_queue_ns: f64,
    /// Bytes, as fast as channels of memories let them.
    pub memory_ns: f64,
    /// Waiting for units of the own device.
    pub unit_queue_ns: f64,
    /// Local operations.
    pub work_ns: f64,
    /// Preloading of operands.
    pub preload_ns: f64,
    /// Elements on their way between PEs of a device.
    pub fetch_ns: f64,
    /// Fences.
    pub fence_ns: f64,
    /// Acknowledgements.
    pub acknowledged_ns: f64,
    /// Draining of messages into receivers of queues.
    pub drain_ns: f64,
    /// Accesses to slots of queues.
    pub slot_ns: f64,
    /// Credits on their way.
    pub credit_ns: f64,
    /// Senders that have not seen a credit yet.
    pub poll_ns: f64,
    /// Waiting for queues that are at other transfers.
    pub core_queue_ns: f64,
    /// Bytes, as fast as cores let them.
    pub core_ns: f64,
    /// Notifies through memory.
    pub notify_ns: f64,
}

impl Timing {
    /// The critical path summed up.
    pub fn breakdown(&self) -> Breakdown {
        let mut out = Breakdown::default();
        for s in &self.path {
            *match s.cause {
                Cause::Late => &mut out.late_ns,
                Cause::Launch => &mut out.launch_ns,
                Cause::Endpoint => &mut out.endpoint_ns,
                Cause::Queue(_) | Cause::Inlet => &mut out.queue_ns,
                Cause::Latency(_) => &mut out.latency_ns,
                Cause::Service(_) => &mut out.service_ns,
                Cause::MemoryQueue(_) => &mut out.memory_queue_ns,
                Cause::Memory(_) => &mut out.memory_ns,
                Cause::UnitQueue(_) => &mut out.unit_queue_ns,
                Cause::Work(_) => &mut out.work_ns,
                Cause::Preload => &mut out.preload_ns,
                Cause::Fetch => &mut out.fetch_ns,
                Cause::Fence => &mut out.fence_ns,
                Cause::Acknowledged => &mut out.acknowledged_ns,
                Cause::Drain => &mut out.drain_ns,
                Cause::Slot(_) => &mut out.slot_ns,
                Cause::Credit => &mut out.credit_ns,
                Cause::Poll => &mut out.poll_ns,
                Cause::CoreQueue => &mut out.core_queue_ns,
                Cause::Core => &mut out.core_ns,
                Cause::Notify => &mut out.notify_ns,
            } += s.end_ns - s.start_ns;
        }
        out
    }

    /// Accesses to slots of queues on the critical path.
    pub fn slot_accesses(&self) -> u64 {
        self.path.iter().filter(|s| matches!(s.cause, Cause::Slot(_))).count() as u64
    }

    /// The part of the whole time that a link was occupied, 0 to 1.
    pub fn utilisation(&self, link: &LinkUse) -> f64 {
        if self.ns > 0.0 { link.busy_ns / self.ns } else { 0.0 }
    }

    /// The link that was occupied longest; of several, the first.
    pub fn busiest(&self) -> Option<&LinkUse> {
        self.links.iter().rev().max_by(|a, b| a.busy_ns.total_cmp(&b.busy_ns))
    }
}

pub(super) fn timing(
    setup: &Setup<'_>,
    state: &State<'_>,
    end: Time,
    chain: &[(Record, u64)],
    walked: Walked,
) -> Timing {
    let regions = setup.program.schedule.regions.len();
    let mut unlimited = vec![];
    for ((unit, needed), free) in Unit::ALL.into_iter().zip(state.needed).zip(state.rates.unlimited) {
        if needed && free {
            unlimited.push(unit.name());
        }
    }
    if state.fenced && setup.fence == Time::ZERO {
        unlimited.push("fence");
    }
    Timing {
        ns: end.ns(),
        call_ns: state.calls.iter().map(|t| t.ns()).collect(),
        regions: state
            .spans
            .iter()
            .enumerate()
            .filter_map(|(i, span)| {
                let (start, end) = (*span)?;
                Some(RegionSpan {
                    call: (i / regions) as u32,
                    region: RegionId((i % regions) as u32),
                    start_ns: start.ns(),
                    end_ns: end.ns(),
                })
            })
            .collect(),
        path: path::steps(setup, chain, end),
        links: links(setup, state),
        memories: memories(state, end),
        ranks: (0..setup.program.ranks())
            .map(|rank| {
                let place = setup.split(rank).0 as usize;
                let a = &state.accounts[place];
                RankUse {
                    finish_ns: (a.finish + setup.last_endpoint(state)).ns(),
                    sent_bytes: a.sent,
                    received_bytes: a.received,
                    work_ns: state.worked.get(place).map_or(0.0, |t| t.ns()),
                }
            })
            .collect(),
        messages: state.delivered * setup.orbits.as_ref().map_or(1, |o| o.size()),
        walked,
        unlimited,
    }
}

/// What passed every controller.
fn memories(state: &State<'_>, end: Time) -> Vec<MemoryUse> {
    let loads = state.controllers.iter().flat_map(|c| c.loads());
    let each = loads.map(|(node, l)| {
        debug_assert!(l.busy <= end, "no channel worked longer than there was time");
        let (busy_ns, queue_ns) = (l.busy.ns(), l.waited.ns());
        MemoryUse { node, reads: l.reads, writes: l.writes, bytes: l.bytes, busy_ns, queue_ns }
    });
    each.collect()
}

/// What passed every link: that of an orbit, what passed the one that was simulated.
fn links(setup: &Setup<'_>, state: &State<'_>) -> Vec<LinkUse> {
    let mut out = vec![];
    for l in state.links.loads() {
        let each = LinkUse {
            link: l.id,
            messages: l.messages,
            bytes: l.bytes,
            busy_ns: l.busy.ns(),
            queue_ns: l.waited.ns(),
        };
        match &setup.orbits {
            None => out.push(each),
            Some(orbits) => {
                let first = |rank: &u64| orbits.split(*rank).0 == 0;
                let turns = (0..setup.program.ranks()).filter(first).map(|rank| orbits.split(rank).1);
                out.extend(turns.map(|t| LinkUse { link: setup.link(t, l.id), ..each }));
            }
        }
    }
    out.sort_by_key(|l| l.link);
    out
}
