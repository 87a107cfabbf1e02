//! State of a simulation: everything that changes. A copy of it is a point to continue from.

use super::MessageKind;
use super::agenda::{Agenda, Item, NONE};
use super::channels::Channels;
use super::clock::Time;
use super::controllers::Controllers;
use super::links::Links;
use super::log::Last;
use super::moves::Ends;
use super::network::Network;
use super::notify_order::NotifyOrder;
use super::setup::Setup;
use super::ties::Ties;
use super::work::{OpPhases, Rates, Units};
use kbc_ir::form::Form;
use kbc_ir::walk::{Access, Program, TimedOp, Walks};
use kbc_machine::topology::Route;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The activity of a stream of a rank.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Doing {
    /// It is active, or continues at a time that is on the agenda.
    Busy,
    /// It waits until a counter of its rank has a value.
    Counter(u32, i64),
    /// It awaits an event of its rank in its call.
    Event(u32),
    /// It waits in this fence until its gets have arrived.
    Gets(u32),
    /// It has ended its last call.
    Done,
}

/// A stream of a rank, through all calls.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) doing: Doing,
    /// Number of requests that it has made.
    pub(super) sequence: u64,
    /// The record that led to its present time.
    pub(super) last: Last,
    pub(super) call: u32,
    /// Number of its gets in flight.
    pub(super) gets: u32,
    /// Bytes that have arrived and are still to be combined into their destination.
    pub(super) combines: u64,
    /// The put that a notify to the same peer would travel with.
    pub(super) carrier: Option<Carrier>,
    /// Cache of its last message over a single link: peer, operation, link.
    pub(super) near: [u32; 3],
}

/// A put that may still carry a notify.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carrier {
    pub(super) message: u32,
    pub(super) sequence: u32,
    pub(super) peer: u32,
}

/// A message in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) bytes: u64,
    /// The record that led to its present position.
    pub(super) last: Last,
    /// The thread that it belongs to, and the number of the thread's request modulo 2^32. For a
    /// reply this is the thread that made the request.
    pub(super) thread: u32,
    pub(super) sequence: u32,
    pub(super) op: u32,
    /// The place that it goes to; `turn` is the element that takes the rank simulated there to the
    /// receiver. [`NONE`] for an acknowledgement, whose `counter` is the thread that it returns to.
    pub(super) to: u32,
    pub(super) turn: u16,
    /// The counter that it increments, or [`NONE`]. For a reply, the rank that sends it.
    pub(super) counter: u32,
    /// The stage that it passes next: a link, a controller or an inlet ([`super::log`]). [`NONE`]
    /// at the end.
    pub(super) link: u32,
    /// Index of the rest of its route in [`State::trips`], or [`NONE`] if there is none.
    pub(super) trip: u32,
    pub(super) kind: MessageKind,
}

/// The route of a message over several links, or with further stages.
#[derive(Clone, Debug)]
pub(super) struct Trip<'p> {
    /// Links after the next one.
    pub(super) route: Route<'p>,
    /// Delay of its tail behind its head.
    pub(super) lag: Time,
    /// For data in memories with nodes of their own: the ends of the route.
    pub(super) ends: Option<Box<Ends<'p>>>,
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

/// Data that only few messages need.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Extra {
    pub(super) sent: Time,
    /// For a request: bytes of the reply.
    pub(super) reply: u64,
    /// Its number among the puts to its peer ([`NotifyOrder`]).
    pub(super) number: u64,
    /// Number of those puts that its notify has to follow.
    pub(super) after: u64,
    /// First bytes of its data at the source and at the destination ([`Ends`]).
    pub(super) spots: [u64; 2],
    /// Whether it holds a DMA channel of its device.
    pub(super) held: bool,
}

/// An operation that waits or takes time before it is performed: one on a queue, or one that
/// completes gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldOp<'p> {
    pub(super) act: TimedOp<'p>,
    pub(super) op: u32,
    /// Time from which it waits. None for a `recv` that only has to complete, and for an operation
    /// that completes gets.
    pub(super) since: Option<Time>,
    /// What it reads and writes, if it is a get.
    pub(super) moved: Option<[Access; 2]>,
}

/// The totals of a rank.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Account {
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Time at which its last stream ended or its last data arrived, and the record of that.
    pub(super) finish: Time,
    pub(super) last: Last,
}

/// A simulation at one moment.
#[derive(Clone)]
pub(super) struct State<'p> {
    pub(super) now: Time,
    /// Events of this moment in order, and how many of them have been processed.
    pub(super) due: Vec<Item>,
    pub(super) happened: usize,
    /// Events that were added to this moment while it was processed.
    pub(super) soon: BinaryHeap<Reverse<Item>>,
    /// Events of later moments.
    pub(super) agenda: Agenda,
    /// Links and units requested at this moment. They are granted in order once no event of this
    /// moment is left.
    pub(super) requests: Vec<Item>,
    /// Number of requests that have been granted, once granting has begun.
    pub(super) granted: Option<usize>,
    pub(super) threads: Vec<Thread>,
    /// Positions of the threads in the schedule.
    pub(super) walks: Walks,
    /// Operations that wait, by thread.
    pub(super) held: BTreeMap<u32, HeldOp<'p>>,
    /// Number of threads that have not ended their last call.
    pub(super) live: usize,
    /// Counters of all ranks.
    pub(super) counters: Vec<u32>,
    /// Number of notifies that the waits for each counter have consumed. Empty if all counters are
    /// epochs.
    spent: Vec<u32>,
    /// For each rank and event: number of calls in which it was recorded.
    pub(super) recorded: Vec<i64>,
    pub(super) messages: Vec<Message>,
    /// Free indices of `messages`.
    pub(super) free: Vec<u32>,
    /// Additional data of each message, if any message may need it.
    pub(super) extra: Vec<Extra>,
    pub(super) trips: Vec<Trip<'p>>,
    /// Free indices of `trips`.
    pub(super) free_trips: Vec<u32>,
    pub(super) links: Links,
    /// For each thread: time from which its copying queue is free. Empty if cores take no time.
    pub(super) cores: Vec<Time>,
    /// For each rank: time from which its inlet is free. Empty if queues take no time.
    pub(super) inlets: Vec<Time>,
    /// DMA channels, if devices have a limited number.
    pub(super) channels: Option<Channels>,
    /// Controllers of memories, if there are any.
    pub(super) controllers: Option<Controllers>,
    pub(super) rates: Rates,
    /// Units of each rank. Empty if no unit takes time.
    pub(super) units: Vec<Units>,
    /// For each thread, the local operation that it has requested units for: its number, the time
    /// of each unit, and its course. Empty if local work takes no time.
    pub(super) asked: Vec<(u32, [Time; 3], OpPhases)>,
    /// For each rank: time for which its units worked on operations. Empty if no unit takes time.
    pub(super) worked: Vec<Time>,
    pub(super) notify_order: NotifyOrder,
    /// Messages that switches combine or copy, if they do.
    pub(super) network: Option<Network>,
    pub(super) accounts: Vec<Account>,
    /// For each call and region: the first entry and the last exit.
    pub(super) spans: Vec<Option<(Time, Time)>>,
    /// For each call: time at which the last stream ended it.
    pub(super) calls: Vec<Time>,
    pub(super) delivered: u64,
    /// Number of records made so far.
    pub(super) records: u64,
    /// Whether any operation needed each unit, or a fence.
    pub(super) needed: [bool; 3],
    pub(super) fenced: bool,
    /// Whether the needs of each operation are included in `needed`.
    pub(super) seen: Vec<bool>,
    /// Detection of ties, if ranks stand for others.
    pub(super) ties: Option<Ties>,
}

impl<'p> State<'p> {
    /// Checks whether a wait passes now, and if so, consumes its notifies. `number` is the index of
    /// the counter over all ranks.
    #[inline]
    pub(super) fn spend(&mut self, program: &Program<'_>, counter: u32, number: usize, value: i64) -> bool {
        let landed = self.counters[number];
        if self.spent.is_empty() {
            return i64::from(landed) >= value;
        }
        let (form, landed, spent) = (program.form(counter), u64::from(landed), u64::from(self.spent[number]));
        let passes = form.passes(landed, spent, value);
        if passes && form != Form::Epoch {
            self.spent[number] = form.spends(landed, spent, value) as u32;
        }
        passes
    }

    /// Returns the state at the start, at which every thread continues when its rank starts.
    pub(super) fn new(setup: &Setup<'p>) -> State<'p> {
        let program = setup.program;
        let ranks = setup.places() as usize;
        let streams = setup.streams as u32;
        let all = if setup.calls > 0 { 0..ranks as u32 } else { 0..0 };
        let who = all.flat_map(|place| (0..streams).map(move |stream| (setup.first(place), stream)));
        let thread = Thread {
            doing: Doing::Busy,
            sequence: 0,
            last: Last::default(),
            call: 0,
            gets: 0,
            combines: 0,
            carrier: None,
            near: [NONE; 3],
        };
        let threads: Vec<Thread> = who.clone().map(|_| thread.clone()).collect();
        let count = threads.len();
        let (counters, events) = (ranks * setup.counters, ranks * program.events.len());
        let mut agenda = Agenda::new();
        for thread in 0..count as u32 {
            agenda.push(setup.start(setup.rank(thread)), Item::new(thread, 0, NONE));
        }
        let rates = Rates::new(setup.topo);
        let works = rates.works() || setup.inside.is_some();
        State {
            now: Time::ZERO,
            due: vec![],
            happened: 0,
            soon: BinaryHeap::new(),
            agenda,
            requests: vec![],
            granted: None,
            live: count,
            threads,
            walks: Walks::new(&setup.outline, who),
            held: BTreeMap::new(),
            ties: setup.orbits.as_ref().map(|_| Ties::new(counters, events, count, ranks)),
            counters: vec![0; counters],
            spent: if program.has_forms() { vec![0; counters] } else { vec![] },
            recorded: vec![0; events],
            messages: vec![],
            free: vec![],
            extra: vec![],
            trips: vec![],
            free_trips: vec![],
            links: Links::new(setup.topo),
            cores: if setup.cores.is_some() { vec![Time::ZERO; count] } else { vec![] },
            inlets: if setup.queues.is_some() { vec![Time::ZERO; ranks] } else { vec![] },
            channels: setup.topo.settings().dma.map(|most| Channels::new(most, ranks)),
            controllers: Controllers::new(setup.topo),
            rates,
            units: if works {
                vec![Units::new(setup.topo.settings().shares_compute()); ranks]
            } else {
                vec![]
            },
            asked: if works { vec![(0, [Time::ZERO; 3], OpPhases::NONE); count] } else { vec![] },
            worked: if works { vec![Time::ZERO; ranks] } else { vec![] },
            notify_order: NotifyOrder::new(setup.unordered),
            network: Network::new(setup.topo, count),
            accounts: vec![Account::default(); ranks],
            spans: vec![],
            calls: vec![],
            delivered: 0,
            records: 0,
            needed: [false; 3],
            fenced: false,
            seen: vec![false; program.ops as usize],
        }
    }

    /// Returns the time at which the last rank finished, and the record that led to it.
    pub(super) fn end(&self) -> (Time, Last) {
        let last = self.last().map(|i| &self.accounts[i]);
        last.map_or((Time::ZERO, Last::default()), |a| (a.finish, a.last))
    }

    /// Stores a message in a free place and returns its index.
    pub(super) fn keep_message(&mut self, m: Message) -> u32 {
        let place = self.free.pop().unwrap_or(self.messages.len() as u32);
        match self.messages.get_mut(place as usize) {
            Some(free) => *free = m,
            None => self.messages.push(m),
        }
        place
    }

    /// Stores the rest of a route in a free place and returns its index.
    pub(super) fn keep_trip(&mut self, trip: Trip<'p>) -> u32 {
        let place = self.free_trips.pop().unwrap_or(self.trips.len() as u32);
        match self.trips.get_mut(place as usize) {
            Some(free) => *free = trip,
            None => self.trips.push(trip),
        }
        place
    }

    /// Returns the endpoint time at the end of every rank. Zero if there were no messages.
    pub(super) fn last_endpoint(&self, setup: &Setup<'_>) -> Time {
        if self.delivered > 0 { setup.endpoint } else { Time::ZERO }
    }

    /// Returns the first of the ranks that finished last.
    pub(super) fn last(&self) -> Option<usize> {
        let latest = self.accounts.iter().map(|a| a.finish).max().filter(|t| *t > Time::ZERO)?;
        self.accounts.iter().position(|a| a.finish == latest)
    }

    /// Checks whether times may differ from those of a simulation of every rank.
    pub(super) fn tied(&self) -> bool {
        self.ties.as_ref().is_some_and(|t| t.tied)
    }

    /// Checks whether the critical path may differ from that of a simulation of every rank.
    pub(super) fn forked(&self) -> bool {
        let end = self.end().0;
        let ends = |t: &Ties| self.last().is_some_and(|i| t.ends_forked(i, end));
        self.ties.as_ref().is_some_and(|t| t.forked || ends(t))
    }

    /// Notes that a stream enters or leaves a region in a call.
    pub(super) fn crosses(&mut self, call: i64, region: usize, regions: usize, now: Time, enters: bool) {
        let place = call as usize * regions + region;
        if self.spans.len() <= place {
            self.spans.resize((call as usize + 1) * regions, None);
        }
        let span = &mut self.spans[place];
        *span = Some(match (*span, enters) {
            (None, _) => (now, now),
            (Some((first, last)), true) => (first.min(now), last),
            (Some((first, last)), false) => (first, last.max(now)),
        });
    }

    /// Notes that a stream has ended a call.
    pub(super) fn called(&mut self, call: usize, now: Time) {
        if self.calls.len() <= call {
            self.calls.resize(call + 1, Time::ZERO);
        }
        self.calls[call] = self.calls[call].max(now);
    }
}
