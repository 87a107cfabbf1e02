//! Rates of single links: selectors of links, names of nodes, and their text.
//!
//! This module owns the selectors in a machine's text (`(0,1)->(0,2)`, `+x`, `x`, `x.2`), the names
//! of nodes, the links that a selector selects on a machine, and the printing of rates of single
//! links, where an axis whose links agree is one entry. The rates are stored in
//! [`super::Topology`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kbc_diag::{Diagnostic, Span, Spanned};

use super::graph::{Edge, Parallel, Relay};
use super::line::{AxisPosition, LineLinks, level};
use super::memo::Memo;
use super::{AXIS_NAMES, DeviceId, Direction, LinkId, LinkRate, Shape, Topology};

/// The name of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// A device, by its coordinates.
    Device(Vec<u32>),
    /// A switch: its axis, its level from 1 on, and its number among the switches of that level.
    Switch {
        /// The axis, by position.
        axis: usize,
        /// Level from 1 on, counted upwards from the devices.
        level: u32,
        /// Number among the switches of the level.
        number: u32,
    },
    /// A relay of a list of links, `#3`, or of a package, `router(0,1,3)`.
    Relay {
        /// The word before the coordinates. Empty if the name is only a number.
        part: String,
        /// Its number or coordinates.
        at: Vec<u32>,
    },
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |at: &[u32]| at.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        match self {
            Node::Device(at) => write!(f, "({})", list(at)),
            Node::Switch { axis, level, number } => {
                write!(f, "{}.{level}#{number}", AXIS_NAMES.get(*axis).unwrap_or(&"?"))
            }
            Node::Relay { part, at } if part.is_empty() => write!(f, "#{}", list(at)),
            Node::Relay { part, at } => write!(f, "{part}({})", list(at)),
        }
    }
}

/// A selector of links that are given a rate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkSet {
    /// All links along an axis, or those of one direction.
    Axis {
        /// The axis, by position.
        axis: usize,
        /// One direction. None selects both.
        direction: Option<Direction>,
        /// In a tree of switches, one level: the links between its switches and the level below.
        level: Option<u32>,
    },
    /// The links from one node to another: one, or two around a doubled wrap of size two.
    Between {
        /// The sender.
        from: Node,
        /// The receiver.
        to: Node,
        /// The direction of one of two links around a wrap.
        direction: Option<(usize, Direction)>,
        /// The number of one of several links of a package, from 1 on.
        one: Option<u32>,
    },
    /// All links of a node that has failed ([`FAILED`]).
    Of(Node),
}

/// The key of a machine's text that lists the nodes that have failed.
pub const FAILED: &str = "failed";

/// A rate for some links.
#[derive(Clone, PartialEq, Debug)]
pub struct OwnLink {
    /// The selector and its source position.
    pub set: Spanned<LinkSet>,
    /// The rate.
    pub rate: LinkRate,
}

/// Limit on the number of links with rates of their own, and on the links of a list.
pub const MAX_OWN_LINKS: u64 = 1 << 20;

fn sign(direction: Direction) -> char {
    if direction == Direction::Plus { '+' } else { '-' }
}

impl OwnLink {
    /// Returns the entry of a node that has failed.
    pub fn failed(node: Spanned<Node>) -> OwnLink {
        let set = Spanned::new(LinkSet::Of(node.node), node.span);
        OwnLink { set, rate: LinkRate { bandwidth: 0.0, latency_ns: 0.0 } }
    }
}

impl Topology {
    /// Returns the name of a node of this machine.
    pub fn node(&self, id: DeviceId) -> Node {
        if let Some(whole) = &self.whole {
            return whole.node(id).map_or(Node::Device(vec![]), |n| whole.machine.node(n));
        }
        if let Some(graph) = self.wiring.graph.as_ref().filter(|_| !self.wiring.is_product) {
            let relay = id.0.checked_sub(graph.devices).and_then(|i| graph.relays.get(i as usize));
            return match relay {
                Some(r) => Node::Relay { part: r.part.to_owned(), at: r.at.clone() },
                None => Node::Device(
                    graph.places.get(id.0 as usize).cloned().unwrap_or_else(|| self.coordinates(id)),
                ),
            };
        }
        let Some((axis, spot)) = self.wiring.switch(id) else { return Node::Device(self.coordinates(id)) };
        let a = &self.wiring.axes[axis];
        let LineLinks::Tree { arity, depth } = a.kind else { return Node::Device(vec![]) };
        let (level, within) = level(arity, depth, spot.node);
        Node::Switch { axis, level, number: spot.line * arity.pow(depth - level) + within }
    }

    /// Returns the node with this name. None if there is none, or if it has failed.
    pub fn find(&self, node: &Node) -> Option<DeviceId> {
        if let Some(whole) = &self.whole {
            return whole.machine.find(node).and_then(|n| whole.living(n));
        }
        let (axis, wanted, number) = match node {
            Node::Device(at) => {
                let places = self.wiring.graph.as_ref().map_or(&[][..], |g| &g.places);
                return match places.iter().position(|p| p == at) {
                    Some(place) => Some(DeviceId(place as u32)),
                    None if places.is_empty() => self.device(at),
                    None => None,
                };
            }
            Node::Relay { part, at } => {
                let graph = self.wiring.graph.as_ref()?;
                // The relays of a `graph` are at the index that is their number.
                let is = |r: &Relay| r.part == *part && r.at == *at;
                let own = at.first().map(|n| *n as usize).filter(|n| graph.relays.get(*n).is_some_and(is));
                let place = own.or_else(|| graph.relays.iter().position(is))?;
                return Some(DeviceId(graph.devices + place as u32));
            }
            Node::Switch { axis, level, number } => (*axis, *level, *number),
        };
        let a = self.wiring.axes.get(axis)?;
        let LineLinks::Tree { arity, depth } = a.kind else { return None };
        let per = arity.pow(depth.checked_sub(wanted).filter(|_| wanted > 0)?);
        let line = number / per;
        let first: u32 = (0..wanted).map(|l| arity.pow(depth - l)).sum();
        let spot = AxisPosition { line, node: first + number % per };
        (line < self.wiring.devices / a.size).then(|| a.at(spot))
    }

    /// Returns the links of an axis that a selector selects. Empty if there is no such axis,
    /// direction or level.
    fn along(&self, axis: usize, direction: Option<Direction>, level: Option<u32>) -> Vec<LinkId> {
        let Some(a) = self.wiring.axes.get(axis) else { return vec![] };
        let all = u64::from(self.wiring.devices / a.size) * a.kind.links(a.size);
        let wanted = |id: &u64| {
            level.is_none_or(|l| a.level(*id) == l) && direction.is_none_or(|d| a.ends(*id).2 == d)
        };
        (a.base..a.base + all).filter(wanted).map(|id| LinkId(id as u32)).collect()
    }

    /// Returns the links that a selector selects, by ascending number.
    ///
    /// # Errors
    /// Returns E447 if there are no such links, or more than [`MAX_OWN_LINKS`] along the axis.
    pub fn select(&self, set: &Spanned<LinkSet>) -> Result<Vec<LinkId>, Diagnostic> {
        let fault = |title: String, help: String| {
            let d = Diagnostic::error("E447", title).help(help);
            let what = if matches!(set.node, LinkSet::Of(_)) { "this node" } else { "these links" };
            if set.span.is_none() { d } else { d.primary(set.span, what) }
        };
        if let Some(whole) = &self.whole {
            let all = whole.machine.select(set)?;
            let found: Vec<LinkId> = all.into_iter().filter_map(|l| whole.carrying(l)).collect();
            if found.is_empty() {
                let gone: Vec<String> = self.failed_nodes().map(|n| whole.machine.name(n)).collect();
                let title = format!("no such link of {} is left", self.shape());
                return Err(fault(
                    title,
                    format!("links of nodes that have failed do not exist: {}", gone.join(", ")),
                ));
            }
            return Ok(found);
        }
        let end = |node: &Node| {
            self.find(node).ok_or_else(|| {
                let sizes: Vec<String> = self.axes().map(|(n, k)| format!("{n} of {k}")).collect();
                let kind = match node {
                    Node::Device(_) => "device",
                    Node::Switch { .. } => "switch",
                    Node::Relay { .. } => "relay",
                };
                let help = format!("the coordinates are {}", sizes.join(", "));
                let help = match (self.shape(), node) {
                    (Shape::Graph { relays, .. }, Node::Relay { .. }) => {
                        format!("there are {relays} relays, numbered from #0")
                    }
                    (Shape::Package { .. }, _) => {
                        format!("{help}; the relays are router, hbm, sram, east, west, south, north, io_out and io_in, such as `{}`",
                            self.name(DeviceId(self.device_count() as u32)))
                    }
                    _ => help,
                };
                fault(format!("{} has no {kind} {node}", self.shape()), help)
            })
        };
        let links = |i: usize| {
            let a = self.wiring.axes.get(i);
            a.map_or(0, |a| u64::from(self.wiring.devices / a.size) * a.kind.links(a.size))
        };
        match &set.node {
            LinkSet::Of(node) => {
                let id = end(node)?;
                let mut all: Vec<LinkId> =
                    self.links_from(id).into_iter().chain(self.links_into(id)).map(|l| l.id).collect();
                all.sort_unstable();
                Ok(all)
            }
            LinkSet::Axis { axis, direction, level } => {
                let name = AXIS_NAMES.get(*axis).copied().unwrap_or("?");
                if links(*axis) == 0 {
                    let linked: Vec<&str> =
                        (0..self.axes().len()).filter(|&a| links(a) > 0).map(|a| AXIS_NAMES[a]).collect();
                    let help = match &linked[..] {
                        [] if self.is_listed() => {
                            "links are named by their ends, such as `(0)->#0`".to_owned()
                        }
                        [] => "it has no links".to_owned(),
                        some => format!("the axes with links are {}", some.join(", ")),
                    };
                    return Err(fault(format!("{} has no links along {name}", self.shape()), help));
                }
                if links(*axis) > MAX_OWN_LINKS {
                    let title = format!("{} has more than {MAX_OWN_LINKS} links along {name}", self.shape());
                    return Err(fault(title, "use `link` to give one rate to all links".into()));
                }
                let found = self.along(*axis, *direction, *level);
                if let (true, Some(level)) = (found.is_empty(), level) {
                    let levels = self.wiring.axes[*axis].levels();
                    let title = format!("{} has no links of level {level} along {name}", self.shape());
                    return Err(fault(
                        title,
                        format!("the levels are 1 to {levels}, counted from the devices upwards"),
                    ));
                }
                Ok(found)
            }
            LinkSet::Between { from, to, direction, one } => {
                let (a, b) = (end(from)?, end(to)?);
                let mut links = self.links_between(a, b);
                if let Some(one) = one {
                    let all = links.len();
                    links = links.into_iter().skip((*one as usize).wrapping_sub(1)).take(1).collect();
                    if links.is_empty() {
                        let title = format!("{} has no link {from}->{to} #{one}", self.shape());
                        return Err(fault(title, format!("{all} links lead there, numbered from #1")));
                    }
                }
                if links.is_empty() {
                    let near: Vec<String> =
                        self.links_from(a).iter().take(8).map(|l| self.name(l.to)).collect();
                    let title = format!("{} has no link {}->{}", self.shape(), self.name(a), self.name(b));
                    return Err(fault(title, format!("links lead to {}", near.join(", "))));
                }
                if let Some((axis, direction)) = direction {
                    links.retain(|l| (l.axis, l.direction) == (*axis, *direction));
                    if links.is_empty() {
                        let title = format!(
                            "{} has no link {}->{} in direction {}{}",
                            self.shape(),
                            self.name(a),
                            self.name(b),
                            sign(*direction),
                            AXIS_NAMES[*axis]
                        );
                        return Err(fault(title, "remove the direction".into()));
                    }
                }
                Ok(links.iter().map(|l| l.id).collect())
            }
        }
    }

    /// Gives links rates of their own, in order, and lets nodes fail. It belongs to building a
    /// machine: rates that [`Topology::set_rate`] set before nodes failed are lost.
    ///
    /// # Errors
    /// Returns the errors of [`Topology::select`], [`Topology::set_rate`] and, for nodes that
    /// cannot fail, E443 and E445.
    pub fn set_links(&mut self, links: &[OwnLink]) -> Result<(), Diagnostic> {
        let (mut machine, mut failed) = match &self.whole {
            Some(whole) => (whole.machine.clone(), whole.failed.clone()),
            None => (self.clone(), BTreeSet::new()),
        };
        let mut at = Span::NONE;
        for own in links {
            if let LinkSet::Of(node) = &own.set.node {
                // The selection reports a node that does not exist.
                machine.select(&own.set)?;
                failed.extend(machine.find(node));
                at = own.set.span;
            } else if matches!(machine.shape, Shape::Graph { .. }) {
                machine.add_link(own)?;
            } else {
                for id in machine.select(&own.set)? {
                    machine.set_rate(id, own.rate)?;
                }
            }
        }
        *self = machine.without(failed, at)?;
        Ok(())
    }

    /// Adds a link to a list, or changes the rate of an existing link.
    fn add_link(&mut self, own: &OwnLink) -> Result<(), Diagnostic> {
        self.memo = Memo::default();
        let fault = |title: String, help: &str| {
            let d = Diagnostic::error("E447", title).help(help);
            if own.set.span.is_none() { d } else { d.primary(own.set.span, "this link") }
        };
        let LinkSet::Between { from, to, direction: None, one: None } = &own.set.node else {
            let title = format!("links of {} are named by their ends", self.shape);
            return Err(fault(
                title,
                "write a directed link from one node to another: `(0)->(1)`, `(0)->#0` or `#0->#1`",
            ));
        };
        let ends = [from, to].map(|n| self.find(n));
        let [Some(a), Some(b)] = ends else {
            let missing = if ends[0].is_none() { from } else { to };
            let title = format!("{} has no node {missing}", self.shape);
            let Shape::Graph { devices, relays } = self.shape else { return Ok(()) };
            let relays = if relays == 0 {
                "and no relays".into()
            } else {
                format!("and relays #0 to #{}", relays - 1)
            };
            return Err(fault(title, &format!("there are devices (0) to ({}) {relays}", devices - 1)));
        };
        if a == b {
            return Err(fault(
                format!("the link {from}->{to} leads back to its own node"),
                "a link must join two different nodes",
            ));
        }
        if let Some(link) = self.links_between(a, b).first() {
            let id = link.id;
            if let Some(graph) = &mut self.wiring.graph {
                let graph = Arc::make_mut(graph);
                graph.change(id, own.rate);
                graph.set_failed(id, own.rate.is_failed());
            }
            if own.rate.is_failed() {
                self.drop_failed_routes(&BTreeSet::new());
            }
            return Ok(());
        }
        if self.wiring.links >= MAX_OWN_LINKS {
            return Err(fault(
                format!("{} has more than {MAX_OWN_LINKS} links", self.shape),
                "write fewer links",
            ));
        }
        if let Some(graph) = &mut self.wiring.graph {
            let graph = Arc::make_mut(graph);
            let id = LinkId(graph.links() as u32);
            graph.add(Edge { from: a.0, to: b.0, rate: own.rate, parallel: Parallel::Only });
            graph.set_failed(id, own.rate.is_failed());
            self.wiring.links = graph.links();
        }
        Ok(())
    }

    /// Returns the rates of single links as in a machine's text: `link +x: 25 GB/s, 500 ns`.
    pub(super) fn own_parts(&self) -> Vec<String> {
        if matches!(self.shape, Shape::Graph { .. }) {
            return self
                .own_rates()
                .map(|(id, rate)| format!("link {}: {rate}", self.link_name(id)))
                .collect();
        }
        let mut left: BTreeMap<LinkId, LinkRate> = self.own.clone();
        let mut out = vec![];
        for (axis, (a, name)) in self.wiring.axes.iter().zip(AXIS_NAMES).enumerate() {
            if left.is_empty() || self.is_listed() {
                break;
            }
            let lines = u64::from(self.wiring.devices / a.size);
            let directions = [Direction::Plus, Direction::Minus];
            for (level, direction) in (1..=a.levels()).flat_map(|l| directions.map(|d| (l, d))) {
                let first = LinkId(a.base as u32);
                let own =
                    left.range(first..).map(|(id, _)| *id).take_while(|id| self.wiring.axis(*id) == axis);
                let along: Vec<LinkId> = own
                    .filter(|id| (a.level(id.0.into()), a.ends(id.0.into()).2) == (level, direction))
                    .collect();
                // A single link reads better with its ends.
                if along.len() < 2 || along.len() as u64 != lines * a.one_way(level) {
                    continue;
                }
                let name = match a.levels() {
                    1 => name.to_owned(),
                    _ => format!("{name}.{level}"),
                };
                // Every link has a rate of its own, so the most common rate is printed for the
                // axis, and the others after it.
                let mut counts: Vec<(usize, LinkRate)> = vec![];
                for id in &along {
                    let known = counts.iter().position(|c| c.1 == left[id]);
                    match known {
                        Some(i) => counts[i].0 += 1,
                        None if counts.len() < 8 => counts.push((1, left[id])),
                        None => {}
                    }
                }
                if let Some((count, rate)) = counts.into_iter().rev().max_by_key(|c| c.0)
                    && count > 1
                {
                    out.push(format!("link {}{name}: {rate}", sign(direction)));
                    left.retain(|id, r| *r != rate || along.binary_search(id).is_err());
                }
            }
        }
        out.extend(left.iter().map(|(id, rate)| format!("link {}: {rate}", self.link_name(*id))));
        out
    }

    /// Checks whether the machine stays the same if every device moves to the next coordinate along
    /// an axis, around the wrap: links, rates, stated routes and deviations of devices. False along
    /// a line, and for an axis that does not exist.
    pub fn is_rotation_invariant(&self, axis: usize) -> bool {
        let Some(a) = self.wiring.axes.get(axis) else { return false };
        let size = a.size;
        let wraps = match a.kind {
            LineLinks::Ring { .. } | LineLinks::Full => true,
            LineLinks::Line => size == 1,
            LineLinks::Tree { depth, .. } => size == 1 || depth == 1,
            LineLinks::Listed => size == 1 && !self.is_listed(),
        };
        let moved = |d: DeviceId| {
            let mut c = self.coordinates(d);
            c[axis] = (c[axis] + 1) % size;
            self.device(&c)
        };
        wraps
            && self.own_rates().all(|(id, rate)| {
                let Some(link) = self.link(id) else { return false };
                let (Some(from), Some(to)) =
                    (self.image_of_node(link.from, moved), self.image_of_node(link.to, moved))
                else {
                    return false;
                };
                let images = self.links_between(from, to);
                // Of two links, the one in the same direction. A single link has no counterpart.
                let image = images
                    .iter()
                    .find(|l| (l.axis, l.direction) == (link.axis, link.direction))
                    .or_else(|| images.first());
                image.is_some_and(|l| l.rate == rate)
            })
            && self.paces().all(|(d, pace)| moved(d).is_some_and(|m| self.pace(m) == pace))
            && self.carries_stated_routes(|d| moved(d).unwrap_or(d))
    }
}
