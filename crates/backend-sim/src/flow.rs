//! Control flow of a run: the streams of all ranks, their positions and waits, counters and events.
//!
//! Memory belongs to [`crate::interp`] and [`crate::adversary`], which also decide which stream
//! advances next.

use kbc_diag::{Diagnostic, Span};
use kbc_ir::form::Form;
use kbc_ir::name::Name;
use kbc_ir::schedule::RegionId;
use kbc_ir::walk::{Act, Cursor, Fault, Program, Step};
use std::collections::BTreeMap;

/// A stream of a rank on its way through all calls.
pub struct Thread<'p> {
    /// The rank.
    pub rank: u64,
    /// Number of the stream; 0 is `main`.
    pub stream: u32,
    /// The current call; the number of calls once the stream is done.
    pub call: i64,
    /// The operation at which it waits.
    pub held: Option<(Act<'p>, Span)>,
    /// Whether it met a fault and has stopped.
    pub stopped: bool,
    /// The region in which it is, or was last.
    pub region: Option<RegionId>,
    cursor: Cursor<'p>,
}

/// The result of advancing a stream.
pub enum Advance<'p> {
    /// It reaches an operation; waits have already passed.
    Act(Act<'p>, Span),
    /// It waits.
    Blocked,
    /// It ended the call with this number.
    CallOver(i64),
    /// It has ended its last call.
    Done,
}

/// A queue: sender, receiver, number.
pub type Queue = (u64, u64, u32);

/// Returns the queue of a rank's operation, and whether the rank is the sender.
pub fn queue_of(rank: u64, act: &Act<'_>) -> Option<(Queue, bool)> {
    match act {
        Act::Send { peer, queue, .. } | Act::Room { peer, queue } => Some(((rank, *peer, *queue), true)),
        Act::Recv { peer, queue, .. } => Some(((*peer, rank, *queue), false)),
        Act::Copy { .. }
        | Act::Reduce { .. }
        | Act::Put { .. }
        | Act::Get { .. }
        | Act::GetCombine { .. }
        | Act::Notify { .. }
        | Act::Wait { .. }
        | Act::FenceRelease
        | Act::FenceAcquire
        | Act::FenceComplete
        | Act::Record(_)
        | Act::Await(_)
        | Act::Local(_)
        | Act::Mark(_)
        | Act::HostRead(_)
        | Act::Host(_) => None,
    }
}

/// The state of a queue.
#[derive(Clone, Copy, Default)]
struct QueueState {
    /// Slots that are not free from the sender's point of view.
    taken: u64,
    /// Messages that have arrived.
    ready: u64,
}

/// All streams of all ranks.
pub struct Flow<'p> {
    /// The program.
    pub program: &'p Program<'p>,
    /// Number of consecutive calls.
    pub calls: i64,
    /// Every stream of every rank.
    pub threads: Vec<Thread<'p>>,
    /// Number of notifies that landed in each counter.
    counters: Vec<u64>,
    /// Number of them that the waits for the counter have spent; empty if all counters are epochs.
    spent: Vec<u64>,
    /// For each rank and event, the number of calls in which it was recorded (calls record in
    /// order).
    recorded: Vec<i64>,
    queues: BTreeMap<Queue, QueueState>,
}

impl<'p> Flow<'p> {
    /// Creates the state with every stream at the start of call 0.
    pub fn new(program: &'p Program<'p>, calls: i64) -> Self {
        let streams = program.streams.len() as u32;
        let threads = (0..program.ranks())
            .flat_map(|rank| (0..streams).map(move |stream| (rank, stream)))
            .map(|(rank, stream)| Thread {
                rank,
                stream,
                call: 0,
                held: None,
                stopped: false,
                region: None,
                cursor: Cursor::new(program, rank, stream, 0),
            })
            .collect();
        let ranks = program.ranks() as usize;
        Flow {
            program,
            calls,
            threads,
            counters: vec![0; ranks * program.counters() as usize],
            spent: if program.has_forms() { vec![0; ranks * program.counters() as usize] } else { vec![] },
            recorded: vec![0; ranks * program.events.len()],
            queues: BTreeMap::new(),
        }
    }

    /// Returns the approximate number of bytes that the streams and counters of all ranks need.
    pub fn bytes(program: &Program<'_>) -> u64 {
        let a_rank = 8
            * (u64::from(program.counters()) * if program.has_forms() { 2 } else { 1 }
                + program.events.len() as u64)
            + 256 * program.streams.len() as u64;
        program.ranks().saturating_mul(a_rank)
    }

    /// Returns the threads of a rank.
    pub fn of_rank(&self, rank: u64) -> std::ops::Range<usize> {
        let n = self.program.streams.len();
        rank as usize * n..(rank as usize + 1) * n
    }

    /// Returns the thread of a rank that is its host: the stream of the host's program, or `main`.
    pub fn host(&self, rank: u64) -> usize {
        rank as usize * self.program.streams.len() + self.program.host as usize
    }

    /// Returns the current call of the host of a rank.
    pub fn host_call(&self, rank: u64) -> i64 {
        self.threads[self.host(rank)].call
    }

    /// Returns the number of notifies that landed in a counter since the allocation.
    pub fn counter(&self, rank: u64, counter: u32) -> u64 {
        self.counters[rank as usize * self.program.counters() as usize + counter as usize]
    }

    /// Returns the number of them that waits have spent.
    pub fn spent(&self, rank: u64, counter: u32) -> u64 {
        let at = rank as usize * self.program.counters() as usize + counter as usize;
        self.spent.get(at).copied().unwrap_or(0)
    }

    /// Returns the value that a wait sees in a counter.
    pub fn seen(&self, rank: u64, counter: u32) -> u64 {
        let landed = self.counter(rank, counter);
        match self.program.form(counter) {
            Form::Epoch => landed,
            Form::Sense { .. } => landed & 1,
            Form::Clearing { .. } => landed.saturating_sub(self.spent(rank, counter)),
        }
    }

    /// Handles a wait that has passed: the notifies that it means are spent. Fails with E362 if the
    /// initial value of the counter is not stated.
    pub fn spend(&mut self, thread: usize, counter: u32, value: i64, span: Span) -> Result<(), Diagnostic> {
        let form = self.program.form(counter);
        if form == Form::Epoch {
            return Ok(());
        }
        let rank = self.threads[thread].rank;
        if !form.fresh() {
            let (signal, index) = self.program.counter_name(counter);
            let (s, name) = (self.program.schedule, &self.program.schedule.signal(signal).name);
            let text = format!("the initial value of @{name}[{index}] on {} is unknown", s.mesh.show(rank));
            return Err(Diagnostic::error("E362", text)
                .primary(span, format!("{} waits for it here", self.place(thread)))
                .help(format!(
                    "if the counter is zeroed before any rank runs, declare it: `{} fresh`",
                    form.name()
                )));
        }
        let (landed, spent) = (self.counter(rank, counter), self.spent(rank, counter));
        let at = rank as usize * self.program.counters() as usize + counter as usize;
        self.spent[at] = form.spends(landed, spent, value);
        Ok(())
    }

    /// Adds one to a counter.
    pub fn add(&mut self, rank: u64, counter: u32) {
        self.counters[rank as usize * self.program.counters() as usize + counter as usize] += 1;
    }

    /// Whether an event was recorded in a call.
    fn has_record(&self, rank: u64, event: u32, call: i64) -> bool {
        self.recorded[rank as usize * self.program.events.len() + event as usize] > call
    }

    /// Records that a thread recorded an event.
    pub fn record(&mut self, thread: usize, event: u32) {
        let (rank, call) = (self.threads[thread].rank, self.threads[thread].call);
        let at = rank as usize * self.program.events.len() + event as usize;
        self.recorded[at] = self.recorded[at].max(call + 1);
    }

    fn queue(&self, queue: Queue) -> QueueState {
        self.queues.get(&queue).copied().unwrap_or_default()
    }

    /// Handles a message that is sent: its slot is taken.
    pub fn sent(&mut self, queue: Queue) {
        self.queues.entry(queue).or_default().taken += 1;
    }

    /// Handles a message that has arrived.
    pub fn arrived(&mut self, queue: Queue) {
        self.queues.entry(queue).or_default().ready += 1;
    }

    /// Handles a message that was received. Its slot is still taken from the sender's point of
    /// view.
    pub fn received(&mut self, queue: Queue) {
        let q = self.queues.entry(queue).or_default();
        q.ready = q.ready.saturating_sub(1);
    }

    /// Handles a credit: the sender learns that a slot is free.
    pub fn credited(&mut self, queue: Queue) {
        let q = self.queues.entry(queue).or_default();
        q.taken = q.taken.saturating_sub(1);
    }

    fn passes(&self, t: &Thread<'p>, act: &Act<'p>) -> bool {
        match act {
            Act::Wait { counter, value } => {
                let (landed, spent) = (self.counter(t.rank, *counter), self.spent(t.rank, *counter));
                self.program.form(*counter).passes(landed, spent, *value)
            }
            Act::Await(event) => self.has_record(t.rank, *event, t.call),
            Act::Send { .. } | Act::Recv { .. } | Act::Room { .. } => {
                queue_of(t.rank, act).is_none_or(|(queue, sends)| match (self.queue(queue), sends) {
                    (q, true) => q.taken < self.program.depth(queue.2),
                    (q, false) => q.ready > 0,
                })
            }
            Act::Copy { .. }
            | Act::Reduce { .. }
            | Act::Put { .. }
            | Act::Get { .. }
            | Act::GetCombine { .. }
            | Act::Notify { .. }
            | Act::FenceRelease
            | Act::FenceAcquire
            | Act::FenceComplete
            | Act::Record(_)
            | Act::Local(_)
            | Act::Mark(_)
            | Act::HostRead(_)
            | Act::Host(_) => true,
        }
    }

    /// Whether a thread could advance now.
    pub fn ready(&self, thread: usize) -> bool {
        let t = &self.threads[thread];
        let free = t.held.as_ref().is_none_or(|(act, _)| self.passes(t, act));
        free && !t.stopped && t.call < self.calls
    }

    /// Advances a thread to its next operation.
    pub fn advance(&mut self, thread: usize) -> Result<Advance<'p>, Fault> {
        let t = &mut self.threads[thread];
        if t.call >= self.calls {
            return Ok(Advance::Done);
        }
        let (act, span) = match t.held.take() {
            Some(held) => held,
            None => loop {
                match t.cursor.next_step() {
                    Ok(Some(Step::Enter(r))) => t.region = Some(r),
                    Ok(Some(Step::Leave(_))) => {}
                    Ok(Some(Step::Act(act, span, _))) => break (act, span),
                    Ok(None) => {
                        t.call += 1;
                        t.cursor = Cursor::new(self.program, t.rank, t.stream, t.call);
                        return Ok(Advance::CallOver(t.call - 1));
                    }
                    Err(fault) => {
                        t.stopped = true;
                        return Err(fault);
                    }
                }
            },
        };
        let t = &self.threads[thread];
        if self.passes(t, &act) {
            return Ok(Advance::Act(act, span));
        }
        self.threads[thread].held = Some((act, span));
        Ok(Advance::Blocked)
    }

    /// Returns the name of the region in which a thread is.
    pub fn region(&self, thread: usize) -> Name {
        let s = self.program.schedule;
        self.threads[thread].region.map_or_else(|| s.name.clone(), |r| s.regions[r.0 as usize].name.clone())
    }

    /// Returns the position of a thread, such as `tp=1, call 0, region r1, stream main`.
    pub fn place(&self, thread: usize) -> String {
        let t = &self.threads[thread];
        format!(
            "{}, call {}, region {}, stream {}",
            self.program.schedule.mesh.show(t.rank),
            t.call,
            self.region(thread),
            self.program.streams[t.stream as usize]
        )
    }
}
