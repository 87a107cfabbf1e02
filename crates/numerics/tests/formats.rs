//! Tests of readers and writers of `.npy`, `.npz` and `.safetensors`: round trips, every kind of
//! damage, every rejection.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use half::{bf16, f16};
use kbc_diag::Diagnostic;
use kbc_ir::types::DType;
use kbc_numerics::formats::{
    Conversion, describe, keys, npy as format, read, read_converted, write_npy, write_npz, write_safetensors,
};
use kbc_numerics::tensor::{Data, Tensor};
use proptest::prelude::*;
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Returns elements that include the extremes of a type.
fn data(dtype: DType, n: usize) -> Data {
    let number = |i: usize| (i as f32 - 2.5) * 3.25;
    match dtype {
        DType::F32 => Data::F32((0..n).map(|i| if i == 3 { f32::NAN } else { number(i) }).collect()),
        DType::F16 => Data::F16((0..n).map(|i| f16::from_f32(number(i))).collect()),
        DType::BF16 => Data::BF16((0..n).map(|i| bf16::from_f32(number(i))).collect()),
        DType::I32 => Data::I32((0..n).map(|i| i32::MIN + i as i32 * 7919).collect()),
        DType::I8 => Data::I8((0..n).map(|i| (i as i8).wrapping_mul(37)).collect()),
        DType::U8 => Data::U8((0..n).map(|i| (i as u8).wrapping_mul(37)).collect()),
        DType::I16 => Data::I16((0..n).map(|i| (i as i16).wrapping_mul(7919)).collect()),
        DType::I64 => Data::I64((0..n).map(|i| i64::MAX - i as i64 * 7919).collect()),
        DType::F8E4M3FN | DType::F8E5M2 => {
            let values: Vec<f64> = (0..n).map(|i| f64::from(number(i))).collect();
            Data::of_f64(dtype, &values)
        }
    }
}

fn tensor(dtype: DType, shape: &[u64]) -> Tensor {
    let n = shape.iter().product::<u64>() as usize;
    Tensor::new(shape, data(dtype, n)).unwrap()
}

fn same(a: &Tensor, b: &Tensor) -> bool {
    a.shape() == b.shape() && a.data() == b.data()
}

const SHAPES: [&[u64]; 6] = [&[], &[5], &[0], &[2, 3], &[3, 0, 2], &[2, 1, 3]];

/// Returns all types with all shapes.
fn samples() -> Vec<(String, Tensor)> {
    let all = DType::ALL.into_iter().flat_map(|d| SHAPES.iter().enumerate().map(move |(i, s)| (d, i, *s)));
    all.map(|(d, i, s)| (format!("{d}.{i}"), tensor(d, s))).collect()
}

fn numpy_samples() -> Vec<(String, Tensor)> {
    samples().into_iter().filter(|(_, t)| t.dtype().row().numpy.is_some()).collect()
}

/// Returns `.npy` bytes of a header and data.
fn npy(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = b"\x93NUMPY".to_vec();
    out.extend([version, 0]);
    if version == 1 {
        out.extend((header.len() as u16).to_le_bytes());
    } else {
        out.extend((header.len() as u32).to_le_bytes());
    }
    out.extend(header.as_bytes());
    out.extend(data);
    out
}

/// Returns an archive with members compressed by `method`.
fn zip_of(members: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(vec![]));
    for (name, bytes) in members {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Returns `.safetensors` bytes of a header and data.
fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(data);
    out
}

/// Returns all text of a message.
fn words(d: &Diagnostic) -> String {
    let help = d.help.iter();
    [d.code.to_string(), d.title.clone()]
        .iter()
        .chain(&d.notes)
        .chain(help)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n")
}

fn refused(path: &str, bytes: &[u8], key: Option<&str>, code: &str, parts: &[&str]) {
    let d = read(path, bytes, key).expect_err(path);
    let text = words(&d);
    assert!(
        d.code == code && parts.iter().all(|p| text.contains(p)),
        "wanted {code} with {parts:?}, got {text}"
    );
}

#[test]
fn round_trips() {
    for (name, t) in numpy_samples() {
        let bytes = write_npy(&t).unwrap();
        assert!(same(&read("a.npy", &bytes, None).unwrap(), &t), "{name}");
        let start = bytes.len() - t.elements() * t.dtype().bytes() as usize;
        assert_eq!(start % 64, 0, "{name}: the elements begin at a multiple of 64");
    }
    for (path, list, bytes) in [
        ("a.NPZ", numpy_samples(), write_npz(&numpy_samples()).unwrap()),
        ("dir.x/a.safetensors", samples(), write_safetensors(&samples()).unwrap()),
    ] {
        let mut names: Vec<String> = list.iter().map(|l| l.0.clone()).collect();
        let mut found = keys(path, &bytes).unwrap();
        if path.ends_with("NPZ") {
            assert_eq!(found, names, "members are in the order given");
        }
        names.sort();
        found.sort();
        assert_eq!(found, names);
        for (name, t) in list {
            assert!(same(&read(path, &bytes, Some(&name)).unwrap(), &t), "{path}:{name}");
        }
    }
}

#[test]
fn written_bytes_are_those_of_numpy() {
    let header = "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }";
    let mut want = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    want.extend(format!("{header:<117}\n").as_bytes());
    want.extend([1, 0, 0, 0, 254, 255, 255, 255]);
    assert_eq!(write_npy(&Tensor::new([2], Data::I32(vec![1, -2])).unwrap()).unwrap(), want);
    let scalar = write_npy(&Tensor::new([], Data::U8(vec![7])).unwrap()).unwrap();
    assert!(scalar[10..].starts_with(b"{'descr': '|u1', 'fortran_order': False, 'shape': (), }  "));
}

#[test]
fn other_headers_of_numpy() {
    let row: Vec<u8> = (0..6).collect();
    let cases = [
        (1, "{'shape': (2, 3), 'fortran_order': False, 'descr': '|i1'}", vec![0, 1, 2, 3, 4, 5]),
        (1, "{'shape': (2, 3), 'fortran_order': True, 'descr': '|i1'}", vec![0, 2, 4, 1, 3, 5]),
        (2, "{\"descr\": \"i1\", \"fortran_order\": False, \"shape\": (2L, 3L), }\n", vec![0, 1, 2, 3, 4, 5]),
        (
            3,
            " { 'descr' : '<i1' , 'fortran_order' : False , 'shape' : ( 2 , 3 , ) } ",
            vec![0, 1, 2, 3, 4, 5],
        ),
    ];
    for (version, header, want) in cases {
        let t = read("a.npy", &npy(version, header, &row), None).unwrap();
        assert!(same(&t, &Tensor::new([2, 3], Data::I8(want)).unwrap()), "{header}");
    }
    // Three dimensions, two bytes each, first index fastest.
    let elements: Vec<u8> = (0..24i16).flat_map(|i| i.to_le_bytes()).collect();
    let t = read(
        "a.npy",
        &npy(1, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3, 4)}", &elements),
        None,
    );
    let want =
        (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| i + 2 * j + 6 * k))).collect();
    assert!(same(&t.unwrap(), &Tensor::new([2, 3, 4], Data::I16(want)).unwrap()));
}

#[test]
fn refused_npy() {
    let with = |descr: &str| {
        npy(1, &format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2,)}}"), &[0; 16])
    };
    for (descr, parts) in [
        ("'>f4'", &["big-endian f32", "newbyteorder"][..]),
        ("'<f8'", &["f64", "astype(np.float32)"]),
        ("'<V2'", &["two raw bytes", "bf16", "safetensors"]),
        ("'|V1'", &["one raw byte", "8-bit float", "safetensors"]),
        ("'|V2'", &["two raw bytes"]),
        ("'<u2'", &["16-bit unsigned", "bf16"]),
        ("'|O'", &["pickle", "does not read"]),
        ("'|b1'", &["`|b1`", "f4, f2"]),
        ("'<U3'", &["`<U3`"]),
        ("[('x', '<f4'), ('y', '<i4', (2, 3))]", &["records"]),
    ] {
        refused("a.npy", &with(descr), None, "E403", parts);
    }
    let i1 = |header: &str| npy(1, header, &[0; 6]);
    let huge = |n: &str| i1(&format!("{{'descr': '<i8', 'fortran_order': False, 'shape': ({n})}}"));
    for (bytes, part) in [
        (b"PK\x03\x04 but longer".to_vec(), "does not begin"),
        (npy(4, "{}", &[]), "version is 4.0"),
        (huge("18446744073709551615, 2"), "larger than any file"),
        (huge("4294967296, 4294967296, 0"), "larger than any file"),
        (huge("99999999999999999999,"), "larger than any file"),
        (huge("1152921504606846975,"), "truncated"),
        (huge("6"), "not a tuple"),
        (huge("-6,"), "a size"),
        (i1("{'descr': '|i1', 'fortran_order': False, 'shape': (5,)}"), "there is data after the array"),
        (i1("{'descr': '|i1', 'fortran_order': False, 'shape': (7,)}"), "truncated"),
        (i1("{'descr': '|i1', 'fortran_order': False}"), "no `shape`"),
        (i1("{'descr': '|i1', 'descr': '|i1', 'fortran_order': False, 'shape': (6,)}"), "`descr` twice"),
        (i1("{'descr': '|i1', 'order': False, 'shape': (6,)}"), "unknown entry `order`"),
        (i1("{'descr': '|i1', 'fortran_order': 0, 'shape': (6,)}"), "True or False"),
        (i1("{'descr': '|i1', 'fortran_order': False, 'shape': (6,)} x"), "the end of the header"),
        (i1("{'descr': '|i1"), "closing quote"),
        (i1(""), "`{`"),
    ] {
        refused("a.npy", &bytes, None, "E401", &[part]);
    }
    refused("a.npy", &with("'<f4'"), Some("w"), "E404", &["without a name", "remove"]);
}

#[test]
fn npz_members() {
    let one = write_npy(&tensor(DType::F32, &[2, 3])).unwrap();
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let bytes = zip_of(&[("w1.npy", &one), ("notes.txt", b"not an array")], method);
        assert_eq!(keys("a.npz", &bytes).unwrap(), ["w1"]);
        // The only array needs no key.
        assert!(same(&read("a.npz", &bytes, None).unwrap(), &tensor(DType::F32, &[2, 3])));
    }
    let both = zip_of(&[("w1.npy", &one), ("w2.npy", &one)], CompressionMethod::Stored);
    refused("a.npz", &both, Some("w3"), "E404", &["no array `w3`", "`w1`, `w2`", "did you mean `w1`"]);
    refused("a.npz", &both, Some("hidden"), "E404", &["`w1`, `w2`", "use one of its keys"]);
    refused("a.npz", &both, None, "E404", &["needs the key", "`a.npz:w1`"]);
    let none = zip_of(&[("notes.txt", b"")], CompressionMethod::Stored);
    refused("a.npz", &none, Some("w1"), "E404", &["it contains no arrays"]);
    let broken = zip_of(&[("w1.npy", &one[..one.len() - 1])], CompressionMethod::Stored);
    refused("a.npz", &broken, Some("w1"), "E401", &["a.npz:w1", "truncated"]);
    refused("a.npz", b"", None, "E401", &["a.npz"]);
    // The checksum of a stored member.
    let mut flipped = both.clone();
    let at = flipped.windows(one.len()).position(|w| w == one).unwrap() + one.len() - 1;
    flipped[at] ^= 1;
    refused("a.npz", &flipped, Some("w1"), "E401", &["`w1.npy`", "checksum"]);
    // Two members of one name: the second one is renamed in local header and directory.
    let mut twice = both;
    for _ in 0..2 {
        let at = twice.windows(6).position(|w| w == b"w2.npy").unwrap();
        twice[at + 1] = b'1';
    }
    refused("a.npz", &twice, Some("w1"), "E401", &["the same name"]);
}

#[test]
fn members_that_claim_too_much_are_not_unpacked() {
    let one = write_npy(&tensor(DType::I8, &[5])).unwrap();
    let bytes = zip_of(&[("a.npy", &one)], CompressionMethod::Deflated);
    // Bytes 24..28 of the directory entry are the uncompressed size.
    let mut bomb = bytes.clone();
    let entry = bomb.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    bomb[entry + 24..entry + 28].copy_from_slice(&u32::MAX.to_le_bytes()[..]);
    bomb[entry + 27] = 0x7f;
    let d = read("a.npz", &bomb, None).unwrap_err();
    assert_eq!(d.code, "E401", "{}", words(&d));
}

/// The header of an array is at its beginning. Its elements are not decompressed for reading the
/// header, nor if the size of the member disagrees with the header.
#[test]
fn what_a_member_is_is_known_before_it_is_unpacked() {
    let head = |n: u64| {
        let whole = npy(1, &format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({n},), }}\n"), b"");
        whole[..].to_vec()
    };
    let deflated = |member: &[u8]| zip_of(&[("a.npy", member)], CompressionMethod::Deflated);
    // 64 MiB of zeros compress to 64 KiB. The bytes after the header are damaged, which must not
    // matter.
    let n = 16u64 << 20;
    let mut zeros = head(n);
    zeros.resize(zeros.len() + 4 * n as usize, 0);
    let bytes = deflated(&zeros);
    let mut damaged = bytes.clone();
    let middle = bytes.len() / 2;
    damaged[middle..middle + 64].iter_mut().for_each(|b| *b = !*b);
    for b in [&bytes, &damaged] {
        let found = describe("a.npz", b, None, Conversion::No).unwrap();
        assert_eq!((found.dtype, found.shape.as_slice(), found.bytes()), (DType::F32, &[n][..], 4 * n));
    }
    assert_eq!(read("a.npz", &damaged, None).unwrap_err().code, "E401");
    // The same amount of data, but a header for three numbers.
    let mut more = head(3);
    more.resize(zeros.len(), 0);
    refused(
        "a.npz",
        &deflated(&more),
        None,
        "E401",
        &["f32[3] needs 12 bytes", "there is data after the array"],
    );
    // A header that would not end.
    let mut long = b"\x93NUMPY\x02\x00".to_vec();
    long.extend(u32::MAX.to_le_bytes());
    long.resize(4 << 20, b' ');
    refused("a.npz", &deflated(&long), None, "E401", &["states a header of 4294967307 bytes"]);
    let both =
        vec![("x".to_owned(), tensor(DType::I64, &[2, 3])), ("y".to_owned(), tensor(DType::F16, &[0]))];
    for (name, bytes) in
        [("a.npz", write_npz(&both).unwrap()), ("a.safetensors", write_safetensors(&both).unwrap())]
    {
        let found = describe(name, &bytes, Some("x"), Conversion::No).unwrap();
        assert_eq!((found.dtype, found.shape.as_slice()), (DType::I64, &[2, 3][..]), "{name}");
        assert_eq!(describe(name, &bytes, Some("z"), Conversion::No).unwrap_err().code, "E404");
    }
    let one = write_npy(&both[0].1).unwrap();
    assert_eq!(describe("a.npy", &one, None, Conversion::No).unwrap().shape, [2, 3]);
    assert_eq!(describe("a.npy", &one[..one.len() - 1], None, Conversion::No).unwrap_err().code, "E401");
}

#[test]
fn refused_safetensors() {
    let entry = |dtype: &str, shape: &str, offsets: &str| {
        format!("{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":{offsets}}}")
    };
    let good = entry("I16", "[2]", "[0,4]");
    let of = |text: String| safetensors(&text, &[1, 0, 2, 0]);
    let fine = of(format!("{{\"__metadata__\":{{\"format\":\"pt\"}},\"a\":{good}}}   "));
    assert!(same(
        &read("m.safetensors", &fine, None).unwrap(),
        &Tensor::new([2], Data::I16(vec![1, 2])).unwrap()
    ));
    for (bytes, part) in [
        (b"1234567".to_vec(), "has 7 bytes"),
        (u64::MAX.to_le_bytes().to_vec(), "(limit: 100000000)"),
        (1000u64.to_le_bytes().to_vec(), "and there are 0"),
        (of(format!(" {{\"a\":{good}}}")), "begin with `{`"),
        (of(format!("{{\"a\":{good}")), "its header is invalid"),
        (of(format!("{{\"a\":{good}}} x")), "its header is invalid"),
        (of(format!("{{\"a\":{good},\"a\":{good}}}")), "`a` occurs twice"),
        (of("{\"a\":{\"dtype\":\"I16\",\"shape\":[2]}}".into()), "missing field `data_offsets`"),
        (
            of(good.replace("\"dtype\"", "\"x\":1,\"dtype\"").replace('{', "{\"a\":{").replace('}', "}}")),
            "unknown field `x`",
        ),
        (of(format!("{{\"a\":{}}}", entry("I16", "[2]", "[0,4,8]"))), "its header is invalid"),
        (of(format!("{{\"a\":{}}}", entry("I16", "[-2]", "[0,4]"))), "its header is invalid"),
        (of(format!("{{\"a\":{}}}", entry("I16", "[3]", "[0,4]"))), "needs 6 bytes, and has 4"),
        (of(format!("{{\"a\":{}}}", entry("I16", "[3]", "[0,6]"))), "is at 0..6"),
        (of(format!("{{\"a\":{}}}", entry("I16", "[0]", "[3,2]"))), "is at 3..2"),
        (of(format!("{{\"a\":{}}}", entry("I16", "[1]", "[2,4]"))), "leaves a gap"),
        (of(format!("{{\"a\":{}}}", entry("I16", "[1]", "[0,2]"))), "end at byte 2"),
        (of(format!("{{\"a\":{good},\"b\":{good}}}")), "overlaps"),
        (
            of(format!("{{\"a\":{}}}", entry("I16", "[9223372036854775807,9]", "[0,4]"))),
            "larger than any file",
        ),
        (of("[".repeat(100_000)), "begin with `{`"),
        (of(format!("{{\"a\":{}", "{\"a\":".repeat(100_000))), "its header is invalid"),
    ] {
        refused("m.safetensors", &bytes, Some("a"), "E401", &[part]);
    }
    let other = of(format!("{{\"a\":{}}}", entry("F8_E8M0", "[4]", "[0,4]")));
    refused("m.safetensors", &other, Some("a"), "E403", &["F8_E8M0", "BF16"]);
    assert_eq!(keys("m.safetensors", &other).unwrap(), ["a"]);
    refused("m.safetensors", &fine, Some("aa"), "E404", &["it contains `a`"]);
}

#[test]
fn unknown_kinds_and_what_cannot_be_written() {
    for path in ["w1", "w1.pt", "w1.npy.gz", ".npz/x", ""] {
        refused(path, b"", None, "E402", &[".npy"]);
    }
    let t = tensor(DType::F32, &[1]);
    let pair = |k: &str| (k.to_string(), t.clone());
    let brain = tensor(DType::BF16, &[2]);
    for (d, part) in [
        (write_npy(&brain).unwrap_err(), "do not support bf16"),
        (write_npz(&[("a".into(), brain)]).unwrap_err(), "do not support bf16"),
        (write_npy(&tensor(DType::F8E5M2, &[2])).unwrap_err(), "do not support f8e5m2"),
        (write_npz(&[pair("a"), pair("b"), pair("a")]).unwrap_err(), "the key `a`"),
        (write_npz(&[pair("")]).unwrap_err(), "not a valid key"),
        (write_npz(&[pair("/etc/x")]).unwrap_err(), "not a valid key"),
        (write_safetensors(&[pair("a"), pair("a")]).unwrap_err(), "the key `a`"),
        (write_safetensors(&[pair("__metadata__")]).unwrap_err(), "not a key"),
    ] {
        assert!(d.code == "E406" && d.title.contains(part), "{}", words(&d));
    }
}

/// Returns a small file of each kind, with the key to read.
fn small_files() -> Vec<(&'static str, Vec<u8>, Option<&'static str>)> {
    let two =
        vec![("a".to_string(), tensor(DType::F32, &[2, 3])), ("bc".to_string(), tensor(DType::I16, &[3]))];
    let members: Vec<(String, Vec<u8>)> =
        two.iter().map(|(k, t)| (format!("{k}.npy"), write_npy(t).unwrap())).collect();
    let members: Vec<(&str, &[u8])> = members.iter().map(|(k, b)| (&k[..], &b[..])).collect();
    vec![
        ("a.npy", write_npy(&two[0].1).unwrap(), None),
        ("a.npy", npy(3, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3)}", &[7; 12]), None),
        ("a.npz", write_npz(&two).unwrap(), Some("a")),
        ("b.npz", zip_of(&members, CompressionMethod::Deflated), Some("bc")),
        ("a.safetensors", write_safetensors(&two).unwrap(), Some("bc")),
    ]
}

#[test]
fn truncated_at_every_byte() {
    for (path, bytes, key) in small_files() {
        assert!(read(path, &bytes, key).is_ok());
        for n in 0..bytes.len() {
            let d = read(path, &bytes[..n], key).expect_err("a part of a file");
            assert_eq!(d.code, "E401", "{path} cut to {n} of {}: {}", bytes.len(), words(&d));
            assert!(d.title.contains(path), "{}", d.title);
            assert!(keys(path, &bytes[..n]).is_err());
        }
    }
}

#[test]
fn every_byte_changed() {
    let mut rejected = 0;
    for (path, bytes, key) in small_files() {
        let right = read(path, &bytes, key).unwrap();
        for at in 0..bytes.len() {
            for bit in [1, 0x20, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= bit;
                match read(path, &changed, key) {
                    Ok(t) => assert!(t.elements() <= 12, "{path} {at}: {:?}", t.shape()),
                    Err(d) => {
                        assert!(["E401", "E403", "E404"].contains(&d.code), "{path} {at}: {}", words(&d));
                        rejected += 1;
                    }
                }
                // A member of a zip has a checksum: a successful read returns what was written.
                if path == "a.npz"
                    && let Ok(t) = read(path, &changed, key)
                {
                    assert!(same(&t, &right), "{path}: byte {at} ^ {bit:#x}");
                }
            }
        }
    }
    assert!(rejected > 2000, "{rejected}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_never_panic(which in 0usize..5, edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..12)) {
        let (path, mut bytes, key) = small_files().swap_remove(which);
        for (at, byte, how) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => { bytes.remove(at); }
                _ => bytes.insert(at, byte),
            }
        }
        for key in [key, None, Some("zz")] {
            if let Err(d) = read(path, &bytes, key) {
                prop_assert!(["E401", "E403", "E404"].contains(&d.code), "{}", words(&d));
            }
        }
        let _ = keys(path, &bytes);
    }

    #[test]
    fn noise_is_no_file(mut bytes in prop::collection::vec(any::<u8>(), 0..300), magic in 0usize..4) {
        let start: [&[u8]; 4] = [b"", b"\x93NUMPY\x01\x00\x10\x00{'descr':", b"\x20\0\0\0\0\0\0\0{\"a\":", b"PK\x05\x06"];
        bytes.splice(0..0, start[magic].iter().copied());
        for path in ["a.npy", "a.npz", "a.safetensors"] {
            let got = read(path, &bytes, None);
            prop_assert!(got.is_err());
        }
    }
}

#[test]
fn types_that_stand_for_others() {
    let array = |descr: &str, bytes: &[u8]| {
        let n = bytes.len() / descr[2..].parse::<usize>().unwrap();
        npy(1, &format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({n},), }}\n"), bytes)
    };
    let near = |descr: &str, bytes: &[u8], near: Conversion| {
        format::read_converted("x.npy", &array(descr, bytes), near)
    };
    let f64s: Vec<u8> = [0.1f64, -3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(near("<f8", &f64s, Conversion::Yes).unwrap().data(), &Data::F32(vec![0.1, -3.0]));
    assert_eq!(near("|b1", &[1, 0, 1], Conversion::Yes).unwrap().data(), &Data::U8(vec![1, 0, 1]));
    let halves = [bf16::from_f32(1.5), bf16::from_f32(-2.0)];
    let bits: Vec<u8> = halves.iter().flat_map(|x| x.to_le_bytes()).collect();
    for descr in ["|V2", "<u2", "<i2"] {
        assert_eq!(
            near(descr, &bits, Conversion::Bits).unwrap().data(),
            &Data::BF16(halves.to_vec()),
            "{descr}"
        );
    }
    assert_eq!(near("<i2", &bits, Conversion::Yes).unwrap().dtype(), DType::I16);
    for (descr, bytes) in [("<f8", &f64s), ("|V2", &bits), ("<u2", &bits)] {
        assert_eq!(near(descr, bytes, Conversion::No).unwrap_err().code, "E403");
    }
    assert_eq!(near("<u2", &bits, Conversion::Yes).unwrap_err().code, "E403");
    let zip = write_npz(&[("a".into(), tensor(DType::I16, &[2]))]).unwrap();
    assert_eq!(read_converted("x.npz", &zip, "a", Conversion::Bits).unwrap().dtype(), DType::BF16);
}
