//! Verdict on an imported schedule: the kinds of mistakes that the checker finds, reported by the
//! steps of the file.

use super::fifo::{self, SafeSizes};
use super::{Algo, Built, Options};
use kbc_checker::{CheckOptions, Verdict, check};
use kbc_diag::{Diagnostic, Diagnostics, Severity, Span};
use kbc_ir::schedule::Calls;

/// Whether a schedule deadlocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hang {
    /// It does not deadlock.
    None,
    /// It deadlocks with the given queue depth, but not with queues of unlimited depth.
    AtDepth,
    /// It deadlocks with queues of any depth.
    Always,
}

/// The findings about a schedule, by kind.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Verdict of the checker; its messages have been moved to `errors`.
    pub verdict: Verdict,
    /// Messages that name steps of the file, and warnings.
    pub errors: Diagnostics,
    /// The kinds that were found, among `hang`, `postcondition`, `uninitialised`, `race`,
    /// `connection`, `sizes`, `leftover` and `other`.
    pub kinds: Vec<&'static str>,
    /// Whether the schedule hangs.
    pub hang: Hang,
    /// Whether the postcondition holds; none if the schedule does not reach its end or has no
    /// postcondition.
    pub post: Option<bool>,
    /// Number of distinct reads of memory that holds nothing.
    pub uninitialised: u64,
    /// Number of distinct pairs of steps that race.
    pub races: u64,
    /// Message sizes at which the schedule does not hang.
    pub safe: SafeSizes,
}

impl Finding {
    /// Checks whether nothing is wrong.
    pub fn accepted(&self) -> bool {
        self.kinds.is_empty()
    }
}

/// Greatest number of messages of a verdict, large enough for all kinds to occur among them.
const MESSAGES: usize = 400;

fn kind(code: &str) -> &'static str {
    match code {
        "E340" => "hang",
        "E341" | "E342" | "E343" => "postcondition",
        "E344" => "uninitialised",
        "E351" => "connection",
        "E356" => "sizes",
        "E357" => "leftover",
        c if ("E345"..="E350").contains(&c) => "race",
        _ => "other",
    }
}

/// Proves a schedule that was built from a file. `sized` is true if the caller asked for a message
/// size; `line` returns the line number of a location.
pub fn judge(
    algo: &Algo,
    built: &Built,
    options: &Options,
    sized: bool,
    line: &dyn Fn(Span) -> Option<usize>,
) -> Finding {
    let all = CheckOptions {
        calls: Some(Calls::First),
        most_errors: MESSAGES,
        all_kinds: true,
        ..CheckOptions::default()
    };
    let empty = kbc_ir::schedule::Schedule::new("nothing", Default::default());
    let mut verdict = check(built.schedule().unwrap_or(&empty), &all);
    let safe = fifo::safe(algo);
    let mut found = std::mem::take(&mut verdict.errors);
    // For collectives with a postcondition, the postcondition already reports a result that
    // is not written.
    found.list.retain(|d| d.code != "E344" || algo.step_at(d.span()).is_some());
    published(algo, options, &mut found);
    // After a deadlock nothing can be stated about the final contents.
    if found.list.iter().any(|d| d.code == "E340") {
        found.list.retain(|d| kind(d.code) != "postcondition");
    }
    let errors = found.list.iter().filter(|d| d.severity == Severity::Error);
    let codes: Vec<&'static str> = errors.map(|d| kind(d.code)).collect();
    let count = |k: &str| codes.iter().filter(|c| **c == k).count() as u64;
    let hang = match count("hang") {
        0 => Hang::None,
        _ if fifo::ends(algo, options.at_once, u64::MAX) => Hang::AtDepth,
        _ => Hang::Always,
    };
    let order =
        ["hang", "postcondition", "uninitialised", "race", "connection", "sizes", "leftover", "other"];
    let kinds = order.into_iter().filter(|k| count(k) > 0).collect();
    let post = match built.contract.as_ref().filter(|p| !p.clauses.is_empty()) {
        Some(_) if hang == Hang::None && count("other") == 0 => Some(count("postcondition") == 0),
        _ => None,
    };
    let (uninitialised, races) = (count("uninitialised"), count("race"));
    let mut errors = Diagnostics::new();
    for d in found.list {
        errors.push(in_words(algo, d, hang, line));
    }
    let mut finding = Finding { verdict, errors, kinds, hang, post, uninitialised, races, safe };
    if !sized {
        window(algo, &mut finding);
    }
    finding
}

/// Adds a deadlock that is caused by a dependency on an unpublished step. The checker proves the
/// order that dependencies ask for, whether steps are published or not. [`fifo::stuck`] finds the
/// waits that never end because a step is not published.
fn published(algo: &Algo, options: &Options, found: &mut Diagnostics) {
    if found.list.iter().any(|d| d.code == "E340" || kind(d.code) == "other") {
        return;
    }
    let depth = options.depth.unwrap_or(algo.proto.depth());
    let waiting = fifo::stuck(algo, options.at_once, depth);
    let Some(first) = waiting.first() else { return };
    let step = |n: &super::StepName| &algo.gpus[n.gpu].tbs[n.tb].steps[n.step];
    let mut d = Diagnostic::error(
        "E340",
        format!("deadlock: {first} waits for a step that never publishes its completion"),
    )
    .primary(step(first).span, "waits here");
    for n in waiting.iter().skip(1).take(6) {
        d = d.secondary(step(n).span, format!("{n} waits here"));
    }
    found.push(d.note(format!("{} thread blocks cannot proceed", waiting.len())));
}

/// Compares the message sizes that the file declares with those at which the schedule does
/// not hang (E388).
fn window(algo: &Algo, f: &mut Finding) {
    let (Some((least, most)), SafeSizes::UpTo(n)) = (algo.window, f.safe) else { return };
    if f.hang != Hang::None || most <= n.saturating_add(1) {
        return;
    }
    let text = format!(
        "the file declares message sizes from {least} to {most} bytes, and the schedule hangs above {n} bytes"
    );
    let never = least > n;
    let d = if never { Diagnostic::error("E388", text) } else { Diagnostic::warning("E388", text) };
    f.errors.push(
        d.primary(algo.span, "declared here")
            .note(format!(
                "a step of several chunks becomes several operations, and a connection holds at most {} of them",
                algo.proto.depth()
            ))
            .help(format!("write maxBytes=\"{n}\", or let a thread block receive before it sends")),
    );
    if never {
        f.hang = Hang::AtDepth;
        f.post = None;
        f.kinds.insert(0, "hang");
    }
}

/// Adds the steps of the file to a message of the checker.
fn in_words(algo: &Algo, mut d: Diagnostic, hang: Hang, line: &dyn Fn(Span) -> Option<usize>) -> Diagnostic {
    let mut names: Vec<String> = vec![];
    for l in &d.labels {
        let Some((name, step)) = algo.step_at(l.span) else { continue };
        let at = line(l.span).map_or(String::new(), |n| format!(", line {n}"));
        let text = format!("{name} ({}{at})", step.op.name());
        if !names.contains(&text) {
            names.push(text);
        }
    }
    match (kind(d.code), &names[..]) {
        ("race", [a, b, ..]) => {
            d.notes.insert(0, d.title.clone());
            d.title = format!("race: {a} and {b} are not ordered");
            d.help = Some(
                "let the later step depend on the earlier one: write depid and deps in the later step, and hasdep=\"1\" in the earlier one".into(),
            );
        }
        ("race", [a]) => {
            d.notes.insert(0, d.title.clone());
            d.title = format!("race: several iterations of {a} are not ordered");
        }
        ("hang", _) => {
            let (words, help) = match hang {
                Hang::AtDepth => (
                    format!(
                        "with more than the {} slots of {} it would end",
                        algo.proto.depth(),
                        algo.proto.name()
                    ),
                    "let one of them receive before it sends, or send less before the other side receives",
                ),
                _ => (
                    "it hangs for every queue depth".into(),
                    "every send needs a receive on the other rank and the same channel, and every dependency needs a step with hasdep=\"1\"",
                ),
            };
            d.notes.push(words);
            d.help = Some(help.into());
            d.notes.extend(names.iter().map(|n| format!("waiting: {n}")));
        }
        (_, []) => {}
        (_, _) => d.notes.extend(names.iter().map(|n| format!("at {n}"))),
    }
    d
}
