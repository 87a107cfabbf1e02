//! Parts of global tensors on ranks: cutting inputs, and the boxes of results.
//!
//! The module owns how programs are fed. An input is one global tensor; a partial input has a
//! leading axis with one slice for each rank of its axes. [`TensorType::local_box`] computes the
//! boxes themselves.

use crate::tensor::{Data, Tensor, for_rows};
use kbc_diag::Diagnostic;
use kbc_ir::types::{DType, Mesh, TensorType};

/// The part of a global tensor that one rank holds.
#[derive(Clone, PartialEq, Debug)]
pub struct Part {
    /// Half-open range of each dimension; all are empty if the rank holds nothing.
    pub bounds: Vec<(u64, u64)>,
    /// The elements, in the shape of the box.
    pub tensor: Tensor,
}

/// Returns the coordinates over which a partial value is summed, as one linear index (first axis
/// slowest), and the number of contributors. Returns None if the type is not partial.
pub fn contribution(ty: &TensorType, mesh: &Mesh, rank: u64) -> Option<(u64, u64)> {
    let (_, axes) = ty.partial.as_ref()?;
    let coords = mesh.coords(rank);
    Some(axes.iter().fold((0, 1), |(index, of), name| match mesh.axes.iter().position(|a| a.name == *name) {
        Some(i) => (index * mesh.axes[i].size + coords[i] as u64, of * mesh.axes[i].size),
        None => (index, of),
    }))
}

/// Returns the name of a contributor for messages: its coordinates on the axes of the sum (`tp=2`).
pub fn contributor_name(ty: &TensorType, mesh: &Mesh, contributor: u64) -> String {
    let found = (0..mesh.ranks()).find(|r| contribution(ty, mesh, *r).is_some_and(|c| c.0 == contributor));
    let (Some((_, axes)), Some(rank)) = (&ty.partial, found) else {
        return format!("contributor {contributor}");
    };
    let coords = mesh.coords(rank);
    let named = mesh.axes.iter().zip(coords).filter(|(a, _)| axes.contains(&a.name));
    named.map(|(a, c)| format!("{}={c}", a.name)).collect::<Vec<_>>().join(" ")
}

/// Returns the shape of the tensor that feeds an input: its global shape, with a leading axis if it
/// is partial.
pub fn feed_shape(ty: &TensorType, mesh: &Mesh) -> Vec<u64> {
    let mut shape = ty.sizes();
    if let Some((_, of)) = contribution(ty, mesh, 0) {
        shape.insert(0, of);
    }
    shape
}

/// Rejects a tensor that cannot feed an input with E360.
pub fn check_feed(name: &str, ty: &TensorType, mesh: &Mesh, tensor: &Tensor) -> Result<(), Diagnostic> {
    check_described(name, ty, mesh, (tensor.dtype(), tensor.shape()))
}

/// Rejects element type and sizes that cannot feed an input with E360.
pub fn check_described(
    name: &str,
    ty: &TensorType,
    mesh: &Mesh,
    (dtype, found): (DType, &[u64]),
) -> Result<(), Diagnostic> {
    let shape = feed_shape(ty, mesh);
    if dtype == ty.dtype && found == shape {
        return Ok(());
    }
    let mut d = Diagnostic::error(
        "E360",
        format!("input {name} is {dtype}{found:?}, and the program expects {}{shape:?}", ty.dtype),
    );
    if ty.partial.is_some() {
        d = d.note(format!(
            "the data of {ty} is given per rank: the first dimension is the number of ranks that are summed"
        ));
    }
    Err(d.help("give a tensor of that type and shape"))
}

/// The part of a tensor that one rank holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldBox {
    /// The box in the global tensor.
    pub bounds: Vec<(u64, u64)>,
    /// The same in the tensor that [`check_feed`] accepts: for a partial type it has one dimension
    /// more.
    pub range: Vec<(u64, u64)>,
}

impl HeldBox {
    /// Returns the part of a rank of a tensor of a type.
    pub fn of(ty: &TensorType, mesh: &Mesh, rank: u64) -> HeldBox {
        let bounds = ty.local_box(mesh, &mesh.coords(rank));
        let mut range = bounds.clone();
        if let Some((index, _)) = contribution(ty, mesh, rank) {
            range.insert(0, (index, index + 1));
        }
        HeldBox { bounds, range }
    }

    /// Returns the sizes of the part.
    pub fn shape(&self) -> Vec<u64> {
        self.bounds.iter().map(|b| b.1 - b.0).collect()
    }
}

/// Returns the error E360 for a tensor without a part for a rank. As [`check_feed`] compares the
/// shapes, and a box lies inside its type, this happens only if the type is cut by axes that the
/// mesh does not have.
pub fn no_part(name: &str, ty: &TensorType, mesh: &Mesh, rank: u64) -> Diagnostic {
    Diagnostic::error("E360", format!("input {name}: {ty} has no part for {}", mesh.show(rank)))
        .help("the axes of the type must be axes of the mesh")
}

/// Returns the box of one rank, in its own shape, from a tensor that [`check_feed`] accepts. Fails
/// with E360 otherwise.
pub fn cut(name: &str, ty: &TensorType, mesh: &Mesh, tensor: &Tensor, rank: u64) -> Result<Part, Diagnostic> {
    check_feed(name, ty, mesh, tensor)?;
    let held = HeldBox::of(ty, mesh, rank);
    let part = tensor.extract(&held.range).and_then(|t| t.reshaped(held.shape()));
    let tensor = part.ok_or_else(|| no_part(name, ty, mesh, rank))?;
    Ok(Part { bounds: held.bounds, tensor })
}

/// Calls `f` with the position in a tensor of shape `shape`, the position in the part and the
/// length of each contiguous run.
pub fn for_each_run(shape: &[u64], bounds: &[(u64, u64)], mut f: impl FnMut(usize, usize, usize)) {
    let mut at = 0;
    for_rows(shape, bounds, |start, len| {
        f(start, at, len);
        at += len;
    });
}

/// Assembles one global tensor from the parts of all ranks, and returns whether every element was
/// provided. If several ranks hold the same element, the last rank's is used. Returns None for
/// partial types, which have no such tensor.
pub fn assemble(ty: &TensorType, parts: &[Part]) -> Option<(Tensor, bool)> {
    if ty.partial.is_some() {
        return None;
    }
    let shape = ty.sizes();
    let n = usize::try_from(crate::tensor::count(&shape)?).ok()?;
    let mut data = Data::zeros(ty.dtype, n);
    let mut given = vec![false; n];
    for p in parts {
        for_each_run(&shape, &p.bounds, |to, from, len| {
            if data.copy_from(to, p.tensor.data(), from, len) {
                given[to..to + len].fill(true);
            }
        });
    }
    let all = given.iter().all(|g| *g);
    Some((Tensor::new(shape, data)?, all))
}
