//! Tests of bad input: every file of tests/bad is rejected with exactly the errors marked in it,
//! and nothing is written.
//!
//! Lines of a file after `//! ` (`;! ` in .kir) are YAML:
//!
//! * `run`: the command, where `$` is the file (`check $` if absent); `exit`: its exit code (1 if
//!   absent).
//! * `make`: files by name: `npy f32 [2, 3]`, `first 1000 of FILE`, `hex ff fe`, `text WORDS`.
//! * `before`: commands that are run first, as in the transcripts of tests/cli.
//! * `errors`: errors without a place in the file, as `CODE "words of the title"`.
//!
//! Errors with a place are on their line: `//~ CODE "words"` (`;~ ` in .kir). To add a case, copy a
//! file, edit it and run `cargo insta test --review`: the snapshot holds the source and the
//! human-readable messages.

use crate::common;

use common::{Scratch, npy, root, short};
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::BTreeMap;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Header {
    run: Option<String>,
    exit: Option<i32>,
    make: BTreeMap<String, String>,
    before: Vec<String>,
    errors: Vec<String>,
}

/// An expected error: line (0 for none), code, words.
type Mark = (usize, String, String);

fn mark(line: usize, text: &str) -> Mark {
    let (code, words) = text.trim().split_once(' ').unwrap_or_else(|| panic!("{text}: not CODE \"words\""));
    let words = words.trim().strip_prefix('"').and_then(|w| w.strip_suffix('"'));
    (line, code.into(), words.unwrap_or_else(|| panic!("{text}: not CODE \"words\"")).into())
}

/// Returns the header and the errors of a file.
fn expected(text: &str, comment: &str) -> (Header, Vec<Mark>) {
    let head = format!("{comment}! ");
    let yaml: String = text.lines().filter_map(|l| l.strip_prefix(&head)).map(|l| format!("{l}\n")).collect();
    let header: Header = serde_yaml::from_str(&yaml).expect("the header is YAML");
    let mut marks: Vec<Mark> = header.errors.iter().map(|e| mark(0, e)).collect();
    let tilde = format!("{comment}~ ");
    for (i, line) in text.lines().enumerate() {
        marks.extend(line.split(&tilde).skip(1).map(|m| mark(i + 1, m)));
    }
    assert!(!marks.is_empty(), "a file that expects nothing");
    (header, marks)
}

/// Returns a .npy file of zeros.
fn zeros(dtype: &str, shape: &str) -> Vec<u8> {
    let (descr, width) = match dtype {
        "f32" => ("<f4", 4),
        "f64" => ("<f8", 8),
        "i32" => ("<i4", 4),
        _ => panic!("{dtype}"),
    };
    let sizes: Vec<usize> =
        shape.trim_matches(['[', ']']).split(',').map(|s| s.trim().parse().expect("a size")).collect();
    npy(descr, &sizes, &vec![0; sizes.iter().product::<usize>() * width])
}

fn made(recipe: &str) -> Vec<u8> {
    let (kind, rest) = recipe.split_once(' ').expect("a kind and what it is of");
    match kind {
        "npy" => rest.split_once(' ').map(|(dtype, shape)| zeros(dtype, shape)).expect("npy DTYPE [SIZES]"),
        "first" => {
            let (n, file) = rest.split_once(" of ").expect("first N of FILE");
            let all = std::fs::read(root().join(file)).expect("the file it is the beginning of");
            all[..n.parse().expect("a number")].to_vec()
        }
        "hex" => rest.split(' ').map(|b| u8::from_str_radix(b, 16).expect("a byte")).collect(),
        "text" => rest.as_bytes().to_vec(),
        _ => panic!("{recipe}"),
    }
}

/// Runs a case: returns the content of the snapshot, or the differences from the file's
/// expectations.
fn case(name: &str, text: &str) -> Result<String, String> {
    let comment = if name.ends_with(".kir") { ";" } else { "//" };
    let (header, mut open) = expected(text, comment);
    let scratch = Scratch::new();
    scratch.write(name, text.as_bytes());
    header.make.iter().for_each(|(file, recipe)| scratch.write(file, &made(recipe)));
    for command in &header.before {
        let ran = scratch.line(&command.replace('$', name));
        assert_eq!(ran.code, 0, "{name}: {command}\n{}", ran.stderr);
    }
    let before = scratch.files();
    let command = format!("kbc {}", header.run.as_deref().unwrap_or("check $").replace('$', name));
    let ran = scratch.line(&format!("{command} --diagnostics short"));
    let mut surprises = vec![];
    for got in short(&ran.stderr) {
        let line = got.place.as_ref().filter(|p| p.0 == name).map_or(0, |p| p.1);
        let at =
            open.iter().position(|(l, c, w)| *l == line && *c == got.code && got.title.contains(w.as_str()));
        match at {
            Some(i) => drop(open.remove(i)),
            None => surprises.push(format!("line {line}: {} {}", got.code, got.title)),
        }
    }
    let human = scratch.line(&command);
    let faults = [
        (!surprises.is_empty(), format!("not expected: {}", surprises.join("; "))),
        (!open.is_empty(), format!("expected and not there: {open:?}")),
        (ran.code != header.exit.unwrap_or(1), format!("exit {}", ran.code)),
        (!ran.stdout.is_empty(), "an input that is refused has no result".into()),
        (scratch.files() != before, "something was written".into()),
        (human.code != ran.code, "the form of the messages changes the exit code".into()),
    ];
    let faults: Vec<String> = faults.into_iter().filter(|f| f.0).map(|f| f.1).collect();
    if !faults.is_empty() {
        return Err(format!("{name}: {command}: {}", faults.join("\n  ")));
    }
    Ok(format!(
        "--- source\n{text}\n--- command\n{command}\n--- stderr\n{}\n--- exit\n{}",
        human.stderr, human.code
    ))
}

#[test]
fn bad_input_is_refused_where_it_is_bad() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("bad/snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let wrong = RefCell::new(vec![]);
    settings.bind(|| {
        insta::glob!("bad/*.k*", |path| {
            let name = path.file_name().expect("a file").to_string_lossy().into_owned();
            let text = std::fs::read_to_string(path).expect("found by a glob");
            match case(&name, &text) {
                Ok(shown) => insta::assert_snapshot!(shown),
                Err(why) => wrong.borrow_mut().push(why),
            }
        });
    });
    let wrong = wrong.into_inner();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One run reports several independent errors, in the order of the text.
#[test]
fn at_least_five_errors_come_out_of_one_run() {
    let text = std::fs::read_to_string(root().join("tests/bad/five_at_once.kb")).expect("the case");
    let (_, marks) = expected(&text, "//");
    let lines: Vec<usize> = marks.iter().map(|m| m.0).collect();
    assert!(marks.len() >= 5 && lines.is_sorted(), "{marks:?}");
}
