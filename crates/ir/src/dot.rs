//! DOT output: graphs and schedules as pictures for Graphviz.
//!
//! The module draws both levels. Nodes and edges come in the order of the module, so that two runs
//! produce the same bytes. The text form contains everything that a picture leaves out.

use crate::graph::{Graph, OpKind};
use crate::local::{Local, LocalPart};
use crate::op::OpPart;
use crate::schedule::{BufferId, BufferRole, HostCommand, Ref, RefUse, Region, SOp, SStmt, Schedule};
use crate::uses::{touches, writes};
use std::collections::{BTreeMap, BTreeSet};

fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            _ if c.is_control() => out.push(' '),
            _ => out.push(c),
        }
    }
    out
}

fn open(name: &str) -> String {
    format!("digraph \"{}\" {{\n  node [shape=box, fontname=\"monospace\"];\n", escape(name))
}

/// Returns the picture of a graph: operations with their types as nodes, operands as edges.
/// Collectives are filled.
pub fn graph_dot(g: &Graph) -> String {
    named(g, g.name.as_ref().map_or("graph", |n| n.as_str()))
}

fn named(g: &Graph, name: &str) -> String {
    let mut out = open(name);
    for (i, id) in g.order().iter().enumerate() {
        let op = g.op(*id);
        let (what, style) = match &op.kind {
            OpKind::Input(n) => (format!("input {n}"), ", shape=ellipse"),
            OpKind::Output(n) => (format!("output {n}"), ", shape=ellipse"),
            OpKind::Matmul { .. } => ("matmul".into(), ""),
            OpKind::Map(f) => (f.name.to_string(), ""),
            OpKind::ReduceDim { op, mean, dim, .. } => {
                (format!("{} over dimension {dim}", if *mean { "mean" } else { op.name() }), "")
            }
            OpKind::Cast(d) => (format!("cast {d}"), ""),
            OpKind::Embedding => ("embedding".into(), ""),
            OpKind::Grouped(_) => ("grouped matmul".into(), ""),
            OpKind::Tiles(k) => (k.name.to_string(), ""),
            OpKind::Fill(f) => (format!("fill {f}"), ""),
            OpKind::Shape(s) => (format!("{} {s}", s.name()), ""),
            OpKind::Demand | OpKind::PartialDemand(_) => ("demand".into(), ", style=dashed"),
            OpKind::Wait => ("wait.result".into(), ", style=dashed"),
            OpKind::Host(op) => (format!("host {}", op.word()), ", style=dashed"),
            OpKind::Collective(c) => {
                let using = c.using.as_ref().map(|u| format!(" using {}", u.alg)).unwrap_or_default();
                let red = c.red.map(|r| format!(" {r}")).unwrap_or_default();
                let text = format!("{}{red} over {}{using}", c.name(), c.axis);
                (text, ", style=filled, fillcolor=lightblue")
            }
        };
        let ty = op.ty.as_ref().map(|t| format!("\n{t}")).unwrap_or_default();
        out += &format!("  n{i} [label=\"{}\"{style}];\n", escape(&format!("%{} = {what}{ty}", op.name)));
    }
    for (i, id) in g.order().iter().enumerate() {
        for (k, o) in g.operands(*id).iter().enumerate() {
            let label = if g.operands(*id).len() > 1 { format!(" [label=\"{k}\"]") } else { String::new() };
            out += &format!("  n{} -> n{i}{label};\n", g.position(*o));
        }
    }
    out + "}\n"
}

/// Returns the pictures of a local program: the graph of each part, one after another. The name of
/// each is that of the program with the part's first rank.
pub fn local_dot(l: &Local) -> String {
    let name = l.name.as_ref().map_or("local", |n| n.as_str());
    let part = |p: &LocalPart| named(&p.graph, &format!("{name}_r{}", p.ranks.first().copied().unwrap_or(0)));
    l.parts.iter().map(part).collect()
}

/// Buffers that the bodies of a region read and write, and the number of their operations.
#[derive(Default)]
struct Touched {
    reads: BTreeSet<u32>,
    writes: BTreeSet<u32>,
    operations: usize,
}

fn touched(r: &Region) -> Touched {
    fn visit(list: &[SStmt], r: &Region, t: &mut Touched) {
        for st in list {
            match st {
                SStmt::For { body, .. } => visit(body, r, t),
                SStmt::If { then, other, .. } => {
                    visit(then, r, t);
                    visit(other, r, t);
                }
                SStmt::Op(op, _) => {
                    t.operations += 1;
                    operation(op, r, t);
                }
            }
        }
    }
    fn buffer(x: &Ref, r: &Region) -> Option<u32> {
        match x {
            Ref::Chunk { operand, .. } => r.operands.get(operand.0 as usize).map(|o| o.buffer.0),
            Ref::Slot { .. } => None,
        }
    }
    fn operation(op: &SOp, r: &Region, t: &mut Touched) {
        let mut uses = |side: RefUse, b: u32| {
            if side.reads() {
                t.reads.insert(b);
            }
            if side.writes() {
                t.writes.insert(b);
            }
        };
        op.parts(&mut |part| match part {
            OpPart::Near(side, x) | OpPart::Far(side, x) => {
                buffer(x, r).into_iter().for_each(|b| uses(side, b));
            }
            OpPart::Local(l) => {
                l.srcs().iter().for_each(|b| uses(RefUse::Read, b.0));
                // Writing one block of a line keeps the other blocks, which counts as a read.
                let keeps = matches!(l.line_block(), Some(b) if b.line == l.dst());
                uses(if keeps { RefUse::Update } else { RefUse::Write }, l.dst().0);
            }
            OpPart::Combiner(_)
            | OpPart::Peer(_)
            | OpPart::Counter(_)
            | OpPart::Value(_)
            | OpPart::Queue(_)
            | OpPart::Event(_)
            | OpPart::Mark(_)
            | OpPart::Buffer(..)
            | OpPart::Host(_) => {}
        });
    }
    let mut t = Touched::default();
    for st in r.roles.iter().flat_map(|x| &x.streams) {
        visit(&st.body, r, &mut t);
    }
    t
}

/// Returns the picture of a schedule. Regions are nodes with their contract and algorithm; inputs
/// and outputs of the program are ellipses. `after` is a solid edge. A dashed edge leads from the
/// last region that writes a buffer to a region that reads it. Dotted edges are the host's:
/// launches, with their number, reads and writes.
pub fn schedule_dot(s: &Schedule) -> String {
    let mut out = open(&s.name);
    let mut edges = String::new();
    // Last writer of each buffer.
    let mut writer: BTreeMap<u32, String> = BTreeMap::new();
    for (i, b) in s.buffers.iter().enumerate() {
        if let BufferRole::Input(n) = b.role {
            out += &format!(
                "  i{n} [label=\"{}\", shape=ellipse];\n",
                escape(&format!("input {n}: %{}", b.name))
            );
            writer.insert(i as u32, format!("i{n}"));
        }
    }
    for (i, r) in s.regions.iter().enumerate() {
        let over: Vec<&str> = r.over.iter().map(|n| n.as_str()).collect();
        let over = if over.is_empty() { "local".into() } else { format!("over {}", over.join(", ")) };
        let mut label = format!("@{} {over}", r.name);
        if let Some(p) = &r.contract {
            let red = p.red.map(|r| format!(" {r}")).unwrap_or_default();
            let root = p.root.map(|r| format!(" root {r}")).unwrap_or_default();
            label += &format!("\n{}{red}{root}", p.collective);
        }
        if let Some(l) = &r.label {
            label += &format!("\n{l}");
        }
        let t = touched(r);
        let roles = r.roles.len();
        let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        label += &format!("\n{}, {}", plural(roles, "role"), plural(t.operations, "operation"));
        let style = if r.over.is_empty() { "" } else { ", style=filled, fillcolor=lightblue" };
        out += &format!("  r{i} [label=\"{}\"{style}];\n", escape(&label));
        for a in &r.after {
            edges += &format!("  r{} -> r{i};\n", a.0);
        }
        let mut from: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for b in &t.reads {
            if let (Some(w), Some(buffer)) = (writer.get(b), s.buffers.get(*b as usize)) {
                from.entry(w).or_default().push(&buffer.name);
            }
        }
        for (w, names) in from {
            let names: Vec<String> = names.iter().map(|n| format!("%{n}")).collect();
            edges += &format!("  {w} -> r{i} [style=dashed, label=\"{}\"];\n", escape(&names.join(" ")));
        }
        for b in t.writes {
            writer.insert(b, format!("r{i}"));
        }
    }
    for (i, b) in s.buffers.iter().enumerate() {
        if let BufferRole::Output(n) = b.role {
            out += &format!(
                "  o{n} [label=\"{}\", shape=ellipse];\n",
                escape(&format!("output {n}: %{}", b.name))
            );
            if let Some(w) = writer.get(&(i as u32)) {
                edges += &format!("  {w} -> o{n} [style=dashed];\n");
            }
        }
    }
    if let Some(h) = &s.host {
        out += "  h [label=\"host\", shape=note];\n";
        host(&h.body, &mut 0, s, &mut edges);
    }
    out + &edges + "}\n"
}

/// Draws the host's launches with their number, and its reads and writes with the buffers.
fn host(list: &[SStmt], launches: &mut usize, s: &Schedule, edges: &mut String) {
    for st in list {
        match st {
            SStmt::For { body, .. } => host(body, launches, s, edges),
            SStmt::If { then, other, .. } => {
                host(then, launches, s, edges);
                host(other, launches, s, edges);
            }
            SStmt::Op(SOp::Host(HostCommand::Launch(r)), _) => {
                *launches += 1;
                *edges += &format!("  h -> r{} [style=dotted, label=\"{launches}\"];\n", r.0);
            }
            SStmt::Op(SOp::Host(HostCommand::Write { dst, src }), _) => {
                let name = |b: &BufferId| s.buffers.get(b.0 as usize).map_or("", |b| b.name.as_str());
                let label = escape(&format!("%{} = %{}", name(dst), name(src)));
                for i in (0..s.regions.len()).filter(|i| touches(&s.regions[*i], *dst)) {
                    *edges += &format!("  r{i} -> h [style=dotted, label=\"{label}\"];\n");
                }
            }
            SStmt::Op(SOp::HostRead(b), _) => {
                let name = s.buffers.get(b.0 as usize).map_or("", |b| b.name.as_str());
                for i in (0..s.regions.len()).filter(|i| writes(&s.regions[*i], *b)) {
                    *edges +=
                        &format!("  r{i} -> h [style=dotted, label=\"{}\"];\n", escape(&format!("%{name}")));
                }
            }
            SStmt::Op(..) => {}
        }
    }
}
