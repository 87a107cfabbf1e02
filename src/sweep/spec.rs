//! The form of a sweep file.
//!
//! Owns its keys and what is wrong with them (E583). What `{axis}` stands for is [`super::grid`]'s.

use crate::yaml;
use kbc_diag::{Diagnostic, FileId, Span};
use serde::Deserialize;
use serde_yaml::{Mapping, Value};
use std::collections::BTreeMap;

/// The version of the form that is read.
pub const FORM: u32 = 1;

/// A sweep file.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Version of this form.
    pub sweep: u32,
    /// What it is, in some words: the heading of figures.
    pub title: String,
    /// More about it.
    #[serde(default)]
    pub about: Option<String>,
    /// A `.kb` or `.kir` file relative to this one, or over several lines the text of a program; a template.
    #[serde(default)]
    pub program: Option<String>,
    /// In its place a kernbench ccl.yaml relative to this one, whose entries run as in `kbc bench ccl`; a template.
    #[serde(default)]
    pub ccl: Option<String>,
    /// The program of it, if it has several; a template.
    #[serde(default)]
    pub named: Option<String>,
    /// What `--topology` is; a template.
    #[serde(default)]
    pub topology: Option<String>,
    /// What `--set` is; templates.
    #[serde(default)]
    pub set: Vec<String>,
    /// What `--using` is; templates, an empty one asks for nothing.
    #[serde(default)]
    pub using: Vec<String>,
    /// What `-D` is; templates.
    #[serde(default)]
    define: BTreeMap<String, Value>,
    /// Axes in order, each a list of values, or a map of values to their parts.
    axes: Mapping,
    /// Columns beside the axes and the usual ones; templates.
    #[serde(default)]
    columns: Mapping,
    /// What is drawn of the rows.
    #[serde(default)]
    pub figures: Vec<Value>,
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
    /// What stands in the column, and for `{axis}`.
    pub label: String,
    /// What stands for `{axis.part}`.
    pub parts: BTreeMap<String, String>,
}

/// A name and its template.
pub type Named = (String, String);

/// A file that was read: what serde cannot say is in lists with their order.
#[derive(Clone, PartialEq, Debug)]
pub struct Read {
    /// The file.
    pub spec: Spec,
    /// Its axes.
    pub axes: Vec<Axis>,
    /// What `-D` is.
    pub define: Vec<Named>,
    /// Its own columns.
    pub columns: Vec<Named>,
    /// Where it stands.
    pub file: FileId,
}

/// A scalar as text; none for a list or map.
pub fn scalar(v: &Value) -> Option<String> {
    match v {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

/// E583 about a place of the file.
pub fn wrong(title: impl Into<String>, at: Span) -> Diagnostic {
    Diagnostic::error("E583", title).primary(at, "here").help("docs/sweep.md has the form of sweep files")
}

/// Where a key or value stands under a key of the file (`axes`, or nothing for the whole file), as near as can be told: its
/// first mention as a word of its own there, else in the file. An axis is mentioned in templates before it is declared.
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
    // The first key stands at the beginning of a line, the others after it.
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

/// `256..65536`, which doubles; none for any other text.
pub fn doubling(text: &str) -> Option<Vec<u64>> {
    let (from, to) = text.split_once("..")?;
    let (from, to) = (from.trim().parse::<u64>().ok()?, to.trim().parse::<u64>().ok()?);
    let doubled = std::iter::successors(Some(from.max(1)), |v| v.checked_mul(2));
    Some(doubled.take_while(|v| *v <= to).collect())
}

/// Reads a sweep file.
///
/// # Errors
/// E583: YAML that cannot be read, an unknown or missing key, an axis without values, a value twice, a value that is no
/// scalar.
pub fn read(text: &str, file: FileId) -> Result<Read, Diagnostic> {
    let at = |word: &str| place(text, file, &[], word);
    let axis = |word: &str| place(text, file, &["axes"], word);
    let spec: Spec = yaml::read(text, file).map_err(|(title, at)| wrong(title, at))?;
    if spec.sweep != FORM {
        return Err(wrong(format!("`sweep: {}` is another form than {FORM}", spec.sweep), at("sweep")));
    }
    match (&spec.program, &spec.ccl) {
        (None, None) => return Err(wrong("neither `program` nor `ccl` says what runs", at("sweep"))),
        (Some(_), Some(_)) => return Err(wrong("`program` and `ccl` both say what runs", at("ccl"))),
        (None, Some(_)) if spec.named.is_some() => {
            return Err(wrong(
                "`named` means nothing for a `ccl`: `define` says its `algorithm`",
                at("named"),
            ));
        }
        (None, Some(_)) if spec.topology.is_none() => {
            return Err(wrong("`topology` says on which machine the entries of a `ccl` run", at("ccl")));
        }
        _ => {}
    }
    let mut axes: Vec<Axis> = vec![];
    for (name, values) in &spec.axes {
        let name =
            name_of(name).ok_or_else(|| wrong("an axis has a name of letters, digits and _", at("axes")))?;
        let values = match values {
            Value::String(range) => {
                doubling(range).map(|all| all.iter().map(|v| plain(v.to_string())).collect())
            }
            Value::Sequence(list) => list.iter().map(|v| scalar(v).map(plain)).collect::<Option<Vec<_>>>(),
            Value::Mapping(map) => map.iter().map(|(label, parts)| with_parts(label, parts)).collect(),
            _ => None,
        };
        let what = "is a list of values, a range of numbers that doubles (256..65536), or a map of values to their parts";
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
        return Err(wrong("a sweep has at least one axis", at("axes")));
    }
    let templates = |key: &str,
                     map: &mut dyn Iterator<Item = (Option<String>, &Value)>|
     -> Result<Vec<Named>, Diagnostic> {
        let at = |word: &str| place(text, file, &[key], word);
        let mut out: Vec<Named> = vec![];
        for (name, v) in map {
            let name = name.ok_or_else(|| wrong("a column has a name of letters, digits and _", at(key)))?;
            let text =
                scalar(v).ok_or_else(|| wrong(format!("`{name}` is a text or a number"), at(&name)))?;
            out.push((name, text));
        }
        Ok(out)
    };
    let columns = templates("columns", &mut spec.columns.iter().map(|(n, v)| (name_of(n), v)))?;
    let define = templates("define", &mut spec.define.iter().map(|(n, v)| (Some(n.clone()), v)))?;
    Ok(Read { spec, axes, define, columns, file })
}

/// A name that can stand between braces.
fn name_of(v: &Value) -> Option<String> {
    scalar(v).filter(|n| is_name(n))
}

/// Whether a word can stand between braces.
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
