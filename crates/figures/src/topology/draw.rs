//! Topology drawing: draws nodes and links on a card.

use super::layout::Position;
use super::{AxisDirection, Form, Link, Node, Topology};
use crate::canvas::{Anchor, Canvas, Figure, Rect, Stroke, TextStyle, area, short, solid};
use crate::frame::{EDGE, LINE, SMALL, WIDTH, head};
use crate::series::range;
use crate::text::{Weight, fit, width, wrap};
use crate::theme::Theme;
use crate::units::Quantity;
use libm::hypot;

/// The largest height of the picture, without title and legend.
const HEIGHT: f64 = 760.0;
/// The dashes of what has failed.
const FAILED: &str = "3 3";
/// The largest distance between neighbours.
const PITCH: f64 = 104.0;

/// A topology that is being drawn, with its dimensions.
struct Drawing<'a> {
    t: &'a Topology,
    canvas: Canvas,
    /// The positions of the nodes on the card.
    at: Vec<Position>,
    /// The distance between neighbours.
    pitch: f64,
    /// The radius of nodes.
    radius: f64,
    /// The utilisation at the end of the scale, in percent.
    full: f64,
    /// Whether some link is drawn as stubs.
    stubs: bool,
}

/// Draws a topology with its nodes at these positions (in units of the layout).
pub fn draw(t: &Topology, places: &[Position]) -> Figure {
    let mut canvas = Canvas::new(WIDTH, 0.0, t.heading.theme);
    let top = head(&mut canvas, &t.heading) + 10.0;
    let (x0, x1) = range(places.iter().map(|p| p.0)).unwrap_or((0.0, 0.0));
    let (y0, y1) = range(places.iter().map(|p| p.1)).unwrap_or((0.0, 0.0));
    // The margin leaves room for a stub or a name around the outermost nodes.
    let margin = if t.links.iter().any(|l| l.wrap) { 62.0 } else { 46.0 };
    let room = WIDTH - 2.0 * EDGE - 2.0 * margin;
    let pitch = (room / (x1 - x0).max(0.5)).min((HEIGHT - 2.0 * margin) / (y1 - y0).max(0.5)).min(PITCH);
    let left = (WIDTH - pitch * (x1 - x0)) / 2.0;
    let at = places.iter().map(|p| (left + (p.0 - x0) * pitch, top + margin + (p.1 - y0) * pitch)).collect();
    let most = t.links.iter().filter_map(|l| l.percent).fold(0.0, f64::max);
    let full = [5.0, 10.0, 20.0, 50.0].into_iter().find(|f| most <= *f).unwrap_or(100.0f64.max(most));
    let radius = (pitch * 0.27).clamp(2.5, 22.0);
    let mut drawing = Drawing { t, canvas, at, pitch, radius, full, stubs: false };
    drawing.links();
    drawing.nodes();
    let hidden = drawing.names();
    let bottom = top + 2.0 * margin + pitch * (y1 - y0);
    let busiest = drawing.busiest();
    let bottom = drawing.legend(bottom + 12.0, busiest.as_deref(), hidden);
    drawing.canvas.size.1 = (bottom + 14.0).round();
    let mut about = format!("{} nodes and {} directed links", t.nodes.len(), t.links.len());
    let inside = t.links.iter().filter(|l| l.step.is_some()).count();
    if inside > 0 {
        about += &format!("; a tree of {inside} links and {} steps", drawing.steps());
    }
    about += &busiest.map_or(String::new(), |b| format!("; {b}"));
    drawing.canvas.finish(&t.heading.title, &about)
}

/// The number of different colours of steps.
const COLOURS: u32 = 7;

/// Returns the colour of a step of a tree, counted from 1.
fn step_colour(theme: Theme, step: u32) -> &'static str {
    theme.series((step.max(1) - 1) as usize).colour
}

/// Returns the text shown at a node.
fn label(node: &Node) -> &str {
    node.label.as_deref().unwrap_or(&node.name)
}

impl Drawing<'_> {
    /// Returns the colour and width of a link.
    fn look(&self, link: &Link) -> (String, f64) {
        let theme = self.canvas.theme;
        // If every node has dozens of links, each link is thin.
        let many = (8.0 * self.t.nodes.len() as f64 / self.t.links.len() as f64).clamp(0.12, 1.0);
        let thick = (self.pitch / 60.0).clamp(0.25, 1.0) * many;
        match link.percent {
            _ if link.failed => (theme.faint().to_owned(), thick),
            _ if link.step.is_some() => (step_colour(theme, link.step.unwrap_or(1)).to_owned(), 3.4 * thick),
            None => (theme.axis().to_owned(), 1.5 * thick),
            Some(0.0) => (theme.heat(0.0), 0.9 * thick),
            Some(p) => (theme.heat(p / self.full), (1.2 + 3.8 * (p / self.full).min(1.0)) * thick),
        }
    }

    /// Draws all links. The busiest links and those of a tree come last, so that nothing hides
    /// them.
    fn links(&mut self) {
        let mut order: Vec<usize> = (0..self.t.links.len()).collect();
        let used = |i: &usize| self.t.links[*i].percent.unwrap_or(0.0);
        let outside = |i: &usize| self.t.links[*i].step.is_none();
        order.sort_by(|a, b| outside(b).cmp(&outside(a)).then(used(a).total_cmp(&used(b))).then(a.cmp(b)));
        // Several links between the same nodes in one direction are drawn side by side.
        let mut alike = std::collections::BTreeMap::new();
        let lanes: Vec<u32> = self
            .t
            .links
            .iter()
            .map(|l| {
                let n = alike.entry((l.from, l.to, l.wrap)).or_insert(0);
                *n += 1;
                *n - 1
            })
            .collect();
        for i in order {
            let link = self.t.links[i];
            self.link(&link, f64::from(lanes[i]));
        }
    }

    fn link(&mut self, link: &Link, lane: f64) {
        let (colour, wide) = self.look(link);
        let (a, b) = (self.at[link.from], self.at[link.to]);
        let dash = if link.failed { FAILED } else { "" };
        let arrows = self.pitch > 26.0 && !link.failed;
        let d = hypot(b.0 - a.0, b.1 - a.1).max(1e-9);
        let along = ((b.0 - a.0) / d, (b.1 - a.1) / d);
        let right = (-along.1, along.0);
        let off = (self.pitch * 0.045).clamp(0.6, 4.2) * (1.0 + 2.0 * lane);
        let move_by = |p: Position, by: f64, ahead: f64| {
            (p.0 + right.0 * by + along.0 * ahead, p.1 + right.1 * by + along.1 * ahead)
        };
        if link.wrap && self.open(link.from, (-along.0, -along.1)) && self.open(link.to, along) {
            self.stubs = true;
            let (near, far) = (self.radius, self.radius + self.pitch.min(90.0) * 0.36);
            // A stub leaves the sender away from the receiver, so the direction of the traffic and
            // its right-hand side are reversed.
            self.stroke(move_by(a, -off, -near), move_by(a, -off, -far), (&colour, wide), !link.failed, dash);
            self.stroke(move_by(b, -off, far), move_by(b, -off, near), (&colour, wide), !link.failed, dash);
            return;
        }
        let bend = if self.crosses(link) { (d * 0.16).max(self.radius * 1.8) } else { 0.0 };
        if bend == 0.0 {
            let from = move_by(a, off, self.radius * 0.9);
            let to = move_by(b, off, -self.radius * 0.9);
            self.stroke(from, to, (&colour, wide), arrows, dash);
            return;
        }
        let middle = move_by(((a.0 + b.0) / 2.0, (a.1 + b.1) / 2.0), (bend + off) * 2.0, 0.0);
        let toward = |p: Position| {
            let l = hypot(middle.0 - p.0, middle.1 - p.1).max(1e-9);
            (p.0 + (middle.0 - p.0) / l * self.radius, p.1 + (middle.1 - p.1) / l * self.radius)
        };
        let (from, to) = (toward(a), toward(b));
        let d = [from, middle, to].map(|p| format!("{} {}", short(p.0), short(p.1)));
        let line = Stroke { dash, ..solid(&colour, wide) };
        self.canvas.path(&format!("M{} Q{} {}", d[0], d[1], d[2]), line);
        if arrows {
            self.arrow(middle, to, &colour, wide);
        }
    }

    /// Draws a straight line, with an arrow at its end if `arrow` is set.
    fn stroke(&mut self, from: Position, to: Position, (colour, wide): (&str, f64), arrow: bool, dash: &str) {
        self.canvas.line(from, to, Stroke { colour, width: wide, dash });
        if arrow {
            self.arrow(from, to, colour, wide);
        }
    }

    /// Draws the tip at the end of a line. The tip lies on the right-hand side only, so that the
    /// arrows of two directions do not touch.
    fn arrow(&mut self, from: Position, to: Position, colour: &str, wide: f64) {
        let d = hypot(to.0 - from.0, to.1 - from.1).max(1e-9);
        let (ux, uy) = ((to.0 - from.0) / d, (to.1 - from.1) / d);
        let size = (3.0 + wide * 1.3) * (self.pitch / 60.0).clamp(0.6, 1.0);
        let back = (to.0 - ux * size * 1.7, to.1 - uy * size * 1.7);
        let side = (back.0 - uy * size, back.1 + ux * size);
        let inner = (back.0 + uy * wide / 2.0, back.1 - ux * wide / 2.0);
        let tip = (to.0 + uy * wide / 2.0, to.1 - ux * wide / 2.0);
        self.canvas.polygon(&[tip, side, inner], colour);
    }

    /// Returns whether there is no neighbouring node in a direction.
    fn open(&self, node: usize, (dx, dy): Position) -> bool {
        let (x, y) = self.at[node];
        let free = |p: &Position| {
            let (px, py) = (p.0 - x, p.1 - y);
            let ahead = px * dx + py * dy;
            ahead < self.pitch * 0.3
                || ahead > self.pitch * 1.2
                || (px * dy - py * dx).abs() > self.pitch * 0.4
        };
        self.at.iter().enumerate().all(|(i, p)| i == node || free(p))
    }

    /// Returns whether the straight line of a link passes over another node. This is not checked
    /// for a single circle, layers and free layouts.
    fn crosses(&self, link: &Link) -> bool {
        match &self.t.form {
            Form::Product(axes)
                if axes.len() > 1 || axes.iter().all(|a| a.direction != AxisDirection::Circle) => {}
            _ => return false,
        }
        let (a, b) = (self.at[link.from], self.at[link.to]);
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let square = (dx * dx + dy * dy).max(1e-9);
        self.at.iter().enumerate().any(|(i, p)| {
            let share = ((p.0 - a.0) * dx + (p.1 - a.1) * dy) / square;
            let apart = hypot(p.0 - a.0 - share * dx, p.1 - a.1 - share * dy);
            i != link.from && i != link.to && share > 0.0 && share < 1.0 && apart < self.radius * 1.1
        })
    }

    fn nodes(&mut self) {
        let theme = self.canvas.theme;
        let r = self.radius;
        for (node, (x, y)) in self.t.nodes.iter().zip(self.at.clone()) {
            let (colour, dash) = if node.failed { (theme.faint(), FAILED) } else { (theme.ink(), "") };
            let border = Stroke { dash, ..solid(colour, if node.root { 3.6 } else { 1.3 }) };
            if node.failed {
                let d = r * 0.7;
                for (from, to) in [((x - d, y - d), (x + d, y + d)), ((x - d, y + d), (x + d, y - d))] {
                    self.canvas.line(from, to, solid(theme.faint(), 1.3));
                }
            }
            if node.failed && !node.switch {
                self.canvas.circle((x, y), r, "none", Some(border));
            } else if node.failed {
                let at = Rect { x0: x - r, y0: y - r, x1: x + r, y1: y + r };
                self.canvas.rect(at, "none", Some(border));
            } else if node.switch {
                let at = Rect { x0: x - r, y0: y - r, x1: x + r, y1: y + r };
                self.canvas.rect(at, theme.tint(1), Some(border));
            } else {
                self.canvas.circle((x, y), r, theme.tint(0), Some(border));
            }
        }
    }

    /// Writes the names in the nodes or beside them, and returns how many names have no room.
    fn names(&mut self) -> usize {
        let around = |p: &Position, r: f64| Rect { x0: p.0 - r, y0: p.1 - r, x1: p.0 + r, y1: p.1 + r };
        let mut taken: Vec<Rect> = self.at.iter().map(|p| around(p, self.radius)).collect();
        let (cx, cy) = (
            self.at.iter().map(|p| p.0).sum::<f64>() / self.at.len() as f64,
            self.at.iter().map(|p| p.1).sum::<f64>() / self.at.len() as f64,
        );
        let mut hidden = 0;
        // Either all names are inside their nodes, at one size, or none is.
        let longest =
            |s: f64| self.t.nodes.iter().map(|n| width(label(n), s, Weight::Regular)).fold(0.0, f64::max);
        let inside = [11.5, 10.5, 9.5, 8.5].into_iter().find(|s| longest(*s) <= 2.0 * self.radius - 3.0);
        // In a crowded grid, only the nodes at the edges have names. The others follow from these.
        let crowded = self.pitch < 34.0 && matches!(&self.t.form, Form::Product(axes) if axes.len() > 1);
        let ends = [range(self.at.iter().map(|p| p.0)), range(self.at.iter().map(|p| p.1))];
        let near = |v: f64, r: Option<(f64, f64)>| r.is_some_and(|r| v < r.0 + 1.0 || v > r.1 - 1.0);
        let edge = |x: f64, y: f64| near(x, ends[0]) || near(y, ends[1]);
        for (i, node) in self.t.nodes.iter().enumerate() {
            let (x, y) = self.at[i];
            if let Some(size) = inside {
                let words = TextStyle { anchor: Anchor::Middle, ..self.canvas.words(size) };
                self.canvas.text(x, y + size * 0.36, label(node), words);
                continue;
            }
            if crowded && !edge(x, y) {
                hidden += 1;
                continue;
            }
            let size = (self.pitch * 0.36).clamp(8.0, 10.5);
            let words = TextStyle { halo: true, ..self.canvas.words(size) };
            let w = width(label(node), size, Weight::Regular);
            // Try the direction away from the middle of the picture first, then the four sides.
            let d = hypot(x - cx, y - cy).max(1e-9);
            let (ux, uy) = ((x - cx) / d, (y - cy) / d);
            let gap = self.radius + 3.0;
            let outward = (x + ux * (gap + w / 2.0), y + uy * (gap + size / 2.0) + size * 0.36);
            let choices = [
                outward,
                (x, y + gap + size * 0.8),
                (x, y - gap - size * 0.2),
                (x + gap + w / 2.0, y + size * 0.36),
                (x - gap - w / 2.0, y + size * 0.36),
            ];
            let card = Rect { x0: 4.0, y0: 0.0, x1: WIDTH - 4.0, y1: f64::INFINITY };
            let words = TextStyle { anchor: Anchor::Middle, ..words };
            // A node in the middle has no outward direction.
            let free = choices.into_iter().skip(usize::from(d < 1.0)).find(|c| {
                let place = area(c.0, c.1, label(node), words);
                place.within(card) && taken.iter().enumerate().all(|(j, t)| j == i || !t.overlaps(place))
            });
            match free {
                Some((x, y)) => {
                    taken.push(area(x, y, label(node), words));
                    self.canvas.text(x, y, label(node), words);
                }
                None => hidden += 1,
            }
        }
        hidden
    }

    /// Returns a text about the busiest link and the number of unused links, or None if nothing was
    /// timed.
    fn busiest(&self) -> Option<String> {
        let used: Vec<&Link> = self.t.links.iter().filter(|l| l.percent.is_some()).collect();
        let busiest = used.iter().max_by(|a, b| {
            let of = |l: &Link| l.percent.unwrap_or(0.0);
            of(a).total_cmp(&of(b)).then(b.from.cmp(&a.from)).then(b.to.cmp(&a.to))
        })?;
        let most = busiest.percent?;
        let name = |i: usize| &self.t.nodes[i].name;
        let near = used.iter().filter(|l| l.percent.is_some_and(|p| p >= most * 0.99)).count() - 1;
        let idle = used.iter().filter(|l| l.percent == Some(0.0)).count();
        let percent = Quantity::Percent.show(most, 3);
        let mut text =
            format!("busiest: {}->{}, {percent} of the time", name(busiest.from), name(busiest.to));
        if near > 0 {
            text += &format!(", and {near} more as busy");
        }
        Some(format!("{text}; {idle} of {} links are not used", used.len()))
    }

    /// Returns the number of steps of the tree that is shown; 0 without one.
    fn steps(&self) -> u32 {
        self.t.links.iter().filter_map(|l| l.step).max().unwrap_or(0)
    }

    /// Draws the colours of the steps of a tree. Returns the y below them.
    fn step_legend(&mut self, y: f64, steps: u32) -> f64 {
        let theme = self.canvas.theme;
        self.canvas.text(EDGE, y + 8.0, "step from the root", self.canvas.words(SMALL));
        let mut x = EDGE + 130.0;
        for step in 1..=steps.min(COLOURS) {
            // Later steps begin again with the first colour.
            let alike: Vec<String> =
                (step..=steps).step_by(COLOURS as usize).map(|s| s.to_string()).collect();
            let text = match &alike[..] {
                [first, second, _, ..] => format!("{first}, {second}, .."),
                all => all.join(", "),
            };
            self.canvas.line((x, y + 4.0), (x + 22.0, y + 4.0), solid(step_colour(theme, step), 3.4));
            let words = self.canvas.words(SMALL);
            self.canvas.text(x + 27.0, y + 8.0, &text, words);
            x += 27.0 + width(&text, SMALL, Weight::Regular) + 18.0;
        }
        y + LINE + 4.0
    }

    /// Draws the legend: the scale of the utilisation, the busiest link and the meaning of shapes.
    /// Returns the y below it.
    fn legend(&mut self, mut y: f64, busiest: Option<&str>, hidden: usize) -> f64 {
        let theme = self.canvas.theme;
        let used: Vec<&Link> = self.t.links.iter().filter(|l| l.percent.is_some()).collect();
        let faint = TextStyle { colour: theme.faint(), ..self.canvas.words(SMALL) };
        if !used.is_empty() {
            let (x0, wide) = (EDGE + 130.0, 300.0);
            self.canvas.text(EDGE, y + 8.0, "use of a link", self.canvas.words(SMALL));
            for i in 0..60 {
                let share = (f64::from(i) + 0.5) / 60.0;
                let half = (1.2 + 3.8 * share) * 1.3;
                let x = x0 + wide * f64::from(i) / 60.0;
                let cell = Rect { x0: x, y0: y + 4.0 - half, x1: x + wide / 60.0 + 0.3, y1: y + 4.0 + half };
                self.canvas.rect(cell, &theme.heat(share), None);
            }
            for i in 0..=4 {
                let share = f64::from(i) / 4.0;
                let words = TextStyle { anchor: Anchor::Middle, ..faint };
                let text = Quantity::Percent.show(self.full * share, 3);
                self.canvas.text(x0 + wide * share, y + 26.0, &text, words);
            }
            y += 46.0;
        }
        let steps = self.steps();
        if steps > 0 {
            y = self.step_legend(y, steps);
        }
        let mut lines: Vec<String> = busiest.into_iter().map(str::to_owned).collect();
        let mut shapes = vec!["circle: device".to_owned()];
        if self.t.nodes.iter().any(|n| n.root) {
            shapes.push("bold: root of the tree".into());
        }
        if self.t.nodes.iter().any(|n| n.switch) {
            shapes.push("square: switch, holds no rank".into());
        }
        shapes.push("traffic is drawn on the right of its link".into());
        if self.t.nodes.iter().any(|n| n.failed) || self.t.links.iter().any(|l| l.failed) {
            shapes.push("dashed: failed".into());
        }
        if self.stubs {
            shapes.push("stubs at the edge: wrap-around links from one end of a row to the other".into());
        }
        if hidden > 0 {
            shapes.push(format!("{hidden} names are hidden for lack of space"));
        }
        lines.push(shapes.join(" · "));
        for line in lines {
            for part in wrap(&line, SMALL, Weight::Regular, WIDTH - 2.0 * EDGE) {
                let part = fit(&part, SMALL, Weight::Regular, WIDTH - 2.0 * EDGE);
                self.canvas.text(EDGE, y + 8.0, &part, faint);
                y += LINE;
            }
        }
        y
    }
}
