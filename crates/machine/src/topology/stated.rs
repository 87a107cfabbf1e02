//! Stated routes: routes that a machine's text gives for pairs of nodes, link by link.
//!
//! A message between the two nodes takes the stated route in place of the route that the machine
//! computes ([`super::route`]). The routes of all other pairs stay what they are. This module owns
//! what a text says about routes, the checks of a route, and the table of them. A failed link or
//! node takes the routes that pass it with it, unless the text that states the route says of the
//! failure as well: that is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kbc_diag::{Diagnostic, Span, Spanned};

use super::links::LinkSet;
use super::memo::Memo;
use super::{DeviceId, LinkId, Shape, Topology};

/// The key of a machine's text that states the routes of pairs.
pub const ROUTE: &str = "route";

/// A route as written: `(0)->#1->(3)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatedRoute {
    /// Its links in order. Each is named by its ends, and begins where the one before it ends.
    pub links: Vec<Spanned<LinkSet>>,
    /// The source position of the whole route.
    pub span: Span,
}

/// The first and last node of a route.
type RouteEnds = (DeviceId, DeviceId);

/// The links of a route, in order.
type RouteLinks = Box<[LinkId]>;

/// The stated routes of a machine by their first and last node.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct StatedRoutes(Arc<BTreeMap<RouteEnds, RouteLinks>>);

impl StatedRoutes {
    /// Returns the links of the stated route between two nodes.
    #[inline]
    pub fn get(&self, from: DeviceId, to: DeviceId) -> Option<&[LinkId]> {
        // Most machines state no route, and routes are asked for once per message.
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(from, to)).map(|links| &links[..])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the routes with their first and last node, in the order of these.
    pub fn iter(&self) -> impl Iterator<Item = (DeviceId, DeviceId, &[LinkId])> {
        self.0.iter().map(|((from, to), links)| (*from, *to, &links[..]))
    }

    /// Drops the routes that do not meet a condition. Returns whether there were any.
    fn retain(&mut self, keep: impl Fn(&[LinkId]) -> bool) -> bool {
        if self.iter().all(|(_, _, links)| keep(links)) {
            return false;
        }
        Arc::make_mut(&mut self.0).retain(|_, links| keep(links));
        true
    }

    /// Returns the routes with the numbers that their nodes and links have on another machine.
    pub fn renumbered(
        &self,
        node: impl Fn(DeviceId) -> Option<DeviceId>,
        link: impl Fn(LinkId) -> Option<LinkId>,
    ) -> StatedRoutes {
        let route = |(from, to, links): (DeviceId, DeviceId, &[LinkId])| {
            let links: Option<Box<[LinkId]>> = links.iter().map(|l| link(*l)).collect();
            Some(((node(from)?, node(to)?), links?))
        };
        StatedRoutes(Arc::new(self.iter().filter_map(route).collect()))
    }
}

impl Topology {
    /// Iterates over the stated routes with their first and last node, in the order of these.
    pub fn stated_routes(&self) -> impl Iterator<Item = (DeviceId, DeviceId, &[LinkId])> {
        self.wiring.stated.iter()
    }

    /// Checks whether the machine states routes. It then has fewer symmetries than its shape.
    pub fn has_stated_routes(&self) -> bool {
        !self.wiring.stated.is_empty()
    }

    /// Returns the text of a route of at least one link: `(0)->#1->(3)`.
    pub fn route_name(&self, links: &[LinkId]) -> String {
        let mut out = String::new();
        for (i, id) in links.iter().enumerate() {
            let name = self.link_name(*id);
            let from = self.link(*id).map_or(String::new(), |l| self.name(l.from));
            out += if i == 0 { &name } else { name.strip_prefix(&from).unwrap_or(&name) };
        }
        out
    }

    /// Returns the machine without its stated routes.
    pub(crate) fn without_stated_routes(&self) -> Topology {
        let mut out = self.clone();
        out.wiring.stated = StatedRoutes::default();
        out.memo = Memo::default();
        out
    }

    /// States routes of pairs. Where a pair has a stated route already, the new one takes its
    /// place.
    ///
    /// # Errors
    /// Returns the errors of [`Topology::select`] for nodes and links that do not exist, and E441
    /// if one of several links is not chosen, if a link or node on a route has failed, if a route
    /// passes a node twice, if two of the routes are of the same pair, and for a switch of a
    /// generator at the end of a route.
    pub fn set_routes(&mut self, routes: &[StatedRoute]) -> Result<(), Diagnostic> {
        if routes.is_empty() {
            return Ok(());
        }
        let (mut machine, failed) = match &self.whole {
            Some(whole) => (whole.machine.clone(), whole.failed.clone()),
            None => (self.clone(), BTreeSet::new()),
        };
        let mut new: BTreeMap<RouteEnds, (RouteLinks, Span)> = BTreeMap::new();
        for route in routes {
            let links = machine.links_of(route, &failed)?;
            let ends = |id: &LinkId| machine.link(*id).map(|l| (l.from, l.to));
            let (Some((from, _)), Some((_, to))) =
                (links.first().and_then(ends), links.last().and_then(ends))
            else {
                continue;
            };
            if let Some((_, first)) = new.insert((from, to), (links, route.span)) {
                let title = format!("two routes lead from {} to {}", machine.name(from), machine.name(to));
                let d = invalid(title, route.span, "again here").help("a pair of nodes has one route");
                return Err(if first.is_none() { d } else { d.secondary(first, "first here") });
            }
        }
        let known = Arc::make_mut(&mut machine.wiring.stated.0);
        known.extend(new.into_iter().map(|(pair, (links, _))| (pair, links)));
        machine.memo = Memo::default();
        *self = machine.without(failed, Span::NONE)?;
        Ok(())
    }

    /// Returns the links of a route, checked.
    fn links_of(&self, route: &StatedRoute, failed: &BTreeSet<DeviceId>) -> Result<RouteLinks, Diagnostic> {
        let mut out = vec![];
        let mut passed = BTreeSet::new();
        for hop in &route.links {
            let found = self.select(hop)?;
            let &[id] = &found[..] else {
                let names: Vec<String> = found.iter().map(|l| self.link_name(*l)).collect();
                let title = format!("the route does not state which of {} links it takes", names.len());
                return Err(invalid(title, hop.span, "several links lead here")
                    .help(format!("write one of {}", names.join(", "))));
            };
            let Some(link) = self.link(id) else { continue };
            for node in [link.from, link.to] {
                if failed.contains(&node) {
                    let title = format!("{} on the route has failed", self.name(node));
                    return Err(invalid(title, hop.span, "here")
                        .help("remove the route, or lead it around what has failed"));
                }
            }
            if link.rate.is_failed() {
                let title = format!("the link {} on the route has failed", self.link_name(id));
                return Err(invalid(title, hop.span, "here")
                    .help("remove the route, or lead it around what has failed"));
            }
            passed.insert(link.from);
            if !passed.insert(link.to) {
                let title = format!("the route passes {} twice", self.name(link.to));
                return Err(
                    invalid(title, hop.span, "again here").help("a message passes every node at most once")
                );
            }
            out.push(id);
        }
        let listed = matches!(self.shape(), Shape::Graph { .. } | Shape::Package { .. });
        let link = |id: Option<&LinkId>| id.and_then(|id| self.link(*id));
        let ends = [link(out.first()).map(|l| l.from), link(out.last()).map(|l| l.to)];
        let switch = ends.into_iter().flatten().find(|n| !listed && n.0 as usize >= self.device_count());
        if let Some(node) = switch {
            let title = format!("the route ends at the switch {}", self.name(node));
            return Err(invalid(title, route.span, "this route")
                .help("messages go from device to device: state a route between two devices"));
        }
        Ok(out.into())
    }

    /// Drops the stated routes that pass failed links or some nodes.
    pub(super) fn drop_failed_routes(&mut self, failed: &BTreeSet<DeviceId>) {
        if self.wiring.stated.is_empty() {
            return;
        }
        let mut stated = std::mem::take(&mut self.wiring.stated);
        let up = |id: &LinkId| {
            let link = self.link(*id);
            link.is_some_and(|l| !l.rate.is_failed() && !failed.contains(&l.from) && !failed.contains(&l.to))
        };
        if stated.retain(|links| links.iter().all(up)) {
            self.memo = Memo::default();
        }
        self.wiring.stated = stated;
    }

    /// Returns the stated routes as in a machine's text: `route: (0)->#1->(3)`.
    pub(super) fn route_parts(&self) -> impl Iterator<Item = String> {
        self.stated_routes().map(|(_, _, links)| format!("{ROUTE}: {}", self.route_name(links)))
    }
}

/// Returns E441 with that title.
fn invalid(title: String, at: Span, what: &str) -> Diagnostic {
    let d = Diagnostic::error("E441", title);
    if at.is_none() { d } else { d.primary(at, what) }
}
