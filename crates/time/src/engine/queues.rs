//! The engine's part of queues: operations on them, inlets, and credits.

use super::Engine;
use super::messages::OutgoingMessage;
use crate::MessageKind;
use crate::agenda::{Item, NONE};
use crate::clock::Time;
use crate::log::{CREDIT, DRAIN, POLL, Record, SLOT_READ, SLOT_WRITE};
use crate::queues::Tally;
use crate::state::{Doing, Extra, HeldOp, Message};
use kbc_ir::walk::TimedOp;

impl<'p> Engine<'_, 'p, '_> {
    /// Performs an operation on a queue that a thread has reached or is woken at. Returns whether
    /// the thread can continue at once.
    pub(super) fn queue(&mut self, thread: u32, held: HeldOp<'p>) -> bool {
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
    pub(super) fn resume(&mut self, thread: u32, held: HeldOp<'p>) -> bool {
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
    fn take(&mut self, thread: u32, held: HeldOp<'p>, bytes: u64) -> bool {
        let access = self.setup.queues.map_or(Time::ZERO, |q| q.access(bytes));
        if self.pay(thread, held.op, &[(SLOT_READ, access)]) {
            self.state.held.insert(thread, HeldOp { since: None, ..held });
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
        let rates = setup.topo.route(setup.device(from), setup.device(to), info.way);
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
    fn complete_receipt(&mut self, thread: u32, held: &HeldOp<'p>) {
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
        for link in setup.topo.route(setup.device(own), setup.device(peer), setup.ops[op as usize].way) {
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
        let place = s.keep_message(message);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TimeOptions;
    use crate::setup::Setup;
    use crate::state::State;
    use kbc_diag::FileId;
    use kbc_ir::walk::Program;
    use kbc_machine::topology::Topology;

    const SOURCE: &str = include_str!("../../../ir/tests/kir/queues/two_directions.kir");

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
