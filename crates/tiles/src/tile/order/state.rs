//! Abstract state of the order analysis: what is certain on all paths to a place of a kernel.

use super::super::Pipe;
use super::super::hazard::{Age, PipeEvent};
use std::collections::BTreeSet;
use std::ops::Range;

/// A set of pipes as bits.
pub(super) type Pipes = u8;

/// Returns the set of one pipe.
pub(super) fn bit(pipe: Pipe) -> Pipes {
    1 << (pipe as u8)
}

/// An access that may have happened: its site, its index among the accesses of the site, and its
/// age.
pub(super) type Key = (usize, usize, Age);

/// What is certain about an access on all paths.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct AccessState {
    /// Pipes whose later operations start after the access.
    pub(super) after: Pipes,
    /// Events after whose wait the waiting pipe is ordered after the access.
    pub(super) carried: Events,
}

/// A set of events as bits: for each pipe that sets events, eight for each pipe that waits.
pub(super) type Events = [u64; Pipe::ALL.len()];

/// How far accesses are published, which a notify requires of them: not drained, drained by a
/// barrier of all pipes, or visible in memory after a `dsb`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Publish {
    Dirty,
    Drained,
    Published,
}

/// The state at one place of a kernel.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct State {
    /// Accesses that may have happened, in the order of their keys. Every key occurs once.
    pub(super) behind: Vec<(Key, AccessState)>,
    /// Events that are set.
    pub(super) set: BTreeSet<PipeEvent>,
    /// How far the accesses of this core are published.
    pub(super) publish: Publish,
    /// The same for data that waits have reported: a notify to another core of this rank publishes
    /// it too.
    pub(super) told: Publish,
    /// Sites of waits that no barrier of all pipes has followed yet.
    pub(super) waits: BTreeSet<usize>,
}

impl Default for State {
    /// Returns the state at the beginning of a kernel.
    fn default() -> State {
        State {
            behind: vec![],
            set: BTreeSet::new(),
            publish: Publish::Published,
            told: Publish::Published,
            waits: BTreeSet::new(),
        }
    }
}

impl PipeEvent {
    /// Returns the bit of the event among those of the pipe that sets it; no bit if the number is
    /// above those that a pair of pipes has.
    fn mask(self) -> u64 {
        if self.number < 8 { 1 << ((self.to as u32) * 8 + u32::from(self.number)) } else { 0 }
    }

    pub(super) fn is_in(self, all: &Events) -> bool {
        all[self.from as usize] & self.mask() != 0
    }

    pub(super) fn put(self, all: &mut Events) {
        all[self.from as usize] |= self.mask();
    }

    pub(super) fn take(self, all: &mut Events) {
        all[self.from as usize] &= !self.mask();
    }
}

impl AccessState {
    /// Keeps what is also certain on another path.
    fn meet(&mut self, other: &AccessState) {
        self.after &= other.after;
        self.carried.iter_mut().zip(other.carried).for_each(|(a, b)| *a &= b);
    }
}

impl State {
    /// Adds an access that happens here. Nothing is certain about it.
    pub(super) fn happens(&mut self, key: Key) {
        match self.behind.binary_search_by_key(&key, |(k, _)| *k) {
            Ok(at) => self.behind[at].1 = AccessState::default(),
            Err(at) => self.behind.insert(at, (key, AccessState::default())),
        }
    }

    /// Adds the accesses of another path: only what is certain on both paths remains certain.
    pub(super) fn meet(&mut self, other: &[(Key, AccessState)]) {
        let mut both = Vec::with_capacity(self.behind.len().max(other.len()));
        let mut there = other.iter().copied().peekable();
        for mut here in self.behind.drain(..) {
            while let Some(earlier) = there.next_if(|t| t.0 < here.0) {
                both.push(earlier);
            }
            if let Some(same) = there.next_if(|t| t.0 == here.0) {
                here.1.meet(&same.1);
            }
            both.push(here);
        }
        both.extend(there);
        self.behind = both;
    }

    /// Changes the age of the accesses of these sites.
    pub(super) fn age(&mut self, sites: &Range<usize>, f: impl Fn(Age) -> Age) {
        let mut changed = false;
        for (key, _) in &mut self.behind {
            if sites.contains(&key.0) {
                let age = f(key.2);
                changed |= age != key.2;
                key.2 = age;
            }
        }
        if !changed {
            return;
        }
        // Some accesses may now have one key: they become one.
        self.behind.sort_by_key(|(key, _)| *key);
        self.behind.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1.meet(&next.1);
            }
            same
        });
    }
}
