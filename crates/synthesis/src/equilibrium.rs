//! Equilibrium: flows along paths that balance the loads of edges.
//!
//! The flows descend on a potential: the sum of `(load / capacity)^p` over all edges. For large p
//! its least value is at flows whose most loaded edge has nearly as little load as possible. Its
//! derivatives are lengths of edges, and at the minimum all demand takes shortest paths. The steps
//! are those of path equilibration in traffic assignment (Jayakrishnan, Tsai, Prashker and
//! Rajadhyaksha, Transportation Research Record 1443, 1994): a pair gains its shortest path, and
//! flow shifts from longer paths to it by a Newton step. Multiplicative weights (Garg and Konemann;
//! Fleischer) use lengths of this kind with steps of fixed size.

use crate::paths::{EdgeTable, ShortestPaths};

/// A path and what it carries, in units of demand.
#[derive(Clone)]
pub(crate) struct CarriedPath {
    pub(crate) edges: Vec<u32>,
    pub(crate) amount: f64,
}

impl CarriedPath {
    /// Returns how many of the equal parts of a demand the path carries.
    pub(crate) fn parts(&self, demand: f64, parts: u64) -> u64 {
        (self.amount / demand * parts as f64).round() as u64
    }
}

/// The paths of a pair of members.
#[derive(Clone)]
pub(crate) struct PairPaths {
    pub(crate) source: usize,
    pub(crate) destination: usize,
    pub(crate) demand: f64,
    pub(crate) paths: Vec<CarriedPath>,
}

/// Largest length of an edge in whole numbers. Paths of 2^24 edges stay below 2^64.
const LONGEST: f64 = (1u64 << 36) as f64;
/// Share of the length at full use that an unused edge has, so that detours cost something.
const FLOOR: f64 = 1e-8;

/// How often a step is halved at most.
const HALVINGS: usize = 12;

/// Flows, loads and lengths.
pub(crate) struct Equilibrium<'a> {
    table: &'a EdgeTable,
    pub(crate) capacities: Vec<f64>,
    pub(crate) pairs: Vec<PairPaths>,
    loads: Vec<f64>,
    /// The power is `2^squarings + 2`.
    squarings: u32,
    /// Load per capacity that counts as 1.
    full: f64,
    /// Smallest capacity: the edge with the longest length at full use.
    least: f64,
    /// First and second derivative of the potential of each edge.
    lengths: Vec<f64>,
    slopes: Vec<f64>,
    /// Lengths in whole numbers, for shortest paths.
    whole: Vec<u64>,
    /// Edges of the path to which flow shifts, by the number of the shift.
    marks: Vec<u64>,
    mark: u64,
    /// Room for the edges in which two paths differ.
    pub(crate) less: Vec<u32>,
    pub(crate) more: Vec<u32>,
    search: ShortestPaths,
}

impl<'a> Equilibrium<'a> {
    /// Returns flows for pairs that are ordered by source and may have no paths yet.
    pub(crate) fn new(table: &'a EdgeTable, capacities: Vec<f64>, pairs: Vec<PairPaths>) -> Equilibrium<'a> {
        let edges = table.len();
        let least = capacities.iter().copied().fold(f64::INFINITY, f64::min);
        let mut flows = Equilibrium {
            table,
            capacities,
            pairs,
            loads: vec![0.0; edges],
            squarings: 1,
            full: 1.0,
            least,
            lengths: vec![0.0; edges],
            slopes: vec![0.0; edges],
            whole: vec![0; edges],
            marks: vec![0; edges],
            mark: 0,
            less: vec![],
            more: vec![],
            search: ShortestPaths::default(),
        };
        flows.refresh();
        flows
    }

    /// Sets the power to `2^squarings + 2` and computes loads and lengths anew.
    pub(crate) fn set_power(&mut self, squarings: u32) {
        self.squarings = squarings;
        self.refresh();
    }

    /// Computes loads from the paths, without the rounding errors of many steps, and lengths. The
    /// most loaded edge counts as full.
    pub(crate) fn refresh(&mut self) {
        self.loads.fill(0.0);
        for path in self.pairs.iter().flat_map(|p| &p.paths) {
            path.edges.iter().for_each(|&e| self.loads[e as usize] += path.amount);
        }
        let most = self.most();
        self.full = if most > 0.0 { most } else { self.mean() };
        (0..self.loads.len()).for_each(|e| self.measure(e));
    }

    /// Returns the largest load per capacity.
    pub(crate) fn most(&self) -> f64 {
        self.loads.iter().zip(&self.capacities).map(|(l, c)| l / c).fold(0.0, f64::max)
    }

    /// Returns the load per capacity that all demand has on average on its shortest paths, which
    /// no flow is below.
    fn mean(&mut self) -> f64 {
        for (whole, c) in self.whole.iter_mut().zip(&self.capacities) {
            *whole = (self.least / c * LONGEST).ceil() as u64;
        }
        let (capacity, demand) = self.bound();
        if capacity > 0.0 && demand > 0.0 { demand / capacity } else { 1.0 }
    }

    /// Returns the sum of capacity times length, and that of demand times distance.
    pub(crate) fn bound(&mut self) -> (f64, f64) {
        let capacity = self.capacities.iter().zip(&self.whole).map(|(c, &l)| c * l as f64).sum();
        let (mut demand, mut at) = (0.0, usize::MAX);
        for pair in &self.pairs {
            if pair.source != at {
                at = pair.source;
                self.search.search(self.table, &self.whole, at);
            }
            demand += pair.demand * self.search.distance[pair.destination] as f64;
        }
        (capacity, demand)
    }

    pub(crate) fn whole_lengths(&self) -> &[u64] {
        &self.whole
    }

    /// Returns `x^(power - 2)`.
    fn raised(&self, x: f64) -> f64 {
        (0..self.squarings).fold(x, |y, _| y * y)
    }

    /// Computes the length of an edge from its load.
    fn measure(&mut self, edge: usize) {
        let c = self.capacities[edge];
        let x = (self.loads[edge] / (c * self.full)).max(0.0);
        let raised = self.raised(x);
        let power = ((1u64 << self.squarings) + 2) as f64;
        self.lengths[edge] = (raised * x + FLOOR) / c;
        self.slopes[edge] = (power - 1.0) * raised / (c * c * self.full);
        let length = self.lengths[edge] * self.least * (LONGEST / 4.0);
        self.whole[edge] = (length.min(LONGEST) as u64).max(1);
    }

    pub(crate) fn add(&mut self, pair: usize, path: usize, amount: f64) {
        let edges = std::mem::take(&mut self.pairs[pair].paths[path].edges);
        for &e in &edges {
            self.loads[e as usize] += amount;
            self.measure(e as usize);
        }
        self.pairs[pair].paths[path].edges = edges;
        self.pairs[pair].paths[path].amount += amount;
    }

    /// Returns the potential of an edge with more load.
    pub(crate) fn potential(&self, edge: usize, more: f64) -> f64 {
        let x = ((self.loads[edge] + more) / (self.capacities[edge] * self.full)).max(0.0);
        self.raised(x) * x * x
    }

    /// Writes the shortest path of a pair. `at` is the source of the last search, which serves all
    /// its pairs.
    pub(crate) fn visit(&mut self, pair: usize, at: &mut usize, path: &mut Vec<u32>) {
        if self.pairs[pair].source != *at {
            *at = self.pairs[pair].source;
            self.search.search(self.table, &self.whole, *at);
        }
        self.search.path(self.table, self.pairs[pair].destination, path);
    }

    /// Gives every pair its shortest path and shifts flow, once for all pairs.
    pub(crate) fn sweep(&mut self) {
        let (mut at, mut path) = (usize::MAX, vec![]);
        for pair in 0..self.pairs.len() {
            self.visit(pair, &mut at, &mut path);
            self.offer(pair, &path);
            self.shift(pair);
        }
        self.refresh();
    }

    /// Returns how many edges a sweep visits, about.
    pub(crate) fn effort(&self) -> u64 {
        let sources = self.pairs.chunk_by(|a, b| a.source == b.source).count();
        let paths = self.pairs.iter().flat_map(|p| &p.paths).map(|p| p.edges.len()).sum::<usize>();
        (sources * self.loads.len() + paths) as u64
    }

    /// Shifts flow among the paths that pairs have.
    pub(crate) fn settle(&mut self) {
        (0..self.pairs.len()).for_each(|pair| self.shift(pair));
        self.refresh();
    }

    /// Adds a path to those of a pair if it is new and shorter. The first carries all.
    fn offer(&mut self, pair: usize, path: &[u32]) {
        let paths = &self.pairs[pair].paths;
        if paths.is_empty() {
            self.pairs[pair].paths.push(CarriedPath { edges: path.to_vec(), amount: 0.0 });
            let demand = self.pairs[pair].demand;
            self.add(pair, 0, demand);
            return;
        }
        let length = self.length(path);
        if paths.iter().all(|p| self.length(&p.edges) > length * (1.0 + 1e-9)) {
            self.pairs[pair].paths.push(CarriedPath { edges: path.to_vec(), amount: 0.0 });
        }
    }

    fn length(&self, path: &[u32]) -> f64 {
        path.iter().map(|&e| self.lengths[e as usize]).sum()
    }

    /// Shifts flow of a pair to its shortest path.
    fn shift(&mut self, pair: usize) {
        let paths = &self.pairs[pair].paths;
        if paths.len() < 2 {
            return;
        }
        let shortest = (0..paths.len())
            .min_by(|&a, &b| self.length(&paths[a].edges).total_cmp(&self.length(&paths[b].edges)))
            .unwrap_or(0);
        for from in 0..paths.len() {
            let held = self.pairs[pair].paths[from].amount;
            if from == shortest || held <= 0.0 {
                continue;
            }
            let mut amount = self.step(pair, from, shortest).min(held);
            // What is left of a path that carries next to nothing is not worth a message.
            if held - amount < 1e-9 * self.pairs[pair].demand {
                amount = held;
            }
            if amount > 0.0 {
                self.add(pair, shortest, amount);
                self.add(pair, from, -amount);
            }
        }
        self.pairs[pair].paths.retain(|p| p.amount > 0.0);
    }

    /// Returns the amount by which a Newton step shifts flow of a pair from one path to another.
    fn step(&mut self, pair: usize, from: usize, to: usize) -> f64 {
        let held = self.pairs[pair].paths[from].amount;
        let (less, more) = self.differing(pair, from, to);
        let sum = |values: &[f64], edges: &[u32]| edges.iter().map(|&e| values[e as usize]).sum::<f64>();
        let gain = sum(&self.lengths, &less) - sum(&self.lengths, &more);
        let slope = sum(&self.slopes, &less) + sum(&self.slopes, &more);
        let mut amount = 0.0;
        if gain > 0.0 {
            amount = if slope * held > gain { gain / slope } else { held };
            // A path with little load has a small slope, but may become the longer one far sooner
            // than the slope says.
            let changed = |e: u32, by: f64| {
                let c = self.capacities[e as usize];
                let x = ((self.loads[e as usize] + by) / (c * self.full)).max(0.0);
                self.raised(x) * x / c
            };
            let overshoots = |amount: f64| {
                let from: f64 = less.iter().map(|&e| changed(e, -amount)).sum();
                let to: f64 = more.iter().map(|&e| changed(e, amount)).sum();
                to > from && to > gain
            };
            let mut halvings = 0;
            while halvings < HALVINGS && overshoots(amount) {
                amount *= 0.5;
                halvings += 1;
            }
        }
        (self.less, self.more) = (less, more);
        amount
    }

    /// Returns the edges that only the first and only the second path of a pair takes.
    pub(crate) fn differing(&mut self, pair: usize, from: usize, to: usize) -> (Vec<u32>, Vec<u32>) {
        let (from, to) = (&self.pairs[pair].paths[from].edges, &self.pairs[pair].paths[to].edges);
        let (mut less, mut more) = (std::mem::take(&mut self.less), std::mem::take(&mut self.more));
        less.clear();
        more.clear();
        self.mark += 2;
        to.iter().for_each(|&e| self.marks[e as usize] = self.mark);
        for &e in from {
            if self.marks[e as usize] == self.mark {
                self.marks[e as usize] += 1;
            } else {
                less.push(e);
            }
        }
        more.extend(to.iter().copied().filter(|&e| self.marks[e as usize] == self.mark));
        (less, more)
    }
}
