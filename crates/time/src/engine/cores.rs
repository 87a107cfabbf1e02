//! The engine's part of cores: when a message leaves its core, and notifies through memory.

use super::Engine;
use crate::MessageKind;
use crate::agenda::{Item, NONE};
use crate::channels::TransferDirection;
use crate::clock::Time;
use crate::cores::Cores;
use crate::log::{CORE, HELD, Last, MORE, NOTIFY, Record};
use crate::state::Trip;
use kbc_machine::topology::cores::Mover;
use kbc_machine::topology::{DeviceId, WayOfMessage};

impl Engine<'_, '_, '_> {
    /// Lets a message leave its core, and returns the time at which it requests its first link. A
    /// transfer of a copying queue first waits until the queue has performed the earlier ones.
    pub(super) fn leaves_core(&mut self, item: Item) -> Time {
        let now = self.state.now;
        let place = item.message();
        let m = self.state.messages[place as usize];
        let Some((cores, mover)) = self.mover(m.op) else { return now };
        let here = self.setup.rank(m.thread);
        let peer = if m.kind == MessageKind::Reply { m.counter.into() } else { u64::from(m.to) };
        let (here, peer) = (self.setup.device(here), self.setup.device(peer));
        let [there, back] = self.latencies(here, peer, m.op);
        // Bytes that the core moves, the least time of a tile, and the latencies until the head
        // arrives.
        let (bytes, waits, head) = match m.kind {
            MessageKind::Put => (m.bytes, 0.0, there),
            MessageKind::Request => (self.extra(place).reply, there + back, 0.0),
            MessageKind::Reply => (m.bytes, there + back, there + back),
            MessageKind::Notify => return now,
        };
        let held = Time::from_ns(mover.ns(bytes, waits));
        let behind = held.since(Time::from_ns(head));
        let (mut start, mut lag) = (now, Time::ZERO);
        if m.kind != MessageKind::Reply && matches!(mover, Mover::Queue { .. }) {
            let free = &mut self.state.cores[m.thread as usize];
            start = now.max(*free);
            *free = start + held;
        }
        if m.kind != MessageKind::Request {
            lag = behind;
        }
        let (thread, op) = (m.thread, m.op | MORE);
        let record = Record { start, end: start + lag, back: 0, thread, op, what: CORE };
        let last = if start > now || lag > Time::ZERO { self.record(m.last, record) } else { m.last };
        self.state.messages[place as usize].last = last;
        if cores.stored {
            return start + lag;
        }
        if lag > Time::ZERO {
            self.trails(place, lag);
        }
        start
    }

    /// Returns the limit on the data of an operation, if the machine sets one.
    fn mover(&self, op: u32) -> Option<(Cores, Mover)> {
        let cores = self.setup.cores?;
        let mover = match self.setup.ops[op as usize].channel? {
            TransferDirection::Read => cores.get?,
            TransferDirection::Write => cores.put?,
        };
        Some((cores, mover))
    }

    /// Returns the nanoseconds of latency from one device to another, and back. The data of the put
    /// or get passes its relays.
    fn latencies(&self, here: DeviceId, peer: DeviceId, op: u32) -> [f64; 2] {
        let latency = |from, to, way| self.setup.topo.route_cost(from, to, way).latency_ns;
        let info = &self.setup.ops[op as usize];
        let data = WayOfMessage { hint: None, ..info.way };
        match info.channel {
            Some(TransferDirection::Read) => {
                [latency(here, peer, WayOfMessage::default()), latency(peer, here, data)]
            }
            _ => [latency(here, peer, data), latency(peer, here, WayOfMessage::default())],
        }
    }

    /// Starts the core's work on a put or get that a thread has issued. Returns false if the thread
    /// can continue at once.
    pub(super) fn holds_core(&mut self, thread: u32, op: u32, peer: u64, bytes: u64) -> bool {
        let own = self.setup.rank(thread);
        let Some((_, mover @ Mover::Tiles { .. })) = self.mover(op).filter(|_| own != peer) else {
            return false;
        };
        let way = self.latencies(self.setup.device(own), self.setup.device(peer), op);
        let reads = self.setup.ops[op as usize].channel == Some(TransferDirection::Read);
        let held = Time::from_ns(mover.ns(bytes, if reads { way[0] + way[1] } else { 0.0 }));
        if held == Time::ZERO {
            return false;
        }
        let (start, last) = (self.state.now, self.state.threads[thread as usize].last);
        let end = start + held;
        let last = self.record(last, Record { start, end, back: 0, thread, op, what: HELD });
        self.state.threads[thread as usize].last = last;
        self.later(end, thread);
        true
    }

    /// Sets the initial distance of a message's tail behind its head.
    fn trails(&mut self, place: u32, lag: Time) {
        let m = self.state.messages[place as usize];
        if m.trip == NONE {
            let device = self.setup.device(m.to.into());
            let route = self.setup.topo.route(device, device, None);
            let trip = self.state.keep_trip(Trip { route, lag, ends: None });
            self.state.messages[place as usize].trip = trip;
        } else {
            self.state.trips[m.trip as usize].lag = lag;
        }
    }

    /// Issues a notify through memory. It takes effect after its time, counted from when nothing
    /// holds it back. `after` is the number of puts that must have arrived first.
    pub(super) fn notifies(&mut self, place: u32, after: u64) {
        let m = self.state.messages[place as usize];
        let from = self.setup.rank(m.thread);
        if self.state.notify_order.pass(from, m.to.into(), place, after) {
            self.notified(place, m.last);
        }
    }

    /// Starts the time of a notify that nothing holds back any more, because of `cause`.
    pub(super) fn notified(&mut self, place: u32, cause: Last) {
        let m = self.state.messages[place as usize];
        let (here, peer) = (self.setup.rank(m.thread), u64::from(m.to));
        let time = self.setup.cores.and_then(|c| c.notify).unwrap_or(0.0);
        let way = self.setup.topo.route_cost(self.setup.device(here), self.setup.device(peer), None);
        let time = if here == peer { Time::ZERO } else { Time::from_ns(time.max(way.latency_ns)) };
        let (start, end) = (self.state.now, self.state.now + time);
        let record = Record { start, end, back: 0, thread: m.thread, op: m.op, what: NOTIFY };
        let last = self.record(cause, record);
        self.state.messages[place as usize].last = last;
        let item = Item::new(m.thread, self.sequence(&m), place);
        self.at(end, item);
    }
}
