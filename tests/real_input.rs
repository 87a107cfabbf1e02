//! Tests of the feed-forward layer of `specs/ffn_tp.kb` with its published weights, on every number
//! of devices.
//!
//! There are two references: kbc's evaluator, with a bound for each element (part of every run),
//! and PyTorch's result, stored beside the weights as `ffn_out`. For the second, the tolerance is
//! `1e-6 * (sum_j |h_j| |w2_jk| + |b2_k|)`, with h in f64 from the file's own arrays, computed here
//! and not by kbc. For the correct program, the measured error is at most 2.3e-7 of that sum on any
//! rank, element and tp (the order of a GEMM's sums depends on the processor). The largest result
//! is 190 and the median 0.18, so a tolerance relative to the largest would prove nothing: slightly
//! wrong programs must fail here, at every tp.

#![allow(clippy::print_stdout, reason = "the measured figures, for `--nocapture`")]

use crate::driver;

use driver::{Done, Job, built, done};
use kbc_backend_sim::interp::RunResult;
use kbc_ir::graph::{CollKind, Graph, OpId, OpKind};
use kbc_numerics::formats;
use kbc_numerics::tensor::{Data, Tensor};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const SPEC: &str = "specs/ffn_tp.kb";
const FILE: &str = "specs/minilm/ffn.npz";
const TOKENS: usize = 25;
const WIDTH: usize = 384;
const HIDDEN: usize = 1536;

/// Largest error of an element, in units of the sum of magnitudes.
const TOLERANCE: f64 = 1e-6;

/// PyTorch's result with its scales, and the hidden units.
struct Layer {
    /// The array `ffn_out`.
    stored: Vec<f64>,
    /// `sum_j |h_j| |w2_jk| + |b2_k|` for each element of it.
    scale: Vec<f64>,
    /// For each hidden unit, the largest share `|h_j| |w2_jk| / scale` that it has in any element.
    share: Vec<f64>,
}

fn tensor(key: &str) -> Tensor {
    let bytes = std::fs::read(FILE).expect("the repository holds the weights");
    formats::read(FILE, &bytes, Some(key)).expect("the file holds the layer")
}

fn layer() -> &'static Layer {
    static LAYER: OnceLock<Layer> = OnceLock::new();
    LAYER.get_or_init(|| {
        let [x, w1, b1, w2, b2, stored] =
            ["ffn_in", "w1", "b1", "w2", "b2", "ffn_out"].map(|k| tensor(k).data().to_f64());
        let mut scale: Vec<f64> = (0..TOKENS).flat_map(|_| b2.iter().map(|b| b.abs())).collect();
        let mut hidden = vec![0.0; TOKENS * HIDDEN];
        for t in 0..TOKENS {
            let h = &mut hidden[t * HIDDEN..][..HIDDEN];
            h.copy_from_slice(&b1);
            for i in 0..WIDTH {
                let xi = x[t * WIDTH + i];
                h.iter_mut().zip(&w1[i * HIDDEN..][..HIDDEN]).for_each(|(h, w)| *h += xi * w);
            }
            for (j, h) in h.iter_mut().enumerate() {
                *h = 0.5 * *h * (1.0 + libm::erf(*h * std::f64::consts::FRAC_1_SQRT_2));
                let row = &w2[j * WIDTH..][..WIDTH];
                scale[t * WIDTH..][..WIDTH].iter_mut().zip(row).for_each(|(s, w)| *s += h.abs() * w.abs());
            }
        }
        let mut share = vec![0.0f64; HIDDEN];
        for (t, h) in hidden.chunks(HIDDEN).enumerate() {
            let scale = &scale[t * WIDTH..][..WIDTH];
            for (j, (share, h)) in share.iter_mut().zip(h).enumerate() {
                let row = w2[j * WIDTH..][..WIDTH].iter().zip(scale);
                *share = row.fold(*share, |most, (w, s)| most.max(h.abs() * w.abs() / s));
            }
        }
        Layer { stored, scale, share }
    })
}

/// Compares every rank with PyTorch's result. Returns, for each rank, the largest `|got - stored| /
/// scale`, and the number of elements whose error exceeds [`TOLERANCE`].
fn against_pytorch(result: &RunResult) -> Vec<(f64, usize)> {
    let layer = layer();
    let of_rank = |parts: &Vec<kbc_numerics::shard::Part>| {
        let got = parts[0].tensor.data().to_f64();
        assert_eq!(got.len(), TOKENS * WIDTH, "every rank holds the whole result");
        let off =
            got.iter().zip(&layer.stored).zip(&layer.scale).map(|((g, s), scale)| (g - s).abs() / scale);
        // A NaN exceeds every tolerance.
        off.fold((0.0f64, 0), |(most, n), e| (most.max(e), n + usize::from(e.is_nan() || e > TOLERANCE)))
    };
    result.outputs[0].iter().map(of_rank).collect()
}

/// Algorithms in which one rank adds each block and the others copy it, so all ranks have the same
/// bits. (In `one_phase`, `line` and algorithms made of them, every rank adds in its own order.)
const ONE_RANK_ADDS: [&str; 5] = ["ring", "bidirectional_ring", "two_phase", "halving_doubling", "up_down"];

fn same_bits(result: &RunResult) -> bool {
    let first = &result.outputs[0][0][0].tensor;
    result.outputs[0].iter().all(|r| r[0].tensor.data().first_difference(first.data()).is_none())
}

/// Returns the one collective of the layer, its operand and its user.
fn collective(graph: &Graph) -> (&kbc_ir::graph::Collective, OpId, OpId) {
    let all: Vec<OpId> = graph
        .order()
        .iter()
        .copied()
        .filter(|o| matches!(graph.op(*o).kind, OpKind::Collective(_)))
        .collect();
    let [one] = all[..] else { panic!("{} collectives, there must be one", all.len()) };
    let OpKind::Collective(c) = &graph.op(one).kind else { unreachable!("filtered above") };
    let users = graph.users(one);
    assert_eq!(users.len(), 1);
    (c, graph.operands(one)[0], users[0].0)
}

fn agrees(tp: u64) {
    let Done { job, report, executed } = done(&[SPEC, "-D", &format!("tp={tp}")]);

    // One all_reduce, after the second matmul and before its bias; nothing moves between the
    // layers.
    let graph = &job.built.placed;
    let (c, operand, user) = collective(graph);
    assert_eq!(c.kind, CollKind::AllReduce);
    let matmuls: Vec<OpId> = graph
        .order()
        .iter()
        .copied()
        .filter(|o| matches!(graph.op(*o).kind, OpKind::Matmul { .. }))
        .collect();
    assert_eq!(matmuls.len(), 2);
    assert_eq!(operand, matmuls[1], "the sum is taken of the second matmul");
    let bias = graph.operands(user)[1];
    assert!(matches!(graph.op(bias).kind, OpKind::Input(4)), "b2 is added to the sum, once");
    let moving: Vec<&str> = report.collectives.iter().map(|c| c.operation.as_str()).collect();
    assert_eq!(moving, ["all_reduce"]);
    assert_eq!(report.collectives[0].bytes, (4 * TOKENS * WIDTH) as u64);

    // The evaluator, and PyTorch's result within the evaluator's bounds.
    let all = tp * (TOKENS * WIDTH) as u64;
    let compare = &executed.compare;
    assert_eq!((compare.elements, compare.mismatches), (all, 0), "{compare:?}");
    assert!(compare.max_err.is_some_and(|e| e <= 1.0), "{compare:?}");
    let [expect] = &executed.expect[..] else { panic!("one stored result") };
    assert_eq!((expect.elements, expect.mismatches), (all, 0), "{expect:?}");

    // PyTorch's result, with the tolerance that distinguishes a correct program from a slightly
    // wrong one.
    let ranks = against_pytorch(&executed.result);
    assert_eq!(ranks.len() as u64, tp);
    let worst = ranks.iter().map(|r| r.0).fold(0.0, f64::max);
    println!("tp {tp}: at most {worst:.2e} of the sum of magnitudes");
    assert!(ranks.iter().all(|r| r.1 == 0), "tp {tp}: {ranks:?}");

    let algorithm = report.collectives[0].algorithm.as_str();
    if ONE_RANK_ADDS.contains(&algorithm) {
        assert!(same_bits(&executed.result), "{algorithm} on {tp} ranks: all have the same bits");
    }

    assert!(report.verified.is_some_and(|v| v.ok && v.meaning == "exact" && v.calls == "any"));
    let (time, bound) = (report.time_ns.expect("timed"), report.bound_ns.expect("bounded"));
    assert!(time >= bound && bound > 0.0);
}

/// Writes a program derived from the text of the layer.
fn edited(name: &str, edit: impl Fn(&str) -> String) -> PathBuf {
    let text = std::fs::read_to_string(SPEC).expect("the program is there");
    let new = edit(&text);
    assert_ne!(text, new, "the edit found its place");
    let data = Path::new(FILE).canonicalize().expect("the weights are there");
    let new = new.replace("minilm/ffn.npz", data.to_str().expect("a path in UTF-8"));
    write(&format!("{name}.kb"), new.as_bytes())
}

fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("the folder of the tests can be written");
    path
}

fn rejected(what: &str, tp: u64, job: &Job) {
    let ranks = against_pytorch(&job.run(&job.inputs()));
    assert_eq!(ranks.len() as u64, tp);
    println!("tp {tp}, {what}: {} of {} elements of rank 0, {:.1e}", ranks[0].1, TOKENS * WIDTH, ranks[0].0);
    assert!(ranks.iter().all(|r| r.1 > 0), "tp {tp}: {what} must be noticed on every rank: {ranks:?}");
}

fn rejects_text(what: &str, tp: u64, from: &str, to: &str) {
    let path = edited(&format!("{}_{tp}", what.replace(' ', "_")), |t| t.replacen(from, to, 1));
    rejected(what, tp, &built(&[path.to_str().expect("UTF-8"), "-D", &format!("tp={tp}")]));
}

/// The tanh form of gelu, whose error is at most 5e-4.
fn rejects_tanh(tp: u64) {
    rejects_text("tanh", tp, "gelu(matmul", "gelu_tanh(matmul");
}

fn rejects_missing_bias(tp: u64) {
    rejects_text("no second bias", tp, "matmul(h, w2) + b2", "matmul(h, w2)");
}

fn rejects_doubled_bias(tp: u64) {
    rejects_text("second bias twice", tp, "matmul(h, w2) + b2", "matmul(h, w2) + b2 + b2");
}

/// Returns the hidden unit whose loss is hardest to notice: every other one has a larger share in
/// some element.
fn faintest() -> usize {
    let share = &layer().share;
    (0..HIDDEN).min_by(|a, b| share[*a].total_cmp(&share[*b])).expect("there are hidden units")
}

/// Sets elements of an array of the file to zero.
fn zeroed(key: &str, tp: u64, lost: impl Fn(usize) -> bool) -> String {
    let old = tensor(key);
    let Data::F32(values) = old.data() else { panic!("the layer is in f32") };
    let new = values.iter().enumerate().map(|(i, v)| if lost(i) { 0.0 } else { *v }).collect();
    let new = Tensor::new(old.shape(), Data::F32(new)).expect("as many elements as before");
    let bytes = formats::write_npy(&new).expect("f32 has a place in .npy");
    let path = write(&format!("lost_{key}_{tp}.npy"), &bytes);
    format!("{key}={}", path.to_str().expect("UTF-8"))
}

fn rejects_lost_unit(tp: u64) {
    let unit = faintest();
    let w1 = zeroed("w1", tp, |i| i % HIDDEN == unit);
    let b1 = zeroed("b1", tp, |i| i == unit);
    let w2 = zeroed("w2", tp, |i| i / WIDTH == unit);
    let tp_is = format!("tp={tp}");
    let words = [SPEC, "-D", &tp_is, "--input", &w1, "--input", &b1, "--input", &w2];
    rejected("one lost unit", tp, &built(&words));
}

macro_rules! at {
    ($($name:ident $tp:literal),*) => {$(
        mod $name {
            #[test]
            fn agrees() {
                super::agrees($tp);
            }

            #[test]
            fn rejects_tanh() {
                super::rejects_tanh($tp);
            }

            #[test]
            fn rejects_a_missing_bias() {
                super::rejects_missing_bias($tp);
            }

            #[test]
            fn rejects_a_doubled_bias() {
                super::rejects_doubled_bias($tp);
            }

            #[test]
            fn rejects_a_lost_unit() {
                super::rejects_lost_unit($tp);
            }
        }
    )*};
}

at!(tp_1 1, tp_2 2, tp_3 3, tp_4 4, tp_5 5, tp_8 8);

/// Every hidden unit contributes to some element more than the tolerance and the error of a correct
/// program, so losing any one is noticed, not only the one that the tests remove.
#[test]
fn every_hidden_unit_counts() {
    let share = &layer().share;
    let least = share[faintest()];
    println!("the faintest unit is {}, with a share of {least:.2e}", faintest());
    assert!(least > 2.0 * TOLERANCE, "{least}");
}

/// If one rank adds and the others copy, all ranks have the same bits. If every rank adds in its
/// own order (own value first, then by distance), real numbers show it.
#[test]
fn ranks_have_the_same_bits_where_the_algorithm_says_so() {
    let run = |algorithm: &str| {
        let path = edited(&format!("using_{algorithm}"), |t| {
            t.replace(
                "matmul(h, w2) + b2",
                &format!("all_reduce(matmul(h, w2), sum, over: tp, using: {algorithm}) + b2"),
            )
        });
        let job = built(&[path.to_str().expect("UTF-8"), "-D", "tp=5"]);
        let result = job.run(&job.inputs());
        assert!(against_pytorch(&result).iter().all(|r| r.1 == 0), "{algorithm}");
        result
    };
    for algorithm in ONE_RANK_ADDS {
        assert!(same_bits(&run(algorithm)), "{algorithm}");
    }
    for algorithm in ["one_phase", "line"] {
        assert!(!same_bits(&run(algorithm)), "{algorithm}");
    }
}
