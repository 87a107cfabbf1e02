//! The trees of a program that uses packed trees, with the certificates of their rates.

use super::certificate;
use crate::build::Built;
use kbc_ir::graph::{Collective, GraphOp, OpKind, Using};
use kbc_passes::findings::select::called;
use kbc_passes::packed::{PackedSite, is_packed};
use serde_json::{Value, json};

/// Returns the trees of every collective of a built program that uses packed trees, in order and
/// each once: what `kbc synth` writes as JSON, with the name of the use and the number of the
/// device or relay that each node is. Paths of an all-to-all and parts of a local program are left
/// out.
pub fn packed_trees(built: &Built) -> Vec<Value> {
    let mut out: Vec<Value> = vec![];
    for id in built.arranged.order() {
        let op = built.arranged.op(*id);
        let OpKind::Collective(c) = &op.kind else { continue };
        let Some(using) = c.using.as_ref().filter(|u| packed(built, op, c, u)) else { continue };
        let of = PackedSite {
            topology: &built.topology,
            mesh: &built.module.mesh,
            collective: c,
            elements: 0,
            bytes: 0,
            messages: 0,
            via: false,
        };
        // A use without trees was refused when the program was compiled.
        let Ok(Some(found)) = of.trees(&using.args) else { continue };
        let Value::Object(mut one) = certificate(&found.network, &found.request, &found.phases) else {
            continue;
        };
        let axes: Vec<String> = c.axes().iter().map(ToString::to_string).collect();
        let name = format!("{} over {}: {}", c.name(), axes.join(", "), called(&using.alg, &using.args, &[]));
        one.insert("name".to_owned(), json!(name));
        one.insert("nodes".to_owned(), json!(found.network.nodes.iter().map(|d| d.0).collect::<Vec<_>>()));
        let one = Value::Object(one);
        if !out.contains(&one) {
            out.push(one);
        }
    }
    out
}

/// Whether an algorithm is one of packed trees.
fn packed(built: &Built, op: &GraphOp, c: &Collective, using: &Using) -> bool {
    let library = &built.origin.loaded.library;
    let own = !using.span.is_none() && library.knows(using.span.file);
    let at = if own { using.span } else { op.span };
    let Ok(coll) = library.find_collective(at.file, c.name(), at) else { return false };
    library.find_algorithm(at.file, coll, &using.alg, at).is_ok_and(|alg| is_packed(library, alg))
}
