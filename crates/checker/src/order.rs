//! Order of accesses: what each stream knows, and the last accesses to every place.
//!
//! Each stream has two clocks. Clock T states which operations of every stream are completed before
//! its next one, over any chain of signals; this knowledge is enough to rewrite a place. Clock D
//! states which remote writes are visible to it; such knowledge comes from the writer's own notify
//! and takes effect after `fence.acquire`. Positions count the operations of a stream from 1. The
//! module owns clocks, fences and shadow state. [`super::engine`] decides which operation touches
//! which place.

use super::chains::{Chains, Link};
use super::clock::{Clock, Recent};
use super::group::Group;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How an access completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Completion {
    /// Together with its operation.
    Local,
    /// At the next `fence.release` of the issuing stream.
    Put,
    /// At the next `fence.complete` of the issuing stream.
    Get,
}

const NOBODY: u32 = u32::MAX;
const NEVER: u32 = u32::MAX;

/// An access: stream (as the rank of the place sees it), position in that stream, operation, and
/// the fence that completes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessRecord {
    pub stream: u32,
    pub pos: u32,
    pub op: u32,
    mark: u32,
}

impl AccessRecord {
    const NONE: AccessRecord = AccessRecord { stream: NOBODY, pos: 0, op: 0, mark: 0 };

    pub(super) fn is_none(&self) -> bool {
        self.stream == NOBODY
    }

    pub(super) fn kind(&self) -> Completion {
        match self.mark & 3 {
            0 => Completion::Local,
            1 => Completion::Put,
            _ => Completion::Get,
        }
    }
}

/// A place: its last write, and the reads since.
#[derive(Clone, Debug)]
struct PlaceHistory {
    write: AccessRecord,
    reads: [AccessRecord; 2],
    /// Further reads. Few places have some, and there may be millions of places.
    #[expect(clippy::box_collection, reason = "a third of the size of a list, which is seldom there")]
    more: Option<Box<Vec<AccessRecord>>>,
}

impl PlaceHistory {
    /// Returns the reads since the last write.
    fn all_reads(&self) -> impl Iterator<Item = &AccessRecord> {
        self.reads.iter().chain(self.more.iter().flat_map(|more| more.iter()))
    }
}

/// Keeps the memory of a flat clock in the pool.
fn keep(pool: &mut Vec<Clock>, clock: Clock) {
    if let Clock::Flat(_) = clock {
        pool.push(clock);
    }
}

/// What the issuer of a notify knows of all streams.
#[derive(Debug)]
enum Knowledge {
    /// Clock T of the issuer.
    Clock(ToldClock),
    /// The notifies for which the issuer had waited.
    Chain(Link),
}

/// Clock T of an issuer. A rank that sends to many others before it waits tells all of them the
/// same about other ranks, so those notifies share one clock.
#[derive(Debug)]
struct ToldClock {
    /// What is known of the streams of other ranks; the entries of the own rank are 0.
    others: Rc<Clock>,
    /// The first stream of the own rank, and for each of its streams the position up to which the
    /// issuer may report it. The issuer's own entry is its last release.
    first: u32,
    own: Positions,
}

/// Positions of the streams of a rank.
#[derive(Clone, Debug)]
enum Positions {
    One(u32),
    Many(Box<[u32]>),
}

impl Positions {
    fn new(list: &[u32]) -> Positions {
        match list {
            [one] => Positions::One(*one),
            many => Positions::Many(many.into()),
        }
    }

    fn list(&self) -> &[u32] {
        match self {
            Positions::One(one) => std::slice::from_ref(one),
            Positions::Many(list) => list,
        }
    }

    fn list_mut(&mut self) -> &mut [u32] {
        match self {
            Positions::One(one) => std::slice::from_mut(one),
            Positions::Many(list) => list,
        }
    }
}

impl ToldClock {
    /// Returns the entry of stream `i`.
    fn get(&self, i: usize) -> u32 {
        let own = i.checked_sub(self.first as usize).and_then(|k| self.own.list().get(k));
        own.copied().unwrap_or_else(|| self.others.get(i))
    }
}

/// The knowledge that a notify transfers.
#[derive(Debug)]
pub(super) struct NotifySnapshot {
    knowledge: Knowledge,
    /// Position of its last release.
    release: u32,
    /// Position of the notify itself.
    pub pos: u32,
    /// What the issuer had done and knew to be done, regardless of fences.
    control: Option<Box<Clock>>,
}

/// The knowledge that a `record` transfers.
#[derive(Debug)]
pub(super) struct EventSnapshot {
    clock: Clock,
    /// For each stream of the rank, the position up to which a later notify may report it.
    told: Vec<u32>,
    direct: Clock,
    control: Option<Clock>,
}

#[derive(Debug)]
enum Pending {
    /// Writes of one stream up to a release.
    One(u32, u32),
    /// All writes of which another stream of the rank had been notified.
    Many(Clock),
}

/// Order state of a walked stream.
#[derive(Debug)]
struct Clocks {
    pos: u32,
    known: Clock,
    /// The clock that the notifies since the last change of `known` share.
    shared: Option<Rc<Clock>>,
    /// For each stream of the rank, the position up to which a notify of this stream may report it:
    /// what that stream released before its `record`, what this stream released after its `await`,
    /// or what came back through a peer. The stream's own entry is its last release.
    told: Vec<u32>,
    visible: Clock,
    /// Position of the latest notify of each stream that was waited for, whether released or not.
    heard: Clock,
    /// What is done on every stream, regardless of fences. It is kept only if some counter has a
    /// form that needs it.
    control: Option<Clock>,
    pending: Vec<Pending>,
    releases: Vec<u32>,
    completes: Vec<u32>,
    /// Position at which each call began.
    calls: Vec<u32>,
}

/// The stream that makes an access: a walked stream, moved by an element of the group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accessor {
    /// Index of the walked stream.
    pub si: usize,
    /// Element that takes the accessing rank to the walked rank.
    pub back: u64,
    /// The accessing stream, as the rank of the place sees it.
    pub stream: u32,
}

/// Two accesses that are not ordered, or not sufficiently.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conflict {
    pub code: &'static str,
    pub with: AccessRecord,
    /// Whether the other access is a write.
    pub wrote: bool,
    /// Whether the other access is known through third parties.
    pub indirect: bool,
}

/// Clocks and places of a run.
pub(super) struct Order<'g> {
    group: &'g Group,
    /// Number of streams per rank.
    width: usize,
    clocks: Vec<Clocks>,
    places: Vec<PlaceHistory>,
    pool: Vec<Clock>,
    recent: Recent,
    /// What streams know, in place of the clocks T.
    chains: Option<Chains>,
    /// Whether a search of the chains has found none. Nothing follows from that.
    undecided: Cell<bool>,
}

impl<'g> Order<'g> {
    /// Creates the state for `width` streams per rank and `places` places in all. With `control`,
    /// completed operations are tracked in addition to visible ones. With `chains`, chains of
    /// notifies take the place of the clocks T; every rank then has one stream, and there is no
    /// `control`.
    pub(super) fn new(
        group: &'g Group,
        width: usize,
        places: usize,
        control: bool,
        chains: bool,
    ) -> Order<'g> {
        let all = group.ranks as usize * width;
        let zero = if chains { Clock::Sparse(BTreeMap::new()) } else { Clock::new(all, group) };
        let clocks = (0..group.reps.len() * width)
            .map(|_| Clocks {
                pos: 0,
                known: zero.clone(),
                shared: None,
                told: vec![0; width],
                visible: zero.clone(),
                heard: zero.clone(),
                control: control.then(|| zero.clone()),
                pending: vec![],
                releases: vec![],
                completes: vec![],
                calls: vec![],
            })
            .collect();
        let empty = PlaceHistory { write: AccessRecord::NONE, reads: [AccessRecord::NONE; 2], more: None };
        Order {
            group,
            width,
            clocks,
            places: vec![empty; places],
            pool: vec![],
            recent: Recent::default(),
            chains: chains.then(|| Chains::new(group.reps.len() * width)),
            undecided: Cell::new(false),
        }
    }

    /// Checks whether the limited search of chains has failed. Conflicts found may then be none.
    pub(super) fn undecided(&self) -> bool {
        self.undecided.get()
    }

    /// Whether chains of notifies take the place of clocks.
    pub(super) fn by_chains(&self) -> bool {
        self.chains.is_some()
    }

    /// Checks whether a walked stream knows, over any chain of signals, that a stream in its frame
    /// has completed its operations up to position `upto`.
    fn knows_done(&self, si: usize, at: usize, upto: u32) -> bool {
        let Some(chains) = &self.chains else { return self.clocks[si].known.get(at) >= upto };
        let found = chains.known(self.group, si, at as u64, upto);
        if !found {
            self.undecided.set(true);
        }
        found
    }

    /// Advances a stream and returns its new position.
    pub(super) fn tick(&mut self, si: usize) -> u32 {
        let c = &mut self.clocks[si];
        c.pos += 1;
        c.pos
    }

    /// Records that a stream begins a call.
    pub(super) fn begin_call(&mut self, si: usize) {
        let next = self.clocks[si].pos + 1;
        self.clocks[si].calls.push(next);
    }

    /// Performs a release. It completes the puts and reads of its own stream and, of the other
    /// streams of its rank, everything that was over before the last `await` of them, because that
    /// came before this fence.
    pub(super) fn release(&mut self, si: usize, own: u32) {
        let pos = self.tick(si);
        let (width, first) = (self.width, own as usize / self.width * self.width);
        let c = &mut self.clocks[si];
        c.releases.push(pos);
        for k in 0..width {
            c.told[k] = if first + k == own as usize { pos } else { c.known.get(first + k) };
        }
    }

    pub(super) fn complete(&mut self, si: usize) {
        let pos = self.tick(si);
        self.clocks[si].completes.push(pos);
    }

    pub(super) fn acquire(&mut self, si: usize) {
        self.tick(si);
        let c = &mut self.clocks[si];
        for p in c.pending.drain(..) {
            match p {
                Pending::One(stream, upto) => c.visible.raise(stream as usize, upto),
                Pending::Many(list) => c.visible.join(self.group, 0, self.width, &list, &mut self.recent),
            }
        }
    }

    /// Returns the knowledge that a notify issued now transfers.
    pub(super) fn notify(&mut self, si: usize, own: u32) -> NotifySnapshot {
        let pos = self.tick(si);
        let first = own as usize / self.width * self.width;
        let told = self.clocks[si].told[own as usize - first];
        let knowledge = match &self.chains {
            Some(chains) => Knowledge::Chain(chains.link(si, told)),
            None => {
                let others = self.others(si, first);
                let own = Positions::new(&self.clocks[si].told);
                Knowledge::Clock(ToldClock { others, first: first as u32, own })
            }
        };
        let release = self.clocks[si].releases.last().copied().unwrap_or(0);
        NotifySnapshot { knowledge, release, pos, control: self.done(si, own).map(Box::new) }
    }

    /// Returns what a stream knows of the streams of other ranks. `first` is the first stream of
    /// its own rank.
    fn others(&mut self, si: usize, first: usize) -> Rc<Clock> {
        let c = &mut self.clocks[si];
        let (pool, width) = (&mut self.pool, self.width);
        let shared = c.shared.get_or_insert_with(|| {
            let mut clock = match pool.pop() {
                Some(mut old) => {
                    old.copy(&c.known);
                    old
                }
                None => c.known.clone(),
            };
            (first..first + width).for_each(|stream| clock.set(stream, 0));
            Rc::new(clock)
        });
        shared.clone()
    }

    /// Returns what is done at the current position of a stream, including the stream itself.
    fn done(&self, si: usize, own: u32) -> Option<Clock> {
        let c = &self.clocks[si];
        let mut control = c.control.clone()?;
        control.set(own as usize, c.pos);
        Some(control)
    }

    /// Records that a stream continues after everything that another stream, moved, had done.
    fn after(&mut self, si: usize, control: Option<&Clock>, moved: u64) {
        if let (Some(own), Some(theirs)) = (&mut self.clocks[si].control, control) {
            own.join(self.group, moved, self.width, theirs, &mut self.recent);
        }
    }

    /// Returns the position up to which a walked stream knows that a stream is done; both are in
    /// the frame of its rank.
    pub(super) fn knows(&self, si: usize, stream: u32) -> u32 {
        self.clocks[si].control.as_ref().map_or(0, |c| c.get(stream as usize))
    }

    /// Returns the position up to which the issuer of a notify knew a stream to be done. `back`
    /// translates the stream into the issuer's frame.
    pub(super) fn knew(&self, snap: &NotifySnapshot, back: u64, stream: u32) -> u32 {
        let Some(control) = &snap.control else { return 0 };
        control.get(self.seen(Accessor { si: 0, back, stream }, stream))
    }

    /// Records that a wait has ended: the knowledge that the notify transfers is available. `by` is
    /// the notifying stream as the waiting rank sees it; `moved` is the element that takes the
    /// walked rank to its rank.
    pub(super) fn heard(&mut self, si: usize, snap: &NotifySnapshot, by: u32, moved: u64) {
        self.learn(si, &snap.knowledge, moved);
        let c = &mut self.clocks[si];
        c.heard.raise(by as usize, snap.pos);
        c.pending.push(Pending::One(by, snap.release));
        self.after(si, snap.control.as_deref(), moved);
    }

    /// Takes over knowledge, moved by an element.
    fn learn(&mut self, si: usize, knowledge: &Knowledge, moved: u64) {
        match (knowledge, &mut self.chains) {
            (Knowledge::Chain(link), Some(chains)) => chains.heard(si, *link, moved),
            (Knowledge::Clock(told), None) => {
                self.returned(si, moved, told);
                let (group, width) = (self.group, self.width);
                let c = &mut self.clocks[si];
                // A clock that nothing else shares is used again.
                if let Some(clock) = c.shared.take().and_then(Rc::into_inner) {
                    keep(&mut self.pool, clock);
                }
                c.known.join(group, moved, width, &told.others, &mut self.recent);
                let rank = group.act(moved, u64::from(told.first) / width as u64) as usize;
                for (k, upto) in told.own.list().iter().enumerate() {
                    c.known.raise(rank * width + k, *upto);
                }
            }
            _ => unreachable!("all knowledge of a run has one form"),
        }
    }

    /// Returns the knowledge that a message sent now transfers: everything that this stream has
    /// done before, and knows.
    pub(super) fn send(&mut self, si: usize, own: u32) -> NotifySnapshot {
        let mut snap = self.notify(si, own);
        match &mut snap.knowledge {
            Knowledge::Clock(told) => told.own.list_mut()[(own - told.first) as usize] = snap.pos,
            Knowledge::Chain(link) => link.told = snap.pos,
        }
        snap
    }

    /// Records that a message is received: the knowledge that it transfers is available. It makes
    /// no data visible that was put into a window.
    pub(super) fn recv(&mut self, si: usize, snap: &NotifySnapshot) {
        self.tick(si);
        self.learn(si, &snap.knowledge, 0);
        self.after(si, snap.control.as_deref(), 0);
    }

    /// Records what a peer knows of the streams of this rank. The peer was notified of it, so it
    /// may be reported again.
    fn returned(&mut self, si: usize, moved: u64, theirs: &ToldClock) {
        if self.width == 1 {
            return;
        }
        let first = self.group.reps[si / self.width] as usize * self.width;
        for k in 0..self.width {
            // The stream of the walked rank, in the frame of the walked peer that `moved` takes to
            // the notifying peer.
            let who = Accessor { si, back: self.group.inverse(moved), stream: 0 };
            let upto = theirs.get(self.seen(who, (first + k) as u32));
            let told = &mut self.clocks[si].told[k];
            *told = (*told).max(upto);
        }
    }

    /// Returns the memory of a snapshot to the pool.
    pub(super) fn recycle(&mut self, snap: NotifySnapshot) {
        if let Knowledge::Clock(told) = snap.knowledge
            && let Some(clock) = Rc::into_inner(told.others)
        {
            keep(&mut self.pool, clock);
        }
    }

    /// Returns the knowledge that a `record` issued now transfers.
    pub(super) fn record(&mut self, si: usize, own: u32) -> EventSnapshot {
        let pos = self.tick(si);
        let c = &self.clocks[si];
        let mut clock = c.known.clone();
        clock.set(own as usize, pos);
        let told = c.told.clone();
        let mut direct = c.visible.clone();
        for p in &c.pending {
            match p {
                Pending::One(s, upto) => direct.raise(*s as usize, *upto),
                Pending::Many(list) => direct.join(self.group, 0, self.width, list, &mut self.recent),
            }
        }
        EventSnapshot { clock, told, direct, control: self.done(si, own) }
    }

    /// Records that an `await` has ended.
    pub(super) fn awaited(&mut self, si: usize, mark: &EventSnapshot) {
        self.tick(si);
        let c = &mut self.clocks[si];
        c.shared = None;
        c.known.join(self.group, 0, self.width, &mark.clock, &mut self.recent);
        c.told.iter_mut().zip(&mark.told).for_each(|(own, told)| *own = (*own).max(*told));
        c.pending.push(Pending::Many(mark.direct.clone()));
        self.after(si, mark.control.as_ref(), 0);
    }

    /// Creates an access by a stream at its current position.
    pub(super) fn access(&self, who: Accessor, kind: Completion, op: u32) -> AccessRecord {
        let c = &self.clocks[who.si];
        let mark = match kind {
            Completion::Local => 0,
            Completion::Put => (c.releases.len() as u32) << 2 | 1,
            Completion::Get => (c.completes.len() as u32) << 2 | 2,
        };
        AccessRecord { stream: who.stream, pos: c.pos, op, mark }
    }

    /// Returns the walked stream of which a stream is an image.
    fn walked(&self, stream: u32) -> usize {
        if self.group.trivial() {
            return stream as usize;
        }
        let (rank, k) = (stream as usize / self.width, stream as usize % self.width);
        self.group.split(rank as u64).0 * self.width + k
    }

    /// Returns a stream as the walked rank of `who` sees it.
    fn seen(&self, who: Accessor, stream: u32) -> usize {
        if who.back == 0 {
            return stream as usize;
        }
        let (rank, k) = (stream as usize / self.width, stream as usize % self.width);
        self.group.act(who.back, rank as u64) as usize * self.width + k
    }

    /// Returns the position at which an access is complete, as far as it is known.
    fn over(&self, a: &AccessRecord) -> u32 {
        let fence = (a.mark >> 2) as usize;
        match a.kind() {
            Completion::Local => a.pos,
            Completion::Put => {
                self.clocks[self.walked(a.stream)].releases.get(fence).copied().unwrap_or(NEVER)
            }
            Completion::Get => {
                self.clocks[self.walked(a.stream)].completes.get(fence).copied().unwrap_or(NEVER)
            }
        }
    }

    /// Returns the call in which an access was issued.
    pub(super) fn call_of(&self, a: &AccessRecord) -> usize {
        self.clocks[self.walked(a.stream)].calls.partition_point(|p| *p <= a.pos).saturating_sub(1)
    }

    /// Returns the conflict if nothing orders an earlier access before a write by `who` now.
    fn unordered(&self, who: Accessor, a: &AccessRecord, wrote: bool) -> Option<Conflict> {
        let conflict = |code| Some(Conflict { code, with: *a, wrote, indirect: false });
        if a.stream == who.stream {
            if a.kind() == Completion::Local || self.over(a) != NEVER {
                return None;
            }
            return conflict(if wrote && a.kind() == Completion::Put {
                self.rewrite(who, a)
            } else {
                "E350"
            });
        }
        let at = self.seen(who, a.stream);
        let c = &self.clocks[who.si];
        let over = self.over(a);
        if over != NEVER && self.knows_done(who.si, at, over) {
            return None;
        }
        let same_rank = a.stream as usize / self.width == who.stream as usize / self.width;
        if same_rank && a.kind() != Completion::Local && self.knows_done(who.si, at, a.pos) {
            return conflict("E350");
        }
        if c.heard.get(at) > a.pos {
            return conflict("E345");
        }
        conflict(self.rewrite(who, a))
    }

    /// Whether an access is complete before the current operation of a stream.
    pub(super) fn is_before(&self, who: Accessor, a: &AccessRecord) -> bool {
        self.unordered(who, a, true).is_none()
    }

    /// Returns the code of a rewrite that comes too early: E348 within a call, E349 from call to
    /// call.
    fn rewrite(&self, who: Accessor, a: &AccessRecord) -> &'static str {
        let now = self.clocks[who.si].calls.len().saturating_sub(1);
        if self.call_of(a) == now { "E348" } else { "E349" }
    }

    /// Returns the conflict if nothing makes an earlier write visible to `who` now.
    fn visible(&self, who: Accessor, a: &AccessRecord) -> Option<Conflict> {
        let conflict = |code, indirect| Some(Conflict { code, with: *a, wrote: true, indirect });
        if a.stream == who.stream {
            return if a.kind() == Completion::Local || self.over(a) != NEVER {
                None
            } else {
                conflict("E350", false)
            };
        }
        let at = self.seen(who, a.stream);
        let c = &self.clocks[who.si];
        let over = self.over(a);
        if a.stream as usize / self.width == who.stream as usize / self.width {
            if over != NEVER && self.knows_done(who.si, at, over) {
                return None;
            }
            let started = a.kind() != Completion::Local && self.knows_done(who.si, at, a.pos);
            return conflict(if started { "E350" } else { "E347" }, false);
        }
        if over != NEVER && c.visible.get(at) >= over {
            return None;
        }
        let told = |p: &Pending| match p {
            Pending::One(s, upto) if *s as usize == at => *upto,
            Pending::One(..) => 0,
            Pending::Many(list) => list.get(at),
        };
        if over != NEVER && c.pending.iter().map(told).max().unwrap_or(0) >= over {
            return conflict("E346", false);
        }
        if c.heard.get(at) > a.pos {
            return conflict("E345", false);
        }
        conflict("E347", over != NEVER && self.knows_done(who.si, at, over))
    }

    /// Returns the last write to a place.
    pub(super) fn last_write(&self, place: usize) -> Option<AccessRecord> {
        Some(self.places[place].write).filter(|w| !w.is_none())
    }

    /// Handles the begin of a call on the rank of a place: from then on the place holds nothing of
    /// an earlier call, so every read of an earlier call must be complete. Returns a read that is
    /// not.
    pub(super) fn forget(&self, who: Accessor, place: usize) -> Option<Conflict> {
        let p = &self.places[place];
        let now = self.clocks[who.si].calls.len().saturating_sub(1);
        let earlier = |r: &&AccessRecord| !r.is_none() && self.call_of(r) < now;
        p.all_reads().filter(earlier).find_map(|r| self.unordered(who, r, false))
    }

    /// Reads a place.
    pub(super) fn read(&mut self, who: Accessor, place: usize, acc: AccessRecord) -> Option<Conflict> {
        let w = self.places[place].write;
        let found = if w.is_none() { None } else { self.visible(who, &w) };
        let p = &mut self.places[place];
        let same = |r: &AccessRecord| r.stream == acc.stream && r.mark & 3 == acc.mark & 3;
        for r in &mut p.reads {
            if r.is_none() || same(r) {
                *r = acc;
                return found;
            }
        }
        let more = p.more.get_or_insert_default();
        match more.iter_mut().find(|r| same(r)) {
            Some(r) => *r = acc,
            None => more.push(acc),
        }
        found
    }

    /// Writes a place.
    pub(super) fn write(&mut self, who: Accessor, place: usize, acc: AccessRecord) -> Option<Conflict> {
        let p = &self.places[place];
        let mut found = if p.write.is_none() { None } else { self.unordered(who, &p.write, true) };
        for r in p.all_reads() {
            // The read of a `combine` is part of the same operation as its write.
            if found.is_some()
                || r.is_none()
                || (r.stream == acc.stream && r.pos == acc.pos && r.mark & 3 == 0)
            {
                continue;
            }
            found = self.unordered(who, r, false);
        }
        let p = &mut self.places[place];
        p.write = acc;
        p.reads = [AccessRecord::NONE; 2];
        if let Some(more) = &mut p.more {
            more.clear();
        }
        found
    }
}
