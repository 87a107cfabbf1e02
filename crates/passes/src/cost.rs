//! Cost model: the time that the rounds of an algorithm take on a machine, estimated before there
//! is a schedule.
//!
//! This module owns the price of one collective with one algorithm. `select` makes the choice. The
//! real time comes from the event engine, which simulates the finished schedule.
//!
//! **Up to 64 ranks** ([`exact_ranks`]; 256 on a machine given by a list of links) the algorithm's
//! rounds are expanded and simulated on the machine's links, all groups of the axis at once:
//!
//! * A message is everything that one rank sends another in a round. It starts when everything that
//!   its sender received in earlier rounds is there.
//! * It takes the dimension-order route, cut-through: it pays the latency of each hop, and its
//!   bytes once at the slowest link. Each link is busy for bytes over bandwidth, and serves
//!   messages first come, first served.
//! * A message pays a fence on both sides.
//! * The receiver works on its messages one after another. Bytes that are added pay the vector
//!   rate. Memory traffic is three times the bytes that are added and twice the bytes that are put
//!   in place. The slower of both counts.
//!
//! On a machine with queues there are no fences. A rank takes in one message after another, and
//! each piece pays a write to a slot; the receiver pays the reads. With `forward: drain`, taking in
//! a message costs its bytes over the slowest link, and these are not paid on the route.
//!
//! On a machine that describes its cores, every stream of a rank is a core. Its messages leave one
//! after another, and each piece occupies the core, which does nothing else meanwhile (a queue that
//! copies leaves the core free). The tail of a message follows its head by that time. A notify
//! through memory follows every message. Work on received data uses at most the core's share of the
//! memory bandwidth.
//!
//! Two things are left out: credits and signals that travel alone, which depend on the lowering;
//! and the copies into and out of a collective, which are the same for all algorithms.
//!
//! **Above that number of ranks**, the same is done on three smaller machines of the same shape,
//! once with the bytes and once with none. Each side is halved, and powers of two stay powers of
//! two. Both parts are extrapolated to the real size: over successive halvings, the differences of
//! a latency or byte term of the form `a + b p^e` or `a + b log p` form a geometric sequence, and
//! the terms of the library have these forms. Of the machines given by a list of links, only a
//! whole package has smaller relatives.

mod streams;

use kbc_ir::types::{CutRule, Mesh};
use kbc_machine::topology::cores::Mover;
use kbc_machine::topology::{DeviceId, Direction, Forward, LinkId, Shape, Topology, device_count};
use kbc_rounds::rounds::{Buffer, coordinates, linear};
use kbc_rounds::{Call, Library, Limits, Rounds, Transfer, expand, group};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// Largest group that is priced by its own rounds.
const EXACT_RANKS: u64 = 64;

/// The same limit on machines given by a list of links.
const LISTED_RANKS: u64 = 256;

/// Largest number of simulated messages. If there are more, only the first groups of the axis are
/// simulated.
const MAX_MESSAGES: usize = 400_000;

/// The method that found a price.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Method {
    /// The rounds of all groups were simulated on the machine's links.
    Rounds,
    /// Only the rounds of the first groups were simulated: (simulated groups, all groups).
    SomeGroups(usize, usize),
    /// Extrapolated from machines with these numbers of ranks.
    Extrapolated([u64; 3]),
}

/// The cost of an algorithm.
#[derive(Clone, PartialEq, Debug)]
pub struct Price {
    /// Nanoseconds by the cost model.
    pub ns: f64,
    /// Nanoseconds of the finished schedule, by the time model that the driver supplies. None if it
    /// was not measured.
    pub simulated: Option<f64>,
    /// Rounds with at least one message.
    pub rounds: u64,
    /// Bytes sent by the rank that sends most.
    pub sent: u64,
    /// The method that found the price.
    pub method: Method,
}

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

/// Returns the groups of ranks that differ only in one axis of the mesh.
pub fn groups(mesh: &Mesh, axis: &str) -> Vec<Vec<DeviceId>> {
    let Some(at) = mesh.axes.iter().position(|a| a.name == *axis) else { return vec![] };
    let inner: u64 = mesh.axes[at + 1..].iter().map(|a| a.size).product();
    let size = mesh.axes[at].size;
    let firsts = (0..mesh.ranks()).filter(|r| (r / inner).is_multiple_of(size));
    firsts.map(|first| (0..size).map(|i| DeviceId((first + i * inner) as u32)).collect()).collect()
}

/// Returns the machine that is assumed if none is known: every rank is linked with every other.
///
/// # Errors
/// Same as [`Topology::build`].
pub fn complete_machine(ranks: u64) -> Result<Topology, kbc_diag::Diagnostic> {
    let n = u32::try_from(ranks).unwrap_or(u32::MAX);
    Topology::build(Shape::Full(n), Default::default(), kbc_diag::Span::NONE)
}

/// Returns the largest number of ranks at which a collective is simulated on the machine itself,
/// and its schedule is simulated. The limit is higher for machines given by a list of links,
/// because their smaller relatives are less representative.
pub fn exact_ranks(topology: &Topology) -> u64 {
    if topology.is_listed() { LISTED_RANKS } else { EXACT_RANKS }
}

/// Returns the price of a collective with that algorithm.
///
/// # Errors
/// Returns a text that states why the algorithm cannot be expanded or priced.
pub fn price(job: &Job<'_>, call: &Call) -> Result<Price, String> {
    let p: i64 = call.sizes.iter().product();
    if p as u64 <= exact_ranks(job.topology) {
        let rounds = rounds_of(job.library, call)?;
        let messages = rounds.transfers().filter(|(_, x)| x.is_remote()).count().max(1);
        let simulated_groups = (MAX_MESSAGES / messages).clamp(1, job.groups.len().max(1));
        let all = job.groups.len();
        let method =
            if simulated_groups < all { Method::SomeGroups(simulated_groups, all) } else { Method::Rounds };
        let (ns, sent) = simulate(job, &rounds, simulated_groups);
        let rounds = kbc_rounds::cost(&rounds).rounds.into();
        return Ok(Price { ns, simulated: None, rounds, sent, method });
    }
    continued(job, call, p as u64)
}

fn rounds_of(library: &Library, call: &Call) -> Result<Rounds, String> {
    expand(library, call, &Limits::default()).map_err(|found| {
        let first = found.list.first();
        first.map_or("it has no rounds for this shape".into(), |d| format!("{}: {}", d.code, d.title))
    })
}

/// Returns the nanoseconds until all data has arrived, and the bytes sent by the rank that sends
/// most.
fn simulate(job: &Job<'_>, rounds: &Rounds, simulated_groups: usize) -> (f64, u64) {
    let messages = messages(job, rounds);
    let ranks = rounds.ranks() as usize;
    let mut sent = vec![0.0f64; ranks];
    for m in messages.iter().filter(|m| m.src != m.dst) {
        sent[m.src as usize] += m.bytes;
    }
    let most = sent.iter().copied().fold(0.0, f64::max);
    (Engine::new(job, &messages, simulated_groups).run(), most as u64)
}

/// A message: what one rank sends another in a round.
#[derive(Default)]
struct Message {
    src: u32,
    dst: u32,
    way: i8,
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
    /// Messages that wait for it.
    feeds: Vec<u32>,
}

/// The key of a message: sender, receiver, link hint and stream. Transfers with the same key form
/// one message.
type Key = (u32, u32, i8, u32);

/// Returns all messages of one group in the order of rounds, with their dependences. A stream of a
/// rank works in program order: in each round it first sends and then takes what arrives. So a
/// message waits for everything that its sender received in earlier rounds. What was received is
/// gathered in a message without bytes from the rank to itself, which keeps the dependences few.
fn messages(job: &Job<'_>, rounds: &Rounds) -> Vec<Message> {
    let streams = match job.topology.settings().cores.put_limit() {
        Some(_) => streams::streams(rounds),
        None => vec![],
    };
    let width = streams.iter().max().map_or(1, |s| s + 1);
    let places = rounds.ranks() as usize * width as usize;
    let mut out: Vec<Message> = vec![];
    // For each stream of each rank: the last gathering message, and the arrivals since.
    let mut gates: Vec<Option<u32>> = vec![None; places];
    let mut came: Vec<Vec<u32>> = vec![vec![]; places];
    for round in &rounds.rounds {
        // Messages of a rank in program order, which is the order in which it sends them.
        let mut places: BTreeMap<Key, usize> = BTreeMap::new();
        let mut together: Vec<(Key, Vec<&Transfer>)> = vec![];
        for x in round {
            let key =
                (x.src, x.dst, x.direction.signum(), streams.get(x.lane as usize).copied().unwrap_or(0));
            let at = *places.entry(key).or_insert(together.len());
            if at == together.len() {
                together.push((key, vec![]));
            }
            together[at].1.push(x);
        }
        let mut arriving: Vec<(u32, u32)> = vec![];
        for ((src, dst, way, stream), transfers) in together {
            let place = (src * width + stream) as usize;
            if !came[place].is_empty() {
                let mut needs = std::mem::take(&mut came[place]);
                needs.extend(gates[place]);
                let gate = Message { src, dst: src, stream, ..Message::default() };
                gates[place] = Some(wait_for(&mut out, &needs, gate));
            }
            let bytes = |(buffer, start, stop): (u32, u32, u32)| {
                let b = &rounds.buffers[buffer as usize];
                elements(b, rounds.atoms, job.elements, start, stop) * job.element_bytes as f64
            };
            let landed = |x: &&Transfer| {
                x.from.runs().iter().map(|r| bytes((x.from.buffer, r.start, r.start + r.len))).sum::<f64>()
            };
            let added: f64 = transfers.iter().filter(|x| x.reduce).map(landed).sum();
            let placed: f64 = transfers.iter().filter(|x| !x.reduce).map(landed).sum();
            let carried = carried_places(&transfers);
            let message = Message {
                src,
                dst,
                way,
                stream,
                pieces: carried.len() as u32,
                bytes: carried.into_iter().map(bytes).sum(),
                added,
                traffic: 3.0 * added + 2.0 * placed,
                ..Message::default()
            };
            let needs: Vec<u32> = gates[place].into_iter().collect();
            arriving.push((dst * width + stream, wait_for(&mut out, &needs, message)));
        }
        // Arrivals of a round are taken after the sends of the round.
        for (dst, id) in arriving {
            came[dst as usize].push(id);
        }
    }
    out
}

/// Adds a message that waits for others, and returns its number.
fn wait_for(out: &mut Vec<Message>, needs: &[u32], message: Message) -> u32 {
    let id = out.len() as u32;
    needs.iter().for_each(|n| out[*n as usize].feeds.push(id));
    out.push(Message { needs: needs.len() as u32, ..message });
    id
}

/// Returns the places that the transfers of one message carry. A place with several destinations at
/// one peer travels once.
fn carried_places(transfers: &[&Transfer]) -> Vec<(u32, u32, u32)> {
    let of = |x: &&Transfer| {
        let buffer = x.from.buffer;
        x.from.runs().iter().map(|r| (buffer, r.start, r.start + r.len)).collect::<Vec<_>>()
    };
    let mut runs: Vec<(u32, u32, u32)> = transfers.iter().flat_map(of).collect();
    runs.sort_unstable();
    let mut out: Vec<(u32, u32, u32)> = vec![];
    for (buffer, start, stop) in runs {
        match out.last_mut() {
            Some(last) if last.0 == buffer && start <= last.2 => last.2 = last.2.max(stop),
            _ => out.push((buffer, start, stop)),
        }
    }
    out
}

/// Returns the number of elements in atoms `start..stop` of a buffer.
fn elements(buffer: &Buffer, atoms: u32, n: u64, start: u32, stop: u32) -> f64 {
    if buffer.scratch.is_some() || buffer.atoms != atoms {
        return n as f64 * f64::from(stop - start) / f64::from(atoms);
    }
    let at = |i: u32| CutRule::Even.boundary(n, i.into(), atoms.into());
    (at(stop) - at(start)) as f64
}

/// Simulates messages of several equal groups on the links of a machine.
struct Engine<'a> {
    job: &'a Job<'a>,
    messages: &'a [Message],
    simulated_groups: usize,
    needs: Vec<u32>,
    free: HashMap<LinkId, f64>,
    /// The time at which each stream of a device has finished with everything received and moved so
    /// far.
    busy: HashMap<(DeviceId, u32), f64>,
    /// The time at which its queue has finished everything sent so far, on a machine where queues
    /// move the data.
    queues: HashMap<(DeviceId, u32), f64>,
    /// The time at which a device has taken in everything that arrived so far, on a machine with
    /// queues.
    inlets: HashMap<DeviceId, f64>,
    /// For each message, the time at which its core releases its last byte.
    through: HashMap<usize, f64>,
    /// Next events: time, message, hop. The bits of a non-negative float sort in the same order as
    /// the float.
    queue: BinaryHeap<Reverse<(u64, usize, u32)>>,
}

/// The hop of an event at which a message has arrived and has been worked on.
const DONE: u32 = u32::MAX;

impl<'a> Engine<'a> {
    fn new(job: &'a Job<'a>, messages: &'a [Message], simulated_groups: usize) -> Self {
        Engine {
            job,
            messages,
            simulated_groups,
            needs: messages.iter().map(|m| m.needs).cycle().take(messages.len() * simulated_groups).collect(),
            free: HashMap::new(),
            busy: HashMap::new(),
            queues: HashMap::new(),
            inlets: HashMap::new(),
            through: HashMap::new(),
            queue: BinaryHeap::new(),
        }
    }

    /// Returns a message with its two devices. Messages of group g are numbered from `g *
    /// messages`.
    fn message(&self, id: usize) -> (&'a Message, DeviceId, DeviceId) {
        let n = self.messages.len();
        let m = &self.messages[id % n];
        let members = &self.job.groups[id / n];
        (m, members[m.src as usize], members[m.dst as usize])
    }

    fn at(&mut self, time: f64, id: usize, hop: u32) {
        self.queue.push(Reverse((time.to_bits(), id, hop)));
    }

    fn run(mut self) -> f64 {
        let n = self.messages.len();
        let ready = (0..n * self.simulated_groups).filter(|id| self.messages[id % n].needs == 0);
        self.queue = ready.map(|id| Reverse((0, id, 0))).collect();
        let mut end = 0.0f64;
        while let Some(Reverse((time, id, hop))) = self.queue.pop() {
            let time = f64::from_bits(time);
            if hop != DONE {
                self.step(time, id, hop);
                continue;
            }
            end = end.max(time);
            let first = id - id % n;
            for &next in &self.messages[id % n].feeds {
                let next = first + next as usize;
                self.needs[next] -= 1;
                if self.needs[next] == 0 {
                    self.at(time, next, 0);
                }
            }
        }
        end
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
        let hint = match m.way {
            1 => Some(Direction::Plus),
            -1 => Some(Direction::Minus),
            _ => None,
        };
        // The release fence and the endpoint come before the first link. Queues need no fence.
        let fence = if settings.queues().is_some() { 0.0 } else { settings.fence_ns() };
        let store = settings.forward() == Forward::StoreAndForward;
        let time = match hop {
            0 => self.core(time + fence, id, m, from) + settings.endpoint_ns(),
            _ => time,
        };
        let mut route = topology.route(from, to, hint);
        if let Some(link) = route.nth(hop as usize) {
            let rate = topology.rate(link);
            let free = self.free.entry(link).or_insert(0.0);
            let start = time.max(*free);
            let service = m.bytes / rate.bandwidth * 1e9;
            *free = start + settings.rounded(service);
            let passed = rate.latency_ns + if store { service } else { 0.0 };
            return self.at(start + settings.rounded(passed), id, hop + 1);
        }
        let tail = match store {
            true => 0.0,
            false => settings.rounded(m.bytes / topology.route_cost(from, to, hint).bandwidth * 1e9),
        };
        match settings.queues() {
            None => {
                let latency = topology.route_cost(from, to, hint).latency_ns;
                let there = (time + tail).max(self.through.get(&id).copied().unwrap_or(0.0));
                let notify = settings.cores.notify.map_or(0.0, |t| t.max(latency));
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

    /// Returns when the core of a rank, which has a message to send from `time` on, releases its
    /// first byte; with store-and-forward links, its last byte.
    fn core(&mut self, time: f64, id: usize, m: &Message, from: DeviceId) -> f64 {
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
    fn land(&mut self, arrived: f64, taking: f64, id: usize, m: &Message, to: DeviceId) {
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

/// Returns the price above [`exact_ranks`], extrapolated from smaller machines.
fn continued(job: &Job<'_>, call: &Call, p: u64) -> Result<Price, String> {
    let dims: Vec<u64> = call.sizes.iter().map(|&s| s as u64).collect();
    let everybody = job.topology.device_count() as u64 == p;
    let some = job.topology.settings().package.first().is_some();
    if job.topology.is_listed() && (!everybody || some || !job.topology.is_package()) {
        return Err(format!(
            "no estimate for {p} ranks: the machine is a list of links, so there are no smaller machines to extrapolate from"
        ));
    }
    // The machine of one group: a machine of the call's sides if it has several, otherwise the
    // machine itself.
    let whole = match (&dims[..], job.topology.device_count() as u64 == p) {
        ([_], true) => job.topology.shape().clone(),
        _ if job.topology.is_listed() => job.topology.shape().clone(),
        _ => under(job.topology.shape(), &dims),
    };
    let mut ladder: Vec<Smaller> = vec![];
    let mut halvings = 0;
    while ladder.len() < 3 && halvings < 64 {
        let small = shrunk(&whole, halvings);
        let ranks = device_count(&small, job.topology.settings()).unwrap_or(u64::MAX);
        if ranks <= EXACT_RANKS && ladder.last().is_none_or(|l| l.shape != small) {
            let sizes = match dims[..] {
                [_] => vec![ranks as i64],
                _ => dims.iter().map(|&d| halved(d, halvings) as i64).collect(),
            };
            if sizes.iter().product::<i64>() != ranks as i64 {
                return Err(format!(
                    "no estimate for {p} ranks: the shape of the call does not match the shape of the machine"
                ));
            }
            ladder.push(Smaller { shape: small, ranks, sizes });
        }
        halvings += 1;
    }
    ladder.reverse();
    let [a, b, c] = &ladder[..] else {
        return Err("no estimate: there are too few smaller machines to extrapolate from".into());
    };
    let mut points = vec![];
    for small in [a, b, c] {
        points.push(point(job, call, small, p).map_err(|why| format!("no estimate for {p} ranks: {why}"))?);
    }
    let ranks = [a.ranks, b.ranks, c.ranks];
    let along =
        |get: fn(&Point) -> f64| growth([get(&points[0]), get(&points[1]), get(&points[2])], ranks, p);
    Ok(Price {
        simulated: None,
        ns: along(|x| x.latency) + along(|x| x.transfer),
        rounds: along(|x| x.rounds).round() as u64,
        sent: along(|x| x.sent).round() as u64,
        method: Method::Extrapolated(ranks),
    })
}

/// Returns a machine with these sides, of the kind of a larger machine.
fn under(shape: &Shape, sides: &[u64]) -> Shape {
    let small: Vec<u32> = sides.iter().map(|&s| s as u32).collect();
    match (shape, &small[..]) {
        (Shape::Full(_), _) => Shape::Full(small.iter().product()),
        (Shape::Switch(_), _) => Shape::Switch(small.iter().product()),
        (Shape::Mesh(_), _) => Shape::Mesh(small),
        (_, [one]) => Shape::Ring(*one),
        _ => Shape::Torus(small),
    }
}

/// Returns a machine whose sides are halved this many times.
fn shrunk(shape: &Shape, halvings: u32) -> Shape {
    let side = |s: &u32| halved(u64::from(*s), halvings) as u32;
    match shape {
        Shape::Ring(n) => Shape::Ring(side(n)),
        Shape::Full(n) => Shape::Full(side(n)),
        Shape::Switch(n) => Shape::Switch(side(n)),
        Shape::Torus(sizes) => Shape::Torus(sizes.iter().map(side).collect()),
        Shape::Mesh(sizes) => Shape::Mesh(sizes.iter().map(side).collect()),
        Shape::Hypercube(k) => Shape::Hypercube(k.saturating_sub(halvings).max(1)),
        Shape::Tree(arity, depth) => Shape::Tree(*arity, depth.saturating_sub(halvings).max(1)),
        Shape::Hierarchy(levels) => Shape::Hierarchy(levels.iter().map(|l| shrunk(l, halvings)).collect()),
        Shape::Graph { .. } => shape.clone(),
        Shape::Package { sips, cubes: [h, w], pes } => Shape::Package {
            sips: Box::new(shrunk(sips, halvings)),
            cubes: [side(h), side(w)],
            pes: side(pes),
        },
    }
}

/// Returns a side halved this many times. A power of two stays a power of two; any other side
/// becomes three times a power of two, so never a power of two.
pub(crate) fn halved(side: u64, halvings: u32) -> u64 {
    let exact = side >> halvings;
    match exact {
        0 => 1,
        _ if side.is_power_of_two() || halvings == 0 => exact,
        1..3 => 3.min(side),
        // The nearest 3 * 2^k below.
        _ => 3 << (exact / 3).ilog2(),
    }
}

struct Point {
    latency: f64,
    transfer: f64,
    rounds: f64,
    sent: f64,
}

/// A machine to extrapolate from.
struct Smaller {
    shape: Shape,
    ranks: u64,
    /// Sizes of the call on the machine.
    sizes: Vec<i64>,
}

fn point(job: &Job<'_>, call: &Call, small: &Smaller, p: u64) -> Result<Point, String> {
    let (ranks, sizes) = (small.ranks, small.sizes.clone());
    let topology = Topology::build(small.shape.clone(), *job.topology.settings(), kbc_diag::Span::NONE)
        .map_err(|d| d.title)?;
    let root = call.root.as_ref().map(|r| {
        let at = linear(&call.sizes, r) as u64 * ranks / p;
        coordinates(&sizes, at as i64)
    });
    let call = Call { sizes, root, ..call.clone() };
    match group::is_legal(job.library, &call) {
        Ok(true) => {}
        Ok(false) => return Err(format!("not defined for {ranks}, from which it would be extrapolated")),
        Err(d) => return Err(d.title),
    }
    let rounds = rounds_of(job.library, &call)?;
    let one = Job { topology: &topology, groups: vec![topology.devices().collect()], ..job.clone() };
    let (total, sent) = simulate(&one, &rounds, 1);
    let (latency, _) = simulate(&Job { elements: 0, ..one }, &rounds, 1);
    let count = kbc_rounds::cost(&rounds).rounds;
    Ok(Point { latency, transfer: total - latency, rounds: count.into(), sent: sent as f64 })
}

/// Extrapolates three values at growing numbers of ranks to `p`. The differences form a geometric
/// sequence.
pub(crate) fn growth([a, b, c]: [f64; 3], [pa, pb, pc]: [u64; 3], p: u64) -> f64 {
    let (first, second) = (b - a, c - b);
    let scale = (pc as f64 / pb as f64).ln();
    let before = (pb as f64 / pa as f64).ln();
    if second == 0.0 || first == 0.0 || (first < 0.0) != (second < 0.0) || scale <= 0.0 || before <= 0.0 {
        return c;
    }
    let steps = (p as f64 / pc as f64).ln() / scale;
    // The formula assumes equal steps of log p. If the steps differ a little (sides that are not
    // powers of two), q is corrected.
    let q = (second / first) / (scale / before);
    let sum = if (q - 1.0).abs() < 1e-6 { steps } else { q * (q.powf(steps) - 1.0) / (q - 1.0) };
    (c + second * sum).max(0.0)
}
