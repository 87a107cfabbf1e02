//! Tests that all modes of the checker give the same verdicts: every rank with exact multisets,
//! every rank with fingerprints, one rank of each orbit. They include mutants, also those that
//! break the symmetry in one rank.

use crate::common;

use common::{codes, schedule};
use kbc_checker::mutate::{apply, apply_on, mutations};
use kbc_checker::{CheckOptions, Method, Strategy, Verdict, check};
use kbc_ir::schedule::Schedule;

fn subjects() -> Vec<(&'static str, Schedule)> {
    [
        ("ring 5", common::ring(5)),
        ("doubling 8", common::doubling(3)),
        ("halving 8", common::halving(3)),
        ("torus 2x3", common::torus(2, 3)),
        ("all_to_all 4", common::all_to_all(4)),
        ("pull 4", common::pull(4)),
    ]
    .into_iter()
    .map(|(name, text)| (name, schedule(name, &text)))
    .collect()
}

/// Maps the codes of a verdict to kinds of errors. Which of two unordered accesses comes first
/// depends on the order of the walk. This decides whether a read is reported as too early or a
/// write is, and what memory holds afterwards.
fn kinds(v: &Verdict) -> Vec<&'static str> {
    let kind = |c: &&'static str| match *c {
        "E341" | "E342" | "E343" | "E344" => "contents",
        "E347" | "E348" | "E349" => "not ordered",
        c => c,
    };
    let mut out: Vec<_> = codes(v).iter().map(kind).collect();
    out.dedup();
    out
}

fn by(s: &Schedule, strategy: Strategy) -> Verdict {
    check(s, &CheckOptions { strategy, ..Default::default() })
}

/// Checks whether symmetry applied.
fn applied(v: &Verdict) -> bool {
    v.asymmetric.is_none()
}

#[test]
fn ways_agree_on_mutants() {
    let (mut together, mut all) = (0, 0);
    let mut differ = vec![];
    for (name, s) in subjects() {
        for m in mutations(&s) {
            let mutant = apply(&s, &m);
            let (exact, sums, one) = (
                by(&mutant, Strategy::Expanded),
                by(&mutant, Strategy::Fingerprints),
                by(&mutant, Strategy::Symmetric),
            );
            let what = || format!("{name}: {} ({:?})", m.text, m.site);
            if exact.ok() != sums.ok() {
                differ.push(format!("{}: exact {:?}, sums {:?}", what(), codes(&exact), codes(&sums)));
            }
            all += 1;
            if applied(&one) {
                together += 1;
                if kinds(&exact) != kinds(&one) {
                    differ.push(format!("{}: exact {:?}, one rank {:?}", what(), codes(&exact), codes(&one)));
                }
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    // Most mutations change all ranks alike, so the symmetry remains and must find the same errors.
    assert!(together * 10 > all * 7, "{together} of {all}");
}

/// Verdicts by chains of notifies are those by clocks, word for word, also of mutants.
#[test]
fn chains_give_the_verdicts_of_clocks() {
    let (mut by_chains, mut right) = (0, 0);
    for (strategy, (name, s)) in [Strategy::Symmetric, Strategy::Expanded]
        .into_iter()
        .flat_map(|way| subjects().into_iter().map(move |subject| (way, subject)))
    {
        let way = |s: &Schedule, chains_from: u64| {
            check(s, &CheckOptions { strategy, chains_from, ..Default::default() })
        };
        let v = way(&s, 0);
        assert!(v.ok() && v.by_chains, "{name}: {}", v.text);
        for m in mutations(&s) {
            let mutant = apply(&s, &m);
            let (clocks, chains) = (way(&mutant, u64::MAX), way(&mutant, 0));
            assert!(!clocks.by_chains);
            assert_eq!(chains.errors, clocks.errors, "{name}: {}", m.text);
            assert_eq!((&chains.text, chains.acts), (&clocks.text, clocks.acts), "{name}: {}", m.text);
            right += u32::from(clocks.ok());
            by_chains += u32::from(chains.by_chains);
        }
    }
    // Where nothing is wrong, chains are enough; where something is, clocks say what.
    assert!(right > 0 && by_chains >= right, "{by_chains} of {right}");
}

#[test]
fn a_mutant_on_one_rank_is_never_covered_by_the_others() {
    let (mut rejected, mut all) = (0, 0);
    let mut differ = vec![];
    for (name, s) in subjects() {
        for m in mutations(&s) {
            let mutant = apply_on(&s, &m, 1);
            let exact = by(&mutant, Strategy::Expanded);
            let sums = by(&mutant, Strategy::Fingerprints);
            let one = by(&mutant, Strategy::Symmetric);
            let what = || format!("{name}: {} on rank 1 ({:?})", m.text, m.site);
            if exact.ok() != sums.ok() {
                differ.push(format!("{}: exact {:?}, sums {:?}", what(), codes(&exact), codes(&sums)));
            }
            if applied(&one) && kinds(&exact) != kinds(&one) {
                differ.push(format!("{}: exact {:?}, one rank {:?}", what(), codes(&exact), codes(&one)));
            }
            all += 1;
            rejected += !exact.ok() as usize;
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(rejected * 10 > all * 7, "{rejected} of {all}");
}

#[test]
fn ways_agree_on_mutants_of_mutants() {
    let mut seed = 1u64;
    let mut differ = vec![];
    for (name, s) in subjects() {
        for _ in 0..150 {
            let mut mutant = s.clone();
            let mut what = name.to_string();
            for round in 0..2 {
                let list = mutations(&mutant);
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let m = &list[(seed >> 33) as usize % list.len()];
                what += &format!(", {}", m.text);
                // Every other time, the second mutation is on one rank only.
                mutant =
                    if round == 1 && seed >> 63 == 1 { apply_on(&mutant, m, 2) } else { apply(&mutant, m) };
            }
            let (exact, sums, one) = (
                by(&mutant, Strategy::Expanded),
                by(&mutant, Strategy::Fingerprints),
                by(&mutant, Strategy::Symmetric),
            );
            if exact.ok() != sums.ok() || (applied(&one) && exact.ok() != one.ok()) {
                differ.push(format!("{what}: {:?} {:?} {:?}", codes(&exact), codes(&sums), codes(&one)));
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// With more than nine and up to 64 ranks, one rank of each orbit is enough for correct schedules.
/// Errors are reported for every rank, as if all had been walked, even if one rank breaks the
/// symmetry.
#[test]
fn between_nine_ranks_and_64_one_rank_is_enough_and_messages_are_about_all() {
    let subjects = [
        ("ring 12", common::ring(12)),
        ("doubling 16", common::doubling(4)),
        ("halving 16", common::halving(4)),
        ("torus 3x4", common::torus(3, 4)),
        ("all_to_all 10", common::all_to_all(10)),
        ("pull 11", common::pull(11)),
    ];
    let (mut accepted, mut rejected, mut alone) = (0, 0, 0);
    let mut differ = vec![];
    for (name, text) in subjects {
        let s = schedule(name, &text);
        let right = by(&s, Strategy::Auto);
        assert!(right.ok() && matches!(right.meaning, Method::Symmetric { .. }), "{name}: {}", right.text);
        assert!(by(&s, Strategy::Expanded).ok(), "{name}");
        for (i, m) in mutations(&s).iter().enumerate().filter(|(i, _)| i % 3 == 0) {
            for one in [false, true] {
                let mutant = if one { apply_on(&s, m, i as u64 % 10) } else { apply(&s, m) };
                let (auto, exact) = (by(&mutant, Strategy::Auto), by(&mutant, Strategy::Expanded));
                let told = |v: &Verdict| {
                    v.errors.list.iter().map(|d| (d.code, d.title.clone(), d.span())).collect::<Vec<_>>()
                };
                if auto.ok() != exact.ok() || told(&auto) != told(&exact) {
                    let how = if one { " on one rank" } else { "" };
                    let (a, e) = (codes(&auto), codes(&exact));
                    differ.push(format!("{name}: {}{how}: {a:?}, every rank {e:?}", m.text));
                }
                accepted += auto.ok() as usize;
                rejected += !auto.ok() as usize;
                alone += (auto.ok() && auto.meaning == Method::Exact) as usize;
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(accepted > 10 && rejected > 200 && alone > 0, "{accepted} {rejected} {alone}");
}
