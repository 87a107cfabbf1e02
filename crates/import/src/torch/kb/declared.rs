//! Declared placements, and placements that are not trusted without a declaration.
//!
//! This module owns the interpretation of placements of inputs and results in `groups.json`, and
//! two checks of inferred placements: results that are split without a declaration, and constants
//! that differ between ranks.

use super::axes::Axes;
use super::consts::Const;
use super::graph::NodeOp;
use super::lift::{Input, Lifted};
use super::moved;
use super::placements::AxisPlacement;
use super::rank_differences::Differing;
use crate::torch::groups::World;
use crate::torch::model::{Placement, Role};
use kbc_diag::Diagnostic;
use std::collections::BTreeMap;

/// Returns the placements that tables declare for inputs, by index of the input.
pub(super) fn declared(
    world: &World,
    it: &Lifted,
    axes: &Axes,
) -> Result<BTreeMap<usize, Vec<AxisPlacement>>, Diagnostic> {
    let stored = world.args.first().map_or(&[][..], Vec::as_slice);
    let mut out = BTreeMap::new();
    let wrong = |what: String| Err(Diagnostic::error("E530", what));
    for (name, by) in &world.declared {
        let is = |i: &Input| {
            i.name == *name
                || super::called(i, stored) == Some(name)
                || super::aliases(&i.name).contains(name)
                || matches!(&i.role, Role::Weight(w) if w == name)
        };
        let Some(i) = it.inputs.iter().position(is) else {
            let names: Vec<&str> = it.inputs.iter().map(|i| &*i.name).collect();
            return wrong(format!(
                "there is a placement for `{name}`, which is not one of the inputs {}",
                names.join(", ")
            ));
        };
        let rank = world.programs[0].meta(it.inputs[i].value).map_or(0, |m| m.sizes.len());
        if by.len() != axes.list.len() {
            return wrong(format!(
                "`{name}` has {} placements, and the mesh has {} dimensions",
                by.len(),
                axes.list.len()
            ));
        }
        if let Some(Placement::Split(d)) = by.iter().find(|p| matches!(p, Placement::Split(d) if *d >= rank))
        {
            return wrong(format!(
                "`{name}` is declared as split along dimension {d}, and it has {rank} dimensions"
            ));
        }
        out.insert(i, by.iter().map(place_of).collect());
    }
    if let Some(by) = world.results.iter().find(|by| by.len() != axes.list.len()) {
        return wrong(format!(
            "a result has {} placements, and the mesh has {} dimensions",
            by.len(),
            axes.list.len()
        ));
    }
    Ok(out)
}

/// Converts a placement of PyTorch into one of the search.
pub(super) fn place_of(p: &Placement) -> AxisPlacement {
    match p {
        Placement::Replicated => AxisPlacement::Whole,
        Placement::Split(d) => AxisPlacement::Split(*d),
        Placement::Partial(how) => AxisPlacement::Partial(match how.as_str() {
            "max" => "max",
            "min" => "min",
            "product" => "prod",
            _ => "sum",
        }),
    }
}

/// Reports results that are split although nothing confirms it: neither a declaration nor an input
/// that is split in the same way.
pub(super) fn undeclared(
    world: &World,
    it: &Lifted,
    axes: &Axes,
    found: &[Vec<Option<AxisPlacement>>],
) -> Vec<String> {
    let mut out = vec![];
    let inputs = || {
        it.graph.nodes.iter().enumerate().filter_map(|(n, node)| match node.op {
            NodeOp::Input(i) => Some((n, node, &it.inputs[i])),
            _ => None,
        })
    };
    for (n, place) in it.outputs.iter().filter(|o| world.results.get(o.1).is_none()) {
        for (a, f) in axes.list.iter().zip(found) {
            let Some(AxisPlacement::Split(d)) = f[*n] else { continue };
            let sizes = &it.graph.nodes[*n].sizes;
            let alike = inputs().any(|(m, node, input)| {
                let same = f[m] == Some(AxisPlacement::Split(d)) && node.sizes.len() == sizes.len();
                // Either rows that come in and go out, or a weight that the program updates.
                same && (input.role == Role::User && node.sizes[d] == sizes[d] || node.sizes == *sizes)
            });
            if !alike {
                out.push(format!(
                    "result {place} is split along {d} over {}, and no input is; if this is intended, declare it as `out_placements` in groups.json",
                    a.name
                ));
            }
        }
    }
    out
}

/// Reports constants that differ between ranks and follow a formula on each rank, but not once they
/// are assembled. Typically the first value on some rank is wrong.
pub(super) fn irregular(
    world: &World,
    all: &[Lifted],
    differing: &Differing,
    axes: &Axes,
    found: &[Vec<Option<AxisPlacement>>],
) -> Vec<String> {
    let mut out = vec![];
    for (n, by) in &differing.constants {
        for (a, f) in axes.list.iter().zip(found) {
            let Some(AxisPlacement::Split(d)) = f[*n] else { continue };
            let ranks = (0..a.size as usize).map(|k| k * a.stride as usize);
            let parts: Vec<Const> = ranks
                .filter_map(|at| Some(all.get(at)?.graph.constants.get(*by.get(at)?)?.1.clone()))
                .collect();
            let Some(mut sizes) = parts.first().map(|c| c.sizes.clone()) else { continue };
            sizes[d] = parts.iter().map(|c| c.sizes[d]).sum();
            let large = parts.iter().all(|c| c.sizes.iter().product::<i64>() > 2);
            let whole = moved::together(parts[0].dtype, &sizes, d, &parts);
            if large && parts.iter().all(Const::regular) && whole.is_ok_and(|c| !c.regular()) {
                let user = all[0].graph.nodes.iter().find(|u| u.uses().any(|m| m == *n));
                let place =
                    user.map_or_else(String::new, |u| format!(" ({})", world.programs[0].place(u.of)));
                out.push(format!(
                    "constants of the ranks of {} depend on their position on each rank, and the assembled constant does not{place}",
                    a.name
                ));
            }
        }
    }
    out
}
