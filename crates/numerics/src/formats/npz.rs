//! `.npz`: a zip archive whose members are `.npy` files, as `numpy.savez` and `savez_compressed`
//! write it.
//!
//! Stored and deflated members are read, and their checksums are verified. Members are written
//! stored, with the time stamp zero of the zip format, so that the same tensors give the same
//! bytes. The key of a member is its name without `.npy`; members with other names are not arrays
//! and are ignored.

use super::{ArrayType, Conversion, choose_key, damaged, npy};
use crate::tensor::Tensor;
use kbc_diag::Diagnostic;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{Cursor, Read, Write};
use zip::read::ZipFile;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipArchive, ZipWriter};

/// Maximum compression ratio of deflate, 1032 to 1 (zlib's technical notes). A member that claims
/// more is not unpacked.
const MAX_RATIO: u64 = 1032;

/// Maximum number of bytes that are reserved for a member before it is unpacked, whatever size it
/// states.
const AT_ONCE: u64 = 64 << 20;

/// Maximum number of bytes of a member before its elements; numpy writes about a hundred.
const MAX_HEAD: usize = 1 << 20;

/// Reads the array of that key, or the only one. Fails with E401, E403 or E404.
pub fn read(path_hint: &str, bytes: &[u8], key: Option<&str>) -> Result<Tensor, Diagnostic> {
    read_converted(path_hint, bytes, key, Conversion::No)
}

/// Does the same, including element types that are converted. Fails with E401, E403 or E404.
pub fn read_converted(
    path_hint: &str,
    bytes: &[u8],
    key: Option<&str>,
    conversion: Conversion,
) -> Result<Tensor, Diagnostic> {
    let mut archive = open(path_hint, bytes)?;
    let keys = list(path_hint, &archive)?;
    let key = choose_key(path_hint, &keys, key)?;
    let name = format!("{key}.npy");
    let shown = format!("{path_hint}:{key}");
    let head = |head: &[u8]| npy::head(&shown, head, conversion);
    let array = member(path_hint, (&mut archive, bytes), &name, &head)?;
    npy::read_converted(&shown, &array, conversion)
}

/// Returns element type and sizes of that array, and unpacks nothing else. Fails with E401, E403 or
/// E404.
pub fn describe(
    path_hint: &str,
    bytes: &[u8],
    key: Option<&str>,
    conversion: Conversion,
) -> Result<ArrayType, Diagnostic> {
    let mut archive = open(path_hint, bytes)?;
    let keys = list(path_hint, &archive)?;
    let key = choose_key(path_hint, &keys, key)?;
    let name = format!("{key}.npy");
    let mut file = archive.by_name(&name).map_err(|e| wrong(path_hint, &name, &e))?;
    let head = beginning(path_hint, &name, &mut file)?;
    Ok(npy::head(&format!("{path_hint}:{key}"), &head, conversion)?.described())
}

/// Returns the keys of the arrays, in the order of the archive. Fails with E401.
pub fn keys(path_hint: &str, bytes: &[u8]) -> Result<Vec<String>, Diagnostic> {
    list(path_hint, &open(path_hint, bytes)?)
}

/// Returns the archive of these arrays, in this order. Fails with E406 if a key is empty, occurs
/// twice, or cannot be the name of a member.
pub fn write(list: &[(String, Tensor)]) -> Result<Vec<u8>, Diagnostic> {
    let mut seen = BTreeSet::new();
    let mut zip = ZipWriter::new(Cursor::new(vec![]));
    let failed =
        |e: &dyn std::fmt::Display| Diagnostic::error("E406", format!("the .npz cannot be written: {e}"));
    for (key, tensor) in list {
        if key.is_empty() || key.len() > 1000 || key.contains(['\0', '\\']) || key.starts_with('/') {
            return Err(Diagnostic::error(
                "E406",
                format!("`{}` is not a valid key of an .npz", key.escape_default()),
            ));
        }
        if !seen.insert(key) {
            return Err(Diagnostic::error("E406", format!("two arrays of an .npz have the key `{key}`")));
        }
        let array = npy::write(tensor)?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .unix_permissions(0o644)
            .system(System::Unix)
            .large_file(array.len() as u64 > u64::from(u32::MAX));
        zip.start_file(format!("{key}.npy"), options).map_err(|e| failed(&e))?;
        zip.write_all(&array).map_err(|e| failed(&e))?;
    }
    Ok(zip.finish().map_err(|e| failed(&e))?.into_inner())
}

type Archive<'a> = ZipArchive<Cursor<&'a [u8]>>;

fn open<'a>(path_hint: &str, bytes: &'a [u8]) -> Result<Archive<'a>, Diagnostic> {
    let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|e| wrong(path_hint, "", &e))?;
    if archive.has_duplicate_names() {
        return Err(damaged(path_hint, ".npz", "two of its members have the same name"));
    }
    Ok(archive)
}

fn list(path_hint: &str, archive: &Archive<'_>) -> Result<Vec<String>, Diagnostic> {
    let mut keys = vec![];
    for name in archive.file_names() {
        let name = name.map_err(|e| wrong(path_hint, "", &e))?;
        keys.extend(name.strip_suffix(".npy").map(str::to_string));
    }
    Ok(keys)
}

/// Reads the beginning of a member: everything before its elements.
fn beginning(path_hint: &str, name: &str, file: &mut impl Read) -> Result<Vec<u8>, Diagnostic> {
    let bad = |what: String| damaged(path_hint, ".npz", format!("`{name}` {what}"));
    let mut out = vec![];
    let mut more = |out: &mut Vec<u8>, to: usize| {
        let rest = to.saturating_sub(out.len()) as u64;
        let mut part = file.by_ref().take(rest);
        part.read_to_end(out).map_err(|e| bad(format!("does not unpack: {e}")))
    };
    more(&mut out, 12)?;
    let all = npy::head_bytes(&format!("{path_hint}:{}", name.trim_end_matches(".npy")), &out)?;
    if all > MAX_HEAD {
        return Err(bad(format!("states a header of {all} bytes (limit: {MAX_HEAD})")));
    }
    more(&mut out, all)?;
    Ok(out)
}

/// Returns the bytes of a stored member where they are, if their checksum is right. Otherwise the
/// member is read as a packed one, which says what is wrong.
fn stored<'b>(bytes: &'b [u8], file: &ZipFile<'_, Cursor<&'b [u8]>>) -> Option<&'b [u8]> {
    let start = usize::try_from(file.data_start()?).ok()?;
    let end = start.checked_add(usize::try_from(file.size()).ok()?)?;
    let plain = file.compression() == CompressionMethod::Stored && file.compressed_size() == file.size();
    bytes.get(start..end).filter(|there| plain && crc32fast::hash(there) == file.crc32())
}

/// Returns the unpacked bytes of a member, whose checksum has been verified. The beginning of the
/// member states their number before they are unpacked.
fn member<'b>(
    path_hint: &str,
    (archive, bytes): (&mut Archive<'b>, &'b [u8]),
    name: &str,
    head: &dyn Fn(&[u8]) -> Result<npy::Head, Diagnostic>,
) -> Result<Cow<'b, [u8]>, Diagnostic> {
    let mut file = archive.by_name(name).map_err(|e| wrong(path_hint, name, &e))?;
    let (packed, size) = (file.compressed_size(), file.size());
    if size > packed.saturating_mul(MAX_RATIO).saturating_add(MAX_RATIO) {
        return Err(damaged(
            path_hint,
            ".npz",
            format!(
                "`{name}` claims to unpack from {packed} to {size} bytes, which is more than deflate can compress"
            ),
        ));
    }
    let shown = format!("{path_hint}:{}", name.trim_end_matches(".npy"));
    if let Some(there) = stored(bytes, &file) {
        head(&beginning(path_hint, name, &mut &*there)?)?.check_size(&shown, size)?;
        return Ok(Cow::Borrowed(there));
    }
    let mut out = beginning(path_hint, name, &mut file)?;
    head(&out)?.check_size(&shown, size)?;
    let begun = out.len() as u64;
    out.reserve(size.saturating_sub(begun).min(AT_ONCE) as usize);
    let got = (&mut file)
        .take(size.saturating_sub(begun).saturating_add(1))
        .read_to_end(&mut out)
        .map_err(|e| damaged(path_hint, ".npz", format!("`{name}` does not unpack: {e}")))?;
    if begun + got as u64 != size {
        return Err(damaged(
            path_hint,
            ".npz",
            format!("`{name}` unpacks to {} bytes or more, and states {size}", begun + got as u64),
        ));
    }
    Ok(Cow::Owned(out))
}

/// Converts an error of the zip reader to E401, or to E403 if kbc has no reader for the data.
fn wrong(path_hint: &str, name: &str, e: &ZipError) -> Diagnostic {
    let of = if name.is_empty() { String::new() } else { format!("member `{name}`: ") };
    match e {
        ZipError::UnsupportedArchive(what) => Diagnostic::error(
            "E403",
            format!("`{path_hint}` is compressed in a way that kbc does not support: {of}{what}"),
        )
        .note("members must be stored or deflated, and not encrypted")
        .help("write it again with `np.savez` or `np.savez_compressed`"),
        ZipError::CompressionMethodNotSupported(n) => Diagnostic::error(
            "E403",
            format!("`{path_hint}`: {of}kbc does not support compression method {n}"),
        )
        .note("members must be stored or deflated, and not encrypted")
        .help("write it again with `np.savez` or `np.savez_compressed`"),
        other => damaged(path_hint, ".npz", format!("{of}{other}")),
    }
}
