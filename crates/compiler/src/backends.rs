//! Backends: the table of all backends that emit code.

use kbc_diag::Diagnostic;
use kbc_tiles::backend::{Backend, Pass, Support, Target, supported};

/// All backends. Nothing else outside a backend's own crate names one.
pub static BACKENDS: &[&dyn Backend] = &[&kbc_backend_ascend::ASCEND, &kbc_backend_host::HOST];

/// Returns the platforms of all backends, each with its backend.
pub fn platforms() -> Vec<(&'static dyn Backend, Support)> {
    BACKENDS.iter().flat_map(|b| b.platforms().into_iter().map(|p| (*b, p))).collect()
}

/// Returns the target of a platform.
///
/// # Errors
/// Returns E458 with the reason if no backend has such a platform or nothing is emitted for it.
pub fn find(name: &str) -> Result<&'static dyn Target, Diagnostic> {
    let all = platforms();
    match all.iter().find(|(_, p)| p.name == name) {
        Some((backend, _)) => backend.target(name),
        None => {
            let all: Vec<Support> = all.into_iter().map(|(_, p)| p).collect();
            supported("platform", name, &all)?;
            Err(Diagnostic::error("E458", format!("unknown platform `{name}`")))
        }
    }
}

/// Returns the target whose packages become programs of this computer.
pub fn native_target() -> &'static dyn Target {
    kbc_backend_host::HOST.default_target()
}

/// Returns the target of a `.tile` text for which the user names none.
pub fn default_target() -> &'static dyn Target {
    BACKENDS[0].default_target()
}

/// Returns the passes of all backends, each name once.
pub fn passes() -> Vec<Pass> {
    let mut out: Vec<Pass> = vec![];
    for pass in BACKENDS.iter().flat_map(|b| b.passes()) {
        if out.iter().all(|p| p.name != pass.name) {
            out.push(pass);
        }
    }
    out
}
