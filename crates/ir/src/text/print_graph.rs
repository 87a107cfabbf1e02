//! Printer of the body of a `.kir` text at graph level: graphs, and the parts of local programs.

use super::kernels::{Kernels, Used};
use super::names::labels;
use super::print_schedule::contract;
use super::types::{loc, show_data, show_type};
use super::words::quoted;
use crate::graph::{Collective, Graph, OpId, OpKind, Using, UsingArg};
use crate::local::Local;
use crate::name::Name;
use std::collections::BTreeMap;

/// Returns the kernels that a graph uses.
pub(super) fn used(g: &Graph) -> impl Iterator<Item = Used<'_>> {
    g.order().iter().filter_map(|id| match &g.op(*id).kind {
        OpKind::Map(f) => Some(Used::Function(f)),
        OpKind::Tiles(k) => Some(Used::Tiles(k)),
        _ => None,
    })
}

/// Appends a graph.
pub(super) fn graph(g: &Graph, locs: bool, out: &mut String) {
    let kernels = Kernels::new(used(g));
    kernels.write(out);
    let name = g.name.as_ref().map(|n| format!(" @{}", quoted(n))).unwrap_or_default();
    *out += &format!("\ngraph{name}\n");
    lines(g, &kernels, locs, out);
}

/// Appends a local program: its parts, each followed by its lines.
pub(super) fn local(l: &Local, locs: bool, out: &mut String) {
    let kernels = Kernels::new(l.parts.iter().flat_map(|p| used(&p.graph)));
    kernels.write(out);
    let name = l.name.as_ref().map(|n| format!(" @{}", quoted(n))).unwrap_or_default();
    *out += &format!("\nlocal{name}\n");
    for p in &l.parts {
        *out += &format!("\nranks {}{}\n", runs(&p.ranks), loc(p.span, locs));
        let mut body = String::new();
        lines(&p.graph, &kernels, locs, &mut body);
        for line in body.lines() {
            *out += if line.is_empty() { "" } else { "  " };
            *out += line;
            out.push('\n');
        }
    }
}

/// Prints runs of ranks: `0..2, 5..6`.
fn runs(ranks: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = vec![];
    for r in ranks {
        match runs.last_mut() {
            Some(last) if last.1 == *r => last.1 += 1,
            _ => runs.push((*r, r + 1)),
        }
    }
    runs.iter().map(|(a, b)| format!("{a}..{b}")).collect::<Vec<_>>().join(", ")
}

/// Appends the lines of a graph.
fn lines(g: &Graph, kernels: &Kernels, locs: bool, out: &mut String) {
    let inputs = labels(g.inputs.iter().map(|i| &i.name));
    let values = labels(g.order().iter().map(|id| &g.op(*id).name));
    let names: BTreeMap<OpId, &String> = g.order().iter().copied().zip(&values).collect();
    for (i, input) in g.inputs.iter().enumerate() {
        let data = input.data.as_ref().map(|d| format!(" data {}", show_data(d, locs))).unwrap_or_default();
        let ty = show_type(&input.ty);
        *out += &format!("input @{} : {ty}{data}{}\n", inputs[i], loc(input.span, locs));
    }
    for t in &g.results {
        *out += &format!("result : {}\n", show_type(t));
    }
    if let Some(e) = &g.expect {
        let data: Vec<String> = e.data.iter().map(|d| show_data(d, locs)).collect();
        *out += format!("expect {}", data.join(", ")).trim_end();
        out.push('\n');
    }
    out.push('\n');
    for (i, id) in g.order().iter().enumerate() {
        let op = g.op(*id);
        let args: Vec<String> = g
            .operands(*id)
            .iter()
            .map(|o| names.get(o).map_or_else(|| format!("%`?{}`", o.0), |n| format!("%{n}")))
            .collect();
        let args = args.join(", ");
        let text = match &op.kind {
            OpKind::Input(n) => match inputs.get(*n) {
                Some(name) => format!("input @{name} {args}"),
                None => format!("input {n} {args}"),
            },
            OpKind::Matmul { accumulate_f32 } => {
                format!("matmul {args}{}", if *accumulate_f32 { " accumulate f32" } else { "" })
            }
            OpKind::Map(f) => format!("map {}({args})", kernels.label(f)),
            OpKind::Tiles(k) => format!("tiles {}({args})", kernels.tiles_label(k)),
            OpKind::ReduceDim { op, mean, dim, keep } => {
                let mean = if *mean { " mean" } else { "" };
                format!("reduce_dim {op} {args} dim {dim}{mean}{}", if *keep { " keep" } else { "" })
            }
            OpKind::Cast(d) => format!("cast {d} {args}"),
            OpKind::Embedding => format!("embedding {args}"),
            OpKind::Grouped(runs) => format!("grouped {args} runs {runs}"),
            OpKind::Fill(f) => format!("fill {f}"),
            OpKind::Shape(s) => format!("{} {args} {s}", s.name()),
            OpKind::Collective(c) => collective(c, &args, locs),
            OpKind::Demand => format!("demand {args}"),
            OpKind::PartialDemand(open) => format!("ask {args} open {open:?}"),
            OpKind::Wait => format!("wait.result {args}"),
            OpKind::Host(op) => format!("host.{} {args}", op.word()),
            OpKind::Output(n) => format!("output {n} {args}"),
        };
        let ty = op.ty.as_ref().map(|t| format!(" : {}", show_type(t))).unwrap_or_default();
        let want = op.want.as_ref().map(|t| format!(" want {}", show_type(t))).unwrap_or_default();
        *out += &format!("%{} = {}{ty}{want}{}\n", values[i], text.trim_end(), loc(op.span, locs));
        if let OpKind::Collective(Collective { own: Some(own), .. }) = &op.kind
            && let Some(p) = &own.contract
        {
            for (depth, line) in contract(p, Some(own.ranks)) {
                *out += &format!("{}{line}\n", "  ".repeat(depth));
            }
        }
    }
}

fn collective(c: &Collective, args: &str, locs: bool) -> String {
    let mut out = c.kind.name().to_string();
    if let Some(o) = &c.own {
        out += &format!(" {}", quoted(&o.name));
        if !o.part_of.is_empty() {
            let list: Vec<String> = o.part_of.iter().map(u64::to_string).collect();
            out += &format!(" [{}]", list.join(", "));
        }
    }
    if let Some(r) = c.red {
        out += &format!(" {r}");
    }
    out += &match &c.axes()[..] {
        [one] => format!(" {args} over {}", quoted(one)),
        many => {
            let names: Vec<String> = many.iter().map(Name::as_str).map(quoted).collect();
            format!(" {args} over ({})", names.join(", "))
        }
    };
    if let Some(d) = c.dim {
        out += &format!(" dim {d}");
    }
    if let Some(d) = c.from_dim {
        out += &format!(" from {d}");
    }
    if let Some(r) = c.root {
        out += &format!(" root {r}");
    }
    if let Some(m) = &c.counts {
        out += &format!(" counts [{m}]");
    }
    if !c.explicit {
        out += " inserted";
    }
    if c.fixed_order {
        out += " order fixed";
    }
    if let Some(u) = &c.using {
        out += &using(u, locs);
    }
    if let Some(s) = &c.stream {
        out += &format!(" stream {}", quoted(s));
    }
    out
}

fn using(u: &Using, locs: bool) -> String {
    let list = |before: &str, list: &[(Name, UsingArg)]| {
        let list: Vec<String> = list
            .iter()
            .map(|(n, v)| match v {
                UsingArg::Int(i) => format!("{}: {i}", quoted(n)),
                UsingArg::Name(v) => format!("{}: {}", quoted(n), quoted(v)),
            })
            .collect();
        if list.is_empty() { String::new() } else { format!("{before}({})", list.join(", ")) }
    };
    let args = list("", &u.args) + &list(" with ", &u.options);
    // A missing location means that `select` chose the algorithm.
    let by = if u.span.is_none() { " selected".into() } else { loc(u.span, locs) };
    format!(" using {}{args}{by}", quoted(&u.alg))
}
