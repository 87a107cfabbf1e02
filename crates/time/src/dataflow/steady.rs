//! Steady turns of a loop: turns that are equal apart from a shift in time are computed at once.
//!
//! A thread is watched from turn to turn of a steady loop ([`kbc_ir::walk::Turn`]). What it does in
//! a turn depends on the turn's operations, which are the same in every turn, on the state of the
//! thread and of the links and units that it alone uses, and on the arrivals that it waits for. If
//! this state is the same as one period earlier, but all its times are later by T, and the arrivals
//! of the following turns are those of the last period, each later by T, then the following periods
//! are like the last one, each later by T. This is exact, because times are exact numbers and every
//! rule of the model keeps its result under a shift of all times.
//!
//! An arrival that the thread did not have to wait for may also come earlier than by T.

use super::history::RecordId;
use super::inbox::{Arrival, NOBODY, Spacing};
use super::{Dataflow, Moment, Unfit};
use crate::clock::Time;
use crate::links::{Link, Links};
use crate::work::Units;
use kbc_ir::walk::Turn;

/// Most links and most messages of a period that are watched.
const MAX_LINKS: usize = 32;
const MAX_SENT: usize = 64;

/// How a wait has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Passing {
    /// An earlier wait had asked for as much.
    Before,
    /// The arrival was there.
    AtOnce,
    /// The thread had to wait for the arrival.
    Blocked,
}

/// A wait that has passed.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassedWait {
    pub(super) inbox: u32,
    /// Number of the arrival that it asked for.
    pub(super) number: u64,
    pub(super) how: Passing,
}

/// A message that has been sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentMessage {
    pub(super) place: u32,
    /// The inbox of its notify, or [`NOBODY`].
    pub(super) inbox: u32,
    pub(super) bytes: u64,
    /// Whether it has data that the receiver's end has to wait for.
    pub(super) data: bool,
    pub(super) arrival: Arrival,
}

/// The state of a thread at the end of a turn.
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    now: Moment,
    sequence: u64,
    last: RecordId,
    last_end: Time,
    carries: bool,
    records: u32,
    units: Option<(Units, Time)>,
}

/// What a thread has done since a turn of a loop ended.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// The last turn that has ended. None if no loop is watched.
    last: Option<Turn>,
    /// Number of turns since `start`.
    turns: u32,
    start: Option<Snapshot>,
    /// Whether it has done more than is watched.
    lost: bool,
    waits: Vec<PassedWait>,
    /// The waits of the period before, if it was watched.
    earlier: Option<Vec<PassedWait>>,
    sent: Vec<SentMessage>,
    /// The links that it has used, as they were before.
    links: Vec<(usize, Link)>,
}

impl Watch {
    pub(super) fn new() -> Watch {
        Watch {
            last: None,
            turns: 0,
            start: None,
            lost: false,
            waits: vec![],
            earlier: None,
            sent: vec![],
            links: vec![],
        }
    }

    /// Notes that the thread has sent a message.
    pub(super) fn sends(&mut self, message: SentMessage) {
        if self.last.is_none() {
            return;
        }
        match self.sent.len() < MAX_SENT {
            true => self.sent.push(message),
            false => self.lost = true,
        }
    }

    /// Notes that the thread's last message has a notify for an inbox.
    pub(super) fn notifies(&mut self, inbox: u32) {
        if let Some(message) = self.sent.last_mut() {
            message.inbox = inbox;
        }
    }

    /// Notes that the thread is about to use a link.
    #[inline]
    pub(super) fn uses(&mut self, place: usize, links: &Links) {
        if self.last.is_none() || self.lost || self.links.iter().any(|l| l.0 == place) {
            return;
        }
        match self.links.len() < MAX_LINKS {
            true => self.links.push((place, *links.at(place))),
            false => self.lost = true,
        }
    }

    /// Notes that a wait has passed.
    pub(super) fn passes(&mut self, wait: PassedWait) {
        if self.last.is_none() {
            return;
        }
        match self.waits.len() < MAX_SENT {
            true => self.waits.push(wait),
            false => self.lost = true,
        }
    }

    /// Begins a period.
    fn begin(&mut self, start: Snapshot) {
        self.start = Some(start);
        (self.turns, self.lost) = (0, false);
        self.waits.clear();
        self.sent.clear();
        self.links.clear();
    }
}

/// How a wait of a period continues in the next one.
#[derive(Clone, Copy)]
struct WaitCourse {
    /// Number of arrivals that it is further on in each period.
    grows: u64,
    /// The record of the arrival in this period, if the thread waited for it, and the distance to
    /// that of the next period.
    record: Option<(RecordId, u32)>,
}

/// Equal periods.
struct Course {
    periods: u64,
    /// The shift of all times in a period, and of the thread's sequence number.
    time: Time,
    sequence: u64,
    /// The growth of the sequence number of the thread's moment.
    moment: u64,
    waits: Vec<WaitCourse>,
    /// The growth of the number of the thread's last record.
    last: u32,
    /// For each record of a period: the growth of the number of its cause.
    causes: Box<[u32]>,
}

impl Dataflow<'_, '_> {
    /// Notes that a thread has completed a turn of a steady loop, and computes the turns that
    /// follow, as far as they are like those before.
    pub(super) fn turned(&mut self, thread: u32, turn: Turn) -> Result<(), Unfit> {
        let now = self.snapshot(thread);
        let watch = &mut self.threads[thread as usize].watch;
        let follows = watch.last.is_some_and(|last| last.number == turn.number && last.left == turn.left + 1);
        watch.last = Some(turn);
        if !follows {
            watch.earlier = None;
            watch.begin(now);
            return Ok(());
        }
        watch.turns += 1;
        if watch.turns < turn.period {
            return Ok(());
        }
        if let Some(course) = self.course(thread, &turn, &now) {
            self.follow(thread, &turn, &course)?;
        }
        let now = self.snapshot(thread);
        let watch = &mut self.threads[thread as usize].watch;
        let mut waits = watch.earlier.take().unwrap_or_default();
        std::mem::swap(&mut waits, &mut watch.waits);
        watch.earlier = (!watch.lost).then_some(waits);
        watch.begin(now);
        Ok(())
    }

    fn snapshot(&self, thread: u32) -> Snapshot {
        let (t, s) = (&self.threads[thread as usize], &self.state);
        let place = self.setup.place(thread) as usize;
        Snapshot {
            now: t.now,
            sequence: t.sequence,
            last: t.last,
            last_end: t.last_end,
            carries: t.carrier.is_some(),
            records: self.history.count(thread),
            units: s.units.get(place).copied().zip(s.worked.get(place).copied()),
        }
    }

    /// Returns how the periods that follow are like the one that has just ended. None if they are
    /// not, or not known yet.
    fn course(&self, thread: u32, turn: &Turn, now: &Snapshot) -> Option<Course> {
        let watch = &self.threads[thread as usize].watch;
        let start = watch.start.as_ref()?;
        let earlier = watch.earlier.as_ref()?;
        let mut periods = turn.left / u64::from(turn.period);
        let time = now.now.at.since(start.now.at);
        let comparable = periods > 0
            && time > Time::ZERO
            && !watch.lost
            && !start.carries
            && !now.carries
            && start.now.thread == now.now.thread
            && start.last.thread == now.last.thread
            && start.last_end + time == now.last_end
            && earlier.len() == watch.waits.len();
        if !comparable {
            return None;
        }
        for (place, before) in &watch.links {
            self.state.links.at(*place).shifted(before, time).then_some(())?;
        }
        if let Some(((units, _), (before, _))) = now.units.zip(start.units) {
            units.shifted(&before, time, start.now.at).then_some(())?;
        }
        let sequence = now.sequence - start.sequence;
        let moment = now.now.sequence.checked_sub(start.now.sequence)?;
        let records = now.records - start.records;
        // Sequence numbers decide the order of the messages of one sender.
        let grows_with = |sender: u32| (now.now.thread == sender).then_some(moment);
        let mut waits: Vec<WaitCourse> = Vec::with_capacity(watch.waits.len());
        let mut senders: Vec<(u32, u64)> = vec![];
        for (wait, before) in watch.waits.iter().zip(earlier) {
            let grows = wait.number.checked_sub(before.number)?;
            if wait.inbox != before.inbox || wait.how != before.how {
                return None;
            }
            let inbox = &self.inboxes[wait.inbox as usize];
            if wait.how == Passing::Before {
                // A wait that asks for the same in every turn passes in every turn.
                (grows == 0).then_some(())?;
                waits.push(WaitCourse { grows, record: None });
                continue;
            }
            let blocked = wait.how == Passing::Blocked;
            let found = inbox.get(wait.number)?;
            let spacing = found.spacing?;
            let shift = spacing.time.times(grows);
            if grows == 0 || found.before < grows || shift > time || blocked && shift < time {
                return None;
            }
            let step = spacing.sequence * grows;
            let known = senders.iter().find(|s| s.0 == inbox.sender).map(|s| s.1);
            if known.or(grows_with(inbox.sender)).is_some_and(|known| known != step) {
                return None;
            }
            senders.push((inbox.sender, step));
            periods = periods.min(found.after / grows);
            let record = blocked.then(|| {
                let id = RecordId { thread: inbox.sender, number: found.arrival.record };
                (id, spacing.record * grows as u32)
            });
            waits.push(WaitCourse { grows, record });
        }
        // Runs of arrivals are merged only where each period has one for an inbox.
        for (i, message) in watch.sent.iter().enumerate() {
            if message.inbox != NOBODY && watch.sent[..i].iter().any(|m| m.inbox == message.inbox) {
                return None;
            }
        }
        let last = now.last.number.checked_sub(start.last.number)?;
        let grows = |cause: RecordId| {
            let waited = waits.iter().filter_map(|w| w.record).find(|r| r.0 == cause);
            match waited {
                Some((_, growth)) => Some(growth),
                None if cause == RecordId::NONE => None,
                None if cause == start.last => Some(last),
                None => (cause.thread == thread).then_some(records),
            }
        };
        let mut causes: Box<[u32]> = Box::new([]);
        if self.setup.path {
            (grows(now.last)? == last).then_some(())?;
            causes = self.history.causes(thread, records).map(grows).collect::<Option<_>>()?;
        }
        // Numbers of records have 32 bits.
        let most = [records, last].into_iter().chain(causes.iter().copied()).max().unwrap_or(0);
        periods = periods.min(u64::from(u32::MAX >> 1) / u64::from(most.max(1)));
        (periods > 0).then_some(Course { periods, time, sequence, moment, waits, last, causes })
    }

    /// Lets a thread pass over the turns of equal periods.
    fn follow(&mut self, thread: u32, turn: &Turn, course: &Course) -> Result<(), Unfit> {
        let n = course.periods;
        let turns = n * u64::from(turn.period);
        self.state.walks.pass_turns(&self.setup.outline, thread as usize, turns);
        let place = self.setup.place(thread) as usize;
        let t = &mut self.threads[thread as usize];
        let later = course.time.times(n);
        t.now.at = t.now.at + later;
        t.now.sequence += course.moment * n;
        t.sequence += course.sequence * n;
        t.last.number = t.last.number.checked_add(course.last * n as u32).ok_or(Unfit)?;
        t.last_end = t.last_end + later;
        t.watch.last = Some(Turn { left: turn.left - turns, ..*turn });
        let start = t.watch.start;
        for (wait, grows) in t.watch.waits.iter_mut().zip(&course.waits) {
            wait.number += grows.grows * n;
        }
        let (sent, links) = (std::mem::take(&mut t.watch.sent), std::mem::take(&mut t.watch.links));
        for wait in &t.watch.waits {
            let inbox = &mut self.inboxes[wait.inbox as usize];
            let runs = inbox.runs();
            if inbox.spent > 0 {
                inbox.spent = inbox.spent.max(wait.number);
            }
            inbox.pass(wait.number);
            self.room.give((runs - inbox.runs()) * super::Inbox::RUN);
        }
        let records = course.causes.len() as u32;
        if records > 0 {
            self.room.take(size_of::<u32>() * (records as usize + 8))?;
            let times = u32::try_from(n).map_err(|_| Unfit)?;
            let new = records.checked_mul(times).and_then(|new| self.history.count(thread).checked_add(new));
            new.ok_or(Unfit)?;
            self.history.repeat(thread, times, course.causes.clone());
        }
        for (link, before) in &links {
            self.state.links.repeat(*link, before, n);
        }
        if let Some((units, worked)) = start.and_then(|s| s.units) {
            self.state.units[place].repeat(&units, n);
            let worked = self.state.worked[place].since(worked).times(n);
            self.state.worked[place] = self.state.worked[place] + worked;
        }
        let spacing = Spacing { time: course.time, sequence: course.sequence, record: records };
        for message in &sent {
            let s = &mut self.state;
            let bytes = message.bytes.saturating_mul(n);
            s.delivered += n;
            s.accounts[place].sent += bytes;
            s.accounts[message.place as usize].received += bytes;
            if message.data {
                let Arrival { at, sequence, record } = message.arrival.later(&spacing, n);
                self.finishes(
                    message.place,
                    (Moment { at, thread, sequence }, false),
                    RecordId { thread, number: record },
                );
            }
            if message.inbox != NOBODY {
                let first = message.arrival.later(&spacing, 1);
                self.arrive(thread, message.place, message.inbox, (first, n, spacing))?;
            }
        }
        Ok(())
    }
}
