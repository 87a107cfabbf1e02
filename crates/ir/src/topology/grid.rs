//! Dense numbers of links, computed and never stored.
//!
//! Owns the arithmetic between (device, axis, direction) and link numbers of grids (ring, torus, mesh) and of complete
//! graphs. A grid's links are numbered axis by axis, line by line along the axis, pair by pair of neighbours, the
//! positive direction before the negative one; a complete graph's by sender, then receiver.

use super::{DeviceId, Direction, LinkId};

/// One axis of a grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Axis {
    /// Coordinates along it.
    pub size: u32,
    /// Whether the last one is linked with the first.
    pub wrap: bool,
    /// Distance of neighbours in the linear order of devices.
    pub stride: u32,
    /// Linked pairs of neighbours in a line along it.
    pub pairs: u32,
    /// Number of its first link.
    pub base: u32,
}

/// How devices are linked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wiring {
    /// Lines or rings along each axis.
    Grid(Vec<Axis>),
    /// Everybody with everybody, n devices.
    Full(u32),
}

impl Axis {
    fn coordinate(&self, device: u32) -> u32 {
        device / self.stride % self.size
    }

    /// The line of a device among the lines along this axis.
    fn line(&self, device: u32) -> u32 {
        device / (self.stride * self.size) * self.stride + device % self.stride
    }

    /// The device at a position of a line.
    fn at(&self, line: u32, position: u32) -> u32 {
        line / self.stride * (self.stride * self.size) + position * self.stride + line % self.stride
    }

    /// The neighbour on that side and the link to it.
    pub fn step(&self, device: u32, direction: Direction) -> Option<(LinkId, DeviceId)> {
        let c = self.coordinate(device);
        let (next, pair) = match direction {
            Direction::Plus if c + 1 < self.size => (c + 1, c),
            Direction::Minus if c > 0 => (c - 1, c - 1),
            // Around the wrap: the last pair joins the last coordinate with the first.
            Direction::Plus if self.wrap && self.pairs == self.size => (0, c),
            Direction::Minus if self.wrap && self.pairs == self.size => (self.size - 1, self.size - 1),
            _ => return None,
        };
        let line = self.line(device);
        let link = self.base + (line * self.pairs + pair) * 2 + u32::from(direction == Direction::Minus);
        Some((LinkId(link), DeviceId(self.at(line, next))))
    }
}

impl Wiring {
    /// Lines (`wrap` false) or rings along axes of these sizes, with `wrap2` links each way where a ring has two.
    /// `sizes` has a product of at most 65,536.
    pub fn grid(sizes: &[u32], wrap: bool, wrap2: u8) -> Wiring {
        let devices: u32 = sizes.iter().product();
        let (mut stride, mut base) = (devices, 0);
        let mut axes = vec![];
        for &size in sizes {
            stride /= size;
            let pairs = match (wrap, size) {
                (_, 1) => 0,
                (true, 2) => u32::from(wrap2),
                (true, _) => size,
                (false, _) => size - 1,
            };
            axes.push(Axis { size, wrap, stride, pairs, base });
            base += devices / size * pairs * 2;
        }
        Wiring::Grid(axes)
    }

    /// Number of directed links.
    pub fn links(&self) -> u64 {
        match self {
            Wiring::Full(n) => u64::from(*n) * u64::from(n - 1),
            Wiring::Grid(axes) => {
                axes.iter().map(|a| u64::from(self.devices() / a.size) * u64::from(a.pairs) * 2).sum()
            }
        }
    }

    fn devices(&self) -> u32 {
        match self {
            Wiring::Full(n) => *n,
            Wiring::Grid(axes) => axes.iter().map(|a| a.size).product(),
        }
    }

    /// Ends, axis and direction of a link that exists.
    pub fn ends(&self, link: LinkId) -> (DeviceId, DeviceId, usize, Direction) {
        match self {
            Wiring::Full(n) => {
                let (from, rest) = (link.0 / (n - 1), link.0 % (n - 1));
                let to = rest + u32::from(rest >= from);
                let direction = if to > from { Direction::Plus } else { Direction::Minus };
                (DeviceId(from), DeviceId(to), 0, direction)
            }
            Wiring::Grid(axes) => {
                let number = axes.iter().rposition(|a| a.pairs > 0 && a.base <= link.0).unwrap_or(0);
                let axis = &axes[number];
                let rest = link.0 - axis.base;
                let (pair, line) = (rest / 2 % axis.pairs, rest / 2 / axis.pairs);
                let low = DeviceId(axis.at(line, pair));
                let high = DeviceId(axis.at(line, (pair + 1) % axis.size));
                if rest.is_multiple_of(2) {
                    (low, high, number, Direction::Plus)
                } else {
                    (high, low, number, Direction::Minus)
                }
            }
        }
    }
}
