//! Label placement: finds positions for texts near the points that they name, so that texts cover
//! nothing else.

use crate::canvas::Rect;
use libm::{cos, sin};

/// The area in which texts may be placed, with the boxes and lines that are in the way.
pub struct Placer {
    area: Rect,
    boxes: Vec<Rect>,
    lines: Vec<[(f64, f64); 2]>,
}

impl Placer {
    /// Returns a placer for an empty area.
    pub fn new(area: Rect) -> Placer {
        Placer { area, boxes: vec![], lines: vec![] }
    }

    /// Forbids texts in this box.
    pub fn block(&mut self, area: Rect) {
        self.boxes.push(area);
    }

    /// Discourages texts on this line.
    pub fn avoid(&mut self, points: &[(f64, f64)]) {
        self.lines.extend(points.windows(2).map(|p| [p[0], p[1]]));
    }

    /// Finds the position for a box of this size near a point. The box overlaps no other box, and
    /// is close to the point and on few lines. It is blocked from then on. Returns None if there is
    /// no free position.
    pub fn place(&mut self, at: (f64, f64), size: (f64, f64)) -> Option<Rect> {
        self.find(at, size, false)
    }

    /// Finds a position as [`Placer::place`] does, for a box that a leader line connects with the
    /// point if it is far away. The leader line crosses as few other boxes as possible, and later
    /// texts avoid it. Returns the box and the end of the leader line, if there is one.
    pub fn place_led(&mut self, at: (f64, f64), size: (f64, f64)) -> Option<(Rect, Option<(f64, f64)>)> {
        let place = self.find(at, size, true)?;
        let end = leader(at, place);
        self.lines.extend(end.map(|end| [at, end]));
        Some((place, end))
    }

    fn find(&mut self, at: (f64, f64), size: (f64, f64), led: bool) -> Option<Rect> {
        let mut best: Option<(f64, Rect)> = None;
        for ring in 0..26 {
            let radius = 9.0 + 12.0 * f64::from(ring);
            for turn in 0..24 {
                let angle = f64::from(turn) * std::f64::consts::PI / 12.0;
                let (dx, dy) = (cos(angle), -sin(angle));
                // The side of the box that faces the point is at the radius.
                let (cx, cy) = (at.0 + dx * (radius + size.0 / 2.0), at.1 + dy * (radius + size.1 / 2.0));
                let place = Rect {
                    x0: cx - size.0 / 2.0,
                    y0: cy - size.1 / 2.0,
                    x1: cx + size.0 / 2.0,
                    y1: cy + size.1 / 2.0,
                };
                if !place.within(self.area) || self.boxes.iter().any(|b| b.overlaps(place.grown(2.0))) {
                    continue;
                }
                let crossed = self.lines.iter().filter(|l| crosses(l, place.grown(2.0))).count();
                let struck = leader(at, place).filter(|_| led).map_or(0, |end| {
                    let others = self.boxes.iter().filter(|b| !b.holds(at));
                    others.filter(|b| crosses(&[at, end], **b)).count()
                });
                // A leader line through another text would make that text unreadable.
                let cost = crossed as f64 * 70.0 + struck as f64 * 300.0 + radius;
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, place));
                }
            }
        }
        let (_, place) = best?;
        self.boxes.push(place);
        Some(place)
    }
}

/// Returns the end of the leader line from a point to a box, or None if the box is next to the
/// point.
fn leader(at: (f64, f64), place: Rect) -> Option<(f64, f64)> {
    let near = (at.0.clamp(place.x0, place.x1), at.1.clamp(place.y0, place.y1));
    (libm::hypot(near.0 - at.0, near.1 - at.1) > 12.0).then_some(near)
}

/// Returns whether a line segment enters a box (Liang-Barsky clipping).
pub fn crosses([a, b]: &[(f64, f64); 2], r: Rect) -> bool {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let (mut from, mut to) = (0.0f64, 1.0f64);
    for (p, q) in [(-dx, a.0 - r.x0), (dx, r.x1 - a.0), (-dy, a.1 - r.y0), (dy, r.y1 - a.1)] {
        if p == 0.0 {
            if q < 0.0 {
                return false;
            }
        } else if p < 0.0 {
            from = from.max(q / p);
        } else {
            to = to.min(q / p);
        }
    }
    from <= to
}

/// Returns the middles of boxes in a column from `top` to `bottom`. `wanted` lists the desired
/// middle and the height of each box. Each box is as close to its desired middle as the others
/// allow. The boxes are in the order of their desired middles. Boxes that do not fit continue below
/// `bottom`.
pub fn column(wanted: &[(f64, f64)], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].0.total_cmp(&wanted[*b].0).then(a.cmp(b)));
    let mut out = vec![0.0; wanted.len()];
    // Clusters of touching boxes: the members, the total height, and the sum over the members of
    // the desired beginning of the cluster.
    let mut clusters: Vec<(Vec<usize>, f64, f64)> = vec![];
    for i in order {
        let (middle, height) = wanted[i];
        let mut cluster = (vec![i], height, middle - height / 2.0);
        while let Some(last) = clusters.last() {
            let begin = |c: &(Vec<usize>, f64, f64)| (c.2 / c.0.len() as f64).min(bottom - c.1).max(top);
            if begin(last) + last.1 <= begin(&cluster) {
                break;
            }
            let shift = last.1 * cluster.0.len() as f64;
            let Some(mut merged) = clusters.pop() else { break };
            merged.0.append(&mut cluster.0);
            merged.2 += cluster.2 - shift;
            merged.1 += cluster.1;
            cluster = merged;
        }
        clusters.push(cluster);
    }
    for (members, height, sum) in clusters {
        let mut y = (sum / members.len() as f64).min(bottom - height).max(top);
        for i in members {
            out[i] = y + wanted[i].1 / 2.0;
            y += wanted[i].1;
        }
    }
    out
}
