//! Counters and events of a run, and the conditions that they must meet over more calls than are
//! walked.
//!
//! The module owns the state of counters and events. [`super::engine`] wakes the streams that wait
//! for them. A wait *means* a set of notifies, as defined in ADR 19
//! (`docs/adr/019-barrier-forms.md`).

use super::Setup;
use super::order::{EventSnapshot, NotifySnapshot};
use super::report::Report;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::form::Form;
use rustc_hash::FxBuildHasher;
use std::collections::{HashMap, VecDeque};

/// The number that stands for no stream.
pub(super) const NONE: u32 = u32::MAX;

/// Limits of a run.
pub(super) struct Limits {
    pub acts: u64,
    pub errors: usize,
    /// Whether errors about contents are reported even where accesses race.
    pub all_kinds: bool,
    pub stated_calls: u64,
    /// Number of calls after which the text repeats, if later calls are to be covered.
    pub period: Option<u64>,
}

/// A counter of a walked rank.
pub(super) struct Counter {
    pub count: u64,
    pub writer: u32,
    pub writer_op: u32,
    /// Whether several streams have notified it.
    pub several: bool,
    pub notifies: VecDeque<Notify>,
    /// Number of the first notify that is kept, counted from 1.
    pub first: u64,
    pub waiting: Vec<usize>,
    /// Number of notifies of each call.
    pub notified: Vec<u64>,
    /// The waits, those of each stream in order. For counters that are not epochs, the value is the
    /// number of notifies that the wait means.
    pub waited: Vec<Wait>,
    pub wait_op: u32,
    /// For counters that are not epochs: the number of notifies that the waits so far mean, and the
    /// waiting stream.
    pub spent: u64,
    pub waiter: u32,
    /// For counters that are not epochs: those waits.
    pub meant: Vec<MatchedWait>,
}

/// A notify.
pub(super) struct Notify {
    pub snap: NotifySnapshot,
    /// The notifying stream, as the rank of the counter sees it.
    pub by: u32,
    /// The group element that takes the walked notifier to the real one, and its inverse.
    pub moved: u64,
    pub back: u64,
    pub op: u32,
}

/// A wait: the call, the walked stream, its operation, and the value that it asks for. There may be
/// a counter for every message of every rank, so a wait is small.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Wait {
    pub call: u32,
    pub stream: u32,
    pub op: u32,
    pub value: i64,
}

/// Largest value of a counter. Emitted kernels keep and compare counters as signed 32-bit numbers.
pub(super) const MAX_COUNT: u64 = i32::MAX as u64;

/// A wait and the notifies that it means.
pub(super) struct MatchedWait {
    /// Position of the wait in its stream.
    pub pos: u32,
    pub op: u32,
    /// Last position and operation of each stream whose notify may be missing.
    pub by: Vec<(u32, u32, u32)>,
}

/// The counters of all walked ranks that some operation has used. The schedule may declare many
/// more, such as a credit for each pair of ranks.
pub(super) struct Counters {
    /// Index of each counter in the list, by walked rank and number.
    at: HashMap<(u32, u32), u32, FxBuildHasher>,
    list: Vec<Counter>,
    calls: usize,
}

impl Counters {
    /// Creates the counters for a run of `calls` calls.
    pub(super) fn new(calls: usize) -> Counters {
        Counters { at: HashMap::default(), list: vec![], calls }
    }

    /// Returns a counter of a walked rank, and creates it if necessary.
    pub(super) fn of(&mut self, rep: usize, number: u32) -> &mut Counter {
        let next = self.list.len() as u32;
        let at = *self.at.entry((rep as u32, number)).or_insert(next);
        if at == next {
            self.list.push(Counter::new(self.calls));
        }
        &mut self.list[at as usize]
    }

    /// Returns a counter of a walked rank if some operation has used it.
    pub(super) fn used(&self, rep: usize, number: u32) -> Option<&Counter> {
        self.at.get(&(rep as u32, number)).map(|at| &self.list[*at as usize])
    }

    /// Returns the largest growth of an epoch per call.
    pub(super) fn growth(&self, setup: &Setup) -> u64 {
        let epochs = self.at.iter().filter(|((_, number), _)| setup.program.form(*number) == Form::Epoch);
        epochs.map(|(_, at)| self.list[*at as usize].growth()).max().unwrap_or(0)
    }
}

/// An event of a walked rank.
#[derive(Default)]
pub(super) struct Event {
    /// The records: (call, recording stream, operation, transferred knowledge).
    pub marks: Vec<(u64, u32, u32, EventSnapshot)>,
    pub waiting: Vec<usize>,
}

impl Counter {
    /// Creates a counter at zero, for a run of `calls` calls.
    pub(super) fn new(calls: usize) -> Counter {
        Counter {
            count: 0,
            writer: NONE,
            writer_op: 0,
            several: false,
            notifies: VecDeque::new(),
            first: 1,
            waiting: vec![],
            notified: vec![0; calls],
            waited: vec![],
            wait_op: 0,
            spent: 0,
            waiter: NONE,
            meant: vec![],
        }
    }

    /// Returns the value that a wait of form `form` sees.
    pub(super) fn seen(&self, form: Form) -> u64 {
        match form {
            Form::Epoch => self.count,
            Form::Sense { fresh: _ } => self.count & 1,
            Form::Clearing { fresh: _ } => self.count - self.spent,
        }
    }

    /// Returns the waits of a call.
    fn waits(&self, call: usize) -> impl Iterator<Item = &Wait> {
        self.waited.iter().filter(move |w| w.call as usize == call)
    }

    fn growth(&self) -> u64 {
        self.notified.iter().copied().max().unwrap_or(0)
    }
}

/// Checks the ranges of counters over the stated calls, and whether waits keep pace with the
/// counters.
pub(super) fn ranges(setup: &Setup, counters: &Counters, limits: &Limits, report: &mut Report) {
    let n = setup.calls as usize;
    let calls = if limits.period.is_some() { limits.stated_calls } else { 1 };
    let mut in_order: Vec<_> = counters.at.iter().collect();
    in_order.sort_unstable();
    for ((_, number), at) in in_order {
        let c = &counters.list[*at as usize];
        let most = c.growth();
        let (s, index) = setup.program.counter_name(*number);
        let name = || format!("@{}[{index}]", setup.schedule.signal(s).name);
        let form = setup.program.form(*number);
        if form == Form::Epoch && most.saturating_mul(calls) > MAX_COUNT {
            let span = setup.span(c.writer_op);
            report.push("E352", span, Span::NONE, || {
                let text = format!("{} exceeds signed 32 bits within {calls} calls", name());
                Diagnostic::error("E352", text)
                    .primary(span, format!("it is incremented {most} times per call"))
                    .note(format!("it stays in range for {} calls", MAX_COUNT / most))
                    .help("use more counters, or claim fewer calls before the signals are allocated again")
            });
        }
        in_time(setup, c, form, report, &name);
        let Some(period) = limits.period.map(|p| p as usize) else { continue };
        if n < 2 * period || !report.is_empty() {
            continue;
        }
        let grown: u64 = c.notified[n - period..].iter().sum();
        if form != Form::Epoch {
            pace(setup, c, grown, period, report, name);
            continue;
        }
        // The text repeats after a period, so the same waits occur again. If each of them asks for
        // as much more as the counter grows, every later period is the last one, shifted. Otherwise
        // some later wait never ends, or orders nothing.
        for call in n - period..n {
            let (then, now) = (by_stream(c.waits(call - period)), by_stream(c.waits(call)));
            let lags = |(a, b): (&Wait, &Wait)| {
                let grew = i128::from(b.value) - i128::from(a.value);
                (a.stream, a.op) != (b.stream, b.op) || grew != i128::from(grown)
            };
            let wrong = then.iter().zip(&now).find(|(a, b)| lags((a, b))).map(|(_, b)| b.op);
            let missing = (then.len() != now.len()).then_some(c.wait_op);
            let Some(op) = wrong.or(missing) else { continue };
            let span = setup.span(op);
            report.push("E353", span, Span::NONE, || {
                let calls = if period == 1 { "a call".to_string() } else { format!("{period} calls") };
                Diagnostic::error("E353", format!("waits do not keep pace with {}", name()))
                    .primary(
                        span,
                        format!(
                            "the counter grows by {grown} in {calls}, and the value of this wait does not"
                        ),
                    )
                    .help("let the value of every wait grow by the same amount per call")
            });
        }
    }
}

/// Checks that a wait needs only notifies of its own call or of earlier calls. Otherwise a rank
/// that makes no further call would wait forever.
fn in_time(setup: &Setup, c: &Counter, form: Form, report: &mut Report, name: &impl Fn() -> String) {
    let (mut notified, mut spent) = (0i128, 0i128);
    for call in 0..c.notified.len() {
        notified += i128::from(c.notified[call]);
        for w in c.waits(call) {
            let value = i128::from(w.value);
            let needed = match form {
                Form::Epoch => value,
                Form::Sense { fresh: _ } | Form::Clearing { fresh: _ } => {
                    spent += value;
                    spent
                }
            };
            if needed <= notified {
                continue;
            }
            let span = setup.span(w.op);
            report.push("E340", span, Span::NONE, || {
                let text = format!("in call {call} a wait for {} needs a notify of a later call", name());
                Diagnostic::error("E340", text)
                    .primary(
                        span,
                        format!("this needs {needed} notifies, and up to this call there are {notified}"),
                    )
                    .help(
                        "wait only for notifies of this call or of earlier calls, because there may be no later call",
                    )
            });
            return;
        }
    }
}

/// Sorts waits by stream, and keeps the execution order of each stream, because the interleaving of
/// streams does not matter.
fn by_stream<'w>(list: impl Iterator<Item = &'w Wait>) -> Vec<Wait> {
    let mut out: Vec<Wait> = list.copied().collect();
    out.sort_by_key(|w| w.stream);
    out
}

/// Checks that a counter that is not an epoch has the same state after a period as before. A sense
/// counter then also has the same parity: waits leave it at the last value that they ask for, which
/// is the same in every period.
fn pace(
    setup: &Setup,
    c: &Counter,
    grown: u64,
    period: usize,
    report: &mut Report,
    name: impl Fn() -> String,
) {
    let last = c.notified.len() - period;
    let mut waits = c.waited.iter().filter(|w| w.call as usize >= last).peekable();
    let any = waits.peek().is_some();
    let about: i128 = waits.map(|w| i128::from(w.value)).sum();
    if about == grown as i128 {
        return;
    }
    let op = if any { c.wait_op } else { c.writer_op };
    let span = setup.span(op);
    report.push("E353", span, Span::NONE, || {
        let calls = if period == 1 { "a call".to_string() } else { format!("{period} calls") };
        Diagnostic::error("E353", format!("waits do not keep pace with {}", name()))
            .primary(span, format!("it is incremented {grown} times in {calls}, and waits expect {about}"))
            .help("wait for every notify exactly once")
    });
}
