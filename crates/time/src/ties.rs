//! Moments at which one rank cannot stand for its orbit: where the order of things at one time would matter, and is not
//! the same on every rank of the orbit.
//!
//! At one moment links are granted, and messages arrive, in the order of rank, stream and sequence. A shift of ranks
//! keeps that order except around the wrap. Whoever walks one rank of each orbit asks here, for each link whether two
//! messages of different ranks want it at once (times may then differ: [`Ties::tied`]), and for each stream whether two
//! arrivals end its waits at once (the critical path may then go either way: [`Ties::forked`]).

use super::clock::Time;
use kbc_checker::Orbits;
use kbc_machine::topology::LinkId;

/// What happened to something at the last moment at which something did, by the rank (as the rank it happened to sees
/// it) that it came from.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Option<Time>,
    from: u64,
    /// Things of several ranks.
    mixed: bool,
    /// A stream went on because of it.
    used: bool,
}

const NEVER: Mark = Mark { at: None, from: 0, mixed: false, used: false };

/// What has been asked for, and what happened, at this moment.
#[derive(Clone, Debug)]
pub(super) struct Ties {
    now: Time,
    /// Who made happen what happens.
    from: u64,
    /// Links asked for at this moment: who, and whether any bytes.
    links: Vec<(LinkId, u64, bool)>,
    counters: Vec<Mark>,
    events: Vec<Mark>,
    threads: Vec<Mark>,
    accounts: Vec<Mark>,
    pub(super) tied: bool,
    pub(super) forked: bool,
}

impl Ties {
    pub(super) fn new(counters: usize, events: usize, threads: usize, accounts: usize) -> Ties {
        Ties {
            now: Time::ZERO,
            from: 0,
            links: vec![],
            counters: vec![NEVER; counters],
            events: vec![NEVER; events],
            threads: vec![NEVER; threads],
            accounts: vec![NEVER; accounts],
            tied: false,
            forked: false,
        }
    }

    /// Something happens, because of that rank.
    pub(super) fn happens(&mut self, now: Time, from: u64) {
        (self.now, self.from) = (now, from);
    }

    /// Links are granted from here on.
    pub(super) fn grants(&mut self) {
        self.links.clear();
    }

    /// A message of that rank is granted a link.
    pub(super) fn link(&mut self, orbits: &Orbits, link: LinkId, from: u64, bytes: u64) {
        let mut known = false;
        for (other, who, any) in self.links.iter_mut().filter(|l| l.0 == link) {
            debug_assert_eq!(*other, link);
            if *who == from {
                *any |= bytes > 0;
                known = true;
            } else if !orbits.ordered(*who, from) && (*any || bytes > 0) {
                self.tied = true;
            }
        }
        if !known {
            self.links.push((link, from, bytes > 0));
        }
    }

    /// A counter grows.
    pub(super) fn counted(&mut self, orbits: &Orbits, counter: usize) {
        let (now, from) = (self.now, self.from);
        let m = &mut self.counters[counter];
        if m.at != Some(now) {
            *m = Mark { at: Some(now), from, ..NEVER };
        } else if !orbits.ordered(m.from, from) {
            m.mixed = true;
            self.forked |= m.used;
        }
    }

    /// A stream finds, or at last finds, a counter high enough.
    pub(super) fn passes(&mut self, orbits: &Orbits, thread: u32, counter: usize) {
        let m = &mut self.counters[counter];
        if m.at == Some(self.now) {
            m.used = true;
            let m = *m;
            self.forked |= m.mixed;
            self.caused(orbits, thread, m.from);
        }
    }

    /// An event is recorded by a stream.
    pub(super) fn recorded(&mut self, thread: u32, event: usize) {
        let by = self.threads[thread as usize];
        self.events[event] = Mark { at: Some(self.now), from: by.from, ..NEVER };
    }

    /// A stream finds, or at last finds, an event recorded.
    pub(super) fn awaited(&mut self, orbits: &Orbits, thread: u32, event: usize) {
        let m = self.events[event];
        if m.at == Some(self.now) {
            self.caused(orbits, thread, m.from);
        }
    }

    /// A stream goes on because of something of that rank.
    pub(super) fn caused(&mut self, orbits: &Orbits, thread: u32, from: u64) {
        let t = &mut self.threads[thread as usize];
        if t.at != Some(self.now) {
            *t = Mark { at: Some(self.now), from, ..NEVER };
        } else if !orbits.ordered(t.from, from) {
            self.forked = true;
        }
    }

    /// Data arrives at a rank, or (`thread`) a stream of it ends.
    pub(super) fn finishes(&mut self, orbits: &Orbits, account: usize, thread: Option<u32>) {
        let from = thread.map_or(self.from, |t| self.threads[t as usize].from);
        let a = &mut self.accounts[account];
        if a.at != Some(self.now) {
            *a = Mark { at: Some(self.now), from, ..NEVER };
        } else if !orbits.ordered(a.from, from) {
            a.mixed = true;
        }
    }

    /// Whether several things ended at once what ended last on this account.
    pub(super) fn ends_forked(&self, account: usize, end: Time) -> bool {
        self.accounts[account].at == Some(end) && self.accounts[account].mixed
    }
}
