//! Symmetries of a machine: motions of its devices that preserve links, routes and rates.
//!
//! This module owns the rule for a digit of the linear order of devices. If the digit is moved
//! around a wrapped axis, or in any way along a complete axis or below one switch, every route
//! becomes the route between the moved devices. The reason is that routes depend on differences of
//! coordinates alone, or only on whether coordinates differ.

use super::line::LineLinks;
use super::{DeviceId, LinkId, Topology};

impl Topology {
    /// Checks whether moving the digit `device / stride mod size` of all devices, by addition
    /// modulo its size or by xor, takes links to links of the same rate and routes to routes.
    pub fn carries(&self, stride: u64, size: u64, xor: bool) -> bool {
        if stride == 0 || size == 0 || !(self.device_count() as u64).is_multiple_of(stride * size) {
            return false;
        }
        let shape = self.wiring.axes.iter().any(|a| {
            let (low, n) = (u64::from(a.stride), u64::from(a.size));
            let inside = stride >= low && stride * size <= low * n && stride.is_multiple_of(low);
            match a.kind {
                // Any permutation of the devices is a symmetry, including one of a digit of the
                // coordinate.
                LineLinks::Full | LineLinks::Tree { depth: 1, .. } => {
                    inside && (low * n).is_multiple_of(stride * size)
                }
                // The digit must be the upper part of the axis, so that all of it rotates. For two
                // devices, addition and xor are the same.
                LineLinks::Ring { pairs } => {
                    let turns = pairs == a.size && n > 2 || n == 2 && pairs == 1;
                    turns && inside && stride * size == low * n && (!xor || size == 2)
                }
                LineLinks::Line => n == 2 && inside && stride * size == low * n && (!xor || size == 2),
                LineLinks::Tree { .. } | LineLinks::Listed => false,
            }
        });
        if !shape {
            return false;
        }
        let moved = |d: DeviceId, t: u64| {
            let x = u64::from(d.0) / stride % size;
            let to = if xor { x ^ t } else { (x + t) % size };
            DeviceId((u64::from(d.0) - x * stride + to * stride) as u32)
        };
        let steps: Vec<u64> = if xor { (0..size.ilog2()).map(|b| 1 << b).collect() } else { vec![1] };
        // The motion permutes devices, links and pairs. If it takes those with rates or routes of
        // their own to equal ones, it does so with all of them.
        let paces = |d: DeviceId, pace| steps.iter().all(|t| self.pace(moved(d, *t)) == pace);
        self.paces().all(|(d, pace)| paces(d, pace))
            && self.own_rates().all(|(link, rate)| {
                steps.iter().all(|t| {
                    let to = self.link_moved(link, |d| moved(d, *t));
                    to.is_some_and(|to| self.rate(to) == rate)
                })
            })
            && steps.iter().all(|t| self.carries_stated_routes(|d| moved(d, *t)))
    }

    /// Checks whether a motion of devices takes every stated route to the stated route between the
    /// images of its ends.
    pub(super) fn carries_stated_routes(&self, moved: impl Fn(DeviceId) -> DeviceId) -> bool {
        self.stated_routes().all(|(from, to, links)| {
            let image: Option<Vec<LinkId>> = links.iter().map(|l| self.link_moved(*l, &moved)).collect();
            image.is_some_and(|image| self.wiring.stated.get(moved(from), moved(to)) == Some(&image[..]))
        })
    }

    /// Returns the image of a node under a motion of devices. A switch moves with the devices below
    /// it. None if those do not stay together.
    pub(super) fn image_of_node(
        &self,
        node: DeviceId,
        moved: impl Fn(DeviceId) -> Option<DeviceId>,
    ) -> Option<DeviceId> {
        if self.is_listed() {
            return None;
        }
        let Some((axis, spot)) = self.wiring.switch(node) else { return moved(node) };
        // Only a single level of switches has images: the switch of the image's line.
        let a = &self.wiring.axes[axis];
        let first = moved(a.at(super::line::AxisPosition { node: 0, ..spot }))?;
        (a.levels() == 1).then(|| a.at(super::line::AxisPosition { line: a.spot(first).line, ..spot }))
    }

    /// Returns the link along the same axis between the images of the ends of a link.
    pub fn link_moved(&self, link: LinkId, moved: impl Fn(DeviceId) -> DeviceId) -> Option<LinkId> {
        let (from, to, axis, direction) = self.wiring.ends(link);
        let one = |d| self.image_of_node(d, |d| Some(moved(d)));
        let (from, to) = (one(from)?, one(to)?);
        if self.is_complete() {
            return self.route(from, to, None).next();
        }
        let found =
            self.wiring.from(from).into_iter().filter(|(l, d)| *d == to && self.wiring.axis(*l) == axis);
        // Of two links around a wrap, the one in the same direction.
        let (same, other): (Vec<_>, Vec<_>) = found.partition(|(l, _)| self.wiring.ends(*l).3 == direction);
        same.first().or(other.first()).map(|(l, _)| *l)
    }
}
