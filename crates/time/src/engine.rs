//! The event engine: it processes the next event and schedules what follows from it.
//!
//! At each moment of simulated time, everything that is due happens first: arrivals, streams that
//! continue, and everything that these do without taking time. Then the links and units that were
//! requested are granted in the order of thread and sequence. So the result does not depend on the
//! order of the heap.

use super::agenda::Item;
use super::clock::Time;
use super::log::{INLET, Last, Log, MORE, Record, controlled};
use super::setup::Setup;
use super::state::{Carrier, Doing, Extra, HeldQueueOp, Message, NONE, State, Trip};
use super::{MessageKind, Observer};
use kbc_ir::walk::{Brief, Fault, TimedOp};
use kbc_machine::topology::{Direction, LinkId};
use std::cmp::Reverse;

/// A simulation in progress.
pub(super) struct Engine<'a, 'p, 'o> {
    pub(super) setup: &'a Setup<'p>,
    pub(super) state: State<'p>,
    pub(super) log: Log,
    /// Receives events, through the functions of [`super::hooks`].
    pub(super) observer: Option<&'o mut dyn Observer>,
    /// Whether the observer wants every operation and hop.
    pub(super) detail: bool,
    /// Threads that can continue now. Empty between steps.
    ready: Vec<u32>,
}

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

impl<'a, 'p, 'o> Engine<'a, 'p, 'o> {
    /// Returns an engine that continues from a state and keeps the records made from there on.
    pub(super) fn new(
        setup: &'a Setup<'p>,
        state: State<'p>,
        observer: Option<&'o mut dyn Observer>,
    ) -> Engine<'a, 'p, 'o> {
        let log = Log::new(setup.kept, state.records);
        let detail = observer.as_ref().is_some_and(|o| o.detail());
        Engine { setup, state, log, observer, detail, ready: vec![] }
    }

    /// Processes one event or grant. Returns false if nothing is left. Between steps the state is
    /// complete, so another engine can continue from it.
    pub(super) fn step(&mut self) -> Result<bool, Fault> {
        let s = &mut self.state;
        if let Some(i) = s.granted {
            match s.requests.get(i).copied() {
                Some(r) => {
                    s.granted = Some(i + 1);
                    self.grant(r);
                    return Ok(true);
                }
                None => {
                    s.requests.clear();
                    s.granted = None;
                }
            }
        }
        let mut next = s.due.get(s.happened).copied();
        if let Some(Reverse(soon)) = s.soon.peek().copied()
            && next.is_none_or(|n| soon < n)
        {
            s.soon.pop();
            next = Some(soon);
        } else if next.is_some() {
            s.happened += 1;
        }
        if let Some(item) = next {
            self.happens(item)?;
            return Ok(true);
        }
        if !s.requests.is_empty() {
            // Usually a few sorted runs, which this sort handles fast.
            s.requests.sort();
            s.granted = Some(0);
            if let Some(ties) = &mut s.ties {
                ties.grants();
            }
            return Ok(true);
        }
        s.due.clear();
        s.happened = 0;
        match s.agenda.take(&mut s.due) {
            Some(time) => {
                s.now = time;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Processes an event: a thread continues, or a message has passed a link.
    fn happens(&mut self, item: Item) -> Result<(), Fault> {
        let message = item.message();
        if message == NONE {
            self.of_itself(item.thread());
            self.advance(item.thread())?;
        } else if self.state.messages[message as usize].link != NONE {
            self.state.requests.push(item);
        } else {
            self.deliver(message);
        }
        while let Some(thread) = self.ready.pop() {
            self.advance(thread)?;
        }
        Ok(())
    }

    /// Notes that a thread continues because of an event of its own rank.
    fn of_itself(&mut self, thread: u32) {
        if let (Some(ties), Some(orbits)) = (&mut self.state.ties, &self.setup.orbits) {
            let rank = self.setup.rank(thread);
            ties.happens(self.state.now, rank);
            ties.caused(orbits, thread, rank);
        }
    }

    /// Schedules an event.
    pub(super) fn at(&mut self, time: Time, item: Item) {
        let s = &mut self.state;
        if time == s.now {
            s.soon.push(Reverse(item));
        } else {
            s.agenda.push(time, item);
        }
    }

    /// Grants the link or the units of a request.
    fn grant(&mut self, item: Item) {
        let s = &mut self.state;
        let now = s.now;
        let place = item.message();
        if place == NONE {
            return self.grant_units(item.thread());
        }
        let m = &mut s.messages[place as usize];
        if m.link == INLET {
            return self.grant_inlet(item);
        }
        if let Some(controller) = controlled(m.link) {
            return self.grant_controller(item, controller);
        }
        let link = LinkId(m.link);
        let lag = if m.trip == NONE { Time::ZERO } else { s.trips[m.trip as usize].lag };
        let mut simulated = link;
        if let (Some(ties), Some(orbits)) = (&mut s.ties, &self.setup.orbits) {
            let turn;
            (simulated, turn) = self.setup.split_link(link);
            let from = orbits.act(orbits.inverse(turn), self.setup.rank(m.thread));
            ties.link(orbits, simulated, from, m.bytes);
        }
        let passage = s.links.pass(self.setup.topo, simulated, now, lag, m.bytes);
        let next = match m.trip {
            NONE => None,
            trip => {
                let trip = &mut s.trips[trip as usize];
                trip.lag = passage.lag;
                trip.next()
            }
        };
        let (end, op) = match next {
            Some(next) => {
                m.link = next;
                (passage.head, m.op | MORE)
            }
            None => {
                let info = &self.setup.ops[m.op as usize];
                m.link = if info.taken_in { INLET } else { NONE };
                if m.trip != NONE {
                    s.free_trips.push(m.trip);
                    m.trip = NONE;
                }
                (passage.head + if info.drains { Time::ZERO } else { passage.lag }, m.op)
            }
        };
        let (last, thread) = (m.last, m.thread);
        let record =
            self.record(last, Record { start: passage.start, end, back: 0, thread, op, what: link.0 });
        self.state.messages[place as usize].last = record;
        if self.detail {
            self.report_pass(place, link, &passage);
        }
        self.at(end, item);
    }

    /// Adds a record of a step that became possible with the end of another one.
    pub(super) fn record(&mut self, before: Last, record: Record) -> Last {
        if !self.setup.path {
            return before;
        }
        self.state.records += 1;
        let number = self.state.records;
        let back = match before.number() {
            0 => 0,
            before => u32::try_from(number - before).unwrap_or(u32::MAX),
        };
        self.log.push(number, Record { back, ..record }, before.turn());
        Last::new(number)
    }

    /// Lets a thread continue at a time.
    pub(super) fn later(&mut self, time: Time, thread: u32) {
        let sequence = self.state.threads[thread as usize].sequence;
        self.at(time, Item::new(thread, sequence, NONE));
    }

    /// Returns the additional data of a message.
    pub(super) fn extra(&self, place: u32) -> Extra {
        self.state.extra.get(place as usize).copied().unwrap_or_default()
    }

    /// Delivers a message.
    fn deliver(&mut self, place: u32) {
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
        if from != to {
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
                // The route back reverses the route there.
                let hint = self.setup.ops[m.op as usize].hint.map(|d| match d {
                    Direction::Plus => Direction::Minus,
                    Direction::Minus => Direction::Plus,
                });
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
                self.send(reply, to, from, hint, sequence, extra);
            }
            MessageKind::Reply => {
                let t = &mut self.state.threads[m.thread as usize];
                t.gets -= 1;
                if let (Doing::Gets(op), 0) = (t.doing, t.gets) {
                    t.last = cause;
                    self.of_itself(m.thread);
                    if self.detail {
                        self.report_woken(m.thread);
                    }
                    if self.fence(m.thread, op) {
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
    fn send(
        &mut self,
        mut m: Message,
        from: u64,
        to: u64,
        hint: Option<Direction>,
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
        } else if let Some((first, trip)) = self.data_route(&m, (from, to), hint, &extra) {
            m.link = first.unwrap_or(NONE);
            if first.is_some() {
                m.trip = self.keep(trip);
            }
        } else {
            self.leads(&mut m, from, to, hint);
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
        let place = s.free.pop().unwrap_or(s.messages.len() as u32);
        match s.messages.get_mut(place as usize) {
            Some(free) => *free = m,
            None => s.messages.push(m),
        }
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
    fn leads(&mut self, m: &mut Message, from: u64, to: u64, hint: Option<Direction>) {
        let near = self.state.threads[m.thread as usize].near;
        if m.kind != MessageKind::Reply && near[..2] == [to as u32, m.op] {
            m.link = near[2];
            return;
        }
        let mut route = self.setup.topo.route(self.setup.device(from), self.setup.device(to), hint);
        m.link = route.next().map_or(NONE, |l| l.0);
        if route.len() > 0 {
            m.trip = self.keep(Trip { route, lag: Time::ZERO, ends: None });
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
        let hint = self.setup.ops[op as usize].hint;
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
        (self.send(message, from, letter.peer, hint, sequence, extra), sequence)
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

    /// Notes that a thread finds a counter high enough.
    fn passes(&mut self, thread: u32, counter: usize) {
        if let (Some(ties), Some(orbits)) = (&mut self.state.ties, &self.setup.orbits) {
            ties.passes(orbits, thread, counter);
        }
    }

    /// Notes that a thread finds an event recorded.
    fn awaited(&mut self, thread: u32, event: usize) {
        if let (Some(ties), Some(orbits)) = (&mut self.state.ties, &self.setup.orbits) {
            ties.awaited(orbits, thread, event);
        }
    }

    /// Wakes a blocked thread. The cause has already been reported to the observer.
    fn wake(&mut self, thread: u32) {
        if self.detail {
            self.report_woken(thread);
        }
        self.go(thread);
    }

    fn go(&mut self, thread: u32) {
        self.state.threads[thread as usize].doing = Doing::Busy;
        self.ready.push(thread);
    }

    /// Lets a thread do everything that it can do now.
    fn advance(&mut self, thread: u32) -> Result<(), Fault> {
        let setup = self.setup;
        let regions = setup.program.schedule.regions.len();
        let mut next = (Brief::Over, 0);
        if let Some(held) = self.state.held.remove(&thread)
            && !self.resume(thread, held)
        {
            return Ok(());
        }
        loop {
            let s = &mut self.state;
            s.walks.next(&setup.outline, thread as usize, &mut next).map_err(|f| *f)?;
            if self.detail {
                self.report_step(thread, &next);
            }
            let s = &mut self.state;
            match next.0 {
                Brief::Enter(r) | Brief::Leave(r) => {
                    let (now, call) = (s.now, s.threads[thread as usize].call);
                    let span = s.span(call.into(), r.0 as usize, regions);
                    *span = Some(match (*span, next.0) {
                        (None, _) => (now, now),
                        (Some((first, last)), Brief::Enter(_)) => (first.min(now), last),
                        (Some((first, last)), _) => (first, last.max(now)),
                    });
                }
                Brief::Over => {
                    if self.over(thread) {
                        return Ok(());
                    }
                }
                Brief::Op(ref op) => {
                    if !self.act(thread, op, next.1)? {
                        if self.detail {
                            self.report_held(thread);
                        }
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Ends a call of a thread. Returns whether it was the last one.
    fn over(&mut self, thread: u32) -> bool {
        let s = &mut self.state;
        let (now, place) = (s.now, self.setup.place(thread) as usize);
        let t = &mut s.threads[thread as usize];
        let call = t.call as usize;
        t.call += 1;
        let over = t.call == self.setup.calls;
        if over {
            t.doing = Doing::Done;
            let account = &mut s.accounts[place];
            if now > account.finish {
                (account.finish, account.last) = (now, t.last);
            }
            if let (Some(ties), Some(orbits)) = (&mut s.ties, &self.setup.orbits) {
                ties.finishes(orbits, place, Some(thread));
            }
            s.live -= 1;
        } else {
            s.walks.restart(&self.setup.outline, thread as usize, t.call.into());
        }
        if s.calls.len() <= call {
            s.calls.resize(call + 1, Time::ZERO);
        }
        s.calls[call] = s.calls[call].max(now);
        over
    }

    /// Performs an operation of a thread. Returns whether the thread can continue at once.
    #[inline]
    fn act(&mut self, thread: u32, act: &TimedOp<'p>, op: u32) -> Result<bool, Fault> {
        let setup = self.setup;
        let s = &mut self.state;
        let t = &mut s.threads[thread as usize];
        match *act {
            TimedOp::FenceRelease | TimedOp::FenceAcquire => return Ok(self.fence(thread, op)),
            TimedOp::FenceComplete => {
                if t.gets > 0 {
                    t.doing = Doing::Gets(op);
                    return Ok(false);
                }
                return Ok(self.fence(thread, op));
            }
            TimedOp::Mark(()) => return Ok(true),
            _ => {} // The match below has every operation.
        }
        let carrier = t.carrier.take();
        match *act {
            TimedOp::Put { peer, src: bytes, dst: () } => {
                let spots = self.spots(thread, false, peer);
                let letter =
                    OutgoingMessage { kind: MessageKind::Put, peer, bytes, reply: 0, counter: NONE, spots };
                let (message, sequence) = self.post(thread, op, letter);
                let (sequence, peer) = (sequence as u32, peer as u32);
                self.state.threads[thread as usize].carrier = Some(Carrier { message, sequence, peer });
                return Ok(!self.holds_core(thread, op, peer.into(), bytes));
            }
            TimedOp::Get { peer, dst: bytes, src: () } => {
                t.gets += 1;
                let (kind, reply) = (MessageKind::Request, bytes);
                let (spots, asks) = (self.spots(thread, true, peer), setup.signal_bytes);
                self.post(
                    thread,
                    op,
                    OutgoingMessage { kind, peer, bytes: asks, reply, counter: NONE, spots },
                );
                return Ok(!self.holds_core(thread, op, peer, bytes));
            }
            TimedOp::Send { .. } | TimedOp::Recv { .. } | TimedOp::Room { .. } => {
                let since = Some(s.now);
                return Ok(self.queue(thread, HeldQueueOp { act: *act, op, since }));
            }
            TimedOp::Notify { peer, counter } => self.notify(thread, op, peer, counter, carrier),
            TimedOp::Wait { counter, value } => {
                let number = setup.counter(setup.place(thread), counter);
                if !s.spend(setup.program, counter, number, value) {
                    s.threads[thread as usize].doing = Doing::Counter(counter, value);
                    return Ok(false);
                }
                self.passes(thread, number);
            }
            TimedOp::Record(event) => {
                let (call, last) = (t.call, t.last);
                let place = setup.place(thread);
                let number = setup.event(place, event);
                s.recorded[number] = i64::from(call) + 1;
                if let Some(ties) = &mut s.ties {
                    ties.recorded(thread, number);
                }
                for other in setup.threads(place) {
                    let o = &mut self.state.threads[other as usize];
                    if o.doing == Doing::Event(event) && o.call <= call {
                        o.last = last;
                        self.wake(other);
                        self.awaited(other, number);
                    }
                }
            }
            TimedOp::Await(event) => {
                let number = setup.event(setup.place(thread), event);
                if s.recorded[number] <= t.call.into() {
                    t.doing = Doing::Event(event);
                    return Ok(false);
                }
                self.awaited(thread, number);
            }
            TimedOp::Copy { .. } | TimedOp::Reduce { .. } | TimedOp::Local(_) => {
                return self.work(thread, act, op);
            }
            TimedOp::HostRead(buffer) => {
                let (rank, now) = (setup.rank(thread), s.now);
                if let Some(o) = &mut self.observer {
                    o.host_read(rank, buffer, now.ns());
                }
            }
            // These were performed above, since they keep the put before them.
            TimedOp::FenceRelease | TimedOp::FenceAcquire | TimedOp::FenceComplete | TimedOp::Mark(()) => {}
            TimedOp::Host(host) => match host {},
        }
        Ok(true)
    }

    /// Sends a notify: with the preceding put if that goes to the same peer, otherwise alone.
    fn notify(&mut self, thread: u32, op: u32, peer: u64, counter: u32, carrier: Option<Carrier>) {
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
