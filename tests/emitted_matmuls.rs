//! Tests of emitted matmuls: blocks, panels and slices under the memory model of the stand-in
//! headers, within the reference evaluator's bounds, and how much they load.

use crate::emitting as emitted;
use crate::standin;

use emitted::Case;
use kbc_tiles::tile::trace::{Launch, Loops, TraceEvent, trace};
use kbc_tiles::tile::{Core, Kernel, Op, Space, tasks};
use std::collections::BTreeMap;
use std::path::Path;

fn head(p: u64) -> String {
    format!("param tp = {p}\ntopology sys = full(tp) {{ link: 50 GB/s, 500 ns }}\nmesh m = sys[tp]\n")
}

fn emitted(text: &str) -> Case {
    Case::new(text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Sizes at which operands stay in the stage, are loaded again, or have one column of blocks; with
/// several blocks of rows and columns, several panels, and parts of each.
#[test]
fn panels() {
    for (ty, [m, k, n]) in [
        ("f16", [140, 600, 520]),
        ("f16", [130, 300, 270]),
        ("bf16", [270, 290, 40]),
        ("f32", [130, 250, 300]),
        ("f32", [20, 310, 300]),
        ("f32", [5, 7, 3]),
    ] {
        let text = head(2)
            + &format!(
                "program case(x: {ty}[{m}, {k}], w: {ty}[{k}, {n}]) -> {ty}[{m}, {n}] {{ matmul(x, w) }}\n"
            );
        emitted(&text).check_own(2);
    }
    // Two element types in one task share the memories, each with panels of its own.
    let text = head(2)
        + "program case(x: f16[40, 200], w: f16[200, 300], y: f32[40, 200], v: f32[200, 90]) -> (f16[40, 300], f32[40, 90]) {
               (matmul(x, w), matmul(y, v))
           }\n";
    let mut case = emitted(&text);
    assert!(case.kernel.tiles.iter().all(|t| t.space == Space::Sums || t.copies == 2), "{}", case.text);
    case.check_own(2);
    // Three leave no room for events of their own.
    let text = head(2)
        + "program case(x: f16[40, 100], y: bf16[40, 100], z: f32[40, 100], w: f16[100, 30], v: bf16[100, 30], u: f32[100, 30])
               -> (f16[40, 30], bf16[40, 30], f32[40, 30]) {
               (matmul(x, w), matmul(y, v), matmul(z, u))
           }\n";
    let mut case = emitted(&text);
    assert!(case.kernel.tiles.iter().all(|t| t.copies == 1), "{}", case.text);
    case.check_own(2);
}

/// Without any flag of a matmul, the model finds a race or a flag that is not set.
#[test]
fn every_flag_of_a_matmul_is_needed() {
    let text = head(2) + "program case(x: f32[20, 310], w: f32[310, 600]) -> f32[20, 600] { matmul(x, w) }\n";
    let mut case = emitted(&text);
    let job = case.at(2, 0, 2).job;
    let [printed] = &case.sources[..] else { panic!("one task") };
    let guarded = standin::guarded(&printed.text);
    let lines = standin::deletable(&printed.text);
    assert!(lines.len() >= 24, "{lines:?}");
    let mut source = case.source();
    source.kernels[0].text = &guarded;
    let Some(program) = case.program_of(&source) else { return };
    let spare = standin::redundant(&program, &printed.text, &[job]);
    assert!(spare.is_empty(), "not needed: {spare:?}\n{}", printed.text);
}

/// What the cube tasks of a kernel do on rank 0.
#[derive(PartialEq, Eq, Debug)]
struct CubeCounts {
    loads: u64,
    kilobytes: u64,
    moves: u64,
    products: u64,
    stores: u64,
    waits: u64,
}

fn counts(kernel: &Kernel, nranks: i64) -> CubeCounts {
    let mut out = CubeCounts { loads: 0, kilobytes: 0, moves: 0, products: 0, stores: 0, waits: 0 };
    let mut bytes = 0;
    for task in tasks::split(kernel).iter().filter(|t| t.kernel.core == Core::Matrix) {
        let launch = Launch { nranks, rank: 0, core: 0, call: 0, scalars: BTreeMap::new() };
        let events = trace(&task.kernel, &launch, Loops::Unrolled, 1 << 20).expect("a trace");
        for e in events {
            match e {
                TraceEvent::LoadBlock { tile, size: [rows, cols], .. } => {
                    out.loads += 1;
                    bytes += (rows * cols) as u64 * kernel.tile(tile).dtype.bytes();
                }
                TraceEvent::Move { .. } => out.moves += 1,
                TraceEvent::Matmul { .. } => out.products += 1,
                TraceEvent::StoreBlock { .. } => out.stores += 1,
                TraceEvent::Order(Op::WaitFlag { .. }) => out.waits += 1,
                TraceEvent::Order(Op::Barrier(_)) => panic!("a barrier in a cube task"),
                _ => {}
            }
        }
    }
    out.kilobytes = bytes / 1000;
    out
}

/// A layer with rotations, grouped queries and a gated feed-forward part, in bf16.
const LLAMA: &str = "param tp = 4
topology sys = full(tp) { link: 50 GB/s, 500 ns; device: 100 TFLOP/s, 1.6 TB/s }
mesh m = sys[tp]
program block(x: bf16[160, 512], g1: bf16[512], wq: bf16[512, 512@tp], wk: bf16[512, 256@tp],
              wv: bf16[512, 256@tp], wo: bf16[512@tp, 512], cos: bf16[160, 32], sin: bf16[160, 32],
              g2: bf16[512], w1: bf16[512, 1408@tp], w3: bf16[512, 1408@tp], w2: bf16[1408@tp, 512])
    -> bf16[160, 512] {
    let h = rms_norm(x, g1)
    let q = rope(split_heads(matmul(h, wq), heads: 8), cos, sin)
    let k = rope(split_heads(matmul(h, wk), heads: 4), cos, sin)
    let v = split_heads(matmul(h, wv), heads: 4)
    let a = attention(reshape(q, [4, 320, 64]), k, v)
    let o = x + matmul(merge_heads(reshape(a, [8, 160, 64])), wo)
    let n = rms_norm(o, g2)
    o + matmul(silu(matmul(n, w1)) * matmul(n, w3), w2)
}
";

/// The counts of docs/adr/092-panels.md. With blocks of 64 x 64 x 64 and one copy, there were 144,
/// 252 and 1212 loads of 1640, 2554 and 8704 kB, and 312, 564 and 2656 waits.
#[test]
fn matmuls_load_panels_once() {
    let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("specs");
    let of = |name: &str| Case::of_file(&specs.join(name)).unwrap_or_else(|e| panic!("{e}")).kernel.clone();
    let all = [of("ffn_tp.kb"), of("encoder.kb"), emitted(LLAMA).kernel.clone()].map(|k| counts(&k, 4));
    let expected = [
        CubeCounts { loads: 24, kilobytes: 1333, moves: 96, products: 48, stores: 4, waits: 152 },
        CubeCounts { loads: 57, kilobytes: 2084, moves: 192, products: 96, stores: 15, waits: 357 },
        CubeCounts { loads: 68, kilobytes: 3844, moves: 312, products: 156, stores: 28, waits: 560 },
    ];
    assert_eq!(all, expected);
}
