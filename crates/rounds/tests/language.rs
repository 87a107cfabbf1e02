//! Tests of expressions, scopes, selections and statements, one by one.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use crate::common;

use common::{World, decls};
use kbc_frontend::ast::Item;
use kbc_rounds::ast::{FnBody, FnDecl};
use kbc_rounds::eval::{ListScope, MAX_CALL_DEPTH, Value, eval};
use kbc_rounds::library::Layer;
use kbc_rounds::{Call, Limits, Rounds, cost, expand};

/// Returns the value of an expression with x = 7, y = -3, or the code of its error.
fn value(world: &mut World, text: &str) -> String {
    let (file, found) = {
        let text = format!("fn f() = {text}");
        let file = world.sources.add("expr.kb", &text);
        kbc_frontend::parse(file, &text)
    };
    assert!(found.is_empty(), "{text}: {}", world.show(&found));
    let Some(Item::Function(FnDecl { body: FnBody::Expr(body), .. })) = file.items.into_iter().next() else {
        panic!("{text}")
    };
    let scope = ListScope(vec![("x".into(), Value::Int(7)), ("y".into(), Value::Int(-3))]);
    match eval(&body, &scope, &world.lib) {
        Ok(v) => v.to_string(),
        Err(d) => d.code.to_owned(),
    }
}

#[test]
fn expressions() {
    let mut world = World::with_library();
    world.add(
        "f.kb",
        "fn fib(n) = if n < 2 { n } else { fib(n - 1) + fib(n - 2) }  fn down(n) = if n == 0 { 0 } else { down(n - 1) }  table order = [0, 2, 1, 3]  table grid = [[10, 20], [30, 20 + 20]]",
        Layer::User,
    );
    for line in include_str!("data/expressions.txt").lines().filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        let (text, want) = line.split_once(" => ").unwrap();
        assert_eq!(value(&mut world, text.trim()), want.trim(), "{text}");
    }
    // Recursion up to the limit does not overflow the stack of a test thread.
    assert_eq!(value(&mut world, &format!("down({})", MAX_CALL_DEPTH - 1)), "0");
    assert_eq!(value(&mut world, &format!("down({MAX_CALL_DEPTH})")), "E010");
}

fn rounds(world: &World, call: &Call) -> Rounds {
    expand(&world.lib, call, &Limits::default()).unwrap_or_else(|d| panic!("{}", world.show(&d)))
}

/// Returns all transfers as text: round, source and places, destination and places.
fn listed(r: &Rounds) -> Vec<String> {
    let places = |x: &kbc_rounds::region::Region| {
        let p: Vec<String> = x.places().map(|p| p.to_string()).collect();
        format!("{}[{}]", r.buffers[x.buffer as usize].name, p.join(" "))
    };
    r.transfers()
        .map(|(t, x)| {
            let sign = if x.reduce { "+" } else { "" };
            format!("{t}: {} {} -> {} {}{sign}", x.src, places(&x.from), x.dst, places(&x.to))
        })
        .collect()
}

/// Expands the last algorithm of a text.
fn text_rounds(text: &str, sizes: &[i64]) -> (World, Rounds) {
    let mut world = World::with_library();
    let (file, found) = world.add("t.kb", text, Layer::User);
    assert!(found.is_empty(), "{}", world.show(&found));
    let alg = *world.lib.algorithms_in(file).last().unwrap();
    let r = rounds(&world, &Call { alg, sizes: sizes.to_vec(), root: None, args: vec![] });
    (world, r)
}

#[test]
fn selections() {
    // An algorithm of rank 0 alone: the meaning of each slice on 4 ranks, where `[i]` is one of 4
    // blocks.
    for (slice, places, atoms) in [
        ("[..]", "0 1 2 3", 4),
        ("[1]", "1", 4),
        ("[-1 mod 4]", "3", 4),
        ("[3; 2 mod 4]", "3 0", 4),
        ("[1; 2 of 8]", "1 2", 8),
        ("[1 of 2]", "2 3", 4),
        ("[1 of 2][0 of 2]", "2", 4),
        ("[..][1 of 2]", "1 3 5 7", 8),
        ("[j for j in 0..4 if j % 2 == 1]", "1 3", 4),
        ("[2*i + j for j in 0..2, i in 0..2]", "0 2 1 3", 4),
        ("[2*j; 2 for j in 1..2 of 8]", "1", 4),
        ("[1 of 3]", "4 5 6 7", 12),
        ("[3 - j for j in 0..4][1 of 2]", "7 5 3 1", 8),
    ] {
        let text = format!("algorithm a: all_gather over (r of p) {{ if r == 0 {{ put {slice} -> 1 }} }}");
        let (_, r) = text_rounds(&text, &[4]);
        assert_eq!(listed(&r), [format!("0: 0 v[{places}] -> 1 v[{places}]")], "{slice}");
        assert_eq!(r.atoms, atoms, "{slice}");
    }
    // A bare index follows the axis, and `of` and `mod` decide for themselves.
    for (axis, slice, right) in [
        ("mod", "[-1]", true),
        ("mod", "[3; 2]", true),
        ("mod", "[-1 of 4]", false),
        ("of", "[-1]", false),
        ("of", "[3; 2]", false),
        ("of", "[4 of 4]", false),
        ("of", "[j for j in 3..5]", false),
        ("of", "[4 mod 4]", true),
        ("of", "[4; 0 of 4]", true),
    ] {
        let text =
            format!("algorithm a: all_gather over (r {axis} p) {{ if r == 0 {{ put {slice} -> 1 }} }}");
        let mut world = World::with_library();
        let (file, _) = world.add("t.kb", &text, Layer::User);
        let alg = *world.lib.algorithms_in(file).last().unwrap();
        let call = Call { alg, sizes: vec![4], root: None, args: vec![] };
        let done = expand(&world.lib, &call, &Limits::default());
        let codes: Vec<&str> = done.err().iter().flat_map(|d| &d.list).map(|d| d.code).collect();
        assert_eq!(codes, if right { vec![] } else { vec!["E028"] }, "{axis} {slice}");
    }
    let (_, r) = text_rounds(
        "algorithm a: all_gather over (r of p) { if r == 0 { put [j for j in 0..0] -> 1 } }",
        &[4],
    );
    assert_eq!((listed(&r).len(), cost(&r).rounds), (0, 0));
}

#[test]
fn statements_make_rounds() {
    let all = |body: &str| {
        let (_, r) = text_rounds(&format!("algorithm a: all_reduce over (r mod p) {body}"), &[2]);
        let of_zero: Vec<String> = r
            .transfers()
            .filter(|(_, x)| x.src == 0)
            .map(|(t, x)| format!("{t}{}", if x.reduce { "+" } else { "" }))
            .collect();
        (r.rounds.len(), of_zero.join(" "))
    };
    let cases = [
        ("{ put [..] -> r + 1; put [..] -> r + 1 reduce }", 2, "0 1+"),
        ("together { put [..] -> r + 1; put [..] -> r + 1 reduce }", 1, "0 0+"),
        ("{ for k in 0..3 { put [..] -> r + 1 } }", 3, "0 1 2"),
        ("{ for k in 3..0 { put [..] -> r + 1 } }", 0, ""),
        ("{ each k in 0..r + 1 { put [..] -> r + 1; put [..] -> r } }", 2, "0 1"),
        (
            "{ if r == 1 { put [..] -> 0; put [..] -> 0 } else { put [..] -> 1 reduce } put [..] -> r + 1 }",
            3,
            "0+ 2",
        ),
        // A rank-dependent `if` never delays other statements, even if no rank takes it.
        ("{ if r > 5 { put [..] -> 0 } put [..] -> r + 1 }", 2, "1"),
        (
            "together { { put [..] -> r + 1; put [..] -> r + 1 } for k in 0..3 { put [..] -> r + 1 reduce } }",
            3,
            "0 0+ 1 1+ 2+",
        ),
        ("{ let q = r + 1; { let q = r + 2 } put [..] -> q }", 1, "0"),
    ];
    for (body, length, sends) in cases {
        assert_eq!(all(body), (length, sends.to_owned()), "{body}");
    }
}

#[test]
fn views_and_orders() {
    let (_, r) = text_rounds(
        "algorithm a: all_reduce over (x of w, y of h) { apply all_reduce over (y, x) using first on [..] }
         algorithm b: all_reduce over (x of w, y of h) { apply all_reduce over (y, x) using first on [..] }
         algorithm first: all_reduce over (r of p) { if r < p - 1 { put [..] -> r + 1 reduce } }
         algorithm c: all_reduce over (x of w, y of h) { apply all_reduce over (y, x) using first on [..] }",
        &[2, 3],
    );
    // (y, x): y is the slow coordinate. Ranks are x*3 + y.
    let pairs: Vec<(u32, u32)> = r.transfers().map(|(_, x)| (x.src, x.dst)).collect();
    assert_eq!(pairs, [(0, 3), (3, 1), (1, 4), (4, 2), (2, 5)]);
    assert!(r.transfers().all(|(_, x)| x.distance == 5 && x.direction == 1));
    // Scratch of parallel groups is one buffer; a loop makes a new one in each iteration.
    let (_, r) = text_rounds(
        "algorithm one: all_reduce over (r of p) { scratch t[2]  put [..] -> t[0] }
         algorithm a: all_reduce over (x of w, y of h) { for k in 0..2 { apply all_reduce over y using one on [x of w] } }",
        &[2, 3],
    );
    assert_eq!(r.buffers.len(), 3);
    assert_eq!((r.buffers[0].atoms, r.buffers[1].atoms), (2, 2));
    // The number of lanes follows the text.
    let (_, r) = text_rounds(
        "algorithm a: all_reduce over (r mod p) together { put [..] -> r + 1 reduce  put [..] -> r - 1 reduce }",
        &[3],
    );
    let ways: Vec<(u32, i8)> = r.transfers().map(|(_, x)| (x.lane, x.direction)).collect();
    assert_eq!(ways, [(1, 1), (1, 1), (1, 1), (2, -1), (2, -1), (2, -1)]);
}

#[test]
fn scopes() {
    let mut world = World::with_library();
    let text = "fn lowest_bit(u) = 1
        algorithm ring: all_gather over (r mod p) { each k in 1..p { put [r] -> r + k } }
        algorithm a: all_reduce over (r of p) { apply reduce_scatter over r using ring on [..]  apply all_gather over r using ring on [..] }
        algorithm b: all_gather over (r mod p) { apply all_gather over r using pat on [..] }";
    let (file, found) = world.add("mine.kb", text, Layer::User);
    assert!(found.is_empty());
    let ids = world.lib.algorithms_in(file);
    let call = |alg| Call { alg, sizes: vec![5], root: None, args: vec![] };
    // The file's own ring for all_gather, the library's for reduce_scatter.
    assert_eq!(cost(&rounds(&world, &call(ids[1]))).rounds, 4 + 1);
    // The library's pat uses the library's lowest_bit, whatever the file declares.
    assert_eq!(cost(&rounds(&world, &call(ids[2]))).rounds, 4);
    // The library's ring all_reduce is unchanged, and a note states what is hidden.
    assert_eq!(cost(&rounds(&world, &world.call("all_reduce", "ring", &[5], None))).rounds, 8);
    let notes = world.lib.hidden_by(file);
    assert_eq!(notes.list.len(), 2);
    assert!(!notes.has_errors());

    // A used file comes before the library and after the user's own file.
    let used = "algorithm ring: all_gather over (r mod p) { }  algorithm mine: all_gather over (r mod p) { }";
    let a = world.sources.add("used.kb", used);
    let b = world.sources.add(
        "top.kb",
        "algorithm t: all_gather over (r mod p) { apply all_gather over r using ring on [..] }",
    );
    for (id, uses) in [(a, vec![]), (b, vec![a])] {
        let (tree, _) = kbc_frontend::parse(id, &world.sources.get(id).unwrap().text.clone());
        assert!(world.lib.add(id, Layer::User, uses, decls(tree.items)).is_empty());
    }
    let top = world.lib.algorithms_in(b)[0];
    assert_eq!(cost(&rounds(&world, &call(top))).rounds, 0);
    let coll = world.lib.collective_of(top).unwrap();
    let span = kbc_diag::Span::NONE;
    assert!(world.lib.find_algorithm(b, coll, "mine", span).is_ok());
    assert!(world.lib.find_algorithm(file, coll, "mine", span).is_err());

    // A user's own collective of the same name has no library algorithm.
    let own = "collective all_reduce over (r of p) on v[n] { start v[i] end v[i] = v[i] at r }
        algorithm none: all_reduce over (r of p) { }
        algorithm some: all_reduce over (r of p) { apply all_reduce over r using ring on [..] }";
    let (c, found) = world.add("own.kb", own, Layer::User);
    assert!(found.is_empty());
    let found = kbc_rounds::checks::check_file(&world.lib, c);
    assert_eq!(found.list.iter().map(|d| d.code).collect::<Vec<_>>(), ["E005"], "{}", world.show(&found));
}

/// The relays of a transfer: a list, a comprehension, and numbers below 0, which stand for none.
#[test]
fn relays() {
    let via = |list: &str| -> Vec<Vec<u32>> {
        let text = format!(
            "table hops = [5, 6, 7]  fn begin(r) = r\n\
             algorithm t: all_gather over (r mod p) {{ put [r] -> r + 1 via {list} }}"
        );
        let (_, r) = text_rounds(&text, &[2]);
        r.transfers().map(|(_, x)| x.via.as_deref().unwrap_or(&[]).to_vec()).collect()
    };
    assert_eq!(via("[3]"), [vec![3], vec![3]]);
    assert_eq!(via("[r, 4 - r]"), [vec![0, 4], vec![1, 3]]);
    assert_eq!(via("[-1, r - 1, 2]"), [vec![2], vec![0, 2]]);
    assert_eq!(via("[hops(j) for j in begin(r)..3]"), [vec![5, 6, 7], vec![6, 7]]);
    assert_eq!(via("[hops(j) for j in 0..3 if j != r]"), [vec![6, 7], vec![5, 7]]);
    assert_eq!(via("[hops(j) for j in 2..2]"), [Vec::<u32>::new(), vec![]]);
    // The word is a name everywhere else.
    let (_, r) = text_rounds(
        "algorithm t: all_gather over (via mod p) { let with = via; put [with] -> via + 1 via [via] }",
        &[2],
    );
    assert_eq!(r.transfers().filter_map(|(_, x)| x.via.as_deref()).collect::<Vec<_>>(), [&[0][..], &[1]]);
}

#[test]
fn wrong_relays() {
    let codes = |via: &str| -> Vec<&str> {
        let mut world = World::with_library();
        let text = format!("algorithm t: all_gather over (r mod p) {{ {via} }}");
        let (file, found) = world.add("t.kb", &text, Layer::User);
        if let Some(d) = found.list.first() {
            return vec![d.code];
        }
        let alg = *world.lib.algorithms_in(file).last().unwrap();
        let call = Call { alg, sizes: vec![2], root: None, args: vec![] };
        let found = expand(&world.lib, &call, &Limits::default()).err();
        found.iter().flat_map(|d| d.list.iter().map(|d| d.code)).collect()
    };
    assert_eq!(codes("put [r] -> r + 1 via [4294967295]"), [""; 0]);
    assert_eq!(codes("put [r] -> r + 1 via [4294967296]"), ["E010"]);
    assert_eq!(codes("put [r] -> r + 1 via [1 / 0]"), ["E010"]);
    assert_eq!(codes("put [r] -> r + 1 via [k]"), ["E005"]);
}
