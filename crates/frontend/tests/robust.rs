//! Tests that no text makes the parser panic, exhaust the stack, or point outside the text.

use crate::cases::all_cases;
use kbc_diag::{SourceMap, render};
use kbc_frontend::parse;

fn check(text: &str) -> bool {
    let mut map = SourceMap::default();
    let id = map.add("a.kb", text);
    let (file, diagnostics) = parse(id, text);
    for d in &diagnostics.list {
        for l in &d.labels {
            let (s, e) = (l.span.start as usize, l.span.end as usize);
            assert!(text.get(s..e).is_some(), "{:?} {d:?}\n{text}", l.span);
        }
        assert!(["E001", "E002", "E003", "E006", "E007"].contains(&d.code));
        assert!(!render::human(d, &map, false).is_empty());
    }
    for i in &file.items {
        let s = i.span();
        assert!(text.get(s.start as usize..s.end as usize).is_some());
    }
    diagnostics.is_empty()
}

/// Returns the next pseudo-random number (an LCG with Knuth's MMIX constants).
fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*seed >> 33) as usize
}

#[test]
fn damaged_files() {
    let mut texts = vec![];
    insta::glob!("data/*/*.kb", |path| texts.push(std::fs::read_to_string(path).expect("found by a glob")));
    texts.extend(kbc_frontend::library::LIBRARY.iter().map(|(_, text)| (*text).to_owned()));
    assert!(texts.len() >= 14);
    let mut seed = 1;
    let mut broken = 0;
    for text in &texts {
        let chars: Vec<char> = text.chars().collect();
        for round in 0..30 {
            let mut c = chars.clone();
            for _ in 0..1 + round % 3 {
                let at = next(&mut seed) % c.len();
                match next(&mut seed) % 5 {
                    0 => drop(c.remove(at)),
                    1 => c.insert(at, ['{', '}', '(', ']', 'ø', '"', '=', ';'][next(&mut seed) % 8]),
                    2 => c.truncate(at.max(1)),
                    3 => drop(c.drain(at..(at + next(&mut seed) % 40).min(c.len()))),
                    _ => {
                        let from = next(&mut seed) % c.len();
                        let part: Vec<char> = c[from..(from + 30).min(c.len())].to_vec();
                        c.splice(at..at, part);
                    }
                }
                if c.is_empty() {
                    c.push('x');
                }
            }
            broken += usize::from(!check(&c.into_iter().collect::<String>()));
        }
    }
    assert!(broken > 200, "the damage must be real: {broken}");
}

/// Every spec, damaged and with foreign text, gives an error or can be formatted.
#[test]
fn damaged_specs() {
    let mut texts = vec![];
    insta::glob!("../../../specs", "**/*.kb", |path| {
        texts.push(std::fs::read_to_string(path).expect("found by a glob"));
    });
    assert!(texts.len() >= 15);
    let foreign = [
        "größe", "\u{2192}", "e\u{301}", "\u{feff}", "\r\n", "\t", "日本", "\u{a0}", "// ø\n", "\"ü", "'",
        "★", "{", ")", ";", "-",
    ];
    let (mut seed, mut broken, mut whole) = (5, 0, 0);
    let rounds = if all_cases() { 40 } else { 16 };
    for text in &texts {
        let chars: Vec<char> = text.chars().collect();
        for round in 0..rounds {
            let mut c = chars.clone();
            for _ in 0..1 + round % 4 {
                let at = next(&mut seed) % c.len();
                let word = foreign[next(&mut seed) % foreign.len()];
                match next(&mut seed) % 3 {
                    0 => drop(c.splice(at..at, word.chars())),
                    1 => drop(c.splice(at..(at + 3).min(c.len()), word.chars())),
                    _ => {
                        let to = (at * 7) % c.len();
                        c.swap(at, to);
                    }
                }
            }
            let text: String = c.into_iter().collect();
            if check(&text) {
                let form = kbc_frontend::fmt::format(kbc_diag::FileId(0), &text).expect("it parses");
                assert_eq!(
                    kbc_frontend::fmt::format(kbc_diag::FileId(0), &form).as_ref(),
                    Ok(&form),
                    "{text}"
                );
                whole += 1;
            } else {
                broken += 1;
            }
        }
    }
    assert!(broken > 200 && whole > 30, "{broken} {whole}");
}

#[test]
fn nothing_is_too_deep_or_too_long() {
    let n = 20_000;
    for (open, close) in [
        ("fn f() = ".to_string() + &"(".repeat(n), ")".repeat(n)),
        ("fn f() = ".to_string() + &"-".repeat(n), "1".into()),
        ("fn f() = 1".to_string() + &" + 1".repeat(n), String::new()),
        ("fn f() = 1".to_string() + &" + if a { 1 } else { 1 }".repeat(n), String::new()),
        ("algorithm a: c over (r of p) ".to_string() + &"{".repeat(n), "}".repeat(n)),
        ("algorithm a: c over (r of p) { if a { }".to_string() + &" else if a { }".repeat(n), "}".into()),
        ("program f() -> f32 { ".to_string() + &"f(".repeat(n), ")".repeat(n) + "}"),
        ("topology t = ".to_string() + &"mesh(".repeat(n), ")".repeat(n)),
        (")".repeat(n), String::new()),
    ] {
        let text = open + &close;
        assert!(!check(&text), "{}..", &text[..40]);
    }
    // Long but flat texts are accepted.
    let flat = "if r == 1 && p > 2 { put [r] -> r + 1 } ".repeat(n);
    assert!(check(&format!("algorithm a: c over (r of p) {{ {flat} }}")));
    assert!(check(&"fn f(a, b) = a + b * 2\n".repeat(n)));
}
