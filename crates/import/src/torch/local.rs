//! Checks of one rank's program on its own: recorded types against rules, waits, reductions,
//! groups, symbolic sizes.

use super::arg::Arg;
use super::groups::{World, group_of, said_size, words};
use super::model::{Meta, Program, ValueId, ValueKind};
use super::rule::Rule;
use super::rules::{Shape, shapes};
use super::symbols;
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics};

/// The reductions of PyTorch; the last three are for integers only.
pub const REDUCTIONS: [&str; 8] = ["sum", "avg", "product", "min", "max", "band", "bor", "bxor"];

/// Checks the program at index `at` of a world and returns its errors.
pub fn check(world: &World, at: usize) -> Diagnostics {
    let p = &world.programs[at];
    let mut found = Diagnostics::new();
    for why in symbols::bind(sizes(p), &p.written.ranges) {
        found.push(Diagnostic::error("E536", format!("contradictory sizes: {why}")).note(p.file.clone()));
    }
    // For each value that is the result of a collective and has not been waited for, the node of
    // that collective.
    let mut pending: Vec<Option<usize>> = vec![None; p.values.len()];
    // Values whose record is wrong. Errors that follow from them are not reported.
    let mut doubtful = vec![false; p.values.len()];
    for n in 0..p.nodes.len() {
        waits(p, n, &mut pending, &mut found);
        if p.nodes[n].op.rule.is_collective()
            && let Err(d) = collective(p, n, &world.groups[at])
        {
            found.push(*d);
        }
        if p.nodes[n].args.iter().flat_map(Arg::values).any(|v| doubtful[*v]) {
            continue;
        }
        let before = found.list.len();
        records(p, n, &mut found);
        if let (Rule::ShardDim, Some(g)) = (p.nodes[n].op.rule, world.groups[at].get(group_of(p, n))) {
            shard_dim(p, n, g.len() as i64, &mut found);
        }
        if found.list.len() > before {
            p.nodes[n].outputs.iter().for_each(|v| doubtful[*v] = true);
        }
    }
    for v in &p.outputs {
        if let Some(by) = pending[*v] {
            found.push(
                unwaited(p, *v, by)
                    .primary(p.span(p.nodes.len()), "the program returns this value")
                    .secondary(p.span(by), "the collective starts here"),
            );
            pending[*v] = None;
        }
    }
    found
}

fn sizes(p: &Program) -> impl Iterator<Item = (&str, &symbols::Size)> + Clone {
    p.values.iter().flat_map(|v| {
        let list: &[symbols::Size] = match &v.kind {
            ValueKind::Tensor(m) => &m.sizes,
            ValueKind::Int(s) => std::slice::from_ref(s),
            _ => &[],
        };
        list.iter().map(move |s| (v.name.as_str(), s))
    })
}

fn unwaited(p: &Program, v: ValueId, by: usize) -> Diagnostic {
    let name = &p.values[v].name;
    Diagnostic::error("E527", format!("`{name}` is used without waiting for {}", p.nodes[by].op.name))
        .note(format!("{}: the result of a collective is available only after wait_tensor", p.file))
        .help(format!("use the result of wait_tensor({name})"))
}

fn waits(p: &Program, n: usize, pending: &mut [Option<usize>], found: &mut Diagnostics) {
    let node = &p.nodes[n];
    let used: Vec<ValueId> = node.args.iter().flat_map(Arg::values).copied().collect();
    if node.op.rule == Rule::Wait {
        used.into_iter().for_each(|v| pending[v] = None);
        return;
    }
    for v in used {
        if let Some(by) = pending[v].take() {
            found.push(
                unwaited(p, v, by)
                    .primary(p.span(n), "used here")
                    .secondary(p.span(by), "the collective starts here")
                    .note(p.place(n)),
            );
        }
    }
    if node.op.rule.is_pending() {
        node.outputs.iter().for_each(|v| pending[*v] = Some(n));
    }
}

/// Checks the reduction of a collective, its group, and the group's size.
fn collective(
    p: &Program,
    n: usize,
    groups: &std::collections::BTreeMap<String, Vec<u64>>,
) -> Result<(), Box<Diagnostic>> {
    let node = &p.nodes[n];
    let at = |d: Diagnostic| Box::new(d.primary(p.span(n), "here").note(p.place(n)));
    if let Arg::Text(op) = node.arg("reduce_op") {
        let index = REDUCTIONS.iter().position(|r| r == op).ok_or_else(|| {
            let d = Diagnostic::error("E528", format!("unknown reduction '{op}'"));
            let near = nearest(op, REDUCTIONS);
            at(d.help(near.map_or_else(|| REDUCTIONS.join(", "), |r| format!("did you mean '{r}'?"))))
        })?;
        let float = inputs(p, n).find(|m| m.dtype.class() == 2);
        if let (true, Some(m)) = (index >= 5, float) {
            return Err(at(Diagnostic::error(
                "E528",
                format!("'{op}' is a bitwise operation, which is not defined for {m}"),
            )));
        }
    }
    let name = group_of(p, n);
    let Some(members) = groups.get(name) else {
        let known: Vec<&str> = groups.keys().map(String::as_str).collect();
        let d = Diagnostic::error("E529", format!("rank {} has no group '{name}'", p.rank));
        return Err(at(d.help(format!("the groups of this rank are {}", known.join(", ")))));
    };
    if !members.contains(&p.rank) {
        let d = Diagnostic::error("E529", format!("rank {} is not in group '{name}'", p.rank));
        return Err(at(d.help(format!("the members of this group are {}", words(members)))));
    }
    let size = members.len() as u64;
    if let Some(said) = said_size(p, n).filter(|s| *s != size) {
        let d = Diagnostic::error(
            "E539",
            format!("group '{name}' has {size} ranks, and the operation states {said}"),
        );
        return Err(at(d.help(format!("the members of this group are {}", words(members)))));
    }
    if let (Arg::Ints(l), Rule::AllToAll) = (node.arg("output_split_sizes"), node.op.rule)
        && l.len() as u64 != size
    {
        let what = format!("group '{name}' has {size} ranks, and output_split_sizes has {}", l.len());
        return Err(at(Diagnostic::error("E539", what)));
    }
    if let Arg::Int(i) = node.arg("src")
        && p.int(i).is_none_or(|s| u64::try_from(s).is_ok_and(|s| s >= size) || s < 0)
    {
        let what = format!("the source of a broadcast must be a rank of its group, below {size}");
        return Err(at(Diagnostic::error("E539", what)));
    }
    Ok(())
}

/// Returns the records of a node's tensor operands.
fn inputs(p: &Program, n: usize) -> impl Iterator<Item = &Meta> {
    p.nodes[n].args.iter().flat_map(Arg::values).filter_map(|v| p.meta(*v))
}

fn shard_dim(p: &Program, n: usize, size: i64, found: &mut Diagnostics) {
    let node = &p.nodes[n];
    let number = |name: &str| match node.arg(name) {
        Arg::Int(i) => p.int(i),
        _ => None,
    };
    let (Some(from), Some(to), Some(g), Some(s)) = (
        inputs(p, n).next(),
        node.outputs.first().and_then(|v| p.meta(*v)),
        number("gather_dim"),
        number("shard_dim"),
    ) else {
        return;
    };
    let mut shape = from.shape();
    let rank = shape.len() as i64;
    let dim = |d: i64| usize::try_from(if d < 0 { d + rank } else { d }).ok().filter(|d| *d < shape.len());
    let (Some(g), Some(s)) = (dim(g), dim(s)) else { return };
    if shape[s] % size != 0 {
        let what = format!("{}: dimension {s} of {from} is not a multiple of {size} ranks", node.op.name);
        found.push(Diagnostic::error("E526", what).primary(p.span(n), "here").note(p.place(n)));
        return;
    }
    shape[s] /= size;
    shape[g] = shape[g].saturating_mul(size);
    if to.shape() != shape || to.dtype != from.dtype {
        found.push(contradicts(p, n, to, &Shape { dtypes: vec![from.dtype], sizes: shape }, 0));
    }
}

fn contradicts(p: &Program, n: usize, record: &Meta, rule: &Shape, which: usize) -> Diagnostic {
    let node = &p.nodes[n];
    let name = &p.values[node.outputs[which]].name;
    let dtype = rule.dtypes.first().copied().unwrap_or(record.dtype).name();
    let sizes: Vec<String> = rule.sizes.iter().map(ToString::to_string).collect();
    let given: Vec<String> = inputs(p, n).map(ToString::to_string).collect();
    Diagnostic::error(
        "E525",
        format!(
            "`{name}` is recorded as {record}, and {} computes {dtype}[{}]",
            node.op.name,
            sizes.join(", ")
        ),
    )
    .primary(p.span(n), format!("of {}", if given.is_empty() { "nothing".into() } else { given.join(", ") }))
    .note(p.place(n))
}

/// Compares the recorded types of a node's results with those that its rule gives.
fn records(p: &Program, n: usize, found: &mut Diagnostics) {
    let node = &p.nodes[n];
    let rules = match shapes(p, node) {
        Ok(rules) => rules,
        Err(why) => {
            let d = Diagnostic::error("E526", format!("{}: {why}", node.op.name));
            found.push(d.primary(p.span(n), "here").note(p.place(n)));
            return;
        }
    };
    let no_tensors = matches!(node.op.rule, Rule::Nothing | Rule::SymSize | Rule::Number | Rule::ShardDim);
    if !no_tensors && rules.len() != node.outputs.len() {
        let what =
            format!("{} has {} results, and {} are assigned", node.op.name, rules.len(), node.outputs.len());
        found.push(Diagnostic::error("E525", what).primary(p.span(n), "here").note(p.place(n)));
        return;
    }
    for (i, (rule, v)) in rules.iter().zip(&node.outputs).enumerate() {
        let Some(record) = p.meta(*v) else { continue };
        let dtype = rule.dtypes.is_empty() || rule.dtypes.contains(&record.dtype);
        if !dtype || record.shape() != rule.sizes {
            found.push(contradicts(p, n, record, rule, i));
        }
    }
    if node.op.rule == Rule::SymSize {
        sym_size(p, n, found);
    }
}

fn sym_size(p: &Program, n: usize, found: &mut Diagnostics) {
    let node = &p.nodes[n];
    let (Some(m), Arg::Int(d)) = (inputs(p, n).next(), node.arg("dim")) else { return };
    let rank = m.sizes.len() as i64;
    let size = p
        .int(d)
        .map(|d| if d < 0 { d + rank } else { d })
        .and_then(|d| m.sizes.get(usize::try_from(d).ok()?));
    let said = node.outputs.first().and_then(|v| match &p.values[*v].kind {
        ValueKind::Int(s) => Some(s),
        _ => None,
    });
    match (size, said) {
        (None, _) => {
            let what = format!("{}: {m} does not have this dimension", node.op.name);
            found.push(Diagnostic::error("E526", what).primary(p.span(n), "here").note(p.place(n)));
        }
        (Some(a), Some(b)) if a.value != b.value => {
            let what = format!("{} is {}, and {} is recorded", node.op.name, a.value, b.value);
            found.push(Diagnostic::error("E525", what).primary(p.span(n), "here").note(p.place(n)));
        }
        _ => {}
    }
}
