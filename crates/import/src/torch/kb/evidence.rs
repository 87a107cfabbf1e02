//! Evidence: what the data of an input says about its placement over one axis of the mesh.

use super::DataBeside;
use super::axes::Axes;
use super::lift::Lifted;
use super::placements::AxisPlacement;
use crate::torch::groups::World;

/// Evidence that the data of an input gives over an axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Evidence {
    /// There is no data.
    Nothing,
    /// The placement is declared.
    Declared(AxisPlacement),
    /// All ranks have the same data.
    Same,
    /// All ranks have the same data, with one repeated value.
    Uniform,
    /// Ranks have different data.
    Differs,
    /// At most one rank has data other than zeros.
    Alone,
}

/// Returns the evidence of an input's data over an axis.
pub fn evidence_of(
    world: &World,
    given: &DataBeside,
    axes: &Axes,
    axis: usize,
    it: &Lifted,
    stored: &[String],
    i: usize,
) -> Evidence {
    let (size, stride) = (axes.list[axis].size, axes.list[axis].stride as usize);
    let input = &it.inputs[i];
    let print = |at: usize| {
        let (key, _, _) = given.stored(at, &world.programs[at], input, stored)?;
        given.prints.get(at)?.get(&key).copied()
    };
    let all: Option<Vec<_>> = (0..world.programs.len()).map(print).collect();
    let Some(all) = all else { return Evidence::Nothing };
    let next = (0..all.len()).filter(|at| !(*at as u64 / stride as u64 + 1).is_multiple_of(size));
    if next.clone().all(|at| all[at] == all[at + stride]) {
        return if all[0].uniform.is_some() { Evidence::Uniform } else { Evidence::Same };
    }
    let lines = (0..all.len()).filter(|at| (*at as u64 / stride as u64).is_multiple_of(size));
    let alone = |first: usize| {
        (0..size as usize).filter(|k| all[first + k * stride].uniform != Some(0.0)).count() <= 1
    };
    if lines.clone().all(alone) { Evidence::Alone } else { Evidence::Differs }
}
