//! Regenerated documentation: the figures, rows and tables that are made from sweeps and reference
//! files.
//!
//! [`list`] owns the file that lists them, [`tables`] the tables between markers of a page. The
//! command [`crate::commands::repro`] runs the sweeps and writes the files.

pub mod list;
pub mod tables;

/// A file of the documentation with the content that it should have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// Path relative to the list's folder.
    pub path: String,
    /// The content.
    pub bytes: Vec<u8>,
}
