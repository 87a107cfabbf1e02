//! Cutting into pieces: a matmul and the collective beside it.
//!
//! This module decides which dimension is cut, and makes the operations that replace the whole
//! ones. The dimension is free: the matmul does not contract it, the collective does not move it,
//! and no axis splits it. So every element is computed by the same sum as before.

use crate::fresh::FreshNames;
use kbc_ir::graph::{Collective, Graph, GraphOp, Holding, Movement, OpId, OpKind, Using, UsingArg};
use kbc_ir::shape::ShapeOp;
use kbc_ir::types::{Cut, CutRule, Dim, Mesh, TensorType};

/// A collective with the matmuls that make or use its value.
#[derive(Clone, Debug)]
pub(super) struct CutCandidate {
    /// The collective.
    pub(super) coll: OpId,
    /// The matmuls. There is exactly one if it makes the value.
    pub(super) matmuls: Vec<OpId>,
    /// How the collective is cut.
    form: CutForm,
}

/// The dimension that is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CutForm {
    /// A dimension of a matmul's result, which the collective then reduces.
    Made(usize),
    /// A dimension of the gathered value, which matmuls then use.
    Used(usize),
    /// The position within each rank's rows. The rows are gathered, and matmuls then use them.
    Within,
}

/// Returns boundary i when n elements are cut into k even parts.
fn boundary(n: u64, i: u64, k: u64) -> u64 {
    CutRule::Even.boundary(n, i, k)
}

/// Checks whether no axis splits a dimension.
fn is_unsplit(ty: &TensorType, dim: usize) -> bool {
    ty.dims.get(dim).is_some_and(|d| d.cut.is_none())
}

fn bytes(ty: &TensorType) -> u64 {
    ty.dims.iter().fold(ty.dtype.bytes(), |n, d| n.saturating_mul(d.size))
}

/// Returns the dimension of an operand that becomes dimension `dim` of the matmul's result, which
/// has `rank` dimensions. Returns `None` if the operand does not have it.
fn of_operand(ty: &TensorType, rank: usize, dim: usize) -> Option<usize> {
    let at = (dim + ty.dims.len()).checked_sub(rank)?;
    (ty.dims[at].size > 1).then_some(at)
}

impl CutCandidate {
    /// Finds the matmuls beside a collective, and how they can be cut together. `in_place`: whether
    /// a piece that is one run of elements is used where it is, so that nothing is copied.
    ///
    /// # Errors
    /// Returns a text that states why they cannot be cut.
    pub(super) fn of(
        graph: &Graph,
        mesh: &Mesh,
        coll: OpId,
        in_place: bool,
    ) -> Result<CutCandidate, &'static str> {
        let OpKind::Collective(c) = &graph.op(coll).kind else { return Err("this is not a collective") };
        match c.kind.movement() {
            Some(Movement::PartialToWhole | Movement::PartialToSplit) => {
                CutCandidate::made(graph, c, coll, in_place)
            }
            Some(Movement::SplitToWhole) => CutCandidate::used(graph, mesh, c, coll),
            Some(
                Movement::PartialToRoot
                | Movement::SplitToRoot
                | Movement::SplitFromToSplit
                | Movement::RootToWhole
                | Movement::RootToSplit,
            )
            | None => Err(
                "only an all_reduce, a reduce_scatter or an all_gather can be split together with a matmul",
            ),
        }
    }

    fn made(graph: &Graph, c: &Collective, coll: OpId, in_place: bool) -> Result<CutCandidate, &'static str> {
        let matmul = graph.operands(coll).first().copied().ok_or("it has no operand")?;
        if !matches!(graph.op(matmul).kind, OpKind::Matmul { .. }) {
            return Err("its operand is not the result of a matmul");
        }
        if graph.users(matmul).len() > 1 {
            return Err("the result of the matmul has other users");
        }
        let [Some(made), Some(result)] = [&graph.op(matmul).ty, &graph.op(coll).ty] else {
            return Err("it has no type yet");
        };
        let moved = c.dim.filter(|_| c.kind.gives(Holding::Split));
        let operands: Vec<&TensorType> =
            graph.operands(matmul).iter().filter_map(|o| graph.op(*o).ty.as_ref()).collect();
        let [a, b] = operands[..] else { return Err("it has no type yet") };
        let rank = made.dims.len();
        // Pieces along the first dimension are runs of elements, in operands that have it as well.
        let first = |dim: usize| {
            let own = |t: &&TensorType| of_operand(t, rank, dim).is_none_or(|at| at == 0);
            dim == 0 && rank > 1 && operands.iter().all(own)
        };
        // Bytes that are copied to cut this dimension.
        let copied = |dim: usize| match rank - dim {
            _ if in_place && first(dim) => 0,
            1 => bytes(b),
            2 => bytes(a),
            _ => bytes(a) + bytes(b),
        };
        let free = |dim: &usize| {
            Some(*dim) != moved
                && made.dims[*dim].size > 1
                && is_unsplit(made, *dim)
                && is_unsplit(result, *dim)
        };
        let dim = (0..rank).filter(free).min_by_key(|d| copied(*d));
        let form = dim.map(CutForm::Made).ok_or("every dimension is moved or split")?;
        Ok(CutCandidate { coll, matmuls: vec![matmul], form })
    }

    fn used(graph: &Graph, mesh: &Mesh, c: &Collective, coll: OpId) -> Result<CutCandidate, &'static str> {
        let matmuls: Vec<OpId> = graph
            .users(coll)
            .into_iter()
            .filter(|(u, _)| matches!(graph.op(*u).kind, OpKind::Matmul { .. }))
            .map(|(u, _)| u)
            .collect();
        if matmuls.is_empty() {
            return Err("no matmul uses its value");
        }
        let from = graph.operands(coll).first().and_then(|o| graph.op(*o).ty.as_ref());
        let (Some(from), Some(to), Some(moved)) = (from, &graph.op(coll).ty, c.dim) else {
            return Err("it has no type yet");
        };
        let rank = to.dims.len();
        let contracted = |dim: usize| {
            matmuls.iter().any(|p| {
                let [a, b] = graph.operands(*p)[..] else { return true };
                (a == coll && dim + 1 == rank) || (b == coll && dim + 2 == rank) || (a == coll && b == coll)
            })
        };
        let free = |dim: &usize| {
            *dim != moved
                && to.dims[*dim].size > 1
                && is_unsplit(from, *dim)
                && is_unsplit(to, *dim)
                && !contracted(*dim)
        };
        if let Some(dim) = (0..rank).find(free) {
            return Ok(CutCandidate { coll, matmuls, form: CutForm::Used(dim) });
        }
        let left = |p: &OpId| graph.operands(*p).first() == Some(&coll);
        let plain = |p: &OpId| {
            let right = graph.operands(*p).get(1).and_then(|o| graph.op(*o).ty.clone());
            left(p) && right.is_some_and(|t| t.dims.len() == 2)
        };
        if rank != 2 || moved != 0 || !matmuls.iter().all(plain) {
            return Err("every dimension is contracted, moved or split");
        }
        let p = mesh.axis(&c.axis).map_or(1, |a| a.size);
        let one_axis = from.dims[0]
            .cut
            .as_ref()
            .is_some_and(|c| c.axes.len() == 1 && matches!(c.rule, CutRule::Even | CutRule::Ceil));
        if !one_axis || !to.dims[0].size.is_multiple_of(p) || to.dims[0].cut.is_some() {
            return Err("ranks have different numbers of rows");
        }
        Ok(CutCandidate { coll, matmuls, form: CutForm::Within })
    }

    /// Returns the largest possible number of pieces.
    pub(super) fn most(&self, graph: &Graph, mesh: &Mesh) -> u64 {
        let size = |id: OpId, dim: usize| graph.op(id).ty.as_ref().map_or(0, |t| t.dims[dim].size);
        match self.form {
            CutForm::Made(dim) => size(self.matmuls[0], dim),
            CutForm::Used(dim) => size(self.coll, dim),
            CutForm::Within => {
                let OpKind::Collective(c) = &graph.op(self.coll).kind else { return 0 };
                size(self.coll, 0) / mesh.axis(&c.axis).map_or(1, |a| a.size)
            }
        }
    }

    /// Replaces the matmuls and the collective by `k` pieces of each.
    pub(super) fn cut(&self, graph: &mut Graph, mesh: &Mesh, k: u64) {
        let mut fresh = FreshNames::of(graph);
        let outer = graph.enter(graph.within(self.coll));
        Cutter { graph, fresh: &mut fresh, coll: self.coll }.cut(self, mesh, k);
        graph.enter(outer);
    }
}

struct Cutter<'a> {
    graph: &'a mut Graph,
    fresh: &'a mut FreshNames,
    coll: OpId,
}

/// Returns a type with another size of one dimension.
fn resized(ty: &TensorType, dim: usize, size: u64) -> TensorType {
    let mut out = ty.clone();
    out.dims[dim].size = size;
    out
}

impl Cutter<'_> {
    fn cut(&mut self, site: &CutCandidate, mesh: &Mesh, k: u64) {
        match site.form {
            CutForm::Made(dim) => self.made(site.matmuls[0], dim, k),
            CutForm::Used(dim) => {
                let gathered = self.source();
                self.used(site, gathered, dim, k);
            }
            CutForm::Within => self.within(site, mesh, k),
        }
    }

    fn source(&self) -> OpId {
        self.graph.operands(self.coll)[0]
    }

    fn ty(&self, id: OpId) -> TensorType {
        self.graph.op(id).ty.clone().expect("a site has types")
    }

    /// Inserts an operation before the operation `at`, with its source location.
    fn push(&mut self, at: OpId, kind: OpKind, hint: &str, ty: TensorType, operands: &[OpId]) -> OpId {
        let (place, span) = (self.graph.position(at), self.graph.op(at).span);
        let name = self.fresh.name(hint);
        self.graph.insert(place, GraphOp { kind, name, ty: Some(ty), want: None, span }, operands)
    }

    fn slice(&mut self, at: OpId, x: OpId, dim: usize, (from, to): (u64, u64), i: u64) -> OpId {
        let ty = resized(&self.ty(x), dim, to - from);
        let hint = format!("{}_{i}", self.graph.op(x).name);
        self.push(at, OpKind::Shape(ShapeOp::Slice { dim, from, to }), &hint, ty, &[x])
    }

    /// Inserts the collective on a piece.
    fn collective(&mut self, at: OpId, x: OpId, ty: TensorType, dim: Option<usize>, i: u64) -> OpId {
        let op = self.graph.op(self.coll).clone();
        let OpKind::Collective(c) = op.kind else { return x };
        let c = Collective { dim, using: c.using.map(without), ..c };
        self.push(at, OpKind::Collective(c), &format!("{}_{i}", op.name), ty, &[x])
    }

    /// Inserts a matmul on pieces of its operands.
    fn matmul(&mut self, at: OpId, of: OpId, operands: &[OpId], ty: TensorType, i: u64) -> OpId {
        let op = self.graph.op(of).clone();
        self.push(at, op.kind, &format!("{}_{i}", op.name), ty, operands)
    }

    /// Replaces a value by an operation on its pieces. The new value keeps the name that its users
    /// see.
    fn replace(&mut self, old: OpId, kind: OpKind, operands: &[OpId]) {
        let op = self.graph.op(old).clone();
        self.fresh.free(&op.name);
        let new = self.push(old, kind, &op.name, op.ty.clone().expect("a site has types"), operands);
        for (user, index) in self.graph.users(old) {
            self.graph.set_operand(user, index, new);
        }
        self.graph.remove(old);
    }

    /// Returns the operands of a matmul with dimension `dim` of its result cut to a range.
    fn operands(&mut self, at: OpId, matmul: OpId, dim: usize, range: (u64, u64), i: u64) -> Vec<OpId> {
        let rank = self.ty(matmul).dims.len();
        let operands = self.graph.operands(matmul);
        let mut out = vec![];
        for (side, x) in operands.into_iter().enumerate() {
            let ty = self.ty(x);
            let mine = match rank - dim {
                1 => (side == 1).then(|| ty.dims.len() - 1),
                2 => (side == 0).then(|| ty.dims.len() - 2),
                _ => of_operand(&ty, rank, dim),
            };
            out.push(match mine {
                Some(d) => self.slice(at, x, d, range, i),
                None => x,
            });
        }
        out
    }

    fn made(&mut self, matmul: OpId, dim: usize, k: u64) {
        let (made, result) = (self.ty(matmul), self.ty(self.coll));
        let n = made.dims[dim].size;
        let OpKind::Collective(c) = &self.graph.op(self.coll).kind else { return };
        let moved = c.dim;
        let mut pieces = vec![];
        for i in 0..k {
            let range = (boundary(n, i, k), boundary(n, i + 1, k));
            let size = range.1 - range.0;
            let operands = self.operands(self.coll, matmul, dim, range, i);
            let m = self.matmul(self.coll, matmul, &operands, resized(&made, dim, size), i);
            pieces.push(self.collective(self.coll, m, resized(&result, dim, size), moved, i));
        }
        self.replace(self.coll, OpKind::Shape(ShapeOp::Concat { dim }), &pieces);
        self.graph.remove(matmul);
    }

    fn used(&mut self, site: &CutCandidate, gathered: OpId, dim: usize, k: u64) {
        let to = self.ty(self.coll);
        let (n, rank) = (to.dims[dim].size, to.dims.len());
        let OpKind::Collective(c) = &self.graph.op(self.coll).kind else { return };
        let moved = c.dim;
        let ranges: Vec<(u64, u64)> = (0..k).map(|i| (boundary(n, i, k), boundary(n, i + 1, k))).collect();
        let mut pieces = vec![];
        for (i, range) in (0..).zip(&ranges) {
            let x = self.slice(self.coll, gathered, dim, *range, i);
            pieces.push(self.collective(self.coll, x, resized(&to, dim, range.1 - range.0), moved, i));
        }
        for &matmul in &site.matmuls {
            let made = self.ty(matmul);
            // The corresponding dimension of the matmul's result.
            let along = made.dims.len() - (rank - dim);
            let mut parts = vec![];
            for (i, range) in (0..).zip(&ranges) {
                let mut operands = vec![];
                for x in self.graph.operands(matmul) {
                    if x == self.coll {
                        operands.push(pieces[i as usize]);
                        continue;
                    }
                    let ty = self.ty(x);
                    // Leading dimensions belong to both operands.
                    let shared = (rank - dim > 2).then(|| of_operand(&ty, rank, dim)).flatten();
                    operands.push(match shared {
                        Some(d) => self.slice(matmul, x, d, *range, i),
                        None => x,
                    });
                }
                let ty = resized(&made, along, range.1 - range.0);
                parts.push(self.matmul(matmul, matmul, &operands, ty, i));
            }
            self.replace(matmul, OpKind::Shape(ShapeOp::Concat { dim: along }), &parts);
        }
        self.rest(&pieces, dim);
    }

    /// Reassembles the whole value of the collective for users that are not matmuls. If there are
    /// none, the collective is removed.
    fn rest(&mut self, pieces: &[OpId], dim: usize) {
        if self.graph.users(self.coll).is_empty() {
            self.graph.remove(self.coll);
        } else {
            self.replace(self.coll, OpKind::Shape(ShapeOp::Concat { dim }), pieces);
        }
    }

    /// Cuts along the rows within each rank's part: `[p@tp, S / p, D]`.
    fn within(&mut self, site: &CutCandidate, mesh: &Mesh, k: u64) {
        let (source, to) = (self.source(), self.ty(self.coll));
        let OpKind::Collective(c) = &self.graph.op(self.coll).kind else { return };
        let axis = c.axis.clone();
        let p = mesh.axis(&axis).map_or(1, |a| a.size);
        let rows = to.dims[0].size / p;
        let split = |ty: &TensorType, cut: bool| {
            let axes = vec![axis.clone()];
            let first = Dim { size: p, cut: cut.then_some(Cut { axes, rule: CutRule::Even }) };
            let mut out = ty.clone();
            out.dims.splice(0..1, [first, Dim { size: rows, cut: None }]);
            out
        };
        let sizes = |ty: &TensorType| ty.dims.iter().map(|d| d.size).collect::<Vec<_>>();
        let parts = split(&self.ty(source), true);
        let shape = OpKind::Shape(ShapeOp::Reshape(sizes(&parts)));
        let hint = format!("{}_parts", self.graph.op(source).name);
        let x = self.push(self.coll, shape, &hint, parts, &[source]);
        let gathered = split(&to, false);
        let mut pieces = vec![];
        let ranges: Vec<(u64, u64)> =
            (0..k).map(|i| (boundary(rows, i, k), boundary(rows, i + 1, k))).collect();
        for (i, range) in (0..).zip(&ranges) {
            let piece = self.slice(self.coll, x, 1, *range, i);
            let ty = resized(&gathered, 1, range.1 - range.0);
            pieces.push(self.collective(self.coll, piece, ty, Some(0), i));
        }
        for &matmul in &site.matmuls {
            let made = split(&self.ty(matmul), false);
            let right = self.graph.operands(matmul)[1];
            let mut parts = vec![];
            for (i, range) in (0..).zip(&ranges) {
                let ty = resized(&made, 1, range.1 - range.0);
                parts.push(self.matmul(matmul, matmul, &[pieces[i as usize], right], ty, i));
            }
            let hint = format!("{}_parts", self.graph.op(matmul).name);
            let together = OpKind::Shape(ShapeOp::Concat { dim: 1 });
            let together = self.push(matmul, together, &hint, made, &parts);
            let shape = ShapeOp::Reshape(sizes(&self.ty(matmul)));
            self.replace(matmul, OpKind::Shape(shape), &[together]);
        }
        if self.graph.users(self.coll).is_empty() {
            self.graph.remove(self.coll);
            return;
        }
        let hint = format!("{}_parts", self.graph.op(self.coll).name);
        let together = OpKind::Shape(ShapeOp::Concat { dim: 1 });
        let together = self.push(self.coll, together, &hint, gathered, &pieces);
        self.replace(self.coll, OpKind::Shape(ShapeOp::Reshape(sizes(&to))), &[together]);
    }
}

/// The name of the option.
pub(super) const OVERLAP: &str = "overlap";

/// Returns a use without the option, because the pass has handled it.
pub(super) fn without(mut using: Using) -> Using {
    using.options.retain(|(n, _)| *n != OVERLAP);
    using
}

/// Returns the number of pieces that a use asks for.
pub(super) fn requested_pieces(using: &Using) -> Option<u64> {
    using.options.iter().find(|(n, _)| *n == OVERLAP).and_then(|(_, v)| match v {
        UsingArg::Int(k) => u64::try_from(*k).ok(),
        UsingArg::Name(_) => None,
    })
}
