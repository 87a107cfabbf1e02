//! Failed links and failed nodes: the machine that is left.
//!
//! A failed link stays a link of its machine, carries nothing, and routes lead around it. A failed
//! node takes its links with it. A failed device has no rank: the devices that are left are the
//! ranks, in their order, on one axis, and they keep their names. So everything that computes on a
//! machine sees a list of links between living nodes. This module owns that list, and the whole
//! machine that pictures and texts show.

use std::collections::BTreeSet;
use std::sync::Arc;

use kbc_diag::{Diagnostic, Span};

use super::graph::{Edge, Graph, MAX_NODES, Parallel, Relay};
use super::memo::Memo;
use super::wiring::Wiring;
use super::{AXIS_NAMES, DeviceId, LinkId, LinkRate, Routing, Shape, Topology};

/// The number of a node or link that has failed.
const NONE: u32 = u32::MAX;

/// A machine with failed nodes, and how its numbers relate to those of the machine that is left.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Whole {
    /// The machine with all of its nodes.
    pub machine: Topology,
    /// The nodes that have failed, by their numbers on the whole machine.
    pub failed: BTreeSet<DeviceId>,
    /// Numbers of living nodes on the whole machine.
    nodes: Vec<u32>,
    /// Numbers of their links on the whole machine.
    links: Vec<u32>,
    /// Number of every node of the whole machine among the living ones, or [`NONE`].
    living: Vec<u32>,
    /// Number of every link of the whole machine among the living ones, or [`NONE`].
    carrying: Vec<u32>,
}

impl Whole {
    /// Returns the number of a living node on the whole machine.
    pub fn node(&self, id: DeviceId) -> Option<DeviceId> {
        self.nodes.get(id.0 as usize).copied().map(DeviceId)
    }

    /// Returns the number of a link on the whole machine.
    pub fn link(&self, id: LinkId) -> Option<LinkId> {
        self.links.get(id.0 as usize).copied().map(LinkId)
    }

    /// Returns the number of a node of the whole machine among the living ones.
    pub fn living(&self, whole: DeviceId) -> Option<DeviceId> {
        self.living.get(whole.0 as usize).copied().filter(|n| *n != NONE).map(DeviceId)
    }

    /// Returns the number of a link of the whole machine among those of living nodes.
    pub fn carrying(&self, whole: LinkId) -> Option<LinkId> {
        self.carrying.get(whole.0 as usize).copied().filter(|n| *n != NONE).map(LinkId)
    }
}

impl Topology {
    /// Returns the machine with all of its nodes: itself, if none has failed.
    pub fn whole(&self) -> &Topology {
        self.whole.as_ref().map_or(self, |w| &w.machine)
    }

    /// Returns the number of a node on [`Topology::whole`].
    pub fn number_on_whole(&self, id: DeviceId) -> DeviceId {
        self.whole.as_ref().and_then(|w| w.node(id)).unwrap_or(id)
    }

    /// Returns the number of a link on [`Topology::whole`].
    pub fn link_on_whole(&self, id: LinkId) -> LinkId {
        self.whole.as_ref().and_then(|w| w.link(id)).unwrap_or(id)
    }

    /// Iterates over the nodes that have failed, by their numbers on [`Topology::whole`].
    pub fn failed_nodes(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.whole.iter().flat_map(|w| w.failed.iter().copied())
    }

    /// Iterates over the links that have failed. Links of failed nodes are not links of a machine.
    pub fn failed_links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.own_rates().filter(|(_, rate)| rate.is_failed()).map(|(id, _)| id)
    }

    /// Returns the machine without nodes, which have numbers of this machine.
    ///
    /// # Errors
    /// Returns E443 if no device is left or the machine has more than [`MAX_NODES`] nodes, and E445
    /// for a device of a package.
    pub(super) fn without(mut self, failed: BTreeSet<DeviceId>, at: Span) -> Result<Topology, Diagnostic> {
        let Some(first) = failed.first().copied() else { return Ok(self) };
        self.drop_failed_routes(&failed);
        let fault = |code, title: String| {
            let d = Diagnostic::error(code, title);
            if at.is_none() { d } else { d.primary(at, "this has failed") }
        };
        let is_device = |d: DeviceId| (d.0 as usize) < self.device_count();
        if self.is_package() {
            let title = format!("{} of a package cannot fail", self.name(first));
            return Err(fault("E445", title)
                .note("the placements and memories of a package count on all of its nodes")
                .help(
                    "let its links fail, such as `link A->B: 0 GB/s`, or take fewer PEs by `ranks: pe, N`",
                ));
        }
        if self.node_count() as u64 > u64::from(MAX_NODES) {
            let title = format!("{} of {} cannot fail", self.name(first), self.shape);
            return Err(fault("E443", title)
                .note(format!("routes around it need a table, for which {MAX_NODES} nodes are the limit")));
        }
        let nodes: Vec<u32> =
            (0..self.node_count() as u32).filter(|n| !failed.contains(&DeviceId(*n))).collect();
        let devices = nodes.iter().filter(|n| is_device(DeviceId(**n))).count() as u32;
        if devices == 0 {
            return Err(fault("E443", format!("all devices of {} have failed", self.shape))
                .help("a machine needs at least one device"));
        }
        let mut living = vec![NONE; self.node_count()];
        nodes.iter().enumerate().for_each(|(new, old)| living[*old as usize] = new as u32);
        let relays = (devices as usize..nodes.len()).map(|_| Relay { part: "", at: vec![] }).collect();
        let mut graph = Graph::new(devices, relays);
        graph.routing = self.wiring.graph.as_ref().map_or(Routing::Single, |g| g.routing);
        let (mut links, mut carrying) = (vec![], vec![NONE; self.link_count() as usize]);
        for link in self.links() {
            let [from, to] = [link.from, link.to].map(|d| living[d.0 as usize]);
            if from == NONE || to == NONE {
                continue;
            }
            let id = LinkId(links.len() as u32);
            graph.add(Edge { from, to, rate: link.rate, parallel: Parallel::Only });
            graph.set_failed(id, link.rate.is_failed());
            carrying[link.id.0 as usize] = id.0;
            links.push(link.id.0);
        }
        let paces = self.paces().filter(|(d, _)| !failed.contains(d));
        let number = |list: &[u32], old: u32| list.get(old as usize).copied().filter(|n| *n != NONE);
        let stated = self.wiring.stated.renumbered(
            |node| number(&living, node.0).map(DeviceId),
            |link| number(&carrying, link.0).map(LinkId),
        );
        Ok(Topology {
            shape: self.shape.clone(),
            settings: self.settings,
            wiring: Wiring { stated, ..Wiring::listed(vec![(AXIS_NAMES[0], devices)], graph) },
            own: Default::default(),
            paces: paces.map(|(d, pace)| (DeviceId(living[d.0 as usize]), pace)).collect(),
            placements: self.placements.clone(),
            memo: Memo::default(),
            whole: Some(Arc::new(Whole { machine: self, failed, nodes, links, living, carrying })),
        })
    }

    /// Checks that every device reaches every other one. Only a list of links, and a machine with
    /// failed links or nodes, can fail.
    ///
    /// # Errors
    /// Returns E443 if a device does not reach another one.
    pub fn connected(&self, at: Span) -> Result<(), Diagnostic> {
        let Some((a, b)) = self.wiring.graph.as_ref().and_then(|g| g.unreachable_pair()) else {
            return Ok(());
        };
        let (a, b) = (self.name(DeviceId(a)), self.name(DeviceId(b)));
        let d = Diagnostic::error("E443", format!("there is no route from {a} to {b} in {}", self.shape));
        let d = if at.is_none() { d } else { d.primary(at, "this machine") };
        let gone: Vec<String> = self.failed_nodes().map(|n| self.whole().name(n)).collect();
        let d = match &gone[..] {
            [] => d,
            some => d.note(format!("failed: {}", some.join(", "))),
        };
        Err(match matches!(self.shape, Shape::Graph { .. }) && gone.is_empty() || self.is_package() {
            true => d.help(format!("links are directed: add the links of a route, such as `link {a}->{b}: 50 GB/s, 500 ns`, and those of the route back")),
            false if gone.is_empty() => d.help("fewer links may fail: the others must join all devices"),
            false => d.help("fewer nodes and links may fail: the others must join all devices that are left"),
        })
    }

    /// Lets routes follow the new rate of a link. A product of axes gets its list of links with the
    /// first failure, because its routes are no longer those of the axes.
    pub(super) fn reroute(&mut self, id: LinkId, rate: LinkRate) -> Result<(), Diagnostic> {
        if self.wiring.graph.is_none() {
            if !rate.is_failed() {
                return Ok(());
            }
            if self.node_count() as u64 > u64::from(MAX_NODES) {
                let title = format!("a link of {} cannot fail", self.shape);
                return Err(Diagnostic::error("E443", title).note(format!(
                    "routes around it need a table, for which {MAX_NODES} nodes are the limit"
                )));
            }
            let list = self.wiring.as_list(|l| self.rate(l));
            self.wiring.graph = Some(Arc::new(list));
        }
        if let Some(graph) = &mut self.wiring.graph {
            let graph = Arc::make_mut(graph);
            // The links of a package keep the rates of its parts, on which its routes depend.
            if self.wiring.is_product {
                graph.change(id, rate);
            }
            if !graph.set_failed(id, rate.is_failed()) && self.wiring.is_product {
                self.wiring.graph = None;
            }
        }
        Ok(())
    }
}
