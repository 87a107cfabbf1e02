//! Tests that every listing of the language's design parses without a message.

use kbc_diag::FileId;
use kbc_frontend::parse;

fn clean(base: &str, pattern: &str) -> usize {
    let mut n = 0;
    insta::glob!(base, pattern, |path| {
        let text = std::fs::read_to_string(path).expect("the file was found by a glob");
        let (_, d) = parse(FileId(0), &text);
        assert!(d.is_empty(), "{}: {d:#?}", path.display());
        n += 1;
    });
    n
}

#[test]
fn programs() {
    assert_eq!(clean("data/programs", "*.kb"), 4);
}

#[test]
fn library() {
    assert!(clean("../../../specs/lib", "*.kb") >= 11);
}
