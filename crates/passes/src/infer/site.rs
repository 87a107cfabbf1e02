//! Where operands of one operation must agree: dimensions by label, and the placement that moves the fewest bytes.
//!
//! Every operation on whole tensors is a [`Site`]: its operands' dimensions carry labels, equal labels must be cut
//! alike, labels of the result are its dimensions, the others are contracted (combined). [`resolve`] tries what each
//! operand would make of it and takes the cheapest; of equally cheap ones (an axis of one rank) the one that changes
//! fewer bytes of operands, then that of the first operand.

use crate::reshard;
use kbc_ir::Name;
use kbc_ir::types::{Cut, Dim, Mesh, ReduceOp, TensorType};

/// The dimensions of an operation.
#[derive(Debug)]
pub struct Site {
    /// Elements, one a label.
    pub sizes: Vec<u64>,
    /// Labels of each operand's dimensions; none where a size of 1 is broadcast.
    pub operands: Vec<Vec<Option<usize>>>,
    /// Labels of the result's dimensions; none for one that is kept with size 1.
    pub result: Vec<Option<usize>>,
    /// Labels that may not be cut.
    pub whole: Vec<usize>,
    /// What combines over contracted labels that are cut.
    pub combine: ReduceOp,
}

/// What to keep of an operand's placement besides its cuts.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// It stays partial.
    pub partial: bool,
    /// It stays with the coordinate that holds it.
    pub only: bool,
}

/// What was chosen.
#[derive(Debug)]
pub struct Solution {
    /// The type each operand must have.
    pub targets: Vec<TensorType>,
    /// Cut of each label.
    pub cuts: Vec<Option<Cut>>,
    /// Axes over which the result is partial because a contracted label is cut.
    pub pending: Vec<Name>,
}

/// Chooses the cuts. `freed` axes are those that operands give up (reduced, broadcast); `hint` says how later
/// operations want the result to be cut, and is followed for freed axes only.
pub fn resolve(
    mesh: &Mesh,
    site: &Site,
    have: &[(&TensorType, Keep)],
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

/// What a choice of cuts costs: changing the operands, and reducing the result where it becomes partial (that must
/// be done sooner or later, and leaving it out would make every contraction look free).
fn price(
    mesh: &Mesh,
    site: &Site,
    have: &[(&TensorType, Keep)],
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
