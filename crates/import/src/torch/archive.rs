//! `.pt2` archives: where the program is in them, and what their weights are.
//!
//! Two layouts. That of 2.10 and later has `models/model.json` and weights as raw little-endian bytes; that of 2.6 has
//! `serialized_exported_program.json` and pickled weights, which kbc does not read. Entries are stored, not compressed.

use super::exported::meta;
use super::json::{self, Fault};
use super::model::{Arg, Meta, Role, Written};
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use zip::{CompressionMethod, ZipArchive};

/// An archive.
#[derive(Clone, PartialEq, Debug)]
pub struct Archive {
    /// The text of the program.
    pub program: String,
    /// Its name in the archive, without the folder that all entries are in.
    pub entry: &'static str,
    /// The weights.
    pub weights: Weights,
}

/// What an archive has for parameters, buffers and constants.
#[derive(Clone, PartialEq, Debug)]
pub enum Weights {
    /// Records with the bytes of their entries, by the names of the model.
    Raw(BTreeMap<String, (Meta, u64)>),
    /// A pickle.
    Pickled,
}

const PROGRAM: &str = "models/model.json";
const OLD_PROGRAM: &str = "serialized_exported_program.json";

struct Zip<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    names: Vec<String>,
}

impl Zip<'_> {
    /// The entry of that name, in whatever folder all entries are.
    fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| n == name || n.split_once('/').is_some_and(|(_, rest)| rest == name))
    }

    fn text(&mut self, at: usize) -> Result<String, String> {
        let name = self.names[at].clone();
        let cannot = |e: String| format!("{name}: {e}");
        let mut entry = self.zip.by_index(at).map_err(|e| cannot(e.to_string()))?;
        if entry.compression() != CompressionMethod::Stored {
            return Err(cannot("it is compressed, and torch.export.save stores".into()));
        }
        let mut text = String::new();
        entry.read_to_string(&mut text).map_err(|e| cannot(e.to_string()))?;
        Ok(text)
    }

    fn size(&mut self, at: usize) -> Result<u64, String> {
        self.zip.by_index_raw(at).map(|e| e.size()).map_err(|e| format!("{}: {e}", self.names[at]))
    }
}

/// Reads one.
///
/// # Errors
/// What is wrong with it, as a sentence.
pub fn read(bytes: &[u8]) -> Result<Archive, String> {
    let zip = ZipArchive::new(Cursor::new(bytes)).map_err(|e| format!("it is no archive: {e}"))?;
    // in the order of their numbers
    let names = (0..zip.len())
        .map(|i| zip.name_for_index(i).map(|n| n.map(|n| n.into_owned()).unwrap_or_default()))
        .map(Option::unwrap_or_default)
        .collect();
    let mut zip = Zip { zip, names };
    if let Some(at) = zip.find("byteorder") {
        let order = zip.text(at)?;
        if order.trim() != "little" {
            return Err(format!(
                "its weights are {}-endian, and only little-endian ones are read",
                order.trim()
            ));
        }
    }
    if let Some(at) = zip.find(PROGRAM) {
        let program = zip.text(at)?;
        let weights = raw(&mut zip)?;
        return Ok(Archive { program, entry: PROGRAM, weights });
    }
    match zip.find(OLD_PROGRAM) {
        Some(at) => Ok(Archive { program: zip.text(at)?, entry: OLD_PROGRAM, weights: Weights::Pickled }),
        None => Err(format!("it has neither {PROGRAM} nor {OLD_PROGRAM}")),
    }
}

fn raw(zip: &mut Zip) -> Result<Weights, String> {
    let mut out = BTreeMap::new();
    for (folder, config) in [
        ("data/weights", "data/weights/model_weights_config.json"),
        ("data/constants", "data/constants/model_constants_config.json"),
    ] {
        let Some(at) = zip.find(config) else { continue };
        let text = zip.text(at)?;
        let fault = |f: Fault| format!("{config}, byte {}: {}", f.at, f.why);
        let root = json::parse(&text).map_err(fault)?;
        for (name, w) in root.want("config").and_then(json::Json::map).map_err(fault)? {
            if w.get("use_pickle").is_some_and(|p| p.bool() == Ok(true)) {
                return Ok(Weights::Pickled);
            }
            let path = w.want("path_name").and_then(|p| p.text().map(str::to_owned)).map_err(fault)?;
            let record = w.want("tensor_meta").and_then(meta).map_err(fault)?;
            let entry = format!("{folder}/{path}");
            let at = zip.find(&entry).ok_or_else(|| format!("{config} names {entry}, which is not there"))?;
            out.insert(name.to_string(), (record, zip.size(at)?));
        }
    }
    Ok(Weights::Raw(out))
}

/// What of a program's weights is not in the archive as the program has it: a sentence each.
pub fn missing(w: &Written, weights: &BTreeMap<String, (Meta, u64)>) -> Vec<String> {
    let mut out = vec![];
    for (arg, role) in &w.inputs {
        let (Arg::Tensor(input), Role::Weight(name)) = (arg, role) else { continue };
        let Some(wanted) = w.tensors.get(input) else { continue };
        match weights.get(name) {
            None => out.push(format!("`{name}` is not in it")),
            Some((record, _)) if record != wanted => {
                out.push(format!("`{name}` is {record} in it, and {wanted} in the program"));
            }
            Some((record, bytes)) => {
                let elements: i128 = record.shape().iter().map(|n| i128::from(*n)).product();
                let needed = elements * i128::from(record.dtype.bytes());
                if i128::from(*bytes) < needed {
                    out.push(format!("`{name}` has {bytes} bytes, and {record} needs {needed}"));
                }
            }
        }
    }
    out
}
