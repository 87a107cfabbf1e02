//! The event engine: it processes the next event and schedules what follows from it.
//!
//! At each moment of simulated time, everything that is due happens first: arrivals, streams that
//! continue, and everything that these do without taking time. Then the links and units that were
//! requested are granted in the order of thread and sequence. So the result does not depend on the
//! order of the heap.

mod channels;
mod cores;
mod hooks;
mod local;
mod messages;
mod moves;
mod network;
mod notify_order;
mod ops;
mod queues;

use crate::Observer;
use crate::agenda::{Item, NONE};
use crate::clock::Time;
use crate::log::{INLET, Last, Log, MORE, Record, controlled};
use crate::network::Request;
use crate::setup::{SEND, Setup};
use crate::state::{Extra, State};
use kbc_ir::walk::Fault;
use kbc_machine::topology::LinkId;
use std::cmp::Reverse;

/// A simulation in progress.
pub(super) struct Engine<'a, 'p, 'o> {
    pub(super) setup: &'a Setup<'p>,
    pub(super) state: State<'p>,
    pub(super) log: Log,
    /// Receives events, through the functions of [`hooks`].
    pub(super) observer: Option<&'o mut dyn Observer>,
    /// Whether the observer wants every operation and hop.
    pub(super) detail: bool,
    /// Threads that can continue now. Empty between steps.
    ready: Vec<u32>,
}

impl<'a, 'p, 'o> Engine<'a, 'p, 'o> {
    /// Returns an engine that continues from a state and keeps the records made from there on.
    pub(super) fn new(
        setup: &'a Setup<'p>,
        state: State<'p>,
        observer: Option<&'o mut dyn Observer>,
    ) -> Engine<'a, 'p, 'o> {
        let log = Log::new(if setup.path { setup.kept } else { 0 }, state.records, state.threads.len());
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
        let (mut link, mut lag) = (LinkId(m.link), Time::ZERO);
        if m.trip != NONE {
            let trip = &mut s.trips[m.trip as usize];
            lag = trip.lag;
            // Messages of a queue stay in order, so all of them take one route.
            if self.setup.ops[m.op as usize].name != SEND {
                let (links, bytes) = (&mut s.links, m.bytes);
                link = trip.route.choose(link, |l| links.taken(self.setup.topo, l, now, bytes));
            }
        }
        let mut passed = None;
        if let Some(network) = &mut s.network {
            match network.requests(place, now, lag) {
                Request::Passes(behind) => lag = behind,
                Request::HasPassed { passage, first } => {
                    passed = Some(passage);
                    if first {
                        // The rank sends it once.
                        s.accounts[self.setup.place(m.thread) as usize].sent -= m.bytes;
                    }
                }
                Request::Waits => return,
            }
        }
        let mut simulated = link;
        if let (Some(ties), Some(orbits)) = (&mut s.ties, &self.setup.orbits) {
            let turn;
            (simulated, turn) = self.setup.split_link(link);
            let from = orbits.act(orbits.inverse(turn), self.setup.rank(m.thread));
            ties.link(orbits, simulated, from, m.bytes);
        }
        let alone = passed.is_none();
        let passage = passed.unwrap_or_else(|| s.links.pass(self.setup.topo, simulated, now, lag, m.bytes));
        if let (Some(network), true) = (&mut s.network, alone) {
            network.passes(place, now, passage);
        }
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
        if self.detail && alone {
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
}
