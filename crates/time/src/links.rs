//! Directed links as FIFOs with bandwidth and latency: when a message may enter, and how far its
//! tail is behind its head.
//!
//! This module owns the occupancy of links, their traffic, and the rules of a machine for its links
//! (`forward`, `round`). The engine decides when a message makes its request. On machines with very
//! many links, a link is created on first use.

use super::clock::{Rate, Time};
use kbc_machine::topology::{Forward, LinkId, LinkRate, Settings, Topology};
use std::collections::{BTreeMap, HashMap};

/// Number of links up to which a machine has an entry for each of them.
const DENSE: u64 = 1 << 16;
/// The class of a link that has not been used yet.
const UNKNOWN: u32 = u32::MAX;

/// No link.
pub(super) const NO_LINK: u32 = u32::MAX;

/// The thread whose messages a link carries, and the link over which they come to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Feeder {
    pub(super) thread: u32,
    /// [`NO_LINK`] at the first link of a route.
    pub(super) before: u32,
}

/// The feeder of a link that has not been used yet.
const UNFED: Feeder = Feeder { thread: u32::MAX, before: NO_LINK };

/// A directed link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    id: LinkId,
    /// Index of its rate, or [`UNKNOWN`].
    class: u32,
    /// Maintained only by [`Links::feed`].
    feeder: Feeder,
    /// Time from which the next message may enter.
    free: Time,
    /// Time at which the head of the last message left. Maintained only under [`Rules`].
    last: Time,
    busy: Time,
    /// Sum of the times for which heads waited for it.
    waited: Time,
    bytes: u64,
    messages: u64,
}

impl Link {
    fn unused(id: LinkId) -> Link {
        let zero = Time::ZERO;
        Link {
            id,
            class: UNKNOWN,
            feeder: UNFED,
            free: zero,
            last: zero,
            busy: zero,
            waited: zero,
            bytes: 0,
            messages: 0,
        }
    }

    /// Checks whether it is like `before`, but later by a shift.
    pub(super) fn shifted(&self, before: &Link, by: Time) -> bool {
        // Without rules, `last` has no meaning and stays zero.
        let last = before.last + if self.last > Time::ZERO { by } else { Time::ZERO };
        self.free == before.free + by && self.last == last
    }
}

#[derive(Clone, Debug)]
struct Class {
    latency: Time,
    bandwidth: Rate,
    /// The rounded times of the last message, where there are rules. Most have one length.
    rounded: Rounded,
}

/// The times of a message on a link by [`Rules`].
#[derive(Clone, Copy, Debug)]
struct Rounded {
    /// The time of its bytes, which is not rounded.
    service: Time,
    /// How long the link is busy.
    hold: Time,
    /// The time until the last byte has arrived.
    whole: Time,
    /// The time until the first one has.
    head: Time,
}

/// Rules for passing links, if they differ from cut-through in exact times.
#[derive(Clone, Copy, Debug)]
struct Rules {
    forward: Forward,
    round: Option<Time>,
}

impl Rules {
    /// Returns the rules of a machine. None for the default.
    fn of(settings: &Settings) -> Option<Rules> {
        let forward = settings.forward();
        let round = settings.round_ns().map(Time::from_ns);
        (forward != Forward::CutThrough || round.is_some()).then_some(Rules { forward, round })
    }

    fn rounded(self, t: Time) -> Time {
        self.round.map_or(t, |q| t.down_to(q))
    }

    /// Returns the times of a message on a link of this latency.
    fn times(self, latency: Time, service: Time) -> Rounded {
        let [hold, whole, head] = [service, latency + service, latency].map(|t| self.rounded(t));
        Rounded { service, hold, whole, head }
    }

    /// Passes a message as [`Links::pass`] does. `times` are those of its bytes on this link. With
    /// store-and-forward a message leaves as a whole: its tail is with its head. Otherwise the tail
    /// is as far behind the head as the slowest link so far makes it, less what it caught up while
    /// the head waited. With `forward: drain` it does not catch up.
    fn pass(self, link: &mut Link, at: Time, lag: Time, times: Rounded) -> Passage {
        let Rounded { service: _, hold, whole, head } = times;
        let start = at.max(link.free);
        link.free = start + hold;
        link.busy = link.busy + hold;
        let waited = start.since(at);
        link.waited = link.waited + waited;
        let (head, lag) = match self.forward {
            Forward::StoreAndForward => (whole, Time::ZERO),
            Forward::CutThrough => (head, whole.since(head).max(lag.since(waited))),
            Forward::Drain => (head, whole.since(head).max(lag)),
        };
        // Because of the rounding, a message could otherwise overtake its predecessor.
        let head = (start + head).max(link.last);
        link.last = head;
        Passage { start, head, lag, free: link.free }
    }
}

/// All links of a machine.
#[derive(Clone, Debug)]
pub(super) struct Links {
    list: Vec<Link>,
    /// Index of a link in `list`, if it is not its number. Used for lookups only and never
    /// iterated.
    places: Option<HashMap<LinkId, u32>>,
    classes: Vec<Class>,
    numbers: BTreeMap<(u64, u64), u32>,
    rules: Option<Rules>,
}

/// The passage of a message over a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Passage {
    /// Time at which its head enters.
    pub(super) start: Time,
    /// Time at which its head leaves at the other end.
    pub(super) head: Time,
    /// Delay of its tail behind its head when it leaves.
    pub(super) lag: Time,
    /// Time from which the next message may enter.
    pub(super) free: Time,
}

/// The traffic of a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Load {
    pub(super) id: LinkId,
    pub(super) busy: Time,
    pub(super) waited: Time,
    pub(super) bytes: u64,
    pub(super) messages: u64,
}

impl Links {
    pub(super) fn new(topo: &Topology) -> Links {
        let count = topo.link_count();
        let dense = count <= DENSE.max(16 * topo.device_count() as u64);
        Links {
            list: if dense { (0..count as u32).map(|i| Link::unused(LinkId(i))).collect() } else { vec![] },
            places: (!dense).then(HashMap::new),
            classes: vec![],
            numbers: BTreeMap::new(),
            rules: Rules::of(topo.settings()),
        }
    }

    fn place(&mut self, id: LinkId) -> usize {
        let Some(places) = &mut self.places else { return id.0 as usize };
        let next = self.list.len() as u32;
        let place = *places.entry(id).or_insert(next);
        if place == next {
            self.list.push(Link::unused(id));
        }
        place as usize
    }

    fn class(&mut self, rate: LinkRate) -> u32 {
        let classes = &mut self.classes;
        *self.numbers.entry((rate.bandwidth.to_bits(), rate.latency_ns.to_bits())).or_insert_with(|| {
            let none = Rounded { service: Time::MAX, hold: Time::MAX, whole: Time::MAX, head: Time::MAX };
            classes.push(Class {
                latency: Time::from_ns(rate.latency_ns),
                bandwidth: Rate::new(rate.bandwidth),
                rounded: none,
            });
            classes.len() as u32 - 1
        })
    }

    /// Passes a message over a link. Its head arrives at `at` with its tail `lag` behind. Calls
    /// must come in the order of `at`.
    pub(super) fn pass(&mut self, topo: &Topology, id: LinkId, at: Time, lag: Time, bytes: u64) -> Passage {
        let place = self.place(id);
        self.pass_at(topo, place, at, lag, bytes)
    }

    /// Passes a message over the link with an index, as [`Links::pass`] does.
    pub(super) fn pass_at(
        &mut self,
        topo: &Topology,
        place: usize,
        at: Time,
        lag: Time,
        bytes: u64,
    ) -> Passage {
        if self.list[place].class == UNKNOWN {
            self.list[place].class = self.class(topo.rate(self.list[place].id));
        }
        let link = &mut self.list[place];
        let class = &mut self.classes[link.class as usize];
        let service = class.bandwidth.time(bytes);
        link.bytes = link.bytes.saturating_add(bytes);
        link.messages += 1;
        if let Some(rules) = self.rules {
            if class.rounded.service != service {
                class.rounded = rules.times(class.latency, service);
            }
            return rules.pass(link, at, lag, class.rounded);
        }
        let start = at.max(link.free);
        link.free = start + service;
        let waited = start.since(at);
        link.busy = link.busy + service;
        link.waited = link.waited + waited;
        // While the head waits, the tail catches up.
        Passage { start, head: start + class.latency, lag: service.max(lag.since(waited)), free: link.free }
    }

    /// Returns when the last byte of a message would enter a link that its head reaches at `at`.
    pub(super) fn taken(&mut self, topo: &Topology, id: LinkId, at: Time, bytes: u64) -> Time {
        let place = self.place(id);
        if self.list[place].class == UNKNOWN {
            self.list[place].class = self.class(topo.rate(id));
        }
        let link = &self.list[place];
        at.max(link.free) + self.classes[link.class as usize].bandwidth.time(bytes)
    }

    /// Notes who uses a link. Returns its index, or None if somebody else has used it.
    pub(super) fn feed(&mut self, id: LinkId, feeder: Feeder) -> Option<usize> {
        let place = self.place(id);
        let known = &mut self.list[place].feeder;
        if *known == UNFED {
            *known = feeder;
        }
        (*known == feeder).then_some(place)
    }

    /// Returns the link with an index.
    pub(super) fn at(&self, place: usize) -> &Link {
        &self.list[place]
    }

    /// Repeats what has happened to a link since it was `before`, which has shifted it
    /// ([`Link::shifted`]), so many times.
    pub(super) fn repeat(&mut self, place: usize, before: &Link, times: u64) {
        let link = &mut self.list[place];
        let more = |now: Time, then: Time| now + now.since(then).times(times);
        link.free = more(link.free, before.free);
        link.last = more(link.last, before.last);
        link.busy = more(link.busy, before.busy);
        link.waited = more(link.waited, before.waited);
        link.bytes = link.bytes.saturating_add((link.bytes - before.bytes).saturating_mul(times));
        link.messages += (link.messages - before.messages) * times;
    }

    /// Returns the links that were used, by ascending number.
    pub(super) fn loads(&self) -> Vec<Load> {
        let used = self.list.iter().filter(|l| l.messages > 0);
        let mut out: Vec<Load> = used
            .map(|l| Load { id: l.id, busy: l.busy, waited: l.waited, bytes: l.bytes, messages: l.messages })
            .collect();
        out.sort_by_key(|l| l.id);
        out
    }
}
