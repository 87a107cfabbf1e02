//! A sample of `kbc dev fuzz bounds`: no time is below its bound.

use crate::cases::all_cases;
use kbc_audit::fuzz;

/// Random programs on random machines with every algorithm, with
/// pieces and streams, and with the compiler's own choices.
#[test]
fn random_programs_have_one_bound_and_no_time_below_it() {
    let all = all_cases();
    let (programs, least) = if all { (300, [200, 800, 20]) } else { (120, [80, 300, 6]) };
    let tally = fuzz::bounds::programs(24, 0..programs, &mut |_| {});
    let text = tally.text();
    assert!(tally.wrong.is_empty(), "{text}{:#?}", tally.wrong);
    let [accepted, timed, overlapped] = least;
    assert!(tally.accepted > accepted && tally.timed > timed && tally.overlapped > overlapped, "{text}");
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
