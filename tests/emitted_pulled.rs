//! Tests of emitted collectives whose receivers pull: messages that are added in the core, that are
//! put in place, and that are parts of whole vectors. They run under the memory model of the
//! stand-in headers, and every element is compared.

use crate::emitting::Case;
use kbc_tiles::tile::Reach;

fn head(p: u64) -> String {
    format!(
        "param tp = {p}\nparam n = 100\ntopology sys = full(tp) {{ link: 50 GB/s, 500 ns }}\nmesh m = sys[tp]\n"
    )
}

fn emitted(text: &str) -> Case {
    Case::new(text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Returns a program of one collective on `p` ranks.
fn program(p: u64, signature: &str, body: &str) -> Case {
    emitted(&(head(p) + &format!("program case{signature} {{ {body} }}\n")))
}

/// Nothing, one element, fewer elements than ranks, tails; several tiles once.
fn sizes(ranks: &[u64]) -> Vec<(u64, u64)> {
    let small = ranks.iter().flat_map(|p| [0, 1, p - 1, p + 1, 7 * p + 3].map(|n| (*p, n)));
    small.chain([(ranks[ranks.len() / 2], 4 * 4096 + 5)]).collect()
}

/// Returns the slots and the elements per slot of the windows that peers reach.
fn windows(case: &Case) -> Vec<(String, String)> {
    let shared = case.kernel.areas.iter().filter(|a| a.reach == Reach::Peers);
    shared.map(|a| (a.slots.to_string(), a.capacity.to_string())).collect()
}

/// Every kind of collective that can pull.
#[test]
fn fetched_messages() {
    let sweep = |signature: &str, body: &str, algorithms: &[&str], ranks: &[u64]| {
        for name in algorithms {
            program(ranks[ranks.len() / 2], signature, &body.replace("ALG", name)).check(&sizes(ranks), 3);
        }
    };
    let (reduced, sum) =
        ("all_reduce(x, sum, over: tp, using: ALG)", "(x: f32[n] partial(sum@tp)) -> f32[n]");
    let pulls =
        ["two_phase with (transfer: pull)", "ring with (transfer: pull)", "one_phase with (transfer: pull)"];
    sweep(sum, reduced, &pulls, &[2, 3, 4]);
    let cores = ["two_phase with (transfer: pull, cores: 3)", "ring with (transfer: pull, cores: 2)"];
    sweep(sum, reduced, &cores, &[3, 4]);
    let gathered = "all_gather(x, dim: 0, over: tp, using: ALG)";
    let options = ["direct with (transfer: pull)", "direct with (transfer: pull, cores: 2)"];
    sweep("(x: f32[n@tp]) -> f32[n]", gathered, &options, &[3, 4]);
    let moved = "all_to_all(x, from: 0, to: 1, over: tp, using: ALG)";
    sweep("(x: f32[20@tp, n]) -> f32[20, n@tp]", moved, &["pairwise with (transfer: pull)"], &[4]);
    let sent = "broadcast(x, over: tp, using: ALG)";
    let trees = ["binomial with (transfer: pull)", "direct with (transfer: pull)"];
    sweep("(x: f32[n] only(0@tp)) -> f32[n]", sent, &trees, &[3, 4]);
}

/// A rank copies its vector to the window in one piece, whatever the lengths of its chunks, and
/// peers fetch their chunk of it.
#[test]
fn vectors_are_laid_out_whole() {
    let pull = "two_phase with (transfer: pull)";
    let mut case = program(
        3,
        "(x: f32[n] partial(sum@tp)) -> f32[n]",
        &format!("all_reduce(x, sum, over: tp, using: {pull})"),
    );
    let (one, count) = ("1".to_owned(), "count".to_owned());
    assert_eq!(windows(&case)[0], (one.clone(), count.clone()), "{}", case.text);
    case.check(&sizes(&[2, 3, 5, 8]), 3);

    // Calls take turns between two vectors. The result is a block of its own.
    for ty in ["f32", "bf16"] {
        let signature = format!("(x: {ty}[n] partial(sum@tp)) -> {ty}[n@tp]");
        let body = "reduce_scatter(x, sum, dim: 0, over: tp, using: direct with (transfer: pull))";
        let mut case = program(3, &signature, body);
        assert_eq!(windows(&case), [("2".to_owned(), count.clone())], "{}", case.text);
        case.check(&sizes(&[2, 3, 5]), 5);
    }

    // Each core has a vector of its own.
    let mut case = program(
        3,
        "(x: i32[n] partial(sum@tp)) -> i32[n]",
        "all_reduce(x, sum, over: tp, using: two_phase with (transfer: pull, cores: 3))",
    );
    assert_eq!(windows(&case)[0].0, "3", "{}", case.text);
    case.check(&sizes(&[2, 3, 4]), 3);

    // A group of some of the ranks.
    let text = format!(
        "param n = 100\ntopology sys = torus(3, 2)\nmesh m = sys[a: 3, b: 2]\nprogram case(x: f16[n] partial(max@a)) -> f16[n] {{ all_reduce(x, max, over: a, using: {pull}) }}\n"
    );
    let mut case = emitted(&text);
    assert_eq!(windows(&case)[0].0, one, "{}", case.text);
    case.check_own(4);

    // Two collectives use one window.
    let text = head(2).replace("100", "24")
        + &format!(
            "program case(x: f16[n, 40], w: f16[40, 32@tp], u: f16[32@tp, 40]) -> f16[n, 40] {{
                 let y = all_reduce(matmul(relu(matmul(x, w)), u), sum, over: tp, using: {pull});
                 all_reduce(matmul(relu(matmul(y, w)), u), sum, over: tp, using: {pull})
             }}\n"
        );
    let mut case = emitted(&text);
    assert_eq!(windows(&case)[0].0, one, "{}", case.text);
    assert_eq!(windows(&case).len(), 2, "{}", case.text);
    case.check_own(4);
}

/// Collectives that use one window take turns between its two vectors: two in a call, or three, so
/// that the next call begins with the other vector. `pipeline` has a window for each piece.
#[test]
fn vectors_take_turns() {
    let scattered =
        |x: &str| format!("reduce_scatter({x}, sum, dim: 0, over: tp, using: direct with (transfer: pull))");
    let inputs = "(x: f32[n] partial(sum@tp), y: f32[n] partial(sum@tp), z: f32[n] partial(sum@tp)";
    for (result, body) in [
        ("f32[n@tp]", format!("{} + {}", scattered("x"), scattered("y"))),
        ("f32[n@tp]", format!("{} + {} * {}", scattered("x"), scattered("y"), scattered("z"))),
    ] {
        let mut case = program(3, &format!("{inputs}) -> {result}"), &body);
        let whole = windows(&case).iter().filter(|w| w.1 == "count").count();
        assert!(whole > 0 && windows(&case).iter().all(|w| w.1 == "count"), "{:?}", windows(&case));
        case.check(&[(2, 7), (3, 100), (4, 13)], 5);
    }
    let body = "all_reduce(x, sum, over: tp, using: two_phase with (transfer: pull, pipeline: 3))";
    let mut case = program(4, "(x: f32[n] partial(sum@tp)) -> f32[n]", body);
    let whole = windows(&case).iter().filter(|w| w.0 == "1").count();
    assert_eq!(whole, windows(&case).len(), "{:?}", windows(&case));
    case.check(&[(4, 100), (4, 7), (4, 0)], 3);
}

/// Slots stay where a vector would be something else: fewer chunks are sent, chunks are fetched to
/// other places, or a chunk is sent that was received before.
#[test]
fn slots_that_stay() {
    for (expected, signature, body) in [
        (
            vec!["nranks - 1 x (count + nranks - 1) / nranks"; 2],
            "(x: f32[n] partial(sum@tp)) -> f32[n]",
            "all_reduce(x, sum, over: tp, using: ring with (transfer: pull))",
        ),
        (
            vec!["2 * nranks x (count + nranks - 1) / nranks * ((nranks + 19) / nranks)"],
            "(x: f32[20@tp, n]) -> f32[20, n@tp]",
            "all_to_all(x, from: 0, to: 1, over: tp, using: direct with (transfer: pull))",
        ),
        (
            vec!["nranks x (count + nranks - 1) / nranks"],
            "(x: f32[n] only(0@tp)) -> f32[n@tp]",
            "scatter(x, dim: 0, from: 0, over: tp, using: direct with (transfer: pull))",
        ),
    ] {
        let mut case = program(4, signature, body);
        let found: Vec<String> = windows(&case).iter().map(|w| format!("{} x {}", w.0, w.1)).collect();
        assert_eq!(found, expected, "{}", case.text);
        case.check_own(3);
    }
}
