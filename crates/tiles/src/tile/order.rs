//! Order analysis: the order that a kernel's flags, barriers and fences establish on all its paths.
//!
//! The module owns the abstract state (which accesses may have happened, and which pipes are
//! certain to start after each of them), its joins and fixed points over loops, and the findings.
//! Pass `flags` inserts synchronisation at the findings; the verifier reports them.
//!
//! The analysis uses these rules:
//!
//! * A pipe executes in text order, and may start an operation before an earlier one has completed.
//! * A flag from `p` to `q` is set once everything issued to `p` before has completed, and `q`
//!   starts nothing issued later before the flag is set.
//! * A barrier of a pipe orders that pipe in the same way; a barrier of all pipes orders all.
//! * A loop may run no iteration.
//! * An event may be set again only once its last wait is known to have completed.
//! * A notify to this rank is from one core to another. The notified cores rely on it also for data
//!   that others reported to this core, and this data is in memory for them only after a barrier of
//!   all pipes and a `dsb`.

use super::hazard::{Access, Age, HazardProgram, Node, PipeEvent, Touched};
use super::path::Path;
use super::{Barrier, Kernel, Op, Pipe, RANK, TileId};
use kbc_ir::expr::Expr;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A violation of the order on some path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// An access that conflicts with an earlier one and is not certain to start after it.
    Unordered {
        /// Path of the earlier operation.
        earlier: Path,
        /// Pipe of the earlier operation.
        from: Pipe,
        /// Pipe of the later operation.
        to: Pipe,
        /// Whether the earlier operation writes.
        wrote: bool,
        /// Whether the later operation writes.
        writes: bool,
        /// Index of the access among those of the later operation.
        access: usize,
    },
    /// A notify without a barrier of all pipes and a `dsb` between it and an earlier access.
    Unpublished {
        /// Whether the barrier is there and only the `dsb` is missing.
        drained: bool,
    },
    /// An operation on another pipe that may start before an earlier wait has completed.
    Unacquired {
        /// Paths of these waits.
        waits: Vec<Path>,
    },
    /// An event that is set twice without a wait between.
    SetTwice(PipeEvent),
    /// A wait for an event that is not set.
    NotSet(PipeEvent),
    /// An event that is set where its last wait may not have completed.
    SetEarly(PipeEvent),
    /// Events that are set on one path to this place and not on another.
    Differ(Vec<PipeEvent>),
    /// Events that are still set at the end of the kernel.
    Left(Vec<PipeEvent>),
    /// A fence of the schedule, which pass `fences` should have replaced.
    Fence,
}

/// A fault and its place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// Path of the operation; empty for the end of the kernel.
    pub at: Path,
    /// The fault.
    pub fault: Fault,
}

/// A set of pipes as bits.
type Pipes = u8;
/// Returns the pipes of a core that touch memory.
fn data(kernel: &Kernel) -> Pipes {
    let scalar = super::path::ops(kernel).iter().any(|(_, op)| matches!(op, Op::Choose { .. }));
    kernel.core.pipes().iter().filter(|p| **p != Pipe::Scalar || scalar).fold(0, |all, p| all | bit(*p))
}

fn bit(pipe: Pipe) -> Pipes {
    1 << (pipe as u8)
}

/// An access that may have happened: its site, its index among the accesses of the site, and its
/// age.
type Key = (usize, usize, Age);

/// What is certain about an access on all paths.
#[derive(Clone, Copy, PartialEq, Debug)]
struct AccessState {
    /// Pipes whose later operations start after the access.
    after: Pipes,
    /// Events after whose wait the waiting pipe is ordered after the access.
    carried: Events,
}

/// A set of events as bits: for each pipe that sets events, eight for each pipe that waits.
type Events = [u64; Pipe::ALL.len()];

/// How far accesses are published, which a notify requires of them: not drained, drained by a
/// barrier of all pipes, or visible in memory after a `dsb`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Publish {
    Dirty,
    Drained,
    Published,
}

#[derive(Clone, PartialEq, Debug)]
struct State {
    behind: BTreeMap<Key, AccessState>,
    set: BTreeSet<PipeEvent>,
    publish: Publish,
    /// The same for data that waits have reported: a notify to another core of this rank publishes
    /// it too.
    told: Publish,
    /// Sites of waits that no barrier of all pipes has followed yet.
    waits: BTreeSet<usize>,
}

impl PipeEvent {
    /// Returns the bit of the event among those of the pipe that sets it; no bit if the number is
    /// above those that a pair of pipes has.
    fn mask(self) -> u64 {
        if self.number < 8 { 1 << ((self.to as u32) * 8 + u32::from(self.number)) } else { 0 }
    }

    fn is_in(self, all: &Events) -> bool {
        all[self.from as usize] & self.mask() != 0
    }

    fn put(self, all: &mut Events) {
        all[self.from as usize] |= self.mask();
    }

    fn take(self, all: &mut Events) {
        all[self.from as usize] &= !self.mask();
    }
}

/// Returns all violations of the order in a kernel: first those at its end, then by place.
pub fn analyse(kernel: &Kernel) -> Vec<Finding> {
    let program = HazardProgram::new(kernel);
    let mut walk = Walk { program: &program, data: data(kernel), found: BTreeSet::new(), silent: false };
    let start = State {
        behind: BTreeMap::new(),
        set: BTreeSet::new(),
        publish: Publish::Published,
        told: Publish::Published,
        waits: BTreeSet::new(),
    };
    let end = walk.block(&program.root, start);
    let mut found = walk.found;
    if !end.set.is_empty() {
        found.insert(Finding { at: vec![], fault: Fault::Left(end.set.into_iter().collect()) });
    }
    found.into_iter().collect()
}

struct Walk<'p> {
    program: &'p HazardProgram<'p>,
    data: Pipes,
    found: BTreeSet<Finding>,
    silent: bool,
}

impl Walk<'_> {
    fn report(&mut self, site: usize, fault: Fault) {
        if !self.silent {
            self.found.insert(Finding { at: self.program.sites[site].path.clone(), fault });
        }
    }

    fn block(&mut self, list: &[Node], mut state: State) -> State {
        for node in list {
            state = match node {
                Node::Op(site) => self.op(*site, state),
                Node::If(sites, a, b) => {
                    let one = self.block(a, state.clone());
                    let two = self.block(b, state);
                    let mut out = self.join(sites, one, &two);
                    out.age(sites, |_| Age::Any);
                    out
                }
                Node::Perhaps(sites, body) => {
                    let there = self.block(body, state.clone());
                    self.join(sites, state, &there)
                }
                Node::Loop(id, sites, body) => self.repeat(*id, sites, body, state),
            };
        }
        state
    }

    /// Analyses a loop by a fixed point. The state at its head holds before every iteration and
    /// after the last one.
    fn repeat(&mut self, id: usize, sites: &Range<usize>, body: &[Node], entry: State) -> State {
        let outer = std::mem::replace(&mut self.silent, true);
        let entered = entry.set.clone();
        let mut head = entry;
        loop {
            let next = self.again(id, sites, body, &head);
            if next == head {
                break;
            }
            head = next;
        }
        self.silent = outer;
        // The events that are set at entry and those that an iteration leaves set must be the same.
        if head.set != entered && !sites.is_empty() {
            let differ = head.set.symmetric_difference(&entered).copied().collect();
            self.report(sites.start, Fault::Differ(differ));
        }
        let mut out = self.again(id, sites, body, &head);
        out.age(sites, |_| Age::Any);
        out
    }

    fn again(&mut self, id: usize, sites: &Range<usize>, body: &[Node], head: &State) -> State {
        let mut back = self.block(body, head.clone());
        back.age(sites, |age| match age {
            Age::Fresh => Age::Crossed(id),
            Age::Crossed(l) if l == id => age,
            _ => Age::Any,
        });
        self.join(sites, head.clone(), &back)
    }

    fn join(&mut self, sites: &Range<usize>, mut one: State, two: &State) -> State {
        if one.set != two.set && !sites.is_empty() {
            let differ = one.set.symmetric_difference(&two.set).copied().collect();
            self.report(sites.start, Fault::Differ(differ));
        }
        one.set.extend(two.set.iter().copied());
        for (key, known) in &two.behind {
            one.meet(*key, *known);
        }
        one.publish = one.publish.min(two.publish);
        one.told = one.told.min(two.told);
        one.waits.extend(two.waits.iter().copied());
        one
    }

    fn op(&mut self, site: usize, mut state: State) -> State {
        let op = self.program.sites[site].op;
        match op {
            Op::Barrier(Barrier::All) => {
                state.behind.clear();
                state.waits.clear();
                state.publish = state.publish.max(Publish::Drained);
                state.told = state.told.max(Publish::Drained);
            }
            Op::Barrier(Barrier::Pipe(p)) => {
                for (key, known) in &mut state.behind {
                    if self.program.sites[key.0].op.acts_on() == Some(*p) {
                        known.after |= bit(*p);
                    }
                }
            }
            Op::MemoryBarrier => {
                for p in [&mut state.publish, &mut state.told] {
                    if *p == Publish::Drained {
                        *p = Publish::Published;
                    }
                }
            }
            Op::SetFlag { from, to, event } => {
                self.set(site, self.program.sites[site].event(*from, *to, *event), &mut state);
            }
            Op::WaitFlag { from, to, event } => {
                self.wait(site, self.program.sites[site].event(*from, *to, *event), &mut state);
            }
            Op::Notify { peer, .. } => {
                let core = *peer == Expr::var(RANK);
                let least = if core { state.publish.min(state.told) } else { state.publish };
                if least != Publish::Published {
                    self.report(site, Fault::Unpublished { drained: least == Publish::Drained });
                }
            }
            Op::Wait { .. } => {
                state.told = Publish::Dirty;
                state.waits.insert(site);
            }
            Op::Release | Op::Acquire | Op::Complete => self.report(site, Fault::Fence),
            Op::Load { .. }
            | Op::Store { .. }
            | Op::Vector { .. }
            | Op::Select { .. }
            | Op::Convert { .. }
            | Op::Reduce { .. }
            | Op::Expand { .. }
            | Op::Index { .. }
            | Op::Choose { .. }
            | Op::LoadRow { .. }
            | Op::LoadBlock { .. }
            | Op::Move { .. }
            | Op::Matmul { .. }
            | Op::StoreBlock { .. } => {
                self.access(site, &mut state);
            }
        }
        state
    }

    fn access(&mut self, site: usize, state: &mut State) {
        let program = self.program;
        let here = &program.sites[site];
        let Some(pipe) = here.op.acts_on() else { return };
        if !state.waits.is_empty() {
            let waits =
                std::mem::take(&mut state.waits).iter().map(|w| program.sites[*w].path.clone()).collect();
            self.report(site, Fault::Unacquired { waits });
        }
        for (i, later) in here.accesses.iter().enumerate() {
            for (key, known) in &mut state.behind {
                let there = &program.sites[key.0];
                let earlier = &there.accesses[key.1];
                let ordered = known.after & bit(pipe) != 0;
                if ordered || !(earlier.write || later.write) || !program.can_conflict(earlier, key.2, later)
                {
                    continue;
                }
                // Report each conflict once: from here on, treat the accesses as ordered.
                known.after |= bit(pipe);
                let (wrote, writes) = (earlier.write, later.write);
                let from = there.op.acts_on().unwrap_or(Pipe::Scalar);
                let earlier = there.path.clone();
                self.report(site, Fault::Unordered { earlier, from, to: pipe, wrote, writes, access: i });
            }
        }
        // Every access to a tile conflicts with a write of it. The earlier accesses to this tile
        // are ordered before this write, so whatever starts after the write starts after them as
        // well.
        let tile = |a: &Access| if let Touched::Tile(t, other) = a.touched { Some((t, other)) } else { None };
        let written: Vec<(TileId, bool)> =
            here.accesses.iter().filter(|a| a.write).filter_map(tile).collect();
        let over = |a: &Access| tile(a).is_some_and(|t| written.contains(&t));
        if !written.is_empty() {
            state.behind.retain(|key, _| !over(&program.sites[key.0].accesses[key.1]));
        }
        for (i, access) in here.accesses.iter().enumerate() {
            if over(access) && !access.write {
                continue;
            }
            state.behind.insert((site, i, Age::Fresh), AccessState { after: 0, carried: Events::default() });
        }
        if matches!(
            here.op,
            Op::Load { .. }
                | Op::LoadRow { .. }
                | Op::Store { .. }
                | Op::LoadBlock { .. }
                | Op::StoreBlock { .. }
        ) {
            state.publish = Publish::Dirty;
        }
    }

    fn set(&mut self, site: usize, event: PipeEvent, state: &mut State) {
        if !state.set.insert(event) {
            self.report(site, Fault::SetTwice(event));
        }
        let program = self.program;
        let from = bit(event.from);
        let mut early = false;
        state.behind.retain(|key, known| {
            let there = &program.sites[key.0];
            let last = matches!(there.accesses[key.1].touched, Touched::Event(e) if e == event);
            early |= last && known.after & from == 0;
            if there.op.acts_on() == Some(event.from) || known.after & from != 0 {
                event.put(&mut known.carried);
            } else {
                event.take(&mut known.carried);
            }
            !last
        });
        if early {
            self.report(site, Fault::SetEarly(event));
        }
    }

    fn wait(&mut self, site: usize, event: PipeEvent, state: &mut State) {
        if !state.set.remove(&event) {
            self.report(site, Fault::NotSet(event));
        }
        for known in state.behind.values_mut() {
            if event.is_in(&known.carried) {
                known.after |= bit(event.to);
                event.take(&mut known.carried);
            }
        }
        state.behind.insert((site, 0, Age::Fresh), AccessState { after: 0, carried: Events::default() });
        // Drop accesses after which every pipe that touches memory is ordered: nothing can conflict
        // with them. Waits are kept, because a later set must be ordered after them.
        let event = |key: &Key| matches!(self.program.sites[key.0].op, Op::WaitFlag { .. });
        let data = self.data;
        state.behind.retain(|key, known| known.after & data != data || event(key));
    }
}

impl State {
    /// Adds an access of another path: only what is certain on both paths remains certain.
    fn meet(&mut self, key: Key, known: AccessState) {
        self.behind
            .entry(key)
            .and_modify(|k| {
                k.after &= known.after;
                k.carried.iter_mut().zip(known.carried).for_each(|(a, b)| *a &= b);
            })
            .or_insert(known);
    }

    /// Changes the age of the accesses of these sites.
    fn age(&mut self, sites: &Range<usize>, f: impl Fn(Age) -> Age) {
        let keys: Vec<Key> =
            self.behind.keys().filter(|k| sites.contains(&k.0) && f(k.2) != k.2).copied().collect();
        for key in keys {
            if let Some(known) = self.behind.remove(&key) {
                self.meet((key.0, key.1, f(key.2)), known);
            }
        }
    }
}
