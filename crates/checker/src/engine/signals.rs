//! Notifies and waits of a run: which notifies a wait means, and the proof that no others can take
//! their place.
//!
//! An epoch has one writer, so `>= n` means its first n notifies. For the other forms the rule is
//! E358 (`docs/adr/019-barrier-forms.md`): a notify that a wait does not mean comes after that
//! wait, or, for clearing counters, at least after all notifies that the wait means.

use super::super::contents::Contents;
use super::super::counters::{Counter, MatchedWait, NONE, Notify};
use super::super::order::Order;
use super::super::waits::Wait;
use super::{Engine, State};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::form::Form;
use kbc_ir::walk::Act;

/// A notify: the notifying stream, as the rank of the counter sees it, and its operation.
type Notifier = (u32, u32);

/// Returns the wait that a notify may disturb, and a notify that may be missing when it does.
fn disturbs<'c>(
    order: &Order,
    c: &'c Counter,
    form: Form,
    notify: &Notify,
) -> Option<(&'c MatchedWait, Option<Notifier>)> {
    for m in c.meant.iter().rev() {
        if order.knew(&notify.snap, notify.back, c.waiter) >= m.pos {
            // The notify then also comes after all earlier waits.
            return None;
        }
        match form {
            Form::Sense { fresh: _ } => return Some((m, None)),
            Form::Epoch | Form::Clearing { fresh: _ } => {
                let missing =
                    m.by.iter().find(|(by, pos, _)| order.knew(&notify.snap, notify.back, *by) < *pos);
                if let Some((by, _, op)) = missing {
                    return Some((m, Some((*by, *op))));
                }
            }
        }
    }
    None
}

/// Takes the notifies up to number `target`, which are those that a wait means. If the counter has
/// several writers, notifies that are known to have been issued come first, because no wait can
/// pass without them; the others follow in the order of their arrival.
fn next(c: &mut Counter, target: u64, known: impl Fn(&Notify) -> bool) -> Vec<Notify> {
    let n = ((target + 1).saturating_sub(c.first) as usize).min(c.notifies.len());
    c.first += n as u64;
    if !c.several {
        return c.notifies.drain(..n).collect();
    }
    let flags: Vec<bool> = c.notifies.iter().map(known).collect();
    let mut sure = flags.iter().filter(|k| **k).count().min(n);
    let mut others = n - sure;
    let (mut taken, mut left) = (vec![], std::collections::VecDeque::new());
    for (notify, known) in c.notifies.drain(..).zip(flags) {
        let of = if known { &mut sure } else { &mut others };
        if *of > 0 {
            *of -= 1;
            taken.push(notify);
        } else {
            left.push_back(notify);
        }
    }
    c.notifies = left;
    taken
}

impl<'p, C: Contents> Engine<'p, C> {
    fn counter_name(&self, rep: usize, counter: u32) -> String {
        let (s, i) = self.setup.program.counter_name(counter);
        let on = self.setup.rank(self.setup.group.reps[rep]);
        format!("@{}[{i}] of rank {on}", self.setup.schedule.signal(s).name)
    }

    pub(super) fn notify(&mut self, si: usize, peer: u64, counter: u32, span: Span, op: u32) {
        let setup = self.setup;
        let own = self.own(si);
        let snap = self.order.notify(si, own);
        let (there, back, who) = self.peer(si, peer);
        let call = self.streams[si].call as usize;
        let form = setup.program.form(counter);
        let notify = Notify { snap, by: who.stream, moved: back, back: who.back, op };
        let c = self.counters.of(there, counter);
        let (writer, first) = (c.writer, c.writer_op);
        if writer == NONE {
            (c.writer, c.writer_op) = (who.stream, op);
        } else if writer != who.stream {
            c.several = true;
            if !matches!(form, Form::Clearing { fresh: _ }) {
                self.two_writers((there, counter), (who.stream, span), (writer, setup.span(first)));
            }
        }
        if form != Form::Epoch
            && let Some(c) = self.counters.used(there, counter)
            && let Some((m, missing)) = disturbs(&self.order, c, form, &notify)
        {
            let wait = m.op;
            self.report_disturbed_wait((there, counter), (notify.by, notify.op), wait, missing);
        }
        let c = self.counters.add((there, counter), call, notify);
        // Every waiting stream looks again; those that wait for a larger value block at once.
        let (count, spent) = (c.count, c.spent);
        let woken: Vec<usize> = std::mem::take(&mut c.waiting);
        for w in woken {
            let enough = match &self.streams[w].retry {
                Some((Act::Wait { value, .. }, ..)) => form.target(spent, *value) <= count,
                _ => true,
            };
            if enough {
                self.ready.push_back(w);
            } else {
                self.counters.of(there, counter).waiting.push(w);
            }
        }
    }

    pub(super) fn wait(&mut self, si: usize, counter: u32, value: i64, span: Span, op: u32) -> bool {
        let setup = self.setup;
        let (rep, call) = (self.streams[si].rep, self.streams[si].call as u32);
        let form = setup.program.form(counter);
        let c = self.counters.of(rep, counter);
        let target = form.target(c.spent, value);
        if target > c.count {
            c.waiting.push(si);
            self.streams[si].state = State::Counter(counter);
            return false;
        }
        let pos = self.order.tick(si);
        if form != Form::Epoch {
            self.spend(si, (rep, counter), target, pos, (span, op));
            return true;
        }
        c.waited.push(Wait { call, stream: si as u32, op, value });
        c.wait_op = op;
        if target < c.first {
            return true;
        }
        let index = target - c.first;
        let notify = &c.notifies[index as usize];
        self.order.heard(si, &notify.snap, notify.by, notify.moved);
        if !setup.shared[setup.program.counter_name(counter).0.0 as usize] {
            // The only stream that waits for this counter now knows all of these notifies.
            for _ in 0..=index {
                if let Some(notify) = c.notifies.pop_front() {
                    self.order.recycle(notify.snap);
                }
            }
            c.first += index + 1;
        }
        true
    }

    /// Handles a wait for a counter that is not an epoch: it passes, and means all notifies up to
    /// number `target`.
    fn spend(
        &mut self,
        si: usize,
        (rep, counter): (usize, u32),
        target: u64,
        pos: u32,
        (span, op): (Span, u32),
    ) {
        let (form, own) = (self.setup.program.form(counter), self.own(si));
        let call = self.streams[si].call as u32;
        let c = self.counters.of(rep, counter);
        if !form.fresh() {
            self.report.push("E367", span, Span::NONE, || stale(self.setup, counter, form, span));
        }
        let (waiter, before) = (c.waiter, c.wait_op);
        // Both are numbers of operations.
        let about = (target - c.spent) as i64;
        c.waited.push(Wait { call, stream: si as u32, op, value: about });
        (c.spent, c.wait_op, c.waiter) = (target, op, own);
        let heard = next(c, target, |t: &Notify| self.order.knows(si, t.by) >= t.snap.pos);
        // Keep only the last notify of each stream. Notifies that the waiting stream knows to have
        // been issued cannot be missing.
        let mut by: Vec<(u32, u32, u32)> = heard.iter().map(|t| (t.by, t.snap.pos, t.op)).collect();
        by.sort_by_key(|(by, pos, _)| (*by, std::cmp::Reverse(*pos)));
        by.dedup_by_key(|b| b.0);
        by.retain(|(by, pos, _)| self.order.knows(si, *by) < *pos);
        for notify in heard {
            self.order.heard(si, &notify.snap, notify.by, notify.moved);
            self.order.recycle(notify.snap);
        }
        let c = self.counters.of(rep, counter);
        // If all notifies of this wait and of the one before come from one stream, a notify that
        // comes after this wait, or after everything that it means, also comes after what the
        // earlier wait means. The earlier wait then need not be kept.
        let alone = |m: &MatchedWait| matches!((&m.by[..], &by[..]), ([a], [b]) if a.0 == b.0);
        if matches!(form, Form::Sense { fresh: _ }) || c.meant.last().is_some_and(alone) {
            c.meant.pop();
        }
        if matches!(form, Form::Sense { fresh: _ }) || !by.is_empty() {
            c.meant.push(MatchedWait { pos, op, by });
        }
        if waiter != NONE && waiter != own {
            self.two_waiters((rep, counter), span, self.setup.span(before));
        }
        // Notifies that have already arrived and that this wait does not mean.
        let c = &*self.counters.of(rep, counter);
        if c.several || matches!(form, Form::Sense { fresh: _ }) {
            let found =
                c.notifies.iter().find_map(|t| disturbs(&self.order, c, form, t).map(|d| (t, d.0.op, d.1)));
            if let Some((notify, wait, missing)) = found {
                let notify = (notify.by, notify.op);
                self.report_disturbed_wait((rep, counter), notify, wait, missing);
            }
        }
    }

    /// Reports E358.
    fn report_disturbed_wait(
        &mut self,
        (rep, counter): (usize, u32),
        (by, op): Notifier,
        wait: u32,
        missing: Option<Notifier>,
    ) {
        let setup = self.setup;
        let (span, wait) = (setup.span(op), setup.span(wait));
        let rank = |stream: u32| setup.rank(u64::from(stream) / setup.width as u64);
        let (name, rank, missing) = (self.counter_name(rep, counter), rank(by), missing.map(|m| rank(m.0)));
        self.report.push("E358", span, wait, || {
            let here = format!("rank {rank} notifies here, and nothing ensures that the wait has ended");
            match missing {
                None => Diagnostic::error("E358", format!("rank {rank} may notify {name} twice before the waiting rank sees the first notify"))
                    .primary(span, here)
                    .secondary(wait, "this wait then finds the old sense and misses the notify that it expects")
                    .help("let the waiting rank acknowledge before the next notify, alternate between two sets of counters, or wait for an epoch"),
                Some(m) => Diagnostic::error("E358", format!("a wait for {name} may take the notify of another rank"))
                    .primary(span, here)
                    .secondary(wait, format!("this wait may take it for the notify of rank {m}, which has not been sent yet"))
                    .help("let the waiting ranks acknowledge before the next notify, or use a separate counter per writer"),
            }
        });
    }

    /// Reports E351 for two writers of a counter.
    fn two_writers(&mut self, (rep, counter): (usize, u32), now: (u32, Span), first: (u32, Span)) {
        let (setup, name) = (self.setup, self.counter_name(rep, counter));
        let rank = |stream: u32| setup.rank((stream / setup.width as u32) as u64);
        self.report.push("E351", now.1, first.1, || {
            Diagnostic::error("E351", format!("{name} has two writers"))
                .primary(now.1, format!("rank {} notifies here", rank(now.0)))
                .secondary(first.1, format!("rank {} notifies here", rank(first.0)))
                .help("use a separate counter per writing stream")
        });
    }

    /// Reports E351 for two streams that wait for one counter.
    fn two_waiters(&mut self, (rep, counter): (usize, u32), now: Span, first: Span) {
        let name = self.counter_name(rep, counter);
        let (first, now) =
            if (now.start, now.end) < (first.start, first.end) { (now, first) } else { (first, now) };
        self.report.push("E351", now, first, || {
            Diagnostic::error("E351", format!("two streams wait for {name}"))
                .primary(now, "here")
                .secondary(first, "and here")
                .help("let one stream wait, and let the other `await` an event of that stream")
        });
    }
}

/// Returns the error E367.
fn stale(setup: &super::Setup, counter: u32, form: Form, span: Span) -> Diagnostic {
    let signal = setup.schedule.signal(setup.program.counter_name(counter).0);
    let name = &signal.name;
    Diagnostic::error("E367", format!("the initial value of @{name} is unknown"))
        .primary(span, "this wait depends on the initial value")
        .secondary(signal.span, format!("{} counter has no other starting point", form.article()))
        .help(format!("if the counter is zeroed before any rank runs, declare it: `{} fresh`", form.name()))
}
