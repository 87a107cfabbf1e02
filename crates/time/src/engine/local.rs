//! Operations of a stream on its own device: local work, which requests units, and fences.
//!
//! This module owns their begin and end. [`crate::local`] has how long they take.

use super::Engine;
use crate::agenda::{Item, NONE};
use crate::clock::Time;
use crate::local::Demand;
use crate::log::{FENCE, Record};
use crate::state::Doing;
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
        let (times, course) = match s.demand(self.setup, self.setup.rank(thread), act, op)? {
            Demand::Never => {
                self.takes_no_time(thread);
                return Ok(true);
            }
            Demand::Nothing => return Ok(true),
            Demand::Units(times, course) => (times, course),
        };
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
        let done = s.perform(place, s.now, &times, &course);
        let mut last = s.threads[thread as usize].last;
        for (what, start, end) in done.steps() {
            last = self.record(last, Record { start, end, back: 0, thread, op, what });
        }
        self.state.threads[thread as usize].last = last;
        self.later(done.end, thread);
        if self.observer.is_some() {
            self.report_work(thread, (done.start, done.end, done.unit), behind);
        }
    }
}
