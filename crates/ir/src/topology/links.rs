//! Rates of single links: which links are meant, and their text.
//!
//! Owns the selectors of a machine's text (`(0,1)->(0,2)`, `+x`, `x`), what they select on a machine, and the printing
//! of own rates: an axis whose links agree is one entry. Storing rates is [`super::Topology`]'s.

use std::collections::BTreeMap;

use kbc_diag::{Diagnostic, Spanned};

use super::{AXIS_NAMES, DeviceId, Direction, LinkId, LinkRate, Topology};

/// Links that a rate is given to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkSet {
    /// All links along an axis, or those of one direction.
    Axis {
        /// The axis by position.
        axis: usize,
        /// One direction, or both.
        direction: Option<Direction>,
    },
    /// Those from one device to another: one, or two around a doubled wrap of size two.
    Between {
        /// Coordinates of the sender.
        from: Vec<u32>,
        /// Coordinates of the receiver.
        to: Vec<u32>,
        /// Which of two.
        way: Option<(usize, Direction)>,
    },
}

/// A rate of its own for some links.
#[derive(Clone, PartialEq, Debug)]
pub struct OwnLink {
    /// The links and where they are written.
    pub set: Spanned<LinkSet>,
    /// Their rate.
    pub rate: LinkRate,
}

/// Links that may have rates of their own.
pub const MAX_OWN_LINKS: u64 = 1 << 20;

fn sign(direction: Direction) -> char {
    if direction == Direction::Plus { '+' } else { '-' }
}

impl Topology {
    /// The links that a selector means, in order of their numbers.
    ///
    /// # Errors
    /// E447 if there are none, or more than [`MAX_OWN_LINKS`].
    pub fn select(&self, set: &Spanned<LinkSet>) -> Result<Vec<LinkId>, Diagnostic> {
        let fault = |title: String, help: String| {
            let d = Diagnostic::error("E447", title).help(help);
            if set.span.is_none() { d } else { d.primary(set.span, "these links") }
        };
        match &set.node {
            LinkSet::Axis { axis, direction } => {
                let name = AXIS_NAMES.get(*axis).copied().unwrap_or("?");
                if self.pairs(*axis) == 0 {
                    let linked: Vec<&str> = (0..self.axes().len())
                        .filter(|&a| self.pairs(a) > 0)
                        .map(|a| AXIS_NAMES[a])
                        .collect();
                    let help = match &linked[..] {
                        [] => "its links are named by their ends: `(0)->(1)`".to_owned(),
                        some => format!("its axes with links are {}", some.join(", ")),
                    };
                    return Err(fault(format!("{} has no links along {name}", self.shape()), help));
                }
                let lines = self.device_count() as u64 / u64::from(self.shape().sizes()[*axis]);
                if lines * u64::from(self.pairs(*axis)) * 2 > MAX_OWN_LINKS {
                    let title = format!("{} has more than {MAX_OWN_LINKS} links along {name}", self.shape());
                    return Err(fault(title, "give this rate to all links by `link`".into()));
                }
                let along = self.links().filter(|l| l.axis == *axis);
                Ok(along.filter(|l| direction.is_none_or(|d| d == l.direction)).map(|l| l.id).collect())
            }
            LinkSet::Between { from, to, way } => {
                let end = |c: &Vec<u32>| {
                    self.device(c).ok_or_else(|| {
                        let sizes: Vec<String> = self.axes().map(|(n, k)| format!("{n} of {k}")).collect();
                        let list: Vec<String> = c.iter().map(u32::to_string).collect();
                        let title = format!("{} has no device ({})", self.shape(), list.join(","));
                        fault(title, format!("its coordinates are {}", sizes.join(", ")))
                    })
                };
                let (a, b) = (end(from)?, end(to)?);
                let mut links = self.links_between(a, b);
                if links.is_empty() {
                    let near: Vec<String> =
                        self.links_from(a).iter().take(8).map(|l| self.name(l.to)).collect();
                    let title = format!("{} has no link {}->{}", self.shape(), self.name(a), self.name(b));
                    return Err(fault(title, format!("links lead to {}", near.join(", "))));
                }
                if let Some((axis, direction)) = way {
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
                        return Err(fault(title, "leave the direction out".into()));
                    }
                }
                Ok(links.iter().map(|l| l.id).collect())
            }
        }
    }

    /// Gives links rates of their own, in order.
    ///
    /// # Errors
    /// Those of [`Topology::select`] and [`Topology::set_rate`].
    pub fn set_links(&mut self, links: &[OwnLink]) -> Result<(), Diagnostic> {
        for own in links {
            for id in self.select(&own.set)? {
                self.set_rate(id, own.rate)?;
            }
        }
        Ok(())
    }

    /// Rates of single links as a machine's text has them, `link +x: 25 GB/s, 500 ns`.
    pub(super) fn own_parts(&self) -> Vec<String> {
        let mut left: BTreeMap<LinkId, LinkRate> = self.own_rates().collect();
        let mut out = vec![];
        for (axis, (name, size)) in self.axes().enumerate() {
            for direction in [Direction::Plus, Direction::Minus] {
                let along: Vec<LinkId> = match left.len() {
                    0 => vec![],
                    _ => left
                        .keys()
                        .copied()
                        .filter(|&id| {
                            self.link(id).is_some_and(|l| (l.axis, l.direction) == (axis, direction))
                        })
                        .collect(),
                };
                let lines = self.device_count() as u64 / u64::from(size);
                // A single link reads better by its ends.
                if along.len() < 2 || along.len() as u64 != lines * u64::from(self.pairs(axis)) {
                    continue;
                }
                // All have one, so the commonest can be said of all and the others after it.
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

    /// Whether the machine is the same after moving every device one coordinate further along an axis, around the
    /// wrap: links, rates and paces. False along a line, and for an axis that does not exist.
    pub fn turns(&self, axis: usize) -> bool {
        let Some(&size) = self.shape().sizes().get(axis) else { return false };
        let wraps =
            size == 1 || self.is_complete() || self.pairs(axis) == size || (size == 2 && self.wraps(axis));
        let moved = |d: DeviceId| {
            let mut c = self.coordinates(d);
            c[axis] = (c[axis] + 1) % size;
            self.device(&c)
        };
        wraps
            && self.own_rates().all(|(id, rate)| {
                let Some(link) = self.link(id) else { return false };
                let (Some(from), Some(to)) = (moved(link.from), moved(link.to)) else { return false };
                let images = self.links_between(from, to);
                // Of two links the one of the same direction; a single one has no other.
                let image = images
                    .iter()
                    .find(|l| (l.axis, l.direction) == (link.axis, link.direction))
                    .or_else(|| images.first());
                image.is_some_and(|l| l.rate == rate)
            })
            && self.paces().all(|(d, pace)| moved(d).is_some_and(|m| self.pace(m) == pace))
    }
}
