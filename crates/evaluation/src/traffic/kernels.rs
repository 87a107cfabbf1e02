//! Traffic of hand-written kernels, from a file of formulas (`specs/ascend/kernels.yaml`, built
//! into kbc).
//!
//! This module owns the format of the file and the evaluation of its formulas. The kernels and
//! their traffic are in the file alone.

use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_ir::expr::Expr;
use kbc_ir::text::reader::{LineCursor, expr, tree};
use serde::{Deserialize, Serialize};

/// The text of the file.
pub(crate) const FILE: &str = include_str!("../../../../specs/ascend/kernels.yaml");

/// The version of the format that is read.
const FORM: u32 = 1;

/// The content of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kernels {
    kernels: u32,
    pub targets: Vec<String>,
    source: String,
    pub kernels_of: Vec<Kernel>,
}

/// A kernel of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kernel {
    pub name: String,
    pub collective: String,
    link: String,
    stage_in: String,
    stage_out: String,
    read: String,
    written: String,
    notifies: String,
    window: String,
    #[serde(default)]
    note: Option<String>,
}

/// Traffic of a collective in bytes on the rank that has most, and its notifies.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct KernelTraffic {
    /// Name of the kernel.
    pub name: String,
    /// Bytes that it sends or receives over links, whichever is more.
    pub link: u64,
    /// Bytes that it reads in its own memory.
    pub read: u64,
    /// Bytes that it writes in its own memory.
    pub written: u64,
    /// The part of these bytes that only copies the operand to where the collective works on it.
    pub stage_in: u64,
    /// The part of these bytes that only copies the result to its destination.
    pub stage_out: u64,
    /// Number of notifies.
    pub notifies: u64,
    /// Bytes of the window.
    pub window: u64,
    /// A note about the kernel.
    pub note: Option<String>,
}

/// The values of `P` (ranks) and `N` (bytes) in formulas.
pub(crate) struct Sizes {
    pub ranks: u64,
    pub bytes: u64,
}

impl Sizes {
    fn of(&self, name: &kbc_ir::Name) -> Option<i64> {
        match name.as_str() {
            "P" => i64::try_from(self.ranks).ok(),
            "N" => i64::try_from(self.bytes).ok(),
            _ => None,
        }
    }
}

/// Returns the kernels of a target that perform a collective, for this many ranks and bytes, with
/// the source of the file. Returns `None` if the file does not cover the target.
///
/// # Errors
/// Returns E991 if the file is wrong.
pub fn of(
    target: &str,
    collective: &str,
    ranks: u64,
    bytes: u64,
) -> Result<Option<(String, Vec<KernelTraffic>)>, Diagnostics> {
    let all = read(FILE)?;
    if !all.targets.iter().any(|t| t == target) {
        return Ok(None);
    }
    let sizes = Sizes { ranks, bytes };
    let mut out = vec![];
    for k in all.kernels_of.iter().filter(|k| ranks > 1 && k.collective == collective) {
        let value = |text: &str| value(text, &sizes);
        out.push(KernelTraffic {
            name: k.name.clone(),
            link: value(&k.link)?,
            read: value(&k.read)?,
            written: value(&k.written)?,
            stage_in: value(&k.stage_in)?,
            stage_out: value(&k.stage_out)?,
            notifies: value(&k.notifies)?,
            window: value(&k.window)?,
            note: k.note.clone(),
        });
    }
    Ok(Some((all.source.split_whitespace().collect::<Vec<_>>().join(" "), out)))
}

fn wrong(title: String) -> Diagnostics {
    Diagnostic::error("E991", title).note("it is built into kbc: specs/ascend/kernels.yaml").into()
}

pub(crate) fn read(text: &str) -> Result<Kernels, Diagnostics> {
    let all: Kernels = serde_yaml::from_str(text).map_err(|e| wrong(format!("a file of kernels: {e}")))?;
    if all.kernels != FORM {
        return Err(wrong(format!("unsupported version `kernels: {}`; this kbc reads {FORM}", all.kernels)));
    }
    Ok(all)
}

/// Parses an expression in the notation of `.kir`.
fn formula(text: &str) -> Result<Expr, Diagnostics> {
    let mut found = Diagnostics::default();
    let lines = tree(FileId::default(), text, &mut found);
    let [line] = &lines[..] else { return Err(wrong(format!("invalid formula: {text}"))) };
    let mut cursor = LineCursor::new(&line.toks, Span::NONE);
    let read = expr(&mut cursor).and_then(|e| cursor.finish().map(|()| e));
    read.map_err(|d| wrong(format!("the formula {text}: {}", d.title)))
}

pub(crate) fn value(text: &str, sizes: &Sizes) -> Result<u64, Diagnostics> {
    let value = formula(text)?
        .eval(&|n: &kbc_ir::Name| sizes.of(n))
        .map_err(|e| wrong(format!("the formula {text}: {e}")))?;
    u64::try_from(value).map_err(|_| wrong(format!("the formula {text} is {value}")))
}
