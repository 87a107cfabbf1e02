//! Quality of the selection of algorithms: compares the choice of `select` with the simulated time
//! of every legal algorithm, over a grid of collectives, machines and sizes that is drawn from a
//! seed.
//!
//! The module owns the grid, the comparison and the report.

use crate::fuzz;
use crate::fuzz::rng::Rng;
use kbc_compiler::report::amounts::{bytes, time};
use kbc_compiler::simulated::Simulated;
use kbc_diag::{Diagnostic, Diagnostics, FileId};
use kbc_frontend::loaded::Loaded;
use kbc_frontend::lower::{LowerOptions, lower};
use kbc_frontend::machine;
use kbc_ir::Module;
use kbc_machine::topology::Shape;
use kbc_passes::findings::select::{Selection, Verdict};
use kbc_passes::pipeline::Pipeline;
use kbc_passes::{PassCx, TimeModel};
use serde::Serialize;
use std::collections::BTreeMap;

/// A collective on a machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SelectionPoint {
    /// The collective.
    pub collective: String,
    /// The machine's shape.
    pub shape: String,
    /// Its ranks.
    pub ranks: u64,
    /// f32 elements of the whole vector.
    pub elements: u64,
    /// The machine, as a file.
    pub machine: String,
}

/// Result at a point.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Choice {
    /// Where.
    pub point: SelectionPoint,
    /// The algorithm that `select` chooses, and its simulated time in ns.
    pub chosen: (String, f64),
    /// The fastest algorithm, and its simulated time in ns.
    pub best: (String, f64),
    /// Algorithms that were simulated.
    pub candidates: usize,
    /// The algorithm that the cost model alone would choose, and its simulated time in ns.
    pub model: (String, f64),
}

impl Choice {
    /// Returns the time of the chosen algorithm divided by that of the fastest.
    pub fn ratio(&self) -> f64 {
        over(self.chosen.1, self.best.1)
    }

    /// Returns the same ratio for the choice of the model.
    pub fn model_ratio(&self) -> f64 {
        over(self.model.1, self.best.1)
    }
}

fn over(a: f64, best: f64) -> f64 {
    if best > 0.0 { a / best } else { 1.0 }
}

/// Draws a number from a to b, uniform on a logarithmic scale.
fn log(rng: &mut Rng, a: f64, b: f64) -> f64 {
    let part = rng.below(1 << 20) as f64 / (1 << 20) as f64;
    (a.ln() + (b.ln() - a.ln()) * part).exp()
}

/// Returns point number `k` of a seed: one of six collectives, on 2 to 64 ranks, on a ring, a full
/// graph, or a mesh or torus with two or three axes. Links have 1 to 400 GB/s and 50 ns to 10 us.
/// In half of the grids the last axis has another rate, up to 8 times faster or slower. In half of
/// the points the device has limits. Sizes are 1 KB to 1 GB.
pub fn point(seed: u64, k: u64) -> SelectionPoint {
    let mut rng = Rng::new(&[seed, k]);
    let collectives =
        ["all_reduce", "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce"];
    let collective = collectives[rng.below(collectives.len())].to_owned();
    let side = |rng: &mut Rng, most: f64| log(rng, 2.0, most + 1.0) as u64;
    let sides: Vec<u64> = match rng.below(5) {
        0 | 1 => vec![side(&mut rng, 64.0)],
        2 | 3 => vec![side(&mut rng, 8.0), side(&mut rng, 8.0)],
        _ => vec![side(&mut rng, 4.0), side(&mut rng, 4.0), side(&mut rng, 4.0)],
    };
    let list: Vec<u32> = sides.iter().map(|s| *s as u32).collect();
    let shape = match (&list[..], rng.below(2)) {
        ([n], 0) => Shape::Ring(*n),
        ([n], _) => Shape::Full(*n),
        (_, 0) => Shape::Torus(list),
        _ => Shape::Mesh(list),
    }
    .to_string();
    let (rate, latency) = (log(&mut rng, 1.0, 400.0), log(&mut rng, 50.0, 10_000.0));
    let mut machine = format!("shape: {shape}\nlink: {rate:.3} GB/s, {latency:.0} ns\n");
    if sides.len() > 1 && rng.below(2) == 0 {
        let other = rate * log(&mut rng, 1.0 / 8.0, 8.0);
        let axis = ["x", "y", "z"][sides.len() - 1];
        machine += &format!("links:\n  {axis}: {other:.3} GB/s, {latency:.0} ns\n");
    }
    if rng.below(2) == 0 {
        machine += "device: 100 TFLOP/s, 1.6 TB/s\n";
    }
    let elements = (log(&mut rng, 1e3, 1e9) / 4.0) as u64;
    SelectionPoint { collective, shape, ranks: sides.iter().product(), elements, machine }
}

/// Returns the program of a point.
fn program(p: &SelectionPoint) -> String {
    let n = p.elements;
    let (from, to, call) = match p.collective.as_str() {
        "all_reduce" => (format!("{n}] partial(sum@tp)"), format!("{n}]"), "all_reduce(x, sum, over: tp)"),
        "reduce_scatter" => {
            (format!("{n}] partial(sum@tp)"), format!("{n}@tp]"), "reduce_scatter(x, sum, dim: 0, over: tp)")
        }
        "all_gather" => (format!("{n}@tp]"), format!("{n}]"), "all_gather(x, dim: 0, over: tp)"),
        "all_to_all" => {
            let (rows, columns) = ((n / (p.ranks * p.ranks)).max(1) * p.ranks, p.ranks);
            (
                format!("{rows}@tp, {columns}]"),
                format!("{rows}, {columns}@tp]"),
                "all_to_all(x, from: 0, to: 1, over: tp)",
            )
        }
        "broadcast" => (format!("{n}] only(0@tp)"), format!("{n}]"), "broadcast(x, over: tp)"),
        _ => (format!("{n}] partial(sum@tp)"), format!("{n}] only(0@tp)"), "reduce(x, sum, to: 0, over: tp)"),
    };
    format!(
        "topology sys = {}\nmesh m = sys[tp]\nprogram f(x: f32[{from}) -> f32[{to} {{ {call} }}\n",
        Shape::Full(p.ranks as u32)
    )
}

/// Returns what `select` chooses with these options, and the time of the finished schedule in ns.
fn selected(loaded: &Loaded, machine: &str, options: &str) -> Result<(Selection, f64), Diagnostics> {
    let machine = Some(machine::read(machine, FileId::default())?);
    let lowered = lower(loaded, &LowerOptions { machine, ..LowerOptions::default() })?;
    let mut module: Module = lowered.module;
    let time = Simulated { topology: &lowered.topology };
    let cx = PassCx::new(&lowered.library, Some(&lowered.topology)).with_time(&time);
    let passes = format!("infer,place,select{options}");
    Pipeline::parse(&passes, FileId::default())?.run(&mut module, &cx, &mut [])?;
    Pipeline::named("lower")?.run(&mut module, &cx, &mut [])?;
    let ns = time.nanoseconds(&module)?;
    let table = cx.findings.into_inner().select;
    let none = || Diagnostic::error("E991", "a program with one collective has a choice to make");
    Ok((table.entries.into_iter().next().ok_or_else(none)?, ns))
}

/// Chooses an algorithm, and simulates every possible choice.
///
/// # Errors
/// Returns errors of lowering or of a pass, which no point of the grid should have.
pub fn compare(p: &SelectionPoint) -> Result<Choice, Diagnostics> {
    let loaded = fuzz::read(&program(p))?;
    let chosen = selected(&loaded, &p.machine, "")?;
    let model = selected(&loaded, &p.machine, "{by=model}")?;
    let (all, _) = selected(&loaded, &p.machine, "{by=time}")?;
    let timed = |s: &Selection| -> Vec<(String, f64)> {
        s.candidates
            .iter()
            .filter_map(|c| match &c.verdict {
                Verdict::Priced(price) => Some((c.call(), price.simulated?)),
                _ => None,
            })
            .collect()
    };
    let candidates = timed(&all).len();
    let [chosen, model] = [chosen, model].map(|(s, ns)| (s.call(), ns));
    // Options and arguments are tried for the best of each choice, which need not be the same.
    let simulated = [timed(&all), vec![chosen.clone(), model.clone()]].concat();
    let best = simulated.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let none = || Diagnostic::error("E991", "a program with one collective has a choice to make");
    Ok(Choice { point: p.clone(), chosen, best: best.ok_or_else(none)?, candidates, model })
}

/// Allowed ratio of the time of a choice to that of the best algorithm.
const ALLOWED: f64 = 1.05;

/// The choices of some points; it serialises to the JSON of `kbc dev bench select`.
#[derive(Serialize)]
pub struct BenchReport {
    seed: u64,
    /// Number of points.
    pub points: usize,
    /// Points at which the choice is within 5 % of the best.
    pub within: usize,
    /// The same for the cost model alone.
    model_within: usize,
    /// Largest ratio of a choice to the best.
    worst: f64,
    choices: Vec<Choice>,
}

impl BenchReport {
    /// Sums up the choices of a seed.
    pub fn new(seed: u64, choices: Vec<Choice>) -> BenchReport {
        let within = |ratio: fn(&Choice) -> f64| choices.iter().filter(|c| ratio(c) <= ALLOWED).count();
        BenchReport {
            seed,
            points: choices.len(),
            within: within(Choice::ratio),
            model_within: within(Choice::model_ratio),
            worst: choices.iter().map(Choice::ratio).fold(1.0, f64::max),
            choices,
        }
    }
}

/// Formats the report for people.
pub fn human(found: &BenchReport) -> String {
    let mut out = format!("seed {}, {} points\n", found.seed, found.points);
    let mut rows: BTreeMap<&str, Vec<&Choice>> = BTreeMap::new();
    for c in &found.choices {
        rows.entry(&c.point.collective).or_default().push(c);
    }
    out += "collective       points  within 5 %   worst  model alone  fastest, and how often\n";
    for (name, list) in rows {
        let within = list.iter().filter(|c| c.ratio() <= ALLOWED).count();
        let worst = list.iter().map(|c| c.ratio()).fold(1.0, f64::max);
        let model = list.iter().map(|c| c.model_ratio()).fold(1.0, f64::max);
        let mut best: BTreeMap<&str, usize> = BTreeMap::new();
        list.iter().for_each(|c| *best.entry(&c.best.0).or_default() += 1);
        let mut best: Vec<(&str, usize)> = best.into_iter().collect();
        best.sort_by_key(|(name, n)| (std::cmp::Reverse(*n), *name));
        let best: Vec<String> = best.iter().map(|(name, n)| format!("{name} {n}")).collect();
        let points = list.len();
        out +=
            &format!("{name:<16} {points:>6} {within:>11} {worst:>7.3} {model:>12.3}  {}\n", best.join(", "));
    }
    for c in found.choices.iter().filter(|c| c.ratio() > ALLOWED) {
        let p = &c.point;
        out += &format!(
            "{} of {} on {}: {} takes {}, {} {}: {:.3}\n",
            p.collective,
            bytes(p.elements * 4),
            p.machine.trim_end().replace('\n', "; "),
            c.chosen.0,
            time(c.chosen.1),
            c.best.0,
            time(c.best.1),
            c.ratio()
        );
    }
    out += &format!(
        "within 5 % of the best: {} of {}; by the cost model alone: {} of {}\n",
        found.within, found.points, found.model_within, found.points
    );
    out
}
