//! Helpers for the tests of loading and lowering: texts from disk, and options in the first lines
//! of a case.

#![allow(dead_code, reason = "every test is a program of its own and uses a part of it")]

use kbc_diag::{Diagnostic, Diagnostics, FileId, SourceMap};
use kbc_frontend::load::{Sources, load};
use kbc_frontend::lower::{LowerOptions, Lowered, RequestedAlgorithm, lower};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files of a test by their canonical paths.
#[derive(Default)]
pub struct Disk {
    pub map: SourceMap,
    paths: BTreeMap<PathBuf, FileId>,
    dirs: BTreeMap<FileId, PathBuf>,
}

impl Disk {
    /// Reads a file, or returns the one that was read before.
    pub fn read(&mut self, path: &Path) -> Result<(FileId, String), Diagnostic> {
        let cannot = |e: std::io::Error| {
            Diagnostic::error("E412", format!("cannot read {}: {}", path.display(), e.kind()))
        };
        let path = path.canonicalize().map_err(cannot)?;
        let text = std::fs::read_to_string(&path).map_err(cannot)?;
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let id = *self.paths.entry(path.clone()).or_insert_with(|| self.map.add(name, text.clone()));
        self.dirs.insert(id, path.parent().map_or_else(PathBuf::new, Path::to_path_buf));
        Ok((id, text))
    }
}

impl Sources for Disk {
    fn builtin(&mut self, name: &'static str, text: &'static str) -> FileId {
        self.map.add_builtin(name, text)
    }

    fn open(&mut self, from: FileId, path: &str) -> Result<(FileId, String), Diagnostic> {
        let dir = self.dirs.get(&from).cloned().unwrap_or_default();
        self.read(&dir.join(path))
    }
}

/// Returns the options of each run of a case: its lines `//@ -D tp=2 --topology ring(7)`, or one
/// run without any.
pub fn runs(text: &str) -> Vec<String> {
    let lines: Vec<String> =
        text.lines().filter_map(|l| l.strip_prefix("//@")).map(|l| l.trim().to_owned()).collect();
    // A program of `specs` with free sizes states them in its first command.
    let command = text.lines().find_map(|l| l.strip_prefix("//     kbc compile specs/attention.kb "));
    let free = command.and_then(|c| c.split_once("-D ")).map(|c| format!("-D {}", c.1));
    if lines.is_empty() { vec![free.unwrap_or_default()] } else { lines }
}

/// Parses options as a command line has them.
pub fn options(line: &str, disk: &mut Disk) -> LowerOptions {
    let mut out = LowerOptions::default();
    let mut words = line.split_whitespace();
    while let Some(flag) = words.next() {
        let value = words.next().expect("a value behind a flag").to_owned();
        match flag {
            "-D" => {
                let (name, value) = value.split_once('=').expect("NAME=VALUE");
                out.defines.push((name.into(), value.into()));
            }
            "--mesh" => out.mesh = Some(value),
            "--program" => out.program = Some(value),
            "--algorithm" => out.algorithm = Some(RequestedAlgorithm::named(value)),
            "--topology" => {
                let file = disk.map.add("--topology", value.clone());
                out.topology = Some((value, file));
            }
            other => panic!("no option {other}"),
        }
    }
    out
}

/// Loads a file and lowers it; the messages of loading come first.
pub fn compile(path: &Path, line: &str) -> (Disk, Result<Lowered, Diagnostics>) {
    let mut disk = Disk::default();
    let root = disk.read(path).expect("the file of a case");
    let (loaded, mut found) = load(Some(root), &mut disk);
    let options = options(line, &mut disk);
    let result = lower(&loaded, &options);
    if !found.has_errors() {
        return (disk, result);
    }
    // As in the driver: what loading has reported is not reported again.
    for d in result.err().unwrap_or_default() {
        if !found.list.iter().any(|f| f.span() == d.span()) {
            found.push(d);
        }
    }
    (disk, Err(found))
}
