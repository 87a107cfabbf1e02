//! Everything that changes during a simulation. A copy of it is a point to go on from.

use super::MessageKind;
use super::clock::Time;
use super::links::Links;
use super::setup::Setup;
use super::ways::Ways;
use super::work::{Rates, Units};
use kbc_ir::topology::Route;
use kbc_ir::walk::Cursor;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No counter, no thread, no message.
pub(super) const NONE: u32 = u32::MAX;

/// What a stream of a rank is doing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Doing {
    /// It works, or will at a time that is in the heap.
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
#[derive(Clone)]
pub(super) struct Thread<'p> {
    pub(super) cursor: Cursor<'p>,
    pub(super) call: i64,
    pub(super) doing: Doing,
    /// Requests it has made.
    pub(super) sequence: u64,
    /// The record that brought it to where it is in time.
    pub(super) last: u64,
    /// The put that a notify to the same peer would travel with.
    pub(super) carrier: Option<Carrier>,
    /// Gets that are under way.
    pub(super) gets: u32,
    /// Work it has asked its units for: the operation, and how long each unit has to do.
    pub(super) asked: (u32, [Time; 3]),
}

/// A put that may still carry a notify.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carrier {
    pub(super) message: u32,
    pub(super) sequence: u64,
    pub(super) peer: u64,
}

/// A message on its way.
#[derive(Clone, Debug)]
pub(super) struct Message<'p> {
    pub(super) kind: MessageKind,
    /// Who it belongs to, and which of its requests it is. Of a reply that is the one who asked.
    pub(super) thread: u32,
    pub(super) sequence: u64,
    pub(super) op: u32,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) bytes: u64,
    /// Of a request: bytes of the reply.
    pub(super) reply: u64,
    /// Counter that it adds to, or [`NONE`].
    pub(super) counter: u32,
    pub(super) sent: Time,
    /// Links that it has not passed yet.
    pub(super) route: Route<'p>,
    /// How far its tail is behind its head.
    pub(super) lag: Time,
    /// The record that brought it to where it is.
    pub(super) last: u64,
    /// Which of two ways it goes, see [`Ways`].
    pub(super) way: usize,
    /// What of the other way its notify comes after.
    pub(super) after: [u64; 2],
}

/// Something that will happen: a message is at the end of a link, or (`message` [`NONE`]) a thread goes on. Ordered by
/// time, then by thread and sequence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Event {
    pub(super) time: Time,
    pub(super) thread: u32,
    pub(super) sequence: u64,
    pub(super) message: u32,
}

/// Someone wants a link or, with `message` [`NONE`], its device's units, now. Ordered by thread and sequence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Request {
    pub(super) thread: u32,
    pub(super) sequence: u64,
    pub(super) message: u32,
}

/// A rank's account.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Account {
    pub(super) sent: u64,
    pub(super) received: u64,
    /// When its last stream ended or its last data came, and the record of that.
    pub(super) finish: Time,
    pub(super) last: u64,
}

/// A simulation at one moment.
#[derive(Clone)]
pub(super) struct State<'p> {
    pub(super) now: Time,
    pub(super) events: BinaryHeap<Reverse<Event>>,
    /// Made now; granted in order once nothing else happens now.
    pub(super) requests: Vec<Request>,
    /// How many of them are granted, once that has begun.
    pub(super) granted: Option<usize>,
    pub(super) threads: Vec<Thread<'p>>,
    /// Threads that have not ended their last call.
    pub(super) live: usize,
    /// Counters of all ranks.
    pub(super) counters: Vec<u32>,
    /// For each rank and event, in how many calls it was recorded.
    pub(super) recorded: Vec<i64>,
    pub(super) messages: Vec<Message<'p>>,
    /// Places in `messages` that are free.
    pub(super) free: Vec<u32>,
    pub(super) links: Links,
    pub(super) rates: Rates,
    /// Of each rank; empty where no unit takes time.
    pub(super) units: Vec<Units>,
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
}

impl<'p> State<'p> {
    /// At the start: every thread goes on when its rank starts.
    pub(super) fn new(setup: &Setup<'p>) -> State<'p> {
        let program = setup.program;
        let ranks = program.ranks() as usize;
        let streams = setup.streams as u32;
        let all = if setup.calls > 0 { 0..ranks as u64 } else { 0..0 };
        let threads: Vec<Thread> = all
            .flat_map(|rank| (0..streams).map(move |stream| (rank, stream)))
            .map(|(rank, stream)| Thread {
                cursor: Cursor::new(program, rank, stream, 0),
                call: 0,
                doing: Doing::Busy,
                sequence: 0,
                last: 0,
                carrier: None,
                gets: 0,
                asked: (0, [Time::ZERO; 3]),
            })
            .collect();
        let go = |thread| {
            let time = setup.start(setup.rank(thread));
            Reverse(Event { time, thread, sequence: 0, message: NONE })
        };
        let rates = Rates::new(setup.topo);
        let works = rates.unlimited.iter().any(|u| !u);
        State {
            now: Time::ZERO,
            events: (0..threads.len() as u32).map(go).collect(),
            requests: vec![],
            granted: None,
            live: threads.len(),
            threads,
            counters: vec![0; ranks * program.counters() as usize],
            recorded: vec![0; ranks * program.events.len()],
            messages: vec![],
            free: vec![],
            links: Links::new(setup.topo),
            rates,
            units: if works { vec![Units::default(); ranks] } else { vec![] },
            ways: Ways::new(setup.doubled),
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
    pub(super) fn end(&self) -> (Time, u64) {
        let mut end = (Time::ZERO, 0);
        for a in &self.accounts {
            if a.finish > end.0 {
                end = (a.finish, a.last);
            }
        }
        end
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
