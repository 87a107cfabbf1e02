//! Ties: moments at which one rank cannot stand for its orbit, because the order of simultaneous
//! events matters and is not the same for every rank of the orbit.
//!
//! At one moment, links are granted and messages arrive in the order of rank, stream and sequence.
//! A shift of ranks keeps that order except around the wrap. A simulation of one rank per orbit
//! therefore checks two conditions here:
//!
//! * Messages of different ranks request one link at the same moment. Times may then differ between
//!   ranks ([`Ties::tied`]).
//! * Events of different ranks end a wait of one stream at the same moment. The critical path may
//!   then take either of them ([`Ties::forked`]).

use super::clock::Time;
use kbc_checker::Orbits;
use kbc_machine::topology::LinkId;

/// The last moment at which a counter, event, thread or account was affected. `from` is the rank
/// that caused it, as the affected rank sees it.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Option<Time>,
    from: u64,
    /// Whether several ranks caused it at that moment.
    mixed: bool,
    /// Whether a stream continued because of it.
    used: bool,
}

const NEVER: Mark = Mark { at: None, from: 0, mixed: false, used: false };

/// The requests and events of the current moment.
#[derive(Clone, Debug)]
pub(super) struct Ties {
    now: Time,
    /// The rank that causes the current event.
    from: u64,
    /// Links granted so far in the current round: link, rank, and whether a message has bytes.
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

    /// Begins an event that a rank causes.
    pub(super) fn happens(&mut self, now: Time, from: u64) {
        (self.now, self.from) = (now, from);
    }

    /// Begins the granting of links.
    pub(super) fn grants(&mut self) {
        self.links.clear();
    }

    /// Notes that a message of a rank is granted a link.
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

    /// Notes that a counter grows.
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

    /// Notes that a stream finds a counter high enough, at once or after waiting.
    pub(super) fn passes(&mut self, orbits: &Orbits, thread: u32, counter: usize) {
        let m = &mut self.counters[counter];
        if m.at == Some(self.now) {
            m.used = true;
            let m = *m;
            self.forked |= m.mixed;
            self.caused(orbits, thread, m.from);
        }
    }

    /// Notes that a stream records an event.
    pub(super) fn recorded(&mut self, thread: u32, event: usize) {
        let by = self.threads[thread as usize];
        self.events[event] = Mark { at: Some(self.now), from: by.from, ..NEVER };
    }

    /// Notes that a stream finds an event recorded, at once or after waiting.
    pub(super) fn awaited(&mut self, orbits: &Orbits, thread: u32, event: usize) {
        let m = self.events[event];
        if m.at == Some(self.now) {
            self.caused(orbits, thread, m.from);
        }
    }

    /// Notes that a stream continues because of an event that a rank caused.
    pub(super) fn caused(&mut self, orbits: &Orbits, thread: u32, from: u64) {
        let t = &mut self.threads[thread as usize];
        if t.at != Some(self.now) {
            *t = Mark { at: Some(self.now), from, ..NEVER };
        } else if !orbits.ordered(t.from, from) {
            self.forked = true;
        }
    }

    /// Notes that data arrives at a rank, or that a stream of the rank ends (`thread`).
    pub(super) fn finishes(&mut self, orbits: &Orbits, account: usize, thread: Option<u32>) {
        let from = thread.map_or(self.from, |t| self.threads[t as usize].from);
        let a = &mut self.accounts[account];
        if a.at != Some(self.now) {
            *a = Mark { at: Some(self.now), from, ..NEVER };
        } else if !orbits.ordered(a.from, from) {
            a.mixed = true;
        }
    }

    /// Checks whether events of several ranks ended an account at once at its end.
    pub(super) fn ends_forked(&self, account: usize, end: Time) -> bool {
        self.accounts[account].at == Some(end) && self.accounts[account].mixed
    }
}
