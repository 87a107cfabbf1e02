//! The engine's part of data in memories that are nodes: routes between ports, and controllers.

use super::Engine;
use crate::MessageKind;
use crate::agenda::{Item, NONE};
use crate::clock::Time;
use crate::controllers::Access;
use crate::log::{self, MORE, Record, TAIL};
use crate::moves::{self, Ends};
use crate::state::{Extra, Message, Trip};
use kbc_ir::types::MemKind;
use kbc_machine::topology::{DeviceId, WayOfMessage};

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
        way: WayOfMessage<'p>,
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
            topo.route(a, b, way)
        };
        let control = |kind: MemKind, node, access| {
            (data && moves.controlled[moves::place(kind)]).then(|| log::controller(node, access))
        };
        let write = control(target, b, Access::Write);
        let ends = Ends { back, write, spots: extra.spots };
        let mut trip = Trip { route, lag: Time::ZERO, ends: Some(Box::new(ends)) };
        let first = control(source, a, Access::Read).or_else(|| trip.next());
        Some((first, trip))
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
