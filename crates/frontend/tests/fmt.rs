//! Tests of formatting: it is idempotent, the program is the same, and every comment is kept.
//!
//! The texts are all of the repository that parse, and the same texts with spaces, line ends and
//! comments inserted between their tokens at random. `fmt/*.kb` are examples with a golden file
//! each.

use crate::cases::all_cases;
use kbc_diag::FileId;
use kbc_frontend::token::{Token, lex};
use kbc_frontend::{fmt, parse};
use std::path::{Path, PathBuf};

const FILE: FileId = FileId(0);

fn below(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder of texts") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            below(&path, out);
        } else if path.extension().is_some_and(|e| e == "kb") {
            out.push(path);
        }
    }
    out.sort();
}

/// Returns every `.kb` text of the repository.
fn texts() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = vec![];
    ["specs", "tests", "crates/frontend/tests"].iter().for_each(|d| below(&root.join(d), &mut paths));
    assert!(paths.len() > 120, "{}", paths.len());
    paths
        .iter()
        .filter_map(|p| {
            let text = String::from_utf8(std::fs::read(p).expect("found above")).ok()?;
            Some((p.file_name().expect("a file").to_string_lossy().into_owned(), text))
        })
        .collect()
}

/// Returns the tree without its spans.
fn tree(text: &str) -> String {
    let (tree, found) = parse(FILE, text);
    assert!(!found.has_errors(), "{found:?}\n{text}");
    // A span is written `0:12..34`.
    let shown = format!("{tree:?}");
    let mut out = String::new();
    let mut rest = shown.as_str();
    while let Some((before, after)) = rest.split_once("span: 0:") {
        out += before;
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    }
    // `head` is the only span with another name.
    let mut parts = (out + rest).split("head: 0:").map(str::to_owned).collect::<Vec<_>>();
    for p in parts.iter_mut().skip(1) {
        *p = p.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').to_owned();
    }
    parts.concat()
}

fn comments(text: &str) -> Vec<String> {
    use logos::Logos;
    Token::lexer(text)
        .filter_map(|t| match t {
            Ok(Token::Comment(c)) => Some(c.trim_end().to_owned()),
            _ => None,
        })
        .collect()
}

/// Formats a text that parses and checks the result.
fn check(name: &str, text: &str) -> String {
    let out = fmt::format(FILE, text).unwrap_or_else(|d| panic!("{name}: {d:?}\n{text}"));
    assert_eq!(
        fmt::format(FILE, &out).expect("the form parses"),
        out,
        "{name}: the form of the form\n{text}"
    );
    assert_eq!(tree(&out), tree(text), "{name}: another program\n{out}");
    assert_eq!(comments(&out), comments(text.trim_start_matches('\u{feff}')), "{name}\n{out}");
    assert!(
        out.is_empty() || out.ends_with('\n') && !out.starts_with('\n') && !out.ends_with("\n\n"),
        "{name}"
    );
    assert!(out.lines().all(|l| l.trim_end() == l), "{name}: blanks at the end of a line\n{out}");
    assert!(!out.contains("\n\n\n"), "{name}: two empty lines\n{out}");
    out
}

#[test]
fn every_text_keeps_its_meaning() {
    let mut formed = 0;
    for (name, text) in texts() {
        if parse(FILE, &text).1.has_errors() {
            let d = fmt::format(FILE, &text).expect_err("a text with errors cannot be formatted");
            assert!(d.list.iter().all(|d| d.code != "E995"), "{name}");
        } else {
            check(&name, &text);
            check(&name, &format!("\u{feff}{}", text.replace('\n', "\r\n")));
            formed += 1;
        }
    }
    assert!(formed > 80, "{formed}");
}

/// Returns the next pseudo-random number (an LCG with Knuth's MMIX constants).
fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*seed >> 33) as usize
}

/// Returns the tokens and comments of a text with other spaces between them, and further comments.
fn shaken(text: &str, seed: &mut u64) -> String {
    use logos::Logos;
    let mut out = String::new();
    let mut line = false;
    for (token, range) in Token::lexer(text).spanned() {
        if line {
            out += ["\n", "\n\n\n", "\r\n   "][next(seed) % 3];
        } else {
            out += match next(seed) % 12 {
                0 => "\n",
                1 => " // c\n",
                2 => "\n// ä\t1\n",
                3 => "     ",
                4 => "\n\n\n  ",
                5 => "\t",
                6 => "  ///// no documentation\n\n",
                _ => " ",
            };
        }
        out += &text[range];
        line = matches!(token, Ok(Token::Comment(_)));
    }
    out
}

#[test]
fn blanks_lines_and_comments_anywhere() {
    let times = if all_cases() { 6 } else { 2 };
    let mut seed = 7;
    for (name, text) in texts() {
        if parse(FILE, &text).1.has_errors() {
            continue;
        }
        for _ in 0..times {
            let other = shaken(&text, &mut seed);
            let form = check(&name, &other);
            assert_eq!(tree(&form), tree(&text), "{name}\n{other}");
        }
    }
}

#[test]
fn no_line_is_longer_than_it_must_be() {
    for (name, text) in texts() {
        let Ok(out) = fmt::format(FILE, &text) else { continue };
        for line in out.lines().filter(|l| l.chars().count() > fmt::WIDTH) {
            // A line that stays long is a comment, or has no block and no comma at which to break.
            let code = line.split("//").next().unwrap_or("").trim_end();
            let block = code.contains('{') && code.contains('}');
            assert!(code.chars().count() <= fmt::WIDTH || !block, "{name}: {line}");
        }
    }
}

#[test]
fn cases() {
    insta::glob!("fmt/*.kb", |path| {
        let text = std::fs::read_to_string(path).expect("found by a glob");
        let name = path.file_name().expect("a file").to_string_lossy();
        let out = check(&name, &text);
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(out);
        });
    });
}

#[test]
fn documentation_stays_with_its_item() {
    let text = "/// One.\n\n\n   /// Two.\nfn f() = 1\nfn g() = 2 /// for h\nfn h() = 3\n";
    assert_eq!(check("docs", text), "/// One.\n\n/// Two.\nfn f() = 1\nfn g() = 2  /// for h\nfn h() = 3\n");
    assert!(!lex(FILE, text).docs.is_empty());
}
