//! Dataflow: a simulation stream by stream, for runs in which no two streams share a resource.
//!
//! If every link carries the messages of one stream, and every counter has one stream that
//! increments it and one that waits for it, then the time of a step depends only on earlier steps
//! of its stream and on the notifies that the stream waits for. So a stream can be simulated as far
//! as the notifies that are known allow, without a queue of events, and the order of streams does
//! not matter. Turns of a loop that only differ by a shift in time are computed at once
//! ([`steady`]).
//!
//! Whether streams share anything is found out on the way. The simulation then stops with [`Unfit`]
//! and [`super::engine`] simulates the run from the start. It also does that for machines and
//! operations that this module does not know ([`Dataflow::new`]), and for faults and deadlocks,
//! which it reports.
//!
//! The result is that of the engine. The engine processes the events of one moment in the order of
//! thread and sequence number. Here [`Moment`] has both, and events are compared by it.

mod history;
mod inbox;
mod room;
mod steady;
#[cfg(test)]
mod tests;

use crate::clock::Time;
use crate::links::{Feeder, NO_LINK};
use crate::local::Demand;
use crate::log::{FENCE, MORE, RECORD_BYTES, Record};
use crate::setup::Setup;
use crate::state::State;
use history::{History, NewEntry, RecordId};
use inbox::{Arrival, Inbox, NOBODY, Spacing};
use kbc_ir::form::Form;
use kbc_ir::walk::{Brief, Fault, TimedOp};
use kbc_machine::topology::LinkId;
use room::Room;
use steady::{PassedWait, Passing, SentMessage, Watch};

/// The streams of a run share something, or it has something that this module does not know.
#[derive(Debug)]
struct Unfit;

impl From<Fault> for Unfit {
    fn from(_: Fault) -> Unfit {
        Unfit
    }
}

impl From<Box<Fault>> for Unfit {
    fn from(_: Box<Fault>) -> Unfit {
        Unfit
    }
}

/// A completed run.
pub(super) struct Finished<'p> {
    pub(super) state: State<'p>,
    /// The steps that lead to the last event, if the critical path is wanted.
    pub(super) chain: Vec<Record>,
}

/// The position of an event in the order of all events: its time, and the thread and sequence
/// number of the message or request that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Moment {
    at: Time,
    thread: u32,
    sequence: u64,
}

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// It has not started.
    New,
    /// It is on the list of threads that can continue.
    Ready,
    /// It waits for an arrival in an inbox.
    Waiting { inbox: u32, number: u64 },
    /// It has ended its last call.
    Done,
}

/// A put that a notify to the same peer would travel with.
#[derive(Clone, Copy, Debug)]
struct Carrier {
    peer: u64,
    arrival: Arrival,
}

/// A stream of a rank, through all calls.
#[derive(Clone, Debug)]
struct Thread {
    phase: Phase,
    /// The arrival that it continues with.
    found: Option<(u32, u64)>,
    /// The event by which it has got here.
    now: Moment,
    /// Number of requests that it has made.
    sequence: u64,
    /// The record that led to its present time, and the end of that record.
    last: RecordId,
    last_end: Time,
    call: u32,
    carrier: Option<Carrier>,
    /// Cache of its last message over a single link: peer, operation, link.
    near: [u32; 3],
    watch: Watch,
}

/// The last event of a rank: an end of a stream or an arrival of data.
#[derive(Clone, Copy, Debug)]
struct Finish {
    /// At equal moments the arrival comes first.
    order: (Moment, bool),
    record: RecordId,
}

/// A simulation stream by stream.
struct Dataflow<'a, 'p> {
    setup: &'a Setup<'p>,
    /// The parts of the state that do not depend on the order of events.
    state: State<'p>,
    threads: Vec<Thread>,
    /// Index of the inbox of each counter plus one, or 0 if it has none yet.
    inbox_of: Vec<u32>,
    inboxes: Vec<Inbox>,
    finishes: Vec<Finish>,
    history: History,
    /// Threads that can continue. The last one continues first: it is the one that has just got
    /// something, so a thread finds as many arrivals as possible when its turn comes.
    ready: Vec<u32>,
    room: Room,
}

/// Simulates every rank stream by stream. None if the run does not allow it.
pub(super) fn run<'p>(setup: &Setup<'p>) -> Option<Finished<'p>> {
    let mut flow = Dataflow::new(setup)?;
    flow.run().ok()?;
    if flow.state.live > 0 {
        return None;
    }
    for (account, finish) in flow.state.accounts.iter_mut().zip(&flow.finishes) {
        account.finish = finish.order.0.at;
    }
    let last = flow.state.last().map_or(RecordId::NONE, |rank| flow.finishes[rank].record);
    let chain = if setup.path { flow.history.chain(last) } else { vec![] };
    Some(Finished { state: flow.state, chain })
}

impl<'a, 'p> Dataflow<'a, 'p> {
    /// Returns the simulation at its start. None for a machine on which streams share more than
    /// links and counters.
    fn new(setup: &'a Setup<'p>) -> Option<Dataflow<'a, 'p>> {
        let separate = setup.orbits.is_none()
            && setup.moves.is_none()
            && setup.cores.is_none()
            && setup.queues.is_none()
            && setup.topo.settings().dma.is_none()
            && !setup.unordered
            && !setup.extra
            && setup.calls > 0;
        if !separate {
            return None;
        }
        let state = State::new(setup);
        // The streams of a rank share its units.
        if !state.units.is_empty() && setup.streams > 1 {
            return None;
        }
        let threads = (0..state.threads.len() as u32).map(|thread| Thread {
            phase: Phase::New,
            found: None,
            now: Moment { at: setup.start(setup.rank(thread)), thread, sequence: 0 },
            sequence: 0,
            last: RecordId::NONE,
            last_end: Time::ZERO,
            call: 0,
            carrier: None,
            near: [u32::MAX; 3],
            watch: Watch::new(),
        });
        let threads: Vec<Thread> = threads.collect();
        let zero = Moment { at: Time::ZERO, thread: 0, sequence: 0 };
        Some(Dataflow {
            setup,
            inbox_of: vec![0; state.counters.len()],
            inboxes: vec![],
            finishes: vec![Finish { order: (zero, false), record: RecordId::NONE }; state.accounts.len()],
            history: History::new(if setup.path { threads.len() } else { 0 }),
            ready: (0..threads.len() as u32).rev().collect(),
            room: Room::new(setup.kept * RECORD_BYTES),
            threads,
            state,
        })
    }

    fn run(&mut self) -> Result<(), Unfit> {
        while let Some(thread) = self.ready.pop() {
            let t = &mut self.threads[thread as usize];
            if matches!(t.phase, Phase::New | Phase::Ready) {
                t.phase = Phase::Ready;
                self.advance(thread)?;
            }
        }
        Ok(())
    }

    /// Lets a thread continue as far as the known arrivals allow.
    fn advance(&mut self, thread: u32) -> Result<(), Unfit> {
        let setup = self.setup;
        let regions = setup.program.schedule.regions.len();
        let mut next = (Brief::Over, 0);
        if let Some((inbox, number)) = self.threads[thread as usize].found.take() {
            self.finds(thread, inbox, number)?;
        }
        loop {
            if let Some(turn) = self.state.walks.turn(&setup.outline, thread as usize) {
                self.turned(thread, turn)?;
            }
            self.state.walks.next(&setup.outline, thread as usize, &mut next)?;
            let t = &self.threads[thread as usize];
            match next.0 {
                Brief::Enter(r) | Brief::Leave(r) => {
                    let entered = matches!(next.0, Brief::Enter(_));
                    self.state.crosses(t.call.into(), r.0 as usize, regions, t.now.at, entered);
                }
                Brief::Over => {
                    if self.over(thread) {
                        return Ok(());
                    }
                }
                Brief::Op(ref op) => {
                    if !self.act(thread, op, next.1)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Ends a call of a thread. Returns whether it was the last one.
    fn over(&mut self, thread: u32) -> bool {
        let t = &mut self.threads[thread as usize];
        let (call, now) = (t.call, t.now);
        t.call += 1;
        let over = t.call == self.setup.calls;
        if over {
            t.phase = Phase::Done;
            let record = t.last;
            self.finishes(self.setup.place(thread), (now, true), record);
            self.state.live -= 1;
        } else {
            self.state.walks.restart(&self.setup.outline, thread as usize, t.call.into());
        }
        self.state.called(call as usize, now.at);
        over
    }

    /// Notes that the data of a message arrives at a place, or that a stream ends there.
    fn finishes(&mut self, place: u32, order: (Moment, bool), record: RecordId) {
        let last = &mut self.finishes[place as usize];
        if order.0.at > last.order.0.at || order.0.at == last.order.0.at && order < last.order {
            *last = Finish { order, record };
        }
    }

    /// Performs an operation of a thread. Returns whether the thread can continue.
    fn act(&mut self, thread: u32, act: &TimedOp<'p>, op: u32) -> Result<bool, Unfit> {
        let t = &mut self.threads[thread as usize];
        match *act {
            TimedOp::FenceRelease | TimedOp::FenceAcquire | TimedOp::FenceComplete => {
                self.fence(thread, op)?;
                return Ok(true);
            }
            TimedOp::Mark(()) => return Ok(true),
            _ => {} // The match below has every operation.
        }
        let carrier = t.carrier.take();
        match *act {
            TimedOp::Put { peer, src: bytes, dst: () } => {
                let arrival = self.send(thread, op, peer, bytes, bytes > 0)?;
                self.threads[thread as usize].carrier = Some(Carrier { peer, arrival });
            }
            TimedOp::Notify { peer, counter } => {
                let arrival = match carrier.filter(|c| c.peer == peer) {
                    Some(c) => {
                        // The message must still be on its way.
                        let arrives = Moment { at: c.arrival.at, thread, sequence: c.arrival.sequence };
                        if arrives <= t.now {
                            return Err(Unfit);
                        }
                        c.arrival
                    }
                    None => self.send(thread, op, peer, self.setup.signal_bytes, false)?,
                };
                let inbox = self.inbox(peer as u32, counter)?;
                self.threads[thread as usize].watch.notifies(inbox);
                let alone = Spacing { time: Time::ZERO, sequence: 0, record: 0 };
                self.arrive(thread, peer as u32, inbox, (arrival, 1, alone))?;
            }
            TimedOp::Wait { counter, value } => return self.wait(thread, counter, value),
            TimedOp::Copy { .. } | TimedOp::Reduce { .. } | TimedOp::Local(_) => {
                self.work(thread, act, op)?
            }
            TimedOp::HostRead(_) => {}
            TimedOp::Get { .. }
            | TimedOp::GetCombine { .. }
            | TimedOp::Send { .. }
            | TimedOp::Recv { .. }
            | TimedOp::Room { .. }
            | TimedOp::Record(_)
            | TimedOp::Await(_) => return Err(Unfit),
            // These were performed above, since they keep the put before them.
            TimedOp::FenceRelease | TimedOp::FenceAcquire | TimedOp::FenceComplete | TimedOp::Mark(()) => {}
            TimedOp::Host(host) => match host {},
        }
        Ok(true)
    }

    /// Adds a step of a thread that ends with the thread at a later moment.
    fn step(&mut self, thread: u32, op: u32, (what, start, end): (u32, Time, Time)) -> Result<(), Unfit> {
        let t = &mut self.threads[thread as usize];
        let new = NewEntry { op, what, wait: start.since(t.last_end), takes: end.since(start) };
        t.last = self.history.push(thread, t.last, new, &mut self.room)?;
        t.last_end = end;
        t.now = Moment { at: end, thread, sequence: t.sequence };
        Ok(())
    }

    /// Lets every stream pass over an operation that takes no time.
    fn takes_no_time(&mut self, thread: u32) {
        self.state.walks.pass_over(&self.setup.outline, thread as usize);
    }

    fn fence(&mut self, thread: u32, op: u32) -> Result<(), Unfit> {
        self.state.fenced = true;
        let start = self.threads[thread as usize].now.at;
        if self.setup.fence == Time::ZERO {
            self.takes_no_time(thread);
            return Ok(());
        }
        self.step(thread, op, (FENCE, start, start + self.setup.fence))
    }

    /// Performs a local operation. A rank has one stream if its units take time, so they are free
    /// for it as soon as it needs them.
    fn work(&mut self, thread: u32, act: &TimedOp<'p>, op: u32) -> Result<(), Unfit> {
        let rank = self.setup.rank(thread);
        let (times, course) = match self.state.demand(self.setup, rank, act, op)? {
            Demand::Never => {
                self.takes_no_time(thread);
                return Ok(());
            }
            Demand::Nothing => return Ok(()),
            Demand::Units(times, course) => (times, course),
        };
        let t = &mut self.threads[thread as usize];
        t.sequence += 1;
        let now = t.now.at;
        let done = self.state.perform(self.setup.place(thread) as usize, now, &times, &course);
        if done.end <= now {
            return Err(Unfit);
        }
        for step in done.steps() {
            self.step(thread, op, step)?;
        }
        let t = &mut self.threads[thread as usize];
        t.now.at = done.end;
        Ok(())
    }

    /// Sends a message of a thread. Returns its arrival.
    fn send(&mut self, thread: u32, op: u32, peer: u64, bytes: u64, data: bool) -> Result<Arrival, Unfit> {
        let setup = self.setup;
        let from = setup.rank(thread);
        if from == peer {
            return Err(Unfit);
        }
        let t = &mut self.threads[thread as usize];
        let sequence = t.sequence;
        t.sequence += 1;
        let sent = t.now.at;
        let mut way = RoutedMessage {
            at: sent + setup.endpoint,
            lag: Time::ZERO,
            cause: t.last,
            end: t.last_end,
            before: NO_LINK,
        };
        if t.near[..2] == [peer as u32, op] {
            let link = t.near[2];
            self.hop(thread, &mut way, (link, op), bytes)?;
        } else {
            let (here, there) = (setup.device(from), setup.device(peer));
            let mut route = setup.topo.route(here, there, setup.ops[op as usize].way);
            let mut next = route.next();
            if let (Some(link), 0) = (next, route.len()) {
                t.near = [peer as u32, op, link.0];
            }
            while let Some(link) = next {
                next = route.next();
                let op = if next.is_some() { op | MORE } else { op };
                self.hop(thread, &mut way, (link.0, op), bytes)?;
            }
        }
        if way.end <= sent {
            return Err(Unfit);
        }
        let arrival = Arrival { at: way.end, sequence, record: way.cause.number };
        let s = &mut self.state;
        s.delivered += 1;
        s.accounts[setup.place(thread) as usize].sent += bytes;
        s.accounts[peer as usize].received += bytes;
        if data {
            let arrives = Moment { at: way.end, thread, sequence };
            self.finishes(peer as u32, (arrives, false), way.cause);
        }
        let t = &mut self.threads[thread as usize];
        t.watch.sends(SentMessage { place: peer as u32, inbox: NOBODY, bytes, data, arrival });
        Ok(arrival)
    }

    /// Lets a message pass a link.
    #[inline]
    fn hop(
        &mut self,
        thread: u32,
        way: &mut RoutedMessage,
        (link, op): (u32, u32),
        bytes: u64,
    ) -> Result<(), Unfit> {
        let (topo, links) = (self.setup.topo, &mut self.state.links);
        let id = LinkId(link);
        // A thread's messages keep their order on a link if they come to it over the same link.
        let place = links.feed(id, Feeder { thread, before: way.before }).ok_or(Unfit)?;
        self.threads[thread as usize].watch.uses(place, links);
        let passage = links.pass_at(topo, place, way.at, way.lag, bytes);
        let end = if op & MORE == 0 { passage.head + passage.lag } else { passage.head };
        let new =
            NewEntry { op, what: link, wait: passage.start.since(way.end), takes: end.since(passage.start) };
        way.cause = self.history.push(thread, way.cause, new, &mut self.room)?;
        (way.at, way.lag, way.end, way.before) = (passage.head, passage.lag, end, link);
        Ok(())
    }

    /// Returns the inbox of a counter of a place.
    fn inbox(&mut self, place: u32, counter: u32) -> Result<u32, Unfit> {
        let number = self.setup.counter(place, counter);
        let known = &mut self.inbox_of[number];
        if *known == 0 {
            self.room.take(2 * size_of::<Inbox>())?;
            self.inboxes.push(Inbox::new());
            *known = self.inboxes.len() as u32;
        }
        Ok(*known - 1)
    }

    /// Adds arrivals to an inbox of a place, and lets its reader continue.
    fn arrive(
        &mut self,
        sender: u32,
        place: u32,
        number: u32,
        (first, count, spacing): (Arrival, u64, Spacing),
    ) -> Result<(), Unfit> {
        let inbox = &mut self.inboxes[number as usize];
        if inbox.sender == NOBODY {
            inbox.sender = sender;
        }
        let runs = inbox.runs();
        if inbox.sender != sender || !inbox.push(first, count, spacing) {
            return Err(Unfit);
        }
        if inbox.runs() > runs {
            self.room.take(Inbox::RUN)?;
        }
        if inbox.reader == NOBODY {
            // The threads of the place may not have started. They should start soon.
            for thread in self.setup.threads(place) {
                if self.threads[thread as usize].phase == Phase::New {
                    self.threads[thread as usize].phase = Phase::Ready;
                    self.ready.push(thread);
                }
            }
            return Ok(());
        }
        let (reader, total) = (inbox.reader, inbox.total);
        let t = &mut self.threads[reader as usize];
        if let Phase::Waiting { inbox, number: wanted } = t.phase
            && inbox == number
            && wanted <= total
        {
            t.phase = Phase::Ready;
            t.found = Some((inbox, wanted));
            self.ready.push(reader);
        }
        Ok(())
    }

    /// Lets a thread wait for a counter. Returns whether it can continue.
    fn wait(&mut self, thread: u32, counter: u32, value: i64) -> Result<bool, Unfit> {
        let number = self.inbox(self.setup.place(thread), counter)?;
        let inbox = &mut self.inboxes[number as usize];
        if inbox.reader == NOBODY {
            inbox.reader = thread;
        }
        let form = self.setup.program.form(counter);
        // Whether a sense passes depends on all that has arrived.
        if inbox.reader != thread || matches!(form, Form::Sense { .. }) {
            return Err(Unfit);
        }
        let wanted = form.target(inbox.spent, value);
        if form != Form::Epoch {
            inbox.spent = wanted;
        }
        if wanted <= inbox.passed {
            let wait = PassedWait { inbox: number, number: wanted, how: Passing::Before };
            self.threads[thread as usize].watch.passes(wait);
            return Ok(true);
        }
        if wanted > inbox.total {
            self.threads[thread as usize].phase = Phase::Waiting { inbox: number, number: wanted };
            return Ok(false);
        }
        self.finds(thread, number, wanted)?;
        Ok(true)
    }

    /// Lets a thread continue that waits for an arrival which is known.
    fn finds(&mut self, thread: u32, number: u32, wanted: u64) -> Result<(), Unfit> {
        let inbox = &mut self.inboxes[number as usize];
        let runs = inbox.runs();
        inbox.pass(wanted);
        self.room.give((runs - inbox.runs()) * Inbox::RUN);
        let Arrival { at, sequence, record } = inbox.get(wanted).ok_or(Unfit)?.arrival;
        let arrives = Moment { at, thread: inbox.sender, sequence };
        let t = &mut self.threads[thread as usize];
        let blocked = arrives > t.now;
        if blocked {
            t.now = arrives;
            (t.last, t.last_end) = (RecordId { thread: inbox.sender, number: record }, at);
        }
        let how = if blocked { Passing::Blocked } else { Passing::AtOnce };
        t.watch.passes(PassedWait { inbox: number, number: wanted, how });
        Ok(())
    }
}

/// A message on its route.
struct RoutedMessage {
    /// Time at which its head requests the next link, and the delay of its tail behind it.
    at: Time,
    lag: Time,
    /// The record that led here, and its end.
    cause: RecordId,
    end: Time,
    /// The link that it has come over.
    before: u32,
}
