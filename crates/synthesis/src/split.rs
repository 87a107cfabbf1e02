//! Removal of switches: edges that meet at a node that only forwards become edges between members.
//!
//! A pair of edges (u, w) and (w, t) is replaced by an edge (u, t) that carries as many trees. The
//! theorem of Bang-Jensen, Frank and Jackson (1995): if as much capacity enters each switch as
//! leaves it, some partner t exists for every edge (u, w) such that every member can still receive
//! all trees. This module tests that with maximum flows. It first splits whole switches by a plan
//! and tests many splits at once. Splits only ever lower what can enter a set, so the longest part
//! of a plan that passes is found by bisection. The first split that does not pass is made as large
//! as possible, which leaves a *tight* set: no further split may lower what enters it. The next
//! plan respects it.

use crate::error::SynthesisError;
use crate::logical::{Logical, Splitting};
use crate::plan::Ports;

/// Removes every node that only forwards, and returns the replacements in order. All such nodes
/// must be balanced.
pub(crate) fn without_switches(logical: &mut Logical) -> Result<Vec<Splitting>, SynthesisError> {
    let mut degree = vec![0usize; logical.nodes];
    for &(u, v) in logical.edges.keys() {
        degree[u] += 1;
        degree[v] += 1;
    }
    let mut order: Vec<usize> =
        (0..logical.nodes).filter(|&v| degree[v] > 0 && logical.members.binary_search(&v).is_err()).collect();
    // Small ones first: a card between a device and a large switch is then already removed.
    order.sort_by_key(|&v| (degree[v], v));
    let (mut done, mut batch, mut at) = (vec![], 1, 0);
    while at < order.len() {
        let end = (at + batch).min(order.len());
        let mut next = logical.clone();
        let mut planned = vec![];
        for &w in &order[at..end] {
            let plan = Ports::of(&next, w).plan(&next.tight);
            next.apply(&plan);
            planned.extend(plan);
        }
        if next.violated().is_none() {
            *logical = next;
            done.extend(planned);
            at = end;
            batch *= 2;
        } else if batch > 1 {
            batch = 1;
        } else {
            remove(logical, order[at], &mut done)?;
            at += 1;
        }
    }
    Ok(done)
}

/// Removes a node for which the first plan did not pass.
fn remove(logical: &mut Logical, w: usize, done: &mut Vec<Splitting>) -> Result<(), SynthesisError> {
    loop {
        let plan = Ports::of(logical, w).plan(&logical.tight);
        if plan.is_empty() {
            break;
        }
        let passes = |n: usize| {
            let mut next = logical.clone();
            next.apply(&plan[..n]);
            next.violated().is_none()
        };
        let (mut good, mut bad) = (0, plan.len() + 1);
        // A plan that meets an unknown tight set often fails early, so the first tests are short.
        let mut step = 1;
        while bad - good > 1 {
            let n = (good + step).min((good + bad) / 2);
            if passes(n) {
                (good, step) = (n, step * 2);
            } else {
                (bad, step) = (n, 1);
            }
        }
        logical.apply(&plan[..good]);
        done.extend_from_slice(&plan[..good]);
        if let Some(&first) = plan.get(good) {
            let (trees, limit) =
                logical.largest(first.trees, |l, trees| l.apply(&[Splitting { trees, ..first }]));
            logical.apply(&[Splitting { trees, ..first }]);
            if trees > 0 {
                done.push(Splitting { trees, ..first });
            }
            logical.tight.extend(limit);
        }
    }
    match logical.balance(w) {
        (0, 0) => Ok(()),
        (entering, leaving) => Err(SynthesisError::UnbalancedSwitch { node: w, entering, leaving }),
    }
}
