//! Topology: the devices, switches and directed links of a machine, with coordinates, rates and
//! settings.
//!
//! This module owns the generators of topologies (docs/reference/language.md, "Machines and
//! meshes"), their settings and text, the numbering of links, and routing. A machine is a product
//! of axes or a list of links:
//!
//! * Each axis of a product is a line, a ring, complete, or a tree of switches (TOPO-1). Links and
//!   routes are computed, and no table per device or link is stored, so a machine of 65,536 devices
//!   is cheap.
//! * `graph` and `package` are lists of links between devices and relays.
//!
//! Time is the event engine's subject (crate `kbc_time`), bounds are in [`crate::bounds`], machine
//! files are read by the front end, and mesh axes are in [`kbc_ir::types::Mesh`].

mod boxes;
mod caption;
pub mod cores;
mod data;
mod failed;
mod graph;
mod line;
mod links;
mod memo;
mod package;
pub mod perturb;
mod quantity;
pub mod queue;
mod route;
mod settings;
mod shape;
mod stated;
mod switching;
mod symmetry;
mod text;
mod value;
mod wiring;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, FileId, Span};

use crate::policy::Placements;
use failed::Whole;
use kbc_ir::types::MemKind;
use line::LineLinks;
use memo::Memo;
use wiring::Wiring;

pub use caption::brief;
pub use data::{Controller, Data, MAX_CHANNELS};
pub use graph::MAX_NODES;
pub use links::{FAILED, LinkSet, MAX_OWN_LINKS, Node, OwnLink};
pub use package::{PACKAGE_SETTING_NAMES, PackageRanks, PackageSettings};
pub use quantity::{Dimension, Quantity, quantity, rate_in_bits, unit_names};
pub use route::{Route, RouteCost, WayFault, WayOfMessage};
pub use settings::{
    Compute, DEFAULT_LINK, DeviceRate, Forward, LinkRate, Routing, SETTING_NAMES, Settings, link_rate,
};
pub use shape::{MAX_DEVICES, SHAPE_NAMES, Shape, ShapeArgument, shape_example, shape_form};
pub use stated::{ROUTE, StatedRoute};
pub use switching::Switching;
pub use text::{Described, Fragment, Written};
pub use value::SettingValue;

/// Names of a machine's axes, slowest first.
pub const AXIS_NAMES: [&str; 16] =
    ["x", "y", "z", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15"];

/// A node: a device or a switch. Devices are numbered in the linear order of the axes (last axis
/// fastest), and switches follow them. Printed by [`Topology::name`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceId(pub u32);

/// A directed link. Numbers run from 0 to [`Topology::link_count`] without gaps. Printed by
/// [`Topology::link_name`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

/// A direction along an axis. On a complete axis, the direction of a link tells which end has the
/// larger coordinate. In a tree, plus is up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// Towards higher coordinates, and around the wrap from the last coordinate to the first.
    Plus,
    /// Towards lower coordinates.
    Minus,
}

/// A directed link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Number of the link.
    pub id: LinkId,
    /// Sender.
    pub from: DeviceId,
    /// Receiver.
    pub to: DeviceId,
    /// The axis along which it runs, by position.
    pub axis: usize,
    /// Its direction along the axis.
    pub direction: Direction,
    /// Its rate.
    pub rate: LinkRate,
}

/// Deviations of a device from the settings, caused by a perturbation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// Factors by which arithmetic, memory and vector work take longer. Positive and finite.
    pub slower: [f64; 3],
    /// Delay of the start of its ranks, in ns.
    pub late_ns: f64,
}

impl Pace {
    /// The pace of an unperturbed device.
    pub const NORMAL: Pace = Pace { slower: [1.0; 3], late_ns: 0.0 };
}

/// A machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Topology {
    shape: Shape,
    settings: Settings,
    wiring: Wiring,
    /// Rates of links that differ from the settings.
    own: BTreeMap<LinkId, LinkRate>,
    /// Devices that deviate from the settings.
    paces: BTreeMap<DeviceId, Pace>,
    /// Placements of tensors inside devices.
    placements: Placements,
    memo: Memo,
    /// The machine with its failed nodes. None if none has failed.
    whole: Option<Arc<Whole>>,
}

impl Topology {
    /// Builds the machine of a shape. `at` is the position at which the shape is written, or
    /// [`Span::NONE`].
    ///
    /// # Errors
    /// Returns E443 for no device, more than [`MAX_DEVICES`] devices, more than 16 axes, or a list
    /// of links with more than [`MAX_NODES`] nodes. Returns E445 for a setting that has no meaning
    /// for this shape.
    pub fn build(shape: Shape, settings: Settings, at: Span) -> Result<Topology, Diagnostic> {
        settings.fit(&shape, at)?;
        match device_count(&shape, &settings) {
            Some(1..=MAX_DEVICES) => {}
            Some(n) => return Err(shape::out_of_range(format!("{shape} has {n} devices"), at)),
            None => return Err(shape::out_of_range(format!("{shape} has more than 2^64 devices"), at)),
        }
        let axes = shape.axes();
        if axes > AXIS_NAMES.len() {
            let title = format!("{shape} has {axes} axes (limit: {})", AXIS_NAMES.len());
            return Err(shape::out_of_range(title, at));
        }
        if let (Shape::Package { cubes, pes, .. }, Some(n)) = (&shape, settings.package.first())
            && u64::from(n) > (u64::from(cubes[0]) * u64::from(cubes[1])).saturating_mul((*pes).into())
        {
            let title = format!("a SIP of {shape} has fewer than {n} PEs");
            return Err(shape::out_of_range(title, at));
        }
        let nodes = match &shape {
            Shape::Graph { devices, relays } => u64::from(*devices) + u64::from(*relays),
            Shape::Package { sips, cubes, pes } => package::nodes(sips, *cubes, *pes, &settings.package),
            _ => 0,
        };
        if nodes > u64::from(MAX_NODES) {
            let title = format!("{shape} has {nodes} nodes (limit for a list of links: {MAX_NODES})");
            return Err(shape::out_of_range(title, at)
                .note("the routing table has an entry per pair of nodes, so its memory grows with the square of the nodes"));
        }
        let wiring = Wiring::new(&shape, &settings);
        Ok(Topology {
            shape,
            settings,
            wiring,
            own: BTreeMap::new(),
            paces: BTreeMap::new(),
            placements: Placements::default(),
            memo: Memo::default(),
            whole: None,
        })
    }

    /// Parses `torus(2, 3)` or `torus(2, 3) { link: 50 GB/s, 500 ns }`. Spans point into `file`.
    ///
    /// # Errors
    /// Returns E440 and E442 to E446 of [`Shape::from_call`] and [`Settings::set`].
    pub fn parse_shape(text: &str, file: FileId) -> Result<Written, Diagnostic> {
        text::parse(text, file)
    }

    /// Parses settings without a shape: `forward: drain; launch: 1 us`.
    ///
    /// # Errors
    /// Returns E444 to E446 of [`Settings::set`].
    pub fn parse_settings(text: &str, file: FileId) -> Result<Described, Diagnostic> {
        text::settings(text, file)
    }

    /// Parses and builds a machine from its text, as `Display` prints it.
    ///
    /// # Errors
    /// Returns the errors of [`Topology::parse_shape`], [`Topology::build`],
    /// [`Topology::set_links`], [`Topology::set_routes`] and [`Topology::connected`].
    pub fn parse(text: &str, file: FileId) -> Result<Topology, Diagnostic> {
        let written = Described::from(text::parse(text, file)?);
        // It has a shape.
        Described::stacked([written], Shape::Ring(1), Span::new(file, 0, text.len()))
    }

    /// Returns the shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the settings as given. Their methods fill in the defaults.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the machine with placements of tensors inside its devices. Local work follows these
    /// placements ([`crate::share`]).
    #[must_use]
    pub fn with_placements(self, placements: Placements) -> Topology {
        Topology { placements, ..self }
    }

    /// Returns the placements of tensors inside devices.
    pub fn placements(&self) -> &Placements {
        &self.placements
    }

    /// Returns the number of devices.
    pub fn device_count(&self) -> usize {
        self.wiring.devices as usize
    }

    /// Returns the number of devices, switches and relays.
    pub fn node_count(&self) -> usize {
        self.wiring.nodes as usize
    }

    /// Returns the size of an axis. 1 for an axis that does not exist.
    pub fn size(&self, axis: usize) -> u32 {
        self.wiring.axes.get(axis).map_or(1, |a| a.size)
    }

    /// Iterates over the sizes of the axes, slowest first.
    pub fn sizes(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.wiring.axes.iter().map(|a| a.size)
    }

    /// Iterates over all devices in their linear order.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = DeviceId> + use<> {
        (0..self.device_count() as u32).map(DeviceId)
    }

    /// Iterates over names and sizes of the axes, slowest first.
    pub fn axes(&self) -> impl ExactSizeIterator<Item = (&'static str, u32)> {
        self.wiring.axes.iter().zip(&self.wiring.names).map(|(axis, name)| (*name, axis.size))
    }

    /// Returns the coordinate of a device on an axis. 0 on an axis that does not exist.
    pub fn coordinate(&self, device: DeviceId, axis: usize) -> u32 {
        self.wiring.axes.get(axis).map_or(0, |a| a.coordinate(device.0))
    }

    /// Returns the coordinates of a device, one per axis.
    pub fn coordinates(&self, device: DeviceId) -> Vec<u32> {
        self.wiring.axes.iter().map(|a| a.coordinate(device.0)).collect()
    }

    /// Returns the coordinates in a device's name. These are its coordinates on the axes, those on
    /// the axes of the whole machine if a node has failed, or on a machine with `ranks: pe, N` the
    /// structural coordinates of the PE.
    pub fn place(&self, device: DeviceId) -> Vec<u32> {
        match self.node(device) {
            Node::Device(at) => at,
            _ => vec![],
        }
    }

    /// Returns the device at these coordinates, one per axis.
    pub fn device(&self, coordinates: &[u32]) -> Option<DeviceId> {
        let axes = &self.wiring.axes;
        if coordinates.len() != axes.len() || coordinates.iter().zip(axes).any(|(c, a)| *c >= a.size) {
            return None;
        }
        Some(DeviceId(coordinates.iter().zip(axes).map(|(c, a)| c * a.stride).sum()))
    }

    /// Returns the name of a node. A device is `(1,0)`. A switch is `x.1#2`: number 2 of all
    /// switches of the first level along x. A relay of a list of links is `#2`, and of a package
    /// `router(0,1,3)`.
    pub fn name(&self, node: DeviceId) -> String {
        self.node(node).to_string()
    }

    /// Returns the number of directed links. It is at most 65,536 x 65,535, so it fits into a
    /// [`LinkId`].
    pub fn link_count(&self) -> u64 {
        self.wiring.links
    }

    /// Iterates over all links by ascending number.
    pub fn links(&self) -> impl Iterator<Item = Link> + '_ {
        // The count is below 2^32 because of the limit on devices.
        (0..self.link_count() as u32).filter_map(|id| self.link(LinkId(id)))
    }

    /// Returns a link by its number.
    pub fn link(&self, id: LinkId) -> Option<Link> {
        if u64::from(id.0) >= self.link_count() {
            return None;
        }
        let (from, to, axis, direction) = self.wiring.ends(id);
        Some(Link { id, from, to, axis, direction, rate: self.rate(id) })
    }

    /// Returns the links that leave a node: by axis with the positive direction first; by receiver
    /// on a complete axis; by number in a list.
    pub fn links_from(&self, node: DeviceId) -> Vec<Link> {
        self.wiring.from(node).into_iter().filter_map(|(id, _)| self.link(id)).collect()
    }

    /// Returns the links that enter a node.
    pub fn links_into(&self, node: DeviceId) -> Vec<Link> {
        match &self.wiring.graph {
            Some(graph) => graph.reaching(node.0).filter_map(|id| self.link(id)).collect(),
            None => {
                let mut near: Vec<DeviceId> = self.wiring.from(node).into_iter().map(|l| l.1).collect();
                near.dedup();
                near.into_iter().flat_map(|n| self.links_between(n, node)).collect()
            }
        }
    }

    /// Returns the only axis with links if the machine is a single cycle or path.
    pub fn only_axis(&self) -> Option<usize> {
        let has_links = |a: &line::Axis| a.kind.links(a.size) > 0;
        let mut linked = self.wiring.axes.iter().enumerate().filter(|(_, a)| has_links(a));
        let (first, axis) = linked.next()?;
        let chain = matches!(axis.kind, LineLinks::Line | LineLinks::Ring { .. });
        (chain && linked.next().is_none()).then_some(first)
    }

    /// Returns the number of links that leave a device. As many links enter it, except in a list of
    /// links.
    pub fn degree(&self, device: DeviceId) -> u32 {
        if let Some(graph) = &self.wiring.graph {
            return graph.leaving(device.0).count() as u32;
        }
        let of = |axis: &line::Axis| match axis.kind {
            LineLinks::Full => axis.size - 1,
            _ => axis.neighbours(axis.spot(device)).len() as u32,
        };
        self.wiring.axes.iter().map(of).sum()
    }

    /// Returns the number of linked pairs of neighbours in a line along an axis. Pair c joins
    /// coordinates c and c + 1, and the last pair of a ring joins the last coordinate with the
    /// first. 0 on a complete axis, in a tree and in a list of links, which have no such lines.
    pub fn pairs(&self, axis: usize) -> u32 {
        self.wiring.axes.get(axis).map_or(0, |a| a.kind.pairs(a.size))
    }

    /// Returns the links from one node to another: none, one, two around a wrap of size two, or
    /// several connections between two ports.
    pub fn links_between(&self, from: DeviceId, to: DeviceId) -> Vec<Link> {
        let both = from.0 < self.wiring.devices && to.0 < self.wiring.devices;
        // On a complete machine, whose devices have many links, the route is the link.
        if both && self.is_complete() {
            return self.route(from, to, None).filter_map(|l| self.link(l)).collect();
        }
        self.links_from(from).into_iter().filter(|l| l.to == to).collect()
    }

    /// Returns the name of a link: `(1,0)->(2,0)`, followed by `+x` or `-x` if two links join the
    /// same devices. If several links of a package join the same nodes, each name ends with the
    /// link's number from 1 on, such as `#2`.
    pub fn link_name(&self, id: LinkId) -> String {
        if let Some(whole) = &self.whole {
            return whole.link(id).map_or_else(|| format!("link {}", id.0), |l| whole.machine.link_name(l));
        }
        let Some(link) = self.link(id) else {
            return format!("link {}", id.0);
        };
        let name = format!("{}->{}", self.name(link.from), self.name(link.to));
        let alike = self.links_between(link.from, link.to);
        if alike.len() < 2 {
            return name;
        }
        if self.is_listed() {
            let place = alike.iter().position(|l| l.id == id).unwrap_or(0);
            return format!("{name} #{}", place + 1);
        }
        let axis = self.axes().nth(link.axis).map_or("", |a| a.0);
        format!("{name} {}{axis}", if link.direction == Direction::Plus { '+' } else { '-' })
    }

    /// Returns the rate of a link.
    pub fn rate(&self, id: LinkId) -> LinkRate {
        if self.own.is_empty() {
            return self.common(id);
        }
        self.own.get(&id).copied().unwrap_or_else(|| self.common(id))
    }

    /// Returns the rate that a link has unless [`Topology::set_rate`] gives it another.
    fn common(&self, id: LinkId) -> LinkRate {
        match &self.wiring.graph {
            Some(graph) if !self.wiring.is_product && u64::from(id.0) < graph.links() => graph.edge(id).rate,
            _ => self.settings.link(),
        }
    }

    /// Checks whether every link has the rate of the settings. False for every list of links, whose
    /// links have rates of their own.
    pub fn has_uniform_links(&self) -> bool {
        self.own.is_empty() && !self.is_listed()
    }

    /// Checks whether the machine is a package of cubes of PEs.
    pub fn is_package(&self) -> bool {
        matches!(self.shape, Shape::Package { .. })
    }

    /// Checks whether the machine is a list of links: `graph`, `package`, or any shape with failed
    /// links or nodes. Symmetries and closed forms do not hold for such machines.
    pub fn is_listed(&self) -> bool {
        self.wiring.graph.is_some()
    }

    /// Checks whether two devices are joined by two links, one of which is selected by the
    /// direction in which a peer is written.
    pub fn has_doubled_links(&self) -> bool {
        let way = |e: &graph::Edge| matches!(e.parallel, graph::Parallel::Doubled(_));
        match &self.wiring.graph {
            Some(graph) => graph.edges().any(|(_, e)| way(e)),
            None => self.wiring.axes.iter().any(|a| a.size == 2 && a.kind.pairs(a.size) == 2),
        }
    }

    /// Returns the node at which a device's memory of a kind is reached. On a package this is a
    /// relay. The device itself is returned for other machines and for memory inside the device.
    pub fn memory_port(&self, device: DeviceId, kind: MemKind) -> DeviceId {
        let part = match kind {
            MemKind::Tcm | MemKind::Ub => return device,
            kind => kind.name(),
        };
        let Some(graph) = &self.wiring.graph else { return device };
        let Node::Device(at) = self.node(device) else { return device };
        // A device's router is its only neighbour.
        let router = graph.leaving(device.0).next().map(|l| graph.edge(l).to);
        let ports = router.into_iter().flat_map(|r| graph.leaving(r)).map(|l| graph.edge(l).to);
        let is = |node: &u32| {
            let relay = node.checked_sub(graph.devices).and_then(|i| graph.relays.get(i as usize));
            relay.is_some_and(|r| r.part == part && (kind == MemKind::Sram || r.at == at))
        };
        ports.into_iter().find(is).map_or(device, DeviceId)
    }

    /// Checks whether all links are equal, no device deviates from the settings and no route is
    /// stated, so the machine has every symmetry of its shape. For other machines,
    /// [`Topology::is_rotation_invariant`] checks single axes.
    pub fn is_uniform(&self) -> bool {
        self.has_uniform_links() && self.paces.is_empty() && !self.has_stated_routes()
    }

    /// Checks whether the machine is a complete graph whose routes are its links. Its devices can
    /// be permuted arbitrarily.
    pub fn is_complete(&self) -> bool {
        matches!(self.shape, Shape::Full(_)) && !self.is_listed() && !self.has_stated_routes()
    }

    /// Checks whether there are nodes that only forward and hold no rank: switches or relays.
    pub fn has_switches(&self) -> bool {
        self.wiring.nodes > self.wiring.devices
    }

    /// Checks whether all devices are linked in the same way: there are no switches, every axis is
    /// a ring or complete (or has at most two coordinates), all links have one rate, and no route
    /// is stated.
    pub fn is_transitive(&self) -> bool {
        let alike =
            |a: &line::Axis| a.size <= 2 || matches!(a.kind, LineLinks::Ring { .. } | LineLinks::Full);
        self.has_uniform_links()
            && !self.has_stated_routes()
            && !self.has_switches()
            && self.wiring.axes.iter().all(alike)
    }

    /// Returns the deviations of a device from the settings.
    pub fn pace(&self, device: DeviceId) -> Pace {
        self.paces.get(&device).copied().unwrap_or(Pace::NORMAL)
    }

    /// Iterates over the devices that deviate from the settings.
    pub fn paces(&self) -> impl Iterator<Item = (DeviceId, Pace)> + '_ {
        self.paces.iter().map(|(d, p)| (*d, *p))
    }

    /// Sets the deviations of a device from the settings.
    ///
    /// # Errors
    /// Returns E447 if there is no such device. Returns E445 if a factor is not positive, if the
    /// time is negative, or if either is not finite.
    pub fn set_pace(&mut self, device: DeviceId, pace: Pace) -> Result<(), Diagnostic> {
        let n = self.device_count() as u32;
        if device.0 >= n {
            let title = format!("device {} of {} does not exist", device.0, self.shape);
            return Err(Diagnostic::error("E447", title).help(format!("the devices are 0 to {}", n - 1)));
        }
        let factor = |f: &f64| f.is_finite() && *f > 0.0;
        if !pace.slower.iter().all(factor) || !pace.late_ns.is_finite() || pace.late_ns < 0.0 {
            let title = format!("invalid pace of device {}", self.name(device));
            return Err(Diagnostic::error("E445", title)
                .help("a factor must be finite and above zero, a time finite and at least zero"));
        }
        self.memo = Memo::default();
        if pace == Pace::NORMAL {
            self.paces.remove(&device);
        } else {
            self.paces.insert(device, pace);
        }
        Ok(())
    }

    /// Iterates over the links with rates of their own. In a list of links these are all links.
    pub fn own_rates(&self) -> impl Iterator<Item = (LinkId, LinkRate)> + '_ {
        let listed = self.wiring.graph.iter().flat_map(|g| g.edges());
        let own = self.own.iter().filter(|_| !self.is_listed()).map(|(id, rate)| (*id, *rate));
        listed.map(|(id, _)| (id, self.rate(id))).chain(own)
    }

    /// Gives every link from one node to another (two, around a doubled wrap) a rate of its own.
    ///
    /// # Errors
    /// Returns E447 if there is no such link, and E445 if the rate is out of range.
    pub fn set_link(&mut self, from: DeviceId, to: DeviceId, rate: LinkRate) -> Result<(), Diagnostic> {
        let n = self.node_count() as u32;
        if from.0 >= n || to.0 >= n {
            let title = format!("node {} of {} does not exist", from.0.max(to.0), self.shape);
            return Err(Diagnostic::error("E447", title).help(format!("the nodes are 0 to {}", n - 1)));
        }
        let links = self.links_between(from, to);
        if links.is_empty() {
            let near: Vec<String> = self.links_from(from).iter().take(8).map(|l| self.name(l.to)).collect();
            let title = format!("{} has no link {}->{}", self.shape, self.name(from), self.name(to));
            return Err(Diagnostic::error("E447", title).help(format!("links lead to {}", near.join(", "))));
        }
        links.into_iter().try_for_each(|l| self.set_rate(l.id, rate))
    }

    /// Gives one link a rate of its own. A link of 0 bytes per second has failed: no message takes
    /// it, and routes lead around it. [`Topology::connected`] tells whether there are any. Stated
    /// routes that pass it are dropped.
    ///
    /// # Errors
    /// Returns E447 if there is no such link, E445 if the rate is out of range, and E443 if a link
    /// of a machine with more than [`MAX_NODES`] nodes fails.
    pub fn set_rate(&mut self, id: LinkId, rate: LinkRate) -> Result<(), Diagnostic> {
        if u64::from(id.0) >= self.link_count() {
            let title = format!("link {} of {} does not exist", id.0, self.shape);
            return Err(
                Diagnostic::error("E447", title).help(format!("there are {} links", self.link_count()))
            );
        }
        let listed = self.is_listed() && !self.wiring.is_product;
        let bandwidth = rate.bandwidth >= 0.0 && (rate.bandwidth.is_finite() || listed);
        if !bandwidth || !rate.latency_ns.is_finite() || rate.latency_ns < 0.0 {
            let title = format!("invalid rate of link {}", self.link_name(id));
            return Err(Diagnostic::error("E445", title)
                .help("a bandwidth must be finite and at least zero, a latency finite and at least zero"));
        }
        self.memo = Memo::default();
        self.reroute(id, rate)?;
        if rate == self.common(id) {
            self.own.remove(&id);
        } else {
            self.own.insert(id, rate);
        }
        if rate.is_failed() {
            self.drop_failed_routes(&BTreeSet::new());
        }
        Ok(())
    }
}

impl fmt::Display for Topology {
    /// Writes the shape, the given settings, the rates of single links, the failed nodes and the
    /// stated routes, as [`Topology::parse`] reads them. Perturbations belong to a run and are not
    /// part of the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.settings.parts();
        parts.extend(self.whole().own_parts());
        let failed: Vec<String> = self.failed_nodes().map(|n| self.whole().name(n)).collect();
        if !failed.is_empty() {
            parts.push(format!("{FAILED}: {}", failed.join(", ")));
        }
        parts.extend(self.whole().route_parts());
        match &parts[..] {
            [] => write!(f, "{}", self.shape),
            some => write!(f, "{} {{ {} }}", self.shape, some.join("; ")),
        }
    }
}

/// Returns the number of devices of a shape with these settings. None if it does not fit into 64
/// bits.
pub fn device_count(shape: &Shape, settings: &Settings) -> Option<u64> {
    match shape {
        Shape::Package { sips, cubes, pes } => package::devices(sips, *cubes, *pes, &settings.package),
        _ => shape.devices(),
    }
}

/// Returns the diagnostic for an unknown word, with all valid words, and the nearest one if it is
/// similar.
fn unknown(code: &'static str, kind: &str, word: &str, valid: &[&str], span: Span) -> Diagnostic {
    let list = valid.join(", ");
    let help = match nearest(word, valid.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? The names are {list}"),
        None => format!("the names are {list}"),
    };
    Diagnostic::error(code, format!("unknown {kind} `{word}`")).primary(span, "not known here").help(help)
}
