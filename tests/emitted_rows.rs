//! Tests of emitted kernels of operations on rows: chains that stay in the core, with several rows
//! in a tile. They run under the memory model of the stand-in headers, and every element is compared
//! with the simulator or lies within the reference evaluator's bounds.

use crate::emitting::Case;
use kbc_tiles::tile::counts::{OpCounts, executed};
use kbc_tiles::tile::{Kernel, Stmt};
use std::collections::BTreeMap;

fn head(p: u64) -> String {
    format!(
        "param tp = {p}\nparam n = 100\ntopology sys = full(tp) {{ link: 50 GB/s, 500 ns }}\nmesh m = sys[tp]\n"
    )
}

fn emitted(text: &str) -> Case {
    Case::new(text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Returns how many loops of a kernel have tiles that hold rows.
fn row_loops(kernel: &Kernel) -> usize {
    fn of(list: &[Stmt]) -> usize {
        let own = |s: &Stmt| usize::from(matches!(s, Stmt::Tiles { rows: Some(_), .. }));
        list.iter().map(|s| own(s) + s.blocks().map(|b| of(b)).sum::<usize>()).sum()
    }
    of(&kernel.body)
}

fn counts(case: &Case) -> OpCounts {
    let (ranks, count) = case.own();
    let scalars = BTreeMap::from([("count".into(), count as i64)]);
    executed(&case.kernel, ranks, &scalars, 1_000_000).expect("it can be counted")
}

/// Chains of every form: rows with and without room behind them, one row and many in a tile, rests,
/// rows of one element, reductions with and without the dimension, rows that all rows share,
/// elements of a row from memory, values that several operations read, and results that are also
/// intermediate values.
#[test]
fn chains() {
    for (inputs, results, body) in [
        ("x: f32[150, 25]", "f32[150, 25]", "softmax(x, dim: 1)"),
        ("x: f32[7, 16]", "f32[7, 16]", "softmax(x, dim: 1)"),
        ("x: f32[3, 4, 129]", "f32[3, 4, 129]", "log_softmax(x)"),
        ("x: f32[5, 1000]", "f32[5, 1000]", "softmax(x)"),
        ("x: f32[5, 1]", "f32[5, 1]", "softmax(x)"),
        ("x: f32[70, 2]", "f32[70, 2]", "softmax(x)"),
        ("x: f32[33, 48], g: f32[48], b: f32[48]", "f32[33, 48]", "layer_norm(x, g, b)"),
        ("x: bf16[33, 50], g: bf16[50]", "bf16[33, 50]", "rms_norm(x, g)"),
        ("x: f16[90, 40], g: f16[40]", "f16[90, 40]", "rms_norm(x, g) * 2.0"),
        ("x: f32[40, 31]", "(f32[40], f32[40, 1])", "(max(x, dim: 1), mean(x * x, dim: 1, keep: true))"),
        (
            "x: f32[40, 31], c: f32[40, 1], r: f32[1, 31]",
            "(f32[40, 31], f32[40, 31])",
            "let y = x * c + r; (y, y - min(y, dim: 1, keep: true))",
        ),
        ("x: f32[9, 20], y: f32[9, 20]", "f32[9, 20]", "let s = x + y; relu(s * s - x) + s"),
        (
            "x: f32[600, 3], y: f32[600, 3]",
            "f32[600, 3]",
            "select(x < y, x, x * 3.0) - max(y, dim: 1, keep: true)",
        ),
        ("x: bf16[20, 17]", "(bf16[20, 17], f32[20, 17])", "let y = f32(x) * 0.5; (bf16(y), exp(y))"),
    ] {
        let text = head(2) + &format!("program case({inputs}) -> {results} {{ {body} }}\n");
        let mut case = emitted(&text);
        case.check_own(2);
        let one = inputs.contains(", 1]") && results == "f32[5, 1]";
        let elementwise = !body.contains("dim:") && !body.contains("softmax") && !body.contains("norm");
        assert_eq!(row_loops(&case.kernel) == 0, one || elementwise, "{text}{}", case.text);
    }
}

/// Rows are split between ranks, their number follows from the count, and there may be none.
#[test]
fn counts_of_rows() {
    let text =
        head(3) + "program case(x: f32[n@tp, 24], g: f32[24]) -> f32[n@tp, 24] { rms_norm(softmax(x), g) }\n";
    let mut case = emitted(&text);
    assert!(case.counts() && row_loops(&case.kernel) == 1, "{}", case.text);
    case.check(&[(3, 0), (3, 1), (3, 2), (3, 7), (3, 400), (2, 33)], 2);
    // A kernel for any length of a row has no rows in its tiles.
    let text = head(3) + "program case(x: f32[6@tp, n]) -> f32[6@tp, n] { softmax(x) }\n";
    let mut case = emitted(&text);
    assert!(case.counts() && row_loops(&case.kernel) == 0, "{}", case.text);
    case.check(&[(3, 1), (3, 40), (3, 5000)], 2);
}

/// Rows that are too long for a tile, or for the tiles of a long chain, are computed as before.
#[test]
fn long_rows() {
    for n in [4096, 4097, 3000] {
        let text = head(2) + &format!("program case(x: f32[3, {n}]) -> f32[3, {n}] {{ softmax(x) }}\n");
        emitted(&text).check_own(1);
    }
}

/// A softmax of 15 KB: 904 loads and 604 stores before. Every element is loaded and stored once.
#[test]
fn rows_stay_in_the_core() {
    let of = |inputs: &str, result: &str, body: &str| {
        counts(&emitted(&(head(2) + &format!("program case({inputs}) -> {result} {{ {body} }}\n"))))
    };
    let softmax = of("x: f32[150, 25]", "f32[150, 25]", "softmax(x, dim: 1)");
    assert_eq!((softmax.bytes_loaded, softmax.bytes_stored), (15_000, 15_000), "{softmax:?}");
    assert!(softmax.loads <= 3 && softmax.stores <= 3, "{softmax:?}");
    assert_eq!(softmax.barriers_all, 0);
    // The scale is loaded once for each tile.
    let norm = of("x: f32[64, 64], g: f32[64]", "f32[64, 64]", "rms_norm(x, g)");
    assert_eq!((norm.bytes_loaded, norm.bytes_stored), (4 * 64 * 64 + norm.loads / 2 * 256, 4 * 64 * 64));
    // Elementwise functions that follow each other are one loop.
    let chain = of("x: f32[n]", "f32[n]", "let y = relu(x) * x; exp(y) + y");
    assert_eq!((chain.loads, chain.stores), (1, 1), "{chain:?}");
}
