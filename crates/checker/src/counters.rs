//! Counters and events of a run, and the conditions that they must meet over more calls than are
//! walked.
//!
//! The module owns the state of counters and events. [`super::engine`] wakes the streams that wait
//! for them. A wait *means* a set of notifies, as defined in ADR 19
//! (`docs/adr/019-barrier-forms.md`).

use super::Setup;
use super::order::{EventSnapshot, NotifySnapshot};
use super::report::Report;
use super::waits::{Wait, Waits};
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
    /// The waits, those of each stream in order. For counters that are not epochs, the value is the
    /// number of notifies that the wait means.
    pub waited: Waits,
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
    /// Number of notifies of each call, counter by counter.
    notified: Vec<u32>,
    calls: usize,
}

impl Counters {
    /// Creates the counters for a run of `calls` calls.
    pub(super) fn new(calls: usize) -> Counters {
        Counters { at: HashMap::default(), list: vec![], notified: vec![], calls }
    }

    /// Returns a counter of a walked rank, and creates it if necessary.
    pub(super) fn of(&mut self, rep: usize, number: u32) -> &mut Counter {
        let at = self.index(rep, number);
        &mut self.list[at]
    }

    /// Returns the index of a counter of a walked rank, and creates the counter if necessary.
    fn index(&mut self, rep: usize, number: u32) -> usize {
        let next = self.list.len() as u32;
        let at = *self.at.entry((rep as u32, number)).or_insert(next);
        if at == next {
            self.list.push(Counter::new());
            self.notified.resize(self.notified.len() + self.calls, 0);
        }
        at as usize
    }

    /// Adds a notify of a call to a counter, and returns the counter.
    pub(super) fn add(&mut self, (rep, number): (usize, u32), call: usize, notify: Notify) -> &mut Counter {
        let at = self.index(rep, number);
        // A run has fewer operations than 32 bits can count.
        self.notified[at * self.calls + call] += 1;
        let c = &mut self.list[at];
        c.count += 1;
        if c.notifies.capacity() == 0 {
            // Most counters have one notify at a time.
            c.notifies.reserve_exact(1);
        }
        c.notifies.push_back(notify);
        c
    }

    /// Returns the number of notifies of each call of a counter, by its index.
    fn notified(&self, at: usize) -> &[u32] {
        &self.notified[at * self.calls..][..self.calls]
    }

    /// Returns a counter of a walked rank if some operation has used it.
    pub(super) fn used(&self, rep: usize, number: u32) -> Option<&Counter> {
        self.at.get(&(rep as u32, number)).map(|at| &self.list[*at as usize])
    }

    /// Returns the largest growth of an epoch per call.
    pub(super) fn growth(&self, setup: &Setup) -> u64 {
        let epochs = self.at.iter().filter(|((_, number), _)| setup.program.form(*number) == Form::Epoch);
        epochs.map(|(_, at)| growth(self.notified(*at as usize))).max().unwrap_or(0)
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
    /// Creates a counter at zero.
    fn new() -> Counter {
        Counter {
            count: 0,
            writer: NONE,
            writer_op: 0,
            several: false,
            notifies: VecDeque::new(),
            first: 1,
            waiting: vec![],
            waited: Waits::default(),
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
}

/// Returns the largest number of notifies of a call.
fn growth(notified: &[u32]) -> u64 {
    notified.iter().copied().max().unwrap_or(0).into()
}

/// Checks the ranges of counters over the stated calls, and whether waits keep pace with the
/// counters.
pub(super) fn ranges(setup: &Setup, counters: &Counters, limits: &Limits, report: &mut Report) {
    let n = setup.calls as usize;
    let calls = if limits.period.is_some() { limits.stated_calls } else { 1 };
    let mut in_order: Vec<_> = counters.at.iter().collect();
    in_order.sort_unstable();
    for ((_, number), at) in in_order {
        let (c, notified) = (&counters.list[*at as usize], counters.notified(*at as usize));
        let most = growth(notified);
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
        in_time(setup, (c, notified), form, report, &name);
        let Some(period) = limits.period.map(|p| p as usize) else { continue };
        if n < 2 * period || !report.is_empty() {
            continue;
        }
        let grown: u64 = notified[n - period..].iter().map(|n| u64::from(*n)).sum();
        if form != Form::Epoch {
            pace(setup, (c, notified), grown, period, report, name);
            continue;
        }
        // The text repeats after a period, so the same waits occur again. If each of them asks for
        // as much more as the counter grows, every later period is the last one, shifted. Otherwise
        // some later wait never ends, or orders nothing.
        for call in n - period..n {
            let (then, now) = (by_stream(c.waited.of(call - period)), by_stream(c.waited.of(call)));
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
fn in_time(
    setup: &Setup,
    (c, by_call): (&Counter, &[u32]),
    form: Form,
    report: &mut Report,
    name: &impl Fn() -> String,
) {
    let (mut notified, mut spent) = (0i128, 0i128);
    for (call, n) in by_call.iter().enumerate() {
        notified += i128::from(*n);
        for w in c.waited.of(call) {
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
fn by_stream(list: impl Iterator<Item = Wait>) -> Vec<Wait> {
    let mut out: Vec<Wait> = list.collect();
    out.sort_by_key(|w| w.stream);
    out
}

/// Checks that a counter that is not an epoch has the same state after a period as before. A sense
/// counter then also has the same parity: waits leave it at the last value that they ask for, which
/// is the same in every period.
fn pace(
    setup: &Setup,
    (c, notified): (&Counter, &[u32]),
    grown: u64,
    period: usize,
    report: &mut Report,
    name: impl Fn() -> String,
) {
    let last = notified.len() - period;
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
