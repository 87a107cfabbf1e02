//! Tests of emitted kernels of operations on rows: chains that stay in the core, with several rows
//! in a tile. They run under the memory model of the stand-in headers, and every element is
//! compared with the simulator or lies within the reference evaluator's bounds.

use crate::emitting::Case;
use clap::Parser;
use kbc::cli::{Cli, Command};
use kbc::session::Session;
use kbc_compiler::build::build;
use kbc_compiler::emit;
use kbc_compiler::watch::Unwatched;
use kbc_tiles::family::{Instance, single};
use kbc_tiles::lower::{Shares, Staging};
use kbc_tiles::tile::counts::{OpCounts, executed};
use kbc_tiles::tile::{Kernel, Op, Stmt, path};
use std::collections::BTreeMap;
use std::path::Path;

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

/// Rows that are apart in memory: transposes with rows of several elements and of one, in every
/// width, slices, and parts that are gathered along a dimension that is not the first.
#[test]
fn strided_transfers() {
    for (inputs, results, body) in [
        (
            "x: f32[150, 8, 32]",
            "(f32[8, 150, 32], f32[8, 32, 150])",
            "(transpose(x, [1, 0, 2]), transpose(x, [1, 2, 0]))",
        ),
        ("x: bf16[33, 20]", "bf16[20, 33]", "transpose(x, [1, 0])"),
        ("x: i64[5, 3, 7]", "i64[7, 3, 5]", "transpose(x, [2, 1, 0])"),
        ("x: i8[30, 20]", "i8[20, 30]", "transpose(x, [1, 0])"),
        ("x: f16[600, 3, 2]", "f16[3, 600, 2]", "transpose(x, [1, 0, 2])"),
        ("x: f32[9, 12@tp]", "f32[9, 12]", "all_gather(x, dim: 1, over: tp, using: direct)"),
        (
            "x: f32[9, 12] partial(sum@tp)",
            "f32[9, 12@tp]",
            "reduce_scatter(x, sum, dim: 1, over: tp, using: direct)",
        ),
        ("x: f32[40, 4, 6@tp]", "f32[40, 4@tp, 6]", "all_to_all(x, from: 2, to: 1, over: tp)"),
        ("x: f32[30, 12]", "f32[30, 4]", "slice(x, dim: 1, from: 3, to: 7)"),
        ("x: f16[300, 12], y: f16[300, 5]", "f16[300, 17]", "concat(x, y, dim: 1)"),
        ("x: f32[30, 12]", "f32[30, 15]", "pad(x, dim: 1, before: 1, after: 2, value: 0)"),
    ] {
        let text = head(2) + &format!("program case({inputs}) -> {results} {{ {body} }}\n");
        let mut case = emitted(&text);
        case.check_own(2);
        // A kernel for several numbers of ranks has no length of a row in its text.
        if body.contains("over: tp") {
            continue;
        }
        let strided = |op: &Op| matches!(op, Op::LoadRows { .. } | Op::StoreRows { .. });
        let any = path::ops(&case.kernel).iter().any(|(_, op)| strided(op));
        assert_eq!(any, !inputs.contains("i8"), "{text}{}", case.text);
    }
    // Every rank has its own number of rows, and their length does not follow from the count.
    let text = head(3) + "program case(x: f32[n@tp, 5, 4]) -> f32[5, n@tp, 4] { transpose(x, [1, 0, 2]) }\n";
    let mut case = emitted(&text);
    assert!(case.counts(), "{}", case.text);
    case.check(&[(3, 1), (3, 7), (3, 1000)], 2);
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

/// Returns the counts of a program's kernel without chains of rows, and with them.
fn before_and_after(file: &str, defines: &[&str], text: Option<&str>) -> [OpCounts; 2] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let path = if text.is_some() { file.to_owned() } else { path.to_string_lossy().into_owned() };
    let mut line = vec!["kbc", "compile", &path, "--quiet"];
    defines.iter().for_each(|d| line.extend(["-D", d]));
    let cli = Cli::parse_from(line);
    let Command::Compile(args) = &cli.command else { unreachable!("the line says compile") };
    let texts = text.iter().map(|t| (path.clone(), (*t).to_owned())).collect();
    let mut session = Session::new(&cli).fresh(texts);
    let built = build(&mut session, &args.source.plain(), "tasks", &mut Unwatched);
    let built = built.unwrap_or_else(|_| panic!("{file} is compiled"));
    let schedule = built.module.schedule().expect("a schedule");
    let target = kbc_compiler::backends::find("a2a3").expect("a target");
    [Staging::Fused, Staging::Rows].map(|staging| {
        let lowered = target.lower(schedule, staging, &|_| None, &mut Shares::default()).expect("a kernel");
        let ranks = schedule.mesh.ranks();
        let kernel = single(&Instance { ranks, count: 0, kernel: lowered });
        let kernel = emit::complete(&kernel, target, &mut Unwatched).expect("it is sound");
        executed(&kernel, ranks, &BTreeMap::new(), 1 << 24).expect("it can be counted")
    })
}

/// The counts of docs/adr/107-rows-in-the-core.md, before and after.
#[test]
fn fewer_transfers() {
    let softmax = head(2) + "program case(x: f32[150, 25]) -> f32[150, 25] { softmax(x, dim: 1) }\n";
    let heads = head(2)
        + "program case(x: f32[150, 8, 32]) -> (f32[8, 150, 32], f32[8, 32, 150]) \
           { (transpose(x, [1, 0, 2]), transpose(x, [1, 2, 0])) }\n";
    let rows: [(&str, &[&str], Option<&str>); 8] = [
        ("softmax.kb", &[], Some(&softmax)),
        ("heads.kb", &[], Some(&heads)),
        ("layer.kb", &[], Some(crate::emitted_matmuls::LLAMA)),
        ("specs/attention.kb", &["S=64"], None),
        ("specs/encoder.kb", &["tp=2"], None),
        ("specs/causal.kb", &[], None),
        ("specs/encoder_sequence.kb", &[], None),
        ("specs/mlp_sequence.kb", &[], None),
    ];
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/adr/107-rows-in-the-core.md"),
    )
    .unwrap_or_default();
    let mut missing = String::new();
    for (file, defines, program) in rows {
        let [before, after] = before_and_after(file, defines, program);
        let of = |c: &OpCounts| {
            format!(
                "{} | {} | {} | {} | {} | {}",
                c.loads, c.stores, c.bytes_loaded, c.bytes_stored, c.flags_set, c.vector
            )
        };
        for (when, counts) in [("before", &before), ("after", &after)] {
            let line = format!("| {file} | {when} | {} |\n", of(counts));
            if !text.contains(&line) {
                missing += &line;
            }
        }
        assert!(after.loads <= before.loads && after.stores <= before.stores, "{file}");
        assert!(after.bytes_loaded <= before.bytes_loaded, "{file}");
    }
    assert!(missing.is_empty(), "the page has no rows\n{missing}");
}
