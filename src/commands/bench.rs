//! `kbc dev bench`: measurements. `kbc dev bench host` is [`super::bench_host`], `kbc dev bench
//! ccl` is [`super::ccl`], and `kbc dev bench scale` is [`super::scale`].

use crate::cli::{Bench, BenchSelect, BenchWhat};
use crate::session::{Failure, Outcome, Session};
use kbc_audit::selection::{BenchReport, compare, human, point};
use kbc_diag::{Diagnostic, Diagnostics};

/// Measures and prints.
///
/// # Errors
/// Returns E996 if a choice is more than 5 % slower than the best, and the errors of
/// [`super::bench_host`], [`super::ccl`] and [`super::scale`].
pub fn run(session: &mut Session, args: &Bench) -> Outcome {
    match &args.what {
        BenchWhat::Host(args) => super::bench_host::run(session, args),
        BenchWhat::Select(args) => select(session, args),
        BenchWhat::Ccl(args) => super::ccl::run(session, args),
        BenchWhat::Scale(args) => super::scale::run(session, args),
    }
}

fn select(session: &mut Session, args: &BenchSelect) -> Outcome {
    let mut choices = vec![];
    for k in args.first..args.first.saturating_add(args.points) {
        let p = point(args.seed, k);
        session.progress(&format!("{k}: {} on {}", p.collective, p.shape));
        choices.push(compare(&p)?);
    }
    let found = BenchReport::new(args.seed, choices);
    session.answer(human(&found).trim_end(), &found)?;
    if found.within == found.points {
        return Ok(());
    }
    let what = format!("{} choices are more than 5 % slower than the best", found.points - found.within);
    Err(Failure::Program(Diagnostics::from(Diagnostic::error("E996", what))))
}
