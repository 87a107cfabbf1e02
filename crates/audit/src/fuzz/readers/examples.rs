//! Files to damage: the built-in ones, at least one for each reader.

use super::Reader;
use kbc_numerics::formats::{write_npy, write_npz, write_safetensors};
use kbc_numerics::tensor::{Data, Tensor};

/// A file.
#[derive(Clone, Debug)]
pub struct Example {
    /// The reader of the file.
    pub reader: Reader,
    /// Its name.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Largest size of an example in bytes; larger files would be too slow.
pub const MAX_BYTES: usize = 1 << 16;

macro_rules! built_in {
    ($($reader:ident $path:literal,)*) => {
        /// Readers, names and contents.
        const FILES: &[(Reader, &str, &[u8])] =
            &[$((Reader::$reader, $path, include_bytes!(concat!("../../../../../", $path))),)*];
    };
}

built_in! {
    Kb "specs/all_gather.kb",
    Kb "specs/lib/trees.kb",
    Kb "specs/lib/layers.kb",
    Kb "specs/lib/kernels.kb",
    Kir "crates/ir/tests/kir/good/ring_all_reduce.kir",
    Kir "crates/ir/tests/kir/good/host_program.kir",
    Kir "specs/kernbench/transfers_next_sip.kir",
    Tile "crates/backend-ascend/tests/tile/good/ring.tile",
    Tile "crates/backend-ascend/tests/tile/good/tasks.tile",
    Yaml "specs/topologies/ascend_a2.yaml",
    Yaml "specs/topologies/kernbench.yaml",
    Yaml "specs/topologies/hybrid_cube_mesh.yaml",
    Yaml "specs/kernbench/ccl.yaml",
    Yaml "specs/topologies/analytical.yaml",
    Yaml "specs/sweeps/latency.yaml",
    Yaml "specs/reference/analytical.yaml",
    Yaml "docs/repro.yaml",
    Xml "tests/msccl/right/allgather_ring_8_2_1.xml",
    Json "specs/torch/mlp_dp2xtp2/rank0.groups.json",
    Printed "specs/torch/mlp_dp2xtp2/rank0.lowered.readable.py",
    Archive "specs/torch/mlp_archive/rank0.pt2",
    Npz "specs/torch/bf16_tp2/rank0.npz",
}

/// Shapes of machines with settings.
const SHAPES: [&str; 7] = [
    "ring(4) { link: 50 GB/s, 500 ns }",
    "torus(2, 3) { link: 50 GB/s, 500 ns; forward: drain }",
    "graph(3, 1) { link (0)<->(1): 1 GB/s, 2 us; link (1)->(3): 5 GB/s, 1 us; link (3)->(2): 5 GB/s, 1 us }",
    "package(ring(6), mesh(4, 4), 8)",
    "tree(2, 3) { link: 1 GB/s, 1 ns }",
    "hierarchy(full(2), ring(4)) { link x: 5 GB/s, 1 us }",
    "torus(2, 3) { wrap2: 2; route: (0,0)->(1,0) -x->(1,1), (0,0)<->(0,1); failed: (1,2) }",
];

/// A file as a crash leaves it.
const CRASH: &str = "// kbc: check 'my files/a.kb' -D p=3\n// kbc 0.1.0: kbc check\n// kbc: file 'my files/a.kb'\nuse \"b.kb\"\n\
                     // kbc: file b.kb without a line end\nparam a = 1\n";

/// Returns the built-in examples of every reader.
pub fn built_in() -> Vec<Example> {
    let mut out: Vec<Example> = FILES
        .iter()
        .map(|(reader, name, bytes)| Example {
            reader: *reader,
            name: (*name).to_owned(),
            bytes: bytes.to_vec(),
        })
        .collect();
    let mut add = |reader, name: &str, bytes: Vec<u8>| {
        out.push(Example { reader, name: name.to_owned(), bytes });
    };
    for shape in SHAPES {
        add(Reader::Shape, "a shape", shape.as_bytes().to_vec());
    }
    add(Reader::Replay, "a crash", CRASH.as_bytes().to_vec());
    let tensors = [
        ("x", Tensor::new(vec![2, 3], Data::F32(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))),
        ("ids", Tensor::new(vec![4], Data::I64(vec![1, 2, 3, 4]))),
    ];
    let tensors: Vec<(String, Tensor)> =
        tensors.into_iter().filter_map(|(name, t)| Some((name.to_owned(), t?))).collect();
    let made = [
        (Reader::Npy, tensors.first().map(|t| write_npy(&t.1))),
        (Reader::Npz, Some(write_npz(&tensors))),
        (Reader::Safetensors, Some(write_safetensors(&tensors))),
    ];
    for (reader, bytes) in made {
        if let Some(Ok(bytes)) = bytes {
            add(reader, "arrays", bytes);
        }
    }
    out
}
