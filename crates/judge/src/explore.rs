//! Exploration of every order of events that can make a difference: dynamic partial-order reduction
//! with source sets and sleep sets (Abdulla, Aronis, Jonsson, Sagonas: Optimal dynamic partial
//! order reduction, POPL 2014).
//!
//! One run is made. Wherever two events touch the same elements, one of them writes, and nothing
//! orders them, the run is repeated from there in the other order, until no such pair is left. A
//! read that may see several values is made with each of them. If there are no such pairs and
//! reads, one run represents all.
//!
//! Runs are repeated from the beginning, so that no state is copied. The budget is a number of
//! events, so that the answer does not depend on a clock.

use super::machine::{Machine, Wrong};
use super::plan::{Action, Plan, Touch};
use kbc_ir::form::Form;

/// The result of an exploration.
pub(super) enum Explored {
    /// No order misbehaves; the number of runs made.
    All(u64),
    /// The budget is used up.
    Unfinished,
    /// Some order misbehaves.
    Wrong(Wrong),
}

/// One event of the current run.
struct Frame {
    event: u32,
    /// The number of the value that it sees, and the number of values that it may see.
    choice: usize,
    choices: usize,
    silent: bool,
    /// Backtrack set: the events with which a run must continue from here.
    backtrack: Vec<u32>,
    /// Sleep set: events that need not come first here.
    sleep: Vec<u32>,
}

/// An access of the current run.
struct Seen {
    at: u32,
    touch: Touch,
    silent: bool,
}

struct Explorer<'a, 'p> {
    plan: &'a Plan<'p>,
    words: usize,
    frames: Vec<Frame>,
    /// For each event of the run, the earlier events that it follows in every equivalent run.
    past: Vec<u64>,
    /// Position in the run, by event.
    at: Vec<u32>,
    /// Accesses by place.
    seen: Vec<Vec<Seen>>,
    /// Position of the last wait for each counter.
    waited: Vec<Option<u32>>,
    /// Whether several streams take from one counter. Reversing pairs of events then does not find
    /// all orders.
    open: bool,
}

/// Explores all orders, with about `budget` events at most.
pub(super) fn explore(plan: &Plan<'_>, budget: u64) -> Explored {
    let n = plan.events.len();
    let mut x = Explorer {
        plan,
        words: n.div_ceil(64),
        frames: vec![],
        past: vec![],
        at: vec![u32::MAX; n],
        seen: (0..plan.places.len()).map(|_| vec![]).collect(),
        waited: vec![None; (plan.ranks * plan.counters) as usize],
        open: false,
    };
    let (mut runs, mut events) = (0, 0);
    loop {
        runs += 1;
        match x.run(&mut events) {
            Err(wrong) => return Explored::Wrong(wrong),
            Ok(()) if x.open => return Explored::Unfinished,
            Ok(()) if !x.back() => return Explored::All(runs),
            Ok(()) if events > budget => return Explored::Unfinished,
            Ok(()) => {}
        }
    }
}

impl Explorer<'_, '_> {
    /// Repeats the existing frames and continues to the end.
    fn run(&mut self, events: &mut u64) -> Result<(), Wrong> {
        let plan = self.plan;
        let mut m = Machine::new(plan);
        self.at.fill(u32::MAX);
        self.seen.iter_mut().for_each(Vec::clear);
        self.waited.fill(None);
        let begun = self.frames.len();
        let mut d = 0;
        let mut sleep: Vec<u32> = vec![];
        loop {
            let fresh = d >= begun;
            if fresh {
                let Some(next) = m.enabled.iter().find(|e| !sleep.contains(&e.event)) else { break };
                let event = next.event;
                self.frames.push(Frame {
                    event,
                    choice: 0,
                    choices: 1,
                    silent: false,
                    backtrack: vec![event],
                    sleep: std::mem::take(&mut sleep),
                });
            }
            let frame = &mut self.frames[d];
            let (event, choice) = (frame.event, frame.choice);
            let mut choices = 1;
            *events += 1;
            m.step(event, &mut |n| {
                choices = n;
                choice
            })?;
            frame.choices = choices;
            frame.silent = m.silent;
            self.at[event as usize] = d as u32;
            // The last of the repeated frames may have a new event.
            if d + 1 >= begun {
                self.past.truncate(d * self.words);
                self.order(d, &m);
                let frame = &self.frames[d];
                sleep = frame.sleep.iter().copied().filter(|q| !self.dependent(*q, event)).collect();
            }
            if let Action::Wait { counter, .. } = plan.events[event as usize].what {
                self.waited[counter as usize] = Some(d as u32);
            }
            for touch in &plan.events[event as usize].touches {
                let seen = Seen { at: d as u32, touch: *touch, silent: m.silent };
                self.seen[touch.place as usize].push(seen);
            }
            d += 1;
        }
        if m.enabled.is_empty() && !m.over() { Err(m.stuck()) } else { Ok(()) }
    }

    /// Returns to the last frame that has another alternative. Returns whether there is one.
    fn back(&mut self) -> bool {
        while let Some(frame) = self.frames.last_mut() {
            if frame.choice + 1 < frame.choices {
                frame.choice += 1;
                return true;
            }
            frame.sleep.push(frame.event);
            if let Some(next) = frame.backtrack.iter().copied().find(|b| !frame.sleep.contains(b)) {
                (frame.event, frame.choice, frame.choices) = (next, 0, 1);
                return true;
            }
            self.frames.pop();
        }
        false
    }

    /// Computes the events that the event of a frame follows, and adds orders to try where that
    /// holds only in this run.
    fn order(&mut self, d: usize, m: &Machine<'_, '_>) {
        let plan = self.plan;
        let event = self.frames[d].event;
        let ev = &plan.events[event as usize];
        let mut row = vec![0u64; self.words];
        for p in plan.preds(event) {
            self.follow(&mut row, self.at[*p as usize]);
        }
        let mut races = vec![];
        if let Action::Wait { counter, value } = ev.what {
            let (form, told) = (plan.form(counter), &m.told[counter as usize]);
            let target = form.target(m.before, value) as usize;
            for (_, _, note) in told.iter().take(target) {
                self.follow(&mut row, self.at[*note as usize]);
            }
            if let Form::Sense { .. } = form {
                // The wait passed late: it might also have passed before each notify that made its
                // condition false again.
                let extra = told.get(target..).unwrap_or_default();
                races.extend(
                    extra.iter().step_by(2).map(|n| self.at[n.2 as usize]).filter(|at| !has(&row, *at)),
                );
                extra.iter().for_each(|n| self.follow(&mut row, self.at[n.2 as usize]));
            }
            self.open |= plan.waits.get(&counter).is_some_and(|w| w.shared);
        }
        if let Action::Note { counter, .. } = ev.what {
            // The notify that a wait hears of depends on the order in which two writers arrive.
            let told = &m.told[counter as usize];
            let last = told.len() - 1;
            // Two notifies that one wait takes are interchangeable.
            let waits = plan.waits.get(&counter).filter(|w| !w.shared);
            let alike = |i: usize| waits.is_some_and(|w| w.of(i) == w.of(last));
            if matches!(plan.form(counter), Form::Sense { .. }) {
                // A wait that this notify does not follow might not have passed.
                if let Some(at) = self.waited[counter as usize].filter(|at| !has(&row, *at)) {
                    races.push(at);
                    self.follow(&mut row, at);
                }
            }
            for (i, (thread, _, note)) in told[..last].iter().enumerate().rev() {
                let at = self.at[*note as usize];
                if *thread != ev.thread && !alike(i) && !has(&row, at) {
                    races.push(at);
                    self.follow(&mut row, at);
                }
            }
        }
        let silent = self.frames[d].silent;
        for touch in &ev.touches {
            let mut clean = true;
            let list = &self.seen[touch.place as usize];
            for seen in list.iter().rev() {
                if !touch.overlaps(&seen.touch) || !(touch.write || seen.touch.write) {
                    continue;
                }
                if has(&row, seen.at) {
                    let whole = seen.touch.start <= touch.start
                        && touch.start + touch.len <= seen.touch.start + seen.touch.len;
                    if clean && whole && seen.touch.write {
                        // Everything that came before that write comes before this one.
                        break;
                    }
                    continue;
                }
                if self.commute(m, event, touch, silent, seen) {
                    clean = false;
                    continue;
                }
                races.push(seen.at);
                self.follow(&mut row, seen.at);
            }
        }
        for at in races {
            self.reverse(at, d, &row);
        }
        self.past.extend_from_slice(&row);
    }

    fn row(&self, at: usize) -> &[u64] {
        &self.past[at * self.words..(at + 1) * self.words]
    }

    /// Records that an event follows the event at a position, and everything that that event
    /// follows.
    fn follow(&self, row: &mut [u64], at: u32) {
        if at == u32::MAX {
            return;
        }
        row[at as usize / 64] |= 1 << (at % 64);
        let from = self.row(at as usize);
        row.iter_mut().zip(from).for_each(|(a, b)| *a |= b);
    }

    /// Whether two accesses, of which one is a write, give the same result in both orders.
    fn commute(&self, m: &Machine<'_, '_>, event: u32, touch: &Touch, silent: bool, seen: &Seen) -> bool {
        let plan = self.plan;
        let other = self.frames[seen.at as usize].event;
        // One of them writes the value that is there already, and the other reads.
        if (touch.write && silent && !seen.touch.write) || (seen.touch.write && seen.silent && !touch.write) {
            return true;
        }
        let (a, b) = (&plan.events[event as usize], &plan.events[other as usize]);
        let lands = |e: &super::plan::Event<'_>, t: &Touch, forgets: &Touch| {
            // Elements written for a call that begins later survive the beginning of that call.
            !matches!(e.what, Action::CallOver) && t.write && forgets.forgets.is_some_and(|c| e.call >= c)
        };
        if lands(a, touch, &seen.touch) || lands(b, &seen.touch, touch) {
            return true;
        }
        // One stream writes the same elements twice.
        let (Action::Land { flight: x, combiner: None }, Action::Land { flight: y, combiner: None }) =
            (&a.what, &b.what)
        else {
            return false;
        };
        a.thread == b.thread
            && a.release == b.release
            && (touch.start, touch.len) == (seen.touch.start, seen.touch.len)
            && m.under_way[*x as usize] == m.under_way[*y as usize]
    }

    /// Schedules a run with the event at a position and that of the last frame in the other order.
    fn reverse(&mut self, i: u32, d: usize, row: &[u64]) {
        let event = self.frames[d].event;
        let i = i as usize;
        // The event comes first among those after position i that do not follow it: the last event
        // itself, or an event in between.
        let leads = |past: &[u64]| !any_from(past, i);
        let frame = &self.frames[i];
        let before = |e: u32| -> bool {
            if e == event {
                let own = |j: usize| has(row, j as u32) && !has(self.row(j), i as u32);
                return !(i + 1..d).any(own);
            }
            let at = self.at[e as usize];
            if at == u32::MAX || at as usize <= i || at as usize >= d {
                return false;
            }
            leads(self.row(at as usize))
        };
        if frame.backtrack.iter().any(|b| before(*b)) {
            return;
        }
        let mut first = event;
        for j in i + 1..d {
            if !has(self.row(j), i as u32) {
                first = self.frames[j].event;
                break;
            }
        }
        let frame = &mut self.frames[i];
        if !frame.backtrack.contains(&first) {
            frame.backtrack.push(first);
        }
    }

    /// Whether the order of two events that may both happen matters.
    fn dependent(&self, a: u32, b: u32) -> bool {
        let (x, y) = (&self.plan.events[a as usize], &self.plan.events[b as usize]);
        if let (Action::Note { counter: c, .. }, Action::Note { counter: d, .. }) = (&x.what, &y.what) {
            return c == d && x.thread != y.thread;
        }
        if let (Action::Note { counter: c, .. }, Action::Wait { counter: d, .. })
        | (Action::Wait { counter: d, .. }, Action::Note { counter: c, .. }) = (&x.what, &y.what)
        {
            return c == d && matches!(self.plan.form(*c), Form::Sense { .. });
        }
        x.touches.iter().any(|t| y.touches.iter().any(|u| (t.write || u.write) && t.overlaps(u)))
    }
}

fn has(row: &[u64], at: u32) -> bool {
    row[at as usize / 64] & (1 << (at % 64)) != 0
}

/// Whether a row contains a position from `i` on.
fn any_from(row: &[u64], i: usize) -> bool {
    let (word, bit) = (i / 64, i % 64);
    row[word] >> bit != 0 || row[word + 1..].iter().any(|w| *w != 0)
}
