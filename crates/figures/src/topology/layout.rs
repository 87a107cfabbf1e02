//! Where nodes stand, in units of the distance between neighbours.

use super::{Axis, Form, Topology, Way};
use crate::series::Fault;
use libm::{cos, hypot, sin, sqrt};
use std::f64::consts::PI;

/// A place.
pub type Point = (f64, f64);

/// Nodes of one line, from which on it is folded.
const FOLD: u32 = 16;
/// Devices below switches, from which on they stand in a ring.
const RING: usize = 24;
/// Steps of the layout by forces.
const STEPS: u32 = 400;

/// Places of all nodes.
///
/// # Errors
/// Coordinates that are not those of the form.
pub fn places(t: &Topology) -> Result<Vec<Point>, Fault> {
    match &t.form {
        Form::Product(axes) => product(t, axes),
        Form::Layers => Ok(layers(t)),
        Form::Free => Ok(free(t)),
    }
}

/// A point of a circle with so many nodes at distance `pitch`, the first at the top, clockwise.
fn circle(i: u32, n: u32, pitch: f64) -> Point {
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

fn product(t: &Topology, axes: &[Axis]) -> Result<Vec<Point>, Fault> {
    // Offsets of every coordinate of every axis, innermost first, and how large the block so far is.
    let mut offsets: Vec<Vec<Point>> = vec![];
    let (mut w, mut h) = (0.0f64, 0.0f64);
    let mut rows = 0;
    for axis in axes.iter().rev() {
        if axis.way == Way::Behind {
            // Planes behind each other, each a part of a step to the right and up: no link lies over another.
            let part = 1.0 / f64::from(axis.size);
            offsets.push((0..axis.size).map(f64::from).map(|i| (0.8 * part * i, -0.62 * part * i)).collect());
            continue;
        }
        let gap = if w + h == 0.0 { 1.0 } else { 1.35 };
        let places: Vec<Point> = if axis.way == Way::Circle {
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
        let extent = |of: fn(&Point) -> f64| {
            let (lo, hi) = places.iter().map(of).fold((0.0f64, 0.0f64), |r, v| (r.0.min(v), r.1.max(v)));
            hi - lo
        };
        w += extent(|p| p.0);
        h += extent(|p| p.1);
        offsets.push(places);
    }
    offsets.reverse();
    let places: Result<Vec<Point>, Fault> = t
        .nodes
        .iter()
        .map(|node| {
            let wrong = || Fault::new(format!("{} is no place on {} axes", node.name, axes.len()));
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

/// The same picture, in which nine nodes of ten are at least 1 away from every other.
fn spread(at: Vec<Point>) -> Vec<Point> {
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

/// Turned so that it is wider than high: its longest direction (of the largest variance) lies level.
fn level(at: Vec<Point>) -> Vec<Point> {
    let n = at.len() as f64;
    let (mx, my) = (at.iter().map(|p| p.0).sum::<f64>() / n, at.iter().map(|p| p.1).sum::<f64>() / n);
    let sum = |of: fn(f64, f64) -> f64| at.iter().map(|p| of(p.0 - mx, p.1 - my)).sum::<f64>();
    let (xx, yy, xy) = (sum(|x, _| x * x), sum(|_, y| y * y), sum(|x, y| x * y));
    let angle = libm::atan2(2.0 * xy, xx - yy) / 2.0;
    let (c, s) = (cos(angle), sin(angle));
    at.iter().map(|p| ((p.0 - mx) * c + (p.1 - my) * s, (p.1 - my) * c - (p.0 - mx) * s)).collect()
}

/// Neighbours of every node, without directions.
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

fn layers(t: &Topology) -> Vec<Point> {
    let near = neighbours(t);
    let top = t.nodes.iter().map(|n| n.level).max().unwrap_or(0);
    // A place along the row of its level: devices in their order, a switch in the middle of what it joins below.
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

/// Fruchterman and Reingold's forces: all nodes push each other away by 1/d, links pull by d^2, and the longest step
/// falls to nothing. It begins with all nodes on a circle.
fn free(t: &Topology) -> Vec<Point> {
    let n = t.nodes.len();
    let near = neighbours(t);
    let mut at: Vec<Point> = (0..n).map(|i| circle(i as u32, n as u32, 1.0)).collect();
    // Nodes that are mirror images of each other would never part.
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
            // Parts that are not joined would drift away.
            *m = (m.0 - 0.05 * p.0, m.1 - 0.05 * p.1);
        }
        for (p, (dx, dy)) in at.iter_mut().zip(moves) {
            let d = hypot(dx, dy).max(1e-9);
            let part = d.min(most) / d;
            *p = (p.0 + dx * part, p.1 + dy * part);
        }
    }
    apart(spread(level(at)))
}

/// Nodes that are nearer to each other than 0.9 push each other away, as often as it takes up to a limit.
fn apart(mut at: Vec<Point>) -> Vec<Point> {
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
