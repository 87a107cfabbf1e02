//! Figures that others published, as files: what was published where, and how the same is measured here.
//!
//! Owns the form of these files (docs/reference.md). Measuring is [`super::measured`]'s.

use crate::yaml;
use kbc_diag::{Diagnostic, FileId, Span};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A file of published figures.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Version of this form.
    pub reference: u32,
    /// Where the figures come from and what they are about.
    pub source: String,
    /// The figures.
    pub figures: Vec<Figure>,
}

/// One figure.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it is; names are given once.
    pub name: String,
    /// What was published; without, a time that only a change refers to.
    #[serde(default)]
    pub published: Option<f64>,
    /// Its unit: ns, us, ms of a time, GB/s, TFLOP/s of a rate, % of a change, x of a ratio, notifies.
    pub unit: String,
    /// Where, if that is more than the file's source says.
    #[serde(default)]
    pub from: Option<String>,
    /// The program whose time it is.
    #[serde(default)]
    pub run: Option<Run>,
    /// What of the run it is, if not its time.
    #[serde(default)]
    pub measure: Measure,
    /// How much is done in the time of another figure.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// The time of one figure over that of another one.
    #[serde(default)]
    pub ratio: Option<Ratio>,
    /// The change from one figure to another one, in percent.
    #[serde(default)]
    pub change: Option<Change>,
    /// How far ours may be off, in percent of what was published; in points where that is a percentage.
    #[serde(default)]
    pub within: Option<f64>,
    /// Why ours is another one, or is not measured.
    #[serde(default)]
    pub note: Option<String>,
}

/// A program on a machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// A `.kb` file, or a `.kir` file with a schedule, relative to the file of figures.
    pub program: String,
    /// The program of it, if it has several.
    #[serde(default)]
    pub named: Option<String>,
    /// What `--topology` is.
    #[serde(default)]
    pub topology: Option<String>,
    /// What `--set` is.
    #[serde(default)]
    pub set: Vec<String>,
    /// Parameters: what `-D` is.
    #[serde(default)]
    pub define: BTreeMap<String, u64>,
}

/// What of a run is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// How long it takes.
    #[default]
    Time,
    /// The lower bound of its time.
    Bound,
    /// How long it takes without what is preloaded on its critical path.
    Preloaded,
    /// Notifies of all ranks in a call.
    Notifies,
}

/// So much a second.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Bytes, or floating-point operations, that every rank moves or does.
    pub amount: u64,
    /// The figure whose time that takes.
    pub of: String,
}

/// Two figures by name.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// The time that is divided.
    pub of: String,
    /// By this one.
    pub by: String,
}

/// Two figures by name.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The first.
    pub from: String,
    /// What it becomes.
    pub to: String,
}

/// The version of the form that is read.
pub const FORM: u32 = 1;

/// How many ns a unit of time is; none for another unit.
pub fn in_ns(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1.0),
        "us" => Some(1e3),
        "ms" => Some(1e6),
        _ => None,
    }
}

/// Reads a file of figures.
///
/// # Errors
/// E481: it is no such file: YAML that cannot be read, an unknown or missing key, a name twice, a change of figures that
/// are not there.
pub fn read(text: &str, file: FileId) -> Result<Reference, Diagnostic> {
    let wrong = |title: String, at: Span| {
        Diagnostic::error("E481", title).primary(at, "here").help("docs/reference.md describes these files")
    };
    let whole = Span::new(file, 0, 0);
    let reference: Reference = yaml::read(text, file).map_err(|(title, at)| wrong(title, at))?;
    if reference.reference != FORM {
        let title =
            format!("unsupported version `reference: {}`; this kbc reads {FORM}", reference.reference);
        return Err(wrong(title, whole));
    }
    // The last that is called so: of two the one too many.
    let place = |name: &str| {
        let named =
            |(at, _): &(usize, &str)| text[..*at].trim_end_matches([' ', '\'', '"']).ends_with("name:");
        text.match_indices(name)
            .filter(named)
            .last()
            .map_or(whole, |(at, _)| Span::new(file, at, at + name.len()))
    };
    for (i, f) in reference.figures.iter().enumerate() {
        let before = &reference.figures[..i];
        if before.iter().any(|b| b.name == f.name) {
            return Err(wrong(format!("two figures have the name `{}`", f.name), place(&f.name)));
        }
        let ways = [f.run.is_some(), f.change.is_some(), f.rate.is_some(), f.ratio.is_some()];
        if ways.iter().filter(|w| **w).count() > 1 {
            let title = format!("`{}` can be only one of a run, a change, a rate and a ratio", f.name);
            return Err(wrong(title, place(&f.name)));
        }
        if f.measure != Measure::Time && f.run.is_none() {
            let title = format!("`{}` states a part of a run, but has no run", f.name);
            return Err(wrong(title, place(&f.name)));
        }
        let (what, units): (&str, &[&str]) = match (ways, f.measure) {
            ([true, ..], Measure::Notifies) => ("a count of notifies", &["notifies"]),
            ([true, ..], _) => ("a time", &["ns", "us", "ms"]),
            ([_, true, ..], _) => ("a change", &["%"]),
            ([_, _, true, _], _) => ("a rate", &["GB/s", "TFLOP/s"]),
            ([.., true], _) => ("a ratio", &["x"]),
            _ => ("", &[]),
        };
        if !units.is_empty() && !units.contains(&f.unit.as_str()) {
            return Err(wrong(format!("`{}` is {what}, and its unit is {}", f.name, f.unit), place(&f.name)));
        }
        if f.published.is_none() && (f.run.is_none() || f.within.is_some()) {
            return Err(wrong(format!("`{}` has no published value", f.name), place(&f.name)));
        }
        if !ways.contains(&true) && (f.note.is_none() || f.within.is_some()) {
            let title = format!("`{}` needs a measurement, or a note that states why there is none", f.name);
            return Err(wrong(title, place(&f.name)));
        }
        let named = f.change.iter().flat_map(|c| [&c.from, &c.to]);
        let named = named.chain(f.rate.iter().map(|r| &r.of));
        let named = named.chain(f.ratio.iter().flat_map(|r| [&r.of, &r.by]));
        for name in named {
            if !before.iter().any(|b| b.name == *name && b.run.is_some() && b.measure != Measure::Notifies) {
                return Err(wrong(
                    format!("there is no earlier time with the name `{name}`"),
                    place(&f.name),
                ));
            }
        }
    }
    Ok(reference)
}
