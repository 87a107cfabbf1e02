//! Tests of files with one error each, with the code on the offending line: `;~ CODE "words of the
//! message"`. A line `;! stated_calls N` at the top sets that option.

use crate::common;

use common::{files, schedule};
use kbc_checker::{CheckOptions, check};

/// Returns (line, code, words), in order.
fn wanted(text: &str) -> Vec<(usize, String, String)> {
    let mut out = vec![];
    for (i, line) in text.lines().enumerate() {
        for mark in line.split(";~ ").skip(1) {
            let (code, words) = mark.split_once(" \"").expect("a code and words in quotes");
            let words = words.trim_end().strip_suffix('"').expect("a closing quote");
            out.push((i + 1, code.to_string(), words.to_string()));
        }
    }
    out
}

fn check_file(name: &str, text: &str) -> Vec<(usize, String, String)> {
    let mut options = CheckOptions::default();
    for line in text.lines() {
        if let Some(n) = line.strip_prefix(";! stated_calls ") {
            options.stated_calls = n.parse().expect("a number of calls");
        }
    }
    let v = check(&schedule(name, text), &options);
    let line = |at: u32| text[..at as usize].matches('\n').count() + 1;
    v.errors
        .list
        .iter()
        .map(|d| {
            let at = if d.span().is_none() { 0 } else { line(d.span().start) };
            assert!(d.help.is_some() || d.code < "E340", "{name}: {} has no help", d.code);
            (at, d.code.to_string(), d.title.clone())
        })
        .collect()
}

#[test]
fn wrong_files_are_refused_where_they_are_wrong() {
    let (mut covered, mut failures) = (vec![], vec![]);
    for (name, text) in files("check") {
        let wanted = wanted(&text);
        assert!(!wanted.is_empty(), "{name} expects nothing");
        let mut got = check_file(&name, &text);
        for (line, code, words) in &wanted {
            let at = got.iter().position(|g| g.0 == *line && g.1 == *code && g.2.contains(words.as_str()));
            match at {
                Some(at) => drop(got.remove(at)),
                None => failures.push(format!("{name}:{line}: no {code} \"{words}\"")),
            }
            covered.push(code.clone());
        }
        failures.extend(got.iter().map(|g| format!("{name}: not expected: {g:?}")));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    covered.sort();
    covered.dedup();
    let all: Vec<String> = (302..306).chain(335..359).chain([363, 367]).map(|n| format!("E{n}")).collect();
    assert_eq!(covered, all, "a file for each code");
}
