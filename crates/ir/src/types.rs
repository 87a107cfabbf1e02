//! Element types, memory kinds, meshes and placements: what a tensor is, and which rank holds which
//! part of it.

use crate::algebra::{Algebra, IntegerAlgebra};
use crate::name::Name;
use crate::parts::Parts;
use std::fmt;

pub use crate::dtype::DType;

/// Combiner of a reduction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the names are the combiners")]
pub enum ReduceOp {
    Sum,
    Prod,
    Min,
    Max,
}

impl ReduceOp {
    /// All combiners.
    pub const ALL: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max];

    /// Returns the combiner of that name.
    pub fn parse(s: &str) -> Option<ReduceOp> {
        Self::ALL.into_iter().find(|r| r.name() == s)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Prod => "prod",
            ReduceOp::Min => "min",
            ReduceOp::Max => "max",
        }
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Kind of a memory. Every buffer and window names its kind; there is no default.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the names are the kinds")]
pub enum MemKind {
    Hbm,
    Sram,
    Tcm,
    Ub,
}

impl MemKind {
    /// All kinds, largest memory first.
    pub const ALL: [MemKind; 4] = [MemKind::Hbm, MemKind::Sram, MemKind::Tcm, MemKind::Ub];

    /// Returns the kind of that name.
    pub fn parse(s: &str) -> Option<MemKind> {
        MemKind::ALL.into_iter().find(|r| r.name() == s)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            MemKind::Hbm => "hbm",
            MemKind::Sram => "sram",
            MemKind::Tcm => "tcm",
            MemKind::Ub => "ub",
        }
    }
}

impl fmt::Display for MemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A named axis of a mesh. It may join several axes of the machine.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Axis {
    /// Name.
    pub name: Name,
    /// Number of coordinates.
    pub size: u64,
    /// Machine axes that the axis joins, slowest first; the product of their sizes is `size`. Empty
    /// if they are not recorded.
    pub parts: Vec<(Name, u64)>,
}

/// Named axes over the devices of a machine. A rank's linear index runs over the axes with the last
/// one fastest; it is the index of the device in the machine's own linear order.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Mesh {
    /// Axes, slowest first.
    pub axes: Vec<Axis>,
}

impl Mesh {
    /// Returns the number of ranks.
    pub fn ranks(&self) -> u64 {
        self.axes.iter().map(|a| a.size).product()
    }

    /// Returns the axis of that name.
    pub fn axis(&self, name: &str) -> Option<&Axis> {
        self.axes.iter().find(|a| a.name == *name)
    }

    /// Returns the coordinates of a rank, one per axis.
    pub fn coords(&self, rank: u64) -> Vec<i64> {
        let mut rest = rank;
        let mut out = vec![0; self.axes.len()];
        for (i, a) in self.axes.iter().enumerate().rev() {
            out[i] = (rest % a.size) as i64;
            rest /= a.size;
        }
        out
    }

    /// Returns the rank as diagnostics print it: `tp=3`, or `dp=1 tp=3`.
    pub fn show(&self, rank: u64) -> String {
        let c = self.coords(rank);
        let parts: Vec<String> = self.axes.iter().zip(c).map(|(a, c)| format!("{}={c}", a.name)).collect();
        if parts.is_empty() { "the only rank".into() } else { parts.join(" ") }
    }
}

/// Rule by which a dimension of n elements is cut into k parts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CutRule {
    /// Boundaries at `ceil(n*i/k)`. Part lengths differ by at most one, and the rule nests.
    Even,
    /// Parts of `ceil(n/k)` elements; the last parts are smaller or empty (PyTorch's rule).
    Ceil,
    /// Parts of these lengths. A line may have several rows of lengths.
    Lengths(Parts),
    /// Boundaries of `Even` in units of this many elements (at least 1): `u * ceil(n*i/(k*u))`, at
    /// most n. Only lines use it.
    Lines(u64),
}

/// Axes that cut a dimension: the first axis cuts the dimension, the second each of its parts, and
/// so on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Cut {
    /// Axes, outermost cut first. For explicit lengths they act as one axis, in linear order.
    pub axes: Vec<Name>,
    /// Rule of the cut.
    pub rule: CutRule,
}

/// A dimension of a global tensor.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Dim {
    /// Number of elements, over all parts.
    pub size: u64,
    /// How the dimension is split, if it is.
    pub cut: Option<Cut>,
}

/// A global tensor with its placement.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, row-major.
    pub dims: Vec<Dim>,
    /// Pending reduction: the true value is the combination, over these axes, of what the ranks
    /// hold.
    pub partial: Option<(ReduceOp, Vec<Name>)>,
    /// Only this coordinate of this axis holds the tensor.
    pub only: Option<(u64, Name)>,
}

impl TensorType {
    /// Creates the type of a replicated tensor.
    pub fn replicated(dtype: DType, sizes: &[u64]) -> Self {
        TensorType {
            dtype,
            dims: sizes.iter().map(|&size| Dim { size, cut: None }).collect(),
            partial: None,
            only: None,
        }
    }

    /// Returns the number of elements of the global tensor.
    pub fn elements(&self) -> u64 {
        self.dims.iter().map(|d| d.size).product()
    }

    /// Returns the global sizes.
    pub fn sizes(&self) -> Vec<u64> {
        self.dims.iter().map(|d| d.size).collect()
    }

    /// Returns the type without its placement.
    pub fn erased(&self) -> TensorType {
        TensorType::replicated(self.dtype, &self.sizes())
    }

    /// Returns the dimension that this axis splits.
    pub fn dim_cut_by(&self, axis: &str) -> Option<usize> {
        self.dims.iter().position(|d| d.cut.as_ref().is_some_and(|c| c.axes.iter().any(|a| *a == *axis)))
    }

    /// Returns the number of elements of a dimension at each coordinate of the axis, if this axis
    /// alone cuts the dimension.
    pub fn lengths_over(&self, mesh: &Mesh, dim: usize, axis: &str) -> Option<Vec<u64>> {
        let dim = self.dims.get(dim)?;
        let cut = dim.cut.as_ref().filter(|c| matches!(&c.axes[..], [a] if *a == *axis))?;
        let k = mesh.axis(axis)?.size;
        let at = |i| cut.rule.boundary(dim.size, i, k);
        Some((0..k).map(|i| at(i + 1) - at(i)).collect())
    }

    /// Returns the half-open range of each dimension that a rank holds (the whole dimension if it
    /// is not split). All ranges are empty if `only` names another coordinate. `coords` are the
    /// rank's coordinates in `mesh`, one per axis.
    pub fn local_box(&self, mesh: &Mesh, coords: &[i64]) -> Vec<(u64, u64)> {
        let coord = |name: &Name| mesh.axes.iter().position(|a| a.name == *name).map(|i| coords[i] as u64);
        let absent = self.only.as_ref().is_some_and(|(c, axis)| coord(axis) != Some(*c));
        let range = |d: &Dim| {
            let mut exact = IntegerAlgebra::default();
            let at = |_: &mut IntegerAlgebra, axis: &Name| u128::from(coord(axis).unwrap_or(0));
            let (start, length) = part(&mut exact, d, mesh, &at);
            (start as u64, (start + length) as u64)
        };
        self.dims.iter().map(|d| if absent { (0, 0) } else { range(d) }).collect()
    }
}

/// Returns the first element and the number of elements of a dimension that a rank holds. `coord`
/// returns the rank's coordinate on an axis.
pub fn part<A: Algebra>(
    alg: &mut A,
    dim: &Dim,
    mesh: &Mesh,
    coord: &impl Fn(&mut A, &Name) -> A::Num,
) -> (A::Num, A::Num) {
    let (mut start, mut n) = (alg.int(0), alg.int(dim.size));
    let Some(cut) = &dim.cut else { return (start, n) };
    let (row, size) = (alg.int(0), |a: &Name| mesh.axis(a).map_or(1, |a| a.size));
    if let CutRule::Lengths(_) = cut.rule {
        // Given lengths do not nest, so several axes act as one.
        let mut axes = cut.axes.iter().filter(|a| mesh.axis(a).is_some());
        let first = match axes.next() {
            Some(a) => (coord(alg, a), size(a)),
            None => (alg.int(0), 1),
        };
        let (i, k) = axes.fold(first, |(i, k), a| {
            let (of, at) = (alg.int(size(a)), coord(alg, a));
            let scaled = alg.mul(&i, &of);
            (alg.add(&scaled, &at), k * size(a))
        });
        let of = alg.int(k);
        return (cut.rule.bound(alg, &row, &n, &i, &of), cut.rule.length(alg, &row, &n, &i, k));
    }
    for axis in &cut.axes {
        let (k, i) = (size(axis), coord(alg, axis));
        let of = alg.int(k);
        let at = cut.rule.bound(alg, &row, &n, &i, &of);
        start = alg.add(&start, &at);
        n = cut.rule.length(alg, &row, &n, &i, k);
    }
    (start, n)
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.axes[..] {
            [a] => write!(f, "{a}")?,
            many => {
                let names: Vec<&str> = many.iter().map(Name::as_str).collect();
                write!(f, "({})", names.join(", "))?;
            }
        }
        match &self.rule {
            CutRule::Even => Ok(()),
            CutRule::Ceil => f.write_str("(ceil)"),
            CutRule::Lengths(parts) => write!(f, "({parts})"),
            CutRule::Lines(unit) => write!(f, "(lines {unit})"),
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dtype)?;
        if !self.dims.is_empty() {
            let dims: Vec<String> = self
                .dims
                .iter()
                .map(|d| match &d.cut {
                    None => d.size.to_string(),
                    Some(c) => format!("{}@{c}", d.size),
                })
                .collect();
            write!(f, "[{}]", dims.join(", "))?;
        }
        if let Some((op, axes)) = &self.partial {
            match &axes[..] {
                [a] => write!(f, " partial({op}@{a})")?,
                many => {
                    let names: Vec<&str> = many.iter().map(Name::as_str).collect();
                    write!(f, " partial({op}@({}))", names.join(", "))?;
                }
            }
        }
        if let Some((c, axis)) = &self.only {
            write!(f, " only({c}@{axis})")?;
        }
        Ok(())
    }
}
