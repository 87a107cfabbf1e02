//! Routes, distances and diameter: in closed form without tables, except on machines that are a
//! list of links.
//!
//! This module owns the routing rule. A message takes a shortest route. Of several, it takes the
//! one that uses the lowest axis first, and along a ring whose two directions are equally long, the
//! positive one. Around a wrap of size two with two links in each direction (`wrap2: 2`), the
//! direction in which the peer is written selects the link (docs/explanation/time.md, "Links"). The
//! hint has no other effect.
//!
//! A message may name relays ([`WayOfMessage::via`]). Its route is then the route to the first of
//! them, from there to the next, and so on to the device.
//!
//! Where the machine states the route of a pair ([`super::stated`]), that is the route, whatever
//! the direction in which the peer is written.
//!
//! With `routing: adaptive`, whoever follows a message chooses at every node between the equal
//! links of its route ([`Route::choose`]). The links that the iterator returns are then one
//! possible route. Messages that name relays and pairs with a stated route have no choice.

use super::graph::Graph;
use super::line::{Axis, AxisPosition, LineLinks};
use super::wiring::Wiring;
use super::{DeviceId, Direction, LinkId, LinkRate, Routing, Topology, brief};
use std::collections::BTreeSet;

/// The links of a route along a line or ring: their numbers are 2 apart, except around the wrap.
#[derive(Clone, Copy, Default, Debug)]
struct Leg {
    /// Number of links left.
    left: u32,
    /// The next link.
    link: u32,
    /// The link that comes before the wrap, and the one behind it.
    wrap: [u32; 2],
    /// Whether numbers descend.
    descends: bool,
}

impl Leg {
    /// Returns the leg on an axis from a device to a coordinate. None on an axis that is neither a
    /// line nor a ring.
    fn new(axis: &Axis, at: DeviceId, to: u32, hint: Option<Direction>) -> Option<Leg> {
        if !matches!(axis.kind, LineLinks::Line | LineLinks::Ring { .. }) {
            return None;
        }
        let spot = axis.spot(at);
        let (left, direction) = axis.along(spot.node, to, hint);
        let descends = direction == Direction::Minus;
        // Link numbers fit because of the limit on devices.
        let link = axis.step(spot, direction)?.0 as u32;
        let first = axis.first_link(spot.line) as u32 + u32::from(descends);
        let last = first + 2 * (axis.size - 1);
        Some(Leg { left, link, wrap: if descends { [first, last] } else { [last, first] }, descends })
    }

    #[inline]
    fn next(&mut self) -> Option<LinkId> {
        self.left = self.left.checked_sub(1)?;
        let link = self.link;
        self.link = match () {
            () if link == self.wrap[0] => self.wrap[1],
            () if self.descends => link.wrapping_sub(2),
            () => link.wrapping_add(2),
        };
        Some(LinkId(link))
    }
}

/// What a message says about its route.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WayOfMessage<'w> {
    /// The direction in which its peer is written, which selects one of two links around a wrap of
    /// size two.
    pub hint: Option<Direction>,
    /// Numbers of the relays that it passes, in order: 3 is the relay `#3`. Numbers that are no
    /// relays of the machine have no effect ([`Topology::check_relays`]).
    pub via: &'w [u32],
}

impl From<Option<Direction>> for WayOfMessage<'_> {
    fn from(hint: Option<Direction>) -> Self {
        WayOfMessage { hint, via: &[] }
    }
}

/// Why a message cannot pass relays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WayFault {
    /// The machine has no relays that have numbers: it is a product of axes, a package, or a list
    /// of links between devices.
    NoRelays,
    /// There are fewer relays: this number does not exist.
    Unknown(u32),
    /// No path leads from the first node to the second.
    Unreachable(DeviceId, DeviceId),
}

/// The links of a route in order: an iterator that computes them on demand.
#[derive(Clone, Debug)]
pub struct Route<'t> {
    wiring: &'t Wiring,
    /// The current device, or the one at the end of the leg.
    at: DeviceId,
    /// The device at the end of the route.
    to: DeviceId,
    hint: Option<Direction>,
    /// The relays that it still passes, apart from the one that `table` leads to.
    via: &'t [u32],
    /// The current switch and its axis, while the route is between devices.
    inside: Option<(u32, AxisPosition)>,
    /// Routing table, on a list of links.
    table: Option<&'t [u32]>,
    /// Whether the message may take any of equal links.
    chooses: bool,
    /// The rest of a stated route, which ends at `at`.
    stated: &'t [LinkId],
    /// The rest of the route along the current axis, if that is a line or ring.
    leg: Leg,
    /// Number of hops left.
    left: u32,
}

impl Iterator for Route<'_> {
    type Item = LinkId;

    fn next(&mut self) -> Option<LinkId> {
        self.left = self.left.checked_sub(1)?;
        if let Some(link) = self.leg.next() {
            return Some(link);
        }
        if let Some((link, rest)) = self.stated.split_first() {
            self.stated = rest;
            return Some(*link);
        }
        if let (Some(table), Some(graph)) = (self.table, &self.wiring.graph) {
            let Some(link) = graph.step(table, self.at.0, self.hint) else {
                // A relay has been reached.
                return self.onward(graph);
            };
            self.at = DeviceId(graph.edge(link).to);
            return Some(link);
        }
        let axes = &self.wiring.axes;
        let (number, spot) = match self.inside {
            Some((number, spot)) => (number as usize, spot),
            None => {
                let differs = |a: &Axis| a.coordinate(self.at.0) != a.coordinate(self.to.0);
                let number = axes.iter().position(differs)?;
                (number, axes[number].spot(self.at))
            }
        };
        let axis = &axes[number];
        let to = axis.coordinate(self.to.0);
        if let Some(leg) = Leg::new(axis, self.at, to, self.hint) {
            self.leg = leg;
            self.at = axis.at(AxisPosition { node: to, ..spot });
            return self.leg.next();
        }
        let (link, next) = axis.towards(spot, to, self.hint)?;
        if next.node < axis.size {
            self.at = axis.at(next);
            self.inside = None;
        } else {
            self.inside = Some((number as u32, next));
        }
        // Link numbers fit because of the limit on devices.
        Some(LinkId(link as u32))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Route<'_> {}

impl<'t> Route<'t> {
    /// Returns the links that the message may take in place of `link`, which the iterator has just
    /// returned: the equal links of that step, in ascending order, `link` among them. Empty if it
    /// has no choice.
    pub fn choices(&self, link: LinkId) -> &'t [u32] {
        let graph = self.wiring.graph.as_ref().filter(|_| self.chooses);
        let equal = graph.map(|g| g.equal_links(g.edge(link).from, self.to.0));
        equal.filter(|links| links.len() > 1).unwrap_or_default()
    }

    /// Takes that one of [`Route::choices`] for which `cost` is the least, the first one of equal
    /// cost. Returns it, or `link` if there is no choice. The route continues from its end.
    pub fn choose<C: PartialOrd>(&mut self, link: LinkId, mut cost: impl FnMut(LinkId) -> C) -> LinkId {
        let choices = self.choices(link);
        let Some((first, others)) = choices.split_first() else { return link };
        let first = LinkId(*first);
        let mut best = (cost(first), first);
        for other in others.iter().map(|l| LinkId(*l)) {
            let cost = cost(other);
            if cost < best.0 {
                best = (cost, other);
            }
        }
        if let Some(graph) = &self.wiring.graph {
            self.at = DeviceId(graph.edge(best.1).to);
        }
        best.1
    }

    /// Turns from a relay towards the next node that the route must pass, and takes the first link.
    /// None at the end of the route.
    fn onward(&mut self, graph: &'t Graph) -> Option<LinkId> {
        while self.at != self.to || !self.via.is_empty() {
            let node = match self.via.split_first() {
                Some((relay, rest)) => {
                    self.via = rest;
                    graph.relay(*relay)
                }
                None => Some(self.to.0),
            };
            if let Some(node) = node.filter(|node| *node != self.at.0) {
                let table = graph.towards(node);
                self.table = Some(table);
                let stated = self.wiring.stated.get(self.at, DeviceId(node));
                if let Some((link, rest)) = stated.and_then(<[LinkId]>::split_first) {
                    // At its end, the table has no further step.
                    (self.stated, self.at) = (rest, DeviceId(node));
                    return Some(*link);
                }
                let link = graph.step(table, self.at.0, self.hint)?;
                self.at = DeviceId(graph.edge(link).to);
                return Some(link);
            }
        }
        None
    }
}

/// Checks that a path leads from one node to another.
fn leads(graph: &Graph, from: u32, to: u32) -> Result<(), WayFault> {
    let unreachable = || WayFault::Unreachable(DeviceId(from), DeviceId(to));
    graph.hops(from, to).map(|_| ()).ok_or_else(unreachable)
}

/// The cost of a route for a cut-through message.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RouteCost {
    /// Number of links.
    pub hops: u32,
    /// Sum of their latencies, in ns.
    pub latency_ns: f64,
    /// Bytes per second of the slowest link. Infinite if there is no hop.
    pub bandwidth: f64,
}

impl Topology {
    /// Returns the route of a message. Empty if `from` is `to` and no relay is named. Both must be
    /// devices of this machine. On a list of links they may be any nodes, and the route is empty if
    /// there is no path ([`Topology::connected`]).
    pub fn route<'t>(&'t self, from: DeviceId, to: DeviceId, way: impl Into<WayOfMessage<'t>>) -> Route<'t> {
        let (wiring, leg) = (&self.wiring, Leg::default());
        let WayOfMessage { hint, via } = way.into();
        let start = Route {
            wiring,
            at: from,
            to,
            hint,
            via: &[],
            inside: None,
            table: None,
            chooses: false,
            stated: &[],
            leg,
            left: 0,
        };
        if via.is_empty()
            && let Some(stated) = self.wiring.stated.get(from, to)
        {
            return Route { at: to, stated, left: stated.len() as u32, ..start };
        }
        if let Some(graph) = &self.wiring.graph {
            if via.is_empty() {
                let left = graph.hops(from.0, to.0).unwrap_or(0);
                let chooses = graph.routing == Routing::Adaptive;
                return Route { table: Some(graph.towards(to.0)), left, chooses, ..start };
            }
            let passed = via.iter().filter_map(|&relay| graph.relay(relay)).chain([to.0]);
            let mut at = from.0;
            let hops = passed.map(|node| {
                let from = std::mem::replace(&mut at, node);
                let stated = self.wiring.stated.get(DeviceId(from), DeviceId(node));
                stated.map_or_else(|| graph.hops(from, node), |links| Some(links.len() as u32))
            });
            let left = hops.sum::<Option<u32>>().unwrap_or(0);
            // The first step finds that the node has been reached, and turns to the first relay.
            return Route { table: Some(graph.towards(from.0)), via, left, ..start };
        }
        let hops = |a: &Axis| a.along(a.coordinate(from.0), a.coordinate(to.0), hint).0;
        let left = self.wiring.axes.iter().map(hops).sum();
        Route { left, ..start }
    }

    /// Returns whether messages choose between equal links on their way (`routing: adaptive`).
    pub fn is_adaptive(&self) -> bool {
        self.wiring.graph.as_ref().is_some_and(|g| g.routing == Routing::Adaptive)
    }

    /// Returns the links that messages between two nodes may take: those of the route, and with
    /// `routing: adaptive` all links of shortest routes, by number.
    pub fn possible_links(&self, from: DeviceId, to: DeviceId) -> Vec<LinkId> {
        let stated = self.wiring.stated.get(from, to).is_some();
        let Some(graph) = self.wiring.graph.as_ref().filter(|_| self.is_adaptive() && !stated) else {
            return self.route(from, to, None).collect();
        };
        let mut seen = BTreeSet::from([from.0]);
        let (mut list, mut out) = (vec![from.0], vec![]);
        while let Some(node) = list.pop() {
            for &link in graph.equal_links(node, to.0) {
                out.push(LinkId(link));
                let next = graph.edge(LinkId(link)).to;
                if seen.insert(next) {
                    list.push(next);
                }
            }
        }
        out.sort_unstable();
        out
    }

    /// Returns the route between any two nodes, including memory ports and other relays. None if a
    /// node does not exist, for switches of a product of axes (whose routes lead between devices
    /// only), and if there is no path.
    pub fn route_between(&self, from: DeviceId, to: DeviceId) -> Option<Route<'_>> {
        let end = if self.is_listed() { self.node_count() } else { self.device_count() } as u32;
        if from.0.max(to.0) >= end {
            return None;
        }
        let route = self.route(from, to, None);
        (from == to || route.len() > 0).then_some(route)
    }

    /// Returns the number of links on the route.
    pub fn hops(&self, from: DeviceId, to: DeviceId) -> u32 {
        self.route(from, to, None).len() as u32
    }

    /// Checks that messages between any devices can pass these relays, one after another. The
    /// devices must be able to reach each other.
    ///
    /// # Errors
    /// The first reason why they cannot.
    pub fn check_relays(&self, via: &[u32]) -> Result<(), WayFault> {
        if via.is_empty() {
            return Ok(());
        }
        let graph = self.wiring.graph.as_ref().filter(|g| !self.is_package() && g.nodes() > g.devices);
        let Some(graph) = graph else { return Err(WayFault::NoRelays) };
        // Devices reach each other, so one of them stands for all.
        let mut at = 0;
        for &relay in via {
            let node = graph.relay(relay).ok_or(WayFault::Unknown(relay))?;
            leads(graph, std::mem::replace(&mut at, node), node)?;
        }
        leads(graph, at, 0)
    }

    /// Returns the number by which messages name a relay of a list of links: 3 for `#3`.
    pub fn number_of_relay(&self, node: DeviceId) -> Option<u32> {
        self.wiring.graph.as_ref()?.number_of_relay(node.0)
    }

    /// Returns a fault of relays in words.
    pub fn way_fault(&self, fault: WayFault) -> String {
        let machine = brief(&self.to_string());
        match fault {
            WayFault::NoRelays => format!("{machine} has no relays with numbers"),
            WayFault::Unknown(relay) if self.failed_nodes().next().is_some() => {
                format!("{machine} has no relay #{relay}, or it has failed")
            }
            WayFault::Unknown(relay) => {
                let relays = self.node_count() - self.device_count();
                format!("{machine} has no relay #{relay}: it has {relays}, numbered from 0")
            }
            WayFault::Unreachable(from, to) => {
                format!("no path leads from {} to {}", self.name(from), self.name(to))
            }
        }
    }

    /// Returns the cost of the route. O(1) if no link has a rate of its own.
    pub fn route_cost<'t>(
        &'t self,
        from: DeviceId,
        to: DeviceId,
        way: impl Into<WayOfMessage<'t>>,
    ) -> RouteCost {
        let route = self.route(from, to, way);
        let hops = route.len() as u32;
        if self.has_uniform_links() || hops == 0 {
            let link = self.settings.link();
            let bandwidth = if hops == 0 { f64::INFINITY } else { link.bandwidth };
            return RouteCost { hops, latency_ns: f64::from(hops) * link.latency_ns, bandwidth };
        }
        let start = RouteCost { hops, latency_ns: 0.0, bandwidth: f64::INFINITY };
        route.map(|l| self.rate(l)).fold(start, |cost, LinkRate { bandwidth, latency_ns }| RouteCost {
            hops,
            latency_ns: cost.latency_ns + latency_ns,
            bandwidth: cost.bandwidth.min(bandwidth),
        })
    }

    /// Returns the largest number of hops between two devices.
    pub fn diameter(&self) -> u32 {
        if self.is_listed() || self.has_stated_routes() {
            return self.devices().map(|d| self.eccentricity(d)).max().unwrap_or(0);
        }
        self.wiring.axes.iter().map(|a| a.diameter()).sum()
    }

    /// Returns the largest number of hops from a device to another one.
    pub fn eccentricity(&self, device: DeviceId) -> u32 {
        if self.is_listed() || self.has_stated_routes() {
            return self.devices().map(|d| self.hops(device, d)).max().unwrap_or(0);
        }
        self.wiring.axes.iter().map(|a| a.eccentricity(a.coordinate(device.0))).sum()
    }
}
