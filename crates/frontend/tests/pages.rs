//! Tests of the two examples of every page about the algorithm language: one yields exactly its
//! code, the other no message.

use kbc_diag::codes::{CODES, Example};
use kbc_diag::{Diagnostics, SourceMap, render};
use kbc_frontend::{ast::Item, parse};
use kbc_rounds::{Call, Decls, Layer, Library, Limits, Verifier, checks};

fn decls(items: Vec<Item>, found: &mut Diagnostics) -> Decls {
    let mut d = Decls::default();
    for i in items {
        match i {
            Item::Function(f) => d.functions.push(f),
            Item::Table(t) => d.functions.extend(kbc_frontend::table::function(t, None, found)),
            Item::Collective(c) => d.collectives.push(c),
            Item::Algorithm(a) => d.algorithms.push(a),
            _ => {}
        }
    }
    d
}

/// Returns the messages of an example: of its text, then of its names, then of its algorithms on
/// its number of ranks and root 0.
fn messages(e: &Example, map: &mut SourceMap) -> Diagnostics {
    let mut lib = Library::new();
    insta::glob!("../../../specs/lib", "*.kb", |path| {
        let text = std::fs::read_to_string(path).expect("found by a glob");
        let id = map.add(path.to_string_lossy(), text.clone());
        let (file, d) = parse(id, &text);
        let decls = decls(file.items, &mut Diagnostics::new());
        assert!(d.is_empty() && lib.add(id, Layer::Library, vec![], decls).is_empty());
    });
    let id = map.add("page.kb", e.text);
    let (file, mut found) = parse(id, e.text);
    if found.has_errors() {
        return found;
    }
    let decls = decls(file.items, &mut found);
    found.extend(lib.add(id, Layer::User, vec![], decls));
    if !found.has_errors() {
        found.extend(checks::check_file(&lib, id));
    }
    if !found.has_errors() {
        let mut verifier = Verifier::new(&lib, Limits::default());
        for alg in lib.algorithms_in(id) {
            let root = lib.algorithm(alg).root.as_ref().map(|_| vec![0]);
            let call = Call { alg, sizes: vec![i64::from(e.ranks)], root, args: vec![] };
            if let Err(d) = verifier.verify(&call) {
                found.extend(d);
            }
        }
    }
    found.finish()
}

#[test]
fn every_page_is_right() {
    let (mut pages, mut wrong) = (0, vec![]);
    // Passes raise E033 to E039, other parts E119 and E2xx and above; the driver's tests run those
    // pages.
    let rounds = |c: &str| c < "E033" || ("E040".."E200").contains(&c) && c != "E119";
    for c in CODES.iter().filter(|c| rounds(c.code)) {
        let examples = c.examples();
        assert_eq!(examples.iter().map(|e| e.fails).collect::<Vec<_>>(), [true, false], "{}", c.code);
        for e in &examples {
            let mut map = SourceMap::default();
            let found = messages(e, &mut map);
            let shown: Vec<String> = found.list.iter().map(|d| render::short(d, &map)).collect();
            if found.list.is_empty() == e.fails || found.list.iter().any(|d| d.code != c.code) {
                wrong.push(format!("{} {}: {shown:#?}", c.code, if e.fails { "fails" } else { "fixed" }));
            }
        }
        pages += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(pages >= 27, "{pages}");
}
