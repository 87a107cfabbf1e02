//! Queues in time (docs/explanation/time.md, "Queues").
//!
//! For each queue, a rank has four tallies among its counters: messages arrived, slots credited,
//! messages sent, and messages received. A sender continues while it has sent fewer messages than
//! the number of slots plus credits. A message uses links like a put. The rest depends on the
//! machine:
//!
//! * On a machine with the setting `queue`, every rank has an inlet, which takes in one message
//!   after another (drain, write to a slot), whether or not a stream waits for it. The receiver
//!   pays for the read of the slot, and a credit uses no link.
//! * On any other machine a credit is a notify of its own, and slots are free.
//!
//! This module owns these rules. The names of the steps on the critical path are in
//! [`super::report::Cause`].

use super::MessageKind;
use super::agenda::Item;
use super::clock::Time;
use super::engine::{Engine, OutgoingMessage};
use super::log::{CREDIT, DRAIN, POLL, Record, SLOT_READ, SLOT_WRITE};
use super::state::{Doing, Extra, HeldQueueOp, Message, NONE};
use kbc_ir::walk::TimedOp;
use kbc_machine::topology::queue::{Access, Backpressure, Queues};

/// A tally of a queue at one of its two ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tally {
    /// Messages that have arrived.
    Arrived,
    /// Slots that have been given back.
    Credited,
    /// Messages that have been sent.
    Sent,
    /// Messages that have been received.
    Received,
}

impl Tally {
    const ALL: [Tally; 4] = [Tally::Arrived, Tally::Credited, Tally::Sent, Tally::Received];
}

/// The times of a machine's queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    access: Option<Access>,
    credit_bytes: u64,
    /// Interval at which a sender looks for a free slot. None if it sleeps until there is one.
    poll: Option<Time>,
}

impl Costs {
    pub(super) fn new(queues: &Queues) -> Costs {
        let poll = match queues.backpressure {
            Backpressure::Sleep => None,
            Backpressure::Poll(ns) => Some(Time::from_ns(ns)),
        };
        Costs { access: queues.access, credit_bytes: queues.credit_bytes, poll }
    }

    /// Returns the time of one access to a slot.
    fn access(&self, bytes: u64) -> Time {
        self.access.map_or(Time::ZERO, |a| {
            Time::from_ns(a.setup_ns) + Time::of(bytes, a.bandwidth) + Time::of(bytes, a.hop)
        })
    }
}

impl<'p> Engine<'_, 'p, '_> {
    /// Performs an operation on a queue that a thread has reached or is woken at. Returns whether
    /// the thread can continue at once.
    pub(super) fn queue(&mut self, thread: u32, held: HeldQueueOp<'p>) -> bool {
        let (&TimedOp::Send { peer, queue, .. }
        | &TimedOp::Recv { peer, queue, .. }
        | &TimedOp::Room { peer, queue }) = &held.act
        else {
            return true;
        };
        let setup = self.setup;
        let place = setup.place(thread);
        let number = |tally| setup.counter(place, setup.tally(tally, peer, queue));
        let counters = &self.state.counters;
        // The tally that must grow, and its required value. The slots are free at the start.
        let (gate, wanted) = match held.act {
            TimedOp::Recv { .. } => (Tally::Arrived, i64::from(counters[number(Tally::Received)]) + 1),
            _ => {
                let depth = i64::try_from(setup.program.depth(queue)).unwrap_or(i64::MAX);
                (Tally::Credited, i64::from(counters[number(Tally::Sent)]) + 1 - depth)
            }
        };
        if i64::from(counters[number(gate)]) < wanted {
            self.state.threads[thread as usize].doing =
                Doing::Counter(setup.tally(gate, peer, queue), wanted);
            self.state.held.insert(thread, held);
            return false;
        }
        match held.act {
            TimedOp::Send { src: bytes, .. } => {
                let sent = &mut self.state.counters[number(Tally::Sent)];
                *sent = sent.saturating_add(1);
                self.conserved(place, setup.tally(Tally::Sent, peer, queue));
                let counter = setup.tally(Tally::Arrived, setup.rank(thread), queue);
                let letter =
                    OutgoingMessage { kind: MessageKind::Put, peer, bytes, reply: 0, counter, spots: [0; 2] };
                self.post(thread, held.op, letter);
                true
            }
            TimedOp::Recv { dst: bytes, .. } => self.take(thread, held, bytes),
            _ => true,
        }
    }

    /// Resumes a thread that was held at an operation on a queue. Returns whether the operation is
    /// complete.
    pub(super) fn resume(&mut self, thread: u32, held: HeldQueueOp<'p>) -> bool {
        let Some(since) = held.since else {
            self.complete_receipt(thread, &held);
            return true;
        };
        // A sender that polls notices a credit at its next look.
        let period = self.setup.queues.and_then(|q| q.poll);
        if let (Some(period), TimedOp::Send { .. } | TimedOp::Room { .. }) = (period, held.act) {
            let start = self.state.now;
            let end = since + start.since(since).up_to(period);
            if end > start {
                self.pay(thread, held.op, &[(POLL, end.since(start))]);
                self.state.held.insert(thread, held);
                return false;
            }
        }
        self.queue(thread, held)
    }

    /// Lets the receiver read a message from its slot and then give the slot back. Returns whether
    /// this is done at once.
    fn take(&mut self, thread: u32, held: HeldQueueOp<'p>, bytes: u64) -> bool {
        let access = self.setup.queues.map_or(Time::ZERO, |q| q.access(bytes));
        if self.pay(thread, held.op, &[(SLOT_READ, access)]) {
            self.state.held.insert(thread, HeldQueueOp { since: None, ..held });
            return false;
        }
        self.complete_receipt(thread, &held);
        true
    }

    /// Lets the inlet of a rank take in a message whose head has arrived: after the earlier
    /// messages, its bytes drain and are written to a slot.
    pub(super) fn grant_inlet(&mut self, item: Item) {
        let place = item.message();
        let m = self.state.messages[place as usize];
        let drain = self.drain(&m);
        let written = self.setup.queues.map_or(Time::ZERO, |q| q.access(m.bytes));
        let inlet = &mut self.state.inlets[m.to as usize];
        let start = self.state.now.max(*inlet);
        let steps = [(DRAIN, start, start + drain), (SLOT_WRITE, start + drain, start + drain + written)];
        *inlet = start + drain + written;
        let mut last = m.last;
        for (what, start, end) in steps.into_iter().filter(|(_, start, end)| end > start) {
            last = self.record(last, Record { start, end, back: 0, thread: m.thread, op: m.op, what });
        }
        let m = &mut self.state.messages[place as usize];
        (m.link, m.last) = (NONE, last);
        self.at(start + drain + written, item);
    }

    /// Returns the time in which the bytes of a message drain into its receiver after the arrival
    /// of the head, over the slowest link of the route (`forward: drain`). Zero under other rules,
    /// where the bytes arrive on the links.
    fn drain(&self, m: &Message) -> Time {
        let setup = self.setup;
        let info = &setup.ops[m.op as usize];
        if !info.drains {
            return Time::ZERO;
        }
        let (from, to) = (setup.rank(m.thread), setup.turned(m.turn.into(), setup.first(m.to)));
        let rates = setup.topo.route(setup.device(from), setup.device(to), info.hint);
        let slowest = rates.map(|l| setup.topo.rate(l).bandwidth).fold(f64::INFINITY, f64::min);
        Time::of(m.bytes, slowest)
    }

    /// Lets a thread spend the times of steps, one after another, and continue after the last one.
    /// Returns false if they take no time.
    fn pay(&mut self, thread: u32, op: u32, steps: &[(u32, Time)]) -> bool {
        let mut at = self.state.now;
        let mut last = self.state.threads[thread as usize].last;
        for &(what, time) in steps.iter().filter(|s| s.1 > Time::ZERO) {
            let (start, end) = (at, at + time);
            last = self.record(last, Record { start, end, back: 0, thread, op, what });
            at = end;
        }
        if at == self.state.now {
            return false;
        }
        let t = &mut self.state.threads[thread as usize];
        (t.doing, t.last) = (Doing::Busy, last);
        self.later(at, thread);
        true
    }

    /// Completes the receipt of a message: its slot is given back to its sender.
    fn complete_receipt(&mut self, thread: u32, held: &HeldQueueOp<'p>) {
        let TimedOp::Recv { peer, queue, .. } = held.act else { return };
        let setup = self.setup;
        let tally = setup.tally(Tally::Received, peer, queue);
        let received = &mut self.state.counters[setup.counter(setup.place(thread), tally)];
        *received = received.saturating_add(1);
        self.conserved(setup.place(thread), tally);
        let counter = setup.tally(Tally::Credited, setup.rank(thread), queue);
        match setup.queues {
            Some(costs) => self.credit(thread, held.op, peer, counter, costs.credit_bytes),
            None => {
                let (kind, bytes) = (MessageKind::Notify, setup.signal_bytes);
                let letter = OutgoingMessage { kind, peer, bytes, reply: 0, counter, spots: [0; 2] };
                self.post(thread, held.op, letter);
            }
        }
    }

    /// Sends a credit that uses no link: it takes as long as a message alone on the route back, and
    /// occupies no link.
    fn credit(&mut self, thread: u32, op: u32, peer: u64, counter: u32, bytes: u64) {
        let setup = self.setup;
        let own = setup.rank(thread);
        let mut latency = Time::ZERO;
        let mut bottleneck = f64::INFINITY;
        for link in setup.topo.route(setup.device(own), setup.device(peer), setup.ops[op as usize].hint) {
            let rate = setup.topo.rate(link);
            latency = latency + Time::from_ns(rate.latency_ns);
            bottleneck = bottleneck.min(rate.bandwidth);
        }
        let start = self.state.now;
        let end = start + latency + Time::of(bytes, bottleneck);
        let before = self.state.threads[thread as usize].last;
        let last = self.record(before, Record { start, end, back: 0, thread, op, what: CREDIT });
        let (to, turn) = setup.split(peer);
        let s = &mut self.state;
        let t = &mut s.threads[thread as usize];
        let sequence = t.sequence;
        t.sequence += 1;
        let message = Message {
            kind: MessageKind::Notify,
            thread,
            sequence: sequence as u32,
            op,
            to,
            turn: turn as u16,
            bytes,
            counter,
            last,
            link: NONE,
            trip: NONE,
        };
        if own != peer {
            s.accounts[setup.place(thread) as usize].sent += bytes;
        }
        if self.detail {
            self.report_sent(&message);
        }
        let s = &mut self.state;
        let place = s.free.pop().unwrap_or(s.messages.len() as u32);
        match s.messages.get_mut(place as usize) {
            Some(free) => *free = message,
            None => s.messages.push(message),
        }
        if setup.extra || self.observer.is_some() {
            s.extra.resize(s.messages.len(), Extra::default());
            s.extra[place as usize] = Extra { sent: start, ..Extra::default() };
        }
        self.at(end, Item::new(thread, sequence, place));
    }

    /// Checks, in debug builds, the invariants of a queue after a change of one of its tallies.
    /// Messages and credits are conserved, no more slots are used than there are, and its sending
    /// end has exactly one receiving end.
    pub(super) fn conserved(&self, place: u32, counter: u32) {
        if !cfg!(debug_assertions) {
            return;
        }
        let Some((here, peer, queue)) = self.setup.tallied(counter) else { return };
        let own = self.setup.first(place);
        let (from, to) = match here {
            Tally::Sent | Tally::Credited => (own, peer),
            Tally::Arrived | Tally::Received => (peer, own),
        };
        let count = |tally, rank: u64, other| {
            let (place, _) = self.setup.split(rank);
            let number = self.setup.tally(tally, other, queue);
            debug_assert_eq!(
                self.setup.tallied(number),
                Some((tally, other, queue)),
                "one ring has two ends"
            );
            u64::from(self.state.counters[self.setup.counter(place, number)])
        };
        let (sent, credited) = (count(Tally::Sent, from, to), count(Tally::Credited, from, to));
        let (arrived, received) = (count(Tally::Arrived, to, from), count(Tally::Received, to, from));
        let depth = self.setup.program.depth(queue);
        debug_assert!(arrived <= sent && received <= arrived, "{received} of {arrived} of {sent} messages");
        debug_assert!(credited <= received, "{credited} credits for {received} messages");
        debug_assert!(sent - credited <= depth, "{} of {depth} slots in use", sent - credited);
    }
}

impl super::setup::Setup<'_> {
    /// Returns the tally, the peer and the queue of a counter. None if the counter is not a tally.
    fn tallied(&self, counter: u32) -> Option<(Tally, u64, u32)> {
        let queues = self.program.queue_base.last().copied().unwrap_or(0);
        let row = counter.checked_sub(self.program.counters())?.checked_div(queues)?;
        let (tally, peer) = (u64::from(row) / self.program.ranks(), u64::from(row) % self.program.ranks());
        let queue = (counter - self.program.counters()) % queues;
        Some((*Tally::ALL.get(tally as usize)?, peer, queue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TimeOptions;
    use crate::setup::Setup;
    use crate::state::State;
    use kbc_diag::FileId;
    use kbc_ir::walk::Program;
    use kbc_machine::topology::Topology;

    const SOURCE: &str = include_str!("../../ir/tests/kir/queues/two_directions.kir");

    /// Runs for a few steps, corrupts a tally, and continues.
    fn spoilt(tally: Tally, by: i64) {
        let module = kbc_ir::text::parse(FileId(0), SOURCE).expect("a module");
        let program = Program::compile(module.schedule().expect("a schedule")).expect("a program");
        let machine = "ring(2) { link: 1 GB/s, 10 ns; queue: tcm, 1 }";
        let topo = Topology::parse(machine, FileId(0)).expect("a machine");
        let options = TimeOptions { calls: 4, ..TimeOptions::default() };
        let setup = Setup::new(&program, &topo, &options).expect("a set-up");
        let mut engine = Engine::new(&setup, State::new(&setup), None);
        let mut steps = 0;
        while engine.step().expect("no fault") {
            steps += 1;
            if steps == 20 {
                let number = setup.counter(0, setup.tally(tally, 1, 0));
                let value = &mut engine.state.counters[number];
                *value = value.saturating_add_signed(by as i32);
            }
        }
    }

    #[test]
    fn tallies_hold() {
        spoilt(Tally::Sent, 0);
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "slots in use"))]
    fn too_many_messages_are_noticed() {
        spoilt(Tally::Sent, 3);
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "credits for"))]
    fn credits_from_nowhere_are_noticed() {
        spoilt(Tally::Credited, 2);
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "messages"))]
    fn messages_from_nowhere_are_noticed() {
        spoilt(Tally::Arrived, 3);
    }
}
