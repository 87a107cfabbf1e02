//! Modules as JSON, for readers that do not want to parse `.kir`, and the JSON Schema of it.
//!
//! One list of fields makes the value and the schema ([`value::object`], [`value::choice`]). The
//! patterns have all fields and variants, so a field that is forgotten is an error of compilation.
//! Source locations are left out. Names are the labels of the text.

mod graph;
mod schedule;
mod types;
mod value;

use super::VERSION;
use super::kernels::{Kernels, Used};
use super::{print_graph, print_schedule};
use crate::graph::Graph;
use crate::local::Local;
use crate::module::{Body, Module, Props};
use crate::name::Name;
use crate::schedule::Schedule;
use crate::types::Mesh;
use std::rc::Rc;
use types::{Annotated, Function, Nest};
use value::{Definitions, Json, Wire, object_schema, one_of};

/// Labels of what numbers refer to.
#[derive(Clone)]
struct Names {
    kernels: Rc<Kernels>,
    inputs: Rc<[String]>,
    buffers: Rc<[String]>,
    windows: Rc<[String]>,
    signals: Rc<[String]>,
    queues: Rc<[String]>,
    regions: Rc<[String]>,
    operands: Rc<[String]>,
}

/// Returns the kernels that a module uses.
fn used(m: &Module) -> Vec<Used<'_>> {
    match &m.body {
        Body::Graph(g) => print_graph::used(g).collect(),
        Body::Local(l) => l.parts.iter().flat_map(|p| print_graph::used(&p.graph)).collect(),
        Body::Schedule(s) => print_schedule::used_by(s),
    }
}

/// Returns the module as one JSON object, on one line.
pub fn json(m: &Module) -> String {
    let Module { name, machine, mesh, body, props, attributes } = m;
    let uses = used(m);
    let kernels = Rc::new(Kernels::new(uses.iter().copied()));
    let none: Rc<[String]> = Rc::from([]);
    let n = &Names {
        kernels: kernels.clone(),
        inputs: none.clone(),
        buffers: none.clone(),
        windows: none.clone(),
        signals: none.clone(),
        queues: none.clone(),
        regions: none.clone(),
        operands: none,
    };
    let (mut functions, mut nests): (Vec<Function<'_>>, Vec<Nest<'_>>) = (vec![], vec![]);
    for u in &uses {
        let inner = match u {
            Used::Function(f) => vec![*f],
            Used::Tiles(k) => {
                let label = kernels.tiles_label(k).to_owned();
                if nests.iter().all(|n| n.0 != label) {
                    nests.push(Nest(label, k));
                }
                k.functions()
            }
        };
        for f in inner {
            let label = kernels.label(f).to_owned();
            if functions.iter().all(|f| f.0 != label) {
                functions.push(Function(label, f));
            }
        }
    }
    let attributes: Vec<Annotated> =
        attributes.iter().map(|(item, list)| Annotated(item.clone(), list.to_vec())).collect();
    let (level, body) = match body {
        Body::Graph(g) => ("graph", g.json(n)),
        Body::Local(l) => ("local", l.json(n)),
        Body::Schedule(s) => ("schedule", s.json(n)),
    };
    let module = Json::Object(vec![
        ("kir", Json::Int(i128::from(VERSION))),
        ("name", name.json(n)),
        ("machine", machine.json(n)),
        ("mesh", mesh.json(n)),
        ("properties", props.json(n)),
        ("attributes", attributes.json(n)),
        ("functions", functions.json(n)),
        ("tile_kernels", nests.json(n)),
        ("level", Json::text(level)),
        ("body", body),
    ]);
    format!("{module}\n")
}

/// Returns the JSON Schema of what [`json`] returns.
pub fn json_schema() -> String {
    let d = &mut Definitions::default();
    let fields = vec![
        ("kir", Json::Object(vec![("const", Json::Int(i128::from(VERSION)))])),
        ("name", Name::schema(d)),
        ("machine", <Option<String>>::schema(d)),
        ("mesh", Mesh::schema(d)),
        ("properties", Props::schema(d)),
        ("attributes", <Vec<Annotated>>::schema(d)),
        ("functions", <Vec<Function<'_>>>::schema(d)),
        ("tile_kernels", <Vec<Nest<'_>>>::schema(d)),
        ("level", value::words(["graph", "local", "schedule"])),
        ("body", one_of(vec![Graph::schema(d), Local::schema(d), Schedule::schema(d)])),
    ];
    let Json::Object(module) = object_schema(None, fields) else { return String::new() };
    let defs = std::mem::take(&mut d.list).into_iter().collect();
    let mut all = vec![
        ("$schema", Json::text("https://json-schema.org/draft/2020-12/schema")),
        ("title", Json::text("A module of kbc, as `kbc compile --emit json` writes it")),
    ];
    all.extend(module);
    all.push(("$defs", Json::Object(defs)));
    pretty(&Json::Object(all), 0) + "\n"
}

/// Returns a value as text with a line for each part that is longer than a line.
fn pretty(v: &Json, depth: usize) -> String {
    let short = v.to_string();
    if short.len() + 2 * depth < 100 {
        return short;
    }
    let pad = "  ".repeat(depth + 1);
    let end = "  ".repeat(depth);
    match v {
        Json::Object(list) => {
            let lines: Vec<String> = list
                .iter()
                .map(|(key, v)| format!("{pad}{}: {}", Json::text(*key), pretty(v, depth + 1)))
                .collect();
            format!("{{\n{}\n{end}}}", lines.join(",\n"))
        }
        Json::List(list) => {
            let lines: Vec<String> = list.iter().map(|v| format!("{pad}{}", pretty(v, depth + 1))).collect();
            format!("[\n{}\n{end}]", lines.join(",\n"))
        }
        _ => short,
    }
}
