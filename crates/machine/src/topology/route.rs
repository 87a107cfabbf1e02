//! Routes, distances and diameter: in closed form without tables, except on machines that are a
//! list of links.
//!
//! This module owns the routing rule. A message takes a shortest route. Of several, it takes the
//! one that uses the lowest axis first, and along a ring whose two directions are equally long, the
//! positive one. Around a wrap of size two with two links in each direction (`wrap2: 2`), the
//! direction in which the peer is written selects the link (docs/explanation/time.md, "Links"). The
//! hint has no other effect.

use super::line::{Axis, AxisPosition, LineLinks};
use super::wiring::Wiring;
use super::{DeviceId, Direction, LinkId, LinkRate, Topology};

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

/// The links of a route in order: an iterator that computes them on demand.
#[derive(Clone, Debug)]
pub struct Route<'t> {
    wiring: &'t Wiring,
    /// The current device, or the one at the end of the leg.
    at: DeviceId,
    to: DeviceId,
    hint: Option<Direction>,
    /// The current switch and its axis, while the route is between devices.
    inside: Option<(u32, AxisPosition)>,
    /// Routing table, on a list of links.
    table: Option<&'t [u32]>,
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
        if let (Some(table), Some(graph)) = (self.table, &self.wiring.graph) {
            let link = graph.step(table, self.at.0, self.hint)?;
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
    /// Returns the route of a message. Empty if `from` is `to`. Both must be devices of this
    /// machine. On a list of links they may be any nodes, and the route is empty if there is no
    /// path ([`Topology::connected`]).
    pub fn route(&self, from: DeviceId, to: DeviceId, hint: Option<Direction>) -> Route<'_> {
        let (wiring, leg) = (&self.wiring, Leg::default());
        let start = Route { wiring, at: from, to, hint, inside: None, table: None, leg, left: 0 };
        if let Some(graph) = &self.wiring.graph {
            let left = graph.hops(from.0, to.0).unwrap_or(0);
            return Route { table: Some(graph.towards(to.0)), left, ..start };
        }
        let hops = |a: &Axis| a.along(a.coordinate(from.0), a.coordinate(to.0), hint).0;
        let left = self.wiring.axes.iter().map(hops).sum();
        Route { left, ..start }
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

    /// Returns the cost of the route. O(1) if no link has a rate of its own.
    pub fn route_cost(&self, from: DeviceId, to: DeviceId, hint: Option<Direction>) -> RouteCost {
        let route = self.route(from, to, hint);
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
        if self.is_listed() {
            return self.devices().map(|d| self.eccentricity(d)).max().unwrap_or(0);
        }
        self.wiring.axes.iter().map(|a| a.diameter()).sum()
    }

    /// Returns the largest number of hops from a device to another one.
    pub fn eccentricity(&self, device: DeviceId) -> u32 {
        if self.is_listed() {
            return self.devices().map(|d| self.hops(device, d)).max().unwrap_or(0);
        }
        self.wiring.axes.iter().map(|a| a.eccentricity(a.coordinate(device.0))).sum()
    }
}
