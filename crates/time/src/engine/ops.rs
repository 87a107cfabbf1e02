//! Threads: they perform one operation after another until one of them takes time or waits.

use super::Engine;
use super::messages::OutgoingMessage;
use crate::MessageKind;
use crate::agenda::NONE;
use crate::state::{Carrier, Doing, HeldOp};
use kbc_ir::walk::{Brief, Fault, TimedOp};

impl<'p> Engine<'_, 'p, '_> {
    /// Notes that a thread finds a counter high enough.
    pub(super) fn passes(&mut self, thread: u32, counter: usize) {
        if let (Some(ties), Some(orbits)) = (&mut self.state.ties, &self.setup.orbits) {
            ties.passes(orbits, thread, counter);
        }
    }

    /// Notes that a thread finds an event recorded.
    pub(super) fn awaited(&mut self, thread: u32, event: usize) {
        if let (Some(ties), Some(orbits)) = (&mut self.state.ties, &self.setup.orbits) {
            ties.awaited(orbits, thread, event);
        }
    }

    /// Wakes a blocked thread. The cause has already been reported to the observer.
    pub(super) fn wake(&mut self, thread: u32) {
        if self.detail {
            self.report_woken(thread);
        }
        self.go(thread);
    }

    pub(super) fn go(&mut self, thread: u32) {
        self.state.threads[thread as usize].doing = Doing::Busy;
        self.ready.push(thread);
    }

    /// Lets a thread do everything that it can do now.
    pub(super) fn advance(&mut self, thread: u32) -> Result<(), Fault> {
        let setup = self.setup;
        let regions = setup.program.schedule.regions.len();
        let mut next = (Brief::Over, 0);
        if let Some(held) = self.state.held.remove(&thread) {
            let done = match held.act {
                TimedOp::FenceComplete | TimedOp::GetCombine { .. } => {
                    self.state.walks.set_moved(held.moved);
                    self.act(thread, &held.act, held.op)?
                }
                _ => self.resume(thread, held),
            };
            if !done {
                return Ok(());
            }
        }
        loop {
            let s = &mut self.state;
            s.walks.next(&setup.outline, thread as usize, &mut next).map_err(|f| *f)?;
            if self.detail {
                self.report_step(thread, &next);
            }
            let s = &mut self.state;
            match next.0 {
                Brief::Enter(r) | Brief::Leave(r) => {
                    let (now, call) = (s.now, s.threads[thread as usize].call);
                    s.crosses(call.into(), r.0 as usize, regions, now, matches!(next.0, Brief::Enter(_)));
                }
                Brief::Over => {
                    if self.over(thread) {
                        return Ok(());
                    }
                }
                Brief::Op(ref op) => {
                    if !self.act(thread, op, next.1)? {
                        if self.detail {
                            self.report_held(thread);
                        }
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Ends a call of a thread. Returns whether it was the last one.
    pub(super) fn over(&mut self, thread: u32) -> bool {
        let s = &mut self.state;
        let (now, place) = (s.now, self.setup.place(thread) as usize);
        let t = &mut s.threads[thread as usize];
        let call = t.call as usize;
        t.call += 1;
        let over = t.call == self.setup.calls;
        if over {
            t.doing = Doing::Done;
            let account = &mut s.accounts[place];
            if now > account.finish {
                (account.finish, account.last) = (now, t.last);
            }
            if let (Some(ties), Some(orbits)) = (&mut s.ties, &self.setup.orbits) {
                ties.finishes(orbits, place, Some(thread));
            }
            s.live -= 1;
        } else {
            s.walks.restart(&self.setup.outline, thread as usize, t.call.into());
        }
        s.called(call, now);
        over
    }

    /// Performs an operation of a thread. Returns whether the thread can continue at once.
    #[inline]
    pub(super) fn act(&mut self, thread: u32, act: &TimedOp<'p>, op: u32) -> Result<bool, Fault> {
        let setup = self.setup;
        let s = &mut self.state;
        let t = &mut s.threads[thread as usize];
        match *act {
            TimedOp::FenceRelease | TimedOp::FenceAcquire => return Ok(self.fence(thread, op)),
            TimedOp::FenceComplete => {
                self.begins(thread, act);
                let t = &mut self.state.threads[thread as usize];
                if t.gets > 0 {
                    t.doing = Doing::Gets(op);
                    return Ok(false);
                }
                return Ok(self.combined(thread, act, op)? && self.fence(thread, op));
            }
            TimedOp::Mark(()) => return Ok(true),
            _ => {} // The match below has every operation.
        }
        let carrier = t.carrier.take();
        self.begins(thread, act);
        let s = &mut self.state;
        let t = &mut s.threads[thread as usize];
        match *act {
            TimedOp::Put { peer, src: bytes, dst: () } => {
                let spots = self.spots(thread, false, peer);
                let letter =
                    OutgoingMessage { kind: MessageKind::Put, peer, bytes, reply: 0, counter: NONE, spots };
                let (message, sequence) = self.post(thread, op, letter);
                self.put_in_network(thread, op, (message, peer));
                let (sequence, peer) = (sequence as u32, peer as u32);
                self.state.threads[thread as usize].carrier = Some(Carrier { message, sequence, peer });
                return Ok(!self.holds_core(thread, op, peer.into(), bytes));
            }
            TimedOp::Get { peer, dst: bytes, src: () } => {
                return Ok(self.fetch(thread, op, (peer, bytes), None));
            }
            TimedOp::GetCombine { op: combiner, peer, dst: bytes, src: () } => {
                if !self.contributes(thread, combiner) {
                    if self.state.threads[thread as usize].gets > 0 {
                        let moved = self.state.walks.moved();
                        self.state.threads[thread as usize].doing = Doing::Gets(op);
                        self.state.held.insert(thread, HeldOp { act: *act, op, since: None, moved });
                        return Ok(false);
                    }
                    if !self.combined(thread, act, op)? {
                        return Ok(false);
                    }
                }
                return Ok(self.fetch(thread, op, (peer, bytes), Some(combiner)));
            }
            TimedOp::Send { .. } | TimedOp::Recv { .. } | TimedOp::Room { .. } => {
                let since = Some(s.now);
                return Ok(self.queue(thread, HeldOp { act: *act, op, since, moved: None }));
            }
            TimedOp::Notify { peer, counter } => self.notify(thread, op, peer, counter, carrier),
            TimedOp::Wait { counter, value } => {
                let number = setup.counter(setup.place(thread), counter);
                if !s.spend(setup.program, counter, number, value) {
                    s.threads[thread as usize].doing = Doing::Counter(counter, value);
                    return Ok(false);
                }
                self.passes(thread, number);
            }
            TimedOp::Record(event) => {
                let (call, last) = (t.call, t.last);
                let place = setup.place(thread);
                let number = setup.event(place, event);
                s.recorded[number] = i64::from(call) + 1;
                if let Some(ties) = &mut s.ties {
                    ties.recorded(thread, number);
                }
                for other in setup.threads(place) {
                    let o = &mut self.state.threads[other as usize];
                    if o.doing == Doing::Event(event) && o.call <= call {
                        o.last = last;
                        self.wake(other);
                        self.awaited(other, number);
                    }
                }
            }
            TimedOp::Await(event) => {
                let number = setup.event(setup.place(thread), event);
                if s.recorded[number] <= t.call.into() {
                    t.doing = Doing::Event(event);
                    return Ok(false);
                }
                self.awaited(thread, number);
            }
            TimedOp::Copy { .. } | TimedOp::Reduce { .. } | TimedOp::Local(_) => {
                return self.work(thread, act, op);
            }
            TimedOp::HostRead(buffer) => {
                let (rank, now) = (setup.rank(thread), s.now);
                if let Some(o) = &mut self.observer {
                    o.host_read(rank, buffer, now.ns());
                }
            }
            // These were performed above, since they keep the put before them.
            TimedOp::FenceRelease | TimedOp::FenceAcquire | TimedOp::FenceComplete | TimedOp::Mark(()) => {}
            TimedOp::Host(host) => match host {},
        }
        Ok(true)
    }
}
