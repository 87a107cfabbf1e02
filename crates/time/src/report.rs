//! Result of a simulation: times of calls, regions and ranks, the critical path, and the use of
//! links and memories.

use super::clock::Time;
use super::setup::Setup;
use super::state::State;
use super::work::Unit;
use kbc_diag::Span;
use kbc_ir::schedule::RegionId;
use kbc_machine::topology::{DeviceId, LinkId};

/// Times of a run. All are in ns from the common start of all ranks.
#[derive(Clone, PartialEq, Debug)]
pub struct Timing {
    /// Time at which the last rank finished.
    pub ns: f64,
    /// Time at which the last stream of each call ended. The last entry equals `ns` unless
    /// endpoints, or data that no stream waits for, come later.
    pub call_ns: Vec<f64>,
    /// Regions that were entered, call by call.
    pub regions: Vec<RegionSpan>,
    /// The critical path: a chain of steps from 0 to `ns`, in which each step begins where the one
    /// before it ends. Empty if it was not requested, and if the last rank to finish only started
    /// late.
    pub path: Vec<Step>,
    /// Links that were used, by number.
    pub links: Vec<LinkUse>,
    /// Memories whose controllers were used, by node.
    pub memories: Vec<MemoryUse>,
    /// All ranks in order.
    pub ranks: Vec<RankUse>,
    /// Number of messages delivered. Throughput figures use it as the number of events.
    pub messages: u64,
    /// Which ranks were simulated.
    pub walked: Walked,
    /// Resources that the schedule needs and the machine gives no rate for, so they are assumed
    /// infinitely fast: `arithmetic`, `memory`, `vector`, `fence`.
    pub unlimited: Vec<&'static str>,
}

/// Which ranks were simulated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Walked {
    /// All ranks, and the reason.
    Every(String),
    /// One rank of each orbit under a symmetry that is proved for schedule and machine. The value
    /// is the number of these ranks.
    Orbits(u64),
}

/// The time span of a region.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RegionSpan {
    /// The call.
    pub call: u32,
    /// The region.
    pub region: RegionId,
    /// Time at which the first rank entered.
    pub start_ns: f64,
    /// Time at which the last rank left.
    pub end_ns: f64,
}

/// The traffic of a directed link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkUse {
    /// The link.
    pub link: LinkId,
    /// Number of messages.
    pub messages: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Time for which the link was occupied: bytes over bandwidth.
    pub busy_ns: f64,
    /// Sum of the times for which heads of messages waited for the link while others occupied it.
    pub queue_ns: f64,
}

/// The traffic of the controller of a memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemoryUse {
    /// The memory's node.
    pub node: DeviceId,
    /// Number of messages that were read.
    pub reads: u64,
    /// Number of messages that were written.
    pub writes: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// Time for which its busiest channel was busy: bursts, and changes between reading and
    /// writing.
    pub busy_ns: f64,
    /// Sum of the delays of messages, compared with an idle controller.
    pub queue_ns: f64,
}

/// The totals of a rank.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RankUse {
    /// Time at which its last stream ended, or the last data arrived that was put or fetched into
    /// its memory.
    pub finish_ns: f64,
    /// Bytes of its own messages that it sent over links. Forwarded messages do not count.
    pub sent_bytes: u64,
    /// Bytes that it received over links.
    pub received_bytes: u64,
    /// Time of its local operations, without waiting for units.
    pub work_ns: f64,
}

/// The cause of a step of the critical path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// The rank starts later than the others.
    Late,
    /// The time from the common start to the first operation.
    Launch,
    /// The endpoint time of a rank before a message, and at its end.
    Endpoint,
    /// A message waits while earlier ones occupy a link.
    Queue(LinkId),
    /// The head of a message is on a link.
    Latency(LinkId),
    /// The bytes of a message arrive, as fast as this link permits.
    Service(LinkId),
    /// A message waits for the controller of this memory. Only the delay compared with an idle
    /// controller counts.
    MemoryQueue(DeviceId),
    /// The bytes of a message arrive, as fast as the channels of this memory permit.
    Memory(DeviceId),
    /// An operation waits for a unit of its device that other streams use.
    UnitQueue(Unit),
    /// A local operation works. The unit is the one that takes longest.
    Work(Unit),
    /// The preloaded operands of a tile kernel are loaded, before its loops.
    Preload,
    /// PEs of a device send each other the operands of an operation that they lack, or parts of its
    /// result.
    Fetch,
    /// A fence.
    Fence,
    /// The acknowledgement of a transfer travels back. Another transfer waits for its channel.
    Acknowledged,
    /// A message of a queue has arrived, and its receiver takes in others first.
    Inlet,
    /// The bytes of a message drain into the receiver of a queue.
    Drain,
    /// A message of a queue is written to a slot or read from it.
    Slot(Slot),
    /// A credit travels back to the sender of a queue, which has no free slot.
    Credit,
    /// A sender that polls has not yet noticed a free slot.
    Poll,
    /// A transfer waits until the copying queue of its stream has performed earlier ones.
    CoreQueue,
    /// A core moves data, or the bytes of a message arrive as fast as the core or copying queue
    /// moves them.
    Core,
    /// A notify through memory.
    Notify,
}

/// An access to a slot of a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Slot {
    /// An arrived message is written to the slot.
    Write,
    /// The message is read from the slot.
    Read,
}

/// A step of the critical path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// Number of the operation in the schedule, as the walk numbers them.
    pub op: u32,
    /// Its name in `.kir`.
    pub name: &'static str,
    /// Its region.
    pub region: RegionId,
    /// Its source position.
    pub span: Span,
    /// The rank that issued it.
    pub rank: u64,
    /// Number of the stream that issued it.
    pub stream: u32,
    /// Begin in ns.
    pub start_ns: f64,
    /// End in ns.
    pub end_ns: f64,
    /// The cause of its duration.
    pub cause: Cause,
}

/// Sums of the critical path by cause, in ns.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Breakdown {
    /// Late starts.
    pub late_ns: f64,
    /// Launch.
    pub launch_ns: f64,
    /// Endpoint times of messages and ranks.
    pub endpoint_ns: f64,
    /// Waiting for links and for inlets of queues.
    pub queue_ns: f64,
    /// Latencies.
    pub latency_ns: f64,
    /// Bytes over links.
    pub service_ns: f64,
    /// Waiting for controllers of memories.
    pub memory_queue_ns: f64,
    /// Bytes, as fast as the channels of memories permit.
    pub memory_ns: f64,
    /// Waiting for units of the rank's own device.
    pub unit_queue_ns: f64,
    /// Local operations.
    pub work_ns: f64,
    /// Preloading of operands.
    pub preload_ns: f64,
    /// Transfers between PEs of a device.
    pub fetch_ns: f64,
    /// Fences.
    pub fence_ns: f64,
    /// Acknowledgements.
    pub acknowledged_ns: f64,
    /// Draining of messages into receivers of queues.
    pub drain_ns: f64,
    /// Accesses to slots of queues.
    pub slot_ns: f64,
    /// Credits that travel back.
    pub credit_ns: f64,
    /// Senders that have not yet noticed a credit.
    pub poll_ns: f64,
    /// Waiting for copying queues that perform other transfers.
    pub core_queue_ns: f64,
    /// Bytes, as fast as cores permit.
    pub core_ns: f64,
    /// Notifies through memory.
    pub notify_ns: f64,
}

impl Timing {
    /// Sums up the critical path by cause.
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

    /// Returns the number of accesses to slots of queues on the critical path.
    pub fn slot_accesses(&self) -> u64 {
        self.path.iter().filter(|s| matches!(s.cause, Cause::Slot(_))).count() as u64
    }

    /// Returns the fraction of the total time for which a link was occupied, 0 to 1.
    pub fn utilisation(&self, link: &LinkUse) -> f64 {
        if self.ns > 0.0 { link.busy_ns / self.ns } else { 0.0 }
    }

    /// Returns the link that was occupied longest. Of several, the first.
    pub fn busiest(&self) -> Option<&LinkUse> {
        self.links.iter().rev().max_by(|a, b| a.busy_ns.total_cmp(&b.busy_ns))
    }
}

pub(super) fn timing(
    setup: &Setup<'_>,
    state: &State<'_>,
    end: Time,
    path: Vec<Step>,
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
        path,
        links: links(setup, state),
        memories: memories(state, end),
        ranks: (0..setup.program.ranks())
            .map(|rank| {
                let place = setup.split(rank).0 as usize;
                let a = &state.accounts[place];
                RankUse {
                    finish_ns: (a.finish + state.last_endpoint(setup)).ns(),
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

/// Returns the traffic of every controller.
fn memories(state: &State<'_>, end: Time) -> Vec<MemoryUse> {
    let loads = state.controllers.iter().flat_map(|c| c.loads());
    let each = loads.map(|(node, l)| {
        debug_assert!(l.busy <= end, "no channel worked longer than there was time");
        let (busy_ns, queue_ns) = (l.busy.ns(), l.waited.ns());
        MemoryUse { node, reads: l.reads, writes: l.writes, bytes: l.bytes, busy_ns, queue_ns }
    });
    each.collect()
}

/// Returns the traffic of every link. Every link of an orbit has the traffic of the one that was
/// simulated.
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
