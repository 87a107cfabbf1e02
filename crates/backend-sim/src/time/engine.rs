//! The engine: what happens next, and what follows from it.
//!
//! At one moment of simulated time first everything happens that was to happen now (arrivals, streams that go on, and
//! whatever they do without taking time), then the links and units asked for are granted in the order of thread and
//! sequence. So the result does not depend on the order of the heap.

use super::clock::Time;
use super::log::{FENCE, Log, MORE, Record, WORK};
use super::setup::Setup;
use super::state::{Carrier, Doing, Event, Message, NONE, Request, State};
use super::work::{self, Unit};
use super::{MessageKind, Observer};
use kbc_ir::topology::Direction;
use kbc_ir::walk::{Act, Cursor, Fault, Step};
use std::cmp::Reverse;

/// A simulation on its way.
pub(super) struct Engine<'a, 'p, 'o> {
    pub(super) setup: &'a Setup<'p>,
    pub(super) state: State<'p>,
    pub(super) log: Log,
    /// Told what happens, by the functions of [`super::hooks`].
    pub(super) observer: Option<&'o mut dyn Observer>,
    /// It wants to be told of every operation and hop.
    detail: bool,
    /// Threads that can go on now; empty between steps.
    ready: Vec<u32>,
}

/// What a thread sends.
struct Letter {
    kind: MessageKind,
    peer: u64,
    bytes: u64,
    reply: u64,
    counter: u32,
}

impl<'a, 'p, 'o> Engine<'a, 'p, 'o> {
    /// Goes on from a state; keeps the records made from there on.
    pub(super) fn new(
        setup: &'a Setup<'p>,
        state: State<'p>,
        observer: Option<&'o mut dyn Observer>,
    ) -> Engine<'a, 'p, 'o> {
        let log = Log::new(setup.kept, state.records);
        let detail = observer.as_ref().is_some_and(|o| o.detail());
        Engine { setup, state, log, observer, detail, ready: vec![] }
    }

    /// Lets one thing happen; false if nothing can. Between steps the state is complete: another engine can go on.
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
        match s.events.peek() {
            Some(Reverse(e)) if e.time == s.now || s.requests.is_empty() => {
                s.now = e.time;
                let thread = e.thread;
                let message = e.message;
                s.events.pop();
                if message == NONE {
                    self.ready.push(thread);
                } else if s.messages[message as usize].route.len() > 0 {
                    let sequence = s.messages[message as usize].sequence;
                    s.requests.push(Request { thread, sequence, message });
                } else {
                    self.deliver(message);
                }
                while let Some(thread) = self.ready.pop() {
                    self.go_on(thread)?;
                }
                Ok(true)
            }
            _ if !s.requests.is_empty() => {
                s.requests.sort_unstable();
                s.granted = Some(0);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Gives someone the link or the units it asked for.
    fn grant(&mut self, r: Request) {
        let s = &mut self.state;
        let now = s.now;
        if r.message == NONE {
            let (op, times) = s.threads[r.thread as usize].asked;
            let rank = self.setup.rank(r.thread);
            let behind = if self.detail { s.units[rank as usize].behind(now, &times) } else { None };
            let (start, end, unit) = s.units[rank as usize].work(now, &times);
            let last = s.threads[r.thread as usize].last;
            let what = WORK - Unit::ALL.iter().position(|u| *u == unit).unwrap_or(0) as u32;
            let record = self.record(last, Record { start, end, back: 0, thread: r.thread, op, what });
            self.state.threads[r.thread as usize].last = record;
            self.later(end, r.thread);
            self.tell_work(r.thread, (start, end, unit), behind);
            return;
        }
        let m = &mut s.messages[r.message as usize];
        let Some(link) = m.route.next() else { return };
        let passage = s.links.pass(self.setup.topo, link, now, m.lag, m.bytes);
        m.lag = passage.lag;
        let more = m.route.len() > 0;
        let end = if more { passage.head } else { passage.head + passage.lag };
        let op = if more { m.op | MORE } else { m.op };
        let (last, thread) = (m.last, m.thread);
        let record =
            self.record(last, Record { start: passage.start, end, back: 0, thread, op, what: link.0 });
        self.state.messages[r.message as usize].last = record;
        if self.detail {
            self.tell_pass(r.message, link, &passage);
        }
        self.state.events.push(Reverse(Event {
            time: end,
            thread,
            sequence: r.sequence,
            message: r.message,
        }));
    }

    /// Adds a record that was possible after another one.
    fn record(&mut self, before: u64, record: Record) -> u64 {
        if !self.setup.path {
            return 0;
        }
        self.state.records += 1;
        let number = self.state.records;
        let back = if before == 0 { 0 } else { u32::try_from(number - before).unwrap_or(u32::MAX) };
        self.log.push(number, Record { back, ..record });
        number
    }

    /// A thread goes on at a time.
    fn later(&mut self, time: Time, thread: u32) {
        let sequence = self.state.threads[thread as usize].sequence;
        self.state.events.push(Reverse(Event { time, thread, sequence, message: NONE }));
    }

    /// A message is where it goes.
    fn deliver(&mut self, place: u32) {
        let m = self.state.messages[place as usize].clone();
        self.state.messages[place as usize].thread = NONE;
        self.state.free.push(place);
        let s = &mut self.state;
        let now = s.now;
        s.delivered += 1;
        if m.from != m.to {
            s.accounts[m.to as usize].received += m.bytes;
        }
        let data = matches!(m.kind, MessageKind::Put | MessageKind::Reply) && m.bytes > 0;
        let account = &mut s.accounts[m.to as usize];
        if data && now > account.finish {
            (account.finish, account.last) = (now, m.last);
        }
        self.tell_delivered(&m);
        match m.kind {
            MessageKind::Put | MessageKind::Notify => {
                if m.kind == MessageKind::Put {
                    for counter in self.state.ways.arrived(m.from, m.to, m.way) {
                        self.signal(m.to, counter, m.last);
                    }
                }
                if m.counter != NONE && self.state.ways.pass(m.from, m.to, m.counter, m.after) {
                    self.signal(m.to, m.counter, m.last);
                }
            }
            MessageKind::Request => {
                // The way back is the way there.
                let hint = self.setup.ops[m.op as usize].hint.map(|d| match d {
                    Direction::Plus => Direction::Minus,
                    Direction::Minus => Direction::Plus,
                });
                let route = self.setup.topo.route(self.setup.device(m.to), self.setup.device(m.from), hint);
                self.send(Message {
                    kind: MessageKind::Reply,
                    from: m.to,
                    to: m.from,
                    bytes: m.reply,
                    sent: now,
                    route,
                    lag: Time::ZERO,
                    ..m
                });
            }
            MessageKind::Reply => {
                let t = &mut self.state.threads[m.thread as usize];
                t.gets -= 1;
                if let (Doing::Gets(op), 0) = (t.doing, t.gets) {
                    t.last = m.last;
                    if self.detail {
                        self.tell_woken(m.thread);
                    }
                    if self.fence(m.thread, op) {
                        self.go(m.thread);
                    }
                }
            }
        }
    }

    /// Puts a message on its way.
    fn send(&mut self, m: Message<'p>) -> u32 {
        if self.detail {
            self.tell_sent(&m);
        }
        let s = &mut self.state;
        if m.from != m.to {
            s.accounts[m.from as usize].sent += m.bytes;
        }
        let (thread, sequence, hops) = (m.thread, m.sequence, m.route.len());
        let place = match s.free.pop() {
            Some(place) => {
                s.messages[place as usize] = m;
                place
            }
            None => {
                s.messages.push(m);
                s.messages.len() as u32 - 1
            }
        };
        if hops > 0 && self.setup.endpoint == Time::ZERO {
            s.requests.push(Request { thread, sequence, message: place });
        } else {
            let time = if hops > 0 { s.now + self.setup.endpoint } else { s.now };
            s.events.push(Reverse(Event { time, thread, sequence, message: place }));
        }
        place
    }

    /// Sends a message of a thread.
    fn post(&mut self, thread: u32, op: u32, letter: Letter) -> u32 {
        let hint = self.setup.ops[op as usize].hint;
        let way = usize::from(hint == Some(Direction::Minus));
        let from = self.setup.rank(thread);
        let s = &mut self.state;
        let after = match letter.kind {
            MessageKind::Put => {
                s.ways.put(from, letter.peer, way);
                [0; 2]
            }
            _ => s.ways.sent(from, letter.peer),
        };
        let t = &mut s.threads[thread as usize];
        let sequence = t.sequence;
        t.sequence += 1;
        let message = Message {
            kind: letter.kind,
            thread,
            sequence,
            op,
            from,
            to: letter.peer,
            bytes: letter.bytes,
            reply: letter.reply,
            counter: letter.counter,
            sent: s.now,
            route: self.setup.topo.route(self.setup.device(from), self.setup.device(letter.peer), hint),
            lag: Time::ZERO,
            last: t.last,
            way,
            after,
        };
        self.send(message)
    }

    /// Adds one to a counter; `cause` is the record of that.
    fn signal(&mut self, rank: u64, counter: u32, cause: u64) {
        let value = &mut self.state.counters[self.setup.counter(rank, counter)];
        *value = value.saturating_add(1);
        let value = i64::from(*value);
        for thread in self.setup.threads(rank) {
            let t = &mut self.state.threads[thread as usize];
            if let Doing::Counter(c, wanted) = t.doing
                && c == counter
                && value >= wanted
            {
                t.last = cause;
                self.wake(thread);
            }
        }
    }

    /// Wakes a blocked thread; what woke it has been told.
    fn wake(&mut self, thread: u32) {
        if self.detail {
            self.tell_woken(thread);
        }
        self.go(thread);
    }

    fn go(&mut self, thread: u32) {
        self.state.threads[thread as usize].doing = Doing::Busy;
        self.ready.push(thread);
    }

    /// A thread does what it can do now.
    fn go_on(&mut self, thread: u32) -> Result<(), Fault> {
        let setup = self.setup;
        let regions = setup.program.schedule.regions.len();
        loop {
            let step = self.state.threads[thread as usize].cursor.next_step()?;
            if self.detail {
                self.tell_turn(thread, step.as_ref());
            }
            let s = &mut self.state;
            let (now, t) = (s.now, &mut s.threads[thread as usize]);
            match step {
                Some(Step::Act(act, _, op)) => {
                    if !self.act(thread, act, op)? {
                        if self.detail {
                            self.tell_held(thread);
                        }
                        return Ok(());
                    }
                }
                Some(Step::Enter(r)) => {
                    let call = t.call;
                    let span = s.span(call, r.0 as usize, regions);
                    *span = Some(span.map_or((now, now), |(first, last)| (first.min(now), last)));
                }
                Some(Step::Leave(r)) => {
                    let call = t.call;
                    let span = s.span(call, r.0 as usize, regions);
                    *span = Some(span.map_or((now, now), |(first, last)| (first, last.max(now))));
                }
                None => {
                    let call = t.call as usize;
                    t.call += 1;
                    let (over, rank) = (t.call == setup.calls, setup.rank(thread));
                    if over {
                        t.doing = Doing::Done;
                        let account = &mut s.accounts[rank as usize];
                        if now > account.finish {
                            (account.finish, account.last) = (now, t.last);
                        }
                        s.live -= 1;
                    } else {
                        t.cursor = Cursor::new(setup.program, rank, thread % setup.streams as u32, t.call);
                    }
                    if s.calls.len() <= call {
                        s.calls.resize(call + 1, Time::ZERO);
                    }
                    s.calls[call] = s.calls[call].max(now);
                    if over {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// A thread comes to an operation; whether it can go on at once.
    fn act(&mut self, thread: u32, act: Act<'p>, op: u32) -> Result<bool, Fault> {
        let setup = self.setup;
        let s = &mut self.state;
        let t = &mut s.threads[thread as usize];
        let fence = matches!(act, Act::FenceRelease | Act::FenceAcquire | Act::FenceComplete | Act::Mark);
        let carrier = if fence { None } else { t.carrier.take() };
        match act {
            Act::Put { src, peer, .. } => {
                let bytes = work::moved(setup.program, &src);
                let letter = Letter { kind: MessageKind::Put, peer, bytes, reply: 0, counter: NONE };
                let sequence = t.sequence;
                let message = self.post(thread, op, letter);
                self.state.threads[thread as usize].carrier = Some(Carrier { message, sequence, peer });
            }
            Act::Get { dst, peer, .. } => {
                t.gets += 1;
                let reply = work::moved(setup.program, &dst);
                let bytes = setup.signal_bytes;
                self.post(
                    thread,
                    op,
                    Letter { kind: MessageKind::Request, peer, bytes, reply, counter: NONE },
                );
            }
            Act::Notify { peer, counter } => self.notify(thread, op, peer, counter, carrier),
            Act::Wait { counter, value } => {
                let have = s.counters[setup.counter(setup.rank(thread), counter)];
                if i64::from(have) < value {
                    t.doing = Doing::Counter(counter, value);
                    return Ok(false);
                }
            }
            Act::FenceRelease | Act::FenceAcquire => return Ok(self.fence(thread, op)),
            Act::FenceComplete => {
                if t.gets > 0 {
                    t.doing = Doing::Gets(op);
                    return Ok(false);
                }
                return Ok(self.fence(thread, op));
            }
            Act::Record(event) => {
                let (call, last) = (t.call, t.last);
                let rank = setup.rank(thread);
                let recorded = &mut s.recorded[setup.event(rank, event)];
                *recorded = call + 1;
                for other in setup.threads(rank) {
                    let o = &mut self.state.threads[other as usize];
                    if o.doing == Doing::Event(event) && o.call <= call {
                        o.last = last;
                        self.wake(other);
                    }
                }
            }
            Act::Await(event) => {
                if s.recorded[setup.event(setup.rank(thread), event)] <= t.call {
                    t.doing = Doing::Event(event);
                    return Ok(false);
                }
            }
            Act::Copy { .. } | Act::Reduce { .. } | Act::Local(_) => return self.work(thread, &act, op),
            Act::HostRead(buffer) => {
                let (rank, now) = (setup.rank(thread), s.now);
                if let Some(o) = &mut self.observer {
                    o.host_read(rank, buffer, now.ns());
                }
            }
            Act::Mark => {}
        }
        Ok(true)
    }

    /// With the put right before it if that goes to the same peer, otherwise alone.
    fn notify(&mut self, thread: u32, op: u32, peer: u64, counter: u32, carrier: Option<Carrier>) {
        let Some(c) = carrier.filter(|c| c.peer == peer) else {
            let bytes = self.setup.signal_bytes;
            self.post(thread, op, Letter { kind: MessageKind::Notify, peer, bytes, reply: 0, counter });
            return;
        };
        let s = &mut self.state;
        let from = self.setup.rank(thread);
        let after = s.ways.sent(from, peer);
        let m = &mut s.messages[c.message as usize];
        if m.thread == thread && m.sequence == c.sequence {
            (m.counter, m.after) = (counter, after);
        } else if s.ways.pass(from, peer, counter, after) {
            // A fence took longer than the message, which is there already.
            let cause = s.threads[thread as usize].last;
            self.signal(peer, counter, cause);
        }
    }

    /// A thread does a fence; whether it can go on at once.
    fn fence(&mut self, thread: u32, op: u32) -> bool {
        let fence = self.setup.fence;
        self.state.fenced = true;
        if fence == Time::ZERO {
            return true;
        }
        let (start, last) = (self.state.now, self.state.threads[thread as usize].last);
        let end = start + fence;
        let record = self.record(last, Record { start, end, back: 0, thread, op, what: FENCE });
        let t = &mut self.state.threads[thread as usize];
        t.doing = Doing::Busy;
        t.last = record;
        self.later(end, thread);
        false
    }

    /// A thread asks for the units of an operation; whether it needs none.
    fn work(&mut self, thread: u32, act: &Act<'p>, op: u32) -> Result<bool, Fault> {
        let s = &mut self.state;
        let free = s.units.is_empty();
        if free && s.seen[op as usize] {
            return Ok(true);
        }
        let rank = self.setup.rank(thread);
        let amounts = work::amounts(self.setup.program, act, rank)?;
        for (needed, amount) in s.needed.iter_mut().zip(amounts) {
            *needed |= amount > 0;
        }
        s.seen[op as usize] |= amounts != [0; 3];
        let times = s.rates.times(rank, &amounts);
        if free || times == [Time::ZERO; 3] {
            return Ok(true);
        }
        let t = &mut s.threads[thread as usize];
        t.asked = (op, times);
        let sequence = t.sequence;
        t.sequence += 1;
        s.requests.push(Request { thread, sequence, message: NONE });
        Ok(false)
    }
}
