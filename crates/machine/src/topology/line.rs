//! One axis of a machine: the links between devices that differ only in its coordinate.
//!
//! This module owns the kinds of axes (line, ring, complete, tree of switches), the numbers of
//! links and switches within a line, and the route along a line. Numbers are computed and never
//! stored. [`super::wiring`] combines axes into a machine.

use super::{DeviceId, Direction};

/// The links between the devices of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineLinks {
    /// Each device is linked with the next one.
    Line,
    /// Each with the next one, and the last with the first. Two devices may have one or two linked
    /// pairs.
    Ring {
        /// Number of linked pairs of neighbours.
        pairs: u32,
    },
    /// Every device is linked with every other one.
    Full,
    /// Switches: the devices are the leaves of a tree in which every inner node has `arity`
    /// children.
    Tree {
        /// Number of children of a switch.
        arity: u32,
        /// Number of levels of switches. A single switch is a tree of depth one.
        depth: u32,
    },
    /// No links along the axis: the machine's links are a list.
    Listed,
}

/// One axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Axis {
    /// Number of coordinates.
    pub size: u32,
    /// The links between them.
    pub kind: LineLinks,
    /// Distance of neighbours in the linear order of devices.
    pub stride: u32,
    /// Number of its first link.
    pub base: u64,
    /// Number of its first switch among the nodes of the machine.
    pub relay: u32,
}

/// A position on an axis: a device by its coordinate, or a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AxisPosition {
    /// Number of the line among those along the axis.
    pub line: u32,
    /// Number of the node within the line: coordinates first, then switches, level by level.
    pub node: u32,
}

impl LineLinks {
    /// Returns the number of linked pairs of neighbouring coordinates. 0 for kinds without
    /// neighbours.
    pub fn pairs(self, size: u32) -> u32 {
        match self {
            LineLinks::Line => size - 1,
            LineLinks::Ring { pairs } => pairs,
            LineLinks::Full | LineLinks::Tree { .. } | LineLinks::Listed => 0,
        }
    }

    /// Returns the number of switches of a line.
    pub fn switches(self) -> u32 {
        match self {
            LineLinks::Tree { arity, depth } => (0..depth).map(|l| arity.pow(l)).sum(),
            _ => 0,
        }
    }

    /// Returns the number of directed links of a line of `size` devices.
    pub fn links(self, size: u32) -> u64 {
        match self {
            LineLinks::Line | LineLinks::Ring { .. } => 2 * u64::from(self.pairs(size)),
            LineLinks::Full => u64::from(size) * u64::from(size - 1),
            // Every node except the root has one link up and one down.
            LineLinks::Tree { .. } => 2 * (u64::from(size) + u64::from(self.switches()) - 1),
            LineLinks::Listed => 0,
        }
    }
}

/// Returns the level of a node of a tree's line, and its number within the level. Devices are level
/// 0.
pub(super) fn level(arity: u32, depth: u32, node: u32) -> (u32, u32) {
    let (mut first, mut level) = (0, 0);
    while level < depth {
        let size = arity.pow(depth - level);
        if node < first + size {
            break;
        }
        first += size;
        level += 1;
    }
    (level, node - first)
}

/// Returns the node of a tree's line with a given number within a level.
fn node(arity: u32, depth: u32, level: u32, number: u32) -> u32 {
    (0..level).map(|l| arity.pow(depth - l)).sum::<u32>() + number
}

impl Axis {
    /// Returns the coordinate of a device.
    pub fn coordinate(&self, device: u32) -> u32 {
        device / self.stride % self.size
    }

    /// Returns the number of a device's line among the lines along this axis.
    fn line(&self, device: u32) -> u32 {
        device / (self.stride * self.size) * self.stride + device % self.stride
    }

    /// Returns the spot of a device on this axis.
    pub fn spot(&self, device: DeviceId) -> AxisPosition {
        AxisPosition { line: self.line(device.0), node: self.coordinate(device.0) }
    }

    /// Returns the spot of a switch. None if the node is not a switch of this axis.
    pub fn switch(&self, node: u32, lines: u32) -> Option<AxisPosition> {
        let per = self.kind.switches();
        let number = node.checked_sub(self.relay).filter(|n| *n < per * lines)?;
        Some(AxisPosition { line: number / per, node: self.size + number % per })
    }

    /// Returns the node of the machine at a spot.
    pub fn at(&self, spot: AxisPosition) -> DeviceId {
        DeviceId(match spot.node.checked_sub(self.size) {
            Some(switch) => self.relay + spot.line * self.kind.switches() + switch,
            None => {
                let AxisPosition { line, node } = spot;
                line / self.stride * (self.stride * self.size) + node * self.stride + line % self.stride
            }
        })
    }

    /// Returns the machine-wide number of a link from its line and its number within the line.
    fn link(&self, line: u32, within: u64) -> u64 {
        self.base + u64::from(line) * self.kind.links(self.size) + within
    }

    /// Returns the number of the first link of a line.
    pub fn first_link(&self, line: u32) -> u64 {
        self.link(line, 0)
    }

    /// Returns the neighbour in a direction and the link to it, on lines and rings.
    pub fn step(&self, spot: AxisPosition, direction: Direction) -> Option<(u64, AxisPosition)> {
        let (c, pairs) = (spot.node, self.kind.pairs(self.size));
        let wraps = matches!(self.kind, LineLinks::Ring { .. }) && pairs == self.size;
        let (next, pair) = match direction {
            _ if pairs == 0 => return None,
            Direction::Plus if c + 1 < self.size => (c + 1, c),
            Direction::Minus if c > 0 => (c - 1, c - 1),
            // The last pair joins the last coordinate with the first.
            Direction::Plus if wraps => (0, c),
            Direction::Minus if wraps => (self.size - 1, self.size - 1),
            _ => return None,
        };
        let within = u64::from(pair) * 2 + u64::from(direction == Direction::Minus);
        Some((self.link(spot.line, within), AxisPosition { node: next, ..spot }))
    }

    /// Returns the link to another coordinate of a complete axis.
    fn across(&self, spot: AxisPosition, to: u32) -> (u64, AxisPosition) {
        let (from, n) = (u64::from(spot.node), u64::from(self.size - 1));
        let within = from * n + u64::from(to) - u64::from(to > spot.node);
        (self.link(spot.line, within), AxisPosition { node: to, ..spot })
    }

    /// Returns the link from a node of a tree's line to its parent.
    fn up(&self, spot: AxisPosition, arity: u32, depth: u32) -> Option<(u64, AxisPosition)> {
        let (l, i) = level(arity, depth, spot.node);
        let above = (l < depth).then(|| node(arity, depth, l + 1, i / arity))?;
        Some((self.link(spot.line, u64::from(spot.node) * 2), AxisPosition { node: above, ..spot }))
    }

    /// Returns the link from a node's parent down to the node.
    fn down(&self, below: AxisPosition) -> (u64, AxisPosition) {
        (self.link(below.line, u64::from(below.node) * 2 + 1), below)
    }

    /// Returns all neighbours of a spot, with the links to them.
    pub fn neighbours(&self, spot: AxisPosition) -> Vec<(u64, AxisPosition)> {
        match self.kind {
            LineLinks::Listed => vec![],
            LineLinks::Line | LineLinks::Ring { .. } => {
                [Direction::Plus, Direction::Minus].into_iter().filter_map(|d| self.step(spot, d)).collect()
            }
            LineLinks::Full => {
                (0..self.size).filter(|c| *c != spot.node).map(|c| self.across(spot, c)).collect()
            }
            LineLinks::Tree { arity, depth } => {
                let (l, i) = level(arity, depth, spot.node);
                let child = |k: u32| AxisPosition { node: node(arity, depth, l - 1, i * arity + k), ..spot };
                let children = (0..if l > 0 { arity } else { 0 }).map(|k| self.down(child(k)));
                self.up(spot, arity, depth).into_iter().chain(children).collect()
            }
        }
    }

    /// Returns ends and direction of a link of this axis. Up a tree, and to the larger coordinate
    /// on a complete axis, is plus.
    pub fn ends(&self, link: u64) -> (AxisPosition, AxisPosition, Direction) {
        let per = self.kind.links(self.size).max(1);
        let (line, within) = (((link - self.base) / per) as u32, (link - self.base) % per);
        let spot = |node: u32| AxisPosition { line, node };
        let plus = |yes: bool| if yes { Direction::Plus } else { Direction::Minus };
        match self.kind {
            LineLinks::Line | LineLinks::Ring { .. } | LineLinks::Listed => {
                let low = (within / 2) as u32;
                let (low, high) = (spot(low), spot((low + 1) % self.size));
                if within % 2 == 0 { (low, high, Direction::Plus) } else { (high, low, Direction::Minus) }
            }
            LineLinks::Full => {
                let n = u64::from(self.size - 1);
                let (from, rest) = ((within / n) as u32, (within % n) as u32);
                let to = rest + u32::from(rest >= from);
                (spot(from), spot(to), plus(to > from))
            }
            LineLinks::Tree { arity, depth } => {
                let below = spot((within / 2) as u32);
                let above = self.up(below, arity, depth).map_or(below, |u| u.1);
                if within % 2 == 0 {
                    (below, above, Direction::Plus)
                } else {
                    (above, below, Direction::Minus)
                }
            }
        }
    }

    /// Returns the level of a link: in a tree that of its upper end, otherwise 1.
    pub fn level(&self, link: u64) -> u32 {
        let LineLinks::Tree { arity, depth } = self.kind else { return 1 };
        let within = (link - self.base) % self.kind.links(self.size).max(1);
        level(arity, depth, (within / 2) as u32).0 + 1
    }

    /// Returns the number of links of a level in one direction, within one line.
    pub fn one_way(&self, level: u32) -> u64 {
        match self.kind {
            LineLinks::Tree { arity, depth } => u64::from(arity.pow((depth + 1).saturating_sub(level))),
            _ => self.kind.links(self.size) / 2,
        }
    }

    /// Returns the number of levels of links.
    pub fn levels(&self) -> u32 {
        if let LineLinks::Tree { depth, .. } = self.kind { depth } else { 1 }
    }

    /// Returns the number of hops between two coordinates, and on lines and rings the direction of
    /// the route. Of two equally long directions around a ring it is the positive one. Around a
    /// wrap of size two with two links in each direction it is `hint`.
    pub fn along(&self, from: u32, to: u32, hint: Option<Direction>) -> (u32, Direction) {
        match self.kind {
            _ if from == to => (0, Direction::Plus),
            LineLinks::Listed => (0, Direction::Plus),
            LineLinks::Full => (1, Direction::Plus),
            LineLinks::Tree { arity, depth } => {
                let common = (1..=depth).find(|l| from / arity.pow(*l) == to / arity.pow(*l));
                (2 * common.unwrap_or(depth), Direction::Plus)
            }
            LineLinks::Line if to > from => (to - from, Direction::Plus),
            LineLinks::Line => (from - to, Direction::Minus),
            LineLinks::Ring { pairs } => {
                let forward = (to + self.size - from) % self.size;
                let backward = self.size - forward;
                match (self.size, pairs) {
                    (2, 2) => (1, hint.unwrap_or(Direction::Plus)),
                    // With a single link in each direction the only pair is (0, 1), so 1 -> 0 is
                    // its negative direction.
                    (2, 1) if from == 1 => (1, Direction::Minus),
                    _ if forward <= backward => (forward, Direction::Plus),
                    _ => (backward, Direction::Minus),
                }
            }
        }
    }

    /// Returns the next link of the route to a coordinate. None at its end.
    pub fn towards(
        &self,
        spot: AxisPosition,
        to: u32,
        hint: Option<Direction>,
    ) -> Option<(u64, AxisPosition)> {
        if spot.node == to {
            return None;
        }
        match self.kind {
            LineLinks::Listed => None,
            LineLinks::Line | LineLinks::Ring { .. } => self.step(spot, self.along(spot.node, to, hint).1),
            LineLinks::Full => Some(self.across(spot, to)),
            LineLinks::Tree { arity, depth } => {
                let (l, i) = level(arity, depth, spot.node);
                if l > 0 && to / arity.pow(l) == i {
                    let below = node(arity, depth, l - 1, to / arity.pow(l - 1));
                    return Some(self.down(AxisPosition { node: below, ..spot }));
                }
                self.up(spot, arity, depth)
            }
        }
    }

    /// Returns the largest number of hops between two coordinates.
    pub fn diameter(&self) -> u32 {
        match self.kind {
            LineLinks::Line => self.size - 1,
            LineLinks::Ring { .. } => self.size / 2,
            LineLinks::Full => u32::from(self.size > 1),
            LineLinks::Listed => 0,
            LineLinks::Tree { depth, .. } => 2 * depth * u32::from(self.size > 1),
        }
    }

    /// Returns the largest number of hops from a coordinate to another one.
    pub fn eccentricity(&self, coordinate: u32) -> u32 {
        match self.kind {
            LineLinks::Line => coordinate.max(self.size - 1 - coordinate),
            _ => self.diameter(),
        }
    }
}
