//! Counters and events of a run, and what must hold of them over more calls than are walked.
//!
//! Owns their state; who is woken by them is [`super::engine`]'s.

use super::Setup;
use super::order::{Mark, Snap};
use super::report::Report;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::form::Form;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// No stream.
pub(super) const NONE: u32 = u32::MAX;

/// Which limits a run has.
pub(super) struct Limits {
    pub acts: u64,
    pub errors: usize,
    /// Messages about contents stay where there is a race.
    pub all_kinds: bool,
    pub stated_calls: u64,
    /// Calls after which the text repeats, if later calls are to be covered.
    pub period: Option<u64>,
}

/// A counter of a walked rank.
pub(super) struct Counter {
    pub count: u64,
    pub writer: u32,
    pub writer_op: u32,
    /// Whether several streams have counted.
    pub several: bool,
    pub told: VecDeque<Told>,
    /// Number of the first notify kept, from 1.
    pub first: u64,
    pub waiting: Vec<usize>,
    /// Notifies of each call.
    pub notified: Vec<u64>,
    /// Waits of each call: the stream that waits, and the value; of counters that are no epochs, how many notifies
    /// the wait is about.
    pub waited: Vec<Vec<Waited>>,
    pub wait_op: u32,
    /// Notifies that the waits so far were about, and the stream that waits; of counters that are no epochs.
    pub spent: u64,
    pub waiter: u32,
    /// Those waits.
    pub meant: Vec<Meant>,
}

/// A notify.
pub(super) struct Told {
    pub snap: Snap,
    /// The notifying stream, as the rank of the counter sees it.
    pub by: u32,
    /// Element that takes the walked notifier to the real one, and the one that takes it back.
    pub moved: u64,
    pub back: u64,
    pub op: u32,
}

/// A wait of a call: the walked stream, its operation, and what it asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Waited {
    pub stream: usize,
    pub op: u32,
    pub value: i128,
}

/// Largest value of a counter: emitted kernels keep counters, and compare them, as signed 32-bit numbers.
pub(super) const MOST_COUNT: u64 = i32::MAX as u64;

/// A wait and what it was about.
pub(super) struct Meant {
    /// Its position in its stream.
    pub pos: u32,
    pub op: u32,
    /// Of each stream whose notify may be missing: the last position and operation.
    pub by: Vec<(u32, u32, u32)>,
}

/// The counters of all walked ranks that somebody has used: there may be many more, a credit for each pair of ranks.
pub(super) struct Counters {
    /// Where each is in the list, by walked rank and number.
    at: HashMap<(u32, u32), u32>,
    list: Vec<Counter>,
    calls: usize,
}

impl Counters {
    /// For a run of so many calls.
    pub(super) fn new(calls: usize) -> Counters {
        Counters { at: HashMap::new(), list: vec![], calls }
    }

    /// A counter of a walked rank.
    pub(super) fn of(&mut self, rep: usize, number: u32) -> &mut Counter {
        let next = self.list.len() as u32;
        let at = *self.at.entry((rep as u32, number)).or_insert(next);
        if at == next {
            self.list.push(Counter::new(self.calls));
        }
        &mut self.list[at as usize]
    }

    /// A counter of a walked rank, if somebody has used it.
    pub(super) fn used(&self, rep: usize, number: u32) -> Option<&Counter> {
        self.at.get(&(rep as u32, number)).map(|at| &self.list[*at as usize])
    }

    /// By how much an epoch grows in a call at most.
    pub(super) fn growth(&self, setup: &Setup) -> u64 {
        let epochs = self.at.iter().filter(|((_, number), _)| setup.program.form(*number) == Form::Epoch);
        epochs.map(|(_, at)| self.list[*at as usize].growth()).max().unwrap_or(0)
    }
}

/// An event of a walked rank.
#[derive(Default)]
pub(super) struct Event {
    /// (call, recording stream, operation, what it told)
    pub marks: Vec<(u64, u32, u32, Mark)>,
    pub waiting: Vec<usize>,
}

impl Counter {
    /// A counter at zero, for a run of so many calls.
    pub(super) fn new(calls: usize) -> Counter {
        Counter {
            count: 0,
            writer: NONE,
            writer_op: 0,
            several: false,
            told: VecDeque::new(),
            first: 1,
            waiting: vec![],
            notified: vec![0; calls],
            waited: vec![vec![]; calls],
            wait_op: 0,
            spent: 0,
            waiter: NONE,
            meant: vec![],
        }
    }

    /// What a wait sees there.
    pub(super) fn seen(&self, form: Form) -> u64 {
        match form {
            Form::Epoch => self.count,
            Form::Sense { fresh: _ } => self.count & 1,
            Form::Clearing { fresh: _ } => self.count - self.spent,
        }
    }

    fn growth(&self) -> u64 {
        self.notified.iter().copied().max().unwrap_or(0)
    }
}

/// Ranges of counters over the stated calls, and whether waits keep pace with what they wait for.
pub(super) fn ranges(setup: &Setup, counters: &Counters, limits: &Limits, report: &mut Report) {
    let n = setup.calls as usize;
    let calls = if limits.period.is_some() { limits.stated_calls } else { 1 };
    let by_number: BTreeMap<_, _> = counters.at.iter().collect();
    for ((_, number), at) in by_number {
        let c = &counters.list[*at as usize];
        let most = c.growth();
        let (s, index) = setup.program.counter_name(*number);
        let name = || format!("@{}[{index}]", setup.schedule.signal(s).name);
        let form = setup.program.form(*number);
        if form == Form::Epoch && most.saturating_mul(calls) > MOST_COUNT {
            let span = setup.span(c.writer_op);
            report.push("E352", span, Span::NONE, || {
                let text = format!("{} leaves signed 32 bits within {calls} calls", name());
                Diagnostic::error("E352", text)
                    .primary(span, format!("counts {most} times in a call"))
                    .note(format!("it is in range for {} calls", MOST_COUNT / most))
                    .help("use more counters, or state fewer calls before the signals are allocated again")
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
        // The text repeats after a period, so the same waits come again. If each of them asks for as much more as the
        // counter grows, every later period is the last one moved; otherwise some later wait is never over, or orders
        // nothing.
        for call in n - period..n {
            let (then, now) = (in_order(&c.waited[call - period]), in_order(&c.waited[call]));
            let lags = |(a, b): (&Waited, &Waited)| {
                (a.stream, a.op) != (b.stream, b.op) || b.value - a.value != i128::from(grown)
            };
            let wrong = then.iter().zip(&now).find(|(a, b)| lags((a, b))).map(|(_, b)| b.op);
            let missing = (then.len() != now.len()).then_some(c.wait_op);
            let Some(op) = wrong.or(missing) else { continue };
            let span = setup.span(op);
            report.push("E353", span, Span::NONE, || {
                let calls = if period == 1 { "a call".to_string() } else { format!("{period} calls") };
                Diagnostic::error("E353", format!("what is waited for does not keep pace with {}", name()))
                    .primary(span, format!("the counter grows by {grown} in {calls}, this wait does not"))
                    .help("let the value of every wait grow with `call` by as much")
            });
        }
    }
}

/// What a wait needs is counted in its own call or in earlier ones: whoever makes no further call would wait for ever.
fn in_time(setup: &Setup, c: &Counter, form: Form, report: &mut Report, name: &impl Fn() -> String) {
    let (mut notified, mut spent) = (0i128, 0i128);
    for (call, waits) in c.waited.iter().enumerate() {
        notified += i128::from(c.notified[call]);
        for w in waits {
            let needed = match form {
                Form::Epoch => w.value,
                Form::Sense { fresh: _ } | Form::Clearing { fresh: _ } => {
                    spent += w.value;
                    spent
                }
            };
            if needed <= notified {
                continue;
            }
            let span = setup.span(w.op);
            report.push("E340", span, Span::NONE, || {
                let text = format!("in call {call} a wait for {} needs what a later call counts", name());
                Diagnostic::error("E340", text)
                    .primary(
                        span,
                        format!("needs {needed} notifies, and up to this call there are {notified}"),
                    )
                    .help(
                        "wait only for notifies of this call and of earlier ones: there may be no later call",
                    )
            });
            return;
        }
    }
}

/// Waits by stream, each stream's in the order of its execution: how streams take turns does not matter.
fn in_order(list: &[Waited]) -> Vec<Waited> {
    let mut out = list.to_vec();
    out.sort_by_key(|w| w.stream);
    out
}

/// A counter that is no epoch is after a period as it was before. (A sense then also has the parity that it had: waits
/// leave it at the last one they ask for, which is the same in every period.)
fn pace(
    setup: &Setup,
    c: &Counter,
    grown: u64,
    period: usize,
    report: &mut Report,
    name: impl Fn() -> String,
) {
    let waits = &c.waited[c.waited.len() - period..];
    let about: i128 = waits.iter().flatten().map(|w| w.value).sum();
    if about == grown as i128 {
        return;
    }
    let op = if waits.iter().any(|w| !w.is_empty()) { c.wait_op } else { c.writer_op };
    let span = setup.span(op);
    report.push("E353", span, Span::NONE, || {
        let calls = if period == 1 { "a call".to_string() } else { format!("{period} calls") };
        Diagnostic::error("E353", format!("what is waited for does not keep pace with {}", name()))
            .primary(span, format!("it is counted up {grown} times in {calls}, and waits are about {about}"))
            .help("wait for every notify once")
    });
}
