//! Local programs: for each set of ranks, the operations on a rank's own tensors, with explicit
//! collectives (`docs/adr/031-local-programs.md`).
//!
//! The module owns the parts, the groups of ranks that collectives run over, and the sizes of a
//! collective's result on one rank. It also owns the interface to the outside: inputs and results
//! are stacks with one row per rank. `meeting` matches the collectives of all parts.
//! [`crate::graph`] defines the operations between them; in a local program its types have no
//! placement.

mod matched;
mod pending;

pub use matched::{MatchedCollective, matched_collectives, signature};
pub use pending::pending;

use crate::graph::{
    CollKind, Collective, DataSource, Expect, Graph, GraphOp, Holding, Input, Movement, OpId, OpKind,
};
use crate::name::Name;
use crate::parts::Parts;
use crate::types::{Cut, CutRule, Dim, Mesh, TensorType};
use kbc_diag::Span;

/// Program of a set of ranks.
#[derive(Clone, Debug, Default)]
pub struct LocalPart {
    /// Ranks of the part by linear index in the mesh, ascending.
    pub ranks: Vec<u64>,
    /// Operations, on one rank's own tensors.
    pub graph: Graph,
    /// Source location.
    pub span: Span,
}

/// A local program. Every rank of the mesh is in exactly one part.
#[derive(Clone, Debug, Default)]
pub struct Local {
    /// Name of the program, if it has one of its own.
    pub name: Option<Name>,
    /// The parts.
    pub parts: Vec<LocalPart>,
}

/// An input or a result of a part, in the form in which it is supplied and compared.
#[derive(Clone, Debug)]
pub struct Port {
    /// Number of the part.
    pub part: usize,
    /// Number of the input or result in the part.
    pub index: usize,
    /// Name. If several parts use the same name, it includes the part's first rank (`x_r2`).
    pub name: Name,
    /// Type of the stack: dimension 0 has a row for each rank of the part, in their order.
    pub ty: TensorType,
}

/// Partition of all ranks into groups. The ranks of a group differ only in the coordinates of some
/// axes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Groups {
    /// Ranks of each group, in the order of their places in the group.
    pub list: Vec<Vec<u64>>,
    /// For each rank, its group and its place in the group.
    pub of: Vec<(usize, u64)>,
}

impl Groups {
    /// Returns the groups over these axes of the mesh, the last axis fastest. Returns `None` if one
    /// of them is not an axis of the mesh, or is named twice.
    pub fn over(mesh: &Mesh, axes: &[Name]) -> Option<Groups> {
        let place = |n: &Name| mesh.axes.iter().position(|a| a.name == *n);
        let at: Vec<usize> = axes.iter().map(place).collect::<Option<_>>()?;
        if (1..at.len()).any(|i| at[..i].contains(&at[i])) {
            return None;
        }
        let size: u64 = at.iter().map(|i| mesh.axes[*i].size).product();
        let mut keys: std::collections::BTreeMap<Vec<i64>, usize> = std::collections::BTreeMap::new();
        let mut out = Groups { list: vec![], of: vec![] };
        for rank in 0..mesh.ranks() {
            let coords = mesh.coords(rank);
            let inside = at.iter().fold(0, |n, i| n * mesh.axes[*i].size + coords[*i] as u64);
            let rest = (0..coords.len()).filter(|i| !at.contains(i)).map(|i| coords[i]).collect();
            let group = *keys.entry(rest).or_insert_with(|| {
                out.list.push(vec![0; size as usize]);
                out.list.len() - 1
            });
            out.list[group][inside as usize] = rank;
            out.of.push((group, inside));
        }
        Some(out)
    }

    /// Returns axes, in the mesh's order, over which these ranks form a group in this order: a
    /// single axis if possible, otherwise as few as possible.
    pub fn axes_of(mesh: &Mesh, ranks: &[u64]) -> Option<Vec<Name>> {
        let n = mesh.axes.len().min(16);
        let mut sets: Vec<u32> = (1..1u32 << n).collect();
        sets.sort_by_key(|s| (s.count_ones(), s.reverse_bits()));
        sets.into_iter().find_map(|set| {
            let axes = mesh.axes.iter().enumerate().filter(|(i, _)| *i < n && set >> i & 1 == 1);
            let (names, sizes): (Vec<Name>, Vec<u64>) = axes.map(|(_, a)| (a.name.clone(), a.size)).unzip();
            if sizes.iter().product::<u64>() != ranks.len() as u64 {
                return None;
            }
            Groups::over(mesh, &names)?.list.iter().any(|g| g == ranks).then_some(names)
        })
    }
}

impl Collective {
    /// Returns the axes that the collective runs over.
    pub fn axes(&self) -> Vec<Name> {
        std::iter::once(&self.axis).chain(&self.joined).cloned().collect()
    }
}

/// Returns the sizes of a collective's result on one rank of a local program. `sizes` are those of
/// its operand, `p` is the size of the group, and `places` are the places in their groups of the
/// ranks that issue it.
///
/// # Errors
/// Returns a message about what does not fit, to be printed after `all_gather of f32[2, 3]:`.
pub fn result_sizes(c: &Collective, p: u64, places: &[u64], sizes: &[u64]) -> Result<Vec<u64>, String> {
    let mut out = sizes.to_vec();
    let dimension = |d: Option<usize>| match d.filter(|d| *d < sizes.len()) {
        Some(d) => Ok(d),
        None => Err(format!("dimension {} does not exist", d.unwrap_or(0))),
    };
    let gather = |out: &mut Vec<u64>, d: usize| match out[d].checked_mul(p) {
        Some(n) => {
            out[d] = n;
            Ok(())
        }
        None => Err("the number of elements exceeds 64 bits".to_owned()),
    };
    let scatter = |out: &mut Vec<u64>, d: usize| match out[d].is_multiple_of(p) {
        true => {
            out[d] /= p;
            Ok(())
        }
        false => Err(format!("dimension {d} has {} elements, which {p} ranks cannot share evenly", out[d])),
    };
    if let Some(counts) = c.counts.as_ref().filter(|_| c.kind.takes(Holding::SplitFrom)) {
        out[dimension(Some(0))?] = exchanged(counts, p, places, sizes[0])?;
        return Ok(out);
    }
    match c.kind.movement() {
        Some(Movement::PartialToWhole | Movement::RootToWhole) => {}
        None if c.kind == CollKind::Barrier => {}
        Some(Movement::PartialToSplit) => scatter(&mut out, dimension(c.dim)?)?,
        Some(Movement::SplitToWhole) => gather(&mut out, dimension(c.dim)?)?,
        Some(Movement::SplitFromToSplit) => {
            let (from, to) = (dimension(c.from_dim)?, dimension(c.dim)?);
            scatter(&mut out, to)?;
            gather(&mut out, from)?;
        }
        Some(Movement::PartialToRoot | Movement::SplitToRoot | Movement::RootToSplit) | None => {
            return Err(
                "its result differs between the ranks of a group, and one type cannot describe that".into()
            );
        }
    }
    Ok(out)
}

/// Returns the number of rows that ranks at these places receive, according to a matrix of counts.
fn exchanged(counts: &Parts, p: u64, places: &[u64], rows: u64) -> Result<u64, String> {
    let columns = counts.transposed().filter(|t| counts.rows() == p && t.rows() == p);
    let (sums, columns) = match columns {
        Some(t) => (counts.totals(), t.totals()),
        None => {
            return Err(format!(
                "the matrix of counts is {} x {}, and groups have {p} ranks",
                counts.rows(),
                counts.of()
            ));
        }
    };
    let of = |list: &[u64], at: u64| list.get(at as usize).copied().unwrap_or(0);
    for at in places {
        if of(&sums, *at) != rows {
            return Err(format!(
                "rank {at} of the group has {rows} rows, and its counts {:?} add up to {}",
                counts.lengths(*at),
                of(&sums, *at)
            ));
        }
    }
    let first = places.first().map_or(0, |at| of(&columns, *at));
    match places.iter().find(|at| of(&columns, **at) != first) {
        Some(at) => Err(format!(
            "rank {} of the group receives {first} rows and rank {at} receives {}: write a separate `ranks` part for each",
            places[0],
            of(&columns, *at)
        )),
        None => Ok(first),
    }
}

/// Returns the types of operand and result of the same collective on tensors of the whole group.
/// The cost model prices these types, and `expand` derives the lines of an all_to_all with counts
/// from them. `from` and `to` are the types of operand and result on one rank.
pub fn group_types(
    c: &Collective,
    axes: &[Name],
    p: u64,
    from: &TensorType,
    to: &TensorType,
) -> (TensorType, TensorType) {
    let split = |ty: &TensorType, d: usize, rule: CutRule, size: u64| {
        let mut ty = ty.clone();
        if let Some(dim) = ty.dims.get_mut(d) {
            *dim = Dim { size, cut: Some(Cut { axes: axes.to_vec(), rule }) };
        }
        ty
    };
    let all = |ty: &TensorType, d: usize| {
        let n = ty.dims.get(d).map_or(0, |d| d.size.saturating_mul(p));
        split(ty, d, CutRule::Even, n)
    };
    let partial = |ty: &TensorType| TensorType { partial: c.red.map(|op| (op, axes.to_vec())), ..ty.clone() };
    let dim = c.dim.unwrap_or(0);
    if let Some(counts) = c.counts.as_ref().filter(|_| c.kind.takes(Holding::SplitFrom)) {
        let rows = |m: &Parts| {
            let sums = m.totals();
            let total = sums.iter().fold(0u64, |n, s| n.saturating_add(*s));
            (Parts::row(&sums).map_or(CutRule::Even, CutRule::Lengths), total)
        };
        let (sent, n) = rows(counts);
        let (received, m) = counts.transposed().as_ref().map_or((CutRule::Even, n), rows);
        return (split(from, 0, sent, n), split(to, 0, received, m));
    }
    let state = |holding: Holding, ty: &TensorType| match holding {
        Holding::Partial => partial(ty),
        Holding::Split => all(ty, dim),
        Holding::SplitFrom => all(ty, c.from_dim.unwrap_or(0)),
        Holding::Root if axes.len() == 1 => {
            TensorType { only: Some((c.root.unwrap_or(0), axes[0].clone())), ..ty.clone() }
        }
        Holding::Root | Holding::Whole => ty.clone(),
    };
    match c.kind.change() {
        Some((before, after)) => (state(before, from), state(after, to)),
        None => (from.clone(), to.clone()),
    }
}

impl Local {
    /// Returns the part of a rank.
    pub fn part_of(&self, rank: u64) -> Option<usize> {
        self.parts.iter().position(|p| p.ranks.binary_search(&rank).is_ok())
    }

    /// Returns dimension 0 of the stacks of a part.
    pub fn rows(&self, mesh: &Mesh, part: usize) -> Dim {
        let ranks = self.parts.get(part).map_or(&[][..], |p| &p.ranks);
        let axes: Vec<Name> = mesh.axes.iter().map(|a| a.name.clone()).collect();
        let all = ranks.len() as u64 == mesh.ranks();
        let lengths = || {
            let held: Vec<u64> =
                (0..mesh.ranks()).map(|r| u64::from(ranks.binary_search(&r).is_ok())).collect();
            Parts::row(&held).map_or(CutRule::Even, CutRule::Lengths)
        };
        let rule = if all { CutRule::Even } else { lengths() };
        Dim { size: ranks.len() as u64, cut: (!axes.is_empty()).then_some(Cut { axes, rule }) }
    }

    fn ports(&self, mesh: &Mesh, lists: Vec<Vec<(Name, TensorType)>>) -> Vec<Port> {
        let mut out = vec![];
        for (part, list) in lists.iter().enumerate() {
            for (index, (name, ty)) in list.iter().enumerate() {
                let others = lists.iter().flatten().filter(|o| o.0 == *name).count();
                let first = self.parts[part].ranks.first().copied().unwrap_or(0);
                let name = if others > 1 { format!("{name}_r{first}").into() } else { name.clone() };
                let mut ty = ty.clone();
                ty.dims.insert(0, self.rows(mesh, part));
                out.push(Port { part, index, name, ty });
            }
        }
        out
    }

    /// Returns the inputs of all parts, in their order.
    pub fn inputs(&self, mesh: &Mesh) -> Vec<Port> {
        let of = |p: &LocalPart| p.graph.inputs.iter().map(|i| (i.name.clone(), i.ty.clone())).collect();
        self.ports(mesh, self.parts.iter().map(of).collect())
    }

    /// Returns the results of all parts, in their order.
    pub fn results(&self, mesh: &Mesh) -> Vec<Port> {
        let of = |p: &LocalPart| {
            p.graph.results.iter().cloned().zip(outputs(&p.graph)).map(|(t, n)| (n, t)).collect()
        };
        self.ports(mesh, self.parts.iter().map(of).collect())
    }

    /// Returns the interface as a graph of stacks: inputs, results, stored results, and outputs
    /// without operands.
    pub fn interface(&self, mesh: &Mesh) -> Graph {
        let mut g = Graph::default();
        g.name = self.name.clone();
        for port in self.inputs(mesh) {
            let own = &self.parts[port.part].graph.inputs[port.index];
            g.inputs.push(Input { name: port.name, ty: port.ty, data: own.data.clone(), span: own.span });
        }
        let stored: Vec<DataSource> =
            self.parts.iter().filter_map(|p| p.graph.expect.as_ref()).flat_map(|e| e.data.clone()).collect();
        for (i, port) in self.results(mesh).into_iter().enumerate() {
            let ty = Some(port.ty.clone());
            g.results.push(port.ty);
            let span = self.parts[port.part].span;
            g.push(GraphOp { kind: OpKind::Output(i), name: port.name, ty, want: None, span }, &[]);
        }
        g.expect = (!stored.is_empty()).then_some(Expect { data: stored });
        g
    }
}

/// Returns the names of a graph's outputs, by number.
fn outputs(g: &Graph) -> Vec<Name> {
    let mut out: Vec<(usize, Name)> = g
        .order()
        .iter()
        .filter_map(|id| match g.op(*id).kind {
            OpKind::Output(i) => Some((i, g.op(*id).name.clone())),
            _ => None,
        })
        .collect();
    out.sort();
    out.into_iter().map(|o| o.1).collect()
}

/// Returns the collectives of a part, in the order in which its ranks issue them.
pub(crate) fn issued(g: &Graph) -> impl Iterator<Item = (OpId, &Collective)> {
    g.order().iter().filter_map(|id| match &g.op(*id).kind {
        OpKind::Collective(c) => Some((*id, c)),
        _ => None,
    })
}
