//! Inboxes: the notifies of one counter in order, as runs of evenly spaced arrivals.

use crate::clock::Time;
use std::collections::VecDeque;

/// No thread.
pub(super) const NOBODY: u32 = u32::MAX;

/// A notify at its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrival {
    pub(super) at: Time,
    /// Number of its message among the requests of the sender.
    pub(super) sequence: u64,
    /// Number of the record of its message in the sender's history.
    pub(super) record: u32,
}

impl Arrival {
    /// Returns the arrival that is `n` steps later.
    pub(super) fn later(&self, by: &Spacing, n: u64) -> Arrival {
        Arrival {
            at: self.at + by.time.times(n),
            sequence: self.sequence + by.sequence * n,
            record: self.record + by.record * n as u32,
        }
    }
}

/// The distance between two arrivals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spacing {
    pub(super) time: Time,
    pub(super) sequence: u64,
    pub(super) record: u32,
}

impl Spacing {
    /// Returns the distance from one arrival to a later one. None if it is not later.
    fn between(a: &Arrival, b: &Arrival) -> Option<Spacing> {
        let later = b.at >= a.at && b.sequence > a.sequence && b.record >= a.record;
        later.then(|| Spacing {
            time: b.at.since(a.at),
            sequence: b.sequence - a.sequence,
            record: b.record - a.record,
        })
    }
}

/// Evenly spaced arrivals.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Arrival,
    count: u64,
    /// Without meaning if there is one arrival.
    spacing: Spacing,
}

/// An arrival that was found, with the run that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundArrival {
    pub(super) arrival: Arrival,
    /// Spacing of its run. None if the arrival is alone.
    pub(super) spacing: Option<Spacing>,
    /// Number of arrivals of the run before it, and after it.
    pub(super) before: u64,
    pub(super) after: u64,
}

/// The arrivals of one counter. They are numbered from 1.
#[derive(Clone, Debug)]
pub(super) struct Inbox {
    /// The thread that sends all of them, and the thread that waits for them. [`NOBODY`] if it is
    /// not known yet.
    pub(super) sender: u32,
    pub(super) reader: u32,
    runs: VecDeque<Run>,
    /// Number of arrivals before the runs.
    dropped: u64,
    /// Number of arrivals so far.
    pub(super) total: u64,
    /// The last arrival that the reader has found or waited for.
    pub(super) passed: u64,
    /// Number of arrivals that waits have used up, for a counter that a wait clears.
    pub(super) spent: u64,
}

impl Inbox {
    /// Bytes of a run, with room for a growing list.
    pub(super) const RUN: usize = 2 * size_of::<Run>();

    pub(super) fn new() -> Inbox {
        Inbox {
            sender: NOBODY,
            reader: NOBODY,
            runs: VecDeque::new(),
            dropped: 0,
            total: 0,
            passed: 0,
            spent: 0,
        }
    }

    /// Number of runs that are kept.
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Adds `count` arrivals. Returns false if they do not come after the earlier ones.
    pub(super) fn push(&mut self, first: Arrival, count: u64, spacing: Spacing) -> bool {
        self.total += count;
        let Some(run) = self.runs.back_mut() else {
            // Most inboxes have one run, and there may be one for each message.
            self.runs.reserve_exact(1);
            self.runs.push_back(Run { first, count, spacing });
            return true;
        };
        let last = run.first.later(&run.spacing, run.count - 1);
        let Some(gap) = Spacing::between(&last, &first) else { return false };
        // One arrival has no spacing yet, so it takes that of what comes behind it.
        let joins = (run.count == 1 || run.spacing == gap) && (count == 1 || spacing == gap);
        if joins {
            run.spacing = gap;
            run.count += count;
        } else {
            self.runs.push_back(Run { first, count, spacing });
        }
        true
    }

    /// Returns an arrival by number, if it is there and has not been dropped.
    pub(super) fn get(&self, number: u64) -> Option<FoundArrival> {
        let mut place = number.checked_sub(self.dropped + 1)?;
        if number > self.total {
            return None;
        }
        for run in &self.runs {
            if place < run.count {
                return Some(FoundArrival {
                    arrival: run.first.later(&run.spacing, place),
                    spacing: (run.count > 1).then_some(run.spacing),
                    before: place,
                    after: run.count - 1 - place,
                });
            }
            place -= run.count;
        }
        None
    }

    /// Notes that the reader has found the arrival with a number, and drops the runs before it.
    pub(super) fn pass(&mut self, number: u64) {
        self.passed = self.passed.max(number);
        while let Some(run) = self.runs.front()
            && self.dropped + run.count < number
        {
            self.dropped += run.count;
            self.runs.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(ns: f64, sequence: u64) -> Arrival {
        Arrival { at: Time::from_ns(ns), sequence, record: sequence as u32 * 2 }
    }

    const ALONE: Spacing = Spacing { time: Time::ZERO, sequence: 0, record: 0 };

    #[test]
    fn arrivals_keep_their_numbers() {
        let mut inbox = Inbox::new();
        // Two early ones, then an even run, then a jump.
        let times: Vec<f64> =
            [1.0, 2.5].into_iter().chain((0..40).map(|i| 10.0 + 3.0 * f64::from(i))).chain([500.0]).collect();
        for (i, ns) in times.iter().enumerate() {
            assert!(inbox.push(arrival(*ns, i as u64), 1, ALONE));
        }
        assert_eq!(inbox.runs(), 3);
        for (i, ns) in times.iter().enumerate() {
            assert_eq!(inbox.get(i as u64 + 1).unwrap().arrival, arrival(*ns, i as u64));
        }
        assert!(inbox.get(0).is_none() && inbox.get(44).is_none());
        let found = inbox.get(5).unwrap();
        assert_eq!((found.before, found.after), (2, 37));
        inbox.pass(5);
        assert_eq!(inbox.get(5).unwrap().arrival, arrival(16.0, 4));
        assert!(inbox.get(2).is_none() && inbox.runs() == 2);
        // An arrival that overtakes is refused.
        assert!(!inbox.push(arrival(499.0, 50), 1, ALONE));
    }

    #[test]
    fn a_run_continues_a_run() {
        let mut inbox = Inbox::new();
        let spacing = Spacing { time: Time::from_ns(2.0), sequence: 1, record: 2 };
        assert!(inbox.push(arrival(0.0, 0), 1, ALONE));
        assert!(inbox.push(arrival(2.0, 1), 5, spacing));
        assert!(inbox.push(arrival(12.0, 6), 1, ALONE));
        assert_eq!((inbox.runs(), inbox.total), (1, 7));
        assert!(inbox.push(arrival(15.0, 7), 2, spacing));
        assert_eq!(inbox.runs(), 2);
        assert_eq!(inbox.get(9).unwrap().arrival, arrival(17.0, 8));
    }
}
