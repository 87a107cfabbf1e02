//! Every rank with exact multisets, every rank with fingerprints, one rank of each orbit: the same verdicts, also on
//! mutants, also on those that break the symmetry in one rank.

mod common;

use common::{codes, schedule};
use kbc_ir::checker::{CheckOptions, Verdict, Way, check};
use kbc_ir::mutate::{apply, apply_on, mutations};
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

fn by(s: &Schedule, way: Way) -> Verdict {
    check(s, &CheckOptions { way, ..Default::default() })
}

/// Whether symmetry applied.
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
            let (exact, sums, one) =
                (by(&mutant, Way::Expanded), by(&mutant, Way::Fingerprints), by(&mutant, Way::Symmetric));
            let what = || format!("{name}: {} ({:?})", m.text, m.site);
            if exact.ok() != sums.ok() {
                differ.push(format!("{}: exact {:?}, sums {:?}", what(), codes(&exact), codes(&sums)));
            }
            all += 1;
            if applied(&one) {
                together += 1;
                if codes(&exact) != codes(&one) {
                    differ.push(format!("{}: exact {:?}, one rank {:?}", what(), codes(&exact), codes(&one)));
                }
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    // Most mutations change all ranks alike, so the symmetry stays and must find the same.
    assert!(together * 10 > all * 7, "{together} of {all}");
}

#[test]
fn a_mutant_on_one_rank_is_never_covered_by_the_others() {
    let (mut rejected, mut all) = (0, 0);
    let mut differ = vec![];
    for (name, s) in subjects() {
        for m in mutations(&s) {
            let mutant = apply_on(&s, &m, 1);
            let exact = by(&mutant, Way::Expanded);
            let sums = by(&mutant, Way::Fingerprints);
            let one = by(&mutant, Way::Symmetric);
            let what = || format!("{name}: {} on rank 1 ({:?})", m.text, m.site);
            if exact.ok() != sums.ok() {
                differ.push(format!("{}: exact {:?}, sums {:?}", what(), codes(&exact), codes(&sums)));
            }
            if applied(&one) {
                if codes(&exact) != codes(&one) {
                    differ.push(format!("{}: exact {:?}, one rank {:?}", what(), codes(&exact), codes(&one)));
                }
            }
            all += 1;
            rejected += !exact.ok() as usize;
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(rejected * 10 > all * 7, "{rejected} of {all}");
}
