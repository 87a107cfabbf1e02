//! Machines given as a list of links: devices, relays, directed links with rates of their own, and
//! routes.
//!
//! This module owns the list, its numbering, and the routing tables, one for each destination that
//! is used. A route has the least latency. Of those it has the fewest hops, and of those it takes
//! at every node the link that [`Routing`] says. If the machine has regions ([`Graph::regions`]), a
//! route between two nodes of one region stays within it. The nodes and links are chosen by
//! [`super::package`] or by a machine's text.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::OnceLock;

use super::{Direction, LinkId, LinkRate, Routing};

/// Limit on the number of nodes, including relays. A routing table is kept for every destination
/// that is used, so memory grows with the square of the nodes.
pub const MAX_NODES: u32 = 8192;

/// No link, or no region.
pub(super) const NONE: u32 = u32::MAX;

/// The role of a link among the links between the same two nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Parallel {
    /// The only link.
    Only,
    /// One of `of` parallel links. The destination determines which one is used.
    Lane { number: u32, of: u32 },
    /// One of two links around a wrap of size two. The direction in which the peer is written
    /// determines which one is used. The number of the minus link is that of the plus link plus
    /// one.
    Doubled(Direction),
}

/// A directed link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Edge {
    pub from: u32,
    pub to: u32,
    pub rate: LinkRate,
    pub parallel: Parallel,
}

/// The name of a relay: `router(0,1)`, or `#3` on a machine that is a list of links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Relay {
    /// The word before the coordinates. Empty if the name is only a number.
    pub part: &'static str,
    /// Its coordinates or number.
    pub at: Vec<u32>,
}

/// The next link of every node towards one destination.
type Table = Box<[u32]>;

/// The equal links of every node towards one destination, in ascending order.
#[derive(Clone, Debug)]
struct EqualLinks {
    /// Where the links of each node begin in `links`, and at last their number.
    begin: Box<[u32]>,
    links: Box<[u32]>,
}

/// Nodes and links.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    /// Number of devices. They have the lowest node numbers.
    pub devices: u32,
    /// Coordinates in the names of devices. Empty if these are the coordinates on the axes.
    pub places: Vec<Vec<u32>>,
    /// The relays, which follow the devices.
    pub relays: Vec<Relay>,
    /// The links in order of their numbers.
    edges: Vec<Edge>,
    /// Links that carry nothing. No route takes them.
    failed: BTreeSet<u32>,
    out: Vec<Vec<u32>>,
    into: Vec<Vec<u32>>,
    /// The region of every node, or [`NONE`]. Routes within a region do not leave it. Empty if
    /// there are no regions.
    pub regions: Vec<u32>,
    /// The lane that leads to every node as a destination. Empty if there are no lanes.
    pub lanes: Vec<u32>,
    /// How routes choose between equal links.
    pub routing: Routing,
    tables: Vec<OnceLock<Table>>,
    /// For [`Routing::Adaptive`].
    equal: Vec<OnceLock<EqualLinks>>,
    /// Set once any table may have been computed.
    asked: OnceLock<()>,
}

/// Tables follow from the other fields.
impl PartialEq for Graph {
    fn eq(&self, o: &Graph) -> bool {
        self.devices == o.devices
            && self.relays == o.relays
            && self.edges == o.edges
            && self.failed == o.failed
            && self.routing == o.routing
    }
}

/// A distance: latency in 2^-20 ns, so that sums of equal parts are equal, then hops.
type Distance = (u64, u32);

/// The distance where there is no path.
const UNKNOWN: Distance = (u64::MAX, u32::MAX);

/// Returns the distance over a link from behind which the rest is that far.
fn through(edge: &Edge, rest: Distance) -> Distance {
    (rest.0.saturating_add(ticks(edge.rate.latency_ns)), rest.1 + 1)
}

fn ticks(ns: f64) -> u64 {
    // Latencies of machines are far below the 2^44 ns that fit.
    (ns * f64::from(1u32 << 20)).round() as u64
}

impl Graph {
    /// Returns a graph of nodes without links.
    pub fn new(devices: u32, relays: Vec<Relay>) -> Graph {
        let nodes = devices as usize + relays.len();
        Graph {
            devices,
            places: vec![],
            relays,
            edges: vec![],
            failed: BTreeSet::new(),
            out: vec![vec![]; nodes],
            into: vec![vec![]; nodes],
            regions: vec![],
            lanes: vec![],
            routing: Routing::Single,
            tables: (0..nodes).map(|_| OnceLock::new()).collect(),
            equal: (0..nodes).map(|_| OnceLock::new()).collect(),
            asked: OnceLock::new(),
        }
    }

    /// Returns the number of devices and relays.
    pub fn nodes(&self) -> u32 {
        self.out.len() as u32
    }

    /// Returns the node that is the relay with a number. Relays keep the numbers that they have on
    /// the whole machine, so there are gaps where relays have failed.
    pub fn relay(&self, number: u32) -> Option<u32> {
        let is = |r: &Relay| r.at == [number];
        let place = match self.relays.get(number as usize).is_some_and(is) {
            true => number as usize,
            false => self.relays.iter().position(is)?,
        };
        Some(self.devices + place as u32)
    }

    /// Returns the number of the relay that a node is.
    pub fn number_of_relay(&self, node: u32) -> Option<u32> {
        let place = node.checked_sub(self.devices)?;
        self.relays.get(place as usize)?.at.first().copied()
    }

    /// Returns the number of links.
    pub fn links(&self) -> u64 {
        self.edges.len() as u64
    }

    /// Returns a link, which must exist.
    pub fn edge(&self, link: LinkId) -> &Edge {
        &self.edges[link.0 as usize]
    }

    /// Iterates over all links in order of their numbers.
    pub fn edges(&self) -> impl ExactSizeIterator<Item = (LinkId, &Edge)> {
        self.edges.iter().enumerate().map(|(i, e)| (LinkId(i as u32), e))
    }

    /// Iterates over the links that leave a node, by number.
    pub fn leaving(&self, node: u32) -> impl Iterator<Item = LinkId> + '_ {
        self.out.get(node as usize).into_iter().flatten().map(|l| LinkId(*l))
    }

    /// Iterates over the links that enter a node, by number.
    pub fn reaching(&self, node: u32) -> impl Iterator<Item = LinkId> + '_ {
        self.into.get(node as usize).into_iter().flatten().map(|l| LinkId(*l))
    }

    /// Adds a link between two existing nodes.
    pub fn add(&mut self, edge: Edge) {
        let number = self.edges.len() as u32;
        self.out[edge.from as usize].push(number);
        self.into[edge.to as usize].push(number);
        self.edges.push(edge);
        self.forget();
    }

    /// Adds a link in each direction.
    pub fn join(&mut self, a: u32, b: u32, there: LinkRate, back: LinkRate) {
        self.add(Edge { from: a, to: b, rate: there, parallel: Parallel::Only });
        self.add(Edge { from: b, to: a, rate: back, parallel: Parallel::Only });
    }

    /// Changes the rate of a link.
    pub fn change(&mut self, link: LinkId, rate: LinkRate) {
        self.edges[link.0 as usize].rate = rate;
        self.forget();
    }

    /// Says whether a link has failed. Returns whether any link has failed now.
    pub fn set_failed(&mut self, link: LinkId, failed: bool) -> bool {
        let changed = if failed { self.failed.insert(link.0) } else { self.failed.remove(&link.0) };
        if changed {
            self.forget();
        }
        !self.failed.is_empty()
    }

    /// Checks whether a link carries anything.
    pub fn is_up(&self, link: LinkId) -> bool {
        !self.failed.contains(&link.0)
    }

    fn forget(&mut self) {
        // Many links are added in succession before the first route is requested.
        if self.asked.take().is_some() {
            self.tables.iter_mut().for_each(|t| drop(t.take()));
            self.equal.iter_mut().for_each(|t| drop(t.take()));
        }
    }

    fn region(&self, node: u32) -> u32 {
        self.regions.get(node as usize).copied().unwrap_or(NONE)
    }

    /// Returns the routing table towards a node, computed on first use. [`NONE`] where no path
    /// leads there.
    pub fn towards(&self, to: u32) -> &[u32] {
        self.asked.get_or_init(|| ());
        self.tables[to as usize].get_or_init(|| self.table(to))
    }

    /// Checks whether routes to a destination may use this link.
    fn open(&self, link: LinkId, to: u32) -> bool {
        let edge = self.edge(link);
        if !self.is_up(link) {
            return false;
        }
        let lane = self.lanes.get(to as usize).copied().unwrap_or(0);
        let mine = match edge.parallel {
            Parallel::Only | Parallel::Doubled(Direction::Plus) => true,
            Parallel::Doubled(Direction::Minus) => false,
            Parallel::Lane { number, of } => number == lane % of,
        };
        // Routes within the destination's region do not leave it.
        let part = self.region(to);
        mine && (part == NONE || self.region(edge.from) != part || self.region(edge.to) == part)
    }

    /// Returns the links of shortest routes from a node towards another one, in ascending order.
    /// They are computed on the first use of a destination.
    pub fn equal_links(&self, node: u32, to: u32) -> &[u32] {
        self.asked.get_or_init(|| ());
        let equal = self.equal[to as usize].get_or_init(|| {
            let far = self.distances(to);
            let (mut begin, mut links) = (vec![0], vec![]);
            for node in 0..self.nodes() {
                links.extend(self.nearest(node, to, &far).iter().map(|l| l.0));
                begin.push(links.len() as u32);
            }
            EqualLinks { begin: begin.into(), links: links.into() }
        });
        let [begin, end] = [node, node + 1].map(|n| equal.begin[n as usize] as usize);
        &equal.links[begin..end]
    }

    /// Returns the distance of every node to a destination. [`UNKNOWN`] where no path leads there.
    fn distances(&self, to: u32) -> Vec<Distance> {
        let mut far = vec![UNKNOWN; self.nodes() as usize];
        far[to as usize] = (0, 0);
        let mut heap = BinaryHeap::from([Reverse(((0, 0), to))]);
        while let Some(Reverse((known, node))) = heap.pop() {
            if known > far[node as usize] {
                continue;
            }
            for link in self.reaching(node) {
                let edge = self.edge(link);
                let way = through(edge, known);
                if self.open(link, to) && way < far[edge.from as usize] {
                    far[edge.from as usize] = way;
                    heap.push(Reverse((way, edge.from)));
                }
            }
        }
        far
    }

    /// Returns the links from a node over which a destination is nearest, in ascending order. None
    /// leave the destination itself.
    fn nearest(&self, node: u32, to: u32, far: &[Distance]) -> Vec<LinkId> {
        let mut best: Vec<LinkId> = vec![];
        if node == to {
            return best;
        }
        let open = self.leaving(node).filter(|l| self.open(*l, to));
        let known = open.filter(|l| far[self.edge(*l).to as usize] != UNKNOWN);
        let rest = |l: LinkId| through(self.edge(l), far[self.edge(l).to as usize]);
        for l in known {
            match best.first().map(|b| rest(l).cmp(&rest(*b))) {
                Some(Ordering::Greater) => {}
                Some(Ordering::Equal) => best.push(l),
                Some(Ordering::Less) | None => best = vec![l],
            }
        }
        best.sort_unstable();
        best
    }

    fn table(&self, to: u32) -> Table {
        let far = self.distances(to);
        let next = |node: u32| {
            let best = self.nearest(node, to, &far);
            let one = match self.routing {
                Routing::Ecmp => to as usize % best.len().max(1),
                Routing::Single | Routing::Adaptive => 0,
            };
            best.get(one).map_or(NONE, |l| l.0)
        };
        (0..self.nodes()).map(next).collect()
    }

    /// Returns the link that a route takes from a node according to a table. Around a doubled wrap,
    /// `hint` selects the link.
    pub fn step(&self, table: &[u32], node: u32, hint: Option<Direction>) -> Option<LinkId> {
        let link = table.get(node as usize).copied().filter(|l| *l != NONE)?;
        let minus = hint == Some(Direction::Minus);
        let other = matches!(self.edges[link as usize].parallel, Parallel::Doubled(_)) && minus;
        Some(LinkId(link + u32::from(other)))
    }

    /// Returns the number of links on a route. None if there is no path.
    pub fn hops(&self, from: u32, to: u32) -> Option<u32> {
        let table = self.towards(to);
        let (mut at, mut hops) = (from, 0);
        while at != to {
            at = self.edge(self.step(table, at, None)?).to;
            hops += 1;
        }
        Some(hops)
    }

    /// Returns two devices of which the first cannot reach the second. None if all devices reach
    /// each other.
    pub fn unreachable_pair(&self) -> Option<(u32, u32)> {
        let reach = |start: u32, links: &dyn Fn(u32) -> Vec<u32>| {
            let mut seen = vec![false; self.nodes() as usize];
            let mut list = vec![start];
            seen[start as usize] = true;
            while let Some(node) = list.pop() {
                for next in links(node) {
                    if !std::mem::replace(&mut seen[next as usize], true) {
                        list.push(next);
                    }
                }
            }
            (0..self.devices).find(|d| !seen[*d as usize])
        };
        let up = |l: &LinkId| self.is_up(*l);
        let there = |node: u32| self.leaving(node).filter(up).map(|l| self.edge(l).to).collect();
        let back = |node: u32| self.reaching(node).filter(up).map(|l| self.edge(l).from).collect();
        // All devices reach each other if the first reaches all and all reach the first.
        reach(0, &there).map(|d| (0, d)).or_else(|| reach(0, &back).map(|d| (d, 0)))
    }
}
