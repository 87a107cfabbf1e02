//! Everything that changes during a simulation. A copy of it is a point to go on from.

use super::MessageKind;
pub(super) use super::agenda::NONE;
use super::agenda::{Agenda, Item};
use super::channels::Channels;
use super::clock::Time;
use super::controllers::Controllers;
use super::links::Links;
use super::log::Last;
use super::moves::Ends;
use super::setup::Setup;
use super::ties::Ties;
use super::ways::Ways;
use super::work::{Course, Rates, Units};
use kbc_ir::form::Form;
use kbc_ir::walk::{Brief, Program, Walks};
use kbc_machine::topology::Route;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// What a stream of a rank is doing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Doing {
    /// It works, or will at a time that is on the agenda.
    Busy,
    /// It waits for a counter of its rank.
    Counter(u32, i64),
    /// It awaits an event of its rank in its call.
    Event(u32),
    /// It waits for its gets, in this fence.
    Gets(u32),
    /// It has ended its last call.
    Done,
}

/// A stream of a rank on its way through all calls.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) doing: Doing,
    /// Requests it has made.
    pub(super) sequence: u64,
    /// The record that brought it to where it is in time.
    pub(super) last: Last,
    pub(super) call: u32,
    /// Gets that are under way.
    pub(super) gets: u32,
    /// The put that a notify to the same peer would travel with.
    pub(super) carrier: Option<Carrier>,
    /// Where it last sent something over a single link: peer, operation, link.
    pub(super) near: [u32; 3],
}

/// A put that may still carry a notify.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carrier {
    pub(super) message: u32,
    pub(super) sequence: u32,
    pub(super) peer: u32,
}

/// A message on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) bytes: u64,
    /// The record that brought it to where it is.
    pub(super) last: Last,
    /// Who it belongs to, and which of its requests it is, modulo 2^32. Of a reply that is the one who asked.
    pub(super) thread: u32,
    pub(super) sequence: u32,
    pub(super) op: u32,
    /// The place of the rank it goes to, and the element that takes the rank there to it. [`NONE`] of an
    /// acknowledgement, whose counter is the thread it comes back to.
    pub(super) to: u32,
    pub(super) turn: u16,
    /// Counter that it adds to, or [`NONE`]; of a reply, who sends it.
    pub(super) counter: u32,
    /// The link it is to pass next, or [`NONE`] at the end.
    pub(super) link: u32,
    /// The rest of its way, in [`State::trips`], or [`NONE`] if there is none.
    pub(super) trip: u32,
    pub(super) kind: MessageKind,
}

/// The way of a message over more than one link.
#[derive(Clone, Debug)]
pub(super) struct Trip<'p> {
    /// Links after the next.
    pub(super) route: Route<'p>,
    /// How far its tail is behind its head.
    pub(super) lag: Time,
    /// Of data that comes from or goes to memories with nodes of their own.
    pub(super) ends: Option<Box<Ends<'p>>>,
}

/// What few messages need.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Extra {
    pub(super) sent: Time,
    /// Of a request: bytes of the reply.
    pub(super) reply: u64,
    /// Which of the puts to its peer it is, see [`Ways`].
    pub(super) number: u64,
    /// How many of those its notify comes after.
    pub(super) after: u64,
    /// First byte of its data where that comes from and where it goes, see [`Ends`].
    pub(super) spots: [u64; 2],
    /// It has a channel of its device.
    pub(super) held: bool,
}

/// An operation on a queue that waits, or takes time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<'p> {
    pub(super) act: Brief<'p>,
    pub(super) op: u32,
    /// From when on it waits; None once a `recv` has only its end left.
    pub(super) since: Option<Time>,
}

/// A rank's account.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Account {
    pub(super) sent: u64,
    pub(super) received: u64,
    /// When its last stream ended or its last data came, and the record of that.
    pub(super) finish: Time,
    pub(super) last: Last,
}

/// A simulation at one moment.
#[derive(Clone)]
pub(super) struct State<'p> {
    pub(super) now: Time,
    /// What happens now, in order, and how much of it has.
    pub(super) due: Vec<Item>,
    pub(super) happened: usize,
    /// What happens now since something happened now.
    pub(super) soon: BinaryHeap<Reverse<Item>>,
    /// What happens later.
    pub(super) agenda: Agenda,
    /// Links and units asked for now; granted in order once nothing else happens now.
    pub(super) requests: Vec<Item>,
    /// How many of them are granted, once that has begun.
    pub(super) granted: Option<usize>,
    pub(super) threads: Vec<Thread>,
    /// Where they are in the schedule.
    pub(super) walks: Walks,
    /// Operations on queues that wait, by thread: they do something once they need not.
    pub(super) held: BTreeMap<u32, Held<'p>>,
    /// Threads that have not ended their last call.
    pub(super) live: usize,
    /// Counters of all ranks.
    pub(super) counters: Vec<u32>,
    /// How many notifies the waits for a counter have spent; empty where all counters are epochs.
    spent: Vec<u32>,
    /// For each rank and event, in how many calls it was recorded.
    pub(super) recorded: Vec<i64>,
    pub(super) messages: Vec<Message>,
    /// Places in `messages` that are free.
    pub(super) free: Vec<u32>,
    /// Of each message, if any may need it.
    pub(super) extra: Vec<Extra>,
    pub(super) trips: Vec<Trip<'p>>,
    /// Places in `trips` that are free.
    pub(super) free_trips: Vec<u32>,
    pub(super) links: Links,
    /// For each thread, from when on its queue is free; empty where cores take no time.
    pub(super) cores: Vec<Time>,
    /// For each rank, from when on its inlet is free; empty where queues take no time.
    pub(super) inlets: Vec<Time>,
    /// Where devices have a limited number.
    pub(super) channels: Option<Channels>,
    /// Where memories have them.
    pub(super) controllers: Option<Controllers>,
    pub(super) rates: Rates,
    /// Of each rank; empty where no unit takes time.
    pub(super) units: Vec<Units>,
    /// For each thread, work it has asked its units for: the operation, how long each unit has to do, and what it
    /// takes beside. Empty where neither takes time.
    pub(super) asked: Vec<(u32, [Time; 3], Course)>,
    /// For each rank, how long its units worked on operations. Empty where no unit takes time.
    pub(super) worked: Vec<Time>,
    pub(super) ways: Ways,
    pub(super) accounts: Vec<Account>,
    /// For each call and region, the first entry and the last exit.
    pub(super) spans: Vec<Option<(Time, Time)>>,
    /// For each call, when the last stream ended it.
    pub(super) calls: Vec<Time>,
    pub(super) delivered: u64,
    /// Records made so far.
    pub(super) records: u64,
    /// Something was needed of these units, and of fences.
    pub(super) needed: [bool; 3],
    pub(super) fenced: bool,
    /// Operations whose needs are in `needed`.
    pub(super) seen: Vec<bool>,
    /// Where ranks stand for others.
    pub(super) ties: Option<Ties>,
}

impl<'p> State<'p> {
    /// Whether a wait passes now; what it is about is then spent. `number` is that of the counter over all ranks.
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

    /// At the start: every thread goes on when its rank starts.
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
            asked: if works { vec![(0, [Time::ZERO; 3], Course::NONE); count] } else { vec![] },
            worked: if works { vec![Time::ZERO; ranks] } else { vec![] },
            ways: Ways::new(setup.unordered),
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

    /// When the last rank finished, and the record that brought it there.
    pub(super) fn end(&self) -> (Time, Last) {
        let last = self.last().map(|i| &self.accounts[i]);
        last.map_or((Time::ZERO, Last::default()), |a| (a.finish, a.last))
    }

    /// The first of the ranks that finished last.
    fn last(&self) -> Option<usize> {
        let latest = self.accounts.iter().map(|a| a.finish).max().filter(|t| *t > Time::ZERO)?;
        self.accounts.iter().position(|a| a.finish == latest)
    }

    /// Whether times may differ from those of a walk of every rank.
    pub(super) fn tied(&self) -> bool {
        self.ties.as_ref().is_some_and(|t| t.tied)
    }

    /// Whether the critical path may.
    pub(super) fn forked(&self) -> bool {
        let end = self.end().0;
        let ends = |t: &Ties| self.last().is_some_and(|i| t.ends_forked(i, end));
        self.ties.as_ref().is_some_and(|t| t.forked || ends(t))
    }

    /// The span of a region in a call.
    pub(super) fn span(&mut self, call: i64, region: usize, regions: usize) -> &mut Option<(Time, Time)> {
        let place = call as usize * regions + region;
        if self.spans.len() <= place {
            self.spans.resize((call as usize + 1) * regions, None);
        }
        &mut self.spans[place]
    }
}
