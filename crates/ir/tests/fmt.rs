//! Tests of formatting `.kir` texts: the module is the same, every comment is kept, and formatting
//! is idempotent.

use kbc_diag::FileId;
use kbc_ir::text::{equivalent, format, parse};
use std::path::{Path, PathBuf};

const FILE: FileId = FileId(3);

fn below(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder of texts") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            below(&path, out);
        } else if path.extension().is_some_and(|e| e == "kir") {
            out.push(path);
        }
    }
    out.sort();
}

/// Returns every `.kir` text of the repository.
fn texts() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = vec![];
    ["tests", "crates/ir/tests"].iter().for_each(|d| below(&root.join(d), &mut paths));
    assert!(paths.len() > 50, "{}", paths.len());
    paths
        .iter()
        .map(|p| {
            let name = p.file_name().expect("a file").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(p).expect("found above"))
        })
        .collect()
}

fn check(name: &str, text: &str) -> String {
    let out = format(FILE, text).unwrap_or_else(|d| panic!("{name}: {d:?}\n{text}"));
    assert_eq!(format(FILE, &out).expect("the form parses"), out, "{name}: the form of the form\n{text}");
    let (a, b) = (parse(FILE, text).expect("it has a form"), parse(FILE, &out).expect("above"));
    assert!(equivalent(&a, &b), "{name}: another module\n{out}");
    assert!(out.lines().all(|l| l.trim_end() == l) && !out.contains("\n\n\n"), "{name}\n{out}");
    out
}

#[test]
fn every_text_keeps_its_meaning() {
    let mut formed = 0;
    for (name, text) in texts() {
        match parse(FILE, &text) {
            Ok(_) => {
                check(&name, &text);
                check(&name, &format!("\u{feff}{}", text.replace('\n', "\r\n")));
                formed += 1;
            }
            Err(d) => assert_eq!(format(FILE, &text).expect_err("no form"), d, "{name}"),
        }
    }
    assert!(formed > 30, "{formed}");
}

/// Comments before, at the end of and after every line stay there.
#[test]
fn comments_stay_with_their_lines() {
    for (name, text) in texts() {
        if parse(FILE, &text).is_err() || text.contains(';') {
            continue;
        }
        let form = check(&name, &text);
        let mut more = String::from("; first\n\n");
        for (i, line) in form.lines().enumerate() {
            let indent = &line[..line.len() - line.trim_start().len()];
            more += &match i % 4 {
                _ if line.is_empty() => "\n\n\n".to_owned(),
                0 => format!("{indent}; o {i}\n{line}\n"),
                1 => format!("{line}    ;t {i} ä\n"),
                2 => format!("\n{indent}; a {i}\n\n\n{indent}; b {i}\n{line} ; t {i}\n"),
                _ => format!("{line}\n"),
            };
        }
        more += "\n; last";
        let out = check(&name, &more);
        let lines: Vec<&str> = out.lines().collect();
        for (i, line) in form.lines().enumerate().filter(|l| !l.1.is_empty()) {
            let place = |s: &str| lines.iter().position(|l| l.trim() == s);
            match i % 4 {
                0 => {
                    let at = place(&format!("; o {i}")).unwrap_or_else(|| panic!("{name}: {i}\n{out}"));
                    assert_eq!(lines[at + 1], line, "{name}");
                }
                1 => assert!(lines.contains(&format!("{line}  ;t {i} ä").as_str()), "{name}: {i}\n{out}"),
                2 => {
                    let at = place(&format!("; b {i}")).unwrap_or_else(|| panic!("{name}: {i}\n{out}"));
                    assert_eq!(lines[at + 1], format!("{line}  ; t {i}"), "{name}");
                    assert_eq!(
                        (lines[at - 2].trim(), lines[at - 1]),
                        (format!("; a {i}").as_str(), ""),
                        "{name}"
                    );
                }
                _ => {}
            }
        }
        assert!(lines[0] == "; first" && lines.last() == Some(&"; last"), "{name}\n{out}");
    }
}

#[test]
fn locations_and_the_order_of_the_head() {
    let text = "; kept: opt -p 'x'\nkir 1   ; version\n; the mesh\nmesh tp 2\nmodule   @m ; name\n\ngraph\n; in\n\
        input @x : f32[4] @7:1..2\nresult : f32[4]\n%x=input @x @-\n    ; deep\n%o = output 0 %x\n";
    let out = check("locations", text);
    let want = "; kept: opt -p 'x'\nkir 1  ; version\nmodule @m  ; name\n; the mesh\nmesh tp 2\n\ngraph\n; in\n\
        input @x : f32[4] @7:1..2\nresult : f32[4]\n\n%x = input @x @-\n; deep\n%o = output 0 %x\n";
    assert_eq!(out, want);
}

#[test]
fn damage_is_an_error_or_keeps_its_meaning() {
    let mut seed = 11u64;
    let mut next = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize
    };
    let mut both = [0, 0];
    for (name, text) in texts() {
        let chars: Vec<char> = text.chars().collect();
        for _ in 0..20 {
            let mut c = chars.clone();
            let at = next() % c.len();
            match next() % 4 {
                0 => drop(c.remove(at)),
                1 => c.insert(at, [' ', ';', '\n', 'ø', '"', '\t', '@', '`'][next() % 8]),
                2 => c.truncate(at),
                _ => drop(c.drain(at..(at + next() % 20).min(c.len()))),
            }
            let text: String = c.into_iter().collect();
            match format(FILE, &text) {
                Ok(_) => both[0] += usize::from(!check(&name, &text).is_empty()),
                Err(d) => {
                    both[1] += 1;
                    assert!(
                        d.has_errors() && d.list.iter().all(|d| d.code != "E995"),
                        "{name}: {d:?}\n{text}"
                    );
                }
            }
        }
    }
    assert!(both.iter().all(|n| *n > 100), "{both:?}");
}

/// A local program has the same lines in several parts: comments stay with theirs.
#[test]
fn comments_in_parts_of_a_local_program() {
    let part = |ranks: &str, comment: &str| {
        format!(
            "ranks {ranks}\n  input @x : f32[4]{comment}\n  result : f32[4]\n\n  %x = input @x : f32[4]\n  \
             %out = output 0 %x : f32[4]\n"
        )
    };
    let text = format!(
        "kir 1\nmodule @m\nmesh tp 2\n\nlocal @m\n\n{}\n{}",
        part("0..1", ""),
        part("1..2", "  ; of the second")
    );
    assert_eq!(check("parts", &text), text);
}
