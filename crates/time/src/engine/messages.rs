//! Messages: they are sent, they leave, they are delivered, and notifies increment counters.

use super::Engine;
use crate::MessageKind;
use crate::agenda::{Item, NONE};
use crate::clock::Time;
use crate::log::{INLET, Last};
use crate::setup::GET_COMBINE;
use crate::state::{Carrier, Doing, Extra, HeldOp, Message, Trip};
use kbc_ir::walk::TimedOp;
use kbc_machine::topology::{Direction, WayOfMessage};

/// A message as a thread sends it.
pub(super) struct OutgoingMessage {
    pub(super) kind: MessageKind,
    pub(super) peer: u64,
    pub(super) bytes: u64,
    pub(super) reply: u64,
    pub(super) counter: u32,
    /// First bytes of its data at the source and at the destination, if controllers need them.
    pub(super) spots: [u64; 2],
}

/// Returns the way of the data of a get, given that of its request. The data passes the relays.
pub(super) fn reversed(way: WayOfMessage<'_>) -> WayOfMessage<'_> {
    let hint = way.hint.map(|d| match d {
        Direction::Plus => Direction::Minus,
        Direction::Minus => Direction::Plus,
    });
    WayOfMessage { hint, ..way }
}

impl<'p> Engine<'_, 'p, '_> {
    /// Delivers a message, with those that have gone on as part of it.
    pub(super) fn deliver(&mut self, place: u32) {
        let m = self.state.messages[place as usize];
        let asked = m.kind == MessageKind::Request;
        let group = match &mut self.state.network {
            Some(network) if !asked => network.delivers(place),
            _ => None,
        };
        let (parts, adds) = group.unwrap_or_else(|| {
            (vec![], m.kind == MessageKind::Reply && self.setup.ops[m.op as usize].name == GET_COMBINE)
        });
        if adds {
            let t = &mut self.state.threads[m.thread as usize];
            t.combines = t.combines.saturating_add(m.bytes);
        }
        if parts.is_empty() {
            return self.arrives(place, false);
        }
        let messages = &mut self.state.messages;
        let mut all: Vec<u32> = parts.into_iter().chain([place]).collect();
        all.sort_by_key(|p| messages[*p as usize].sequence);
        for &one in all.iter().filter(|one| **one != place) {
            let p = &mut messages[one as usize];
            (p.link, p.last) = (NONE, m.last);
            let trip = std::mem::replace(&mut p.trip, NONE);
            if trip != NONE {
                self.state.free_trips.push(trip);
            }
        }
        all.into_iter().for_each(|one| self.arrives(one, one != place));
    }

    /// Lets a message arrive. The bytes of a part of another message are that message's.
    fn arrives(&mut self, place: u32, part: bool) {
        let s = &mut self.state;
        let m = s.messages[place as usize];
        s.messages[place as usize].thread = NONE;
        s.free.push(place);
        if m.to == NONE {
            return self.free_channel(m.counter, m.op, m.last);
        }
        let s = &mut self.state;
        let now = s.now;
        s.delivered += 1;
        let from = match m.kind {
            MessageKind::Reply => u64::from(m.counter),
            _ => self.setup.rank(m.thread),
        };
        let to = self.setup.turned(m.turn.into(), self.setup.first(m.to));
        // The cause, as the receiver sees it.
        let cause = self.setup.back(m.last, m.turn.into());
        let data = matches!(m.kind, MessageKind::Put | MessageKind::Reply) && m.bytes > 0;
        if let (Some(ties), Some(orbits)) = (&mut s.ties, &self.setup.orbits) {
            let back = orbits.inverse(m.turn.into());
            ties.happens(now, orbits.act(back, self.setup.rank(m.thread)));
            if data {
                ties.finishes(orbits, m.to as usize, None);
            }
        }
        let account = &mut s.accounts[m.to as usize];
        if from != to && !part {
            account.received += m.bytes;
        }
        if data && now > account.finish {
            (account.finish, account.last) = (now, cause);
        }
        if self.observer.is_some() {
            self.report_delivered(&m, place);
        }
        if self.state.channels.is_some() && self.extra(place).held {
            match m.kind {
                MessageKind::Put => self.acknowledge(&m, from, to),
                MessageKind::Reply => self.free_channel(m.thread, m.op, cause),
                MessageKind::Notify | MessageKind::Request => {}
            }
        }
        match m.kind {
            MessageKind::Put | MessageKind::Notify => {
                if self.setup.unordered {
                    return self.arrive(&m, from, place);
                }
                if m.counter != NONE {
                    self.signal(m.to, m.counter, cause);
                }
            }
            MessageKind::Request => {
                // The route back reverses the route there, and the data passes the relays.
                let way = reversed(self.setup.ops[m.op as usize].way);
                let extra = Extra { sent: now, ..self.extra(place) };
                let reply = Message {
                    kind: MessageKind::Reply,
                    counter: to as u32,
                    to: self.setup.place(m.thread),
                    turn: 0,
                    bytes: extra.reply,
                    ..m
                };
                let sequence = self.sequence(&m);
                let member = self.state.network.as_mut().and_then(|n| n.asks(place));
                let reply = self.send(reply, to, from, way, sequence, extra);
                if let (Some(member), Some(network)) = (member, &mut self.state.network) {
                    network.answers(self.setup.topo, reply, member);
                }
            }
            MessageKind::Reply => {
                let t = &mut self.state.threads[m.thread as usize];
                t.gets -= 1;
                if let (Doing::Gets(op), 0) = (t.doing, t.gets) {
                    t.last = cause;
                    let (act, since) = (TimedOp::FenceComplete, None);
                    if t.combines > 0 {
                        self.state.held.entry(m.thread).or_insert(HeldOp { act, op, since, moved: None });
                    }
                    self.of_itself(m.thread);
                    if self.detail {
                        self.report_woken(m.thread);
                    }
                    // An operation that is held is performed when the thread goes on.
                    if self.state.held.contains_key(&m.thread) || self.fence(m.thread, op) {
                        self.go(m.thread);
                    }
                }
            }
        }
    }

    /// Returns the full sequence number of a message, which keeps its low 32 bits only: the latest
    /// number of its thread with these bits.
    pub(super) fn sequence(&self, m: &Message) -> u64 {
        let next = self.state.threads[m.thread as usize].sequence;
        let back = (next as u32).wrapping_sub(m.sequence);
        next - u64::from(back)
    }

    /// Sends a message from one rank to another. Returns its index.
    pub(super) fn send(
        &mut self,
        mut m: Message,
        from: u64,
        to: u64,
        way: WayOfMessage<'p>,
        sequence: u64,
        mut extra: Extra,
    ) -> u32 {
        if self.detail {
            self.report_sent(&m);
        }
        let s = &mut self.state;
        if from != to {
            s.accounts[self.setup.split(from).0 as usize].sent += m.bytes;
        }
        let through_memory = m.kind == MessageKind::Notify && self.setup.through_memory();
        if through_memory {
            // It passes no link.
        } else if let Some((first, trip)) = self.data_route(&m, (from, to), way, &extra) {
            m.link = first.unwrap_or(NONE);
            if first.is_some() {
                m.trip = self.state.keep_trip(trip);
            }
        } else {
            self.leads(&mut m, from, to, way);
        }
        if m.link == NONE && self.setup.ops[m.op as usize].taken_in {
            m.link = INLET;
        }
        let s = &mut self.state;
        let needs = match self.setup.ops[m.op as usize].channel {
            Some(way) if m.kind != MessageKind::Reply && m.link != NONE && s.channels.is_some() => Some(way),
            _ => None,
        };
        extra.held |= needs.is_some();
        let place = s.keep_message(m);
        if self.setup.extra || self.observer.is_some() {
            s.extra.resize(s.messages.len(), Extra::default());
            s.extra[place as usize] = extra;
        }
        if through_memory {
            self.notifies(place, extra.after);
            return place;
        }
        let item = Item::new(m.thread, sequence, place);
        let device = self.setup.place(m.thread);
        let enters = match (&mut s.channels, needs) {
            (Some(channels), Some(way)) => channels.enter(device, way, item),
            _ => true,
        };
        if enters {
            self.leaves(item);
        }
        place
    }

    /// Gives a message the route from device to device.
    pub(super) fn leads(&mut self, m: &mut Message, from: u64, to: u64, way: WayOfMessage<'p>) {
        let near = self.state.threads[m.thread as usize].near;
        if m.kind != MessageKind::Reply && near[..2] == [to as u32, m.op] {
            m.link = near[2];
            return;
        }
        let mut route = self.setup.topo.route(self.setup.device(from), self.setup.device(to), way);
        m.link = route.next().map_or(NONE, |l| l.0);
        if route.len() > 0 || self.setup.topo.is_adaptive() {
            m.trip = self.state.keep_trip(Trip { route, lag: Time::ZERO, ends: None });
        } else if m.kind != MessageKind::Reply {
            self.state.threads[m.thread as usize].near = [to as u32, m.op, m.link];
        }
    }

    /// Lets a message request its first link.
    pub(super) fn leaves(&mut self, item: Item) {
        let s = &mut self.state;
        let linked = ![NONE, INLET].contains(&s.messages[item.message() as usize].link);
        let mut time = s.now;
        if linked {
            let core = if self.setup.cores.is_some() { self.leaves_core(item) } else { time };
            time = core + self.setup.endpoint;
        }
        if linked && time == self.state.now {
            self.state.requests.push(item);
        } else {
            self.at(time, item);
        }
    }

    /// Sends a message of a thread. Returns its index and its sequence number.
    pub(super) fn post(&mut self, thread: u32, op: u32, letter: OutgoingMessage) -> (u32, u64) {
        let mut way = self.setup.ops[op as usize].way;
        if letter.kind == MessageKind::Request {
            // The relays are those of the data.
            way.via = &[];
        }
        let from = self.setup.rank(thread);
        let s = &mut self.state;
        let (reply, spots) = (letter.reply, letter.spots);
        let mut extra = Extra { sent: s.now, reply, spots, ..Extra::default() };
        if self.setup.unordered {
            match letter.kind {
                MessageKind::Put => extra.number = s.notify_order.put(from, letter.peer),
                _ => extra.after = s.notify_order.sent(from, letter.peer),
            }
        }
        let t = &mut s.threads[thread as usize];
        let sequence = t.sequence;
        t.sequence += 1;
        let (to, turn) = self.setup.split(letter.peer);
        let message = Message {
            kind: letter.kind,
            thread,
            sequence: sequence as u32,
            op,
            to,
            turn: turn as u16,
            bytes: letter.bytes,
            counter: letter.counter,
            last: t.last,
            link: NONE,
            trip: NONE,
        };
        (self.send(message, from, letter.peer, way, sequence, extra), sequence)
    }

    /// Increments a counter; `cause` is the record that leads to it.
    pub(super) fn signal(&mut self, place: u32, counter: u32, cause: Last) {
        let number = self.setup.counter(place, counter);
        if let (Some(ties), Some(orbits)) = (&mut self.state.ties, &self.setup.orbits) {
            ties.counted(orbits, number);
        }
        let value = &mut self.state.counters[number];
        *value = value.saturating_add(1);
        self.conserved(place, counter);
        for thread in self.setup.threads(place) {
            if let Doing::Counter(c, wanted) = self.state.threads[thread as usize].doing
                && c == counter
                && self.state.spend(self.setup.program, counter, number, wanted)
            {
                self.state.threads[thread as usize].last = cause;
                self.wake(thread);
                self.passes(thread, number);
            }
        }
    }

    /// Sends a notify: with the preceding put if that goes to the same peer, otherwise alone.
    pub(super) fn notify(&mut self, thread: u32, op: u32, peer: u64, counter: u32, carrier: Option<Carrier>) {
        let through_memory = self.setup.through_memory();
        let Some(c) = carrier.filter(|c| u64::from(c.peer) == peer && !through_memory) else {
            let bytes = if through_memory { 0 } else { self.setup.signal_bytes };
            let (kind, spots) = (MessageKind::Notify, [0; 2]);
            self.post(thread, op, OutgoingMessage { kind, peer, bytes, reply: 0, counter, spots });
            return;
        };
        let s = &mut self.state;
        let m = &mut s.messages[c.message as usize];
        let there = m.thread != thread || m.sequence != c.sequence;
        if !there {
            m.counter = counter;
        }
        if !self.setup.unordered {
            if there {
                // A fence took longer than the message, which has already arrived.
                let (place, turn) = self.setup.split(peer);
                let cause = self.setup.back(s.threads[thread as usize].last, turn);
                if let Some(ties) = &mut s.ties {
                    // It takes effect with the event that let this thread continue, in the order of
                    // that event.
                    ties.forked = true;
                }
                self.signal(place, counter, cause);
            }
            return;
        }
        let from = self.setup.rank(thread);
        let after = s.notify_order.sent(from, peer);
        if !there {
            s.extra[c.message as usize].after = after;
        } else if s.notify_order.pass(from, peer, counter, after) {
            let cause = s.threads[thread as usize].last;
            self.signal(peer as u32, counter, cause);
        }
    }
}
