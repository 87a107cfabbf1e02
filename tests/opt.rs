//! Tests of `kbc opt` on what kbc itself wrote: a compiled module is finished, and every dump leads
//! to the same end as the compilation that wrote it.

use crate::cases::all_cases;
use crate::common;
use crate::validate::validate;

use common::{Scratch, kbc, root};
use kbc_diag::FileId;
use kbc_ir::Module;
use kbc_ir::text::{equivalent, parse};
use std::path::{Path, PathBuf};

/// Collects the files below a folder with an extension, by their path from the root.
fn files(dir: &Path, extension: &str, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, extension, out);
        } else if path.extension().is_some_and(|e| e == extension) {
            out.push(path.strip_prefix(root()).expect("below the root").to_owned());
        }
    }
    out.sort();
}

fn module(text: &str, what: &str) -> Module {
    parse(FileId(0), text).unwrap_or_else(|d| panic!("{what}: {:#?}", d.list))
}

/// Runs `kbc opt` on a text, with the algorithms of a file of the source.
fn opt(scratch: &Scratch, text: &str, uses: &str) -> common::Ran {
    let uses = root().join(uses);
    kbc(scratch.path(), &["opt", "-", "--use", &uses.to_string_lossy()], text)
}

/// Every program of `specs/`: its compiled module is left as it is, and each module between two
/// passes, and the graph of `--emit graph`, continue to the compiled one. All of them as JSON
/// follow the schema.
#[test]
fn opt_continues_what_compile_began() {
    let mut all = vec![];
    files(&root().join("specs"), "kb", &mut all);
    let schema = std::fs::read_to_string(root().join("docs/kir.schema.json")).expect("a schema");
    let schema = serde_json::from_str(&schema).expect("JSON");
    let (mut programs, mut dumps) = (0, 0);
    for path in all {
        let name = path.to_string_lossy();
        let text = std::fs::read_to_string(root().join(&path)).expect("found above");
        let program = text.lines().any(|l| l.starts_with("program ") || l.starts_with("local program "));
        if path.starts_with("specs/lib") || !(program || path.starts_with("specs/algorithms")) {
            continue;
        }
        let scratch = Scratch::new();
        let at = |file: &str| scratch.path().join(file).to_string_lossy().into_owned();
        let (end, graph, dump) = (at("end.kir"), at("graph.kir"), at("dump"));
        let emit = [format!("kir={end}"), format!("graph={graph}"), "json".into()];
        let mut args = vec!["compile", &name, "--emit", &emit[0], "--emit", &emit[1], "--emit", &emit[2]];
        args.extend(["--dump-dir", &dump]);
        args.extend(common::free_sizes(&name, &text));
        let ran = kbc(root(), &args, "");
        assert_eq!(ran.code, 0, "{name}: {}", ran.stderr);
        let json = serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{name}: {e}"));
        validate(&schema, &json).unwrap_or_else(|e| panic!("{name}: {e}"));
        let read = |file: &str| std::fs::read_to_string(file).expect("it was written");
        let compiled = read(&end);
        let want = module(&compiled, &name);
        let same = opt(&scratch, &compiled, &name);
        assert_eq!((same.code, same.stdout == compiled), (0, true), "{name}, compiled: {}", same.stderr);
        let mut steps: Vec<PathBuf> =
            std::fs::read_dir(&dump).expect("a folder").map(|e| e.expect("an entry").path()).collect();
        steps.retain(|p| p.extension().is_some_and(|e| e == "kir"));
        steps.sort();
        steps.push(graph.into());
        for (i, step) in steps.into_iter().enumerate() {
            if !all_cases() && (programs + i) % 3 > 0 {
                continue;
            }
            let step = step.to_string_lossy();
            let ran = opt(&scratch, &read(&step), &name);
            assert_eq!(ran.code, 0, "{name}, {step}: {}", ran.stderr);
            let got = module(&ran.stdout, &name);
            let json = serde_json::from_str(&kbc_ir::text::json(&module(&read(&step), &name))).expect("JSON");
            validate(&schema, &json).unwrap_or_else(|e| panic!("{name}, {step}: {e}"));
            assert!(equivalent(&got, &want), "{name}, {step}: another end:\n{}", ran.stdout);
            dumps += 1;
        }
        programs += 1;
    }
    let least = if all_cases() { 6 } else { 2 };
    assert!(programs >= 8 && dumps > least * programs, "{programs} programs, {dumps} dumps");
}

/// Every schedule of the repository that verifies: E901, a pass that runs too early, is not
/// reached, and what `kbc opt` writes is finished.
#[test]
fn opt_finishes_every_schedule() {
    let mut all = vec![];
    for folder in ["specs", "crates/ir/tests/kir/good", "crates/ir/tests/kir/forms", "tests/exec"] {
        files(&root().join(folder), "kir", &mut all);
    }
    let scratch = Scratch::new();
    let mut finished = 0;
    for path in all {
        let text = std::fs::read_to_string(root().join(&path)).expect("found above");
        let ran = opt(&scratch, &text, "specs/lib/ring.kb");
        assert!(!ran.stderr.contains("E90"), "{path:?}: {}", ran.stderr);
        if ran.code == 0 {
            let again = opt(&scratch, &ran.stdout, "specs/lib/ring.kb");
            assert_eq!((again.code, again.stdout), (0, ran.stdout), "{path:?}: {}", again.stderr);
            finished += 1;
        }
    }
    assert!(finished > 20, "{finished}");
}
