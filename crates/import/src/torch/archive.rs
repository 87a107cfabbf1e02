//! Reader of `.pt2` archives: finds the exported program and the weights.
//!
//! Two layouts exist. That of PyTorch 2.10 and later has `models/model.json` and weights as raw
//! little-endian bytes. That of PyTorch 2.6 has `serialized_exported_program.json` and state
//! dicts, which are themselves archives of a [`pickle`] and raw storages. Entries must be stored
//! without compression.

use super::arg::Arg;
use super::dtype::DType;
use super::exported::meta;
use super::json::{self, JsonFault};
use super::model::{Meta, Role, Written};
use super::pickle;
use super::symbols::Size;
use std::collections::{BTreeMap, HashMap};
use std::io::{Cursor, Read};
use zip::{CompressionMethod, ZipArchive};

/// The contents of an archive.
#[derive(Clone, PartialEq, Debug)]
pub struct Archive {
    /// Text of the program.
    pub program: String,
    /// Name of the program's entry in the archive, without the folder that contains all entries.
    pub entry: &'static str,
    /// The weights.
    pub weights: Weights,
}

/// Parameters, buffers and constants of an archive.
#[derive(Clone, PartialEq, Debug)]
pub enum Weights {
    /// Records by the names of the model, each with the number of bytes of its entry.
    Raw(BTreeMap<String, (Meta, u64)>),
    /// A pickle that kbc does not read, with the reason.
    Pickled(String),
}

const PROGRAM: &str = "models/model.json";
const OLD_PROGRAM: &str = "serialized_exported_program.json";
const OLD_WEIGHTS: [&str; 2] = ["serialized_state_dict.pt", "serialized_constants.pt"];

struct Zip<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    names: Vec<String>,
    /// Index of each entry by its name, with and without the folder that contains all entries.
    known: HashMap<String, usize>,
}

impl Zip<'_> {
    /// Returns the index of the entry with that name, in whatever folder all entries are.
    fn find(&self, name: &str) -> Option<usize> {
        self.known.get(name).copied()
    }

    fn text(&mut self, at: usize) -> Result<String, String> {
        let bytes = self.bytes(at)?;
        String::from_utf8(bytes).map_err(|_| format!("{}: it is not text", self.names[at]))
    }

    fn bytes(&mut self, at: usize) -> Result<Vec<u8>, String> {
        let name = self.names[at].clone();
        let cannot = |e: String| format!("{name}: {e}");
        let mut entry = self.zip.by_index(at).map_err(|e| cannot(e.to_string()))?;
        if entry.compression() != CompressionMethod::Stored {
            return Err(cannot("it is compressed, and torch.export.save does not compress".into()));
        }
        let mut out = vec![];
        entry.read_to_end(&mut out).map_err(|e| cannot(e.to_string()))?;
        Ok(out)
    }

    fn size(&mut self, at: usize) -> Result<u64, String> {
        self.zip.by_index_raw(at).map(|e| e.size()).map_err(|e| format!("{}: {e}", self.names[at]))
    }
}

fn opened(bytes: &[u8]) -> Result<Zip<'_>, String> {
    let zip = ZipArchive::new(Cursor::new(bytes)).map_err(|e| format!("it is not an archive: {e}"))?;
    // Names in the order of the entries' indices.
    let names: Vec<String> = (0..zip.len())
        .map(|i| zip.name_for_index(i).map(|n| n.map(|n| n.into_owned()).unwrap_or_default()))
        .map(Option::unwrap_or_default)
        .collect();
    let mut known = HashMap::with_capacity(2 * names.len());
    for (i, name) in names.iter().enumerate() {
        // If two entries have the same name, the first one counts.
        for n in [Some(&name[..]), name.split_once('/').map(|n| n.1)].into_iter().flatten() {
            known.entry(n.to_owned()).or_insert(i);
        }
    }
    Ok(Zip { zip, names, known })
}

/// Reads an archive.
///
/// # Errors
/// Returns a sentence that describes what is wrong with the archive.
pub fn read(bytes: &[u8]) -> Result<Archive, String> {
    let mut zip = opened(bytes)?;
    if let Some(at) = zip.find("byteorder") {
        let order = zip.text(at)?;
        if order.trim() != "little" {
            return Err(format!(
                "its weights are {}-endian, and kbc reads only little-endian ones",
                order.trim()
            ));
        }
    }
    if let Some(at) = zip.find(PROGRAM) {
        let program = zip.text(at)?;
        let weights = match listed(&mut zip)? {
            None => Weights::Pickled("they are pickled objects".into()),
            Some(list) => {
                let mut out = BTreeMap::new();
                for (name, w) in list {
                    let at = zip.find(&w.entry).ok_or_else(|| format!("it has no entry {}", w.entry))?;
                    out.insert(name, (w.meta, zip.size(at)?));
                }
                Weights::Raw(out)
            }
        };
        return Ok(Archive { program, entry: PROGRAM, weights });
    }
    match zip.find(OLD_PROGRAM) {
        Some(at) => {
            let program = zip.text(at)?;
            let weights = match old(&mut zip) {
                Ok(list) => {
                    let size = |v: &WeightElements| v.bytes.len() as u64;
                    Weights::Raw(list.into_iter().map(|(n, v)| (n, (v.meta(), size(&v)))).collect())
                }
                Err(why) => Weights::Pickled(why),
            };
            Ok(Archive { program, entry: OLD_PROGRAM, weights })
        }
        None => Err(format!("it has neither {PROGRAM} nor {OLD_PROGRAM}")),
    }
}

/// An entry of an archive's list of weights.
struct WeightEntry {
    meta: Meta,
    /// Distance between neighbours along each dimension, in elements.
    strides: Vec<i64>,
    /// Index of the first element in the storage.
    offset: i64,
    /// Name of the archive entry that holds the storage.
    entry: String,
}

/// Returns the list of weights by their names in the model; none if the weights are a pickle.
fn listed(zip: &mut Zip) -> Result<Option<BTreeMap<String, WeightEntry>>, String> {
    let mut out = BTreeMap::new();
    for (folder, config) in [
        ("data/weights", "data/weights/model_weights_config.json"),
        ("data/constants", "data/constants/model_constants_config.json"),
    ] {
        let Some(at) = zip.find(config) else { continue };
        let text = zip.text(at)?;
        let fault = |f: JsonFault| format!("{config}, byte {}: {}", f.at, f.why);
        let parsed = json::parse(&text).map_err(fault)?;
        for (name, w) in parsed.root().want("config").and_then(|c| c.map()).map_err(fault)? {
            if w.get("use_pickle").is_some_and(|p| p.bool() == Ok(true)) {
                return Ok(None);
            }
            let path = w.want("path_name").and_then(|p| p.text().map(|t| t.into_owned())).map_err(fault)?;
            let record = w.want("tensor_meta").map_err(fault)?;
            let meta = meta(record).map_err(fault)?;
            let int = |j: json::Json<'_>| j.get("as_int").unwrap_or(j).int();
            let strides = match record.get("strides") {
                Some(s) => s.list().and_then(|l| l.map(int).collect()).map_err(fault)?,
                None => super::kb::consts::strides(&meta.shape()),
            };
            let offset = record.get("storage_offset").map_or(Ok(0), int).map_err(fault)?;
            let entry = format!("{folder}/{path}");
            if zip.find(&entry).is_none() {
                return Err(format!("{config} names {entry}, which does not exist"));
            }
            out.insert(name.to_string(), WeightEntry { meta, strides, offset, entry });
        }
    }
    Ok(Some(out))
}

/// The elements of a weight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WeightElements {
    /// Element type.
    pub dtype: DType,
    /// One size per dimension.
    pub sizes: Vec<i64>,
    /// Elements in row-major order, little-endian.
    pub bytes: Vec<u8>,
}

impl WeightElements {
    /// Returns element type and sizes.
    pub fn meta(&self) -> Meta {
        Meta { dtype: self.dtype, sizes: self.sizes.iter().map(|n| Size::of(*n)).collect() }
    }
}

/// Returns the elements of all weights that an archive stores as bytes, by their
/// names in the model.
///
/// # Errors
/// Returns a sentence that describes what is wrong with the archive.
pub fn values(bytes: &[u8]) -> Result<BTreeMap<String, WeightElements>, String> {
    let mut zip = opened(bytes)?;
    let mut out = BTreeMap::new();
    if zip.find(PROGRAM).is_none() {
        // `read` has already reported why they cannot be read.
        return Ok(old(&mut zip).unwrap_or_default());
    }
    for (name, w) in listed(&mut zip)?.unwrap_or_default() {
        let at = zip.find(&w.entry).ok_or_else(|| format!("it has no entry {}", w.entry))?;
        let all = zip.bytes(at)?;
        let cannot = |e: String| format!("{}: {e}", w.entry);
        let sizes = w.meta.shape();
        let bytes = strided(&all, &sizes, &w.strides, w.offset, w.meta.dtype.bytes()).ok_or_else(|| {
            cannot(format!("{} with strides {:?} exceeds its {} bytes", w.meta, w.strides, all.len()))
        })?;
        out.insert(name, WeightElements { dtype: w.meta.dtype, sizes, bytes });
    }
    Ok(out)
}

/// Reads the weights of an archive of PyTorch 2.6.
fn old(zip: &mut Zip) -> Result<BTreeMap<String, WeightElements>, String> {
    let mut out = BTreeMap::new();
    for file in OLD_WEIGHTS {
        let Some(at) = zip.find(file) else { continue };
        let inner = zip.bytes(at)?;
        // A model without constants has an empty file for them.
        if inner.is_empty() {
            continue;
        }
        let cannot = |why: String| format!("{file}: {why}");
        let mut inner = opened(&inner).map_err(cannot)?;
        if let Some(at) = inner.find("byteorder")
            && inner.text(at).map_err(cannot)?.trim() != "little"
        {
            return Err(cannot("kbc reads only little-endian storages".into()));
        }
        let at = inner.find("data.pkl").ok_or_else(|| cannot("it has no data.pkl".into()))?;
        let tensors = pickle::tensors(&inner.bytes(at).map_err(cannot)?).map_err(cannot)?;
        let mut storages: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for (name, t) in tensors {
            if !storages.contains_key(&t.key) {
                let entry = format!("data/{}", t.key);
                let at = inner.find(&entry).ok_or_else(|| cannot(format!("it has no entry {entry}")))?;
                storages.insert(t.key.clone(), inner.bytes(at).map_err(cannot)?);
            }
            let bytes = strided(&storages[&t.key], &t.sizes, &t.strides, t.offset, t.dtype.bytes())
                .ok_or_else(|| cannot(format!("`{name}` exceeds its storage")))?;
            out.insert(name, WeightElements { dtype: t.dtype, sizes: t.sizes, bytes });
        }
    }
    Ok(out)
}

/// Gathers the elements of a strided tensor in row-major order; none if an element lies
/// outside the storage.
fn strided(all: &[u8], sizes: &[i64], strides: &[i64], offset: i64, width: u64) -> Option<Vec<u8>> {
    let width = usize::try_from(width).ok()?;
    let n = sizes.iter().try_fold(1i64, |a, b| a.checked_mul(*b))?;
    // A tensor with strides of 0 may be far larger than its storage.
    let n = usize::try_from(n)
        .ok()
        .filter(|n| n.checked_mul(width).is_some_and(|b| b <= all.len().max(1 << 20)))?;
    let mut out = Vec::with_capacity(n * width);
    let mut at = vec![0i64; sizes.len()];
    for _ in 0..n {
        let mut place = offset;
        for (a, s) in at.iter().zip(strides) {
            place = place.checked_add(a.checked_mul(*s)?)?;
        }
        let from = usize::try_from(place).ok()?.checked_mul(width)?;
        out.extend(all.get(from..from.checked_add(width)?)?);
        for d in (0..sizes.len()).rev() {
            at[d] += 1;
            if at[d] < sizes[d] {
                break;
            }
            at[d] = 0;
        }
    }
    Some(out)
}

/// Returns one sentence for each weight of the program that the archive lacks or records with
/// another type or shape.
pub fn missing(w: &Written, weights: &BTreeMap<String, (Meta, u64)>) -> Vec<String> {
    let mut out = vec![];
    for (arg, role) in &w.inputs {
        let (Arg::Tensor(input), Role::Weight(name)) = (arg, role) else { continue };
        let Some(wanted) = w.tensors.get(input) else { continue };
        match weights.get(name) {
            None => out.push(format!("it has no `{name}`")),
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
