//! The table of backends.

use kbc_compiler::backends::{BACKENDS, default_target, find, passes, platforms};

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
            root: None,
            tensors: vec![].into(),
            tables: vec![],
            signals: vec![].into(),
            areas: vec![].into(),
            tiles: vec![],
            body: vec![],
        };
        for pass in backend.passes() {
            assert!(target.run(pass.name, &mut kernel).is_ok(), "{}", pass.name);
        }
        assert!(target.run("no such pass", &mut kernel).is_err());
    }
}
