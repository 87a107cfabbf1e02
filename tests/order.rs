//! Tests that results depend neither on which of the runnable streams runs first, nor on the
//! process: every program of specs and every execution case, byte for byte.

use crate::common;

use common::{Scratch, root};
use kbc_backend_sim::interp::{self, RunOptions, RunResult};
use kbc_backend_sim::jit;
use kbc_diag::FileId;
use kbc_ir::schedule::{BufferRole, Schedule};
use kbc_numerics::generate::{exact, exact_range};
use kbc_numerics::tensor::{Data, Tensor};
use std::path::Path;

const CALLS: u32 = 3;
const SEEDS: u64 = 8;

/// Returns the schedule of a text.
fn schedule(text: &str) -> Option<Schedule> {
    kbc_ir::text::parse(FileId(0), text).ok()?.schedule().cloned()
}

fn inputs(s: &Schedule) -> Vec<Vec<Tensor>> {
    let mut types: Vec<_> = s
        .buffers
        .iter()
        .filter_map(|b| match (b.role, &b.global) {
            (BufferRole::Input(n), Some(ty)) => Some((n, ty)),
            _ => None,
        })
        .collect();
    types.sort_by_key(|t| t.0);
    let one = |call| {
        types.iter().map(move |(n, ty)| {
            let range = exact_range(ty.dtype, s.mesh.ranks(), 1, false);
            exact(ty, &s.mesh, range, *n, call).expect("an input")
        })
    };
    (0..CALLS).map(|call| one(call).collect()).collect()
}

fn bytes(data: &Data, out: &mut Vec<u8>) {
    out.extend(data.to_bytes());
}

/// Returns every result of every rank in every call, and everything that hosts read.
fn all_bytes(r: &RunResult) -> Vec<u8> {
    let mut out = vec![];
    r.outputs.iter().flatten().flatten().for_each(|p| bytes(p.tensor.data(), &mut out));
    r.reads.iter().flatten().flatten().for_each(|p| bytes(p.tensor.data(), &mut out));
    out
}

/// Checks the order of ranks and random orders, interpreted and compiled.
fn same_in_every_order(name: &str, s: &Schedule) {
    let feeds = inputs(s);
    let options = |seed| RunOptions { calls: CALLS, seed, ..RunOptions::default() };
    let Ok(base) = interp::run(s, &feeds, &options(None)) else {
        // Which rank fails first may depend on the order; that the run fails must not.
        for seed in 0..SEEDS {
            assert!(interp::run(s, &feeds, &options(Some(seed))).is_err(), "{name}, seed {seed}");
        }
        return;
    };
    let base = all_bytes(&base);
    assert!(!base.is_empty(), "{name}");
    let spelled = kbc_ir::host::with_host_region(s);
    let code = jit::compile(&spelled).unwrap_or_else(|d| panic!("{name}: {d:?}"));
    for seed in (0..SEEDS).map(Some).chain([None]) {
        let run = interp::run(s, &feeds, &options(seed)).unwrap_or_else(|d| panic!("{name}: {d:?}"));
        assert!(all_bytes(&run) == base, "{name}, interpreted, seed {seed:?}");
        let run = code.run(&feeds, &options(seed)).unwrap_or_else(|d| panic!("{name}: {d:?}"));
        assert!(all_bytes(&run) == base, "{name}, compiled, seed {seed:?}");
    }
}

fn texts(dir: &Path, ext: &str) -> Vec<(String, String)> {
    let mut all: Vec<_> =
        std::fs::read_dir(dir).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == ext));
    all.sort();
    let name = |p: &Path| p.file_name().expect("a file").to_string_lossy().into_owned();
    all.iter().map(|p| (name(p), std::fs::read_to_string(p).expect("a text"))).collect()
}

#[test]
fn programs_give_the_same_bytes_in_every_order_and_process() {
    let scratch = Scratch::new();
    let mut seen = 0;
    for (name, text) in texts(&root().join("specs"), "kb") {
        if !text.lines().any(|l| l.starts_with("program ")) {
            continue;
        }
        let sizes = common::free_sizes(&format!("specs/{name}"), &text).join(" ");
        let command = format!("kbc compile specs/{name} --emit kir {sizes}");
        let (one, two) = (scratch.line(&command), scratch.line(&command));
        assert_eq!((one.code, &one), (0, &two), "{name}");
        let s = schedule(&one.stdout).unwrap_or_else(|| panic!("{name}: no schedule"));
        same_in_every_order(&name, &s);
        let command = format!("kbc run specs/{name} --seed 3 --format json {sizes}");
        assert_eq!(scratch.line(&command), scratch.line(&command), "{name}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
}

#[test]
fn execution_cases_give_the_same_bytes_in_every_order() {
    let mut seen = 0;
    for (name, text) in texts(&root().join("tests/exec"), "kir") {
        // Schedules that the checker rejects may differ, which is why it rejects them.
        let refused = text.contains("check $ => fails");
        if let Some(s) = schedule(&text).filter(|_| !refused) {
            same_in_every_order(&name, &s);
            seen += 1;
        }
    }
    assert!(seen >= 7, "{seen}");
}
