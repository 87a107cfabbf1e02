//! Mesh of a set of programs: axes that cut the order of the ranks, the last one fastest, such that
//! every group is a range of axes.
//!
//! This module owns the derivation of axes from the sizes and strides of groups, and their names.

use super::names::word;
use crate::torch::groups::{World, words};
use crate::torch::matching::MatchedCollective;
use kbc_diag::Diagnostic;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// An axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Name, such as `tp`.
    pub name: String,
    /// Number of ranks.
    pub size: u64,
    /// Distance between the numbers of neighbouring ranks.
    pub stride: u64,
}

/// The axes of a mesh, slowest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axes {
    /// One axis or more.
    pub list: Vec<Axis>,
}

/// Returns size and stride of a group; none if its members are not evenly spaced in increasing
/// order or do not begin at an axis's origin.
fn regular(members: &[u64]) -> Option<(u64, u64)> {
    let n = members.len() as u64;
    let [a, b, ..] = members else { return Some((n, 1)) };
    let stride = b.checked_sub(*a).filter(|s| *s > 0)?;
    let even = members.windows(2).all(|w| w[1].checked_sub(w[0]) == Some(stride));
    // The first member must have coordinate 0 on the axis.
    (even && (a / stride).is_multiple_of(n)).then_some((n, stride))
}

/// Returns the strides at which groups of these sizes and strides cut the order of the ranks; none
/// if they do not fit together.
fn cut(world: u64, groups: &[(u64, u64)]) -> Option<Vec<u64>> {
    let mut marks = BTreeSet::from([1, world]);
    for (n, stride) in groups {
        marks.extend([*stride, n.checked_mul(*stride)?]);
    }
    let marks: Vec<u64> = marks.into_iter().collect();
    marks.windows(2).all(|w| w[1].is_multiple_of(w[0])).then_some(marks)
}

/// Returns the axes that follow from the groups of collectives and, if they fit, from the named
/// groups of the tables.
///
/// # Errors
/// Returns E551 for groups that are not axes.
pub fn axes(world: &World, met: &[MatchedCollective]) -> Result<Axes, Diagnostic> {
    of(world, met, false)
}

/// Returns the axes that follow from all groups of the tables, as far as they fit, and from those
/// of collectives. A missing collective has a group too, so checks need these axes.
///
/// # Errors
/// Returns E551 for groups that are not axes.
pub fn all(world: &World, met: &[MatchedCollective]) -> Result<Axes, Diagnostic> {
    of(world, met, true)
}

fn of(world: &World, met: &[MatchedCollective], unnamed: bool) -> Result<Axes, Diagnostic> {
    let mut used: Vec<(u64, u64)> = vec![];
    for m in met.iter().filter(|m| m.members.len() > 1) {
        let p = &world.programs[m.at.0];
        let why = "its ranks are not at equal distances from an aligned first rank";
        let group = regular(&m.members)
            .ok_or_else(|| refused(&m.members, why).primary(p.span(m.at.1), "used here"))?;
        if !used.contains(&group) {
            used.push(group);
        }
        if cut(world.size, &used).is_none() {
            let sizes: Vec<String> = used.iter().map(|(n, s)| format!("{n} ranks in steps of {s}")).collect();
            let why = format!("{} cannot be the axes of a mesh of {} ranks", sizes.join(", "), world.size);
            return Err(refused(&m.members, &why).primary(p.span(m.at.1), "used here"));
        }
    }
    // Names of axes, and axes that this program does not use.
    let mut named: Vec<((u64, u64), &str)> = vec![];
    let mut all = used;
    for (groups, names) in world.groups.iter().zip(&world.axes) {
        for (group, axis) in names {
            let Some(shape) = groups.get(group).filter(|m| m.len() > 1).and_then(|m| regular(m)) else {
                continue;
            };
            let mut more = all.clone();
            more.push(shape);
            if cut(world.size, &more).is_some() && !named.iter().any(|n| n.0 == shape || n.1 == axis) {
                named.push((shape, axis));
                all = more;
            }
        }
    }
    for shape in world.groups.iter().flat_map(BTreeMap::values).filter(|m| unnamed && m.len() > 1) {
        if let Some(shape) = regular(shape)
            && cut(world.size, &[&all[..], &[shape]].concat()).is_some()
            && !all.contains(&shape)
        {
            all.push(shape);
        }
    }
    let marks = cut(world.size, &all).unwrap_or_else(|| vec![1, world.size]);
    let mut list: Vec<Axis> = marks
        .windows(2)
        .rev()
        .map(|w| Axis { name: String::new(), size: w[1] / w[0], stride: w[0] })
        .collect();
    if list.is_empty() {
        list.push(Axis { name: String::new(), size: 1, stride: 1 });
    }
    let usual: &[&str] = match list.len() {
        1 => &["tp"],
        2 => &["dp", "tp"],
        3 => &["pp", "dp", "tp"],
        _ => &[],
    };
    for (i, axis) in list.iter_mut().enumerate() {
        let said = named.iter().find(|n| n.0 == (axis.size, axis.stride)).map(|n| n.1.to_owned());
        let name = said.or_else(|| usual.get(i).map(|n| (*n).to_owned())).unwrap_or_else(|| format!("a{i}"));
        axis.name = word(&name);
    }
    // A name by the default rule may already be taken by another axis.
    for i in 1..list.len() {
        while list[..i].iter().any(|a| a.name == list[i].name) {
            list[i].name.push('_');
        }
    }
    Ok(Axes { list })
}

fn refused(members: &[u64], why: &str) -> Diagnostic {
    Diagnostic::error(
        "E551",
        format!("the group of ranks {} is not an axis of a mesh: {why}", words(members)),
    )
    .help("the ranks of an axis are at equal distances and in order, such as 0, 1 or 0, 2")
}

impl Axes {
    /// Returns the range of axes that a group of these members corresponds to.
    pub fn of(&self, members: &[u64]) -> Option<Range<usize>> {
        let (n, stride) = regular(members)?;
        let last = self.list.iter().position(|a| a.stride == stride)?;
        let mut size = 1;
        for first in (0..=last).rev() {
            size *= self.list[first].size;
            if size == n {
                return Some(first..last + 1);
            }
        }
        None
    }

    /// Returns the text of a range of axes: `tp`, or `(dp, tp)`.
    pub fn over(&self, range: &Range<usize>) -> String {
        let names: Vec<&str> = self.list[range.clone()].iter().map(|a| a.name.as_str()).collect();
        match &names[..] {
            [one] => (*one).to_owned(),
            more => format!("({})", more.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_cut() {
        assert_eq!(regular(&[1, 3]), Some((2, 2)));
        assert_eq!(regular(&[1, 2]), None);
        assert_eq!(regular(&[3, 1]), None);
        assert_eq!(cut(8, &[(2, 1), (2, 4)]), Some(vec![1, 2, 4, 8]));
        assert_eq!(cut(6, &[(2, 1), (3, 1)]), None);
        let list = [("dp", 2, 2), ("tp", 2, 1)];
        let list = list.map(|(n, size, stride)| Axis { name: n.into(), size, stride }).to_vec();
        let axes = Axes { list };
        assert_eq!(axes.of(&[0, 1, 2, 3]), Some(0..2));
        assert_eq!(axes.of(&[1, 3]), Some(0..1));
        assert_eq!(axes.over(&(0..2)), "(dp, tp)");
    }
}
