//! What does not change during a simulation: program, machine, and a table of the schedule's operations.

use super::TimeOptions;
use super::clock::Time;
use super::log::KEPT;
use super::state::State;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::{LocalOp, Peer, Region, RegionId, SOp, SStmt, Schedule};
use kbc_ir::topology::{DeviceId, Direction, Topology};
use kbc_ir::walk::Program;

/// An operation of a schedule, by the number that the walk gives it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpInfo {
    pub(super) name: &'static str,
    pub(super) region: RegionId,
    pub(super) span: Span,
    /// The way its peer is written (LANGUAGE.md 2.2).
    pub(super) hint: Option<Direction>,
}

/// A simulation before it starts.
pub(super) struct Setup<'p> {
    pub(super) program: &'p Program<'p>,
    pub(super) topo: &'p Topology,
    pub(super) calls: i64,
    pub(super) path: bool,
    /// Records that a log keeps.
    pub(super) kept: u64,
    pub(super) streams: usize,
    pub(super) ops: Vec<OpInfo>,
    pub(super) fence: Time,
    /// What a rank needs before each of its messages, and once at its end.
    pub(super) endpoint: Time,
    /// Bytes of a notify that travels alone, and of the request of a get.
    pub(super) signal_bytes: u64,
    /// There are devices with two links to the same neighbour: two ways to go.
    pub(super) doubled: bool,
}

/// Threads and counters of all ranks together that a simulation may have.
const MOST: u64 = 1 << 31;

impl<'p> Setup<'p> {
    /// Errors: E370 for a schedule that is not synchronised, E371 for a machine with another number of devices, E373
    /// for more counters or streams than can be kept.
    pub(super) fn new(
        program: &'p Program<'p>,
        topo: &'p Topology,
        options: &TimeOptions,
    ) -> Result<Setup<'p>, Diagnostics> {
        let s = program.schedule;
        let ranks = program.ranks();
        if ranks != topo.device_count() as u64 {
            return Err(Diagnostic::error(
                "E371",
                format!("the mesh has {ranks} ranks, {} has {} devices", topo.shape(), topo.device_count()),
            )
            .help("rank i runs on device i of the machine's linear order, so there must be as many")
            .into());
        }
        let ops = operations(s);
        if let Some(mark) = ops.iter().find(|o| o.name == MARK) {
            return Err(Diagnostic::error("E370", "the schedule is not synchronised, so it has no time yet")
                .primary(
                    mark.span,
                    "a point of a message that `synchronize` has not turned into signals and fences",
                )
                .help("run the pass `synchronize` first")
                .into());
        }
        let per_rank =
            u64::from(program.counters()).max(program.streams.len().max(program.events.len()) as u64);
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
        let doubled = topo.axes().enumerate().any(|(i, (_, size))| size == 2 && topo.pairs(i) == 2);
        Ok(Setup {
            program,
            topo,
            calls: i64::from(options.calls),
            path: options.path,
            kept: KEPT,
            streams: program.streams.len(),
            ops,
            fence: Time::from_ns(settings.fence_ns()),
            endpoint: Time::from_ns(settings.endpoint_ns()),
            // A part of a byte takes as long as a byte.
            signal_bytes: settings.signal_bytes().ceil() as u64,
            doubled,
        })
    }

    /// What every rank needs at its end, where there were messages at all.
    pub(super) fn last_endpoint(&self, state: &State<'_>) -> Time {
        if state.delivered > 0 { self.endpoint } else { Time::ZERO }
    }

    /// When a rank starts.
    pub(super) fn start(&self, rank: u64) -> Time {
        Time::from_ns(self.topo.pace(self.device(rank)).late_ns)
    }

    /// The device that a rank runs on.
    pub(super) fn device(&self, rank: u64) -> DeviceId {
        // As many as devices, of which there are fewer than 2^32.
        DeviceId(rank as u32)
    }

    /// The threads of a rank.
    pub(super) fn threads(&self, rank: u64) -> std::ops::Range<u32> {
        let first = rank as u32 * self.streams as u32;
        first..first + self.streams as u32
    }

    /// Where a counter of a rank is.
    pub(super) fn counter(&self, rank: u64, counter: u32) -> usize {
        rank as usize * self.program.counters() as usize + counter as usize
    }

    /// Where an event of a rank is.
    pub(super) fn event(&self, rank: u64, event: u32) -> usize {
        rank as usize * self.program.events.len() + event as usize
    }

    /// The rank of a thread.
    pub(super) fn rank(&self, thread: u32) -> u64 {
        u64::from(thread) / self.streams as u64
    }
}

/// The operations of a schedule in the order in which the walk numbers them.
fn operations(s: &Schedule) -> Vec<OpInfo> {
    let mut out = vec![];
    for (i, region) in s.regions.iter().enumerate() {
        for stream in region.roles.iter().flat_map(|r| &r.streams) {
            collect(&stream.body, region, RegionId(i as u32), &mut out);
        }
    }
    out
}

fn collect(list: &[SStmt], region: &Region, id: RegionId, out: &mut Vec<OpInfo>) {
    for st in list {
        match st {
            SStmt::For { body, .. } => collect(body, region, id, out),
            SStmt::If { then, other, .. } => {
                collect(then, region, id, out);
                collect(other, region, id, out);
            }
            SStmt::Op(op, span) => {
                let peer = match op {
                    SOp::Put { peer, .. } | SOp::Get { peer, .. } | SOp::Notify { peer, .. } => Some(peer),
                    _ => None,
                };
                let hint = peer.and_then(|p| hint(p, region));
                out.push(OpInfo { name: name(op), region: id, span: *span, hint });
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

fn name(op: &SOp) -> &'static str {
    match op {
        SOp::Copy { .. } => "copy",
        SOp::Reduce { .. } => "reduce",
        SOp::Put { .. } => "put",
        SOp::Get { .. } => "get",
        SOp::Notify { .. } => "notify",
        SOp::Wait { .. } => "wait",
        SOp::FenceRelease => "fence.release",
        SOp::FenceAcquire => "fence.acquire",
        SOp::FenceComplete => "fence.complete",
        SOp::Record(_) => "record",
        SOp::Await(_) => "await",
        SOp::Local(l) => match l {
            LocalOp::Compute { .. } => "compute",
            LocalOp::Matmul { .. } => "matmul",
            LocalOp::ReduceDim { .. } => "reduce_dim",
            LocalOp::Cast { .. } => "cast",
            LocalOp::Copy { .. } => "copy",
            LocalOp::Pack { .. } => "pack",
            LocalOp::Unpack { .. } => "unpack",
            LocalOp::Slice { .. } => "slice",
        },
        SOp::Mark { .. } => MARK,
        SOp::Launch(_) => "launch",
        SOp::HostWait(_) => "host.wait",
        SOp::HostRead(_) => "host.read",
        SOp::Drain => "drain",
    }
}
