//! The list of regenerated documentation: sweeps, comparisons with published figures, pages with
//! tables.

use crate::yaml;
use kbc_diag::{Diagnostic, FileId, Span};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The version of the format that is read.
pub const FORM: u32 = 1;

/// The content of a list file.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReproList {
    /// Version of the format.
    pub repro: u32,
    /// The folder that holds nothing but rows and figures, relative to this file.
    pub folder: String,
    /// Sweep files, relative to this file.
    pub sweeps: Vec<String>,
    /// Charts that compare published figures with measurements of kbc.
    #[serde(default)]
    pub references: Vec<ReferenceChart>,
    /// Pictures of machines with the links that a program uses.
    #[serde(default)]
    pub machines: Vec<MachinePicture>,
    /// Pages with tables, relative to this file.
    #[serde(default)]
    pub pages: Vec<String>,
}

/// A chart of a file of published figures.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceChart {
    /// Name of the chart's file, without extension.
    pub name: String,
    /// The file of published figures, relative to the list.
    pub file: String,
    /// Title of the chart.
    pub title: String,
    /// Subtitle of the chart.
    #[serde(default)]
    pub subtitle: String,
    /// Names of the times to show, in this order. If empty, all that are both published and
    /// measured are shown.
    #[serde(default)]
    pub only: Vec<String>,
}

/// A picture of a machine with the links that a program uses.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachinePicture {
    /// Name of the picture's file, without extension.
    pub name: String,
    /// The program, relative to the list.
    pub file: String,
    /// Value of `--topology`; a file is relative to the list.
    #[serde(default)]
    pub topology: Option<String>,
    /// Values of `-D`.
    #[serde(default)]
    pub define: BTreeMap<String, i64>,
    /// Values of `--set`.
    #[serde(default)]
    pub set: Vec<String>,
    /// Values of `--using`.
    #[serde(default)]
    pub using: Vec<String>,
}

/// Reads a list.
///
/// # Errors
/// Returns E589 for YAML that cannot be read, an unknown or missing key, or another version of the
/// format.
pub fn read(text: &str, file: FileId) -> Result<ReproList, Diagnostic> {
    let wrong = |(title, at): (String, Span)| {
        Diagnostic::error("E589", title)
            .primary(at, "here")
            .help("docs/explanation/evaluation.md describes this file")
    };
    let list: ReproList =
        yaml::read(text, file, &[]).map_err(|(fault, at)| fault.message(wrong((String::new(), at))))?;
    if list.repro != FORM {
        let title = format!("unsupported version `repro: {}`; this kbc reads {FORM}", list.repro);
        return Err(wrong((title, Span::new(file, 0, 0))));
    }
    Ok(list)
}
