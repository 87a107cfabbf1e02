//! Format of sweep files.
//!
//! This module owns the keys of the file and the errors about them (E583). [`super::grid`] fills in
//! `{axis}`.

use crate::yaml;
use kbc_diag::{Diagnostic, FileId, Span};
use serde::Deserialize;
use serde_yaml::{Mapping, Value};
use std::collections::BTreeMap;

/// The version of the format that is read.
pub const FORM: u32 = 1;

/// A sweep file.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Version of the format.
    pub sweep: u32,
    /// A short description, which is the title of figures.
    pub title: String,
    /// A longer description.
    #[serde(default)]
    pub about: Option<String>,
    /// A template: a `.kb` or `.kir` file relative to this one.
    #[serde(default)]
    pub file: Option<String>,
    /// A template, in place of `file`: the text of a program.
    #[serde(default)]
    pub text: Option<String>,
    /// A template, in place of `file`: a kernbench ccl.yaml relative to this file, whose entries
    /// run as in `kbc dev bench ccl`.
    #[serde(default)]
    pub ccl: Option<String>,
    /// A template: the value of `--program`, the program of the file, if it has several. Without
    /// `file`, `text` and `ccl`, the old spelling of `file` or `text`.
    #[serde(default)]
    pub program: Option<String>,
    /// The old spelling of `program`.
    #[serde(default)]
    named: Option<String>,
    /// A template: the value of `--algorithm`.
    #[serde(default)]
    pub algorithm: Option<String>,
    /// A template: the value of `--ranks`.
    #[serde(default)]
    ranks: Option<Value>,
    /// A template: the value of `--topology`.
    #[serde(default)]
    pub topology: Option<String>,
    /// A template: the value of `--mesh`.
    #[serde(default)]
    pub mesh: Option<String>,
    /// Templates: the values of `--set`.
    #[serde(default)]
    pub set: Vec<String>,
    /// Templates: the values of `--using`; an empty one has no effect.
    #[serde(default)]
    pub using: Vec<String>,
    /// A template: the value of `--order`.
    #[serde(default)]
    pub order: Option<String>,
    /// A template: the value of `--effort`.
    #[serde(default)]
    effort: Option<Value>,
    /// A template: the value of `--fuse`.
    #[serde(default)]
    fuse: Option<Value>,
    /// A template: what yields the time of a row, `sim`, `host` or `mpi`.
    #[serde(default)]
    pub engine: Option<String>,
    /// How rows are measured.
    #[serde(default)]
    pub measure: Option<MeasureOptions>,
    /// Templates: the values of `-D`.
    #[serde(default)]
    define: BTreeMap<String, Value>,
    /// Axes in order, each a list of values, or a map of values to their parts.
    axes: Mapping,
    /// Templates: columns beside the axes and the usual ones.
    #[serde(default)]
    columns: Mapping,
    /// Figures to draw.
    #[serde(default)]
    pub figures: Vec<Value>,
}

/// How the processes of a row run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MeasureOptions {
    /// Rounds, in each of which every measured row runs once.
    pub rounds: u64,
    /// Calls in a measured block; the program chooses it if it is absent.
    pub repeat: Option<u64>,
    /// Checked calls of a run.
    pub calls: u64,
    /// Longest time of a wait in seconds.
    pub limit: u64,
    /// Seed of the inputs in the first round; the next round has the next one.
    pub seed: u64,
    /// Whether ranks that share memory are kept on one processor each.
    pub bind: bool,
}

impl Default for MeasureOptions {
    fn default() -> Self {
        MeasureOptions { rounds: 5, repeat: None, calls: 1, limit: 30, seed: 0, bind: true }
    }
}

impl MeasureOptions {
    /// Returns the key of a number that must not be 0, and is.
    fn zero(&self) -> Option<&'static str> {
        let MeasureOptions { rounds, repeat, calls, limit, .. } = *self;
        let all = [("rounds", rounds), ("repeat", repeat.unwrap_or(1)), ("calls", calls), ("limit", limit)];
        all.into_iter().find(|(_, n)| *n == 0).map(|(key, _)| key)
    }
}

impl Spec {
    /// Moves the values of old keys to the new ones: `program` was the file or the text, and
    /// `named` the program. The error is a message and the key to which it refers.
    fn renew(&mut self) -> Result<(), (String, &'static str)> {
        let new = self.file.is_some() || self.text.is_some() || self.ccl.is_some();
        if new && self.named.is_some() {
            return Err(("`named` is now `program`".into(), "named"));
        }
        let Some(old) = self.program.take_if(|_| !new) else { return Ok(()) };
        self.program = self.named.take();
        let to = if old.trim_end().contains('\n') { &mut self.text } else { &mut self.file };
        *to = Some(old);
        Ok(())
    }
}

/// An axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Its name, which is a column.
    pub name: String,
    /// Its values in order.
    pub values: Vec<AxisValue>,
}

/// A value of an axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AxisValue {
    /// The text in the column and for `{axis}`.
    pub label: String,
    /// The texts for `{axis.part}`.
    pub parts: BTreeMap<String, String>,
}

/// A name and its template.
pub type NamedTemplate = (String, String);

/// A file that was read. It has lists for the entries whose order serde does not keep or check.
#[derive(Clone, PartialEq, Debug)]
pub struct Read {
    /// The file.
    pub spec: Spec,
    /// Its axes.
    pub axes: Vec<Axis>,
    /// Templates of `-D`.
    pub define: Vec<NamedTemplate>,
    /// Its own columns.
    pub columns: Vec<NamedTemplate>,
    /// Template of `--ranks`.
    pub ranks: Option<String>,
    /// Template of `--effort`.
    pub effort: Option<String>,
    /// Template of `--fuse`.
    pub fuse: Option<String>,
    /// Id of the file.
    pub file: FileId,
}

impl Read {
    /// Whether the file says what yields the times. Its rows then have the columns of measured
    /// ones.
    pub fn measures(&self) -> bool {
        self.spec.engine.is_some()
    }
}

/// Returns a scalar as text, or `None` for a list or map.
pub fn scalar(v: &Value) -> Option<String> {
    match v {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

/// Returns E583 at a place of the file.
pub fn wrong(title: impl Into<String>, at: Span) -> Diagnostic {
    Diagnostic::error("E583", title).primary(at, "here").help("docs/reference/sweep.md describes sweep files")
}

/// Returns the span of a key or value under a key of the file (such as `axes`; empty for the whole
/// file). It is the first occurrence there as a separate word, or else the first in the file.
/// Searching under a key is needed because an axis is mentioned in templates before it is declared.
pub fn place(text: &str, file: FileId, under: &[&str], word: &str) -> Span {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let find = |from: usize, word: &str| {
        let bounded = |at: &usize| {
            let before = text[..*at].chars().next_back().is_none_or(|c| !part(c));
            before && text[at + word.len()..].chars().next().is_none_or(|c| !part(c))
        };
        let all = text[from..].match_indices(word).map(|m| from + m.0);
        all.filter(|_| !word.is_empty()).find(bounded)
    };
    // The first key is at the beginning of a line, the others follow it.
    let mut from = 0;
    for (i, key) in under.iter().enumerate() {
        let line = format!("\n{key}:");
        let found = match i {
            0 if text.starts_with(&line[1..]) => Some(0),
            0 => text.find(&line).map(|at| at + 1),
            _ => find(from, key),
        };
        from = found.map_or(from, |at| at + key.len());
    }
    let found = find(from, word).or_else(|| find(0, word));
    found.map_or(Span::new(file, 0, 0), |at| Span::new(file, at, at + word.len()))
}

/// Expands a doubling range such as `256..65536`; returns `None` for any other text.
pub fn doubling(text: &str) -> Option<Vec<u64>> {
    let (from, to) = text.split_once("..")?;
    let (from, to) = (from.trim().parse::<u64>().ok()?, to.trim().parse::<u64>().ok()?);
    let doubled = std::iter::successors(Some(from.max(1)), |v| v.checked_mul(2));
    Some(doubled.take_while(|v| *v <= to).collect())
}

/// Reads a sweep file.
///
/// # Errors
/// Returns E583 for YAML that cannot be read, an unknown or missing key, an axis without values, a
/// duplicate value, or a value that is not a scalar.
pub fn read(text: &str, file: FileId) -> Result<Read, Diagnostic> {
    let at = |word: &str| place(text, file, &[], word);
    let axis = |word: &str| place(text, file, &["axes"], word);
    let mut spec: Spec =
        yaml::read(text, file, &["named"]).map_err(|(fault, at)| fault.message(wrong("", at)))?;
    if spec.sweep != FORM {
        return Err(wrong(
            format!("unsupported version `sweep: {}`; this kbc reads {FORM}", spec.sweep),
            at("sweep"),
        ));
    }
    spec.renew().map_err(|(title, word)| wrong(title, at(word)))?;
    let kinds = [("file", spec.file.is_some()), ("text", spec.text.is_some()), ("ccl", spec.ccl.is_some())];
    let given: Vec<&str> = kinds.iter().filter(|k| k.1).map(|k| k.0).collect();
    match given[..] {
        [] => return Err(wrong("`file`, `text` or `ccl` is missing: what the sweep runs", at("sweep"))),
        [first, second, ..] => {
            return Err(wrong(format!("`{first}` and `{second}` exclude each other"), at(second)));
        }
        ["ccl"] => {
            let flags = [
                ("program", spec.program.is_some()),
                ("algorithm", spec.algorithm.is_some()),
                ("ranks", spec.ranks.is_some()),
                ("order", spec.order.is_some()),
                ("effort", spec.effort.is_some()),
                ("fuse", spec.fuse.is_some()),
            ];
            if let Some((key, _)) = flags.iter().find(|f| f.1) {
                let title = format!("`{key}` does not apply to a `ccl`: set keys of its file in `define`");
                return Err(wrong(title, at(key)));
            }
            if spec.engine.is_some() {
                let title = "`engine` does not apply to a `ccl`, whose entries are simulated";
                return Err(wrong(title, at("engine")));
            }
            if spec.topology.is_none() {
                let title = "a `ccl` needs `topology`, the machine on which its entries run";
                return Err(wrong(title, at("ccl")));
            }
        }
        _ => {}
    }
    if let Some(key) = spec.measure.as_ref().and_then(MeasureOptions::zero) {
        let title = format!("`{key}` of `measure` must be at least 1");
        return Err(wrong(title, place(text, file, &["measure"], key)));
    }
    let number = |key: &str, v: &Option<Value>| {
        let refused = || wrong(format!("`{key}` must be a number or a template"), at(key));
        v.as_ref().map(|v| scalar(v).ok_or_else(refused)).transpose()
    };
    let ranks = number("ranks", &spec.ranks)?;
    let effort = number("effort", &spec.effort)?;
    let fuse = number("fuse", &spec.fuse)?;
    let mut axes: Vec<Axis> = vec![];
    for (name, values) in &spec.axes {
        let name = name_of(name)
            .ok_or_else(|| wrong("the name of an axis must consist of letters, digits and _", at("axes")))?;
        let values = match values {
            Value::String(range) => {
                doubling(range).map(|all| all.iter().map(|v| plain(v.to_string())).collect())
            }
            Value::Sequence(list) => list.iter().map(|v| scalar(v).map(plain)).collect::<Option<Vec<_>>>(),
            Value::Mapping(map) => map.iter().map(|(label, parts)| with_parts(label, parts)).collect(),
            _ => None,
        };
        let what =
            "must be a list of values, a range that doubles (256..65536), or a map of values to their parts";
        let values = values.ok_or_else(|| wrong(format!("axis `{name}` {what}"), axis(&name)))?;
        if values.is_empty() {
            return Err(wrong(format!("axis `{name}` has no values"), axis(&name)));
        }
        for (i, v) in values.iter().enumerate() {
            if values[..i].iter().any(|b| b.label == v.label) {
                let second = place(text, file, &["axes", &name, &v.label], &v.label);
                return Err(wrong(format!("axis `{name}` has `{}` twice", v.label), second));
            }
        }
        axes.push(Axis { name, values });
    }
    if axes.is_empty() {
        return Err(wrong("a sweep needs at least one axis", at("axes")));
    }
    let templates = |key: &str,
                     map: &mut dyn Iterator<Item = (Option<String>, &Value)>|
     -> Result<Vec<NamedTemplate>, Diagnostic> {
        let at = |word: &str| place(text, file, &[key], word);
        let mut out: Vec<NamedTemplate> = vec![];
        for (name, v) in map {
            let name = name.ok_or_else(|| {
                wrong("the name of a column must consist of letters, digits and _", at(key))
            })?;
            let text =
                scalar(v).ok_or_else(|| wrong(format!("`{name}` must be a text or a number"), at(&name)))?;
            out.push((name, text));
        }
        Ok(out)
    };
    let columns = templates("columns", &mut spec.columns.iter().map(|(n, v)| (name_of(n), v)))?;
    let define = templates("define", &mut spec.define.iter().map(|(n, v)| (Some(n.clone()), v)))?;
    Ok(Read { spec, axes, define, columns, ranks, effort, fuse, file })
}

/// Returns a name that may be written between braces.
fn name_of(v: &Value) -> Option<String> {
    scalar(v).filter(|n| is_name(n))
}

/// Checks whether a word may be written between braces.
pub fn is_name(n: &str) -> bool {
    n.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn plain(label: String) -> AxisValue {
    AxisValue { label, parts: BTreeMap::new() }
}

fn with_parts(label: &Value, parts: &Value) -> Option<AxisValue> {
    let Value::Mapping(map) = parts else {
        return Some(plain(scalar(label)?)).filter(|_| matches!(parts, Value::Null));
    };
    let parts = map.iter().map(|(k, v)| Some((name_of(k)?, scalar(v)?))).collect::<Option<_>>()?;
    Some(AxisValue { label: scalar(label)?, parts })
}
