//! Test of the real data in the repository: every array equals the published one, byte for byte.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use kbc_numerics::formats::{keys, read, write_npz};
use kbc_numerics::tensor::{Data, Tensor};

/// FNV-1a, 64 bits.
fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Keys, shapes, and checksums of the elements in the archive from which the file was made.
const ARRAYS: [(&str, &[u64], u64); 6] = [
    ("ffn_in", &[25, 384], 0xa000_b323_cccc_c8e3),
    ("w1", &[384, 1536], 0x26ac_58fb_97ba_02cb),
    ("b1", &[1536], 0x9107_7902_40f4_02bc),
    ("w2", &[1536, 384], 0x1ec1_d07e_3c52_f08b),
    ("b2", &[384], 0xf1a4_051f_0c38_ec07),
    ("ffn_out", &[25, 384], 0x0e43_0b29_1760_8a2c),
];

#[test]
fn ffn_arrays() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../specs/minilm/ffn.npz");
    let bytes = std::fs::read(path).expect("the file is in the repository");
    let names = ARRAYS.map(|a| a.0);
    assert_eq!(keys("ffn.npz", &bytes).unwrap(), names);
    let mut all: Vec<(String, Tensor)> = vec![];
    for (key, shape, checksum) in ARRAYS {
        let t = read("ffn.npz", &bytes, Some(key)).unwrap();
        assert_eq!(t.shape(), shape, "{key}");
        let Data::F32(v) = t.data() else { panic!("{key} is {}", t.dtype()) };
        assert_eq!(fnv(v.iter().flat_map(|x| x.to_le_bytes())), checksum, "{key}");
        all.push((key.into(), t));
    }
    // As its README states, the writer reproduces the same file.
    assert!(
        write_npz(&all).unwrap() == bytes,
        "specs/minilm/ffn.npz is not what the writer makes of its arrays"
    );
}
