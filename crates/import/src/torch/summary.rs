//! Statistics of a set of programs, for reports.

use super::arg::Arg;
use super::groups::{World, group_of};
use super::matching::MatchedCollective;
use super::model::{Meta, Program};
use kbc_ir::collective::Holding;
use std::collections::BTreeMap;

/// A group of equal collectives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Collective {
    /// The operation, such as `all_reduce`.
    pub operation: &'static str,
    /// The reduction, such as `sum`, if the collective combines values.
    pub reduce: Option<String>,
    /// Name of the group on its first rank.
    pub group: String,
    /// Members of the group.
    pub members: Vec<u64>,
    /// Operands on the first rank, such as `f32[8, 16]`.
    pub operand: String,
    /// Bytes per rank; for all_gather those of the whole output.
    pub bytes: u64,
    /// Number of such collectives.
    pub count: u64,
}

/// Counts the operations of a program by name.
pub fn operations(p: &Program) -> BTreeMap<&'static str, u64> {
    let mut out = BTreeMap::new();
    for n in &p.nodes {
        *out.entry(n.op.name).or_insert(0) += 1;
    }
    out
}

/// Returns the collectives of a program whose peers are not known.
pub fn collectives_without_peers(world: &World) -> Vec<MatchedCollective> {
    let mut out = vec![];
    for (i, p) in world.programs.iter().enumerate() {
        for n in (0..p.nodes.len()).filter(|n| p.nodes[*n].op.rule.is_collective()) {
            let group = group_of(p, n).to_owned();
            let members = world.groups[i].get(&group).cloned().unwrap_or_default();
            out.push(MatchedCollective { members, group, at: (i, n), all: vec![(i, n)] });
        }
    }
    out
}

fn bytes(m: &Meta) -> u64 {
    let elements = m.shape().iter().try_fold(1u64, |a, n| a.checked_mul(u64::try_from(*n).ok()?));
    elements.and_then(|n| n.checked_mul(m.dtype.bytes())).unwrap_or(u64::MAX)
}

/// Groups collectives by operation, operand and group, in the order of first occurrence.
pub fn collectives(world: &World, met: &[MatchedCollective]) -> Vec<Collective> {
    let mut out: Vec<Collective> = vec![];
    for m in met {
        let p = &world.programs[m.at.0];
        let n = &p.nodes[m.at.1];
        let Some(kind) = n.op.rule.collective() else { continue };
        let operands: Vec<&Meta> = n.args[0].values().filter_map(|v| p.meta(*v)).collect();
        // Gathered parts count as the whole value, which only the result is.
        let counted: u64 = if kind.takes(Holding::Split) {
            n.outputs.iter().filter_map(|v| p.meta(*v)).map(bytes).fold(0, u64::saturating_add)
        } else {
            operands.iter().map(|m| bytes(m)).fold(0, u64::saturating_add)
        };
        let reduce = match n.arg("reduce_op") {
            Arg::Text(s) => Some(s.clone()),
            _ => None,
        };
        let operand = operands.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let one = Collective {
            operation: kind.name(),
            reduce,
            group: m.group.clone(),
            members: m.members.clone(),
            operand,
            bytes: counted,
            count: 1,
        };
        match out.iter_mut().find(|c| Collective { count: 1, ..(*c).clone() } == one) {
            Some(c) => c.count += 1,
            None => out.push(one),
        }
    }
    out
}
