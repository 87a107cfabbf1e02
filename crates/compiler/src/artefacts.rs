//! Artefacts: the texts of module and graph that a compilation can write.

use crate::build::Built;
use kbc_ir::text::{self, PrintOptions};
use kbc_ir::{Body, Module, Props, dot};

/// Names of the texts: the graph and the module as `.kir`, the module as JSON, and both as pictures
/// for Graphviz.
pub const KINDS: [&str; 5] = ["graph", "kir", "json", "dot", "dot-graph"];

/// Returns a text of that kind; the module if there is no such kind. The graph is the module itself
/// if the passes have made no schedule of it.
pub fn text(built: &Built, kind: &str) -> String {
    let graph = || match (&built.module.body, &built.local) {
        (body @ (Body::Graph(_) | Body::Local(_)), _) => (body.clone(), built.module.props),
        (Body::Schedule(_), local) => {
            let body = match local {
                Some(l) => Body::Local(l.clone()),
                None => Body::Graph(built.placed.clone()),
            };
            (body, Props::TYPED.with(Props::PLACED).with(Props::SELECTED))
        }
    };
    match kind {
        "graph" => {
            let mut module = built.module.clone();
            (module.body, module.props) = graph();
            text::print(&module, &PrintOptions::default())
        }
        "dot-graph" => dot_of(&graph().0),
        "dot" => dot_of(&built.module.body),
        "json" => text::json(&built.module),
        _ => text::print(&built.module, &PrintOptions::default()),
    }
}

/// Returns a module as a picture for Graphviz.
pub fn picture(module: &Module) -> String {
    dot_of(&module.body)
}

fn dot_of(body: &Body) -> String {
    match body {
        Body::Graph(g) => dot::graph_dot(g),
        Body::Local(l) => dot::local_dot(l),
        Body::Schedule(s) => dot::schedule_dot(s),
    }
}
