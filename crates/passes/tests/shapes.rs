//! Tests of operations that move elements, on random shapes, meshes and placements (TP-1): the
//! parts that `infer` assigns to every rank before and after are related by the operation on the
//! rank's own parts, element for element.

use crate::common;

use kbc_ir::graph::OpKind;
use kbc_ir::shape::ShapeOp;
use kbc_ir::types::{Axis, Cut, CutRule, DType, Mesh, ReduceOp, TensorType};
use kbc_ir::{Name, Parts};

/// splitmix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }
}

/// Elements identified by their numbers, row-major.
#[derive(Clone, PartialEq, Debug)]
struct Ids {
    shape: Vec<u64>,
    of: Vec<u64>,
}

fn all_indices(shape: &[u64]) -> Vec<Vec<u64>> {
    shape.iter().fold(vec![vec![]], |rows, n| {
        rows.iter().flat_map(|r| (0..*n).map(move |i| [&r[..], &[i]].concat())).collect()
    })
}

impl Ids {
    fn at(&self, index: &[u64]) -> u64 {
        self.of[index.iter().zip(&self.shape).fold(0, |n, (i, d)| n * d + i) as usize]
    }

    /// Returns the part within a box.
    fn part(&self, bounds: &[(u64, u64)]) -> Ids {
        let shape: Vec<u64> = bounds.iter().map(|b| b.1 - b.0).collect();
        let of = all_indices(&shape)
            .iter()
            .map(|i| self.at(&i.iter().zip(bounds).map(|(i, b)| i + b.0).collect::<Vec<_>>()))
            .collect();
        Ids { shape, of }
    }
}

/// Applies the operation by its definition; `shape` is that of the result, which a reshape needs.
fn apply(op: &ShapeOp, x: &[Ids], shape: &[u64]) -> Ids {
    let of = match op {
        ShapeOp::Reshape(_) => x[0].of.clone(),
        ShapeOp::Transpose(perm) => all_indices(shape)
            .iter()
            .map(|i| {
                let mut from = i.clone();
                (0..perm.len()).for_each(|d| from[perm[d]] = i[d]);
                x[0].at(&from)
            })
            .collect(),
        ShapeOp::Slice { dim, from, .. } => all_indices(shape)
            .into_iter()
            .map(|mut i| {
                i[*dim] += from;
                x[0].at(&i)
            })
            .collect(),
        ShapeOp::Entry(index) => {
            all_indices(shape).into_iter().map(|i| x[0].at(&[&[*index], &i[..]].concat())).collect()
        }
        ShapeOp::Pad { dim, before, .. } => all_indices(shape)
            .into_iter()
            .map(|mut i| {
                let inside = i[*dim].checked_sub(*before).filter(|at| *at < x[0].shape[*dim]);
                inside.map_or(u64::MAX, |at| {
                    i[*dim] = at;
                    x[0].at(&i)
                })
            })
            .collect(),
        ShapeOp::Concat { dim } => all_indices(shape)
            .into_iter()
            .map(|mut i| {
                let mut which = 0;
                while i[*dim] >= x[which].shape[*dim] {
                    i[*dim] -= x[which].shape[*dim];
                    which += 1;
                }
                x[which].at(&i)
            })
            .collect(),
    };
    Ids { shape: shape.to_vec(), of }
}

fn lengths(rng: &mut Rng, n: u64, k: u64) -> CutRule {
    let mut bounds: Vec<u64> = (1..k).map(|_| rng.below(n + 1)).collect();
    bounds.extend([0, n]);
    bounds.sort_unstable();
    let parts: Vec<u64> = bounds.windows(2).map(|w| w[1] - w[0]).collect();
    CutRule::Lengths(Parts::row(&parts).expect("lengths"))
}

fn placed(rng: &mut Rng, mesh: &Mesh, shape: &[u64]) -> TensorType {
    let mut ty = TensorType::replicated(DType::F32, shape);
    for axis in &mesh.axes {
        let dim = rng.below(shape.len() as u64 + 2) as usize;
        match ty.dims.get_mut(dim) {
            Some(d) => match &mut d.cut {
                Some(cut) if cut.rule == CutRule::Even => cut.axes.push(axis.name.clone()),
                Some(_) => {}
                cut => {
                    let rule = match rng.below(8) {
                        0 => CutRule::Ceil,
                        1 => lengths(rng, d.size, axis.size),
                        _ => CutRule::Even,
                    };
                    *cut = Some(Cut { axes: vec![axis.name.clone()], rule });
                }
            },
            None if rng.below(3) == 0 && ty.partial.is_none() => {
                ty.partial = Some((ReduceOp::Sum, vec![axis.name.clone()]));
            }
            None if rng.below(4) == 0 && ty.only.is_none() => {
                ty.only = Some((rng.below(axis.size), axis.name.clone()));
            }
            None => {}
        }
    }
    ty
}

fn shape(rng: &mut Rng) -> Vec<u64> {
    const SIZES: [u64; 12] = [1, 2, 3, 4, 4, 5, 6, 6, 8, 9, 12, 0];
    (0..1 + rng.below(4))
        .map(|_| SIZES[rng.below(if rng.0.is_multiple_of(9) { 12 } else { 11 }) as usize])
        .collect()
}

/// Returns a shape with dimensions joined and split.
fn reshaped(rng: &mut Rng, shape: &[u64]) -> Vec<u64> {
    let mut out = shape.to_vec();
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(out.len() as u64) as usize;
        let n = out[at];
        let factors: Vec<u64> = (1..=n).filter(|f| n.is_multiple_of(*f)).collect();
        if rng.below(2) == 0 && at + 1 < out.len() {
            out[at] = n * out.remove(at + 1);
        } else if !factors.is_empty() && out.len() < 6 {
            let f = factors[rng.below(factors.len() as u64) as usize];
            out[at] = f;
            out.insert(at + 1, n / f);
        }
    }
    out
}

/// Returns the operation as it is written in a graph, after its operands.
fn text(types: &[TensorType], op: &ShapeOp, mesh: &Mesh, result: &[u64]) -> String {
    let axes: Vec<String> = mesh.axes.iter().map(|a| format!("{} {}", a.name, a.size)).collect();
    let mut out = format!("kir 1\nmodule @m\nmesh {}\n\ngraph @m\n", axes.join(", "));
    types.iter().enumerate().for_each(|(i, t)| out += &format!("input @x{i} : {t}\n"));
    out += &format!("result : {}\n\n", TensorType::replicated(DType::F32, result));
    types.iter().enumerate().for_each(|(i, _)| out += &format!("%x{i} = input @x{i}\n"));
    let names: Vec<String> = (0..types.len()).map(|i| format!("%x{i}")).collect();
    out + &format!("%y = {} {} {op}\n%out = output 0 %y\n", op.name(), names.join(", "))
}

#[test]
fn every_rank_has_its_part_of_the_result() {
    let mut kept = 0;
    let mut changed = 0;
    for seed in 0..2160u64 {
        let rng = &mut Rng(seed);
        let axis = |name: &str, size| Axis { name: Name::from(name), size, parts: vec![] };
        let mesh = Mesh { axes: vec![axis("a", 1 + rng.below(4)), axis("b", 1 + rng.below(3))] };
        let first = shape(rng);
        let dim = rng.below(first.len() as u64) as usize;
        let mut shapes = vec![first.clone()];
        let op = match seed % 6 {
            0 => {
                let mut perm: Vec<usize> = (0..first.len()).collect();
                (1..perm.len()).for_each(|i| perm.swap(i, rng.below(i as u64 + 1) as usize));
                ShapeOp::Transpose(perm)
            }
            1 => ShapeOp::Reshape(reshaped(rng, &first)),
            2 => {
                let from = rng.below(first[dim] + 1);
                ShapeOp::Slice { dim, from, to: from + rng.below(first[dim] - from + 1) }
            }
            3 => ShapeOp::Pad {
                dim,
                before: rng.below(3),
                after: rng.below(3),
                value: if rng.below(2) == 0 { 0.0 } else { 2.0 },
            },
            4 if first[0] > 0 => ShapeOp::Entry(rng.below(first[0])),
            _ => {
                for _ in 0..rng.below(3) {
                    let mut next = first.clone();
                    next[dim] = rng.below(5);
                    shapes.push(next);
                }
                ShapeOp::Concat { dim }
            }
        };
        let mut types: Vec<TensorType> = shapes.iter().map(|s| placed(rng, &mesh, s)).collect();
        if matches!(op, ShapeOp::Entry(_)) {
            types[0].dims[0].cut = None;
        }
        let sizes = op.sizes(&shapes).expect("made to fit");
        let kir = text(&types, &op, &mesh, &sizes);
        let (module, _) =
            common::run(&kir, "infer").unwrap_or_else(|d| panic!("{}\n{kir}", common::words(&d, &kir)));
        let graph = module.graph().expect("a graph");
        let at = *graph
            .order()
            .iter()
            .find(|id| matches!(graph.op(**id).kind, OpKind::Shape(_)))
            .expect("the operation");
        let result = graph.op(at).ty.clone().expect("typed");
        let operands: Vec<TensorType> =
            graph.operands(at).iter().map(|o| graph.op(*o).ty.clone().expect("typed")).collect();
        let moved = graph.operands(at).iter().any(|o| graph.op(*o).kind == OpKind::Demand);
        *(if moved { &mut changed } else { &mut kept }) += 1;
        // Combining and moving elements commute, so all operands must have the same pending
        // combination.
        assert!(operands.iter().all(|o| o.partial == result.partial && o.only == result.only), "{kir}");
        let global: Vec<Ids> = shapes
            .iter()
            .enumerate()
            .map(|(k, s)| Ids {
                shape: s.clone(),
                of: (0..s.iter().product()).map(|i| k as u64 * 1_000_000 + i).collect(),
            })
            .collect();
        let whole = apply(&op, &global, &sizes);
        for rank in 0..mesh.ranks() {
            let coords = mesh.coords(rank);
            let mine: Vec<Ids> =
                global.iter().zip(&operands).map(|(g, t)| g.part(&t.local_box(&mesh, &coords))).collect();
            let want = whole.part(&result.local_box(&mesh, &coords));
            // A rank that does not hold the value has nothing to cut.
            if want.of.is_empty() {
                assert!(
                    matches!(op, ShapeOp::Slice { .. } | ShapeOp::Pad { .. })
                        || mine.iter().all(|m| m.of.is_empty()),
                    "{kir}"
                );
                continue;
            }
            assert_eq!(
                apply(&op, &mine, &want.shape),
                want,
                "rank {rank} of\n{kir}\ninferred {operands:?} -> {result}"
            );
        }
    }
    assert!(kept > 500 && changed > 200, "{kept} went through, {changed} were changed before");
}
