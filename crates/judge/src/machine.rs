//! State of a run, and the effect of one event on it.
//!
//! The module owns memory, counters and the knowledge that streams have of each other's writes. It
//! does not choose which event comes next; it determines which events may happen.

use super::memory::{RankMemory, Writer};
use super::plan::{Action, Event, NONE, Plan};
use kbc_ir::form::Form;
use kbc_numerics::numbers::combine;
use kbc_numerics::tensor::Data;
use std::rc::Rc;

/// A description of what went wrong.
#[derive(Clone, Debug)]
pub(super) struct Wrong(pub(super) String);

/// For each stream of each rank, the last of its releases whose writes are known to have landed.
type Clock = Rc<Vec<u32>>;

fn join(a: &mut Clock, b: &Clock) {
    if a.iter().zip(b.iter()).any(|(x, y)| y > x) {
        let a = Rc::make_mut(a);
        a.iter_mut().zip(b.iter()).for_each(|(x, y)| *x = (*x).max(*y));
    }
}

fn learn(a: &mut Clock, thread: u32, release: u32) {
    if a[thread as usize] < release {
        Rc::make_mut(a)[thread as usize] = release;
    }
}

/// An event that may happen, and when it became possible.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enabled {
    pub(super) event: u32,
    pub(super) born: u32,
}

/// One run.
pub(super) struct Machine<'a, 'p> {
    plan: &'a Plan<'p>,
    /// For each event, the number of its predecessors that have not happened.
    left: Vec<u32>,
    pub(super) enabled: Vec<Enabled>,
    /// Waits whose counter is too low, by counter.
    waiting: Vec<Vec<u32>>,
    /// The notifies that landed, in order, by counter: stream, release, event.
    pub(super) told: Vec<Vec<(u32, u32, u32)>>,
    /// Number of notifies that the waits for a counter have spent, by counter.
    pub(super) spent: Vec<u64>,
    /// Number of notifies that were spent before the last wait.
    pub(super) before: u64,
    heard: Vec<Clock>,
    acquired: Vec<Clock>,
    /// The knowledge of a stream after an acquire or at a record, by event.
    known: Vec<Option<Clock>>,
    nothing: Clock,
    places: Vec<RankMemory>,
    /// Data in transit, by flight.
    pub(super) under_way: Vec<Option<Data>>,
    host_call: Vec<i64>,
    /// Whether the last write changed nothing.
    pub(super) silent: bool,
    pub(super) happened: u32,
}

impl<'a, 'p> Machine<'a, 'p> {
    /// Creates the state at the beginning of the first call.
    pub(super) fn new(plan: &'a Plan<'p>) -> Machine<'a, 'p> {
        let nothing: Clock = Rc::new(vec![0; plan.threads as usize]);
        let counters = (plan.ranks * plan.counters) as usize;
        let n = plan.events.len();
        let mut m = Machine {
            plan,
            left: (0..n).map(|e| plan.preds(e as u32).len() as u32).collect(),
            enabled: vec![],
            waiting: vec![vec![]; counters],
            told: vec![vec![]; counters],
            spent: vec![0; counters],
            before: 0,
            heard: vec![nothing.clone(); plan.threads as usize],
            acquired: vec![nothing.clone(); plan.threads as usize],
            known: vec![None; n],
            nothing,
            places: plan
                .places
                .iter()
                .map(|p| RankMemory::new(p.rank, p.data.clone(), p.remote_readers))
                .collect(),
            under_way: vec![None; plan.flights as usize],
            host_call: vec![0; plan.ranks as usize],
            silent: false,
            happened: 0,
        };
        for rank in 0..plan.ranks {
            m.begin(rank, 0);
        }
        for e in 0..n as u32 {
            if m.left[e as usize] == 0 {
                m.arm(e);
            }
        }
        m
    }

    /// Handles an event whose predecessors have all happened.
    fn arm(&mut self, e: u32) {
        if let Action::Wait { counter, .. } = self.plan.events[e as usize].what
            && !self.passes(e)
        {
            self.waiting[counter as usize].push(e);
            return;
        }
        self.enabled.push(Enabled { event: e, born: self.happened });
    }

    /// Whether the condition of a wait holds.
    fn passes(&self, e: u32) -> bool {
        let Action::Wait { counter, value } = self.plan.events[e as usize].what else { return true };
        let landed = self.told[counter as usize].len() as u64;
        self.plan.form(counter).passes(landed, self.spent[counter as usize], value)
    }

    /// Handles a change of a counter: waits for it may pass now, and waits of some forms may no
    /// longer pass.
    fn changed(&mut self, counter: u32) {
        let list = std::mem::take(&mut self.waiting[counter as usize]);
        let (pass, mut wait): (Vec<u32>, Vec<u32>) = list.into_iter().partition(|w| self.passes(*w));
        if self.plan.form(counter) != Form::Epoch {
            let of = |x: &Enabled| matches!(self.plan.events[x.event as usize].what, Action::Wait { counter: c, .. } if c == counter);
            let back: Vec<u32> =
                self.enabled.iter().filter(|x| of(x) && !self.passes(x.event)).map(|x| x.event).collect();
            back.iter().for_each(|e| self.take(*e));
            wait.extend(back);
        }
        let born = self.happened;
        self.enabled.extend(pass.into_iter().map(|event| Enabled { event, born }));
        self.waiting[counter as usize] = wait;
    }

    /// Removes an event from those that may happen.
    fn take(&mut self, e: u32) {
        if let Some(i) = self.enabled.iter().position(|x| x.event == e) {
            self.enabled.remove(i);
        }
    }

    /// Makes an event happen. If it may see several values, `pick` chooses one of that many.
    pub(super) fn step(&mut self, e: u32, pick: &mut dyn FnMut(usize) -> usize) -> Result<(), Wrong> {
        self.take(e);
        self.happened += 1;
        self.silent = false;
        let plan = self.plan;
        let ev = &plan.events[e as usize];
        let t = ev.thread as usize;
        match &ev.what {
            Action::Wait { counter, value } => {
                let (told, heard) = (&self.told[*counter as usize], &mut self.heard[t]);
                let (form, spent) = (plan.form(*counter), &mut self.spent[*counter as usize]);
                let (landed, before) = (told.len() as u64, *spent);
                let upto = form.spends(landed, before, *value);
                self.before = before;
                let about = told.iter().take(upto as usize).skip(before as usize);
                about.for_each(|(by, release, _)| learn(heard, *by, *release));
                if form != Form::Epoch {
                    *spent = upto;
                    self.changed(*counter);
                }
            }
            Action::Acquire => self.acquire(e, ev),
            Action::Release | Action::Pass => {}
            Action::Send { flight } => {
                let touch = &ev.touches[0];
                let mut list = self.look(ev, touch.place, touch.start, touch.len);
                let choice = if list.len() > 1 { pick(list.len()) } else { 0 };
                self.under_way[*flight as usize] = Some(list.swap_remove(choice));
            }
            Action::Recv { flight } => {
                let len = ev.touches[0].len as usize;
                let data = self.under_way.get(*flight as usize).cloned().flatten();
                let data = data.filter(|d| d.len() == len);
                let data = data.ok_or_else(|| {
                    Wrong(format!("{len} elements are received from a message of another size"))
                })?;
                self.write(ev, &data);
            }
            Action::Record => {
                let mut k = self.heard[t].clone();
                join(&mut k, &self.acquired[t]);
                self.known[e as usize] = Some(k);
            }
            Action::Await(of) => {
                if let Some(Some(k)) = self.known.get(*of as usize) {
                    let k = k.clone();
                    join(&mut self.heard[t], &k);
                }
            }
            Action::Exec(effect) => {
                let lists: Vec<Vec<Data>> = ev.touches[..effect.reads.len()]
                    .iter()
                    .map(|touch| self.look(ev, touch.place, touch.start, touch.len))
                    .collect();
                let all: usize = lists.iter().map(Vec::len).product();
                let mut choice = if all > 1 { pick(all) } else { 0 };
                let mut chosen = vec![];
                for mut list in lists {
                    let n = list.len();
                    chosen.push(list.swap_remove(choice % n));
                    choice /= n;
                }
                let out = effect.compute(chosen).map_err(|d| Wrong(d.title))?;
                self.write(ev, &out);
            }
            Action::Read { flight } => {
                let touch = &ev.touches[0];
                let mut list = self.look(ev, touch.place, touch.start, touch.len);
                let choice = if list.len() > 1 { pick(list.len()) } else { 0 };
                self.under_way[*flight as usize] = Some(list.swap_remove(choice));
            }
            Action::Land { flight, combiner } => {
                if let Some(data) = self.under_way[*flight as usize].clone() {
                    let data = match combiner {
                        None => data,
                        Some(op) => {
                            let touch = &ev.touches[0];
                            let mut list = self.look(ev, touch.place, touch.start, touch.len);
                            let choice = if list.len() > 1 { pick(list.len()) } else { 0 };
                            let mut sum = list.swap_remove(choice);
                            combine(*op, &mut sum, &data).map_err(|r| Wrong(r.text))?;
                            sum
                        }
                    };
                    self.write(ev, &data);
                }
            }
            Action::Note { counter, release } => {
                let told = &mut self.told[*counter as usize];
                told.push((ev.thread, *release, e));
                self.changed(*counter);
            }
            Action::HostRead { nth } => {
                let want = plan.reads[ev.call as usize][ev.rank as usize].get(*nth);
                let want = want.ok_or_else(|| {
                    Wrong("the host reads a buffer that it did not read in an earlier call".into())
                })?;
                self.compare(ev, want.place, &want.data)?;
            }
            Action::CallOver => {
                for want in &plan.results[ev.call as usize][ev.rank as usize] {
                    self.compare(ev, want.place, &want.data)?;
                }
                let next = ev.call + 1;
                self.host_call[ev.rank as usize] = next;
                if (next as usize) < plan.fills.len() {
                    self.begin(ev.rank, next);
                }
            }
        }
        for s in plan.succs(e) {
            self.left[*s as usize] -= 1;
            if self.left[*s as usize] == 0 {
                self.arm(*s);
            }
        }
        Ok(())
    }

    fn begin(&mut self, rank: u32, call: i64) {
        let plan = self.plan;
        let writer = Writer { rank, thread: rank * plan.streams, release: NONE };
        for fill in &plan.fills[call as usize][rank as usize] {
            let place = &mut self.places[fill.place as usize];
            match &fill.data {
                Some(data) => place.write(0, data, writer),
                None => place.begin_call(call),
            }
        }
    }

    fn acquire(&mut self, e: u32, ev: &Event<'_>) {
        let t = ev.thread as usize;
        let heard = std::mem::replace(&mut self.heard[t], self.nothing.clone());
        join(&mut self.acquired[t], &heard);
        self.known[e as usize] = Some(self.acquired[t].clone());
    }

    /// Returns all values of some elements that an event may see.
    fn look(&self, ev: &Event<'_>, place: u32, start: u32, len: u32) -> Vec<Data> {
        let k = self.known.get(ev.knows as usize).and_then(Option::as_ref).unwrap_or(&self.nothing);
        let fresh = |w: &Writer| w.rank == ev.rank || k[w.thread as usize] >= w.release;
        self.places[place as usize].variants(start, len, fresh)
    }

    fn write(&mut self, ev: &Event<'_>, data: &Data) {
        let Some(touch) = ev.touches.last() else { return };
        let info = &self.plan.places[touch.place as usize];
        let place = &mut self.places[touch.place as usize];
        // A peer, or another stream of the rank, is in a call that the rank's host has not begun.
        if info.buffer && ev.call > self.host_call[info.rank as usize] {
            place.write_for_later_call(touch.start, touch.len, ev.call);
        }
        self.silent = place.holds(touch.start, data);
        place.write(touch.start, data, Writer { rank: ev.rank, thread: ev.thread, release: ev.release });
    }

    fn compare(&self, ev: &Event<'_>, place: u32, want: &Data) -> Result<(), Wrong> {
        for got in self.look(ev, place, 0, want.len() as u32) {
            if let Some(i) = want.first_difference(&got) {
                return Err(Wrong(format!(
                    "element {i} of a result of rank {} is wrong in call {}",
                    ev.rank, ev.call
                )));
            }
        }
        Ok(())
    }

    /// Whether every event has happened.
    pub(super) fn over(&self) -> bool {
        self.happened as usize == self.plan.events.len()
    }

    /// Describes what is stuck when no event may happen.
    pub(super) fn stuck(&self) -> Wrong {
        let e = self.left.iter().position(|n| *n > 0).map(|e| &self.plan.events[e]);
        let waits = self.waiting.iter().flatten().min().map(|e| &self.plan.events[*e as usize]);
        match waits.or(e) {
            Some(ev) => Wrong(format!("rank {} waits without end in call {}", ev.rank, ev.call)),
            None => Wrong("the run does not end".into()),
        }
    }
}
