//! Cuts that are always evaluated: around every rank, and across the axes of a grid.
//!
//! This module owns link capacities in closed form: degrees and planes of links, corrected by the
//! links that have rates of their own. No link is enumerated. [`super::search`] finds the best of
//! all cuts by flows.

use std::collections::BTreeMap;

use super::demand::{Demand, SideTotals};
use crate::topology::{DeviceId, Direction, Topology};

/// Length of an axis up to which all its intervals are evaluated if link rates differ (16 if all
/// links are equal). For longer axes, only the intervals that begin at 0 or have half the length
/// are evaluated.
const ALL_INTERVALS: u32 = 1024;
/// Length of an axis up to which bytes between pairs of ranks are summed over its coordinates.
const MAX_PAIR_AXIS: u32 = 1024;

/// One side of a cut: the side that the bytes must leave.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum SendingSide {
    /// One rank.
    Rank(usize),
    /// All ranks except one.
    AllBut(usize),
    /// The ranks at coordinates `from..to` of an axis.
    Interval { axis: usize, from: u32, to: u32 },
    /// All ranks except those at coordinates `from..to` of an axis.
    Outside { axis: usize, from: u32, to: u32 },
    /// A list of ranks.
    Ranks(Vec<usize>),
}

/// A cut and the time that it needs.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Cut {
    pub ns: f64,
    pub inside: SendingSide,
}

/// The cut with the longest time so far. Of equal cuts, the first is kept.
#[derive(Default)]
pub(super) struct Best(pub Option<Cut>);

impl Best {
    /// Offers a cut over which `bytes` must go at `rate` bytes per second. Ignored if `bytes` is 0.
    pub fn offer(&mut self, bytes: f64, rate: f64, inside: impl FnOnce() -> SendingSide) {
        let ns = bytes / rate * 1e9;
        // Times that differ in the last bits only are equal, and the first is kept.
        if bytes > 0.0 && self.0.as_ref().is_none_or(|b| ns > b.ns * (1.0 + 1e-12)) {
            self.0 = Some(Cut { ns, inside: inside() });
        }
    }
}

/// Capacities of a machine's devices and of the planes between neighbouring coordinates, in bytes
/// per second.
pub(super) struct Capacity<'t> {
    topo: &'t Topology,
    /// Bandwidth of a link without a rate of its own.
    common: f64,
    /// Correction of a device's capacities, out and in, for links with rates of their own.
    own: BTreeMap<DeviceId, (f64, f64)>,
    /// For each axis and each pair of neighbouring coordinates: capacity in plus and in minus
    /// direction.
    planes: Vec<Vec<(f64, f64)>>,
}

impl<'t> Capacity<'t> {
    pub fn of(topo: &'t Topology) -> Capacity<'t> {
        // In a list of links every link has its own rate.
        let common = if topo.is_listed() { 0.0 } else { topo.settings().link().bandwidth };
        let devices = topo.device_count() as f64;
        let mut planes: Vec<Vec<(f64, f64)>> = topo
            .axes()
            .enumerate()
            .map(|(axis, (_, size))| {
                let rate = common * devices / f64::from(size);
                vec![(rate, rate); topo.pairs(axis) as usize]
            })
            .collect();
        let mut own: BTreeMap<DeviceId, (f64, f64)> = BTreeMap::new();
        for (id, rate) in topo.own_rates() {
            let Some(link) = topo.link(id) else { continue };
            let change = rate.bandwidth - common;
            own.entry(link.from).or_default().0 += change;
            own.entry(link.to).or_default().1 += change;
            let (low, plus) = match link.direction {
                Direction::Plus => (link.from, true),
                Direction::Minus => (link.to, false),
            };
            let pair = topo.coordinate(low, link.axis) as usize;
            if let Some(plane) = planes.get_mut(link.axis).and_then(|p| p.get_mut(pair)) {
                *if plus { &mut plane.0 } else { &mut plane.1 } += change;
            }
        }
        Capacity { topo, common, own, planes }
    }

    /// Returns the capacity of the links that leave a device.
    pub fn out(&self, device: DeviceId) -> f64 {
        let common = f64::from(self.topo.degree(device)) * self.common;
        common + self.own.get(&device).map_or(0.0, |c| c.0)
    }

    /// Returns the capacity of the links that enter a device.
    pub fn into(&self, device: DeviceId) -> f64 {
        let common = f64::from(self.topo.degree(device)) * self.common;
        common + self.own.get(&device).map_or(0.0, |c| c.1)
    }

    /// Returns the capacities of the links that leave and that enter the coordinates `from..to` of
    /// an axis.
    pub fn interval(&self, axis: usize, from: u32, to: u32) -> (f64, f64) {
        let planes = &self.planes[axis];
        let size = self.topo.size(axis);
        let high = planes.get(to as usize - 1);
        let low = planes.get(if from == 0 { size as usize - 1 } else { from as usize - 1 });
        let (hp, hm) = high.copied().unwrap_or_default();
        let (lp, lm) = low.copied().unwrap_or_default();
        (hp + lm, hm + lp)
    }

    /// Returns both directions of each plane along an axis.
    pub fn planes(&self, axis: usize) -> &[(f64, f64)] {
        &self.planes[axis]
    }
}

/// Checks whether [`offer`] evaluates every cut that can be the best. On a cycle or a path the best
/// cut is an interval, because both the bytes that must cross and the capacity add up over the
/// intervals of a set.
pub(super) fn complete(topo: &Topology) -> bool {
    topo.only_axis().is_some_and(|a| every_interval(topo, topo.size(a)))
}

fn every_interval(topo: &Topology, size: u32) -> bool {
    size <= 16 || size <= ALL_INTERVALS && !topo.has_uniform_links()
}

/// Offers the cuts around every rank and across every axis to `best`.
pub(super) fn offer(topo: &Topology, demand: &Demand, capacity: &Capacity, best: &mut Best) {
    let group = &demand.problem.group;
    let p = group.len();
    let mut row = vec![0u128; p];
    let mut column = vec![0u128; p];
    if let Some(m) = demand.pairs() {
        for (i, &b) in m.iter().enumerate().filter(|(i, _)| i / p != i % p) {
            row[i / p] += u128::from(b);
            column[i % p] += u128::from(b);
        }
    }
    // The root comes first, because it is the device to name among equal cuts.
    let root = demand.problem.root;
    for r in root.into_iter().chain((0..p).filter(|&r| Some(r) != root)) {
        let (device, side) = (group[r], demand.one(r));
        let (out, into) = match demand.pairs() {
            Some(_) => (row[r] as f64, column[r] as f64),
            None => (demand.out(side), demand.out(demand.rest(side))),
        };
        best.offer(out, capacity.out(device), || SendingSide::Rank(r));
        best.offer(into, capacity.into(device), || SendingSide::AllBut(r));
    }
    for (axis, (_, size)) in topo.axes().enumerate() {
        if topo.pairs(axis) > 0 {
            match demand.pairs() {
                None => across(topo, demand, capacity, axis, size, best),
                Some(m) if size <= MAX_PAIR_AXIS => across_pairs(topo, demand, m, capacity, axis, size, best),
                Some(_) => {}
            }
        }
    }
}

/// Returns the intervals of an axis that are evaluated.
fn intervals(topo: &Topology, size: u32) -> impl Iterator<Item = (u32, u32)> {
    let all = every_interval(topo, size);
    let every = (0..if all { size } else { 0 }).flat_map(move |i| (i + 1..=size).map(move |j| (i, j)));
    let half = size / 2;
    let few = (1..if all { 0 } else { size }).map(|j| (0, j));
    let halves = (1..if all { 0 } else { size - half + 1 }).map(move |i| (i, i + half));
    every.chain(few).chain(halves).filter(move |&(i, j)| j - i < size)
}

fn across(topo: &Topology, demand: &Demand, capacity: &Capacity, axis: usize, size: u32, best: &mut Best) {
    let mut sums = vec![SideTotals::default(); size as usize + 1];
    for (r, &device) in demand.problem.group.iter().enumerate() {
        let (at, one) = (&mut sums[topo.coordinate(device, axis) as usize + 1], demand.one(r));
        at.ranks += one.ranks;
        at.weight += one.weight;
        at.root |= one.root;
    }
    let root = sums.iter().position(|s| s.root).map(|c| c as u32 - 1);
    for c in 0..size as usize {
        sums[c + 1].ranks += sums[c].ranks;
        sums[c + 1].weight += sums[c].weight;
    }
    for (from, to) in intervals(topo, size) {
        let (a, b) = (sums[from as usize], sums[to as usize]);
        let root = root.is_some_and(|c| (from..to).contains(&c));
        let side = SideTotals { ranks: b.ranks - a.ranks, weight: b.weight - a.weight, root };
        let (out, into) = capacity.interval(axis, from, to);
        best.offer(demand.out(side), out, || SendingSide::Interval { axis, from, to });
        best.offer(demand.out(demand.rest(side)), into, || SendingSide::Outside { axis, from, to });
    }
}

fn across_pairs(
    topo: &Topology,
    demand: &Demand,
    pairs: &[u64],
    capacity: &Capacity,
    axis: usize,
    size: u32,
    best: &mut Best,
) {
    // sums[i][j]: bytes from coordinates below i to coordinates below j.
    let n = size as usize + 1;
    let group = &demand.problem.group;
    let coordinate: Vec<usize> = group.iter().map(|&d| topo.coordinate(d, axis) as usize).collect();
    let mut sums = vec![0u128; n * n];
    for (i, &b) in pairs.iter().enumerate() {
        let (s, d) = (coordinate[i / group.len()], coordinate[i % group.len()]);
        sums[(s + 1) * n + d + 1] += u128::from(b);
    }
    for i in 1..n {
        for j in 1..n {
            sums[i * n + j] += sums[(i - 1) * n + j] + sums[i * n + j - 1] - sums[(i - 1) * n + j - 1];
        }
    }
    let part = |r: (usize, usize), c: (usize, usize)| {
        sums[r.1 * n + c.1] + sums[r.0 * n + c.0] - sums[r.0 * n + c.1] - sums[r.1 * n + c.0]
    };
    let all = (0, n - 1);
    for (from, to) in intervals(topo, size) {
        let arc = (from as usize, to as usize);
        let (out, into) = capacity.interval(axis, from, to);
        let inner = part(arc, arc);
        best.offer((part(arc, all) - inner) as f64, out, || SendingSide::Interval { axis, from, to });
        best.offer((part(all, arc) - inner) as f64, into, || SendingSide::Outside { axis, from, to });
    }
}
