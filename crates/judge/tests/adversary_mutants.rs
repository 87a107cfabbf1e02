//! Test of checker against adversary, which share nothing but the walk, on every mutant of every
//! hand-written schedule: mutants that the checker accepts pass under the adversary, and mutants
//! that it rejects fail.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::common;

use common::*;
use kbc_backend_sim::adversary::{AdversaryOptions, SEEDS, adversarial};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_checker::mutate::{Mutation, MutationKind, apply, mutations};
use kbc_checker::{CheckOptions, check};
use kbc_ir::visit::ExprUse;

const CALLS: u32 = 4;
/// Number of seeds for mutants that the checker accepts. Rejected ones get up to [`SEEDS`] and need
/// fewer than that.
const STAND: u64 = 30;

/// Checks whether a mutant is wrong but gives the same numbers. Examples: a transfer done twice
/// moves the same elements to the same place; a maximum taken twice is the maximum; the host's
/// reading of results, which a release of `direct_all_gather` covers, is never late; counters that
/// are all waited for may exchange their writers between two barriers.
fn same_numbers(name: &str, m: &Mutation) -> bool {
    match (m.kind, m.word) {
        (MutationKind::Duplicate, "put" | "get") => true,
        (MutationKind::Duplicate, "combine") => name == "tree_all_reduce",
        // The root waits for all of these counters alike, whichever rank notifies which.
        (MutationKind::Field(spot, _), "notify") if spot.of == Some(ExprUse::Counter) => {
            let gathers = m.site.role == 1 && matches!(m.site.path.first(), Some((7 | 16, _)));
            matches!(name, "central_epoch" | "central_sense") && gathers
        }
        (MutationKind::Drop | MutationKind::Swap, "fence.release") => {
            name == "direct_all_gather" && m.site.path.first().is_some_and(|p| p.0 == 0)
        }
        _ => false,
    }
}

/// Checks whether a mutant changes only what no contract covers: the host sees other numbers, but
/// the checker has nothing to reject.
fn without_contract(name: &str, m: &Mutation) -> bool {
    let contents = matches!(m.kind, MutationKind::Drop | MutationKind::Duplicate | MutationKind::NoReduce);
    let local = m.text.contains("region local") || m.text.contains("region load") && m.site.stream == 1;
    name == "host_program" && contents && local
}

fn compare_verdicts(name: &str) {
    let s = load(name);
    assert!(check(&s, &CheckOptions::default()).ok(), "{name} is refused");
    let feeds = inputs(&s, CALLS);
    let golden = run(&s, &feeds, &RunOptions { calls: CALLS, ..RunOptions::default() }).unwrap();
    let (mut refused, mut disagree) = (0, vec![]);
    for m in mutations(&s).into_iter().filter(|m| !without_contract(name, m)) {
        let mutant = apply(&s, &m);
        let verdict = check(&mutant, &CheckOptions::default());
        let quiet = same_numbers(name, &m);
        let runs = if verdict.ok() || quiet { STAND } else { SEEDS };
        let o = AdversaryOptions { calls: CALLS, runs, ..AdversaryOptions::default() };
        let failure = adversarial(&mutant, &feeds, Some(&golden), &o).unwrap().failure;
        refused += u32::from(!verdict.ok());
        if failure.is_some() != (!verdict.ok() && !quiet) {
            let codes: Vec<_> = verdict.errors.list.iter().map(|d| d.code).collect();
            let seed = failure.map(|f| (f.seed, f.diagnostic.title));
            disagree.push(format!("{} {:?}: checker {codes:?}, adversary {seed:?}", m.text, m.site));
        }
    }
    assert!(disagree.is_empty(), "{name}: {disagree:#?}");
    assert!(refused > 10, "{name}: only {refused} mutants are wrong");
}

/// Compares every third schedule, so that three tests run in parallel.
fn third(part: usize) {
    for name in names().iter().skip(part).step_by(3) {
        compare_verdicts(name);
    }
}

#[test]
fn checker_and_adversary_agree_first_third() {
    third(0);
}

#[test]
fn checker_and_adversary_agree_second_third() {
    third(1);
}

#[test]
fn checker_and_adversary_agree_last_third() {
    third(2);
}
