//! What the unit tests in `tests/units` need of the inner parts of this crate. It is no interface:
//! no other crate uses it.

use crate::traffic::kernels::{self, Sizes};
use kbc_diag::Diagnostics;
use serde_json::Value;

/// The text of the file of hand-written kernels.
pub const KERNELS: &str = kernels::FILE;

/// A kernel of the file.
pub struct KernelOf {
    /// Its name.
    pub name: String,
    /// The collective that it performs.
    pub collective: String,
}

/// Returns the targets and the kernels of a file of hand-written kernels.
pub fn read_kernels(text: &str) -> Result<(Vec<String>, Vec<KernelOf>), Diagnostics> {
    let all = kernels::read(text)?;
    let kernel = |k: kernels::Kernel| KernelOf { name: k.name, collective: k.collective };
    Ok((all.targets, all.kernels_of.into_iter().map(kernel).collect()))
}

/// Returns the value of a formula of the file for this many ranks and bytes.
pub fn formula_value(text: &str, ranks: u64, bytes: u64) -> Result<u64, Diagnostics> {
    kernels::value(text, &Sizes { ranks, bytes })
}

/// Returns the words of a name.
pub fn words(name: &str) -> Vec<String> {
    crate::ccl::prepare::words(name)
}

/// Returns the number of rows in which `n` ranks are laid out.
pub fn rows_of(n: u64) -> u64 {
    crate::ccl::prepare::rows_of(n)
}

/// Returns the value of a column after its names are filled in.
pub fn computed(text: &str) -> Value {
    crate::sweep::table::computed(text)
}

/// Returns a number rounded to `digits` decimals.
pub fn number(of: Option<f64>, digits: i32) -> Value {
    crate::sweep::columns::number(of, digits)
}
