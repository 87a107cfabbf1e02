//! Constants of a simulation: program, machine, and a table of the schedule's operations.

use super::TimeOptions;
use super::channels::TransferDirection;
use super::clock::Time;
use super::cores::Cores;
use super::inside::Inside;
use super::log::{KEPT, Last, RECORD_BYTES};
use super::moves::{self, Moves};
use super::queues::{Costs, Tally};
use kbc_checker::Orbits;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::op::OpPart;
use kbc_ir::schedule::{Peer, RefUse, Region, RegionId, SStmt, Schedule};
use kbc_ir::types::MemKind;
use kbc_ir::walk::{Outline, Program};
use kbc_machine::topology::{DeviceId, Direction, Forward, LinkId, Topology, WayFault, WayOfMessage};

/// An operation of a schedule, indexed by the number that the walk gives it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpInfo<'p> {
    pub(super) name: &'static str,
    pub(super) region: RegionId,
    pub(super) span: Span,
    /// What it says about its route: the direction in which its peer is written ([`hint`]), and the
    /// relays that its data passes.
    pub(super) way: WayOfMessage<'p>,
    /// The kind of DMA channel that it needs, on machines that limit them.
    pub(super) channel: Option<TransferDirection>,
    /// Whether its message is taken in by the receiver's inlet ([`super::queues`]).
    pub(super) taken_in: bool,
    /// Whether its bytes drain at the inlet, and not on the links.
    pub(super) drains: bool,
    /// For a put or get: the memories that its data comes from and goes to.
    pub(super) memories: Option<[MemKind; 2]>,
}

/// A simulation before it starts.
pub(super) struct Setup<'p> {
    pub(super) program: &'p Program<'p>,
    pub(super) outline: Outline<'p>,
    pub(super) topo: &'p Topology,
    pub(super) calls: u32,
    pub(super) path: bool,
    /// Number of records that a log keeps.
    pub(super) kept: u64,
    pub(super) streams: usize,
    /// Number of counters of a rank, including the tallies of its queues.
    pub(super) counters: usize,
    pub(super) ops: Vec<OpInfo<'p>>,
    pub(super) fence: Time,
    /// Time of a rank before each of its messages and once at its end.
    pub(super) endpoint: Time,
    /// Time from the common start to the first operation of a rank that is not late.
    pub(super) launch: Time,
    /// Bytes of a notify that travels alone, and of the request of a get.
    pub(super) signal_bytes: u64,
    /// The limits of the machine's cores, if it sets any.
    pub(super) cores: Option<Cores>,
    /// The times of the machine's queues, if it has the setting `queue`.
    pub(super) queues: Option<Costs>,
    /// Whether some messages name relays.
    pub(super) routed: bool,
    /// Whether messages between the same two ranks may overtake each other
    /// ([`super::notify_order`]).
    pub(super) unordered: bool,
    /// Locations of data, if it is not at its device.
    pub(super) moves: Option<Moves>,
    /// The interior of devices, if their PEs share work.
    pub(super) inside: Option<Inside>,
    /// Whether messages need [`super::state::Extra`].
    pub(super) extra: bool,
    /// The orbits of ranks, if one rank of each is simulated.
    pub(super) orbits: Option<Orbits>,
}

/// Limit on the counters, streams or events of all ranks together.
const MAX_OBJECTS: u64 = 1 << 31;

/// Checks that a machine has one device per rank.
///
/// # Errors
/// Returns E371 if it has more or fewer.
pub fn device_each(ranks: u64, topo: &Topology) -> Result<(), Diagnostic> {
    let devices = topo.device_count() as u64;
    if ranks == devices {
        return Ok(());
    }
    let text = format!("the mesh has {ranks} ranks, and {} has {devices} devices", topo.shape());
    Err(Diagnostic::error("E371", text)
        .help("rank i runs on device i in the linear order of the machine, so the numbers must be equal"))
}

impl<'p> Setup<'p> {
    /// Prepares a simulation.
    ///
    /// # Errors
    /// Returns E370 for a schedule that is not synchronised, E371 for a machine with another number
    /// of devices, and E373 for more counters, streams or events than can be kept.
    pub(super) fn new(
        program: &'p Program<'p>,
        topo: &'p Topology,
        options: &TimeOptions,
    ) -> Result<Setup<'p>, Diagnostics> {
        let ranks = program.ranks();
        device_each(ranks, topo)?;
        let mut ops = operations(program);
        let rules = topo.settings();
        for send in ops.iter_mut().filter(|o| o.name == SEND) {
            send.taken_in = rules.queues().is_some();
            send.drains = send.taken_in && rules.forward() == Forward::Drain;
        }
        if let Some(mark) = ops.iter().find(|o| o.name == MARK) {
            return Err(Diagnostic::error(
                "E370",
                "the schedule is not synchronized, so it cannot be timed yet",
            )
            .primary(mark.span, "`synchronize` has not replaced this by signals and fences yet")
            .help("run the pass `synchronize` first")
            .into());
        }
        relays_exist(&ops, topo)?;
        // Four tallies of each queue to and from each rank.
        let queues = u64::from(program.queue_base.last().copied().unwrap_or(0));
        let tallies = queues.saturating_mul(ranks).saturating_mul(4);
        let per_rank = u64::from(program.counters())
            .saturating_add(tallies)
            .max(program.streams.len().max(program.events.len()) as u64);
        if ranks.saturating_mul(per_rank) > MAX_OBJECTS {
            return Err(Diagnostic::error(
                "E373",
                format!(
                    "{ranks} ranks with {per_rank} counters, streams or events each exceed the limit of {MAX_OBJECTS}"
                ),
            )
            .help("simulate fewer ranks, or use signals with fewer counters")
            .into());
        }
        let settings = topo.settings();
        let moves = Moves::new(program, topo)?;
        let cores = Cores::of(settings);
        let routed = ops.iter().any(|o| !o.way.via.is_empty());
        let ways = topo.has_doubled_links() || topo.is_adaptive() || routed;
        let unordered = ways || moves.is_some() || cores.is_some();
        let gets = ops.iter().any(|o| [GET, GET_COMBINE].contains(&o.name));
        let shared = !topo.settings().switching().only_forwards();
        let outline = Outline::new(program, i64::from(options.calls));
        let whole = shared || moves.as_ref().is_some_and(|m| m.addresses.is_some());
        Ok(Setup {
            program,
            outline: if whole { outline.with_moves() } else { outline },
            topo,
            calls: options.calls,
            path: options.path,
            kept: options.memory.map_or(KEPT, |m| (m / 8 / RECORD_BYTES).clamp(1, KEPT)),
            streams: program.streams.len(),
            counters: program.counters() as usize + tallies as usize,
            ops,
            fence: Time::from_ns(settings.fence_ns()),
            endpoint: Time::from_ns(settings.endpoint_ns()),
            launch: Time::from_ns(settings.launch_ns()),
            // A fraction of a byte counts as a byte.
            signal_bytes: settings.signal_bytes().ceil() as u64,
            cores,
            queues: settings.queues().map(|q| Costs::new(&q)),
            routed,
            unordered,
            moves,
            inside: Inside::new(topo)?,
            extra: unordered || gets || shared || settings.dma.is_some(),
            orbits: None,
        })
    }

    /// Checks whether notifies go through memory and not over links.
    pub(super) fn through_memory(&self) -> bool {
        self.cores.is_some_and(|c| c.notify.is_some())
    }

    /// Returns the time at which a rank starts.
    pub(super) fn start(&self, rank: u64) -> Time {
        self.launch + Time::from_ns(self.topo.pace(self.device(rank)).late_ns)
    }

    /// Returns the device that a rank runs on.
    pub(super) fn device(&self, rank: u64) -> DeviceId {
        // There are as many ranks as devices, and fewer than 2^32 of them.
        DeviceId(rank as u32)
    }

    /// Returns the number of places, that is, of ranks that are simulated.
    pub(super) fn places(&self) -> u64 {
        self.orbits.as_ref().map_or_else(|| self.program.ranks(), |o| o.first().len() as u64)
    }

    /// Returns the rank that is simulated in a place.
    pub(super) fn first(&self, place: u32) -> u64 {
        self.orbits.as_ref().map_or(place.into(), |o| o.first()[place as usize])
    }

    /// Returns the place of the simulated rank that stands for a rank, and the element that takes
    /// the simulated rank to it.
    pub(super) fn split(&self, rank: u64) -> (u32, u64) {
        self.orbits.as_ref().map_or((rank as u32, 0), |o| {
            let (place, turn) = o.split(rank);
            (place as u32, turn)
        })
    }

    /// Returns the image of a rank under an element.
    pub(super) fn turned(&self, turn: u64, rank: u64) -> u64 {
        self.orbits.as_ref().map_or(rank, |o| o.act(turn, rank))
    }

    /// Returns the image of a link under an element.
    pub(super) fn link(&self, turn: u64, link: LinkId) -> LinkId {
        match &self.orbits {
            Some(o) if turn > 0 => {
                let moved = |d: DeviceId| self.device(o.act(turn, d.0.into()));
                self.topo.link_moved(link, moved).unwrap_or(link)
            }
            _ => link,
        }
    }

    /// Returns the simulated link that stands for a link, and the element that takes the simulated
    /// link to it.
    pub(super) fn split_link(&self, link: LinkId) -> (LinkId, u64) {
        let (Some(o), Some(l)) = (&self.orbits, self.topo.link(link)) else { return (link, 0) };
        // A link of a switch belongs to its device. Where ranks stand for others, every such link
        // has one.
        let device = |d: DeviceId| (d.0 as usize) < self.topo.device_count();
        let turn = o.split(if device(l.from) { l.from } else { l.to }.0.into()).1;
        (self.link(o.inverse(turn), link), turn)
    }

    /// Returns a record as the simulated rank sees it, given the record as the rank sees it that
    /// `turn` takes the simulated rank to.
    pub(super) fn back(&self, last: Last, turn: u64) -> Last {
        match &self.orbits {
            Some(o) if turn > 0 => last.turned(o.act(o.inverse(turn), last.turn())),
            _ => last,
        }
    }

    /// Returns the threads in a place.
    pub(super) fn threads(&self, place: u32) -> std::ops::Range<u32> {
        let first = place * self.streams as u32;
        first..first + self.streams as u32
    }

    /// Returns the index of a counter.
    pub(super) fn counter(&self, place: u32, counter: u32) -> usize {
        place as usize * self.counters + counter as usize
    }

    /// Returns the number, among the counters of a rank, of a tally of the queue between the rank
    /// and this peer.
    pub(super) fn tally(&self, tally: Tally, peer: u64, queue: u32) -> u32 {
        let queues = self.program.queue_base.last().copied().unwrap_or(0);
        let row = tally as u64 * self.program.ranks() + peer;
        // Below [`MAX_OBJECTS`].
        self.program.counters() + row as u32 * queues + queue
    }

    /// Returns the tally, the peer and the queue of a counter. None if the counter is not a tally.
    pub(super) fn tallied(&self, counter: u32) -> Option<(Tally, u64, u32)> {
        let queues = self.program.queue_base.last().copied().unwrap_or(0);
        let row = counter.checked_sub(self.program.counters())?.checked_div(queues)?;
        let (tally, peer) = (u64::from(row) / self.program.ranks(), u64::from(row) % self.program.ranks());
        let queue = (counter - self.program.counters()) % queues;
        Some((*Tally::ALL.get(tally as usize)?, peer, queue))
    }

    /// Returns the index of an event.
    pub(super) fn event(&self, place: u32, event: u32) -> usize {
        place as usize * self.program.events.len() + event as usize
    }

    /// Returns the place of a thread.
    pub(super) fn place(&self, thread: u32) -> u32 {
        // Most schedules have one stream, and the division is slower than everything else here.
        if self.streams == 1 { thread } else { thread / self.streams as u32 }
    }

    /// Returns the rank of a thread.
    pub(super) fn rank(&self, thread: u32) -> u64 {
        self.first(self.place(thread))
    }
}

/// Returns the operations of a schedule in the order in which the walk numbers them.
fn operations<'p>(program: &Program<'p>) -> Vec<OpInfo<'p>> {
    let s = program.schedule;
    let mut out = Vec::with_capacity(program.ops as usize);
    for (i, region) in s.regions.iter().enumerate() {
        for stream in region.roles.iter().flat_map(|r| &r.streams) {
            collect(s, &stream.body, region, RegionId(i as u32), &mut out);
        }
    }
    out
}

fn collect<'p>(s: &Schedule, list: &'p [SStmt], region: &Region, id: RegionId, out: &mut Vec<OpInfo<'p>>) {
    for st in list {
        match st {
            SStmt::For { body, .. } => collect(s, body, region, id, out),
            SStmt::If { then, other, .. } => {
                collect(s, then, region, id, out);
                collect(s, other, region, id, out);
            }
            SStmt::Op(op, span) => {
                // The operation sends to this peer, in this direction through memory.
                let (mut peer, mut channel) = (None, None);
                op.parts(&mut |part| match part {
                    OpPart::Peer(p) => peer = Some(p),
                    OpPart::Far(RefUse::Read, _) => channel = Some(TransferDirection::Read),
                    OpPart::Far(RefUse::Write | RefUse::Update, _) => {
                        channel = Some(TransferDirection::Write);
                    }
                    OpPart::Combiner(_)
                    | OpPart::Near(..)
                    | OpPart::Counter(_)
                    | OpPart::Value(_)
                    | OpPart::Queue(_)
                    | OpPart::Event(_)
                    | OpPart::Local(_)
                    | OpPart::Mark(_)
                    | OpPart::Buffer(..)
                    | OpPart::Host(_) => {}
                });
                let way = peer.map_or_else(WayOfMessage::default, |p| WayOfMessage {
                    hint: hint(p, region),
                    via: p.via.relays(),
                });
                let (name, memories) = (op.word(), moves::memories(s, region, op));
                let (taken_in, drains) = (false, false);
                out.push(OpInfo { name, region: id, span: *span, way, channel, taken_in, drains, memories });
            }
        }
    }
}

/// Checks that messages can pass the relays that they name.
fn relays_exist(ops: &[OpInfo<'_>], topo: &Topology) -> Result<(), Diagnostic> {
    // Neighbouring operations mostly name the same relays.
    let mut known: &[u32] = &[];
    for op in ops.iter().filter(|o| !o.way.via.is_empty()) {
        if op.way.via != known {
            topo.check_relays(op.way.via).map_err(|fault| no_way(fault, op.way.via, topo, op.span))?;
            known = op.way.via;
        }
    }
    Ok(())
}

/// Returns E598 for a message that cannot pass its relays.
fn no_way(fault: WayFault, via: &[u32], topo: &Topology, span: Span) -> Diagnostic {
    let why = topo.way_fault(fault);
    let list = via.iter().map(|r| format!("#{r}")).collect::<Vec<_>>().join(", ");
    Diagnostic::error("E598", format!("a message cannot pass its relays: {why}"))
        .primary(span, format!("this message goes via {list}"))
        .help("relays are those of a machine that is a list of links; a schedule that names them fits that machine only")
}

/// Returns the direction of a peer on a coordinate of size two: `(r - d) mod 2` is minus, and
/// `(r + d) mod 2` is plus.
fn hint(peer: &Peer, region: &Region) -> Option<Direction> {
    let pairs = peer.iter().zip(&region.coords).filter(|(_, (_, size))| *size == 2);
    pairs.map(|(e, _)| e).find_map(|e| match e {
        Expr::Bin(BinOp::Mod, inner, _) => match &**inner {
            Expr::Bin(BinOp::Sub, ..) => Some(Direction::Minus),
            Expr::Bin(BinOp::Add, ..) => Some(Direction::Plus),
            _ => None,
        },
        _ => None,
    })
}

const MARK: &str = "mark";
const GET: &str = "get";
/// The name of a get whose data is combined into its destination.
pub(super) const GET_COMBINE: &str = "get.combine";
/// The name of a message of a queue.
pub(super) const SEND: &str = "send";
