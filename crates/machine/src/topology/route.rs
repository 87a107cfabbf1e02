//! Routes, distances, diameter: closed forms, no tables, but for machines whose links are a list.
//!
//! Owns the rule of SEMANTICS.md 6: a message takes a shortest route; of several, the one that uses the lowest axis
//! first, and along a ring with both ways equally long the positive one. Where a wrap of size two has two links, the
//! way the peer was written picks one (LANGUAGE.md 2.2); nothing else listens to that hint.

use super::line::Spot;
use super::wiring::Wiring;
use super::{DeviceId, Direction, LinkId, LinkRate, Topology};

/// The links of a route in order; an iterator that computes them as it goes.
#[derive(Clone, Debug)]
pub struct Route<'t> {
    wiring: &'t Wiring,
    at: DeviceId,
    to: DeviceId,
    hint: Option<Direction>,
    /// Where it is between devices: the axis and the switch.
    inside: Option<(u32, Spot)>,
    /// Next links of a list.
    table: Option<&'t [u32]>,
    /// Hops left.
    left: u32,
}

impl Iterator for Route<'_> {
    type Item = LinkId;

    fn next(&mut self) -> Option<LinkId> {
        self.left = self.left.checked_sub(1)?;
        if let (Some(table), Some(graph)) = (self.table, &self.wiring.graph) {
            let link = graph.step(table, self.at.0, self.hint)?;
            self.at = DeviceId(graph.edge(link).to);
            return Some(link);
        }
        let axes = &self.wiring.axes;
        let (number, spot) = match self.inside {
            Some((number, spot)) => (number as usize, spot),
            None => {
                let differs = |a: &super::line::Axis| a.coordinate(self.at.0) != a.coordinate(self.to.0);
                let number = axes.iter().position(differs)?;
                (number, axes[number].spot(self.at))
            }
        };
        let axis = &axes[number];
        let (link, next) = axis.towards(spot, axis.coordinate(self.to.0), self.hint)?;
        if next.node < axis.size {
            self.at = axis.at(next);
            self.inside = None;
        } else {
            self.inside = Some((number as u32, next));
        }
        // Links fit by the limit on devices.
        Some(LinkId(link as u32))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Route<'_> {}

/// What a route costs a message that goes cut-through.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RouteCost {
    /// Links on it.
    pub hops: u32,
    /// Sum of their latencies.
    pub latency_ns: f64,
    /// Bytes a second of the slowest; infinite without a hop.
    pub bandwidth: f64,
}

impl Topology {
    /// The route of a message. Empty if `from` is `to`. Both must be devices of this machine; of a list of links any nodes,
    /// and the route is empty where there is no way ([`Topology::connected`]).
    pub fn route(&self, from: DeviceId, to: DeviceId, hint: Option<Direction>) -> Route<'_> {
        let start = Route { wiring: &self.wiring, at: from, to, hint, inside: None, table: None, left: 0 };
        if let Some(graph) = &self.wiring.graph {
            let left = graph.hops(from.0, to.0).unwrap_or(0);
            return Route { table: Some(graph.towards(to.0)), left, ..start };
        }
        let hops = |a: &super::line::Axis| a.along(a.coordinate(from.0), a.coordinate(to.0), hint).0;
        let left = self.wiring.axes.iter().map(hops).sum();
        Route { left, ..start }
    }

    /// The route between any two nodes, memory ports and other relays included; None for a node that does not exist, for a
    /// switch of a product of axes, whose routes lead between devices, and where there is no way.
    pub fn route_between(&self, from: DeviceId, to: DeviceId) -> Option<Route<'_>> {
        let end = if self.is_listed() { self.node_count() } else { self.device_count() } as u32;
        if from.0.max(to.0) >= end {
            return None;
        }
        let route = self.route(from, to, None);
        (from == to || route.len() > 0).then_some(route)
    }

    /// Number of links on the route.
    pub fn hops(&self, from: DeviceId, to: DeviceId) -> u32 {
        self.route(from, to, None).len() as u32
    }

    /// Cost of the route; O(1) where no link has a rate of its own.
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

    /// Most hops between two devices.
    pub fn diameter(&self) -> u32 {
        if self.is_listed() {
            return self.devices().map(|d| self.eccentricity(d)).max().unwrap_or(0);
        }
        self.wiring.axes.iter().map(|a| a.diameter()).sum()
    }

    /// Most hops from a device to another.
    pub fn eccentricity(&self, device: DeviceId) -> u32 {
        if self.is_listed() {
            return self.devices().map(|d| self.hops(device, d)).max().unwrap_or(0);
        }
        self.wiring.axes.iter().map(|a| a.eccentricity(a.coordinate(device.0))).sum()
    }
}
