//! Nodes and links of a machine: a product of axes, whose numbers are computed and never stored, or
//! a list.
//!
//! This module owns the coordinates of devices and, for a product, the order of links and nodes.
//! Links are ordered axis by axis, then line by line, then as in [`super::line`]. Nodes are the
//! devices in their linear order, then the switches of each axis, line by line. Lists of links are
//! in [`super::graph`].

use super::graph::{Edge, Graph, Parallel, Relay};
use super::line::{Axis, AxisPosition, LineLinks};
use super::settings::{Routing, Settings};
use super::shape::Shape;
use super::stated::StatedRoutes;
use super::{AXIS_NAMES, DeviceId, Direction, LinkId, LinkRate, package};
use std::sync::Arc;

/// The links between nodes, as axes (slowest first) and optionally a list.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Wiring {
    pub axes: Vec<Axis>,
    /// Names of the axes.
    pub names: Vec<&'static str>,
    /// The links, if they are a list. Copies of a machine share the list and its routing tables.
    /// A product of axes with a failed link has a list, too, with the same numbers: its routes are
    /// not those of the axes.
    pub graph: Option<Arc<Graph>>,
    /// Routes of pairs that are stated and not computed.
    pub stated: StatedRoutes,
    /// Whether nodes and links are those of the axes.
    pub is_product: bool,
    /// Number of devices.
    pub devices: u32,
    /// Number of devices, switches and relays.
    pub nodes: u32,
    /// Number of directed links.
    pub links: u64,
}

/// Appends kinds and sizes of the axes of a shape, slowest first.
fn axes(shape: &Shape, wrap2: u8, out: &mut Vec<(LineLinks, u32)>) {
    let ring = |n: u32| match n {
        1 => LineLinks::Line,
        2 => LineLinks::Ring { pairs: u32::from(wrap2) },
        n => LineLinks::Ring { pairs: n },
    };
    match shape {
        Shape::Ring(n) => out.push((ring(*n), *n)),
        Shape::Torus(sizes) => out.extend(sizes.iter().map(|n| (ring(*n), *n))),
        Shape::Mesh(sizes) => out.extend(sizes.iter().map(|n| (LineLinks::Line, *n))),
        Shape::Full(n) => out.push((LineLinks::Full, *n)),
        Shape::Switch(n) => out.push((LineLinks::Tree { arity: *n, depth: 1 }, *n)),
        Shape::Hypercube(k) => out.extend((0..*k).map(|_| (LineLinks::Line, 2))),
        Shape::Tree(arity, depth) => {
            out.push((LineLinks::Tree { arity: *arity, depth: *depth }, arity.pow(*depth)));
        }
        // The inner machine comes first in the text, and its axes are the fastest in the order of
        // devices.
        Shape::Hierarchy(levels) => levels.iter().rev().for_each(|s| axes(s, wrap2, out)),
        Shape::Graph { .. } | Shape::Package { .. } => {}
    }
}

impl Wiring {
    /// Returns the links of a shape that is within the limits. The list of a `graph` is empty at
    /// first.
    pub fn new(shape: &Shape, settings: &Settings) -> Wiring {
        let wrap2 = settings.wrap2();
        match shape {
            Shape::Graph { devices, relays } => {
                let relays = (0..*relays).map(|i| Relay { part: "", at: vec![i] }).collect();
                let mut graph = Graph::new(*devices, relays);
                graph.routing = settings.routing.unwrap_or(Routing::Single);
                Wiring::listed(vec![(AXIS_NAMES[0], *devices)], graph)
            }
            Shape::Package { sips, cubes, pes } => {
                let axes = package::axes(&package::sides(sips).0, *cubes, *pes, &settings.package);
                Wiring::listed(axes, package::build(sips, *cubes, *pes, &settings.package, wrap2))
            }
            _ => {
                let mut list = vec![];
                axes(shape, wrap2, &mut list);
                Wiring::product(list)
            }
        }
    }

    pub fn listed(axes: Vec<(&'static str, u32)>, graph: Graph) -> Wiring {
        let (names, list) = axes.into_iter().map(|(n, size)| (n, (LineLinks::Listed, size))).unzip();
        let product = Wiring::product(list);
        let (nodes, links) = (graph.nodes(), graph.links());
        Wiring { names, nodes, links, graph: Some(Arc::new(graph)), is_product: false, ..product }
    }

    fn product(list: Vec<(LineLinks, u32)>) -> Wiring {
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
        let names = AXIS_NAMES[..axes.len()].to_vec();
        let stated = StatedRoutes::default();
        Wiring { axes, names, graph: None, stated, is_product: true, devices, nodes: relay, links: base }
    }

    /// Returns the links of a product as a list with the same numbers. Where two links join the
    /// same devices, routes take one of them.
    pub fn as_list(&self, rate: impl Fn(LinkId) -> LinkRate) -> Graph {
        let relays = (self.devices..self.nodes).map(|_| Relay { part: "", at: vec![] }).collect();
        let mut graph = Graph::new(self.devices, relays);
        for id in (0..self.links as u32).map(LinkId) {
            let (from, to, ..) = self.ends(id);
            graph.add(Edge { from: from.0, to: to.0, rate: rate(id), parallel: Parallel::Only });
        }
        graph
    }

    /// Returns the axis of a switch and its spot there. None for a device.
    pub fn switch(&self, node: DeviceId) -> Option<(usize, AxisPosition)> {
        if node.0 < self.devices {
            return None;
        }
        self.axes
            .iter()
            .enumerate()
            .find_map(|(i, a)| a.switch(node.0, self.devices / a.size).map(|s| (i, s)))
    }

    /// Returns the axis of a link, which must exist.
    pub fn axis(&self, link: LinkId) -> usize {
        let links = |a: &Axis| a.kind.links(a.size) > 0 && a.base <= u64::from(link.0);
        self.axes.iter().rposition(links).unwrap_or(0)
    }

    /// Returns ends, axis and direction of a link, which must exist.
    pub fn ends(&self, link: LinkId) -> (DeviceId, DeviceId, usize, Direction) {
        if let Some(graph) = self.graph.as_ref().filter(|_| !self.is_product) {
            let e = graph.edge(link);
            let direction = if e.to > e.from { Direction::Plus } else { Direction::Minus };
            return (DeviceId(e.from), DeviceId(e.to), 0, direction);
        }
        let number = self.axis(link);
        let axis = &self.axes[number];
        let (from, to, direction) = axis.ends(u64::from(link.0));
        (axis.at(from), axis.at(to), number, direction)
    }

    /// Returns the links that leave a node and their receivers, axis by axis.
    pub fn from(&self, node: DeviceId) -> Vec<(LinkId, DeviceId)> {
        if let Some(graph) = self.graph.as_ref().filter(|_| !self.is_product) {
            return graph.leaving(node.0).map(|l| (l, DeviceId(graph.edge(l).to))).collect();
        }
        let of = |axis: &Axis, spot| -> Vec<(LinkId, DeviceId)> {
            axis.neighbours(spot).into_iter().map(|(l, s)| (LinkId(l as u32), axis.at(s))).collect()
        };
        match self.switch(node) {
            Some((axis, spot)) => of(&self.axes[axis], spot),
            None => self.axes.iter().flat_map(|a| of(a, a.spot(node))).collect(),
        }
    }
}
