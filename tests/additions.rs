//! Tests of `kbc explain order`: the orders of additions of programs, at one size and at several.

use crate::common;

use common::{Scratch, kbc, npy};
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

/// `--order fixed` takes another algorithm at another size, and the order stays.
#[test]
fn a_fixed_order_can_be_asked_for() {
    let s = Scratch::new();
    s.write("p.kb", PROGRAM.replace(", using: ALGORITHM", "").replace("ring(4)", "full(8)").as_bytes());
    let json = |words: &[&str]| -> Value {
        let ran = kbc(s.path(), words, "");
        assert_eq!(ran.code, 0, "{words:?}: {}", ran.stderr);
        serde_json::from_str(&ran.stdout).expect("JSON")
    };
    let sizes = ["--also", "n=1", "--also", "n=257", "--also", "n=100000", "--format", "json"];
    let order = |more: &[&str]| json(&[&["explain", "order", "p.kb"][..], &sizes, more].concat());
    assert_eq!(order(&[])["order"], "varies");
    assert_eq!(order(&["--order", "any"])["order"], "varies");
    let fixed = order(&["--order", "fixed"]);
    assert_eq!((&fixed["order"], &fixed["sizes"][3]["equal_on_ranks"]), (&"fixed".into(), &true.into()));

    let taken = |n: &str| -> (String, usize) {
        let define = format!("n={n}");
        let all = json(&["explain", "select", "p.kb", "-D", &define, "--order", "fixed", "--format", "json"]);
        let c = &all["collectives"][0];
        let listed = c["candidates"].as_array().expect("candidates");
        let why =
            |c: &Value| c["why"].as_str().is_some_and(|w| w.contains("order of additions is not fixed"));
        (c["algorithm"].as_str().expect("a name").to_owned(), listed.iter().filter(|c| why(c)).count())
    };
    let (small, large) = (taken("16"), taken("100000"));
    assert_ne!(small.0, large.0);
    assert!(small.1 > 3 && small.1 == large.1, "{small:?} {large:?}");
}

/// `order: fixed` in a collective takes what `--order fixed` takes; other collectives of the
/// program stay as they are.
#[test]
fn a_program_asks_for_a_fixed_order() {
    let s = Scratch::new();
    let program = |first: &str, second: &str| {
        let head = "param n = 100000\ntopology sys = full(8)\nmesh m = sys[tp]\n";
        let body = format!(
            "let a = all_reduce(x, sum, over: tp{first})\n    let b = all_reduce(y, sum, over: tp{second})\n    return (a, b)"
        );
        let sum = "f32[n] partial(sum@tp)";
        format!("{head}program p(x: {sum}, y: {sum}) -> (f32[n], f32[n]) {{\n    {body}\n}}\n")
    };
    let json = |text: &str, words: &[&str]| -> Value {
        s.write("p.kb", text.as_bytes());
        let ran = kbc(s.path(), &[words, &["p.kb", "--format", "json"]].concat(), "");
        assert_eq!(ran.code, 0, "{words:?}: {}", ran.stderr);
        serde_json::from_str(&ran.stdout).expect("JSON")
    };
    let taken = |text: &str, more: &[&str]| -> Vec<String> {
        let all = json(text, &[&["explain", "select"], more].concat());
        let list = all["collectives"].as_array().expect("collectives").iter();
        list.map(|c| c["algorithm"].as_str().expect("a name").to_owned()).collect()
    };
    let (any, fixed) = (program("", ", order: any"), program(", order: fixed", ", order: fixed"));
    let (free, asked) = (taken(&any, &[]), taken(&any, &["--order", "fixed"]));
    assert!(free[0] == free[1] && free[0] != asked[0], "{free:?} {asked:?}");
    assert_eq!(taken(&fixed, &[]), asked);
    assert_eq!(taken(&program(", order: fixed", ""), &[]), [asked[0].clone(), free[1].clone()]);

    // Integers may be added in any order, and take the faster algorithm beside floating-point
    // numbers.
    let mixed = any.replace("x: f32", "x: i32").replace("-> (f32", "-> (i32");
    assert_eq!(taken(&mixed, &["--order", "fixed"]), [free[0].clone(), asked[0].clone()]);

    // The finished schedule is looked at where all collectives must have a fixed order.
    assert_eq!(json(&fixed, &["run", "--no-data"])["order"]["verdict"], "fixed");
    assert!(json(&program(", order: fixed", ""), &["run", "--no-data"]).get("order").is_none());

    // What the graph says is kept by its text.
    let args = ["compile", "p.kb", "-q", "--no-data", "--emit", "graph=graph.kir"];
    s.write("p.kb", fixed.as_bytes());
    assert_eq!(kbc(s.path(), &args, "").code, 0);
    let graph = std::fs::read_to_string(s.path().join("graph.kir")).expect("it was written");
    assert_eq!(graph.matches(" order fixed using ").count(), 2, "{graph}");

    for (text, code, words) in [
        (program(", order: fixed, using: ring", ""), "E597", "`ring` has no fixed order"),
        (program(", order: sideways", ""), "E006", "expected fixed or any"),
        (
            program("", "").replace("all_reduce(x, sum, over: tp)", "all_gather(x, dim: 0, order: fixed)"),
            "E006",
            "order",
        ),
    ] {
        s.write("p.kb", text.as_bytes());
        let ran = kbc(s.path(), &["check", "p.kb"], "");
        assert!(ran.code == 1 && ran.stderr.contains(code) && ran.stderr.contains(words), "{}", ran.stderr);
    }
}

/// A page says in which order contributions are added; a report says it where the order had to be
/// fixed. Both say what `kbc explain order` says.
#[test]
fn reports_have_the_order() {
    let s = Scratch::new();
    s.write("p.kb", PROGRAM.replace("ALGORITHM", "ring").as_bytes());
    let json = |words: &[&str]| -> Value {
        let ran = kbc(s.path(), words, "");
        assert_eq!(ran.code, 0, "{words:?}: {}", ran.stderr);
        serde_json::from_str(&ran.stdout).expect("JSON")
    };
    let made = json(&["report", "p.kb", "-D", "n=1000", "-o", "page.html", "--format", "json"]);
    let explained = json(&["explain", "order", "p.kb", "-D", "n=1000", "--format", "json"]);
    let (order, size) = (&made["order"], &explained["sizes"][0]);
    assert_eq!((&order["verdict"], &order["why"]), (&explained["order"], &explained["why"]));
    assert_eq!(order["equal_on_ranks"], size["equal_on_ranks"]);
    let added = |v: &&Value| v["orders"].as_array().is_some_and(|o| o.iter().any(|c| c["depth"] != 0));
    let counts = size["values"].as_array().expect("values").iter().filter(added).map(|v| {
        let orders = v["orders"].as_array().expect("orders");
        (v["name"].clone(), orders.iter().filter(|c| c["depth"] != 0).count())
    });
    let listed = order["values"].as_array().expect("values").iter();
    let listed = listed.map(|v| (v["name"].clone(), v["orders"].as_u64().expect("a number") as usize));
    assert!(listed.eq(counts), "{order:#}\n{size:#}");
    let page = std::fs::read_to_string(s.path().join("page.html")).expect("it was written");
    assert!(page.contains("\"order\":{\"verdict\":\"by_position\""));

    let plain = json(&["run", "p.kb", "-D", "n=1000", "--format", "json"]);
    assert!(plain.get("order").is_none());
    s.write("p.kb", PROGRAM.replace("ALGORITHM", "recursive_doubling").as_bytes());
    let fixed = json(&["run", "p.kb", "-D", "n=1000", "--order", "fixed", "--format", "json"]);
    assert_eq!(fixed["order"]["verdict"], "fixed");
    let said = kbc(s.path(), &["run", "p.kb", "-D", "n=1000", "--order", "fixed"], "").stdout;
    assert!(said.contains("order of additions: one for all elements of a value; all ranks"), "{said}");
}

/// The first elements have the same bits whatever the number of elements, which is the reason for a
/// fixed order; without one they differ.
#[test]
fn a_fixed_order_gives_the_same_bits_at_every_count() {
    let s = Scratch::new();
    s.write("p.kb", PROGRAM.replace(", using: ALGORITHM", "").replace("ring(4)", "full(8)").as_bytes());
    let bits = |n: usize, more: &[&str]| -> Vec<Vec<u8>> {
        // Contributions of very different sizes; an element has the same ones at every count.
        let of = |rank: usize, i: usize| {
            ((i * 37 + rank * 101) % 1009) as f32 * (0.1 + rank as f32).powi(rank as i32 - 4)
        };
        let values = (0..8).flat_map(|rank| (0..n).flat_map(move |i| of(rank, i).to_le_bytes()));
        s.write("x.npy", &npy("<f4", &[8, n], &values.collect::<Vec<u8>>()));
        let define = format!("n={n}");
        let words = ["run", "p.kb", "-D", &define, "--input", "x=x.npy", "-o", "out=out.npy"];
        let ran = kbc(s.path(), &[&words[..], more].concat(), "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let bytes = std::fs::read(s.path().join("out.npy")).expect("a result");
        bytes[bytes.len() - 4 * n..].chunks(4).take(100).map(<[u8]>::to_vec).collect()
    };
    let counts = [100, 1000, 40_000, 300_000];
    let fixed: Vec<_> = counts.iter().map(|n| bits(*n, &["--order", "fixed"])).collect();
    assert!(fixed.iter().all(|b| *b == fixed[0]));
    let any: Vec<_> = counts.iter().map(|n| bits(*n, &[])).collect();
    assert!(any.iter().any(|b| *b != any[0]));
}

#[test]
fn what_has_no_fixed_order_is_refused() {
    let s = Scratch::new();
    s.write("p.kb", PROGRAM.replace("ALGORITHM", "ring").as_bytes());
    let ran = kbc(s.path(), &["run", "p.kb", "--order", "fixed"], "");
    assert!(ran.code == 1 && ran.stderr.contains("`ring` has no fixed order"), "{}", ran.stderr);
    let scatter = PROGRAM
        .replace("ring(4)", "ring(6)")
        .replace("all_reduce(x, sum, over: tp, using: ALGORITHM)", "x")
        .replace("-> f32[n]", "-> f32[n@tp]");
    s.write("s.kb", scatter.as_bytes());
    let ran = kbc(s.path(), &["run", "s.kb", "--order", "fixed"], "");
    let title = "no algorithm of reduce_scatter with a fixed order of additions";
    assert!(ran.code == 1 && ran.stderr.contains(title), "{}", ran.stderr);
    // Integers are exact in every order, so all algorithms are admitted.
    s.write("i.kb", scatter.replace("f32", "i32").as_bytes());
    let ran = kbc(s.path(), &["run", "i.kb", "--order", "fixed"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = kbc(s.path(), &["run", "i.kb", "--order", "other"], "");
    assert!(ran.code == 2 && ran.stderr.contains("--order"), "{}", ran.stderr);
}
