//! Directed links as FIFOs with bandwidth and latency: when a message may enter, and how far its tail is behind.
//!
//! Owns occupancy and what passed; who asks when is the engine's business. Links are made when first used on machines
//! with too many of them.

use super::clock::{Rate, Time};
use kbc_ir::topology::{LinkId, LinkRate, Topology};
use std::collections::{BTreeMap, HashMap};

/// Up to this many links a machine has a place for each.
const DENSE: u64 = 1 << 16;
/// A link that was not used yet.
const UNKNOWN: u32 = u32::MAX;

/// A directed link.
#[derive(Clone, Debug)]
struct Link {
    id: LinkId,
    /// Number of its rate, or [`UNKNOWN`].
    class: u32,
    /// From when on the next message may enter.
    free: Time,
    busy: Time,
    bytes: u64,
    messages: u64,
}

#[derive(Clone, Debug)]
struct Class {
    latency: Time,
    bandwidth: Rate,
}

/// All links of a machine.
#[derive(Clone, Debug)]
pub(super) struct Links {
    list: Vec<Link>,
    /// Where a link is in `list`, if not at its number. Looked up, never walked.
    places: Option<HashMap<LinkId, u32>>,
    classes: Vec<Class>,
    numbers: BTreeMap<(u64, u64), u32>,
}

/// How a message passes a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Passage {
    /// Its head enters.
    pub(super) start: Time,
    /// Its head leaves at the other end.
    pub(super) head: Time,
    /// How long after its head its tail comes out.
    pub(super) lag: Time,
}

/// What passed a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Load {
    pub(super) id: LinkId,
    pub(super) busy: Time,
    pub(super) bytes: u64,
    pub(super) messages: u64,
}

impl Links {
    pub(super) fn new(topo: &Topology) -> Links {
        let unused =
            |id| Link { id, class: UNKNOWN, free: Time::ZERO, busy: Time::ZERO, bytes: 0, messages: 0 };
        let count = topo.link_count();
        let dense = count <= DENSE.max(16 * topo.device_count() as u64);
        Links {
            list: if dense { (0..count as u32).map(|i| unused(LinkId(i))).collect() } else { vec![] },
            places: (!dense).then(HashMap::new),
            classes: vec![],
            numbers: BTreeMap::new(),
        }
    }

    fn place(&mut self, id: LinkId) -> usize {
        let Some(places) = &mut self.places else { return id.0 as usize };
        let next = self.list.len() as u32;
        let place = *places.entry(id).or_insert(next);
        if place == next {
            self.list.push(Link {
                id,
                class: UNKNOWN,
                free: Time::ZERO,
                busy: Time::ZERO,
                bytes: 0,
                messages: 0,
            });
        }
        place as usize
    }

    fn class(&mut self, rate: LinkRate) -> u32 {
        let classes = &mut self.classes;
        *self.numbers.entry((rate.bandwidth.to_bits(), rate.latency_ns.to_bits())).or_insert_with(|| {
            classes.push(Class {
                latency: Time::from_ns(rate.latency_ns),
                bandwidth: Rate::new(rate.bandwidth),
            });
            classes.len() as u32 - 1
        })
    }

    /// A message whose head comes to a link at `at`, with its tail `lag` behind. Calls come in the order of `at`.
    pub(super) fn pass(&mut self, topo: &Topology, id: LinkId, at: Time, lag: Time, bytes: u64) -> Passage {
        let place = self.place(id);
        if self.list[place].class == UNKNOWN {
            self.list[place].class = self.class(topo.rate(id));
        }
        let link = &mut self.list[place];
        let class = &mut self.classes[link.class as usize];
        let service = class.bandwidth.time(bytes);
        let start = at.max(link.free);
        link.free = start + service;
        link.busy = link.busy + service;
        link.bytes = link.bytes.saturating_add(bytes);
        link.messages += 1;
        // While the head waits, the tail comes closer.
        Passage { start, head: start + class.latency, lag: service.max(lag.since(start.since(at))) }
    }

    /// The links that something passed, in order of their numbers.
    pub(super) fn loads(&self) -> Vec<Load> {
        let used = self.list.iter().filter(|l| l.messages > 0);
        let mut out: Vec<Load> =
            used.map(|l| Load { id: l.id, busy: l.busy, bytes: l.bytes, messages: l.messages }).collect();
        out.sort_by_key(|l| l.id);
        out
    }
}
