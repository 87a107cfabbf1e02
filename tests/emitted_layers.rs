//! Tests of emitted kernels of parts of layers: rows by number and in groups, tile kernels, matmuls
//! in pieces. They run under the memory model of the stand-in headers, against the simulator bit
//! for bit, or within the reference evaluator's bounds.

use crate::emitting as emitted;
use crate::standin;

use emitted::Case;
use kbc_ir::schedule::Schedule;
use kbc_numerics::tensor::{Data, Tensor};
use kbc_tiles::tile::Core;
use standin::Run;

fn head(p: u64) -> String {
    format!(
        "param tp = {p}\nparam n = 100\ntopology sys = full(tp) {{ link: 50 GB/s, 500 ns }}\nmesh m = sys[tp]\n"
    )
}

fn emitted(text: &str) -> Case {
    Case::new(text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Rows of a table by numbers in memory: split by rows, by columns and with the numbers; rows
/// longer than a tile. Numbers of rows that some rank lacks, or that do not exist, give rows of
/// zeros.
#[test]
fn rows_by_numbers() {
    let text = head(3)
        + "program case(v: f32[19@tp, 6], w: bf16[19, 6@tp], x: i32[5@tp, 5000], ids: i32[n], more: i64[4@tp, 3], few: i32[3]) -> \
           (f32[n, 6], bf16[n, 6@tp], f32[4@tp, 3, 6], i32[3, 5000]) {
               let one = embedding(v, ids);
               let two = embedding(w, ids);
               let three = embedding(v, more);
               (one, two, three, embedding(x, few))
           }\n";
    emitted(&text).check(&[(3, 0), (3, 1), (3, 100)], 2);
    // Computed numbers, and a computed table.
    let text = head(2)
        + "kernel up(a, b) = a + b\n\
           program case(v: f32[9@tp, 4], ids: i32[6@tp]) -> f32[6, 4] { embedding(v + 1.0, up(ids, ids)) }\n";
    emitted(&text).check_own(2);
    // As far from the table as numbers can be.
    let mut case = emitted(
        &(head(2)
            + "program case(v: f32[9@tp, 4], a: i32[8], b: i64[8]) -> (f32[8, 4], f32[8, 4]) { (embedding(v, a), embedding(v, b)) }\n"),
    );
    let far = |s: &Schedule, call: u32| -> Vec<Tensor> {
        let _ = s;
        let table: Vec<f32> = (0..36).map(|i| (i + 100 * call as i32) as f32).collect();
        let a = vec![i32::MIN, -1, 0, 4, 5, 8, 9, i32::MAX];
        let b = vec![i64::MIN, i64::MIN + 5, 8, 0, 1 << 32, -1, i64::MAX, 4];
        let tensor = |shape: Vec<u64>, data| Tensor::new(shape, data).expect("it fits");
        vec![
            tensor(vec![9, 4], Data::F32(table)),
            tensor(vec![8], Data::I32(a)),
            tensor(vec![8], Data::I64(b)),
        ]
    };
    let Some(program) = case.program() else { return };
    let sized = case.at_with((2, 0), 2, &far);
    let got = program.run_one(&sized.job).unwrap_or_else(|e| panic!("{e}\n{}", case.text));
    case.same(&sized, &got).unwrap_or_else(|e| panic!("{e}\n{}", case.text));
}

/// Tile kernels: matmuls of loaded tiles and of computed ones, functions of them, sums of several,
/// one element of a dimension, elementwise kernels without matmuls; every program of `tests/tiles`
/// that the units can execute.
#[test]
fn tile_kernels() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tiles");
    let (mut ran, mut refused) = (0, vec![]);
    for file in std::fs::read_dir(folder).expect("a folder").map(|f| f.expect("a file").path()) {
        let text = std::fs::read_to_string(&file).expect("a program");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        for line in text.lines().filter_map(|l| l.strip_prefix("//= ")) {
            let words: Vec<&str> = line.split(" =>").next().expect("flags").split(' ').collect();
            // A program with one rank is rejected before that (E548).
            if words[1] == "alone" {
                continue;
            }
            let mut flags = vec!["--program", words[1]];
            flags.extend(&words[2..]);
            match Case::of_file_as(&file, &flags) {
                Ok(mut case) => {
                    case.check_own(2);
                    ran += 1;
                }
                Err(why) => refused.push(format!("{name} {}: {why}", words.join(" "))),
            }
        }
    }
    refused.sort();
    let (preloads, refused): (Vec<String>, Vec<String>) =
        refused.into_iter().partition(|r| r.starts_with("preloaded.kb"));
    let whole = "E470 cannot emit an operand with `preload`";
    assert!(preloads.len() == 5 && preloads.iter().all(|r| r.contains(whole)), "{preloads:#?}");
    let nothing = "E470 cannot emit a matmul over an empty dimension";
    let expected = [
        format!("gemm.kb --program contracted -D tp=7: {nothing}"),
        format!("gemm.kb --program empty: {nothing}"),
        "types.kb --program ints: E470 cannot emit a matmul of i32".into(),
    ];
    let known = refused.len() == 3 && refused.iter().zip(&expected).all(|(r, e)| r.starts_with(e));
    assert!(known && ran >= 30, "{ran}: {refused:#?}");
}

/// Rows in groups: matrices whole and split with their rows, columns split, more runs than
/// matrices, some without rows.
#[test]
fn rows_in_groups() {
    let text = "param tp = 2
        topology sys = full(tp) { link: 50 GB/s, 500 ns }
        mesh m = sys[tp]
        program case(x: f32[150, 70@tp], w: f32[3, 70@tp, 20], y: f16[9@tp, 8], v: f16[4, 8, 5], u: f16[4@tp, 8, 5], z: f16[9, 8])
            -> (f32[150, 20], f16[9@tp, 5], f16[9, 5]) {
            let a: f32[150, 20] = grouped_matmul(x, w, counts: [70, 0, 80]);
            let b = grouped_matmul(y, v, counts: [3, 0, 2, 2, 1, 1], groups: [0, 1, 3, 2, 0, 0]);
            let c: f16[9, 5] = grouped_matmul(z, u, counts: [1, 4, 0, 4]);
            (a, b, c)
        }\n";
    let mut case = emitted(text);
    assert!(case.text.contains("runs"), "{}", case.text);
    case.check_own(2);
}

/// Rows of a matrix that are further apart than the instruction for its blocks can state: a program
/// is rejected, and a family leaves out the numbers of ranks at which they are.
#[test]
fn rows_that_are_too_far_apart_are_rejected() {
    let text = "param tp = 2
        topology sys = full(tp) { link: 50 GB/s, 500 ns }
        mesh m = sys[tp]
        program case(x: f16[4, 16], w: f16[16, 140000@tp]) -> f16[4, 140000@tp] { matmul(x, w) }\n";
    let why = Case::new(text, &[]).err().expect("rows of 70000 elements are rejected");
    assert!(
        why.starts_with("E470 cannot emit a matmul: the distance between rows in elements is 70000"),
        "{why}"
    );
    let ranks = emitted(&text.replace("tp = 2", "tp = 4")).ranks();
    assert!(ranks.contains(&4) && !ranks.contains(&2), "{ranks:?}");
    // A row of 65535 elements fits.
    emitted(&text.replace("140000", "131070"));
    // As many terms in a sum: the rows of the left operand are as long.
    let long =
        text.replace("f16[4, 16]", "f16[4, 140000@tp]").replace("f16[16, 140000@tp]", "f16[140000@tp, 16]");
    let long = long.replace("-> f16[4, 140000@tp] {", "-> f16[4, 16] {");
    let why = Case::new(&long, &[]).err().expect("rows of 70000 elements are rejected");
    assert!(why.contains("is 70000"), "{why}");
}

/// The stand-in ends a run where the device would drop bits of a number, or read a flag that
/// nothing has set.
#[test]
fn the_stand_in_narrows_as_the_device_does() {
    let mut case = emitted(
        "param tp = 2
        topology sys = full(tp) { link: 50 GB/s, 500 ns }
        mesh m = sys[tp]
        program case(x: f32[4, 16], w: f32[16, 14@tp]) -> f32[4, 14@tp] { matmul(x, w) }\n",
    );
    case.check_own(1);
    let sized = case.at(2, 0, 1);
    let [printed] = &case.sources[..] else { panic!("one task") };
    let changes = [
        ("BlockStride(pitch)", "BlockStride(pitch + 65536)", "rows are 65552 elements apart: 16 bits"),
        (".SetKAligned(false);", ".GetValidRow();", "the K alignment of a tile is not set"),
    ];
    for (from, to, expected) in changes {
        assert!(printed.text.contains(from), "{}", printed.text);
        let text = printed.text.replace(from, to);
        let mut source = case.source();
        source.kernels[0].text = &text;
        let Some(program) = case.program_of(&source) else { return };
        let why = program.run_one(&sized.job).err().unwrap_or_else(|| panic!("not noticed: {to}"));
        assert!(why.contains(expected), "{why}");
    }
}

/// `overlap: k`: a matmul shares nothing with the preceding collective, so the runtime runs both at
/// the same time.
#[test]
fn pieces_run_beside_their_collectives() {
    let spec = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("specs/overlap.kb");
    let case = Case::of_file(&spec).unwrap_or_else(|e| panic!("{e}"));
    let tasks = kbc_tiles::tile::tasks::split(&case.kernel);
    let beside = tasks.windows(2).filter(|w| {
        let [before, product] = [&w[0].uses, &w[1].uses];
        w[1].kernel.core == Core::Matrix
            && before.shared
            && before.writes.is_disjoint(&product.reads)
            && before.writes.is_disjoint(&product.writes)
            && before.reads.is_disjoint(&product.writes)
    });
    let n = beside.count();
    assert!(n >= 2, "{n} of {}", tasks.len());
}

/// Parts of given lengths, some of them empty: gathered, scattered, exchanged in both directions,
/// and computed on.
#[test]
fn parts_of_given_lengths() {
    for algorithm in ["direct", "ring"] {
        let text = format!(
            "param n = 5
            topology sys = full(3) {{ link: 50 GB/s, 500 ns }}
            mesh m = sys[tp]
            program case(x: f32[9@tp(lengths: [5, 0, 4]), n], y: f32[8, n] partial(sum@tp), z: bf16[9@tp(lengths: [4, 3, 2]), 6])
                -> (f32[9, n], f32[8@tp(lengths: [0, 7, 1]), n], bf16[9@tp(lengths: [4, 3, 2]), 6]) {{
                let s: f32[8@tp(lengths: [0, 7, 1]), n] = y * 0.5
                let there = all_to_all(z, counts: [[0, 3, 1], [2, 0, 1], [1, 1, 0]], over: tp);
                let home = all_to_all(there * 2.0, counts: [[0, 2, 1], [3, 0, 1], [1, 1, 0]], over: tp);
                (all_gather(relu(x), dim: 0, over: tp, using: {algorithm}), s, home)
            }}\n"
        );
        let mut case = emitted(&text);
        assert!(case.text.contains("lengths"), "{}", case.text);
        case.check_own(3);
    }
}

/// A table that is read in the rounds after the first has no entries for two ranks.
#[test]
fn tables_without_entries() {
    let text =
        head(4) + "program case(x: f16[16@tp]) -> f16[16] { barrier(x, over: tp, using: dissemination) }\n";
    let mut case = emitted(&text);
    assert_eq!(case.ranks(), [2, 4, 8, 16]);
    case.check(&[(2, 0), (4, 0), (8, 0)], 3);
}

/// Cores meet where all of them come by: not where only some ranks have an operation, nor inside of
/// what one core does.
#[test]
fn cores_meet_outside_of_conditions() {
    for (inputs, result, body) in [
        (
            "x: f32[41] only(2@tp)",
            "(f32[1, 41], f32[41], f32[1, 41])",
            "let y: f32[41@tp] = x; let z = reshape(x, [1, 41]); (z, y, z)",
        ),
        (
            "x: f32[41] only(2@tp), w: f32[41, 5@tp]",
            "(f32[41], f32[1, 5])",
            "let y = relu(x) * 2.0; (y, matmul(reshape(y, [1, 41]), w))",
        ),
        ("x: f32[41] partial(sum@tp)", "f32[41] only(1@tp)", "relu(reduce(x, sum, to: 1, over: tp)) + 1.0"),
    ] {
        let program = format!("program case({inputs}) -> {result} {{ {body} }}\n");
        // Algorithms for meshes of two axes have lanes.
        let text = format!("topology sys = mesh(3, 2)\nmesh m = sys[tp]\n{program}");
        let mut case = emitted(&text);
        case.check_own(3);
    }
}

/// Golden values of a package include the errors of functions in tile kernels, and the number of
/// rows that numbers may select.
#[test]
fn golden_values_of_packages() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for (spec, line) in [
        ("tiles.kb", "ERRORS = {\"erf\": ("),
        ("embedding.kb", "    return {2: max(1, 50), 3: max(1, 50)}"),
        ("ragged.kb", "Type(\"x\", \"f32\", (((5, 13, 13, 0, 21), (\"ep\",)), None))"),
        // A shift by 2 of 6 blocks, and by 2 of 12.
        ("moves.kb", "MOVED = {6: ((6, 6, ((0, (4,), None), (1, (5,), None), (2, (0,), None), "),
        ("moves.kb", "12: ((12, 12, ((0, (10,), None), (1, (11,), None), (2, (0,), None), "),
        ("moves.kb", "    a = rearranged(x, 0, MOVED[PARTS][0])\n    b = stored(rearranged(y, 0, "),
    ] {
        let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("golden-{spec}"));
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_kbc"))
            .args(["compile", "--target", "a2a3", "--force", "-q", "-o"])
            .args([&dir, &root.join("specs").join(spec)])
            .output()
            .expect("the binary is built with the tests");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let golden = std::fs::read_to_string(dir.join("golden.py")).expect("a file of the package");
        assert!(golden.contains(line), "{spec}: {golden}");
    }
}

/// A2 and A3 have no 8-bit floats: a kernel moves them as bytes and does not convert them.
#[test]
fn eight_bit_floats() {
    for ty in ["f8e4m3fn", "f8e5m2"] {
        let body = "all_gather(x, dim: 0, over: tp, using: ring)";
        let text = head(3) + &format!("program case(x: {ty}[n@tp]) -> {ty}[n] {{ {body} }}\n");
        emitted(&text).check(&[(3, 0), (3, 1), (4, 100), (4, 16_389)], 3);
    }
    let cast = head(2) + "program case(x: f32[n@tp]) -> f8e4m3fn[n] { f8e4m3fn(x) }\n";
    let why = Case::new(&cast, &[]).err().expect("there is no such conversion");
    assert!(why.contains("E470") && why.contains("a conversion of f32 to f8e4m3fn"), "{why}");
}

/// Tasks that differ in the names of their arguments alone run one kernel, and a task of another
/// size runs its own. Every task is submitted with its own arguments.
#[test]
fn tasks_that_are_alike_share_a_kernel() {
    let inputs = "x: f32[12, 16], a: f32[16, 8@tp], b: f32[16, 8@tp], c: f32[16, 12@tp], \
                  d: f32[8@tp, 6], e: f32[12@tp, 6]";
    let lets = "let q = relu(matmul(x, a)); let k = relu(matmul(x, b)); let v = relu(matmul(x, c));";
    let body = format!("{lets} all_reduce(matmul(q + k, d) + matmul(v, e), sum, over: tp)");
    let mut case = emitted(&(head(2) + &format!("program case({inputs}) -> f32[12, 6] {{ {body} }}\n")));
    let tasks: Vec<&[usize]> = case.sources.iter().map(|s| &s.tasks[..]).collect();
    let shared = tasks.iter().filter(|t| t.len() > 1).count();
    assert_eq!(shared, 2, "the products with `a` and `b`, and their `relu`: {tasks:?}");
    let [text, ..] = case.target.orchestration(&case.kernel, &case.sources).expect("a program of tasks");
    let submitted = |number: usize| text.matches(&format!("_task({number}, ")).count();
    for (number, list) in tasks.iter().enumerate() {
        assert_eq!(submitted(number), list.len(), "{text}");
    }
    let first = case.sources.iter().find(|s| s.tasks.len() > 1).expect("a shared kernel");
    assert!(first.text.contains(", tasks t0 and t2: "), "{}", first.text);
    let size = (case.ranks()[0], 0);
    case.check(&[size], 2);
}

/// An intermediate value takes the memory of an earlier one if its first task comes after all users
/// of that one anyway. Values of independent chains share nothing, so the chains can run side by
/// side.
#[test]
fn intermediate_values_share_memory() {
    let chain = |x: &str, name: &str| -> String {
        let one = |i: usize| {
            format!(
                "let {name}{i} = relu(matmul({}, w)); ",
                if i == 0 { x.into() } else { format!("{name}{}", i - 1) }
            )
        };
        (0..4).map(one).collect()
    };
    let inputs = "x: f32[12, 16], y: f32[12, 16], w: f32[16, 16]";
    let two = chain("x", "a") + &chain("y", "b");
    for (body, value, places) in [(chain("x", "a"), "a3", 2), (two, "a3 + b3", 4)] {
        let text = head(2) + &format!("program case({inputs}) -> f32[12, 16] {{ {body} {value} }}\n");
        let mut case = emitted(&text);
        let at: std::collections::BTreeSet<String> =
            case.kernel.areas.iter().map(|a| a.at.as_ref().expect("it is laid out").to_string()).collect();
        assert!(case.kernel.areas.len() > 2 * places, "{body}");
        assert_eq!(at.len(), places, "{body}: {at:?}");
        let size = (case.ranks()[0], 0);
        case.check(&[size], 3);
    }
}
