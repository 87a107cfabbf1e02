//! Tests of emitted kernels under the memory model of the stand-in headers: against the simulator
//! bit for bit, or against the reference evaluator's bounds where the core chooses the order of
//! sums.

use crate::common;
use crate::emitting as emitted;
use crate::standin;

use emitted::Case;
use kbc_ir::scalar::ScalarUn;
use kbc_tiles::lower::chain::Bound;
use kbc_tiles::tile::{Area, Reach};
use standin::Run;

/// Returns a program of one collective on `p` ranks; `ty` is an element type such as f32.
fn program(ty: &str, p: u64, signature: &str, body: &str) -> String {
    head(p) + &format!("program case{} {{ {body} }}\n", signature.replace("TY", ty))
}

fn head(p: u64) -> String {
    format!(
        "param tp = {p}\nparam n = 100\ntopology sys = full(tp) {{ link: 50 GB/s, 500 ns }}\nmesh m = sys[tp]\n"
    )
}

/// Returns the sizes of a sweep: nothing, one element, fewer elements than ranks, tails; several
/// tiles once.
fn sizes(ranks: &[u64]) -> Vec<(u64, u64)> {
    let small = ranks.iter().flat_map(|p| [0, 1, p - 1, p + 1, 7 * p + 3].map(|n| (*p, n)));
    small.chain([(ranks[ranks.len() / 2], 4 * 4096 + 5)]).collect()
}

fn emitted(text: &str) -> Case {
    Case::new(text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Tests every algorithm of a collective, in f32, on these rank counts.
fn sweep(signature: &str, body: &str, algorithms: &[&str], ranks: &[u64]) {
    for name in algorithms {
        let text = program("f32", ranks[ranks.len() / 2], signature, &body.replace("ALG", name));
        emitted(&text).check(&sizes(ranks), 3);
    }
}

/// Tests several algorithms of a collective in one kernel, with one result each. `signature` lacks
/// the result type `ty`.
fn together(signature: &str, ty: &str, body: &str, algorithms: &[&str], ranks: &[u64]) {
    let lets: String = algorithms
        .iter()
        .map(|name| format!("let by_{name}: {ty} = {};\n", body.replace("ALG", name)))
        .collect();
    let results: Vec<String> = algorithms.iter().map(|name| format!("by_{name}")).collect();
    let types = vec![ty; algorithms.len()].join(", ");
    let body = format!("{lets}({})", results.join(", "));
    let text = program(
        "f32",
        ranks[ranks.len() / 2],
        &format!("{signature} -> ({types})"),
        &body.replace("TY", "f32"),
    );
    emitted(&text).check(&sizes(ranks), 3);
}

const REDUCED: &str = "(x: TY[n] partial(sum@tp)) -> TY[n]";
const ANY: [u64; 4] = [2, 3, 4, 8];
const POWERS: [u64; 3] = [2, 4, 8];

#[test]
fn all_reduce() {
    let body = "all_reduce(x, sum, over: tp, using: ALG)";
    sweep(REDUCED, body, &["one_phase", "two_phase", "ring", "bidirectional_ring"], &ANY);
    sweep(REDUCED, body, &["line", "up_down"], &[3, 4, 8]);
    sweep(REDUCED, body, &["halving_doubling"], &POWERS);
    // Ranks beyond a power of two, and two ranks, give separate kernels.
    sweep(REDUCED, body, &["halving_doubling"], &[5, 6, 7]);
    sweep(REDUCED, body, &["up_down"], &[2]);
}

/// Algorithms of two axes: coordinates are digits of the rank.
#[test]
fn grids() {
    for (shape, algorithm) in [("torus(2,3)", "torus2"), ("mesh(3,3)", "mesh2")] {
        let body = format!("all_reduce(x, sum, over: tp, using: {algorithm})");
        let text = program("f32", 1, REDUCED, &body).replace("param tp = 1\n", "").replace("full(tp)", shape);
        let mut case = emitted(&text);
        let ranks = case.ranks();
        case.check(&sizes(&ranks), 3);
    }
}

/// Several cores of a rank, each with its lane: equal lanes, lanes of different lengths, and a
/// branch per lane if they differ in more than numbers.
#[test]
fn several_cores() {
    let reduced = "all_reduce(x, sum, over: tp, using: ALG)";
    let cores = ["two_phase with (cores: 3)", "ring with (cores: 2)", "one_phase with (cores: 4)"];
    sweep(REDUCED, reduced, &cores, &[2, 3, 4]);
    sweep(REDUCED, reduced, &["bidirectional_ring with (cores: 2)"], &[3, 4]);
    let gathered = "all_gather(x, dim: 0, over: tp, using: ALG)";
    sweep("(x: TY[n@tp]) -> TY[n]", gathered, &["ring with (cores: 3)"], &[2, 3, 4]);
    let scattered = "reduce_scatter(x, sum, dim: 0, over: tp, using: ALG)";
    sweep("(x: TY[n] partial(sum@tp)) -> TY[n@tp]", scattered, &["direct with (cores: 2)"], &[3, 4]);
    let moved = "all_to_all(x, from: 0, to: 1, over: tp, using: ALG)";
    sweep("(x: TY[20@tp, n]) -> TY[20, n@tp]", moved, &["pairwise with (cores: 2)"], &[4]);
    sweep(
        "(x: TY[n] only(0@tp)) -> TY[n]",
        "broadcast(x, over: tp, using: ALG)",
        &["binomial with (cores: 2)"],
        &[3, 4],
    );
    // With elementwise work around it, one collective on one core, and another type.
    let body = "let a = all_reduce(x * 2.0, sum, over: tp, using: ring with (cores: 3)); \
                let b = all_reduce(y, max, over: tp, using: two_phase); relu(b) + a";
    let inputs = "x: f16[n] partial(sum@tp), y: f16[n] partial(max@tp)";
    let text = head(3) + &format!("program case({inputs}) -> f16[n] {{ {body} }}\n");
    emitted(&text).check(&sizes(&[3]), 3);
}

/// Tasks for vector cores are blocks, tasks for cube cores one core each. The first core does the
/// rows, and the others wait for it.
#[test]
fn several_cores_in_tasks() {
    let body = "let y = all_reduce(matmul(x, w), sum, over: tp, using: ring with (cores: 3)); matmul(softmax(relu(y + b), dim: 1), u)";
    let inputs = "x: f32[12, 16@tp], w: f32[16@tp, 40], b: f32[40], u: f32[40, 8]";
    let mut case = emitted(&(head(2) + &format!("program case({inputs}) -> f32[12, 8] {{ {body} }}\n")));
    let size = (case.ranks()[0], 0);
    case.check(&[size], 2);
}

/// Cut rules that agree at some counts are still distinct: rank counts where parts differ are not
/// claimed.
#[test]
fn rules_of_cuts_are_not_mixed_up() {
    let text = "param n = 41\ntopology sys = full(2)\nmesh m = sys[tp]\n\
                program case(x: f32[n@tp(cut: ceil), 1]) -> f32[1, n@tp(cut: ceil)] { transpose(x, [1, 0]) * 2.0 }\n";
    let mut case = emitted(text);
    let sizes: Vec<(u64, u64)> = case.ranks().into_iter().flat_map(|p| [(p, 97), (p, 2003)]).collect();
    case.check(&sizes, 2);
}

/// Groups along one axis of a mesh of two axes, then along the other.
#[test]
fn axes() {
    let text = "param n = 100\ntopology sys = full(6) { link: 50 GB/s, 500 ns }\nmesh m = sys[dp: 2, tp: 3]\n\
                program case(x: f32[n@dp] partial(sum@tp)) -> f32[n] { x }\n";
    emitted(text).check(&sizes(&[6]), 3);
}

#[test]
fn reduce_scatter() {
    let body = "reduce_scatter(x, sum, dim: 0, over: tp, using: ALG)";
    let signature = "(x: TY[n] partial(sum@tp)) -> TY[n@tp]";
    let parts = "(x: TY[n] partial(sum@tp))";
    together(parts, "TY[n@tp]", body, &["direct", "ring", "bidirectional_ring"], &ANY);
    sweep(signature, body, &["line"], &[3, 4, 8]);
    sweep(signature, body, &["halving"], &POWERS);
}

#[test]
fn all_gather() {
    let body = "all_gather(x, dim: 0, over: tp, using: ALG)";
    let signature = "(x: TY[n@tp]) -> TY[n]";
    together("(x: TY[n@tp])", "TY[n]", body, &["direct", "ring", "bidirectional_ring", "line"], &[3, 4, 8]);
    sweep(signature, body, &["ring"], &[2]);
    sweep(signature, body, &["doubling"], &POWERS);
}

#[test]
fn all_to_all() {
    let body = "all_to_all(x, from: 0, to: 1, over: tp, using: ALG)";
    sweep("(x: TY[20@tp, n]) -> TY[20, n@tp]", body, &["direct", "pairwise"], &ANY);
}

#[test]
fn broadcast() {
    let body = "broadcast(x, over: tp, using: ALG)";
    let signature = "(x: TY[n] only(1@tp)) -> TY[n]";
    sweep(signature, body, &["binomial"], &ANY);
    // With root 1, two ranks give separate kernels.
    let root = "(x: TY[n] only(1@tp))";
    together(root, "TY[n]", body, &["direct", "binary_tree", "line"], &[3, 4, 8]);
}

#[test]
fn types_and_combiners() {
    let all = [
        ("f32", "max"),
        ("f16", "sum"),
        ("f16", "min"),
        ("bf16", "sum"),
        ("bf16", "max"),
        ("i32", "sum"),
        ("i32", "min"),
        ("f32", "prod"),
    ];
    for (ty, combine) in all {
        let signature = REDUCED.replace("sum@tp", &format!("{combine}@tp"));
        let body = format!("all_reduce(x, {combine}, over: tp, using: two_phase)");
        emitted(&program(ty, 3, &signature, &body)).check(&sizes(&[3, 4]), 3);
    }
    // A type that can be moved but not reduced.
    let body = "all_gather(x, dim: 0, over: tp, using: ring)";
    emitted(&program("u8", 3, "(x: TY[n@tp]) -> TY[n]", body)).check(&sizes(&[3, 4]), 3);
}

/// A kernel of exact operations between two collectives, a bias of fewer dimensions, several
/// regions in one kernel.
const EXACT: &str = "
kernel f(a, b) = max(a + b, 0) * 0.5
kernel g(a, b) = select(a < b, abs(a) - b, a / 4)
program case(x: TY[12, n] partial(sum@tp), b: TY[n], r: TY[12, n]) -> TY[12, n] {
    let s = reduce_scatter(x, sum, dim: 0, over: tp, using: direct)
    let y: TY[12@tp, n] = f(s, b)
    g(all_gather(y, dim: 0, over: tp, using: ring), r)
}
";

#[test]
fn elementwise() {
    for ty in ["f32", "f16", "bf16"] {
        emitted(&(head(3) + &EXACT.replace("TY", ty)))
            .check(&[(2, 0), (2, 1), (3, 5), (3, 1000), (4, 37)], 2);
    }
}

/// Functions of a result are computed while it is in the core, so neither it nor intermediate
/// values are in memory. It is stored if another operation reads it, if its sums are not final, or
/// if cores divide it.
#[test]
fn computed_in_the_core() {
    let g = "kernel g(a, b) = select(a < b, abs(a) - b, a)\n";
    let cases = "f32 two_phase; bf16 two_phase; f16 two_phase with (transfer: pull); bf16 one_phase with (transfer: pull); f16 one_phase; \
                 f32 halving_doubling; f32 two_phase with (cores: 2)";
    for (ty, using) in cases.split("; ").filter_map(|c| c.split_once(' ')) {
        let body = "let y: TY[n] = g(all_reduce(x, sum, over: tp, using: ALG), b); y * r + b";
        let inputs = "x: TY[n] partial(sum@tp), b: TY[n], r: TY[n]";
        let text = head(2) + g + &format!("program case({inputs}) -> TY[n] {{ {body} }}\n");
        let mut case = emitted(&text.replace("TY", ty).replace("ALG", using));
        let own = |a: &Area| a.reach == Reach::Own;
        let fused = using.contains("phase") && !using.contains("cores");
        assert_eq!(!case.kernel.areas.iter().any(own), fused, "{using}: {}", case.text);
        case.check(&sizes(if fused { &[2, 3, 4] } else { &[2, 4] }), 3);
    }
    // Also a result of the program; squared, and added to a value computed after the collective.
    let reduced = "let s = all_reduce(x, sum, over: tp, using: two_phase); let t = all_reduce(b, max, over: tp, using: one_phase)";
    for (result, value) in [("(f32[n], f32[n])", "(s, relu(s) + t)"), ("f32[n]", "s * s + t")] {
        let inputs = "x: f32[n] partial(sum@tp), b: f32[n] partial(max@tp)";
        let text = head(3) + &format!("program case({inputs}) -> {result} {{ {reduced}; {value} }}\n");
        emitted(&text).check(&sizes(&[2, 3, 4]), 3);
    }
}

/// Jobs that together reach every line: a tail, several tiles, another launch on the same window.
/// Alternating tiles need an even number of tiles, another cut loaded after them, and neighbouring
/// chunks of one and two tiles.
fn every_line_is_needed(algorithm: &str) {
    let body = format!("all_reduce(x, sum, over: tp, using: {algorithm})");
    let mut case = emitted(&program("f32", 3, REDUCED, &body));
    let Some(program) = standin::compiled(&standin::guarded(&case.text), None) else { return };
    let sizes = [(3, 50), (4, 17000), (3, 8000), (3, 12289), (3, 24593)];
    let jobs: Vec<_> = sizes.map(|(p, n)| case.at(p, n, 3).job).into();
    let lines = standin::deletable(&case.text);
    assert!(lines.len() >= 10, "{lines:?}");
    let spare = standin::redundant(&program, &case.text, &jobs);
    let text: Vec<&str> = case.text.lines().collect();
    let line = |l: &usize| text[l - 1].trim();
    let named: Vec<Vec<String>> =
        spare.iter().map(|d| d.iter().map(|l| format!("{l}: {}", line(l))).collect()).collect();
    assert!(spare.is_empty(), "{algorithm}: not needed: {named:#?}\n{}", case.text);
}

#[test]
fn every_fence_flag_wait_and_notify_is_needed() {
    for algorithm in ["ring", "one_phase", "two_phase", "ring with (cores: 2)"] {
        every_line_is_needed(algorithm);
    }
}

/// Hand-written schedules: pulls, credits, roles that differ from rank to rank, several collectives
/// on one window.
#[test]
fn schedules_by_hand() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/ir/tests/kir/good");
    let mut refused = vec![];
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|f| f.expect("a file").path()).collect();
    files.sort();
    for path in files {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("text");
        match Case::of_schedule(&name, &text) {
            Ok(mut case) => {
                let ranks = case.ranks()[0];
                case.check(&[(ranks, 0)], 3);
            }
            Err(why) => refused.push(format!("{name}: {why}")),
        }
    }
    let words: Vec<&str> = refused.iter().map(|r| r.as_str()).collect();
    let expected = [
        "central_clearing.kir: E470 cannot emit a counter that is not an epoch counter",
        "central_sense.kir: E470 cannot emit a counter that is not an epoch counter",
        "combining_gets.kir: E470 cannot emit a get that combines",
        "dissemination_clearing.kir: E470 cannot emit a counter that is not an epoch counter",
        "dissemination_sense.kir: E470 cannot emit a counter that is not an epoch counter",
        "host_program.kir: E470 cannot emit a host section",
        "mesh2x3.kir: E470 cannot emit region @c0 with 2 streams",
    ];
    assert!(
        words.len() == expected.len() && words.iter().zip(expected).all(|(w, e)| w.starts_with(e)),
        "{words:#?}"
    );
}

/// A program of tasks: matmuls on cube cores, the rest on vector cores. With the published weights,
/// every element on every rank is within the reference evaluator's bound.
#[test]
fn feed_forward() {
    let spec = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("specs/ffn_tp.kb");
    for tp in ["tp=2", "tp=4"] {
        let mut case = Case::of_file_with(&spec, &[tp]).unwrap_or_else(|e| panic!("{e}"));
        let cores: Vec<&str> = case.sources.iter().map(|s| case.kernel.dialect.core(s.core)).collect();
        assert_eq!(cores, ["aic", "aiv", "aic", "aiv"]);
        case.check_own(3);
    }
}

/// A whole layer: attention, residuals, norms, feed-forward, two collectives.
#[test]
fn encoder_layer() {
    let spec = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("specs/encoder.kb");
    for tp in ["tp=2", "tp=4"] {
        let mut case = Case::of_file_with(&spec, &[tp]).unwrap_or_else(|e| panic!("{e}"));
        case.check_own(2);
    }
}

/// Every `INOUT` and every wait of a task for others is needed: without any one, tasks on the same
/// memory are unordered, or a task writes a read-only argument.
#[test]
fn every_dependence_is_needed() {
    // The second matmul reads `d`, the next copy overwrites it; the runtime cannot see that.
    let mut case = Case::of_schedule("tasks.kir", OVERWRITTEN).unwrap_or_else(|e| panic!("{e}"));
    let [text, ..] = case.target.orchestration(&case.kernel, &case.sources).expect("a program of tasks");
    assert_eq!(text.matches("add_dep(").count(), 1, "{text}");
    case.check(&[(2, 0)], 2);
    let sized = case.at(2, 0, 2);
    let mut left = 0;
    for (i, line) in text.lines().enumerate() {
        let status = line.contains("_status");
        let less = match () {
            () if line.contains("add_inout(") && !status => line.replace("add_inout(", "add_input("),
            () if line.contains("add_dep(") => line.replace("t3.add_dep(", "(void)("),
            () => continue,
        };
        left += 1;
        let lines = text.lines().enumerate().map(|(j, l)| if i == j { &less } else { l });
        let other: String = lines.map(|l| format!("{l}\n")).collect();
        let mut source = case.source();
        source.orchestration = source.orchestration.map(|o| standin::Orchestration { text: &other, ..o });
        let Some(program) = case.program_of(&source) else { return };
        let why = program.run_one(&sized.job).err().unwrap_or_else(|| panic!("not needed: {line}"));
        let unordered = why.contains("nothing orders their tasks");
        let read_only = line.contains("add_inout(") && why.contains("which is an input");
        assert!(unordered || read_only, "{line}: {why}");
    }
    assert_eq!(left, 4, "{text}");
}

const OVERWRITTEN: &str = "kir 1
module @overwritten
machine \"ring(2) { link: 50 GB/s, 500 ns }\"
mesh tp 2
props expanded allocated synchronized

schedule calls any
buffer %x : f32[20, 30] hbm input 0 : f32[20, 30]
buffer %w : f32[30, 30] hbm input 1 : f32[30, 30]
buffer %a : f32[20, 30] hbm temp
buffer %d : f32[20, 30] hbm temp
buffer %b : f32[20, 30] hbm output 0 : f32[20, 30]
buffer %c : f32[20, 30] hbm output 1 : f32[20, 30]

region @local local
  role all
    stream main
      matmul %a = %x, %w
      copy %d = %a
      matmul %b = %d, %w
      copy %d = %x
      matmul %c = %d, %w
";

/// Constants, indices along a dimension in parts, and padding.
#[test]
fn fills() {
    let text = head(3)
        + "program case(x: f32[7@tp, 5], y: bf16[4, 6@tp], z: i32[6@tp, 4]) -> (f32[12, 5], f32[7, 5], bf16[4, 6], i32[6, 4]) {
               (pad(x, dim: 0, before: 2, after: 3, value: 0.5),
                x * iota([7, 5], dim: 0, type: f32) + iota([5], type: f32),
                y * full([4, 6], 0.3, type: bf16) + iota([6], type: bf16),
                z + iota([6, 4], dim: 0, type: i32))
           }\n";
    emitted(&text).check_own(2);
}

/// Element types of matmuls: sums are rounded once, when they are stored.
#[test]
fn products_of_narrow_types() {
    for ty in ["f16", "bf16"] {
        let text = head(2)
            + &format!(
                "program case(x: {ty}[33, 70], w: {ty}[70, 40@tp], v: {ty}[40@tp, 20]) -> {ty}[33, 20] {{
                    softmax(matmul(relu(matmul(x, w)), v))
                }}\n"
            );
        emitted(&text).check_own(2);
    }
}

/// Rows, columns and terms of a matmul: one, fewer than a box, a block, one more, several blocks
/// with tails; parts of any size.
#[test]
fn products() {
    for (m, k, n) in [(1, 2, 2), (3, 7, 5), (64, 64, 64), (65, 130, 67), (130, 65, 200)] {
        let text = head(2)
            + &format!(
                "program case(x: f32[{m}, {k}], w: f32[{k}, {n}@tp], v: f32[{n}@tp, {m}]) -> (f32[{m}, {n}], f32[{m}, {m}]) {{
                    let y = matmul(x, w);
                    (y, matmul(y, v))
                }}\n"
            );
        emitted(&text).check_own(2);
    }
}

/// Every program of `specs`.
#[test]
fn specs() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("specs");
    let (mut ran, mut refused) = (vec![], vec![]);
    for file in std::fs::read_dir(folder).expect("a folder").map(|f| f.expect("a file").path()) {
        if file.extension().is_none_or(|e| e != "kb") {
            continue;
        }
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).expect("a program");
        let sizes = common::free_sizes(&format!("specs/{name}"), &text);
        let sizes: Vec<&str> = sizes.into_iter().filter(|w| *w != "-D").collect();
        match Case::of_file_with(&file, &sizes) {
            Ok(mut case) => case.check_own(3),
            // A host program is not a kernel: the runtime does what a host does between launches.
            // Nor does a kernel let switches add.
            Err(why)
                if ["a host section", "a get that combines"]
                    .iter()
                    .any(|what| why.contains(&format!("E470 cannot emit {what}"))) =>
            {
                refused.push(name.clone());
            }
            Err(why) => panic!("{name}: {why}"),
        }
        ran.push(name);
    }
    assert!(ran.len() >= 21, "{ran:?}");
    refused.sort();
    assert_eq!(refused, ["host_loop.kb", "in_network.kb"], "others are emitted");
}

/// Parts without elements, where sizes of lines are no quotient; results without elements, which
/// are never written.
#[test]
fn nothing_to_do() {
    let grid = "topology sys = torus(4, 2)\nmesh m = sys[x, y]\n";
    emitted(&format!("{grid}program case(a: f32[3@x, 7@y]) -> f32[3, 7] {{ a }}\n")).check_own(2);
    emitted(&format!(
        "{grid}program case(a: bf16[5, 22, 3] partial(min@x) only(0@y)) -> bf16[5, 22, 3] {{
             reduce_scatter(a, min, dim: 2, over: x, using: nhr)
         }}\n"
    ))
    .check_own(2);
    let text = head(3)
        + "program case(x: f16[1, 0] only(0@tp), y: f32[4@tp]) -> (f16[1, 0], f32[4]) {
               (scatter(x, dim: 0, from: 0, over: tp, using: direct), y)
           }\n";
    emitted(&text).check_own(2);
}

/// Largest, smallest and product of nothing on ranks without elements change nothing: rows, and
/// dimensions before the last one.
#[test]
fn reductions_of_nothing() {
    let text = head(4)
        + "program case(x: f32[n@tp], y: f16[n@tp, 3], z: i32[n@tp, 3]) -> (f32, f32, f16[3], i32[3], f32) {
               (max(x, dim: 0), min(x, dim: 0), max(y, dim: 0), min(z, dim: 0), sum(x, dim: 0))
           }\n";
    emitted(&text).check(&[(4, 1), (4, 3), (4, 9)], 2);
}

/// Tasks have no size argument that their addresses do not need, and no more arguments than the
/// runtime passes.
#[test]
fn arguments_of_tasks() {
    let text = head(2)
        + "program case(x: f32[8, n@tp], a: bf16[3@tp], b: bf16[19, 3@tp(cut: ceil)], c: bf16[3, 8@tp]) -> (bf16[19], bf16[3], f32[8, n]) {
               (sum(matmul(b, c), dim: 1), a, x)
           }\n";
    emitted(&text).check_own(2);
    let inputs: Vec<String> = (0..36).map(|i| format!("i{i}: f32[4]")).collect();
    let sum: Vec<String> = (0..36).map(|i| format!("i{i} * {i}.5")).collect();
    let text = head(2)
        + &format!(
            "program case(x: f32[4, 4], {}) -> f32[4, 4] {{ let s: f32[4] = {}; matmul(x, x) + s }}\n",
            inputs.join(", "),
            sum.join(" + ")
        );
    let why = Case::new(&text, &[]).err().expect("there are too many");
    assert!(why.contains("E450") && why.contains("limit of a task: 32"), "{why}");
}

/// Conversions in steps, of which all but the last are exact; others are rejected.
#[test]
fn conversions() {
    let of = |from: &str, to: &str| {
        head(2) + &format!("program case(x: {from}[70@tp]) -> {to}[70] {{ {to}(x) }}\n")
    };
    let ways = [
        ("f16", "bf16"),
        ("bf16", "f16"),
        ("i8", "f32"),
        ("u8", "bf16"),
        ("i8", "i32"),
        ("i16", "bf16"),
        ("i16", "i32"),
    ];
    for (from, to) in ways {
        emitted(&of(from, to)).check_own(2);
    }
    for (from, to) in [("i32", "u8"), ("i32", "f16"), ("f32", "i8"), ("i64", "f32")] {
        let why = Case::new(&of(from, to), &[]).err().expect("there is no way");
        assert!(why.starts_with(&format!("E470 cannot emit a conversion of {from} to {to}")), "{why}");
    }
}

/// Programs of the library that compute elementwise, move elements and reduce dimensions (TP-3).
#[test]
fn library_programs() {
    let text = head(3)
        + "program case(x: f32[n@tp, 8], c: f32[n@tp, 4], s: f32[n@tp, 4]) -> f32[n, 8] { rope(x, c, s) }\n";
    emitted(&text).check(&sizes(&ANY), 3);
    // Rows that are longer than a tile, and a leading dimension.
    let text = head(3)
        + "program case(x: f32[n@tp, 8], y: f32[6@tp, 5000], z: f32[5, 700@tp]) -> (f32[n, 8], f32[6, 5000], f32[700]) {
               (softmax(x), softmax(y), max(z, dim: 0) + sum(z, dim: 0))
           }\n";
    emitted(&text).check(&[(3, 1), (3, 7), (3, 20)], 2);
}

/// Functions without an exact form stay within the bounds that [`bound`] states.
#[test]
fn functions() {
    let names: Vec<&str> = ScalarUn::ALL.iter().filter(|f| !f.has_integers()).map(|f| f.name()).collect();
    let kernels: String = names.iter().map(|f| format!("kernel k_{f}(a) = {f}(abs(a) + 0.125)\n")).collect();
    let results = vec!["f32[n]"; names.len()].join(", ");
    let values = names.iter().map(|f| format!("k_{f}(y)")).collect::<Vec<_>>().join(", ");
    let text = head(3)
        + &kernels
        + &format!("program case(x: f32[n@tp]) -> ({results}) {{ let y: f32[n] = x;\n ({values}) }}\n");
    let mut case = emitted(&text);
    let Some((sized, got)) = case.outputs(3, 5000, 1) else { return };
    for (i, name) in names.iter().enumerate() {
        let f = ScalarUn::parse(name).expect("a function");
        for (want, got) in floats(&sized.expected[0][0][i]).zip(floats(&got[0][0][i])) {
            let ulp = f32::EPSILON * want.abs().max(f32::MIN_POSITIVE);
            // The simulator's own function and the model's may each be off by one more unit.
            let allowed = match kbc_compiler::backends::default_target().bound(f) {
                None => 0.0,
                Some(Bound::Ulps(n)) => (n as f32 + 2.0) * ulp,
                Some(Bound::Absolute { error, .. }) => error as f32 + 2.0 * ulp,
            };
            assert!((want - got).abs() <= allowed, "{name}: {got} for {want}");
        }
    }
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// The largest domain of the runtime compiles; a larger one is an error with its reason.
#[test]
fn ranks_up_to_the_runtimes_limit() {
    let at = |p: u64| program("f32", p, REDUCED, "all_reduce(x, sum, over: tp, using: ring)");
    let case = emitted(&at(64));
    assert!(case.ranks().contains(&64), "{:?}", case.ranks());
    let why = Case::new(&at(65), &[]).err().expect("65 are too many");
    assert!(why.starts_with("E471 65 ranks exceed the largest domain of the target"), "{why}");
}

/// The package as the command writes it: its kernel runs through its own orchestration, and is the
/// text tested above.
#[test]
fn packages_launch_through_their_orchestration() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("emitted-package");
    let spec = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("specs/all_reduce.kb");
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_kbc"))
        .args(["compile", "--target", "a2a3", "--force", "-o"])
        .args([&dir, &spec])
        .output()
        .expect("the binary is built with the tests");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).expect("a file of the package");
    let (kernel, shim) =
        (read("kernels/aiv/sum_of_all.cpp"), read("kernels/orchestration/sum_of_all_orch.cpp"));
    let mut case = Case::of_file(&spec).expect("it is accepted");
    // Everything but the header, which states what was executed, is the same.
    let code = |t: &str| t[t.find("#include").expect("headers")..].to_owned();
    assert_eq!(code(&kernel), code(&case.text));
    let orchestration =
        standin::Orchestration { text: &shim, config: "sum_of_all_config", run: "sum_of_all_orchestration" };
    let Some(program) = standin::compiled(&case.text, Some(orchestration)) else { return };
    let sized = case.at(4, 1000, 3);
    let got = program.run_one(&sized.job).unwrap_or_else(|e| panic!("{e}"));
    case.same(&sized, &got).unwrap_or_else(|e| panic!("{e}"));
}
