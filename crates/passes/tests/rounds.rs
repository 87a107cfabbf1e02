//! Test that the schedule of an algorithm is rejected whenever its rounds break its contract or a
//! rule of rounds. The driver may therefore check the schedule first, and the rounds only for
//! better messages. The cases are texts of the library with one small change.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::stack;

use kbc_checker::{CheckOptions, check};
use kbc_rounds::{Limits, Verifier};
use stack::{Case, Layout, World, workspace};

/// Small changes of the text of an algorithm: one occurrence of the first string becomes the
/// second.
const CHANGES: [(&str, &str); 14] = [
    (" reduce", ""),
    ("-> r + ", "-> r - "),
    ("r - d*s", "r + d*s"),
    ("p-1", "p-2"),
    ("1..p", "2..p"),
    ("0..", "1.."),
    ("<<", ">>"),
    ("^", "+"),
    (" - 1", " - 2"),
    ("/ 2", "/ 4"),
    ("* 2", "* 1"),
    ("[0 of 2]", "[1 of 2]"),
    ("== 0", "== 1"),
    ("put [", "put [0 * "),
];

#[test]
fn what_rounds_reject_the_schedule_does_not_accept() {
    let (mut right, mut wrong, mut checked, mut worse) = (0, 0, 0, vec![]);
    for file in ["ring", "doubling", "direct", "trees", "swing", "bruck", "levels", "moves"] {
        let text = std::fs::read_to_string(workspace(&format!("specs/lib/{file}.kb"))).unwrap();
        for (old, new) in CHANGES {
            for (at, _) in text.match_indices(old) {
                // The occurrence must be in the text of an algorithm, not in a comment.
                let line = text[..at].rfind('\n').map_or(0, |n| n + 1);
                if text[line..at].contains("//") {
                    continue;
                }
                let changed = format!("{}{new}{}", &text[..at], &text[at + old.len()..]);
                if kbc_frontend::parse(kbc_diag::FileId(0), &changed).1.has_errors() {
                    continue;
                }
                let world = World::instead(&format!("{file}.kb"), &changed);
                let item = |a| world.lib.algorithm(a).span;
                let here = |a: &kbc_rounds::AlgId| {
                    let span = item(*a);
                    let name = &world.sources.get(span.file).unwrap().name;
                    name.ends_with(&format!("/{file}.kb"))
                        && (span.start as usize..span.end as usize).contains(&at)
                };
                let Some(alg) = world.lib.algorithms().find(here) else { continue };
                let sizes: Vec<u64> = [12, 2, 2][..world.lib.algorithm(alg).axes.len()].to_vec();
                for sizes in [sizes.clone(), [16].into_iter().chain(sizes[1..].to_vec()).collect()] {
                    let root = world.rooted(alg).then_some(1);
                    let case = Case { alg, args: vec![], options: vec![], sizes, root };
                    if !kbc_rounds::group::is_legal(&world.lib, &world.call(&case)).unwrap_or(false) {
                        continue;
                    }
                    if Verifier::new(&world.lib, Limits::default()).verify(&world.call(&case)).is_ok() {
                        right += 1;
                        continue;
                    }
                    wrong += 1;
                    let n = case.ranks() * 4;
                    let Ok(module) = stack::synchronized(&world, &case, &Layout::ints(n)) else { continue };
                    let verdict = check(module.schedule().unwrap(), &CheckOptions::default());
                    checked += 1;
                    if verdict.ok() {
                        worse.push(format!("{}: `{old}` to `{new}` at byte {at}", world.show(&case)));
                    }
                }
            }
        }
    }
    assert!(worse.is_empty(), "of {wrong}:\n{}", worse.join("\n"));
    assert!(wrong > 100 && checked > 60 && right > 10, "{wrong} {checked} {right}");
}
