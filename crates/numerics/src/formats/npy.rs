//! `.npy`: numpy's format of one array (NEP 1, and `numpy/lib/format.py` for versions 2 and 3).
//!
//! A file has the magic bytes `\x93NUMPY`, two bytes of version, the length of the header (two
//! bytes in version 1, four after), the header as a Python dict literal with exactly `descr`,
//! `fortran_order` and `shape`, and then the elements. Versions 1, 2 and 3, C and Fortran order and
//! little-endian elements are read; version 1, C order is written.

use super::elements::{decode, encode};
use super::{ArrayType, Conversion, byte_len, damaged, show_shape};
use crate::tensor::{Data, Tensor};
use kbc_diag::Diagnostic;
use kbc_ir::types::DType;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads the array. Fails with E401 or E403.
pub fn read(path_hint: &str, bytes: &[u8]) -> Result<Tensor, Diagnostic> {
    read_converted(path_hint, bytes, Conversion::No)
}

/// The contents of a file before the elements.
pub(super) struct Head {
    /// Element type of the bytes.
    dtype: DType,
    /// Whether the bytes are f64, which is rounded to f32.
    rounded: bool,
    /// Sizes.
    shape: Vec<u64>,
    /// Whether the first index varies fastest.
    fortran: bool,
    /// Number of bytes before the elements.
    start: usize,
    /// Number of bytes of the elements.
    need: u64,
}

impl Head {
    /// Returns the type as which the array is read.
    pub fn described(self) -> ArrayType {
        ArrayType { dtype: if self.rounded { DType::F32 } else { self.dtype }, shape: self.shape }
    }

    /// Checks that there are as many bytes as the shape needs. Fails with E401.
    pub fn check_size(&self, path_hint: &str, all: u64) -> Result<(), Diagnostic> {
        let there = all.saturating_sub(self.start as u64);
        let why = match there.cmp(&self.need) {
            std::cmp::Ordering::Less => "it is truncated",
            std::cmp::Ordering::Greater => "there is data after the array",
            std::cmp::Ordering::Equal => return Ok(()),
        };
        let (dtype, shape, need) = (self.dtype, show_shape(&self.shape), self.need);
        let what = format!("{dtype}{shape} needs {need} bytes, and there are {there}: {why}");
        Err(damaged(path_hint, ".npy", what))
    }
}

/// Returns the number of bytes of magic number, version, header length and header, according to the
/// first 12 bytes. Fails with E401.
pub(super) fn head_bytes(path_hint: &str, bytes: &[u8]) -> Result<usize, Diagnostic> {
    let bad = |what: String| damaged(path_hint, ".npy", what);
    if bytes.len() < MAGIC.len() || !bytes.starts_with(MAGIC) {
        return Err(bad(if bytes.len() < MAGIC.len() && MAGIC.starts_with(bytes) {
            format!("it ends after {} bytes, within the magic number", bytes.len())
        } else {
            "it does not begin with `\\x93NUMPY`".into()
        }));
    }
    let ends = |what: &str| bad(format!("it ends after {} bytes, within {what}", bytes.len()));
    match bytes.get(6..8).ok_or_else(|| ends("the version"))? {
        [1, 0] => match bytes.get(8..10) {
            Some(&[a, b]) => Ok(10 + u16::from_le_bytes([a, b]) as usize),
            _ => Err(ends("the length of the header")),
        },
        [2 | 3, 0] => match bytes.get(8..12) {
            Some(&[a, b, c, d]) => Ok(12 + u32::from_le_bytes([a, b, c, d]) as usize),
            _ => Err(ends("the length of the header")),
        },
        other => {
            Err(bad(format!("its version is {}.{}, and only 1.0, 2.0 and 3.0 exist", other[0], other[1])))
        }
    }
}

/// Reads everything before the elements. Fails with E401 or E403.
pub(super) fn head(path_hint: &str, bytes: &[u8], conversion: Conversion) -> Result<Head, Diagnostic> {
    let bad = |what: String| damaged(path_hint, ".npy", what);
    let start = head_bytes(path_hint, bytes)?;
    let first = if bytes[6] == 1 { 10 } else { 12 };
    let text = bytes.get(first..start).ok_or_else(|| {
        bad(format!("it ends after {} bytes, within the header of {} bytes", bytes.len(), start - first))
    })?;
    let header = Header::parse(text).map_err(bad)?;
    let (dtype, rounded) = match (&header.descr, conversion) {
        // the bytes of f64, from which f32 is made below
        (Descr::Plain(name), Conversion::Yes | Conversion::Bits) if name == "<f8" => (DType::I64, true),
        _ => (dtype_of(path_hint, &header.descr, conversion)?, false),
    };
    let (shape, fortran) = (header.shape, header.fortran);
    let Some(need) = byte_len(dtype, &shape) else {
        return Err(bad(format!("an array {dtype}{} is larger than any file", show_shape(&shape))));
    };
    Ok(Head { dtype, rounded, shape, fortran, start, need })
}

/// Reads the array, including element types that are converted. Fails with E401 or E403.
pub fn read_converted(path_hint: &str, bytes: &[u8], conversion: Conversion) -> Result<Tensor, Diagnostic> {
    let bad = |what: String| damaged(path_hint, ".npy", what);
    let head = head(path_hint, bytes, conversion)?;
    head.check_size(path_hint, bytes.len() as u64)?;
    let Head { dtype, rounded, shape, fortran, start, need: _ } = head;
    let data = &bytes[start..];
    let read = match fortran {
        true => {
            let ordered = row_major(data, &shape, dtype.bytes() as usize);
            decode(dtype, shape, &ordered)
        }
        false => decode(dtype, shape, data),
    }
    .ok_or_else(|| bad("its size does not match its shape".into()))?;
    match read.data() {
        Data::I64(bits) if rounded => {
            let list = bits.iter().map(|b| f64::from_bits(*b as u64) as f32).collect();
            Tensor::new(read.shape().to_vec(), Data::F32(list))
                .ok_or_else(|| bad("its size does not match its shape".into()))
        }
        _ => Ok(read),
    }
}

/// Returns the array as version 1.0 in C order, which are the bytes that `numpy.save` writes. Fails
/// with E406 for types that numpy does not have.
pub fn write(tensor: &Tensor) -> Result<Vec<u8>, Diagnostic> {
    let dtype = tensor.dtype();
    let Some(descr) = dtype.row().numpy else {
        let bytes = match dtype.bytes() {
            1 => "elements of one raw byte",
            _ => "elements of two raw bytes",
        };
        return Err(Diagnostic::error("E406", format!("the formats of numpy do not support {dtype}"))
            .note(format!("numpy would read the values back as {bytes}"))
            .help("write a .safetensors file, or cast the result to f32"));
    };
    let sizes: Vec<String> = tensor.shape().iter().map(u64::to_string).collect();
    let comma = if sizes.len() == 1 { "," } else { "" };
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{comma}), }}", sizes.join(", "));
    // The elements begin at a multiple of 64; the header ends with a newline.
    let blanks = 63 - (10 + header.len()) % 64;
    header.extend(std::iter::repeat_n(' ', blanks));
    header.push('\n');
    let Ok(len) = u16::try_from(header.len()) else {
        return Err(Diagnostic::error(
            "E406",
            format!("{} dimensions do not fit in a .npy header", tensor.shape().len()),
        ));
    };
    let mut out = MAGIC.to_vec();
    out.extend([1, 0]);
    out.extend(len.to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(encode(tensor));
    Ok(out)
}

/// Returns the element type of a `descr`, or E403 with the reason and a remedy in numpy.
fn dtype_of(path_hint: &str, descr: &Descr, conversion: Conversion) -> Result<DType, Diagnostic> {
    let refuse = |what: String, help: &str| {
        Err(Diagnostic::error("E403", format!("`{path_hint}` holds {what}")).help(help.to_string()))
    };
    let name = match descr {
        Descr::Plain(name) => name.as_str(),
        Descr::Structured => {
            return refuse(
                "records with several fields; kbc reads arrays with one number per element".into(),
                "save one field: `np.save(path, a['field'])`",
            );
        }
    };
    let (order, kind) = match name.as_bytes().first() {
        Some(b'<' | b'>' | b'|' | b'=') => name.split_at(1),
        _ => ("", name),
    };
    let own = DType::ALL.into_iter().find(|d| d.row().numpy.is_some_and(|n| n.get(1..) == Some(kind)));
    let dtype = match kind {
        "V2" | "u2" | "i2" if conversion == Conversion::Bits => DType::BF16,
        "b1" if conversion != Conversion::No => DType::U8,
        _ if let Some(d) = own => d,
        "V1" => {
            return refuse(
                "elements of one raw byte (`V1`), perhaps an 8-bit float: numpy has no name for these types"
                    .into(),
                "save 8-bit floats as .safetensors, or as f32: `np.save(path, a.astype(np.float32))`",
            );
        }
        "V2" => {
            return refuse(
                "elements of two raw bytes (`V2`), perhaps bf16: numpy has no name for that type".into(),
                "save bf16 as .safetensors, or as f32: `np.save(path, a.astype(np.float32))`",
            );
        }
        "u2" => {
            return refuse(
                "16-bit unsigned integers (`u2`), which kbc does not support; bits of bf16 values are not recognised"
                    .into(),
                "save bf16 as .safetensors, integers with `.astype(np.int32)`",
            );
        }
        "f8" => {
            return refuse(
                "f64, which kbc does not support".into(),
                "save it rounded: `np.save(path, a.astype(np.float32))`",
            );
        }
        "O" => {
            return refuse(
                "Python objects (pickle), which kbc does not read".into(),
                "save numbers: `np.save(path, np.asarray(a, np.float32))`",
            );
        }
        _ => {
            return refuse(
                format!("elements of numpy type `{}`", name.escape_default()),
                "kbc reads f4, f2, i8, i4, i2, i1 and u1: save it with `.astype(..)`",
            );
        }
    };
    if order == ">" && dtype.bytes() > 1 {
        return refuse(
            format!("big-endian {dtype} (`{name}`); kbc reads little-endian data only"),
            "save it as little-endian: `np.save(path, a.astype(a.dtype.newbyteorder('<')))`",
        );
    }
    Ok(dtype)
}

/// Reorders the elements of a Fortran-ordered array (first index fastest) to C order.
fn row_major(data: &[u8], shape: &[u64], size: usize) -> Vec<u8> {
    let sizes: Vec<usize> = shape.iter().map(|d| *d as usize).collect();
    let mut strides = vec![0; sizes.len()];
    let mut stride = size;
    for (s, n) in strides.iter_mut().zip(&sizes) {
        *s = stride;
        stride *= n;
    }
    let mut out = Vec::with_capacity(data.len());
    let mut index = vec![0; sizes.len()];
    let mut at = 0;
    for _ in 0..data.len() / size {
        out.extend_from_slice(&data[at..at + size]);
        for d in (0..sizes.len()).rev() {
            index[d] += 1;
            at += strides[d];
            if index[d] < sizes[d] {
                break;
            }
            index[d] = 0;
            at -= strides[d] * sizes[d];
        }
    }
    out
}

/// The `descr` entry.
enum Descr {
    /// A plain type, such as `'<f4'`.
    Plain(String),
    /// A list of fields.
    Structured,
}

/// The entries of the header.
struct Header {
    descr: Descr,
    fortran: bool,
    shape: Vec<u64>,
}

impl Header {
    /// Parses the dict literal. An error is a phrase for E401.
    fn parse(text: &[u8]) -> Result<Header, String> {
        let mut p = Literal { text, at: 0 };
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        p.expect(b'{')?;
        while !p.eat(b'}') {
            let key = p.string()?;
            p.expect(b':')?;
            let fresh = match key.as_str() {
                "descr" => {
                    let value =
                        if p.peek() == Some(b'[') { p.skip_list()? } else { Descr::Plain(p.string()?) };
                    descr.replace(value).is_none()
                }
                "fortran_order" => fortran.replace(p.boolean()?).is_none(),
                "shape" => shape.replace(p.tuple()?).is_none(),
                other => return Err(format!("its header has an unknown entry `{}`", other.escape_default())),
            };
            if !fresh {
                return Err(format!("its header has `{key}` twice"));
            }
            if !p.eat(b',') {
                p.expect(b'}')?;
                break;
            }
        }
        if p.peek().is_some() {
            return Err(p.wrong("the end of the header"));
        }
        let missing = |key: &str| format!("its header has no `{key}`");
        Ok(Header {
            descr: descr.ok_or_else(|| missing("descr"))?,
            fortran: fortran.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }
}

/// A reader of the few Python literals that a header may contain.
struct Literal<'a> {
    text: &'a [u8],
    at: usize,
}

impl Literal<'_> {
    /// Returns the next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn wrong(&self, wanted: &str) -> String {
        format!("its header does not have {wanted} at byte {}", self.at)
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.eat(byte) { Ok(()) } else { Err(self.wrong(&format!("`{}`", byte as char))) }
    }

    /// Reads a quoted string without escapes.
    fn string(&mut self) -> Result<String, String> {
        let quote = match self.peek() {
            Some(q @ (b'\'' | b'"')) => q,
            _ => return Err(self.wrong("a quoted name")),
        };
        let rest = &self.text[self.at + 1..];
        let Some(len) = rest.iter().position(|b| *b == quote) else {
            return Err(self.wrong("a closing quote"));
        };
        self.at += len + 2;
        let text = std::str::from_utf8(&rest[..len]).map_err(|_| "its header is not text".to_string())?;
        if text.contains('\\') { Err("its header has an escape in a name".into()) } else { Ok(text.into()) }
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if self.text[self.at.min(self.text.len())..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.wrong("True or False"))
    }

    /// Reads a tuple such as `(25, 384)`, `(3,)`, `()`.
    fn tuple(&mut self) -> Result<Vec<u64>, String> {
        self.expect(b'(')?;
        let mut out = vec![];
        while !self.eat(b')') {
            out.push(self.integer()?);
            if !self.eat(b',') {
                self.expect(b')')?;
                if out.len() == 1 {
                    return Err("its shape is a number in parentheses, not a tuple".into());
                }
                break;
            }
        }
        Ok(out)
    }

    /// Reads digits, with the `L` that Python 2 wrote after long integers.
    fn integer(&mut self) -> Result<u64, String> {
        self.peek();
        let rest = &self.text[self.at.min(self.text.len())..];
        let len = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if len == 0 {
            return Err(self.wrong("a size"));
        }
        let value = rest[..len]
            .iter()
            .try_fold(0u64, |n, d| n.checked_mul(10)?.checked_add(u64::from(d - b'0')))
            .ok_or_else(|| "a size in its shape is larger than any file".to_string())?;
        self.at += len + usize::from(rest.get(len) == Some(&b'L'));
        Ok(value)
    }

    /// Skips the list of fields of a record type. Only its closing bracket matters, because kbc
    /// rejects the type.
    fn skip_list(&mut self) -> Result<Descr, String> {
        let mut depth = 0usize;
        while let Some(b) = self.peek() {
            match b {
                b'[' => depth += 1,
                b']' => depth -= 1,
                b'\'' | b'"' => {
                    self.string()?;
                    continue;
                }
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(Descr::Structured);
            }
        }
        Err(self.wrong("`]`"))
    }
}
