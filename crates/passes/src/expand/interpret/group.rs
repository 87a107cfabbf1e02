//! Groups of ranks: the coordinates that an applied algorithm sees, and their translation to the
//! coordinates of the region.

use super::sym::Res;
use kbc_ir::Name;
use kbc_ir::expr::Expr;
use kbc_rounds::ast::AlgorithmDecl;
use std::rc::Rc;

pub(in crate::expand) type ToRegion = Rc<dyn Fn(&[Expr]) -> Res<Vec<Expr>>>;

/// The ranks on which one application of an algorithm runs.
#[derive(Clone)]
pub(in crate::expand) struct Group {
    pub(in crate::expand) sizes: Vec<i64>,
    /// For each axis, whether it wraps.
    pub(in crate::expand) wraps: Vec<bool>,
    /// This rank's coordinates, as expressions in the region's coordinates.
    pub(in crate::expand) own: Vec<Expr>,
    /// The condition that this rank belongs to a group of the view. None if every rank does.
    pub(in crate::expand) member: Option<Expr>,
    /// Translates group coordinates of a rank of this rank's group to region coordinates.
    pub(in crate::expand) to_region: ToRegion,
    /// Coordinates that are the same in the region: own coordinate i is region coordinate
    /// `direct[i]`.
    pub(in crate::expand) direct: Option<Vec<usize>>,
}

/// The coordinate system of the region.
#[derive(Clone)]
pub(in crate::expand) struct World {
    pub(in crate::expand) coords: Vec<(Name, i64)>,
}

impl World {
    pub(in crate::expand) fn ranks(&self) -> i64 {
        self.coords.iter().map(|c| c.1).product()
    }

    /// Returns the linear index of a rank with these coordinates.
    pub(in crate::expand) fn linear(&self, coords: &[Expr]) -> Expr {
        self.coords
            .iter()
            .zip(coords)
            .fold(Expr::Int(0), |acc, ((_, size), c)| acc * Expr::Int(*size) + c.clone())
    }

    pub(in crate::expand) fn own(&self) -> Vec<Expr> {
        self.coords.iter().map(|(n, _)| Expr::Var(n.clone())).collect()
    }

    /// Returns the coordinates of a linear index.
    pub(in crate::expand) fn split(&self, mut index: i64) -> Vec<i64> {
        let mut out = vec![0; self.coords.len()];
        for (i, (_, size)) in self.coords.iter().enumerate().rev() {
            out[i] = index % size;
            index /= size;
        }
        out
    }
}

impl Group {
    /// Returns the whole region, as seen by an algorithm with one axis or with one axis for each
    /// coordinate.
    pub(in crate::expand) fn world(world: &World, decl: &AlgorithmDecl) -> Group {
        Group {
            sizes: world.coords.iter().map(|c| c.1).collect(),
            wraps: decl.axes.iter().map(|a| a.wraps).collect(),
            own: world.own(),
            member: None,
            to_region: Rc::new(|c| Ok(c.to_vec())),
            direct: Some((0..world.coords.len()).collect()),
        }
    }

    /// Returns the region coordinates of the rank with these coordinates in the group.
    pub(in crate::expand) fn region_coords(&self, own: &[Expr]) -> Res<Vec<Expr>> {
        (self.to_region)(own)
    }

    /// Returns the linear index in the group.
    pub(in crate::expand) fn linear(&self, own: &[Expr]) -> Expr {
        self.sizes.iter().zip(own).fold(Expr::Int(0), |acc, (s, c)| acc * Expr::Int(*s) + c.clone())
    }

    /// Returns the coordinates of a linear index.
    pub(in crate::expand) fn digits(&self, index: &Expr) -> Vec<Expr> {
        digits(&self.sizes, index)
    }

    pub(in crate::expand) fn renamed(&self, var: &Name, to: &Expr) -> Group {
        let (var, to, inner) = (var.clone(), to.clone(), self.to_region.clone());
        let f = |n: &Name| (*n == var).then(|| to.clone());
        Group {
            own: self.own.iter().map(|e| e.subst(&f)).collect(),
            member: self.member.as_ref().map(|m| m.subst(&f)),
            to_region: {
                let (var, to) = (var.clone(), to.clone());
                Rc::new(move |c| {
                    let f = |n: &Name| (*n == var).then(|| to.clone());
                    Ok(inner(c)?.iter().map(|e| e.subst(&f)).collect())
                })
            },
            ..self.clone()
        }
    }
}

pub(in crate::expand) fn digits(sizes: &[i64], index: &Expr) -> Vec<Expr> {
    let mut after = 1;
    let mut out: Vec<Expr> = sizes
        .iter()
        .enumerate()
        .rev()
        .map(|(i, size)| {
            let mut e = index.clone() / Expr::Int(after);
            if i > 0 {
                e = e.modulo(*size);
            }
            after *= size;
            e
        })
        .collect();
    out.reverse();
    out
}
