//! Report about the programs of all ranks together: placements, and the comparison with an
//! unsharded model.

use super::files::{Checked, TorchArguments, TorchOptions, checked, sets};
use super::make::stored;
use crate::failure::Outcome;
use crate::report::amounts::count;
use crate::report::{TorchPlaced, TorchPlacements};
use crate::workspace::Workspace;
use kbc_diag::Diagnostic;
use kbc_import::torch::kb::compare::Sides;
use kbc_import::torch::kb::verdict::{Placed, Verdict, judge, unplaced};
use kbc_import::torch::kb::{AxisPlacement, DataBeside};
use std::path::Path;

/// Infers the placements of a world's values, by the data that is beside its programs, and compares
/// with the unsharded model that the command line names.
///
/// # Errors
/// E565: what no placement explains; E566: what differs from the model; of reading data.
pub fn placements(
    workspace: &mut Workspace,
    it: &Checked,
    said: &TorchArguments,
) -> Outcome<TorchPlacements> {
    if it.mesh.is_some() {
        crate::load::refuse(&[("--reference", said.reference.is_some())], "a graph of DTensors")?;
        // PyTorch itself has placed every value of the graph
        return Ok(TorchPlacements { shown: true, said: true, ..TorchPlacements::default() });
    }
    let data = stored(workspace, it, Path::new(""))?;
    let judged = judge(&it.world, &it.met, &data.given);
    let Some(path) = &said.reference else { return Ok(report(&judged?)) };
    let model = model(workspace, path, it)?;
    let theirs = stored(workspace, &model, Path::new(""))?;
    // what no placement explains may be right, and numbers tell
    let (mut out, graphs, wrong) = match judged {
        Ok(v) => (report(&v), v.graphs, None),
        Err(d) => match unplaced(&it.world, &it.met) {
            Some(graphs) => {
                // zeros hide what is added once too often
                if zeros(&data.given) {
                    return Err(d.into());
                }
                let doubts = d.list.iter().map(unexplained).collect();
                (TorchPlacements { doubts, ..TorchPlacements::default() }, Some(graphs), Some(d))
            }
            None => return Err(d.into()),
        },
    };
    let Some(graphs) = &graphs else {
        let why = out.doubts.first().map_or("there are no graphs", |d| d);
        out.uncompared = Some(format!("not compared with the unsharded model {path}: {why}"));
        return Ok(out);
    };
    let given = (0..it.world.programs.len()).map(|at| data.inputs(it, at)).collect::<Result<Vec<_>, _>>()?;
    let sides = Sides {
        world: &it.world,
        graphs,
        given: &given,
        model: &model.world,
        data: &theirs.inputs(&model, 0)?,
        name: path,
    };
    let agreed = match (sides.compare(), wrong) {
        (Err(_), Some(d)) => return Err(d.into()),
        (agreed, _) => agreed?,
    };
    let words = ["the inputs beside the programs", "the inputs beside the model", "generated inputs"];
    let from: Vec<&str> = words.iter().zip(agreed.from).filter(|w| w.1).map(|w| *w.0).collect();
    out.reference = Some(format!(
        "compared with the unsharded model {path}, both evaluated in f64 on {}: all {} of {} agree (largest difference {:.1e} of the largest element)",
        from.join(" and "),
        count(agreed.elements as u64, "element"),
        count(agreed.results as u64, "result"),
        agreed.largest,
    ));
    Ok(out)
}

/// Whether an input is zeros.
fn zeros(given: &DataBeside) -> bool {
    given.prints.iter().flat_map(|p| p.values()).any(|p| p.uniform == Some(0.0))
}

/// What no placement explains, where numbers say that it is right.
fn unexplained(d: &Diagnostic) -> String {
    let why = d.title.split_once("not compute parts of one program: ").map_or(&*d.title, |t| t.1);
    format!("no placement explains the programs: {why}")
}

/// The unsharded model at a path, of the tag of a world if there are several.
fn model(workspace: &mut Workspace, path: &str, it: &Checked) -> Outcome<Checked> {
    let mut worlds = sets(workspace, &[path.to_owned()])?;
    let tag = it.files.first().map_or("", |f| &f.tag);
    if worlds.len() > 1 && worlds.iter().any(|set| set[0].tag == tag) {
        worlds.retain(|set| set[0].tag == tag);
    }
    let [set] = &worlds[..] else {
        let tags: Vec<&str> = worlds.iter().map(|s| s[0].tag.as_str()).collect();
        return Err(Diagnostic::error("E416", format!("{path} has programs with several tags"))
            .help(format!("give the file of one of them: {}", tags.join(", ")))
            .into());
    };
    let groups = TorchArguments::default();
    let wrong = |why: &str| {
        Diagnostic::error("E416", format!("{path} is not an unsharded model: {why}"))
            .help("export the model of one rank, without collectives")
    };
    if set.len() > 1 {
        return Err(wrong("it has programs of several ranks").into());
    }
    let found =
        checked(workspace, set, &TorchOptions { alone: true, ..TorchOptions::new(&groups, &[])? }, false)?;
    if found.mesh.is_some() {
        return Err(wrong("it is a graph of DTensors").into());
    }
    if found.world.programs.iter().flat_map(|p| &p.nodes).any(|n| n.op.rule.is_collective()) {
        return Err(wrong("it has collectives").into());
    }
    Ok(found)
}

/// A verdict as it is reported.
fn report(v: &Verdict) -> TorchPlacements {
    let word = |p: &AxisPlacement| match p {
        AxisPlacement::Whole => "whole".to_owned(),
        AxisPlacement::Split(d) => format!("split along {d}"),
        AxisPlacement::Within(d, n) => format!("split along {d} in each of {n} blocks"),
        AxisPlacement::Partial(how) => format!("part of a {how}"),
        AxisPlacement::Unknown => "not known".to_owned(),
    };
    let placed = |list: &[Placed]| {
        list.iter()
            .map(|p| TorchPlaced { name: p.name.clone(), places: p.by.iter().map(word).collect() })
            .collect()
    };
    TorchPlacements {
        shown: v.shown(),
        said: false,
        axes: v.axes.iter().map(|a| a.0.clone()).collect(),
        inputs: placed(&v.inputs),
        results: placed(&v.results),
        doubts: v.doubts.clone(),
        reference: None,
        uncompared: None,
    }
}
