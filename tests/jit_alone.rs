//! Tests of programs and the library's algorithms as machine code in a process that may not enter
//! the interpreter's data path. Results are compared with the reference evaluator, which shares
//! only scalar functions with it.

use crate::common;
use kbc_compiler::watch::Unwatched;

use clap::Parser;
use common::{Scratch, root};
use kbc::cli::{Cli, Command};
use kbc::session::{Failure, Session};
use kbc_audit::fuzz;
use kbc_audit::fuzz::catalogue::Catalogue;
use kbc_backend_sim::data_path;
use kbc_backend_sim::interp::{self, RunOptions};
use kbc_compiler::analyse::{self, Executed};
use kbc_compiler::build::{Built, build};
use kbc_ir::Name;
use kbc_ir::graph::CollKind;
use kbc_ir::types::Axis;
use std::path::{Path, PathBuf};

/// Executes a program's schedule as machine code in a random order; every element must be right in
/// every call.
fn right(line: &str, calls: u32) -> (Built, Executed) {
    tried(line, calls).unwrap_or_else(|| panic!("{line}: refused for its blocks"))
}

/// Does the same; returns `None` if blocks of unequal length are rejected (E332).
fn tried(line: &str, calls: u32) -> Option<(Built, Executed)> {
    data_path::forbid();
    let cli =
        Cli::parse_from(["kbc", "--quiet", "run", "--engine", "jit"].into_iter().chain(line.split(' ')));
    let mut session = Session::new(&cli);
    let Command::Run(args) = &cli.command else { unreachable!("it says run") };
    let built = match build(&mut session, &args.source.plain(), "default", &mut Unwatched) {
        Ok(built) => built,
        Err(Failure::Program(d)) if d.list.iter().all(|d| d.code == "E332") => return None,
        Err(e) => panic!("{line}: {e:#?}"),
    };
    let schedule = built.module.schedule().expect("the pipeline ends with a schedule");
    let done = analyse::execute(
        &session,
        &built,
        schedule,
        &args.execution.data.plain(),
        calls,
        Some(7),
        &mut Unwatched,
    )
    .unwrap_or_else(|e| panic!("{line}: {e:#?}"));
    assert!(analyse::passes(&done.compare), "{line}: {:#?}", done.compare);
    assert!(done.expect.iter().all(analyse::passes), "{line}: {:#?}", done.expect);
    Some((built, done))
}

fn programs(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        let own =
            |p: &Path| std::fs::read_to_string(p).expect("a text").lines().any(|l| l.starts_with("program "));
        if path.is_dir() && !path.ends_with("bench") && !path.ends_with("lib") {
            programs(&path, out);
        } else if path.extension().is_some_and(|e| e == "kb") && own(&path) {
            out.push(path);
        }
    }
    out.sort();
}

#[test]
#[ignore = "runs in a process of its own"]
fn the_programs_of_specs_are_right_without_the_interpreter() {
    let mut all = vec![];
    programs(&root().join("specs"), &mut all);
    assert!(all.len() > 8, "{all:?}");
    for path in all {
        let text = std::fs::read_to_string(&path).expect("a text");
        let name = path.strip_prefix(root()).expect("it was found there").to_string_lossy();
        let line = [vec![&*path.to_string_lossy()], common::free_sizes(&name, &text)].concat().join(" ");
        let (_, done) = right(&line, 1);
        assert!(done.compare.elements > 0, "{}", path.display());
    }
}

const KINDS: [CollKind; 8] = [
    CollKind::AllReduce,
    CollKind::ReduceScatter,
    CollKind::AllGather,
    CollKind::AllToAll,
    CollKind::Broadcast,
    CollKind::Scatter,
    CollKind::Reduce,
    CollKind::Gather,
];

/// Returns a collective as a program: type of the argument, type of the result, arguments.
fn forms(kind: CollKind, dtype: &str, root: u64) -> (String, String, String) {
    let (part, only) = ("partial(sum@tp)", format!("only({root}@tp)"));
    match kind {
        CollKind::AllReduce => (format!("{dtype}[7] {part}"), format!("{dtype}[7]"), ", sum".into()),
        CollKind::ReduceScatter => {
            (format!("{dtype}[7] {part}"), format!("{dtype}[7@tp]"), ", sum, dim: 0".into())
        }
        CollKind::Reduce => {
            (format!("{dtype}[7] {part}"), format!("{dtype}[7] {only}"), format!(", sum, to: {root}"))
        }
        CollKind::AllGather => (format!("{dtype}[7@tp]"), format!("{dtype}[7]"), ", dim: 0".into()),
        CollKind::Gather => {
            (format!("{dtype}[7@tp]"), format!("{dtype}[7] {only}"), format!(", dim: 0, to: {root}"))
        }
        CollKind::Broadcast => {
            (format!("{dtype}[7] {only}"), format!("{dtype}[7]"), format!(", from: {root}"))
        }
        CollKind::Scatter => {
            (format!("{dtype}[7] {only}"), format!("{dtype}[7@tp]"), format!(", dim: 0, from: {root}"))
        }
        // Blocks of equal length on 1, 2, 3, 4, 6 and 7 ranks.
        CollKind::AllToAll | CollKind::Slice | CollKind::Barrier | CollKind::ByContract => {
            (format!("{dtype}[84@tp, 84]"), format!("{dtype}[84, 84@tp]"), ", from: 0, to: 1".into())
        }
    }
}

#[test]
#[ignore = "runs in a process of its own"]
fn the_librarys_algorithms_are_right_without_the_interpreter() {
    let dir = Scratch::new();
    let loaded = fuzz::library();
    let catalogue = Catalogue::new(&loaded);
    let (mut ran, mut used) = (0, std::collections::BTreeSet::new());
    let mut equal_alone = std::collections::BTreeSet::new();
    for sides in [vec![1u64], vec![2], vec![3], vec![4], vec![7], vec![2, 3], vec![3, 2], vec![2, 1, 2]] {
        let size = sides.iter().product();
        let parts = ["x", "y", "z"].iter().zip(&sides).map(|(n, s)| (Name::from(*n), *s)).collect();
        let axis = Axis { name: Name::from("tp"), size, parts };
        let list: Vec<String> = sides.iter().map(u64::to_string).collect();
        for kind in KINDS {
            let root = kind.rooted().then_some(size - 1);
            for decl in catalogue.legal(kind.name(), &axis, root) {
                let name = &decl.name.node;
                let dtype = ["f32", "bf16", "i32", "f16"][ran % 4];
                let (from, to, args) = forms(kind, dtype, size - 1);
                let text = format!(
                    "topology sys = mesh({})\nmesh m = sys[tp]\nprogram one(x: {from}) -> {to} {{\n    {}(x{args}, over: tp, using: {name})\n}}\n",
                    list.join(", "),
                    kind.name()
                );
                let path = dir.path().join(format!("{}-{name}-{}.kb", kind.name(), list.join("x")));
                std::fs::write(&path, &text).expect("a scratch folder");
                let exact = |done: &Executed| {
                    assert!(
                        done.compare.elements > 0 && done.compare.max_err == Some(0.0),
                        "{:#?}",
                        done.compare
                    );
                };
                exact(&right(&path.to_string_lossy(), 2).1);
                if kind == CollKind::AllToAll {
                    std::fs::write(&path, text.replace("84", "23")).expect("a scratch folder");
                    match tried(&path.to_string_lossy(), 2) {
                        Some((_, done)) => exact(&done),
                        None => drop(equal_alone.insert(name.clone())),
                    }
                }
                used.insert(format!("{} {name}", kind.name()));
                ran += 1;
            }
        }
    }
    // Algorithms that use scratch take blocks of one length; those that put each block where it
    // belongs take any.
    assert!(!equal_alone.contains("direct") && !equal_alone.contains("pairwise"), "{equal_alone:?}");
    // All algorithms of the library ran on some shape, except those of collectives that no
    // operation of a program can call.
    let operations: Vec<&str> = KINDS.iter().map(|k| k.name()).collect();
    let all: std::collections::BTreeSet<String> = loaded
        .library
        .algorithms()
        .map(|a| loaded.library.algorithm(a))
        .filter(|d| operations.contains(&d.coll.node.as_str()))
        .map(|d| format!("{} {}", d.coll.node, d.name.node))
        .collect();
    assert_eq!(used, all);
}

#[test]
#[ignore = "runs in a process of its own"]
fn the_switch_forbids() {
    data_path::forbid();
    let made = fuzz::make("program s(x: f32[4@tp]) -> f32[4] { x }").expect("a program");
    let inputs = fuzz::bits::inputs(&made.schedule, &[0], 1);
    let run =
        std::panic::catch_unwind(|| interp::run(&made.schedule, &inputs, &RunOptions::default()).is_ok());
    assert!(run.is_err());
}

/// Runs the ignored tests of this module in a process of their own, because the switch cannot be
/// undone.
#[test]
fn in_a_process_of_its_own() {
    let exe = std::env::current_exe().expect("the path of this binary");
    let out = std::process::Command::new(exe)
        .args(["--ignored", "jit_alone::"])
        .output()
        .expect("it can be started once more");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("ok. 3 passed"), "{text}");
}
