//! Data formats: converts the bytes of `.npy`, `.npz` and `.safetensors` files to tensors and back.
//!
//! The module owns the three formats, their limits and the messages about damaged or unsupported
//! data. Files, paths and source positions of messages belong to the driver: everything here takes
//! `&[u8]` and returns `Vec<u8>`. `path_hint` only names the data in messages and provides the
//! extension. No input may cause a panic or an allocation larger than the length of the input
//! justifies.
//!
//! | code | when |
//! |---|---|
//! | E401 | bytes that do not fit the extension: truncated, malformed, inconsistent, duplicate keys |
//! | E402 | the extension is not that of a format kbc reads or writes |
//! | E403 | an element type, byte order or compression that kbc does not support |
//! | E404 | no such key, no key where one is needed, or a key where there is none |
//! | E406 | a tensor or key that the format cannot hold (writers) |

mod elements;
pub mod npy;
pub mod npz;
pub mod safetensors;

use crate::tensor::Tensor;
use kbc_diag::Diagnostic;
use kbc_diag::nearest::nearest;
use kbc_ir::types::DType;

/// A file format, determined by the extension of the file name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One array.
    Npy,
    /// A zip archive of `.npy` members.
    Npz,
    /// A JSON header and raw data.
    Safetensors,
}

impl Format {
    /// Returns the format of a file of that name, or E402 if the extension is none of the three (in
    /// any letter case).
    pub fn of(path_hint: &str) -> Result<Format, Diagnostic> {
        let file = path_hint.rsplit(['/', '\\']).next().unwrap_or(path_hint);
        let extension = file.rsplit_once('.').map(|(_, e)| e.to_ascii_lowercase());
        match extension.as_deref() {
            Some("npy") => Ok(Format::Npy),
            Some("npz") => Ok(Format::Npz),
            Some("safetensors") => Ok(Format::Safetensors),
            _ => Err(Diagnostic::error("E402", format!("unknown kind of data file `{path_hint}`"))
                .note("the extension of the name determines the kind")
                .help("use .npy (one array), or .npz or .safetensors (arrays with keys)")),
        }
    }
}

/// Reads one tensor. `key` names the array of an `.npz` or `.safetensors`. It may be left out if
/// there is exactly one array, and must be left out for `.npy`. Fails with E401 to E404.
pub fn read(path_hint: &str, bytes: &[u8], key: Option<&str>) -> Result<Tensor, Diagnostic> {
    match Format::of(path_hint)? {
        Format::Npy => match key {
            None => npy::read(path_hint, bytes),
            Some(key) => Err(keyless(path_hint, key)),
        },
        Format::Npz => npz::read(path_hint, bytes, key),
        Format::Safetensors => safetensors::read(path_hint, bytes, key),
    }
}

/// The element types of numpy that kbc lacks and that are nevertheless read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conversion {
    /// None.
    No,
    /// f64, rounded to f32, and booleans, as u8.
    Yes,
    /// The same, and also two raw bytes, 16-bit words and 16-bit integers, as the bits of bf16, for
    /// which numpy has no name.
    Bits,
}

/// Reads one tensor like [`read`], including element types that are converted. Fails with E401 to
/// E404.
pub fn read_converted(
    path_hint: &str,
    bytes: &[u8],
    key: &str,
    conversion: Conversion,
) -> Result<Tensor, Diagnostic> {
    match Format::of(path_hint)? {
        Format::Npz => npz::read_converted(path_hint, bytes, Some(key), conversion),
        _ => read(path_hint, bytes, Some(key)),
    }
}

/// The type of an array, known before it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayType {
    /// Element type.
    pub dtype: DType,
    /// Sizes, slowest dimension first.
    pub shape: Vec<u64>,
}

impl ArrayType {
    /// Returns the number of bytes of the elements.
    pub fn bytes(&self) -> u64 {
        byte_len(self.dtype, &self.shape).unwrap_or(u64::MAX)
    }
}

/// Returns element type and sizes of the array that [`read_converted`] would read, without
/// unpacking compressed data. Fails with E401 to E404.
pub fn describe(
    path_hint: &str,
    bytes: &[u8],
    key: Option<&str>,
    conversion: Conversion,
) -> Result<ArrayType, Diagnostic> {
    match (Format::of(path_hint)?, key) {
        (Format::Npz, key) => npz::describe(path_hint, bytes, key, conversion),
        (Format::Npy, None) => {
            let head = npy::head(path_hint, bytes, conversion)?;
            head.check_size(path_hint, bytes.len() as u64)?;
            Ok(head.described())
        }
        (Format::Safetensors, key) => safetensors::describe(path_hint, bytes, key),
        (Format::Npy, Some(key)) => Err(keyless(path_hint, key)),
    }
}

/// Returns the error E404 for a key of a file that has none.
fn keyless(path_hint: &str, key: &str) -> Diagnostic {
    Diagnostic::error(
        "E404",
        format!("`{path_hint}` contains one array without a name, so the key `:{key}` does not apply"),
    )
    .help(format!("remove `:{key}`"))
}

/// Returns the keys of the arrays in the data, in the order stored; none for `.npy`. Fails with
/// E401 or E402.
pub fn keys(path_hint: &str, bytes: &[u8]) -> Result<Vec<String>, Diagnostic> {
    match Format::of(path_hint)? {
        Format::Npy => npy::read(path_hint, bytes).map(|_| vec![]),
        Format::Npz => npz::keys(path_hint, bytes),
        Format::Safetensors => safetensors::keys(path_hint, bytes),
    }
}

/// Returns the bytes of a `.npy` file (version 1.0, C order, little-endian). Fails with E406 for
/// types for which numpy has no name.
pub fn write_npy(tensor: &Tensor) -> Result<Vec<u8>, Diagnostic> {
    npy::write(tensor)
}

/// Returns the bytes of an `.npz` file: stored members in the order given, deterministically. Fails
/// with E406.
pub fn write_npz(list: &[(String, Tensor)]) -> Result<Vec<u8>, Diagnostic> {
    npz::write(list)
}

/// Returns the bytes of a `.safetensors` file, deterministically. Fails with E406.
pub fn write_safetensors(list: &[(String, Tensor)]) -> Result<Vec<u8>, Diagnostic> {
    safetensors::write(list)
}

/// Returns the error E401 with the format's explanation.
fn damaged(path_hint: &str, kind: &str, what: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error("E401", format!("`{path_hint}` is not a valid {kind} file: {what}"))
}

/// Returns the number of bytes of a tensor of these sizes, or None if no file can have that many.
/// Empty dimensions count as one in the overflow check, so that no later product of sizes can
/// overflow either.
fn byte_len(dtype: DType, shape: &[u64]) -> Option<u64> {
    let spread = shape.iter().try_fold(1u64, |n, d| n.checked_mul((*d).max(1)))?;
    let bytes = spread.checked_mul(dtype.bytes()).filter(|b| *b <= i64::MAX as u64)?;
    Some(if shape.contains(&0) { 0 } else { bytes })
}

/// Formats a shape, as in `[25, 384]`.
fn show_shape(shape: &[u64]) -> String {
    let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
    format!("[{}]", sizes.join(", "))
}

/// Returns the key to read: the requested one, or the only one. E404 lists the existing keys and
/// the nearest name.
fn choose_key<'a>(path_hint: &str, keys: &'a [String], asked: Option<&str>) -> Result<&'a str, Diagnostic> {
    let list = |keys: &[String]| {
        let shown: Vec<String> = keys.iter().take(40).map(|k| format!("`{k}`")).collect();
        let more = if keys.len() > 40 { format!(" and {} more", keys.len() - 40) } else { String::new() };
        if keys.is_empty() {
            "it contains no arrays".to_string()
        } else {
            format!("it contains {}{more}", shown.join(", "))
        }
    };
    let Some(asked) = asked else {
        return match keys {
            [only] => Ok(only),
            _ => Err(Diagnostic::error("E404", format!("`{path_hint}` needs the key of an array"))
                .note(list(keys))
                .help(format!(
                    "write the key after a colon: `{path_hint}:{}`",
                    keys.first().map_or("KEY", |k| k)
                ))),
        };
    };
    if let Some(found) = keys.iter().find(|k| *k == asked) {
        return Ok(found);
    }
    let d = Diagnostic::error("E404", format!("`{path_hint}` contains no array `{asked}`")).note(list(keys));
    Err(match nearest(asked, keys.iter().map(String::as_str)) {
        Some(conversion) => d.help(format!("did you mean `{conversion}`?")),
        None => d.help("use one of its keys"),
    })
}
