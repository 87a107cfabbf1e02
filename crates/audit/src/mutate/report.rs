//! Report of `kbc dev mutate`: the counts as an object with a documented schema
//! (docs/reference/report.md), and as tables of text.

use super::reasons::why;
use super::subjects::{LeftOut, Subject};
use super::{Findings, MutantOutcome, MutantRow, MutateSettings, mutant};
use kbc_checker::mutate::{Operator, Target};
use kbc_compiler::report::SCHEMA;
use kbc_ir::text::{PrintOptions, print};
use kbc_judge::Evidence;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The report object.
#[derive(Serialize, Debug)]
pub struct MutateReport {
    /// The version [`SCHEMA`].
    pub schema: u32,
    /// Always `mutate`.
    pub command: &'static str,
    /// Whether no mutant escaped, no schedule raised a false alarm, and every mutant was
    /// classified.
    pub ok: bool,
    /// The seed.
    pub seed: u64,
    /// Number of different algorithms and programs.
    pub algorithms: usize,
    /// Number of schedules.
    pub schedules: usize,
    /// Counts over all mutants.
    #[serde(flatten)]
    pub counts: Counts,
    /// Number of correct schedules that the checker rejects.
    pub false_alarms: usize,
    /// Changes that were drawn but have no effect on any rank; they are not mutants.
    pub unchanged: usize,
    /// Mutants that never misbehave, shown by exploring all orders.
    pub explored: usize,
    /// Mutants that did not misbehave in random orders, because the exploration did not end.
    pub sampled: usize,
    /// Counts by operator.
    pub operators: Vec<CountsLine>,
    /// Counts by target.
    pub targets: Vec<CountsLine>,
    /// Counts by operator and target.
    pub classes: Vec<CountsLine>,
    /// Reasons for rejecting mutants that never misbehave, by code.
    pub reasons: Vec<Reason>,
    /// The rejected mutants that never misbehave.
    pub rejected_but_equivalent_list: Vec<FalseAlarm>,
    /// The mutants that escaped.
    pub escaped_list: Vec<Escape>,
    /// The false alarms.
    pub false_alarm_list: Vec<Alarm>,
    /// Machines on which an algorithm is legal but does not become a schedule, and schedules that
    /// could not be judged.
    pub left_out: Vec<LeftOut>,
}

/// Numbers of mutants by outcome: `mutants = rejected + escaped + equivalent + unclassified`.
#[derive(Serialize, Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    /// All mutants.
    pub mutants: usize,
    /// Rejected by the checker or the verifier.
    pub rejected: usize,
    /// Rejected by the verifier, before the checker ran; part of `rejected`.
    pub refused: usize,
    /// Rejected although they never misbehave; part of `rejected`.
    pub rejected_but_equivalent: usize,
    /// Accepted, and they misbehave.
    pub escaped: usize,
    /// Accepted, and they never misbehave.
    pub equivalent: usize,
    /// Accepted, but too long or too large to run, so not classified.
    pub unclassified: usize,
}

/// Counts under a name.
#[derive(Serialize, Debug)]
pub struct CountsLine {
    /// Operator, target, or both.
    pub name: String,
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
}

/// A reason for rejecting equivalent mutants.
#[derive(Serialize, Debug)]
pub struct Reason {
    /// The first error code of the mutants.
    pub code: &'static str,
    /// Number of mutants.
    pub count: usize,
    /// The reason.
    pub why: &'static str,
    /// One of the mutants.
    pub example: String,
}

/// A rejected mutant that never misbehaves.
#[derive(Serialize, Debug)]
pub struct FalseAlarm {
    /// Name of its schedule.
    pub schedule: String,
    /// Description of the change.
    pub mutation: String,
    /// The error codes.
    pub codes: Vec<&'static str>,
}

/// A mutant that escaped.
#[derive(Serialize, Debug)]
pub struct Escape {
    /// Name of its schedule.
    pub schedule: String,
    /// Description of the change; empty if the unmodified schedule misbehaves.
    pub mutation: String,
    /// How it misbehaves.
    pub how: String,
    /// Text of the mutant.
    pub kir: String,
}

/// A correct schedule that the checker rejects.
#[derive(Serialize, Debug)]
pub struct Alarm {
    /// Name of the schedule.
    pub schedule: String,
    /// The error codes.
    pub codes: Vec<&'static str>,
}

impl Counts {
    fn add(&mut self, o: &MutantOutcome) {
        self.mutants += 1;
        match o {
            MutantOutcome::Unchanged => self.mutants -= 1,
            MutantOutcome::Rejected { refused, equivalent, .. } => {
                self.rejected += 1;
                self.refused += usize::from(*refused);
                self.rejected_but_equivalent += usize::from(equivalent.is_some());
            }
            MutantOutcome::Escaped(_) => self.escaped += 1,
            MutantOutcome::Equivalent(_) => self.equivalent += 1,
            MutantOutcome::Unclassified => self.unclassified += 1,
        }
    }

    fn of<'r>(rows: impl Iterator<Item = &'r MutantRow>) -> Counts {
        let mut c = Counts::default();
        rows.for_each(|r| c.add(&r.outcome));
        c
    }
}

/// Returns the text of a mutant.
pub fn text(subjects: &[Subject], found: &Findings, r: &MutantRow) -> String {
    let m = mutant(&subjects[r.subject].module, &found.bases[r.subject].mutations[r.mutation], r.rank);
    print(&m, &PrintOptions::default())
}

/// Makes the report from all findings.
pub fn report(
    subjects: &[Subject],
    mut left_out: Vec<LeftOut>,
    found: &Findings,
    settings: &MutateSettings,
) -> MutateReport {
    let rows = &found.rows;
    let name = |i: usize| subjects[i].name.clone();
    let mut escaped_list: Vec<Escape> = vec![];
    let mut false_alarm_list = vec![];
    for (i, b) in found.bases.iter().enumerate() {
        if b.too_long {
            let why = "more events than can be run in other orders".to_owned();
            left_out.push(LeftOut { schedule: name(i), code: "", why });
        }
        if let Some(why) = &b.no_room {
            left_out.push(LeftOut { schedule: name(i), code: "", why: format!("not judged: {why}") });
        }
        if !b.alarm.is_empty() {
            false_alarm_list.push(Alarm { schedule: name(i), codes: b.alarm.clone() });
        } else if let Some(how) = &b.wrong {
            let kir = print(&subjects[i].module, &PrintOptions::default());
            escaped_list.push(Escape { schedule: name(i), mutation: String::new(), how: how.clone(), kir });
        }
    }
    let mut lists: BTreeMap<&'static str, (usize, String)> = BTreeMap::new();
    let mut rejected = vec![];
    let (mut explored, mut sampled) = (0, 0);
    for r in rows {
        match &r.outcome {
            MutantOutcome::Rejected { equivalent: Some(_), codes, .. } => {
                let example = format!("{}: {}", name(r.subject), r.text);
                let code = codes.first().copied().unwrap_or("");
                lists.entry(code).or_insert((0, example)).0 += 1;
                rejected.push(FalseAlarm {
                    schedule: name(r.subject),
                    mutation: r.text.clone(),
                    codes: codes.clone(),
                });
            }
            MutantOutcome::Escaped(how) => escaped_list.push(Escape {
                schedule: name(r.subject),
                mutation: r.text.clone(),
                how: how.clone(),
                kir: text(subjects, found, r),
            }),
            _ => {}
        }
        if let MutantOutcome::Equivalent(e) | MutantOutcome::Rejected { equivalent: Some(e), .. } = &r.outcome
        {
            match e {
                Evidence::Every(_) => explored += 1,
                Evidence::Runs(_) => sampled += 1,
            }
        }
    }
    let counts = Counts::of(rows.iter());
    let reasons = lists
        .into_iter()
        .map(|(code, (count, example))| Reason { code, count, why: why(code), example })
        .collect();
    let line = |name: String, keep: &dyn Fn(&MutantRow) -> bool| {
        let counts = Counts::of(rows.iter().filter(|r| keep(r)));
        (counts.mutants > 0).then_some(CountsLine { name, counts })
    };
    let classes = Operator::ALL.iter().flat_map(|o| Target::ALL.iter().map(move |t| (*o, *t)));
    MutateReport {
        schema: SCHEMA,
        command: "mutate",
        ok: escaped_list.is_empty() && false_alarm_list.is_empty() && counts.unclassified == 0,
        seed: settings.seed,
        algorithms: subjects.iter().map(|s| &s.algorithm).collect::<BTreeSet<_>>().len(),
        schedules: subjects.len(),
        counts,
        false_alarms: false_alarm_list.len(),
        unchanged: rows.iter().filter(|r| r.outcome == MutantOutcome::Unchanged).count(),
        explored,
        sampled,
        operators: Operator::ALL.iter().filter_map(|o| line(o.name().into(), &|r| r.class.0 == *o)).collect(),
        targets: Target::ALL.iter().filter_map(|t| line(t.name().into(), &|r| r.class.1 == *t)).collect(),
        classes: classes
            .filter_map(|c| line(format!("{} {}", c.0.name(), c.1.name()), &|r| r.class == c))
            .collect(),
        reasons,
        rejected_but_equivalent_list: rejected,
        escaped_list,
        false_alarm_list,
        left_out,
    }
}

/// Number of escapes whose text the human-readable report shows.
const SHOWN: usize = 3;

/// Formats a report as text.
pub fn human(r: &MutateReport) -> String {
    let mut out = format!(
        "{} mutants of {} schedules of {} algorithms, seed {}\n",
        r.counts.mutants, r.schedules, r.algorithms, r.seed
    );
    let head = ["", "mutants", "rejected", "refused", "rejected, equivalent", "escaped", "equivalent"];
    let cells = |name: &str, c: &Counts| -> Vec<String> {
        let n = [c.mutants, c.rejected, c.refused, c.rejected_but_equivalent, c.escaped, c.equivalent];
        std::iter::once(name.to_owned()).chain(n.iter().map(usize::to_string)).collect()
    };
    let mut table: Vec<Vec<String>> = vec![head.iter().map(|s| (*s).to_owned()).collect()];
    table.extend(r.operators.iter().map(|l| cells(&l.name, &l.counts)));
    table.push(cells("all", &r.counts));
    table.push(vec![]);
    table.extend(r.targets.iter().map(|l| cells(&l.name, &l.counts)));
    for row in &table {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let width = if i == 0 { 9 } else { head[i].len() };
            line += &if i == 0 { format!("  {cell:<width$}") } else { format!("  {cell:>width$}") };
        }
        out += line.trim_end();
        out += "\n";
    }
    out += &format!(
        "of the equivalent ones, all orders of {} were explored, {} were run in random orders\n",
        r.explored, r.sampled
    );
    if r.unchanged > 0 {
        out += &format!("{} changes had no effect on any rank and are not mutants\n", r.unchanged);
    }
    for x in &r.left_out {
        let code = if x.code.is_empty() { String::new() } else { format!("{} ", x.code) };
        out += &format!("not mutated: {}: {code}{}\n", x.schedule, x.why);
    }
    if r.counts.unclassified > 0 {
        out += &format!(
            "{} are not judged, because they are too long or too large to run\n",
            r.counts.unclassified
        );
    }
    out += &format!("escaped: {}, false alarms: {}\n", r.escaped_list.len(), r.false_alarms);
    for a in &r.false_alarm_list {
        out += &format!("  false alarm: {}: {}\n", a.schedule, a.codes.join(", "));
    }
    for (i, e) in r.escaped_list.iter().enumerate() {
        let change = if e.mutation.is_empty() { "as it is" } else { &e.mutation };
        out += &format!("  escaped: {}: {change}: {}\n", e.schedule, e.how);
        if i < SHOWN {
            out += &e.kir;
        }
    }
    if !r.reasons.is_empty() {
        out += "rejected although no run fails:\n";
    }
    for x in &r.reasons {
        out += &format!("  {} {} x: {}\n      such as {}\n", x.code, x.count, x.why, x.example);
    }
    out
}
