//! The list of what is regenerated: sweeps, comparisons with published figures, pages with tables.

use crate::yaml;
use kbc_diag::{Diagnostic, FileId, Span};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The version of the form that is read.
pub const FORM: u32 = 1;

/// The list.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Version of this form.
    pub repro: u32,
    /// The folder that holds nothing but rows and figures, relative to this file.
    pub folder: String,
    /// Sweep files, relative to this one.
    pub sweeps: Vec<String>,
    /// Figures of published figures beside ours.
    #[serde(default)]
    pub references: Vec<Reference>,
    /// Machines with the links that a program uses.
    #[serde(default)]
    pub machines: Vec<Machine>,
    /// Pages with tables, relative to this file.
    #[serde(default)]
    pub pages: Vec<String>,
}

/// A figure of a file of published figures.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Name of its file, without an ending.
    pub name: String,
    /// The file of published figures, relative to the list.
    pub file: String,
    /// Words above it.
    pub title: String,
    /// Words below those.
    #[serde(default)]
    pub subtitle: String,
    /// Its times by name, in this order; all that are published and measured if nothing is said.
    #[serde(default)]
    pub only: Vec<String>,
}

/// A figure of a machine with the links that a program uses.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Name of its file, without an ending.
    pub name: String,
    /// The program, relative to the list.
    pub file: String,
    /// `--topology`; a file is relative to the list.
    #[serde(default)]
    pub topology: Option<String>,
    /// `-D`
    #[serde(default)]
    pub define: BTreeMap<String, i64>,
    /// `--set`
    #[serde(default)]
    pub set: Vec<String>,
    /// `--using`
    #[serde(default)]
    pub using: Vec<String>,
}

/// Reads a list.
///
/// # Errors
/// E589: YAML that cannot be read, an unknown or missing key, another form.
pub fn read(text: &str, file: FileId) -> Result<List, Diagnostic> {
    let wrong = |(title, at): (String, Span)| {
        Diagnostic::error("E589", title)
            .primary(at, "here")
            .help("docs/evaluation.md has the form of this file")
    };
    let list: List = yaml::read(text, file).map_err(wrong)?;
    if list.repro != FORM {
        let title = format!("`repro: {}` is another form than {FORM}", list.repro);
        return Err(wrong((title, Span::new(file, 0, 0))));
    }
    Ok(list)
}
