//! Tests of every error of the algorithm language: a file that has it, and the messages.
//!
//! A file of `data/errors` is a user's file on top of the library. Its last algorithm is verified
//! on the sizes (and the root) of a first line `// on 2 3 from 0 1`; `// static` stops before any
//! expansion.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use crate::common;

use common::World;
use kbc_rounds::library::Layer;
use kbc_rounds::{Call, Limits, Verifier};

fn numbers(text: &str) -> Vec<i64> {
    text.split_whitespace().map(|n| n.parse().unwrap()).collect()
}

fn messages(name: &str, text: &str) -> String {
    let mut world = World::with_library();
    let (file, mut found) = world.add(name, text, Layer::User);
    found.extend(kbc_rounds::checks::check_file(&world.lib, file));
    let how = text.lines().next().unwrap().trim_start_matches("// ");
    if let Some(on) = how.strip_prefix("on ") {
        assert!(found.is_empty(), "{name}: not meant to be found without sizes\n{}", world.show(&found));
        let (sizes, root) = on.split_once(" from ").map_or((on, None), |(s, r)| (s, Some(numbers(r))));
        let alg = *world.lib.algorithms_in(file).last().unwrap();
        let call = Call { alg, sizes: numbers(sizes), root, args: vec![] };
        let limits = Limits { transfers: 10_000, atoms: 4096, steps: 100_000, depth: 16 };
        let mut verifier = Verifier::new(&world.lib, limits);
        match verifier.verify(&call) {
            Ok(_) => panic!("{name}: no error"),
            Err(d) => found.extend(verifier.advised(d)),
        }
    }
    assert!(found.has_errors(), "{name}: no error");
    // The code is part of the file's name, so that a file cannot drift to another error.
    let code = name.split('_').next().unwrap().to_uppercase();
    assert!(found.list.iter().any(|d| d.code == code), "{name}: no {code}\n{}", world.show(&found));
    world.show(&found)
}

#[test]
fn every_error_has_its_message() {
    insta::glob!("data/errors/*.kb", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy();
        insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "data/errors", omit_expression => true }, {
            insta::assert_snapshot!(messages(&name, &text));
        });
    });
}

#[test]
fn every_code_has_a_file() {
    let codes = [
        "E004", "E005", "E006", "E010", "E020", "E021", "E022", "E023", "E024", "E025", "E026", "E027",
        "E028", "E029", "E030", "E031", "E032", "E040", "E101", "E102", "E103", "E104", "E110", "E111",
        "E112", "E113",
    ];
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/errors");
    let names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().to_uppercase())
        .collect();
    for c in codes {
        assert!(names.iter().any(|n| n.starts_with(c)), "no file for {c}");
    }
}
