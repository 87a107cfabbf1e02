//! Tests that the cases of `tests/ascend/real/run.py`, which run on the real runtime, exist and
//! cover what they should. Every size is one that an emitted package claims. The covering array
//! combines every algorithm of the library, rank count, element type and class of counts; later
//! algorithms have sizes of their own. To add a case, add a line to
//! `tests/ascend/real/launches.csv` or `library.csv`. Programs with matmuls are in `layers.csv`,
//! those on several cores in `cores.csv`, those with pulls in `pull.csv`.

use crate::cases::all_cases;
use crate::common;
use crate::needs::{Need, found};

use common::{Scratch, kbc, root};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// Rank counts at which every algorithm that supports them runs.
const RANKS: [u64; 5] = [2, 3, 4, 5, 8];
const MANY: u64 = 16;
/// Largest number of sizes of the array.
const MAX_SIZES: usize = 150;
/// Collectives that are emitted.
const COLLECTIVES: [&str; 5] = ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast"];

/// Algorithms that are emitted, but have not run on the real runtime yet: new ones, until they have
/// a row in a table.
const NOT_RUN: [(&str, &str); 0] = [];

/// Classes of counts.
const CLASSES: [&str; 5] = ["none", "one", "fewer than ranks", "prime", "more than a tile"];

fn classes(ranks: u64, n: u64) -> Vec<&'static str> {
    let prime = n > ranks && (2..n).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    let few = n > 1 && n < ranks;
    let holds = [n == 0, n == 1, few, prime, n > 4096];
    CLASSES.into_iter().zip(holds).filter(|c| c.1).map(|c| c.0).collect()
}

/// A line: a package and its sizes.
struct Line {
    file: String,
    program: String,
    defines: Vec<String>,
    /// Ranks and count; no count if all sizes of the kernel are fixed.
    sizes: Vec<(u64, Option<u64>)>,
    /// Its source text, from `program NAME` to the next one.
    text: String,
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|e| panic!("{word}: {e}"))
}

/// The covering array.
const ARRAY: &str = "launches.csv";
/// Every other algorithm.
const OTHERS: &str = "library.csv";
/// Programs with matmuls.
const LAYERS: &str = "layers.csv";
/// Programs on several cores of a rank.
const CORES: &str = "cores.csv";
/// Programs whose receivers pull.
const PULL: &str = "pull.csv";

fn lines(table: &str) -> Vec<Line> {
    let dir = root().join("tests/ascend/real");
    let table = std::fs::read_to_string(dir.join(table)).expect("the table");
    let mut rows = table.lines();
    assert_eq!(rows.next(), Some("file,program,defines,sizes,iterations"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split(',').collect();
        let [file, program, defines, sizes, iterations] = cells[..] else { panic!("{row}") };
        assert!(number(iterations) >= 2, "{row}: one launch says nothing about the next");
        let source = std::fs::read_to_string(dir.join(file)).expect(file);
        let begins = |sign: char| source.split_once(&format!("program {program}{sign}"));
        let (_, after) = begins('(').or_else(|| begins('[')).unwrap_or_else(|| panic!("{row}"));
        let size = |s: &str| match s.split_once('x') {
            Some((r, n)) => (number(r), Some(number(n))),
            None => (number(s), None),
        };
        Line {
            file: file.into(),
            program: program.into(),
            defines: defines.split_whitespace().map(str::to_owned).collect(),
            sizes: sizes.split_whitespace().map(size).collect(),
            text: after.split("\nprogram ").next().unwrap_or("").into(),
        }
    })
    .collect()
}

/// Returns the collective and the algorithm of a program of one call; other programs do not count
/// as coverage.
fn used(text: &str) -> Option<(&'static str, String)> {
    let (head, after) = text.split_once("using: ")?;
    let collective = COLLECTIVES.into_iter().find(|c| head.contains(&format!("{c}(")))?;
    let name = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!after.contains("using: ")).then_some((collective, name))
}

/// Returns every algorithm that the library has for a collective.
fn library() -> BTreeSet<(&'static str, String)> {
    let mut out = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("specs/lib")).expect("the library") {
        let text = std::fs::read_to_string(entry.expect("a file").path()).expect("a text");
        // A head may have several lines.
        for head in format!("\n{text}").split("\nalgorithm ").skip(1).filter_map(|t| t.split('{').next()) {
            let name: String = head.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            // `NAME: COLLECTIVE` or `NAME(parameters): COLLECTIVE`.
            let after = match head.strip_prefix(&format!("{name}(")) {
                Some(parameters) => parameters.split_once("):").expect("a head").1,
                None => head.split_once(':').expect("a head").1,
            };
            let collective = after.split_whitespace().next();
            out.extend(COLLECTIVES.iter().find(|c| Some(**c) == collective).map(|c| (*c, name)));
        }
    }
    out
}

#[test]
fn every_size_is_claimed_by_its_package() {
    let scratch = Scratch::new();
    for (i, line) in lines(ARRAY)
        .iter()
        .chain(&lines(OTHERS))
        .chain(&lines(LAYERS))
        .chain(&lines(CORES))
        .chain(&lines(PULL))
        .enumerate()
    {
        if !all_cases() && i % 6 > 0 {
            continue;
        }
        let source = root().join("tests/ascend/real").join(&line.file);
        let (source, out) = (source.to_string_lossy(), format!("out{i}"));
        let mut args =
            vec!["compile", &source, "--program", &line.program, "--target", "a2a3", "-q", "-o", &out];
        line.defines.iter().for_each(|d| args.extend(["-D", d]));
        let ran = kbc(scratch.path(), &args, "");
        assert_eq!(ran.code, 0, "{args:?}\n{}", ran.stderr);
        let manifest =
            std::fs::read_to_string(scratch.path().join(&out).join("manifest.json")).expect("written");
        let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
        let ranks: Vec<u64> =
            manifest["ranks"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
        for (r, n) in &line.sizes {
            assert!(ranks.contains(r), "{}: {r} ranks of {ranks:?}", line.program);
            let largest = manifest["count"]["largest"].as_u64();
            assert_eq!(n.is_some(), largest.is_some(), "{}: a count where one can be chosen", line.program);
            assert!(*n <= largest, "{}: {n:?}", line.program);
        }
    }
}

fn lines_of_others() -> Vec<(&'static str, String)> {
    lines(OTHERS).iter().map(|l| used(&l.text).expect("a program of one call")).collect()
}

#[test]
fn the_array_covers() {
    let lines = lines(ARRAY);
    assert!(lines.iter().map(|l| l.sizes.len()).sum::<usize>() <= MAX_SIZES);
    let (mut at_ranks, mut at_count) = (BTreeSet::new(), BTreeSet::new());
    let (mut with_type, mut combined) = (BTreeSet::new(), BTreeSet::new());
    for line in &lines {
        let word = |w: &str| line.text.contains(w);
        for (r, n) in &line.sizes {
            let classes = classes(*r, n.expect("the array is of kernels whose count can be chosen"));
            for ty in ["f32", "f16", "bf16", "i32"].iter().filter(|ty| word(&format!(": {ty}["))) {
                with_type.insert((ty.to_string(), r.to_string()));
                with_type.extend(classes.iter().map(|c| (ty.to_string(), c.to_string())));
                combined.extend(["sum", "max", "min"].iter().filter(|c| word(c)).map(|c| (*ty, *c)));
            }
            if let Some(algorithm) = used(&line.text) {
                at_ranks.insert((algorithm.clone(), *r));
                at_count.extend(classes.iter().map(|c| (algorithm.clone(), *c)));
            }
        }
    }
    let grid = |name: &str| name.ends_with('2');
    let power = |name: &str| ["halving", "doubling"].contains(&name);
    let algorithms = library();
    assert!(algorithms.len() > 20, "{algorithms:?}");
    let others: BTreeSet<_> = lines_of_others().into_iter().collect();
    let ran = |a: &(&str, String)| at_ranks.iter().any(|(b, _)| b == a);
    let mut not_run: BTreeSet<_> = NOT_RUN.iter().map(|(c, name)| (*c, (*name).to_owned())).collect();
    for algorithm in &algorithms {
        let listed = not_run.remove(algorithm);
        let tabled = ran(algorithm) || others.contains(algorithm);
        assert!(tabled || listed, "{algorithm:?} is in no table");
        assert!(!(tabled && listed), "{algorithm:?} has a table and is listed as not run");
    }
    assert!(not_run.is_empty(), "no algorithms of the library: {not_run:?}");
    for algorithm in algorithms.iter().filter(|a| ran(a) && !grid(&a.1)) {
        for r in RANKS.iter().filter(|r| r.is_power_of_two() || !power(&algorithm.1)) {
            assert!(at_ranks.contains(&(algorithm.clone(), *r)), "{algorithm:?} at {r} ranks");
        }
        for class in CLASSES {
            assert!(at_count.contains(&(algorithm.clone(), class)), "{algorithm:?} with {class}");
        }
    }
    assert!(algorithms.iter().filter(|a| at_ranks.contains(&((*a).clone(), MANY))).count() >= 4);
    for ty in ["f32", "f16", "bf16", "i32"] {
        for of in RANKS.iter().chain(&[MANY]).map(u64::to_string) {
            assert!(with_type.contains(&(ty.to_owned(), of.clone())), "{ty} at {of} ranks");
        }
        for class in CLASSES {
            assert!(with_type.contains(&(ty.to_owned(), class.to_owned())), "{ty} with {class}");
        }
        for combiner in ["sum", "max"] {
            assert!(combined.contains(&(ty, combiner)), "{combiner} of {ty}");
        }
    }
}

/// Without the runtime, it states why it cannot run, in one sentence, and does not pass.
#[test]
fn a_missing_runtime_is_no_success() {
    let Some(python3) = found(Need::Python) else { return };
    let script = root().join("tests/ascend/real/run.py");
    for (simpler, words) in
        [(None, "KBC_SIMPLER is not set"), (Some("/"), "no checkout of the simpler runtime")]
    {
        let mut python = Command::new(&python3);
        python.arg(&script).env_remove("KBC_SIMPLER").env("KBC", env!("CARGO_BIN_EXE_kbc"));
        simpler.map(|s| python.env("KBC_SIMPLER", s));
        let out = python.output().expect("it started before");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
