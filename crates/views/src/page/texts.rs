//! Texts of a page: the source files of the schedule's operations, the types and placements of
//! values, and the schedule as `.kir` with the line of every operation.

use kbc_compiler::build::Built;
use kbc_compiler::timeline::scene::{Scene, source};
use kbc_compiler::values::{ValueWords, values_of};
use kbc_diag::{SourceMap, Span};
use kbc_ir::Module;
use kbc_ir::text::{self, PrintOptions};
use serde::Serialize;
use std::collections::BTreeSet;

/// A file.
#[derive(Serialize)]
pub struct FileText {
    /// Its name as given, or `<lib>/..`.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A value of the program.
#[derive(Serialize)]
pub struct ValueAt {
    /// Source position `file:line:column`.
    pub source: String,
    /// Its name as in `.kir`.
    pub name: String,
    /// Its type with its placement.
    pub r#type: String,
    /// The operation that makes it.
    pub what: String,
    /// The origin of its placement.
    pub why: String,
    /// Ranks of the part of a local program that contains it; empty in a global program.
    pub ranks: String,
}

/// An operation of the schedule.
#[derive(Serialize)]
pub struct OpText {
    /// Its first word.
    pub name: String,
    /// The operation as in `.kir`.
    pub text: String,
    /// Source position `file:line:column`, or empty.
    pub source: String,
    /// Number of its region.
    pub region: usize,
    /// Line in the schedule's text, from 0; -1 for operations of a host that is expanded.
    pub line: i64,
}

/// Returns the files that contain operations of the schedule or values of the program, the given
/// file first.
pub fn files(map: &SourceMap, given: &str, scene: &Scene<'_>, values: &[ValueAt]) -> Vec<FileText> {
    let name = |source: &str| source.rsplitn(3, ':').nth(2).unwrap_or("").to_owned();
    let mut wanted: BTreeSet<String> = scene.ops.iter().map(|o| name(&o.source)).collect();
    wanted.extend(values.iter().map(|v| name(&v.source)));
    wanted.insert(given.to_owned());
    let mut out: Vec<FileText> = vec![];
    for (_, file) in map.files() {
        if wanted.remove(&*file.name) {
            out.push(FileText { name: file.name.to_string(), text: file.text.to_string() });
        }
    }
    out.sort_by_key(|f| (f.name != given, f.name.clone()));
    out
}

/// Returns the values of a program with types and placements.
pub fn values(map: &SourceMap, built: &Built) -> Vec<ValueAt> {
    let at = |ranks: &str, v: ValueWords| ValueAt {
        source: source(map, v.span),
        name: v.name,
        r#type: v.ty,
        what: v.what,
        why: v.why,
        ranks: ranks.to_owned(),
    };
    match &built.local {
        None => values_of(&built.placed).into_iter().map(|v| at("", v)).collect(),
        Some(local) => {
            let part = |p: &kbc_ir::local::LocalPart| {
                let ranks: Vec<String> = p.ranks.iter().map(u64::to_string).collect();
                let ranks = ranks.join(", ");
                values_of(&p.graph).into_iter().map(|v| at(&ranks, v)).collect::<Vec<_>>()
            };
            local.parts.iter().flat_map(part).collect()
        }
    }
}

/// Returns the schedule's text and its operations.
pub fn schedule(module: &Module, scene: &Scene<'_>) -> (String, Vec<OpText>) {
    let kir = text::print(module, &PrintOptions::default());
    let lines: Vec<&str> = kir.lines().map(str::trim).collect();
    let mut at = lines.iter().position(|l| l.starts_with("region ")).unwrap_or(0);
    let mut ops = vec![];
    for (number, o) in scene.ops.iter().enumerate() {
        let (name, text) = (scene.op(number as u32), scene.text(number as u32));
        // Operations are numbered in the order of the text.
        let line = lines.iter().skip(at).position(|l| *l == text).map(|n| at + n);
        at = line.map_or(at, |l| l + 1);
        ops.push(OpText {
            name: name.to_owned(),
            text: text.to_owned(),
            source: o.source.to_string(),
            region: o.region,
            line: line.map_or(-1, |l| l as i64),
        });
    }
    (kir, ops)
}

/// Returns the source position of a region.
pub fn origin(map: &SourceMap, span: Span) -> String {
    source(map, span)
}
