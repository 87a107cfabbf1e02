//! Cases of `kbc dev bench scale`, read from a table that is built in (`specs/bench/scale.yaml`).

use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, FileId};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The text of the table.
const FILE: &str = include_str!("../../../../specs/bench/scale.yaml");

/// The version of the format that is read.
const FORM: u32 = 1;

/// The content of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    scale: u32,
    cases: Vec<ScaleCase>,
}

/// A command of kbc that runs on inputs of several sizes.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScaleCase {
    /// Its name.
    #[serde(rename = "case")]
    pub name: String,
    /// What is measured.
    pub about: String,
    /// What a size counts: `ranks`, `MiB`. A case without it has no sizes.
    #[serde(rename = "size")]
    pub unit: Option<String>,
    /// The sizes by default, ascending.
    #[serde(default)]
    pub sizes: Vec<u64>,
    /// Whether a size is the number of nodes of a square.
    #[serde(default)]
    pub square: bool,
    /// The words of the command, with places for values that depend on the size.
    pub run: Vec<String>,
    /// Whether the command prints a report as JSON, which has the number of messages.
    #[serde(default)]
    pub messages: bool,
    /// The input files by name, with the same places.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// Returns all cases in the order of the table.
///
/// # Errors
/// Returns E991 if the table that is built in cannot be read.
pub fn all() -> Result<Vec<ScaleCase>, Diagnostic> {
    let wrong =
        |title: String| Diagnostic::error("E991", title).note("it is built into kbc: specs/bench/scale.yaml");
    let table: Table = crate::yaml::read(FILE, FileId::default(), &[])
        .map_err(|(fault, _)| wrong(format!("the table of cases: {}", fault.title)))?;
    if table.scale != FORM {
        return Err(wrong(format!("unsupported version `scale: {}`; this kbc reads {FORM}", table.scale)));
    }
    Ok(table.cases)
}

/// Returns the cases with these names, or all cases if there are no names. `sizes` replace the
/// default sizes of every case that has sizes.
///
/// # Errors
/// Returns E416 for an unknown name, E413 for sizes that are not positive and ascending or that a
/// case does not take, and the errors of [`all`].
pub fn chosen(names: &[String], sizes: &[u64]) -> Result<Vec<ScaleCase>, Diagnostic> {
    check_sizes(sizes)?;
    let all = all()?;
    let mut out: Vec<ScaleCase> = match names {
        [] => all,
        names => names.iter().map(|name| find(&all, name)).collect::<Result<_, _>>()?,
    };
    for case in out.iter_mut().filter(|case| case.unit.is_some() && !sizes.is_empty()) {
        if let Some(size) = sizes.iter().find(|size| case.square && size.isqrt().pow(2) != **size) {
            let title = format!("--sizes: {size} is not the number of nodes of a square");
            let help = format!("the case {} takes squares, such as 256 and 1024", case.name);
            return Err(Diagnostic::error("E413", title).help(help));
        }
        sizes.clone_into(&mut case.sizes);
    }
    Ok(out)
}

fn find(all: &[ScaleCase], name: &str) -> Result<ScaleCase, Diagnostic> {
    if let Some(case) = all.iter().find(|case| case.name == name) {
        return Ok(case.clone());
    }
    let names: Vec<&str> = all.iter().map(|case| case.name.as_str()).collect();
    let d = Diagnostic::error("E416", format!("`{name}` is not a case"))
        .note(format!("cases: {}", names.join(", ")));
    Err(match nearest(name, names) {
        Some(near) => d.help(format!("did you mean `{near}`?")),
        None => d,
    })
}

fn check_sizes(sizes: &[u64]) -> Result<(), Diagnostic> {
    let title = match sizes.windows(2).find(|pair| pair[1] <= pair[0]) {
        _ if sizes.contains(&0) => "--sizes: 0 is not a size".to_owned(),
        Some(pair) => format!("--sizes: {} after {} is not ascending", pair[1], pair[0]),
        None => return Ok(()),
    };
    Err(Diagnostic::error("E413", title)
        .help("write positive sizes in ascending order: --sizes 256,512,1024"))
}
