//! Data of puts and gets in memories that are nodes of a package (`data: named`): its route, and
//! the controllers at both ends.
//!
//! This module owns these routes (docs/adr/027-memories.md): from the port of the source memory to
//! the port of the destination memory. Notifies, requests and queues leave from the device. The
//! time of a controller is in [`super::controllers`].

use super::MessageKind;
use super::agenda::{Item, NONE};
use super::controllers::Access;
use super::engine::Engine;
use super::log::{self, MORE, Record, TAIL};
use super::state::{Extra, Message, Trip};
use kbc_diag::Diagnostics;
use kbc_ir::schedule::{Ref, Region, SOp, Schedule};
use kbc_ir::types::MemKind;
use kbc_ir::walk::{Mem, Program};
use kbc_machine::memory::{Addresses, kind_of};
use kbc_machine::topology::{Data, DeviceId, Direction, Route, Topology};

/// Locations of the data of ranks, on a machine with `data: named`.
pub(super) struct Moves {
    /// By rank: the nodes of its memories, in the order of [`MemKind::ALL`].
    ports: Vec<[DeviceId; 4]>,
    /// Whether each memory has a controller with channels, in the same order.
    controlled: [bool; 4],
    /// Addresses of data in memories that have controllers.
    pub(super) addresses: Option<Addresses>,
}

/// Returns the index of a kind in [`MemKind::ALL`].
fn place(kind: MemKind) -> usize {
    MemKind::ALL.iter().position(|k| *k == kind).unwrap_or(0)
}

impl Moves {
    /// Returns the locations of data. None if data is at its device.
    pub(super) fn new(program: &Program<'_>, topo: &Topology) -> Result<Option<Moves>, Diagnostics> {
        if !topo.is_package() || topo.settings().package.data() == Data::Pe {
            return Ok(None);
        }
        let controlled = MemKind::ALL.map(|k| topo.controller(k).is_some());
        // Only slices of HBM have controllers.
        let addresses = match controlled.contains(&true) {
            true => Some(Addresses::new(program, MemKind::Hbm)?),
            false => None,
        };
        let ports = topo.devices().map(|d| MemKind::ALL.map(|k| topo.data_port(d, k))).collect();
        Ok(Some(Moves { ports, controlled, addresses }))
    }

    /// Returns the node of a rank's memory.
    pub(super) fn port(&self, rank: u64, kind: MemKind) -> DeviceId {
        self.ports[rank as usize][place(kind)]
    }
}

/// Returns the memories that a put or get moves data from and to.
pub(super) fn memories(schedule: &Schedule, region: &Region, op: &SOp) -> Option<[MemKind; 2]> {
    let (SOp::Put { src, dst, .. } | SOp::Get { src, dst, .. }) = op else { return None };
    let kind = |r: &Ref| {
        let mem = match r {
            Ref::Chunk { operand, .. } => Mem::Buffer(region.operands.get(operand.0 as usize)?.buffer.0),
            Ref::Slot { window, .. } => Mem::Slot(window.0, 0),
        };
        Some(kind_of(schedule, mem))
    };
    Some([kind(src)?, kind(dst)?])
}

/// The ends of a message's route.
#[derive(Clone, Debug)]
pub(super) struct Ends<'p> {
    /// If the message returns into the memory that it comes from: the route back, which follows the
    /// route out.
    back: Option<Route<'p>>,
    /// The controller that it is written through, as [`log::controller`].
    write: Option<u32>,
    /// First bytes of the data at the source and at the destination.
    spots: [u64; 2],
}

impl Trip<'_> {
    /// Returns the next stage of the message: a link or a controller.
    pub(super) fn next(&mut self) -> Option<u32> {
        if let Some(link) = self.route.next() {
            return Some(link.0);
        }
        let ends = self.ends.as_mut()?;
        if let Some(back) = ends.back.take() {
            self.route = back;
            if let Some(link) = self.route.next() {
                return Some(link.0);
            }
        }
        ends.write.take()
    }
}

impl<'p> Engine<'_, 'p, '_> {
    /// Returns the first bytes that the put or get which a thread has just reached reads and
    /// writes, if controllers need them. A get reads at its peer, and a put writes there.
    pub(super) fn spots(&self, thread: u32, get: bool, peer: u64) -> [u64; 2] {
        let Some(addresses) = self.setup.moves.as_ref().and_then(|m| m.addresses.as_ref()) else {
            return [0; 2];
        };
        let Some([src, dst]) = self.state.walks.moved() else { return [0; 2] };
        let (schedule, own) = (self.setup.program.schedule, self.setup.rank(thread));
        let (from, to) = if get { (peer, own) } else { (own, peer) };
        [addresses.of(schedule, from, &src), addresses.of(schedule, to, &dst)]
    }

    /// Returns the route of a put or get whose data is not at its device, with its first stage.
    /// None for other messages. A message without a first stage has arrived.
    pub(super) fn data_route(
        &self,
        m: &Message,
        (from, to): (u64, u64),
        hint: Option<Direction>,
        extra: &Extra,
    ) -> Option<(Option<u32>, Trip<'p>)> {
        let moves = self.setup.moves.as_ref()?;
        let [source, target] = self.setup.ops[m.op as usize].memories?;
        let topo = self.setup.topo;
        let data = matches!(m.kind, MessageKind::Put | MessageKind::Reply);
        let (a, b) = match m.kind {
            MessageKind::Put | MessageKind::Reply => (moves.port(from, source), moves.port(to, target)),
            // The request goes to the memory of the data.
            MessageKind::Request => (self.setup.device(from), moves.port(to, source)),
            MessageKind::Notify => return None,
        };
        let mut back = None;
        let relay = a.0 as usize >= topo.device_count();
        let route = if data && a == b && relay {
            // Out of the memory and back in.
            let router = topo.links_from(a).first().map_or(a, |l| l.to);
            back = Some(topo.route(router, b, None));
            topo.route(a, router, None)
        } else {
            topo.route(a, b, hint)
        };
        let control = |kind: MemKind, node, access| {
            (data && moves.controlled[place(kind)]).then(|| log::controller(node, access))
        };
        let write = control(target, b, Access::Write);
        let ends = Ends { back, write, spots: extra.spots };
        let mut trip = Trip { route, lag: super::clock::Time::ZERO, ends: Some(Box::new(ends)) };
        let first = control(source, a, Access::Read).or_else(|| trip.next());
        Some((first, trip))
    }

    /// Stores a message's route and returns its index.
    pub(super) fn keep(&mut self, trip: Trip<'p>) -> u32 {
        let s = &mut self.state;
        let place = s.free_trips.pop().unwrap_or(s.trips.len() as u32);
        match s.trips.get_mut(place as usize) {
            Some(free) => *free = trip,
            None => s.trips.push(trip),
        }
        place
    }

    /// Grants a message the controller that it requested.
    pub(super) fn grant_controller(&mut self, item: Item, (node, access): (DeviceId, Access)) {
        let s = &mut self.state;
        let now = s.now;
        let m = &mut s.messages[item.message() as usize];
        let trip = &mut s.trips[m.trip as usize];
        let spot = trip.ends.as_ref().map_or(0, |e| e.spots[usize::from(access == Access::Write)]);
        let Some(controllers) = &mut s.controllers else { return };
        let (passage, alone) = controllers.pass(node, access, (now, trip.lag), (spot, m.bytes));
        trip.lag = passage.lag;
        let next = trip.next();
        let (what, before, thread, op) = (m.link, m.last, m.thread, m.op);
        m.link = next.unwrap_or(NONE);
        if next.is_none() {
            s.free_trips.push(m.trip);
            m.trip = NONE;
        }
        let (start, end) = (passage.start, passage.start + alone);
        let mut last = self.record(before, Record { start, end, back: 0, thread, op: op | MORE, what });
        let mut then = passage.head;
        if next.is_none() {
            then = passage.head + passage.lag;
            let (start, end) = (passage.head, then);
            last = self.record(last, Record { start, end, back: 0, thread, op, what: TAIL });
        }
        self.state.messages[item.message() as usize].last = last;
        self.at(then, item);
    }
}
