//! Tests of the propagation of placements through operations (TP-1, TP-2):
//! `tests/propagation/rules.txt`, one case per line.
//!
//! Each line becomes a program. The changes of placement after `place` are those of the line, and
//! every rank's part of the result agrees with one device, element by element. To add a case, copy
//! a line.

use kbc_audit::fuzz::read;
use kbc_backend_sim::interp::{self, RunOptions};
use kbc_diag::Diagnostics;
use kbc_frontend::lower::{LowerOptions, lower};
use kbc_ir::graph::{Graph, OpKind};
use kbc_ir::schedule::Schedule;
use kbc_ir::types::Mesh;
use kbc_ir::{Body, Module};
use kbc_numerics::compare::compare;
use kbc_numerics::generate::{self, ExactRange};
use kbc_passes::instrument::{Instrument, PipelineStep};
use kbc_passes::pipeline::Pipeline;
use kbc_passes::{Changed, PassCx};
use kbc_reference::{EvalOptions, evaluate, exact_modulus};
use std::collections::BTreeMap;

const TABLE: &str = include_str!("propagation/rules.txt");

/// The graph after `infer`, and after `place`.
#[derive(Default)]
struct Keep(Option<Graph>, Option<Graph>);

impl Instrument for Keep {
    fn after(&mut self, step: PipelineStep<'_>, module: &Module, _: Changed) -> Result<(), Diagnostics> {
        if let Body::Graph(g) = &module.body {
            match step.info.name {
                "infer" => self.0 = Some(g.clone()),
                "place" => self.1 = Some(g.clone()),
                _ => {}
            }
        }
        Ok(())
    }
}

struct MadeProgram {
    typed: Graph,
    placed: Graph,
    schedule: Schedule,
}

fn make(text: &str) -> Result<MadeProgram, Diagnostics> {
    let loaded = read(text)?;
    let lowered = lower(&loaded, &LowerOptions::default())?;
    let mut module = lowered.module;
    let mut keep = Keep::default();
    let cx = PassCx::new(&loaded.library, Some(&lowered.topology));
    Pipeline::named("default")?.run(&mut module, &cx, &mut [&mut keep])?;
    let schedule = module.schedule().expect("the default pipeline makes a schedule").clone();
    Ok(MadeProgram { typed: keep.0.expect("it infers"), placed: keep.1.expect("it places"), schedule })
}

/// Returns the changes of placement, in order.
fn changes(g: &Graph) -> Vec<String> {
    let name = |id: &kbc_ir::graph::OpId| match &g.op(*id).kind {
        OpKind::Collective(c) => Some(c.name().to_owned()),
        _ => None,
    };
    g.order().iter().filter_map(name).collect()
}

/// Runs a program and compares every element on every rank; returns how many there are.
fn executed(made: &MadeProgram, mesh: &Mesh) -> Result<u64, String> {
    let moduli = exact_modulus(&made.typed, mesh, &vec![None; made.typed.inputs.len()]);
    let input = |(i, input): (usize, &kbc_ir::graph::Input)| {
        let modulus = moduli.as_ref().map_or(2, |m| m[i].clamp(2, 1000));
        let exact = ExactRange { modulus, centred: false, exact: true };
        match moduli.is_some() || !input.ty.dtype.is_float() {
            true => generate::exact(&input.ty, mesh, exact, i as u32, 0),
            false => generate::normal(&input.ty, mesh, i as u64 + 1, 0),
        }
        .expect("it can be generated")
    };
    let inputs: Vec<_> = made.typed.inputs.iter().enumerate().map(input).collect();
    let options = RunOptions { calls: 1, seed: None, ..RunOptions::default() };
    let ran = interp::run(&made.schedule, std::slice::from_ref(&inputs), &options).map_err(|d| said(&d))?;
    let want =
        evaluate(&made.typed, &inputs, &EvalOptions { max_parts: mesh.ranks(), ..EvalOptions::default() })
            .map_err(|d| d.title.clone())?;
    let mut elements = 0;
    for (i, want) in want.into_iter().enumerate() {
        let ty = &made.typed.results[i];
        let parts: Vec<_> = ran.outputs[0].iter().map(|rank| rank[i].clone()).collect();
        let found = compare(ty, mesh, &parts, &(&want).into(), None);
        if !found.ok() || found.unbounded > 0 {
            return Err(format!("{:?}, unbounded {}", found.worst, found.unbounded));
        }
        elements += found.elements;
    }
    Ok(elements)
}

fn said(d: &Diagnostics) -> String {
    d.list.iter().map(|d| format!("{} {}", d.code, d.title)).collect::<Vec<_>>().join("; ")
}

/// Checks a case; the error describes what is wrong.
fn case(machine: &str, columns: &[&str]) -> Result<(), String> {
    let program = |inputs: &str, expression: &str, result: &str| {
        format!("{machine}program p({inputs}) -> {result} {{ let y = {expression}; y }}\n")
    };
    if let [rule, inputs, expression, reason] = columns {
        let name = rule.strip_prefix("absent ").ok_or("four columns are for `absent`")?;
        if reason.is_empty() || !expression.contains(name) {
            return Err("what is absent, and why?".into());
        }
        return match make(&program(inputs, expression, "f32")) {
            Ok(_) => Err(format!("{name} is there: give it a line")),
            Err(d) if d.list.iter().any(|d| d.code == "E005" && d.title.contains(name)) => Ok(()),
            Err(d) => Err(said(&d)),
        };
    }
    let [_, inputs, expression, result, wanted, ..] = columns else {
        return Err(format!("{} columns", columns.len()));
    };
    let made = make(&program(inputs, expression, result));
    if let Some(code) = wanted.strip_prefix("error ") {
        return match made {
            Ok(made) => Err(format!("it compiles, with {:?}", changes(&made.placed))),
            Err(d) if d.list.iter().all(|d| d.code == code) => Ok(()),
            Err(d) => Err(said(&d)),
        };
    }
    let made = made.map_err(|d| said(&d))?;
    let wanted: Vec<&str> = wanted.split_whitespace().filter(|w| *w != "none").collect();
    let found = changes(&made.placed);
    if found != wanted {
        return Err(format!("changes are {found:?}"));
    }
    // A collective within a sequence of operations is a choice, which needs a reason.
    let collectives = wanted.iter().any(|w| *w != "keep_part");
    if collectives && *expression != "a" && columns.get(5).is_none_or(|r| r.is_empty()) {
        return Err("a collective without a reason".into());
    }
    match executed(&made, &made.schedule.mesh)? {
        0 => Err("nothing was compared".into()),
        _ => Ok(()),
    }
}

#[test]
fn every_case_has_the_changes_it_says_and_agrees_with_one_device() {
    let (mut machine, mut wrong, mut rules) = (String::new(), vec![], BTreeMap::new());
    for (number, line) in TABLE.lines().enumerate().filter(|(_, l)| !l.is_empty() && !l.starts_with('#')) {
        if let Some(words) = line.strip_prefix("machine ") {
            let (shape, axes) = words.rsplit_once(')').expect("a shape and axes");
            let sizes: Vec<&str> = shape.rsplit_once('(').expect("sizes").1.split(", ").collect();
            let axes = axes.split_whitespace().zip(sizes).map(|(a, n)| format!("{a}: {n}"));
            let axes = axes.collect::<Vec<_>>().join(", ");
            machine = format!("topology sys = {shape})\nmesh m = sys[{axes}]\n");
            continue;
        }
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        *rules.entry(columns[0]).or_insert(0) += 1;
        if let Err(why) = case(&machine, &columns) {
            wrong.push(format!("rules.txt:{}: {line}\n    {why}", number + 1));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Every rule of DTensor's table has a line.
    for rule in [
        "any",
        "mm",
        "bmm",
        "addmm",
        "linear",
        "pointwise",
        "broadcast",
        "reduced",
        "softmax",
        "layer_norm",
        "rms_norm",
        "cumsum",
        "argmax",
        "pad",
        "iota",
        "grouped",
        "sum",
        "mean",
        "amax",
        "transpose",
        "unsqueeze",
        "split",
        "merge",
        "expand",
        "cat",
        "slice",
        "embedding",
        "sdpa",
        "reshard",
    ] {
        assert!(rules.contains_key(rule), "no line for {rule}");
    }
}
