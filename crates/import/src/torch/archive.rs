//! `.pt2` archives: where the program is in them, and what their weights are.
//!
//! Two layouts. That of 2.10 and later has `models/model.json` and weights as raw little-endian bytes; that of 2.6 has
//! `serialized_exported_program.json` and state dicts, which are archives of a [`pickle`] and raw storages. Entries are
//! stored, not compressed.

use super::dtype::DType;
use super::exported::meta;
use super::json::{self, Fault};
use super::model::{Arg, Meta, Role, Written};
use super::pickle;
use super::symbols::Size;
use std::collections::{BTreeMap, HashMap};
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
    /// A pickle that is not read, for a reason.
    Pickled(String),
}

const PROGRAM: &str = "models/model.json";
const OLD_PROGRAM: &str = "serialized_exported_program.json";
const OLD_WEIGHTS: [&str; 2] = ["serialized_state_dict.pt", "serialized_constants.pt"];

struct Zip<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    names: Vec<String>,
    /// Numbers by names, with the folder that all entries are in and without.
    known: HashMap<String, usize>,
}

impl Zip<'_> {
    /// The entry of that name, in whatever folder all entries are.
    fn find(&self, name: &str) -> Option<usize> {
        self.known.get(name).copied()
    }

    fn text(&mut self, at: usize) -> Result<String, String> {
        let bytes = self.bytes(at)?;
        String::from_utf8(bytes).map_err(|_| format!("{}: it is no text", self.names[at]))
    }

    fn bytes(&mut self, at: usize) -> Result<Vec<u8>, String> {
        let name = self.names[at].clone();
        let cannot = |e: String| format!("{name}: {e}");
        let mut entry = self.zip.by_index(at).map_err(|e| cannot(e.to_string()))?;
        if entry.compression() != CompressionMethod::Stored {
            return Err(cannot("it is compressed, and torch.export.save stores".into()));
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
    let zip = ZipArchive::new(Cursor::new(bytes)).map_err(|e| format!("it is no archive: {e}"))?;
    // in the order of their numbers
    let names: Vec<String> = (0..zip.len())
        .map(|i| zip.name_for_index(i).map(|n| n.map(|n| n.into_owned()).unwrap_or_default()))
        .map(Option::unwrap_or_default)
        .collect();
    let mut known = HashMap::with_capacity(2 * names.len());
    for (i, name) in names.iter().enumerate() {
        // of two entries with one name the first
        for n in [Some(&name[..]), name.split_once('/').map(|n| n.1)].into_iter().flatten() {
            known.entry(n.to_owned()).or_insert(i);
        }
    }
    Ok(Zip { zip, names, known })
}

/// Reads one.
///
/// # Errors
/// What is wrong with it, as a sentence.
pub fn read(bytes: &[u8]) -> Result<Archive, String> {
    let mut zip = opened(bytes)?;
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
        let weights = match listed(&mut zip)? {
            None => Weights::Pickled("they are objects of their own".into()),
            Some(list) => {
                let mut out = BTreeMap::new();
                for (name, w) in list {
                    let at = zip.find(&w.entry).ok_or_else(|| format!("{} is not there", w.entry))?;
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
                    let size = |v: &Values| v.bytes.len() as u64;
                    Weights::Raw(list.into_iter().map(|(n, v)| (n, (v.meta(), size(&v)))).collect())
                }
                Err(why) => Weights::Pickled(why),
            };
            Ok(Archive { program, entry: OLD_PROGRAM, weights })
        }
        None => Err(format!("it has neither {PROGRAM} nor {OLD_PROGRAM}")),
    }
}

/// A weight in the list of an archive.
struct Listed {
    meta: Meta,
    /// Elements between neighbours of each dimension.
    strides: Vec<i64>,
    /// The first element.
    offset: i64,
    /// Its entry.
    entry: String,
}

/// The weights by their names in the model; none where they are a pickle.
fn listed(zip: &mut Zip) -> Result<Option<BTreeMap<String, Listed>>, String> {
    let mut out = BTreeMap::new();
    for (folder, config) in [
        ("data/weights", "data/weights/model_weights_config.json"),
        ("data/constants", "data/constants/model_constants_config.json"),
    ] {
        let Some(at) = zip.find(config) else { continue };
        let text = zip.text(at)?;
        let fault = |f: Fault| format!("{config}, byte {}: {}", f.at, f.why);
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
                return Err(format!("{config} names {entry}, which is not there"));
            }
            out.insert(name.to_string(), Listed { meta, strides, offset, entry });
        }
    }
    Ok(Some(out))
}

/// The elements of a weight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Values {
    /// Of an element.
    pub dtype: DType,
    /// One a dimension.
    pub sizes: Vec<i64>,
    /// Little-endian, in row-major order.
    pub bytes: Vec<u8>,
}

impl Values {
    /// Element type and sizes.
    pub fn meta(&self) -> Meta {
        Meta { dtype: self.dtype, sizes: self.sizes.iter().map(|n| Size::of(*n)).collect() }
    }
}

/// The elements of all weights that an archive has as bytes, by their names in the model.
///
/// # Errors
/// What is wrong with it, as a sentence.
pub fn values(bytes: &[u8]) -> Result<BTreeMap<String, Values>, String> {
    let mut zip = opened(bytes)?;
    let mut out = BTreeMap::new();
    if zip.find(PROGRAM).is_none() {
        // why they cannot be read was said with the program
        return Ok(old(&mut zip).unwrap_or_default());
    }
    for (name, w) in listed(&mut zip)?.unwrap_or_default() {
        let at = zip.find(&w.entry).ok_or_else(|| format!("{} is not there", w.entry))?;
        let all = zip.bytes(at)?;
        let cannot = |e: String| format!("{}: {e}", w.entry);
        let sizes = w.meta.shape();
        let bytes = strided(&all, &sizes, &w.strides, w.offset, w.meta.dtype.bytes()).ok_or_else(|| {
            cannot(format!("{} with steps {:?} is not in its {} bytes", w.meta, w.strides, all.len()))
        })?;
        out.insert(name, Values { dtype: w.meta.dtype, sizes, bytes });
    }
    Ok(out)
}

/// The weights of an archive of 2.6.
fn old(zip: &mut Zip) -> Result<BTreeMap<String, Values>, String> {
    let mut out = BTreeMap::new();
    for file in OLD_WEIGHTS {
        let Some(at) = zip.find(file) else { continue };
        let inner = zip.bytes(at)?;
        // a model without constants has an empty file of them
        if inner.is_empty() {
            continue;
        }
        let cannot = |why: String| format!("{file}: {why}");
        let mut inner = opened(&inner).map_err(cannot)?;
        if let Some(at) = inner.find("byteorder")
            && inner.text(at).map_err(cannot)?.trim() != "little"
        {
            return Err(cannot("only little-endian storages are read".into()));
        }
        let at = inner.find("data.pkl").ok_or_else(|| cannot("it has no data.pkl".into()))?;
        let tensors = pickle::tensors(&inner.bytes(at).map_err(cannot)?).map_err(cannot)?;
        let mut storages: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for (name, t) in tensors {
            if !storages.contains_key(&t.key) {
                let entry = format!("data/{}", t.key);
                let at = inner.find(&entry).ok_or_else(|| cannot(format!("{entry} is not there")))?;
                storages.insert(t.key.clone(), inner.bytes(at).map_err(cannot)?);
            }
            let bytes = strided(&storages[&t.key], &t.sizes, &t.strides, t.offset, t.dtype.bytes())
                .ok_or_else(|| cannot(format!("`{name}` is not in its storage")))?;
            out.insert(name, Values { dtype: t.dtype, sizes: t.sizes, bytes });
        }
    }
    Ok(out)
}

/// Elements in row-major order of a storage with steps; none where one lies outside.
fn strided(all: &[u8], sizes: &[i64], strides: &[i64], offset: i64, width: u64) -> Option<Vec<u8>> {
    let width = usize::try_from(width).ok()?;
    let n = sizes.iter().try_fold(1i64, |a, b| a.checked_mul(*b))?;
    // a tensor with steps of 0 may be far larger than its storage
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
