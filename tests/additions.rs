//! Tests of `kbc explain order`: the orders of additions of programs, at one size and at several.

use crate::common;

use common::{Scratch, kbc};
use serde_json::Value;

const PROGRAM: &str = "param n = 16\ntopology sys = ring(4)\nmesh m = sys[tp]\n\
    program p(x: f32[n] partial(sum@tp)) -> f32[n] { all_reduce(x, sum, over: tp, using: ALGORITHM) }\n";

fn ordered(algorithm: &str, more: &[&str]) -> Value {
    let s = Scratch::new();
    s.write("p.kb", PROGRAM.replace("ALGORITHM", algorithm).as_bytes());
    let words = [&["explain", "order", "p.kb", "--format", "json"], more].concat();
    let ran = kbc(s.path(), &words, "");
    assert_eq!(ran.code, 0, "{algorithm}: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// The orders of the result, each with its first elements.
fn orders(found: &Value) -> Vec<(String, u64)> {
    let values = found["sizes"][0]["values"].as_array().expect("values");
    let result = values.iter().find(|v| v["read_by"] == "result 0").expect("the result");
    let one = |o: &Value| {
        (o["order"].as_str().expect("text").to_owned(), o["places"][0]["start"].as_u64().expect("a number"))
    };
    result["orders"].as_array().expect("orders").iter().map(one).collect()
}

#[test]
fn a_ring_adds_every_block_in_another_rotation() {
    let found = ordered("ring", &["--also", "n=1000"]);
    let list = orders(&found);
    let has = |order: &str, start: u64| list.contains(&(order.to_owned(), start));
    // The first sum of block b is made by rank b + 1, of what it has and what rank b + 2 sends.
    assert!(list.len() == 4 && has("r1 + r2 + r3 + r0", 0) && has("r2 + r3 + r0 + r1", 4), "{list:?}");
    assert!(has("r3 + r0 + r1 + r2", 8) && has("r0 + r1 + r2 + r3", 12), "{list:?}");
    assert_eq!((&found["order"], &found["fixed"]), (&"by_position".into(), &false.into()));
    assert_eq!(found["sizes"][0]["equal_on_ranks"], true);
    assert_eq!(found["sizes"][0]["position_independent"], false);
}

#[test]
fn doubling_adds_all_elements_alike() {
    let found = ordered("recursive_doubling", &["--also", "n=1000", "--also", "n=3", "--fixed"]);
    assert_eq!(orders(&found).len(), 1);
    assert_eq!((&found["order"], &found["fixed"]), (&"fixed".into(), &true.into()));
    assert_eq!(found["sizes"].as_array().map(Vec::len), Some(3));
}

/// With `one_phase`, every rank adds its own contribution first, so ranks differ.
#[test]
fn ranks_may_differ_in_bits() {
    let found = ordered("one_phase", &[]);
    assert_eq!(found["sizes"][0]["equal_on_ranks"], false);
}

#[test]
fn an_order_that_is_not_fixed_is_refused() {
    let s = Scratch::new();
    s.write("p.kb", PROGRAM.replace("ALGORITHM", "ring").as_bytes());
    let ran = kbc(s.path(), &["explain", "order", "p.kb", "--fixed"], "");
    assert!(ran.code == 1 && ran.stderr.contains("E597") && ran.stdout.is_empty(), "{}", ran.stderr);
    // Integers are exact in every order.
    s.write("i.kb", PROGRAM.replace("ALGORITHM", "ring").replace("f32", "i32").as_bytes());
    let ran = kbc(s.path(), &["explain", "order", "i.kb", "--fixed"], "");
    assert!(ran.code == 0 && ran.stdout.contains("exact: no order"), "{}{}", ran.stdout, ran.stderr);
    for words in [["explain", "bound", "p.kb", "--fixed"], ["explain", "select", "p.kb", "--also=n=1"]] {
        let ran = kbc(s.path(), &words, "");
        assert!(ran.code == 2 && ran.stderr.contains("does not apply"), "{words:?}: {}", ran.stderr);
    }
}
