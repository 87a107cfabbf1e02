//! Positions in YAML texts.

use kbc_diag::FileId;
use kbc_frontend::testing::{Document, NO_TEXT, NodeKind, starts};

#[test]
fn nodes_are_found_again() {
    let text = "# a comment\nshape: ring(8)\nlinks:\n  (0)->(1): 1 GB/s, 2 ns  # slow\n  'q': [a, {b: 7}]\n";
    let d = Document::read(text, FileId(0)).unwrap();
    let NodeKind::Map(top) = &d.root.kind else { panic!() };
    let at = |n: usize| {
        let s = d.span(n);
        &text[s.start as usize..s.end as usize]
    };
    assert_eq!((at(top[0].0.number), at(top[0].1.number)), ("shape", "ring(8)"));
    let NodeKind::Map(links) = &top[1].1.kind else { panic!() };
    assert_eq!((at(links[0].0.number), at(links[0].1.number)), ("(0)->(1)", "1 GB/s, 2 ns"));
    let NodeKind::List(list) = &links[1].1.kind else { panic!() };
    let NodeKind::Map(inner) = &list[1].kind else { panic!() };
    assert_eq!(at(links[1].0.number), "'q'");
    assert_eq!((at(list[0].number), at(inner[0].1.number)), ("a", "7"));
    assert_eq!(d.verbatim(top[0].1.number, "ring(8)"), Some(text.find("ring").unwrap()));
}

/// Both methods find the same positions in every machine file of the repository, and in texts
/// with the forms that such files may have.
#[test]
fn places_are_those_of_the_reader() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../specs");
    let mut texts = vec![
        "a: [1, {b: 2, 'c': x y}, [ ]]\nb: {c: d}\n".to_owned(),
        "# c\n---\na:   # d\n  - b: 1\n    c: \"x\\\"y\"\n  - - d\n    - 'it''s'\n  -\n    e: 0x10\n"
            .to_owned(),
        "links:\n  (0)->(1): 1 GB/s, 2 ns  # slow\n  #no\n  (1)->(0): 50 GB/s, 1 us\nx: ~\ny:\nz: true\n"
            .to_owned(),
        "\u{feff}ä: ö\nü: http://x y#z\n? k\n: v\n".to_owned(),
    ];
    for folder in ["topologies", "kernbench", "sweeps", "reference"] {
        for entry in std::fs::read_dir(format!("{root}/{folder}")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "yaml") {
                texts.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let mut fast = 0;
    for text in &texts {
        let d = Document::read(text, FileId(0)).unwrap();
        let Some(all) = starts(text, &d.root) else { continue };
        fast += 1;
        for (number, start) in all.iter().enumerate().filter(|s| *s.1 != NO_TEXT) {
            assert_eq!(Some(*start), d.read_to(number), "node {number} of\n{text}");
        }
    }
    assert!(fast >= 14, "{fast} of {}", texts.len());
    for odd in ["a: &x 1\nb: *x\n", "a: |\n  text\n", "a: x\n  y\n"] {
        let d = Document::read(odd, FileId(0)).unwrap();
        assert_eq!(starts(odd, &d.root), None, "{odd}");
    }
}

#[test]
fn no_text_panics() {
    for text in [
        "",
        "a: [",
        "a: 1\na: 2",
        "? [x]\n: 1",
        "a: &x [*x]",
        "- 1\n---\n- 2",
        "\u{feff}a: 1",
        "a: !t b",
        "\t",
        "a: \"\\q\"",
        "ä: ö\nü: [",
        "*x",
        "a: &a [1]\nb: *a",
        "&a [*a, *a]",
    ] {
        match Document::read(text, FileId(0)) {
            Ok(d) => assert!((0..9).all(|n| d.span(n).end as usize <= text.len())),
            Err(e) => assert_eq!(e.code, "E460", "{text}"),
        }
    }
}
