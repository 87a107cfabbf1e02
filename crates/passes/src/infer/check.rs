//! Checks of types on a mesh (axes exist, and each has one use), and the canonical form of equal
//! placements.

use crate::reshard;
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::Name;
use kbc_ir::types::{Cut, CutRule, DType, Mesh, TensorType};

/// Checks a type of the program and reports what is wrong with it. Returns whether it is sound.
///
/// Errors: E203 for an axis that the mesh does not have, E204 for an axis with two uses, E205 for a
/// coordinate outside its axis, E206 or E235 for a partial value of a type that does not reduce,
/// E215 for more elements than any memory has.
pub fn type_is_sound(mesh: &Mesh, ty: &TensorType, span: Span, found: &mut Diagnostics) -> bool {
    let before = found.list.len();
    found.list.extend(too_large(ty, span));
    let empty = ty.dims.iter().flat_map(|d| &d.cut).any(|c| c.axes.is_empty());
    if empty || ty.partial.as_ref().is_some_and(|p| p.1.is_empty()) {
        let d = Diagnostic::error("E203", format!("an axis is missing in `{ty}`"));
        found.push(d.primary(span, "write an axis here"));
    }
    let mut jobs: Vec<(&Name, String)> = vec![];
    for (d, dim) in ty.dims.iter().enumerate() {
        jobs.extend(dim.cut.iter().flat_map(|c| &c.axes).map(|a| (a, format!("splits dimension {d}"))));
    }
    if let Some((op, axes)) = &ty.partial {
        jobs.extend(axes.iter().map(|a| (a, format!("is the axis of a pending {op}"))));
        if !ty.dtype.reduces() {
            found.push(unreduced(ty).primary(span, "this type is partial"));
        }
    }
    jobs.extend(ty.only.iter().map(|(c, a)| (a, format!("is the axis of `only({c}@..)`"))));
    for (i, (axis, job)) in jobs.iter().enumerate() {
        if mesh.axis(axis).is_none() {
            found.push(unknown_axis(mesh, axis, ty, span));
        } else if let Some((_, other)) = jobs[..i].iter().find(|j| j.0 == *axis) {
            found.push(
                Diagnostic::error("E204", format!("`{ty}` uses axis `{axis}` twice"))
                    .primary(span, format!("`{axis}` {other}, and `{axis}` {job}"))
                    .help("a type can name each axis only once"),
            );
        }
    }
    if let Some((c, axis)) = &ty.only
        && let Some(a) = mesh.axis(axis)
        && *c >= a.size
    {
        found.push(
            Diagnostic::error("E205", format!("`{ty}`: axis `{axis}` has no coordinate {c}"))
                .primary(span, format!("the coordinates of `{axis}` are 0..{}", a.size)),
        );
    }
    found.list.len() == before
}

/// Returns the error for an axis that the mesh does not have.
pub fn unknown_axis(mesh: &Mesh, axis: &str, what: &impl std::fmt::Display, span: Span) -> Diagnostic {
    let axes: Vec<&str> = mesh.axes.iter().map(|a| a.name.as_str()).collect();
    let d = Diagnostic::error("E203", format!("`{what}`: the mesh has no axis `{axis}`"))
        .primary(span, "not an axis of the mesh")
        .note(format!("the axes of the mesh are {}", axes.join(", ")));
    match nearest(axis, axes) {
        Some(n) => d.help(format!("did you mean `{n}`?")),
        None => d,
    }
}

/// Returns the error for a tensor with 2^60 elements or more, or with too many to count in 64 bits.
pub fn too_large(ty: &TensorType, span: Span) -> Option<Diagnostic> {
    let elements = ty.dims.iter().try_fold(1u64, |n, d| n.checked_mul(d.size));
    if elements.is_some_and(|n| n <= i64::MAX as u64 / 8) {
        return None;
    }
    let d = Diagnostic::error("E215", format!("`{ty}` has too many elements"));
    Some(d.primary(span, "the limit is 2^60"))
}

/// Checks that a mesh has at least one rank and fewer than 2^32.
///
/// # Errors
/// Returns E215 otherwise.
pub fn mesh_is_countable(mesh: &Mesh) -> Result<(), Diagnostic> {
    let ranks = mesh.axes.iter().try_fold(1u64, |n, a| n.checked_mul(a.size)).filter(|n| *n >= 1);
    match ranks {
        Some(n) if n <= u64::from(u32::MAX) => Ok(()),
        _ => {
            let sizes: Vec<String> = mesh.axes.iter().map(|a| format!("{} of {}", a.name, a.size)).collect();
            Err(Diagnostic::error("E215", format!("invalid size of a mesh: {}", sizes.join(", ")))
                .primary(Span::NONE, "a mesh needs at least one rank and fewer than 2^32"))
        }
    }
}

/// Returns the same placement in canonical form: cuts by `ceil` or by given lengths that equal the
/// even cut become even cuts, and the axes of a partial value are in the order of the mesh. Two
/// canonical types give the same placement exactly if they are equal.
pub fn canonical(mesh: &Mesh, ty: &TensorType) -> TensorType {
    let mut ty = ty.clone();
    for dim in &mut ty.dims {
        if let Some(cut) = &mut dim.cut {
            let even = Cut { axes: cut.axes.clone(), rule: CutRule::Even };
            if reshard::cuts_agree(mesh, dim.size, Some(cut), Some(&even)) {
                *cut = even;
            }
        }
    }
    if let Some((_, axes)) = &mut ty.partial {
        axes.sort_by_key(|axis| mesh.axes.iter().position(|a| a.name == *axis));
    }
    ty
}

/// Returns the error for arithmetic on a floating-point type that is only moved and converted.
pub(super) fn no_arithmetic(dtype: DType) -> Option<Diagnostic> {
    let why = dtype.scaled()?;
    Some(
        Diagnostic::error(
            "E235",
            format!("kbc can move and convert {dtype} values, but not compute with them"),
        )
        .note(why)
        .help("compute in a wider type, `f32(..)`, and cast the result back"),
    )
}

/// Returns the error for a reduction of a type without arithmetic.
pub(super) fn unreduced(ty: &TensorType) -> Diagnostic {
    no_arithmetic(ty.dtype).unwrap_or_else(|| {
        Diagnostic::error(
            "E206",
            format!("`{ty}` cannot be partial: kbc can move {} values but not reduce them", ty.dtype),
        )
        .help(format!("use {}", DType::computing()))
    })
}
