//! A sample of `kbc dev fuzz bounds`: no time is below its bound.

use kbc_audit::fuzz;

/// Random programs on random machines with every algorithm, with
/// pieces and streams, and with the compiler's own choices.
#[test]
fn random_programs_have_one_bound_and_no_time_below_it() {
    let programs = if std::env::var_os("KBC_ALL_CASES").is_some() { 300 } else { 120 };
    let tally = fuzz::bounds::programs(24, 0..programs, &mut |_| {});
    let text = tally.text();
    assert!(tally.wrong.is_empty(), "{text}{:#?}", tally.wrong);
    assert!(tally.accepted > 80 && tally.timed > 300 && tally.overlapped > 6, "{text}");
    for row in [
        "arithmetic of the busiest rank",
        "memory traffic of the busiest rank",
        "vector work of the busiest rank",
        "latency of the chain of collectives",
        "traffic of every single rank",
    ] {
        assert!(tally.rows.keys().any(|k| k.starts_with(row)), "{row} limits no program\n{text}");
    }
    assert!(tally.rows.keys().any(|k| k.contains("together: ")), "{text}");
    assert!(
        tally.closest.is_some_and(|c| c < 1.000_001),
        "a time reaches its bound, or bounds are too low\n{text}"
    );
}
