//! Whole pieces: path flows that carry a whole number of equal pieces of each demand.
//!
//! Flows are rounded pair by pair against the loads of all others, which are partly whole already
//! (the method of conditional expectations of Raghavan, J. Comput. Syst. Sci. 37, 1988, with the
//! potential of `equilibrium.rs`). Then single pieces change their paths while that lowers the
//! potential.

use crate::equilibrium::{CarriedPath, Equilibrium};

/// Powers of the potential (see `Equilibrium::set_power`) at which pieces change their paths, and
/// how often all pairs are visited at most with each. A low power evens out all loads, and a high
/// one only those near the largest.
const LEVELS: [(u32, usize); 4] = [(5, 3), (7, 3), (9, 4), (11, 6)];
/// Parts of a pair from which on each of the levels but the first is the first to be taken. The
/// finer the parts are, the smaller are the differences of loads that matter, and a lower power
/// would undo what the fractional flows have reached.
const FINE: [u64; 3] = [8, 64, 64];
/// Parts of one path that move in one visit, at most.
const MOVED: u64 = 8;
/// Change of the potential that is more than a rounding error. A full edge has the potential 1.
const LEAST_GAIN: f64 = 1e-12;

impl Equilibrium<'_> {
    /// Rounds the flow of each pair to whole parts of `1 / parts[pair]` of its demand.
    pub(crate) fn make_whole(&mut self, parts: &[u64]) {
        let coarsest = parts.iter().copied().min().unwrap_or(1);
        let first = FINE.iter().filter(|&&fine| coarsest >= fine).count();
        self.set_power(LEVELS[first].0);
        let (mut at, mut path) = (usize::MAX, vec![]);
        for (pair, &parts) in parts.iter().enumerate() {
            self.visit(pair, &mut at, &mut path);
            self.round(pair, parts, &path);
        }
        for &(squarings, visits) in &LEVELS[first..] {
            self.set_power(squarings);
            let mut visits = 0..visits;
            while visits.next().is_some() && self.move_parts(parts) {}
        }
    }

    /// Rounds the flow of one pair; `path` is its shortest path at present.
    fn round(&mut self, pair: usize, parts: u64, path: &[u32]) {
        let part = self.pairs[pair].demand / parts as f64;
        if self.pairs[pair].paths.iter().all(|p| p.edges != path) {
            self.pairs[pair].paths.push(CarriedPath { edges: path.to_vec(), amount: 0.0 });
        }
        let (mut left, number) = (parts, self.pairs[pair].paths.len());
        for i in 0..number {
            let amount = self.pairs[pair].paths[i].amount;
            // A sum of rounded numbers may be just below a whole one.
            let whole = ((amount / part + 1e-6).floor() as u64).min(left);
            left -= whole;
            self.add(pair, i, whole as f64 * part - amount);
            self.pairs[pair].paths[i].amount = whole as f64 * part;
        }
        for _ in 0..left {
            let rise = |i: usize| self.rise(&self.pairs[pair].paths[i].edges, part);
            let best = (0..number).map(|i| (rise(i), i)).min_by(|a, b| a.0.total_cmp(&b.0));
            self.add(pair, best.map_or(0, |b| b.1), part);
        }
        self.pairs[pair].paths.retain(|p| p.amount > 0.0);
    }

    /// Returns by how much the potential rises if a path carries more.
    fn rise(&self, path: &[u32], amount: f64) -> f64 {
        path.iter().map(|&e| self.potential(e as usize, amount) - self.potential(e as usize, 0.0)).sum()
    }

    /// Moves parts to other paths of their pairs where the potential falls. Returns whether any
    /// did.
    fn move_parts(&mut self, parts: &[u64]) -> bool {
        let (mut moved, mut at, mut path) = (false, usize::MAX, vec![]);
        for (pair, &parts) in parts.iter().enumerate() {
            self.visit(pair, &mut at, &mut path);
            if self.pairs[pair].paths.iter().all(|p| p.edges != path) {
                self.pairs[pair].paths.push(CarriedPath { edges: path.clone(), amount: 0.0 });
            }
            let part = self.pairs[pair].demand / parts as f64;
            let number = self.pairs[pair].paths.len();
            for from in 0..number {
                let most = (self.pairs[pair].paths[from].amount / part).round() as u64;
                for _ in 0..most.min(MOVED) {
                    let change_of = |to: usize| (self.change(pair, from, to, part), to);
                    let others = (0..number).filter(|&to| to != from);
                    let best = others.map(change_of).min_by(|a, b| a.0.total_cmp(&b.0));
                    let Some((_, to)) = best.filter(|b| b.0 < -LEAST_GAIN) else { break };
                    self.add(pair, from, -part);
                    self.add(pair, to, part);
                    moved = true;
                }
            }
            // Amounts are multiples of a part up to rounding.
            self.pairs[pair].paths.retain(|p| p.amount > 0.5 * part);
        }
        self.refresh();
        moved
    }

    /// Returns by how much the potential changes if an amount moves to another path of a pair.
    fn change(&mut self, pair: usize, from: usize, to: usize, amount: f64) -> f64 {
        let (less, more) = self.differing(pair, from, to);
        let change = self.rise(&less, -amount) + self.rise(&more, amount);
        (self.less, self.more) = (less, more);
        change
    }
}
