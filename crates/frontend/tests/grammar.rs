//! Tests that the joined grammar has no conflict, that a grammar with a conflict is rejected, and
//! that the parser in the sources is the one that lalrpop makes of the grammar. They need the
//! feature `grammar`, because lalrpop and its packages take longer to build than all tests of this
//! crate: `cargo test --workspace --features kbc-frontend/grammar --test frontend`.
//!
//! lalrpop splits states where merging would cause a conflict, unless its environment says
//! otherwise, and it writes its reports directly to the terminal. Each grammar is therefore
//! processed in a process of its own, once in each way.

use std::fs;
use std::path::Path;
use std::process::Command;

const GRAMMAR: &str = include_str!("../src/grammar.lalrpop");

/// How states are merged.
#[derive(Clone, Copy)]
enum StateMerge {
    /// As in the build: only if that causes no conflict.
    Build,
    /// As in LALR(1): always. A rejection is fast here; the reports of the other way take seconds.
    Lalr,
}

/// Checks whether lalrpop makes a parser of this text.
fn accepted(way: StateMerge, name: &str, text: &str) -> bool {
    made(way, name, text).is_some()
}

/// Returns the parser that lalrpop makes of this text, if it has no conflict.
fn made(way: StateMerge, name: &str, text: &str) -> Option<String> {
    let (way, lanes) = match way {
        StateMerge::Build => ("build", "enabled"),
        StateMerge::Lalr => ("lalr", "disabled"),
    };
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(way).join(name);
    fs::create_dir_all(&dir).expect("the test's directory");
    fs::write(dir.join("grammar.lalrpop"), text).expect("the grammar is written");
    let out = dir.join("grammar.rs");
    let _ = fs::remove_file(&out);
    let ran = Command::new(std::env::current_exe().expect("the test's own program"))
        .args(["--exact", "--ignored", "grammar::process_one"])
        .env("KBC_GRAMMAR_DIR", &dir)
        .env("LALRPOP_LANE_TABLE", lanes)
        .output()
        .expect("it starts");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("running 1 test"), "the child has another name");
    fs::read_to_string(out).ok()
}

/// The child process of the other tests, in the folder that they name.
#[test]
#[ignore = "a child process of the other tests"]
fn process_one() {
    let dir = std::env::var_os("KBC_GRAMMAR_DIR").expect("the folder of a grammar");
    lalrpop::Configuration::new()
        .set_in_dir(&dir)
        .set_out_dir(&dir)
        .force_build(true)
        .emit_rerun_directives(false)
        .emit_comments(false)
        .log_quiet()
        .never_use_colors()
        .process()
        .expect("no conflict");
}

/// The way of the build is tested by [`the_parser_is_that_of_the_grammar`].
#[test]
fn no_conflict() {
    assert!(GRAMMAR.contains("#[LALR]\ngrammar"));
    assert!(accepted(StateMerge::Lalr, "whole", GRAMMAR));
}

/// Shortens a generated parser for the sources: without indentation, empty lines and comments.
fn shortened(parser: &str) -> String {
    let mut out = crate::generated::parser_head(GRAMMAR);
    for line in parser.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("//")) {
        out += line;
        out.push('\n');
    }
    out
}

/// The parser in the sources is that of the grammar. With `KBC_BLESS` set, it is written.
#[test]
fn the_parser_is_that_of_the_grammar() {
    let fresh = shortened(&made(StateMerge::Build, "parser", GRAMMAR).expect("no conflict"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/parser.inc");
    if std::env::var_os("KBC_BLESS").is_some() {
        fs::write(&path, &fresh).expect("parser.inc can be written");
    }
    let kept = fs::read_to_string(&path).expect("parser.inc");
    let same = fresh == kept;
    assert!(same, "{}", crate::generated::OTHER_PARSER);
}

/// A call in the bounds of `ranks` would be ambiguous, because `(` may follow in either case.
#[test]
fn calls_in_bounds_of_ranks_are_ambiguous() {
    let text = GRAMMAR.replace(r#"RangeOf<Operators<"plain">>"#, "RangeOf<Expr>");
    assert_ne!(text, GRAMMAR);
    assert!(!accepted(StateMerge::Lalr, "ranks", &text));
}

/// A result that begins with `(` right after a let without `;` would be ambiguous.
#[test]
fn results_in_parentheses_after_a_let_are_ambiguous() {
    let text = GRAMMAR.replace(
        r#"<statements:Open> <result:Tensor<"inner">>"#,
        r#"<statements:Open> <result:Tensor<"any">>"#,
    );
    assert_ne!(text, GRAMMAR);
    assert!(!accepted(StateMerge::Lalr, "results", &text));
}

/// `return (x)` would be a call, and `return -x` a difference.
#[test]
fn return_as_a_name_is_ambiguous() {
    let text = GRAMMAR.replace(r#""cost" => "cost","#, r#""cost" => "cost", "return" => "return","#);
    assert_ne!(text, GRAMMAR);
    assert!(!accepted(StateMerge::Lalr, "return", &text));
}

#[test]
fn a_second_way_to_write_a_statement_is_refused() {
    let text = GRAMMAR.replace(
        "    IfStmt,\n",
        "    IfStmt,\n    \"let\" <name:Id> \"=\" <e:Primary<\"call\">> => StmtKind::Error,\n",
    );
    assert_ne!(text, GRAMMAR);
    assert!(!accepted(StateMerge::Build, "statement", &text));
    assert!(!accepted(StateMerge::Lalr, "statement", &text));
}
