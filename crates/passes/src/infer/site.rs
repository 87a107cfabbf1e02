//! Agreement of operands: the dimensions of an operation as labels, and the placement with the
//! lightest changes.
//!
//! Every operation on whole tensors is a [`Site`]. The dimensions of its operands carry labels, and
//! equal labels must be cut alike. Labels of the result are its dimensions; other labels are
//! contracted (combined). [`resolve`] tries for each operand that its cuts are the ones that stay,
//! and takes the cheapest choice. Among equally cheap choices (an axis of one rank) it takes the
//! one that changes fewer bytes of operands, then that of the first operand.

use crate::reshard;
use kbc_ir::Name;
use kbc_ir::types::{Cut, Dim, Mesh, ReduceOp, TensorType};

/// The labelled dimensions of an operation.
#[derive(Debug)]
pub struct Site {
    /// Number of elements of each label.
    pub sizes: Vec<u64>,
    /// Labels of each operand's dimensions. None if a size of 1 is broadcast.
    pub operands: Vec<Vec<Option<usize>>>,
    /// Labels of the result's dimensions. None for a dimension that is kept with size 1.
    pub result: Vec<Option<usize>>,
    /// Labels that must not be cut.
    pub whole: Vec<usize>,
    /// The combiner over contracted labels that are cut.
    pub combine: ReduceOp,
}

/// The properties of an operand's placement, besides its cuts, that are kept.
#[derive(Clone, Copy, Debug)]
pub struct KeptPlacement {
    /// Whether it stays partial.
    pub partial: bool,
    /// Whether it stays with the coordinate that holds it.
    pub only: bool,
}

/// The chosen placements.
#[derive(Debug)]
pub struct Solution {
    /// The type each operand must have.
    pub targets: Vec<TensorType>,
    /// The cut of each label.
    pub cuts: Vec<Option<Cut>>,
    /// Axes over which the result is partial because a contracted label is cut.
    pub pending: Vec<Name>,
}

/// Chooses the cuts. *Freed* axes are those that operands give up (by a reduction or a broadcast).
/// `hint` states how later operations want the result to be cut, and applies to freed axes only.
pub fn resolve(
    mesh: &Mesh,
    site: &Site,
    have: &[(&TensorType, KeptPlacement)],
    hint: &[(usize, Cut)],
    result: &TensorType,
) -> Option<Solution> {
    let freed = |axis: &Name| {
        have.iter().any(|(ty, keep)| {
            !keep.partial && reshard::partial_over(ty, axis)
                || !keep.only && ty.only.as_ref().is_some_and(|o| o.1 == *axis)
        })
    };
    let mut best: Option<(Cost, Solution)> = None;
    for lead in 0..have.len() {
        let mut cuts: Vec<Option<Cut>> = vec![None; site.sizes.len()];
        let mut used: Vec<Name> = vec![];
        for (ty, keep) in have {
            used.extend(ty.partial.iter().filter(|_| keep.partial).flat_map(|p| p.1.clone()));
            used.extend(ty.only.iter().filter(|_| keep.only).map(|o| o.1.clone()));
        }
        let mut adopt = |label: usize, cut: &Cut| {
            if cuts[label].is_none()
                && !site.whole.contains(&label)
                && !cut.axes.iter().any(|a| used.contains(a))
            {
                used.extend(cut.axes.iter().cloned());
                cuts[label] = Some(cut.clone());
            }
        };
        for i in std::iter::once(lead).chain((0..have.len()).filter(|i| *i != lead)) {
            for (label, dim) in site.operands[i].iter().zip(&have[i].0.dims) {
                if let (Some(label), Some(cut)) = (label, &dim.cut) {
                    adopt(*label, cut);
                }
            }
        }
        for (label, cut) in hint {
            if cut.axes.iter().all(freed) {
                adopt(*label, cut);
            }
        }
        if let Some((cost, solution)) = price(mesh, site, have, cuts, result)
            && best.as_ref().is_none_or(|b| cost < b.0)
        {
            best = Some((cost, solution));
        }
    }
    best.map(|b| b.1)
}

/// Weight of the changes, and bytes of the operands that are changed.
type Cost = (u128, u128);

/// Returns the cost of a choice of cuts: changing the operands, and reducing the result if it
/// becomes partial. The reduction has to happen sooner or later, and without it every contraction
/// would appear free.
fn price(
    mesh: &Mesh,
    site: &Site,
    have: &[(&TensorType, KeptPlacement)],
    cuts: Vec<Option<Cut>>,
    result: &TensorType,
) -> Option<(Cost, Solution)> {
    let (mut cost, mut changed) = (0u128, 0u128);
    let mut targets = vec![];
    for ((ty, keep), labels) in have.iter().zip(&site.operands) {
        let cut = |label: &Option<usize>| label.and_then(|l| cuts[l].clone());
        let dims = ty.dims.iter().zip(labels).map(|(d, l)| Dim { size: d.size, cut: cut(l) }).collect();
        let target = TensorType {
            dtype: ty.dtype,
            dims,
            partial: ty.partial.clone().filter(|_| keep.partial),
            only: ty.only.clone().filter(|_| keep.only),
        };
        cost = cost.saturating_add(reshard::plan(mesh, ty, &target)?.weight);
        if target != **ty {
            changed += u128::from(ty.elements()) * u128::from(ty.dtype.bytes());
        }
        targets.push(target);
    }
    let contracted = |l: &usize| !site.result.contains(&Some(*l));
    let pending: Vec<Name> = (0..cuts.len())
        .filter(contracted)
        .filter_map(|l| cuts[l].as_ref())
        .flat_map(|c| c.axes.clone())
        .collect();
    if !pending.is_empty() {
        let mut whole = result.clone();
        for (dim, label) in whole.dims.iter_mut().zip(&site.result) {
            dim.cut = label.and_then(|l| cuts[l].clone());
        }
        let partial = TensorType { partial: Some((site.combine, pending.clone())), ..whole.clone() };
        cost = cost.saturating_add(reshard::plan(mesh, &partial, &whole)?.weight);
    }
    Some(((cost, changed), Solution { targets, cuts, pending }))
}
