//! Element types, meshes, placements: what a tensor is and where its parts live.

use crate::name::Name;
use crate::parts::Parts;
use std::fmt;

/// Element type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum DType {
    F32,
    F16,
    BF16,
    I32,
    I8,
    U8,
    I16,
    I64,
}

impl DType {
    /// All of them.
    pub const ALL: [DType; 8] =
        [DType::F32, DType::F16, DType::BF16, DType::I32, DType::I8, DType::U8, DType::I16, DType::I64];

    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        match self {
            DType::I8 | DType::U8 => 1,
            DType::F16 | DType::BF16 | DType::I16 => 2,
            DType::F32 | DType::I32 => 4,
            DType::I64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::BF16)
    }

    /// Whether arithmetic exists for it (i8, u8, i16, i64 move and do not reduce).
    pub fn reduces(self) -> bool {
        self.is_float() || self == DType::I32
    }

    /// The type of that name.
    pub fn parse(s: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == s)
    }

    /// Its name in `.kb` and `.kir`.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I32 => "i32",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I16 => "i16",
            DType::I64 => "i64",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The combiner of a reduction.
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

    /// The combiner of that name.
    pub fn parse(s: &str) -> Option<ReduceOp> {
        Self::ALL.into_iter().find(|r| r.name() == s)
    }

    /// Its name.
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

/// Where memory is. Every buffer and window names its kind; there is no default.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the names are the kinds")]
pub enum MemKind {
    Hbm,
    Sram,
    Tcm,
    Ub,
}

impl MemKind {
    /// All, the largest memory first.
    pub const ALL: [MemKind; 4] = [MemKind::Hbm, MemKind::Sram, MemKind::Tcm, MemKind::Ub];

    /// The kind of that name.
    pub fn parse(s: &str) -> Option<MemKind> {
        MemKind::ALL.into_iter().find(|r| r.name() == s)
    }

    /// Its name.
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

/// A named axis of a mesh. `parts` are the axes of the machine it was joined from (empty: none remembered).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Axis {
    /// Name.
    pub name: Name,
    /// Number of coordinates.
    pub size: u64,
    /// Machine axes it joins, first slowest; the product of their sizes is `size`.
    pub parts: Vec<(Name, u64)>,
}

/// Named axes over the devices of a machine. A rank's linear index runs over the axes with the last one fastest; it
/// is the index of the device in the machine's own linear order.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Mesh {
    /// Axes, first slowest.
    pub axes: Vec<Axis>,
}

impl Mesh {
    /// Number of ranks.
    pub fn ranks(&self) -> u64 {
        self.axes.iter().map(|a| a.size).product()
    }

    /// The axis of that name.
    pub fn axis(&self, name: &str) -> Option<&Axis> {
        self.axes.iter().find(|a| a.name == *name)
    }

    /// Coordinates of a rank, one an axis.
    pub fn coords(&self, rank: u64) -> Vec<i64> {
        let mut rest = rank;
        let mut out = vec![0; self.axes.len()];
        for (i, a) in self.axes.iter().enumerate().rev() {
            out[i] = (rest % a.size) as i64;
            rest /= a.size;
        }
        out
    }

    /// `tp=3`, or `dp=1 tp=3`: how messages name a rank.
    pub fn show(&self, rank: u64) -> String {
        let c = self.coords(rank);
        let parts: Vec<String> = self.axes.iter().zip(c).map(|(a, c)| format!("{}={c}", a.name)).collect();
        if parts.is_empty() { "the only rank".into() } else { parts.join(" ") }
    }
}

/// How a dimension of n elements is cut into k parts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CutRule {
    /// Boundaries at `ceil(n*i/k)`: parts differ by at most one; the rule nests.
    Even,
    /// Parts of `ceil(n/k)`, the last ones smaller or empty (PyTorch's).
    Ceil,
    /// Parts of these lengths; in a line there may be several rows of them.
    Lengths(Parts),
    /// Boundaries as those of `Even`, rounded up to a multiple of so many elements (at least 1): `u * ceil(n*i/(k*u))`, n at most. Only of lines.
    Lines(u64),
}

impl CutRule {
    /// Boundary i of n elements in k parts, `0 <= i <= k`.
    pub fn boundary(&self, n: u64, i: u64, k: u64) -> u64 {
        self.boundary_in(0, n, i, k)
    }

    /// The same by a row of the lengths. What these do not add up to, the last part has more or less.
    pub fn boundary_in(&self, row: u64, n: u64, i: u64, k: u64) -> u64 {
        match self {
            CutRule::Even => (n as u128 * i as u128).div_ceil(k as u128) as u64,
            CutRule::Ceil => (n.div_ceil(k) as u128 * i as u128).min(n as u128) as u64,
            CutRule::Lengths(_) if i >= k => n,
            CutRule::Lengths(parts) => parts.boundary(row, i).min(n),
            CutRule::Lines(unit) => {
                let unit = u128::from((*unit).max(1));
                let at = (n as u128 * i as u128).div_ceil(k as u128 * unit);
                at.saturating_mul(unit).min(n as u128) as u64
            }
        }
    }

    /// Whether all of the `k` parts of n elements are known to have one length.
    pub fn equal_parts(&self, n: u64, k: u64) -> bool {
        match self {
            CutRule::Even | CutRule::Ceil => n.is_multiple_of(k),
            CutRule::Lengths(_) => false,
            CutRule::Lines(unit) => n.is_multiple_of(unit.saturating_mul(k)),
        }
    }
}

/// Which axes cut a dimension: by the first, then each part by the second, and so on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Cut {
    /// Axes, outermost cut first; of given lengths they are one axis, in linear order.
    pub axes: Vec<Name>,
    /// The rule.
    pub rule: CutRule,
}

/// A dimension of a global tensor.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Dim {
    /// Elements, over all parts.
    pub size: u64,
    /// How it is split, if it is.
    pub cut: Option<Cut>,
}

/// A global tensor with its placement.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, row-major.
    pub dims: Vec<Dim>,
    /// The true value is the combination over these axes of what the ranks hold.
    pub partial: Option<(ReduceOp, Vec<Name>)>,
    /// Held by this coordinate of this axis alone.
    pub only: Option<(u64, Name)>,
}

impl TensorType {
    /// A replicated tensor.
    pub fn replicated(dtype: DType, sizes: &[u64]) -> Self {
        TensorType {
            dtype,
            dims: sizes.iter().map(|&size| Dim { size, cut: None }).collect(),
            partial: None,
            only: None,
        }
    }

    /// Elements of the global tensor.
    pub fn elements(&self) -> u64 {
        self.dims.iter().map(|d| d.size).product()
    }

    /// Global sizes.
    pub fn sizes(&self) -> Vec<u64> {
        self.dims.iter().map(|d| d.size).collect()
    }

    /// The same tensor with no placement.
    pub fn erased(&self) -> TensorType {
        TensorType::replicated(self.dtype, &self.sizes())
    }

    /// The dimension split by that axis.
    pub fn dim_cut_by(&self, axis: &str) -> Option<usize> {
        self.dims.iter().position(|d| d.cut.as_ref().is_some_and(|c| c.axes.iter().any(|a| *a == *axis)))
    }

    /// Elements of a dimension at each coordinate of the one axis that cuts it; none where another cuts it, or several.
    pub fn lengths_over(&self, mesh: &Mesh, dim: usize, axis: &str) -> Option<Vec<u64>> {
        let dim = self.dims.get(dim)?;
        let cut = dim.cut.as_ref().filter(|c| matches!(&c.axes[..], [a] if *a == *axis))?;
        let k = mesh.axis(axis)?.size;
        let at = |i| cut.rule.boundary(dim.size, i, k);
        Some((0..k).map(|i| at(i + 1) - at(i)).collect())
    }

    /// The half-open range of each dimension that the rank with these coordinates holds (whole where not split).
    /// Empty everywhere if `only` names another coordinate. Coordinates are those of `mesh`, one an axis.
    pub fn local_box(&self, mesh: &Mesh, coords: &[i64]) -> Vec<(u64, u64)> {
        let coord = |name: &Name| mesh.axes.iter().position(|a| a.name == *name).map(|i| coords[i] as u64);
        let absent = self.only.as_ref().is_some_and(|(c, axis)| coord(axis) != Some(*c));
        let range = |d: &Dim| {
            let (mut lo, mut n) = (0, d.size);
            if let Some(Cut { axes, rule: rule @ CutRule::Lengths(_) }) = &d.cut {
                // Several axes are one: lengths do not nest.
                let size = |a: &Name| mesh.axis(a).map_or(1, |a| a.size);
                let (i, k) =
                    axes.iter().fold((0, 1), |(i, k), a| (i * size(a) + coord(a).unwrap_or(0), k * size(a)));
                return (rule.boundary(n, i, k), rule.boundary(n, i + 1, k));
            }
            for axis in d.cut.iter().flat_map(|c| &c.axes) {
                let rule = d.cut.as_ref().map_or(&CutRule::Even, |c| &c.rule);
                let k = mesh.axis(axis).map_or(1, |a| a.size);
                let i = coord(axis).unwrap_or(0);
                let (a, b) = (rule.boundary(n, i, k), rule.boundary(n, i + 1, k));
                (lo, n) = (lo + a, b - a);
            }
            (lo, lo + n)
        };
        self.dims.iter().map(|d| if absent { (0, 0) } else { range(d) }).collect()
    }
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
