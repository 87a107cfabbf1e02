//! What does not change during a simulation: program, machine, and a table of the schedule's operations.

use super::TimeOptions;
use super::channels::Way;
use super::clock::Time;
use super::cores::Cores;
use super::inside::Inside;
use super::log::{KEPT, Last};
use super::moves::{self, Moves};
use super::queues::{Costs, Tally};
use super::state::State;
use kbc_checker::Orbits;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::{Peer, Region, RegionId, SOp, SStmt, Schedule};
use kbc_ir::types::MemKind;
use kbc_ir::walk::{Outline, Program};
use kbc_machine::topology::{DeviceId, Direction, Forward, LinkId, Topology};

/// An operation of a schedule, by the number that the walk gives it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpInfo {
    pub(super) name: &'static str,
    pub(super) region: RegionId,
    pub(super) span: Span,
    /// The way its peer is written (LANGUAGE.md 2.2).
    pub(super) hint: Option<Direction>,
    /// The DMA channel that it needs, on machines that limit them.
    pub(super) channel: Option<Way>,
    /// Its message is taken in at the end of a queue of the machine ([`super::queues`]).
    pub(super) taken_in: bool,
    /// Only then its bytes drain.
    pub(super) drains: bool,
    /// Of a put or get the memories that its data comes from and goes to.
    pub(super) memories: Option<[MemKind; 2]>,
}

/// A simulation before it starts.
pub(super) struct Setup<'p> {
    pub(super) program: &'p Program<'p>,
    pub(super) outline: Outline<'p>,
    pub(super) topo: &'p Topology,
    pub(super) calls: u32,
    pub(super) path: bool,
    /// Records that a log keeps.
    pub(super) kept: u64,
    pub(super) streams: usize,
    /// Counters of a rank, with the tallies of its queues.
    pub(super) counters: usize,
    pub(super) ops: Vec<OpInfo>,
    pub(super) fence: Time,
    /// What a rank needs before each of its messages, and once at its end.
    pub(super) endpoint: Time,
    /// From the common start to the first operation of a rank that is not late.
    pub(super) launch: Time,
    /// Bytes of a notify that travels alone, and of the request of a get.
    pub(super) signal_bytes: u64,
    /// What of the machine's cores takes time, if anything.
    pub(super) cores: Option<Cores>,
    /// The queues of the machine, if it says what they are.
    pub(super) queues: Option<Costs>,
    /// Messages between the same two ranks may overtake each other ([`super::ways`]).
    pub(super) unordered: bool,
    /// Where data is not at its device.
    pub(super) moves: Option<Moves>,
    /// Where the PEs of a device share its work.
    pub(super) inside: Option<Inside>,
    /// Messages need [`super::state::Extra`].
    pub(super) extra: bool,
    /// Where one rank of each orbit is simulated.
    pub(super) orbits: Option<Orbits>,
}

/// Threads and counters of all ranks together that a simulation may have.
const MOST: u64 = 1 << 31;

/// Whether a machine has a device for each rank.
///
/// # Errors
/// E371: it has more or fewer.
pub fn device_each(ranks: u64, topo: &Topology) -> Result<(), Diagnostic> {
    let devices = topo.device_count() as u64;
    if ranks == devices {
        return Ok(());
    }
    let text = format!("the mesh has {ranks} ranks, {} has {devices} devices", topo.shape());
    Err(Diagnostic::error("E371", text)
        .help("rank i runs on device i of the machine's linear order, so there must be as many"))
}

impl<'p> Setup<'p> {
    /// Errors: E370 for a schedule that is not synchronised, E371 for a machine with another number of devices, E373
    /// for more counters or streams than can be kept.
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
            return Err(Diagnostic::error("E370", "the schedule is not synchronised, so it has no time yet")
                .primary(
                    mark.span,
                    "a point of a message that `synchronize` has not turned into signals and fences",
                )
                .help("run the pass `synchronize` first")
                .into());
        }
        // Four tallies of each queue to and from each rank.
        let queues = u64::from(program.queue_base.last().copied().unwrap_or(0));
        let tallies = queues.saturating_mul(ranks).saturating_mul(4);
        let per_rank = u64::from(program.counters())
            .saturating_add(tallies)
            .max(program.streams.len().max(program.events.len()) as u64);
        if ranks.saturating_mul(per_rank) > MOST {
            return Err(Diagnostic::error(
                "E373",
                format!(
                    "{ranks} ranks with {per_rank} counters, streams or events each are more than {MOST}"
                ),
            )
            .help("simulate fewer ranks, or use signals with fewer counters")
            .into());
        }
        let settings = topo.settings();
        let moves = Moves::new(program, topo)?;
        let cores = Cores::of(settings);
        let unordered = topo.has_ways() || moves.is_some() || cores.is_some();
        let gets = ops.iter().any(|o| o.name == GET);
        let outline = Outline::new(program, i64::from(options.calls));
        let whole = moves.as_ref().is_some_and(|m| m.addresses.is_some());
        Ok(Setup {
            program,
            outline: if whole { outline.with_moves() } else { outline },
            topo,
            calls: options.calls,
            path: options.path,
            kept: KEPT,
            streams: program.streams.len(),
            counters: program.counters() as usize + tallies as usize,
            ops,
            fence: Time::from_ns(settings.fence_ns()),
            endpoint: Time::from_ns(settings.endpoint_ns()),
            launch: Time::from_ns(settings.launch_ns()),
            // A part of a byte takes as long as a byte.
            signal_bytes: settings.signal_bytes().ceil() as u64,
            cores,
            queues: settings.queues().map(|q| Costs::new(&q)),
            unordered,
            moves,
            inside: Inside::new(topo)?,
            extra: unordered || gets || settings.dma.is_some(),
            orbits: None,
        })
    }

    /// Whether notifies are no messages of links.
    pub(super) fn through_memory(&self) -> bool {
        self.cores.is_some_and(|c| c.notify.is_some())
    }

    /// What every rank needs at its end, where there were messages at all.
    pub(super) fn last_endpoint(&self, state: &State<'_>) -> Time {
        if state.delivered > 0 { self.endpoint } else { Time::ZERO }
    }

    /// When a rank starts.
    pub(super) fn start(&self, rank: u64) -> Time {
        self.launch + Time::from_ns(self.topo.pace(self.device(rank)).late_ns)
    }

    /// The device that a rank runs on.
    pub(super) fn device(&self, rank: u64) -> DeviceId {
        // As many as devices, of which there are fewer than 2^32.
        DeviceId(rank as u32)
    }

    /// Ranks that are simulated.
    pub(super) fn places(&self) -> u64 {
        self.orbits.as_ref().map_or_else(|| self.program.ranks(), |o| o.first().len() as u64)
    }

    /// The rank that is simulated in a place.
    pub(super) fn first(&self, place: u32) -> u64 {
        self.orbits.as_ref().map_or(place.into(), |o| o.first()[place as usize])
    }

    /// A rank as the place of the one that is simulated for it, and the element that takes that one to it.
    pub(super) fn split(&self, rank: u64) -> (u32, u64) {
        self.orbits.as_ref().map_or((rank as u32, 0), |o| {
            let (place, turn) = o.split(rank);
            (place as u32, turn)
        })
    }

    /// The rank that an element takes a rank to.
    pub(super) fn turned(&self, turn: u64, rank: u64) -> u64 {
        self.orbits.as_ref().map_or(rank, |o| o.act(turn, rank))
    }

    /// The link that an element takes a link to.
    pub(super) fn link(&self, turn: u64, link: LinkId) -> LinkId {
        match &self.orbits {
            Some(o) if turn > 0 => {
                let moved = |d: DeviceId| self.device(o.act(turn, d.0.into()));
                self.topo.link_moved(link, moved).unwrap_or(link)
            }
            _ => link,
        }
    }

    /// The link that is simulated for a link, and the element that takes that one to it.
    pub(super) fn split_link(&self, link: LinkId) -> (LinkId, u64) {
        let (Some(o), Some(l)) = (&self.orbits, self.topo.link(link)) else { return (link, 0) };
        // A link of a switch belongs to its device, of which every link has one where ranks stand for others.
        let device = |d: DeviceId| (d.0 as usize) < self.topo.device_count();
        let turn = o.split(if device(l.from) { l.from } else { l.to }.0.into()).1;
        (self.link(o.inverse(turn), link), turn)
    }

    /// A record as the rank that an element takes another one to sees it from there.
    pub(super) fn back(&self, last: Last, turn: u64) -> Last {
        match &self.orbits {
            Some(o) if turn > 0 => last.turned(o.act(o.inverse(turn), last.turn())),
            _ => last,
        }
    }

    /// The threads in a place.
    pub(super) fn threads(&self, place: u32) -> std::ops::Range<u32> {
        let first = place * self.streams as u32;
        first..first + self.streams as u32
    }

    /// Where a counter is.
    pub(super) fn counter(&self, place: u32, counter: u32) -> usize {
        place as usize * self.counters + counter as usize
    }

    /// The number of a tally of the queue between a rank and this peer, among the counters of the rank.
    pub(super) fn tally(&self, tally: Tally, peer: u64, queue: u32) -> u32 {
        let queues = self.program.queue_base.last().copied().unwrap_or(0);
        let row = tally as u64 * self.program.ranks() + peer;
        // Below [`MOST`].
        self.program.counters() + row as u32 * queues + queue
    }

    /// Where an event is.
    pub(super) fn event(&self, place: u32, event: u32) -> usize {
        place as usize * self.program.events.len() + event as usize
    }

    /// The place of a thread.
    pub(super) fn place(&self, thread: u32) -> u32 {
        // Mostly; a division takes longer than what is asked for it.
        if self.streams == 1 { thread } else { thread / self.streams as u32 }
    }

    /// The rank of a thread.
    pub(super) fn rank(&self, thread: u32) -> u64 {
        self.first(self.place(thread))
    }
}

/// The operations of a schedule in the order in which the walk numbers them.
fn operations(program: &Program<'_>) -> Vec<OpInfo> {
    let s = program.schedule;
    let mut out = vec![];
    for (i, region) in s.regions.iter().enumerate() {
        for stream in region.roles.iter().flat_map(|r| &r.streams) {
            collect(s, &stream.body, region, RegionId(i as u32), &mut out);
        }
    }
    out
}

fn collect(s: &Schedule, list: &[SStmt], region: &Region, id: RegionId, out: &mut Vec<OpInfo>) {
    for st in list {
        match st {
            SStmt::For { body, .. } => collect(s, body, region, id, out),
            SStmt::If { then, other, .. } => {
                collect(s, then, region, id, out);
                collect(s, other, region, id, out);
            }
            SStmt::Op(op, span) => {
                let peer = match op {
                    SOp::Put { peer, .. }
                    | SOp::Get { peer, .. }
                    | SOp::Send { peer, .. }
                    | SOp::Recv { peer, .. }
                    | SOp::Notify { peer, .. } => Some(peer),
                    _ => None,
                };
                let hint = peer.and_then(|p| hint(p, region));
                let channel = match op {
                    SOp::Put { .. } => Some(Way::Write),
                    SOp::Get { .. } => Some(Way::Read),
                    _ => None,
                };
                let (name, memories) = (op.word(), moves::memories(s, region, op));
                let (taken_in, drains) = (false, false);
                out.push(OpInfo { name, region: id, span: *span, hint, channel, taken_in, drains, memories });
            }
        }
    }
}

/// The way to a peer over a coordinate of size two: `(r - d) mod 2` is written down the axis, `(r + d) mod 2` up.
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
const SEND: &str = "send";
