//! Helpers for the tests of this crate: the library of `specs/lib`, and running a pipeline on a
//! text.

use kbc_diag::{Diagnostics, FileId, SourceMap};
use kbc_ir::{Module, text};
use kbc_machine::topology::Topology;
use kbc_passes::instrument::{Instrument, RoundTrip, VerifyEach};
use kbc_passes::{PassCx, Pipeline};
use kbc_rounds::library::{Layer, Library};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns a path of the workspace.
pub fn workspace(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Adds the declarations of a `.kb` text to a library.
pub fn add(library: &mut Library, file: FileId, layer: Layer, text: &str) {
    let found = library.add(file, layer, vec![], crate::stack::parsed(file, text));
    assert!(!found.has_errors(), "{:?}", found.list);
}

/// Returns the library as it is shipped; its files have numbers from 1000.
pub fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let mut library = Library::new();
        let mut files: Vec<PathBuf> = std::fs::read_dir(workspace("specs/lib"))
            .expect("the library is there")
            .map(|e| e.expect("a directory entry").path())
            .filter(|p| p.extension().is_some_and(|e| e == "kb"))
            .collect();
        files.sort();
        for (i, path) in files.iter().enumerate() {
            let text = std::fs::read_to_string(path).expect("a file of the library");
            add(&mut library, FileId(1000 + i as u32), Layer::Library, &text);
        }
        library
    })
}

/// Returns the module of a text.
#[track_caller]
pub fn parse(kir: &str) -> Module {
    text::parse(FileId(0), kir).unwrap_or_else(|d| panic!("{}", words(&d, kir)))
}

/// Formats messages, one per line, with places by line of the text.
pub fn words(found: &Diagnostics, kir: &str) -> String {
    let mut map = SourceMap::default();
    map.add("input.kir", kir);
    let mut out = String::new();
    for d in &found.list {
        out += &format!("{} {}\n", d.code, d.title);
        for l in &d.labels {
            let place = map.line_col(l.span).map_or("-".into(), |(line, _)| format!("line {line}"));
            out += &format!("    {place}: {}\n", l.text);
        }
        d.notes.iter().for_each(|n| out += &format!("    note: {n}\n"));
        d.help.iter().for_each(|h| out += &format!("    help: {h}\n"));
    }
    out
}

/// Runs a pipeline on a text with all checks enabled.
pub fn run(kir: &str, passes: &str) -> Result<(Module, kbc_passes::Findings), Diagnostics> {
    let mut module = parse(kir);
    let machine = module.machine.clone();
    let topology = machine.map(|m| Topology::parse(&m, FileId(1)).expect("the machine of a test"));
    let cx = PassCx::new(library(), topology.as_ref());
    let mut checks: Vec<Box<dyn Instrument>> = vec![Box::new(VerifyEach), Box::<RoundTrip>::default()];
    let mut watch: Vec<&mut dyn Instrument> = vec![];
    for c in &mut checks {
        watch.push(&mut **c);
    }
    Pipeline::parse(passes, FileId(2))?.run(&mut module, &cx, &mut watch)?;
    let findings = cx.findings.borrow().clone();
    Ok((module, findings))
}
