//! Tests of explained choices: completing what was found when a program was built finds what a
//! comparison of all algorithms finds.

use super::workspace;
use kbc_compiler::again::select_again;
use kbc_compiler::{Built, Options, Source, compile};
use kbc_passes::findings::select::{Candidate, SelectTable, Verdict};

/// Compiles an all-reduce on a machine.
fn built(machine: &str, n: u64) -> Built {
    let text = format!(
        "topology sys = {machine} {{ link: 50 GB/s, 500 ns }}\nmesh m = sys[tp]\n\
         program total(x: f32[{n}] partial(sum@tp)) -> f32[{n}] {{ x }}\n"
    );
    compile(&mut workspace(&text), &Source::of("p.kb"), &Options::default()).expect("it compiles")
}

fn simulated(c: &Candidate) -> Option<f64> {
    match &c.verdict {
        Verdict::Priced(price) => price.simulated,
        _ => None,
    }
}

#[test]
fn a_completed_ranking_has_all_algorithms() {
    let all = "by=time,explain=true";
    for (machine, n) in [("mesh(3, 4)", 100_000), ("ring(6)", 64), ("hierarchy(full(4), switch(2))", 5000)] {
        let mut built = built(machine, n);
        let chosen = built.select.entries[0].clone();
        let completed = &select_again(&built, all).expect("a table").entries[0];
        // Without an earlier choice everything is compared anew.
        built.select = SelectTable::default();
        let anew = &select_again(&built, all).expect("a table").entries[0];
        let known = |c: &Candidate| completed.candidates.iter().find(|k| k.call() == c.call());
        for c in &anew.candidates {
            let known = known(c).unwrap_or_else(|| panic!("{machine}: {} is left out", c.call()));
            assert!(simulated(c).is_none_or(|_| simulated(c) == simulated(known)), "{machine}: {}", c.call());
        }
        // More was simulated than for the choice, and the choice stays the fastest.
        let count = |list: &[Candidate]| list.iter().filter_map(simulated).count();
        assert!(count(&completed.candidates) > count(&chosen.candidates), "{machine}");
        let first = |list: &[Candidate]| list.first().map(Candidate::call);
        assert_eq!(first(&completed.candidates), first(&chosen.candidates), "{machine}");
        assert_eq!(completed.search, chosen.search);
    }
}

#[test]
fn a_completed_ranking_does_not_compare_times_with_estimates() {
    let built = built("mesh(3, 4)", 100_000);
    let options = "by=model,explain=true";
    let completed = &select_again(&built, options).expect("a table").entries[0];
    assert!(completed.candidates.iter().filter_map(Candidate::ns).count() > 10);
    assert_eq!(completed.candidates.iter().find_map(simulated), None);
}
