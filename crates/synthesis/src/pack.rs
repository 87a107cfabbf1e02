//! Packing of trees in a network of members alone.
//!
//! Edmonds (1973): trees from several roots exist exactly if every set of nodes is entered by as
//! much capacity as the roots outside send. An edge may therefore be added to a tree if no set
//! loses what it still needs; some edge always may (Lovász, 1976; with multiplicities Schrijver
//! 2003, chapter 53, and Bérczi and Frank 2010). These papers test each edge by a maximum flow.
//! Here the tests are lazy, as cutting planes are: trees are grown against the sets that are known
//! to limit them, several trees are then tested together, and a test that fails returns sets to be
//! known from then on. Every set is a true limit, and the tests that pass are exact, so the trees
//! use the full rate, as those of the papers do. When few trees are left, many sets limit them;
//! where the lazy tests of a tree keep failing, its edges are tested one by one, as in the papers.
//!
//! Trees grow in breadth-first order, and each has the largest multiplicity that its root allows.

use crate::connectivity::{Connectivity, Supplied};
use crate::error::SynthesisError;
use crate::grow::{Growth, KnownSets, PackedTree, Remainder};
use fixedbitset::FixedBitSet;

/// Tests of a single tree that may fail before its edges are tested one by one. Few trees are left
/// then, and many sets limit them.
const PATIENCE: usize = 16;
/// The same, once edges have been tested one by one.
const LESS_PATIENCE: usize = 4;
/// Part of the edges below which those that are used up are left out: 4/5.
const FEWER: (usize, usize) = (4, 5);
/// Most trees between two tests, and most sets that one test returns.
const MOST_TREES: usize = 64;
const MOST_SETS: usize = 32;

/// Returns trees from every node v, `supplies[v]` of them counted with multiplicity, that together
/// use each edge (from, to) of `ends` at most `capacities` times.
pub(crate) fn pack(
    nodes: usize,
    ends: &[(usize, usize)],
    start: Remainder,
) -> Result<Vec<PackedTree>, SynthesisError> {
    const STEP: &str = "the packing of trees";
    let all: Vec<usize> = (0..nodes).collect();
    let mut check = Connectivity::new(nodes, ends, &all);
    let mut state = start;
    let mut known = KnownSets::new(nodes, ends);
    let mut done: Vec<PackedTree> = vec![];
    let mut turn = Turn { nodes, last: nodes - 1 };
    let (mut batch, mut failed, mut patience) = (1, 0, PATIENCE);
    // The number of each edge in the list that was given: edges that are used up are left out.
    let mut names: Vec<usize> = (0..ends.len()).collect();
    let named = |tree: PackedTree, names: &[usize]| PackedTree {
        edges: tree.edges.iter().map(|&e| names[e]).collect(),
        ..tree
    };
    while state.supplies.iter().any(|&s| s > 0) {
        let open = state.capacities.iter().filter(|c| **c > 0).count();
        if open * FEWER.1 < names.len() * FEWER.0 {
            let keep: Vec<usize> = (0..names.len()).filter(|&e| state.capacities[e] > 0).collect();
            names = keep.iter().map(|&e| names[e]).collect();
            state.capacities = keep.iter().map(|&e| state.capacities[e]).collect();
            let left: Vec<(usize, usize)> = names.iter().map(|&e| ends[e]).collect();
            known.set_edges(&left);
            check = Connectivity::new(nodes, &left, &all);
        }
        if failed >= patience {
            let Some(root) = turn.next(&state.supplies) else { break };
            let Growth::Tree(tree) = known.grow(root, &state, Some(&mut check)) else {
                return Err(SynthesisError::Inconsistent { step: STEP });
            };
            known.used(&tree);
            state.remove(&tree);
            done.push(named(tree, &names));
            (failed, patience) = (0, LESS_PATIENCE);
            continue;
        }
        let (saved, saved_slack, saved_turn) = (state.clone(), known.slack().to_vec(), turn);
        let mut trees: Vec<PackedTree> = vec![];
        let mut stuck = None;
        while trees.len() < batch {
            let Some(root) = turn.next(&state.supplies) else { break };
            match known.grow(root, &state, None) {
                Growth::Tree(tree) => {
                    known.used(&tree);
                    state.remove(&tree);
                    trees.push(tree);
                }
                Growth::Stuck { nodes, edges } => {
                    stuck = Some((root, nodes, edges));
                    break;
                }
            }
        }
        let sets = match stuck.filter(|_| trees.is_empty()) {
            // A part of a tree that nothing can be added to violates a set that is not known.
            Some((root, nodes, edges)) => {
                let mut part = state.clone();
                part.remove(&PackedTree { root, trees: 1, edges });
                violated(&mut check, &part, Some((&nodes, 1)))
            }
            None => violated(&mut check, &state, None),
        };
        if sets.is_empty() && !trees.is_empty() {
            done.extend(trees.into_iter().map(|t| named(t, &names)));
            (batch, failed, patience) = ((batch * 2).min(MOST_TREES), 0, PATIENCE);
            continue;
        }
        (state, turn) = (saved, saved_turn);
        known.restore(saved_slack);
        let before = known.count();
        for set in sets {
            known.add(set, &state);
        }
        if known.count() == before {
            return Err(SynthesisError::Inconsistent { step: STEP });
        }
        failed += usize::from(batch == 1);
        batch = (trees.len() / 4).max(1);
    }
    Ok(done)
}

fn violated(
    check: &mut Connectivity,
    state: &Remainder,
    growing: Option<(&[usize], u128)>,
) -> Vec<FixedBitSet> {
    let given = Supplied { capacities: &state.capacities, supplies: &state.supplies, growing };
    check.violated(&given, MOST_SETS)
}

/// The order of the roots: one after another, as long as they have trees left.
#[derive(Clone, Copy)]
struct Turn {
    nodes: usize,
    last: usize,
}

impl Turn {
    fn next(&mut self, supplies: &[u128]) -> Option<usize> {
        let after = (1..=self.nodes).map(|i| (self.last + i) % self.nodes);
        let root = after.into_iter().find(|&r| supplies[r] > 0)?;
        self.last = root;
        Some(root)
    }
}
