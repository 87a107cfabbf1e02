//! Tests that the checked-in parser was made of the grammar as it is now.
//!
//! Its first line has a digest of the grammar. The tests of `grammar.rs` make the parser anew and
//! compare all of it; they need lalrpop.

const GRAMMAR: &str = include_str!("../src/grammar.lalrpop");
const PARSER: &str = include_str!("../src/parser.inc");

/// What to do about another parser.
pub const OTHER_PARSER: &str = "src/parser.inc is not the parser of src/grammar.lalrpop; run KBC_BLESS=1 cargo test \
    --workspace --features kbc-frontend/grammar --test frontend grammar";

/// Returns the first line of the parser of a grammar.
pub fn parser_head(grammar: &str) -> String {
    format!(
        "// Made by lalrpop of grammar.lalrpop {}; tests/grammar.rs writes it.\n",
        blake3::hash(grammar.as_bytes())
    )
}

#[test]
fn the_parser_is_not_outdated() {
    assert!(PARSER.starts_with(&parser_head(GRAMMAR)), "{OTHER_PARSER}");
    assert!(!PARSER.starts_with(&parser_head(&GRAMMAR.replacen("if", "If", 1))));
}
