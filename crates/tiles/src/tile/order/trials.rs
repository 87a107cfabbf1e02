//! Trials of the order analysis: which operations of a kernel its order does not need.
//!
//! A kernel is walked once with all its operations. A trial walks it without some of them, from the
//! statement that contains the first one. It ends at the first statement with a new finding, or
//! after which the state is the one that was known there: what follows has the known findings.

use super::super::Kernel;
use super::super::hazard::Node;
use super::super::path::Path;
use super::faults::Finding;
use super::state::State;
use super::walk::{Facts, Walk, left};
use std::collections::{BTreeMap, BTreeSet};

/// A kernel of which operations can be left out.
pub struct Trials<'k> {
    facts: Facts<'k>,
    /// Sites by the path of their operation. An operation of a loop whose tiles take turns has two.
    sites: BTreeMap<Path, Vec<usize>>,
    /// The statements of the kernel that have operations, with what is known about each.
    steps: Vec<Step>,
    /// Finding at the end of the kernel.
    end: Option<Finding>,
}

/// A statement of a kernel that has been walked.
struct Step {
    before: State,
    after: State,
    found: BTreeSet<Finding>,
}

impl<'k> Trials<'k> {
    /// Analyses a kernel with all its operations.
    pub fn new(kernel: &'k Kernel) -> Trials<'k> {
        let facts = Facts::new(kernel);
        let mut sites: BTreeMap<Path, Vec<usize>> = BTreeMap::new();
        for (number, site) in facts.program.sites.iter().enumerate() {
            sites.entry(site.path.clone()).or_default().push(number);
        }
        let (mut steps, mut state) = (vec![], State::default());
        for node in &facts.program.root {
            let step = facts.step(node, state);
            state = step.after.clone();
            steps.push(step);
        }
        Trials { facts, sites, steps, end: left(state) }
    }

    /// Leaves operations out if that has no finding but those that are there with them and those
    /// that are `allowed`. Returns whether the operations were left out.
    pub fn leave_out(&mut self, operations: &[&Path], allowed: impl Fn(&Finding) -> bool) -> bool {
        let sites: Vec<usize> =
            operations.iter().filter_map(|p| self.sites.get(*p)).flatten().copied().collect();
        let Some(first) = sites.iter().min().and_then(|s| self.statement(*s)) else { return false };
        sites.iter().for_each(|s| self.facts.absent[*s] = true);
        let last = sites.iter().max().and_then(|s| self.statement(*s)).unwrap_or(first);
        let fits = self.walk(first, last, allowed);
        if !fits {
            sites.iter().for_each(|s| self.facts.absent[*s] = false);
        }
        fits
    }

    /// Returns the statement that contains a site.
    fn statement(&self, site: usize) -> Option<usize> {
        let root = &self.facts.program.root;
        let at = root.partition_point(|node| node.sites().end <= site);
        (at < root.len()).then_some(at)
    }

    /// Walks the kernel from statement `first` on, at least up to statement `last`, to the end or
    /// to a known state. Keeps what it learns and returns true, unless a finding is new.
    fn walk(&mut self, first: usize, last: usize, allowed: impl Fn(&Finding) -> bool) -> bool {
        let mut steps = vec![];
        let mut state = self.steps[first].before.clone();
        let mut known = false;
        for (at, old) in self.steps.iter().enumerate().skip(first) {
            let step = self.facts.step(&self.facts.program.root[at], state);
            if !step.found.iter().all(|f| old.found.contains(f) || allowed(f)) {
                return false;
            }
            known = at >= last && step.after == old.after;
            state = step.after.clone();
            steps.push(step);
            if known {
                break;
            }
        }
        if !known {
            let end = left(state);
            if !end.iter().all(|f| self.end.as_ref() == Some(f) || allowed(f)) {
                return false;
            }
            self.end = end;
        }
        let changed = first..first + steps.len();
        self.steps.splice(changed, steps);
        true
    }
}

impl Facts<'_> {
    /// Walks one statement.
    fn step(&self, node: &Node, before: State) -> Step {
        let mut walk = Walk { facts: self, found: BTreeSet::new() };
        let after = walk.block(std::slice::from_ref(node), before.clone());
        Step { before, after, found: walk.found }
    }
}
