//! Walk of the order analysis over the statements of a kernel: states, their joins, and fixed
//! points of loops.

use super::super::hazard::{Access, Age, HazardProgram, Node, PipeEvent, Touched};
use super::super::path;
use super::super::{Barrier, Kernel, Op, Pipe, RANK, TileId};
use super::faults::{Fault, Finding};
use super::state::{Key, Pipes, Publish, State, bit};
use kbc_ir::expr::Expr;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// Returns the pipes of a core that touch memory.
fn data(kernel: &Kernel) -> Pipes {
    let scalar = path::ops(kernel).iter().any(|(_, op)| matches!(op, Op::Choose { .. }));
    kernel.core.pipes().iter().filter(|p| **p != Pipe::Scalar || scalar).fold(0, |all, p| all | bit(*p))
}

/// Returns the finding of a kernel that ends in this state with events set.
pub(super) fn left(end: State) -> Option<Finding> {
    let events: Vec<PipeEvent> = end.set.into_iter().collect();
    (!events.is_empty()).then_some(Finding { at: vec![], fault: Fault::Left(events) })
}

/// What all walks of one kernel share.
pub(super) struct Facts<'k> {
    pub(super) program: HazardProgram<'k>,
    /// Pipes that touch memory.
    data: Pipes,
    /// By site, whether the operation counts as absent.
    pub(super) absent: Vec<bool>,
    /// Whether two accesses to memory can conflict, for those that have been asked about.
    conflicts: RefCell<HashMap<(Key, usize, usize), bool>>,
}

impl<'k> Facts<'k> {
    pub(super) fn new(kernel: &'k Kernel) -> Facts<'k> {
        let program = HazardProgram::new(kernel);
        let absent = vec![false; program.sites.len()];
        Facts { program, data: data(kernel), absent, conflicts: RefCell::default() }
    }

    /// Checks whether an earlier access conflicts with an access of a site, by its number there.
    fn can_conflict(&self, earlier: Key, site: usize, access: usize) -> bool {
        let sites = &self.program.sites;
        let (one, two) = (&sites[earlier.0].accesses[earlier.1], &sites[site].accesses[access]);
        if matches!((&one.touched, &two.touched), (Touched::Tile(..) | Touched::Event(_), _)) {
            return self.program.can_conflict(one, earlier.2, two);
        }
        let mut known = self.conflicts.borrow_mut();
        *known.entry((earlier, site, access)).or_insert_with(|| {
            !self.program.never_twice(earlier.0, site) && self.program.can_conflict(one, earlier.2, two)
        })
    }
}

/// A walk over statements, and what it has found.
pub(super) struct Walk<'f, 'k> {
    pub(super) facts: &'f Facts<'k>,
    pub(super) found: BTreeSet<Finding>,
}

impl Walk<'_, '_> {
    fn report(&mut self, site: usize, fault: Fault) {
        self.found.insert(Finding { at: self.facts.program.sites[site].path.clone(), fault });
    }

    pub(super) fn block(&mut self, list: &[Node], mut state: State) -> State {
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
        let outside = std::mem::take(&mut self.found);
        let entered = entry.set.clone();
        let mut head = entry;
        loop {
            // Only findings of the fixed point count.
            self.found.clear();
            let next = self.again(id, sites, body, &head);
            if next == head {
                break;
            }
            head = next;
        }
        self.found.extend(outside);
        // The events that are set at entry and those that an iteration leaves set must be the same.
        if head.set != entered && !sites.is_empty() {
            let differ = head.set.symmetric_difference(&entered).copied().collect();
            self.report(sites.start, Fault::Differ(differ));
        }
        head.age(sites, |_| Age::Any);
        head
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
        one.meet(&two.behind);
        one.publish = one.publish.min(two.publish);
        one.told = one.told.min(two.told);
        one.waits.extend(two.waits.iter().copied());
        one
    }

    fn op(&mut self, site: usize, mut state: State) -> State {
        let program = &self.facts.program;
        if self.facts.absent[site] {
            return state;
        }
        match program.sites[site].op {
            Op::Barrier(Barrier::All) => {
                state.behind.clear();
                state.waits.clear();
                state.publish = state.publish.max(Publish::Drained);
                state.told = state.told.max(Publish::Drained);
            }
            Op::Barrier(Barrier::Pipe(p)) => {
                for (key, known) in &mut state.behind {
                    if program.sites[key.0].op.acts_on() == Some(*p) {
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
                self.set(site, program.sites[site].event(*from, *to, *event), &mut state);
            }
            Op::WaitFlag { from, to, event } => {
                self.wait(site, program.sites[site].event(*from, *to, *event), &mut state);
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
            // Nothing of the task comes after it.
            Op::Defer { .. } => {}
            Op::Release | Op::Acquire | Op::Complete => self.report(site, Fault::Fence),
            Op::Load { .. }
            | Op::Store { .. }
            | Op::Vector { .. }
            | Op::Select { .. }
            | Op::Convert { .. }
            | Op::Reduce { .. }
            | Op::Expand { .. }
            | Op::Spread { .. }
            | Op::LoadRows { .. }
            | Op::StoreRows { .. }
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
        let program = &self.facts.program;
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
                // The matrix unit executes its operations one after another.
                let unit = pipe == Pipe::Matmul && there.op.acts_on() == Some(pipe);
                let ordered = unit || known.after & bit(pipe) != 0;
                if ordered || !(earlier.write || later.write) || !self.facts.can_conflict(*key, site, i) {
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
            state.behind.retain(|(key, _)| !over(&program.sites[key.0].accesses[key.1]));
        }
        for (i, access) in here.accesses.iter().enumerate() {
            if over(access) && !access.write {
                continue;
            }
            state.happens((site, i, Age::Fresh));
        }
        if matches!(
            here.op,
            Op::Load { .. }
                | Op::LoadRow { .. }
                | Op::LoadRows { .. }
                | Op::Store { .. }
                | Op::StoreRows { .. }
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
        let program = &self.facts.program;
        let from = bit(event.from);
        let mut early = false;
        state.behind.retain_mut(|(key, known)| {
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
        for (_, known) in &mut state.behind {
            if event.is_in(&known.carried) {
                known.after |= bit(event.to);
                event.take(&mut known.carried);
            }
        }
        state.happens((site, 0, Age::Fresh));
        // Drop accesses after which every pipe that touches memory is ordered: nothing can conflict
        // with them. Waits are kept, because a later set must be ordered after them.
        let program = &self.facts.program;
        let event = |key: &Key| matches!(program.sites[key.0].op, Op::WaitFlag { .. });
        let data = self.facts.data;
        state.behind.retain(|(key, known)| known.after & data != data || event(key));
    }
}
