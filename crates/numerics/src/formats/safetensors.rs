//! `.safetensors`: the length of a JSON header (8 bytes), the header, and the elements of all
//! tensors one after another.
//!
//! The rules are those of the format's README (huggingface/safetensors). The header has at most 100
//! MB, begins with `{` and may end in blanks. It has one entry per tensor with `dtype`, `shape` and
//! `data_offsets`, and strings under `__metadata__`; no key occurs twice. The tensors cover the
//! data without gap or overlap, each with exactly the bytes of its shape. Files are written in the
//! order of the reference implementation: larger element types first, then by key.

use super::elements::{decode, encode};
use super::{ArrayType, byte_len, choose_key, damaged, show_shape};
use crate::tensor::Tensor;
use kbc_diag::Diagnostic;
use kbc_ir::types::DType;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The format's limit on the size of the header, in bytes.
const MAX_HEADER: u64 = 100_000_000;
const METADATA: &str = "__metadata__";

/// Reads the tensor of that key, or the only one. Fails with E401, E403 or E404.
pub fn read(path_hint: &str, bytes: &[u8], key: Option<&str>) -> Result<Tensor, Diagnostic> {
    let file = File::parse(path_hint, bytes)?;
    let (key, entry, dtype) = file.entry(path_hint, key)?;
    let data = &file.data[entry.data_offsets.0 as usize..entry.data_offsets.1 as usize];
    decode(dtype, entry.shape.clone(), data).ok_or_else(|| {
        damaged(path_hint, ".safetensors", format!("the size of `{key}` does not match its shape"))
    })
}

/// Returns element type and sizes of that tensor. Fails with E401, E403 or E404.
pub fn describe(path_hint: &str, bytes: &[u8], key: Option<&str>) -> Result<ArrayType, Diagnostic> {
    let file = File::parse(path_hint, bytes)?;
    let (_, entry, dtype) = file.entry(path_hint, key)?;
    Ok(ArrayType { dtype, shape: entry.shape.clone() })
}

/// Returns the keys of the tensors, in the order of the header. Fails with E401.
pub fn keys(path_hint: &str, bytes: &[u8]) -> Result<Vec<String>, Diagnostic> {
    Ok(File::parse(path_hint, bytes)?.keys())
}

/// Returns the file of these tensors. Fails with E406 if a key is `__metadata__` or occurs twice.
pub fn write(list: &[(String, Tensor)]) -> Result<Vec<u8>, Diagnostic> {
    let mut seen = BTreeSet::new();
    for (key, _) in list {
        if key == METADATA {
            return Err(Diagnostic::error(
                "E406",
                format!("`{METADATA}` is not a key for a tensor in .safetensors"),
            ));
        }
        if !seen.insert(key) {
            return Err(Diagnostic::error(
                "E406",
                format!("two tensors of a .safetensors have the key `{key}`"),
            ));
        }
    }
    let mut order: Vec<&(String, Tensor)> = list.iter().collect();
    order.sort_by(|(ka, a), (kb, b)| (b.dtype().bytes(), ka).cmp(&(a.dtype().bytes(), kb)));
    let (mut header, mut data) = (String::from("{"), vec![]);
    for (i, (key, tensor)) in order.into_iter().enumerate() {
        let start = data.len();
        data.extend(encode(tensor));
        let entry = serde_json::json!({
            "dtype": tensor.dtype().row().safetensors,
            "shape": tensor.shape(),
            "data_offsets": [start, data.len()],
        });
        let comma = if i == 0 { "" } else { "," };
        header.push_str(&format!("{comma}{}:{entry}", serde_json::Value::from(key.as_str())));
    }
    header.push('}');
    // The elements begin at a multiple of 8.
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(data);
    Ok(out)
}

/// Returns the kbc type of a type name of the format.
fn dtype_of(name: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|d| d.row().safetensors == name)
}

/// Returns the type names that kbc reads, as in `F32, F16 and I64`.
fn known() -> String {
    let names = DType::ALL.map(|d| d.row().safetensors);
    let (last, rest) = names.split_last().expect("there are types");
    format!("{} and {last}", rest.join(", "))
}

/// A tensor as the header describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The header, with its keys in order; no key occurs twice.
struct Header(Vec<(String, Entry)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Header, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Header;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with one entry per tensor")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut seen = BTreeSet::new();
                let mut entries = vec![];
                while let Some(key) = map.next_key::<String>()? {
                    if !seen.insert(key.clone()) {
                        return Err(A::Error::custom(format!("the key `{key}` occurs twice")));
                    }
                    if key == METADATA {
                        map.next_value::<BTreeMap<String, String>>()?;
                    } else {
                        entries.push((key, map.next_value()?));
                    }
                }
                Ok(Header(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// A file that obeys the rules: every range lies in `data`.
struct File<'a> {
    entries: Vec<(String, Entry)>,
    data: &'a [u8],
}

impl<'a> File<'a> {
    fn keys(&self) -> Vec<String> {
        self.entries.iter().map(|(k, _)| k.clone()).collect()
    }

    /// Returns the tensor of that key, or the only one. Fails with E403 or E404.
    fn entry(&self, path_hint: &str, key: Option<&str>) -> Result<(String, &Entry, DType), Diagnostic> {
        let keys = self.keys();
        let key = choose_key(path_hint, &keys, key)?;
        let entry = self.entries.iter().find(|(k, _)| k == key).map(|(_, e)| e);
        let entry = entry.expect("a chosen key is one of the file's");
        let dtype = dtype_of(&entry.dtype).ok_or_else(|| {
            Diagnostic::error(
                "E403",
                format!(
                    "`{path_hint}:{key}` has elements of type `{}`, which kbc does not support",
                    entry.dtype.escape_default()
                ),
            )
            .help(format!("kbc reads {}: cast it to one of them before saving", known()))
        })?;
        Ok((key.to_owned(), entry, dtype))
    }

    fn parse(path_hint: &str, bytes: &'a [u8]) -> Result<File<'a>, Diagnostic> {
        let bad = |what: String| damaged(path_hint, ".safetensors", what);
        let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
            return Err(bad(format!(
                "it has {} bytes, and the length of the header alone needs 8",
                bytes.len()
            )));
        };
        let length = u64::from_le_bytes(*length);
        if length > MAX_HEADER {
            return Err(bad(format!("it states a header of {length} bytes (limit: {MAX_HEADER})")));
        }
        if length > rest.len() as u64 {
            return Err(bad(format!("its header should have {length} bytes, and there are {}", rest.len())));
        }
        let (header, data) = rest.split_at(length as usize);
        if header.first() != Some(&b'{') {
            return Err(bad("its header does not begin with `{`".into()));
        }
        let Header(entries) =
            serde_json::from_slice(header).map_err(|e| bad(format!("its header is invalid: {e}")))?;
        let file = File { entries, data };
        file.check().map_err(bad)?;
        Ok(file)
    }

    /// Checks sizes and coverage. An error is a phrase for E401.
    fn check(&self) -> Result<(), String> {
        for (key, e) in &self.entries {
            let (start, end) = e.data_offsets;
            if start > end || end > self.data.len() as u64 {
                return Err(format!(
                    "`{key}` is at {start}..{end}, and the data has {} bytes",
                    self.data.len()
                ));
            }
            // A type that kbc lacks is rejected when that tensor is read; its size is not known
            // here.
            let Some(dtype) = dtype_of(&e.dtype) else { continue };
            let need = byte_len(dtype, &e.shape).ok_or_else(|| {
                format!("`{key}`, {dtype}{}, is larger than any file", show_shape(&e.shape))
            })?;
            if need != end - start {
                let shape = show_shape(&e.shape);
                return Err(format!("`{key}`, {dtype}{shape}, needs {need} bytes, and has {}", end - start));
            }
        }
        let mut ranges: Vec<((u64, u64), &str)> =
            self.entries.iter().map(|(k, e)| (e.data_offsets, k.as_str())).collect();
        ranges.sort_unstable();
        let mut at = 0;
        for ((start, end), key) in ranges {
            if start != at {
                let what = if start < at { "overlaps another tensor" } else { "leaves a gap before it" };
                return Err(format!("`{key}` begins at byte {start} of the data and {what} (expected {at})"));
            }
            at = end;
        }
        if at == self.data.len() as u64 {
            Ok(())
        } else {
            Err(format!("its tensors end at byte {at} of the data, which has {} bytes", self.data.len()))
        }
    }
}
