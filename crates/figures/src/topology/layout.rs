//! Topology layout: positions of nodes, in units of the distance between neighbours.

use super::{AxisDirection, AxisLayout, Form, Topology};
use crate::series::Fault;
use libm::{cos, hypot, sin, sqrt};
use std::f64::consts::PI;

/// A position.
pub type Position = (f64, f64);

/// The largest number of nodes in a single row. A longer row is folded.
const FOLD: u32 = 16;
/// The largest number of devices below switches that stand in a row. More devices stand in a ring.
const RING: usize = 24;
/// The number of steps of the force-directed layout.
const STEPS: u32 = 400;

/// Returns the positions of all nodes.
///
/// # Errors
/// Fails if the coordinates of a node do not fit the form.
pub fn places(t: &Topology) -> Result<Vec<Position>, Fault> {
    match &t.form {
        Form::Product(axes) => product(t, axes),
        Form::Layers => Ok(layers(t)),
        Form::Free => Ok(free(t)),
    }
}

/// Returns position `i` on a circle of `n` nodes with distance `pitch` between neighbours. The
/// first node is at the top, and the order is clockwise.
fn circle(i: u32, n: u32, pitch: f64) -> Position {
    if n < 2 {
        return (0.0, 0.0);
    }
    if n == 2 {
        return (f64::from(i) * pitch, 0.0);
    }
    let radius = pitch / (2.0 * sin(PI / f64::from(n)));
    let angle = 2.0 * PI * f64::from(i) / f64::from(n);
    (radius * sin(angle), -radius * cos(angle))
}

fn product(t: &Topology, axes: &[AxisLayout]) -> Result<Vec<Position>, Fault> {
    // The offset of every coordinate of every axis, innermost first, and the size of the block so
    // far.
    let mut offsets: Vec<Vec<Position>> = vec![];
    let (mut w, mut h) = (0.0f64, 0.0f64);
    let mut rows = 0;
    for axis in axes.iter().rev() {
        if axis.direction == AxisDirection::Behind {
            // Each plane is shifted by a fraction of a step to the right and up, so that no link
            // covers another.
            let part = 1.0 / f64::from(axis.size);
            offsets.push((0..axis.size).map(f64::from).map(|i| (0.8 * part * i, -0.62 * part * i)).collect());
            continue;
        }
        let gap = if w + h == 0.0 { 1.0 } else { 1.35 };
        let places: Vec<Position> = if axis.direction == AxisDirection::Circle {
            let pitch = if w + h == 0.0 { 1.0 } else { hypot(w, h) + gap };
            (0..axis.size).map(|i| circle(i, axis.size, pitch)).collect()
        } else if axes.len() == 1 && axis.size > FOLD {
            let side = sqrt(f64::from(axis.size) * 1.6).ceil() as u32;
            let fold = |i: u32| {
                let (row, column) = (i / side, i % side);
                (if row % 2 == 0 { column } else { side - 1 - column }, row)
            };
            (0..axis.size).map(|i| (f64::from(fold(i).0), f64::from(fold(i).1))).collect()
        } else {
            rows += 1;
            let right = rows % 2 == 1;
            let step = if right {
                if w == 0.0 { 1.0 } else { w + gap }
            } else if h == 0.0 {
                1.0
            } else {
                h + gap
            };
            let at = |i: u32| f64::from(i) * step;
            (0..axis.size).map(|i| if right { (at(i), 0.0) } else { (0.0, at(i)) }).collect()
        };
        let extent = |of: fn(&Position) -> f64| {
            let (lo, hi) = places.iter().map(of).fold((0.0f64, 0.0f64), |r, v| (r.0.min(v), r.1.max(v)));
            hi - lo
        };
        w += extent(|p| p.0);
        h += extent(|p| p.1);
        offsets.push(places);
    }
    offsets.reverse();
    let places: Result<Vec<Position>, Fault> = t
        .nodes
        .iter()
        .map(|node| {
            let wrong = || Fault::new(format!("{} is not a position on {} axes", node.name, axes.len()));
            if node.at.len() != axes.len() {
                return Err(wrong());
            }
            let mut place = (0.0, 0.0);
            for (at, offsets) in node.at.iter().zip(&offsets) {
                let (x, y) = offsets.get(*at as usize).ok_or_else(wrong)?;
                place = (place.0 + x, place.1 + y);
            }
            Ok(place)
        })
        .collect();
    Ok(spread(places?))
}

/// Scales the picture so that nine of ten nodes are at least 1 away from every other node.
fn spread(at: Vec<Position>) -> Vec<Position> {
    let n = at.len();
    let mut nearest: Vec<f64> = (0..n)
        .map(|i| {
            let apart = |j: usize| hypot(at[i].0 - at[j].0, at[i].1 - at[j].1);
            (0..n).filter(|j| *j != i).map(apart).fold(f64::INFINITY, f64::min)
        })
        .filter(|d| d.is_finite())
        .collect();
    nearest.sort_by(f64::total_cmp);
    let unit = nearest.get(nearest.len() / 10).copied().unwrap_or(1.0).max(1e-6);
    at.into_iter().map(|p| (p.0 / unit, p.1 / unit)).collect()
}

/// Rotates the picture so that its longest direction (the one of the largest variance) is
/// horizontal.
fn level(at: Vec<Position>) -> Vec<Position> {
    let n = at.len() as f64;
    let (mx, my) = (at.iter().map(|p| p.0).sum::<f64>() / n, at.iter().map(|p| p.1).sum::<f64>() / n);
    let sum = |of: fn(f64, f64) -> f64| at.iter().map(|p| of(p.0 - mx, p.1 - my)).sum::<f64>();
    let (xx, yy, xy) = (sum(|x, _| x * x), sum(|_, y| y * y), sum(|x, y| x * y));
    let angle = libm::atan2(2.0 * xy, xx - yy) / 2.0;
    let (c, s) = (cos(angle), sin(angle));
    at.iter().map(|p| ((p.0 - mx) * c + (p.1 - my) * s, (p.1 - my) * c - (p.0 - mx) * s)).collect()
}

/// Returns the neighbours of every node, regardless of the direction of links.
fn neighbours(t: &Topology) -> Vec<Vec<usize>> {
    let mut out = vec![vec![]; t.nodes.len()];
    for l in &t.links {
        out[l.from].push(l.to);
        out[l.to].push(l.from);
    }
    for list in &mut out {
        list.sort_unstable();
        list.dedup();
    }
    out
}

fn layers(t: &Topology) -> Vec<Position> {
    let near = neighbours(t);
    let top = t.nodes.iter().map(|n| n.level).max().unwrap_or(0);
    // The position along the row of a level: devices in their order, and a switch in the middle of
    // the nodes that it joins below.
    let mut along = vec![0.0; t.nodes.len()];
    let devices: Vec<usize> = (0..t.nodes.len()).filter(|i| t.nodes[*i].level == 0).collect();
    for (i, d) in devices.iter().enumerate() {
        along[*d] = i as f64;
    }
    for level in 1..=top {
        let row: Vec<usize> = (0..t.nodes.len()).filter(|i| t.nodes[*i].level == level).collect();
        for (k, i) in row.iter().enumerate() {
            let below: Vec<f64> =
                near[*i].iter().filter(|j| t.nodes[**j].level < level).map(|j| along[*j]).collect();
            along[*i] = match below.len() {
                0 => k as f64,
                n => below.iter().sum::<f64>() / n as f64,
            };
        }
        // Switches that join the same nodes stand side by side.
        for k in 1..row.len() {
            if along[row[k]] < along[row[k - 1]] + 1.0 {
                along[row[k]] = along[row[k - 1]] + 1.0;
            }
        }
    }
    if devices.len() <= RING {
        return (0..t.nodes.len()).map(|i| (along[i], -1.6 * f64::from(t.nodes[i].level))).collect();
    }
    let count = devices.len() as f64;
    let radius = count / (2.0 * PI);
    let alone = t.nodes.iter().filter(|n| n.level == top).count() == 1;
    let rings = f64::from(top) + if alone { 0.0 } else { 0.6 };
    (0..t.nodes.len())
        .map(|i| {
            let r = radius * (1.0 - f64::from(t.nodes[i].level) / rings.max(1.0));
            let angle = 2.0 * PI * along[i] / count;
            (r * sin(angle), -r * cos(angle))
        })
        .collect()
}

/// Computes the force-directed layout of Fruchterman and Reingold (1991): every two nodes push each
/// other away with 1/d, and links pull with d^2. The largest step decreases to zero. All nodes
/// begin on a circle.
fn free(t: &Topology) -> Vec<Position> {
    let n = t.nodes.len();
    let near = neighbours(t);
    let mut at: Vec<Position> = (0..n).map(|i| circle(i as u32, n as u32, 1.0)).collect();
    // Without this shift, nodes that are mirror images of each other would never separate.
    for (i, p) in at.iter_mut().enumerate() {
        p.0 += 0.01 * ((i * 7 % 13) as f64 - 6.0);
    }
    let begin = 0.15 * sqrt(n as f64) + 0.5;
    for step in 0..STEPS {
        let most = begin * (1.0 - f64::from(step) / f64::from(STEPS));
        let mut moves = vec![(0.0, 0.0); n];
        for i in 0..n {
            for j in 0..i {
                let (dx, dy) = (at[i].0 - at[j].0, at[i].1 - at[j].1);
                let square = (dx * dx + dy * dy).max(1e-4);
                let (fx, fy) = (dx / square, dy / square);
                moves[i] = (moves[i].0 + fx, moves[i].1 + fy);
                moves[j] = (moves[j].0 - fx, moves[j].1 - fy);
            }
            for j in &near[i] {
                let (dx, dy) = (at[*j].0 - at[i].0, at[*j].1 - at[i].1);
                let d = hypot(dx, dy);
                moves[i] = (moves[i].0 + dx * d * 0.5, moves[i].1 + dy * d * 0.5);
            }
        }
        for (p, m) in at.iter().zip(&mut moves) {
            // A weak force to the middle keeps components that are not connected from drifting
            // away.
            *m = (m.0 - 0.05 * p.0, m.1 - 0.05 * p.1);
        }
        for (p, (dx, dy)) in at.iter_mut().zip(moves) {
            let d = hypot(dx, dy).max(1e-9);
            let part = d.min(most) / d;
            *p = (p.0 + dx * part, p.1 + dy * part);
        }
    }
    push_apart(spread(level(at)))
}

/// Pushes apart nodes that are closer to each other than 0.9, until no such nodes are left, in at
/// most [`STEPS`] rounds.
fn push_apart(mut at: Vec<Position>) -> Vec<Position> {
    for _ in 0..STEPS {
        let mut near = false;
        for i in 0..at.len() {
            for j in 0..i {
                let (dx, dy) = (at[i].0 - at[j].0, at[i].1 - at[j].1);
                let d = hypot(dx, dy);
                if d < 0.9 {
                    near = true;
                    let (ux, uy) = if d < 1e-9 { (1.0, 0.0) } else { (dx / d, dy / d) };
                    let by = (0.95 - d) / 2.0;
                    at[i] = (at[i].0 + ux * by, at[i].1 + uy * by);
                    at[j] = (at[j].0 - ux * by, at[j].1 - uy * by);
                }
            }
        }
        if !near {
            break;
        }
    }
    at
}
