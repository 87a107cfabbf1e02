//! A synthesised algorithm as `.kb` text, and its trees as JSON.
//!
//! The text is the algorithm of `specs/lib/packed.kb` with numbers and tables in the place of its
//! functions. `first(r*T + t)` is the number of the first message of rank r in round t. Tables with
//! `add` have messages that are added, those with `copy` messages that replace.

use super::{AlgorithmFile, PackedCollective, PackedRequest, ratio};
use kbc_frontend::library::LIBRARY;
use kbc_passes::packed::PackedTable;
use kbc_synthesis::{
    EdgeLoad, MatchedEdge, MatchedTree, Matching, RateProof, SpanningClass, SpanningEdge, SpanningPacking,
    TightPartition, TreePacking,
};
use serde_json::{Value, json};
use std::fmt::Write;

/// Elements of the vector of the program by default.
const ELEMENTS: u64 = 1 << 20;

/// Returns the text of the file, for a machine with that number of ranks. `head` is its first
/// comment.
pub(super) fn file(
    (file, ranks): (&AlgorithmFile, usize),
    request: &PackedRequest,
    made: &[PackedTable],
    head: &str,
) -> String {
    let mut out = String::new();
    for line in head.lines() {
        out += &format!("// {line}\n");
    }
    // Pieces of an all-to-all must have equal length.
    let elements = match request.collective {
        PackedCollective::AllToAll => ELEMENTS.next_multiple_of(ranks as u64 * pieces(made)),
        _ => ELEMENTS,
    };
    out += &format!("\nparam n = {elements}\ntopology sys = {}\nmesh m = sys[r]\n\n", file.machine);
    for list in made {
        if let PackedTable::List(name, numbers) = list {
            table(&mut out, short(name), numbers);
        }
    }
    out += &algorithm(request, made);
    let name = request.collective.name();
    let root = request.root;
    let (from, to, call) = match request.collective {
        PackedCollective::AllGather => ("f32[n@r]", "f32[n]", "dim: 0".to_owned()),
        PackedCollective::ReduceScatter => ("f32[n] partial(sum@r)", "f32[n@r]", "sum, dim: 0".to_owned()),
        PackedCollective::AllReduce => ("f32[n] partial(sum@r)", "f32[n]", "sum".to_owned()),
        PackedCollective::Broadcast => ("f32[n] only(ROOT@r)", "f32[n]", format!("from: {root}")),
        PackedCollective::Reduce => {
            ("f32[n] partial(sum@r)", "f32[n] only(ROOT@r)", format!("sum, to: {root}"))
        }
        PackedCollective::AllToAll => ("f32[RANKS@r, n]", "f32[RANKS, n@r]", "from: 0, to: 1".to_owned()),
    };
    let placed =
        |placement: &str| placement.replace("ROOT", &root.to_string()).replace("RANKS", &ranks.to_string());
    let (from, to) = (placed(from), placed(to));
    let with = match file.instances {
        1 => String::new(),
        k => format!(" with (instances: {k})"),
    };
    let _ = write!(
        out,
        "\nprogram packed_{name}(x: {from}) -> {to} {{\n    {name}(x, {call}, over: r, using: synthesised{with})\n}}\n"
    );
    out
}

/// Returns the number of pieces of a block of an all-to-all.
fn pieces(made: &[PackedTable]) -> u64 {
    let number = made.iter().find_map(|t| match t {
        PackedTable::Number("packed_pieces", n) => Some(*n),
        PackedTable::Number(..) | PackedTable::List(..) => None,
    });
    number.unwrap_or(1)
}

/// Returns the name of a table in the file.
fn short(name: &str) -> &str {
    name.strip_prefix("packed_").unwrap_or(name)
}

/// Columns of a line of a table.
const COLUMNS: usize = 96;

/// Writes a table of one index, in full lines.
fn table(out: &mut String, name: &str, numbers: &[u64]) {
    let _ = write!(out, "table {name} = [");
    let (mut column, mut separator) = (COLUMNS, "");
    for number in numbers {
        let text = number.to_string();
        *out += separator;
        if column + text.len() + 2 > COLUMNS {
            *out += "\n    ";
            column = 4;
        } else {
            *out += " ";
        }
        column += text.len() + 2;
        *out += &text;
        separator = ",";
    }
    *out += "\n]\n";
}

/// Returns the algorithm of the library with its numbers and tables.
fn algorithm(request: &PackedRequest, made: &[PackedTable]) -> String {
    const HEAD: &str = "algorithm packed(";
    let source = LIBRARY.iter().find(|f| f.0 == "<lib>/packed.kb").map_or("", |f| f.1);
    // The parameters hold no parentheses; what follows them is the rest of the declaration.
    let named = format!(": {} ", request.collective.name());
    let declared = source.split(HEAD).skip(1).filter_map(|text| text.split_once(')'));
    let rest = declared.map(|d| d.1).find(|rest| rest.starts_with(&named)).unwrap_or("");
    let body = rest.split_inclusive("\n}\n").next().unwrap_or("");
    let mut text = format!("algorithm synthesised{body}");
    if request.collective.has_root() {
        let condition = "where packed_on(p) == p";
        text = text.replace(condition, &format!("{condition} && c == {}", request.root));
    }
    // Kinds of messages that do not occur.
    let occurs = |kind: &str| made.iter().any(|t| matches!(t, PackedTable::List(n, _) if n == kind));
    while let Some(at) = text.match_indices("        each i in ").map(|m| m.0).find(|&at| {
        let name = text[at..].trim_start().trim_start_matches("each i in ");
        !occurs(name.split('(').next().unwrap_or(""))
    }) {
        const END: &str = "\n        }\n";
        let end = text[at..].find(END).map_or(text.len(), |e| at + e + END.len());
        text.replace_range(at..end, "");
    }
    // Relays of messages that name none.
    for kind in ["packed_add_way", "packed_copy_way"].into_iter().filter(|kind| !occurs(kind)) {
        while let Some(at) = text.find(&format!("({kind}(i))")) {
            let (begin, end) = (text[..at].rfind("via ["), text[at..].find(']'));
            let (Some(begin), Some(end)) = (begin, end) else { break };
            let begin = text[..begin].trim_end().len();
            text.replace_range(begin..=at + end, "");
        }
    }
    for table in made {
        text = match table {
            PackedTable::Number(name, value) => {
                let value = value.to_string();
                text.replace(&format!("{name}(pieces, trees, bytes)"), &value)
                    .replace(&format!("{name}(p)"), &value)
            }
            PackedTable::List(name, _) => text.replace(&format!("{name}("), &format!("{}(", short(name))),
        };
    }
    text
}

fn loads(loads: &[EdgeLoad]) -> Value {
    loads.iter().map(|l| json!([l.from, l.to, l.trees.to_string(), l.limit.to_string()])).collect()
}

/// Returns trees, routes, loads and the proof. Exact numbers are text, because they may be larger
/// than numbers of JSON.
pub(super) fn tree_certificate(packing: &TreePacking) -> Value {
    let proof = match &packing.proof {
        RateProof::Cut(cut) => json!({
            "cut": cut.nodes, "weight": cut.weight.to_string(), "capacity": cut.capacity.to_string(),
        }),
        RateProof::WholeTrees { cut, below } => json!({
            "cut": cut.nodes, "weight": cut.weight.to_string(), "whole_trees": cut.capacity.to_string(),
            "below": ratio(*below),
        }),
    };
    let routes = |e: &kbc_synthesis::TreeEdge| -> Value {
        e.routes.iter().map(|r| json!({ "nodes": r.nodes, "trees": r.trees.to_string() })).collect()
    };
    let class = |c: &kbc_synthesis::TreeClass| {
        let edges: Value =
            c.edges.iter().map(|e| json!({ "from": e.from, "to": e.to, "routes": routes(e) })).collect();
        json!({ "root": c.root, "trees": c.trees.to_string(), "edges": edges })
    };
    json!({
        "rate": ratio(packing.rate),
        "scale": ratio(packing.scale),
        "proof": proof,
        "trees": packing.classes.iter().map(class).collect::<Value>(),
        "loads": loads(&packing.loads),
    })
}

/// Returns matched trees and their routes: to the roots, and from them.
pub(super) fn matching_certificate(matching: &Matching) -> Value {
    let tree = |t: &MatchedTree| {
        let edge = |e: &MatchedEdge| json!({ "from": e.from, "to": e.to, "nodes": e.nodes() });
        json!({ "root": t.root, "edges": t.edges.iter().map(edge).collect::<Value>() })
    };
    let trees = |list: &[MatchedTree]| list.iter().map(tree).collect::<Value>();
    json!({ "method": "greedy", "up": trees(&matching.up), "down": trees(&matching.down) })
}

/// Returns the spanning trees, loads and the proof, if there is one.
pub(super) fn spanning_certificate(packing: &SpanningPacking) -> Value {
    let class = |c: &SpanningClass| {
        let edges: Vec<Vec<usize>> = c.edges.iter().map(SpanningEdge::nodes).collect();
        json!({ "centre": c.centre, "trees": c.trees.to_string(), "edges": edges })
    };
    let proof = |p: &TightPartition| json!({ "parts": p.parts, "crossing": p.crossing.to_string() });
    json!({
        "rate": ratio(packing.rate),
        "scale": ratio(packing.scale),
        "proof": packing.proof.as_ref().map(proof),
        "trees": packing.classes.iter().map(class).collect::<Value>(),
        "loads": loads(&packing.loads),
    })
}
