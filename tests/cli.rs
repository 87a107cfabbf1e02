//! Transcripts: every `console` block of tests/cli/*.md, of the pages of docs and of README.md is
//! replayed in a fresh folder and compared byte for byte. tests/docs.rs checks that no other block
//! of a page contains output of commands.
//!
//! In a block, a line `$ kbc ..` is a command. The lines after it are its standard output, those
//! that begin with `! ` its standard error, and `? 2` its exit code if it is not 0. `[..]` in a
//! line stands for any text (times, numbers of floating-point routines that differ between
//! processors). A block fenced as `kb,file=NAME` is first written to that file. `KBC_BLESS=1 cargo
//! test --workspace --test end_to_end cli::` rewrites the transcripts; then read the diff.

use crate::common;

use crate::needs::{Need, found};
use common::{Ran, Scratch, root};

/// A piece of a transcript.
enum Piece {
    /// Text that is kept.
    Text(String),
    /// A command and its expected lines.
    Command(String, Vec<String>),
    /// A file.
    File(String, String),
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut out = vec![];
    let mut fence: Option<(String, Option<(String, String)>)> = None;
    for line in text.lines() {
        match &mut fence {
            Some((ticks, file)) if line == ticks => {
                if let Some((name, body)) = file.take() {
                    out.push(Piece::File(name, body));
                }
                fence = None;
                out.push(Piece::Text(line.into()));
            }
            Some((_, Some((_, body)))) => {
                *body += &format!("{line}\n");
                out.push(Piece::Text(line.into()));
            }
            Some((_, None)) => match (line.strip_prefix("$ "), out.last_mut()) {
                (Some(command), _) => out.push(Piece::Command(command.into(), vec![])),
                (None, Some(Piece::Command(_, lines))) => lines.push(line.into()),
                _ => panic!("a console block begins with a command: {line}"),
            },
            None => {
                let ticks: String = line.chars().take_while(|c| *c == '`').collect();
                let info = &line[ticks.len()..];
                if info == "console" {
                    fence = Some((ticks, None));
                } else if let Some((_, name)) = info.split_once(",file=") {
                    fence = Some((ticks, Some((name.into(), String::new()))));
                }
                out.push(Piece::Text(line.into()));
            }
        }
    }
    assert!(fence.is_none(), "a fence without an end");
    out
}

/// Returns the result of a command as lines of a block.
fn lines(ran: &Ran) -> Vec<String> {
    let mut out: Vec<String> = ran.stdout.lines().map(str::to_owned).collect();
    out.extend(ran.stderr.lines().map(|l| format!("! {l}").trim_end().to_owned()));
    if ran.code != 0 {
        out.push(format!("? {}", ran.code));
    }
    out
}

fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split("[..]");
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or("")) else { return false };
    let mut last = None;
    for part in parts {
        last = Some(part);
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    match last {
        Some(end) => line.ends_with(end),
        None => rest.is_empty(),
    }
}

fn same(want: &[String], got: &[String]) -> bool {
    want.len() == got.len() && want.iter().zip(got).all(|(w, g)| fits(w, g))
}

/// Replays a transcript: returns its correct text, and the commands whose results differ.
fn replay(text: &str) -> (String, Vec<String>) {
    let folder = Scratch::new();
    let (mut out, mut wrong) = (String::new(), vec![]);
    for piece in pieces(text) {
        match piece {
            Piece::Text(line) => out += &format!("{line}\n"),
            Piece::File(name, body) => folder.write(&name, body.as_bytes()),
            Piece::Command(command, want) => {
                // Nothing is launched without a C compiler.
                if command.starts_with("kbc launch ") && found(Need::C).is_none() {
                    out += &format!("$ {command}\n");
                    want.iter().for_each(|l| out += &format!("{l}\n"));
                    continue;
                }
                let got = lines(&folder.line(&command));
                let shown = if same(&want, &got) {
                    want
                } else {
                    wrong.push(format!("$ {command}\n{}", got.join("\n")));
                    got
                };
                out += &format!("$ {command}\n");
                shown.iter().for_each(|l| out += &format!("{l}\n"));
            }
        }
    }
    (out, wrong)
}

#[test]
fn transcripts_are_replayed() {
    let bless = std::env::var_os("KBC_BLESS").is_some();
    let mut all: Vec<_> = std::fs::read_dir(root().join("tests/cli"))
        .expect("the folder of transcripts")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
        .collect();
    all.sort();
    assert!(all.len() >= 8);
    // The other blocks of a page are not transcripts.
    let pages: Vec<_> = common::pages()
        .into_iter()
        .filter(|p| std::fs::read_to_string(p).is_ok_and(|t| t.lines().any(|l| l == "```console")))
        .collect();
    for page in ["tutorials/guide.md", "tutorials/first-collective.md", "reference/cli.md"] {
        assert!(pages.iter().any(|p| p.ends_with(page)), "docs/{page} has no transcript");
    }
    all.extend(pages);
    let mut failures = vec![];
    for path in all {
        let text = std::fs::read_to_string(&path).expect("found above");
        let (new, wrong) = replay(&text);
        let name = path.file_name().expect("a file").to_string_lossy();
        if bless && new != text {
            std::fs::write(&path, new).expect("can be written");
        } else {
            failures.extend(wrong.iter().map(|w| format!("{name}: {w}")));
        }
        assert!(!text.contains(&*root().to_string_lossy()), "{name} names a path of one machine");
    }
    assert!(failures.is_empty(), "{}\n\nKBC_BLESS=1 rewrites the transcripts", failures.join("\n\n"));
}

#[test]
fn elisions_fit_what_they_stand_for() {
    assert!(fits("time: [..] ms", "time: 1.2 ms") && fits("[..]", "") && fits("a[..]b[..]c", "a1b2c"));
    assert!(!fits("time: [..] ms", "time: 1.2 us") && !fits("a", "ab") && !fits("a[..]b", "b"));
}
