//! Tests of the edits that a step of the migration applies together.

use kbc_diag::{Diagnostic, Diagnostics, Edit, FileId, Span};
use kbc_frontend::testing::edits;

/// Returns a message with edits at these places.
fn message(places: &[(usize, usize)]) -> Diagnostic {
    let of = |d: Diagnostic, &(from, to): &(usize, usize)| d.edit(Span::new(FileId(0), from, to), "");
    places.iter().fold(Diagnostic::error("E007", ""), of)
}

fn places(list: Vec<Diagnostic>) -> Vec<(u32, u32)> {
    let found = edits(FileId(0), &Diagnostics { list });
    found.iter().map(|e| (e.span.start, e.span.end)).collect()
}

/// The definition: each edit is compared with all edits of earlier messages.
fn by_definition(list: &[Diagnostic]) -> Vec<(u32, u32)> {
    let mut out: Vec<(u32, u32)> = vec![];
    for d in list {
        let free = |e: &Edit| out.iter().all(|o| o.1 < e.span.start || e.span.end < o.0);
        if d.edits.iter().all(free) {
            out.extend(d.edits.iter().map(|e| (e.span.start, e.span.end)));
        }
    }
    out.sort_unstable();
    out
}

#[test]
fn edits_that_touch_wait() {
    let list = || vec![message(&[(4, 6), (10, 10)]), message(&[(6, 8)]), message(&[(1, 2), (9, 9)])];
    assert_eq!(places(list()), [(1, 2), (4, 6), (9, 9), (10, 10)]);
    assert_eq!(places(vec![message(&[(4, 6)]), message(&[(0, 3), (5, 5)])]), [(4, 6)]);
    let mut seed = 5u64;
    let mut below = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) % n) as usize
    };
    for _ in 0..300 {
        let list: Vec<Diagnostic> = (0..30)
            .map(|_| {
                let (a, b, c, d) = (below(90), below(5), below(9), below(5));
                message(&[(a, a + b), (a + b + c + 1, a + b + c + 1 + d)])
            })
            .collect();
        assert_eq!(places(list.clone()), by_definition(&list));
    }
}

/// Many edits are all made in one step.
#[test]
fn many_edits_are_one_step() {
    let many = 200_000;
    let list = (0..many).rev().map(|i| message(&[(4 * i, 4 * i + 2)])).collect();
    let found = places(list);
    assert_eq!(found.len(), many);
    assert!(found.windows(2).all(|w| w[0].1 < w[1].0));
}
