//! Chains of notifies: finds out what a walked stream knows of another rank by a search, where a
//! vector clock would have an entry for every rank.
//!
//! A clock makes the time of a proof proportional to ranks times waits, although only a few entries
//! of it are ever looked at. This module instead keeps the
//! notifies for which each walked stream has waited, and looks for a chain of notifies from one
//! operation to another when a question is asked. A chain that is found proves the order. If none
//! is found nothing follows, because the search is limited; the caller then repeats the run with
//! clocks (`docs/adr/071-chains-of-notifies.md`).
//!
//! The waits for the notifies of one peer are a *class*. A rank that waits for the same peer in
//! every round is at the end of a long chain whose notifies all belong to one class: the peer had
//! waited for its own peer, and so on around the ring. Such a chain is followed by many steps at
//! once, over the jump pointers of Myers (An applicative random-access stack, Information
//! Processing Letters 17, 1983).

use super::group::Group;
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;

/// The knowledge that a notify transfers: that of its issuer at that time.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The issuer, as a walked stream.
    pub stream: u32,
    /// Number of notifies for which the issuer had waited.
    pub heard: u32,
    /// Position up to which the issuer reports its own operations.
    pub told: u32,
}

/// A notify for which a stream has waited.
#[derive(Debug)]
struct Heard {
    link: Link,
    /// Number of notifies for which the waiting stream had waited before.
    before: u32,
    /// Number of notifies of the same class that the issuer had waited for, if the issuer is an
    /// image of the waiting stream. The last of them is the next one of the chain.
    next: u32,
    /// Index of a notify further along the chain, and the length of the chain.
    jump: u32,
    depth: u32,
}

/// The notifies of one peer for which a stream has waited, in this order.
#[derive(Debug)]
struct Class {
    /// The peer: a walked stream, moved by an element of the group.
    stream: u32,
    moved: u64,
    list: Vec<Heard>,
}

impl Class {
    /// Returns the index of the last notify among the first `heard` notifies of the stream.
    fn last(&self, heard: u32) -> Option<usize> {
        self.list.partition_point(|h| h.before < heard).checked_sub(1)
    }

    /// Returns the notify that is `steps` further along the chain than number `from`.
    fn along(&self, from: usize, steps: u64) -> Option<usize> {
        let depth = u64::from(self.list[from].depth).checked_sub(steps)?;
        let mut at = from;
        while u64::from(self.list[at].depth) > depth {
            let jump = self.list[at].jump as usize;
            at = if u64::from(self.list[jump].depth) >= depth {
                jump
            } else {
                self.list[at].next as usize - 1
            };
        }
        Some(at)
    }
}

/// The notifies for which one walked stream has waited.
#[derive(Debug, Default)]
struct History {
    heard: u32,
    classes: Vec<Class>,
}

/// The notifies for which all walked streams have waited. Every rank has one stream.
#[derive(Debug)]
pub struct Chains {
    histories: Vec<History>,
    /// Index of a class among those of a stream, by the stream and the peer.
    of: HashMap<(u32, u32, u64), u32, FxBuildHasher>,
}

/// Number of streams at which a search looks before it gives up.
const MOST_STATES: u32 = 64;

/// Number of classes of a stream that a search follows, the newest first.
const MOST_CLASSES: usize = 8;

impl Chains {
    /// Creates the histories of so many walked streams.
    pub fn new(streams: usize) -> Chains {
        Chains { histories: (0..streams).map(|_| History::default()).collect(), of: HashMap::default() }
    }

    /// Returns what a notify of a stream transfers that is issued now and reports the operations
    /// of the stream up to position `told`.
    pub fn link(&self, stream: usize, told: u32) -> Link {
        Link { stream: stream as u32, heard: self.histories[stream].heard, told }
    }

    /// Records that a stream has waited for a notify. The element `moved` takes the walked rank of
    /// the issuer to the issuer, in the frame of the walked rank that waited.
    pub fn heard(&mut self, stream: usize, link: Link, moved: u64) {
        let h = &mut self.histories[stream];
        let before = h.heard;
        h.heard += 1;
        let key = (stream as u32, link.stream, moved);
        let at = *self.of.entry(key).or_insert(h.classes.len() as u32) as usize;
        if at == h.classes.len() {
            h.classes.push(Class { stream: link.stream, moved, list: vec![] });
        }
        let class = &mut h.classes[at];
        let own = class.list.len() as u32;
        let next = if link.stream as usize == stream { class.last(link.heard) } else { None };
        let (jump, depth) = match next {
            None => (own, 0),
            Some(n) => {
                let depth_of = |i: usize| class.list[i].depth;
                let near = class.list[n].jump as usize;
                let far = class.list[near].jump as usize;
                let alike = depth_of(n) - depth_of(near) == depth_of(near) - depth_of(far);
                (if alike { far } else { n } as u32, depth_of(n) + 1)
            }
        };
        let next = next.map_or(0, |n| n as u32 + 1);
        class.list.push(Heard { link, before, next, jump, depth });
    }

    /// Checks whether a chain of notifies tells a walked stream that the stream of another rank has
    /// done its operations up to position `upto`. The rank is in the frame of the walked rank. A
    /// chain may exist even if the result is false.
    pub fn known(&self, group: &Group, stream: usize, rank: u64, upto: u32) -> bool {
        let mut states = MOST_STATES;
        self.search(group, (stream, self.histories[stream].heard), rank, upto, &mut states)
    }

    /// Searches from a stream after its first `heard` waits.
    fn search(
        &self,
        group: &Group,
        (stream, heard): (usize, u32),
        rank: u64,
        upto: u32,
        states: &mut u32,
    ) -> bool {
        let Some(left) = states.checked_sub(1) else { return false };
        *states = left;
        let h = &self.histories[stream];
        let (walked, element) = group.split(rank);
        if let Some(c) = self.of.get(&(stream as u32, walked as u32, element)) {
            let class = &h.classes[*c as usize];
            if class.last(heard).is_some_and(|i| class.list[i].link.told >= upto) {
                return true;
            }
        }
        // First as far as a chain leads straight there, then notify by notify.
        for straight in [true, false] {
            for class in h.classes.iter().rev().take(MOST_CLASSES) {
                let Some(last) = class.last(heard) else { continue };
                let own = class.stream as usize == stream;
                let steps = match straight {
                    true if own => group.homeward(class.moved, rank),
                    true => vec![],
                    false => vec![1],
                };
                for n in steps {
                    let Some(at) = class.along(last, n - 1) else { continue };
                    let link = class.list[at].link;
                    let there = group.act(group.inverse(group.power(class.moved, n)), rank);
                    let reached = there == group.reps[class.stream as usize];
                    if reached && link.told >= upto {
                        return true;
                    }
                    let from = (link.stream as usize, link.heard);
                    if !reached && self.search(group, from, there, upto, states) {
                        return true;
                    }
                }
            }
        }
        false
    }
}
