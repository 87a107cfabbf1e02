//! Model of one collective: messages between ranks, from the rounds of an algorithm, and their
//! simulation on the links of a machine.
//!
//! [`super`] says what the model contains and what it leaves out.

use super::streams;
use crate::late;
use kbc_ir::types::CutRule;
use kbc_machine::topology::cores::Mover;
use kbc_machine::topology::{DeviceId, Direction, Forward, LinkId, Route, Topology, WayOfMessage};
use kbc_rounds::rounds::Buffer;
use kbc_rounds::{Library, Rounds, Transfer};
use rustc_hash::FxBuildHasher;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// A collective to be priced.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The algorithms.
    pub library: &'a Library,
    /// The machine.
    pub topology: &'a Topology,
    /// Ranks of each group, in the group's order. All groups run at the same time.
    pub groups: Vec<Vec<DeviceId>>,
    /// Elements of the collective's line on one rank.
    pub elements: u64,
    /// Bytes per element.
    pub element_bytes: u64,
}

/// When a rank takes the messages that it receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Receipts {
    /// At the end of the round in which they are sent.
    InTheirRound,
    /// At the end of the last round before it touches one of their places again.
    Late,
}

/// What the simulation of rounds has found.
pub(super) struct SimulatedRounds {
    /// Nanoseconds until all data has arrived.
    pub ns: f64,
    /// Bytes sent by the rank that sends most.
    pub sent: u64,
    /// Nanoseconds for which the busiest link carries data.
    pub busiest_ns: f64,
}

/// Simulates the rounds of a collective. Returns none as soon as it is known that more than `limit`
/// nanoseconds are needed.
pub(super) fn simulate(
    job: &Job<'_>,
    rounds: &Rounds,
    receipts: Receipts,
    simulated_groups: usize,
    limit: f64,
) -> Option<SimulatedRounds> {
    let messages = messages(job, rounds, receipts);
    let ranks = rounds.ranks() as usize;
    let mut sent = vec![0.0f64; ranks];
    for m in messages.list.iter().filter(|m| m.src != m.dst) {
        sent[m.src as usize] += m.bytes;
    }
    let most = sent.iter().copied().fold(0.0, f64::max);
    let mut engine = Engine::new(job, &messages, simulated_groups);
    let ns = engine.run(limit)?;
    let busiest_ns = engine.links.values().map(|l| l.held).fold(0.0, f64::max);
    Some(SimulatedRounds { ns, sent: most as u64, busiest_ns })
}

/// A map from small numbers that no user chooses.
type ByNumber<K, V> = HashMap<K, V, FxBuildHasher>;

/// A message: what one rank sends another in a round.
#[derive(Default)]
struct Message<'a> {
    src: u32,
    dst: u32,
    way: WayOfMessage<'a>,
    /// The stream that sends it and takes it in. It is 0 if a stream is not a core.
    stream: u32,
    bytes: f64,
    /// Bytes that are added at the receiver.
    added: f64,
    /// Bytes that the receiver reads and writes to add the data or to put it in place.
    traffic: f64,
    /// Contiguous pieces of memory in the message, each of which takes a slot of a queue.
    pieces: u32,
    /// Number of messages that it waits for.
    needs: u32,
    /// The first and the last of the messages that wait for it, in [`Messages::feeds`].
    feeds: Option<(u32, u32)>,
    /// The number of the message of which it is a copy: one with the same data, in the same round,
    /// to another receiver. Its own number if it is the first. Only where switches copy messages.
    copy_of: u32,
    /// The message before it from its sender to its receiver, and the one after it, if such
    /// messages take several ways. It is seen after the one before it.
    before: Option<u32>,
    after: Option<u32>,
}

/// Messages with their dependences.
#[derive(Default)]
struct Messages<'a> {
    list: Vec<Message<'a>>,
    /// Messages that wait for one, each with the index of the next one that waits for the same, or
    /// [`LAST`].
    feeds: Vec<(u32, u32)>,
}

impl<'a> Messages<'a> {
    /// Adds a message that waits for others, and returns its number.
    fn wait_for(&mut self, needs: &[u32], message: Message<'a>) -> u32 {
        let id = self.list.len() as u32;
        for n in needs {
            let at = self.feeds.len() as u32;
            self.feeds.push((id, LAST));
            let feeds = &mut self.list[*n as usize].feeds;
            match feeds {
                Some((_, last)) => {
                    self.feeds[*last as usize].1 = at;
                    *last = at;
                }
                None => *feeds = Some((at, at)),
            }
        }
        self.list.push(Message { needs: needs.len() as u32, ..message });
        id
    }
}

/// The key of a message: sender, receiver, link hint, stream and relays. Transfers with the same
/// key form one message.
type Key<'a> = (u32, u32, i8, u32, &'a [u32]);

/// What a message carries in a round, for those of which there may be copies: its sender, stream,
/// and places.
type SentPlaces = (u32, u32, Vec<(u32, u32, u32)>);

/// Returns all messages of one group in the order of rounds, with their dependences. A stream of a
/// rank works in program order: in each round it first sends and then takes what arrives. So a
/// message waits for everything that its sender has taken in earlier rounds. What was taken is
/// gathered in a message without bytes from the rank to itself, which keeps the dependences few.
fn messages<'a>(job: &Job<'_>, rounds: &'a Rounds, receipts: Receipts) -> Messages<'a> {
    let streams = match job.topology.settings().cores.put_limit() {
        Some(_) => streams::streams(rounds),
        None => vec![],
    };
    let width = streams.iter().max().map_or(1, |s| s + 1);
    let places = rounds.ranks() as usize * width as usize;
    let mut out = Messages::default();
    // For each stream of each rank: the last gathering message, and the arrivals since.
    let mut gates: Vec<Option<u32>> = vec![None; places];
    let mut came: Vec<Vec<u32>> = vec![vec![]; places];
    let late = match receipts {
        Receipts::InTheirRound => vec![],
        Receipts::Late => late::taken_in(rounds),
    };
    // By the round in which it is taken: where a message is waited for, and the message.
    let mut arriving: Vec<Vec<(usize, u32)>> = vec![vec![]; rounds.rounds.len()];
    // What one stream takes late, another may send on, so all streams of the rank wait for it.
    let waits_at = |rank: u32, stream: u32| match receipts {
        Receipts::InTheirRound => (rank * width + stream) as usize,
        Receipts::Late => rank as usize,
    };
    let mut grouping = Grouping::default();
    let mut carried = vec![];
    let copies = job.topology.settings().switching().multicast;
    for (t, round) in rounds.rounds.iter().enumerate() {
        grouping.begin(round.len());
        let mut sent: BTreeMap<SentPlaces, u32> = BTreeMap::new();
        for (i, x) in round.iter().enumerate() {
            let taken = late.get(t).map_or(t, |taken| taken[i] as usize);
            let stream = streams.get(x.lane as usize).copied().unwrap_or(0);
            let key = (x.src, x.dst, x.direction.signum(), stream, x.via.as_deref().unwrap_or(&[]));
            grouping.add(key, i, taken);
        }
        for group in &grouping.groups {
            let (src, dst, direction, stream, via) = group.key;
            let transfers = || grouping.members(group).map(|i| &round[i]);
            let hint = match direction {
                1 => Some(Direction::Plus),
                -1 => Some(Direction::Minus),
                _ => None,
            };
            let way = WayOfMessage { hint, via };
            let place = waits_at(src, stream);
            if !came[place].is_empty() {
                let mut needs = std::mem::take(&mut came[place]);
                needs.extend(gates[place]);
                let gate = Message { src, dst: src, stream, ..Message::default() };
                gates[place] = Some(out.wait_for(&needs, gate));
                needs.clear();
                came[place] = needs;
            }
            let bytes = |(buffer, start, stop): (u32, u32, u32)| {
                let b = &rounds.buffers[buffer as usize];
                elements(b, rounds.atoms, job.elements, start, stop) * job.element_bytes as f64
            };
            let landed = |x: &Transfer| {
                x.from.runs().iter().map(|r| bytes((x.from.buffer, r.start, r.start + r.len))).sum::<f64>()
            };
            let added: f64 = transfers().filter(|x| x.reduce).map(landed).sum();
            let placed: f64 = transfers().filter(|x| !x.reduce).map(landed).sum();
            carried_places(transfers(), &mut carried);
            let next = out.list.len() as u32;
            let copy_of = match copies {
                true => *sent.entry((src, stream, carried.clone())).or_insert(next),
                false => next,
            };
            let message = Message {
                src,
                dst,
                way,
                stream,
                copy_of,
                pieces: carried.len() as u32,
                bytes: carried.iter().copied().map(bytes).sum(),
                added,
                traffic: 3.0 * added + 2.0 * placed,
                ..Message::default()
            };
            let id = out.wait_for(gates[place].as_slice(), message);
            arriving[group.taken].push((waits_at(dst, stream), id));
        }
        // Arrivals are taken after the sends of the round.
        for (dst, id) in std::mem::take(&mut arriving[t]) {
            came[dst].push(id);
        }
    }
    keep_order(&mut out.list);
    out
}

/// Links the messages of each pair of ranks whose messages take several ways: their receiver sees
/// them in the order in which they are sent.
fn keep_order(messages: &mut [Message<'_>]) {
    let mut ways: ByNumber<(u32, u32), WayOfMessage<'_>> = ByNumber::default();
    let mut several: BTreeMap<(u32, u32), Option<u32>> = BTreeMap::new();
    for m in messages.iter().filter(|m| m.src != m.dst) {
        let pair = (m.src, m.dst);
        if *ways.entry(pair).or_insert(m.way) != m.way {
            several.insert(pair, None);
        }
    }
    if several.is_empty() {
        return;
    }
    for id in 0..messages.len() {
        let pair = (messages[id].src, messages[id].dst);
        let Some(last) = several.get_mut(&pair) else { continue };
        messages[id].before = *last;
        if let Some(before) = last.replace(id as u32) {
            messages[before as usize].after = Some(id as u32);
        }
    }
}

/// The transfers of a round by the message that they form, in the order of the first of each.
#[derive(Default)]
struct Grouping<'a> {
    groups: Vec<Together<'a>>,
    numbers: ByNumber<Key<'a>, u32>,
    /// For each transfer the next one of its message, or [`LAST`].
    next: Vec<u32>,
}

/// The transfers of one message.
struct Together<'a> {
    key: Key<'a>,
    first: u32,
    last: u32,
    /// The round in which the first of them must be taken.
    taken: usize,
}

/// No further transfer.
const LAST: u32 = u32::MAX;

impl<'a> Grouping<'a> {
    /// Begins a round of so many transfers.
    fn begin(&mut self, transfers: usize) {
        self.groups.clear();
        self.numbers.clear();
        self.next.clear();
        self.next.resize(transfers, LAST);
    }

    fn add(&mut self, key: Key<'a>, transfer: usize, taken: usize) {
        let at = transfer as u32;
        let next = self.groups.len() as u32;
        let group = *self.numbers.entry(key).or_insert(next);
        if group == next {
            self.groups.push(Together { key, first: at, last: at, taken });
            return;
        }
        let group = &mut self.groups[group as usize];
        self.next[group.last as usize] = at;
        group.last = at;
        group.taken = taken.min(group.taken);
    }

    /// Iterates over the transfers of a message, in order.
    fn members(&self, group: &Together<'a>) -> impl Iterator<Item = usize> {
        let first = Some(group.first as usize);
        std::iter::successors(first, |at| Some(self.next[*at] as usize).filter(|next| *next != LAST as usize))
    }
}

/// Sets `out` to the places that the transfers of one message carry. A place with several
/// destinations at one peer travels once.
fn carried_places<'t>(transfers: impl Iterator<Item = &'t Transfer>, out: &mut Vec<(u32, u32, u32)>) {
    out.clear();
    for x in transfers {
        out.extend(x.from.runs().iter().map(|r| (x.from.buffer, r.start, r.start + r.len)));
    }
    if out.len() < 2 {
        return;
    }
    out.sort_unstable();
    out.dedup_by(|run, last| {
        let joins = last.0 == run.0 && run.1 <= last.2;
        if joins {
            last.2 = last.2.max(run.2);
        }
        joins
    });
}

/// Returns the number of elements in atoms `start..stop` of a buffer.
fn elements(buffer: &Buffer, atoms: u32, n: u64, start: u32, stop: u32) -> f64 {
    if buffer.scratch.is_some() || buffer.atoms != atoms {
        return n as f64 * f64::from(stop - start) / f64::from(atoms);
    }
    let at = |i: u32| CutRule::Even.boundary(n, i.into(), atoms.into());
    (at(stop) - at(start)) as f64
}

/// What messages have occupied of a link so far, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct LinkUse {
    /// From when on it is free.
    free: f64,
    /// For how long it was occupied.
    held: f64,
}

/// Simulates messages of several equal groups on the links of a machine.
struct Engine<'a> {
    job: &'a Job<'a>,
    messages: &'a [Message<'a>],
    feeds: &'a [(u32, u32)],
    simulated_groups: usize,
    needs: Vec<u32>,
    links: ByNumber<LinkId, LinkUse>,
    /// For each message, the rest of its route, if it has passed a link and has more before it.
    routes: Vec<Option<Route<'a>>>,
    /// The time at which each stream of a device has finished with everything received and moved so
    /// far.
    busy: ByNumber<(DeviceId, u32), f64>,
    /// The time at which its queue has finished everything sent so far, on a machine where queues
    /// move the data.
    queues: ByNumber<(DeviceId, u32), f64>,
    /// The time at which a device has taken in everything that arrived so far, on a machine with
    /// queues.
    inlets: ByNumber<DeviceId, f64>,
    /// For each message, the time at which its core releases its last byte.
    through: ByNumber<usize, f64>,
    /// Where switches copy messages: for each message of which there are copies, and each link into
    /// a switch that one of them has passed, when that one requested the link and when it started.
    copied: ByNumber<(usize, LinkId), (f64, f64)>,
    /// Next events, the earliest first.
    queue: BinaryHeap<Reverse<Event>>,
    /// For messages with one before them: whether that one is seen, or how it is waited for.
    turns: ByNumber<usize, TurnToBeSeen>,
}

/// What is known of a message that is seen after the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TurnToBeSeen {
    /// The one before it is seen.
    Come,
    /// It has arrived, and the one before it is not seen.
    Awaited,
}

/// An event: a message reaches a hop of its route at a time, which is not negative. Events are
/// ordered by time. Of one time, those come first in which a message has arrived; then links are
/// given to messages by sender and number. The event engine has the same order: where many messages
/// ask for a link at once, another one may take much longer.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Event {
    /// The bits of the time: they are ordered as times are.
    time: u64,
    /// 0 if the message has arrived; otherwise one more than the number of its sender.
    turn: u64,
    id: usize,
    hop: u32,
}

impl Event {
    fn new(time: f64, (id, from): (usize, DeviceId), hop: u32) -> Event {
        let turn = if hop == DONE { 0 } else { u64::from(from.0) + 1 };
        Event { time: time.to_bits(), turn, id, hop }
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Event) -> Ordering {
        let key = |e: &Event| (u128::from(e.time) << 64 | u128::from(e.turn), (e.id, e.hop));
        key(self).cmp(&key(other))
    }
}

/// The hop of an event at which a message has arrived and has been worked on.
const DONE: u32 = u32::MAX;

impl<'a> Engine<'a> {
    fn new(job: &'a Job<'a>, all: &'a Messages<'a>, simulated_groups: usize) -> Self {
        let messages = &all.list[..];
        Engine {
            job,
            messages,
            feeds: &all.feeds,
            simulated_groups,
            needs: messages.iter().map(|m| m.needs).cycle().take(messages.len() * simulated_groups).collect(),
            links: ByNumber::default(),
            routes: vec![None; messages.len() * simulated_groups],
            busy: ByNumber::default(),
            queues: ByNumber::default(),
            inlets: ByNumber::default(),
            through: ByNumber::default(),
            copied: ByNumber::default(),
            queue: BinaryHeap::new(),
            turns: ByNumber::default(),
        }
    }

    /// Returns a message with its two devices. Messages of group g are numbered from `g *
    /// messages`.
    fn message(&self, id: usize) -> (&'a Message<'a>, DeviceId, DeviceId) {
        let n = self.messages.len();
        let m = &self.messages[id % n];
        let members = &self.job.groups[id / n];
        (m, members[m.src as usize], members[m.dst as usize])
    }

    fn at(&mut self, time: f64, id: usize, hop: u32) {
        let (_, from, _) = self.message(id);
        self.queue.push(Reverse(Event::new(time, (id, from), hop)));
    }

    /// Returns the time of the last event, or none once an event is later than the limit.
    fn run(&mut self, limit: f64) -> Option<f64> {
        let n = self.messages.len();
        let ready = (0..n * self.simulated_groups).filter(|id| self.messages[id % n].needs == 0);
        self.queue = ready.map(|id| Reverse(Event::new(0.0, (id, self.message(id).1), 0))).collect();
        let mut end = 0.0f64;
        while let Some(Reverse(Event { time, id, hop, .. })) = self.queue.pop() {
            let time = f64::from_bits(time);
            if time > limit {
                return None;
            }
            if hop != DONE {
                self.step(time, id, hop);
                continue;
            }
            end = end.max(time);
            let mut seen = self.is_seen(id).then_some(id);
            while let Some(id) = seen {
                seen = self.sees(time, id);
            }
        }
        Some(end)
    }

    /// Returns whether a message that has arrived is seen. Otherwise it is when its turn comes.
    fn is_seen(&mut self, id: usize) -> bool {
        if self.messages[id % self.messages.len()].before.is_none() {
            return true;
        }
        let turn = self.turns.entry(id).or_insert(TurnToBeSeen::Awaited);
        *turn == TurnToBeSeen::Come
    }

    /// Lets messages start that wait for one that is seen. Returns the message after it, if that
    /// has arrived and is seen now.
    fn sees(&mut self, time: f64, id: usize) -> Option<usize> {
        let n = self.messages.len();
        let first = id - id % n;
        let mut feeds = self.messages[id % n].feeds.map_or(LAST, |f| f.0);
        while let Some(&(next, more)) = self.feeds.get(feeds as usize) {
            feeds = more;
            let next = first + next as usize;
            self.needs[next] -= 1;
            if self.needs[next] == 0 {
                self.at(time, next, 0);
            }
        }
        let after = first + self.messages[id % n].after? as usize;
        let turn = self.turns.insert(after, TurnToBeSeen::Come);
        (turn == Some(TurnToBeSeen::Awaited)).then_some(after)
    }

    /// Handles the event that the head of a message reaches a link of its route, or the end of the
    /// route.
    fn step(&mut self, time: f64, id: usize, hop: u32) {
        let (m, from, to) = self.message(id);
        let topology = self.job.topology;
        let settings = topology.settings();
        if from == to {
            return self.land(time, 0.0, id, m, to);
        }
        // The release fence and the endpoint come before the first link. Queues need no fence.
        let fence = if settings.queues().is_some() { 0.0 } else { settings.fence_ns() };
        let store = settings.forward() == Forward::StoreAndForward;
        let empty = self.job.elements == 0;
        let (mut time, mut hop) = (time, hop);
        let mut route = self.routes[id].take();
        if hop == 0 {
            time = self.core(time + fence, id, m, from) + settings.endpoint_ns();
            route = Some(topology.route(from, to, m.way));
        }
        while let Some(mut rest) = route
            && let Some(mut link) = rest.next()
        {
            if !empty && settings.queues().is_none() {
                link = rest.choose(link, |l| {
                    let free = self.links.get(&l).map_or(0.0, |l| l.free);
                    time.max(free) + m.bytes / topology.rate(l).bandwidth * 1e9
                });
            }
            let rate = topology.rate(link);
            let service = m.bytes / rate.bandwidth * 1e9;
            let mut start = time;
            // Without bytes no link is ever busy.
            if !empty {
                start = self.enters(time, (id, m), link, settings.rounded(service));
            }
            let passed = rate.latency_ns + if store { service } else { 0.0 };
            (time, hop) = (start + settings.rounded(passed), hop + 1);
            let more = rest.len() > 0;
            route = more.then_some(rest);
            // Of messages that never wait for a link, only the order of arrivals matters.
            if (!more || !empty)
                && self.queue.peek().is_some_and(|Reverse(first)| *first < Event::new(time, (id, from), hop))
            {
                self.routes[id] = route;
                return self.at(time, id, hop);
            }
        }
        let cost = topology.route_cost(from, to, m.way);
        let tail = if store { 0.0 } else { settings.rounded(m.bytes / cost.bandwidth * 1e9) };
        match settings.queues() {
            None => {
                let there = (time + tail).max(self.through.get(&id).copied().unwrap_or(0.0));
                let notify = settings.cores.notify.map_or(0.0, |t| t.max(cost.latency_ns));
                self.land(there + notify + fence, 0.0, id, m, to);
            }
            Some(queues) => {
                let access = queues.access.map_or(0.0, |a| a.ns(m.bytes as u64, m.pieces.into()));
                let (on_way, drain) =
                    if settings.forward() == Forward::Drain { (0.0, tail) } else { (tail, 0.0) };
                let inlet = self.inlets.entry(to).or_insert(0.0);
                *inlet = inlet.max(time + on_way) + drain + access;
                let written = *inlet;
                self.land(written, access, id, m, to);
            }
        }
    }

    /// Returns when a message that reaches a link enters it. It occupies the link for `hold`
    /// nanoseconds, unless a copy of it did so at the same time.
    fn enters(&mut self, time: f64, (id, m): (usize, &Message<'_>), link: LinkId, hold: f64) -> f64 {
        let topology = self.job.topology;
        let n = self.messages.len();
        let first = id - id % n + m.copy_of as usize;
        let copied = topology.settings().switching().multicast && topology.ends_at_switch(link);
        if copied
            && let Some((asked, start)) = self.copied.get(&(first, link))
            && *asked == time
        {
            return *start;
        }
        let of_link = self.links.entry(link).or_default();
        let start = time.max(of_link.free);
        of_link.free = start + hold;
        of_link.held += hold;
        if copied {
            self.copied.insert((first, link), (time, start));
        }
        start
    }

    /// Returns when the core of a rank, which has a message to send from `time` on, releases its
    /// first byte; with store-and-forward links, its last byte.
    fn core(&mut self, time: f64, id: usize, m: &Message<'_>, from: DeviceId) -> f64 {
        let settings = self.job.topology.settings();
        let Some(mover) = settings.cores.put_limit().filter(|_| settings.queues().is_none()) else {
            return time;
        };
        let pieces = u64::from(m.pieces.max(1));
        let held = mover.ns((m.bytes / pieces as f64).ceil() as u64, 0.0) * pieces as f64;
        let moving = if let Mover::Tiles { .. } = mover { &mut self.busy } else { &mut self.queues };
        let free = moving.entry((from, m.stream)).or_insert(0.0);
        let start = time.max(*free);
        *free = start + held;
        if settings.forward() == Forward::StoreAndForward {
            return start + held;
        }
        self.through.insert(id, start + held);
        start
    }

    /// Handles the arrival of a message: the receiver reads it, which takes `taking` nanoseconds,
    /// and works on it.
    fn land(&mut self, arrived: f64, taking: f64, id: usize, m: &Message<'_>, to: DeviceId) {
        let settings = self.job.topology.settings();
        let memory = settings.memory().min(settings.cores.memory());
        let work =
            taking + (settings.vector_bytes(m.added) / settings.vector()).max(m.traffic / memory) * 1e9;
        let done = if work > 0.0 {
            let free = self.busy.entry((to, m.stream)).or_insert(0.0);
            *free = free.max(arrived) + work;
            *free
        } else {
            arrived
        };
        self.at(done, id, DONE);
    }
}
