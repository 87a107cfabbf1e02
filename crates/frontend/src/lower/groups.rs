//! Groups of the ranks of a local program.
//!
//! This module determines the axes of each group of ranks, and owns what the body of a part sees of
//! the ranks. [`super::local`] lowers local programs.

use super::Cx;
use crate::ast::{GroupDecl, LocalDecl};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::Name;
use kbc_ir::local::Groups;
use std::collections::BTreeMap;

/// A named group of ranks.
pub(super) struct Group {
    pub ranks: Vec<u64>,
    pub axes: Vec<Name>,
    pub span: Span,
}

/// The information that only the body of a part of a local program has.
pub(super) struct Scope<'p> {
    pub ranks: &'p [u64],
    pub groups: &'p BTreeMap<String, Group>,
}

/// Returns the groups by name, each as axes.
pub(super) fn groups(cx: &Cx<'_>, decl: &LocalDecl, found: &mut Diagnostics) -> BTreeMap<String, Group> {
    let mut out: BTreeMap<String, Group> = BTreeMap::new();
    for g in &decl.groups {
        if let Some(first) = out.get(&g.name.node) {
            found.push(
                Diagnostic::error("E004", format!("`{}` is declared twice", g.name.node))
                    .primary(g.name.span, "again here")
                    .secondary(first.span, "first here")
                    .help("choose another name"),
            );
            continue;
        }
        if cx.mesh.axis(&g.name.node).is_some() {
            found.push(
                Diagnostic::error("E004", format!("`{}` is already the name of a mesh axis", g.name.node))
                    .primary(g.name.span, "here it is declared as a group")
                    .help("choose another name"),
            );
            continue;
        }
        if let Some(group) = group(cx, g, found) {
            out.insert(g.name.node.clone(), group);
        }
    }
    out
}

fn group(cx: &Cx<'_>, g: &GroupDecl, found: &mut Diagnostics) -> Option<Group> {
    let ranks: Vec<Option<u64>> = g.ranks.iter().map(|e| cx.count(e, "a rank", found)).collect();
    let ranks = ranks.into_iter().collect::<Option<Vec<u64>>>()?;
    let all = cx.mesh.ranks();
    if let Some((r, e)) = ranks.iter().zip(&g.ranks).find(|(r, _)| **r >= all) {
        let d = Diagnostic::error("E540", format!("rank {r} does not exist"));
        found.push(d.primary(e.span, format!("the mesh has ranks 0..{all}")));
        return None;
    }
    let axes = Groups::axes_of(cx.mesh, &ranks).filter(|axes| neighbours(cx, axes));
    if let Some(axes) = axes {
        return Some(Group { ranks, axes, span: g.name.span });
    }
    let sizes: Vec<String> = cx.mesh.axes.iter().map(|a| format!("{} of {}", a.name, a.size)).collect();
    let mut sorted = ranks.clone();
    sorted.sort_unstable();
    let help = match Groups::axes_of(cx.mesh, &sorted) {
        Some(axes) if sorted != ranks => {
            format!("in the order of the mesh, {sorted:?}, these ranks are the group of {}", shown(&axes))
        }
        _ => "choose a mesh in which the group is an axis: sys[dp: 2, tp: 4]".into(),
    };
    found.push(
        Diagnostic::error("E546", format!("the ranks of `{}` are not a group along axes of the mesh", g.name.node))
            .primary(g.span, format!("ranks {ranks:?}"))
            .note(format!(
                "a collective runs over mesh axes ({}): its group is the ranks that differ only in one axis, or only in several adjacent axes",
                sizes.join(", ")
            ))
            .help(help),
    );
    None
}

/// Returns whether axes are adjacent in the mesh and in its order.
pub(super) fn neighbours(cx: &Cx<'_>, axes: &[Name]) -> bool {
    let at = |n: &Name| cx.mesh.axes.iter().position(|a| a.name == *n);
    axes.windows(2).all(|w| at(&w[0]).map(|i| i + 1) == at(&w[1]))
}

/// Formats axes as `tp` or `(dp, tp)`.
pub(super) fn shown(axes: &[Name]) -> String {
    let names: Vec<&str> = axes.iter().map(Name::as_str).collect();
    if let [one] = names[..] { one.to_owned() } else { format!("({})", names.join(", ")) }
}
