//! Routes, distances, diameter: closed forms, no tables.
//!
//! Owns the rule of SEMANTICS.md 6: a message takes a shortest route; of several, the one that uses the lowest axis
//! first, and along a ring with both ways equally long the positive one. Where a wrap of size two has two links, the
//! way the peer was written picks one (LANGUAGE.md 2.2); nothing else listens to that hint.

use super::grid::{Axis, Wiring};
use super::{DeviceId, Direction, LinkId, LinkRate, Topology};

/// The links of a route in order; an iterator that computes them as it goes.
#[derive(Clone, Debug)]
pub struct Route<'t> {
    wiring: &'t Wiring,
    at: DeviceId,
    to: DeviceId,
    /// Hops left along each axis and their direction.
    left: [(u32, Direction); 3],
}

impl Iterator for Route<'_> {
    type Item = LinkId;

    fn next(&mut self) -> Option<LinkId> {
        match self.wiring {
            Wiring::Full(n) => {
                let (from, to) = (self.at.0, self.to.0);
                self.left[0].0 = self.left[0].0.checked_sub(1)?;
                self.at = self.to;
                Some(LinkId(from * (n - 1) + to - u32::from(to > from)))
            }
            Wiring::Grid(axes) => {
                let axis = self.left.iter().position(|l| l.0 > 0)?;
                self.left[axis].0 -= 1;
                let (link, next) = axes.get(axis)?.step(self.at.0, self.left[axis].1)?;
                self.at = next;
                Some(link)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let hops = self.left.iter().map(|l| l.0 as usize).sum();
        (hops, Some(hops))
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

/// Hops between two coordinates of an axis, and the way the route goes.
fn along(axis: &Axis, from: u32, to: u32, hint: Option<Direction>) -> (u32, Direction) {
    if !axis.wrap {
        return if to >= from { (to - from, Direction::Plus) } else { (from - to, Direction::Minus) };
    }
    let forward = (to + axis.size - from) % axis.size;
    let backward = (axis.size - forward) % axis.size;
    match (axis.size, axis.pairs) {
        (2, 2) if forward == 1 => (1, hint.unwrap_or(Direction::Plus)),
        // A single link each way: the pair is (0, 1), so 1 -> 0 is its negative direction.
        (2, 1) if forward == 1 && from == 1 => (1, Direction::Minus),
        _ if forward <= backward => (forward, Direction::Plus),
        _ => (backward, Direction::Minus),
    }
}

impl Topology {
    /// The route of a message. Empty if `from` is `to`. Both must be devices of this machine.
    pub fn route(&self, from: DeviceId, to: DeviceId, hint: Option<Direction>) -> Route<'_> {
        let mut left = [(0, Direction::Plus); 3];
        match &self.wiring {
            Wiring::Full(_) => left[0].0 = u32::from(from != to),
            Wiring::Grid(axes) => {
                for (i, (axis, left)) in axes.iter().zip(&mut left).enumerate() {
                    *left = along(axis, self.coordinate(from, i), self.coordinate(to, i), hint);
                }
            }
        }
        Route { wiring: &self.wiring, at: from, to, left }
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
        match &self.wiring {
            Wiring::Full(n) => u32::from(*n > 1),
            Wiring::Grid(axes) => axes.iter().map(|a| if a.wrap { a.size / 2 } else { a.size - 1 }).sum(),
        }
    }

    /// Most hops from a device to another.
    pub fn eccentricity(&self, device: DeviceId) -> u32 {
        match &self.wiring {
            Wiring::Full(n) => u32::from(*n > 1),
            Wiring::Grid(axes) => axes
                .iter()
                .enumerate()
                .map(|(i, a)| {
                    let c = self.coordinate(device, i);
                    if a.wrap { a.size / 2 } else { c.max(a.size - 1 - c) }
                })
                .sum(),
        }
    }
}
