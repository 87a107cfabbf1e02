//! Tests of emitted matmuls: blocks, panels and slices under the memory model of the stand-in
//! headers, within the reference evaluator's bounds, and how much they load.

use crate::common::{Scratch, root};
use crate::emitting as emitted;
use crate::needs::{Need, found};
use crate::standin;

use emitted::Case;
use kbc_backend_ascend::profile::{Profile, find};
use kbc_ir::expr::{BinOp, Expr};
use kbc_tiles::device::Limits;
use kbc_tiles::tile::text::print;
use kbc_tiles::tile::trace::{Launch, Loops, TraceEvent, trace};
use kbc_tiles::tile::verify::one_writer;
use kbc_tiles::tile::{Core, Kernel, Op, Space, tasks, visit};
use standin::{Outputs, Run};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

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

/// Without any flag of a matmul, the model finds a race or a flag that is not set: on two cube
/// cores with several blocks each.
#[test]
fn every_flag_of_a_matmul_is_needed() {
    let text = matmul(2, "f32", "20, 310", "310, 1100", "20, 1100");
    let mut case = Case::for_target(&text, cubes(2)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(cube_cores(&case.kernel), [2]);
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

/// What the cube tasks of a kernel do on rank 0, on all cores together.
#[derive(PartialEq, Eq, Debug)]
struct CubeCounts {
    /// Tasks, and blocks of all of them.
    tasks: [u32; 2],
    loads: u64,
    kilobytes: u64,
    moves: u64,
    products: u64,
    /// Products of the core that has the most in each task.
    busiest: u64,
    stores: u64,
    waits: u64,
}

fn counts(kernel: &Kernel, nranks: i64) -> CubeCounts {
    let mut out = CubeCounts {
        tasks: [0, 0],
        loads: 0,
        kilobytes: 0,
        moves: 0,
        products: 0,
        busiest: 0,
        stores: 0,
        waits: 0,
    };
    let mut bytes = 0;
    for task in tasks::split(kernel).iter().filter(|t| t.kernel.core == Core::Matrix) {
        let traces: Vec<Vec<TraceEvent>> = (0..task.kernel.cores)
            .map(|core| {
                let launch = Launch { nranks, rank: 0, core: core.into(), call: 0, scalars: BTreeMap::new() };
                trace(&task.kernel, &launch, Loops::Unrolled, 1 << 20).expect("a trace")
            })
            .collect();
        let products =
            |t: &Vec<TraceEvent>| t.iter().filter(|e| matches!(e, TraceEvent::Matmul { .. })).count();
        out.tasks = [out.tasks[0] + 1, out.tasks[1] + task.kernel.cores];
        out.busiest += traces.iter().map(products).max().unwrap_or(0) as u64;
        for e in traces.into_iter().flatten() {
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
pub const LLAMA: &str = "param tp = 4
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

/// The counts of docs/adr/101-cube-cores.md. On one cube core there were 24, 57 and 68 loads of
/// 1333, 2084 and 3844 kB, and 152, 357 and 560 waits (docs/adr/092-panels.md). With blocks of 64 x
/// 64 x 64 and one copy there were 144, 252 and 1212 loads of 1640, 2554 and 8704 kB, and 312, 564
/// and 2656 waits.
#[test]
fn matmuls_load_panels_once() {
    let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("specs");
    let of = |name: &str| Case::of_file(&specs.join(name)).unwrap_or_else(|e| panic!("{e}")).kernel.clone();
    let all = [of("ffn_tp.kb"), of("encoder.kb"), emitted(LLAMA).kernel.clone()].map(|k| counts(&k, 4));
    let expected = [
        ([2, 4], 24, 1333, 96, [48, 24], 4, 164),
        ([8, 15], 58, 2093, 192, [96, 65], 15, 399),
        ([9, 28], 92, 4669, 312, [156, 52], 28, 674),
    ];
    let expected = expected.map(|(tasks, loads, kilobytes, moves, [products, busiest], stores, waits)| {
        CubeCounts { tasks, loads, kilobytes, moves, products, busiest, stores, waits }
    });
    assert_eq!(all, expected);
}

/// A target with this many cube cores per rank.
fn cubes(n: u32) -> &'static Profile {
    let profile = find("a2a3").expect("a profile").clone();
    let limits = Limits { matrix_cores: n, ..profile.limits.clone() };
    // Targets live as long as the process.
    Box::leak(Box::new(Profile { limits, ..profile }))
}

/// Returns the cube cores of each cube task of a kernel.
fn cube_cores(kernel: &Kernel) -> Vec<u32> {
    let cube = |t: &tasks::Task| t.kernel.core == Core::Matrix;
    tasks::split(kernel).iter().filter(|t| cube(t)).map(|t| t.kernel.cores).collect()
}

/// Returns a program of one matmul of `a` and `b`, whose result is `c`.
fn matmul(p: u64, ty: &str, a: &str, b: &str, c: &str) -> String {
    head(p) + &format!("program case(x: {ty}[{a}], w: {ty}[{b}]) -> {ty}[{c}] {{ matmul(x, w) }}\n")
}

/// Matmuls on several cube cores: divided by rows, by columns, by both and by the matrices of a
/// batch; with parts of unequal sizes, fewer blocks than cores, more blocks than cores, and parts
/// that follow from the rank. Results are within the evaluator's bounds, and bit for bit those of
/// one cube core.
#[test]
fn several_cube_cores() {
    for (p, ty, [a, b, c], cores) in [
        (2, "f32", ["300, 70", "70, 33", "300, 33"], 3),
        (2, "f16", ["37, 90", "90, 1100", "37, 1100"], 5),
        (2, "bf16", ["270, 300", "300, 530", "270, 530"], 9),
        (4, "f32", ["520@tp, 40", "40, 600", "520@tp, 600"], 6),
        (4, "f16", ["131, 33", "33, 1030@tp", "131, 1030@tp"], 4),
        (2, "f32", ["5, 20, 33", "5, 33, 40", "5, 20, 40"], 5),
        (2, "f16", ["2, 3, 140, 20", "2, 3, 20, 270", "2, 3, 140, 270"], 24),
        (2, "f16", ["700, 20", "20, 1300", "700, 1300"], 24),
        (2, "f32", ["128, 300", "300, 256", "128, 256"], 1),
    ] {
        let text = matmul(p, ty, a, b, c);
        let mut many = emitted(&text);
        assert_eq!(cube_cores(&many.kernel), [cores], "{text}{}", many.text);
        let orchestration = many.source().orchestration.expect("tasks").text.to_owned();
        let blocks = format!(".launch_spec, {cores}, 0);");
        assert_eq!(orchestration.contains(&blocks), cores > 1, "{orchestration}");
        assert!(!orchestration.contains("set_require_sync_start"), "{orchestration}");
        let mut one = Case::for_target(&text, cubes(1)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(cube_cores(&one.kernel), [1]);
        let (Some((sized, got)), Some((_, alone))) = (many.outputs(p, 0, 2), one.outputs(p, 0, 2)) else {
            return;
        };
        many.same(&sized, &got).unwrap_or_else(|e| panic!("{e}\n{}", many.text));
        // All but the status, which has a line for each core.
        let results = |all: &Outputs| -> Vec<Vec<u8>> {
            all.iter().flatten().flat_map(|r| r[..r.len() - 1].to_vec()).collect()
        };
        assert!(results(&got) == results(&alone), "{text}");
    }
}

/// The runtimes have two names for the number of blocks of a task. An orchestration compiles with
/// either.
#[test]
fn the_number_of_blocks_has_two_names() {
    let Some(compiler) = found(Need::Cxx) else { return };
    let many = emitted(&matmul(2, "f32", "300, 70", "70, 33", "300, 33"));
    let text = many.source().orchestration.expect("tasks").text.to_owned();
    let dir = Scratch::new();
    let headers = root().join("tests/ascend/standin");
    let compiled = |text: &str, more: &[&str]| {
        dir.write("orchestration.cpp", text.as_bytes());
        let ran = Command::new(&compiler)
            .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
            .arg(&headers)
            .args(more)
            .arg(dir.path().join("orchestration.cpp"))
            .output()
            .expect("the compiler starts");
        if ran.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&ran.stderr).into_owned()) }
    };
    let a5 = &["-DSTANDIN_A5"][..];
    assert_eq!((compiled(&text, &[]), compiled(&text, a5)), (Ok(()), Ok(())));
    let direct = text.replace("SetBlocks(t0.launch_spec, 3, 0);", "t0.launch_spec.set_block_num(3);");
    assert!(direct != text, "{text}");
    assert_eq!(compiled(&direct, &[]), Ok(()));
    assert!(compiled(&direct, a5).is_err_and(|e| e.contains("set_block_num")));
}

/// Every element is the sum of the same slices in the same order, whatever the number of cores.
#[test]
fn cube_cores_add_up_in_the_same_order() {
    let text = matmul(2, "f16", "290, 700", "700, 600", "290, 600");
    // The terms of each product that is added to an element, in order.
    let sums = |kernel: &Kernel| {
        let mut out: BTreeMap<i64, Vec<(bool, i64)>> = BTreeMap::new();
        for task in tasks::split(kernel).iter().filter(|t| t.kernel.core == Core::Matrix) {
            for core in 0..task.kernel.cores {
                let launch =
                    Launch { nranks: 2, rank: 0, core: core.into(), call: 0, scalars: BTreeMap::new() };
                let mut products = vec![];
                for e in trace(&task.kernel, &launch, Loops::Unrolled, 1 << 20).expect("a trace") {
                    match e {
                        TraceEvent::Matmul { size, add, .. } => products.push((add, size[2])),
                        TraceEvent::StoreBlock { to, pitch, size: [rows, cols], .. } => {
                            for row in 0..rows {
                                for at in to.offset + row * pitch..to.offset + row * pitch + cols {
                                    assert!(
                                        out.insert(at, products.clone()).is_none(),
                                        "two writers of {at}"
                                    );
                                }
                            }
                            products.clear();
                        }
                        _ => {}
                    }
                }
            }
        }
        out
    };
    let all = [1, 2, 5, 24].map(|n| {
        let case = Case::for_target(&text, cubes(n)).unwrap_or_else(|e| panic!("{e}"));
        (cube_cores(&case.kernel), sums(&case.kernel))
    });
    assert_eq!(all.each_ref().map(|a| a.0[0]), [1, 2, 4, 9]);
    assert_eq!(all[0].1.len(), 290 * 600);
    assert!(all.iter().all(|a| a.1 == all[0].1));
}

/// Matmuls on several cube cores beside vector work and a collective on several vector cores: what
/// follows a matmul waits for all of its cores, on two and on four ranks.
#[test]
fn cube_cores_in_a_layer() {
    for p in [2, 4] {
        let body = "let y = all_reduce(matmul(x, w), sum, over: tp, using: ring with (cores: 2));
                    let z = matmul(relu(y + b), u);
                    matmul(softmax(z, dim: 1), v)";
        let inputs = "x: f32[150, 24@tp], w: f32[24@tp, 300], b: f32[300], u: f32[300, 40], v: f32[40, 270]";
        let text = head(p) + &format!("program case({inputs}) -> f32[150, 270] {{ {body} }}\n");
        let mut case = emitted(&text);
        assert_eq!(cube_cores(&case.kernel), [4, 2, 4], "{}", case.text);
        assert_eq!(case.kernel.cores, 2);
        case.check_own(2);
    }
    // Matmuls that one core computes share a task; one for several cores has its own.
    let body = "let a = matmul(x, w); let b = matmul(a, v); let c = matmul(a, u); (b, c, matmul(b, s))";
    let inputs = "x: f32[20, 30], w: f32[30, 40], v: f32[40, 600], u: f32[40, 50], s: f32[600, 10]";
    let text = head(2)
        + &format!("program case({inputs}) -> (f32[20, 600], f32[20, 50], f32[20, 10]) {{ {body} }}\n");
    let mut case = emitted(&text);
    assert_eq!(cube_cores(&case.kernel), [1, 3, 1], "{}", case.text);
    case.check_own(2);
}

/// One kernel serves any number of rows, divided as at the program's own size.
#[test]
fn cube_cores_of_many_sizes() {
    let text = head(2)
        + "param n = 300\nprogram case(x: f32[n, 40], w: f32[40, 300]) -> f32[n, 300] { matmul(x, w) }\n";
    let mut case = emitted(&text);
    assert!(case.counts(), "{}", case.text);
    assert_eq!(cube_cores(&case.kernel), [6]);
    case.check(&[0, 1, 16, 17, 100, 300, 1009].map(|n| (2, n)), 1);
}

/// Runs of rows of a grouped matmul are divided too.
#[test]
fn cube_cores_of_groups() {
    let text = head(2)
        + "program case(x: f32[150, 70], w: f32[3, 70, 300]) -> f32[150, 300] {
               grouped_matmul(x, w, counts: [70, 0, 80])
           }\n";
    let mut case = emitted(&text);
    assert_eq!(cube_cores(&case.kernel), [4], "{}", case.text);
    case.check_own(2);
}

/// Two cores that write the same block: the verifier finds it for the sizes of a package, and the
/// model finds the race.
#[test]
fn cube_cores_have_blocks_of_their_own() {
    let text = matmul(2, "f32", "300, 70", "70, 33", "300, 33");
    let mut case = emitted(&text);
    let mut kernel = case.kernel.clone();
    assert!(one_writer(&kernel, 2, 0).is_ok());
    // The end of each part, a box later.
    let mut changed = 0;
    visit::each_in(&mut kernel.body, &mut |e| {
        if let Expr::Bin(BinOp::Sub, end, first) = e
            && let (Expr::Var(end), Expr::Var(_)) = (&**end, &**first)
            && end.as_str() == "end_row"
        {
            *e = e.clone() + Expr::Int(16);
            changed += 1;
        }
    });
    assert_eq!(changed, 1, "{}", print(&kernel));
    let found = one_writer(&kernel, 2, 0).expect_err("two writers");
    assert!(
        found.code == "E452" && found.title.starts_with("cores 0 and 1 write the same elements of %"),
        "{found:?}"
    );
    let [printed] = &case.sources[..] else { panic!("one task") };
    let wrong = printed.text.replace("end_row - first_row", "end_row - first_row + 16");
    assert_ne!(wrong, printed.text);
    let job = case.at(2, 0, 1).job;
    let mut source = case.source();
    source.kernels[0].text = &wrong;
    let Some(program) = case.program_of(&source) else { return };
    let why = program.run_one(&job).expect_err("a race");
    assert!(why.contains("TSTORE") && why.contains("core"), "{why}");
}
