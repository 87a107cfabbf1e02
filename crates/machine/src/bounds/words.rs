//! Text of a bandwidth row: its bottleneck in words, and its partition as devices.
//!
//! This module owns the naming of a bottleneck: a link if it is the only one, a device, a cut with
//! the sending side first, or a partition. Long lists of devices are shortened in the text; the
//! bound has the complete partition.

use std::collections::BTreeSet;

use super::cuts::SendingSide;
use super::demand::Demand;
use super::{Row, Split};
use crate::topology::{DeviceId, Direction, LinkId, Topology};

/// Number of devices up to which a set is listed by name.
const LISTED: usize = 8;
/// Number of devices up to which the links that leave a set are counted.
const COUNTED: usize = 1024;

/// Returns the parts of a row as devices. Of a cut, the sending side comes first.
pub(super) fn parts(topo: &Topology, demand: &Demand, split: &Split) -> Vec<Vec<DeviceId>> {
    let group = &demand.problem.group;
    let named = |ranks: &[usize]| ranks.iter().map(|&r| group[r]).collect::<Vec<_>>();
    match split {
        Split::Singletons => group.iter().map(|&d| vec![d]).collect(),
        Split::Parts(parts) => parts.iter().map(|p| named(p)).collect(),
        Split::Cut(inside) => {
            let has: Box<dyn Fn(usize) -> bool> = match inside {
                SendingSide::Rank(r) => Box::new(move |x| x == *r),
                SendingSide::AllBut(r) => Box::new(move |x| x != *r),
                SendingSide::Interval { axis, from, to } => {
                    Box::new(move |x| (*from..*to).contains(&topo.coordinate(group[x], *axis)))
                }
                SendingSide::Outside { axis, from, to } => {
                    Box::new(move |x| !(*from..*to).contains(&topo.coordinate(group[x], *axis)))
                }
                SendingSide::Ranks(ranks) => {
                    let set: BTreeSet<usize> = ranks.iter().copied().collect();
                    Box::new(move |x| set.contains(&x))
                }
            };
            let (inner, outer): (Vec<usize>, Vec<usize>) = (0..group.len()).partition(|&r| has(r));
            vec![named(&inner), named(&outer)]
        }
    }
}

/// Returns the text of a row's bottleneck.
pub(super) fn words(topo: &Topology, demand: &Demand, row: &Row) -> String {
    let group = &demand.problem.group;
    let Split::Cut(inside) = &row.split else {
        return match &row.split {
            Split::Parts(parts) => partition(topo, &self::parts(topo, demand, &row.split), parts.len()),
            _ => "traffic of every single rank".to_owned(),
        };
    };
    match inside {
        SendingSide::Rank(r) => match topo.links_from(group[*r])[..] {
            [only] => format!("link {}", topo.link_name(only.id)),
            _ => format!("links out of {}", topo.name(group[*r])),
        },
        SendingSide::AllBut(r) => match topo.links_into(group[*r])[..] {
            [only] => format!("link {}", topo.link_name(only.id)),
            _ => format!("links into {}", topo.name(group[*r])),
        },
        SendingSide::Interval { axis, from, to } => interval(topo, *axis, *from, *to, true),
        SendingSide::Outside { axis, from, to } => interval(topo, *axis, *from, *to, false),
        SendingSide::Ranks(_) => {
            let parts = parts(topo, demand, &row.split);
            if let Some(link) = single(topo, demand, &parts[0]) {
                return format!("link {}", topo.link_name(link));
            }
            match (&parts[0][..], &parts[1][..]) {
                ([one], _) => format!("links out of {}", topo.name(*one)),
                (_, [one]) => format!("links into {}", topo.name(*one)),
                (a, b) => format!("cut {}|{}", set(topo, a), set(topo, b)),
            }
        }
    }
}

/// Returns the only link that leaves a set. None if there are several, or if some device is not a
/// rank.
fn single(topo: &Topology, demand: &Demand, inside: &[DeviceId]) -> Option<LinkId> {
    if demand.ranks() != topo.node_count() || demand.ranks() > COUNTED {
        return None;
    }
    let set: BTreeSet<DeviceId> = inside.iter().copied().collect();
    let mut leaving = inside.iter().flat_map(|&d| topo.links_from(d)).filter(|l| !set.contains(&l.to));
    let first = leaving.next()?;
    if leaving.next().is_some() { None } else { Some(first.id) }
}

fn interval(topo: &Topology, axis: usize, from: u32, to: u32, inner_sends: bool) -> String {
    let size = topo.size(axis);
    if let Some(link) = plane(topo, axis, from, to, inner_sends) {
        return format!("link {}", topo.link_name(link));
    }
    let name = topo.axes().nth(axis).map_or("", |a| a.0);
    let inner = format!("{name} {from}..{to}");
    let outer = match (from, to) {
        (0, _) => format!("{name} {to}..{size}"),
        (_, t) if t == size => format!("{name} 0..{from}"),
        _ => format!("all but {inner}"),
    };
    let (sender, receiver) = if inner_sends { (inner, outer) } else { (outer, inner) };
    format!("cut {{{sender}}}|{{{receiver}}}")
}

/// Returns the only link over the boundary of an interval in the given direction.
fn plane(topo: &Topology, axis: usize, from: u32, to: u32, outwards: bool) -> Option<LinkId> {
    if topo.device_count() as u32 != topo.size(axis) {
        return None;
    }
    // All other axes have size 1, so a coordinate is a device number.
    let inside = |d: DeviceId| (from..to).contains(&topo.coordinate(d, axis));
    let ends: BTreeSet<DeviceId> = [DeviceId(from), DeviceId(to - 1)].into();
    let mut crossing: Vec<LinkId> = vec![];
    for link in ends.into_iter().flat_map(|d| topo.links_from(d)).filter(|l| !inside(l.to)) {
        if outwards {
            crossing.push(link.id);
        } else {
            let flipped = if link.direction == Direction::Plus { Direction::Minus } else { Direction::Plus };
            let back = topo.links_between(link.to, link.from);
            crossing.extend(back.iter().find(|l| l.direction == flipped).map(|l| l.id));
        }
    }
    match crossing[..] {
        [only] => Some(only),
        _ => None,
    }
}

fn set(topo: &Topology, devices: &[DeviceId]) -> String {
    if devices.len() > LISTED {
        return format!("{{{} devices}}", devices.len());
    }
    let names: Vec<String> = devices.iter().map(|&d| topo.name(d)).collect();
    format!("{{{}}}", names.join(", "))
}

fn partition(topo: &Topology, parts: &[Vec<DeviceId>], count: usize) -> String {
    if parts.iter().map(Vec::len).sum::<usize>() <= 2 * LISTED {
        let sets: Vec<String> = parts.iter().map(|p| set(topo, p)).collect();
        return format!("partition {}", sets.join("|"));
    }
    if let Some(size) = parts.first().map(Vec::len).filter(|n| *n > 1 && parts.iter().all(|p| p.len() == *n))
    {
        return format!("partition into {count} parts of {size} devices");
    }
    let mut large: Vec<&Vec<DeviceId>> = parts.iter().filter(|p| p.len() > 1).collect();
    large.sort_by_key(|p| std::cmp::Reverse(p.len()));
    let listed: Vec<String> = large.iter().take(LISTED).map(|p| set(topo, p)).collect();
    let more = if large.len() > LISTED { ", .." } else { "" };
    format!("partition into {count} parts: singletons and {}{more}", listed.join(", "))
}
