//! Kernel texts (`.tile`): read, verified, and changed by passes of the tile level.

use crate::backends;
use crate::emit;
use crate::failure::{Failure, Outcome};
use crate::watch::Watch;
use crate::workspace::{Stage, Workspace};
use kbc_diag::{Diagnostic, Diagnostics, FileId};
use kbc_tiles::backend::Target;
use kbc_tiles::tile::sync::{self, SyncCounts};
use kbc_tiles::tile::verify::{in_text, problems};
use kbc_tiles::tile::{Kernel, parse, text};
use std::sync::Arc;

/// Checks whether a file is one, by its extension or by the first line of standard input.
pub fn is_one(workspace: &mut Workspace, path: &str) -> bool {
    if path != "-" {
        return path.ends_with(".tile");
    }
    let Ok((_, text)) = workspace.read(path) else { return false };
    let first = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with(';'));
    first.is_some_and(|l| l.starts_with("tile "))
}

/// Returns the target of that name, or the default one, for which kernels are emitted.
///
/// # Errors
/// Returns E458 for an unknown target, and E416 for one without kernels, both as wrong usage.
pub fn target(name: Option<&str>) -> Outcome<&'static dyn Target> {
    let Some(name) = name else { return Ok(backends::default_target()) };
    emit::target(name)?.ok_or_else(|| {
        let d = Diagnostic::error("E416", format!("target {name} has no kernels"))
            .help("kbc list targets lists the targets for which kernels are emitted");
        Failure::Usage(d.into())
    })
}

/// A kernel with the text from which it was read.
pub struct KernelSource {
    /// The kernel.
    pub kernel: Kernel,
    target: &'static dyn Target,
    file: FileId,
    text: Arc<String>,
}

impl KernelSource {
    /// Reads a kernel for a target.
    ///
    /// # Errors
    /// Returns the errors of reading and parsing.
    pub fn read(workspace: &mut Workspace, path: &str, target: &'static dyn Target) -> Outcome<Self> {
        let (file, text) = workspace.read(path)?;
        workspace.stage(Stage::Read);
        let kernel = parse::parse(&text, file, target.dialect())?;
        Ok(KernelSource { kernel, target, file, text })
    }

    /// Verifies a kernel that its passes have completed. Returns the numbers of its barriers and flags.
    ///
    /// # Errors
    /// Returns E449 to E456 and E459 at the lines of the text.
    pub fn check(&self, workspace: &Workspace) -> Result<SyncCounts, Diagnostics> {
        workspace.stage(Stage::Check);
        let found = in_text(&self.kernel, problems(&self.kernel, self.target), &self.text, self.file);
        if found.has_errors() { Err(found) } else { Ok(sync::counts(&self.kernel)) }
    }

    /// Runs passes. Returns the texts of the kernel before the first pass and after each of them, with
    /// the names of files for them.
    ///
    /// # Errors
    /// Returns E456 for wrong names in the text, and the errors of a pass.
    pub fn run_passes(
        &mut self,
        workspace: &Workspace,
        passes: &[&str],
        watch: &mut dyn Watch,
    ) -> Result<Vec<(String, String)>, Diagnostics> {
        let mut names = problems(&self.kernel, self.target);
        names.retain(|p| p.diagnostic.code == "E456");
        if !names.is_empty() {
            return Err(in_text(&self.kernel, names, &self.text, self.file));
        }
        workspace.stage(Stage::Passes);
        let mut dump = vec![("00-input.tile".to_owned(), text::print(&self.kernel))];
        for (i, name) in passes.iter().enumerate() {
            emit::run_passes(&mut self.kernel, self.target, watch, &|n| n == *name)?;
            dump.push((format!("{:02}-{name}.tile", i + 1), text::print(&self.kernel)));
        }
        Ok(dump)
    }

    /// Verifies the kernel if all passes of its target are among those that ran. Otherwise it is not
    /// complete.
    ///
    /// # Errors
    /// Returns the errors of the verifier. They have no lines, because passes have changed the kernel.
    pub fn verify_after(&self, passes: &[&str]) -> Result<(), Diagnostics> {
        if passes.len() != self.target.backend().passes().len() {
            return Ok(());
        }
        let list: Vec<Diagnostic> =
            problems(&self.kernel, self.target).into_iter().map(|p| p.diagnostic).collect();
        if list.is_empty() { Ok(()) } else { Err(Diagnostics { list }) }
    }
}
