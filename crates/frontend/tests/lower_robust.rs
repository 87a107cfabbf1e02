//! Tests that no text that parses makes loading or lowering panic: damaged programs, deep ones,
//! long chains.

use crate::cases::all_cases;
use crate::common;

use common::Disk;
use kbc_diag::Diagnostics;
use kbc_frontend::load::load;
use kbc_frontend::lower::{LowerOptions, lower};

/// Returns all messages about a text; a text without errors is lowered.
fn messages(text: &str) -> Diagnostics {
    let mut disk = Disk::default();
    let id = disk.map.add("damaged.kb", text);
    let (loaded, found) = load(Some((id, text.to_owned())), &mut disk);
    if found.has_errors() {
        return found;
    }
    lower(&loaded, &LowerOptions::default()).map_or_else(|found| found, |l| l.warnings)
}

/// Runs a test with the stack that kbc has. Threads of tests have 2 MiB; kbc reads programs on its
/// main thread, which has 8 MiB. The front end is not optimised in tests, so its frames are large.
fn as_in_kbc(test: fn()) {
    let thread = std::thread::Builder::new().stack_size(8 << 20);
    thread.spawn(test).expect("a thread").join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn damaged_programs() {
    as_in_kbc(every_damaged_program);
}

fn every_damaged_program() {
    let (mut texts, mut faults) = (0, 0);
    // Every third word of every text, or every ninth.
    let step = if all_cases() { 3 } else { 9 };
    let words =
        ["x", "0", "sum", "tp", "(x, y)", "99999999999", "-1", "gelu(x)", "1.5", "f32", "[..]", "ring(2)"];
    for dir in ["lower/good", "../../../specs"] {
        insta::glob!(dir, "*.kb", |path| {
            let text = std::fs::read_to_string(path).expect("found by a glob");
            let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with("//")).collect();
            for i in 0..lines.len() {
                // Drops a line, or repeats it.
                for repeated in [0, 2] {
                    let kept = lines
                        .iter()
                        .enumerate()
                        .flat_map(|(j, l)| std::iter::repeat_n(*l, if i == j { repeated } else { 1 }));
                    faults += usize::from(messages(&kept.collect::<Vec<_>>().join("\n")).has_errors());
                    texts += 1;
                }
            }
            // Replaces a word by another one.
            let joined = lines.join("\n");
            let starts: Vec<usize> = joined
                .char_indices()
                .filter(|(i, c)| c.is_alphanumeric() && !joined[..*i].ends_with(char::is_alphanumeric))
                .map(|(i, _)| i)
                .collect();
            for (n, &at) in starts.iter().enumerate().step_by(step) {
                let end = joined[at..].find(|c: char| !c.is_alphanumeric()).map_or(joined.len(), |n| at + n);
                let word = words[(n / step) % words.len()];
                let damaged = format!("{}{word}{}", &joined[..at], &joined[end..]);
                faults += usize::from(messages(&damaged).has_errors());
                texts += 1;
            }
        });
    }
    assert!(texts > 500 && faults > texts / 3, "{faults} of {texts}");
}

#[test]
fn deep_and_long() {
    as_in_kbc(deep_and_long_programs);
}

fn deep_and_long_programs() {
    let program = "program p(x: f32[8]) -> f32[8] { RESULT }";
    let ok = |text: String| {
        let found = messages(&text);
        assert!(found.list.is_empty(), "{:?}", found.list.first());
    };
    let fails = |text: String, code: &str| {
        let found = messages(&text);
        assert!(found.has_errors() && found.list.iter().all(|d| d.code == code), "{:?}", found.list.first());
    };
    ok(program.replace("RESULT", &format!("{}x{}", "exp(".repeat(400), ")".repeat(400))));
    ok(program.replace("RESULT", &format!("x{}", " + x".repeat(450))));
    ok(program.replace("8", &format!("{}8", "0 + ".repeat(450))).replace("RESULT", "x"));
    let chain = |n: usize| -> String {
        let links: Vec<String> = (0..n).map(|i| format!("kernel k{i}(x) = k{}(x)\n", i + 1)).collect();
        format!("{}kernel k{n}(x) = x\n{}", links.concat(), program.replace("RESULT", "k0(x)"))
    };
    ok(chain(100));
    fails(chain(5000), "E228");
    let calls = |n: usize, body: &str| -> String {
        let one = |i: usize| {
            let next = format!("c{}(x)", i + 1);
            format!("program c{i}[N](x: f32[N]) -> f32[N] {{ {} }}\n", body.replace("NEXT", &next))
        };
        let links: String = (0..n).map(one).collect();
        let last = format!("program c{n}[N](x: f32[N]) -> f32[N] {{ x + x }}\n");
        format!("{links}{last}{}", program.replace("RESULT", "c0(x)"))
    };
    ok(calls(49, "exp(exp(NEXT))"));
    fails(calls(50, "exp(NEXT)"), "E233");
    fails(calls(20, "NEXT + NEXT"), "E233");
    let deep = |n| format!("{}NEXT{}", "exp(".repeat(n), ")".repeat(n));
    ok(calls(49, &deep(10)));
    fails(calls(49, &deep(400)), "E233");
    let params = |n: usize| -> String {
        let links: Vec<String> =
            (0..n).map(|i| format!("param p{i} = p{} + {}1\n", i + 1, "0 + ".repeat(100))).collect();
        format!("{}param p{n} = 1\n{}", links.concat(), program.replace("RESULT", "x"))
    };
    ok(params(100));
    fails(params(3000), "E010");
    let nested = format!("kernel deep(x) = {}x{}\n", "exp(".repeat(400), ")".repeat(400));
    fails(format!("{nested}{}", program.replace("RESULT", "x")), "E228");
}
