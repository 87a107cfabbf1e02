//! Tests of `--diagnostics` and `--color` on every command: the form changes, the content and the
//! exit code do not.

use crate::common;

use clap::CommandFactory;
use common::{Scratch, kbc, kbc_with, short};
use std::collections::BTreeSet;

/// A failing command of every kind.
const FAILING: [&[&str]; 35] = [
    &["compile", "bad.kb"],
    &["compile", "bad.kb", "--target", "simm"],
    &["check", "bad.kb"],
    &["run", "bad.kb"],
    &["launch", "bad.kb"],
    &["calibrate", "--at", "nothing"],
    &["report", "bad.kb"],
    &["import", "bad.kb"],
    &["opt", "bad.kir"],
    &["fmt", "--check", "bad.kb"],
    &["replay", "bad.kb"],
    &["explain", "E9999"],
    &["passes", "plac"],
    &["list", "algoritms"],
    &["plot", "topology", "ring(4)", "-o", "ring.jpg"],
    &["completions", "tcsh"],
    &["fuzz", "engines", "bad.kb"],
    &["mutate", "bad.kb"],
    &["new", "ring"],
    &["bench", "select", "--points", "few"],
    &["bench", "ccl", "--topology", "bad.kir", "--ccl", "bad.kb"],
    &["compare-reference", "bad.kb"],
    &["sweep", "bad.kb"],
    &["repro", "bad.kb"],
    &["compare", "bad.kb", "bad.kir", "--of", "bad.kb"],
    &["chek", "bad.kb"],
    &["man", "nothing"],
    &["dev", "fuzz", "engines", "bad.kb"],
    &["dev", "mutate", "bad.kb"],
    &["dev", "replay", "bad.kb"],
    &["synth", "rong(4)", "all_gather"],
    &["repair", "bad.kb", "--fail", "(0)->(1)"],
    &["dev", "repro", "bad.kb"],
    &["dev", "bench", "select", "--points", "few"],
    &["dev", "compare-reference", "bad.kb"],
];

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("bad.kb", "// größe\nparam ö = 1\nparam a = = 2\n".as_bytes());
    scratch.write("bad.kir", "kir 1 ; größe\nmodule m\nmesh tp\n".as_bytes());
    scratch
}

#[test]
fn three_forms_of_one_message() {
    let scratch = scratch();
    let verbs: BTreeSet<String> =
        kbc::cli::Cli::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let tried: BTreeSet<String> = FAILING.iter().map(|c| c[0].to_owned()).collect();
    assert_eq!(verbs.difference(&tried).count(), 0, "{verbs:?}");
    for command in FAILING {
        let form = |f: &str| kbc(scratch.path(), &[command, &["--diagnostics", f]].concat(), "");
        let (human, one, json) = (form("human"), form("short"), form("json"));
        assert!([1, 2].contains(&human.code), "{command:?}");
        assert_eq!((human.code, human.code), (one.code, json.code), "{command:?}");
        let objects: Vec<serde_json::Value> = json
            .stderr
            .lines()
            .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{command:?}: {e}: {l}")))
            .collect();
        let lines = short(&one.stderr);
        assert!(
            !lines.is_empty() && lines.len() == objects.len(),
            "{command:?}\n{}{}",
            one.stderr,
            json.stderr
        );
        for (line, object) in lines.iter().zip(&objects) {
            assert_eq!(object["code"], line.code.as_str(), "{command:?}");
            assert_eq!(object["title"], line.title.as_str(), "{command:?}");
            let at = &object["labels"][0];
            let place = at["file"]
                .as_str()
                .map(|f| (f.to_owned(), at["start"]["line"].as_u64().expect("a line") as usize));
            assert_eq!(place, line.place, "{command:?}");
            if line.place.is_some() {
                assert!(
                    human.stderr.contains(&format!("[{}] {}: {}", line.code, line.severity, line.title)),
                    "{}",
                    human.stderr
                );
            }
        }
    }
}

#[test]
fn colours_when_they_are_asked_for() {
    let scratch = scratch();
    for command in FAILING {
        for (color, vars, coloured) in [
            ("auto", &[][..], false),
            ("never", &[], false),
            ("always", &[], true),
            ("always", &[("NO_COLOR", "1")], true),
        ] {
            let ran = kbc_with(scratch.path(), &[command, &["--color", color]].concat(), "", vars);
            // Messages without a place have nothing to colour.
            let usage = ran.stderr.contains("For more information") || ran.stderr.contains('╭');
            assert_eq!(
                ran.stderr.contains('\u{1b}'),
                coloured && usage,
                "{command:?} {color}: {}",
                ran.stderr
            );
        }
        let lines = kbc(scratch.path(), &[command, &["--color=always", "--diagnostics=short"]].concat(), "");
        assert!(!lines.stderr.contains('\u{1b}'), "{command:?}: lines for editors are plain");
    }
}

/// Machine-readable output has every message, human-readable output the first ones.
#[test]
fn no_message_is_lost() {
    let scratch = Scratch::new();
    scratch.write("many.kb", "param ö = 1\n".repeat(60).as_bytes());
    for (form, lines) in [("short", 60), ("json", 60)] {
        let ran = kbc(scratch.path(), &["check", "many.kb", "--diagnostics", form], "");
        assert_eq!(ran.stderr.lines().count(), lines);
    }
    let ran = kbc(scratch.path(), &["check", "many.kb"], "");
    assert!(ran.stderr.ends_with("... and 36 more messages\n"), "{}", ran.stderr);
}
