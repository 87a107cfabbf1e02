//! Tests of execution semantics: files of tests/exec, each named after what it prevents.
//!
//! A line `;! COMMAND => ok "words" ..` or `;! COMMAND => fails "words" ..` runs `kbc COMMAND`,
//! where `$` is the file. It must end with exit code 0 or 1, and its output must contain the words
//! in this order: first standard output, then standard error; `'` stands for `"` in them. Every
//! command is run twice, in two processes, and must write the same bytes. To add a case, copy a
//! file.

use crate::common;

use common::{Scratch, root};

struct Case {
    command: String,
    code: i32,
    words: Vec<String>,
}

fn cases(name: &str, text: &str) -> Vec<Case> {
    let lines = text.lines().filter_map(|l| l.strip_prefix(";! "));
    lines
        .map(|l| {
            let (command, outcome) =
                l.split_once(" => ").unwrap_or_else(|| panic!("{name}: {l}: no outcome"));
            let mut words = outcome.split('"');
            let code = match words.next().map(str::trim) {
                Some("ok") => 0,
                Some("fails") => 1,
                _ => panic!("{name}: {l}: `ok` or `fails` is wanted"),
            };
            Case {
                command: command.replace('$', name),
                code,
                words: words.step_by(2).map(|w| w.replace('\'', "\"")).collect(),
            }
        })
        .collect()
}

#[test]
fn every_file_does_what_its_name_says() {
    let scratch = Scratch::new();
    let mut wrong = vec![];
    let mut files: Vec<_> = std::fs::read_dir(root().join("tests/exec"))
        .expect("the folder")
        .map(|e| e.expect("an entry").path())
        .collect();
    files.sort();
    for path in &files {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).expect("a text");
        scratch.write(&name, text.as_bytes());
        let cases = cases(&name, &text);
        assert!(!cases.is_empty(), "{name} expects nothing");
        for c in cases {
            let ran = scratch.line(&format!("kbc {}", c.command));
            let again = scratch.line(&format!("kbc {}", c.command));
            let said = format!("{}{}", ran.stdout, ran.stderr);
            if ran != again {
                wrong.push(format!("{}: two runs write different bytes", c.command));
            }
            if ran.code != c.code {
                wrong.push(format!("{}: exit code {}\n{said}", c.command, ran.code));
                continue;
            }
            let mut rest = &said[..];
            for w in &c.words {
                match rest.find(w.as_str()) {
                    Some(at) => rest = &rest[at + w.len()..],
                    None => {
                        wrong.push(format!("{}: does not say \"{w}\" (there)\n{said}", c.command));
                        break;
                    }
                }
            }
        }
    }
    assert!(files.len() >= 12, "{} files", files.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Machine code of operations that are executed once per call costs more than it saves, unless they
/// move much data.
#[test]
fn long_schedules_of_single_ranks_are_interpreted() {
    let scratch = Scratch::new();
    let text = "param p = 6\nparam size = p\ntopology sys = full(p)\nmesh m = sys[tp]\n\
        table next = \"next.csv\"\n\
        algorithm along: all_gather over (r of n) where n == p {\n\
        for k in 0..n - 1 { put [r] -> next(r * (n - 1) + k) }\n}\n\
        program f(x: f32[size@tp]) -> f32[size] { all_gather(x, dim: 0, using: along) }\n";
    scratch.write("along.kb", text.as_bytes());
    for (ranks, asked, engine) in [
        (6, "", "interp"),
        (6, "-D size=600000", "jit"),
        (24, "", "interp"),
        (24, "-D size=240000", "interp"),
        (24, "--engine jit", "jit"),
    ] {
        // Every rank sends to the others in an order of its own.
        let peers = |r: usize| (1..ranks).map(move |k| (r + 1 + (k * (r + 1)) % (ranks - 1)) % ranks);
        let order = |r: usize| {
            let mut seen = vec![r];
            for peer in peers(r).chain(0..ranks) {
                if !seen.contains(&peer) {
                    seen.push(peer);
                }
            }
            seen.into_iter().skip(1)
        };
        let lines: String = (0..ranks).flat_map(order).map(|peer| format!("{peer}\n")).collect();
        scratch.write("next.csv", lines.as_bytes());
        let ran = scratch.line(&format!("kbc run along.kb -D p={ranks} --format json {asked}"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let said = format!("\"engine\":\"{engine}\"");
        assert!(ran.stdout.contains(&said), "{ranks} {asked}: {}", &ran.stdout[..400.min(ran.stdout.len())]);
    }
}
