//! Graphs of DTensors as global programs, whose types have placements.

use super::axes::{Axes, Axis};
use super::lift::{Counts, Mode, translate};
use super::names::word;
use super::{DataBeside, Kb, Out, machine};
use crate::torch::groups::World;
use crate::torch::model::Program;
use kbc_diag::{Diagnostic, Diagnostics};
use std::collections::BTreeMap;

/// Writes the text of a graph of DTensors on a mesh; `name` is the name of the program and of
/// its data files.
///
/// # Errors
/// Returns E550 to E553 for what cannot be expressed.
pub fn write(
    program: Program,
    mesh: &[(String, u64)],
    args: Vec<String>,
    name: &str,
    given: &DataBeside,
) -> Result<Kb, Diagnostics> {
    let mut stride = mesh.iter().map(|m| m.1).product();
    let list = mesh
        .iter()
        .map(|(name, size)| {
            stride /= size;
            Axis { name: word(name), size: *size, stride }
        })
        .collect();
    let axes = Axes { list };
    let used = program.written.placements.values().map(Vec::len).max().unwrap_or(0);
    if used != mesh.len() {
        let what = format!("values have {used} placements, and the mesh has {} dimensions", mesh.len());
        return Err(Diagnostic::error("E530", what).note(program.file).into());
    }
    let collective = program.nodes.iter().position(|n| n.op.rule.is_collective());
    if let Some(n) = collective {
        let what = "a graph of DTensors cannot contain a collective: its placements define the communication";
        return Err(Diagnostic::error("E550", what).primary(program.span(n), "here").into());
    }
    let world = World {
        size: 1,
        programs: vec![program],
        groups: vec![BTreeMap::new()],
        axes: vec![BTreeMap::new()],
        args: vec![args],
        said: true,
        declared: BTreeMap::new(),
        results: vec![],
    };
    let it = translate(&world, 0, &axes, &Counts::new(), Mode::default())?;
    let mut out = Out::new(name, given, &axes, &world.programs);
    let body = out.part(0, &world.programs[0], &world.args[0], it);
    if out.found.has_errors() {
        return Err(out.found);
    }
    let text = format!(
        "// Made by kbc import from a graph of DTensors.\n\n{}\nprogram {} {body}\n",
        machine(&axes),
        word(name)
    );
    Ok(out.kb(text))
}
