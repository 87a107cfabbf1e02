//! Tests of `docs/kir.ebnf`: the grammar and the parser accept the same texts.
//!
//! `KBC_GRAMMAR_RUNS=100` tries a hundred times as many random texts.

mod ebnf;
mod generate;
mod recognise;

use ebnf::Grammar;
use generate::{Generator, Mutator, Rng};
use kbc_diag::FileId;
use kbc_ir::text::parse;
use recognise::recognise;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Codes of texts that are not sentences: characters, syntax, structure, words.
const SYNTAX: [&str; 4] = ["E310", "E311", "E314", "E315"];

/// Codes of sentences with another fault: names that are not declared or declared twice, numbers
/// out of range, another version, unused kernels, lengths and waits that do not fit.
const MEANING: [&str; 6] = ["E312", "E313", "E316", "E317", "E318", "E323"];

fn grammar() -> Grammar {
    ebnf::read(&std::fs::read_to_string(format!("{ROOT}/docs/kir.ebnf")).expect("the grammar is there"))
}

/// Returns the codes with which the parser rejects a text.
fn codes(text: &str) -> BTreeSet<&'static str> {
    parse(FileId(0), text).err().into_iter().flat_map(|d| d.list).map(|d| d.code).collect()
}

/// Compares both verdicts on a text. A text of another version is not judged.
fn compare(grammar: &Grammar, what: &str, text: &str) -> bool {
    let codes = codes(text);
    for code in &codes {
        assert!(SYNTAX.contains(code) || MEANING.contains(code), "{what}: {code} is in neither list");
    }
    let parsed = !codes.iter().any(|c| SYNTAX.contains(c));
    let recognised = recognise(grammar, text);
    let found = parse(FileId(0), text).err();
    assert!(
        codes.contains("E317") || parsed == recognised.is_ok(),
        "{what}: the parser {}, the grammar {recognised:?}\n{text}\n{:#?}",
        if parsed { "accepts" } else { "rejects" },
        found.map(|d| d.list),
    );
    parsed
}

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files(&path, out);
        } else if name.ends_with(".kir") {
            out.push(path);
        }
    }
    out.sort();
}

/// All `.kir` files of the repository that are text.
fn texts() -> Vec<(String, String)> {
    let mut paths = vec![];
    files(Path::new(ROOT), &mut paths);
    let read = |p: PathBuf| Some((p.display().to_string(), std::fs::read_to_string(&p).ok()?));
    paths.into_iter().filter_map(read).collect()
}

fn runs() -> u64 {
    std::env::var("KBC_GRAMMAR_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

#[test]
fn every_file_is_a_sentence() {
    let grammar = grammar();
    let texts = texts();
    let accepted = texts.iter().filter(|(name, text)| compare(&grammar, name, text)).count();
    assert!(accepted > 150 && accepted < texts.len(), "{accepted} of {}", texts.len());
}

/// The parser accepts every sentence, as far as its form goes.
#[test]
fn sentences_are_accepted() {
    let grammar = grammar();
    let generator = Generator::new(&grammar);
    let mut rng = Rng::new(7);
    let mut lines = 0;
    for i in 0..1000 * runs() {
        let text = generator.sentence(&mut rng, 6 + (i % 9) as usize);
        lines += text.lines().count();
        assert_eq!(recognise(&grammar, &text), Ok(()), "a sentence is not recognised:\n{text}");
        assert!(compare(&grammar, "a sentence", &text));
    }
    assert!(lines > 5000, "{lines}");
}

/// Texts that differ in one place from a file or a sentence have the same verdict from both.
#[test]
fn mutants_have_one_verdict() {
    let grammar = grammar();
    let generator = Generator::new(&grammar);
    let mut rng = Rng::new(11);
    let mut bases: Vec<(String, String)> = texts()
        .into_iter()
        .filter(|(_, text)| text.len() < 6000 && recognise(&grammar, text).is_ok())
        .collect();
    for i in 0..200 {
        bases.push((format!("sentence {i}"), generator.sentence(&mut rng, 6 + i % 9)));
    }
    let (mut accepted, mut rejected) = (0, 0);
    for (name, text) in &bases {
        let mutator = Mutator::new(&grammar, text);
        for _ in 0..8 * runs() {
            match compare(&grammar, name, &mutator.mutant(&mut rng)) {
                true => accepted += 1,
                false => rejected += 1,
            }
        }
    }
    assert!(accepted > 200 && rejected > 1000, "{accepted} accepted, {rejected} rejected");
}

/// The grammar has the operations of the tables, and no other.
#[test]
fn the_grammar_has_all_operations() {
    let grammar = grammar();
    for level in [kbc_ir::optable::Level::Graph, kbc_ir::optable::Level::Schedule] {
        for name in kbc_ir::optable::names(level) {
            assert!(grammar.literals.iter().any(|l| l == name), "the grammar has no `{name}`");
        }
    }
}
