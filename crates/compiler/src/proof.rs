//! Proof of a schedule, and its verdict as a part of the report.

use crate::report::VerifiedReport;
use kbc_checker::{CheckOptions, Method, Verdict, check};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::schedule::{Calls, Schedule};

/// Proves a schedule, without messages to the environment.
///
/// # Errors
/// Returns the errors of the checker, and E359 for a schedule that claims to be safe for no call.
pub fn proof(schedule: &Schedule) -> Result<VerifiedReport, Diagnostics> {
    if schedule.calls == Calls::None {
        return Err(Diagnostic::error(
            "E359",
            format!("{} has `calls none`, so it claims nothing that could be proven", schedule.name),
        )
        .help("run the pass `synchronize`, or write `schedule calls first` or `schedule calls any`")
        .into());
    }
    let verdict = check(schedule, &CheckOptions::default());
    if !verdict.ok() {
        return Err(verdict.errors);
    }
    Ok(VerifiedReport { shown: of_text(&verdict), ..verified(&verdict) })
}

/// Returns what the proof of a schedule without a program shows: nothing defines the purpose of its
/// regions, so only contracts are compared.
fn of_text(v: &Verdict) -> String {
    match &v.without_contract[..] {
        _ if v.meaning == Method::NotChecked => ORDERED.into(),
        [] => "race-free, deadlock-free, and every collective keeps its contract".into(),
        without => format!(
            "race-free and deadlock-free; results not proven, because these regions have no contract: {}",
            without.join(", ")
        ),
    }
}

/// What is proven if meaning is not checked.
pub const ORDERED: &str = "race-free and deadlock-free";

/// What is proven for the schedule of a program.
pub const RIGHT: &str = "race-free, deadlock-free and correct";

/// Returns a verdict as a part of a report.
pub fn verified(v: &Verdict) -> VerifiedReport {
    let meaning = match &v.meaning {
        Method::Exact => "exact".to_owned(),
        Method::Symmetric { orbits } => {
            format!("symmetric, {orbits} orbit{}", if *orbits == 1 { "" } else { "s" })
        }
        Method::Fingerprints => match &v.asymmetric {
            Some(why) => format!("fingerprints, as {why}"),
            None => "fingerprints".to_owned(),
        },
        Method::NotChecked => "not checked".to_owned(),
    };
    let without = match &v.without_contract[..] {
        [] => String::new(),
        list => format!(", except for regions without a contract: {}", list.join(", ")),
    };
    let shown = if v.meaning == Method::NotChecked { ORDERED } else { RIGHT };
    VerifiedReport {
        ok: v.ok(),
        shown: shown.into(),
        meaning: meaning + &without,
        calls: match v.order {
            Calls::None => "none",
            Calls::First => "first",
            Calls::Any => "any",
        }
        .into(),
        calls_walked: v.calls,
        ranks_walked: v.ranks_walked,
        operations: v.acts,
        counter_range: v.range,
    }
}
