//! A synthesised algorithm as `.kb` text, and its trees as JSON.
//!
//! The messages of all rounds stand in tables: `first(r*T + t)` is the number of the first message
//! of rank r in round t. Tables with `add` have messages that are added, those with `copy` messages
//! that replace.

use super::{OrderedPhase, PackedCollective, SynthesisRequest};
use kbc_synthesis::{EdgeLoad, ExactRatio, PieceMove, RateProof, SpanningPacking, TreePacking};
use serde_json::{Value, json};
use std::fmt::Write;

/// Elements of the vector of the program by default.
const ELEMENTS: u64 = 1 << 20;

/// Returns the text of the file, for a number of ranks and a machine as `.kb` says it. `head` is
/// its first comment.
pub(super) fn file(
    (ranks, machine): (usize, &str),
    request: &SynthesisRequest,
    phases: &[OrderedPhase],
    head: &str,
) -> String {
    let mut out = String::new();
    for line in head.lines() {
        out += &format!("// {line}\n");
    }
    out += &format!("\nparam n = {ELEMENTS}\ntopology sys = {machine}\nmesh m = sys[r]\n\n");
    for phase in phases {
        for adds in [true, false] {
            tables(&mut out, phase, ranks, adds);
        }
        algorithm(&mut out, phase, ranks, request.root);
    }
    let name = request.collective.name();
    if phases.len() > 1 {
        out += &format!("algorithm packed: {name} over (r of p) where p == {ranks} {{\n");
        for phase in phases {
            out += &format!("    apply {} over r using packed on [..]\n", phase.collective.name());
        }
        out += "}\n";
    }
    let root = request.root;
    let (from, to, call) = match request.collective {
        PackedCollective::AllGather => ("f32[n@r]", "f32[n]", "dim: 0".to_owned()),
        PackedCollective::ReduceScatter => ("f32[n] partial(sum@r)", "f32[n@r]", "sum, dim: 0".to_owned()),
        PackedCollective::AllReduce => ("f32[n] partial(sum@r)", "f32[n]", "sum".to_owned()),
        PackedCollective::Broadcast => ("f32[n] only(ROOT@r)", "f32[n]", format!("from: {root}")),
        PackedCollective::Reduce => {
            ("f32[n] partial(sum@r)", "f32[n] only(ROOT@r)", format!("sum, to: {root}"))
        }
    };
    let placed = |placement: &str| placement.replace("ROOT", &root.to_string());
    let (from, to) = (placed(from), placed(to));
    let _ = write!(
        out,
        "\nprogram packed_{name}(x: {from}) -> {to} {{\n    {name}(x, {call}, over: r, using: packed)\n}}\n"
    );
    out
}

fn kind(adds: bool) -> &'static str {
    if adds { "add" } else { "copy" }
}

/// Whether a phase has messages of a kind.
fn has(phase: &OrderedPhase, adds: bool) -> bool {
    phase.plan.rounds.iter().flatten().any(|m| m.reduce == adds)
}

fn has_blocks(collective: PackedCollective) -> bool {
    matches!(collective, PackedCollective::AllGather | PackedCollective::ReduceScatter)
}

/// Writes the tables of one kind of messages.
fn tables(out: &mut String, phase: &OrderedPhase, ranks: usize, adds: bool) {
    if !has(phase, adds) {
        return;
    }
    let mut by_rank: Vec<Vec<(usize, PieceMove)>> = vec![vec![]; ranks];
    for (t, round) in phase.plan.rounds.iter().enumerate() {
        for &m in round.iter().filter(|m| m.reduce == adds) {
            by_rank[m.from].push((t, m));
        }
    }
    let mut first = vec![];
    let mut sent = 0;
    for moves in &by_rank {
        let mut moves = moves.iter().peekable();
        for t in 0..phase.plan.rounds.len() {
            first.push(sent);
            while moves.next_if(|m| m.0 == t).is_some() {
                sent += 1;
            }
        }
    }
    first.push(sent);
    let all = || by_rank.iter().flatten().map(|m| m.1);
    table(out, &format!("{}_first", kind(adds)), first);
    table(out, &format!("{}_peer", kind(adds)), all().map(|m| m.to));
    if has_blocks(phase.collective) {
        table(out, &format!("{}_block", kind(adds)), all().map(|m| m.root));
    }
    table(out, &format!("{}_piece", kind(adds)), all().map(|m| m.piece as usize));
}

/// Columns of a line of a table.
const COLUMNS: usize = 96;

/// Writes a table of one index, in full lines.
fn table(out: &mut String, name: &str, numbers: impl IntoIterator<Item = usize>) {
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

/// Writes the algorithm of a phase.
fn algorithm(out: &mut String, phase: &OrderedPhase, ranks: usize, root: u64) {
    let (name, rounds, pieces) = (phase.collective.name(), phase.plan.rounds.len(), phase.plan.pieces);
    let (rooted, when) = match phase.collective {
        PackedCollective::Broadcast => (" from c", format!(" && c == {root}")),
        PackedCollective::Reduce => (" to c", format!(" && c == {root}")),
        _ => ("", String::new()),
    };
    let _ = writeln!(out, "algorithm packed: {name}{rooted} over (r of p) where p == {ranks}{when} {{");
    let _ = writeln!(out, "    for t in 0..{rounds} together {{");
    for adds in [true, false].into_iter().filter(|&adds| has(phase, adds)) {
        let k = kind(adds);
        let block = if has_blocks(phase.collective) { format!("[{k}_block(i)]") } else { String::new() };
        let reduce = if adds { " reduce" } else { "" };
        let _ = writeln!(
            out,
            "        each i in {k}_first(r*{rounds} + t)..{k}_first(r*{rounds} + t + 1) {{ \
             put {block}[{k}_piece(i) of {pieces}] -> {k}_peer(i){reduce} }}"
        );
    }
    *out += "    }\n}\n";
}

fn ratio(r: ExactRatio) -> Value {
    json!([r.numerator().to_string(), r.denominator().to_string()])
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

/// Returns the spanning trees, loads and the proof.
pub(super) fn spanning_certificate(packing: &SpanningPacking) -> Value {
    let class = |c: &kbc_synthesis::SpanningClass| json!({ "centre": c.centre, "trees": c.trees.to_string(), "edges": c.edges });
    json!({
        "rate": ratio(packing.rate),
        "scale": ratio(packing.scale),
        "proof": { "parts": packing.parts, "crossing": packing.crossing.to_string() },
        "trees": packing.classes.iter().map(class).collect::<Value>(),
        "loads": loads(&packing.loads),
    })
}
