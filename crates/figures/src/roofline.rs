//! Roofline charts: for each matmul, whether memory or arithmetic limits it, and how close it comes
//! to that limit.

use crate::canvas::{Anchor, Figure, Stroke, TextStyle, solid};
use crate::frame::{Axis, EDGE, Frame, LINE, SMALL};
use crate::place::Placer;
use crate::scale::Scale;
use crate::series::{Fault, Heading, positive, range};
use crate::text::{Weight, width};
use crate::units::Quantity;

/// A limit of the machine.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Roof {
    /// The name, such as `hbm` or `f16 cube`.
    pub name: String,
    /// The rate: FLOP/s for arithmetic, B/s for a memory.
    pub rate: f64,
}

/// A measured matmul or other kernel.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RooflinePoint {
    /// The name, such as `256 x 256 x 256`.
    pub name: String,
    /// The arithmetic intensity, in FLOP per byte moved.
    pub intensity: f64,
    /// The rate that was reached, in FLOP/s.
    pub rate: f64,
    /// The category of the point (such as a variant of staging), which determines its marker. May
    /// be empty.
    pub kind: String,
}

/// A chart of rate over intensity, on two logarithmic axes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Roofline {
    /// The title and subtitle.
    pub heading: Heading,
    /// Limits of arithmetic. There must be at least one.
    pub compute: Vec<Roof>,
    /// Limits of memories. There must be at least one.
    pub memory: Vec<Roof>,
    /// The measured points.
    pub points: Vec<RooflinePoint>,
}

impl Roofline {
    /// Draws the chart. The percentage at a point is relative to the highest roof over it, which is
    /// the smaller of the highest arithmetic rate and the limit of the fastest memory at that
    /// intensity.
    ///
    /// # Errors
    /// Fails if there is no roof for arithmetic or none for memory, if there are no points, or if a
    /// value is not finite and positive.
    pub fn draw(&self) -> Result<Figure, Fault> {
        for roof in self.compute.iter().chain(&self.memory) {
            positive(&format!("the roof `{}`", roof.name), roof.rate)?;
        }
        for p in &self.points {
            positive(&format!("the intensity of `{}`", p.name), p.intensity)?;
            positive(&format!("the rate of `{}`", p.name), p.rate)?;
        }
        let most = |roofs: &[Roof]| roofs.iter().map(|r| r.rate).max_by(f64::total_cmp);
        let (Some(peak), Some(stream)) = (most(&self.compute), most(&self.memory)) else {
            return Err(Fault::new("a roofline needs an arithmetic roof and a memory roof"));
        };
        let Some((left, right)) = range(self.points.iter().map(|p| p.intensity)) else {
            return Err(Fault::new("there is no point to draw"));
        };
        let ridges = range(self.memory.iter().map(|m| peak / m.rate)).unwrap_or((left, right));
        let (x0, x1) = (left.min(ridges.0) / 3.0, right.max(ridges.1) * 3.0);
        let slowest = self.memory.iter().map(|r| r.rate).fold(f64::INFINITY, f64::min);
        let low = self.points.iter().map(|p| p.rate).fold(slowest * x0 * 2.0, f64::min);
        let x = Axis::new("FLOP per byte moved", Quantity::Intensity, Scale::log(x0, x1));
        let y = Axis::new("FLOP/s", Quantity::Flops, Scale::log(low / 2.0, peak * 2.0));

        let mut kinds: Vec<&str> = vec![];
        for p in &self.points {
            if !kinds.contains(&p.kind.as_str()) {
                kinds.push(&p.kind);
            }
        }
        let mut frame = Frame::new(&self.heading, &x, &y, EDGE, 360.0);
        let mut placer = Placer::new(frame.plot.grown(-4.0));
        self.roofs(&mut frame, &mut placer, (x0, x1), (peak, stream));
        self.points(&mut frame, &mut placer, &kinds, (peak, stream));
        legend(&mut frame, &kinds);
        Ok(frame.finish(&self.heading, "roofline"))
    }

    /// Draws the roofs with their names, and labels the two sides of the ridge with what limits
    /// there.
    fn roofs(
        &self,
        frame: &mut Frame,
        placer: &mut Placer,
        (x0, x1): (f64, f64),
        (peak, stream): (f64, f64),
    ) {
        let theme = frame.theme();
        let stroke = |dash| Stroke { colour: theme.ink(), width: 1.8, dash };
        let dashes = ["", "8 4", "2 3", "10 3 2 3"];
        let ridge = frame.x.at(peak / stream);
        let thin = Stroke { colour: theme.axis(), width: 1.0, dash: "1 4" };
        frame.canvas.line((ridge, frame.y.at(peak)), (ridge, frame.plot.y1), thin);
        let words = TextStyle { colour: theme.faint(), weight: Weight::Bold, ..frame.canvas.words(SMALL) };
        let base = frame.plot.y1 - 8.0;
        for (text, x, anchor) in [
            ("limited by memory", ridge - 8.0, Anchor::End),
            ("limited by arithmetic", ridge + 8.0, Anchor::Start),
        ] {
            let words = TextStyle { anchor, ..words };
            let area = crate::canvas::area(x, base, text, words);
            if area.within(frame.plot) {
                placer.block(area.grown(2.0));
                frame.canvas.text(x, base, text, words);
            }
        }
        let mut labels = vec![];
        for (i, roof) in self.memory.iter().enumerate() {
            let from = x0.max(frame.y.lo / roof.rate);
            let to = peak / roof.rate;
            let ends = [frame.at((from, roof.rate * from)), frame.at((to, peak))];
            frame.canvas.polyline(&ends, stroke(dashes[i % 4]));
            placer.avoid(&ends);
            let third =
                (ends[0].0 + (ends[1].0 - ends[0].0) * 0.3, ends[0].1 + (ends[1].1 - ends[0].1) * 0.3);
            labels.push((
                third,
                format!("{} {} GB/s", roof.name, crate::units::significant(roof.rate / 1e9, 4)),
            ));
        }
        for (i, roof) in self.compute.iter().enumerate() {
            let ends = [frame.at((roof.rate / stream, roof.rate)), frame.at((x1, roof.rate))];
            frame.canvas.polyline(&ends, stroke(dashes[i % 4]));
            placer.avoid(&ends);
            let near = (ends[0].0 + (ends[1].0 - ends[0].0) * 0.6, ends[0].1);
            labels.push((near, format!("{} {}", roof.name, Quantity::Flops.show(roof.rate, 4))));
        }
        for p in &self.points {
            let (x, y) = frame.at((p.intensity, p.rate));
            placer.block(crate::canvas::Rect { x0: x, y0: y, x1: x, y1: y }.grown(6.0));
        }
        for (at, text) in labels {
            self.label(frame, placer, at, &text, theme.ink(), Weight::Bold, false);
        }
    }

    /// Draws the points. Points with the same name and intensity are joined and named once. Each
    /// point has its percentage beside it.
    fn points(&self, frame: &mut Frame, placer: &mut Placer, kinds: &[&str], (peak, stream): (f64, f64)) {
        let theme = frame.theme();
        let mut groups: Vec<Vec<&RooflinePoint>> = vec![];
        for p in &self.points {
            let same = |g: &&mut Vec<&RooflinePoint>| g[0].name == p.name && g[0].intensity == p.intensity;
            match groups.iter_mut().find(same) {
                Some(group) => group.push(p),
                None => groups.push(vec![p]),
            }
        }
        for group in &mut groups {
            group.sort_by(|a, b| b.rate.total_cmp(&a.rate));
            let ends: Vec<(f64, f64)> = group.iter().map(|p| frame.at((p.intensity, p.rate))).collect();
            frame.canvas.polyline(&ends, solid(theme.axis(), 1.2));
            placer.avoid(&ends);
        }
        for p in &self.points {
            let kind = kinds.iter().position(|k| *k == p.kind).unwrap_or(0);
            frame.canvas.marker(frame.at((p.intensity, p.rate)), 4.6, theme.series(kind));
        }
        for p in &self.points {
            let roof = peak.min(stream * p.intensity);
            let text = Quantity::Percent.show(100.0 * p.rate / roof, 2);
            let at = frame.at((p.intensity, p.rate));
            self.label(frame, placer, at, &text, theme.ink(), Weight::Regular, true);
        }
        for group in &groups {
            let lowest = group[group.len() - 1];
            let at = frame.at((lowest.intensity, lowest.rate));
            self.label(frame, placer, at, &lowest.name, theme.ink(), Weight::Regular, true);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "what a label is")]
    fn label(
        &self,
        frame: &mut Frame,
        placer: &mut Placer,
        at: (f64, f64),
        text: &str,
        colour: &'static str,
        weight: Weight,
        leader: bool,
    ) {
        let size = (width(text, SMALL, weight) + 2.0, LINE);
        let placed =
            if leader { placer.place_led(at, size) } else { placer.place(at, size).map(|r| (r, None)) };
        let Some((place, end)) = placed else { return };
        if let Some(end) = end {
            frame.canvas.line(at, end, solid(frame.theme().axis(), 0.8));
        }
        let words = TextStyle { weight, colour, halo: true, ..frame.canvas.words(SMALL) };
        frame.canvas.text(place.x0 + 1.0, place.y1 - 4.0, text, words);
    }
}

/// Draws the markers of the categories in a line below the axis.
fn legend(frame: &mut Frame, kinds: &[&str]) {
    let mut x = frame.plot.x0 + 6.0;
    let mut y = frame.bottom + 16.0;
    for (i, kind) in kinds.iter().enumerate().filter(|k| !k.1.is_empty()) {
        let w = width(kind, SMALL, Weight::Regular) + 34.0;
        if x + w > frame.plot.x1 && i > 0 {
            x = frame.plot.x0 + 6.0;
            y += LINE + 3.0;
        }
        frame.canvas.marker((x, y - 4.0), 4.6, frame.theme().series(i));
        let words = frame.canvas.words(SMALL);
        frame.canvas.text(x + 10.0, y, kind, words);
        x += w;
    }
    let text = "percent: of the highest roof over the point";
    let words = TextStyle { colour: frame.theme().faint(), ..frame.canvas.words(SMALL) };
    frame.canvas.text(frame.plot.x0, y + LINE + 4.0, text, words);
    frame.bottom = y + LINE + 6.0;
}
