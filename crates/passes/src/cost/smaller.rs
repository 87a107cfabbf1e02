//! Smaller relatives of a machine, on which an algorithm is simulated in place of the machine
//! itself, and the extrapolation from them.

use super::model::Job;
use kbc_machine::topology::{DeviceId, Shape, Topology, device_count};
use std::borrow::Cow;

/// A machine to extrapolate from, or some ranks of the machine itself.
pub(super) struct Smaller<'a> {
    pub topology: Cow<'a, Topology>,
    /// Ranks of each group.
    pub groups: Vec<Vec<DeviceId>>,
    /// Number of ranks of a group.
    pub ranks: u64,
    /// Sizes of the call.
    pub sizes: Vec<i64>,
}

/// Number of relatives from which a price is extrapolated.
const RELATIVES: usize = 3;

/// Returns the largest relatives with at most `most` ranks, in ascending order, of a call with
/// these sizes. Fewer than [`RELATIVES`] if there are not so many.
///
/// A machine with a shape has smaller machines of this shape. On a machine that is a list of links
/// or states routes, they are evenly spaced ranks of each group, on the machine itself: distances
/// stay what they are, and the loads of links grow as they do between smaller machines of a shape.
///
/// # Errors
/// Returns why the shape of the call has no smaller machine.
pub(super) fn relatives<'a>(job: &Job<'a>, dims: &[u64], most: u64) -> Result<Vec<Smaller<'a>>, String> {
    let p: u64 = dims.iter().product();
    let everybody = job.topology.device_count() as u64 == p;
    let whole = match dims {
        _ if job.topology.has_stated_routes() => None,
        _ if job.topology.is_listed() => {
            let package = everybody && job.topology.is_package();
            let some = job.topology.settings().package.first().is_some();
            (package && !some).then(|| job.topology.shape().clone())
        }
        // The machine of one group: a machine of the call's sides if it has several, otherwise the
        // machine itself.
        [_] if everybody => Some(job.topology.shape().clone()),
        _ => Some(under(job.topology.shape(), dims)),
    };
    let most = if whole.is_some() { most } else { affordable(job, most) };
    let mut out: Vec<Smaller<'a>> = vec![];
    for halvings in 0..64 {
        let sides = dims.iter().map(|&d| halved(d, halvings));
        let one = match &whole {
            Some(whole) => smaller_machine(job, &shrunk(whole, halvings), sides.collect(), p, most)?,
            None => spaced(job, dims, sides.collect(), most),
        };
        if let Some(one) = one
            && out.last().is_none_or(|l| l.sizes != one.sizes || l.topology.shape() != one.topology.shape())
        {
            out.push(one);
        }
        if out.len() == RELATIVES {
            break;
        }
    }
    out.reverse();
    Ok(out)
}

/// Returns the machine of a smaller shape, with one group of all its ranks, if these are few
/// enough.
fn smaller_machine<'a>(
    job: &Job<'a>,
    shape: &Shape,
    sides: Vec<u64>,
    p: u64,
    most: u64,
) -> Result<Option<Smaller<'a>>, String> {
    let ranks = device_count(shape, job.topology.settings()).unwrap_or(u64::MAX);
    if ranks > most {
        return Ok(None);
    }
    let sizes = if sides.len() == 1 { vec![ranks] } else { sides };
    if sizes.iter().product::<u64>() != ranks {
        return Err(format!(
            "no estimate for {p} ranks: the shape of the call does not match the shape of the machine"
        ));
    }
    let topology = Topology::build(shape.clone(), *job.topology.settings(), kbc_diag::Span::NONE);
    let topology = topology.map_err(|d| format!("no estimate for {p} ranks: {}", d.title))?;
    let groups = vec![topology.devices().collect()];
    let sizes = sizes.into_iter().map(|s| s as i64).collect();
    Ok(Some(Smaller { topology: Cow::Owned(topology), groups, ranks, sizes }))
}

/// Largest number of links that the messages of an all-to-all may pass on a relative.
const MAX_HOPS: u64 = 300_000;

/// Returns `most`, halved until an all-to-all of so many spaced ranks passes at most [`MAX_HOPS`]
/// links. The mean number of hops is estimated from some routes of one rank.
fn affordable(job: &Job<'_>, most: u64) -> u64 {
    const ROUTES: usize = 16;
    let Some((group, first)) = job.groups.first().and_then(|g| Some((g, *g.first()?))) else { return most };
    let some = group.iter().step_by(group.len().div_ceil(ROUTES));
    let (n, hops) = some.fold((0, 0), |(n, sum), d| (n + 1, sum + u64::from(job.topology.hops(first, *d))));
    let fits = |ranks: u64| ranks * ranks * hops / n <= MAX_HOPS;
    std::iter::successors(Some(most), |ranks| Some(ranks / 2)).find(|r| *r <= 16 || fits(*r)).unwrap_or(most)
}

/// Returns evenly spaced ranks of every group along each side, if these are few enough.
fn spaced<'a>(job: &Job<'a>, dims: &[u64], sides: Vec<u64>, most: u64) -> Option<Smaller<'a>> {
    let ranks: u64 = sides.iter().product();
    if ranks > most {
        return None;
    }
    // Index in a group of the rank at these coordinates of the smaller call, the last one fastest.
    let place = |mut at: u64| {
        let (mut index, mut stride) = (0, 1);
        for (large, small) in dims.iter().zip(&sides).rev() {
            index += at % small * large / small * stride;
            at /= small;
            stride *= large;
        }
        index as usize
    };
    let some = |group: &Vec<DeviceId>| (0..ranks).filter_map(|at| group.get(place(at)).copied()).collect();
    let groups = job.groups.iter().map(some).collect();
    let sizes = sides.iter().map(|s| *s as i64).collect();
    Some(Smaller { topology: Cow::Borrowed(job.topology), groups, ranks, sizes })
}

/// Returns a machine with these sides, of the kind of a larger machine.
fn under(shape: &Shape, sides: &[u64]) -> Shape {
    let small: Vec<u32> = sides.iter().map(|&s| s as u32).collect();
    match (shape, &small[..]) {
        (Shape::Full(_), _) => Shape::Full(small.iter().product()),
        (Shape::Switch(_), _) => Shape::Switch(small.iter().product()),
        (Shape::Mesh(_), _) => Shape::Mesh(small),
        (_, [one]) => Shape::Ring(*one),
        _ => Shape::Torus(small),
    }
}

/// Returns a machine whose sides are halved this many times.
fn shrunk(shape: &Shape, halvings: u32) -> Shape {
    let side = |s: &u32| halved(u64::from(*s), halvings) as u32;
    match shape {
        Shape::Ring(n) => Shape::Ring(side(n)),
        Shape::Full(n) => Shape::Full(side(n)),
        Shape::Switch(n) => Shape::Switch(side(n)),
        Shape::Torus(sizes) => Shape::Torus(sizes.iter().map(side).collect()),
        Shape::Mesh(sizes) => Shape::Mesh(sizes.iter().map(side).collect()),
        Shape::Hypercube(k) => Shape::Hypercube(k.saturating_sub(halvings).max(1)),
        Shape::Tree(arity, depth) => Shape::Tree(*arity, depth.saturating_sub(halvings).max(1)),
        Shape::Hierarchy(levels) => Shape::Hierarchy(levels.iter().map(|l| shrunk(l, halvings)).collect()),
        Shape::Graph { .. } => shape.clone(),
        Shape::Package { sips, cubes: [h, w], pes } => Shape::Package {
            sips: Box::new(shrunk(sips, halvings)),
            cubes: [side(h), side(w)],
            pes: side(pes),
        },
    }
}

/// Returns a side halved this many times. A power of two stays a power of two; any other side
/// becomes three times a power of two, so never a power of two.
pub(crate) fn halved(side: u64, halvings: u32) -> u64 {
    let exact = side >> halvings;
    match exact {
        0 => 1,
        _ if side.is_power_of_two() || halvings == 0 => exact,
        1..3 => 3.min(side),
        // The nearest 3 * 2^k below.
        _ => 3 << (exact / 3).ilog2(),
    }
}

/// Extrapolates three values at growing numbers of ranks to `p`. The differences form a geometric
/// sequence.
pub(crate) fn growth([a, b, c]: [f64; 3], [pa, pb, pc]: [u64; 3], p: u64) -> f64 {
    let (first, second) = (b - a, c - b);
    let scale = (pc as f64 / pb as f64).ln();
    let before = (pb as f64 / pa as f64).ln();
    if second == 0.0 || first == 0.0 || (first < 0.0) != (second < 0.0) || scale <= 0.0 || before <= 0.0 {
        return c;
    }
    let steps = (p as f64 / pc as f64).ln() / scale;
    // The formula assumes equal steps of log p. If the steps differ a little (sides that are not
    // powers of two), q is corrected.
    let q = (second / first) / (scale / before);
    let sum = if (q - 1.0).abs() < 1e-6 { steps } else { q * (q.powf(steps) - 1.0) / (q - 1.0) };
    (c + second * sum).max(0.0)
}
