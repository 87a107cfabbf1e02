//! Tests that the events seen by an observer of a simulation agree with its report, and that an
//! observer gets no details it did not ask for.

use crate::time_kit;

use kbc_time::*;
use std::collections::BTreeMap;
use time_kit::{direct, doubling, machine, parse, ring, time};

/// An observer that keeps the detailed events.
#[derive(Default)]
struct EventRecord {
    wants: bool,
    turns: Vec<StepReached>,
    held: Vec<OpHeld>,
    sent: Vec<Sent>,
    passes: Vec<Pass>,
    woken: Vec<Woken>,
    delivered: Vec<Delivery>,
    works: Vec<Work>,
    /// Times of the events in the order in which they came.
    moments: Vec<f64>,
}

impl Observer for EventRecord {
    fn detail(&self) -> bool {
        self.wants
    }
    fn turn(&mut self, t: &StepReached) {
        self.moments.push(t.at_ns);
        self.turns.push(*t);
    }
    fn holds(&mut self, h: &OpHeld) {
        self.moments.push(h.at_ns);
        self.held.push(*h);
    }
    fn sent(&mut self, m: &Sent) {
        self.moments.push(m.at_ns);
        self.sent.push(*m);
    }
    fn passes(&mut self, p: &Pass) {
        self.moments.push(p.asked_ns);
        self.passes.push(*p);
    }
    fn woken(&mut self, w: &Woken) {
        self.moments.push(w.at_ns);
        self.woken.push(*w);
    }
    fn delivered(&mut self, m: &Delivery) {
        self.moments.push(m.delivered_ns);
        self.delivered.push(*m);
    }
    fn works(&mut self, w: &Work) {
        self.moments.push(w.asked_ns);
        self.works.push(*w);
    }
}

fn watch(source: &str, machine_text: &str, wants: bool) -> (Timing, EventRecord) {
    let (schedule, topo) = (parse(source), machine(machine_text));
    let mut told = EventRecord { wants, ..EventRecord::default() };
    let options = TimeOptions { calls: 2, ..TimeOptions::default() };
    let timing =
        simulate_observed(&schedule, &topo, &options, &mut told).unwrap_or_else(|d| panic!("{d:#?}"));
    (timing, told)
}

const MACHINE: &str = "{ link: 3 GB/s, 70 ns; fence: 11 ns; device: 1 TFLOP/s, 2 GB/s; vector: 7 GB/s }";

fn cases() -> Vec<(String, String)> {
    let chunk = "[(r + k) % 5 of 5]";
    vec![
        (ring(6, 600), format!("ring(6) {MACHINE}")),
        (direct(5, 500, chunk, "combine sum v[r of 5], @w[k - 1]"), format!("mesh(5) {MACHINE}")),
        (doubling(8, 640), format!("torus(2, 4) {MACHINE}")),
    ]
}

#[test]
fn times_go_on_and_sums_are_those_of_the_report() {
    for (source, machine) in cases() {
        let (timing, told) = watch(&source, &machine, true);
        assert!(told.moments.windows(2).all(|w| w[0] <= w[1]), "told in the order of time: {machine}");
        // Links: messages, bytes, and waits and use, equal except for the last bit.
        let mut sums: BTreeMap<_, (u64, u64, f64, f64, f64)> = BTreeMap::new();
        for p in &told.passes {
            let s = sums.entry(p.link).or_default();
            assert!(p.asked_ns <= p.start_ns && p.start_ns <= p.free_ns && s.4 <= p.start_ns, "{p:?}");
            *s = (
                s.0 + 1,
                s.1 + p.bytes,
                s.2 + p.free_ns - p.start_ns,
                s.3 + p.start_ns - p.asked_ns,
                p.free_ns,
            );
        }
        assert_eq!(sums.len(), timing.links.len());
        for l in &timing.links {
            let s = sums[&l.link];
            assert_eq!((s.0, s.1), (l.messages, l.bytes));
            assert!((s.2 - l.busy_ns).abs() < 1e-6 && (s.3 - l.queue_ns).abs() < 1e-6, "{l:?} {s:?}");
        }
        assert!(timing.links.iter().any(|l| l.queue_ns > 0.0) || machine.starts_with("ring"));
        // Messages: all that leave arrive, and the arrival repeats the time of sending.
        assert_eq!(told.sent.len() as u64, timing.messages);
        let left: BTreeMap<_, _> = told.sent.iter().map(|m| (m.id, m)).collect();
        assert_eq!(left.len(), told.sent.len(), "no two have the same name");
        for d in &told.delivered {
            let s = left[&d.id];
            assert_eq!((s.from, s.to, s.bytes, s.at_ns, s.op), (d.from, d.to, d.bytes, d.sent_ns, d.op));
        }
        // Streams: every call begins with a region and ends, and the time between two turns was
        // announced.
        let mut last: BTreeMap<u64, StepReached> = BTreeMap::new();
        for t in &told.turns {
            if let Some(before) = last.insert(t.rank, *t) {
                assert!(before.at_ns <= t.at_ns && before.call <= t.call);
                let held = told.held.iter().any(|h| h.rank == t.rank && h.at_ns == before.at_ns);
                assert!(before.at_ns == t.at_ns || (held && matches!(before.next, Next::Op(_))), "{t:?}");
            }
        }
        assert!(last.values().all(|t| t.next == Next::End && t.call == 1));
        assert_eq!(last.len(), timing.ranks.len());
        // A stream that is woken was blocked before.
        assert!(!told.woken.is_empty());
        for w in &told.woken {
            assert!(told.held.iter().any(|h| h.rank == w.rank && h.at_ns <= w.at_ns));
        }
        for w in &told.works {
            assert_eq!(w.behind.is_some(), w.start_ns > w.asked_ns, "{w:?}");
            let used = Unit::ALL.iter().zip(w.uses).any(|(u, used)| *u == w.unit && used);
            assert!(used && w.asked_ns <= w.start_ns && w.start_ns < w.end_ns);
        }
    }
}

/// Every rank fetches from every other one, and waits for each message.
const FETCH: &str = "kir 1
module @m
mesh tp 5
schedule calls any
buffer %y : f32[500] hbm temp
window @w : f32[1 x 100] hbm at 0
region @c over tp as (r of 5)
  on v = %y line 500
  role all
    stream main
      for k in 1..5
        get v[k of 5] <- ((r + k) % 5) : @w[0]
        fence.complete
        copy v[0 of 5] = v[k of 5]
";

/// The cases, on machines where fences and local work take time and where they take none: there a
/// simulation passes over them, unless an observer wants to see them.
fn timed_and_untimed() -> Vec<(String, String)> {
    let mut all = cases();
    all.push((FETCH.into(), format!("mesh(5) {MACHINE}")));
    let untimed =
        |(source, m): &(String, String)| (source.clone(), m.replace(MACHINE, "{ link: 3 GB/s, 70 ns }"));
    let untimed: Vec<_> = all.iter().map(untimed).collect();
    all.extend(untimed);
    all
}

#[test]
fn watching_changes_nothing_and_is_asked_for() {
    for (source, m) in timed_and_untimed() {
        let (with, told) = watch(&source, &m, true);
        let (without, little) = watch(&source, &m, false);
        assert_eq!(with, without);
        assert_eq!((told.delivered.len(), told.works.len()), (little.delivered.len(), little.works.len()));
        assert!(little.turns.is_empty() && little.held.is_empty() && little.sent.is_empty());
        assert!(little.passes.is_empty() && little.woken.is_empty());
        assert_eq!(time(&parse(&source), &machine(&m)).links.len(), with.links.len());
    }
}
