//! Arrays of data files: which array belongs to which input, and the element type that the program
//! gives it.

use crate::failure::Outcome;
use crate::workspace::Workspace;
use kbc_diag::{Diagnostic, Severity};
use kbc_import::torch::archive;
use kbc_import::torch::dtype::DType as Theirs;
use kbc_import::torch::kb::{self, AxisPlacement, consts::Const};
use kbc_ir::types::DType;
use kbc_numerics::formats::{self, Conversion};
use kbc_numerics::tensor::{Data, Tensor};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Returns the arrays of a data file by their keys, without unpacking them. An array that cannot be
/// read is ignored with a warning.
///
/// # Errors
/// Returns the errors of the file.
pub fn all(workspace: &mut Workspace, shown: &str, bytes: &[u8]) -> Outcome<BTreeMap<String, kb::Array>> {
    let mut out = BTreeMap::new();
    for key in formats::keys(shown, bytes)? {
        match formats::describe(shown, bytes, Some(&key), Conversion::No) {
            Ok(t) => {
                out.insert(key, (theirs(t.dtype), sizes(&t.shape)));
            }
            Err(mut d) if d.code == "E403" => match described(shown, bytes, &key) {
                Ok(t) => {
                    out.insert(key, (stood_for(t.dtype), sizes(&t.shape)));
                }
                Err(_) => {
                    d.severity = Severity::Warning;
                    workspace.report(&d.note(format!("the array `{key}` is ignored")).into());
                }
            },
            Err(d) => return Err(d.into()),
        }
    }
    Ok(out)
}

/// Returns the element type that is represented by the one that is stored.
pub fn stood_for(d: DType) -> Theirs {
    match d {
        DType::F32 => Theirs::F64,
        DType::BF16 => Theirs::U16,
        _ => Theirs::Bool,
    }
}

/// Reads an array of a data file. Types that numpy cannot name are read as the bits of bf16, and so
/// are 16-bit integers for an input of that type.
///
/// # Errors
/// Returns the errors of the file.
pub fn read_converted(name: &str, bytes: &[u8], key: &str, bf16: bool) -> Result<Tensor, Diagnostic> {
    match formats::read_converted(name, bytes, key, Conversion::Yes) {
        Ok(t) if bf16 && t.dtype() == DType::I16 => {
            formats::read_converted(name, bytes, key, Conversion::Bits)
        }
        Err(d) if d.code == "E403" => formats::read_converted(name, bytes, key, Conversion::Bits),
        other => other,
    }
}

/// PyTorch's name of an element type.
pub fn theirs(d: DType) -> Theirs {
    Theirs::of(d)
}

/// Element type and sizes.
pub fn array(t: &Tensor) -> kb::Array {
    (theirs(t.dtype()), sizes(t.shape()))
}

fn sizes(shape: &[u64]) -> Vec<i64> {
    shape.iter().map(|n| *n as i64).collect()
}

/// Returns the arrays that [`read_converted`] would read.
fn described(name: &str, bytes: &[u8], key: &str) -> Result<formats::ArrayType, Diagnostic> {
    match formats::describe(name, bytes, Some(key), Conversion::Yes) {
        Err(d) if d.code == "E403" => formats::describe(name, bytes, Some(key), Conversion::Bits),
        other => other,
    }
}

/// Returns a weight of an archive; None if kbc does not support its type.
///
/// # Errors
/// Returns a message if it has another size.
pub fn tensor(w: &archive::WeightElements) -> Result<Option<Tensor>, String> {
    let stored = match w.dtype {
        Theirs::Bool => Some(DType::U8),
        other => other.ours(),
    };
    let Some(dtype) = stored else { return Ok(None) };
    let data = Data::of_bytes(dtype, &w.bytes).ok_or("the weight has another size")?;
    let shape: Vec<u64> = w.sizes.iter().map(|n| *n as u64).collect();
    Tensor::new(shape, data).map(Some).ok_or_else(|| "the weight has another size".into())
}

/// Returns a constant of a program as an array.
///
/// # Errors
/// Returns E991 if it has no elements.
pub fn constant(c: &Const) -> Result<Tensor, Diagnostic> {
    let wrong = || Diagnostic::error("E991", "the constant has no elements");
    let list = c.elements().map_err(|_| wrong())?;
    let data = match c.dtype.ours().filter(|d| d.is_float()) {
        Some(dtype) => Data::of_f64(dtype, &list),
        None => Data::I32(list.iter().map(|x| *x as i32).collect()),
    };
    let shape: Vec<u64> = c.sizes.iter().map(|n| *n as u64).collect();
    Tensor::new(shape, data).ok_or_else(wrong)
}

/// Converts data to the element type that an input has in kbc: rounded to nearest even, or an
/// integer in range.
///
/// # Errors
/// Returns a message about a number that is out of range.
pub fn converted(t: &Tensor, to: Theirs) -> Result<Tensor, String> {
    if theirs(t.dtype()) == to {
        return Ok(t.clone());
    }
    let whole = |x: &i64| i32::try_from(*x).map_err(|_| format!("{x} is outside the range of i32"));
    let float = to.ours().filter(|d| d.is_float());
    let data = match (to, t.data().to_i64()) {
        (Theirs::I32, Some(list)) => Data::I32(list.iter().map(whole).collect::<Result<_, _>>()?),
        (_, None) if let Some(d) = float => Data::of_f64(d, &t.data().to_f64()),
        _ => return Err(format!("{} cannot be converted to {}", t.dtype(), to.name())),
    };
    Tensor::new(t.shape().to_vec(), data).ok_or_else(|| "its size differs".into())
}

/// Writes a data file with that extension.
///
/// # Errors
/// Returns E406 for content that the format cannot store.
pub fn pack(list: &[(String, Tensor)], ending: &str) -> Result<Vec<u8>, Diagnostic> {
    if ending == "npz" { formats::write_npz(list) } else { formats::write_safetensors(list) }
}

/// Returns a number that is equal for equal arrays, bit for bit, and the value of all elements, if
/// there is only one.
pub fn print(t: &Tensor) -> kb::Fingerprint {
    kb::Fingerprint { hash: hash(t), uniform: uniform(t) }
}

/// Returns the number that all elements of an array have.
fn uniform(t: &Tensor) -> Option<f64> {
    let list = t.data().to_f64();
    list.first().copied().filter(|x| list.iter().all(|y| y.to_bits() == x.to_bits()))
}

fn hash(t: &Tensor) -> u64 {
    let mut h = DefaultHasher::new();
    t.shape().hash(&mut h);
    match t.data().to_i64() {
        None => t.data().to_bytes().hash(&mut h),
        ints => ints.hash(&mut h),
    }
    h.finish()
}

/// Assembles the arrays of all ranks to that of a global program. For each axis of the mesh, the
/// slowest first, it takes the size and the placement.
///
/// # Errors
/// Returns a message about arrays that do not match.
pub fn joined(mut parts: Vec<Tensor>, by: &[(u64, AxisPlacement)]) -> Result<Tensor, String> {
    for (size, place) in by.iter().rev() {
        let groups = parts.chunks(*size as usize).map(|of| match place {
            AxisPlacement::Whole => Ok(of[0].clone()),
            AxisPlacement::Split(d) => side_by_side(of, *d),
            AxisPlacement::Partial("sum") => {
                let mut sum = of[0].data().to_f64();
                for t in &of[1..] {
                    sum.iter_mut().zip(t.data().to_f64()).for_each(|(a, b)| *a += b);
                }
                let data = Data::F32(sum.iter().map(|x| *x as f32).collect());
                let t = Tensor::new(of[0].shape().to_vec(), data).ok_or("the sizes differ")?;
                converted(&t, theirs(of[0].dtype()))
            }
            AxisPlacement::Partial(op) => Err(format!("parts of a {op} cannot be stored")),
            AxisPlacement::Within(..) | AxisPlacement::Unknown => {
                Err("the placement of its parts is not known".into())
            }
        });
        parts = groups.collect::<Result<_, String>>()?;
    }
    match &parts[..] {
        [one] => Ok(one.clone()),
        _ => Err("the sizes of the mesh differ".into()),
    }
}

/// Concatenates arrays along a dimension.
fn side_by_side(parts: &[Tensor], d: usize) -> Result<Tensor, String> {
    let mut shape = parts[0].shape().to_vec();
    let rest =
        |t: &Tensor| t.shape().iter().enumerate().filter(|s| s.0 != d).map(|s| *s.1).collect::<Vec<_>>();
    if d >= shape.len() || parts.iter().any(|t| rest(t) != rest(&parts[0]) || t.dtype() != parts[0].dtype()) {
        return Err("the sizes of the parts differ".into());
    }
    shape[d] = parts.iter().map(|t| t.shape()[d]).sum();
    let outer: usize = shape[..d].iter().product::<u64>() as usize;
    let run = |t: &Tensor| t.elements() / outer.max(1);
    let mut data = Data::zeros(parts[0].dtype(), parts.iter().map(Tensor::elements).sum());
    let mut at = 0;
    for o in 0..outer {
        for t in parts {
            if !data.copy_from(at, t.data(), o * run(t), run(t)) {
                return Err("the element types of the parts differ".into());
            }
            at += run(t);
        }
    }
    Tensor::new(shape, data).ok_or_else(|| "the sizes differ".into())
}
