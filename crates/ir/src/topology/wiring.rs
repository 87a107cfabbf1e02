//! Nodes and links of a machine that is a product of axes, by numbers that are computed and never stored.
//!
//! Owns the order of links (axis by axis, line by line, then as [`super::line`] has them) and of nodes (devices in their
//! linear order, then the switches of each axis, line by line).

use super::line::{Axis, Kind, Spot};
use super::shape::Shape;
use super::{DeviceId, Direction, LinkId};

/// How devices are linked: axes, first slowest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wiring {
    pub axes: Vec<Axis>,
    /// Devices.
    pub devices: u32,
    /// Devices and switches.
    pub nodes: u32,
    /// Directed links.
    pub links: u64,
}

/// Kinds and sizes of the axes of a shape, first slowest.
fn axes(shape: &Shape, wrap2: u8, out: &mut Vec<(Kind, u32)>) {
    let ring = |n: u32| match n {
        1 => Kind::Line,
        2 => Kind::Ring { pairs: u32::from(wrap2) },
        n => Kind::Ring { pairs: n },
    };
    match shape {
        Shape::Ring(n) => out.push((ring(*n), *n)),
        Shape::Torus(sizes) => out.extend(sizes.iter().map(|n| (ring(*n), *n))),
        Shape::Mesh(sizes) => out.extend(sizes.iter().map(|n| (Kind::Line, *n))),
        Shape::Full(n) => out.push((Kind::Full, *n)),
        Shape::Switch(n) => out.push((Kind::Tree { arity: *n, depth: 1 }, *n)),
        Shape::Hypercube(k) => out.extend((0..*k).map(|_| (Kind::Line, 2))),
        Shape::Tree(arity, depth) => {
            out.push((Kind::Tree { arity: *arity, depth: *depth }, arity.pow(*depth)));
        }
        // The inner machine comes first in the text, and is the fastest in the order of devices.
        Shape::Hierarchy(levels) => levels.iter().rev().for_each(|s| axes(s, wrap2, out)),
    }
}

impl Wiring {
    /// The links of a shape with at most 65,536 devices; a ring of two has `wrap2` links each way.
    pub fn new(shape: &Shape, wrap2: u8) -> Wiring {
        let mut list = vec![];
        axes(shape, wrap2, &mut list);
        let devices: u32 = list.iter().map(|a| a.1).product();
        let (mut stride, mut base, mut relay) = (devices, 0, devices);
        let mut axes = vec![];
        for (kind, size) in list {
            stride /= size;
            axes.push(Axis { size, kind, stride, base, relay });
            let lines = devices / size;
            base += u64::from(lines) * kind.links(size);
            relay += lines * kind.switches();
        }
        Wiring { axes, devices, nodes: relay, links: base }
    }

    /// The axis and the place on it of a switch.
    pub fn switch(&self, node: DeviceId) -> Option<(usize, Spot)> {
        if node.0 < self.devices {
            return None;
        }
        self.axes
            .iter()
            .enumerate()
            .find_map(|(i, a)| a.switch(node.0, self.devices / a.size).map(|s| (i, s)))
    }

    /// The axis of a link that exists.
    pub fn axis(&self, link: LinkId) -> usize {
        let links = |a: &Axis| a.kind.links(a.size) > 0 && a.base <= u64::from(link.0);
        self.axes.iter().rposition(links).unwrap_or(0)
    }

    /// Ends, axis and direction of a link that exists.
    pub fn ends(&self, link: LinkId) -> (DeviceId, DeviceId, usize, Direction) {
        let number = self.axis(link);
        let axis = &self.axes[number];
        let (from, to, direction) = axis.ends(u64::from(link.0));
        (axis.at(from), axis.at(to), number, direction)
    }

    /// The links that leave a node and where they lead, axis by axis.
    pub fn from(&self, node: DeviceId) -> Vec<(LinkId, DeviceId)> {
        let of = |axis: &Axis, spot| -> Vec<(LinkId, DeviceId)> {
            axis.neighbours(spot).into_iter().map(|(l, s)| (LinkId(l as u32), axis.at(s))).collect()
        };
        match self.switch(node) {
            Some((axis, spot)) => of(&self.axes[axis], spot),
            None => self.axes.iter().flat_map(|a| of(a, a.spot(node))).collect(),
        }
    }
}
