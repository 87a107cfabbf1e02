//! Tests of plans between all placements of a small tensor on a mesh of 2 x 3: every step moves
//! exactly the elements that its types imply, and only impossible changes have no plan.

use kbc_ir::graph::CollKind;
use kbc_ir::types::{Axis, Cut, CutRule, DType, Mesh, ReduceOp, TensorType};
use kbc_ir::{Name, Parts};
use kbc_passes::reshard::{ReshardStep, plan, same_placement};
use std::collections::BTreeSet;

fn mesh() -> Mesh {
    let axis = |name: &str, size| Axis { name: Name::from(name), size, parts: vec![] };
    Mesh { axes: vec![axis("a", 2), axis("b", 3)] }
}

/// Returns lengths of the parts of n elements; the first one or one in the middle is empty.
fn given(axis: &Name, n: u64) -> CutRule {
    let lengths = if *axis == *"a" { vec![0, n] } else { vec![n - 2, 0, 2] };
    CutRule::Lengths(Parts::row(&lengths).expect("lengths"))
}

/// Returns all types of `f32[5, 7]` on the mesh, with sums and coordinate 1 where there is a
/// choice.
fn all_types() -> Vec<TensorType> {
    #[derive(Clone, Copy, PartialEq)]
    enum Is {
        Whole,
        Split(usize),
        Partial,
        Only,
    }
    let states = [Is::Whole, Is::Split(0), Is::Split(1), Is::Partial, Is::Only];
    let mut out = vec![];
    for sa in states {
        for sb in states {
            if sa == Is::Only && sb == Is::Only {
                continue;
            }
            for rule in [Some(CutRule::Even), Some(CutRule::Ceil), None] {
                for swapped in [false, true] {
                    let mut ty = TensorType::replicated(DType::F32, &[5, 7]);
                    let mut axes = [("a", sa), ("b", sb)];
                    if rule.is_none() && matches!((sa, sb), (Is::Split(d), Is::Split(e)) if d == e) {
                        continue;
                    }
                    if swapped {
                        axes.reverse();
                    }
                    for (name, is) in axes {
                        let name = Name::from(name);
                        match is {
                            Is::Whole => {}
                            Is::Split(d) => match &mut ty.dims[d].cut {
                                Some(c) => c.axes.push(name),
                                cut => {
                                    let rule = rule.clone().unwrap_or_else(|| given(&name, [5, 7][d]));
                                    *cut = Some(Cut { axes: vec![name], rule });
                                }
                            },
                            Is::Partial => {
                                ty.partial.get_or_insert((ReduceOp::Sum, vec![])).1.push(name);
                            }
                            Is::Only => ty.only = Some((1, name)),
                        }
                    }
                    if !out.contains(&ty) {
                        out.push(ty);
                    }
                }
            }
        }
    }
    out
}

/// Returns the elements that a rank holds.
fn held(mesh: &Mesh, ty: &TensorType, rank: u64) -> BTreeSet<(u64, u64)> {
    let b = ty.local_box(mesh, &mesh.coords(rank));
    (b[0].0..b[0].1).flat_map(|i| (b[1].0..b[1].1).map(move |j| (i, j))).collect()
}

/// Checks whether a step can do what its types say, by the elements that the ranks of a group hold
/// before and after.
fn step_is_possible(mesh: &Mesh, before: &TensorType, step: &ReshardStep) -> bool {
    let at = mesh.axes.iter().position(|a| a.name == step.axis).expect("an axis of the mesh");
    (0..mesh.ranks()).all(|rank| {
        let group: Vec<u64> = (0..mesh.ranks())
            .filter(|other| {
                let (x, y) = (mesh.coords(rank), mesh.coords(*other));
                (0..2).all(|i| i == at || x[i] == y[i])
            })
            .collect();
        let own = held(mesh, before, rank);
        let all: BTreeSet<_> = group.iter().flat_map(|r| held(mesh, before, *r)).collect();
        let after = held(mesh, &step.result, rank);
        match step.kind {
            CollKind::AllReduce => after == own,
            CollKind::ReduceScatter | CollKind::Slice => after.is_subset(&own),
            CollKind::Reduce => after.is_subset(&own),
            CollKind::AllGather | CollKind::Broadcast => after == all,
            CollKind::AllToAll | CollKind::Scatter => after.is_subset(&all),
            CollKind::Gather => after.is_empty() || after == all,
            // Not a change of placement.
            CollKind::Barrier | CollKind::ByContract => false,
        }
    })
}

/// Checks whether a value can be given another placement at all.
fn reachable(from: &TensorType, to: &TensorType) -> bool {
    let partial = |t: &TensorType, a: &str| t.partial.as_ref().is_some_and(|p| p.1.iter().any(|x| *x == *a));
    let only = |t: &TensorType, a: &str| t.only.as_ref().is_some_and(|o| o.1 == *a);
    let split = |t: &TensorType, a: &str| t.dim_cut_by(a).is_some();
    ["a", "b"].into_iter().all(|a| {
        let made_partial = partial(to, a) && !partial(from, a);
        // A value that all ranks hold is not taken from some; a value of one coordinate cannot be
        // split and taken again.
        let taken = only(to, a) && !only(from, a) && !partial(from, a) && !split(from, a);
        !made_partial && !taken
    })
}

#[test]
fn every_plan_is_made_of_possible_steps() {
    let mesh = mesh();
    let types = all_types();
    assert!(types.len() > 40, "{}", types.len());
    let mut reached = 0;
    for from in &types {
        for to in &types {
            let Some(p) = plan(&mesh, from, to) else {
                let other_axis = from.only.is_some() && to.only.is_some() && from.only != to.only;
                assert!(!reachable(from, to) || other_axis, "{from} -> {to} has no plan");
                continue;
            };
            assert!(reachable(from, to), "{from} -> {to} has a plan");
            reached += 1;
            let mut at = from.clone();
            for step in &p.steps {
                assert!(step_is_possible(&mesh, &at, step), "{from} -> {to}: {at} {step:?}");
                at = step.result.clone();
            }
            assert!(same_placement(&mesh, &at, to), "{from} -> {to} ends at {at}");
            assert_eq!(p.steps.is_empty(), same_placement(&mesh, from, to), "{from} -> {to}");
        }
    }
    assert!(reached > types.len() * 10, "{reached}");
}
