//! Backends: the table of all backends that emit code.

use kbc_diag::Diagnostic;
use kbc_tiles::backend::{Backend, Pass, Support, Target, supported};

/// All backends. Nothing else outside a backend's own crate names one.
pub static BACKENDS: &[&dyn Backend] = &[&kbc_backend_ascend::ASCEND];

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_platform_is_a_target_or_has_a_reason() {
        let all = platforms();
        assert!(!all.is_empty());
        for (backend, p) in all {
            match (find(p.name), p.unsupported_because) {
                (Ok(target), None) => {
                    assert_eq!((target.name(), target.backend().name()), (p.name, backend.name()));
                }
                (Err(d), Some(why)) => assert!(d.code == "E458" && d.title.contains(why), "{}", d.title),
                (found, why) => panic!("{}: {:?}, {why:?}", p.name, found.map(|t| t.name())),
            }
        }
        assert_eq!(find("no such platform").err().map(|d| d.code), Some("E458"));
        assert!(find(default_target().name()).is_ok());
    }

    #[test]
    fn every_pass_of_a_backend_runs_on_its_targets() {
        for backend in BACKENDS {
            assert!(backend.passes().iter().all(|p| passes().contains(p)));
            let target = backend.default_target();
            let mut kernel = kbc_tiles::tile::Kernel {
                name: "empty".into(),
                dialect: target.dialect(),
                core: kbc_tiles::tile::Core::Vector,
                cores: 1,
                scalars: vec!["call".into()],
                tensors: vec![],
                tables: vec![],
                signals: vec![],
                areas: vec![],
                tiles: vec![],
                body: vec![],
            };
            for pass in backend.passes() {
                assert!(target.run(pass.name, &mut kernel).is_ok(), "{}", pass.name);
            }
            assert!(target.run("no such pass", &mut kernel).is_err());
        }
    }
}
