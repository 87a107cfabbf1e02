//! What of the documentation is made from sweeps and reference files: figures, rows, and tables in pages.
//!
//! [`list`] owns the file that says what there is, [`tables`] tables between markers of a page. Executing is the verb's,
//! [`crate::commands::repro`].

pub mod list;
pub mod tables;

/// A file of the documentation, with what it should hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// Where it is, relative to the list's folder.
    pub path: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}
