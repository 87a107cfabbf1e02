//! Format of files of published figures (docs/reference/published-figures.md): what was published
//! and where, and how kbc measures the same. [`super::measured`] measures.

use crate::yaml;
use kbc_diag::{Diagnostic, FileId, Span};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A file of published figures.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Version of the format.
    pub reference: u32,
    /// Source and subject of the figures.
    pub source: String,
    /// The figures.
    pub figures: Vec<Figure>,
}

/// One figure.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What the figure is. Names are unique.
    pub name: String,
    /// Published value. Without one, it is a time to which only a change refers.
    #[serde(default)]
    pub published: Option<f64>,
    /// Its unit: ns, us, ms of a time, GB/s, TFLOP/s of a rate, % of a change, x of a ratio,
    /// notifies.
    pub unit: String,
    /// Location, if it is more specific than the source of the file.
    #[serde(default)]
    pub from: Option<String>,
    /// The program that is timed.
    #[serde(default)]
    pub run: Option<ReferenceRun>,
    /// The measured part of the run, if it is not its time.
    #[serde(default)]
    pub measure: Measure,
    /// A rate: the work done in the time of another figure.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// A ratio: the time of one figure divided by that of another one.
    #[serde(default)]
    pub ratio: Option<Ratio>,
    /// A change from one figure to another one, in percent.
    #[serde(default)]
    pub change: Option<FigureChange>,
    /// Allowed deviation, in percent of the published value, or in percentage points if that is a
    /// percentage.
    #[serde(default)]
    pub within: Option<f64>,
    /// Reason why the value of kbc differs, or why it is not measured.
    #[serde(default)]
    pub note: Option<String>,
}

/// A program on a machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceRun {
    /// A `.kb` file, or a `.kir` file with a schedule, relative to the file of figures.
    pub program: String,
    /// The program, if the file has several.
    #[serde(default)]
    pub named: Option<String>,
    /// Value of `--topology`.
    #[serde(default)]
    pub topology: Option<String>,
    /// Value of `--mesh`.
    #[serde(default)]
    pub mesh: Option<String>,
    /// Value of `--set`.
    #[serde(default)]
    pub set: Vec<String>,
    /// Parameters, as `-D`.
    #[serde(default)]
    pub define: BTreeMap<String, u64>,
}

/// What is measured in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// The duration.
    #[default]
    Time,
    /// The lower bound of the time.
    Bound,
    /// The duration without preloading on the critical path.
    Preloaded,
    /// Notifies of all ranks in one call.
    Notifies,
}

/// An amount per second.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Bytes, or floating-point operations, of every rank.
    pub amount: u64,
    /// The figure that has the time.
    pub of: String,
}

/// Two figures by name.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// The time that is divided.
    pub of: String,
    /// The divisor.
    pub by: String,
}

/// Two figures by name.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureChange {
    /// The first.
    pub from: String,
    /// The second.
    pub to: String,
}

/// The version of the format that is read.
pub const FORM: u32 = 1;

/// Returns the number of ns in a unit of time, or None for another unit.
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
/// Returns E481 for YAML that cannot be parsed, an unknown or missing key, a name that occurs
/// twice, or a change of figures that do not exist.
pub fn read(text: &str, file: FileId) -> Result<Reference, Diagnostic> {
    let wrong = |title: String, at: Span| {
        Diagnostic::error("E481", title)
            .primary(at, "here")
            .help("docs/reference/published-figures.md describes these files")
    };
    let whole = Span::new(file, 0, 0);
    let reference: Reference =
        yaml::read(text, file, &[]).map_err(|(fault, at)| fault.message(wrong(String::new(), at)))?;
    if reference.reference != FORM {
        let title =
            format!("unsupported version `reference: {}`; this kbc reads {FORM}", reference.reference);
        return Err(wrong(title, whole));
    }
    // The last figure with this name, which is the superfluous one.
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
