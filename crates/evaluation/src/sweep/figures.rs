//! Figures of a sweep: which columns become which chart of [`kbc_figures`].
//!
//! This module owns the entries under `figures:` of a sweep file. `kbc_figures` owns the appearance
//! of charts.

use super::spec::{Read, place, scalar, wrong};
use super::table::{SweepLine, plain};
use crate::published::{Reference, in_ns};
use kbc_diag::Diagnostic;
use kbc_figures::algorithms::{Algorithms, Baseline};
use kbc_figures::latency::Latency;
use kbc_figures::matrix::{Matrix, MatrixCell};
use kbc_figures::memory::Memory;
use kbc_figures::published::{Published, PublishedPoint};
use kbc_figures::roofline::{self, Roof, Roofline};
use kbc_figures::scaling::{Measure, Scaling};
use kbc_figures::{Fault, Figure, Heading, Series, Theme};
use kbc_views::picture::fault;
use serde::Deserialize;
use serde_yaml::Value;
use std::collections::BTreeMap;

/// An entry of `figures:`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The kind of figure.
    figure: FigureKind,
    /// Name of its file; the default is the sweep's name and the kind.
    #[serde(default)]
    name: Option<String>,
    /// Title; the default is the sweep's title.
    #[serde(default)]
    title: Option<String>,
    /// Subtitle.
    #[serde(default)]
    subtitle: String,
    /// The column of the x axis; the default is `bytes`, and `ranks` for `scaling`.
    #[serde(default)]
    x: Option<String>,
    /// The column of times; the default is `time_ns`.
    #[serde(default)]
    time: Option<String>,
    /// Label of the x axis.
    #[serde(default)]
    x_label: Option<String>,
    /// The columns that distinguish series. Their values, joined by a space, are the name of a
    /// series.
    #[serde(default)]
    series: Vec<String>,
    /// A column; each of its values gets a figure of its own.
    #[serde(default)]
    each: Option<String>,
    /// Filter: only rows with one of these values in each column are drawn.
    #[serde(default)]
    only: BTreeMap<String, Vec<Value>>,
    /// For `algorithms`: the value of the series column that marks the rows in which kbc chose the
    /// algorithm.
    #[serde(default)]
    chosen: Option<String>,
    /// For `algorithms`: what times are divided by.
    #[serde(default)]
    against: Ratio,
    /// For `scaling`: the measure that is shown.
    #[serde(default)]
    measure: Shown,
    /// For `roofline`: roofs of arithmetic by name, in TFLOP/s.
    #[serde(default)]
    compute: BTreeMap<String, f64>,
    /// For `roofline`: roofs of memories by name, in GB/s.
    #[serde(default)]
    memory: BTreeMap<String, f64>,
    /// For `roofline`: the columns of floating-point operations and of bytes moved.
    #[serde(default)]
    work: Option<[String; 2]>,
    /// For `matrix`: a column; each of its values is a block of columns.
    #[serde(default)]
    blocks: Option<String>,
    /// For `published`: points from a file of published figures.
    #[serde(default)]
    published: Option<Points>,
    /// These points, once they are read.
    #[serde(skip)]
    points: Vec<PublishedPoint>,
}

/// Published times and their x values.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Points {
    /// The file, relative to the sweep file.
    reference: String,
    /// Names of figures with their x values.
    at: BTreeMap<String, f64>,
}

/// Kinds of figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FigureKind {
    Latency,
    Memory,
    Algorithms,
    Scaling,
    Roofline,
    Published,
    Matrix,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Ratio {
    #[default]
    Best,
    Bound,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shown {
    #[default]
    Time,
    Percent,
    Busbw,
}

/// A figure with the name of its file, without extension.
pub struct Drawn {
    /// The name.
    pub name: String,
    /// The figure.
    pub figure: Figure,
}

/// Reads the entries of a file.
///
/// # Errors
/// Returns E583 for an unknown kind, key or column.
pub fn entries(read: &Read, text: &str, columns: &[String]) -> Result<Vec<Entry>, Diagnostic> {
    let at = |word: &str| place(text, read.file, &["figures"], word);
    let mut out = vec![];
    for value in &read.spec.figures {
        let e: Entry = serde_yaml::from_value(value.clone()).map_err(|e| {
            kbc_frontend::machine::fault::fault(&e, &[])
                .message(wrong("", at("figures")))
                .note("in an entry of `figures`")
        })?;
        let named =
            e.x.iter()
                .chain(&e.time)
                .chain(&e.series)
                .chain(&e.each)
                .chain(&e.blocks)
                .chain(e.only.keys())
                .chain(e.work.iter().flatten());
        for column in named {
            if !columns.contains(column) {
                return Err(wrong(format!("a figure uses `{column}`, which is not a column"), at(column)));
            }
        }
        let own: [(&str, bool, FigureKind); 7] = [
            ("blocks", e.blocks.is_some(), FigureKind::Matrix),
            ("published", e.published.is_some(), FigureKind::Published),
            ("chosen", e.chosen.is_some(), FigureKind::Algorithms),
            ("against", e.against != Ratio::Best, FigureKind::Algorithms),
            ("measure", e.measure != Shown::Time, FigureKind::Scaling),
            ("compute", !e.compute.is_empty(), FigureKind::Roofline),
            ("memory", !e.memory.is_empty(), FigureKind::Roofline),
        ];
        if e.time.is_some() && e.figure == FigureKind::Scaling && e.measure != Shown::Time {
            return Err(wrong("`time` does not apply to this measure", at("measure")));
        }
        if let Some((key, ..)) = own.iter().find(|o| o.1 && o.2 != e.figure) {
            return Err(wrong(format!("`{key}` does not apply to this kind of figure"), at(key)));
        }
        if e.figure == FigureKind::Published && e.published.is_none() {
            return Err(wrong("a figure of published points needs the key `published`", at("published")));
        }
        if e.figure == FigureKind::Roofline && e.work.is_none() {
            return Err(wrong(
                "a roofline needs the key `work` with the columns of FLOP and bytes",
                at("roofline"),
            ));
        }
        out.push(e);
    }
    Ok(out)
}

/// Draws the figures of a file from the rows whose times are valid.
///
/// # Errors
/// Returns E590 for rows that cannot be drawn, because none is left or because a logarithmic axis
/// cannot show a value.
pub fn draw(
    read: &Read,
    stem: &str,
    entries: &[Entry],
    lines: &[SweepLine],
    theme: Theme,
) -> Result<Vec<Drawn>, Diagnostic> {
    let mut out: Vec<Drawn> = vec![];
    for e in entries {
        let kept: Vec<&SweepLine> = lines
            .iter()
            .filter(|l| ["right", "proven"].contains(&l.get("status").as_str().unwrap_or("")))
            .filter(|l| e.only.iter().all(|(column, values)| values.iter().any(|v| same(l.get(column), v))))
            .collect();
        let mut groups: Vec<(String, Vec<&SweepLine>)> = vec![];
        for l in kept {
            let key = e.each.as_ref().map_or(String::new(), |c| plain(l.get(c)));
            match groups.iter_mut().find(|g| g.0 == key) {
                Some(g) => g.1.push(l),
                None => groups.push((key, vec![l])),
            }
        }
        let base =
            e.name.clone().unwrap_or_else(|| format!("{stem}-{}", format!("{:?}", e.figure).to_lowercase()));
        if groups.is_empty() {
            return Err(fault(&base, &Fault::new("the selection leaves no row to draw")));
        }
        for (key, lines) in groups {
            let name = if key.is_empty() { base.clone() } else { format!("{base}-{key}") };
            let title = e.title.as_ref().unwrap_or(&read.spec.title);
            let title = if key.is_empty() { title.clone() } else { format!("{title}: {key}") };
            let heading = Heading::new(title, &e.subtitle).with_theme(theme);
            let figure = e.draw(heading, &lines).map_err(|f| fault(&name, &f))?;
            if out.iter().any(|d| d.name == name) {
                return Err(fault(&name, &Fault::new("there are two figures with this name")));
            }
            out.push(Drawn { name, figure });
        }
    }
    Ok(out)
}

/// Checks whether a cell equals a value of the file.
fn same(cell: &serde_json::Value, v: &Value) -> bool {
    scalar(v).is_some_and(|text| plain(cell) == text)
}

impl Entry {
    /// Returns the file of published figures whose points the figure shows, relative to the sweep
    /// file.
    pub fn reference(&self) -> Option<&str> {
        self.published.as_ref().map(|p| p.reference.as_str())
    }

    /// Takes the points that the figure shows from that file. The label of a point is its name up
    /// to the first comma.
    ///
    /// # Errors
    /// Returns the name of a figure that is not a published time.
    pub fn publish(&mut self, of: &Reference) -> Result<(), String> {
        for (name, x) in self.published.iter().flat_map(|p| &p.at) {
            let figure = of.figures.iter().find(|f| f.name == *name);
            let y = figure.and_then(|f| Some(f.published? * in_ns(&f.unit)?)).ok_or_else(|| name.clone())?;
            let name = name.split(',').next().unwrap_or(name).to_owned();
            self.points.push(PublishedPoint { name, x: *x, y });
        }
        Ok(())
    }

    fn x(&self) -> &str {
        let usual = if self.figure == FigureKind::Scaling { "ranks" } else { "bytes" };
        self.x.as_deref().unwrap_or(usual)
    }

    fn time(&self) -> &str {
        self.time.as_deref().unwrap_or("time_ns")
    }

    fn x_label(&self) -> String {
        self.x_label.clone().unwrap_or_else(|| self.x().replace('_', " "))
    }

    /// Returns the series to which a row belongs.
    fn of(&self, l: &SweepLine) -> String {
        let words: Vec<String> = self.series.iter().map(|c| plain(l.get(c))).collect();
        if words.is_empty() { "time".into() } else { words.join(" ") }
    }

    /// Returns rows as series of a column over x, in the order of the rows, with what limits them.
    fn series(&self, lines: &[&SweepLine], y: &str) -> Vec<Series> {
        let mut out: Vec<Series> = vec![];
        for l in lines {
            let (Some(x), Some(y)) = (l.number(self.x()), l.number(y)) else { continue };
            let name = self.of(l);
            if !out.iter().any(|s| s.name == name) {
                out.push(Series { name: name.clone(), ..Series::default() });
            }
            let Some(s) = out.iter_mut().find(|s| s.name == name) else { continue };
            s.points.push((x, y));
            if let Some(w) = l.get("limited_by").as_str() {
                s.bottleneck.push((x, w.to_owned()));
            }
        }
        out
    }

    /// Returns the bounds: one series if they are the same for all series, else one for each.
    /// Bounds of 0 are left out.
    fn bounds(&self, lines: &[&SweepLine]) -> Vec<Series> {
        let mut all = self.series(lines, "bound_ns");
        all.iter_mut().for_each(|s| {
            s.points.retain(|p| p.1 > 0.0);
            s.bottleneck.clear();
        });
        all.retain(|s| !s.points.is_empty());
        let mut different: Vec<Series> = vec![];
        for s in all {
            match different.iter_mut().find(|d| d.points == s.points) {
                Some(d) => d.name = format!("{}, {}", d.name, s.name),
                None => different.push(s),
            }
        }
        let one = different.len() == 1;
        for s in &mut different {
            s.name = if one { "bound".into() } else { format!("bound: {}", s.name) };
        }
        different
    }

    fn draw(&self, heading: Heading, lines: &[&SweepLine]) -> Result<Figure, Fault> {
        let x_label = self.x_label();
        match self.figure {
            FigureKind::Latency => Latency {
                heading,
                x_label,
                series: self.series(lines, self.time()),
                bounds: self.bounds(lines),
            }
            .draw(),
            FigureKind::Memory => {
                let mut kinds = self.series(lines, self.time());
                kinds.iter_mut().for_each(|s| s.bottleneck.clear());
                Memory { heading, x_label, kinds }.draw()
            }
            FigureKind::Scaling => {
                let (measure, y) = match self.measure {
                    Shown::Time => (Measure::Time, self.time()),
                    Shown::Percent => (Measure::Percent, "percent"),
                    Shown::Busbw => (Measure::Bandwidth, "busbw_gbs"),
                };
                let bounds = if measure == Measure::Time { self.bounds(lines) } else { vec![] };
                Scaling { heading, measure, series: self.series(lines, y), bounds }.draw()
            }
            FigureKind::Published => {
                let mut series = self.series(lines, self.time());
                series.iter_mut().for_each(|s| s.bottleneck.clear());
                Published { heading, x_label, series, points: self.points.clone() }.draw()
            }
            FigureKind::Algorithms => self.algorithms(heading, x_label, lines),
            FigureKind::Roofline => self.roofline(heading, lines),
            FigureKind::Matrix => {
                let cell = |l: &&SweepLine| {
                    Some(MatrixCell {
                        row: self.of(l),
                        block: self.blocks.as_ref().map_or(String::new(), |c| plain(l.get(c))),
                        column: plain(l.get(self.x())),
                        percent: l.number("percent")?,
                    })
                };
                Matrix { heading, cells: lines.iter().filter_map(cell).collect() }.draw()
            }
        }
    }

    /// Draws a curve for each algorithm that the sweep names. A row in which kbc chose the
    /// algorithm is marked on the curve of that algorithm, or gets its own curve if the sweep does
    /// not name it.
    fn algorithms(&self, heading: Heading, x_label: String, lines: &[&SweepLine]) -> Result<Figure, Fault> {
        let (own, asked): (Vec<&SweepLine>, Vec<&SweepLine>) =
            lines.iter().copied().partition(|l| self.chosen.as_ref().is_some_and(|c| self.of(l) == *c));
        let mut series = self.series(&asked, self.time());
        let mut chosen = vec![];
        for l in own {
            let (Some(x), Some(y)) = (l.number(self.x()), l.number(self.time())) else { continue };
            let algorithm = plain(l.get("algorithm"));
            let twin = asked
                .iter()
                .find(|a| a.number(self.x()) == Some(x) && plain(a.get("algorithm")) == algorithm);
            let name = twin.map_or(algorithm, |t| self.of(t));
            if twin.is_none() {
                match series.iter_mut().find(|s| s.name == name) {
                    Some(s) => s.points.push((x, y)),
                    None => series.push(Series::new(name.clone(), vec![(x, y)])),
                }
            }
            chosen.push((x, name));
        }
        series.iter_mut().for_each(|s| s.bottleneck.clear());
        let against = match (self.against, &self.bounds(lines)[..]) {
            (Ratio::Best, _) => Baseline::Best,
            (Ratio::Bound, [one]) => Baseline::Bound(one.points.clone()),
            (Ratio::Bound, _) => return Err(Fault::new("the rows have no common bound to divide by")),
        };
        Algorithms { heading, x_label, series, against, chosen }.draw()
    }

    fn roofline(&self, heading: Heading, lines: &[&SweepLine]) -> Result<Figure, Fault> {
        let Some([flop, bytes]) = &self.work else { return Err(Fault::new("there are no columns of work")) };
        let roofs = |of: &BTreeMap<String, f64>, unit: f64| {
            of.iter().map(|(name, rate)| Roof { name: name.clone(), rate: rate * unit }).collect()
        };
        let mut points = vec![];
        for l in lines {
            let (Some(flop), Some(bytes), Some(ns)) =
                (l.number(flop), l.number(bytes), l.number(self.time()))
            else {
                continue;
            };
            let kind = self.series.get(1).map_or(String::new(), |c| plain(l.get(c)));
            let name = self.series.first().map_or(String::new(), |c| plain(l.get(c)));
            points.push(roofline::RooflinePoint {
                name,
                intensity: flop / bytes,
                rate: flop / ns * 1e9,
                kind,
            });
        }
        Roofline { heading, compute: roofs(&self.compute, 1e12), memory: roofs(&self.memory, 1e9), points }
            .draw()
    }
}
