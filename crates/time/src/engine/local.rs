//! Operations of a stream on its own device: local work, which requests units, and fences.
//!
//! This module owns their begin and end. [`crate::work`] computes how long they take.

use super::Engine;
use crate::agenda::{Item, NONE};
use crate::clock::Time;
use crate::log::{FENCE, FETCH, PRELOAD, Record, WORK};
use crate::state::Doing;
use crate::work::{Job, OpPhases, Unit};
use kbc_ir::walk::{Fault, TimedOp};

impl<'p> Engine<'_, 'p, '_> {
    /// Performs a fence of a thread. Returns whether the thread can continue at once.
    pub(super) fn fence(&mut self, thread: u32, op: u32) -> bool {
        let fence = self.setup.fence;
        self.state.fenced = true;
        if fence == Time::ZERO {
            self.takes_no_time(thread);
            return true;
        }
        let (start, last) = (self.state.now, self.state.threads[thread as usize].last);
        let end = start + fence;
        let record = self.record(last, Record { start, end, back: 0, thread, op, what: FENCE });
        let t = &mut self.state.threads[thread as usize];
        t.doing = Doing::Busy;
        t.last = record;
        self.later(end, thread);
        false
    }

    /// Lets every stream pass over the operation that a thread has just reached: it takes no time,
    /// and what the report says of it is known. An observer wants to see it nevertheless.
    fn takes_no_time(&mut self, thread: u32) {
        if !self.detail {
            self.state.walks.pass_over(&self.setup.outline, thread as usize);
        }
    }

    /// Requests the units of a local operation. Returns true if it takes no time.
    pub(super) fn work(&mut self, thread: u32, act: &TimedOp<'p>, op: u32) -> Result<bool, Fault> {
        let s = &mut self.state;
        let free = s.units.is_empty();
        if free && s.seen[op as usize] {
            self.takes_no_time(thread);
            return Ok(true);
        }
        let rank = self.setup.rank(thread);
        let job = Job::of(self.setup.program, act, rank)?;
        for (needed, amount) in s.needed.iter_mut().zip(job.all) {
            *needed |= amount > 0;
        }
        s.seen[op as usize] |= job.all != [0; 3];
        let mut times = s.rates.times(rank, &job.all);
        let shared = match (act, &self.setup.inside) {
            (TimedOp::Local(local), Some(inside)) => {
                Some(inside.profile(self.setup.program, local, (op, rank))?)
            }
            _ => None,
        };
        let course = match (act, &job.tiles) {
            (TimedOp::Copy { .. } | TimedOp::Reduce { .. }, _) if !free => {
                OpPhases { least: s.rates.of_core(rank, job.all[1]), ..OpPhases::NONE }
            }
            (_, Some(work)) if !free => s.rates.of_tiles(rank, work),
            _ => OpPhases::NONE,
        };
        let course = match &shared {
            Some(profile) => profile.course(&mut s.rates, rank, &mut times, course),
            None => course,
        };
        if free || times == [Time::ZERO; 3] && course.is_none() {
            return Ok(true);
        }
        s.asked[thread as usize] = (op, times, course);
        let t = &mut s.threads[thread as usize];
        let sequence = t.sequence;
        t.sequence += 1;
        s.requests.push(Item::new(thread, sequence, NONE));
        Ok(false)
    }

    /// Grants the units that a thread requested.
    pub(super) fn grant_units(&mut self, thread: u32) {
        let s = &mut self.state;
        let (op, times, course) = s.asked[thread as usize];
        let place = self.setup.place(thread) as usize;
        let behind = if self.detail { s.units[place].behind(s.now, &times) } else { None };
        let moves = course.fetched > Time::ZERO || course.sent > Time::ZERO;
        let now = s.units[place].network(s.now, moves);
        let (start, mut end, mut unit) = s.units[place].work(now, &times);
        let worked = &mut s.worked[place];
        *worked = *worked + end.since(start);
        // The units may be free for others before the operation ends.
        let fetched = start + course.fetched;
        let preloaded = fetched + course.preloaded;
        if course.shared || preloaded + course.least > end {
            (end, unit) = (preloaded + course.least, course.unit);
        }
        let sent = end + course.sent;
        if moves {
            s.units[place].moves_until(sent);
        }
        let mut last = s.threads[thread as usize].last;
        if course.fetched > Time::ZERO {
            last = self.record(last, Record { start, end: fetched, back: 0, thread, op, what: FETCH });
        }
        if course.preloaded > Time::ZERO {
            let record = Record { start: fetched, end: preloaded, back: 0, thread, op, what: PRELOAD };
            last = self.record(last, record);
        }
        let what = WORK - Unit::ALL.iter().position(|u| *u == unit).unwrap_or(0) as u32;
        let mut record = self.record(last, Record { start: preloaded, end, back: 0, thread, op, what });
        if course.sent > Time::ZERO {
            record = self.record(record, Record { start: end, end: sent, back: 0, thread, op, what: FETCH });
        }
        let end = sent;
        self.state.threads[thread as usize].last = record;
        self.later(end, thread);
        if self.observer.is_some() {
            self.report_work(thread, (start, end, unit), behind);
        }
    }
}
