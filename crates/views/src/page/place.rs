//! Positions of a machine's nodes on a page. Devices stand by their coordinates, or in a circle if
//! they have one axis; switches and relays stand among the nodes that they connect. Only the
//! drawing depends on the positions.

use kbc_machine::topology::{DeviceId, Topology};
use serde::Serialize;

/// Nodes and links of a machine, as columns.
#[derive(Serialize)]
pub struct Places {
    /// Names of nodes, those of ranks first.
    pub names: Vec<String>,
    /// Horizontal positions; neighbours are 1 apart.
    pub x: Vec<f64>,
    /// Vertical positions, downwards; neighbours are 1 apart.
    pub y: Vec<f64>,
    /// Sources of links, by number of the link.
    pub from: Vec<u32>,
    /// Destinations of links.
    pub to: Vec<u32>,
    /// Bandwidth of links in GB/s, by number of the link; -1 for an infinite one.
    pub rate: Vec<f64>,
    /// Arrangement of the devices: `circle` or `grid`.
    pub form: &'static str,
    /// Nodes that have failed, with their positions.
    pub failed: Vec<FailedNode>,
}

/// A node that has failed.
#[derive(Serialize)]
pub struct FailedNode {
    /// Its name.
    name: String,
    /// Horizontal position.
    x: f64,
    /// Vertical position.
    y: f64,
    /// Whether it is a device.
    device: bool,
}

/// Returns the positions of all nodes of a machine. Nodes that have failed keep their positions.
pub fn places(topology: &Topology) -> Places {
    let whole = topology.whole();
    let devices = whole.device_count();
    let sizes: Vec<u32> = whole.sizes().collect();
    let flat = whole.axes().filter(|a| a.1 > 1).count() <= 1;
    let form = if flat { "circle" } else { "grid" };
    let mut at: Vec<(f64, f64)> = whole
        .devices()
        .map(|d| match form {
            "circle" => circle(d.0 as usize, devices),
            _ => grid(&whole.coordinates(d), &sizes),
        })
        .collect();
    let joined: Vec<(u32, u32)> = whole.links().map(|l| (l.from.0, l.to.0)).collect();
    between(&mut at, whole.node_count(), &joined, form == "grid");
    let spot = |id: DeviceId| at.get(id.0 as usize).copied().unwrap_or_default();
    let nodes = (0..topology.node_count() as u32).map(DeviceId);
    let spots: Vec<(f64, f64)> = nodes.clone().map(|n| spot(topology.number_on_whole(n))).collect();
    Places {
        names: nodes.map(|n| topology.name(n)).collect(),
        x: spots.iter().map(|p| round(p.0)).collect(),
        y: spots.iter().map(|p| round(p.1)).collect(),
        from: topology.links().map(|l| l.from.0).collect(),
        to: topology.links().map(|l| l.to.0).collect(),
        rate: topology
            .links()
            .map(|l| if l.rate.bandwidth.is_finite() { l.rate.bandwidth } else { -1.0 })
            .collect(),
        form,
        failed: topology
            .failed_nodes()
            .map(|n| FailedNode {
                name: whole.name(n),
                x: round(spot(n).0),
                y: round(spot(n).1),
                device: (n.0 as usize) < devices,
            })
            .collect(),
    }
}

/// Rounds to a thousandth, which is enough for drawing and short.
fn round(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

/// Returns a position on a circle: the first at the top, then clockwise, neighbours about 1 apart.
fn circle(i: usize, of: usize) -> (f64, f64) {
    let turn = std::f64::consts::TAU * i as f64 / of.max(1) as f64;
    let radius = (of as f64 / std::f64::consts::TAU).max(1.0);
    (radius * turn.sin(), -radius * turn.cos())
}

/// Returns a position in a grid: the last axis across, the one before it down, further axes in
/// blocks, alternately.
fn grid(coordinates: &[u32], sizes: &[u32]) -> (f64, f64) {
    let (mut at, mut step) = ([0.0, 0.0], [1.0, 1.0]);
    for (k, (c, size)) in coordinates.iter().zip(sizes).rev().enumerate() {
        at[k % 2] += f64::from(*c) * step[k % 2];
        step[k % 2] *= f64::from(*size) + if k < 2 { 0.6 } else { 0.0 };
    }
    (at[0], at[1])
}

/// Largest number of nodes that are not devices for which each gets a position of its own. More are
/// not drawn.
const APART: usize = 64;

/// Positions the nodes that are not devices. Each is placed in the middle of its neighbours that
/// already have a position, or `above` them if devices stand in a grid, and to the right of any
/// node already there.
fn between(at: &mut Vec<(f64, f64)>, nodes: usize, links: &[(u32, u32)], above: bool) {
    let devices = at.len();
    let mut joined: Vec<Vec<usize>> = vec![vec![]; nodes];
    for (a, b) in links {
        joined[*a as usize].push(*b as usize);
    }
    let mut placed: Vec<Option<(f64, f64)>> = at.iter().copied().map(Some).collect();
    placed.resize(nodes, None);
    while let Some(known) = Some(placed.clone()).filter(|p| p.iter().any(Option::is_none)) {
        let mut moved = false;
        for n in (devices..nodes).filter(|n| known[*n].is_none()) {
            let near: Vec<(f64, f64)> = joined[n].iter().filter_map(|m| known[*m]).collect();
            if near.is_empty() {
                continue;
            }
            let mean = |f: fn(&(f64, f64)) -> f64| near.iter().map(f).sum::<f64>() / near.len() as f64;
            let mut spot = (mean(|p| p.0), mean(|p| p.1));
            if nodes - devices > APART {
                placed[n] = Some(spot);
                moved = true;
                continue;
            }
            if above {
                spot.1 = near.iter().map(|p| p.1).fold(f64::MAX, f64::min) - 0.8;
            }
            let taken = |spot: (f64, f64), placed: &[Option<(f64, f64)>]| {
                placed.iter().flatten().any(|p| (p.0 - spot.0).abs() < 0.3 && (p.1 - spot.1).abs() < 0.3)
            };
            for _ in 0..nodes {
                if !taken(spot, &placed) {
                    break;
                }
                spot.0 += 0.4;
            }
            placed[n] = Some(spot);
            moved = true;
        }
        if !moved {
            break;
        }
    }
    *at = placed.iter().enumerate().map(|(i, p)| p.unwrap_or((i as f64, -2.0))).collect();
}
