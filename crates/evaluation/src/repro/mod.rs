//! Regenerated documentation: the figures, rows and tables that are made from sweeps and reference
//! files.
//!
//! [`list`] owns the file that lists them, [`tables`] the tables between markers of a page, and
//! [`make`] runs the sweeps and makes the files.

pub mod list;
pub mod make;
pub mod tables;

/// A file of the documentation with the content that it should have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocFile {
    /// Path relative to the list's folder.
    pub path: String,
    /// The content.
    pub bytes: Vec<u8>,
}
